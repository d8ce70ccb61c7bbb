/* Addresses of tensors on a GPU, for kernels of this process (client/wire/cuda.h).
 *
 * A handle that was asked for its address keeps the arena mapped. It is let go before the daemon hears that the handle
 * has ended. */
#include "client/wire/cuda.h"
#include "client/tensor/internal.h"
#include "client/tensor/recorder.h"
#include "client/tensord_bind.h"
#include "proto/base/device.h"

typedef struct locating {
    td_array *a;
    uint64_t writes; /* of the client, when it was asked */
    bool found;
} locating;

static int on_address(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    locating *x = w->context;
    td_array *a = x->a;
    uint64_t lo, hi;
    if (!r->address) return TD_OK; /* it has no bytes */
    td_desc_extent(&a->desc, &lo, &hi);
    if (hi > r->address->nbytes) return td_fail(e, TD_E_PROTOCOL, "the storage of a tensor is smaller than the tensor");
    int rc = td_cuda_map(c, r->address, fd, &a->arena, &a->far, e);
    x->found = !rc;
    if (!rc) a->settled = x->writes;
    return rc;
}

static int ask_address(td_array *a, bool *found)
{
    td_client *c = a->client;
    Td__Wire__Map map = TD__WIRE__MAP__INIT;
    map.id = a->id;
    map.device = true;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.map = &map;
    locating x = {a, c->out.writes, false};
    td_reply_wait w = {.on_reply = on_address, .context = &x};
    int rc = td_ask_later(c, &call, -1, &w);
    if (!rc) rc = td_await(c, &w, "cuda_data");
    td_forget_wait(c, &w);
    *found = x.found;
    return rc;
}

/* Under the lock. */
static int locate(td_array *a, bool *found)
{
    int rc = td_resolve(a);
    if (rc) return rc;
    if (a->desc.device < TD_CUDA || a->desc.device >= TD_FAKE)
        return td_raise(TD_E_UNSUPPORTED, "cuda_data",
                        "the tensor lies on %s, not on a GPU; td_to_device() copies it there",
                        td_device_name(a->desc.device));
    *found = a->settled == a->client->out.writes && td_cuda_is_here(a->arena);
    return *found ? TD_OK : ask_address(a, found);
}

TD_API void *td_cuda_data(td_array *a)
{
    bool found = false;
    if (!a) {
        td_raise_null("cuda_data", "the array");
        return NULL;
    }
    if (td_recording) td_recording->look(a, "cuda_data");
    if (td_enter(a->client, "cuda_data")) return NULL;
    int rc = locate(a, &found);
    uint64_t at = a->far + (uint64_t)a->desc.offset * td_dtype_size((td_dtype)a->desc.dtype);
    td_leave(a->client);
    return rc || !found ? NULL : (void *)(uintptr_t)at; /* NOLINT: an address there */
}

int td_cuda_number(const td_array *a)
{
    return a->arena ? td_cuda_ordinal(a->arena) : 0;
}
