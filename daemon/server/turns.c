/* Whose turn it is. Invariant: a process is in the list exactly while one of its connections is. */
#include "daemon/server/turns.h"

#include "daemon/server/server.h"

#include <stdlib.h>

void td_turns_init(td_turns *t)
{
    *t = (td_turns){.last = &t->first};
}

static td_process *process_new(td_turns *t, const td_peer_id *id)
{
    td_process *p = malloc(sizeof *p);
    td_share *share = p ? td_share_new() : NULL;
    if (!share) {
        free(p);
        return NULL;
    }
    *p = (td_process){.next = t->processes, .id = *id, .share = share, .last_ready = &p->first_ready};
    if (p->next) p->next->prev = p;
    t->processes = p;
    return p;
}

td_process *td_turns_join(td_turns *t, const td_peer_id *id)
{
    td_process *p = t->processes;
    while (p && (p->id.pid != id->pid || p->id.uid != id->uid)) p = p->next;
    if (!p) p = process_new(t, id);
    if (p) p->connections++;
    return p;
}

void td_turns_leave(td_turns *t, td_process *p)
{
    if (--p->connections) return;
    *(p->prev ? &p->prev->next : &t->processes) = p->next;
    if (p->next) p->next->prev = p->prev;
    td_share_unref(p->share);
    free(p);
}

static void append(td_turns *t, td_process *p)
{
    p->next_ready = NULL;
    *t->last = p;
    t->last = &p->next_ready;
    t->ready_processes++;
}

static td_process *take_first(td_turns *t)
{
    td_process *p = t->first;
    t->first = p->next_ready;
    if (!t->first) t->last = &t->first;
    t->ready_processes--;
    return p;
}

/* Not a single one of its connections is ready any more. */
static void take(td_turns *t, const td_process *p)
{
    td_process **at = &t->first;
    while (*at != p) at = &(*at)->next_ready;
    *at = p->next_ready;
    if (!*at) t->last = at;
    t->ready_processes--;
}

void td_turns_add(td_turns *t, td_peer *peer)
{
    td_process *p = peer->process;
    if (!p->first_ready) append(t, p);
    peer->ready = true;
    peer->next_ready = NULL;
    *p->last_ready = peer;
    p->last_ready = &peer->next_ready;
    t->ready++;
}

/* Its connection at this place of its list. */
static void remove_at(td_turns *t, td_process *p, td_peer **at)
{
    (*at)->ready = false;
    *at = (*at)->next_ready;
    if (!*at) p->last_ready = at;
    t->ready--;
}

void td_turns_remove(td_turns *t, td_peer *peer)
{
    td_process *p = peer->process;
    td_peer **at = &p->first_ready;
    while (*at != peer) at = &(*at)->next_ready;
    remove_at(t, p, at);
    if (!p->first_ready) take(t, p);
}

td_peer *td_turns_next(td_turns *t)
{
    if (!t->first) return NULL;
    td_process *p = take_first(t);
    td_peer *peer = p->first_ready;
    remove_at(t, p, &p->first_ready);
    if (p->first_ready) append(t, p);
    return peer;
}
