/* What the parts of the verifier share: verify.c (the walk), verify_order.c (arrays), verify_type.c (types, literals),
 * verify_op.c and verify_prim.c (ops). */
#ifndef TENSORD_PROTO_PROGRAM_CHECK_H
#define TENSORD_PROTO_PROGRAM_CHECK_H

#include "proto/program/type.h"
#include "proto/program/verify.h"

typedef struct td_verify {
    const td_ir *ir;
    unsigned flags;
    td_error *e;
    uint32_t node;  /* the one that is looked at; TD_IR_NONE: none */
    bool op_known;  /* its op is one */
    uint8_t *texts; /* a mark for each string without a 0 in it */
    uint8_t *seen;  /* a mark for each value that can be seen */
    uint32_t *rng;  /* for each number the last block (+ 1) that had it */
} td_verify;

/* All false, with a message. */
bool td_bad(td_verify *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool td_too_much(td_verify *v, const char *what, uint32_t most);
bool td_starved(td_verify *v);

/* Is it a string of the module, without a 0 in it? */
static inline bool td_is_text(const td_verify *v, uint32_t string)
{
    return string < v->ir->nstrings && v->texts[string];
}
/* And what a value, a function, a size may have as its name. */
bool td_is_named(const td_verify *v, uint32_t string);

bool td_verify_order(td_verify *v); /* strings, sources, and all that numbers what it holds in one order */
bool td_verify_types(td_verify *v); /* every type; needs the strings */
bool td_verify_op(td_verify *v);    /* v->node: what its op asks of it */
/* Do the words hold one literal of this type, and nothing else? */
bool td_verify_constant(td_verify *v, const td_ir_node *n, uint32_t type);

/* Types by codes (gen/prims.py): does the type fit there? bound: the types of t and u, TD_IR_NONE as yet. */
typedef struct td_match {
    const td_ir *ir;
    const char *code; /* moves on */
    uint32_t bound[2];
    bool results; /* behind the arguments */
} td_match;
bool td_match_type(td_match *m, uint32_t type);

/* ---- of the node that is looked at */

static inline uint32_t td_type_in(const td_verify *v, uint32_t k)
{
    return v->ir->values[td_ir_in(v->ir, v->node, k)].type;
}
static inline uint32_t td_type_out(const td_verify *v, uint32_t k)
{
    return v->ir->values[td_ir_out(v->ir, v->node, k)].type;
}
static inline td_type_kind td_kind_of(const td_verify *v, uint32_t type)
{
    return td_type_kind_of(v->ir, type);
}
/* So many arguments and results. */
bool td_has(td_verify *v, uint32_t nin, uint32_t nout);
/* A value of one type stands where another is wanted. */
bool td_passes(td_verify *v, const char *what, uint32_t k, uint32_t from, uint32_t to);
/* Always false: "WHAT k is TYPE, but WANTED". */
bool td_wrong_type(td_verify *v, const char *what, uint32_t k, uint32_t type, const char *wanted);
struct td_prim;
bool td_verify_prim(td_verify *v, const struct td_prim *p);

#endif
