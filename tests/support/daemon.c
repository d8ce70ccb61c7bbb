#include "tests/support/daemon.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void test_sleep_us(uint64_t us)
{
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

void test_sleep_ms(int ms)
{
    test_sleep_us((uint64_t)ms * 1000);
}

uint64_t test_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool accepts(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
    close(fd);
    return ok;
}

static void run_daemon(const test_daemon *d, const char *const *more)
{
    const char *program = getenv("TENSORD_DAEMON"), *args[32] = {program, "--socket", d->socket};
    int n = 3;
    for (; more && *more && n < 30; more++) args[n++] = *more;
    args[n] = NULL;
    execv(program, (char **)args);
    perror(program);
    _exit(127);
}

bool test_daemon_start(test_daemon *d, const char *const *more)
{
    const char *tmp = getenv("TMPDIR");
    if (!getenv("TENSORD_DAEMON")) {
        fprintf(stderr, "set TENSORD_DAEMON to the tensord to test (meson test does)\n");
        return false;
    }
    snprintf(d->directory, sizeof d->directory, "%.40s/tensord-test-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    if (!mkdtemp(d->directory)) return false;
    snprintf(d->socket, sizeof d->socket, "%s/socket", d->directory);
    d->pid = fork();
    if (d->pid == 0) {
        prctl(PR_SET_PDEATHSIG,
              SIGKILL); /* a test that crashes leaves no daemon, whose open pipe the runner would wait for */
        run_daemon(d, more);
    }
    for (int i = 0; i < TEST_LONG_MS / 10 && d->pid > 0; i++) {
        if (accepts(d->socket)) return true;
        if (!test_daemon_alive(d)) break;
        test_sleep_ms(10);
    }
    test_daemon_stop(d);
    return false;
}

bool test_daemon_told(const test_daemon *d)
{
    for (int i = 0; i < TEST_LONG_MS / 10; i++, test_sleep_ms(10))
        if (access(d->socket, F_OK) != 0) return true;
    return false;
}

bool test_daemon_alive(const test_daemon *d)
{
    siginfo_t info = {0};
    return d->pid > 0 && waitid(P_PID, (id_t)d->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

int test_daemon_stop(test_daemon *d)
{
    int status = -1, result = -1;
    if (d->pid > 0) {
        kill(d->pid, SIGTERM);
        for (int i = 0; i < TEST_LONG_MS / 10; i++) {
            if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                d->pid = 0;
                break;
            }
            test_sleep_ms(10);
        }
    }
    if (d->pid > 0) {
        kill(d->pid, SIGKILL);
        waitpid(d->pid, &status, 0);
    }
    d->pid = 0;
    char lock[112]; /* a daemon that was killed leaves both */
    snprintf(lock, sizeof lock, "%s.lock", d->socket);
    unlink(d->socket);
    unlink(lock);
    rmdir(d->directory);
    return result;
}

uint64_t test_loop_us(const test_daemon *d)
{
    char path[64];
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)d->pid, (int)d->pid);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%llu", &ns) != 1) ns = 0;
    if (f) fclose(f);
    return ns / 1000;
}

/* Does any thread of the process still run? */
static bool runs(pid_t pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    bool any = false;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        snprintf(line, sizeof line, "%s/%.16s/stat", path, e->d_name);
        FILE *f = fopen(line, "r");
        char *end =
            f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL; /* the name before it may hold anything */
        if (end && !strchr("TtZX", end[2])) any = true;
        if (f) fclose(f);
    }
    if (dir) closedir(dir);
    return any;
}

void test_stop(pid_t pid)
{
    kill(pid, SIGSTOP);
    while (runs(pid)) test_sleep_us(50);
}

int test_descriptors(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (!dir) return -1;
    int n = -2;
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}
