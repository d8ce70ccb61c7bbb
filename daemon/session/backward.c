/* A backward of a session: an activity that goes on for as many turns as it takes, and is let go of in turns. */
#include "daemon/session/state.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEP = 8 /* nodes */ };

typedef struct backward {
    td_activity a;
    td_backward *at;
    bool over;   /* only to be let go of */
    bool waited; /* for a .grad; those who waited for its pins were told */
    td_record record;
} backward;

static backward *of(td_activity *a)
{
    return (backward *)(void *)((char *)a - offsetof(backward, a));
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
    backward *b = of(s->activity);
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

static int plan(td_session *s, const td_record *r, td_backward **out, td_error *e)
{
    uint32_t flags = r->rest[0], nroots = r->rest[1], scope = r->rest[2];
    if (nroots == 0 || (uint64_t)nroots * 2 > r->nin || r->nin - 2 * nroots != r->nout)
        return td_fail(e, TD_E_PROTOCOL, "record backward has %u inputs for %u roots and %u outputs", r->nin, nroots,
                       r->nout);
    td_tensor *few[16], **t = r->nin <= 16 ? few : malloc(r->nin * sizeof *t);
    if (!t) return td_no_memory(e, "for a backward of %u tensors", r->nin);
    int ninputs = r->nout, n = (int)nroots;
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

static bool drop(td_activity *a, int most)
{
    backward *b = of(a);
    if (!td_backward_drop(b->at, most)) return false;
    free(b);
    return true;
}

/* False: there is more of it. */
static bool go_on(td_session *s, backward *b)
{
    static const td_wait_kind for_write = {"a pending write"};
    bool done = false;
    td_error why, e;
    uint64_t lack = 0;
    td_heap *heap = NULL;
    td_error_clear(&why);
    td_error_clear(&e);
    int rc = td_backward_step(b->at, STEP, &done, &lack, &heap, &why);
    rc = td_activity_memory(s, rc, td_backward_lacks(b->at), lack, heap, &why);
    td_activity_behind(s, &for_write, td_backward_behind(b->at));
    if (rc == TD_AGAIN || (!rc && !done)) return false;
    if (!rc && b->record.nout) bind_results(s, b, &why);
    if (why.code) td_record_failed(s, &b->record, "backward", &why, &e);
    return true;
}

static int step(td_session *s, td_activity *a, td_error *e)
{
    (void)e; /* a failure is the record's */
    backward *b = of(a);
    if (!b->over && !(b->over = go_on(s, b))) return TD_AGAIN;
    if (!drop(a, STEP)) return TD_AGAIN;
    td_session_leases_changed(s->all);
    return TD_OK;
}

int td_session_backward(td_session *s, const td_record *r, td_error *e)
{
    static const td_activity_kind kind = {"backward", .step = step, .drop = drop, .cost = STEP};
    backward *b = malloc(sizeof *b);
    if (!b) return td_no_memory(e, "for a backward");
    *b = (backward){.a = {&kind}, .record = *r}; /* its words stay where they are until the batch is done */
    int rc = plan(s, r, &b->at, e);
    if (rc) {
        free(b);
        return rc;
    }
    s->activity = &b->a;
    s->issuer.may_touch = may_touch;
    return TD_OK;
}
