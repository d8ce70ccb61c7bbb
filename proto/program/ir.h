/* The IR of programs: a module of functions in SSA form, as flat arrays with 32-bit indices; nothing points.
 *
 * A module (td_ir) is read by its fields, by whoever has it. It is made and changed through a td_ir_edit (below), which
 * ends with td_ir_seal: a sealed module never changes, is counted, and can be read by several threads.
 *
 * What there is: *values*, each defined once: by a node, as a parameter of a block, or as a captured name of the
 * module. *Nodes* do one op each. *Blocks* are lists of nodes with parameters and returns; each function has one, and
 * so has each arm of an If and each body of a Loop (there are no jumps and no phi). A value may be used after its
 * definition in its own block and in the blocks within; captured values everywhere.
 *
 * Order in a sealed module: functions' blocks first, then each block after the one that its owner lies in; nodes in the
 * order of their blocks, so that a block's nodes are a run; values in the order of their definition (captured ones
 * first, then block by block the parameters and what the nodes make). Two modules that say the same are equal, array by
 * array, which is why the text and the binary form need to carry none of these numbers. */
#ifndef TENSORD_PROTO_PROGRAM_IR_H
#define TENSORD_PROTO_PROGRAM_IR_H

#include "proto/ops/op.h"
#include "proto/base/status.h"
#include <stdatomic.h>

#define TD_IR_NONE UINT32_MAX /* no value, node, block, string, source */

/* Limits of a module that comes from outside; passes may make up to TD_IR_MAX_GROWN nodes. */
#define TD_IR_MAX_NODES 65536
#define TD_IR_MAX_GROWN 262144
#define TD_IR_MAX_NEST 64       /* blocks within blocks */
#define TD_IR_MAX_ENDS 4096     /* inputs or outputs of a function; captured names */
#define TD_IR_FILE 1024         /* bytes of a source's file name */
#define TD_IR_NAME 240          /* characters of a value's name */
#define TD_IR_MAX_BYTES 1048576 /* of strings */
#define TD_IR_MAX_ITEMS 1048576 /* of any other array */

/* ---- ops: a class, for td:: perhaps TD_IR_INPLACE, and a number */

enum {
    TD_IR_PRIM = 0,       /* | td_prim_id: what is no tensor op (prim.h) */
    TD_IR_TD = 1 << 24,   /* | td_op.id: a row of the op table. Arguments are values in the order of its signature */
    TD_IR_ATEN = 2 << 24, /* | string: ATen's name and order of arguments; only until it is lowered */
    TD_IR_FN = 3 << 24,   /* | function of the module: a call */
    TD_IR_CLASS = 15 << 24,
    /* Of TD_IR_TD: `add_` writes its first argument, which is also its result. With one argument more than the op has
     * (td_ir_writes_beside) that one, the first, is written, and those of the op follow: `copy_(%x, %from, %dtype)`. */
    TD_IR_INPLACE = 1 << 23,
    TD_IR_NUMBER = TD_IR_INPLACE - 1
};

/* ---- the arrays */

typedef struct td_ir_type { /* see type.h. Equal types have one number */
    uint32_t head, part, nparts;
} td_ir_type;

/* Who defines a value: a node's number, or */
enum {
    TD_IR_PARAM = 1u << 31,   /* | block: it is a parameter */
    TD_IR_CAPTURED = 3u << 30 /* | number: it is a captured name */
};

typedef struct td_ir_value {
    uint32_t type, def, nr; /* nr: the how manieth that `def` defines */
    uint32_t name;          /* a string, for people, or TD_IR_NONE. Sealing gives values of one name different ones */
} td_ir_value;

typedef struct td_ir_node {
    uint32_t op;
    uint32_t in, nin;        /* a run of args */
    uint32_t out, nout;      /* a run of defs */
    uint32_t word, nwords;   /* attributes: a run of words (literal.h) */
    uint32_t child, nblocks; /* blocks of its own: a run of blocks */
    uint32_t source;
    uint32_t mode; /* bits of a record: TD_RM_GRAD_OFF, ..., from TD_RM_DEVICE on the device of a creation op */
    uint32_t rng;  /* of a random op: its number inside its block, from 0; otherwise TD_IR_NONE */
    uint32_t block, prev, next; /* where it stands; follows from the order in a sealed module */
} td_ir_node;

typedef struct td_ir_block {
    uint32_t param, nparams; /* a run of defs */
    uint32_t ret, nrets;     /* a run of args */
    uint32_t first, last;    /* nodes, TD_IR_NONE when empty; n = node[n].next leads on */
    uint32_t owner;          /* the node it belongs to; TD_IR_NONE: it is a function's */
    uint32_t function;
} td_ir_block;

typedef struct td_ir_function { /* number 0 is what is called from outside: "graph" in the text */
    uint32_t name, block;       /* name: TD_IR_NONE for number 0 */
} td_ir_function;

typedef struct td_ir_capture { /* a tensor (or attribute) from outside, by name */
    uint32_t name, value;
} td_ir_capture;

typedef struct td_ir_source { /* a place in somebody's program, for messages */
    uint32_t file, line, column, end;
} td_ir_source;

typedef struct td_ir_text { /* a string: bytes of td_ir.chars, with a 0 behind that is not counted */
    uint32_t at, length;
} td_ir_text;

typedef struct td_ir {
    td_ir_type *types;
    td_ir_value *values;
    td_ir_node *nodes;
    td_ir_block *blocks;
    td_ir_function *functions;
    td_ir_capture *captures;
    td_ir_source *sources;
    td_ir_text *strings;
    uint32_t *parts; /* of types */
    uint32_t *words; /* of attributes */
    uint32_t *args;  /* values used, by nodes and as returns of blocks */
    uint32_t *defs;  /* values defined, by nodes and as parameters of blocks */
    char *chars;
    uint32_t ntypes, nvalues, nnodes, nblocks, nfunctions, ncaptures, nsources, nstrings, nparts, nwords, nargs, ndefs,
        nchars;
    atomic_uint refs;
} td_ir;

/* Of a sealed module. */
td_ir *td_ir_ref(td_ir *ir);
void td_ir_unref(td_ir *ir); /* NULL does nothing */
/* Memory that it takes, to charge. */
size_t td_ir_bytes(const td_ir *ir);
/* Array by array the same. */
bool td_ir_equal(const td_ir *a, const td_ir *b);

static inline uint32_t td_ir_in(const td_ir *ir, uint32_t node, uint32_t k)
{
    return ir->args[ir->nodes[node].in + k];
}
static inline uint32_t td_ir_out(const td_ir *ir, uint32_t node, uint32_t k)
{
    return ir->defs[ir->nodes[node].out + k];
}
static inline uint32_t td_ir_param(const td_ir *ir, uint32_t block, uint32_t k)
{
    return ir->defs[ir->blocks[block].param + k];
}
static inline uint32_t td_ir_return(const td_ir *ir, uint32_t block, uint32_t k)
{
    return ir->args[ir->blocks[block].ret + k];
}
static inline const char *td_ir_chars(const td_ir *ir, uint32_t string)
{
    return ir->chars + ir->strings[string].at;
}
/* A td:: op in place that writes another tensor than the op's own first argument, as out= does. */
static inline bool td_ir_writes_beside(const td_ir_node *n, const td_op *op)
{
    return n->op & TD_IR_INPLACE && n->nin == (uint32_t)op->nparams + op->nattrs + 1;
}
/* Letters, digits and _, not beginning with a digit; then perhaps dots and numbers: x, x.1. */
bool td_ir_is_name(const char *text, size_t length);
static inline const td_op *td_ir_row(uint32_t op) /* of a td:: op; NULL: of another, or there is no such row */
{
    return (op & TD_IR_CLASS) == TD_IR_TD ? td_op_by_id(op & TD_IR_NUMBER) : NULL;
}

#endif
