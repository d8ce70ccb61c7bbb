/* Items of queues: references to tensors, and a note. Whoever put one pays for its place, and for the bytes of the
 * note, until it is taken. */
#include "daemon/service/service.h"

#include <stddef.h>
#include <stdlib.h>

enum { SOME = 16 /* tensors that are let go of at once */ };

int td_queue_item_new(td_queue_item **out, td_account *account, size_t most, size_t note_bytes, td_error *e)
{
    size_t size = sizeof(td_queue_item) + most * sizeof(td_tensor *) + note_bytes;
    td_queue_item plan = {.note_bytes = note_bytes, .account = account, .cost = td_objects_of(size)};
    int rc = td_account_charge(account, note_bytes, plan.cost, e);
    if (rc) return rc;
    td_queue_item *i = malloc(size);
    if (!i) {
        td_account_discharge(account, note_bytes, plan.cost);
        return td_no_memory(e, "for an item of %zu tensors and a note of %zu bytes", most, note_bytes);
    }
    *i = plan;
    if (account) td_account_ref(account);
    i->tensors = (td_tensor **)(i + 1);
    i->note = (unsigned char *)(i->tensors + most);
    *out = i;
    return TD_OK;
}

void td_queue_item_add(td_queue_item *i, td_tensor *t)
{
    i->tensors[i->count++] = td_tensor_hold(t);
}

/* Some of its tensors; what dies with them comes next, and then the item once more. */
static void let_go(td_dead *d)
{
    td_queue_item *i = (td_queue_item *)(void *)((char *)d - offsetof(td_queue_item, remains));
    if (i->count > SOME) td_die(&i->remains, let_go);
    for (int n = 0; i->count && n < SOME; n++) td_tensor_unhold(i->tensors[--i->count]);
    if (i->count) return;
    td_account_discharge(i->account, i->note_bytes, i->cost);
    td_account_unref(i->account);
    free(i);
}

void td_queue_item_free(td_queue_item *i)
{
    if (!i) return;
    if (i->count > SOME) td_die(&i->remains, let_go);
    else let_go(&i->remains);
}
