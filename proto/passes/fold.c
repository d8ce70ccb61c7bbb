/* Arithmetic and comparisons of constants, bit by bit as the interpreter does them (daemon/graph/prim_number.c; the
 * suite `passes_run` compares the two over all ops and the numbers at their edges). */
#include "proto/passes/fold.h"

#include "proto/program/prim.h"
#include <math.h>

#define ROW(name) [TD_PRIM_##name] = 1
static const uint8_t of_ints[TD_PRIM_COUNT] = {
    ROW(ADD_INT), ROW(SUB_INT), ROW(MUL_INT), ROW(FLOORDIV_INT), ROW(MOD_INT),  ROW(NEG_INT),
    ROW(ABS_INT), ROW(AND_INT), ROW(OR_INT),  ROW(XOR_INT),      ROW(INVERT),   ROW(LSHIFT),
    ROW(RSHIFT),  ROW(MIN_INT), ROW(MAX_INT), ROW(EQ_INT),       ROW(NE_INT),   ROW(LT_INT),
    ROW(LE_INT),  ROW(GT_INT),  ROW(GE_INT),  ROW(BOOL_INT),     ROW(FLOAT_INT)};
static const uint8_t of_floats[TD_PRIM_COUNT] = {
    ROW(ADD_FLOAT), ROW(SUB_FLOAT), ROW(MUL_FLOAT),  ROW(TRUEDIV_FLOAT), ROW(NEG_FLOAT), ROW(ABS_FLOAT),
    ROW(MIN_FLOAT), ROW(MAX_FLOAT), ROW(EQ_FLOAT),   ROW(NE_FLOAT),      ROW(LT_FLOAT),  ROW(LE_FLOAT),
    ROW(GT_FLOAT),  ROW(GE_FLOAT),  ROW(BOOL_FLOAT), ROW(INT_FLOAT),     ROW(FLOOR),     ROW(CEIL)};
static const uint8_t of_small[TD_PRIM_COUNT] = {
    ROW(NOT),        ROW(AND_BOOL), ROW(OR_BOOL), ROW(XOR_BOOL), ROW(EQ_BOOL),  ROW(NE_BOOL),   ROW(INT_BOOL),
    ROW(FLOAT_BOOL), ROW(EQ_STR),   ROW(NE_STR),  ROW(EQ_DTYPE), ROW(NE_DTYPE), ROW(EQ_DEVICE), ROW(NE_DEVICE)};
#undef ROW

static bool give_int(td_literal *out, int64_t v)
{
    *out = (td_literal){.kind = TD_L_INT, .i = v};
    return true;
}

/* A constant has one NaN, a run all that there are. */
static bool give_float(td_literal *out, double v)
{
    *out = (td_literal){.kind = TD_L_FLOAT, .re = v};
    return v == v;
}

static bool give_bool(td_literal *out, bool v)
{
    *out = (td_literal){.kind = TD_L_BOOL, .small = v};
    return true;
}

/* ---- ints */

static bool divide(uint32_t prim, int64_t a, int64_t b, td_literal *out)
{
    if (b == 0) return false;
    if (b == -1) return prim == TD_PRIM_MOD_INT ? give_int(out, 0) : a != INT64_MIN && give_int(out, -a);
    int64_t r = a % b;
    bool other = r != 0 && (r < 0) != (b < 0);
    return give_int(out, prim == TD_PRIM_MOD_INT ? (other ? r + b : r) : a / b - other);
}

static bool shift_left(int64_t a, int64_t n, td_literal *out)
{
    if (n < 0) return false;
    if (a == 0) return give_int(out, 0);
    if (n > 62 || (int64_t)((uint64_t)a << n) >> n != a) return false;
    return give_int(out, (int64_t)((uint64_t)a << n));
}

static bool fold_ints(uint32_t prim, int64_t a, int64_t b, td_literal *out)
{
    int64_t r;
    switch (prim) {
    case TD_PRIM_ADD_INT: return !__builtin_add_overflow(a, b, &r) && give_int(out, r);
    case TD_PRIM_SUB_INT: return !__builtin_sub_overflow(a, b, &r) && give_int(out, r);
    case TD_PRIM_MUL_INT: return !__builtin_mul_overflow(a, b, &r) && give_int(out, r);
    case TD_PRIM_FLOORDIV_INT:
    case TD_PRIM_MOD_INT: return divide(prim, a, b, out);
    case TD_PRIM_NEG_INT: return a != INT64_MIN && give_int(out, -a);
    case TD_PRIM_ABS_INT: return a != INT64_MIN && give_int(out, a < 0 ? -a : a);
    case TD_PRIM_AND_INT: return give_int(out, a & b);
    case TD_PRIM_OR_INT: return give_int(out, a | b);
    case TD_PRIM_XOR_INT: return give_int(out, a ^ b);
    case TD_PRIM_INVERT: return give_int(out, ~a);
    case TD_PRIM_LSHIFT: return shift_left(a, b, out);
    case TD_PRIM_RSHIFT: return b >= 0 && give_int(out, a >> (b > 63 ? 63 : b));
    case TD_PRIM_MIN_INT: return give_int(out, a < b ? a : b);
    case TD_PRIM_MAX_INT: return give_int(out, a > b ? a : b);
    case TD_PRIM_EQ_INT: return give_bool(out, a == b);
    case TD_PRIM_NE_INT: return give_bool(out, a != b);
    case TD_PRIM_LT_INT: return give_bool(out, a < b);
    case TD_PRIM_LE_INT: return give_bool(out, a <= b);
    case TD_PRIM_GT_INT: return give_bool(out, a > b);
    case TD_PRIM_GE_INT: return give_bool(out, a >= b);
    case TD_PRIM_BOOL_INT: return give_bool(out, a != 0);
    default: return give_float(out, (double)a);
    }
}

/* ---- floats */

static bool whole(double v, td_literal *out)
{
    return v >= -9223372036854775808.0 && v < 9223372036854775808.0 && give_int(out, (int64_t)v);
}

static bool fold_floats(uint32_t prim, double a, double b, td_literal *out)
{
    switch (prim) {
    case TD_PRIM_ADD_FLOAT: return give_float(out, a + b);
    case TD_PRIM_SUB_FLOAT: return give_float(out, a - b);
    case TD_PRIM_MUL_FLOAT: return give_float(out, a * b);
    case TD_PRIM_TRUEDIV_FLOAT: return b != 0 && give_float(out, a / b);
    case TD_PRIM_NEG_FLOAT: return give_float(out, -a);
    case TD_PRIM_ABS_FLOAT: return give_float(out, fabs(a));
    case TD_PRIM_MIN_FLOAT: return give_float(out, b < a ? b : a);
    case TD_PRIM_MAX_FLOAT: return give_float(out, b > a ? b : a);
    case TD_PRIM_EQ_FLOAT: return give_bool(out, a == b);
    case TD_PRIM_NE_FLOAT: return give_bool(out, a != b);
    case TD_PRIM_LT_FLOAT: return give_bool(out, a < b);
    case TD_PRIM_LE_FLOAT: return give_bool(out, a <= b);
    case TD_PRIM_GT_FLOAT: return give_bool(out, a > b);
    case TD_PRIM_GE_FLOAT: return give_bool(out, a >= b);
    case TD_PRIM_BOOL_FLOAT: return give_bool(out, a != 0);
    case TD_PRIM_INT_FLOAT: return whole(trunc(a), out);
    case TD_PRIM_FLOOR: return whole(floor(a), out);
    default: return whole(ceil(a), out);
    }
}

/* ---- bools, texts, dtypes, devices: a small number says it all, since equal texts have one number */

static bool fold_small(uint32_t prim, uint32_t a, uint32_t b, td_literal *out)
{
    switch (prim) {
    case TD_PRIM_NOT: return give_bool(out, !a);
    case TD_PRIM_AND_BOOL: return give_bool(out, a & b);
    case TD_PRIM_OR_BOOL: return give_bool(out, a | b);
    case TD_PRIM_INT_BOOL: return give_int(out, a);
    case TD_PRIM_FLOAT_BOOL: return give_float(out, a);
    case TD_PRIM_EQ_BOOL:
    case TD_PRIM_EQ_STR:
    case TD_PRIM_EQ_DTYPE:
    case TD_PRIM_EQ_DEVICE: return give_bool(out, a == b);
    default: return give_bool(out, a != b);
    }
}

bool td_fold(uint32_t prim, uint32_t n, const td_literal *in, td_literal *out)
{
    const td_literal *a = &in[0], *b = &in[n > 1];
    if (!n || n > 2) return false;
    if (of_ints[prim]) return fold_ints(prim, a->i, b->i, out);
    if (of_floats[prim]) return fold_floats(prim, a->re, b->re, out);
    return of_small[prim] && fold_small(prim, a->small, b->small, out);
}
