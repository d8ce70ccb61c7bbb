/* Programs that this client gave to the daemon. */
#include "client/program/programs.h"

#include "client/script/script.h"
#include "proto/program/code.h"
#include "proto/program/picture.h"
#include "proto/program/prim.h"
#include "proto/program/text.h"
#include "proto/program/type.h"
#include "proto/program/verify.h"
#include "proto/program/wire.h"
#include "proto/wire/record.h"

#include <stdlib.h>

enum {
    MOST_IN_LISTS = 1024, /* tensors that come in one list, whose length nobody knows before */
    MOST_ARRAYS = 4095    /* of a record's outputs */
};

/* ---- what it returns, and writes */

static void count(td_program *p, uint32_t type) /* NOLINT(misc-no-recursion): as deep as the type */
{
    int before = p->narrays;
    switch (td_type_kind_of(p->ir, type)) {
    case TD_T_TENSOR: p->narrays++; return;
    case TD_T_TUPLE:
        for (uint32_t k = 0; k < td_type_parts(p->ir, type) && p->narrays <= MOST_ARRAYS; k++)
            count(p, td_type_part(p->ir, type, k));
        return;
    case TD_T_LIST:
    case TD_T_DICT:
        count(p, td_type_part(p->ir, type, td_type_parts(p->ir, type) - 1));
        if (p->narrays > before) p->narrays = before + MOST_IN_LISTS;
        break;
    case TD_T_OPTIONAL: count(p, td_type_part(p->ir, type, 0)); break;
    default: break;
    }
    p->exactly = false;
}

/* How often each value is used; NULL without memory. */
static uint32_t *count_uses(const td_ir *ir)
{
    uint32_t *uses = calloc((size_t)ir->nvalues + 1, sizeof *uses);
    for (uint32_t k = 0; uses && k < ir->nargs; k++) uses[ir->args[k]]++;
    return uses;
}

/* A list that is written with its items, and only returned: nothing is put into it. TD_IR_NONE: it is another one. */
static uint32_t length_of(const td_ir *ir, const uint32_t *uses, uint32_t value)
{
    uint32_t def = ir->values[value].def;
    if (def & TD_IR_PARAM || !uses || uses[value] != 1) return TD_IR_NONE;
    if (ir->nodes[def].op == TD_PRIM_AUTOGRAD_GRAD || ir->nodes[def].op == TD_PRIM_AUTOGRAD_GRAD_OR_NONE) {
        uint32_t inputs = td_ir_in(ir, def, 2), from = ir->values[inputs].def;
        return from & TD_IR_PARAM || uses[inputs] != 1 || ir->nodes[from].op != TD_PRIM_LISTCONSTRUCT
                   ? TD_IR_NONE
                   : ir->nodes[from].nin;
    }
    return ir->nodes[def].op == TD_PRIM_LISTCONSTRUCT ? ir->nodes[def].nin : TD_IR_NONE;
}

/* Room for the tensors of what is returned; of lists as far as their lengths can be seen. As deep as the type. */
static void count_value(td_program *p, const uint32_t *uses, uint32_t value) /* NOLINT(misc-no-recursion) */
{
    uint32_t def = p->ir->values[value].def, type = p->ir->values[value].type, n = length_of(p->ir, uses, value);
    int before = p->narrays;
    if (!(def & TD_IR_PARAM) && p->ir->nodes[def].op == TD_PRIM_TUPLECONSTRUCT) {
        for (uint32_t k = 0; k < p->ir->nodes[def].nin && p->narrays <= MOST_ARRAYS; k++)
            count_value(p, uses, td_ir_in(p->ir, def, k));
        return;
    }
    count(p, type);
    if (td_type_kind_of(p->ir, type) != TD_T_LIST || n > MOST_IN_LISTS) return;
    type = td_type_part(p->ir, type, 0);
    if (td_type_kind_of(p->ir, type) == TD_T_OPTIONAL) type = td_type_part(p->ir, type, 0);
    if (td_type_kind_of(p->ir, type) == TD_T_TENSOR) p->narrays = before + (int)n;
}

static bool writes(const td_ir *ir)
{
    for (uint32_t n = 0; n < ir->nnodes; n++) {
        const td_op *op = td_ir_row(ir->nodes[n].op);
        if (op && (op->mutates || ir->nodes[n].op & TD_IR_INPLACE)) return true;
    }
    return false;
}

/* It may look at, and write, all that gradients lead to. */
static bool reaches(const td_ir *ir)
{
    for (uint32_t n = 0; n < ir->nnodes; n++) {
        const td_prim *prim = td_prim_by_id(ir->nodes[n].op);
        if (prim && prim->flags & TD_PRF_REACHES) return true;
    }
    return false;
}

/* Was it made by this program? Of what comes through a block, a list or a function that is not said. */
static bool fresh(const td_ir *ir, uint32_t value)
{
    for (;;) {
        uint32_t def = ir->values[value].def;
        if (def & TD_IR_PARAM) return false;
        const td_ir_node *n = &ir->nodes[def];
        const td_op *op = td_ir_row(n->op);
        if (!op || op->compose || op->mutates) return false;
        if (!(n->op & TD_IR_INPLACE) && !(op->flags & TD_OF_VIEW)) return true;
        value = ir->args[n->in];
    }
}

static bool takes_tensors(const td_ir *ir, const td_ir_node *n, uint32_t from)
{
    for (uint32_t k = from; k < n->nin; k++) {
        td_type_kind kind = td_type_kind_of(ir, ir->values[ir->args[n->in + k]].type);
        if (kind == TD_T_TENSOR || kind == TD_T_LIST || kind == TD_T_OPTIONAL) return true;
    }
    return false;
}

/* acc.add_(w * w): acc has a grad_fn from then on. */
static bool enters(const td_ir *ir)
{
    for (uint32_t k = 0; k < ir->nnodes; k++) {
        const td_ir_node *n = &ir->nodes[k];
        if (!td_ir_row(n->op) || !(n->op & TD_IR_INPLACE) || n->mode & (TD_RM_GRAD_OFF | TD_RM_INFERENCE)) continue;
        if (takes_tensors(ir, n, 1) && !fresh(ir, ir->args[n->in])) return true;
    }
    return false;
}

static bool prints(const td_ir *ir)
{
    for (uint32_t n = 0; n < ir->nnodes; n++)
        if (ir->nodes[n].op == (TD_IR_PRIM | TD_PRIM_PRINT)) return true;
    return false;
}

static bool look_at(td_program *p)
{
    const td_ir_block *graph = &p->ir->blocks[p->ir->functions[0].block];
    p->exactly = graph->nrets > 0;
    uint32_t *uses = count_uses(p->ir);
    for (uint32_t k = 0; k < graph->nrets && p->narrays <= MOST_ARRAYS; k++)
        count_value(p, uses, p->ir->args[graph->ret + k]);
    free(uses);
    p->reaches = reaches(p->ir);
    p->writes = p->reaches || writes(p->ir);
    p->enters = enters(p->ir);
    p->prints = prints(p->ir);
    if (p->narrays <= MOST_ARRAYS) return true;
    if (p->exactly) return false;
    p->narrays = MOST_ARRAYS;
    return true;
}

/* ---- giving it to the daemon */

static int send_new(td_program *p)
{
    td_client *c = p->client;
    td_error e = {0};
    Td__Wire__Call call;
    Td__Wire__ProgramNew q;
    td__wire__call__init(&call);
    td__wire__program_new__init(&q);
    uint32_t *ids = malloc(((size_t)p->ncaptured + 1) * sizeof *ids);
    q.ir.data = ids ? td_ir_encode(p->ir, &q.ir.len, &e) : NULL;
    if (!q.ir.data) {
        free(ids);
        return e.code ? td_raise_error(&e, "program_read", NULL)
                      : td_raise(TD_E_SYSTEM, "program_read", "no memory to send a program");
    }
    for (int k = 0; k < p->ncaptured; k++) ids[k] = p->captured[k]->id;
    q.program = p->id = ++c->program.next;
    q.n_captured = (size_t)p->ncaptured;
    q.captured = ids;
    call.program_new = &q;
    td_reply_wait w = {0};
    int rc = td_ask_and_wait(c, &call, -1, &w, "program_read");
    free(q.ir.data);
    free(ids);
    return rc;
}

void td_program_drop(td_program *p)
{
    td_ir_unref(p->ir);
    free(p->captured);
    free(p);
}

td_program *td_program_make(td_client *c, td_ir *ir, td_list captured, const char *op)
{
    td_program *p = calloc(1, sizeof *p);
    td_array **kept = calloc((size_t)captured.n + 1, sizeof(td_array *));
    if (!p || !kept) {
        free(p);
        free(kept);
        td_raise(TD_E_SYSTEM, op, "no memory for a program");
        return NULL;
    }
    *p = (td_program){.client = c, .ir = td_ir_ref(ir), .ncaptured = captured.n, .captured = kept};
    for (int k = 0; k < captured.n; k++) kept[k] = captured.at[k];
    if (look_at(p)) return p;
    td_program_drop(p);
    td_raise(TD_E_UNSUPPORTED, op, "a program returns at most %d tensors", MOST_ARRAYS);
    return NULL;
}

td_program *td_program_give(td_client *c, td_ir *ir, td_list captured, const char *op)
{
    td_program *p = ir ? td_program_make(c, ir, captured, op) : NULL;
    td_ir_unref(ir);
    if (!p) return NULL;
    int rc = td_enter(c, op);
    if (!rc) {
        rc = send_new(p);
        if (!rc) c->handles++;
        for (int k = 0; k < p->ncaptured && !rc; k++) p->captured[k]->refs++;
        td_leave(c);
    }
    if (!rc) return p;
    td_program_drop(p);
    return NULL;
}

/* ---- from a text of the IR */

/* The module, after all that can be found wrong with it here. */
static td_ir *read_text(const char *text, td_list captured)
{
    td_error e = {0};
    td_ir *ir = td_ir_read(text, strlen(text), &e);
    if (ir && !td_ir_verify(ir, 0, &e) && ir->ncaptures == (uint32_t)captured.n) return ir;
    if (!e.code)
        td_fail(&e, TD_E_INVALID, "the program captures %u tensors, and %d are given", ir->ncaptures, captured.n);
    td_ir_unref(ir);
    td_raise_error(&e, "program_read", NULL);
    return NULL;
}

TD_API td_program *td_program_read(td_client *client, const char *text, td_list captured)
{
    td_client *c = client;
    if (!client || !text) {
        td_raise_null("program_read", client ? "text" : "client");
        return NULL;
    }
    if (td_list_client(&c, captured, "program_read", "a captured array")) return NULL;
    return td_program_give(c, read_text(text, captured), captured, "program_read");
}

/* ---- from a function in the subset of Python */

static td_script_name name_of(const td_binding *b)
{
    td_script_name n = {.name = b->name, .kind = TD_SN_NUMBER};
    if (b->module) n.kind = strcmp(b->module, "math") == 0 ? TD_SN_MATH : TD_SN_TENSORS;
    else if (b->value.kind == TD_VALUE_ARRAY) n.kind = TD_SN_TENSOR;
    else if (b->value.kind == TD_VALUE_STR) n.kind = TD_SN_TEXT, n.text = b->value.text;
    else if (b->value.kind == TD_VALUE_BOOL) n.number = td_bool(b->value.i != 0);
    else if (b->value.kind == TD_VALUE_INT) n.number = td_int(b->value.i);
    else if (b->value.kind == TD_VALUE_COMPLEX) n.number = td_complex(b->value.re, b->value.im);
    else n.number = td_float(b->value.re);
    return n;
}

static bool may_bind(const td_binding *b)
{
    td_value_kind k = b->value.kind;
    return b->name &&
           (b->module || (k >= TD_VALUE_INT && k <= TD_VALUE_STR) || (k == TD_VALUE_ARRAY && b->value.array));
}

/* The module that a function in the subset of Python becomes; NULL with `e`. */
static td_ir *compile(const char *source, const char *file, int line, const char *entry, int n, const td_binding *names,
                      td_error *e)
{
    td_script_name *all = calloc((size_t)n + 1, sizeof *all);
    if (!all) {
        td_no_memory(e, "for %d names", n);
        return NULL;
    }
    for (int k = 0; k < n; k++) {
        if (!may_bind(&names[k]))
            td_fail(e, TD_E_INVALID, "name %d, '%.40s', means no array, number, text or module", k,
                    names[k].name ? names[k].name : "");
        all[k] = name_of(&names[k]);
    }
    td_script_source s = {file ? file : "<program>", source, strlen(source), line > 0 ? (uint32_t)line : 1};
    td_script_names given = {all, (uint32_t)n};
    td_ir *ir = e->code ? NULL : td_script_compile(&s, entry, n ? &given : NULL, e);
    free(all);
    return ir;
}

/* Which of the names the module captures, in its order. */
static bool find_captured(const td_ir *ir, int n, const td_binding *names, td_array **out, td_error *e)
{
    for (uint32_t k = 0; k < ir->ncaptures; k++) {
        const char *name = td_ir_chars(ir, ir->captures[k].name);
        out[k] = NULL;
        for (int i = 0; i < n && !out[k]; i++)
            if (!names[i].module && strcmp(names[i].name, name) == 0) out[k] = names[i].value.array;
        if (!out[k]) return td_fail(e, TD_E_INTERNAL, "the program captures '%.60s', which is no name", name), false;
    }
    return true;
}

TD_API td_program *td_program_script(td_client *client, const char *source, const char *file, int line,
                                     const char *entry, int n, const td_binding *names)
{
    td_error e = {0};
    td_client *c = client;
    if (!client || !source || (n && !names)) {
        td_raise_null("program_script", !client ? "client" : source ? "names" : "source");
        return NULL;
    }
    td_ir *ir = compile(source, file, line, entry, n, names, &e);
    td_array **at = ir ? calloc(ir->ncaptures + 1u, sizeof(td_array *)) : NULL;
    if (ir && !at) td_no_memory(&e, "for a program");
    bool good = at && find_captured(ir, n, names, at, &e);
    td_list captured = td_arrays_of(good ? (int)ir->ncaptures : 0, at);
    if (!good) td_raise_error(&e, "program_script", NULL);
    else if (td_list_client(&c, captured, "program_script", "a captured array")) good = false;
    td_program *p = NULL;
    if (good) p = td_program_give(c, ir, captured, "program_script");
    else td_ir_unref(ir);
    free(at);
    return p;
}

/* ---- */

char *td_program_show(const td_ir *ir, td_text_kind what, td_error *e)
{
    static char *(*const shows[])(const td_ir *, td_error *) = {
        [TD_TEXT_IR] = td_ir_print, [TD_TEXT_CODE] = td_ir_code, [TD_TEXT_DOT] = td_ir_dot, [TD_TEXT_SVG] = td_ir_svg};
    if ((unsigned)what < sizeof shows / sizeof shows[0]) return shows[what](ir, e);
    td_fail(e, TD_E_INVALID, "there is no text %d of a program; TD_TEXT_IR is one", (int)what);
    return NULL;
}

TD_API char *td_program_print(const td_program *p, td_text_kind what)
{
    td_error e = {0};
    if (!p) {
        td_raise_null("program_print", "the program");
        return NULL;
    }
    if (what == TD_TEXT_PLANS) return td_program_plans(p);
    char *text = td_program_show(p->ir, what, &e);
    if (!text) td_raise_error(&e, "program_print", NULL);
    return text;
}

TD_API void td_program_free(td_program *p)
{
    if (!p) return;
    td_client *c = p->client;
    for (int k = 0; k < p->ncaptured; k++) td_release(p->captured[k]);
    td_lock(c);
    if (!c->lost) td_control(c, TD_REC_PROGRAM_END, NULL, 0, NULL, 0, NULL, 1, &p->id);
    c->handles--;
    td_unlock(c);
    td_program_drop(p);
}
