/* The table of the kernels on the host: see host.h. */
#include "daemon/kernels/cuda/device/host.h"
#include "daemon/kernels/cuda/kernels.h"

#define DECLARE(name) extern "C" void td_k_##name(const unsigned *, const unsigned *, unsigned, const void *);
#define PAIR(shard, name) DECLARE(flat_##name) DECLARE(walk_##name)
#define ONE(image, name, args) DECLARE(name)
#define TWO(name) TD_CUDA_FOLD(name, ONE)
TD_CUDA_POINTWISE(PAIR)
TD_CUDA_WRITTEN(ONE)
TD_CUDA_FOLDS(TWO)
#undef PAIR
#undef ONE

extern "C" const td_host_kernel td_host_kernels[] = {
#define PAIR(shard, name)                                                                                              \
    {"td_k_flat_" #name, sizeof(td_ca_flat), td_k_flat_##name}, {"td_k_walk_" #name, sizeof(td_ca_walk), td_k_walk_##name},
#define ONE(image, name, args) {"td_k_" #name, sizeof(args), td_k_##name},
    TD_CUDA_POINTWISE(PAIR) TD_CUDA_WRITTEN(ONE) TD_CUDA_FOLDS(TWO)};
extern "C" const unsigned td_host_kernel_count = sizeof td_host_kernels / sizeof *td_host_kernels;
