/* Ids that an answer binds; see awaited.h. */
#include "client/tensor/awaited.h"
#include "client/tensor/internal.h"

#include <stdlib.h>
#include <string.h>

td_awaited *td_awaited_new(td_request *r, int n)
{
    td_question *q = td_question_new(r, sizeof(td_awaited) + (size_t)n * sizeof(td_array *));
    if (!q) return NULL;
    td_awaited *b = td_awaited_of(q);
    q->end = td_awaited_end;
    for (; b->n < n; b->n++) {
        b->at[b->n] = td_array_new(r->client);
        if (b->at[b->n]) continue;
        td_question_undo(q, TD_OK);
        return NULL;
    }
    return b;
}

/* The daemon has bound no ids when it says an error. */
bool td_awaited_end(td_client *c, td_question *q, bool answered)
{
    (void)c;
    td_awaited *b = td_awaited_of(q);
    for (int k = b->n - 1; k >= 0; k--) {
        if (answered) td_array_drop(b->at[k]);
        else td_array_forget(b->at[k]);
    }
    return false;
}

void td_array_unwanted(td_array *a)
{
    a->unknown = true;
    td_array_free(a);
}

void td_awaited_unwanted(td_awaited *b, int n)
{
    for (int k = 0; k < n; k++) td_array_unwanted(b->at[k]);
    b->n -= n;
    memmove(b->at, b->at + n, (size_t)b->n * sizeof *b->at);
}

/* ---- waits that were given up ------------------------------------------------------------------------------------ */

/* The answer came after all. */
static void late_ids(td_client *c, td_question *q, const td_reply *r, int *fd)
{
    td_awaited *b = td_awaited_of(q);
    td_take_unclaimed(c, r, fd);
    td_awaited_unwanted(b, b->n);
}

void td_abandon(td_client *c, const td_reply_wait *w, int n, td_array *const *at)
{
    bool answered = w->done || !w->serial || c->lost;
    td_question *q = answered ? NULL : td_question_left(w, sizeof(td_awaited) + (size_t)n * sizeof(td_array *));
    for (int i = n - 1; i >= 0 && !q; i--) {
        if (w->untaken) td_array_unwanted(at[i]);
        else if (answered) td_array_drop(at[i]);
        else td_array_forget(at[i]);
    }
    if (!q) return;
    td_awaited *b = td_awaited_of(q);
    q->late = late_ids;
    q->end = td_awaited_end;
    b->n = n;
    memcpy(b->at, at, (size_t)n * sizeof(td_array *));
    td_unawait(c, &q->wait);
}
