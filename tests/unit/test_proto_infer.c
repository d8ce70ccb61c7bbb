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

TD_CUNIT_MAIN("proto infer", {"promotion", test_promotion}, {"compute dtype", test_compute},
              {"pointwise", test_pointwise}, {"signature", test_signature})
