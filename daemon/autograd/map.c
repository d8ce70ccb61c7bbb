/* A small hash map from addresses to indices, for plans: one insertion a node, one lookup an edge.
 *
 * A table is twice as large as the one before; each insertion copies some places of that one, so that it is done with
 * long before the next is needed. What was copied stays where it was, so a lookup needs no care. */
#include "daemon/autograd/backward.h"
#include <assert.h>
#include <stdlib.h>

enum { COPY = 8 }; /* places a time; 2 would just do */

static uint32_t slot_of(const td_table *t, const void *key)
{
    uint64_t h = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t k = (uint32_t)(h >> 32) & (t->room - 1);
    while (t->key[k] && t->key[k] != key) k = (k + 1) & (t->room - 1);
    return k;
}

static uint32_t find(const td_table *t, const void *key)
{
    if (!t->room) return UINT32_MAX;
    uint32_t k = slot_of(t, key);
    return t->key[k] ? t->value[k] : UINT32_MAX;
}

uint32_t td_map_get(const td_map *m, const void *key)
{
    uint32_t v = find(&m->now, key);
    return v == UINT32_MAX && m->old.room ? find(&m->old, key) : v;
}

static void add(td_table *t, const void *key, uint32_t value)
{
    uint32_t k = slot_of(t, key);
    t->key[k] = key;
    t->value[k] = value;
}

static void table_deinit(td_table *t)
{
    td_array_free(t->key, t->room * sizeof *t->key);
    td_array_free(t->value, t->room * sizeof *t->value);
    *t = (td_table){0};
}

static void copy_some(td_map *m)
{
    for (int n = 0; n < COPY && m->copied < m->old.room; n++, m->copied++)
        if (m->old.key[m->copied]) add(&m->now, m->old.key[m->copied], m->old.value[m->copied]);
    if (m->copied == m->old.room) table_deinit(&m->old);
}

static bool grow(td_map *m)
{
    td_table more = {.room = m->now.room ? 2 * m->now.room : 64};
    more.key = td_array_grow(NULL, 0, more.room * sizeof *more.key);
    more.value = td_array_grow(NULL, 0, more.room * sizeof *more.value);
    if (!more.key || !more.value) {
        if (more.key) td_array_free(more.key, more.room * sizeof *more.key);
        if (more.value) td_array_free(more.value, more.room * sizeof *more.value);
        return false;
    }
    assert(!m->old.room);
    m->old = m->now;
    m->now = more;
    m->copied = 0;
    return true;
}

bool td_map_put(td_map *m, const void *key, uint32_t value)
{
    if (m->count * 2 >= m->now.room && !grow(m)) return false;
    if (m->old.room) copy_some(m);
    add(&m->now, key, value);
    m->count++;
    return true;
}

void td_map_deinit(td_map *m)
{
    table_deinit(&m->now);
    table_deinit(&m->old);
    *m = (td_map){0};
}
