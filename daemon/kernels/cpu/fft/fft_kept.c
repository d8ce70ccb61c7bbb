/* What is known of short lengths is kept: the last TD_FFT_KEPT that were used; who needs a longer one makes it in the
 * work memory of its call.
 *
 * Everything in `kept` is guarded by `lock`; what somebody holds is not dropped. */
#include "daemon/kernels/cpu/fft/fft.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct entry {
    td_fft_length *fft;
    int refs;
    uint64_t used;
} entry;

static struct {
    entry at[TD_FFT_KEPT];
    uint64_t clock;
} kept;

static entry *find(int64_t length, td_dtype dtype, bool real)
{
    bool half = real && length % 2 == 0;
    for (int i = 0; i < TD_FFT_KEPT; i++) {
        const td_fft_length *f = kept.at[i].fft;
        if (f && f->length == length && f->dtype == dtype && f->real == half) return &kept.at[i];
    }
    return NULL;
}

/* Room for one: an empty place, or that of the longest unused. */
static entry *place(void)
{
    entry *oldest = NULL;
    for (int i = 0; i < TD_FFT_KEPT; i++) {
        entry *e = &kept.at[i];
        if (!e->fft) return e;
        if (e->refs == 0 && (!oldest || e->used < oldest->used)) oldest = e;
    }
    if (oldest) free(oldest->fft), oldest->fft = NULL;
    return oldest;
}

static const td_fft_length *hold(int64_t length, td_dtype dtype, bool real)
{
    pthread_mutex_lock(&lock);
    entry *e = find(length, dtype, real);
    if (e) e->refs++, e->used = ++kept.clock;
    pthread_mutex_unlock(&lock);
    return e ? e->fft : NULL;
}

const td_fft_length *td_fft_take(td_kcall *k, int64_t length, td_dtype dtype, bool real)
{
    const td_fft_length *known = hold(length, dtype, real);
    if (known) return known;
    size_t bytes = td_fft_bytes(length, dtype, real);
    td_fft_length *f = aligned_alloc(64, bytes);
    if (!f || !td_fft_make(k, f, length, dtype, real)) {
        if (!f) td_kernel_fail(k, TD_E_MEMORY, "no memory for %zu bytes of roots of unity", bytes);
        free(f);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    entry *e = find(length, dtype, real) ? NULL : place(); /* somebody else may have made the same meanwhile */
    if (e) *e = (entry){f, 1, ++kept.clock};
    pthread_mutex_unlock(&lock);
    return f;
}

void td_fft_give(const td_fft_length *f)
{
    bool ours = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < TD_FFT_KEPT; i++)
        if (kept.at[i].fft == f) kept.at[i].refs--, ours = true;
    pthread_mutex_unlock(&lock);
    if (!ours) free((td_fft_length *)f);
}
