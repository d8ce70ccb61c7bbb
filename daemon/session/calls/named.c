/* Programs under names: published with what they capture in service memory, so that they outlive their session; opened
 * by others; and what they capture told.
 *
 * Publishing is a job, since a program may capture thousands of tensors: a few are copied at each step. Those
 * that look at one storage do so in the copies. The name comes last: when anything fails, it stays what it was. */
#include "daemon/session/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>

enum { COPIES = 8 /* at a step */ };

/* ---- copies of what a program captures */

int td_captures_begin(td_captures *p, td_held_program *of, td_issuer *who, bool always, td_error *e)
{
    *p = (td_captures){.who = who, .always = always};
    p->n = td_program_captured(of, &p->captured);
    p->made = malloc((p->n + 1) * sizeof(td_tensor *));
    if (!p->made) return td_no_memory(e, "to publish a program");
    p->of = td_program_ref(of);
    return TD_OK;
}

/* Which other one looks at the same memory: one that has its copy, if there is one; p->n: none does. */
static uint32_t sharing(const td_captures *p, const td_tensor *t)
{
    uint32_t k = 0;
    while (k < p->n && (k == p->done || p->captured[k]->storage != t->storage)) k++;
    return k;
}

static int check_value(td_session *s, const td_storage *st, td_error *e)
{
    const td_cause *lost = st->poison ? st->poison : td_late_find(&s->failures.late, st);
    if (!lost) return td_session_check_lease(s, st, e);
    *e = lost->error;
    return e->code;
}

static bool stays(const td_captures *p, const td_tensor *t)
{
    return t->storage->flags & TD_SF_SERVICE && !p->always;
}

static int in_service(td_session *s, const td_captures *p, td_tensor *t, td_tensor **out, td_error *e)
{
    *out = NULL;
    if (!stays(p, t)) return td_session_copy_by(s, p->who, t, TD_CF_SERVICE, out, e);
    *out = td_tensor_ref(t);
    return TD_OK;
}

/* All of the storage's bytes, in service memory. */
static int copy_whole(td_session *s, const td_captures *p, td_storage *st, td_tensor **out, td_error *e)
{
    td_desc bytes;
    td_tensor *flat = NULL;
    int rc = td_desc_contiguous(&bytes, TD_UINT8, 1, (int64_t[]){(int64_t)st->nbytes}, e);
    bytes.device = st->device;
    if (!rc) rc = td_tensor_new(&flat, st, &bytes, s->account, e);
    if (!rc) rc = td_session_copy_by(s, p->who, flat, TD_CF_SERVICE, out, e);
    td_tensor_unref(flat);
    return rc;
}

static int copy_next(td_session *s, td_captures *p, td_error *e)
{
    td_tensor *t = p->captured[p->done], *whole = NULL;
    uint32_t other = sharing(p, t);
    td_account *payer = p->who->account;
    int rc = check_value(s, t->storage, e);
    if (rc) return rc;
    if (other == p->n || stays(p, t)) return in_service(s, p, t, &p->made[p->done], e);
    if (other < p->done) return td_tensor_new(&p->made[p->done], p->made[other]->storage, &t->desc, payer, e);
    rc = copy_whole(s, p, t->storage, &whole, e);
    if (!rc) rc = td_tensor_new(&p->made[p->done], whole->storage, &t->desc, payer, e);
    td_tensor_unref(whole);
    return rc;
}

int td_captures_some(td_session *s, td_captures *p, td_error *e)
{
    int rc = TD_OK;
    for (int n = 0; n < COPIES && p->done < p->n && !rc; n++) {
        rc = copy_next(s, p, e);
        if (rc == TD_AGAIN) return rc;
        td_session_lacks_nothing(s);
        if (!rc) p->done++;
    }
    return !rc && p->done < p->n ? TD_AGAIN : rc;
}

bool td_captures_drop(td_captures *p, int most)
{
    for (; p->done && most > 0; most--) td_tensor_unref(p->made[--p->done]);
    if (p->done) return false;
    td_program_unref(p->of);
    free(p->made);
    return true;
}

/* ---- publishing */

typedef struct publishing {
    td_job job;
    td_captures of;
    uint64_t serial;
    bool replace, over;
    char name[TD_NAME_MAX + 1];
} publishing;

static publishing *of(td_job *j)
{
    return (publishing *)(void *)((char *)j - offsetof(publishing, job));
}

/* What captures nothing that lies elsewhere is published itself. */
static int publish(td_session *s, const publishing *p, td_error *e)
{
    const td_captures *c = &p->of;
    bool same = true;
    for (uint32_t k = 0; k < c->n && same; k++) same = c->made[k] == c->captured[k];
    td_held_program *kept = same ? td_program_ref(c->of) : NULL;
    int rc = same ? TD_OK : td_program_like(&kept, c->of, c->made, s->account, e);
    if (!rc) rc = td_name_publish_program(s->service, p->name, kept, s->account, p->replace, e);
    td_program_unref(kept);
    return rc;
}

static void refuse(td_session *s, const publishing *p, td_error *why)
{
    if (!why->op[0]) snprintf(why->op, sizeof why->op, "program_publish");
    td_reply_error(s, p->serial, why);
    td_session_told(s, why);
}

/* False: there is more of it. */
static bool go_on(td_session *s, publishing *p)
{
    td_error why = {0};
    int rc = td_captures_some(s, &p->of, &why);
    if (rc == TD_AGAIN) return false;
    if (!rc) rc = publish(s, p, &why);
    if (rc) refuse(s, p, &why);
    else td_reply_ok(s, p->serial);
    return true;
}

static bool drop(td_job *j, int most)
{
    publishing *p = of(j);
    if (!td_captures_drop(&p->of, most)) return false;
    free(p);
    return true;
}

static int step(td_job *j, td_error *e)
{
    td_session *s = td_session_of(j->issuer);
    (void)e; /* a failure is the answer */
    publishing *p = of(j);
    if (!p->over && !(p->over = go_on(s, p))) return TD_AGAIN;
    return drop(j, 16 * COPIES) ? TD_OK : TD_AGAIN;
}

int td_call_program_publish(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    static const td_job_kind kind = {"publish", .step = step, .drop = drop, .cost = COPIES};
    const Td__Wire__ProgramPublish *q = call->program_publish;
    td_held_program *program = td_session_program_of(s, q->program, e);
    int rc = program ? td_name_check(q->name, e) : e->code;
    if (rc) return rc;
    publishing *p = malloc(sizeof *p);
    if (!p) return td_no_memory(e, "to publish a program");
    *p = (publishing){.job = td_session_job(s, &kind), .serial = call->serial, .replace = q->replace};
    snprintf(p->name, sizeof p->name, "%s", q->name);
    rc = td_captures_begin(&p->of, program, &s->issuer, q->copy, e);
    if (rc) {
        free(p);
        return rc;
    }
    s->work.job = &p->job;
    return TD_OK;
}

/* ---- whoever opens one */

/* The module goes along, as it was sent: megabytes, perhaps, which are copied in parts. */
enum { IR_OF_REPLY = 16, AT_ONCE = 128 << 10, PART = 64 << 10 };

typedef struct opening {
    td_held h;
    td_held_program *program; /* a reference */
    td_long_reply reply;
} opening;

static void give_up_opening(td_session *s, td_wait *w)
{
    (void)s;
    opening *o = (opening *)(void *)w;
    td_program_unref(o->program);
    td_reply_give_up(&o->reply);
}

static void go_on_opening(td_session *s, td_wait *w)
{
    opening *o = (opening *)(void *)w;
    size_t n, done = o->reply.end - o->reply.front;
    td_error e = {0};
    const uint8_t *bytes = td_program_bytes(o->program, &n);
    size_t part = n - done < PART ? n - done : PART;
    memcpy(o->reply.block + o->reply.end, bytes + done, part);
    o->reply.end += part;
    if (done + part < n) {
        o->h.goes_on = TD_HELD_MORE;
        return;
    }
    if (td_reply_long(s, w->serial, IR_OF_REPLY, &o->reply, -1)) {
        td_no_memory(&e, "to tell what a program is");
        td_reply_error(s, w->serial, &e);
    }
    give_up_opening(s, w);
}

static int open_in_parts(td_session *s, uint64_t serial, td_held_program *p, size_t n, td_error *e)
{
    static const td_wait_kind kind = {"a program's bytes", .finish = go_on_opening, .cancel = give_up_opening};
    td_long_reply reply = {0};
    int rc = td_reply_begin(s, &reply, n, "what a program is", e);
    opening *o = rc ? NULL : td_held_new(s, &kind, sizeof *o, serial, e);
    if (!o) {
        td_reply_give_up(&reply);
        return e->code;
    }
    o->program = td_program_ref(p);
    o->reply = reply;
    td_held_next(&o->h);
    return TD_OK;
}

static int tell_module(td_session *s, uint64_t serial, td_held_program *p, td_error *e)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    r.serial = serial;
    r.ir.data = (uint8_t *)(uintptr_t)td_program_bytes(p, &r.ir.len);
    if (r.ir.len > AT_ONCE) return open_in_parts(s, serial, p, r.ir.len, e);
    int rc = td_reply_room(s, r.ir.len, e);
    if (!rc) td_reply_send(s, &r, -1);
    return rc;
}

int td_session_program_open(td_session *s, uint64_t serial, uint32_t id, td_held_program *p, td_error *e)
{
    int rc = td_session_program_id(s, id, e);
    if (rc) return rc;
    rc = td_session_program_add(s, id, td_program_ref(p), e);
    if (rc) {
        td_program_unref(p);
        return rc;
    }
    rc = tell_module(s, serial, p, e);
    if (rc) td_session_program_gone(s, id);
    return rc;
}

static void tell_captured(td_session *s, uint64_t serial, uint32_t n, td_tensor *const *t, Td__Wire__Desc *descs,
                          Td__Wire__Desc **at, int64_t (*sizes)[2 * TD_MAX_DIMS])
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    for (uint32_t k = 0; k < n; k++) td_desc_to_wire(&t[k]->desc, at[k] = &descs[k], sizes[k]);
    r.serial = serial;
    r.n_descs = n;
    r.descs = at;
    td_reply_send(s, &r, -1);
}

static int bind_captured(td_session *s, const uint32_t *ids, uint32_t n, td_tensor *const *t, td_error *e)
{
    uint32_t bound = 0;
    int rc = td_account_room(s->account, n, e);
    for (uint32_t k = 0; k < n && !rc; k++) rc = td_call_new_id(s, ids[k], e);
    for (; bound < n && !rc; bound++) rc = td_objects_bind(&s->objects, ids[bound], td_tensor_ref(t[bound]), NULL, e);
    for (uint32_t k = 0; rc && k + 1 < bound; k++) td_objects_release(&s->objects, ids[k]);
    return rc;
}

int td_call_program_captured(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__ProgramCaptured *q = call->program_captured;
    td_held_program *p = td_session_program_of(s, q->program, e);
    td_tensor *const *t = NULL;
    uint32_t n = p ? td_program_captured(p, &t) : 0;
    if (!p) return e->code;
    if (q->n_ids != n)
        return td_fail(e, TD_E_INVALID, "the program captures %u tensors; %zu ids are given", n, q->n_ids);
    Td__Wire__Desc *descs = malloc((n + 1) * sizeof *descs), **at = malloc((n + 1) * sizeof(Td__Wire__Desc *));
    int64_t(*sizes)[2 * TD_MAX_DIMS] = malloc((n + 1) * sizeof *sizes);
    int rc = descs && at && sizes ? bind_captured(s, q->ids, n, t, e) : td_no_memory(e, "for %u tensors", n);
    if (!rc) tell_captured(s, call->serial, n, t, descs, at, sizes);
    free(descs);
    free(at);
    free(sizes);
    return rc;
}

int td_call_program_plans(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const td_held_program *p = td_session_program_of(s, call->program_plans->program, e);
    if (!p) return e->code;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) return td_no_memory(e, "for a text");
    td_program_tell_plans(p, out);
    int rc = fclose(out) || !text ? td_no_memory(e, "for a text") : td_reply_room(s, n, e);
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    r.serial = call->serial;
    r.data.data = (uint8_t *)text;
    r.data.len = n;
    if (!rc) td_reply_send(s, &r, -1);
    free(text);
    return rc;
}
