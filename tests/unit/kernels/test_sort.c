/* sort, topk and kth: a permutation of the row, in order, stable, NaN above
 * everything; long rows; layouts; dtypes. */
#include "kernel_harness.h"

/* a before b in the order wanted? NaN is the greatest. */
static bool before(double a, double b, bool descending)
{
    if (descending) {
        double c = a;
        a = b;
        b = c;
    }
    if (isnan(a)) return false;
    return isnan(b) || a < b;
}

static void fill(tt *x, int range)
{
    for (int64_t i = 0; i < tt_numel(x); i++) {
        double v = (double)(rnd_below(2 * range) - range);
        if (td_dtype_is_unsigned(x->d.dtype)) v = fabs(v);
        if (td_dtype_is_float(x->d.dtype)) {
            v /= 4;
            if (rnd_below(12) == 0) v = NAN;
            if (rnd_below(12) == 0) v = rnd_below(2) ? INFINITY : -INFINITY;
            if (v == 0 && rnd_below(2)) v = -0.0;
        }
        tt_set(x, i, v);
    }
}

/* Checks row by row: values[j] is x[indices[j]], the order is right, no index
 * comes twice, and (n of them) nothing left out is better than the last. */
static int wrong(const tt *x, const tt *values, const tt *indices, int dim, bool descending)
{
    int64_t n = x->d.shape[dim], k = values->d.shape[dim], inner = 1, rows = 1;
    int bad = 0;
    for (int d = 0; d < x->d.ndim; d++) {
        if (d > dim) inner *= x->d.shape[d];
        if (d != dim) rows *= x->d.shape[d];
    }
    bool *seen = malloc((size_t)n + 1);
    for (int64_t r = 0; r < rows; r++) {
        memset(seen, 0, (size_t)n);
        double last = 0;
        int64_t last_index = 0;
        for (int64_t j = 0; j < k; j++) {
            int64_t at = (r / inner * k + j) * inner + r % inner, ix = (int64_t)tt_get(indices, at);
            if (ix < 0 || ix >= n || seen[ix]) {
                bad++;
                break;
            }
            seen[ix] = true;
            int64_t from = (r / inner * n + ix) * inner + r % inner;
            bad += memcmp(tt_at(x, from), tt_at(values, at), td_dtype_size(x->d.dtype)) != 0;
            double v = tt_get(x, from);
            if (j > 0) bad += before(v, last, descending) || (!before(last, v, descending) && ix < last_index);
            last = v;
            last_index = ix;
        }
        for (int64_t i = 0; i < n && k > 0 && !bad; i++)
            bad += !seen[i] && before(tt_get(x, (r / inner * n + i) * inner + r % inner), last, descending);
    }
    free(seen);
    return bad;
}

static void sort_case(td_dtype t, int layout, int dim, bool descending, int64_t n, int range)
{
    int64_t shape[3] = {3, 4, 5};
    shape[dim] = n;
    tt x = tt_layout(t, 3, shape, layout), values = tt_new(t, 3, shape), indices = tt_new(TD_INT64, 3, shape);
    fill(&x, range);
    CALL(c, 2, &x);
    c.out[0] = &values, c.out[1] = &indices;
    attr_int(&c, dim);
    attr_bool(&c, descending);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_sort), 0);
    int bad = wrong(&x, &values, &indices, dim, descending);
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("sort %s layout %d dim %d n %d: %d wrong\n", td_dtype_name(t), layout, dim, (int)n, bad);
    tt_free(&x), tt_free(&values), tt_free(&indices);
}

static void sort_all(void)
{
    for (int t = TD_BOOL; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS && !td_dtype_is_complex(t); l++)
            for (int dim = 0; dim < 3; dim++)
                for (int way = 0; way < 4; way++) sort_case(t, l, dim, way & 1, way & 2 ? 40 : 9, 60);
    for (int t = TD_BOOL; t < TD_DTYPE_COUNT; t++)
        if (!td_dtype_is_complex(t)) sort_case(t, PLAIN, 2, t & 1, 900, 100); /* radix */
    sort_case(TD_FLOAT32, PLAIN, 1, false, 0, 10);
    sort_case(TD_FLOAT32, PLAIN, 1, false, 1, 10);
}

static void sort_long(void)
{
    for (int way = 0; way < 6; way++) {
        td_dtype t = way % 3 == 0 ? TD_FLOAT32 : way % 3 == 1 ? TD_INT64 : TD_UINT8;
        tt x = TTL(t, way & 1 ? STEPPED : PLAIN, 140000), values = TT(t, 140000), indices = TT(TD_INT64, 140000);
        fill(&x, way < 3 ? 100 : 1000000);
        CALL(c, 2, &x);
        c.out[0] = &values, c.out[1] = &indices;
        attr_int(&c, -1);
        attr_bool(&c, way & 1);
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_sort), 0);
        CU_ASSERT(c.k.phase[0].chunks > 1);
        CU_ASSERT_EQUAL(wrong(&x, &values, &indices, 0, way & 1), 0);
        tt_free(&x), tt_free(&values), tt_free(&indices);
    }
}

/* One of the sorted, with the same place: NaN, infinities and equal ones too. */
static void kth_case(td_dtype t, int layout, int dim, int64_t n, int range, int64_t want)
{
    int64_t shape[3] = {3, 4, 5}, left[2];
    shape[dim] = n;
    for (int d = 0, to = 0; d < 3; d++)
        if (d != dim) left[to++] = shape[d];
    tt x = tt_layout(t, 3, shape, layout), values = tt_new(t, 3, shape), indices = tt_new(TD_INT64, 3, shape),
       value = tt_new(t, 2, left), index = tt_new(TD_INT64, 2, left);
    fill(&x, range);
    CALL(sorted, 2, &x);
    sorted.out[0] = &values, sorted.out[1] = &indices;
    attr_int(&sorted, dim);
    attr_bool(&sorted, false);
    CU_ASSERT_EQUAL(tcall_run(&sorted, td_cpu_plan_sort), 0);
    CALL(c, 2, &x);
    c.out[0] = &value, c.out[1] = &index;
    attr_int(&c, dim);
    attr_int(&c, want);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_kth), 0);
    int64_t inner = dim == 0 ? shape[1] * shape[2] : dim == 1 ? shape[2] : 1;
    int bad = 0;
    for (int64_t r = 0; r < tt_numel(&value); r++) {
        int64_t at = (r / inner * n + want - 1) * inner + r % inner;
        bad += tt_get(&indices, at) != tt_get(&index, r) ||
               memcmp(tt_at(&values, at), tt_at(&value, r), td_dtype_size(t)) != 0;
    }
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("kth %s layout %d dim %d n %d k %d: %d\n", td_dtype_name(t), layout, dim, (int)n, (int)want, bad);
    tt_free(&x), tt_free(&values), tt_free(&indices), tt_free(&value), tt_free(&index);
}

static void kth_all(void)
{
    for (int t = TD_BOOL; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS && !td_dtype_is_complex(t); l++)
            for (int dim = 0; dim < 3; dim++) {
                kth_case(t, l, dim, 1, 9, 1);
                kth_case(t, l, dim, 40, 60, 1 + rnd_below(40));
                kth_case(t, l, dim, 300, dim ? 1 << 20 : 5, 1 + rnd_below(300));
            }
    for (int which = -1; which <= 1; which++)
        for (int64_t k = 1, n = 2 * TD_SORT_BLOCK + which; k <= n; k += n / 3)
            kth_case(which ? TD_FLOAT32 : TD_INT64, which + 1, 1 + which, n, k % 2 ? 1 << 20 : 3, k);
    tt x = TT(TD_FLOAT32, 4), v = tt_scalar(TD_FLOAT32), i = tt_scalar(TD_INT64);
    for (int64_t k = 0; k <= 5; k += 5) { /* none, or beyond */
        CALL(c, 2, &x);
        c.out[0] = &v, c.out[1] = &i;
        attr_int(&c, 0), attr_int(&c, k);
        tcall_refused(&c, td_cpu_plan_kth, TD_E_INVALID);
    }
    tt_free(&x), tt_free(&v), tt_free(&i);
}

/* Keys that agree in the 32 bits that are looked at first: by what is left of them, in runs short and long. */
static void nearly_equal(void)
{
    for (int way = 0; way < 4; way++) {
        const int64_t n = way < 2 ? 700 : 2 * TD_SORT_BLOCK + 500;
        tt x = TT(TD_FLOAT64, n), v = TT(TD_FLOAT64, n), i = TT(TD_INT64, n);
        for (int64_t j = 0; j < n; j++) {
            double near = 1 + (double)rnd_below(way % 2 ? 3 : 1000) * 0x1p-52;
            tt_set(&x, j, rnd_below(3) ? near : rnd_below(2) ? -near : 1e300);
        }
        for (int down = 0; down < 2; down++) {
            CALL(c, 2, &x);
            c.out[0] = &v, c.out[1] = &i;
            attr_int(&c, 0), attr_bool(&c, down);
            CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_sort), 0);
            CU_ASSERT_EQUAL(wrong(&x, &v, &i, 0, down), 0);
        }
        tt_free(&x), tt_free(&v), tt_free(&i);
    }
}

static void topk_case(td_dtype t, int layout, int dim, bool largest, int64_t n, int64_t k)
{
    int64_t shape[3] = {3, 4, 5};
    shape[dim] = n;
    tt x = tt_layout(t, 3, shape, layout);
    shape[dim] = k;
    tt values = tt_new(t, 3, shape), indices = tt_new(TD_INT64, 3, shape);
    fill(&x, 50);
    CALL(c, 2, &x);
    c.out[0] = &values, c.out[1] = &indices;
    attr_int(&c, k);
    attr_int(&c, dim);
    attr_bool(&c, largest);
    attr_bool(&c, true);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_topk), 0);
    int bad = wrong(&x, &values, &indices, dim, largest);
    CU_ASSERT_EQUAL(bad, 0);
    if (bad) printf("topk %s layout %d dim %d n %d k %d: %d\n", td_dtype_name(t), layout, dim, (int)n, (int)k, bad);
    tt_free(&x), tt_free(&values), tt_free(&indices);
}

static void topk_all(void)
{
    for (int t = TD_BOOL; t < TD_DTYPE_COUNT; t++)
        for (int l = 0; l < LAYOUTS && !td_dtype_is_complex(t); l++)
            for (int dim = 0; dim < 3; dim++) {
                topk_case(t, l, dim, l & 1, 30, 3);
                topk_case(t, l, dim, !(l & 1), 30, 17);
            }
    topk_case(TD_FLOAT32, PLAIN, 2, true, 2000, 10);
    topk_case(TD_FLOAT32, PLAIN, 2, true, 2000, 0);
    topk_case(TD_FLOAT32, PLAIN, 2, false, 20, 20);
    topk_case(TD_FLOAT64, TURNED, 0, true, 9000, 1100);
    tt x = TT(TD_FLOAT32, 90000), v = TT(TD_FLOAT32, 40000), i = TT(TD_INT64, 40000); /* part of a long row */
    fill(&x, 5000);
    CALL(c, 2, &x);
    c.out[0] = &v, c.out[1] = &i;
    attr_int(&c, 40000), attr_int(&c, 0), attr_bool(&c, true), attr_bool(&c, true);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_topk), 0);
    CU_ASSERT_EQUAL(wrong(&x, &v, &i, 0, true), 0);
    c.attrs.at[0].i = 90001;
    tcall_refused(&c, td_cpu_plan_topk, TD_E_INVALID);
    tt_free(&x), tt_free(&v), tt_free(&i);
}

/* One below, at and above: what is ranked, merged, sorted by bytes; chunks and groups of rows, blocks that are merged;
 * of topk, how many are chosen among the best of each block. */
static void straddles(void)
{
    static const td_dtype types[] = {TD_UINT8, TD_INT16,  TD_FLOAT32, TD_FLOAT64, TD_BFLOAT16,
                                     TD_INT64, TD_UINT16, TD_UINT32,  TD_UINT64};
    for (int which = -1; which <= 1; which++)
        for (int i = 0; i < 6; i++) {
            td_dtype t = types[i];
            int layout = (int)rnd_below(LAYOUTS);
            sort_case(t, layout, 2, which == 0, TD_SORT_RANKED + which, 50);
            sort_case(t, layout, 2, which == 0, 2 * TD_SORT_RANKED + which, 50);
            sort_case(t, layout, 1, which != 0, TD_SORT_RADIX + which, 50);
            sort_case(t, layout, 0, which > 0, TD_SORT_CHUNK / 20 + which, 1 << 20);
            topk_case(t, layout, 2, which < 0, 4 * TD_SORT_RANKED, TD_SORT_RANKED + which);
            topk_case(t, layout, 1, which < 0, TD_SORT_RADIX + 40 + which, TD_SORT_RADIX + which);
            if (i % 3 == 2) {
                int64_t wide = TD_SORT_GROUP_BYTES / TD_SORT_GROUP / (int64_t)(2 * td_dtype_size(t) + 8);
                sort_case(t, layout, 0, which < 0, wide + which, 1 << 20);
                sort_case(t, layout, 1, which < 0, 2 * TD_SORT_BLOCK + which, 1 << 20);
                topk_case(t, layout, 1, true, 2 * TD_SORT_BLOCK + 40, TD_TOPK_KEPT + which);
                topk_case(t, layout, 2, false, 2 * TD_SORT_BLOCK + which, TD_SORT_BLOCK + which);
                topk_case(t, layout, 2, false, 2 * TD_SORT_BLOCK + which, 3);
            }
        }
    int64_t n = 2 * TD_SORT_BLOCK + 1;
    tt x = TT(TD_FLOAT32, n), v = TT(TD_FLOAT32, n), i = TT(TD_INT64, n);
    CALL(c, 2, &x); /* all equal: blocks run out together, and every byte of a key is the same */
    c.out[0] = &v, c.out[1] = &i;
    attr_int(&c, 0), attr_bool(&c, false);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_sort), 0);
    CU_ASSERT_EQUAL(wrong(&x, &v, &i, 0, false), 0);
    tt_free(&x), tt_free(&v), tt_free(&i);
}

/* Chunks of several parts: the best so far stand before what is looked at next. */
static void longest(void)
{
    for (int which = -1; which <= 1; which++) {
        const int64_t n = (int64_t)TD_SORT_BLOCK * TD_TOPK_CHUNKS + which, k = 5;
        tt x = TT(TD_UINT8, n), v = TT(TD_UINT8, k), i = TT(TD_INT64, k);
        memset(tt_at(&x, 0), 7, (size_t)n);
        static const int64_t places[] = {9, 40000, 70000, 5000000};
        for (int j = 0; j < 4; j++) tt_set(&x, places[j], j % 2 ? 9 : 8);
        CALL(c, 2, &x);
        c.out[0] = &v, c.out[1] = &i;
        attr_int(&c, k), attr_int(&c, 0), attr_bool(&c, true), attr_bool(&c, true);
        CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_topk), 0);
        static const int64_t want[] = {40000, 5000000, 9, 70000, 0};
        for (int64_t j = 0; j < k; j++) {
            CU_ASSERT_EQUAL(tt_get(&i, j), (double)want[j]);
            CU_ASSERT_EQUAL(tt_get(&v, j), j < 2 ? 9 : j < 4 ? 8 : 7);
        }
        tt_free(&x), tt_free(&v), tt_free(&i);
    }
}

static void edges(void)
{
    tt x = tt_scalar(TD_FLOAT32), v = tt_scalar(TD_FLOAT32), i = tt_scalar(TD_INT64);
    tt_set(&x, 0, 5);
    CALL(c, 2, &x);
    c.out[0] = &v, c.out[1] = &i;
    attr_int(&c, -1);
    attr_bool(&c, false);
    CU_ASSERT_EQUAL(tcall_run(&c, td_cpu_plan_sort), 0);
    CU_ASSERT_EQUAL(tt_get(&v, 0), 5);
    CU_ASSERT_EQUAL(tt_get(&i, 0), 0);
    tt z = TT(TD_COMPLEX64, 3), zv = TT(TD_COMPLEX64, 3), zi = TT(TD_INT64, 3);
    c.in[0] = &z, c.out[0] = &zv, c.out[1] = &zi;
    tcall_refused(&c, td_cpu_plan_sort, TD_E_UNSUPPORTED);
    tt_free(&x), tt_free(&v), tt_free(&i), tt_free(&z), tt_free(&zv), tt_free(&zi);
}

TD_CUNIT_MAIN("kernels_sort", {"sort", sort_all}, {"sort: long rows", sort_long}, {"topk", topk_all}, {"kth", kth_all},
              {"nearly equal", nearly_equal}, {"straddles", straddles}, {"longest", longest}, {"edges", edges})
