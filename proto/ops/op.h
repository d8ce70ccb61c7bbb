/* The op table as C sees it. One td_op for each block of proto/ops, written by the generator (proto/gen).
 *
 * Both sides of the socket use the same table and the same inference functions: the client so that a wrong shape is an
 * error at the call, the daemon because it believes nothing. Everything here is constant data. */
#ifndef TENSORD_PROTO_OPS_OP_H
#define TENSORD_PROTO_OPS_OP_H

#include "proto/ops/attrs.h"
#include "proto/base/desc.h"

#define TD_MAX_PARAMS 12   /* declared tensor parameters of one op */
#define TD_MAX_INPUTS 1024 /* tensors of one call, lists flattened */
#define TD_MAX_OUTPUTS 1024

typedef enum td_param_kind {
    TD_P_TENSOR = 0,       /* T   */
    TD_P_OPTIONAL = 1,     /* T?  */
    TD_P_NUMBER = 2,       /* TS  : a tensor or an immediate number */
    TD_P_LIST = 3,         /* T[] : at most one list in a signature; its length is what the fixed ones leave */
    TD_P_OPTIONAL_LIST = 4 /* T?[] */
} td_param_kind;

enum {                    /* td_param.flags */
       TD_PF_MUTATED = 1, /* written by the op */
       TD_PF_CHECKED = 2, /* its values are indices: the kernel checks each as it loads it */
       TD_PF_LINEAR = 4,  /* the op is linear in it: an undefined gradient passes through */
       TD_PF_ALIKE = 8    /* a tensor has the dtype of input 0 */
};

/* What shape a tensor must have, once the rule of its op has taken the others for good. */
typedef enum td_shape_of {
    TD_SHAPE_ANY = 0,   /* what the rule says */
    TD_SHAPE_OF = 1,    /* that of parameter `of` */
    TD_SHAPE_SIZE = 2,  /* one dimension: size `at` of parameter `of` */
    TD_SHAPE_HEAD = 3,  /* that of parameter `of` without the last dimensions, attribute `at` says how many */
    TD_SHAPE_TAIL = 4,  /* these last dimensions */
    TD_SHAPE_GIVEN = 5, /* `of` dimensions (0 or 1) of size `at` */
} td_shape_of;

typedef struct td_param {
    const char *name;
    uint8_t kind;
    uint8_t flags;
    uint8_t only_if; /* written: only where this attribute, counted from 1, is true; 0: always */
    uint8_t shape;   /* td_shape_of, with the two below */
    uint8_t of;
    int8_t at;
} td_param;

typedef struct td_attr_def {
    const char *name;
    uint8_t kind; /* td_attr_kind */
    bool optional, has_default;
    td_attr value; /* the default; for TD_A_INTS see `ints` */
    const int64_t *ints;
} td_attr_def;

typedef struct td_output_def {
    const char *name;
    bool nondiff; /* never requires grad */
    bool list;    /* one declared output that is a list (unbind) */
} td_output_def;

enum {                       /* td_op.flags */
       TD_OF_VIEW = 1,       /* outputs share input 0's storage; there is no kernel */
       TD_OF_POINTWISE = 2,  /* made from an expression: any strides, any output dtype it can cast to */
       TD_OF_RANDOM = 4,     /* takes numbers from the generator */
       TD_OF_DATA_SHAPE = 8, /* output shapes depend on values */
       TD_OF_INPLACE = 16,   /* has an in-place form on input 0 (see TD_RF_OUT) */
       TD_OF_OUT_STRIDED =
           32, /* its kernel can write any strided output (all pointwise can), or says which not; others get rows */
       TD_OF_MULTI_VIEW = 64,     /* several views at once: in-place on them that needs grad is refused (A5) */
       TD_OF_NONDIFF = 128,       /* no output ever requires grad */
       TD_OF_CAST_ANY = 256,      /* out= may narrow (copy_, fill_) */
       TD_OF_CREATION = 512,      /* no tensor inputs */
       TD_OF_ALIAS_OK = 1024,     /* in place: its kernel may be given an output that is the very input 0 */
       TD_OF_EXACT_NUMBER = 2048, /* a number beside half types is not rounded to them first */
       TD_OF_WEIGHS = 4096,       /* its rule looks at the values of numbers, not only at their kinds */
       TD_OF_SOURCE = 8192,       /* in place (copy_) input 0 is what is read, and broadcast, not what is written */
       TD_OF_UNCOMPUTED = 16384,  /* its results hold whatever lies there */
       TD_OF_FORMAT = 32768       /* channels last stays channels last: infer/format.c */
};

/* How the dtype of a result follows from the dtypes of the inputs. */
typedef enum td_promote_kind {
    TD_PROMOTE_SAME = 0,  /* the common dtype */
    TD_PROMOTE_FLOAT = 1, /* the common dtype, whole numbers and bools turned into float32 */
    TD_PROMOTE_BOOL = 2,  /* computed in the common dtype, the result is bool */
    TD_PROMOTE_FIRST = 3, /* the dtype of input 0 */
    TD_PROMOTE_ABS = 4,   /* the common dtype; a complex result becomes real */
    TD_PROMOTE_SUM = 5,   /* of a reduction: whole numbers and bools turn into int64, unless a dtype is given */
    TD_PROMOTE_INDEX = 6  /* of a reduction: the result is int64 */
} td_promote_kind;

typedef struct td_operand { /* what inference sees of an input; both NULL: an absent optional */
    const td_desc *desc;
    const td_scalar *scalar;
} td_operand;

typedef struct td_inference {
    /* in */
    const struct td_op *op;
    const td_operand *in;
    int nin;
    uint8_t device; /* of what has no tensor to lie beside (TD_OF_CREATION) */
    bool whole;     /* of a list that will be run in pieces: there may be more than TD_MAX_INPUTS */
    const td_attrs *attrs;
    td_desc *out; /* room for max_out */
    int max_out;
    /* out */
    int nout;
    td_dtype compute; /* the dtype the kernel computes in (the promoted dtype of the inputs) */
    /* A data-shaped op (TD_OF_DATA_SHAPE) gets the largest shape that its result can have; the kernel tells the real
     * one. */
} td_inference;

typedef int (*td_infer_fn)(td_inference *f, td_error *e);

/* What the gradient of one input keeps: bit i of `inputs` = input parameter i, bit j of `outputs` = output j. */
typedef struct td_saves {
    bool exists; /* there is a formula */
    uint32_t inputs, outputs;
    uint32_t shapes; /* inputs of which only shape, strides or dtype is used: no data is kept for them */
} td_saves;

struct td_fx;

typedef struct td_op {
    uint16_t id; /* never reused */
    uint16_t flags;
    const char *name;
    const char *doc;       /* one line */
    const char *signature; /* as in the table */
    uint32_t hash;         /* of everything that both sides must agree on: name, signature, flags, inference */
    uint8_t nparams, nattrs, nouts;
    int8_t list_param; /* index of the T[] parameter, or -1 */
    uint32_t attrs_at; /* bit k: the k-th argument of the signature is an attribute, not a tensor */
    const td_param *params;
    const td_attr_def *attrs;
    const td_output_def *outs;
    uint16_t dtypes; /* bit d: input 0 (creation: the result; pointwise: the dtype computed in) may be dtype d */
    td_infer_fn infer;
    void (*compose)(
        struct td_fx *f); /* made of other ops, by this function (proto/ops/formula.h); NULL: an op of its own */
    /* Of such: a call that is just one other op, on the same inputs. Which; its attributes are appended to `to`. NULL:
     * this call is not. */
    const struct td_op *(*direct)(struct td_fx *f, td_attrs *to);
    const td_saves *saves; /* one for each param, or NULL when nothing has a gradient */
    const char *example;   /* of the docs */
    const char *aten;      /* how TorchScript's code calls it (proto/README.md, column aten); NULL: ATen has none such */
    uint8_t promote;       /* td_promote_kind */
    bool mutates;          /* some input is written (TD_PF_MUTATED) */
    bool alike;            /* some input has the dtype of input 0 (TD_PF_ALIKE) */
    bool shaped;           /* some input has a shape that follows from others (td_shape_of) */
} td_op;

/* Does it write given tensors as a whole, without reading them (copy_, fill_, uniform_)? */
static inline bool td_op_replaces(const td_op *op)
{
    return op->flags & (TD_OF_SOURCE | TD_OF_CREATION);
}

/* All ops, indexed by id; rows of unused ids have name NULL. `td_op_count` is one more than the largest id. */
extern const td_op td_ops[];
extern const unsigned td_op_count;
/* A hash over the rows: equal tables have equal hashes. */
extern const uint64_t td_ops_hash;

/* NULL when unknown. */
static inline const td_op *td_op_by_id(unsigned id)
{
    return id < td_op_count && td_ops[id].name ? &td_ops[id] : NULL;
}
const td_op *td_op_by_name(const char *name);

/* Do counts, kinds and dtypes of the operands and attributes agree with the signature? */
int td_op_check(const td_inference *f, td_error *e);

/* Check that, then infer. The one door to
 * inference: on success f->nout, f->out[] and f->compute are set; on failure `e` names the op, the argument and what
 * was expected. */
int td_op_infer(td_inference *f, td_error *e);

/* Can a call have `nin` flattened inputs? Until this is known, td_op_param_of must not be asked. */
int td_op_check_count(const td_op *op, int nin, td_error *e);

/* Parameter that flattened input `i` of `nin` belongs to. */
static inline int td_op_param_of(const td_op *op, int nin, int i)
{
    if (op->list_param < 0 || i < op->list_param) return i;
    int length = nin - (op->nparams - 1);
    return i < op->list_param + length ? op->list_param : i - length + 1;
}

#endif
