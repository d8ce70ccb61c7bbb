/* The remainder of two doubles whose quotient may be anything.
 *
 * Invariant: it is exact, and the loop has 34 steps at most: each takes 63 bits off the quotient. */
#include "daemon/kernels/cpu/vec/math_f64.h"
#include "daemon/kernels/cpu/vec/special.h"
#include <stdbool.h>

/* x = m 2^e, of x > 0. */
TD_SPECIAL_PART uint64_t parts(double x, int *e)
{
    bool tiny = x < 0x1p-1022;
    uint64_t bits = td_bits_d(tiny ? x * 0x1p54 : x);
    *e = (int)(bits >> 52) - 1075 - (tiny ? 54 : 0);
    return (bits & 0xfffffffffffffull) | 0x10000000000000ull;
}
TD_SPECIAL double td_fmodfar_f64(double x, double y)
{
    double a = fabs(x), b = fabs(y);
    if (!(a < (double)INFINITY) || !(b > 0)) return x != x ? x : y != y ? y : (double)NAN;
    if (a < b) return x;
    int e, ey;
    uint64_t m = parts(a, &e), my = parts(b, &ey), rest = m % my;
    for (e -= ey; e > 0 && rest; e -= 63) rest = (uint64_t)(((unsigned __int128)rest << (e < 63 ? e : 63)) % my);
    return copysign(ldexp((double)rest, ey), x);
}
