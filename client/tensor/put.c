/* Values in: small ones travel in the batch, large ones are put where they lie, in leased memory.
 *
 * The daemon checks every put against the lease; nothing is trusted because it was written here. */
#include "client/tensor/internal.h"
#include "client/tensor/recorder.h"

#include <stdlib.h>
#include <string.h>

enum { INLINE_DATA = 32 << 10 };

/* A handle with this descriptor. Under the lock. */
static td_array *new_array(td_client *c, td_dtype dtype, td_ints shape, const char *op)
{
    td_array *a = td_array_new(c);
    if (!a) return NULL;
    td_error *e = td_thread_error();
    int rc = td_dtype_valid(dtype) ? td_desc_contiguous(&a->desc, dtype, shape.n, shape.at, e)
                                   : td_fail(e, TD_E_TYPE, "%u is no dtype", (unsigned)dtype);
    if (!rc) return a;
    td_raise_error(e, op, NULL);
    td_array_drop(a);
    return NULL;
}

/* The words that DATA and PUT share; returns where they end. */
static int put_desc(uint32_t *rest, const td_desc *d)
{
    int n = 0;
    rest[n++] = d->dtype | (uint32_t)d->ndim << 8;
    for (int i = 0; i < d->ndim; i++, n += 2) td_words_put_u64(rest + n, (uint64_t)d->shape[i]);
    return n;
}

static td_array *announced(td_array *a, int rc)
{
    if (rc) td_array_drop(a);
    else td_array_announce(a);
    return rc ? NULL : a;
}

/* The lease becomes the storage of this tensor, which fills it from its start. Under the lock. */
static td_array *announce(td_lease *l, td_dtype dtype, td_ints shape)
{
    td_client *c = l->client;
    td_array *a = new_array(c, dtype, shape, "put");
    if (!a) return NULL;
    uint32_t rest[4 + 2 * TD_MAX_DIMS] = {l->id};
    td_words_put_u64(rest + 1, 0);
    int n = 3 + put_desc(rest + 3, &a->desc);
    a->mapping = l->mapping;
    c->memory.mappings[l->mapping].users++;
    a->bytes = l->bytes;
    a->settled = c->out.writes;
    a->storage = ++c->tensor.storages;
    l->used = true;
    return announced(a, td_control(c, TD_REC_PUT, NULL, 0, NULL, 1, &a->id, n, rest));
}

/* Bytes of the part, checked against the lease; -1 with this thread's error. */
static int64_t check_part(const td_lease *l, size_t offset, td_dtype dtype, td_ints shape)
{
    td_desc d;
    td_error *e = td_thread_error();
    int rc = td_dtype_valid(dtype) ? td_desc_contiguous(&d, dtype, shape.n, shape.at, e)
                                   : td_fail(e, TD_E_TYPE, "%u is no dtype", (unsigned)dtype);
    uint64_t bytes = rc ? 0 : td_desc_nbytes(&d);
    size_t item = td_dtype_size(dtype);
    if (!rc && (offset > l->size || bytes > l->size - offset))
        rc = td_fail(e, TD_E_INVALID, "%llu bytes at offset %zu do not lie inside a lease of %llu bytes",
                     (unsigned long long)bytes, offset, (unsigned long long)l->size);
    else if (!rc && (!item || offset % item))
        rc = td_fail(e, TD_E_INVALID, "offset %zu is no multiple of the %zu bytes of an element", offset, item);
    else if (!rc && l->used && !l->whole) rc = td_fail(e, TD_E_INVALID, "the whole lease was put already");
    else if (!rc && l->session != l->client->session)
        rc = td_fail(e, TD_E_PERMISSION, "the lease is the parent process's; take one of your own after fork()");
    if (!rc) return (int64_t)bytes;
    td_raise_error(e, "put", NULL);
    return -1;
}

/* A view of the announced bytes. */
static td_array *view_part(td_array *whole, size_t offset, size_t bytes, td_dtype dtype, td_ints shape)
{
    bool grad = td_set_grad_enabled(false);
    td_array *part = td_at_slice(NULL, whole, 0, td_arg_int((int64_t)offset), td_arg_int((int64_t)(offset + bytes)), 1);
    td_array *typed = td_at_view_dtype(NULL, part, dtype), *shaped = td_at_view(NULL, typed, shape);
    td_set_grad_enabled(grad);
    td_release(part);
    td_release(typed);
    return shaped;
}

TD_API td_array *td_put(td_lease *l, size_t offset, td_dtype dtype, td_ints shape)
{
    if (!l) {
        td_raise_null("put", "the lease");
        return NULL;
    }
    if (td_enter(l->client, "put")) return NULL;
    int64_t bytes = check_part(l, offset, dtype, shape);
    td_array *all = NULL;
    if (bytes >= 0 && offset == 0 && (uint64_t)bytes == l->size && !l->whole) all = announce(l, dtype, shape);
    else if (bytes >= 0 && !l->whole) l->whole = announce(l, TD_UINT8, td_dims((int64_t)l->size));
    td_leave(l->client);
    if (bytes < 0 || all) return all;
    td_keep(l->whole);
    return view_part(l->whole, offset, (size_t)bytes, dtype, shape);
}

/* ---- the lease's end ----------------------------------------------------------------------------------------------
 */

TD_API void td_lease_free(td_lease *l)
{
    if (!l) return;
    td_client *c = l->client;
    td_release(l->whole);
    td_lock(c);
    td_drop_lease(l);
    c->handles--;
    td_unlock(c);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Room for more bytes beside the records: their offset, or -1. */
static int64_t side_bytes(td_client *c, const void *data, size_t bytes)
{
    size_t at = (c->out.data_bytes + 15) & ~(size_t)15;
    if (at + bytes > c->out.data_capacity) {
        size_t capacity = (at + bytes) * 2 + 4096;
        unsigned char *p = realloc(c->out.data, capacity);
        if (!p) return -1;
        c->out.data = p;
        c->out.data_capacity = capacity;
    }
    if (at > c->out.data_bytes) memset(c->out.data + c->out.data_bytes, 0, at - c->out.data_bytes);
    if (bytes) memcpy(c->out.data + at, data, bytes);
    c->out.data_bytes = at + bytes;
    return (int64_t)at;
}

static td_array *send_inline(td_client *c, td_array *a, const void *data, size_t bytes)
{
    int64_t at = side_bytes(c, data, bytes);
    if (at < 0) return announced(a, td_raise(TD_E_SYSTEM, "from_data", "no memory for %zu bytes", bytes));
    a->storage = ++c->tensor.storages;
    a->desc.device = (uint8_t)td_device_making();
    uint32_t rest[4 + 2 * TD_MAX_DIMS];
    int n = put_desc(rest, &a->desc);
    rest[n++] = (uint32_t)at;
    rest[n++] = (uint32_t)bytes;
    return announced(a, td_control(c, TD_REC_DATA, NULL, 0, NULL, 1, &a->id, n, rest));
}

/* The copy of it where things are made now. Takes `a` over. */
static td_array *moved(td_array *a)
{
    unsigned device = td_device_making();
    if (!a || a->desc.device == device) return a;
    bool grad = td_set_grad_enabled(false);
    td_array *there = td_at_to_device(NULL, a, device);
    td_set_grad_enabled(grad);
    td_release(a);
    return there;
}

static bool is_here(const td_client *c)
{
    return c->daemon.devices >> td_device_making() & 1 || !td_no_device(c, "from_data", NULL, td_device_making());
}

TD_API td_array *td_from_data(td_client *c, td_dtype dtype, td_ints shape, const void *data)
{
    if (td_enter(c, "from_data")) return NULL;
    if (!is_here(c)) return td_leave(c), NULL;
    td_array *a = new_array(c, dtype, shape, "from_data");
    size_t bytes = a ? td_desc_nbytes(&a->desc) : 0;
    if (a && bytes <= INLINE_DATA) {
        a = send_inline(c, a, data, bytes);
    } else if (a) {
        td_array_drop(a);
        td_lease *l = td_lease_wait(c, bytes);
        if (bytes >= TD_LONG_COPY) td_step_aside();
        if (l) memcpy(l->bytes, data, bytes);
        a = l ? announce(l, dtype, shape) : NULL;
        if (l) td_drop_lease(l);
    }
    if (td_recording && a) td_recording->data(a, data);
    if (a && c->eager && td_outcome(c)) {
        td_array_free(a);
        a = NULL;
    }
    td_leave(c);
    return moved(a);
}
