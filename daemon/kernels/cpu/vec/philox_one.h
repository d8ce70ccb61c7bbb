/* What one group of Philox words gives, on every device. Nothing in it may be contracted. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_PHILOX_ONE_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_PHILOX_ONE_H

#include "daemon/kernels/cpu/vec/math_f32.h"

/* Sine and cosine of a full turn times w / 2^32: the nearest quarter turn comes off in whole numbers. */
TD_FN float td_turn_sin_cos(uint32_t w, int cosine)
{
    uint32_t quarter = (w + 0x20000000u) >> 30;
    float r = (float)(int32_t)(w - (quarter << 30)) * 1.4629180792671596e-09f, z = r * r; /* pi/2 / 2^30 */
    float s = r + r * z * (-1.6666664e-01f + z * (8.332748e-03f - z * 1.958787e-04f));
    float c = 1.0f - 0.5f * z + z * z * (4.1666664e-02f - z * (1.3888302e-03f - z * 2.4547922e-05f));
    quarter += cosine ? 1 : 0;
    float v = quarter & 1 ? c : s;
    return quarter & 2 ? -v : v;
}

/* Two normal doubles of four words, by Box and Muller. */
TD_FN void td_normal_pair_f64(const uint32_t *w, double *out)
{
    uint64_t a = (uint64_t)w[1] << 32 | w[0], b = (uint64_t)w[3] << 32 | w[2];
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
    out[0] = r * ((quarter + 1) & 2 ? -x : x);
    out[1] = r * (quarter & 2 ? -y : y);
}

#endif
