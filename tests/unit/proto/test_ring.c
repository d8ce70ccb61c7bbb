/* The ring: bytes come out as they went in, whatever the pieces; a side that sleeps is told; nonsense is refused;
 * frames and their descriptors keep their order when a connection moves to it. */
#define _GNU_SOURCE_
#include "proto/base/clock.h"
#include "proto/base/patience.h"
#include "proto/wire/frame.h"
#include "tests/unit/cunit_main.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static td_ring_memory *new_memory(void)
{
    td_ring_memory *m = aligned_alloc(64, (sizeof *m + 63) / 64 * 64);
    memset((void *)m, 0xee, sizeof *m);
    td_ring_clear(m);
    return m;
}

static uint8_t byte_at(uint64_t i)
{
    return (uint8_t)(i * 2654435761u >> 13);
}

/* Pieces of many sizes, positions that pass 2^32. */
static void in_pieces(void)
{
    td_ring_memory *m = new_memory();
    td_ring a, b;
    td_ring_init(&a, m, false);
    td_ring_init(&b, m, true);
    uint32_t start = UINT32_MAX - 100000;
    a.head = b.tail = start;
    atomic_store(&m->ends[0].head, start);
    atomic_store(&m->ends[0].tail, start);
    uint64_t put = 0, got = 0;
    unsigned seed = 7;
    uint8_t piece[50000];
    for (int i = 0; i < 3000; i++) {
        size_t n = (size_t)rand_r(&seed) % (i % 7 ? 3000 : sizeof piece);
        for (size_t k = 0; k < n; k++) piece[k] = byte_at(put + k);
        long wrote = td_ring_write(&a, piece, n);
        CU_ASSERT_TRUE_FATAL(wrote >= 0 && (size_t)wrote <= n);
        put += (uint64_t)wrote;
        CU_ASSERT_EQUAL_FATAL(td_ring_readable(&b), put > got);
        long read = td_ring_read(&b, piece, (size_t)rand_r(&seed) % 4000);
        CU_ASSERT_TRUE_FATAL(read >= 0);
        for (long k = 0; k < read; k++) CU_ASSERT_EQUAL_FATAL(piece[k], byte_at(got + (uint64_t)k));
        got += (uint64_t)read;
        CU_ASSERT_TRUE_FATAL(put - got <= TD_RING_PIPE);
    }
    CU_ASSERT_TRUE(put > 1000000);
    free(m);
}

static void full_and_empty(void)
{
    td_ring_memory *m = new_memory();
    td_ring a, b;
    td_ring_init(&a, m, false);
    td_ring_init(&b, m, true);
    static uint8_t bytes[TD_RING_PIPE + 10];
    CU_ASSERT_EQUAL(td_ring_read(&b, bytes, 10), 0);
    CU_ASSERT_TRUE(td_ring_writable(&a));
    CU_ASSERT_EQUAL(td_ring_write(&a, bytes, sizeof bytes), TD_RING_PIPE);
    CU_ASSERT_FALSE(td_ring_writable(&a));
    CU_ASSERT_EQUAL(td_ring_write(&a, bytes, 1), 0);
    CU_ASSERT_EQUAL(td_ring_read(&b, bytes, 1), 1);
    CU_ASSERT_TRUE(td_ring_writable(&a));
    CU_ASSERT_EQUAL(td_ring_write(&a, bytes, 5), 1);
    free(m);
}

/* Each sleep is told once, and nobody who is awake. */
static void bells(void)
{
    td_ring_memory *m = new_memory();
    td_ring a, b;
    td_ring_init(&a, m, false);
    td_ring_init(&b, m, true);
    uint8_t x = 1;
    td_ring_write(&a, &x, 1);
    CU_ASSERT_FALSE(td_ring_frees_reader(&a));
    td_ring_sleep(&b);
    CU_ASSERT_TRUE(td_ring_frees_reader(&a));
    CU_ASSERT_FALSE(td_ring_frees_reader(&a)); /* the same sleep */
    td_ring_wake(&b);
    CU_ASSERT_FALSE(td_ring_frees_reader(&a));
    td_ring_sleep(&b);
    CU_ASSERT_TRUE(td_ring_frees_reader(&a));
    CU_ASSERT_FALSE(td_ring_frees_writer(&b));
    td_ring_want_room(&a);
    CU_ASSERT_TRUE(td_ring_frees_writer(&b));
    CU_ASSERT_FALSE(td_ring_frees_writer(&b));
    td_ring_have_room(&a);
    td_ring_want_room(&a);
    CU_ASSERT_TRUE(td_ring_frees_writer(&b));
    free(m);
}

/* A bell may be for room, or bytes, that are used up before one says that one waits: the next wait is rung for, too. */
static void late_bells(void)
{
    static uint8_t bytes[TD_RING_PIPE];
    td_ring_memory *m = new_memory();
    td_ring a, b;
    td_ring_init(&a, m, false);
    td_ring_init(&b, m, true);
    CU_ASSERT_EQUAL(td_ring_write(&a, bytes, sizeof bytes), sizeof bytes);
    CU_ASSERT_EQUAL(td_ring_read(&b, bytes, 100), 100); /* before `b` looks who waits, `a` has used that room up */
    CU_ASSERT_EQUAL(td_ring_write(&a, bytes, 200), 100);
    td_ring_want_room(&a);
    CU_ASSERT_TRUE(td_ring_frees_writer(&b));
    CU_ASSERT_EQUAL(td_ring_write(&a, bytes, 100), 0);
    td_ring_want_room(&a);
    CU_ASSERT_EQUAL(td_ring_read(&b, bytes, sizeof bytes), sizeof bytes);
    CU_ASSERT_TRUE(td_ring_frees_writer(&b));
    td_ring_have_room(&a);

    CU_ASSERT_EQUAL(td_ring_write(&a, bytes, 100), 100); /* and the other way */
    CU_ASSERT_EQUAL(td_ring_read(&b, bytes, sizeof bytes), 100);
    td_ring_sleep(&b);
    CU_ASSERT_TRUE(td_ring_frees_reader(&a));
    td_ring_sleep(&b);
    CU_ASSERT_EQUAL(td_ring_write(&a, bytes, 100), 100);
    CU_ASSERT_TRUE(td_ring_frees_reader(&a));
    free(m);
}

static void impossible_positions(void)
{
    static const uint32_t far[] = {TD_RING_PIPE + 1, UINT32_MAX, UINT32_C(1) << 31}; /* ahead of where it can be */
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        td_ring_memory *m = new_memory();
        td_ring b;
        td_ring_init(&b, m, true);
        atomic_store(&m->ends[0].head, far[i]);
        CU_ASSERT_EQUAL(td_ring_read(&b, bytes, sizeof bytes), -1);
        atomic_store(&m->ends[1].tail, 0u - far[i]);
        CU_ASSERT_EQUAL(td_ring_write(&b, bytes, sizeof bytes), -1);
        free(m);
    }
}

/* ---- frames */

typedef struct side {
    td_ring ring;
    td_reader reader;
    td_writer writer;
    int socket;
    uint64_t waits;
} side;

static void new_sides(side *client, side *daemon, td_ring_memory *m)
{
    int s[2];
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
    side *both[2] = {client, daemon};
    for (int i = 0; i < 2; i++) {
        td_reader_init(&both[i]->reader, i == 0);
        td_writer_init(&both[i]->writer);
        td_ring_init(&both[i]->ring, m, i == 1);
        both[i]->socket = s[i];
        both[i]->waits = 0;
    }
}

static void free_side(side *x)
{
    td_reader_deinit(&x->reader);
    td_writer_deinit(&x->writer);
    close(x->socket);
}

static void put(side *x, uint32_t number, size_t bytes, int fd)
{
    uint8_t *p = td_writer_begin(&x->writer, bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    memset(p, (int)(number & 0xff), bytes);
    CU_ASSERT_EQUAL_FATAL(td_writer_end(&x->writer, bytes, number, fd), 0);
}

static bool take(side *x, uint32_t number, size_t bytes, int *fd)
{
    td_error e = {0};
    td_frame f;
    int got;
    while ((got = td_reader_next(&x->reader, &f, &e)) == 0)
        if (td_reader_fill(&x->reader, x->socket, true, &e) <= 0) break;
    if (got <= 0) {
        printf("\n    frame %u: %s\n", number, got < 0 ? e.message : "nothing");
        return false;
    }
    bool same = f.kind == number && f.bytes == bytes;
    for (uint32_t i = 0; i < f.bytes && same; i++) same = f.payload[i] == (uint8_t)number;
    *fd = f.fd;
    f.fd = -1;
    return same;
}

static int numbered_file(int number)
{
    int fd = memfd_create("ring", MFD_CLOEXEC);
    CU_ASSERT_EQUAL_FATAL(ftruncate(fd, number), 0);
    return fd;
}

/* Frames before and behind the change, each third with a descriptor, some larger than the ring. */
static void moving_over(void)
{
    td_ring_memory *m = new_memory();
    side c, d;
    new_sides(&c, &d, m);
    put(&d, 1, 10, -1);
    put(&d, 2, 2000, numbered_file(2));
    td_writer_use_ring(&d.writer, &d.ring);
    int fd, sent = 0;
    struct stat st;
    for (uint32_t i = 1; i < 60; i++) {
        size_t bytes = i == 1 ? 10 : i == 2 ? 2000 : i % 10 == 0 ? 2 * TD_RING_PIPE + i : i * 37;
        if (i > 2) put(&d, i, bytes, i % 3 == 0 ? numbered_file((int)i) : -1);
        int rc = td_writer_flush(&d.writer, d.socket, true, &sent);
        CU_ASSERT_TRUE_FATAL(rc >= 0);
        if (i == 3) td_reader_use_ring(&c.reader, &c.ring, c.socket);
        while (rc == 1 && bytes > TD_RING_PIPE) { /* the reader makes room, and rings for it */
            td_error e;
            CU_ASSERT_TRUE_FATAL(td_reader_fill(&c.reader, c.socket, true, &e) > 0);
            struct pollfd p = {d.socket, POLLIN, 0};
            CU_ASSERT_EQUAL_FATAL(poll(&p, 1, 1000), 1);
            uint8_t bell[16];
            CU_ASSERT_TRUE(recv(d.socket, bell, sizeof bell, 0) > 0);
            rc = td_writer_flush(&d.writer, d.socket, true, &sent);
        }
        CU_ASSERT_EQUAL(rc, 0);
        CU_ASSERT_TRUE_FATAL(take(&c, i, bytes, &fd));
        CU_ASSERT_EQUAL(fd >= 0, i % 3 == 0 || i == 2);
        if (fd < 0) continue;
        CU_ASSERT_TRUE(fstat(fd, &st) == 0 && st.st_size == i);
        close(fd);
    }
    CU_ASSERT_EQUAL(sent, 20);
    free_side(&c);
    free_side(&d);
    free(m);
}

/* Bells are taken off the socket; a descriptor that came among them waits for its frame. */
static void bells_and_descriptors(void)
{
    td_ring_memory *m = new_memory();
    side c, d;
    td_error e;
    new_sides(&c, &d, m);
    td_writer_use_ring(&d.writer, &d.ring);
    td_reader_use_ring(&c.reader, &c.ring, c.socket);
    CU_ASSERT_EQUAL(td_reader_bells(&c.reader, &e), -EAGAIN);
    CU_ASSERT_EQUAL(send(d.socket, "abc", 3, 0), 3);
    put(&d, 5, 100, numbered_file(5));
    CU_ASSERT_EQUAL(td_writer_flush(&d.writer, d.socket, true, NULL), 0);
    while (td_reader_bells(&c.reader, &e) > 0) continue;
    CU_ASSERT_TRUE(c.reader.fd_received >= 0);
    int fd = -1;
    CU_ASSERT_TRUE(take(&c, 5, 100, &fd));
    CU_ASSERT_TRUE(fd >= 0);
    close(fd);
    close(d.socket);
    d.socket = -1;
    CU_ASSERT_EQUAL(td_reader_bells(&c.reader, &e), 0);
    free_side(&c);
    free_side(&d);
    free(m);
}

/* Frames with a descriptor each that are read at once: the descriptors, which are on the socket, each come to their
 * own. */
static void descriptors_in_one_read(void)
{
    td_ring_memory *m = new_memory();
    side c, d;
    td_error e;
    struct stat st;
    int fd = -1, sent = 0;
    new_sides(&c, &d, m);
    td_writer_use_ring(&d.writer, &d.ring);
    td_reader_use_ring(&c.reader, &c.ring, c.socket);
    for (uint32_t i = 1; i < 4; i++) put(&d, i, 100, numbered_file((int)i));
    CU_ASSERT_EQUAL(td_writer_flush(&d.writer, d.socket, true, &sent), 0);
    CU_ASSERT_EQUAL(sent, 3);
    CU_ASSERT_EQUAL(td_reader_fill(&c.reader, c.socket, true, &e), 3 * (TD_FRAME_HEADER + 100));
    for (uint32_t i = 1; i < 4; i++) {
        CU_ASSERT_TRUE_FATAL(take(&c, i, 100, &fd));
        CU_ASSERT_TRUE(fstat(fd, &st) == 0 && st.st_size == i);
        close(fd);
    }
    CU_ASSERT_FALSE(td_reader_expects(&c.reader));
    put(&d, 4, 100, numbered_file(4)); /* one that came before its frame: until that is here, no bell is read */
    CU_ASSERT_EQUAL(td_writer_flush(&d.writer, d.socket, true, &sent), 0);
    CU_ASSERT_TRUE(td_reader_bells(&c.reader, &e) > 0);
    CU_ASSERT_TRUE(td_reader_expects(&c.reader));
    CU_ASSERT_TRUE_FATAL(take(&c, 4, 100, &fd));
    CU_ASSERT_TRUE(fstat(fd, &st) == 0 && st.st_size == 4);
    CU_ASSERT_FALSE(td_reader_expects(&c.reader));
    close(fd);
    free_side(&c);
    free_side(&d);
    free(m);
}

/* From a socket the rest of a frame with a descriptor may be read together with the first byte of another. */
static void descriptors_behind_each_other(void)
{
    td_ring_memory *m = new_memory();
    side c, d;
    int fd = -1;
    struct stat st;
    td_error e;
    new_sides(&c, &d, m);
    put(&d, 1, 200000, -1); /* the reader has room for more than one frame from then on */
    while (td_writer_flush(&d.writer, d.socket, true, NULL) == 1)
        CU_ASSERT_TRUE_FATAL(td_reader_fill(&c.reader, c.socket, true, &e) > 0);
    CU_ASSERT_TRUE(take(&c, 1, 200000, &fd));
    for (uint32_t i = 2; i < 5; i++) put(&d, i, i == 2 ? 150000 : 100, numbered_file((int)i));
    for (int tries = 0; td_writer_flush(&d.writer, d.socket, true, NULL) == 1 && tries < 10;) tries++;
    CU_ASSERT_EQUAL(td_writer_pending(&d.writer), 0);
    for (uint32_t i = 2; i < 5; i++) {
        CU_ASSERT_TRUE_FATAL(take(&c, i, i == 2 ? 150000 : 100, &fd));
        CU_ASSERT_TRUE(fstat(fd, &st) == 0 && st.st_size == i);
        close(fd);
    }
    free_side(&c);
    free_side(&d);
    free(m);
}

/* A socket that systemd gave the daemon may be one that says with each message who sent it (PassCredentials=). */
static void descriptors_with_credentials(void)
{
    td_ring_memory *m = new_memory();
    side c, d;
    int fd = -1, on = 1;
    struct stat st;
    new_sides(&c, &d, m);
    CU_ASSERT_EQUAL(setsockopt(c.socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    for (uint32_t i = 1; i <= 3; i++) put(&d, i, 100, i == 2 ? -1 : numbered_file((int)i));
    CU_ASSERT_EQUAL(td_writer_flush(&d.writer, d.socket, true, NULL), 0);
    for (uint32_t i = 1; i <= 3; i++) {
        CU_ASSERT_TRUE_FATAL(take(&c, i, 100, &fd));
        CU_ASSERT_TRUE(i == 2 ? fd == -1 : fstat(fd, &st) == 0 && st.st_size == i);
        if (fd >= 0) close(fd);
    }
    free_side(&c);
    free_side(&d);
    free(m);
}

/* Who may send so many descriptors, and no more: one in each turn, or none. Frames without one go ahead of the first.
 */
static void one_descriptor_a_turn(void)
{
    for (int ring = 0; ring < 2; ring++) {
        td_ring_memory *m = new_memory();
        side c, d;
        int fd = -1, sent = 0;
        new_sides(&c, &d, m);
        if (ring) {
            td_writer_use_ring(&d.writer, &d.ring);
            td_reader_use_ring(&c.reader, &c.ring, c.socket);
        }
        for (uint32_t i = 1; i < 6; i++) put(&d, i, 100, i == 2 || i > 3 ? numbered_file((int)i) : -1);
        size_t whole = td_writer_pending(&d.writer), frame = whole / 5;
        for (int i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL(td_writer_flush_some(&d.writer, d.socket, false, &sent), 3);
            CU_ASSERT_EQUAL(td_writer_pending(&d.writer), whole - frame);
        }
        CU_ASSERT_EQUAL(sent, 0);
        CU_ASSERT_EQUAL(td_writer_flush_some(&d.writer, d.socket, true, &sent), 3); /* the second, and the third */
        CU_ASSERT_TRUE(sent == 1 && td_writer_pending(&d.writer) == 2 * frame);
        CU_ASSERT_EQUAL(td_writer_flush_some(&d.writer, d.socket, true, &sent), 3);
        CU_ASSERT_TRUE(sent == 2 && td_writer_pending(&d.writer) == frame);
        CU_ASSERT_EQUAL(td_writer_flush_some(&d.writer, d.socket, true, &sent), 0);
        CU_ASSERT_TRUE(sent == 3 && td_writer_pending(&d.writer) == 0);
        for (uint32_t i = 1; i < 6; i++) {
            CU_ASSERT_TRUE_FATAL(take(&c, i, 100, &fd));
            if (fd >= 0) close(fd);
        }
        free_side(&c);
        free_side(&d);
        free(m);
    }
}

/* What is put quietly is there for who looks; who sleeps is told of it with what follows aloud. */
static void quietly(void)
{
    td_ring_memory *m = new_memory();
    side c, d;
    new_sides(&c, &d, m);
    put(&d, 1, 50, -1);
    td_writer_flush_quietly(&d.writer); /* on a socket it waits for a flush */
    CU_ASSERT_TRUE(td_writer_pending(&d.writer) > 0);
    CU_ASSERT_EQUAL(td_writer_flush(&d.writer, d.socket, true, NULL), 0);
    td_writer_use_ring(&d.writer, &d.ring);
    int fd = -1;
    CU_ASSERT_TRUE_FATAL(take(&c, 1, 50, &fd));
    td_reader_use_ring(&c.reader, &c.ring, c.socket);

    struct pollfd p = {c.socket, POLLIN, 0};
    td_ring_sleep(&c.ring);
    put(&d, 2, 100, -1);
    td_writer_flush_quietly(&d.writer);
    CU_ASSERT_EQUAL(td_writer_pending(&d.writer), 0);
    CU_ASSERT_TRUE(td_ring_readable(&c.ring));
    CU_ASSERT_EQUAL(poll(&p, 1, 0), 0);
    put(&d, 3, 100, -1);
    CU_ASSERT_EQUAL(td_writer_flush(&d.writer, d.socket, true, NULL), 0);
    CU_ASSERT_EQUAL(poll(&p, 1, 0), 1);
    uint8_t bell;
    CU_ASSERT_EQUAL(recv(c.socket, &bell, 1, MSG_DONTWAIT), 1);
    CU_ASSERT_EQUAL(poll(&p, 1, 0), 0);
    td_ring_wake(&c.ring);
    CU_ASSERT_TRUE(take(&c, 2, 100, &fd) && take(&c, 3, 100, &fd));

    put(&d, 4, TD_RING_PIPE, -1); /* more than there is room for: the rest waits for a flush */
    td_writer_flush_quietly(&d.writer);
    CU_ASSERT_TRUE(td_writer_pending(&d.writer) > 0);
    put(&d, 5, 100, numbered_file(5)); /* with a descriptor, too */
    td_writer_flush_quietly(&d.writer);
    CU_ASSERT_EQUAL(poll(&p, 1, 0), 0); /* neither a bell nor the descriptor */
    free_side(&c);
    free_side(&d);
    free(m);
}

/* ---- two threads that sleep: nothing is lost, nobody waits for ever */

enum { STREAM = 4 << 20 };

static void wait_for_bell(side *x)
{
    struct pollfd p = {x->socket, POLLIN, 0};
    uint8_t bell[64];
    x->waits++;
    int n = poll(&p, 1, 10000);
    if (n != 1 || recv(x->socket, bell, sizeof bell, 0) <= 0) {
        fprintf(stderr, "no bell within ten seconds\n");
        abort();
    }
}

static void *writes(void *arg)
{
    side *x = arg;
    unsigned seed = 3;
    uint8_t piece[9000];
    for (uint64_t at = 0; at < STREAM;) {
        size_t n = 1 + (size_t)rand_r(&seed) % sizeof piece;
        if (n > STREAM - at) n = STREAM - at;
        for (size_t k = 0; k < n; k++) piece[k] = byte_at(at + k);
        for (size_t done = 0; done < n;) {
            long put = td_ring_write(&x->ring, piece + done, n - done);
            if (put > 0) {
                td_ring_have_room(&x->ring);
                if (td_ring_frees_reader(&x->ring)) send(x->socket, "", 1, MSG_NOSIGNAL);
                done += (size_t)put;
                continue;
            }
            td_ring_want_room(&x->ring);
            if (!td_ring_writable(&x->ring)) wait_for_bell(x);
        }
        at += n;
    }
    return NULL;
}

static void sleepers(void)
{
    td_ring_memory *m = new_memory();
    side c, d;
    new_sides(&c, &d, m);
    pthread_t t;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, writes, &c), 0);
    unsigned seed = 4;
    uint64_t got = 0, wrong = 0;
    uint8_t piece[5000];
    while (got < STREAM) {
        long n = td_ring_read(&d.ring, piece, 1 + (size_t)rand_r(&seed) % sizeof piece);
        if (n > 0) {
            if (td_ring_frees_writer(&d.ring)) send(d.socket, "", 1, MSG_NOSIGNAL);
            for (long k = 0; k < n; k++) wrong += piece[k] != byte_at(got + (uint64_t)k);
            got += (uint64_t)n;
            continue;
        }
        td_ring_sleep(&d.ring);
        if (!td_ring_readable(&d.ring)) wait_for_bell(&d);
        td_ring_wake(&d.ring);
    }
    pthread_join(t, NULL);
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_TRUE(c.waits + d.waits > 0); /* whoever is the slower one never waits */
    free_side(&c);
    free_side(&d);
    free(m);
}

/* Who waits looks first where answers come quickly; where half of them come late it sleeps at once. */
static bool at_once(void *arg)
{
    (void)arg;
    return true;
}

static void patience(void)
{
    enum { QUICK = 10000, LATE = 150000, SOME = 20 };
    td_patience p = {0};
    for (int i = 0; i < SOME; i++) td_patience_took(&p, i % 3 ? QUICK : LATE);
    CU_ASSERT_TRUE(td_patience_has(&p, 1));
    for (int i = 0; i < SOME; i++) td_patience_took(&p, i % 2 ? QUICK : LATE);
    CU_ASSERT_FALSE(td_patience_has(&p, 1));
    for (int i = 0; i < SOME; i++) td_patience_took(&p, QUICK);
    CU_ASSERT_TRUE(td_patience_has(&p, 1));
    for (int i = 0; i < SOME; i++) td_patience_took(&p, LATE);
    CU_ASSERT_FALSE(td_patience_has(&p, 1));
    for (int i = 0; i < SOME; i++)
        CU_ASSERT_TRUE(td_patience_look(&p, 0, at_once, NULL)); /* what looking finds is quick */
    CU_ASSERT_TRUE(td_patience_has(&p, 1));
    for (int i = 0; i < SOME; i++) td_patience_took(&p, LATE);
    CU_ASSERT_FALSE(td_patience_has(&p, 1));
    for (int i = 0; i < SOME; i++) td_patience_woke(&p, 100000); /* where wake-ups cost more, it is looked for longer */
    CU_ASSERT_EQUAL(td_patience_ns(&p), 200000);
    for (int i = 0; i < SOME; i++) td_patience_took(&p, LATE);
    CU_ASSERT_TRUE(td_patience_has(&p, 1));
    for (int i = 0; i < SOME; i++) td_patience_woke(&p, 5000);
    CU_ASSERT_EQUAL(td_patience_ns(&p), 50000);
}

/* A bell says when it was rung; what cannot be is not believed. */
static void rung(void)
{
    td_ring_memory *m = new_memory();
    td_ring c, d;
    td_ring_clear(m);
    td_ring_init(&c, m, false);
    td_ring_init(&d, m, true);
    uint64_t before = td_clock_ns();
    CU_ASSERT_EQUAL(td_ring_rang(&d, before, before + 5), before + 5); /* none was */
    td_ring_sleep(&d);
    CU_ASSERT_EQUAL(td_ring_write(&c, "x", 1), 1);
    CU_ASSERT_TRUE(td_ring_frees_reader(&c));
    uint64_t after = td_clock_ns() + 1, rang = td_ring_rang(&d, before - 1, after);
    CU_ASSERT_TRUE(rang >= before && rang < after);
    CU_ASSERT_FALSE(td_ring_frees_reader(&c)); /* nor is it rung again */
    CU_ASSERT_EQUAL(td_ring_rang(&d, after, after + 9), after + 9);
    m->ends[0].rang = UINT64_MAX;
    CU_ASSERT_EQUAL(td_ring_rang(&d, before, after), after);
    free(m);
}

TD_CUNIT_MAIN("proto_ring", {"bytes in pieces", in_pieces}, {"full and empty", full_and_empty},
              {"each sleep is told once", bells}, {"bells that come late", late_bells},
              {"impossible positions", impossible_positions}, {"frames move over in order", moving_over},
              {"bells and descriptors", bells_and_descriptors}, {"descriptors in one read", descriptors_in_one_read},
              {"descriptors behind each other", descriptors_behind_each_other},
              {"descriptors with credentials", descriptors_with_credentials},
              {"one descriptor a turn", one_descriptor_a_turn}, {"quietly", quietly},
              {"two threads that sleep", sleepers}, {"when to look", patience}, {"when it was rung", rung})
