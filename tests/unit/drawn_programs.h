/* Programs that are drawn, and what a run of one leaves: for tests that compare ways of running one. */
#ifndef TENSORD_TESTS_UNIT_DRAWN_PROGRAMS_H
#define TENSORD_TESTS_UNIT_DRAWN_PROGRAMS_H

#include "daemon/graph/graph.h"
#include "proto/program/edit.h"
#include "proto/program/prim.h"
#include "proto/program/verify.h"
#include "proto/wire/record.h"
#include "tests/unit/grad_support.h"

#define LIST(...)                                                                                                      \
    (uint32_t[])                                                                                                       \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* ---- chance */

static uint64_t chance;
static bool for_plans; /* parts of tensors are written, too; and how often counts, where passes make others instead */

static uint32_t below(uint32_t n)
{
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((chance >> 33) % n);
}

/* ---- programs that are drawn: tensors of 2 x 2, ints, bools and lists; all that is in sight may be used */

enum { ROOM = 256 };

typedef enum pool_kind { TENSORS, INTS, BOOLS, LISTS, POOLS } pool_kind;

typedef struct drawn {
    td_ir_edit *e;
    uint32_t pool[POOLS][ROOM], count[POOLS], type[POOLS];
    uint32_t rng, helper, maybe, line;
    int left; /* nodes, about */
} drawn;

static uint32_t any(const drawn *d, pool_kind k)
{
    uint32_t n = d->count[k];
    return d->pool[k][below(2) || n < 4 ? below(n) : n - 1 - below(3)]; /* rather what came last */
}

static void add(drawn *d, pool_kind k, uint32_t value)
{
    if (d->count[k] < ROOM) d->pool[k][d->count[k]++] = value;
}

static uint32_t node(drawn *d, uint32_t op, pool_kind k, uint32_t n, const uint32_t *in)
{
    d->left--;
    td_ir_from(d->e, "drawn.py", ++d->line, 0, 0);
    return td_ir_result(d->e, td_ir_op(d->e, op, n, in, 1, &d->type[k]));
}

static uint32_t small_int(drawn *d)
{
    static const int values[] = {0, 1, -1, 2, 3};
    return td_ir_int(d->e, values[below(5)]);
}

static void unary(drawn *d)
{
    static const uint32_t ops[] = {TD_OP_RELU, TD_OP_NEG, TD_OP_TANH, TD_OP_T, TD_OP_T, TD_OP_DETACH, TD_OP_EXP};
    add(d, TENSORS, node(d, TD_IR_TD | ops[below(7)], TENSORS, 1, LIST(any(d, TENSORS))));
}

static void turn(drawn *d)
{
    uint32_t x = any(d, TENSORS), zero = td_ir_int(d->e, 0), one = td_ir_int(d->e, below(2) ? 1 : -1);
    uint32_t dims =
        td_ir_op(d->e, TD_PRIM_LISTCONSTRUCT, 2, LIST(one, zero), 1, LIST(td_type_list(d->e, d->type[INTS])));
    if (below(2)) add(d, TENSORS, node(d, TD_IR_TD | TD_OP_TRANSPOSE, TENSORS, 3, LIST(x, zero, one)));
    else add(d, TENSORS, node(d, TD_IR_TD | TD_OP_PERMUTE, TENSORS, 2, LIST(x, td_ir_result(d->e, dims))));
}

static void binary(drawn *d, uint32_t place)
{
    uint32_t x = place && below(4) ? d->pool[TENSORS][1] : any(d, TENSORS), y = any(d, below(3) ? TENSORS : INTS);
    if (below(2)) add(d, TENSORS, node(d, TD_IR_TD | TD_OP_MUL | place, TENSORS, 2, LIST(x, y)));
    else add(d, TENSORS, node(d, TD_IR_TD | TD_OP_ADD | place, TENSORS, 3, LIST(x, y, small_int(d))));
}

/* What is worked out goes into a tensor that is there, which nothing differentiates. */
static void beside(drawn *d)
{
    uint32_t to = d->pool[TENSORS][1], x = any(d, TENSORS);
    td_ir_mode_now(d->e, TD_RM_GRAD_OFF);
    add(d, TENSORS, node(d, TD_IR_TD | TD_OP_MUL | TD_IR_INPLACE, TENSORS, 3, LIST(to, x, any(d, INTS))));
}

/* Something is written just after it was made, and perhaps looked at in between. */
static void written(drawn *d)
{
    static const uint32_t ops[] = {TD_OP_RELU, TD_OP_NEG, TD_OP_TANH, TD_OP_EXP};
    uint32_t x = any(d, TENSORS), t;
    if (below(2)) t = node(d, TD_IR_TD | ops[below(4)], TENSORS, 1, &x);
    else t = node(d, TD_IR_TD | TD_OP_MUL, TENSORS, 2, LIST(x, any(d, below(2) ? TENSORS : INTS)));
    if (below(3) == 0) add(d, TENSORS, t); /* others may have it, too, by then */
    for (uint32_t n = below(3); n > 0; n--) {
        uint32_t look = below(8), y = below(2) ? x : any(d, below(2) ? TENSORS : INTS);
        if (look == 0) add(d, TENSORS, node(d, TD_IR_TD | TD_OP_T, TENSORS, 1, &t));
        if (look == 1) add(d, TENSORS, node(d, TD_IR_TD | TD_OP_MUL, TENSORS, 2, LIST(t, y)));
        if (look == 2) add(d, TENSORS, node(d, TD_IR_TD | TD_OP_ADD, TENSORS, 3, LIST(y, t, small_int(d))));
        uint32_t in[] = {below(4) ? t : any(d, TENSORS), y, small_int(d)};
        uint32_t op = below(3) ? ops[below(4)] : below(2) ? TD_OP_MUL : TD_OP_ADD;
        uint32_t nin = op == TD_OP_ADD ? 3 : op == TD_OP_MUL ? 2 : 1;
        uint32_t made = node(d, TD_IR_TD | TD_IR_INPLACE | op, TENSORS, nin, in);
        if (below(2)) t = made;
    }
    add(d, TENSORS, t);
}

static uint32_t line_of(drawn *d, uint32_t x)
{
    uint32_t dim = td_ir_int(d->e, below(2)), at = td_ir_int(d->e, below(2));
    return node(d, TD_IR_TD | TD_OP_SELECT, TENSORS, 3, LIST(x, dim, at));
}

/* A row or a column of something is written: with a line of something, which may be the same, by an op, or turned. */
static void part(drawn *d)
{
    uint32_t x = any(d, TENSORS), y = below(3) ? any(d, TENSORS) : x, none = td_ir_none(d->e), to, from;
    bool line = below(4);
    if (below(3)) td_ir_mode_now(d->e, TD_RM_GRAD_OFF);
    to = line ? line_of(d, x) : node(d, TD_IR_TD | TD_OP_T, TENSORS, 1, &x);
    from = line || below(2) ? line_of(d, y) : y;
    switch (below(3)) {
    case 0: node(d, TD_IR_TD | TD_IR_INPLACE | TD_OP_COPY, TENSORS, 3, LIST(to, from, none)); break;
    case 1: node(d, TD_IR_TD | TD_IR_INPLACE | TD_OP_NEG, TENSORS, 1, &to); break;
    default: node(d, TD_IR_TD | TD_IR_INPLACE | TD_OP_MUL, TENSORS, 2, LIST(to, below(2) ? from : any(d, INTS)));
    }
    if (below(2)) add(d, TENSORS, x);
}

static void whole(drawn *d)
{
    static const uint32_t ops[] = {TD_PRIM_ADD_INT, TD_PRIM_SUB_INT, TD_PRIM_MUL_INT, TD_PRIM_MOD_INT, TD_PRIM_MAX_INT};
    uint32_t a = below(3) ? any(d, INTS) : small_int(d), b = below(2) ? any(d, INTS) : small_int(d);
    uint32_t op = ops[below(5)];
    if (op == TD_PRIM_MOD_INT && below(8)) b = td_ir_int(d->e, 3); /* it fails by zero, but not always */
    add(d, INTS, node(d, op, INTS, 2, LIST(a, b)));
}

static void truth(drawn *d)
{
    uint32_t none = td_ir_none(d->e), no = td_ir_bool(d->e, false);
    if (below(3) == 0) {
        add(d, BOOLS, node(d, TD_PRIM_NOT, BOOLS, 1, LIST(any(d, BOOLS))));
    } else if (below(2)) {
        add(d, BOOLS, node(d, TD_PRIM_LT_INT, BOOLS, 2, LIST(any(d, INTS), small_int(d))));
    } else {
        uint32_t sum = node(d, TD_IR_TD | TD_OP_SUM, TENSORS, 4, LIST(any(d, TENSORS), none, no, none));
        uint32_t more = node(d, TD_IR_TD | TD_OP_GT, TENSORS, 2, LIST(sum, small_int(d)));
        add(d, BOOLS, node(d, TD_PRIM_ITEM_BOOL, BOOLS, 1, LIST(more)));
    }
}

static void list(drawn *d)
{
    uint32_t l = d->count[LISTS] ? any(d, LISTS) : TD_IR_NONE, what = below(5);
    if (l == TD_IR_NONE || what == 0)
        add(d, LISTS, node(d, TD_PRIM_LISTCONSTRUCT, LISTS, 2, LIST(any(d, TENSORS), any(d, TENSORS))));
    else if (what == 1) td_ir_op(d->e, TD_PRIM_APPEND, 2, LIST(l, any(d, TENSORS)), 0, NULL);
    else if (what == 2) add(d, INTS, node(d, TD_PRIM_LEN_LIST, INTS, 1, LIST(l)));
    else if (what == 3) add(d, TENSORS, node(d, TD_PRIM_GETITEM_LIST, TENSORS, 2, LIST(l, td_ir_int(d->e, below(2)))));
    else {
        uint32_t unpack = td_ir_op(d->e, TD_PRIM_LISTUNPACK, 1, &l, 2, LIST(d->type[TENSORS], d->type[TENSORS]));
        add(d, TENSORS, td_ir_out(td_ir_now(d->e), unpack, 1));
    }
}

static void random_op(drawn *d)
{
    uint32_t half = td_ir_float(d->e, 0.5), two[] = {d->type[TENSORS], d->type[TENSORS]};
    uint32_t n = td_ir_op(d->e, TD_IR_TD | TD_OP_DROPOUT, 2, LIST(any(d, TENSORS), half), 2, two);
    td_ir_rng(d->e, n, d->rng++);
    add(d, TENSORS, td_ir_result(d->e, n));
}

static void call(drawn *d)
{
    if (d->helper == TD_IR_NONE) return;
    uint32_t types[] = {d->type[TENSORS], d->type[INTS]};
    uint32_t n = td_ir_op(d->e, TD_IR_FN | d->helper, 2, LIST(any(d, TENSORS), any(d, INTS)), 2, types);
    add(d, TENSORS, td_ir_out(td_ir_now(d->e), n, 0));
    add(d, INTS, td_ir_out(td_ir_now(d->e), n, 1));
}

/* x if it is there, else y: decided by a type, or when it is run. */
static void optional(drawn *d)
{
    uint32_t x = any(d, TENSORS), y = any(d, TENSORS), given = td_ir_none(d->e);
    if (d->maybe != TD_IR_NONE) {
        uint32_t n = td_ir_op(d->e, TD_IR_FN | d->maybe, 2, LIST(below(2) ? x : given, y), 1, &d->type[TENSORS]);
        add(d, TENSORS, td_ir_result(d->e, n));
    }
}

static void draw(drawn *d, int n, int depth);

/* What is made inside is seen inside only. */
static void inside(drawn *d, uint32_t block, int n, int depth, uint32_t condition)
{
    uint32_t count[POOLS], rng = d->rng, at = td_ir_cursor(d->e);
    memcpy(count, d->count, sizeof count);
    td_ir_to_end(d->e, block);
    d->rng = 0;
    draw(d, n, depth + 1);
    uint32_t returns[] = {condition, any(d, TENSORS), any(d, INTS)}, skip = condition == TD_IR_NONE;
    if (!skip && below(3) == 0) returns[0] = any(d, BOOLS);
    td_ir_returns(d->e, block, 3 - skip, returns + skip);
    td_ir_to_end(d->e, at);
    memcpy(d->count, count, sizeof count);
    d->rng = rng;
}

static void branch(drawn *d, int depth)
{
    uint32_t n = td_ir_if(d->e, below(3) ? any(d, BOOLS) : td_ir_bool(d->e, below(2)));
    uint32_t x = td_ir_out_new(d->e, n, d->type[TENSORS]), i = td_ir_out_new(d->e, n, d->type[INTS]);
    inside(d, td_ir_child(d->e, n, 0), (int)below(6), depth, TD_IR_NONE);
    inside(d, td_ir_child(d->e, n, 1), (int)below(6), depth, TD_IR_NONE);
    add(d, TENSORS, x);
    add(d, INTS, i);
}

static void loop(drawn *d, int depth)
{
    static const int trips[] = {-1, 0, 1, 1, 2, 3, 5, 9, 20};
    uint32_t yes = td_ir_bool(d->e, true), most = below(3) ? td_ir_int(d->e, trips[below(9)]) : d->pool[INTS][0];
    uint32_t n = td_ir_loop(d->e, most, below(4) ? yes : any(d, BOOLS)), body = td_ir_child(d->e, n, 0);
    uint32_t count[POOLS];
    memcpy(count, d->count, sizeof count);
    add(d, TENSORS, td_ir_carry(d->e, n, any(d, TENSORS), d->type[TENSORS], NULL));
    add(d, INTS, td_ir_carry(d->e, n, any(d, INTS), d->type[INTS], NULL));
    add(d, INTS, td_ir_param(td_ir_now(d->e), body, 0));
    inside(d, body, 1 + (int)below(6), depth, yes);
    memcpy(d->count, count, sizeof count);
    add(d, TENSORS, td_ir_out(td_ir_now(d->e), n, 0));
    add(d, INTS, td_ir_out(td_ir_now(d->e), n, 1));
}

static void draw(drawn *d, int n, int depth) /* NOLINT(misc-no-recursion): three deep */
{
    for (; n > 0 && d->left > 0; n--) {
        td_ir_mode_now(d->e, below(12) == 0 ? TD_RM_GRAD_OFF : 0);
        switch (below(depth < 3 ? 20 : 16)) {
        case 0:
        case 1:
        case 2: unary(d); break;
        case 3: turn(d); break;
        case 4:
        case 5:
        case 6: binary(d, 0); break;
        case 7:
            if (for_plans && below(3) == 0) part(d);
            else if (below(4) == 0) beside(d);
            else if (below(3) < 2) written(d);
            else binary(d, below(2) ? TD_IR_INPLACE : 0);
            break;
        case 8:
        case 9: whole(d); break;
        case 10:
        case 11: truth(d); break;
        case 12:
        case 13: list(d); break;
        case 14: random_op(d); break;
        case 15:
            if (below(2)) call(d);
            else optional(d);
            break;
        case 16:
        case 17: branch(d, depth); break;
        default: loop(d, depth);
        }
    }
}

/* At the cursor: what can be used from the beginning, and then some nodes. */
static void body(drawn *d, uint32_t ntensors, const uint32_t *tensors, uint32_t number, int n)
{
    memset(d->count, 0, sizeof d->count);
    d->rng = 0;
    for (uint32_t k = 0; k < ntensors; k++) add(d, TENSORS, tensors[k]);
    add(d, INTS, number);
    add(d, BOOLS, td_ir_bool(d->e, below(2)));
    d->left = 5 * n;
    draw(d, n, 0);
}

static void helper(drawn *d)
{
    uint32_t number = td_ir_function_new(d->e, "helper"), block = td_ir_cursor(d->e);
    uint32_t x = td_ir_param_new(d->e, block, d->type[TENSORS], "x");
    body(d, 2, LIST(x, x), td_ir_param_new(d->e, block, d->type[INTS], "n"), 6);
    td_ir_returns(d->e, block, 2, LIST(any(d, TENSORS), any(d, INTS)));
    d->helper = number;
}

/* fn maybe(x: Tensor?, y): y if x is None else x * y */
static void maybe(drawn *d)
{
    uint32_t number = td_ir_function_new(d->e, "maybe"), block = td_ir_cursor(d->e);
    uint32_t x = td_ir_param_new(d->e, block, td_type_optional(d->e, d->type[TENSORS]), "x");
    uint32_t y = td_ir_param_new(d->e, block, d->type[TENSORS], "y");
    uint32_t branch = td_ir_if(d->e, node(d, TD_PRIM_IS_NONE, BOOLS, 1, &x));
    uint32_t out = td_ir_out_new(d->e, branch, d->type[TENSORS]);
    td_ir_returns(d->e, td_ir_child(d->e, branch, 0), 1, &y);
    td_ir_to_end(d->e, td_ir_child(d->e, branch, 1));
    uint32_t there = node(d, TD_PRIM_UNCHECKED_CAST, TENSORS, 1, &x);
    uint32_t both = node(d, TD_IR_TD | TD_OP_MUL, TENSORS, 2, LIST(there, y));
    td_ir_returns(d->e, td_ir_child(d->e, branch, 1), 1, &both);
    td_ir_returns(d->e, block, 1, &out);
    d->maybe = number;
}

/* graph(x, y, n) of a module that captures w, perhaps with a helper; five tensors and three ints come back. */
__attribute__((unused)) static td_ir *drawn_module(uint64_t seed)
{
    td_error error = {0};
    drawn d = {.e = td_ir_edit_new(NULL, TD_IR_MAX_NODES, NULL), .helper = TD_IR_NONE, .maybe = TD_IR_NONE};
    chance = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    below(2), below(2);
    d.type[TENSORS] = td_type_any_tensor(d.e);
    d.type[INTS] = td_type_plain(d.e, TD_T_INT);
    d.type[BOOLS] = td_type_plain(d.e, TD_T_BOOL);
    d.type[LISTS] = td_type_list(d.e, d.type[TENSORS]);
    uint32_t w = td_ir_capture_new(d.e, d.type[TENSORS], "w", "w");
    td_ir_function_new(d.e, NULL);
    uint32_t graph = td_ir_cursor(d.e);
    if (below(2)) maybe(&d);
    if (below(2)) helper(&d);
    td_ir_to_end(d.e, graph);
    uint32_t x = td_ir_param_new(d.e, graph, d.type[TENSORS], "x"),
             y = td_ir_param_new(d.e, graph, d.type[TENSORS], "y");
    body(&d, 3, LIST(x, y, w), td_ir_param_new(d.e, graph, d.type[INTS], "n"), 10 + (int)below(30));
    td_ir_returns(d.e, graph, 8,
                  LIST(any(&d, TENSORS), any(&d, TENSORS), any(&d, TENSORS), any(&d, TENSORS), any(&d, TENSORS),
                       any(&d, INTS), any(&d, INTS), any(&d, INTS)));
    td_ir *ir = td_ir_seal(d.e, &error);
    if (!ir || td_ir_verify(ir, 0, &error)) printf("drawn: %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ir);
    CU_ASSERT_EQUAL_FATAL(error.code, 0);
    return ir;
}

/* ---- what a run leaves */

enum { SEEN = 512 };

typedef struct seen {
    uint64_t bits[SEEN];
    int n;
    char error[1024];
} seen;

static void see(seen *s, uint64_t bits)
{
    if (s->n < SEEN) s->bits[s->n++] = bits;
}

static void see_tensor(seen *s, const td_tensor *t)
{
    int64_t n = td_desc_numel(&t->desc);
    see(s, (uint64_t)n << 16 | (uint64_t)t->desc.dtype << 8 | (uint64_t)td_requires_grad(t));
    for (int64_t k = 0; k < n; k++) {
        td_scalar v = t_get(t, k);
        uint64_t bits = (uint64_t)v.i;
        if (v.kind > TD_S_INT) memcpy(&bits, &v.re, 8);
        see(s, bits);
    }
}

/* Gradients of all that came back, by all that went in. */
static void see_gradients(seen *s, td_tensor *const *results, int n, td_tensor *x, td_tensor *w)
{
    td_tensor *roots[8], *none[8] = {0}, *inputs[] = {x, w}, *grads[2] = {0};
    td_error e = {0};
    int nroots = 0;
    for (int k = 0; k < n; k++) {
        if (!td_requires_grad(results[k])) continue;
        roots[nroots++] = t_run(TD_OP_SUM, 1, &results[k], NULL, TD_GRAD_ON, NULL);
    }
    int rc = nroots ? t_backward(nroots, roots, none, 2, inputs, grads, TD_BW_ALLOW_UNUSED, &e) : 0;
    see(s, (uint64_t)rc);
    for (int k = 0; k < 2; k++) {
        if (grads[k]) see_tensor(s, grads[k]);
        td_tensor_unref(grads[k]);
    }
    for (int k = 0; k < nroots; k++) td_tensor_unref(roots[k]);
}

static void wake(void *arg)
{
    (void)arg;
}

static void see_number(seen *s, const td_val *v)
{
    uint64_t bits = (uint64_t)v->i;
    if (v->kind == TD_T_FLOAT) memcpy(&bits, &v->re, 8);
    see(s, (uint64_t)v->kind);
    see(s, bits);
}

static void see_results(seen *s, const td_exec *r, td_tensor *x, td_tensor *w)
{
    const td_val *v;
    td_tensor *tensors[8];
    uint32_t n = td_exec_results(r, &v), ntensors = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (v[k].kind != TD_T_TENSOR) {
            see_number(s, &v[k]);
            continue;
        }
        see_tensor(s, tensors[ntensors++] = v[k].tensor);
        if (for_plans && v[k].tensor->storage != w->storage) see(s, v[k].tensor->version->value);
    }
    see_gradients(s, tensors, (int)ntensors, x, w);
}

static const td_exec_env env = {.woken = wake};

/* What a run of `p` begins with: tensors that differ by `turn`. */
typedef struct t_given {
    td_tensor *x, *y, *w;
} t_given;

static t_given give(int turn, bool graded)
{
    double by = 1 + 0.125 * turn;
    t_given g = {t_new(TD_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){0.5, -1.25 * by, 2, -0.0}),
                 t_new(TD_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){by, 3, -0.75, 0.1}),
                 t_new(TD_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){0.3, 0.7, -0.2, 1.5})};
    if (graded) td_set_requires_grad(g.x, true, NULL), td_set_requires_grad(g.w, true, NULL);
    return g;
}

static void give_back(t_given g)
{
    td_tensor_unref(g.x), td_tensor_unref(g.y), td_tensor_unref(g.w);
}

/* Of a program that captured g->w; `most`: ops in a step. */
static void run_program(td_held_program *p, const t_given *g, int64_t number, uint32_t mode, int most, seen *s)
{
    td_exec *r = NULL;
    td_error e = {0};
    bool done = false;
    const td_tensor *given[] = {g->x, g->y, g->w};
    uint32_t before[3];
    *s = (seen){0};
    t_who.counter = 0;
    for (int k = 0; k < 3; k++) before[k] = given[k]->version->value;
    int rc = td_exec_new(&r, p, &t_who, &env, mode, &e);
    if (!rc) rc = td_exec_begin(r, 3, (td_val[]){td_val_tensor(g->x), td_val_tensor(g->y), td_val_int(number)}, &e);
    while (!rc && !done) rc = td_exec_step(r, most, &done, NULL, &e);
    see(s, t_who.counter);
    if (rc) snprintf(s->error, sizeof s->error, "%d %s %s %s", rc, e.op, e.message, e.where);
    else see_results(s, r, g->x, g->w);
    see_tensor(s, g->x), see_tensor(s, g->y), see_tensor(s, g->w);
    for (int k = 0; k < 3; k++) see(s, given[k]->version->value - before[k]);
    CU_ASSERT_TRUE(!r || td_exec_drop(r, INT32_MAX));
}

static td_held_program *program_of(td_ir *ir, const t_given *g) /* takes the module over */
{
    td_held_program *p = NULL;
    td_error e = {0};
    CU_ASSERT_EQUAL_FATAL(td_program_new(&p, ir, &e), 0);
    CU_ASSERT_EQUAL_FATAL(td_program_capture(p, 1, &g->w, t_who.account, &e), 0);
    return p;
}

#endif
