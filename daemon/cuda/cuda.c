/* See cuda.h. */
#include "daemon/cuda/room.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/ops/ops.h"
#include "proto/base/device.h"
#include "proto/ops/opid.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = TD_FAKE - TD_CUDA };

static _Thread_local td_cuda_options loop_options;

void td_cuda_configure(const td_cuda_options *o)
{
    loop_options = *o;
}

/* Files of the driver's, and nothing else: no library is opened and no process started to find out. */
static unsigned here(void)
{
    const char *stand_in = getenv("TENSORD_LIBCUDA");
    char path[32];
    unsigned n = 0;
    if (loop_options.off) return 0;
    if (stand_in && *stand_in) return 1;
    if (access("/dev/nvidiactl", F_OK)) return 0;
    for (unsigned i = 0; i < MOST; i++) {
        snprintf(path, sizeof path, "/dev/nvidia%u", i);
        n += !access(path, F_OK);
    }
    return n;
}

/* ---- plans: of the kernels; operands of no dimension in memory of the host are planned as numbers are */

static int plan(td_kcall *k, td_error *e)
{
    void *data[64];
    uint64_t taken = 0;
    k->libraries = td_gpu_products(((const td_cuda *)td_device_get(k->device)->self)->gpu);
    for (int i = 0; i < k->nin && i < 64; i++) {
        td_karg *a = (td_karg *)&k->in[i]; /* of a call that is being prepared */
        if (!a->desc || !a->data || a->desc->device != TD_CPU || td_karg_is_number(a)) continue;
        data[i] = a->data;
        a->data = a->number;
        taken |= UINT64_C(1) << i;
    }
    int rc = td_cuda_plans[k->op->id](k, e);
    for (int i = 0; taken; i++, taken >>= 1)
        if (taken & 1) ((td_karg *)&k->in[i])->data = data[i];
    return rc;
}

/* ---- the device */

typedef struct device {
    td_cuda cuda; /* first */
    td_plan_fn plans[TD_OP_COUNT];
    const char *names[TD_GPU_NAMES_MAX];
} device;

static void end(td_device_entry *d)
{
    td_cuda *c = d->self;
    if (c->gpu) td_gpu_stop(c->gpu);
    td_cuda_memory_end(c);
    td_cuda_executor_free(c);
    td_gpu_free(c->gpu);
    free(c);
}

static int start(td_device_entry *out, unsigned number, td_error *e)
{
    device *d = calloc(1, sizeof *d);
    td_gpu_client client;
    if (!d) return td_no_memory(e, "for a GPU's record");
    td_cuda *c = &d->cuda;
    c->number = number;
    for (int i = 0; i < TD_OP_COUNT; i++) d->plans[i] = td_cuda_plans[i] ? plan : NULL;
    d->plans[TD_OP_TO_DEVICE] = td_cuda_plan_transfer;
    unsigned nnames = td_cuda_kernel_count < TD_GPU_NAMES_MAX ? td_cuda_kernel_count : TD_GPU_NAMES_MAX;
    for (unsigned i = 0; i < nnames; i++) d->names[i] = td_cuda_kernels[i].name;
    td_cuda_memory_begin(c, loop_options.memory);
    *out = (td_device_entry){.number = number, .memory = &td_cuda_memory, .budget = &c->budget, .plans = d->plans};
    out->self = c;
    out->end = end;
    int rc = td_cuda_executor_new(c, &client, e);
    const td_gpu_options o = {.device = number,
                              .ordinal = number - TD_CUDA,
                              .handles = loop_options.handles,
                              .names = d->names,
                              .nnames = nnames};
    if (!rc) rc = td_gpu_new(&c->gpu, &o, &client, e);
    out->executor = c->executor;
    if (rc) end(out);
    return rc;
}

const td_device_kind td_cuda_kind = {TD_CUDA, here, start};
