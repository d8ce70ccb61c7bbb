/* tensord-fake: a daemon with the fake device beside the CPU. */
#include "daemon/server/server.h"
#include "tests/support/fake_device.h"

int main(int argc, char **argv)
{
    static const td_device_kind *const devices[] = {&fake_device_kind, NULL};
    return td_server_main(argc, argv, devices);
}
