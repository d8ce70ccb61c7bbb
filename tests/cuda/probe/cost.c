/* Questions 7 to 9: what arenas, contexts, modules and launches take. */
#include "tests/cuda/probe/probe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void importer(int fd, void *arg)
{
    (void)arg;
    open_device();
    TELL(fd, 0);
    for (;;) {
        int arena_fd;
        size_t bytes = hear(fd, &arena_fd).value[0];
        if (!bytes) return;
        double start = now_s();
        arena a = arena_import(arena_fd, bytes, 0);
        double took = now_s() - start;
        close(arena_fd);
        arena_end(&a);
        TELL(fd, (uint64_t)(took * 1e9));
    }
}

/* 7 */
static int arenas(int unused)
{
    (void)unused;
    actor b = actor_start(importer, NULL);
    hear(b.fd, NULL);
    open_device();
    static const size_t sizes[] = {2, 64, 512};
    drv_prop prop = {.type = DRV_PINNED, .handle_types = DRV_FD, .location = {DRV_ON_DEVICE, 0}};
    size_t least = 0, best = 0;
    MUST(cuMemGetAllocationGranularity(&least, &prop, 0));
    MUST(cuMemGetAllocationGranularity(&best, &prop, 1));
    say("granule %zu KiB (recommended %zu); ", least >> 10, best >> 10);
    for (int s = 0; s < 3; s++) {
        size_t bytes = sizes[s] * MIB;
        double made[9], exported[9], imported[9], ended[9], legacy[9];
        for (int i = 0; i < 9; i++) {
            double t0 = now_s();
            arena a = arena_make(bytes);
            double t1 = now_s();
            int fd = arena_export(&a);
            double t2 = now_s();
            tell(b.fd, (word){{bytes}}, fd);
            imported[i] = 1e-3 * (double)hear(b.fd, NULL).value[0];
            close(fd);
            double t3 = now_s();
            arena_end(&a);
            ended[i] = 1e6 * (now_s() - t3);
            made[i] = 1e6 * (t1 - t0);
            exported[i] = 1e6 * (t2 - t1);
            drv_ptr p;
            t3 = now_s();
            MUST(cuMemAlloc(&p, bytes));
            legacy[i] = 1e6 * (now_s() - t3);
            MUST(cuMemFree(p));
        }
        say("%zu MiB: make %.0f us, export %.0f, import and map %.0f, end %.0f, cuMemAlloc %.0f%s", sizes[s],
            median(made, 9), median(exported, 9), median(imported, 9), median(ended, 9), median(legacy, 9),
            s < 2 ? "; " : "");
    }
    return YES;
}

static void starter(int fd, void *arg)
{
    setenv("CUDA_MODULE_LOADING", arg, 1);
    drv_ctx ctx;
    int device;
    double t0 = now_s();
    if (drv_open()) _exit(NO);
    MUST(cuInit(0));
    double t1 = now_s();
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&ctx, device));
    MUST(cuCtxSetCurrent(ctx));
    double t2 = now_s();
    TELL(fd, (uint64_t)((t1 - t0) * 1e6), (uint64_t)((t2 - t1) * 1e6), (uint64_t)resident_kib(getpid()));
    hear(fd, NULL);
    double t3 = now_s();
    drv_function f = kernel("nothing");
    double t4 = now_s();
    wide_args args = {{0}};
    int err = LAUNCH(f, 1, 1, args);
    if (!err) err = drv.cuCtxSynchronize();
    double t5 = now_s();
    TELL(fd, (uint64_t)((t4 - t3) * 1e6), (uint64_t)((t5 - t4) * 1e6), (uint64_t)resident_kib(getpid()), (uint64_t)err);
    hear(fd, NULL);
}

static double free_mib(void)
{
    size_t left, total;
    MUST(cuMemGetInfo(&left, &total));
    return (double)left / MIB;
}

/* 8 */
static int context(int unused)
{
    (void)unused;
    static char *const modes[] = {"LAZY", "EAGER", "LAZY"};
    actor a[3];
    for (int i = 0; i < 3; i++) a[i].pid = 0;
    actor first = actor_start(starter, modes[0]); /* the driver wakes for it */
    word w = hear(first.fd, NULL);
    say("first: init %.0f ms, context %.0f ms; ", 1e-3 * (double)w.value[0], 1e-3 * (double)w.value[1]);
    a[1] = actor_start(starter, modes[1]); /* forked before this process opens the driver; it measures beside */
    word one = hear(a[1].fd, NULL);
    open_device();
    double before = free_mib();
    TELL(a[1].fd, 0);
    word loaded = hear(a[1].fd, NULL);
    double with_module = free_mib();
    say("then: init %.0f ms, context %.0f ms, resident %.0f MiB; ", 1e-3 * (double)one.value[0],
        1e-3 * (double)one.value[1], (double)one.value[2] / 1024);
    say("module of %zu KB (110 kernels) eager: load %.1f ms, first launch %.2f ms, resident %.0f MiB, GPU memory %.0f "
        "MiB; ",
        (size_t)(probe_kernels_end - probe_kernels) / 1000, 1e-3 * (double)loaded.value[0],
        1e-3 * (double)loaded.value[1], (double)loaded.value[2] / 1024, before - with_module);
    TELL(first.fd, 0);
    loaded = hear(first.fd, NULL);
    say("lazy: %.1f, %.2f ms, GPU memory %.0f MiB; ", 1e-3 * (double)loaded.value[0], 1e-3 * (double)loaded.value[1],
        with_module - free_mib());
    double two = free_mib();
    TELL(first.fd, 0);
    double t = now_s();
    actor_end(&first);
    say("a context's GPU memory %.0f MiB, given back in %.0f ms", free_mib() - two, 1e3 * (now_s() - t));
    TELL(a[1].fd, 0);
    actor_end(&a[1]);
    return YES;
}

#define TIMED(n, call)                                                                                                 \
    do {                                                                                                               \
        MUST(cuCtxSynchronize());                                                                                      \
        double timed_wall = now_s(), timed_cpu = cpu_s();                                                              \
        for (int i = 0; i < (n); i++) MUST(call);                                                                      \
        wall = 1e9 * (now_s() - timed_wall) / (n);                                                                     \
        cpu = 1e9 * (cpu_s() - timed_cpu) / (n);                                                                       \
        MUST(cuCtxSynchronize());                                                                                      \
        through = 1e9 * (now_s() - timed_wall) / (n);                                                                  \
    } while (0)

/* 9a */
static int calls(int unused)
{
    (void)unused;
    open_device();
    drv_function f = kernel("nothing");
    drv_stream s[2];
    drv_event e, many[64];
    drv_ptr d;
    void *host;
    double wall, cpu, through;
    for (int i = 0; i < 2; i++) MUST(cuStreamCreate(&s[i], DRV_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&e, DRV_EVENT_NO_TIMING));
    for (int i = 0; i < 64; i++) MUST(cuEventCreate(&many[i], DRV_EVENT_NO_TIMING));
    MUST(cuMemAlloc(&d, MIB));
    MUST(cuMemAllocHost(&host, MIB));
    size_t bytes = sizeof(wide_args), few = sizeof(spin_args);
    wide_args args = {{0}};
    void *extra[] = {DRV_LAUNCH_POINTER, &args, DRV_LAUNCH_SIZE, &bytes, DRV_LAUNCH_END};
    TIMED(1000, cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, s[0], NULL, extra));
    TIMED(20000, cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, s[0], NULL, extra));
    say("launch of 400 B: %.2f us (processor %.2f), through %.2f; ", wall / 1e3, cpu / 1e3, through / 1e3);
    drv_function small = kernel("busy");
    spin_args no_time = {0};
    void *less[] = {DRV_LAUNCH_POINTER, &no_time, DRV_LAUNCH_SIZE, &few, DRV_LAUNCH_END};
    TIMED(20000, cuLaunchKernel(small, 1, 1, 1, 128, 1, 1, 0, s[0], NULL, less));
    say("of 8 B: processor %.2f, through %.2f; ", cpu / 1e3, through / 1e3);
    TIMED(20000, cuEventRecord(many[i & 63], s[0]));
    say("event %.2f; ", cpu / 1e3);
    TIMED(20000, cuStreamWaitEvent(s[i & 1], many[i & 63], 0));
    say("wait %.2f; ", cpu / 1e3);
    TIMED(20000, cuMemcpyHtoDAsync(d, host, 4096, s[0]));
    say("copy of 4 KiB %.2f, through %.2f; ", cpu / 1e3, through / 1e3);
    TIMED(20000, cuEventQuery(many[0]));
    say("event asked for %.2f; ", cpu / 1e3);
    TIMED(20000, cuMemsetD8Async(d, 0, 4096, s[0]));
    say("set of 4 KiB %.2f; ", cpu / 1e3);
    double took[500];
    for (int i = 0; i < 500; i++) {
        double t = now_s();
        MUST(cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, s[0], NULL, extra));
        MUST(cuEventRecord(e, s[0]));
        MUST(cuEventSynchronize(e));
        took[i] = 1e6 * (now_s() - t);
    }
    say("launch and wait for it %.1f us", median(took, 500));
    return YES;
}

enum { MOST = 120, LAUNCH_BYTES = 40 + sizeof(wide_args), FLUSH = 8 };

static void server(int fd,
                   void *arg) /* what tensord-cuda's RUN does: messages of launches, an answer for each message */
{
    (void)arg;
    open_device();
    drv_function f = kernel("nothing");
    drv_stream s;
    MUST(cuStreamCreate(&s, DRV_STREAM_NON_BLOCKING));
    static char buffer[MOST * LAUNCH_BYTES];
    TELL(fd, 0);
    for (;;) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);
        if (n <= 0) return;
        for (char *at = buffer; at + LAUNCH_BYTES <= buffer + n; at += LAUNCH_BYTES)
            if (launch_on(s, f, 1, 128, at + 40, sizeof(wide_args))) _exit(NO);
        if (n == FLUSH) {
            MUST(cuStreamSynchronize(s));
            TELL(fd, 0);
        }
    }
}

/* 9b */
static int through_socket(int unused)
{
    (void)unused;
    static char buffer[MOST * LAUNCH_BYTES];
    actor a = actor_start(server, NULL);
    hear(a.fd, NULL);
    static const int batches[] = {1, 8, 64, MOST};
    for (int b = 0; b < 4; b++)
        for (int again = 0; again < 2; again++) {
            int batch = batches[b], n = 60000 / batch;
            double start = now_s(), cpu = cpu_s();
            for (int i = 0; i < n; i++)
                if (send(a.fd, buffer, (size_t)batch * LAUNCH_BYTES, MSG_NOSIGNAL) < 0) return NO;
            cpu = cpu_s() - cpu;
            if (send(a.fd, buffer, FLUSH, MSG_NOSIGNAL) < 0) return NO;
            hear(a.fd, NULL);
            if (again)
                say("%d a message: %.0f thousand launches/s, sender's processor %.2f us each%s", batch,
                    n * batch / (now_s() - start) / 1e3, 1e6 * cpu / (n * batch), b < 3 ? "; " : "");
        }
    double took[500];
    for (int i = 0; i < 500; i++) {
        double t = now_s();
        if (send(a.fd, buffer, LAUNCH_BYTES, MSG_NOSIGNAL) < 0 || send(a.fd, buffer, FLUSH, MSG_NOSIGNAL) < 0)
            return NO;
        hear(a.fd, NULL);
        took[i] = 1e6 * (now_s() - t);
    }
    say("; one launch, sent and awaited %.1f us", median(took, 500));
    return YES;
}

const question questions_cost[] = {
    {"7", "arenas: make, export, import", 25, arenas, 0},
    {"8", "context and module", 30, context, 0},
    {"9a", "calls of the driver", 25, calls, 0},
    {"9b", "launches through a socket", 25, through_socket, 0},
    {NULL},
};
