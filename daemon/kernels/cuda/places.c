/* Plans of what reads and writes by index, puts plain tensors together, and draws numbers. */
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cuda/plans.h"
#include "daemon/kernels/cuda/walk.h"
#include <string.h>

static int refuse_index(const td_kcall *k, int i, td_error *e)
{
    return td_fail(e, TD_E_TYPE, "%s: indices must be integers, not %s", k->op->name,
                   td_dtype_name((td_dtype)k->in[i].desc->dtype));
}
static bool is_index(unsigned dtype)
{
    return dtype >= TD_UINT8 && dtype <= TD_INT64;
}

/* ---- reading: index_select, embedding, gather */

/* The result has x's dimensions, but for `dim`, in the place of which it has those of the indices; of gather it has
 * those of the indices. */
static int plan_pick(td_kcall *k, int dim, bool each, td_error *e)
{
    const td_desc *x = k->in[0].desc, *idx = k->in[1].desc, *y = k->out[0].desc;
    td_ca_pick a = {.n = td_desc_numel(y),
                    .limit = x->ndim ? x->shape[dim] : 1,
                    .dim_stride = x->ndim ? x->stride[dim] : 0,
                    .idx_dtype = idx->dtype};
    int64_t xs[TD_MAX_DIMS] = {0}, is[TD_MAX_DIMS] = {0};
    if (!is_index(idx->dtype)) return refuse_index(k, 1, e);
    a.size = (uint8_t)td_dtype_size((td_dtype)x->dtype);
    for (int d = 0; d < y->ndim; d++) {
        int inside = d - dim; /* which dimension of the indices it is */
        if (each) {
            is[d] = idx->stride[d];
            xs[d] = d == dim || !x->ndim ? 0 : x->stride[d];
        } else if (inside >= 0 && inside < idx->ndim) {
            is[d] = idx->stride[inside];
        } else {
            xs[d] = x->stride[inside < 0 ? d : d - idx->ndim + 1];
        }
    }
    for (int d = y->ndim - 1; d >= 0; d--) {
        a.shape[a.ndim] = y->shape[d], a.x_stride[a.ndim] = xs[d], a.idx_stride[a.ndim] = is[d];
        a.ndim++;
    }
    td_cuda_place places[3] = {{offsetof(td_ca_pick, x), TD_CUDA_IN, 0, 0},
                               {offsetof(td_ca_pick, idx), TD_CUDA_IN, 1, 0},
                               {offsetof(td_ca_pick, out), TD_CUDA_OUT, 0, 0}};
    td_cuda_begin(k);
    td_cuda_add(k, TD_CK_pick, td_cuda_over(a.n), &a, sizeof a, places, 3);
    return td_cuda_end(k, td_cuda_ns(3 * (double)td_desc_nbytes(y)), e);
}

int td_cuda_plan_index_select(td_kcall *k, td_error *e)
{
    int dim;
    if (td_wrap_dim(td_attr_int(k->attrs, 0), k->in[0].desc->ndim, &dim, e)) return TD_E_INDEX;
    return plan_pick(k, dim, k->in[0].desc->ndim == 0 || k->in[1].desc->ndim == 0, e);
}
int td_cuda_plan_embedding(td_kcall *k, td_error *e)
{
    return plan_pick(k, 0, false, e);
}
int td_cuda_plan_gather(td_kcall *k, td_error *e)
{
    int dim;
    if (td_wrap_dim(td_attr_int(k->attrs, 0), k->in[0].desc->ndim, &dim, e)) return TD_E_INDEX;
    return plan_pick(k, dim, true, e);
}

/* ---- adding and putting at indices: index_add, scatter_add, scatter */

/* A copy of x into the result; a copy onto itself, in place, changes nothing. */
static void copy_first(td_kcall *k)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    td_cuda_dims w;
    td_cuda_dims_of(&w, 2, (const td_desc *const[]){y, x});
    td_ca_copy c = {.n = w.n, .ndim = w.ndim, .to_dtype = y->dtype, .from_dtype = x->dtype};
    memcpy(c.shape, w.shape, sizeof c.shape);
    memcpy(c.to_stride, w.stride[0], sizeof c.to_stride);
    memcpy(c.from_stride, w.stride[1], sizeof c.from_stride);
    size_t size = td_dtype_size((td_dtype)y->dtype);
    td_cuda_place places[2] = {{offsetof(td_ca_copy, to), TD_CUDA_OUT, 0, 0},
                               {offsetof(td_ca_copy, from), TD_CUDA_IN, 0, 0}};
    unsigned kernel = size == 1   ? TD_CK_copy_1
                      : size == 2 ? TD_CK_copy_2
                      : size == 4 ? TD_CK_copy_4
                      : size == 8 ? TD_CK_copy_8
                                  : TD_CK_copy_16;
    td_cuda_add(k, kernel, td_cuda_over(c.n), &c, sizeof c, places, 2);
}

/* puts: elements take the place of what was there; the source may be a number. */
static int plan_add(td_kcall *k, int src_in, bool each, bool puts, td_scalar alpha, td_error *e)
{
    enum { idx_in = 1 };
    const td_desc *y = k->out[0].desc, *idx = k->in[idx_in].desc, *src = k->in[src_in].desc, *of = each ? idx : src;
    const bool number = td_karg_is_number(&k->in[src_in]);
    int dim;
    if (td_wrap_dim(td_attr_int(k->attrs, 0), y->ndim, &dim, e)) return TD_E_INDEX;
    if (!is_index(idx->dtype)) return refuse_index(k, idx_in, e);
    if (td_dtype_is_complex((td_dtype)y->dtype) && (!puts || number)) return td_cuda_refuse(k, y->dtype, e);
    td_ca_add a = {.lines = 1,
                   .bytes = (uint8_t)td_dtype_size((td_dtype)y->dtype),
                   .body = td_dtype_is_float((td_dtype)y->dtype) ? TD_BODY_F64
                           : y->dtype == TD_UINT64               ? TD_BODY_U64
                                                                 : TD_BODY_I64,
                   .length = y->ndim ? y->shape[dim] : 1,
                   .dtype = y->dtype,
                   .src_dtype = src->dtype,
                   .idx_dtype = idx->dtype};
    a.alpha = alpha.kind <= TD_S_INT ? (double)alpha.i : alpha.re;
    a.whole_alpha = alpha.kind <= TD_S_INT ? alpha.i : (int64_t)alpha.re;
    a.count = y->ndim && of->ndim ? of->shape[dim] : 1;
    for (int d = y->ndim - 1; d >= 0; d--) {
        if (d == dim) continue;
        a.shape[a.ndim] = of->shape[d];
        a.out_stride[a.ndim] = y->stride[d], a.src_stride[a.ndim] = src->ndim ? src->stride[d] : 0,
        a.idx_stride[a.ndim] = each ? idx->stride[d] : 0;
        a.lines *= a.shape[a.ndim++];
    }
    if (y->ndim)
        a.out_step = y->stride[dim], a.src_step = src->ndim ? src->stride[dim] : 0,
        a.idx_step = each        ? (idx->ndim ? idx->stride[dim] : 0)
                     : idx->ndim ? idx->stride[0]
                                 : 0;
    td_cuda_place places[3] = {{offsetof(td_ca_add, src), TD_CUDA_IN, (uint8_t)src_in, 0},
                               {offsetof(td_ca_add, idx), TD_CUDA_IN, (uint8_t)idx_in, 0},
                               {offsetof(td_ca_add, out), TD_CUDA_OUT, 0, 0}};
    if (number)
        places[0] = (td_cuda_place){offsetof(td_ca_add, number), TD_CUDA_NUMBER, (uint8_t)src_in,
                                    a.body | (unsigned)y->dtype << 8};
    unsigned kernel = puts                                    ? TD_CK_put
                      : y->dtype == TD_FLOAT64                ? TD_CK_add_f64
                      : td_dtype_is_float((td_dtype)y->dtype) ? TD_CK_add_f32
                                                              : TD_CK_add_i64;
    td_cuda_begin(k);
    copy_first(k);
    if (a.lines && a.count) {
        td_cuda_add(k, TD_CK_add_check, td_cuda_over(a.lines * a.count), &a, sizeof a, places, 3);
        td_cuda_again(k, kernel, td_cuda_over(a.lines));
    }
    int rc = td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(y)) + 1000.0 * (double)a.count, e);
    td_plan_clean_until_here(k); /* all indices are looked at before anything is added */
    return rc;
}

int td_cuda_plan_index_add(td_kcall *k, td_error *e)
{
    return plan_add(k, 2, false, false, k->attrs->at[1].s, e);
}
int td_cuda_plan_scatter_add(td_kcall *k, td_error *e)
{
    return plan_add(k, 2, true, false, td_int(1), e);
}
int td_cuda_plan_scatter(td_kcall *k, td_error *e)
{
    return plan_add(k, 2, true, true, td_int(1), e);
}

/* ---- cat, stack of few that lie row by row */

static bool is_empty(const td_desc *x)
{
    return (x->ndim == 1 && x->shape[0] == 0) || !td_desc_numel(x);
}

bool td_cuda_are_plain(const td_kcall *k)
{
    const td_desc *y = k->out[0].desc;
    int some = 0;
    for (int i = 0; i < k->nin; i++) {
        const td_desc *x = k->in[i].desc;
        if (is_empty(x)) continue;
        if (x->dtype != y->dtype || !td_desc_is_contiguous(x) || ++some > TD_CUDA_PARTS) return false;
    }
    return td_desc_is_contiguous(y) && k->nin <= UINT8_MAX; /* a place in the arguments names its input by a byte */
}

int td_cuda_plan_parts(td_kcall *k, int dim, bool stacks, td_error *e)
{
    const td_desc *y = k->out[0].desc;
    td_ca_parts a = {.outer = 1, .size = (int)td_dtype_size((td_dtype)y->dtype)};
    td_cuda_place places[TD_CUDA_PARTS + 1];
    int64_t inner = 1, at = 0;
    int n = 0;
    for (int d = 0; d < y->ndim; d++) *(d < dim ? &a.outer : &inner) *= d == dim ? 1 : y->shape[d];
    places[n++] = (td_cuda_place){offsetof(td_ca_parts, to), TD_CUDA_OUT, 0, 0};
    td_cuda_begin(k);
    for (int i = 0; i < k->nin; i++) {
        const td_desc *x = k->in[i].desc;
        if (is_empty(x)) continue;
        a.start[a.count] = at;
        at += (stacks ? 1 : x->shape[dim]) * inner;
        places[n++] = (td_cuda_place){(uint16_t)(offsetof(td_ca_parts, from) + (size_t)a.count * sizeof(void *)),
                                      TD_CUDA_IN, (uint8_t)i, 0};
        a.count++;
    }
    a.total = at;
    if (a.count) td_cuda_add(k, TD_CK_parts, td_cuda_over(a.outer * a.total), &a, sizeof a, places, n);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(y)), e);
}

/* ---- select_scatter, slice_scatter: as cpu/places/slice_scatter.c reads them */

static int plan_slice(td_kcall *k, td_ca_slice *a, int dim, bool selects, td_error *e)
{
    const td_desc *x = k->in[0].desc, *src = k->in[1].desc, *y = k->out[0].desc;
    if (src->dtype != y->dtype)
        return td_fail(e, TD_E_TYPE, "%s: src is %s, the tensor is %s", k->op->name,
                       td_dtype_name((td_dtype)src->dtype), td_dtype_name((td_dtype)y->dtype));
    a->n = td_desc_numel(y);
    a->size = (int)td_dtype_size((td_dtype)y->dtype);
    for (int d = y->ndim - 1; d >= 0; d--) {
        a->shape[a->ndim] = y->shape[d];
        a->x_stride[a->ndim] = x->stride[d];
        a->src_stride[a->ndim] = !selects ? src->stride[d] : d == dim ? 0 : src->stride[d < dim ? d : d - 1];
        if (d == dim) a->dim = a->ndim;
        a->ndim++;
    }
    td_cuda_place places[3] = {{offsetof(td_ca_slice, x), TD_CUDA_IN, 0, 0},
                               {offsetof(td_ca_slice, src), TD_CUDA_IN, 1, 0},
                               {offsetof(td_ca_slice, to), TD_CUDA_OUT, 0, 0}};
    td_cuda_begin(k);
    td_cuda_add(k, TD_CK_slice, td_cuda_over(a->n), a, sizeof *a, places, 3);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(y)), e);
}

int td_cuda_plan_select_scatter(td_kcall *k, td_error *e)
{
    const td_desc *y = k->out[0].desc;
    int dim;
    if (td_wrap_dim(td_attr_int(k->attrs, 0), y->ndim, &dim, e)) return TD_E_INDEX;
    if (y->ndim == 0) return td_fail(e, TD_E_INDEX, "select_scatter cannot be applied to a 0-dim tensor");
    int64_t i = td_attr_int(k->attrs, 1);
    if (i < -y->shape[dim] || i >= y->shape[dim])
        return td_fail(e, TD_E_INDEX, "index %lld is out of bounds for dimension %d with size %lld", (long long)i, dim,
                       (long long)y->shape[dim]);
    td_ca_slice a = {.start = i < 0 ? i + y->shape[dim] : i, .step = 1, .length = 1};
    return plan_slice(k, &a, dim, true, e);
}

/* A bound of a slice as Python takes it. */
static int64_t bound(const td_attrs *a, int i, int64_t otherwise, int64_t size)
{
    if (!td_attr_given(a, i)) return otherwise;
    int64_t v = td_attr_int(a, i);
    if (v < 0) v = v < -size ? 0 : v + size;
    return v < size ? v : size;
}
int td_cuda_plan_slice_scatter(td_kcall *k, td_error *e)
{
    const td_desc *y = k->out[0].desc, *src = k->in[1].desc;
    int dim;
    if (td_wrap_dim(td_attr_int(k->attrs, 0), y->ndim, &dim, e)) return TD_E_INDEX;
    if (y->ndim == 0) return td_fail(e, TD_E_INDEX, "slice_scatter cannot be applied to a 0-dim tensor");
    int64_t size = y->shape[dim], step = td_attr_int(k->attrs, 3), start = bound(k->attrs, 1, 0, size),
            end = bound(k->attrs, 2, size, size);
    if (step < 1) return td_fail(e, TD_E_INVALID, "slice_scatter: step must be at least 1, not %lld", (long long)step);
    int64_t length = end > start ? (end - start - 1) / step + 1 : 0;
    if (src->ndim != y->ndim || src->shape[dim] != length)
        return td_fail(e, TD_E_SHAPE, "slice_scatter: src has size %lld in dimension %d, the slice %lld",
                       src->ndim == y->ndim ? (long long)src->shape[dim] : -1, dim, (long long)length);
    td_ca_slice a = {.start = start, .step = step, .length = length};
    return plan_slice(k, &a, dim, false, e);
}

/* ---- random numbers. Seed and number stand in the arguments, and are written anew with the addresses */

static int plan_drawn(td_kcall *k, int kind, td_error *e)
{
    const td_desc *y = k->out[0].desc;
    td_ca_random a = {.n = td_desc_numel(y), .kind = kind, .dtype = y->dtype};
    bool wide = y->dtype == TD_FLOAT64;
    td_cuda_place places[2] = {{offsetof(td_ca_random, to), TD_CUDA_OUT, 0, 0},
                               {offsetof(td_ca_random, seed), TD_CUDA_SEED, 0, 0}};
    if (!td_dtype_is_float((td_dtype)y->dtype)) return td_cuda_refuse(k, y->dtype, e);
    td_cuda_begin(k);
    td_cuda_add(k, wide ? TD_CK_random_f64 : TD_CK_random_f32, td_cuda_over((a.n + 1) / (wide ? 2 : 4) + 1), &a,
                sizeof a, places, 2);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns((double)td_desc_nbytes(y)), e);
}
int td_cuda_plan_rand(td_kcall *k, td_error *e)
{
    return plan_drawn(k, TD_DRAWN_UNIFORM, e);
}
int td_cuda_plan_randn(td_kcall *k, td_error *e)
{
    return plan_drawn(k, TD_DRAWN_NORMAL, e);
}

static int plan_drop(td_kcall *k, bool back, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    double p = td_attr_float(k->attrs, 0);
    td_ca_random a = {.n = td_desc_numel(y),
                      .dtype = y->dtype,
                      .x_dtype = x->dtype,
                      .threshold = (uint64_t)(p * 0x1p32),
                      .scale = p < 1 ? 1 / (1 - p) : 0};
    td_cuda_place places[4] = {{offsetof(td_ca_random, to), TD_CUDA_OUT, 0, 0},
                               {offsetof(td_ca_random, seed), TD_CUDA_SEED, 0, 0},
                               {offsetof(td_ca_random, x), TD_CUDA_IN, 0, 0}};
    if (!td_dtype_is_float((td_dtype)x->dtype)) return td_cuda_refuse(k, x->dtype, e);
    for (int d = x->ndim - 1; d >= 0; d--) a.shape[a.ndim] = x->shape[d], a.stride[a.ndim++] = x->stride[d];
    if (back) {
        a.given_step = k->in[1].desc->stride[0];
        places[3] = (td_cuda_place){offsetof(td_ca_random, given), TD_CUDA_IN, 1, 0};
    } else {
        places[3] = (td_cuda_place){offsetof(td_ca_random, keep), TD_CUDA_OUT, 1, 0};
    }
    td_cuda_begin(k);
    td_cuda_add(k, x->dtype == TD_FLOAT64 ? TD_CK_drop_f64 : TD_CK_drop_f32, td_cuda_over(a.n / 4 + 1), &a, sizeof a,
                places, 4);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(y)), e);
}
int td_cuda_plan_dropout(td_kcall *k, td_error *e)
{
    return plan_drop(k, false, e);
}
int td_cuda_plan_dropout_backward(td_kcall *k, td_error *e)
{
    return plan_drop(k, true, e);
}

int td_cuda_plan_randint(td_kcall *k, td_error *e)
{
    const td_desc *y = k->out[0].desc;
    td_ca_random a = {.n = td_desc_numel(y), .dtype = y->dtype, .low = td_attr_int(k->attrs, 0)};
    td_cuda_place places[2] = {{offsetof(td_ca_random, to), TD_CUDA_OUT, 0, 0},
                               {offsetof(td_ca_random, seed), TD_CUDA_SEED, 0, 0}};
    if (td_dtype_is_complex((td_dtype)y->dtype)) return td_cuda_refuse(k, y->dtype, e);
    a.range = (uint64_t)td_attr_int(k->attrs, 1) - (uint64_t)a.low;
    td_cuda_begin(k);
    td_cuda_add(k, TD_CK_randint, td_cuda_over(a.n), &a, sizeof a, places, 2);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns((double)td_desc_nbytes(y)), e);
}

/* One thread draws it, so it takes its time; where the result has another dtype, it is drawn in work memory. */
int td_cuda_plan_randperm(td_kcall *k, td_error *e)
{
    enum { MOST = 1 << 22 };
    const td_desc *y = k->out[0].desc;
    td_ca_random a = {.n = td_desc_numel(y)};
    td_ca_copy c = {.n = a.n, .ndim = 1, .to_dtype = y->dtype, .from_dtype = TD_INT64};
    const bool whole = y->dtype == TD_INT64;
    td_cuda_place places[2] = {{offsetof(td_ca_random, to), whole ? TD_CUDA_OUT : TD_CUDA_WORK, 0, 0},
                               {offsetof(td_ca_random, seed), TD_CUDA_SEED, 0, 0}};
    td_cuda_place copied[2] = {{offsetof(td_ca_copy, to), TD_CUDA_OUT, 0, 0},
                               {offsetof(td_ca_copy, from), TD_CUDA_WORK, 0, 0}};
    if (td_dtype_is_complex((td_dtype)y->dtype)) return td_cuda_refuse(k, y->dtype, e);
    if (a.n > MOST)
        return td_fail(e, TD_E_UNSUPPORTED, "randperm has no kernel for CUDA for more than %d numbers", MOST);
    c.shape[0] = a.n, c.to_stride[0] = c.from_stride[0] = 1;
    if (!whole) copied[1].more = places[0].more = (uint32_t)(td_cuda_work(k, (size_t)a.n * sizeof(int64_t)) / 64);
    td_cuda_begin(k);
    td_cuda_add(k, TD_CK_randperm, (td_cuda_shape){{a.n > 0, 1, 1}, {1, 1, 1}, 0}, &a, sizeof a, places, 2);
    if (!whole) td_cuda_add(k, TD_CK_cast_i64, td_cuda_over(a.n), &c, sizeof c, copied, 2);
    k->sure = true;
    return td_cuda_end(k, 1000.0 * (double)a.n, e);
}

int td_cuda_plan_bernoulli(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    td_ca_random a = {.n = td_desc_numel(y), .dtype = y->dtype, .x_dtype = x->dtype};
    td_cuda_place places[3] = {{offsetof(td_ca_random, to), TD_CUDA_OUT, 0, 0},
                               {offsetof(td_ca_random, seed), TD_CUDA_SEED, 0, 0},
                               {offsetof(td_ca_random, x), TD_CUDA_IN, 0, 0}};
    if (td_dtype_is_complex((td_dtype)y->dtype)) return td_cuda_refuse(k, y->dtype, e);
    for (int d = x->ndim - 1; d >= 0; d--) a.shape[a.ndim] = x->shape[d], a.stride[a.ndim++] = x->stride[d];
    td_cuda_begin(k);
    td_cuda_add(k, TD_CK_bernoulli, td_cuda_over((a.n + 3) / 4), &a, sizeof a, places, 3);
    return td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(y)), e);
}

/* ---- tril, triu */

static int plan_triangle(td_kcall *k, bool lower, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    td_ca_triangle a = {.n = td_desc_numel(y), .diagonal = td_attr_int(k->attrs, 0), .lower = lower};
    td_cuda_place places[2] = {{offsetof(td_ca_triangle, x), TD_CUDA_IN, 0, 0},
                               {offsetof(td_ca_triangle, to), TD_CUDA_OUT, 0, 0}};
    if (!td_desc_is_contiguous(y)) return td_plan_wants_rows(k);
    a.size = (int32_t)td_dtype_size((td_dtype)y->dtype);
    for (int d = x->ndim - 1; d >= 0; d--) a.shape[a.ndim] = x->shape[d], a.stride[a.ndim++] = x->stride[d];
    td_cuda_begin(k);
    td_cuda_add(k, TD_CK_triangle, td_cuda_over(a.n), &a, sizeof a, places, 2);
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns(2 * (double)td_desc_nbytes(y)), e);
}
int td_cuda_plan_tril(td_kcall *k, td_error *e)
{
    return plan_triangle(k, true, e);
}
int td_cuda_plan_triu(td_kcall *k, td_error *e)
{
    return plan_triangle(k, false, e);
}
