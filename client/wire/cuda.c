/* See cuda.h. */
#include "client/wire/cuda.h"
#include "client/wire/internal.h"
#include "shm/cuda/driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { UUID = 16, LEGACY = 64, GPUS = 32 };

struct td_cuda_arena {
    td_cuda_arena *next;
    const td_client *client;
    uint32_t segment, generation, users;
    unsigned char uuid[UUID];
    int ordinal;
    bool legacy;
    CUdeviceptr at;
    size_t bytes;
};

/* Of the process. */
static struct {
    pthread_mutex_t lock;
    td_cuda_driver driver;
    pid_t pid; /* that opened it; 0: nobody */
    CUcontext context[GPUS];
    td_cuda_arena *arenas;
} here = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int failed(const char *call, CUresult r, td_error *e)
{
    return r ? td_cuda_failed(&here.driver, call, r, e) : TD_OK;
}
#define CALL(name, ...) failed(#name, here.driver.name(__VA_ARGS__), e)

static int open_driver(td_error *e)
{
    if (here.pid && here.pid != getpid())
        return td_fail(e, TD_E_DEVICE,
                       "this process was forked after its parent had opened the CUDA driver, which does "
                       "not survive that; start processes with spawn");
    if (here.pid) return TD_OK;
    int rc = td_cuda_driver_open(&here.driver, e);
    if (!rc) rc = CALL(cuInit, 0);
    if (!rc) here.pid = getpid();
    return rc;
}

static int find_gpu(const ProtobufCBinaryData *uuid, int *ordinal, CUdevice *device, td_error *e)
{
    int count = 0, rc = CALL(cuDeviceGetCount, &count);
    for (*ordinal = 0; !rc && *ordinal < count && *ordinal < GPUS; ++*ordinal) {
        CUuuid own;
        rc = CALL(cuDeviceGet, device, *ordinal);
        if (!rc) rc = CALL(cuDeviceGetUuid, &own, *device);
        if (!rc && !memcmp(own.bytes, uuid->data, UUID)) return TD_OK;
    }
    return rc ? rc
              : td_fail(e, TD_E_DEVICE, "it is none of the %d GPUs that this process sees (CUDA_VISIBLE_DEVICES?)",
                        count);
}

/* The context of the GPU is this thread's; *before is what it had. */
static int enter(int ordinal, CUcontext *before, td_error *e)
{
    int rc = CALL(cuCtxGetCurrent, before);
    return rc ? rc : CALL(cuCtxSetCurrent, here.context[ordinal]);
}

static void leave(CUcontext before)
{
    here.driver.cuCtxSetCurrent(before);
}

static int reserve(td_cuda_arena *a, CUmemGenericAllocationHandle handle, td_error *e)
{
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, a->ordinal}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int rc = CALL(cuMemAddressReserve, &a->at, a->bytes, 0, 0, 0);
    if (rc) return rc;
    rc = CALL(cuMemMap, a->at, a->bytes, 0, handle, 0);
    if (!rc && (rc = CALL(cuMemSetAccess, a->at, a->bytes, &access, 1))) here.driver.cuMemUnmap(a->at, a->bytes);
    if (rc) here.driver.cuMemAddressFree(a->at, a->bytes);
    return rc;
}

static int import(td_cuda_arena *a, int fd, td_error *e)
{
    CUmemGenericAllocationHandle handle;
    int rc = CALL(cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)fd, /* NOLINT: as the driver takes it */
                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (rc) return rc;
    rc = reserve(a, handle, e);
    here.driver.cuMemRelease(handle); /* the mapping keeps it */
    return rc;
}

static int map(td_cuda_arena *a, const Td__Wire__Address *at, int fd, td_error *e)
{
    CUcontext before;
    CUipcMemHandle handle;
    int rc = enter(a->ordinal, &before, e);
    if (rc) return rc;
    if (a->legacy) {
        memcpy(&handle, at->cuda_handle.data, sizeof handle);
        rc = CALL(cuIpcOpenMemHandle, &a->at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    } else {
        rc = import(a, fd, e);
    }
    leave(before);
    return rc;
}

static td_cuda_arena *find(const td_client *c, const Td__Wire__Address *at)
{
    for (td_cuda_arena *a = here.arenas; a; a = a->next)
        if (a->client == c && a->segment == at->segment && a->generation == at->generation &&
            !memcmp(a->uuid, at->device_uuid.data, UUID))
            return a;
    return NULL;
}

static int map_new(const td_client *c, const Td__Wire__Address *at, int fd, td_cuda_arena **out, td_error *e)
{
    int ordinal, rc = open_driver(e);
    CUdevice device;
    if (!rc) rc = find_gpu(&at->device_uuid, &ordinal, &device, e);
    if (!rc && !here.context[ordinal]) rc = CALL(cuDevicePrimaryCtxRetain, &here.context[ordinal], device);
    if (rc) return rc;
    td_cuda_arena *a = malloc(sizeof *a);
    if (!a) return td_no_memory(e, "for an arena's record");
    *a = (td_cuda_arena){.next = here.arenas,
                         .client = c,
                         .segment = at->segment,
                         .generation = at->generation,
                         .ordinal = ordinal,
                         .legacy = at->handle_kind == TD__WIRE__HANDLE_KIND__HANDLE_CUDA_LEGACY,
                         .bytes = at->segment_size};
    memcpy(a->uuid, at->device_uuid.data, UUID);
    if ((rc = map(a, at, fd, e))) {
        free(a);
        return rc;
    }
    *out = here.arenas = a;
    return TD_OK;
}

static int check(const Td__Wire__Address *at, int fd, td_error *e)
{
    bool legacy = at->handle_kind == TD__WIRE__HANDLE_KIND__HANDLE_CUDA_LEGACY;
    if (!legacy && at->handle_kind != TD__WIRE__HANDLE_KIND__HANDLE_CUDA_ARENA)
        return td_fail(e, TD_E_PROTOCOL, "the address is of no GPU's memory");
    if (at->offset > at->segment_size || at->nbytes > at->segment_size - at->offset)
        return td_fail(e, TD_E_PROTOCOL, "an address reaches beyond its arena");
    if (at->device_uuid.len != UUID || (legacy ? at->cuda_handle.len != LEGACY : fd < 0))
        return td_fail(e, TD_E_PROTOCOL, "an address came without its handle");
    return TD_OK;
}

int td_cuda_map(const td_client *c, const Td__Wire__Address *at, int *fd, td_cuda_arena **arena, uint64_t *address,
                td_error *e)
{
    td_error why = {0};
    td_cuda_arena *before = NULL;
    int rc = check(at, *fd, e);
    if (rc) return rc;
    pthread_mutex_lock(&here.lock);
    td_cuda_arena *a = find(c, at);
    if (!a || here.pid != getpid()) rc = map_new(c, at, *fd, &a, &why);
    if (!rc && a != *arena) {
        before = *arena;
        *arena = a;
        a->users++;
    }
    if (!rc) *address = a->at + at->offset;
    pthread_mutex_unlock(&here.lock);
    td_cuda_unmap(&before);
    if (*fd >= 0) close(*fd);
    *fd = -1;
    return rc ? td_fail(e, rc, "the GPU's memory cannot be mapped here: %.300s; copy the tensor to the cpu first",
                        why.message)
              : TD_OK;
}

/* Under the lock. What fails here leaves a mapping, and nothing else. */
static void end(td_cuda_arena *a)
{
    td_cuda_arena **at = &here.arenas;
    while (*at != a) at = &(*at)->next;
    *at = a->next;
    if (a->legacy) {
        here.driver.cuIpcCloseMemHandle(a->at);
    } else {
        here.driver.cuMemUnmap(a->at, a->bytes);
        here.driver.cuMemAddressFree(a->at, a->bytes);
    }
    free(a);
}

void td_cuda_unmap(td_cuda_arena **arena)
{
    td_cuda_arena *a = *arena;
    CUcontext before;
    if (!a) return;
    *arena = NULL;
    pthread_mutex_lock(&here.lock);
    a->users--;
    if (here.pid == getpid() && !enter(a->ordinal, &before, NULL)) { /* in a forked child nothing of it is there */
        here.driver.cuCtxSynchronize();
        if (!a->users) end(a);
        leave(before);
    }
    pthread_mutex_unlock(&here.lock);
}

bool td_cuda_is_here(const td_cuda_arena *arena)
{
    pthread_mutex_lock(&here.lock);
    bool is = arena && here.pid == getpid();
    pthread_mutex_unlock(&here.lock);
    return is;
}

int td_cuda_ordinal(const td_cuda_arena *arena)
{
    return arena->ordinal;
}
