/* Reading and writing through indices, and by mask, against plain loops: all dtypes, layouts, duplicates, sizes of 0,
 * and indices out of range, which must fail and write nothing in place. */
#include "daemon/kernels/cpu/plan.h"
#include "kernel_harness.h"

static bool same(const tt *a, int64_t i, const tt *b, int64_t j)
{
    return memcmp(tt_at(a, i), tt_at(b, j), td_dtype_size(a->d.dtype)) == 0;
}
static void put(tt *a, int64_t i, const tt *b, int64_t j)
{
    memcpy(tt_at(a, i), tt_at(b, j), td_dtype_size(a->d.dtype));
}
static int64_t idx(const tt *t, int64_t i)
{
    return (int64_t)tt_get(t, i);
}
static tt tt_copy(const tt *t)
{
    tt c = tt_like(t, t->d.dtype);
    for (int64_t i = 0; i < tt_numel(t); i++) put(&c, i, t, i);
    return c;
}
static int differences(const tt *a, const tt *b)
{
    int bad = 0;
    for (int64_t i = 0; i < tt_numel(a); i++) bad += !same(a, i, b, i);
    return bad;
}

/* to[i] += alpha * from[j], as one addition of the dtype. */
static void add(tt *to, int64_t i, const tt *from, int64_t j, double alpha)
{
    td_dtype t = to->d.dtype;
    td_scalar a = tt_scalar_at(to, i), b = tt_scalar_at(from, j);
    if (t == TD_BOOL) tt_set(to, i, tt_get(to, i) || tt_get(from, j));
    else if (td_dtype_is_complex(t))
        td_scalar_store(td_complex(a.re + alpha * b.re, a.im + alpha * b.im), t, tt_at(to, i));
    else if (td_dtype_is_integral(t)) td_scalar_store(td_int(a.i + (int64_t)alpha * b.i), t, tt_at(to, i));
    else tt_set(to, i, a.re + alpha * b.re);
}

/* ---- index_select, embedding, gather ---- */

static void index_select_all(void)
{
    for (int t = 0; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS; l++)
            for (int dim = 0; dim < 3; dim++) {
                int64_t shape[3] = {4, 5, 6}, n = 7;
                tt x = tt_layout(t, 3, shape, l), ix = TTL(dim ? TD_INT64 : TD_INT32, l == PLAIN ? STEPPED : PLAIN, n);
                tt_random(&x);
                tt_indices(&ix, 0, shape[dim]);
                shape[dim] = n;
                tt out = tt_new(t, 3, shape);
                CALL(c, 1, &x, &ix);
                c.out[0] = &out;
                attr_int(&c, dim - (l == TURNED ? 3 : 0));
                CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_index_select), 0);
                int bad = 0;
                for (int64_t i = 0; i < tt_numel(&out); i++) {
                    int64_t p[3] = {i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]};
                    p[dim] = idx(&ix, p[dim]);
                    bad += !same(&out, i, &x, (p[0] * x.d.shape[1] + p[1]) * x.d.shape[2] + p[2]);
                }
                CU_ASSERT_EQUAL(bad, 0);
                tt_free(&x), tt_free(&ix), tt_free(&out);
            }
}

/* Lines of elements, as many as a chunk has two of, and one more; in parts that end within a line. */
static void index_select_lines(void)
{
    for (int t = 0; t < TD_DTYPE_COUNT; t++)
        for (int more = 0; more < 2; more++) {
            int64_t n = TD_SELECT_BYTES / ((int64_t)td_dtype_size((td_dtype)t) + 16) / 2 + more;
            tt x = TTL(t, more ? PLAIN : TURNED, 5, 11), ix = TT(TD_INT64, n), out = TT(t, 5, n);
            tt_random(&x);
            tt_indices(&ix, 0, 11);
            CALL(c, 1, &x, &ix);
            c.out[0] = &out;
            attr_int(&c, 1);
            CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_index_select), 0);
            int bad = 0;
            for (int64_t i = 0; i < 5 * n; i++) bad += !same(&out, i, &x, i / n * 11 + idx(&ix, i % n));
            CU_ASSERT_EQUAL(bad, 0);
            tt_set(&ix, n - 1, 11);
            CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_index_select), TD_E_INDEX);
            tt_free(&x), tt_free(&ix), tt_free(&out);
        }
}

static void embedding_all(void)
{
    for (int l = 0; l < LAYOUTS; l++) {
        tt w = TTL(TD_FLOAT32, l, 50, 16), ix = TTL(TD_INT64, l, 9, 11), out = TT(TD_FLOAT32, 9, 11, 16);
        tt_random(&w);
        tt_indices(&ix, 0, 50);
        CALL(c, 1, &w, &ix);
        c.out[0] = &out;
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_embedding), 0);
        int bad = 0;
        for (int64_t i = 0; i < tt_numel(&out); i++) bad += !same(&out, i, &w, idx(&ix, i / 16) * 16 + i % 16);
        CU_ASSERT_EQUAL(bad, 0);
        tt_set(&ix, 40, 50);
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_embedding), TD_E_INDEX);
        CU_ASSERT_STRING_EQUAL(c.error.message,
                               "index 50 is out of bounds for dimension 0 with size 50 (element 40 of the indices)");
        tt_set(&ix, 40, -1);
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_embedding), TD_E_INDEX);
        tt_free(&w), tt_free(&ix), tt_free(&out);
    }
}

static void gather_all(void)
{
    for (int t = 0; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS; l++)
            for (int dim = 0; dim < 2; dim++) {
                tt x = TTL(t, l, 8, 9), ix = TTL(TD_INT64, (l + 1) % LAYOUTS, 7, 9), out = TT(t, 7, 9);
                tt_random(&x);
                tt_indices(&ix, 0, dim ? 9 : 8);
                CALL(c, 1, &x, &ix);
                c.out[0] = &out;
                attr_int(&c, dim);
                CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_gather), 0);
                int bad = 0;
                for (int64_t i = 0; i < 63; i++) {
                    int64_t p[2] = {i / 9, i % 9};
                    p[dim] = idx(&ix, i);
                    bad += !same(&out, i, &x, p[0] * 9 + p[1]);
                }
                CU_ASSERT_EQUAL(bad, 0);
                tt_set(&ix, 62, dim ? 9 : 8);
                CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_gather), TD_E_INDEX);
                tt_set(&ix, 62, -1);
                CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_gather), TD_E_INDEX);
                tt_free(&x), tt_free(&ix), tt_free(&out);
            }
    tt x = tt_scalar(TD_FLOAT32), ix = tt_scalar(TD_INT64), out = tt_scalar(TD_FLOAT32); /* 0-d everywhere */
    tt_set(&x, 0, 3);
    CALL(c, 1, &x, &ix);
    c.out[0] = &out;
    attr_int(&c, 0);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_gather), 0);
    CU_ASSERT_EQUAL(tt_get(&out, 0), 3);
    tt_free(&x), tt_free(&ix), tt_free(&out);
}

/* ---- scatter, scatter_add ---- */

static void scatter_case(td_dtype t, int l, int dim, bool adding, bool in_place)
{
    tt x = TTL(t, l, 10, 12), ix = TTL(TD_INT64, (l + 1) % LAYOUTS, 7, 9), src = TTL(t, (l + 2) % LAYOUTS, 8, 9);
    tt_random(&x);
    tt_random(&src);
    tt_indices(&ix, 0, dim ? 12 : 10);
    tt want = tt_copy(&x), fresh = TT(t, 10, 12), *out = in_place ? &x : &fresh;
    for (int64_t i = 0; i < 63; i++) { /* src is 8 x 9: the first 63 are its first 7 rows */
        int64_t p[2] = {i / 9, i % 9};
        p[dim] = idx(&ix, i);
        if (adding) add(&want, p[0] * 12 + p[1], &src, i, 1);
        else put(&want, p[0] * 12 + p[1], &src, i);
    }
    CALL(c, 1, &x, &ix, &src);
    c.out[0] = out;
    attr_int(&c, dim);
    td_plan_fn plan = adding ? td_cpu_plan_scatter_add : td_cpu_plan_scatter;
    CU_ASSERT_EQUAL(tcall_run(&c, plan), 0);
    CU_ASSERT_EQUAL(differences(&want, out), 0);
    for (int below = 0; below < 2; below++) {
        tt_set(&ix, 61, below ? -1 : dim ? 12 : 10);
        if (in_place) tcall_refused_cleanly(&c, plan, TD_E_INDEX);
        else CU_ASSERT_EQUAL(tcall_run(&c, plan), TD_E_INDEX); /* a new result may be half written */
        CU_ASSERT_PTR_NOT_NULL(strstr(c.error.message, "(element 61 of the indices)"));
    }
    tt_free(&x), tt_free(&ix), tt_free(&src), tt_free(&want), tt_free(&fresh);
}

static void scatter_all(void)
{
    for (int t = 0; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS; l++)
            for (int way = 0; way < 8; way++) scatter_case(t, l, way & 1, way & 2, way & 4);
}

/* An index that was expanded behind its dimension: the same as one of which each element lies there, also where the
 * target's layers lie apart (`turned`) and one of them is written. */
static void expanded_indices(int t, td_plan_fn plan, int64_t per, bool turned, int64_t wide)
{
    enum { B = 5, K = 11 };
    tt x = turned ? TT(t, K, B, wide) : TT(t, B, K, wide), one = TT(TD_INT64, B, per, 1),
       each = TT(TD_INT64, B, per, wide), src = TT(t, B, per, wide);
    bool gather = plan == td_cpu_plan_gather;
    tt first = {0},
       out[2] = {gather ? TT(t, B, per, wide) : TT(t, B, K, wide), gather ? TT(t, B, per, wide) : TT(t, B, K, wide)};
    tt_random(&x);
    tt_random(&src);
    tt_indices(&one, 0, K);
    for (int64_t i = 0; i < tt_numel(&each); i++) tt_set(&each, i, (double)idx(&one, i / wide));
    if (turned) {
        x.d.shape[0] = B, x.d.shape[1] = K;
        x.d.stride[0] = wide, x.d.stride[1] = B * wide;
    }
    one.d.shape[2] = wide;
    one.d.stride[2] = 0;
    for (int way = 0; way < 2; way++) {
        tt *ix = way ? &one : &each;
        CALL(c, 1, &x, ix, &src);
        if (gather) c.nin = 2;
        c.out[0] = &out[way];
        attr_int(&c, 1);
        CU_ASSERT_EQUAL(tcall_run(&c, plan), 0);
        if (way) CU_ASSERT_EQUAL(differences(&first, &out[1]), 0);
        if (!way) first = tt_copy(&out[0]);
        tt_set(ix, (B * per - 1) * wide, K);
        CU_ASSERT_EQUAL(tcall_run(&c, plan), TD_E_INDEX);
    }
    tt_free(&x), tt_free(&one), tt_free(&each), tt_free(&src), tt_free(&first), tt_free(&out[0]), tt_free(&out[1]);
}

static void expanded_all(void)
{
    const td_plan_fn plans[] = {td_cpu_plan_gather, td_cpu_plan_scatter, td_cpu_plan_scatter_add};
    for (int t = 0; t < TD_DTYPE_COUNT; t++)
        for (int way = 0; way < 12; way++)
            for (int p = 0; p < 3; p++)
                expanded_indices(t, plans[p], way & 1 ? 1 : 7, way & 2, (int64_t[]){2, 15, 40}[way / 4]);
}

static void scatter_number(void)
{
    tt x = TT(TD_FLOAT32, 3, 4), ix = TT(TD_INT64, 3, 2), v = tt_scalar(TD_INT64), out = TT(TD_FLOAT32, 3, 4);
    tt_indices(&ix, 0, 4);
    tt_set(&v, 0, 5);
    CALL(c, 1, &x, &ix, &v);
    c.out[0] = &out;
    attr_int(&c, 1);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_scatter), 0);
    for (int64_t i = 0; i < 12; i++) {
        bool hit = idx(&ix, i / 4 * 2) == i % 4 || idx(&ix, i / 4 * 2 + 1) == i % 4;
        CU_ASSERT_EQUAL(tt_get(&out, i), hit ? 5 : 0);
    }
    tt_free(&x), tt_free(&ix), tt_free(&v), tt_free(&out);
}

/* What is counted: any integer, into what is there already, of indices of every type; nothing on an index out of range.
 */
static void counted(void)
{
    static const td_dtype types[] = {TD_INT64, TD_INT32, TD_UINT8};
    for (int way = 0; way < 12; way++) {
        const int64_t n = 70001 + way, m = way % 2 ? 8192 : 5, value = way % 3 ? 1 : -30000000000;
        tt x = TT(TD_INT64, m), ix = TT(types[way / 4], n), src = TT(TD_INT64, 1), out = TT(TD_INT64, m);
        tt_indices(&ix, 0, m > 256 && way >= 8 ? 256 : m);
        tt_indices(&x, 0, 1000);
        int64_t *want = calloc((size_t)m, sizeof *want);
        for (int64_t i = 0; i < m; i++) want[i] = idx(&x, i);
        tt_set(&ix, n - 1, 0);
        for (int64_t i = 0; i < n; i++) want[(int64_t)tt_get(&ix, i)] += value;
        *(int64_t *)tt_at(&src, 0) = value;
        src.d.shape[0] = n, src.d.stride[0] = 0;
        CALL(c, 1, &x, &ix, &src);
        c.out[0] = way & 2 ? &x : &out;
        tt_set(&ix, n - 1, (double)m); /* 8192 wraps to 0 in a byte */
        attr_int(&c, 0);
        if (m < 256 || way < 8) tcall_refused_cleanly(&c, td_cpu_plan_scatter_add, TD_E_INDEX);
        tt_set(&ix, n - 1, 0);
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_scatter_add), 0);
        int64_t wrong = 0;
        for (int64_t i = 0; i < m; i++) wrong += idx(c.out[0], i) != want[i];
        if (wrong) printf("counts, way %d: %lld wrong\n", way, (long long)wrong);
        CU_ASSERT_EQUAL(wrong, 0);
        free(want);
        src.d.shape[0] = 1, src.d.stride[0] = 1;
        tt_free(&x), tt_free(&ix), tt_free(&src), tt_free(&out);
    }
}

/* Many additions to few places: the same bits whatever runs them (tcall_run), and the right sum. */
static void scatter_add_heavy(void)
{
    const int64_t n = 120000, m = 37;
    tt x = TT(TD_FLOAT32, m), ix = TT(TD_INT64, n), src = TT(TD_FLOAT32, n), out = TT(TD_FLOAT32, m);
    tt_indices(&ix, 0, m);
    tt_normal(&src, 0, 1);
    CALL(c, 1, &x, &ix, &src);
    c.out[0] = &out;
    attr_int(&c, 0);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_scatter_add), 0);
    CU_ASSERT(c.k.phase[0].chunks > 1);    /* pieces, which the last phase adds up */
    CU_ASSERT_EQUAL(c.k.scratch_bytes, 0); /* which is for counts */
    double want[37] = {0};
    for (int64_t i = 0; i < n; i++) want[idx(&ix, i)] += tt_get(&src, i);
    for (int64_t i = 0; i < m; i++) CU_ASSERT(near(tt_get(&out, i), want[i], 1e-4, 10));
    tt_free(&x), tt_free(&ix), tt_free(&src), tt_free(&out);
}

/* ---- index, index_put ---- */

/* Which indices are given over a 4-dimensional x: bit d. Positions are 2 x 3; the indices broadcast to it. */
typedef struct index_case {
    int mask;
    tt ix[4];
    int64_t xshape[4];
} index_case;

static void index_make(index_case *c, int mask)
{
    c->mask = mask;
    for (int d = 0; d < 4; d++) {
        c->xshape[d] = 3 + d;
        if (!(mask & 1 << d)) continue;
        if (d % 2) c->ix[d] = TTL(TD_INT64, TURNED, 2, 3);
        else c->ix[d] = TT(TD_INT32, 3);
        tt_indices(&c->ix[d], -c->xshape[d], c->xshape[d]);
    }
}
static void index_drop(index_case *c)
{
    for (int d = 0; d < 4; d++)
        if (c->mask & 1 << d) tt_free(&c->ix[d]);
}
/* The result's shape, and the flat position in x of each of its elements. */
static int index_shape(const index_case *c, int64_t *shape, int *front)
{
    int nd = 0, first = -1, last = -1, count = 0;
    bool two = c->mask & 10; /* one of the 2 x 3 tensors is there */
    for (int d = 0; d < 4; d++)
        if (c->mask & 1 << d) {
            first = first < 0 ? d : first;
            last = d;
            count++;
        }
    *front = last - first + 1 == count ? first : 0;
    for (int d = 0, kept = 0; d <= 4; d++) {
        if (kept == *front && (d == first || (*front == 0 && d == 0))) {
            if (two) shape[nd++] = 2;
            shape[nd++] = 3;
            kept = 100;
        }
        if (d < 4 && !(c->mask & 1 << d)) {
            shape[nd++] = c->xshape[d];
            kept += kept < 100;
        }
    }
    return nd;
}
static int64_t index_source(const index_case *c, int nd, const int64_t *shape, int front, int64_t i)
{
    int64_t pos[8], at[4], two = (c->mask & 10) != 0, place;
    for (int d = nd - 1; d >= 0; d--) {
        pos[d] = i % shape[d];
        i /= shape[d];
    }
    place = two ? pos[front] * 3 + pos[front + 1] : pos[front];
    for (int d = 0, p = 0; d < 4; d++) {
        if (c->mask & 1 << d) {
            int64_t v = idx(&c->ix[d], d % 2 ? place : place % 3);
            at[d] = v < 0 ? v + c->xshape[d] : v;
            continue;
        }
        if (p == front) p += two ? 2 : 1;
        at[d] = pos[p++];
    }
    return ((at[0] * c->xshape[1] + at[1]) * c->xshape[2] + at[2]) * c->xshape[3] + at[3];
}

static void index_one(td_dtype t, int l, int mask, int adding, bool in_place)
{
    index_case ic;
    int64_t shape[8];
    int front;
    index_make(&ic, mask);
    int nd = index_shape(&ic, shape, &front);
    tt x = tt_layout(t, 4, ic.xshape, l), out = tt_new(t, nd, shape);
    tt_random(&x);
    tt *list[4];
    for (int d = 0; d < 4; d++) list[d] = mask & 1 << d ? &ic.ix[d] : NULL;
    CALL(c, 1, &x, list[0], list[1], list[2], list[3]);
    c.out[0] = &out;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_index), 0);
    int bad = 0;
    for (int64_t i = 0; i < tt_numel(&out); i++) bad += !same(&out, i, &x, index_source(&ic, nd, shape, front, i));
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("index mask %d layout %d: %d wrong\n", mask, l, bad);

    tt v = tt_layout(t, nd, shape, (l + 1) % LAYOUTS), want = tt_copy(&x), fresh = tt_like(&x, t);
    tt_random(&v);
    for (int64_t i = 0; i < tt_numel(&v); i++) {
        int64_t to = index_source(&ic, nd, shape, front, i);
        if (adding) add(&want, to, &v, i, 1);
        else put(&want, to, &v, i);
    }
    tt *res = in_place ? &x : &fresh;
    CALL(p, 1, &x, list[0], list[1], list[2], list[3], &v);
    p.out[0] = res;
    attr_bool(&p, adding);
    CU_ASSERT_EQUAL(tcall_run(&p, td_cpu_plan_index_put), 0);
    bad = differences(&want, res);
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("index_put mask %d layout %d add %d in place %d: %d wrong\n", mask, l, adding, in_place, bad);
    for (int d = 0; d < 4; d++)
        if (list[d]) tt_set(list[d], 1, (double)ic.xshape[d]);
    tcall_refused_cleanly(&p, td_cpu_plan_index_put, TD_E_INDEX);
    tt_free(&x), tt_free(&out), tt_free(&v), tt_free(&want), tt_free(&fresh);
    index_drop(&ic);
}

static void index_all(void)
{
    for (int mask = 1; mask < 16; mask++)
        for (int l = 0; l < LAYOUTS; l++)
            for (int way = 0; way < 4; way++) index_one(way & 2 ? TD_FLOAT32 : TD_INT16, l, mask, way & 1, way & 2);
    for (int t = 0; t < TD_DTYPE_COUNT; t++) index_one(t, SHUFFLED, 2, 1, true), index_one(t, STEPPED, 15, 0, false);
}

/* Values of one element, and of one row, are broadcast to the positions. */
static void index_put_broadcast(void)
{
    tt x = TT(TD_FLOAT32, 5, 4), ix = TT(TD_INT64, 3), v = tt_scalar(TD_FLOAT32), out = TT(TD_FLOAT32, 5, 4);
    tt_random(&x);
    tt_set(&v, 0, 9);
    tt_set(&ix, 0, 4), tt_set(&ix, 1, -5), tt_set(&ix, 2, 4);
    CALL(c, 1, &x, &ix, &v);
    c.out[0] = &out;
    attr_bool(&c, true);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_index_put), 0);
    for (int64_t i = 0; i < 20; i++)
        CU_ASSERT_EQUAL(tt_get(&out, i), tt_get(&x, i) + (i / 4 == 4 ? 18 : i / 4 == 0 ? 9 : 0));
    tt row = TT(TD_FLOAT32, 4);
    tt_random(&row);
    c.in[2] = &row;
    c.attrs.at[0].i = false;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_index_put), 0);
    for (int64_t i = 0; i < 20; i++)
        CU_ASSERT_EQUAL(tt_get(&out, i), i / 4 == 4 || i / 4 == 0 ? tt_get(&row, i % 4) : tt_get(&x, i));
    tt_free(&x), tt_free(&ix), tt_free(&v), tt_free(&out), tt_free(&row);
}

static void index_add_case(td_dtype t, int l, int dim, bool in_place)
{
    int64_t shape[3] = {4, 5, 6}, sshape[3] = {4, 5, 6};
    sshape[dim] = 9;
    tt x = tt_layout(t, 3, shape, l), src = tt_layout(t, 3, sshape, (l + 1) % LAYOUTS), ix = TT(TD_INT32, 9);
    tt_random(&x);
    tt_random(&src);
    tt_indices(&ix, 0, shape[dim]);
    double alpha = t == TD_BOOL ? 1 : 2;
    tt want = tt_copy(&x), fresh = TT(t, 4, 5, 6), *out = in_place ? &x : &fresh;
    for (int64_t i = 0; i < tt_numel(&src); i++) {
        int64_t p[3] = {i / (sshape[1] * sshape[2]), i / sshape[2] % sshape[1], i % sshape[2]};
        p[dim] = idx(&ix, p[dim]);
        add(&want, (p[0] * 5 + p[1]) * 6 + p[2], &src, i, alpha);
    }
    CALL(c, 1, &x, &ix, &src);
    c.out[0] = out;
    attr_int(&c, dim);
    attr_scalar(&c, td_int((int64_t)alpha));
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_index_add), 0);
    CU_ASSERT_EQUAL(differences(&want, out), 0);
    tt_set(&ix, 8, -1);
    tcall_refused_cleanly(&c, td_cpu_plan_index_add, TD_E_INDEX);
    CU_ASSERT_PTR_NOT_NULL(strstr(c.error.message, "index -1 is out of bounds"));
    CU_ASSERT_PTR_NOT_NULL(strstr(c.error.message, "(element 8 of the indices)"));
    tt_free(&x), tt_free(&src), tt_free(&ix), tt_free(&want), tt_free(&fresh);
}

static void index_add_all(void)
{
    for (int t = 0; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS; l++)
            for (int dim = 0; dim < 3; dim++) index_add_case(t, l, dim, l & 1);
    /* an embedding's gradient: many rows to few, in several chunks */
    tt x = TT(TD_FLOAT32, 65, 128), src = TT(TD_FLOAT32, 2048, 128), ix = TT(TD_INT64, 2048),
       out = TT(TD_FLOAT32, 65, 128);
    tt_indices(&ix, 0, 65);
    tt_normal(&src, 0, 1);
    CALL(c, 1, &x, &ix, &src);
    c.out[0] = &out;
    attr_int(&c, 0);
    attr_scalar(&c, td_int(1));
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_index_add), 0);
    CU_ASSERT(c.k.phase[c.k.nphases - 1].chunks > 1);
    double sum = 0, want = 0;
    for (int64_t i = 0; i < tt_numel(&out); i++) sum += tt_get(&out, i);
    for (int64_t i = 0; i < tt_numel(&src); i++) want += tt_get(&src, i);
    CU_ASSERT(near(sum, want, 1e-3, want));
    tt_free(&x), tt_free(&src), tt_free(&ix), tt_free(&out);
}

/* ---- by mask ---- */

static void nonzero_all(void)
{
    for (int t = 0; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS; l++) {
            tt x = TTL(t, l, 3, 4, 5), out = TT(TD_INT64, 60, 3);
            tt_random(&x);
            for (int i = 0; i < 30; i++) tt_set(&x, rnd_below(60), i % 2 ? 0.0 : -0.0);
            CALL(c, 1, &x);
            c.out[0] = &out;
            CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_nonzero), 0);
            int64_t n = 0, bad = 0;
            for (int64_t i = 0; i < 60; i++) {
                td_scalar v = tt_scalar_at(&x, i);
                if (!(v.i || v.re || v.im)) continue;
                bad += idx(&out, n * 3) != i / 20 || idx(&out, n * 3 + 1) != i / 5 % 4 || idx(&out, n * 3 + 2) != i % 5;
                n++;
            }
            CU_ASSERT_EQUAL(bad, 0);
            CU_ASSERT_EQUAL(td_kernel_count(&c.k), n);
            tt_free(&x), tt_free(&out);
        }
    tt x = tt_scalar(TD_FLOAT32), out = TT(TD_INT64, 1, 0), e = TT(TD_FLOAT32, 0, 3), eo = TT(TD_INT64, 0, 2);
    tt_set(&x, 0, 2);
    CALL(c, 1, &x);
    c.out[0] = &out;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_nonzero), 0);
    CU_ASSERT_EQUAL(td_kernel_count(&c.k), 1);
    c.in[0] = &e;
    c.out[0] = &eo;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_nonzero), 0);
    CU_ASSERT_EQUAL(td_kernel_count(&c.k), 0);
    tt_free(&x), tt_free(&out), tt_free(&e), tt_free(&eo);
}

static void nonzero_large(void)
{
    const int64_t n = 200000;
    tt x = TT(TD_UINT8, n), out = TT(TD_INT64, n, 1);
    for (int64_t i = 0; i < n; i++) *(uint8_t *)tt_at(&x, i) = rnd_below(3) == 0;
    CALL(c, 1, &x);
    c.out[0] = &out;
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_nonzero), 0);
    int64_t found = 0, bad = 0;
    for (int64_t i = 0; i < n; i++)
        if (*(uint8_t *)tt_at(&x, i)) bad += ((int64_t *)out.data)[found++] != i;
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT_EQUAL(td_kernel_count(&c.k), found);
    tt_free(&x), tt_free(&out);
}

static void masked_all(void)
{
    for (int t = 0; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS; l++) {
            bool row = l == STEPPED; /* the mask broadcast over x */
            tt x = TTL(t, l, 6, 7), mask = row ? TT(TD_BOOL, 7) : TTL(TD_BOOL, (l + 1) % LAYOUTS, 6, 7),
               out = TT(t, 42);
            tt_random(&x);
            tt_random(&mask);
            CALL(c, 1, &x, &mask);
            c.out[0] = &out;
            CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_masked_select), 0);
            int64_t n = 0, bad = 0;
            for (int64_t i = 0; i < 42; i++)
                if (tt_get(&mask, row ? i % 7 : i)) bad += !same(&out, n++, &x, i);
            CU_ASSERT_EQUAL(bad, 0);
            CU_ASSERT_EQUAL(td_kernel_count(&c.k), n);

            tt src = TTL(t, l, 6, 7), res = TT(t, 6, 7);
            tt_random(&src);
            CALL(s, 1, &x, &mask, &src);
            s.out[0] = &res;
            CU_ASSERT_EQUAL(tcall_run(&s, td_cpu_plan_masked_scatter), 0);
            n = bad = 0;
            for (int64_t i = 0; i < 42; i++)
                bad += tt_get(&mask, row ? i % 7 : i) ? !same(&res, i, &src, n++) : !same(&res, i, &x, i);
            CU_ASSERT_EQUAL(bad, 0);
            tt few = TT(t, n > 0 ? n - 1 : 0);
            s.in[2] = &few;
            if (n > 0) tcall_refused_cleanly(&s, td_cpu_plan_masked_scatter, TD_E_SHAPE);
            tt_free(&x), tt_free(&mask), tt_free(&out), tt_free(&src), tt_free(&res), tt_free(&few);
        }
}

/* ---- slices ---- */

static void slices(void)
{
    for (int t = 0; t < TD_DTYPE_COUNT; t += 3)
        for (int l = 0; l < LAYOUTS; l++) {
            tt x = TTL(t, l, 7, 8), src = TTL(t, (l + 1) % LAYOUTS, 7), out = TT(t, 7, 8), part = TTL(t, l, 7, 3);
            tt_random(&x);
            tt_random(&src);
            tt_random(&part);
            CALL(c, 1, &x, &src);
            c.out[0] = &out;
            attr_int(&c, 1);
            attr_int(&c, -3);
            CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_select_scatter), 0);
            int bad = 0;
            for (int64_t i = 0; i < 56; i++) bad += i % 8 == 5 ? !same(&out, i, &src, i / 8) : !same(&out, i, &x, i);
            CU_ASSERT_EQUAL(bad, 0);
            c.attrs.at[1].i = 8;
            tcall_refused(&c, td_cpu_plan_select_scatter, TD_E_INDEX);

            CALL(s, 1, &x, &part);
            s.out[0] = &out;
            attr_int(&s, 1);
            attr_int(&s, -7); /* 1, 4, 7 */
            attr_none(&s);
            attr_int(&s, 3);
            CU_ASSERT_EQUAL(tcall_run(&s, td_cpu_plan_slice_scatter), 0);
            bad = 0;
            for (int64_t i = 0; i < 56; i++)
                bad += i % 8 % 3 == 1 ? !same(&out, i, &part, i / 8 * 3 + i % 8 / 3) : !same(&out, i, &x, i);
            CU_ASSERT_EQUAL(bad, 0);
            tt_free(&x), tt_free(&src), tt_free(&out), tt_free(&part);
        }
}

static void empties(void)
{
    tt x = TT(TD_FLOAT32, 5, 4), none = TT(TD_INT64, 0), out = TT(TD_FLOAT32, 0, 4), full = TT(TD_FLOAT32, 5, 4);
    tt vals = TT(TD_FLOAT32, 0, 4), hollow = TT(TD_FLOAT32, 0, 4), one = TT(TD_INT64, 1), row = TT(TD_FLOAT32, 1, 4);
    tt_random(&x);
    CALL(c, 1, &x, &none);
    c.out[0] = &out;
    attr_int(&c, 0);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_index_select), 0);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_index), 0);
    CALL(p, 1, &x, &none, &vals);
    p.out[0] = &full;
    attr_bool(&p, true);
    CU_ASSERT_EQUAL(tcall_run(&p, td_cpu_plan_index_put), 0);
    CU_ASSERT_EQUAL(differences(&x, &full), 0);
    CALL(h, 1, &hollow, &one); /* nothing can be indexed in a dimension of 0 */
    h.out[0] = &row;
    attr_int(&h, 0);
    tcall_refused(&h, td_cpu_plan_index_select, TD_E_INDEX);
    tcall_refused(&h, td_cpu_plan_index, TD_E_INDEX);
    tt_free(&x), tt_free(&none), tt_free(&out), tt_free(&full), tt_free(&vals), tt_free(&hollow), tt_free(&one);
    tt_free(&row);
}

/* An index tensor that changes while kernels run: failures are fine, touching other memory is not (guards, sanitizers).
 */
static void *spoil(void *arg)
{
    tt *ix = arg;
    volatile int64_t *p = ix->data;
    for (int64_t i = 0; i < 400000; i++) p[i % tt_numel(ix)] = i % 5 == 0 ? 1000000 + i : i % 40;
    return NULL;
}
static void changing_indices(void)
{
    tt x = TT(TD_FLOAT32, 40, 8), ix = TT(TD_INT64, 500), src = TT(TD_FLOAT32, 500, 8), out = TT(TD_FLOAT32, 40, 8);
    tt sel = TT(TD_FLOAT32, 500, 8);
    pthread_t other;
    pthread_create(&other, NULL, spoil, &ix);
    CALL(c, 1, &x, &ix, &src);
    attr_int(&c, 0);
    attr_scalar(&c, td_int(1));
    CALL(s, 1, &x, &ix);
    attr_int(&s, 0);
    c.out[0] = &out;
    s.out[0] = &sel;
    int odd = 0;
    for (int i = 0; i < 200; i++) {
        int a = tcall_once(&c, td_cpu_plan_index_add, IN_ORDER), b = tcall_once(&s, td_cpu_plan_index_select, IN_ORDER);
        odd += (a != 0 && a != TD_E_INDEX) || (b != 0 && b != TD_E_INDEX);
    }
    CU_ASSERT_EQUAL(odd, 0);
    pthread_join(other, NULL);
    tt_free(&x), tt_free(&ix), tt_free(&src), tt_free(&out), tt_free(&sel);
}

TD_CUNIT_MAIN("kernels_index", {"index_select", index_select_all}, {"index_select: lines", index_select_lines},
              {"embedding", embedding_all}, {"gather", gather_all}, {"scatter and scatter_add", scatter_all},
              {"expanded indices", expanded_all}, {"scatter of a number", scatter_number},
              {"scatter_add: heavy duplicates", scatter_add_heavy}, {"scatter_add: counts", counted},
              {"index and index_put", index_all}, {"index_put: broadcast values", index_put_broadcast},
              {"index_add", index_add_all}, {"nonzero", nonzero_all}, {"nonzero: large", nonzero_large},
              {"masked_select, masked_scatter", masked_all}, {"select_scatter, slice_scatter", slices},
              {"sizes of 0", empties}, {"indices that change meanwhile", changing_indices})
