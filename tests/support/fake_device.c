/* The fake device: see fake_device.h. */
#include "tests/support/fake_device.h"
#include "daemon/sched/executor.h"
#include "proto/ops/opid.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory: segments as the CPU has them, shut to the host, with a second mapping for kernels */

enum { SEGMENTS = 256, GATED = 1 << 20 };

typedef struct arena {
    unsigned char *shut, *open;
    uint64_t size;
} arena;

typedef struct fake_device {
    td_budget budget;
    td_heap *heap;
    const char *gate;     /* FAKE_DEVICE_GROWS */
    pthread_mutex_t lock; /* arenas are made on any thread */
    arena arenas[SEGMENTS];
    int narenas;
} fake_device;

static fake_device *fake_at(unsigned number)
{
    return td_device_get(number)->self;
}

/* Segments that went back to the system: others lie at their addresses now. */
static void forget_at(fake_device *f, const td_segment *s)
{
    for (int i = f->narenas - 1; i >= 0; i--) {
        arena *a = &f->arenas[i];
        if (a->shut >= s->base + s->size || s->base >= a->shut + a->size) continue;
        munmap(a->open, a->size);
        *a = f->arenas[--f->narenas];
    }
}

static void shut(fake_device *f, const td_segment *s)
{
    pthread_mutex_lock(&f->lock);
    forget_at(f, s);
    void *open = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (f->narenas == SEGMENTS || open == MAP_FAILED || mprotect(s->base, s->size, PROT_NONE)) abort();
    f->arenas[f->narenas++] = (arena){s->base, open, s->size};
    pthread_mutex_unlock(&f->lock);
}

/* A large arena waits until somebody opens the gate: by a byte, "f" to let it fail. */
static bool wait_at(const char *gate)
{
    char word = 0;
    int fd = open(gate, O_RDONLY);
    if (fd >= 0 && read(fd, &word, 1) < 0) word = 0;
    if (fd >= 0) close(fd);
    return word != 'f';
}

static int make(td_segment **out, td_segment_kind kind, uint64_t size, void *arg, td_error *e)
{
    fake_device *f = arg;
    if (f->gate && size >= GATED && !wait_at(f->gate)) return td_fail(e, TD_E_MEMORY, "the gate says so");
    int rc = td_segment_create(out, TD_SHM_MEMFD, kind, size, e);
    if (!rc) shut(f, *out);
    return rc;
}

/* What has no bytes may lie at the end of a segment, where another one may begin. */
static void *opened(fake_device *f, void *at)
{
    void *end = at;
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < f->narenas; i++) {
        const arena *a = &f->arenas[i];
        uint64_t offset = (uint64_t)((unsigned char *)at - a->shut);
        if ((unsigned char *)at < a->shut || offset > a->size) continue;
        end = a->open + offset;
        if (offset < a->size) break;
    }
    pthread_mutex_unlock(&f->lock);
    return end;
}

void *fake_device_bytes(void *at)
{
    return opened(fake_at(TD_FAKE), at);
}

static uint64_t bytes(void)
{
    const char *megabytes = getenv("FAKE_DEVICE_MEGABYTES");
    return (megabytes ? strtoull(megabytes, NULL, 10) : 1024) << 20;
}

static int take(fake_device *f, td_storage *s, td_need *need, td_error *e)
{
    return need ? td_heap_alloc(f->heap, s->nbytes, &s->extent, need, e)
                : td_heap_alloc_now(f->heap, s->nbytes, &s->extent, e);
}

static int fake_alloc(const td_place *where, td_storage *s, td_need *need, td_error *e)
{
    fake_device *f = fake_at(where->device);
    int rc = take(f, s, need, e);
    if (rc == TD_E_MEMORY && td_heap_trim(f->heap)) rc = take(f, s, need, e);
    if (rc) return rc;
    s->data = td_extent_data(&s->extent);
    return 0;
}

static void fake_free(td_storage *s)
{
    td_heap_release(fake_at(s->device)->heap, &s->extent);
}

static void fake_shrink(td_storage *s, uint64_t nbytes)
{
    td_heap_shrink(fake_at(s->device)->heap, &s->extent, nbytes);
}

/* A stream that writes there, or is yet to read what a write would change, is a mistake of who asks. */
static void must_be_idle(const td_storage *s, uint64_t at, size_t n, bool write)
{
    if (!td_sched_pending(s, at, at + n, write)) return;
    fprintf(stderr, "fake:0: bytes are %s while something pending has to do with them\n", write ? "written" : "read");
    abort();
}

static int fake_read(const td_storage *s, uint64_t at, void *to, size_t n, td_error *e)
{
    (void)e;
    must_be_idle(s, at, n, false);
    memcpy(to, opened(fake_at(s->device), s->data + at), n);
    return TD_OK;
}

static int fake_write(td_storage *s, uint64_t at, const void *from, size_t n, td_error *e)
{
    (void)e;
    must_be_idle(s, at, n, true);
    memcpy(opened(fake_at(s->device), s->data + at), from, n);
    return TD_OK;
}

static const td_device_memory memory = {
    .alloc = fake_alloc, .free = fake_free, .shrink = fake_shrink, .read = fake_read, .write = fake_write};

/* ---- plans: the CPU's, at the addresses of the second mapping */

static void open_args(const td_karg *args, int n)
{
    for (int i = 0; i < n; i++) {
        td_karg *a = (td_karg *)&args[i]; /* of a call that is being prepared */
        if (a->desc && a->desc->device != TD_CPU && a->data) a->data = opened(fake_at(a->desc->device), a->data);
    }
}

static int fake_plan(td_kcall *k, td_error *e)
{
    td_plan_fn plan = td_cpu_plans[k->op->id];
    if (!plan) {
        k->nphases = 0; /* it computes nothing */
        return 0;
    }
    open_args(k->in, k->nin);
    open_args(k->out, k->nout);
    int err = plan(k, e);
    k->replan = NULL; /* it would be given the first mapping's */
    return err;
}

static const td_plan_fn plans[TD_OP_COUNT] = {[0 ... TD_OP_COUNT - 1] = fake_plan};

/* ---- streams */

enum { STREAMS = 3, HISTORY = 1024 };

/* How far each stream was when something happened: numbers of tasks. */
typedef struct clocks {
    uint64_t of[STREAMS];
} clocks;

static void merge(clocks *into, const clocks *c)
{
    for (int i = 0; i < STREAMS; i++)
        if (c->of[i] > into->of[i]) into->of[i] = c->of[i];
}

/* One task in its place. */
typedef struct item {
    struct item *next;
    td_task *task;
    bool may_go, begun;
    td_call *call; /* td_task_begin() gave it */
    clocks after;  /* its events */
    clocks known;  /* what had run when it was told to go */
} item;

typedef struct stream {
    struct fake_executor *x;
    pthread_t thread;
    uint64_t lot, issued;
    item *first, *last;       /* in the order of issue */
    item *unbegun;            /* the first of them that was not begun */
    clocks clock;             /* what those that it runs from now on come after */
    clocks clock_at[HISTORY]; /* the same when each of its last tasks had ended */
} stream;

/* Bytes that a task of a stream has read or written. */
typedef struct use {
    const unsigned char *lo, *hi;
    bool write;
    int stream;
    uint64_t place;
} use;

typedef struct fake_executor {
    td_executor base; /* first */
    fake_device *device;
    unsigned number;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool shut, stopping, joined, loses_events, ahead;
    int issued, going, unordered;
    long to_break;    /* as many more run before it fails once; 0: it does not */
    clocks begun;     /* of each stream, until which place */
    clocks ran, done; /* before, and after, the scheduler was told */
    stream streams[STREAMS];
    use uses[HISTORY];
    int nuses;
} fake_executor;

/* The stream of a flow; each has one. */
static stream *stream_of(fake_executor *x, const td_task *t)
{
    return &x->streams[td_task_flow(t) % STREAMS];
}

/* An issued task that does not go yet. */
static item *item_of(fake_executor *x, const td_task *t)
{
    const stream *s = &x->streams[td_task_stream(t) - 1];
    item *e = s->last->task == t ? s->last : s->first;
    while (e->task != t) e = e->next;
    return e;
}

static unsigned issue(td_executor *base, td_task *t)
{
    fake_executor *x = (fake_executor *)base;
    item *e = calloc(1, sizeof *e);
    if (!e) abort();
    pthread_mutex_lock(&x->lock);
    stream *s = stream_of(x, t);
    e->task = t;
    td_task_set_place(t, ++s->issued);
    if (s->last) s->last->next = e;
    else s->first = e;
    s->last = e;
    if (!s->unbegun) s->unbegun = e;
    x->issued++;
    pthread_mutex_unlock(&x->lock);
    return 1 + (unsigned)(s - x->streams);
}

static bool after(td_executor *base, td_task *t, const td_task *from)
{
    fake_executor *x = (fake_executor *)base;
    pthread_mutex_lock(&x->lock);
    uint64_t place = td_task_place(from), *of = &item_of(x, t)->after.of[td_task_stream(from) - 1];
    if (place > *of && !x->loses_events) *of = place;
    pthread_mutex_unlock(&x->lock);
    return true;
}

/* Under the lock, as all that follows. */
static void begin(stream *s)
{
    item *e = s->unbegun;
    s->unbegun = e->next;
    e->begun = true;
    e->call = td_task_begin(e->task);
    s->x->begun.of[s - s->x->streams] = td_task_place(e->task);
}

static bool may_begin(const fake_executor *x, const item *e)
{
    for (int i = 0; i < STREAMS; i++)
        if (x->begun.of[i] < e->after.of[i]) return false;
    return e->may_go;
}

/* As a device does that is told of all there is: nothing waits for an end. */
static void begin_ahead(fake_executor *x)
{
    bool some = x->ahead && !x->shut;
    while (some) {
        some = false;
        for (stream *s = x->streams; s < x->streams + STREAMS; s++)
            for (; s->unbegun && may_begin(x, s->unbegun); some = true) begin(s);
    }
}

static void go(td_executor *base, td_task *t, td_chain *ready)
{
    (void)ready;
    fake_executor *x = (fake_executor *)base;
    pthread_mutex_lock(&x->lock);
    item *e = item_of(x, t);
    e->may_go = true;
    e->known = x->ran;
    x->going++;
    begin_ahead(x);
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
}

static bool stop(td_executor *base)
{
    fake_executor *x = (fake_executor *)base;
    pthread_mutex_lock(&x->lock);
    x->stopping = true;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
    for (int i = 0; i < STREAMS && !x->joined; i++) pthread_join(x->streams[i].thread, NULL);
    x->joined = true;
    return true;
}

static void pause_by_lot(stream *s)
{
    s->lot = s->lot * 6364136223846793005u + 1442695040888963407u;
    if (s->lot >> 61 == 0) usleep((useconds_t)(s->lot >> 40 & 255));
}

/* ---- what is used before its event: two streams at the same bytes, one of them writing, and nothing between them */

static void check_use(fake_executor *x, const stream *s, const use *u)
{
    for (int i = 0; i < (x->nuses < HISTORY ? x->nuses : HISTORY); i++) {
        const use *v = &x->uses[i];
        if (v->stream == u->stream || !(v->write || u->write) || v->hi <= u->lo || u->hi <= v->lo) continue;
        if (v->place <= s->clock.of[v->stream]) continue;
        x->unordered++;
        if (x->loses_events) continue;
        fprintf(stderr, "fake:0: stream %d uses what stream %d %s, before that's event\n", u->stream, v->stream,
                v->write ? "writes" : "reads");
        abort();
    }
}

static void note_uses(stream *s, const td_task *t)
{
    fake_executor *x = s->x;
    for (int i = 0; i < td_task_naccesses(t); i++) {
        td_access a = td_task_access(t, i);
        const unsigned char *at = a.storage->data;
        if (a.storage->device != x->number || a.lo == a.hi) continue;
        use u = {at + a.lo, at + a.hi, a.write, (int)(s - x->streams), td_task_place(t)};
        check_use(x, s, &u);
        x->uses[x->nuses++ % HISTORY] = u;
    }
}

/* ---- running */

static void run(fake_device *f, td_task *t, td_kcall *k)
{
    void *scratch = aligned_alloc(64, (k->scratch_bytes + 127) & ~(size_t)63);
    if (k->work_bytes) k->work = opened(f, k->work); /* the call's place on the device */
    for (int p = 0; p < k->nphases && !atomic_load(&k->failed); p++) {
        td_task_phase(t, p, k->phase[p].chunks);
        for (int64_t i = 0; i < k->phase[p].chunks && !atomic_load(&k->failed); i++) k->phase[p].fn(k, i, scratch);
    }
    free(scratch);
}

/* The first in its stream, when its turn has come; its events have happened. */
static item *turn(stream *s)
{
    const fake_executor *x = s->x;
    item *e = s->first;
    if (!e || !e->may_go || x->shut) return NULL;
    for (int i = 0; i < STREAMS; i++)
        if (x->done.of[i] < e->after.of[i]) return NULL;
    return e;
}

static void come_after(stream *s, const item *e)
{
    merge(&s->clock, &e->known);
    for (int i = 0; i < STREAMS; i++)
        if (e->after.of[i]) merge(&s->clock, &s->x->streams[i].clock_at[e->after.of[i] % HISTORY]);
}

/* Under the lock, which it leaves and takes. */
static void run_item(stream *s, item *e)
{
    fake_executor *x = s->x;
    td_task *t = e->task;
    uint64_t place = td_task_place(t);
    come_after(s, e);
    pthread_mutex_unlock(&x->lock);
    pause_by_lot(s);
    pthread_mutex_lock(&x->lock);
    if (!e->begun) begin(s);
    td_call *c = e->call;
    if (c) note_uses(s, t);
    bool broken = c && x->to_break && --x->to_break == 0;
    pthread_mutex_unlock(&x->lock);
    if (broken) td_task_device_failed(t);
    else if (c) run(x->device, t, &c->k);
    pthread_mutex_lock(&x->lock);
    s->first = e->next;
    if (!s->first) s->last = NULL;
    x->issued--;
    x->going--;
    s->clock.of[s - x->streams] = x->ran.of[s - x->streams] = place;
    s->clock_at[place % HISTORY] = s->clock;
    pthread_mutex_unlock(&x->lock);
    td_task_done(t);
    pthread_mutex_lock(&x->lock);
    x->done.of[s - x->streams] = place;
    pthread_cond_broadcast(&x->changed);
    free(e);
}

static void *stream_main(void *arg)
{
    stream *s = arg;
    fake_executor *x = s->x;
    td_cpu_thread_init();
    pthread_mutex_lock(&x->lock);
    while (!x->stopping) {
        item *e = turn(s);
        if (e) run_item(s, e);
        else pthread_cond_wait(&x->changed, &x->lock);
    }
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

static td_executor *executor_new(fake_device *f, unsigned number)
{
    fake_executor *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->device = f;
    x->number = number;
    x->base = (td_executor){.issue = issue, .after = after, .go = go, .stop = stop};
    const char *after_so_many = getenv("FAKE_DEVICE_BREAKS");
    x->to_break = after_so_many ? atol(after_so_many) : 0;
    x->ahead = getenv("FAKE_DEVICE_AHEAD") != NULL;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->changed, NULL);
    for (int i = 0; i < STREAMS; i++) {
        x->streams[i].x = x;
        x->streams[i].lot = (uint64_t)i + 1;
        if (pthread_create(&x->streams[i].thread, NULL, stream_main, &x->streams[i])) abort();
    }
    return &x->base;
}

static void executor_free(fake_executor *x)
{
    stop(&x->base);
    for (int i = 0; i < STREAMS; i++)
        for (item *e = x->streams[i].first, *next; e; e = next) {
            next = e->next;
            free(e);
        }
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->changed);
    free(x);
}

/* ---- the device */

static void drop(fake_device *f)
{
    if (f->heap) td_heap_free(f->heap);
    td_budget_deinit(&f->budget);
    for (int i = 0; i < f->narenas; i++) munmap(f->arenas[i].open, f->arenas[i].size);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static void end(td_device_entry *d)
{
    executor_free((fake_executor *)d->executor);
    drop(d->self);
}

static unsigned one(void)
{
    return 1;
}

const td_device_kind fake_device_kind = {TD_FAKE, one, fake_device_start};

int fake_device_start(td_device_entry *out, unsigned number, td_error *e)
{
    fake_device *f = calloc(1, sizeof *f);
    if (!f) return td_no_memory(e, "for the fake device");
    pthread_mutex_init(&f->lock, NULL);
    f->gate = getenv("FAKE_DEVICE_GROWS");
    td_budget_init(&f->budget, bytes(), TD_SHM_MEMFD);
    f->budget.make = make;
    f->budget.make_arg = f;
    int rc = td_heap_new(&f->heap, &f->budget, TD_SEGMENT_SESSION, 1, e);
    if (rc) {
        drop(f);
        return rc;
    }
    *out = (td_device_entry){.number = number,
                             .memory = &memory,
                             .budget = &f->budget,
                             .plans = plans,
                             .executor = executor_new(f, number),
                             .self = f,
                             .end = end};
    if (out->executor) return TD_OK;
    drop(f);
    return td_no_memory(e, "for the fake device");
}

void fake_executor_gate(td_executor *base, bool shut_it)
{
    fake_executor *x = (fake_executor *)base;
    pthread_mutex_lock(&x->lock);
    x->shut = shut_it;
    begin_ahead(x);
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
}

void fake_executor_lose_events(td_executor *base)
{
    fake_executor *x = (fake_executor *)base;
    pthread_mutex_lock(&x->lock);
    x->loses_events = true;
    pthread_mutex_unlock(&x->lock);
}

void fake_executor_break(td_executor *base)
{
    fake_executor *x = (fake_executor *)base;
    pthread_mutex_lock(&x->lock);
    x->to_break = 1;
    pthread_mutex_unlock(&x->lock);
}

static int locked(td_executor *base, const int *count)
{
    fake_executor *x = (fake_executor *)base;
    pthread_mutex_lock(&x->lock);
    int n = *count;
    pthread_mutex_unlock(&x->lock);
    return n;
}

int fake_executor_unordered(td_executor *base)
{
    return locked(base, &((fake_executor *)base)->unordered);
}

int fake_executor_issued(td_executor *base)
{
    return locked(base, &((fake_executor *)base)->issued);
}

int fake_executor_free_to_go(td_executor *base)
{
    return locked(base, &((fake_executor *)base)->going);
}
