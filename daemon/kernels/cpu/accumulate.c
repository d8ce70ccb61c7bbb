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

TD_FOR_SETS(void, td_add_run,
            (unsigned dtype, char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, bool scale,
             td_scalar alpha),
            (dtype, to, to_step, from, from_step, n, scale, alpha))
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
    case TD_UINT16:
    case TD_INT16: ADD_RUN(uint16_t, uint32_t, (uint32_t)bits); break;
    case TD_UINT32:
    case TD_INT32: ADD_RUN(uint32_t, uint32_t, (uint32_t)bits); break;
    case TD_UINT64:
    case TD_INT64: ADD_RUN(uint64_t, uint64_t, bits); break;
    case TD_FLOAT16: ADD_HALF(td_half_to_float, td_float_to_half) break;
    case TD_BFLOAT16: ADD_HALF(td_bfloat_to_float, td_float_to_bfloat) break;
    case TD_FLOAT32: ADD_RUN(float, float, (float)real); break;
    case TD_FLOAT64: ADD_RUN(double, double, real); break;
    case TD_COMPLEX64: ADD_RUN(float complex, float complex, (float complex)z); break;
    default: ADD_RUN(double complex, double complex, z);
    }
}

#define FOLD(T, U)                                                                                                     \
    do {                                                                                                               \
        T a = *(const T *)to, b = *(const T *)from;                                                                    \
        *(T *)to = how == TD_FOLD_MULTIPLY ? (T)((U)a * (U)b) : (how == TD_FOLD_MOST ? b > a : b < a) ? b : a;         \
    } while (0)
#define FOLD_FLOAT(A, B, STORE)                                                                                        \
    do {                                                                                                               \
        double a = (A), b = (B);                                                                                       \
        double best = a != a || (b == b && !(how == TD_FOLD_MOST ? b > a : b < a)) ? a : b;                            \
        STORE(how == TD_FOLD_MULTIPLY ? a * b : best);                                                                 \
    } while (0)
#define FOLD_COMPLEX(T) /* of which there are products alone */                                                        \
    do {                                                                                                               \
        T *a = (T *)to, re = a[0], im = a[1];                                                                          \
        const T *b = (const T *)from;                                                                                  \
        a[0] = re * b[0] - im * b[1];                                                                                  \
        a[1] = re * b[1] + im * b[0];                                                                                  \
    } while (0)
#define STORE_FLOAT(v) *(float *)to = (float)(v)
#define STORE_DOUBLE(v) *(double *)to = (v)
#define STORE_HALF(v) *(uint16_t *)to = td_float_to_half((float)(v))
#define STORE_BFLOAT(v) *(uint16_t *)to = td_float_to_bfloat((float)(v))

void td_fold_one(unsigned dtype, td_fold how, char *to, const char *from)
{
    switch (dtype) {
    case TD_BOOL: *to = how == TD_FOLD_MOST ? *to || *from : *to && *from; break;
    case TD_UINT8: FOLD(uint8_t, uint32_t); break;
    case TD_INT8: FOLD(int8_t, uint32_t); break;
    case TD_INT16: FOLD(int16_t, uint32_t); break;
    case TD_UINT16: FOLD(uint16_t, uint32_t); break;
    case TD_UINT32: FOLD(uint32_t, uint32_t); break;
    case TD_UINT64: FOLD(uint64_t, uint64_t); break;
    case TD_INT32: FOLD(int32_t, uint32_t); break;
    case TD_INT64: FOLD(int64_t, uint64_t); break;
    case TD_FLOAT16:
        FOLD_FLOAT(td_half_to_float(*(const uint16_t *)to), td_half_to_float(*(const uint16_t *)from), STORE_HALF);
        break;
    case TD_BFLOAT16:
        FOLD_FLOAT(td_bfloat_to_float(*(const uint16_t *)to), td_bfloat_to_float(*(const uint16_t *)from),
                   STORE_BFLOAT);
        break;
    case TD_FLOAT32: FOLD_FLOAT(*(const float *)to, *(const float *)from, STORE_FLOAT); break;
    case TD_COMPLEX64: FOLD_COMPLEX(float); break;
    case TD_COMPLEX128: FOLD_COMPLEX(double); break;
    default: FOLD_FLOAT(*(const double *)to, *(const double *)from, STORE_DOUBLE);
    }
}
