/* How far a session asks ahead of the kernels, and of its client's reading.
 *
 * What is asked for ahead has memory for all of its results. So a session issues no more tasks than keep the workers at
 * work until the loop looks again, and goes further only behind one that takes long. */
#include "daemon/session/stream/stream.h"

void td_session_throttle(td_session *s, const td_wait_kind *kind)
{
    td_session_wait(s, kind);
    if (s->pace.throttled) return;
    s->pace.throttled = true;
    s->pace.next_throttled = s->all->throttled;
    s->all->throttled = s;
}

void td_session_unthrottle(td_session *s)
{
    if (!s->pace.throttled) return;
    td_session **at = &s->all->throttled;
    while (*at != s) at = &(*at)->pace.next_throttled;
    *at = s->pace.next_throttled;
    s->pace.throttled = s->pace.paced = false;
}

enum { LITTLE = 4 << 20 }; /* bytes that may always be asked for ahead */

static uint64_t all_bytes(const td_account *a)
{
    uint64_t bytes = 0;
    for (unsigned device = 0; device < TD_MAX_DEVICES; device++) bytes += td_account_bytes(a, device);
    return bytes;
}

/* More than so many tasks in flight, or than a part of the bytes? What is asked for ahead of the kernels has memory for
 * all of its results, while that of what they are done with is not free yet; so where that is much, beside what the
 * session has anyway, no more is asked for than keeps the workers at work until the loop looks again. Behind a task
 * that takes long, how much the workers have to do says nothing. */
static bool too_much_under_way(const td_session *s, uint64_t tasks, uint32_t part)
{
    enum { FEW = 4, SHARE = 16 };
    uint64_t pending = td_flow_pending(s->flow), bytes = td_flow_pending_bytes(s->flow);
    if (pending > tasks) return true;
    if (pending > FEW && td_account_strained(s->account))
        return true; /* each takes some KB of the daemon's own memory */
    if (pending > FEW / part && bytes > s->all->max_pending_bytes / part) return true;
    if (s->pace.ahead > s->all->pace && td_flow_ended(s->flow) == s->pace.was_ended) return false;
    if (bytes <= LITTLE / part) return false;
    uint64_t share = all_bytes(s->account) / SHARE, much = share > LITTLE ? share : LITTLE;
    return bytes > much / part && td_flow_waiting_ns(s->flow) > s->all->ahead_ns / part;
}

int td_session_step(const td_session *s, int most)
{
    return td_flow_pending_bytes(s->flow) > LITTLE / 4 ? 1 : most;
}

void td_session_look_again(void *session)
{
    td_session_unthrottle(session);
    td_session_ready(session);
}

void td_sessions_collected(td_sessions *all)
{
    for (td_session *s = all->throttled, *next; s; s = next) {
        next = s->pace.next_throttled;
        if (too_much_under_way(s, all->pace / 2, 2)) continue;
        s->pace.ahead = all->pace;
        td_session_unthrottle(s);
        td_session_ready(s);
    }
}

static void look_later(td_session *s);

enum { LOOK_MS = 10, LOOKS = 20, LONG_NS = 16000000 };

/* None of its tasks has ended, though the workers had processors? Where other programs have these nothing ends for long
 * either, and whatever were asked for ahead meanwhile would have memory. So it is their time that counts, and the
 * clock's only after many looks, for what runs on a device. */
static bool takes_long(td_session *s)
{
    uint64_t ended = td_flow_ended(s->flow), worked = td_sched_worked_ns(s->service->sched);
    bool first = !s->pace.was_worked_ns || ended != s->pace.was_ended;
    if (!first && worked - s->pace.was_worked_ns < LONG_NS && ++s->pace.looks < LOOKS) return false;
    s->pace.was_ended = ended;
    s->pace.was_worked_ns = worked;
    s->pace.looks = 0;
    return !first;
}

/* What comes behind a long one need not wait with those that do. */
static void go_further_ahead(void *session)
{
    td_session *s = session;
    if (takes_long(s))
        s->pace.ahead = s->pace.ahead < s->all->max_pending / 2 ? 2 * s->pace.ahead : s->all->max_pending;
    if (too_much_under_way(s, s->pace.ahead, 1)) look_later(s);
    else td_session_look_again(s);
}

static void look_later(td_session *s)
{
    s->pace.paced = s->pace.ahead < s->all->max_pending;
    if (s->pace.paced) td_deadline_arm(s->service, &s->wait.deadline, LOOK_MS, go_further_ahead, s);
}

/* Until most of them have ended, or for so long that one of them takes long. */
static void wait_for_own_tasks(td_session *s)
{
    static const td_wait_kind for_tasks = {"its own pending tasks"};
    td_session_throttle(s, &for_tasks);
    uint64_t ended = td_flow_ended(s->flow);
    if (ended != s->pace.was_ended) s->pace.was_worked_ns = 0;
    s->pace.was_ended = ended;
    look_later(s);
}

/* Is so much under way already that more must wait? Then it waits. */
bool td_session_held_back(td_session *s)
{
    static const td_wait_kind for_replies = {"its own pending replies", .by = TD_BY_REPLIES};
    if (s->work.job && s->work.job->kind->alone) return false;
    if (too_much_under_way(s, s->pace.ahead, 1)) {
        wait_for_own_tasks(s);
    } else if (s->beside.promised > s->all->max_unread) {
        td_session_wait(s, &for_replies);
    } else {
        return false;
    }
    return true;
}

/* Is there no room for an answer, whatever it brings? */
bool td_session_unread_for_held(const td_session *s)
{
    return td_session_unread(s) || td_writer_descriptors_full(s->io.writer);
}
