/* The run of a program is a job: the stream goes on when it is over. */
#include "daemon/session/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEP = 8 /* ops */, MOST_ARGS = TD_IR_MAX_ENDS, SOME = 512 /* arguments, tensors: one part */ };

/* What it is called with, as far as that was taken. */
typedef struct taking {
    td_tensor **tensors; /* references: a get beside the stream may take back an id that it had bound */
    td_val *args;
    uint32_t nargs, found, read; /* so many arguments; tensors that were found, arguments that were read */
    td_vals_reading reading;
} taking;

typedef struct running {
    td_job job;
    td_exec *at;
    taking args;
    bool begun;
    bool over; /* only to be let go of */
    td_session *session;
    td_deadline deadline;
    td_error stopped; /* code 0: it is not */
    td_record record;
} running;

static running *of(td_job *j)
{
    return (running *)(void *)((char *)j - offsetof(running, job));
}

static uint64_t serial_of(const td_record *r)
{
    return td_words_u64(r->rest + 1);
}

static const td_wait_kind for_shape = {"a shape that a program needs"},
                          for_value = {"a value that a program goes on by"};

/* What it waits for does not matter any more. Memory it has soon, or not. */
static void wake(td_session *s)
{
    const td_wait_kind *kind = s->wait.kind;
    if (td_session_needs_no_memory(s)) return;
    if (!kind || s->wait.over || (kind != &for_shape && kind != &for_value && kind->by != TD_BY_LEASES)) return;
    if (s->wait.tasks) td_waiter_cancel(s->wait.tasks);
    s->wait.tasks = NULL;
    td_session_ready(s);
}

static void too_late(void *arg)
{
    running *x = arg;
    uint32_t ms = x->record.rest[3];
    td_fail(&x->stopped, TD_E_TIMEOUT, "the program was stopped: it had not come to its end in %u.%03u seconds",
            ms / 1000, ms % 1000);
    wake(x->session);
}

static void cancelled(td_error *e)
{
    td_fail(e, TD_E_CANCELLED, "the program was stopped on request");
}

static void woken(void *session)
{
    td_session *s = session;
    if (s->wait.kind == &for_shape) td_session_ready(s);
}

static const td_cause *lost(void *session)
{
    return ((td_session *)session)->failures.late_grad;
}

static int may_touch(td_issuer *who, const td_storage *st, bool write, td_error *e)
{
    td_session *s = td_session_of(who);
    td_exec *r = of(s->work.job)->at;
    bool commits = td_exec_commits(r);
    if (commits && td_session_leases_grad(s, st, e)) return e->code;
    int rc = write ? td_session_check_write(s, st, e) : td_session_check_lease(s, st, e);
    if (rc == TD_AGAIN && commits && td_exec_unpinned(r)) td_session_leases_changed(s->all);
    return rc;
}

/* ---- what it is called with: thousands of tensors, perhaps, which are taken in parts */

static void drop_args(running *x)
{
    taking *t = &x->args;
    for (uint32_t k = 0; t->args && k < t->nargs; k++) td_val_drop(td_exec_purse(x->at), &t->args[k]);
    for (uint32_t k = 0; k < t->found; k++) td_tensor_unref(t->tensors[k]);
    free(t->args);
    free(t->tensors);
    *t = (taking){0};
}

static int begin_args(running *x, td_error *e)
{
    const td_record *r = &x->record;
    taking *t = &x->args;
    uint32_t n = r->rest[5];
    if (n > MOST_ARGS) return td_fail(e, TD_E_INVALID, "a program takes at most %d arguments, not %u", MOST_ARGS, n);
    t->nargs = n;
    t->args = calloc(n + 1, sizeof *t->args);
    t->tensors = malloc((r->nin + 1u) * sizeof *t->tensors);
    if (!t->args || !t->tensors) return td_no_memory(e, "for %u arguments of a program", n);
    return td_vals_begin(&t->reading, td_exec_purse(x->at), r->rest + TD_CALL_HEAD, r->nrest - TD_CALL_HEAD, t->tensors,
                         r->nin, e);
}

static uint32_t part(uint32_t done, uint32_t all)
{
    return all - done < SOME ? all - done : SOME;
}

/* Some of them. When all are there it begins. */
static int take_args(td_session *s, running *x, td_error *e)
{
    const td_record *r = &x->record;
    taking *t = &x->args;
    uint32_t n = part(t->found, r->nin);
    int rc = td_session_values(s, r->in + t->found, (int)n, false, t->tensors + t->found, e);
    if (rc) return rc;
    for (; n; n--) td_tensor_ref(t->tensors[t->found++]);
    if (t->found < r->nin) return TD_OK;
    n = part(t->read, t->nargs);
    rc = td_vals_read(&t->reading, n, t->args + t->read, e);
    t->read += n;
    if (rc || t->read < t->nargs) return rc;
    rc = td_vals_end(&t->reading, e);
    if (!rc) rc = td_exec_begin(x->at, t->nargs, t->args, e);
    drop_args(x);
    x->begun = true;
    return rc;
}

static void answer(td_session *s, const running *x, const td_words *w)
{
    const td_record *r = &x->record;
    Td__Wire__Reply reply;
    td__wire__reply__init(&reply);
    reply.data.data = (uint8_t *)(uintptr_t)td_exec_said(x->at, &reply.data.len);
    reply.serial = serial_of(r);
    reply.value = w->at;
    reply.n_value = w->count;
    td_reply_send(s, &reply, -1);
}

/* Its tensors get the ids that wait for them, the rest goes into the answer. */
static int give_results(td_session *s, const running *x, td_error *e)
{
    const td_record *r = &x->record;
    const td_val *v;
    td_words w = {0};
    uint32_t n = td_exec_results(x->at, &v), ntensors = 0;
    td_tensor **tensors = malloc((r->nout + 1u) * sizeof *tensors);
    int rc = tensors ? td_vals_write(n, v, &w, tensors, r->nout, &ntensors, e) : td_no_memory(e, "for %u results", n);
    if (!rc && ntensors > r->nout)
        rc = td_fail(e, TD_E_INVALID, "the program returned %u tensors, and there is room for %u", ntensors, r->nout);
    if (!rc) rc = td_account_room(s->account, ntensors, e);
    if (!rc && serial_of(r)) rc = td_reply_room(s, w.count * sizeof *w.at, e);
    uint32_t bound = 0;
    for (; bound < ntensors && !rc; bound++)
        rc = td_objects_bind(&s->objects, r->out[bound], td_tensor_ref(tensors[bound]), NULL, e);
    for (uint32_t k = 0; rc && k + 1 < bound; k++) td_objects_release(&s->objects, r->out[k]);
    if (!rc && serial_of(r)) answer(s, x, &w);
    free(tensors);
    td_words_deinit(&w);
    return rc;
}

/* `at`: the run, if it came to one. */
static int failed(td_session *s, const td_record *r, const td_exec *at, td_error *why, td_error *e)
{
    size_t n = 0;
    const char *said = at ? td_exec_said(at, &n) : NULL;
    if (!serial_of(r)) return td_record_failed(s, r, "program", why, e);
    if (!why->op[0]) snprintf(why->op, sizeof why->op, "program");
    if (!why->where[0]) snprintf(why->where, sizeof why->where, "%s", s->issuer.where);
    td_reply_error_after(s, serial_of(r), why, said, n);
    td_session_told(s, why);
    return TD_OK;
}

/* False: there is more of it. */
static bool go_on(td_session *s, running *x)
{
    bool done = false;
    td_error why, e;
    td_need need = {0};
    td_error_clear(&why);
    td_error_clear(&e);
    if (x->stopped.code) {
        td_session_lacks_nothing(s);
        failed(s, &x->record, x->at, &x->stopped, &e);
        return true;
    }
    if (!x->begun) {
        if (!take_args(s, x, &why)) return false;
        failed(s, &x->record, x->at, &why, &e);
        return true;
    }
    int rc = td_exec_step(x->at, td_session_step(s, STEP), &done, &need, &why);
    rc = td_job_memory(s, rc, td_exec_lacks(x->at), &need, &why);
    td_job_behind(s, &for_value, td_exec_behind(x->at));
    if (!rc && td_exec_waits(x->at)) td_session_wait(s, &for_shape);
    if (rc == TD_AGAIN || (!rc && !done)) return false;
    if (!rc) rc = give_results(s, x, &why);
    if (rc) failed(s, &x->record, x->at, &why, &e);
    return true;
}

static bool drop(td_job *j, int most)
{
    running *x = of(j);
    drop_args(x);
    if (!td_exec_drop(x->at, most)) return false;
    free(x);
    return true;
}

static void left(td_job *j)
{
    running *x = of(j);
    td_deadline_disarm(x->session->service, &x->deadline);
}

static int step(td_job *j, td_error *e)
{
    td_session *s = td_session_of(j->issuer);
    (void)e; /* a failure is the record's */
    running *x = of(j);
    bool pinned = td_exec_commits(x->at), gone = false;
    if (x->over || (x->over = go_on(s, x))) {
        left(j);
        gone = drop(j, 16 * STEP);
    }
    if (pinned && (gone || !td_exec_commits(x->at))) td_session_leases_changed(s->all); /* its backward is over */
    return gone ? TD_OK : TD_AGAIN;
}

static bool reads(const td_job *j, const td_storage *st, uint32_t *most)
{
    return td_exec_reads(((const running *)(const void *)j)->at, st, most);
}

static const td_job_kind kind = {"program",      .step = step, .drop = drop,   .left = left,
                                 .reads = reads, .cost = STEP, .endless = true};

/* In the order of the stream. Where they are too many the last ones are forgotten: with the end of each before them the
 * client says them again. */
static void note_unwanted(td_session *s, uint64_t serial)
{
    uint64_t *at = s->programs.unwanted;
    for (unsigned k = 0; k < TD_UNWANTED && serial && at[k] != serial; k++) {
        uint64_t here = at[k];
        if (here && here < serial) continue;
        at[k] = serial;
        serial = here;
    }
}

/* The stream has come to this call. */
static bool is_unwanted(td_session *s, uint64_t serial)
{
    uint64_t *at = s->programs.unwanted;
    unsigned passed = 0;
    while (passed < TD_UNWANTED && at[passed] && at[passed] < serial) passed++;
    memmove(at, at + passed, (TD_UNWANTED - passed) * sizeof *at);
    memset(at + TD_UNWANTED - passed, 0, passed * sizeof *at);
    return serial && at[0] == serial;
}

void td_session_stop(td_session *s, uint64_t serial, bool alone)
{
    running *x = s->work.job && s->work.job->kind == &kind ? of(s->work.job) : NULL;
    note_unwanted(s, serial); /* it may be still to come */
    if (!x || x->over || x->stopped.code) return;
    if (serial_of(&x->record) != serial && (serial_of(&x->record) || alone)) return;
    if (td_session_beside(s, serial)) return;
    cancelled(&x->stopped);
    wake(s);
}

int td_call_stopper(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    int end = -1;
    if (s->programs.stoppable) return td_fail(e, TD_E_EXISTS, "the session has its stopper; it gets one");
    if (td_writer_descriptors_full(s->io.writer)) td_fail(e, TD_E_BUSY, "too many descriptors wait to be read");
    else if (s->io.stopper) end = s->io.stopper(s->io.arg, e);
    else td_fail(e, TD_E_UNSUPPORTED, "no call can be stopped here");
    if (end < 0) return e->code;
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    r.serial = call->serial;
    s->programs.stoppable = true;
    td_account_wire(s->account, 0, TD_STOPPER_BYTES);
    td_reply_send(s, &r, end);
    return TD_OK;
}

bool td_session_runs_for_answer(const td_session *s)
{
    return s->work.job && s->work.job->kind == &kind && serial_of(&of(s->work.job)->record);
}

int td_session_program_call(td_session *s, const td_record *r, td_error *e)
{
    td_exec_env env = {.woken = woken, .arg = s, .lost = lost, .scope = r->rest[4]};
    td_error why = {0};
    td_held_program *p = td_session_program_of(s, r->rest[0], &why);
    running *x = malloc(sizeof *x);
    int rc = p ? TD_OK : why.code;
    if (!rc && is_unwanted(s, serial_of(r))) cancelled(&why), rc = why.code;
    if (!rc && !x) rc = td_no_memory(&why, "for a run of a program");
    if (!rc)
        *x = (running){.job = td_session_job(s, &kind),
                       .session = s,
                       .record = *r}; /* its words stay where they are until the batch is done */
    if (!rc) rc = td_exec_new(&x->at, p, &s->issuer, &env, r->mode, &why);
    if (rc) {
        free(x);
        if (td_need_may_pass(rc)) rc = td_session_lacks(s, rc, &(td_need){.heap = s->heap}, &why);
        return rc == TD_AGAIN ? rc : failed(s, r, NULL, &why, e);
    }
    rc = begin_args(x, &why);
    if (!rc) rc = take_args(s, x, &why); /* all, as a rule */
    s->issuer.may_touch = may_touch;
    s->work.job = &x->job;
    if (r->rest[3]) td_deadline_arm(s->service, &x->deadline, r->rest[3], too_late, x);
    if (rc) x->over = true, failed(s, r, x->at, &why, e);
    return TD_OK;
}
