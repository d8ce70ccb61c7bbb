/* A path socket in a private directory. Never an abstract one: those have no permissions and do not reach into containers. */
#include "daemon/server/listen.h"
#include "proto/base/place.h"

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

enum { MOST_TRIES = 8 };

static void parent_of(const char *path, char *dir, size_t size)
{
    snprintf(dir, size, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash == dir) dir[1] = '\0';
    else if (slash) *slash = '\0';
    else snprintf(dir, size, ".");
}

/* The directory must be ours and closed to others, or we make it so. */
static int make_directory(const char *dir, td_error *e)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) return td_fail_errno(e, errno, "cannot make the directory %s", dir);
    struct stat st;
    if (lstat(dir, &st) != 0) return td_fail_errno(e, errno, "cannot look at the directory %s", dir);
    if (!S_ISDIR(st.st_mode)) return td_fail(e, TD_E_INVALID, "%s is not a directory", dir);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return td_fail(e, TD_E_PERMISSION, "the directory %s belongs to uid %u; give another place with --socket", dir, (unsigned)st.st_uid);
    if (st.st_mode & 022 && !(st.st_mode & S_ISVTX))
        return td_fail(e, TD_E_PERMISSION, "others may write to the directory %s (mode %04o); give another place with --socket", dir,
                       (unsigned)st.st_mode & 07777);
    return TD_OK;
}

/* A socket may have been left by a daemon that was killed; anything else is not ours to remove. */
static int check_place(const char *path, td_error *e)
{
    struct stat st;
    if (lstat(path, &st) != 0 || S_ISSOCK(st.st_mode)) return TD_OK;
    return td_fail(e, TD_E_EXISTS, "%s is there already and is no socket; give another place with --socket", path);
}

static int take_lock(td_listener *l, td_error *e)
{
    char lock[120];
    snprintf(lock, sizeof lock, "%s.lock", l->path);
    l->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (l->lock_fd < 0) return td_fail_errno(e, errno, "cannot open the lock file %s", lock);
    if (flock(l->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        close(l->lock_fd);
        l->lock_fd = -1;
        return td_fail(e, TD_E_EXISTS, "another tensord serves %s; use it, or give another --socket", l->path);
    }
    return TD_OK;
}

static int bind_and_listen(td_listener *l, td_error *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", l->path);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0) return td_fail_errno(e, errno, "no socket");
    unlink(l->path); /* under the lock: left by a daemon that was killed */
    mode_t before = umask(0177);
    int rc = bind(l->fd, (struct sockaddr *)&a, sizeof a);
    int err = errno;
    umask(before);
    if (rc != 0) return td_fail_errno(e, err, "cannot bind %s", l->path);
    if (listen(l->fd, 4096) != 0) return td_fail_errno(e, errno, "cannot listen on %s", l->path);
    return TD_OK;
}

int td_listener_open(td_listener *l, const char *path, td_error *e)
{
    *l = (td_listener){.fd = -1, .lock_fd = -1};
    snprintf(l->path, sizeof l->path, "%s", path);
    char dir[108];
    parent_of(path, dir, sizeof dir);
    int rc = TD_E_SYSTEM;
    for (int i = 0; rc && i < MOST_TRIES; i++) { /* a private daemon at its end may remove the directory just now */
        rc = make_directory(dir, e);
        if (!rc) rc = check_place(path, e);
        if (!rc) rc = take_lock(l, e);
        if (rc && access(dir, F_OK) == 0) break;
    }
    if (rc) {
        l->path[0] = '\0';
        return rc;
    }
    rc = bind_and_listen(l, e);
    if (rc) td_listener_close(l);
    return rc;
}

int td_listener_inherit(td_listener *l, int fd, bool owned, td_error *e)
{
    *l = (td_listener){.fd = fd, .lock_fd = -1};
    int listening = 0;
    socklen_t n = sizeof listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) != 0 || !listening)
        return td_fail(e, TD_E_INVALID, "the inherited descriptor %d is not a listening socket", fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    struct sockaddr_un a;
    socklen_t size = sizeof a;
    if (owned && getsockname(fd, (struct sockaddr *)&a, &size) == 0 && a.sun_family == AF_UNIX && a.sun_path[0]) {
        snprintf(l->path, sizeof l->path, "%.*s", (int)(sizeof l->path - 1), a.sun_path);
        l->remove_directory = true;
    }
    return TD_OK;
}

void td_listener_close(td_listener *l)
{
    /* Out of sight first: a socket that refuses was left by a daemon that was killed. */
    if (l->path[0]) {
        unlink(l->path);
        char lock[120], dir[108];
        snprintf(lock, sizeof lock, "%s.lock", l->path);
        if (l->lock_fd >= 0) unlink(lock);
        parent_of(l->path, dir, sizeof dir);
        if (l->remove_directory) td_default_place_leave(dir);
    }
    if (l->fd >= 0) close(l->fd);
    if (l->lock_fd >= 0) close(l->lock_fd);
    *l = (td_listener){.fd = -1, .lock_fd = -1};
}

bool td_user_namespace(void)
{
    unsigned inside = 0, outside = 0, count = 0;
    FILE *f = fopen("/proc/self/uid_map", "re");
    bool whole = !f || (fscanf(f, "%u %u %u", &inside, &outside, &count) == 3 && !inside && !outside && count >= UINT32_MAX - 1);
    if (f) fclose(f);
    return !whole;
}

void td_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof a.sun_path) return;
    memcpy(a.sun_path, path, strlen(path));
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (a.sun_path[0] == '@') a.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a, size);
    close(fd);
}
