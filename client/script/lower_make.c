/* Functions and methods that make tensors, and are no rows of the op table. See lower.h. */
#include "client/script/lower.h"

static uint32_t full(td_lower *l, uint32_t call, uint32_t shape, uint32_t value, uint32_t dtype)
{
    uint32_t in[3] = {shape, value, dtype};
    td_low_at(l, call);
    return td_low_op(l, TD_IR_TD | td_op_by_name("full")->id, 3, in, td_low_made(l, td_type_any_tensor(l->e)));
}

static uint32_t ints(td_lower *l)
{
    return td_low_made(l, td_type_list(l->e, td_low_plain(l, TD_T_INT)));
}

bool td_low_is_cpu(td_lower *l, uint32_t value)
{
    const char *text = td_low_kind(l, value) == TD_T_STR ? td_low_constant_text(l, value) : NULL;
    return text && (strcmp(text, "cpu") == 0 || strcmp(text, "cpu:0") == 0);
}

static void check_device(td_lower *l, uint32_t node, uint32_t value)
{
    td_type_kind kind = td_low_kind(l, value);
    if (kind == TD_T_OPTIONAL) kind = td_type_kind_of(td_ir_now(l->e), td_low_part(l, td_low_type(l, value), 0));
    bool cpu = kind == TD_T_STR && td_low_is_cpu(l, value);
    if (kind != TD_T_DEVICE && kind != TD_T_NONE && !cpu)
        td_low_wrong(
            l, node,
            "a program makes tensors where its arguments are: a device is that of a Tensor, x.device, or 'cpu'");
}

/* Where a tensor lies: what is made lies where the program works, so a device is looked at and no more. */
static bool is_of_place(td_lower *l, uint32_t arg)
{
    static const char *const names[] = {"device", "layout", "pin_memory", "non_blocking", "memory_format"};
    const char *name = td_low_text(l, arg);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) {
            if (i == 0) check_device(l, arg, td_low_expr(l, td_low_kid(l, arg, 0)));
            return true;
        }
    if (strcmp(name, "requires_grad") != 0) return false;
    if (td_low_truth(l, td_low_kid(l, arg, 0)) != TD_NEVER)
        td_low_wrong(l, arg, "a program makes tensors without 'requires_grad'; write .requires_grad_() behind it");
    return true;
}

/* All arguments without names, *n of them, or with that of the first ones; by name only a dtype, or TD_IR_NONE. */
static uint32_t *numbered(td_lower *l, uint32_t call, uint32_t *n, uint32_t *dtype)
{
    uint32_t count = td_low_node(l, call)->n, *items = td_low_array(l, count);
    *n = 0, *dtype = TD_IR_NONE;
    for (uint32_t k = 1; k < count; k++) {
        uint32_t arg = td_low_kid(l, call, k);
        if (td_low_node(l, arg)->kind != TD_N_KEYWORD) items[(*n)++] = td_low_expr(l, arg);
        else if (strcmp(td_low_text(l, arg), "size") == 0 || strcmp(td_low_text(l, arg), "fill_value") == 0)
            items[(*n)++] = td_low_expr(l, td_low_kid(l, arg, 0));
        else if (is_of_place(l, arg)) continue;
        else if (strcmp(td_low_text(l, arg), "dtype") != 0)
            td_low_wrong(l, arg, "a program gives 'dtype' and 'device' by name only");
        else *dtype = td_low_convert(l, arg, td_low_expr(l, td_low_kid(l, arg, 0)), td_low_plain(l, TD_T_DTYPE));
    }
    td_low_at(l, call);
    return items;
}

static uint32_t like(td_lower *l, uint32_t call, int64_t number)
{
    uint32_t n, dtype, *values = numbered(l, call, &n, &dtype);
    if (n != 1 || td_low_kind(l, values[0]) != TD_T_TENSOR) td_low_wrong(l, call, "this wants one Tensor");
    uint32_t shape = td_low_prim(l, call, "shape", 1, values);
    if (dtype == TD_IR_NONE) dtype = td_low_prim(l, call, "dtype", 1, values);
    return full(l, call, shape, td_low_made(l, td_ir_int(l->e, number)), dtype);
}

/* The dtype that a number has by itself. */
static td_dtype dtype_of_number(td_lower *l, uint32_t call, uint32_t value)
{
    switch (td_low_kind(l, value)) {
    case TD_T_BOOL: return TD_BOOL;
    case TD_T_INT: return TD_INT64;
    case TD_T_FLOAT: return TD_FLOAT32;
    case TD_T_COMPLEX: return TD_COMPLEX64;
    default: td_low_wrong(l, call, "this wants a number, not %s", td_low_type_name(l, td_low_type(l, value)));
    }
}

static uint32_t or_dtype(td_lower *l, uint32_t dtype, td_dtype otherwise)
{
    return dtype != TD_IR_NONE ? dtype : td_low_made(l, td_ir_dtype(l->e, otherwise));
}

static bool is_literal(td_lower *l, uint32_t node)
{
    bool listed = td_low_node(l, node)->kind == TD_N_LIST || td_low_node(l, node)->kind == TD_N_TUPLE;
    return listed && !td_low_has_star(l, node);
}

/* The dtype of all numbers of lists in lists. */
static td_dtype dtype_of_lists(td_lower *l, uint32_t node, uint32_t *values, uint32_t *used)
{
    td_dtype widest = TD_BOOL;
    for (uint32_t k = 0; k < td_low_node(l, node)->n; k++) {
        uint32_t item = td_low_kid(l, node, k);
        td_dtype own = TD_BOOL;
        if (is_literal(l, item)) own = dtype_of_lists(l, item, values, used);
        else {
            values[*used] = td_low_expr(l, item);
            own = dtype_of_number(l, item, values[(*used)++]);
        }
        if (own == TD_COMPLEX64 || widest == TD_BOOL || (own == TD_FLOAT32 && widest == TD_INT64)) widest = own;
    }
    return widest;
}

static uint32_t count_numbers(td_lower *l, uint32_t node)
{
    uint32_t n = 0;
    if (!is_literal(l, node)) return 1;
    for (uint32_t k = 0; k < td_low_node(l, node)->n; k++) n += count_numbers(l, td_low_kid(l, node, k));
    return n;
}

static uint32_t stacked(td_lower *l, uint32_t call, uint32_t node, uint32_t dtype, const uint32_t **next)
{
    uint32_t n = td_low_node(l, node)->n, *items = td_low_array(l, n), in[2];
    if (!is_literal(l, node))
        return full(l, call, td_low_convert(l, call, td_low_tuple(l, 0, NULL), ints(l)), *(*next)++, dtype);
    if (n == 0) td_low_wrong(l, node, "an empty list makes no tensor here; write td.zeros(0)");
    for (uint32_t k = 0; k < n; k++) items[k] = stacked(l, call, td_low_kid(l, node, k), dtype, next);
    in[0] = td_low_list(l, call, n, items);
    in[1] = td_low_made(l, td_ir_int(l->e, 0));
    return td_low_op(l, TD_IR_TD | td_op_by_name("stack")->id, 2, in, td_low_made(l, td_type_any_tensor(l->e)));
}

/* tensor([[1, 2], [3, x]]): lists as they are written. */
static uint32_t of_lists(td_lower *l, uint32_t call)
{
    uint32_t node = td_low_kid(l, call, 1), *values = td_low_array(l, count_numbers(l, node)), used = 0,
             dtype = TD_IR_NONE;
    const uint32_t *next = values;
    td_dtype own = dtype_of_lists(l, node, values, &used);
    for (uint32_t k = 2; k < td_low_node(l, call)->n; k++) {
        uint32_t arg = td_low_kid(l, call, k);
        if (td_low_node(l, arg)->kind == TD_N_KEYWORD && is_of_place(l, arg)) continue;
        if (td_low_node(l, arg)->kind != TD_N_KEYWORD || strcmp(td_low_text(l, arg), "dtype") != 0)
            td_low_wrong(l, arg, "a program gives 'dtype' and 'device' by name only");
        dtype = td_low_convert(l, arg, td_low_expr(l, td_low_kid(l, arg, 0)), td_low_plain(l, TD_T_DTYPE));
    }
    td_low_at(l, call);
    return stacked(l, call, node, or_dtype(l, dtype, own), &next);
}

/* tensor(5), tensor(0.5, dtype=td.float64) */
static uint32_t of_number(td_lower *l, uint32_t call)
{
    if (td_low_node(l, call)->n > 1 && is_literal(l, td_low_kid(l, call, 1))) return of_lists(l, call);
    uint32_t n, dtype, *values = numbered(l, call, &n, &dtype);
    if (n != 1)
        td_low_wrong(l, call, "a program makes a tensor of one number, or of one list; give others as arguments");
    td_type_kind kind = td_low_kind(l, values[0]);
    if (kind == TD_T_LIST || kind == TD_T_TUPLE || kind == TD_T_TENSOR) {
        uint32_t in[2] = {values[0], dtype == TD_IR_NONE ? td_low_made(l, td_ir_none(l->e)) : dtype};
        return td_low_prelude(l, call, "tensor_of", 2, in);
    }
    td_dtype own = dtype_of_number(l, call, values[0]);
    uint32_t shape = td_low_convert(l, call, td_low_tuple(l, 0, NULL), ints(l));
    return full(l, call, shape, values[0], or_dtype(l, dtype, own));
}

static uint32_t filled(td_lower *l, uint32_t call)
{
    uint32_t n, dtype, *values = numbered(l, call, &n, &dtype);
    if (n != 2) td_low_wrong(l, call, "'full' wants a shape and a number");
    td_dtype own = dtype_of_number(l, call, values[1]);
    return full(l, call, td_low_convert(l, call, values[0], ints(l)), values[1], or_dtype(l, dtype, own));
}

/* arange(end), arange(start, end), arange(start, end, step): of ints, unless one is a float. */
static uint32_t counted(td_lower *l, uint32_t call)
{
    uint32_t n, dtype, *values = numbered(l, call, &n, &dtype), in[4];
    if (n < 1 || n > 3) td_low_wrong(l, call, "'arange' takes 1 to 3 numbers");
    td_dtype own = TD_INT64;
    for (uint32_t k = 0; k < n; k++)
        if (dtype_of_number(l, call, values[k]) != TD_INT64) own = TD_FLOAT32;
    in[0] = n > 1 ? values[0] : td_low_made(l, td_ir_int(l->e, 0));
    in[1] = values[n > 1];
    in[2] = n > 2 ? values[2] : td_low_made(l, td_ir_int(l->e, 1));
    in[3] = or_dtype(l, dtype, own);
    td_low_at(l, call);
    return td_low_op(l, TD_IR_TD | td_op_by_name("arange")->id, 4, in, td_low_made(l, td_type_any_tensor(l->e)));
}

static uint32_t constant(td_lower *l, uint32_t call, int64_t number)
{
    uint32_t n, dtype, *values = numbered(l, call, &n, &dtype);
    bool one = n == 1 && td_low_kind(l, values[0]) != TD_T_INT;
    uint32_t shape = td_low_convert(l, call, one ? values[0] : td_low_tuple(l, n, values), ints(l));
    return full(l, call, shape, td_low_made(l, td_ir_int(l->e, number)), or_dtype(l, dtype, TD_FLOAT32));
}

static uint32_t zeros(td_lower *l, uint32_t call)
{
    return constant(l, call, 0);
}

static uint32_t ones(td_lower *l, uint32_t call)
{
    return constant(l, call, 1);
}

static uint32_t zeros_like(td_lower *l, uint32_t call)
{
    return like(l, call, 0);
}

static uint32_t ones_like(td_lower *l, uint32_t call)
{
    return like(l, call, 1);
}

/* Of a dimension, or of all. */
static uint32_t extreme(td_lower *l, uint32_t call, const char *of_dim, const char *of_all, const char *of_two)
{
    uint32_t n, second = td_low_kid(l, call, 2), kind = td_low_node(l, second)->kind;
    if (td_low_node(l, call)->n == 3 && kind != TD_N_KEYWORD && kind != TD_N_INT && kind != TD_N_UNARY) {
        uint32_t *values = td_low_arguments(l, call, TD_IR_NONE, &n);
        if (td_low_kind(l, values[0]) == TD_T_TENSOR && td_low_kind(l, values[1]) == TD_T_TENSOR)
            return td_low_tensor_op(l, call, of_two, 2, values);
        td_low_wrong(l, second, "this wants a Tensor, or a number that is written here; write dim=");
    }
    return td_low_op_call(l, call, td_op_by_name(td_low_node(l, call)->n > 2 ? of_dim : of_all), TD_IR_NONE, 0);
}

static uint32_t largest(td_lower *l, uint32_t call)
{
    return extreme(l, call, "max_dim", "amax", "maximum");
}

static uint32_t smallest(td_lower *l, uint32_t call)
{
    return extreme(l, call, "min_dim", "amin", "minimum");
}

/* device("cpu"), device(x.device) */
static uint32_t device(td_lower *l, uint32_t call)
{
    uint32_t n, *values = td_low_arguments(l, call, TD_IR_NONE, &n);
    if (n == 1 && td_low_kind(l, values[0]) == TD_T_DEVICE) return values[0];
    if (n != 1 || !td_low_is_cpu(l, values[0]))
        td_low_wrong(l, call,
                     "a program works where its tensors are: it knows 'cpu' and the device of a Tensor, x.device");
    td_low_at(l, call);
    return td_low_made(l, td_ir_device(l->e, 0));
}

static const struct maker {
    const char *name;
    uint32_t (*make)(td_lower *l, uint32_t call);
} makers[] = {
    {"arange", counted}, {"device", device},       {"full", filled},      {"max", largest}, {"min", smallest},
    {"ones", ones},      {"ones_like", ones_like}, {"tensor", of_number}, {"zeros", zeros}, {"zeros_like", zeros_like}};

bool td_low_maker(td_lower *l, uint32_t call, const char *name, uint32_t *value)
{
    for (unsigned i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(makers[i].name, name) == 0) {
            td_low_at(l, call);
            return *value = makers[i].make(l, call), true;
        }
    return false;
}

bool td_low_has_maker(const char *name)
{
    for (unsigned i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(makers[i].name, name) == 0) return true;
    return false;
}

static uint32_t copy(td_lower *l, uint32_t call, const uint32_t *in)
{
    td_low_at(l, call);
    return td_low_op(l, TD_IR_TD | td_op_by_name("copy_kept")->id, 2, in, td_low_made(l, td_type_any_tensor(l->e)));
}

/* What memory_format= is, an int as ATen counts them (prelude.py); TD_IR_NONE: it is not said. */
static uint32_t format_of(td_lower *l, uint32_t call)
{
    for (uint32_t k = 1; k < td_low_node(l, call)->n; k++) {
        uint32_t arg = td_low_kid(l, call, k);
        if (td_low_node(l, arg)->kind == TD_N_KEYWORD && strcmp(td_low_text(l, arg), "memory_format") == 0)
            return td_low_expr(l, td_low_kid(l, arg, 0));
    }
    return TD_IR_NONE;
}

/* What has the dtype is itself: what is written to one, both see. */
static uint32_t cast(td_lower *l, uint32_t call, const uint32_t *in)
{
    uint32_t has[2] = {td_low_prim(l, call, "dtype", 1, in), in[1]};
    td_branch b;
    td_low_if(l, &b, td_low_prim(l, call, "eq", 2, has), call);
    b.values[0] = in[0];
    td_low_else(l, &b);
    b.values[1] = copy(l, call, in);
    td_low_end_if(l, &b);
    return b.result;
}

/* x.to(dtype), x.to(other), x.to(device, dtype): of a device nothing comes. */
static uint32_t to(td_lower *l, uint32_t call, uint32_t self)
{
    uint32_t in[2] = {self, TD_IR_NONE}, n = td_low_node(l, call)->n, format = format_of(l, call);
    bool anew = false;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t arg = td_low_kid(l, call, k), node = arg;
        if (td_low_node(l, arg)->kind == TD_N_KEYWORD) {
            const char *name = td_low_text(l, arg);
            node = td_low_kid(l, arg, 0);
            if (strcmp(name, "copy") == 0) anew = td_low_truth(l, node) != TD_NEVER;
            if (strcmp(name, "copy") == 0 || (strcmp(name, "device") != 0 && is_of_place(l, arg))) continue;
        }
        if (td_low_node(l, node)->kind == TD_N_BOOL) continue; /* non_blocking, copy */
        uint32_t given = td_low_expr(l, node);
        td_type_kind kind = td_low_kind(l, given);
        if (kind == TD_T_TENSOR) in[1] = td_low_prim(l, call, "dtype", 1, &given);
        else if (kind == TD_T_DTYPE) in[1] = given;
        else if (kind != TD_T_DEVICE && !td_low_is_cpu(l, given))
            td_low_wrong(
                l, arg,
                "'to' takes a dtype, the device of a Tensor, or a Tensor; a program works where its tensors are");
    }
    if (n < 2) td_low_wrong(l, call, "'to' takes a dtype");
    td_low_at(l, call);
    bool same = in[1] == TD_IR_NONE;
    if (same) in[1] = td_low_made(l, td_ir_none(l->e));
    uint32_t made = anew ? copy(l, call, in) : same ? self : cast(l, call, in);
    return format == TD_IR_NONE ? made : td_low_prelude(l, call, "laid_out", 2, (uint32_t[]){made, format});
}

uint32_t td_low_fill(td_lower *l, uint32_t node, uint32_t into, uint32_t value)
{
    uint32_t in[4] = {into, td_low_prim(l, node, "shape", 1, &into), value, td_low_prim(l, node, "dtype", 1, &into)};
    return td_low_op(l, TD_IR_TD | TD_IR_INPLACE | td_op_by_name("full")->id, 4, in,
                     td_low_made(l, td_type_any_tensor(l->e)));
}

/* x.fill_(value), x.zero_(): all of it is written. */
static uint32_t fill(td_lower *l, uint32_t call, uint32_t self, bool zero)
{
    uint32_t n, *values = td_low_arguments(l, call, self, &n);
    if (n != 2 - zero) td_low_wrong(l, call, zero ? "'zero_' takes no arguments" : "'fill_' takes a number");
    if (!zero) dtype_of_number(l, call, values[1]);
    td_low_at(l, call);
    return td_low_fill(l, call, self, zero ? td_low_made(l, td_ir_int(l->e, 0)) : values[1]);
}

/* x.float(), x.clone(): contiguous copies. */
bool td_low_copy_method(td_lower *l, uint32_t call, uint32_t self, const char *name, uint32_t *value)
{
    static const char *const casts[][2] = {
        {"float", "float32"}, {"double", "float64"}, {"half", "float16"},     {"bfloat16", "bfloat16"},
        {"int", "int32"},     {"long", "int64"},     {"bool", "bool"},        {"short", "int16"},
        {"char", "int8"},     {"byte", "uint8"},     {"cfloat", "complex64"}, {"cdouble", "complex128"}};
    uint32_t in[2] = {self, TD_IR_NONE};
    bool zero = strcmp(name, "zero_") == 0;
    if (zero || strcmp(name, "fill_") == 0) return *value = fill(l, call, self, zero), true;
    for (unsigned i = 0; i < sizeof casts / sizeof *casts; i++)
        if (strcmp(casts[i][0], name) == 0) td_low_dtype(l, casts[i][1], &in[1]);
    if (strcmp(name, "clone") == 0) in[1] = td_low_made(l, td_ir_none(l->e));
    if (strcmp(name, "to") == 0) return *value = to(l, call, self), true;
    if (in[1] == TD_IR_NONE) return false;
    uint32_t format = format_of(l, call);
    if (td_low_node(l, call)->n > 1u + (format != TD_IR_NONE))
        td_low_wrong(l, call, "'%s' takes no arguments but memory_format", name);
    if (strcmp(name, "clone") != 0) *value = cast(l, call, in);
    else if (format == TD_IR_NONE) *value = copy(l, call, in);
    else return *value = td_low_prelude(l, call, "clone_as", 2, (uint32_t[]){self, format}), true;
    if (format != TD_IR_NONE) *value = td_low_prelude(l, call, "laid_out", 2, (uint32_t[]){*value, format});
    return true;
}
