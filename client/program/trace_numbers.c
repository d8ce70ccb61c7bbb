/* Numbers that a program follows. A trace sees tensors by their handles; the sizes of a tensor, and what is worked out
 * of them, are plain numbers in C. So each that the program is to follow has a name, which travels beside the number:
 * in td_arg, by the place in memory where the integers of a list stand, and in td_attrs. Where a name gets lost the
 * number is a constant, never another number: a name counts only beside the number that it was given to.
 *
 * What nobody uses makes no node: a size is asked of its tensor where it is wanted first. */
#include "client/program/trace_numbers.h"

#include "proto/program/prim.h"

#include <stdlib.h>
#include <string.h>

void td_numbers_free(td_numbers *s)
{
    free(s->at);
    free(s->given);
}

/* Room for one more of `size` bytes, behind number 0. */
static bool more(td_numbers *s, void **at, uint32_t *count, uint32_t *room, size_t size)
{
    if (!*count) *count = 1;
    if (*count < *room) return true;
    uint32_t n = *room ? 2 * *room : 64;
    void *grown = n > 1u << TD_NUMBER_BITS ? NULL : realloc(*at, n * size);
    if (!grown) return s->full = true, false;
    *at = grown, *room = n;
    return true;
}

static uint64_t name_of(const td_numbers *s, uint32_t index)
{
    return (uint64_t)s->serial << TD_NUMBER_BITS | index;
}

static uint64_t add(td_numbers *s, td_followed f)
{
    if (!more(s, (void **)&s->at, &s->n, &s->room, sizeof *s->at)) return 0;
    s->at[s->n] = f;
    return name_of(s, s->n++);
}

uint64_t td_numbers_of(td_numbers *s, uint32_t tensor, int dim, td_scalar is)
{
    enum { LOOK_BACK = 32 }; /* a loop asks for the same few */
    for (uint32_t k = s->n; k > 1 && k + LOOK_BACK > s->n; k--)
        if (s->at[k - 1].of == tensor && s->at[k - 1].dim == dim) return name_of(s, k - 1);
    return add(s, (td_followed){is, TD_IR_NONE, tensor, dim});
}

uint64_t td_numbers_new(td_numbers *s, uint32_t value, td_scalar is)
{
    return value == TD_IR_NONE ? 0 : add(s, (td_followed){is, value, TD_IR_NONE, 0});
}

/* -0.0 is another number than 0.0 here, and a NaN is itself. */
static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static bool same(const td_scalar *a, const td_scalar *b)
{
    return a->kind == b->kind && (a->kind == TD_S_INT ? a->i == b->i : bits_of(a->re) == bits_of(b->re));
}

uint32_t td_numbers_find(const td_numbers *s, uint64_t name, const td_scalar *is)
{
    uint32_t index = (uint32_t)(name & ((1u << TD_NUMBER_BITS) - 1));
    if (name >> TD_NUMBER_BITS != s->serial || !index || index >= s->n) return 0;
    return !is || same(&s->at[index].is, is) ? index : 0;
}

static uint32_t plain(td_numbers *s, td_type_kind kind)
{
    return td_type_plain(s->e, kind);
}

static uint32_t one(td_numbers *s, uint32_t prim, uint32_t in, td_type_kind kind)
{
    uint32_t type = plain(s, kind);
    return td_ir_result(s->e, td_ir_op(s->e, prim, 1, &in, 1, &type));
}

/* It is wanted: what the tensor has is asked of it. */
static uint32_t ask(td_numbers *s, const td_followed *f)
{
    bool whole = f->is.kind == TD_S_INT;
    if (f->dim == TD_OF_ALL) return one(s, TD_PRIM_NUMEL, f->of, TD_T_INT);
    if (f->dim == TD_OF_ITEM)
        return one(s, whole ? TD_PRIM_ITEM_INT : TD_PRIM_ITEM_FLOAT, f->of, whole ? TD_T_INT : TD_T_FLOAT);
    uint32_t in[] = {f->of, td_ir_int(s->e, f->dim)}, type = plain(s, TD_T_INT);
    return td_ir_result(s->e, td_ir_op(s->e, TD_PRIM_SIZE_DIM, 2, in, 1, &type));
}

uint32_t td_numbers_value(td_numbers *s, uint32_t index, bool real)
{
    td_followed *f = &s->at[index];
    if (f->value == TD_IR_NONE) f->value = ask(s, f);
    if (!real || f->is.kind == TD_S_FLOAT) return f->value;
    return one(s, TD_PRIM_FLOAT_INT, f->value, TD_T_FLOAT);
}

/* ---- where they stand */

static void leave(td_numbers *s, int k)
{
    memmove(&s->stands[k], &s->stands[k + 1], (size_t)(--s->nstands - k) * sizeof *s->stands);
}

/* Those that have been there longest go where there is no room: they are of calls that failed. */
void td_numbers_stand(td_numbers *s, int n, const int64_t *at, const uint64_t *names, bool once)
{
    bool any = false;
    if (n > TD_MAX_INTS) return;
    if (s->nstands == TD_STANDS) leave(s, 0);
    td_stand *here = &s->stands[s->nstands];
    for (int k = 0; k < n; k++) {
        here->index[k] = td_numbers_find(s, names[k], &(td_scalar){.kind = TD_S_INT, .i = at[k]});
        any |= here->index[k] != 0;
    }
    here->at = at, here->n = n, here->once = once;
    s->nstands += any;
}

void td_numbers_gone(td_numbers *s, const int64_t *at)
{
    for (int k = s->nstands - 1; k >= 0; k--)
        if (s->stands[k].at == at) leave(s, k);
}

/* The place where these stand, or -1. */
static int find(const td_numbers *s, int n, const int64_t *at)
{
    int k = s->nstands - 1;
    while (k >= 0 && (s->stands[k].at != at || s->stands[k].n != n)) k--;
    return k;
}

/* The number that stands there, unless it was written over meanwhile. */
static uint32_t standing(const td_numbers *s, const td_stand *here, int i)
{
    uint32_t index = here->index[i];
    return index && s->at[index].is.i == here->at[i] ? index : 0;
}

void td_numbers_standing(const td_numbers *s, int n, const int64_t *at, uint64_t *names)
{
    int k = find(s, n, at);
    for (int i = 0; i < n; i++) {
        uint32_t index = k < 0 ? 0 : standing(s, &s->stands[k], i);
        names[i] = index ? name_of(s, index) : 0;
    }
}

void td_numbers_give(td_numbers *s, td_attrs *a, int item, uint32_t index)
{
    if (!index || !more(s, (void **)&s->given, &s->ngiven, &s->room_given, sizeof *s->given)) return;
    s->given[s->ngiven] = (td_given){a->followed, index, (uint16_t)(a->count - 1), (int16_t)item};
    a->followed = s->ngiven++;
}

void td_numbers_give_ints(td_numbers *s, td_attrs *a, int n, const int64_t *at)
{
    int k = find(s, n, at);
    for (int i = 0; k >= 0 && i < n; i++) td_numbers_give(s, a, i, standing(s, &s->stands[k], i));
    if (k >= 0 && s->stands[k].once) leave(s, k);
}

uint32_t td_numbers_given(const td_numbers *s, const td_attrs *a, int attr, int item)
{
    for (uint32_t k = a->followed; k && k < s->ngiven; k = s->given[k].next)
        if (s->given[k].attr == attr && s->given[k].item == item) return s->given[k].index;
    return 0;
}
