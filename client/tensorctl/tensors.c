/* tensorctl tensors: what takes memory, by the program and the line that made it, or the name, queue or graph that
 * keeps it, the most first. The daemon's table has each byte once; here rows of a kind become one. */
#include "client/tensorctl/tensorctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSOR, KIND, NAME, USED, IDLE, OWN, PID, PROGRAM, WHERE, AGE, COLUMNS };

static const char *const columns[COLUMNS] = {"tensor",    "kind", "name",    "bytes_used", "bytes_idle",
                                             "bytes_own", "pid",  "program", "where",      "age_s"};

/* Rows of one kind and program that one line made, or that have one name. */
typedef struct group {
    const td_cell *first[COLUMNS]; /* of its largest */
    int64_t count, used, idle, own, largest;
    double age;
} group;

typedef struct rows {
    const td_table *t;
    int at[COLUMNS]; /* columns by their number here */
} rows;

static const td_cell *cell(const rows *r, int row, int column)
{
    return &r->t->cells[row * r->t->columns + r->at[column]];
}

static bool find_columns(rows *r, const td_table *t)
{
    r->t = t;
    for (int k = 0; k < COLUMNS; k++) {
        r->at[k] = 0;
        while (r->at[k] < t->columns && strcmp(t->names[r->at[k]], columns[k]) != 0) r->at[k]++;
        if (r->at[k] == t->columns) return false;
    }
    return true;
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int same_group(const rows *r, int a, int b)
{
    static const int texts[] = {PROGRAM, KIND, NAME, WHERE};
    int by = compare_numbers(cell(r, a, PID)->integer, cell(r, b, PID)->integer);
    for (size_t k = 0; k < sizeof texts / sizeof texts[0] && !by; k++)
        by = strcmp(cell(r, a, texts[k])->text, cell(r, b, texts[k])->text);
    return by;
}

static int by_group(const void *a, const void *b, void *context)
{
    return same_group(context, *(const int *)a, *(const int *)b);
}

static int by_size(const void *a, const void *b)
{
    const group *x = a, *y = b;
    int by = -compare_numbers(x->used + x->idle, y->used + y->idle);
    if (!by) by = -compare_numbers(x->own, y->own);
    return by ? by : -compare_numbers(x->count, y->count);
}

static void add_row(group *g, const rows *r, int row)
{
    int64_t used = cell(r, row, USED)->integer, idle = cell(r, row, IDLE)->integer;
    if (!g->count || used > g->largest) {
        for (int k = 0; k < COLUMNS; k++) g->first[k] = cell(r, row, k);
        g->largest = used;
    }
    g->count++;
    g->used += used;
    g->idle += idle;
    g->own += cell(r, row, OWN)->integer;
    if (cell(r, row, AGE)->real > g->age) g->age = cell(r, row, AGE)->real;
}

static int make_groups(const rows *r, int *order, group *groups)
{
    int n = 0;
    for (int i = 0; i < r->t->rows; i++) order[i] = i;
    if (r->t->rows) qsort_r(order, (size_t)r->t->rows, sizeof *order, by_group, (void *)(uintptr_t)r);
    for (int i = 0; i < r->t->rows; i++) {
        bool more = i > 0 && same_group(r, order[i - 1], order[i]) == 0;
        if (!more) groups[n++] = (group){0};
        add_row(&groups[n - 1], r, order[i]);
    }
    if (n) qsort(groups, (size_t)n, sizeof *groups, by_size);
    return n;
}

/* The name or queue that keeps it, or the line that made it. */
static const char *where_of(const group *g)
{
    if (g->first[NAME]->text[0]) return g->first[NAME]->text;
    bool made = strcmp(g->first[KIND]->text, "tensor") == 0 && !g->first[WHERE]->text[0];
    return made ? "(opened, taken or cloned)" : g->first[WHERE]->text;
}

static void show(td_table *t, const group *g)
{
    ctl_row_text(t, 0, g->first[PROGRAM]->text);
    ctl_row_int(t, 1, g->first[PID]->integer);
    ctl_row_text(t, 2, g->first[KIND]->text);
    ctl_row_int(t, 3, g->used + g->idle);
    ctl_row_int(t, 4, g->own);
    ctl_row_int(t, 5, g->count);
    ctl_row_real(t, 6, g->age);
    ctl_row_text(t, 7, g->first[TENSOR]->text);
    ctl_row_text(t, 8, where_of(g));
}

/* As `tensorctl status` has it. */
static void show_sum(td_table *t, const char *what, int64_t bytes, int64_t own)
{
    ctl_row_text(t, 0, "all");
    ctl_row_text(t, 2, what);
    ctl_row_int(t, 3, bytes);
    if (own >= 0) ctl_row_int(t, 4, own);
}

static td_table *grouped(const rows *r)
{
    static const char *const shown[] = {"program", "pid",      "kind",    "bytes", "bytes_own",
                                        "rows",    "oldest_s", "largest", "where"};
    size_t room = (size_t)r->t->rows + 1;
    int *order = calloc(room, sizeof *order);
    group *groups = calloc(room, sizeof *groups), all = {0};
    td_table *t = ctl_table_new(9, shown);
    int n = order && groups ? make_groups(r, order, groups) : 0;
    for (int i = 0; i < n; i++) {
        show(t, &groups[i]);
        all.used += groups[i].used, all.idle += groups[i].idle, all.own += groups[i].own;
    }
    show_sum(t, "used", all.used, all.own);
    show_sum(t, "committed", all.used + all.idle, -1);
    free(order);
    free(groups);
    return t;
}

int ctl_tensors(const ctl_options *o)
{
    td_client *c = ctl_connect(o);
    if (!c) return 1;
    td_table *t = td_status(c, "tensors"), *shown = NULL;
    rows r;
    int rc = t ? 0 : ctl_fail("tensors");
    if (t && !o->json && find_columns(&r, t)) shown = grouped(&r);
    if (t) ctl_print(shown ? shown : t, o->json);
    td_table_free(shown);
    td_table_free(t);
    td_disconnect(c);
    return rc;
}
