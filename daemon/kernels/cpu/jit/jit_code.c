/* A memfd is filled by write(), sealed and mapped for execution: so there is no map through which it could be changed,
 * not even for a moment, and systems that refuse to make written pages executable have nothing to refuse. */
#include "daemon/kernels/cpu/jit/jit_code.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

enum { MOST = 4096 }; /* of the 65,530 that a process may have by default each takes two */
static atomic_int count;
static atomic_bool refused;

bool td_jit_code_allowed(void)
{
    return !atomic_load_explicit(&refused, memory_order_relaxed) &&
           atomic_load_explicit(&count, memory_order_relaxed) < MOST;
}

unsigned td_jit_code_left(void)
{
    int n = atomic_load_explicit(&count, memory_order_relaxed);
    return td_jit_code_allowed() && n < MOST ? (unsigned)(MOST - n) : 0;
}

/* For ever, or because something is short for the moment? */
static void *none(int why)
{
    if (why == EACCES || why == EPERM || why == ENOSYS) atomic_store_explicit(&refused, true, memory_order_relaxed);
    return NULL;
}

static int open_file(void)
{
    enum { FLAGS = MFD_CLOEXEC | MFD_ALLOW_SEALING };
    int fd = memfd_create("tensord-code", FLAGS | MFD_EXEC);
    return fd < 0 && errno == EINVAL ? memfd_create("tensord-code", FLAGS) : fd;
}

static bool fill(int fd, const void *code, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(fd, (const char *)code + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return !fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
}

static void *map(int fd, size_t ncode, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) return none(errno);
    if (bytes == ncode || !mprotect((char *)at + ncode, bytes - ncode, PROT_READ)) return at;
    munmap(at, bytes);
    return NULL;
}

void *td_jit_code_new(const void *code, size_t ncode, size_t bytes, size_t *mapped)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = td_jit_code_allowed() ? open_file() : -1;
    if (fd < 0) return td_jit_code_allowed() ? none(errno) : NULL;
    *mapped = (bytes + page - 1) / page * page;
    void *at = fill(fd, code, bytes) ? map(fd, ncode, *mapped) : NULL;
    close(fd);
    if (at) atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    return at;
}

void td_jit_code_free(void *code, size_t mapped)
{
    munmap(code, mapped);
    atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
}
