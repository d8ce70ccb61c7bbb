/* The arguments of the kernels of networks: lines of a dimension, norms, losses, optimizers. See args.h. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_ARGS_NETS_H
#define TENSORD_DAEMON_KERNELS_CUDA_ARGS_NETS_H

#include "daemon/kernels/cuda/args.h"

/* A tensor of any strides; no data: absent. */
typedef struct td_cuda_view {
    void *data;
    int64_t stride[TD_MAX_DIMS];
    uint8_t dtype;
} td_cuda_view;
typedef struct td_cuda_vector { /* of one dimension */
    void *data;
    int64_t stride;
    uint8_t dtype;
} td_cuda_vector;

/* Lines along one dimension: the result and up to two operands; `step` leads along a line, the views' strides from line
 * to line. */
enum td_line_op { TD_SOFTMAX, TD_LOG_SOFTMAX, TD_SOFTMAX_BACK, TD_LOG_SOFTMAX_BACK };
typedef struct td_ca_lines {
    uint32_t *error;
    int64_t length, count;
    int64_t shape[TD_MAX_DIMS], step[3];
    td_cuda_view v[3];
    int32_t ndim, lanes, columns, op;
} td_ca_lines;

/* Rows of the last dimensions; shape as the tensor has it, the first `split` dimensions count rows. */
typedef struct td_ca_layer {
    uint32_t *error;
    int64_t rows, cols, shape[TD_MAX_DIMS];
    td_cuda_view x, g, w, b;
    void *y, *mean, *rstd, *dw, *db; /* contiguous */
    double *parts;                   /* [2][piece][cols] */
    int64_t piece, pieces;
    double eps;
    int32_t ndim, split, lanes, mask;
    uint8_t y_dtype, stat_dtype, w_dtype, b_dtype;
} td_ca_layer;

/* Channels: dimension 1 of x; shape and strides are of the other dimensions. */
typedef struct td_ca_batch {
    uint32_t *error;
    int64_t channels, count, shape[TD_MAX_DIMS], piece, pieces;
    td_cuda_view x, g, y;
    int64_t x_channel, g_channel, y_channel;
    td_cuda_vector w, b, running_mean, running_var, mean,
        rstd;      /* of the gradient w and b are dw and db, `running_mean` is w */
    double *parts; /* [piece][channel][3], then [channel][3] for what the last launch needs */
    double momentum, eps;
    int32_t ndim, training, mask;
} td_ca_batch;

typedef struct td_ca_nll {
    uint32_t *error;
    int64_t targets, classes, inner, ignore, reduction, per, blocks;
    int64_t shape[TD_MAX_DIMS]; /* of the target */
    td_cuda_view x, target;     /* x: strides over the target's dimensions; of the gradient: g */
    int64_t class_step;
    td_cuda_vector weight, total;
    double *parts;
    void *out;
    int32_t ndim;
    uint8_t out_dtype;
} td_ca_nll;

/* sgd_step and adam_step, element by element: p, g, and the state. */
typedef struct td_ca_step {
    uint32_t *error;
    int64_t n, shape[TD_MAX_DIMS];
    td_cuda_view v[4];
    void *step;   /* Adam's counter */
    double *coef; /* made of it: what p moves by, and the second correction */
    double lr, decay, momentum, damp, beta1, beta2, eps;
    int32_t ndim, nesterov, decoupled;
    uint8_t step_dtype;
} td_ca_step;

#endif
