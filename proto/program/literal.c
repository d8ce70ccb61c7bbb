/* Literals as words, and the constants that the edit makes of them. */
#include "proto/program/literal.h"

#include "proto/base/device.h"
#include "proto/program/edit.h"
#include "proto/program/prim.h"

#define ONE_NAN UINT64_C(0x7ff8000000000000) /* of all that there are */

static void put_bits(uint32_t *words, const void *number)
{
    uint64_t bits;
    memcpy(&bits, number, 8);
    words[0] = (uint32_t)bits, words[1] = (uint32_t)(bits >> 32);
}

static void put_float(uint32_t *words, double v)
{
    uint64_t nan = ONE_NAN;
    if (v == v) put_bits(words, &v);
    else put_bits(words, &nan);
}

static bool get_float(const uint32_t *words, double *v)
{
    uint64_t bits = words[0] | (uint64_t)words[1] << 32;
    memcpy(v, &bits, 8);
    return *v == *v || bits == ONE_NAN;
}

uint32_t td_literal_put(uint32_t *words, const td_literal *v)
{
    bool small = v->kind == TD_L_BOOL || v->kind >= TD_L_DEVICE;
    words[0] = v->kind | (small ? v->small << 8 : 0);
    if (v->kind == TD_L_INT) put_bits(words + 1, &v->i);
    if (v->kind == TD_L_FLOAT || v->kind == TD_L_COMPLEX) put_float(words + 1, v->re);
    if (v->kind == TD_L_COMPLEX) put_float(words + 3, v->im);
    if (v->kind == TD_L_STR) words[1] = v->small;
    return td_literal_words(words[0]);
}

static bool small_fits(unsigned kind, uint32_t small)
{
    switch (kind) {
    case TD_L_BOOL: return small <= 1;
    case TD_L_DEVICE: return small < TD_MAX_DEVICES;
    case TD_L_DTYPE: return small < TD_DTYPE_COUNT;
    case TD_L_LIST: return true;
    default: return small == 0;
    }
}

uint32_t td_literal_get(const uint32_t *words, uint32_t n, td_literal *v)
{
    if (!n) return 0;
    unsigned kind = td_literal_kind_of(words[0]);
    uint32_t used = td_literal_words(words[0]);
    if (kind >= TD_L_KINDS || used > n || !small_fits(kind, words[0] >> 8)) return 0;
    *v = (td_literal){.kind = (td_literal_kind)kind, .small = words[0] >> 8};
    if (kind == TD_L_INT) v->i = (int64_t)(words[1] | (uint64_t)words[2] << 32);
    if ((kind == TD_L_FLOAT || kind == TD_L_COMPLEX) && !get_float(words + 1, &v->re)) return 0;
    if (kind == TD_L_COMPLEX && !get_float(words + 3, &v->im)) return 0;
    if (kind == TD_L_STR) v->small = words[1];
    return used;
}

/* ---- constants */

static uint32_t constant(td_ir_edit *e, td_type_kind kind, const td_literal *v)
{
    uint32_t type = td_type_plain(e, kind), words[TD_LITERAL_WORDS];
    uint32_t node = td_ir_op(e, TD_PRIM_CONSTANT, 0, NULL, 1, &type);
    td_ir_words(e, node, words, td_literal_put(words, v));
    return td_ir_result(e, node);
}

uint32_t td_ir_none(td_ir_edit *e)
{
    return constant(e, TD_T_NONE, &(td_literal){.kind = TD_L_NONE});
}

uint32_t td_ir_int(td_ir_edit *e, int64_t v)
{
    return constant(e, TD_T_INT, &(td_literal){.kind = TD_L_INT, .i = v});
}

uint32_t td_ir_float(td_ir_edit *e, double v)
{
    return constant(e, TD_T_FLOAT, &(td_literal){.kind = TD_L_FLOAT, .re = v});
}

uint32_t td_ir_bool(td_ir_edit *e, bool v)
{
    return constant(e, TD_T_BOOL, &(td_literal){.kind = TD_L_BOOL, .small = v});
}

uint32_t td_ir_complex(td_ir_edit *e, double re, double im)
{
    return constant(e, TD_T_COMPLEX, &(td_literal){.kind = TD_L_COMPLEX, .re = re, .im = im});
}

uint32_t td_ir_str(td_ir_edit *e, const char *text, size_t length)
{
    return constant(e, TD_T_STR, &(td_literal){.kind = TD_L_STR, .small = td_ir_string(e, text, length)});
}

uint32_t td_ir_dtype(td_ir_edit *e, td_dtype v)
{
    return constant(e, TD_T_DTYPE, &(td_literal){.kind = TD_L_DTYPE, .small = v});
}

uint32_t td_ir_device(td_ir_edit *e, unsigned device)
{
    return constant(e, TD_T_DEVICE, &(td_literal){.kind = TD_L_DEVICE, .small = device});
}
