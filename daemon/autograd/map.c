/* A small hash map from addresses to indices, for plans: one insertion a node, one lookup an edge. */
#include "daemon/autograd/backward.h"
#include <stdlib.h>

static uint32_t slot_of(const td_map *m, const void *key)
{
    uint64_t h = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t k = (uint32_t)(h >> 32) & (m->room - 1);
    while (m->key[k] && m->key[k] != key) k = (k + 1) & (m->room - 1);
    return k;
}

uint32_t td_map_get(const td_map *m, const void *key)
{
    if (!m->room) return UINT32_MAX;
    uint32_t k = slot_of(m, key);
    return m->key[k] ? m->value[k] : UINT32_MAX;
}

static bool grow(td_map *m)
{
    td_map more = {.room = m->room ? 2 * m->room : 64, .count = m->count};
    more.key = calloc(more.room, sizeof *more.key);
    more.value = malloc(more.room * sizeof *more.value);
    if (!more.key || !more.value) {
        td_map_deinit(&more);
        return false;
    }
    for (uint32_t k = 0; k < m->room; k++) {
        if (!m->key[k]) continue;
        uint32_t to = slot_of(&more, m->key[k]);
        more.key[to] = m->key[k];
        more.value[to] = m->value[k];
    }
    td_map_deinit(m);
    *m = more;
    return true;
}

bool td_map_put(td_map *m, const void *key, uint32_t value)
{
    if (m->count * 2 >= m->room && !grow(m)) return false;
    uint32_t k = slot_of(m, key);
    m->key[k] = key;
    m->value[k] = value;
    m->count++;
    return true;
}

void td_map_deinit(td_map *m)
{
    free(m->key);
    free(m->value);
    *m = (td_map){0};
}
