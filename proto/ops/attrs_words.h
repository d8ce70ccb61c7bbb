/* How attributes look as 32-bit words; for attrs.c, which writes them, and attrs_read.c, which reads them.
 *
 * A tag word: bits 0-3 the kind, bits 4-5 the kind of a scalar, bits 6-7 the form, bits 8-31 a small signed value or
 * the length of a list or a text. Forms: SMALL has its value in the tag; NARROW is a list of one word a number, or a
 * text of one word for four bytes; WIDE has two words a number, low half first. The writer takes the shortest form; the reader takes every form that is well made. */
#ifndef TENSORD_PROTO_OPS_ATTRS_WORDS_H
#define TENSORD_PROTO_OPS_ATTRS_WORDS_H

#include "proto/ops/attrs.h"

enum { FORM_SMALL = 0, FORM_NARROW = 1, FORM_WIDE = 2 };

static inline uint32_t tag(unsigned kind, unsigned scalar_kind, unsigned form, int32_t value)
{
    return kind | scalar_kind << 4 | form << 6 | (uint32_t)value << 8;
}
static inline unsigned tag_kind(uint32_t w)
{
    return w & 15;
}
static inline unsigned tag_scalar(uint32_t w)
{
    return w >> 4 & 3;
}
static inline unsigned tag_form(uint32_t w)
{
    return w >> 6 & 3;
}
static inline int32_t tag_value(uint32_t w)
{
    return (int32_t)w >> 8;
}

#endif
