/* Questions 10 and 13: two processes at once, and byte code behind memory. */
#include "tests/cuda/probe/probe.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KERNELS = 20 };

typedef struct load {
    const char *kernel;
    unsigned grid;
    uint64_t ns;
} load;

static void worker(int fd, void *arg)
{
    load *l = arg;
    open_device();
    drv_function f = kernel(l->kernel);
    spin_args args = {l->ns};
    TELL(fd, 0);
    for (;;) {
        uint64_t n = hear(fd, NULL).value[0];
        if (!n) return;
        double start = now_s();
        for (uint64_t i = 0; i < n; i++)
            if (LAUNCH(f, l->grid, 256, args)) _exit(NO);
        MUST(cuCtxSynchronize());
        TELL(fd, (uint64_t)((now_s() - start) * 1e6));
    }
}

/* 10a: small kernels of two processes. */
static int turns(int unused)
{
    (void)unused;
    load l = {"busy", 1, 5000000};
    actor a = actor_start(worker, &l), b = actor_start(worker, &l);
    hear(a.fd, NULL), hear(b.fd, NULL);
    TELL(a.fd, KERNELS);
    double alone = (double)hear(a.fd, NULL).value[0];
    TELL(a.fd, KERNELS);
    TELL(b.fd, KERNELS);
    double both = (double)hear(a.fd, NULL).value[0], second = (double)hear(b.fd, NULL).value[0];
    if (second > both) both = second;
    say("20 kernels of one block and 5 ms: alone %.0f ms, two processes at once %.0f ms: %s", alone / 1e3, both / 1e3,
        both > 1.6 * alone ? "they take turns" : "they overlap");
    return YES;
}

/* 10b: how long a small kernel waits beside a long one of another process. */
static int waits(int unused)
{
    (void)unused;
    load l = {"busy", 1056, 10000000};
    actor a = actor_start(worker, &l);
    hear(a.fd, NULL);
    open_device();
    drv_function f = kernel("nothing");
    wide_args args = {{0}};
    double took[400];
    for (int way = 0; way < 2; way++) {
        if (way) {
            TELL(a.fd, 60);
            usleep(20000);
        }
        int n = 0;
        for (double until = now_s() + 0.5; n < 400 && now_s() < until; n++) {
            double t = now_s();
            if (LAUNCH(f, 1, 32, args)) return NO;
            MUST(cuCtxSynchronize());
            took[n] = 1e3 * (now_s() - t);
        }
        double mid = median(took, n);
        say("%s: median %.3f ms, slowest %.2f ms (%d)%s",
            way ? "beside full kernels of 10 ms in another process" : "a small kernel alone", mid, took[n - 1], n,
            way ? "" : "; ");
    }
    hear(a.fd, NULL);
    TELL(a.fd, 0);
    actor_end(&a);
    return YES;
}

/* 10c: the same within one process, in streams. */
static int streams(int unused)
{
    (void)unused;
    open_device();
    drv_function busy = kernel("busy"), f = kernel("nothing");
    drv_stream s[2];
    for (int i = 0; i < 2; i++) MUST(cuStreamCreate(&s[i], DRV_STREAM_NON_BLOCKING));
    wide_args args = {{0}};
    static const unsigned grids[] = {1, 132, 1056, 10560};
    for (int g = 0; g < 4; g++) {
        spin_args long_args = {grids[g] > 2000 ? 1000000 : 10000000};
        double took[200];
        int n = 0;
        for (int i = 0; i < 30; i++)
            if (launch_on(s[0], busy, grids[g], 256, &long_args, sizeof long_args)) return NO;
        while (n < 200 && drv.cuStreamQuery(s[0])) {
            double t = now_s();
            if (launch_on(s[1], f, 1, 32, &args, sizeof args)) return NO;
            MUST(cuStreamSynchronize(s[1]));
            took[n++] = 1e3 * (now_s() - t);
        }
        MUST(cuCtxSynchronize());
        double mid = n ? median(took, n) : 0;
        say("beside %u blocks of %.0f ms: median %.3f, slowest %.2f ms%s", grids[g], (double)long_args.ns / 1e6, mid,
            n ? took[n - 1] : 0, g < 3 ? "; " : "");
    }
    return YES;
}

/* 13 */
static int byte_code(int unused)
{
    (void)unused;
    open_device();
    uint64_t n = 256ull << 20;
    drv_function f = kernel("code");
    drv_event from, to;
    MUST(cuEventCreate(&from, 0));
    MUST(cuEventCreate(&to, 0));
    code_args args = {.n = n};
    MUST(cuMemAlloc(&args.a, n * 4));
    MUST(cuMemAlloc(&args.b, n * 4));
    MUST(cuMemAlloc(&args.out, n * 4));
    MUST(cuMemsetD8Async(args.a, 0x3f, n * 4, NULL));
    MUST(cuMemsetD8Async(args.b, 0x3f, n * 4, NULL));
    static const int steps[] = {1, 4, 8, 12, 16, 24, 32, 64};
    static const unsigned char cheap[] = {0x10, 0x11, 0x22, 0x33, 0x10, 0x12, 0x21, 0x25};
    double one = 0;
    for (int k = 0; k < 8; k++) {
        double took[5];
        args.steps = steps[k];
        for (int i = 0; i < steps[k]; i++) args.code[i] = cheap[i % 8];
        for (int i = 0; i < 6; i++) {
            float ms;
            MUST(cuEventRecord(from, NULL));
            if (LAUNCH(f, 132 * 8, 256, args)) return NO;
            MUST(cuEventRecord(to, NULL));
            MUST(cuEventSynchronize(to));
            MUST(cuEventElapsedTime(&ms, from, to));
            if (i) took[i - 1] = ms;
        }
        double ms = median(took, 5);
        if (k == 0) one = ms;
        if (k == 0)
            say("2 reads and a write of 256 M floats: 1 step %.2f ms (%.2f TB/s)", ms, 12.0 * (double)n / ms / 1e9);
        else say(", %d x%.2f", steps[k], ms / one);
    }
    args.steps = 4;
    for (int i = 0; i < 4; i++) args.code[i] = i & 1 ? 0x11 : 0x06;
    float ms;
    for (int i = 0; i < 2; i++) {
        MUST(cuEventRecord(from, NULL));
        if (LAUNCH(f, 132 * 8, 256, args)) return NO;
        MUST(cuEventRecord(to, NULL));
        MUST(cuEventSynchronize(to));
    }
    MUST(cuEventElapsedTime(&ms, from, to));
    say("; two exp and two products x%.2f", ms / one);
    return YES;
}

const question questions_beside[] = {
    {"10a", "two processes' small kernels", 20, turns, 0},
    {"10b", "a small kernel beside another process", 20, waits, 0},
    {"10c", "a small kernel beside another stream", 20, streams, 0},
    {"13", "byte code: steps hidden behind memory", 20, byte_code, 0},
    {NULL},
};
