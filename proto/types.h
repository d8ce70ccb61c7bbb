/* The plain types that every room and every client shares: dtypes, devices, status codes, errors, scalars.
 *
 * Values of the enums travel on the wire and are recorded in files: they are never renumbered. This header is
 * installed beside tensord.h and must stay valid C99 and C++. */
#ifndef TENSORD_PROTO_TYPES_H
#define TENSORD_PROTO_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Most dimensions a tensor may have. */
#define TD_MAX_DIMS 8
#define TD_MAX_ITEM 4096 /* tensors in one item of a queue */

typedef enum td_dtype {
    TD_BOOL = 0,
    TD_UINT8 = 1,
    TD_INT8 = 2,
    TD_INT16 = 3,
    TD_INT32 = 4,
    TD_INT64 = 5,
    TD_FLOAT16 = 6,
    TD_BFLOAT16 = 7,
    TD_FLOAT32 = 8,
    TD_FLOAT64 = 9,
    TD_COMPLEX64 = 10,
    TD_COMPLEX128 = 11,
    TD_UINT16 = 12,
    TD_UINT32 = 13,
    TD_UINT64 = 14,
    TD_DTYPE_COUNT = 15,
    TD_DTYPE_NONE = 255 /* "not given": an optional dtype attribute */
} td_dtype;

#define TD_MAX_DEVICES 16

/* Devices are numbers: TD_CUDA + k is the k-th GPU of the daemon. */
typedef enum td_device {
    TD_CPU = 0,
    TD_CUDA = 1,
    TD_FAKE = 15 /* of test builds only */
} td_device;

typedef enum td_layout { TD_STRIDED = 0 } td_layout;

/* Kinds of errors, by what the caller can do about them. */
typedef enum td_code {
    TD_OK = 0,
    TD_E_INVALID = 1,       /* an argument has a value that makes no sense */
    TD_E_TYPE = 2,          /* a dtype (or kind of argument) that is not taken here */
    TD_E_SHAPE = 3,         /* shapes that do not fit */
    TD_E_INDEX = 4,         /* an index or dimension out of range */
    TD_E_NOT_FOUND = 5,     /* no such id, name, op */
    TD_E_EXISTS = 6,        /* id or name taken */
    TD_E_MEMORY = 7,        /* the memory that tensors lie in and kernels work with is full: the message names the biggest holders */
    TD_E_QUOTA = 8,         /* this session's (or uid's) share is used up */
    TD_E_AUTOGRAD = 9,      /* the graph cannot do this (freed, leaf in place, no grad_fn, ...) */
    TD_E_VERSION = 10,      /* a saved tensor was overwritten before backward */
    TD_E_BUSY = 11,         /* leased, suspended or otherwise not available now */
    TD_E_CLOSED = 12,       /* the queue or its other side is gone, or a name began anew */
    TD_E_TIMEOUT = 13,      /* a deadline passed: the message says whom it waited for */
    TD_E_LOST = 14,         /* the connection to the daemon is gone: nothing can be asked by it any more */
    TD_E_PROTOCOL = 15,     /* a frame that breaks the protocol */
    TD_E_UNSUPPORTED = 16,  /* known, but not here (other op table, device, dtype) */
    TD_E_CANCELLED = 17,    /* stopped on request */
    TD_E_SYSTEM = 18,       /* the operating system refused: the message has errno's text, or says for what a process has no memory of its own */
    TD_E_PERMISSION = 19,   /* not yours to write or to use */
    TD_E_INTERNAL = 20,     /* a bug in tensord: please report it */
    TD_E_DEVICE = 21,       /* the device failed while this ran: what was to be written there is lost */
    TD_E_LINALG = 22,       /* a matrix that has no such factors: singular, not positive-definite, or not finite */
    TD_E_MEMBER = 23,   /* a member of the group has gone: the message says which, and where it was */
    TD_E_MISMATCH = 24, /* members of a group made different calls: the message has both */
    TD_E_EPOCH = 25,    /* a call of the group has failed, and no other can be made in it */
    TD_E_DIED = 26, /* a producer of the queue was killed, as the message says; the connection and the queue go on */
    TD_E_NOT_NEWER = 27, /* the name is there, but no version of it that is newer than the one that was named */
    TD_CODE_COUNT = 28
} td_code;

/* An error as the caller owns it. `op` is the op or call that failed, `where` the call site that issued it
 * (may be empty), `message` what was wrong and what to do. Always terminated; all zero means no error. */
typedef struct td_error {
    int code;
    char op[32];
    char where[96];
    char message[416];
} td_error;

/* How the same element of several tensors becomes one. */
typedef enum td_reduce_op {
    TD_SUM = 0,
    TD_MEAN = 1,
    TD_MIN = 2,
    TD_MAX = 3,
    TD_PROD = 4,
    TD_REDUCE_OP_COUNT = 5
} td_reduce_op;

/* Collectives: calls that the members of a group make together. Boards are shared by programs that were built apart, so
 * the numbers stay as they are. */
typedef enum td_collective {
    TD_COLL_NONE = 0,
    TD_COLL_BARRIER = 1,
    TD_COLL_ALL_REDUCE = 2,
    TD_COLL_BROADCAST = 3,
    TD_COLL_ALL_GATHER = 4,
    TD_COLL_REDUCE = 5,
    TD_COLL_REDUCE_SCATTER = 6,
    TD_COLL_GATHER = 7,
    TD_COLL_SCATTER = 8,
    TD_COLL_ALL_TO_ALL = 9,
    TD_COLL_COUNT = 10
} td_collective;

/* A number as an argument. Kind decides its promotion category (bool < integer < float < complex). */
typedef enum td_scalar_kind { TD_S_BOOL = 0, TD_S_INT = 1, TD_S_FLOAT = 2, TD_S_COMPLEX = 3 } td_scalar_kind;

typedef struct td_scalar {
    td_scalar_kind kind;
    int64_t i;     /* TD_S_BOOL (0 or 1), TD_S_INT */
    double re, im; /* TD_S_FLOAT uses re; TD_S_COMPLEX both */
} td_scalar;

static inline td_scalar td_int(int64_t v)
{
    td_scalar s = {TD_S_INT, v, 0, 0};
    return s;
}
static inline td_scalar td_float(double v)
{
    td_scalar s = {TD_S_FLOAT, 0, v, 0};
    return s;
}
static inline td_scalar td_bool(bool v)
{
    td_scalar s = {TD_S_BOOL, v ? 1 : 0, 0, 0};
    return s;
}
static inline td_scalar td_complex(double re, double im)
{
    td_scalar s = {TD_S_COMPLEX, 0, re, im};
    return s;
}

#ifdef __cplusplus
}
#endif
#endif
