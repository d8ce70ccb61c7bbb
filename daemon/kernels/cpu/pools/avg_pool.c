/* avg_pool2d and its gradient, in the computed dtype (float for halves; an int64 is cut off behind the division). The
 * divisor is the window with its padding (but not what ceil_mode adds beyond it), or, without include_pad, the elements
 * inside the plane. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/pools/pool.h"
#include "daemon/kernels/cpu/vec/pool.h"
#include "daemon/kernels/plans.h"

/* Those whose means are taken together. */
static td_pool_columns columns(const td_pooling *p, bool backward)
{
    return td_pool_inside(p, !backward && p->kw <= TD_POOL_ROW_KERNEL);
}

/* Both ways over one plane: windows in order, so that the gradient adds in order. A window may be as large as one
 * likes. Means of windows inside of a row are taken side by side (vec/pool.c): each adds its elements in the same order
 * as alone, so the bits are the same. */
#define DEFINE_AVG(T, s)                                                                                               \
    TD_INLINE T sum_##s(T sum, const T *x, int64_t width, int64_t rows, int64_t cols)                                  \
    {                                                                                                                  \
        for (int64_t y = 0; y < rows; y++)                                                                             \
            for (int64_t i = 0; i < cols; i++) sum += x[y * width + i];                                                \
        return sum;                                                                                                    \
    }                                                                                                                  \
    TD_INLINE void spread_##s(T *x, T v, int64_t width, int64_t rows, int64_t cols)                                    \
    {                                                                                                                  \
        for (int64_t y = 0; y < rows; y++)                                                                             \
            for (int64_t i = 0; i < cols; i++) x[y * width + i] += v;                                                  \
    }                                                                                                                  \
    static T large_##s(td_kcall *k, const td_pooling *p, bool backward, T part, const T *from, T *to, int64_t rows,    \
                       int64_t cols)                                                                                   \
    {                                                                                                                  \
        T sum = 0;                                                                                                     \
        for (int64_t y = 0, band = td_max64(1, TD_REST_ELEMENTS / cols); y < rows && !td_kernel_rest(k); y += band) {  \
            if (backward) spread_##s(to + y * p->w, part, p->w, td_min64(band, rows - y), cols);                       \
            else sum = sum_##s(sum, from + y * p->w, p->w, td_min64(band, rows - y), cols);                            \
        }                                                                                                              \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static void plane_##s(td_kcall *k, int64_t *done, const td_pooling *p, bool backward, td_pool_columns in,          \
                          const T *from, T *to)                                                                        \
    {                                                                                                                  \
        const td_mean_row mean = td_isa_now->pool->mean_##s;                                                           \
        for (int64_t oy = 0; oy < p->oh; oy++) {                                                                       \
            int64_t y0, y1, ny = td_pool_part(oy, p->h, p->kh, p->sh, p->ph, &y0, &y1);                                \
            for (int64_t ox = 0; ox < p->ow; ox++) {                                                                   \
                if (ox == in.first && ox < in.last) {                                                                  \
                    const int64_t all = td_pool_count(p->include_pad ? ny : y1 - y0, p->kw);                           \
                    if (!mean(k, done, p, from, y0, y1, in, all, to + oy * p->ow)) return;                             \
                    ox = in.last - 1;                                                                                  \
                    continue;                                                                                          \
                }                                                                                                      \
                int64_t x0, x1, nx = td_pool_part(ox, p->w, p->kw, p->sw, p->pw, &x0, &x1);                            \
                const int64_t rows = y1 - y0, cols = x1 - x0, at = oy * p->ow + ox, first = y0 * p->w + x0;            \
                const T count = (T)(p->include_pad ? td_pool_count(ny, nx) : td_pool_count(rows, cols)),               \
                        part = backward ? from[at] / count : 0;                                                        \
                T sum = 0;                                                                                             \
                if (td_kernel_rest_after(k, done, rows * cols)) return;                                                \
                if (rows * cols > TD_REST_ELEMENTS) {                                                                  \
                    sum = large_##s(k, p, backward, part, from + first, to + first, rows, cols);                       \
                } else if (backward) spread_##s(to + first, part, p->w, rows, cols);                                   \
                else sum = sum_##s(sum, from + first, p->w, rows, cols);                                               \
                if (!backward) to[at] = sum / count;                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }
DEFINE_AVG(float, f32)
DEFINE_AVG(double, f64)
DEFINE_AVG(int64_t, i64)

static void avg_chunk(td_kcall *k, int64_t chunk, bool backward, char *scratch)
{
    const td_pooling *p = (const td_pooling *)k->state;
    int64_t b, e, acc = (int64_t)td_dtype_size(p->acc), inner = p->h * p->w, outer = p->oh * p->ow;
    int64_t from_n = backward ? outer : inner, to_n = backward ? inner : outer;
    int64_t done = 0;
    char *result = scratch + from_n * acc;
    const td_pool_columns in = columns(p, backward);
    td_cut_range(p->planes, p->per, chunk, &b, &e);
    for (; b < e; b++) {
        if (td_kernel_rest_after(k, &done, from_n)) return;
        const void *from = td_pool_plane(p, &k->in[0], b, from_n, scratch);
        char *out = (char *)k->out[0].data + b * to_n * (int64_t)td_dtype_size(p->dtype);
        char *to = p->dtype == p->acc ? out : result;
        if (backward) memset(to, 0, (size_t)(to_n * acc));
        if (p->acc == TD_FLOAT64) plane_f64(k, &done, p, backward, in, from, (double *)to);
        else if (p->acc == TD_INT64) plane_i64(k, &done, p, backward, in, from, (int64_t *)to);
        else plane_f32(k, &done, p, backward, in, from, (float *)to);
        if (to != out) td_row_store(out, 1, p->dtype, to, to_n);
    }
}

static void forward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    avg_chunk(k, chunk, false, scratch);
}

static void backward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    avg_chunk(k, chunk, true, scratch);
}

static int plan_avg(td_kcall *k, const td_desc *x, const td_desc *y, int a0, td_chunk_fn fn, const char *name,
                    td_error *e)
{
    td_pooling *p = (td_pooling *)k->state;
    int rc = td_pool2d_init(k, p, x, y, a0, false, name, e);
    if (rc) return rc;
    if (!td_dtype_is_float(p->dtype) && (p->dtype != TD_INT64 || fn == backward_chunk))
        return td_refuse_dtype(k, 0, name, e);
    p->include_pad = td_attr_bool(k->attrs, a0 + 4);
    bool some = td_desc_numel(k->out[0].desc) > 0, back = fn == backward_chunk;
    if (some && (back ? td_pool_plan_avg_back_last(k) : td_pool_plan_avg_last(k))) return 0;
    if (!td_desc_is_contiguous(k->out[0].desc)) return td_plan_wants_rows(k);
    const td_pool_columns in = columns(p, back);
    if (in.first < in.last) td_pool_cut(k, p, TD_POOL_TOGETHER_NS);
    k->scratch_bytes = (size_t)(p->h * p->w + p->oh * p->ow) * td_dtype_size(p->acc);
    if (some) td_plan_phase(k, fn, td_cut(p->planes, p->per));
    td_plan_moves_freely(k, sizeof *p);
    return 0;
}

int td_cpu_plan_avg_pool2d(td_kcall *k, td_error *e)
{
    return plan_avg(k, k->in[0].desc, k->out[0].desc, 0, forward_chunk, "avg_pool2d", e);
}

int td_cpu_plan_avg_pool2d_backward(td_kcall *k, td_error *e)
{
    return plan_avg(k, k->out[0].desc, k->in[0].desc, 1, backward_chunk, "avg_pool2d_backward", e);
}
