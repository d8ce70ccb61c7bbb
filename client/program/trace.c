/* A program from what a thread does: each op that is asked for between begin and end becomes a node.
 *
 * A handle knows which value of which trace it is (td_array.traced), so nothing has to be found, and handles that come
 * and go leave nothing behind. What an op is given that no op of the trace made is *captured*: the program keeps the
 * tensor, and later runs see what was written to it. But for one element that was made of a number of this process
 * while the trace was on (td_from_data): it becomes a constant of the program, made anew in each run as it was here, so
 * that the number can be read in the text and folded, and what is added to it in place is not there the next time.
 * Larger ones stay tensors: their bytes do not belong into a text.
 *
 * Everything here runs on the thread that traces, and after the op was sent; what goes wrong is kept, and told at the
 * end. */
#include "client/program/trace.h"

#include "client/program/programs.h"
#include "client/program/trace_numbers.h"
#include "client/tensor/recorder.h"
#include "client/tensor/run.h"
#include "proto/ops/opid.h"
#include "proto/program/edit.h"
#include "proto/program/literal.h"
#include "proto/program/prim.h"
#include "proto/program/verify.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

_Thread_local td_trace *td_tracing __attribute__((tls_model("initial-exec")));
static void turn_on(td_trace *t);
static _Thread_local td_trace *paused; /* then there is none in td_tracing */

enum { CONSTANTS = 64, MOST_WARNINGS = 100 };

typedef struct constant { /* that was made already */
    td_scalar v;
    uint32_t value;
} constant;

typedef struct capture {
    td_array *array; /* a reference of the trace's */
    uint32_t value;
} capture;

typedef struct called { /* a program that was called, and the function that it is now */
    td_ir *ir;
    uint32_t function;
} called;

typedef struct name_of { /* should it be captured */
    const td_array *array;
    char *name;
} name_of;

struct td_trace {
    td_client *client;
    td_ir_edit *e;
    uint32_t serial;
    unsigned generation; /* of forks: a child does not trace on */
    uint32_t rng;        /* random ops so far */
    uint32_t none;       /* the value None, or TD_IR_NONE */
    constant constants[CONSTANTS];
    uint32_t nconstants;
    capture *captured;
    uint32_t ncaptured, room_captured;
    called *called;
    uint32_t ncalled, room_called;
    name_of *names;
    uint32_t nnames, room_names;
    char **warnings;
    uint32_t nwarnings;
    uint32_t *inputs; /* values */
    int ninputs;
    td_numbers numbers;
    const char *last; /* where the last op was asked for */
    const char *(*where)(void);
    td_error failed;
};

/* ---- which value a handle is */

static td_trace *mine(void)
{
    td_trace *t = td_tracing;
    if (!t || t->generation == td_fork_generation()) return t;
    turn_on(NULL);
    return NULL;
}

static bool knows(const td_trace *t, const td_array *a)
{
    return a->traced >> 32 == t->serial;
}

static void is_value(const td_trace *t, td_array *a, uint32_t value)
{
    a->traced = (uint64_t)t->serial << 32 | value;
}

static uint32_t tensor_type(td_trace *t)
{
    return td_type_any_tensor(t->e);
}

static void fail(td_trace *t, int code, const char *where, const char *format, const char *what)
{
    if (t->failed.code) return;
    td_fail(&t->failed, code, format, what);
    if (where) snprintf(t->failed.where, sizeof t->failed.where, "%s", where);
}

static bool more(td_trace *t, void **at, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room) return true;
    uint32_t n = *room ? 2 * *room : 16;
    void *grown = realloc(*at, n * size);
    if (!grown) {
        fail(t, TD_E_SYSTEM, NULL, "%s", "no memory for a trace");
        return false;
    }
    *at = grown, *room = n;
    return true;
}

static const char *captured_name(const td_trace *t, const td_array *a)
{
    for (uint32_t k = 0; k < t->nnames; k++)
        if (t->names[k].array == a) return t->names[k].name;
    return NULL;
}

/* A name as values have them. */
static const char *plain_name(const char *name, char *out, size_t size)
{
    size_t n = 0;
    if (name[0] >= '0' && name[0] <= '9') out[n++] = '_';
    for (; *name && n + 1 < size; name++) {
        bool letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z');
        out[n++] = letter || (*name >= '0' && *name <= '9') ? *name : '_';
    }
    out[n] = 0;
    return out;
}

static uint32_t capture_array(td_trace *t, td_array *a)
{
    char own[32], value_name[TD_IR_NAME / 2];
    const char *name = captured_name(t, a);
    if (!more(t, (void **)&t->captured, t->ncaptured, &t->room_captured, sizeof *t->captured)) return TD_IR_NONE;
    snprintf(own, sizeof own, "tensor:%u", t->ncaptured); /* no name of Python's, so none that is given */
    snprintf(value_name, sizeof value_name, "c%u", t->ncaptured);
    if (name) plain_name(name, value_name, sizeof value_name);
    uint32_t value = td_ir_capture_new(t->e, tensor_type(t), value_name, name ? name : own);
    if (value == TD_IR_NONE) return value;
    t->captured[t->ncaptured++] = (capture){a, value};
    a->refs++;
    is_value(t, a, value);
    return value;
}

static uint32_t value_of(td_trace *t, td_array *a)
{
    return knows(t, a) ? (uint32_t)a->traced : capture_array(t, a);
}

/* ---- constants */

static uint32_t none(td_trace *t)
{
    if (t->none == TD_IR_NONE) t->none = td_ir_none(t->e);
    return t->none;
}

static bool same_bits(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

static bool same_number(td_scalar a, td_scalar b)
{
    if (a.kind != b.kind) return false;
    return a.kind <= TD_S_INT ? a.i == b.i : same_bits(a.re, b.re) && same_bits(a.im, b.im);
}

/* The commonest few are made once. */
static uint32_t number(td_trace *t, td_scalar s)
{
    for (uint32_t k = 0; k < t->nconstants; k++)
        if (same_number(t->constants[k].v, s)) return t->constants[k].value;
    uint32_t v = s.kind == TD_S_BOOL    ? td_ir_bool(t->e, s.i != 0)
                 : s.kind == TD_S_INT   ? td_ir_int(t->e, s.i)
                 : s.kind == TD_S_FLOAT ? td_ir_float(t->e, s.re)
                                        : td_ir_complex(t->e, s.re, s.im);
    if (t->nconstants < CONSTANTS) t->constants[t->nconstants++] = (constant){s, v};
    return v;
}

static uint32_t integer(td_trace *t, int64_t i)
{
    return number(t, (td_scalar){.kind = TD_S_INT, .i = i});
}

static uint32_t ints(td_trace *t, int n, const int64_t *v)
{
    uint32_t words[1 + 3 * TD_MAX_INTS], used, type = td_type_list(t->e, td_type_plain(t->e, TD_T_INT));
    used = td_literal_put(words, &(td_literal){.kind = TD_L_LIST, .small = (uint32_t)n});
    for (int k = 0; k < n; k++) used += td_literal_put(words + used, &(td_literal){.kind = TD_L_INT, .i = v[k]});
    uint32_t node = td_ir_op(t->e, TD_PRIM_CONSTANT, 0, NULL, 1, &type);
    td_ir_words(t->e, node, words, used);
    return td_ir_result(t->e, node);
}

/* Some of them are followed. */
static uint32_t mixed_ints(td_trace *t, const td_attrs *attrs, int k)
{
    int n;
    const int64_t *v = td_attr_ints(attrs, k, &n);
    uint32_t items[TD_MAX_INTS], type = td_type_list(t->e, td_type_plain(t->e, TD_T_INT));
    for (int i = 0; i < n; i++) {
        uint32_t index = td_numbers_given(&t->numbers, attrs, k, i);
        items[i] = index ? td_numbers_value(&t->numbers, index, false) : integer(t, v[i]);
    }
    return td_ir_result(t->e, td_ir_op(t->e, TD_PRIM_LISTCONSTRUCT, (uint32_t)n, items, 1, &type));
}

/* An attribute as it was given; TD_IR_NONE: it is a constant. */
static uint32_t followed_attribute(td_trace *t, const td_attrs *attrs, int k)
{
    const td_attr *a = &attrs->at[k];
    uint32_t index = a->kind == TD_A_INTS ? 0 : td_numbers_given(&t->numbers, attrs, k, -1);
    if (index) return td_numbers_value(&t->numbers, index, a->kind == TD_A_FLOAT);
    for (int i = 0; a->kind == TD_A_INTS && i < a->count; i++)
        if (td_numbers_given(&t->numbers, attrs, k, i)) return mixed_ints(t, attrs, k);
    return TD_IR_NONE;
}

static uint32_t attribute(td_trace *t, const td_attrs *attrs, int k)
{
    const td_attr *a = &attrs->at[k];
    uint32_t followed = attrs->followed ? followed_attribute(t, attrs, k) : TD_IR_NONE;
    if (followed != TD_IR_NONE) return followed;
    switch ((td_attr_kind)a->kind) {
    case TD_A_INT: return integer(t, a->i);
    case TD_A_FLOAT: return number(t, (td_scalar){.kind = TD_S_FLOAT, .re = a->f});
    case TD_A_BOOL: return number(t, (td_scalar){.kind = TD_S_BOOL, .i = a->i});
    case TD_A_SCALAR: return number(t, a->s);
    case TD_A_DTYPE: return td_ir_dtype(t->e, (td_dtype)a->i);
    case TD_A_INTS: return ints(t, a->count, attrs->ints + a->first);
    case TD_A_TEXT: return td_ir_str(t->e, td_attr_text(attrs, k), a->count);
    default: return none(t);
    }
}

/* ---- an op */

/* The place of what is recorded next: "train.py:12". */
static void come_from(td_trace *t, const char *where)
{
    char file[sizeof((td_error *)0)->where];
    const char *colon = where ? strrchr(where, ':') : NULL;
    t->last = where ? where : t->last;
    if (!colon || colon == where || (size_t)(colon - where) >= sizeof file) {
        td_ir_from(t->e, NULL, 0, 0, 0);
        return;
    }
    memcpy(file, where, (size_t)(colon - where));
    file[colon - where] = 0;
    td_ir_from(t->e, file, (uint32_t)strtoul(colon + 1, NULL, 10), 0, 0);
}

/* The followed number that an argument is; 0: it is none. */
static uint32_t followed(const td_trace *t, td_arg a)
{
    if ((a.kind != TD_ARG_INT && a.kind != TD_ARG_FLOAT) || !(a.im >= 1) || a.im > 0x1p53) return 0;
    td_scalar s = td_scalar_of(a);
    return td_numbers_find(&t->numbers, (uint64_t)a.im, &s);
}

static uint32_t argument(td_trace *t, td_arg a)
{
    uint32_t index = followed(t, a);
    if (a.kind == TD_ARG_ARRAY && a.array) return value_of(t, a.array);
    if (index) return td_numbers_value(&t->numbers, index, false);
    return a.kind > TD_ARG_ARRAY ? number(t, td_scalar_of(a)) : none(t);
}

static uint32_t list(td_trace *t, const td_op *op, int n, const td_arg *in)
{
    uint32_t items[TD_MAX_INPUTS], type = tensor_type(t);
    for (int k = 0; k < n; k++) items[k] = argument(t, in[k]);
    if (op->params[op->list_param].kind == TD_P_OPTIONAL_LIST) type = td_type_optional(t->e, type);
    type = td_type_list(t->e, type);
    return td_ir_result(t->e, td_ir_op(t->e, TD_PRIM_LISTCONSTRUCT, (uint32_t)n, items, 1, &type));
}

/* Its arguments in the order of its signature; how many. */
static uint32_t arguments(td_trace *t, const td_op *op, int nin, const td_arg *in, const td_attrs *attrs, uint32_t *out)
{
    uint32_t n = (uint32_t)op->nparams + op->nattrs;
    int at = 0, attr = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (op->attrs_at >> k & 1) {
            out[k] = attribute(t, attrs, attr++);
            continue;
        }
        int length = nin - (op->nparams - 1), param = (int)k - attr;
        if (param == op->list_param) out[k] = list(t, op, length, in + at), at += length;
        else out[k] = argument(t, in[at++]);
    }
    return n;
}

static uint32_t node_of(td_trace *t, const td_op *op, uint32_t flags, uint32_t n, const uint32_t *args)
{
    uint32_t list = td_type_list(t->e, tensor_type(t));
    td_ir_mode_now(t->e, op->flags & TD_OF_CREATION ? td_mode_making() : td_mode());
    uint32_t node = td_ir_op(t->e, TD_IR_TD | flags | op->id, n, args, 0, NULL);
    for (int k = 0; k < op->nouts; k++) td_ir_out_new(t->e, node, op->outs[k].list ? list : tensor_type(t));
    if (op->flags & TD_OF_RANDOM) td_ir_rng(t->e, node, t->rng++);
    return node;
}

/* What an op made of its list. */
static uint32_t unpacked(td_trace *t, uint32_t node, int n)
{
    uint32_t made = td_ir_result(t->e, node), unpack = td_ir_op(t->e, TD_PRIM_LISTUNPACK, 1, &made, 0, NULL);
    for (int k = 0; k < n; k++) td_ir_out_new(t->e, unpack, tensor_type(t));
    return unpack;
}

static void record_made(td_trace *t, const td_op *op, uint32_t n, const uint32_t *args, int nout, td_array *const *out)
{
    uint32_t node = node_of(t, op, 0, n, args);
    if (op->nouts && op->outs[0].list) node = unpacked(t, node, nout);
    if (td_ir_failed(t->e)) return;
    for (int k = 0; k < nout; k++) is_value(t, out[k], td_ir_out(td_ir_now(t->e), node, (uint32_t)k));
}

/* `target` is written: by the op itself where it is its first argument, else with the target before them. */
static void record_written(td_trace *t, const td_op *op, bool in_place, uint32_t n, uint32_t *args, td_array *target)
{
    uint32_t all[TD_MAX_PARAMS + TD_MAX_ATTRS + 1];
    td_attrs whole;
    if (op->compose) { /* as td_run_composed() does */
        args[0] = td_ir_result(t->e, node_of(t, op, 0, n, args));
        td_attrs_init(&whole);
        td_attrs_none(&whole);
        op = td_op_by_id(TD_OP_COPY);
        args[1] = attribute(t, &whole, 0);
        n = 2, in_place = false;
    }
    memcpy(all + 1, args, n * sizeof *all);
    all[0] = value_of(t, target);
    uint32_t node = node_of(t, op, TD_IR_INPLACE, n + !in_place, in_place ? args : all);
    uint32_t result = td_ir_result(t->e, node);
    if (!td_ir_failed(t->e)) is_value(t, target, result);
}

static void tell_op(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
                    const td_attrs *attrs, int nout, td_array *const *out)
{
    uint32_t args[TD_MAX_PARAMS + TD_MAX_ATTRS];
    td_trace *t = mine();
    if (!t || t->client != c || td_ir_failed(t->e)) return;
    come_from(t, where);
    uint32_t n = arguments(t, op, nin, in, attrs, args);
    bool first = nin && in[0].kind == TD_ARG_ARRAY && nout && in[0].array == out[0];
    if (!(flags & TD_RF_OUT)) record_made(t, op, n, args, nout, out);
    else if (nout == 1) record_written(t, op, first && op->flags & TD_OF_INPLACE, n, args, out[0]);
    else fail(t, TD_E_UNSUPPORTED, where, "%s with several out= cannot be part of a program", op->name);
}

static void tell_data_of(td_array *made, td_array *of)
{
    td_attrs nothing;
    td_arg in = td_arg_array(of);
    td_attrs_init(&nothing);
    tell_op(of->client, NULL, td_op_by_id(TD_OP_DETACH), 0, 1, &in, &nothing, 1, &made);
}

static void tell_data(td_array *made, const void *data)
{
    td_scalar s;
    td_attrs attrs;
    const td_desc *d = &made->desc;
    td_trace *t = mine();
    if (!t || t->client != made->client || td_desc_numel(d) != 1) return;
    s = td_scalar_load((td_dtype)d->dtype, data);
    td_attrs_init(&attrs);
    td_attrs_ints(&attrs, d->ndim, d->shape);
    td_attrs_scalar(&attrs, s);
    td_attrs_dtype(&attrs, (td_dtype)d->dtype);
    tell_op(made->client, NULL, td_op_by_id(TD_OP_FULL), 0, 0, NULL, &attrs, 1, &made);
}

/* ---- what a program does not see */

/* Not under the lock: a binding may have put its own down. */
static const char *here(const td_trace *t, const char **after)
{
    const char *where = t->where ? t->where() : NULL;
    *after = where ? "" : "after ";
    return where ? where : t->last;
}

static const char *const VALUE = "the value of a traced tensor", *const SIZE = "a size of a traced tensor";

/* "item, train.c:31: ...": once for each place. */
static void warn(td_trace *t, const char *what, const char *thing, const char *after, const char *where)
{
    char text[256];
    if (t->nwarnings == MOST_WARNINGS) return;
    snprintf(text, sizeof text,
             "%s%s%s%s: %s becomes a constant: the program does not follow what is done by it, and may be wrong for "
             "other inputs",
             what, where ? ", " : "", after, where ? where : "", thing);
    for (uint32_t k = 0; k < t->nwarnings; k++)
        if (strcmp(t->warnings[k], text) == 0) return;
    char **all = realloc(t->warnings, (t->nwarnings + 1) * sizeof *all);
    if (!all) return;
    t->warnings = all;
    all[t->nwarnings] = strdup(text);
    t->nwarnings += all[t->nwarnings] != NULL;
}

void td_trace_look(const td_array *a, const char *how)
{
    td_trace *t = mine();
    if (!t || !knows(t, a)) return;
    const char *after, *where = here(t, &after);
    warn(t, how, VALUE, after, where);
}

TD_API const char *td_trace_warning(const td_trace *t, int k)
{
    return t && k >= 0 && (uint32_t)k < t->nwarnings ? t->warnings[k] : NULL;
}

void td_trace_refuse(const td_array *a, const char *where, const char *what)
{
    const char *after;
    td_trace *t = mine();
    if (!t || (a && !knows(t, a))) return;
    if (!where) where = here(t, &after);
    fail(t, TD_E_UNSUPPORTED, where, "%s cannot be part of a program: trace what comes before and after it", what);
}

/* ---- numbers */

bool td_trace_knows(const td_array *a)
{
    const td_trace *t = mine();
    return t && knows(t, a);
}

/* Is it captured? What it looks like is then known for ever. */
static bool is_captured(const td_trace *t, uint32_t value)
{
    for (uint32_t k = 0; k < t->ncaptured; k++)
        if (t->captured[k].value == value) return true;
    return false;
}

static bool follows(const td_trace *t, const td_array *a)
{
    return t && knows(t, a) && !td_ir_failed(t->e) && !is_captured(t, (uint32_t)a->traced);
}

uint64_t td_trace_size(td_array *a, int dim)
{
    td_trace *t = mine();
    if (!follows(t, a) || td_ndim(a) < 0) return 0;
    int64_t is = dim < 0 ? td_numel(a) : td_size(a, dim);
    return td_numbers_of(&t->numbers, (uint32_t)a->traced, dim < 0 ? TD_OF_ALL : dim, td_int(is));
}

int td_trace_item(td_array *a, td_arg *out)
{
    td_scalar s;
    td_trace *t = mine();
    bool was = td_trace_pause(true);
    int rc = td_item(a, &s);
    if (!was) td_trace_pause(false);
    if (rc) return rc;
    if (s.kind == TD_S_BOOL) s.kind = TD_S_INT;
    *out = td_arg_of(s);
    out->im = 0;
    if (s.kind != TD_S_COMPLEX && follows(t, a))
        out->im = (double)td_numbers_of(&t->numbers, (uint32_t)a->traced, TD_OF_ITEM, s);
    return TD_OK;
}

uint64_t td_trace_worked(unsigned prim, int n, const td_arg *in, td_scalar made)
{
    enum { MOST = 2 };
    const char *after;
    uint32_t values[MOST], types[1];
    td_trace *t = mine();
    if (!t || td_ir_failed(t->e) || n > MOST) return 0;
    come_from(t, here(t, &after));
    for (int k = 0; k < n; k++) values[k] = argument(t, in[k]);
    types[0] = td_type_plain(t->e, made.kind == TD_S_INT ? TD_T_INT : TD_T_FLOAT);
    return td_numbers_new(&t->numbers, td_ir_result(t->e, td_ir_op(t->e, prim, (uint32_t)n, values, 1, types)), made);
}

bool td_trace_follows(uint64_t name)
{
    const td_trace *t = mine();
    return t && td_numbers_find(&t->numbers, name, NULL);
}

void td_trace_use(uint64_t name, const char *how)
{
    td_trace *t = mine();
    if (!t || !td_numbers_find(&t->numbers, name, NULL)) return;
    const char *after, *where = here(t, &after);
    warn(t, how, SIZE, after, where);
}

void td_trace_stand(int n, const int64_t *at, const uint64_t *names)
{
    td_trace *t = mine();
    if (t) td_numbers_stand(&t->numbers, n, at, names, false);
}

void td_trace_gone(const int64_t *at)
{
    td_trace *t = mine();
    if (t) td_numbers_gone(&t->numbers, at);
}

static void tell_standing(td_ints v, uint64_t *names)
{
    const td_trace *t = mine();
    if (t) td_numbers_standing(&t->numbers, v.n, v.at, names);
    else memset(names, 0, (size_t)v.n * sizeof *names);
}

td_ints td_trace_shape(td_array *a)
{
    uint64_t names[TD_MAX_DIMS];
    const td_desc *d = &a->desc;
    td_trace *t = mine();
    if (follows(t, a)) {
        td_numbers_gone(&t->numbers, d->shape);
        for (int k = 0; k < d->ndim; k++) names[k] = td_trace_size(a, k);
        td_numbers_stand(&t->numbers, d->ndim, d->shape, names, true);
    }
    return td_dims_of(d->ndim, d->shape);
}

static void tell_give(td_attrs *a, td_arg v)
{
    td_trace *t = mine();
    if (t) td_numbers_give(&t->numbers, a, -1, followed(t, v));
}

static void tell_give_ints(td_attrs *a, td_ints v)
{
    td_trace *t = mine();
    if (t) td_numbers_give_ints(&t->numbers, a, v.n, v.at);
}

/* ---- the call of another program: its functions become functions of this one */

static uint32_t import_program(td_trace *t, const td_program *p)
{
    char name[32];
    uint32_t *captured = malloc(((size_t)p->ncaptured + 1) * sizeof *captured), function = TD_IR_NONE;
    bool room = more(t, (void **)&t->called, t->ncalled, &t->room_called, sizeof *t->called);
    for (int k = 0; captured && k < p->ncaptured; k++) captured[k] = value_of(t, p->captured[k]);
    snprintf(name, sizeof name, "program%u", t->ncalled);
    if (captured && room) function = td_ir_import(t->e, p->ir, name, captured);
    if (function != TD_IR_NONE) t->called[t->ncalled++] = (called){td_ir_ref(p->ir), function};
    free(captured);
    return function;
}

static uint32_t function_of(td_trace *t, const td_program *p)
{
    for (uint32_t k = 0; k < t->ncalled; k++)
        if (t->called[k].ir == p->ir) return t->called[k].function;
    return import_program(t, p);
}

static uint32_t part_of(const td_trace *t, uint32_t type, uint32_t k)
{
    return td_type_part(td_ir_now(t->e), type, k);
}

static uint32_t value_as(td_trace *t, const td_value *v, uint32_t type);

static uint32_t items_as(td_trace *t, const td_value *v, uint32_t type) /* NOLINT(misc-no-recursion): TD_PV_DEPTH */
{
    const td_ir *ir = td_ir_now(t->e);
    bool tuple = v->kind == TD_VALUE_TUPLE, dict = v->kind == TD_VALUE_DICT;
    bool fits = td_type_kind_of(ir, type) == (tuple ? TD_T_TUPLE : dict ? TD_T_DICT : TD_T_LIST);
    uint32_t op = tuple ? TD_PRIM_TUPLECONSTRUCT : dict ? TD_PRIM_DICTCONSTRUCT : TD_PRIM_LISTCONSTRUCT;
    fits = fits && (!tuple || td_type_parts(ir, type) == v->n);
    uint32_t made = TD_IR_NONE, *items = fits ? malloc(((size_t)v->n + 1) * sizeof *items) : NULL;
    for (uint32_t k = 0; items && k < v->n; k++)
        items[k] = value_as(t, &v->items[k], part_of(t, type, tuple ? k : dict ? k % 2 : 0));
    if (items) made = td_ir_result(t->e, td_ir_op(t->e, op, v->n, items, 1, &type));
    else fail(t, TD_E_UNSUPPORTED, NULL, "%s", "an argument of a program that is called cannot be recorded");
    free(items);
    return made;
}

static td_arg arg_of(const td_value *v)
{
    td_arg a = v->kind == TD_VALUE_INT ? td_arg_int(v->i) : td_arg_float(v->re);
    a.im = v->im;
    return a;
}

static uint32_t number_as(td_trace *t, const td_value *v, td_type_kind want)
{
    td_scalar s = {.kind = v->kind == TD_VALUE_BOOL ? TD_S_BOOL : TD_S_INT, .i = v->i};
    if (v->kind == TD_VALUE_FLOAT || v->kind == TD_VALUE_COMPLEX) s = (td_scalar){.kind = TD_S_FLOAT, .re = v->re};
    else if (want == TD_T_FLOAT || want == TD_T_COMPLEX) s = (td_scalar){.kind = TD_S_FLOAT, .re = (double)v->i};
    if (v->kind == TD_VALUE_COMPLEX || want == TD_T_COMPLEX) s.kind = TD_S_COMPLEX;
    if (v->kind == TD_VALUE_COMPLEX) s.im = v->im;
    uint32_t index = v->kind == TD_VALUE_INT || v->kind == TD_VALUE_FLOAT ? followed(t, arg_of(v)) : 0;
    if (index && (want == TD_T_INT || want == TD_T_FLOAT))
        return td_numbers_value(&t->numbers, index, want == TD_T_FLOAT);
    return number(t, s);
}

/* An argument, where a value of this type is wanted. */
static uint32_t value_as(td_trace *t, const td_value *v, uint32_t type) /* NOLINT(misc-no-recursion): TD_PV_DEPTH */
{
    td_type_kind want = td_type_kind_of(td_ir_now(t->e), type);
    if (want == TD_T_OPTIONAL && v->kind != TD_VALUE_NONE) return value_as(t, v, part_of(t, type, 0));
    switch (v->kind) {
    case TD_VALUE_INT:
    case TD_VALUE_FLOAT:
    case TD_VALUE_BOOL:
    case TD_VALUE_COMPLEX: return number_as(t, v, want);
    case TD_VALUE_STR: return td_ir_str(t->e, v->text, v->n);
    case TD_VALUE_DEVICE: return td_ir_device(t->e, (unsigned)v->i);
    case TD_VALUE_DTYPE: return td_ir_dtype(t->e, (td_dtype)v->i);
    case TD_VALUE_ARRAY: return value_of(t, v->array);
    case TD_VALUE_LIST:
    case TD_VALUE_DICT:
    case TD_VALUE_TUPLE: return items_as(t, v, type);
    default: return none(t);
    }
}

/* Of a dict: its keys are what they were. */
static uint32_t values_of(td_trace *t, uint32_t dict, uint32_t type)
{
    uint32_t list = td_type_list(t->e, type);
    return td_ir_result(t->e, td_ir_op(t->e, TD_PRIM_VALUES, 1, &dict, 1, &list));
}

/* The tensors among the results are values from now on; what else a program gives is a constant of the trace. */
static void results_are(td_trace *t, const td_value *v, uint32_t value) /* NOLINT(misc-no-recursion): TD_PV_DEPTH */
{
    if (td_ir_failed(t->e) || value == TD_IR_NONE) return;
    uint32_t type = td_ir_now(t->e)->values[value].type;
    td_type_kind kind = td_type_kind_of(td_ir_now(t->e), type);
    bool items = td_value_has_items(v), dict = kind == TD_T_DICT;
    if (v->kind == TD_VALUE_ARRAY && kind == TD_T_TENSOR) is_value(t, v->array, value);
    else if (!items && v->kind != TD_VALUE_NONE) warn(t, "a result of a program", VALUE, "", t->last);
    if (!items || !v->n || (kind != TD_T_LIST && kind != TD_T_TUPLE && !dict)) return;
    if (dict) value = values_of(t, value, part_of(t, type, 1));
    uint32_t node = td_ir_op(t->e, kind == TD_T_TUPLE ? TD_PRIM_TUPLEUNPACK : TD_PRIM_LISTUNPACK, 1, &value, 0, NULL);
    for (uint32_t k = dict; k < v->n; k += 1 + dict)
        td_ir_out_new(t->e, node, part_of(t, type, kind == TD_T_TUPLE ? k : dict));
    for (uint32_t k = dict, out = 0; k < v->n && !td_ir_failed(t->e); k += 1 + dict)
        results_are(t, &v->items[k], td_ir_out(td_ir_now(t->e), node, out++));
}

void td_trace_call(const td_program *p, const char *where, int n, const td_value *args, const td_value *result)
{
    td_trace *t = mine();
    if (!t || t->client != p->client || td_ir_failed(t->e) || t->failed.code) return;
    come_from(t, where);
    uint32_t function = function_of(t, p), *values = malloc(((size_t)n + 1) * sizeof *values);
    if (!values || function == TD_IR_NONE) {
        free(values);
        if (!td_ir_failed(t->e)) fail(t, TD_E_SYSTEM, where, "%s", "no memory for a trace");
        return;
    }
    uint32_t block = td_ir_now(t->e)->functions[function].block, count = td_ir_now(t->e)->blocks[block].nrets;
    for (int k = 0; k < n; k++) {
        uint32_t param = td_ir_param(td_ir_now(t->e), block, (uint32_t)k);
        values[k] = value_as(t, &args[k], td_ir_now(t->e)->values[param].type);
    }
    td_ir_mode_now(t->e, td_mode() & (TD_RM_GRAD_OFF | TD_RM_INFERENCE));
    uint32_t node = td_ir_op(t->e, TD_IR_FN | function, (uint32_t)n, values, 0, NULL);
    free(values);
    for (uint32_t k = 0; k < count; k++)
        td_ir_out_new(t->e, node, td_ir_now(t->e)->values[td_ir_return(td_ir_now(t->e), block, k)].type);
    for (uint32_t k = 0; k < count && node != TD_IR_NONE && !td_ir_failed(t->e); k++)
        results_are(t, count == 1 ? result : &result->items[k], td_ir_out(td_ir_now(t->e), node, k));
}

/* ---- begin and end */

void td_trace_places(td_trace *t, const char *(*where)(void))
{
    t->where = where;
}

void td_trace_name_input(td_trace *t, int k, const char *name)
{
    char text[TD_IR_NAME / 2];
    td_ir_name(t->e, t->inputs[k], plain_name(name, text, sizeof text));
}

int td_trace_name_captured(td_trace *t, td_array *a, const char *name)
{
    if (captured_name(t, a)) return TD_OK;
    char *copy = more(t, (void **)&t->names, t->nnames, &t->room_names, sizeof *t->names) ? strdup(name) : NULL;
    if (!copy) return td_raise(TD_E_SYSTEM, "trace", "no memory for a trace");
    t->names[t->nnames++] = (name_of){a, copy};
    return TD_OK;
}

static void drop(td_trace *t)
{
    td_ir_edit_free(t->e);
    for (uint32_t k = 0; k < t->nnames; k++) free(t->names[k].name);
    for (uint32_t k = 0; k < t->nwarnings; k++) free(t->warnings[k]);
    for (uint32_t k = 0; k < t->ncalled; k++) td_ir_unref(t->called[k].ir);
    td_numbers_free(&t->numbers);
    free(t->called);
    free(t->names);
    free(t->warnings);
    free(t->captured);
    free(t->inputs);
    free(t);
}

static td_trace *make(td_client *c, int ninputs)
{
    static atomic_uint serials;
    td_error e = {0};
    td_trace *t = calloc(1, sizeof *t);
    uint32_t *inputs = malloc(((size_t)ninputs + 1) * sizeof *inputs);
    td_ir_edit *edit = t && inputs ? td_ir_edit_new(NULL, TD_IR_MAX_NODES, &e) : NULL;
    if (!edit) {
        free(t);
        free(inputs);
        td_raise(TD_E_SYSTEM, "trace", "no memory for a trace");
        return NULL;
    }
    *t = (td_trace){.client = c, .e = edit, .none = TD_IR_NONE, .inputs = inputs, .ninputs = ninputs};
    while (!t->serial) t->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
    t->numbers.e = edit, t->numbers.serial = t->serial;
    t->generation = td_fork_generation();
    return t;
}

static int take_inputs(td_trace *t, td_list inputs)
{
    td_ir_function_new(t->e, NULL);
    for (int k = 0; k < inputs.n; k++) {
        if (knows(t, inputs.at[k]))
            return td_raise(TD_E_INVALID, "trace", "input %d is the same array as one before; give td_alias() of it",
                            k);
        t->inputs[k] = td_ir_param_new(t->e, td_ir_cursor(t->e), tensor_type(t), "x");
        is_value(t, inputs.at[k], t->inputs[k]);
    }
    return td_ir_failed(t->e) ? td_raise(TD_E_QUOTA, "trace", "%d inputs; at most %d", inputs.n, TD_IR_MAX_ENDS)
                              : TD_OK;
}

static const td_recorder recorder = {.op = tell_op,
                                     .data_of = tell_data_of,
                                     .data = tell_data,
                                     .look = td_trace_look,
                                     .refuse = td_trace_refuse,
                                     .size = td_trace_size,
                                     .stand = td_trace_stand,
                                     .gone = td_trace_gone,
                                     .standing = tell_standing,
                                     .shape = td_trace_shape,
                                     .give = tell_give,
                                     .give_ints = tell_give_ints};

static void turn_on(td_trace *t)
{
    td_tracing = t;
    td_recording = t ? &recorder : NULL;
}

TD_API td_trace *td_trace_begin(td_client *client, td_list inputs)
{
    td_client *c = client;
    if (!client) {
        td_raise_null("trace", "the client");
        return NULL;
    }
    if (mine()) {
        td_raise(TD_E_INVALID, "trace", "this thread traces already; end that trace first");
        return NULL;
    }
    if (inputs.n < 0 || inputs.n > TD_IR_MAX_ENDS) {
        td_raise(TD_E_QUOTA, "trace", "%d inputs; at most %d", inputs.n, TD_IR_MAX_ENDS);
        return NULL;
    }
    if (td_list_client(&c, inputs, "trace", "an input") || td_enter(c, "trace")) return NULL;
    td_trace *t = make(c, inputs.n);
    if (t && take_inputs(t, inputs)) drop(t), t = NULL;
    if (t) c->handles++;
    td_leave(c);
    turn_on(t);
    return t;
}

bool td_trace_pause(bool on)
{
    bool was = paused != NULL;
    if (on ? !td_tracing : !paused || td_tracing) return was;
    td_trace *t = on ? td_tracing : paused;
    turn_on(on ? NULL : t);
    paused = on ? t : NULL;
    return was;
}

/* No longer on; what it captured goes. */
static void end(td_trace *t)
{
    td_client *c = t->client;
    if (td_tracing == t) turn_on(NULL);
    if (paused == t) paused = NULL;
    for (uint32_t k = 0; k < t->ncaptured; k++) td_release(t->captured[k].array);
    td_lock(c);
    c->handles--;
    td_unlock(c);
    drop(t);
}

TD_API void td_trace_free(td_trace *t)
{
    if (t) end(t);
}

static int may_end(td_trace *t, td_list outputs)
{
    td_client *c = t->client;
    if (t->generation != td_fork_generation())
        return td_raise(TD_E_INVALID, "trace",
                        "the trace is the parent's: it was begun before this process was forked");
    if (td_tracing != t)
        return td_raise(TD_E_INVALID, "trace", "the trace was begun by another thread, which must end it");
    if (t->failed.code) return td_raise_error(&t->failed, "trace", NULL);
    if (t->numbers.full) return td_raise(TD_E_QUOTA, "trace", "a trace follows no more than a million sizes");
    if (outputs.n > TD_IR_MAX_ENDS)
        return td_raise(TD_E_QUOTA, "trace", "%d outputs; at most %d", outputs.n, TD_IR_MAX_ENDS);
    return td_list_client(&c, outputs, "trace", "an output");
}

static td_ir *seal(td_trace *t, td_list outputs)
{
    td_error e = {0};
    uint32_t *values = malloc(((size_t)outputs.n + 1) * sizeof *values);
    for (int k = 0; k < outputs.n && values; k++) values[k] = value_of(t, outputs.at[k]);
    if (values && !t->failed.code) td_ir_returns(t->e, td_ir_cursor(t->e), (uint32_t)outputs.n, values);
    else td_no_memory(&e, "for a trace");
    free(values);
    td_ir *ir = e.code ? NULL : td_ir_seal(t->e, &e);
    if (!e.code) t->e = NULL;
    if (ir && td_ir_verify(ir, 0, &e)) td_ir_unref(ir), ir = NULL;
    if (!ir) td_raise_error(&e, "trace", NULL);
    return ir;
}

/* The captured tensors are the caller's from now on. */
static bool hand_over(td_trace *t, td_array ***captured)
{
    td_array **at = malloc(((size_t)t->ncaptured + 1) * sizeof(td_array *));
    if (!at) return td_raise(TD_E_SYSTEM, "trace", "no memory for a trace"), false;
    for (uint32_t k = 0; k < t->ncaptured; k++) at[k] = t->captured[k].array;
    t->ncaptured = 0;
    *captured = at;
    return true;
}

td_ir *td_trace_take(td_trace *t, td_list outputs, td_array ***captured)
{
    td_ir *ir = NULL;
    *captured = NULL;
    if (!may_end(t, outputs) && !td_enter(t->client, "trace")) {
        ir = seal(t, outputs);
        td_leave(t->client);
    }
    if (ir && !hand_over(t, captured)) td_ir_unref(ir), ir = NULL;
    end(t);
    return ir;
}

TD_API td_program *td_trace_end(td_trace *t, td_list outputs)
{
    td_array **captured;
    if (!t) {
        td_raise_null("trace", "the trace");
        return NULL;
    }
    td_client *c = t->client;
    td_ir *ir = td_trace_take(t, outputs, &captured);
    if (!ir) return NULL;
    td_list list = td_arrays_of((int)ir->ncaptures, captured);
    td_program *p = td_program_give(c, ir, list, "trace");
    for (int k = 0; k < list.n; k++) td_release(captured[k]);
    free(captured);
    return p;
}

bool td_is_tracing(void)
{
    return td_tracing;
}
