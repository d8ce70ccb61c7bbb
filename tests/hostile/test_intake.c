/* What connections may buffer: frames that come in parts, answers that nobody reads, frames that wait behind something
 * endless. It is counted, bounded for all together, and comes back; who sends and reads as one does goes on.
 *
 * The daemon of this suite may have little for it: a quarter of its own memory. One test starts a daemon in a memory
 * group and leaves all limits to it, where this process may make such a group. */
#include "proto/program/values.h"
#include "tests/hostile/cgroup.h"
#include "tests/hostile/counted.h"
#include "tests/hostile/packed.h"
#include "tests/hostile/requests.h"
#include "tests/hostile/ringer.h"
#include "tests/unit/cunit_main.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SENDERS = 37, READERS = 364, BUSY = 60, OWN_MB = 256, WIRE_MB = OWN_MB / 4, LARGE = 16 << 20 };

static int start(void)
{
    static const char *const options[] = {"--memory", "64M", "--workers", "1", "--own-memory", "256M", NULL};
    return test_daemon_start(&d, options) && raw_count(d.socket, base) ? 0 : 1;
}

/* What connections held is given back, whatever became of them. */
static void nothing_is_held(void)
{
    raw r;
    int64_t held = -1;
    uint64_t until = test_now_ms() + TEST_LONG_MS;
    while (test_now_ms() < until && (held < 0 || held > 100000)) {
        if (raw_open(&r, d.socket)) held = raw_status(&r, "bytes_of_connections");
        raw_close(&r);
        if (held < 0 || held > 100000) test_sleep_ms(20);
    }
    if (held < 0 || held > 100000) printf("\n    %lld bytes are held: %s", (long long)held, r.gone);
    CU_ASSERT_TRUE(held >= 0 && held <= 100000); /* by the one that asks */
    back_to_normal();
}

/* ---- a large frame, in parts */

typedef struct sender {
    raw r;
    size_t sent;
    bool calls; /* its large frame calls program 1, behind which the rest of the frame waits */
} sender;

/* program 1 of the largest number, and nobody waits for the answer */
static void call_program(td_words *w)
{
    td_words rest = {0};
    uint32_t *head = td_words_room(&rest, TD_CALL_HEAD);
    memset(head, 0, TD_CALL_HEAD * sizeof *head);
    head[0] = 1, head[5] = 1;
    td_words_put_u64(head + 1, UINT32_MAX);
    rest.count += TD_CALL_HEAD;
    td_pv_put(&rest, &(td_pv){.kind = TD_PV_INT, .i = INT64_MAX / 2});
    control(w, TD_REC_CALL, 0, 0, NULL, 0, NULL, (int)rest.count, rest.at);
    td_words_deinit(&rest);
}

/* A batch without records, or of a call. */
static uint8_t *large_frame(bool calls, size_t *n)
{
    static uint8_t *frames[2], *frame;
    enum { DATA = LARGE - 256 };
    if (!(frame = frames[calls])) {
        frame = frames[calls] = calloc(1, LARGE + TD_FRAME_HEADER);
        Td__Wire__Batch b = TD__WIRE__BATCH__INIT;
        td_words w = {0};
        uint8_t *zeros = calloc(1, DATA);
        if (calls) call_program(&w);
        b.words = w.at, b.n_words = w.count;
        b.data.data = zeros, b.data.len = DATA;
        size_t bytes = td__wire__batch__pack(&b, frame + TD_FRAME_HEADER);
        td_frame_put_header(frame, (uint32_t)bytes, TD_FRAME_BATCH, 0);
        free(zeros);
        td_words_deinit(&w);
    }
    *n = TD_FRAME_HEADER + (frame[0] | (size_t)frame[1] << 8 | (size_t)frame[2] << 16);
    return frame;
}

static void open_all(sender *s, int n)
{
    for (int i = 0; i < n; i++) {
        s[i] = (sender){0};
        CU_ASSERT_TRUE_FATAL(raw_open(&s[i].r, d.socket));
    }
}

/* What the socket takes now, up to so many bytes of the frame. False: the connection has ended. */
static bool send_some(sender *s, size_t until)
{
    size_t n;
    const uint8_t *frame = large_frame(s->calls, &n);
    if (until > n) until = n;
    while (s->sent < until) {
        long sent = send(s->r.fd, frame + s->sent, until - s->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN || errno == EINTR;
        s->sent += (size_t)sent;
    }
    return true;
}

/* Until all have sent so much, or nothing has moved for a while. */
static void send_all_of_them(sender *s, int n, size_t until, uint64_t still_ms)
{
    uint64_t moved = test_now_ms();
    for (bool more = true; more && test_now_ms() - moved < still_ms;) {
        more = false;
        for (int i = 0; i < n; i++) {
            size_t before = s[i].sent;
            CU_ASSERT_TRUE(send_some(&s[i], until));
            if (s[i].sent > before) moved = test_now_ms();
            more |= s[i].sent < until;
        }
        usleep(1000);
    }
}

static bool goes_on(raw *r)
{
    uint32_t code;
    raw_sync(r, &code);
    return code == TD_OK;
}

static void bounded(long before, const char *what)
{
    long kb = resident_kb("RssAnon") - before;
    printf("\n    %s: %ld MB are taken", what, kb >> 10);
    CU_ASSERT_TRUE(!REAL || kb < (2 * WIRE_MB) << 10);
}

/* Before the Hello nothing large may come. */
static void before_hello(void)
{
    static sender s[SENDERS];
    raw other;
    long before = resident_kb("RssAnon");
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    for (int i = 0; i < SENDERS; i++) {
        s[i] = (sender){0};
        CU_ASSERT_TRUE_FATAL(raw_connect(&s[i].r, d.socket));
        send_some(&s[i], LARGE - 1);
    }
    for (int i = 0; i < SENDERS; i++) {
        CU_ASSERT_TRUE(raw_ended(&s[i].r, TEST_LONG_MS));
        raw_close(&s[i].r);
    }
    CU_ASSERT_TRUE(goes_on(&other));
    bounded(before, "frames before Hello");
    raw_close(&other);
    nothing_is_held();
}

/* Many send large frames side by side: each is taken, one after the other where there is no room for more. */
static void all_at_once(void)
{
    static sender s[SENDERS];
    raw other;
    size_t whole;
    large_frame(false, &whole);
    long before = resident_kb("RssAnon");
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    open_all(s, SENDERS);
    send_all_of_them(s, SENDERS, whole, TEST_LONG_MS);
    bounded(before, "frames side by side");
    CU_ASSERT_TRUE(goes_on(&other));
    for (int i = 0; i < SENDERS; i++) {
        CU_ASSERT_EQUAL(s[i].sent, whole);
        CU_ASSERT_TRUE(goes_on(&s[i].r));
        raw_close(&s[i].r);
    }
    raw_close(&other);
    nothing_is_held();
}

static bool ended_for_memory(raw *r)
{
    char code[16];
    struct pollfd p = {r->fd, POLLIN, 0};
    snprintf(code, sizeof code, "%d ", TD_E_MEMORY);
    return poll(&p, 1, 0) > 0 && raw_ended(r, TEST_LONG_MS) && !strncmp(r->gone, code, strlen(code)) &&
           strstr(r->gone, "--own-memory");
}

/* A frame as large, whole, and its answer. */
static bool another_process_sends(void)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        static sender s;
        size_t whole;
        large_frame(false, &whole);
        bool ok = raw_open(&s.r, d.socket);
        for (uint64_t until = test_now_ms() + TEST_LONG_MS; ok && s.sent < whole && test_now_ms() < until; usleep(1000))
            ok = send_some(&s, whole);
        _exit(ok && s.sent == whole && goes_on(&s.r) ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* All of a frame but its last byte, from many, and no more: who sends a whole one is taken, also a large one. */
static void all_but_the_last_byte(void)
{
    static sender s[SENDERS];
    raw small;
    size_t whole;
    large_frame(false, &whole);
    long before = resident_kb("RssAnon");
    CU_ASSERT_TRUE_FATAL(raw_open(&small, d.socket));
    open_all(s, SENDERS);
    send_all_of_them(s, SENDERS, whole - 1, 500);
    bounded(before, "frames without their last byte");
    CU_ASSERT_TRUE(goes_on(&small));
    CU_ASSERT_TRUE(another_process_sends());
    CU_ASSERT_TRUE(goes_on(&small));
    bounded(before, "and another's frame");
    struct pollfd p[SENDERS];
    for (int i = 0; i < SENDERS; i++) p[i] = (struct pollfd){s[i].r.fd, POLLIN, 0};
    CU_ASSERT_TRUE(poll(p, SENDERS, TEST_LONG_MS) > 0); /* others of their own process wait, too */
    int ended = 0;
    for (int i = 0; i < SENDERS; i++) {
        ended += ended_for_memory(&s[i].r);
        raw_close(&s[i].r);
    }
    CU_ASSERT_TRUE(ended > 0);
    raw_close(&small);
    nothing_is_held();
}

/* ---- answers that nobody reads */

/* Asks for values of 60,000 bytes, each in an answer. */
static void ask_for_values(raw *r, int n)
{
    td_words w = {0};
    for (int i = 0; i < n; i++) {
        uint32_t serial[2];
        td_words_put_u64(serial, ++r->serial);
        control(&w, TD_REC_READ, 0, 1, (uint32_t[]){1}, 0, NULL, 2, serial);
    }
    CU_ASSERT_TRUE(send_all(r, &w));
}

static void unread_answers(void)
{
    enum { EACH = 40 };
    static raw r[READERS];
    raw other;
    long before = resident_kb("RssAnon");
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    int n = 0;
    for (; n < READERS && raw_open(&r[n], d.socket); n++) {
        CU_ASSERT_TRUE(raw_zeros(&r[n], 1, 15000));
        ask_for_values(&r[n], EACH);
    }
    if (n < READERS) { /* they hold as much as one process may */
        CU_ASSERT_PTR_NOT_NULL(strstr(r[n].gone, "--own-memory"));
        raw_close(&r[n]);
    }
    CU_ASSERT_TRUE(n > 20);
    for (int i = 0; i < 50; i++) CU_ASSERT_TRUE(goes_on(&other));
    bounded(before, "answers that nobody reads");
    int all = 0, ended = 0;
    for (int i = 0; i < n; i++) {
        int came = 0;
        while (came < EACH && raw_reply(&r[i], TEST_LONG_MS)) came++;
        all += came == EACH;
        ended += came < EACH && r[i].gone[0];
        raw_close(&r[i]);
    }
    printf(", %d of %d read all of theirs then, %d were ended", all, n, ended);
    CU_ASSERT_EQUAL(all + ended, n);
    CU_ASSERT_TRUE(all > 0);
    CU_ASSERT_TRUE(goes_on(&other));
    raw_close(&other);
    nothing_is_held();
}

/* ---- a frame that waits for room, of who has gone */

/* All but the last byte of a frame of so many. False: it does not go, and the connection is closed again. */
static bool hold_part(raw *r, uint32_t bytes)
{
    size_t n, sent = 0, all = bytes + TD_FRAME_HEADER - 1;
    const uint8_t *zeros = large_frame(false, &n) + TD_FRAME_HEADER;
    uint8_t head[TD_FRAME_HEADER];
    if (!raw_open(r, d.socket)) {
        raw_close(r);
        return false;
    }
    td_frame_put_header(head, bytes, TD_FRAME_BATCH, 0);
    CU_ASSERT_EQUAL_FATAL(send(r->fd, head, sizeof head, MSG_NOSIGNAL), sizeof head);
    sent = sizeof head;
    for (int still = 0; sent < all && still < 200; still++) {
        long more = send(r->fd, zeros, all - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (more > 0) sent += (size_t)more, still = 0;
        usleep(500);
    }
    if (sent == all) return true;
    raw_close(r);
    return false;
}

/* With as much held as one process may, to the last. */
static int hold_all(raw *r, int most)
{
    int n = 0;
    for (uint32_t bytes = 8 << 20; bytes > TD_READ_CHUNK && n < most; bytes /= 2)
        while (n < most && hold_part(&r[n], bytes)) n++;
    return n;
}

/* It lies in the ring, whole, and its client goes before there is room for it: it is worked off when there is. */
static void in_the_ring_of_who_has_gone(void)
{
    enum { MOST = 64, BYTES = 100000 };
    static uint8_t bytes[BYTES];
    static raw held[MOST];
    raw other;
    ringer x;
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    ringer_open(&x, sizeof(td_ring_memory));
    to_ring(&x);
    int n = hold_all(held, MOST);
    CU_ASSERT_TRUE(n > 0 && n < MOST);
    td_words w = {0};
    Td__Wire__Batch b = TD__WIRE__BATCH__INIT;
    full(&w, 1, 4, 0);
    b.words = w.at, b.n_words = w.count, b.data.data = bytes, b.data.len = BYTES;
    uint8_t *at = td_writer_begin(&x.writer, td__wire__batch__get_packed_size(&b));
    td_writer_end(&x.writer, td__wire__batch__pack(&b, at), TD_FRAME_BATCH, -1);
    Td__Wire__Publish publish = TD__WIRE__PUBLISH__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    publish.name = (char *)"of who has gone", publish.id = 1, call.publish = &publish;
    send_call(&x, &call, 100);
    CU_ASSERT_EQUAL(td_writer_flush(&x.writer, x.r.fd, true, NULL), 0);
    ringer_close(&x);
    CU_ASSERT_TRUE(goes_on(&other));
    for (int i = 0; i < n; i++) raw_close(&held[i]);
    uint32_t code = TD_E_NOT_FOUND;
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; code == TD_E_NOT_FOUND && test_now_ms() < until; usleep(1000))
        code = open_name(&other, "of who has gone", 9);
    CU_ASSERT_EQUAL(code, TD_OK);
    drop_name(&other, "of who has gone");
    td_words_deinit(&w);
    raw_close(&other);
    nothing_is_held();
}

/* ---- frames behind something endless */

static const char endless[] = "graph(%n : int):\n"
                              "  %b : bool = prim::Constant[value=1]()\n"
                              "  %m : int = prim::Loop(%n, %b, %n)\n"
                              "    block0(%i : int, %k : int):\n"
                              "      %l : int = prim::sub.int(%n, %k)\n"
                              "      -> (%b, %l)\n"
                              "  return (%m)\n";

/* As number 1. */
static bool send_program(raw *r, const char *text)
{
    size_t n;
    uint8_t *bytes = packed(text, &n);
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__ProgramNew q = TD__WIRE__PROGRAM_NEW__INIT;
    q.program = 1, q.ir.data = bytes, q.ir.len = n;
    c.program_new = &q;
    bool known = ask(r, &c) == TD_OK;
    free(bytes);
    return known;
}

/* The program's call lies at the front of the large frame, so that this stays until the program has ended. */
static void behind_something_endless(void)
{
    static sender s[BUSY];
    raw other;
    size_t whole;
    large_frame(true, &whole);
    long before = resident_kb("RssAnon");
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    open_all(s, BUSY);
    for (int i = 0; i < BUSY; i++) CU_ASSERT_TRUE(s[i].calls = send_program(&s[i].r, endless));
    send_all_of_them(s, BUSY, whole, 500);
    CU_ASSERT_TRUE(goes_on(&other));
    bounded(before, "frames behind something endless");
    for (int i = 0; i < BUSY; i++) raw_close(&s[i].r);
    CU_ASSERT_TRUE(goes_on(&other));
    raw_close(&other);
    nothing_is_held();
}

/* Has ready told that it holds what it can get, by frames behind programs that do not end. */
static void hold_behind_something_endless(int ready)
{
    static sender s[BUSY];
    size_t whole;
    large_frame(true, &whole);
    int n = 0;
    while (n < BUSY && raw_open(&s[n].r, d.socket) && (s[n].calls = send_program(&s[n].r, endless))) n++;
    for (int still = 0; still < 500; still++) {
        for (int i = 0; i < n; i++) {
            size_t before = s[i].sent;
            send_some(&s[i], whole);
            if (s[i].sent > before) still = 0;
        }
        usleep(1000);
    }
    char c = 'r';
    if (write(ready, &c, 1) == 1) pause();
    _exit(1);
}

/* So two processes have most of what there is, and move no more: who sends a large frame is taken all the same. */
static void beside_something_endless(void)
{
    enum { HOLDERS = 2 };
    pid_t pids[HOLDERS];
    int ready[2];
    char c;
    raw other;
    CU_ASSERT_TRUE_FATAL(pipe(ready) == 0 && raw_open(&other, d.socket));
    for (int i = 0; i < HOLDERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) hold_behind_something_endless(ready[1]);
        CU_ASSERT_TRUE_FATAL(pids[i] > 0);
        CU_ASSERT_EQUAL(read(ready[0], &c, 1), 1);
    }
    CU_ASSERT_TRUE(another_process_sends());
    CU_ASSERT_TRUE(goes_on(&other));
    for (int i = 0; i < HOLDERS; i++) {
        kill(pids[i], SIGKILL);
        CU_ASSERT_EQUAL(waitpid(pids[i], NULL, 0), pids[i]);
    }
    close(ready[0]);
    close(ready[1]);
    raw_close(&other);
    nothing_is_held();
}

/* ---- large answers to many, at once */

enum { TEXT = 1000000, OPENERS = 200 };

static bool publish_large_program(raw *r)
{
    char *text = malloc(TEXT + 200);
    int n = sprintf(text, "graph():\n  %%s : str = prim::Constant[value=\"");
    memset(text + n, 'a', TEXT);
    strcpy(text + n + TEXT, "\"]()\n  return (%s)\n");
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__ProgramPublish p = TD__WIRE__PROGRAM_PUBLISH__INIT;
    p.program = 1, p.name = (char *)"large answers", c.program_publish = &p;
    bool ok = send_program(r, text) && ask(r, &c) == TD_OK;
    free(text);
    return ok;
}

/* Each opens a program of a megabyte, whose answer is packed in parts: for all together there is not room enough. Who
 * is refused is told so, and no process keeps it all. */
static void large_answers(void)
{
    static raw r[OPENERS];
    raw other;
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket) && publish_large_program(&other));
    long before = resident_kb("RssAnon");
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Open o = TD__WIRE__OPEN__INIT;
    o.id = 1, o.name = (char *)"large answers", c.program_open = &o;
    for (int i = 0; i < OPENERS; i++) CU_ASSERT_TRUE_FATAL(raw_open(&r[i], d.socket));
    for (int i = 0; i < OPENERS; i++) raw_call(&r[i], &c);
    for (int i = 0; i < 50; i++) CU_ASSERT_TRUE(goes_on(&other));
    bounded(before, "large answers at once");
    int told = 0, refused = 0;
    for (int i = 0; i < OPENERS; i++) {
        Td__Wire__Reply *x = raw_reply(&r[i], TEST_LONG_MS);
        told += x && x->ir.len > TEXT;
        refused += x ? x->error && x->error->code == TD_E_MEMORY : r[i].gone[0] != 0;
        raw_close(&r[i]);
    }
    printf(", %d of %d were told, %d refused", told, OPENERS, refused);
    CU_ASSERT_EQUAL(told + refused, OPENERS);
    CU_ASSERT_TRUE(told > 0 && refused > 0);
    CU_ASSERT_EQUAL(drop_name(&other, "large answers"), TD_OK);
    raw_close(&other);
    nothing_is_held();
}

/* ---- in a memory group, with whatever limits follow from it */

enum { PROCESSES = 4 };

/* Frames but for their last byte, and answers that are not read, on as many connections as it gets, until it is killed.
 */
static void take_what_there_is(int ready)
{
    static sender s[SENDERS];
    static raw r[READERS];
    size_t whole;
    large_frame(false, &whole);
    for (int i = 0; i < SENDERS && raw_open(&s[i].r, d.socket); i++) send_some(&s[i], whole - 1);
    for (int i = 0; i < READERS && raw_open(&r[i], d.socket); i++) {
        raw_zeros(&r[i], 1, 15000);
        ask_for_values(&r[i], 40);
    }
    for (char c = 'r';; usleep(1000)) {
        for (int i = 0; i < SENDERS; i++) send_some(&s[i], whole - 1);
        if (c && write(ready, &c, 1) == 1) c = 0;
    }
}

static void in_a_group(void)
{
    if (!find_group()) {
        td_test_skip("this process may not make a memory group");
        return;
    }
    pid_t pids[PROCESSES];
    int ready[2];
    char c;
    CU_ASSERT_EQUAL(stop(), 0);
    CU_ASSERT_TRUE_FATAL(pipe(ready) == 0 && start_in_group());
    raw other;
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) take_what_there_is(ready[1]);
        CU_ASSERT_TRUE_FATAL(pids[i] > 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        CU_ASSERT_EQUAL(read(ready[0], &c, 1), 1);
        CU_ASSERT_TRUE(goes_on(&other));
    }
    CU_ASSERT_TRUE(another_process_sends());
    CU_ASSERT_TRUE(goes_on(&other));
    printf("\n    in a group of %d MB: %ld MB are taken at most", GROUP_MB, resident_kb("VmHWM") >> 10);
    for (int i = 0; i < PROCESSES; i++) {
        kill(pids[i], SIGKILL);
        CU_ASSERT_EQUAL(waitpid(pids[i], NULL, 0), pids[i]);
    }
    raw_close(&other);
    nothing_is_held();
    CU_ASSERT_EQUAL(stop(), 0);
    close(ready[0]);
    close(ready[1]);
    CU_ASSERT_EQUAL(rmdir(group), 0);
    CU_ASSERT_EQUAL(start(), 0);
}

static const td_test tests[] = {{"nothing large before Hello", before_hello},
                                {"large frames side by side", all_at_once},
                                {"all but the last byte", all_but_the_last_byte},
                                {"answers that nobody reads", unread_answers},
                                {"in the ring of who has gone", in_the_ring_of_who_has_gone},
                                {"behind something endless", behind_something_endless},
                                {"beside something endless", beside_something_endless},
                                {"large answers at once", large_answers},
                                {"in a memory group", in_a_group}};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("intake", start, stop, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
