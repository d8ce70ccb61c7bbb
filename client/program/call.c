/* A call of a program: its arguments as words, and the values that come back.
 *
 * What returns nothing but tensors is a record like an op's: the handles are there at once, and nobody waits. Otherwise
 * the daemon answers, and the tensors among the results have the first of the ids that were kept for them. */
#include "client/program/programs.h"
#include "client/program/trace.h"
#include "client/tensor/awaited.h"

#include "proto/program/text.h"
#include "proto/program/type.h"
#include "proto/program/values.h"

#include <stdio.h>
#include <stdlib.h>

/* What this thread's calls may take, in ms; 0: as long as it takes. */
static _Thread_local int run_ms;

TD_API int td_set_program_timeout(int ms)
{
    int was = run_ms;
    run_ms = ms > 0 ? ms : 0;
    return was;
}

/* ---- arguments */

static int no_memory(void)
{
    return td_raise(TD_E_SYSTEM, "program_call", "no memory for a call of a program");
}

static int add_array(td_calling *x, td_array *a)
{
    if (!a) return td_raise_null("program_call", "an array");
    int rc = td_same_client(&x->p->client, a, "program_call");
    if (rc) return rc;
    if (x->narrays == x->room) {
        uint32_t room = x->room ? 2 * x->room : 16, *ids = realloc(x->ids, room * sizeof *ids);
        if (!ids) return no_memory();
        x->ids = ids, x->room = room;
    }
    x->ids[x->narrays++] = a->id;
    return TD_OK;
}

static td_type_kind wanted_kind(const td_ir *ir, uint32_t type)
{
    td_type_kind want = td_type_kind_of(ir, type);
    return want == TD_T_OPTIONAL ? td_type_kind_of(ir, td_type_part(ir, type, 0)) : want;
}

/* The value as a parameter of this type has it: a tuple as a list, a bool or an int as the number that is wanted. */
static td_value as_wanted(const td_ir *ir, uint32_t type, td_value v)
{
    td_type_kind want = type == TD_IR_NONE ? TD_T_NONE : wanted_kind(ir, type);
    bool whole = v.kind == TD_VALUE_INT || v.kind == TD_VALUE_BOOL;
    int64_t i = whole ? (v.kind == TD_VALUE_BOOL ? v.i != 0 : v.i) : 0;
    if (v.kind == TD_VALUE_TUPLE && want == TD_T_LIST) v.kind = TD_VALUE_LIST;
    if (whole && want == TD_T_INT) v.kind = TD_VALUE_INT, v.i = i;
    if (whole && (want == TD_T_FLOAT || want == TD_T_COMPLEX)) v.re = (double)i, v.im = 0;
    else if (v.kind == TD_VALUE_FLOAT && want == TD_T_COMPLEX) v.im = 0;
    else return v;
    v.kind = want == TD_T_FLOAT ? TD_VALUE_FLOAT : TD_VALUE_COMPLEX;
    return v;
}

/* The type of item k of a list, tuple or dict that is of this type; TD_IR_NONE: it is not known. */
static uint32_t item_type(const td_ir *ir, uint32_t type, uint32_t k)
{
    if (type != TD_IR_NONE && td_type_kind_of(ir, type) == TD_T_OPTIONAL) type = td_type_part(ir, type, 0);
    td_type_kind kind = type == TD_IR_NONE ? TD_T_NONE : td_type_kind_of(ir, type);
    if (kind == TD_T_LIST) return td_type_part(ir, type, 0);
    if (kind == TD_T_DICT) return td_type_part(ir, type, k % 2);
    return kind == TD_T_TUPLE && k < td_type_parts(ir, type) ? td_type_part(ir, type, k) : TD_IR_NONE;
}

/* One that is of this type, or TD_IR_NONE. */
static int put(td_calling *x, const td_value *given, uint32_t type,
               int depth) /* NOLINT(misc-no-recursion): as deep as TD_PV_DEPTH */
{
    td_value converted = as_wanted(x->p->ir, type, *given), *v = &converted;
    td_pv w = {.kind = (td_pv_kind)v->kind};
    if ((unsigned)v->kind >= TD_PV_KINDS)
        return td_raise(TD_E_INVALID, "program_call", "there is no kind %d of values", (int)v->kind);
    if (depth > TD_PV_DEPTH)
        return td_raise(TD_E_INVALID, "program_call", "an argument has more than %d lists within lists", TD_PV_DEPTH);
    bool items = td_value_has_items(v);
    if (v->kind == TD_VALUE_INT) w.i = v->i;
    else if (v->kind == TD_VALUE_FLOAT || v->kind == TD_VALUE_COMPLEX) w.re = v->re, w.im = v->im;
    else if (v->kind == TD_VALUE_BOOL) w.small = v->i != 0;
    else if (v->kind == TD_VALUE_DEVICE || v->kind == TD_VALUE_DTYPE) w.small = (uint32_t)v->i;
    else if (v->kind == TD_VALUE_STR) w.small = v->n, w.text = v->text;
    else if (items) w.small = v->n;
    else if (v->kind == TD_VALUE_ARRAY) {
        int rc = add_array(x, v->array);
        if (rc) return rc;
    }
    if (w.small > TD_PV_SMALL || (v->kind == TD_VALUE_STR && v->n && !v->text))
        return td_raise(TD_E_INVALID, "program_call", "a list, dict or text of %u; at most %u are taken", v->n,
                        TD_PV_SMALL);
    if (v->kind == TD_VALUE_DICT && v->n % 2)
        return td_raise(TD_E_INVALID, "program_call", "a dict has %u items; they are a key and a value each", v->n);
    if (!td_pv_put(&x->words, &w)) return no_memory();
    int rc = TD_OK;
    for (uint32_t k = 0; items && k < v->n && !rc; k++)
        rc = put(x, &v->items[k], item_type(x->p->ir, type, k), depth + 1);
    return rc;
}

/* May the value stand for a parameter of this type? Numbers widen, as in a call, and a tuple (x.shape) stands for a
 * list; what is in lists the daemon looks at. */
static bool fits(const td_ir *ir, uint32_t type, td_value_kind kind)
{
    static const uint8_t kinds[TD_PV_KINDS] = {
        [TD_VALUE_NONE] = TD_T_NONE,     [TD_VALUE_INT] = TD_T_INT,         [TD_VALUE_FLOAT] = TD_T_FLOAT,
        [TD_VALUE_BOOL] = TD_T_BOOL,     [TD_VALUE_COMPLEX] = TD_T_COMPLEX, [TD_VALUE_STR] = TD_T_STR,
        [TD_VALUE_DEVICE] = TD_T_DEVICE, [TD_VALUE_DTYPE] = TD_T_DTYPE,     [TD_VALUE_LIST] = TD_T_LIST,
        [TD_VALUE_ARRAY] = TD_T_TENSOR,  [TD_VALUE_TUPLE] = TD_T_TUPLE,     [TD_VALUE_DICT] = TD_T_DICT};
    td_type_kind want = wanted_kind(ir, type);
    if ((unsigned)kind >= TD_PV_KINDS) return true; /* put() tells */
    if (kind == TD_VALUE_NONE && td_type_kind_of(ir, type) == TD_T_OPTIONAL) return true;
    if (want == TD_T_LIST && kind == TD_VALUE_TUPLE) return true;
    bool whole = kind == TD_VALUE_INT || kind == TD_VALUE_BOOL;
    if (whole && (want == TD_T_INT || want == TD_T_FLOAT || want == TD_T_COMPLEX)) return true;
    if (want == TD_T_COMPLEX && kind == TD_VALUE_FLOAT) return true;
    return kinds[kind] == want;
}

static int check_args(const td_calling *x)
{
    static const char *const names[TD_PV_KINDS] = {"None",   "int",   "float",  "bool",   "complex", "str",
                                                   "Device", "dtype", "a list", "Tensor", "a tuple", "a dict"};
    const td_ir *ir = x->p->ir;
    uint32_t graph = ir->functions[0].block, want = ir->blocks[graph].nparams;
    if ((uint32_t)x->n != want)
        return td_raise(TD_E_INVALID, "program_call", "the program takes %u arguments, and %d are given", want, x->n);
    for (uint32_t k = 0; k < want; k++) {
        char type[96];
        const td_ir_value *v = &ir->values[td_ir_param(ir, graph, k)];
        if (fits(ir, v->type, x->args[k].kind)) continue;
        return td_raise(TD_E_TYPE, "program_call", "argument %u ('%.40s') is %s, and %s is given", k + 1,
                        v->name == TD_IR_NONE ? "" : td_ir_chars(ir, v->name),
                        td_type_text(ir, v->type, type, sizeof type), names[x->args[k].kind]);
    }
    return TD_OK;
}

int td_calling_begin(td_calling *x)
{
    int rc = check_args(x);
    if (rc) return rc;
    const td_ir *ir = x->p->ir;
    x->nrets = ir->blocks[ir->functions[0].block].nrets;
    uint32_t *head = td_words_room(&x->words, TD_CALL_HEAD);
    if (!head) return no_memory();
    head[0] = x->p->id;
    td_words_put_u64(head + 1, 0);
    head[3] = (uint32_t)run_ms;
    head[4] = td_grad_scope(x->p->client);
    head[5] = (uint32_t)x->n;
    x->words.count += TD_CALL_HEAD;
    for (int k = 0; k < x->n && !rc; k++)
        rc = put(x, &x->args[k], ir->values[td_ir_param(ir, ir->functions[0].block, (uint32_t)k)].type, 0);
    return rc;
}

void td_calling_deinit(td_calling *x)
{
    free(x->said);
    td_words_deinit(&x->words);
    free(x->ids);
}

/* ---- results */

void td_value_free(td_value *v) /* NOLINT(misc-no-recursion): as deep as what came */
{
    if (!v) return;
    if (v->kind == TD_VALUE_ARRAY) td_release(v->array);
    if (v->kind == TD_VALUE_STR) free(v->text);
    if (td_value_has_items(v)) {
        for (uint32_t k = 0; k < v->n; k++) td_value_free(&v->items[k]);
        free(v->items);
    }
    *v = (td_value){TD_VALUE_NONE, 0, {0}, 0};
}

/* All but the arrays, which are in x->out. */
static void forget_values(td_value *v) /* NOLINT(misc-no-recursion) */
{
    if (td_value_has_items(v))
        for (uint32_t k = 0; k < v->n; k++) forget_values(&v->items[k]);
    if (v->kind == TD_VALUE_ARRAY) v->kind = TD_VALUE_NONE;
}

static bool make_items(td_value *v, td_value_kind kind, uint32_t n)
{
    td_value *items = calloc((size_t)n + 1, sizeof *items);
    if (items) *v = (td_value){kind, n, {.items = items}, 0};
    return items != NULL;
}

/* Of tensors only, by the type alone. One that might be None by its type is none by how it was made. */
static bool of_type(td_calling *x, uint32_t type, td_value *v) /* NOLINT(misc-no-recursion) */
{
    const td_ir *ir = x->p->ir;
    while (td_type_kind_of(ir, type) == TD_T_OPTIONAL) type = td_type_part(ir, type, 0);
    if (td_type_kind_of(ir, type) == TD_T_TENSOR) {
        *v = td_value_array(x->out[x->bound++]);
        return true;
    }
    uint32_t n = td_type_parts(ir, type);
    bool good = make_items(v, TD_VALUE_TUPLE, n);
    for (uint32_t k = 0; k < n && good; k++) good = of_type(x, td_type_part(ir, type, k), &v->items[k]);
    return good;
}

/* What comes, as words; the words used, 0: malformed, or no memory. */
static uint32_t of_words(td_calling *x, const uint32_t *words, uint32_t n, int depth, td_value *v) /* NOLINT */
{
    td_pv w;
    uint32_t used = depth > TD_PV_DEPTH ? 0 : td_pv_get(words, n, &w);
    if (!used) return 0;
    *v = (td_value){(td_value_kind)w.kind, 0, {.i = w.kind == TD_PV_INT ? w.i : (int64_t)w.small}, w.im};
    if (w.kind == TD_PV_FLOAT || w.kind == TD_PV_COMPLEX) v->re = w.re;
    if (w.kind == TD_PV_STR) {
        v->n = w.small;
        v->text = malloc((size_t)w.small + 1);
        if (!v->text) return v->kind = TD_VALUE_NONE, 0;
        memcpy(v->text, w.text, w.small);
        v->text[w.small] = 0;
    }
    if (w.kind == TD_PV_TENSOR) {
        if (x->bound == x->nout) return v->kind = TD_VALUE_NONE, 0;
        v->array = x->out[x->bound++];
    }
    if (!td_pv_has_items(w.kind)) return used;
    v->kind = TD_VALUE_NONE;
    if (w.small > n - used || !make_items(v, (td_value_kind)w.kind, w.small)) return 0;
    for (uint32_t k = 0; k < w.small; k++) {
        uint32_t more = of_words(x, words + used, n - used, depth + 1, &v->items[k]);
        if (!more) return 0;
        used += more;
    }
    return used;
}

/* One value, or a tuple of all that the graph returns. */
static td_value *place_of(td_value *result, uint32_t n, uint32_t k)
{
    return n == 1 ? result : &result->items[k];
}

static int of_answer(td_calling *x, const td_reply *r, td_error *e)
{
    uint32_t at = 0;
    if (x->nrets != 1 && !make_items(x->result, TD_VALUE_TUPLE, x->nrets))
        return td_no_memory(e, "for %u results", x->nrets);
    for (uint32_t k = 0; k < x->nrets; k++) {
        uint32_t used = of_words(x, r->value + at, (uint32_t)r->n_value - at, 0, place_of(x->result, x->nrets, k));
        if (!used) return td_fail(e, TD_E_PROTOCOL, "the results of a program make no sense");
        at += used;
    }
    return TD_OK;
}

/* The handles that are not among the results; with an error all of them, some of which the daemon has bound. */
static void drop_unused(td_calling *x, int rc)
{
    if (rc) forget_values(x->result), td_value_free(x->result), x->bound = 0;
    for (int k = x->nout - 1; k >= x->bound; k--) (rc ? td_array_unwanted : td_array_drop)(x->out[k]);
    x->nout = x->bound;
}

int td_calling_take(td_calling *x, const td_reply *r, td_error *e)
{
    int rc = of_answer(x, r, e);
    drop_unused(x, rc);
    return rc;
}

static int on_values(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    return of_answer(w->context, r, e);
}

void td_calling_said(td_calling *x, const uint8_t *text, size_t n)
{
    x->said = malloc(n);
    if (!x->said) return; /* the value matters more */
    memcpy(x->said, text, n);
    x->nsaid = n;
}

static void on_said(td_reply_wait *w, const uint8_t *text, size_t n)
{
    td_calling_said(w->context, text, n);
}

/* ---- what it prints */

static void to_stdout(void *context, const char *text, size_t n)
{
    (void)context;
    fwrite(text, 1, n, stdout);
    fflush(stdout);
}

static struct {
    void (*print)(void *context, const char *text, size_t n);
    void *context;
} printer = {to_stdout, NULL}; /* of the whole process */

TD_API void td_set_program_print(void (*print)(void *context, const char *text, size_t n), void *context)
{
    printer.print = print ? print : to_stdout;
    printer.context = context;
}

void td_calling_print(const td_calling *x)
{
    if (x->said) printer.print(printer.context, x->said, x->nsaid);
}

/* ---- the call */

int td_calling_ask(td_calling *x, uint64_t serial, bool patient)
{
    td_client *c = x->p->client;
    td_words_put_u64(x->words.at + 1, serial);
    td_want_stopper(c);
    uint32_t *ids = malloc(((size_t)x->nout + 1) * sizeof *ids);
    if (!ids) return no_memory();
    for (int k = 0; k < x->nout; k++) ids[k] = x->out[k]->id;
    if (x->p->writes) c->out.writes++;
    td_hand_on(c);                           /* it may give what it was given, or has captured */
    if (x->p->reaches) td_give_up_graphs(c); /* as by a backward, and by setting .grad */
    int rc = (patient ? td_control : td_control_only)(c, TD_REC_CALL, x->where, (int)x->narrays, x->ids, x->nout, ids,
                                                      (int)x->words.count, x->words.at);
    free(ids);
    return rc;
}

static int by_type(td_calling *x)
{
    const td_ir *ir = x->p->ir;
    const td_ir_block *graph = &ir->blocks[ir->functions[0].block];
    bool good = x->nrets == 1 || make_items(x->result, TD_VALUE_TUPLE, x->nrets);
    for (uint32_t k = 0; k < x->nrets && good; k++)
        good = of_type(x, ir->values[ir->args[graph->ret + k]].type, place_of(x->result, x->nrets, k));
    return good ? td_calling_ask(x, 0, true) : no_memory();
}

static int by_answer(td_calling *x)
{
    td_client *c = x->p->client;
    td_reply_wait w = {.on_reply = on_values, .on_said = on_said, .context = x};
    td_expect(c, &w);
    int rc = td_calling_ask(x, w.serial, true);
    if (rc) td_unexpect(c, &w);
    else rc = td_await(c, &w, "program_call");
    if (!rc) return TD_OK;
    td_abandon(c, &w, x->nout, x->out);
    x->nout = 0;
    return rc;
}

/* Who looks at what it may have written waits until it is written. */
static int settle(const td_value *v, uint32_t n) /* NOLINT(misc-no-recursion): as deep as what was put */
{
    int rc = TD_OK;
    for (uint32_t k = 0; k < n && !rc; k++) {
        if (v[k].kind == TD_VALUE_ARRAY) rc = td_written(v[k].array);
        if (td_value_has_items(&v[k])) rc = settle(v[k].items, v[k].n);
    }
    return rc;
}

static int settle_all(const td_calling *x)
{
    int rc = settle(x->args, (uint32_t)x->n);
    for (int k = 0; k < x->p->ncaptured && !rc; k++) rc = td_written(x->p->captured[k]);
    return rc;
}

static int call(td_calling *x)
{
    int rc = td_calling_begin(x);
    x->nout = x->p->narrays;
    x->out = rc ? NULL : calloc((size_t)x->nout + 1, sizeof(td_array *));
    if (!rc && !x->out) rc = no_memory();
    if (!rc) rc = td_arrays_unknown(x->p->client, x->nout, x->out);
    if (rc) return rc;
    rc = x->p->exactly && !run_ms && !x->p->prints ? by_type(x) : by_answer(x);
    drop_unused(x, rc);
    for (int k = 0; k < x->bound; k++) {
        x->out[k]->is_grad |= x->p->reaches; /* it may be a .grad, which others add to */
        td_array_announce(x->out[k]);
    }
    return rc || !x->p->writes ? rc : settle_all(x);
}

TD_API int td_program_at_call(const char *where, td_program *p, int n, const td_value *args, td_value *result)
{
    if (!result) return td_raise_null("program_call", "result");
    *result = (td_value){TD_VALUE_NONE, 0, {0}, 0};
    if (!p) return td_raise_null("program_call", "the program");
    if (n < 0 || n > TD_IR_MAX_ENDS || (n && !args))
        return td_raise(TD_E_INVALID, "program_call", "%d arguments; from 0 to %d can be given", n, TD_IR_MAX_ENDS);
    td_calling x = {.p = p, .where = where, .n = n, .args = args, .result = result};
    int rc = td_enter(p->client, "program_call");
    if (rc) return rc;
    rc = call(&x);
    if (td_tracing && !rc) td_trace_call(p, where, n, args, result);
    bool seen = p->reaches && p->client->tensor.seen_grads; /* it adds to what somebody looks at */
    td_leave(p->client);
    if (seen && !rc) rc = td_settle(p->client);
    td_calling_print(&x);
    td_calling_deinit(&x);
    free(x.out);
    return rc;
}
