#include "tests/support/raw.h"
#include "proto/base/device.h"

#include "tests/support/daemon.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

unsigned raw_device(void)
{
    const char *name = getenv("TENSORD_DEVICE");
    int device = name && name[0] ? td_device_number(name) : TD_CPU;
    return device < 0 ? TD_CPU : (unsigned)device;
}

/* The mode of a record that makes something there. */
static unsigned on_device(void)
{
    return raw_device() << TD_RM_DEVICE;
}

int raw_fd = -1;

bool raw_connect(raw *r, const char *path)
{
    *r = (raw){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    td_reader_init(&r->reader, true);
    td_arena_init(&r->arena, 64 << 20);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    return connect(r->fd, (struct sockaddr *)&a, sizeof a) == 0;
}

void raw_close(raw *r)
{
    if (r->fd >= 0) close(r->fd);
    r->fd = -1;
    td_reader_deinit(&r->reader);
    td_arena_deinit(&r->arena);
    if (raw_fd >= 0) close(raw_fd);
    raw_fd = -1;
}

bool raw_bytes_fds(raw *r, const void *bytes, size_t n, const int *fds, int nfds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(64 * sizeof(int))];
    } control = {0};
    struct iovec v = {(void *)bytes, n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (nfds) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
    }
    while (v.iov_len) {
        ssize_t sent = sendmsg(r->fd, &m, MSG_NOSIGNAL);
        if (sent < 0) return false;
        v.iov_base = (char *)v.iov_base + sent;
        v.iov_len -= (size_t)sent;
        m.msg_control = NULL;
        m.msg_controllen = 0;
    }
    return true;
}

bool raw_bytes(raw *r, const void *bytes, size_t n)
{
    return raw_bytes_fds(r, bytes, n, NULL, 0);
}

bool raw_frame(raw *r, unsigned kind, const void *payload, size_t n)
{
    uint8_t *b = malloc(TD_FRAME_HEADER + n);
    td_frame_put_header(b, (uint32_t)n, kind, 0);
    if (n) memcpy(b + TD_FRAME_HEADER, payload, n);
    bool ok = raw_bytes(r, b, TD_FRAME_HEADER + n);
    free(b);
    return ok;
}

bool raw_words(raw *r, const uint32_t *words, size_t n, const void *data, size_t ndata)
{
    Td__Wire__Batch batch;
    td__wire__batch__init(&batch);
    batch.n_words = n;
    batch.words = (uint32_t *)words;
    batch.data.data = (uint8_t *)data;
    batch.data.len = ndata;
    size_t size = td__wire__batch__get_packed_size(&batch);
    uint8_t *b = malloc(size + 1);
    td__wire__batch__pack(&batch, b);
    bool ok = raw_frame(r, TD_FRAME_BATCH, b, size);
    free(b);
    return ok;
}

uint64_t raw_call(raw *r, Td__Wire__Call *c)
{
    c->serial = ++r->serial;
    size_t size = td__wire__call__get_packed_size(c);
    uint8_t *b = malloc(size + 1);
    td__wire__call__pack(c, b);
    bool ok = raw_frame(r, TD_FRAME_CALL, b, size);
    free(b);
    return ok ? c->serial : 0;
}

static void note_event(raw *r, const td_frame *f)
{
    Td__Wire__Event *e = td__wire__event__unpack(&r->arena.allocator, f->bytes, f->payload);
    if (e && e->error) snprintf(r->gone, sizeof r->gone, "%u %s", e->error->code, e->error->message);
}

/* The next frame within `ms`. False: none, or the end. */
static bool next_frame(raw *r, td_frame *f, int ms)
{
    td_error e = {0};
    uint64_t until = test_now_ms() + (uint64_t)ms;
    for (;;) {
        int got = td_reader_next(&r->reader, f, &e);
        if (got) return got > 0;
        uint64_t now = test_now_ms();
        struct pollfd p = {r->fd, POLLIN, 0};
        if (now > until || poll(&p, 1, (int)(until - now)) <= 0) return false;
        if (td_reader_fill(&r->reader, r->fd, true, &e) <= 0) {
            if (!r->gone[0]) snprintf(r->gone, sizeof r->gone, "end of file");
            return false;
        }
    }
}

Td__Wire__Reply *raw_reply(raw *r, int ms)
{
    td_frame f;
    td_arena_reset(&r->arena);
    while (next_frame(r, &f, ms)) {
        if (raw_fd >= 0) close(raw_fd);
        raw_fd = f.fd;
        if (f.kind == TD_FRAME_REPLY) return td__wire__reply__unpack(&r->arena.allocator, f.bytes, f.payload);
        if (f.kind == TD_FRAME_EVENT) note_event(r, &f);
    }
    return NULL;
}

Td__Wire__Reply *raw_ask(raw *r, Td__Wire__Call *c)
{
    uint64_t serial = raw_call(r, c);
    for (Td__Wire__Reply *x; serial && (x = raw_reply(r, TEST_LONG_MS));)
        if (x->serial == serial) return x;
    return NULL;
}

bool raw_ended(raw *r, int ms)
{
    uint64_t until = test_now_ms() + (uint64_t)ms;
    while (!r->gone[0] || strcmp(r->gone, "end of file") != 0) {
        uint64_t now = test_now_ms();
        if (now >= until) return false;
        char said[512];
        snprintf(said, sizeof said, "%s", r->gone);
        r->gone[0] = '\0';
        raw_reply(r, (int)(until - now));
        bool over = strcmp(r->gone, "end of file") == 0;
        if (over && said[0]) snprintf(r->gone, sizeof r->gone, "%s", said);
        if (over) return true;
        if (!r->gone[0]) snprintf(r->gone, sizeof r->gone, "%s", said);
    }
    return true;
}

Td__Wire__Welcome *raw_hello_with(raw *r, const Td__Wire__Hello *h)
{
    uint8_t b[512];
    size_t n = td__wire__hello__pack(h, b);
    td_frame f;
    raw_frame(r, TD_FRAME_HELLO, b, n); /* when that fails, the daemon may have said why */
    if (!next_frame(r, &f, TEST_LONG_MS)) return NULL;
    if (f.kind != TD_FRAME_WELCOME) {
        note_event(r, &f);
        return NULL;
    }
    Td__Wire__Welcome *w = td__wire__welcome__unpack(&r->arena.allocator, f.bytes, f.payload);
    if (!w) return NULL;
    r->session = w->session;
    r->token = w->token;
    return w;
}

bool raw_hello(raw *r)
{
    Td__Wire__Hello h;
    td__wire__hello__init(&h);
    h.protocol = TD_PROTOCOL;
    h.program = (char *)"raw";
    h.table_hash = td_ops_hash;
    return raw_hello_with(r, &h) != NULL;
}

bool raw_open(raw *r, const char *path)
{
    return raw_connect(r, path) && raw_hello(r);
}

/* The number in this column of the row that begins with `key`, in one of the daemon's tables. */
static int64_t number_in(raw *r, const char *table, const char *key, int column)
{
    Td__Wire__Call c;
    Td__Wire__Status s;
    td__wire__call__init(&c);
    td__wire__status__init(&s);
    s.what = (char *)table;
    c.status = &s;
    Td__Wire__Reply *x = raw_ask(r, &c);
    if (!x || !x->table) return -1;
    for (size_t i = 0; i < x->table->n_rows; i++)
        if (strcmp(x->table->rows[i]->cells[0]->text, key) == 0) return x->table->rows[i]->cells[column]->integer;
    return -1;
}

int64_t raw_status(raw *r, const char *key)
{
    return number_in(r, "status", key, 1);
}

bool raw_getters_wait(raw *r, const char *queue, int64_t want)
{
    enum { WAITING_GET = 6 };
    for (int i = 0; i < TEST_LONG_MS / 5; i++, test_sleep_ms(5))
        if (number_in(r, "queues", queue, WAITING_GET) == want) return true;
    return false;
}

bool raw_sync(raw *r, uint32_t *code)
{
    td_words w = {0};
    uint32_t rest[2];
    uint64_t serial = ++r->serial;
    td_words_put_u64(rest, serial);
    td_words_control(&w, TD_REC_SYNC, 0, 0, 0, NULL, 0, NULL, 2, rest, NULL);
    bool ok = raw_words(r, w.at, w.count, NULL, 0);
    td_words_deinit(&w);
    *code = TD_E_LOST;
    for (Td__Wire__Reply *x; ok && (x = raw_reply(r, TEST_LONG_MS));)
        if (x->serial == serial) {
            *code = x->error ? x->error->code : 0;
            return *code == 0;
        }
    return false;
}

bool raw_zeros(raw *r, uint32_t id, uint32_t n)
{
    td_words w = {0};
    uint32_t rest[4] = {TD_FLOAT32 | 1 << 8, n, 0, 0};
    void *zeros = calloc(n ? n : 1, 4);
    td_words_control(&w, TD_REC_DATA, on_device(), 0, 0, NULL, 1, &id, 4, rest, NULL);
    bool ok = raw_words(r, w.at, w.count, zeros, (size_t)n * 4);
    td_words_deinit(&w);
    free(zeros);
    return ok;
}

const char *const raw_counted[RAW_COUNTED] = {"sessions",      "tensors", "storages",   "causes",
                                              "names",         "queues",  "bytes_used", "bytes_used_on_fake:0",
                                              "tasks_pending", "nodes",   "descriptors"};

/* And how much the daemon has done: what killed clients had sent it may do for long before any of them ends. */
static bool count_and_done(const char *path, int64_t *counts, int64_t *done)
{
    raw r;
    bool ok = raw_open(&r, path);
    *done = ok ? raw_status(&r, "ops_run") : 0;
    for (int i = 0; i < RAW_COUNTED && ok; i++) {
        counts[i] = raw_status(&r, raw_counted[i]);
        if (counts[i] < 0 && strchr(raw_counted[i], ':')) counts[i] = 0; /* there is no such device */
        ok = counts[i] >= 0;
    }
    counts[RAW_COUNTED - 1] -= 2 * raw_status(&r, "segments");
    raw_close(&r);
    return ok;
}

bool raw_count(const char *path, int64_t *counts)
{
    int64_t done;
    return count_and_done(path, counts, &done);
}

bool raw_count_again(const char *path, const int64_t *before)
{
    enum { DESCRIPTORS = RAW_COUNTED - 1 };
    int64_t now[RAW_COUNTED] = {0}, last[RAW_COUNTED] = {0};
    int64_t done = 0, was = 0;
    uint64_t until = test_now_ms() + 10 * TEST_LONG_MS, moved = test_now_ms();
    for (; test_now_ms() < until && test_now_ms() < moved + TEST_LONG_MS; test_sleep_ms(20)) {
        if (!count_and_done(path, now, &done)) break;
        if (done != was || memcmp(now, last, sizeof now) != 0)
            moved = test_now_ms(); /* a slow machine is not done yet */
        memcpy(last, now, sizeof now);
        was = done;
        bool as_many = on_device() || now[DESCRIPTORS] <= before[DESCRIPTORS]; /* a device keeps its arenas */
        if (memcmp(now, before, DESCRIPTORS * sizeof *now) == 0 && as_many) return true;
    }
    for (int i = 0; i < RAW_COUNTED; i++)
        if (now[i] != before[i])
            printf("\n    %s: %lld before, %lld after", raw_counted[i], (long long)before[i], (long long)now[i]);
    return false;
}
