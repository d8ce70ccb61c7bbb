/* The arguments of attention's kernels. See args.h. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_ARGS_ATTENTION_H
#define TENSORD_DAEMON_KERNELS_CUDA_ARGS_ATTENTION_H

#include "daemon/kernels/cuda/args.h"

/* Queries (B, H, L, E), keys (B, K, S, E), values (B, K, S, F); `group` heads of the queries share one of the keys. */
typedef struct td_ca_attention {
    uint32_t *error;
    const void *q, *k, *v, *mask; /* mask NULL: none */
    const void *g, *y;            /* backward: the gradient of the result, and the result */
    void *lse;                    /* the logarithm of each row's sum: written, or read by backward */
    void *out;                    /* the result, or what backward makes */
    int64_t batch, heads, pairs, group, rows, keys, e, f;
    int64_t qs[4], ks[4], vs[4], ms[4], gs[4], ys[4], ls[3]; /* strides */
    double scale;
    uint8_t dtype, mask_dtype, lse_dtype, causal;
} td_ca_attention;

#endif
