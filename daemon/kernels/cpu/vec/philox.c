/* See philox.h. */
#include "daemon/kernels/cpu/vec/philox.h"
#include "daemon/kernels/cpu/vec/isa.h"
#include "daemon/kernels/cpu/vec/math_f32.h"

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

/* Sine and cosine of a full turn times w / 2^32: the nearest quarter turn comes off in whole numbers. */
TD_FN float turn_sin_cos(uint32_t w, int cosine)
{
    uint32_t quarter = (w + 0x20000000u) >> 30;
    float r = (float)(int32_t)(w - (quarter << 30)) * 1.4629180792671596e-09f, z = r * r; /* pi/2 / 2^30 */
    float s = r + r * z * (-1.6666664e-01f + z * (8.332748e-03f - z * 1.958787e-04f));
    float c = 1.0f - 0.5f * z + z * z * (4.1666664e-02f - z * (1.3888302e-03f - z * 2.4547922e-05f));
    quarter += cosine ? 1 : 0;
    float v = quarter & 1 ? c : s;
    return quarter & 2 ? -v : v;
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
        c[i] = r * turn_sin_cos(b[i], 1);
        s[i] = r * turn_sin_cos(b[i], 0);
    }
    for (int i = 0; i < n; i++) out[2 * i] = c[i], out[2 * i + 1] = s[i];
}

static void normal_f64(int groups, const uint32_t *w, double *out)
{
    for (int i = 0; i < groups; i++) {
        uint64_t a = (uint64_t)w[4 * i + 1] << 32 | w[4 * i], b = (uint64_t)w[4 * i + 3] << 32 | w[4 * i + 2];
        double u = ((double)(int64_t)(a >> 11) + 0.5) * 0x1p-53, r = sqrt(-2.0 * td_klog(u));
        uint64_t quarter = (b + 0x2000000000000000ull) >> 62;
        double t = (double)(int64_t)(b - (quarter << 62)) * 3.40612158008655459e-19, z = t * t; /* pi/2 / 2^62 */
        double s = -7.586692262094344e-13;
        s = s * z + 1.6058531536611833e-10;
        s = s * z - 2.5052106231927857e-08;
        s = s * z + 2.7557319219337672e-06;
        s = s * z - 0.00019841269841265063;
        s = s * z + 0.008333333333333331;
        s = s * z - 0.16666666666666666;
        s = t + t * z * s;
        double c = 4.7458692024108734e-14;
        c = c * z - 1.1470460841811526e-11;
        c = c * z + 2.087675579079147e-09;
        c = c * z - 2.7557319221401993e-07;
        c = c * z + 2.4801587301584645e-05;
        c = c * z - 0.0013888888888888887;
        c = c * z + 0.041666666666666664;
        c = 1.0 - 0.5 * z + z * z * c;
        double x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
        out[2 * i] = r * ((quarter + 1) & 2 ? -x : x);
        out[2 * i + 1] = r * (quarter & 2 ? -y : y);
    }
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
