/* Inference of views: shape, strides and offset of each over contiguous and other inputs. */
#include "op_rows.h"

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
        {"as_strided f32[6] | [1,2,1] [9223372036854775807,3,5] 1", "float32[1, 2, 1]@[0, 3, 5]+1"},
        {"as_strided f32[6] | [0,2] [9223372036854775807,4611686018427387904] 1", "float32[0, 2]@[0, 0]+1"},
        {"as_strided f32[6] | [1,1,1,1,1,1,1,1,1] [1,1,1,1,1,1,1,1,1] 0", "!at most 8 dimensions"},
        {"view_dtype f32[2,3] | i32", "int32[2, 3]@[3, 1]+0"},
        {"view_dtype f32[2,3] | u8", "uint8[2, 12]@[12, 1]+0"},
        {"view_dtype u8[2,8] | f32", "float32[2, 2]@[2, 1]+0"},
        {"view_dtype u8[2,7] | f32", "!the last size of 'x' must be divisible by 4 to view it as float32, but is 7"},
        {"view_dtype u8[2,8]@[9,1] | f32", "!the stride of 'x' must be divisible by 4"},
        {"view_dtype u8[2,8]@[16,2] | f32", "!the last stride of 'x' must be 1"},
        {"view_dtype f32[] | i32", "int32[]@[]+0"},
        {"view_dtype f32[] | u8", "!'x' cannot be 0-dimensional"},
        {"view_as_real c64[2,3]@[1,2]", "float32[2, 3, 2]@[2, 4, 1]+0"},
        {"view_as_real c128[]", "float64[2]@[1]+0"},
        {"view_as_real f32[2]", "!complex"},
        {"view_as_real c64[1,1,1,1,1,1,1,1]", "!at most 8 dimensions"},
        {"view_part c64[2,3]@[1,2] | 0", "float32[2, 3]@[2, 4]+0"},
        {"view_part c128[1,1,1,1,1,1,1,2] | 1", "float64[1, 1, 1, 1, 1, 1, 1, 2]@[4, 4, 4, 4, 4, 4, 4, 2]+1"},
        {"view_part c64[2] | 2", "!not 2"},
        {"view_part f32[2] | 0", "!complex"},
        {"view_as_complex f32[2,3,2]@[2,4,1]", "complex64[2, 3]@[1, 2]+0"},
        {"view_as_complex f64[2]", "complex128[]@[]+0"},
        {"view_as_complex f32[1,2]@[3,1]", "complex64[1]@[1]+0"},
        {"view_as_complex f32[0,2]@[3,7]", "complex64[0]@[1]+0"},
        {"view_as_complex f16[2]", "!float16"},
        {"view_as_complex f32[]", "!last dimension of size 2"},
        {"view_as_complex f32[2,3]", "!last dimension of size 2"},
        {"view_as_complex f32[2,2]@[1,2]", "!last dimension with stride 1"},
        {"view_as_complex f32[2,2]@[3,1]", "!stride divisible by 2"},
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
        {"slice f32[0,4]@[1,4611686018427387904] | 1 3 4", "float32[0, 1]@[1, 0]+0"}, /* nothing to step over */
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

TD_CUNIT_MAIN("proto views", {"views", test_views}, {"views that choose", test_slices},
              {"views of views", test_views_of_views})
