/* Inside of the edit: arrays that grow, and tables that find equal things; for edit.c, nodes.c, copy.c, type.c. */
#ifndef TENSORD_PROTO_PROGRAM_ARRAYS_H
#define TENSORD_PROTO_PROGRAM_ARRAYS_H

#include "proto/program/edit.h"

typedef enum td_ir_array {
    TD_A_TYPES,
    TD_A_VALUES,
    TD_A_NODES,
    TD_A_BLOCKS,
    TD_A_FUNCTIONS,
    TD_A_CAPTURES,
    TD_A_SOURCES,
    TD_A_STRINGS,
    TD_A_PARTS,
    TD_A_WORDS,
    TD_A_ARGS,
    TD_A_DEFS,
    TD_A_CHARS,
    TD_A_OF_IR, /* what follows is the edit's own */
    TD_A_USES = TD_A_OF_IR,
    TD_A_USED,
    TD_A_QUEUE,
    TD_A_MAP,
    TD_A_ARRAYS
} td_ir_array;

typedef struct td_ir_use { /* beside args: who uses, and the other uses of the same value */
    uint32_t user;         /* a node, or TD_IR_PARAM | block that returns it */
    uint32_t prev, next;
} td_ir_use;

typedef struct td_ir_used { /* beside values */
    uint32_t first, count;
} td_ir_used;

typedef struct td_ir_pair {
    uint32_t from, to;
} td_ir_pair;

typedef struct td_ir_table { /* of numbers, by the hash of what they stand for; size is a power of two */
    uint32_t *slots;
    uint32_t size, count;
} td_ir_table;

struct td_ir_edit {
    td_ir ir; /* stays first: the table of arrays counts from here */
    td_ir_use *uses;
    td_ir_used *used;
    td_ir_pair *queue; /* blocks still to be copied or erased */
    uint32_t *map;     /* of values while they are cloned; otherwise TD_IR_NONE all over */
    uint32_t nuses, nused, nqueue, nmap;
    uint32_t room[TD_A_ARRAYS];
    td_ir_table types, strings, sources;
    td_error failed;
    uint64_t changes;
    uint32_t max_nodes, alive;
    uint32_t block, before; /* the cursor */
    uint32_t source, mode;  /* of new nodes */
};

/* Room for so many items in all, before they are made. */
bool td_ir_reserve(td_ir_edit *e, td_ir_array which, size_t n);
/* `n` more items, zeroed: the number of the first, or TD_IR_NONE. */
uint32_t td_ir_take(td_ir_edit *e, td_ir_array which, uint32_t n);
/* Was there a failure, or is one of the numbers none? */
static inline bool td_ir_stop(const td_ir_edit *e, uint32_t number)
{
    return e->failed.code != 0 || number == TD_IR_NONE;
}

/* In a table: the number for which same(e, number, key), or TD_IR_NONE and *slot is where it would be put. */
typedef bool td_ir_same_fn(const td_ir_edit *e, uint32_t number, const void *key);
uint32_t td_ir_find(td_ir_edit *e, td_ir_table *t, uint32_t hash, td_ir_same_fn *same, const void *key);
/* Not found: put it there. hash_of is asked of all others when the table grows. */
typedef uint32_t td_ir_hash_fn(const td_ir_edit *e, uint32_t number);
void td_ir_put(td_ir_edit *e, td_ir_table *t, uint32_t hash, uint32_t number, td_ir_hash_fn *hash_of);

/* A source of the edit's strings, found or made. */
uint32_t td_ir_source_new(td_ir_edit *e, const td_ir_source *s);
uint32_t td_ir_capture_at(td_ir_edit *e, uint32_t type, uint32_t name);
/* A value defined by `def`, not yet among its defs. */
uint32_t td_ir_value_new(td_ir_edit *e, uint32_t type, uint32_t def, uint32_t nr);
uint32_t td_ir_block_new(td_ir_edit *e, uint32_t owner, uint32_t function);
/* Slot of args: it holds `value` from now on, for `user`. */
void td_ir_use_begin(td_ir_edit *e, uint32_t slot, uint32_t value, uint32_t user);
void td_ir_use_end(td_ir_edit *e, uint32_t slot);
/* Put a node that stands nowhere at the cursor; take it from where it stands. */
void td_ir_stand(td_ir_edit *e, uint32_t node);
void td_ir_unstand(td_ir_edit *e, uint32_t node);
enum { TD_TYPE_UNMARKED = 0xffffff }; /* of the head of a type that is no tensor */
/* A type of this head and parts, found or made. */
uint32_t td_type_make(td_ir_edit *e, uint32_t head, uint32_t n, const uint32_t *parts);

typedef struct td_ir_layout { /* where an array lies in a td_ir_edit (or, below TD_A_OF_IR, in a td_ir) */
    size_t at, count, item;
    uint32_t most;
} td_ir_layout;
extern const td_ir_layout td_ir_layouts[TD_A_ARRAYS];

#endif
