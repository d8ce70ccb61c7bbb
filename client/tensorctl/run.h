/* tensorctl run: a call in the making. */
#ifndef TENSORD_CLIENT_TENSORCTL_RUN_H
#define TENSORD_CLIENT_TENSORCTL_RUN_H

#include "client/program/programs.h"
#include "client/tensorctl/tensorctl.h"

typedef struct ctl_running {
    const ctl_options *o;
    int word; /* which of the command's says the program */
    td_client *client;
    td_program *program;
    char *call; /* how Python calls it, JSON, with the defaults; NULL: not known */
    td_value *args;
    uint32_t nargs;
    td_value result;
} ctl_running;

/* run_args.c: a value for each parameter, from --in NAME=VALUE, or its default. False: why was said. */
bool ctl_run_args(ctl_running *r);
/* run_results.c: tensors to the files of --out, or to the terminal with all else. False: the thread's error says why.
 */
bool ctl_run_results(ctl_running *r);

#endif
