/* Sizes, places and numbers of the driver's types, as whoever includes this has them declared: by us, or by cuda.h. */
#ifndef TENSORD_TESTS_UNIT_SHM_CUDA_LAYOUT_H
#define TENSORD_TESTS_UNIT_SHM_CUDA_LAYOUT_H

#include <stddef.h>

typedef struct cuda_layout {
    const char *name;
    long long value;
} cuda_layout;

#define CUDA_LAYOUT_NUMBER(n)                                                                                          \
    {                                                                                                                  \
#n, (long long)(n)                                                                                             \
    }
#define CUDA_LAYOUT                                                                                                    \
    {                                                                                                                  \
        CUDA_LAYOUT_NUMBER(sizeof(CUresult)), CUDA_LAYOUT_NUMBER(sizeof(CUdevice)),                                    \
            CUDA_LAYOUT_NUMBER(sizeof(CUdeviceptr)), CUDA_LAYOUT_NUMBER(sizeof(CUmemGenericAllocationHandle)),         \
            CUDA_LAYOUT_NUMBER(sizeof(CUcontext)), CUDA_LAYOUT_NUMBER(sizeof(CUuuid)),                                 \
            CUDA_LAYOUT_NUMBER(sizeof(CUipcMemHandle)), CUDA_LAYOUT_NUMBER(sizeof(CUmemAllocationProp)),               \
            CUDA_LAYOUT_NUMBER(offsetof(CUmemAllocationProp, requestedHandleTypes)),                                   \
            CUDA_LAYOUT_NUMBER(offsetof(CUmemAllocationProp, location)),                                               \
            CUDA_LAYOUT_NUMBER(offsetof(CUmemAllocationProp, allocFlags)),                                             \
            CUDA_LAYOUT_NUMBER(sizeof(CUmemAccessDesc)), CUDA_LAYOUT_NUMBER(offsetof(CUmemAccessDesc, flags)),         \
            CUDA_LAYOUT_NUMBER(CUDA_ERROR_INVALID_VALUE), CUDA_LAYOUT_NUMBER(CUDA_ERROR_OUT_OF_MEMORY),                \
            CUDA_LAYOUT_NUMBER(CUDA_ERROR_NOT_INITIALIZED), CUDA_LAYOUT_NUMBER(CUDA_ERROR_NO_DEVICE),                  \
            CUDA_LAYOUT_NUMBER(CUDA_ERROR_INVALID_DEVICE), CUDA_LAYOUT_NUMBER(CUDA_ERROR_INVALID_IMAGE),               \
            CUDA_LAYOUT_NUMBER(CUDA_ERROR_INVALID_CONTEXT), CUDA_LAYOUT_NUMBER(CUDA_ERROR_NO_BINARY_FOR_GPU),          \
            CUDA_LAYOUT_NUMBER(CUDA_ERROR_INVALID_HANDLE), CUDA_LAYOUT_NUMBER(CUDA_ERROR_NOT_FOUND),                   \
            CUDA_LAYOUT_NUMBER(CUDA_ERROR_NOT_READY), CUDA_LAYOUT_NUMBER(CUDA_ERROR_ILLEGAL_ADDRESS),                  \
            CUDA_LAYOUT_NUMBER(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),                                             \
            CUDA_LAYOUT_NUMBER(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED), CUDA_LAYOUT_NUMBER(CUDA_ERROR_LAUNCH_FAILED),   \
            CUDA_LAYOUT_NUMBER(CUDA_ERROR_NOT_SUPPORTED), CUDA_LAYOUT_NUMBER(CUDA_ERROR_UNKNOWN),                      \
            CUDA_LAYOUT_NUMBER(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),                                              \
            CUDA_LAYOUT_NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),                                          \
            CUDA_LAYOUT_NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),                                          \
            CUDA_LAYOUT_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),                                 \
            CUDA_LAYOUT_NUMBER(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),                               \
            CUDA_LAYOUT_NUMBER(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED),                       \
            CUDA_LAYOUT_NUMBER(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),                                       \
            CUDA_LAYOUT_NUMBER(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),                                              \
            CUDA_LAYOUT_NUMBER(CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_LAYOUT_NUMBER(CU_MEM_LOCATION_TYPE_DEVICE),        \
            CUDA_LAYOUT_NUMBER(CU_MEM_ACCESS_FLAGS_PROT_READWRITE),                                                    \
            CUDA_LAYOUT_NUMBER(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), CUDA_LAYOUT_NUMBER(CU_STREAM_NON_BLOCKING),      \
            CUDA_LAYOUT_NUMBER(CU_EVENT_DISABLE_TIMING), CUDA_LAYOUT_NUMBER(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),       \
            CUDA_LAYOUT_NUMBER(CU_MEMHOSTREGISTER_PORTABLE), CUDA_LAYOUT_NUMBER(CU_MEMHOSTREGISTER_DEVICEMAP),         \
            CUDA_LAYOUT_NUMBER(CU_MEMHOSTALLOC_PORTABLE), CUDA_LAYOUT_NUMBER(CU_MEMHOSTALLOC_DEVICEMAP),               \
            CUDA_LAYOUT_NUMBER(CU_LAUNCH_PARAM_END), CUDA_LAYOUT_NUMBER(CU_LAUNCH_PARAM_BUFFER_POINTER),               \
            CUDA_LAYOUT_NUMBER(CU_LAUNCH_PARAM_BUFFER_SIZE)                                                            \
    }

/* Of cuda.h, up to one without a name; all functions of the table have the types that it declares (a build that has it
 * fails otherwise). NULL: it is not here. */
const cuda_layout *cuda_layout_of_toolkit(void);

#endif
