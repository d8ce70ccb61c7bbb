/* Convolution and pooling over (N, C, H, W). Sizes follow the usual arithmetic:
 * out = floor((in + 2*padding - dilation*(kernel-1) - 1) / stride) + 1, with ceil in place of floor in ceil mode. */
#include "proto/infer/infer.h"

#include <inttypes.h>

enum { N = 0, C = 1, H = 2, W = 3 };

static const int64_t one[2] = {1, 1};

typedef struct window {
    const int64_t *kernel, *stride, *padding, *dilation; /* (H, W) each */
    bool ceil_mode;
} window;

static int is_image(const td_inference *f, int i, td_error *e)
{
    char text[TD_TEXT];
    if (td_in(f, i)->ndim == 4) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "Expected 4D (N, C, H, W) '%s', but got a tensor of size %s", td_infer_name(f, i),
                   TD_SHAPE(td_in(f, i), text));
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Input and padding less what the kernel covers: negative when it does not fit. False when numbers leave int64. */
static bool span(const window *w, int i, int64_t in, int64_t *out)
{
    int64_t padded, reach;
    return !__builtin_mul_overflow(w->padding[i], 2, &padded) && !__builtin_add_overflow(padded, in, &padded) &&
           !__builtin_mul_overflow(w->dilation[i], w->kernel[i] - 1, &reach) &&
           !__builtin_sub_overflow(padded - 1, reach, out);
}

/* One side of the output; less than 1 when the kernel does not fit. In ceil mode a last window may reach out of the
 * input, but must start inside it or its left padding. */
static int64_t out_side(const window *w, int i, int64_t in, int64_t room)
{
    int64_t n = floor_div(room, w->stride[i]) + 1, start = in + w->padding[i];
    if (!w->ceil_mode) return n;
    n += room % w->stride[i] != 0;
    return n > start / w->stride[i] + (start % w->stride[i] != 0) ? n - 1 : n;
}

static int out_sides(const window *w, const int64_t *in, int64_t *out, td_error *e)
{
    for (int i = 0; i < 2; i++) {
        int64_t room;
        if (!span(w, i, in[i], &room))
            return td_fail(e, TD_E_SHAPE, "kernel, padding or dilation is too large (%s)", i ? "width" : "height");
        if (room < 0 && !w->ceil_mode)
            return td_fail(e, TD_E_SHAPE,
                           "Padded input size (%" PRId64 " + 2*%" PRId64 "). Kernel size: %" PRId64
                           " with dilation %" PRId64 ". Kernel size can't be greater than actual input size (%s)",
                           in[i], w->padding[i], w->kernel[i], w->dilation[i], i ? "width" : "height");
        out[i] = out_side(w, i, in[i], room);
    }
    return TD_OK;
}

/* ---- convolution */

/* Attributes from `k` on: stride, padding, dilation, groups. */
static int read_conv(const td_inference *f, int k, const td_desc *weight, window *w, td_error *e)
{
    *w = (window){.kernel = weight->shape + H};
    TD_TRY(td_infer_ints(f, k, 2, 1, &w->stride, e));
    TD_TRY(td_infer_ints(f, k + 1, 2, 0, &w->padding, e));
    TD_TRY(td_infer_ints(f, k + 2, 2, 1, &w->dilation, e));
    if (weight->shape[H] < 1 || weight->shape[W] < 1) return td_fail(e, TD_E_SHAPE, "the kernel of 'w' is empty");
    return TD_OK;
}

/* The output shape of x and w (inputs ix, ix + 1). */
static int conv_shape(const td_inference *f, int ix, int k, int64_t *shape, td_error *e)
{
    const td_desc *x = td_in(f, ix), *w = td_in(f, ix + 1);
    int64_t groups = td_attr_int(f->attrs, k + 3);
    char a[TD_TEXT], b[TD_TEXT];
    window win;
    TD_TRY(is_image(f, ix, e));
    TD_TRY(is_image(f, ix + 1, e));
    TD_TRY(read_conv(f, k, w, &win, e));
    if (groups < 1) return td_fail(e, TD_E_INVALID, "'groups' must be positive, got %" PRId64, groups);
    if (w->shape[N] % groups || w->shape[N] < groups)
        return td_fail(e, TD_E_SHAPE,
                       "Given groups=%" PRId64 ", expected 'w' to be divisible by it at dimension 0, but got %s",
                       groups, TD_SHAPE(w, a));
    if (x->shape[C] % groups || x->shape[C] / groups != w->shape[C])
        return td_fail(e, TD_E_SHAPE,
                       "Given groups=%" PRId64 ", weight 'w' of size %s, expected 'x' %s to have %" PRId64
                       " channels for each group, but got %" PRId64 " channels in all instead",
                       groups, TD_SHAPE(w, a), TD_SHAPE(x, b), w->shape[C], x->shape[C]);
    shape[N] = x->shape[N];
    shape[C] = w->shape[N];
    return out_sides(&win, x->shape + H, shape + H, e);
}

TD_RULE(conv2d)
{
    int64_t shape[4];
    f->compute = td_in_dtype(f, 0);
    TD_TRY(conv_shape(f, 0, 0, shape, e));
    return td_infer_make(f, f->compute, 4, shape, e);
}

TD_RULE(conv2d_backward)
{
    const td_desc *x = td_in(f, 1), *w = td_in(f, 2);
    int64_t shape[4], mask = td_attr_int(f->attrs, 4);
    f->compute = (td_dtype)x->dtype;
    TD_TRY(conv_shape(f, 1, 0, shape, e));
    TD_TRY(td_infer_has_shape(f, 0, 4, shape, e));
    TD_TRY(td_infer_wanted(f, 0, mask, f->compute, 4, x->shape, e));
    TD_TRY(td_infer_wanted(f, 1, mask, f->compute, 4, w->shape, e));
    return td_infer_wanted(f, 2, mask, f->compute, 1, &w->shape[N], e);
}

/* ---- pooling */

/* Attributes from `k` on: kernel, stride, padding. */
static int read_pool(const td_inference *f, int k, window *w, td_error *e)
{
    TD_TRY(td_infer_ints(f, k, 2, 1, &w->kernel, e));
    TD_TRY(td_infer_ints(f, k + 1, 2, 1, &w->stride, e));
    TD_TRY(td_infer_ints(f, k + 2, 2, 0, &w->padding, e));
    for (int i = 0; i < 2; i++)
        if (w->padding[i] > w->kernel[i] / 2)
            return td_fail(e, TD_E_INVALID,
                           "'padding' should be at most half of kernel size, but got padding=%" PRId64
                           " and kernel=%" PRId64,
                           w->padding[i], w->kernel[i]);
    return TD_OK;
}

/* The pooled shape of an image, and each side at least 1. */
static int pool_shape(const window *w, const int64_t *in, int64_t *shape, td_error *e)
{
    TD_TRY(out_sides(w, in + H, shape + H, e));
    if (shape[H] < 1 || shape[W] < 1 || in[C] < 1)
        return td_fail(e, TD_E_SHAPE,
                       "Given input size: (%" PRId64 "x%" PRId64 "x%" PRId64 "). Calculated output size: (%" PRId64
                       "x%" PRId64 "x%" PRId64 "). Output size is too small",
                       in[C], in[H], in[W], in[C], shape[H], shape[W]);
    shape[N] = in[N];
    shape[C] = in[C];
    return TD_OK;
}

TD_RULE(max_pool2d)
{
    window w = {.ceil_mode = td_attr_bool(f->attrs, 4)};
    int64_t shape[4];
    f->compute = td_in_dtype(f, 0);
    TD_TRY(is_image(f, 0, e));
    TD_TRY(read_pool(f, 0, &w, e));
    TD_TRY(td_infer_ints(f, 3, 2, 1, &w.dilation, e));
    TD_TRY(pool_shape(&w, td_in(f, 0)->shape, shape, e));
    TD_TRY(td_infer_make(f, f->compute, 4, shape, e));
    return td_infer_make(f, TD_INT64, 4, shape, e);
}

/* Attribute `k` as the shape of the image whose gradient is made. */
static int image_shape(const td_inference *f, int k, const int64_t **shape, td_error *e)
{
    TD_TRY(td_infer_ints(f, k, 4, 0, shape, e));
    const td_desc *g = td_in(f, 0);
    char text[TD_TEXT];
    if (g->shape[N] == (*shape)[N] && g->shape[C] == (*shape)[C]) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "'g' %s and '%s' differ in their first two sizes", TD_SHAPE(g, text),
                   f->op->attrs[k].name);
}

TD_RULE(max_pool2d_backward)
{
    const int64_t *shape;
    f->compute = td_in_dtype(f, 0);
    TD_TRY(is_image(f, 0, e));
    TD_TRY(td_infer_is_index(f, 1, e));
    TD_TRY(image_shape(f, 0, &shape, e));
    return td_infer_make(f, f->compute, 4, shape, e);
}

TD_RULE(avg_pool2d)
{
    window w = {.dilation = one, .ceil_mode = td_attr_bool(f->attrs, 3)};
    int64_t shape[4];
    f->compute = td_in_dtype(f, 0);
    TD_TRY(is_image(f, 0, e));
    TD_TRY(read_pool(f, 0, &w, e));
    TD_TRY(pool_shape(&w, td_in(f, 0)->shape, shape, e));
    return td_infer_make(f, f->compute, 4, shape, e);
}

TD_RULE(avg_pool2d_backward)
{
    window w = {.dilation = one, .ceil_mode = td_attr_bool(f->attrs, 4)};
    const int64_t *shape;
    int64_t pooled[4];
    f->compute = td_in_dtype(f, 0);
    TD_TRY(is_image(f, 0, e));
    TD_TRY(image_shape(f, 0, &shape, e));
    TD_TRY(read_pool(f, 1, &w, e));
    TD_TRY(pool_shape(&w, shape, pooled, e));
    TD_TRY(td_infer_has_shape(f, 0, 4, pooled, e));
    return td_infer_make(f, f->compute, 4, shape, e);
}
