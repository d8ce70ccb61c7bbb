/* What each prim:: op asks of its node. */
#include "proto/program/check.h"
#include "proto/program/prim.h"

static bool matches(const td_ir *ir, const char *codes, uint32_t nin, const uint32_t *args, uint32_t nout,
                    const uint32_t *outs)
{
    td_match m = {ir, codes, {TD_IR_NONE, TD_IR_NONE}};
    for (uint32_t i = 0; i < nin; i++)
        if (*m.code == '>' || !td_match_type(&m, ir->values[args[i]].type)) return false;
    if (*m.code++ != '>') return false;
    m.results = true;
    for (uint32_t i = 0; i < nout; i++)
        if (!*m.code || !td_match_type(&m, ir->values[outs[i]].type)) return false;
    return !*m.code;
}

static bool signature(td_verify *v, const td_prim *p)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    return matches(v->ir, p->codes, n->nin, v->ir->args + n->in, n->nout, v->ir->defs + n->out) ||
           td_bad(v, "arguments and results are not those of %s", p->signature);
}

static bool returns(td_verify *v, uint32_t block, uint32_t skip)
{
    const td_ir *ir = v->ir;
    const td_ir_node *n = &ir->nodes[v->node];
    const td_ir_block *b = &ir->blocks[block];
    if (b->nrets != n->nout + skip)
        return td_bad(v, "block %u returns %u values, not %u", block - n->child, b->nrets, n->nout + skip);
    for (uint32_t i = 0; i < n->nout; i++) {
        uint32_t value = td_ir_return(ir, block, i + skip);
        if (value >= ir->nvalues) return td_bad(v, "block %u returns no value", block - n->child);
        if (!td_passes(v, "what is returned as result", i, ir->values[value].type, td_type_out(v, i))) return false;
    }
    return true;
}

static bool branch(td_verify *v)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    if (n->nin != 1 || td_kind_of(v, td_type_in(v, 0)) != TD_T_BOOL) return td_bad(v, "its argument is a bool");
    for (uint32_t i = 0; i < 2; i++) {
        if (v->ir->blocks[n->child + i].nparams) return td_bad(v, "its blocks have no parameters");
        if (!returns(v, n->child + i, 0)) return false;
    }
    return true;
}

static bool loop(td_verify *v)
{
    const td_ir *ir = v->ir;
    const td_ir_node *n = &ir->nodes[v->node];
    const td_ir_block *b = &ir->blocks[n->child];
    if (n->nin < 2 || td_kind_of(v, td_type_in(v, 0)) != TD_T_INT || td_kind_of(v, td_type_in(v, 1)) != TD_T_BOOL)
        return td_bad(v, "its first arguments are an int and a bool");
    if (n->nout != n->nin - 2 || b->nparams != n->nout + 1)
        return td_bad(v, "it carries %u values, has %u results, and its block %u parameters", n->nin - 2, n->nout,
                      b->nparams);
    if (td_kind_of(v, ir->values[td_ir_param(ir, n->child, 0)].type) != TD_T_INT)
        return td_bad(v, "its block's first parameter is an int");
    if (!returns(v, n->child, 1)) return false;
    uint32_t condition = td_ir_return(ir, n->child, 0);
    if (condition >= ir->nvalues || td_kind_of(v, ir->values[condition].type) != TD_T_BOOL)
        return td_bad(v, "its block's first return is a bool");
    for (uint32_t i = 0; i < n->nout; i++) {
        uint32_t carried = ir->values[td_ir_param(ir, n->child, i + 1)].type;
        uint32_t next = ir->values[td_ir_return(ir, n->child, i + 1)].type;
        if (!td_passes(v, "argument", i + 2, td_type_in(v, i + 2), carried) ||
            !td_passes(v, "what is returned as result", i, next, carried) ||
            !td_passes(v, "the parameter of result", i, carried, td_type_out(v, i)))
            return false;
    }
    return true;
}

static bool list(td_verify *v)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    if (!td_has(v, n->nin, 1)) return false;
    if (td_kind_of(v, td_type_out(v, 0)) != TD_T_LIST)
        return td_wrong_type(v, "result", 0, td_type_out(v, 0), "a list is made");
    for (uint32_t i = 0; i < n->nin; i++)
        if (!td_passes(v, "argument", i, td_type_in(v, i), td_type_part(v->ir, td_type_out(v, 0), 0))) return false;
    return true;
}

static bool unlist(td_verify *v)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    if (!td_has(v, 1, n->nout)) return false;
    if (td_kind_of(v, td_type_in(v, 0)) != TD_T_LIST)
        return td_wrong_type(v, "argument", 0, td_type_in(v, 0), "a list is wanted");
    for (uint32_t i = 0; i < n->nout; i++)
        if (!td_passes(v, "the item of result", i, td_type_part(v->ir, td_type_in(v, 0), 0), td_type_out(v, i)))
            return false;
    return true;
}

static bool tuple(td_verify *v)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    if (!td_has(v, n->nin, 1)) return false;
    uint32_t type = td_type_out(v, 0);
    if (td_kind_of(v, type) != TD_T_TUPLE || td_type_parts(v->ir, type) != n->nin)
        return td_wrong_type(v, "result", 0, type, "a tuple of the arguments is made");
    for (uint32_t i = 0; i < n->nin; i++)
        if (!td_passes(v, "argument", i, td_type_in(v, i), td_type_part(v->ir, type, i))) return false;
    return true;
}

static bool untuple(td_verify *v)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    if (!td_has(v, 1, n->nout)) return false;
    uint32_t type = td_type_in(v, 0);
    if (td_kind_of(v, type) != TD_T_TUPLE || td_type_parts(v->ir, type) != n->nout)
        return td_wrong_type(v, "argument", 0, type, "a tuple of as many as there are results is wanted");
    for (uint32_t i = 0; i < n->nout; i++)
        if (!td_passes(v, "the item of result", i, td_type_part(v->ir, type, i), td_type_out(v, i))) return false;
    return true;
}

static bool dict(td_verify *v)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    if (n->nin % 2) return td_bad(v, "a key has no value");
    if (!td_has(v, n->nin, 1)) return false;
    if (td_kind_of(v, td_type_out(v, 0)) != TD_T_DICT)
        return td_wrong_type(v, "result", 0, td_type_out(v, 0), "a dict is made");
    for (uint32_t i = 0; i < n->nin; i++)
        if (!td_passes(v, "argument", i, td_type_in(v, i), td_type_part(v->ir, td_type_out(v, 0), i % 2))) return false;
    return true;
}

/* From T? to T, or between what is more and what is less known of tensors. Nothing deeper, and not to None: what runs
 * it looks no deeper than whether there is a value. */
static bool cast(td_verify *v)
{
    if (!td_has(v, 1, 1)) return false;
    uint32_t from = td_type_in(v, 0), to = td_type_out(v, 0);
    bool optional = td_kind_of(v, from) == TD_T_OPTIONAL;
    return td_type_alike(v->ir, from, to) || (optional && td_type_alike(v->ir, td_type_part(v->ir, from, 0), to)) ||
           td_wrong_type(v, "result", 0, td_type_out(v, 0), "it is no part of what the argument may be");
}

static bool format(td_verify *v)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    if (n->nin < 1 || n->nout != 1 || td_kind_of(v, td_type_in(v, 0)) != TD_T_STR ||
        td_kind_of(v, td_type_out(v, 0)) != TD_T_STR)
        return td_bad(v, "its first argument and its result are texts");
    return true;
}

bool td_verify_prim(td_verify *v, const td_prim *p)
{
    const td_ir_node *n = &v->ir->nodes[v->node];
    switch ((td_prim_rule)p->rule) {
    case TD_PR_SIGNATURE: return signature(v, p);
    case TD_PR_CONSTANT: return td_has(v, 0, 1) && td_verify_constant(v, n, td_type_out(v, 0));
    case TD_PR_IF: return branch(v);
    case TD_PR_LOOP: return loop(v);
    case TD_PR_LIST: return list(v);
    case TD_PR_UNLIST: return unlist(v);
    case TD_PR_TUPLE: return tuple(v);
    case TD_PR_UNTUPLE: return untuple(v);
    case TD_PR_DICT: return dict(v);
    case TD_PR_CAST: return cast(v);
    case TD_PR_MAKE: return td_has(v, 0, 1);
    case TD_PR_FORMAT: return format(v);
    case TD_PR_ANY: return td_has(v, n->nin, 0);
    }
    return false;
}

/* ---- for front ends */

const td_prim *td_prim_pick(const td_ir *ir, const char *name, uint32_t nin, const uint32_t *types)
{
    size_t length = strlen(name);
    for (unsigned i = 1; i < TD_PRIM_COUNT; i++) {
        const td_prim *p = td_prim_by_id(i);
        if (!p || p->rule != TD_PR_SIGNATURE || strncmp(p->name, name, length) != 0 ||
            (p->name[length] && p->name[length] != '.'))
            continue;
        td_match m = {ir, p->codes, {TD_IR_NONE, TD_IR_NONE}};
        uint32_t k = 0;
        while (k < nin && *m.code != '>' && td_match_type(&m, types[k])) k++;
        if (k == nin && *m.code == '>') return p;
    }
    return NULL;
}
