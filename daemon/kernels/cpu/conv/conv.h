/* Geometry of a 2-d convolution, and the ways it is computed.
 *
 * x: N x C x H x W, w: O x C/G x KH x KW, out: N x O x OH x OW. All strides are in elements. The plain way is im2col
 * and a matrix product for blocks of output positions (any dtype, stride, padding, dilation, groups): conv_im2col.c.
 * Beside it: 1x1 as one matrix product (conv.c), depthwise by direct loops (conv_depthwise.c), oneDNN for large float32
 * (conv_dnnl.c). A result that lies channels last is written as such by 1x1, depthwise (conv_depthwise_last.c) and
 * oneDNN; the others want rows. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_CONV_CONV_H
#define TENSORD_DAEMON_KERNELS_CPU_CONV_CONV_H

#include "daemon/kernels/cpu/rows.h"

typedef struct td_conv {
    uint8_t dtype, acc;
    uint8_t mask; /* of a backward: bit 0 dx, 1 dw, 2 db */
    bool backward;
    int64_t n, c, h, w, o, kh, kw, oh, ow;
    int64_t sh, sw, ph, pw, dh, dw, g;
    int64_t cg, og, k, p; /* channels of a group; cg * kh * kw; oh * ow */
    int64_t xs[4];        /* strides of x */
    /* the cut of im2col */
    int64_t block, blocks;         /* output positions of a block */
    int64_t cblock, cblocks;       /* input channels of a group that one chunk of a backward takes */
    int64_t per, tiles;            /* images of a partial weight gradient */
    size_t weights_at, partial_at; /* work memory; weights_at: packed rows, or (size_t)-1 when w is read as it lies */
} td_conv;

/* Fill the geometry; `g0` is the first of stride, padding, dilation, groups in the attributes. */
int td_conv_geometry(td_kcall *k, td_conv *c, const td_desc *x, const td_desc *w, const td_desc *out, int g0,
                     const char *name, td_error *e);

/* Output columns [*first, *last) of a row whose input column ox * sw - pw + kx * dw lies inside the image. */
static inline void td_conv_inside(int64_t size, int64_t stride, int64_t start, int64_t count, int64_t *first,
                                  int64_t *last)
{
    /* start + ox * stride in [0, size) */
    *first = start >= 0 ? 0 : (-start - 1) / stride + 1;
    *last = start >= size ? 0 : (size - 1 - start) / stride + 1;
    if (*last > count) *last = count;
    if (*first > *last) *first = *last;
}

/* Plans of the ways; each returns true when it takes this convolution and has appended its phases. */
bool td_conv_plan_pointwise(td_kcall *k, const td_conv *c, td_error *e, int *code);
bool td_conv_plan_depthwise(td_kcall *k, const td_conv *c);
bool td_conv_plan_depthwise_last(td_kcall *k, const td_conv *c);
bool td_conv_plan_dnnl(td_kcall *k, const td_conv *c);
int td_conv_plan_im2col(td_kcall *k, td_conv *c);
/* dx, dw of a backward, and the bias gradient that all ways share. */
bool td_conv_plan_depthwise_backward(td_kcall *k, const td_conv *c);
bool td_conv_plan_dnnl_backward(td_kcall *k, const td_conv *c);
int td_conv_plan_im2col_backward(td_kcall *k, td_conv *c);
/* dw = the partial sums in work memory, in order; the state begins with a td_conv whose partial_at and tiles are set.
 */
void td_conv_plan_weight_sum(td_kcall *k, const td_conv *c);
void td_conv_plan_bias_gradient(td_kcall *k);

#endif
