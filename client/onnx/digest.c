/* SHA-256 (FIPS 180-4). Processors with instructions for it take a fifth of the time. */
#include "client/onnx/digest.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void plain_block(uint32_t h[8], const unsigned char *p)
{
    uint32_t w[64], v[8];
    for (int k = 0; k < 16; k++)
        w[k] = (uint32_t)p[4 * k] << 24 | (uint32_t)p[4 * k + 1] << 16 | (uint32_t)p[4 * k + 2] << 8 | p[4 * k + 3];
    for (int k = 16; k < 64; k++) {
        uint32_t a = w[k - 15], b = w[k - 2];
        w[k] = w[k - 16] + w[k - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(v, h, sizeof v);
    for (int k = 0; k < 64; k++) {
        uint32_t a = v[0], e = v[4];
        uint32_t t1 = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + K[k] + w[k];
        uint32_t t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int k = 0; k < 8; k++) h[k] += v[k];
}

#if defined(__x86_64__)
/* Four rounds at a time: the state is (a b e f) and (c d g h). */
__attribute__((target("sha,sse4.1,ssse3"))) static void fast_block(uint32_t h[8], const unsigned char *p)
{
    const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i w[4], dcba = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)h), 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(h + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(dcba, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, dcba, 0xf0);
    const __m128i abef_before = abef, cdgh_before = cdgh;
    for (int k = 0; k < 4; k++) w[k] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + 16 * k)), order);
    for (int k = 0; k < 16; k++) {
        __m128i now = _mm_add_epi32(w[k & 3], _mm_loadu_si128((const __m128i *)(K + 4 * k)));
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, now);
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(now, 0x0e));
        if (k >= 12) continue;
        __m128i next = _mm_add_epi32(_mm_sha256msg1_epu32(w[k & 3], w[(k + 1) & 3]),
                                     _mm_alignr_epi8(w[(k + 3) & 3], w[(k + 2) & 3], 4));
        w[k & 3] = _mm_sha256msg2_epu32(next, w[(k + 3) & 3]);
    }
    abef = _mm_add_epi32(abef, abef_before), cdgh = _mm_add_epi32(cdgh, cdgh_before);
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)h, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(h + 4), _mm_alignr_epi8(dchg, feba, 8));
}

static bool is_fast(void)
{
    unsigned a = 7, b = 0, c = 0, d = 0;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return b >> 29 & 1 && __builtin_cpu_supports("sse4.1");
}
#endif

static void blocks(uint32_t h[8], const unsigned char *p, size_t n)
{
    void (*block)(uint32_t[8], const unsigned char *) = plain_block;
#if defined(__x86_64__)
    if (is_fast()) block = fast_block;
#endif
    for (; n >= 64; n -= 64, p += 64) block(h, p);
}

void td_digest_init(td_digest *d)
{
    *d = (td_digest){
        .h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void td_digest_add(td_digest *d, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t there = d->size % 64, whole;
    d->size += n;
    if (there) {
        size_t more = n < 64 - there ? n : 64 - there;
        memcpy(d->rest + there, p, more);
        if (there + more < 64) return;
        blocks(d->h, d->rest, 64);
        p += more, n -= more;
    }
    whole = n / 64 * 64;
    blocks(d->h, p, whole);
    if (n > whole) memcpy(d->rest, p + whole, n - whole);
}

void td_digest_end(td_digest *d, char out[TD_DIGEST_TEXT])
{
    unsigned char end[128] = {0x80};
    uint64_t bits = d->size * 8;
    size_t zeros = (119 - d->size % 64) % 64; /* up to the 8 bytes that end a block */
    for (int k = 0; k < 8; k++) end[1 + zeros + (size_t)k] = (unsigned char)(bits >> (56 - 8 * k));
    td_digest_add(d, end, zeros + 9);
    for (int k = 0; k < 8; k++) snprintf(out + 8 * k, 9, "%08x", d->h[k]);
}

int td_digest_read(td_digest *d, const td_source *s, uint64_t at, uint64_t n, td_error *e)
{
    unsigned char buffer[TD_DIGEST_PIECE];
    int rc = TD_OK;
    for (uint64_t end = at + n; at < end && !rc;) {
        size_t piece = end - at < sizeof buffer ? (size_t)(end - at) : sizeof buffer;
        rc = td_source_read(s, at, buffer, piece, e);
        if (!rc) td_digest_add(d, buffer, piece);
        at += piece;
    }
    return rc;
}

int td_digest_file(const td_source *s, char out[TD_DIGEST_TEXT], td_error *e)
{
    td_digest d;
    td_digest_init(&d);
    int rc = td_digest_read(&d, s, 0, s->size, e);
    if (!rc) td_digest_end(&d, out);
    return rc;
}
