/* See sort_pairs.h. Short vectors are merged, long ones go through a radix sort of the key's bytes, least significant
 * first; bytes that are the same everywhere are skipped. */
#include "daemon/kernels/cpu/sort_pairs.h"
#include "daemon/kernels/cpu/plan.h"

int td_key_bytes(unsigned dtype)
{
    if (dtype == TD_FLOAT16 || dtype == TD_BFLOAT16) return 4; /* as float32 */
    return td_dtype_is_complex(dtype) ? 0 : (int)td_dtype_size(dtype);
}

static inline uint64_t float_key(float v)
{
    uint32_t bits;
    if (v != v) return UINT32_MAX;
    v += 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &v, 4);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static inline uint64_t double_key(double v)
{
    uint64_t bits;
    if (v != v) return UINT64_MAX;
    v += 0.0;
    memcpy(&bits, &v, 8);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

#define LOAD(T, KEY)                                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const T v = *((const volatile T *)from + i * step);                                                            \
        to[i] = (td_pair){(uint64_t)(KEY) ^ flip, first + i};                                                          \
    }                                                                                                                  \
    break

void td_pairs_load(td_pair *to, const void *from, int64_t step, unsigned dtype, bool descending, int64_t first,
                   int64_t n)
{
    int bytes = td_key_bytes(dtype);
    const uint64_t flip = !descending ? 0 : bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * bytes) - 1;
    switch (dtype) {
    case TD_BOOL: LOAD(uint8_t, v != 0);
    case TD_UINT8: LOAD(uint8_t, v);
    case TD_INT8: LOAD(uint8_t, v ^ 0x80u);
    case TD_UINT16: LOAD(uint16_t, v);
    case TD_UINT32: LOAD(uint32_t, v);
    case TD_UINT64: LOAD(uint64_t, v);
    case TD_INT16: LOAD(uint16_t, v ^ 0x8000u);
    case TD_INT32: LOAD(uint32_t, v ^ 0x80000000u);
    case TD_INT64: LOAD(uint64_t, v ^ 1ull << 63);
    case TD_FLOAT16: LOAD(uint16_t, float_key(td_half_to_float(v)));
    case TD_BFLOAT16: LOAD(uint16_t, float_key(td_bfloat_to_float(v)));
    case TD_FLOAT32: LOAD(float, float_key(v));
    default: LOAD(double, double_key(v));
    }
}

static void insertion(td_pair *p, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        td_pair v = p[i];
        int64_t j = i;
        for (; j > 0 && td_pair_less(v, p[j - 1]); j--) p[j] = p[j - 1];
        p[j] = v;
    }
}

static void merge(td_pair *to, const td_pair *a, int64_t na, const td_pair *b, int64_t nb)
{
    while (na > 0 && nb > 0) {
        bool second = td_pair_less(*b, *a);
        *to++ = second ? *b : *a;
        b += second, nb -= second;
        a += !second, na -= !second;
    }
    memcpy(to, na > 0 ? a : b, sizeof(td_pair) * (size_t)(na + nb));
}

void td_pairs_sort_all(td_pair *pairs, td_pair *spare, int64_t n)
{
    td_pair *from = pairs, *to = spare;
    for (int64_t i = 0; i < n; i += TD_SORT_RUN) insertion(pairs + i, td_min64(TD_SORT_RUN, n - i));
    for (int64_t width = TD_SORT_RUN; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            int64_t left = td_min64(width, n - i), right = td_max64(0, td_min64(width, n - i - width));
            merge(to + i, from + i, left, from + i + left, right);
        }
        td_pair *keep = from;
        from = to;
        to = keep;
    }
    if (from != pairs) memcpy(pairs, from, sizeof(td_pair) * (size_t)n);
}

/* Stable on one byte of the key; false when all elements have the same. */
static bool radix_pass(td_pair *to, const td_pair *from, int64_t n, int byte)
{
    int64_t start[256] = {0}, sum = 0;
    const int shift = 8 * byte;
    for (int64_t i = 0; i < n; i++) start[from[i].key >> shift & 255]++;
    if (start[from[0].key >> shift & 255] == n) return false;
    for (int b = 0; b < 256; b++) {
        int64_t count = start[b];
        start[b] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++) to[start[from[i].key >> shift & 255]++] = from[i];
    return true;
}

void td_pairs_sort(td_pair *pairs, td_pair *spare, int64_t n, int key_bytes)
{
    if (n < TD_SORT_RADIX * key_bytes / 4) {
        td_pairs_sort_all(pairs, spare, n);
        return;
    }
    td_pair *from = pairs, *to = spare;
    for (int byte = 0; byte < key_bytes; byte++) {
        if (!radix_pass(to, from, n, byte)) continue;
        td_pair *keep = from;
        from = to;
        to = keep;
    }
    if (from != pairs) memcpy(pairs, from, sizeof(td_pair) * (size_t)n);
}
