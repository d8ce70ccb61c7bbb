/* The CUDA driver, found at run time: its types, and a table of the functions that tensord calls.
 *
 * No build needs a toolkit: the declarations are ours, under NVIDIA's names, and a test compares them with cuda.h where
 * that is. The driver is TENSORD_LIBCUDA, or libcuda.so.1; the functions come from its cuGetProcAddress_v2, each with
 * the CUDA version whose form is declared here, as one name has stood for several forms. A process that opens it should
 * not fork afterwards. The daemon never opens it: tensord-cuda does, and clients that ask for a device address. */
#ifndef TENSORD_SHM_CUDA_DRIVER_H
#define TENSORD_SHM_CUDA_DRIVER_H

#include "proto/base/status.h"

#ifndef CUDA_VERSION /* of cuda.h */
typedef enum cudaError_enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_UNKNOWN = 999
} CUresult;

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;

typedef enum CUdevice_attribute_enum {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103
} CUdevice_attribute;
typedef enum CUfunction_attribute_enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 } CUfunction_attribute;
typedef enum CUmemAllocationHandleType_enum {
    CU_MEM_HANDLE_TYPE_NONE = 0,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1
} CUmemAllocationHandleType;
typedef enum CUmemAllocationType_enum { CU_MEM_ALLOCATION_TYPE_PINNED = 1 } CUmemAllocationType;
typedef enum CUmemLocationType_enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 } CUmemLocationType;
typedef enum CUmemAccess_flags_enum { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 } CUmemAccess_flags;
typedef enum CUmemAllocationGranularity_flags_enum {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1
} CUmemAllocationGranularity_flags;
typedef enum CUdriverProcAddressQueryResult_enum { CU_GET_PROC_ADDRESS_SUCCESS = 0 } CUdriverProcAddressQueryResult;

typedef struct CUmemLocation_st {
    CUmemLocationType type;
    int id;
} CUmemLocation;
typedef struct CUmemAllocationProp_st {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType, gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;
typedef struct CUmemAccessDesc_st {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;

#define CU_STREAM_NON_BLOCKING 1
#define CU_EVENT_DISABLE_TIMING 2
#define CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS 1
#define CU_MEMHOSTREGISTER_PORTABLE 1
#define CU_MEMHOSTREGISTER_DEVICEMAP 2
#define CU_MEMHOSTALLOC_PORTABLE 1
#define CU_MEMHOSTALLOC_DEVICEMAP 2
#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)
#endif

/* Each as F(name, version, parameters): the CUDA version is that of the form which is declared. */
#define TD_CUDA_FUNCTIONS(F)                                                                                           \
    F(cuInit, 2000, (unsigned flags))                                                                                  \
    F(cuDriverGetVersion, 2020, (int *version))                                                                        \
    F(cuGetErrorName, 6000, (CUresult error, const char **name))                                                       \
    F(cuGetErrorString, 6000, (CUresult error, const char **text))                                                     \
    F(cuDeviceGetCount, 2000, (int *count))                                                                            \
    F(cuDeviceGet, 2000, (CUdevice * device, int ordinal))                                                             \
    F(cuDeviceGetName, 2000, (char *name, int length, CUdevice device))                                                \
    F(cuDeviceGetUuid, 11040, (CUuuid * uuid, CUdevice device))                                                        \
    F(cuDeviceTotalMem, 3020, (size_t * bytes, CUdevice device))                                                       \
    F(cuDeviceGetAttribute, 2000, (int *value, CUdevice_attribute attribute, CUdevice device))                         \
    F(cuDevicePrimaryCtxRetain, 7000, (CUcontext * context, CUdevice device))                                          \
    F(cuDevicePrimaryCtxRelease, 11000, (CUdevice device))                                                             \
    F(cuCtxSetCurrent, 4000, (CUcontext context))                                                                      \
    F(cuCtxGetCurrent, 4000, (CUcontext * context))                                                                    \
    F(cuCtxSynchronize, 2000, (void))                                                                                  \
    F(cuMemGetInfo, 3020, (size_t * free, size_t * total))                                                             \
    F(cuMemAlloc, 3020, (CUdeviceptr * address, size_t bytes))                                                         \
    F(cuMemFree, 3020, (CUdeviceptr address))                                                                          \
    F(cuMemGetAllocationGranularity, 10020,                                                                            \
      (size_t * granule, const CUmemAllocationProp *what, CUmemAllocationGranularity_flags which))                     \
    F(cuMemCreate, 10020,                                                                                              \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *what,                           \
       unsigned long long flags))                                                                                      \
    F(cuMemRelease, 10020, (CUmemGenericAllocationHandle handle))                                                      \
    F(cuMemAddressReserve, 10020,                                                                                      \
      (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags))             \
    F(cuMemAddressFree, 10020, (CUdeviceptr address, size_t bytes))                                                    \
    F(cuMemMap, 10020,                                                                                                 \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,                          \
       unsigned long long flags))                                                                                      \
    F(cuMemUnmap, 10020, (CUdeviceptr address, size_t bytes))                                                          \
    F(cuMemSetAccess, 10020, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count))         \
    F(cuMemExportToShareableHandle, 10020,                                                                             \
      (void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags))      \
    F(cuMemImportFromShareableHandle, 10020,                                                                           \
      (CUmemGenericAllocationHandle * handle, void *from, CUmemAllocationHandleType type))                             \
    F(cuIpcGetMemHandle, 4010, (CUipcMemHandle * handle, CUdeviceptr address))                                         \
    F(cuIpcOpenMemHandle, 11000, (CUdeviceptr * address, CUipcMemHandle handle, unsigned flags))                       \
    F(cuIpcCloseMemHandle, 4010, (CUdeviceptr address))                                                                \
    F(cuMemHostAlloc, 2020, (void **memory, size_t bytes, unsigned flags))                                             \
    F(cuMemFreeHost, 2000, (void *memory))                                                                             \
    F(cuMemHostRegister, 6050, (void *memory, size_t bytes, unsigned flags))                                           \
    F(cuMemHostUnregister, 4000, (void *memory))                                                                       \
    F(cuMemHostGetDevicePointer, 3020, (CUdeviceptr * address, void *memory, unsigned flags))                          \
    F(cuMemcpyHtoD, 3020, (CUdeviceptr to, const void *from, size_t bytes))                                            \
    F(cuMemcpyDtoH, 3020, (void *to, CUdeviceptr from, size_t bytes))                                                  \
    F(cuMemcpyHtoDAsync, 3020, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                      \
    F(cuMemcpyDtoHAsync, 3020, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                            \
    F(cuMemcpyDtoDAsync, 3020, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                      \
    F(cuMemsetD8Async, 3020, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))                     \
    F(cuMemsetD16Async, 3020, (CUdeviceptr to, unsigned short value, size_t count, CUstream stream))                   \
    F(cuMemsetD32Async, 3020, (CUdeviceptr to, unsigned value, size_t count, CUstream stream))                         \
    F(cuMemsetD2D32Async, 3020,                                                                                        \
      (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream))                    \
    F(cuStreamCreate, 2000, (CUstream * stream, unsigned flags))                                                       \
    F(cuStreamDestroy, 4000, (CUstream stream))                                                                        \
    F(cuStreamSynchronize, 2000, (CUstream stream))                                                                    \
    F(cuStreamWaitEvent, 3020, (CUstream stream, CUevent event, unsigned flags))                                       \
    F(cuEventCreate, 2000, (CUevent * event, unsigned flags))                                                          \
    F(cuEventDestroy, 4000, (CUevent event))                                                                           \
    F(cuEventRecord, 2000, (CUevent event, CUstream stream))                                                           \
    F(cuEventQuery, 2000, (CUevent event))                                                                             \
    F(cuEventSynchronize, 2000, (CUevent event))                                                                       \
    F(cuModuleLoadData, 2000, (CUmodule * module, const void *image))                                                  \
    F(cuModuleUnload, 2000, (CUmodule module))                                                                         \
    F(cuModuleGetFunction, 2000, (CUfunction * function, CUmodule module, const char *name))                           \
    F(cuFuncSetAttribute, 9000, (CUfunction function, CUfunction_attribute attribute, int value))                      \
    F(cuLaunchKernel, 4000,                                                                                            \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra))

#define TD_CUDA_MEMBER(name, version, parameters) CUresult(*name) parameters;
typedef struct td_cuda_driver {
    TD_CUDA_FUNCTIONS(TD_CUDA_MEMBER)
    void *library;
} td_cuda_driver;
#undef TD_CUDA_MEMBER

/* Open it. TD_E_DEVICE: there is none, or it lacks a function, which the message names. No call is made, but to find
 * the functions. */
int td_cuda_driver_open(td_cuda_driver *d, td_error *e);
/* Fails as TD_E_DEVICE (out of memory: TD_E_MEMORY) with "CALL: what the driver says of the code". */
int td_cuda_failed(const td_cuda_driver *d, const char *call, int code, td_error *e);

#endif
