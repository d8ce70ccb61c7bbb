/* For tests of memory that is out: allocations, of any thread, go through here, one of the next fails, and the blocks
 * that nobody has freed are counted. Link with `starving` of tests/support; a test wraps what else it wants by `fails`
 * and `made`. */
#ifndef TENSORD_TESTS_HOSTILE_STARVE_H
#define TENSORD_TESTS_HOSTILE_STARVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void __real_free(void *p);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void __wrap_free(void *p);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);

static _Atomic int until_failure; /* the so-many-th allocation from now fails; 0: none */
static _Atomic int64_t live;      /* blocks */

static bool fails(void)
{
    int n = until_failure;
    while (n && !atomic_compare_exchange_weak(&until_failure, &n, n - 1)) continue;
    return n == 1;
}

static void *made(void *p)
{
    if (p) live++;
    return p;
}

/* For what is done until it leaves as many blocks as it found, a few times at most: a table that had grown does not
 * grow twice. `before` says what it found the last time. */
typedef struct settling {
    int64_t before;
    int times;
} settling;

/* Is it to be done once more? */
__attribute__((unused)) static bool unsettled(settling *s)
{
    enum { MOST_TIMES = 4 };
    if (s->times == MOST_TIMES || (s->times && live == s->before)) return false;
    s->times++;
    s->before = live;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : made(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t each)
{
    return fails() ? NULL : made(__real_calloc(n, each));
}

void *__wrap_realloc(void *p, size_t n)
{
    if (fails()) return NULL;
    return p ? __real_realloc(p, n) : made(__real_realloc(p, n));
}

/* Of what tests run kernels with, too: it does not fail. */
void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return made(__real_aligned_alloc(alignment, n));
}

void __wrap_free(void *p)
{
    if (p) live--;
    __real_free(p);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : made(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t n)
{
    return fails() ? NULL : made(__real_strndup(text, n));
}

#endif
