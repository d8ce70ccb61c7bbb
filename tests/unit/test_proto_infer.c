/* Inference of shapes and dtypes: every op as rows of a call and what it gives. */
#include "cunit_main.h"
#include "op_calls.h"

typedef struct row {
    const char *call, *want; /* want: the whole result; or, with a leading '!', a part of the error's message */
} row;

static void check_rows(const row *rows, size_t count)
{
    static call c;
    for (size_t i = 0; i < count; i++) {
        call_read(&c, rows[i].call);
        const char *got = call_infer(&c), *want = rows[i].want;
        bool ok = *want == '!' ? c.error.code && strstr(got, want + 1) : !c.error.code && !strcmp(got, want);
        if (*want == '!') ok = ok && !strcmp(c.error.op, c.f.op->name) && c.f.nout == 0;
        if (!ok) printf("\n  %s\n    gives  %s\n    wanted %s\n", rows[i].call, got, want);
        CU_ASSERT_TRUE(ok);
    }
}

#define CHECK(rows) check_rows(rows, sizeof(rows) / sizeof(rows)[0])

static void test_promotion(void)
{
    static const row rows[] = {
        {"add i32[2] #5", "int32[2]"},
        {"add i32[2] i64[]", "int32[2]"},
        {"add i64[2] f32[2]", "float32[2]"},
        {"add i64[2] f64[]", "float64[2]"},
        {"add i64[2] #1.0", "float32[2]"},
        {"add f16[2] f64[]", "float16[2]"},
        {"add f16[2] #1e9", "float16[2]"},
        {"add f16[2] #1j", "complex64[2]"},
        {"add f64[2] #1j", "complex128[2]"},
        {"add f64[2] c64[]", "complex128[2]"},
        {"add i32[2] c128[]", "complex128[2]"},
        {"add b[2] #1", "int64[2]"},
        {"add b[2] i8[]", "int8[2]"},
        {"add b[2] b[2]", "bool[2]"},
        {"add u8[2] i8[2]", "int16[2]"},
        {"add i32[] #1.5", "float32[]"},
        {"add f64[] f32[]", "float64[]"},
        {"add #1 #2", "int64[]"},
        {"add f16[2] bf16[2]", "float32[2]"},
        {"div i32[2] #2", "float32[2]"},
        {"div b[2] b[2]", "float32[2]"},
        {"div f16[2] i64[2]", "float16[2]"},
        {"sqrt i64[3]", "float32[3]"},
        {"exp f64[3]", "float64[3]"},
        {"lt i64[2] #2.5", "bool[2]"},
        {"abs c128[2]", "float64[2]"},
        {"abs i8[2]", "int8[2]"},
        {"where b[2] i32[2] #1.5", "float32[2]"},
        {"where b[2] #1 #2", "int64[2]"},
        {"clamp i64[2] | 1.5", "float32[2]"},
        {"clamp i8[2] | 1 2", "int8[2]"},
        {"clamp f16[2] | 1.5 none", "float16[2]"},
        {"masked_fill i8[2] b[2] #1.5", "int8[2]"},
        {"lerp f32[2] f32[2] #0.5", "float32[2]"},
        {"addcdiv i64[2] f32[2] f32[2]", "float32[2]"},
        {"copy f32[2] | i64", "int64[2]"},
        {"cat i32[2] f32[3]", "float32[5]"},
    };
    CHECK(rows);
}

/* What torch.result_type gives for each pair of operands in each tier, recorded with torch 1.13 (complex32, which is
 * not here, as complex64). */
static const char *const tiers[2 * TD_DTYPE_COUNT] = {
#include "promotion_tiers.inc"
};

static void test_tiers(void)
{
    static const char *const dtypes[] = {"b",   "u8",   "i8",  "i16", "i32", "i64",
                                         "f16", "bf16", "f32", "f64", "c64", "c128"};
    static const char *const numbers[] = {"#true", "#1", "#1.0", "#1j"};
    static call c;
    char text[64], right[16];
    unsigned checked = 0, wrong = 0;
    for (int i = 0; i < 2 * TD_DTYPE_COUNT; i++) {
        const char *want = tiers[i];
        for (int k = 0; k < 2 * TD_DTYPE_COUNT + 4; k++, checked++) {
            size_t length = strcspn(want, " ");
            if (k < 2 * TD_DTYPE_COUNT) snprintf(right, sizeof right, "%s[%s]", dtypes[k % 12], k < 12 ? "2" : "");
            else snprintf(right, sizeof right, "%s", numbers[k - 24]);
            snprintf(text, sizeof text, "eq %s[%s] %s", dtypes[i % 12], i < 12 ? "2" : "", right);
            call_read(&c, text);
            call_infer(&c);
            bool ok = c.f.compute == call_dtype(want, length);
            if (!ok)
                printf("\n  %s computes in %s, wanted %.*s\n", text, td_dtype_name(c.f.compute), (int)length, want);
            wrong += !ok;
            want += length + (want[length] == ' ');
        }
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(checked, 24 * 28);
}

static void test_compute(void)
{
    static const struct {
        const char *call;
        td_dtype compute;
    } rows[] = {{"lt i64[2] #2.5", TD_FLOAT32}, {"abs c128[2]", TD_COMPLEX128},
                {"sum i8[2]", TD_INT64},        {"div i32[2] #2", TD_FLOAT32},
                {"any f64[2]", TD_FLOAT64},     {"argmax f16[2]", TD_FLOAT16},
                {"eq u8[2] i8[2]", TD_INT16},   {"sum f32[2] | none false f64", TD_FLOAT64}};
    static call c;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        call_read(&c, rows[i].call);
        call_infer(&c);
        CU_ASSERT_EQUAL(c.f.compute, rows[i].compute);
    }
}

static void test_pointwise(void)
{
    static const row rows[] = {
        {"add f32[2,3] f32[3]", "float32[2, 3]"},
        {"add f32[2,1] f32[1,3]", "float32[2, 3]"},
        {"add f32[3] f32[4,1,1]", "float32[4, 1, 3]"},
        {"add f32[0] f32[1]", "float32[0]"},
        {"add f32[2,3]@[1,2] f32[]", "float32[2, 3]"},
        {"add f32[2] f32[3]",
         "!The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"},
        {"addcmul f32[2,3] f32[2,3] f32[4]", "!'t1' makes [2, 3], 't2' is [4]"},
        {"add i64[2] i64[2] | 1.5", "!argument 'alpha' must not be a floating point number"},
        {"add f32[2] f32[2] | 1j", "!argument 'alpha' must not be a complex number"},
        {"add i64[2] i64[2] | true", "!boolean 'alpha'"},
        {"add b[2] b[2] | true", "bool[2]"},
        {"sub b[2] b[2]", "!two bool tensors"},
        {"sub b[2] i64[2]", "!with a bool tensor ('x')"},
        {"sub i64[2] b[]", "!with a bool tensor ('y')"},
        {"neg b[2]", "!\"neg\" is not implemented for bool"},
        {"lt c64[2] c64[2]", "!\"lt\" is not implemented for complex64"},
        {"bitwise_and i64[2] #1.5", "!\"bitwise_and\" is not implemented for float32"},
        {"pow i64[2] #-1", "!integers to negative integer powers are not allowed"},
        {"pow f32[2] #-1", "float32[2]"},
        {"pow i64[2] #-1.0", "float32[2]"},
        {"pow b[2] #2", "int64[2]"},
        {"where f32[2] f32[2] f32[2]", "!expected 'condition' to be a boolean tensor"},
        {"where b[2,1] f32[3] #1", "float32[2, 3]"},
        {"clamp f32[2]", "!at least one of 'min' or 'max'"},
        {"clamp b[2] | true", "!\"clamp\" is not implemented for bool"},
        {"lerp f32[2] f64[2] #0.5", "!expected 'x' and 'end' to have the same dtype"},
        {"lerp f32[2] f32[2] f64[2]", "!expected 'x' and 'weight' to have the same dtype"},
        {"lerp f32[2] f32[2] #1j", "!'weight' is complex"},
        {"lerp i32[2] i32[2] #1", "!\"lerp\" is not implemented for int32"},
        {"addcdiv i64[2] i64[2] i64[2]", "!integer division with addcdiv is not supported"},
        {"addcmul i64[2] i64[2] i64[2] | 1.5", "!argument 'value' must not be a floating point number"},
        {"masked_fill f32[2] f32[2] #1", "!expected 'mask' to be a boolean tensor"},
        {"masked_fill i8[2] b[2] #300", "!'value' cannot be converted to int8 without overflow"},
        {"masked_fill f32[2] b[2] f32[1]", "!'value' must be a number or a 0-dimensional tensor"},
        {"masked_fill f32[2,1] b[3] f64[]", "float32[2, 3]"},
        {"copy f32[2,3]@[1,2]", "float32[2, 3]"},
        {"sigmoid_backward f32[2] f32[2]", "float32[2]"},
        {"silu i64[2]", "!\"silu\" is not implemented for int64"},
    };
    CHECK(rows);
}

static void test_signature(void)
{
    static const row rows[] = {
        {"neg f32[2] f32[2]", "!takes 1 tensor, but 2 were given"},
        {"neg", "!takes 1 tensor, but 0 were given"},
        {"neg _", "!argument 'x' is required"},
        {"neg #1", "!argument 'x' must be a tensor, not a number"},
        {"index_put f32[2]", "!at least 2 tensors"},
        {"unsqueeze f32[2]", "!takes 1 attribute, but 0 were given"},
        {"unsqueeze f32[2] | none", "!attribute 'dim' is required"},
        {"cat", "!non-empty list"},
        {"cat f32[2] _", "!argument 'xs' is required"},
        {"add f32[2]cuda f32[2]", "!all tensors must be on one device, but 'x' is on cuda and 'y' on cpu"},
        {"add f32[2]cuda f32[]", "float32[2]"},
        {"mm f32[2,2]cuda f32[2,2]", "!all tensors must be on one device"},
    };
    CHECK(rows);
    static call c;
    call_read(&c, "add f32[] f32[2]cuda");
    call_infer(&c);
    CU_ASSERT_EQUAL(c.out[0].device, TD_CUDA);
    call_read(&c, "copy f32[2] | i64");
    c.attrs.at[0].i = 99;
    CU_ASSERT_PTR_NOT_NULL(strstr(call_infer(&c), "99 is not a dtype"));
    call_read(&c, "unsqueeze f32[2] | 0");
    c.attrs.at[0].kind = TD_A_FLOAT;
    CU_ASSERT_PTR_NOT_NULL(strstr(call_infer(&c), "attribute 'dim' has the wrong kind"));
    CU_ASSERT_EQUAL(c.error.code, TD_E_TYPE);
    call_read(&c, "unbind f32[3]");
    c.f.max_out = 2;
    CU_ASSERT_PTR_NOT_NULL(strstr(call_infer(&c), "more than 2 results"));
    CU_ASSERT_EQUAL(td_op_infer(&c.f, NULL), TD_E_INVALID);
}

static void test_create(void)
{
    static const row rows[] = {
        {"empty | [2,3] f32", "float32[2, 3]"},
        {"empty | [] b", "bool[]"},
        {"empty | [2,-1] f32", "!negative size -1 at dimension 1 of shape [2, -1]"},
        {"empty | [1,1,1,1,1,1,1,1,1] f32", "!at most 8 dimensions"},
        {"empty | [4611686018427387904] f16", "!too large"},
        {"empty | [4611686018427387904,4] b", "!too large"},
        {"empty | [4611686018427387904] b", "bool[4611686018427387904]"},
        {"full | [2] 300 i8", "!'value' cannot be converted to int8 without overflow"},
        {"full | [2] -1 u8", "uint8[2]"},
        {"full | [2] 1e300 f32", "!without overflow"},
        {"arange | 0 10 3 i64", "int64[4]"},
        {"arange | 0 -10 -3 i32", "int32[4]"},
        {"arange | 0.0 1.0 0.25 f32", "float32[4]"},
        {"arange | 0.0 1.1 0.25 f64", "float64[5]"},
        {"arange | 5 5 1 i64", "int64[0]"},
        {"arange | 0.9 3.9 1.5 i64", "int64[3]"},
        {"arange | 0 10 0 i64", "!'step' must be nonzero"},
        {"arange | 0 10 -1 i64", "!inconsistent with step sign"},
        {"arange | 0 inf 1 f32", "!unsupported range: 0 -> inf"},
        {"arange | 0 nan 1 f32", "!unsupported range"},
        {"arange | 0 1j 1 f32", "!'end' must not be a complex number"},
        {"arange | 0 1e30 1 i64", "!'end' cannot be converted to int64"},
        {"arange | -9223372036854775807 9223372036854775807 1 i64", "!too many elements"},
        {"arange | 0 1e30 1e-3 f32", "!too many elements"},
        {"arange | 0 3 1 b", "!\"arange\" is not implemented for bool"},
        {"linspace | 0 1 5 f32", "float32[5]"},
        {"linspace | 0 1 -1 f32", "!number of 'steps' must be non-negative, got -1"},
        {"eye | 2 3 b", "bool[2, 3]"},
        {"eye | 2 -3 b", "!'m' must be greater or equal to 0, got -3"},
        {"empty_strided | [2,3] [1,2] f32", "float32[2, 3]"},
        {"empty_strided | [2,3] [1] f32", "!mismatch in length of 'shape' (2) and 'stride' (1)"},
        {"empty_strided | [2,3] [1,-2] f32", "!negative stride -2"},
        {"empty_strided | [2,3] [1,9223372036854775807] f32", "!further than 63 bits"},
        {"rand | [2] f32", "float32[2]"},
        {"rand | [2] i64", "!\"rand\" is not implemented for int64"},
        {"randint | 0 10 [2] i8", "int8[2]"},
        {"randint | 5 5 [2] i8", "!got low=5 >= high=5"},
        {"randint | 0 257 [2] u8", "!out of bounds for uint8"},
        {"randint | -1 2 [2] u8", "!out of bounds for uint8"},
        {"randperm | 5 i64", "int64[5]"},
        {"randperm | -1 i64", "!'n' must be non-negative, got -1"},
        {"randperm | 129 i8", "!'n' is too large for result tensor type int8: 129"},
        {"randperm | 128 i8", "int8[128]"},
        {"randperm | 2050 f16", "!too large"},
    };
    CHECK(rows);
    static call c;
    call_read(&c, "empty_strided | [2,3] [1,2] f32");
    call_infer(&c);
    CU_ASSERT_EQUAL(c.out[0].stride[1], 2);
}

static void test_views(void)
{
    static const row rows[] = {
        {"view f32[2,3] | [6]", "float32[6]@[1]+0"},
        {"view f32[2,3] | [3,-1]", "float32[3, 2]@[2, 1]+0"},
        {"view f32[2,3] | [1,2,1,3,1]", "float32[1, 2, 1, 3, 1]@[6, 3, 3, 1, 1]+0"},
        {"view f32[4,3]@[1,4] | [2,2,3]", "float32[2, 2, 3]@[2, 1, 4]+0"},
        {"view f32[4,3]@[1,4] | [12]", "!Use reshape(...) instead: it copies"},
        {"view f32[2,3]@[6,2] | [6]", "float32[6]@[2]+0"},
        {"view f32[2,1,3]@[3,99,1] | [6]", "float32[6]@[1]+0"},
        {"view f32[4,3]@[0,1] | [2,2,3]", "float32[2, 2, 3]@[0, 0, 1]+0"},
        {"view f32[4,3]@[0,1] | [12]", "!view size is not compatible"},
        {"view f32[] | [1,1]", "float32[1, 1]@[1, 1]+0"},
        {"view f32[1,1] | []", "float32[]@[]+0"},
        {"view f32[0,3] | [3,0]", "float32[3, 0]@[1, 1]+0"},
        {"view f32[0,3]@[9,7] | [0,3]", "float32[0, 3]@[9, 7]+0"},
        {"view f32[0] | [-1,0]", "!cannot reshape tensor of 0 elements into shape [-1, 0]"},
        {"view f32[0] | [-1,2]", "float32[0, 2]@[2, 1]+0"},
        {"view f32[6] | [4]", "!shape '[4]' is invalid for input of size 6"},
        {"view f32[6] | [-1,4]", "!shape '[-1, 4]' is invalid for input of size 6"},
        {"view f32[6] | [-1,0]", "!shape '[-1, 0]' is invalid for input of size 6"},
        {"view f32[6] | [-1,-1]", "!only one dimension can be inferred"},
        {"view f32[6] | [-2]", "!invalid shape dimension -2"},
        {"view f32[6] | [9223372036854775807,9223372036854775807]", "!too large"},
        {"view f32[1] | [1,1,1,1,1,1,1,1,1]", "!at most 8 dimensions"},
        {"as_strided f32[6] | [2,2] [1,2] 1", "float32[2, 2]@[1, 2]+1"},
        {"as_strided f32[6] | [2,2] [1] 1", "!mismatch in length"},
        {"as_strided f32[6] | [2] [-1] 1", "!negative stride"},
        {"as_strided f32[6] | [2] [1] -1", "!negative offset -1"},
        {"as_strided f32[6] | [2] [9223372036854775807] 0", "!further than 63 bits"},
        {"as_strided f32[6] | [1,1,1,1,1,1,1,1,1] [1,1,1,1,1,1,1,1,1] 0", "!at most 8 dimensions"},
        {"view_dtype f32[2,3] | i32", "int32[2, 3]@[3, 1]+0"},
        {"view_dtype f32[2,3] | u8", "uint8[2, 12]@[12, 1]+0"},
        {"view_dtype u8[2,8] | f32", "float32[2, 2]@[2, 1]+0"},
        {"view_dtype u8[2,7] | f32", "!the last size of 'x' must be divisible by 4 to view it as float32, but is 7"},
        {"view_dtype u8[2,8]@[9,1] | f32", "!the stride of 'x' must be divisible by 4"},
        {"view_dtype u8[2,8]@[16,2] | f32", "!the last stride of 'x' must be 1"},
        {"view_dtype f32[] | i32", "int32[]@[]+0"},
        {"view_dtype f32[] | u8", "!'x' cannot be 0-dimensional"},
        {"detach f32[2,3]@[1,2]", "float32[2, 3]@[1, 2]+0"},
        {"expand f32[3,1] | [2,-1,4]", "float32[2, 3, 4]@[0, 1, 0]+0"},
        {"expand f32[] | [2]", "float32[2]@[0]+0"},
        {"expand f32[1] | [0]", "float32[0]@[0]+0"},
        {"expand f32[3] | [4]",
         "!The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 0"},
        {"expand f32[3] | [-1,3]", "!isn't allowed in a leading, non-existing dimension 0"},
        {"expand f32[3,1] | [3]", "!number of sizes provided (1) must be greater or equal"},
        {"expand f32[1] | [-2]", "!the expanded size of the tensor (-2) isn't allowed in a dimension 0"},
        {"expand f32[1] | [4611686018427387904,4]", "!further than 63 bits"},
        {"permute f32[2,3,4] | [2,0,-2]", "float32[4, 2, 3]@[1, 12, 4]+0"},
        {"permute f32[2,3] | [0]", "!number of dims don't match in permute"},
        {"permute f32[2,3] | [1,-1]", "!repeated dim in permute"},
        {"permute f32[2,3] | [0,2]", "!Dimension out of range (expected to be in range of [-2, 1], but got 2)"},
        {"transpose f32[2,3] | 0 -1", "float32[3, 2]@[1, 3]+0"},
        {"transpose f32[] | 0 -1", "float32[]@[]+0"},
        {"transpose f32[2] | 0 1", "!Dimension out of range (expected to be in range of [-1, 0], but got 1)"},
        {"squeeze f32[1,2,1]", "float32[2]@[1]+0"},
        {"squeeze f32[1,2,1] | [0,1]", "float32[2, 1]@[1, 1]+0"},
        {"squeeze f32[1,2,1] | []", "float32[1, 2, 1]@[2, 1, 1]+0"},
        {"squeeze f32[1,2] | [0,-2]", "!dim 0 appears multiple times"},
        {"squeeze f32[1,2] | [2]", "!Dimension out of range"},
        {"squeeze f32[] | [0]", "float32[]@[]+0"},
        {"unsqueeze f32[2,3] | 1", "float32[2, 1, 3]@[3, 3, 1]+0"},
        {"unsqueeze f32[2,3] | -1", "float32[2, 3, 1]@[3, 1, 1]+0"},
        {"unsqueeze f32[2,3] | -3", "float32[1, 2, 3]@[6, 3, 1]+0"},
        {"unsqueeze f32[2,3] | 3", "!expected to be in range of [-3, 2], but got 3"},
        {"unsqueeze f32[1,1,1,1,1,1,1,1] | 0", "!at most 8 dimensions"},
    };
    CHECK(rows);
}

static void test_slices(void)
{
    static const row rows[] = {
        {"select f32[2,3] | 0 1", "float32[3]@[1]+3"},
        {"select f32[2,3] | -1 -1", "float32[2]@[3]+2"},
        {"select f32[2,3] | 1 3", "!index 3 out of range for tensor of size [2, 3] at dimension 1"},
        {"select f32[2,3] | 1 -4", "!index -4 out of range"},
        {"select f32[] | 0 0", "!cannot be applied to a 0-dim tensor"},
        {"slice f32[5] | 0", "float32[5]@[1]+0"},
        {"slice f32[5] | 0 1 -1 2", "float32[2]@[2]+1"},
        {"slice f32[5] | 0 -3", "float32[3]@[1]+2"},
        {"slice f32[5] | 0 -99 99", "float32[5]@[1]+0"},
        {"slice f32[5] | 0 3 2", "float32[0]@[1]+0"},
        {"slice f32[5] | 0 9 9", "float32[0]@[1]+0"},
        {"slice f32[5] | 0 4 none 9223372036854775807", "float32[1]@[1]+4"},
        {"slice f32[5] | 0 -9223372036854775808 9223372036854775807", "float32[5]@[1]+0"},
        {"slice f32[2,6] | 1 0 6 3", "float32[2, 2]@[6, 3]+0"},
        {"slice f32[5] | 0 0 5 0", "!slice 'step' must be positive, got 0"},
        {"slice f32[5] | 0 0 5 -1", "!slice 'step' must be positive, got -1"},
        {"slice f32[] | 0", "!cannot be applied to a 0-dim tensor"},
        {"diagonal f32[2,3]", "float32[2]@[4]+0"},
        {"diagonal f32[2,3] | 1", "float32[2]@[4]+1"},
        {"diagonal f32[2,3] | -1", "float32[1]@[1]+3"},
        {"diagonal f32[2,3] | 5", "float32[0]@[1]+0"},
        {"diagonal f32[2,3] | -9223372036854775808", "float32[0]@[1]+0"},
        {"diagonal f32[4,2,3] | 0 -1 0", "float32[2, 3]@[3, 7]+0"},
        {"diagonal f32[2,3] | 0 1 -1", "!diagonal dimensions cannot be identical 1, -1"},
        {"diagonal f32[2] | 0 0 1", "!Dimension out of range"},
        {"unfold f32[5] | 0 3 1", "float32[3, 3]@[1, 1]+0"},
        {"unfold f32[2,7] | 1 3 2", "float32[2, 3, 3]@[7, 2, 1]+0"},
        {"unfold f32[] | 0 1 1", "float32[1]@[1]+0"},
        {"unfold f32[5] | 0 6 1", "!maximum size for tensor at dimension 0 is 5 but 'size' is 6"},
        {"unfold f32[5] | 0 -1 1", "!but 'size' is -1"},
        {"unfold f32[5] | 0 2 0", "!'step' is 0 but must be > 0"},
        {"unfold f32[1,1,1,1,1,1,1,1] | 0 1 1", "!unfold() adds one"},
        {"unfold f32[5] | 0 0 9223372036854775807", "float32[1, 0]@[1, 1]+0"},
        {"unbind f32[2,3]", "float32[3]@[1]+0; float32[3]@[1]+3"},
        {"unbind f32[2,3] | -1", "float32[2]@[3]+0; float32[2]@[3]+1; float32[2]@[3]+2"},
        {"unbind f32[0,3]", ""},
        {"unbind f32[]", "!'x' must have at least one dimension"},
        {"unbind f32[2000]", "!2000 results; one call makes at most 1024"},
        {"split f32[5] | [2,3]", "float32[2]@[1]+0; float32[3]@[1]+2"},
        {"split f32[2,5] | [4,0,1] 1", "float32[2, 4]@[5, 1]+0; float32[2, 0]@[5, 1]+0; float32[2, 1]@[5, 1]+4"},
        {"split f32[5] | [5,0]", "float32[5]@[1]+0; float32[0]@[1]+0"},
        {"split f32[5] | [2,2]", "!'sizes' must sum exactly to 5 (the size of 'x' at dimension 0), but sum to 4"},
        {"split f32[5] | [6,-1]", "!non-negative entries, but has -1"},
        {"split f32[5] | [9223372036854775807,9223372036854775807]", "!must sum exactly to 5"},
        {"split f32[] | [1]", "!'x' must have at least one dimension"},
        {"select_scatter f32[2,3] f32[3] | 0 1", "float32[2, 3]"},
        {"select_scatter f32[2,3] f32[2] | 0 1", "!expected 'src' to have shape [3], but it has [2]"},
        {"select_scatter f32[2,3] f64[3] | 0 1", "!same dtype"},
        {"select_scatter f32[2,3] f32[3] | 0 2", "!index 2 out of range"},
        {"slice_scatter f32[5] f32[2] | 0 1 none 2", "float32[5]"},
        {"slice_scatter f32[5] f32[3] | 0 1 none 2", "!expected 'src' to have shape [2], but it has [3]"},
    };
    CHECK(rows);
}

/* A view of a view of a view reaches the elements that its steps say. */
static void test_views_of_views(void)
{
    static call c;
    td_desc d;
    int64_t shape[3] = {4, 5, 6};
    td_desc_contiguous(&d, TD_FLOAT32, 3, shape, NULL);
    static const char *const steps[] = {"permute b[] | [2,0,1]", "slice b[] | 1 1 4 2", "select b[] | 2 3",
                                        "transpose b[] | 0 1",   "unsqueeze b[] | 1",   "expand b[] | [2,7,6]"};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        call_read(&c, steps[i]);
        c.descs[0] = d;
        CU_ASSERT_EQUAL_FATAL(td_op_infer(&c.f, &c.error), TD_OK);
        d = c.out[0];
    }
    /* x.permute(2,0,1)[:, 1:4:2, 3].T -> (2, 6): element (i, j) is x[1 + 2*i, 3, j] */
    CU_ASSERT_EQUAL(d.ndim, 3);
    CU_ASSERT_EQUAL(d.offset, 1 * 30 + 3 * 6);
    CU_ASSERT_EQUAL(d.stride[0], 60);
    CU_ASSERT_EQUAL(d.stride[1], 0);
    CU_ASSERT_EQUAL(d.stride[2], 1);
    CU_ASSERT_TRUE(td_desc_self_overlaps(&d));
    CU_ASSERT_EQUAL(td_desc_check(&d, 4 * 5 * 6 * 4, NULL), TD_OK);
}

static void test_assembly(void)
{
    static const row rows[] = {
        {"cat f32[2,3] f32[4,3]", "float32[6, 3]"},
        {"cat f32[2,3] f32[2,1] | -1", "float32[2, 4]"},
        {"cat f32[0] f32[2,3] f32[0]", "float32[2, 3]"},
        {"cat f32[0] i64[0]", "float32[0]"},
        {"cat f32[2] f32[]", "!zero-dimensional tensor (at position 1 in 'xs') cannot be concatenated"},
        {"cat f32[2,3] f32[3]", "!Tensors must have same number of dimensions: got 2 and 1"},
        {"cat f32[2,3] f32[2,4]", "!Expected size 3 but got size 4 for tensor number 1"},
        {"cat f32[2,3] f32[2,3] | 2", "!Dimension out of range"},
        {"cat b[4611686018427387904] b[4611686018427387904]", "!the joined size overflows"},
        {"stack f32[2] f32[2] f32[2]", "float32[3, 2]"},
        {"stack f32[2] i64[2] | -1", "float32[2, 2]"},
        {"stack f32[] f32[]", "float32[2]"},
        {"stack f32[2] f32[3]", "!expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1"},
        {"stack f32[1,1,1,1,1,1,1,1] | 0", "!stack() adds one"},
        {"stack", "!non-empty list"},
        {"repeat f32[2,3] | [2,1,4]", "float32[2, 2, 12]"},
        {"repeat f32[2,3] | [0,1]", "float32[0, 3]"},
        {"repeat f32[2,3] | [2]", "!can not be smaller than number of dimensions of 'x' (2)"},
        {"repeat f32[2] | [-1]", "!'repeats' must not be negative, but has -1"},
        {"repeat f32[2] | [9223372036854775807]", "!overflows"},
        {"repeat f32[2] | [1,1,1,1,1,1,1,1,1]", "!at most 8"},
        {"flip f32[2,3]@[1,2] | [0,-1]", "float32[2, 3]"},
        {"flip f32[2,3] | [0,-2]", "!dim 0 appears multiple times"},
        {"roll f32[2,3] | [1,2] [0,0]", "float32[2, 3]"},
        {"roll f32[2,3] | [1] []", "float32[2, 3]"},
        {"roll f32[2,3] | [1,1] []", "!'shifts' and 'dims' must align. shifts: 2, dims: 0"},
        {"roll f32[2,3] | [] []", "!'shifts' must not be empty"},
        {"roll f32[2,3] | [1] [2]", "!Dimension out of range"},
        {"constant_pad f32[2,3] | [1,2]", "float32[2, 6]"},
        {"constant_pad f32[2,3] | [1,2,-1,0]", "float32[1, 6]"},
        {"constant_pad f32[2,3] | []", "float32[2, 3]"},
        {"constant_pad f32[2,3] | [1]", "!must be even but instead it equals 1"},
        {"constant_pad f32[2] | [1,1,1,1]", "!no more than twice the number of dimensions"},
        {"constant_pad f32[2] | [-2,-1]", "!is negative, which is invalid. Check dimension 0"},
        {"constant_pad f32[2] | [9223372036854775807,1]", "!too large"},
        {"tril f32[4,2,3]", "float32[4, 2, 3]"},
        {"triu f32[3]", "!'x' must have at least 2 dimensions, but has 1"},
        {"sort f32[2,3]", "float32[2, 3]; int64[2, 3]"},
        {"sort i8[]", "int8[]; int64[]"},
        {"sort f32[2] | 1", "!Dimension out of range"},
        {"sort c64[2]", "!\"sort\" is not implemented for complex64"},
        {"topk f32[2,5] | 3", "float32[2, 3]; int64[2, 3]"},
        {"topk f32[2,5] | 0 0", "float32[0, 5]; int64[0, 5]"},
        {"topk f32[2,5] | 6", "!selected index 'k' out of range: 6 of 5"},
        {"topk f32[2,5] | -1", "!selected index 'k' out of range: -1"},
        {"topk f32[] | 1", "float32[]; int64[]"},
        {"topk f32[] | 0", "!out of range"},
    };
    CHECK(rows);
}

static void test_reductions(void)
{
    static const row rows[] = {
        {"sum f32[2,3]", "float32[]"},
        {"sum f32[2,3] | [] true", "float32[1, 1]"},
        {"sum f32[2,3] | [-1]", "float32[2]"},
        {"sum f32[2,3,4] | [0,2] true", "float32[1, 3, 1]"},
        {"sum i8[2]", "int64[]"},
        {"sum b[2]", "int64[]"},
        {"sum i8[2] | none false i8", "int8[]"},
        {"sum f32[0]", "float32[]"},
        {"sum f32[] | [0]", "float32[]"},
        {"sum f32[2,3] | [1,-1]", "!dim 1 appears multiple times in the list of dims ('dim')"},
        {"sum f32[2,3] | [2]", "!Dimension out of range"},
        {"mean f16[2]", "float16[]"},
        {"mean i64[2]", "!mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
                        "dtype. Got: int64"},
        {"mean i64[2] | none false f64", "float64[]"},
        {"mean f32[2] | none false i64", "!Optional dtype must be"},
        {"prod u8[2,3] | 0", "int64[3]"},
        {"prod f32[2,3] | none", "float32[]"},
        {"amax b[2,3] | [1]", "bool[2]"},
        {"amax f32[0]", "!amax(): Expected reduction dim to be specified for input.numel() == 0"},
        {"amax f32[0,3] | [1]", "float32[0]"},
        {"amax f32[0,3] | [0]", "!amax(): Expected reduction dim 0 to have non-zero size"},
        {"amin c64[2]", "!\"amin\" is not implemented for complex64"},
        {"max_dim f32[2,3] | 0 true", "float32[1, 3]; int64[1, 3]"},
        {"max_dim f32[] | 0", "float32[]; int64[]"},
        {"max_dim f32[2,0] | 1", "!max_dim(): Expected reduction dim 1 to have non-zero size"},
        {"argmax f32[2,3]", "int64[]"},
        {"argmax f32[2,3] | 1", "int64[2]"},
        {"argmax f32[0]", "!argmax(): Expected reduction dim to be specified"},
        {"var f32[2,3] | [0] 1.0 true", "float32[1, 3]"},
        {"var c128[2]", "float64[]"},
        {"var i64[2]", "!\"var\" is not implemented for int64"},
        {"any f32[2,3] | [0]", "bool[3]"},
        {"any u8[2,3]", "uint8[]"},
        {"all i64[]", "bool[]"},
        {"logsumexp i32[2,3] | [1]", "float32[2]"},
        {"cumsum i8[2,3] | 1", "int64[2, 3]"},
        {"cumsum f32[] | 0", "float32[]"},
        {"cumsum f32[2] | 0 f64", "float64[2]"},
        {"softmax f32[2,3] | -1", "float32[2, 3]"},
        {"softmax i64[2] | 0", "!\"softmax\" is not implemented for int64"},
        {"softmax f32[2] | 1", "!Dimension out of range"},
        {"softmax_backward f32[2] f32[3] | 0", "!expected 'y' to have shape [2], but it has [3]"},
        {"softmax_backward f32[2] f64[2] | 0", "!same dtype"},
        {"sum_to f32[4,2,3] | [2,1]", "float32[2, 1]"},
        {"sum_to f32[2,3] | []", "float32[]"},
        {"sum_to f32[2,3] | [2]", "!'shape' [2] does not broadcast to the shape of 'x', [2, 3]"},
        {"sum_to f32[3] | [1,3]", "!does not broadcast"},
    };
    CHECK(rows);
}

static void test_matmul(void)
{
    static const row rows[] = {
        {"mm f32[2,3] f32[3,4]", "float32[2, 4]"},
        {"mm i64[0,3] i64[3,4]", "int64[0, 4]"},
        {"mm f32[2,3] f32[4,5]", "!'x' and 'y' shapes cannot be multiplied (2x3 and 4x5)"},
        {"mm f32[3] f32[3,4]", "!'x' must be a matrix, got 1-D tensor"},
        {"mm f32[2,3] f32[3]", "!'y' must be a matrix, got 1-D tensor"},
        {"mm f32[2,3] f64[3,4]", "!expected 'x' and 'y' to have the same dtype, but got: float32 != float64"},
        {"mm b[2,3] b[3,4]", "!\"mm\" is not implemented for bool"},
        {"bmm f32[7,2,3] f32[7,3,4]", "float32[7, 2, 4]"},
        {"bmm f32[7,2,3] f32[6,3,4]", "!to be: [7, 3] but its shape is [6, 3, 4]"},
        {"bmm f32[2,3] f32[7,3,4]", "!'x' must be a 3D tensor"},
        {"bmm f32[7,2,3] f64[7,3,4]", "!same dtype"},
        {"dot f32[3] f32[3]", "float32[]"},
        {"dot f32[3] f32[4]", "!inconsistent tensor size"},
        {"dot f32[3,1] f32[3]", "!1D tensors expected, but 'x' is 2D and 'y' is 1D"},
        {"mv f32[2,3] f32[3]", "float32[2]"},
        {"mv f32[2,3] f32[2]", "!size mismatch, got 'x' (2x3) and 'y' (2)"},
        {"mv f32[3] f32[3]", "!matrix @ vector expected"},
        {"addmm f32[4] f32[2,3] f32[3,4]", "float32[2, 4]"},
        {"addmm f32[2,1] f32[2,3] f32[3,4]", "float32[2, 4]"},
        {"addmm f32[] f32[2,3] f32[3,4]", "float32[2, 4]"},
        {"addmm f32[3,4] f32[2,3] f32[3,4]", "!'c' of shape [3, 4] cannot be expanded to the product's [2, 4]"},
        {"addmm f32[1,2,4] f32[2,3] f32[3,4]", "!cannot be expanded"},
        {"addmm f32[5,4] f32[1,3] f32[3,4]", "!cannot be expanded"},
        {"addmm f64[4] f32[2,3] f32[3,4]", "!same dtype"},
        {"addmm i64[4] i64[2,3] i64[3,4] | 1 0.5", "!argument 'alpha' must not be a floating point number"},
        {"linear f32[5,2,3] f32[4,3] f32[4]", "float32[5, 2, 4]"},
        {"linear f32[3] f32[4,3] _", "float32[4]"},
        {"linear f32[2,3] f32[3,4] _", "!'x' and 'w' shapes cannot be multiplied ([2, 3] and the transpose of [3, 4])"},
        {"linear f32[2,3] f32[4,3] f32[3]", "!expected 'b' to have shape [4], but it has [3]"},
        {"linear f32[2,3] f32[3] _", "!'w' must be a matrix"},
        {"linear f32[] f32[4,3] _", "!'x' must have at least one dimension"},
        {"linear f32[2,3] f64[4,3] _", "!same dtype"},
        {"linear f32[2,3] f32[4,3] f64[4]", "!expected 'x' and 'b' to have the same dtype"},
    };
    CHECK(rows);
}

static void test_indexing(void)
{
    static const row rows[] = {
        {"index_select f32[2,3] i64[5] | 1", "float32[2, 5]"},
        {"index_select f32[2,3] i32[] | 0", "float32[1, 3]"},
        {"index_select f32[] i64[1] | 0", "float32[]"},
        {"index_select f32[] i64[2] | 0", "!'idx' must have one element"},
        {"index_select f32[2,3] i64[5,1] | 1", "!'idx' is supposed to be a vector"},
        {"index_select f32[2,3] f32[5] | 1", "!expected dtype int64 or int32 for index 'idx', but got float32"},
        {"index_select f32[2,0] i64[5] | 1", "!'x' has size 0 at dimension 1"},
        {"gather f32[2,3] i64[2,5] | 1", "float32[2, 5]"},
        {"gather f32[2,3] i64[1,3] | 0", "float32[1, 3]"},
        {"gather f32[2,3] i64[0] | 0", "float32[0]"},
        {"gather f32[] i64[] | 0", "float32[]"},
        {"gather f32[2,3] i64[3] | 0", "!must have the same number of dimensions as 'x', but has 1, not 2"},
        {"gather f32[2,3] i64[3,3] | 1",
         "!Size does not match at dimension 0: expected 'idx' [3, 3] to be smaller than 'x' [2, 3]"},
        {"gather f32[2,3] u8[2,3] | 1", "!expected dtype int64 or int32"},
        {"gather f32[2,0] i64[2,1] | 1", "!Size does not match at dimension 1"},
        {"scatter f32[2,3] i64[2,2] f32[2,3] | 1", "float32[2, 3]"},
        {"scatter f32[2,3] i64[2,2] #5 | 1", "float32[2, 3]"},
        {"scatter i8[2,3] i64[2,2] #300 | 1", "!'src' cannot be converted to int8 without overflow"},
        {"scatter f32[2,3] i64[3,2] f32[3,3] | 1",
         "!Expected 'idx' [3, 2] to be smaller than 'x' [2, 3] apart from dimension 1"},
        {"scatter f32[2,3] i64[2,3] f32[2,2] | 1", "!to be smaller than 'src' [2, 2]"},
        {"scatter f32[2,3] i64[2,2] f64[2,2] | 1", "!same dtype"},
        {"scatter f32[2,3] i64[0] f32[7] | 1", "float32[2, 3]"},
        {"scatter_add f32[3] i64[9] f32[9] | 0", "float32[3]"},
        {"scatter_add f32[3] i64[9] #1 | 0", "!argument 'src' must be a tensor, not a number"},
        {"index f32[4,5,6] i64[2] i64[3,1]", "float32[3, 2, 6]"},
        {"index f32[4,5,6] _ i64[3]", "float32[4, 3, 6]"},
        {"index f32[4,5,6] i64[3] _ i64[3]", "float32[3, 5]"},
        {"index f32[4,5,6] _ i64[2,2] i32[2]", "float32[4, 2, 2]"},
        {"index f32[4,5,6] i64[] _ i64[3]", "float32[3, 5]"},
        {"index f32[4,5] i64[]", "float32[5]"},
        {"index f32[4,5]", "float32[4, 5]"},
        {"index f32[4,5] _ _", "float32[4, 5]"},
        {"index f32[4,5] b[4]", "!(a mask is turned into indices with nonzero() first)"},
        {"index f32[4,5] i64[1] i64[1] i64[1]", "!too many indices for tensor of dimension 2"},
        {"index f32[4,5] i64[2] i64[3]",
         "!shape mismatch: the tensors of 'idx' could not be broadcast together ([2] and, at position 1, [3])"},
        {"index f32[0,5] i64[2]", "!'x' has size 0 at dimension 0"},
        {"index f32[0,5] i64[0]", "float32[0, 5]"},
        {"index f32[2,2,2,2,2,2,2,2] i64[1,1]", "!would have 9 dimensions"},
        {"index_put f32[4,5] i64[3] f32[3,5]", "float32[4, 5]"},
        {"index_put f32[4,5] i64[3] f32[]", "float32[4, 5]"},
        {"index_put f32[4,5] i64[3] _ f32[3,1]", "float32[4, 5]"},
        {"index_put f32[4,5] i64[3] f32[4,5]",
         "!value tensor 'v' of shape [4, 5] cannot be broadcast to indexing result of shape [3, 5]"},
        {"index_put f32[4,5] i64[3] f32[1,3,5]", "!cannot be broadcast"},
        {"index_put f32[4,5] i64[3] f64[]", "!expected 'x' and 'v' to have the same dtype"},
        {"index_add f32[4,5] i64[2] f32[2,5] | 0", "float32[4, 5]"},
        {"index_add f32[4,5] i64[2] f32[4,2] | 1", "float32[4, 5]"},
        {"index_add f32[4,5] i64[2] f32[3,5] | 0",
         "!'src' [3, 5] must have the shape of 'x' [4, 5], but 2 (the number of indices"},
        {"index_add f32[4,5] i64[2,1] f32[2,5] | 0", "!'idx' is supposed to be a vector"},
        {"index_add i64[4] i64[2] i64[2] | 0 0.5", "!argument 'alpha'"},
        {"index_add f32[0] i64[2] f32[2] | 0", "!'x' has size 0"},
        {"index_add f32[] i64[] f32[] | 0", "float32[]"},
        {"masked_select f32[2,1] b[3]", "float32[6]"},
        {"masked_select f32[2] i64[2]", "!expected 'mask' to be a boolean tensor"},
        {"masked_select f32[2] b[3]", "!must match the size"},
        {"nonzero f32[2,3]", "int64[6, 2]"},
        {"nonzero f32[]", "int64[1, 0]"},
        {"embedding f32[10,4] i64[2,3]", "float32[2, 3, 4]"},
        {"embedding f32[10] i64[2,3]", "!'w' must be 2-D"},
        {"embedding f32[10,4] f32[2]", "!expected dtype int64 or int32"},
        {"embedding f32[10,4] i64[1,1,1,1,1,1,1,1]", "!embedding() adds one"},
        {"masked_scatter f32[2,1] b[3] f32[9]", "float32[2, 3]"},
        {"masked_scatter f32[2] b[2] f64[9]", "!same dtype"},
        {"masked_scatter f32[2] i8[2] f32[9]", "!boolean tensor"},
    };
    CHECK(rows);
}

static void test_conv(void)
{
    static const row rows[] = {
        {"conv2d f32[8,3,32,32] f32[16,3,3,3] f32[16]", "float32[8, 16, 30, 30]"},
        {"conv2d f32[8,3,32,32] f32[16,3,3,3] _ | [2,2] [1,1]", "float32[8, 16, 16, 16]"},
        {"conv2d f32[8,4,32,32] f32[16,2,3,5] _ | [1,1] [0,0] [2,1] 2", "float32[8, 16, 28, 28]"},
        {"conv2d f32[0,3,32,32] f32[16,3,3,3] _", "float32[0, 16, 30, 30]"},
        {"conv2d f32[3,32,32] f32[16,3,3,3] _", "!Expected 4D (N, C, H, W) 'x', but got a tensor of size [3, 32, 32]"},
        {"conv2d f32[8,3,32,32] f32[16,3,3] _", "!Expected 4D (N, C, H, W) 'w'"},
        {"conv2d f32[8,4,32,32] f32[16,3,3,3] _",
         "!Given groups=1, weight 'w' of size [16, 3, 3, 3], expected 'x' [8, 4, 32, 32] to have 3"},
        {"conv2d f32[8,4,32,32] f32[15,2,3,3] _ | [1,1] [0,0] [1,1] 2",
         "!Given groups=2, expected 'w' to be divisible by it"},
        {"conv2d f32[8,3,32,32] f32[16,3,3,3] f32[15]", "!expected 'b' to have shape [16], but it has [15]"},
        {"conv2d f32[8,3,2,32] f32[16,3,3,3] _", "!Kernel size can't be greater than actual input size (height)"},
        {"conv2d f32[8,3,32,32] f32[16,3,3,3] _ | [1]", "!'stride' must have 2 numbers, but has 1"},
        {"conv2d f32[8,3,32,32] f32[16,3,3,3] _ | [0,1]", "!'stride' must be at least 1, but has 0"},
        {"conv2d f32[8,3,32,32] f32[16,3,3,3] _ | [1,1] [-1,0]", "!'padding' must be at least 0, but has -1"},
        {"conv2d f32[8,3,32,32] f32[16,3,3,3] _ | [1,1] [0,0] [0,1]", "!'dilation' must be at least 1"},
        {"conv2d f32[8,3,32,32] f32[16,3,3,3] _ | [1,1] [0,0] [1,1] 0", "!'groups' must be positive, got 0"},
        {"conv2d f32[8,3,32,32] f32[16,3,0,3] _", "!the kernel of 'w' is empty"},
        {"conv2d f32[8,3,32,32] f64[16,3,3,3] _", "!same dtype"},
        {"conv2d f32[1,1,4,4] f32[1,1,2,2] _ | [1,1] [9223372036854775807,0]", "!too large (height)"},
        {"conv2d f32[1,1,4,4] f32[1,1,2,2] _ | [1,1] [0,0] [9223372036854775807,1]", "!Kernel size can't be greater"},
        {"conv2d i64[8,3,32,32] i64[16,3,3,3] _", "!\"conv2d\" is not implemented for int64"},
        {"conv2d_backward f32[8,16,30,30] f32[8,3,32,32] f32[16,3,3,3] | [1,1] [0,0] [1,1] 1 7",
         "float32[8, 3, 32, 32]; float32[16, 3, 3, 3]; float32[16]"},
        {"conv2d_backward f32[8,16,30,30] f32[8,3,32,32] f32[16,3,3,3] | [1,1] [0,0] [1,1] 1 2",
         "float32[0]; float32[16, 3, 3, 3]; float32[0]"},
        {"conv2d_backward f32[8,16,31,30] f32[8,3,32,32] f32[16,3,3,3] | [1,1] [0,0] [1,1] 1 7",
         "!expected 'g' to have shape [8, 16, 30, 30]"},
        {"max_pool2d f32[1,2,5,5] | [2,2] [2,2]", "float32[1, 2, 2, 2]; int64[1, 2, 2, 2]"},
        {"max_pool2d f32[1,2,5,5] | [2,2] [2,2] [0,0] [1,1] true", "float32[1, 2, 3, 3]; int64[1, 2, 3, 3]"},
        {"max_pool2d f32[1,2,5,5] | [2,2] [2,2] [1,1] [1,1] true", "float32[1, 2, 3, 3]; int64[1, 2, 3, 3]"},
        {"max_pool2d f32[1,2,5,5] | [3,3] [1,1] [1,1] [2,2]", "float32[1, 2, 3, 3]; int64[1, 2, 3, 3]"},
        {"max_pool2d f32[1,2,5,5] | [2,2] [2,2] [2,0]",
         "!'padding' should be at most half of kernel size, but got padding=2 and kernel=2"},
        {"max_pool2d f32[1,2,1,5] | [2,2] [2,2]", "!Kernel size can't be greater"},
        {"max_pool2d f32[1,0,5,5] | [2,2] [2,2]", "!Output size is too small"},
        {"max_pool2d f32[2,5,5] | [2,2] [2,2]", "!Expected 4D"},
        {"max_pool2d f32[1,2,5,5] | [0,2] [2,2]", "!'kernel' must be at least 1"},
        {"max_pool2d_backward f32[1,2,2,2] i64[1,2,2,2] | [1,2,5,5]", "float32[1, 2, 5, 5]"},
        {"max_pool2d_backward f32[1,2,2,2] i64[1,2,2,3] | [1,2,5,5]", "!expected 'indices' to have shape"},
        {"max_pool2d_backward f32[1,2,2,2] i64[1,2,2,2] | [1,3,5,5]", "!'g' [1, 2, 2, 2] and 'shape' differ"},
        {"avg_pool2d f32[1,2,7,7] | [3,2] [2,2] [1,1]", "float32[1, 2, 4, 4]"},
        {"avg_pool2d f32[1,2,7,7] | [3,3] [2,2] [0,0] true", "float32[1, 2, 3, 3]"},
        {"avg_pool2d_backward f32[1,2,4,4] | [1,2,7,7] [3,2] [2,2] [1,1] false true", "float32[1, 2, 7, 7]"},
        {"avg_pool2d_backward f32[1,2,4,3] | [1,2,7,7] [3,2] [2,2] [1,1] false true",
         "!expected 'g' to have shape [1, 2, 4, 4]"},
    };
    CHECK(rows);
}

static void test_norms(void)
{
    static const row rows[] = {
        {"layer_norm f32[2,3,4] f32[4] f32[4] | 1", "float32[2, 3, 4]; float32[2, 3]; float32[2, 3]"},
        {"layer_norm f16[2,3,4] f16[3,4] _ | 2", "float16[2, 3, 4]; float32[2]; float32[2]"},
        {"layer_norm f64[4] _ _ | 1", "float64[4]; float64[]; float64[]"},
        {"layer_norm f32[2,3] f32[2] _ | 1", "!expected 'w' to have shape [3], but it has [2]"},
        {"layer_norm f32[2,3] f64[3] _ | 1", "!expected 'x' and 'w' to have the same dtype"},
        {"layer_norm f32[2,3] _ _ | 0", "!'ndims' must be between 1 and the number of dimensions of 'x' (2), but is 0"},
        {"layer_norm f32[2,3] _ _ | 3", "!but is 3"},
        {"layer_norm_backward f32[2,3] f32[2,3] f32[3] f32[2] f32[2] | 1 7", "float32[2, 3]; float32[3]; float32[3]"},
        {"layer_norm_backward bf16[2,3] bf16[2,3] _ f32[2] f32[2] | 1 1", "bfloat16[2, 3]; bfloat16[0]; bfloat16[0]"},
        {"layer_norm_backward bf16[2,3] bf16[2,3] _ bf16[2] f32[2] | 1 1",
         "!expected 'mean' to be float32, but got bfloat16"},
        {"layer_norm_backward f32[2,4] f32[2,3] _ f32[2] f32[2] | 1 1", "!expected 'g' to have shape [2, 3]"},
        {"batch_norm f32[2,3,4] f32[3] f32[3] f32[3] f32[3] | true", "float32[2, 3, 4]; float32[3]; float32[3]"},
        {"batch_norm f16[2,3] f16[3] _ f32[3] f32[3] | false", "float16[2, 3]; float32[3]; float32[3]"},
        {"batch_norm f16[2,3] _ _ f16[3] f16[3] | false", "float16[2, 3]; float32[3]; float32[3]"},
        {"batch_norm f32[2,3] _ _ f64[3] f64[3] | false", "!expected 'running_mean' to be float32, but got float64"},
        {"batch_norm f32[2,3] _ _ _ _ | false", "!to be given when not training"},
        {"batch_norm f32[2,3] _ _ f32[3] _ | true", "!only one was given"},
        {"batch_norm f32[1,3] _ _ _ _ | true",
         "!Expected more than 1 value per channel when training, got input size [1, 3]"},
        {"batch_norm f32[1,3,1,1] _ _ _ _ | true", "!Expected more than 1 value per channel"},
        {"batch_norm f32[0,3] _ _ _ _ | true", "float32[0, 3]; float32[3]; float32[3]"},
        {"batch_norm f32[3] _ _ _ _ | true", "!expected 'x' to have at least 2 dimensions"},
        {"batch_norm f32[2,3] f32[2] _ _ _ | true", "!expected 'w' to have shape [3], but it has [2]"},
        {"batch_norm_backward f32[2,3] f32[2,3] f32[3] f32[3] f32[3] | true 7",
         "float32[2, 3]; float32[3]; float32[3]"},
        {"batch_norm_backward f32[2,3] f32[2,3] _ f32[3] f32[3] | true 2", "float32[0]; float32[3]; float32[0]"},
        {"batch_norm_backward f32[2,3] f32[2,3] _ f32[2] f32[3] | true 2", "!expected 'mean' to have shape [3]"},
    };
    CHECK(rows);
}

static void test_training(void)
{
    static const row rows[] = {
        {"nll_loss f32[5,10] i64[5] _", "float32[]; float32[]"},
        {"nll_loss f32[5,10] i64[5] f32[10] | 0", "float32[5]; float32[]"},
        {"nll_loss f32[10] i64[] _ | 0", "float32[]; float32[]"},
        {"nll_loss f32[5,10,4,3] i64[5,4,3] _ | 0", "float32[5, 4, 3]; float32[]"},
        {"nll_loss f32[5,10] i64[4] _", "!Expected input batch_size (5) to match 'target' batch_size (4)"},
        {"nll_loss f32[5,10] i64[5,1] _", "!expected 'target' of shape [5] for scores of shape [5, 10]"},
        {"nll_loss f32[5,10] f32[5] _", "!expected dtype int64 or int32 for index 'target'"},
        {"nll_loss f32[5,10] i64[5] f32[9]", "!expected 'weight' to have shape [10], but it has [9]"},
        {"nll_loss f32[5,10] i64[5] f64[10]", "!same dtype"},
        {"nll_loss f32[5,10] i64[5] _ | 3", "!'reduction' is 0 (none), 1 (mean) or 2 (sum), not 3"},
        {"nll_loss f32[] i64[] _", "!but they have 0 dimensions"},
        {"nll_loss_backward f32[] i64[5] _ f32[] | [5,10] 1 -100", "float32[5, 10]"},
        {"nll_loss_backward f32[5] i64[5] f32[10] f32[] | [5,10] 0 -100", "float32[5, 10]"},
        {"nll_loss_backward f32[5] i64[5] _ f32[] | [5,10] 1 -100", "!expected 'g' to have shape []"},
        {"nll_loss_backward f32[] i64[5] _ f32[] | [5,10,1,1,1,1,1,1,1,1] 1 -100", "!but they have 10 dimensions"},
        {"nll_loss_backward f32[] i64[5] _ f32[] | [5,-10] 1 -100", "!negative size -10"},
        {"dropout f32[2,3] | 0.5", "float32[2, 3]; int64[2]"},
        {"dropout f32[2,3] | 1.5", "!dropout probability 'p' has to be between 0 and 1, but got 1.5"},
        {"dropout f32[2,3] | nan", "!dropout probability"},
        {"dropout_backward f32[2,3] i64[2] | 0.5", "float32[2, 3]"},
        {"dropout_backward f32[2,3] i64[3] | 0.5", "!expected 'state' to have shape [2]"},
        {"dropout_backward f32[2,3] f32[2] | 0.5", "!'state' must be the int64 state"},
        {"sgd_step f32[2,3] f32[2,3] _ | 0.1", ""},
        {"sgd_step f32[2,3] f32[2,3] f32[2,3] | 0.1 0.9", ""},
        {"sgd_step bf16[2,3] bf16[2,3] f32[2,3] | 0.1 0.9", ""},
        {"sgd_step f32[2,3] f32[3] _ | 0.1", "!expected 'g' to have shape [2, 3], but it has [3]"},
        {"sgd_step f32[2,3] f64[2,3] _ | 0.1", "!same dtype"},
        {"adam_step f32[2] f32[2] f32[2] f32[2] f32[]", ""},
        {"adam_step f32[2] f32[2] f32[2] f32[2] f32[2]",
         "!'step' must be one float32, float64 or int64 number, but is float32[2]"},
        {"adam_step f32[2] f32[2] f32[2] f32[2] i32[]", "!'step' must be one"},
        {"bernoulli f32[2]", "float32[2]"},
        {"bernoulli i64[2]", "!\"bernoulli\" is not implemented for int64"},
    };
    CHECK(rows);
}

TD_CUNIT_MAIN("proto infer", {"promotion", test_promotion}, {"promotion by tiers", test_tiers},
              {"compute dtype", test_compute}, {"pointwise", test_pointwise}, {"signature", test_signature},
              {"creation", test_create}, {"views", test_views}, {"views that choose", test_slices},
              {"views of views", test_views_of_views}, {"assembly", test_assembly}, {"reductions", test_reductions},
              {"matrix products", test_matmul}, {"indexing", test_indexing}, {"convolution", test_conv},
              {"normalisation", test_norms}, {"training", test_training})
