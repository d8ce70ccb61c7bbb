/* What is known of values that the file says nothing of: ranks, dtypes, and what is surely a tensor. A dtype that is
 * not known stays so: whoever needs it refuses the node, since by another one it would do something else. */
#include "client/onnx/text.h"

static bool is_one_of(const char *op, size_t n, const char *const *names)
{
    for (size_t k = 0; k < n; k++)
        if (strcmp(names[k], op) == 0) return true;
    return false;
}
#define IS_ONE_OF(op, ...)                                                                                             \
    is_one_of(op, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

/* ---- numbers or tensors */

static bool is_tensor(const td_onnx_step *x, uint32_t k)
{
    const td_onnx_value *v = k < x->nin ? x->in[k] : NULL;
    return v && (v->constant ? !td_onnx_is_written(v->constant, false) : v->tensor);
}

static bool any_tensor(const td_onnx_step *x)
{
    for (uint32_t k = 0; k < x->nin; k++)
        if (is_tensor(x, k)) return true;
    return false;
}

/* Numbers come of shapes, and of what is made of numbers alone. */
static bool gives_tensor(const td_onnx_step *x)
{
    const char *op = x->node->op;
    if (IS_ONE_OF(op, "Shape", "Size")) return false;
    if (IS_ONE_OF(op, "Gather", "Unsqueeze", "Squeeze", "Slice", "Cast", "Identity", "Neg", "Abs", "Not"))
        return is_tensor(x, 0);
    if (IS_ONE_OF(op, "Concat", "Add", "Sub", "Mul", "Div", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
                  "And", "Or", "Where"))
        return any_tensor(x);
    return true;
}

/* How many an Unsqueeze names; 0: the file does not say. */
static uint64_t axes_of(const td_onnx_step *x)
{
    const td_onnx_attribute *a = td_onnx_attribute_of(x->node, "axes");
    const td_onnx_value *v = x->nin > 1 ? x->in[1] : NULL;
    return a ? a->ints.n : v && v->constant ? (uint64_t)v->constant->look.numel : 0;
}

/* Ops of numbers bring them to the dtype of a tensor beside them; Gather, Concat and Where leave that to the text. */
bool td_onnx_wants_tensors(const td_onnx_step *x)
{
    const char *op = x->node->op;
    if (IS_ONE_OF(op, "Gather")) return is_tensor(x, 1);
    if (IS_ONE_OF(op, "Unsqueeze")) return axes_of(x) != 1;
    if (IS_ONE_OF(op, "Shape", "Size", "Squeeze", "Slice", "Cast", "Identity", "Neg", "Abs", "Not", "Add", "Sub", "Mul",
                  "Div", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or"))
        return false;
    return gives_tensor(x);
}

/* ---- ranks */

static int rank_of(const td_onnx_step *x, uint32_t k)
{
    return k < x->nin && x->in[k] ? x->in[k]->rank : -1;
}

static int rank(const td_onnx_step *x)
{
    const char *op = x->node->op;
    int a = rank_of(x, 0), b = rank_of(x, 1);
    if (IS_ONE_OF(op, "Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Equal", "Less", "Greater", "And", "Or"))
        return a < 0 || b < 0 ? -1 : a > b ? a : b;
    if (IS_ONE_OF(op, "Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool",
                  "GlobalLpPool", "BatchNormalization", "InstanceNormalization", "GroupNormalization",
                  "LayerNormalization", "LRN", "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Clip", "Sigmoid",
                  "HardSigmoid", "HardSwish", "Tanh", "Softplus", "Gelu", "Mish", "Softmax", "LogSoftmax", "Hardmax",
                  "Transpose", "Pad", "Resize", "Upsample", "Concat", "Slice", "Split", "Cast", "Dropout", "Identity",
                  "Exp", "Log", "Sqrt", "Neg", "Abs", "Reciprocal", "Erf", "Floor", "Ceil", "Round", "Not", "Tile",
                  "DepthToSpace", "SpaceToDepth", "Trilu", "CumSum"))
        return a;
    return -1;
}

/* ---- dtypes */

static td_dtype dtype_of(const td_onnx_step *x, uint32_t k)
{
    return k < x->nin && x->in[k] ? x->in[k]->dtype : TD_DTYPE_NONE;
}

/* Two operands have one dtype. */
td_dtype td_onnx_takes(const td_onnx_step *x)
{
    bool two =
        IS_ONE_OF(x->node->op, "Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Sum", "Mean", "Range", "Concat");
    td_dtype d = dtype_of(x, 0);
    for (uint32_t k = 1; two && d == TD_DTYPE_NONE && k < x->nin; k++) d = dtype_of(x, k);
    return d;
}

td_dtype td_onnx_stored(const td_onnx_step *x)
{
    td_dtype d = dtype_of(x, x->nin > 7 ? 7 : 2);
    return d == TD_DTYPE_NONE ? TD_UINT8 : d;
}

static td_dtype attribute_dtype(const td_onnx_step *x, const char *name, td_dtype otherwise)
{
    const td_onnx_attribute *a = td_onnx_attribute_of(x->node, name);
    if (!a) return otherwise;
    return td_onnx_dtype(a->tensor.n ? ((const td_onnx_tensor *)a->tensor.last)->type : a->i);
}

/* Of the first output. */
static td_dtype first(const td_onnx_step *x)
{
    const char *op = x->node->op;
    if (IS_ONE_OF(op, "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN",
                  "IsInf"))
        return TD_BOOL;
    if (IS_ONE_OF(op, "Shape", "Size", "ArgMax", "ArgMin", "NonZero")) return TD_INT64;
    if (IS_ONE_OF(op, "MatMulInteger", "ConvInteger")) return TD_INT32;
    if (IS_ONE_OF(op, "Cast")) return attribute_dtype(x, "to", TD_DTYPE_NONE);
    if (IS_ONE_OF(op, "EyeLike")) return attribute_dtype(x, "dtype", dtype_of(x, 0));
    if (IS_ONE_OF(op, "ConstantOfShape")) return attribute_dtype(x, "value", TD_FLOAT32);
    if (IS_ONE_OF(op, "HannWindow", "HammingWindow", "BlackmanWindow"))
        return attribute_dtype(x, "output_datatype", TD_FLOAT32);
    if (IS_ONE_OF(op, "CastLike", "Where", "DequantizeLinear")) return dtype_of(x, 1);
    if (IS_ONE_OF(op, "OneHot")) return dtype_of(x, 2);
    if (IS_ONE_OF(op, "DynamicQuantizeLinear")) return TD_UINT8;
    if (IS_ONE_OF(op, "QuantizeLinear", "QLinearConv", "QLinearMatMul")) return td_onnx_stored(x);
    return td_onnx_takes(x);
}

static td_dtype other(const td_onnx_step *x, uint32_t k)
{
    const char *op = x->node->op;
    if (IS_ONE_OF(op, "TopK", "MaxPool", "Unique")) return TD_INT64;
    if (IS_ONE_OF(op, "Dropout")) return TD_BOOL;
    if (IS_ONE_OF(op, "DynamicQuantizeLinear")) return k == 1 ? TD_FLOAT32 : TD_UINT8;
    return dtype_of(x, 0);
}

void td_onnx_infer(td_onnx_step *x)
{
    for (uint32_t k = 0; k < x->nout; k++) {
        td_onnx_value *v = x->out[k];
        if (!v) continue;
        v->tensor = gives_tensor(x);
        if (v->rank < 0) v->rank = rank(x);
        if (v->dtype == TD_DTYPE_NONE) v->dtype = k ? other(x, k) : first(x);
    }
}
