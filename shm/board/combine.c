/* See combine.h. A block of the result is worked out in memory of one's own, which stays in the first cache while the
 * inputs pass over it, one after the other. The pass over the last input writes to the result.
 * Loops are built for each instruction set, and nothing in them is contracted (meson.build): all give the same bits. */
#include "shm/board/combine.h"
#include "proto/base/breath.h"
#include "proto/base/dtype.h"
#include "proto/base/processor.h"

#include <stdatomic.h>
#include <string.h>
#if defined(TD_HAVE_WIDE)
#include <immintrin.h>
#endif

enum { BLOCK = 4096 }; /* bytes of the result */

const char *td_reduce_op_name(unsigned op)
{
    static const char *const names[TD_REDUCE_OP_COUNT] = {"sum", "mean", "min", "max", "prod"};
    return op < TD_REDUCE_OP_COUNT ? names[op] : "?";
}

bool td_combine_takes(unsigned op, unsigned dtype)
{
    if (op >= TD_REDUCE_OP_COUNT || !td_dtype_valid(dtype)) return false;
    if (op == TD_SUM) return true;
    if (op == TD_MEAN) return td_dtype_is_inexact((td_dtype)dtype);
    return !td_dtype_is_complex((td_dtype)dtype);
}

static _Atomic int set_in_use = -1; /* not chosen yet */

static int level(void)
{
    int now = atomic_load_explicit(&set_in_use, memory_order_relaxed);
    if (now < 0) atomic_store_explicit(&set_in_use, now = td_processor_level(), memory_order_relaxed);
    return now;
}

bool td_combine_use(int set)
{
    if (set < 0 || set > td_processor_level()) return false;
    atomic_store_explicit(&set_in_use, set, memory_order_relaxed);
    return true;
}

#define INLINE static inline __attribute__((always_inline))

#if defined(TD_HAVE_WIDE)
#define FOR_SETS(name, params, args)                                                                                   \
    INLINE void name##_base params;                                                                                    \
    __attribute__((target("arch=x86-64-v3"))) static void name##_v3 params                                             \
    {                                                                                                                  \
        name##_base args;                                                                                              \
    }                                                                                                                  \
    __attribute__((target("arch=x86-64-v4"))) static void name##_v4 params                                             \
    {                                                                                                                  \
        name##_base args;                                                                                              \
    }                                                                                                                  \
    static void name params                                                                                            \
    {                                                                                                                  \
        switch (level()) {                                                                                             \
        case 2: name##_v4 args; return;                                                                                \
        case 1: name##_v3 args; return;                                                                                \
        default: name##_base args; return;                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void name##_base params
#else
#define FOR_SETS(name, params, args) static void name params
#endif

/* Two elements: what is there so far, and the next. Comparing keeps what is there where the next is equal, and a NaN
 * whatever comes. */
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define LESS(a, b) ((!((b) >= (a)) & ((a) == (a))) ? (b) : (a))
#define MORE(a, b) ((!((b) <= (a)) & ((a) == (a))) ? (b) : (a))
#define WRAPPED_PRODUCT(a, b) (1u * (a) * (b)) /* narrow types would be multiplied as int */

/* A body of elements `from`, which are combined as `type`: to[i] = there[i] OP LOAD(next[i]); `to` may be `there`. */
#define ROW(body, type, from, LOAD, OP)                                                                                \
    case body: {                                                                                                       \
        type *out = to;                                                                                                \
        const type *a = there;                                                                                         \
        const from *b = next;                                                                                          \
        TD_ALIKE for (unsigned i = 0; i < count; i++)                                                                  \
        {                                                                                                              \
            type x = a[i], y = LOAD(b[i]);                                                                             \
            out[i] = (type)OP(x, y);                                                                                   \
        }                                                                                                              \
        return;                                                                                                        \
    }
/* Places that are the same one are so element by element. */
#define TD_ALIKE _Pragma("GCC ivdep")
#define PLAIN(x) (x)
#define TRUTH(x) ((x) != 0)

#define ROWS_OF_FLOATS(OP)                                                                                             \
    ROW(TD_FLOAT16, float, uint16_t, td_half_to_float, OP)                                                             \
    ROW(TD_BFLOAT16, float, uint16_t, td_bfloat_to_float, OP)                                                          \
    ROW(TD_FLOAT32, float, float, PLAIN, OP)                                                                           \
    ROW(TD_FLOAT64, double, double, PLAIN, OP)
/* Where numbers wrap, sign changes no bit. */
#define ROWS_THAT_WRAP(OP)                                                                                             \
    case TD_INT8: ROW(TD_UINT8, uint8_t, uint8_t, PLAIN, OP)                                                           \
    case TD_INT16: ROW(TD_UINT16, uint16_t, uint16_t, PLAIN, OP)                                                       \
    case TD_INT32: ROW(TD_UINT32, uint32_t, uint32_t, PLAIN, OP)                                                       \
    case TD_INT64:                                                                                                     \
        ROW(TD_UINT64, uint64_t, uint64_t, PLAIN, OP)
#define ROWS_IN_ORDER(OP)                                                                                              \
    ROW(TD_BOOL, uint8_t, uint8_t, TRUTH, OP)                                                                          \
    ROW(TD_UINT8, uint8_t, uint8_t, PLAIN, OP)                                                                         \
    ROW(TD_INT8, int8_t, int8_t, PLAIN, OP)                                                                            \
    ROW(TD_UINT16, uint16_t, uint16_t, PLAIN, OP)                                                                      \
    ROW(TD_INT16, int16_t, int16_t, PLAIN, OP)                                                                         \
    ROW(TD_UINT32, uint32_t, uint32_t, PLAIN, OP)                                                                      \
    ROW(TD_INT32, int32_t, int32_t, PLAIN, OP)                                                                         \
    ROW(TD_UINT64, uint64_t, uint64_t, PLAIN, OP)                                                                      \
    ROW(TD_INT64, int64_t, int64_t, PLAIN, OP)

/* `body`: complex numbers are pairs of parts. Of truths a sum is the largest one, a product the smallest. */
#define FOLD(name, OP, ROWS)                                                                                           \
    FOR_SETS(name, (td_dtype body, void *to, const void *there, const void *next, unsigned count),                     \
             (body, to, there, next, count))                                                                           \
    {                                                                                                                  \
        switch ((int)body) {                                                                                           \
            ROWS_OF_FLOATS(OP)                                                                                         \
            ROWS default : return;                                                                                     \
        }                                                                                                              \
    }
FOLD(add, ADD, ROWS_THAT_WRAP(ADD))
FOLD(multiply, MULTIPLY, ROWS_THAT_WRAP(WRAPPED_PRODUCT))
FOLD(least, LESS, ROWS_IN_ORDER(LESS))
FOLD(most, MORE, ROWS_IN_ORDER(MORE))

/* Three inputs on one way over the block, in their order: memory is read faster from several places at once. */
#define ROW_OF_THREE(body, type, from, LOAD)                                                                           \
    case body: {                                                                                                       \
        type *out = to;                                                                                                \
        const type *a = there;                                                                                         \
        const from *b = next[0], *c = next[1], *d = next[2];                                                           \
        TD_ALIKE for (unsigned i = 0; i < count; i++) out[i] = a[i] + LOAD(b[i]) + LOAD(c[i]) + LOAD(d[i]);            \
        return;                                                                                                        \
    }
FOR_SETS(add_three, (td_dtype body, void *to, const void *there, const void *const *next, unsigned count),
         (body, to, there, next, count))
{
    switch ((int)body) {
        ROW_OF_THREE(TD_FLOAT16, float, uint16_t, td_half_to_float)
        ROW_OF_THREE(TD_BFLOAT16, float, uint16_t, td_bfloat_to_float)
        ROW_OF_THREE(TD_FLOAT32, float, float, PLAIN)
        ROW_OF_THREE(TD_FLOAT64, double, double, PLAIN)
    default: return;
    }
}

/* What an input is before anything is added to it. */
FOR_SETS(load, (td_dtype body, void *to, const void *next, unsigned count), (body, to, next, count))
{
    const uint16_t *half = next;
    const uint8_t *byte = next;
    if (body == TD_FLOAT16)
        for (unsigned i = 0; i < count; i++) ((float *)to)[i] = td_half_to_float(half[i]);
    else if (body == TD_BFLOAT16)
        for (unsigned i = 0; i < count; i++) ((float *)to)[i] = td_bfloat_to_float(half[i]);
    else
        for (unsigned i = 0; i < count; i++) ((uint8_t *)to)[i] = TRUTH(byte[i]);
}

/* `to` may be `from`. */
FOR_SETS(divide, (td_dtype body, void *to, const void *from, uint32_t n, unsigned count), (body, to, from, n, count))
{
    const double *d = from;
    const float *f = from;
    float by = (float)n;
    if (body == TD_FLOAT64)
        for (unsigned i = 0; i < count; i++) ((double *)to)[i] = d[i] / (double)n;
    else
        for (unsigned i = 0; i < count; i++) ((float *)to)[i] = f[i] / by;
}

FOR_SETS(round_to, (td_dtype body, uint16_t *to, const float *from, unsigned count), (body, to, from, count))
{
    if (body == TD_FLOAT16)
        for (unsigned i = 0; i < count; i++) to[i] = td_float_to_half(from[i]);
    else
        for (unsigned i = 0; i < count; i++) to[i] = td_float_to_bfloat(from[i]);
}

typedef void fold_fn(td_dtype body, void *to, const void *there, const void *next, unsigned count);

/* float16 where the processor converts eight at once. The instructions give the bits of dtype.h, but for a NaN on its
 * way to 16 bits, which becomes the one that is written there. The last few are converted one by one. */
#if defined(TD_HAVE_WIDE)
#define BY_EIGHT __attribute__((target("arch=x86-64-v3")))

BY_EIGHT static inline __m256 load_eight(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

BY_EIGHT static inline void store_eight(uint16_t *to, __m256 x)
{
    const __m128i sign = _mm_set1_epi16((short)0x8000), nan = _mm_set1_epi16(0x7e00);
    __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    __m256i none = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m128i is_nan = _mm_packs_epi32(_mm256_castsi256_si128(none), _mm256_extracti128_si256(none, 1));
    halves = _mm_blendv_epi8(halves, _mm_or_si128(_mm_and_si128(halves, sign), nan), is_nan);
    _mm_storeu_si128((__m128i *)(void *)to, halves);
}

BY_EIGHT static void load_halves(float *to, const uint16_t *from, unsigned count)
{
    unsigned i = 0;
    for (; i + 8 <= count; i += 8) _mm256_storeu_ps(to + i, load_eight(from + i));
    for (; i < count; i++) to[i] = td_half_to_float(from[i]);
}

BY_EIGHT static void store_halves(uint16_t *to, const float *from, unsigned count)
{
    unsigned i = 0;
    for (; i + 8 <= count; i += 8) store_eight(to + i, _mm256_loadu_ps(from + i));
    for (; i < count; i++) to[i] = td_float_to_half(from[i]);
}

static const uint16_t *halves_at(const void *const *in, uint32_t k, size_t offset)
{
    return (const void *)((const unsigned char *)in[k] + offset);
}

/* Element by element, as no sum has to be kept in between. `by` divides: 1 of a sum. */
BY_EIGHT static void sum_halves(uint16_t *to, const void *const *in, size_t offset, uint32_t n, unsigned count,
                                float by)
{
    unsigned i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256 x = load_eight(halves_at(in, 0, offset) + i), y = load_eight(halves_at(in, 0, offset) + i + 8);
        for (uint32_t k = 1; k < n; k++) {
            x = _mm256_add_ps(x, load_eight(halves_at(in, k, offset) + i));
            y = _mm256_add_ps(y, load_eight(halves_at(in, k, offset) + i + 8));
        }
        store_eight(to + i, _mm256_div_ps(x, _mm256_set1_ps(by)));
        store_eight(to + i + 8, _mm256_div_ps(y, _mm256_set1_ps(by)));
    }
    for (; i < count; i++) {
        float x = td_half_to_float(halves_at(in, 0, offset)[i]);
        for (uint32_t k = 1; k < n; k++) x += td_half_to_float(halves_at(in, k, offset)[i]);
        to[i] = td_float_to_half(x / by);
    }
}

/* A block, as td_combine does it; false: the processor does not convert so. */
static bool combine_halves(td_reduce_op op, fold_fn *fold, uint16_t *to, const void *const *in, size_t offset,
                           uint32_t n, unsigned count)
{
    float sum[BLOCK / sizeof(uint16_t)], other[BLOCK / sizeof(uint16_t)];
    if (level() == 0) return false;
    if (fold == add) {
        sum_halves(to, in, offset, n, count, op == TD_MEAN ? (float)n : 1);
        return true;
    }
    load_halves(sum, halves_at(in, 0, offset), count);
    for (uint32_t k = 1; k < n; k++) {
        load_halves(other, halves_at(in, k, offset), count);
        fold(TD_FLOAT32, sum, sum, other, count);
    }
    store_halves(to, sum, count);
    return true;
}
#else
static bool combine_halves(td_reduce_op op, fold_fn *fold, uint16_t *to, const void *const *in, size_t offset,
                           uint32_t n, unsigned count)
{
    (void)op, (void)fold, (void)to, (void)in, (void)offset, (void)n, (void)count;
    return false;
}
#endif

void td_combine(td_reduce_op op, td_dtype dtype, void *out, const void *const *in, uint32_t n, uint64_t count)
{
    static fold_fn *const folds[TD_REDUCE_OP_COUNT] = {add, add, least, most, multiply};
    bool truths = dtype == TD_BOOL, halves = dtype == TD_FLOAT16 || dtype == TD_BFLOAT16;
    td_dtype body = td_dtype_real(dtype);
    if (td_dtype_is_complex(dtype)) count *= 2;
    if (truths && op != TD_MIN) op = op == TD_PROD ? TD_MIN : TD_MAX;
    size_t size = td_dtype_size(body);
    unsigned block = (unsigned)(BLOCK / size);
    fold_fn *fold = folds[op];
    bool threes = fold == add && td_dtype_is_inexact(dtype), last_folds = !halves && op != TD_MEAN;
    _Alignas(64) float own[BLOCK / sizeof(uint16_t)]; /* of half types a block is twice as large */
    for (uint64_t at = 0; at < count; at += block) {
        unsigned here = count - at < block ? (unsigned)(count - at) : block;
        size_t offset = at * size;
        void *to = (unsigned char *)out + offset;
        const void *there = own;
        td_breathe();
        if (body == TD_FLOAT16 && combine_halves(op, fold, to, in, offset, n, here)) continue;
        if (truths || halves) load(body, own, (const unsigned char *)in[0] + offset, here);
        else there = (const unsigned char *)in[0] + offset;
        if (n == 1 && last_folds) memmove(to, there, here * size);
        for (uint32_t k = 1; k < n;) {
            const void *next[3];
            uint32_t some = threes && n - k >= 3 ? 3 : 1;
            for (uint32_t i = 0; i < some; i++) next[i] = (const unsigned char *)in[k + i] + offset;
            k += some;
            void *result = k == n && last_folds ? to : own;
            if (some == 3) add_three(body, result, there, next, here);
            else fold(body, result, there, next[0], here);
            there = result;
        }
        if (op == TD_MEAN) divide(body, halves ? own : to, there, n, here);
        if (halves) round_to(body, to, own, here);
    }
}
