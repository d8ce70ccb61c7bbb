/* tensorctl --prometheus: the daemon's counts as Prometheus reads them (text exposition format 0.0.4), for a textfile
 * collector or whatever serves a program's output. */
#include "client/tensorctl/tensorctl.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What only grows, until the daemon is another one. */
static bool is_counter(const char *key)
{
    static const char *const counters[] = {"ops_run",   "run_inline", "run_pool", "busy_s",      "nodes_recorded",
                                           "frames_in", "turns",      "bytes_in", "bytes_out",   "lost_pages",
                                           "puts",      "gets",       "deaths",   "run_planned", "run_packed"};
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        if (strcmp(key, counters[i]) == 0) return true;
    return false;
}

static void print_type(const char *of, const char *key)
{
    printf("# TYPE tensord_%s%s%s %s\n", of, key, is_counter(key) ? "_total" : "",
           is_counter(key) ? "counter" : "gauge");
}

static void print_value(const td_cell *c)
{
    if (c->kind == TD_CELL_REAL) printf(" %.17g\n", c->real);
    else printf(" %" PRId64 "\n", c->kind == TD_CELL_BOOL ? (int64_t)c->yes : c->integer);
}

static void print_escaped(const char *text)
{
    char shown[4096];
    putchar('"');
    for (text = td_text_visible(shown, sizeof shown, text); *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar(*text);
    }
    putchar('"');
}

/* {session="1",pid="7",program="a.py"}: the columns that say which one it is. */
static void print_labels(const td_table *t, int row, const char *const *labels)
{
    char before = '{';
    for (int k = 0; k < t->columns; k++) {
        const td_cell *c = &t->cells[row * t->columns + k];
        for (const char *const *l = labels; *l; l++) {
            if (strcmp(*l, t->names[k]) != 0) continue;
            printf("%c%s=", before, *l);
            if (c->kind == TD_CELL_TEXT) print_escaped(c->text);
            else printf("\"%" PRId64 "\"", c->integer);
            before = ',';
        }
    }
    putchar('}');
}

static void print_status(const td_table *t)
{
    for (int r = 0; r < t->rows; r++) {
        const td_cell *key = &t->cells[r * 2], *value = &t->cells[r * 2 + 1];
        if (value->kind == TD_CELL_TEXT || strchr(key->text, ':')) continue; /* devices come with labels */
        print_type("", key->text);
        printf("tensord_%s%s", key->text, is_counter(key->text) ? "_total" : "");
        print_value(value);
    }
}

static void print_rows(const td_table *t, const char *of, const char *const *labels, const char *const *values)
{
    for (int k = 0; k < t->columns && t->rows; k++) {
        const char *const *v = values;
        while (*v && strcmp(*v, t->names[k]) != 0) v++;
        if (!*v) continue;
        print_type(of, *v);
        for (int r = 0; r < t->rows; r++) {
            if (t->cells[r * t->columns + k].kind == TD_CELL_TEXT) continue; /* it has no such number now */
            printf("tensord_%s%s%s", of, *v, is_counter(*v) ? "_total" : "");
            print_labels(t, r, labels);
            print_value(&t->cells[r * t->columns + k]);
        }
    }
}

int ctl_prometheus(const ctl_options *o)
{
    static const char *const of_session[] = {"session", "pid", "program", NULL}, *const of_queue[] = {"queue", NULL};
    static const char *const of_device[] = {"device", NULL};
    static const char *const of_devices[] = {"bytes_used", "bytes_committed", "bytes_limit", NULL};
    static const char *const of_sessions[] = {"objects", "bytes", "ops_run", "pending", NULL};
    static const char *const of_queues[] = {"items",       "bytes", "capacity", "producers", "consumers", "waiting_put",
                                            "waiting_get", "puts",  "gets",     "deaths",    NULL};
    static const char *const of_rank[] = {"group", "rank", "pid", "program", NULL};
    static const char *const of_ranks[] = {"round", "per_s", "p50_us", "p99_us", "last", "since_s", NULL};
    td_client *c = ctl_connect(o);
    if (!c) return 1;
    td_table *status = td_status(c, "status"), *sessions = status ? td_status(c, "sessions") : NULL;
    td_table *queues = sessions ? td_status(c, "queues") : NULL;
    td_table *devices = queues ? td_status(c, "devices") : NULL;
    td_table *groups = devices ? td_status(c, "groups") : NULL; /* an older daemon has none */
    int rc = devices ? 0 : ctl_fail("status");
    if (devices) {
        print_status(status);
        print_rows(devices, "device_", of_device, of_devices);
        print_rows(sessions, "session_", of_session, of_sessions);
        print_rows(queues, "queue_", of_queue, of_queues);
        if (groups) print_rows(groups, "group_", of_rank, of_ranks);
    }
    td_table_free(status);
    td_table_free(sessions);
    td_table_free(queues);
    td_table_free(devices);
    td_table_free(groups);
    td_disconnect(c);
    return rc;
}
