/* Names and argument bytes of CUDA's kernels by their numbers (kernels.h). */
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"

#define TEXT(x) #x
const td_cuda_kernel td_cuda_kernels[] = {
#define PAIR(shard, name)                                                                                              \
    {"td_k_flat_" TEXT(name), shard, sizeof(td_ca_flat)}, {"td_k_walk_" TEXT(name), shard, sizeof(td_ca_walk)},
    TD_CUDA_POINTWISE(PAIR)
#define ONE(image, name, args) {"td_k_" TEXT(name), image, sizeof(args)},
        TD_CUDA_WRITTEN(ONE)
#define TWO(name) TD_CUDA_FOLD(name, ONE)
            TD_CUDA_FOLDS(TWO){"cublasLt", TD_CUDA_IMAGES, sizeof(td_cuda_product)}};
const unsigned td_cuda_kernel_count = TD_CK_COUNT;
