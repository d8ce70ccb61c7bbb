/* Models for people: the columns that say how each is doing. With --json all of them come. */
#include "client/tensorctl/tensorctl.h"

#include <string.h>

static int column_of(const td_table *t, const char *name)
{
    int k = 0;
    while (k < t->columns && strcmp(t->names[k], name) != 0) k++;
    return k;
}

static void copy_cell(td_table *to, int column, const td_cell *from)
{
    if (from->kind == TD_CELL_INT) ctl_row_int(to, column, from->integer);
    else if (from->kind == TD_CELL_REAL) ctl_row_real(to, column, from->real);
    else if (from->kind == TD_CELL_BOOL) ctl_row_text(to, column, from->yes ? "yes" : "");
    else ctl_row_text(to, column, from->kind == TD_CELL_TEXT ? from->text : "");
}

static td_table *some_columns(const td_table *t)
{
    static const char *const shown[] = {"name",       "version",      "state",        "serves",       "open",
                                        "waiting",    "running",      "requests",     "failed",       "expired",
                                        "refused",    "batches",      "queue_p50_us", "queue_p99_us", "run_p50_us",
                                        "run_p99_us", "total_p99_us", "bytes",        "program",      "pid"};
    enum { SHOWN = sizeof shown / sizeof shown[0] };
    td_table *made = ctl_table_new(SHOWN, shown);
    for (int r = 0; r < t->rows; r++) {
        for (int k = 0; k < SHOWN; k++) {
            int from = column_of(t, shown[k]);
            if (from < t->columns) copy_cell(made, k, &t->cells[r * t->columns + from]);
            else ctl_row_text(made, k, "");
        }
    }
    return made;
}

int ctl_models(const ctl_options *o)
{
    td_client *c = ctl_connect(o);
    if (!c) return 1;
    td_table *t = td_status(c, "models"), *shown = t && !o->json ? some_columns(t) : NULL;
    int rc = t ? 0 : ctl_fail("models");
    if (t) ctl_print(shown ? shown : t, o->json);
    td_table_free(shown);
    td_table_free(t);
    td_disconnect(c);
    return rc;
}
