/* Bessel functions of one double, as special_f64.h has the others: near 0 by polynomials in x^2 up to 5, whose zeros
 * stand before them, and beyond by the modulus and phase of Hankel's expansion (DLMF 10.17.3, 10.17.4), whose P and Q
 * are slow in (5 / x)^2.
 *
 * What has too many turns to be taken off in vectors (td_beyond_f64) is worked out once more by the C library. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_BESSEL_F64_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_BESSEL_F64_H

#include "daemon/kernels/cpu/vec/special_f64.h"

TD_FN int td_beyond_f64(double x)
{
    return td_trigbig_f64(x);
}

#ifdef TD_WIDE_F64

TD_FN int td_besselnear_f64(double x)
{
    return fabs(x) <= 5.0;
}

/* x^2 less the square of a zero that is in two parts. */
TD_FN double td_off_zero_f64(double a, double zero, double less)
{
    return ((a - zero) - less) * (a + zero);
}
TD_FN double td_bessel_j0near_f64(double x)
{
    double a = fabs(x), t = a * a * 0.08 - 1.0;
    return td_off_zero_f64(a, 2.404825557695773, -1.1766916515308942e-16) *
           td_off_zero_f64(a, 5.520078110286311, 8.088597146146722e-17) *
           TD_P12(t, 0.00318735563039323854, -0.0019210870437164044, 0.000487682717765584112, -0.0000712170524057585271,
                  6.85495484719937297e-6, -4.70629166457085232e-7, 2.42862203802540944e-8, -9.78143894617256975e-10,
                  3.16372398921183421e-11, -8.40418527318005376e-13, 1.86886726827288826e-14, -3.52428975300422712e-16);
}
TD_FN double td_bessel_j1near_f64(double x)
{
    double a = fabs(x), t = a * a * 0.08 - 1.0;
    return x * (td_off_zero_f64(a, 3.8317059702075125, -1.5269184090088068e-16) *
                TD_P12(t, -0.0158759543116454814, 0.0130907775218100285, -0.00424022599339572262,
                       0.000755254043295128496, -0.000085929562320671336, 6.81468389517734779e-6,
                       -3.99138117234969702e-7, 1.79951599237439918e-8, -6.44312553371561782e-10,
                       1.87738121459957897e-11, -4.54489296029158857e-13, 9.26808020474341036e-15));
}

/* sqrt(2 / (pi x)) times P and Q / x, with the sine and cosine of x / 1: J and Y are made of their products. */
typedef struct td_modulus {
    double p, q, sin, cos;
} td_modulus;
TD_FN td_modulus td_modulus_f64(double a, double p, double q)
{
    td_turned t = td_turn_f64(a);
    double s = td_sin_of_f64(t), c = td_cos_of_f64(t), sin = t.n & 1 ? c : s, cos = t.n & 1 ? s : c;
    double size = sqrt(0.31830988618379067154 / a);
    td_modulus m = {size * p, size * q / a, t.n & 2 ? -sin : sin, (t.n + 1) & 2 ? -cos : cos};
    return m;
}
TD_FN td_modulus td_modulus0_f64(double a)
{
    double v = 50.0 / (a * a) - 1.0;
    return td_modulus_f64(
        a,
        TD_P20(v, 0.998634765909199059, -0.00132749312720033882, 0.0000349173058125204398, -2.45996332516810296e-6,
               2.97590055374661898e-7, -5.08642584026445105e-8, 1.10587805688905951e-8, -2.87106007065035392e-9,
               8.53767626348664093e-10, -2.82945249674671191e-10, 1.04360643508201117e-10, -4.10652521777827799e-11,
               1.27599651277979341e-11, -4.91251230693198982e-12, 8.18582308205982137e-12, -4.55220914791783498e-12,
               -2.74716119553073258e-12, 1.74412858094125191e-12, 1.41351596408648558e-12, -8.36986927570159589e-13),
        TD_P21(v, -0.123614963526118648, 0.00131421397291017021, -0.0000633871544253684062, 6.2391131754646211e-6,
               -9.40987523331330735e-7, 1.88702850343565032e-7, -4.6397923335619355e-8, 1.32978567317852314e-8,
               -4.29487296547315289e-9, 1.52120369798391553e-9, -5.83730124340810214e-10, 2.57489183223214731e-10,
               -1.15226765551734158e-10, 1.66784617520768905e-11, -2.88979631641320559e-12, 4.7444124825132258e-11,
               -2.87666306628758799e-11, -2.10815282934938234e-11, 1.36334067805167133e-11, 8.407447245972001e-12,
               -5.22233453814770854e-12));
}
TD_FN td_modulus td_modulus1_f64(double a)
{
    double v = 50.0 / (a * a) - 1.0;
    return td_modulus_f64(
        a,
        TD_P20(v, 1.00229064625606621, 0.00224146321391712629, -0.0000457828065312414725, 2.97862110903424573e-6,
               -3.46671865801396482e-7, 5.79166101074403347e-8, -1.24032083240994348e-8, 3.18550323241466842e-9,
               -9.39611138250720433e-10, 3.09413943706809003e-10, -1.13471086082920921e-10, 4.44496873729991613e-11,
               -1.38628235289702303e-11, 5.33634363193854218e-12, -8.69815668788737356e-12, 4.82478888911081644e-12,
               2.89097693691470316e-12, -1.83475595976287543e-12, -1.49505160951891806e-12, 8.84053683847138803e-13),
        TD_P21(v, 0.373047433174080203, -0.0018648496218412311, 0.0000789809417797223806, -7.36992795391339168e-6,
               1.07988538444387132e-6, -2.12667274798946637e-7, 5.16415499698885096e-8, -1.46655788112123247e-8,
               4.70330276366169191e-9, -1.65672695939516872e-9, 6.32848600734026005e-10, -2.77582562531510936e-10,
               1.23750026458638736e-10, -1.85488585651152327e-11, 3.47567795510918601e-12, -5.01107133587098191e-11,
               3.0330329715038464e-11, 2.21608279366925424e-11, -1.43215261349623627e-11, -8.86347063753487049e-12,
               5.49928806365092116e-12));
}
TD_FN double td_bessel_j0_wide(double x)
{
    td_modulus m = td_modulus0_f64(fabs(x));
    double far = m.p * (m.cos + m.sin) - m.q * (m.sin - m.cos);
    return td_besselnear_f64(x) ? td_bessel_j0near_f64(x) : far;
}
TD_FN double td_bessel_j1_wide(double x)
{
    td_modulus m = td_modulus1_f64(fabs(x));
    double far = m.p * (m.sin - m.cos) + m.q * (m.sin + m.cos);
    return td_besselnear_f64(x) ? td_bessel_j1near_f64(x) : x < 0.0 ? -far : far;
}
TD_FN double td_bessel_y0_wide(double x)
{
    td_modulus m = td_modulus0_f64(x);
    double t = x * x * 0.08 - 1.0, far = m.p * (m.sin - m.cos) + m.q * (m.cos + m.sin);
    double near =
        TD_P14(t, 0.313948186153780197, -0.52819342614896407, -0.157531514134691591, 0.229579000647898973,
               -0.0738358693723862423, 0.0123245519935264496, -0.00130224771909269822, 0.000096041511240374044,
               -5.25196654176114599e-6, 2.22061170475398761e-7, -7.48843438997509649e-9, 2.06313743927877001e-10,
               -4.73960534091989529e-12, 9.20006945141011828e-14) +
        0.63661977236758134308 * td_log_half_f64(x) * td_bessel_j0near_f64(x);
    return x >= 0.0 ? (x <= 5.0 ? near : far) : (double)NAN;
}
TD_FN double td_bessel_y1_wide(double x)
{
    td_modulus m = td_modulus1_f64(x);
    double t = x * x * 0.08 - 1.0, far = m.q * (m.sin - m.cos) - m.p * (m.sin + m.cos);
    double near =
        x * TD_P13(t, 0.155035406953840298, -0.00908784406192747607, -0.0868302521006381393, 0.0422311439664152229,
                   -0.00918479902416831542, 0.00118826366330136892, -0.00010344500470275302, 6.51416988940894512e-6,
                   -3.11498114205565303e-7, 1.17168516965436302e-8, -3.56138749346602576e-10, 8.94678687059698571e-12,
                   -1.88481082114759357e-13) +
        0.63661977236758134308 * (td_log_half_f64(x) * td_bessel_j1near_f64(x) - 1.0 / x);
    near = x == 0.0 ? -(double)INFINITY : near;
    return x >= 0.0 ? (x <= 5.0 ? near : far) : (double)NAN;
}
TD_FN double td_spherical_j0_wide(double x)
{
    return x == 0.0 ? 1.0 : td_sin_f64(x) / x;
}

#else

/* The sets without fused arithmetic call all of them. */
TD_FN int td_besselnear_f64(double x)
{
    (void)x;
    return 0;
}
#define TD_CALLED(NAME)                                                                                                \
    TD_FN double td_##NAME##_wide(double x)                                                                            \
    {                                                                                                                  \
        return td_##NAME##_f64(x);                                                                                     \
    }
TD_SPECIAL_WIDE(TD_CALLED)
#undef TD_CALLED
TD_FN double td_bessel_j0near_f64(double x)
{
    return td_bessel_j0_f64(x);
}
TD_FN double td_bessel_j1near_f64(double x)
{
    return td_bessel_j1_f64(x);
}

#endif

/* For the elements that loops guard against. */
#define TD_ANYWHERE(NAME)                                                                                              \
    TD_FN double td_##NAME##_any_f64(double x)                                                                         \
    {                                                                                                                  \
        return td_##NAME##_f64(x);                                                                                     \
    }
TD_ANYWHERE(bessel_j0)
TD_ANYWHERE(bessel_j1)
TD_ANYWHERE(bessel_y0)
TD_ANYWHERE(bessel_y1)
TD_ANYWHERE(spherical_j0)
TD_ANYWHERE(lgamma)
TD_ANYWHERE(digamma)
#undef TD_ANYWHERE

#endif
