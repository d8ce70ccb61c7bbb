/* Inference: promotion, the checks that all ops share, and what makes, combines and moves elements. */
#include "op_rows.h"

#include "proto/ops/formula.h"

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
        {"add u16[2] i16[2]", "int32[2]"},
        {"add u16[2] u8[2]", "uint16[2]"},
        {"add u16[2] i64[]", "uint16[2]"},
        {"add u32[2] i8[2]", "int64[2]"},
        {"add u32[2] #1", "uint32[2]"},
        {"add u64[2] u32[2]", "uint64[2]"},
        {"add u64[2] i64[]", "uint64[2]"},
        {"add u64[2] f16[2]", "float16[2]"},
        {"add u64[2] #1.5", "float32[2]"},
        {"add u64[2] b[2]", "uint64[2]"},
        {"add u64[2] i32[2]", "!no dtype holds both 'x', which is uint64, and 'y', which is int32"},
        {"where b[2] i8[2] u64[2]", "!no dtype holds both 'y', which is uint64, and 'x', which is int8"},
        {"cat i8[2] f32[2] u64[2]", "float32[6]"},
        {"cat i8[2] u64[2] f16[2]", "float16[6]"},
        {"cat i8[2] u64[2]", "!no dtype holds both"},
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
enum { RECORDED = 12 /* dtypes: torch does not promote those behind */ };
static const char *const tiers[2 * RECORDED] = {
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
    for (int i = 0; i < 2 * RECORDED; i++) {
        const char *want = tiers[i];
        for (int k = 0; k < 2 * RECORDED + 4; k++, checked++) {
            size_t length = strcspn(want, " ");
            if (k < 2 * RECORDED) snprintf(right, sizeof right, "%s[%s]", dtypes[k % 12], k < 12 ? "2" : "");
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
        {"masked_fill f32[2] b[2] c64[]", "!'value' is complex64 and cannot be converted to float32 without overflow"},
        {"masked_fill b[2] b[2] c64[]", "bool[2]"},
        {"masked_fill i8[2] b[2] #300", "!'value' cannot be converted to int8 without overflow"},
        {"masked_fill f32[2] b[2] f32[1]", "!'value' must be a number or a 0-dimensional tensor"},
        {"masked_fill f32[2,1] b[3] f64[]", "float32[2, 3]"},
        {"copy f32[2,3]@[1,2]", "float32[2, 3]"},
        {"sigmoid_backward f32[2] f32[2]", "float32[2]"},
        {"silu i64[2]", "!\"silu\" is not implemented for int64"},
    };
    CHECK(rows);
}

/* Images that lie channels last. */
static void test_formats(void)
{
    static const row rows[] = {
        {"neg f32[2,3,4,5]@[60,1,15,3]", "float32[2, 3, 4, 5]@[60, 1, 15, 3]"},
        {"neg f32[2,3,4,5]@[120,1,30,6]", "float32[2, 3, 4, 5]"}, /* with gaps */
        {"neg f32[2,3,4,5]@[60,1,3,12]", "float32[2, 3, 4, 5]"},  /* another order */
        {"neg f32[2,1,4,5]@[20,1,5,1]", "float32[2, 1, 4, 5]"},   /* both at once */
        {"neg f32[1,3,4,5]@[60,1,15,3]", "float32[1, 3, 4, 5]@[60, 1, 15, 3]"},
        {"neg f32[1,3,4,5]@[3,1,15,3]", "float32[1, 3, 4, 5]"},  /* one of (H, W, C), turned */
        {"neg f32[2,3,1,5]@[15,1,15,3]", "float32[2, 3, 1, 5]"}, /* a line */
        {"neg f32[0,3,4,5]@[60,1,15,3]", "float32[0, 3, 4, 5]"},
        {"neg f32[2,3,2,4,5]@[120,1,60,15,3]", "float32[2, 3, 2, 4, 5]@[120, 1, 60, 15, 3]"},
        {"neg f32[3,4,5]@[1,15,3]", "float32[3, 4, 5]"},
        {"eq f32[2,3,4,5]@[60,1,15,3] f32[2,3,4,5]", "bool[2, 3, 4, 5]@[60, 1, 15, 3]"},
        {"eq f32[2,3,4,5] f32[2,3,4,5]@[60,1,15,3]", "bool[2, 3, 4, 5]"}, /* the first says it */
        {"add f32[3,1,1] f32[2,3,4,5]@[60,1,15,3]", "float32[2, 3, 4, 5]@[60, 1, 15, 3]"},
        {"add f32[2,3,4,5]@[0,0,0,0] f32[2,3,4,5]@[60,1,15,3]", "float32[2, 3, 4, 5]@[60, 1, 15, 3]"},
        {"copy f32[2,3,4,5]@[60,1,15,3]", "float32[2, 3, 4, 5]"},
        {"copy_kept f32[2,3,4,5]@[60,1,15,3] | f64", "float64[2, 3, 4, 5]@[60, 1, 15, 3]"},
        {"copy_kept f32[2,3,4,5]@[1,2,6,24]", "float32[2, 3, 4, 5]"},
        {"copy_last f32[2,3,4,5] | f64", "float64[2, 3, 4, 5]@[60, 1, 15, 3]"},
        {"copy_last f32[3,4,5]", "!required rank 4 or 5 tensor to use channels last, but 'x' is [3, 4, 5]"},
        {"cat f32[2,3,4,5]@[60,1,15,3] f32[2,3,4,5]@[60,1,15,3] | 1", "float32[2, 6, 4, 5]@[120, 1, 30, 6]"},
        {"cat f32[2,3,4,5]@[60,1,15,3] f32[2,3,4,5] | 1", "float32[2, 6, 4, 5]"},
        {"softmax f32[2,3,4,5]@[60,1,15,3] | 1", "float32[2, 3, 4, 5]"},
        {"conv2d f32[2,3,4,5]@[60,1,15,3] f32[6,3,3,3] _ | [1,1] [1,1] [1,1] 1", "float32[2, 6, 4, 5]@[120, 1, 30, 6]"},
        {"conv2d f32[2,3,4,5] f32[6,3,3,3]@[27,1,9,3] _ | [1,1] [1,1] [1,1] 1", "float32[2, 6, 4, 5]@[120, 1, 30, 6]"},
        {"max_pool2d f32[2,3,4,6]@[72,1,18,3] | [2,2] [2,2] [0,0] [1,1] false",
         "float32[2, 3, 2, 3]@[18, 1, 9, 3]; int64[2, 3, 2, 3]"},
        {"adaptive_avg_pool2d f32[2,3,4,6]@[72,1,18,3] | [2,2]", "float32[2, 3, 2, 2]@[12, 1, 6, 3]"},
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
        {"add f32[2]cuda f32[2]", "!Expected all tensors to be on the same device, but found at least two devices, "
                                  "cuda:0 and cpu: 'x' is on cuda:0, 'y' on cpu"},
        {"add f32[2]cuda f32[]", "float32[2]"},
        {"mm f32[2,2]cuda f32[2,2]", "!Expected all tensors to be on the same device"},
    };
    CHECK(rows);
    static call c;
    call_read(&c, "add f32[] f32[2]cuda");
    call_infer(&c);
    CU_ASSERT_EQUAL(c.out[0].device, TD_CUDA);
    call_read(&c, "to_device f32[2]cuda | 15");
    call_infer(&c);
    CU_ASSERT_EQUAL(c.out[0].device, TD_FAKE);
    call_read(&c, "to_device f32[2] | 16");
    CU_ASSERT_PTR_NOT_NULL(strstr(call_infer(&c), "'device' must be the number of a device, from 0 to 15, got 16"));
    call_read(&c, "arange | 0 4 1 i64");
    c.f.device = TD_CUDA + 1;
    call_infer(&c);
    CU_ASSERT_EQUAL(c.out[0].device, TD_CUDA + 1);
    call_read(&c, "neg f32[2]");
    c.f.device = TD_CUDA;
    CU_ASSERT_PTR_NOT_NULL(strstr(call_infer(&c), "neg takes no device: its result lies where its tensors do"));
    c.f.device = TD_CPU;
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
        {"empty | [281474976710656] b", "bool[281474976710656]"},
        {"empty | [281474976710657] b", "!more than a tensor may have"},
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
        {"empty_strided | [2,3] [1,2] f32", "float32[2, 3]@[1, 2]"},
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
        {"cat b[281474976710656] b[281474976710656]", "!more than a tensor may have"},
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
        {"kth f32[2,5] | 1 3", "float32[2]; int64[2]"},
        {"kth f32[2,0] | 1 1", "!non-zero size"},
        {"adaptive_max f32[2,5,4] | [3,2]", "float32[2, 3, 2]; int64[2, 3, 2]"},
        {"adaptive_max f32[5] | [3,2]", "!one to three of the 1 sizes, not 2"},
        {"adaptive_max f32[5] | [0]", "!should be greater than 0"},
        {"topk f32[2,5] | 3", "float32[2, 3]; int64[2, 3]"},
        {"topk f32[2,5] | 0 0", "float32[0, 5]; int64[0, 5]"},
        {"topk f32[2,5] | 6", "!selected index 'k' out of range: 6 of 5"},
        {"topk f32[2,5] | -1", "!selected index 'k' out of range: -1"},
        {"topk f32[] | 1", "float32[]; int64[]"},
        {"topk f32[] | 0", "!out of range"},
    };
    CHECK(rows);
}

/* Ops made of ops work out sizes of their own: of numbers that no tensor has, too. */
static void test_composed(void)
{
    static const row rows[] = {
        {"matmul f32[2,3] f32[3,4]", "float32[2, 4]"},
        {"matmul f32[1099511627776,1,2,0] f32[1099511627776,0,3]", "!reach further than 63 bits"},
        {"matmul f32[0,1099511627776,1,2,2] f32[1099511627776,2,2]", "!reach further than 63 bits"},
        {"chunk f32[5] | 9223372036854775807 0", "!9223372036854775807 chunks"},
        {"chunk f32[5] | -9223372036854775807 0", "!-9223372036854775807 chunks"},
        {"chunk f32[5] | -1 0", "!-1 chunks"},
        {"narrow f32[5] | 0 9223372036854775807 1", "!start out of range"},
        {"narrow f32[5] | 0 1 9223372036854775807", "!exceeds dimension size"},
        {"narrow f32[5] | 0 -9223372036854775807 1", "!start out of range"},
        {"flatten f32[1099511627776,0] | 0 1", "float32[0]"},
        {"std f32[1099511627776,0]", "float32[]"},
        {"tile f32[2] | [9223372036854775807,9223372036854775807]", "!the repeated size at dimension 1 overflows"},
    };
    CHECK(rows);
}

static void test_numbers_that_do_not_fit(void)
{
    int64_t sizes[] = {INT64_C(1) << 40, INT64_C(1) << 40, 3};
    CU_ASSERT_EQUAL(td_fi_numel((td_fints){3, sizes}), INT64_MAX);
    CU_ASSERT_EQUAL(td_fi_rows((td_fints){3, sizes}), INT64_MAX);
    CU_ASSERT_EQUAL(td_fi_count((td_fints){3, sizes}, td_fi_none()), INT64_MAX);
    sizes[2] = 0;
    CU_ASSERT_EQUAL(td_fi_numel((td_fints){3, sizes}), 0);
    CU_ASSERT_EQUAL(td_fi_div(INT64_MIN, -1), INT64_MAX); /* which ends a process that divides */
    CU_ASSERT_EQUAL(td_fi_mod(INT64_MIN, -1), 0);
    CU_ASSERT_EQUAL(td_fi_div(7, 0), 0);
    CU_ASSERT_EQUAL(td_fi_add(INT64_MAX, 1), INT64_MAX);
    CU_ASSERT_EQUAL(td_fi_sub(INT64_MIN, 1), INT64_MIN);
    CU_ASSERT_EQUAL(td_fi_mul(INT64_MIN, 2), INT64_MIN);
    CU_ASSERT_EQUAL(td_fi_mul(INT64_MIN, -2), INT64_MAX);
}

TD_CUNIT_MAIN("proto infer", {"promotion", test_promotion}, {"promotion by tiers", test_tiers},
              {"compute dtype", test_compute}, {"pointwise", test_pointwise}, {"formats", test_formats},
              {"signature", test_signature}, {"creation", test_create}, {"assembly", test_assembly},
              {"ops made of ops", test_composed}, {"numbers that do not fit", test_numbers_that_do_not_fit})
