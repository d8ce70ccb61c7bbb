/* dtypes: facts, promotion against recorded values, half conversions over all their values, numbers as elements. */
#include "cunit_main.h"
#include "proto/base/dtype.h"

#include <math.h>

/* What torch.promote_types gives for each pair, recorded with torch 1.13; of the last three NumPy's. */
static const char *const promoted[TD_DTYPE_COUNT][TD_DTYPE_COUNT] = {
#include "promotion.inc"
};

static void test_promotion(void)
{
    for (int a = 0; a < TD_DTYPE_COUNT; a++) {
        for (int b = 0; b < TD_DTYPE_COUNT; b++) {
            td_dtype want = td_dtype_parse(promoted[a][b]);
            CU_ASSERT_EQUAL(td_promote((td_dtype)a, (td_dtype)b), want);
        }
    }
    CU_ASSERT_EQUAL(td_promote(TD_DTYPE_NONE, TD_BOOL), TD_DTYPE_NONE);
}

static void test_names(void)
{
    static const size_t sizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8};
    for (int t = 0; t < TD_DTYPE_COUNT; t++) {
        CU_ASSERT_EQUAL(td_dtype_size((td_dtype)t), sizes[t]);
        CU_ASSERT_EQUAL(td_dtype_parse(td_dtype_name((td_dtype)t)), (td_dtype)t);
    }
    CU_ASSERT_EQUAL(td_dtype_size(TD_DTYPE_NONE), 0);
    CU_ASSERT_STRING_EQUAL(td_dtype_name((td_dtype)77), "?");
    CU_ASSERT_EQUAL(td_dtype_parse("float128"), TD_DTYPE_NONE);
    CU_ASSERT_EQUAL(td_dtype_real(TD_COMPLEX128), TD_FLOAT64);
    CU_ASSERT_EQUAL(td_dtype_real(TD_INT8), TD_INT8);
    CU_ASSERT_EQUAL(td_dtype_complex(TD_BFLOAT16), TD_COMPLEX64);
    CU_ASSERT_EQUAL(td_dtype_complex(TD_FLOAT64), TD_COMPLEX128);
    CU_ASSERT_EQUAL(td_dtype_complex(TD_INT8), TD_INT8);
}

static void test_cast(void)
{
    CU_ASSERT_TRUE(td_dtype_can_cast(TD_INT64, TD_INT8));
    CU_ASSERT_TRUE(td_dtype_can_cast(TD_FLOAT64, TD_FLOAT16));
    CU_ASSERT_TRUE(td_dtype_can_cast(TD_INT64, TD_COMPLEX64));
    CU_ASSERT_TRUE(td_dtype_can_cast(TD_BOOL, TD_UINT8));
    CU_ASSERT_FALSE(td_dtype_can_cast(TD_FLOAT32, TD_INT64));
    CU_ASSERT_FALSE(td_dtype_can_cast(TD_COMPLEX64, TD_FLOAT64));
    CU_ASSERT_FALSE(td_dtype_can_cast(TD_INT8, TD_BOOL));
}

/* A half's value from its parts, without the conversions under test. */
static double half_value(unsigned h, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(h >> mantissa_bits) & ((1 << exponent_bits) - 1),
        mantissa = (int)h & ((1 << mantissa_bits) - 1);
    double sign = h >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

typedef float (*widen_fn)(uint16_t);
typedef uint16_t (*round_fn)(float);

/* Every value widens exactly and comes back; halfway between neighbours goes to the even one, a little more or less
 * to the nearer. */
static void check_half(widen_fn widen, round_fn narrow, int eb, int mb)
{
    unsigned infinity = ((1u << eb) - 1) << mb, wrong = 0;
    for (unsigned h = 0; h < 65536; h++) {
        double want = half_value(h, eb, mb);
        float got = widen((uint16_t)h);
        if (isnan(want)) {
            wrong += !isnan(got) || !isnan(widen(narrow(got)));
            continue;
        }
        wrong += (double)got != want || !signbit(got) != !signbit(want) || narrow(got) != h;
        if ((h & 0x7fff) >= infinity - 1) continue;
        float middle = (float)((want + half_value(h + 1, eb, mb)) / 2);
        wrong += narrow(middle) != (h & 1 ? h + 1 : h);
        wrong += narrow(nextafterf(middle, h >> 15 ? -INFINITY : INFINITY)) != h + 1;
        wrong += narrow(nextafterf(middle, 0)) != h;
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void test_half(void)
{
    check_half(td_half_to_float, td_float_to_half, 5, 10);
    CU_ASSERT_EQUAL(td_float_to_half(65519.996f), 0x7bff);
    CU_ASSERT_EQUAL(td_float_to_half(65520.0f), 0x7c00);
    CU_ASSERT_EQUAL(td_float_to_half(-1e30f), 0xfc00);
    CU_ASSERT_EQUAL(td_float_to_half(1e-30f), 0);
}

static void test_bfloat(void)
{
    check_half(td_bfloat_to_float, td_float_to_bfloat, 8, 7);
    CU_ASSERT_EQUAL(td_float_to_bfloat(3.4028235e38f), 0x7f80);
}

static void test_fits(void)
{
    static const struct {
        td_scalar s;
        td_dtype t;
        bool fits;
    } rows[] = {
        {{TD_S_INT, 300, 0, 0}, TD_INT8, false},
        {{TD_S_INT, -128, 0, 0}, TD_INT8, true},
        {{TD_S_INT, 255, 0, 0}, TD_UINT8, true},
        {{TD_S_INT, -1, 0, 0}, TD_UINT8, true},
        {{TD_S_INT, -256, 0, 0}, TD_UINT8, false},
        {{TD_S_INT, 65535, 0, 0}, TD_UINT16, true},
        {{TD_S_INT, 65536, 0, 0}, TD_UINT16, false},
        {{TD_S_INT, -65535, 0, 0}, TD_UINT16, true},
        {{TD_S_INT, -65536, 0, 0}, TD_UINT16, false},
        {{TD_S_INT, UINT32_MAX, 0, 0}, TD_UINT32, true},
        {{TD_S_INT, INT64_C(1) << 32, 0, 0}, TD_UINT32, false},
        {{TD_S_INT, INT64_MAX, 0, 0}, TD_UINT64, true},
        {{TD_S_INT, -1, 0, 0}, TD_UINT64, true},
        {{TD_S_FLOAT, 0, 0x1p63, 0}, TD_UINT64, true},
        {{TD_S_FLOAT, 0, 0x1p64, 0}, TD_UINT64, false},
        {{TD_S_INT, 65505, 0, 0}, TD_FLOAT16, false},
        {{TD_S_INT, INT64_MAX, 0, 0}, TD_FLOAT32, true},
        {{TD_S_FLOAT, 0, 1e300, 0}, TD_FLOAT32, false},
        {{TD_S_FLOAT, 0, INFINITY, 0}, TD_FLOAT16, true},
        {{TD_S_FLOAT, 0, NAN, 0}, TD_FLOAT16, true},
        {{TD_S_FLOAT, 0, NAN, 0}, TD_INT64, false},
        {{TD_S_FLOAT, 0, INFINITY, 0}, TD_INT64, false},
        {{TD_S_FLOAT, 0, 0x1p63, 0}, TD_INT64, false},
        {{TD_S_FLOAT, 0, -0x1p63, 0}, TD_INT64, true},
        {{TD_S_FLOAT, 0, 127.5, 0}, TD_INT8, false},
        {{TD_S_FLOAT, 0, 1e300, 0}, TD_BOOL, true},
        {{TD_S_COMPLEX, 0, 1, 1}, TD_FLOAT32, false},
        {{TD_S_COMPLEX, 0, 1, 0}, TD_FLOAT32, true},
        {{TD_S_COMPLEX, 0, 1, 1e300}, TD_COMPLEX64, false},
        {{TD_S_COMPLEX, 0, 1, 1e300}, TD_COMPLEX128, true},
        {{TD_S_BOOL, 1, 0, 0}, TD_INT8, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CU_ASSERT_EQUAL(td_scalar_fits(rows[i].s, rows[i].t), rows[i].fits);
}

static td_scalar through(td_scalar s, td_dtype t)
{
    unsigned char element[16];
    memset(element, 0xa5, sizeof element);
    td_scalar_store(s, t, element);
    for (size_t i = td_dtype_size(t); i < sizeof element; i++) CU_ASSERT_EQUAL(element[i], 0xa5);
    return td_scalar_load(t, element);
}

static void test_elements(void)
{
    CU_ASSERT_EQUAL(through(td_int(-7), TD_INT8).i, -7);
    CU_ASSERT_EQUAL(through(td_int(-1), TD_UINT8).i, 255);
    CU_ASSERT_EQUAL(through(td_int(-1), TD_UINT16).i, 65535);
    CU_ASSERT_EQUAL(through(td_int(-1), TD_UINT32).i, UINT32_MAX);
    CU_ASSERT_EQUAL(through(td_int(-1), TD_UINT64).i, -1);
    CU_ASSERT_EQUAL((uint64_t)through(td_float(0x1.8p63), TD_UINT64).i, UINT64_C(3) << 62);
    CU_ASSERT_EQUAL(through(td_float(3e9), TD_UINT32).i, 3000000000);
    CU_ASSERT_EQUAL(through(td_int(300), TD_INT8).i, 44);
    CU_ASSERT_EQUAL(through(td_float(-2.9), TD_INT16).i, -2);
    CU_ASSERT_EQUAL(through(td_float(-2.9), TD_INT32).i, -2);
    CU_ASSERT_EQUAL(through(td_float(NAN), TD_INT64).i, INT64_MIN);
    CU_ASSERT_EQUAL(through(td_float(1e30), TD_INT64).i, INT64_MIN);
    CU_ASSERT_EQUAL(through(td_int(INT64_MAX), TD_INT64).i, INT64_MAX);
    CU_ASSERT_EQUAL(through(td_float(0.1), TD_FLOAT32).re, (double)0.1f);
    CU_ASSERT_EQUAL(through(td_float(0.1), TD_FLOAT64).re, 0.1);
    CU_ASSERT_EQUAL(through(td_float(1.5), TD_FLOAT16).re, 1.5);
    CU_ASSERT_EQUAL(through(td_float(1.5), TD_BFLOAT16).re, 1.5);
    CU_ASSERT_EQUAL(through(td_complex(1.5, -2), TD_COMPLEX64).im, -2);
    CU_ASSERT_EQUAL(through(td_complex(1.5, -2), TD_COMPLEX128).re, 1.5);
    CU_ASSERT_EQUAL(through(td_int(3), TD_COMPLEX128).im, 0);
    CU_ASSERT_EQUAL(through(td_complex(0, 1), TD_BOOL).i, 1);
    CU_ASSERT_EQUAL(through(td_float(0.5), TD_BOOL).i, 1);
    CU_ASSERT_EQUAL(through(td_int(0), TD_BOOL).i, 0);
    unsigned char odd = 2;
    CU_ASSERT_EQUAL(td_scalar_load(TD_BOOL, &odd).i, 1);
    CU_ASSERT_EQUAL(td_scalar_dtype(td_complex(0, 0)), TD_COMPLEX64);
    CU_ASSERT_EQUAL(td_scalar_dtype(td_int(0)), TD_INT64);
}

TD_CUNIT_MAIN("proto dtype", {"promotion", test_promotion}, {"names", test_names}, {"can cast", test_cast},
              {"float16", test_half}, {"bfloat16", test_bfloat}, {"fits", test_fits},
              {"numbers as elements", test_elements})
