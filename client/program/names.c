/* Programs under names: published for all, opened by number; and what an opened one captures, when somebody asks. */
#include "client/share/names.h"
#include "client/program/programs.h"
#include "client/tensor/awaited.h"
#include "client/wire/request.h"

#include "proto/program/wire.h"

#include <stdlib.h>

TD_API int td_program_publish(td_program *p, const char *name, unsigned flags)
{
    if (!p) return td_raise_null("program_publish", "the program");
    if (!name || !name[0]) return td_raise(TD_E_INVALID, "program_publish", "the name is empty");
    if (flags & TD_LENT)
        return td_raise(TD_E_INVALID, "program_publish", "a program is published for all; only tensors can be lent");
    Td__Wire__ProgramPublish q = TD__WIRE__PROGRAM_PUBLISH__INIT;
    q.name = (char *)name;
    q.program = p->id;
    q.replace = flags & TD_REPLACE;
    q.copy = flags & TD_COPY;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.program_publish = &q;
    return td_ask_once(p->client, "program_publish", &call, NULL, NULL);
}

/* ---- opening */

typedef struct opening {
    td_request request; /* first */
    const char *name;
    uint32_t id;
    td_ir *ir;
} opening;

/* Its answer gives the program a number here. */
typedef struct opening_question {
    td_question question; /* first */
    uint32_t id;
} opening_question;

static int take_opened(td_request *r, const td_reply *reply, int *fd, td_error *e)
{
    (void)fd;
    opening *o = (opening *)r;
    o->ir = td_ir_decode(reply->ir.data, reply->ir.len, 0, e);
    return o->ir ? TD_OK : e->code;
}

static void give_back(td_client *c, uint32_t id)
{
    td_record_only(c, TD_REC_PROGRAM_END, 0, NULL, 1, &id);
}

/* Whoever stopped waiting gets the program all the same, if the daemon was about to give it: it goes back. */
static void late_program(td_client *c, td_question *q, const td_reply *r, int *fd)
{
    (void)r, (void)fd;
    give_back(c, ((opening_question *)q)->id);
}

static int ask_open(td_request *r, uint32_t ms)
{
    opening *o = (opening *)r;
    opening_question *q = (opening_question *)td_question_new(r, sizeof *q);
    if (!q) return td_last_error()->code;
    q->question.late = late_program;
    Td__Wire__Open open = TD__WIRE__OPEN__INIT;
    open.name = (char *)o->name;
    open.id = o->id = q->id = ++r->client->program.next;
    open.timeout_ms = ms;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.program_open = &open;
    return td_question_ask(&q->question, &call);
}

/* What it writes may be mapped here by other handles: they are to be known. */
static td_program *opened(td_client *c, const opening *o)
{
    td_program *p = td_program_make(c, o->ir, td_arrays_of(0, NULL), "program_open");
    if (!p) return NULL;
    p->id = o->id;
    c->handles++;
    if (!p->writes || td_program_captured(p) == TD_OK) return p;
    c->handles--;
    td_program_drop(p);
    return NULL;
}

TD_API td_program *td_program_open(td_client *c, const char *name, int timeout_ms)
{
    static const td_request_kind kind = {0};
    if (!c || !name) {
        td_raise_null("program_open", c ? "the name" : "client");
        return NULL;
    }
    if (td_enter(c, "program_open")) return NULL;
    opening o = {.request = {.ask = ask_open, .take = take_opened}, .name = name};
    int rc = td_request_wait(&o.request, &kind, c, "program_open", timeout_ms);
    td_program *p = rc ? NULL : opened(c, &o);
    if (!rc && !p && !c->lost) give_back(c, o.id);
    td_ir_unref(o.ir);
    if (rc) td_leave_with_hint(c, name);
    else td_leave(c);
    return p;
}

/* ---- what it captures */

typedef struct capturing {
    int n;
    td_array **at;
} capturing;

static int on_captured(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    const capturing *x = w->context;
    if (r->n_descs != (size_t)x->n)
        return td_fail(e, TD_E_PROTOCOL, "%zu descriptors came for %d tensors", r->n_descs, x->n);
    int rc = TD_OK;
    for (int k = 0; k < x->n && !rc; k++) rc = td_desc_from_wire(r->descs[k], &x->at[k]->desc, e);
    return rc;
}

static int ask_captured(td_program *p, int n, td_array **at)
{
    uint32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
    if (!ids) return td_raise(TD_E_SYSTEM, "program", "no memory for %d tensors", n);
    for (int k = 0; k < n; k++) ids[k] = at[k]->id;
    Td__Wire__ProgramCaptured q = TD__WIRE__PROGRAM_CAPTURED__INIT;
    q.program = p->id;
    q.n_ids = (size_t)n;
    q.ids = ids;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.program_captured = &q;
    capturing x = {n, at};
    td_hand_on(p->client);
    td_reply_wait w = {.on_reply = on_captured, .context = &x};
    int rc = td_ask_and_wait(p->client, &call, -1, &w, "program");
    free(ids);
    if (rc) td_abandon(p->client, &w, n, at);
    return rc;
}

int td_program_captured(td_program *p)
{
    int n = (int)p->ir->ncaptures, made = 0, rc = TD_OK;
    if (p->ncaptured == n) return TD_OK;
    td_array **at = calloc((size_t)n + 1, sizeof(td_array *));
    if (!at) return td_raise(TD_E_SYSTEM, "program", "no memory for %d tensors", n);
    while (made < n && (at[made] = td_array_new(p->client))) made++;
    if (made == n) {
        rc = ask_captured(p, n, at);
    } else {
        rc = td_last_error()->code;
        while (made > 0) td_array_drop(at[--made]);
    }
    if (rc) {
        free(at);
        return rc;
    }
    free(p->captured);
    p->captured = at;
    p->ncaptured = n;
    return TD_OK;
}

/* ---- what the daemon made of it */

static int on_plans(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    char **text = w->context;
    *text = strndup((const char *)r->data.data, r->data.len);
    return *text ? TD_OK : td_no_memory(e, "for the plans of a program");
}

char *td_program_plans(const td_program *p)
{
    char *text = NULL;
    Td__Wire__ProgramPlans q = TD__WIRE__PROGRAM_PLANS__INIT;
    q.program = p->id;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.program_plans = &q;
    return td_ask_once(p->client, "program_print", &call, on_plans, &text) ? NULL : text;
}

/* ---- for bindings ------------------------------------------------------------------------------------------------ */

td_program_effects td_program_look(const td_program *p)
{
    return (td_program_effects){p->ncaptured, p->reaches, p->enters};
}

const td_ir *td_program_ir(const td_program *p)
{
    return p->ir;
}

bool td_program_is_there(const td_program *p)
{
    return !p->client->lost;
}

td_array *td_program_capture(const td_program *p, int k)
{
    return p->captured[k];
}

int td_program_want_captured(td_program *p)
{
    int rc = td_enter(p->client, "program");
    if (rc) return rc;
    rc = td_program_captured(p);
    td_leave(p->client);
    return rc;
}
