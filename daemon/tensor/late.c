/* What one session has yet to be told: that it should have written to a storage, and has not. The storage is fine, so
 * nobody else hears of it.
 *
 * Each hangs in two lists, its storage's and its owner's, and goes with whichever goes first. */
#include "daemon/tensor/live.h"

#include <stdlib.h>

enum { MOST_LATE = 4096 }; /* of one owner: what comes then is only told by a sync */

struct td_late {
    td_late *next;  /* of the storage */
    td_late *after; /* of the owner, older */
    td_late **at;   /* what points to it there */
    td_lates *owner;
    td_storage *storage;
    td_cause *cause;
};

td_cause *td_late_look(const td_lates *of, const td_storage *s)
{
    const td_late *l = s->late;
    while (l && l->owner != of) l = l->next;
    return l ? l->cause : NULL;
}

void td_late_note(td_lates *of, td_storage *s, td_cause *c)
{
    if (s->poison || of->count >= MOST_LATE || td_late_find(of, s)) return;
    td_late *l = malloc(sizeof *l);
    if (!l) return;
    *l = (td_late){s->late, of->first, &of->first, of, s, td_cause_ref(c)};
    if (of->first) of->first->at = &l->after;
    of->first = s->late = l;
    of->count++;
    td_account_add(of->account, 0, 1);
    td_loop_live.bytes += sizeof *l;
}

/* The storage no longer points to it. */
static void end(td_late *l)
{
    *l->at = l->after;
    if (l->after) l->after->at = l->at;
    l->owner->count--;
    td_account_discharge(l->owner->account, 0, 1);
    td_cause_unref(l->cause);
    free(l);
    td_loop_live.bytes -= sizeof *l;
}

static void forget(td_late *l)
{
    td_late **at = &l->storage->late;
    while (*at != l) at = &(*at)->next;
    *at = l->next;
    end(l);
}

void td_late_written(td_lates *of, td_storage *s)
{
    for (td_late *l = of->first ? s->late : NULL; l; l = l->next) {
        if (l->owner != of) continue;
        forget(l);
        return;
    }
}

void td_lates_told(td_lates *of, const td_error *e)
{
    for (td_late *l = of->first, *after; l; l = after) {
        after = l->after;
        if (td_error_same(&l->cause->error, e)) forget(l);
    }
}

void td_lates_copy(td_lates *to, const td_lates *from)
{
    for (const td_late *l = from->first; l; l = l->after) td_late_note(to, l->storage, l->cause);
}

void td_lates_drop(td_lates *of)
{
    while (of->first) forget(of->first);
}

void td_storage_drop_late(td_storage *s)
{
    while (s->late) {
        td_late *l = s->late;
        s->late = l->next;
        end(l);
    }
}
