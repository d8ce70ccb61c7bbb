/* Arithmetic and comparisons, with Python's meaning: whole division and remainder go by the floor, ints that overflow
 * fail (Python's would grow, TorchScript's wrap). */
#include "daemon/graph/prims.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INT(k) (c->in[k]->i)
#define FLOAT(k) (c->in[k]->re)

static int give_complex(td_prim_call *c, double complex z)
{
    c->out[0] = (td_val){.kind = TD_T_COMPLEX, .re = creal(z), .im = cimag(z)};
    return TD_OK;
}

/* CMPLX() is not everywhere, and re + im * I is not this for infinities. */
static double complex complex_from(double re, double im)
{
    double parts[2] = {re, im};
    double complex z;
    memcpy(&z, parts, sizeof z);
    return z;
}

static double complex complex_of(const td_val *v)
{
    return complex_from(v->re, v->im);
}

static int overflow(td_prim_call *c)
{
    return td_fail(c->e, TD_E_INVALID, "the result does not fit into an int of 64 bits");
}

static int by_zero(td_prim_call *c)
{
    return td_fail(c->e, TD_E_INVALID, "division by zero");
}

/* ---- ints */

#define CHECKED(name, builtin)                                                                                         \
    static int name(td_prim_call *c)                                                                                   \
    {                                                                                                                  \
        int64_t r;                                                                                                     \
        return builtin(INT(0), INT(1), &r) ? overflow(c) : td_prim_int(c, r);                                          \
    }
CHECKED(add_int, __builtin_add_overflow)
CHECKED(sub_int, __builtin_sub_overflow)
CHECKED(mul_int, __builtin_mul_overflow)

static int floordiv_int(td_prim_call *c)
{
    int64_t a = INT(0), b = INT(1);
    if (b == 0) return by_zero(c);
    if (a == INT64_MIN && b == -1) return overflow(c);
    return td_prim_int(c, a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
}

static int mod_int(td_prim_call *c)
{
    int64_t a = INT(0), b = INT(1);
    if (b == 0) return by_zero(c);
    if (b == -1) return td_prim_int(c, 0);
    int64_t r = a % b;
    return td_prim_int(c, r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

/* Rounded once, as Python's: of ints that are no floats with 64 bits at least, and a last one for what is left. */
static double quotient(int64_t a, int64_t b)
{
    static const uint64_t exact = UINT64_C(1) << 53;
    uint64_t ua = magnitude(a), ub = magnitude(b);
    if (ua == 0 || (ua <= exact && ub <= exact)) return (double)a / (double)b;
    int up = __builtin_clzll(ua);
    unsigned __int128 whole = (unsigned __int128)(ua << up) << 64, q = whole / ub | (whole % ub != 0);
    return ldexp((a < 0) != (b < 0) ? -(double)q : (double)q, -64 - up);
}

static int truediv_int(td_prim_call *c)
{
    return INT(1) == 0 ? by_zero(c) : td_prim_float(c, quotient(INT(0), INT(1)));
}

static int pow_int(td_prim_call *c)
{
    int64_t base = INT(0), n = INT(1), r = 1;
    if (n < 0) return td_fail(c->e, TD_E_INVALID, "an int to a negative power is no int; make it a float first");
    for (; n; n >>= 1) {
        if (n & 1 && __builtin_mul_overflow(r, base, &r)) return overflow(c);
        if (n > 1 && __builtin_mul_overflow(base, base, &base)) return overflow(c);
    }
    return td_prim_int(c, r);
}

static int neg_int(td_prim_call *c)
{
    return INT(0) == INT64_MIN ? overflow(c) : td_prim_int(c, -INT(0));
}

static int abs_int(td_prim_call *c)
{
    return INT(0) == INT64_MIN ? overflow(c) : td_prim_int(c, INT(0) < 0 ? -INT(0) : INT(0));
}

static int lshift(td_prim_call *c)
{
    int64_t a = INT(0), n = INT(1);
    if (n < 0) return td_fail(c->e, TD_E_INVALID, "a shift by %lld bits; it cannot be negative", (long long)n);
    if (a == 0) return td_prim_int(c, 0);
    if (n > 63 || (int64_t)((uint64_t)a << n) >> n != a) return overflow(c);
    return td_prim_int(c, (int64_t)((uint64_t)a << n));
}

static int rshift(td_prim_call *c)
{
    int64_t n = INT(1);
    if (n < 0) return td_fail(c->e, TD_E_INVALID, "a shift by %lld bits; it cannot be negative", (long long)n);
    return td_prim_int(c, INT(0) >> (n > 63 ? 63 : n));
}

#define OF_INT(name, expression)                                                                                       \
    static int name(td_prim_call *c)                                                                                   \
    {                                                                                                                  \
        return td_prim_int(c, expression);                                                                             \
    }
OF_INT(and_int, INT(0) & INT(1))
OF_INT(or_int, INT(0) | INT(1))
OF_INT(xor_int, INT(0) ^ INT(1))
OF_INT(invert, ~INT(0))
OF_INT(min_int, INT(0) < INT(1) ? INT(0) : INT(1))
OF_INT(max_int, INT(0) > INT(1) ? INT(0) : INT(1))
OF_INT(int_bool, INT(0))

static int gcd(td_prim_call *c)
{
    uint64_t a = magnitude(INT(0)), b = magnitude(INT(1));
    while (b) {
        uint64_t r = a % b;
        a = b, b = r;
    }
    return a > INT64_MAX ? overflow(c) : td_prim_int(c, (int64_t)a);
}

static int factorial(td_prim_call *c)
{
    int64_t r = 1;
    if (INT(0) < 0) return td_fail(c->e, TD_E_INVALID, "factorial() not defined for negative values");
    if (INT(0) > 20) return overflow(c);
    for (int64_t k = 2; k <= INT(0); k++) r *= k;
    return td_prim_int(c, r);
}

/* ---- floats */

#define OF_FLOAT(name, expression)                                                                                     \
    static int name(td_prim_call *c)                                                                                   \
    {                                                                                                                  \
        return td_prim_float(c, expression);                                                                           \
    }
OF_FLOAT(add_float, FLOAT(0) + FLOAT(1))
OF_FLOAT(sub_float, FLOAT(0) - FLOAT(1))
OF_FLOAT(mul_float, FLOAT(0) * FLOAT(1))
OF_FLOAT(neg_float, -FLOAT(0))
OF_FLOAT(abs_float, fabs(FLOAT(0)))
OF_FLOAT(min_float, FLOAT(1) < FLOAT(0) ? FLOAT(1) : FLOAT(0)) /* Python's: the first, unless the second is smaller */
OF_FLOAT(max_float, FLOAT(1) > FLOAT(0) ? FLOAT(1) : FLOAT(0))
OF_FLOAT(float_int, (double)INT(0))
OF_FLOAT(copysign_, copysign(FLOAT(0), FLOAT(1)))
OF_FLOAT(degrees, FLOAT(0) * (180 / M_PI))
OF_FLOAT(radians, FLOAT(0) * (M_PI / 180))
OF_FLOAT(real, c->in[0]->re)
OF_FLOAT(imag, c->in[0]->im)
OF_FLOAT(abs_complex, hypot(c->in[0]->re, c->in[0]->im))

static int truediv_float(td_prim_call *c)
{
    return FLOAT(1) == 0 ? by_zero(c) : td_prim_float(c, FLOAT(0) / FLOAT(1));
}

/* The remainder with the sign of b; *whole the quotient that goes with it. */
static double floor_mod(double a, double b, double *whole)
{
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) r += b, q -= 1;
    else if (r == 0) r = copysign(0, b);
    *whole = q == 0 ? copysign(0, a / b) : floor(q) + (q - floor(q) > 0.5);
    return r;
}

static int floordiv_float(td_prim_call *c)
{
    double whole;
    if (FLOAT(1) == 0) return by_zero(c);
    floor_mod(FLOAT(0), FLOAT(1), &whole);
    return td_prim_float(c, whole);
}

static int mod_float(td_prim_call *c)
{
    double whole;
    return FLOAT(1) == 0 ? by_zero(c) : td_prim_float(c, floor_mod(FLOAT(0), FLOAT(1), &whole));
}

static int pow_float(td_prim_call *c)
{
    double a = FLOAT(0), b = FLOAT(1), r = pow(a, b);
    if (a == 0 && b < 0) return td_fail(c->e, TD_E_INVALID, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return td_fail(c->e, TD_E_INVALID,
                       "a negative float to the power %g is complex; make it a complex number first", b);
    if (isinf(r) && isfinite(a) && isfinite(b))
        return td_fail(c->e, TD_E_INVALID, "the result is too large for a float");
    return td_prim_float(c, r);
}

static int whole_of(td_prim_call *c, double v)
{
    if (isnan(v)) return td_fail(c->e, TD_E_INVALID, "cannot convert float NaN to integer");
    if (!(v >= -9223372036854775808.0 && v < 9223372036854775808.0)) return overflow(c);
    return td_prim_int(c, (int64_t)v);
}

#define TO_INT(name, expression)                                                                                       \
    static int name(td_prim_call *c)                                                                                   \
    {                                                                                                                  \
        return whole_of(c, expression);                                                                                \
    }
TO_INT(int_float, trunc(FLOAT(0)))
TO_INT(round_float, nearbyint(FLOAT(0)))
TO_INT(floor_float, floor(FLOAT(0)))
TO_INT(ceil_float, ceil(FLOAT(0)))

/* round(x, digits): as the decimal number that has no more of them, halves of what x is exactly to even. */
static int round_digits(td_prim_call *c)
{
    enum { EXACT = 800 }; /* digits, which is more than a double has */
    double v = FLOAT(0), size = fabs(v);
    int64_t digits = INT(1);
    char text[EXACT + 16];
    if (!isfinite(v) || size == 0 || digits > 323) return td_prim_float(c, v);
    if (digits < -DBL_MAX_10_EXP - 1) return td_prim_float(c, copysign(0, v));
    snprintf(text, sizeof text, "%.17e", size);
    int64_t power = atoi(strchr(text, 'e') + 1), kept = power + digits; /* digits behind the first */
    if (kept >= 17) return td_prim_float(c, v);
    if (kept >= 0) snprintf(text, sizeof text, "%.*e", (int)kept, size);
    else {
        snprintf(text, sizeof text, "%.*e", EXACT, size);
        bool up = kept == -1 && (text[0] > '5' || (text[0] == '5' && strspn(text + 2, "0") < EXACT));
        snprintf(text, sizeof text, "%de%lld", up, (long long)power + 1);
    }
    double r = strtod(text, NULL);
    if (isinf(r)) return td_fail(c->e, TD_E_INVALID, "the rounded number is too large for a float of 64 bits");
    return td_prim_float(c, copysign(r, v));
}

/* A function of <math.h>, with the errors of Python's math: a result that is NaN though no argument was, or infinite
 * though all were finite, is no value. */
static int of_math(td_prim_call *c, double r)
{
    bool finite = isfinite(FLOAT(0)), known = !isnan(FLOAT(0));
    if (c->nin > 1) finite = finite && isfinite(FLOAT(1)), known = known && !isnan(FLOAT(1));
    if ((isnan(r) && known) || (isinf(r) && finite)) return td_fail(c->e, TD_E_INVALID, "math domain or range error");
    return td_prim_float(c, r);
}

#define OF_MATH(function)                                                                                              \
    static int math_##function(td_prim_call *c)                                                                        \
    {                                                                                                                  \
        return of_math(c, function(FLOAT(0)));                                                                         \
    }
OF_MATH(sqrt)
OF_MATH(exp)
OF_MATH(log)
OF_MATH(log2)
OF_MATH(log10)
OF_MATH(log1p)
OF_MATH(expm1)
OF_MATH(sin)
OF_MATH(cos)
OF_MATH(tan)
OF_MATH(asin)
OF_MATH(acos)
OF_MATH(atan)
OF_MATH(sinh)
OF_MATH(cosh)
OF_MATH(tanh)
OF_MATH(asinh)
OF_MATH(acosh)
OF_MATH(atanh)
OF_MATH(erf)
OF_MATH(tgamma)
OF_MATH(lgamma)

static int math_atan2(td_prim_call *c)
{
    return of_math(c, atan2(FLOAT(0), FLOAT(1)));
}
static int math_fmod(td_prim_call *c)
{
    return of_math(c, fmod(FLOAT(0), FLOAT(1)));
}
static int math_hypot(td_prim_call *c)
{
    return of_math(c, hypot(FLOAT(0), FLOAT(1)));
}

/* ---- complex numbers */

static int add_complex(td_prim_call *c)
{
    return give_complex(c, complex_of(c->in[0]) + complex_of(c->in[1]));
}
static int sub_complex(td_prim_call *c)
{
    return give_complex(c, complex_of(c->in[0]) - complex_of(c->in[1]));
}
static int mul_complex(td_prim_call *c)
{
    return give_complex(c, complex_of(c->in[0]) * complex_of(c->in[1]));
}
static int truediv_complex(td_prim_call *c)
{
    double complex b = complex_of(c->in[1]);
    return creal(b) == 0 && cimag(b) == 0 ? by_zero(c) : give_complex(c, complex_of(c->in[0]) / b);
}
static int pow_complex(td_prim_call *c)
{
    double complex a = complex_of(c->in[0]), b = complex_of(c->in[1]);
    bool zero = creal(a) == 0 && cimag(a) == 0;
    if (zero && (creal(b) < 0 || cimag(b) != 0)) return by_zero(c);
    return give_complex(c, creal(b) == 0 && cimag(b) == 0 ? 1 : zero ? 0 : cpow(a, b));
}
static int neg_complex(td_prim_call *c)
{
    return give_complex(c, -complex_of(c->in[0]));
}
static int complex_int(td_prim_call *c)
{
    return give_complex(c, complex_from((double)INT(0), 0));
}
static int complex_float(td_prim_call *c)
{
    return give_complex(c, complex_from(FLOAT(0), 0));
}
static int complex_parts(td_prim_call *c)
{
    return give_complex(c, complex_from(FLOAT(0), FLOAT(1)));
}

/* ---- truths, and comparisons */

#define OF_BOOL(name, expression)                                                                                      \
    static int name(td_prim_call *c)                                                                                   \
    {                                                                                                                  \
        return td_prim_bool(c, expression);                                                                            \
    }
OF_BOOL(not_, !INT(0))
OF_BOOL(and_bool, INT(0) && INT(1))
OF_BOOL(or_bool, INT(0) || INT(1))
OF_BOOL(xor_bool, INT(0) != INT(1))
OF_BOOL(bool_int, INT(0) != 0)
OF_BOOL(bool_float, FLOAT(0) != 0)
OF_BOOL(bool_box, c->in[0]->box->n != 0)
OF_BOOL(is_nan, isnan(FLOAT(0)))
OF_BOOL(is_inf, isinf(FLOAT(0)))
OF_BOOL(is_finite, isfinite(FLOAT(0)))

OF_BOOL(eq, td_val_equal(c->in[0], c->in[1]))
OF_BOOL(ne, !td_val_equal(c->in[0], c->in[1]))

OF_BOOL(lt_int, INT(0) < INT(1))
OF_BOOL(le_int, INT(0) <= INT(1))
OF_BOOL(gt_int, INT(0) > INT(1))
OF_BOOL(ge_int, INT(0) >= INT(1))
OF_BOOL(lt_float, FLOAT(0) < FLOAT(1))
OF_BOOL(le_float, FLOAT(0) <= FLOAT(1))
OF_BOOL(gt_float, FLOAT(0) > FLOAT(1))
OF_BOOL(ge_float, FLOAT(0) >= FLOAT(1))
OF_BOOL(lt_str, td_val_order(c->in[0], c->in[1]) < 0)
OF_BOOL(le_str, td_val_order(c->in[0], c->in[1]) <= 0)
OF_BOOL(gt_str, td_val_order(c->in[0], c->in[1]) > 0)
OF_BOOL(ge_str, td_val_order(c->in[0], c->in[1]) >= 0)

#define MATH_ROW(NAME, name) [TD_PRIM_MATH_##NAME] = math_##name

td_prim_fn *const td_prims_number[TD_PRIM_COUNT] = {
    [TD_PRIM_ADD_INT] = add_int,
    [TD_PRIM_SUB_INT] = sub_int,
    [TD_PRIM_MUL_INT] = mul_int,
    [TD_PRIM_TRUEDIV_INT] = truediv_int,
    [TD_PRIM_FLOORDIV_INT] = floordiv_int,
    [TD_PRIM_MOD_INT] = mod_int,
    [TD_PRIM_POW_INT] = pow_int,
    [TD_PRIM_NEG_INT] = neg_int,
    [TD_PRIM_ABS_INT] = abs_int,
    [TD_PRIM_AND_INT] = and_int,
    [TD_PRIM_OR_INT] = or_int,
    [TD_PRIM_XOR_INT] = xor_int,
    [TD_PRIM_INVERT] = invert,
    [TD_PRIM_LSHIFT] = lshift,
    [TD_PRIM_RSHIFT] = rshift,
    [TD_PRIM_MIN_INT] = min_int,
    [TD_PRIM_MAX_INT] = max_int,
    [TD_PRIM_INT_BOOL] = int_bool,
    [TD_PRIM_INT_FLOAT] = int_float,
    [TD_PRIM_ROUND_FLOAT] = round_float,
    [TD_PRIM_ROUND_DIGITS] = round_digits,
    [TD_PRIM_FLOOR] = floor_float,
    [TD_PRIM_CEIL] = ceil_float,
    [TD_PRIM_MATH_GCD] = gcd,
    [TD_PRIM_MATH_FACTORIAL] = factorial,

    [TD_PRIM_ADD_FLOAT] = add_float,
    [TD_PRIM_SUB_FLOAT] = sub_float,
    [TD_PRIM_MUL_FLOAT] = mul_float,
    [TD_PRIM_TRUEDIV_FLOAT] = truediv_float,
    [TD_PRIM_FLOORDIV_FLOAT] = floordiv_float,
    [TD_PRIM_MOD_FLOAT] = mod_float,
    [TD_PRIM_POW_FLOAT] = pow_float,
    [TD_PRIM_NEG_FLOAT] = neg_float,
    [TD_PRIM_ABS_FLOAT] = abs_float,
    [TD_PRIM_MIN_FLOAT] = min_float,
    [TD_PRIM_MAX_FLOAT] = max_float,
    [TD_PRIM_FLOAT_INT] = float_int,
    [TD_PRIM_FLOAT_BOOL] = float_int,
    MATH_ROW(SQRT, sqrt),
    MATH_ROW(EXP, exp),
    MATH_ROW(LOG, log),
    MATH_ROW(LOG2, log2),
    MATH_ROW(LOG10, log10),
    MATH_ROW(LOG1P, log1p),
    MATH_ROW(EXPM1, expm1),
    MATH_ROW(SIN, sin),
    MATH_ROW(COS, cos),
    MATH_ROW(TAN, tan),
    MATH_ROW(ASIN, asin),
    MATH_ROW(ACOS, acos),
    MATH_ROW(ATAN, atan),
    MATH_ROW(SINH, sinh),
    MATH_ROW(COSH, cosh),
    MATH_ROW(TANH, tanh),
    MATH_ROW(ASINH, asinh),
    MATH_ROW(ACOSH, acosh),
    MATH_ROW(ATANH, atanh),
    MATH_ROW(ERF, erf),
    MATH_ROW(GAMMA, tgamma),
    MATH_ROW(LGAMMA, lgamma),
    MATH_ROW(ATAN2, atan2),
    MATH_ROW(FMOD, fmod),
    MATH_ROW(HYPOT, hypot),
    [TD_PRIM_MATH_DEGREES] = degrees,
    [TD_PRIM_MATH_RADIANS] = radians,
    [TD_PRIM_MATH_COPYSIGN] = copysign_,
    [TD_PRIM_MATH_FABS] = abs_float,
    [TD_PRIM_MATH_ISNAN] = is_nan,
    [TD_PRIM_MATH_ISINF] = is_inf,
    [TD_PRIM_MATH_ISFINITE] = is_finite,

    [TD_PRIM_ADD_COMPLEX] = add_complex,
    [TD_PRIM_SUB_COMPLEX] = sub_complex,
    [TD_PRIM_MUL_COMPLEX] = mul_complex,
    [TD_PRIM_TRUEDIV_COMPLEX] = truediv_complex,
    [TD_PRIM_POW_COMPLEX] = pow_complex,
    [TD_PRIM_NEG_COMPLEX] = neg_complex,
    [TD_PRIM_ABS_COMPLEX] = abs_complex,
    [TD_PRIM_COMPLEX_INT] = complex_int,
    [TD_PRIM_COMPLEX_FLOAT] = complex_float,
    [TD_PRIM_COMPLEX_PARTS] = complex_parts,
    [TD_PRIM_REAL] = real,
    [TD_PRIM_IMAG] = imag,

    [TD_PRIM_NOT] = not_,
    [TD_PRIM_AND_BOOL] = and_bool,
    [TD_PRIM_OR_BOOL] = or_bool,
    [TD_PRIM_XOR_BOOL] = xor_bool,
    [TD_PRIM_BOOL_INT] = bool_int,
    [TD_PRIM_BOOL_FLOAT] = bool_float,
    [TD_PRIM_BOOL_STR] = bool_box,
    [TD_PRIM_BOOL_LIST] = bool_box,

    [TD_PRIM_EQ_INT] = eq,
    [TD_PRIM_EQ_FLOAT] = eq,
    [TD_PRIM_EQ_BOOL] = eq,
    [TD_PRIM_EQ_COMPLEX] = eq,
    [TD_PRIM_EQ_STR] = eq,
    [TD_PRIM_EQ_DTYPE] = eq,
    [TD_PRIM_EQ_DEVICE] = eq,
    [TD_PRIM_NE_INT] = ne,
    [TD_PRIM_NE_FLOAT] = ne,
    [TD_PRIM_NE_BOOL] = ne,
    [TD_PRIM_NE_COMPLEX] = ne,
    [TD_PRIM_NE_STR] = ne,
    [TD_PRIM_NE_DTYPE] = ne,
    [TD_PRIM_NE_DEVICE] = ne,
    [TD_PRIM_LT_INT] = lt_int,
    [TD_PRIM_LT_FLOAT] = lt_float,
    [TD_PRIM_LT_STR] = lt_str,
    [TD_PRIM_LE_INT] = le_int,
    [TD_PRIM_LE_FLOAT] = le_float,
    [TD_PRIM_LE_STR] = le_str,
    [TD_PRIM_GT_INT] = gt_int,
    [TD_PRIM_GT_FLOAT] = gt_float,
    [TD_PRIM_GT_STR] = gt_str,
    [TD_PRIM_GE_INT] = ge_int,
    [TD_PRIM_GE_FLOAT] = ge_float,
    [TD_PRIM_GE_STR] = ge_str,
};
