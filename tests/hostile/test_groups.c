/* Groups by hand: seats and handles beyond limits, requests that are given up at any moment, memory that is full,
 * members that scribble over what all map, and members that go at each stage.
 *
 * As in test_hostile.c, after each test the daemon must hold exactly what it held before. */
#include "client/tensord.h"
#include "shm/board/board.h"
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOR_EVER = UINT32_MAX, FULL = 256 };

static int start(void)
{
    return counted_start("64M", "1");
}

/* ---- requests */

static uint64_t open_later(raw *r, const char *name, uint32_t handle, uint32_t size, uint32_t rank_1, uint32_t ms)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__GroupOpen q = TD__WIRE__GROUP_OPEN__INIT;
    q.name = (char *)name, q.group = handle, q.size = size, q.rank = rank_1, q.timeout_ms = ms;
    c.group_open = &q;
    return raw_call(r, &c);
}

/* Of `least` to `most` members. */
static uint64_t open_between_later(raw *r, const char *name, uint32_t handle, uint32_t least, uint32_t most,
                                   uint32_t rank_1, uint32_t policy, uint32_t ms)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__GroupOpen q = TD__WIRE__GROUP_OPEN__INIT;
    q.name = (char *)name, q.group = handle, q.size = most, q.rank = rank_1, q.timeout_ms = ms;
    q.least = least, q.policy = policy;
    c.group_open = &q;
    return raw_call(r, &c);
}

static uint64_t regroup_later(raw *r, uint32_t handle, uint32_t ms)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__GroupRegroup q = TD__WIRE__GROUP_REGROUP__INIT;
    q.group = handle, q.timeout_ms = ms;
    c.group_regroup = &q;
    return raw_call(r, &c);
}

static uint64_t memory_later(raw *r, uint32_t handle, uint32_t part)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__GroupMemory q = TD__WIRE__GROUP_MEMORY__INIT;
    q.group = handle, q.part = (Td__Wire__GroupPart)part;
    c.group_memory = &q;
    return raw_call(r, &c);
}

static uint64_t leave_later(raw *r, uint32_t handle)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__GroupLeave q = TD__WIRE__GROUP_LEAVE__INIT;
    q.group = handle;
    c.group_leave = &q;
    return raw_call(r, &c);
}

static uint64_t cancel_later(raw *r, uint64_t waiting)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Cancel q = TD__WIRE__CANCEL__INIT;
    q.waiting = waiting;
    c.cancel = &q;
    return raw_call(r, &c);
}

/* The code of the answer to this; others' that come before are passed over. */
static uint32_t answer(raw *r, uint64_t serial)
{
    for (;;) {
        Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
        if (!x) return TD_E_LOST;
        if (x->serial == serial) return x->error ? x->error->code : TD_OK;
    }
}

static uint32_t group_open(raw *r, const char *name, uint32_t handle, uint32_t size, uint32_t rank_1, uint32_t ms)
{
    return answer(r, open_later(r, name, handle, size, rank_1, ms));
}

static uint32_t group_regroup(raw *r, uint32_t handle, uint32_t ms)
{
    return answer(r, regroup_later(r, handle, ms));
}

static uint32_t group_leave(raw *r, uint32_t handle)
{
    return answer(r, leave_later(r, handle));
}

static uint32_t group_memory(raw *r, uint32_t handle, uint32_t part)
{
    return answer(r, memory_later(r, handle, part));
}

static uint32_t group_buffer(raw *r, uint32_t handle, uint32_t buffer, uint64_t bytes)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__GroupMemory q = TD__WIRE__GROUP_MEMORY__INIT;
    q.group = handle, q.part = TD__WIRE__GROUP_PART__GROUP_BUFFER, q.buffer = buffer, q.bytes = bytes;
    c.group_memory = &q;
    return answer(r, raw_call(r, &c));
}

/* ---- limits */

static void beyond_limits(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    CU_ASSERT_EQUAL(group_open(&r, "g", 1, 0, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(group_open(&r, "g", 1, TD_BOARD_RANKS + 1, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(group_open(&r, "g", 1, UINT32_MAX, 0, 0), TD_E_INVALID);
    const uint32_t no_ranks[] = {4, 0x7fffffff, 0x80000000, 0x80000001, UINT32_MAX};
    for (int i = 0; i < 5; i++) CU_ASSERT_EQUAL(group_open(&r, "g", 1, 3, no_ranks[i], 0), TD_E_INVALID);
    const char *const no_names[] = {"", "a\nb", "a\033[1mb", "\xff\xfe"};
    for (int i = 0; i < 4; i++) CU_ASSERT_NOT_EQUAL(group_open(&r, no_names[i], 1, 2, 0, 0), TD_OK);
    char many[5000];
    memset(many, 'n', sizeof many);
    many[sizeof many - 1] = 0;
    CU_ASSERT_EQUAL(group_open(&r, many, 1, 1, 0, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(group_memory(&r, 1, 7), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(group_leave(&r, 1), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(group_open(&r, "odd %s \xc3\xa9 %n", 1, 1, 0, FOR_EVER), TD_OK);
    CU_ASSERT_EQUAL(group_open(&r, "other", 1, 1, 0, FOR_EVER), TD_E_EXISTS);
    CU_ASSERT_EQUAL(group_memory(&r, 1, 7), TD_E_INVALID);
    CU_ASSERT_EQUAL(group_memory(&r, 1, UINT32_MAX), TD_E_INVALID);
    CU_ASSERT_EQUAL(group_leave(&r, 1), TD_OK);
    CU_ASSERT_EQUAL(group_regroup(&r, 1, 0), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(answer(&r, open_between_later(&r, "g", 1, 3, 2, 0, 0, 0)), TD_E_INVALID);
    CU_ASSERT_EQUAL(answer(&r, open_between_later(&r, "g", 1, UINT32_MAX, 2, 0, 0, 0)), TD_E_INVALID);
    CU_ASSERT_EQUAL(answer(&r, open_between_later(&r, "g", 1, 1, UINT32_MAX, 0, 0, 0)), TD_E_INVALID);
    CU_ASSERT_EQUAL(answer(&r, open_between_later(&r, "g", 1, 1, 2, 1, 0, 0)), TD_E_INVALID);
    CU_ASSERT_EQUAL(answer(&r, open_between_later(&r, "g", 1, 1, 2, 0, TD_PAGE_POLICIES, 0)), TD_E_INVALID);
    CU_ASSERT_EQUAL(answer(&r, open_between_later(&r, "g", 1, 1, 2, 0, UINT32_MAX, 0)), TD_E_INVALID);
    uint64_t opens[64];
    for (uint32_t i = 0; i < 64; i++) opens[i] = open_later(&r, "forms", i, TD_BOARD_RANKS, i + 1, FOR_EVER);
    CU_ASSERT_EQUAL(group_open(&r, "forms", 64, TD_BOARD_RANKS, 65, 0), TD_E_BUSY);
    CU_ASSERT_EQUAL(group_memory(&r, 5, TD__WIRE__GROUP_PART__GROUP_PAGE), TD_E_BUSY);
    CU_ASSERT_EQUAL(group_leave(&r, 5), TD_E_BUSY); /* its open has yet to be answered */
    CU_ASSERT_EQUAL(group_regroup(&r, 5, 0), TD_E_BUSY);
    CU_ASSERT_EQUAL(answer(&r, cancel_later(&r, opens[5])), TD_OK);
    CU_ASSERT_EQUAL(group_leave(&r, 5), TD_E_NOT_FOUND);
    raw_close(&r);
    back_to_normal();
}

/* The first says how large a buffer is; one that cannot be made may be asked for again, with less. */
static void buffers(void)
{
    raw r[2];
    for (int k = 0; k < 2; k++) CU_ASSERT_TRUE_FATAL(raw_open(&r[k], d.socket));
    uint64_t first = open_later(&r[0], "b", 1, 2, 0, FOR_EVER);
    CU_ASSERT_EQUAL(group_buffer(&r[0], 1, 0, 10), TD_E_BUSY);
    CU_ASSERT_EQUAL(group_open(&r[1], "b", 1, 2, 0, FOR_EVER), TD_OK);
    CU_ASSERT_EQUAL(answer(&r[0], first), TD_OK);
    const uint64_t bad[] = {0, UINT64_MAX, INT64_MAX, INT64_MAX / TD_BOARD_RANKS};
    for (int k = 0; k < 4; k++) CU_ASSERT_EQUAL(group_buffer(&r[0], 1, 0, bad[k]), TD_E_INVALID);
    CU_ASSERT_EQUAL(group_buffer(&r[0], 1, 64, 10), TD_E_INVALID);
    CU_ASSERT_EQUAL(group_buffer(&r[0], 1, UINT32_MAX, 10), TD_E_INVALID);
    CU_ASSERT_EQUAL(group_buffer(&r[0], 2, 0, 10), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(group_buffer(&r[0], 1, 0, UINT64_C(1) << 50), TD_E_MEMORY);
    for (uint32_t k = 0; k < 64; k++) {
        CU_ASSERT_EQUAL(group_buffer(&r[k % 2], 1, k, 10 + k), TD_OK);
        CU_ASSERT_EQUAL(group_buffer(&r[0], 1, k, 11 + k), TD_E_MISMATCH);
        CU_ASSERT_EQUAL(group_buffer(&r[1], 1, k, 10 + k), TD_OK);
    }
    CU_ASSERT_EQUAL(group_memory(&r[0], 1, TD__WIRE__GROUP_PART__GROUP_BUFFER + 1), TD_E_INVALID);
    for (int k = 0; k < 2; k++) raw_close(&r[k]);
    back_to_normal();
}

/* All in one turn of the daemon: it finds them when it goes on. */
static void given_up_at_once(void)
{
    for (uint32_t part = 0; part <= TD__WIRE__GROUP_PART__GROUP_SLOTS; part++) {
        raw r;
        CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
        test_stop(d.pid);
        uint64_t open = open_later(&r, "mine", 1, 1, 0, FOR_EVER);
        uint64_t memory = memory_later(&r, 1, part);
        uint64_t leave = leave_later(&r, 1), cancel = cancel_later(&r, open);
        kill(d.pid, SIGCONT);
        bool told[4] = {false};
        for (int i = 0; i < 4; i++) {
            Td__Wire__Reply *x = raw_reply(&r, TEST_LONG_MS);
            CU_ASSERT_PTR_NOT_NULL_FATAL(x);
            uint32_t code = x->error ? x->error->code : TD_OK;
            if (x->serial == open) CU_ASSERT_TRUE(code == TD_E_CANCELLED || code == TD_OK);
            if (x->serial == memory) CU_ASSERT_TRUE(code == TD_E_CLOSED || code == TD_OK);
            if (x->serial == leave) CU_ASSERT_EQUAL(code, TD_E_BUSY);
            if (x->serial == cancel) CU_ASSERT_EQUAL(code, TD_OK);
            told[x->serial - open] = true;
        }
        for (int i = 0; i < 4; i++) CU_ASSERT_TRUE(told[i]);
        raw_close(&r);
        back_to_normal();
    }
}

/* ---- full groups */

/* Four connections with 64 seats each; the answers' codes are `code`. */
static void open_full(raw r[4], const char *name, uint32_t code)
{
    uint64_t first[4];
    for (uint32_t k = 0; k < 4; k++) {
        CU_ASSERT_TRUE_FATAL(raw_open(&r[k], d.socket));
        for (uint32_t i = 0; i < FULL / 4; i++) {
            uint64_t serial = open_later(&r[k], name, i, FULL, k * FULL / 4 + i + 1, FOR_EVER);
            if (!i) first[k] = serial;
        }
    }
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t i = 0; i < FULL / 4; i++) {
            Td__Wire__Reply *x = raw_reply(&r[k], TEST_LONG_MS);
            CU_ASSERT_PTR_NOT_NULL_FATAL(x);
            CU_ASSERT_TRUE(x->serial - first[k] < FULL / 4);
            CU_ASSERT_EQUAL(x->error ? x->error->code : TD_OK, code);
        }
}

static void when_memory_is_full(void)
{
    raw one[4], other[4];
    open_full(one, "one", TD_OK);
    CU_ASSERT_EQUAL(group_memory(&one[0], 7, TD__WIRE__GROUP_PART__GROUP_SLOTS), TD_E_MEMORY); /* two GiB */
    open_full(other, "other", TD_E_MEMORY);                                                    /* each is told */
    for (uint32_t k = 0; k < 4; k++) raw_close(&other[k]);
    CU_ASSERT_EQUAL(group_memory(&one[3], 0, TD__WIRE__GROUP_PART__GROUP_BOARD), TD_OK);
    for (uint32_t k = 0; k < 4; k++) raw_close(&one[k]);
    back_to_normal();
}

/* ---- what all map */

static void *map(raw *r, uint32_t handle, uint32_t part, bool write, uint64_t *bytes)
{
    uint64_t serial = memory_later(r, handle, part);
    Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
    if (!x || x->serial != serial || x->error || !x->address || raw_fd < 0) return MAP_FAILED;
    *bytes = x->address->nbytes;
    uint64_t offset = x->address->offset, size = x->address->segment_size;
    char *at = mmap(NULL, size, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, raw_fd, 0);
    return at == MAP_FAILED ? at : at + offset;
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *state >> 17;
}

/* A process that makes rounds until one fails, or `most`; it exits with 0 unless a sum is wrong or nothing ends. */
static pid_t start_honest(const char *name, uint32_t size, int rank, int most, int ms, bool may_fail)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    td_client *c = td_connect(d.socket);
    td_group *g = c ? td_group_open(c, name, size, rank, TEST_LONG_MS) : NULL;
    static int32_t v[20000];
    bool good = g != NULL;
    for (int i = 0; good && i < most; i++) {
        uint64_t count = i % 3 == 0 ? 8 : i % 3 == 1 ? 9000 : 20000;
        for (uint64_t k = 0; k < count; k++) v[k] = rank;
        int rc = td_group_all_reduce(g, v, v, TD_INT32, count, TD_SUM, ms);
        if (rc && may_fail) break;
        good = !rc;
        for (uint64_t k = 0; good && !may_fail && k < count; k++) good = v[k] == (int32_t)(size * (size - 1) / 2);
    }
    if (!good) fprintf(stderr, "rank %d of '%s': %s\n", rank, name, td_last_error()->message);
    td_group_close(g);
    td_disconnect(c);
    _exit(good ? 0 : 1);
}

static int end_of(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void who_scribbles(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    pid_t same[2], others[2];
    for (int i = 0; i < 2; i++) same[i] = start_honest("same", 3, i, 1000000, 400, true);
    for (int i = 0; i < 2; i++) others[i] = start_honest("others", 2, i, 3000, TEST_LONG_MS, false);
    CU_ASSERT_EQUAL_FATAL(group_open(&r, "same", 1, 3, 3, FOR_EVER), TD_OK);
    uint64_t bytes;
    CU_ASSERT_PTR_EQUAL(map(&r, 1, TD__WIRE__GROUP_PART__GROUP_PAGE, true, &bytes), MAP_FAILED);
    uint64_t *board = map(&r, 1, TD__WIRE__GROUP_PART__GROUP_BOARD, true, &bytes), state = 7;
    CU_ASSERT_PTR_NOT_EQUAL_FATAL(board, MAP_FAILED);
    uint64_t words = td_board_small_input(3, 0, 0) / sizeof *board;
    for (int i = 0; i < 3000000; i++) {
        uint64_t x = draw(&state), small = x >> 40 & 3 ? x & 0x3ffff : x << 20;
        ((_Atomic uint64_t *)board)[draw(&state) % words] = small;
    }
    CU_ASSERT_EQUAL(group_leave(&r, 1), TD_OK); /* the daemon reads its line, and says since when */
    for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(end_of(same[i]), 0);
    for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(end_of(others[i]), 0);
    raw_close(&r);
    back_to_normal();
}

/* Rows of the table of groups are bounded, whatever stands on the board. */
static bool rows_are_bounded(const td_table *t)
{
    for (int r = 0; r < t->rows; r++) {
        double most[] = {0, 1e6, 1e16, 1e16, 1e16, 100, 100, 1e10}, v;
        static const char *const columns[] = {"", "per_s", "p50_us", "p99_us", "last", "last_%", "in_%", "since_s"};
        for (int k = 1; k < 8; k++)
            for (int i = 0; i < t->columns; i++) {
                const td_cell *x = &t->cells[r * t->columns + i];
                if (strcmp(t->names[i], columns[k]) || x->kind == TD_CELL_TEXT) continue;
                v = x->kind == TD_CELL_INT ? (double)x->integer : x->real;
                if (!(v >= 0 && v <= most[k] + (k == 1 ? 1e16 : 0))) return false;
            }
    }
    return true;
}

static int64_t told(const td_table *t, int rank, const char *column)
{
    for (int i = 0; i < t->columns; i++)
        if (!strcmp(t->names[i], column)) return t->cells[(rank + 1) * t->columns + i].integer;
    return -1;
}

/* A member that writes what it likes into its figures, and into all others' words later: the table has a row for each,
 * and as long as only its own are scribbled over, the others' are what they were. */
static void figures_that_are_scribbled_over(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    td_client *c = td_connect(d.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    pid_t honest[2];
    for (int i = 0; i < 2; i++) honest[i] = start_honest("told", 3, i, 1, 400, true);
    CU_ASSERT_EQUAL_FATAL(group_open(&r, "told", 1, 3, 3, FOR_EVER), TD_OK);
    uint64_t bytes, state = 3;
    uint64_t *board = map(&r, 1, TD__WIRE__GROUP_PART__GROUP_BOARD, true, &bytes);
    CU_ASSERT_PTR_NOT_EQUAL_FATAL(board, MAP_FAILED);
    for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(end_of(honest[i]), 0);
    td_figures *own = td_board_figures(board, 3, 2), *other = td_board_figures(board, 3, 0);
    uint64_t rounds = other->rounds = 7, last = other->last = 3; /* as an honest one's */
    for (int i = 0; i < 200; i++) {
        for (size_t k = 0; k < sizeof *own / 8; k++) ((_Atomic uint64_t *)own)[k] = draw(&state) << (draw(&state) & 63);
        td_table *t = td_status(c, "groups");
        CU_ASSERT_TRUE_FATAL(t && t->rows == 4 && rows_are_bounded(t));
        CU_ASSERT_EQUAL(told(t, 0, "last"), last);
        td_table_free(t);
    }
    CU_ASSERT_EQUAL(other->rounds, rounds);
    for (int i = 0; i < 200; i++) {
        for (uint64_t k = 0; k < bytes / 8 && k < td_board_small_input(3, 0, 0) / 8; k += 1 + (draw(&state) & 15))
            ((_Atomic uint64_t *)board)[k] = draw(&state) << (draw(&state) & 63);
        td_table *t = td_status(c, "groups");
        CU_ASSERT_TRUE_FATAL(t && t->rows == 4 && rows_are_bounded(t));
        td_table_free(t);
    }
    raw_close(&r);
    td_disconnect(c);
    back_to_normal();
}

/* A table of many groups, of which some end while it is made. */
static void told_while_they_go(void)
{
    td_client *c = td_connect(d.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    for (int n = 0; n < 30; n++) {
        raw r;
        char name[16];
        CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
        for (uint32_t i = 0; i < 20; i++) {
            snprintf(name, sizeof name, "many-%u", i);
            open_later(&r, name, i, 1 + i % 3, 0, FOR_EVER);
        }
        raw_close(&r);
        td_table *t = td_status(c, "groups");
        CU_ASSERT_PTR_NOT_NULL(t);
        td_table_free(t);
    }
    td_disconnect(c);
    back_to_normal();
}

/* ---- epochs */

/* The code, and the rank, size and epoch that the answer brings. */
static uint32_t seat(raw *r, uint64_t serial, uint32_t *rank, uint32_t *size)
{
    Td__Wire__Reply *x;
    do x = raw_reply(r, TEST_LONG_MS);
    while (x && x->serial != serial);
    if (!x) return TD_E_LOST;
    *rank = x->group ? x->group->rank : UINT32_MAX;
    *size = x->group ? x->group->size : UINT32_MAX;
    return x->error ? x->error->code : TD_OK;
}

/* Members that regroup, give that up, ask twice, leave meanwhile, and end their connections meanwhile. */
static void epochs(void)
{
    raw r[4];
    uint32_t rank, size;
    uint64_t opens[4], asked[4];
    for (int i = 0; i < 4; i++) CU_ASSERT_TRUE_FATAL(raw_open(&r[i], d.socket));
    opens[0] = open_between_later(&r[0], "epochs", 1, 1, 3, 0, 0, FOR_EVER);
    CU_ASSERT_EQUAL(seat(&r[0], opens[0], &rank, &size), TD_OK);
    CU_ASSERT_TRUE(rank == 0 && size == 1);
    for (int i = 1; i < 3; i++) opens[i] = open_between_later(&r[i], "epochs", 1, 1, 3, 0, 0, FOR_EVER);
    CU_ASSERT_EQUAL(group_regroup(&r[1], 1, 0), TD_E_BUSY); /* and in the turn before it has come to the door */
    CU_ASSERT_EQUAL(group_regroup(&r[2], 1, 0), TD_E_BUSY);
    CU_ASSERT_EQUAL(answer(&r[3], open_between_later(&r[3], "epochs", 1, 1, 3, 0, 0, 0)), TD_E_EXISTS);
    CU_ASSERT_EQUAL(seat(&r[0], regroup_later(&r[0], 1, 0), &rank, &size), TD_OK);
    CU_ASSERT_TRUE(rank == 0 && size == 3);
    CU_ASSERT_EQUAL(seat(&r[2], opens[2], &rank, &size), TD_OK);
    CU_ASSERT_TRUE(rank == 2 && size == 3);
    /* Twice at once, and given up. */
    asked[0] = regroup_later(&r[0], 1, FOR_EVER);
    CU_ASSERT_EQUAL(group_regroup(&r[0], 1, 0), TD_E_BUSY);
    CU_ASSERT_EQUAL(group_leave(&r[0], 1), TD_E_BUSY);
    cancel_later(&r[0], asked[0]);
    CU_ASSERT_EQUAL(answer(&r[0], asked[0]), TD_E_CANCELLED);
    /* One goes, the others regroup; one that is there does not come. */
    asked[0] = regroup_later(&r[0], 1, FOR_EVER);
    raw_close(&r[1]);
    asked[2] = regroup_later(&r[2], 1, FOR_EVER);
    CU_ASSERT_EQUAL(seat(&r[0], asked[0], &rank, &size), TD_OK);
    CU_ASSERT_TRUE(rank == 0 && size == 2);
    CU_ASSERT_EQUAL(seat(&r[2], asked[2], &rank, &size), TD_OK);
    CU_ASSERT_TRUE(rank == 1 && size == 2);
    CU_ASSERT_EQUAL(seat(&r[2], regroup_later(&r[2], 1, 0), &rank, &size), TD_OK);
    CU_ASSERT_TRUE(rank == 0 && size == 1);
    CU_ASSERT_EQUAL(group_regroup(&r[0], 1, 0), TD_E_EPOCH);
    CU_ASSERT_EQUAL(group_memory(&r[0], 1, TD__WIRE__GROUP_PART__GROUP_BOARD), TD_OK); /* of the epoch that it was in */
    CU_ASSERT_EQUAL(group_memory(&r[0], 1, TD__WIRE__GROUP_PART__GROUP_SLOTS), TD_OK);
    CU_ASSERT_EQUAL(group_leave(&r[0], 1), TD_OK);
    for (int i = 0; i < 4; i++)
        if (i != 1) raw_close(&r[i]);
    back_to_normal();
}

/* In one turn of the daemon: requests for memory of an epoch that ends meanwhile. */
static void epochs_that_end_meanwhile(void)
{
    for (int n = 0; n < 30; n++) {
        raw r[2];
        uint64_t opens[2];
        for (uint32_t i = 0; i < 2; i++) CU_ASSERT_TRUE_FATAL(raw_open(&r[i], d.socket));
        for (uint32_t i = 0; i < 2; i++) opens[i] = open_later(&r[i], "meanwhile", 1, 2, i + 1, FOR_EVER);
        for (uint32_t i = 0; i < 2; i++) CU_ASSERT_EQUAL(answer(&r[i], opens[i]), TD_OK);
        test_stop(d.pid);
        uint64_t memory = memory_later(&r[0], 1, TD__WIRE__GROUP_PART__GROUP_SLOTS);
        regroup_later(&r[0], 1, n % 3 ? FOR_EVER : 0);
        uint64_t other = n % 2 ? regroup_later(&r[1], 1, FOR_EVER) : leave_later(&r[1], 1);
        memory_later(&r[1], 1, TD__WIRE__GROUP_PART__GROUP_SLOTS);
        if (n % 5 == 0) raw_close(&r[n % 2]);
        kill(d.pid, SIGCONT);
        if (n % 5) {
            CU_ASSERT_NOT_EQUAL(answer(&r[0], memory), TD_E_LOST);
            if (n % 2 == 0) CU_ASSERT_EQUAL(answer(&r[1], other), TD_OK);
        }
        for (uint32_t i = 0; i < 2; i++)
            if (n % 5 || i != (uint32_t)n % 2) raw_close(&r[i]);
        back_to_normal();
    }
}

/* Replies to requests of connection k, of which there are so many; their codes are `code`. */
static void replies(raw *r, uint32_t count, uint32_t code)
{
    for (uint32_t i = 0; i < count; i++) {
        Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
        CU_ASSERT_PTR_NOT_NULL_FATAL(x);
        CU_ASSERT_EQUAL(x->error ? x->error->code : TD_OK, code);
    }
}

/* Memory that is there is told a turn later, and the member may be in the next epoch by then, which has none yet. */
static void epochs_that_begin_meanwhile(void)
{
    enum { ASKED = 150 };
    for (int n = 0; n < 60; n++) {
        raw r[2];
        uint64_t opens[2], regroups[2];
        for (uint32_t i = 0; i < 2; i++) CU_ASSERT_TRUE_FATAL(raw_open(&r[i], d.socket));
        for (uint32_t i = 0; i < 2; i++) opens[i] = open_later(&r[i], "begins", 1, 2, i + 1, FOR_EVER);
        for (uint32_t i = 0; i < 2; i++) CU_ASSERT_EQUAL(answer(&r[i], opens[i]), TD_OK);
        test_stop(d.pid);
        regroups[0] = regroup_later(&r[n % 2], 1, FOR_EVER);
        uint64_t first = memory_later(&r[n % 2], 1, TD__WIRE__GROUP_PART__GROUP_BOARD);
        for (int i = 1; i < ASKED; i++) memory_later(&r[n % 2], 1, TD__WIRE__GROUP_PART__GROUP_BOARD);
        regroups[1] = regroup_later(&r[(n + 1) % 2], 1, FOR_EVER);
        kill(d.pid, SIGCONT);
        CU_ASSERT_EQUAL(answer(&r[(n + 1) % 2], regroups[1]), TD_OK);
        int answers = 0;
        for (; answers < ASKED + 1; answers++) {
            Td__Wire__Reply *x = raw_reply(&r[n % 2], TEST_LONG_MS);
            CU_ASSERT_PTR_NOT_NULL_FATAL(x);
            uint32_t code = x->error ? x->error->code : TD_OK;
            if (x->serial == regroups[0]) CU_ASSERT_EQUAL(code, TD_OK);
            if (x->serial >= first) CU_ASSERT_TRUE(code == TD_OK || code == TD_E_CLOSED);
        }
        for (uint32_t i = 0; i < 2; i++) raw_close(&r[i]);
        back_to_normal();
    }
}

/* What lies in the queue of a rank's messages may be anybody's: a tensor whose bytes are not all there is refused. */
static void messages_of_others(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        td_client *own = td_connect(d.socket);
        td_group *g = own ? td_group_open(own, "mail", 2, 1, TEST_LONG_MS) : NULL;
        int rc = g ? td_group_barrier(g, -1) : TD_E_LOST; /* until it has been told that it may go */
        _exit(rc == TD_OK ? 0 : 1);
    }
    td_client *c = td_connect(d.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    td_group *g = td_group_open(c, "mail", 2, 0, TEST_LONG_MS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(g);
    char name[64];
    struct {
        uint32_t dtype, ndim;
        int64_t dims[TD_MAX_DIMS];
    } head = {TD_FLOAT32, 1, {1 << 28}};
    float one[4] = {1, 2, 3, 4};
    td_array *a = td_from_data(c, TD_FLOAT32, td_dims(1), one), *wide = td_expand(a, td_dims(1 << 28));
    td_array *four = td_from_data(c, TD_FLOAT32, td_dims(4), one),
             *two = td_as_strided(four, td_dims(2), td_dims(2), 0);
    CU_ASSERT_TRUE_FATAL(wide && two);
    for (int tag = 0; tag < 2; tag++) {
        td_array *x = tag ? two : wide;
        head.dims[0] = tag ? 2 : 1 << 28;
        snprintf(name, sizeof name, ".group/%u/1-0/%d", td_group_epoch(g), tag);
        td_queue *q = td_queue_open(c, name, 8, TD_PRODUCER);
        CU_ASSERT_PTR_NOT_NULL_FATAL(q);
        td_list list = {1, &x};
        CU_ASSERT_EQUAL(td_queue_put(q, list, &head, sizeof head, TEST_LONG_MS), TD_OK);
        td_message m;
        int rc = td_group_receive(g, 1, tag, TEST_LONG_MS, &m);
        CU_ASSERT_EQUAL(rc, TD_E_PROTOCOL);
        if (!rc) td_message_clear(&m);
        td_queue_close(q, false);
    }
    CU_ASSERT_EQUAL(td_group_barrier(g, -1), TD_OK);
    CU_ASSERT_EQUAL(end_of(pid), 0);
    td_release(a), td_release(wide), td_release(four), td_release(two);
    td_group_close(g);
    td_disconnect(c);
    back_to_normal();
}

/* The next epoch finds no memory, as an expelled member has that of the one before: everybody is told, and gives its
 * seat up. */
static void epochs_without_memory(void)
{
    enum { SEATS = FULL / 4 };
    raw r[4], other;
    for (uint32_t k = 0; k < 4; k++) {
        CU_ASSERT_TRUE_FATAL(raw_open(&r[k], d.socket));
        for (uint32_t i = 0; i < SEATS && k * SEATS + i < FULL - 2; i++)
            open_between_later(&r[k], "full", i, FULL - 2, FULL - 1, 0, 0, FOR_EVER);
        replies(&r[k], k < 3 ? 0 : 1, TD_OK);
    }
    for (uint32_t k = 0; k < 3; k++) replies(&r[k], SEATS, TD_OK);
    replies(&r[3], SEATS - 3, TD_OK);
    open_between_later(&r[3], "full", SEATS - 2, FULL - 2, FULL - 1, 0, 0, FOR_EVER);
    for (uint32_t k = 0; k < 4; k++) /* the memory of the epoch before is there for that */
        for (uint32_t i = 0; i < SEATS && k * SEATS + i < FULL - 2; i++) regroup_later(&r[k], i, FOR_EVER);
    for (uint32_t k = 0; k < 4; k++) replies(&r[k], k < 3 ? SEATS : SEATS - 1, TD_OK);
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t i = !k; i < SEATS && k * SEATS + i < FULL - 2; i++) regroup_later(&r[k], i, FOR_EVER);
    for (uint32_t k = 0; k < 4; k++) raw_reply(&r[k], 20); /* none */
    regroup_later(&r[3], SEATS - 2, 0);
    for (uint32_t k = 0; k < 4; k++) replies(&r[k], k == 0 || k == 3 ? SEATS - 1 : SEATS, TD_E_MEMORY);
    CU_ASSERT_EQUAL(group_regroup(&r[2], 9, 0), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(group_regroup(&r[0], 0, 0), TD_E_EPOCH);
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    CU_ASSERT_EQUAL(group_open(&other, "full", 1, 1, 0, FOR_EVER), TD_OK); /* nobody has the name */
    for (uint32_t k = 0; k < 4; k++) raw_close(&r[k]);
    raw_close(&other);
    back_to_normal();
}

/* ---- who goes, and when */

enum { AT_FORMING, AT_COMPLETE, AT_PAGE, AT_BOARD, AT_SLOTS, AT_DOOR, STAGES };

static void come_so_far(int stage)
{
    raw r;
    uint64_t bytes;
    if (!raw_open(&r, d.socket)) _exit(1);
    open_later(&r, "stages", 9, 2, 2, FOR_EVER);
    if (stage == AT_COMPLETE) raw_reply(&r, TEST_LONG_MS);
    for (uint32_t part = 0; stage >= AT_PAGE && part <= (uint32_t)(stage - AT_PAGE); part++) {
        if (!part) raw_reply(&r, TEST_LONG_MS);
        if (map(&r, 9, part, part > 0, &bytes) == MAP_FAILED) _exit(2);
        if (part == TD__WIRE__GROUP_PART__GROUP_SLOTS) break;
    }
    if (stage == AT_DOOR) regroup_later(&r, 9, FOR_EVER);
    raise(SIGKILL);
}

static void killed_at_each_stage(void)
{
    for (int stage = 0; stage < STAGES; stage++) {
        raw r;
        uint64_t bytes;
        CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
        uint64_t open = open_later(&r, "stages", 1, 2, 1, FOR_EVER);
        fflush(NULL);
        pid_t pid = fork();
        if (!pid) come_so_far(stage);
        CU_ASSERT_EQUAL(end_of(pid), -SIGKILL);
        if (stage == AT_FORMING) { /* whether it was seen at all is nobody's to say */
            raw_close(&r);
            back_to_normal();
            continue;
        }
        CU_ASSERT_EQUAL(answer(&r, open), TD_OK);
        const td_page *page = map(&r, 1, TD__WIRE__GROUP_PART__GROUP_PAGE, false, &bytes);
        CU_ASSERT_PTR_NOT_EQUAL_FATAL(page, MAP_FAILED);
        for (int ms = 0; ms < TEST_LONG_MS && page->rank[1].state != TD_RANK_DEAD; ms += 5) test_sleep_ms(5);
        CU_ASSERT_EQUAL(page->rank[1].state, TD_RANK_DEAD);
        CU_ASSERT_EQUAL(page->rank[1].until, 1);
        CU_ASSERT_EQUAL(page->broken, 1 << 16 | 1);
        CU_ASSERT_EQUAL(page->rank[0].state, TD_RANK_IN);
        raw_close(&r);
        back_to_normal();
    }
}

/* Connections that end while their process lives cost the daemon one descriptor, however many seats they had. */
static void seats_that_are_left_alone(void)
{
    enum { GROUPS = 24 };
    raw stays, goes;
    const td_page *pages[GROUPS];
    uint64_t opens[GROUPS];
    char name[16];
    CU_ASSERT_TRUE_FATAL(raw_open(&stays, d.socket) && raw_open(&goes, d.socket));
    for (uint32_t i = 0; i < GROUPS; i++) {
        snprintf(name, sizeof name, "alone-%u", i);
        opens[i] = open_later(&stays, name, i, 2, 1, FOR_EVER);
        CU_ASSERT_EQUAL(group_open(&goes, name, i, 2, 2, FOR_EVER), TD_OK);
        CU_ASSERT_EQUAL(answer(&stays, opens[i]), TD_OK);
        CU_ASSERT_EQUAL(group_memory(&stays, i, TD__WIRE__GROUP_PART__GROUP_BOARD), TD_OK);
    }
    uint64_t serial = memory_later(&stays, 0, TD__WIRE__GROUP_PART__GROUP_PAGE);
    Td__Wire__Reply *x = raw_reply(&stays, TEST_LONG_MS);
    CU_ASSERT_TRUE_FATAL(x && x->serial == serial && x->address && raw_fd >= 0);
    char *pages_of_all = mmap(NULL, x->address->segment_size, PROT_READ, MAP_SHARED, raw_fd, 0);
    CU_ASSERT_PTR_NOT_EQUAL_FATAL(pages_of_all, MAP_FAILED);
    pages[0] = (const td_page *)(const void *)(pages_of_all + x->address->offset);
    for (uint32_t i = 1; i < GROUPS; i++) {
        serial = memory_later(&stays, i, TD__WIRE__GROUP_PART__GROUP_PAGE);
        x = raw_reply(&stays, TEST_LONG_MS);
        CU_ASSERT_TRUE_FATAL(x && x->serial == serial && x->address && !x->address->descriptor);
        pages[i] = (const td_page *)(const void *)(pages_of_all + x->address->offset);
    }
    int before = test_descriptors(d.pid);
    raw_close(&goes);
    for (uint32_t i = 0; i < GROUPS; i++) {
        for (int ms = 0; ms < TEST_LONG_MS && pages[i]->rank[1].state == TD_RANK_IN; ms += 5) test_sleep_ms(5);
        CU_ASSERT_EQUAL(pages[i]->rank[1].state, TD_RANK_CUT);
    }
    CU_ASSERT_TRUE(test_descriptors(d.pid) <= before + 1);
    raw_close(&stays);
    back_to_normal();
}

TD_CUNIT_MAIN_WITH("hostile_groups", start, stop, {"beyond limits", beyond_limits}, {"buffers", buffers},
                   {"given up at once", given_up_at_once}, {"when memory is full", when_memory_is_full},
                   {"seats that are left alone", seats_that_are_left_alone}, {"who scribbles", who_scribbles},
                   {"figures that are scribbled over", figures_that_are_scribbled_over},
                   {"told while they go", told_while_they_go}, {"epochs", epochs},
                   {"epochs that end meanwhile", epochs_that_end_meanwhile},
                   {"epochs that begin meanwhile", epochs_that_begin_meanwhile},
                   {"messages of others", messages_of_others}, {"epochs without memory", epochs_without_memory},
                   {"killed at each stage", killed_at_each_stage})
