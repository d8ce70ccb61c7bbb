/* tensord: read the options, serve, end. */
#include "daemon/server/server.h"

#include <stdio.h>

static int report(const td_error *e)
{
    fprintf(stderr, "tensord: %s\n", e->message);
    return 1;
}

int main(int argc, char **argv)
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
    td_log_set(o.log);
    if (td_server_init(&server, &o, &e)) return report(&e);
    td_server_run(&server);
    td_server_deinit(&server);
    return 0;
}
