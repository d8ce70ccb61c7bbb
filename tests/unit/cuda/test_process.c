/* tensord-cuda by itself: greeting, memory of both kinds, streams, failures, ends.
 *
 * It runs on the fake driver, and on a real one (TENSORD_LIBCUDA not set, TENSORD_CUDA_KERNELS a cubin of
 * tests/support/cuda_kernels.cu); what only the fake one can show is skipped there. */
#include "shm/cuda/driver.h"
#include "tests/unit/cuda/process.h"
#include "tests/unit/cunit_main.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { MIB = 1 << 20, ADD = 0, FAIL, SLOW, WILD, NOT_THERE };
static const char *const kernels[] = {"test_add", "test_fail", "test_slow", "test_wild", "test_nothing"};
static process p, q;

typedef struct add_args {
    uint64_t error, out, a, b, count;
} add_args;
typedef struct fail_args {
    uint64_t error, number;
} fail_args;
typedef struct slow_args {
    uint64_t error, at, count, rounds;
} slow_args;
typedef struct wild_args {
    uint64_t error, at;
} wild_args;

static bool on_fake(void)
{
    return getenv("TENSORD_LIBCUDA") != NULL;
}

static bool has_kernels(void)
{
    return getenv("TENSORD_CUDA_KERNELS") != NULL;
}

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static bool start(process *it, td_gpu_handles handles)
{
    bool started = process_start(it, handles) && !it->greeting.code;
    if (!started) printf("greeting: %s\n", it->greeting.why);
    return started && process_names(it, 0, kernels, sizeof kernels / sizeof *kernels);
}

static void let_go(process_memory *m)
{
    if (m->fd >= 0) close(m->fd);
    m->fd = -1;
}

/* ---- another process that looks at an arena, as a client does: this program with the handle as its input */

static int look(bool vmm)
{
    static td_cuda_driver d;
    td_error e;
    CUdevice device;
    CUcontext context;
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    CUipcMemHandle ipc;
    int n = 0;
    if (td_cuda_driver_open(&d, &e) || d.cuInit(0) || d.cuDeviceGet(&device, 0)) return 1;
    if (d.cuDevicePrimaryCtxRetain(&context, device) || d.cuCtxSetCurrent(context)) return 2;
    if (vmm) {
        const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        if (d.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
            return 3;
        if (d.cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0) || d.cuMemMap(at, 4 * MIB, 0, handle, 0)) return 4;
        if (d.cuMemSetAccess(at, 4 * MIB, &access, 1)) return 5;
    } else {
        if (read(0, &ipc, sizeof ipc) != sizeof ipc) return 3;
        if (d.cuIpcOpenMemHandle(&at, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) return 4;
    }
    if (d.cuMemcpyDtoH(&n, at + MIB, sizeof n) || n != 4) return 6;
    n = 9;
    return d.cuMemcpyHtoD(at + MIB, &n, sizeof n) || d.cuCtxSynchronize() ? 7 : 0;
}

static int looked(const process_memory *m)
{
    char *argv[] = {(char *)"/proc/self/exe", (char *)(m->fd >= 0 ? "look vmm" : "look ipc"), (char *)"-", NULL};
    int input = m->fd, pipes[2] = {-1, -1}, status = -1;
    pid_t pid;
    if (input < 0) {
        if (pipe2(pipes, O_CLOEXEC) || write(pipes[1], m->handle, sizeof m->handle) != sizeof m->handle) return -1;
        input = pipes[0];
    }
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input, 0);
    if (!posix_spawn(&pid, argv[0], &files, NULL, argv, environ)) waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&files);
    if (pipes[0] >= 0) close(pipes[0]);
    if (pipes[1] >= 0) close(pipes[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- greeting and memory */

static void greets(void)
{
    CU_ASSERT_FATAL(start(&p, TD_GPU_HANDLES_AUTO));
    printf("device: %s, sm_%u%u, driver %u, %.1f GB, handles %u, staging %s\n", p.greeting.name, p.greeting.major,
           p.greeting.minor, p.greeting.version, (double)p.greeting.bytes / 1e9, p.greeting.handles,
           p.greeting.registered ? "registered" : "pageable");
    if (on_fake()) CU_ASSERT_STRING_EQUAL(p.greeting.name, "fake driver, no GPU");
    CU_ASSERT_TRUE(p.greeting.bytes > 0 && p.greeting.granule > 0);
    CU_ASSERT_TRUE(process_end(&p));
    CU_ASSERT_TRUE(WIFEXITED(p.status) && WEXITSTATUS(p.status) == 0);
}

static void arena_of(td_gpu_handles handles)
{
    process_memory m;
    int n = 4, zeros[16];
    memset(zeros, 1, sizeof zeros);
    CU_ASSERT_FATAL(start(&p, handles));
    CU_ASSERT_EQUAL(p.greeting.handles, handles);
    CU_ASSERT_FATAL(process_arena(&p, 4 * MIB, &m) && !m.code);
    CU_ASSERT_EQUAL(m.fd >= 0, handles == TD_GPU_HANDLES_VMM);
    CU_ASSERT_TRUE(process_read(&p, m.address + MIB, zeros, sizeof zeros));
    for (int i = 0; i < 16; i++) CU_ASSERT_EQUAL(zeros[i], 0);
    CU_ASSERT_TRUE(process_write(&p, m.address + MIB, &n, sizeof n));
    CU_ASSERT_EQUAL(looked(&m), 0);
    CU_ASSERT_TRUE(process_read(&p, m.address + MIB, &n, sizeof n));
    CU_ASSERT_EQUAL(n, 9);
    CU_ASSERT_TRUE(process_arena_end(&p, &m));
    let_go(&m);
    CU_ASSERT_TRUE(process_arena(&p, 2 * MIB, &m) && !m.code);
    CU_ASSERT_TRUE(process_arena_end(&p, &m));
    let_go(&m);
    CU_ASSERT_TRUE(process_end(&p));
}

static void arena_vmm(void)
{
    arena_of(TD_GPU_HANDLES_VMM);
}

static void arena_ipc(void)
{
    arena_of(TD_GPU_HANDLES_IPC);
}

/* What the process had made is there for the next one, at its address, whole. */
static void outlives(void)
{
    process_memory m, again, next;
    int sent[1024], got[1024] = {0};
    for (int i = 0; i < 1024; i++) sent[i] = i * 7;
    CU_ASSERT_FATAL(start(&p, TD_GPU_HANDLES_VMM));
    CU_ASSERT_FATAL(process_arena(&p, 64 * MIB, &m) && !m.code);
    CU_ASSERT_TRUE(process_write(&p, m.address + 33 * MIB, sent, sizeof sent));
    process_kill(&p);
    CU_ASSERT_FATAL(start(&q, TD_GPU_HANDLES_VMM));
    CU_ASSERT_FATAL(process_import(&q, &m, &again));
    if (again.code) printf("at its address: %s\n", again.why);
    CU_ASSERT_FATAL(!again.code);
    CU_ASSERT_EQUAL(again.address, m.address);
    CU_ASSERT_TRUE(process_read(&q, m.address + 33 * MIB, got, sizeof got));
    CU_ASSERT_EQUAL(memcmp(sent, got, sizeof sent), 0);
    CU_ASSERT_TRUE(process_arena(&q, 2 * MIB, &next) && !next.code); /* beside it */
    CU_ASSERT_TRUE(process_arena_end(&q, &m));
    CU_ASSERT_TRUE(process_end(&q));
    let_go(&m);
    let_go(&next);
}

static void without(const char *what, td_gpu_handles wanted, uint32_t expected)
{
    setenv("FAKE_CUDA_NO", what, 1);
    CU_ASSERT_TRUE(process_start(&p, wanted));
    CU_ASSERT_EQUAL(p.greeting.code == 0, expected != 0);
    if (!p.greeting.code) CU_ASSERT_EQUAL(p.greeting.handles, expected);
    if (p.greeting.code) CU_ASSERT_TRUE(p.greeting.why[0]);
    process_kill(&p);
    unsetenv("FAKE_CUDA_NO");
}

static void lesser_drivers(void)
{
    process_memory m, again;
    if (!on_fake()) {
        td_test_skip("a real driver works in all ways");
        return;
    }
    without("vmm", TD_GPU_HANDLES_AUTO, TD_GPU_HANDLES_IPC);
    without("export", TD_GPU_HANDLES_AUTO, TD_GPU_HANDLES_IPC);
    without("export,ipc", TD_GPU_HANDLES_AUTO, TD_GPU_HANDLES_NONE);
    without("export", TD_GPU_HANDLES_VMM, 0);
    without("ipc", TD_GPU_HANDLES_IPC, 0);
    /* Another address than before is refused. */
    CU_ASSERT_FATAL(start(&p, TD_GPU_HANDLES_VMM));
    CU_ASSERT_FATAL(process_arena(&p, 4 * MIB, &m) && !m.code);
    process_kill(&p);
    setenv("FAKE_CUDA_NO", "hint,register", 1);
    CU_ASSERT_FATAL(start(&q, TD_GPU_HANDLES_VMM));
    CU_ASSERT_FALSE(q.greeting.registered);
    CU_ASSERT_FATAL(process_import(&q, &m, &again));
    CU_ASSERT_NOT_EQUAL(again.code, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(again.why, "another address"));
    let_go(&m);
    CU_ASSERT_TRUE(process_arena(&q, 4 * MIB, &m) && !m.code); /* it goes on, also without registered memory */
    int n = 5;
    CU_ASSERT_TRUE(process_write(&q, m.address, &n, sizeof n) && process_read(&q, m.address, &n, sizeof n) && n == 5);
    let_go(&m);
    CU_ASSERT_TRUE(process_end(&q));
    unsetenv("FAKE_CUDA_NO");
}

static void no_room(void)
{
    process_memory m;
    CU_ASSERT_FATAL(start(&p, TD_GPU_HANDLES_VMM));
    CU_ASSERT_FATAL(process_arena(&p, p.greeting.bytes + 2 * MIB, &m));
    CU_ASSERT_EQUAL(m.code, CUDA_ERROR_OUT_OF_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(m.why, "out of memory"));
    CU_ASSERT_TRUE(process_arena(&p, 2 * MIB, &m) && !m.code);
    let_go(&m);
    CU_ASSERT_TRUE(process_end(&p));
}

/* ---- streams */

static void fills_and_copies(void)
{
    process_memory m;
    unsigned char value[16], got[256];
    for (int i = 0; i < 16; i++) value[i] = (unsigned char)(i + 1);
    CU_ASSERT_FATAL(start(&p, TD_GPU_HANDLES_VMM));
    CU_ASSERT_FATAL(process_arena(&p, 4 * MIB, &m) && !m.code);
    for (uint32_t unit = 1; unit <= 16; unit *= 2) {
        run_fill(&p, 0, m.address + 64, unit, value, 5);
        run_move(&p, TD_GPU_COPY, 0, m.address + MIB, m.address, 256);
        CU_ASSERT_TRUE(process_ends(&p, 0));
        CU_ASSERT_TRUE(process_read(&p, m.address + MIB, got, sizeof got));
        for (uint32_t i = 0; i < 5 * unit; i++) CU_ASSERT_EQUAL(got[64 + i], value[i % unit]);
        CU_ASSERT_EQUAL(got[63], 0);
        CU_ASSERT_EQUAL(got[64 + 5 * unit], 0);
    }
    let_go(&m);
    CU_ASSERT_TRUE(process_end(&p));
}

/* Four streams in a circle, each waits for the one before it: sums come out as they would one after the other. */
static void streams_wait(void)
{
    process_memory m;
    enum { COUNT = 100000 };
    static float got[COUNT];
    const float one = 1.0f;
    if (!has_kernels()) {
        td_test_skip("no kernels: no C++ compiler here");
        return;
    }
    CU_ASSERT_FATAL(start(&p, TD_GPU_HANDLES_AUTO));
    CU_ASSERT_TRUE(p.greeting.kernels);
    CU_ASSERT_FATAL(process_arena(&p, 4 * MIB, &m) && !m.code);
    run_fill(&p, 0, m.address, 4, &one, COUNT);
    for (unsigned i = 0; i < 20; i++) {
        unsigned s = i % 4;
        add_args add = {0, m.address, m.address, m.address, COUNT};
        slow_args slow = {0, m.address, COUNT, on_fake() ? 1 : 200};
        if (i) run_wait(&p, s, (s + 3) % 4);
        /* x / 2 + 1 of 2 is 2: once for the fake one, 200 times for a GPU. */
        run_launch(&p, s, ADD, (COUNT + 255) / 256, &add, sizeof add);
        if (i == 0) run_launch(&p, s, SLOW, (COUNT + 255) / 256, &slow, sizeof slow);
        run_end(&p, s);
    }
    CU_ASSERT_TRUE(process_ends(&p, 3));
    run_wait(&p, TD_GPU_STREAMS - 1, 3);
    CU_ASSERT_TRUE(process_read(&p, m.address, got, sizeof got));
    CU_ASSERT_DOUBLE_EQUAL(got[0], 1048576.0, 0);
    CU_ASSERT_DOUBLE_EQUAL(got[COUNT - 1], 1048576.0, 0);
    let_go(&m);
    CU_ASSERT_TRUE(process_end(&p));
}

/* More ends than the ring has, of which each comes back once, in order. */
static void many_ends(void)
{
    enum { MANY = 3000 };
    uint64_t last[TD_GPU_STREAMS] = {0};
    unsigned count = 0;
    td_gpu_ended m;
    bool in_order = true;
    CU_ASSERT_FATAL(start(&p, TD_GPU_HANDLES_AUTO));
    for (unsigned i = 0; i < MANY; i++) {
        run_end(&p, i % TD_GPU_STREAMS);
        if (i % 100 == 99) CU_ASSERT_FATAL(run_send(&p));
    }
    while (count < MANY && process_ended(&p, &m))
        for (uint32_t i = 0; i < m.count; i++, count++) {
            in_order &= m.end[i].place > last[m.end[i].stream] && !m.end[i].fault.bits && !m.end[i].code;
            last[m.end[i].stream] = m.end[i].place;
        }
    CU_ASSERT_EQUAL(count, MANY);
    CU_ASSERT_TRUE(in_order);
    CU_ASSERT_TRUE(process_end(&p));
}

/* ---- failures */

static void error_words(void)
{
    td_gpu_end e;
    fail_args fail = {0, 77};
    if (!has_kernels()) {
        td_test_skip("no kernels: no C++ compiler here");
        return;
    }
    CU_ASSERT_FATAL(start(&p, TD_GPU_HANDLES_AUTO));
    for (unsigned i = 0; i < 600; i++) { /* around the ring */
        run_launch(&p, 1, FAIL, 2, &fail, sizeof fail);
        CU_ASSERT_TRUE(process_end_of(&p, 1, &e) && e.fault.bits == 77 && !e.code);
        CU_ASSERT_TRUE(process_end_of(&p, 1, &e) && e.fault.bits == 0);
    }
    /* What the driver refuses is told with the next end, and nothing else is touched. */
    run_launch(&p, 2, NOT_THERE, 1, &fail, sizeof fail);
    CU_ASSERT_TRUE(process_end_of(&p, 2, &e) && e.code == CUDA_ERROR_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(p.told.why, "test_nothing is not in this build"));
    run_launch(&p, 2, FAIL, 1, &fail, sizeof fail);
    CU_ASSERT_TRUE(process_end_of(&p, 2, &e) && e.fault.bits == 77 && !e.code);
    run_move(&p, TD_GPU_COPY, 2, 4096, 8192, 64); /* no such addresses */
    CU_ASSERT_FALSE(process_end_of(&p, 2, &e) && !e.code);
    process_kill(&p);
}

/* A kernel that writes where nothing is: the process says why, and ends; its memory is whole in the next one. */
static void a_fault(void)
{
    process_memory m, gone, again;
    int n = 41;
    td_gpu_end e;
    if (!has_kernels()) {
        td_test_skip("no kernels: no C++ compiler here");
        return;
    }
    CU_ASSERT_FATAL(start(&p, TD_GPU_HANDLES_VMM));
    CU_ASSERT_FATAL(process_arena(&p, 4 * MIB, &m) && !m.code);
    CU_ASSERT_FATAL(process_arena(&p, 4 * MIB, &gone) && !gone.code);
    CU_ASSERT_TRUE(process_write(&p, m.address, &n, sizeof n));
    CU_ASSERT_TRUE(process_arena_end(&p, &gone));
    let_go(&gone);
    wild_args wild = {0, gone.address};
    run_launch(&p, 0, WILD, 1, &wild, sizeof wild);
    CU_ASSERT_FALSE(process_end_of(&p, 0, &e));
    CU_ASSERT_EQUAL(p.told.kind, TD_GPU_FAILED);
    printf("told: %s\n", p.told.why);
    CU_ASSERT_PTR_NOT_NULL(strstr(p.told.why, "illegal memory access"));
    CU_ASSERT_TRUE(process_end(&p));
    CU_ASSERT_TRUE(WIFEXITED(p.status));
    CU_ASSERT_FATAL(start(&q, TD_GPU_HANDLES_VMM));
    CU_ASSERT_FATAL(process_import(&q, &m, &again) && !again.code);
    n = 0;
    CU_ASSERT_TRUE(process_read(&q, m.address, &n, sizeof n));
    CU_ASSERT_EQUAL(n, 41);
    CU_ASSERT_TRUE(process_end(&q));
    let_go(&m);
}

/* ---- every call made to fail, and the process killed at every message: it goes, or says so; and nothing is left */

/* A piece of work of all kinds. 0: it said that something failed, or went; 1: all of it is done, and right; -1: it is
 * wrong, and nobody said so. */
static int work(process *it, td_gpu_handles handles, int most)
{
    process_memory m = {.fd = -1}, other = {.fd = -1}, again = {.fd = -1};
    float sent[64], got[64] = {0};
    add_args add = {.count = 64};
    bool done = false;
    for (int i = 0; i < 64; i++) sent[i] = (float)i;
    do {
        if (!process_start_short(it, handles, most) || it->greeting.code) break;
        if (!process_names(it, 0, kernels, sizeof kernels / sizeof *kernels)) break;
        if (!process_arena(it, 2 * MIB, &m) || m.code || !process_arena(it, 2 * MIB, &other) || other.code) break;
        if (!process_write(it, m.address, sent, sizeof sent)) break;
        run_wait(it, 0, TD_GPU_STREAMS - 1);
        run_fill(it, 0, m.address + 4096, 16, sent, 4);
        run_move(it, TD_GPU_COPY, 0, other.address, m.address, sizeof sent);
        add.out = add.a = add.b = other.address;
        if (has_kernels()) run_launch(it, 0, ADD, 1, &add, sizeof add);
        if (!process_ends(it, 0)) break;
        run_wait(it, TD_GPU_STREAMS - 1, 0);
        if (!process_read(it, other.address, got, sizeof got)) break;
        if (!process_arena_end(it, &m)) break;
        if (handles == TD_GPU_HANDLES_VMM && (!process_import(it, &m, &again) || again.code)) break;
        done = true;
    } while (false);
    let_go(&m);
    let_go(&other);
    if (!done) return 0;
    for (int i = 0; i < 64; i++)
        if (got[i] != (has_kernels() ? 2.0f : 1.0f) * (float)i) return -1;
    return 1;
}

static bool log_has(const char *path, const char *word)
{
    char command[256];
    snprintf(command, sizeof command, "grep -q '%s' %s", word, path);
    return system(command) == 0;
}

static void fails_at(td_gpu_handles handles)
{
    char path[64], number[16];
    int n, before = descriptors();
    snprintf(path, sizeof path, "/tmp/fake-cuda-%d.log", (int)getpid());
    setenv("FAKE_CUDA_LOG", path, 1);
    for (n = 1; n < 5000; n++) {
        unlink(path);
        snprintf(number, sizeof number, "%d", n);
        setenv("FAKE_CUDA_FAIL", number, 1);
        int how = work(&p, handles, 0);
        process_kill(&p);
        if (how < 0) printf("call %d: wrong numbers, and nobody said so\n", n);
        CU_ASSERT_TRUE(how >= 0);
        CU_ASSERT_FALSE(log_has(path, "misuse"));
        if (!log_has(path, "fails as asked")) break;
    }
    printf("%d calls were made to fail, each once\n", n - 1);
    CU_ASSERT_TRUE(n > 50 && n < 5000);
    CU_ASSERT_EQUAL(descriptors(), before);
    unlink(path);
    unsetenv("FAKE_CUDA_FAIL");
    unsetenv("FAKE_CUDA_LOG");
}

static void each_call_fails(void)
{
    if (!on_fake()) {
        td_test_skip("a real driver does not fail as asked");
        return;
    }
    fails_at(TD_GPU_HANDLES_AUTO);
    fails_at(TD_GPU_HANDLES_VMM);
    fails_at(TD_GPU_HANDLES_IPC);
}

static void killed_at_each_message(void)
{
    int n, before = descriptors();
    for (n = 1; n < 100; n++) {
        int how = work(&p, TD_GPU_HANDLES_VMM, n);
        CU_ASSERT_TRUE(how >= 0);
        process_kill(&p);
        if (how) break;
    }
    printf("killed at %d messages\n", n - 1);
    CU_ASSERT_TRUE(n > 8 && n < 100);
    CU_ASSERT_EQUAL(descriptors(), before);
}

int main(int argc, char **argv)
{
    if (argc > 2) _exit(look(!strcmp(argv[1], "look vmm")));
    static const td_test tests[] = {
        {"greets, and ends with its socket", greets},
        {"an arena behind a descriptor", arena_vmm},
        {"an arena behind a legacy handle", arena_ipc},
        {"memory outlives the process", outlives},
        {"drivers that can less", lesser_drivers},
        {"no room", no_room},
        {"fills and copies", fills_and_copies},
        {"streams wait for each other", streams_wait},
        {"many ends", many_ends},
        {"error words, refused commands", error_words},
        {"a fault", a_fault},
        {"each call fails", each_call_fails},
        {"killed at each message", killed_at_each_message},
    };
    return td_tests_run("fake_cuda_process", NULL, NULL, sizeof tests / sizeof *tests, tests,
                        argc == 2 ? argv[1] : NULL);
}
