/* tensorctl top: the daemon's counts, its loaders, groups and sessions, refreshed in place; into a file or a pipe once.
 */
#include "client/tensorctl/tensorctl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const td_cell *value_of(const td_table *t, const char *key)
{
    for (int r = 0; t && r < t->rows; r++)
        if (t->cells[r * 2].kind == TD_CELL_TEXT && strcmp(t->cells[r * 2].text, key) == 0) return &t->cells[r * 2 + 1];
    return NULL;
}

static double number_of(const td_table *t, const char *key)
{
    const td_cell *c = value_of(t, key);
    return !c ? 0 : c->kind == TD_CELL_REAL ? c->real : c->kind == TD_CELL_INT ? (double)c->integer : 0;
}

/* Counts of the last round, to show rates; and whose the daemon is. */
typedef struct last {
    double at, ops, busy;
    const char *whose;
} last;

/* What other devices than the CPU have given. */
static void print_devices(const td_table *t)
{
    static const char before[] = "bytes_used_on_";
    for (int r = 0; r < t->rows; r++) {
        const td_cell *key = &t->cells[r * 2], *used = &t->cells[r * 2 + 1];
        if (strncmp(key->text, before, sizeof before - 1) != 0 || used->kind != TD_CELL_INT) continue;
        printf("%-8s %.1f MB used\n", key->text + sizeof before - 1, (double)used->integer / 1e6);
    }
}

static void print_head(const td_table *t, last *before)
{
    double at = number_of(t, "uptime_s"), ops = number_of(t, "ops_run"), busy = number_of(t, "busy_s");
    double dt = at > before->at && before->at > 0 ? at - before->at : 0;
    printf("tensord %s, pid %.0f, up %.0f s, %.0f workers: %s\n",
           value_of(t, "version") ? value_of(t, "version")->text : "?", number_of(t, "pid"), at,
           number_of(t, "workers"), before->whose);
    printf("memory   %.1f MB used, %.1f MB committed, %.1f MB limit, %.0f segments\n", number_of(t, "bytes_used") / 1e6,
           number_of(t, "bytes_committed") / 1e6, number_of(t, "bytes_limit") / 1e6, number_of(t, "segments"));
    print_devices(t);
    printf("objects  %.0f tensors, %.0f storages, %.0f nodes, %.0f names, %.0f queues\n", number_of(t, "tensors"),
           number_of(t, "storages"), number_of(t, "nodes"), number_of(t, "names"), number_of(t, "queues"));
    printf("work     %.0f ops/s, %.2f cores busy, %.0f tasks pending\n\n", dt > 0 ? (ops - before->ops) / dt : 0,
           dt > 0 ? (busy - before->busy) / dt : 0, number_of(t, "tasks_pending"));
    *before = (last){at, ops, busy, before->whose};
}

static int round_of(td_client *c, const ctl_options *o, bool clear, last *before, ctl_loaders *looks)
{
    td_table *status = td_status(c, "status"), *sessions = status ? td_status(c, "sessions") : NULL;
    td_table *loaders = sessions ? ctl_loaders_look(looks, c) : NULL;
    td_table *groups = loaders ? td_status(c, "groups") : NULL; /* an older daemon has none */
    int rc = loaders ? 0 : ctl_fail("top");
    if (!rc) {
        if (clear) fputs("\033[H\033[J", stdout);
        if (o->json) {
            ctl_print(status, true);
        } else {
            print_head(status, before);
            if (loaders->rows) {
                ctl_print(loaders, false);
                puts("");
            }
            if (groups && groups->rows) {
                ctl_print(groups, false);
                puts("");
            }
            ctl_print(sessions, false);
        }
        fflush(stdout);
    }
    td_table_free(status);
    td_table_free(sessions);
    td_table_free(loaders);
    td_table_free(groups);
    return rc;
}

int ctl_top(const ctl_options *o)
{
    td_client *c = ctl_connect(o);
    if (!c) return 1;
    bool clear = isatty(1) && !o->json;
    int count = o->count >= 0 ? o->count : isatty(1) ? 0 : 1;
    ctl_loaders *looks = ctl_loaders_new();
    if (!looks) return 1;
    double seconds = o->interval > 0.05 ? o->interval : 0.05;
    last before = {.whose = ctl_whose(c)};
    int rc = 0;
    for (int i = 0; !rc && (count == 0 || i < count); i++) {
        struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
        if (i) nanosleep(&t, NULL);
        rc = round_of(c, o, clear, &before, looks);
    }
    ctl_loaders_free(looks);
    td_disconnect(c);
    return rc;
}
