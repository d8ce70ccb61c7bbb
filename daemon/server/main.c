/* tensord. */
#include "daemon/cuda/cuda.h"
#include "daemon/server/server.h"

int main(int argc, char **argv)
{
    static const td_device_kind *const devices[] = {/* beside the CPU */
#ifdef TD_WITH_CUDA
                                                    &td_cuda_kind,
#endif
                                                    NULL};
    return td_server_main(argc, argv, devices);
}
