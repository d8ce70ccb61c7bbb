/* Types of a program's values. A type is a number: equal types of one module have one number.
 *
 * A tensor's refinements (dtype, sizes, device, whether it requires grad) help passes and readers; nothing that must
 * not crash may rest on them. */
#ifndef TENSORD_PROTO_PROGRAM_TYPE_H
#define TENSORD_PROTO_PROGRAM_TYPE_H

#include "proto/program/ir.h"

typedef enum td_type_kind {
    TD_T_NONE = 0, /* NoneType: of the value None alone */
    TD_T_INT = 1,
    TD_T_FLOAT = 2,
    TD_T_BOOL = 3,
    TD_T_COMPLEX = 4,
    TD_T_STR = 5,
    TD_T_DEVICE = 6,
    TD_T_DTYPE = 7,
    TD_T_TENSOR = 8,
    TD_T_OPTIONAL = 9, /* of one type, which is neither None nor optional */
    TD_T_LIST = 10,    /* of one type */
    TD_T_TUPLE = 11,   /* of any number */
    TD_T_DICT = 12,    /* of two; the keys are int or str */
    TD_T_KINDS = 13
} td_type_kind;

enum { TD_SIZE_ANY = -1 }; /* a size that is not known; below: td_size_symbol */

typedef struct td_tensor_type {
    uint8_t dtype;  /* TD_DTYPE_NONE: any */
    uint8_t device; /* TD_TYPE_ANY: any */
    uint8_t grad;   /* requires_grad: 0, 1 or TD_TYPE_ANY */
    uint8_t rank;   /* TD_TYPE_ANY: any, and no sizes */
    int64_t sizes[TD_MAX_DIMS];
} td_tensor_type;
#define TD_TYPE_ANY 255
#define TD_TYPE_SIZE 256 /* most types that one is made of, with all that those are made of */

/* A size that has a name (a string of the module): all that have it are equal. */
static inline int64_t td_size_symbol(uint32_t string)
{
    return -2 - (int64_t)string;
}
static inline uint32_t td_size_string(int64_t size)
{
    return (uint32_t)(-2 - size);
}

struct td_ir_edit;
uint32_t td_type_plain(struct td_ir_edit *e, td_type_kind kind); /* those without parts; TD_T_TENSOR: any tensor */
uint32_t td_type_any_tensor(struct td_ir_edit *e);
uint32_t td_type_tensor(struct td_ir_edit *e, const td_tensor_type *t);
uint32_t td_type_optional(struct td_ir_edit *e, uint32_t of); /* of None or an optional: that */
uint32_t td_type_list(struct td_ir_edit *e, uint32_t of);
uint32_t td_type_tuple(struct td_ir_edit *e, uint32_t n, const uint32_t *of);
uint32_t td_type_dict(struct td_ir_edit *e, uint32_t key, uint32_t value);
/* The tuple as another type, with a mark of 1 to 255 for whoever edits: it fits as that does, and is gone when the
 * module is sealed. */
uint32_t td_type_marked(struct td_ir_edit *e, uint32_t tuple, uint32_t mark);

static inline td_type_kind td_type_kind_of(const td_ir *ir, uint32_t type)
{
    return (td_type_kind)(ir->types[type].head & 255);
}
/* What an optional, a list, a tuple or a dict is made of. */
static inline uint32_t td_type_part(const td_ir *ir, uint32_t type, uint32_t k)
{
    return ir->parts[ir->types[type].part + k];
}
static inline uint32_t td_type_parts(const td_ir *ir, uint32_t type)
{
    return ir->types[type].nparts;
}
/* 0: it has none. */
static inline uint32_t td_type_mark(const td_ir *ir, uint32_t type)
{
    return td_type_kind_of(ir, type) == TD_T_TUPLE ? ir->types[type].head >> 24 : 0;
}
/* How many types it is made of, itself among them. */
uint32_t td_type_size(const td_ir *ir, uint32_t type);
void td_type_as_tensor(const td_ir *ir, uint32_t type, td_tensor_type *t);
/* May a value of type `from` stand where `to` is wanted? The same; T for T?, None for T?; of tensors, when `to` says
 * nothing else than `from` does; tuples part by part, lists and dicts when their parts are the same but for tensors. */
bool td_type_fits(const td_ir *ir, uint32_t from, uint32_t to);
/* The same, whatever is known of tensors. */
bool td_type_fits_loosely(const td_ir *ir, uint32_t from, uint32_t to);
/* The same kinds all through, whatever is known of tensors. */
bool td_type_alike(const td_ir *ir, uint32_t from, uint32_t to);

#endif
