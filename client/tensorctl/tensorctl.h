/* tensorctl: what its files share. Each command is one function that returns the exit status. */
#ifndef TENSORD_CLIENT_TENSORCTL_TENSORCTL_H
#define TENSORD_CLIENT_TENSORCTL_TENSORCTL_H

#include "client/tensord.h"

enum { CTL_MOST_WORDS = 256 };

typedef struct ctl_options {
    const char *socket; /* NULL: see find.c */
    int pid;            /* of a program with a private daemon, or of the daemon; 0: not said */
    bool json, prometheus;
    double interval;          /* top */
    int count;                /* top: 0 for ever; < 0 not said */
    const char *const *words; /* behind the command */
    int nwords;
    const char *device;                                   /* ops: which of them run there; NULL: not said */
    const char *entry;                                    /* run, program: which of a file's programs; NULL: not said */
    const char *in[CTL_MOST_WORDS], *out[CTL_MOST_WORDS]; /* run */
    int nin, nout, repeat;
} ctl_options;

int ctl_table(const ctl_options *o, const char *what);
int ctl_daemons(const ctl_options *o);
int ctl_tensors(const ctl_options *o);
int ctl_models(const ctl_options *o);
int ctl_prometheus(const ctl_options *o);
int ctl_ops(const ctl_options *o, const char *name);
int ctl_loaders_command(const ctl_options *o);
int ctl_top(const ctl_options *o);
int ctl_doctor(const ctl_options *o);
int ctl_bench(const ctl_options *o);
int ctl_run(const ctl_options *o);
int ctl_plan(const ctl_options *o);
int ctl_program(const ctl_options *o);

/* ---- program.c: where a program is ---- */
bool ctl_is_file(const char *what);    /* else it is the name of a published one */
bool ctl_is_archive(const char *path); /* a .td file, by what is in it; else it is a text of the IR */
char *ctl_read_text(const char *path, size_t *length, td_error *e); /* to be freed; NULL: `e` */

/* ---- wakes.c ---- */
/* Median microseconds from waking a thread until it runs, beside one that computes: one that stays away from the
 * kernel, one that passes through it as all that compute here do. False: it cannot be tried (one processor). */
bool ctl_wakes(double *plain_us, double *breathing_us);

/* ---- find.c ---- */
/* A running daemon, or NULL after saying why on stderr. There it also says which one it is, when that may be in doubt.
 */
td_client *ctl_connect(const ctl_options *o);
/* Whose the daemon is that this is connected to: "the private daemon of python3 (pid 12)", or "the daemon". */
const char *ctl_whose(td_client *c);

/* This thread's error on stderr; returns 1. */
int ctl_fail(const char *what);

/* ---- loaders.c ---- */
typedef struct ctl_loaders ctl_loaders; /* remembers the last look */
ctl_loaders *ctl_loaders_new(void);
void ctl_loaders_free(ctl_loaders *l);
/* A table, with no rows when there is no loader; NULL when the daemon does not answer. */
td_table *ctl_loaders_look(ctl_loaders *l, td_client *c);

/* ---- print.c ---- */
/* Aligned columns, or JSON: one object for a table of keys and values, else an array of objects. */
void ctl_print(const td_table *t, bool json);
void ctl_print_json_text(const char *text);
/* Lines that another program made, on stdout: as they are, but for what is not to be shown, which is \\xNN. */
void ctl_put_lines(const char *text, size_t n);
/* A table in the making: cells are copied. */
td_table *ctl_table_new(int columns, const char *const *names);
void ctl_row_text(td_table *t, int column, const char *text); /* column 0 begins a row */
void ctl_row_real(td_table *t, int column, double v);
void ctl_row_int(td_table *t, int column, int64_t v);

/* On stderr: there is no such `what`, which name is the nearest, and what lists them. name_of may give NULL. */
void ctl_unknown(const char *what, const char *word, unsigned count, const char *(*name_of)(unsigned i),
                 const char *lister);

/* What the results of an op look like, "name: words", one a line (generated). */
const char *ctl_results(unsigned id);
/* The gradient formulas of an op by id: "x: g*conj(y)\ny: ..."; NULL when it has none (generated). */
const char *ctl_gradients(unsigned id);
bool ctl_has_cuda_kernel(unsigned id);
const char *ctl_composition(unsigned id); /* NULL: it is made of no others */

#endif
