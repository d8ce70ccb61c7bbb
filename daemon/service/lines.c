/* Requests of a model that wait for a run: their order.
 *
 * Each process has a line for each priority in which it asks. Of the highest priority in which any wait each line has
 * its turn, the first of one, then of the next; so a process that asks a thousand times, in as many sessions and ways
 * as it likes, delays another's next request by one. Requests that were taken and are asked again come before all.
 * What waits of a process is counted, too, in a line of its own, in which none stands.
 *
 * Invariants: a line is in the ring of its level exactly while a request waits in it, and there is one as long as a
 * request belongs to it. Whatever is done here takes as long for one as for thousands that wait; who gives way in a full
 * queue is looked for among the processes. */
#include "daemon/service/model.h"

#include <stdlib.h>

enum {
    AGAIN = TD_LEVELS - 1,
    WHOLE = TD_LEVELS, /* in a key: all levels of a process */
    LOWEST = -TD_MODEL_PRIORITY,
    HIGHEST = TD_MODEL_PRIORITY
};
_Static_assert(HIGHEST - LOWEST < AGAIN, "each priority has a level");

/* ---- lines */

static void enter_ring(td_served *v, td_model_line *l, bool first)
{
    td_model_level *r = &v->levels[l->key.level];
    l->prev = first ? NULL : r->last;
    l->next = first ? r->first : NULL;
    *(l->prev ? &l->prev->next : &r->first) = l;
    *(l->next ? &l->next->prev : &r->last) = l;
    v->levels_in_use |= UINT64_C(1) << l->key.level;
}

static void leave_ring(td_served *v, td_model_line *l)
{
    td_model_level *r = &v->levels[l->key.level];
    *(l->prev ? &l->prev->next : &r->first) = l->next;
    *(l->next ? &l->next->prev : &r->last) = l->prev;
    l->next = l->prev = NULL;
    if (!r->first) v->levels_in_use &= ~(UINT64_C(1) << l->key.level);
}

static void put(td_model_line *l, td_inquiry *x, bool first)
{
    x->prev = first ? NULL : l->last;
    x->next = first ? l->first : NULL;
    *(x->prev ? &x->prev->next : &l->first) = x;
    *(x->next ? &x->next->prev : &l->last) = x;
    x->at = l;
}

static uint64_t who_is(const td_account *a)
{
    return a->pid ? a->pid : (uint64_t)(uintptr_t)a;
}

static td_model_line *find_line(const td_served *v, uint64_t who, uint64_t level)
{
    td_model_line *l, *lines = v->lines;
    td_model_line_key key = {.who = who, .level = level};
    HASH_FIND(hh, lines, &key, sizeof key, l);
    return l;
}

/* With one more that belongs to it. */
static td_model_line *need_line(td_served *v, uint64_t who, uint64_t level, td_error *e)
{
    td_model_line *l = find_line(v, who, level);
    if (l) return l->refs++, l;
    l = calloc(1, sizeof *l);
    if (!l) return td_no_memory(e, "for a request"), NULL;
    l->key = (td_model_line_key){who, level};
    l->refs = 1;
    HASH_ADD(hh, v->lines, key, sizeof l->key, l);
    if (TD_HASHED(l)) return l;
    free(l);
    return td_no_memory(e, "for a request"), NULL;
}

static void part_from(td_served *v, td_model_line *l)
{
    if (!l || --l->refs) return;
    HASH_DEL(v->lines, l);
    free(l);
}

int td_line_join(td_inquiry *x, td_error *e)
{
    td_served *v = x->of;
    int32_t priority = x->priority < LOWEST ? LOWEST : x->priority > HIGHEST ? HIGHEST : x->priority;
    x->line = need_line(v, who_is(x->account), (uint64_t)(priority - LOWEST), e);
    x->whole = x->line ? need_line(v, who_is(x->account), WHOLE, e) : NULL;
    if (!x->whole) return e->code;
    put(&v->early, x, false);
    td_line_waits(x, true);
    return TD_OK;
}

void td_line_part(td_inquiry *x)
{
    part_from(x->of, x->line);
    part_from(x->of, x->whole);
    x->line = x->whole = NULL;
}

void td_line_waits(td_inquiry *x, bool waits)
{
    if (x->waits == waits) return;
    x->waits = waits;
    x->of->waiting += waits ? 1 : -1U;
    x->whole->waiting += waits ? 1 : -1U;
    x->of->waiting_bytes += waits ? x->bytes : -x->bytes;
    x->whole->waiting_bytes += waits ? x->bytes : -x->bytes;
}

/* Of the lowest priority. What has failed with others stays. */
static td_inquiry *newest_of(const td_served *v, uint64_t who)
{
    for (uint64_t level = 0; level < AGAIN; level++) {
        const td_model_line *l = find_line(v, who, level);
        if (l && l->last) return l->last;
    }
    td_inquiry *x = v->early.last;
    while (x && x->line->key.who != who) x = x->prev;
    return x;
}

td_inquiry *td_lines_gives_way(const td_served *v, const td_account *to, uint64_t bytes, bool by_bytes)
{
    const td_model_line *most = NULL, *mine = find_line(v, who_is(to), WHOLE);
    for (const td_model_line *l = v->lines; l; l = l->hh.next) {
        if (l->key.level != WHOLE) continue;
        if (!most || (by_bytes ? l->waiting_bytes > most->waiting_bytes : l->waiting > most->waiting)) most = l;
    }
    if (!most) return NULL;
    bool less = by_bytes ? (mine ? mine->waiting_bytes : 0) + bytes < most->waiting_bytes
                         : (mine ? mine->waiting : 0) + 1 < most->waiting;
    return less ? newest_of(v, most->key.who) : NULL;
}

void td_line_leave(td_inquiry *x)
{
    td_model_line *l = x->at;
    if (!l) return;
    *(x->prev ? &x->prev->next : &l->first) = x->next;
    *(x->next ? &x->next->prev : &l->last) = x->prev;
    x->next = x->prev = NULL;
    x->at = NULL;
    if (!l->first && l != &x->of->early) leave_ring(x->of, l);
}

void td_line_enter(td_inquiry *x)
{
    td_line_leave(x); /* it was early */
    if (!x->line->first) enter_ring(x->of, x->line, false);
    put(x->line, x, false);
}

void td_line_return(td_inquiry *x)
{
    td_model_line *l = &x->of->again;
    l->key.level = AGAIN;
    if (!l->first) enter_ring(x->of, l, true);
    put(l, x, true);
}

void td_line_take(td_inquiry *x)
{
    td_model_line *l = x->at;
    td_line_leave(x);
    if (!l->first || l == &x->of->early) return;
    leave_ring(x->of, l);
    enter_ring(x->of, l, false);
}

/* ---- the order */

static td_model_level *highest(td_served *v, uint64_t in_use)
{
    return &v->levels[63 - __builtin_clzll(in_use)];
}

td_inquiry *td_lines_first(const td_served *v)
{
    return v->levels_in_use ? highest((td_served *)(uintptr_t)v, v->levels_in_use)->first->first : NULL;
}

td_inquiry *td_lines_any(const td_served *v)
{
    return v->early.first ? v->early.first : td_lines_first(v);
}

td_model_order td_lines_order(td_served *v, uint32_t looks)
{
    v->walk++;
    return (td_model_order){.of = v, .in_use = v->levels_in_use, .looks = looks};
}

/* Round by round: one of each line of the level, until no line has another. */
td_inquiry *td_order_next(td_model_order *o)
{
    while (o->looks) {
        td_model_line *l = o->line;
        if (!l) {
            if (o->begun && !o->any) o->in_use &= ~(UINT64_C(1) << (63 - __builtin_clzll(o->in_use)));
            if (!o->in_use) return NULL;
            l = highest(o->of, o->in_use)->first;
            o->begun = true, o->any = false;
        }
        if (l->walk != o->of->walk) l->walk = o->of->walk, l->now = l->first;
        td_inquiry *x = l->now;
        o->line = l->next;
        o->looks--;
        if (!x) continue;
        l->now = x->next;
        o->any = true;
        return x;
    }
    return NULL;
}
