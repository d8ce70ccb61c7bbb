/* See sort_keys.h. Few words are put where the number of smaller ones says, some are merged, many go through a radix
 * sort by bytes, least significant first. A word has room for 32 bits of a key: of the bits in which keys differ at
 * all, so that small integers take one pass. Where there are more (doubles), equal ones are put in order by the rest
 * afterwards. */
#include "daemon/kernels/cpu/order/sort_keys.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/sets.h"

enum { RANKED = TD_SORT_RANKED, SELECT_PART = 8192 };

int td_key_bytes(unsigned dtype)
{
    return td_dtype_is_complex(dtype) ? 0 : (int)td_dtype_size(dtype);
}

/* Of a float's bits, by the bits of its infinity: what lies above is NaN. */
#define FLOAT_KEY(T, TOP, INF)                                                                                         \
    ((v & (T) ~(TOP)) > (INF) ? (T) ~(T)0 : (v & (TOP)) && v != (TOP) ? (T)~v : (T)(v | (TOP)))

#define LOAD(T, KEY)                                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const T v = ((const T *)from)[i];                                                                              \
        to[i] = (uint64_t)(T)(KEY) ^ flip;                                                                             \
    }                                                                                                                  \
    break

TD_FOR_SETS(void, td_keys_load,
            (uint64_t *restrict to, const void *restrict from, unsigned dtype, bool descending, int64_t n),
            (to, from, dtype, descending, n))
{
    int bytes = td_key_bytes(dtype);
    const uint64_t flip = !descending ? 0 : UINT64_MAX >> (64 - 8 * bytes);
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
    case TD_FLOAT16: LOAD(uint16_t, FLOAT_KEY(uint16_t, 0x8000u, 0x7c00u));
    case TD_BFLOAT16: LOAD(uint16_t, FLOAT_KEY(uint16_t, 0x8000u, 0x7f80u));
    case TD_FLOAT32: LOAD(uint32_t, FLOAT_KEY(uint32_t, 0x80000000u, 0x7f800000u));
    default: LOAD(uint64_t, FLOAT_KEY(uint64_t, 1ull << 63, 0x7ffull << 52));
    }
}

/* ---- words */

/* Each where the number of smaller ones says; as signed numbers, which every processor compares in vectors. */
static TD_FOR_SETS(void, by_rank, (uint64_t *p, int64_t n), (p, n))
{
    int64_t v[RANKED], rank[RANKED] = {0};
    for (int64_t i = 0; i < RANKED; i++) v[i] = i < n ? (int64_t)(p[i] ^ 1ull << 63) : INT64_MAX;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = v[i];
        for (int j = 0; j < RANKED; j++) rank[j] += v[j] > at;
    }
    for (int64_t i = 0; i < n; i++) p[rank[i]] = (uint64_t)v[i] ^ 1ull << 63;
}

static void merge(uint64_t *to, const uint64_t *a, int64_t na, const uint64_t *b, int64_t nb)
{
    while (na > 0 && nb > 0) {
        const uint64_t x = *a, y = *b;
        const bool second = y < x;
        *to++ = second ? y : x;
        b += second, nb -= second;
        a += !second, na -= !second;
    }
    memcpy(to, na > 0 ? a : b, sizeof *to * (size_t)(na + nb));
}

static void by_merging(uint64_t *words, uint64_t *spare, int64_t n)
{
    uint64_t *from = words, *to = spare;
    for (int64_t i = 0; i < n; i += RANKED) by_rank(words + i, td_min64(RANKED, n - i));
    for (int64_t width = RANKED; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            int64_t left = td_min64(width, n - i), right = td_max64(0, td_min64(width, n - i - width));
            merge(to + i, from + i, left, from + i + left, right);
        }
        uint64_t *keep = from;
        from = to;
        to = keep;
    }
    if (from != words) memcpy(words, from, sizeof *words * (size_t)n);
}

/* By the lower `bits` of the upper half; places ascend already. */
static void by_bytes(uint64_t *words, uint64_t *spare, int64_t n, int bits)
{
    uint32_t start[4][256] = {{0}};
    uint64_t *from = words, *to = spare;
    for (int64_t i = 0; i < n; i++)
        for (int byte = 0; byte < 4; byte++) start[byte][words[i] >> (32 + 8 * byte) & 255]++;
    for (int byte = 0; 8 * byte < bits; byte++) {
        uint32_t sum = 0, *at = start[byte];
        const int shift = 32 + 8 * byte;
        if (at[from[0] >> shift & 255] == n) continue;
        for (int b = 0; b < 256; b++) {
            uint32_t count = at[b];
            at[b] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++) to[at[from[i] >> shift & 255]++] = from[i];
        uint64_t *keep = from;
        from = to;
        to = keep;
    }
    if (from != words) memcpy(words, from, sizeof *words * (size_t)n);
}

static void sort_words(uint64_t *words, uint64_t *spare, int64_t n, int bits)
{
    if (n <= RANKED) by_rank(words, n);
    else if (n < TD_SORT_RADIX) by_merging(words, spare, n);
    else by_bytes(words, spare, n, bits);
}

/* ---- keys */

static TD_FOR_SETS(void, span, (const uint64_t *keys, int64_t n, uint64_t *least, uint64_t *most),
                   (keys, n, least, most))
{
    uint64_t low = keys[0], high = keys[0];
    for (int64_t i = 0; i < n; i++) {
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
    }
    *least = low;
    *most = high;
}

static int bits_of(uint64_t v)
{
    return v ? 64 - __builtin_clzll(v) : 0;
}

static TD_FOR_SETS(void, make_words,
                   (uint64_t *restrict words, const uint64_t *restrict keys, int64_t n, uint64_t least, int shift),
                   (words, keys, n, least, shift))
{
    for (int64_t i = 0; i < n; i++) words[i] = (keys[i] - least) >> shift << 32 | (uint64_t)i;
}

/* Words whose upper halves are equal: by the `shift` bits that did not fit there. */
static void order_rest(const uint64_t *keys, int64_t n, uint64_t least, int shift, uint64_t *words, uint64_t *spare)
{
    const uint64_t mask = (1ull << shift) - 1;
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && words[end] >> 32 == words[i] >> 32;) end++;
        if (end - i == 1) continue;
        for (int64_t j = i; j < end; j++) {
            const int64_t at = td_order_place(words[j]);
            words[j] = ((keys[at] - least) & mask) << 32 | (uint64_t)at;
        }
        sort_words(words + i, spare, end - i, shift);
    }
}

void td_keys_order(const uint64_t *keys, int64_t n, uint64_t *words, uint64_t *spare)
{
    uint64_t least, most;
    if (n <= 0) return;
    span(keys, n, &least, &most);
    int bits = bits_of(most - least), shift = bits > 32 ? bits - 32 : 0;
    make_words(words, keys, n, least, shift);
    if (bits) sort_words(words, spare, n, bits - shift);
    if (shift) order_rest(keys, n, least, shift, words, spare);
}

/* ---- one key */

/* Those of `from` that fall into bucket b, to the front of `to`, which may be `from`. */
static int64_t keep_bucket(uint64_t *to, const uint64_t *from, int64_t n, uint64_t least, int shift, uint64_t b)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = from[i];
        to[kept] = key;
        kept += (key - least) >> shift == b;
    }
    return kept;
}

static void count_buckets(uint32_t *count, const uint64_t *from, int64_t n, uint64_t least, int shift)
{
    for (int64_t i = 0; i < n; i++) count[(from[i] - least) >> shift]++;
}

/* Buckets of keys between the least and the largest that are left, until all left are equal. */
bool td_keys_select(td_kcall *k, const uint64_t *keys, int64_t n, int64_t rank, uint64_t *spare, uint64_t *key,
                    int64_t *below)
{
    const uint64_t *from = keys;
    for (*below = 0;;) {
        uint64_t least, most, b = 0;
        uint32_t count[256] = {0};
        span(from, n, &least, &most);
        *key = least;
        if (least == most) return true;
        const int shift = (int)td_max64(0, bits_of(most - least) - 8);
        for (int64_t i = 0; i < n; i += SELECT_PART) {
            count_buckets(count, from + i, td_min64(SELECT_PART, n - i), least, shift);
            if (td_kernel_rest(k)) return false;
        }
        while (*below + count[b] <= rank) *below += count[b++];
        *key = least + b;
        if (!shift) return true;
        int64_t kept = 0;
        for (int64_t i = 0; i < n; i += SELECT_PART) {
            kept += keep_bucket(spare + kept, from + i, td_min64(SELECT_PART, n - i), least, shift, b);
            if (td_kernel_rest(k)) return false;
        }
        from = spare;
        n = kept;
    }
}
