/* Conversions of rows: see convert.h. Halves round to nearest even. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/walk.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

__attribute__((target("avx,f16c"))) static int64_t half_to_float_f16c(float *to, const uint16_t *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    return i;
}
__attribute__((target("avx,f16c"))) static int64_t float_to_half_f16c(uint16_t *to, const float *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}
static bool has_f16c(void)
{
    unsigned a, b, c = 0, d; /* clang's __builtin_cpu_supports does not know f16c */
    return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#else
#define half_to_float_f16c(to, from, n) 0
#define float_to_half_f16c(to, from, n) 0
#define has_f16c() false
#endif

static void half_load(float *to, const uint16_t *from, int64_t step, int64_t n)
{
    int64_t i = step == 1 && has_f16c() ? half_to_float_f16c(to, from, n) : 0;
    for (; i < n; i++) to[i] = td_half_to_float(from[i * step]);
}
static void half_store(uint16_t *to, int64_t step, const float *from, int64_t n)
{
    int64_t i = step == 1 && has_f16c() ? float_to_half_f16c(to, from, n) : 0;
    for (; i < n; i++) to[i * step] = td_float_to_half(from[i]);
}
static TD_FOR_SETS(void, bfloat_load, (float *to, const uint16_t *from, int64_t step, int64_t n), (to, from, step, n))
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++) to[i] = td_bfloat_to_float(from[i]);
    else
        for (int64_t i = 0; i < n; i++) to[i] = td_bfloat_to_float(from[i * step]);
}
static TD_FOR_SETS(void, bfloat_store, (uint16_t * to, int64_t step, const float *from, int64_t n), (to, step, from, n))
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++) to[i] = td_float_to_bfloat(from[i]);
    else
        for (int64_t i = 0; i < n; i++) to[i * step] = td_float_to_bfloat(from[i]);
}

void td_row_load(void *to, const void *from, int64_t step, unsigned dtype, int64_t n)
{
    int64_t size = (int64_t)td_dtype_size(dtype);
    if (dtype == TD_FLOAT16) half_load(to, from, step, n);
    else if (dtype == TD_BFLOAT16) bfloat_load(to, from, step, n);
    else td_copy_run(to, size, from, step * size, (size_t)size, n);
}

void td_row_store(void *to, int64_t step, unsigned dtype, const void *from, int64_t n)
{
    int64_t size = (int64_t)td_dtype_size(dtype);
    if (dtype == TD_FLOAT16) half_store(to, step, from, n);
    else if (dtype == TD_BFLOAT16) bfloat_store(to, step, from, n);
    else td_copy_run(to, step * size, from, size, (size_t)size, n);
}

void td_row_to_float(float *to, const void *from, int64_t step, unsigned dtype, int64_t n)
{
    if (dtype != TD_FLOAT64) td_row_load(to, from, step, dtype, n);
    else
        for (int64_t i = 0; i < n; i++) to[i] = (float)((const double *)from)[i * step];
}

void td_row_to_double(double *to, const void *from, int64_t step, unsigned dtype, int64_t n)
{
    if (dtype == TD_FLOAT64) td_row_load(to, from, step, dtype, n);
    else if (dtype == TD_FLOAT32)
        for (int64_t i = 0; i < n; i++) to[i] = ((const float *)from)[i * step];
    else
        for (int64_t i = 0; i < n; i++) to[i] = td_element_to_double((const uint16_t *)from + i * step, dtype);
}

double td_element_to_double(const void *p, unsigned dtype)
{
    switch (dtype) {
    case TD_FLOAT16: return td_half_to_float(*(const uint16_t *)p);
    case TD_BFLOAT16: return td_bfloat_to_float(*(const uint16_t *)p);
    case TD_FLOAT32: return *(const float *)p;
    case TD_FLOAT64: return *(const double *)p;
    default: {
        td_scalar s = td_scalar_load(dtype, p);
        return s.kind == TD_S_BOOL || s.kind == TD_S_INT ? (double)s.i : s.re;
    }
    }
}

void td_element_from_double(void *p, unsigned dtype, double v)
{
    switch (dtype) {
    case TD_FLOAT16: *(uint16_t *)p = td_float_to_half((float)v); break;
    case TD_BFLOAT16: *(uint16_t *)p = td_float_to_bfloat((float)v); break;
    case TD_FLOAT32: *(float *)p = (float)v; break;
    case TD_FLOAT64: *(double *)p = v; break;
    default: td_scalar_store(td_float(v), dtype, p);
    }
}

int td_ordered(int64_t n, void *out, const void *const *in, const struct td_pw_attr *at)
{
    uint64_t *to = out;
    const uint64_t *from = in[0];
    (void)at;
    for (int64_t i = 0; i < n; i++) to[i] = from[i] ^ 1ull << 63;
    return 0;
}
