/* See figures.h. */
#include "shm/board/figures.h"

#include <string.h>

#define MARK_NS UINT64_C(10000000000)
#define MOST (UINT64_C(1) << 44) /* rounds that are believed: 256 members' sums stay far from the end */

/* ---- written by their member alone */

static uint64_t get(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static void put(_Atomic uint64_t *at, uint64_t v)
{
    atomic_store_explicit(at, v, memory_order_relaxed);
}

static unsigned place_of(uint64_t ns)
{
    if (ns < 4) return (unsigned)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    unsigned place = 4 * (power - 1) + (ns >> (power - 2) & 3);
    return place < TD_FIGURES_TIMES ? place : TD_FIGURES_TIMES - 1;
}

static void set_mark(td_figures_mark *m, uint64_t at, const td_figures *f)
{
    put(&m->rounds, get(&f->rounds));
    put(&m->last, get(&f->last));
    put(&m->within, get(&f->within));
    put(&m->at, at);
}

/* The newer mark is from 10 to 20 s ago by now. */
static void move_marks(td_figures *f, const td_figures_round *r)
{
    td_figures_mark *m = f->mark;
    if (!get(&m[0].at)) {
        set_mark(&m[0], r->came, f);
    } else {
        put(&m[0].rounds, get(&m[1].rounds));
        put(&m[0].last, get(&m[1].last));
        put(&m[0].within, get(&m[1].within));
        put(&m[0].at, get(&m[1].at));
    }
    set_mark(&m[1], r->over, f);
}

void td_figures_note(td_figures *f, const td_figures_round *r)
{
    uint64_t took = r->over > r->came ? r->over - r->came : 0;
    if (r->over - get(&f->mark[1].at) >= MARK_NS) move_marks(f, r);
    put(&f->left, r->number);
    put(&f->left_at, r->over);
    if (r->failed) {
        put(&f->failed, r->failed);
        return;
    }
    _Atomic uint64_t *times = &f->times[place_of(took)];
    put(times, get(times) + 1);
    put(&f->rounds, get(&f->rounds) + 1);
    put(&f->within, get(&f->within) + took);
    if (r->last) put(&f->last, get(&f->last) + 1);
}

/* ---- read by anybody */

static double since(const _Atomic uint64_t *now, const _Atomic uint64_t *then)
{
    uint64_t a = get(now), b = get(then);
    return a > b ? (double)(a - b) : 0;
}

void td_figures_read(const td_figures *f, uint64_t now, td_figures_seen *out)
{
    memset(out, 0, sizeof *out);
    out->left = get(&f->left);
    out->left_at = get(&f->left_at);
    out->failed = (unsigned)(get(&f->failed) & 0xffff);
    out->rounds = get(&f->rounds) % MOST;
    out->last = get(&f->last) % MOST;
    uint64_t from = get(&f->mark[0].at);
    if (!from || from >= now) return;
    double most = (double)(now - from) / 1e9, within = since(&f->within, &f->mark[0].within) / 1e9;
    double rounds = since(&f->rounds, &f->mark[0].rounds), last = since(&f->last, &f->mark[0].last);
    out->recently.seconds = most;
    out->recently.rounds = rounds < (double)MOST ? rounds : (double)MOST;
    out->recently.last = last < out->recently.rounds ? last : out->recently.rounds;
    out->recently.within = within < most ? within : most;
}

void td_figures_add(const td_figures *f, uint64_t sum[TD_FIGURES_TIMES])
{
    for (int i = 0; i < TD_FIGURES_TIMES; i++) sum[i] += get(&f->times[i]) % MOST;
}

/* Where a place's times begin, in ns. */
static double begin_of(unsigned place)
{
    if (place < 4) return place;
    return (double)((UINT64_C(4) + place % 4) << (place / 4 - 1));
}

double td_figures_quantile(const uint64_t times[TD_FIGURES_TIMES], double part)
{
    double all = 0, before = 0;
    for (unsigned i = 0; i < TD_FIGURES_TIMES; i++) all += (double)times[i];
    for (unsigned i = 0; i < TD_FIGURES_TIMES; i++) {
        double here = (double)times[i];
        if (here > 0 && before + here >= part * all) {
            double from = begin_of(i), to = begin_of(i + 1);
            return (from + (to - from) * (part * all - before) / here) / 1e9;
        }
        before += here;
    }
    return 0;
}
