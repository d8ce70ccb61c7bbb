/* The register tile of large products. See gemm.h. Loops over the tile have constant bounds and are unrolled, so that
 * the accumulators are registers. */
#include "daemon/kernels/cpu/vec/gemm.h"
#include "daemon/kernels/cpu/vec/isa.h"

#if TD_ISA_LEVEL > 0
#if TD_ISA_LEVEL == 2
enum { LANES = 16, ROWS = 12, SPEED = 110 };
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
#else
enum { LANES = 8, ROWS = 6, SPEED = 45 };
typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
#endif

/* beta is 0, 1 (K goes on), or what the caller of the product gave. */
static inline void store(vec *c, vec sum, float alpha, float beta)
{
    if (beta == 0) *c = alpha * sum;
    else if (beta == 1) *c += alpha * sum;
    else *c = beta * *c + alpha * sum;
}

static void tile(int64_t k, const float *a, const float *b, float *c, int64_t ldc, float alpha, float beta)
{
    vec s[ROWS], t[ROWS];
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) s[i] = t[i] = (vec){0};
    for (int64_t p = 0; p < k; p++, a += ROWS, b += 2 * LANES) {
        vec x = *(const vec *)b, y = *(const vec *)(b + LANES);
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; i++) {
            s[i] += a[i] * x;
            t[i] += a[i] * y;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) {
        store((vec *)(c + i * ldc), s[i], alpha, beta);
        store((vec *)(c + i * ldc + LANES), t[i], alpha, beta);
    }
}

extern const td_gemm_kernel TD_ISA_NAME(td_gemm);
const td_gemm_kernel TD_ISA_NAME(td_gemm) = {ROWS, 2 * LANES, SPEED, tile};
#else
extern const td_gemm_kernel TD_ISA_NAME(td_gemm);
const td_gemm_kernel TD_ISA_NAME(td_gemm) = {0};
#endif
