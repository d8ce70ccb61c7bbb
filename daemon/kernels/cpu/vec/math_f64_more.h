/* More functions of one double, made as those of math_f64.h are: tangent, inverse functions, hypotenuse, the error
 * function.
 *
 * Each is within a unit in the last place of the true value (erfc within 2). What a quotient or a root loses in
 * rounding is worked out by fused arithmetic and put back behind it, so that only the last sum counts. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_MATH_F64_MORE_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_MATH_F64_MORE_H

#include "daemon/kernels/cpu/vec/math_f64.h"

#ifdef TD_WIDE_F64

#define TD_HALFPI_F64 0x1.921fb54442d18p+0
#define TD_HALFPI_LESS 6.123233995736766036e-17

TD_FN td_two td_sum(double a, double b) /* of any two */
{
    double s = a + b, part = s - a;
    td_two t = {s, (a - (s - part)) + (b - part)};
    return t;
}
/* The quotient of two such numbers. */
TD_FN td_two td_quotient(td_two a, td_two b)
{
    double over = 1.0 / b.most, q = a.most * over;
    double rest = __builtin_fma(-q, b.most, a.most) + (a.less - q * b.less);
    return (td_two){q, rest * over};
}

/* The sine and cosine of what is left of a turn, over each other. */
TD_FN double td_tan_f64(double x)
{
    td_turned t = td_turn_f64(x);
    td_two s = td_quick_sum(t.r, -td_sin_rest_f64(t)), c = td_cos_parts_f64(t);
    c = td_quick_sum(c.most, c.less);
    int odd = t.n & 1;
    td_two up = {odd ? -c.most : s.most, odd ? -c.less : s.less}, down = {odd ? s.most : c.most, odd ? s.less : c.less};
    td_two q = td_quotient(up, down);
    return x == 0.0 ? x : q.most + q.less;
}

/* (atan q - q) / q^3 of |q| up to tan(pi/8), in z = q^2. */
TD_FN double td_atanq_f64(double z)
{
    double p = -0.019175404711104935;
    p = p * z + 0.03923044778479309;
    p = p * z - 0.050854078345894844;
    p = p * z + 0.05858140904866328;
    p = p * z - 0.06664510525508936;
    p = p * z + 0.07692183125376892;
    p = p * z - 0.0909090457530649;
    p = p * z + 0.11111111015187018;
    p = p * z - 0.14285714284665682;
    p = p * z + 0.19999999999995516;
    return p * z - 0.3333333333333333;
}
/* The angle of (d, n), neither of them negative nor near the ends of range: that of 0, pi/4 or pi/2 and what it differs
 * by; taken off pi where it is to be turned. */
TD_FN double td_angle_f64(double n, double d, int turned)
{
    int mid = n >= 0.41421356237309503 * d, far = n >= 2.4142135623730951 * d;
    td_two less = td_sum(n, -d), both = td_sum(n, d);
    td_two up = {far ? -d : mid ? less.most : n, far ? 0.0 : mid ? less.less : 0.0};
    td_two down = {far ? n : mid ? both.most : d, far ? 0.0 : mid ? both.less : 0.0};
    td_two q = td_quotient(up, down);
    double z = q.most * q.most, tail = q.less + q.most * z * td_atanq_f64(z);
    double quarters = (double)(mid + far);         /* a choice of constants would become branches */
    quarters = turned ? 4.0 - quarters : quarters; /* pi/4 is in two parts */
    td_two r = td_quick_sum(quarters * (0.5 * TD_HALFPI_F64), turned ? -q.most : q.most);
    return r.most + (r.less + (quarters * (0.5 * TD_HALFPI_LESS) + (turned ? -tail : tail)));
}
TD_FN double td_atan_f64(double x)
{
    double a = fabs(x), r = td_angle_f64(a > 0x1p60 ? 0x1p60 : a, 1.0, 0);
    return ((x != x) | (a < 0x1p-30)) ? x : copysign(r, x);
}
TD_FN double td_atan2_f64(double y, double x)
{
    double ay = fabs(y), ax = fabs(x), most = ay > ax ? ay : ax, inf = (double)INFINITY;
    double scale = most > 0x1p500 ? 0x1p-600 : most < 0x1p-300 ? 0x1p600 : 1.0, end = 0x1.fffffffffffffp+1023;
    /* beside what is infinite the other counts as 0; both are alike */
    int endless = most == inf, turned = (int64_t)td_bits_d(x) < 0;
    double n = (ay < end ? ay : end) * scale * (double)(!endless | (ay == inf));
    double d = (ax < end ? ax : end) * scale * (double)(!endless | (ax == inf));
    double plain = ay / ax, r = td_angle_f64(n, d, turned); /* of n what is scaled down may be lost */
    r = (!turned & (plain < 0x1p-30)) ? plain : r;
    r = most == 0.0 ? 2 * TD_HALFPI_F64 * (double)turned : r;
    return ((x != x) | (y != y)) ? x + y : copysign(r, y);
}

/* (asin s - s) / s^3 of |s| up to 1/2, in z = s^2. */
TD_FN double td_asinq_f64(double z)
{
    double p = 0.02877844261259304;
    p = p * z - 0.014881409392818066;
    p = p * z + 0.017419357964884856;
    p = p * z + 0.00545087818772055;
    p = p * z + 0.010324318288744113;
    p = p * z + 0.011478952690257387;
    p = p * z + 0.013971235301124539;
    p = p * z + 0.017352391265909227;
    p = p * z + 0.022372173002005596;
    p = p * z + 0.030381944137085216;
    p = p * z + 0.04464285714637338;
    p = p * z + 0.07499999999998425;
    return p * z + 0.16666666666666669;
}
/* asin s = s + tail for |x| <= 1/2 with s = x, else with s = sqrt((1 - |x|) / 2): half of acos |x|. */
typedef struct td_arc {
    double s, tail;
    int near;
} td_arc;
TD_FN td_arc td_arc_f64(double x)
{
    double a = fabs(x), w = 0.5 - 0.5 * a, root = sqrt(w), less = __builtin_fma(-root, root, w) / (root + root);
    td_arc t = {0, 0, a <= 0.5};
    t.s = t.near ? x : root;
    double z = t.near ? x * x : w;
    t.tail = __builtin_fma(t.s * z, td_asinq_f64(z), (t.near | (root == 0.0)) ? 0.0 : less);
    return t;
}
TD_FN double td_asin_f64(double x)
{
    td_arc t = td_arc_f64(x);
    td_two far = td_quick_sum(TD_HALFPI_F64, -2.0 * t.s);
    double r = far.most + (far.less + (TD_HALFPI_LESS - 2.0 * t.tail));
    return x == 0.0 ? x : t.near ? x + t.tail : copysign(r, x);
}
TD_FN double td_acos_f64(double x)
{
    td_arc t = td_arc_f64(x);
    int back = !t.near & (x < 0.0);
    double base = back ? 2 * TD_HALFPI_F64 : TD_HALFPI_F64, base_less = back ? 2 * TD_HALFPI_LESS : TD_HALFPI_LESS;
    double by = back ? 2.0 : 1.0;
    td_two sum = td_quick_sum(base, -by * t.s);
    double r = sum.most + (sum.less + (base_less - by * t.tail));
    return (!t.near & (x > 0.0)) ? 2.0 * (t.s + t.tail) : r;
}

TD_FN double td_hypot_f64(double x, double y)
{
    double ax = fabs(x), ay = fabs(y), a = ax > ay ? ax : ay, b = ax > ay ? ay : ax;
    int large = a > 0x1p500, small = a < 0x1p-450;
    double scale = large ? 0x1p-600 : small ? 0x1p600 : 1.0, back = large ? 0x1p600 : small ? 0x1p-600 : 1.0;
    double p = a * scale, q = b * scale, pp = p * p, qq = q * q, sum = pp + qq, h = sqrt(sum);
    double less = (pp - sum) + qq + (__builtin_fma(p, p, -pp) + __builtin_fma(q, q, -qq));
    double r = h + (__builtin_fma(-h, h, sum) + less) / (h + h);
    r = (a == 0.0 ? 0.0 : r) * back;
    r = ((x != x) | (y != y)) ? x + y : r;
    return ((ax == (double)INFINITY) | (ay == (double)INFINITY)) ? (double)INFINITY : r;
}

/* log(2^e (1 + x + less)), of x >= 0; e is 0 or x is large. */
TD_FN double td_log1p_two_f64(double x, double less, double e)
{
    double u = 1.0 + x, lost = (x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0)) + less;
    int near = x < 0.4142135623730950;
    td_log_parts l = td_log_split_f64(u, e);
    uint64_t place = (td_bits_d(u) - 0x3fe6a09e667f3bcdull + 0x4000000000000000ull) >> 52;
    double part = near ? less : u < 0x1p60 ? lost * td_from_bits_d((2047 - place) << 52) : 0.0;
    l.f = near ? x : l.f;
    l.e = near ? 0.0 : l.e;
    l = td_log_rest_f64(l);
    double m = l.f + 1.0, over = 2.99984695 - m * (2.909090909 - m * 0.9142390706);
    double low = l.rest + (l.e * TD_LN2_LESS + part * over);
    double r = __builtin_fma(l.e, TD_LN2_MOST, l.f - (l.half - low));
    return x == (double)INFINITY ? x : r;
}
/* log(a + sqrt(a^2 + 1)) = log(1 + a + a^2 / (1 + sqrt(a^2 + 1))), and log 2a of what is large. */
TD_FN double td_asinh_f64(double x)
{
    double a = fabs(x), b = a > 0x1p60 ? 1.0 : a, bb = b * b, bb_less = __builtin_fma(b, b, -bb);
    double under = bb + 1.0, under_less = (bb > 1.0 ? (bb - under) + 1.0 : (1.0 - under) + bb) + bb_less;
    double root = sqrt(under), root_less = (__builtin_fma(-root, root, under) + under_less) / (root + root);
    td_two down = td_quick_sum(root, 1.0);
    down.less += root_less;
    td_two q = td_quotient((td_two){bb, bb_less}, down), sum = td_quick_sum(b, q.most);
    int far = a > 0x1p60;
    double r = td_log1p_two_f64(far ? a : sum.most, far ? 0.0 : sum.less + q.less, far ? 1.0 : 0.0);
    return ((x != x) | (a < 0x1p-30)) ? x : copysign(r, x);
}
/* log(1 + t + sqrt(t (2 + t))) with t = x - 1. */
TD_FN double td_acosh_f64(double x)
{
    double t = x - 1.0, b = t > 0x1p60 ? 1.0 : t, up = 2.0 + b, up_less = b > 2.0 ? (b - up) + 2.0 : (2.0 - up) + b;
    double under = b * up, under_less = __builtin_fma(b, up, -under) + b * up_less, root = sqrt(under);
    double root_less = (__builtin_fma(-root, root, under) + under_less) / (root + root);
    td_two sum = td_quick_sum(root, b); /* sqrt(t (2 + t)) > t */
    int far = t > 0x1p60;
    double r = td_log1p_two_f64(far ? x : sum.most, far ? 0.0 : sum.less + root_less, far ? 1.0 : 0.0);
    return x == 1.0 ? 0.0 : x > 1.0 ? r : (double)NAN;
}
/* log((1 + a) / (1 - a)) / 2 = log(1 + 2a / (1 - a)) / 2 */
TD_FN double td_atanh_f64(double x)
{
    double a = fabs(x), down = 1.0 - a;
    td_two q = td_quotient((td_two){2.0 * a, 0.0}, (td_two){down, (1.0 - down) - a});
    double r = 0.5 * td_log1p_two_f64(q.most, q.less, 0.0);
    r = a == 1.0 ? (double)INFINITY : a > 1.0 ? (double)NAN : r;
    return ((x != x) | (a < 0x1p-30)) ? x : copysign(r, x);
}

/* erf x = x + x P(x^2) of |x| up to 0.9. */
TD_FN double td_erfq_f64(double z)
{
    double p = -8.493614638206203e-10;
    p = p * z + 1.4051319281278355e-08;
    p = p * z - 1.627649674520215e-07;
    p = p * z + 1.645532564924694e-06;
    p = p * z - 1.4925307337159171e-05;
    p = p * z + 0.00012055321374349772;
    p = p * z - 0.000854832676425319;
    p = p * z + 0.005223977621766896;
    p = p * z - 0.0268661706448234;
    p = p * z + 0.11283791670953792;
    p = p * z - 0.3761263890318373;
    return p * z + 0.1283791670955126;
}
/* erfc(a + less) for a from 0.5 on, as e^(-a^2) P(q) / (1 + 2a) with q = (a - 3) / (a + 3). */
TD_FN double td_erfc_tail_f64(double a, double less)
{
    double b = a > 28.0 ? 28.0 : a, q = (b - 3.0) / (b + 3.0), bb = b * b;
    less = a > 28.0 ? 0.0 : less;
    double p = -5.374873214106178e-09;
    p = p * q - 9.726345700257956e-09;
    p = p * q + 3.717729746252973e-08;
    p = p * q + 9.618265379425548e-08;
    p = p * q - 1.3790001808003156e-07;
    p = p * q - 6.115463846490585e-07;
    p = p * q + 3.551588329256678e-07;
    p = p * q + 3.469555019560413e-06;
    p = p * q - 7.311163588671067e-07;
    p = p * q - 2.0099531610226053e-05;
    p = p * q + 4.9494671395609155e-06;
    p = p * q + 0.00012509910905207595;
    p = p * q - 0.00010515981353021646;
    p = p * q - 0.0007798322360443212;
    p = p * q + 0.001888690362498464;
    p = p * q + 0.0025293918128803856;
    p = p * q - 0.023770514918948722;
    p = p * q + 0.0683080273441292;
    p = p * q - 0.11927366341529722;
    p = p * q + 0.1296451587027575;
    p = p * q - 0.0475622943534509;
    p = p * q - 0.13562110612458114;
    td_two top = td_quick_sum(1.2530080582697296, p * q), down = td_quick_sum(2.0 * b, 1.0);
    down.less += 2.0 * less; /* the slope of P(q) / (1 + 2a) is near that */
    td_two u = td_quotient(top, down);
    td_exp_parts e = td_exp_parts_f64(-bb, -(__builtin_fma(b, b, -bb) + 2.0 * b * less));
    return td_scale2_f64(e.p.most * u.most + (e.p.most * u.less + e.p.less * u.most), e.k);
}
TD_FN double td_erf_f64(double x)
{
    double a = fabs(x), far = 1.0 - td_erfc_tail_f64(a, 0.0);
    return x != x ? x : a < 0.9 ? x + x * td_erfq_f64(x * x) : copysign(far, x);
}
TD_FN double td_erfc_two_f64(double x, double less)
{
    double a = fabs(x), tail = td_erfc_tail_f64(a, x < 0 ? -less : less), q = td_erfq_f64(x * x);
    double near = x < 0.25 ? 1.0 - __builtin_fma(x, q, x) : 0.5 - __builtin_fma(x, q, x - 0.5);
    return x != x ? x : a < 0.5 ? near : x < 0 ? 2.0 - tail : tail;
}
TD_FN double td_erfc_f64(double x)
{
    return td_erfc_two_f64(x, 0.0);
}
/* The normal distribution function: erfc(-x / sqrt 2) / 2. */
TD_FN double td_ncdf_f64(double x)
{
    double t = -x * 0.7071067811865476, less = __builtin_fma(-x, 0.7071067811865476, -t) + x * 4.833646656726457e-17;
    return 0.5 * td_erfc_two_f64(t, less);
}

/* sin(pi x) / (pi x): half turns are taken off x itself, where that is exact. */
TD_FN double td_sinc_f64(double x)
{
    double a = fabs(x), b = a < 0x1p52 ? a : 0.0, n = rint(2.0 * b), d = b - 0.5 * n, r = d * (2 * TD_HALFPI_F64);
    td_turned t = {r, __builtin_fma(d, 2 * TD_HALFPI_F64, -r) + d * (2 * TD_HALFPI_LESS), td_bits_d(n + 0x1.8p52)};
    td_two sin = td_quick_sum(t.r, -td_sin_rest_f64(t)), cos = td_cos_parts_f64(t);
    td_two up = {t.n & 1 ? cos.most : sin.most, t.n & 1 ? cos.less : sin.less}, down = {b * (2 * TD_HALFPI_F64), 0.0};
    down.less = __builtin_fma(b, 2 * TD_HALFPI_F64, -down.most) + b * (2 * TD_HALFPI_LESS);
    td_two q = td_quotient(up, down);
    double s = q.most + q.less, turned = t.n & 2 ? -s : s;
    turned = a < 0x1p52 ? turned : a < (double)INFINITY ? 0.0 : (double)NAN;
    return a < 0x1p-30 ? 1.0 : turned;
}

#endif
#endif
