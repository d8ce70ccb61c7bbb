/* tensord. */
#include "daemon/server/server.h"

int main(int argc, char **argv)
{
    static const td_device_kind *const devices[] = {NULL}; /* beside the CPU: none yet */
    return td_server_main(argc, argv, devices);
}
