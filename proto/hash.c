/* SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) with a key that is drawn when the
 * program starts. */
#include "proto/hash.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t key[2]; /* constant from before main on */

__attribute__((constructor)) static void draw_key(void)
{
    if (getrandom(key, sizeof key, GRND_NONBLOCK) == (ssize_t)sizeof key) return;
    struct timespec t; /* a machine that has only just started; better than a known key */
    clock_gettime(CLOCK_REALTIME, &t);
    key[0] ^= (uint64_t)t.tv_nsec << 32 ^ (uint64_t)t.tv_sec;
    key[1] ^= (uint64_t)(uintptr_t)&t;
}

static inline uint64_t turned(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline void mix(uint64_t v[4])
{
    v[0] += v[1], v[1] = turned(v[1], 13) ^ v[0], v[0] = turned(v[0], 32);
    v[2] += v[3], v[3] = turned(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = turned(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = turned(v[1], 17) ^ v[2], v[2] = turned(v[2], 32);
}

static inline void take(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
}

uint32_t td_hash_keyed(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)n << 56;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        take(v, word);
    }
    for (size_t i = 0; i < n; i++) last |= (uint64_t)p[i] << (8 * i);
    take(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) mix(v);
    uint64_t h = v[0] ^ v[1] ^ v[2] ^ v[3];
    return (uint32_t)(h ^ h >> 32);
}
