/* What a session lacks: memory, or a kernel to be made. A step that lacks some is run again when it is worth trying.
 *
 * What is to be made is made aside (daemon/service/grow.h) while the session is suspended and everybody else goes on.
 * Memory that is full is no error yet: what others do not use may be had (reclaim.c), and tasks that are pending may
 * free some. The error names who holds most (holders.c). */
#include "daemon/session/objects/objects.h"
#include "daemon/tensor/device.h"

#include <stdlib.h>

enum { CLEAR_MOST = 512 /* of the dead, before a record is tried again */ };

typedef struct td_growing {
    td_growth growth;
    td_session *s;
    bool unwanted; /* the session waits no more */
} td_growing;

static void grown(td_growth *g)
{
    td_growing *j = g->arg;
    td_session *s = j->s;
    s->life.refs--;
    if (j->unwanted) { /* whatever needs memory next finds it */
        if (s->life.ended) td_session_try_free(s);
        free(j);
        return;
    }
    s->memory.growing = NULL;
    s->memory.making = TD_MADE;
    if (s->life.ended) {
        td_session_made(s);
        td_session_try_free(s);
    } else {
        bool failed = g->rc != 0 && !(g->rc == TD_E_BUSY && td_sessions_shed(s->all)); /* else once more */
        if (failed) s->memory.grow_failed = g->error; /* so that it does not ask for ever */
        else s->memory.grow_failed.code = TD_OK;
        td_session_ready(s);
    }
    free(j);
}

static const td_wait_kind for_memory = {"memory", .by = TD_BY_MEMORY};

bool td_session_needs_no_memory(td_session *s)
{
    const td_wait *w = &s->wait;
    if (!w->kind || w->over || w->kind->by != TD_BY_MEMORY) return false;
    if (s->memory.growing) {
        s->memory.growing->unwanted = true;
        s->memory.growing = NULL;
        s->memory.making = TD_MADE;
        td_session_made(s);
    }
    if (s->pace.throttled) td_session_look_again(s);
    else td_session_ready(s);
    return true;
}

/* What former sessions of the process left it may still write to: so nobody else gets it, but this one does. */
static bool inherit(td_session *s, const td_heap *heap)
{
    if (heap != s->heap || !s->io.inherit || !s->io.inherit(s->io.arg, s->heap)) return false;
    s->memory.mapped = s->memory.inherited = true;
    return true;
}

/* What others' calls work with goes back to the account that is `full` where they are charged there, too: to a user's
 * from its sessions. NULL: it is what the user has committed. */
static bool work_may_help(const td_session *s, const td_account *full)
{
    const td_account *a = full ? s->account : s->account->parent;
    while (full && a && a != full) a = a->parent;
    return a && a->work;
}

/* Tasks of others that were pending when the wait began come to an end, however long they take, and give back what they
 * work with. Another session that lacks memory may take it first: then the wait begins anew, a few times. It has an
 * end, for others always have some task pending, and a client may have asked for one that takes hours. */
static bool others_may_help(td_session *s)
{
    enum { AGAIN = 8, MOST_MS = 60000 };
    uint64_t waited = td_clock_ms() - s->memory.lacks_since_ms;
    if (waited < TD_LACK_MS) return true;
    if (!td_sched_pending_until(s->service->sched, s->memory.lacks_behind)) {
        s->memory.lacks_behind = td_sched_issued(s->service->sched);
        s->memory.lacks_again++;
    }
    return s->memory.lacks_again < AGAIN && waited < MOST_MS;
}

/* Its own tasks always end; who waits for others' must come to an end of waiting. */
static bool pending_may_help(td_session *s, int rc, const td_account *full)
{
    if (td_flow_pending(s->flow)) return true;
    bool others = rc == TD_E_QUOTA ? work_may_help(s, full) : !td_sched_idle(s->service->sched);
    return others && others_may_help(s);
}

/* Is it its user's part that is used up, and not its own? Then others of that user hold some. */
static bool of_user(const td_session *s, unsigned device)
{
    const td_account *a = s->account, *user = a->parent;
    uint64_t own = device == TD_CPU ? a->limit_bytes : a->limit_away;
    bool strained = device == TD_CPU ? user && user->limit_bytes : user && user->limit_away;
    return strained && !(own && td_account_bytes(a, device) + td_account_bytes(a, device) / 8 >= own);
}

static void made(void *session)
{
    td_session *s = session;
    s->life.refs--;
    if (s->life.ended) td_session_try_free(s);
    else td_session_ready(s);
}

static int make_aside(td_session *s, td_need *need, td_error *e)
{
    static const td_wait_kind for_kernel = {"a kernel to be made"};
    s->life.refs++;
    td_session_wait(s, &for_kernel);
    int rc = td_make_aside(s->service, need, made, s, e);
    if (!rc) return TD_AGAIN;
    s->life.refs--;
    td_session_cancel_wait(s);
    return rc;
}

int td_session_lacks(td_session *s, int rc, td_need *need, td_error *e)
{
    if (need->work.make) return make_aside(s, need, e);
    unsigned device = need->device;
    const td_account *full = td_account_full(s->account);
    td_session_made(s);
    if (s->memory.grow_failed.code) {
        rc = td_grow_refused(&s->memory.grow_failed, need, e);
        s->memory.grow_failed.code = TD_OK;
        return rc;
    }
    if (device == TD_CPU && inherit(s, need->heap)) return TD_AGAIN;
    if (rc == TD_WAIT_GROW) rc = td_heap_reserve(need->heap, need->bytes, e);
    if (rc) {
        if (s->all->remains || td_dead_waiting()) { /* some of it may be in what nobody holds any more */
            td_sessions_clear(s->all, CLEAR_MOST);
            return TD_AGAIN;
        }
        if (!s->memory.lacks_since_ms) {
            s->memory.lacks_since_ms = td_clock_ms();
            s->memory.lacks_behind = td_sched_issued(s->service->sched);
        }
        if (td_session_reclaims(s, rc, device)) return TD_AGAIN;
        if (pending_may_help(s, rc, full)) {
            td_session_throttle(s, &for_memory);
            if (!td_flow_pending(s->flow)) /* none of the others' may end in time */
                td_deadline_arm(s->service, &s->wait.deadline, TD_LACK_MS, td_session_look_again, s);
            return TD_AGAIN;
        }
        td_session_lacks_nothing(s);
        if (rc == TD_E_MEMORY) td_holders_add(s->all, device, NULL, e);
        if (rc == TD_E_QUOTA && of_user(s, device)) td_holders_add(s->all, device, s->account->parent, e);
        return rc;
    }
    td_growing *j = malloc(sizeof *j);
    if (!j) {
        td_heap_unreserve(need->heap, need->bytes);
        return td_no_memory(e, "to grow");
    }
    *j = (td_growing){.growth = {.heap = need->heap, .size = need->bytes, .done = grown, .arg = j}, .s = s};
    s->life.refs++;
    s->memory.growing = j;
    s->memory.making = TD_MAKES;
    s->all->making++;
    td_session_wait(s, &for_memory);
    td_grow(s->service, &j->growth);
    return TD_AGAIN;
}
