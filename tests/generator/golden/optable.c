/* Written by proto/gen/opgen.py from the op table: edit that instead. */
#include "proto/infer/infer.h"

#include <math.h>

static const td_param pick_params[] = {
    {"x", TD_P_TENSOR, 0, 0, TD_SHAPE_ANY, 0, 0},
    {"idx", TD_P_OPTIONAL_LIST, TD_PF_CHECKED, 0, TD_SHAPE_ANY, 0, 0},
};
static const td_attr_def pick_attrs[] = {
    {.name = "n", .kind = TD_A_INT, .optional = false, .has_default = false},
};
static const td_output_def pick_outs[] = {
    {"values", false, false},
    {"indices", true, false},
};
static const td_param scale_params[] = {
    {"x", TD_P_TENSOR, 0, 0, TD_SHAPE_ANY, 0, 0},
    {"by", TD_P_NUMBER, 0, 0, TD_SHAPE_ANY, 0, 0},
    {"bias", TD_P_OPTIONAL, 0, 0, TD_SHAPE_ANY, 0, 0},
};
static const int64_t scale_pad[] = {1, -2};
static const td_attr_def scale_attrs[] = {
    {.name = "power", .kind = TD_A_INT, .optional = false, .has_default = true, .value = {.kind = TD_A_INT, .i = 2}},
    {.name = "eps", .kind = TD_A_FLOAT, .optional = false, .has_default = true, .value = {.kind = TD_A_FLOAT, .f = 1e-05}},
    {.name = "invert", .kind = TD_A_BOOL, .optional = false, .has_default = true, .value = {.kind = TD_A_BOOL, .i = 0}},
    {.name = "alpha", .kind = TD_A_SCALAR, .optional = false, .has_default = true, .value = {.kind = TD_A_SCALAR, .s = {TD_S_INT, 1, 0, 0}}},
    {.name = "as", .kind = TD_A_DTYPE, .optional = true, .has_default = true, .value = {.kind = TD_A_NONE}},
    {.name = "pad", .kind = TD_A_INTS, .optional = false, .has_default = true, .value = {.kind = TD_A_INTS, .count = 2}, .ints = scale_pad},
};
static const td_output_def scale_outs[] = {
    {"out", false, false},
};
static const td_param step_params[] = {
    {"p", TD_P_TENSOR, TD_PF_MUTATED, 1, TD_SHAPE_ANY, 0, 0},
    {"g", TD_P_TENSOR, TD_PF_ALIKE, 0, TD_SHAPE_OF, 0, 0},
};
static const td_attr_def step_attrs[] = {
    {.name = "now", .kind = TD_A_BOOL, .optional = false, .has_default = true, .value = {.kind = TD_A_BOOL, .i = 1}},
};
static const td_param cut_params[] = {
    {"x", TD_P_TENSOR, 0, 0, TD_SHAPE_ANY, 0, 0},
};
static const td_attr_def cut_attrs[] = {
    {.name = "dim", .kind = TD_A_INT, .optional = false, .has_default = true, .value = {.kind = TD_A_INT, .i = 0}},
};
static const td_output_def cut_outs[] = {
    {"out", false, true},
};

const td_op td_ops[] = {
    [1] = {
        .id = 1,
        .flags = 0,
        .name = "pick",
        .doc = "The n parts of x at idx.",
        .signature = "(x:T, idx:T?[], n:i) -> (values:T, indices:T)",
        .hash = 0x282705b9u,
        .nparams = 2, .nattrs = 1, .nouts = 2, .list_param = 1, .attrs_at = 0x4,
        .params = pick_params, .attrs = pick_attrs, .outs = pick_outs,
        .dtypes = 0x7fff,
        .infer = td_infer_index,
        .saves = NULL,
        .example = NULL, .aten = NULL,
        .promote = TD_PROMOTE_SAME, .mutates = false, .alike = false, .shaped = false,
    },
    [3] = {
        .id = 3,
        .flags = TD_OF_INPLACE | TD_OF_POINTWISE | TD_OF_FORMAT,
        .name = "scale",
        .doc = "x scaled \"somehow\".",
        .signature = "(x:T, by:TS, bias:T?, power:i=2, eps:f=1e-5, invert:b=false, alpha:S=1, as:D?=none, pad:I[]=[1,-2]) -> T",
        .hash = 0xca161697u,
        .nparams = 3, .nattrs = 6, .nouts = 1, .list_param = -1, .attrs_at = 0x1f8,
        .params = scale_params, .attrs = scale_attrs, .outs = scale_outs,
        .dtypes = 0x7c0,
        .infer = td_infer_pointwise,
        .saves = NULL,
        .example = NULL, .aten = NULL,
        .promote = TD_PROMOTE_FLOAT, .mutates = false, .alike = false, .shaped = false,
    },
    [7] = {
        .id = 7,
        .flags = TD_OF_NONDIFF,
        .name = "step",
        .doc = "Moves p by g.",
        .signature = "(p!now:T, g:T, now:b=true) -> ()",
        .hash = 0x50ad6952u,
        .nparams = 2, .nattrs = 1, .nouts = 0, .list_param = -1, .attrs_at = 0x4,
        .params = step_params, .attrs = step_attrs, .outs = NULL,
        .dtypes = 0x3c0,
        .infer = td_infer_step,
        .saves = NULL,
        .example = NULL, .aten = NULL,
        .promote = TD_PROMOTE_SAME, .mutates = true, .alike = true, .shaped = true,
    },
    [8] = {
        .id = 8,
        .flags = TD_OF_VIEW | TD_OF_MULTI_VIEW,
        .name = "cut",
        .doc = "x cut to pieces.",
        .signature = "(x:T, dim:i=0) -> T[]",
        .hash = 0x89a78bd3u,
        .nparams = 1, .nattrs = 1, .nouts = 1, .list_param = -1, .attrs_at = 0x2,
        .params = cut_params, .attrs = cut_attrs, .outs = cut_outs,
        .dtypes = 0x7fff,
        .infer = td_infer_unbind,
        .saves = NULL,
        .example = "cut([[1, 2], [3, 4]]) == [[1, 2], [3, 4]]", .aten = NULL,
        .promote = TD_PROMOTE_SAME, .mutates = false, .alike = false, .shaped = false,
    },
};
const unsigned td_op_count = 9;
const uint64_t td_ops_hash = 0xd3bc14384dc28e93u;

const uint16_t td_ops_by_name[] = {8, 1, 3, 7};
const unsigned td_ops_named = 4;
