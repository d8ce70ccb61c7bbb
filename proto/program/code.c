/* A program as a source: functions, statements, what stands in blocks. */
#include "proto/program/code.h"

#include "proto/program/code_print.h"
#include "proto/program/prim.h"
#include "proto/program/text.h"
#include "proto/program/type.h"
#include "proto/wire/record.h"

#include <stdlib.h>

static void body(td_coder *c, uint32_t block, uint32_t level);

static void line(td_coder *c, uint32_t level)
{
    td_printf(&c->p, "\n%*s", 4 * (int)level, "");
    c->p.failed |= c->p.used > TD_IR_TEXT;
}

static void names(td_coder *c, uint32_t n, const uint32_t *at)
{
    for (uint32_t k = 0; k < n; k++) {
        td_printf(&c->p, k ? ", " : "");
        td_coder_name(c, at[k]);
    }
}

/* ---- types */

static void annotation(td_coder *c, uint32_t type) /* NOLINT(misc-no-recursion): as deep as the type */
{
    static const char *const plain[] = {"None", "int",       "float",    "bool",     "complex",
                                        "str",  "td.device", "td.dtype", "td.Tensor"};
    td_type_kind kind = td_type_kind_of(c->ir, type);
    if (kind <= TD_T_TENSOR) {
        td_printf(&c->p, "%s", plain[kind]);
        return;
    }
    td_printf(&c->p, kind == TD_T_LIST ? "list[" : kind == TD_T_TUPLE ? "tuple[" : kind == TD_T_DICT ? "dict[" : "");
    for (uint32_t k = 0; k < td_type_parts(c->ir, type); k++) {
        td_printf(&c->p, k ? ", " : "");
        annotation(c, td_type_part(c->ir, type, k));
    }
    td_printf(&c->p, kind == TD_T_OPTIONAL ? " | None" : "]");
}

/* ---- statements */

/* a, b = x, y; what is the same stays out of it. */
static void assign(td_coder *c, uint32_t level, uint32_t n, const uint32_t *to, const uint32_t *from)
{
    for (int side = 0; side < 2; side++)
        for (uint32_t k = 0, some = 0; k < n; k++) {
            if (to[k] == from[k]) continue;
            if (!some && !side) line(c, level);
            td_printf(&c->p, some ? ", " : side ? " = " : "");
            if (side) td_coder_value(c, from[k]);
            else td_coder_name(c, to[k]);
            some = 1;
        }
}

static void empty(td_coder *c, uint32_t level, size_t before)
{
    if (c->p.used != before) return;
    line(c, level);
    td_printf(&c->p, "pass");
}

/* Indented, and then what its results become. */
static void arm(td_coder *c, uint32_t node, uint32_t k, uint32_t level)
{
    const td_ir_node *n = &c->ir->nodes[node];
    const td_ir_block *b = &c->ir->blocks[n->child + k];
    size_t before = c->p.used;
    body(c, n->child + k, level);
    assign(c, level, n->nout, c->ir->defs + n->out, c->ir->args + b->ret);
    empty(c, level, before);
}

static void branch(td_coder *c, uint32_t node, uint32_t level)
{
    const td_ir_node *n = &c->ir->nodes[node];
    const td_ir_block *other = &c->ir->blocks[n->child + 1];
    line(c, level);
    td_printf(&c->p, "if ");
    td_coder_value(c, td_ir_in(c->ir, node, 0));
    td_printf(&c->p, ":");
    arm(c, node, 0, level + 1);
    if (!n->nout && other->first == TD_IR_NONE) return;
    line(c, level);
    td_printf(&c->p, "else:");
    arm(c, node, 1, level + 1);
}

/* `for` when only trips end it, `while` when only the condition does, otherwise both. */
static void loop(td_coder *c, uint32_t node, uint32_t level)
{
    const td_ir *ir = c->ir;
    const td_ir_node *n = &ir->nodes[node];
    const td_ir_block *b = &ir->blocks[n->child];
    const uint32_t *in = ir->args + n->in, *returned = ir->args + b->ret, *params = ir->defs + b->param;
    bool always = td_coder_is(c, in[1], 1) && td_coder_is(c, returned[0], 1);
    bool counted = always || !td_coder_is(c, in[0], INT64_MAX) || c->used[params[0]];
    assign(c, level, n->nout, params + 1, in + 2);
    if (!always) {
        line(c, level);
        td_printf(&c->p, "v%u_go = ", node);
        td_coder_value(c, in[1]);
    }
    line(c, level);
    if (counted) {
        td_printf(&c->p, "for ");
        td_coder_name(c, params[0]);
        td_printf(&c->p, " in range(");
        td_coder_value(c, in[0]);
        td_printf(&c->p, "):");
    } else {
        td_printf(&c->p, "while v%u_go:", node);
    }
    size_t before = c->p.used;
    if (counted && !always) {
        line(c, level + 1);
        td_printf(&c->p, "if not v%u_go:", node);
        line(c, level + 2);
        td_printf(&c->p, "break");
    }
    body(c, n->child, level + 1);
    if (!always) {
        line(c, level + 1);
        td_printf(&c->p, "v%u_go = ", node);
        td_coder_value(c, returned[0]);
    }
    assign(c, level + 1, n->nout, params + 1, returned + 1);
    empty(c, level + 1, before);
    assign(c, level, n->nout, ir->defs + n->out, params + 1);
}

/* Ops that a script gives only the first result of. */
static bool only_first(const td_coder *c, uint32_t node)
{
    static const char *const names[] = {"layer_norm", "batch_norm", "dropout", "nll_loss", "max_pool2d"};
    const td_ir_node *n = &c->ir->nodes[node];
    const td_op *op = td_ir_row(n->op);
    bool is = false;
    for (size_t k = 0; op && k < sizeof names / sizeof names[0]; k++) is |= strcmp(op->name, names[k]) == 0;
    for (uint32_t k = 1; is && k < n->nout; k++) is = !c->used[td_ir_out(c->ir, node, k)];
    return is;
}

static void statement(td_coder *c, uint32_t node, uint32_t level)
{
    const td_ir_node *n = &c->ir->nodes[node];
    bool written = n->op & TD_IR_INPLACE && n->nout == 1 && !c->used[td_ir_out(c->ir, node, 0)];
    bool unpacks = n->op == (TD_IR_PRIM | TD_PRIM_LISTUNPACK) || n->op == (TD_IR_PRIM | TD_PRIM_TUPLEUNPACK);
    line(c, level);
    if (n->nout && !written) {
        names(c, only_first(c, node) ? 1 : n->nout, c->ir->defs + n->out);
        td_printf(&c->p, unpacks && n->nout == 1 ? ", = " : " = ");
    }
    td_coder_call(c, node);
}

/* Modes of a run of ops are a `with` around it. */
static uint32_t in_mode(td_coder *c, uint32_t mode, uint32_t now, uint32_t level)
{
    mode &= TD_RM_GRAD_OFF | TD_RM_INFERENCE;
    if (mode && mode != now) {
        line(c, level);
        td_printf(&c->p, "with td.%s():", mode & TD_RM_INFERENCE ? "inference_mode" : "no_grad");
    }
    return mode;
}

static void body(td_coder *c, uint32_t block, uint32_t level) /* NOLINT(misc-no-recursion): as deep as TD_IR_MAX_NEST */
{
    const td_ir *ir = c->ir;
    uint32_t mode = 0;
    for (uint32_t node = ir->blocks[block].first; node != TD_IR_NONE; node = ir->nodes[node].next) {
        uint32_t op = ir->nodes[node].op, class = op & TD_IR_CLASS;
        if (op == (TD_IR_PRIM | TD_PRIM_CONSTANT)) continue;
        if (ir->nodes[node].nblocks) mode = 0;
        else if (class != TD_IR_PRIM) mode = in_mode(c, ir->nodes[node].mode, mode, level);
        if (op == (TD_IR_PRIM | TD_PRIM_IF)) branch(c, node, level);
        else if (op == (TD_IR_PRIM | TD_PRIM_LOOP)) loop(c, node, level);
        else statement(c, node, level + (mode != 0));
    }
}

/* ---- functions */

static void function(td_coder *c, uint32_t number)
{
    const td_ir *ir = c->ir;
    uint32_t block = ir->functions[number].block;
    const td_ir_block *b = &ir->blocks[block];
    td_printf(&c->p, "%sdef ", c->p.used ? "\n\n\n" : "");
    td_coder_function(c, number);
    td_printf(&c->p, "(");
    for (uint32_t k = 0; k < b->nparams; k++) {
        uint32_t value = td_ir_param(ir, block, k), type = ir->values[value].type;
        td_printf(&c->p, k ? ", " : "");
        td_coder_name(c, value);
        if (td_type_kind_of(ir, type) == TD_T_TENSOR) continue;
        td_printf(&c->p, ": ");
        annotation(c, type);
    }
    td_printf(&c->p, "):");
    body(c, block, 1);
    line(c, 1);
    td_printf(&c->p, b->nrets == 1 ? "return " : b->nrets ? "return (" : "return");
    for (uint32_t k = 0; k < b->nrets; k++) {
        td_printf(&c->p, k ? ", " : "");
        td_coder_value(c, td_ir_return(ir, block, k));
    }
    td_printf(&c->p, b->nrets > 1 ? ")" : "");
}

static void captured(td_coder *c, uint32_t k)
{
    td_ir_capture w = c->ir->captures[k];
    td_printf(&c->p, "%s# ", k ? "\n" : "");
    td_coder_name(c, w.value);
    td_printf(&c->p, ": captured as ");
    td_print_string(&c->p, td_ir_chars(c->ir, w.name), c->ir->strings[w.name].length);
}

char *td_ir_code(const td_ir *ir, td_error *e)
{
    td_coder c = {.ir = ir, .used = calloc((size_t)ir->nvalues + 1, sizeof(bool))};
    bool good = c.used && td_coder_names(&c);
    for (uint32_t k = 0; good && k < ir->nargs; k++) c.used[ir->args[k]] = true;
    for (uint32_t k = 0; good && k < ir->ncaptures; k++) captured(&c, k);
    for (uint32_t k = ir->nfunctions; good && k-- > 0;) function(&c, k);
    td_printf(&c.p, "\n");
    free(c.names);
    free(c.pool);
    free(c.used);
    if (good && !c.p.failed) return c.p.text;
    if (c.p.used > TD_IR_TEXT)
        td_fail(e, TD_E_QUOTA, "the source of the program would have more than %d bytes", TD_IR_TEXT);
    else td_no_memory(e, "for the source of a program");
    free(c.p.text);
    return NULL;
}
