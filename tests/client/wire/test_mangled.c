/* A daemon whose words arrive mangled: between it and each client stands somebody who turns one bit of what the daemon
 * says. Whatever that makes of it, the client goes on or fails; it never waits for what cannot come. */
#include "tests/client/common.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS = 240, AT_ONCE = 16, SAID = 4000 };

/* ---- who stands between */

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    return a;
}

/* What has come goes on, descriptors too; the bit at *turn, counted from here in bits, is turned on the way. False: an
 * end. */
static bool pass(int from, int to, int64_t *turn)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(16 * sizeof(int))];
    } control;
    unsigned char bytes[4096];
    struct iovec v = {bytes, sizeof bytes};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
    if (n <= 0) return false;
    if (turn && *turn >= 0 && *turn < 8 * n) bytes[*turn / 8] ^= (unsigned char)(1 << *turn % 8);
    if (turn) *turn -= 8 * n;
    bool ok = true;
    v.iov_len = (size_t)n;
    for (ssize_t sent; ok && v.iov_len; v.iov_base = (char *)v.iov_base + sent, v.iov_len -= (size_t)sent) {
        sent = sendmsg(to, &m, MSG_NOSIGNAL);
        if (sent < 0) sent = 0, ok = false;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
            for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
                close(fd);
            }
        m.msg_control = NULL, m.msg_controllen = 0;
    }
    return ok;
}

/* One connection, until both sides have ended it. */
static void stand_between(int listening, int64_t turn)
{
    struct sockaddr_un a = address_of(server.socket);
    int client = accept(listening, NULL, NULL), daemon = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool open = client >= 0 && connect(daemon, (struct sockaddr *)&a, sizeof a) == 0;
    while (open) {
        struct pollfd p[2] = {{client, POLLIN, 0}, {daemon, POLLIN, 0}};
        if (poll(p, 2, -1) < 0) break;
        if (p[0].revents) open = pass(client, daemon, NULL);
        if (p[1].revents && open) open = pass(daemon, client, &turn);
    }
    close(client);
    close(daemon);
}

/* ---- a client that asks many things, and takes every answer */

static const char twice[] = "graph(%n : int):\n"
                            "  %m : int = prim::add.int(%n, %n)\n"
                            "  return (%m)\n";
static const char endless[] = "graph(%n : int):\n"
                              "  %yes : bool = prim::Constant[value=1]()\n"
                              "  %ever : int = prim::Constant[value=9223372036854775807]()\n"
                              "  prim::Loop(%ever, %yes)\n"
                              "    block0(%i : int):\n"
                              "      -> (%yes)\n"
                              "  return (%n)\n";

/* One call that ends and one that is stopped; an item that comes when nobody wants it any more; a handle. */
static void ask_more(td_client *c, td_queue *q, td_array *x)
{
    char handle[TD_HANDLE_TEXT];
    td_value n = td_value_int(3), out = {0};
    td_program *p = td_program_read(c, twice, td_arrays_of(0, NULL)),
               *e = td_program_read(c, endless, td_arrays_of(0, NULL));
    if (p && !td_program_call(p, 1, &n, &out)) td_value_free(&out);
    td_request *r = e ? td_async_call(e, 1, &n, 300, NULL, NULL) : NULL;
    if (r) td_request_cancel(r);
    td_request *got = q ? td_async_get(q, -1, NULL, NULL) : NULL;
    if (q) td_queue_put(q, td_arrays_of(1, &x), "note", 4, 100);
    td_request_free(got);
    if (x && !td_send(x, handle, 1000)) td_release(td_take(c, handle, 100));
    if (r) td_request_result(r);
    td_request_free(r);
    td_program_free(p), td_program_free(e);
}

static void ask(const char *path, int number)
{
    char name[32];
    float f[8];
    snprintf(name, sizeof name, "mangled %d", number);
    td_client *c = td_connect(path);
    td_queue *q = c ? td_queue_open(c, name, 4, TD_PRODUCER | TD_CONSUMER) : NULL;
    for (int round = 0; c && round < 4; round++) {
        td_queue_item item = {0};
        td_array *x = td_full(c, td_dims(8), 2, TD_FLOAT32), *y = td_add(x, 1), *z = NULL;
        td_read(y, f, sizeof f);
        td_item_f64(td_sum(y));
        td_publish(y, name, TD_REPLACE);
        z = td_open(c, name, 100);
        if (q && !td_queue_put(q, td_arrays_of(1, &y), NULL, 0, 100) && !td_queue_get(q, &item, 100))
            td_queue_item_clear(&item);
        ask_more(c, q, y);
        td_nonzero(y);
        td_table_free(td_status(c, "sessions"));
        td_sync(c);
        td_release(x), td_release(y), td_release(z);
    }
    td_queue_close(q, false);
    td_disconnect(c);
}

/* One trial, in a process of its own: 0 when the client came to an end. */
static int trial(int number)
{
    char path[108];
    snprintf(path, sizeof path, "%s/between-%d", server.directory, number);
    struct sockaddr_un a = address_of(path);
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listening, (struct sockaddr *)&a, sizeof a) || listen(listening, 1)) return 2;
    pid_t client = fork();
    if (client == 0) {
        alarm(TEST_LONG_MS / 1000); /* it waits for what never comes */
        ask(path, number);
        _exit(0);
    }
    pid_t between = fork();
    if (between == 0) {
        srand((unsigned)number);
        stand_between(listening, rand() % (8 * SAID));
        _exit(0);
    }
    int status = 0;
    waitpid(client, &status, 0);
    kill(between, SIGKILL);
    waitpid(between, NULL, 0);
    unlink(path);
    return status != 0;
}

static void one_bit(void)
{
    int running = 0, bad = 0, status;
    for (int i = 0; i < CLIENTS || running; i++) {
        if (i < CLIENTS) {
            pid_t p = fork();
            if (p == 0) _exit(trial(i));
            running += p > 0;
        }
        if (i < CLIENTS && running < AT_ONCE) continue;
        if (wait(&status) > 0) running--;
        CU_ASSERT_EQUAL(status, 0);
        bad += status != 0;
    }
    if (bad) fprintf(stderr, "%d of %d clients waited for what never came, or crashed\n", bad, CLIENTS);
}

static const td_test tests[] = {{"one bit", one_bit}};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("client mangled", start_server, stop_server, sizeof tests / sizeof tests[0], tests,
                        argc > 1 ? argv[1] : NULL);
}
