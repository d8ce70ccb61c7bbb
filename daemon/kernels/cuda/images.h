/* The compiled kernels as a driver loads them: fatbins, by the image number of a kernel (td_cuda_kernels). None where
 * there was no nvcc. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_IMAGES_H
#define TENSORD_DAEMON_KERNELS_CUDA_IMAGES_H

#include <stddef.h>

typedef struct td_cuda_image {
    const unsigned char *begin, *end;
} td_cuda_image;
extern const td_cuda_image td_cuda_images[];
extern const unsigned td_cuda_image_count;

#endif
