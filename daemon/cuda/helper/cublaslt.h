/* cuBLASLt, found at run time: its types, and a table of the functions that tensord calls.
 *
 * No build needs it: the declarations are ours, under NVIDIA's names, and a test compares them with cublasLt.h where
 * that is. They are the same from version 12 to 13: what has another size there is made by the library itself. */
#ifndef TENSORD_DAEMON_CUDA_HELPER_CUBLASLT_H
#define TENSORD_DAEMON_CUDA_HELPER_CUBLASLT_H

#include "shm/cuda/driver.h"

#ifndef CUBLASAPI /* of cublasLt.h */
typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
} cublasStatus_t;
typedef enum {
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F_PEDANTIC = 71
} cublasComputeType_t;
typedef enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 } cudaDataType_t, cudaDataType;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum {
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
} cublasLtMatrixLayoutAttribute_t;
typedef enum { CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4 } cublasLtMatmulDescAttributes_t;
typedef enum {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
} cublasLtMatmulPreferenceAttributes_t;
typedef enum {
    CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,
    CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3
} cublasLtMatmulAlgoConfigAttributes_t;
typedef enum { CUBLASLT_REDUCTION_SCHEME_NONE = 0 } cublasLtReductionScheme_t;

typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef struct cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
#endif

/* Each as F(result, name, parameters). */
#define TD_CUBLASLT_FUNCTIONS(F)                                                                                       \
    F(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle))                                                     \
    F(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle))                                                      \
    F(size_t, cublasLtGetVersion, (void))                                                                              \
    F(const char *, cublasLtGetStatusString, (cublasStatus_t status))                                                  \
    F(cublasStatus_t, cublasLtMatrixLayoutCreate,                                                                      \
      (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld))               \
    F(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                    \
    F(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                                                                \
      (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what, const void *value, size_t bytes))          \
    F(cublasStatus_t, cublasLtMatmulDescCreate,                                                                        \
      (cublasLtMatmulDesc_t * desc, cublasComputeType_t compute, cudaDataType_t scale))                                \
    F(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc))                                          \
    F(cublasStatus_t, cublasLtMatmulDescSetAttribute,                                                                  \
      (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes))               \
    F(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference))                       \
    F(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                        \
    F(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                                            \
      (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t what, const void *value,            \
       size_t bytes))                                                                                                  \
    F(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                                                  \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,         \
       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,          \
       cublasLtMatmulHeuristicResult_t results[], int *count))                                                         \
    F(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,                                                            \
      (const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t what, void *value, size_t bytes,         \
       size_t *written))                                                                                               \
    F(cublasStatus_t, cublasLtMatmul,                                                                                  \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,                           \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,              \
       const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,                       \
       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream))

#define TD_CUBLASLT_MEMBER(result, name, parameters) result(*name) parameters;
typedef struct td_cublaslt {
    TD_CUBLASLT_FUNCTIONS(TD_CUBLASLT_MEMBER)
    void *library;
} td_cublaslt;
#undef TD_CUBLASLT_MEMBER

#endif
