/* The driver's table beside cuda.h, and the fake driver: that it orders by events alone, that other processes find its
 * memory by both kinds of handle, and that it ends a process that misuses it. */
#include "shm/cuda/driver.h"
#include "tests/unit/cunit_main.h"
#include "tests/unit/shm/cuda_layout.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static td_cuda_driver d;
static CUcontext context;

#define OK(call) CU_ASSERT_EQUAL((call), CUDA_SUCCESS)
enum { MIB = 1 << 20, GRANULE = 2 * MIB };

static void declared(void)
{
    static const cuda_layout ours[] = CUDA_LAYOUT;
    const cuda_layout *theirs = cuda_layout_of_toolkit();
    if (!theirs) {
        td_test_skip("no cuda.h here to compare with");
        return;
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        bool equal = ours[i].value == theirs[i].value;
        if (!equal) printf("%s: %lld, in cuda.h %lld\n", ours[i].name, ours[i].value, theirs[i].value);
        CU_ASSERT_TRUE(equal);
    }
}

static bool begin(void)
{
    td_error e;
    CUdevice device;
    if (context) return true;
    if (td_cuda_driver_open(&d, &e)) {
        printf("%s\n", e.message);
        return false;
    }
    if (d.cuInit(0) || d.cuDeviceGet(&device, 0) || d.cuDevicePrimaryCtxRetain(&context, device)) return false;
    return d.cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

static const CUmemAllocationProp on_device = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
static const CUmemAccessDesc access_all = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static CUresult map(CUdeviceptr *at, CUmemGenericAllocationHandle handle, CUdeviceptr hint)
{
    CUresult r = d.cuMemAddressReserve(at, GRANULE, 0, hint, 0);
    if (!r) r = d.cuMemMap(*at, GRANULE, 0, handle, 0);
    return r ? r : d.cuMemSetAccess(*at, GRANULE, &access_all, 1);
}

/* ---- other processes: this program, with the name of a part as its argument */

static int part(const char *name, int fd, int *status)
{
    char number[16], *argv[] = {(char *)"/proc/self/exe", (char *)name, number, NULL};
    pid_t pid;
    snprintf(number, sizeof number, "%d", fd);
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    if (!strncmp(name, "misuse", 6)) posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
    if (fd >= 0) posix_spawn_file_actions_adddup2(&quiet, fd, fd);
    int err = posix_spawn(&pid, argv[0], &quiet, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&quiet);
    return err || waitpid(pid, status, 0) != pid;
}

static void must_end_well(const char *name, int fd)
{
    int status = -1;
    CU_ASSERT_EQUAL(part(name, fd, &status), 0);
    CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void must_abort(const char *name)
{
    int status = -1;
    CU_ASSERT_EQUAL(part(name, -1, &status), 0);
    bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    if (!aborted) printf("%s: was let pass\n", name);
    CU_ASSERT_TRUE(aborted);
}

/* ---- what works */

static void copies(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CUstream s;
    int numbers[3] = {4, 5, 6}, back[3] = {0};
    CU_ASSERT_FATAL(begin());
    OK(d.cuMemCreate(&handle, GRANULE, &on_device, 0));
    OK(d.cuMemAddressReserve(&at, GRANULE, 0, 0, 0));
    OK(d.cuMemMap(at, GRANULE, 0, handle, 0));
    OK(d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CU_ASSERT_NOT_EQUAL(d.cuMemcpyHtoDAsync(at, numbers, sizeof numbers, s), CUDA_SUCCESS); /* no access yet */
    OK(d.cuMemSetAccess(at, GRANULE, &access_all, 1));
    OK(d.cuMemcpyHtoDAsync(at, numbers, sizeof numbers, s));
    OK(d.cuMemcpyDtoDAsync(at + 64, at, sizeof numbers, s));
    OK(d.cuMemsetD32Async(at + 68, 9, 1, s));
    OK(d.cuMemcpyDtoHAsync(back, at + 64, sizeof back, s));
    CU_ASSERT_EQUAL(back[0], 4);
    CU_ASSERT_EQUAL(back[1], 9);
    CU_ASSERT_EQUAL(back[2], 6);
    OK(d.cuMemsetD2D32Async(at, 8, 7, 1, 2, s));
    OK(d.cuMemcpyDtoHAsync(back, at, sizeof back, s));
    CU_ASSERT_EQUAL(back[0], 7);
    CU_ASSERT_EQUAL(back[1], 5);
    CU_ASSERT_EQUAL(back[2], 7);
    CU_ASSERT_NOT_EQUAL(d.cuMemcpyHtoDAsync(at + GRANULE - 4, numbers, 8, s), CUDA_SUCCESS);
    OK(d.cuStreamSynchronize(s));
    OK(d.cuStreamDestroy(s));
    OK(d.cuMemUnmap(at, GRANULE));
    OK(d.cuMemAddressFree(at, GRANULE));
    OK(d.cuMemRelease(handle));
    CU_ASSERT_NOT_EQUAL(d.cuMemCreate(&handle, GRANULE + 4096, &on_device, 0), CUDA_SUCCESS);
}

static void *kernels_image(void)
{
    const char *path = getenv("FAKE_CUDA_KERNELS");
    int fd = path ? open(path, O_RDONLY) : -1;
    long bytes = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    void *image = bytes > 0 ? malloc((size_t)bytes) : NULL;
    if (image && pread(fd, image, (size_t)bytes, 0) != bytes) image = NULL;
    if (fd >= 0) close(fd);
    return image;
}

/* One stream makes, another one reads behind an event: under the thread sanitizer an event that is left out is a race.
 */
static void events_order(void)
{
    struct {
        uint64_t error, at, count, rounds;
    } slow = {0, 0, 1000, 1};
    struct {
        uint64_t error, out, a, b, count;
    } add = {.count = 1000};
    size_t slow_bytes = sizeof slow, add_bytes = sizeof add;
    void *slow_args[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &slow, CU_LAUNCH_PARAM_BUFFER_SIZE, &slow_bytes, NULL};
    void *add_args[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &add, CU_LAUNCH_PARAM_BUFFER_SIZE, &add_bytes, NULL};
    CUmodule module;
    CUfunction slow_kernel, add_kernel;
    CUstream one, two;
    CUevent made, read;
    CUdeviceptr at;
    float back[1000];
    void *image = kernels_image();
    if (!image) {
        td_test_skip("no kernels: no C++ compiler here");
        return;
    }
    CU_ASSERT_FATAL(begin());
    OK(d.cuMemAlloc(&at, GRANULE));
    OK(d.cuModuleLoadData(&module, image));
    OK(d.cuModuleGetFunction(&slow_kernel, module, "test_slow"));
    OK(d.cuModuleGetFunction(&add_kernel, module, "test_add"));
    CU_ASSERT_EQUAL(d.cuModuleGetFunction(&add_kernel, module, "test_nothing"), CUDA_ERROR_NOT_FOUND);
    OK(d.cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(d.cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(d.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    OK(d.cuEventCreate(&read, CU_EVENT_DISABLE_TIMING));
    OK(d.cuMemsetD8Async(at, 0, MIB, one));
    slow.at = add.a = add.b = at;
    add.out = at + MIB / 2;
    for (int i = 0; i < 50; i++) {
        OK(d.cuLaunchKernel(slow_kernel, 4, 1, 1, 256, 1, 1, 0, one, NULL, slow_args));
        OK(d.cuEventRecord(made, one));
        OK(d.cuStreamWaitEvent(two, made, 0));
        OK(d.cuLaunchKernel(add_kernel, 4, 1, 1, 256, 1, 1, 0, two, NULL, add_args));
        OK(d.cuEventRecord(read, two));
        OK(d.cuStreamWaitEvent(one, read, 0));
    }
    OK(d.cuEventSynchronize(read));
    OK(d.cuMemcpyDtoHAsync(back, add.out, sizeof back, two));
    CU_ASSERT_DOUBLE_EQUAL(back[0], 4.0, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(back[999], 4.0, 1e-6);
    OK(d.cuEventDestroy(made));
    OK(d.cuEventDestroy(read));
    OK(d.cuStreamDestroy(one));
    OK(d.cuStreamDestroy(two));
    OK(d.cuModuleUnload(module));
    OK(d.cuMemFree(at));
    free(image);
}

/* Writes 9 where 4 is, by the descriptor. */
static int part_import(int fd)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    int n = 0;
    if (!begin() ||
        d.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return 1;
    if (map(&at, handle, 0) || d.cuMemcpyDtoH(&n, at, sizeof n) || n != 4) return 2;
    n = 9;
    return d.cuMemcpyHtoD(at, &n, sizeof n) ? 3 : 0;
}

static void a_descriptor(void)
{
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr at, new_at;
    int fd = -1, n = 4;
    CU_ASSERT_FATAL(begin());
    OK(d.cuMemCreate(&handle, GRANULE, &on_device, 0));
    OK(map(&at, handle, 0));
    OK(d.cuMemcpyHtoD(at, &n, sizeof n));
    OK(d.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    must_end_well("import", fd);
    OK(d.cuMemcpyDtoH(&n, at, sizeof n));
    CU_ASSERT_EQUAL(n, 9);
    /* The descriptor keeps the bytes, which come back where they were. */
    OK(d.cuMemUnmap(at, GRANULE));
    OK(d.cuMemAddressFree(at, GRANULE));
    OK(d.cuMemRelease(handle));
    OK(d.cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(map(&new_at, again, at));
    CU_ASSERT_EQUAL(new_at, at);
    n = 0;
    OK(d.cuMemcpyDtoH(&n, at, sizeof n));
    CU_ASSERT_EQUAL(n, 9);
    OK(d.cuMemUnmap(at, GRANULE));
    OK(d.cuMemAddressFree(at, GRANULE));
    OK(d.cuMemRelease(again));
    close(fd);
}

static int part_open(int fd)
{
    CUipcMemHandle handle;
    CUdeviceptr at, again;
    int n = 0;
    if (!begin() || read(fd, &handle, sizeof handle) != sizeof handle) return 1;
    if (d.cuIpcOpenMemHandle(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) return 2;
    if (d.cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) || again != at) return 3;
    if (d.cuMemcpyDtoH(&n, at, sizeof n) || n != 4) return 4;
    n = 9;
    if (d.cuMemcpyHtoD(at, &n, sizeof n)) return 5;
    return d.cuIpcCloseMemHandle(at) || d.cuIpcCloseMemHandle(at) ? 6 : 0;
}

static void a_legacy_handle(void)
{
    CUipcMemHandle handle;
    CUmemGenericAllocationHandle other;
    CUdeviceptr at, own;
    int n = 4, pipes[2];
    CU_ASSERT_FATAL(begin());
    OK(d.cuMemAlloc(&at, 1000));
    OK(d.cuMemcpyHtoD(at, &n, sizeof n));
    OK(d.cuIpcGetMemHandle(&handle, at));
    CU_ASSERT_NOT_EQUAL(d.cuIpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
    CU_ASSERT_FATAL(!pipe(pipes) && write(pipes[1], &handle, sizeof handle) == sizeof handle);
    must_end_well("open", pipes[0]);
    OK(d.cuMemcpyDtoH(&n, at, sizeof n));
    CU_ASSERT_EQUAL(n, 9);
    OK(d.cuMemFree(at));
    CU_ASSERT(write(pipes[1], &handle, sizeof handle) == sizeof handle);
    int status = 0;
    CU_ASSERT_EQUAL(part("open", pipes[0], &status), 0);
    CU_ASSERT_EQUAL(WEXITSTATUS(status), 2); /* it has gone */
    close(pipes[0]);
    close(pipes[1]);
    OK(d.cuMemCreate(&other, GRANULE, &on_device, 0));
    OK(map(&at, other, 0));
    CU_ASSERT_NOT_EQUAL(d.cuIpcGetMemHandle(&handle, at), CUDA_SUCCESS);
    OK(d.cuMemUnmap(at, GRANULE));
    OK(d.cuMemAddressFree(at, GRANULE));
    OK(d.cuMemRelease(other));
}

/* ---- what ends the process, or all later calls */

static int part_misuse(const char *which)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CUstream s;
    static char big[64 * MIB];
    if (!begin() || d.cuMemCreate(&handle, 64 * MIB, &on_device, 0)) return 1;
    if (d.cuMemAddressReserve(&at, 64 * MIB, 0, 0, 0) || d.cuMemMap(at, 64 * MIB, 0, handle, 0)) return 2;
    if (d.cuMemSetAccess(at, 64 * MIB, &access_all, 1) || d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)) return 3;
    if (!strcmp(which, "unmap")) {
        if (d.cuMemHostRegister(big, sizeof big, 0)) return 4;
        for (int i = 0; i < 20; i++) d.cuMemcpyHtoDAsync(at, big, sizeof big, s);
        d.cuMemUnmap(at, 64 * MIB);
    }
    if (!strcmp(which, "release")) {
        d.cuMemRelease(handle);
        d.cuMemUnmap(at, 64 * MIB);
        d.cuMemRelease(handle);
    }
    if (!strcmp(which, "reservation")) d.cuMemAddressFree(at, 64 * MIB);
    if (!strcmp(which, "overlap")) d.cuMemcpyDtoDAsync(at, at + 64, 128, s);
    if (!strcmp(which, "fork")) {
        int status = 0;
        pid_t pid = fork();
        if (!pid) {
            d.cuCtxSynchronize();
            _exit(0);
        }
        if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status)) abort();
    }
    return 0;
}

static void misuse(void)
{
    static const char *const parts[] = {"misuse unmap", "misuse release", "misuse reservation", "misuse overlap",
                                        "misuse fork"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) must_abort(parts[i]);
}

static int part_touch(void)
{
    CUdeviceptr at;
    if (!begin() || d.cuMemAlloc(&at, GRANULE)) return 0;
    return *(volatile char *)at;
}

static void out_of_reach(void)
{
    int status = 0;
    CU_ASSERT_EQUAL(part("touch", -1, &status), 0);
    CU_ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int part_sticky(void)
{
    struct {
        uint64_t error, at;
    } wild = {0};
    size_t bytes = sizeof wild;
    void *args[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &wild, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, NULL};
    CUmodule module;
    CUfunction kernel;
    CUstream s;
    size_t left, total;
    void *image = kernels_image();
    if (!image) return 0;
    if (!begin() || d.cuModuleLoadData(&module, image) || d.cuModuleGetFunction(&kernel, module, "test_wild")) return 1;
    if (d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || d.cuMemAlloc((CUdeviceptr *)&wild.at, GRANULE)) return 2;
    if (d.cuMemFree(wild.at) || d.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, s, NULL, args)) return 3;
    if (d.cuStreamSynchronize(s) != CUDA_ERROR_ILLEGAL_ADDRESS) return 4;
    return d.cuMemGetInfo(&left, &total) != CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void after_a_fault(void)
{
    must_end_well("sticky", -1);
}

/* The second allocation is the third call that is counted, as each is. */
static int part_fails(void)
{
    CUdeviceptr at;
    if (!begin() || d.cuMemAlloc(&at, GRANULE)) return 1;
    if (d.cuMemAlloc(&at, GRANULE) != CUDA_ERROR_OUT_OF_MEMORY) return 2;
    return d.cuMemAlloc(&at, GRANULE) ? 3 : 0;
}

static void fails_as_asked(void)
{
    setenv("FAKE_CUDA_FAIL", "cuMemAlloc:2", 1);
    must_end_well("fails", -1);
    setenv("FAKE_CUDA_FAIL", "6", 1); /* init, get, retain, set current, alloc */
    must_end_well("fails", -1);
    unsetenv("FAKE_CUDA_FAIL");
}

static int run_part(const char *name, int fd)
{
    if (!strcmp(name, "import")) return part_import(fd);
    if (!strcmp(name, "open")) return part_open(fd);
    if (!strcmp(name, "touch")) return part_touch();
    if (!strcmp(name, "sticky")) return part_sticky();
    if (!strcmp(name, "fails")) return part_fails();
    return part_misuse(name + 7);
}

/* With a part's name and a descriptor it is another process, which ends without looking at what it leaves. */
int main(int argc, char **argv)
{
    if (argc > 2) _exit(run_part(argv[1], atoi(argv[2])));
    static const td_test tests[] = {
        {"declarations are those of cuda.h", declared},
        {"copies, fills, access", copies},
        {"events order streams", events_order},
        {"a descriptor in another process", a_descriptor},
        {"a legacy handle in another process", a_legacy_handle},
        {"misuse ends the process", misuse},
        {"the host may not touch it", out_of_reach},
        {"a fault stays", after_a_fault},
        {"a call fails as asked", fails_as_asked},
    };
    return td_tests_run("fake_cuda_driver", NULL, NULL, sizeof tests / sizeof *tests, tests,
                        argc == 2 ? argv[1] : NULL);
}
