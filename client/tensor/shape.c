/* What is known of a tensor: its descriptor, here or asked of the daemon.
 *
 * A descriptor never changes once it is known. Results of ops whose shape depends on values, and gradients (whose
 * strides the daemon chooses), are `unknown` until somebody looks; an op that takes one as input looks. */
#include "client/tensor/internal.h"
#include "proto/base/device.h"

#include <stdlib.h>
#include <string.h>

int td_desc_from_wire(const Td__Wire__Desc *d, td_desc *out, td_error *e)
{
    *out = (td_desc){.dtype = (uint8_t)d->dtype, .device = (uint8_t)d->device};
    if (!td_dtype_valid(d->dtype) || d->n_shape > TD_MAX_DIMS || (d->n_stride && d->n_stride != d->n_shape))
        return td_fail(e, TD_E_PROTOCOL,
                       "the daemon sent a descriptor that makes no sense (dtype %u, %zu sizes, %zu strides)", d->dtype,
                       d->n_shape, d->n_stride);
    out->ndim = (uint8_t)d->n_shape;
    if (d->n_shape) memcpy(out->shape, d->shape, d->n_shape * sizeof *d->shape);
    if (d->n_stride) memcpy(out->stride, d->stride, d->n_stride * sizeof *d->stride);
    else td_desc_pack(out);
    out->offset = d->offset;
    return td_desc_check(out, INT64_MAX, e);
}

int td_take_shape(td_array *a, const Td__Wire__Desc *d, td_error *e)
{
    td_desc desc;
    int rc = td_desc_from_wire(d, &desc, e);
    if (rc || !a->unknown) return rc; /* another thread asked, too; who reads it takes no lock */
    a->desc = desc;
    __atomic_store_n(&a->unknown, false, __ATOMIC_RELEASE);
    return TD_OK;
}

typedef struct shapes {
    int n;
    td_array *const *at;
} shapes;

static int on_shapes(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    const shapes *s = w->context;
    if (r->n_descs != (size_t)s->n) return td_fail(e, TD_E_PROTOCOL, "%zu shapes came for %d", r->n_descs, s->n);
    for (int i = 0; i < s->n; i++) {
        int rc = td_take_shape(s->at[i], r->descs[i], e);
        if (rc) return rc;
    }
    return TD_OK;
}

/* `s` and `w` live until the wait is over. */
static void ask_shapes(td_client *c, td_reply_wait *w, shapes *s)
{
    *w = (td_reply_wait){.on_reply = on_shapes, .context = s};
    td_expect(c, w);
    uint32_t rest[2], ids[1] = {s->at[0]->id};
    td_words_put_u64(rest, w->serial);
    if (td_control(c, TD_REC_SHAPE, NULL, s->n, ids, 0, NULL, 2, rest)) td_unexpect(c, w);
}

int td_resolve(td_array *a)
{
    if (!a->unknown) return TD_OK;
    td_reply_wait w;
    shapes s = {1, &a};
    ask_shapes(a->client, &w, &s);
    return td_await(a->client, &w, "shape");
}

/* A gradient that is None comes as an error of `grad`. */
static bool is_none(const td_error *e)
{
    return e->code == TD_E_NOT_FOUND || (e->code == TD_E_AUTOGRAD && strcmp(e->op, "grad") == 0);
}

/* An error that was read counts as told: the next sync need not bring it again. */
static void tell_read(td_client *c, uint32_t id)
{
    td_reply_wait *w = calloc(1, sizeof *w);
    if (!w) return;
    w->heap = true;
    td_expect(c, w);
    uint32_t rest[2];
    uint64_t serial = w->serial; /* it is gone when the connection is lost meanwhile */
    td_words_put_u64(rest, serial);
    if (td_control(c, TD_REC_READ, NULL, 1, &id, 0, NULL, 2, rest)) free(td_take_wait(c, serial));
}

int td_resolve_all(td_client *c, int n, td_array *const *at, int *codes, td_error *e)
{
    td_reply_wait *w = calloc((size_t)n + !n, sizeof *w);
    shapes *s = calloc((size_t)n + !n, sizeof *s);
    if (!w || !s) td_no_memory(e, "for %d requests", n);
    for (int i = 0; i < n && !e->code; i++) {
        s[i] = (shapes){1, &at[i]};
        ask_shapes(c, &w[i], &s[i]);
    }
    for (int i = 0; i < n && w && s; i++) {
        if (e->code == TD_E_CANCELLED) td_forget_wait(c, &w[i]);
        if (e->code == TD_E_CANCELLED || e->code == TD_E_SYSTEM) continue;
        codes[i] = td_await(c, &w[i], "shape");
        if (codes[i] && is_none(td_last_error())) codes[i] = TD_E_NOT_FOUND, tell_read(c, at[i]->id);
        else if (codes[i] && !e->code) *e = *td_last_error();
    }
    free(w);
    free(s);
    return e->code;
}

/* The descriptor, or NULL with this thread's error. What is known never changes, so it is read without the lock. */
static const td_desc *known(td_array *a)
{
    if (!a) {
        td_raise_null("shape", "the array");
        return NULL;
    }
    if (td_is_known(a)) return &a->desc;
    if (td_enter(a->client, "shape")) return NULL;
    int rc = td_resolve(a);
    td_leave(a->client);
    return rc ? NULL : &a->desc;
}

TD_API td_dtype td_dtype_of(td_array *a)
{
    const td_desc *d = known(a);
    return d ? (td_dtype)d->dtype : TD_DTYPE_NONE;
}

TD_API int td_device_of(td_array *a)
{
    const td_desc *d = known(a);
    return d ? d->device : -1;
}

TD_API const char *td_device_text(int device)
{
    return td_device_name((unsigned)device);
}

TD_API int td_device_by_text(const char *text)
{
    return text ? td_device_number(text) : -1;
}

TD_API int td_check_device(const td_client *client, int device)
{
    if (!client) return td_raise_null("td_check_device", "client");
    if (device >= 0 && device < TD_MAX_DEVICES && client->daemon.devices >> device & 1) return TD_OK;
    return td_no_device(client, "device", NULL, (unsigned)device);
}

TD_API int td_ndim(td_array *a)
{
    const td_desc *d = known(a);
    return d ? d->ndim : -1;
}

TD_API int64_t td_size(td_array *a, int dim)
{
    const td_desc *d = known(a);
    if (!d) return -1;
    if (dim >= -d->ndim && dim < d->ndim) return d->shape[dim < 0 ? dim + d->ndim : dim];
    td_raise(TD_E_INDEX, "size", "dimension %d of a tensor of %d dimensions", dim, d->ndim);
    return -1;
}

TD_API const int64_t *td_shape(td_array *a)
{
    const td_desc *d = known(a);
    return d ? d->shape : NULL;
}

TD_API const int64_t *td_strides(td_array *a)
{
    const td_desc *d = known(a);
    return d ? d->stride : NULL;
}

TD_API int64_t td_numel(td_array *a)
{
    const td_desc *d = known(a);
    return d ? td_desc_numel(d) : -1;
}

TD_API int64_t td_nbytes(td_array *a)
{
    const td_desc *d = known(a);
    return d ? (int64_t)td_desc_nbytes(d) : -1;
}

TD_API bool td_is_contiguous(td_array *a)
{
    const td_desc *d = known(a);
    return d && td_desc_is_contiguous(d);
}

TD_API size_t td_element_size(td_dtype dtype)
{
    return td_dtype_size(dtype);
}

TD_API const char *td_dtype_text(td_dtype dtype)
{
    return td_dtype_name(dtype);
}
