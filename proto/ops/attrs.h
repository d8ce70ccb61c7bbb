/* The attributes of one op call: the arguments that are not tensors, in the order of the op's signature.
 *
 * In memory they are a small array with one pool for integer lists and texts, so that a call needs no allocation and
 * can be copied. On the wire and in saved graph nodes they are 32-bit words (see td_attrs_encode). */
#ifndef TENSORD_PROTO_OPS_ATTRS_H
#define TENSORD_PROTO_OPS_ATTRS_H

#include "proto/base/status.h"

#define TD_MAX_ATTRS 12
#define TD_MAX_INTS 128 /* integers in all lists of one call together */
#define TD_MAX_TEXT 255 /* bytes of a text, without the 0 at its end */

typedef enum td_attr_kind {
    TD_A_NONE = 0, /* an optional one that was not given */
    TD_A_INT = 1,
    TD_A_FLOAT = 2,
    TD_A_BOOL = 3,
    TD_A_SCALAR = 4,
    TD_A_DTYPE = 5,
    TD_A_INTS = 6,
    TD_A_TEXT = 7
} td_attr_kind;

typedef struct td_attr {
    uint8_t kind;
    uint16_t count; /* TD_A_INTS: how many; TD_A_TEXT: how many bytes */
    union {
        int64_t i; /* TD_A_INT; TD_A_BOOL as 0 or 1; TD_A_DTYPE */
        double f;
        td_scalar s;
        uint32_t first; /* TD_A_INTS, TD_A_TEXT: index of the first in td_attrs.ints */
    };
} td_attr;

typedef struct td_attrs {
    uint16_t count;
    uint16_t nints;
    uint32_t followed; /* which of its numbers a trace knows: for client/program/trace_numbers.c alone; 0: none */
    td_attr at[TD_MAX_ATTRS];
    int64_t ints[TD_MAX_INTS];
} td_attrs;

static inline void td_attrs_init(td_attrs *a)
{
    a->count = a->nints = 0;
    a->followed = 0;
}
static inline int64_t td_attr_int(const td_attrs *a, int k)
{
    return a->at[k].i;
}
static inline bool td_attr_bool(const td_attrs *a, int k)
{
    return a->at[k].i != 0;
}
static inline double td_attr_float(const td_attrs *a, int k)
{
    return a->at[k].f;
}
static inline bool td_attr_given(const td_attrs *a, int k)
{
    return a->at[k].kind != TD_A_NONE;
}
static inline td_dtype td_attr_dtype(const td_attrs *a, int k)
{
    return a->at[k].kind == TD_A_NONE ? TD_DTYPE_NONE : (td_dtype)a->at[k].i;
}
static inline const int64_t *td_attr_ints(const td_attrs *a, int k, int *n)
{
    *n = a->at[k].kind == TD_A_NONE ? 0 : a->at[k].count;
    return a->ints + (a->at[k].kind == TD_A_NONE ? 0 : a->at[k].first);
}

/* NULL when it was not given; ends with a 0 else. */
static inline const char *td_attr_text(const td_attrs *a, int k)
{
    return a->at[k].kind == TD_A_NONE ? NULL : (const char *)(a->ints + a->at[k].first);
}
/* How much of td_attrs.ints an attribute takes; what is behind a text's end there is 0. */
static inline int td_attr_room(const td_attr *at)
{
    return at->kind == TD_A_INTS ? at->count : at->kind == TD_A_TEXT ? at->count / 8 + 1 : 0;
}

/* Append the next attribute. Each returns false when there is no room (too many attributes or integers, too long a
 * text). */
bool td_attrs_none(td_attrs *a);
bool td_attrs_int(td_attrs *a, int64_t v);
bool td_attrs_float(td_attrs *a, double v);
bool td_attrs_bool(td_attrs *a, bool v);
bool td_attrs_scalar(td_attrs *a, td_scalar v);
bool td_attrs_dtype(td_attrs *a, td_dtype v);
bool td_attrs_ints(td_attrs *a, int n, const int64_t *v);
bool td_attrs_text(td_attrs *a, const char *text, size_t length);
/* Copy only what is used (a td_attrs is large). */
void td_attrs_copy(td_attrs *to, const td_attrs *from);

struct td_op;

/* Words that the attributes take on the wire. Trailing attributes that equal the op's defaults are left out. Each is
 * one tag word (kind, form, small value or length), then nothing, two words for a wide number (four for a complex one),
 * or one or two for each number of a list, or one for four bytes of a text; little endian. */
size_t td_attrs_words(const struct td_op *op, const td_attrs *a);
/* Write them; returns the words written (td_attrs_words of them). */
size_t td_attrs_encode(const struct td_op *op, const td_attrs *a, uint32_t *words);
/* Read all attributes of `op` from `count` words that came from outside; missing trailing ones take their defaults.
 * Every kind, count and dtype is checked against the signature; on failure TD_E_PROTOCOL (malformed) or TD_E_INVALID (a
 * required one is missing). */
int td_attrs_decode(const struct td_op *op, const uint32_t *words, size_t count, td_attrs *a, td_error *e);

#endif
