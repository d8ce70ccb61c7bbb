/* See ring.h. What makes it safe to sleep: both sides publish (a position, or that they sleep), then pass a full fence,
 * then look at what the other has published. One of the two sees the other's word. */
#include "proto/wire/ring.h"
#include "proto/base/clock.h"

#include <string.h>

void td_ring_clear(td_ring_memory *m)
{
    memset((void *)m->ends, 0, sizeof m->ends);
}

void td_ring_init(td_ring *r, td_ring_memory *m, bool daemon)
{
    int in = daemon ? 0 : 1;
    *r = (td_ring){.in = &m->ends[in], .out = &m->ends[!in], .in_bytes = m->bytes[in], .out_bytes = m->bytes[!in]};
}

static uint32_t load(const _Atomic uint32_t *p)
{
    return atomic_load_explicit(p, memory_order_acquire);
}

/* Bytes from `at` to the end of the pipe's memory, at most `most`. */
static size_t straight(uint32_t at, size_t most)
{
    size_t end = TD_RING_PIPE - at % TD_RING_PIPE;
    return most < end ? most : end;
}

long td_ring_read(td_ring *r, void *to, size_t most)
{
    uint32_t there = load(&r->in->head) - r->tail;
    if (there > TD_RING_PIPE) return -1;
    size_t n = there < most ? there : most, first = straight(r->tail, n);
    if (!n) return 0;
    memcpy(to, r->in_bytes + r->tail % TD_RING_PIPE, first);
    memcpy((uint8_t *)to + first, r->in_bytes, n - first);
    r->tail += (uint32_t)n;
    atomic_store_explicit(&r->in->tail, r->tail, memory_order_release);
    return (long)n;
}

long td_ring_write(td_ring *r, const void *from, size_t n)
{
    uint32_t used = r->head - load(&r->out->tail);
    if (used > TD_RING_PIPE) return -1;
    if (n > TD_RING_PIPE - used) n = TD_RING_PIPE - used;
    if (!n) return 0;
    size_t first = straight(r->head, n);
    memcpy(r->out_bytes + r->head % TD_RING_PIPE, from, first);
    memcpy(r->out_bytes, (const uint8_t *)from + first, n - first);
    r->head += (uint32_t)n;
    atomic_store_explicit(&r->out->head, r->head, memory_order_release);
    return (long)n;
}

bool td_ring_readable(const td_ring *r)
{
    return load(&r->in->head) != r->tail;
}

uint32_t td_ring_waiting(const td_ring *r)
{
    uint32_t n = load(&r->in->head) - r->tail;
    return n <= TD_RING_PIPE ? n : 0;
}

bool td_ring_writable(const td_ring *r)
{
    return atomic_load_explicit(&r->out->head, memory_order_relaxed) - load(&r->out->tail) < TD_RING_PIPE;
}

/* Count up to the next odd or even number. */
static void say(_Atomic uint32_t *to, uint32_t *own, bool odd)
{
    *own += (*own & 1) == odd ? 2 : 1;
    atomic_store_explicit(to, *own, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

void td_ring_sleep(td_ring *r)
{
    say(&r->in->asleep, &r->asleep, true);
}

void td_ring_wake(td_ring *r)
{
    if (r->asleep & 1) say(&r->in->asleep, &r->asleep, false);
}

void td_ring_want_room(td_ring *r)
{
    say(&r->out->full, &r->full, true);
}

void td_ring_have_room(td_ring *r)
{
    if (r->full & 1) say(&r->out->full, &r->full, false);
}

static bool news(const _Atomic uint32_t *count, uint32_t *heard)
{
    uint32_t now = atomic_load_explicit(count, memory_order_relaxed);
    if (!(now & 1) || now == *heard) return false;
    *heard = now;
    return true;
}

bool td_ring_frees_writer(td_ring *r)
{
    atomic_thread_fence(memory_order_seq_cst);
    return news(&r->in->full, &r->heard_full);
}

bool td_ring_frees_reader(td_ring *r)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (!news(&r->out->asleep, &r->heard_asleep)) return false;
    atomic_store_explicit(&r->out->rang, td_clock_ns(), memory_order_relaxed);
    return true;
}

uint64_t td_ring_rang(const td_ring *r, uint64_t since, uint64_t now)
{
    uint64_t rang = atomic_load_explicit(&r->in->rang, memory_order_relaxed);
    return rang > since && rang < now ? rang : now;
}
