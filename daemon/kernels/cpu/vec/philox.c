/* See philox.h. */
#include "daemon/kernels/cpu/vec/philox.h"
#include "daemon/kernels/cpu/vec/isa.h"
#include "daemon/kernels/cpu/vec/philox_one.h"

static void words(uint64_t seed, uint64_t op, uint64_t first, int n, uint32_t *out)
{
    uint32_t c0[TD_PHILOX_GROUPS], c1[TD_PHILOX_GROUPS], c2[TD_PHILOX_GROUPS], c3[TD_PHILOX_GROUPS];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < n; i++) {
        uint64_t group = first + (uint64_t)i;
        c0[i] = (uint32_t)group;
        c1[i] = (uint32_t)(group >> 32);
        c2[i] = (uint32_t)op;
        c3[i] = (uint32_t)(op >> 32);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int i = 0; i < n; i++) {
            uint64_t a = (uint64_t)c0[i] * 0xD2511F53u, b = (uint64_t)c2[i] * 0xCD9E8D57u;
            uint32_t x = (uint32_t)(b >> 32) ^ c1[i] ^ k0, y = (uint32_t)(a >> 32) ^ c3[i] ^ k1;
            c0[i] = x;
            c1[i] = (uint32_t)b;
            c2[i] = y;
            c3[i] = (uint32_t)a;
        }
    for (int i = 0; i < n; i++) {
        out[4 * i] = c0[i];
        out[4 * i + 1] = c1[i];
        out[4 * i + 2] = c2[i];
        out[4 * i + 3] = c3[i];
    }
}

static void uniform_f32(int n, const uint32_t *w, int bits, float *out)
{
    float unit = 1.0f / (float)(1 << bits);
    for (int i = 0; i < n; i++) out[i] = (float)(int32_t)(w[i] >> (32 - bits)) * unit;
}

static void uniform_f64(int n, const uint32_t *w, double *out)
{
    for (int i = 0; i < n; i++) out[i] = (double)(int64_t)(((uint64_t)w[2 * i + 1] << 32 | w[2 * i]) >> 11) * 0x1p-53;
}

/* Pairs of words give pairs of numbers; the steps go through arrays, so that each is a loop over contiguous elements.
 */
static void normal_f32(int groups, const uint32_t *w, float *out)
{
    enum { PAIRS = 2 * TD_PHILOX_GROUPS };
    uint32_t a[PAIRS], b[PAIRS];
    float c[PAIRS], s[PAIRS];
    int n = 2 * groups;
    for (int i = 0; i < n; i++) a[i] = w[2 * i], b[i] = w[2 * i + 1];
    for (int i = 0; i < n; i++) {
        float u = ((float)(int32_t)(a[i] >> 1) + 0.5f) * 0x1p-31f, r = sqrtf(-2.0f * td_log_f32(u));
        c[i] = r * td_turn_sin_cos(b[i], 1);
        s[i] = r * td_turn_sin_cos(b[i], 0);
    }
    for (int i = 0; i < n; i++) out[2 * i] = c[i], out[2 * i + 1] = s[i];
}

static void normal_f64(int groups, const uint32_t *w, double *out)
{
    for (int i = 0; i < groups; i++) td_normal_pair_f64(w + 4 * i, out + 2 * i);
}

#define DROP(T, S)                                                                                                     \
    static void drop_##S(int n, const uint32_t *w, uint64_t threshold, const T *x, T scale, T *out)                    \
    {                                                                                                                  \
        uint32_t limit = (uint32_t)threshold;                                                                          \
        if (threshold > UINT32_MAX) {                                                                                  \
            for (int i = 0; i < n; i++) out[i] = 0;                                                                    \
            return;                                                                                                    \
        }                                                                                                              \
        for (int i = 0; i < n; i++) {                                                                                  \
            T v = x[i] * scale;                                                                                        \
            out[i] = w[i] >= limit ? v : 0;                                                                            \
        }                                                                                                              \
    }
DROP(float, f32)
DROP(double, f64)

extern const td_philox_fns TD_ISA_NAME(td_philox);
const td_philox_fns TD_ISA_NAME(td_philox) = {words,      uniform_f32, uniform_f64, normal_f32,
                                              normal_f64, drop_f32,    drop_f64};
