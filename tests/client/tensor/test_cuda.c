/* Tensors on a GPU of the fake driver, through a daemon: bytes both ways, accounts, limits, both kinds of handle; and
 * what is left of it all when tensord-cuda is killed, a kernel faults, or a call of the driver fails.
 *
 * The driver's log says that what was computed came from launches, and that nothing was misused. */
#include "tests/client/tensor/cuda_daemon.h"

static double first_of(td_array *a)
{
    td_clear_error();
    double v = td_item_f64(td_select(td_to_device(a, TD_CPU), 0, 0));
    return td_last_error()->code ? -1 : v;
}

/* ---- memory */

static void nothing_before(void)
{
    begin_with(NULL);
    int before = test_descriptors(gpu.pid);
    CU_ASSERT_EQUAL(td_check_device(c, TD_CUDA), TD_OK);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(td_ones(c, td_dims(10), TD_FLOAT32))), 10);
    CU_ASSERT_EQUAL(beside(), 0);
    CU_ASSERT_EQUAL(logged(""), 0);
    td_set_device(TD_CUDA);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(td_ones(c, td_dims(10), TD_FLOAT32))), 10);
    CU_ASSERT_NOT_EQUAL(beside(), 0);
    CU_ASSERT_TRUE(logged("launch td_k_fold_sum_f32") == 1);
    CU_ASSERT_TRUE(test_descriptors(gpu.pid) - before < 6);
    end();
    begin_with((const char *[]){"--cuda", "off", NULL});
    CU_ASSERT_NOT_EQUAL(td_check_device(c, TD_CUDA), TD_OK);
    td_clear_error();
    td_scope_end(&scope);
    td_disconnect(c);
    CU_ASSERT_EQUAL(test_daemon_stop(&gpu), 0);
}

static void both_ways(const char *handles)
{
    begin_with((const char *[]){"--cuda-handles", handles, NULL});
    enum { COUNT = 3000 * 1001 };
    float *sent = malloc(COUNT * sizeof *sent), *got = calloc(COUNT, sizeof *got);
    CU_ASSERT_FATAL(sent && got);
    for (int i = 0; i < COUNT; i++) sent[i] = (float)i;
    td_array *x = td_from_data(c, TD_FLOAT32, td_dims(3000, 1001), sent), *far = td_to_device(x, TD_CUDA);
    CU_ASSERT_EQUAL(td_device_of(far), TD_CUDA);
    CU_ASSERT_EQUAL(td_read(td_to_device(far, TD_CPU), got, COUNT * sizeof *got), TD_OK);
    CU_ASSERT_EQUAL(memcmp(sent, got, COUNT * sizeof *got), 0);
    CU_ASSERT_EQUAL(td_read(far, got, COUNT * sizeof *got), TD_OK);
    CU_ASSERT_EQUAL(memcmp(sent, got, COUNT * sizeof *got), 0);
    /* A copy where it is. */
    td_array *twin = td_to_device(far, TD_CUDA);
    CU_ASSERT_EQUAL(td_add_(twin, 1), TD_OK);
    CU_ASSERT(first_of(td_select(twin, 0, 1)) == 1002 && first_of(td_select(far, 0, 1)) == 1001);
    /* What does not lie in one piece, on either side. */
    CU_ASSERT_EQUAL(td_read(td_to_device(td_t(x), TD_CUDA), got, COUNT * sizeof *got), TD_OK);
    CU_ASSERT(got[1] == 1001 && got[3000] == 1 && got[COUNT - 1] == COUNT - 1);
    td_array *part = td_slice(td_slice(far, 0, 10, 2000, 3), 1, 5, 900, 1);
    CU_ASSERT_EQUAL(td_read(td_to_device(part, TD_CPU), got, (size_t)td_numel(part) * sizeof *got), TD_OK);
    CU_ASSERT(got[0] == 10 * 1001 + 5 && got[1] == 10 * 1001 + 6);
    CHECK_VALUES(td_to_device(td_t(td_to_device(td_from_data(c, TD_FLOAT32, td_dims(2, 2), sent), TD_CUDA)), TD_CPU), 0,
                 2, 1, 3);
    CU_ASSERT_EQUAL(td_numel(td_to_device(td_to_device(td_zeros(c, td_dims(0, 3), TD_FLOAT32), TD_CUDA), TD_CPU)), 0);
    CU_ASSERT_EQUAL(td_item_f64(td_to_device(td_from_data(c, TD_FLOAT64, td_dims(), &(double){2.5}), TD_CUDA)), 2.5);
    free(sent);
    free(got);
    end();
}

static void both_ways_vmm(void)
{
    both_ways("vmm");
}

static void both_ways_ipc(void)
{
    both_ways("ipc");
}

static td_array *unset(td_client *of, int64_t megabytes)
{
    int before = td_set_device(TD_CUDA);
    td_array *a = td_empty(of, td_dims(megabytes << 18), TD_FLOAT32);
    td_set_device(before);
    return a;
}

static void limits(void)
{
    begin_with((const char *[]){"--session-device-memory", "300M", "--cuda-memory", "512M", NULL});
    td_client *other = td_connect(gpu.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(other);
    td_array *far = unset(c, 200);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_EQUAL(status_of(c, "bytes_used_on_cuda:0"), 200 << 20);
    unset(c, 200);
    CU_ASSERT_EQUAL(td_sync(c), TD_E_QUOTA);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "holds 209715200 bytes on cuda:0 of its 314572800"));
    td_clear_error();
    td_array *more = unset(other, 290);
    CU_ASSERT_EQUAL(td_sync(other), TD_OK);
    td_array *never = unset(c, 90);
    CU_ASSERT_EQUAL(td_sync(c), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "cuda:0 has no 94.4 MB to give; biggest holders: "));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, " 304.1 MB"));
    td_clear_error();
    td_release(more);
    CU_ASSERT_EQUAL(td_sync(other), TD_OK);
    never = unset(c, 90);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT(never && far);
    td_disconnect(other);
    end();
}

/* The GPU itself has less than it may give. */
static void no_room_there(void)
{
    setenv("FAKE_CUDA_MEGABYTES", "256", 1);
    begin_with(NULL);
    td_array *far = unset(c, 100);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    unset(c, 200);
    CU_ASSERT_EQUAL(td_sync(c), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "cuda:0 has no 209.7 MB to give; biggest holders: "));
    td_clear_error();
    td_set_device(TD_CUDA);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(td_ones(c, td_dims(10), TD_FLOAT32))), 10);
    CU_ASSERT_PTR_NOT_NULL(far);
    unsetenv("FAKE_CUDA_MEGABYTES");
    end();
}

/* ---- faults */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* which take minutes for all of them */
enum { KILLS = 10, STEP = 7 };
#else
enum { KILLS = 50, STEP = 1 };
#endif

/* Three steps of a small network: what is trained, on its way to the CPU. */
static td_array *trained(int device)
{
    td_set_device(device);
    td_array *x = td_div(td_reshape(td_arange(c, 0, 256, 1, TD_FLOAT32), td_dims(32, 8)), 256);
    td_array *w = td_full(c, td_dims(8, 4), 0.5, TD_FLOAT32);
    td_set_requires_grad(w, true);
    for (int step = 0; step < 3; step++) {
        td_backward(td_mean(td_square(td_tanh(td_mm(x, w)))));
        td_set_grad_enabled(false);
        td_sub_(w, td_mul(td_grad(w), 0.1));
        td_set_grad_enabled(true);
        td_zero_grad(td_arrays(w));
    }
    td_set_device(TD_CPU);
    return td_to_device(td_detach(w), TD_CPU);
}

/* Training goes on while its process is killed again and again: nothing of the CPU is touched, and with descriptors
 * nothing that lay on the GPU. */
static void killed(const char *handles)
{
    bool vmm = !strcmp(handles, "vmm");
    begin_with((const char *[]){"--cuda-handles", handles, NULL});
    td_array *near = td_full(c, td_dims(1000), 5, TD_FLOAT32), *kept = td_to_device(near, TD_CUDA);
    CU_ASSERT_EQUAL(first_of(kept), 5);
    double want = td_item_f64(td_sum(trained(TD_CPU)));
    CU_ASSERT_TRUE(first_of(td_flatten(trained(TD_CUDA))) > 0);
    int failed = 0, worked = 0, held = 0;
    for (int i = 0; i < KILLS; i++) {
        td_scope inner;
        td_scope_begin(&inner);
        td_array *w = trained(TD_CUDA);
        pid_t process = beside();
        if (process) kill(process, SIGKILL);
        double v = td_item_f64(td_sum(w));
        if (td_last_error()->code == TD_E_DEVICE) failed++;
        else if (!td_last_error()->code && v - want < 1e-5 && want - v < 1e-5) worked++;
        td_clear_error();
        CU_ASSERT_EQUAL(td_item_f64(td_sum(near)), 5000);
        if (vmm) CU_ASSERT_EQUAL(first_of(kept), 5);
        if (i == KILLS / 2) CU_ASSERT_EQUAL(first_of(td_to_device(near, TD_CUDA)), 5);
        if (i == KILLS / 2) held = test_descriptors(gpu.pid);
        td_clear_error();
        td_scope_end(&inner);
    }
    printf("%s: killed %d times, %d results came, %d were told to be lost\n", handles, KILLS, worked, failed);
    CU_ASSERT_EQUAL(worked + failed, KILLS);
    CU_ASSERT_TRUE(failed > 0);
    if (!vmm) {
        CU_ASSERT_EQUAL(first_of(kept), -1);
        CU_ASSERT_EQUAL(td_last_error()->code, TD_E_DEVICE);
        CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "cuda:0 failed"));
        td_clear_error();
    }
    td_release(kept); /* an arena that has gone is given to nobody */
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(first_of(td_add(td_to_device(near, TD_CUDA), i)), 5 + i);
    CU_ASSERT_TRUE(test_daemon_alive(&gpu));
    CU_ASSERT_TRUE(test_descriptors(gpu.pid) <= held);
    end();
}

static void killed_vmm(void)
{
    killed("vmm");
}

static void killed_ipc(void)
{
    killed("ipc");
}

/* What was lost with a process takes no room, for as long as somebody holds it. */
static void lost_ones_take_no_room(void)
{
    td_array *held[6];
    begin_with((const char *[]){"--cuda-handles", "ipc", "--cuda-memory", "256M", NULL});
    td_array *near = td_full(c, td_dims(1000), 5, TD_FLOAT32);
    for (int i = 0; i < 6; i++) {
        int rc = TD_E_DEVICE;
        for (uint64_t until = test_now_ms() + TEST_LONG_MS; rc == TD_E_DEVICE && test_now_ms() < until;) {
            td_release(unset(c, 150));
            rc = td_sync(c);
            td_clear_error();
        }
        CU_ASSERT_EQUAL(rc, TD_OK);
        held[i] = td_to_device(near, TD_CUDA);
        CU_ASSERT_EQUAL(first_of(held[i]), 5);
        pid_t process = beside();
        CU_ASSERT_TRUE_FATAL(process > 0 && !kill(process, SIGKILL));
        while (beside() == process) test_sleep_ms(1);
    }
    CU_ASSERT_EQUAL(first_of(held[0]), -1);
    td_clear_error();
    end();
}

/* A kernel that faults fails what was under way, and what stood on it; what lay there before is whole. */
static void a_fault(void)
{
    setenv("FAKE_CUDA_STICKY", "12", 1);
    begin_with((const char *[]){"--cuda-handles", "vmm", NULL});
    td_array *kept = td_to_device(td_full(c, td_dims(1000), 5, TD_FLOAT32), TD_CUDA);
    CU_ASSERT_EQUAL(first_of(kept), 5);
    td_set_device(TD_CUDA);
    td_array *x = td_full(c, td_dims(1000), 1, TD_FLOAT32);
    for (int i = 0; i < 30; i++) x = td_add(x, 1);
    CU_ASSERT_EQUAL(first_of(x), -1);
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "an illegal memory access was encountered"));
    td_clear_error();
    CU_ASSERT_EQUAL(first_of(kept), 5);
    CU_ASSERT_EQUAL(first_of(td_add(kept, 1)), 6);
    unsetenv("FAKE_CUDA_STICKY");
    end();
}

/* What is written to its own operand goes through a temporary, which is not copied when it has failed. */
static void a_copy_behind_a_failure(void)
{
    begin_with(NULL);
    const int64_t places[2][4] = {{1, 7, 0, 2}, {1, 3, 0, 2}};
    td_set_device(TD_CUDA);
    td_array *x = td_arange(c, 0, 4, 1, TD_FLOAT32);
    for (int right = 0; right < 2; right++) {
        td_array *at = td_from_data(c, TD_INT64, td_dims(4), places[right]);
        CU_ASSERT_EQUAL(td_gather_out(x, x, 0, td_to_device(at, TD_CUDA)), TD_OK);
        CU_ASSERT_EQUAL(td_sync(c), right ? TD_OK : TD_E_INDEX);
        td_clear_error();
        CHECK_VALUES(x, right ? 1 : 0, right ? 3 : 1, right ? 0 : 2, right ? 2 : 3);
    }
    end();
}

/* 1: the right values came; 0: a failure did; -1: wrong values, and nobody said so. */
static int small_work(void)
{
    td_scope inner;
    td_scope_begin(&inner);
    td_array *x = td_to_device(td_full(c, td_dims(300), 3, TD_FLOAT32), TD_CUDA);
    double v = first_of(td_add(td_mul(x, 2), 1));
    int how = v == 7 ? 1 : td_last_error()->code ? 0 : -1;
    td_clear_error();
    td_scope_end(&inner);
    return how;
}

/* Whichever call of the driver fails: values come, or a failure. The next process counts anew, so it fails there too.
 */
static void each_call_fails(void)
{
    int n, made = 0, came = 0;
    char number[16];
    for (n = 1; n < 400; n += STEP, made++) {
        snprintf(number, sizeof number, "%d", n);
        setenv("FAKE_CUDA_FAIL", number, 1);
        begin_with(NULL);
        int how = small_work();
        if (how < 0) printf("call %d: wrong values, and nobody said so\n", n);
        CU_ASSERT_TRUE(how >= 0);
        came += how;
        bool was_asked = logged("fails as asked") > 0;
        CU_ASSERT_EQUAL(td_item_f64(td_sum(td_ones(c, td_dims(10), TD_FLOAT32))), 10);
        td_clear_error();
        end();
        if (!was_asked) break;
    }
    unsetenv("FAKE_CUDA_FAIL");
    printf("%d calls were made to fail; values came all the same %d times\n", made, came);
    CU_ASSERT_TRUE(n > 40 && n < 400);
}

/* The driver is not there, though the daemon thought so. */
static void no_driver(void)
{
    char *driver = strdup(getenv("TENSORD_LIBCUDA"));
    setenv("TENSORD_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    begin_with(NULL);
    td_array *x = td_to_device(td_full(c, td_dims(3), 1, TD_FLOAT32), TD_CUDA);
    CU_ASSERT_EQUAL(first_of(x), -1);
    CU_ASSERT_TRUE(td_last_error()->code == TD_E_DEVICE || td_last_error()->code == TD_E_MEMORY);
    td_clear_error();
    CU_ASSERT_EQUAL(td_item_f64(td_sum(td_ones(c, td_dims(10), TD_FLOAT32))), 10);
    end();
    setenv("TENSORD_LIBCUDA", driver, 1);
    free(driver);
}

TD_CUNIT_MAIN("fake_cuda_memory", {"nothing before the first tensor", nothing_before},
              {"both ways, descriptors", both_ways_vmm}, {"both ways, legacy handles", both_ways_ipc},
              {"limits", limits}, {"no room there", no_room_there}, {"killed, descriptors", killed_vmm},
              {"killed, legacy handles", killed_ipc}, {"lost ones take no room", lost_ones_take_no_room},
              {"a fault", a_fault}, {"a copy behind a failure", a_copy_behind_a_failure},
              {"each call fails", each_call_fails}, {"no driver", no_driver})
