/* Calls at the edges of what plans take, a line each: tensors without dimensions and without elements, attributes at
 * their ends, and what a plan refuses although inference would not let it come that far. Inputs hold 0, 1, 2, ...; a
 * result is written as its elements, a refusal as its code and a part of its message. */
#include "kernel_box.h"
#include "op_calls.h"

typedef struct edge {
    const char *call; /* "op inputs | attributes > outputs" */
    td_code code;
    const char *want; /* elements of the first output, or a part of the message */
} edge;

static const edge edges[] = {
    /* without dimensions */
    {"index_select f32[] i64[1] | 0 > f32[1]", 0, "0"},
    {"gather f32[] i64[] | 0 > f32[]", 0, "0"},
    {"gather f32[4] i8[3] | 0 > f32[3]", 0, "0 1 2"},
    {"gather f32[4] i16[3] | 0 > f32[3]", 0, "0 1 2"},
    {"gather f32[4] i32[3] | 0 > f32[3]", 0, "0 1 2"},
    {"gather f32[4] u8[3] | 0 > f32[3]", 0, "0 1 2"},
    {"scatter f32[] i64[] f32[] | 0 > f32[]", 0, "0"},
    {"scatter f32[3] i64[2] f32[] | 0 > f32[3]", 0, "0 0 2"},
    {"scatter f32[3] i64[2] i64[] | 0 > f32[3]", 0, "0 0 2"},
    {"scatter f32[3] i64[] i64[] | 0 > f32[3]", 0, "0 1 2"},
    {"scatter f32[3] i64[] f32[] | 0 > f32[3]", 0, "0 1 2"},
    {"scatter f32[3] i64[2] f32[2] | -1 > f32[3]", 0, "0 1 2"},
    {"scatter f32[2,2] i64[1,2] f32[1,2] | 0 > f32[2,2]", 0, "0 1 2 1"},
    {"scatter f32[2,2] i64[0,2] f32[0,2] | 0 > f32[2,2]", 0, "0 1 2 3"},
    {"scatter_add f32[] i64[2] f32[2] | 0 > f32[]", TD_E_INDEX, "index 1 is out of bounds"},
    {"scatter f32[0] i64[2] f32[2] | 0 > f32[0]", TD_E_INDEX, "out of bounds"},
    {"scatter f64[2,2] i64[1,2] f64[1,2] | 1 > f64[2,2]", 0, "0 1 2 3"},
    {"scatter i16[3] i64[2] i16[2] | 0 > i16[3]", 0, "0 1 2"},
    {"scatter_add c64[3] i64[2] c64[2] | 0 > c64[3]", 0, "0 2 2"},
    {"index_add f32[] i64[1] f32[] | 0 > f32[]", 0, "0"},
    {"index_add f32[2] i64[1] f32[1] | 0 true > f32[2]", 0, "0 1"},
    {"index_add f32[3] i64[2] f32[2] | 0 2.5 > f32[3]", 0, "0 3.5 2"},
    {"index_add i32[3] i64[2] i32[2] | 0 3 > i32[3]", 0, "0 4 2"},
    {"index_add i64[3] i64[2] i64[2] | 0 3 > i64[3]", 0, "0 4 2"},
    {"index_add c64[3] i64[2] c64[2] | 0 3 > c64[3]", 0, "0 4 2"},
    {"index_add c128[3] i64[2] c128[2] | 0 2j > c128[3]", 0, "0 1 2"},
    {"index_add u8[3] i64[2] u8[2] | 0 2.5 > u8[3]", 0, "0 1 2"},
    {"index_put f32[4] i64[2] f32[1] | false > f32[4]", 0, "0 0 2 3"},
    {"index_put f32[4] i64[2] f32[2] | true > f32[4]", 0, "0 2 2 3"},
    {"index f32[2,3] _ i64[2] | > f32[2,2]", 0, "0 1 3 4"},
    {"index f32[3,2] _ _ | > f32[3,2]", 0, "0 1 2 3 4 5"},
    {"nonzero f32[] | > i64[0,0]", 0, ""},
    {"sort f32[] | 0 false > f32[] i64[]", 0, "0"},
    {"topk f32[] | 1 0 > f32[] i64[]", 0, "0"},
    {"topk f32[5] | 0 0 > f32[0] i64[0]", 0, ""},
    {"topk f32[3,0] | 0 1 > f32[3,0] i64[3,0]", 0, ""},
    {"sort f32[3,0] | 1 > f32[3,0] i64[3,0]", 0, ""},
    {"topk f32[6] | 2 0 > f32[2] i64[2]", 0, "5 4"},
    {"cumsum f32[] | 0 > f32[]", 0, "0"},
    {"cumsum f32[2,0] | 0 > f32[2,0]", 0, ""},
    {"flip f32[] | [] > f32[]", 0, "0"},
    {"flip f32[0] | [0] > f32[0]", 0, ""},
    {"roll f32[0] | [1] [0] > f32[0]", 0, ""},
    {"roll f32[4] | [1] [] > f32[4]", 0, "3 0 1 2"},
    {"roll f32[2,2]@[1,2] | [1] [] > f32[2,2]", 0, "3 0 1 2"},
    {"constant_pad f32[3] | [-2,-2] 7 > f32[0]", 0, ""},
    {"constant_pad f32[3] | [-3,2] 7 > f32[2]", 0, "7 7"},
    {"constant_pad f32[3] | [2,-4] 7 > f32[1]", 0, "7"},
    {"constant_pad f32[2,2] | [-9223372036854775808,9223372036854775807] 7 > f32[2,1]", 0, "7 7"},
    /* a stride that nothing steps by may be any number */
    {"add f16[1,3]@[9223372036854775807,1] f16[1,3] | 1 > f16[1,3]", 0, "0 2 4"},
    {"sum f16[1,3]@[9223372036854775807,1] | [0] > f16[3]", 0, "0 1 2"},
    {"slice_scatter f32[3,2] f32[1,2] | 0 1 none 4611686018427387904 > f32[3,2]", 0, "0 1 0 1 4 5"},
    {"softmax f32[] | 0 > f32[]", 0, "1"},
    {"softmax f32[0,3] | 1 > f32[0,3]", 0, ""},
    {"softmax f32[3,1] | 1 > f32[3,1]", 0, "1 1 1"},
    {"sum f32[] | [0] > f32[]", 0, "0"},
    {"sum f32[] | [-1] > f32[]", 0, "0"},
    {"argmax f32[0,3] | 1 > i64[0]", 0, ""},
    {"linear f32[] f32[1] _ | > f32[]", 0, "0"},
    {"linear f32[2,3] f32[3] _ | > f32[2]", 0, "5 14"},
    {"linear f32[3] f32[2,3] f32[2] | > f32[2]", 0, "5 15"},
    {"linear f32[2,1,2]@[2,99,1] f32[1,2] f32[1] | > f32[2,1,1]", 0, "1 3"},
    {"linear f32[2,2,2]@[2,4,1] f32[1,2] _ | > f32[2,2,1]", 0, "1 3 5 7"},
    {"addmm f32[1,2] f32[2,1] f32[1,2] | 2 1 > f32[2,2]", 0, "0 2 0 3"},
    {"addmm f32[2] f32[2,1] f32[1,2] | 0 2 > f32[2,2]", 0, "0 0 0 2"},
    {"addmm f32[] f32[2,1] f32[1,2] | 0.0 true > f32[2,2]", 0, "0 0 0 1"},
    {"addmm f64[1] f64[2,2] f64[2,2] | 1.5 0.5 > f64[2,2]", 0, "1 1.5 3 5.5"},
    {"addmm c64[2,1] c64[2,2] c64[2,2] | 0j 2j > c64[2,2]", 0, "0 0 0 0"},
    {"addmm c64[2,2] c64[2,2] c64[2,2] | 1j 1 > c64[2,2]", 0, "2 3 6 11"},
    {"addmm c128[2,2] c128[2,2] c128[2,2] | 1 1j > c128[2,2]", 0, "0 1 2 3"},
    {"addmm i32[2,2] i32[2,2] i32[2,2] | 1.0 2.0 > i32[2,2]", 0, "4 7 14 25"},
    {"addmm u8[2,2] u8[2,2] u8[2,2] | 3 1 > u8[2,2]", 0, "2 6 12 20"},
    {"addmm i16[2,2] i16[2,2] i16[2,2] | 3 1 > i16[2,2]", 0, "2 6 12 20"},
    {"mm f64[2,0] f64[0,2] | > f64[2,2]", 0, "0 0 0 0"},
    {"mm c64[2,0] c64[0,2] | > c64[2,2]", 0, "0 0 0 0"},
    {"mm c128[2,0] c128[0,2] | > c128[2,2]", 0, "0 0 0 0"},
    {"mm f32[0,2] f32[2,3] | > f32[0,3]", 0, ""},
    {"dot c64[3]@[2] c64[3] | > c64[]", 0, "5"},
    {"dot c128[3] c128[3]@[3] | > c128[]", 0, "5"},
    {"dot c128[3] c128[3] | > c128[]", 0, "5"},
    {"dot f32[3]@[0] f32[3] | > f32[]", 0, "6"},
    {"dot f64[3] f64[3]@[0] | > f64[]", 0, "6"},
    {"dot i8[3] i8[3] | > i8[]", 0, "5"},
    {"dot f32[0] f32[0] | > f32[]", 0, "0"},
    {"randperm | 0 i64 > i64[0]", 0, ""},
    {"bernoulli f32[] | > f32[]", 0, "0"},
    {"batch_norm f32[1,2,2,1] _ _ _ _ | true 0.1 0.0 > f32[1,2,2,1] f32[2] f32[2]", 0, "-1 1 -1 1"},
    {"batch_norm f32[2,2,1,1] _ _ _ _ | true 0.1 0.0 > f32[2,2,1,1] f32[2] f32[2]", 0, "-1 -1 1 1"},
    {"batch_norm f32[2,2,0] _ _ _ _ | true 0.1 0.0 > f32[2,2,0] f32[2] f32[2]", 0, ""},
    {"linspace | 3.5 9.5 1 f32 > f32[1]", 0, "3.5"},
    {"linspace | 3.5 9.5 0 f32 > f32[0]", 0, ""},
    {"arange | 2.5 5 1 i64 > i64[3]", 0, "2 3 4"},
    {"arange | 0 3 1.5 i32 > i32[2]", 0, "0 1"},
    {"arange | 0.5 3 1 i32 > i32[3]", 0, "0 1 2"},
    {"eye | 2 0 f32 > f32[2,0]", 0, ""},
    {"eye | 0 2 f32 > f32[0,2]", 0, ""},
    {"select_scatter f32[2,2] f32[2] | 0 -1 > f32[2,2]", 0, "0 1 0 1"},
    {"slice_scatter f32[4] f32[2] | 0 -3 -1 > f32[4]", 0, "0 0 1 3"},
    {"slice_scatter f32[4] f32[0] | 0 3 -9 > f32[4]", 0, "0 1 2 3"},
    {"slice_scatter f32[4] f32[2] | 0 none none 2 > f32[4]", 0, "0 1 1 3"},
    {"max_pool2d f32[1,2,2] | [2] [] > f32[1,1,1] i64[1,1,1]", 0, "3"},
    {"max_pool2d f32[1,0,2] | [1] [1] > f32[1,0,2] i64[1,0,2]", 0, ""},
    {"max_pool2d i8[1,2,2] | [2,2] [1,1] > i8[1,1,1] i64[1,1,1]", 0, "3"},
    {"max_pool2d i16[1,2,2] | [2,1] [1,1] > i16[1,1,2] i64[1,1,2]", 0, "2 3"},
    {"max_pool2d i32[1,1,2,2] | [1,2] [1,1] > i32[1,1,2,1] i64[1,1,2,1]", 0, "1 3"},
    {"max_pool2d u8[1,2,2] | [2,2] [1,1] [1,1] > u8[1,3,3] i64[1,3,3]", 0, "0 1 1 2 3 3 2 3 3"},
    {"max_pool2d i64[1,2,2] | [2,2] [1,1] [1,1] > i64[1,3,3] i64[1,3,3]", 0, "0 1 1 2 3 3 2 3 3"},
    {"max_pool2d f64[1,2,2] | [2,2] [1,1] [1,1] > f64[1,3,3] i64[1,3,3]", 0, "0 1 1 2 3 3 2 3 3"},
    /* a stride or a dilation that leads to nothing may be any number */
    {"max_pool2d f32[1,2,2] | [4] [9223372036854775807] [2] > f32[1,1,1] i64[1,1,1]", 0, "3"},
    {"max_pool2d i8[1,2,2] | [4] [1,9223372036854775807] [2] > i8[1,3,1] i64[1,3,1]", 0, "3 3 3"},
    {"max_pool2d f64[1,2,2] | [1] [1] [0] [9223372036854775807] > f64[1,2,2] i64[1,2,2]", 0, "0 1 2 3"},
    {"max_pool2d f32[1,2,1] | [1] [1] [0] [1,9223372036854775807] > f32[1,2,1] i64[1,2,1]", 0, "0 1"},
    {"avg_pool2d f64[1,2,2] | [4] [9223372036854775807] [2] false true > f64[1,1,1]", 0, "0.375"},
    {"avg_pool2d f64[1,1,2] | [2305843009213693952] [1] [1152921504606846976] > f64[1,2,2]", 0,
     "1.0842e-19 1.0842e-19 1.0842e-19 1.0842e-19"},
    {"avg_pool2d f32[1,2,2,2]@[8,1,4,2] | [2305843009213693952] [1] [1152921504606846976] > f32[1,2,2,2]@[8,1,4,2]", 0,
     "6.50521e-19 2.38524e-18 6.50521e-19 2.38524e-18 6.50521e-19 2.38524e-18 6.50521e-19 2.38524e-18"},
    /* windows of padding alone */
    {"max_pool2d f32[1,1,2] | [1,2] [1,1] [0,1] [1,3] > f32[1,1,1] i64[1,1,1]", 0, "-inf"},
    {"max_pool2d f64[1,2,1] | [2,1] [1,1] [1,0] [3,1] > f64[1,1,1] i64[1,1,1]", 0, "-inf"},
    {"max_pool2d f16[1,1,2] | [1,2] [1,1] [0,1] [1,3] > f16[1,1,1] i64[1,1,1]", 0, "-inf"},
    {"max_pool2d i64[1,1,2] | [1,2] [1,1] [0,1] [1,3] > i64[1,1,1] i64[1,1,1]", 0, "-9.22337e+18"},
    {"max_pool2d i32[1,2,1] | [2,1] [1,1] [1,0] [3,1] > i32[1,1,1] i64[1,1,1]", 0, "-2.14748e+09"},
    {"max_pool2d i16[1,1,2] | [1,2] [1,1] [0,1] [1,3] > i16[1,1,1] i64[1,1,1]", 0, "-32768"},
    {"max_pool2d i8[1,2,1] | [2,1] [1,1] [1,0] [3,1] > i8[1,1,1] i64[1,1,1]", 0, "-128"},
    {"max_pool2d u8[1,1,2] | [1,2] [1,1] [0,1] [1,3] > u8[1,1,1] i64[1,1,1]", 0, "0"},
    {"max_pool2d_backward f32[1,1,2] i64[1,1,2] | [1,2,2] > f32[1,2,2]", 0, "0 1 0 0"},
    {"avg_pool2d i64[1,2,2] | [2] [] > i64[1,1,1]", 0, "1"},
    {"avg_pool2d f32[1,2,2] | [2] [] > f32[1,1,1]", 0, "1.5"},
    {"avg_pool2d f32[1,2,0] | [1] [1] > f32[1,2,0]", 0, ""},
    {"conv2d f32[1,2,2,1] f32[1,2,1,1] _ | [1] [0] [1] 1 > f32[1,1,2,1]", 0, "2 3"},
    {"conv2d f32[2,1,1,2] f32[1,1,1,1] _ | [1] [0] [1] 1 > f32[2,1,1,2]", 0, "0 0 0 0"},
    {"conv2d f32[1,1,2,2]@[4,4,1,2] f32[1,1,1,1] f32[1] | [1] [0] [1] 1 > f32[1,1,2,2]", 0, "0 0 0 0"},
    {"conv2d f32[1,1,1,2] f32[1,1,1,1] _ | [1] [0,1] [1] 1 > f32[1,1,1,4]", 0, "0 0 0 0"},
    {"conv2d f32[1,1,2,2] f32[1,1,4,4] _ | [9223372036854775807] [2] [1] 1 > f32[1,1,1,1]", 0, "84"},
    {"conv2d f64[1,2,2,2] f64[1,2,4,4] _ | [1,9223372036854775807] [1,3] [1] 1 > f64[1,1,1,1]", 0, "276"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [2] [0] [9223372036854775807] 1 > f32[1,1,1,1]", 0, "0"},
    {"nll_loss_backward f32[] i64[0] _ f32[] | [0,3] 2 -100 > f32[0,3]", 0, ""},
    {"nll_loss f32[3] i64[] _ | 1 -100 > f32[] f32[]", 0, "0"},

    /* refused by plans */
    {"index_select f32[3] f32[2] | 0 > f32[2]", TD_E_TYPE, "must be an integer tensor"},
    {"index_select f32[3] b[2] | 0 > f32[2]", TD_E_TYPE, "must be an integer tensor"},
    {"index_select f32[3] i64[2] | 4 > f32[2]", TD_E_INDEX, "Dimension out of range"},
    {"index_select f32[2] i64[3] | 0 > f32[3]", TD_E_INDEX, "index 2 is out of bounds"},
    {"embedding f32[3,2] f32[2] | > f32[2,2]", TD_E_TYPE, "must be an integer tensor"},
    {"gather f32[3] f32[2] | 0 > f32[2]", TD_E_TYPE, "must be an integer tensor"},
    {"gather f32[3] i64[2] | -5 > f32[2]", TD_E_INDEX, "Dimension out of range"},
    {"gather f32[1] i64[2] | 0 > f32[2]", TD_E_INDEX, "out of bounds"},
    {"index f32[3] i64[1] i64[1] | > f32[1]", TD_E_INDEX, "too many indices"},
    {"index f32[3] f32[1] | > f32[1]", TD_E_TYPE, "must be an integer tensor"},
    {"index f32[3,3] i64[2] i64[3] | > f32[1]", TD_E_SHAPE, ""},
    {"index_add f32[3] f32[2] f32[2] | 0 1 > f32[3]", TD_E_TYPE, "must be an integer tensor"},
    {"index_add f32[3] i64[2] f32[2] | 7 1 > f32[3]", TD_E_INDEX, "Dimension out of range"},
    {"index_put f32[3] f32[2] f32[2] | true > f32[3]", TD_E_TYPE, "must be an integer tensor"},
    {"index_put f32[3] i64[2] f64[2] | true > f32[3]", TD_E_TYPE, "values are float64"},
    {"scatter f32[3] f32[2] f32[2] | 0 > f32[3]", TD_E_TYPE, "must be an integer tensor"},
    {"scatter f32[3] i64[2] f64[2] | 0 > f32[3]", TD_E_TYPE, "src is float64"},
    {"scatter f32[3] i64[2] f32[2] | 3 > f32[3]", TD_E_INDEX, "Dimension out of range"},
    {"scatter f32[1] i64[2] f32[2] | 0 > f32[1]", TD_E_INDEX, "out of bounds"},
    {"masked_select f32[3] f32[3] | > f32[3]", TD_E_TYPE, "must be a bool tensor"},
    {"masked_select f32[3] b[2] | > f32[3]", TD_E_SHAPE, ""},
    {"masked_scatter f32[3] f32[3] f32[3] | > f32[3]", TD_E_TYPE, "must be a bool tensor"},
    {"masked_scatter f32[3] b[3] f64[3] | > f32[3]", TD_E_TYPE, "src is float64"},
    {"select_scatter f32[2,2] f64[2] | 0 0 > f32[2,2]", TD_E_TYPE, "src is float64"},
    {"select_scatter f32[2,2] f32[2] | 5 0 > f32[2,2]", TD_E_INDEX, "Dimension out of range"},
    {"select_scatter f32[] f32[] | 0 0 > f32[]", TD_E_INDEX, "0-dim"},
    {"select_scatter f32[2,2] f32[2] | 0 2 > f32[2,2]", TD_E_INDEX, "out of bounds"},
    {"select_scatter f32[2,2] f32[2] | 0 -3 > f32[2,2]", TD_E_INDEX, "out of bounds"},
    {"slice_scatter f32[2,2] f32[2] | 5 > f32[2,2]", TD_E_INDEX, "Dimension out of range"},
    {"slice_scatter f32[] f32[] | 0 > f32[]", TD_E_INDEX, "0-dim"},
    {"slice_scatter f32[4] f32[4] | 0 none none 0 > f32[4]", TD_E_INVALID, "step must be at least 1"},
    {"slice_scatter f32[4] f32[3] | 0 > f32[4]", TD_E_SHAPE, "src has size 3"},
    {"slice_scatter f32[4] f32[4,1] | 0 > f32[4]", TD_E_SHAPE, "src has size -1"},
    {"sort c64[3] | 0 > c64[3] i64[3]", TD_E_UNSUPPORTED, "complex64"},
    {"sort f32[3] | 2 > f32[3] i64[3]", TD_E_INDEX, "Dimension out of range"},
    {"topk c64[3] | 1 0 > c64[1] i64[1]", TD_E_UNSUPPORTED, "complex64"},
    {"topk f32[3] | 4 0 > f32[4] i64[4]", TD_E_INVALID, "k is 4"},
    {"topk f32[3] | -1 0 > f32[0] i64[0]", TD_E_INVALID, "k is -1"},
    {"amax f32[2,0] | [1] > f32[2]", TD_E_INVALID, "nothing to reduce"},
    {"amax c64[2] | [0] > c64[]", TD_E_UNSUPPORTED, "complex64"},
    {"conv2d b[1,1,2,2] b[1,1,1,1] _ | [1] [0] [1] 1 > b[1,1,2,2]", TD_E_UNSUPPORTED, "bool"},
    {"conv2d f32[1,2,2] f32[1,1,1,1] _ | [1] [0] [1] 1 > f32[1,1,2,2]", TD_E_SHAPE, "4 dimensions"},
    {"conv2d f32[1,1,2,2] f32[1,1,1] _ | [1] [0] [1] 1 > f32[1,1,2,2]", TD_E_SHAPE, "4 dimensions"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [1] [0] [1] 1 > f32[1,2,2]", TD_E_SHAPE, "4 dimensions"},
    {"conv2d f32[1,1,2,2] f64[1,1,1,1] _ | [1] [0] [1] 1 > f32[1,1,2,2]", TD_E_TYPE, "w is float64"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [] [0] [1] 1 > f32[1,1,2,2]", TD_E_INVALID, "one or two integers"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [1] [0,0,0] [1] 1 > f32[1,1,2,2]", TD_E_INVALID, "one or two integers"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [1] [0] [1,1,1] 1 > f32[1,1,2,2]", TD_E_INVALID, "one or two integers"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [0,1] [0] [1] 1 > f32[1,1,2,2]", TD_E_INVALID, "do not fit"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [1,0] [0] [1] 1 > f32[1,1,2,2]", TD_E_INVALID, "do not fit"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [1] [0] [0,1] 1 > f32[1,1,2,2]", TD_E_INVALID, "do not fit"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [1] [0] [1,0] 1 > f32[1,1,2,2]", TD_E_INVALID, "do not fit"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [1] [-1,0] [1] 1 > f32[1,1,2,2]", TD_E_INVALID, "do not fit"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [1] [0,-1] [1] 1 > f32[1,1,2,2]", TD_E_INVALID, "do not fit"},
    {"conv2d f32[1,1,2,2] f32[1,1,1,1] _ | [1] [0] [1] 0 > f32[1,1,2,2]", TD_E_INVALID, "do not fit"},
    {"conv2d f32[1,2,2,2] f32[1,1,1,1] _ | [1] [0] [1] 2 > f32[1,1,2,2]", TD_E_INVALID, "do not fit"},
    {"conv2d f32[1,3,2,2] f32[1,1,1,1] _ | [1] [0] [1] 1 > f32[1,1,2,2]", TD_E_INVALID, "do not fit"},
    {"conv2d_backward i64[1,1,2,2] i64[1,1,2,2] i64[1,1,1,1] | [1] [0] [1] 1 7 > i64[1] i64[1] i64[1]",
     TD_E_UNSUPPORTED, "int64"},
    {"max_pool2d f32[2,2] | [1] [1] > f32[2,2] i64[2,2]", TD_E_SHAPE, "3 or 4 dimensions"},
    {"max_pool2d f32[1,1,1,2,2] | [1] [1] > f32[1,1,1,2,2] i64[1,1,1,2,2]", TD_E_SHAPE, "3 or 4 dimensions"},
    {"max_pool2d f32[1,2,2] | [1] [1] > f32[2,2] i64[2,2]", TD_E_SHAPE, "3 or 4 dimensions"},
    {"max_pool2d f32[1,2,2] | [] [1] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "one or two integers"},
    {"max_pool2d f32[1,2,2] | [1] [1] [0,0,0] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "one or two integers"},
    {"max_pool2d f32[1,2,2] | [1] [1] [0] [] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "one or two integers"},
    {"max_pool2d f32[1,2,2] | [0,1] [1] [0] [1] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "at least 1"},
    {"max_pool2d f32[1,2,2] | [1,0] [1] [0] [1] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "at least 1"},
    {"max_pool2d f32[1,2,2] | [1] [0,1] [0] [1] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "at least 1"},
    {"max_pool2d f32[1,2,2] | [1] [1,0] [0] [1] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "at least 1"},
    {"max_pool2d f32[1,2,2] | [1] [1] [-1,0] [1] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "at least 1"},
    {"max_pool2d f32[1,2,2] | [1] [1] [0,-1] [1] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "at least 1"},
    {"max_pool2d f32[1,2,2] | [1] [1] [0] [0,1] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "at least 1"},
    {"max_pool2d f32[1,2,2] | [1] [1] [0] [1,0] > f32[1,2,2] i64[1,2,2]", TD_E_INVALID, "at least 1"},
    {"max_pool2d b[1,2,2] | [1] [1] > b[1,2,2] i64[1,2,2]", TD_E_UNSUPPORTED, "bool"},
    {"max_pool2d c64[1,2,2] | [1] [1] > c64[1,2,2] i64[1,2,2]", TD_E_UNSUPPORTED, "complex64"},
    {"max_pool2d_backward i64[1,1,1] i64[1,1,1] | [1,2,2] > i64[1,2,2]", TD_E_UNSUPPORTED, "int64"},
    {"max_pool2d_backward f32[1,1,1] f32[1,1,1] | [1,2,2] > f32[1,2,2]", TD_E_SHAPE, "do not fit"},
    {"max_pool2d_backward f32[1,1,1] i64[1,1,2] | [1,2,2] > f32[1,2,2]", TD_E_SHAPE, "do not fit"},
    {"max_pool2d_backward f32[1,1] i64[1,1] | [2,2] > f32[2,2]", TD_E_SHAPE, "do not fit"},
    {"max_pool2d_backward f32[1,1,1] i64[1,1,1] | [1,1,2,2] > f32[1,1,2,2]", TD_E_SHAPE, "do not fit"},
    {"max_pool2d_backward f32[1,2,2] i64[1,2,2] | [1,1,2] > f32[1,1,2]", TD_E_INDEX, "outside of a plane of 2"},
    {"avg_pool2d i32[1,2,2] | [1] [1] > i32[1,2,2]", TD_E_UNSUPPORTED, "int32"},
    {"avg_pool2d f32[2,2] | [1] [1] > f32[2,2]", TD_E_SHAPE, "3 or 4 dimensions"},
    {"layer_norm i64[2,2] _ _ | 1 > i64[2,2] f32[2] f32[2]", TD_E_UNSUPPORTED, "int64"},
    {"layer_norm f32[2,2] _ _ | 0 > f32[2,2] f32[2] f32[2]", TD_E_INVALID, "ndims is 0"},
    {"layer_norm f32[2,2] _ _ | 3 > f32[2,2] f32[2] f32[2]", TD_E_INVALID, "ndims is 3"},
    {"layer_norm_backward i64[2,2] i64[2,2] _ f32[2] f32[2] | 1 7 > i64[2,2] i64[2] i64[2]", TD_E_UNSUPPORTED, "int64"},
    {"batch_norm i64[2,2] _ _ _ _ | true > i64[2,2] f32[2] f32[2]", TD_E_UNSUPPORTED, "int64"},
    {"batch_norm f32[2] _ _ _ _ | true > f32[2] f32[2] f32[2]", TD_E_SHAPE, "at least 2 dimensions"},
    {"batch_norm f32[2,2] _ _ f32[2] _ | false > f32[2,2] f32[2] f32[2]", TD_E_INVALID, "running_mean and running_var"},
    {"batch_norm_backward i64[2,2] i64[2,2] _ f32[2] f32[2] | true 7 > i64[2,2] f32[2] f32[2]", TD_E_UNSUPPORTED,
     "int64"},
    {"nll_loss i64[2,3] i64[2] _ | 1 -100 > i64[] i64[]", TD_E_UNSUPPORTED, "int64"},
    {"nll_loss f32[2,3] f32[2] _ | 1 -100 > f32[] f32[]", TD_E_TYPE, "must be integers"},
    {"nll_loss f32[2,3] i64[3] _ | 1 -100 > f32[] f32[]", TD_E_SHAPE, "3 targets"},
    {"nll_loss f32[1,2] i64[1]@[1] _ | 1 -100 > f32[] f32[]", 0, "0"},
    {"nll_loss_backward f32[] f32[2] _ f32[] | [2,3] 1 -100 > f32[2,3]", TD_E_TYPE, "must be integers"},
    {"sgd_step i64[2] i64[2] _ | 0.1 > ", TD_E_UNSUPPORTED, "int64"},
    {"sgd_step f32[2] f64[2] _ | 0.1 > ", TD_E_TYPE, "stepped with a float64"},
    {"sgd_step f32[2] f32[3] _ | 0.1 > ", TD_E_SHAPE, "shapes differ"},
    {"sgd_step f32[2] f32[2] _ | 0.1 0.9 > ", TD_E_INVALID, "momentum needs buf"},
    {"adam_step f32[2] f32[2] f32[2] f32[2] i32[] | 0.1 > ", TD_E_TYPE, "one float or int64 number"},
    {"adam_step f32[2] f32[2] f32[2] f32[2] f32[2] | 0.1 > ", TD_E_TYPE, "one float or int64 number"},
    {"adam_step f32[2] f32[2] f32[2] f32[2] i64[] | 0.1 > ", 0, ""},
    {"mm b[2,2] b[2,2] | > b[2,2]", TD_E_UNSUPPORTED, "bool"},
    {"dot b[2] b[2] | > b[]", TD_E_UNSUPPORTED, "bool"},
    {"bitwise_and f32[2] f32[2] | > f32[2]", TD_E_UNSUPPORTED, "float32"},
    {"floor_divide i64[3] i64[3] | > i64[3]", TD_E_INVALID, "ZeroDivisionError"},
    {"floor_divide i32[3,2]@[1,3] i32[3,2] | > i32[3,2]", TD_E_INVALID, "ZeroDivisionError"},
    {"floor_divide i64[3] i64[] | > i64[3]", TD_E_INVALID, "ZeroDivisionError"},
};

/* Buffers for the tensors of a call, filled with 0, 1, 2, ... at their elements. */
static void provide(const call *c, int n, td_karg *arg, guarded *memory)
{
    for (int i = 0; i < n; i++) {
        const td_desc *d = &c->descs[i];
        arg[i] = (td_karg){NULL, NULL};
        if (!c->in[i].desc) continue;
        uint64_t low, high;
        int64_t size = (int64_t)td_dtype_size(d->dtype);
        td_desc_extent(d, &low, &high);
        memory[i] = guarded_new((size_t)high, (size_t)size, i & 1);
        arg[i] = (td_karg){high ? memory[i].at : NULL, d}; /* without elements there may be no memory */
        for (int64_t k = 0; k < td_desc_numel(d); k++) {
            int64_t at = 0, rest = k;
            for (int j = d->ndim - 1; j >= 0; j--) at += rest % d->shape[j] * d->stride[j], rest /= d->shape[j];
            td_scalar_store(d->dtype == TD_BOOL ? td_bool(k & 1) : td_int(k), d->dtype, memory[i].at + at * size);
        }
    }
}

static void elements_text(const td_karg *a, char *text, size_t room)
{
    size_t at = 0, size = td_dtype_size(a->desc->dtype);
    text[0] = 0;
    for (int64_t k = 0; k < td_desc_numel(a->desc) && at < room; k++) {
        td_scalar s = td_scalar_load(a->desc->dtype, (char *)a->data + (size_t)k * size);
        at += (size_t)snprintf(text + at, room - at, "%s%g", k ? " " : "", s.kind <= TD_S_INT ? (double)s.i : s.re);
    }
}

static void check(const edge *row, int how)
{
    static call in, out;
    char text[256], got[sizeof(td_error)];
    td_error e = {0};
    td_karg args[8], results[8];
    guarded memory[16] = {{0}};
    snprintf(text, sizeof text, "%s", row->call);
    char *behind = strchr(text, '>');
    *behind++ = 0;
    call_read(&in, text);
    memset(&out, 0, sizeof out);
    for (char *save = NULL, *word = strtok_r(behind, " ", &save); word; word = strtok_r(NULL, " ", &save))
        call_operand(&out, word);
    provide(&in, in.nin, args, memory);
    provide(&out, out.nin, results, memory + 8);
    const td_op *op = in.f.op;
    td_kcall k = {
        .op = op, .attrs = &in.attrs, .in = args, .out = results, .nin = (uint16_t)in.nin, .nout = (uint16_t)out.nin};
    k.compute = in.nin ? in.descs[0].dtype : out.descs[0].dtype;
    int code =
        how < RUNNINGS ? run_guarded(td_cpu_plans[op->id], &k, how, &e) : td_kernel_run(td_cpu_plans[op->id], &k, &e);
    if (code || !out.nin) snprintf(got, sizeof got, "%s", e.message);
    else elements_text(&results[0], got, sizeof got);
    bool ok = code == (int)row->code && (code ? strstr(got, row->want) != NULL : !strcmp(got, row->want));
    if (!ok) printf("  %s: %d, %s\n", row->call, code, got);
    CU_ASSERT(ok);
    for (int i = 0; i < 16; i++) {
        CU_ASSERT(!memory[i].map || guarded_intact(&memory[i]));
        guarded_free(&memory[i]);
    }
}

static void all_edges(void)
{
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (int how = IN_ORDER; how <= RUNNINGS; how++) check(&edges[i], how); /* the last: as small work is run */
}

static int init(void)
{
    td_cpu_init();
    return 0;
}

TD_CUNIT_MAIN_WITH("kernels_edges", init, NULL, {"edges", all_edges})
