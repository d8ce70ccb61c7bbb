/* Constants, and values that are made of values. */
#include "daemon/graph/run.h"
#include "proto/program/literal.h"
#include "proto/base/text.h"

#include <stdio.h>

/* ---- constants */

/* One literal, a list's items included; the words that it took, 0 with an error. */
static uint32_t read_literal(td_prim_call *c, const uint32_t *words, uint32_t n, td_val *out)
{
    const td_ir *ir = c->run->ir;
    td_literal l;
    uint32_t used = td_literal_get(words, n, &l);
    if (!used) {
        td_fail(c->e, TD_E_PROTOCOL, "a constant is malformed");
        return 0;
    }
    switch (l.kind) {
    case TD_L_INT: *out = td_val_int(l.i); return used;
    case TD_L_FLOAT: *out = td_val_float(l.re); return used;
    case TD_L_BOOL: *out = td_val_bool(l.small); return used;
    case TD_L_COMPLEX: *out = (td_val){.kind = TD_T_COMPLEX, .re = l.re, .im = l.im}; return used;
    case TD_L_DEVICE: *out = (td_val){.kind = TD_T_DEVICE, .i = l.small}; return used;
    case TD_L_DTYPE: *out = (td_val){.kind = TD_T_DTYPE, .i = l.small}; return used;
    case TD_L_STR:
        return td_val_text(c->purse, td_ir_chars(ir, l.small), ir->strings[l.small].length, out, c->e) ? 0 : used;
    case TD_L_NONE: return used;
    default: td_fail(c->e, TD_E_PROTOCOL, "a constant is a list of lists"); return 0;
    }
}

static int constant(td_prim_call *c)
{
    const td_ir_node *x = &c->run->ir->nodes[c->node];
    const uint32_t *words = c->run->ir->words + x->word;
    if (x->nwords == 0) return TD_OK;
    if (td_literal_kind_of(words[0]) != TD_L_LIST)
        return read_literal(c, words, x->nwords, c->out) ? TD_OK : c->e->code;
    uint32_t n = words[0] >> 8, at = 1;
    int rc = td_val_box(c->purse, TD_T_LIST, n, c->out, c->e);
    for (uint32_t k = 0; k < n && !rc; k++) {
        uint32_t used = read_literal(c, words + at, x->nwords - at, &c->out->box->items[k]);
        if (!used) rc = c->e->code;
        at += used;
    }
    return rc;
}

/* ---- lists and tuples */

static int construct(td_prim_call *c, td_type_kind kind)
{
    int rc = td_val_box(c->purse, kind, c->nin, c->out, c->e);
    for (uint32_t k = 0; k < c->nin && !rc; k++) c->out->box->items[k] = td_val_ref(*c->in[k]);
    return rc;
}

static int list_construct(td_prim_call *c)
{
    return construct(c, TD_T_LIST);
}

static int tuple_construct(td_prim_call *c)
{
    return construct(c, TD_T_TUPLE);
}

static int unpack(td_prim_call *c)
{
    const td_boxed *b = c->in[0]->box;
    if (b->n != c->nout)
        return td_fail(c->e, TD_E_INVALID, "%u values are to be taken from a list of %u", c->nout, b->n);
    for (uint32_t k = 0; k < c->nout; k++) c->out[k] = td_val_ref(b->items[k]);
    return TD_OK;
}

/* ---- the rest */

static int same(td_prim_call *c)
{
    c->out[0] = td_val_ref(*c->in[0]);
    return TD_OK;
}

static int unchecked_cast(td_prim_call *c)
{
    if (c->in[0]->kind == TD_T_NONE) return td_fail(c->e, TD_E_INVALID, "a value that was said not to be None is None");
    return same(c);
}

static int nothing(td_prim_call *c)
{
    (void)c;
    return TD_OK;
}

static int is_none(td_prim_call *c)
{
    return td_prim_bool(c, c->in[0]->kind == TD_T_NONE);
}

/* An error of Python's becomes the code that the client raises it by. */
static int raise_error(td_prim_call *c)
{
    char kind[64], message[400], shown[2][400];
    snprintf(kind, sizeof kind, "%.*s", (int)(c->in[0]->box->n < 60 ? c->in[0]->box->n : 60), c->in[0]->box->chars);
    snprintf(message, sizeof message, "%.*s", (int)(c->in[1]->box->n < 390 ? c->in[1]->box->n : 390),
             c->in[1]->box->chars);
    return td_fail(c->e, TD_E_INVALID, "%s: %s", td_text_visible(shown[0], sizeof shown[0], kind),
                   td_text_visible(shown[1], sizeof shown[1], message));
}

td_prim_fn *const td_prims_basic[TD_PRIM_COUNT] = {
    [TD_PRIM_CONSTANT] = constant,     [TD_PRIM_LISTCONSTRUCT] = list_construct,
    [TD_PRIM_LISTUNPACK] = unpack,     [TD_PRIM_TUPLECONSTRUCT] = tuple_construct,
    [TD_PRIM_TUPLEUNPACK] = unpack,    [TD_PRIM_UNCHECKED_CAST] = unchecked_cast,
    [TD_PRIM_UNINITIALIZED] = nothing, [TD_PRIM_IS_NONE] = is_none,
    [TD_PRIM_RAISE] = raise_error,
};
