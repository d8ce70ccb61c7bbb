/* Finding and placing private daemons; see places.h.
 *
 * A process that makes or removes a socket holds a lock on its directory, and one that makes a socket another on the
 * root, so two of them never start two daemons for one root, and nobody removes a socket that has just been made. A
 * daemon at its end removes its socket before it stops listening: so a socket that refuses was left by one that was
 * killed. */
#include "client/wire/internal.h"
#include "proto/base/place.h"
#include "proto/base/text.h"

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

enum { MOST_TRIES = 20, FIND_MS = 20000, LIST_MS = 10 };

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* False: the name is too long for a socket in it. */
static bool name_directory(char out[100], const char *place, const td_relative *p)
{
    return snprintf(out, 100, "%s/%d-%llu", place, (int)p->pid, p->began) < 100;
}

static void name_socket(char path[108], const char *directory)
{
    snprintf(path, 108, "%.100s/socket", directory);
}

static bool ours(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & 077);
}

static bool is_ours(const char *directory)
{
    struct stat st;
    return lstat(directory, &st) == 0 && ours(&st);
}

/* The places that there are, and that others have no way into. */
typedef struct places {
    int count;
    char at[TD_PLACES][TD_PLACE_SIZE];
} places;

static places look_at_places(void)
{
    places p = {0};
    for (int n = 0; n < TD_PLACES; n++) p.count += td_default_place(n, p.at[p.count]) && is_ours(p.at[p.count]);
    return p;
}

/* Dial the socket in a directory, which must be ours. */
static int dial_in(const char *directory, char path[108], int ms, td_error *e)
{
    name_socket(path, directory);
    if (is_ours(directory)) return td_dial_within(path, ms, e);
    td_fail(e, TD_E_NOT_FOUND, "no daemon listens at %s", path);
    return -1;
}

bool td_places_apart(void)
{
    return td_lineage_below() > 0 && td_lineage_below() != getpid();
}

bool td_places_within(pid_t program)
{
    return !td_places_apart() || td_lineage_within(program, td_lineage_below());
}

/* That of one process, in whichever place it is. */
static int find_of(const td_relative *p, const places *in, char path[108], td_error *e)
{
    char directory[100];
    for (int n = 0; n < in->count; n++) {
        if (!name_directory(directory, in->at[n], p)) continue;
        int s = dial_in(directory, path, FIND_MS, e);
        if (s >= 0 || e->code == TD_E_TIMEOUT) return s;
    }
    td_fail(e, TD_E_NOT_FOUND, "no private daemon runs");
    return -1;
}

/* What an entry of a place says; false when it is not a private daemon's. */
static bool read_entry(const char *where, const char *name, td_relative *p, char directory[100])
{
    char expected[100];
    *p = (td_relative){0};
    return sscanf(name, "%d-%llu", &p->pid, &p->began) == 2 && name_directory(expected, where, p) &&
           snprintf(directory, 100, "%s/%s", where, name) < 100 && strcmp(directory, expected) == 0;
}

/* That of a process which has ended. Its number is nobody else's as long as a group or a session is called so. */
static int find_of_ended(pid_t pid, const places *in, char path[108], td_error *e)
{
    td_relative p;
    int s = -1;
    if (pid <= 0 || td_relative_look(pid, &p)) return -1;
    for (int n = 0; n < in->count && s < 0; n++) {
        char directory[100];
        DIR *d = opendir(in->at[n]);
        for (struct dirent *entry; d && s < 0 && (entry = readdir(d));)
            if (read_entry(in->at[n], entry->d_name, &p, directory) && p.pid == pid)
                s = dial_in(directory, path, FIND_MS, e);
        if (d) closedir(d);
    }
    return s;
}

int td_places_find(pid_t pid, char path[108], td_error *e)
{
    td_lineage l;
    places in = look_at_places();
    td_lineage_look(pid, &l);
    int s = find_of(&l.of[0], &in, path, e);
    if (s < 0 && e->code != TD_E_TIMEOUT) s = find_of_ended(l.of[0].group, &in, path, e);
    if (s < 0 && e->code != TD_E_TIMEOUT && l.of[0].session != l.of[0].group)
        s = find_of_ended(l.of[0].session, &in, path, e);
    for (int i = 1; s < 0 && e->code != TD_E_TIMEOUT && i < l.count; i++) s = find_of(&l.of[i], &in, path, e);
    if (s < 0 && e->code == TD_E_TIMEOUT) return s;
    if (s < 0) td_fail(e, TD_E_NOT_FOUND, "no private daemon runs");
    return s;
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
        td_default_place_leave(directory);
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

/* In a directory that nobody finds: where none that names the root can be had. */
static int listen_hidden(char path[108], int *connected, td_error *e)
{
    char directory[] = "/tmp/tensord-XXXXXX";
    if (!mkdtemp(directory)) {
        td_fail_errno(
            e, errno,
            "no private daemon: no directory for its socket can be made in $XDG_RUNTIME_DIR, /tmp or the home "
            "directory; start tensord --socket PATH, and this program with TENSORD_SOCKET=PATH");
        return -1;
    }
    name_socket(path, directory);
    int s = listen_and_dial(path, connected, e);
    if (s >= 0) return s;
    unlink(path);
    rmdir(directory);
    return -1;
}

bool td_places_hidden(const char *path)
{
    return strncmp(path, "/tmp/tensord-", 13) == 0 && strcspn(path + 13, "/") == 6 && strcmp(path + 19, "/socket") == 0;
}

/* In a place that can be had; -ENOENT: it was removed meanwhile, -EACCES: it cannot. Nothing is listened for when there
 * is a daemon by now: also in another place, as environments differ. */
static int listen_in(const char *where, const td_relative *root, char path[108], int *connected, td_error *e)
{
    char directory[100], here[108];
    if (!name_directory(directory, where, root) || (mkdir(where, 0700) && errno != EEXIST) || !is_ours(where))
        return -EACCES;
    int lock = lock_directory(directory, true), s = -1;
    if (lock < 0) {
        int why = is_ours(where) ? -EACCES : -ENOENT;
        td_default_place_leave(directory);
        return why;
    }
    name_socket(here, directory);
    places in = look_at_places();
    *connected = find_of(root, &in, path, e);
    if (*connected < 0 && e->code != TD_E_TIMEOUT) {
        snprintf(path, 108, "%s", here);
        unlink(path);
        s = listen_and_dial(path, connected, e);
    }
    unlock(lock);
    if (s < 0 && (*connected < 0 || strcmp(path, here) != 0)) td_places_sweep(here);
    return s;
}

/* Processes of one program whose environments name different places exclude each other by a lock on the directory
 * where the system tells of the root: it is where it is for both, and only the user's own processes can open it. Where
 * that cannot be had (the root has ended, /proc is another's), they go on without. */
static int lock_root(const td_relative *root)
{
    char directory[32];
    snprintf(directory, sizeof directory, "/proc/%d/fd", (int)root->pid);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX) && errno == EINTR) {
    }
    return fd;
}

static int listen_somewhere(const td_relative *root, char path[108], int *connected, td_error *e)
{
    char where[TD_PLACE_SIZE];
    for (int n = 0; n < TD_PLACES; n++)
        for (int i = 0; td_default_place(n, where) && i < MOST_TRIES; i++) {
            int s = listen_in(where, root, path, connected, e);
            if (s >= 0 || *connected >= 0 || e->code == TD_E_TIMEOUT) return s;
            if (s != -ENOENT) break; /* a daemon at its end removed the directory */
        }
    return listen_hidden(path, connected, e);
}

int td_places_listen(const td_relative *root, char path[108], int *connected, td_error *e)
{
    *connected = -1;
    int lock = lock_root(root), s = listen_somewhere(root, path, connected, e);
    unlock(lock);
    return s;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static void name_program(td_daemon_place *d, unsigned long long began)
{
    td_relative p;
    bool lives = td_relative_look(d->program, &p) && p.began == began;
    snprintf(d->name, sizeof d->name, "%s", lives ? p.name : "");
    if (lives) td_python_script(d->program, d->name, sizeof d->name);
}

bool td_places_of(const char *path, td_daemon_place *out)
{
    td_relative p;
    char where[108], directory[100];
    directory_of(path, where);
    char *name = strrchr(where, '/');
    if (!name) return false;
    *name++ = 0;
    if (!read_entry(where, name, &p, directory)) return false;
    snprintf(out->path, sizeof out->path, "%s", path);
    out->program = p.pid;
    name_program(out, p.began);
    return true;
}

const char *td_places_text(const td_daemon_place *d, char *out, size_t size)
{
    char name[64];
    if (!d) snprintf(out, size, "the daemon");
    else if (d->name[0])
        snprintf(out, size, "the private daemon of %s (pid %d)", td_text_visible(name, sizeof name, d->name),
                 (int)d->program);
    else snprintf(out, size, "the private daemon of pid %d (ended, or in another pid namespace)", (int)d->program);
    return out;
}

/* What a killed daemon left is removed. */
static bool take_entry(const char *where, const char *name, td_daemon_place *out)
{
    td_relative p;
    char directory[100];
    td_error e = {0};
    if (!read_entry(where, name, &p, directory)) return false;
    int s = dial_in(directory, out->path, LIST_MS, &e);
    if (s < 0 && e.code != TD_E_TIMEOUT) {
        td_places_sweep(out->path);
        return false;
    }
    if (s >= 0) close(s);
    out->program = p.pid;
    name_program(out, p.began);
    return true;
}

int td_places_list(td_daemon_place *list, int most)
{
    int count = 0;
    places in = look_at_places();
    for (int n = 0; n < in.count; n++) {
        DIR *d = opendir(in.at[n]);
        for (struct dirent *entry; d && (entry = readdir(d));) {
            td_daemon_place one;
            if (!take_entry(in.at[n], entry->d_name, &one)) continue;
            if (count < most) list[count] = one;
            count++;
        }
        if (d) closedir(d);
    }
    return count;
}
