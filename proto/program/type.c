/* Types of a module. A type's head: bits 0-7 its kind; of a tensor bits 8-15 the dtype, 16-23 the device, 24-25
 * requires_grad + 1, 28-31 rank + 1 (0: any), and two words a size are its parts; of the others bits 8-23 how many
 * types it is made of, itself among them, of a tuple 24-31 its mark, and its parts are types of smaller numbers. */
#include "proto/program/type.h"

#include "proto/base/hash.h"
#include "proto/program/arrays.h"
#include <assert.h>

struct key {
    uint32_t head, n;
    const uint32_t *parts;
};

static bool same_type(const td_ir_edit *e, uint32_t number, const void *key)
{
    const struct key *k = key;
    const td_ir_type *t = &e->ir.types[number];
    return t->head == k->head && t->nparts == k->n &&
           (!k->n || !memcmp(e->ir.parts + t->part, k->parts, k->n * sizeof *k->parts));
}

static uint32_t hash_parts(uint32_t head, uint32_t n, const uint32_t *parts)
{
    return head * 0x9e3779b1u ^ (n ? td_hash_keyed(parts, n * sizeof *parts) : 0);
}

static uint32_t hash_type(const td_ir_edit *e, uint32_t number)
{
    const td_ir_type *t = &e->ir.types[number];
    return hash_parts(t->head, t->nparts, e->ir.parts + t->part);
}

uint32_t td_type_make(td_ir_edit *e, uint32_t head, uint32_t n, const uint32_t *parts)
{
    struct key key = {head, n, parts};
    uint32_t hash = hash_parts(head, n, parts), found = td_ir_find(e, &e->types, hash, same_type, &key);
    if (e->failed.code || found != TD_IR_NONE) return found;
    uint32_t part = td_ir_take(e, TD_A_PARTS, n), number = td_ir_take(e, TD_A_TYPES, 1);
    if (td_ir_stop(e, number)) return TD_IR_NONE;
    if (n) memcpy(e->ir.parts + part, parts, n * sizeof *parts);
    e->ir.types[number] = (td_ir_type){head, n ? part : 0, n};
    td_ir_put(e, &e->types, hash, number, hash_type);
    return number;
}

uint32_t td_type_size(const td_ir *ir, uint32_t type)
{
    uint32_t head = ir->types[type].head;
    return (head & 255) == TD_T_TENSOR ? 1 : head >> 8 & 65535;
}

/* A type made of others. */
static uint32_t made_of(td_ir_edit *e, td_type_kind kind, uint32_t n, const uint32_t *parts)
{
    uint32_t size = 1;
    for (uint32_t i = 0; i < n && size <= TD_TYPE_SIZE; i++) {
        if (td_ir_stop(e, parts[i])) return TD_IR_NONE;
        assert(parts[i] < e->ir.ntypes);
        size += td_type_size(&e->ir, parts[i]);
    }
    if (size > TD_TYPE_SIZE) {
        td_fail(&e->failed, TD_E_QUOTA, "a type is made of more than %d others", TD_TYPE_SIZE);
        return TD_IR_NONE;
    }
    return td_type_make(e, kind | size << 8, n, parts);
}

uint32_t td_type_plain(td_ir_edit *e, td_type_kind kind)
{
    assert(kind <= TD_T_TENSOR);
    return kind == TD_T_TENSOR ? td_type_any_tensor(e) : made_of(e, kind, 0, NULL);
}

uint32_t td_type_any_tensor(td_ir_edit *e)
{
    td_tensor_type any = {TD_DTYPE_NONE, TD_TYPE_ANY, TD_TYPE_ANY, TD_TYPE_ANY, {0}};
    return td_type_tensor(e, &any);
}

uint32_t td_type_tensor(td_ir_edit *e, const td_tensor_type *t)
{
    uint32_t parts[2 * TD_MAX_DIMS], rank = t->rank == TD_TYPE_ANY ? 0 : t->rank;
    assert(rank <= TD_MAX_DIMS);
    for (uint32_t i = 0; i < rank; i++) {
        parts[2 * i] = (uint32_t)(uint64_t)t->sizes[i];
        parts[2 * i + 1] = (uint32_t)((uint64_t)t->sizes[i] >> 32);
    }
    uint32_t head = TD_T_TENSOR | t->dtype << 8 | t->device << 16 | (uint32_t)(uint8_t)(t->grad + 1) << 24 |
                    (uint32_t)(uint8_t)(t->rank + 1) << 28;
    return td_type_make(e, head, 2 * rank, parts);
}

void td_type_as_tensor(const td_ir *ir, uint32_t type, td_tensor_type *t)
{
    const td_ir_type *is = &ir->types[type];
    *t = (td_tensor_type){.dtype = is->head >> 8 & 255,
                          .device = is->head >> 16 & 255,
                          .grad = (uint8_t)((is->head >> 24 & 3) - 1),
                          .rank = (uint8_t)((is->head >> 28) - 1)};
    for (uint32_t i = 0; 2 * i + 1 < is->nparts && i < TD_MAX_DIMS; i++) {
        const uint32_t *w = ir->parts + is->part + 2 * i;
        t->sizes[i] = (int64_t)(w[0] | (uint64_t)w[1] << 32);
    }
}

uint32_t td_type_optional(td_ir_edit *e, uint32_t of)
{
    if (td_ir_stop(e, of)) return TD_IR_NONE;
    td_type_kind kind = td_type_kind_of(&e->ir, of);
    return kind == TD_T_NONE || kind == TD_T_OPTIONAL ? of : made_of(e, TD_T_OPTIONAL, 1, &of);
}

uint32_t td_type_list(td_ir_edit *e, uint32_t of)
{
    return made_of(e, TD_T_LIST, 1, &of);
}

uint32_t td_type_tuple(td_ir_edit *e, uint32_t n, const uint32_t *of)
{
    return made_of(e, TD_T_TUPLE, n, of);
}

uint32_t td_type_dict(td_ir_edit *e, uint32_t key, uint32_t value)
{
    return made_of(e, TD_T_DICT, 2, (uint32_t[]){key, value});
}

uint32_t td_type_marked(td_ir_edit *e, uint32_t tuple, uint32_t mark)
{
    uint32_t parts[TD_TYPE_SIZE];
    if (td_ir_stop(e, tuple)) return TD_IR_NONE;
    const td_ir_type *t = &e->ir.types[tuple];
    assert((t->head & 255) == TD_T_TUPLE && mark < 256);
    if (t->nparts) memcpy(parts, e->ir.parts + t->part, t->nparts * sizeof *parts);
    return td_type_make(e, (t->head & TD_TYPE_UNMARKED) | mark << 24, t->nparts, parts);
}

/* ---- what fits where */

static bool tensor_fits(const td_ir *ir, uint32_t from, uint32_t to)
{
    td_tensor_type f, t;
    td_type_as_tensor(ir, from, &f);
    td_type_as_tensor(ir, to, &t);
    if (t.dtype != TD_DTYPE_NONE && t.dtype != f.dtype) return false;
    if (t.device != TD_TYPE_ANY && t.device != f.device) return false;
    if (t.grad != TD_TYPE_ANY && t.grad != f.grad) return false;
    if (t.rank == TD_TYPE_ANY) return true;
    for (int i = 0; i < t.rank; i++)
        if (t.sizes[i] != TD_SIZE_ANY && t.sizes[i] != f.sizes[i]) return false;
    return t.rank == f.rank;
}

enum { KNOWN = 1 /* what is known of tensors counts */, SAME = 2 /* as in what may be written: nothing is widened */ };

/* As deep as types are large: TD_TYPE_SIZE. */
static bool fits(const td_ir *ir, uint32_t from, uint32_t to, unsigned how)
{
    if (from == to) return true;
    td_type_kind f = td_type_kind_of(ir, from), t = td_type_kind_of(ir, to);
    if (t == TD_T_OPTIONAL && f != TD_T_OPTIONAL && !(how & SAME))
        return f == TD_T_NONE || fits(ir, from, td_type_part(ir, to, 0), how);
    if (f != t) return false;
    if (t == TD_T_TENSOR) return !(how & KNOWN) || tensor_fits(ir, from, to);
    uint32_t n = td_type_parts(ir, to);
    if (n != td_type_parts(ir, from)) return false;
    if (t == TD_T_LIST || t == TD_T_DICT) how |= SAME; /* who has it may put something in */
    for (uint32_t i = 0; i < n; i++)
        if (!fits(ir, td_type_part(ir, from, i), td_type_part(ir, to, i), how)) return false;
    return true;
}

bool td_type_fits(const td_ir *ir, uint32_t from, uint32_t to)
{
    return fits(ir, from, to, KNOWN);
}

bool td_type_fits_loosely(const td_ir *ir, uint32_t from, uint32_t to)
{
    return fits(ir, from, to, 0);
}

bool td_type_alike(const td_ir *ir, uint32_t from, uint32_t to)
{
    return fits(ir, from, to, SAME);
}
