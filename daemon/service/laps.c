/* See laps.h. */
#include "daemon/service/laps.h"
#include "proto/base/clock.h"

#include <stdlib.h>
#include <string.h>

const uint32_t td_lap_bounds_us[TD_LAP_BOUNDS] = {50, 100, 250, 500, 1000, 4000};

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

td_laps *td_laps_new(void)
{
    return calloc(1, sizeof(td_laps));
}

void td_laps_free(td_laps *t)
{
    free(t);
}

void td_laps_begin(td_laps *t)
{
    t->doing = NULL;
    t->began_ns = td_clock_ns();
    t->began_cpu_ns = cpu_ns();
}

/* Kinds beyond the last place are counted there. */
static td_lap_kind *kind_of(td_laps *t, const char *name)
{
    for (int i = 0; i < t->count; i++)
        if (t->kinds[i].name == name || strcmp(t->kinds[i].name, name) == 0) return &t->kinds[i];
    if (t->count == TD_LAP_KINDS) return &t->kinds[TD_LAP_KINDS - 1];
    t->kinds[t->count].name = name;
    return &t->kinds[t->count++];
}

void td_laps_end(td_laps *t, const char *kind)
{
    uint64_t cpu = cpu_ns() - t->began_cpu_ns, took = td_clock_ns() - t->began_ns;
    td_lap_kind *k = kind_of(t, t->doing ? t->doing : kind);
    k->count++;
    k->total_ns += took;
    if (took > k->longest_ns) k->longest_ns = took;
    if (cpu > k->longest_cpu_ns) k->longest_cpu_ns = cpu;
    int i = 0;
    while (i < TD_LAP_BOUNDS && cpu > (uint64_t)td_lap_bounds_us[i] * 1000) i++;
    k->within[i]++;
    td_laps_begin(t);
}
