/* The pointwise ops against plain loops in double, for every layout, and the accuracy of the elementary functions. */
#include "daemon/kernels/cpu/vec/special.h"
#include "pointwise_support.h"
#include <complex.h>
#include <float.h>

typedef double (*real_fn)(const double *v);
typedef int64_t (*int_fn)(const int64_t *v);

#define R(name, expr)                                                                                                  \
    static double r_##name(const double *v)                                                                            \
    {                                                                                                                  \
        return expr;                                                                                                   \
    }
#undef I /* of complex.h */
#define I(name, expr)                                                                                                  \
    static int64_t i_##name(const int64_t *v)                                                                          \
    {                                                                                                                  \
        (void)v;                                                                                                       \
        return expr;                                                                                                   \
    }
R(neg, -v[0])
R(abs, fabs(v[0]))
R(sign, (v[0] > 0) - (v[0] < 0))
R(exp, exp(v[0]))
R(exp2, exp2(v[0]))
R(expm1, expm1(v[0]))
R(log, log(v[0]))
R(log2, log2(v[0]))
R(log10, log10(v[0]))
R(log1p, log1p(v[0]))
R(sqrt, sqrt(v[0]))
R(rsqrt, 1 / sqrt(v[0]))
R(reciprocal, 1 / v[0])
R(square, v[0] * v[0])
R(sin, sin(v[0]))
R(cos, cos(v[0]))
R(tan, tan(v[0]))
R(asin, asin(v[0]))
R(acos, acos(v[0]))
R(atan, atan(v[0]))
R(sinh, sinh(v[0]))
R(cosh, cosh(v[0]))
R(tanh, tanh(v[0]))
R(asinh, asinh(v[0]))
R(acosh, acosh(v[0]))
R(atanh, atanh(v[0]))
R(sigmoid, 1 / (1 + exp(-v[0])))
R(erf, erf(v[0]))
R(erfc, erfc(v[0]))
R(floor, floor(v[0]))
R(ceil, ceil(v[0]))
R(round, nearbyint(v[0]))
R(trunc, trunc(v[0]))
R(isnan, v[0] != v[0])
R(isinf, isinf(v[0]) != 0)
R(isfinite, isfinite(v[0]) != 0)
R(logical_not, v[0] == 0)
R(conj, v[0])
R(relu, v[0] <= 0 ? 0 : v[0])
R(silu, v[0] / (1 + exp(-v[0])))
R(mish, v[0] * tanh(log1p(exp(v[0]))))
R(leaky_relu, v[0] > 0 ? v[0] : 0.01 * v[0])
R(elu, v[0] > 0 ? v[0] : expm1(v[0]))
R(gelu, isinf(v[0]) ? (v[0] > 0 ? v[0] : NAN) : v[0] * 0.5 * erfc(-v[0] * M_SQRT1_2))
R(softplus, v[0] > 20 ? v[0] : log1p(exp(v[0])))
R(hardtanh, v[0] != v[0] ? v[0] : fmin(fmax(v[0], -1), 1))
R(add, v[0] + v[1])
R(sub, v[0] - v[1])
R(mul, v[0] * v[1])
R(div, v[0] / v[1])
R(floor_divide, floor(v[0] / v[1]))
R(trunc_divide, trunc(v[0] / v[1]))
R(remainder, v[0] - v[1] * floor(v[0] / v[1]))
R(fmod, fmod(v[0], v[1]))
R(pow, pow(v[0], v[1]))
R(atan2, atan2(v[0], v[1]))
R(signbit, signbit(v[0]) != 0)
R(copysign, copysign(v[0], v[1]))
R(hypot, hypot(v[0], v[1]))
R(logaddexp, v[0] == v[1]  ? v[0] + M_LN2
             : v[0] > v[1] ? v[0] + log1p(exp(v[1] - v[0]))
                           : v[1] + log1p(exp(v[0] - v[1])))
R(nextafter, nextafterf((float)v[0], (float)v[1]))
R(maximum, v[0] != v[0] || v[1] != v[1] ? NAN : fmax(v[0], v[1]))
R(minimum, v[0] != v[0] || v[1] != v[1] ? NAN : fmin(v[0], v[1]))
R(eq, v[0] == v[1])
R(ne, v[0] != v[1])
R(lt, v[0] < v[1])
R(le, v[0] <= v[1])
R(gt, v[0] > v[1])
R(ge, v[0] >= v[1])
R(logical_and, v[0] && v[1])
R(logical_or, v[0] || v[1])
R(logical_xor, !v[0] != !v[1])
R(where, v[0] ? v[1] : v[2])
R(clamp, v[0])
R(lerp, v[0] + v[2] * (v[1] - v[0]))
R(addcmul, v[0] + v[1] * v[2])
R(addcdiv, v[0] + v[1] / v[2])
R(masked_fill, v[1] ? v[2] : v[0])
R(sigmoid_backward, v[0] * (1 - v[1]) * v[1])
R(tanh_backward, v[0] * (1 - v[1] * v[1]))
R(gelu_backward, v[0] * (0.5 * erfc(-v[1] * M_SQRT1_2) + v[1] * exp(-0.5 * v[1] * v[1]) / sqrt(2 * M_PI)))
R(threshold_backward, v[1] <= 0 ? 0 : v[0])

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b && (a < 0) != (b < 0) ? q - 1 : q;
}
static int64_t power(int64_t a, int64_t b)
{
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    uint64_t r = 1;
    while (b-- > 0) r *= (uint64_t)a;
    return (int64_t)r;
}
I(neg, -v[0])
I(abs, v[0] < 0 ? -v[0] : v[0])
I(sign, (v[0] > 0) - (v[0] < 0))
I(square, v[0] * v[0])
I(same, v[0])
I(isfinite, 1)
I(isnan, 0)
I(signbit, v[0] < 0)
I(logical_not, !v[0])
I(bitwise_not, ~v[0])
I(relu, v[0] > 0 ? v[0] : 0)
I(add, v[0] + v[1])
I(sub, v[0] - v[1])
I(mul, v[0] * v[1])
I(floor_divide, floor_div(v[0], v[1]))
I(trunc_divide, v[0] / v[1])
I(remainder, v[0] - v[1] * floor_div(v[0], v[1]))
I(fmod, v[0] % v[1])
I(pow, power(v[0], v[1]))
I(maximum, v[0] > v[1] ? v[0] : v[1])
I(minimum, v[0] < v[1] ? v[0] : v[1])
I(eq, v[0] == v[1])
I(ne, v[0] != v[1])
I(lt, v[0] < v[1])
I(le, v[0] <= v[1])
I(gt, v[0] > v[1])
I(ge, v[0] >= v[1])
I(logical_and, v[0] && v[1])
I(logical_or, v[0] || v[1])
I(logical_xor, !v[0] != !v[1])
I(bitwise_and, v[0] & v[1])
I(bitwise_or, v[0] | v[1])
I(bitwise_xor, v[0] ^ v[1])
I(bitwise_left_shift, (uint64_t)v[1] > 63 ? 0 : (int64_t)((uint64_t)v[0] << v[1]))
I(bitwise_right_shift, v[0] >> ((uint64_t)v[1] > 63 ? 63 : v[1]))
I(where, v[0] ? v[1] : v[2])
I(masked_fill, v[1] ? v[2] : v[0])
I(addcmul, v[0] + v[1] * v[2])

enum { TO_BOOL = 1, NO_ZERO = 2, FIRST_BOOL = 4, SECOND_BOOL = 8, BOOLS = 16, POSITIVE = 32 };
static const struct row {
    const char *name;
    int nin;
    real_fn real;
    int_fn integer;
    int flags; /* NO_ZERO: the last input has no zeros; BOOLS: bool as well */
} rows[] = {
    {"neg", 1, r_neg, i_neg, 0},
    {"abs", 1, r_abs, i_abs, 0},
    {"sign", 1, r_sign, i_sign, 0},
    {"exp", 1, r_exp, NULL, 0},
    {"exp2", 1, r_exp2, NULL, 0},
    {"expm1", 1, r_expm1, NULL, 0},
    {"log", 1, r_log, NULL, 0},
    {"log2", 1, r_log2, NULL, 0},
    {"log10", 1, r_log10, NULL, 0},
    {"log1p", 1, r_log1p, NULL, 0},
    {"sqrt", 1, r_sqrt, NULL, 0},
    {"rsqrt", 1, r_rsqrt, NULL, 0},
    {"reciprocal", 1, r_reciprocal, NULL, 0},
    {"square", 1, r_square, i_square, 0},
    {"sin", 1, r_sin, NULL, 0},
    {"cos", 1, r_cos, NULL, 0},
    {"tan", 1, r_tan, NULL, 0},
    {"asin", 1, r_asin, NULL, 0},
    {"acos", 1, r_acos, NULL, 0},
    {"atan", 1, r_atan, NULL, 0},
    {"sinh", 1, r_sinh, NULL, 0},
    {"cosh", 1, r_cosh, NULL, 0},
    {"tanh", 1, r_tanh, NULL, 0},
    {"asinh", 1, r_asinh, NULL, 0},
    {"acosh", 1, r_acosh, NULL, 0},
    {"atanh", 1, r_atanh, NULL, 0},
    {"sigmoid", 1, r_sigmoid, NULL, 0},
    {"erf", 1, r_erf, NULL, 0},
    {"erfc", 1, r_erfc, NULL, 0},
    {"floor", 1, r_floor, i_same, 0},
    {"ceil", 1, r_ceil, i_same, 0},
    {"round", 1, r_round, i_same, 0},
    {"trunc", 1, r_trunc, i_same, 0},
    {"isnan", 1, r_isnan, i_isnan, TO_BOOL},
    {"isinf", 1, r_isinf, i_isnan, TO_BOOL},
    {"isfinite", 1, r_isfinite, i_isfinite, TO_BOOL},
    {"logical_not", 1, r_logical_not, i_logical_not, TO_BOOL | BOOLS},
    {"signbit", 1, r_signbit, i_signbit, TO_BOOL},
    {"bitwise_not", 1, NULL, i_bitwise_not, 0},
    {"conj", 1, r_conj, i_same, 0},
    {"relu", 1, r_relu, i_relu, 0},
    {"silu", 1, r_silu, NULL, 0},
    {"mish", 1, r_mish, NULL, 0},
    {"leaky_relu", 1, r_leaky_relu, NULL, 0},
    {"elu", 1, r_elu, NULL, 0},
    {"gelu", 1, r_gelu, NULL, 0},
    {"softplus", 1, r_softplus, NULL, 0},
    {"hardtanh", 1, r_hardtanh, NULL, 0},
    {"add", 2, r_add, i_add, BOOLS},
    {"sub", 2, r_sub, i_sub, 0},
    {"mul", 2, r_mul, i_mul, BOOLS},
    {"div", 2, r_div, NULL, 0},
    {"floor_divide", 2, r_floor_divide, i_floor_divide, NO_ZERO},
    {"trunc_divide", 2, r_trunc_divide, i_trunc_divide, NO_ZERO},
    {"remainder", 2, r_remainder, i_remainder, NO_ZERO},
    {"fmod", 2, r_fmod, i_fmod, NO_ZERO},
    {"pow", 2, r_pow, i_pow, 0},
    {"atan2", 2, r_atan2, NULL, 0},
    {"copysign", 2, r_copysign, NULL, 0},
    {"hypot", 2, r_hypot, NULL, 0},
    {"logaddexp", 2, r_logaddexp, NULL, 0},
    {"maximum", 2, r_maximum, i_maximum, BOOLS},
    {"minimum", 2, r_minimum, i_minimum, BOOLS},
    {"eq", 2, r_eq, i_eq, TO_BOOL | BOOLS},
    {"ne", 2, r_ne, i_ne, TO_BOOL | BOOLS},
    {"lt", 2, r_lt, i_lt, TO_BOOL | BOOLS},
    {"le", 2, r_le, i_le, TO_BOOL | BOOLS},
    {"gt", 2, r_gt, i_gt, TO_BOOL | BOOLS},
    {"ge", 2, r_ge, i_ge, TO_BOOL | BOOLS},
    {"logical_and", 2, r_logical_and, i_logical_and, TO_BOOL | BOOLS},
    {"logical_or", 2, r_logical_or, i_logical_or, TO_BOOL | BOOLS},
    {"logical_xor", 2, r_logical_xor, i_logical_xor, TO_BOOL | BOOLS},
    {"bitwise_and", 2, NULL, i_bitwise_and, BOOLS},
    {"bitwise_or", 2, NULL, i_bitwise_or, BOOLS},
    {"bitwise_xor", 2, NULL, i_bitwise_xor, BOOLS},
    {"bitwise_left_shift", 2, NULL, i_bitwise_left_shift, 0},
    {"bitwise_right_shift", 2, NULL, i_bitwise_right_shift, 0},
    {"where", 3, r_where, i_where, FIRST_BOOL | BOOLS},
    {"clamp", 1, r_clamp, i_same, 0},
    {"lerp", 3, r_lerp, NULL, 0},
    {"addcmul", 3, r_addcmul, i_addcmul, 0},
    {"addcdiv", 3, r_addcdiv, NULL, NO_ZERO},
    {"masked_fill", 3, r_masked_fill, i_masked_fill, SECOND_BOOL | BOOLS},
    {"sigmoid_backward", 2, r_sigmoid_backward, NULL, 0},
    {"tanh_backward", 2, r_tanh_backward, NULL, 0},
    {"gelu_backward", 2, r_gelu_backward, NULL, 0},
    {"threshold_backward", 2, r_threshold_backward, NULL, 0},
};

static double tolerance(td_dtype t)
{
    return t == TD_FLOAT16 ? 0x1p-10 : t == TD_BFLOAT16 ? 0x1p-7 : t == TD_FLOAT32 ? 1e-6 : 1e-13;
}
/* `terms`: how large what was added up is, which may have cancelled. */
static bool close_to(double got, double want, td_dtype t, double terms)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return want == got || (t == TD_FLOAT16 && fabs(want) > 65000 && fabs(got) > 65000);
    return fabs(got - want) <= tolerance(t) * (fabs(want) + terms + 0.02);
}

/* Does element i of the result fit the reference? */
static bool element_fits(const struct row *r, const box *in, const box *out, td_dtype compute, int64_t i)
{
    double v[3] = {0};
    int64_t n[3] = {0};
    for (int k = 0; k < r->nin; k++) {
        int64_t j = box_broadcast(&in[k], &out->d, i);
        v[k] = box_real(&in[k], j);
        n[k] = (int64_t)v[k];
    }
    if (td_dtype_is_float(compute)) {
        double want = r->real(v);
        if (out->d.dtype == TD_FLOAT32 && compute == TD_FLOAT64) want = (float)want;
        td_dtype t = td_dtype_is_float(out->d.dtype) && out->d.dtype < compute ? out->d.dtype : compute;
        return close_to(box_real(out, i), want, t, r->nin == 3 ? fabs(v[0]) : 0);
    }
    int64_t want = r->integer(n);
    _Alignas(16) unsigned char bytes[16] = {0};
    td_scalar s = td_int(want);
    if (r->flags & TO_BOOL || compute == TD_BOOL) s = td_bool(want != 0);
    td_scalar_store(s, compute, bytes);
    s = r->flags & TO_BOOL ? s : td_scalar_load(compute, bytes);
    return box_real(out, i) == (double)s.i;
}

/* A shape, and a shape that broadcasts to it. */
static int some_shape(int64_t *shape)
{
    int nd = (int)random_below(5);
    int64_t limit = nd == 1 ? 3000 : nd == 2 ? 90 : nd == 3 ? 14 : 7;
    for (int i = 0; i < nd; i++) shape[i] = random_below(16) == 0 ? 0 : 1 + random_below(limit);
    return nd;
}
static box some_input(td_dtype t, int nd, const int64_t *shape)
{
    int64_t s[TD_MAX_DIMS];
    int drop = random_below(4) == 0 && nd ? (int)random_below(nd + 1) : 0;
    for (int i = drop; i < nd; i++) s[i - drop] = random_below(8) == 0 ? 1 : shape[i];
    return box_new(t, nd - drop, s, (int)random_below(BOX_LAYOUTS));
}

static void check_op(const struct row *r, td_dtype compute)
{
    int64_t shape[TD_MAX_DIMS];
    int nd = some_shape(shape);
    call c;
    box in[3], out;
    call_begin(&c, r->name, compute);
    for (int k = 0; k < r->nin; k++) {
        bool truth = (r->flags & FIRST_BOOL && k == 0) || (r->flags & SECOND_BOOL && k == 1);
        td_dtype t = truth ? TD_BOOL : compute;
        /* another input dtype: an integer where floats are computed, a float64 number */
        if (!truth && td_dtype_is_float(compute) && random_below(6) == 0) t = TD_INT16;
        if (!truth && compute == TD_INT64 && random_below(6) == 0) t = TD_UINT8;
        in[k] = some_input(t, nd, shape);
        box_fill(&in[k]);
        if (r->flags & NO_ZERO && k == r->nin - 1)
            for (int64_t i = 0; i < box_numel(&in[k]); i++)
                if (box_real(&in[k], i) == 0) box_set(&in[k], i, 1);
        call_in(&c, &in[k]);
    }
    td_dtype result = r->flags & TO_BOOL ? TD_BOOL : compute;
    if (random_below(4) == 0 && compute == TD_FLOAT64) result = TD_FLOAT32;
    if (random_below(4) == 0 && td_dtype_is_integral(result)) result = random_below(2) ? TD_FLOAT64 : TD_INT64;
    out = box_new(result, nd, shape, (int)random_below(EXPANDED));
    call_out(&c, &out);
    int code = call_run(&c);
    CU_ASSERT_EQUAL(code, 0);
    int64_t wrong = 0, first = -1;
    for (int64_t i = 0; i < box_numel(&out) && !code; i++)
        if (!element_fits(r, in, &out, compute, i) && ++wrong == 1) first = i;
    CU_ASSERT_EQUAL(wrong, 0);
    if (code) printf("%s of %s: %s\n", r->name, td_dtype_name(compute), c.e.message);
    if (wrong) {
        double v[3] = {0};
        for (int k = 0; k < r->nin; k++) v[k] = box_real(&in[k], box_broadcast(&in[k], &out.d, first));
        printf("%s of %s -> %s: element %d of %d (%d wrong): (%.9g %.9g %.9g) gave %.9g\n", r->name,
               td_dtype_name(compute), td_dtype_name(result), (int)first, (int)box_numel(&out), (int)wrong, v[0], v[1],
               v[2], box_real(&out, first));
    }
    for (int k = 0; k < r->nin; k++) box_free(&in[k]);
    box_free(&out);
}

static void all_ops(void)
{
    static const td_dtype floats[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16};
    static const td_dtype ints[] = {TD_INT64, TD_INT32, TD_INT16, TD_INT8, TD_UINT8, TD_UINT16, TD_UINT32, TD_UINT64};
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const struct row *r = &rows[i];
            for (int round = 0; round < 16; round++) {
                if (r->real) check_op(r, floats[round % 4]);
                if (r->integer) check_op(r, ints[round % 5]);
                if (r->integer && r->flags & BOOLS) check_op(r, TD_BOOL);
            }
        }
    }
    td_isa_use(td_isa_level());
}

/* Run a unary op on an array of floats. */
static void apply(const char *name, int64_t n, const float *x, float *y)
{
    call c;
    td_desc d = {.shape = {n}, .stride = {1}, .dtype = TD_FLOAT32, .ndim = 1};
    call_begin(&c, name, TD_FLOAT32);
    c.in[0] = (td_karg){(void *)x, &d};
    c.out[0] = (td_karg){y, &d};
    c.k.nin = c.k.nout = 1;
    if (!strcmp(name, "polygamma")) call_attr(&c, 0, A_INT(1));
    CU_ASSERT_EQUAL(call_run_plainly(&c), 0);
}

/* Largest error over a range, sampled evenly in value and in bits. */
static double worst(const char *name, real_fn f, double from, double to, double *at)
{
    enum { N = 200000 };
    static float x[N], y[N];
    double max = 0;
    for (int i = 0; i < N; i++) {
        double v = i & 1 ? from + (to - from) * random_unit() : 0;
        if (!(i & 1)) { /* log-uniform magnitude within the range */
            double big = fmax(fabs(from), fabs(to)), m = big * exp2(-40 * random_unit());
            v = random_below(2) ? m : -m;
            if (v < from || v > to) v = from + (to - from) * random_unit();
        }
        x[i] = (float)v;
    }
    apply(name, N, x, y);
    for (int i = 0; i < N; i++) {
        double v = x[i], u = ulps(y[i], f(&v));
        if (u > max) {
            max = u;
            *at = v;
        }
    }
    return max;
}

static void accuracy(void)
{
    static const struct {
        const char *name;
        real_fn f;
        double from, to, limit;
    } t[] = {
        {"exp", r_exp, -104, 89, 2},
        {"exp2", r_exp2, -150, 129, 1.5},
        {"expm1", r_expm1, -20, 88, 1},
        {"log", r_log, 1e-44, 3e38, 2},
        {"log", r_log, 0.5, 2, 2},
        {"log2", r_log2, 1e-44, 3e38, 1},
        {"log10", r_log10, 0.1, 10, 1},
        {"log1p", r_log1p, -0.999, 1e6, 1},
        {"tanh", r_tanh, -10, 10, 3},
        {"sigmoid", r_sigmoid, -87, 20, 4},
        {"erf", r_erf, -5, 5, 3},
        {"erfc", r_erfc, -3, 10, 5},
        {"gelu", r_gelu, -12, 12, 5},
        {"sin", r_sin, -1e4, 1e4, 1},
        {"cos", r_cos, -1e4, 1e4, 1},
        {"sin", r_sin, -4e6, 4e6, 1},
        {"cos", r_cos, -1e30, 1e30, 1},
        {"tan", r_tan, -1e3, 1e3, 1},
        {"asin", r_asin, -1, 1, 1},
        {"acos", r_acos, -1, 1, 1},
        {"atan", r_atan, -1e6, 1e6, 1},
        {"sinh", r_sinh, -88, 88, 1},
        {"cosh", r_cosh, -88, 88, 1},
        {"asinh", r_asinh, -1e6, 1e6, 1},
        {"acosh", r_acosh, 1, 1e6, 1},
        {"atanh", r_atanh, -1, 1, 1},
        {"rsqrt", r_rsqrt, 1e-30, 1e30, 1.6},
        {"silu", r_silu, -80, 80, 5},
        {"softplus", r_softplus, -87, 30, 3},
        {"mish", r_mish, -20, 20, 8},
    };
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
            double at = 0, u = worst(t[i].name, t[i].f, t[i].from, t[i].to, &at);
            CU_ASSERT(u <= t[i].limit);
            if (u > t[i].limit || level == 2)
                printf("    %-8s [%g, %g]: %.2f ulp at %.9g\n", t[i].name, t[i].from, t[i].to, u, at);
        }
    }
    td_isa_use(td_isa_level());
}

/* The special functions of floats, which are worked out in vectors, beside those of doubles. */
#define SPECIALS(F)                                                                                                    \
    F(lgamma)                                                                                                          \
    F(digamma)                                                                                                         \
    F(trigamma)                                                                                                        \
    F(erfinv)                                                                                                          \
    F(ndtri)                                                                                                           \
    F(erfcx)                                                                                                           \
    F(log_ndtr)                                                                                                        \
    F(i0)                                                                                                              \
    F(i0e) F(i1) F(i1e) F(k0) F(k1) F(k0e) F(k1e) F(bessel_j0) F(bessel_j1) F(bessel_y0) F(bessel_y1) F(spherical_j0)
#define R_SPECIAL(NAME) R(NAME, td_##NAME##_f64(v[0]))
SPECIALS(R_SPECIAL)
R(mantissa, frexp(v[0], &(int){0}))

static double r_exponent(const double *v)
{
    int e = 0;
    (void)frexp(v[0], &e);
    return isfinite(v[0]) ? e : 0;
}

static const struct special {
    const char *name;
    real_fn f;
    double from, to;
    double near; /* an error of so much is none: beside zeros that lie between two floats */
} specials[] = {
    {"lgamma", r_lgamma, 1e-30, 1e36, 0},
    {"lgamma", r_lgamma, 0.3, 12, 0},
    {"lgamma", r_lgamma, -60, 0, 2e-14},
    {"digamma", r_digamma, 1e-30, 1e30, 0},
    {"digamma", r_digamma, 0.2, 12, 4e-15},
    {"digamma", r_digamma, -40, 0, 1e-13},
    {"polygamma", r_trigamma, 1e-18, 1e30, 0},
    {"polygamma", r_trigamma, -40, 12, 0},
    {"erfinv", r_erfinv, -1, 1, 0},
    {"erfinv", r_erfinv, 0.999, 1, 0},
    {"ndtri", r_ndtri, 0, 1, 0},
    {"ndtri", r_ndtri, 0, 1e-30, 0},
    {"erfcx", r_erfcx, -9.3, 30, 0},
    {"erfcx", r_erfcx, 0, 1e30, 0},
    {"log_ndtr", r_log_ndtr, -40, 14, 0},
    {"log_ndtr", r_log_ndtr, -1e10, 0, 0},
    {"i0", r_i0, -91, 91, 0},
    {"i0e", r_i0e, -1e6, 1e6, 0},
    {"i0e", r_i0e, -12, 12, 0},
    {"i1", r_i1, -91, 91, 0},
    {"i1e", r_i1e, -1e6, 1e6, 0},
    {"i1e", r_i1e, -12, 12, 0},
    {"modified_bessel_k0", r_k0, 1e-30, 85, 0},
    {"modified_bessel_k1", r_k1, 1e-30, 85, 0},
    {"scaled_modified_bessel_k0", r_k0e, 1e-30, 1e30, 0},
    {"scaled_modified_bessel_k1", r_k1e, 1e-30, 1e30, 0},
    {"scaled_modified_bessel_k0", r_k0e, 0, 4, 0},
    {"scaled_modified_bessel_k1", r_k1e, 0, 4, 0},
    {"bessel_j0", r_bessel_j0, -12, 12, 4e-15},
    {"bessel_j0", r_bessel_j0, -1e4, 1e4, 2e-13},
    {"bessel_j0", r_bessel_j0, -1e8, 1e8, 2e-13},
    {"bessel_j1", r_bessel_j1, -12, 12, 4e-15},
    {"bessel_j1", r_bessel_j1, -1e4, 1e4, 2e-13},
    {"bessel_j1", r_bessel_j1, -1e8, 1e8, 2e-13},
    {"bessel_y0", r_bessel_y0, 1e-30, 12, 4e-15},
    {"bessel_y0", r_bessel_y0, 1, 1e4, 2e-13},
    {"bessel_y1", r_bessel_y1, 1e-30, 12, 4e-15},
    {"bessel_y1", r_bessel_y1, 1, 1e8, 2e-13},
    {"spherical_bessel_j0", r_spherical_j0, -20, 20, 1e-14},
    {"spherical_bessel_j0", r_spherical_j0, -1e8, 1e8, 1e-16},
    {"frexp_mantissa", r_mantissa, -1e-38, 1e-38, 0},
    {"frexp_mantissa", r_mantissa, -1e38, 1e38, 0},
    {"frexp_exponent", r_exponent, -1e-38, 1e-38, 0},
    {"frexp_exponent", r_exponent, -1e38, 1e38, 0},
};

static void special_functions(void)
{
    enum { N = 40000, ENDS = 26 };
    static float x[N + ENDS], y[N + ENDS];
    static const float ends[ENDS] = {0.0f,       -0.0f,       INFINITY,  -INFINITY,  NAN,           FLT_MAX, -FLT_MAX,
                                     0x1p-126f,  -0x1p-126f,  0x1p-149f, -0x1p-149f, 1.0f,          -1.0f,   2.0f,
                                     -2.0f,      8.0f,        -8.0f,     0.5f,       0.85f,         2.5f,    0.75f,
                                     4194304.0f, -4194304.0f, 1e30f,     -0.5f,      0x1.fffffep-1f};
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
            const struct special *s = &specials[i];
            double big = fmax(fabs(s->from), fabs(s->to)), most = 0, at = 0;
            for (int j = 0; j < N + ENDS; j++) {
                double v = big * exp2(-40 * random_unit()) * (random_below(2) ? 1 : -1);
                if (j & 1 || v < s->from || v > s->to) v = s->from + (s->to - s->from) * random_unit();
                x[j] = j < N ? (float)v : ends[j - N];
            }
            apply(s->name, N + ENDS, x, y);
            int other = 0; /* bits, where the same numbers come in pieces */
            for (int j = 0, n; j < N + ENDS; j += n) {
                float part[100];
                n = 1 + (int)random_below(j < 3000 || j > N ? 40 : 100);
                if (n > N + ENDS - j) n = N + ENDS - j;
                apply(s->name, n, x + j, part);
                for (int m = 0; m < n; m++)
                    other += memcmp(&part[m], &y[j + m], 4) && !(isnan(part[m]) && isnan(y[j + m]));
            }
            CU_ASSERT_EQUAL(other, 0);
            if (other) printf("    %s: %d of other bits in pieces (set %d)\n", s->name, other, level);
            for (int j = 0; j < N + ENDS; j++) {
                double v = x[j], want = s->f(&v), u = fabs(y[j] - want) <= s->near ? 0 : ulps(y[j], want);
                if (u > most) most = u, at = v;
            }
            CU_ASSERT(most <= 0.6);
            if (most > 0.6 || level == 2)
                printf("    %-25s [%g, %g]: %.2f ulp at %.9g (set %d)\n", s->name, s->from, s->to, most, at, level);
        }
    }
    td_isa_use(td_isa_level());
}

static void special_values(void)
{
    static const float x[] = {0.0f,  -0.0f,     INFINITY,   -INFINITY, NAN,      1.0f,
                              -1.0f, 0x1p-149f, -0x1p-149f, FLT_MAX,   -FLT_MAX, 0x1p-126f};
    enum { N = sizeof x / sizeof *x };
    static const struct {
        const char *name;
        real_fn f;
    } t[] = {{"exp", r_exp},           {"exp2", r_exp2},   {"expm1", r_expm1}, {"log", r_log},
             {"log2", r_log2},         {"log10", r_log10}, {"log1p", r_log1p}, {"sqrt", r_sqrt},
             {"sin", r_sin},           {"cos", r_cos},     {"tan", r_tan},     {"asin", r_asin},
             {"acos", r_acos},         {"atan", r_atan},   {"sinh", r_sinh},   {"cosh", r_cosh},
             {"tanh", r_tanh},         {"asinh", r_asinh}, {"acosh", r_acosh}, {"atanh", r_atanh},
             {"sigmoid", r_sigmoid},   {"erf", r_erf},     {"erfc", r_erfc},   {"relu", r_relu},
             {"floor", r_floor},       {"round", r_round}, {"gelu", r_gelu},   {"reciprocal", r_reciprocal},
             {"hardtanh", r_hardtanh}, {"silu", r_silu},   {"mish", r_mish}};
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
            float y[N];
            apply(t[i].name, N, x, y);
            for (int j = 0; j < N; j++) {
                double v = x[j], want = t[i].f(&v);
                bool ok = ulps(y[j], want) <= 5 &&
                          (want != 0 || y[j] != 0 || !signbit(want) == !signbit(y[j]) || !strcmp(t[i].name, "relu"));
                CU_ASSERT(ok);
                if (!ok) printf("%s(%g) = %g, not %g (set %d)\n", t[i].name, x[j], y[j], want, level);
            }
        }
    }
    td_isa_use(td_isa_level());
}

/* gelu and its gradient, by the distribution and by tanh. An infinite x makes NaN of what is 0 * inf. */
static double gelu_reference(double x, bool tanh, bool gradient)
{
    double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), s = 1 / (1 + exp(-2 * u));
    double slope = sqrt(2 / M_PI) * (1 + 0.134145 * x * x), v[2] = {1, x};
    if (!tanh) return gradient ? r_gelu_backward(v) : r_gelu(&x);
    return gradient ? s + 2 * x * s * (1 - s) * slope : x * s;
}

/* Every number of 16 bits, as itself and as a float. */
static void gelus(void)
{
    enum { N = 65536 };
    const int64_t n = N;
    for (int t = TD_FLOAT16; t <= TD_BFLOAT16; t++)
        for (int way = 0; way < 8; way++) {
            bool tanh = way & 1, gradient = way & 2;
            td_dtype of = way & 4 ? TD_FLOAT32 : (td_dtype)t;
            box x = box_new((td_dtype)t, 1, &n, ROW_MAJOR), in = box_new(of, 1, &n, ROW_MAJOR),
                g = box_new(of, 1, &n, ROW_MAJOR), y = box_new(of, 1, &n, ROW_MAJOR);
            for (int i = 0; i < N; i++) ((uint16_t *)x.data)[i] = (uint16_t)i;
            for (int i = 0; i < N; i++) box_set(&in, i, box_real(&x, i)), box_set(&g, i, 1);
            call c;
            call_begin(&c, gradient ? "gelu_backward" : "gelu", of);
            call_attr(&c, 0, A_BOOL(tanh));
            if (gradient) call_in(&c, &g);
            call_in(&c, &in);
            call_out(&c, &y);
            CU_ASSERT_EQUAL(call_run(&c), 0);
            int wrong = 0;
            double unit = of == TD_FLOAT32 ? 2e-6 : of == TD_FLOAT16 ? 0x1p-10 : 0x1p-8;
            for (int i = 0; i < N; i++) {
                double v = box_real(&in, i), want = gelu_reference(v, tanh, gradient), got = box_real(&y, i);
                bool ok = isnan(want) ? isnan(got) : got == want || fabs(got - want) <= unit * fabs(want) + 1e-6;
                if (!ok && !wrong++)
                    printf("%s of %s, tanh %d: at %g %g, not %g\n", gradient ? "gelu_backward" : "gelu",
                           td_dtype_name(of), tanh, v, got, want);
            }
            CU_ASSERT_EQUAL(wrong, 0);
            box_free(&x);
            box_free(&in);
            box_free(&g);
            box_free(&y);
        }
}

/* Complex numbers that are not finite, and at 0: each part as infinite, or NaN, as these facts (of PyTorch 2) say. */
static void special_complex(void)
{
    static const double inf = INFINITY, nan = NAN;
    static const struct {
        const char *name;
        double a, b, re, im;
    } facts[] = {{"abs", 3, 4, 5, 0},
                 {"abs", -inf, nan, inf, 0},
                 {"abs", nan, 1, nan, 0},
                 {"sign", 0, 0, 0, 0},
                 {"sign", 3, -4, 0.6, -0.8},
                 {"conj", inf, nan, inf, nan},
                 {"isnan", nan, 1, 1, 0},
                 {"isnan", 1, nan, 1, 0},
                 {"isnan", inf, 1, 0, 0},
                 {"isinf", -inf, 1, 1, 0},
                 {"isinf", nan, -inf, 1, 0},
                 {"isinf", nan, 1, 0, 0},
                 {"isfinite", 1, -2, 1, 0},
                 {"isfinite", inf, 1, 0, 0},
                 {"isfinite", 1, nan, 0, 0},
                 {"isfinite", nan, 1, 0, 0},
                 {"isfinite", 1, -inf, 0, 0},
                 {"sigmoid", 0, 0, 0.5, 0},
                 {"exp", -inf, 1, 0, 0},
                 {"exp", 0, 0, 1, 0},
                 {"sqrt", -4, 0, 0, 2},
                 {"sqrt", inf, 1, inf, 0},
                 {"log", 1, 0, 0, 0},
                 {"log", 0, 1, 0, 1.5707963267948966},
                 {"log1p", 0x1p-30, 0x1p-20, 9.3177732153183687e-10, 9.5367431551778246e-07},
                 {"log1p", -0x1p-12, 0x1p-5, 0.00024411082752736271, 0.031247457240953662},
                 {"log1p", 0x1p-20, -0.375, 0.065789014992090081, -0.35877035673407281},
                 {"log1p", inf, 1, inf, 0},
                 {"log1p", -1, 0, -inf, 0},
                 {"expm1", 0x1p-30, 0x1p-20, 9.3086782769784944e-10, 9.5367431729428386e-07},
                 {"expm1", -0x1p-12, 0x1p-5, -0.00073223315492737145, 0.031237286763592855},
                 {"expm1", 0x1p-20, -0.375, -0.069491490686042325, -0.36627287839091792},
                 {"expm1", -inf, 1, -1, 0},
                 {"expm1", 2, inf, nan, nan},
                 {"square", 1, 2, -3, 4},
                 {"square", nan, 1, nan, nan},
                 {"reciprocal", 0, 0, inf, nan},
                 {"reciprocal", 0, 2, 0, -0.5},
                 {"reciprocal", inf, 1, 0, -0.0}};
    const int64_t one = 1;
    for (int t = TD_COMPLEX64; t <= TD_COMPLEX128; t++)
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
            bool asks = !strncmp(facts[i].name, "is", 2), real = !strcmp(facts[i].name, "abs");
            td_dtype to = asks ? TD_BOOL : real ? td_dtype_real((td_dtype)t) : (td_dtype)t;
            box x = box_new((td_dtype)t, 1, &one, ROW_MAJOR), y = box_new(to, 1, &one, ROW_MAJOR);
            td_scalar_store(td_complex(facts[i].a, facts[i].b), (td_dtype)t, box_at(&x, 0));
            call c;
            call_begin(&c, facts[i].name, (td_dtype)t);
            call_in(&c, &x);
            call_out(&c, &y);
            CU_ASSERT_EQUAL(call_run(&c), 0);
            td_scalar s = box_get(&y, 0);
            double re = s.kind <= TD_S_INT ? (double)s.i : s.re, im = s.kind == TD_S_COMPLEX ? s.im : 0;
            bool ok = ulps((float)re, facts[i].re) <= 4 &&
                      (fabs(im - facts[i].im) < 1e-6 || ulps((float)im, facts[i].im) <= 4);
            if (!ok) printf("%s(%g, %g) = (%g, %g)\n", facts[i].name, facts[i].a, facts[i].b, re, im);
            CU_ASSERT(ok);
            box_free(&x);
            box_free(&y);
        }
}

/* Powers of complex numbers that are worked out as products, and those at 0. */
static void complex_powers(void)
{
    static const double inf = INFINITY, nan = NAN;
    static const double facts[][6] = {{nan, 1, 0, 0, 1, 0},
                                      {inf, 1, 1, 0, inf, 1},
                                      {1, 2, 2, 0, -3, 4},
                                      {1, 2, 3, 0, -11, -2},
                                      {0, 2, -1, 0, 0, -0.5},
                                      {-4, 0, 0.5, 0, 0, 2},
                                      {0, 0, 2.5, 0, 0, 0},
                                      {2, 0, 10, 0, 1024, 0},
                                      {0, 0, 0, 0, 1, 0},
                                      {0, 0, 1, 1, 0, 0},
                                      {0, 0, 2.5, 1, 0, 0},
                                      {0, 0, 3, 0, 0, 0},
                                      {2, 0, -1, 0, 0.5, 0},
                                      {2, 0, -2, 0, 0.25, 0},
                                      {1, 2, nan, 0, nan, nan},
                                      {1, 2, 0, nan, nan, nan},
                                      {1, 2, 1, nan, nan, nan},
                                      {1, 2, 0.5, nan, nan, nan},
                                      {1, 2, 3, 1, -2.04420180, -3.07815164},
                                      {1, 2, 2, -1, 2.42844775, 14.93241487},
                                      {1, 2, 0.5, 1, 0.10423305, 0.48309594},
                                      {1, 2, 1, 1, -0.24720004, 0.69645049},
                                      {1, 2, -1, 1, 0.14109608, -0.04402205},
                                      {1, 1, 0, 1, 0.42882901, 0.15487175},
                                      {nan, 0, -1, 0, nan, nan},
                                      {0, nan, -1, 0, nan, nan},
                                      {nan, 0, 2.5, 0, nan, nan},
                                      {0, 0, -1, 0, inf, nan},
                                      {0, 0, -2, 0, inf, nan},
                                      {0, 0, 0, 1, nan, nan},
                                      {0, 0, -1, 1, inf, nan},
                                      {0, 1, -1, 0, 0, -1},
                                      {0, 1, 4, 0, 1, 0}};
    const int64_t one = 1;
    for (int t = TD_COMPLEX64; t <= TD_COMPLEX128; t++)
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
            const double *f = facts[i];
            box x = box_new((td_dtype)t, 1, &one, ROW_MAJOR), y = box_new((td_dtype)t, 1, &one, ROW_MAJOR),
                z = box_new((td_dtype)t, 1, &one, ROW_MAJOR);
            td_scalar_store(td_complex(f[0], f[1]), (td_dtype)t, box_at(&x, 0));
            td_scalar_store(td_complex(f[2], f[3]), (td_dtype)t, box_at(&y, 0));
            call c;
            call_begin(&c, "pow", (td_dtype)t);
            call_in(&c, &x);
            call_in(&c, &y);
            call_out(&c, &z);
            CU_ASSERT_EQUAL(call_run(&c), 0);
            td_scalar s = box_get(&z, 0);
            bool ok = ulps((float)s.re, f[4]) <= 64 && ulps((float)s.im, f[5]) <= 64;
            ok = ok || (fabs(s.re - f[4]) <= 1e-5 * (1 + fabs(f[4])) && fabs(s.im - f[5]) <= 1e-6);
            if (!ok) printf("(%g, %g) ** (%g, %g) = (%g, %g)\n", f[0], f[1], f[2], f[3], s.re, s.im);
            CU_ASSERT(ok);
            box_free(&x);
            box_free(&y);
            box_free(&z);
        }
}

/* Run an op of one or two operands on arrays of doubles or floats. */
static void apply_two(const char *name, td_dtype t, int64_t n, const void *x, const void *z, void *y)
{
    call c;
    td_desc d = {.shape = {n}, .stride = {1}, .dtype = (uint8_t)t, .ndim = 1};
    call_begin(&c, name, t);
    c.in[0] = (td_karg){(void *)x, &d};
    c.in[1] = (td_karg){(void *)z, &d};
    c.out[0] = (td_karg){y, &d};
    c.k.nin = z ? 2 : 1;
    c.k.nout = 1;
    CU_ASSERT_EQUAL(call_run_plainly(&c), 0);
}

/* The same of doubles, by every set of loops. */
static void special_doubles(void)
{
    static const double x[] = {0,       -0.0,    INFINITY, -INFINITY, NAN,      1,           -1,          0.5,
                               -0.5,    3,       -3,       1e300,     -1e300,   40,          -40,         0x1p-1074,
                               -1e-310, DBL_MIN, -DBL_MIN, DBL_MAX,   -DBL_MAX, 1 - 0x1p-53, 1 + 0x1p-52, -1 + 0x1p-53,
                               1e-20,   0x1p30,  0x1p60,   27.2};
    static const struct {
        const char *name;
        real_fn f;
    } t[] = {{"sigmoid", r_sigmoid},
             {"silu", r_silu},
             {"mish", r_mish},
             {"erf", r_erf},
             {"relu", r_relu},
             {"floor", r_floor},
             {"round", r_round},
             {"asin", r_asin},
             {"reciprocal", r_reciprocal},
             {"hardtanh", r_hardtanh},
             {"sqrt", r_sqrt},
             {"log1p", r_log1p},
             {"expm1", r_expm1},
             {"tanh", r_tanh},
             {"atan", r_atan},
             {"acos", r_acos},
             {"asinh", r_asinh},
             {"acosh", r_acosh},
             {"atanh", r_atanh},
             {"erfc", r_erfc},
             {"tan", r_tan},
             {"frexp_mantissa", r_mantissa},
             {"frexp_exponent", r_exponent}};
    enum { N = sizeof x / sizeof *x };
    double y[N];
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
            apply_two(t[k].name, TD_FLOAT64, N, x, NULL, y);
            for (int i = 0; i < N; i++) {
                double want = t[k].f(&x[i]);
                bool ok = isnan(want) ? isnan(y[i]) : y[i] == want || fabs(y[i] - want) <= 1e-15 * fabs(want);
                ok = ok && (want != 0 || !signbit(want) == !signbit(y[i]) || t[k].f == r_relu);
                if (!ok) printf("%s(%g) = %.17g, not %.17g, of doubles (set %d)\n", t[k].name, x[i], y[i], want, level);
                CU_ASSERT(ok);
            }
        }
    }
    td_isa_use(td_isa_level());
}

/* Ops of two numbers over the whole grid of special values. */
static void special_pairs(void)
{
    static const float v[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN,  1.0f,  -1.0f,  2.0f,     -2.0f,
                              3.0f, -3.0f, 0.5f,     -0.5f,     2.5f, 1e30f, -1e30f, 0x1p-149f};
    enum { N = sizeof v / sizeof *v };
    float x[N * N], y[N * N], out[N * N];
    for (int i = 0; i < N * N; i++) x[i] = v[i / N], y[i] = v[i % N];
    static const struct {
        const char *name;
        real_fn f;
    } t[] = {{"pow", r_pow},         {"atan2", r_atan2},       {"fmod", r_fmod},
             {"maximum", r_maximum}, {"minimum", r_minimum},   {"logaddexp", r_logaddexp},
             {"hypot", r_hypot},     {"copysign", r_copysign}, {"nextafter", r_nextafter}};
    td_desc d = {.shape = {N * N}, .stride = {1}, .dtype = TD_FLOAT32, .ndim = 1};
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
            call c;
            call_begin(&c, t[k].name, TD_FLOAT32);
            c.in[0] = (td_karg){x, &d};
            c.in[1] = (td_karg){y, &d};
            c.out[0] = (td_karg){out, &d};
            c.k.nin = 2;
            c.k.nout = 1;
            CU_ASSERT_EQUAL(call_run(&c), 0);
            for (int i = 0; i < N * N; i++) {
                double p[2] = {x[i], y[i]}, want = t[k].f(p);
                bool zero_ok = k >= 3 || want != 0 || out[i] != 0 || !signbit(want) == !signbit(out[i]);
                bool ok = ulps(out[i], want) <= (k == 0 ? 2 : 1) && zero_ok; /* powers of a whole number are products */
                CU_ASSERT(ok);
                if (!ok) printf("%s(%g, %g) = %g, not %g\n", t[k].name, x[i], y[i], out[i], want);
            }
        }
    }
    td_isa_use(td_isa_level());
}

static double r_modulo(const double *v) /* with the divisor's sign */
{
    double m = fmod(v[0], v[1]);
    return m != 0 && (v[1] < 0) != (m < 0) ? m + v[1] : m;
}
/* The exact multiple below, over the divisor: a whole number but for rounding. */
static double r_floored(const double *v)
{
    double m = fmod(v[0], v[1]);
    if (v[1] == 0) return v[0] / v[1];
    return (double)rintl(((long double)v[0] - m) / v[1]) - (m != 0 && (v[1] < 0) != (m < 0));
}

/* Quotients and powers of doubles, and what is left, over a grid of special values; and where a quotient rounds to
 * the next whole number. */
static void special_double_pairs(void)
{
    static const double v[] = {0,
                               -0.0,
                               INFINITY,
                               -INFINITY,
                               NAN,
                               1,
                               -1,
                               3,
                               -3,
                               0.1,
                               -0.3,
                               2.5,
                               1e17,
                               -1e17,
                               1e300,
                               1e-300,
                               DBL_MAX,
                               DBL_MIN,
                               1e-310,
                               -DBL_MAX,
                               0x1.406e018560ac8p-6,
                               0x1.7113164e2bfe8p-55,
                               0x1.1b6c652f12b1dp+27,
                               0x1.67f8e0dee23dap-24,
                               0x1p-1074};
    static const struct {
        const char *name;
        real_fn f;
        bool near; /* one in the last place may differ */
    } t[] = {{"remainder", r_modulo, false}, {"floor_divide", r_floored, true}, {"fmod", r_fmod, false},
             {"pow", r_pow, true},           {"maximum", r_maximum, false},     {"atan2", r_atan2, true},
             {"hypot", r_hypot, true}};
    enum { N = sizeof v / sizeof *v };
    double x[N * N], y[N * N], z[N * N];
    for (int i = 0; i < N * N; i++) x[i] = v[i / N], y[i] = v[i % N];
    for (int level = 0; level < 3; level++)
        for (size_t k = 0; td_isa_use(level) && k < sizeof t / sizeof *t; k++) {
            apply_two(t[k].name, TD_FLOAT64, N * N, x, y, z);
            for (int i = 0; i < N * N; i++) {
                double p[2] = {x[i], y[i]}, want = t[k].f(p), off = fabs(z[i] - want);
                bool near = t[k].near && isfinite(want) && (off <= fabs(want) * 0x1p-52 || off <= 0x1p-1074);
                bool ok = isnan(want) ? isnan(z[i]) : near || z[i] == want;
                ok = ok && (want != 0 || !signbit(want) == !signbit(z[i]) || (t[k].f != r_atan2 && t[k].f != r_fmod));
                if (!ok) printf("%s(%a, %a) = %.17g, not %.17g, set %d\n", t[k].name, p[0], p[1], z[i], want, level);
                CU_ASSERT(ok);
            }
        }
    td_isa_use(td_isa_level());
}

/* What is left of doubles is exact, whatever the quotient: of neighbours of multiples, and of any bits. */
static void remainders(void)
{
    enum { N = 20000 };
    static double x[N], y[N], z[N];
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (int way = 0; way < 2; way++) {
            for (int i = 0; i < N; i++) {
                uint64_t a = (uint64_t)random_below(INT64_MAX) << 1, b = (uint64_t)random_below(INT64_MAX) << 1 | 1;
                memcpy(&x[i], &a, 8), memcpy(&y[i], &b, 8);
                y[i] = way && i % 300 ? ldexp(1 + random_unit(), (int)random_below(40)) : y[i];
                double multiple = y[i] * floor(exp2(55 * random_unit()));
                x[i] = way && i % 300 ? nextafter(multiple, random_below(2) ? 0 : INFINITY) : x[i];
                x[i] = way && i % 7 == 0 ? -multiple : x[i];
            }
            apply_two("fmod", TD_FLOAT64, N, x, y, z);
            int wrong = 0;
            for (int i = 0; i < N; i++) {
                double want = fmod(x[i], y[i]);
                bool ok = isnan(want) ? isnan(z[i]) : z[i] == want && !signbit(z[i]) == !signbit(want);
                if (!ok && !wrong++) printf("fmod(%a, %a) = %a, not %a, set %d\n", x[i], y[i], z[i], want, level);
            }
            CU_ASSERT_EQUAL(wrong, 0);
        }
    }
    td_isa_use(td_isa_level());
}

/* One number as the exponent: the same bits as among others, wherever it stands, and as cheap to plan as a product. */
static void powers_of_a_number(void)
{
    static const double exponents[] = {2, 3, 0.5, -0.5, -1, -2, 1.7, 0, NAN}; /* the first six are cheap */
    static const double ends[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 1e-30, -1e30, 0x1p-149};
    enum { N = 5000, EXPONENTS = sizeof exponents / sizeof *exponents, ENDS = sizeof ends / sizeof *ends };
    const int64_t n = N;
    for (int level = 0; level < 3; level++)
        for (int t = TD_FLOAT32; td_isa_use(level) && t <= TD_FLOAT64; t++)
            for (int k = 0; k < EXPONENTS; k++) {
                box x = box_new((td_dtype)t, 1, &n, ROW_MAJOR), y = box_new((td_dtype)t, 1, &n, ROW_MAJOR);
                box z[2] = {box_new((td_dtype)t, 1, &n, ROW_MAJOR), box_new((td_dtype)t, 1, &n, ROW_MAJOR)};
                for (int i = 0; i < N; i++) {
                    box_set(&x, i, i < ENDS ? ends[i] : exp2(20 * random_unit() - 10) * (i % 7 ? 1 : -1));
                    box_set(&y, i, i % 3 ? exponents[k] : exponents[(k + i) % EXPONENTS]);
                }
                for (int mixed = 0; mixed < 2; mixed++) {
                    const td_desc single = {.dtype = (uint8_t)t};
                    call c;
                    call_begin(&c, "pow", (td_dtype)t);
                    call_in(&c, &x);
                    if (mixed) call_in(&c, &y);
                    else {
                        td_karg *number = &c.in[c.k.nin++];
                        td_scalar_store(td_float(exponents[k]), (td_dtype)t, number->number);
                        number->data = number->number;
                        number->desc = &single;
                    }
                    call_out(&c, &z[mixed]);
                    CU_ASSERT_EQUAL(call_run(&c), 0);
                    bool dear = mixed || k >= 6;
                    CU_ASSERT(dear == (c.k.cost_ns > 0.6 * N * (t == TD_FLOAT64 ? 2 : 1)));
                }
                int other = 0;
                for (int i = 0; i < N; i++) {
                    if (box_real(&y, i) != exponents[k] && !isnan(exponents[k])) continue;
                    double a = box_real(&z[0], i), b = box_real(&z[1], i);
                    other += i % 3 && memcmp(&a, &b, sizeof a) && !(isnan(a) && isnan(b));
                }
                CU_ASSERT_EQUAL(other, 0);
                if (other) printf("pow by %g: %d of other bits (set %d)\n", exponents[k], other, level);
                box_free(&x), box_free(&y), box_free(&z[0]), box_free(&z[1]);
            }
    td_isa_use(td_isa_level());
}

/* What is left of floats beside multiples of the divisor, where a quotient is next to a whole number. */
static void near_multiples(void)
{
    enum { N = 60000 };
    const int64_t n = N;
    box x = box_new(TD_FLOAT32, 1, &n, ROW_MAJOR), y = box_new(TD_FLOAT32, 1, &n, ROW_MAJOR),
        z = box_new(TD_FLOAT32, 1, &n, ROW_MAJOR);
    float *a = x.data, *b = y.data, *r = z.data;
    for (int i = 0; i < N; i++) {
        b[i] = ldexpf((float)(1 + random_below(1 << 24)), (int)random_below(60) - 40);
        a[i] = (float)((double)(1 + random_below(INT64_C(1) << random_below(29))) * b[i]);
        if (i % 3) a[i] = nextafterf(a[i], i % 3 == 1 ? 0 : INFINITY);
        if (i & 8) a[i] = -a[i];
    }
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        call c;
        call_begin(&c, "fmod", TD_FLOAT32);
        call_in(&c, &x);
        call_in(&c, &y);
        call_out(&c, &z);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        int wrong = 0;
        for (int i = 0; i < N; i++) wrong += r[i] != fmodf(a[i], b[i]) || signbit(r[i]) != signbit(a[i]);
        CU_ASSERT_EQUAL(wrong, 0);
    }
    td_isa_use(td_isa_level());
    box_free(&x), box_free(&y), box_free(&z);
}

static void division_by_zero(void)
{
    static const char *const names[] = {"floor_divide", "trunc_divide", "remainder", "fmod"};
    static const td_dtype types[] = {TD_INT64, TD_INT32, TD_UINT8};
    int64_t three = 3;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++) {
            box x = box_new(types[j], 1, &three, ROW_MAJOR), y = box_new(types[j], 1, &three, ROW_MAJOR),
                z = box_new(types[j], 1, &three, ROW_MAJOR);
            call c;
            call_begin(&c, names[i], types[j]);
            for (int k = 0; k < 3; k++) box_set(&x, k, 7), box_set(&y, k, k == 1 ? 0 : 2);
            call_in(&c, &x);
            call_in(&c, &y);
            call_out(&c, &z);
            CU_ASSERT_EQUAL(call_run(&c), TD_E_INVALID);
            CU_ASSERT_STRING_EQUAL(c.e.message, "ZeroDivisionError: integer division or modulo by zero");
            box_free(&x);
            box_free(&y);
            box_free(&z);
        }
    /* The least integer over -1 wraps. */
    int64_t least = INT64_MIN, minus = -1, got = 5, one = 1;
    td_desc d = {.shape = {one}, .stride = {1}, .dtype = TD_INT64, .ndim = 1};
    for (int i = 0; i < 4; i++) {
        call c;
        call_begin(&c, names[i], TD_INT64);
        c.in[0] = (td_karg){&least, &d};
        c.in[1] = (td_karg){&minus, &d};
        c.out[0] = (td_karg){&got, &d};
        c.k.nin = 2;
        c.k.nout = 1;
        CU_ASSERT_EQUAL(call_run(&c), 0);
        CU_ASSERT_EQUAL(got, i < 2 ? INT64_MIN : 0);
    }
}

/* A bound below 0 is one of uint8's own numbers: -1 is 255. */
static void bounds_of_bytes(void)
{
    static const int bounds[][3] = {{-1, 1, 1}, {-255, 100, 7}, {5, -56, 7}, {-300, 1000, 7}, {-2, 1000, 254}};
    const int64_t n = 5;
    box x = box_new(TD_UINT8, 1, &n, STEPPED), y = box_new(TD_UINT8, 1, &n, ROW_MAJOR);
    for (int i = 0; i < 5; i++) box_set(&x, i, 7);
    for (int i = 0; i < 5; i++) {
        call c;
        call_begin(&c, "clamp", TD_UINT8);
        call_attr(&c, 0, A_SCALAR(td_int(bounds[i][0])));
        call_attr(&c, 1, A_SCALAR(td_int(bounds[i][1])));
        call_in(&c, &x);
        call_out(&c, &y);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        CU_ASSERT_EQUAL(box_real(&y, i), bounds[i][2]);
    }
    box_free(&x);
    box_free(&y);
}

static void attributes(void)
{
    int64_t n = 5;
    box x = box_new(TD_FLOAT32, 1, &n, ROW_MAJOR), y = box_new(TD_FLOAT32, 1, &n, ROW_MAJOR);
    static const float v[5] = {-3, -0.5f, 0, 0.5f, NAN};
    memcpy(x.data, v, sizeof v);
    call c;
    call_begin(&c, "clamp", TD_FLOAT32); /* only a lower bound; NaN stays */
    call_attr(&c, 0, A_SCALAR(td_float(-1)));
    call_in(&c, &x);
    call_out(&c, &y);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(box_real(&y, 0) == -1 && box_real(&y, 3) == 0.5 && isnan(box_real(&y, 4)));
    call_begin(&c, "nan_to_num", TD_FLOAT32);
    box_set(&x, 0, INFINITY);
    box_set(&x, 1, -INFINITY);
    call_in(&c, &x);
    call_out(&c, &y);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(box_real(&y, 0) == FLT_MAX && box_real(&y, 1) == -FLT_MAX && box_real(&y, 4) == 0);
    call_begin(&c, "gelu", TD_FLOAT32);
    call_attr(&c, 0, A_BOOL(1));
    call_in(&c, &x);
    call_out(&c, &y);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    double u = sqrt(2 / M_PI) * (0.5 + 0.044715 * 0.125);
    CU_ASSERT_DOUBLE_EQUAL(box_real(&y, 3), 0.25 * (1 + tanh(u)), 1e-6);
    call_begin(&c, "add", TD_FLOAT32); /* alpha, a float64 number as second operand, in place */
    double seven = 7;
    td_desc number = {.dtype = TD_FLOAT64};
    call_attr(&c, 0, A_SCALAR(td_float(0.5)));
    call_in(&c, &x);
    c.in[c.k.nin++] = (td_karg){&seven, &number};
    call_out(&c, &x);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(box_real(&x, 2) == 3.5 && box_real(&x, 3) == 4 && isnan(box_real(&x, 4)));
    box_free(&x);
    box_free(&y);
    /* the largest number of float16, not of the float it is computed in */
    uint16_t h[2] = {0x7c00, 0xfc00};
    td_desc d = {.shape = {2}, .stride = {1}, .dtype = TD_FLOAT16, .ndim = 1};
    call_begin(&c, "nan_to_num", TD_FLOAT16);
    c.in[0] = c.out[0] = (td_karg){h, &d};
    c.k.nin = c.k.nout = 1;
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(h[0] == 0x7bff && h[1] == 0xfbff);
    /* each part of a complex number by itself */
    _Complex float z[3];
    memcpy(z, (float[]){NAN, INFINITY, -INFINITY, 2, -1, NAN}, sizeof z);
    d.shape[0] = 3, d.dtype = TD_COMPLEX64;
    for (int given = 0; given < 2; given++) {
        td_desc to = d;
        _Complex float out[3];
        call_begin(&c, "nan_to_num", TD_COMPLEX64);
        if (given) call_attr(&c, 0, A_FLOAT(5)), call_attr(&c, 1, A_FLOAT(6)), call_attr(&c, 2, A_FLOAT(7));
        c.in[0] = (td_karg){z, &d}, c.out[0] = (td_karg){out, &to};
        c.k.nin = c.k.nout = 1;
        CU_ASSERT_EQUAL(call_run(&c), 0);
        CU_ASSERT(crealf(out[0]) == (given ? 5 : 0) && cimagf(out[0]) == (given ? 6 : FLT_MAX));
        CU_ASSERT(crealf(out[1]) == (given ? 7 : -FLT_MAX) && cimagf(out[1]) == 2);
        CU_ASSERT(crealf(out[2]) == -1 && cimagf(out[2]) == (given ? 5 : 0));
    }
}

/* copy: every dtype to every dtype, every layout. */
static void copies(void)
{
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (int from = 0; from < TD_DTYPE_COUNT; from++)
            for (int to = 0; to < TD_DTYPE_COUNT; to++)
                for (int round = 0; round < 4; round++) {
                    int64_t shape[TD_MAX_DIMS];
                    int nd = some_shape(shape);
                    box x = some_input((td_dtype)from, nd, shape),
                        y = box_new((td_dtype)to, nd, shape, (int)random_below(EXPANDED));
                    box_fill(&x);
                    call c;
                    call_begin(&c, "copy", (td_dtype)to);
                    call_in(&c, &x);
                    call_out(&c, &y);
                    CU_ASSERT_EQUAL(call_run(&c), 0);
                    int64_t wrong = 0;
                    for (int64_t i = 0; i < box_numel(&y); i++) {
                        td_scalar s = box_get(&x, box_broadcast(&x, &y.d, i)), g = box_get(&y, i);
                        _Alignas(16) unsigned char b[16];
                        if (to == TD_BOOL) s = td_bool(s.kind <= TD_S_INT ? s.i != 0 : s.re != 0 || s.im != 0);
                        else if (s.kind == TD_S_COMPLEX && !td_dtype_is_complex((td_dtype)to)) s = td_float(s.re);
                        td_scalar_store(s, (td_dtype)to, b);
                        s = td_scalar_load((td_dtype)to, b);
                        wrong += s.i != g.i || s.re != g.re || s.im != g.im;
                    }
                    CU_ASSERT_EQUAL(wrong, 0);
                    if (wrong)
                        printf("copy %s -> %s: %d wrong\n", td_dtype_name((td_dtype)from), td_dtype_name((td_dtype)to),
                               (int)wrong);
                    box_free(&x);
                    box_free(&y);
                }
    }
    td_isa_use(td_isa_level());
}

/* Half conversions of all 65536 values, and rounding of floats between them. */
static void halves(void)
{
    static uint16_t h[65536], back[65536];
    static float f[65536], want[65536];
    td_desc dh = {.shape = {65536}, .stride = {1}, .dtype = TD_FLOAT16, .ndim = 1}, df = dh;
    df.dtype = TD_FLOAT32;
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (int t = 0; t < 2; t++) {
            int64_t wrong = 0;
            dh.dtype = t ? TD_BFLOAT16 : TD_FLOAT16;
            for (int i = 0; i < 65536; i++)
                h[i] = (uint16_t)i, want[i] = t ? td_bfloat_to_float(h[i]) : td_half_to_float(h[i]);
            call c;
            call_begin(&c, "copy", TD_FLOAT32);
            c.in[0] = (td_karg){h, &dh};
            c.out[0] = (td_karg){f, &df};
            c.k.nin = c.k.nout = 1;
            CU_ASSERT_EQUAL(call_run(&c), 0);
            for (int i = 0; i < 65536; i++) wrong += memcmp(&f[i], &want[i], 4) && !(isnan(f[i]) && isnan(want[i]));
            for (int i = 0; i < 65536; i++) {
                uint32_t bits = (uint32_t)random_bits();
                memcpy(&f[i], &bits, 4);
                if (i & 1) f[i] = want[i] * (1 + ((i & 2) ? 0x1p-11f : 0x1p-8f));
            }
            call_begin(&c, "copy", dh.dtype);
            c.in[0] = (td_karg){f, &df};
            c.out[0] = (td_karg){back, &dh};
            c.k.nin = c.k.nout = 1;
            CU_ASSERT_EQUAL(call_run(&c), 0);
            for (int i = 0; i < 65536; i++) {
                uint16_t w = t ? td_float_to_bfloat(f[i]) : td_float_to_half(f[i]);
                wrong += w != back[i] && !isnan(f[i]);
            }
            CU_ASSERT_EQUAL(wrong, 0);
        }
    }
    td_isa_use(td_isa_level());
}

/* Large enough for several chunks, in place, transposed; the same bits in any order of chunks. */
static void large(void)
{
    int64_t shape[2] = {700, 900};
    box x = box_new(TD_FLOAT32, 2, shape, ROW_MAJOR), y = box_new(TD_FLOAT32, 2, shape, ROW_MAJOR),
        z = box_new(TD_FLOAT32, 2, shape, ROW_MAJOR), w = box_new(TD_FLOAT32, 2, shape, ROW_MAJOR);
    x.d.stride[0] = 1;
    x.d.stride[1] = 700;
    for (int64_t i = 0; i < 630000; i++)
        ((float *)x.data)[i] = (float)random_unit(), ((float *)y.data)[i] = (float)random_unit();
    call c;
    call_begin(&c, "add", TD_FLOAT32);
    call_in(&c, &x);
    call_in(&c, &y);
    call_out(&c, &z);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(c.k.phase[0].chunks > 1);
    int64_t wrong = 0;
    for (int64_t i = 0; i < 700; i++)
        for (int64_t j = 0; j < 900; j++)
            wrong += ((float *)z.data)[i * 900 + j] != ((float *)x.data)[j * 700 + i] + ((float *)y.data)[i * 900 + j];
    CU_ASSERT_EQUAL(wrong, 0);
    c.out[0].data = w.data;
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(!memcmp(w.data, z.data, 630000 * 4));
    call_begin(&c, "mul", TD_FLOAT32); /* in place, contiguous */
    call_in(&c, &y);
    call_in(&c, &z);
    call_out(&c, &y);
    memcpy(w.data, y.data, 630000 * 4);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    wrong = 0;
    for (int64_t i = 0; i < 630000; i++) wrong += ((float *)y.data)[i] != ((float *)w.data)[i] * ((float *)z.data)[i];
    CU_ASSERT_EQUAL(wrong, 0);
    box_free(&x);
    box_free(&y);
    box_free(&z);
    box_free(&w);
}

static void complex_numbers(void)
{
    int64_t n = 3;
    for (int t = TD_COMPLEX64; t <= TD_COMPLEX128; t++) {
        box x = box_new((td_dtype)t, 1, &n, STEPPED), y = box_new((td_dtype)t, 1, &n, ROW_MAJOR),
            z = box_new((td_dtype)t, 1, &n, STEPPED);
        box a = box_new(td_dtype_real((td_dtype)t), 1, &n, ROW_MAJOR), b = box_new(TD_BOOL, 1, &n, ROW_MAJOR);
        for (int i = 0; i < 3; i++) {
            td_scalar_store(td_complex(3, 4), (td_dtype)t, box_at(&x, i));
            td_scalar_store(td_complex(1, i - 1), (td_dtype)t, box_at(&y, i));
        }
        call c;
        call_begin(&c, "mul", (td_dtype)t);
        call_in(&c, &x);
        call_in(&c, &y);
        call_out(&c, &z);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        td_scalar s = box_get(&z, 2);
        CU_ASSERT(s.re == -1 && s.im == 7);
        call_begin(&c, "div", (td_dtype)t);
        call_in(&c, &z);
        call_in(&c, &y);
        call_out(&c, &z);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        for (int i = 0; i < 3; i++) {
            s = box_get(&z, i);
            CU_ASSERT_DOUBLE_EQUAL(s.re, 3, 1e-6);
            CU_ASSERT_DOUBLE_EQUAL(s.im, 4, 1e-6);
        }
        call_begin(&c, "abs", (td_dtype)t);
        call_in(&c, &x);
        call_out(&c, &a);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        CU_ASSERT_EQUAL(box_real(&a, 1), 5);
        call_begin(&c, "eq", (td_dtype)t);
        call_in(&c, &x);
        call_in(&c, &x);
        call_out(&c, &b);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        CU_ASSERT_EQUAL(box_real(&b, 2), 1);
        call_begin(&c, "lt", (td_dtype)t);
        call_in(&c, &x);
        call_in(&c, &x);
        call_out(&c, &b);
        CU_ASSERT_EQUAL(call_run(&c), TD_E_UNSUPPORTED);
        box_free(&x);
        box_free(&y);
        box_free(&z);
        box_free(&a);
        box_free(&b);
    }
}

/* Quotients of what is not finite, of and over zero, and of what would overflow on the way: what PyTorch 2 gives. */
static void complex_quotients(void)
{
    static const double inf = INFINITY, nan = NAN;
    static const struct {
        double a, b, c, d, re, im;
    } facts[] = {{1, 2, 0, 0, inf, inf},         {0, 0, 0, 0, nan, nan},     {1, 0, 0, 0, inf, nan},
                 {0, -1, 0, -0.0, nan, -inf},    {inf, 1, 0, 0, inf, inf},   {nan, 1, 0, 0, nan, inf},
                 {3, inf, -0.0, 0, inf, inf},    {1, 2, 0, 1, 2, -1},        {0, -1, 0, 1, -1, 0},
                 {inf, 1, 0, 1, nan, -inf},      {3, inf, 0, 1, inf, nan},   {1, 2, inf, 0, 0, 0},
                 {inf, 1, inf, 0, nan, nan},     {1, 2, inf, nan, nan, nan}, {1, 2, nan, 0, nan, nan},
                 {3e38, 3e38, 3e38, 3e38, 1, 0}, {3, 4, 1, -2, -1, 2},       {3, 4, -2, 1, -0.4, -2.2},
                 {1e-38, 0, 1e-38, 0, 1, 0},     {0, 1e-38, 0, 1e-38, 1, 0}};
    enum { N = sizeof facts / sizeof *facts };
    const int64_t n = N;
    for (int t = TD_COMPLEX64; t <= TD_COMPLEX128; t++) {
        box x = box_new((td_dtype)t, 1, &n, STEPPED), y = box_new((td_dtype)t, 1, &n, ROW_MAJOR),
            z = box_new((td_dtype)t, 1, &n, ROW_MAJOR);
        for (int i = 0; i < N; i++) {
            td_scalar_store(td_complex(facts[i].a, facts[i].b), (td_dtype)t, box_at(&x, i));
            td_scalar_store(td_complex(facts[i].c, facts[i].d), (td_dtype)t, box_at(&y, i));
        }
        call c;
        call_begin(&c, "div", (td_dtype)t);
        call_in(&c, &x);
        call_in(&c, &y);
        call_out(&c, &z);
        CU_ASSERT_EQUAL(call_run(&c), 0);
        for (int i = 0; i < N; i++) {
            td_scalar s = box_get(&z, i);
            bool ok = ulps((float)s.re, facts[i].re) <= 2 && ulps((float)s.im, facts[i].im) <= 2;
            if (!ok) printf("fact %d: (%g, %g)\n", i, s.re, s.im);
            CU_ASSERT(ok);
        }
        box_free(&x);
        box_free(&y);
        box_free(&z);
    }
}

/* Elementary functions of doubles beside those of long double. The C library's, which the portable set has, may be off
 * by more. */
#define L(name, expr)                                                                                                  \
    static long double l_##name(long double x, long double y)                                                          \
    {                                                                                                                  \
        (void)y;                                                                                                       \
        return expr;                                                                                                   \
    }
L(exp, expl(x))
L(exp2, exp2l(x))
L(expm1, expm1l(x))
L(log, logl(x))
L(log2, log2l(x))
L(log10, log10l(x))
L(log1p, log1pl(x))
L(sin, sinl(x))
L(cos, cosl(x))
L(sinh, sinhl(x))
L(cosh, coshl(x))
L(tanh, tanhl(x))
L(tan, tanl(x))
L(asin, asinl(x))
L(acos, acosl(x))
L(atan, atanl(x))
L(asinh, asinhl(x))
L(acosh, acoshl(x))
L(atanh, atanhl(x))
L(erf, erfl(x))
L(erfc, erfcl(x))
L(gelu, 0.5L * x * erfcl(-x * 0.70710678118654752440084436210485L))
L(atan2, atan2l(x, y))
L(hypot, hypotl(x, y))
/* By the nearest multiple of a half, which pi would otherwise be multiplied with, too. */
static long double l_sinc(long double x, long double y)
{
    long double n = rintl(2 * x), turn = 3.14159265358979323846264338327950288L * (x - n / 2), k = fmodl(n, 4);
    (void)y;
    long double s = fabsl(k) == 1   ? copysignl(1, k) * cosl(turn)
                    : fabsl(k) == 3 ? -copysignl(1, k) * cosl(turn)
                    : k == 0        ? sinl(turn)
                                    : -sinl(turn);
    return x == 0 ? 1 : s / (3.14159265358979323846264338327950288L * x);
}
L(sigmoid, 1 / (1 + expl(-x)))
L(pow, powl(x, y))
L(ldexp_whole, ldexpl(x, (int)y))
static const struct wide {
    const char *name;
    long double (*f)(long double, long double);
    double from, to, limit, from2, to2;
} wides[] = {{"exp", l_exp, -746, 710, 1, 0, 0},
             {"exp", l_exp, -1, 1, 1, 0, 0},
             {"exp2", l_exp2, -1080, 1024, 1, 0, 0},
             {"expm1", l_expm1, -40, 709, 1.3, 0, 0},
             {"expm1", l_expm1, -1, 1, 1.3, 0, 0},
             {"log", l_log, 0, 1.7e308, 1, 0, 0},
             {"log", l_log, 0.5, 2, 1, 0, 0},
             {"log2", l_log2, 0.5, 2, 1, 0, 0},
             {"log2", l_log2, 0, 1e300, 1, 0, 0},
             {"log10", l_log10, 0.5, 2, 1, 0, 0},
             {"log1p", l_log1p, -1, 2, 1, 0, 0},
             {"log1p", l_log1p, 0, 1e300, 1, 0, 0},
             {"sin", l_sin, -30, 30, 1, 0, 0},
             {"sin", l_sin, -5e6, 5e6, 1, 0, 0},
             {"cos", l_cos, -30, 30, 1, 0, 0},
             {"cos", l_cos, -5e6, 5e6, 1, 0, 0},
             {"sinh", l_sinh, -711, 711, 2.2, 0, 0},
             {"sinh", l_sinh, -2, 2, 2.2, 0, 0},
             {"sinh", l_sinh, 708.9, 710.475, 2.2, 0, 0},
             {"cosh", l_cosh, -711, 711, 2, 0, 0},
             {"cosh", l_cosh, 708.9, 710.475, 2, 0, 0},
             {"tanh", l_tanh, -23, 23, 2.5, 0, 0},
             {"tanh", l_tanh, -1, 1, 2.5, 0, 0},
             {"sigmoid", l_sigmoid, -700, 40, 2.2, 0, 0},
             {"tan", l_tan, -30, 30, 1, 0, 0},
             {"tan", l_tan, -5e6, 5e6, 1, 0, 0},
             {"asin", l_asin, -1, 1, 1, 0, 0},
             {"acos", l_acos, -1, 1, 1, 0, 0},
             {"acos", l_acos, 0.99, 1, 1, 0, 0},
             {"atan", l_atan, -4, 4, 1, 0, 0},
             {"atan", l_atan, -1e6, 1e6, 1, 0, 0},
             {"asinh", l_asinh, -4, 4, 1, 0, 0},
             {"asinh", l_asinh, -1e18, 1e18, 1, 0, 0},
             {"asinh", l_asinh, -1e308, 1e308, 1, 0, 0},
             {"acosh", l_acosh, 1, 3, 1, 0, 0},
             {"acosh", l_acosh, 1, 1e18, 1, 0, 0},
             {"acosh", l_acosh, 1, 1e308, 1, 0, 0},
             {"atanh", l_atanh, -1, 1, 1, 0, 0},
             {"erf", l_erf, -6, 6, 1, 0, 0},
             {"erf", l_erf, -1, 1, 1, 0, 0},
             {"erfc", l_erfc, -6, 28, 2, 0, 0},
             {"erfc", l_erfc, 0.3, 0.6, 2, 0, 0},
             {"gelu", l_gelu, -37, 9, 2.5, 0, 0},
             {"sinc", l_sinc, -4, 4, 1, 0, 0},
             {"sinc", l_sinc, -1e6, 1e6, 1, 0, 0},
             {"atan2", l_atan2, -4, 4, 1, -4, 4},
             {"atan2", l_atan2, -1e300, 1e300, 1, -1e300, 1e300},
             {"atan2", l_atan2, -1e-310, 1e-310, 1, -1e-300, 1e-300},
             {"atan2", l_atan2, -1e-130, 1e-130, 1, -1e170, 1e170}, /* whose quotient alone is within range */
             {"hypot", l_hypot, -4, 4, 1, -4, 4},
             {"hypot", l_hypot, -1e308, 1e308, 1, -1e308, 1e308},
             {"hypot", l_hypot, -1e-307, 1e-307, 1, -1e-308, 1e-308},
             {"pow", l_pow, 0, 4, 1, -3, 3},
             {"pow", l_pow, 0, 1e3, 1, -100, 100},
             {"pow", l_pow, 0.999, 1.001, 1, -6e5, 6e5},
             {"ldexp_whole", l_ldexp_whole, -4, 4, 0, -1000, 1000}};

/* How many of n results have other bits where the same numbers come in pieces. */
static int other_in_pieces(const char *name, int n, const double *x, const double *z, const double *y)
{
    int other = 0;
    for (int j = 0, k; j < n; j += k) {
        double part[40];
        k = 1 + (int)random_below(40);
        if (k > n - j) k = n - j;
        apply_two(name, TD_FLOAT64, k, x + j, z ? z + j : NULL, part);
        for (int m = 0; m < k; m++) other += memcmp(&part[m], &y[j + m], 8) && !(isnan(part[m]) && isnan(y[j + m]));
    }
    return other;
}

static void doubles(void)
{
    enum { N = 20000 };
    static double x[N], z[N], y[N];
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t i = 0; i < sizeof wides / sizeof *wides; i++) {
            const struct wide *w = &wides[i];
            double big = fmax(fabs(w->from), fabs(w->to)), most = 0, at = 0;
            for (int j = 0; j < N; j++) {
                double v = big * exp2(-60 * random_unit()) * (random_below(2) ? 1 : -1);
                x[j] = j & 1 || v < w->from || v > w->to ? w->from + (w->to - w->from) * random_unit() : v;
                z[j] = w->from2 + (w->to2 - w->from2) * random_unit();
                if (w->f == l_ldexp_whole) z[j] = trunc(z[j]);
            }
            apply_two(w->name, TD_FLOAT64, N, x, w->to2 > 0 ? z : NULL, y);
            int other = other_in_pieces(w->name, N, x, w->to2 > 0 ? z : NULL, y);
            CU_ASSERT_EQUAL(other, 0);
            if (other) printf("    %s: %d of other bits in pieces, of doubles (set %d)\n", w->name, other, level);
            for (int j = 0; j < N; j++) {
                long double want = w->f(x[j], z[j]);
                int e;
                (void)frexpl(want, &e);
                double u =
                    y[j] == (double)want ? 0 : (double)(fabsl(y[j] - want) / ldexpl(1, (e < -1021 ? -1021 : e) - 53));
                if (!(u <= most)) most = u, at = x[j];
            }
            double portable = w->f == l_gelu ? 2000 : 3; /* the argument of its erfc is rounded there */
            double limit = level || !w->limit ? w->limit : fmax(w->limit, portable);
            CU_ASSERT(most <= limit);
            if (!(most <= limit)) printf("    %s of doubles, set %d: %.2f ulp at %.17g\n", w->name, level, most, at);
        }
    }
    td_isa_use(td_isa_level());
}

/* What is worked out by blocks has the bits that it has alone, whatever stands beside it. */
static void alone(void)
{
    enum { N = 1100 };
    static const struct {
        const char *name;
        double from, to;
        int orders;
    } t[] = {{"sin", -10, 10, 0},
             {"cos", -10, 10, 0},
             {"tan", -10, 10, 0},
             {"chebyshev_polynomial_t", -1.5, 1.5, 9},
             {"chebyshev_polynomial_u", -1.5, 1.5, 11},
             {"chebyshev_polynomial_v", -1.5, 1.5, 11},
             {"chebyshev_polynomial_w", -1.5, 1.5, 11},
             {"hermite_polynomial_h", -3, 3, 9},
             {"hermite_polynomial_he", -3, 3, 9},
             {"laguerre_polynomial_l", -3, 3, 9},
             {"legendre_polynomial_p", -1.5, 1.5, 9}};
    static double dx[N], dz[N], dy[N];
    static float fx[N], fz[N], fy[N];
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
            double order = 3;
            int other = 0;
            for (int j = 0; j < N; j++) {
                dx[j] = t[i].from + (t[i].to - t[i].from) * random_unit();
                if (random_below(90) == 0) dx[j] = random_below(2) ? 1e30 : random_below(2) ? NAN : -INFINITY;
                if (random_below(j < 600 ? 40 : 2) == 0)
                    order = random_below(7) ? (double)random_below(t[i].orders + 1) : -2;
                dz[j] = order, fx[j] = (float)dx[j], fz[j] = (float)order;
            }
            apply_two(t[i].name, TD_FLOAT64, N, dx, t[i].orders ? dz : NULL, dy);
            apply_two(t[i].name, TD_FLOAT32, N, fx, t[i].orders ? fz : NULL, fy);
            for (int j = 0; j < N; j++) {
                double d;
                float f;
                apply_two(t[i].name, TD_FLOAT64, 1, &dx[j], t[i].orders ? &dz[j] : NULL, &d);
                apply_two(t[i].name, TD_FLOAT32, 1, &fx[j], t[i].orders ? &fz[j] : NULL, &f);
                other += memcmp(&d, &dy[j], 8) && !(isnan(d) && isnan(dy[j]));
                other += memcmp(&f, &fy[j], 4) && !(isnan(f) && isnan(fy[j]));
            }
            CU_ASSERT_EQUAL(other, 0);
            if (other) printf("    %s, set %d: %d of %d differ\n", t[i].name, level, other, 2 * N);
            if (t[i].orders) continue;
            memcpy(fz, fx, sizeof fz); /* in place, with what is guarded against in it */
            apply_two(t[i].name, TD_FLOAT32, N, fz, NULL, fz);
            CU_ASSERT_EQUAL(memcmp(fz, fy, sizeof fz), 0);
        }
    }
    td_isa_use(td_isa_level());
}

/* Special functions of doubles in vectors beside those that are called one by one, which are some units off themselves;
 * the portable set has no others. */
static const struct special64 {
    const char *name;
    real_fn f;
    double from, to;
    double near; /* an error of so much is none: beside zeros that are not the variable's own */
    double limit;
} specials64[] = {
    {"lgamma", r_lgamma, 0, 1e300, 0, 6},
    {"lgamma", r_lgamma, 0, 12, 0, 6},
    {"lgamma", r_lgamma, 0.9, 2.1, 0, 6},
    {"lgamma", r_lgamma, -60, 3, 0, 6},
    {"digamma", r_digamma, 0, 1e300, 4e-15, 12},
    {"digamma", r_digamma, -20, 12, 4e-15, 12},
    {"erfinv", r_erfinv, -1, 1, 0, 9},
    {"erfinv", r_erfinv, 0.999, 1, 0, 9},
    {"ndtri", r_ndtri, 0, 1, 0, 12},
    {"ndtri", r_ndtri, 0, 1e-300, 0, 12},
    {"erfcx", r_erfcx, -27, 30, 0, 8},
    {"erfcx", r_erfcx, 0, 1e10, 0, 8},
    {"log_ndtr", r_log_ndtr, -40, 40, 0, 10},
    {"log_ndtr", r_log_ndtr, -1e10, 0, 0, 10},
    {"i0", r_i0, -715, 715, 0, 10},
    {"i0e", r_i0e, -12, 12, 0, 10},
    {"i0e", r_i0e, -1e9, 1e9, 0, 10},
    {"i1", r_i1, -715, 715, 0, 20},
    {"i1e", r_i1e, -12, 12, 0, 20},
    {"i1e", r_i1e, -1e9, 1e9, 0, 20},
    {"modified_bessel_k0", r_k0, 0, 750, 0, 20},
    {"modified_bessel_k0", r_k0, 0, 4, 0, 20},
    {"modified_bessel_k1", r_k1, 0, 750, 0, 12},
    {"modified_bessel_k1", r_k1, 0, 4, 0, 12},
    {"scaled_modified_bessel_k0", r_k0e, 0, 4, 0, 20},
    {"scaled_modified_bessel_k0", r_k0e, 0, 1e30, 0, 20},
    {"scaled_modified_bessel_k1", r_k1e, 0, 4, 0, 12},
    {"scaled_modified_bessel_k1", r_k1e, 0, 1e30, 0, 12},
    {"bessel_j0", r_bessel_j0, -12, 12, 1e-15, 8},
    {"bessel_j0", r_bessel_j0, -5, 5, 3e-16, 8},
    {"bessel_j0", r_bessel_j0, -1e8, 1e8, 1e-15, 8},
    {"bessel_j1", r_bessel_j1, -12, 12, 1e-15, 8},
    {"bessel_j1", r_bessel_j1, -5, 5, 3e-16, 8},
    {"bessel_j1", r_bessel_j1, -1e8, 1e8, 1e-15, 8},
    {"bessel_y0", r_bessel_y0, 0, 12, 1e-15, 10},
    {"bessel_y0", r_bessel_y0, 0, 1e7, 1e-15, 10},
    {"bessel_y1", r_bessel_y1, 0, 12, 1e-15, 8},
    {"bessel_y1", r_bessel_y1, 0, 1e7, 1e-15, 8},
    {"spherical_bessel_j0", r_spherical_j0, -20, 20, 0, 4},
    {"spherical_bessel_j0", r_spherical_j0, -1e8, 1e8, 0, 4},
};

static double ulps_of_doubles(double got, double want)
{
    int e;
    if (got == want || (isnan(got) && isnan(want))) return 0;
    (void)frexp(want, &e);
    return fabs(got - want) / ldexp(1, (e < -1021 ? -1021 : e) - 53);
}

static void special_functions_of_doubles(void)
{
    enum { N = 20000, ENDS = 24 };
    static double x[N + ENDS], y[N + ENDS];
    static const double ends[ENDS] = {0,      -0.0, INFINITY, -INFINITY, NAN,   1,         -1,        2,
                                      -2,     5,    -5,       8,         -8,    0.85,      -0.85,     0.425,
                                      1e-310, 3e17, DBL_MAX,  -DBL_MAX,  1e300, 0x1p-1074, 4194304.0, 1 - 0x1p-53};
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t i = 0; i < sizeof specials64 / sizeof *specials64; i++) {
            const struct special64 *s = &specials64[i];
            double big = fmax(fabs(s->from), fabs(s->to)), most = 0, at = 0;
            for (int j = 0; j < N + ENDS; j++) {
                double v = big * exp2(-60 * random_unit()) * (random_below(2) ? 1 : -1);
                if (j & 1 || v < s->from || v > s->to) v = s->from + (s->to - s->from) * random_unit();
                x[j] = j < N ? v : ends[j - N];
            }
            apply_two(s->name, TD_FLOAT64, N + ENDS, x, NULL, y);
            int other = other_in_pieces(s->name, N + ENDS, x, NULL, y);
            CU_ASSERT_EQUAL(other, 0);
            if (other) printf("    %s: %d of other bits in pieces, of doubles (set %d)\n", s->name, other, level);
            for (int j = 0; j < N + ENDS; j++) {
                double v = x[j], want = s->f(&v);
                double u = fabs(y[j] - want) <= s->near ? 0 : ulps_of_doubles(y[j], want);
                if (!(u <= most)) most = u, at = v;
            }
            CU_ASSERT(most <= (level ? s->limit : 0));
            if (!(most <= (level ? s->limit : 0)))
                printf("    %s [%g, %g] of doubles: %.2f ulp at %.17g (set %d)\n", s->name, s->from, s->to, most, at,
                       level);
        }
    }
    td_isa_use(td_isa_level());
}

/* Results that go past the caches: the same bytes, wherever they begin and end, also where they lie in an operand. */
static void streamed(void)
{
    enum { MOST = 70001 };
    static const int64_t sizes[] = {1, 15, 16, 63, 64, 65, 1023, 1024, 1025, 5000, 65536, MOST};
    static const struct {
        const char *name;
        td_dtype t;
        int nin, size; /* of an element of the result */
    } t[] = {{"neg", TD_FLOAT32, 1, 4},
             {"add", TD_FLOAT32, 2, 4},

             {"relu", TD_FLOAT64, 1, 8},
             {"add", TD_INT64, 2, 8}};
    static char x[MOST * 8 + 64], z[MOST * 8 + 64], want[MOST * 8 + 64];
    static _Alignas(64) char got[MOST * 8 + 256];
    const double usual = td_stream_bytes;
    for (size_t i = 0; i < sizeof x; i++) x[i] = (char)random_below(120), z[i] = (char)random_below(120);
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t k = 0; k < sizeof t / sizeof *t; k++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int at = 0; at <= 64; at += 16) {
                    size_t bytes = (size_t)(sizes[s] * t[k].size);
                    bool within = at == 16;
                    td_stream_bytes = INFINITY;
                    apply_two(t[k].name, t[k].t, sizes[s], x, t[k].nin > 1 ? z : NULL, want);
                    memset(got, 7, sizeof got);
                    if (within) memcpy(got + at, x, bytes);
                    td_stream_bytes = 0;
                    apply_two(t[k].name, t[k].t, sizes[s], within ? got + at : x, t[k].nin > 1 ? z : NULL, got + at);
                    CU_ASSERT_EQUAL(memcmp(got + at, want, bytes), 0);
                    CU_ASSERT(got[at + (int)bytes] == 7 && (!at || got[at - 1] == 7));
                }
    }
    td_stream_bytes = usual;
    td_isa_use(td_isa_level());
}

/* Polynomials of doubles and of floats beside the functions of one element. */
static void orders(void)
{
    static const struct {
        const char *name;
        double (*f)(double, double);
    } t[] = {{"chebyshev_polynomial_t", td_chebyshev_t_f64}, {"chebyshev_polynomial_u", td_chebyshev_u_f64},
             {"chebyshev_polynomial_v", td_chebyshev_v_f64}, {"chebyshev_polynomial_w", td_chebyshev_w_f64},
             {"hermite_polynomial_h", td_hermite_h_f64},     {"hermite_polynomial_he", td_hermite_he_f64},
             {"laguerre_polynomial_l", td_laguerre_l_f64},   {"legendre_polynomial_p", td_legendre_p_f64}};
    enum { N = 300 };
    static double x[N], z[N], y[N];
    static float fx[N], fz[N], fy[N];
    static const double orders_of[] = {0, 0.5, 1, 2, 4, 6, 7, 8, 9, 40, 1024, 1025, -1, -0.5, NAN};
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (size_t i = 0; i < sizeof t / sizeof *t; i++)
            for (size_t o = 0; o < sizeof orders_of / sizeof *orders_of; o++) {
                int wrong = 0;
                for (int j = 0; j < N; j++) {
                    double v = j == 0 ? 1 : j == 1 ? -1 : j == 2 ? NAN : j == 3 ? 0 : 2.2 * random_unit() - 1.1;
                    fx[j] = (float)v, x[j] = fx[j], z[j] = orders_of[o], fz[j] = (float)orders_of[o];
                }
                apply_two(t[i].name, TD_FLOAT64, N, x, z, y);
                apply_two(t[i].name, TD_FLOAT32, N, fx, fz, fy);
                double sizes = 0; /* near a zero the error is that of the terms */
                for (int j = 0; j < N; j++)
                    if (fabs(x[j]) <= 1) sizes = fmax(sizes, fabs(t[i].f(x[j], z[j])));
                for (int j = 0; j < N; j++) {
                    double want = t[i].f(x[j], z[j]), size = fmax(fabs(want), isfinite(sizes) ? sizes : 0);
                    if (isnan(want) || isinf(want)) wrong += isnan(want) ? !isnan(y[j]) || !isnan(fy[j]) : y[j] != want;
                    else
                        wrong += !(fabs(y[j] - want) <= 1e-12 * size) ||
                                 (fabs(want) < 1e38 && !(fabs(fy[j] - want) <= 1.2e-7 * size + 1e-44));
                }
                CU_ASSERT_EQUAL(wrong, 0);
                if (wrong) printf("    %s of order %g, set %d: %d wrong\n", t[i].name, orders_of[o], level, wrong);
            }
    }
    td_isa_use(td_isa_level());
}

/* The shorter sums of floats beside those of doubles. */
static void incomplete_gammas(void)
{
    double most = 0, at = 0, at2 = 0;
    for (int i = 0; i < 200000; i++) {
        float a = (float)exp2(-20 + 34 * random_unit()),
              x = (float)(random_below(2) ? a * exp2(4 * random_unit() - 2) : exp2(-30 + 44 * random_unit()));
        double low = ulps(td_igamma_f32(a, x), td_igamma_f64(a, x)),
               high = ulps(td_igammac_f32(a, x), td_igammac_f64(a, x));
        if (fmax(low, high) > most) most = fmax(low, high), at = a, at2 = x;
    }
    CU_ASSERT(most <= 0.75);
    if (!(most <= 0.75)) printf("    igamma(%.9g, %.9g): %.2f ulp\n", at, at2, most);
}

static int init(void)
{
    td_cpu_init();
    return 0;
}

static double estimate(const char *op, td_dtype t, int nin, int64_t n)
{
    box x = box_new(t, 1, &n, ROW_MAJOR), y = box_new(t, 1, &n, ROW_MAJOR);
    call c;
    call_begin(&c, op, t);
    if (!strcmp(op, "add")) call_attr(&c, 0, A_INT(1));
    for (int i = 0; i < nin; i++) call_in(&c, &x);
    call_out(&c, &y);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    box_free(&x), box_free(&y);
    return c.k.cost_ns;
}

/* Of a polynomial of this order; NAN: of a tensor of orders. */
static double estimate_order(const char *op, td_dtype t, double order, int64_t n)
{
    box x = box_new(t, 1, &n, ROW_MAJOR), y = box_new(t, 1, &n, ROW_MAJOR);
    const td_desc single = {.dtype = (uint8_t)t};
    call c;
    call_begin(&c, op, t);
    call_in(&c, &x), call_in(&c, &x), call_out(&c, &y);
    td_karg *number = &c.in[1];
    td_scalar_store(td_float(order), t, number->number);
    if (!isnan(order)) number->data = number->number, number->desc = &single;
    CU_ASSERT_EQUAL(call_run(&c), 0);
    box_free(&x), box_free(&y);
    return c.k.cost_ns;
}

/* What moves little memory and calls nothing is run at once, though it has many elements; what is far is not. */
static void estimates(void)
{
    static const struct {
        const char *op;
        td_dtype t;
        int nin;
    } plain[] = {{"neg", TD_FLOAT32, 1},
                 {"add", TD_FLOAT32, 2},
                 {"copysign", TD_FLOAT32, 2},
                 {"copy", TD_FLOAT64, 1},
                 {"bitwise_and", TD_INT64, 2}};
    const double at_once = 20000; /* daemon/sched/sched.h */
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        double near = estimate(plain[i].op, plain[i].t, plain[i].nin, 1 << 16),
               far = estimate(plain[i].op, plain[i].t, plain[i].nin, 1 << 20);
        CU_ASSERT(near > 4000 && near < at_once);
        CU_ASSERT(far > 40 * near || far > 10 * at_once);
        int64_t edge = TD_MOVE_NEAR / (int64_t)td_dtype_size(plain[i].t) / (plain[i].nin + 1);
        double below = estimate(plain[i].op, plain[i].t, plain[i].nin, edge),
               above = estimate(plain[i].op, plain[i].t, plain[i].nin, edge + 1);
        CU_ASSERT(below <= above && above < 1.01 * below);
    }
    CU_ASSERT(estimate("exp", TD_FLOAT32, 1, 1 << 16) > at_once);
    static const char *const orders[] = {"chebyshev_polynomial_t", "hermite_polynomial_h"};
    for (int i = 0; i < 4; i++) { /* an order may be as many steps an element: nothing for the loop */
        td_dtype t = i & 1 ? TD_FLOAT64 : TD_FLOAT32;
        CU_ASSERT(estimate_order(orders[i / 2], t, NAN, 1000) > at_once);
        CU_ASSERT(estimate_order(orders[i / 2], t, 1000, 100) > at_once);
        CU_ASSERT(estimate_order(orders[i / 2], t, 0x1p62, 100) > at_once);
        CU_ASSERT(estimate_order(orders[i / 2], t, 3, 4000) < at_once);
    }
}

TD_CUNIT_MAIN_WITH("kernels_pointwise", init, NULL, {"all ops, layouts and dtypes", all_ops},
                   {"accuracy of functions", accuracy}, {"special functions", special_functions},
                   {"special values", special_values}, {"gelu of all halves", gelus},
                   {"special complex numbers", special_complex}, {"complex powers", complex_powers},
                   {"special doubles", special_doubles}, {"special pairs", special_pairs},
                   {"special pairs of doubles", special_double_pairs}, {"near multiples", near_multiples},
                   {"remainders of doubles", remainders}, {"powers of a number", powers_of_a_number},
                   {"integer division", division_by_zero}, {"attributes", attributes},
                   {"bounds of bytes", bounds_of_bytes}, {"copies", copies}, {"half types", halves},
                   {"large, in place, any order", large}, {"complex", complex_numbers},
                   {"complex quotients", complex_quotients}, {"estimates", estimates},
                   {"functions of doubles", doubles}, {"special functions of doubles", special_functions_of_doubles},
                   {"results past the caches", streamed}, {"elements alone", alone}, {"polynomials", orders},
                   {"incomplete gamma functions", incomplete_gammas})
