/* What the programs of the quickstart have in common: their options, how they end when something fails, and how they
 * report figures to the driver. */
#ifndef QUICKSTART_H
#define QUICKSTART_H

#include "quickstart_data.h"
#include "tensord.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 50 /* rows in a batch */

struct options {
    const char *who;         /* "trainer", "loader 1": for messages */
    const char *csv, *mnist; /* the data */
    int epochs, part, parts; /* this process is number `part` of `parts` */
    int stop_at;             /* the ticket in the middle of which a loader stops; -1: none */
    int joined;              /* a loader's descriptor to close when it has opened the queue; -1: none */
    uint64_t seed;
};

/* Ends the program with one line when an argument makes no sense. */
struct options read_options(int argc, char **argv);

/* A line about what happens, with the name of the process before it. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same on stderr, and the end. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Go on when `ok`; else end, with tensord's last error and what was tried. */
void check(const char *what, bool ok);

/* Tell the driver a figure: a note on a queue, "name value". Figures of one name are added up. */
void report(td_client *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The bytes of tensors that this process wrote or read in shared memory. */
void report_shared(td_client *c, long bytes);

/* Batches in an epoch; seconds on a steady clock. */
int batch_count(const struct dataset *d);
double now(void);

#endif
