/* Memory of a GPU: extents of arenas, which the channel makes and heaps of the loop cut.
 *
 * An arena that has gone with its process is noticed by the loop at its next call: what lies in it is lost, and its
 * heap gives nothing more out of it, for it is an orphan from then on. */
#include "daemon/cuda/room.h"
#include "proto/base/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM = 256 << 20 };

static td_cuda *cuda_at(unsigned number)
{
    return td_device_get(number)->self;
}

static td_gpu_memory *arena_of(const td_segment *s)
{
    return s->maker;
}

/* ---- arenas */

static void end_arena(td_segment *s)
{
    td_gpu_end_memory(arena_of(s));
}

static int make(td_segment **out, td_segment_kind kind, uint64_t size, void *arg, td_error *e)
{
    td_cuda *c = arg;
    td_gpu_memory *m;
    int rc = td_gpu_make(c->gpu, size, &m, e);
    if (rc) return rc;
    rc = td_segment_of_device(out, (void *)m->address, m->bytes, -1, end_arena, m, e); /* NOLINT: an address there */
    if (rc) td_gpu_end_memory(m);
    else (*out)->kind = (uint8_t)kind;
    return rc;
}

/* What the GPU had free when its process first looked, less what a context takes. */
static void learn_limit(td_cuda *c)
{
    td_gpu_facts f;
    if (c->limited) return;
    td_gpu_get_facts(c->gpu, &f);
    if (!f.started) return;
    c->limited = true;
    if (f.greeting.bytes < c->budget.limit) c->budget.limit = f.greeting.bytes;
}

/* ---- heaps */

static int heap_of(td_cuda *c, uint32_t uid, td_heap **out, td_error *e)
{
    td_cuda_heap *h = c->heaps;
    while (h && h->uid != uid) h = h->next;
    if (h) {
        *out = h->heap;
        return TD_OK;
    }
    if (!(h = calloc(1, sizeof *h))) return td_no_memory(e, "for a heap's record");
    int rc = td_heap_new(&h->heap, &c->budget, TD_SEGMENT_SESSION, uid, e);
    if (rc) {
        free(h);
        return rc;
    }
    h->uid = uid;
    h->next = c->heaps;
    c->heaps = h;
    *out = h->heap;
    return TD_OK;
}

static bool has_lost(const td_heap *h)
{
    for (const td_segment *s = NULL; (s = td_heap_next_segment(h, s));)
        if (atomic_load(&arena_of(s)->lost)) return true;
    return false;
}

static void lose(td_cuda *c, td_heap *h)
{
    td_error e;
    td_fail(&e, TD_E_DEVICE, "%s failed: what lay there has gone with its process%s", td_device_name(c->number),
            " (memory that is handed out by legacy handles does not outlive it; see tensord --cuda-handles)");
    td_cause *why = td_cause_new(&e);
    if (!why) return;
    for (td_segment *s = NULL; (s = td_heap_next_segment(h, s));) {
        if (!atomic_load(&arena_of(s)->lost)) continue;
        td_heap_forgo(h, s);
        td_device_lose(c->number, s, why);
    }
    td_cause_unref(why);
}

void td_cuda_notice(td_cuda *c)
{
    if (!atomic_load_explicit(&c->has_lost, memory_order_relaxed)) return;
    atomic_store(&c->has_lost, false);
    td_budget_shed(&c->budget);
    for (td_cuda_heap **at = &c->heaps; *at;) {
        td_cuda_heap *h = *at;
        if (!has_lost(h->heap)) {
            at = &h->next;
            continue;
        }
        lose(c, h->heap);
        *at = h->next;
        td_heap_orphan(h->heap, false);
        free(h);
    }
}

void td_cuda_memory_begin(td_cuda *c, uint64_t limit)
{
    td_budget_init(&c->budget, limit ? limit : UINT64_C(1) << 50, TD_SHM_DEVICE);
    c->budget.granule = UINT64_C(2) << 20;
    c->budget.warm_limit = WARM;
    c->budget.make = make;
    c->budget.make_arg = c;
}

void td_cuda_memory_end(td_cuda *c)
{
    for (td_cuda_heap *h = c->heaps, *next; h; h = next) {
        next = h->next;
        td_heap_free(h->heap);
        free(h);
    }
    c->heaps = NULL;
    td_budget_deinit(&c->budget);
}

/* ---- as a device */

static int take(td_heap *h, td_storage *s, td_need *need, td_error *e)
{
    return need ? td_heap_alloc(h, s->nbytes, &s->extent, need, e) : td_heap_alloc_now(h, s->nbytes, &s->extent, e);
}

static int cuda_alloc(const td_place *where, td_storage *s, td_need *need, td_error *e)
{
    td_cuda *c = cuda_at(where->device);
    td_heap *h = NULL;
    td_cuda_notice(c);
    learn_limit(c);
    int rc = heap_of(c, where->account ? where->account->uid : (uint32_t)geteuid(), &h, e);
    if (!rc) rc = take(h, s, need, e);
    if (rc == TD_E_MEMORY && td_heap_trim(h)) rc = take(h, s, need, e);
    if (!rc) s->data = td_extent_data(&s->extent);
    return rc;
}

static void cuda_free(td_storage *s)
{
    td_heap_release(td_extent_heap(&s->extent), &s->extent);
}

static void cuda_shrink(td_storage *s, uint64_t nbytes)
{
    td_heap_shrink(td_extent_heap(&s->extent), &s->extent, nbytes);
}

static int gone(const td_storage *s, td_error *e)
{
    return td_fail(e, TD_E_DEVICE, "%s failed: what lay there has gone with its process", td_device_name(s->device));
}

static int cuda_read(const td_storage *s, uint64_t at, void *to, size_t n, td_error *e)
{
    td_cuda *c = cuda_at(s->device);
    if (atomic_load(&arena_of(s->extent.segment)->lost)) return gone(s, e);
    return td_gpu_read(c->gpu, (uint64_t)(uintptr_t)s->data + at, to, n, e);
}

static int cuda_write(td_storage *s, uint64_t at, const void *from, size_t n, td_error *e)
{
    td_cuda *c = cuda_at(s->device);
    if (atomic_load(&arena_of(s->extent.segment)->lost)) return gone(s, e);
    return td_gpu_write(c->gpu, (uint64_t)(uintptr_t)s->data + at, from, n, e);
}

static int cuda_handle(const td_storage *s, td_device_handle *out, td_error *e)
{
    const td_gpu_memory *m = arena_of(s->extent.segment);
    td_gpu_facts f;
    td_gpu_get_facts(m->gpu, &f);
    if (atomic_load(&m->lost)) return gone(s, e);
    if (m->fd < 0 && f.greeting.handles != TD_GPU_HANDLES_IPC)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "memory of %s cannot be shared on this machine: the driver gives no handles",
                       td_device_name(s->device));
    out->fd = m->fd;
    memcpy(out->legacy, m->handle, sizeof out->legacy);
    memcpy(out->uuid, f.greeting.uuid, sizeof out->uuid);
    return TD_OK;
}

static void cuda_tell(unsigned number, td_device_told *out)
{
    static const char *const handles[] = {"", "vmm", "ipc", "none"};
    td_gpu_facts f;
    td_gpu_get_facts(cuda_at(number)->gpu, &f);
    if (!f.started) return;
    out->pid = f.pid;
    out->starts = f.starts;
    snprintf(out->name, sizeof out->name, "%s", f.greeting.name);
    snprintf(out->driver, sizeof out->driver, "%u.%u", f.greeting.version / 1000, f.greeting.version % 1000 / 10);
    snprintf(out->library, sizeof out->library, "%s", f.greeting.library);
    if (f.greeting.handles < sizeof handles / sizeof *handles)
        snprintf(out->handles, sizeof out->handles, "%s", handles[f.greeting.handles]);
}

const td_device_memory td_cuda_memory = {.alloc = cuda_alloc,
                                         .free = cuda_free,
                                         .shrink = cuda_shrink,
                                         .read = cuda_read,
                                         .write = cuda_write,
                                         .handle = cuda_handle,
                                         .tell = cuda_tell};
