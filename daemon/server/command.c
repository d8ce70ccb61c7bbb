/* The daemon's command: read the options, serve, end. */
#include "daemon/cuda/cuda.h"
#include "daemon/server/server.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>

static int report(const td_error *e)
{
    fprintf(stderr, "tensord: %s\n", e->message);
    return 1;
}

/* A call of malloc or free takes microseconds, whatever was freed before. */
static void bound_malloc(void)
{
    mallopt(M_MXFAST, 0); /* else hundreds of thousands of small blocks are merged at once, now and then */
    mallopt(M_TRIM_THRESHOLD, INT_MAX);  /* else free gives all that is free at the end back: the server does */
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* else what a library needs for one product comes and goes by the page */
}

int td_server_main(int argc, char **argv, const td_device_kind *const *devices)
{
    td_server server;
    td_options o;
    td_error e = {0};
    if (td_options_parse(&o, argc, argv, &e)) {
        report(&e);
        return 2;
    }
    if (o.help || o.version) {
        if (o.help) td_options_help();
        else puts("tensord " TD_VERSION);
        return 0;
    }
    bound_malloc();
    td_log_set(o.log);
    td_cuda_configure(&o.cuda);
    if (td_server_init(&server, &o, devices, &e)) return report(&e);
    td_server_run(&server);
    td_server_deinit(&server);
    return 0;
}
