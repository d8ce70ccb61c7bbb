/* Numbers in formulas: arithmetic on scalars, and ops whose inputs are all numbers. An op between numbers never becomes
 * work: x**2 differentiates to g * (2 * x**1) with the 2 and the 1 known here. */
#include "proto/ops/formula.h"
#include "proto/ops/opid.h"
#include <complex.h>
#include <math.h>

#ifndef CMPLX /* glibc's header gives it to gcc only */
#define CMPLX(x, y) __builtin_complex((double)(x), (double)(y))
#endif

double td_fs_real(td_scalar a)
{
    return a.kind <= TD_S_INT ? (double)a.i : a.re;
}

static double complex as_complex(td_scalar a)
{
    return CMPLX(td_fs_real(a), a.kind == TD_S_COMPLEX ? a.im : 0);
}

static td_scalar from_complex(double complex z)
{
    return td_complex(creal(z), cimag(z));
}

static int common(td_scalar a, td_scalar b)
{
    int kind = a.kind > b.kind ? a.kind : b.kind;
    return kind == TD_S_BOOL ? TD_S_INT : kind;
}

/* Integers wrap, as tensors of integers do. */
td_scalar td_fs_add(td_scalar a, td_scalar b)
{
    int kind = common(a, b);
    if (kind == TD_S_INT) return td_int((int64_t)((uint64_t)a.i + (uint64_t)b.i));
    if (kind == TD_S_FLOAT) return td_float(td_fs_real(a) + td_fs_real(b));
    return from_complex(as_complex(a) + as_complex(b));
}

td_scalar td_fs_neg(td_scalar a)
{
    if (a.kind <= TD_S_INT) return td_int((int64_t)(0 - (uint64_t)a.i));
    a.re = -a.re, a.im = -a.im;
    return a;
}

td_scalar td_fs_sub(td_scalar a, td_scalar b)
{
    return td_fs_add(a, td_fs_neg(b));
}

td_scalar td_fs_mul(td_scalar a, td_scalar b)
{
    int kind = common(a, b);
    if (kind == TD_S_INT) return td_int((int64_t)((uint64_t)a.i * (uint64_t)b.i));
    if (kind == TD_S_FLOAT) return td_float(td_fs_real(a) * td_fs_real(b));
    return from_complex(as_complex(a) * as_complex(b));
}

td_scalar td_fs_div(td_scalar a, td_scalar b)
{
    if (common(a, b) != TD_S_COMPLEX) return td_float(td_fs_real(a) / td_fs_real(b));
    return from_complex(as_complex(a) / as_complex(b));
}

int td_fs_compare(td_scalar a, td_scalar b)
{
    if (common(a, b) == TD_S_COMPLEX) return as_complex(a) == as_complex(b) ? 0 : 2;
    if (common(a, b) == TD_S_INT) return a.i < b.i ? -1 : a.i > b.i;
    double x = td_fs_real(a), y = td_fs_real(b);
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static td_scalar power(td_scalar a, td_scalar b)
{
    if (common(a, b) == TD_S_COMPLEX) return from_complex(cpow(as_complex(a), as_complex(b)));
    return td_float(pow(td_fs_real(a), td_fs_real(b)));
}

static bool fold_unary(unsigned op, td_scalar a, td_scalar *out)
{
    bool z = a.kind == TD_S_COMPLEX;
    switch (op) {
    case TD_OP_NEG: *out = td_fs_neg(a); return true;
    case TD_OP_CONJ:
        *out = a;
        if (z) out->im = -a.im;
        return true;
    case TD_OP_LOG: *out = z ? from_complex(clog(as_complex(a))) : td_float(log(td_fs_real(a))); return true;
    case TD_OP_EXP: *out = z ? from_complex(cexp(as_complex(a))) : td_float(exp(td_fs_real(a))); return true;
    case TD_OP_SQRT: *out = z ? from_complex(csqrt(as_complex(a))) : td_float(sqrt(td_fs_real(a))); return true;
    default: return false;
    }
}

static bool truth(td_scalar a)
{
    return a.kind <= TD_S_INT ? a.i != 0 : a.re != 0 || a.im != 0;
}

static bool fold_compare(unsigned op, td_scalar a, td_scalar b, td_scalar *out)
{
    int c = td_fs_compare(a, b);
    switch (op) {
    case TD_OP_EQ: *out = td_bool(c == 0); return true;
    case TD_OP_NE: *out = td_bool(c != 0); return true;
    case TD_OP_LT: *out = td_bool(c == -1); return true;
    case TD_OP_LE: *out = td_bool(c == -1 || c == 0); return true;
    case TD_OP_GT: *out = td_bool(c == 1); return true;
    case TD_OP_GE: *out = td_bool(c == 1 || c == 0); return true;
    case TD_OP_LOGICAL_AND: *out = td_bool(truth(a) && truth(b)); return true;
    case TD_OP_LOGICAL_OR: *out = td_bool(truth(a) || truth(b)); return true;
    default: return false;
    }
}

bool td_fx_fold(unsigned op, int nin, const td_fval *in, const td_attrs *attrs, td_scalar *out)
{
    if (nin == 1) return fold_unary(op, *in[0].number, out);
    if (nin != 2) return false;
    td_scalar a = *in[0].number, b = *in[1].number;
    switch (op) {
    case TD_OP_ADD: *out = td_fs_add(a, td_fs_mul(b, attrs->at[0].s)); return true;
    case TD_OP_SUB: *out = td_fs_sub(a, td_fs_mul(b, attrs->at[0].s)); return true;
    case TD_OP_MUL: *out = td_fs_mul(a, b); return true;
    case TD_OP_DIV: *out = td_fs_div(a, b); return true;
    case TD_OP_POW: *out = power(a, b); return true;
    default: return fold_compare(op, a, b, out);
    }
}
