/* See library.h. */
#include "shm/cuda/library.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
enum { NAMES = sizeof names / sizeof *names };
#define TOOLKIT "/usr/local/cuda/lib64"

/* Directory i of a list; false: it has no such. */
static bool directory_of(const char *list, unsigned i, int *length, const char **at)
{
    for (; list && *list; list += *length + (list[*length] == ':')) {
        *length = (int)strcspn(list, ":");
        *at = list;
        if (*length && !i--) return true;
        if (!list[*length]) break;
    }
    return false;
}

static unsigned directories_in(const char *list)
{
    const char *at;
    int length;
    unsigned n = 0;
    while (directory_of(list, n, &length, &at)) n++;
    return n;
}

bool td_cuda_library_place(unsigned i, char path[TD_CUDA_PATH])
{
    const char *list = getenv("TENSORD_CUDA_LIBRARIES"), *at, *name = names[i % NAMES];
    unsigned place = i / NAMES, first = directories_in(list);
    int length;
    if ((list && !strcmp(list, "off")) || place > first + 1) return false;
    if (directory_of(list, place, &length, &at)) snprintf(path, TD_CUDA_PATH, "%.*s/%s", length, at, name);
    else snprintf(path, TD_CUDA_PATH, "%s%s", place > first ? TOOLKIT "/" : "", name);
    return true;
}

/* ---- files alone */

/* The linker's cache has the paths of its libraries as strings: the one that ends in /NAME. */
static bool in_cache(const char *text, size_t bytes, const char *name, char path[TD_CUDA_PATH])
{
    size_t n = strlen(name) + 1; /* with its end */
    for (const char *at = text, *last = text + bytes; (at = memmem(at, (size_t)(last - at), name, n)); at++) {
        const char *begin = at;
        if (at == text || at[-1] != '/') continue;
        while (begin > text && begin[-1]) begin--;
        snprintf(path, TD_CUDA_PATH, "%s", begin);
        if (!access(path, F_OK)) return true;
    }
    return false;
}

static bool cached(const char *name, char path[TD_CUDA_PATH])
{
    struct stat st;
    bool found = false;
    int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    void *text = fd < 0 || fstat(fd, &st) || !st.st_size
                     ? MAP_FAILED
                     : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0) close(fd);
    if (text == MAP_FAILED) return false;
    found = in_cache(text, (size_t)st.st_size, name, path);
    munmap(text, (size_t)st.st_size);
    return found;
}

/* Where the linker would find it. */
static bool linked(const char *name, char path[TD_CUDA_PATH])
{
    const char *list = getenv("LD_LIBRARY_PATH"), *at;
    int length;
    for (unsigned i = 0; directory_of(list, i, &length, &at); i++) {
        snprintf(path, TD_CUDA_PATH, "%.*s/%s", length, at, name);
        if (!access(path, F_OK)) return true;
    }
    return cached(name, path);
}

bool td_cuda_library_find(char path[TD_CUDA_PATH])
{
    for (unsigned i = 0; td_cuda_library_place(i, path); i++)
        if (*path == '/' ? !access(path, F_OK) : linked(names[i % NAMES], path)) return true;
    return false;
}
