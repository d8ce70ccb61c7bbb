/* Items of queues: references to tensors, and a note. Whoever put one pays for its place, and for the bytes of the
 * note, until it is taken.
 *
 * An item is what was put. Nothing is copied for that: all items that hold one storage as it is now share a record that
 * the storage points to; who is about to write it makes one copy for all of them (td_queued_copied), and what is taken
 * later is a tensor over the copy. */
#include "daemon/service/service.h"

#include <stddef.h>
#include <stdlib.h>

enum { SOME = 16 /* tensors that are let go of at once */ };

struct td_queued {
    td_storage *of;   /* not yet written; NULL: ... */
    td_storage *copy; /* ... this is what it was */
    uint32_t slots;   /* tensors of items */
};

int td_queue_item_new(td_queued_item **out, td_account *account, size_t most, size_t note_bytes, td_error *e)
{
    size_t size = sizeof(td_queued_item) + most * (sizeof(td_tensor *) + sizeof(td_queued *)) + note_bytes;
    td_queued_item plan = {.note_bytes = note_bytes,
                           .account = account,
                           .cost = td_objects_of(size + most * sizeof(td_queued)),
                           .bytes = note_bytes};
    int rc = td_account_charge(account, note_bytes, plan.cost, e);
    if (rc) return rc;
    td_queued_item *i = malloc(size);
    if (!i) {
        td_account_discharge(account, note_bytes, plan.cost);
        return td_no_memory(e, "for an item of %zu tensors and a note of %zu bytes", most, note_bytes);
    }
    *i = plan;
    if (account) td_account_ref(account);
    i->tensors = (td_tensor **)(i + 1);
    i->as_put = (td_queued **)(i->tensors + most);
    i->note = (unsigned char *)(i->as_put + most);
    *out = i;
    return TD_OK;
}

int td_queue_item_keep(td_queued_item *i, int k, td_error *e)
{
    td_storage *s = i->tensors[k]->storage;
    td_queued *q = s->queued;
    if (!q) {
        if (!(q = malloc(sizeof *q))) return td_no_memory(e, "for an item of %d tensors", i->count);
        *q = (td_queued){.of = s};
        s->queued = q;
    }
    q->slots++;
    i->as_put[k] = q;
    return TD_OK;
}

int td_queue_item_add(td_queued_item *i, td_tensor *t, bool keep, td_error *e)
{
    i->as_put[i->count] = NULL;
    i->tensors[i->count++] = td_tensor_hold(t);
    i->bytes += td_desc_nbytes(&t->desc);
    return keep ? td_queue_item_keep(i, i->count - 1, e) : TD_OK;
}

static void keep_no_more(td_queued_item *i, int k)
{
    td_queued *q = i->as_put[k];
    i->as_put[k] = NULL;
    if (!q || --q->slots) return;
    if (q->of) q->of->queued = NULL;
    td_storage_unref(q->copy);
    free(q);
}

int td_queue_item_settle(td_queued_item *i, int k, td_account *account, td_error *e)
{
    const td_queued *q = i->as_put[k];
    td_tensor *was = i->tensors[k], *as_put = NULL;
    if (q && q->copy) {
        int rc = td_tensor_new(&as_put, q->copy, &was->desc, account, e);
        if (rc) return rc;
        i->tensors[k] = td_tensor_hold(as_put);
        td_tensor_unref(as_put);
    }
    keep_no_more(i, k);
    if (as_put) td_tensor_unhold(was);
    return TD_OK;
}

td_storage *td_queue_item_copy(const td_queued_item *i, int k)
{
    return i->as_put[k] ? i->as_put[k]->copy : NULL;
}

void td_queued_copied(td_storage *s, td_storage *copy)
{
    td_queued *q = s->queued;
    s->queued = NULL;
    q->of = NULL;
    q->copy = td_storage_ref(copy);
}

/* Some of its tensors; what dies with them comes next, and then the item once more. */
static void let_go(td_dead *d)
{
    td_queued_item *i = (td_queued_item *)(void *)((char *)d - offsetof(td_queued_item, remains));
    if (i->count > SOME) td_die(&i->remains, let_go);
    for (int n = 0; i->count && n < SOME; n++) {
        keep_no_more(i, --i->count);
        td_tensor_unhold(i->tensors[i->count]);
    }
    if (i->count) return;
    td_account_discharge(i->account, i->note_bytes, i->cost);
    td_account_unref(i->account);
    free(i);
}

void td_queue_item_free(td_queued_item *i)
{
    if (!i) return;
    if (i->count > SOME) td_die(&i->remains, let_go);
    else let_go(&i->remains);
}
