/* A program that the daemon has: what programs.c and call.c share. */
#ifndef TENSORD_CLIENT_PROGRAM_PROGRAMS_H
#define TENSORD_CLIENT_PROGRAM_PROGRAMS_H

#include "client/tensor/array.h"
#include "proto/program/ir.h"
#include "proto/program/values.h"

struct td_program {
    td_client *client;
    uint32_t id;
    td_ir *ir;
    int narrays;  /* tensors that it returns, at most */
    bool exactly; /* it returns nothing but these tensors, always: no answer is wanted */
    bool writes;  /* to what it is given, or has captured */
    bool reaches; /* also what gradients lead to: graphs that it may free, .grad */
    bool enters;  /* it may put a tensor that it was given into a graph, by writing it */
    bool prints;  /* so an answer is wanted, which brings that */
    int ncaptured;
    td_array **captured; /* a reference each; of one that was opened none, before td_program_captured */
};

/* A call: of td_program_call(), or of td_async_call(), which keeps it for the answer. */
typedef struct td_calling {
    td_program *p;
    const char *where;
    int n;
    const td_value *args;
    uint32_t nrets;               /* what the graph returns */
    td_words words;               /* the record's rest */
    uint32_t *ids, narrays, room; /* of the arrays among the arguments */
    td_value *result;
    char *said; /* what it printed */
    size_t nsaid;
    td_array **out;  /* handles for those among the results, ... */
    int nout, bound; /* ... of which so many were used */
} td_calling;

/* ---- call.c: under the lock, but for the last two */
/* Check its arguments, and put them into words. Raises. */
int td_calling_begin(td_calling *x);
/* The record, which the daemon answers under this serial (0: it does not). `patient`: it may wait for the daemon to
 * take what was sent before. */
int td_calling_ask(td_calling *x, uint64_t serial, bool patient);
/* The answer's words as the result, and the handles that are not among it let go of. */
int td_calling_take(td_calling *x, const td_reply *r, td_error *e);
void td_calling_said(td_calling *x, const uint8_t *text, size_t n);
/* All but the result and the handles. */
void td_calling_deinit(td_calling *x);
/* What it printed, to where programs print. */
void td_calling_print(const td_calling *x);

static inline bool td_value_has_items(const td_value *v)
{
    return td_pv_has_items((td_pv_kind)v->kind);
}

/* The program that a module is, given to the daemon; takes the module over. NULL with this thread's error. */
td_program *td_program_give(td_client *c, td_ir *ir, td_list captured, const char *op);

/* A handle of a module (a reference of its own), which the daemon does not have yet. NULL: raised. */
td_program *td_program_make(td_client *c, td_ir *ir, td_list captured, const char *op);
/* Of one that the daemon does not have. */
void td_program_drop(td_program *p);
/* All that it captures, with a handle each. */
int td_program_captured(td_program *p);
/* names.c: TD_TEXT_PLANS, which the daemon knows. NULL: raised. */
char *td_program_plans(const td_program *p);

#endif
