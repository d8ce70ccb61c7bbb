/* Large frames: to unpack one takes a millisecond for each megabyte, most of it for pages that are new. A helper thread
 * does that, while the session waits.
 *
 * The loop and the helper share a td_unpacking and the session's arena, which are the helper's until it comes back; the
 * bytes are in a block of their own, for the connection may end meanwhile. Invariant: helpers unpack TD_UNPACK_AT_ONCE
 * frames at most, one of a session, and begin none while so much as most_bytes() of what they unpacked is still to be
 * worked off; but for one of a process that has nothing of that, up to twice as much: so nobody waits for what others
 * have sent before. Processes take turns. What a session has that waits for others, or that is at something long, does
 * not count: it might be those others who wait. */
#include "daemon/session/stream/stream.h"

#include <stdlib.h>

enum { LOOK_MS = 20 };

/* Half of what all connections may hold, where that is little. */
static uint64_t most_bytes(const td_sessions *all)
{
    const uint64_t most = UINT64_C(128) << 20, half = all->service->account->limit_wire / 2;
    return half && half < most ? half : most;
}

typedef struct td_unpacking {
    td_job job;
    td_in_line in_line;
    td_session *s;
    td_frame f;
    td_account *account; /* pays for the bytes of f.block; a reference */
    void *message;
    size_t site; /* the next that it brings */
    enum { FRESH, QUEUED, BEGUN, OVER } stage;
    bool unwanted;
} td_unpacking;

/* Who waits for others, or for its client to read, may do so for ever. */
static uint64_t to_be_worked_off(const td_sessions *all)
{
    uint64_t sum = 0;
    if (all->unpacked <= most_bytes(all)) return all->unpacked;
    for (const td_session *s = all->first; s; s = s->next)
        if (!s->work.job && !td_session_waits(s) && !td_session_unread(s)) sum += s->stream.unpacked;
    return sum;
}

static void begin_next(td_sessions *all);

static void work(void *arg)
{
    td_unpacking *u = arg;
    u->message = td_frame_unpack(&u->s->stream.arena, &u->f);
    td_frame_done(&u->f);
}

/* Its bytes have gone. */
static void block_gone(td_unpacking *u)
{
    if (u->account) td_account_wire(u->account, u->f.bytes, 0);
    td_account_unref(u->account);
    u->account = NULL;
}

static void done(void *arg)
{
    td_unpacking *u = arg;
    td_session *s = u->s;
    td_sessions *all = s->all;
    s->life.refs--;
    td_lines_over(&all->to_unpack, &u->in_line);
    block_gone(u);
    td_unpack_came(s);
    u->stage = OVER;
    if (u->unwanted) free(u);
    if (s->life.ended) td_session_try_free(s);
    else td_session_ready(s);
    begin_next(all);
}

static void begin(td_unpacking *u)
{
    const td_service_options *o = &u->s->service->options;
    u->stage = BEGUN;
    o->background(o->arg, work, done, u);
}

static void look_again(void *all)
{
    begin_next(all);
}

static td_unpacking *next(td_sessions *all)
{
    td_lines *l = &all->to_unpack;
    uint64_t most = most_bytes(all), much;
    if (!l->first || l->begun >= TD_UNPACK_AT_ONCE) return NULL;
    much = to_be_worked_off(all);
    td_in_line *x = much < most ? td_lines_begin(l) : much < 2 * most ? td_lines_begin_bare(l) : NULL;
    return x ? (td_unpacking *)(void *)((char *)x - offsetof(td_unpacking, in_line)) : NULL;
}

static void begin_next(td_sessions *all)
{
    for (td_unpacking *u; (u = next(all));) begin(u);
    td_deadline_disarm(all->service, &all->look_to_unpack);
    if (all->to_unpack.first) td_deadline_arm(all->service, &all->look_to_unpack, LOOK_MS, look_again, all);
}

static int step(td_job *j, td_error *e)
{
    td_session *s = td_session_of(j->issuer);
    static const td_wait_kind for_frame = {"a large frame to be unpacked"};
    td_unpacking *u = (td_unpacking *)(void *)j;
    if (u->stage == FRESH) {
        int rc = td_lines_add(&s->all->to_unpack, &u->in_line, s->uid, s->pid, e);
        if (rc) return rc;
        td_session_wait(s, &for_frame);
        u->stage = QUEUED;
        s->life.refs++;
        begin_next(s->all);
        return TD_AGAIN;
    }
    int rc = td_frame_take(s, &u->f, u->message, &u->site, e);
    if (!rc) free(u);
    return rc;
}

static void leave_queue(td_unpacking *u)
{
    td_lines_leave(&u->s->all->to_unpack, &u->in_line);
    u->s->life.refs--;
    td_session_try_free(u->s);
}

static bool drop(td_job *j, int most)
{
    (void)most;
    td_unpacking *u = (td_unpacking *)(void *)j;
    u->unwanted = u->stage == BEGUN;
    if (u->unwanted) return true;           /* it goes when it comes back */
    if (u->stage == QUEUED) leave_queue(u); /* else its session may be no more */
    td_frame_done(&u->f);
    block_gone(u);
    free(u);
    return true;
}

static td_unpacking *unpacking_new(td_session *s, const td_frame *f, td_error *e)
{
    static const td_job_kind kind = {"frame", .step = step, .drop = drop, .cost = TD_SITES_AT_ONCE};
    td_unpacking *u = malloc(sizeof *u);
    if (!u) return td_no_memory(e, "for a frame"), NULL;
    *u = (td_unpacking){.job = td_session_job(s, &kind), .s = s, .f = *f};
    u->f.fd = -1; /* one that came along is who read the frame's */
    s->work.job = &u->job;
    return u;
}

int td_unpack_aside(td_session *s, td_frame *f, td_error *e)
{
    td_unpacking *u = unpacking_new(s, f, e);
    if (!u) return e->code;
    u->account = td_account_ref(s->account);
    td_account_wire(s->account, 0, f->bytes);
    f->block = NULL;
    return TD_OK;
}

int td_unpack_go_on(td_session *s, const td_frame *f, void *message, size_t site, td_error *e)
{
    td_unpacking *u = unpacking_new(s, f, e);
    if (!u) return e->code;
    u->message = message;
    u->site = site;
    u->stage = OVER;
    u->f.block = NULL;
    return TD_OK;
}

void td_unpack_came(td_session *s)
{
    s->stream.unpacked = s->stream.arena.used > TD_READ_CHUNK ? s->stream.arena.used : 0;
    s->all->unpacked += s->stream.unpacked;
    if (s->stream.unpacked) s->stream.unpacked_of = td_lines_hold(&s->all->to_unpack, s->uid, s->pid);
    td_account_wire(s->account, 0, s->stream.unpacked);
}

void td_unpack_gone(td_session *s)
{
    if (!s->stream.unpacked) return;
    s->all->unpacked -= s->stream.unpacked;
    td_account_wire(s->account, s->stream.unpacked, 0);
    s->stream.unpacked = 0;
    if (s->stream.unpacked_of) td_lines_let_go(&s->all->to_unpack, s->stream.unpacked_of);
    s->stream.unpacked_of = NULL;
    begin_next(s->all);
}
