/* A tensord of a test's own: started on a socket in a fresh directory, ended and checked.
 *
 * The program is $TENSORD_DAEMON (meson sets it). Everything lies in one temporary directory, which is gone after stop.
 */
#ifndef TENSORD_TESTS_SUPPORT_DAEMON_H
#define TENSORD_TESTS_SUPPORT_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct test_daemon {
    pid_t pid;
    char directory[64], socket[96];
} test_daemon;

/* How long to wait for what must come, in milliseconds: never that long when all is well, also not for a sanitizer's
 * daemon on a machine with ten other things to do. */
enum { TEST_LONG_MS = 60000 };

/* With more arguments (NULL-terminated list, or NULL). Waits until it accepts. */
bool test_daemon_start(test_daemon *d, const char *const *more);
/* SIGTERM and wait; the exit status (0 when all was well), -1 when it had to be killed. */
int test_daemon_stop(test_daemon *d);
/* Wait until it has taken the first SIGTERM: it listens no more. A second one that came before would be one with it. */
bool test_daemon_told(const test_daemon *d);

/* Is the process still there? */
bool test_daemon_alive(const test_daemon *d);

/* SIGSTOP, and wait until no thread of the process runs: it goes on for a while after kill() has returned. SIGCONT lets it go on. */
void test_stop(pid_t pid);

/* Entries of /proc/PID/fd, lines of /proc/PID/maps: counted from outside. */
int test_descriptors(pid_t pid);

/* Processor time of its loop's thread until now, in microseconds; 0 where the system does not say. */
uint64_t test_loop_us(const test_daemon *d);

/* Sleep, until a signal comes; milliseconds on a monotonic clock. */
void test_sleep_us(uint64_t us);
void test_sleep_ms(int ms);
uint64_t test_now_ms(void);

#endif
