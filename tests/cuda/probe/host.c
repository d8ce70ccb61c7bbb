/* Questions 5 and 6: memory of the host that the device reads and writes, and marks in it. */
#include "tests/cuda/probe/probe.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static int memory(size_t bytes)
{
    int fd = memfd_create("probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) || fallocate(fd, 0, 0, (off_t)bytes)) {
        say("memfd: %s; ", strerror(errno));
        _exit(NO);
    }
    return fd;
}

static void *map(int fd, size_t bytes, int how)
{
    void *p = mmap(NULL, bytes, how, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        say("mmap: %s; ", strerror(errno));
        _exit(NO);
    }
    return p;
}

static drv_ptr room(size_t bytes)
{
    drv_ptr p;
    MUST(cuMemAlloc(&p, bytes));
    return p;
}

static double gb_s(drv_ptr to, void *from, size_t bytes, bool back)
{
    double took[5];
    for (int i = 0; i < 5; i++) {
        double start = now_s();
        if (back) MUST(cuMemcpyDtoHAsync(from, to, bytes, NULL));
        else MUST(cuMemcpyHtoDAsync(to, from, bytes, NULL));
        MUST(cuCtxSynchronize());
        took[i] = now_s() - start;
    }
    return (double)bytes / median(took, 5) / 1e9;
}

static void other(int fd, void *arg) /* registers the memory that the first one has registered, too */
{
    size_t bytes = *(size_t *)arg;
    int memory_fd;
    hear(fd, &memory_fd);
    open_device();
    void *p = map(memory_fd, bytes, PROT_READ | PROT_WRITE);
    int err = drv.cuMemHostRegister(p, bytes, DRV_REGISTER_MAP);
    drv_ptr d = room(bytes);
    int64_t wrong = -1;
    if (!err) {
        MUST(cuMemcpyHtoD(d, p, bytes));
        wrong = differing(d, bytes, 3);
    }
    TELL(fd, (uint64_t)err, (uint64_t)wrong);
    hear(fd, NULL);
}

/* 5a: seals, read-only maps, two processes. */
static int registered(int unused)
{
    (void)unused;
    size_t bytes = 64 * MIB;
    actor b = actor_start(other, &bytes);
    open_device();
    int fd = memory(bytes), err;
    void *p = map(fd, bytes, PROT_READ | PROT_WRITE);
    err = drv.cuMemHostRegister(p, bytes, DRV_REGISTER_MAP);
    say("memfd: %s; ", drv_name(err));
    if (err) return NO;
    drv_ptr d = room(bytes), seen;
    fill(d, bytes, 3);
    MUST(cuMemcpyDtoH(p, d, bytes));
    err = drv.cuMemHostGetDevicePointer(&seen, p, 0);
    if (!err) {
        int64_t wrong = differing(seen, bytes, 3);
        say("kernels read it in place: %s%s; ", wrong ? "no" : "yes",
            seen == (drv_ptr)p ? " at the host's address" : "");
    }
    tell(b.fd, (word){{0}}, fd);
    word w = hear(b.fd, NULL);
    say("in two processes: %s; ", w.value[1] ? drv_name((int)w.value[0]) : "ok");
    err = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    say("sealed in size while registered: %s; ", err ? strerror(errno) : "ok");
    int whole = memory(bytes);
    void *w2 = map(whole, bytes, PROT_READ | PROT_WRITE);
    memcpy(w2, p, bytes);
    munmap(w2, bytes);
    err = fcntl(whole, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    say("write seal: %s; ", err ? strerror(errno) : "ok");
    void *r = map(whole, bytes, PROT_READ);
    err = drv.cuMemHostRegister(r, bytes, DRV_REGISTER_MAP);
    say("its read-only map: %s, ", drv_name(err));
    if (err) {
        err = drv.cuMemHostRegister(r, bytes, DRV_REGISTER_MAP | DRV_REGISTER_READ_ONLY);
        say("with READ_ONLY: %s; ", drv_name(err));
    }
    int punched = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)(2 * MIB));
    err = drv.cuMemcpyHtoD(d, p, bytes);
    say("a hole punched under it: %s, the copy after %s, ", punched ? strerror(errno) : "ok", drv_name(err));
    if (!err) say("%lld words differ", (long long)differing(d, bytes, 3));
    int part = memory(MIB);
    char *q = map(part, MIB, PROT_READ | PROT_WRITE);
    err = drv.cuMemHostRegister(q + 8192, 65536, DRV_REGISTER_MAP);
    say("; 64 KiB at 8 KiB: %s", drv_name(err));
    return YES;
}

/* 5b: how fast. */
static int speed(int unused)
{
    (void)unused;
    open_device();
    size_t bytes = 1024ull * MIB;
    int fd = memory(bytes);
    drv_ptr d = room(bytes);
    char *p = map(fd, bytes, PROT_READ | PROT_WRITE);
    memset(p, 1, bytes);
    say("pageable memfd in %.1f, out %.1f; ", gb_s(d, p, bytes, false), gb_s(d, p, bytes, true));
    double start = now_s();
    MUST(cuMemHostRegister(p, bytes, DRV_REGISTER_MAP));
    say("register 1 GiB %.0f ms, ", 1e3 * (now_s() - start));
    say("registered in %.1f, out %.1f GB/s; ", gb_s(d, p, bytes, false), gb_s(d, p, bytes, true));
    start = now_s();
    MUST(cuMemHostUnregister(p));
    say("unregister %.0f ms; ", 1e3 * (now_s() - start));
    start = now_s();
    MUST(cuMemHostRegister(p, 64 * MIB, DRV_REGISTER_MAP));
    say("64 MiB %.1f ms; ", 1e3 * (now_s() - start));
    void *own;
    MUST(cuMemAllocHost(&own, 256 * MIB));
    memset(own, 1, 256 * MIB);
    say("the driver's own %.1f; ", gb_s(d, own, 256 * MIB, false));
    enum { PIECE = MIB, PIECES = 8 }; /* a staging ring of 8 MiB, filled by memcpy */
    char *ring = p;
    drv_event done[PIECES];
    for (int i = 0; i < PIECES; i++) MUST(cuEventCreate(&done[i], DRV_EVENT_NO_TIMING));
    for (int way = 0; way < 2; way++) {
        start = now_s();
        for (size_t at = 0; at < 256u; at++) {
            int i = (int)(at % PIECES);
            char *slot = ring + (size_t)i * PIECE, *far = p + 256 * MIB + at * PIECE;
            if (way == 0) {
                if (at >= PIECES) MUST(cuEventSynchronize(done[i]));
                memcpy(slot, far, PIECE);
                MUST(cuMemcpyHtoDAsync(d + at * PIECE, slot, PIECE, NULL));
                MUST(cuEventRecord(done[i], NULL));
            } else {
                MUST(cuMemcpyDtoHAsync(slot, d + at * PIECE, PIECE, NULL));
                MUST(cuEventRecord(done[i], NULL));
                if (at >= PIECES - 1) {
                    MUST(cuEventSynchronize(done[(at + 1) % PIECES]));
                    memcpy(far, ring + (at + 1) % PIECES * PIECE, PIECE);
                }
            }
        }
        MUST(cuCtxSynchronize());
        say("by staging in pieces of 1 MiB %s %.1f GB/s%s", way ? "out" : "in", 256.0 * MIB / (now_s() - start) / 1e9,
            way ? "" : ", ");
    }
    return YES;
}

static size_t available_bytes(void)
{
    char line[200];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    if (f) fclose(f);
    return (size_t)kib << 10;
}

/* 5c: how much, up to a third of what the machine has to spare. */
static int limit(int unused)
{
    (void)unused;
    open_device();
    struct rlimit r;
    getrlimit(RLIMIT_MEMLOCK, &r);
    if (r.rlim_cur == RLIM_INFINITY) say("memlock unlimited; ");
    else say("memlock %llu KiB; ", (unsigned long long)r.rlim_cur >> 10);
    size_t have = 0;
    for (int i = 0; i < 6; i++) {
        size_t bytes = (1ull << i) * 512 * MIB;
        if (bytes > available_bytes() / 3) break;
        void *p = map(memory(bytes), bytes, PROT_READ | PROT_WRITE);
        double start = now_s();
        int err = drv.cuMemHostRegister(p, bytes, DRV_REGISTER_MAP);
        if (err) {
            say("then %zu MiB: %s", bytes / MIB, drv_name(err));
            return NO;
        }
        have += bytes;
        say("%zu MiB (%.0f ms) ", have / MIB, 1e3 * (now_s() - start));
    }
    return YES;
}

/* 6: marks in a registered page. */
static void answerer(int fd, void *arg)
{
    int rounds = *(int *)arg, memory_fd;
    hear(fd, &memory_fd);
    open_device();
    void *page = map(memory_fd, 4096, PROT_READ | PROT_WRITE);
    drv_ptr mark;
    MUST(cuMemHostRegister(page, 4096, DRV_REGISTER_MAP));
    MUST(cuMemHostGetDevicePointer(&mark, page, 0));
    TELL(fd, 0);
    hear(fd, NULL);
    for (int i = 1; i <= rounds; i++) {
        MUST(cuStreamWaitValue64(NULL, mark, (uint64_t)i, DRV_WAIT_GEQ));
        MUST(cuStreamWriteValue64(NULL, mark + 64, (uint64_t)i, 0));
    }
    MUST(cuStreamSynchronize(NULL));
    TELL(fd, 0);
    hear(fd, NULL);
}

static int marks(int by_kernel)
{
    int rounds = 200, fd = memory(4096);
    actor b = actor_start(answerer, &rounds);
    tell(b.fd, (word){{0}}, fd);
    hear(b.fd, NULL);
    open_device();
    volatile uint64_t *page = map(fd, 4096, PROT_READ | PROT_WRITE);
    drv_ptr mark;
    MUST(cuMemHostRegister((void *)page, 4096, DRV_REGISTER_MAP));
    MUST(cuMemHostGetDevicePointer(&mark, (void *)page, 0));
    double took[200];
    if (by_kernel) { /* stream to stream, through both processes */
        TELL(b.fd, 0);
        double start = now_s();
        for (int i = 1; i <= rounds; i++) {
            MUST(cuStreamWriteValue64(NULL, mark, (uint64_t)i, 0));
            MUST(cuStreamWaitValue64(NULL, mark + 64, (uint64_t)i, DRV_WAIT_GEQ));
        }
        MUST(cuStreamSynchronize(NULL));
        say("stream to stream and back %.1f us a round", 1e6 * (now_s() - start) / rounds);
        hear(b.fd, NULL);
        return YES;
    }
    for (int i = 0; i < 200; i++) { /* the host sees what a stream wrote */
        double start = now_s();
        MUST(cuStreamWriteValue64(NULL, mark + 128, (uint64_t)i + 1, 0));
        while (page[16] != (uint64_t)i + 1) {
        }
        took[i] = now_s() - start;
    }
    say("stream's write seen by the host %.1f us; ", 1e6 * median(took, 200));
    drv_event e;
    MUST(cuEventCreate(&e, DRV_EVENT_NO_TIMING));
    for (int i = 0; i < 200; i++) {
        double start = now_s();
        MUST(cuEventRecord(e, NULL));
        while (drv.cuEventQuery(e)) {
        }
        took[i] = now_s() - start;
    }
    say("an event asked for %.1f us; ", 1e6 * median(took, 200));
    TELL(b.fd, 0); /* its stream waits: the host writes, and sees the answer */
    usleep(50000);
    for (int i = 0; i < 200; i++) {
        double start = now_s();
        page[0] = (uint64_t)i + 1;
        while (page[8] != (uint64_t)i + 1) {
        }
        took[i] = now_s() - start;
    }
    hear(b.fd, NULL);
    say("host's write, other process's stream, its write seen %.1f us", 1e6 * median(took, 200));
    return YES;
}

const question questions_host[] = {
    {"5a", "register a memfd: seals, read-only, two", 25, registered, 0},
    {"5b", "copies from registered memory", 30, speed, 0},
    {"5c", "how much can be registered", 40, limit, 0},
    {"6a", "marks in a page, host and stream", 20, marks, 0},
    {"6b", "marks in a page, stream and stream", 20, marks, 1},
    {NULL},
};
