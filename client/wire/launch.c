/* A private daemon for a program that found none.
 *
 * It belongs to the root of the program (lineage.h), whichever of its processes starts it: it has the root's processors
 * and stderr, and is told which process the root is, as it lives as long as that. It gets a listening socket
 * (LISTEN_FDS, as systemd hands them over; places.c says where) whose directory it removes at its end. It is made by a
 * clone whose end sends no signal and needs no wait by the program; between that and exec only what is safe in a forked
 * child of a threaded program is called. */

#include "client/wire/internal.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- where the binary is ----------------------------------------------------------------------------------------- */

static bool executable(const char *path)
{
    return access(path, X_OK) == 0;
}

/* Beside this library (or the program it was linked into): bin of a Python package, ../bin of an installation, or the
 * build tree. */
static bool beside_library(char *out, size_t size)
{
    static const char *const places[] = {"bin/tensord",
                                         "../bin/tensord",
                                         "../../bin/tensord",
                                         "../daemon/server/tensord",
                                         "../../daemon/server/tensord",
                                         "../../../daemon/server/tensord"};
    Dl_info info;
    char path[4096];
    if (!dladdr((void *)(uintptr_t)&td_launch, &info) || !info.dli_fname || !realpath(info.dli_fname, path))
        return false;
    char *slash = strrchr(path, '/');
    if (!slash) return false;
    *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if ((size_t)snprintf(out, size, "%s/%s", path, places[i]) < size && executable(out)) return true;
    return false;
}

static bool on_path(char *out, size_t size)
{
    const char *p = getenv("PATH");
    while (p && *p) {
        size_t n = strcspn(p, ":");
        if (n && (size_t)snprintf(out, size, "%.*s/tensord", (int)n, p) < size && executable(out)) return true;
        p += n + (p[n] == ':');
    }
    return false;
}

static int find_binary(char *out, size_t size, td_error *e)
{
    const char *named = getenv("TENSORD_DAEMON");
    if (named && strcmp(named, "none") == 0) return td_fail(e, TD_E_NOT_FOUND, "no daemon runs; start tensord");
    if (named && named[0]) {
        snprintf(out, size, "%s", named);
        if (executable(out)) return TD_OK;
        return td_fail(e, TD_E_NOT_FOUND, "TENSORD_DAEMON names %s, which cannot be executed", named);
    }
    if (beside_library(out, size) || on_path(out, size)) return TD_OK;
    return td_fail(
        e, TD_E_NOT_FOUND,
        "no daemon runs and no tensord is installed beside this library or on PATH; start tensord, or name it in "
        "TENSORD_DAEMON");
}

/* ---- its process ------------------------------------------------------------------------------------------------- */

typedef struct spawn {
    const char *binary;
    char **environment;
    char *pid_text; /* where the child writes its number: the end of "LISTEN_PID=" */
    int socket, null;
    int root, told; /* a pidfd of the root; where its stderr goes */
    cpu_set_t processors;
    char *arguments[7], words[3][48];
} spawn;

static td_limits limits; /* of the next one that is started */

TD_API void td_set_limits(const td_limits *l)
{
    limits = l ? *l : (td_limits){0};
}

static void make_arguments(spawn *p)
{
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {{"memory", limits.memory},
               {"session-memory", limits.session_memory},
               {"workers", limits.workers > 0 ? (uint64_t)limits.workers : 0}};
    int n = 0;
    p->arguments[n++] = "tensord";
    p->arguments[n++] = "--private";
    if (p->root >= 0) p->arguments[n++] = "--root=4";
    for (int k = 0; k < 3; k++) {
        if (!all[k].value) continue;
        snprintf(p->words[k], sizeof p->words[k], "--%s=%llu", all[k].name, (unsigned long long)all[k].value);
        p->arguments[n++] = p->words[k];
    }
    p->arguments[n] = NULL;
}

int td_check_limits(td_client *c)
{
    if (!limits.memory) return TD_OK;
    td_table *t = td_status(c, "status");
    uint64_t has = 0;
    for (int r = 0; t && r < t->rows; r++)
        if (strcmp(t->cells[r * 2].text, "bytes_limit") == 0) has = (uint64_t)t->cells[r * 2 + 1].integer;
    td_table_free(t);
    if (!t) return td_last_error()->code;
    if (has == limits.memory) return TD_OK;
    char whose[96];
    td_daemon_place of;
    return td_raise(TD_E_EXISTS, "connect",
                    "%s runs already, at %s, and may take %.1f MB, where %.1f were asked for: a limit is for the "
                    "private daemon that is started by the first connection of a program, or of what it starts",
                    td_places_text(td_places_of(c->path, &of) ? &of : NULL, whose, sizeof whose), c->path,
                    (double)has / 1e6, (double)limits.memory / 1e6);
}

/* "TENSORD_CUDA_LIBRARIES=...", or nothing. */
static char cuda_libraries[2048];

void td_set_cuda_libraries(const char *directories)
{
    snprintf(cuda_libraries, sizeof cuda_libraries, "%s%s", *directories ? "TENSORD_CUDA_LIBRARIES=" : "", directories);
}

static char **make_environment(char *pid_entry)
{
    size_t n = 0, at = 0;
    while (environ[n]) n++;
    char **list = malloc((n + 4) * sizeof *list);
    if (!list) return NULL;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LISTEN_", 7) != 0) list[at++] = environ[i];
    list[at++] = "LISTEN_FDS=1";
    list[at++] = pid_entry;
    if (cuda_libraries[0] && !getenv("TENSORD_CUDA_LIBRARIES")) list[at++] = cuda_libraries;
    list[at] = NULL;
    return list;
}

static void write_number(char *p, unsigned v)
{
    char digits[12];
    int n = 0;
    do digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n) *p++ = digits[--n];
    *p = 0;
}

/* The grandchild: detached, with the socket as descriptor 3. Never returns. */
static void become_daemon(const spawn *p)
{
    setsid();
    dup2(p->null, 0);
    dup2(p->null, 1);
    dup2(p->told, 2);
    dup2(p->socket, 3);
    if (p->root >= 0) dup2(p->root, 4);
    else close(4);
#ifdef SYS_close_range /* what the program has open is not the daemon's: pipes would miss their end */
    syscall(SYS_close_range, 5U, ~0U, 0U);
#endif
    syscall(SYS_sched_setaffinity, 0, sizeof p->processors, &p->processors);
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int s = 1; s < 32; s++) sigaction(s, &standard, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    write_number(p->pid_text, (unsigned)syscall(SYS_getpid));
    execve(p->binary, p->arguments, p->environment);
    _exit(127);
}

/* fork() without handlers, and without a signal at the child's end. */
static pid_t quiet_fork(void)
{
    return (pid_t)syscall(SYS_clone, 0UL, 0UL, 0UL, 0UL, 0UL);
}

static int spawn_detached(const spawn *p)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of the program runs in the child */
    pid_t child = quiet_fork();
    if (child == 0) {
        pid_t grandchild = quiet_fork();
        if (grandchild == 0) become_daemon(p);
        _exit(grandchild < 0 ? 1 : 0);
    }
    int err = errno, status = 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child < 0) return err;
    while (waitpid(child, &status, __WALL) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) ? EAGAIN : 0;
}

/* Out of the way of what the daemon's descriptors will be. */
static int out_of_the_way(int fd)
{
    return fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 10) : -1;
}

/* A descriptor of the process, or -1: it has ended. */
static int hold(const td_relative *root)
{
    td_relative now;
    int fd = (int)syscall(SYS_pidfd_open, root->pid, 0U);
    if (fd < 0 || (td_relative_look(root->pid, &now) && now.began == root->began)) return fd;
    close(fd); /* another process has its number */
    return -1;
}

/* A worker's own stderr may be a pipe that somebody reads to its end, which would not come while the daemon lives. */
static int stderr_of(const td_relative *root, int null)
{
    char path[40];
    if (root->pid == getpid()) return fcntl(2, F_DUPFD_CLOEXEC, 10);
    snprintf(path, sizeof path, "/proc/%d/fd/2", (int)root->pid);
    int fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    int moved = out_of_the_way(fd >= 0 ? fd : null);
    if (fd >= 0) close(fd);
    return moved;
}

static void close_all(const int *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i] >= 0) close(list[i]);
}

static int start(const char *binary, int listening, const td_relative *root, td_error *e)
{
    char pid_entry[32] = "LISTEN_PID=";
    spawn p = {.binary = binary, .pid_text = pid_entry + strlen(pid_entry)};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), held = hold(root);
    p.null = out_of_the_way(null);
    p.socket = out_of_the_way(listening);
    p.root = out_of_the_way(held);
    p.told = stderr_of(root, null);
    if (sched_getaffinity(root->pid, sizeof p.processors, &p.processors))
        sched_getaffinity(0, sizeof p.processors, &p.processors);
    p.environment = make_environment(pid_entry);
    make_arguments(&p);
    int err = p.environment && p.null >= 0 && p.socket >= 0 ? spawn_detached(&p) : errno;
    close_all((int[]){null, held, p.null, p.socket, p.root, p.told}, 6);
    free(p.environment);
    return err ? td_fail_errno(e, err, "cannot start a process for %s", binary) : TD_OK;
}

int td_launch(char path[108], td_error *e)
{
    char binary[4096];
    td_lineage l;
    int s = -1;
    if (find_binary(binary, sizeof binary, e)) return -1;
    td_lineage_look(getpid(), &l);
    int listening = td_places_listen(&l.of[l.root], path, &s, e);
    if (listening < 0) return s; /* another's, or none */
    if (start(binary, listening, &l.of[l.root], e)) {
        close(s);
        s = -1;
    }
    close(listening); /* when the daemon did not come up, the connection ends with the last copy of this */
    if (s < 0) td_places_sweep(path);
    return s;
}
