/* A module as a text. */
#include "proto/program/text.h"

#include "proto/program/prim.h"
#include "proto/program/print.h"
#include "proto/program/type.h"
#include <stdlib.h>

#define INDENT(p, level) td_printf(p, "%*s", 2 * (int)(level), "")

static void print_value(td_print *p, const td_ir *ir, uint32_t value)
{
    uint32_t name = ir->values[value].name;
    if (name == TD_IR_NONE) td_printf(p, "%%%u", value);
    else td_printf(p, "%%%s", td_ir_chars(ir, name));
}

static void print_typed(td_print *p, const td_ir *ir, const uint32_t *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        td_printf(p, i ? ", " : "");
        print_value(p, ir, values[i]);
        td_printf(p, " : ");
        td_print_type(p, ir, ir->values[values[i]].type);
    }
}

static void print_values(td_print *p, const td_ir *ir, const uint32_t *values, uint32_t n)
{
    td_printf(p, "(");
    for (uint32_t i = 0; i < n; i++) {
        td_printf(p, i ? ", " : "");
        print_value(p, ir, values[i]);
    }
    td_printf(p, ")");
}

/* ---- ops and attributes */

static void print_op(td_print *p, const td_ir *ir, uint32_t op)
{
    uint32_t number = op & TD_IR_NUMBER;
    switch (op & TD_IR_CLASS) {
    case TD_IR_PRIM: td_printf(p, "prim::%s", td_prim_by_id(number) ? td_prims[number].name : "?"); break;
    case TD_IR_TD:
        td_printf(p, "td::%s%s", td_op_by_id(number) ? td_ops[number].name : "?", op & TD_IR_INPLACE ? "_" : "");
        break;
    case TD_IR_ATEN: td_printf(p, "aten::%.200s", td_ir_chars(ir, number)); break;
    default: td_printf(p, "fn::%.240s", td_ir_chars(ir, ir->functions[number].name));
    }
}

const char *td_ir_op_text(const td_ir *ir, uint32_t op, char *out, size_t size)
{
    td_print p = {.text = out, .room = size, .fixed = true};
    print_op(&p, ir, op);
    return out;
}

static void print_attrs(td_print *p, const td_ir *ir, const td_ir_node *n)
{
    td_literal v;
    const char *before = "[";
    if (n->nwords && td_literal_get(ir->words + n->word, n->nwords, &v) && v.kind != TD_L_NONE) {
        td_printf(p, "[value=");
        td_print_literal(p, ir, ir->words + n->word, n->nwords);
        before = ", ";
    }
    if (n->mode) td_printf(p, "%smode=%u", before, n->mode), before = ", ";
    if (n->rng != TD_IR_NONE) td_printf(p, "%srng=%u", before, n->rng), before = ", ";
    if (*before == ',') td_printf(p, "]");
}

/* ---- sources */

/* A name that needs no quotes: what stands before the numbers is it, whatever is in it. */
static bool is_plain(const char *file)
{
    if (!*file || *file == '"' || *file == ' ') return false;
    for (; *file; file++)
        if (*file < ' ' || *file > '~') return false;
    return file[-1] != ' ';
}

static void print_source(td_print *p, const td_ir *ir, uint32_t source)
{
    if (source == TD_IR_NONE) return;
    const td_ir_source *s = &ir->sources[source];
    const char *file = td_ir_chars(ir, s->file);
    td_printf(p, " # ");
    if (is_plain(file) && strlen(file) == ir->strings[s->file].length) td_print_bytes(p, file, strlen(file));
    else td_print_string(p, file, ir->strings[s->file].length);
    td_printf(p, ":%u:%u", s->line, s->column);
    if (s->end) td_printf(p, "-%u", s->end);
}

/* ---- nodes and blocks */

static void print_node(td_print *p, const td_ir *ir, uint32_t node, unsigned level)
{
    const td_ir_node *n = &ir->nodes[node];
    INDENT(p, level);
    print_typed(p, ir, ir->defs + n->out, n->nout);
    if (n->nout) td_printf(p, " = ");
    print_op(p, ir, n->op);
    print_attrs(p, ir, n);
    print_values(p, ir, ir->args + n->in, n->nin);
    print_source(p, ir, n->source);
    td_printf(p, "\n");
}

/* Nodes, and what they hold: at each level which node is next. */
static void print_body(td_print *p, const td_ir *ir, uint32_t block, const char *word)
{
    struct {
        uint32_t block, next, child;
    } at[TD_IR_MAX_NEST + 1];
    unsigned depth = 0;
    at[0].block = block, at[0].next = ir->blocks[block].first;
    for (;;) {
        uint32_t node = at[depth].next, b = at[depth].block;
        if (node != TD_IR_NONE) {
            const td_ir_node *n = &ir->nodes[node];
            print_node(p, ir, node, 1 + 2 * depth);
            at[depth].child = 0;
            at[depth].next = n->next;
            if (!n->nblocks || depth == TD_IR_MAX_NEST) continue;
            at[++depth].block = n->child;
        } else {
            INDENT(p, 1 + 2 * depth);
            td_printf(p, "%s ", depth ? "->" : word);
            print_values(p, ir, ir->args + ir->blocks[b].ret, ir->blocks[b].nrets);
            td_printf(p, "\n");
            if (!depth) return;
            const td_ir_node *owner = &ir->nodes[ir->blocks[b].owner];
            if (++b - owner->child == owner->nblocks) {
                depth--;
                continue;
            }
            at[depth].block = b;
        }
        b = at[depth].block;
        INDENT(p, 2 * depth);
        td_printf(p, "block%u(", b - ir->nodes[ir->blocks[b].owner].child);
        print_typed(p, ir, ir->defs + ir->blocks[b].param, ir->blocks[b].nparams);
        td_printf(p, "):\n");
        at[depth].next = ir->blocks[b].first;
    }
}

char *td_ir_print(const td_ir *ir, td_error *e)
{
    td_print p = {0};
    td_printf(&p, "%s", "");
    for (uint32_t i = 0; i < ir->ncaptures; i++) {
        td_ir_capture c = ir->captures[i];
        td_printf(&p, "captured ");
        print_typed(&p, ir, &c.value, 1);
        td_printf(&p, " = ");
        td_print_string(&p, td_ir_chars(ir, c.name), ir->strings[c.name].length);
        td_printf(&p, "\n");
    }
    for (uint32_t i = 0; i < ir->nfunctions; i++) {
        const td_ir_block *b = &ir->blocks[ir->functions[i].block];
        if (i) td_printf(&p, "fn %.240s(", td_ir_chars(ir, ir->functions[i].name));
        else td_printf(&p, "graph(");
        print_typed(&p, ir, ir->defs + b->param, b->nparams);
        td_printf(&p, "):\n");
        print_body(&p, ir, ir->functions[i].block, "return");
    }
    if (!p.failed) return p.text;
    td_no_memory(e, "for the text of a program");
    free(p.text);
    return NULL;
}
