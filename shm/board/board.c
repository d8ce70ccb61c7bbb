/* See board.h. All atomic operations here are sequentially consistent: two places rest on it. Who is going to sleep
 * says so and looks once more, and who changes something looks for sleepers afterwards. Who does a dead rank's chunk
 * names it in its line and looks once more whether it is done, and who finds the round done looks at the lines
 * afterwards. */
#include "shm/board/board.h"
#include "proto/base/clock.h"
#include "shm/board/combine.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A word of a round: its number, then 16 bits. */
#define BITS 16
#define CALL_WORDS 5 /* of a td_board_call */
#define NUMBER_MASK ((UINT64_C(1) << TD_BOARD_ROUND_BITS) - 1)

/* A fate: 20 bits of the number, 4 of the state, 8 of a rank. A slot's fate is written in each of its rounds, so a
 * number that has come round again is never taken for its own. */
enum { FATE_OPEN = 0, FATE_READY, FATE_DONE, FATE_MISMATCH, FATE_MEMBER, FATE_GAVE_UP, FATE_ENDED };

typedef struct line {
    _Alignas(128) _Atomic uint64_t next; /* the first round that it has not arrived at; 0: the first */
    _Atomic uint64_t since;              /* when it made its last call */
    _Atomic uint64_t call[CALL_WORDS];   /* that call */
    _Alignas(64) _Atomic uint64_t work;  /* a round and, from 1, the chunk of it that it does or is about to claim */
} line;

typedef struct arrival {
    _Alignas(64) _Atomic uint64_t call[CALL_WORDS];
    _Alignas(64) unsigned char payload[TD_BOARD_PAYLOAD];
} arrival;

typedef struct slot {
    _Alignas(64) _Atomic uint32_t fate;
    _Atomic uint32_t bell;                                     /* counts what sleepers may want to know */
    _Atomic uint64_t asleep;                                   /* a round in which somebody sleeps */
    _Atomic uint64_t rang;                                     /* td_clock_ns(): when the bell was rung last */
    _Atomic uint64_t again;                                    /* a round in which a dead rank's chunk was done again */
    _Alignas(64) _Atomic uint64_t cursor;                      /* the next chunk to claim */
    _Alignas(64) _Atomic uint64_t here[TD_BOARD_RANKS / BITS]; /* a bit a rank */
    _Atomic uint64_t done[TD_BOARD_CHUNKS / BITS];             /* a bit a chunk */
    arrival arrivals[];
} slot;

/* Where a rank is in a round. */
enum {
    AT_HERE,      /* set the own bit */
    AT_NEXT,      /* move the own line on */
    AT_LOOK,      /* at the fate */
    AT_ALL,       /* are all here? */
    AT_DECIDE,    /* all are: open becomes ready, done or mismatch */
    AT_BROKEN,    /* not all are: does the page say that one will not come? */
    AT_MEMBER,    /* so it is: open becomes lost */
    AT_THIN,      /* or that those who are not here have no part in it? */
    AT_PAGE,      /* or that the epoch is over? */
    AT_ENDED,     /* so it is: open becomes ended */
    AT_CURSOR,    /* is there a chunk to claim? */
    AT_NOTE,      /* name it in the own line */
    AT_CLAIM,     /* move the cursor on */
    AT_BIT,       /* it is done */
    AT_CLEAR,     /* name none */
    AT_BITS,      /* are all done? */
    AT_FINISH,    /* ready becomes done */
    AT_DEATHS,    /* not all are: has somebody died? */
    AT_ORPHAN,    /* find a chunk that is not done */
    AT_LINE,      /* does a living rank name it? */
    AT_AGAIN,     /* none: say that one is done again */
    AT_ADOPT,     /* name it in the own line */
    AT_ONCE_MORE, /* and look whether it is done by now */
    AT_RING,      /* does anybody sleep? */
    AT_BELL,      /* ring */
    AT_DROWSE,    /* say that one is going to sleep */
    AT_HEAR,      /* read the bell */
    AT_OVER,      /* done: was a chunk done again? */
    AT_LINGER,    /* then wait until no living rank works on this round */
    AT_QUIT,      /* the deadline is over: open or ready becomes given up */
    AT_END
};

/* -- Layout -- */

static uint64_t slot_bytes(uint32_t members)
{
    return sizeof(slot) + members * sizeof(arrival);
}

/* Lines, slots of rounds, figures. */
static uint64_t figures_at(uint32_t members)
{
    return (members * sizeof(line) + TD_BOARD_SLOTS * slot_bytes(members) + 127) & ~UINT64_C(127);
}

static uint64_t words_bytes(uint32_t members)
{
    uint64_t n = figures_at(members) + members * sizeof(td_figures);
    return (n + 4095) & ~UINT64_C(4095);
}

uint64_t td_board_bytes(uint32_t members)
{
    return td_board_small_result(members, 2);
}

uint64_t td_board_small_input(uint32_t members, uint32_t rank, unsigned turn)
{
    return words_bytes(members) + (2 * (uint64_t)rank + turn) * TD_BOARD_SMALL;
}

uint64_t td_board_small_result(uint32_t members, unsigned turn)
{
    return td_board_small_input(members, members, turn);
}

uint64_t td_board_large_input(uint32_t members, uint32_t rank, unsigned turn)
{
    (void)members;
    return (2 * (uint64_t)rank + turn) * TD_BOARD_LARGE;
}

uint64_t td_board_large_result(uint32_t members, unsigned turn)
{
    return td_board_large_input(members, members, turn);
}

uint64_t td_board_buffer_input(uint64_t bytes, uint32_t rank)
{
    return rank * ((bytes + 4095) & ~UINT64_C(4095));
}

uint64_t td_board_buffer_bytes(uint32_t members, uint64_t bytes)
{
    return td_board_buffer_input(bytes, members + 1);
}

uint64_t td_board_large_bytes(uint32_t members)
{
    return td_board_large_result(members, 2);
}

static line *line_of(const void *base, uint32_t rank)
{
    return (line *)base + rank;
}

static slot *slot_of(const void *base, uint32_t members, uint64_t number)
{
    return (slot *)((unsigned char *)base + members * sizeof(line) + number % TD_BOARD_SLOTS * slot_bytes(members));
}

td_figures *td_board_figures(const void *base, uint32_t members, uint32_t rank)
{
    return (td_figures *)((unsigned char *)base + figures_at(members)) + rank;
}

const char *td_collective_name(unsigned kind)
{
    static const char *const names[TD_COLL_COUNT] = {"no call",    "barrier",   "all_reduce",     "broadcast",
                                                     "all_gather", "reduce",    "reduce_scatter", "gather",
                                                     "scatter",    "all_to_all"};
    return kind < TD_COLL_COUNT ? names[kind] : "?";
}

/* -- Words -- */

static uint64_t word_of(uint64_t number, uint64_t low)
{
    return number << BITS | low;
}

/* The low bits of a round's word; none when it is of another round. */
static unsigned low_bits(uint64_t word, uint64_t number)
{
    return word >> BITS == number ? (unsigned)(word & ((1u << BITS) - 1)) : 0;
}

static uint32_t fate_of(uint64_t number, unsigned state, unsigned rank)
{
    return (uint32_t)(number << 12) | (uint32_t)state << 8 | rank;
}

static unsigned fate_state(uint32_t fate, uint64_t number)
{
    return (fate ^ (uint32_t)(number << 12)) >> 12 ? FATE_OPEN : fate >> 8 & 15;
}

/* All of `n` things that are marked in words of 16 bits. */
static bool all_set(const _Atomic uint64_t *words, uint64_t number, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += BITS) {
        unsigned all = n - i >= BITS ? (1u << BITS) - 1 : (1u << (n - i)) - 1;
        if ((low_bits(atomic_load(&words[i / BITS]), number) & all) != all) return false;
    }
    return true;
}

static bool is_set(const _Atomic uint64_t *words, uint64_t number, uint32_t i)
{
    return low_bits(atomic_load(&words[i / BITS]), number) >> i % BITS & 1;
}

/* One try; whatever stood there. */
static bool try_set(_Atomic uint64_t *words, uint64_t number, uint32_t i)
{
    uint64_t was = atomic_load_explicit(&words[i / BITS], memory_order_relaxed);
    return atomic_compare_exchange_strong(&words[i / BITS], &was,
                                          word_of(number, low_bits(was, number) | 1u << i % BITS));
}

/* Calls are copied word by word: who reads one that is being scribbled over gets some call. */
static void write_call(_Atomic uint64_t to[CALL_WORDS], const td_board_call *call)
{
    uint64_t words[CALL_WORDS];
    memcpy(words, call, sizeof words);
    for (int i = 0; i < CALL_WORDS; i++) atomic_store_explicit(&to[i], words[i], memory_order_relaxed);
}

static void read_call(td_board_call *call, _Atomic uint64_t from[CALL_WORDS])
{
    uint64_t words[CALL_WORDS];
    for (int i = 0; i < CALL_WORDS; i++) words[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
    memcpy(call, words, sizeof words);
}

_Static_assert(sizeof(td_board_call) == CALL_WORDS * 8, "a call is whole words");

static bool alike(const td_board_call *a, const td_board_call *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->place == b->place && a->root == b->root &&
           a->bytes == b->bytes && a->count == b->count && a->whole == b->whole && a->nr == b->nr;
}

/* -- Bells -- */

static long futex(_Atomic uint32_t *at, int op, uint32_t value, const struct timespec *t)
{
    return syscall(SYS_futex, at, op, value, t, NULL, 0);
}

void td_board_wake(void *base, uint32_t members)
{
    uint64_t now = td_clock_ns();
    for (unsigned i = 0; i < TD_BOARD_SLOTS; i++) {
        slot *s = slot_of(base, members, i);
        atomic_store(&s->rang, now);
        atomic_fetch_add(&s->bell, 1);
        if (atomic_load(&s->asleep)) futex(&s->bell, FUTEX_WAKE, INT_MAX, NULL);
    }
}

static void lower(_Atomic uint64_t *first, uint64_t until, uint32_t rank)
{
    uint64_t was = atomic_load(first);
    if (!was || until < was >> BITS) atomic_store(first, word_of(until, rank));
}

/* What a death changes in the page. A rank that may be writing yet could come to a round that others complete without
 * it: then they would not be of one mind about who was in it. */
static uint64_t record_death(void *base, td_page *page, uint32_t rank, td_rank_state how)
{
    bool goes_on = page->policy == TD_PAGE_SHRINKS && how != TD_RANK_CUT && how != TD_RANK_EXPELLED;
    td_page_rank *r = &page->rank[rank];
    uint64_t until = atomic_load(&r->until);
    if (!until) {
        until = atomic_load(&line_of(base, rank)->next) & NUMBER_MASK;
        if (!until || until == NUMBER_MASK) until = 1;
        /* It may have gone after it had arrived, and before it said so in its line. */
        if (is_set(slot_of(base, page->members, until)->here, until, rank)) until++;
        if (!goes_on) lower(&page->broken, until, rank);
        atomic_store(&r->until, until);
        if (goes_on) atomic_store(&r->out, until);
        if (goes_on) lower(&page->thinned, until, rank);
    }
    if (atomic_exchange(&r->state, how) != TD_RANK_DEAD && how == TD_RANK_DEAD) atomic_fetch_add(&page->dead, 1);
    atomic_fetch_add(&page->news, 1);
    return until;
}

uint64_t td_board_post_mortem(void *base, td_page *page, uint32_t rank, td_rank_state how)
{
    uint64_t until = record_death(base, page, rank, how);
    td_board_wake(base, page->members);
    return until;
}

/* -- A round -- */

void td_board_open(td_board *b, void *base, const td_page *page, uint32_t rank, uint32_t members)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    *b = (td_board){.base = base, .page = page, .rank = rank, .members = members, .next = 1, .processors = (uint32_t)n};
}

/* A chunk is so large that each rank has some, and so small that one that is late holds up little. */
static void cut(td_round *r, uint32_t members)
{
    enum { LEAST = 16 << 10, MOST = 128 << 10, PAGE = 4096 };
    uint64_t chunk = r->bytes / (4 * (uint64_t)members);
    chunk = chunk < LEAST ? LEAST : chunk > MOST ? MOST : chunk;
    if (r->bytes / chunk >= TD_BOARD_CHUNKS) chunk = r->bytes / TD_BOARD_CHUNKS + 1;
    chunk = (chunk + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    r->chunk_bytes = (uint32_t)chunk;
    r->chunks = (uint32_t)((r->bytes + chunk - 1) / chunk);
}

void td_board_begin(td_board *b, td_round *r, const td_board_call *call, const void *payload, const void *const *in,
                    void *out)
{
    *r = (td_round){.number = b->next++, .call = *call, .in = in, .out = out};
    r->call.round = r->number;
    r->bytes = call->count * td_dtype_size((td_dtype)call->dtype);
    if (td_collective_sums(call->kind) && td_board_in_slot(call->place)) cut(r, b->members);
    if (b->broken) {
        r->outcome = b->broken;
        r->culprit = b->culprit;
        r->at = AT_END;
        r->noted = true;
        return;
    }
    arrival *a = &slot_of(b->base, b->members, r->number)->arrivals[b->rank];
    line *l = line_of(b->base, b->rank);
    write_call(a->call, &r->call);
    if (call->bytes) memcpy(a->payload, payload, call->bytes < TD_BOARD_PAYLOAD ? call->bytes : TD_BOARD_PAYLOAD);
    write_call(l->call, &r->call);
    r->came = td_clock_ns();
    atomic_store_explicit(&l->since, r->came, memory_order_relaxed);
}

/* The lowest rank that called otherwise than the first; 0 when none did. */
static uint32_t who_differs(const td_board *b, slot *s, uint64_t number)
{
    td_board_call first, other;
    uint32_t i = 0;
    while (i < b->members && td_page_is_out(b->page, i, number)) i++;
    if (i == b->members) return 0;
    read_call(&first, s->arrivals[i].call);
    for (i++; i < b->members; i++) {
        if (td_page_is_out(b->page, i, number)) continue;
        read_call(&other, s->arrivals[i].call);
        if (!alike(&first, &other)) return i;
    }
    return 0;
}

/* Nobody else has what is to be passed on. */
static bool lacks_root(const td_board *b, const td_round *r)
{
    bool from_root = r->call.kind == TD_COLL_BROADCAST || r->call.kind == TD_COLL_SCATTER;
    return from_root && r->call.root < b->members && td_page_is_out(b->page, r->call.root, r->number);
}

/* All are here that have a part in it. What is seen here does not become otherwise, so it may be seen word by word. */
static bool rest_is_out(const td_board *b, slot *s, uint64_t number)
{
    for (uint32_t i = 0; i < b->members; i++)
        if (!is_set(s->here, number, i) && !td_page_is_out(b->page, i, number)) return false;
    return true;
}

/* From open or ready to a later state. The bell is rung for those who want to know. */
static td_board_did swap_fate(slot *s, td_round *r, unsigned state, uint32_t rank, uint32_t wake)
{
    uint32_t was = r->seen;
    bool swapped = atomic_compare_exchange_strong(&s->fate, &was, fate_of(r->number, state, rank));
    r->wake = wake;
    r->decided |= swapped && fate_state(r->seen, r->number) == FATE_OPEN;
    r->at = swapped && wake ? AT_RING : AT_LOOK;
    return TD_DID_STEP;
}

static td_board_did decide(td_board *b, slot *s, td_round *r)
{
    uint32_t other = who_differs(b, s, r->number);
    if (other) return swap_fate(s, r, FATE_MISMATCH, other, INT_MAX);
    if (lacks_root(b, r)) return swap_fate(s, r, FATE_MEMBER, r->call.root, INT_MAX);
    if (!r->chunks) return swap_fate(s, r, FATE_DONE, 0, INT_MAX);
    uint32_t helpers = r->chunks < b->processors ? r->chunks : b->processors;
    return swap_fate(s, r, FATE_READY, 0, helpers - 1);
}

/* There is nothing to do: once more for who has said that it is going to sleep. */
static td_board_did idle(td_round *r)
{
    bool sleeps = r->drowsy;
    r->drowsy = false;
    r->at = AT_LOOK;
    return sleeps ? TD_DID_SLEEP : TD_DID_WAIT;
}

static td_board_did end(td_board *b, td_round *r, td_round_outcome outcome, uint32_t culprit)
{
    r->outcome = outcome;
    r->culprit = (uint16_t)(culprit < b->members ? culprit : 0); /* a fate may have been scribbled over */
    r->at = AT_END;
    if (!b->broken && outcome >= TD_OUTCOME_MEMBER && !(outcome == TD_OUTCOME_MEMBER && lacks_root(b, r))) {
        b->broken = r->outcome;
        b->culprit = r->culprit;
    }
    return TD_DID_END;
}

static td_board_did look(td_board *b, slot *s, td_round *r)
{
    r->seen = atomic_load(&s->fate);
    unsigned state = fate_state(r->seen, r->number);
    if (r->quits && state <= FATE_READY) {
        r->at = AT_QUIT;
        return TD_DID_STEP;
    }
    switch (state) {
    case FATE_DONE: r->at = AT_OVER; return TD_DID_STEP;
    case FATE_MISMATCH: return end(b, r, TD_OUTCOME_MISMATCH, r->seen & 255);
    case FATE_MEMBER: return end(b, r, TD_OUTCOME_MEMBER, r->seen & 255);
    case FATE_GAVE_UP: return end(b, r, TD_OUTCOME_GAVE_UP, r->seen & 255);
    case FATE_ENDED: return end(b, r, TD_OUTCOME_ENDED, r->seen & 255);
    case FATE_READY: r->at = AT_CURSOR; return TD_DID_STEP;
    default: r->at = AT_ALL; return TD_DID_STEP;
    }
}

/* The cursor stands at r->word: name the next chunk, or none when there is none. */
static td_board_did aim(td_round *r)
{
    r->chunk = low_bits(r->word, r->number);
    r->at = r->chunk < r->chunks ? AT_NOTE : AT_CLEAR;
    return TD_DID_STEP;
}

static td_board_did claim(slot *s, td_round *r)
{
    if (!atomic_compare_exchange_strong(&s->cursor, &r->word, word_of(r->number, r->chunk + 1))) return aim(r);
    r->at = AT_BIT;
    return TD_DID_CLAIM;
}

/* The next chunk from r->chunk on that is not done. */
static td_board_did find_orphan(slot *s, td_round *r)
{
    while (r->chunk < r->chunks && is_set(s->done, r->number, r->chunk)) r->chunk++;
    if (r->chunk == r->chunks) return idle(r);
    r->line = 0;
    r->at = AT_LINE;
    return TD_DID_STEP;
}

/* A living rank's word for what it works on; 0 of one that is dead. */
static uint64_t works_on(const td_board *b, uint32_t rank)
{
    uint64_t work = atomic_load(&line_of(b->base, rank)->work);
    return atomic_load(&b->page->rank[rank].state) == TD_RANK_DEAD ? 0 : work;
}

static td_board_did look_at_line(td_board *b, td_round *r)
{
    if (r->line == b->members) {
        r->at = AT_AGAIN;
    } else if (r->line == b->rank || works_on(b, r->line) != word_of(r->number, r->chunk + 1)) {
        r->line++;
    } else { /* in good hands */
        r->chunk++;
        r->at = AT_ORPHAN;
    }
    return TD_DID_STEP;
}

static td_board_did linger(td_board *b, td_round *r)
{
    if (r->line == b->members) return end(b, r, TD_OUTCOME_DONE, 0);
    if (r->line != b->rank && works_on(b, r->line) >> BITS == r->number) {
        if (r->quits) return end(b, r, TD_OUTCOME_GAVE_UP, b->rank);
        return TD_DID_LINGER;
    }
    r->line++;
    return TD_DID_STEP;
}

static td_board_did next(td_round *r, int at)
{
    r->at = (uint8_t)at;
    return TD_DID_STEP;
}

td_board_did td_board_step(td_board *b, td_round *r)
{
    uint64_t n = r->number;
    slot *s = slot_of(b->base, b->members, n);
    line *own = line_of(b->base, b->rank);
    switch (r->at) {
    case AT_HERE: return next(r, try_set(s->here, n, b->rank) ? AT_NEXT : AT_HERE);
    case AT_NEXT: atomic_store(&own->next, n + 1); return next(r, AT_LOOK);
    case AT_LOOK: return look(b, s, r);
    case AT_ALL: return next(r, all_set(s->here, n, b->members) ? AT_DECIDE : AT_BROKEN);
    case AT_DECIDE: return decide(b, s, r);
    case AT_BROKEN: {
        uint64_t broken = atomic_load(&b->page->broken);
        r->culprit = (uint16_t)broken;
        return next(r, broken && broken >> BITS <= n ? AT_MEMBER : AT_THIN);
    }
    case AT_THIN: {
        uint64_t thinned = atomic_load(&b->page->thinned);
        return next(r, thinned && thinned >> BITS <= n && rest_is_out(b, s, n) ? AT_DECIDE : AT_PAGE);
    }
    case AT_MEMBER: return swap_fate(s, r, FATE_MEMBER, r->culprit, INT_MAX);
    case AT_PAGE:
        if (atomic_load(&b->page->state) != TD_PAGE_ENDED) return idle(r);
        return next(r, AT_ENDED);
    case AT_ENDED: return swap_fate(s, r, FATE_ENDED, 0, INT_MAX);
    case AT_CURSOR: r->word = atomic_load(&s->cursor); return aim(r);
    case AT_NOTE: atomic_store(&own->work, word_of(n, r->chunk + 1)); return next(r, AT_CLAIM);
    case AT_CLAIM: return claim(s, r);
    case AT_BIT: return next(r, try_set(s->done, n, r->chunk) ? AT_CURSOR : AT_BIT);
    case AT_CLEAR:
        if (atomic_load_explicit(&own->work, memory_order_relaxed)) atomic_store(&own->work, 0);
        return next(r, AT_BITS);
    case AT_BITS: return next(r, all_set(s->done, n, r->chunks) ? AT_FINISH : AT_DEATHS);
    case AT_FINISH: return swap_fate(s, r, FATE_DONE, 0, INT_MAX);
    case AT_DEATHS:
        if (!atomic_load(&b->page->dead)) return idle(r);
        r->chunk = 0;
        return next(r, AT_ORPHAN);
    case AT_ORPHAN: return find_orphan(s, r);
    case AT_LINE: return look_at_line(b, r);
    case AT_AGAIN: atomic_store(&s->again, n); return next(r, AT_ADOPT);
    case AT_ADOPT: atomic_store(&own->work, word_of(n, r->chunk + 1)); return next(r, AT_ONCE_MORE);
    case AT_ONCE_MORE:
        if (is_set(s->done, n, r->chunk)) return next(r, AT_CLEAR);
        r->at = AT_BIT;
        return TD_DID_CLAIM;
    case AT_RING: return next(r, atomic_load(&s->asleep) == n ? AT_BELL : AT_LOOK);
    case AT_BELL:
        atomic_store_explicit(&s->rang, td_clock_ns(), memory_order_relaxed);
        atomic_fetch_add(&s->bell, 1);
        r->at = AT_LOOK;
        return TD_DID_WAKE;
    case AT_DROWSE: atomic_store(&s->asleep, n); return next(r, AT_HEAR);
    case AT_HEAR: r->bell = atomic_load(&s->bell); return next(r, AT_LOOK);
    case AT_OVER:
        if (!r->chunks || atomic_load(&s->again) != n) return end(b, r, TD_OUTCOME_DONE, 0);
        r->line = 0;
        return next(r, AT_LINGER);
    case AT_QUIT: return swap_fate(s, r, FATE_GAVE_UP, b->rank, INT_MAX);
    case AT_LINGER: return linger(b, r);
    default: return TD_DID_END;
    }
}

void td_board_drowse(td_round *r)
{
    r->drowsy = true;
    r->at = AT_DROWSE;
}

void td_board_quit(td_round *r)
{
    r->quits = true;
    if (r->at != AT_END) r->at = AT_LOOK;
}

void td_board_chunk(const td_board *b, const td_round *r)
{
    const void *in[TD_BOARD_RANKS];
    uint64_t at = (uint64_t)r->chunk * r->chunk_bytes, rest = r->bytes - at;
    uint64_t bytes = rest < r->chunk_bytes ? rest : r->chunk_bytes;
    td_dtype dtype = (td_dtype)r->call.dtype;
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->members; i++)
        if (!td_page_is_out(b->page, i, r->number)) in[n++] = (const unsigned char *)r->in[i] + at;
    td_combine((td_reduce_op)r->call.op, dtype, (unsigned char *)r->out + at, in, n, bytes / td_dtype_size(dtype));
}

void td_board_rouse(const td_board *b, const td_round *r)
{
    futex(&slot_of(b->base, b->members, r->number)->bell, FUTEX_WAKE, r->wake, NULL);
}

bool td_board_sleep(const td_board *b, const td_round *r, unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    return futex(&slot_of(b->base, b->members, r->number)->bell, FUTEX_WAIT, r->bell, &t) == 0 || errno != EINTR;
}

/* -- What steps are put together to -- */

enum { MOST_STEPS = 1 << 20, MOST_TRIES = 10000 }; /* of an honest board, far fewer are made */

/* Steps until there is nothing to do; TD_DID_STEP when there would be and it has been at it for too long. */
static td_board_did advance(td_board *b, td_round *r)
{
    uint32_t claims = 0;
    for (unsigned i = 0; i < MOST_STEPS && claims <= TD_BOARD_CHUNKS; i++) {
        td_board_did did = td_board_step(b, r);
        if (did == TD_DID_CLAIM) {
            td_board_chunk(b, r);
            claims++;
        } else if (did == TD_DID_WAKE) {
            td_board_rouse(b, r);
        } else if (did != TD_DID_STEP) {
            return did;
        }
    }
    return TD_DID_STEP;
}

void td_board_arrive(td_board *b, td_round *r, const td_board_call *call, const void *payload, const void *const *in,
                     void *out)
{
    td_board_begin(b, r, call, payload, in, out);
    for (unsigned i = 0; i < MOST_TRIES && (r->at == AT_HERE || r->at == AT_NEXT); i++) td_board_step(b, r);
}

/* The round's outcome; at its end the figures are brought up to it. Whoever finds all here is the last to arrive, but
 * where that one was overtaken. */
static td_round_outcome outcome_of(td_board *b, td_round *r, uint64_t now)
{
    if (r->at != AT_END || r->noted) return (td_round_outcome)r->outcome;
    r->noted = true;
    td_figures_round of = {.number = r->number,
                           .came = r->came,
                           .over = now,
                           .last = r->decided,
                           .failed = r->outcome == TD_OUTCOME_DONE ? 0 : r->outcome | (unsigned)r->culprit << 8};
    td_figures_note(td_board_figures(b->base, b->members, b->rank), &of);
    return (td_round_outcome)r->outcome;
}

/* Now, but that a round without chunks has taken no time from who came last. */
static uint64_t end_at(const td_round *r)
{
    return r->chunks || !r->decided ? td_clock_ns() : r->came;
}

td_round_outcome td_board_poll(td_board *b, td_round *r)
{
    bool over = advance(b, r) == TD_DID_END;
    return outcome_of(b, r, over ? end_at(r) : 0);
}

struct watched {
    const slot *slot;
    uint32_t seen;
};

static bool fate_moved(void *arg)
{
    const struct watched *w = arg;
    return atomic_load(&w->slot->fate) != w->seen;
}

/* Asleep until a bell, or the end of the slice; false when a signal came. */
static bool sleep_on(td_board *b, td_round *r, uint64_t began, uint64_t until)
{
    const slot *s = slot_of(b->base, b->members, r->number);
    uint64_t slept = td_clock_ns();
    if (slept >= until) return true;
    if (!td_board_sleep(b, r, (unsigned)((until - slept + 999999) / 1000000))) return false;
    uint64_t now = td_clock_ns(), rang = atomic_load_explicit(&s->rang, memory_order_relaxed);
    if (rang > slept && rang < now) { /* else the time was over, or the bell rang before */
        td_patience_woke(&b->patience, now - rang);
        td_patience_took(&b->patience, rang - began);
    }
    return true;
}

td_round_outcome td_board_wait(td_board *b, td_round *r, unsigned ms)
{
    static const struct timespec soon = {.tv_nsec = 50000};
    td_board_did did = advance(b, r);
    if (did == TD_DID_END) return outcome_of(b, r, end_at(r));
    uint64_t began = td_clock_ns(), now = began;
    uint64_t until = began + (ms < TD_BOARD_SLICE_MS ? ms : TD_BOARD_SLICE_MS) * UINT64_C(1000000);
    for (; did != TD_DID_END; now = td_clock_ns(), did = advance(b, r)) {
        if (now >= until) return TD_OUTCOME_OPEN;
        if (did == TD_DID_SLEEP) {
            if (!sleep_on(b, r, began, until)) return TD_OUTCOME_OPEN;
        } else if (did == TD_DID_WAIT) {
            struct watched w = {slot_of(b->base, b->members, r->number), r->seen};
            if (!td_patience_has(&b->patience, now) ||
                !td_patience_look(&b->patience, td_patience_ns(&b->patience), fate_moved, &w))
                td_board_drowse(r);
        } else if (nanosleep(&soon, NULL)) {
            return TD_OUTCOME_OPEN;
        }
    }
    return outcome_of(b, r, r->chunks ? td_clock_ns() : now);
}

td_round_outcome td_board_give_up(td_board *b, td_round *r)
{
    td_board_quit(r);
    td_board_did did = advance(b, r);
    if (did != TD_DID_END) end(b, r, TD_OUTCOME_GAVE_UP, b->rank);
    return outcome_of(b, r, td_clock_ns());
}

/* -- What others said -- */

const void *td_board_payload(const td_board *b, const td_round *r, uint32_t rank)
{
    return slot_of(b->base, b->members, r->number)->arrivals[rank].payload;
}

bool td_board_said(const td_board *b, const td_round *r, uint32_t rank, td_board_call *call)
{
    slot *s = slot_of(b->base, b->members, r->number);
    if (rank >= b->members || !is_set(s->here, r->number, rank)) return false;
    read_call(call, s->arrivals[rank].call);
    return true;
}

uint32_t td_board_missing(const td_board *b, const td_round *r, uint32_t *ranks, uint32_t most)
{
    slot *s = slot_of(b->base, b->members, r->number);
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->members; i++) {
        if (is_set(s->here, r->number, i) || td_page_is_out(b->page, i, r->number)) continue;
        if (n < most) ranks[n] = i;
        n++;
    }
    return n;
}

void td_board_last(const void *base, uint32_t rank, td_board_call *call, uint64_t *since_ns)
{
    line *l = line_of(base, rank);
    read_call(call, l->call);
    *since_ns = atomic_load_explicit(&l->since, memory_order_relaxed);
}

uint64_t td_board_rounds(const void *base, uint32_t rank)
{
    uint64_t next = atomic_load_explicit(&line_of(base, rank)->next, memory_order_relaxed) & NUMBER_MASK;
    return next ? next - 1 : 0;
}
