/* Which of our memory is in the hands of others: what numpy_memory() gave NumPy, and what went out by the buffer
 * protocol and by DLPack. An array of another library that lies there is seen as a tensor without a copy.
 *
 * The list is guarded by the GIL. It is walked from the newest on: what comes back is mostly what went out last. */
#include "client/python/src/py.h"

static tdpy_handed *newest;

/* Bytes from the first element to the last; 0: none, strides that go backwards, or too many. */
static size_t span(td_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides)
{
    int64_t n = 1;
    for (int k = 0; k < ndim; k++) {
        if (shape[k] < 1 || strides[k] < 0) return 0;
        int64_t reach;
        if (__builtin_mul_overflow(shape[k] - 1, strides[k], &reach) || __builtin_add_overflow(n, reach, &n)) return 0;
    }
    size_t item = td_dtype_size(dtype);
    return n > INT64_MAX / (int64_t)item ? 0 : (size_t)n * item;
}

void tdpy_hand_out(tdpy_handed *h, td_array *a, const void *at)
{
    *h = (tdpy_handed){.at = at, .size = span(td_dtype_of(a), td_ndim(a), td_shape(a), td_strides(a))};
    if (!h->size) return;
    h->array = td_retain(a); /* the object may become another tensor, by unsqueeze_() */
    h->next = newest;
    if (newest) newest->prev = h;
    newest = h;
}

void tdpy_hand_forget(tdpy_handed *h)
{
    if (!h->array) return;
    if (h->prev) h->prev->next = h->next;
    else newest = h->next;
    if (h->next) h->next->prev = h->prev;
}

void tdpy_hand_back(tdpy_handed *h)
{
    if (!h->array) return;
    tdpy_hand_forget(h);
    td_release(h->array); /* may let other threads run */
}

static const tdpy_handed *find(const unsigned char *at, size_t size)
{
    const tdpy_handed *h = newest;
    while (h && (at < h->at || size > h->size || (size_t)(at - h->at) > h->size - size)) h = h->next;
    return h;
}

/* What lies in it as flat elements of another dtype, cut to whole ones. */
static td_array *as_dtype(td_array *a, size_t size, td_dtype dtype)
{
    size_t item = td_dtype_size(dtype), was = td_dtype_size(td_dtype_of(a));
    int64_t n = (int64_t)(size / item * item / was);
    td_array *flat = td_at_as_strided(NULL, a, td_dims(n), td_dims(1), td_desc_known(a)->offset);
    td_array *typed = td_at_view_dtype(NULL, flat, dtype);
    td_release(flat);
    return typed;
}

static td_array *view_in(const tdpy_handed *h, size_t offset, td_dtype dtype, td_ints shape, td_ints strides)
{
    td_array *a = h->array;
    size_t item = td_dtype_size(dtype);
    offset += (size_t)td_desc_known(a)->offset * td_dtype_size(td_dtype_of(a));
    if (offset % item) return NULL;
    td_array *typed = td_dtype_of(a) == dtype ? td_retain(a) : as_dtype(a, h->size, dtype);
    td_array *view = td_at_as_strided(NULL, typed, shape, strides, (int64_t)(offset / item));
    td_release(typed);
    return view;
}

static const tdpy_handed *look(const void *at, size_t size, tdpy_handed *block)
{
    const tdpy_handed *h = tdpy_numpy_block(at, size, block) ? block : find(at, size);
    return h && td_client_of(h->array) == tdpy.client ? h : NULL;
}

bool tdpy_settle_handed(const void *at)
{
    tdpy_handed block;
    return !look(at, 1, &block) || td_settle(tdpy.client) == TD_OK || tdpy_fail();
}

td_array *tdpy_handed_view(const void *at, td_dtype dtype, td_ints shape, const int64_t *strides)
{
    size_t size = span(dtype, shape.n, shape.at, strides);
    tdpy_handed block;
    const tdpy_handed *h = size ? look(at, size, &block) : NULL;
    if (!h) return NULL;
    bool was = td_set_grad_enabled(false);
    td_array *view =
        view_in(h, (size_t)((const unsigned char *)at - h->at), dtype, shape, td_dims_of(shape.n, strides));
    td_set_grad_enabled(was);
    if (!view) td_clear_error(); /* whoever copies instead will hear of it */
    return view;
}
