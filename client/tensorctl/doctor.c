/* tensorctl doctor: what this machine grants, and what to change. Tries what can be tried rather than believing
 * settings. */
#include "client/tensorctl/tensorctl.h"
#include "proto/base/cgroup.h"
#include "proto/base/place.h"
#include "shm/cuda/library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define LATE_US 500 /* what is woken should run sooner */

typedef struct report {
    td_table *t;
    int problems;
} report;

__attribute__((format(printf, 5, 6))) static void say(report *r, const char *what, const char *state,
                                                      const char *advice, const char *found, ...)
{
    char text[256];
    va_list list;
    va_start(list, found);
    vsnprintf(text, sizeof text, found, list);
    va_end(list);
    ctl_row_text(r->t, 0, what);
    ctl_row_text(r->t, 1, state);
    ctl_row_text(r->t, 2, text);
    ctl_row_text(r->t, 3, advice);
    r->problems += strcmp(state, "problem") == 0;
}

static bool first_line(const char *path, char *line, size_t size)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(line, (int)size, f);
    if (f) fclose(f);
    if (ok) line[strcspn(line, "\n")] = 0;
    return ok;
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void check_descriptors(report *r)
{
    struct rlimit l = {0};
    getrlimit(RLIMIT_NOFILE, &l);
    say(r, "open files", l.rlim_cur >= 1024 ? "ok" : "problem",
        l.rlim_cur >= 1024 ? "" : "ulimit -n 4096, or LimitNOFILE= in the unit", "%llu (up to %llu)",
        (unsigned long long)l.rlim_cur, (unsigned long long)l.rlim_max);
}

static void check_locked(report *r)
{
    struct rlimit l = {0};
    getrlimit(RLIMIT_MEMLOCK, &l);
    if (l.rlim_cur == RLIM_INFINITY) say(r, "locked memory", "ok", "", "unlimited");
    else
        say(r, "locked memory", "note", "only pinning for CUDA needs more: ulimit -l unlimited", "%.1f MB",
            (double)l.rlim_cur / 1e6);
}

static void check_dev_shm(report *r)
{
    struct statvfs v;
    if (statvfs("/dev/shm", &v)) {
        say(r, "/dev/shm", "note", "needed only for --shm=posix", "not there");
        return;
    }
    double size = (double)v.f_blocks * (double)v.f_frsize / 1e6, left = (double)v.f_bavail * (double)v.f_frsize / 1e6;
    say(r, "/dev/shm", left < 256 ? "note" : "ok",
        left < 256 ? "only --shm=posix uses it; docker run --shm-size=8g" : "", "%.0f MB, %.0f MB free", size, left);
}

static void check_groups(report *r)
{
    uint64_t memory = td_cgroup_memory("");
    int granted = td_cgroup_processors("");
    if (!memory) say(r, "memory group", "ok", "", "no limit");
    else
        say(r, "memory group", "ok", "shared memory counts to the daemon's group; --memory stays below it", "%.0f MB",
            (double)memory / 1e6);
    if (!granted) say(r, "processors", "ok", "", "%ld, no quota", sysconf(_SC_NPROCESSORS_ONLN));
    else say(r, "processors", "ok", "workers follow it", "%ld, by quota %d", sysconf(_SC_NPROCESSORS_ONLN), granted);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int sealed_memfd(size_t size)
{
    int fd = memfd_create("tensorctl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && fallocate(fd, 0, 0, (off_t)size) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static void check_memfd(report *r)
{
    int fd = sealed_memfd(1 << 20);
    if (fd >= 0) say(r, "sealed memory", "ok", "", "memfd with seals");
    else
        say(r, "sealed memory", "problem", "start the daemon with --shm=posix", "memfd_create or its seals refused: %s",
            strerror(errno));
    if (fd >= 0) close(fd);
}

/* Does the kernel make one huge page of a piece of shared memory on request? */
static void check_collapse(report *r)
{
    enum { HUGE = 2 << 20 };
    char setting[128] = "?";
    first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", setting, sizeof setting);
    int fd = sealed_memfd(HUGE), rc = -1, err = errno;
    unsigned char *room = mmap(NULL, 2 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *at = (unsigned char *)(((uintptr_t)room + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    if (fd >= 0 && room != MAP_FAILED && mmap(at, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at) {
        *at = 1;
        rc = madvise(at, HUGE, MADV_COLLAPSE);
        err = errno;
    }
    if (room != MAP_FAILED) munmap(room, 2 * HUGE);
    if (fd >= 0) close(fd);
    if (rc == 0) say(r, "huge pages", "ok", "", "granted on request (setting: %s)", setting);
    else
        say(r, "huge pages", "note",
            "a kernel from 6.1 on makes them of shared memory on request; works without, slower at first touch",
            "not granted: %s (setting: %s)", strerror(err), setting);
}

/* ---- processor, devices ------------------------------------------------------------------------------------------ */

static void check_instructions(report *r)
{
#if defined(__x86_64__)
    char text[128];
    snprintf(text, sizeof text, "x86-64%s%s%s%s%s", __builtin_cpu_supports("avx2") ? " AVX2" : "",
             __builtin_cpu_supports("fma") ? " FMA" : "", __builtin_cpu_supports("avx512f") ? " AVX-512" : "",
             __builtin_cpu_supports("avx512bw") ? " BW" : "", __builtin_cpu_supports("avx512vl") ? " VL" : "");
    say(r, "instructions", "ok", __builtin_cpu_supports("avx2") ? "" : "kernels run, but much slower than with AVX2",
        "%s", text);
#elif defined(__aarch64__)
    say(r, "instructions", "ok", "", "arm64");
#else
    say(r, "instructions", "note", "only plain kernels", "other");
#endif
}

static void check_cuda(report *r)
{
    if (access("/dev/nvidiactl", F_OK) == 0)
        say(r, "CUDA", access("/dev/nvidiactl", R_OK | W_OK) ? "problem" : "ok",
            access("/dev/nvidiactl", R_OK | W_OK) ? "no permission on /dev/nvidiactl" : "", "a device is there");
    else say(r, "CUDA", "note", "", "no device");
}

/* The file that would be opened for large products; a daemon looks with its own environment. */
static void check_products(report *r)
{
    char path[TD_CUDA_PATH];
    if (td_cuda_library_find(path)) say(r, "cuBLASLt", "ok", "", "%.200s", path);
    else
        say(r, "cuBLASLt", "note",
            "on a GPU, large products go by slower kernels; TENSORD_CUDA_LIBRARIES says where it is", "not found");
}

static void check_kernel(report *r)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    say(r, "process watch", fd >= 0 ? "ok" : "note",
        fd >= 0 ? "" : "a kernel from 5.3 on; else a forked child keeps a dead client's session", "pidfd %s",
        fd >= 0 ? "works" : "is refused");
    if (fd >= 0) close(fd);
}

static void check_wakes(report *r)
{
    double plain, breathing;
    if (!ctl_wakes(&plain, &breathing)) {
        say(r, "wakes", "note", "", "cannot be tried on one processor");
        return;
    }
    bool late = plain > LATE_US && plain > 4 * breathing;
    say(r, "wakes", late ? "note" : "ok", late ? "other programs that compute here hold answers up as long" : "",
        "beside a computing thread: %.2g ms; with system calls %.2g", plain * 1e-3, breathing * 1e-3);
}

/* ---- the daemon -------------------------------------------------------------------------------------------------- */

static void check_directory(report *r, const char *socket)
{
    char directory[128];
    struct stat st;
    snprintf(directory, sizeof directory, "%s", socket);
    char *slash = strrchr(directory, '/');
    if (slash) *slash = 0;
    if (stat(directory, &st)) {
        say(r, "socket directory", "note", "the daemon makes it", "%s: %s", directory, strerror(errno));
        return;
    }
    bool open = st.st_mode & 077;
    say(r, "socket directory", open ? "problem" : "ok", open ? "chmod 700: others could take the socket's place" : "",
        "%s mode %03o", directory, (unsigned)(st.st_mode & 0777));
}

static void default_socket(char *out, size_t size)
{
    const char *named = getenv("TENSORD_SOCKET");
    char directory[TD_PLACE_SIZE] = "";
    for (int i = 0; i < TD_PLACES; i++)
        if (td_default_place(i, directory) && !td_default_place_taken(directory, NULL)) break;
    if (named && named[0]) snprintf(out, size, "%s", named);
    else snprintf(out, size, "%s/socket", directory);
}

static const char *text_of(const td_table *t, int row, const char *column)
{
    for (int i = 0; i < t->columns; i++)
        if (!strcmp(t->names[i], column)) return t->cells[row * t->columns + i].text;
    return "";
}

/* GPUs as the daemon has them. Nothing is opened to find out: what a GPU is, is known from its first tensor on. */
static void check_gpus(report *r, td_client *c)
{
    td_table *t = td_status(c, "devices");
    for (int i = 0; t && i < t->rows; i++) {
        const char *device = text_of(t, i, "device"), *name = text_of(t, i, "name"), *kind = text_of(t, i, "handles");
        if (strncmp(device, "cuda", 4) != 0) continue;
        bool apart = !strcmp(kind, "none");
        if (!name || !name[0]) say(r, device, "ok", "", "no tensor has been there so far");
        else
            say(r, device, apart ? "note" : "ok", apart ? "other processes cannot map its memory" : "",
                "%s, CUDA %s, handles: %s", name, text_of(t, i, "cuda"), kind);
        const char *library = text_of(t, i, "library");
        char what[48];
        snprintf(what, sizeof what, "%.30s products", device);
        if (library && library[0]) say(r, what, strstr(library, "not ") ? "note" : "ok", "", "%.200s", library);
    }
    td_table_free(t);
}

static void check_daemon(report *r, const ctl_options *o)
{
    char socket[128];
    default_socket(socket, sizeof socket);
    td_client *c = o->pid ? ctl_connect(o) : td_connect(o->socket);
    check_directory(r, c ? td_socket_path(c) : o->socket ? o->socket : socket);
    if (!c) {
        say(r, "daemon", "note", "start tensord; programs that find none start a private one", "%.200s",
            td_last_error()->message);
        say(r, "kernels", "note", "", "unknown: no daemon to ask");
        return;
    }
    say(r, "daemon", "ok", "", "%s: version %s, pid %u, %s", ctl_whose(c), td_daemon_version(c), td_daemon_pid(c),
        td_socket_path(c));
    td_table *t = td_status(c, "status");
    const char *kernels = "unknown";
    for (int i = 0; t && i < t->rows; i++)
        if (strcmp(t->cells[i * 2].text, "kernels") == 0 && t->cells[i * 2 + 1].kind == TD_CELL_TEXT)
            kernels = t->cells[i * 2 + 1].text;
    say(r, "kernels", "ok", "", "%.200s", kernels);
    td_table_free(t);
    check_gpus(r, c);
    td_disconnect(c);
}

int ctl_doctor(const ctl_options *o)
{
    static const char *const columns[] = {"what", "state", "found", "advice"};
    report r = {ctl_table_new(4, columns), 0};
    check_daemon(&r, o);
    check_descriptors(&r);
    check_locked(&r);
    check_dev_shm(&r);
    check_groups(&r);
    check_memfd(&r);
    check_collapse(&r);
    check_instructions(&r);
    check_kernel(&r);
    check_wakes(&r);
    check_cuda(&r);
    check_products(&r);
    ctl_print(r.t, o->json);
    td_table_free(r.t);
    return r.problems ? 1 : 0;
}
