/* Facts about dtypes and the one promotion table. Invariant: promotion is symmetric, idempotent and total over the
 * valid dtypes (the table is checked against recorded values in the tests). */
#include "proto/base/dtype.h"

#include <float.h>
#include <math.h>

static const struct {
    const char *name;
    uint8_t category, real, complex;
} facts[TD_DTYPE_COUNT] = {
    [TD_BOOL] = {"bool", TD_CAT_BOOL, TD_BOOL, TD_COMPLEX64},
    [TD_UINT8] = {"uint8", TD_CAT_INT, TD_UINT8, TD_COMPLEX64},
    [TD_INT8] = {"int8", TD_CAT_INT, TD_INT8, TD_COMPLEX64},
    [TD_INT16] = {"int16", TD_CAT_INT, TD_INT16, TD_COMPLEX64},
    [TD_INT32] = {"int32", TD_CAT_INT, TD_INT32, TD_COMPLEX64},
    [TD_INT64] = {"int64", TD_CAT_INT, TD_INT64, TD_COMPLEX64},
    [TD_FLOAT16] = {"float16", TD_CAT_FLOAT, TD_FLOAT16, TD_COMPLEX64},
    [TD_BFLOAT16] = {"bfloat16", TD_CAT_FLOAT, TD_BFLOAT16, TD_COMPLEX64},
    [TD_FLOAT32] = {"float32", TD_CAT_FLOAT, TD_FLOAT32, TD_COMPLEX64},
    [TD_FLOAT64] = {"float64", TD_CAT_FLOAT, TD_FLOAT64, TD_COMPLEX128},
    [TD_COMPLEX64] = {"complex64", TD_CAT_COMPLEX, TD_FLOAT32, TD_COMPLEX64},
    [TD_COMPLEX128] = {"complex128", TD_CAT_COMPLEX, TD_FLOAT64, TD_COMPLEX128},
    [TD_UINT16] = {"uint16", TD_CAT_INT, TD_UINT16, TD_COMPLEX64},
    [TD_UINT32] = {"uint32", TD_CAT_INT, TD_UINT32, TD_COMPLEX64},
    [TD_UINT64] = {"uint64", TD_CAT_INT, TD_UINT64, TD_COMPLEX64},
};

/* clang-format off */
enum { b = TD_BOOL, u1 = TD_UINT8, i1 = TD_INT8, i2 = TD_INT16, i4 = TD_INT32, i8 = TD_INT64, f2 = TD_FLOAT16,
       bf = TD_BFLOAT16, f4 = TD_FLOAT32, f8 = TD_FLOAT64, c8 = TD_COMPLEX64, cx = TD_COMPLEX128, u2 = TD_UINT16, u4 = TD_UINT32, u8 = TD_UINT64,
       no = TD_DTYPE_NONE };

static const uint8_t promotion[TD_DTYPE_COUNT][TD_DTYPE_COUNT] = {
    /*        b   u1  i1  i2  i4  i8  f2  bf  f4  f8  c8  cx  u2  u4  u8 */
    /* b  */ {b,  u1, i1, i2, i4, i8, f2, bf, f4, f8, c8, cx, u2, u4, u8},
    /* u1 */ {u1, u1, i2, i2, i4, i8, f2, bf, f4, f8, c8, cx, u2, u4, u8},
    /* i1 */ {i1, i2, i1, i2, i4, i8, f2, bf, f4, f8, c8, cx, i4, i8, no},
    /* i2 */ {i2, i2, i2, i2, i4, i8, f2, bf, f4, f8, c8, cx, i4, i8, no},
    /* i4 */ {i4, i4, i4, i4, i4, i8, f2, bf, f4, f8, c8, cx, i4, i8, no},
    /* i8 */ {i8, i8, i8, i8, i8, i8, f2, bf, f4, f8, c8, cx, i8, i8, no},
    /* f2 */ {f2, f2, f2, f2, f2, f2, f2, f4, f4, f8, c8, cx, f2, f2, f2},
    /* bf */ {bf, bf, bf, bf, bf, bf, f4, bf, f4, f8, c8, cx, bf, bf, bf},
    /* f4 */ {f4, f4, f4, f4, f4, f4, f4, f4, f4, f8, c8, cx, f4, f4, f4},
    /* f8 */ {f8, f8, f8, f8, f8, f8, f8, f8, f8, f8, cx, cx, f8, f8, f8},
    /* c8 */ {c8, c8, c8, c8, c8, c8, c8, c8, c8, cx, c8, cx, c8, c8, c8},
    /* cx */ {cx, cx, cx, cx, cx, cx, cx, cx, cx, cx, cx, cx, cx, cx, cx},
    /* u2 */ {u2, u2, i4, i4, i4, i8, f2, bf, f4, f8, c8, cx, u2, u4, u8},
    /* u4 */ {u4, u4, i8, i8, i8, i8, f2, bf, f4, f8, c8, cx, u4, u4, u8},
    /* u8 */ {u8, u8, no, no, no, no, f2, bf, f4, f8, c8, cx, u8, u8, u8},
};
/* clang-format on */

const char *td_dtype_name(td_dtype t)
{
    return td_dtype_valid(t) ? facts[t].name : "?";
}

td_dtype td_dtype_parse(const char *name)
{
    for (int t = 0; t < TD_DTYPE_COUNT; t++)
        if (!strcmp(facts[t].name, name)) return (td_dtype)t;
    return TD_DTYPE_NONE;
}

td_category td_dtype_category(td_dtype t)
{
    return td_dtype_valid(t) ? (td_category)facts[t].category : TD_CAT_BOOL;
}

td_dtype td_promote(td_dtype a, td_dtype c)
{
    return td_dtype_valid(a) && td_dtype_valid(c) ? (td_dtype)promotion[a][c] : TD_DTYPE_NONE;
}

td_dtype td_dtype_real(td_dtype t)
{
    return td_dtype_valid(t) ? (td_dtype)facts[t].real : t;
}

td_dtype td_dtype_complex(td_dtype t)
{
    return td_dtype_is_float(t) ? (td_dtype)facts[t].complex : t;
}

td_dtype td_scalar_dtype(td_scalar s)
{
    static const uint8_t own[] = {TD_BOOL, TD_INT64, TD_FLOAT32, TD_COMPLEX64};
    return (unsigned)s.kind < 4 ? (td_dtype)own[s.kind] : TD_DTYPE_NONE;
}

bool td_dtype_can_cast(td_dtype from, td_dtype to)
{
    /* A bool destination takes only bools; otherwise only a higher category is refused. */
    if (to == TD_BOOL) return from == TD_BOOL;
    td_category f = td_dtype_category(from), t = td_dtype_category(to);
    return !(f >= TD_CAT_FLOAT && f > t);
}

/* ---- numbers */

static const int64_t int_min[TD_DTYPE_COUNT] = {
    [TD_INT8] = INT8_MIN, [TD_INT16] = INT16_MIN, [TD_INT32] = INT32_MIN, [TD_INT64] = INT64_MIN};
/* Of what an int64 can say: a number for uint64 has that many, its elements twice as many. */
static const int64_t int_max[TD_DTYPE_COUNT] = {
    [TD_BOOL] = 1,          [TD_UINT8] = UINT8_MAX, [TD_INT8] = INT8_MAX,     [TD_INT16] = INT16_MAX,
    [TD_INT32] = INT32_MAX, [TD_INT64] = INT64_MAX, [TD_UINT16] = UINT16_MAX, [TD_UINT32] = UINT32_MAX,
    [TD_UINT64] = INT64_MAX};

static double float_max(td_dtype t)
{
    switch (td_dtype_real(t)) {
    case TD_FLOAT16: return 65504.0;
    case TD_BFLOAT16: return 0x1.fep127;
    case TD_FLOAT32: return FLT_MAX;
    default: return DBL_MAX;
    }
}

static bool fits_float(double v, td_dtype t)
{
    return !isfinite(v) || fabs(v) <= float_max(t);
}

/* Whole numbers may be negative for what has no sign, for uint8 down to -255: they wrap, so that subtracting reads as
 * adding. For uint64 all of them, which is also how numbers from 2^63 on come. */
static bool fits_int(int64_t v, td_dtype t)
{
    if (t == TD_UINT64) return true;
    return v <= int_max[t] && v >= (td_dtype_is_unsigned(t) ? -int_max[t] : int_min[t]);
}

static bool fits_int_from_float(double v, td_dtype t)
{
    if (isnan(v)) return false;
    return v >= (double)int_min[t] && (t == TD_UINT64  ? v < 0x1p64
                                       : t == TD_INT64 ? v < 0x1p63
                                                       : v <= (double)int_max[t]);
}

bool td_scalar_fits(td_scalar s, td_dtype t)
{
    if (!td_dtype_valid(t)) return false;
    if (t == TD_BOOL || s.kind == TD_S_BOOL) return true;
    if (s.kind == TD_S_COMPLEX) {
        if (td_dtype_is_complex(t)) return fits_float(s.re, t) && fits_float(s.im, t);
        if (s.im != 0) return false;
    }
    if (s.kind == TD_S_INT) return td_dtype_is_integral(t) ? fits_int(s.i, t) : fits_float((double)s.i, t);
    return td_dtype_is_integral(t) ? fits_int_from_float(s.re, t) : fits_float(s.re, t);
}

/* Toward zero; what has no int64 gives the least one, on every machine alike. For uint64 the bits of what is above. */
static int64_t whole(double v, td_dtype t)
{
    if (t == TD_UINT64 && v >= 0x1p63 && v < 0x1p64) return (int64_t)(uint64_t)v;
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

static bool truth(td_scalar s)
{
    return s.kind <= TD_S_INT ? s.i != 0 : s.re != 0 || (s.kind == TD_S_COMPLEX && s.im != 0);
}

static void store_int(int64_t v, td_dtype t, void *out)
{
    uint64_t bits = (uint64_t)v;
    uint8_t b1 = (uint8_t)bits;
    uint16_t b2 = (uint16_t)bits;
    uint32_t b4 = (uint32_t)bits;
    switch (td_dtype_size(t)) {
    case 1: memcpy(out, &b1, 1); break;
    case 2: memcpy(out, &b2, 2); break;
    case 4: memcpy(out, &b4, 4); break;
    default: memcpy(out, &bits, 8); break;
    }
}

static void store_float(double v, td_dtype t, void *out)
{
    float f = (float)v;
    /* An int64 or double goes to a half type through float, as every kernel does. */
    uint16_t h = t == TD_FLOAT16 ? td_float_to_half(f) : td_float_to_bfloat(f);
    switch (t) {
    case TD_FLOAT16:
    case TD_BFLOAT16: memcpy(out, &h, 2); break;
    case TD_FLOAT32: memcpy(out, &f, 4); break;
    default: memcpy(out, &v, 8); break;
    }
}

void td_scalar_store(td_scalar s, td_dtype t, void *out)
{
    if (!td_dtype_valid(t)) return;
    bool is_int = s.kind <= TD_S_INT;
    if (t == TD_BOOL) {
        store_int(truth(s), t, out);
    } else if (td_dtype_is_integral(t)) {
        store_int(is_int ? s.i : whole(s.re, t), t, out);
    } else {
        td_dtype part = td_dtype_real(t);
        store_float(is_int ? (double)s.i : s.re, part, out);
        if (td_dtype_is_complex(t))
            store_float(s.kind == TD_S_COMPLEX ? s.im : 0, part, (char *)out + td_dtype_size(part));
    }
}

static int64_t load_int(td_dtype t, const void *element)
{
    int8_t v1;
    int16_t v2;
    int32_t v4;
    int64_t v8;
    switch (td_dtype_size(t)) {
    case 1: memcpy(&v1, element, 1); return t == TD_UINT8 ? (uint8_t)v1 : v1;
    case 2: memcpy(&v2, element, 2); return t == TD_UINT16 ? (int64_t)(uint16_t)v2 : v2;
    case 4: memcpy(&v4, element, 4); return t == TD_UINT32 ? (int64_t)(uint32_t)v4 : v4;
    default: memcpy(&v8, element, 8); return v8;
    }
}

static double load_float(td_dtype t, const void *element)
{
    uint16_t h;
    float f;
    double d;
    switch (t) {
    case TD_FLOAT16: memcpy(&h, element, 2); return td_half_to_float(h);
    case TD_BFLOAT16: memcpy(&h, element, 2); return td_bfloat_to_float(h);
    case TD_FLOAT32: memcpy(&f, element, 4); return f;
    default: memcpy(&d, element, 8); return d;
    }
}

td_scalar td_scalar_load(td_dtype t, const void *element)
{
    if (!td_dtype_valid(t)) return td_int(0);
    if (t == TD_BOOL) return td_bool(load_int(t, element) != 0);
    if (td_dtype_is_integral(t)) return td_int(load_int(t, element));
    td_dtype part = td_dtype_real(t);
    double re = load_float(part, element);
    if (part == t) return td_float(re);
    return td_complex(re, load_float(part, (const char *)element + td_dtype_size(part)));
}
