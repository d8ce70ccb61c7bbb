/* The arguments of convolutions and pools of images (N, C, H, W). See args.h. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_ARGS_CONV_H
#define TENSORD_DAEMON_KERNELS_CUDA_ARGS_CONV_H

#include "daemon/kernels/cuda/args.h"

typedef struct td_cuda_image4 { /* four dimensions of any strides */
    void *data;
    int64_t stride[4];
    uint8_t dtype;
} td_cuda_image4;

/* y = x * w + b, of y's gradient y is g. */
typedef struct td_ca_conv {
    uint32_t *error;
    int64_t n, c, h, w, o, oh, ow, kh, kw, groups;
    int64_t sh, sw, ph, pw, dh, dw;
    td_cuda_image4 x, k, y;
    void *b; /* the bias, or db */
    int64_t b_stride;
    uint8_t b_dtype;
} td_ca_conv;

typedef struct td_ca_pool {
    uint32_t *error;
    int64_t n, c, h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw;
    td_cuda_image4 x, y, index; /* of gradients x is what is made, y is g */
    int32_t include_pad;
} td_ca_pool;

#endif
