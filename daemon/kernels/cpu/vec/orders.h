/* Orthogonal polynomials of many elements at once: the order, which is mostly one number, outside, the elements, whose
 * recurrences are alike, inside.
 *
 * A run of elements of one order is taken by blocks, so that an element depends on nothing but its operands: its
 * neighbours may have other orders. Floats are worked out in double. What has no short recurrence (orders below 0 and
 * above the bounds, NaN) is left to the functions of polynomials.c. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_ORDERS_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_ORDERS_H

#include "daemon/kernels/cpu/vec/math_f32.h"
#include "daemon/kernels/cpu/vec/special.h"

enum { TD_ORDERS_BLOCK = 128 };

/* p(k + 1) = (a x + b) p(k) - c p(k - 1), over d. */
typedef struct td_step {
    double a, b, c, d;
} td_step;

TD_FN td_step td_step_hermite_h(int k)
{
    return (td_step){2, 0, 2.0 * k, 1};
}
TD_FN td_step td_step_hermite_he(int k)
{
    return (td_step){1, 0, k, 1};
}
TD_FN td_step td_step_laguerre_l(int k)
{
    return (td_step){-1, 2.0 * k + 1, k, k + 1.0};
}
TD_FN td_step td_step_legendre_p(int k)
{
    return (td_step){2.0 * k + 1, 0, k, k + 1.0};
}
/* Chebyshev's four differ in the first step alone. */
TD_FN td_step td_step_chebyshev_t(int k)
{
    return (td_step){k ? 2 : 1, 0, 1, 1};
}
TD_FN td_step td_step_chebyshev_u(int k)
{
    (void)k;
    return (td_step){2, 0, 1, 1};
}
TD_FN td_step td_step_chebyshev_v(int k)
{
    return (td_step){2, k ? 0 : -1, 1, 1};
}
TD_FN td_step td_step_chebyshev_w(int k)
{
    return (td_step){2, k ? 0 : 1, 1, 1};
}

/* TD_ORDERS(NAME, MOST): elements of orders up to MOST; in float the quotient is a product. */
#define TD_ORDERS_OF(NAME, MOST, T, S, OVER)                                                                           \
    TD_FN void td_##NAME##_block_##S(int m, T *out, const T *in, int order)                                            \
    {                                                                                                                  \
        double x[TD_ORDERS_BLOCK], before[TD_ORDERS_BLOCK], now[TD_ORDERS_BLOCK];                                      \
        for (int i = 0; i < m; i++) x[i] = (double)in[i], before[i] = 0, now[i] = 1;                                   \
        for (int k = 0; k < order; k++) {                                                                              \
            const td_step s = td_step_##NAME(k);                                                                       \
            const double inverse __attribute__((unused)) = 1 / s.d;                                                    \
            for (int i = 0; i < m; i++) {                                                                              \
                double next = ((s.a * x[i] + s.b) * now[i] - s.c * before[i]) OVER;                                    \
                before[i] = now[i];                                                                                    \
                now[i] = next;                                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        for (int i = 0; i < m; i++) out[i] = (T)now[i];                                                                \
    }                                                                                                                  \
    static inline __attribute__((unused)) void td_##NAME##_orders_##S(int64_t n, T *out, const T *in, const T *order)  \
    {                                                                                                                  \
        while (n > 0) {                                                                                                \
            int m = 1, most = n < TD_ORDERS_BLOCK ? (int)n : TD_ORDERS_BLOCK;                                          \
            const T each = *(const volatile T *)order; /* looked at once: it says how long the recurrence is */        \
            while (m < most && order[m] == each) m++;                                                                  \
            if (each >= 0 && each < (T)((MOST) + 1)) td_##NAME##_block_##S(m, out, in, (int)each);                     \
            else                                                                                                       \
                for (int i = 0; i < m; i++) out[i] = (T)td_##NAME##_f64((double)in[i], (double)order[i]);              \
            n -= m;                                                                                                    \
            out += m;                                                                                                  \
            in += m;                                                                                                   \
            order += m;                                                                                                \
        }                                                                                                              \
    }
#define TD_ORDERS(NAME, MOST)                                                                                          \
    TD_ORDERS_OF(NAME, MOST, float, f32, *inverse)                                                                     \
    TD_ORDERS_OF(NAME, MOST, double, f64, / s.d)
/* Exact quotients are none, and cost what one costs. */
#define TD_ORDERS_WHOLE(NAME, MOST)                                                                                    \
    TD_ORDERS_OF(NAME, MOST, float, f32, )                                                                             \
    TD_ORDERS_OF(NAME, MOST, double, f64, )
TD_ORDERS_WHOLE(chebyshev_t, 6)
TD_ORDERS_WHOLE(chebyshev_u, 8)
TD_ORDERS_WHOLE(chebyshev_v, 8)
TD_ORDERS_WHOLE(chebyshev_w, 8)
TD_ORDERS_WHOLE(hermite_h, TD_ORDER_MOST)
TD_ORDERS_WHOLE(hermite_he, TD_ORDER_MOST)
TD_ORDERS(laguerre_l, TD_ORDER_MOST)
TD_ORDERS(legendre_p, TD_ORDER_MOST)
#undef TD_ORDERS
#undef TD_ORDERS_WHOLE
#undef TD_ORDERS_OF

#endif
