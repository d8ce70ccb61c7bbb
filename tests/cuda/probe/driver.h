/* The entry points of the CUDA driver that the probe calls, declared here so that no toolkit is needed to read them.
 *
 * drv_open() loads TENSORD_LIBCUDA or libcuda.so.1 and asks cuGetProcAddress_v2 for each name; drv is filled then. A
 * result other than 0 is an error of the driver; drv_name() words it. */
#ifndef TENSORD_TESTS_CUDA_PROBE_DRIVER_H
#define TENSORD_TESTS_CUDA_PROBE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t drv_ptr;
typedef struct drv_location {
    int type, id;
} drv_location;
typedef struct drv_prop { /* CUmemAllocationProp */
    int type, handle_types;
    drv_location location;
    void *win32;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
} drv_prop;
typedef struct drv_access {
    drv_location location;
    int flags;
} drv_access;
typedef struct drv_ipc {
    char reserved[64];
} drv_ipc;
typedef struct drv_uuid {
    char bytes[16];
} drv_uuid;

enum {
    DRV_PINNED = 1,
    DRV_FD = 1,
    DRV_ON_DEVICE = 1,
    DRV_READ_WRITE = 3,
    DRV_IPC_LAZY_PEER = 1,
    DRV_REGISTER_MAP = 2,
    DRV_REGISTER_READ_ONLY = 8,
    DRV_STREAM_NON_BLOCKING = 1,
    DRV_EVENT_NO_TIMING = 2,
    DRV_WAIT_GEQ = 0,
    DRV_ATTR_SMS = 16,
    DRV_ATTR_MAJOR = 75,
    DRV_ATTR_MINOR = 76,
    DRV_ATTR_HOST_POINTER = 91,
    DRV_ATTR_REGISTER = 99,
    DRV_ATTR_VMM = 102,
    DRV_ATTR_FD = 103,
    DRV_ATTR_REGISTER_READ_ONLY = 113,
    DRV_ATTR_MEM_OPS_64 = 122,
    DRV_ATTR_IPC_EVENT = 125,
};
#define DRV_LAUNCH_POINTER ((void *)1)
#define DRV_LAUNCH_SIZE ((void *)2)
#define DRV_LAUNCH_END ((void *)0)

typedef void *drv_ctx, *drv_stream, *drv_event, *drv_module, *drv_function;
typedef unsigned long long drv_handle;

#define DRV_CALLS(X)                                                                                                   \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDriverGetVersion, (int *version))                                                                              \
    X(cuDeviceGetCount, (int *count))                                                                                  \
    X(cuDeviceGet, (int *device, int ordinal))                                                                         \
    X(cuDeviceGetName, (char *name, int bytes, int device))                                                            \
    X(cuDeviceGetUuid, (drv_uuid * uuid, int device))                                                                  \
    X(cuDeviceTotalMem, (size_t * bytes, int device))                                                                  \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                                                   \
    X(cuDevicePrimaryCtxRetain, (drv_ctx * ctx, int device))                                                           \
    X(cuCtxSetCurrent, (drv_ctx ctx))                                                                                  \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuGetErrorName, (int error, const char **name))                                                                  \
    X(cuMemGetInfo, (size_t * left, size_t * total))                                                                   \
    X(cuMemAlloc, (drv_ptr * p, size_t bytes))                                                                         \
    X(cuMemFree, (drv_ptr p))                                                                                          \
    X(cuMemAllocHost, (void **p, size_t bytes))                                                                        \
    X(cuMemFreeHost, (void *p))                                                                                        \
    X(cuMemHostRegister, (void *p, size_t bytes, unsigned flags))                                                      \
    X(cuMemHostUnregister, (void *p))                                                                                  \
    X(cuMemHostGetDevicePointer, (drv_ptr * d, void *p, unsigned flags))                                               \
    X(cuMemcpyHtoD, (drv_ptr to, const void *from, size_t bytes))                                                      \
    X(cuMemcpyDtoH, (void *to, drv_ptr from, size_t bytes))                                                            \
    X(cuMemcpyHtoDAsync, (drv_ptr to, const void *from, size_t bytes, drv_stream stream))                              \
    X(cuMemcpyDtoHAsync, (void *to, drv_ptr from, size_t bytes, drv_stream stream))                                    \
    X(cuMemsetD8Async, (drv_ptr p, unsigned char value, size_t bytes, drv_stream stream))                              \
    X(cuMemAddressReserve, (drv_ptr * p, size_t bytes, size_t align, drv_ptr hint, unsigned long long flags))          \
    X(cuMemAddressFree, (drv_ptr p, size_t bytes))                                                                     \
    X(cuMemCreate, (drv_handle * h, size_t bytes, const drv_prop *prop, unsigned long long flags))                     \
    X(cuMemRelease, (drv_handle h))                                                                                    \
    X(cuMemMap, (drv_ptr p, size_t bytes, size_t offset, drv_handle h, unsigned long long flags))                      \
    X(cuMemUnmap, (drv_ptr p, size_t bytes))                                                                           \
    X(cuMemSetAccess, (drv_ptr p, size_t bytes, const drv_access *access, size_t count))                               \
    X(cuMemGetAllocationGranularity, (size_t * granule, const drv_prop *prop, int option))                             \
    X(cuMemExportToShareableHandle, (void *handle, drv_handle h, int type, unsigned long long flags))                  \
    X(cuMemImportFromShareableHandle, (drv_handle * h, void *handle, int type))                                        \
    X(cuIpcGetMemHandle, (drv_ipc * handle, drv_ptr p))                                                                \
    X(cuIpcOpenMemHandle, (drv_ptr * p, drv_ipc handle, unsigned flags))                                               \
    X(cuIpcCloseMemHandle, (drv_ptr p))                                                                                \
    X(cuStreamCreate, (drv_stream * stream, unsigned flags))                                                           \
    X(cuStreamSynchronize, (drv_stream stream))                                                                        \
    X(cuStreamQuery, (drv_stream stream))                                                                              \
    X(cuStreamWaitEvent, (drv_stream stream, drv_event event, unsigned flags))                                         \
    X(cuStreamWaitValue64, (drv_stream stream, drv_ptr p, uint64_t value, unsigned flags))                             \
    X(cuStreamWriteValue64, (drv_stream stream, drv_ptr p, uint64_t value, unsigned flags))                            \
    X(cuEventCreate, (drv_event * event, unsigned flags))                                                              \
    X(cuEventRecord, (drv_event event, drv_stream stream))                                                             \
    X(cuEventQuery, (drv_event event))                                                                                 \
    X(cuEventSynchronize, (drv_event event))                                                                           \
    X(cuEventElapsedTime, (float *ms, drv_event from, drv_event to))                                                   \
    X(cuModuleLoadData, (drv_module * module, const void *image))                                                      \
    X(cuModuleGetFunction, (drv_function * function, drv_module module, const char *name))                             \
    X(cuLaunchKernel, (drv_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,   \
                       unsigned shared, drv_stream stream, void **params, void **extra))

typedef struct drv_table {
#define DRV_MEMBER(name, args) int(*name) args;
    DRV_CALLS(DRV_MEMBER)
#undef DRV_MEMBER
} drv_table;
extern drv_table drv;

/* NULL, or the words that say what is missing. */
const char *drv_open(void);
const char *drv_name(int error);

#endif
