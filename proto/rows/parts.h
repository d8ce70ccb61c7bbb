/* What is known of a program's values while it is gone through; for this room only.
 *
 * All sizes are known for two numbers of rows, few and many: what differs follows the rows, what does not is fixed. Of
 * the program's own numbers it is known exactly (td_tie); only inside of ops that are made of others, whose formulas
 * compute with plain sizes, it is told by comparing the two. */
#ifndef TENSORD_PROTO_ROWS_PARTS_H
#define TENSORD_PROTO_ROWS_PARTS_H

#include "proto/base/arena.h"
#include "proto/ops/attrs.h"
#include "proto/program/literal.h"
#include "proto/program/type.h"
#include "proto/rows/rows.h"

#include <setjmp.h>

enum { FEW = 0, MANY = 1, LOOKS = 2 };
extern const int64_t td_rows_of[LOOKS];

enum { NO_ROWS = -1, MIXED = -2 /* which nobody may use */ };

typedef struct td_rtensor {
    td_desc look[LOOKS];
    int dim;      /* that counts rows, or one of the above */
    int64_t each; /* so many of its places belong to a row, one behind the other */
} td_rtensor;

typedef enum td_tie {
    TD_FIXED = 0, /* it is what it is */
    TD_COUNTS,    /* so many times the number of rows; more than 0 */
    TD_UNKNOWN    /* it may follow from rows, or from what stands in a tensor */
} td_tie;

typedef struct td_rvalue {
    uint8_t kind; /* td_type_kind; a tuple is a list */
    uint8_t tie;  /* td_tie, of a number */
    union {
        td_literal number; /* also text, dtype, device; TD_COUNTS: .i */
        td_rtensor *tensor;
        struct td_rlist *list;
    };
} td_rvalue;

typedef struct td_rlist {
    uint32_t n, room;
    td_rvalue *items;
} td_rlist;

typedef struct td_rwalk {
    const td_rows_question *q;
    const td_ir *ir;
    td_rvalue *values; /* by number */
    td_arena memory;
    td_desc *made; /* room for the results of one call */
    uint64_t steps;
    int *out_rows;
    char *why;
    jmp_buf *no; /* where it ends that rows do not stay apart */
} td_rwalk;

_Noreturn void td_rows_no(td_rwalk *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void td_rows_step(td_rwalk *w, uint64_t steps);
void *td_rows_alloc(td_rwalk *w, size_t bytes);
td_rvalue *td_rows_in(td_rwalk *w, uint32_t node, uint32_t k);
void td_rows_out(td_rwalk *w, uint32_t node, uint32_t k, td_rvalue v);
void td_rows_push(td_rwalk *w, td_rlist *l, td_rvalue v);
td_rvalue td_rows_new_list(td_rwalk *w, uint32_t n, const td_rvalue *items);

static inline bool td_rows_same_double(double a, double b)
{
    return a == b || (a != a && b != b);
}

static inline bool td_rows_same_scalar(const td_scalar *a, const td_scalar *b)
{
    return a->kind == b->kind && a->i == b->i && td_rows_same_double(a->re, b->re) && td_rows_same_double(a->im, b->im);
}

static inline td_rvalue td_rows_fixed(int64_t v)
{
    return (td_rvalue){TD_T_INT, TD_FIXED, {.number = {.kind = TD_L_INT, .i = v}}};
}

/* prims.c: a prim:: op without blocks */
void td_rows_prim(td_rwalk *w, uint32_t node);

/* calls.c: a td:: op */
void td_rows_call(td_rwalk *w, uint32_t node);

/* ---- rules.c: one op of the table, which is not made of others */

typedef struct td_rcall {
    const td_op *op;
    int nin, nout;
    td_rtensor *const *in; /* NULL: a number, or nothing */
    const td_attrs *attrs[LOOKS];
    td_rtensor **out; /* with looks; the rule says the dimension */
} td_rcall;

void td_rows_rule(td_rwalk *w, const td_rcall *c);

#endif
