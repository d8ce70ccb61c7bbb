/* Rings in the hands of clients without manners: wrong leases, impossible positions, bells without end, readers that
 * never read, ends in the middle. The same counts before and after as in test_hostile.c. */
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/hostile/ringer.h"
#include "tests/unit/cunit_main.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static int start(void)
{
    return counted_start("64M", "2");
}

static void send_status(ringer *x, uint64_t serial)
{
    Td__Wire__Status status = TD__WIRE__STATUS__INIT;
    status.what = (char *)"status";
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.status = &status;
    send_call(x, &call, serial);
}

/* Does the answer with this serial come through the ring, before nothing has come for long? */
static bool answered(ringer *x, uint64_t serial)
{
    td_error e;
    td_frame f;
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; test_now_ms() < until;) {
        int got = td_reader_next(&x->r.reader, &f, &e);
        td_writer_flush(&x->writer, x->r.fd, true, NULL);
        if (got < 0) return false;
        if (got > 0 && f.fd >= 0) close(f.fd);
        if (got > 0) until = test_now_ms() + TEST_LONG_MS;
        if (got > 0 && f.kind == TD_FRAME_REPLY) {
            td_arena_reset(&x->r.arena);
            Td__Wire__Reply *r = td__wire__reply__unpack(&x->r.arena.allocator, f.bytes, f.payload);
            if (r && r->serial == serial) return true;
        } else if (td_reader_fill(&x->r.reader, x->r.fd, true, &e) == -EAGAIN) {
            test_sleep_ms(1);
        }
    }
    return false;
}

static void wrong_leases(void)
{
    ringer x;
    ringer_open(&x, sizeof(td_ring_memory) - 1);
    CU_ASSERT_EQUAL(ask_ring(&x, x.lease), TD_E_INVALID);
    CU_ASSERT_EQUAL(ask_ring(&x, x.lease + 1), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(ask_ring(&x, 0), TD_E_NOT_FOUND);
    CU_ASSERT_TRUE(raw_status(&x.r, "rings") == 0); /* and the socket still works */
    ringer_close(&x);
    back_to_normal();
}

static void works_and_is_counted(void)
{
    ringer x;
    raw other;
    ringer_open(&x, sizeof(td_ring_memory));
    to_ring(&x);
    for (uint64_t i = 1; i < 200; i++) {
        send_status(&x, i);
        CU_ASSERT_EQUAL_FATAL(td_writer_flush(&x.writer, x.r.fd, true, NULL), 0);
        CU_ASSERT_TRUE_FATAL(answered(&x, i));
    }
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    CU_ASSERT_EQUAL(raw_status(&other, "rings"), 1);
    raw_close(&other);
    ringer_close(&x);
    back_to_normal();
}

/* Its lease is no longer one: not to be dropped, put or made a ring again. */
static void lease_is_taken(void)
{
    ringer x;
    ringer_open(&x, sizeof(td_ring_memory));
    to_ring(&x);
    Td__Wire__LeaseDrop drop = TD__WIRE__LEASE_DROP__INIT;
    Td__Wire__Ring ring = TD__WIRE__RING__INIT;
    for (int i = 0; i < 2; i++) {
        Td__Wire__Call call = TD__WIRE__CALL__INIT;
        call.serial = (uint64_t)i + 1;
        drop.lease = ring.lease = x.lease;
        if (i) call.ring = &ring;
        else call.lease_drop = &drop;
        uint8_t *p = td_writer_begin(&x.writer, 256);
        td_writer_end(&x.writer, td__wire__call__pack(&call, p), TD_FRAME_CALL, -1);
        td_writer_flush(&x.writer, x.r.fd, true, NULL);
        CU_ASSERT_TRUE(answered(&x, (uint64_t)i + 1));
    }
    send_status(&x, 9);
    td_writer_flush(&x.writer, x.r.fd, true, NULL);
    CU_ASSERT_TRUE(answered(&x, 9));
    ringer_close(&x);
    back_to_normal();
}

static bool ended(ringer *x)
{
    uint8_t b[64];
    for (int i = 0; i < TEST_LONG_MS / 50; i++) {
        struct pollfd p = {x->r.fd, POLLIN, 0};
        if (poll(&p, 1, 50) == 1 && recv(x->r.fd, b, sizeof b, MSG_DONTWAIT) == 0) return true;
    }
    return false;
}

static void impossible_positions(void)
{
    static const uint32_t far[] = {TD_RING_PIPE + 1, UINT32_MAX, UINT32_C(1) << 31};
    for (size_t i = 0; i < 6; i++) {
        ringer x;
        ringer_open(&x, sizeof(td_ring_memory));
        to_ring(&x);
        if (i < 3) {
            atomic_store(&x.memory->ends[0].head, far[i]);
        } else { /* where it reads: seen with the next reply */
            atomic_store(&x.memory->ends[1].tail, 1 + (uint32_t)i);
            send_status(&x, 1);
            td_writer_flush(&x.writer, x.r.fd, true, NULL);
        }
        send(x.r.fd, "", 1, MSG_NOSIGNAL);
        CU_ASSERT_TRUE(ended(&x));
        ringer_close(&x);
    }
    back_to_normal();
}

/* All of the shared words rewritten at random while it works. */
static void words_at_random(void)
{
    unsigned seed = 5;
    for (int i = 0; i < 60; i++) {
        ringer x;
        ringer_open(&x, sizeof(td_ring_memory));
        to_ring(&x);
        for (int k = 0; k < 20; k++) {
            send_status(&x, (uint64_t)k + 1);
            td_writer_flush(&x.writer, x.r.fd, true, NULL);
            td_ring_ends *e = &x.memory->ends[rand_r(&seed) % 2];
            _Atomic uint32_t *words[] = {&e->head, &e->full, &e->tail, &e->asleep};
            atomic_store(words[rand_r(&seed) % 4], (uint32_t)rand_r(&seed) % (k % 2 ? 3000 : 70000));
            send(x.r.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        ringer_close(&x);
    }
    back_to_normal();
}

/* Frames of nonsense, larger than the ring or cut short, through the ring. */
static void bad_frames(void)
{
    for (int i = 0; i < 4; i++) {
        ringer x;
        ringer_open(&x, sizeof(td_ring_memory));
        to_ring(&x);
        uint8_t h[64];
        memset(h, 0xff, sizeof h);
        td_frame_put_header(h,
                            i == 0   ? TD_FRAME_MAX + 1
                            : i == 1 ? 48
                            : i == 2 ? 10
                                     : 1000,
                            i == 1 ? 99 : TD_FRAME_BATCH, i == 2);
        CU_ASSERT_EQUAL(td_ring_write(&x.ring, h, sizeof h), (long)sizeof h);
        send(x.r.fd, "", 1, MSG_NOSIGNAL);
        if (i < 3) CU_ASSERT_TRUE(ended(&x));
        ringer_close(&x); /* in the middle of a frame, the last time */
    }
    back_to_normal();
}

/* Bells without end, a descriptor among them. */
static void bell_ringer(void)
{
    ringer x;
    ringer_open(&x, sizeof(td_ring_memory));
    to_ring(&x);
    uint8_t bells[4096] = {0};
    for (int i = 0; i < 2000; i++) send(x.r.fd, bells, sizeof bells, MSG_NOSIGNAL | MSG_DONTWAIT);
    send_status(&x, 1);
    td_writer_flush(&x.writer, x.r.fd, true, NULL);
    CU_ASSERT_TRUE(answered(&x, 1));
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    raw_bytes_fds(&x.r, "x", 1, &fd, 1);
    close(fd);
    send_status(&x, 2);
    td_writer_flush(&x.writer, x.r.fd, true, NULL);
    test_sleep_ms(50);
    ringer_close(&x);
    back_to_normal();
}

/* Asks and never takes an answer: the daemon stops reading, holds no more than its buffers, and goes on for others. */
static void never_reads(void)
{
    ringer x;
    raw other;
    ringer_open(&x, sizeof(td_ring_memory));
    to_ring(&x);
    uint64_t sent = 0;
    for (int idle = 0; idle < 100 && sent < 200000;) {
        if (td_writer_pending(&x.writer) < 4096) send_status(&x, ++sent);
        if (td_writer_flush(&x.writer, x.r.fd, true, NULL) == 0) idle = 0;
        else test_sleep_ms(2), idle++;
    }
    CU_ASSERT_TRUE(sent < 200000); /* it was stopped */
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    CU_ASSERT_EQUAL(raw_status(&other, "rings"), 1);
    raw_close(&other);
    uint64_t last = sent;
    CU_ASSERT_TRUE(answered(&x, last - 1)); /* once it reads, everything comes */
    ringer_close(&x);
    back_to_normal();
}

/* What was written before the end is still worked off: the item is in the queue, the name is there. */
static void written_before_the_end(void)
{
    ringer x;
    raw other;
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    ringer_open(&x, sizeof(td_ring_memory));
    raw_zeros(&x.r, 1, 4);
    to_ring(&x);
    Td__Wire__Publish publish = TD__WIRE__PUBLISH__INIT;
    publish.name = (char *)"last-words";
    publish.id = 1;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.serial = 1;
    call.publish = &publish;
    uint8_t *p = td_writer_begin(&x.writer, 256);
    td_writer_end(&x.writer, td__wire__call__pack(&call, p), TD_FRAME_CALL, -1);
    td_writer_flush(&x.writer, x.r.fd, true, NULL);
    ringer_close(&x);
    Td__Wire__Open open = TD__WIRE__OPEN__INIT;
    open.name = (char *)"last-words";
    open.id = 1;
    open.timeout_ms = TEST_LONG_MS;
    call = (Td__Wire__Call)TD__WIRE__CALL__INIT;
    call.open = &open;
    Td__Wire__Reply *r = raw_ask(&other, &call);
    CU_ASSERT_TRUE(r && !(r->error && r->error->code));
    Td__Wire__Drop drop = TD__WIRE__DROP__INIT;
    drop.name = (char *)"last-words";
    call = (Td__Wire__Call)TD__WIRE__CALL__INIT;
    call.drop = &drop;
    raw_ask(&other, &call);
    raw_close(&other);
    back_to_normal();
}

/* Processor time that the daemon has used, in ticks. */
static long daemon_ticks(void)
{
    char path[64], line[1024];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)d.pid);
    FILE *f = fopen(path, "re");
    const char *p = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    if (f) fclose(f);
    if (!p || sscanf(p, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2) return -1;
    return (long)(user + system);
}

/* A descriptor whose frame never comes, and bells behind it: nothing to do is no reason to be busy. */
static void a_descriptor_without_its_frame(void)
{
    ringer x;
    ringer_open(&x, sizeof(td_ring_memory));
    to_ring(&x);
    Td__Wire__Import import = TD__WIRE__IMPORT__INIT;
    import.announce = true;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.serial = 7;
    call.import = &import;
    uint8_t *p = td_writer_begin(&x.writer, 256);
    td_writer_end(&x.writer, td__wire__call__pack(&call, p), TD_FRAME_CALL, -1);
    CU_ASSERT_TRUE(answered(&x, 7));
    int fd = memfd_create("x", MFD_CLOEXEC);
    CU_ASSERT_TRUE(raw_bytes_fds(&x.r, "", 1, &fd, 1));
    CU_ASSERT_TRUE(raw_bytes(&x.r, "bells", 5));
    test_sleep_ms(100);
    long before = daemon_ticks();
    test_sleep_ms(500);
    CU_ASSERT_TRUE(before >= 0 && daemon_ticks() - before < 20);
    send_status(&x, 8);
    CU_ASSERT_TRUE(answered(&x, 8)); /* it goes on all the same */
    close(fd);
    ringer_close(&x);
    back_to_normal();
}

/* More than a socket takes, less than what keeps a session from going on. */
enum { LONG_NOTE = 700 << 10 };

static void put_with_note(raw *r, size_t n, uint32_t *ids, size_t bytes)
{
    static uint8_t note[LONG_NOTE];
    Td__Wire__QueuePut put = TD__WIRE__QUEUE_PUT__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    put.queue = 1, put.n_ids = n, put.ids = ids, put.note = (ProtobufCBinaryData){bytes, note};
    call.queue_put = &put;
    CU_ASSERT_EQUAL_FATAL(queue_open(r, "long", 1, 1), TD_OK);
    CU_ASSERT_EQUAL_FATAL(ask(r, &call), TD_OK);
}

static void put_note(raw *r, size_t bytes)
{
    put_with_note(r, 0, NULL, bytes);
}

static void ask_for_note(raw *r)
{
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    get.queue = 1, call.queue_get = &get;
    CU_ASSERT_TRUE(raw_call(r, &call) != 0);
}

/* Until a frame is there, so slowly that the socket is full again after each part. */
static void read_slowly(raw *r)
{
    td_error e;
    struct pollfd p = {r->fd, POLLIN, 0};
    while (!td_reader_ready(&r->reader) && poll(&p, 1, TEST_LONG_MS) == 1) {
        test_sleep_ms(1);
        if (td_reader_fill(&r->reader, r->fd, true, &e) <= 0) break;
    }
}

static void take_note(raw *r, size_t bytes)
{
    read_slowly(r);
    const Td__Wire__Reply *reply = raw_reply(r, TEST_LONG_MS);
    CU_ASSERT_TRUE(reply && reply->item && reply->item->note.len == bytes);
}

static void ask_for_lease(ringer *x, uint64_t bytes, uint64_t serial)
{
    Td__Wire__Lease lease = TD__WIRE__LEASE__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    lease.bytes = bytes, call.lease = &lease;
    send_call(x, &call, serial);
    CU_ASSERT_EQUAL(td_writer_flush(&x->writer, x->r.fd, true, NULL), 0);
}

/* The socket is full of an answer when the ring begins: the rest goes through the socket, too, and so does a descriptor
 * whose frame is the first to go through the ring. Where the socket is full is a matter of the note's length. */
static void begins_behind_a_long_answer(size_t bytes)
{
    ringer x;
    ringer_open(&x, sizeof(td_ring_memory));
    put_note(&x.r, bytes);
    td_ring_clear(x.memory);
    ask_for_note(&x.r);
    Td__Wire__Ring ring = TD__WIRE__RING__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    ring.lease = x.lease, call.ring = &ring;
    CU_ASSERT_TRUE(raw_call(&x.r, &call) != 0);
    td_ring_init(&x.ring, x.memory, false);
    td_writer_use_ring(&x.writer, &x.ring);
    test_sleep_ms(10);
    ask_for_lease(&x, 24 << 20, 1000); /* of a segment of its own */
    test_sleep_ms(20);
    take_note(&x.r, bytes);
    read_slowly(&x.r);
    const Td__Wire__Reply *reply = raw_reply(&x.r, TEST_LONG_MS);
    CU_ASSERT_TRUE(reply && !reply->error && reply->serial == call.serial);
    td_reader_use_ring(&x.r.reader, &x.ring, x.r.fd);
    CU_ASSERT_TRUE(answered(&x, 1000));
    ringer_close(&x);
    back_to_normal();
}

static void begins_behind_long_answers(void)
{
#if defined(__SANITIZE_THREAD__) /* races need no more */
    enum { STEP = 45000 };
#else
    enum { STEP = 4500 };
#endif
    for (size_t bytes = 200 << 10; bytes < LONG_NOTE; bytes += STEP) begins_behind_a_long_answer(bytes);
    begins_behind_a_long_answer(LONG_NOTE);
}

static void lease_unread(raw *r, uint64_t bytes)
{
    Td__Wire__Lease lease = TD__WIRE__LEASE__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    lease.bytes = bytes, call.lease = &lease;
    CU_ASSERT_TRUE(raw_call(r, &call) != 0);
    test_sleep_ms(50);
}

/* What goes on at once is there in milliseconds, and what waits for something else to happen in seconds, each time. */
enum { SOON_MS = 2000, TRIES = 20 };

static void at_some_time(bool (*goes)(void))
{
    bool soon = false;
    for (int i = 0; i < TRIES && !soon; i++) soon = goes();
    CU_ASSERT_TRUE(soon);
}

/* One descriptor at a time is on its way, and nothing tells when it is read: what had to wait for that goes at once
 * then, however long it is, not when something else happens. */
static bool goes_behind_a_descriptor(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    put_note(&r, LONG_NOTE);
    lease_unread(&r, 64);       /* on its way */
    lease_unread(&r, 16 << 20); /* of another segment */
    ask_for_note(&r);
    test_sleep_ms(50);
    uint64_t from = test_now_ms();
    for (int i = 0; i < 2; i++) {
        const Td__Wire__Reply *reply = raw_reply(&r, TEST_LONG_MS);
        CU_ASSERT_TRUE(reply && reply->address && reply->address->descriptor);
    }
    take_note(&r, LONG_NOTE);
    bool soon = test_now_ms() - from < SOON_MS;
    raw_close(&r);
    back_to_normal();
    return soon;
}

static void behind_a_descriptor(void)
{
    at_some_time(goes_behind_a_descriptor);
}

/* A long answer with a descriptor, and another descriptor behind it: the first is not read before all of its answer is
 * there, so that must not wait for the socket to be read. */
static bool goes_behind_each_other(void)
{
    ringer x;
    td_words w = {0};
    ringer_open(&x, sizeof(td_ring_memory));
    full(&w, 1, 4 << 20, 0); /* 16 MB: of a segment of its own */
    uint32_t code;
    CU_ASSERT_TRUE_FATAL(send_all(&x.r, &w) && raw_sync(&x.r, &code)); /* or the get waits, and the lease is first */
    Td__Wire__QueueGet get = TD__WIRE__QUEUE_GET__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    uint32_t id = 1, to = 2;
    put_with_note(&x.r, 1, &id, LONG_NOTE);
    get.queue = 1, get.n_ids = 1, get.ids = &to, call.queue_get = &get;
    to_ring(&x);
    send_call(&x, &call, 2000);
    ask_for_lease(&x, 16 << 20, 2001);
    test_sleep_ms(50);
    uint64_t from = test_now_ms();
    CU_ASSERT_TRUE(answered(&x, 2000));
    CU_ASSERT_TRUE(answered(&x, 2001));
    bool soon = test_now_ms() - from < SOON_MS;
    ringer_close(&x);
    back_to_normal();
    return soon;
}

static void behind_each_other(void)
{
    at_some_time(goes_behind_each_other);
}

/* What is held up by a descriptor waits for that to be read, not for the socket, which may have room all the time. */
static void waits_for_a_descriptor(void)
{
    uint8_t some[8 << 10];
    int left = 0;
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    put_note(&r, LONG_NOTE);
    lease_unread(&r, 64);
    ask_for_note(&r); /* the socket is full */
    lease_unread(&r, 16 << 20);
    while (ioctl(r.fd, FIONREAD, &left) == 0 && left > 1) /* and has room, but one byte is not read */
        CU_ASSERT_TRUE_FATAL(recv(r.fd, some, left > (int)sizeof some ? sizeof some : (size_t)left - 1, 0) > 0);
    CU_ASSERT_EQUAL(left, 1);
    test_sleep_ms(50);
    long before = daemon_ticks();
    test_sleep_ms(500);
    CU_ASSERT_TRUE(before >= 0 && daemon_ticks() - before < 20);
    raw_close(&r);
    back_to_normal();
}

/* Do so many more bytes come than there are, though none of those is read? */
static bool more_than(raw *r, int there)
{
    int now = 0;
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; now <= there && test_now_ms() < until;) {
        if (ioctl(r->fd, FIONREAD, &now)) return false;
        if (now <= there) test_sleep_ms(1);
    }
    return now > there;
}

/* Behind an answer that is not read, but has no descriptor, the first descriptor comes. */
static void the_first_waits_for_nobody(void)
{
    raw r;
    int there = 0;
    Td__Wire__Status status = TD__WIRE__STATUS__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    call.status = &status;
    CU_ASSERT_TRUE(raw_call(&r, &call) != 0);
    CU_ASSERT_TRUE(more_than(&r, 0));
    test_sleep_ms(20); /* all of it */
    CU_ASSERT_EQUAL(ioctl(r.fd, FIONREAD, &there), 0);
    lease_unread(&r, 64);
    CU_ASSERT_TRUE(more_than(&r, there));
    raw_close(&r);
    back_to_normal();
}

TD_CUNIT_MAIN_WITH("rings", start, stop, {"wrong leases", wrong_leases},
                   {"it works and is counted", works_and_is_counted}, {"its lease is taken", lease_is_taken},
                   {"impossible positions", impossible_positions}, {"words at random", words_at_random},
                   {"bad frames", bad_frames}, {"bells without end", bell_ringer}, {"never reads", never_reads},
                   {"written before the end", written_before_the_end},
                   {"a descriptor without its frame", a_descriptor_without_its_frame},
                   {"it begins behind long answers", begins_behind_long_answers},
                   {"behind a descriptor", behind_a_descriptor}, {"behind each other", behind_each_other},
                   {"waits for a descriptor", waits_for_a_descriptor},
                   {"the first waits for nobody", the_first_waits_for_nobody})
