/* Random programs through the scheduler: whatever the workers do, the result is that of running the calls one by one.
 *
 * Storages are arrays of cells. A call mixes the cells it reads with its own number and writes what comes out, in two
 * phases over several chunks, so that any two calls in the wrong order leave a trace that nothing after it takes back.
 * The model runs the same calls in a plain loop. TD_STRESS (default 1) scales the lengths.
 * Every cell also knows its last writer: a call that runs checks that each cell it reads was left there by the very
 * call that the order of issue says; if that one failed or was not run, the reader should not have been run either. */
#include "tests/unit/cunit_main.h"
#include "tests/unit/sched_fake.h"

#define STORAGES 5
#define CELLS 48
#define READS 3
#define WRITES 2
#define CHUNKS 3

typedef uint64_t cell;

typedef struct range {
    int storage, lo, hi, step; /* cells */
} range;

typedef struct step {
    int nreads, nwrites;
    range read[READS], write[WRITES]; /* the first write may be read too (in place) */
    bool in_place, fails;
    double cost;
    uint64_t number;
    uint32_t *expect; /* last writers of the cells it reads, one after the other */
} step;

static uint64_t state;
static uint64_t rnd(void) /* splitmix64: Steele, Lea, Flood 2014 */
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static int below(int n)
{
    return (int)(rnd() % (uint64_t)n);
}
static int scale(int n)
{
    const char *e = getenv("TD_STRESS");
    double k = e ? atof(e) : 1;
    return (int)(n * k) + 1;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0xff51afd7ed558ccd;
    return h ^ h >> 29;
}

static range any_range(bool whole, bool strided)
{
    range r = {.storage = below(STORAGES), .lo = 0, .hi = CELLS, .step = 1};
    if (!whole && below(8)) {
        r.lo = below(CELLS);
        r.hi = r.lo + 1 + below(CELLS - r.lo);
        if (strided && !below(4)) r.step = 2;
    }
    return r;
}

static bool meet(const range *a, const range *b)
{
    return a->storage == b->storage && a->lo < b->hi && b->lo < a->hi;
}

static step any_step(uint64_t number, bool whole, bool failures)
{
    step st = {.number = number, .nreads = below(READS + 1), .nwrites = 1 + below(WRITES)};
    for (int i = 0; i < st.nreads; i++) st.read[i] = any_range(whole, false);
    for (int i = 0; i < st.nwrites; i++) st.write[i] = any_range(whole, true);
    if (st.nwrites == 2 && meet(&st.write[0], &st.write[1])) st.nwrites = 1;
    st.in_place = !below(3);
    st.fails = failures && !below(whole ? 12 : 40);
    st.cost = below(3) ? 5000 : below(2) ? 100 : 40000;
    return st;
}

/* ---- who wrote a cell last: as issued, and as it happened */

static uint32_t last_issued[STORAGES][CELLS], last_written[STORAGES][CELLS];
static _Atomic int unsound;

static const range *read_of(const step *st, int i) /* NULL: no more */
{
    if (i < st->nreads) return &st->read[i];
    i -= st->nreads;
    return st->in_place && i < st->nwrites ? &st->write[i] : NULL;
}

static void expect_writers(step *st)
{
    const range *r;
    st->expect = malloc((READS + WRITES) * CELLS * sizeof *st->expect);
    uint32_t *e = st->expect;
    for (int i = 0; (r = read_of(st, i)); i++)
        for (int c = r->lo; c < r->hi; c++) *e++ = last_issued[r->storage][c];
    for (int i = 0; i < st->nwrites; i++)
        for (int c = st->write[i].lo; c < st->write[i].hi; c += st->write[i].step)
            last_issued[st->write[i].storage][c] = (uint32_t)st->number + 1;
}

static void check_writers(const step *st)
{
    const range *r;
    const uint32_t *e = st->expect;
    for (int i = 0; (r = read_of(st, i)); i++)
        for (int c = r->lo; c < r->hi; c++)
            if (last_written[r->storage][c] != *e++) atomic_fetch_add(&unsound, 1);
}

static void note_written(const step *st)
{
    for (int i = 0; i < st->nwrites; i++)
        for (int c = st->write[i].lo; c < st->write[i].hi; c += st->write[i].step)
            last_written[st->write[i].storage][c] = st->fails ? UINT32_MAX : (uint32_t)st->number + 1;
}

/* ---- what a call computes, a chunk at a time; the same code serves the model */

typedef struct machine {
    cell mem[STORAGES][CELLS];
} machine;

typedef struct job {
    const step *st;
    machine *m;
    bool slow;
} job;

static uint64_t hash_reads(const step *st, machine *m, int chunk)
{
    uint64_t h = st->number * CHUNKS + (uint64_t)chunk;
    const range *r;
    for (int i = 0; (r = read_of(st, i)); i++)
        for (int c = r->lo; c < r->hi; c++)
            if (c % CHUNKS == chunk) h = mix(h, m->mem[r->storage][c]);
    return h;
}

static void write_cells(const step *st, machine *m, int chunk, const uint64_t *hash)
{
    uint64_t h = 0;
    for (int i = 0; i < CHUNKS; i++) h = mix(h, hash[i]);
    for (int i = 0; i < st->nwrites; i++) {
        const range *r = &st->write[i];
        for (int c = r->lo, n = 0; c < r->hi; c += r->step, n++)
            if (n % CHUNKS == chunk) m->mem[r->storage][c] = mix(h, (uint64_t)c);
    }
}

static void dawdle(const job *j)
{
    if (j->slow && j->st->number % 17 == 0) usleep(20);
}
static job *job_of(td_kcall *k)
{
    return (job *)k->state;
}
static void k_hash(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)scratch;
    dawdle(job_of(k));
    if (!chunk) check_writers(job_of(k)->st);
    ((uint64_t *)k->work)[chunk] = hash_reads(job_of(k)->st, job_of(k)->m, (int)chunk);
}
static void k_write(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)scratch;
    write_cells(job_of(k)->st, job_of(k)->m, (int)chunk, k->work);
    if (!chunk) note_written(job_of(k)->st);
    if (job_of(k)->st->fails) td_kernel_fail(k, TD_E_INDEX, "%d", (int)job_of(k)->st->number);
}

/* ---- the model: one call after the other; poison is the number of the step that failed, plus one */

typedef struct model {
    machine m;
    uint64_t poison[STORAGES];
} model;

static void model_run(model *mo, const step *st)
{
    uint64_t hash[CHUNKS], poison = 0;
    for (int i = 0; i < st->nreads; i++)
        if (mo->poison[st->read[i].storage]) poison = mo->poison[st->read[i].storage];
    for (int i = 0; st->in_place && i < st->nwrites; i++)
        if (mo->poison[st->write[i].storage]) poison = mo->poison[st->write[i].storage];
    if (!poison) {
        for (int i = 0; i < CHUNKS; i++) hash[i] = hash_reads(st, &mo->m, i);
        for (int i = 0; i < CHUNKS; i++) write_cells(st, &mo->m, i, hash);
        if (st->fails) poison = st->number + 1;
    }
    for (int i = 0; i < st->nwrites; i++) mo->poison[st->write[i].storage] = poison;
}

/* ---- the same through the scheduler */

static td_storage storages[STORAGES];
static machine real;
static int ends_seen, before_their_cause;
static bool *failed_already;

static void on_end(td_call *c)
{
    const step *st = job_of(&c->k)->st;
    ends_seen++;
    if (!failed_already) return;
    if (c->cause && !failed_already[atoi(c->cause->error.message)] && !st->fails) before_their_cause++;
    if (atomic_load(&c->k.failed)) failed_already[st->number] = true;
}

static td_tensor *tensor_of(const range *r)
{
    const int w = sizeof(cell);
    if (r->step == 1) return fake_tensor(&storages[r->storage], r->lo * w, r->hi * w, 1);
    td_tensor *t = fake_tensor(&storages[r->storage], r->lo * w, r->hi * w, 1);
    int64_t n = (r->hi - r->lo + r->step - 1) / r->step;
    t->desc.ndim = 2; /* bytes of every second cell */
    t->desc.shape[0] = n, t->desc.shape[1] = w;
    t->desc.stride[0] = r->step * w, t->desc.stride[1] = 1;
    return t;
}

static td_call *call_of(td_issuer *who, const step *st, bool slow)
{
    td_call *c = fake_call(who, st->cost);
    for (int i = 0; i < st->nreads; i++) c->in[c->nin++] = td_in(tensor_of(&st->read[i]));
    for (int i = 0; st->in_place && i < st->nwrites; i++) {
        range whole = st->write[i];
        whole.step = 1; /* it reads the gaps too */
        c->in[c->nin++] = td_in(tensor_of(&whole));
    }
    for (int i = 0; i < st->nwrites; i++) c->out[c->nout++] = tensor_of(&st->write[i]);
    *job_of(&c->k) = (job){.st = st, .m = &real, .slow = slow};
    fake_phase(c, k_hash, CHUNKS);
    fake_phase(c, k_write, CHUNKS);
    c->k.work_bytes = CHUNKS * sizeof(uint64_t);
    c->finished = on_end;
    return c;
}

static void reset_real(void)
{
    for (int i = 0; i < STORAGES; i++) {
        fake_storage(&storages[i], real.mem[i], sizeof real.mem[i]);
        for (int c = 0; c < CELLS; c++) real.mem[i][c] = (cell)(i * CELLS + c);
    }
    ends_seen = before_their_cause = 0;
    memset(last_issued, 0, sizeof last_issued);
    memset(last_written, 0, sizeof last_written);
    atomic_store(&unsound, 0);
}

static int compare(const model *mo, bool poison)
{
    int wrong = 0;
    for (int i = 0; i < STORAGES; i++) {
        wrong += storages[i].hazards != NULL;
        wrong += poison && !storages[i].poison != !mo->poison[i];
        if (poison && mo->poison[i]) continue; /* what lies there is nobody's business */
        wrong += memcmp(mo->m.mem[i], real.mem[i], sizeof real.mem[i]) != 0;
    }
    return wrong;
}

/* One program of `n` steps on `workers` threads, from two sessions in turn; returns what differs from the model. */
static int run_program(int n, int workers, bool whole, bool failures, bool slow, bool helped)
{
    step *steps = malloc((size_t)n * sizeof *steps);
    failed_already = failures ? calloc((size_t)n, sizeof *failed_already) : NULL;
    model *mo = calloc(1, sizeof *mo);
    reset_real();
    mo->m = real;
    fake_helped = helped;
    td_sched *s = fake_sched(workers, NULL, NULL);
    fake_helped = false;
    td_issuer who[2] = {0};
    for (int i = 0; i < 2; i++) td_flow_new((td_flow **)&who[i].flow, s, NULL);
    for (int i = 0; i < n; i++) {
        steps[i] = any_step((uint64_t)i, whole, failures);
        expect_writers(&steps[i]);
        td_sched_submit(s, call_of(&who[below(2)], &steps[i], slow));
        if (!below(40)) td_sched_collect(s, below(60));
        if (helped && !below(3)) td_sched_help(s);
        if (!below(500)) td_sched_drain(s);
    }
    for (int i = 0; i < n; i++) model_run(mo, &steps[i]);
    td_sched_drain(s);
    int wrong = !failures || whole ? compare(mo, failures) : 0;
    wrong += atomic_load(&unsound) + (ends_seen != n) + before_their_cause + (fake_live != 0);
    for (int i = 0; i < 2; i++) td_flow_free(who[i].flow);
    td_sched_free(s);
    for (int i = 0; i < STORAGES; i++) td_storage_heal(&storages[i]);
    wrong += td_live_counts().causes != 0;
    for (int i = 0; i < n; i++) free(steps[i].expect);
    free(steps);
    free(mo);
    free(failed_already);
    return wrong;
}

static void programs(bool whole, bool failures)
{
    static const int counts[] = {0, 1, 2, 4};
    for (int w = 0; w < 4; w++)
        for (int i = 0; i < scale(4); i++) {
            state = (uint64_t)(w * 1000 + i);
            int wrong = run_program(4000, counts[w], whole, failures, i % 2, i & 2);
            if (wrong) printf("workers %d, program %d: %d differences\n", counts[w], i, wrong);
            CU_ASSERT_EQUAL(wrong, 0);
        }
}

static void random_programs(void)
{
    programs(false, false);
}
static void random_programs_that_fail(void)
{
    programs(true, true); /* whole storages: what is poisoned in the end follows from the program alone */
}
static void failures_in_parts(void)
{
    programs(false, true);
}

/* ---- no successor is lost: a writer, eight readers, a writer, ...: 16 edges a round over two storages */

static _Atomic uint64_t ran;
static void k_ran(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
    atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
}

static void submit_one(td_sched *s, td_issuer *who, int from, int to)
{
    td_call *c = fake_call(who, 2000);
    if (from >= 0) fake_reads(c, &storages[from], 0, CELLS);
    if (to >= 0) fake_writes(c, &storages[to], 0, CELLS);
    fake_phase(c, k_ran, 1);
    td_sched_submit(s, c);
}

static void no_successor_is_lost(void)
{
    reset_real();
    atomic_store(&ran, 0);
    td_sched *s = fake_sched(2, NULL, NULL);
    td_issuer who = {0};
    td_flow_new((td_flow **)&who.flow, s, NULL);
    int rounds = scale(125000); /* two million edges */
    uint64_t issued = 0;
    for (int i = 0; i < rounds; i++) {
        submit_one(s, &who, -1, i & 1);
        for (int r = 0; r < 8; r++) submit_one(s, &who, i & 1, -1);
        issued += 9;
        if (i % 16 == 0) td_sched_collect(s, 1000);
        if (td_flow_pending(who.flow) > 20000) td_sched_drain(s);
    }
    td_sched_drain(s); /* a lost one would hang here, and the runner says so */
    CU_ASSERT_EQUAL(atomic_load(&ran), issued);
    CU_ASSERT_EQUAL(fake_live, 0);
    td_flow_free(who.flow);
    td_sched_free(s);
}

/* Waiters and cancels among it all: each is called once or, when cancelled, never. */

typedef struct wait_note {
    int called;
    bool cancelled;
} wait_note;
static void on_wait(void *arg)
{
    ((wait_note *)arg)->called++;
}

static void waiters_are_called_once(void)
{
    enum { N = 3000 };
    static wait_note notes[N];
    static td_waiter *handle[N];
    for (int workers = 1; workers <= 2; workers++) {
        memset(notes, 0, sizeof notes);
        reset_real();
        state = 77;
        td_sched *s = fake_sched(workers, NULL, NULL);
        td_issuer who = {0};
        td_flow_new((td_flow **)&who.flow, s, NULL);
        for (int i = 0; i < N; i++) {
            submit_one(s, &who, below(STORAGES), below(STORAGES));
            td_access what[2];
            for (int k = 0; k < 2; k++) what[k] = (td_access){&storages[below(STORAGES)], 0, CELLS, !below(3)};
            handle[i] = below(2) ? td_sched_after(s, 2, what, on_wait, &notes[i])
                                 : td_sched_after_flow(s, who.flow, on_wait, &notes[i]);
            int back = i - below(3);
            if (!below(3) && back >= 0 && handle[back] && !notes[back].called) {
                td_waiter_cancel(handle[back]);
                handle[back] = NULL;
                notes[back].cancelled = true;
            }
            if (!below(10)) td_sched_collect(s, below(30));
        }
        td_sched_drain(s);
        int wrong = 0;
        for (int i = 0; i < N; i++) wrong += notes[i].called != (notes[i].cancelled ? 0 : 1);
        CU_ASSERT_EQUAL(wrong, 0);
        for (int i = 0; i < STORAGES; i++) CU_ASSERT_EQUAL(storages[i].refs, 1);
        td_flow_free(who.flow);
        td_sched_free(s);
    }
}

TD_CUNIT_MAIN("sched_stress", {"random programs", random_programs},
              {"random programs that fail", random_programs_that_fail},
              {"failures in parts of storages", failures_in_parts}, {"no successor is lost", no_successor_is_lost},
              {"waiters are called once", waiters_are_called_once})
