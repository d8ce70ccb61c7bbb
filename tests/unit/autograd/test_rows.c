/* Backwards whose nodes are run as rows: the bits of node by node, wherever memory lacks, whatever is asked for, for
 * lengths on both sides of a row's; and nothing of a graph is kept. */
#include "daemon/autograd/backward.h"
#include "daemon/ops/fused.h"
#include "tests/unit/grad_support.h"
#include <stdlib.h>

enum { MOST = 3 };

static td_tensor *leaf_of(double from)
{
    double v[MOST] = {from, from + 0.25, -from};
    td_tensor *t = t_new(TD_FLOAT64, 1, (int64_t[]){MOST}, v);
    td_set_requires_grad(t, true, NULL);
    return t;
}

static td_tensor *run(unsigned op, td_tensor *a, td_tensor *b)
{
    td_tensor *made = t_run(op, b ? 2 : 1, (td_tensor *[]){a, b}, NULL, TD_GRAD_ON, NULL);
    td_tensor_unref(a);
    return made;
}

/* sum of tanh(h * w) + x, again and again: each round leads to x and w once more, and adds up. */
static td_tensor *rounds(td_tensor *x, td_tensor *w, int n)
{
    td_tensor *h = td_tensor_ref(x);
    for (int k = 0; k < n; k++) {
        h = run(TD_OP_MUL, h, w);
        h = run(TD_OP_TANH, h, NULL);
        h = run(TD_OP_ADD, h, x);
    }
    return run(TD_OP_SUM, h, NULL);
}

static td_issuer *who = &t_who;

/* The gradients of both, as they lie; how many calls were spared. */
static uint64_t gradients(int n, bool rows, bool late, uint32_t flags, double out[2 * MOST])
{
    td_error e = {0};
    td_tensor *leaf[] = {leaf_of(0.5), leaf_of(1.5)}, *y = rounds(leaf[0], leaf[1], n), *g[2] = {0};
    setenv("TENSORD_PLANS", rows ? "1" : "0", 1);
    uint64_t spared = td_fused_ran();
    td_backward *b;
    bool adds = flags & TD_BW_ACCUMULATE, done = late;
    CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, who, 1, &y, NULL, adds ? 0 : 2, leaf, flags, 0, &e), 0);
    if (late) CU_ASSERT_EQUAL_FATAL(t_steps(b, &e), 0);
    while (!done) CU_ASSERT_EQUAL_FATAL(td_backward_step(b, 2, &done, NULL, &e), 0);
    if (!adds) td_backward_results(b, g);
    td_backward_free(b);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < MOST; i++) out[k * MOST + i] = t_real(adds ? td_grad(leaf[k], 0) : g[k], i);
        td_tensor_unref(g[k]);
    }
    td_tensor_unref(y), td_tensor_unref(leaf[0]), td_tensor_unref(leaf[1]);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
    return td_fused_ran() - spared;
}

static void the_bits_of_node_by_node(void)
{
    const int lengths[] = {1, 2, 15, 16, 20, 21, 22, 60, 200};
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        int n = lengths[k];
        double want[2 * MOST], got[2 * MOST];
        CU_ASSERT_EQUAL(gradients(n, false, false, TD_BW_ACCUMULATE, want), 0);
        for (int turn = 0; turn < 6; turn++) { /* seen, recorded, run: of each kind */
            uint32_t flags = turn % 2 ? 0 : TD_BW_ACCUMULATE;
            uint64_t spared = gradients(n, true, false, flags, got);
            CU_ASSERT_EQUAL(memcmp(want, got, sizeof want), 0);
            if (turn >= 4 && T_DEVICE == TD_CPU) CU_ASSERT(spared >= (uint64_t)n);
        }
    }
}

/* At each place where a row, or a node of it, finds no memory. */
static void memory_that_comes_late(void)
{
    double want[2 * MOST], got[2 * MOST];
    gradients(30, false, false, TD_BW_ACCUMULATE, want);
    for (int turn = 0; turn < 6; turn++) {
        gradients(30, true, true, turn % 2 ? TD_BW_RETAIN : TD_BW_ACCUMULATE, got);
        CU_ASSERT_EQUAL(memcmp(want, got, sizeof want), 0);
    }
}

/* What is recorded holds tensors: they go with the backward that is given up. */
static void given_up(void)
{
    setenv("TENSORD_PLANS", "1", 1);
    for (int steps = 1; steps < 60; steps++) {
        td_error e = {0};
        td_backward *b;
        bool done = false;
        td_tensor *x = leaf_of(1), *w = leaf_of(2), *y = rounds(x, w, 23);
        uint64_t objects = t_who.account->objects;
        CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, 0, NULL, TD_BW_ACCUMULATE, 0, &e), 0);
        for (int k = 0; k < steps && !done; k++) CU_ASSERT_EQUAL(td_backward_step(b, 1, &done, NULL, &e), 0);
        td_backward_free(b);
        if (!done) CU_ASSERT(t_who.account->objects <= objects);
        td_tensor_unref(y), td_tensor_unref(x), td_tensor_unref(w);
        CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
        if (steps % 20 == 0) td_rows_forget();
    }
    td_rows_forget();
}

/* Thousands of graphs that all look different: what is known of them is bounded, and the first is still right. */
static void many_looks(void)
{
    double want[2 * MOST], got[2 * MOST];
    gradients(9, false, false, TD_BW_ACCUMULATE, want);
    for (int n = 1; n < 400; n++) gradients(n, true, false, TD_BW_ACCUMULATE, got);
    for (int turn = 0; turn < 3; turn++) {
        gradients(9, true, false, TD_BW_ACCUMULATE, got);
        CU_ASSERT_EQUAL(memcmp(want, got, sizeof want), 0);
    }
    td_rows_forget();
}

/* A backward through four nodes on n elements: no two of these look alike. */
static void strange(int64_t n)
{
    td_error e = {0};
    double *zeros = calloc((size_t)n, sizeof *zeros);
    td_tensor *x = t_new(TD_FLOAT64, 1, &n, zeros), *y = td_tensor_ref(x);
    td_set_requires_grad(x, true, NULL);
    for (int k = 0; k < 3; k++) y = run(TD_OP_TANH, y, NULL);
    y = run(TD_OP_SUM, y, NULL);
    td_backward *b;
    bool done = false;
    CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, 0, NULL, TD_BW_ACCUMULATE, 0, &e), 0);
    while (!done) CU_ASSERT_EQUAL_FATAL(td_backward_step(b, 100, &done, NULL, &e), 0);
    td_backward_free(b);
    td_tensor_unref(y), td_tensor_unref(x);
    free(zeros);
}

/* Somebody whose graphs all look different: those of others are looked at as before. */
static void looks_of_others(void)
{
    double got[2 * MOST];
    td_issuer another = t_who;
    td_rows_forget();
    setenv("TENSORD_PLANS", "1", 1);
    for (int n = 1; n <= 900; n++) {
        strange(n);
        if (n % 100) continue;
        who = &another;
        uint64_t spared = gradients(9, true, false, TD_BW_ACCUMULATE, got);
        who = &t_who;
        if (n > 200 && T_DEVICE == TD_CPU) CU_ASSERT(spared >= 9);
    }
    td_rows_forget();
}

TD_CUNIT_MAIN_WITH("autograd_rows", t_setup, t_teardown, {"the bits of node by node", the_bits_of_node_by_node},
                   {"memory that comes late", memory_that_comes_late}, {"given up", given_up},
                   {"many looks", many_looks}, {"looks of others", looks_of_others})
