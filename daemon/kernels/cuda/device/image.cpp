/* One image: a shard of the pointwise kernels (TD_SHARD), or the file of kernels that TD_IMAGE names. */
#ifdef TD_SHARD
#include "daemon/kernels/cuda_pointwise.inc" /* generated */
#else
#include TD_IMAGE
#endif
