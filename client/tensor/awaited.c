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

void td_awaited_unwanted(td_awaited *b, int n)
{
    for (int k = 0; k < n; k++) {
        b->at[k]->unknown = true;
        td_array_free(b->at[k]);
    }
    b->n -= n;
    memmove(b->at, b->at + n, (size_t)b->n * sizeof *b->at);
}

/* ---- waits that were given up ------------------------------------------------------------------------------------ */

typedef struct abandoned {
    td_reply_wait wait;
    int n;
    uint32_t ids[];
} abandoned;

/* The answer came after all. */
static int on_abandoned(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)e;
    abandoned *a = (abandoned *)w;
    td_take_unclaimed(c, r, fd);
    for (int i = 0; i < a->n; i++) td_release_id(c, a->ids[i]);
    return TD_OK;
}

void td_abandon(td_client *c, const td_reply_wait *w, int n, td_array *const *at)
{
    bool answered = w->done || !w->serial || c->lost;
    abandoned *a = answered ? NULL : calloc(1, sizeof *a + (size_t)n * sizeof *a->ids);
    if (a) {
        a->wait = (td_reply_wait){.serial = w->serial, .heap = true, .on_reply = on_abandoned};
        td_add_wait(c, &a->wait);
        a->n = n;
    }
    for (int i = n - 1; i >= 0; i--) {
        if (a) a->ids[i] = at[i]->id;
        if (answered) td_array_drop(at[i]);
        else td_array_forget(at[i]);
    }
}
