/* Which kernel a copy is for. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_MOVE_H
#define TENSORD_DAEMON_KERNELS_CUDA_MOVE_H

#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"

/* All but addresses is given; dimensions may come to lie in another order. moves: there is a tensor to copy from. */
unsigned td_cuda_copy_kernel(td_ca_copy *a, bool moves, td_cuda_shape *shape);

#endif
