/* What passes know of a module beside what it says: which values may be one thing, who writes, what escapes; for this
 * room only.
 *
 * Tensors and containers that may share memory are of one *class*: a view and its base, what a container holds and the
 * container, what an If or a Loop hands on and what comes out. What comes from outside (parameters, captured tensors,
 * results of calls between functions) is all of the class TD_CLASS_ANY. Classes are found by uniting (union-find), in
 * nearly linear time; what is said of them holds for the whole module. */
#ifndef TENSORD_PROTO_PASSES_FACTS_H
#define TENSORD_PROTO_PASSES_FACTS_H

#include "proto/passes/walk.h"
#include "proto/program/edit.h"
#include "proto/program/literal.h"
#include "proto/program/prim.h"
#include "proto/wire/record.h"

#define TD_CLASS_ANY 0
#define TD_CLASS_NONE TD_IR_NONE /* of a number, a text, None: nothing that could be written */

enum {                   /* of a class */
       TD_CF_WRITES = 1, /* a node writes it */
       TD_CF_LEAVES = 2, /* the caller has it: it came from there, or is returned */
       TD_CF_GRAD = 4    /* something of it may require a gradient */
};

typedef struct td_facts {
    uint64_t changes; /* of the edit when these were found */
    bool known;
    bool frozen; /* set before they are asked for: captured tensors with types are constants (freeze.h), each a thing of
                    its own */
    uint32_t nvalues, nclasses; /* a class for each value, behind TD_CLASS_ANY; most are united with others */
    uint32_t *classes;
    uint8_t *flags;
    uint8_t *has_class; /* by type */
    uint64_t looks;     /* that the pass may still take beside going through the module a few times */
} td_facts;

/* One look more at something that the node at hand does not say itself: a use of its argument, what that was made of,
 * what was worked out before. Each pass has so many for each node (passes.c), so that none takes longer than its module
 * is long, whatever that says. False: they are spent, and the pass leaves the rest as it is. */
static inline bool td_look(td_facts *f)
{
    return f->looks && f->looks--;
}

/* What holds now. False without memory, which the edit keeps. */
bool td_facts_find(td_facts *f, td_ir_edit *e);
void td_facts_deinit(td_facts *f);
/* A value that came since has what is least known. */
uint32_t td_class_of(td_facts *f, const td_ir *ir, uint32_t value);
unsigned td_class_flags(td_facts *f, const td_ir *ir, uint32_t value);
/* One is used in place of the other from now on. */
void td_class_unite(td_facts *f, const td_ir *ir, uint32_t a, uint32_t b);

/* While a module is frozen: is it a constant tensor? Then its type says its dtype and sizes, and others' do not. */
bool td_is_frozen(const td_ir *ir, uint32_t value);

/* ---- what an op does */

/* Nothing is known of what it looks at and writes: a call, a backward. */
bool td_reaches(const td_ir *ir, uint32_t node);
/* Does it write its k-th argument? */
bool td_writes(const td_ir *ir, uint32_t node, uint32_t k);
bool td_writes_any(const td_ir *ir, uint32_t node);
/* Something else than values: numbers of the generator, a text for the caller, an error that is meant; and calls, of
 * which nothing is known. */
bool td_has_effect(const td_ir *ir, uint32_t node);
/* Does it record a gradient, as far as its mode says? */
static inline bool td_records(const td_ir *ir, uint32_t node)
{
    return !(ir->nodes[node].mode & (TD_RM_GRAD_OFF | TD_RM_INFERENCE));
}

/* ---- constants */

static inline bool td_is_op(const td_ir *ir, uint32_t node, uint32_t op)
{
    return ir->nodes[node].op == op;
}
/* The node that makes the value; TD_IR_NONE: it is a parameter or captured. */
uint32_t td_maker(const td_ir *ir, uint32_t value);
/* The one that does so by this op. */
uint32_t td_made_by(const td_ir *ir, uint32_t value, uint32_t op);
/* Is it a constant, and no list? */
bool td_constant(const td_ir *ir, uint32_t value, td_literal *out);
bool td_constant_int(const td_ir *ir, uint32_t value, int64_t *out);
bool td_is_true(const td_ir *ir, uint32_t value);
/* Ints of a list that is a constant, or made of some: how many, -1: it is no such, or longer. */
int td_constant_ints(const td_ir *ir, uint32_t value, int room, int64_t *out);
/* A new value at the cursor's node: it becomes a constant. */
void td_turn_constant(td_ir_edit *e, uint32_t node, const td_literal *v);

/* ---- changes */

/* `value` in place of `old`, by all who can use it; false: there is nobody. */
bool td_put_instead(td_ir_edit *e, uint32_t old, uint32_t value);
/* Can all who use `old`? */
bool td_may_stand(const td_ir_edit *e, uint32_t old, uint32_t value);
/* The value at the cursor as one of a type that it fits: by an If, of which the branches' pass makes nothing wherever
 * it can. Two nodes. */
uint32_t td_widened(td_ir_edit *e, uint32_t value, uint32_t type);
/* Do two nodes without blocks do the same op on the same values, and make results of the same types? */
bool td_alike(const td_ir *ir, uint32_t a, uint32_t b);
/* Random ops of a block have different numbers once more. */
void td_number_random(td_ir_edit *e);

#endif
