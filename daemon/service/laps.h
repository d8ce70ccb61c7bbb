/* How long the loop is at one thing before it looks at the next: turns, by kind, counted where somebody asked for it.
 *
 * A turn is timed twice: by the clock, and by what the thread had of a processor, for on a busy machine the first tells
 * of others. That takes a system call each, so it is done on demand only (tensord --turns). */
#ifndef TENSORD_DAEMON_SERVICE_LAPS_H
#define TENSORD_DAEMON_SERVICE_LAPS_H

#include <stdint.h>

enum { TD_LAP_KINDS = 48, TD_LAP_BOUNDS = 6 };

typedef struct td_lap_kind {
    const char *name;
    uint64_t count, total_ns, longest_ns, longest_cpu_ns;
    uint64_t within[TD_LAP_BOUNDS + 1]; /* by its time on a processor: see td_lap_bounds_us; the last has the rest */
} td_lap_kind;

typedef struct td_laps {
    td_lap_kind kinds[TD_LAP_KINDS]; /* in order of appearance */
    int count;
    uint64_t began_ns, began_cpu_ns;
    const char *doing; /* the name of the turn that is on; NULL: nobody has said */
} td_laps;

extern const uint32_t td_lap_bounds_us[TD_LAP_BOUNDS];

/* NULL is fine everywhere: nothing is counted. A name lasts as long as the program. */
td_laps *td_laps_new(void);
void td_laps_free(td_laps *t);
void td_laps_begin(td_laps *t);
/* The turn that is on is over, and the next begins. `kind` unless somebody has said otherwise. */
void td_laps_end(td_laps *t, const char *kind);

static inline void td_lap_began(td_laps *t)
{
    if (t) td_laps_begin(t);
}
static inline void td_lap_over(td_laps *t, const char *kind)
{
    if (t) td_laps_end(t, kind);
}
/* What it is about, in the midst of it. */
static inline void td_lap_is(td_laps *t, const char *kind)
{
    if (t) t->doing = kind;
}

#endif
