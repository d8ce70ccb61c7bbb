/* Functions and blocks as TorchScript's code. See torchscript.h.
 *
 * Each value is a variable of its own, v and its number; what arms of an If and trips of a Loop give is assigned. */
#include "client/files/torchscript_print.h"

#include "proto/program/prim.h"
#include "proto/program/text.h"
#include "proto/wire/record.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void body(td_coding *c, uint32_t block, unsigned level);

void td_coding_refuse(td_coding *c, const char *format, ...)
{
    char text[200];
    va_list list;
    if (c->e->code) return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    td_fail(c->e, TD_E_UNSUPPORTED, "%s (in '%.60s')", text, c->program);
}

void td_coding_line(td_coding *c, unsigned level)
{
    td_printf(&c->p, "\n%*s", 2 * (int)level, "");
    c->p.failed |= c->p.used > TD_IR_TEXT;
}

static void names(td_coding *c, uint32_t n, const uint32_t *at)
{
    for (uint32_t k = 0; k < n; k++) td_printf(&c->p, n > 1 ? "v%u, " : "v%u", at[k]);
}

/* ---- statements */

/* Values to variables of these types, all at once. */
static void assign(td_coding *c, unsigned level, uint32_t n, const uint32_t *to, const uint32_t *from)
{
    uint32_t first = c->temporaries;
    for (uint32_t k = 0; k < n; k++) {
        td_coding_line(c, level);
        td_printf(&c->p, n > 1 ? "t%u = " : "v%u = ", n > 1 ? c->temporaries++ : to[k]);
        td_coding_as(c, from[k], c->ir->values[to[k]].type);
    }
    for (uint32_t k = 0; n > 1 && k < n; k++) {
        td_coding_line(c, level);
        td_printf(&c->p, "v%u = t%u", to[k], first + k);
    }
}

static void arm(td_coding *c, uint32_t node, uint32_t k, unsigned level)
{
    const td_ir_node *n = &c->ir->nodes[node];
    const td_ir_block *b = &c->ir->blocks[n->child + k];
    size_t before = c->p.used;
    body(c, n->child + k, level);
    assign(c, level, n->nout, c->ir->defs + n->out, c->ir->args + b->ret);
    if (c->p.used != before) return;
    td_coding_line(c, level);
    td_printf(&c->p, "pass");
}

static void branch(td_coding *c, uint32_t node, unsigned level)
{
    td_coding_line(c, level);
    td_printf(&c->p, "if ");
    td_coding_value(c, td_ir_in(c->ir, node, 0));
    td_printf(&c->p, ":");
    arm(c, node, 0, level + 1);
    td_coding_line(c, level);
    td_printf(&c->p, "else:");
    arm(c, node, 1, level + 1);
}

static bool is_number(const td_coding *c, uint32_t value, int64_t number)
{
    td_literal v;
    if (!td_coding_constant(c, value, &v)) return false;
    return (v.kind == TD_L_INT && v.i == number) || (v.kind == TD_L_BOOL && v.small == (uint64_t)number);
}

static void trips(td_coding *c, uint32_t node, unsigned level)
{
    const uint32_t *in = c->ir->args + c->ir->nodes[node].in;
    td_coding_line(c, level);
    td_printf(&c->p, "for v%u in range(", td_ir_param(c->ir, c->ir->nodes[node].child, 0));
    td_coding_value(c, in[0]);
    td_printf(&c->p, "):");
}

/* With a condition: a `while` that counts. */
static void trips_while(td_coding *c, uint32_t node, unsigned level)
{
    const uint32_t *in = c->ir->args + c->ir->nodes[node].in;
    td_coding_line(c, level);
    td_printf(&c->p, "n%u = 0", node);
    td_coding_line(c, level);
    td_printf(&c->p, "g%u = torch.__and__(torch.gt(", node);
    td_coding_value(c, in[0]);
    td_printf(&c->p, ", 0), ");
    td_coding_value(c, in[1]);
    td_printf(&c->p, ")");
    td_coding_line(c, level);
    td_printf(&c->p, "while g%u:", node);
    td_coding_line(c, level + 1);
    td_printf(&c->p, "v%u = n%u", td_ir_param(c->ir, c->ir->nodes[node].child, 0), node);
}

static void next_trip(td_coding *c, uint32_t node, uint32_t condition, unsigned level)
{
    td_coding_line(c, level);
    td_printf(&c->p, "n%u = torch.add(n%u, 1)", node, node);
    td_coding_line(c, level);
    td_printf(&c->p, "g%u = torch.__and__(torch.lt(n%u, ", node, node);
    td_coding_value(c, td_ir_in(c->ir, node, 0));
    td_printf(&c->p, "), ");
    td_coding_value(c, condition);
    td_printf(&c->p, ")");
}

static void loop(td_coding *c, uint32_t node, unsigned level)
{
    const td_ir *ir = c->ir;
    const td_ir_node *n = &ir->nodes[node];
    const td_ir_block *b = &ir->blocks[n->child];
    const uint32_t *in = ir->args + n->in, *returned = ir->args + b->ret, *carried = ir->defs + b->param + 1;
    bool always = is_number(c, in[1], 1) && is_number(c, returned[0], 1);
    assign(c, level, n->nout, carried, in + 2);
    if (always) trips(c, node, level);
    else trips_while(c, node, level);
    size_t before = c->p.used;
    body(c, n->child, level + 1);
    assign(c, level + 1, n->nout, carried, returned + 1);
    if (!always) next_trip(c, node, returned[0], level + 1);
    if (c->p.used == before) td_coding_line(c, level + 1), td_printf(&c->p, "pass");
    assign(c, level, n->nout, ir->defs + n->out, carried);
}

static void statement(td_coding *c, uint32_t node, unsigned level)
{
    const td_ir_node *n = &c->ir->nodes[node];
    bool unpacks = n->op == (TD_IR_PRIM | TD_PRIM_LISTUNPACK) || n->op == (TD_IR_PRIM | TD_PRIM_TUPLEUNPACK);
    if (unpacks && !n->nout) return;
    if (n->op == (TD_IR_PRIM | TD_PRIM_TUPLECONSTRUCT) && !c->used[td_ir_out(c->ir, node, 0)]) return;
    td_coding_line(c, level);
    uint32_t shown = td_coding_results(c, node);
    names(c, shown, c->ir->defs + n->out);
    td_printf(&c->p, shown ? (unpacks && shown == 1 ? ", = " : " = ") : "");
    td_coding_call(c, node);
}

/* Ops of one mode follow each other within it. */
static uint32_t in_mode(td_coding *c, uint32_t mode, uint32_t now, unsigned level)
{
    static const char class[] = "__torch__.torch.autograd.grad_mode.no_grad";
    mode &= TD_RM_GRAD_OFF | TD_RM_INFERENCE;
    if (!mode || mode == now) return mode;
    c->modes = true;
    td_coding_line(c, level);
    td_printf(&c->p, "t%u = %s.__new__(%s)", c->temporaries, class, class);
    td_coding_line(c, level);
    td_printf(&c->p, "t%u = (t%u).__init__()", c->temporaries + 1, c->temporaries);
    td_coding_line(c, level);
    td_printf(&c->p, "with t%u:", c->temporaries);
    c->temporaries += 2;
    return mode;
}

static void body(td_coding *c, uint32_t block,
                 unsigned level) /* NOLINT(misc-no-recursion): as deep as TD_IR_MAX_NEST */
{
    const td_ir *ir = c->ir;
    uint32_t mode = 0;
    for (uint32_t node = ir->blocks[block].first; node != TD_IR_NONE && !c->p.failed; node = ir->nodes[node].next) {
        uint32_t op = ir->nodes[node].op;
        if (op == (TD_IR_PRIM | TD_PRIM_CONSTANT)) continue;
        if (ir->nodes[node].nblocks) mode = 0;
        else if ((op & TD_IR_CLASS) != TD_IR_PRIM) mode = in_mode(c, ir->nodes[node].mode, mode, level);
        if (op == (TD_IR_PRIM | TD_PRIM_IF)) branch(c, node, level);
        else if (op == (TD_IR_PRIM | TD_PRIM_LOOP)) loop(c, node, level);
        else statement(c, node, level + (mode != 0));
    }
}

/* ---- functions */

static void inner_parameters(td_coding *c)
{
    for (uint32_t k = 0; k < c->block->nparams; k++) {
        uint32_t value = c->ir->defs[c->block->param + k];
        td_printf(&c->p, ", v%u: ", value);
        td_coding_type(c, c->ir->values[value].type);
    }
}

/* Those within are methods, too: they look at attributes. */
static void function(td_coding *c, uint32_t number, td_entry *entry)
{
    uint32_t block = c->ir->functions[number].block;
    c->block = &c->ir->blocks[block];
    td_coding_line(c, 1);
    if (entry) td_printf(&c->p, "def %s(self: __torch__.Program", c->program);
    else td_printf(&c->p, "def _%s_%u(self: __torch__.Program", c->program, number);
    if (entry) td_coding_parameters(c, entry);
    else inner_parameters(c);
    td_printf(&c->p, ") -> ");
    td_coding_result_type(c, entry);
    td_printf(&c->p, ":");
    if (entry) td_coding_take_apart(c, entry);
    body(c, block, 2);
    td_coding_line(c, 2);
    td_printf(&c->p, "return ");
    td_coding_result(c, entry);
}

/* A tuple that nothing looks at is not made, and uses nothing. */
static bool mark_used(td_coding *c)
{
    const td_ir *ir = c->ir;
    uint32_t *uses = calloc((size_t)ir->nvalues + 1, sizeof *uses);
    if (!uses) return false;
    for (uint32_t k = 0; k < ir->nargs; k++) uses[ir->args[k]]++;
    for (uint32_t node = ir->nnodes; node-- > 0;) {
        const td_ir_node *n = &ir->nodes[node];
        bool idle = n->op == (TD_IR_PRIM | TD_PRIM_TUPLECONSTRUCT) && !uses[td_ir_out(ir, node, 0)];
        for (uint32_t k = 0; idle && k < n->nin; k++) uses[td_ir_in(ir, node, k)]--;
    }
    for (uint32_t v = 0; v < ir->nvalues; v++) c->used[v] = uses[v];
    free(uses);
    return true;
}

static bool methods(td_coding *c, const td_scripted_program *p)
{
    td_entry entry = {0};
    c->ir = p->ir;
    c->used = calloc((size_t)p->ir->nvalues + 1, sizeof *c->used);
    if (!c->used || !mark_used(c)) {
        free(c->used);
        c->used = NULL;
        return td_no_memory(c->e, "for the code of a program") == TD_OK;
    }
    bool good = td_entry_open(&entry, p, c->e);
    for (uint32_t k = 0; good && k < p->ir->nfunctions; k++) function(c, k, k ? NULL : &entry);
    td_entry_close(&entry);
    free(c->used);
    c->used = NULL;
    return good && !c->e->code;
}

static void finish(td_coding *c, const td_classes *classes)
{
    for (uint32_t k = 1; k < td_classes_count(classes); k++) td_classes_print(classes, k, &c->p);
    td_printf(&c->p, "\n");
    if (!c->p.failed || c->e->code) return;
    if (c->p.used > TD_IR_TEXT) td_coding_refuse(c, "its code would have more than %d bytes", TD_IR_TEXT);
    else td_no_memory(c->e, "for the code of a program");
}

/* What `with` is given there. */
const char td_torchscript_no_grad[] = "class no_grad:\n"
                                      "  before : bool\n"
                                      "  def __init__(self: __torch__.torch.autograd.grad_mode.no_grad) -> NoneType:\n"
                                      "    self.before = torch.is_grad_enabled()\n"
                                      "    return None\n"
                                      "  def __enter__(self: __torch__.torch.autograd.grad_mode.no_grad) -> NoneType:\n"
                                      "    self.before = torch.is_grad_enabled()\n"
                                      "    torch.set_grad_enabled(False)\n"
                                      "    return None\n"
                                      "  def __exit__(self: __torch__.torch.autograd.grad_mode.no_grad,\n"
                                      "    kind: Any,\n"
                                      "    value: Any,\n"
                                      "    place: Any) -> NoneType:\n"
                                      "    torch.set_grad_enabled(self.before)\n"
                                      "    return None\n";

/* Methods, those within and attributes are of one class. */
static void check_name(td_coding *c, const td_scripted_program *programs, uint32_t n, const td_classes *classes)
{
    static const char *const taken[] = {"training", "train", "eval"};
    const char *name = c->program;
    size_t length = strlen(name);
    bool own = strncmp(name, "__", 2) != 0;
    for (size_t k = 0; k < sizeof taken / sizeof *taken; k++) own &= strcmp(name, taken[k]) != 0;
    for (uint32_t k = 0; k < n && name[0] == '_'; k++) {
        size_t front = strlen(programs[k].name);
        own &= length < front + 3 || strncmp(name + 1, programs[k].name, front) != 0 || name[front + 1] != '_' ||
               name[front + 2 + strspn(name + front + 2, "0123456789")] != 0;
    }
    if (!own) td_coding_refuse(c, "a method that is called '%.60s' is something else there", name);
    else if (td_classes_has(classes, name)) td_coding_refuse(c, "a tensor is called as the program is");
}

int td_torchscript_make(const td_scripted_program *programs, uint32_t n, td_note tree, td_torchscript *out, td_error *e)
{
    td_coding c = {.e = e};
    *out = (td_torchscript){0};
    td_classes *classes = td_classes_new(tree, e);
    bool good = classes != NULL;
    if (good) td_classes_print(classes, 0, &c.p);
    for (uint32_t k = 0; good && k < n; k++) {
        c.program = programs[k].name;
        check_name(&c, programs, n, classes);
        good = !e->code && methods(&c, &programs[k]);
    }
    if (good) finish(&c, classes);
    good = good && !e->code && td_classes_note(classes, &out->tree);
    out->code = c.p.text;
    out->no_grad = c.modes;
    td_classes_free(classes);
    if (!good) td_torchscript_drop(out);
    return e->code;
}

void td_torchscript_drop(td_torchscript *t)
{
    free(t->code);
    free(t->tree.at);
    *t = (td_torchscript){0};
}
