/* Memory that its owner rewrites while kernels read it: wrong numbers are the owner's own affair, a wrong address never
 * follows.
 *
 * A lease is put as tensors and written to all the same, by a thread that changes good values to wild ones and back.
 * Every op that takes addresses or decisions from values runs on it: the results may only be numbers, or the error of
 * an index out of range. What lies beside the destinations must be untouched, and under the address sanitizer the
 * daemon says so itself when it is not. */
#include "client/tensord.h"
#include "daemon/kernels/cpu/thresholds.h"
#include "proto/ops/op.h"
#include "tests/hostile/counted.h"
#include "tests/unit/cunit_main.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

enum { N = 4096, MANY = 2 * TD_SCATTER_PIECE + 5, ROUNDS = 40 };

/* What the thread rewrites: indices (into 8 places, mostly; `many`, as many as are cut into pieces, here and there),
 * bools, floats. */
typedef struct memory {
    int64_t index[N], many[MANY];
    int32_t narrow[N];
    uint8_t truth[N];
    float value[N];
} memory;

static atomic_bool over;

static void *rewrite(void *arg)
{
    volatile memory *m = arg;
    static const int64_t wild[] = {8, -9, INT64_MAX, INT64_MIN, 1 << 20, -(1 << 30), INT64_C(1) << 40};
    unsigned seed = 5;
    while (!atomic_load(&over))
        for (int i = 0; i < N; i++) {
            int r = rand_r(&seed);
            m->index[i] = r % 64 ? r % 8 : wild[(unsigned)r / 64 % 7];
            m->many[(unsigned)r % MANY] = m->index[i];
            m->narrow[i] = (int32_t)m->index[i];
            m->truth[i] = (uint8_t)(r >> 8);
            m->value[i] = r % 5 ? (float)(r % 1000) : r % 2 ? NAN : -INFINITY;
        }
    return NULL;
}

typedef struct world {
    td_client *c;
    td_array *x, *grid, *index, *many, *narrow, *square, *truth, *value, *rows, *src, *wide;
} world;

/* ---- each op, by name */

static td_array *index_select(const world *w)
{
    return td_index_select(w->x, 0, w->index);
}
static td_array *index_select_32(const world *w)
{
    return td_index_select(w->x, 0, w->narrow);
}
static td_array *gather(const world *w)
{
    return td_gather(w->grid, 1, w->square);
}
static td_array *scatter(const world *w)
{
    return td_scatter(w->grid, 1, w->square, 2.0);
}
static td_array *scatter_add(const world *w)
{
    return td_scatter_add(w->grid, 1, w->square, w->rows);
}
static td_array *added_up(const world *w)
{
    return td_scatter_add(w->x, 0, w->many, w->wide);
}
static td_array *counted(const world *w)
{
    td_array *one = td_expand(td_ones(w->c, td_dims(1), TD_INT64), td_dims(MANY));
    return td_scatter_add(td_zeros(w->c, td_dims(8), TD_INT64), 0, w->many, one);
}
static td_array *scattered(const world *w)
{
    return td_scatter(w->wide, 0, w->many, w->wide);
}
static td_array *gathered(const world *w)
{
    return td_gather(w->x, 0, w->many);
}
static td_array *scatter_fold(const world *w)
{
    return td_scatter_fold(w->grid, 1, w->square, w->rows, 0);
}
static td_array *indexed(const world *w)
{
    return td_getitem(w->x, td_arrays(w->index));
}
static td_array *index_put(const world *w)
{
    return td_index_put(w->x, td_arrays(w->index), w->src, true);
}
static td_array *index_add(const world *w)
{
    return td_index_add(w->x, 0, w->index, w->src);
}
static td_array *indexed_many(const world *w)
{
    return td_getitem(w->x, td_arrays(w->many));
}
static td_array *embedding(const world *w)
{
    return td_embedding(w->grid, w->narrow);
}
static td_array *masked_select(const world *w)
{
    return td_masked_select(w->src, w->truth);
}
static td_array *masked_scatter(const world *w)
{
    return td_masked_scatter(w->src, w->truth, w->value);
}
static td_array *nonzero(const world *w)
{
    return td_nonzero(w->truth);
}
static td_array *nonzero_values(const world *w)
{
    return td_nonzero(w->value);
}
static td_array *nll_loss(const world *w)
{
    td_array *total = NULL, *scores = td_expand(td_unsqueeze(w->x, 0), td_dims(N, 8));
    td_array *loss = td_nll_loss(scores, w->index, NULL, &total);
    return loss;
}
static td_array *nll_backward(const world *w)
{
    td_array *scores = td_copy(td_expand(td_unsqueeze(w->x, 0), td_dims(N, 8)));
    td_set_requires_grad(scores, true);
    td_backward(td_cross_entropy(scores, w->index));
    return td_grad(scores);
}
static td_array *spoken(const world *w, td_array *scores)
{
    td_array *labels = td_view(td_slice(w->index, 0, 0, 6, 1), td_dims(2, 3));
    return td_ctc_losses(scores, labels, td_slice(w->index, 0, 6, 8, 1), td_slice(w->narrow, 0, 8, 10, 1));
}
static td_array *ctc_losses(const world *w)
{
    return spoken(w, td_expand(w->x, td_dims(8, 2, 8)));
}
static td_array *ctc_backward(const world *w)
{
    td_array *scores = td_copy(td_expand(w->x, td_dims(8, 2, 8)));
    td_set_requires_grad(scores, true);
    td_backward(td_sum(spoken(w, scores)));
    return td_grad(scores);
}
static td_array *sorted(const world *w)
{
    td_array *at = NULL, *v = td_sort(w->value, &at);
    return at ? td_index_select(w->src, 0, at) : v; /* the places must be places, whatever the values were */
}
static td_array *largest(const world *w)
{
    td_array *at = NULL, *v = td_topk(w->value, 50, &at);
    return at ? td_index_select(w->src, 0, at) : v;
}
static td_array *largest_place(const world *w)
{
    return td_index_select(w->src, 0, td_unsqueeze(td_argmax(w->value), 0));
}
static td_array *pooled(const world *w)
{
    td_array *places = td_view(w->index, td_dims(1, 1, 64, 64)), *g = td_view(w->src, td_dims(1, 1, 64, 64));
    return td_max_pool2d_backward(g, places, td_dims(1, 1, 2, 4));
}
static td_array *chosen(const world *w)
{
    return td_where(w->truth, w->value, w->src);
}
static td_array *searched(const world *w)
{
    return td_searchsorted(w->value, w->value, true);
}
static td_array *polynomial(const world *w)
{
    return td_hermite_polynomial_he(w->src, w->value);
}
static td_array *summed(const world *w)
{
    return td_sum(w->truth);
}
static td_array *drawn(const world *w)
{
    return td_bernoulli(td_to(td_gt(w->value, 100), TD_FLOAT32));
}

static td_array *permutation(const world *w)
{
    return td_lu_permutation(td_slice(w->narrow, 0, 0, 6, 1), 8);
}
static td_array *ldl_solved(const world *w)
{
    td_array *a = td_eye(w->c, 8, 8, TD_FLOAT32);
    return td_linalg_ldl_solve(a, td_slice(w->index, 0, 0, 8, 1), a);
}
static td_array *matrices(const world *w)
{
    return td_view(w->value, td_dims(16, 16, 16));
}
static td_array *eigenvalues(const world *w)
{
    return td_linalg_eigvalsh(matrices(w));
}
static td_array *singular_values(const world *w)
{
    return td_linalg_svdvals(matrices(w));
}
static td_array *inverses(const world *w)
{
    td_array *info = NULL;
    return td_linalg_inv_ex(matrices(w), &info);
}
static td_array *exponentials(const world *w)
{
    return td_linalg_matrix_exp(matrices(w));
}

static const struct {
    const char *name; /* of the op */
    td_array *(*run)(const world *w);
    bool decides; /* no index of the client's in it: it may not fail */
} cases[] = {{"index_select", index_select, false},
             {"index_select", index_select_32, false},
             {"gather", gather, false},
             {"scatter", scatter, false},
             {"scatter_add", scatter_add, false},
             {"scatter", scattered, false},
             {"scatter_add", added_up, false},
             {"scatter_add", counted, false},
             {"gather", gathered, false},
             {"scatter_fold", scatter_fold, false},
             {"index", indexed, false},
             {"index", indexed_many, false},
             {"index_put", index_put, false},
             {"index_add", index_add, false},
             {"embedding", embedding, false},
             {"max_pool2d_backward", pooled, false},
             {"nll_loss", nll_loss, false},
             {"nll_loss_backward", nll_backward, false},
             {"ctc_losses", ctc_losses, false},
             {"ctc_losses_backward", ctc_backward, false},
             {"lu_permutation", permutation, false},
             {"linalg_ldl_solve", ldl_solved, false},
             {"linalg_eigvalsh", eigenvalues, false},
             {"linalg_svdvals", singular_values, false},
             {"linalg_inv_ex", inverses, true},
             {"linalg_matrix_exp", exponentials, true},
             {"masked_select", masked_select, true},
             {"masked_scatter", masked_scatter, true},
             {"nonzero", nonzero, true},
             {"nonzero", nonzero_values, true},
             {"sort", sorted, true},
             {"topk", largest, true},
             {"argmax", largest_place, true},
             {"where", chosen, true},
             {"searchsorted", searched, true},
             {"hermite_polynomial_he", polynomial, true},
             {"sum", summed, true},
             {"bernoulli", drawn, true}};

enum { CASES = sizeof cases / sizeof cases[0] };

/* An op that trusts indices and is not tried here would be a hole in this test. */
static void every_checked_op_is_here(void)
{
    int checked = 0;
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        bool trusts = op && op->flags & TD_OF_DATA_SHAPE, here = false;
        for (int k = 0; op && k < op->nparams; k++) trusts = trusts || op->params[k].flags & TD_PF_CHECKED;
        for (int i = 0; op && i < CASES; i++) here = here || strcmp(cases[i].name, op->name) == 0;
        checked += trusts;
        if (trusts && !here) printf("\n    %s is not tried\n", op->name);
        CU_ASSERT_TRUE(!trusts || here);
    }
    CU_ASSERT_TRUE(checked >= 10);
}

static td_array *guarded(td_client *c, int64_t n, td_array **all)
{
    *all = td_full(c, td_dims(n + 64), 7, TD_FLOAT32);
    return td_slice(*all, 0, 32, 32 + n, 1);
}

static void all_of_them(void)
{
    td_clear_error();
    world w = {.c = td_connect(d.socket)};
    td_scope s;
    td_scope_begin(&s);
    td_lease *l = td_lease_new(w.c, sizeof(memory));
    memory *m = td_lease_data(l);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    memset(m, 0, sizeof *m);
    td_array *around;
    w.x = guarded(w.c, 8, &around);
    w.grid = td_ones(w.c, td_dims(8, 8), TD_FLOAT32);
    w.index = td_put(l, offsetof(memory, index), TD_INT64, td_dims(N));
    w.many = td_put(l, offsetof(memory, many), TD_INT64, td_dims(MANY));
    w.wide = td_ones(w.c, td_dims(MANY), TD_FLOAT32);
    w.narrow = td_put(l, offsetof(memory, narrow), TD_INT32, td_dims(N));
    w.truth = td_put(l, offsetof(memory, truth), TD_BOOL, td_dims(N));
    w.value = td_put(l, offsetof(memory, value), TD_FLOAT32, td_dims(N));
    w.square = td_view(td_slice(w.index, 0, 0, 64, 1), td_dims(8, 8));
    w.rows = td_ones(w.c, td_dims(8, 8), TD_FLOAT32);
    w.src = td_ones(w.c, td_dims(N), TD_FLOAT32);
    CU_ASSERT_EQUAL_FATAL(td_sync(w.c), TD_OK);
    atomic_store(&over, false);
    pthread_t t;
    pthread_create(&t, NULL, rewrite, m);
    int worked = 0, refused = 0;
    for (int i = 0; i < ROUNDS * CASES; i++) {
        td_scope round;
        td_scope_begin(&round);
        td_clear_error();
        td_array *y = cases[i % CASES].run(&w);
        float *value = y ? malloc((size_t)td_nbytes(y) + 16) : NULL;
        int code = value && td_nbytes(y) >= 0 ? td_read(y, value, (size_t)td_nbytes(y)) : td_last_error()->code;
        free(value);
        worked += code == TD_OK;
        bool refusal = code == TD_E_INDEX || code == TD_E_LINALG; /* the latter: of what is not finite */
        refused += refusal;
        if (code != TD_OK && (!refusal || cases[i % CASES].decides)) {
            printf("\n    %s: %d %s\n", cases[i % CASES].name, code, td_last_error()->message);
            CU_FAIL("memory that changes may only give an index out of range");
        }
        td_clear_error();
        td_sync(w.c); /* tell what was refused, so that the next begins anew */
        td_scope_end(&round);
    }
    atomic_store(&over, true);
    pthread_join(t, NULL);
    printf("\n    %d worked, %d refused ", worked, refused);
    CU_ASSERT_EQUAL(worked + refused, ROUNDS * CASES);
    CU_ASSERT_TRUE(worked > ROUNDS && refused > 0);
    td_clear_error();
    CU_ASSERT_EQUAL(td_item_f64(td_sum(around)), 7 * (8 + 64));
    CU_ASSERT_EQUAL(td_item_f64(td_sum(w.src)), N);
    td_lease_free(l);
    td_scope_end(&s);
    td_disconnect(w.c);
    CU_ASSERT_TRUE(raw_count_again(d.socket, base));
    CU_ASSERT_TRUE(test_daemon_alive(&d));
}

/* In place, on indices that are bad from the first look or go bad later: nothing outside is touched. */
static void in_place(void)
{
    td_clear_error();
    td_client *c = td_connect(d.socket);
    td_scope s;
    td_scope_begin(&s);
    td_lease *l = td_lease_new(c, sizeof(memory));
    memory *m = td_lease_data(l);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    memset(m, 0, sizeof *m);
    td_array *around, *x = guarded(c, 8, &around), *src = td_ones(c, td_dims(N), TD_FLOAT32);
    td_array *index = td_put(l, offsetof(memory, index), TD_INT64, td_dims(N));
    CU_ASSERT_EQUAL_FATAL(td_sync(c), TD_OK);
    atomic_store(&over, false);
    pthread_t t;
    pthread_create(&t, NULL, rewrite, m);
    for (int i = 0; i < ROUNDS; i++) {
        td_clear_error();
        if (i % 3 == 0) td_index_put_(x, td_arrays(index), src, true);
        if (i % 3 == 1) td_index_add_(x, 0, index, src);
        if (i % 3 == 2) td_scatter_add_(x, 0, index, src);
        int code = td_sync(c);
        CU_ASSERT_TRUE(code == TD_OK || code == TD_E_INDEX);
        td_clear_error();
        td_fill_(x, 7); /* what was half written is whole again */
        td_sync(c);
    }
    atomic_store(&over, true);
    pthread_join(t, NULL);
    td_clear_error();
    CU_ASSERT_EQUAL(td_item_f64(td_sum(around)), 7 * (8 + 64));
    td_lease_free(l);
    td_scope_end(&s);
    td_disconnect(c);
    CU_ASSERT_TRUE(raw_count_again(d.socket, base));
}

/* A bool is whatever byte its owner wrote: anything but 0 is true, and counts once. */
static void bools_of_any_byte(void)
{
    td_clear_error();
    td_client *c = td_connect(d.socket);
    td_scope s;
    td_scope_begin(&s);
    static const unsigned char bytes[8] = {0, 1, 2, 77, 128, 255, 0, 254};
    td_array *b = td_from_data(c, TD_BOOL, td_dims(8), bytes);
    td_array *n = td_arange(c, 0, 8, 1, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_item_i64(td_sum(b)), 6);
    CU_ASSERT_EQUAL(td_item_i64(td_sum(td_logical_not(b))), 2);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(td_to(b, TD_FLOAT32))), 6);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(td_where(b, 1.0, 0.0))), 6);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(td_mul(b, 2.0))), 12);
    CU_ASSERT_EQUAL(td_numel(td_masked_select(n, b)), 6);
    CU_ASSERT_EQUAL(td_numel(td_nonzero(b)), 6);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(td_masked_fill(n, b, 0))), 6);
    CU_ASSERT_EQUAL(td_item_i64(td_sum(td_eq(b, true))), 6);
    CU_ASSERT_EQUAL(td_item_i64(td_sum(td_logical_and(b, b))), 6);
    CU_ASSERT_EQUAL(td_item_i64(td_argmax(td_to(b, TD_INT32))), 1);
    td_scope_end(&s);
    td_disconnect(c);
    CU_ASSERT_TRUE(raw_count_again(d.socket, base));
}

static int start(void)
{
    return counted_start("256M", "2");
}

TD_CUNIT_MAIN_WITH("rewritten", start, stop, {"every checked op is here", every_checked_op_is_here},
                   {"all of them", all_of_them}, {"in place", in_place}, {"bools of any byte", bools_of_any_byte})
