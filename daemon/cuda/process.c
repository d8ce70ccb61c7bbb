/* See process.h. The daemon is not dumpable and has threads, so the process is spawned: it gets the pair, standard
 * error and nothing else, no signal blocked or ignored, and a death with the thread that started it. */
#include "daemon/cuda/process.h"
#include "daemon/cuda/channel.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { PAIR = 3 };

void td_gpu_program(char *path, size_t size)
{
    const char *said = getenv("TENSORD_CUDA_PROCESS");
    char self[200];
    if (said && *said) {
        snprintf(path, size, "%s", said);
        return;
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    snprintf(path, size, "%s/tensord-cuda", self);
    if (access(path, X_OK)) snprintf(path, size, "%s/../cuda/tensord-cuda", self);
    if (access(path, X_OK)) snprintf(path, size, "tensord-cuda");
}

/* ---- packets */

static ssize_t send_with(td_gpu_process *p, const void *message, size_t bytes, int fd, int flags)
{
    struct iovec part = {(void *)message, bytes};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
    if (fd >= 0) {
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    ssize_t n;
    do n = sendmsg(p->socket, &m, MSG_NOSIGNAL | flags);
    while (n < 0 && errno == EINTR);
    return n;
}

int td_gpu_process_send(td_gpu_process *p, const void *message, size_t bytes)
{
    if (send_with(p, message, bytes, -1, MSG_DONTWAIT) >= 0) return 1;
    return errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
}

int td_gpu_process_receive(td_gpu_process *p, void *to, size_t most, int *fd)
{
    struct iovec part = {to, most};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof *fd)];
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n;
    *fd = -1;
    do n = recvmsg(p->socket, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET)); /* reset: told once, before its last words */
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) return -1;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return (int)n;
}

/* The one message that is due. */
static int await(td_gpu_process *p, void *to, size_t bytes, int patience_ms, td_error *e)
{
    struct pollfd it = {p->socket, POLLIN, 0};
    int fd, n = poll(&it, 1, patience_ms) == 1 ? td_gpu_process_receive(p, to, bytes, &fd) : 0;
    if (n > 0 && fd >= 0) close(fd);
    if ((size_t)n == bytes) return TD_OK;
    if (n < 0) return td_fail(e, TD_E_DEVICE, "its process (tensord-cuda, %d) has ended without a word", p->pid);
    return td_fail(e, TD_E_DEVICE, "its process (tensord-cuda, %d) says nothing", p->pid);
}

/* ---- the process */

static int spawn(td_gpu_process *p, const char *program, int socket, td_error *e)
{
    char *argv[] = {(char *)"tensord-cuda", NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    pid_t pid = 0;
    sigemptyset(&none);
    sigfillset(&all);
    int err = posix_spawn_file_actions_init(&files);
    if (err) return td_fail_errno(e, err, "its process cannot be started (%s)", program);
    posix_spawnattr_init(&how);
    err = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!err) err = posix_spawn_file_actions_adddup2(&files, 2, 1);
    if (!err) err = posix_spawn_file_actions_adddup2(&files, socket, PAIR);
    if (!err) err = posix_spawn_file_actions_addclosefrom_np(&files, PAIR + 1);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!err) err = posix_spawn(&pid, program, &files, &how, argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    p->pid = err ? 0 : pid;
    return err ? td_fail_errno(e, err, "its process cannot be started (%s)", program) : TD_OK;
}

static int hello(td_gpu_process *p, const td_gpu_start *how, td_error *e)
{
    int fd = memfd_create("tensord-staging", MFD_CLOEXEC);
    if (fd < 0) return td_fail_errno(e, errno, "no staging memory");
    int rc = TD_OK;
    void *at = MAP_FAILED;
    if (!ftruncate(fd, (off_t)p->staging_bytes))
        at = mmap(NULL, p->staging_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const td_gpu_hello m = {
        TD_GPU_HELLO, TD_GPU_WIRE, how->ordinal, (uint32_t)how->handles, p->staging_bytes, how->libraries, 0};
    if (at == MAP_FAILED) rc = td_fail_errno(e, errno, "no staging memory");
    else p->staging = at;
    if (!rc && send_with(p, &m, sizeof m, fd, 0) < 0)
        rc = td_fail_errno(e, errno, "its process (tensord-cuda, %d) takes no message", p->pid);
    close(fd);
    return rc;
}

int td_gpu_process_start(td_gpu_process *p, const td_gpu_start *how, td_gpu_greeting *g, td_error *e)
{
    int pair[2];
    *p = (td_gpu_process){.socket = -1, .staging_bytes = how->staging};
    *g = (td_gpu_greeting){0};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return td_fail_errno(e, errno, "no pair of sockets");
    p->socket = pair[0];
    int rc = spawn(p, how->program, pair[1], e);
    close(pair[1]);
    if (!rc) rc = hello(p, how, e);
    if (!rc) rc = await(p, g, sizeof *g, how->patience_ms, e);
    if (rc) return rc;
    if (g->kind != TD_GPU_GREETING || g->wire != TD_GPU_WIRE)
        return td_fail(e, TD_E_DEVICE, "%s is of another build than this daemon", how->program);
    g->name[sizeof g->name - 1] = g->why[sizeof g->why - 1] = g->library[sizeof g->library - 1] = 0;
    return g->code ? td_fail(e, TD_E_DEVICE, "%s", g->why) : TD_OK;
}

int td_gpu_process_import(td_gpu_process *p, uint64_t address, uint64_t bytes, int fd, td_gpu_made *m, td_error *e)
{
    const td_gpu_arena ask = {TD_GPU_IMPORT, 0, address, bytes};
    if (send_with(p, &ask, sizeof ask, fd, 0) < 0) return td_fail_errno(e, errno, "its process takes no message");
    int rc = await(p, m, sizeof *m, -1, e);
    if (!rc && m->kind != TD_GPU_MADE) rc = td_fail(e, TD_E_DEVICE, "its process has failed as it began");
    return rc;
}

void td_gpu_process_end(td_gpu_process *p)
{
    if (p->socket >= 0) close(p->socket);
    if (p->staging) munmap(p->staging, p->staging_bytes);
    if (p->pid > 0) {
        kill(p->pid, SIGKILL);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    *p = (td_gpu_process){.socket = -1};
}
