/* Lines of exact float ops as one loop of machine code.
 *
 * The loops of the op table read and write memory for each op. Ops that round as IEEE says (add, mul, sqrt, compare)
 * can be put into one loop instead, whose values stay in registers between them: the bits are the same, and only what
 * somebody uses later is written. That loop is made here, for the instruction set in use (cpu/isa.h). Where none can be
 * made, on other processors or where the kernel lets nobody make code, whoever asks has the table's loops. */
#ifndef TENSORD_DAEMON_KERNELS_JIT_H
#define TENSORD_DAEMON_KERNELS_JIT_H

#include "proto/ops/op.h"

enum { TD_JIT_SOURCES = 64, TD_JIT_LINES = 64, TD_JIT_INPUTS = 3 };

/* What comes from outside. */
typedef enum td_jit_kind {
    TD_JIT_EACH,  /* an element of an array for each of the result */
    TD_JIT_ONE,   /* one element in memory for all */
    TD_JIT_NUMBER /* known now */
} td_jit_kind;

typedef struct td_jit_source {
    td_jit_kind kind;
    unsigned char number[8]; /* in the text's dtype */
} td_jit_source;

/* An op. Its inputs are sources by their numbers, then lines before it; a comparison may be the condition of `where`
 * alone, and is not kept. */
typedef struct td_jit_line {
    const td_op *op;
    const td_attrs *attrs;
    uint16_t in[TD_JIT_INPUTS];
    bool kept; /* written to memory */
} td_jit_line;

typedef struct td_jit_text {
    td_dtype dtype; /* of all that is no truth value */
    uint16_t nsources, nlines;
    td_jit_source source[TD_JIT_SOURCES];
    td_jit_line line[TD_JIT_LINES];
} td_jit_text;

/* `n` elements. at[]: each source (a number's is not looked at), then what is kept, in order. An array that is written
 * meets no other. */
typedef void (*td_jit_loop)(int64_t n, void *const *at);

typedef struct td_jit {
    td_jit_loop loop;
    size_t bytes; /* that it takes: whole pages */
} td_jit;

/* Can this op, computed in that dtype, be a line? */
bool td_jit_knows(const td_op *op, td_dtype compute);
/* Is it a comparison, or the op that takes one? */
bool td_jit_compares(const td_op *op);
bool td_jit_chooses(const td_op *op);
/* Nanoseconds for an element, about. */
double td_jit_cost(const td_jit_text *t);

/* False: no loop can be had here, or not now. */
bool td_jit_allowed(void);
/* How many more can be had: all share what a process may map. */
uint32_t td_jit_left(void);
/* False: it cannot be had. */
bool td_jit_make(const td_jit_text *t, td_jit *out);
void td_jit_free(td_jit *j);

#endif
