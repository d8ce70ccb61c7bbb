/* What all kernels share: recording a failure, and running a plan on the calling thread. */
#include "daemon/kernels/kernel.h"
#include "daemon/kernels/cpu/thresholds.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void td_kernel_fail(td_kcall *k, td_code code, const char *format, ...)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&k->failed, &none, (int)code)) return;
    va_list args;
    va_start(args, format);
    vsnprintf(k->error.message, sizeof k->error.message, format, args);
    va_end(args);
    if (k->op) snprintf(k->error.op, sizeof k->error.op, "%s", k->op->name);
    k->error.code = (int)code;
}

static void no_addresses(td_kcall *k)
{
    (void)k;
}

void td_plan_moves_freely(td_kcall *k, size_t bytes)
{
    td_plan_moves(k, no_addresses, bytes);
}

/* `bytes` at a multiple of 64: from the caller's small buffer where they fit; *owned is what must be freed. */
static void *aligned(size_t bytes, void *small, size_t room, void **owned)
{
    *owned = NULL;
    if (bytes <= room) return small;
    return *owned = aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void run_phases(td_kcall *k, void *scratch)
{
    for (int p = 0; p < k->nphases && !atomic_load(&k->failed); p++)
        for (int64_t c = 0; c < k->phase[p].chunks && !atomic_load(&k->failed); c++) k->phase[p].fn(k, c, scratch);
}

int td_kernel_run(td_plan_fn plan, td_kcall *k, td_error *e)
{
    k->nphases = 0;
    k->scratch_bytes = k->work_bytes = 0;
    k->cost_ns = 0;
    k->replan = NULL;
    k->wrote = NULL;
    k->wants_rows = k->sure = false;
    k->packing.in = 0;
    k->work = NULL;
    k->prepack = NULL;
    atomic_store_explicit(&k->failed, 0, memory_order_relaxed);
    int rc = plan(k, e);
    if (!rc && k->wants_rows) rc = td_fail(e, TD_E_UNSUPPORTED, "%s writes row by row only", k->op->name);
    if (rc) return rc;
    _Alignas(64) unsigned char small[TD_SMALL_SCRATCH];
    void *scratch_owned, *work_owned;
    void *scratch = aligned(k->scratch_bytes, small, sizeof small, &scratch_owned);
    k->work = aligned(k->work_bytes, NULL, 0, &work_owned);
    if ((k->scratch_bytes && !scratch) || (k->work_bytes && !k->work)) {
        rc = td_fail(e, TD_E_MEMORY, "%s: no memory for %zu bytes of work space", k->op->name,
                     k->scratch_bytes + k->work_bytes);
    } else {
        run_phases(k, scratch);
        rc = atomic_load(&k->failed);
        assert(!rc || rc == TD_E_CANCELLED || !k->sure); /* it may be told to stop */
        if (rc && e) *e = k->error;
    }
    free(scratch_owned);
    free(work_owned);
    return rc;
}
