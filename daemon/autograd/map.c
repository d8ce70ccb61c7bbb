/* A small hash map from addresses to indices, for walks of a graph: one insertion a node, one lookup an edge.
 *
 * A table is twice as large as the one before; each insertion copies some places of that one, or gives a part of it
 * back, so that it is done with long before the next is needed. What was copied stays where it was, so a lookup needs
 * no care. */
#include "daemon/autograd/backward.h"
#include <assert.h>
#include <stdlib.h>

enum { COPY = 8 }; /* places a time; 2 would just do */

static uint32_t slot_of(const td_map_table *t, const void *key)
{
    uint64_t h = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t k = (uint32_t)(h >> 32) & (t->room - 1);
    while (t->key[k] && t->key[k] != key) k = (k + 1) & (t->room - 1);
    return k;
}

static uint32_t find(const td_map_table *t, const void *key)
{
    if (!t->room) return UINT32_MAX;
    uint32_t k = slot_of(t, key);
    return t->key[k] ? t->value[k] : UINT32_MAX;
}

uint32_t td_map_get(const td_map *m, const void *key)
{
    uint32_t v = find(&m->now, key);
    return v == UINT32_MAX && m->copied < m->old.room ? find(&m->old, key) : v;
}

static void add(td_map_table *t, const void *key, uint32_t value)
{
    uint32_t k = slot_of(t, key);
    t->key[k] = key;
    t->value[k] = value;
}

static bool table_make(td_map_table *t, uint32_t room)
{
    size_t key_size = room * sizeof *t->key, value_size = room * sizeof *t->value;
    *t = (td_map_table){td_array_grow(NULL, 0, key_size), td_array_grow(NULL, 0, value_size), room, key_size,
                        value_size};
    if (t->key && t->value) return true;
    if (t->key) td_array_free(t->key, key_size);
    if (t->value) td_array_free(t->value, value_size);
    return false;
}

/* A part of it; true: it is gone. */
static bool table_drop(td_map_table *t)
{
    if (t->key_size) t->key_size = td_array_shorten(t->key, t->key_size);
    else if (t->value_size) t->value_size = td_array_shorten(t->value, t->value_size);
    if (t->key_size || t->value_size) return false;
    *t = (td_map_table){0};
    return true;
}

static void copy_some(td_map *m)
{
    for (int n = 0; n < COPY && m->copied < m->old.room; n++, m->copied++)
        if (m->old.key[m->copied]) add(&m->now, m->old.key[m->copied], m->old.value[m->copied]);
}

static bool grow(td_map *m)
{
    td_map_table more;
    if (!table_make(&more, m->now.room ? 2 * m->now.room : 64)) return false;
    assert(!m->old.room);
    m->old = m->now;
    m->now = more;
    m->copied = 0;
    return true;
}

bool td_map_put(td_map *m, const void *key, uint32_t value)
{
    if (m->count * 2 >= m->now.room && !grow(m)) return false;
    if (m->copied < m->old.room) copy_some(m);
    else table_drop(&m->old);
    add(&m->now, key, value);
    m->count++;
    return true;
}

bool td_map_drop(td_map *m)
{
    return table_drop(&m->old) && table_drop(&m->now);
}
