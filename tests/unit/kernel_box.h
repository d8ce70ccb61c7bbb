/* Running kernels in tests: tensors of any dtype and layout, and plans whose chunks run in order, shuffled, or on two
 * threads. What both harnesses stand on (pointwise_support.h: a call by the op's name; kernel_harness.h: a plan).
 *
 * Tensors, work memory and scratch end at a page that nobody may touch, or now and then begin behind one: a byte too
 * far is a fault at the access itself, also in a library that no sanitizer sees. What lies between a tensor's rows is a
 * pattern, and so is the rest of each page: who writes there is found out. */
#ifndef TENSORD_TESTS_UNIT_KERNEL_BOX_H
#define TENSORD_TESTS_UNIT_KERNEL_BOX_H

#include "cunit_main.h"
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/cpu/thresholds.h"
#include "daemon/kernels/kernel.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HELPER __attribute__((unused)) static

static uint64_t random_state = 0x9e3779b97f4a7c15ull;
HELPER uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}
HELPER int64_t random_below(int64_t n)
{
    return n > 0 ? (int64_t)(random_bits() % (uint64_t)n) : 0;
}
HELPER double random_unit(void)
{
    return (double)(random_bits() >> 11) * 0x1p-53;
}

/* ---- memory between pages that nobody may touch */

enum { UNTOUCHED = 0xA5 };

typedef struct guarded {
    unsigned char *map; /* a page, `room` bytes, a page */
    size_t room, bytes;
    unsigned char *at; /* `bytes` of them: up to the last page, or from behind the first */
} guarded;

static size_t page_size(void)
{
    static size_t size;
    if (!size) size = (size_t)sysconf(_SC_PAGESIZE);
    return size;
}

/* `align` divides a page. The bytes are UNTOUCHED all over. */
static guarded guarded_new(size_t bytes, size_t align, bool from_start)
{
    size_t page = page_size();
    guarded g = {.room = (bytes + align + page - 1) / page * page, .bytes = bytes};
    g.map = mmap(NULL, g.room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map + page, g.room, PROT_READ | PROT_WRITE)) abort();
    g.at = from_start ? g.map + page : g.map + page + g.room - (bytes + align - 1) / align * align;
    memset(g.map + page, UNTOUCHED, g.room);
    return g;
}
static bool untouched(const unsigned char *from, const unsigned char *to)
{
    while (from < to)
        if (*from++ != UNTOUCHED) return false;
    return true;
}
/* Is everything around the bytes as it was? */
HELPER bool guarded_intact(const guarded *g)
{
    const unsigned char *first = g->map + page_size();
    return untouched(first, g->at) && untouched(g->at + g->bytes, first + g->room);
}
static void guarded_free(guarded *g)
{
    if (g->map) munmap(g->map, g->room + 2 * page_size());
    *g = (guarded){0};
}

/* ---- tensors */

typedef struct box {
    td_desc d;
    guarded memory;
    size_t bytes; /* from `data` to behind the last element */
    void *data;
} box;

/* TURNED: column-major; STEPPED: every second element, from the second one on; PERMUTED: some order of the dimensions;
 * GAPPED: rows are runs, and more room than they take lies between them; EXPANDED: a dimension has stride 0. */
enum { ROW_MAJOR, TURNED, STEPPED, PERMUTED, GAPPED, LAYOUTS, EXPANDED = LAYOUTS, BOX_LAYOUTS };

/* Order of the dimensions in memory, innermost first. */
static void box_order(int *order, int nd, int layout)
{
    for (int i = 0; i < nd; i++) order[i] = layout == TURNED ? i : nd - 1 - i;
    for (int i = nd - 1; i > 0 && layout == PERMUTED; i--) {
        int j = (int)random_below(i + 1), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
}

/* A tensor of zeros. */
HELPER box box_new(td_dtype dtype, int nd, const int64_t *shape, int layout)
{
    box b = {.d = {.dtype = (uint8_t)dtype, .ndim = (uint8_t)nd}};
    int order[TD_MAX_DIMS], flat = layout == EXPANDED && nd ? (int)random_below(nd) : -1;
    int64_t width = layout == STEPPED ? 2 : 1, last = 0, size = (int64_t)td_dtype_size(dtype);
    bool empty = false;
    box_order(order, nd, layout);
    for (int i = 0; i < nd; i++) {
        int d = order[i];
        b.d.shape[d] = shape[d];
        b.d.stride[d] = d == flat ? 0 : width;
        last += (shape[d] - 1) * b.d.stride[d];
        empty = empty || shape[d] == 0;
        if (d != flat) width *= shape[d] > 0 ? shape[d] : 1;
        if ((layout == STEPPED || layout == GAPPED) && i == 0) width += 3;
    }
    int64_t before = layout == STEPPED ? size : 0;
    b.bytes = empty ? 0 : (size_t)((last + 1) * size);
    b.memory = guarded_new(b.bytes + (size_t)before, (size_t)size, random_below(4) == 0);
    b.data = empty && random_below(2) ? NULL : b.memory.at + before; /* what has no elements may have no memory */
    for (int64_t i = 0, n = td_desc_numel(&b.d); i < n; i++) {
        int64_t at = 0, rest = i;
        if (layout == ROW_MAJOR) { /* all of it is elements */
            memset(b.data, 0, b.bytes);
            break;
        }
        for (int d = nd - 1; d >= 0; d--) at += rest % shape[d] * b.d.stride[d], rest /= shape[d];
        memset((char *)b.data + at * size, 0, (size_t)size);
    }
    return b;
}
HELPER void box_free(box *b)
{
    guarded_free(&b->memory);
    b->data = NULL;
}
HELPER int64_t box_numel(const box *b)
{
    return td_desc_numel(&b->d);
}
/* Element i in row-major order. */
HELPER void *box_at(const box *b, int64_t i)
{
    int64_t at = 0;
    for (int d = b->d.ndim - 1; d >= 0; d--) {
        at += i % b->d.shape[d] * b->d.stride[d];
        i /= b->d.shape[d];
    }
    return (char *)b->data + at * (int64_t)td_dtype_size(b->d.dtype);
}
HELPER td_scalar box_get(const box *b, int64_t i)
{
    return td_scalar_load(b->d.dtype, box_at(b, i));
}
HELPER double box_real(const box *b, int64_t i)
{
    td_scalar s = box_get(b, i);
    if (b->d.dtype == TD_UINT64) return (double)(uint64_t)s.i;
    return s.kind <= TD_S_INT ? (double)s.i : s.re;
}
HELPER void box_set(box *b, int64_t i, double v)
{
    td_scalar_store(td_float(v), b->d.dtype, box_at(b, i));
}
/* Numbers that every dtype holds exactly: whole ones in [-most, most], and parts of them where fractions exist. */
HELPER void box_numbers(box *b, int most, int parts)
{
    for (int64_t i = 0, n = box_numel(b); i < n; i++) {
        double v = (double)(random_below(2 * most + 1) - most), w = (double)(random_below(2 * most + 1) - most);
        if (td_dtype_is_inexact(b->d.dtype)) v /= parts, w /= parts;
        if (td_dtype_is_unsigned(b->d.dtype)) v = fabs(v);
        td_scalar s = td_dtype_is_complex(b->d.dtype) ? td_complex(v, w) : td_float(v);
        if (b->d.dtype == TD_BOOL) s = td_bool(v > 0);
        td_scalar_store(s, b->d.dtype, box_at(b, i));
    }
}

/* ---- running a plan */

enum { IN_ORDER, SHUFFLE, TWO_THREADS, RUNNINGS };

static int failed_phase; /* of the last run: the first phase that failed, or -1 */

typedef struct running {
    td_kcall *k;
    int phase;
    int64_t *order;
    unsigned char *marks; /* of each element of out[0], where chunks say what they wrote: some chunk says so */
    _Atomic int64_t next;
    _Atomic int overrun;
} running;

/* ---- what a chunk says it wrote */

static int wrotes_checked;

static bool is_untouched(const unsigned char *at, size_t size)
{
    size_t same = 0;
    for (size_t i = 0; i < size; i++) same += at[i] == UNTOUCHED;
    return same == size;
}

static unsigned char *watch(const td_kcall *k)
{
    int64_t n = td_desc_numel(k->out[0].desc);
    memset(k->out[0].data, UNTOUCHED, (size_t)n * td_dtype_size(k->out[0].desc->dtype));
    return calloc((size_t)n, 1);
}

/* No element twice, and nothing else is written. */
static void check_wrote(const td_kcall *k, int64_t chunk, unsigned char *marks)
{
    size_t size = td_dtype_size(k->out[0].desc->dtype);
    const unsigned char *at = k->out[0].data;
    td_kpart part;
    k->wrote(k, chunk, &part);
    bool once = true, there = true;
    for (int64_t i = 0; i < part.runs * part.length; i++) {
        unsigned char *mark = &marks[part.at + i / part.length * part.step + i % part.length];
        once = once && !*mark;
        *mark = 1;
    }
    for (int64_t i = 0, n = td_desc_numel(k->out[0].desc); i < n; i++)
        there = there && is_untouched(at + (size_t)i * size, size) == !marks[i];
    CU_ASSERT(once && there);
    wrotes_checked++;
}

/* Chunks of a phase until there are no more; scratch holds nothing from one to the next. */
static void *run_some(void *arg)
{
    running *r = arg;
    guarded scratch = guarded_new(r->k->scratch_bytes, 64, r->phase & 1);
    td_cpu_thread_init();
    for (;;) {
        int64_t i = atomic_fetch_add(&r->next, 1);
        if (i >= r->k->phase[r->phase].chunks) break;
        if (scratch.bytes <= 65536) memset(scratch.at, UNTOUCHED, scratch.bytes);
        r->k->phase[r->phase].fn(r->k, r->order[i], scratch.bytes || r->phase ? scratch.at : NULL);
        if (r->marks) check_wrote(r->k, r->order[i], r->marks);
    }
    if (!guarded_intact(&scratch)) atomic_store(&r->overrun, 1);
    guarded_free(&scratch);
    return NULL;
}

static int64_t *chunk_order(int64_t n, bool shuffle)
{
    int64_t *order = malloc(sizeof(int64_t) * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; shuffle && i > 0; i--) {
        int64_t j = random_below(i + 1), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
    return order;
}

/* Phases behind one that failed run, too: they must bear it. */
static void run_phases(td_kcall *k, int how)
{
    failed_phase = -1;
    for (int p = 0; p < k->nphases; p++) {
        running r = {.k = k, .phase = p, .order = chunk_order(k->phase[p].chunks, how != IN_ORDER)};
        pthread_t other;
        if (k->wrote && how != TWO_THREADS && p == k->nphases - 1) r.marks = watch(k);
        if (how == TWO_THREADS) pthread_create(&other, NULL, run_some, &r);
        run_some(&r);
        if (how == TWO_THREADS) pthread_join(other, NULL);
        if (r.marks) CU_ASSERT(!memchr(r.marks, 0, (size_t)td_desc_numel(k->out[0].desc)));
        free(r.order), free(r.marks);
        CU_ASSERT_EQUAL(atomic_load(&r.overrun), 0);
        if (failed_phase < 0 && atomic_load(&k->failed)) failed_phase = p;
    }
}

static void begin_plan(td_kcall *k)
{
    k->nphases = k->clean_phases = 0;
    k->scratch_bytes = k->work_bytes = k->state_bytes = 0;
    k->cost_ns = 0;
    k->replan = NULL;
    k->wrote = NULL;
    k->packing.in = 0;
    k->work = NULL;
    k->prepack = NULL;
    atomic_store(&k->failed, 0);
    memset(k->state, UNTOUCHED, sizeof k->state);
}

/* The same argument at an address where nothing is, with a descriptor of its own. */
static td_karg elsewhere(const td_karg *a, td_desc *d)
{
    td_karg there = *a;
    if (a->data) there.data = (char *)a->data + ((intptr_t)1 << 46);
    if (a->desc) *d = *a->desc, there.desc = d;
    return there;
}

/* A plan that says that it is good for other addresses: made for others, and moved, is it the very same? */
static void check_moved(td_plan_fn plan, const td_kcall *k)
{
    enum { MOST = 64 };
    if (!k->replan || k->nin + k->nout > MOST) return;
    td_karg args[MOST];
    td_desc descs[MOST];
    td_kcall *other = malloc(sizeof *other);
    memcpy(other, k, sizeof *other);
    for (int i = 0; i < k->nin; i++) {
        args[i] = elsewhere(&k->in[i], &descs[i]);
        if (td_karg_is_number(&k->in[i])) args[i].data = args[i].number;
    }
    for (int o = 0; o < k->nout; o++) args[k->nin + o] = elsewhere(&k->out[o], &descs[k->nin + o]);
    other->in = args, other->out = args + k->nin;
    begin_plan(other);
    CU_ASSERT_EQUAL(plan(other, NULL), 0);
    CU_ASSERT(other->replan == k->replan && other->state_bytes == k->state_bytes && other->nphases == k->nphases &&
              other->scratch_bytes == k->scratch_bytes && other->work_bytes == k->work_bytes);
    memset(other->state + other->state_bytes, UNTOUCHED, sizeof other->state - other->state_bytes);
    other->in = k->in, other->out = k->out;
    other->replan(other);
    bool same = !memcmp(other->state, k->state, sizeof k->state);
    CU_ASSERT(same);
    if (!same) printf("  %s is not the same when it is moved\n", k->op ? k->op->name : "a plan");
    free(other);
}

/* What a call makes of an input and could keep: made where it is told, or there already. The same bits in each way. */
static int packs_made;
static void give_pack(td_kcall *k, td_prepack *pack, int how)
{
    k->prepack = pack;
    if (how != TWO_THREADS) return;
    int nphases = k->nphases;
    k->nphases = 1;
    run_phases(k, how);
    k->nphases = (uint8_t)nphases;
    CU_ASSERT(atomic_load(&k->failed) || td_prepack_is_whole(k));
    td_prepack_leave_out(k);
    packs_made++;
}

/* Plan and run a call whose "given" part is set; the code of its failure, or 0. */
static int run_guarded(td_plan_fn plan, td_kcall *k, int how, td_error *e)
{
    begin_plan(k);
    int code = plan(k, e);
    if (code) return code;
    check_moved(plan, k);
    guarded work = guarded_new(k->work_bytes, 64, how == SHUFFLE);
    k->work = work.bytes ? work.at : NULL;
    bool packs = k->packing.in && how != IN_ORDER;
    guarded packed = guarded_new(packs ? k->packing.bytes : 0, 64, false);
    td_prepack pack = {.memory = packed.at};
    if (packs) give_pack(k, &pack, how);
    run_phases(k, how);
    CU_ASSERT(guarded_intact(&work) && guarded_intact(&packed));
    guarded_free(&work);
    guarded_free(&packed);
    k->work = NULL;
    k->prepack = NULL;
    if (atomic_load(&k->failed) && e) *e = k->error;
    return atomic_load(&k->failed);
}

#endif
