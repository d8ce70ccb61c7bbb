/* A session's life: hello, frames, turns, the end.
 *
 * The stream is worked off record by record. A step that cannot go on leaves everything as it was and suspends; on
 * resume the step is finished or run again. After the end, tasks that still run keep the struct until they are done,
 * and nothing else does. */
#include "daemon/session/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    ARENA_LIMIT = 3 * TD_FRAME_MAX,
    MAX_SITES = 65535,
    TURN_NS = 1000000,
    PROMISE_COST = 128, /* of one that is pending, in bytes */
    SESSION_IMPORTS = 64, /* mapped descriptors: two of the daemon's each */
    LOOK_EACH = 8,      /* records between two looks at the clock */
    BACKWARD_STEP = 8   /* nodes that count as one record there */
};

void td_sessions_init(td_sessions *all, td_service *service)
{
    *all = (td_sessions){.service = service, .inline_limit = 65536, .max_pending = 8192, .max_unread = 1 << 20};
    service->budget.leaving = td_segment_leaving;
    service->budget.leaving_arg = all;
}

uint32_t td_session_id(const td_session *s)
{
    return s->id;
}

bool td_session_waits(const td_session *s)
{
    return s->wait.active && s->wait.external && !s->wait.ready;
}

/* ---- waiting */

void td_session_wait(td_session *s, const char *what, bool external, void (*finish)(td_session *))
{
    s->wait = (td_wait_state){.active = true, .what = what, .external = external, .finish = finish};
}

void td_session_ready(td_session *s)
{
    s->wait.ready = true;
    s->io.resume(s->io.arg);
}

void td_session_throttle(td_session *s, const char *what)
{
    td_session_wait(s, what, false, NULL);
    if (s->throttled) return;
    s->throttled = true;
    s->next_throttled = s->all->throttled;
    s->all->throttled = s;
}

static void unthrottle(td_session *s)
{
    if (!s->throttled) return;
    td_session **at = &s->all->throttled;
    while (*at != s) at = &(*at)->next_throttled;
    *at = s->next_throttled;
    s->throttled = false;
}

void td_sessions_collected(td_sessions *all)
{
    for (td_session *s = all->throttled, *next; s; s = next) {
        next = s->next_throttled;
        uint64_t pending = td_flow_pending(s->flow);
        if (pending > all->max_pending / 2) continue;
        unthrottle(s);
        td_session_ready(s);
    }
}

/* Cancel whatever the session waits for: it ends. */
static void cancel_wait(td_session *s)
{
    td_wait_state *w = &s->wait;
    if (!w->active) return;
    td_deadline_disarm(s->service, &w->deadline);
    if (w->queue) td_queue_wait_cancel(s->service, w->queue);
    if (w->name) td_name_wait_free(w->name);
    if (w->tasks) td_waiter_cancel(w->tasks);
    if (w->item && w->member) td_queue_untake(s->service, w->member, w->item);
    else td_queue_item_free(w->item);
    td_tensor_unref(w->tensor);
    *w = (td_wait_state){0};
}

/* ---- failures and call sites */

void td_session_failed(td_session *s, td_cause *cause)
{
    if (!s->first_error) s->first_error = td_cause_ref(cause);
}

td_cause *td_session_cause(td_session *s, const td_error *why, td_error *e)
{
    td_cause *c = td_cause_new(why);
    td_error over = {0};
    if (c && td_cause_charge(c, s->account, &over) == TD_OK) return c;
    td_cause_unref(c);
    if (!s->overdrawn) s->overdrawn = td_cause_new(&over);
    if (s->overdrawn && c) return td_cause_ref(s->overdrawn);
    td_fail(e, TD_E_SYSTEM, "no memory to remember a failure");
    return NULL;
}

void td_session_site(td_session *s, uint32_t site)
{
    if (site == s->last_site) return;
    s->last_site = site;
    const char *text = site < s->nsites ? s->sites[site] : NULL;
    size_t n = text ? strlen(text) : 0; /* set_site made it short enough */
    memcpy(s->issuer.where, text ? text : "", n + 1);
}

static int set_site(td_session *s, const Td__Wire__CallSite *c, td_error *e)
{
    if (c->id == 0 || c->id > MAX_SITES)
        return td_fail(e, TD_E_PROTOCOL, "call site %u; they go from 1 to %d", c->id, MAX_SITES);
    if (c->id >= s->nsites) {
        uint32_t n = s->nsites ? s->nsites : 64;
        while (n <= c->id) n *= 2;
        char **sites = realloc(s->sites, n * sizeof *sites);
        if (!sites) return td_fail(e, TD_E_SYSTEM, "no memory for call sites");
        memset(sites + s->nsites, 0, (n - s->nsites) * sizeof *sites);
        s->sites = sites;
        s->nsites = n;
    }
    if (!s->sites[c->id]) {
        if (td_account_charge(s->account, 0, 1, NULL)) return TD_OK; /* errors will not say where */
        s->ncharged_sites++;
    }
    free(s->sites[c->id]);
    s->sites[c->id] = strndup(c->text ? c->text : "", sizeof s->issuer.where - 1);
    s->last_site = 0;
    return TD_OK;
}

/* ---- the beginning */

static void submit(td_issuer *who, td_call *c)
{
    td_sched_submit(who->scheduler, c);
}

/* The session whose references a forked child takes over: it must know the token and be the same user. */
static td_session *find_parent(td_sessions *all, const Td__Wire__Hello *h, const td_peer_id *who, td_error *e)
{
    for (td_session *p = all->first; p; p = p->next) {
        if (p->id != h->clone_session) continue;
        if (p->token == h->clone_token && p->uid == who->uid) return p;
        td_fail(e, TD_E_PERMISSION, "session %u is not yours to clone", h->clone_session);
        return NULL;
    }
    td_fail(e, TD_E_NOT_FOUND, "there is no session %u to clone", h->clone_session);
    return NULL;
}

static int set_up(td_session *s, const Td__Wire__Hello *h, td_error *e)
{
    td_service *v = s->service;
    td_account *user = td_service_uid_account(v, s->uid, e);
    if (!user) return TD_E_SYSTEM;
    s->account = td_account_new(user);
    td_account_unref(user);
    if (!s->account) return td_fail(e, TD_E_SYSTEM, "no memory for a session");
    s->objects.account = s->account;
    s->account->limit_bytes = v->options.session_bytes;
    s->account->limit_objects = v->options.session_objects;
    s->account->limit_imports = SESSION_IMPORTS;
    s->account->session = s->id;
    s->account->uid = s->uid;
    s->account->pid = s->pid;
    snprintf(s->account->name, sizeof s->account->name, "%s", h->program && h->program[0] ? h->program : "client");
    int rc = td_heap_new(&s->heap, &v->budget, TD_SEGMENT_SESSION, s->uid, e);
    if (!rc) rc = td_flow_new(&s->flow, v->sched, e);
    if (rc) return rc;
    s->issuer = (td_issuer){.session = s->id,
                            .pid = s->pid,
                            .account = s->account,
                            .heap = s->heap,
                            .service_heap = v->heap,
                            .service_account = s->account,
                            .flow = s->flow,
                            .scheduler = v->sched,
                            .submit = submit};
    if (getrandom(&s->issuer.seed, sizeof s->issuer.seed, 0) < 0 || getrandom(&s->token, sizeof s->token, 0) < 0)
        return td_fail(e, TD_E_SYSTEM, "no random numbers");
    return TD_OK;
}

static void welcome(td_session *s, const Td__Wire__Hello *h)
{
    Td__Wire__Welcome w;
    td__wire__welcome__init(&w);
    w.protocol = TD_PROTOCOL;
    w.table_hash = td_ops_hash;
    w.session = s->id;
    w.token = s->token;
    w.version = (char *)TD_VERSION;
    w.pid = (uint32_t)getpid();
    w.inline_limit = s->all->inline_limit;
    uint32_t *rows = NULL;
    if (h->table_hash != td_ops_hash && (rows = malloc(2 * td_op_count * sizeof *rows))) {
        w.op_ids = rows;
        w.op_hashes = rows + td_op_count;
        for (unsigned i = 0; i < td_op_count; i++) {
            if (!td_ops[i].name) continue;
            w.op_ids[w.n_op_ids++] = i;
            w.op_hashes[w.n_op_hashes++] = td_ops[i].hash;
        }
    }
    size_t n = td__wire__welcome__get_packed_size(&w);
    uint8_t *at = td_writer_begin(s->io.writer, n);
    if (at) {
        td__wire__welcome__pack(&w, at);
        td_writer_end(s->io.writer, n, TD_FRAME_WELCOME, -1);
        s->io.wrote(s->io.arg);
    }
    free(rows);
}

static void free_parts(td_session *s)
{
    for (uint32_t i = 0; i < s->nsites; i++) free(s->sites[i]);
    if (s->ncharged_sites) td_account_discharge(s->account, 0, s->ncharged_sites);
    free(s->sites);
    free(s->sent);
    free(s->outs);
    td_arena_deinit(&s->arena);
    td_cause_unref(s->first_error);
    td_cause_unref(s->overdrawn);
    if (s->flow) td_flow_free(s->flow);
    if (s->heap) td_heap_free(s->heap); /* only when it never began: td_session_end orphans it */
    td_account_unref(s->account);
    free(s);
}

static int begin(td_session *s, const Td__Wire__Hello *h, const td_peer_id *who, td_error *e)
{
    if (h->protocol != TD_PROTOCOL)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "the client speaks protocol %u, this daemon (version %s) %d; use a client of the same release",
                       h->protocol, TD_VERSION, TD_PROTOCOL);
    td_session *parent = NULL;
    if (h->clone_session && !(parent = find_parent(s->all, h, who, e))) return e ? e->code : TD_E_NOT_FOUND;
    int rc = set_up(s, h, e);
    if (!rc && parent) rc = td_objects_copy(&s->objects, &parent->objects, e);
    return rc;
}

int td_session_new(td_session **out, td_sessions *all, const td_session_io *io, const td_peer_id *who,
                   const td_frame *hello, td_error *e)
{
    *out = NULL;
    if (hello->kind != TD_FRAME_HELLO)
        return td_fail(e, TD_E_PROTOCOL, "the first frame is of kind %u; it must be a Hello", hello->kind);
    td_session *s = calloc(1, sizeof *s);
    if (!s) return td_fail(e, TD_E_SYSTEM, "no memory for a session");
    *s = (td_session){
        .all = all, .service = all->service, .io = *io, .id = ++all->next_id, .uid = who->uid, .pid = who->pid,
        .import_fd = -1};
    td_arena_init(&s->arena, ARENA_LIMIT);
    Td__Wire__Hello *h = td__wire__hello__unpack(&s->arena.allocator, hello->bytes, hello->payload);
    int rc = h ? begin(s, h, who, e) : td_fail(e, TD_E_PROTOCOL, "the Hello is malformed");
    if (rc) {
        td_objects_deinit(&s->objects);
        free_parts(s);
        return rc;
    }
    welcome(s, h);
    td_arena_reset(&s->arena);
    s->next = all->first;
    if (s->next) s->next->prev = s;
    all->first = s;
    all->count++;
    *out = s;
    return TD_OK;
}

/* ---- the end */

static void flow_drained(void *arg)
{
    td_session *s = arg;
    s->wait.tasks = NULL;
    s->drained = true;
    td_session_try_free(s);
}

void td_session_promise(td_session *s, uint64_t bytes)
{
    s->promised += bytes + PROMISE_COST;
    s->jobs++;
}

void td_session_promise_kept(td_session *s, uint64_t bytes)
{
    s->promised -= bytes + PROMISE_COST;
    s->jobs--;
    if (s->ended) {
        td_session_try_free(s);
    } else if (s->waits_for_replies && s->promised <= s->all->max_unread / 2) {
        s->waits_for_replies = false;
        td_session_ready(s);
    }
}

void td_session_try_free(td_session *s)
{
    if (s->ended && s->drained && s->jobs == 0) free_parts(s);
}

td_heap *td_session_end(td_session *s, bool alive)
{
    if (s->prev) s->prev->next = s->next;
    else s->all->first = s->next;
    if (s->next) s->next->prev = s->prev;
    s->all->count--;
    unthrottle(s);
    cancel_wait(s);
    s->ended = true;
    td_backward_free(s->backward);
    while (s->queues) td_queue_handle_free(s, s->queues, true);
    td_import_drop(s);
    td_write_leases_deinit(s);
    td_session_leases_changed(s->all); /* who waited for its leases or its backward goes on */
    td_objects_deinit(&s->objects);
    td_leases_deinit(s);
    td_heap *left = alive && s->mapped ? s->heap : NULL;
    td_heap_orphan(s->heap, left != NULL);
    s->heap = NULL;
    td_sched_after_flow(s->service->sched, s->flow, flow_drained, s); /* may free s */
    return left;
}

/* ---- frames and turns */

int td_session_frame(td_session *s, td_frame *f, td_error *e)
{
    td_arena_reset(&s->arena);
    s->service->frames_in++;
    s->service->bytes_in += f->bytes + TD_FRAME_HEADER;
    if (f->kind == TD_FRAME_BATCH) {
        s->batch = td__wire__batch__unpack(&s->arena.allocator, f->bytes, f->payload);
        s->cursor = 0;
        if (!s->batch) return td_fail(e, TD_E_PROTOCOL, "a Batch of %u bytes is malformed", f->bytes);
        for (size_t i = 0; i < s->batch->n_sites; i++) {
            int rc = set_site(s, s->batch->sites[i], e);
            if (rc) return rc;
        }
        return TD_OK;
    }
    if (f->kind == TD_FRAME_CALL) {
        s->call = td__wire__call__unpack(&s->arena.allocator, f->bytes, f->payload);
        if (!s->call) return td_fail(e, TD_E_PROTOCOL, "a Call of %u bytes is malformed", f->bytes);
        td_import_receive(s, f);
        return TD_OK;
    }
    return td_fail(e, TD_E_PROTOCOL, "a frame of kind %u is not for the daemon", f->kind);
}

/* One record of the batch. */
static int step_batch(td_session *s, td_error *e)
{
    td_record r;
    int rc = td_record_parse(s->batch->words + s->cursor, s->batch->n_words - s->cursor, &r, e);
    if (rc) return rc;
    rc = r.op < TD_REC_FIRST ? td_step_op(s, &r, e) : td_step_control(s, &r, e);
    if (rc != TD_AGAIN) {
        s->cursor += r.words;
        s->lacks_since_ms = 0;
    }
    return rc;
}

/* Resumed: finish what was waited for. False: still waiting. */
static bool finish_wait(td_session *s)
{
    if (!s->wait.active) return true;
    if (!s->wait.ready) return false;
    td_deadline_disarm(s->service, &s->wait.deadline);
    td_wait_state w = s->wait;
    s->wait.active = false;
    if (w.finish) w.finish(s);
    if (!s->wait.active) { /* finish may have begun another */
        td_queue_item_free(s->wait.item);
        td_tensor_unref(s->wait.tensor);
        s->wait = (td_wait_state){0};
    }
    return !s->wait.active;
}

/* A turn is bounded by its time too, for one record may be worth a thousand. */
static bool turn_over(uint64_t *until)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    if (!*until) *until = now + TURN_NS;
    return now > *until;
}

/* Is so much under way already that more must wait? Then it waits. */
static bool held_back(td_session *s)
{
    if (td_flow_pending(s->flow) > s->all->max_pending) {
        td_session_throttle(s, "its own pending tasks");
    } else if (s->promised > s->all->max_unread) {
        td_session_wait(s, "its own pending replies", false, NULL);
        s->waits_for_replies = true;
    } else {
        return false;
    }
    return true;
}

td_run td_session_run(td_session *s, int most, td_error *e)
{
    uint64_t until = 0;
    for (int n = 0; finish_wait(s); n++) {
        if (n % LOOK_EACH == 0 && turn_over(&until)) return TD_RUN_MORE;
        if (s->backward) {
            if (held_back(s)) continue;
            most -= BACKWARD_STEP;
            if (td_step_backward(s, BACKWARD_STEP) == TD_AGAIN && most <= 0) return TD_RUN_MORE;
            continue;
        }
        int rc;
        if (s->batch && s->cursor < s->batch->n_words) {
            rc = step_batch(s, e);
        } else if (s->call) {
            rc = td_step_call(s);
            if (rc != TD_AGAIN) {
                s->call = NULL;
                s->call_until_ms = 0;
                td_import_drop(s);
            }
        } else {
            s->batch = NULL;
            return TD_RUN_IDLE;
        }
        if (rc > 0) return TD_RUN_FATAL;
        if (s->wait.active) continue;
        if (td_writer_pending(s->io.writer) > s->all->max_unread) return TD_RUN_STALLED;
        if (!held_back(s) && --most <= 0) return TD_RUN_MORE;
    }
    return TD_RUN_SUSPENDED;
}
