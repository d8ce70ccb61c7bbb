/* See accumulate.h. */
#include "daemon/kernels/cpu/accumulate.h"
#include "daemon/kernels/cpu/plan.h"
#include <complex.h>

#define ADD_RUN(T, U, ALPHA)                                                                                           \
    do {                                                                                                               \
        const U a = (ALPHA);                                                                                           \
        if (to_step == sizeof(T) && from_step == sizeof(T) && !scale)                                                  \
            for (int64_t i = 0; i < n; i++) ((T *)to)[i] = (T)((U)((T *)to)[i] + (U)((const T *)from)[i]);             \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                T *p = (T *)(to + i * to_step);                                                                        \
                *p = (T)((U)*p + (scale ? a * (U) * (const T *)(from + i * from_step)                                  \
                                        : (U) * (const T *)(from + i * from_step)));                                   \
            }                                                                                                          \
    } while (0)

#define ADD_HALF(LOAD, STORE)                                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        uint16_t *p = (uint16_t *)(to + i * to_step);                                                                  \
        float v = LOAD(*(const uint16_t *)(from + i * from_step));                                                     \
        *p = STORE(LOAD(*p) + (scale ? (float)real * v : v));                                                          \
    }

TD_CLONES void td_add_run(unsigned dtype, char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                          bool scale, td_scalar alpha)
{
    bool integer = alpha.kind == TD_S_BOOL || alpha.kind == TD_S_INT;
    double real = integer ? (double)alpha.i : alpha.re;
    uint64_t bits = integer ? (uint64_t)alpha.i : 0;
    double complex z = __builtin_complex(real, alpha.kind == TD_S_COMPLEX ? alpha.im : 0.0);
    switch (dtype) {
    case TD_BOOL:
        if (scale && real == 0) break;
        for (int64_t i = 0; i < n; i++) to[i * to_step] = (to[i * to_step] != 0) | (from[i * from_step] != 0);
        break;
    case TD_UINT8:
    case TD_INT8: ADD_RUN(uint8_t, uint32_t, (uint32_t)bits); break;
    case TD_INT16: ADD_RUN(uint16_t, uint32_t, (uint32_t)bits); break;
    case TD_INT32: ADD_RUN(uint32_t, uint32_t, (uint32_t)bits); break;
    case TD_INT64: ADD_RUN(uint64_t, uint64_t, bits); break;
    case TD_FLOAT16: ADD_HALF(td_half_to_float, td_float_to_half) break;
    case TD_BFLOAT16: ADD_HALF(td_bfloat_to_float, td_float_to_bfloat) break;
    case TD_FLOAT32: ADD_RUN(float, float, (float)real); break;
    case TD_FLOAT64: ADD_RUN(double, double, real); break;
    case TD_COMPLEX64: ADD_RUN(float complex, float complex, (float complex)z); break;
    default: ADD_RUN(double complex, double complex, z);
    }
}
