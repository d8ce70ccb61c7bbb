/* Plans of what networks are made of: softmax and its kin, norms, nll_loss, optimizer steps. */
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cuda/plans.h"
#include <string.h>

enum { LINE_LANES = 256, PIECES_MOST = 256, PIECE_LEAST = 32, CHANNEL_PIECE = 8192, NLL_PER = 1024, NLL_BLOCKS = 1024 };

/* Does the kernel work in double? */
static bool wide(unsigned dtype)
{
    return dtype == TD_FLOAT64;
}
static bool absent(const td_kcall *k, int i)
{
    return i >= k->nin || !k->in[i].desc || (!k->in[i].data && td_desc_numel(k->in[i].desc) != 0);
}
static int lanes_for(int64_t n, int most)
{
    int lanes = 1;
    while (lanes < most && lanes * 4 < n) lanes *= 2;
    return lanes;
}

/* Places of a list of operands in the arguments. */
typedef struct places {
    td_cuda_place at[16];
    int n;
} places;
static void put(places *p, size_t offset, int kind, int index)
{
    p->at[p->n++] = (td_cuda_place){(uint16_t)offset, (uint8_t)kind, (uint8_t)index, 0};
}
static void put_work(places *p, size_t offset, size_t at)
{
    p->at[p->n++] = (td_cuda_place){(uint16_t)offset, TD_CUDA_WORK, 0, (uint32_t)(at / 64)};
}
static td_cuda_view view(const td_desc *d)
{
    td_cuda_view v = {.dtype = d->dtype};
    memcpy(v.stride, d->stride, sizeof v.stride);
    return v;
}
static td_cuda_vector vector(const td_desc *d)
{
    return (td_cuda_vector){.stride = d->ndim ? d->stride[d->ndim - 1] : 0, .dtype = d->dtype};
}
/* Strides innermost first, without dimension `but`. */
static int turn(const td_desc *d, int but, int64_t *shape, int64_t *stride)
{
    int n = 0;
    for (int i = d->ndim - 1; i >= 0; i--) {
        if (i == but) continue;
        if (shape) shape[n] = d->shape[i];
        stride[n++] = d->stride[i];
    }
    return n;
}

/* ---- softmax and its kin */

static int plan_lines(td_kcall *k, int op, td_error *e)
{
    const td_desc *y = k->out[0].desc;
    int64_t d = td_attr_int(k->attrs, 0);
    int dim = y->ndim ? (int)(d < 0 ? d + y->ndim : d) : -1;
    td_ca_lines a = {.op = op, .length = dim < 0 ? 1 : y->shape[dim]};
    places p = {.n = 0};
    td_cuda_begin(k);
    if (!td_desc_numel(y)) return td_cuda_end(k, 0, e);
    a.count = td_desc_numel(y) / a.length;
    for (int i = 0; i <= k->nin; i++) {
        const td_desc *x = i ? k->in[i - 1].desc : y;
        if (!td_dtype_is_float((td_dtype)x->dtype)) return td_cuda_refuse(k, x->dtype, e);
        a.v[i].dtype = x->dtype;
        a.step[i] = dim < 0 ? 0 : x->stride[dim];
        a.ndim = turn(x, dim, i ? NULL : a.shape, a.v[i].stride);
        put(&p, offsetof(td_ca_lines, v) + (size_t)i * sizeof(td_cuda_view), i ? TD_CUDA_IN : TD_CUDA_OUT,
            i ? i - 1 : 0);
    }
    a.columns = a.step[1] != 1 && a.ndim && a.v[1].stride[0] == 1 && a.shape[0] >= 16;
    a.lanes = lanes_for(a.length, a.columns ? 8 : LINE_LANES);
    td_cuda_add(k, wide(k->compute) ? TD_CK_lines_f64 : TD_CK_lines_f32,
                (td_cuda_shape){{td_cuda_blocks(a.count, 256 / a.lanes), 1, 1}, {256, 1, 1}, 0}, &a, sizeof a, p.at,
                p.n);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns((double)td_desc_nbytes(y) * (1 + k->nin)), e);
}
int td_cuda_plan_softmax(td_kcall *k, td_error *e)
{
    return plan_lines(k, TD_SOFTMAX, e);
}
int td_cuda_plan_log_softmax(td_kcall *k, td_error *e)
{
    return plan_lines(k, TD_LOG_SOFTMAX, e);
}
int td_cuda_plan_softmax_backward(td_kcall *k, td_error *e)
{
    return plan_lines(k, TD_SOFTMAX_BACK, e);
}
int td_cuda_plan_log_softmax_backward(td_kcall *k, td_error *e)
{
    return plan_lines(k, TD_LOG_SOFTMAX_BACK, e);
}

/* ---- layer_norm */

static int start_layer(td_kcall *k, td_ca_layer *a, const td_desc *x, const char *name, td_error *e)
{
    int ndims = (int)td_attr_int(k->attrs, 0);
    if (!td_dtype_is_float((td_dtype)x->dtype)) return td_cuda_refuse(k, x->dtype, e);
    if (ndims < 1 || ndims > x->ndim)
        return td_fail(e, TD_E_INVALID, "%s: ndims is %d, x has %d dimensions", name, ndims, x->ndim);
    *a = (td_ca_layer){.rows = 1, .cols = 1, .ndim = x->ndim, .split = x->ndim - ndims, .x = view(x)};
    memcpy(a->shape, x->shape, sizeof a->shape);
    for (int i = 0; i < x->ndim; i++) *(i < a->split ? &a->rows : &a->cols) *= x->shape[i];
    a->lanes = lanes_for(a->cols, LINE_LANES);
    td_cuda_begin(k);
    return TD_OK;
}
/* The strides of what has the last dimensions alone, at their places. */
static td_cuda_view trailing(const td_desc *d, const td_ca_layer *a)
{
    td_cuda_view v = {.dtype = d->dtype};
    for (int i = 0; i < d->ndim; i++) v.stride[a->ndim - d->ndim + i] = d->stride[i];
    return v;
}
static td_cuda_shape rows_of(const td_ca_layer *a)
{
    return (td_cuda_shape){{td_cuda_blocks(a->rows, 256 / a->lanes), 1, 1}, {256, 1, 1}, 0};
}

int td_cuda_plan_layer_norm(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    td_ca_layer a;
    places p = {.n = 0};
    int rc = start_layer(k, &a, x, "layer_norm", e);
    if (rc) return rc;
    a.eps = td_attr_float(k->attrs, 1);
    a.y_dtype = k->out[0].desc->dtype, a.stat_dtype = k->out[1].desc->dtype;
    put(&p, offsetof(td_ca_layer, x), TD_CUDA_IN, 0);
    put(&p, offsetof(td_ca_layer, y), TD_CUDA_OUT, 0);
    put(&p, offsetof(td_ca_layer, mean), TD_CUDA_OUT, 1);
    put(&p, offsetof(td_ca_layer, rstd), TD_CUDA_OUT, 2);
    if (!absent(k, 1)) a.w = trailing(k->in[1].desc, &a), put(&p, offsetof(td_ca_layer, w), TD_CUDA_IN, 1);
    if (!absent(k, 2)) a.b = trailing(k->in[2].desc, &a), put(&p, offsetof(td_ca_layer, b), TD_CUDA_IN, 2);
    td_cuda_add(k, wide(x->dtype) ? TD_CK_layer_f64 : TD_CK_layer_f32, rows_of(&a), &a, sizeof a, p.at, p.n);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(x)), e);
}

int td_cuda_plan_layer_norm_backward(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[1].desc;
    td_ca_layer a;
    places p = {.n = 0};
    int rc = start_layer(k, &a, x, "layer_norm_backward", e);
    if (rc) return rc;
    a.mask = (int)td_attr_int(k->attrs, 1) & 7;
    a.g = view(k->in[0].desc);
    a.y_dtype = k->out[0].desc->dtype, a.w_dtype = k->out[1].desc->dtype, a.b_dtype = k->out[2].desc->dtype;
    a.stat_dtype = k->in[3].desc->dtype;
    a.pieces = (a.rows + PIECE_LEAST - 1) / PIECE_LEAST;
    if (a.pieces > PIECES_MOST) a.pieces = PIECES_MOST;
    if (a.pieces < 1) a.pieces = 1;
    a.piece = (a.rows + a.pieces - 1) / a.pieces;
    put(&p, offsetof(td_ca_layer, g), TD_CUDA_IN, 0);
    put(&p, offsetof(td_ca_layer, x), TD_CUDA_IN, 1);
    if (!absent(k, 2)) a.w = trailing(k->in[2].desc, &a), put(&p, offsetof(td_ca_layer, w), TD_CUDA_IN, 2);
    put(&p, offsetof(td_ca_layer, mean), TD_CUDA_IN, 3);
    put(&p, offsetof(td_ca_layer, rstd), TD_CUDA_IN, 4);
    put(&p, offsetof(td_ca_layer, y), TD_CUDA_OUT, 0);
    put(&p, offsetof(td_ca_layer, dw), TD_CUDA_OUT, 1);
    put(&p, offsetof(td_ca_layer, db), TD_CUDA_OUT, 2);
    put_work(&p, offsetof(td_ca_layer, parts),
             td_cuda_work(k, a.mask & 6 ? (size_t)(2 * a.pieces * a.cols) * sizeof(double) : 0));
    bool first = true;
    if (a.mask & 1) {
        td_cuda_add(k, wide(x->dtype) ? TD_CK_layer_back_f64 : TD_CK_layer_back_f32, rows_of(&a), &a, sizeof a, p.at,
                    p.n);
        first = rows_of(&a).grid[0] == 0;
    }
    if (a.mask & 6) {
        unsigned parts = wide(x->dtype) ? TD_CK_layer_parts_f64 : TD_CK_layer_parts_f32;
        td_cuda_shape shape = {{td_cuda_blocks(a.cols, 256), (unsigned)a.pieces, 1}, {256, 1, 1}, 0};
        if (first) td_cuda_add(k, parts, shape, &a, sizeof a, p.at, p.n);
        else td_cuda_again(k, parts, shape);
        shape.grid[1] = 1;
        if (shape.grid[0]) td_cuda_again(k, TD_CK_layer_sums, shape);
    }
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(4 * (double)td_desc_nbytes(x)), e);
}

/* ---- batch_norm */

static int start_batch(td_kcall *k, td_ca_batch *a, const td_desc *x, const char *name, td_error *e)
{
    if (!td_dtype_is_float((td_dtype)x->dtype)) return td_cuda_refuse(k, x->dtype, e);
    if (x->ndim < 2) return td_fail(e, TD_E_SHAPE, "%s: x must have at least 2 dimensions, not %d", name, x->ndim);
    *a = (td_ca_batch){.channels = x->shape[1], .count = 1, .x_channel = x->stride[1]};
    a->ndim = turn(x, 1, a->shape, a->x.stride);
    a->x.dtype = x->dtype;
    for (int i = 0; i < a->ndim; i++) a->count *= a->shape[i];
    a->pieces = (a->count + CHANNEL_PIECE - 1) / CHANNEL_PIECE;
    if (a->pieces > PIECES_MOST) a->pieces = PIECES_MOST;
    if (a->pieces < 1) a->pieces = 1;
    a->piece = (a->count + a->pieces - 1) / a->pieces;
    if (a->piece) a->pieces = (a->count + a->piece - 1) / a->piece;
    td_cuda_begin(k);
    return TD_OK;
}
static void set_y(td_ca_batch *a, const td_desc *y)
{
    a->y.dtype = y->dtype;
    a->y_channel = y->stride[1];
    turn(y, 1, NULL, a->y.stride);
}
static void put_vector(places *p, td_cuda_vector *v, size_t offset, const td_karg *arg, int kind, int index)
{
    *v = vector(arg->desc);
    put(p, offset, kind, index);
}

int td_cuda_plan_batch_norm(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    td_ca_batch a;
    places p = {.n = 0};
    int rc = start_batch(k, &a, x, "batch_norm", e);
    if (rc) return rc;
    a.training = td_attr_bool(k->attrs, 0);
    a.momentum = td_attr_float(k->attrs, 1);
    a.eps = td_attr_float(k->attrs, 2);
    if (!a.training && (absent(k, 3) || absent(k, 4)))
        return td_fail(e, TD_E_INVALID, "batch_norm: running_mean and running_var are needed when training is false");
    set_y(&a, k->out[0].desc);
    put(&p, offsetof(td_ca_batch, x), TD_CUDA_IN, 0);
    put(&p, offsetof(td_ca_batch, y), TD_CUDA_OUT, 0);
    if (!absent(k, 1)) put_vector(&p, &a.w, offsetof(td_ca_batch, w), &k->in[1], TD_CUDA_IN, 1);
    if (!absent(k, 2)) put_vector(&p, &a.b, offsetof(td_ca_batch, b), &k->in[2], TD_CUDA_IN, 2);
    if (!absent(k, 3)) put_vector(&p, &a.running_mean, offsetof(td_ca_batch, running_mean), &k->in[3], TD_CUDA_IN, 3);
    if (!absent(k, 4)) put_vector(&p, &a.running_var, offsetof(td_ca_batch, running_var), &k->in[4], TD_CUDA_IN, 4);
    if (td_desc_numel(k->out[1].desc)) put_vector(&p, &a.mean, offsetof(td_ca_batch, mean), &k->out[1], TD_CUDA_OUT, 1);
    if (td_desc_numel(k->out[2].desc)) put_vector(&p, &a.rstd, offsetof(td_ca_batch, rstd), &k->out[2], TD_CUDA_OUT, 2);
    if (!a.training) a.pieces = 0;
    put_work(&p, offsetof(td_ca_batch, parts),
             td_cuda_work(k, (size_t)((a.pieces + 1) * a.channels * 3) * sizeof(double)));
    td_cuda_shape each = {{td_cuda_blocks(a.channels, 256), 1, 1}, {256, 1, 1}, 0};
    bool w = wide(x->dtype);
    if (a.pieces && a.count)
        td_cuda_add(k, w ? TD_CK_batch_parts_f64 : TD_CK_batch_parts_f32,
                    (td_cuda_shape){{(unsigned)a.channels, (unsigned)a.pieces, 1}, {256, 1, 1}, 0}, &a, sizeof a, p.at,
                    p.n);
    if (a.pieces && a.count && a.channels) td_cuda_again(k, TD_CK_batch_settle, each);
    else td_cuda_add(k, TD_CK_batch_settle, each, &a, sizeof a, p.at, p.n);
    if (a.channels)
        td_cuda_again(k, w ? TD_CK_batch_apply_f64 : TD_CK_batch_apply_f32, td_cuda_over(a.channels * a.count));
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(3 * (double)td_desc_nbytes(x)), e);
}

int td_cuda_plan_batch_norm_backward(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[1].desc;
    td_ca_batch a;
    places p = {.n = 0};
    int rc = start_batch(k, &a, x, "batch_norm_backward", e);
    if (rc) return rc;
    a.training = td_attr_bool(k->attrs, 0);
    a.mask = (int)td_attr_int(k->attrs, 1) & 7;
    if (!a.mask || !a.channels) return td_cuda_end(k, 0, e);
    a.g.dtype = k->in[0].desc->dtype;
    a.g_channel = k->in[0].desc->stride[1];
    turn(k->in[0].desc, 1, NULL, a.g.stride);
    put(&p, offsetof(td_ca_batch, g), TD_CUDA_IN, 0);
    put(&p, offsetof(td_ca_batch, x), TD_CUDA_IN, 1);
    if (!absent(k, 2)) put_vector(&p, &a.running_mean, offsetof(td_ca_batch, running_mean), &k->in[2], TD_CUDA_IN, 2);
    put_vector(&p, &a.mean, offsetof(td_ca_batch, mean), &k->in[3], TD_CUDA_IN, 3);
    put_vector(&p, &a.rstd, offsetof(td_ca_batch, rstd), &k->in[4], TD_CUDA_IN, 4);
    if (a.mask & 1) set_y(&a, k->out[0].desc), put(&p, offsetof(td_ca_batch, y), TD_CUDA_OUT, 0);
    if (a.mask & 2) put_vector(&p, &a.w, offsetof(td_ca_batch, w), &k->out[1], TD_CUDA_OUT, 1);
    if (a.mask & 4) put_vector(&p, &a.b, offsetof(td_ca_batch, b), &k->out[2], TD_CUDA_OUT, 2);
    put_work(&p, offsetof(td_ca_batch, parts),
             td_cuda_work(k, (size_t)((a.pieces + 1) * a.channels * 3) * sizeof(double)));
    bool w = wide(x->dtype);
    td_cuda_add(k, w ? TD_CK_batch_parts_f64 : TD_CK_batch_parts_f32,
                (td_cuda_shape){{(unsigned)a.channels, (unsigned)a.pieces, 1}, {256, 1, 1}, 0}, &a, sizeof a, p.at,
                p.n);
    td_cuda_again(k, TD_CK_batch_settle_back, (td_cuda_shape){{td_cuda_blocks(a.channels, 256), 1, 1}, {256, 1, 1}, 0});
    if (a.mask & 1)
        td_cuda_again(k, w ? TD_CK_batch_apply_f64 : TD_CK_batch_apply_f32, td_cuda_over(a.channels * a.count));
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(5 * (double)td_desc_nbytes(x)), e);
}

/* ---- nll_loss */

static int start_nll(td_kcall *k, td_ca_nll *a, const td_desc *target, const td_desc *scores, td_error *e)
{
    if (!td_dtype_is_float((td_dtype)scores->dtype)) return td_cuda_refuse(k, scores->dtype, e);
    if (!td_dtype_is_integral((td_dtype)target->dtype) || target->dtype == TD_BOOL)
        return td_fail(e, TD_E_TYPE, "nll_loss: targets must be integers, not %s",
                       td_dtype_name((td_dtype)target->dtype));
    int dim = scores->ndim > 1 ? 1 : 0;
    *a = (td_ca_nll){.targets = td_desc_numel(target), .classes = scores->ndim ? scores->shape[dim] : 0, .inner = 1};
    int64_t expect = 1;
    for (int i = 0; i < scores->ndim; i++) {
        if (i > dim) a->inner *= scores->shape[i];
        expect *= i == dim ? 1 : scores->shape[i];
    }
    if (scores->ndim < 1 || expect != a->targets)
        return td_fail(e, TD_E_SHAPE, "nll_loss: %lld targets do not fit the input", (long long)a->targets);
    a->ndim = turn(target, -1, a->shape, a->target.stride);
    a->target.dtype = target->dtype;
    td_cuda_begin(k);
    return TD_OK;
}

int td_cuda_plan_nll_loss(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    td_ca_nll a;
    places p = {.n = 0};
    int rc = start_nll(k, &a, k->in[1].desc, x, e);
    if (rc) return rc;
    a.reduction = td_attr_int(k->attrs, 0), a.ignore = td_attr_int(k->attrs, 1);
    turn(x, x->ndim > 1 ? 1 : 0, NULL, a.x.stride);
    a.x.dtype = x->dtype;
    a.class_step = x->stride[x->ndim > 1 ? 1 : 0];
    a.out_dtype = k->out[0].desc->dtype;
    a.blocks = (a.targets + NLL_PER - 1) / NLL_PER;
    if (a.blocks > NLL_BLOCKS) a.blocks = NLL_BLOCKS;
    a.per = a.blocks ? (a.targets + a.blocks - 1) / a.blocks : 0;
    put(&p, offsetof(td_ca_nll, x), TD_CUDA_IN, 0);
    put(&p, offsetof(td_ca_nll, target), TD_CUDA_IN, 1);
    if (!absent(k, 2)) put_vector(&p, &a.weight, offsetof(td_ca_nll, weight), &k->in[2], TD_CUDA_IN, 2);
    put(&p, offsetof(td_ca_nll, out), TD_CUDA_OUT, 0);
    put_vector(&p, &a.total, offsetof(td_ca_nll, total), &k->out[1], TD_CUDA_OUT, 1);
    put_work(&p, offsetof(td_ca_nll, parts), td_cuda_work(k, (size_t)(2 * a.blocks) * sizeof(double)));
    td_cuda_shape one = {{1, 1, 1}, {256, 1, 1}, 0};
    if (a.blocks) {
        td_cuda_add(k, TD_CK_nll, (td_cuda_shape){{(unsigned)a.blocks, 1, 1}, {256, 1, 1}, 0}, &a, sizeof a, p.at, p.n);
        td_cuda_again(k, TD_CK_nll_sum, one);
    } else {
        td_cuda_add(k, TD_CK_nll_sum, one, &a, sizeof a, p.at, p.n);
    }
    return td_cuda_end(k, td_cuda_ns(64 * (double)a.targets), e);
}

int td_cuda_plan_nll_loss_backward(td_kcall *k, td_error *e)
{
    const td_desc *y = k->out[0].desc, *g = k->in[0].desc;
    td_ca_nll a;
    places p = {.n = 0};
    int rc = start_nll(k, &a, k->in[1].desc, y, e);
    if (rc) return rc;
    a.reduction = td_attr_int(k->attrs, 1), a.ignore = td_attr_int(k->attrs, 2);
    turn(g, -1, NULL, a.x.stride);
    a.x.dtype = g->dtype;
    a.out_dtype = y->dtype;
    put(&p, offsetof(td_ca_nll, x), TD_CUDA_IN, 0);
    put(&p, offsetof(td_ca_nll, target), TD_CUDA_IN, 1);
    if (!absent(k, 2)) put_vector(&p, &a.weight, offsetof(td_ca_nll, weight), &k->in[2], TD_CUDA_IN, 2);
    if (!absent(k, 3)) put_vector(&p, &a.total, offsetof(td_ca_nll, total), &k->in[3], TD_CUDA_IN, 3);
    put(&p, offsetof(td_ca_nll, out), TD_CUDA_OUT, 0);
    td_cuda_add(k, TD_CK_nll_back, td_cuda_over(a.targets * a.classes), &a, sizeof a, p.at, p.n);
    return td_cuda_end(k, td_cuda_ns((double)td_desc_nbytes(y)), e);
}

/* ---- optimizer steps */

static int plan_step(td_kcall *k, td_ca_step *a, places *p, const int *ops, int nops, bool adam, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    a->n = td_desc_numel(x);
    for (int o = 0; o < nops; o++) {
        const td_desc *d = k->in[ops[o]].desc;
        if (!td_dtype_is_float((td_dtype)d->dtype)) return td_cuda_refuse(k, d->dtype, e);
        if (wide(d->dtype) != wide(x->dtype))
            return td_fail(e, TD_E_TYPE, "%s: %s cannot be stepped with a %s", k->op->name,
                           td_dtype_name((td_dtype)x->dtype), td_dtype_name((td_dtype)d->dtype));
        if (!td_desc_same_shape(d, x)) return td_fail(e, TD_E_SHAPE, "%s: shapes differ", k->op->name);
        a->v[o].dtype = d->dtype;
        a->ndim = turn(d, -1, o ? NULL : a->shape, a->v[o].stride);
        put(p, offsetof(td_ca_step, v) + (size_t)o * sizeof(td_cuda_view), TD_CUDA_IN, ops[o]);
    }
    bool dense = true;
    for (int o = 0; o < nops; o++) dense = dense && td_desc_is_contiguous(k->in[ops[o]].desc);
    if (dense && x->ndim) { /* one dimension */
        a->ndim = 1;
        a->shape[0] = a->n;
        for (int o = 0; o < nops; o++) a->v[o].stride[0] = 1;
    }
    unsigned kernel = adam             ? (wide(x->dtype) ? TD_CK_adam_f64 : TD_CK_adam_f32)
                      : wide(x->dtype) ? TD_CK_sgd_f64
                                       : TD_CK_sgd_f32;
    if (adam) {
        td_cuda_add(k, TD_CK_adam_count, (td_cuda_shape){{1, 1, 1}, {1, 1, 1}, 0}, a, sizeof *a, p->at, p->n);
        td_cuda_again(k, kernel, td_cuda_over(a->n));
    } else {
        td_cuda_add(k, kernel, td_cuda_over(a->n), a, sizeof *a, p->at, p->n);
    }
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns((double)td_desc_nbytes(x) * (2 * nops - 1)), e);
}

int td_cuda_plan_sgd_step(td_kcall *k, td_error *e)
{
    const td_attrs *at = k->attrs;
    td_ca_step a = {.lr = td_attr_float(at, 0),
                    .momentum = td_attr_float(at, 1),
                    .damp = 1 - td_attr_float(at, 2),
                    .decay = td_attr_float(at, 3),
                    .nesterov = td_attr_bool(at, 4)};
    places p = {.n = 0};
    td_cuda_begin(k);
    if (a.momentum != 0 && absent(k, 2))
        return td_fail(e, TD_E_INVALID, "sgd_step: momentum needs buf (give a zero tensor)");
    return plan_step(k, &a, &p, (const int[]){0, 1, 2}, a.momentum != 0 ? 3 : 2, false, e);
}

int td_cuda_plan_adam_step(td_kcall *k, td_error *e)
{
    const td_attrs *at = k->attrs;
    td_ca_step a = {.lr = td_attr_float(at, 0),
                    .beta1 = td_attr_float(at, 1),
                    .beta2 = td_attr_float(at, 2),
                    .eps = td_attr_float(at, 3),
                    .decay = td_attr_float(at, 4),
                    .decoupled = td_attr_bool(at, 5)};
    places p = {.n = 0};
    unsigned t = k->in[4].desc->dtype;
    td_cuda_begin(k);
    if ((!td_dtype_is_float((td_dtype)t) && t != TD_INT64) || td_desc_numel(k->in[4].desc) != 1)
        return td_fail(e, TD_E_TYPE, "adam_step: step must be one float or int64 number");
    a.step_dtype = (uint8_t)t;
    put(&p, offsetof(td_ca_step, step), TD_CUDA_IN, 4);
    put_work(&p, offsetof(td_ca_step, coef), td_cuda_work(k, 2 * sizeof(double)));
    return plan_step(k, &a, &p, (const int[]){0, 1, 2, 3}, 4, true, e);
}
