/* The inner loops as the engine sees them: what one is, and how to find one.
 *
 * A loop works on `n` contiguous elements of its body type. Body types are fewer than dtypes: half types compute as
 * float, integers as int64 (some also as int32), bool as bytes. A loop may be given an output that is the very same
 * memory as an input. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_LOOP_H
#define TENSORD_DAEMON_KERNELS_CPU_LOOP_H

#include "daemon/kernels/cpu/loop_bodies.h"
#include "proto/ops/op.h"

typedef int td_pw_fn_type(int64_t n, void *out, const void *const *in, const td_pw_attr *at);
typedef td_pw_fn_type *td_pw_fn;

enum { TD_PW_FAILS_WHOLE = 1, TD_PW_FAILS_FLOAT = 2 };
enum { TD_PW_OUT_SAME = 0, TD_PW_OUT_BOOL = 1, TD_PW_OUT_REAL = 2 };
enum {
    TD_PW_ABSENT_ZERO = 0,
    TD_PW_ABSENT_LOWEST = 1,
    TD_PW_ABSENT_HIGHEST = 2,
    TD_PW_ABSENT_MIN_FINITE = 3,
    TD_PW_ABSENT_MAX_FINITE = 4
};

/* What the table says of one pointwise op, the same on every machine. */
typedef struct td_pw_op {
    uint8_t nin, nattr;
    uint8_t out;      /* TD_PW_OUT_... */
    uint8_t bool_in;  /* mask of inputs that are truth values */
    uint32_t cost[2]; /* picoseconds for a float and for a double, about */
    uint8_t absent[3];
    uint8_t fails;          /* TD_PW_FAILS_...: among which numbers there may be such */
    uint8_t easy_in, neasy; /* which input, from 1, makes the loop cheap where it is one of so many numbers, or low */
    const double *easy;
    uint8_t easy_attr; /* the attribute, from 1, that does so in the place of an input */
    uint32_t easy_cost[2];
} td_pw_op;

/* Generated. Rows are counted from 1; 0 is no pointwise op. */
extern const td_pw_op td_pw_ops[];
extern const unsigned char td_pw_row_of[];

/* The value of a pointwise op's attribute, as its loop gets it. */
td_pw_attr td_pointwise_attr(const td_op *op, const td_attrs *attrs, td_dtype compute, int nr);

struct td_reducers;
struct td_philox_fns;
struct td_gemm_kernel;
struct td_softmax_cols;
struct td_attentions;
struct td_pools;
struct td_products;
struct td_recurrents;

/* A set of loops for one instruction set. */
typedef struct td_isa {
    const char *name;
    int level;                                  /* 0 base, 1 v3 (AVX2), 2 v4 (AVX-512) */
    const td_pw_fn (*pointwise)[TD_BODY_COUNT]; /* [row - 1][body] */
    const td_pw_fn (*cast)[TD_DTYPE_COUNT];     /* [from][to] */
    void (*transpose)(void *to, int64_t to_stride, const void *from, int64_t from_stride, int rows, int64_t cols,
                      int size);
    void (*stream)(void *to, const void *from, int64_t bytes, bool last); /* vec/stream.h */
    const struct td_reducers *reduce;
    const struct td_philox_fns *philox;
    const struct td_gemm_kernel *gemm;
    const struct td_softmax_cols *softmax;
    const struct td_products *product;
    const struct td_recurrents *recurrent;
    const struct td_attentions *attention;
    const struct td_pools *pool;
} td_isa;

/* The best set for this processor: chosen once by td_cpu_init, the portable one before. */
extern const td_isa *td_isa_now;

#endif
