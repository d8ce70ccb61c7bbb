/* Memory for kernels: a thread's scratch, and the work memory of tasks, recycled so that its pages stay warm.
 *
 * Invariant: what is kept unused is bounded, by count and by bytes. What a call asks for follows from shapes that a
 * client chose: it was charged, and held against the daemon's budget, when the call was prepared (ops), and is until it
 * is collected; by then nobody has more of it than is kept. What the machine has not is refused all the same. */
#include "daemon/sched/internal.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t rounded(size_t size)
{
    size_t r = 4096;
    while (r < size && r < (size_t)1 << 20) r *= 2;
    if (r >= size) return r;
    return size > SIZE_MAX - ((size_t)1 << 20) ? 0 : (size + ((size_t)1 << 20) - 1) & ~(((size_t)1 << 20) - 1);
}

void *td_buffer_fit(td_buffer *b, size_t size)
{
    if (b->size >= size && b->data) return b->data;
    free(b->data);
    b->size = rounded(size);
    b->data = b->size && td_system_has(b->size) ? aligned_alloc(64, b->size) : NULL;
    if (!b->data) b->size = 0;
    return b->data;
}

void td_buffer_trim(td_buffer *b, size_t keep)
{
    if (b->size <= keep) return;
    free(b->data);
    *b = (td_buffer){0};
}

/* malloc keeps the end of a thread's arena for itself, whatever lies there (malloc_trim, too): so the pages go first.
 */
void td_buffer_shed(td_buffer *b)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)b->data + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)b->data + b->size) & ~(page - 1);
    if (b->data && begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
    td_buffer_trim(b, 0);
}

/* The smallest spare that fits and is not wasted on it; -1: none. */
static int best(const td_work *w, size_t size)
{
    int found = -1;
    for (int i = 0; i < w->count; i++) {
        size_t have = w->spare[i].size;
        if (have < size || have / 8 > size + 4096) continue;
        if (found < 0 || have < w->spare[found].size) found = i;
    }
    return found;
}

td_buffer td_work_take(td_work *w, size_t size)
{
    td_buffer b = {0};
    pthread_mutex_lock(&w->lock);
    int i = best(w, size);
    if (i >= 0) {
        b = w->spare[i];
        w->bytes -= b.size;
        w->spare[i] = w->spare[--w->count];
    }
    pthread_mutex_unlock(&w->lock);
    if (!b.data) td_buffer_fit(&b, size);
    return b;
}

void td_work_give(td_work *w, td_buffer b)
{
    td_buffer old = {0};
    pthread_mutex_lock(&w->lock);
    if (w->count == TD_WORK_SPARES || (w->count && w->bytes + b.size > w->keep)) {
        old = w->spare[0]; /* the one that lies here longest, more or less */
        w->bytes -= old.size;
        w->spare[0] = w->spare[--w->count];
    }
    if (w->bytes + b.size <= w->keep) {
        w->spare[w->count++] = b;
        w->bytes += b.size;
        b.data = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    free(old.data);
    free(b.data);
}

void td_work_shed(td_work *w)
{
    td_buffer old[TD_WORK_SPARES];
    pthread_mutex_lock(&w->lock);
    int n = w->count;
    memcpy(old, w->spare, (size_t)n * sizeof *old);
    w->count = 0;
    w->bytes = 0;
    pthread_mutex_unlock(&w->lock);
    while (n--) td_buffer_shed(&old[n]);
}
