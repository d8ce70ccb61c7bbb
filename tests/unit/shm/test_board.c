/* Boards: every order of the steps of three ranks over two rounds, with a death, a stop or a rank that gives up after
 * any step; then processes that are killed and stopped, and threads.
 *
 * The search takes the board's own steps (td_board_step), one at a time, and goes every way from every state that it
 * has not seen. A chunk is two steps more, which stand for reading the inputs and writing the result. An input is
 * spoilt as soon as its rank is back, and written anew for the next round. Nobody's sleep ends by itself, so a bell
 * that was missed is a state without a way on. */
#include "shm/board/board.c"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

/* -- All orders -- */

enum { RANKS = 3, ROUNDS = 2, MOST_CHUNKS = 2, ALL = (1 << RANKS) - 1, SPOILT = 99 };

enum phase { NEW, STEPPING, READING, WRITING, WAKING, DOZING, ASLEEP, BACK, FINISHED };

/* What is going to be tried. */
typedef struct plan {
    int chunks, rounds, deaths, stops;
    bool quits;   /* any wait may come to its deadline */
    int odd;      /* the rank whose first call is another one; 0: none */
    bool shrinks; /* rounds are completed without the dead */
    bool root;    /* calls pass on what rank 1 has */
    int cuts;     /* ranks that lose their connections, and go on */
} plan;

static struct {
    unsigned char *base;
    td_page *page;
    plan plan;
    struct member {
        td_board board;
        td_round round;
        uint64_t phase, dead, cut, told, stopped, alone, begun, input, sum, wakes;
    } members[RANKS];
    uint64_t result[MOST_CHUNKS];
    uint64_t deaths, stops, cuts;    /* that may still come */
    uint64_t arrived[1 + ROUNDS];    /* by round: a bit a rank */
    uint64_t fates[1 + ROUNDS];      /* by round: what it was for who is back, 0 as long as nobody is */
    uint64_t states, ends, outcomes; /* seen: states, ends, and which outcomes there were */
    const char *wrong;               /* what was found */
} w;

/* The state in words: to keep one, and to go back to it. */
enum { WORDS = 144 };

static unsigned exchange(uint64_t *state, bool save)
{
    unsigned n = 0;
#define WORD(x)                                                                                                        \
    do {                                                                                                               \
        if (save) state[n] = (uint64_t)(x);                                                                            \
        else (x) = (__typeof__((void)0, (x)))state[n];                                                                 \
        n++;                                                                                                           \
    } while (0)
    for (int i = 1; i <= ROUNDS; i++) {
        slot *s = slot_of(w.base, RANKS, (uint64_t)i);
        WORD(s->fate);
        WORD(s->bell);
        WORD(s->asleep);
        WORD(s->again);
        WORD(s->cursor);
        WORD(s->here[0]);
        WORD(s->done[0]);
        WORD(w.arrived[i]);
        WORD(w.fates[i]);
    }
    WORD(w.page->broken);
    WORD(w.page->thinned);
    WORD(w.page->dead);
    for (int i = 0; i < RANKS; i++) {
        struct member *m = &w.members[i];
        WORD(line_of(w.base, (uint32_t)i)->next);
        WORD(line_of(w.base, (uint32_t)i)->work);
        WORD(w.page->rank[i].state);
        WORD(w.page->rank[i].until);
        WORD(w.page->rank[i].out);
        WORD(m->board.next);
        WORD(m->board.broken);
        WORD(m->board.culprit);
        WORD(m->round.number);
        WORD(m->round.chunks);
        WORD(m->round.call.kind);
        WORD(m->round.call.root);
        WORD(m->round.outcome);
        WORD(m->round.culprit);
        WORD(m->round.at);
        WORD(m->round.drowsy);
        WORD(m->round.quits);
        WORD(m->round.line);
        WORD(m->round.chunk);
        WORD(m->round.seen);
        WORD(m->round.bell);
        WORD(m->round.wake);
        WORD(m->round.word);
        WORD(m->phase);
        WORD(m->dead);
        WORD(m->cut);
        WORD(m->told);
        WORD(m->stopped);
        WORD(m->alone);
        WORD(m->begun);
        WORD(m->input);
        WORD(m->sum);
        WORD(m->wakes);
    }
    for (int i = 0; i < MOST_CHUNKS; i++) WORD(w.result[i]);
    WORD(w.deaths);
    WORD(w.stops);
    WORD(w.cuts);
#undef WORD
    return n;
}

/* States that were seen, by 128 bits of them; the lowest bit says that the way led there and has not come back. */
static struct {
    struct seen {
        uint64_t a, b;
    } * at;
    size_t room, count;
} seen;

static struct seen digest(const uint64_t *state, unsigned n)
{
    uint64_t a = 0x9e3779b97f4a7c15, b = 0xc2b2ae3d27d4eb4f;
    for (unsigned i = 0; i < n; i++) {
        a = (a ^ state[i]) * 0xff51afd7ed558ccd;
        a ^= a >> 32;
        b = (b + state[i]) * 0xc4ceb9fe1a85ec53;
        b ^= b >> 29;
    }
    return (struct seen){a | 1, b & ~UINT64_C(1)};
}

static struct seen *place_of(struct seen s)
{
    size_t i = s.b >> 1 & (seen.room - 1);
    while (seen.at[i].a && (seen.at[i].a != s.a || (seen.at[i].b ^ s.b) > 1)) i = (i + 1) & (seen.room - 1);
    return &seen.at[i];
}

static void remember(struct seen s)
{
    if (2 * ++seen.count > seen.room) {
        struct seen *old = seen.at;
        size_t room = seen.room;
        seen.room = room ? 2 * room : 1 << 16;
        seen.at = calloc(seen.room, sizeof *seen.at);
        for (size_t i = 0; i < room; i++)
            if (old[i].a) *place_of(old[i]) = old[i];
        free(old);
    }
    s.b |= 1;
    *place_of(s) = s;
}

static void wrong(const char *what)
{
    if (!w.wrong) w.wrong = what;
}

static uint64_t value(uint64_t rank, uint64_t round)
{
    return (rank + 1) * (round == 1 ? 1 : 10);
}

static bool is_out(uint32_t rank, uint64_t round)
{
    return td_page_is_out(w.page, rank, round);
}

/* Of those that are in the round. */
static uint64_t total(uint64_t round)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < RANKS; i++) sum += is_out(i, round) ? 0 : value(i, round);
    return sum;
}

/* Everybody is in the round, or dead and out of it; nobody who came is out. */
static bool complete(uint64_t round)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        bool came = w.arrived[round] >> i & 1;
        if (is_out(i, round) ? came || !w.members[i].dead : !came) return false;
    }
    return true;
}

/* A rank is back from a round. */
static void check_end(struct member *m)
{
    td_round *r = &m->round;
    uint64_t n = r->number, fate = 1 + (uint64_t)r->outcome * 16 + r->culprit;
    bool done = r->outcome == TD_OUTCOME_DONE;
    w.outcomes |= 1u << r->outcome;
    /* Who gave up over a chunk that is done again is alone with that. */
    bool alone = r->outcome == TD_OUTCOME_GAVE_UP && r->culprit == m->board.rank &&
                 fate_state(slot_of(w.base, RANKS, n)->fate, n) == FATE_DONE;
    m->alone = alone;
    if (!alone && w.fates[n] && w.fates[n] != fate) wrong("two ranks saw two fates");
    if (!alone) w.fates[n] = fate;
    if (done && !complete(n)) wrong("done without all");
    if (done && w.plan.root && is_out(1, n)) wrong("done without the root");
    for (int i = 0; done && i < w.plan.chunks; i++)
        if (w.result[i] != total(n)) wrong("done, and the result is not whole");
    bool cut = w.members[r->culprit].cut;
    if (r->outcome == TD_OUTCOME_MEMBER && w.plan.shrinks && !cut && !(w.plan.root && r->culprit == 1))
        wrong("a round failed for a rank that it can do without");
    if (r->outcome == TD_OUTCOME_MEMBER && w.plan.shrinks && !cut && m->board.broken) wrong("the epoch does not go on");
    if (r->outcome == TD_OUTCOME_MEMBER && !cut && (!w.members[r->culprit].dead || w.arrived[n] >> r->culprit & 1))
        wrong("a round failed for a rank that lives, or was there");
    if (r->outcome == TD_OUTCOME_MISMATCH && (n != 1 || !w.plan.odd || r->culprit != w.plan.odd))
        wrong("a mismatch of calls that are alike");
    if (done && n == 1 && w.plan.odd) wrong("done with unequal calls");
    if (!r->outcome || r->outcome == TD_OUTCOME_ENDED) wrong("an outcome that there is no reason for");
}

static void begin(struct member *m)
{
    bool odd = m->board.rank && (uint32_t)w.plan.odd == m->board.rank && !m->begun;
    td_board_call call = {.kind = TD_COLL_BARRIER, .dtype = TD_DTYPE_NONE, .root = odd};
    if (w.plan.root) call.kind = TD_COLL_BROADCAST, call.root = 1;
    m->begun++;
    m->input = value(m->board.rank, m->begun);
    td_board_begin(&m->board, &m->round, &call, NULL, NULL, NULL);
    m->round.chunks = (uint32_t)w.plan.chunks;
    m->phase = STEPPING;
}

static void step(struct member *m)
{
    td_round *r = &m->round;
    bool arrives = r->at == AT_HERE;
    td_board_did did = td_board_step(&m->board, r);
    if (arrives && r->at == AT_NEXT) w.arrived[r->number] |= 1u << m->board.rank;
    if (did == TD_DID_CLAIM) m->phase = READING;
    if (did == TD_DID_WAIT) td_board_drowse(r);
    if (did == TD_DID_SLEEP) m->phase = DOZING;
    if (did == TD_DID_END) {
        check_end(m);
        m->phase = BACK;
    }
    if (did == TD_DID_WAKE) {
        m->wakes = r->wake < RANKS ? r->wake : RANKS;
        m->phase = WAKING;
    }
}

/* What a rank knows does not matter when it does nothing more. */
static void forget(struct member *m, uint64_t phase)
{
    memset(&m->round, 0, sizeof m->round);
    m->sum = m->wakes = 0;
    m->phase = phase;
}

static bool asleep_on(const struct member *m, uint64_t round)
{
    return m->phase == ASLEEP && !m->dead && m->round.number == round;
}

/* What a rank does next; `choice`: whom it wakes. False: it does nothing. */
static bool go_on(struct member *m, int choice)
{
    uint64_t n = m->round.number;
    if (m->dead || m->stopped || (choice && m->phase != WAKING)) return false;
    switch (m->phase) {
    case NEW: begin(m); return true;
    case STEPPING: step(m); return true;
    case READING:
        m->sum = 0;
        for (uint32_t i = 0; i < RANKS; i++) m->sum += is_out(i, n) ? 0 : w.members[i].input;
        m->phase = WRITING;
        return true;
    case WRITING:
        if (m->sum != total(n) && fate_state(slot_of(w.base, RANKS, n)->fate, n) <= FATE_DONE)
            wrong("a sum of what was not there for it");
        w.result[m->round.chunk] = m->sum;
        m->phase = STEPPING;
        return true;
    case WAKING: {
        bool any = false;
        for (int i = 0; i < RANKS; i++) any |= asleep_on(&w.members[i], n);
        if (!any || !m->wakes) {
            if (choice) return false;
            m->phase = STEPPING;
            return true;
        }
        if (!asleep_on(&w.members[choice], n)) return false;
        w.members[choice].phase = STEPPING;
        m->wakes--;
        return true;
    }
    case DOZING: m->phase = slot_of(w.base, RANKS, n)->bell == m->round.bell ? ASLEEP : STEPPING; return true;
    case BACK:
        if (!m->alone) m->input = SPOILT;
        forget(m, FINISHED);
        if (m->begun < (uint64_t)w.plan.rounds) begin(m);
        return true;
    default: return false;
    }
}

/* The daemon hears of a death: it changes the page, then wakes who sleeps. */
static bool tell(uint32_t rank)
{
    struct member *m = &w.members[rank];
    if (!(m->dead || m->cut) || m->told == 2) return false;
    if (!m->told) {
        record_death(w.base, w.page, rank, m->cut ? TD_RANK_CUT : TD_RANK_DEAD);
    } else {
        for (int i = 1; i <= ROUNDS; i++) slot_of(w.base, RANKS, (uint64_t)i)->bell++;
        for (int i = 0; i < RANKS; i++)
            if (w.members[i].phase == ASLEEP) w.members[i].phase = STEPPING;
    }
    m->told++;
    return true;
}

/* What may happen to a rank next: it goes on (three ways of it where it wakes somebody), ... */
enum { GO, GO_1, GO_2, DIE, STOP, QUIT, TELL, CUT, ACTS };

static bool act(uint32_t rank, int what)
{
    struct member *m = &w.members[rank];
    bool there = !m->dead && !m->stopped && m->phase != FINISHED;
    switch (what) {
    case GO:
    case GO_1:
    case GO_2: return go_on(m, what);
    case DIE:
        if (!there || !w.deaths) return false;
        w.deaths--;
        m->dead = 1;
        forget(m, FINISHED);
        return true;
    case STOP:
        if (!there || !w.stops) return false;
        w.stops--;
        m->stopped = 1;
        forget(m, FINISHED);
        return true;
    case QUIT:
        if (!there || !w.plan.quits || m->round.quits ||
            !(m->phase == ASLEEP || (m->phase == STEPPING && m->round.at == AT_LINGER)))
            return false;
        td_board_quit(&m->round);
        m->phase = STEPPING;
        return true;
    case TELL: return tell(rank);
    default:
        if (!there || !w.cuts || m->cut) return false;
        w.cuts--;
        m->cut = 1;
        return true;
    }
}

/* What no longer matters is made one, so that there are fewer states: what a rank read and will read anew, and how far
 * bells have counted. */
static void simplify(void)
{
    for (int i = 1; i <= ROUNDS; i++) {
        slot *s = slot_of(w.base, RANKS, (uint64_t)i);
        for (int k = 0; k < RANKS; k++) {
            td_round *r = &w.members[k].round;
            if (r->number != (uint64_t)i) continue;
            bool hears = r->drowsy || w.members[k].phase == DOZING || w.members[k].phase == ASLEEP;
            r->bell = hears && r->at != AT_DROWSE && r->at != AT_HEAR && r->bell == s->bell;
            if (w.members[k].phase != STEPPING) continue;
            bool fresh =
                r->at == AT_LOOK || r->at == AT_DROWSE || r->at == AT_HEAR || r->at == AT_HERE || r->at == AT_NEXT;
            if (fresh || r->at == AT_RING || r->at == AT_BELL || r->at == AT_OVER)
                r->seen = 0, r->word = 0, r->chunk = 0;
            if (fresh) r->wake = 0;
            if (r->at != AT_LINE && r->at != AT_LINGER) r->line = 0;
            if (r->at != AT_CLAIM) r->word = r->at == AT_NOTE ? r->word : 0;
            if (r->at != AT_MEMBER && r->at != AT_END) r->culprit = 0;
        }
        s->bell = 1;
    }
}

/* Does a rank's next step change nothing that others look at, and see what nobody changes any more? Then it may be done
 * before all others, and a death before it is one after it. */
static bool is_private(const struct member *m)
{
    const td_round *r = &m->round;
    slot *s = slot_of(w.base, RANKS, r->number);
    if (m->phase == DOZING) return s->bell != r->bell;
    if (m->phase != STEPPING) return false;
    switch (r->at) {
    case AT_NEXT: return !w.deaths && !w.plan.cuts;
    case AT_LOOK: return fate_state(s->fate, r->number) > FATE_READY;
    case AT_ALL: return all_set(s->here, r->number, RANKS);
    case AT_CURSOR: return low_bits(s->cursor, r->number) >= r->chunks;
    case AT_BITS: return all_set(s->done, r->number, r->chunks);
    case AT_DROWSE: return s->asleep == r->number;
    case AT_CLEAR: return !w.plan.deaths || !line_of(w.base, m->board.rank)->work;
    case AT_NOTE:
    case AT_BROKEN:
    case AT_THIN:
    case AT_DEATHS:
    case AT_OVER: return !w.plan.deaths && !w.plan.cuts;
    case AT_PAGE:
    case AT_END: return true;
    default: return false;
    }
}

static void explore(int depth)
{
    uint64_t here[WORDS], now[WORDS];
    unsigned n = exchange(here, true);
    struct seen key = digest(here, n);
    if (n > WORDS || depth > 2000) wrong("a way that is too long");
    if (w.wrong) return;
    remember(key);
    w.states++;
    bool moves = false;
    uint32_t first = 0, last = RANKS;
    int acts = ACTS;
    for (uint32_t rank = 0; rank < RANKS && acts == ACTS; rank++)
        if (is_private(&w.members[rank])) first = rank, last = rank + 1, acts = GO + 1;
    for (uint32_t rank = first; rank < last; rank++) {
        for (int what = 0; what < acts && !w.wrong; what++) {
            struct member *m = &w.members[rank];
            int at = m->round.at, phase = (int)m->phase;
            if (!act(rank, what)) continue;
            simplify();
            exchange(now, true);
            if (memcmp(now, here, n * sizeof *now)) {
                moves = true;
                struct seen next = *place_of(digest(now, n));
                if (next.a && next.b & 1) wrong("a way that leads in a circle");
                else if (!next.a) explore(depth + 1);
            }
            if (w.wrong) {
                printf("\n  step %3d: rank %u, act %d in phase %d at %d", depth, rank, what, phase, at);
                return;
            }
            exchange(here, false);
        }
    }
    if (!moves) {
        w.ends++;
        for (int i = 0; i < RANKS; i++) {
            const struct member *m = &w.members[i];
            if (!m->dead && !m->stopped && m->phase != FINISHED) wrong("no way on");
        }
    }
    place_of(key)->b &= ~UINT64_C(1);
}

static void search(plan p, unsigned outcomes)
{
    size_t bytes = td_board_bytes(RANKS);
    memset(&w, 0, sizeof w);
    w.plan = p;
    w.base = aligned_alloc(4096, bytes);
    w.page = aligned_alloc(64, (td_page_bytes(RANKS) + 63) & ~(size_t)63);
    memset(w.base, 0, bytes);
    memset((void *)w.page, 0, td_page_bytes(RANKS));
    td_page_init(w.page, RANKS, 1, p.shrinks ? TD_PAGE_SHRINKS : TD_PAGE_FAILS);
    w.deaths = (uint64_t)p.deaths;
    w.stops = (uint64_t)p.stops;
    w.cuts = (uint64_t)p.cuts;
    seen.room = seen.count = 0;
    seen.at = NULL;
    for (uint32_t i = 0; i < RANKS; i++) {
        td_page_join(w.page, i, 100 + i, "test", "");
        td_board_open(&w.members[i].board, w.base, w.page, i, RANKS);
        w.members[i].board.processors = 2;
    }
    td_page_set(w.page, TD_PAGE_OPEN);
    explore(0);
    printf("\n  %d chunks, %d rounds, %d deaths, %d stops, %d cuts%s%s%s: %llu states, %llu ends %s", p.chunks,
           p.rounds, p.deaths, p.stops, p.cuts, p.quits ? ", deadlines" : "", p.shrinks ? ", without the dead" : "",
           p.root ? ", of a root" : "", (unsigned long long)w.states, (unsigned long long)w.ends,
           w.wrong ? w.wrong : "");
    CU_ASSERT_PTR_NULL(w.wrong);
    CU_ASSERT_EQUAL(w.outcomes, outcomes);
    CU_ASSERT_TRUE(w.ends > 0);
    free(seen.at);
    free(w.base);
    free(w.page);
}

#define DONE (1u << TD_OUTCOME_DONE)
#define MEMBER (1u << TD_OUTCOME_MEMBER)
#define GAVE_UP (1u << TD_OUTCOME_GAVE_UP)
#define MISMATCH (1u << TD_OUTCOME_MISMATCH)

/* A sanitizer has seen all code after the first of them, and takes minutes for more. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static void all_orders(void)
{
    search((plan){.chunks = 0, .rounds = 2}, DONE);
    search((plan){.chunks = 1, .rounds = 2}, DONE);
    search((plan){.chunks = 2, .rounds = 1}, DONE);
}

static void all_deaths(void)
{
    search((plan){.chunks = 0, .rounds = 2, .deaths = 1}, DONE | MEMBER);
    search((plan){.chunks = 1, .rounds = 1, .deaths = 2}, DONE | MEMBER);
}

static void all_deaths_without_the_dead(void)
{
    search((plan){.chunks = 0, .rounds = 2, .deaths = 1, .shrinks = true}, DONE);
    search((plan){.chunks = 0, .rounds = 1, .deaths = 2, .shrinks = true}, DONE);
    if (!SANITIZED) search((plan){.chunks = 1, .rounds = 1, .deaths = 2, .shrinks = true}, DONE);
    search((plan){.chunks = 0, .rounds = 2, .deaths = 1, .shrinks = true, .root = true}, DONE | MEMBER);
}

/* One that has lost its connection may come to a round yet: all the others have it in, or none completes the round. */
static void all_cuts_without_the_dead(void)
{
    if (!SANITIZED) search((plan){.chunks = 0, .rounds = 2, .cuts = 1, .shrinks = true}, DONE | MEMBER);
    search((plan){.chunks = 1, .rounds = 1, .cuts = 1, .shrinks = true}, DONE | MEMBER);
}

static void all_stops(void)
{
    search((plan){.chunks = 0, .rounds = 2, .stops = 1, .quits = true}, DONE | GAVE_UP);
    search((plan){.chunks = 1, .rounds = 1, .deaths = 1, .stops = 1, .quits = true}, DONE | GAVE_UP | MEMBER);
}

static void all_mismatches(void)
{
    for (int odd = 1; odd < RANKS; odd++) search((plan){.chunks = 1, .rounds = 2, .odd = odd}, DONE | MISMATCH);
}

/* A minute's worth, for who has changed the steps. */
static void all_of_it(void)
{
    if (!getenv("TENSORD_LONG_SEARCH")) {
        td_test_skip("takes a minute: TENSORD_LONG_SEARCH asks for it");
        return;
    }
    search((plan){.chunks = 2, .rounds = 2}, DONE);
    search((plan){.chunks = 2, .rounds = 1, .stops = 1, .quits = true}, DONE | GAVE_UP);
    search((plan){.chunks = 1, .rounds = 2, .deaths = 1}, DONE | MEMBER);
    search((plan){.chunks = 2, .rounds = 2, .deaths = 1}, DONE | MEMBER);
    search((plan){.chunks = 2, .rounds = 1, .deaths = 2}, DONE | MEMBER);
    search((plan){.chunks = 1, .rounds = 1, .cuts = 2, .shrinks = true}, DONE | MEMBER);
    search((plan){.chunks = 1, .rounds = 2, .deaths = 1, .shrinks = true}, DONE);
    search((plan){.chunks = 0, .rounds = 2, .deaths = 2, .shrinks = true}, DONE);
    search((plan){.chunks = 2, .rounds = 1, .deaths = 2, .shrinks = true}, DONE);
    search((plan){.chunks = 1, .rounds = 1, .deaths = 1, .stops = 1, .quits = true, .shrinks = true}, DONE | GAVE_UP);
}

TD_CUNIT_MAIN("shm_board", {"every order of three ranks over two rounds", all_orders},
              {"a death after any step", all_deaths},
              {"a death after any step, and on without the dead", all_deaths_without_the_dead},
              {"a lost connection after any step", all_cuts_without_the_dead}, {"a stop after any step", all_stops},
              {"calls that differ", all_mismatches}, {"larger searches", all_of_it})
