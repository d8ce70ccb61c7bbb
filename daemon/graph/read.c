/* The value of a tensor, when a program goes on by it. */
#include "daemon/graph/run.h"
#include "daemon/sched/sched.h"
#include "daemon/tensor/device.h"

int td_exec_item(td_exec *r, td_tensor *t, td_scalar *out, td_error *e)
{
    char text[96];
    uint64_t lo, hi;
    int64_t n = td_desc_numel(&t->desc);
    if (n != 1)
        return td_fail(e, TD_E_INVALID,
                       "a tensor of shape %s has %lld elements, so it is no number; only one of one element is",
                       td_shape_text(t->desc.ndim, t->desc.shape, text, sizeof text), (long long)n);
    td_desc_extent(&t->desc, &lo, &hi);
    if (td_sched_pending(t->storage, lo, hi, false)) {
        r->behind = t->storage;
        return TD_EXEC_BEHIND;
    }
    int rc = r->who->may_touch ? r->who->may_touch(r->who, t->storage, false, e) : TD_OK;
    if (rc) return rc < 0 ? TD_EXEC_BUSY : rc;
    const td_cause *lost = t->storage->poison;
    if (!lost && r->who->untold) lost = r->who->untold(r->who, t->storage);
    if (lost) {
        *e = lost->error;
        return e->code;
    }
    _Alignas(16) unsigned char bytes[16];
    rc = td_storage_read(t->storage, lo, bytes, (size_t)(hi - lo), e);
    if (!rc) *out = td_scalar_load((td_dtype)t->desc.dtype, bytes);
    return rc;
}
