/* Looking: what the daemon knows of one tensor, and its tables. */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int td_take_info(td_info *out, const td_reply *r, td_error *e)
{
    const Td__Wire__Facts *f = r->facts;
    if (!f) return td_fail(e, TD_E_PROTOCOL, "no facts came");
    out->requires_grad = f->requires_grad;
    out->leaf = f->leaf;
    out->has_grad = f->has_grad;
    out->service = f->service;
    out->version = f->version;
    out->storage = f->storage;
    out->nbytes = f->nbytes;
    snprintf(out->grad_fn, sizeof out->grad_fn, "%s", f->grad_fn);
    return TD_OK;
}

static int on_info(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    return td_take_info(w->context, r, e);
}

static int on_inference(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    if (!r->facts) return td_fail(e, TD_E_PROTOCOL, "no facts came");
    *(bool *)w->context = r->facts->inference;
    return TD_OK;
}

static int ask_info(td_array *a, td_reply_wait *w)
{
    if (!a) return td_raise_null("info", "the array");
    int rc = td_enter(a->client, "info");
    if (rc) return rc;
    Td__Wire__Info info = TD__WIRE__INFO__INIT;
    info.id = a->id;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.info = &info;
    rc = td_ask_and_wait(a->client, &call, -1, w, "info");
    td_leave(a->client);
    return rc;
}

TD_API int td_get_info(td_array *a, td_info *out)
{
    memset(out, 0, sizeof *out);
    return ask_info(a, &(td_reply_wait){.on_reply = on_info, .context = out});
}

TD_API int td_is_inference(td_array *a, bool *out)
{
    *out = false;
    return ask_info(a, &(td_reply_wait){.on_reply = on_inference, .context = out});
}

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

int td_take_table(td_table *t, const td_reply *r, td_error *e)
{
    if (!r->table) return td_fail(e, TD_E_PROTOCOL, "no table came");
    if (!fill_table(t, r->table)) return td_no_memory(e, "for the table");
    return TD_OK;
}

static int on_table(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    return td_take_table(w->context, r, e);
}

TD_API td_table *td_status(td_client *c, const char *what)
{
    if (td_enter(c, "status")) return NULL;
    td_table *t = calloc(1, sizeof *t);
    int rc = TD_OK;
    if (t) {
        Td__Wire__Status s = TD__WIRE__STATUS__INIT;
        s.what = (char *)(what ? what : "status");
        Td__Wire__Call call = TD__WIRE__CALL__INIT;
        call.status = &s;
        td_reply_wait w = {.on_reply = on_table, .context = t};
        rc = td_ask_and_wait(c, &call, -1, &w, "status");
    } else {
        rc = td_raise(TD_E_SYSTEM, "status", "no memory");
    }
    td_leave(c);
    if (!rc) return t;
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
