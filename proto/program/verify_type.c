/* Types and literals: that they are what type.h and literal.h say, and which fit where. */
#include "proto/program/check.h"
#include "proto/program/literal.h"

/* ---- types */

static bool tensor(td_verify *v, uint32_t number)
{
    const td_ir *ir = v->ir;
    const td_ir_type *t = &ir->types[number];
    td_tensor_type is;
    td_type_as_tensor(ir, number, &is);
    uint32_t rank = is.rank == TD_TYPE_ANY ? 0 : is.rank;
    bool good = (td_dtype_valid(is.dtype) || is.dtype == TD_DTYPE_NONE) &&
                (is.device < TD_MAX_DEVICES || is.device == TD_TYPE_ANY) && (is.grad <= 1 || is.grad == TD_TYPE_ANY) &&
                rank <= TD_MAX_DIMS && t->nparts == 2 * rank && !(t->head >> 26 & 3);
    for (uint32_t i = 0; good && i < rank; i++) {
        if (is.sizes[i] >= TD_SIZE_ANY) continue;
        uint64_t string = (uint64_t)(-2 - is.sizes[i]);
        good = string < ir->nstrings && td_is_named(v, (uint32_t)string) &&
               !strchr(td_ir_chars(ir, (uint32_t)string), '.');
    }
    return good || td_bad(v, "type %u is no tensor's", number);
}

static bool may_be_of(const td_ir *ir, td_type_kind kind, uint32_t n, uint32_t part)
{
    td_type_kind of = n ? td_type_kind_of(ir, part) : TD_T_NONE;
    switch (kind) {
    case TD_T_OPTIONAL: return n == 1 && of != TD_T_NONE && of != TD_T_OPTIONAL;
    case TD_T_LIST: return n == 1;
    case TD_T_DICT: return n == 2 && (of == TD_T_INT || of == TD_T_STR);
    default: return kind == TD_T_TUPLE || n == 0;
    }
}

static bool made_of(td_verify *v, uint32_t number)
{
    const td_ir *ir = v->ir;
    const td_ir_type *t = &ir->types[number];
    uint32_t size = 1;
    for (uint32_t i = 0; i < t->nparts; i++) {
        uint32_t part = td_type_part(ir, number, i);
        if (part >= number) return td_bad(v, "type %u is made of a later one", number);
        size += td_type_size(ir, part);
        if (size > TD_TYPE_SIZE) return td_too_much(v, "types in one", TD_TYPE_SIZE);
    }
    if (t->head >> 8 != size) return td_bad(v, "type %u is not as large as it says", number);
    return may_be_of(ir, td_type_kind_of(ir, number), t->nparts, t->nparts ? td_type_part(ir, number, 0) : 0) ||
           td_bad(v, "type %u is made of what it cannot be made of", number);
}

bool td_verify_types(td_verify *v)
{
    const td_ir *ir = v->ir;
    uint32_t at = 0;
    for (uint32_t i = 0; i < ir->ntypes; i++) {
        const td_ir_type *t = &ir->types[i];
        if (td_type_kind_of(ir, i) >= TD_T_KINDS) return td_bad(v, "type %u is of no kind", i);
        if (t->part != (t->nparts ? at : 0) || t->nparts > ir->nparts - at)
            return td_bad(v, "the parts of type %u lie where they should not", i);
        at += t->nparts;
        if (!(td_type_kind_of(ir, i) == TD_T_TENSOR ? tensor(v, i) : made_of(v, i))) return false;
    }
    if (at != ir->nparts) return td_bad(v, "there are parts of no type");
    for (uint32_t i = 0; i < ir->nvalues; i++)
        if (ir->values[i].type >= ir->ntypes) return td_bad(v, "value %u has no type", i);
    return true;
}

/* ---- what fits the codes of a signature */

static bool match_variable(td_match *m, uint32_t *bound, uint32_t type)
{
    if (*bound == TD_IR_NONE) *bound = type;
    return m->results ? td_type_fits_loosely(m->ir, *bound, type) : td_type_fits_loosely(m->ir, type, *bound);
}

/* A type is as deep as the codes of a signature are: a few. */
bool td_match_type(td_match *m, uint32_t type)
{
    static const char plain[] = "nifbcsvdT";
    char code = *m->code++;
    td_type_kind kind = td_type_kind_of(m->ir, type);
    uint32_t n = td_type_parts(m->ir, type);
    switch (code) {
    case '*': return true;
    case '#': return kind == TD_T_INT || kind == TD_T_FLOAT || kind == TD_T_BOOL || kind == TD_T_COMPLEX;
    case 't': return match_variable(m, &m->bound[0], type);
    case 'u': return match_variable(m, &m->bound[1], type);
    case '[': return kind == TD_T_LIST && td_match_type(m, td_type_part(m->ir, type, 0));
    case '{':
        return kind == TD_T_DICT && td_match_type(m, td_type_part(m->ir, type, 0)) &&
               td_match_type(m, td_type_part(m->ir, type, 1));
    case '?':
        if (kind == TD_T_OPTIONAL) return td_match_type(m, td_type_part(m->ir, type, 0));
        if (kind != TD_T_NONE) return td_match_type(m, type);
        m->code++; /* of None any optional may be: its code is one letter */
        return true;
    case '(':
        for (uint32_t i = 0; kind == TD_T_TUPLE && i < n; i++)
            if (*m->code == ')' || !td_match_type(m, td_type_part(m->ir, type, i))) return false;
        return kind == TD_T_TUPLE && *m->code++ == ')';
    default: return kind == (td_type_kind)(strchr(plain, code) - plain);
    }
}

/* ---- constants */

/* How many items of a list are still to come, list within list. */
typedef struct open_lists {
    uint32_t left[TD_TYPE_SIZE], type[TD_TYPE_SIZE];
    int depth;
} open_lists;

static bool literal_of(const td_ir *ir, const td_literal *l, uint32_t type)
{
    static const uint8_t kinds[TD_T_KINDS] = {
        [TD_T_NONE] = TD_L_NONE,      [TD_T_INT] = TD_L_INT,         [TD_T_FLOAT] = TD_L_FLOAT,
        [TD_T_BOOL] = TD_L_BOOL,      [TD_T_COMPLEX] = TD_L_COMPLEX, [TD_T_STR] = TD_L_STR,
        [TD_T_DEVICE] = TD_L_DEVICE,  [TD_T_DTYPE] = TD_L_DTYPE,     [TD_T_TENSOR] = TD_L_KINDS,
        [TD_T_OPTIONAL] = TD_L_KINDS, [TD_T_LIST] = TD_L_LIST,       [TD_T_TUPLE] = TD_L_KINDS,
        [TD_T_DICT] = TD_L_KINDS};
    return l->kind == kinds[td_type_kind_of(ir, type)] && (l->kind != TD_L_STR || l->small < ir->nstrings);
}

bool td_verify_constant(td_verify *v, const td_ir_node *n, uint32_t type)
{
    const td_ir *ir = v->ir;
    open_lists o = {.depth = 0};
    td_literal l;
    uint32_t at = 0;
    o.left[0] = 1, o.type[0] = type;
    while (o.depth >= 0) {
        if (!o.left[o.depth]) {
            o.depth--;
            continue;
        }
        o.left[o.depth]--;
        uint32_t of = o.type[o.depth], used = td_literal_get(ir->words + n->word + at, n->nwords - at, &l);
        if (!used || !literal_of(ir, &l, of)) return td_bad(v, "its value is malformed, or of another type");
        at += used;
        if (l.kind != TD_L_LIST) continue;
        o.depth++; /* a list's type has room in the array: it is larger than what it is of */
        o.left[o.depth] = l.small, o.type[o.depth] = td_type_part(ir, of, 0);
    }
    return at == n->nwords || td_bad(v, "there are words behind its value");
}
