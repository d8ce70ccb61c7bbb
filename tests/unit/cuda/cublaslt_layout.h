/* Sizes, places and numbers of cuBLASLt's types, as whoever includes this has them declared: by us, or by cublasLt.h.
 */
#ifndef TENSORD_TESTS_UNIT_CUDA_CUBLASLT_LAYOUT_H
#define TENSORD_TESTS_UNIT_CUDA_CUBLASLT_LAYOUT_H

#include "tests/unit/shm/cuda_layout.h"

#define CUBLASLT_LAYOUT                                                                                                \
    {                                                                                                                  \
        CUDA_LAYOUT_NUMBER(sizeof(cublasStatus_t)), CUDA_LAYOUT_NUMBER(sizeof(cublasLtMatmulAlgo_t)),                  \
            CUDA_LAYOUT_NUMBER(sizeof(cublasLtMatmulHeuristicResult_t)),                                               \
            CUDA_LAYOUT_NUMBER(offsetof(cublasLtMatmulHeuristicResult_t, algo)),                                       \
            CUDA_LAYOUT_NUMBER(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize)),                              \
            CUDA_LAYOUT_NUMBER(offsetof(cublasLtMatmulHeuristicResult_t, state)),                                      \
            CUDA_LAYOUT_NUMBER(offsetof(cublasLtMatmulHeuristicResult_t, wavesCount)),                                 \
            CUDA_LAYOUT_NUMBER(sizeof(cudaDataType)), CUDA_LAYOUT_NUMBER(sizeof(cublasComputeType_t)),                 \
            CUDA_LAYOUT_NUMBER(CUBLAS_STATUS_SUCCESS), CUDA_LAYOUT_NUMBER(CUBLAS_STATUS_INVALID_VALUE),                \
            CUDA_LAYOUT_NUMBER(CUBLAS_STATUS_NOT_SUPPORTED), CUDA_LAYOUT_NUMBER(CUBLAS_COMPUTE_32F),                   \
            CUDA_LAYOUT_NUMBER(CUBLAS_COMPUTE_32F_PEDANTIC), CUDA_LAYOUT_NUMBER(CUBLAS_COMPUTE_64F_PEDANTIC),          \
            CUDA_LAYOUT_NUMBER(CUDA_R_32F), CUDA_LAYOUT_NUMBER(CUDA_R_64F), CUDA_LAYOUT_NUMBER(CUDA_R_16F),            \
            CUDA_LAYOUT_NUMBER(CUDA_R_16BF), CUDA_LAYOUT_NUMBER(CUBLAS_OP_N), CUDA_LAYOUT_NUMBER(CUBLAS_OP_T),         \
            CUDA_LAYOUT_NUMBER(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT),                                                    \
            CUDA_LAYOUT_NUMBER(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),                                           \
            CUDA_LAYOUT_NUMBER(CUBLASLT_MATMUL_DESC_TRANSA), CUDA_LAYOUT_NUMBER(CUBLASLT_MATMUL_DESC_TRANSB),          \
            CUDA_LAYOUT_NUMBER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),                                              \
            CUDA_LAYOUT_NUMBER(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),                                            \
            CUDA_LAYOUT_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),                                            \
            CUDA_LAYOUT_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),                                            \
            CUDA_LAYOUT_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),                                            \
            CUDA_LAYOUT_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES),                                            \
            CUDA_LAYOUT_NUMBER(CUBLASLT_ALGO_CONFIG_SPLITK_NUM),                                                       \
            CUDA_LAYOUT_NUMBER(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),                                                 \
            CUDA_LAYOUT_NUMBER(CUBLASLT_REDUCTION_SCHEME_NONE)                                                         \
    }

/* Of cublasLt.h, as many as CUBLASLT_LAYOUT has; all functions of the table have the types that it declares (a build
 * that has it fails otherwise). NULL: it is not here. */
const cuda_layout *cublaslt_layout_of_header(void);

#endif
