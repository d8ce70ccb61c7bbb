/* One tensor on a GPU of the fake driver in several processes: each maps the very memory, by both kinds of handle,
 * reads what others wrote and writes what others read; and what is left when they let go, are killed, or have no
 * driver. */
#include "shm/cuda/driver.h"
#include "tests/client/common.h"
#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1000 };

static test_daemon gpu;
static td_client *c;
static td_scope scope;
static td_array *x; /* COUNT times 1, published as "x" */

static void begin(const char *handles)
{
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&gpu, (const char *[]){"--cuda-handles", handles, NULL}));
    td_clear_error();
}

static void make(void)
{
    CU_ASSERT_PTR_NOT_NULL_FATAL(c = td_connect(gpu.socket));
    td_scope_begin(&scope);
    x = td_published(td_to_device(td_full(c, td_dims(COUNT), 1, TD_FLOAT32), TD_CUDA), "x", 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
}

static void end(void)
{
    CU_ASSERT_EQUAL(td_drop(c, "x"), TD_OK);
    td_scope_end(&scope);
    CU_ASSERT_TRUE(comes_to(c, "bytes_used_on_cuda:0", 0));
    td_disconnect(c);
    CU_ASSERT_EQUAL(test_daemon_stop(&gpu), 0);
}

/* The other process: it is forked before this one has a connection, and begins when it is told to. */
typedef struct other {
    pid_t pid;
    int go, done; /* ends of pipes */
} other;

static other other_new(int (*work)(void))
{
    int go[2], done[2];
    char byte = 0;
    other o = {0};
    if (pipe(go) || pipe(done) || (o.pid = fork()) < 0) abort();
    if (!o.pid) {
        close(go[1]);
        close(done[0]);
        int code = read(go[0], &byte, 1) == 1 ? work() : 99;
        if (code) fprintf(stderr, "%d: %s\n", code, td_last_error()->message);
        byte = (char)code;
        if (write(done[1], &byte, 1) != 1) _exit(98);
        if (read(go[0], &byte, 1) < 0) _exit(97); /* until it is let go, or killed */
        _exit(code);
    }
    close(go[0]);
    close(done[1]);
    o.go = go[1];
    o.done = done[0];
    return o;
}

/* Let it work; what that came to. */
static int run(const other *o)
{
    char byte = 'x';
    if (write(o->go, &byte, 1) != 1 || read(o->done, &byte, 1) != 1) return 96;
    return byte;
}

static void other_end(other *o)
{
    char byte = 'q';
    signal(SIGPIPE, SIG_IGN);
    if (write(o->go, &byte, 1) != 1) byte = 0; /* it was killed */
    close(o->go);
    close(o->done);
    waitpid(o->pid, NULL, 0);
}

/* ---- what the other process does */

static td_cuda_driver driver;

static td_array *opened(void)
{
    td_client *own = td_connect(gpu.socket);
    return own ? td_open(own, "x", 0) : NULL;
}

static CUdeviceptr address(td_array *a)
{
    return (CUdeviceptr)(uintptr_t)td_cuda_data(a);
}

/* It reads ones, and writes a 9 into the last element. */
static int reads_and_writes(void)
{
    float v[COUNT], nine = 9;
    td_array *a = opened();
    CUdeviceptr at = a ? address(a) : 0;
    if (!at || td_cuda_driver_open(&driver, NULL)) return 1;
    CUcontext context;
    if (driver.cuDevicePrimaryCtxRetain(&context, 0) || driver.cuCtxSetCurrent(context)) return 2;
    if (driver.cuMemcpyDtoH(v, at, sizeof v) || v[0] != 1 || v[COUNT - 1] != 1) return 3;
    td_array *part = td_slice(a, 0, COUNT - 1, COUNT, 1);
    if (address(part) != at + (COUNT - 1) * sizeof(float)) return 4;
    if (driver.cuMemcpyHtoD(address(part), &nine, sizeof nine)) return 5;
    td_release(a); /* the part keeps the mapping */
    if (driver.cuMemcpyDtoH(v, at, sizeof v) || v[COUNT - 1] != 9) return 6;
    if (address(part) != at + (COUNT - 1) * sizeof(float)) return 7;
    return 0;
}

/* It maps and lets go, again and again: nothing of it piles up, here or in the daemon. */
static int again_and_again(void)
{
    td_client *own = td_connect(gpu.socket);
    int before = 0;
    for (int i = 0; i < 40; i++) td_sync(own); /* who waits often has a ring, which stays */
    for (int i = 0; i < 20; i++) {
        td_array *a = td_open(own, "x", 0);
        if (!a || !address(a)) return 1;
        td_release(a);
        if (td_sync(own)) return 2;
        if (i == 1) before = test_descriptors(getpid()) + test_descriptors(gpu.pid);
    }
    return test_descriptors(getpid()) + test_descriptors(gpu.pid) > before ? 3 : 0;
}

static int without_a_driver(void)
{
    setenv("TENSORD_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    td_array *a = opened();
    if (!a || address(a)) return 1;
    const td_error *e = td_last_error();
    bool said = e->code == TD_E_DEVICE && strstr(e->message, "cannot be mapped here: no CUDA driver: /nowhere") &&
                strstr(e->message, "copy the tensor to the cpu first");
    td_clear_error();
    float v = 0;
    return said && td_read(td_select(a, 0, 0), &v, sizeof v) == TD_OK && v == 1 ? 0 : 2;
}

static int in_a_fork(void)
{
    td_array *a = opened();
    if (!a || !address(a)) return 1;
    int status;
    pid_t child = fork();
    if (!child) {
        bool said = !td_cuda_data(td_slice(a, 0, 1, 2, 1)) && strstr(td_last_error()->message, "forked");
        said = said && !td_cuda_data(a) && strstr(td_last_error()->message, "forked"); /* its parent has its address */
        td_release(a);
        _exit(!said);
    }
    waitpid(child, &status, 0);
    return status || !address(a) ? 2 : 0;
}

/* ---- */

static void shared(const char *handles)
{
    float v = 0;
    begin(handles);
    other one = other_new(reads_and_writes), two = other_new(again_and_again);
    make();
    CU_ASSERT_EQUAL(run(&two), 0);
    CU_ASSERT_EQUAL(run(&one), 0);
    CU_ASSERT_EQUAL(td_read(td_select(x, 0, -1), &v, sizeof v), TD_OK);
    CU_ASSERT_EQUAL(v, 9);
    /* Killed while it has the memory mapped. */
    kill(one.pid, SIGKILL);
    other_end(&one);
    other_end(&two);
    CU_ASSERT_TRUE(comes_to(c, "sessions", 1));
    CU_ASSERT_EQUAL(td_read(td_select(x, 0, -1), &v, sizeof v), TD_OK);
    CU_ASSERT_EQUAL(v, 9);
    end();
}

static void by_descriptor(void)
{
    shared("vmm");
}

static void by_legacy_handle(void)
{
    shared("ipc");
}

/* The tensor's own session has its address, too; who is wrong is told what to do. */
static void refused(void)
{
    begin("auto");
    other none = other_new(without_a_driver), forks = other_new(in_a_fork);
    make();
    CU_ASSERT_EQUAL(run(&none), 0);
    CU_ASSERT_EQUAL(run(&forks), 0);
    CU_ASSERT_PTR_NOT_NULL(td_cuda_data(x));
    td_array *near = td_to_device(x, TD_CPU), *nothing = td_to_device(td_zeros(c, td_dims(0), TD_FLOAT32), TD_CUDA);
    CU_ASSERT_PTR_NULL(td_cuda_data(near));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "lies on cpu, not on a GPU"));
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_cuda_data(nothing));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_OK);
    CU_ASSERT_PTR_NULL(td_data(x));
    td_clear_error();
    other_end(&none);
    other_end(&forks);
    end();
}

/* A tensor that waits for its values has no address before they are there, and none when they are lost. */
static void in_order(void)
{
    begin("auto");
    make();
    td_array *y = x;
    for (int i = 0; i < 50; i++) y = td_add(y, 1);
    CUdeviceptr at = address(y);
    CUcontext context;
    float v = 0;
    CU_ASSERT_EQUAL_FATAL(td_cuda_driver_open(&driver, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(driver.cuDevicePrimaryCtxRetain(&context, 0) || driver.cuCtxSetCurrent(context), 0);
    CU_ASSERT_EQUAL(driver.cuMemcpyDtoH(&v, at, sizeof v), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(v, 51);
    td_array *bad = td_index_select(x, 0, td_to_device(td_full(c, td_dims(1), COUNT, TD_INT64), TD_CUDA));
    CU_ASSERT_PTR_NULL(td_cuda_data(bad));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_INDEX);
    td_clear_error();
    end();
}

TD_CUNIT_MAIN("fake_cuda_share", {"by descriptor", by_descriptor}, {"by legacy handle", by_legacy_handle},
              {"refused", refused}, {"in order", in_order})
