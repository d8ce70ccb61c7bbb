/* Descriptors that the program brings: memory that the daemon maps, files that it reads.
 *
 * The daemon's socket takes a descriptor only when one was announced, so an import is two requests. */
#include "client/tensor/awaited.h"
#include "client/tensor/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int announce(td_client *c)
{
    Td__Wire__Import import = TD__WIRE__IMPORT__INIT;
    import.announce = true;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.import = &import;
    td_reply_wait w = {0};
    return td_ask_and_wait(c, &call, -1, &w, "import");
}

static int on_import(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    td_array *a = w->context;
    return r->desc ? td_desc_from_wire(r->desc, &a->desc, e) : td_fail(e, TD_E_PROTOCOL, "no descriptor came");
}

static int send_descriptor(td_client *c, const td_array *a, int copy, uint64_t offset, td_reply_wait *w)
{
    Td__Wire__Desc desc = TD__WIRE__DESC__INIT;
    int64_t shape[TD_MAX_DIMS];
    desc.dtype = a->desc.dtype;
    desc.n_shape = a->desc.ndim;
    desc.shape = shape;
    for (int i = 0; i < a->desc.ndim; i++) shape[i] = a->desc.shape[i];
    Td__Wire__Import import = TD__WIRE__IMPORT__INIT;
    import.id = a->id;
    import.desc = &desc;
    import.offset = offset;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.import = &import;
    return td_ask_and_wait(c, &call, copy, w, "import");
}

/* Under the lock. */
static td_array *import(td_client *c, int fd, uint64_t offset, td_dtype dtype, td_ints shape)
{
    td_desc d;
    td_error *e = td_thread_error();
    int rc = td_dtype_valid(dtype) ? td_desc_contiguous(&d, dtype, shape.n, shape.at, e)
                                   : td_fail(e, TD_E_TYPE, "%u is no dtype", (unsigned)dtype);
    if (rc) {
        td_raise_error(e, "import", NULL);
        return NULL;
    }
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* it closes with the frame that brings it */
    if (copy < 0) {
        td_raise(TD_E_INVALID, "import", "descriptor %d cannot be used (error %d)", fd, errno);
        return NULL;
    }
    td_array *a = td_array_new(c);
    td_reply_wait w = {.on_reply = on_import, .context = a};
    if (a) a->desc = d;
    rc = a ? announce(c) : TD_E_SYSTEM;
    if (rc) close(copy);
    else rc = send_descriptor(c, a, copy, offset, &w);
    if (!rc) td_array_announce(a);
    else if (a) td_abandon(c, &w, 1, &a);
    return rc ? NULL : a;
}

TD_API td_array *td_import(td_client *c, int fd, size_t offset, td_dtype dtype, td_ints shape)
{
    if (td_enter(c, "import")) return NULL;
    td_array *a = import(c, fd, offset, dtype, shape);
    td_leave(c);
    return a;
}
