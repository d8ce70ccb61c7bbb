/* Segments: what the kernel was said to guarantee is tried here on both backends, by doing what is forbidden. */
#include "shm/backend.h"
#include "shm/heap.h"
#include "shm/segment.h"
#include "tests/unit/cunit_main.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int count_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    if (!d) return -1;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

/* Run in a child; its exit status, or 1000 + signal. */
static int in_child(int (*what)(void *), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) _exit(what(arg));
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void each(td_shm_backend backend, td_segment_kind kind, uint64_t size)
{
    td_error e = {0};
    td_segment *s;
    int before = count_fds();
    CU_ASSERT_EQUAL_FATAL(td_segment_create(&s, backend, kind, size, &e), 0);
    CU_ASSERT_EQUAL(s->size, (size + 4095) / 4096 * 4096);
    CU_ASSERT_EQUAL(count_fds(), before + 2);
    CU_ASSERT(fcntl(s->fd, F_GETFD) & FD_CLOEXEC);
    CU_ASSERT(fcntl(s->read_fd, F_GETFD) & FD_CLOEXEC);
    struct stat st;
    CU_ASSERT_EQUAL(fstat(s->fd, &st), 0);
    CU_ASSERT_EQUAL((uint64_t)st.st_size, s->size);
    CU_ASSERT((uint64_t)st.st_blocks * 512 >= s->size); /* committed as a whole */
    CU_ASSERT_EQUAL(st.st_mode & 07777, 0400);
    if (size >= 2u << 20) CU_ASSERT_EQUAL((uintptr_t)s->base & 0x1fffff, 0);

    s->base[0] = 7;
    s->base[s->size - 1] = 9; /* the daemon's own stores work, sealed or not */
    void *p;
    CU_ASSERT_EQUAL_FATAL(td_map_descriptor(s->read_fd, s->size, false, &p, &e), 0);
    CU_ASSERT_EQUAL(((unsigned char *)p)[0], 7);
    CU_ASSERT_EQUAL(((unsigned char *)p)[s->size - 1], 9);
    CU_ASSERT(mprotect(p, s->size, PROT_READ | PROT_WRITE) != 0);
    td_unmap(p, s->size);
    CU_ASSERT_EQUAL(td_map_descriptor(s->read_fd, s->size, true, &p, &e), TD_E_SYSTEM); /* read-only stays read-only */
    CU_ASSERT_PTR_NULL(p);
    CU_ASSERT_EQUAL(td_map_descriptor(s->read_fd, s->size + 4096, false, &p, &e), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_map_descriptor(s->read_fd, 100, false, &p, &e), TD_E_INVALID);
    td_segment_free(s);
    CU_ASSERT_EQUAL(count_fds(), before);
}

static void both_backends(void)
{
    const uint64_t sizes[] = {1, 65536, 100000, 2u << 20, (5u << 20) + 4096};
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 5; i++) each((td_shm_backend)b, (td_segment_kind)k, sizes[i]);
}

/* Whatever it is called: others on this machine have segments, too. */
static bool has_a_name(const char *directory, int fd)
{
    struct stat st;
    bool found = false;
    DIR *d = fstat(fd, &st) == 0 ? opendir(directory) : NULL;
    if (!d) return true;
    for (struct dirent *x; (x = readdir(d));) found |= x->d_ino == st.st_ino;
    closedir(d);
    return found;
}

static void nothing_left_behind(void)
{
    td_segment *s;
    char name[32];
    snprintf(name, sizeof name, "/tensord-unit-%d", (int)getpid());
    int named = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CU_ASSERT_TRUE(has_a_name("/dev/shm", named));
    shm_unlink(name);
    close(named);
    CU_ASSERT_EQUAL_FATAL(td_segment_create(&s, TD_SHM_POSIX, TD_SEGMENT_SESSION, 65536, NULL), 0);
    CU_ASSERT_FALSE(has_a_name("/dev/shm", s->fd));
    td_segment_free(s);
    td_segment_free(NULL);
}

static void session_seals(void)
{
    td_segment *s;
    CU_ASSERT_EQUAL_FATAL(td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, 65536, NULL), 0);
    CU_ASSERT(ftruncate(s->fd, 4096) != 0 && errno == EPERM);
    CU_ASSERT(ftruncate(s->fd, 1 << 20) != 0 && errno == EPERM);
    CU_ASSERT(fcntl(s->fd, F_ADD_SEALS, F_SEAL_WRITE) != 0 && errno == EPERM);
    void *p; /* the session may write */
    CU_ASSERT_EQUAL_FATAL(td_map_descriptor(s->fd, s->size, true, &p, NULL), 0);
    ((char *)p)[5] = 'x';
    CU_ASSERT_EQUAL(s->base[5], 'x');
    td_unmap(p, s->size);
    td_segment_free(s);
}

static void service_seals(void)
{
    td_segment *s;
    void *p;
    CU_ASSERT_EQUAL_FATAL(td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SERVICE, 65536, NULL), 0);
    CU_ASSERT(ftruncate(s->fd, 4096) != 0 && errno == EPERM);
    CU_ASSERT_EQUAL(td_map_descriptor(s->fd, s->size, true, &p, NULL), TD_E_SYSTEM);
    p = mmap(NULL, s->size, PROT_READ, MAP_SHARED, s->fd, 0);
    CU_ASSERT_FATAL(p != MAP_FAILED);
    CU_ASSERT(mprotect(p, s->size, PROT_READ | PROT_WRITE) != 0);
    CU_ASSERT(pwrite(s->fd, "x", 1, 0) < 0);
    CU_ASSERT(fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0 && errno == EPERM);
    memset(s->base, 42, s->size); /* the daemon's own mapping is older than the seal */
    CU_ASSERT_EQUAL(((unsigned char *)p)[4096], 42);
    munmap(p, s->size);
    td_segment_free(s);
}

/* As another user, in a process that is not dumpable: making segments works, reopening one writable does not. */
static int as_nobody(void *arg)
{
    (void)arg;
    td_segment *s;
    char path[64];
    if (setgid(65533) || setuid(65533)) return 77;
    prctl(PR_SET_DUMPABLE, 0);
    if (td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, 65536, NULL)) return 1;
    if ((fcntl(s->read_fd, F_GETFL) & O_ACCMODE) != O_RDONLY) return 2;
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->read_fd);
    if (open(path, O_RDWR) >= 0) return 3;
    if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, s->read_fd, 0) != MAP_FAILED) return 4;
    td_segment_free(s);
    return 0;
}

/* The file's mode stops other users from reopening it, not its owner: between processes of one user it is a fence, not
 * a wall. */
static int as_another(void *arg)
{
    td_segment *s = arg;
    char path[64];
    if (setgid(65533) || setuid(65533)) return 77;
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->read_fd);
    if (open(path, O_RDWR) >= 0 || open(path, O_RDONLY) >= 0) return 1;
    return fchmod(s->read_fd, 0600) ? 0 : 2;
}

static int as_owner(void *arg)
{
    (void)arg;
    td_segment *s;
    char path[64];
    if (setgid(65533) || setuid(65533)) return 77;
    if (td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, 65536, NULL)) return 1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->read_fd);
    if (open(path, O_RDWR) >= 0) return 2;
    if (fchmod(s->read_fd, 0600) || open(path, O_RDWR) < 0) return 3;
    td_segment_free(s);
    return 0;
}

static void other_users_are_stopped(void)
{
    td_segment *s;
    CU_ASSERT_EQUAL_FATAL(td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, 65536, NULL), 0);
    int other = in_child(as_another, s), owner = in_child(as_owner, NULL);
    td_segment_free(s);
    if (other == 77) {
        td_test_skip("needs root to become another user");
        return;
    }
    CU_ASSERT_EQUAL(other, 0);
    CU_ASSERT_EQUAL(owner, 0);
}

static void not_dumpable(void)
{
    int r = in_child(as_nobody, NULL);
    if (r == 77) td_test_skip("needs root to become another user");
    else CU_ASSERT_EQUAL(r, 0);
}

static int beyond_limit(void *arg)
{
    struct rlimit r = {1 << 20, 1 << 20};
    td_error e = {0};
    td_segment *s;
    int before = count_fds();
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &r);
    int err = td_segment_create(&s, *(td_shm_backend *)arg, TD_SEGMENT_SESSION, 8 << 20, &e);
    if ((err != TD_E_MEMORY && err != TD_E_SYSTEM) || s || !e.message[0]) return 1;
    if (count_fds() != before) return 2;
    if (td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, 65536, &e)) return 3;
    td_segment_free(s);
    return 0;
}

static void refused_cleanly(void)
{
    td_segment *s;
    td_error e = {0};
    for (int b = 0; b < 2; b++) CU_ASSERT_EQUAL(in_child(beyond_limit, &b), 0);
    CU_ASSERT_EQUAL(td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, UINT64_C(1) << 45, &e), TD_E_MEMORY);
    CU_ASSERT_PTR_NULL(s);
    CU_ASSERT_EQUAL(td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, 0, &e), TD_E_INVALID);
    CU_ASSERT_TRUE(td_system_has(4096));
    CU_ASSERT_FALSE(td_system_has(UINT64_C(1) << 45));
}

/* What a client brings is mapped only when nobody can cut it any more. */
static void sealed_descriptors(void)
{
    td_error e = {0};
    uint64_t size = 0;
    int fd = memfd_create("x", MFD_ALLOW_SEALING), pipes[2];
    CU_ASSERT_EQUAL(ftruncate(fd, 65536), 0);
    CU_ASSERT_EQUAL(td_import_examine(fd, &size, &e), TD_IMPORT_REFUSED);
    CU_ASSERT_EQUAL(e.code, TD_E_INVALID);
    CU_ASSERT_EQUAL(ftruncate(fd, 32768), 0);
    CU_ASSERT_EQUAL(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    CU_ASSERT(ftruncate(fd, 4096) != 0 && errno == EPERM);
    CU_ASSERT_EQUAL(td_import_examine(fd, &size, &e), TD_IMPORT_MEMORY);
    CU_ASSERT_EQUAL(size, 32768);
    close(fd);
    CU_ASSERT_EQUAL(pipe(pipes), 0);
    CU_ASSERT_NOT_EQUAL(td_import_examine(pipes[0], &size, &e), TD_IMPORT_MEMORY);
    void *p;
    CU_ASSERT_EQUAL(td_map_descriptor(pipes[0], 4096, false, &p, &e), TD_E_INVALID);
    /* A kernel that does not know a seal answers as for what cannot be sealed at all. */
    CU_ASSERT_EQUAL(td_memfd_seal(pipes[1], TD_SEGMENT_SERVICE, &e), TD_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "Linux 5.1 or later"));
    close(pipes[0]);
    close(pipes[1]);
}

/* A client cuts an unsealed segment: the daemon's access would be a SIGBUS. */
static int survive_cut(void *arg)
{
    (void)arg;
    td_segment *s, *other;
    if (td_sigbus_guard_install(NULL) || td_sigbus_guard_install(NULL)) return 1;
    if (td_segment_create(&s, TD_SHM_POSIX, TD_SEGMENT_SESSION, 16 << 12, NULL)) return 2;
    if (td_segment_create(&other, TD_SHM_MEMFD, TD_SEGMENT_SESSION, 16 << 12, NULL)) return 3;
    memset(s->base, 3, s->size);
    if (ftruncate(s->fd, 4096)) return 4;
    volatile unsigned char *p = s->base;
    unsigned sum = p[0] + p[5 << 12] + p[(5 << 12) + 1] + p[9 << 12];
    p[7 << 12] = 1;
    if (sum != 3 || td_sigbus_count() != 3) return 5;
    if (!td_segment_damaged(s) || td_segment_damaged(other)) return 6;
    td_segment_free(s);
    td_segment_free(other);
    return 0;
}

static int die_elsewhere(void *arg)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (td_sigbus_guard_install(NULL)) return 1;
    if (*(int *)arg) {
        raise(SIGBUS);
        return 2;
    }
    int fd = memfd_create("not a segment", 0);
    if (ftruncate(fd, 4096)) return 3;
    volatile char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ftruncate(fd, 0)) return 4;
    return p[0] + 5;
}

static void sigbus_guard(void)
{
    int sent;
    CU_ASSERT_EQUAL(in_child(survive_cut, NULL), 0);
    CU_ASSERT_EQUAL(in_child(die_elsewhere, (sent = 0, &sent)), 1000 + SIGBUS);
    CU_ASSERT_EQUAL(in_child(die_elsewhere, (sent = 1, &sent)), 1000 + SIGBUS);
}

static uint64_t blocks(const td_segment *s)
{
    struct stat st;
    return fstat(s->fd, &st) ? 0 : (uint64_t)st.st_blocks;
}

/* Why no hole is ever punched: whoever reads it takes the memory again, and nobody has promised it. */
static void reading_a_hole_takes_memory(void)
{
    td_segment *s;
    void *p;
    CU_ASSERT_EQUAL_FATAL(td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, 65536, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(td_map_descriptor(s->read_fd, s->size, false, &p, NULL), 0);
    uint64_t whole = blocks(s);
    CU_ASSERT_EQUAL(fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65536), 0);
    CU_ASSERT_EQUAL(blocks(s), 0);
    unsigned sum = 0;
    for (uint64_t i = 0; i < s->size; i += 4096) sum += ((volatile unsigned char *)p)[i];
    CU_ASSERT_EQUAL(sum, 0);
    CU_ASSERT_EQUAL(blocks(s), whole);
    td_unmap(p, s->size);
    td_segment_free(s);
}

/* Seals do not stop a writer from punching: the daemon's next touch faults a fresh page in and goes on. */
static void punched_hole(void)
{
    td_segment *s;
    void *p;
    CU_ASSERT_EQUAL_FATAL(td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, 65536, NULL), 0);
    memset(s->base, 5, s->size);
    CU_ASSERT_EQUAL_FATAL(td_map_descriptor(s->fd, s->size, true, &p, NULL), 0);
    CU_ASSERT_EQUAL(madvise((char *)p + 8192, 4096, MADV_REMOVE), 0);
    CU_ASSERT_EQUAL(((volatile unsigned char *)s->base)[8192], 0);
    CU_ASSERT_EQUAL(s->base[4096], 5);
    td_unmap(p, s->size);
    td_segment_free(s);
}

TD_CUNIT_MAIN("shm_segment", {"both backends, all kinds and sizes", both_backends},
              {"nothing is left in /dev/shm", nothing_left_behind}, {"session seals", session_seals},
              {"service seals", service_seals}, {"not dumpable, not root", not_dumpable},
              {"other users are stopped", other_users_are_stopped}, {"refusals leave nothing", refused_cleanly},
              {"sealed descriptors", sealed_descriptors}, {"SIGBUS guard", sigbus_guard},
              {"reading a hole takes memory", reading_a_hole_takes_memory}, {"a punched hole", punched_hole})
