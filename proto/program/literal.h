/* Attributes of nodes as 32-bit words: constants, and what prim.toml says that an op has, in its order.
 *
 * A literal is a tag word (bits 0-7 its kind, the rest a small number) and what does not fit: two words of a number,
 * low half first, four of a complex one, one of a string. A list is its tag with the length; its items follow it, one
 * after another, so that all literals of a node can be walked without knowing more. There is one form for each value:
 * equal words are equal values. (The attributes of a record, attrs.h, have several forms, and no strings.) */
#ifndef TENSORD_PROTO_PROGRAM_LITERAL_H
#define TENSORD_PROTO_PROGRAM_LITERAL_H

#include "proto/program/ir.h"

typedef enum td_literal_kind { /* small number: */
                               TD_L_NONE = 0,
                               TD_L_INT = 1,
                               TD_L_FLOAT = 2,
                               TD_L_BOOL = 3, /* 0 or 1 */
                               TD_L_COMPLEX = 4,
                               TD_L_STR = 5,    /* the word behind is a string of the module */
                               TD_L_DEVICE = 6, /* td_device */
                               TD_L_DTYPE = 7,  /* td_dtype */
                               TD_L_LIST = 8,   /* how many items */
                               TD_L_KINDS = 9
} td_literal_kind;

typedef struct td_literal {
    td_literal_kind kind;
    uint32_t small; /* TD_L_BOOL, _DEVICE, _DTYPE, _LIST; TD_L_STR: the string */
    int64_t i;
    double re, im; /* TD_L_FLOAT uses re */
} td_literal;

#define TD_LITERAL_WORDS 5 /* most that one takes, a list's items aside */
#define TD_LITERAL_MOST ((1u << 24) - 1)

static inline unsigned td_literal_kind_of(uint32_t tag)
{
    return tag & 255;
}
/* Words of a literal with this tag, a list's items aside. */
static inline uint32_t td_literal_words(uint32_t tag)
{
    static const uint8_t words[16] = {[TD_L_INT] = 2, [TD_L_FLOAT] = 2, [TD_L_COMPLEX] = 4, [TD_L_STR] = 1};
    return 1u + words[tag & 15];
}

/* Write one; the words used. */
uint32_t td_literal_put(uint32_t *words, const td_literal *v);
/* Read one of `n` words that may be anything; the words used, 0: it is malformed (a string is not looked at). */
uint32_t td_literal_get(const uint32_t *words, uint32_t n, td_literal *v);

#endif
