/* The SIGBUS guard: a client that punches a hole into (or cuts) a segment must not kill the daemon.
 *
 * A registry tells which addresses are segments. It only grows, in blocks that are never freed, so that the handler can
 * walk it without a lock at any moment; an entry in use has a base that is not 0. A fault at any other address gets the
 * default action. */
#include "shm/backend.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct guard {
    _Atomic uintptr_t base;
    _Atomic uint64_t size;
    _Atomic bool damaged;
} guard;

#define BLOCK 512
typedef struct guard_block {
    guard at[BLOCK];
    struct guard_block *_Atomic next;
} guard_block;

/* One registry in a process, as there is one signal handler. */
static guard_block first_block;
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t patched;
static _Atomic uintptr_t page_mask = 4095;

static guard *free_entry(void)
{
    for (guard_block *b = &first_block;; b = atomic_load(&b->next)) {
        for (int i = 0; i < BLOCK; i++)
            if (!atomic_load_explicit(&b->at[i].base, memory_order_relaxed)) return &b->at[i];
        if (!atomic_load(&b->next)) {
            guard_block *more = calloc(1, sizeof *more);
            if (!more) return NULL;
            atomic_store(&b->next, more);
        }
    }
}

int td_guard_add(td_segment *s, td_error *e)
{
    pthread_mutex_lock(&registry_lock);
    guard *g = free_entry();
    if (g) {
        atomic_store(&g->size, s->size);
        atomic_store(&g->damaged, false);
        atomic_store(&g->base, (uintptr_t)s->base);
    }
    pthread_mutex_unlock(&registry_lock);
    s->guard = g;
    return g ? 0 : td_no_memory(e, "for a segment's record");
}

void td_guard_remove(td_segment *s)
{
    guard *g = s->guard;
    if (g) atomic_store(&g->base, 0);
    s->guard = NULL;
}

bool td_segment_damaged(const td_segment *s)
{
    const guard *g = s->guard;
    return g && atomic_load(&g->damaged);
}

static guard *find(uintptr_t address)
{
    for (guard_block *b = &first_block; b; b = atomic_load(&b->next))
        for (int i = 0; i < BLOCK; i++) {
            uintptr_t base = atomic_load(&b->at[i].base);
            if (base && address - base < atomic_load(&b->at[i].size)) return &b->at[i];
        }
    return NULL;
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    uintptr_t mask = atomic_load(&page_mask), address = (uintptr_t)info->si_addr;
    guard *g = info->si_code > 0 ? find(address) : NULL; /* a signal that somebody sent has a code of 0 or less */
    void *page = (void *)(address & ~mask);
    if (g && mmap(page, mask + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
        atomic_store(&g->damaged, true);
        atomic_fetch_add(&patched, 1);
    } else {
        signal(number, SIG_DFL); /* the access repeats and ends the process, as it should */
        if (info->si_code <= 0) raise(number);
    }
    errno = saved;
}

int td_sigbus_guard_install(td_error *e)
{
    static atomic_flag installed = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&installed)) return 0;
    atomic_store(&page_mask, (uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, NULL)) {
        int err = errno;
        atomic_flag_clear(&installed);
        return td_fail_errno(e, err, "cannot install the SIGBUS handler");
    }
    return 0;
}

uint64_t td_sigbus_count(void)
{
    return atomic_load(&patched);
}
