/* Leases: memory that a client fills and announces later, and the right to write what is there already.
 *
 * A write lease keeps its tensor, so that it can end whatever became of the id. While one is open nobody else touches
 * the storage; who wants to waits for its end, up to a deadline where the request has one. What needs it in a stream
 * waits for a minute, since all that comes behind waits along, and fails then, naming the holder: that may be stopped,
 * or hang. Whatever else needs it before that lease ends fails at once. A write to what another's backward has yet to
 * read fails when that backward has stood still for as long. */
#include "daemon/session/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>

td_fill_lease *td_lease_find(td_session *s, uint32_t id)
{
    td_fill_lease *l;
    HASH_FIND(hh, s->leases.fill, &id, sizeof id, l);
    return l;
}

static uint64_t lease_cost(uint64_t bytes)
{
    return bytes ? (bytes + TD_EXTENT_ALIGN - 1) / TD_EXTENT_ALIGN * TD_EXTENT_ALIGN : TD_EXTENT_ALIGN;
}

static void end_lease(td_account *account, td_fill_lease *l, td_extent *extent)
{
    account->leased -= lease_cost(l->bytes);
    td_account_discharge(account, lease_cost(l->bytes), 1);
    if (extent) *extent = l->extent;
    else td_heap_release(td_extent_heap(&l->extent), &l->extent);
    free(l);
}

int td_lease_new(td_session *s, uint64_t bytes, td_fill_lease **out, td_need *need, td_error *e)
{
    *out = NULL;
    if (bytes > (UINT64_C(1) << 46))
        return td_fail(e, TD_E_INVALID, "a lease of %llu bytes", (unsigned long long)bytes);
    int rc = td_account_charge(s->account, lease_cost(bytes), 1, e);
    if (rc) return rc;
    td_fill_lease *l = calloc(1, sizeof *l);
    rc = l ? td_heap_alloc(s->heap, bytes, &l->extent, need, e) : td_no_memory(e, "for a lease");
    if (rc) {
        td_account_discharge(s->account, lease_cost(bytes), 1);
        free(l);
        return rc;
    }
    l->bytes = bytes;
    s->account->leased += lease_cost(bytes);
    do l->id = ++s->leases.last; /* not 0, and not one that has been open since the count went round */
    while (!l->id || td_lease_find(s, l->id));
    HASH_ADD(hh, s->leases.fill, id, sizeof l->id, l);
    if (!TD_HASHED(l)) {
        end_lease(s->account, l, NULL);
        return td_no_memory(e, "for the record of a lease");
    }
    *out = l;
    return TD_OK;
}

void td_lease_take(td_session *s, td_fill_lease *l, td_extent *extent)
{
    HASH_DEL(s->leases.fill, l);
    end_lease(s->account, l, extent);
}

static int make_ring(td_session *s, td_fill_lease *l, td_error *e)
{
    if (s->leases.ring) return td_fail(e, TD_E_EXISTS, "the connection has a ring already");
    if (l->bytes < sizeof(td_ring_memory))
        return td_fail(e, TD_E_INVALID, "a ring takes %zu bytes; the lease has %llu", sizeof(td_ring_memory),
                       (unsigned long long)l->bytes);
    HASH_DEL(s->leases.fill, l);
    s->leases.ring = l;
    s->all->rings++;
    return TD_OK;
}

void td_ring_drop(td_session *s)
{
    if (!s->leases.ring) return;
    end_lease(s->account, s->leases.ring, NULL);
    s->leases.ring = NULL;
    s->all->rings--;
}

bool td_leases_drop(td_fill_lease **leases, td_account *account, int most)
{
    for (; *leases && most > 0; most--) {
        td_fill_lease *l = *leases;
        HASH_DEL(*leases, l);
        end_lease(account, l, NULL);
    }
    return !*leases;
}

/* ---- leases to write what is there already */

int td_write_lease_new(td_session *s, td_tensor *t, td_error *e)
{
    int rc = td_account_charge(s->account, 0, 1, e);
    if (rc) return rc;
    td_write_lease *w = malloc(sizeof *w);
    if (w) {
        *w = (td_write_lease){.all = s->all,
                              .storage = t->storage,
                              .tensor = t,
                              .account = s->account,
                              .number = ++s->all->leases_begun,
                              .since_ms = td_clock_ms()};
        HASH_ADD(hh, s->leases.write, storage, sizeof w->storage, w);
        if (TD_HASHED(w)) HASH_ADD(hh_all, s->all->write_leases, storage, sizeof w->storage, w);
    }
    if (!w || !TD_HASHED(w) || !w->hh_all.tbl) {
        if (w && TD_HASHED(w)) HASH_DEL(s->leases.write, w);
        td_account_discharge(s->account, 0, 1);
        free(w);
        return td_no_memory(e, "for a write lease");
    }
    td_tensor_ref(t);
    t->storage->flags |= TD_SF_LEASED;
    t->storage->lease_session = s->id;
    return TD_OK;
}

static td_write_lease *find_write_lease(td_session *s, const td_storage *st)
{
    td_write_lease *w;
    HASH_FIND(hh, s->leases.write, &st, sizeof st, w);
    return w;
}

/* `written`: its holder may have written. */
static void end_write_lease(td_write_lease **all, td_write_lease *w, td_account *account, bool written)
{
    HASH_DEL(*all, w);
    HASH_DELETE(hh_all, w->all->write_leases, w);
    w->tensor->storage->flags &= (uint8_t)~TD_SF_LEASED;
    if (written) td_tensor_bump(w->tensor, 0, account->session, account->pid);
    td_tensor_unref(w->tensor);
    td_account_discharge(account, 0, 1);
    free(w);
}

int td_write_lease_end(td_session *s, td_storage *st, td_error *e)
{
    td_write_lease *w = find_write_lease(s, st);
    if (!w) return td_fail(e, TD_E_INVALID, "the tensor has no open write lease of this session");
    end_write_lease(&s->leases.write, w, s->account, true);
    td_session_leases_changed(s->all);
    return TD_OK;
}

bool td_write_leases_drop(td_write_lease **leases, td_account *account, int most)
{
    for (; *leases && most > 0; most--) end_write_lease(leases, *leases, account, true);
    return !*leases;
}

static int wait_for(td_session *s, const td_wait_kind *kind, const td_storage *st)
{
    td_session_wait(s, kind);
    td_session_wants(s, st);
    return TD_AGAIN;
}

/* Whose backward it is that must still read a storage. NULL: nobody's, or of several there is too much to look at. */
static const td_session *reader_of(const td_sessions *all, const td_storage *st)
{
    uint32_t most = 2048;
    if (all->backwards && !all->backwards->access.next_reading) return all->backwards;
    for (const td_session *s = all->backwards; s && most > 0; s = s->access.next_reading)
        if (s->work.job->kind->reads(s->work.job, st, &most)) return s;
    return NULL;
}

static td_write_lease *lease_on(const td_sessions *all, const td_storage *st)
{
    td_write_lease *w;
    HASH_FIND(hh_all, all->write_leases, &st, sizeof st, w);
    return w;
}

static const td_wait_kind for_lease = {"a write lease", .by = TD_BY_LEASES, .external = true},
                          for_backward = {"a backward that has yet to read the tensor", .by = TD_BY_LEASES};

const char *td_session_awaits(const td_session *s, char *buffer, size_t size)
{
    const td_wait_kind *kind = s->wait.kind;
    const td_write_lease *w = s->access.wants && kind == &for_lease ? lease_on(s->all, s->access.wants) : NULL;
    const td_session *x = s->access.wants && kind == &for_backward ? reader_of(s->all, s->access.wants) : NULL;
    const td_account *of = w ? w->account : x ? x->account : NULL;
    if (!of || of == s->account) return kind->what;
    snprintf(buffer, size, w ? "%s that %s (pid %u) holds" : "%s, of %s (pid %u)", kind->what, of->name, of->pid);
    return buffer;
}

static void look_again(void *session)
{
    td_session_ready(session);
}

static int overdue(td_write_lease *w, uint64_t now, td_error *e)
{
    w->overdue = true;
    return td_fail(
        e, TD_E_TIMEOUT,
        "%s (pid %u) has been writing to the tensor for %.1f s, and does not end that: it may be stopped, or "
        "hang; nothing else can use the tensor until it ends its write (td_write_end(), writing()), or ends",
        w->account->name, w->account->pid, (double)(now - w->since_ms) / 1e3);
}

static int wait_for_until(td_session *s, const td_wait_kind *kind, const td_storage *st, uint64_t left_ms)
{
    wait_for(s, kind, st);
    td_deadline_arm(s->service, &s->wait.deadline, left_ms, look_again, s);
    return TD_AGAIN;
}

/* `patiently`: as long as it takes. */
static int leased(td_session *s, const td_storage *st, bool patiently, td_error *e)
{
    if (st->lease_session == s->id)
        return td_fail(e, TD_E_BUSY,
                       "this session holds a write lease on the tensor; end it before using the tensor in an op");
    td_write_lease *w = lease_on(s->all, st);
    uint64_t now = td_clock_ms();
    if (s->access.awaited_lease != w->number) s->access.awaited_lease = w->number, s->access.awaited_since_ms = now;
    uint64_t waited = now - s->access.awaited_since_ms;
    if (!patiently && (w->overdue || waited >= s->all->lease_ms)) return overdue(w, now, e);
    return patiently ? wait_for(s, &for_lease, st) : wait_for_until(s, &for_lease, st, s->all->lease_ms - waited);
}

int td_session_leased(td_session *s, const td_storage *st, td_error *e)
{
    return leased(s, st, false, e);
}

static int unread(td_session *s, td_storage *st, td_error *e)
{
    char of[sizeof s->account->name + 32] = "another program";
    const td_session *x = reader_of(s->all, st);
    if (x) snprintf(of, sizeof of, "%s (pid %u)", x->account->name, x->pid);
    st->flags |= TD_SF_OVERDUE;
    return td_fail(e, TD_E_TIMEOUT,
                   "a backward of %s has yet to read the tensor, and has not come to that for %.1f s; write to a "
                   "clone(), or when that backward has ended",
                   of, (double)s->all->lease_ms / 1e3);
}

/* Has the reader's backward taken a step or ended a task since this was asked last, or is a task at work? NULL: has any
 * backward? */
static bool goes_on(td_session *s, const td_session *reader)
{
    uint64_t steps = 0, at_work = 0;
    for (const td_session *x = reader ? reader : s->all->backwards; x; x = reader ? NULL : x->access.next_reading) {
        steps += x->work.steps + td_flow_ended(x->flow);
        at_work += td_flow_pending(x->flow);
    }
    bool on = steps != s->access.awaited_steps || at_work;
    s->access.awaited_steps = steps;
    return on;
}

/* Backwards have yet to read it. One that goes on comes to its end; only one that has stood still for a minute holds up
 * nobody. */
static int pinned(td_session *s, td_storage *st, bool patiently, td_error *e)
{
    if (patiently) return wait_for(s, &for_backward, st);
    uint64_t now = td_clock_ms();
    if (s->access.awaited_read != st) {
        goes_on(s, reader_of(s->all, st));
        s->access.awaited_read = st, s->access.awaited_since_ms = now;
    }
    uint64_t waited = now - s->access.awaited_since_ms;
    if (waited >= s->all->lease_ms && goes_on(s, reader_of(s->all, st))) s->access.awaited_since_ms = now, waited = 0;
    else if (st->flags & TD_SF_OVERDUE || waited >= s->all->lease_ms) return unread(s, st, e);
    return wait_for_until(s, &for_backward, st, s->all->lease_ms - waited);
}

static int check_write(td_session *s, const td_storage *st, bool patiently, td_error *e)
{
    int rc = st->flags & TD_SF_LEASED ? leased(s, st, patiently, e) : TD_OK;
    if (rc) return rc;
    if (st->pinned) return pinned(s, (td_storage *)(uintptr_t)st, patiently, e);
    if (s->access.awaited_read == st) s->access.awaited_read = NULL;
    return st->queued ? td_session_keep_items(s, (td_storage *)(uintptr_t)st, e) : TD_OK;
}

int td_session_check_write(td_session *s, const td_storage *st, td_error *e)
{
    return check_write(s, st, false, e);
}

/* Who leases again and again must not be quicker than all who wait for the end of its lease. */
static int wait_for_its_turn(td_session *s, const td_storage *st)
{
    for (td_session *x = s->all->wanting; x; x = x->access.next_wanting)
        if (x != s && x->access.wants == st) {
            static const td_wait_kind for_others = {"those who waited for the last write lease", .by = TD_BY_LEASES,
                                                    .external = true};
            td_session_wait(s, &for_others);
            return TD_AGAIN;
        }
    return TD_OK;
}

void td_session_reads(td_session *s, bool on)
{
    if (on == (s->access.at_reading != NULL)) return;
    if (on) {
        s->access.next_reading = s->all->backwards;
        s->access.at_reading = &s->all->backwards;
        if (s->access.next_reading) s->access.next_reading->access.at_reading = &s->access.next_reading;
        s->all->backwards = s;
    } else {
        *s->access.at_reading = s->access.next_reading;
        if (s->access.next_reading) s->access.next_reading->access.at_reading = s->access.at_reading;
        s->access.at_reading = NULL;
    }
}

/* ---- calls */

void td_lease_reply(td_session *s, uint64_t serial, td_storage *st, uint32_t lease)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Address address;
    int fd = -1;
    td_session_address(s, st, &address, &fd);
    r.serial = serial;
    r.lease = lease;
    r.address = &address;
    td_reply_send(s, &r, fd);
}

int td_call_lease(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Lease *q = call->lease;
    td_fill_lease *l;
    td_need need = {.heap = s->heap};
    int rc = td_lease_new(s, q->bytes, &l, &need, e);
    if (td_need_may_pass(rc)) rc = td_session_lacks(s, rc, &need, e);
    if (rc) return rc;
    td_storage place = {.extent = l->extent, .nbytes = q->bytes};
    td_lease_reply(s, call->serial, &place, l->id);
    return TD_OK;
}

int td_call_lease_drop(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__LeaseDrop *q = call->lease_drop;
    td_fill_lease *l = td_lease_find(s, q->lease);
    if (!l) return td_fail(e, TD_E_NOT_FOUND, "there is no lease %u", q->lease);
    td_lease_take(s, l, NULL);
    td_reply_ok(s, call->serial);
    return TD_OK;
}

static int too_late(td_error *e, const char *what)
{
    snprintf(e->op, sizeof e->op, "write_begin");
    return td_fail(e, TD_E_TIMEOUT, "the tensor could not be had for writing in time: it waited for %s", what);
}

/* Milliseconds that are left to the current call; UINT64_MAX: no limit. */
static uint64_t time_left(td_session *s, uint32_t timeout_ms)
{
    if (timeout_ms == UINT32_MAX) return UINT64_MAX;
    if (!s->stream.call_until_ms) s->stream.call_until_ms = td_clock_ms() + timeout_ms;
    uint64_t now = td_clock_ms();
    return now < s->stream.call_until_ms ? s->stream.call_until_ms - now : 0;
}

static void deadline_over(void *arg)
{
    td_session *s = arg;
    s->wait.failed = true;
    td_session_ready(s);
}

static void limit_wait(td_session *s, uint64_t left)
{
    if (left != UINT64_MAX) td_deadline_arm(s->service, &s->wait.deadline, left, deadline_over, s);
}

/* Somebody is in the way: wait, then the call is tried again; or it is too late for that. Who waits for memory, or goes
 * on at once, has nobody in the way: that wait ends by itself. */
static int wait_for_others(td_session *s, uint64_t left, td_error *e)
{
    if (!s->wait.kind || s->wait.kind->by != TD_BY_LEASES) return TD_AGAIN;
    if (left) {
        limit_wait(s, left);
        return TD_AGAIN;
    }
    char text[sizeof e->message];
    const char *what = td_session_awaits(s, text, sizeof text);
    int rc = too_late(e, what);
    s->wait = (td_wait){0};
    td_session_wants(s, NULL);
    return rc;
}

int td_call_ring(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Ring *q = call->ring;
    td_fill_lease *l = td_lease_find(s, q->lease);
    if (!l) return td_fail(e, TD_E_NOT_FOUND, "there is no lease %u", q->lease);
    if (!s->io.ring) return td_fail(e, TD_E_UNSUPPORTED, "this connection takes no ring");
    int rc = make_ring(s, l, e);
    if (rc) return rc;
    td_reply_ok(s, call->serial);
    s->io.ring(s->io.arg, td_extent_data(&l->extent));
    return TD_OK;
}

#define FOR_TASKS "the tensor's pending tasks"

static void write_lease_begins(td_session *s, td_wait *w)
{
    if (!w->tasks) {
        td_lease_reply(s, w->serial, w->tensor->storage, 0);
        return;
    }
    td_waiter_cancel(w->tasks); /* the deadline came first */
    w->tasks = NULL;
    end_write_lease(&s->leases.write, find_write_lease(s, w->tensor->storage), s->account, false);
    td_session_leases_changed(s->all);
    td_error e = {0};
    too_late(&e, FOR_TASKS);
    td_reply_error(s, w->serial, &e);
}

static int check_writable(const td_session *s, td_tensor *t, td_error *e)
{
    const td_storage *st = t->storage;
    int rc = td_session_check_host(t, e);
    if (rc) return rc;
    if (td_extent_heap(&st->extent) != s->heap || st->flags & TD_SF_SERVICE)
        return td_fail(e, TD_E_PERMISSION,
                       "the tensor's memory is not this session's to write; write with copy_ instead, or clone it");
    if (td_requires_grad(t) && !td_is_leaf(t))
        return td_fail(e, TD_E_AUTOGRAD, "the tensor is the result of %s and requires grad; write to a detached copy",
                       td_grad_fn(t));
    return TD_OK;
}

int td_call_write_begin(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__WriteBegin *q = call->write_begin;
    td_tensor *t = td_call_tensor(s, q->id, e);
    if (!t) return e->code;
    uint64_t left = time_left(s, q->timeout_ms);
    int rc = check_write(s, t->storage, true, e);
    if (!rc) rc = wait_for_its_turn(s, t->storage);
    if (rc == TD_AGAIN) return wait_for_others(s, left, e);
    if (!rc) rc = check_writable(s, t, e);
    if (!rc) rc = td_write_lease_new(s, t, e);
    if (rc) return rc;
    static const td_wait_kind for_tasks = {FOR_TASKS, .finish = write_lease_begins};
    td_access a = {t->storage, 0, t->storage->nbytes, true};
    td_session_wait_for_tasks(s, &for_tasks, &a);
    s->wait.serial = call->serial;
    s->wait.tensor = td_tensor_ref(t);
    if (s->wait.tasks) limit_wait(s, left);
    return TD_SUSPENDED;
}
