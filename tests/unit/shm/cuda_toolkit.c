/* cuda.h's side of the comparison (cuda_layout.h). */
#include "tests/unit/shm/cuda_layout.h"

#ifdef TD_TESTS_CUDA_H
#include <cuda.h>
/* After cuda.h, whose types it then takes. */
#include "shm/cuda/driver.h"

#define SAME_TYPE(name, version, parameters)                                                                           \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), __typeof__(((td_cuda_driver *)0)->name)),           \
                   #name " is declared otherwise");
TD_CUDA_FUNCTIONS(SAME_TYPE)

const cuda_layout *cuda_layout_of_toolkit(void)
{
    static const cuda_layout all[] = CUDA_LAYOUT, last[] = {{0}};
    static cuda_layout ended[sizeof all / sizeof *all + 1];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ended[i] = all[i];
    ended[sizeof all / sizeof *all] = last[0];
    return ended;
}
#else
const cuda_layout *cuda_layout_of_toolkit(void)
{
    return NULL;
}
#endif
