/* Items of queues: references to tensors, and a note. Whoever put one pays for its place, and for the bytes of the
 * note, until it is taken. */
#include "daemon/service/service.h"

#include <stdlib.h>

static size_t item_size(const td_queue_item *i)
{
    return sizeof *i + (size_t)i->count * sizeof(td_tensor *) + i->note_bytes;
}

static uint64_t item_cost(const td_queue_item *i)
{
    return 1 + item_size(i) / 512;
}

int td_queue_item_new(td_queue_item **out, td_account *account, int count, td_tensor *const *tensors, const void *note,
                      size_t note_bytes, td_error *e)
{
    td_queue_item plan = {.count = count, .note_bytes = note_bytes, .account = account};
    int rc = td_account_charge(account, note_bytes, item_cost(&plan), e);
    if (rc) return rc;
    td_queue_item *i = malloc(item_size(&plan));
    if (!i) {
        td_account_discharge(account, note_bytes, item_cost(&plan));
        return td_no_memory(e, "for an item");
    }
    *i = plan;
    if (account) td_account_ref(account);
    i->tensors = (td_tensor **)(i + 1);
    i->note = (unsigned char *)(i->tensors + count);
    if (note_bytes) memcpy(i->note, note, note_bytes);
    for (int k = 0; k < count; k++) i->tensors[k] = td_tensor_hold(tensors[k]);
    *out = i;
    return TD_OK;
}

void td_queue_item_free(td_queue_item *i)
{
    if (!i) return;
    for (int k = 0; k < i->count; k++) td_tensor_unhold(i->tensors[k]);
    td_account_discharge(i->account, i->note_bytes, item_cost(i));
    td_account_unref(i->account);
    free(i);
}
