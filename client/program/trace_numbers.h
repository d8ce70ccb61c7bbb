/* The numbers that a program of a trace follows: sizes, what lies in tensors of one element, and what is worked out of
 * those. See trace_numbers.c. */
#ifndef TENSORD_CLIENT_PROGRAM_TRACE_NUMBERS_H
#define TENSORD_CLIENT_PROGRAM_TRACE_NUMBERS_H

#include "proto/ops/attrs.h"
#include "proto/program/edit.h"

enum { TD_NUMBER_BITS = 20, TD_STANDS = 8 };

typedef struct td_followed {
    td_scalar is;   /* in the run that is traced: an int or a float */
    uint32_t value; /* of the program; TD_IR_NONE: nobody has wanted it yet, and it is ... */
    uint32_t of;    /* ... that of this tensor: */
    int32_t dim;    /* the size of a dimension, or one of TD_OF_... */
} td_followed;
enum { TD_OF_ALL = -1, TD_OF_ITEM = -2 }; /* the count of its elements; its element */

typedef struct td_given { /* to an op: its attribute, or one integer of it, is that number */
    uint32_t next, index;
    uint16_t attr;
    int16_t item; /* -1: it is no list */
} td_given;

typedef struct td_stand { /* integers in memory that are numbers of the trace */
    const int64_t *at;
    int n;
    bool once;                   /* they are given to one op */
    uint32_t index[TD_MAX_INTS]; /* of each; 0: it is none */
} td_stand;

typedef struct td_numbers {
    td_ir_edit *e;
    uint32_t serial;
    td_followed *at; /* number 0 is none */
    uint32_t n, room;
    td_given *given; /* number 0 is none */
    uint32_t ngiven, room_given;
    td_stand stands[TD_STANDS];
    int nstands;
    bool full; /* a number is a constant, since there was no room for it */
} td_numbers;

void td_numbers_free(td_numbers *s);
/* What a tensor of the program has: its name. 0: there is no room. */
uint64_t td_numbers_of(td_numbers *s, uint32_t tensor, int dim, td_scalar is);
/* What a value of the program is. */
uint64_t td_numbers_new(td_numbers *s, uint32_t value, td_scalar is);
/* Which one a name means, as an index, when it is of this trace and the number is that one; otherwise 0. */
uint32_t td_numbers_find(const td_numbers *s, uint64_t name, const td_scalar *is);
/* The value of the program that it is, as a float where one is wanted. */
uint32_t td_numbers_value(td_numbers *s, uint32_t index, bool real);

/* `once`: gone when they were given to an op. */
void td_numbers_stand(td_numbers *s, int n, const int64_t *at, const uint64_t *names, bool once);
/* Which stand there; zeros where none do. */
void td_numbers_standing(const td_numbers *s, int n, const int64_t *at, uint64_t *names);
void td_numbers_gone(td_numbers *s, const int64_t *at);
/* The attribute that was appended last is that number; or those that stand there. */
void td_numbers_give(td_numbers *s, td_attrs *a, int item, uint32_t index);
void td_numbers_give_ints(td_numbers *s, td_attrs *a, int n, const int64_t *at);
/* The number that an attribute, or an integer of it, was given as; 0: it is a constant. */
uint32_t td_numbers_given(const td_numbers *s, const td_attrs *a, int attr, int item);

#endif
