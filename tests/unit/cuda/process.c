/* See process.h. */
#include "tests/unit/cuda/process.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { LONG_MS = 60000 };

/* ---- messages */

static bool send_to(process *p, const void *message, size_t bytes, int fd)
{
    struct iovec part = {(void *)message, bytes};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
    if (p->most && p->sent >= p->most) {
        kill(p->pid, SIGKILL);
        return false;
    }
    p->sent++;
    if (fd >= 0) {
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(p->socket, &m, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static size_t receive(process *p, void *to, size_t most, int *fd)
{
    struct iovec part = {to, most};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof *fd)];
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct pollfd poll_it = {p->socket, POLLIN, 0};
    *fd = -1;
    if (poll(&poll_it, 1, LONG_MS) != 1) return 0;
    ssize_t n;
    do n = recvmsg(p->socket, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET)); /* reset: told once, before its last words */
    if (n <= 0) return 0;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return (size_t)n;
}

/* The next message of this kind. What is told on the way is kept; ends are passed over. */
static bool receive_kind(process *p, uint32_t kind, void *to, size_t most, int *fd)
{
    uint64_t message[TD_GPU_MESSAGE_MAX / 8];
    size_t n;
    while ((n = receive(p, message, sizeof message, fd))) {
        uint32_t is;
        memcpy(&is, message, sizeof is);
        p->seen += is == TD_GPU_ENDED;
        if (is == kind) {
            memcpy(to, message, n < most ? n : most);
            return true;
        }
        if (*fd >= 0) close(*fd);
        if (is == TD_GPU_TOLD || is == TD_GPU_FAILED) memcpy(&p->told, message, sizeof p->told);
        if (is == TD_GPU_FAILED) return false;
    }
    return false;
}

/* ---- the process */

static bool spawn(process *p)
{
    const char *path = getenv("TENSORD_CUDA_PROCESS");
    char *argv[] = {(char *)"tensord-cuda", NULL};
    int pair[2];
    if (!path || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return false;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, pair[1], 3);
    posix_spawn_file_actions_addclosefrom_np(&files, 4);
    int err = posix_spawn(&p->pid, path, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    close(pair[1]);
    p->socket = pair[0];
    if (err) p->pid = 0;
    return !err;
}

bool process_start_short(process *p, td_gpu_handles handles, int most)
{
    td_gpu_hello m = {TD_GPU_HELLO, TD_GPU_WIRE, 0, (uint32_t)handles, STAGING, !p->no_libraries, 0};
    int fd;
    memset(p, 0, offsetof(process, run_words));
    p->run_bytes = 0;
    p->sent = 0;
    p->most = most;
    p->socket = p->staging_fd = -1;
    p->staging_fd = memfd_create("staging", MFD_CLOEXEC);
    if (p->staging_fd < 0 || ftruncate(p->staging_fd, STAGING)) return false;
    p->staging = mmap(NULL, STAGING, PROT_READ | PROT_WRITE, MAP_SHARED, p->staging_fd, 0);
    if (p->staging == MAP_FAILED || !spawn(p)) return false;
    return send_to(p, &m, sizeof m, p->staging_fd) &&
           receive_kind(p, TD_GPU_GREETING, &p->greeting, sizeof p->greeting, &fd);
}

bool process_start(process *p, td_gpu_handles handles)
{
    return process_start_short(p, handles, 0);
}

static void let_go(process *p)
{
    if (p->socket >= 0) close(p->socket);
    if (p->staging_fd >= 0) close(p->staging_fd);
    if (p->staging) munmap(p->staging, STAGING);
    p->socket = p->staging_fd = -1;
    p->staging = NULL;
}

void process_kill(process *p)
{
    if (p->pid > 0) {
        kill(p->pid, SIGKILL);
        waitpid(p->pid, &p->status, 0);
    }
    p->pid = 0;
    let_go(p);
}

bool process_end(process *p)
{
    let_go(p);
    for (int ms = 0; ms < LONG_MS; ms += 5) {
        if (waitpid(p->pid, &p->status, WNOHANG) == p->pid) {
            p->pid = 0;
            return WIFEXITED(p->status);
        }
        usleep(5000);
    }
    process_kill(p);
    return false;
}

/* ---- memory */

static bool made(process *p, process_memory *out)
{
    td_gpu_made m;
    if (!receive_kind(p, TD_GPU_MADE, &m, sizeof m, &out->fd)) return false;
    out->address = m.address;
    out->bytes = m.bytes;
    out->code = m.code;
    memcpy(out->handle, m.handle, sizeof m.handle);
    memcpy(out->why, m.why, sizeof m.why);
    return true;
}

bool process_arena(process *p, uint64_t bytes, process_memory *out)
{
    td_gpu_arena m = {TD_GPU_ARENA, 0, 0, bytes};
    *out = (process_memory){.fd = -1};
    return run_send(p) && send_to(p, &m, sizeof m, -1) && made(p, out);
}

bool process_import(process *p, const process_memory *of, process_memory *out)
{
    td_gpu_arena m = {TD_GPU_IMPORT, 0, of->address, of->bytes};
    *out = (process_memory){.fd = -1};
    return run_send(p) && send_to(p, &m, sizeof m, of->fd) && made(p, out);
}

bool process_arena_end(process *p, const process_memory *of)
{
    td_gpu_arena m = {TD_GPU_ARENA_END, 0, of->address, of->bytes};
    return run_send(p) && send_to(p, &m, sizeof m, -1);
}

bool process_names(process *p, uint32_t first, const char *const *names, uint32_t count)
{
    struct {
        td_gpu_names head;
        char text[4096];
    } m = {.head = {TD_GPU_NAMES, first, count, 0}};
    for (uint32_t i = 0; i < count; i++) {
        size_t n = strlen(names[i]) + 1;
        memcpy(m.text + m.head.bytes, names[i], n);
        m.head.bytes += (uint32_t)n;
    }
    return send_to(p, &m, sizeof m.head + m.head.bytes, -1);
}

/* ---- commands */

static void *command(process *p, unsigned what, unsigned stream, size_t bytes)
{
    bytes = (bytes + 7) & ~(size_t)7;
    if (sizeof(td_gpu_run) + p->run_bytes + bytes > sizeof p->run_words) run_send(p);
    td_gpu_run *head = (td_gpu_run *)p->run_words;
    if (!p->run_bytes) *head = (td_gpu_run){TD_GPU_RUN, 0, 0};
    td_gpu_command *c = (td_gpu_command *)((char *)(head + 1) + p->run_bytes);
    memset(c, 0, bytes);
    *c = (td_gpu_command){(uint16_t)what, (uint16_t)stream, (uint32_t)bytes};
    head->commands++;
    p->run_bytes += bytes;
    return c;
}

bool run_send(process *p)
{
    size_t bytes = sizeof(td_gpu_run) + p->run_bytes;
    if (!p->run_bytes) return true;
    p->run_bytes = 0;
    ((td_gpu_run *)p->run_words)->seen = p->seen;
    return send_to(p, p->run_words, bytes, -1);
}

static void put_launch(td_gpu_launch *c, uint32_t kernel, uint32_t blocks, const void *args, uint32_t bytes)
{
    c->kernel = kernel;
    c->grid[0] = blocks;
    c->block[0] = 256;
    c->grid[1] = c->grid[2] = c->block[1] = c->block[2] = 1;
    c->args_bytes = bytes;
    memcpy(c + 1, args, bytes);
}

void run_launch(process *p, unsigned stream, uint32_t kernel, uint32_t blocks, const void *args, uint32_t bytes)
{
    put_launch(command(p, TD_GPU_LAUNCH, stream, sizeof(td_gpu_launch) + bytes), kernel, blocks, args, bytes);
}

void run_fill(process *p, unsigned stream, uint64_t to, uint32_t unit, const void *value, uint64_t count)
{
    td_gpu_fill *c = command(p, TD_GPU_FILL, stream, sizeof *c);
    c->to = to;
    c->count = count;
    c->unit = unit;
    memcpy(c->value, value, unit);
}

void run_move(process *p, unsigned what, unsigned stream, uint64_t to, uint64_t from, uint64_t bytes)
{
    td_gpu_move *c = command(p, what, stream, sizeof *c);
    c->to = to;
    c->from = from;
    c->bytes = bytes;
}

void run_wait(process *p, unsigned stream, unsigned other)
{
    td_gpu_wait *c = command(p, TD_GPU_WAIT, stream, sizeof *c);
    c->other = other;
}

void run_library(process *p, unsigned stream, const td_cuda_product *of)
{
    td_gpu_product *c = command(p, TD_GPU_PRODUCT, stream, sizeof *c);
    c->of = *of;
}

void run_library_or(process *p, unsigned stream, const td_cuda_product *of, uint32_t kernel, const void *args,
                    uint32_t bytes, uint32_t longer)
{
    td_gpu_product *c = command(p, TD_GPU_PRODUCT, stream, sizeof *c + sizeof(td_gpu_launch) + bytes);
    td_gpu_launch *instead = (td_gpu_launch *)(c + 1);
    c->of = *of;
    instead->head = (td_gpu_command){TD_GPU_LAUNCH, (uint16_t)stream, sizeof *instead + bytes + longer};
    put_launch(instead, kernel, 1, args, bytes);
}

void run_cut(process *p, unsigned what, unsigned stream, size_t bytes)
{
    command(p, what, stream, bytes);
}

uint64_t run_end(process *p, unsigned stream)
{
    td_gpu_mark *c = command(p, TD_GPU_END, stream, sizeof *c);
    return c->place = ++p->place;
}

bool process_ended(process *p, td_gpu_ended *out)
{
    int fd;
    return run_send(p) && receive_kind(p, TD_GPU_ENDED, out, sizeof *out, &fd);
}

bool process_end_of(process *p, unsigned stream, td_gpu_end *out)
{
    uint64_t place = run_end(p, stream);
    td_gpu_ended m;
    while (process_ended(p, &m))
        for (uint32_t i = 0; i < m.count; i++) {
            *out = m.end[i];
            if (out->place == place) return true;
        }
    return false;
}

bool process_ends(process *p, unsigned stream)
{
    td_gpu_end e;
    return process_end_of(p, stream, &e) && !e.code && !e.fault.bits;
}

bool process_read(process *p, uint64_t from, void *to, size_t bytes)
{
    run_move(p, TD_GPU_READ, TD_GPU_STREAMS - 1, 0, from, bytes);
    if (!process_ends(p, TD_GPU_STREAMS - 1)) return false;
    memcpy(to, p->staging, bytes);
    return true;
}

bool process_write(process *p, uint64_t to, const void *from, size_t bytes)
{
    memcpy(p->staging, from, bytes);
    run_move(p, TD_GPU_WRITE, TD_GPU_STREAMS - 1, to, 0, bytes);
    return process_ends(p, TD_GPU_STREAMS - 1);
}
