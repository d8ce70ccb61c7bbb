/* tensorctl: look at a running tensord, at the op table, and at the machine; run programs. */
#include "client/tensorctl/tensorctl.h"
#include "proto/base/text.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: tensorctl [--socket PATH | --pid PID] [--json | --prometheus] COMMAND\n"
    "\n"
    "  daemons           the daemons of this user, private ones too\n"
    "  status            the daemon's counts, one line each\n"
    "  sessions          connected processes, what they hold and what they wait for\n"
    "  tensors           what takes memory, by program and line, name or queue, the most first; with --json every one\n"
    "  names             published tensors\n"
    "  models            published models, by version: requests, batches, times, memory\n"
    "  drop NAME         take a name away; who holds the tensor keeps it\n"
    "  queues            queues, what they hold, and who waits\n"
    "  groups            groups of ranks: who is in, rounds a second, who comes last, what each rank does\n"
    "  segments          pieces of shared memory\n"
    "  devices           the CPU and other devices: what is taken of their memory\n"
    "  turns             how long the loop is at one thing, if the daemon was started with --turns\n"
    "  loaders           data loaders and their workers: where the time goes\n"
    "  top               status, loaders, groups and sessions, again and again (--interval SECONDS, --count N)\n"
    "  run PROGRAM       call a program: a .td file, or the name that one was published under\n"
    "  program FORM PROGRAM    what it is: show, code, passes (after each), dot, svg, check;\n"
    "                          plan: what the daemon runs as one call, for such arguments (--in); of a NAME also by "
    "now\n"
    "  ops [NAME]        the op table; or one op: its signature, dtypes, gradients, an example\n"
    "  doctor            what this machine grants, and what to change\n"
    "  bench             round trip, pipelined ops, hand-off of memory\n"
    "\n"
    "  --socket PATH     the daemon there (default: $TENSORD_SOCKET, else the user's, else the private one that runs)\n"
    "  --pid PID         the private daemon of that program, or with that number\n"
    "  --json            for programs\n"
    "  --prometheus      status, devices, sessions, queues and groups as Prometheus reads them\n"
    "  --in NAME=VALUE   of run and program plan: an argument: a tensor's file (.npy, .npz, .pt, .safetensors; "
    "FILE:NAME), a number, a "
    "text\n"
    "  --out FILE        of run: where a tensor of the results goes, in their order; or all of them, to .npz, .pt, "
    ".safetensors\n"
    "  --entry NAME      of run and program: one of several programs of a file (default: forward)\n"
    "  --repeat N        of run: so often, and say how long it took\n"
    "  --device cuda     of ops: what each op has there, and how many have it\n"
    "  --help --version\n";

int ctl_fail(const char *what)
{
    const td_error *e = td_last_error();
    char shown[4 * sizeof e->message];
    fprintf(stderr, "tensorctl: %s: %s\n", e->op[0] ? e->op : what, td_text_visible(shown, sizeof shown, e->message));
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

static int drop(const ctl_options *o, const char *name)
{
    if (!name) {
        fputs("tensorctl: drop wants a name; tensorctl names lists them\n", stderr);
        return 2;
    }
    td_client *c = ctl_connect(o);
    if (!c) return 1;
    int rc = td_drop(c, name) ? ctl_fail("drop") : 0;
    td_disconnect(c);
    return rc;
}

/* One of the two, or neither: a table of the daemon's with that name. */
typedef struct command {
    const char *name;
    int (*run)(const ctl_options *o);
    int (*run_on)(const ctl_options *o, const char *argument);
} command;

static const command commands[] = {
    {"daemons", ctl_daemons, NULL}, {"status", NULL, NULL},
    {"sessions", NULL, NULL},       {"tensors", ctl_tensors, NULL},
    {"names", NULL, NULL},          {"drop", NULL, drop},
    {"groups", NULL, NULL},         {"queues", NULL, NULL},
    {"segments", NULL, NULL},       {"loaders", ctl_loaders_command, NULL},
    {"top", ctl_top, NULL},         {"ops", NULL, ctl_ops},
    {"doctor", ctl_doctor, NULL},   {"bench", ctl_bench, NULL},
    {"turns", NULL, NULL},          {"devices", NULL, NULL},
    {"run", ctl_run, NULL},         {"program", ctl_program, NULL},
    {"models", ctl_models, NULL},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const char *name_of_command(unsigned i)
{
    return commands[i].name;
}

static int run(const ctl_options *o, const char *name, const char *argument)
{
    if (o->prometheus) {
        if (strcmp(name, "status") == 0) return ctl_prometheus(o);
        fprintf(stderr, "tensorctl: --prometheus goes with status, not with %s\n", name);
        return 2;
    }
    for (const command *c = commands; c < commands + COMMANDS; c++) {
        if (strcmp(name, c->name) != 0) continue;
        return c->run ? c->run(o) : c->run_on ? c->run_on(o, argument) : ctl_table(o, name);
    }
    ctl_unknown("command", name, COMMANDS, name_of_command, "tensorctl --help");
    return 2;
}

static void add_word(const char *words[CTL_MOST_WORDS], int *n)
{
    if (*n < CTL_MOST_WORDS) words[(*n)++] = optarg;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'}, {"pid", required_argument, NULL, 'p'},
        {"json", no_argument, NULL, 'j'},         {"interval", required_argument, NULL, 'i'},
        {"count", required_argument, NULL, 'n'},  {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {"prometheus", no_argument, NULL, 'P'},
        {"in", required_argument, NULL, 'I'},     {"out", required_argument, NULL, 'O'},
        {"entry", required_argument, NULL, 'e'},  {"repeat", required_argument, NULL, 'r'},
        {"device", required_argument, NULL, 'd'}, {0}};
    ctl_options o = {.interval = 1, .count = -1};
    for (int c; (c = getopt_long(argc, argv, "s:p:ji:n:hV", options, NULL)) != -1;) {
        switch (c) {
        case 's': o.socket = optarg; break;
        case 'p': o.pid = atoi(optarg); break;
        case 'j': o.json = true; break;
        case 'P': o.prometheus = true; break;
        case 'i': o.interval = atof(optarg); break;
        case 'n': o.count = atoi(optarg); break;
        case 'I': add_word(o.in, &o.nin); break;
        case 'O': add_word(o.out, &o.nout); break;
        case 'e': o.entry = optarg; break;
        case 'r': o.repeat = atoi(optarg); break;
        case 'd': o.device = optarg; break;
        case 'h': fputs(usage, stdout); return 0;
        case 'V': printf("tensorctl %s\n", td_version()); return 0;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (optind >= argc && !o.prometheus) {
        fputs(usage, stderr);
        return 2;
    }
    const char *asked = optind < argc ? argv[optind] : "status";
    o.nwords = optind < argc ? argc - optind - 1 : 0;
    o.words = (const char *const *)argv + optind + 1;
    /* Looking starts nothing; a benchmark and what is run may have a daemon of their own. */
    if (strcmp(asked, "bench") != 0 && strcmp(asked, "run") != 0) setenv("TENSORD_DAEMON", "none", 1);
    return run(&o, asked, optind + 1 < argc ? argv[optind + 1] : NULL);
}
