/* What a picture of a program shows: boxes in an order in which each stands behind all that it depends on. */
#include "proto/program/boxes.h"

#include "proto/program/picture.h"
#include "proto/program/prim.h"
#include "proto/program/print.h"
#include "proto/program/text.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct drawing {
    const td_ir *ir;
    td_boxes *out;
    uint32_t *box, *other; /* by value: 1 + the box that shows it, 0: none; the other arm's */
    uint32_t left;         /* nodes for which there was no room */
} drawing;

static uint32_t add(drawing *d, td_box_kind kind, uint32_t source)
{
    td_boxes *b = d->out;
    if (b->n == b->room) {
        uint32_t room = b->room ? 2 * b->room : 64;
        td_box *more = realloc(b->at, room * sizeof *more);
        if (!more) return b->failed = true, TD_IR_NONE;
        b->at = more, b->room = room;
    }
    b->at[b->n] = (td_box){.kind = kind, .source = source};
    return b->n++;
}

static void join(drawing *d, uint32_t from, uint32_t to, bool control)
{
    td_boxes *b = d->out;
    for (uint32_t k = b->nlines; k-- > 0 && b->lines[k].to == to;)
        if (b->lines[k].from == from) return;
    if (b->nlines == b->room_lines) {
        uint32_t room = b->room_lines ? 2 * b->room_lines : 64;
        td_line *more = realloc(b->lines, room * sizeof *more);
        if (!more) {
            b->failed = true;
            return;
        }
        b->lines = more, b->room_lines = room;
    }
    b->lines[b->nlines++] = (td_line){from, to, control};
}

/* ---- labels */

static const td_ir_node *constant_of(const td_ir *ir, uint32_t value)
{
    uint32_t def = ir->values[value].def;
    return def & TD_IR_PARAM || ir->nodes[def].op != (TD_IR_PRIM | TD_PRIM_CONSTANT) ? NULL : &ir->nodes[def];
}

/* A literal that would not fit need not be written. */
static bool is_long(const td_ir *ir, const td_ir_node *n)
{
    td_literal v;
    td_literal_get(ir->words + n->word, n->nwords, &v);
    return n->nwords > TD_BOX_LABEL || (v.kind == TD_L_STR && ir->strings[v.small].length > TD_BOX_LABEL);
}

static void label_value(td_print *p, const td_ir *ir, uint32_t value)
{
    const td_ir_node *n = constant_of(ir, value);
    if (n && !n->nwords) td_printf(p, "None");
    else if (n && is_long(ir, n)) td_printf(p, "[...]");
    else if (n) td_print_literal(p, ir, ir->words + n->word, n->nwords);
    else if (ir->values[value].name != TD_IR_NONE) td_printf(p, "%s", td_ir_chars(ir, ir->values[value].name));
    else td_printf(p, "%%%u", value);
}

static void label_values(td_print *p, const td_ir *ir, uint32_t n, const uint32_t *at)
{
    for (uint32_t k = 0; k < n && p->used + 1 < p->room; k++) {
        td_printf(p, k ? ", " : "");
        label_value(p, ir, at[k]);
    }
}

/* A cut text must not end within a letter. */
static void end_label(char *label)
{
    size_t n = strlen(label);
    if (n + 1 < TD_BOX_LABEL) return;
    n -= 3;
    while (n && ((unsigned char)label[n] & 0xC0) == 0x80) n--;
    memcpy(label + n, "...", 4);
}

static void label(drawing *d, uint32_t box, const char *op, uint32_t n, const uint32_t *at)
{
    if (box == TD_IR_NONE) return;
    td_print p = {.text = d->out->at[box].label, .room = TD_BOX_LABEL, .fixed = true};
    td_printf(&p, "%s%s", op, *op ? "(" : "");
    label_values(&p, d->ir, n, at);
    td_printf(&p, *op ? ")" : "");
    end_label(d->out->at[box].label);
}

/* ---- walking */

static void shows(uint32_t *at, uint32_t value, uint32_t box)
{
    if (box != TD_IR_NONE) at[value] = box + 1;
}

static void uses(drawing *d, uint32_t box, uint32_t n, const uint32_t *at)
{
    for (uint32_t k = 0; k < n && box != TD_IR_NONE; k++) {
        if (d->other[at[k]]) join(d, d->other[at[k]] - 1, box, false);
        if (d->box[at[k]]) join(d, d->box[at[k]] - 1, box, false);
    }
}

static uint32_t params(drawing *d, uint32_t block)
{
    const td_ir_block *b = &d->ir->blocks[block];
    if (!b->nparams) return TD_IR_NONE;
    uint32_t box = add(d, TD_BOX_PARAMS, TD_IR_NONE);
    label(d, box, "", b->nparams, d->ir->defs + b->param);
    for (uint32_t k = 0; k < b->nparams; k++) shows(d->box, td_ir_param(d->ir, block, k), box);
    return box;
}

static void walk(drawing *d, uint32_t block);

/* A block of a node; the box of its results. */
static uint32_t inner(drawing *d, uint32_t block, uint32_t owner) /* NOLINT(misc-no-recursion): TD_IR_MAX_NEST */
{
    const td_ir_block *b = &d->ir->blocks[block];
    uint32_t first = d->out->n, entry = params(d, block);
    if (entry != TD_IR_NONE) join(d, owner, entry, true);
    walk(d, block);
    uint32_t box = add(d, TD_BOX_RETURN, TD_IR_NONE);
    if (box == TD_IR_NONE) return box;
    label(d, box, "", b->nrets, d->ir->args + b->ret);
    uses(d, box, b->nrets, d->ir->args + b->ret);
    if (entry == TD_IR_NONE) join(d, owner, first, true);
    d->out->at[first].opens = d->out->at[box].closes = true;
    return box;
}

static void one(drawing *d, uint32_t node) /* NOLINT(misc-no-recursion): TD_IR_MAX_NEST */
{
    char op[TD_BOX_LABEL];
    const td_ir *ir = d->ir;
    const td_ir_node *n = &ir->nodes[node];
    if (n->op == (TD_IR_PRIM | TD_PRIM_CONSTANT)) return;
    uint32_t box = d->out->n < TD_PICTURE_BOXES ? add(d, TD_BOX_OP, n->source) : TD_IR_NONE;
    d->left += box == TD_IR_NONE;
    if (box == TD_IR_NONE) return;
    label(d, box, td_ir_op_text(ir, n->op, op, sizeof op), n->nin, ir->args + n->in);
    uses(d, box, n->nin, ir->args + n->in);
    uint32_t ends[2] = {box, TD_IR_NONE};
    for (uint32_t k = 0; k < n->nblocks; k++) ends[k] = inner(d, n->child + k, box);
    for (uint32_t k = 0; k < n->nout; k++) {
        shows(d->box, td_ir_out(ir, node, k), ends[0]);
        shows(d->other, td_ir_out(ir, node, k), ends[1]);
    }
}

static void walk(drawing *d, uint32_t block) /* NOLINT(misc-no-recursion): TD_IR_MAX_NEST */
{
    for (uint32_t node = d->ir->blocks[block].first; node != TD_IR_NONE; node = d->ir->nodes[node].next) one(d, node);
}

static void function(drawing *d, uint32_t number)
{
    const td_ir *ir = d->ir;
    uint32_t block = ir->functions[number].block;
    const td_ir_block *b = &ir->blocks[block];
    if (d->out->n >= TD_PICTURE_BOXES) {
        d->left++;
        return;
    }
    params(d, block);
    walk(d, block);
    uint32_t box = add(d, TD_BOX_RETURN, TD_IR_NONE);
    label(d, box, number ? td_ir_chars(ir, ir->functions[number].name) : "return", b->nrets, ir->args + b->ret);
    uses(d, box, b->nrets, ir->args + b->ret);
}

static void captured(drawing *d, uint32_t k)
{
    td_ir_capture w = d->ir->captures[k];
    if (d->out->n >= TD_PICTURE_BOXES) return;
    uint32_t box = add(d, TD_BOX_CAPTURED, TD_IR_NONE);
    if (box == TD_IR_NONE) return;
    snprintf(d->out->at[box].label, TD_BOX_LABEL, "%s", td_ir_chars(d->ir, w.name));
    end_label(d->out->at[box].label);
    shows(d->box, w.value, box);
}

void td_boxes_make(const td_ir *ir, td_boxes *out)
{
    *out = (td_boxes){0};
    drawing d = {ir, out, calloc((size_t)ir->nvalues + 1, sizeof(uint32_t)),
                 calloc((size_t)ir->nvalues + 1, sizeof(uint32_t)), 0};
    if (!d.box || !d.other) out->failed = true;
    for (uint32_t k = 0; !out->failed && k < ir->ncaptures; k++) captured(&d, k);
    for (uint32_t k = 0; !out->failed && k < ir->nfunctions; k++) function(&d, k);
    uint32_t box = d.left ? add(&d, TD_BOX_MORE, TD_IR_NONE) : TD_IR_NONE;
    if (box != TD_IR_NONE) snprintf(out->at[box].label, TD_BOX_LABEL, "... and %u more", d.left);
    free(d.box);
    free(d.other);
}

void td_boxes_free(td_boxes *b)
{
    free(b->at);
    free(b->lines);
}
