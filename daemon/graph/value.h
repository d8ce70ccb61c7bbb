/* What a value of a program is while it runs: numbers as they are, tensors counted, texts, lists and tuples in boxes
 * that are shared and counted, since a list that two names have is one list.
 *
 * A run pays for its boxes through its purse, in steps, so that a list which grows by one costs no walk of accounts. */
#ifndef TENSORD_DAEMON_GRAPH_VALUE_H
#define TENSORD_DAEMON_GRAPH_VALUE_H

#include "daemon/tensor/tensor.h"
#include "proto/program/type.h"

typedef struct td_boxed td_boxed;

typedef struct td_purse {
    td_account *account;
    uint64_t used, charged; /* bytes */
    bool refused;           /* the account had no more: it may have later */
    td_boxed *dying;        /* large lists that nobody has any more; linked where their last items were */
} td_purse;
enum { TD_PURSE_STEP = 1 << 16, TD_PURSE_MOST = 1 << 26 };  /* bytes */
enum { TD_VAL_ITEMS = 1 << 16, TD_VAL_CHARS = 1 << 16 };    /* of one list, one text */
enum { TD_VAL_KEYS = 1 << 12, TD_VAL_KEY_CHARS = 1 << 10 }; /* of one dict, one of its keys */
int td_purse_take(td_purse *p, uint64_t bytes, td_error *e);
void td_purse_give(td_purse *p, uint64_t bytes);
void td_purse_empty(td_purse *p); /* all that is charged goes back */
/* Free about so many items of lists that are dying; how many it were, 0: there are none. */
int td_purse_bury(td_purse *p, int most);

typedef struct td_val td_val;

struct td_boxed {
    uint32_t refs, n, room;
    union {
        td_val *items;
        char *chars;
    };
};

struct td_val {
    uint8_t kind; /* td_type_kind; never TD_T_OPTIONAL */
    union {
        int64_t i; /* TD_T_INT; TD_T_BOOL, TD_T_DEVICE and TD_T_DTYPE by number */
        double re;
        td_tensor *tensor;
        td_boxed *box; /* TD_T_STR: chars; TD_T_LIST, TD_T_TUPLE: items; TD_T_DICT: a key, its value, ... */
    };
    double im;
};

static inline td_val td_val_none(void)
{
    return (td_val){.kind = TD_T_NONE};
}
static inline td_val td_val_int(int64_t i)
{
    return (td_val){.kind = TD_T_INT, .i = i};
}
static inline td_val td_val_bool(bool b)
{
    return (td_val){.kind = TD_T_BOOL, .i = b};
}
static inline td_val td_val_float(double x)
{
    return (td_val){.kind = TD_T_FLOAT, .re = x};
}
static inline td_val td_val_tensor(td_tensor *t) /* takes over the reference */
{
    return (td_val){.kind = TD_T_TENSOR, .tensor = t};
}
static inline bool td_val_is_number(const td_val *v)
{
    return v->kind >= TD_T_INT && v->kind <= TD_T_COMPLEX;
}
td_scalar td_val_scalar(const td_val *v); /* of a number */
static inline bool td_val_is_boxed(const td_val *v)
{
    return v->kind == TD_T_STR || v->kind == TD_T_LIST || v->kind == TD_T_TUPLE || v->kind == TD_T_DICT;
}

/* Another reference. */
static inline td_val td_val_ref(td_val v)
{
    if (v.kind == TD_T_TENSOR) v.tensor->refs++;
    else if (td_val_is_boxed(&v)) v.box->refs++;
    return v;
}
void td_val_end(td_purse *p, td_val v); /* a list that is large, or has others, is only put to the dying */
/* Let go of it; it is None then. */
static inline void td_val_drop(td_purse *p, td_val *v)
{
    if (v->kind >= TD_T_STR) td_val_end(p, *v);
    *v = td_val_none();
}

/* A box with room for n items (None all) or chars; in *out, or an error that is told. */
int td_val_box(td_purse *p, td_type_kind kind, uint32_t n, td_val *out, td_error *e);
int td_val_text(td_purse *p, const char *text, size_t n, td_val *out, td_error *e);
/* Room for so many items more at the end of a list; then one of them, whose reference it takes over. */
int td_val_room(td_purse *p, td_boxed *list, uint32_t more, td_error *e);
static inline void td_val_push(td_boxed *list, td_val item)
{
    list->items[list->n++] = item;
}

/* What it takes to go through it, in items; of a text an eighth of its characters. */
uint32_t td_val_size(const td_val *v);
/* Of two of one type: numbers, texts, and lists of such. */
bool td_val_equal(const td_val *a, const td_val *b);
/* Below, at or above 0, as the first is smaller, equal or larger; numbers and texts. A NaN is neither: 0. */
int td_val_order(const td_val *a, const td_val *b);

/* "int", "Tensor", ... for messages. */
const char *td_val_kind_name(const td_val *v);

#endif
