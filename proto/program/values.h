/* Arguments and results of a program on their way: values as words, a tree in the order in which one reads it.
 *
 * A value is a tag word (bits 0-7 its kind, the rest a small number) and what does not fit: two words of a number, low
 * half first, four of a complex one, the bytes of a text. The items of a list, tuple or dict follow its tag; of a dict
 * these are a key, its value, the next key. A tensor is only a tag: it is the next of the record's ids. */
#ifndef TENSORD_PROTO_PROGRAM_VALUES_H
#define TENSORD_PROTO_PROGRAM_VALUES_H

#include "proto/wire/record.h"

typedef enum td_pv_kind { /* small number: */
                          TD_PV_NONE = 0,
                          TD_PV_INT = 1,
                          TD_PV_FLOAT = 2,
                          TD_PV_BOOL = 3, /* 0 or 1 */
                          TD_PV_COMPLEX = 4,
                          TD_PV_STR = 5,    /* bytes */
                          TD_PV_DEVICE = 6, /* its number */
                          TD_PV_DTYPE = 7,  /* td_dtype */
                          TD_PV_LIST = 8,   /* items */
                          TD_PV_TENSOR = 9,
                          TD_PV_TUPLE = 10, /* items */
                          TD_PV_DICT = 11,  /* items: twice as many as keys */
                          TD_PV_KINDS = 12
} td_pv_kind;

#define TD_PV_SMALL ((UINT32_C(1) << 24) - 1)
#define TD_PV_DEPTH 64                  /* of lists within lists */
#define TD_PV_WORDS (UINT32_C(1) << 18) /* of all that a program is given, or returns: what is done at once */

typedef struct td_pv { /* one value, items aside */
    td_pv_kind kind;
    uint32_t small;
    int64_t i;
    double re, im;    /* a float is re */
    const char *text; /* not ended */
} td_pv;

static inline bool td_pv_has_items(td_pv_kind kind)
{
    return kind == TD_PV_LIST || kind == TD_PV_TUPLE || kind == TD_PV_DICT;
}

/* Append one; false without memory, or when `small` does not fit. */
bool td_pv_put(td_words *w, const td_pv *v);
/* Read one of `n` words that may be anything; the words used, 0: it is malformed. */
uint32_t td_pv_get(const uint32_t *words, uint32_t n, td_pv *v);

#endif
