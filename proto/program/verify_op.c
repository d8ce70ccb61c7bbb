/* What each op asks of its node: how many arguments, results and blocks, of which types, which attributes. */
#include "proto/program/check.h"
#include "proto/program/prim.h"
#include "proto/program/text.h"
#include "proto/wire/record.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

bool td_wrong_type(td_verify *v, const char *what, uint32_t k, uint32_t type, const char *wanted)
{
    char text[96];
    return td_bad(v, "%s %u is %s, but %s", what, k, td_type_text(v->ir, type, text, sizeof text), wanted);
}

bool td_has(td_verify *v, uint32_t nin, uint32_t nout)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    return (n->nin == nin && n->nout == nout) ||
           td_bad(v, "it has %u arguments and %u results, not %u and %u", n->nin, n->nout, nin, nout);
}

/* A value of one type stands where another is wanted. */
bool td_passes(td_verify *v, const char *what, uint32_t k, uint32_t from, uint32_t to)
{
    char wanted[96], text[128];
    if (td_type_fits(v->ir, from, to)) return true;
    snprintf(text, sizeof text, "%s is wanted", td_type_text(v->ir, to, wanted, sizeof wanted));
    return td_wrong_type(v, what, k, from, text);
}

/* ---- td:: */

static bool attr_takes(const td_verify *v, const td_attr_def *def, uint32_t type)
{
    static const char *const codes[] = {[TD_A_INT] = "i",   [TD_A_FLOAT] = "f", [TD_A_BOOL] = "b", [TD_A_SCALAR] = "#",
                                        [TD_A_DTYPE] = "d", [TD_A_INTS] = "[i", [TD_A_TEXT] = "s"};
    if (def->optional && td_kind_of(v, type) == TD_T_NONE) return true;
    if (def->optional && td_kind_of(v, type) == TD_T_OPTIONAL) type = td_type_part(v->ir, type, 0);
    td_match m = {v->ir, codes[def->kind], {TD_IR_NONE, TD_IR_NONE}};
    return td_match_type(&m, type);
}

static bool param_takes(const td_verify *v, const td_param *p, uint32_t type)
{
    static const char *const codes[] = {[TD_P_TENSOR] = "T",
                                        [TD_P_OPTIONAL] = "?T",
                                        [TD_P_NUMBER] = "T",
                                        [TD_P_LIST] = "[T",
                                        [TD_P_OPTIONAL_LIST] = "[?T"};
    td_match m = {v->ir, codes[p->kind], {TD_IR_NONE, TD_IR_NONE}}, number = {v->ir, "#", {TD_IR_NONE, TD_IR_NONE}};
    return td_match_type(&m, type) || (p->kind == TD_P_NUMBER && td_match_type(&number, type));
}

static bool row_results(td_verify *v, const td_op *op)
{
    for (uint32_t i = 0; i < op->nouts; i++) {
        td_match m = {v->ir, op->outs[i].list ? "[T" : "T", {TD_IR_NONE, TD_IR_NONE}};
        if (!td_match_type(&m, td_type_out(v, i)))
            return td_wrong_type(v, "result", i, td_type_out(v, i),
                                 op->outs[i].list ? "Tensor[] is made" : "a Tensor is made");
    }
    return true;
}

static bool random_number(td_verify *v, const td_op *op)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    bool random = op->flags & TD_OF_RANDOM;
    if (random != (n->rng != TD_IR_NONE))
        return td_bad(v, random ? "a random op has a number (rng)" : "only random ops have a number (rng)");
    if (!random) return true;
    if (n->rng >= TD_IR_MAX_GROWN) return td_too_much(v, "random ops in a block", TD_IR_MAX_GROWN);
    if (!v->rng && !(v->rng = calloc(TD_IR_MAX_GROWN, sizeof *v->rng))) return td_starved(v);
    if (v->rng[n->rng] == n->block + 1) return td_bad(v, "another op of its block has its number (rng %u)", n->rng);
    v->rng[n->rng] = n->block + 1;
    return true;
}

static bool row(td_verify *v)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    const td_op *op = td_ir_row(n->op);
    char signature[160];
    snprintf(signature, sizeof signature, "the op is %s", op->signature);
    uint32_t beside = td_ir_writes_beside(n, op);
    if (beside && (op->flags & (TD_OF_VIEW | TD_OF_DATA_SHAPE) || op->compose || op->nouts != 1 || op->outs[0].list))
        return td_bad(v, "the op cannot write into a given tensor");
    if (n->op & TD_IR_INPLACE && !beside && !(op->flags & TD_OF_INPLACE))
        return td_bad(v, "the op has no form in place");
    if (n->op & TD_IR_INPLACE && n->nin && td_kind_of(v, td_type_in(v, 0)) != TD_T_TENSOR)
        return td_wrong_type(v, "argument", 0, td_type_in(v, 0), "it is written");
    if (n->mode >> TD_RM_DEVICE && !(op->flags & TD_OF_CREATION))
        return td_bad(v, "only what makes tensors of nothing names a device");
    if (!td_has(v, (uint32_t)op->nparams + op->nattrs + beside, op->nouts) || !random_number(v, op)) return false;
    for (uint32_t k = beside, param = 0, attr = 0; k < n->nin; k++) {
        bool takes = op->attrs_at >> (k - beside) & 1 ? attr_takes(v, &op->attrs[attr++], td_type_in(v, k))
                                                      : param_takes(v, &op->params[param++], td_type_in(v, k));
        if (!takes) return td_wrong_type(v, "argument", k, td_type_in(v, k), signature);
    }
    return row_results(v, op);
}

/* ---- fn:: */

static bool call(td_verify *v)
{
    const td_ir *ir = v->ir;
    const td_ir_node *n = &ir->nodes[v->node];
    uint32_t block = n->op & TD_IR_NUMBER;
    const td_ir_block *b = &ir->blocks[block];
    if (!td_has(v, b->nparams, b->nrets)) return false;
    for (uint32_t i = 0; i < n->nin; i++)
        if (!td_passes(v, "argument", i, td_type_in(v, i), ir->values[td_ir_param(ir, block, i)].type)) return false;
    for (uint32_t i = 0; i < n->nout; i++) { /* that these are values is known only once the function was walked */
        uint32_t value = td_ir_return(ir, block, i);
        if (value >= ir->nvalues) return td_bad(v, "the function returns no value");
        if (!td_passes(v, "what is returned as result", i, ir->values[value].type, td_type_out(v, i))) return false;
    }
    return true;
}

/* ---- any op */

static bool is_aten_name(const td_verify *v, uint32_t string)
{
    const td_ir *ir = v->ir;
    if (!td_is_text(v, string) || ir->strings[string].length > 120) return false;
    const char *text = td_ir_chars(ir, string);
    bool word = false; /* what the text form takes for one word */
    for (; *text; text++) {
        if (*text == '.' ? !word : !isalnum((unsigned char)*text) && *text != '_') return false;
        if (!word && text == td_ir_chars(ir, string) && isdigit((unsigned char)*text)) return false;
        word = *text != '.';
    }
    return word;
}

static bool is_op(td_verify *v, uint32_t op)
{
    uint32_t number = op & TD_IR_NUMBER, place = op & TD_IR_INPLACE;
    switch (op & ~(uint32_t)(TD_IR_NUMBER | TD_IR_INPLACE)) {
    case TD_IR_PRIM: return td_prim_by_id(number) && !place;
    case TD_IR_TD: return td_op_by_id(number) != NULL;
    case TD_IR_FN: return number < v->ir->nfunctions && number > 0 && !place;
    case TD_IR_ATEN: return v->flags & TD_VERIFY_ATEN && is_aten_name(v, number) && !place;
    default: return false;
    }
}

bool td_verify_op(td_verify *v)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    if (!is_op(v, n->op)) return td_bad(v, "there is no op %#x here", n->op);
    v->op_known = true;
    uint32_t class = n->op & TD_IR_CLASS, blocks = n->op == TD_PRIM_IF ? 2 : n->op == TD_PRIM_LOOP ? 1 : 0;
    if (n->nblocks != blocks) return td_bad(v, "it has %u blocks, not %u", n->nblocks, blocks);
    if (n->nwords && n->op != TD_PRIM_CONSTANT) return td_bad(v, "only constants have a value");
    if (n->mode > 255 || (n->mode && class == TD_IR_PRIM)) return td_bad(v, "it cannot have the mode %#x", n->mode);
    if (n->rng != TD_IR_NONE && class != TD_IR_TD && class != TD_IR_ATEN)
        return td_bad(v, "only random ops have a number (rng)");
    if (n->rng != TD_IR_NONE && n->rng >= TD_IR_MAX_GROWN)
        return td_too_much(v, "random ops in a block", TD_IR_MAX_GROWN);
    switch (class) {
    case TD_IR_PRIM: return td_verify_prim(v, td_prim_by_id(n->op));
    case TD_IR_TD: return row(v);
    case TD_IR_FN: return call(v);
    default: return true;
    }
}
