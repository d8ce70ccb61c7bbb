/* Arenas. Their bytes are zero at first: what a context frees and takes again still has another user's in it. */
#include "daemon/cuda/helper/helper.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUmemAllocationProp kind_of(const helper *h, td_gpu_handles handles)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes =
            handles == TD_GPU_HANDLES_VMM ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, h->device},
    };
}

/* Map it at *at, or anywhere (0). Whatever fails, nothing of it is left. */
static int map(helper *h, CUmemGenericAllocationHandle handle, size_t bytes, CUdeviceptr *at)
{
    const td_cuda_driver *d = &h->d;
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, h->device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr wanted = *at;
    int code = helper_noted(h, "cuMemAddressReserve", d->cuMemAddressReserve(at, bytes, 0, wanted, 0));
    if (code) return code;
    if (wanted && *at != wanted) {
        snprintf(h->why, sizeof h->why, "the driver gave another address than the arena had before");
        code = CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!code) code = helper_noted(h, "cuMemMap", d->cuMemMap(*at, bytes, 0, handle, 0));
    if (!code) {
        code = helper_noted(h, "cuMemSetAccess", d->cuMemSetAccess(*at, bytes, &access, 1));
        if (!code) return 0;
        d->cuMemUnmap(*at, bytes);
    }
    d->cuMemAddressFree(*at, bytes);
    return code;
}

static int unmap(helper *h, CUdeviceptr at, size_t bytes)
{
    int code = helper_noted(h, "cuMemUnmap", h->d.cuMemUnmap(at, bytes));
    return code ? code : helper_noted(h, "cuMemAddressFree", h->d.cuMemAddressFree(at, bytes));
}

/* Make it; *fd is its descriptor. */
static int make_vmm(helper *h, size_t bytes, CUdeviceptr *at, int *fd)
{
    const td_cuda_driver *d = &h->d;
    CUmemAllocationProp prop = kind_of(h, TD_GPU_HANDLES_VMM);
    CUmemGenericAllocationHandle handle;
    int code = helper_noted(h, "cuMemCreate", d->cuMemCreate(&handle, bytes, &prop, 0));
    if (code) return code;
    *at = 0;
    *fd = -1;
    code = helper_noted(h, "cuMemExportToShareableHandle",
                        d->cuMemExportToShareableHandle(fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    if (!code) code = map(h, handle, bytes, at);
    d->cuMemRelease(handle); /* the mapping keeps it */
    if (code && *fd >= 0) close(*fd);
    return code;
}

static int import(helper *h, int fd, size_t bytes, CUdeviceptr *at)
{
    const td_cuda_driver *d = &h->d;
    CUmemGenericAllocationHandle handle;
    int code = helper_noted(
        h, "cuMemImportFromShareableHandle",
        d->cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    if (code) return code;
    code = map(h, handle, bytes, at);
    d->cuMemRelease(handle);
    return code;
}

static int make_ipc(helper *h, size_t bytes, CUdeviceptr *at, unsigned char handle[64])
{
    CUipcMemHandle ipc = {{0}};
    int code = helper_noted(h, "cuMemAlloc", h->d.cuMemAlloc(at, bytes));
    if (code || h->handles == TD_GPU_HANDLES_NONE) return code;
    code = helper_noted(h, "cuIpcGetMemHandle", h->d.cuIpcGetMemHandle(&ipc, *at));
    memcpy(handle, &ipc, sizeof ipc);
    if (code) h->d.cuMemFree(*at);
    return code;
}

/* ---- which handles work: on a small piece */

static int try_vmm(helper *h)
{
    static const unsigned char sent[4] = {1, 2, 3, 4};
    unsigned char got[4] = {0};
    CUdeviceptr one, other = 0;
    int fd, code = make_vmm(h, h->granule, &one, &fd);
    if (code) return code;
    code = import(h, fd, h->granule, &other);
    close(fd);
    if (!code) {
        code = helper_noted(h, "cuMemcpyHtoD", h->d.cuMemcpyHtoD(one, sent, sizeof sent));
        if (!code) code = helper_noted(h, "cuMemcpyDtoH", h->d.cuMemcpyDtoH(got, other, sizeof got));
        if (!code && memcmp(sent, got, sizeof sent) != 0) {
            snprintf(h->why, sizeof h->why, "an exported piece of memory has other bytes where it is imported");
            code = CUDA_ERROR_NOT_SUPPORTED;
        }
        unmap(h, other, h->granule);
    }
    unmap(h, one, h->granule);
    return code;
}

static int try_ipc(helper *h)
{
    unsigned char handle[64];
    CUdeviceptr at;
    int code = make_ipc(h, h->granule, &at, handle);
    return code ? code : helper_noted(h, "cuMemFree", h->d.cuMemFree(at));
}

static int granule(helper *h)
{
    CUmemAllocationProp prop = kind_of(h, TD_GPU_HANDLES_VMM);
    int vmm = 0, descriptors = 0;
    h->d.cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, h->device);
    h->d.cuDeviceGetAttribute(&descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, h->device);
    if (!vmm || !descriptors) {
        snprintf(h->why, sizeof h->why, "this device has no memory that is exported as a descriptor (attribute 103)");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return helper_noted(h, "cuMemGetAllocationGranularity",
                        h->d.cuMemGetAllocationGranularity(&h->granule, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
}

int memory_begin(helper *h, td_gpu_handles wanted)
{
    int code = CUDA_ERROR_NOT_SUPPORTED;
    h->granule = 2 << 20;
    h->handles = TD_GPU_HANDLES_VMM;
    if (wanted != TD_GPU_HANDLES_IPC && !(code = granule(h)) && !(code = try_vmm(h))) return 0;
    if (wanted == TD_GPU_HANDLES_VMM || helper_is_lost(code)) return code;
    h->handles = TD_GPU_HANDLES_IPC;
    if (!(code = try_ipc(h))) return 0;
    if (wanted == TD_GPU_HANDLES_IPC || helper_is_lost(code)) return code;
    h->handles = TD_GPU_HANDLES_NONE;
    return 0;
}

/* ---- arenas */

static void answer(helper *h, int code, CUdeviceptr at, uint64_t bytes, const unsigned char handle[64], int fd)
{
    td_gpu_made m = {TD_GPU_MADE, code, at, bytes, {0}, {0}};
    if (handle) memcpy(m.handle, handle, sizeof m.handle);
    if (code) memcpy(m.why, h->why, sizeof m.why);
    helper_send(h, &m, sizeof m, fd);
    if (fd >= 0) close(fd);
    if (helper_is_lost(code)) helper_lost(h, code);
}

static int keep(helper *h, CUdeviceptr at, size_t bytes, bool mapped)
{
    arena *a = malloc(sizeof *a);
    if (!a) {
        snprintf(h->why, sizeof h->why, "no memory for an arena's record");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *a = (arena){h->arenas, at, bytes, mapped};
    h->arenas = a;
    return 0;
}

static int drop(helper *h, CUdeviceptr at, size_t bytes, bool mapped)
{
    return mapped ? unmap(h, at, bytes) : helper_noted(h, "cuMemFree", h->d.cuMemFree(at));
}

static int clear(helper *h, CUdeviceptr at, size_t bytes)
{
    CUstream s = h->streams[TD_GPU_STREAMS - 1].stream;
    int code = helper_noted(h, "cuMemsetD8Async", h->d.cuMemsetD8Async(at, 0, bytes, s));
    if (code) return code;
    code = helper_noted(h, "cuStreamSynchronize", h->d.cuStreamSynchronize(s));
    if (code) helper_lost(h, code); /* perhaps it is still being cleared */
    return 0;
}

void memory_make(helper *h, const td_gpu_arena *m)
{
    unsigned char handle[64] = {0};
    bool vmm = h->handles == TD_GPU_HANDLES_VMM;
    CUdeviceptr at = 0;
    int fd = -1, code = vmm ? make_vmm(h, m->bytes, &at, &fd) : make_ipc(h, m->bytes, &at, handle);
    if (code) {
        answer(h, code, 0, m->bytes, NULL, -1);
        return;
    }
    code = clear(h, at, m->bytes);
    if (!code) code = keep(h, at, m->bytes, vmm);
    if (code) {
        drop(h, at, m->bytes, vmm);
        if (fd >= 0) close(fd);
        fd = -1;
    }
    answer(h, code, at, m->bytes, handle, fd);
}

void memory_import(helper *h, const td_gpu_arena *m, int fd)
{
    CUdeviceptr at = m->address;
    int code = import(h, fd, m->bytes, &at);
    close(fd);
    if (!code && (code = keep(h, at, m->bytes, true))) drop(h, at, m->bytes, true);
    answer(h, code, at, m->bytes, NULL, -1);
}

void memory_end(helper *h, const td_gpu_arena *m)
{
    arena **at = &h->arenas;
    while (*at && (*at)->at != m->address) at = &(*at)->next;
    arena *a = *at;
    if (!a) return;
    *at = a->next;
    int code = drop(h, a->at, a->bytes, a->mapped);
    free(a);
    if (code) helper_lost(h, code); /* nobody would know what is left of it */
}
