/* Storages whose bytes the program looks at directly, through a NumPy array or a DLPack export.
 *
 * Such a view expects what an in-place op wrote to be there when the op's call returns, and nothing tells a program
 * that reads memory to wait. So who writes to a storage that is looked at waits until it is written: a round trip, for
 * these storages only. A storage is known by its place once that is known; before, by a number that what is made here
 * gets and its views share. What came otherwise (.grad, a name, a queue, a handle, the result of a program, what a node
 * saved) has no number and may be any storage that was handed on before (td_hand_on); in doubt the place is asked for,
 * once. */
#include "client/tensor/internal.h"
#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

typedef struct td_seen_key {
    uint64_t a, b;
} key;

struct td_seen_entry {
    key key;
    uint32_t looks;
    UT_hash_handle hh;
};

static key place_of(const td_array *a)
{
    const td_mapping *m = &a->client->memory.mappings[a->mapping];
    return (key){(uint64_t)m->segment << 32 | m->generation, (uint64_t)(a->bytes - m->base)};
}

static key number_of(uint64_t storage)
{
    return (key){storage, UINT64_MAX}; /* no place has such an offset */
}

static td_seen_entry *find(const td_client *c, key k)
{
    td_seen_entry *x;
    HASH_FIND(hh, c->tensor.seen, &k, sizeof k, x);
    return x;
}

static bool add(td_client *c, key k)
{
    td_seen_entry *x = find(c, k);
    if (!x) {
        x = calloc(1, sizeof *x);
        if (!x) return false;
        x->key = k;
        HASH_ADD(hh, c->tensor.seen, key, sizeof x->key, x);
        if (!TD_HASHED(x)) {
            free(x);
            return false;
        }
    }
    x->looks++;
    return true;
}

static void take(td_client *c, key k)
{
    td_seen_entry *x = find(c, k);
    if (!x || --x->looks) return;
    HASH_DEL(c->tensor.seen, x);
    free(x);
}

int td_look(td_array *a, td_look_at *out)
{
    td_client *c = a->client;
    *out = (td_look_at){0};
    td_lock(c);
    bool ok = true;
    if (a->mapping >= 0) {
        key k = place_of(a);
        if ((ok = add(c, k))) *out = (td_look_at){c, {k.a, k.b}, a->storage, a->is_grad};
        if (ok && a->storage && !(ok = add(c, number_of(a->storage)))) take(c, k);
    }
    if (!ok) *out = (td_look_at){0};
    if (out->client && !a->storage) c->tensor.seen_unknown++;
    if (out->client && a->is_grad) c->tensor.seen_grads++;
    td_unlock(c);
    return ok ? TD_OK : td_raise(TD_E_SYSTEM, "data", "no memory to remember that a tensor is looked at");
}

void td_look_away(td_look_at *x)
{
    td_client *c = x->client;
    if (!c) return;
    td_lock(c);
    take(c, (key){x->place[0], x->place[1]});
    if (x->storage) take(c, number_of(x->storage));
    else c->tensor.seen_unknown--;
    if (x->grad) c->tensor.seen_grads--;
    *x = (td_look_at){0};
    td_unlock(c);
}

int td_written(td_array *a)
{
    td_client *c = a->client;
    if (!c->tensor.seen) return TD_OK;
    if (a->mapping < 0 && a->storage && (!c->tensor.seen_unknown || a->storage > c->tensor.handed_on)) {
        if (!find(c, number_of(a->storage))) return TD_OK;
    } else if (a->mapping >= 0 && !find(c, place_of(a))) {
        return TD_OK;
    }
    return td_locate(a);
}

void td_forget_looks(td_client *c)
{
    td_seen_entry *x, *next;
    HASH_ITER(hh, c->tensor.seen, x, next)
    {
        HASH_DEL(c->tensor.seen, x);
        free(x);
    }
}
