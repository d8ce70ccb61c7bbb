/* Where connections come in. */
#include "client/http/front.h"
#include "proto/base/status.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

/* A directory of the user's that is closed to others; it is made when it is not there. */
static int check_directory(const char *directory, td_error *e)
{
    struct stat s;
    if (mkdir(directory, 0700) && errno != EEXIST) return td_fail_errno(e, errno, "the directory %.200s", directory);
    if (lstat(directory, &s)) return td_fail_errno(e, errno, "the directory %.200s", directory);
    if (!S_ISDIR(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 077))
        return td_fail(
            e, TD_E_PERMISSION,
            "%.200s is not a directory of yours that is closed to others (mode 0700): a socket there is open to them",
            directory);
    return TD_OK;
}

/* A socket that a server left behind when it ended is in nobody's way. */
static int bind_unix(int fd, const struct sockaddr_un *a, td_error *e)
{
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool alive = probe >= 0 && connect(probe, (const struct sockaddr *)a, sizeof *a) == 0;
    bool dead = !alive && errno == ECONNREFUSED;
    if (probe >= 0) close(probe);
    if (alive)
        return td_fail(e, TD_E_EXISTS,
                       "a server listens at %.100s already: end that one, or give another --http-socket", a->sun_path);
    if (dead) unlink(a->sun_path);
    if (bind(fd, (const struct sockaddr *)a, sizeof *a) || listen(fd, BACKLOG))
        return td_fail_errno(e, errno, "cannot listen at %.100s", a->sun_path);
    return TD_OK;
}

int http_listen_unix(const char *path, td_error *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char directory[sizeof a.sun_path];
    size_t n = strlen(path) + 1;
    if (n > sizeof a.sun_path) return td_fail(e, TD_E_INVALID, "%.200s is too long for a socket", path), -1;
    memcpy(a.sun_path, path, n);
    memcpy(directory, path, n);
    char *slash = strrchr(directory, '/');
    if (slash) *slash = 0;
    if (check_directory(!slash ? "." : *directory ? directory : "/", e)) return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = fd < 0 ? td_fail_errno(e, errno, "a socket") : bind_unix(fd, &a, e);
    if (rc && fd >= 0) close(fd);
    return rc ? -1 : fd;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static void show(int fd, char *out, size_t size)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(fd, (struct sockaddr *)&a, &n) ||
        getnameinfo((struct sockaddr *)&a, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(out, size, "?");
    else snprintf(out, size, a.ss_family == AF_INET6 ? "[%.100s]:%s" : "%.100s:%s", host, port);
}

int http_listen_tcp(const char *address, bool *local, char *shown, size_t size, td_error *e)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found;
    char *end = NULL;
    unsigned long number = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (!colon || strlen(address) >= sizeof host || colon[1] < '0' || colon[1] > '9' || *end || number > UINT16_MAX)
        return td_fail(e, TD_E_INVALID, "--listen %.100s: it takes HOST:PORT, a port from 0 to 65535", address), -1;
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    char *name = host;
    size_t n = strlen(host);
    if (n > 1 && host[0] == '[' && host[n - 1] == ']') host[n - 1] = 0, name++;
    int err = getaddrinfo(*name ? name : NULL, colon + 1, &hints, &found);
    if (err) return td_fail(e, TD_E_INVALID, "%.100s: %s", address, gai_strerror(err)), -1;
    *local = is_loopback(found->ai_addr);
    int on = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, BACKLOG)) {
        if (errno == EADDRINUSE)
            td_fail(e, TD_E_EXISTS,
                    "cannot listen at %.100s: another server has this port; end that one, or give another port (0: any "
                    "that is free)",
                    address);
        else td_fail_errno(e, errno, "cannot listen at %.100s", address);
        if (fd >= 0) close(fd);
        fd = -1;
    } else show(fd, shown, size);
    freeaddrinfo(found);
    return fd;
}
