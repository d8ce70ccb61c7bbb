/* tensorctl tensors: what takes memory, by the program and the line that made it, the most first. */
#include "client/tensorctl/tensorctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSOR, BYTES, STORAGE, PID, PROGRAM, WHERE, AGE, COLUMNS };

static const char *const columns[COLUMNS] = {"tensor", "bytes", "storage", "pid", "program", "where", "age_s"};

/* Tensors of one program that one line made. */
typedef struct group {
    const td_cell *first[COLUMNS]; /* of its largest tensor */
    int64_t count, bytes, largest;
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
    int by = compare_numbers(cell(r, a, PID)->integer, cell(r, b, PID)->integer);
    if (!by) by = strcmp(cell(r, a, PROGRAM)->text, cell(r, b, PROGRAM)->text);
    return by ? by : strcmp(cell(r, a, WHERE)->text, cell(r, b, WHERE)->text);
}

/* Groups together; in a group the views of a storage; of these the largest first. */
static int by_group(const void *a, const void *b, void *context)
{
    const rows *r = context;
    int x = *(const int *)a, y = *(const int *)b, by = same_group(r, x, y);
    if (!by) by = compare_numbers(cell(r, x, STORAGE)->integer, cell(r, y, STORAGE)->integer);
    return by ? by : -compare_numbers(cell(r, x, BYTES)->integer, cell(r, y, BYTES)->integer);
}

static int by_size(const void *a, const void *b)
{
    const group *x = a, *y = b;
    int by = -compare_numbers(x->bytes, y->bytes);
    return by ? by : -compare_numbers(x->count, y->count);
}

/* Views of one storage count its bytes once, as far as the largest of them reaches. */
static void add_row(group *g, const rows *r, int row, bool same_storage)
{
    int64_t bytes = cell(r, row, BYTES)->integer;
    if (!g->count || bytes > g->largest) {
        for (int k = 0; k < COLUMNS; k++) g->first[k] = cell(r, row, k);
        g->largest = bytes;
    }
    g->count++;
    if (!same_storage) g->bytes += bytes;
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
        add_row(&groups[n - 1], r, order[i],
                more && cell(r, order[i - 1], STORAGE)->integer == cell(r, order[i], STORAGE)->integer);
    }
    if (n) qsort(groups, (size_t)n, sizeof *groups, by_size);
    return n;
}

static td_table *grouped(const rows *r)
{
    static const char *const shown[] = {"program", "pid", "bytes", "tensors", "oldest_s", "largest", "where"};
    size_t room = (size_t)r->t->rows + 1;
    int *order = calloc(room, sizeof *order);
    group *groups = calloc(room, sizeof *groups);
    td_table *t = ctl_table_new(7, shown);
    int n = order && groups ? make_groups(r, order, groups) : 0;
    for (int i = 0; i < n; i++) {
        const group *g = &groups[i];
        ctl_row_text(t, 0, g->first[PROGRAM]->text);
        ctl_row_int(t, 1, g->first[PID]->integer);
        ctl_row_int(t, 2, g->bytes);
        ctl_row_int(t, 3, g->count);
        ctl_row_real(t, 4, g->age);
        ctl_row_text(t, 5, g->first[TENSOR]->text);
        ctl_row_text(t, 6, g->first[WHERE]->text[0] ? g->first[WHERE]->text : "(opened, taken or cloned)");
    }
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
