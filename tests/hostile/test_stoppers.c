/* Stoppers of clients without manners: many that never stop saying Stop, and what a part of one costs.
 *
 * As in test_hostile.c, after each test the daemon must hold exactly what it held before. */
#include "tests/hostile/counted.h"
#include "tests/hostile/stops.h"
#include "tests/unit/cunit_main.h"

#include <errno.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MANY = 200, TRIES = 8, SYNCS = 5, SMALL = 1000 };

typedef struct mouth {
    raw r;
    int end;
} mouth;

static mouth mouths[MANY];

static int start(void)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    return counted_start("64M", "1");
}

static void open_mouths(void)
{
    for (int i = 0; i < MANY; i++) {
        CU_ASSERT_TRUE_FATAL(raw_open(&mouths[i].r, d.socket));
        mouths[i].end = stopper(&mouths[i].r);
        CU_ASSERT_FATAL(mouths[i].end >= 0);
    }
}

static void close_mouths(void)
{
    for (int i = 0; i < MANY; i++) close(mouths[i].end), raw_close(&mouths[i].r);
}

/* Stops of calls that never come, whole ones only: so many bytes. */
static size_t many_stops(uint8_t *to, size_t most)
{
    uint8_t frame[32];
    size_t n = stop_frame(frame, 1000000), at = 0;
    for (; at + n <= most; at += n) memcpy(to + at, frame, n);
    return at;
}

/* What the daemon has not read of what was said, all of them together. */
static long unread(void)
{
    long all = 0;
    for (int i = 0; i < MANY; i++) {
        int n = 0;
        ioctl(mouths[i].end, SIOCOUTQ, &n);
        all += n;
    }
    return all;
}

/* Until no socket takes more. */
static void say_all_they_can(void)
{
    uint8_t some[SMALL];
    size_t n = many_stops(some, sizeof some);
    for (int i = 0; i < MANY; i++)
        while (send(mouths[i].end, some, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n) continue;
}

/* Sockets full of Stops do not come before another's request: the most of them are still there when that is answered.
 * (At best: this process may have to wait for a processor before it looks.) */
static void beside_another(void)
{
    raw other;
    uint32_t code;
    long before = 0, after = 0;
    open_mouths();
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    for (int k = 0; k < TRIES && after <= before / 2; k++) {
        test_stop(d.pid);
        say_all_they_can();
        before = unread();
        kill(d.pid, SIGCONT);
        for (int i = 0; i < SYNCS; i++) CU_ASSERT_TRUE(raw_sync(&other, &code));
        test_stop(d.pid);
        after = unread();
        kill(d.pid, SIGCONT);
    }
    printf("%ld KB of %ld KB were not read before another had its answers\n", after >> 10, before >> 10);
    CU_ASSERT_TRUE(before > 0 && after > before / 2);
    raw_close(&other);
    close_mouths();
    back_to_normal();
}

/* Much at once, and then a part of one more: what the daemon keeps of it is what the connection pays for. */
static void parts(void)
{
    enum { AT_ONCE = 96 << 10, SLACK = 1 << 20, PAID = 1 << 10 };
    static uint8_t much[AT_ONCE + 32];
    uint8_t frame[32];
    size_t n = many_stops(much, AT_ONCE), one = stop_frame(frame, 5);
    memcpy(much + n, frame, one - 1);
    open_mouths();
    long before = resident_kb("VmRSS");
    for (int i = 0; i < MANY; i++) {
        test_stop(d.pid);
        CU_ASSERT_TRUE(raw_bytes(&(raw){.fd = mouths[i].end}, much, n + one - 1));
        kill(d.pid, SIGCONT);
    }
    while (unread()) test_sleep_ms(1);
    long more = (resident_kb("VmRSS") - before) << 10;
    printf("%ld KB for %d parts\n", more >> 10, MANY);
    if (REAL) CU_ASSERT_TRUE(more < MANY * PAID + SLACK);
    close_mouths();
    back_to_normal();
}

/* The first, before others have left memory that it could use. */
static const td_test tests[] = {{"parts", parts}, {"beside another", beside_another}};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("stoppers", start, stop, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
