/* Where NVIDIA's libraries beside the driver may lie: cuBLASLt of a Python package, of the system, of a toolkit.
 *
 * TENSORD_CUDA_LIBRARIES is a list of directories with colons between; they come first. Then the name alone, which the
 * linker looks for; then the toolkit's usual place. In each place the newer version comes first. With "off" there is
 * none to be used. */
#ifndef TENSORD_SHM_CUDA_LIBRARY_H
#define TENSORD_SHM_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

enum { TD_CUDA_PATH = 512 };

/* Place number i for cuBLASLt, from 0 on, to be given to dlopen; whether something is there is not looked at. False:
 * there are no more. */
bool td_cuda_library_place(unsigned i, char path[TD_CUDA_PATH]);
/* The first file in such a place, as far as files tell: no library is opened. False: there is none. */
bool td_cuda_library_find(char path[TD_CUDA_PATH]);

#endif
