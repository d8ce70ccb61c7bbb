/* Fuzzes ops, attributes and calls against a live session: the whole daemon below its sockets, in this process.
 *
 * The input is a list of pieces: a kind byte, a length (two bytes), that many bytes. Even kinds are words of a Batch
 * (so that the fuzzer need not find out protobuf first), odd ones the bytes of a Call, which from kind 8 on brings a
 * descriptor: of sealed memory or, for every other, of memory that may be cut. Six tensors of several dtypes and shapes
 * are there under ids 1 to 6, larger ones than a tile of a kernel under 7 to 9: whole, and with room between the rows.
 * Whatever comes, nothing may crash, and after the session nothing may be left. */
#include "daemon/session/calls/calls.h"
#include "proto/wire/record.h"
#include "proto/wire/wire.pb-c.h"
#include "tests/hostile/large.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static td_service service;
static td_sessions sessions;

static void ignore(void *arg)
{
    (void)arg;
}

/* Two pages of memory, to be imported. */
static int descriptor(bool sealed)
{
    static int fds[2] = {-1, -1};
    if (fds[sealed] < 0) {
        fds[sealed] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (ftruncate(fds[sealed], 8192) || (sealed && fcntl(fds[1], F_ADD_SEALS, F_SEAL_SHRINK))) abort();
    }
    return fcntl(fds[sealed], F_DUPFD_CLOEXEC, 3);
}

/* Open ones, but for those of segments. */
static int descriptors_of_others(void)
{
    int n = 0;
    for (int fd = 0; fd < 200; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n - 2 * (int)service.budget.segments;
}

static bool frame(td_session *s, unsigned kind, const uint8_t *payload, size_t n, int fd)
{
    td_frame f = {.kind = kind, .payload = payload, .bytes = (uint32_t)n, .fd = fd};
    td_error e = {0};
    int rc = td_session_frame(s, &f, &e);
    if (f.fd >= 0) close(f.fd); /* not taken */
    if (rc) return false;
    for (int turns = 0; turns < 200; turns++) {
        td_run r = td_session_run(s, 64, &e);
        td_sched_collect(service.sched, 1000);
        td_sessions_collected(&sessions);
        if (r == TD_RUN_IDLE) return true;
        if (r == TD_RUN_FATAL || r == TD_RUN_SUSPENDED || r == TD_RUN_STALLED) return false;
    }
    return false;
}

static bool words(td_session *s, const uint32_t *w, size_t n, const void *data, size_t ndata)
{
    Td__Wire__Batch b;
    td__wire__batch__init(&b);
    b.words = (uint32_t *)w;
    b.n_words = n;
    b.data = (ProtobufCBinaryData){ndata, (uint8_t *)data};
    uint8_t *p = malloc(td__wire__batch__get_packed_size(&b) + 1);
    bool ok = frame(s, TD_FRAME_BATCH, p, td__wire__batch__pack(&b, p), -1);
    free(p);
    return ok;
}

/* A view of a few bytes may have any number of elements, and an op on it may take days: that is its client's affair.
 * Here it fails instead, or the fuzzer would take it for a hang. */
static void submit(td_issuer *who, td_call *c)
{
    static const double MOST_NS = 2e8; /* of an optimised build; a sanitizer's takes ten times as long */
    if (!c->cause && c->k.cost_ns > MOST_NS)
        c->cause = td_cause_new(&(td_error){.code = TD_E_UNSUPPORTED, .message = "too much work for a fuzzer"});
    td_sched_submit(who->scheduler, c);
}

static void add_tensors(td_session *s)
{
    static const struct {
        uint8_t dtype, ndim;
        uint32_t shape[3];
    } kinds[6] = {{TD_FLOAT32, 2, {3, 4}}, {TD_FLOAT64, 1, {4}},       {TD_INT64, 1, {3}},
                  {TD_BOOL, 2, {3, 4}},    {TD_FLOAT32, 3, {2, 3, 4}}, {TD_COMPLEX64, 0, {0}}};
    static const uint8_t bytes[512] = {0};
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t rest[10] = {kinds[i].dtype | (uint32_t)kinds[i].ndim << 8}, out = i + 1;
        for (int k = 0; k < kinds[i].ndim; k++) rest[1 + 2 * k] = kinds[i].shape[k];
        td_words w = {0};
        td_words_control(&w, TD_REC_DATA, 0, 0, 0, NULL, 1, &out, 2 + 2 * kinds[i].ndim, rest, NULL);
        words(s, w.at, w.count, bytes, sizeof bytes);
        td_words_deinit(&w);
    }
    td_words w = {0};
    large_tensor(&w, 7, 0, TD_FLOAT32, 4, (int64_t[]){32, 8, 7, 7});
    large_tensor(&w, 9, 8, TD_FLOAT32, 2, (int64_t[]){large_rows(3, 40), 40});
    words(s, w.at, w.count, bytes, sizeof bytes);
    td_words_deinit(&w);
}

static void drop_name(const td_name *n, void *arg)
{
    (void)arg;
    td_name_drop(&service, n->name, NULL, NULL);
}

static void begin(void)
{
    td_service_options o = {.memory = 64 << 20, .workers = 0, .session_bytes = 16 << 20, .session_objects = 10000};
    td_error e = {0};
    td_cpu_init();
    td_cpu_thread_init();
    if (td_service_init(&service, &o, &e)) abort();
    td_sessions_init(&sessions, &service);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!service.sched) begin();
    if (size > 20000) return 0;
    close(descriptor(true)), close(descriptor(false)); /* both are there from now on */
    int descriptors = descriptors_of_others();
    td_live before = td_live_counts();
    uint64_t used = service.budget.used, nodes = td_autograd_nodes();
    td_writer writer;
    td_writer_init(&writer);
    td_session_io io = {.writer = &writer, .wrote = ignore, .resume = ignore};
    static const uint8_t hello[] = {1 << 3, TD_PROTOCOL};
    td_frame f = {.kind = TD_FRAME_HELLO, .payload = hello, .bytes = sizeof hello, .fd = -1};
    td_session *s = NULL;
    td_error e = {0};
    if (td_session_new(&s, &sessions, &io, &(td_peer_id){0, 1}, &f, &e)) abort();
    s->issuer.submit = submit;
    add_tensors(s);
    for (size_t at = 0; at + 3 <= size;) {
        unsigned kind = data[at], n = data[at + 1] | (unsigned)data[at + 2] << 8;
        at += 3;
        if (n > size - at) n = (unsigned)(size - at);
        uint32_t *copy = malloc(n + 4);
        memcpy(copy, data + at, n);
        int fd = kind % 2 && kind & 8 ? descriptor(kind & 4) : -1;
        bool ok = kind % 2 ? frame(s, TD_FRAME_CALL, (const uint8_t *)copy, n, fd) : words(s, copy, n / 4, data, size);
        free(copy);
        at += n;
        if (!ok) break;
    }
    td_session_end(s, false);
    td_queues_clear(&service); /* they keep what nobody has come for yet */
    td_sched_drain(service.sched);
    while (td_sessions_clear(&sessions, INT_MAX)) {
    }
    td_writer_deinit(&writer);
    td_name_each(&service, UINT32_MAX, drop_name, NULL); /* names outlive sessions: that is their point */
    td_live after = td_live_counts();
    assert(after.tensors == before.tensors && after.storages == before.storages && after.causes == before.causes);
    assert(descriptors_of_others() == descriptors);
    assert(service.budget.used == used && td_autograd_nodes() == nodes && sessions.count == 0 && !service.queues);
    return 0;
}
