/* For tests of memory that is out: the next allocations, of any thread, go through here, and one of them fails. Link
 * with -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc; a test wraps what else it wants by `fails`. */
#ifndef TENSORD_TESTS_HOSTILE_STARVE_H
#define TENSORD_TESTS_HOSTILE_STARVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_realloc(void *p, size_t n);

static _Atomic int until_failure; /* the so-many-th allocation from now fails; 0: none */
static _Atomic int64_t live;      /* blocks, for a test that wraps free() and strdup() too */

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

#endif
