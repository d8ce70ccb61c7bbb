/* See probe.h. */
#include "tests/cuda/probe/probe.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ANEW "--reserver"

static int said = -1; /* where this question's facts go */
static int device;
static drv_module module;

void say(const char *format, ...)
{
    char text[1000];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0 && write(said, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1) < 0) _exit(NO);
}

void give_up(const char *call, int error)
{
    say("%.*s: %s; ", (int)strcspn(call, "("), call, drv_name(error));
    _exit(NO);
}

void open_device(void)
{
    const char *missing = drv_open();
    if (missing) {
        say("%s", missing);
        _exit(NOT_HERE);
    }
    drv_ctx ctx;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&ctx, device));
    MUST(cuCtxSetCurrent(ctx));
}

int attribute(int which)
{
    int value = 0;
    MUST(cuDeviceGetAttribute(&value, which, device));
    return value;
}

drv_function kernel(const char *name)
{
    drv_function f;
    if (!module) MUST(cuModuleLoadData(&module, probe_kernels));
    MUST(cuModuleGetFunction(&f, module, name));
    return f;
}

int launch_on(drv_stream stream, drv_function f, unsigned grid, unsigned block, void *args, size_t bytes)
{
    void *extra[] = {DRV_LAUNCH_POINTER, args, DRV_LAUNCH_SIZE, &bytes, DRV_LAUNCH_END};
    return drv.cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, stream, NULL, extra);
}

static drv_prop arena_prop(void)
{
    return (drv_prop){.type = DRV_PINNED, .handle_types = DRV_FD, .location = {DRV_ON_DEVICE, device}};
}

static void arena_map(arena *a, drv_ptr hint)
{
    drv_access access = {{DRV_ON_DEVICE, device}, DRV_READ_WRITE};
    MUST(cuMemAddressReserve(&a->address, a->bytes, 0, hint, 0));
    MUST(cuMemMap(a->address, a->bytes, 0, a->handle, 0));
    MUST(cuMemSetAccess(a->address, a->bytes, &access, 1));
}

arena arena_make(size_t bytes)
{
    arena a = {.bytes = bytes};
    drv_prop prop = arena_prop();
    MUST(cuMemCreate(&a.handle, bytes, &prop, 0));
    arena_map(&a, 0);
    return a;
}

int arena_export(const arena *a)
{
    int fd = -1;
    MUST(cuMemExportToShareableHandle(&fd, a->handle, DRV_FD, 0));
    return fd;
}

arena arena_import(int fd, size_t bytes, drv_ptr hint)
{
    arena a = {.bytes = bytes};
    MUST(cuMemImportFromShareableHandle(&a.handle, (void *)(intptr_t)fd, DRV_FD));
    arena_map(&a, hint);
    return a;
}

void arena_end(arena *a)
{
    MUST(cuMemUnmap(a->address, a->bytes));
    MUST(cuMemAddressFree(a->address, a->bytes));
    MUST(cuMemRelease(a->handle));
}

void fill(drv_ptr p, size_t bytes, uint64_t seed)
{
    fill_args args = {p, bytes / 8, seed};
    int err = LAUNCH(kernel("fill"), 264, 256, args);
    if (!err) err = drv.cuCtxSynchronize();
    if (err) give_up("fill", err);
}

int64_t differing(drv_ptr p, size_t bytes, uint64_t seed)
{
    static drv_ptr count;
    uint64_t n = 0;
    int err = count ? 0 : drv.cuMemAlloc(&count, 8);
    if (!err) err = drv.cuMemcpyHtoD(count, &n, 8);
    check_args args = {p, bytes / 8, seed, count};
    if (!err) err = LAUNCH(kernel("check"), 264, 256, args);
    if (!err) err = drv.cuMemcpyDtoH(&n, count, 8);
    return err ? -err : (int64_t)n;
}

actor actor_start(void (*fn)(int fd, void *arg), void *arg)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) _exit(NO);
    pid_t pid = fork();
    if (pid < 0) _exit(NO);
    if (pid == 0) {
        close(pair[0]);
        fn(pair[1], arg);
        _exit(YES);
    }
    close(pair[1]);
    return (actor){pid, pair[0]};
}

static void anew(int fd, void *unused)
{
    (void)unused;
    char numbers[2][20];
    int kept[] = {dup(fd), dup(said)}; /* without FD_CLOEXEC */
    for (int i = 0; i < 2; i++) snprintf(numbers[i], sizeof numbers[i], "%d", kept[i]);
    execl("/proc/self/exe", "probe", ANEW, numbers[0], numbers[1], NULL);
    _exit(NO);
}

actor actor_start_anew(void)
{
    return actor_start(anew, NULL);
}

int actor_end(actor *a)
{
    int status = 0;
    if (a->fd >= 0) close(a->fd);
    a->fd = -1;
    if (waitpid(a->pid, &status, 0) < 0) return NO;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void tell(int fd, word w, int passed_fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {&w, sizeof w};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed_fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &passed_fd, sizeof(int));
    }
    if (sendmsg(fd, &m, MSG_NOSIGNAL) != sizeof w) {
        say("sendmsg: %s; ", strerror(errno));
        _exit(NO);
    }
}

word hear(int fd, int *passed_fd)
{
    word w;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {&w, sizeof w};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(fd, &m, MSG_CMSG_CLOEXEC) != sizeof w) _exit(NO);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (passed_fd) *passed_fd = -1;
    if (passed_fd && c && c->cmsg_type == SCM_RIGHTS) memcpy(passed_fd, CMSG_DATA(c), sizeof(int));
    return w;
}

static double clock_s(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double now_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}

double cpu_s(void)
{
    return clock_s(CLOCK_THREAD_CPUTIME_ID);
}

static int less(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, less);
    return v[n / 2];
}

long resident_kib(pid_t pid)
{
    char path[64], line[200];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    if (f) fclose(f);
    return kib;
}

static const char *const answers[] = {"yes", "no", "skip"};

/* Prints the question's line; says whether it was answered at all. */
static bool ask(const question *q)
{
    int to_us[2];
    char facts[3000];
    size_t have = 0;
    fflush(stdout);
    if (pipe(to_us)) return false;
    pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(to_us[0]);
        said = to_us[1];
        _exit(q->ask(q->variant));
    }
    setpgid(pid, pid);
    close(to_us[1]);
    double from = now_s(), until = from + q->limit_s;
    bool late = false;
    for (;;) {
        struct pollfd p = {to_us[0], POLLIN, 0};
        double left = until - now_s();
        if (left <= 0 || poll(&p, 1, (int)(left * 1000) + 1) == 0) {
            late = true;
            break;
        }
        ssize_t n = read(to_us[0], facts + have, sizeof facts - 1 - have);
        if (n <= 0) break;
        have += (size_t)n;
    }
    kill(-pid, SIGKILL); /* also actors that outlived a question */
    int status = 0;
    waitpid(pid, &status, 0);
    close(to_us[0]);
    facts[have] = 0;
    char ending[40];
    if (late) snprintf(ending, sizeof ending, "HANGS");
    else if (WIFEXITED(status) && WEXITSTATUS(status) <= NOT_HERE)
        snprintf(ending, sizeof ending, "%s", answers[WEXITSTATUS(status)]);
    else
        snprintf(ending, sizeof ending, WIFSIGNALED(status) ? "signal %d" : "exit %d",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    printf("%-3s %-44s %-6s %5.1fs  %s\n", q->number, q->name, ending, now_s() - from, facts);
    return !late;
}

/* The device's line; its exit status says whether there is one. */
static int about_device(int unused)
{
    (void)unused;
    const char *missing = drv_open();
    int count = 0, version = 0;
    char name[100] = "";
    size_t left, total;
    if (missing || drv.cuInit(0) || drv.cuDeviceGetCount(&count) || count == 0) {
        say("%s", missing ? missing : "the driver finds no device");
        return NOT_HERE;
    }
    open_device();
    MUST(cuDeviceGetName(name, sizeof name, device));
    MUST(cuDriverGetVersion(&version));
    MUST(cuMemGetInfo(&left, &total));
    say("%s, %zu MiB (%zu free), driver API %d, sm_%d%d, %d SMs; descriptors %d, register %d (read-only %d, own "
        "pointer "
        "%d), marks %d, events between processes %d",
        name, total / MIB, left / MIB, version, attribute(DRV_ATTR_MAJOR), attribute(DRV_ATTR_MINOR),
        attribute(DRV_ATTR_SMS), attribute(DRV_ATTR_FD), attribute(DRV_ATTR_REGISTER),
        attribute(DRV_ATTR_REGISTER_READ_ONLY), attribute(DRV_ATTR_HOST_POINTER), attribute(DRV_ATTR_MEM_OPS_64),
        attribute(DRV_ATTR_IPC_EVENT));
    return YES;
}

static bool named(const char *number, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(number, argv[i], strlen(argv[i])) == 0 &&
            !(strlen(argv[i]) == 1 && number[1] >= '0' && number[1] <= '9'))
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    const question *groups[] = {questions_share, questions_host, questions_cost, questions_beside, questions_bits};
    int pair[2];
    if (argc == 4 && strcmp(argv[1], ANEW) == 0) {
        said = atoi(argv[3]);
        reserver(atoi(argv[2]));
        return YES;
    }
    if (pipe(pair)) return 1;
    pid_t pid = fork();
    if (pid == 0) {
        said = pair[1];
        _exit(about_device(0));
    }
    close(pair[1]);
    char line[1000];
    int status;
    ssize_t n = read(pair[0], line, sizeof line - 1);
    line[n > 0 ? n : 0] = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == NOT_HERE) {
        printf("SKIP no CUDA device: %s\n", line);
        return 77;
    }
    printf("%s\n", line);
    if (WEXITSTATUS(status) != YES) return 1;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const question *q = groups[g]; q->number; q++)
            if (named(q->number, argc, argv)) ask(q);
    return 0;
}
