/* Ops made of ops: shapes and copies. Written once, over the generated functions.
 *
 * Intermediate arrays are released here; the call site of the whole is that of every part. What needs nothing to be
 * done gives another handle on the same tensor, so that a result is always the caller's own. */
#include "client/tensor/internal.h"
#include "client/tensor/recorder.h"
#include "client/tensor/run.h"

#include <string.h>

/* The result, with what it was made from released. */
static td_array *then(td_array *temporary, td_array *result)
{
    td_release(temporary);
    return result;
}

/* The descriptor, waiting for it when only the daemon knows; NULL: this thread's error. */
static const td_desc *desc_of(td_array *x)
{
    return td_ndim(x) < 0 ? NULL : &x->desc;
}

static int fail_at(const char *where, const char *op)
{
    return td_raise_error(td_last_error(), op, where);
}

/* Of a tensor that is known; what a trace records then has the sizes of that tensor. */
static td_ints shape_of(td_array *x)
{
    return td_recording ? td_recording->shape(x) : td_dims_of(x->desc.ndim, x->desc.shape);
}

/* A wrapped dimension, or -1 with this thread's error. */
static int wrap(const char *where, const char *op, int64_t dim, int ndim)
{
    int k;
    td_error e = {0};
    if (!td_wrap_dim(dim, ndim, &k, &e)) return k;
    td_raise_error(&e, op, where);
    return -1;
}

td_array *td_array_alias(td_array *a)
{
    td_client *c = a->client;
    td_array *b = td_resolve(a) ? NULL : td_array_new(c);
    if (!b) return NULL;
    b->desc = a->desc;
    b->storage = a->storage;
    b->is_grad = a->is_grad;
    b->view = a->view;
    b->traced = a->traced;
    td_control(c, TD_REC_ALIAS, NULL, 1, &a->id, 1, &b->id, 0, NULL);
    td_array_announce(b);
    return b;
}

TD_API td_array *td_alias(td_array *a)
{
    if (!a) {
        td_raise_null("alias", "the array");
        return NULL;
    }
    if (td_enter(a->client, "alias")) return NULL;
    td_array *b = td_array_alias(a);
    td_leave(a->client);
    return b;
}

/* ---- memory formats ---------------------------------------------------------------------------------------------- */

/* The op copy makes rows. */
td_array *td_copy_as_it_lies(const char *where, td_array *x, td_dtype dtype)
{
    const td_desc *d = desc_of(x);
    return d && td_desc_is_channels_last(d) ? td_at_copy_last(where, x, dtype) : td_at_copy(where, x, dtype);
}

td_array *td_laid_like(const char *where, td_array *like, td_array *made)
{
    const td_desc *d = made ? desc_of(like) : NULL;
    return d && td_desc_is_channels_last(d) ? then(made, td_at_copy_last(where, made, TD_DTYPE_NONE)) : made;
}

/* ---- creation ---------------------------------------------------------------------------------------------------- */

TD_API td_array *td_at_zeros(const char *where, td_client *client, td_ints shape, td_dtype dtype)
{
    return td_at_full(where, client, shape, td_arg_int(0), dtype);
}

TD_API td_array *td_at_ones(const char *where, td_client *client, td_ints shape, td_dtype dtype)
{
    return td_at_full(where, client, shape, td_arg_int(1), dtype);
}

/* What a tensor is made like, and where; end_like() is due. NULL on failure. */
static const td_desc *begin_like(td_array *x, unsigned *before)
{
    const td_desc *d = desc_of(x);
    if (d) *before = td_now_on(d->device);
    return d;
}

static td_array *end_like(const char *where, unsigned before, td_array *like, td_array *made)
{
    made = td_laid_like(where, like, made);
    td_now_on(before);
    return made;
}

TD_API td_array *td_at_full_like(const char *where, td_array *x, td_arg value)
{
    unsigned before;
    const td_desc *d = begin_like(x, &before);
    return d ? end_like(where, before, x, td_at_full(where, x->client, shape_of(x), value, (td_dtype)d->dtype)) : NULL;
}

TD_API td_array *td_at_empty_like(const char *where, td_array *x)
{
    unsigned before;
    const td_desc *d = begin_like(x, &before);
    return d ? end_like(where, before, x, td_at_empty(where, x->client, shape_of(x), (td_dtype)d->dtype)) : NULL;
}

TD_API td_array *td_at_rand_like(const char *where, td_array *x)
{
    unsigned before;
    const td_desc *d = begin_like(x, &before);
    return d ? end_like(where, before, x, td_at_rand(where, x->client, shape_of(x), (td_dtype)d->dtype)) : NULL;
}

TD_API td_array *td_at_randn_like(const char *where, td_array *x)
{
    unsigned before;
    const td_desc *d = begin_like(x, &before);
    return d ? end_like(where, before, x, td_at_randn(where, x->client, shape_of(x), (td_dtype)d->dtype)) : NULL;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

TD_API td_array *td_at_clone(const char *where, td_array *x)
{
    return td_copy_as_it_lies(where, x, TD_DTYPE_NONE);
}

TD_API td_array *td_at_contiguous(const char *where, td_array *x)
{
    const td_desc *d = desc_of(x);
    if (!d) return NULL;
    if (td_recording) return td_at_packed(where, x); /* what a program is called with may lie otherwise */
    return td_desc_is_contiguous(d) ? td_alias(x) : td_at_copy(where, x, TD_DTYPE_NONE);
}

TD_API td_array *td_at_to(const char *where, td_array *x, td_dtype dtype)
{
    const td_desc *d = desc_of(x);
    if (!d) return NULL;
    return d->dtype == dtype ? td_alias(x) : td_copy_as_it_lies(where, x, dtype);
}

TD_API int td_at_fill_(const char *where, td_array *x, td_arg value)
{
    const td_desc *d = desc_of(x);
    return d ? td_at_full_out(where, x, shape_of(x), value, (td_dtype)d->dtype) : td_last_error()->code;
}

TD_API int td_at_zero_(const char *where, td_array *x)
{
    return td_at_fill_(where, x, td_arg_int(0));
}

/* Its values come along from another device. */
static int copy_from_afar(const char *where, td_array *x, td_array *from, unsigned device)
{
    td_array *there = td_at_to_device(where, from, device);
    int rc = there ? td_at_copy_(where, x, there) : td_last_error()->code;
    td_release(there);
    return rc;
}

TD_API int td_at_copy_(const char *where, td_array *x, td_array *from)
{
    const td_desc *d = desc_of(x), *s = desc_of(from);
    if (!d || !s) return td_last_error()->code;
    if (d->device != s->device) return copy_from_afar(where, x, from, d->device);
    if (td_desc_same_shape(d, s)) return td_at_copy_out(where, x, from, TD_DTYPE_NONE);
    td_array *wide = td_at_expand(where, from, shape_of(x));
    int rc = wide ? td_at_copy_out(where, x, wide, TD_DTYPE_NONE) : td_last_error()->code;
    td_release(wide);
    return rc;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* Would view() take this shape? TD_E_...: what it says. */
static int try_view(const td_desc *d, td_ints shape, td_error *e)
{
    td_attrs attrs;
    td_attrs_init(&attrs);
    if (!td_attrs_ints(&attrs, shape.n, shape.at)) return td_fail(e, TD_E_SHAPE, "a shape of %d dimensions", shape.n);
    td_desc out;
    td_operand in = {d, NULL};
    td_inference f = {.op = td_op_by_name("view"), .in = &in, .nin = 1, .attrs = &attrs, .out = &out, .max_out = 1};
    return td_op_infer(&f, e);
}

TD_API td_array *td_at_reshape(const char *where, td_array *x, td_ints shape)
{
    const td_desc *d = desc_of(x);
    if (!d) return NULL;
    td_error e = {0};
    bool views = !try_view(d, shape, &e);
    /* what a program is called with may lie otherwise: it looks there whether to view or to copy */
    if (td_recording && (views || e.code == TD_E_SHAPE)) return td_at_reshaped(where, x, shape);
    if (views) return td_at_view(where, x, shape);
    td_array *packed = td_at_copy(where, x, TD_DTYPE_NONE); /* where not even that helps, view says why */
    return then(packed, td_at_view(where, packed, shape));
}

/* The sizes that a dimension of `size` becomes, one of them -1. Alone they must make it: other dimensions may be 0. */
static bool fill_sizes(int64_t size, td_ints sizes, int64_t *own)
{
    int64_t made = 1;
    int open = -1;
    bool good = true;
    for (int i = 0; i < sizes.n && good; i++) {
        own[i] = sizes.at[i];
        if (own[i] == -1 && open < 0) open = i;
        else good = own[i] >= 0 && (own[i] == 0 || made <= INT64_MAX / own[i]);
        if (good && i != open) made *= own[i];
    }
    if (good && open >= 0 && made && size % made == 0) made *= own[open] = size / made;
    else good = good && open < 0;
    if (good && made == size) return true;
    td_raise(TD_E_SHAPE, "unflatten", "the given sizes do not multiply up to %lld, the size of the dimension",
             (long long)size);
    return false;
}

/* With the sizes that a program follows, and the one that is left to fill. */
static td_array *unflatten_traced(const char *where, td_array *x, int at, td_ints sizes)
{
    int64_t shape[TD_MAX_DIMS];
    uint64_t names[TD_MAX_DIMS];
    int n = 0;
    for (int k = 0; k < x->desc.ndim; k++) {
        if (k == at) {
            memcpy(shape + n, sizes.at, (size_t)sizes.n * sizeof *shape);
            td_recording->standing(sizes, names + n);
            n += sizes.n;
        } else {
            shape[n] = x->desc.shape[k];
            names[n++] = td_recording->size(x, k);
        }
    }
    td_recording->stand(n, shape, names);
    td_array *y = td_at_view(where, x, td_dims_of(n, shape));
    td_recording->gone(shape);
    return y;
}

TD_API td_array *td_at_unflatten(const char *where, td_array *x, int64_t dim, td_ints sizes)
{
    const td_desc *d = desc_of(x);
    if (!d) return NULL;
    int at = wrap(where, "unflatten", dim, d->ndim), n = 0;
    if (at < 0) return NULL;
    if (d->ndim - 1 + sizes.n > TD_MAX_DIMS || d->ndim == 0) {
        td_raise(TD_E_SHAPE, "unflatten", "a tensor has 1 to %d dimensions here", TD_MAX_DIMS);
        return NULL;
    }
    int64_t own[TD_MAX_DIMS], shape[TD_MAX_DIMS];
    if (!fill_sizes(d->shape[at], sizes, own)) return NULL;
    if (td_recording) return unflatten_traced(where, x, at, sizes);
    for (int k = 0; k < d->ndim; k++)
        for (int i = 0; i < (k == at ? sizes.n : 1); i++) shape[n++] = k == at ? own[i] : d->shape[k];
    return td_at_view(where, x, td_dims_of(n, shape));
}

/* ---- indexing ---------------------------------------------------------------------------------------------------- */

typedef struct indices {
    td_array *at[TD_MAX_DIMS + 1]; /* references; NULL: all of a dimension */
    int n;
} indices;

/* A mask of k dimensions stands for k index vectors: the columns of its nonzero(). */
static int add_mask(const char *where, indices *s, td_array *mask)
{
    int ndim = mask->desc.ndim;
    if (ndim == 0 || s->n + ndim > TD_MAX_DIMS)
        return td_raise(TD_E_INDEX, "index", "masks of %d dimensions for a tensor of at most %d", s->n + ndim,
                        TD_MAX_DIMS);
    td_array *places = td_at_nonzero(where, mask);
    bool all = places != NULL;
    for (int k = 0; k < ndim && all; k++) all = (s->at[s->n++] = td_at_select(where, places, 1, k)) != NULL;
    td_release(places);
    return all ? TD_OK : fail_at(where, "index");
}

static int add_index(const char *where, indices *s, td_array *a)
{
    const td_desc *d = a ? desc_of(a) : NULL;
    if (a && !d) return td_last_error()->code;
    if (d && d->dtype == TD_BOOL) return add_mask(where, s, a);
    if (s->n >= TD_MAX_DIMS) return td_raise(TD_E_INDEX, "index", "more than %d indices", TD_MAX_DIMS);
    s->at[s->n++] = td_retain(a);
    return TD_OK;
}

/* What lies on the cpu comes to where x is, as in PyTorch; a new reference. */
static td_array *beside(const char *where, const td_desc *x, td_array *a)
{
    const td_desc *d = desc_of(a);
    if (!d || d->device == x->device || d->device != TD_CPU) return td_retain(a);
    return td_at_to_device(where, a, x->device);
}

static int take_indices(const char *where, indices *s, td_array *x, td_list list)
{
    const td_desc *d = desc_of(x);
    int rc = d ? TD_OK : td_last_error()->code;
    for (int i = 0; i < list.n && !rc; i++) {
        td_array *a = list.at[i] ? beside(where, d, list.at[i]) : NULL;
        rc = list.at[i] && !a ? fail_at(where, "index") : add_index(where, s, a);
        td_release(a);
    }
    return rc;
}

static void drop_indices(indices *s)
{
    for (int i = 0; i < s->n; i++) td_release(s->at[i]);
}

/* A mask for every element and nothing else: no indices are needed. */
static bool is_whole_mask(td_array *x, td_list list)
{
    const td_desc *d = desc_of(x), *m = list.n == 1 && list.at[0] ? desc_of(list.at[0]) : NULL;
    return d && m && m->dtype == TD_BOOL && m->ndim && m->ndim == d->ndim &&
           !memcmp(m->shape, d->shape, sizeof m->shape[0] * (size_t)m->ndim);
}

TD_API td_array *td_at_getitem(const char *where, td_array *x, td_list list)
{
    indices s = {.n = 0};
    if (is_whole_mask(x, list)) {
        td_array *mask = beside(where, desc_of(x), list.at[0]), *z = mask ? td_at_masked_select(where, x, mask) : NULL;
        td_release(mask);
        return z;
    }
    td_array *y = take_indices(where, &s, x, list) ? NULL : td_at_index(where, x, td_arrays_of(s.n, s.at));
    drop_indices(&s);
    return y;
}

/* The one mask among them, and the first dimension that it is for; NULL: there are other indices, or it does not fit.
 */
static td_array *only_mask(const td_desc *x, td_list list, int *first)
{
    td_array *mask = NULL;
    for (int i = 0; i < list.n; i++) {
        if (!list.at[i]) continue;
        if (mask) return NULL;
        mask = list.at[i];
        *first = i;
    }
    const td_desc *m = mask ? desc_of(mask) : NULL;
    bool fits = m && m->dtype == TD_BOOL && m->ndim && *first + m->ndim <= x->ndim &&
                !memcmp(m->shape, x->shape + *first, sizeof m->shape[0] * (size_t)m->ndim);
    return fits ? mask : NULL;
}

/* A number goes where a mask holds without a list of places, which not every device can make. */
static int fill_mask(const char *where, td_array *x, td_array *mask, int first, td_array *value)
{
    td_array *m = beside(where, desc_of(x), mask);
    for (int i = first + td_ndim(mask); m && i < td_ndim(x); i++) {
        td_array *wider = td_at_unsqueeze(where, m, -1);
        td_release(m);
        m = wider;
    }
    bool apart = x->storage && value->storage && x->storage != value->storage;
    td_array *number = apart ? td_retain(value) : m ? td_at_clone(where, value) : NULL;
    int rc = m && number ? td_at_masked_fill_(where, x, m, TD_ARG(number)) : fail_at(where, "index_put");
    td_release(number);
    td_release(m);
    return rc;
}

static int put_where(const char *where, td_array *x, td_list list, td_array *value)
{
    indices s = {.n = 0};
    int first = 0, rc;
    const td_desc *d = desc_of(x), *v = desc_of(value);
    td_array *mask = d && v && !td_recording && !v->ndim && v->dtype == d->dtype ? only_mask(d, list, &first) : NULL;
    if (mask) return fill_mask(where, x, mask, first, value);
    rc = take_indices(where, &s, x, list);
    if (!rc) rc = td_at_index_put_(where, x, td_arrays_of(s.n, s.at), value, false);
    drop_indices(&s);
    return rc;
}

TD_API int td_at_setitem(const char *where, td_array *x, td_list list, td_array *value)
{
    const td_desc *d = desc_of(x), *v = d && value ? desc_of(value) : NULL;
    td_array *number = v && !v->ndim ? beside(where, d, value) : td_retain(value);
    int rc = value && !number ? fail_at(where, "index_put") : put_where(where, x, list, number);
    td_release(number);
    return rc;
}
