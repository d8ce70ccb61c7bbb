/* What a dtype is: size, category, name, and what two of them promote to (semantics T5).
 *
 * Half types are stored and computed through float; the conversions here are exact one way and round to nearest
 * even the other way. */
#ifndef TENSORD_PROTO_BASE_DTYPE_H
#define TENSORD_PROTO_BASE_DTYPE_H

#include "proto/types.h"
#include <string.h>

typedef enum td_category { TD_CAT_BOOL = 0, TD_CAT_INT = 1, TD_CAT_FLOAT = 2, TD_CAT_COMPLEX = 3 } td_category;

/* "float32", ...; "?" for a value that is no dtype. */
const char *td_dtype_name(td_dtype t);
/* The reverse; TD_DTYPE_NONE when unknown. */
td_dtype td_dtype_parse(const char *name);
td_category td_dtype_category(td_dtype t);

static inline bool td_dtype_valid(unsigned t)
{
    return t < TD_DTYPE_COUNT;
}
/* Bytes of one element; 0 for a value that is no dtype. (The analyzer is not shown the 0: it would take every dtype,
 * also one that was checked, for none.) */
#ifdef __clang_analyzer__
size_t td_dtype_size(td_dtype t);
#else
static inline size_t td_dtype_size(td_dtype t)
{
    static const uint8_t size[TD_DTYPE_COUNT] = {
        [TD_BOOL] = 1,      [TD_UINT8] = 1,       [TD_INT8] = 1,     [TD_INT16] = 2,   [TD_INT32] = 4,
        [TD_INT64] = 8,     [TD_FLOAT16] = 2,     [TD_BFLOAT16] = 2, [TD_FLOAT32] = 4, [TD_FLOAT64] = 8,
        [TD_COMPLEX64] = 8, [TD_COMPLEX128] = 16, [TD_UINT16] = 2,   [TD_UINT32] = 4,  [TD_UINT64] = 8};
    return td_dtype_valid(t) ? size[t] : 0;
}
#endif
static inline bool td_dtype_is_float(td_dtype t)
{
    return t >= TD_FLOAT16 && t <= TD_FLOAT64;
}
static inline bool td_dtype_is_complex(td_dtype t)
{
    return t == TD_COMPLEX64 || t == TD_COMPLEX128;
}
/* Floating or complex: what may require grad (A1). */
static inline bool td_dtype_is_inexact(td_dtype t)
{
    return t >= TD_FLOAT16 && t <= TD_COMPLEX128;
}
/* Below 0 there is nothing. */
static inline bool td_dtype_is_unsigned(td_dtype t)
{
    return t == TD_UINT8 || (t >= TD_UINT16 && t <= TD_UINT64);
}
static inline bool td_dtype_is_integral(td_dtype t)
{
    return t <= TD_INT64 || td_dtype_is_unsigned(t);
}

/* The common dtype of two tensors of the same tier; TD_DTYPE_NONE of uint64 and signed ones, which have none. */
td_dtype td_promote(td_dtype a, td_dtype b);
/* The real dtype of a complex one (complex64 -> float32); others unchanged. */
td_dtype td_dtype_real(td_dtype t);
/* The complex dtype whose parts are `t` (float16 and bfloat16 give complex64); others unchanged. */
td_dtype td_dtype_complex(td_dtype t);
/* The dtype a Python number has by itself: bool, int64, float32, complex64. */
td_dtype td_scalar_dtype(td_scalar s);
/* May a result computed as `from` be written into a tensor of `to`? (no float into int, no complex into float) */
bool td_dtype_can_cast(td_dtype from, td_dtype to);
/* Does the number fit the dtype without overflow? (int8 fill_(300) does not) */
bool td_scalar_fits(td_scalar s, td_dtype t);
/* Write the number as one element of `t`: truncating float to int, wrapping never checked here. */
void td_scalar_store(td_scalar s, td_dtype t, void *out);
/* One element as a number. Reads bools as bytes: any value but 0 is true. A number has an int64: of uint64 the bits. */
td_scalar td_scalar_load(td_dtype t, const void *element);

static inline float td_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, em = h & 0x7fffu, bits;
    float f;
    if (em >= 0x7c00u) bits = sign | 0x7f800000u | (em & 0x3ffu) << 13;
    else if (em >= 0x0400u) bits = sign | ((em << 13) + 0x38000000u);
    else { /* zero and subnormal: em * 2^-24, exact in float */
        f = (float)em * 0x1p-24f;
        memcpy(&bits, &f, 4);
        bits |= sign;
    }
    memcpy(&f, &bits, 4);
    return f;
}
static inline uint16_t td_float_to_half(float f)
{
    uint32_t x;
    memcpy(&x, &f, 4);
    uint32_t sign = x >> 16 & 0x8000u, a = x & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);  /* NaN */
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds to infinity */
    if (a < 0x38800000u) {                                   /* subnormal half or zero */
        float m;
        memcpy(&m, &a, 4);
        m += 0.5f; /* adds at 2^-1: the unit in the last place is 2^-24, rounding to nearest even in hardware */
        uint32_t r;
        memcpy(&r, &m, 4);
        return (uint16_t)(sign | (r - 0x3f000000u));
    }
    uint32_t r = a + 0xfffu + (a >> 13 & 1u);
    return (uint16_t)(sign | ((r - 0x38000000u) >> 13));
}
static inline float td_bfloat_to_float(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline uint16_t td_float_to_bfloat(float f)
{
    uint32_t x;
    memcpy(&x, &f, 4);
    if ((x & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(x >> 16 | 0x40u);
    return (uint16_t)((x + 0x7fffu + (x >> 16 & 1u)) >> 16);
}

#endif
