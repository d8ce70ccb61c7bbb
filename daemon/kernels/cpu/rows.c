/* See rows.h. */
#include "daemon/kernels/cpu/rows.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/places/index_map.h"
#include "daemon/kernels/cpu/walk.h"

void td_rows_start(td_rows *r, const td_karg *x, unsigned acc)
{
    *r = (td_rows){.data = x->data, .dtype = x->desc->dtype, .acc = (uint8_t)acc, .rows = 1, .cols = 1};
}

void td_rows_add_row_dim(td_rows *r, int64_t size, int64_t stride)
{
    r->rshape[r->nr] = size;
    r->rstride[r->nr++] = stride;
    r->rows *= size;
}

void td_rows_add_col_dim(td_rows *r, int64_t size, int64_t stride)
{
    r->cols *= size;
    if (size == 1) return;
    if (r->nc && r->cstride[r->nc - 1] == stride * size) { /* one with the dimension before */
        r->cshape[r->nc - 1] *= size;
        r->cstride[r->nc - 1] = stride;
        return;
    }
    r->cshape[r->nc] = size;
    r->cstride[r->nc++] = stride;
}

void td_rows_finish(td_rows *r)
{
    r->even = r->nc <= 1;
    r->step = r->nc ? r->cstride[r->nc - 1] : 1;
    r->direct = r->even && r->step == 1 && r->dtype == r->acc;
}

void td_rows_init(td_rows *r, const td_karg *x, int split, unsigned acc)
{
    td_rows_start(r, x, acc);
    for (int d = 0; d < split; d++) td_rows_add_row_dim(r, x->desc->shape[d], x->desc->stride[d]);
    for (int d = split; d < x->desc->ndim; d++) td_rows_add_col_dim(r, x->desc->shape[d], x->desc->stride[d]);
    td_rows_finish(r);
}

static void load(const td_rows *r, void *to, const void *from, int64_t step, int64_t n)
{
    if (r->acc == TD_FLOAT64) td_row_to_double(to, from, step, r->dtype, n);
    else if (r->acc == TD_FLOAT32) td_row_to_float(to, from, step, r->dtype, n);
    else td_row_load(to, from, step, r->dtype, n);
}

const void *td_rows_get(const td_rows *r, int64_t i, int64_t first, int64_t count, void *buf)
{
    int64_t size = (int64_t)td_dtype_size(r->dtype), acc = (int64_t)td_dtype_size(r->acc);
    const char *from = r->data + td_flat_at(r->nr, r->rshape, r->rstride, i) * size;
    if (r->direct) return from + first * size;
    if (r->even) {
        load(r, buf, from + first * r->step * size, r->step, count);
        return buf;
    }
    td_walk w;
    td_walk_at at;
    td_walk_init(&w, r->nc, r->cshape);
    td_walk_add(&w, r->cstride, (size_t)size);
    char *to = buf;
    void *base = (void *)from;
    for (td_walk_begin(&w, &at, &base, first, count); at.run; td_walk_next(&w, &at)) {
        load(r, to, at.p[0], td_walk_inner(&w, 0) / size, at.run);
        to += at.run * acc;
    }
    return buf;
}

double td_karg_number(const td_karg *x, int64_t i)
{
    const td_desc *d = x->desc;
    int64_t at = td_flat_at(d->ndim, d->shape, d->stride, i);
    return td_element_to_double((const char *)x->data + at * (int64_t)td_dtype_size(d->dtype), d->dtype);
}
