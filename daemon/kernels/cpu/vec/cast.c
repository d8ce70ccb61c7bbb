/* Every dtype to every dtype, n contiguous elements. Float to integer truncates, complex to real takes the real part,
 * anything to bool is "not zero", integers wrap, half types go through float. One table, [from][to]. */
#include "daemon/kernels/cpu/vec/copy.h"
#include "daemon/kernels/cpu/vec/loops.h"
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

/* Without branches, so that the loops vectorise. Multiplying by 2^112 rescales the exponent, denormals included. */
TD_FN float from_half(uint16_t h)
{
    uint32_t em = h & 0x7fffu;
    uint32_t bits = td_bits_f(td_from_bits_f(em << 13) * 0x1p112f);
    bits = em >= 0x7c00u ? 0x7f800000u | (em & 0x3ffu) << 13 : bits;
    return td_from_bits_f(bits | (uint32_t)(h & 0x8000u) << 16);
}
TD_FN uint16_t to_half(float f)
{
    uint32_t x = td_bits_f(f), a = x & 0x7fffffffu;
    uint32_t small = td_bits_f(td_from_bits_f(a) + 0.5f) - 0x3f000000u;
    uint32_t normal = (a + 0xfffu + (a >> 13 & 1u) - 0x38000000u) >> 13;
    uint32_t r = a < 0x38800000u ? small : normal;
    r = a >= 0x477ff000u ? 0x7c00u : r;
    r = a > 0x7f800000u ? 0x7e00u : r;
    return (uint16_t)(r | (x >> 16 & 0x8000u));
}

typedef struct half {
    uint16_t bits;
} half;
typedef struct bfloat {
    uint16_t bits;
} bfloat;
typedef struct truth {
    uint8_t byte;
} truth;

typedef truth b8_t;
typedef uint8_t u8_t;
typedef uint16_t u16_t;
typedef uint32_t u32_t;
typedef uint64_t u64_t;
typedef int8_t i8_t;
typedef int16_t i16_t;
typedef int32_t i32_t;
typedef int64_t i64_t;
typedef half f16_t;
typedef bfloat bf16_t;
typedef float f32_t;
typedef double f64_t;
typedef td_c64 c64_t;
typedef td_c128 c128_t;

#define LOAD_b8(x) ((x).byte != 0)
#define LOAD_f16(x) from_half((x).bits)
#define LOAD_bf16(x) td_bfloat_to_float((x).bits)
#define LOAD_u8(x) (x)
#define LOAD_u16(x) (x)
#define LOAD_u32(x) (x)
#define LOAD_u64(x) (x)
#define LOAD_i8(x) (x)
#define LOAD_i16(x) (x)
#define LOAD_i32(x) (x)
#define LOAD_i64(x) (x)
#define LOAD_f32(x) (x)
#define LOAD_f64(x) (x)
#define LOAD_c64(x) (x)
#define LOAD_c128(x) (x)

/* Toward zero; below 0 as an int64, so that it wraps. */
TD_FN uint64_t whole_bits(double v)
{
    return v >= 0x1p63 ? (v < 0x1p64 ? (uint64_t)v : 1ull << 63) : (uint64_t)(int64_t)v;
}

/* A real value to each dtype; to a small integer from a float through int32, as processors do it. */
#define NARROW(x, T) (T) _Generic((x), float : (int32_t)(x), double : (int32_t)(x), default : (x))
#define STORE_b8(x) ((truth){(x) != 0})
#define STORE_u8(x) NARROW(x, uint8_t)
#define STORE_i8(x) NARROW(x, int8_t)
#define STORE_i16(x) NARROW(x, int16_t)
#define STORE_u16(x) NARROW(x, uint16_t)
/* Through the signed type twice as wide, or as wide: what a float below 0 is, is then the same everywhere. */
#define STORE_u32(x) ((uint32_t)(int64_t)(x))
#define STORE_u64(x)                                                                                                   \
    _Generic((x), float : whole_bits((double)(x)), double : whole_bits((double)(x)), default : (uint64_t)(x))
#define STORE_i32(x) ((int32_t)(x))
#define STORE_i64(x) ((int64_t)(x))
#define STORE_f16(x) ((half){to_half((float)(x))})
#define STORE_bf16(x) ((bfloat){td_float_to_bfloat((float)(x))})
#define STORE_f32(x) ((float)(x))
#define STORE_f64(x) ((double)(x))
#define STORE_c64(x) td_make_c64((float)(x), 0)
#define STORE_c128(x) td_make_c128((double)(x), 0)

#define CAST(A, B, VALUE)                                                                                              \
    TD_UNUSED static int cast_##A##_##B(int64_t n, void *out, const void *const *in, const td_pw_attr *at)             \
    {                                                                                                                  \
        B##_t *o = out;                                                                                                \
        const A##_t *x = in[0];                                                                                        \
        (void)at;                                                                                                      \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                                           \
        {                                                                                                              \
            __typeof__(LOAD_##A(x[i])) v = LOAD_##A(x[i]);                                                             \
            o[i] = VALUE;                                                                                              \
        }                                                                                                              \
        return 0;                                                                                                      \
    }
#define FROM_REAL(A)                                                                                                   \
    CAST(A, b8, STORE_b8(v))                                                                                           \
    CAST(A, u8, STORE_u8(v))                                                                                           \
    CAST(A, i8, STORE_i8(v))                                                                                           \
    CAST(A, i16, STORE_i16(v))                                                                                         \
    CAST(A, i32, STORE_i32(v))                                                                                         \
    CAST(A, i64, STORE_i64(v))                                                                                         \
    CAST(A, f16, STORE_f16(v))                                                                                         \
    CAST(A, bf16, STORE_bf16(v))                                                                                       \
    CAST(A, f32, STORE_f32(v))                                                                                         \
    CAST(A, f64, STORE_f64(v))                                                                                         \
    CAST(A, c64, STORE_c64(v))                                                                                         \
    CAST(A, c128, STORE_c128(v))                                                                                       \
    CAST(A, u16, STORE_u16(v))                                                                                         \
    CAST(A, u32, STORE_u32(v))                                                                                         \
    CAST(A, u64, STORE_u64(v))
#define FROM_COMPLEX(A)                                                                                                \
    CAST(A, b8, STORE_b8(v))                                                                                           \
    CAST(A, u8, STORE_u8(__real__ v))                                                                                  \
    CAST(A, i8, STORE_i8(__real__ v))                                                                                  \
    CAST(A, i16, STORE_i16(__real__ v))                                                                                \
    CAST(A, i32, STORE_i32(__real__ v))                                                                                \
    CAST(A, i64, STORE_i64(__real__ v))                                                                                \
    CAST(A, f16, STORE_f16(__real__ v))                                                                                \
    CAST(A, bf16, STORE_bf16(__real__ v))                                                                              \
    CAST(A, f32, STORE_f32(__real__ v))                                                                                \
    CAST(A, f64, STORE_f64(__real__ v))                                                                                \
    CAST(A, c64, (td_c64)v)                                                                                            \
    CAST(A, c128, (td_c128)v)                                                                                          \
    CAST(A, u16, STORE_u16(__real__ v))                                                                                \
    CAST(A, u32, STORE_u32(__real__ v))                                                                                \
    CAST(A, u64, STORE_u64(__real__ v))

FROM_REAL(b8)
FROM_REAL(u8)
FROM_REAL(i8)
FROM_REAL(i16)
FROM_REAL(i32)
FROM_REAL(i64)
FROM_REAL(f16)
FROM_REAL(bf16)
FROM_REAL(f32)
FROM_REAL(f64)
FROM_COMPLEX(c64)
FROM_COMPLEX(c128)
FROM_REAL(u16)
FROM_REAL(u32)
FROM_REAL(u64)

#if defined(__F16C__) /* the processor's own half conversions, for the two that matter */
static int quick_f16_f32(int64_t n, void *out, const void *const *in, const td_pw_attr *at)
{
    float *o = out;
    const uint16_t *x = in[0];
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(o + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
    const void *rest = x + i;
    return cast_f16_f32(n - i, o + i, &rest, at);
}
static int quick_f32_f16(int64_t n, void *out, const void *const *in, const td_pw_attr *at)
{
    uint16_t *o = out;
    const float *x = in[0];
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(o + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    const void *rest = x + i;
    return cast_f32_f16(n - i, o + i, &rest, at);
}
#define cast_f16_f32 quick_f16_f32
#define cast_f32_f16 quick_f32_f16
#endif

/* The same dtype: bytes as they are. */
#define SAME(SIZE)                                                                                                     \
    static int same_##SIZE(int64_t n, void *out, const void *const *in, const td_pw_attr *at)                          \
    {                                                                                                                  \
        (void)at;                                                                                                      \
        if (out != in[0]) td_copy_bytes(out, in[0], (size_t)n *SIZE);                                                         \
        return 0;                                                                                                      \
    }
SAME(1)
SAME(2)
SAME(4)
SAME(8)
SAME(16)
#define cast_b8_b8 same_1
#define cast_u8_u8 same_1
#define cast_i8_i8 same_1
#define cast_i16_i16 same_2
#define cast_f16_f16 same_2
#define cast_bf16_bf16 same_2
#define cast_i32_i32 same_4
#define cast_f32_f32 same_4
#define cast_i64_i64 same_8
#define cast_f64_f64 same_8
#define cast_c64_c64 same_8
#define cast_c128_c128 same_16
#define cast_u16_u16 same_2
#define cast_u32_u32 same_4
#define cast_u64_u64 same_8

#define ROW(A)                                                                                                         \
    {                                                                                                                  \
        cast_##A##_b8, cast_##A##_u8, cast_##A##_i8, cast_##A##_i16, cast_##A##_i32, cast_##A##_i64, cast_##A##_f16,   \
            cast_##A##_bf16, cast_##A##_f32, cast_##A##_f64, cast_##A##_c64, cast_##A##_c128, cast_##A##_u16,          \
            cast_##A##_u32, cast_##A##_u64                                                                             \
    }

extern const td_pw_fn TD_ISA_NAME(td_casts)[TD_DTYPE_COUNT][TD_DTYPE_COUNT];
const td_pw_fn TD_ISA_NAME(td_casts)[TD_DTYPE_COUNT][TD_DTYPE_COUNT] = {
    ROW(b8),  ROW(u8),  ROW(i8),  ROW(i16),  ROW(i32), ROW(i64), ROW(f16), ROW(bf16),
    ROW(f32), ROW(f64), ROW(c64), ROW(c128), ROW(u16), ROW(u32), ROW(u64),
};
