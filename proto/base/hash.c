/* The hash with a key, and how tables grow.
 *
 * SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) with a key that is drawn when the
 * program starts. */
#include "proto/base/hash.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* ---- buckets: room for a power of two of them; many are pages of their own, which grow without being copied */

enum { PAGES = 128 << 10 /* bytes */ };

static size_t room_of(size_t bytes) /* of more than one */
{
    return (SIZE_MAX >> __builtin_clzl(bytes - 1)) + 1;
}

void td_hash_free(void *p, size_t bytes)
{
    if (room_of(bytes) >= PAGES) munmap(p, room_of(bytes));
    else free(p);
}

static void *twice(void *p, size_t bytes)
{
    if (2 * bytes < PAGES) return realloc(p, 2 * bytes);
    if (bytes >= PAGES) {
        void *more = mremap(p, bytes, 2 * bytes, MREMAP_MAYMOVE);
        return more == MAP_FAILED ? NULL : more;
    }
    void *pages = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    memcpy(pages, p, bytes);
    free(p);
    return pages;
}

static bool room_for_one(UT_hash_table *t)
{
    unsigned n = t->num_buckets;
    if (n & (n - 1)) return true;
    UT_hash_bucket *more = twice(t->buckets, n * sizeof *more);
    if (more) t->buckets = more;
    return more != NULL;
}

static void put_first(UT_hash_bucket *b, UT_hash_handle *h)
{
    h->hh_prev = NULL;
    h->hh_next = b->hh_head;
    if (b->hh_head) b->hh_head->hh_prev = h;
    b->hh_head = h;
    b->count++;
}

void td_hash_grow(UT_hash_table *t)
{
    if (t->num_buckets > UINT32_MAX / 4 || !room_for_one(t)) return;
    unsigned n = t->num_buckets++, half = UINT32_MAX >> __builtin_clz(n) >> 1;
    UT_hash_bucket *from = &t->buckets[n & half];
    UT_hash_handle *all = from->hh_head;
    *from = t->buckets[n] = (UT_hash_bucket){0};
    for (UT_hash_handle *next; all; all = next) {
        next = all->hh_next;
        put_first(&t->buckets[td_hash_bucket(all->hashv, n + 1)], all);
    }
}
