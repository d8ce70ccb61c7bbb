/* An op of the table, by its column `aten` (proto/README.md): the first of its forms that this call fits. */
#include "client/files/torchscript_print.h"

#include "proto/base/device.h"
#include "proto/wire/record.h"

#include <ctype.h>
#include <stdlib.h>

typedef struct calling {
    td_coding *c;
    const td_op *op;
    const uint32_t *at; /* its arguments */
    uint32_t node;
    uint32_t said;        /* bit k: the form has said argument k */
    bool in_place, fresh; /* fresh: ATen has no form that writes its first argument */
} calling;

static uint32_t count(const td_op *op)
{
    return (uint32_t)op->nparams + op->nattrs;
}

static const td_attr_def *attr_at(const td_op *op, uint32_t k)
{
    unsigned before = (unsigned)__builtin_popcount(op->attrs_at & ((1u << k) - 1));
    return op->attrs_at >> k & 1 ? &op->attrs[before] : NULL;
}

static const td_param *param_at(const td_op *op, uint32_t k)
{
    return &op->params[k - (unsigned)__builtin_popcount(op->attrs_at & ((1u << k) - 1))];
}

/* Which argument has this name; count: none. */
static uint32_t find(const td_op *op, const char *name, size_t n)
{
    uint32_t k = 0;
    for (; k < count(op); k++) {
        const td_attr_def *a = attr_at(op, k);
        const char *is = a ? a->name : param_at(op, k)->name;
        if (strlen(is) == n && memcmp(is, name, n) == 0) break;
    }
    return k;
}

static size_t word_at(const char *at)
{
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
    return n;
}

/* ---- does a form fit? */

static bool is_none(const calling *k, uint32_t value)
{
    td_literal v;
    return td_coding_constant(k->c, value, &v) && v.kind == TD_L_NONE;
}

static bool may_be_none(const calling *k, uint32_t value)
{
    td_type_kind kind = td_type_kind_of(k->c->ir, k->c->ir->values[value].type);
    return kind == TD_T_OPTIONAL || kind == TD_T_NONE;
}

/* NAME? may be None; NAME! is a tensor; NAME[0] a list of one item. */
static bool takes(calling *k, uint32_t arg, const char *behind)
{
    const uint32_t value = k->at[arg];
    k->said |= 1u << arg;
    if (*behind == '!') return td_type_kind_of(k->c->ir, k->c->ir->values[value].type) == TD_T_TENSOR;
    if (*behind == '[') return td_coding_one(k->c, value, false);
    return *behind == '?' || !may_be_none(k, value);
}

static bool equals(const calling *k, uint32_t arg, double number)
{
    td_literal v;
    if (!td_coding_constant(k->c, k->at[arg], &v)) return false;
    return v.kind == TD_L_FLOAT ? v.re == number
           : v.kind == TD_L_INT ? v.i == (int64_t)number
                                : v.kind == TD_L_BOOL && v.small == (uint32_t)number;
}

static bool is_default(const calling *k, uint32_t arg, const td_attr *value)
{
    if (value->kind == TD_A_FLOAT) return equals(k, arg, value->f);
    return (value->kind == TD_A_INT || value->kind == TD_A_BOOL) && equals(k, arg, (double)value->i);
}

static bool only_first(const calling *k)
{
    return td_coding_results(k->c, k->node) < k->c->ir->nodes[k->node].nout;
}

uint32_t td_coding_results(const td_coding *c, uint32_t node)
{
    const td_ir_node *n = &c->ir->nodes[node];
    const td_op *op = td_ir_row(n->op);
    const char *few = op && op->aten ? strstr(op->aten, "[first") : NULL;
    uint32_t first = few && few[6] == ' ' ? (uint32_t)(few[7] - '0') : 1;
    for (uint32_t i = first; few && i < n->nout; i++)
        if (c->used[td_ir_out(c->ir, node, i)]) return n->nout;
    return few && first < n->nout ? first : n->nout;
}

/* "[first] ", "[first 2] ", "[new] ", "[tanh=1] " before a form; *form goes behind them. */
static bool guards(calling *k, const char **form)
{
    bool holds = strstr(*form, "[first") == *form || !only_first(k);
    while (**form == '[') {
        const char *at = *form + 1;
        size_t n = word_at(at);
        uint32_t arg = find(k->op, at, n);
        if (at[n] == '=') holds &= equals(k, arg, strtod(at + n + 1, NULL)), k->said |= 1u << arg;
        else if (n == 3) k->fresh = true;
        else holds = only_first(k);
        *form = strchr(at, ']') + 2;
    }
    return holds;
}

/* The next word of a form that is an argument, and not the name of one: where, and which. */
static const char *next_argument(const calling *k, const char *at, const char *end, uint32_t *arg, size_t *n)
{
    for (; at < end; at += *n ? *n : 1) {
        *n = word_at(at);
        bool name = *n && at[*n] != '(' && at[*n] != '=' && at[-1] != '.' && at[-1] != '"';
        if (name && (*arg = find(k->op, at, *n)) < count(k->op)) return at;
    }
    return NULL;
}

static bool is_bare(const char *form, const char *end)
{
    return form + word_at(form) == end;
}

/* What no form says must be what is meant without it. */
static bool unsaid(const calling *k)
{
    for (uint32_t i = 0; i < count(k->op); i++) {
        const td_attr_def *a = attr_at(k->op, i);
        if (k->said >> i & 1) continue;
        if (is_none(k, k->at[i])) continue;
        if (!a || !a->has_default || !is_default(k, i, &a->value)) return false;
    }
    return true;
}

static bool fits(calling *k, const char **form, const char *end)
{
    uint32_t arg;
    size_t n;
    k->said = 0;
    k->fresh = false;
    if (!guards(k, form)) return false;
    if (is_bare(*form, end)) {
        for (uint32_t i = 0; i < count(k->op); i++) {
            const td_attr_def *a = attr_at(k->op, i);
            bool optional = a ? a->optional : param_at(k->op, i)->kind != TD_P_TENSOR;
            if (!optional && may_be_none(k, k->at[i])) return false;
        }
        return true;
    }
    for (const char *at = *form + 1; (at = next_argument(k, at, end, &arg, &n)); at += n)
        if (!takes(k, arg, at + n)) return false;
    return unsaid(k);
}

/* ---- printing */

/* Bools are no numbers there. */
static void value_of(calling *k, uint32_t arg)
{
    td_literal v;
    const td_attr_def *a = attr_at(k->op, arg);
    bool number = a ? a->kind == TD_A_SCALAR : param_at(k->op, arg)->kind == TD_P_NUMBER;
    bool is = number && td_type_kind_of(k->c->ir, k->c->ir->values[k->at[arg]].type) == TD_T_BOOL;
    if (is && !a) td_coding_refuse(k->c, "the op '%s' is given a bool for a tensor", k->op->name);
    if (is && td_coding_constant(k->c, k->at[arg], &v)) td_printf(&k->c->p, "%u", v.small);
    else td_printf(&k->c->p, is ? "int(" : ""), td_coding_value(k->c, k->at[arg]), td_printf(&k->c->p, is ? ")" : "");
}

static void argument(calling *k, uint32_t arg, const char **behind)
{
    if (**behind == '[') {
        td_coding_one(k->c, k->at[arg], true);
        *behind += 3;
        return;
    }
    value_of(k, arg);
    *behind += **behind == '?' || **behind == '!';
}

static void print_form(calling *k, const char *form, const char *end)
{
    td_print *p = &k->c->p;
    size_t n = word_at(form);
    uint32_t arg;
    td_printf(p, "torch.%.*s%s", (int)n, form, k->in_place && !k->fresh ? "_" : "");
    const char *at = form + n;
    if (at == end) {
        td_printf(p, "(");
        for (uint32_t i = 0; i < count(k->op); i++) {
            td_printf(p, i ? ", " : "");
            value_of(k, i);
        }
        td_printf(p, ")");
        return;
    }
    for (const char *next; (next = next_argument(k, at, end, &arg, &n));) {
        td_print_bytes(p, at, (size_t)(next - at));
        at = next + n;
        argument(k, arg, &at);
    }
    td_print_bytes(p, at, (size_t)(end - at));
}

static const char *end_of(const char *form)
{
    const char *end = strstr(form, "; ");
    return end ? end : form + strlen(form);
}

/* Where ATen's op writes nothing, what it gives is copied to what is to be written. */
static void call(calling *k, bool beside)
{
    for (const char *form = k->op->aten, *end; form; form = *end ? end + 2 : NULL) {
        end = end_of(form);
        const char *at = form;
        if (!fits(k, &at, end)) continue;
        bool copied = k->in_place && (k->fresh || beside);
        if (beside) k->fresh = true;
        if (copied) {
            td_printf(&k->c->p, "torch.copy_(");
            td_coding_value(k->c, beside ? k->at[-1] : k->at[0]);
            td_printf(&k->c->p, ", ");
        }
        print_form(k, at, end);
        td_printf(&k->c->p, copied ? ")" : "");
        return;
    }
    td_coding_refuse(k->c,
                     k->op->aten ? "this call of the op '%s' has no form in ATen" : "the op '%s' has no name in ATen",
                     k->op->name);
}

/* y.copy_(x) and y.fill_(3) */
static bool is_moved(calling *k)
{
    bool copy = strcmp(k->op->name, "copy") == 0, fill = strcmp(k->op->name, "full") == 0;
    if (!copy && !fill) return false;
    td_printf(&k->c->p, copy ? "torch.copy_(" : "torch.fill_(");
    td_coding_value(k->c, k->at[-1]);
    td_printf(&k->c->p, ", ");
    td_coding_value(k->c, k->at[copy ? 0 : 1]);
    td_printf(&k->c->p, ")");
    return true;
}

void td_coding_row(td_coding *c, uint32_t node)
{
    const td_ir_node *n = &c->ir->nodes[node];
    const td_op *op = td_ir_row(n->op);
    bool beside = td_ir_writes_beside(n, op);
    calling k = {.c = c, .op = op, .at = c->ir->args + n->in + beside, .node = node};
    k.in_place = n->op & TD_IR_INPLACE;
    if (n->mode >> TD_RM_DEVICE != TD_CPU)
        td_coding_refuse(c, "the op '%s' is done on '%s'", op->name, td_device_name(n->mode >> TD_RM_DEVICE));
    if (!beside || !is_moved(&k)) call(&k, beside);
}
