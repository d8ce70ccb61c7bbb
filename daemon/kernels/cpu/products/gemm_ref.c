/* Matrix product by plain loops. Integers wrap (they are multiplied without sign); floats are what the libraries are
 * compared with. c = beta * c + alpha * a b, and c is not read when beta is 0. */
#include "daemon/kernels/cpu/products/gemm.h"
#include "daemon/kernels/cpu/plan.h"
#include <complex.h>

/* The inner loop runs over columns, so that it vectorises when b's columns lie together. */
#define DEFINE_REF(name, T, ACC, LOAD_SCALAR)                                                                          \
    static TD_FOR_SETS(void, name, (const td_gemm_ref *g), (g))                                                        \
    {                                                                                                                  \
        const T *a = g->a, *b = g->b;                                                                                  \
        const ACC alpha = LOAD_SCALAR(g->alpha), beta = LOAD_SCALAR(g->beta);                                          \
        ACC sum[TD_GEMM_REF_COLS];                                                                                     \
        for (int64_t i = 0; i < g->m; i++) {                                                                           \
            T *c = (T *)g->c + i * g->ldc;                                                                             \
            for (int64_t j0 = 0; j0 < g->n; j0 += TD_GEMM_REF_COLS) {                                                  \
                const int64_t w = td_min64(TD_GEMM_REF_COLS, g->n - j0);                                               \
                memset(sum, 0, sizeof sum);                                                                            \
                for (int64_t p = 0; p < g->k; p++) {                                                                   \
                    const ACC av = (ACC)a[i * g->ars + p * g->acs];                                                    \
                    const T *row = b + p * g->brs + j0 * g->bcs;                                                       \
                    if (g->bcs == 1)                                                                                   \
                        for (int64_t j = 0; j < w; j++) sum[j] += av * (ACC)row[j];                                    \
                    else                                                                                               \
                        for (int64_t j = 0; j < w; j++) sum[j] += av * (ACC)row[j * g->bcs];                           \
                }                                                                                                      \
                for (int64_t j = 0; j < w; j++)                                                                        \
                    c[j0 + j] = (T)(beta == 0 ? alpha * sum[j] : beta * (ACC)c[j0 + j] + alpha * sum[j]);              \
            }                                                                                                          \
        }                                                                                                              \
    }

static double as_double(td_scalar s)
{
    return s.kind == TD_S_BOOL || s.kind == TD_S_INT ? (double)s.i : s.re;
}
static uint64_t as_bits(td_scalar s)
{
    if (s.kind == TD_S_BOOL || s.kind == TD_S_INT) return (uint64_t)s.i;
    int64_t v;
    td_scalar_store(s, TD_INT64, &v);
    return (uint64_t)v;
}
static double complex as_complex(td_scalar s)
{
    return s.kind == TD_S_COMPLEX ? __builtin_complex(s.re, s.im) : __builtin_complex(as_double(s), 0.0);
}

DEFINE_REF(ref_u8, uint8_t, uint32_t, as_bits)
DEFINE_REF(ref_u16, uint16_t, uint32_t, as_bits)
DEFINE_REF(ref_u32, uint32_t, uint32_t, as_bits)
DEFINE_REF(ref_u64, uint64_t, uint64_t, as_bits)
DEFINE_REF(ref_f32, float, double, as_double)
DEFINE_REF(ref_f64, double, double, as_double)
DEFINE_REF(ref_c64, float complex, double complex, as_complex)
DEFINE_REF(ref_c128, double complex, double complex, as_complex)

void td_gemm_reference(const td_gemm_ref *g)
{
    switch (g->dtype) {
    case TD_UINT8:
    case TD_INT8: ref_u8(g); break;
    case TD_UINT16:
    case TD_INT16: ref_u16(g); break;
    case TD_UINT32:
    case TD_INT32: ref_u32(g); break;
    case TD_UINT64:
    case TD_INT64: ref_u64(g); break;
    case TD_FLOAT32: ref_f32(g); break;
    case TD_FLOAT64: ref_f64(g); break;
    case TD_COMPLEX64: ref_c64(g); break;
    case TD_COMPLEX128: ref_c128(g); break;
    default: assert(!"a dtype that is converted before it gets here");
    }
}
