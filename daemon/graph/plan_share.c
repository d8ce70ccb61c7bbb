/* Which arguments of a row lie in one memory. A row that writes one of them is good only for arguments that lie to each
 * other as those did with which it was recorded: then operands of its calls overlap as they did, element by element. */
#include "daemon/graph/plan_parts.h"

enum { PLACES = 2 * TD_PLAN_ENDS }; /* of a table: half of it is empty at least */

static uint32_t place_of(const td_storage *s)
{
    uint64_t h = (uint64_t)(uintptr_t)s * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32) % PLACES;
}

/* Numbers count from 1; 0: none. */
typedef struct families {
    uint16_t first[PLACES];          /* of each memory */
    uint16_t next[TD_PLAN_ENDS + 1]; /* in the same memory */
} families;

static uint16_t *family_of(families *f, td_tensor *const *t, const td_storage *s)
{
    uint32_t at = place_of(s);
    while (f->first[at] && t[f->first[at] - 1]->storage != s) at = (at + 1) % PLACES;
    return &f->first[at];
}

/* The same tensor in this family, otherwise the one that came last. */
static uint32_t relative_of(const families *f, td_tensor *const *t, uint32_t first, const td_tensor *x)
{
    for (uint32_t k = first; k; k = f->next[k])
        if (t[k - 1] == x) return k;
    return first;
}

bool td_plan_share(td_looking *l, uint32_t n, td_tensor *const *t)
{
    families f;
    memset(f.first, 0, sizeof f.first);
    for (uint32_t k = 1; k <= n; k++) {
        const td_tensor *x = t[k - 1];
        uint16_t *first = family_of(&f, t, x->storage);
        uint32_t of = relative_of(&f, t, *first, x);
        f.next[k] = *first;
        *first = (uint16_t)k;
        if (!of) continue;
        if (!td_look_room(l, 2)) return false;
        td_look_put(l, (uint64_t)k << 32 | (uint64_t)of << 1 | (t[of - 1] == x));
        td_look_put(l, (uint64_t)((uintptr_t)td_tensor_data(x) - (uintptr_t)td_tensor_data(t[of - 1])));
    }
    return !l->differ;
}
