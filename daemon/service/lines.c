/* Requests of a model that wait for a run: their order.
 *
 * Each process has a line for each priority in which it asks. Of the highest priority in which any wait each line has
 * its turn, the first of one, then of the next; so a process that asks a thousand times, in as many sessions and ways
 * as it likes, delays another's next request by one. Requests that were taken and are asked again come before all.
 *
 * Invariants: a line is in the ring of its level exactly while a request waits in it, and there is one as long as a
 * request belongs to it. Whatever is done here takes as long for one as for thousands that wait. */
#include "daemon/service/model.h"

#include <stdlib.h>

enum { AGAIN = TD_LEVELS - 1, LOWEST = -TD_MODEL_PRIORITY, HIGHEST = TD_MODEL_PRIORITY };
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

int td_line_join(td_inquiry *x, td_error *e)
{
    td_served *v = x->of;
    int32_t priority = x->priority < LOWEST ? LOWEST : x->priority > HIGHEST ? HIGHEST : x->priority;
    td_model_line_key key = {.who = x->account->pid ? x->account->pid : (uint64_t)(uintptr_t)x->account,
                             .level = (uint64_t)(priority - LOWEST)};
    HASH_FIND(hh, v->lines, &key, sizeof key, x->line);
    if (!x->line) {
        td_model_line *l = calloc(1, sizeof *l);
        if (!l) return td_no_memory(e, "for a request");
        l->key = key;
        HASH_ADD(hh, v->lines, key, sizeof l->key, l);
        if (!TD_HASHED(l)) return free(l), td_no_memory(e, "for a request");
        x->line = l;
    }
    x->line->refs++;
    put(&v->early, x, false);
    return TD_OK;
}

void td_line_part(td_inquiry *x)
{
    td_model_line *l = x->line;
    x->line = NULL;
    if (!l || --l->refs) return;
    HASH_DEL(x->of->lines, l);
    free(l);
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
