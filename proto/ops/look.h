/* How a call looks, as words: the op, what its tensors are like, its numbers, its attributes. Inference and plans see
 * nothing else of a call, so two that look the same have the same result and the same plan. Who remembers one keeps its
 * look, and walks along it with the next one.
 *
 * Invariant: a walk puts the same words in the same order whether it keeps or compares, because both are one function;
 * and each word says how many belong to it, so no look is the beginning of another. */
#ifndef TENSORD_PROTO_OPS_LOOK_H
#define TENSORD_PROTO_OPS_LOOK_H

#include "proto/ops/attrs.h"
#include "proto/base/desc.h"
#include <stddef.h>
#include <string.h>

enum {
    TD_LOOK_WORDS = 96,
    TD_LOOK_OPERAND = 2 * TD_MAX_DIMS + 2 /* words of one, at most */
};

/* What a word begins. */
enum { TD_LOOK_ABSENT = 1, TD_LOOK_TENSOR, TD_LOOK_NUMBER, TD_LOOK_KIND, TD_LOOK_ATTR };

/* A walk along kept words. Whoever begins one says with a constant what it does, so that the compiler makes two. */
typedef struct td_looking {
    uint64_t *at, *end;
    bool keeps;      /* or compares */
    bool full;       /* it did not fit */
    uint64_t differ; /* not 0: it does */
} td_looking;

#define TD_LOOK_INLINE static inline __attribute__((always_inline))

TD_LOOK_INLINE td_looking td_look_begin(uint64_t words[TD_LOOK_WORDS], bool keeps)
{
    return (td_looking){words, words + TD_LOOK_WORDS, keeps, false, 0};
}

TD_LOOK_INLINE bool td_look_room(td_looking *l, int words)
{
    if (l->end - l->at >= words) return true;
    l->full = true;
    return false;
}

/* There is room. */
TD_LOOK_INLINE void td_look_put(td_looking *l, uint64_t word)
{
    if (l->keeps) *l->at = word;
    else l->differ |= *l->at ^ word;
    l->at++;
}

TD_LOOK_INLINE void td_look_list(td_looking *l, int n, const int64_t *v)
{
    for (int i = 0; i < n; i++) td_look_put(l, (uint64_t)v[i]);
}

TD_LOOK_INLINE uint64_t td_look_bits(const td_scalar *s)
{
    uint64_t bits;
    memcpy(&bits, s->kind > TD_S_INT ? (const void *)&s->re : &s->i, sizeof bits);
    return bits;
}

/* The very number, after a word that has its kind: 0 and -0 differ, a NaN is itself. */
TD_LOOK_INLINE void td_look_value(td_looking *l, const td_scalar *s)
{
    td_look_put(l, td_look_bits(s));
    if (s->kind != TD_S_COMPLEX) return;
    uint64_t im;
    memcpy(&im, &s->im, sizeof im);
    td_look_put(l, im);
}

TD_LOOK_INLINE void td_look_number(td_looking *l, const td_scalar *s)
{
    td_look_put(l, (uint64_t)s->kind << 32 | TD_LOOK_NUMBER);
    td_look_value(l, s);
}

/* A number of that kind, whatever it is. */
TD_LOOK_INLINE void td_look_kind(td_looking *l, const td_scalar *s)
{
    td_look_put(l, (uint64_t)s->kind << 32 | TD_LOOK_KIND);
}

/* dtype, ndim, device and layout at once. */
static inline uint32_t td_look_head(const td_desc *d)
{
    uint32_t head;
    _Static_assert(offsetof(td_desc, layout) == offsetof(td_desc, dtype) + 3, "four bytes in a row");
    memcpy(&head, &d->dtype, sizeof head);
    return head;
}

/* Everything but the offset; strides where they matter. */
TD_LOOK_INLINE void td_look_tensor(td_looking *l, const td_desc *d, bool strides)
{
    td_look_put(l, (uint64_t)td_look_head(d) << 32 | TD_LOOK_TENSOR);
    for (int i = 0; i < d->ndim; i++) {
        td_look_put(l, (uint64_t)d->shape[i]);
        if (strides) td_look_put(l, (uint64_t)d->stride[i]);
    }
}

TD_LOOK_INLINE void td_look_attrs(td_looking *l, const td_attrs *a)
{
    if (!td_look_room(l, 1 + 3 * a->count + a->nints)) return;
    td_look_put(l, a->count);
    for (int k = 0; k < a->count; k++) {
        const td_attr *x = &a->at[k];
        int many = td_attr_room(x), count = many ? x->count : x->kind == TD_A_SCALAR ? (int)x->s.kind : 0;
        td_look_put(l, (uint64_t)count << 40 | (uint64_t)x->kind << 32 | TD_LOOK_ATTR);
        if (x->kind == TD_A_INTS || x->kind == TD_A_TEXT) td_look_list(l, many, a->ints + x->first);
        else if (x->kind == TD_A_SCALAR) td_look_value(l, &x->s);
        else if (x->kind != TD_A_NONE) td_look_put(l, (uint64_t)x->i);
    }
}

/* All is put: was it kept, or is it the same? */
TD_LOOK_INLINE bool td_look_good(const td_looking *l)
{
    return !l->full && !l->differ;
}

#endif
