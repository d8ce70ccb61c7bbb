/* A memfd is filled by write(), sealed and mapped for execution: so there is no map through which it could be changed,
 * not even for a moment, and systems that refuse to make written pages executable have nothing to refuse. */
#include "daemon/kernels/cpu/jit_code.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

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

void *td_jit_code_new(const void *code, size_t bytes, size_t *mapped)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = open_file();
    if (fd < 0) return NULL;
    void *at = MAP_FAILED;
    *mapped = (bytes + page - 1) / page * page;
    if (fill(fd, code, bytes)) at = mmap(NULL, *mapped, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

void td_jit_code_free(void *code, size_t mapped)
{
    munmap(code, mapped);
}
