/* Arguments and results of programs as words. */
#include "proto/program/values.h"

#include "proto/base/device.h"
#include <string.h>

static uint32_t payload(td_pv_kind kind, uint32_t small)
{
    static const uint8_t words[TD_PV_KINDS] = {[TD_PV_INT] = 2, [TD_PV_FLOAT] = 2, [TD_PV_COMPLEX] = 4};
    return kind == TD_PV_STR ? (small + 3) / 4 : words[kind];
}

bool td_pv_put(td_words *w, const td_pv *v)
{
    uint32_t n = payload(v->kind, v->small), *at = v->small > TD_PV_SMALL ? NULL : td_words_room(w, 1 + n);
    if (!at) return false;
    memset(at, 0, (1 + n) * sizeof *at);
    at[0] = v->kind | v->small << 8;
    if (v->kind == TD_PV_INT) memcpy(at + 1, &v->i, 8);
    if (v->kind == TD_PV_FLOAT || v->kind == TD_PV_COMPLEX) memcpy(at + 1, &v->re, 8);
    if (v->kind == TD_PV_COMPLEX) memcpy(at + 3, &v->im, 8);
    if (v->kind == TD_PV_STR && v->small) memcpy(at + 1, v->text, v->small);
    w->count += 1 + n;
    return true;
}

static bool small_fits(td_pv_kind kind, uint32_t small)
{
    switch (kind) {
    case TD_PV_BOOL: return small <= 1;
    case TD_PV_DEVICE: return small < TD_MAX_DEVICES;
    case TD_PV_DTYPE: return td_dtype_valid(small);
    case TD_PV_STR:
    case TD_PV_LIST:
    case TD_PV_TUPLE: return true;
    case TD_PV_DICT: return small % 2 == 0;
    default: return small == 0;
    }
}

uint32_t td_pv_get(const uint32_t *words, uint32_t n, td_pv *v)
{
    if (!n || (words[0] & 255) >= TD_PV_KINDS) return 0;
    *v = (td_pv){.kind = (td_pv_kind)(words[0] & 255), .small = words[0] >> 8};
    uint32_t more = payload(v->kind, v->small);
    if (more > n - 1 || !small_fits(v->kind, v->small)) return 0;
    if (v->kind == TD_PV_INT) memcpy(&v->i, words + 1, 8);
    if (v->kind == TD_PV_FLOAT || v->kind == TD_PV_COMPLEX) memcpy(&v->re, words + 1, 8);
    if (v->kind == TD_PV_COMPLEX) memcpy(&v->im, words + 3, 8);
    if (v->kind == TD_PV_STR) v->text = (const char *)(words + 1);
    return 1 + more;
}
