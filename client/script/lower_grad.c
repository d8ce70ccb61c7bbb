/* What differentiates, where the prelude is not enough: prim:: ops as functions, and .grad. See lower.h. */
#include "client/script/lower.h"

/* The prelude's own way to the prim:: ops: prim_NAME(...). */
bool td_low_prim_call(td_lower *l, uint32_t call, const char *name, uint32_t *value)
{
    if (l->unit != l->prelude || strncmp(name, "prim_", 5) != 0) return false;
    uint32_t n, *values = td_low_arguments(l, call, TD_IR_NONE, &n);
    return *value = td_low_prim(l, call, name + 5, n, values), true;
}

static uint32_t tuple_of_list(td_lower *l, uint32_t list, uint32_t n)
{
    uint32_t *items = td_low_array(l, n), type = td_low_part(l, td_low_type(l, list), 0);
    for (uint32_t k = 0; k < n; k++) items[k] = type;
    uint32_t node = td_low_made(l, td_ir_op(l->e, TD_PRIM_LISTUNPACK, 1, &list, n, items));
    for (uint32_t k = 0; k < n; k++) items[k] = td_ir_out(td_ir_now(l->e), node, k);
    return td_low_tuple(l, n, items);
}

/* gradients_of(list, inputs): of a tensor or a tuple a tuple; how long a list is, is known when it runs. */
bool td_low_gradients_of(td_lower *l, uint32_t call, const char *name, uint32_t *value)
{
    if (l->unit != l->prelude || strcmp(name, "gradients_of") != 0) return false;
    uint32_t n, *values = td_low_arguments(l, call, TD_IR_NONE, &n);
    td_type_kind kind = td_low_kind(l, values[1]);
    td_low_at(l, call);
    *value = values[0];
    if (kind == TD_T_TENSOR) *value = tuple_of_list(l, values[0], 1);
    if (kind == TD_T_TUPLE)
        *value = tuple_of_list(l, values[0], td_type_parts(td_ir_now(l->e), td_low_type(l, values[1])));
    return true;
}

/* "x.grad * 2": as in Python it fails where there is none. */
uint32_t td_low_or_fail(td_lower *l, uint32_t value)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t def = ir->values[value].def;
    if (def & TD_IR_PARAM || ir->nodes[def].op != TD_PRIM_GRAD) return value;
    return td_low_op(l, TD_PRIM_UNCHECKED_CAST, 1, &value, td_low_plain(l, TD_T_TENSOR));
}

/* x.grad = y; false: it is no tensor's. */
bool td_low_set_grad(td_lower *l, uint32_t target, uint32_t value)
{
    if (strcmp(td_low_text(l, target), "grad") != 0 || td_low_thing(l, target)) return false;
    uint32_t x = td_low_or_fail(l, td_low_expr(l, td_low_kid(l, target, 0)));
    if (td_low_kind(l, x) != TD_T_TENSOR) return false;
    td_low_prim(l, target, "set_grad", 2, (uint32_t[]){x, value});
    return true;
}

/* Who gave it to the program may know already whether it requires grad, and is not asked again. */
void td_low_check_own(td_lower *l, uint32_t call, const char *name, uint32_t value)
{
    if (strcmp(name, "requires_grad_") != 0 || !(td_ir_now(l->e)->values[value].def & TD_IR_PARAM)) return;
    td_low_refuse(l, TD_E_UNSUPPORTED, td_low_kid(l, call, 0),
                  "a program says 'requires_grad_' of what it makes, not of what it is given; say it outside, or write "
                  "x.detach().requires_grad_()");
}
