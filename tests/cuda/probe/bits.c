/* Question 12: which functions give the host's bits. Built, as the kernels are, without contraction to fused
 * multiply-adds. */
#include "daemon/kernels/cpu/vec/math_f32.h"
#include "tests/cuda/probe/probe.h"
#include "tests/cuda/probe/turn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 21 };

static const char *const names[] = {"add",  "sub",   "mul",   "div",   "sqrt",   "fma",    "min",  "floor",
                                    "rint", "fmod",  "exp",   "log",   "sin",    "cos",    "tanh", "pow",
                                    "erf",  "log1p", "expm1", "atan2", "tgamma", "lgamma", "cbrt", "to float"};
static const char *const own_names[] = {"exp", "log", "tanh", "sigmoid", "erf", "gelu", "log1p", "expm1"};

static double in_double(int op, double a, double b, double c)
{
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return a / b;
    case 4: return sqrt(a);
    case 5: return fma(a, b, c);
    case 6: return fmin(a, b);
    case 7: return floor(a);
    case 8: return rint(a);
    case 9: return fmod(a, b);
    case 10: return exp(a);
    case 11: return log(a);
    case 12: return sin(a);
    case 13: return cos(a);
    case 14: return tanh(a);
    case 15: return pow(a, b);
    case 16: return erf(a);
    case 17: return log1p(a);
    case 18: return expm1(a);
    case 19: return atan2(a, b);
    case 20: return tgamma(a);
    case 21: return lgamma(a);
    case 22: return cbrt(a);
    case 23: return (double)(float)a;
    }
    return 0;
}

static float in_float(int op, float a, float b, float c)
{
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return a / b;
    case 4: return sqrtf(a);
    case 5: return fmaf(a, b, c);
    case 6: return fminf(a, b);
    case 7: return floorf(a);
    case 8: return rintf(a);
    case 9: return fmodf(a, b);
    }
    return (float)in_double(op, a, b, c);
}

static float own(int op, float a)
{
    switch (op) {
    case 0: return td_exp_f32(a);
    case 1: return td_log_f32(a);
    case 2: return td_tanh_f32(a);
    case 3: return td_sigmoid_f32(a);
    case 4: return td_erf_f32(a);
    case 5: return td_gelu_f32(a);
    case 6: return td_log1p_f32(a);
    case 7: return td_expm1_f32(a);
    }
    return 0;
}

/* The distance in units of the last place. */
static double apart_f(float a, float b)
{
    if ((a != a && b != b) || td_bits_f(a) == td_bits_f(b)) return 0;
    if (a != a || b != b) return INFINITY;
    int64_t x = (int32_t)td_bits_f(a), y = (int32_t)td_bits_f(b);
    if (x < 0) x = -(x & 0x7fffffff);
    if (y < 0) y = -(y & 0x7fffffff);
    return fmax(1, fabs((double)(x - y))); /* zeros of two signs differ, too */
}

static double apart_d(double a, double b)
{
    if ((a != a && b != b) || td_bits_d(a) == td_bits_d(b)) return 0;
    if (a != a || b != b) return INFINITY;
    return fmax(1, fabs(a - b) / fabs(nextafter(b, a) - b));
}

static uint64_t draw(void)
{
    static uint64_t x = 88172645463325252ull;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

/* Half of the numbers are any bits but those of a NaN that signals, half are of a size that functions make something
 * of. */
static void numbers(void *to, bool wide)
{
    for (int i = 0; i < N; i++) {
        double some = ((double)(int64_t)draw() * 0x1p-63) * (i & 2 ? 8 : 90);
        uint64_t any = draw();
        if (wide) ((double *)to)[i] = i & 1 ? td_from_bits_d(any) : some;
        else ((float *)to)[i] = i & 1 ? td_from_bits_f((uint32_t)(any >> 16)) : (float)some;
        if (wide && isnan(((double *)to)[i])) ((double *)to)[i] = NAN;
        if (!wide && isnan(((float *)to)[i])) ((float *)to)[i] = NAN;
    }
}

static int compare(int type)
{
    open_device();
    size_t each = type == TYPE_F64 ? 8 : 4, bytes = 2 * (size_t)N * each;
    void *host[3], *out = malloc(bytes);
    op_args args = {.n = N, .type = type};
    drv_ptr *ptrs[] = {&args.a, &args.b, &args.c};
    for (int i = 0; i < 3; i++) {
        host[i] = malloc(bytes);
        numbers(host[i], type == TYPE_F64);
        if (type == TYPE_NORMAL) numbers((char *)host[i] + bytes / 2, false);
        MUST(cuMemAlloc(ptrs[i], bytes));
        MUST(cuMemcpyHtoD(*ptrs[i], host[i], bytes));
    }
    MUST(cuMemAlloc(&args.out, bytes));
    int last = type == TYPE_NORMAL ? 1 : 24, equal = 0;
    for (int k = 0; k < last + (type == TYPE_F32 ? 8 : 0); k++) {
        args.op = k < last ? k : 100 + k - last;
        int err = LAUNCH(kernel("op"), 528, 256, args);
        if (err) give_up("op", err);
        MUST(cuMemcpyDtoH(out, args.out, bytes));
        int wrong = 0;
        double far = 0;
        for (int i = 0; i < N; i++) {
            double off = 0;
            float *f[3] = {host[0], host[1], host[2]};
            double *d[3] = {host[0], host[1], host[2]};
            if (type == TYPE_F32)
                off = apart_f(((float *)out)[i],
                              k < last ? in_float(k, f[0][i], f[1][i], f[2][i]) : own(k - last, f[0][i]));
            else if (type == TYPE_F64) off = apart_d(((double *)out)[i], in_double(k, d[0][i], d[1][i], d[2][i]));
            else {
                float two[2];
                probe_normal((uint32_t *)host[0] + 2 * i, two);
                off = fmax(apart_f(((float *)out)[2 * i], two[0]), apart_f(((float *)out)[2 * i + 1], two[1]));
            }
            wrong += off > 0;
            far = fmax(far, off);
        }
        const char *name = type == TYPE_NORMAL ? "normal" : k < last ? names[k] : own_names[k - last];
        if (!wrong) say("%s%s =; ", k < last ? "" : "own ", name), equal++;
        else say("%s%s %.2g%% off, by %.3g; ", k < last ? "" : "own ", name, 100.0 * wrong / N, far);
    }
    return YES;
}

const question questions_bits[] = {
    {"12a", "float functions: bits and last places", 30, compare, TYPE_F32},
    {"12b", "double functions", 30, compare, TYPE_F64},
    {"12c", "normal numbers of Philox words", 20, compare, TYPE_NORMAL},
    {NULL},
};
