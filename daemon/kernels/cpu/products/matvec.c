/* mv and dot. A vector's product is bound by memory: rows (mv) or fixed blocks (dot) are spread over chunks; partial
 * sums of dot are added in order of the blocks. */
#include "daemon/kernels/cpu/blas.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/products/gemm.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/plans.h"
#include <complex.h>
#include <limits.h>

/* mv is a product with one column; the engine packs a strided x, and one column of B is contiguous for BLAS. */
int td_cpu_plan_mv(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->in[1].desc;
    td_gemm g = {.dtype = x->dtype,
                 .in_a = 1,
                 .in_b = 2,
                 .batch = 1,
                 .m = x->shape[0],
                 .n = 1,
                 .k = x->shape[1],
                 .c = k->out[0].data,
                 .alpha = td_int(1),
                 .beta = td_int(0)};
    g.a = (td_gemm_mat){.data = k->in[0].data, .rs = x->stride[0], .cs = x->stride[1]};
    g.b = (td_gemm_mat){.data = k->in[1].data, .rs = y->stride[0], .cs = 1};
    return td_gemm_plan(k, &g, "mv", e);
}

/* ---- dot ---- */

typedef struct dot_state {
    const char *x, *y;
    int64_t n, xs, ys; /* strides in elements */
    uint8_t dtype;
} dot_state;

typedef union dot_sum {
    double complex z;
    double d;
    uint64_t i;
} dot_sum;

#define DOT_PLAIN(T, ACC, field)                                                                                       \
    do {                                                                                                               \
        const T *x = (const T *)s->x + b * s->xs, *y = (const T *)s->y + b * s->ys;                                    \
        for (int64_t i = 0; i < n; i++) sum.field += (ACC)x[i * s->xs] * (ACC)y[i * s->ys];                            \
    } while (0)

static void dot_half(const dot_state *s, int64_t b, int64_t n, dot_sum *sum)
{
    float x[TD_DOT_PART], y[TD_DOT_PART];
    for (int64_t i = 0; i < n; i += TD_DOT_PART) {
        int64_t w = td_min64(TD_DOT_PART, n - i);
        td_row_to_float(x, (const uint16_t *)s->x + (b + i) * s->xs, s->xs, s->dtype, w);
        td_row_to_float(y, (const uint16_t *)s->y + (b + i) * s->ys, s->ys, s->dtype, w);
        for (int64_t j = 0; j < w; j++) sum->d += (double)x[j] * y[j];
    }
}

/* BLAS takes any positive step that fits an int; but OpenBLAS (0.3.21, Haswell) reads one complex element behind
 * the last of a stepped vector, which may be unmapped memory. */
static bool takes_steps(const dot_state *s)
{
    if (td_dtype_is_complex(s->dtype)) return s->xs == 1 && s->ys == 1;
    return s->xs >= 1 && s->ys >= 1 && s->xs <= INT_MAX && s->ys <= INT_MAX;
}

static bool dot_blas(const dot_state *s, int64_t b, int64_t n, dot_sum *sum)
{
    const td_blas_api *blas = td_blas(NULL);
    if (!blas || !takes_steps(s)) return false;
    int64_t size = (int64_t)td_dtype_size(s->dtype);
    const void *x = s->x + b * s->xs * size, *y = s->y + b * s->ys * size;
    float complex c;
    switch (s->dtype) {
    case TD_FLOAT32: sum->d = blas->cblas_sdot((int)n, x, (int)s->xs, y, (int)s->ys); return true;
    case TD_FLOAT64: sum->d = blas->cblas_ddot((int)n, x, (int)s->xs, y, (int)s->ys); return true;
    case TD_COMPLEX64:
        blas->cblas_cdotu_sub((int)n, x, (int)s->xs, y, (int)s->ys, &c);
        sum->z = c;
        return true;
    case TD_COMPLEX128: blas->cblas_zdotu_sub((int)n, x, (int)s->xs, y, (int)s->ys, &sum->z); return true;
    default: return false;
    }
}

static void dot_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const dot_state *s = (const dot_state *)k->state;
    dot_sum sum = {0};
    int64_t b, e, n;
    (void)scratch;
    td_cut_range(s->n, TD_DOT_BLOCK, chunk, &b, &e);
    n = e - b;
    if (td_dtype_is_inexact(s->dtype) && dot_blas(s, b, n, &sum)) goto done;
    switch (s->dtype) {
    case TD_FLOAT16:
    case TD_BFLOAT16: dot_half(s, b, n, &sum); break;
    case TD_FLOAT32: DOT_PLAIN(float, double, d); break;
    case TD_FLOAT64: DOT_PLAIN(double, double, d); break;
    case TD_COMPLEX64: DOT_PLAIN(float complex, double complex, z); break;
    case TD_COMPLEX128: DOT_PLAIN(double complex, double complex, z); break;
    case TD_UINT8: DOT_PLAIN(uint8_t, uint64_t, i); break;
    case TD_INT8: DOT_PLAIN(int8_t, uint64_t, i); break;
    case TD_UINT16: DOT_PLAIN(uint16_t, uint64_t, i); break;
    case TD_UINT32: DOT_PLAIN(uint32_t, uint64_t, i); break;
    case TD_INT16: DOT_PLAIN(int16_t, uint64_t, i); break;
    case TD_INT32: DOT_PLAIN(int32_t, uint64_t, i); break;
    default: DOT_PLAIN(int64_t, uint64_t, i);
    }
done:
    ((dot_sum *)k->work)[chunk] = sum;
}

static void dot_finish(td_kcall *k, int64_t chunk, void *scratch)
{
    const dot_state *s = (const dot_state *)k->state;
    dot_sum total = {0};
    (void)chunk, (void)scratch;
    for (int64_t c = 0; c < td_cut(s->n, TD_DOT_BLOCK); c++) {
        dot_sum part = ((dot_sum *)k->work)[c];
        if (td_dtype_is_complex(s->dtype)) total.z += part.z;
        else if (td_dtype_is_float(s->dtype)) total.d += part.d;
        else total.i += part.i;
    }
    void *out = k->out[0].data;
    if (s->dtype == TD_COMPLEX64) *(float complex *)out = (float complex)total.z;
    else if (s->dtype == TD_COMPLEX128) *(double complex *)out = total.z;
    else if (td_dtype_is_float(s->dtype)) td_element_from_double(out, s->dtype, total.d);
    else memcpy(out, &total.i, td_dtype_size(s->dtype)); /* the low bytes: integers wrap */
}

int td_cpu_plan_dot(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->in[1].desc;
    dot_state *s = (dot_state *)k->state;
    if (x->dtype == TD_BOOL) return td_refuse_dtype(k, 0, "dot", e);
    *s = (dot_state){.x = k->in[0].data,
                     .y = k->in[1].data,
                     .n = x->shape[0],
                     .xs = x->stride[0],
                     .ys = y->stride[0],
                     .dtype = x->dtype};
    if (td_dtype_is_inexact(x->dtype) && !td_blas(e)) return TD_E_UNSUPPORTED;
    int64_t chunks = td_cut(s->n, TD_DOT_BLOCK);
    td_plan_work(k, (size_t)td_max64(1, chunks) * sizeof(dot_sum));
    td_plan_phase(k, dot_chunk, chunks);
    td_plan_phase(k, dot_finish, 1);
    k->cost_ns = (double)s->n * 0.3 + 200;
    return 0;
}
