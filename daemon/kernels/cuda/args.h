/* The arguments of CUDA's kernels: one struct for each kernel, which the plans (C) fill and device code reads.
 *
 * Each begins with the address of the task's td_cuda_fault, whose first word are the bits that a kernel sets. Strides
 * count elements. Dimensions are merged and lie innermost first. A struct stays far below the 4 KiB that a launch may
 * carry, since a plan keeps it in its state. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_ARGS_H
#define TENSORD_DAEMON_KERNELS_CUDA_ARGS_H

#include "daemon/kernels/cpu/fold.h"
#include "daemon/kernels/cpu/loop_bodies.h"
#include "proto/types.h"

/* Bits of a fault beside TD_PW_...: */
enum { TD_CUDA_BAD_INDEX = 8, TD_CUDA_NO_CHANCE = 16 };
enum { TD_CUDA_THREADS = 256 }; /* of a block, unless its plan says otherwise */
enum { TD_CUDA_PW_OPS = 4, TD_CUDA_PW_ATTRS = 3 };

typedef union td_cuda_number {
    float f32;
    double f64;
    int64_t i64;
    int32_t i32;
    unsigned char u8;
    uint64_t u64;
} td_cuda_number;

/* Elements that lie alike, without gaps, in the types of the body; the result first. An operand without data is a
 * number. */
typedef struct td_ca_flat {
    uint32_t *error;
    int64_t n;
    void *data[TD_CUDA_PW_OPS];
    td_cuda_number number[TD_CUDA_PW_OPS];
    td_pw_attr at[TD_CUDA_PW_ATTRS];
} td_ca_flat;

/* Any strides, any dtypes: each operand is read by its own, and rounded to `round` (a dtype, or TD_DTYPE_NONE). */
typedef struct td_ca_walk {
    uint32_t *error;
    int64_t n;
    void *data[TD_CUDA_PW_OPS];
    td_cuda_number number[TD_CUDA_PW_OPS];
    td_pw_attr at[TD_CUDA_PW_ATTRS];
    int64_t stride[TD_CUDA_PW_OPS][TD_MAX_DIMS];
    int64_t shape[TD_MAX_DIMS];
    uint8_t dtype[TD_CUDA_PW_OPS], round[TD_CUDA_PW_OPS];
    int32_t ndim;
} td_ca_walk;

/* From one tensor to another of its shape: by size of element, or from dtype to dtype. */
typedef struct td_ca_copy {
    uint32_t *error;
    int64_t n;
    void *to;
    const void *from; /* NULL: `value`, which has to's dtype */
    unsigned char value[16];
    int64_t shape[TD_MAX_DIMS], to_stride[TD_MAX_DIMS], from_stride[TD_MAX_DIMS];
    int32_t ndim;
    uint8_t to_dtype, from_dtype;
    uint8_t behind; /* nothing is written when the task has left a fault */
} td_ca_copy;

/* arange, linspace, eye. */
typedef struct td_ca_sequence {
    uint32_t *error;
    int64_t n;
    void *to;
    double start, step, end;
    int64_t whole_start, whole_step;
    int64_t columns; /* of eye; else 0 */
    uint8_t dtype, whole;
} td_ca_sequence;

/* A fold over `gone` elements for each of `kept` results: the first dims[0] of shape are those that are folded. In
 * pieces, it writes records to `a` and `b` as [piece][kept]; the second launch merges them. */
typedef struct td_ca_reduce {
    uint32_t *error;
    const void *data;
    td_word *a, *b;
    void *out, *indices;
    int64_t nkept, ngone, piece, pieces;
    int64_t shape[TD_MAX_DIMS + 2], stride[TD_MAX_DIMS + 2];
    double correction;
    int32_t gdims, kdims;
    int32_t lanes, columns; /* threads for one result; do neighbours take results (columns) or elements? */
    uint8_t dtype, out_dtype, fold, finish, body;
} td_ca_reduce;

/* c = alpha a b + beta x, in batches; k in pieces, whose products lie in `parts` as [piece][batch][m][n] until a second
 * launch adds them. */
typedef struct td_cuda_matrix {
    int64_t row, col, batch; /* strides */
} td_cuda_matrix;
typedef struct td_ca_gemm {
    uint32_t *error;
    const void *a, *b, *x; /* x NULL: none */
    void *c, *parts;
    int64_t m, n, k, batch, piece, pieces;
    td_cuda_matrix as, bs, xs, cs;
    double alpha, beta;
    int64_t whole_alpha, whole_beta;
    uint8_t a_dtype, b_dtype, x_dtype, c_dtype;
} td_ca_gemm;

#endif
