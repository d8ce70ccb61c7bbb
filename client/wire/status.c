/* Looking: tables of the daemon. */
#include "client/wire/internal.h"
#include "client/wire/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool take_cell(td_cell *out, const Td__Wire__Cell *from)
{
    switch (from->value_case) {
    case TD__WIRE__CELL__VALUE_TEXT:
        out->kind = TD_CELL_TEXT;
        out->text = strdup(from->text);
        return out->text;
    case TD__WIRE__CELL__VALUE_INTEGER:
        out->kind = TD_CELL_INT;
        out->integer = from->integer;
        return true;
    case TD__WIRE__CELL__VALUE_REAL:
        out->kind = TD_CELL_REAL;
        out->real = from->real;
        return true;
    case TD__WIRE__CELL__VALUE_YES:
        out->kind = TD_CELL_BOOL;
        out->yes = from->yes;
        return true;
    default: return true;
    }
}

/* False without memory; what is there can be freed. Cells that a row lacks stay empty. */
static bool fill_table(td_table *t, const Td__Wire__Table *from)
{
    t->columns = (int)from->n_columns;
    t->names = calloc(from->n_columns + 1, sizeof *t->names);
    t->cells = calloc(from->n_columns * from->n_rows + 1, sizeof *t->cells);
    if (!t->names || !t->cells) return false;
    for (size_t i = 0; i < from->n_columns; i++)
        if (!(t->names[i] = strdup(from->columns[i]))) return false;
    for (size_t r = 0; r < from->n_rows; r++) {
        t->rows++;
        const Td__Wire__Row *row = from->rows[r];
        for (size_t i = 0; i < from->n_columns && i < row->n_cells; i++)
            if (!take_cell(&t->cells[r * from->n_columns + i], row->cells[i])) return false;
    }
    return true;
}

static int take_table(td_table *t, const td_reply *r, td_error *e)
{
    if (!r->table) return td_fail(e, TD_E_PROTOCOL, "no table came");
    if (!fill_table(t, r->table)) return td_no_memory(e, "for the table");
    return TD_OK;
}

static int on_table(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    return take_table(w->context, r, e);
}

TD_API td_table *td_status(td_client *c, const char *what)
{
    td_table *t = calloc(1, sizeof *t);
    if (!t) return td_raise(TD_E_SYSTEM, "status", "no memory for a table"), NULL;
    Td__Wire__Status s = TD__WIRE__STATUS__INIT;
    s.what = (char *)(what ? what : "status");
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.status = &s;
    if (!td_ask_once(c, "status", &call, on_table, t)) return t;
    td_table_free(t);
    return NULL;
}

TD_API void td_table_free(td_table *t)
{
    if (!t) return;
    for (int i = 0; t->names && i < t->columns; i++) free(t->names[i]);
    for (int i = 0; t->cells && i < t->columns * t->rows; i++)
        if (t->cells[i].kind == TD_CELL_TEXT) free(t->cells[i].text);
    free(t->names);
    free(t->cells);
    free(t);
}

/* ---- without a wait ---------------------------------------------------------------------------------------------- */

typedef struct looking {
    td_request request; /* first */
    char *what;
    td_table *table;
} looking;

static void free_looking(td_request *r)
{
    looking *x = (looking *)r;
    free(x->what);
    td_table_free(x->table);
}

static const td_request_kind looks = {.free = free_looking};

static int on_asked_table(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    (void)fd;
    looking *x = (looking *)r;
    x->table = calloc(1, sizeof *x->table);
    return x->table ? take_table(x->table, reply, e) : td_no_memory(e, "for the table");
}

static int ask_status(td_request *r, uint32_t ms)
{
    (void)ms;
    td_question *q = td_question_new(r, sizeof *q);
    if (!q) return td_last_error()->code;
    Td__Wire__Status s = TD__WIRE__STATUS__INIT;
    s.what = ((looking *)r)->what;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.status = &s;
    return td_question_ask(q, &call);
}

TD_API td_request *td_async_status(td_client *c, const char *what, int timeout_ms, td_done done, void *context)
{
    td_request *r = td_request_new(sizeof(looking), &looks, c, "status", timeout_ms, done, context);
    if (!r) return NULL;
    looking *x = (looking *)r;
    x->what = strdup(what ? what : "status");
    r->ask = ask_status;
    r->take = on_asked_table;
    return td_request_begin(r, x->what ? TD_OK : td_raise(TD_E_SYSTEM, "status", "no memory for a request"));
}

TD_API td_table *td_request_table(td_request *r)
{
    if (td_request_look(r)) return NULL;
    looking *x = td_request_is(r, &looks) ? (looking *)r : NULL;
    td_table *t = x ? x->table : NULL;
    if (t) x->table = NULL;
    return t ? t : td_request_none(r, "table");
}
