/* Arrays that may grow to megabytes without stopping the loop for it: from a size on they are pages of their own, so
 * that growing moves no bytes, new bytes are zero without being written, and giving back does not trim a heap. Small
 * ones are a thread's own free blocks, which calloc, unlike realloc, does not look at. */
#include "daemon/autograd/backward.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGES_FROM = 1 << 18, PAGE = 4096, PART = 2 << 20 /* is given back in 0.1 ms */ };

static void *first_pages(void *p, size_t old, size_t size)
{
    void *q = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (q == MAP_FAILED) return NULL;
    if (old) memcpy(q, p, old);
    free(p);
    return q;
}

void *td_array_grow(void *p, size_t old, size_t size)
{
    if (old >= PAGES_FROM) {
        void *q = mremap(p, old, size, MREMAP_MAYMOVE);
        return q == MAP_FAILED ? NULL : q;
    }
    if (size >= PAGES_FROM) return first_pages(p, old, size);
    unsigned char *q = realloc(p, size);
    if (q) memset(q + old, 0, size - old);
    return q;
}

void *td_array_more(void *p, uint32_t *room, size_t size)
{
    enum { FIRST = 16 };
    uint32_t more = *room ? 2 * *room : FIRST;
    void *q = td_array_grow(p, *room * size, more * size);
    if (q) *room = more;
    return q;
}

void td_array_free(void *p, size_t size)
{
    if (p && size >= PAGES_FROM) munmap(p, size);
    else free(p);
}

size_t td_array_shorten(void *p, size_t size)
{
    if (!p) return 0;
    size_t left = size > PART + PAGES_FROM ? (size - PART) / PAGE * PAGE : 0;
    if (left) munmap((char *)p + left, size - left);
    else td_array_free(p, size);
    return left;
}
