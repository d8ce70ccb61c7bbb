/* Subscripts: of tensors as views and by index, of lists, texts, dicts and tuples. See lower.h. */
#include "client/script/lower.h"

typedef struct keys {
    uint32_t *items, n, *taken, value; /* taken: how many dimensions the items behind each one take */
    int64_t dim;
    bool behind;                   /* an '...' came */
    uint32_t *index, nindex, list; /* list: instead of them, or 0 */
    bool whole;                    /* what is meant is wanted, not the view in which the indices say it */
    uint32_t *places, nplaces;     /* of the indices those that may have no dimensions: such a one gives a view */
} keys;

static uint32_t an_int(td_lower *l, int64_t v)
{
    return td_low_made(l, td_ir_int(l->e, v));
}

static uint32_t tensor(td_lower *l, const char *op, uint32_t n, const uint32_t *in)
{
    return td_low_op(l, TD_IR_TD | td_op_by_name(op)->id, n, in, td_low_made(l, td_type_any_tensor(l->e)));
}

static uint32_t bound(td_lower *l, uint32_t node, int64_t otherwise)
{
    td_type_kind kind = TD_T_NONE;
    uint32_t value = node ? td_low_expr_for(l, node, TD_T_INT) : TD_IR_NONE;
    if (node) kind = td_low_kind(l, value);
    if (kind == TD_T_NONE) return otherwise ? an_int(l, otherwise) : td_low_made(l, td_ir_none(l->e));
    if (kind == TD_T_OPTIONAL) return value;
    if (kind == TD_T_TENSOR) return td_low_element(l, value, TD_T_INT);
    return td_low_convert(l, node, value, td_low_plain(l, TD_T_INT));
}

static void take_slice(td_lower *l, uint32_t node, uint32_t *in)
{
    in[0] = bound(l, td_low_kid(l, node, 0), 0);
    in[1] = bound(l, td_low_kid(l, node, 1), 0);
    in[2] = bound(l, td_low_kid(l, node, 2), 1);
}

static bool whole_slice(td_lower *l, uint32_t node)
{
    return !td_low_kid(l, node, 0) && !td_low_kid(l, node, 1) && !td_low_kid(l, node, 2);
}

static void pad_index(td_lower *l, keys *k, uint32_t to)
{
    while (k->nindex < to) k->index[k->nindex++] = td_low_made(l, td_ir_none(l->e));
}

/* What compares gives bools, and so does what joins them. */
static bool is_mask(td_lower *l, uint32_t value)
{
    static const char *const makes[] = {"eq",    "ne",          "lt",         "le",          "gt",
                                        "ge",    "logical_and", "logical_or", "logical_xor", "logical_not",
                                        "isnan", "isinf",       "isfinite"};
    static const char *const joins[] = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"};
    const td_ir *ir = td_ir_now(l->e);
    for (unsigned i = 0; i < sizeof makes / sizeof *makes; i++)
        if (td_low_is_made_by(l, value, makes[i])) return true;
    for (unsigned i = 0; i < sizeof joins / sizeof *joins; i++)
        if (td_low_is_made_by(l, value, joins[i])) return is_mask(l, td_ir_in(ir, ir->values[value].def, 0));
    return false;
}

/* What gives places does not give bools. */
static bool is_place(td_lower *l, uint32_t value)
{
    static const char *const makes[] = {"argmax",  "argmin",   "argsort",      "arange",     "nonzero",
                                        "randint", "randperm", "searchsorted", "multinomial"};
    for (unsigned i = 0; i < sizeof makes / sizeof *makes; i++)
        if (td_low_is_made_by(l, value, makes[i])) return true;
    return false;
}

/* What has dimensions in any case. */
static bool has_dims(td_lower *l, uint32_t value)
{
    return td_low_is_made_by(l, value, "arange") || td_low_is_made_by(l, value, "nonzero") ||
           td_low_is_made_by(l, value, "randperm") || is_mask(l, value);
}

/* What is indexed, in place of *value, and the list of indices. */
static void parts_of(td_lower *l, uint32_t node, const char *function, uint32_t index, uint32_t *value, uint32_t *list)
{
    uint32_t both = td_low_prelude(l, node, function, 2, (uint32_t[]){*value, index});
    *value = td_low_item(l, both, 0);
    *list = td_low_item(l, both, 1);
}

static uint32_t without_dims(td_lower *l, uint32_t node, uint32_t index)
{
    uint32_t in[2] = {td_low_prim(l, node, "ndim", 1, &index), an_int(l, 0)};
    return td_low_prim(l, node, "eq", 2, in);
}

/* A mask alone: where it holds, an index for each of its dimensions. Whether it is one is seen when it runs, unless it
 * is known. */
static bool take_mask(td_lower *l, uint32_t node, uint32_t mask, bool listed, keys *k)
{
    if (k->n != 1 || is_place(l, mask)) return false;
    if (k->whole && !listed && !has_dims(l, mask)) {
        td_branch b;
        uint32_t in[2] = {k->value, mask};
        td_low_begin_place(l, &b, node, without_dims(l, node, mask));
        b.values[0] = td_low_prelude(l, node, "_index_alone", 2, in);
        td_low_else(l, &b);
        parts_of(l, node, "_index_parts", mask, in, in + 1);
        b.values[1] = tensor(l, "index", 2, in);
        td_low_end_if(l, &b);
        k->value = b.result;
        return true;
    }
    parts_of(l, node, is_mask(l, mask) ? "_mask_parts" : "_index_parts", mask, &k->value, &k->list);
    return true;
}

static void take_value(td_lower *l, uint32_t node, keys *k)
{
    uint32_t value = td_low_expr(l, node), in[3] = {k->value};
    td_low_at(l, node);
    bool listed = td_low_kind(l, value) == TD_T_LIST;
    if (listed) value = td_low_prelude(l, node, "tensor_of", 2, (uint32_t[]){value, td_low_made(l, td_ir_none(l->e))});
    td_type_kind kind = td_low_kind(l, value);
    td_low_at(l, node);
    in[1] = an_int(l, k->dim);
    if (kind == TD_T_NONE) {
        in[1] = an_int(l, k->behind ? k->dim - 1 : k->dim);
        k->value = tensor(l, "unsqueeze", 2, in);
        k->dim += !k->behind;
    } else if (kind == TD_T_INT) {
        in[2] = value;
        k->value = tensor(l, "select", 3, in);
    } else if (kind == TD_T_TENSOR && take_mask(l, node, value, listed, k)) {
        return;
    } else if (kind == TD_T_TENSOR && !k->behind) {
        pad_index(l, k, (uint32_t)k->dim);
        if (!listed && !has_dims(l, value)) k->places[k->nplaces++] = value;
        k->index[k->nindex++] = value;
        k->dim++;
    } else {
        td_low_wrong(l, node, "%s is no index here; ints, slices, None, '...' and Tensors or lists before it are",
                     td_low_type_name(l, td_low_type(l, value)));
    }
}

/* Items take dimensions from the left; behind an '...' they are counted from the right. */
static void take_item(td_lower *l, keys *k, uint32_t i)
{
    uint32_t node = k->items[i], in[5] = {k->value};
    const td_ast_node *n = td_low_node(l, node);
    if (k->behind) k->dim = -(int64_t)k->taken[i];
    td_low_at(l, node);
    if (n->kind == TD_N_DOTS) {
        if (k->behind) td_low_wrong(l, node, "an index has one '...'");
        k->behind = true;
    } else if (n->kind == TD_N_SLICE) {
        if (!whole_slice(l, node)) {
            in[1] = an_int(l, k->dim);
            take_slice(l, node, in + 2);
            td_low_at(l, node);
            k->value = tensor(l, "slice", 5, in);
        }
        k->dim += !k->behind;
    } else {
        take_value(l, node, k);
    }
}

static void find_keys(td_lower *l, uint32_t key, keys *k)
{
    bool tuple = td_low_node(l, key)->kind == TD_N_TUPLE;
    k->n = tuple ? td_low_node(l, key)->n : 1;
    k->items = td_low_array(l, k->n), k->taken = td_low_array(l, k->n), k->index = td_low_array(l, 4 * k->n + 4);
    k->places = td_low_array(l, k->n);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < k->n; i++) k->items[i] = tuple ? td_low_kid(l, key, i) : key;
    for (uint32_t i = k->n; i-- > 0;) {
        unsigned kind = td_low_node(l, k->items[i])->kind;
        taken += kind != TD_N_NONE && kind != TD_N_DOTS;
        k->taken[i] = taken;
    }
}

static uint32_t index_list(td_lower *l, const keys *k)
{
    uint32_t optional = td_low_made(l, td_type_optional(l->e, td_low_plain(l, TD_T_TENSOR)));
    if (k->list) return k->list;
    return td_low_op(l, TD_PRIM_LISTCONSTRUCT, k->nindex, k->index, td_low_made(l, td_type_list(l->e, optional)));
}

/* By indices of which some may be places, which is seen when it runs. */
static uint32_t by_places(td_lower *l, uint32_t node, const keys *k, uint32_t list)
{
    td_branch b;
    uint32_t in[2] = {k->value, list}, some = without_dims(l, node, k->places[0]);
    for (uint32_t i = 1; i < k->nplaces; i++)
        some = td_low_prim(l, node, "or", 2, (uint32_t[]){some, without_dims(l, node, k->places[i])});
    td_low_begin_place(l, &b, node, some);
    b.values[0] = td_low_prelude(l, node, "_index_some", 2, in);
    td_low_else(l, &b);
    b.values[1] = tensor(l, "index", 2, in);
    td_low_end_if(l, &b);
    return b.result;
}

/* The part that is meant; not `whole`: the view in which k->index says what is. */
static uint32_t of_tensor(td_lower *l, uint32_t node, uint32_t value, keys *k, bool whole)
{
    k->value = value, k->whole = whole;
    find_keys(l, td_low_kid(l, node, 1), k);
    for (uint32_t i = 0; i < k->n; i++) take_item(l, k, i);
    td_low_at(l, node);
    if ((!k->nindex && !k->list) || !whole) return k->value;
    uint32_t in[2] = {k->value, index_list(l, k)};
    return k->nplaces ? by_places(l, node, k, in[1]) : tensor(l, "index", 2, in);
}

static bool is_written(td_lower *l, uint32_t key)
{
    const td_ast_node *k = td_low_node(l, key);
    if (k->kind == TD_N_UNARY && k->op == TD_O_SUB) k = td_low_node(l, td_low_kid(l, key, 0));
    return k->kind == TD_N_INT;
}

/* A number that is written, or `otherwise` where nothing stands. */
static int64_t written(td_lower *l, uint32_t key, int64_t otherwise)
{
    const td_ast_node *k = td_low_node(l, key);
    bool minus = k->kind == TD_N_UNARY && k->op == TD_O_SUB;
    if (!key) return otherwise;
    if (minus) k = td_low_node(l, td_low_kid(l, key, 0));
    if (!is_written(l, key)) td_low_wrong(l, key, "the index of a tuple is a number that is written here");
    return minus ? -k->i : k->i;
}

static uint32_t part_of_tuple(td_lower *l, uint32_t key, uint32_t value, uint32_t n)
{
    int64_t step = written(l, td_low_kid(l, key, 2), 1);
    bool back = step < 0;
    int64_t from = td_low_within(written(l, td_low_kid(l, key, 0), back ? INT64_MAX : 0), n, back),
            to = td_low_within(written(l, td_low_kid(l, key, 1), back ? INT64_MIN : INT64_MAX), n, back);
    uint32_t *items = td_low_array(l, n + 1), used = 0;
    if (step == 0 || step > n || step < -(int64_t)n)
        td_low_wrong(l, key, "the steps in a tuple of %u are of 1 to %u", n, n);
    for (; back ? from > to : from < to; from += step) items[used++] = td_low_item(l, value, (uint32_t)from);
    return td_low_tuple(l, used, items);
}

/* By an index that is known only when it runs: of a list of them, if they can be one. */
static uint32_t any_of_tuple(td_lower *l, uint32_t node, uint32_t value, uint32_t n)
{
    uint32_t key = td_low_kid(l, node, 1), *items = td_low_array(l, n), type = td_low_part(l, td_low_type(l, value), 0);
    for (uint32_t k = 1; k < n && type != TD_IR_NONE; k++)
        type = td_low_unify(l, type, td_low_part(l, td_low_type(l, value), k));
    if (type == TD_IR_NONE)
        td_low_wrong(l, key,
                     "the items of this tuple have different types: its index is a number that is written here");
    for (uint32_t k = 0; k < n; k++) items[k] = td_low_item(l, value, k);
    uint32_t in[2] = {td_low_list(l, node, n, items), td_low_expr(l, key)};
    return td_low_prim(l, node, "getitem", 2, in);
}

static uint32_t of_tuple(td_lower *l, uint32_t node, uint32_t value)
{
    uint32_t key = td_low_kid(l, node, 1), n = td_type_parts(td_ir_now(l->e), td_low_type(l, value));
    if (td_low_node(l, key)->kind == TD_N_SLICE) return part_of_tuple(l, key, value, n);
    if (n && !is_written(l, key)) return any_of_tuple(l, node, value, n);
    int64_t at = written(l, key, 0);
    if (at < 0) at += n;
    if (at < 0 || at >= n) td_low_wrong(l, key, "this tuple has %u items", n);
    return td_low_item(l, value, (uint32_t)at);
}

uint32_t td_low_subscript(td_lower *l, uint32_t node)
{
    const td_script_name *thing = td_low_thing(l, node);
    if (thing) return td_low_thing_value(l, node, thing);
    uint32_t value = td_low_expr(l, td_low_kid(l, node, 0)), key = td_low_kid(l, node, 1), in[4] = {value};
    td_type_kind kind = td_low_kind(l, value);
    keys k = {0};
    td_low_at(l, node);
    if (kind == TD_T_TENSOR) return of_tensor(l, node, value, &k, true);
    if (kind == TD_T_TUPLE) return of_tuple(l, node, value);
    if (kind == TD_T_OPTIONAL) td_low_wrong(l, node, "this may be None; test 'is not None' before");
    if (td_low_node(l, key)->kind == TD_N_SLICE) {
        take_slice(l, key, in + 1);
        return td_low_prim(l, node, "slice", 4, in);
    }
    in[1] = td_low_expr(l, key);
    return td_low_prim(l, node, "getitem", 2, in);
}

/* A tensor into another one, at these indices. */
static void put(td_lower *l, uint32_t into, const keys *k, uint32_t value)
{
    uint32_t cast[2] = {value, td_low_prim(l, 0, "dtype", 1, &into)};
    uint32_t in[4] = {into, index_list(l, k), tensor(l, "copy", 2, cast), td_low_made(l, td_ir_bool(l->e, false))};
    td_low_op(l, TD_IR_TD | TD_IR_INPLACE | td_op_by_name("index_put")->id, 4, in,
              td_low_made(l, td_type_any_tensor(l->e)));
}

/* Into all of it; what is put may have one dimension of size 1 more. */
static void put_whole(td_lower *l, uint32_t into, uint32_t value)
{
    uint32_t dim[2] = {into, an_int(l, 0)};
    uint32_t in[3] = {tensor(l, "unsqueeze", 2, dim), value, td_low_made(l, td_ir_none(l->e))};
    td_low_op(l, TD_IR_TD | TD_IR_INPLACE | td_op_by_name("copy")->id, 3, in, td_low_made(l, td_type_any_tensor(l->e)));
}

void td_low_write(td_lower *l, uint32_t node, uint32_t into, uint32_t value)
{
    td_low_at(l, node);
    put_whole(l, into, value);
}

/* The number that is put where indices say, as a tensor. */
static uint32_t as_tensor(td_lower *l, uint32_t like, uint32_t number)
{
    uint32_t in[3] = {TD_IR_NONE, number, td_low_prim(l, 0, "dtype", 1, &like)};
    in[0] = td_low_op(l, TD_PRIM_LISTCONSTRUCT, 0, NULL, td_low_made(l, td_type_list(l->e, td_low_plain(l, TD_T_INT))));
    return tensor(l, "full", 3, in);
}

static void write_part(td_lower *l, uint32_t target, uint32_t whole, uint32_t value)
{
    td_type_kind kind = td_low_kind(l, value);
    bool number = kind == TD_T_INT || kind == TD_T_FLOAT || kind == TD_T_BOOL || kind == TD_T_COMPLEX;
    keys k = {0};
    if (!number && kind != TD_T_TENSOR)
        td_low_wrong(l, target, "a program writes Tensors and numbers into a part of a Tensor, not %s",
                     td_low_type_name(l, td_low_type(l, value)));
    uint32_t view = of_tensor(l, target, whole, &k, false);
    if (k.nindex || k.list) put(l, view, &k, number ? as_tensor(l, view, value) : value);
    else if (number) td_low_fill(l, target, view, value);
    else put_whole(l, view, value);
}

/* A function of the prelude that is given a list, a slice of it, and this (TD_IR_NONE: no more). */
static void of_slice(td_lower *l, uint32_t target, const char *name, uint32_t list, uint32_t value)
{
    uint32_t in[5] = {list, 0, 0, 0, value};
    td_low_at(l, target);
    take_slice(l, td_low_kid(l, target, 1), in + 1);
    td_low_prelude(l, target, name, value == TD_IR_NONE ? 4 : 5, in);
}

void td_low_subscript_set(td_lower *l, uint32_t target, uint32_t value)
{
    td_low_check_written(l, td_low_kid(l, target, 0));
    uint32_t in[3] = {td_low_expr(l, td_low_kid(l, target, 0)), TD_IR_NONE, value};
    td_type_kind kind = td_low_kind(l, in[0]);
    if (kind == TD_T_TENSOR) {
        write_part(l, target, in[0], value);
        return;
    }
    if (kind == TD_T_LIST && td_low_node(l, td_low_kid(l, target, 1))->kind == TD_N_SLICE) {
        of_slice(l, target, "list_put", in[0], value);
        return;
    }
    in[1] = td_low_expr(l, td_low_kid(l, target, 1));
    if (kind == TD_T_LIST || kind == TD_T_DICT)
        in[2] = td_low_convert(l, target, value, td_low_part(l, td_low_type(l, in[0]), kind == TD_T_DICT));
    td_low_prim(l, target, "setitem", 3, in);
}

void td_low_subscript_delete(td_lower *l, uint32_t target)
{
    td_low_check_written(l, td_low_kid(l, target, 0));
    uint32_t in[2] = {td_low_expr(l, td_low_kid(l, target, 0))}, key = td_low_kid(l, target, 1);
    if (td_low_kind(l, in[0]) == TD_T_LIST && td_low_node(l, key)->kind == TD_N_SLICE) {
        of_slice(l, target, "list_delete", in[0], TD_IR_NONE);
        return;
    }
    in[1] = td_low_expr(l, key);
    td_low_prim(l, target, "delitem", 2, in);
}
