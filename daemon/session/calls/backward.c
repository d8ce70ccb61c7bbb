/* A backward of a session: a job that goes on for as many turns as it takes, and is let go of in turns.
 *
 * One that comes to a hook of its own session is no job of the stream any more but parked: the stream goes on, for the
 * hook may ask for anything in it, and the record that brings the answer makes it the stream's job again. Nobody waits
 * for it meanwhile (ask.c), so it may be parked for ever. Who answers hooks has an answer for the end, too, and names
 * each backward by the serial of its record. */
#include "daemon/session/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 4 /* nodes */, MOST_PARKED = 64 };

typedef struct backward {
    td_job job;
    td_backward *at;
    bool over;   /* only to be let go of */
    bool waited; /* for a .grad; those who waited for its pins were told */
    td_record record;
    uint64_t name, serial; /* of its record, of the next Reply; 0: nobody answers hooks, or waits for the end */
    uint32_t *out;         /* the record's outputs, for it may last longer than its batch; or NULL */
    uint32_t *ids;         /* for what the next hook is given */
    uint16_t nids;
} backward;

static backward *of(td_job *j)
{
    return (backward *)(void *)((char *)j - offsetof(backward, job));
}

bool td_session_leases_grad(const td_session *s, const td_storage *st, td_error *e)
{
    bool own = st->flags & TD_SF_LEASED && st->lease_session == s->id;
    if (own)
        td_fail(e, TD_E_BUSY,
                "this session holds a write lease on the .grad of a leaf; end it before a backward adds to it");
    return own;
}

/* Of a backward's last step. Its own pins are gone then; who waited for them goes on first, for they may hold what this
 * one is about to wait for. */
static int may_touch(td_issuer *who, const td_storage *st, bool write, td_error *e)
{
    td_session *s = td_session_of(who);
    backward *b = of(s->work.job);
    if (td_session_leases_grad(s, st, e)) return e->code;
    int rc = write ? td_session_check_write(s, st, e) : td_session_check_lease(s, st, e);
    if (rc != TD_AGAIN || b->waited) return rc;
    b->waited = true;
    td_session_leases_changed(s->all); /* this one, too: it looks once more, and waits */
    return rc;
}

/* Where the values are known to be lost, no gradient of them is wanted. */
static int check_roots(td_tensor *const *t, int n, td_error *e)
{
    int rc = TD_OK;
    for (int i = 0; i < n && !rc; i++) rc = t[i] ? td_storage_check(t[i]->storage, e) : TD_OK;
    return rc;
}

/* Gradients that are bound: of what is added to .grad there are none. */
static unsigned results_of(const td_record *r)
{
    return r->rest[0] & TD_BW_ACCUMULATE ? 0 : r->nin - 2 * r->rest[1];
}

static int plan(td_session *s, const td_record *r, td_backward **out, td_error *e)
{
    uint32_t flags = r->rest[0], nroots = r->rest[1], scope = r->rest[2];
    bool answers = r->nrest >= 5, fits = nroots && (uint64_t)nroots * 2 <= r->nin;
    unsigned results = fits ? results_of(r) : 0;
    if (!fits || (answers ? results > r->nout : results != r->nout && r->nin - 2 * nroots != r->nout))
        return td_fail(e, TD_E_PROTOCOL, "record backward has %u inputs for %u roots and %u outputs", r->nin, nroots,
                       r->nout);
    td_tensor *few[16], **t = r->nin <= 16 ? few : malloc(r->nin * sizeof *t);
    if (!t) return td_no_memory(e, "for a backward of %u tensors", r->nin);
    int n = (int)nroots, ninputs = r->nin - 2 * n;
    int rc = td_session_values(s, r->in, n, false, t, e);
    if (!rc) rc = td_session_values(s, r->in + n, n, true, t + n, e);
    if (!rc) rc = check_roots(t, 2 * n, e);
    if (!rc) rc = td_session_tensors(s, r->in + 2 * n, ninputs, false, t + 2 * n, e);
    if (!rc) rc = td_backward_new(out, &s->issuer, n, t, t + n, ninputs, t + 2 * n, flags, scope, e);
    if (t != few) free(t);
    return rc;
}

static void bind_results(td_session *s, backward *b, td_error *e)
{
    const td_record *r = &b->record;
    td_tensor **out = calloc(r->nout, sizeof *out);
    td_error none = {.code = TD_E_AUTOGRAD, .op = "grad"};
    snprintf(none.message, sizeof none.message, "this input has no gradient: the outputs do not depend on it");
    td_cause *cause = out ? td_session_cause(s, &none, e) : NULL;
    if (!cause) {
        free(out);
        td_no_memory(e, "for %u gradients", r->nout);
        return;
    }
    td_backward_results(b->at, out);
    for (unsigned i = 0; i < r->nout;
         i++) /* an id that is named twice is an error, but no gradient is lost to the daemon */
        td_objects_bind(&s->objects, r->out[i], out[i], out[i] ? NULL : td_cause_ref(cause), e);
    td_cause_unref(cause);
    free(out);
}

static void free_backward(backward *b)
{
    free(b->out);
    free(b->ids);
    free(b);
}

static bool drop(td_job *j, int most)
{
    backward *b = of(j);
    if (!td_backward_drop(b->at, most)) return false;
    free_backward(b);
    return true;
}

static bool reads(const td_job *j, const td_storage *st, uint32_t *most)
{
    return td_backward_reads(((const backward *)(const void *)j)->at, st, most);
}

/* ---- hooks */

static int take_ids(backward *b, const uint32_t *ids, unsigned n, td_error *e)
{
    uint32_t *own = malloc((n + 1u) * sizeof *own);
    if (!own) return td_no_memory(e, "for a hook");
    if (n) memcpy(own, ids, n * sizeof *own);
    free(b->ids);
    b->ids = own;
    b->nids = (uint16_t)n;
    return TD_OK;
}

static void say_asked(td_session *s, const backward *b, Td__Wire__Asked *asked)
{
    Td__Wire__Reply reply;
    td__wire__reply__init(&reply);
    reply.serial = b->serial;
    reply.asked = asked;
    td_reply_send(s, &reply, -1);
}

/* All or none of them. */
static int bind_given(td_session *s, const backward *b, const td_asked *q, uint32_t *ids, td_error *e)
{
    unsigned used = 0;
    int rc = td_account_room(s->account, (uint64_t)q->n, e);
    for (int k = 0; k < q->n && !rc; k++) {
        ids[k] = 0;
        if (!q->at[k]) continue;
        rc = td_objects_bind(&s->objects, b->ids[used], td_tensor_ref(q->at[k]), NULL, e);
        if (!rc) ids[k] = b->ids[used++];
    }
    for (unsigned k = 0; rc && k < used; k++) td_objects_release(&s->objects, b->ids[k]);
    return rc;
}

typedef struct described {
    Td__Wire__Desc desc;
    int64_t sizes[2 * TD_MAX_DIMS];
} described;

static int tell_given(td_session *s, const backward *b, const td_asked *q, td_error *e)
{
    size_t n = (size_t)q->n + 1, ndescs = 0;
    uint32_t *ids = calloc(n, sizeof *ids);
    described *all = calloc(n, sizeof *all);
    Td__Wire__Desc **descs = calloc(n, sizeof *descs);
    int rc = ids && all && descs ? bind_given(s, b, q, ids, e) : td_no_memory(e, "to ask a hook");
    for (int k = 0; k < q->n && !rc; k++) {
        if (!q->at[k]) continue;
        td_desc_to_wire(&q->at[k]->desc, descs[ndescs] = &all[ndescs].desc, all[ndescs].sizes);
        ndescs++;
    }
    Td__Wire__Asked asked = TD__WIRE__ASKED__INIT;
    asked.hook = q->hook, asked.kind = (uint32_t)q->kind, asked.first = (uint32_t)q->first;
    asked.wanted = (uint32_t)q->wanted;
    asked.n_ids = (size_t)q->n, asked.ids = ids;
    asked.n_descs = ndescs, asked.descs = descs;
    if (!rc) say_asked(s, b, &asked);
    free(ids);
    free(all);
    free(descs);
    return rc;
}

/* Parked, or failed with `e`. */
static int ask(td_session *s, backward *b, const td_asked *q, td_error *e)
{
    unsigned wanted = 0;
    for (int k = 0; k < q->n; k++) wanted += q->at[k] != NULL;
    if (s->work.nparked == MOST_PARKED)
        return td_fail(e, TD_E_INVALID, "%d backwards of this session wait for their hooks; no more", MOST_PARKED);
    if (q->n > TD_MAX_INPUTS)
        return td_fail(e, TD_E_INVALID, "a hook is given at most %d tensors, not %d", TD_MAX_INPUTS, q->n);
    Td__Wire__Asked more = TD__WIRE__ASKED__INIT;
    more.needs = wanted;
    int rc = wanted > b->nids ? TD_OK : tell_given(s, b, q, e);
    if (rc) return rc;
    if (wanted > b->nids) say_asked(s, b, &more);
    b->job.next = s->work.parked;
    s->work.parked = &b->job;
    s->work.nparked++;
    return TD_OK;
}

/* ---- turns */

static void failed(td_session *s, backward *b, td_error *why)
{
    td_error e;
    td_error_clear(&e);
    if (!b->name) {
        td_record_failed(s, &b->record, "backward", why, &e);
        return;
    }
    if (!why->op[0]) snprintf(why->op, sizeof why->op, "backward");
    if (!why->where[0]) snprintf(why->where, sizeof why->where, "%s", s->issuer.where);
    td_reply_error(s, b->serial, why);
    td_session_told(s, why);
}

/* False: there is more of it. */
static bool go_on(td_session *s, backward *b, bool *parked)
{
    static const td_wait_kind for_write = {"a pending write"};
    bool done = false;
    td_error why;
    td_asked asked;
    td_need need = {0};
    td_error_clear(&why);
    int rc = td_backward_step(b->at, td_session_step(s, STEP), &done, &need, &why);
    rc = td_job_memory(s, rc, td_backward_lacks(b->at), &need, &why);
    td_job_behind(s, &for_write, td_backward_behind(b->at));
    if (!rc && !done && td_backward_asks(b->at, &asked)) {
        rc = ask(s, b, &asked, &why);
        *parked = !rc;
        if (!rc) return false;
    }
    if (rc == TD_AGAIN || (!rc && !done)) return false;
    if (!rc && b->record.nout) bind_results(s, b, &why);
    if (why.code) failed(s, b, &why);
    else if (b->name) td_reply_ok(s, b->serial);
    return true;
}

static int step(td_job *j, td_error *e)
{
    td_session *s = td_session_of(j->issuer);
    (void)e; /* a failure is the record's */
    backward *b = of(j);
    bool parked = false;
    if (!b->over && !(b->over = go_on(s, b, &parked))) return parked ? TD_OK : TD_AGAIN;
    if (!drop(j, STEP)) return TD_AGAIN;
    td_session_leases_changed(s->all);
    return TD_OK;
}

/* ---- records */

static void begin(td_session *s, backward *b)
{
    s->work.job = &b->job;
    s->issuer.may_touch = may_touch;
}

/* Its words stay where they are until the batch is done; what hooks hold up may last longer. */
static int keep_record(backward *b, td_error *e)
{
    td_record *r = &b->record;
    if (r->nrest < 5) return TD_OK;
    uint16_t results = (uint16_t)results_of(r);
    b->name = b->serial = td_words_u64(r->rest + 3);
    if (!b->name) return td_fail(e, TD_E_PROTOCOL, "a backward that answers hooks has no serial");
    b->out = malloc((results + 1u) * sizeof *b->out);
    if (!b->out) return td_no_memory(e, "for a backward");
    if (results) memcpy(b->out, r->out, results * sizeof *b->out);
    int rc = take_ids(b, r->out + results, r->nout - results, e);
    r->out = b->out;
    r->nout = results;
    r->in = r->rest = NULL;
    r->nin = 0;
    r->nrest = 0;
    return rc;
}

int td_session_backward(td_session *s, const td_record *r, td_error *e)
{
    static const td_job_kind kind = {"backward", .step = step, .drop = drop, .reads = reads, .cost = STEP};
    backward *b = malloc(sizeof *b);
    if (!b) return td_no_memory(e, "for a backward");
    *b = (backward){.job = td_session_job(s, &kind), .record = *r};
    uint64_t serial = r->nrest >= 5 ? td_words_u64(r->rest + 3) : 0;
    td_hook_owner *owner = serial ? td_session_hooks(s, e) : NULL;
    int rc = serial && !owner ? e->code : plan(s, r, &b->at, e);
    if (!rc) rc = keep_record(b, e);
    if (!rc) {
        if (owner) td_backward_answered_by(b->at, owner);
        begin(s, b);
        return TD_OK;
    }
    td_backward_free(b->at);
    if (!serial) {
        free_backward(b);
        return rc;
    }
    b->name = b->serial = serial;
    failed(s, b, e);
    free_backward(b);
    return TD_OK;
}

static backward *unpark(td_session *s, uint64_t name)
{
    td_job **at = &s->work.parked;
    while (*at && of(*at)->name != name) at = &(*at)->next;
    if (!*at) return NULL;
    backward *b = of(*at);
    *at = b->job.next;
    b->job.next = NULL;
    s->work.nparked--;
    return b;
}

static int answer(td_session *s, backward *b, const td_record *r, td_error *e)
{
    uint32_t how = r->rest[4];
    int rc = take_ids(b, r->out, r->nout, e);
    if (rc || how == TD_GO_MORE) return rc;
    if (how == TD_GO_SAME) return td_backward_answer(b->at, 0, NULL, e);
    if (how != TD_GO_GIVEN) return td_fail(e, TD_E_PROTOCOL, "there is no way %u for a backward to go on", how);
    td_tensor **given = malloc((r->nin + 1u) * sizeof *given);
    rc = given ? td_session_values(s, r->in, r->nin, true, given, e) : td_no_memory(e, "for a hook's answer");
    if (!rc) rc = td_backward_answer(b->at, r->nin, given, e);
    free(given);
    return rc;
}

int td_session_backward_go(td_session *s, const td_record *r, td_error *e)
{
    uint64_t serial = td_words_u64(r->rest + 2);
    backward *b = unpark(s, td_words_u64(r->rest));
    bool given_up = r->rest[4] == TD_GO_NOT;
    if (!b) {
        if (given_up) return TD_OK; /* it has ended meanwhile */
        td_fail(e, TD_E_NOT_FOUND, "no backward of that number waits for the answer to a hook");
        if (serial) td_reply_error(s, serial, e);
        return serial ? TD_OK : e->code;
    }
    b->serial = serial;
    b->waited = false;
    int rc = given_up ? TD_OK : answer(s, b, r, e);
    if (rc) failed(s, b, e);
    b->over = rc || given_up;
    begin(s, b);
    return TD_OK;
}

bool td_session_backward_refused(td_session *s, const td_record *r, td_error *why)
{
    bool begins = r->op == TD_REC_BACKWARD && r->nrest >= 5, goes = r->op == TD_REC_BACKWARD_GO;
    backward b = {.name = 1, .serial = begins ? td_words_u64(r->rest + 3) : goes ? td_words_u64(r->rest + 2) : 0};
    if (b.serial) failed(s, &b, why);
    return b.serial;
}
