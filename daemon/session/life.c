/* A session's life: from the hello to the end.
 *
 * What a session holds is charged to its account from the first moment and goes with it. After the end, tasks that
 * still run keep the struct until they are done, and nothing else does. */
#include "daemon/session/calls/calls.h"
#include "daemon/tensor/device.h"
#include "proto/base/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    WITHER_MOST = 256, /* tasks of ended sessions, or such sessions, that are looked at in one turn */
    LOOK_AGAIN_MS = 100,
    LEASE_MS = 60000, /* who writes for longer while others wait is stopped, or hangs */
    LEAVE_MOST = 512, /* objects, or nodes of a backward, that an ended session lets go of at once */
    ARENA_LIMIT = 3 * TD_FRAME_MAX,
    SESSION_IMPORTS = 64 /* mapped descriptors: two of the daemon's each */
};

/* Enough for the workers while the loop has fallen asleep and wakes up again: tasks, and estimated work. */
enum { PACE = 64, PACE_EACH = 32, AHEAD_EACH_NS = 500000 };

static uint32_t workers_of(const td_service *service)
{
    td_sched_stats stats;
    td_sched_get_stats(service->sched, &stats);
    return (uint32_t)stats.workers;
}

void td_sessions_init(td_sessions *all, td_service *service)
{
    uint32_t workers = workers_of(service);
    *all = (td_sessions){.service = service,
                         .inline_limit = 65536,
                         .max_pending = 8192,
                         .pace = PACE + PACE_EACH * workers,
                         .ahead_ns = (uint64_t)AHEAD_EACH_NS * (workers + 1), /* the loop helps */
                         .lease_ms = LEASE_MS,
                         .max_pending_bytes = UINT64_C(64) << 20,
                         .max_unread = 1 << 20};
    td_lines_init(&all->to_read, 1);
    td_lines_init(&all->to_unpack, TD_UNPACK_AT_ONCE);
    all->last_for_leases = &all->for_leases;
    service->budget.leaving = td_segment_leaving;
    service->budget.leaving_arg = all;
}

/* ---- the beginning */

static const td_cause *untold(td_issuer *who, const td_storage *st)
{
    return td_late_find(&td_session_of(who)->failures.late, st);
}

/* Of a session, before it has anything: part of what its connection costs. */
enum {
    FLOW_AND_HEAP = 4 << 10,
    FIRST_ARENA = 16 << 10,
    SESSION_BYTES = sizeof(td_session) + sizeof(td_object_page) + FLOW_AND_HEAP + FIRST_ARENA
};

static int set_up(td_session *s, const Td__Wire__Hello *h, td_error *e)
{
    td_service *v = s->service;
    td_account *user = td_service_uid_account(v, s->uid, e);
    if (!user) return TD_E_SYSTEM;
    s->account = td_account_new(user);
    td_account_unref(user);
    if (!s->account) return td_no_memory(e, "for a session");
    td_account_wire(s->account, 0, SESSION_BYTES);
    s->objects.account = s->failures.late.account = s->account;
    s->account->limit_bytes = v->options.session_bytes;
    s->account->limit_away = v->options.session_device_bytes;
    s->account->limit_objects = v->options.session_objects;
    s->account->limit_imports = SESSION_IMPORTS;
    s->account->session = s->id;
    s->account->uid = s->uid;
    s->account->pid = s->pid;
    td_text_visible(s->account->name, sizeof s->account->name, h->program && h->program[0] ? h->program : "client");
    int rc = td_heap_new(&s->heap, &v->budget, TD_SEGMENT_SESSION, s->uid, e);
    if (!rc) rc = td_flow_new(&s->flow, v->sched, e);
    if (rc) return rc;
    if (s->io.share) td_flow_join(s->flow, s->io.share);
    td_flow_charge_to(s->flow, s->account);
    td_issuer_begin(&s->issuer, v, s->account, s->heap, s->flow);
    s->issuer.unwritten = td_session_unwritten;
    s->issuer.untold = untold;
    if (getrandom(&s->issuer.seed, sizeof s->issuer.seed, 0) < 0 || getrandom(&s->token, sizeof s->token, 0) < 0)
        return td_fail(e, TD_E_SYSTEM, "no random numbers");
    return TD_OK;
}

void td_session_welcome(td_session *s, uint32_t table_hash)
{
    Td__Wire__Welcome w;
    td__wire__welcome__init(&w);
    w.protocol = TD_PROTOCOL;
    w.table_hash = td_ops_hash;
    w.session = s->id;
    w.partial = s->copies.partial;
    w.token = s->token;
    w.version = (char *)TD_VERSION;
    w.pid = (uint32_t)getpid();
    w.groups = w.regroups = true;
    w.inline_limit = s->all->inline_limit;
    w.ring_pipe = s->io.ring ? TD_RING_PIPE : 0;
    uint32_t devices[TD_MAX_DEVICES];
    w.devices = devices;
    for (uint32_t i = 0; i < TD_MAX_DEVICES; i++)
        if (td_device_get(i)) devices[w.n_devices++] = i;
    uint32_t *rows = NULL;
    if (table_hash != td_ops_hash && (rows = malloc(2 * td_op_count * sizeof *rows))) {
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
    td_noted_free(s->graph.noted);
    td_hook_owner_end(s->graph.hooks); /* when it never began; else it has ended before */
    free(s->sites.renamed);
    free(s->stream.outs);
    td_arena_deinit(&s->stream.arena);
    td_unpack_gone(s);
    td_cause_unref(s->failures.first);
    td_cause_unref(s->failures.late_grad);
    td_cause_unref(s->failures.overdrawn);
    if (s->flow) td_flow_free(s->flow);
    if (s->heap) td_heap_free(s->heap); /* only when it never began: td_session_end orphans it */
    if (s->account) td_account_wire(s->account, SESSION_BYTES + (s->programs.stoppable ? TD_STOPPER_BYTES : 0), 0);
    td_account_unref(s->account);
    free(s);
}

static int begin(td_session *s, const Td__Wire__Hello *h, const td_peer_id *who, td_error *e)
{
    if (h->protocol != TD_PROTOCOL)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "the client speaks protocol %u, this daemon (version %s) %d; use a client of the same release",
                       h->protocol, TD_VERSION, TD_PROTOCOL);
    int rc = set_up(s, h, e);
    if (!rc && h->clone_session) rc = td_session_clone(s, h, who, e);
    return rc;
}

int td_session_new(td_session **out, td_sessions *all, const td_session_io *io, const td_peer_id *who,
                   const td_frame *hello, td_error *e)
{
    *out = NULL;
    if (hello->kind != TD_FRAME_HELLO)
        return td_fail(e, TD_E_PROTOCOL, "the first frame is of kind %u; it must be a Hello", hello->kind);
    td_session *s = calloc(1, sizeof *s);
    if (!s) return td_no_memory(e, "for a session");
    *s = (td_session){.all = all,
                      .service = all->service,
                      .io = *io,
                      .id = ++all->next_id,
                      .uid = who->uid,
                      .pid = who->pid,
                      .stream = {.import_fd = -1},
                      .pace = {.ahead = all->pace}};
    s->beside.last_over = &s->beside.over;
    td_arena_init(&s->stream.arena, ARENA_LIMIT);
    Td__Wire__Hello *h = td__wire__hello__unpack(&s->stream.arena.allocator, hello->bytes, hello->payload);
    int rc = h ? begin(s, h, who, e) : td_fail(e, TD_E_PROTOCOL, "the Hello is malformed");
    if (rc) {
        td_objects_deinit(&s->objects);
        free_parts(s);
        return rc;
    }
    if (!s->work.job) td_session_welcome(s, h->table_hash);
    td_arena_reset(&s->stream.arena);
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
    s->life.drained = true;
    td_session_try_free(s);
}

void td_session_try_free(td_session *s)
{
    if (!s->life.ended || !s->life.drained || s->life.refs) return;
    td_sessions *all = s->all;
    *(s->life.prev_ending ? &s->life.prev_ending->life.next_ending : &all->ending) = s->life.next_ending;
    *(s->life.next_ending ? &s->life.next_ending->life.prev_ending : &all->last_ending) = s->life.prev_ending;
    if (all->wither_next == s) all->wither_next = s->life.next_ending;
    if (!all->ending) td_deadline_disarm(s->service, &s->all->look_again);
    free_parts(s);
}

static bool drop_sites(td_remains *r, int most)
{
    for (; r->nsites && most > 0; most--) free(r->sites[--r->nsites]);
    if (r->nsites) return false;
    free(r->sites);
    if (r->ncharged_sites) td_account_discharge(r->objects.account, 0, r->ncharged_sites);
    r->sites = NULL;
    r->ncharged_sites = 0;
    return true;
}

/* Some of it. What dies with it is only counted out: one object may be the last that held a graph. */
static bool clear_parts(td_sessions *all, td_remains *r, int most)
{
    td_account *account = r->objects.account;
    if (!td_queue_handles_drop(&r->queues, all->service, account, most)) return false;
    if (!td_write_leases_drop(&r->write_leases, account, most)) return false;
    if (!td_leases_drop(&r->leases, account, most)) return false;
    if (!td_known_programs_drop(&r->programs, most)) return false;
    if (r->job && !r->job->kind->drop(r->job, most)) return false;
    r->job = NULL;
    for (td_job *j; (j = r->parked); r->parked = j) {
        td_job *next = j->next;
        if (!j->kind->drop(j, most)) return false;
        j = next;
    }
    if (!td_known_nodes_drop(&r->nodes, account, most)) return false;
    if (!drop_sites(r, most)) return false;
    if (!td_grad_scope_end(account->session, most)) return false;
    if (!td_objects_drop(&r->objects, most)) return false;
    td_account_unref(account);
    return true;
}

static bool clear(td_sessions *all, td_remains *r, int most)
{
    td_dead_defer(true);
    bool gone = clear_parts(all, r, most);
    td_dead_defer(false);
    return gone;
}

/* Tasks that ended sessions left: once what they held is gone, for that holds results. Some now; are there more? */
static bool wither(td_sessions *all, int most)
{
    for (; all->wither_next && !all->remains && !td_dead_waiting() && most > 0; most--)
        if (!td_flow_wither(all->wither_next->flow, &most)) all->wither_next = all->wither_next->life.next_ending;
    return all->wither_next != NULL;
}

static void look_again(void *arg)
{
    td_sessions *all = arg;
    if (!all->wither_next) all->wither_next = all->ending;
    wither(all, WITHER_MOST);
    if (all->ending) td_deadline_arm(all->service, &all->look_again, LOOK_AGAIN_MS, look_again, all);
}

/* As much as is usual at once, more later. */
static void leave(td_session *s)
{
    td_remains r = {.next = s->all->remains,
                    .job = s->work.job,
                    .parked = s->work.parked,
                    .nodes = s->graph.nodes,
                    .objects = s->objects,
                    .queues = s->queues,
                    .programs = s->programs.known,
                    .write_leases = s->leases.write,
                    .leases = s->leases.fill,
                    .sites = s->sites.texts,
                    .nsites = s->sites.count,
                    .ncharged_sites = s->sites.charged};
    if (s->work.job && s->work.job->kind->left) s->work.job->kind->left(s->work.job);
    td_session_reads(s, false);
    s->work.job = s->work.parked = NULL;
    s->graph.nodes = NULL;
    s->objects = (td_objects){0};
    s->queues = NULL;
    s->programs.known = NULL;
    s->leases.write = NULL;
    s->leases.fill = NULL;
    s->sites.texts = NULL;
    s->sites.count = s->sites.charged = 0;
    td_account_ref(s->account);
    bool gone = clear(s->all, &r, LEAVE_MOST);
    td_dead_collect(LEAVE_MOST);
    if (gone) return;
    td_remains *kept = malloc(sizeof *kept);
    if (kept) *kept = r;
    else
        while (!clear(s->all, &r, INT_MAX)) {
        }
    if (kept) s->all->remains = kept;
}

bool td_sessions_clear(td_sessions *all, int most)
{
    if (td_dead_collect((uint32_t)most)) return true;
    td_remains *r = all->remains;
    if (r && clear(all, r, most)) {
        all->remains = r->next;
        free(r);
        td_session_leases_changed(all); /* its job, or a lease, may have been waited for */
    }
    bool more = wither(all, most < WITHER_MOST ? most : WITHER_MOST);
    return td_dead_waiting() || all->remains || more;
}

td_heap *td_session_end(td_session *s, bool alive)
{
    if (s->prev) s->prev->next = s->next;
    else s->all->first = s->next;
    if (s->next) s->next->prev = s->prev;
    if (s->all->settle_next == s) s->all->settle_next = s->next;
    if (s->all->ask_next == s) s->all->ask_next = s->next;
    if (s->all->take_next == s) s->all->take_next = s->next;
    td_table_pass(s);
    s->all->count--;
    td_clones_end(s);
    td_session_cancel_wait(s);
    s->life.ended = s->account->ended = true;
    td_held_drop(s);
    td_session_groups_drop(s, alive);
    td_session_models_drop(s);
    td_import_drop(s);
    td_promises_forget(s);
    td_lates_drop(&s->failures.late);
    td_session_made(s);
    td_session_forget_sent(s);
    td_session_reading_unwanted(s);
    td_session_regions_drop(s);
    td_noted_free(s->graph.noted);
    s->graph.noted = NULL;
    td_hook_owner_end(s->graph.hooks);
    s->graph.hooks = NULL;
    td_words_deinit(&s->graph.gone);
    leave(s);
    td_session_leases_changed(s->all); /* who waited for its leases or its backward goes on */
    td_ring_drop(s);
    td_heap *left = alive && s->memory.mapped ? s->heap : NULL;
    td_heap_orphan(s->heap, left != NULL);
    s->heap = NULL;
    s->life.prev_ending = s->all->last_ending; /* behind all: a round that is under way comes to it */
    *(s->life.prev_ending ? &s->life.prev_ending->life.next_ending : &s->all->ending) = s;
    s->all->last_ending = s;
    if (!s->all->wither_next) s->all->wither_next = s;
    if (!s->all->look_again.armed) td_deadline_arm(s->service, &s->all->look_again, LOOK_AGAIN_MS, look_again, s->all);
    td_sched_after_flow(s->service->sched, s->flow, flow_drained, s); /* may free s */
    return left;
}
