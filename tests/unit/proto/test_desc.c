/* Descriptors: building, checking what comes from outside, comparing, broadcasting. */
#include "cunit_main.h"
#include "op_calls.h"

static td_desc make(const char *text)
{
    static call c;
    char line[256];
    snprintf(line, sizeof line, "detach %s", text);
    call_read(&c, line);
    return c.descs[0];
}

static void test_contiguous(void)
{
    td_desc d;
    td_error e = {0};
    int64_t shape[] = {2, 0, 3};
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_INT16, 3, shape, &e), TD_OK);
    CU_ASSERT_EQUAL(td_desc_numel(&d), 0);
    CU_ASSERT_EQUAL(d.stride[0], 3); /* as if no dimension were empty */
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_INT16, 0, NULL, &e), TD_OK);
    CU_ASSERT_EQUAL(td_desc_numel(&d), 1);
    CU_ASSERT_EQUAL(td_desc_nbytes(&d), 2);
    td_desc before = d;
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_INT16, -1, NULL, &e), TD_E_SHAPE);
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_INT16, 9, shape, &e), TD_E_SHAPE);
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_DTYPE_COUNT, 3, shape, &e), TD_E_TYPE);
    CU_ASSERT_TRUE(!memcmp(&d, &before, sizeof d)); /* a failure leaves it alone */
    /* its own shape may be given */
    d = make("f32[2,3]");
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_FLOAT64, 2, d.shape, &e), TD_OK);
    CU_ASSERT_EQUAL(d.shape[1], 3);
}

/* Products up to 2^63 bytes: the largest that fits, and the next. */
static void test_overflow(void)
{
    td_desc d;
    td_error e = {0};
    int64_t fits[] = {TD_DESC_BYTES / 8, 1}, more[] = {TD_DESC_BYTES / 8 + 1, 1}, just[] = {INT64_MAX / 8 + 1, 1},
            wide[] = {INT64_C(1) << 32, INT64_C(1) << 31};
    int64_t hidden[] = {0, INT64_C(1) << 40, INT64_C(1) << 40};
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_FLOAT64, 2, fits, &e), TD_OK);
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_FLOAT64, 2, more, &e), TD_E_SHAPE);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "more than a tensor may have"));
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_FLOAT64, 2, just, &e), TD_E_SHAPE);
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_BOOL, 2, wide, &e), TD_E_SHAPE);
    CU_ASSERT_EQUAL(td_desc_contiguous(&d, TD_BOOL, 3, hidden, &e), TD_E_SHAPE); /* a zero hides no overflow */
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "[0, 1099511627776, 1099511627776]"));
}

static int checked(td_desc d, uint64_t nbytes, const char *message)
{
    td_error e = {0};
    int rc = td_desc_check(&d, nbytes, &e);
    if (message) CU_ASSERT_PTR_NOT_NULL(strstr(e.message, message));
    return rc;
}

static void test_check(void)
{
    td_desc d = make("f32[2,3]");
    CU_ASSERT_EQUAL(checked(d, 24, NULL), TD_OK);
    CU_ASSERT_EQUAL(checked(d, 23, "need a storage of 24 bytes, but it has 23"), TD_E_INVALID);
    d.offset = 1;
    CU_ASSERT_EQUAL(checked(d, 27, "need a storage of 28 bytes"), TD_E_INVALID);
    CU_ASSERT_EQUAL(checked(d, 28, NULL), TD_OK);
    d.offset = -1;
    CU_ASSERT_EQUAL(checked(d, 99, "negative offset -1"), TD_E_INVALID);
    d.offset = INT64_MAX;
    CU_ASSERT_EQUAL(checked(d, 99, "further than 63 bits"), TD_E_SHAPE);
    d = make("f32[2,3]");
    d.stride[1] = INT64_MAX;
    CU_ASSERT_EQUAL(checked(d, 99, "further than 63 bits"), TD_E_SHAPE);
    d.stride[1] = -1;
    CU_ASSERT_EQUAL(checked(d, 99, "negative stride -1 at dimension 1"), TD_E_INVALID);
    d = make("f32[2,3]");
    d.stride[0] = d.stride[1] = 0; /* one element, as often as one likes, but for the limit */
    d.shape[0] = TD_DESC_BYTES / 4, d.shape[1] = 1;
    CU_ASSERT_EQUAL(checked(d, 4, NULL), TD_OK);
    d.shape[1] = 2;
    CU_ASSERT_EQUAL(checked(d, 4, "repeated ones included"), TD_E_SHAPE);
    d.shape[1] = 0;
    CU_ASSERT_EQUAL(checked(d, 0, NULL), TD_OK);
    d = make("f32[2,3]");
    d.shape[0] = -2;
    CU_ASSERT_EQUAL(checked(d, 99, "negative size -2 at dimension 0"), TD_E_SHAPE);
    d = make("f32[2,3]");
    d.ndim = 9;
    CU_ASSERT_EQUAL(checked(d, 99, "at most 8 dimensions"), TD_E_SHAPE);
    d.ndim = 2, d.dtype = TD_DTYPE_COUNT;
    CU_ASSERT_EQUAL(checked(d, 99, "15 is not a dtype"), TD_E_TYPE);
    d.dtype = TD_FLOAT32, d.device = TD_MAX_DEVICES;
    CU_ASSERT_EQUAL(checked(d, 99, "device 16"), TD_E_INVALID);
    d.device = TD_CPU, d.layout = 1;
    CU_ASSERT_EQUAL(checked(d, 99, "layout 1"), TD_E_UNSUPPORTED);
    /* nothing is reached by an empty tensor, wherever it stands */
    d = make("f32[0,3]");
    d.offset = 1000;
    CU_ASSERT_EQUAL(checked(d, 0, NULL), TD_OK);
    /* an expanded tensor reaches little, but must be countable */
    d = make("u8[4,4]");
    d.stride[0] = d.stride[1] = 0;
    CU_ASSERT_EQUAL(checked(d, 1, NULL), TD_OK);
    d.shape[0] = d.shape[1] = INT64_C(1) << 40;
    CU_ASSERT_EQUAL(checked(d, 1, "further than 63 bits"), TD_E_SHAPE);
}

/* Random words as descriptors: what passes the check lies inside the storage. */
static void test_hostile(void)
{
    uint64_t x = 88172645463325252u, passed = 0, wrong = 0;
    for (int round = 0; round < 200000; round++) {
        td_desc d = {0};
        for (int i = 0; i < 2 * TD_MAX_DIMS + 1; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            int64_t v = (int64_t)(x >> (x % 64));
            if (round % 2) v = (int64_t)(x >> 61);
            if (i < TD_MAX_DIMS) d.shape[i] = v;
            else if (i < 2 * TD_MAX_DIMS) d.stride[i - TD_MAX_DIMS] = v;
            else d.offset = v;
        }
        d.ndim = (uint8_t)(x % 5);
        d.dtype = (uint8_t)(x >> 8 & 15);
        if (td_desc_check(&d, 4096, NULL)) continue;
        uint64_t lo, hi;
        td_desc_extent(&d, &lo, &hi);
        wrong += lo > hi || hi > 4096 || td_desc_numel(&d) < 0;
        passed++;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_TRUE(passed > 1000);
}

static void test_layout(void)
{
    static const struct {
        const char *text;
        bool contiguous, dense, overlaps;
    } rows[] = {
        {"f32[]", true, true, false},
        {"f32[2,3]", true, true, false},
        {"f32[2,3]@[1,2]", false, true, false},
        {"f32[2,3]@[3,2]", false, false, true}, /* rows reach into each other: 0 2 4, 3 5 7 do not meet, but may */
        {"f32[2,3]@[0,1]", false, false, true},
        {"f32[2,3]@[4,1]", false, false, false},
        {"f32[1,3]@[99,1]", true, true, false},
        {"f32[2,1,3]@[3,0,1]", true, true, false},
        {"f32[0,3]@[5,7]", true, true, false},
        {"f32[3,3]@[1,1]", false, false, true},
        {"f32[4,2,3]@[2,1,8]", false, true, false},
        {"f32[1]@[0]", true, true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        td_desc d = make(rows[i].text);
        CU_ASSERT_EQUAL(td_desc_is_contiguous(&d), rows[i].contiguous);
        CU_ASSERT_EQUAL(td_desc_is_dense(&d), rows[i].dense);
        CU_ASSERT_EQUAL(td_desc_self_overlaps(&d), rows[i].overlaps);
    }
}

/* Small shapes and strides, all of them: against counting places one by one. */
static void test_layout_by_counting(void)
{
    unsigned missed = 0, wrong = 0, tried = 0;
    for (int n = 0; n < 4 * 4 * 6 * 6; n++, tried++) {
        td_desc d = {.dtype = TD_UINT8, .ndim = 2};
        d.shape[0] = n % 4, d.shape[1] = n / 4 % 4, d.stride[0] = n / 16 % 6, d.stride[1] = n / 96;
        int seen[64] = {0}, most = 0, places = 0;
        uint64_t lo, hi, top = 0;
        for (int i = 0; i < d.shape[0]; i++)
            for (int k = 0; k < d.shape[1]; k++) {
                int at = (int)(i * d.stride[0] + k * d.stride[1]);
                places += !seen[at];
                if (++seen[at] > most) most = seen[at];
                if ((uint64_t)at + 1 > top) top = (uint64_t)at + 1;
            }
        td_desc_extent(&d, &lo, &hi);
        missed += most > 1 && !td_desc_self_overlaps(&d);
        wrong += lo != 0 || hi != top;
        wrong += td_desc_is_dense(&d) != (most <= 1 && (uint64_t)places == top);
        td_desc packed = d;
        td_desc_pack(&packed);
        bool same = td_desc_numel(&d) == 0;
        if (!same) same = (d.shape[0] == 1 || d.stride[0] == packed.stride[0]) && (d.shape[1] == 1 || d.stride[1] == 1);
        wrong += td_desc_is_contiguous(&d) != same;
    }
    CU_ASSERT_EQUAL(missed, 0);
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(tried, 576);
}

static void test_extent(void)
{
    uint64_t lo, hi;
    td_desc d = make("f64[2,3]@[10,2]");
    d.offset = 5;
    td_desc_extent(&d, &lo, &hi);
    CU_ASSERT_EQUAL(lo, 40);
    CU_ASSERT_EQUAL(hi, 8 * (5 + 10 + 4 + 1));
    d.shape[0] = 0;
    td_desc_extent(&d, &lo, &hi);
    CU_ASSERT_EQUAL(lo, 0);
    CU_ASSERT_EQUAL(hi, 0);
}

static void test_equal(void)
{
    td_desc a = make("f32[2,3]"), b = a;
    CU_ASSERT_TRUE(td_desc_equal(&a, &b));
    b.offset = 1;
    CU_ASSERT_FALSE(td_desc_equal(&a, &b));
    CU_ASSERT_TRUE(td_desc_same_shape(&a, &b));
    b = make("f32[2,3]@[1,2]");
    CU_ASSERT_FALSE(td_desc_equal(&a, &b));
    b = make("i32[2,3]");
    CU_ASSERT_FALSE(td_desc_equal(&a, &b));
    b = make("f32[2,3,1]");
    CU_ASSERT_FALSE(td_desc_same_shape(&a, &b));
}

static void test_wrap_dim(void)
{
    td_error e = {0};
    int dim = 7;
    CU_ASSERT_EQUAL(td_wrap_dim(-1, 3, &dim, &e), TD_OK);
    CU_ASSERT_EQUAL(dim, 2);
    CU_ASSERT_EQUAL(td_wrap_dim(0, 0, &dim, &e), TD_OK);
    CU_ASSERT_EQUAL(td_wrap_dim(-1, 0, &dim, &e), TD_OK);
    CU_ASSERT_EQUAL(dim, 0);
    CU_ASSERT_EQUAL(td_wrap_dim(5, 2, &dim, &e), TD_E_INDEX);
    CU_ASSERT_STRING_EQUAL(e.message, "Dimension out of range (expected to be in range of [-2, 1], but got 5)");
    CU_ASSERT_EQUAL(td_wrap_dim(INT64_MIN, 2, &dim, &e), TD_E_INDEX);
    CU_ASSERT_EQUAL(td_wrap_dim(1, 0, &dim, NULL), TD_E_INDEX);
}

static void test_broadcast(void)
{
    int64_t a[TD_MAX_DIMS] = {3, 1}, b[] = {4, 1, 1, 5};
    int n = 2;
    char text[TD_MAX_DIMS * 24];
    CU_ASSERT_EQUAL(td_broadcast(a, &n, b, 4, NULL), TD_OK);
    CU_ASSERT_STRING_EQUAL(td_shape_text(n, a, text, sizeof text), "[4, 1, 3, 5]");
    CU_ASSERT_EQUAL(td_broadcast(a, &n, NULL, 0, NULL), TD_OK);
    int64_t zero[] = {0};
    a[3] = 1;
    CU_ASSERT_EQUAL(td_broadcast(a, &n, zero, 1, NULL), TD_OK);
    CU_ASSERT_STRING_EQUAL(td_shape_text(n, a, text, sizeof text), "[4, 1, 3, 0]");
    td_error e = {0};
    CU_ASSERT_EQUAL(td_broadcast(a, &n, b + 3, 1, &e), TD_E_SHAPE);
    CU_ASSERT_STRING_EQUAL(e.message,
                           "The size of tensor a (0) must match the size of tensor b (5) at non-singleton dimension 3");
    CU_ASSERT_STRING_EQUAL(td_shape_text(n, a, text, sizeof text), "[4, 1, 3, 0]"); /* left alone */
    td_desc d = make("f32[3,1]@[2,7]"), out;
    int64_t to[] = {4, 3, 5};
    d.offset = 6;
    td_desc_broadcast_to(&d, 3, to, &out);
    CU_ASSERT_STRING_EQUAL(td_shape_text(3, out.stride, text, sizeof text), "[0, 2, 0]");
    CU_ASSERT_EQUAL(out.offset, 6);
}

static void test_text(void)
{
    char small[8], text[128];
    td_desc d = make("bf16[2,3]");
    CU_ASSERT_STRING_EQUAL(td_desc_text(&d, text, sizeof text), "bfloat16[2, 3]");
    CU_ASSERT_STRING_EQUAL(td_desc_text(&d, small, sizeof small), "bfloat1");
    d = make("c128[]");
    CU_ASSERT_STRING_EQUAL(td_desc_text(&d, text, sizeof text), "complex128[]");
    CU_ASSERT_STRING_EQUAL(td_shape_text(0, NULL, text, sizeof text), "[]");
    int64_t long_shape[8] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    td_shape_text(8, long_shape, text, sizeof text);
    CU_ASSERT_EQUAL(strlen(text), sizeof text - 1);
}

static void test_errors(void)
{
    td_error e = {.op = "add", .where = "here"};
    CU_ASSERT_EQUAL(td_fail(&e, TD_E_SHAPE, "%d", 7), TD_E_SHAPE);
    CU_ASSERT_STRING_EQUAL(e.message, "7");
    CU_ASSERT_STRING_EQUAL(e.op, "add"); /* kept */
    CU_ASSERT_EQUAL(td_fail_errno(&e, 2, "open %s", "x"), TD_E_SYSTEM);
    CU_ASSERT_STRING_EQUAL(e.message, "open x: No such file or directory");
    CU_ASSERT_EQUAL(td_fail(&e, TD_E_SHAPE, "%500d", 7), TD_E_SHAPE);
    CU_ASSERT_EQUAL(strlen(e.message), sizeof e.message - 1);
    CU_ASSERT_EQUAL(td_fail_errno(&e, 2, "%500d", 7), TD_E_SYSTEM);
    CU_ASSERT_EQUAL(strlen(e.message), sizeof e.message - 1);
    CU_ASSERT_EQUAL(td_fail(NULL, TD_E_TYPE, "x"), TD_E_TYPE);
    CU_ASSERT_EQUAL(td_fail(&e, TD_E_TYPE, "a%c[2J %s\n\tend", 27, "\xff \u202e \u00e9 \x7f"), TD_E_TYPE);
    CU_ASSERT_STRING_EQUAL(e.message, "a?[2J ? ??? \u00e9 ?\n\tend"); /* what others are called moves no cursor */
    td_error_clear(&e);
    CU_ASSERT_EQUAL(e.code | e.op[0] | e.where[0] | e.message[0], 0);
    for (int code = 0; code < TD_CODE_COUNT; code++) {
        CU_ASSERT_TRUE(td_code_known(code));
        if (!td_code_known(code)) continue;
        CU_ASSERT_TRUE(strlen(td_code_name(code)) > 0);
        CU_ASSERT_TRUE(!strncmp(td_code_symbol(code), code ? "TD_E_" : "TD_OK", 5));
    }
    CU_ASSERT_TRUE(!td_code_known(-1) && !td_code_known(TD_CODE_COUNT));
    CU_ASSERT_STRING_EQUAL(td_code_name(-1), td_code_name(TD_CODE_COUNT));
}

TD_CUNIT_MAIN("proto desc", {"contiguous", test_contiguous}, {"overflow", test_overflow},
              {"check from outside", test_check}, {"hostile words", test_hostile}, {"layout", test_layout},
              {"layout by counting", test_layout_by_counting}, {"extent", test_extent}, {"equal", test_equal},
              {"wrap dim", test_wrap_dim}, {"broadcast", test_broadcast}, {"text", test_text}, {"errors", test_errors})
