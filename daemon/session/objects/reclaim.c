/* Memory that lies idle with others: what goes back to the system when somebody lacks some, and at quiet moments.
 *
 * Clients are asked to unmap what lies empty. From those that do not answer it is taken: its pages go to the system,
 * and to nobody who would find in them what is written there after all. */
#include "daemon/service/models.h"
#include "daemon/session/objects/objects.h"

enum {
    ASKED_MS = 250, /* clients that listen unmap at once */
    ASKED_LOOK_MS = 5,
    ASK_MOST = 512, /* sessions in one turn */
    SHED_MS = 100
};

typedef struct asking {
    td_session *s;
    bool asked; /* for something that was not asked for before */
} asking;

static void ask_to_unmap(td_segment *g, void *arg)
{
    asking *a = arg;
    td_session *s = a->s;
    bool ask = false;
    for (td_sent *x = s->memory.sent; x; x = x->next) {
        if (x->segment != g->id || x->generation != g->generation || x->asked) continue;
        x->asked = ask = true;
        x->asked_ms = td_clock_ms();
    }
    if (!ask) return;
    a->asked = true;
    td_event_unmap(s, g->id);
}

/* Memory is short: what lies empty in other sessions goes back, and who has it mapped is asked for it. One round over
 * all of them for all that lack some, a part at a time. True: it has begun since the session lacks memory, and is over.
 */
static bool ask_others(td_session *s)
{
    td_sessions *all = s->all;
    bool more = false;
    if (!s->memory.ask_round) s->memory.ask_round = all->ask_round + 1;
    if (!all->ask_next) {
        all->ask_next = all->first;
        all->ask_round++;
    }
    for (int n = 0; all->ask_next && n < ASK_MOST; n++) {
        td_session *x = all->ask_next;
        all->ask_next = x->next;
        if (x == s || x->memory.making == TD_MADE) continue; /* it is about to use what lies empty */
        asking a = {.s = x};
        td_heap_settle(x->heap, true, ask_to_unmap, &a, &more);
        if (a.asked) all->asked_ms = td_clock_ms();
    }
    return !all->ask_next && all->ask_round >= s->memory.ask_round;
}

static void look_again(void *session)
{
    td_session_ready(session);
}

/* What it was asked for so long ago that it would have said something. */
static uint64_t take_back(td_session *s, uint64_t now)
{
    bool some = false;
    for (td_sent *x = s->memory.sent, *next; x; x = next) {
        next = x->next;
        td_segment *g = x->asked && x->writable && now - x->asked_ms >= ASKED_MS ? td_sent_segment(s, x) : NULL;
        if (!g) continue;
        g->left = some = true;
        td_sent_forget(s, x);
    }
    return some ? td_heap_trim(s->heap) : 0;
}

/* Who was asked for what lies empty, and says nothing, may be stopped, or compute for an hour, or mean it so: it does
 * not keep the memory from others. That goes to the system, and to nobody who would find in it what is written there
 * after all. A round over all of them, a part at a time. True: it is over. */
static bool take_from_the_silent(td_sessions *all, uint64_t now)
{
    if (!all->take_next) {
        all->take_next = all->first;
        all->taken_ms = now;
        all->taken_bytes = 0;
    }
    for (int n = 0; all->take_next && n < ASK_MOST; n++) {
        td_session *s = all->take_next;
        all->take_next = s->next;
        all->taken_bytes += take_back(s, now);
    }
    return !all->take_next;
}

static void wait_and_look(td_session *s, const td_wait_kind *kind, uint64_t ms)
{
    td_session_wait(s, kind);
    td_deadline_arm(s->service, &s->wait.deadline, ms, look_again, s);
}

static bool wait_for_unmaps(td_session *s)
{
    static const td_wait_kind for_unmaps = {"memory that others have mapped", .by = TD_BY_MEMORY};
    uint64_t look = ASKED_LOOK_MS;
    if (!s->memory.asked_until_ms) {
        if (ask_others(s)) s->memory.asked_until_ms = s->all->asked_ms + ASKED_MS;
        else look = 1;
    }
    uint64_t now = td_clock_ms();
    if (s->memory.asked_until_ms && now >= s->memory.asked_until_ms) {
        td_sessions *all = s->all;
        uint64_t since = now - all->taken_ms; /* to look at all takes time */
        if (all->take_next || since >= ASKED_MS) {
            if (take_from_the_silent(all, now)) return all->taken_bytes != 0;
            look = 1;
        } else {
            if (s->memory.asked_until_ms + ASKED_MS <= now) return false;
            look = ASKED_MS - since;
        }
    }
    wait_and_look(s, &for_unmaps, look);
    return true;
}

/* What is made for others will be used, and perhaps given back soon; or nobody wants it any more. */
static bool wait_for_segments(td_session *s)
{
    static const td_wait_kind for_segments = {"memory that is being made for others", .by = TD_BY_MEMORY};
    if (!s->all->making || td_clock_ms() - s->memory.lacks_since_ms >= TD_LACK_MS) return false;
    s->memory.ask_round = s->memory.asked_until_ms = 0; /* it may lie empty then, and nobody has been asked for it */
    wait_and_look(s, &for_segments, ASKED_LOOK_MS);
    return true;
}

/* Nobody has it mapped, so nobody is asked. */
static bool take_from_models(td_session *s)
{
    bool more = false;
    return td_models_settle(s->service, true, &more) != 0;
}

/* Of the CPU's memory some may lie idle with others; what a device has to give its storages have. */
bool td_session_reclaims(td_session *s, int rc, unsigned device)
{
    bool own = rc == TD_E_QUOTA && !td_heap_user_strained(s->heap);
    return device == TD_CPU && !own && (take_from_models(s) || wait_for_unmaps(s) || wait_for_segments(s));
}

bool td_sessions_shed(td_sessions *all)
{
    td_service *v = all->service;
    uint64_t now = td_clock_ms();
    bool more = false;
    if (now - all->shed_ms >= SHED_MS) { /* to look at all takes time, and who asks may ask for each of many */
        all->shed_ms = now;
        td_heap_settle(v->heap, true, NULL, NULL, &more);
        td_models_settle(v, true, &more);
        for (td_session *s = all->first; s; s = s->next) td_heap_settle(s->heap, true, NULL, NULL, &more);
    }
    return td_budget_shed(&v->budget);
}

td_settled td_sessions_settle(td_sessions *all, int most)
{
    td_service *v = all->service;
    if (!all->settle_next) {
        all->settle_next = all->first;
        all->settle_later = false;
        td_heap_settle(v->heap, false, NULL, NULL, &all->settle_later);
        td_models_settle(v, false, &all->settle_later);
    }
    for (; all->settle_next && most > 0; most--) {
        td_session *s = all->settle_next;
        all->settle_next = s->next;
        td_heap_settle(s->heap, false, ask_to_unmap, &(asking){.s = s}, &all->settle_later);
    }
    if (all->settle_next) return TD_SETTLE_MORE;
    bool warm = td_budget_settle(&v->budget);
    return warm || all->settle_later ? TD_SETTLE_LATER : TD_SETTLED;
}
