/* A module that only brings a library into a wheel: see blas.h. It names one function of it (TD_CARRIED), so that the
 * linker cannot leave the library out. */
#include "daemon/kernels/cpu/blas.h"

void (*td_cpu_carried(void))(void)
{
    return (void (*)(void))TD_CARRIED;
}
