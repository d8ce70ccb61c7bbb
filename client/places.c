/* Finding and placing private daemons; see places.h.
 *
 * Who makes or removes a socket holds a lock on its directory, so two threads never start two daemons for one process,
 * and nobody removes a socket that has just been made. A daemon at its end removes its socket before it stops
 * listening: so a socket that refuses was left by one that was killed. */
#include "client/client.h"
#include "proto/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_PARENTS = 64, MOST_TRIES = 20, FIND_MS = 20000, LIST_MS = 10 };

/* ---- processes --------------------------------------------------------------------------------------------------- */

typedef struct process {
    pid_t pid, parent;
    unsigned long long began; /* ticks since the machine did: with `pid`, a name that comes once */
} process;

/* False when it is not there, or may not be looked at. */
static bool look_at(pid_t pid, process *p)
{
    char path[32], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    *p = (process){.pid = pid};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
    if (fd >= 0) close(fd);
    line[n > 0 ? n : 0] = 0;
    const char *rest = strrchr(line, ')'); /* what a process calls itself may have any characters */
    return rest && sscanf(rest + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                          &p->parent, &p->began) == 2;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Where directories may lie, and how many such places there are. The second is for who finds in an environment that was
 * emptied what was made in one that was not. */
enum { BASES = 3, BASE_SIZE = 56 };

static bool base(int n, char out[BASE_SIZE])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    bool named = runtime && runtime[0] == '/' && strlen(runtime) < BASE_SIZE;
    if (n == 0) snprintf(out, BASE_SIZE, "%s", named ? runtime : "");
    if (n == 1) snprintf(out, BASE_SIZE, "/run/user/%u", (unsigned)geteuid());
    if (n == 2) snprintf(out, BASE_SIZE, "/tmp");
    return out[0] && (n == 0 || !named || strcmp(out, runtime) != 0);
}

static void name_directory(char out[100], const char *where, const process *p)
{
    snprintf(out, 100, "%.56s/tensord-%d-%llu", where, (int)p->pid, p->began);
}

static void name_socket(char path[108], const char *directory)
{
    snprintf(path, 108, "%.100s/socket", directory);
}

static bool ours(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & 077);
}

/* Dial the socket in a directory, which must be ours. */
static int dial_in(const char *directory, char path[108], int ms, td_error *e)
{
    struct stat st;
    name_socket(path, directory);
    if (lstat(directory, &st) == 0 && ours(&st)) return td_dial_within(path, ms, e);
    td_fail(e, TD_E_NOT_FOUND, "no daemon listens at %s", path);
    return -1;
}

static pid_t below(void)
{
    const char *named = getenv("TENSORD_BELOW");
    return named ? (pid_t)atoi(named) : 0;
}

bool td_places_apart(void)
{
    return below() > 0 && below() != getpid();
}

bool td_places_within(pid_t program)
{
    process p;
    for (int i = 0; td_places_apart() && program != below(); i++, program = p.parent)
        if (i == MOST_PARENTS || program <= 0 || !look_at(program, &p)) return false;
    return true;
}

int td_places_find(pid_t pid, char path[108], td_error *e)
{
    process p;
    pid_t top = below() != pid ? below() : 0;
    for (int i = 0; i < MOST_PARENTS && pid > 0 && pid != top; i++, pid = p.parent) {
        bool known = look_at(pid, &p);
        for (int n = 0; n < BASES; n++) {
            char where[BASE_SIZE], directory[100];
            if (!base(n, where)) continue;
            name_directory(directory, where, &p);
            int s = dial_in(directory, path, FIND_MS, e);
            if (s >= 0 || e->code == TD_E_TIMEOUT) return s;
        }
        if (!known) break;
    }
    td_fail(e, TD_E_NOT_FOUND, "no private daemon runs");
    return -1;
}

/* ---- making and removing ----------------------------------------------------------------------------------------- */

/* A directory of ours, locked: a descriptor, or -1. */
static int lock_directory(const char *directory, bool make)
{
    for (int i = 0; i < MOST_TRIES; i++) {
        if (make && mkdir(directory, 0700) && errno != EEXIST) return -1;
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && make && errno == ENOENT) continue; /* its daemon removed it just now */
        if (fd < 0) return -1;
        struct stat held, there;
        bool mine = fstat(fd, &held) == 0 && ours(&held); /* or its owner may hold the lock for ever */
        while (mine && flock(fd, LOCK_EX) && errno == EINTR) {
        }
        if (mine && lstat(directory, &there) == 0 && there.st_ino == held.st_ino && there.st_dev == held.st_dev)
            return fd;
        close(fd);
        if (!mine) return -1;
    }
    return -1;
}

/* In so many words: a child that another thread forks meanwhile has the descriptor too. */
static void unlock(int fd)
{
    if (fd < 0) return;
    flock(fd, LOCK_UN);
    close(fd);
}

static void directory_of(const char *path, char directory[108])
{
    snprintf(directory, 108, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash) *slash = 0;
}

void td_places_sweep(const char *path)
{
    char directory[108];
    td_error e = {0};
    directory_of(path, directory);
    int lock = lock_directory(directory, false);
    if (lock < 0) return;
    int s = td_dial(path, &e);
    if (s >= 0) close(s);
    else if (e.code == TD_E_NOT_FOUND) {
        unlink(path);
        rmdir(directory);
    }
    unlock(lock);
}

/* Returns the socket, or -errno. */
static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, path, strlen(path) + 1);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s >= 0 && bind(s, (struct sockaddr *)&at, sizeof at) == 0 && listen(s, 64) == 0) return s;
    int err = errno;
    if (s >= 0) close(s);
    return -err;
}

/* Listen, and be the first who connects: a private daemon ends with its last client. */
static int listen_and_dial(const char *path, int *connected, td_error *e)
{
    int s = listen_at(path);
    if (s < 0) {
        td_fail_errno(e, -s, "cannot listen at %s for a private daemon", path);
        return s;
    }
    *connected = td_dial(path, e);
    if (*connected >= 0) return s;
    close(s);
    return -EIO;
}

/* In a directory that nobody finds: where the one that names this process cannot be had. */
static int listen_apart(const char *where, char path[108], int *connected, td_error *e)
{
    char directory[100];
    snprintf(directory, sizeof directory, "%.56s/tensord-XXXXXX", where);
    if (!mkdtemp(directory)) {
        td_fail_errno(e, errno, "cannot make the directory %s for a private daemon", directory);
        return -1;
    }
    name_socket(path, directory);
    int s = listen_and_dial(path, connected, e);
    if (s >= 0) return s;
    unlink(path);
    rmdir(directory);
    return -1;
}

int td_places_listen(char path[108], int *connected, td_error *e)
{
    char where[BASE_SIZE];
    if (!base(0, where) || access(where, W_OK)) snprintf(where, sizeof where, "/tmp");
    process self;
    char directory[100];
    look_at(getpid(), &self);
    name_directory(directory, where, &self);
    name_socket(path, directory);
    *connected = -1;
    for (int i = 0, s; i < MOST_TRIES; i++) {
        int lock = lock_directory(directory, true);
        if (lock < 0) break;
        *connected = td_dial(path, e);
        if (*connected >= 0 || e->code == TD_E_TIMEOUT) {
            unlock(lock);
            return -1;
        }
        unlink(path);
        s = listen_and_dial(path, connected, e);
        unlock(lock);
        if (s >= 0) return s;
        if (s != -ENOENT) break; /* a daemon at its end removed the directory */
    }
    return listen_apart(where, path, connected, e);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static void name_program(td_place *d, unsigned long long began)
{
    char path[40];
    process p;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)d->program);
    d->name[0] = 0;
    int fd = look_at(d->program, &p) && p.began == began ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, d->name, sizeof d->name - 1) : 0;
    if (fd >= 0) close(fd);
    d->name[n > 0 ? n : 0] = 0;
    d->name[strcspn(d->name, "\n")] = 0;
    if (n > 0) td_python_script(d->program, d->name, sizeof d->name);
}

bool td_places_of(const char *path, td_place *out)
{
    process p;
    char directory[108];
    directory_of(path, directory);
    const char *name = strrchr(directory, '/');
    if (!name || sscanf(name, "/tensord-%d-%llu", &p.pid, &p.began) != 2) return false;
    snprintf(out->path, sizeof out->path, "%s", path);
    out->program = p.pid;
    name_program(out, p.began);
    return true;
}

const char *td_places_text(const td_place *d, char *out, size_t size)
{
    char name[64];
    if (!d) snprintf(out, size, "the daemon");
    else if (d->name[0])
        snprintf(out, size, "the private daemon of %s (pid %d)", td_text_visible(name, sizeof name, d->name),
                 (int)d->program);
    else snprintf(out, size, "the private daemon of pid %d, which has ended", (int)d->program);
    return out;
}

/* A name of a directory as name_directory() gives it, with a daemon that listens there. */
static bool take_entry(const char *where, const char *name, td_place *out)
{
    process p;
    char directory[100], expected[100];
    td_error e = {0};
    if (sscanf(name, "tensord-%d-%llu", &p.pid, &p.began) != 2) return false;
    snprintf(directory, sizeof directory, "%.56s/%.42s", where, name);
    name_directory(expected, where, &p);
    int s = strcmp(directory, expected) == 0 ? dial_in(directory, out->path, LIST_MS, &e) : -1;
    if (s < 0 && e.code != TD_E_TIMEOUT) return false;
    if (s >= 0) close(s);
    out->program = p.pid;
    name_program(out, p.began);
    return true;
}

int td_places_list(td_place *list, int most)
{
    int count = 0;
    for (int n = 0; n < BASES; n++) {
        char where[BASE_SIZE];
        DIR *d = base(n, where) ? opendir(where) : NULL;
        for (struct dirent *entry; d && (entry = readdir(d));) {
            td_place one;
            if (!take_entry(where, entry->d_name, &one)) continue;
            if (count < most) list[count] = one;
            count++;
        }
        if (d) closedir(d);
    }
    return count;
}
