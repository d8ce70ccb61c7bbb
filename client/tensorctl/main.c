/* tensorctl: look at a running tensord, at the op table, and at the machine. */
#include "client/tensorctl/tensorctl.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: tensorctl [--socket PATH | --pid PID] [--json] COMMAND\n"
    "\n"
    "  daemons           the daemons of this user, private ones too\n"
    "  status            the daemon's counts, one line each\n"
    "  sessions          connected processes and what they hold\n"
    "  tensors           every tensor that a session holds\n"
    "  names             published tensors\n"
    "  queues            queues, with who waits\n"
    "  segments          pieces of shared memory\n"
    "  loaders           data loaders and their workers: where the time goes\n"
    "  top               status, loaders and sessions, again and again (--interval SECONDS, --count N)\n"
    "  ops [NAME]        the op table; or one op: its signature, dtypes, gradients, an example\n"
    "  doctor            what this machine grants, and what to change\n"
    "  bench             round trip, pipelined ops, hand-off of memory\n"
    "\n"
    "  --socket PATH     the daemon there (default: $TENSORD_SOCKET, else the user's, else the private one that runs)\n"
    "  --pid PID         the private daemon of that program, or with that number\n"
    "  --json            for programs\n"
    "  --help --version\n";

int ctl_fail(const char *what)
{
    const td_error *e = td_last_error();
    fprintf(stderr, "tensorctl: %s: %s\n", e->op[0] ? e->op : what, e->message);
    return 1;
}

int ctl_table(const ctl_options *o, const char *what)
{
    td_client *c = ctl_connect(o);
    if (!c) return 1;
    td_table *t = td_status(c, what);
    if (t) ctl_print(t, o->json);
    int rc = t ? 0 : ctl_fail(what);
    td_table_free(t);
    td_disconnect(c);
    return rc;
}

static int run(const ctl_options *o, const char *command, const char *argument)
{
    static const char *const tables[] = {"status", "sessions", "tensors", "names", "queues", "segments"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (strcmp(command, tables[i]) == 0) return ctl_table(o, command);
    if (strcmp(command, "daemons") == 0) return ctl_daemons(o);
    if (strcmp(command, "ops") == 0) return ctl_ops(o, argument);
    if (strcmp(command, "loaders") == 0) return ctl_loaders_command(o);
    if (strcmp(command, "top") == 0) return ctl_top(o);
    if (strcmp(command, "doctor") == 0) return ctl_doctor(o);
    if (strcmp(command, "bench") == 0) return ctl_bench(o);
    fprintf(stderr, "tensorctl: there is no command '%s'; tensorctl --help lists them\n", command);
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'}, {"pid", required_argument, NULL, 'p'},
        {"json", no_argument, NULL, 'j'},         {"interval", required_argument, NULL, 'i'},
        {"count", required_argument, NULL, 'n'},  {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {0}};
    ctl_options o = {.interval = 1, .count = -1};
    for (int c; (c = getopt_long(argc, argv, "s:p:ji:n:hV", options, NULL)) != -1;) {
        switch (c) {
        case 's': o.socket = optarg; break;
        case 'p': o.pid = atoi(optarg); break;
        case 'j': o.json = true; break;
        case 'i': o.interval = atof(optarg); break;
        case 'n': o.count = atoi(optarg); break;
        case 'h': fputs(usage, stdout); return 0;
        case 'V': printf("tensorctl %s\n", td_version()); return 0;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (optind >= argc) {
        fputs(usage, stderr);
        return 2;
    }
    /* Looking starts nothing; a benchmark may have a daemon of its own. */
    if (strcmp(argv[optind], "bench") != 0) setenv("TENSORD_DAEMON", "none", 1);
    return run(&o, argv[optind], optind + 1 < argc ? argv[optind + 1] : NULL);
}
