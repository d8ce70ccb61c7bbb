/* Products on a GPU of the fake driver, with the fake library in place of cuBLASLt: which go there, beside the CPU's
 * numbers; the same bits whatever else goes on; and what is left when the library fails. The log says what ran. */
#include "tests/client/tensor/cuda_daemon.h"
#include <sys/stat.h>

/* The smallest that go to the library: 128 x 128 x 256 multiplications. */
enum { M = 128, N = 128, K = 256 };

static void begin_libraries(const char *const *options)
{
    setenv("TENSORD_CUDA_LIBRARIES", getenv("FAKE_CUDA_LIBRARIES"), 1);
    begin_with(options);
}

static td_array *random_of(int64_t rows, int64_t columns, td_dtype dtype)
{
    return td_to(td_randn(c, td_dims(rows, columns), TD_FLOAT32), dtype);
}

static td_array *far(td_array *a)
{
    return td_to_device(a, TD_CUDA);
}

/* The largest difference, as a part of what the largest element is. */
static double difference(td_array *x, td_array *y)
{
    td_array *wide = td_to(x, TD_FLOAT64);
    td_array *off = td_amax(td_abs(td_sub(td_to(td_to_device(y, TD_CPU), TD_FLOAT64), wide)));
    double most = td_item_f64(td_amax(td_abs(wide)));
    double is = td_item_f64(off);
    if (td_last_error()->code) printf("%s\n", td_last_error()->message);
    return td_last_error()->code || most == 0 ? 1 : is / most;
}

static double tolerance(td_dtype dtype)
{
    return dtype == TD_FLOAT64 ? 1e-13 : dtype == TD_FLOAT32 ? 1e-5 : dtype == TD_FLOAT16 ? 2e-3 : 1.6e-2;
}

/* How often the library ran since the last time that somebody asked. */
static int ran(void)
{
    static int before;
    int now = logged("product float") + logged("product bfloat"), n = now - before;
    before = now;
    return n;
}

static double first_of_ones(void)
{
    return td_item_f64(td_to_device(td_sum(far(td_ones(c, td_dims(4), TD_FLOAT32))), TD_CPU));
}

/* Those of the trial. */
static void after_trial(void)
{
    td_scope inner;
    td_scope_begin(&inner);
    CU_ASSERT_EQUAL(first_of_ones(), 4);
    td_scope_end(&inner);
    ran();
    CU_ASSERT_EQUAL(logged("launch fake_cublaslt_product"), 4);
}

static void is(td_array *near_value, td_array *far_value, int by_library, const char *what)
{
    td_clear_error();
    double off = difference(near_value, far_value);
    int n = ran();
    bool right = off < tolerance(td_dtype_of(near_value)) && n == by_library;
    if (!right) printf("%s: off by %g; the library ran %d times, and not %d\n", what, off, n, by_library);
    CU_ASSERT_TRUE(right);
}

/* ---- which, and what they give */

static void each_kind(td_dtype dtype, int by_library)
{
    td_scope inner;
    td_scope_begin(&inner);
    td_array *x = random_of(M, K, dtype), *y = random_of(K, N, dtype), *xt = random_of(K, M, dtype),
             *yt = random_of(N, K, dtype);
    td_array *fx = far(x), *fy = far(y), *fxt = far(xt), *fyt = far(yt);
    is(td_mm(x, y), td_mm(fx, fy), by_library, "mm");
    is(td_mm(td_t(xt), y), td_mm(td_t(fxt), fy), by_library, "mm, the first turned");
    is(td_mm(x, td_t(yt)), td_mm(fx, td_t(fyt)), by_library, "mm, the second turned");
    is(td_mm(td_t(xt), td_t(yt)), td_mm(td_t(fxt), td_t(fyt)), by_library, "mm, both turned");
    td_array *row = random_of(1, N, dtype), *column = random_of(M, 1, dtype), *whole = random_of(M, N, dtype);
    is(td_addmm(row, x, y), td_addmm(far(row), fx, fy), by_library, "addmm of a row");
    is(td_addmm(column, x, y, 0.5, 2), td_addmm(far(column), fx, fy, 0.5, 2), by_library, "addmm of a column");
    is(td_addmm(whole, x, y, -1, 0.25), td_addmm(far(whole), fx, fy, -1, 0.25), by_library, "addmm of a matrix");
    is(td_addmm(whole, x, y, 0, 3), td_addmm(far(whole), fx, fy, 0, 3), by_library, "addmm of nothing");
    td_array *bias = td_reshape(row, td_dims(N));
    is(td_linear(x, yt), td_linear(fx, fyt), by_library, "linear");
    is(td_linear(x, yt, bias), td_linear(fx, fyt, far(bias)), by_library, "linear with a bias");
    td_array *x3 = td_reshape(x, td_dims(4, M / 4, K));
    is(td_linear(x3, yt, bias), td_linear(far(x3), fyt, far(bias)), by_library, "linear of three dimensions");
    td_array *xs = td_reshape(random_of(8 * 32, K, dtype), td_dims(8, 32, K)),
             *ys = td_reshape(random_of(8 * K, 64, dtype), td_dims(8, K, 64));
    is(td_bmm(xs, ys), td_bmm(far(xs), far(ys)), by_library, "bmm");
    td_array *turned = td_reshape(random_of(8 * 64, K, dtype), td_dims(8, 64, K));
    is(td_bmm(xs, td_transpose(turned, 1, 2)), td_bmm(far(xs), td_transpose(far(turned), 1, 2)), by_library,
       "bmm, turned");
    td_array *one = td_expand(td_reshape(y, td_dims(1, K, N)), td_dims(8, K, N));
    is(td_bmm(xs, one), td_bmm(far(xs), td_expand(td_reshape(fy, td_dims(1, K, N)), td_dims(8, K, N))), by_library,
       "bmm of one factor for all");
    td_scope_end(&inner);
}

static void dtypes(void)
{
    begin_libraries(NULL);
    after_trial();
    each_kind(TD_FLOAT32, 1);
    each_kind(TD_FLOAT64, 1);
    each_kind(TD_FLOAT16, 1);
    each_kind(TD_BFLOAT16, 1);
    CU_ASSERT_EQUAL(logged("launch td_k_gemm"), 0);
    end();
}

/* A product for which the library has no way goes by own kernels, with the same bits each time; it is asked once. */
static void no_way(void)
{
    static const char *const answers[] = {"none", "refused", "splits"};
    for (int i = 0; i < 3; i++) {
        setenv("FAKE_CUBLASLT_NO_WAY", answers[i], 1);
        begin_libraries(NULL);
        after_trial();
        if (!i) each_kind(TD_FLOAT32, 0), each_kind(TD_FLOAT64, 0), each_kind(TD_FLOAT16, 0), each_kind(TD_BFLOAT16, 0);
        td_array *x = random_of(1100, 64, TD_FLOAT32), *y = random_of(64, 1030, TD_FLOAT32), *fx = far(x), *fy = far(y);
        is(td_mm(x, y), td_mm(fx, fy), 0, "by large tiles");
        CU_ASSERT_EQUAL(logged("launch td_k_gemm_large_f32"), 1);
        td_array *z = far(random_of(1100, 1030, TD_FLOAT32));
        td_array *off = td_amax(td_abs(td_sub(td_mm(fx, fy), td_mm(fx, fy))));
        CU_ASSERT_EQUAL(td_item_f64(td_to_device(off, TD_CPU)), 0);
        int asked = logged("cublasLtMatmulAlgoGetHeuristic");
        is(td_addmm(td_to_device(z, TD_CPU), x, y, 0.5, 2), td_addmm(z, fx, fy, 0.5, 2), 0, "again, added");
        CU_ASSERT_EQUAL(logged("cublasLtMatmulAlgoGetHeuristic"), asked);
        td_array *flat = random_of(2048, 32, TD_FLOAT32), *high = random_of(32, 64, TD_FLOAT32);
        is(td_mm(flat, high), td_mm(far(flat), far(high)), 1, "one that has a way");
        end();
    }
    unsetenv("FAKE_CUBLASLT_NO_WAY");
}

/* On both sides of what decides: how much there is to do, the shortest side, strides, dtypes. */
static void thresholds(void)
{
    begin_libraries(NULL);
    after_trial();
    const struct {
        int64_t m, n, k;
        int by_library;
    } sizes[] = {{M, N, K, 1},      {M, N, K - 1, 0},    {M, N - 1, K, 0},  {M - 1, N, K, 0},
                 {32, 256, 512, 1}, {31, 1024, 1024, 0}, {512, 32, 256, 1}, {1024, 31, 1024, 0},
                 {512, 256, 32, 1}, {1024, 1024, 31, 0}, {131, 137, 239, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        td_array *x = random_of(sizes[i].m, sizes[i].k, TD_FLOAT32), *y = random_of(sizes[i].k, sizes[i].n, TD_FLOAT32);
        char what[64];
        snprintf(what, sizeof what, "%d x %d x %d", (int)sizes[i].m, (int)sizes[i].n, (int)sizes[i].k);
        is(td_mm(x, y), td_mm(far(x), far(y)), sizes[i].by_library, what);
    }
    td_array *x = random_of(M + 2, 2 * K + 1, TD_FLOAT32), *y = random_of(K, N, TD_FLOAT32), *fx = far(x), *fy = far(y);
#define PART(of, column, step) td_slice(td_slice(of, 0, 1, M + 1), 1, column, column + K * (step), step)
    is(td_mm(PART(x, 0, 1), y), td_mm(PART(fx, 0, 1), fy), 1, "a part of rows");
    is(td_mm(PART(x, 1, 1), y), td_mm(PART(fx, 1, 1), fy), 1, "a part that begins anywhere");
    CU_ASSERT_EQUAL(logged("alignment 4"), 1); /* a row is an odd number of elements long */
    CU_ASSERT_EQUAL(logged("alignment 8"), 1);
    is(td_mm(PART(x, 0, 2), y), td_mm(PART(fx, 0, 2), fy), 0, "every second column");
    td_array *whole = td_ones(c, td_dims(M, K), TD_INT64);
    is(td_mm(whole, td_t(whole)), td_mm(far(whole), td_t(far(whole))), 0, "whole numbers");
    is(td_mv(x, td_ones(c, td_dims(2 * K + 1), TD_FLOAT32)), td_mv(fx, far(td_ones(c, td_dims(2 * K + 1), TD_FLOAT32))),
       0, "a vector");
    end();
}

/* Without a library, or where it is told to be left, own kernels compute the same. */
static void without(void)
{
    setenv("TENSORD_CUDA_LIBRARIES", "off", 1);
    begin_with(NULL);
    td_array *x = random_of(M, K, TD_FLOAT32), *y = random_of(K, N, TD_FLOAT32);
    CU_ASSERT_TRUE(difference(td_mm(x, y), td_mm(far(x), far(y))) < tolerance(TD_FLOAT32));
    CU_ASSERT_EQUAL(logged("cublasLt"), 0);
    CU_ASSERT_TRUE(logged("launch td_k_gemm") > 0);
    end();
}

/* In place: what is given is what is added. */
static void in_place(void)
{
    begin_libraries(NULL);
    after_trial();
    td_array *x = random_of(M, K, TD_FLOAT32), *y = random_of(K, N, TD_FLOAT32), *z = random_of(M, N, TD_FLOAT32);
    td_array *expected = td_addmm(z, x, y, 1, 1), *fz = far(z);
    td_addmm_out(fz, fz, far(x), far(y), 1, 1);
    is(expected, fz, 1, "addmm into what is added");
    td_array *square = random_of(192, 192, TD_FLOAT32), *fs = far(square);
    td_array *both = td_mm(square, square);
    td_mm_out(fs, fs, fs);
    is(both, fs, 1, "mm into its own factor");
    end();
}

/* ---- the same bits */

static void next_process(void)
{
    pid_t process = beside();
    CU_ASSERT_TRUE_FATAL(process > 0 && !kill(process, SIGKILL));
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; beside() == process && test_now_ms() < until;) test_sleep_ms(1);
}

enum { BYTES = M * N * 4 };
static unsigned char expected[BYTES], got[BYTES];

static bool same_bits(td_array *fx, td_array *fy)
{
    return td_read(td_to_device(td_mm(fx, fy), TD_CPU), got, BYTES) == TD_OK && !memcmp(expected, got, BYTES);
}

static void the_same_bits(void)
{
    begin_libraries((const char *[]){"--cuda-handles", "vmm", NULL});
    after_trial();
    td_array *x = random_of(M, K, TD_FLOAT32), *y = random_of(K, N, TD_FLOAT32), *fx = far(x), *fy = far(y);
    CU_ASSERT_EQUAL(td_read(td_to_device(td_mm(fx, fy), TD_CPU), expected, BYTES), TD_OK);
    CU_ASSERT_TRUE(same_bits(fx, fy));
    CU_ASSERT_TRUE(same_bits(far(x), far(y)));
    /* Beside another session's products, and with most of the memory taken. */
    td_client *other = td_connect(gpu.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(other);
    td_set_device(TD_CUDA);
    td_array *filled = td_empty(c, td_dims(160 << 20), TD_FLOAT32),
             *busy = td_randn(other, td_dims(M, M * 2), TD_FLOAT32);
    td_set_device(TD_CPU);
    td_array *sum = td_mm(busy, td_t(busy));
    for (int i = 0; i < 10; i++) {
        td_release(td_mm(busy, td_t(busy)));
        CU_ASSERT_TRUE(same_bits(fx, fy));
    }
    CU_ASSERT_EQUAL(td_sync(other), TD_OK);
    td_array *again = td_mm(busy, td_t(busy));
    CU_ASSERT_EQUAL(td_item_f64(td_to_device(td_amax(td_abs(td_sub(sum, again))), TD_CPU)), 0);
    CU_ASSERT_PTR_NOT_NULL(filled);
    /* In the next process. */
    td_disconnect(other);
    next_process();
    CU_ASSERT_TRUE(same_bits(fx, fy));
    CU_ASSERT_EQUAL(logged("launch td_k_gemm"), 0);
    end();
}

/* ---- failures */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* which take minutes for all of them */
enum { STEP = 11 };
#else
enum { STEP = 1 };
#endif

/* 1: by the library; 2: by own kernels; 0: a failure that names it; -1: anything else. */
static int how_it_went(void)
{
    td_scope inner;
    td_scope_begin(&inner);
    td_array *x = td_full(c, td_dims(M, K), 2, TD_FLOAT32), *y = td_full(c, td_dims(K, N), 3, TD_FLOAT32);
    td_clear_error();
    double v = td_item_f64(td_to_device(td_select(td_select(td_mm(far(x), far(y)), 0, M - 1), 0, N - 1), TD_CPU));
    const td_error *e = td_last_error();
    bool named = e->code == TD_E_DEVICE && strstr(e->message, "cublasLt") && !strcmp(e->op, "mm");
    int how = e->code ? (named ? 0 : -1) : v != 6.0 * K ? -1 : logged("launch td_k_gemm") ? 2 : 1;
    if (how < 0) printf("%g, %s %s\n", v, e->op, e->message);
    td_clear_error();
    td_scope_end(&inner);
    return how;
}

static void each_call_fails(void)
{
    int n, how[3] = {0};
    for (n = 1; n < 400; n += STEP) {
        char number[16];
        snprintf(number, sizeof number, "%d", n);
        setenv("FAKE_CUBLASLT_FAIL", number, 1);
        begin_libraries(NULL);
        int went = how_it_went();
        if (went < 0) printf("call %d\n", n);
        CU_ASSERT_TRUE(went >= 0);
        if (went >= 0) how[went]++;
        bool was_asked = logged("fails as asked") > 0;
        if (was_asked) CU_ASSERT_TRUE(how_it_went() >= 1); /* the next one of the same daemon goes well */
        CU_ASSERT_TRUE(test_daemon_alive(&gpu));
        end();
        if (!was_asked) break;
    }
    unsetenv("FAKE_CUBLASLT_FAIL");
    printf("%d calls were made to fail: %d products failed by the library's name, %d went by own kernels, %d by it\n",
           n - 1, how[0], how[2], how[1]);
    CU_ASSERT_TRUE(n > 40 && n < 400 && how[0] > 0 && how[1] > 0 && how[2] > 0);
}

/* One that ends its process as soon as it is touched is left alone after some starts. */
static void it_ends_the_process(void)
{
    setenv("FAKE_CUBLASLT_DIES", "1", 1);
    begin_libraries(NULL);
    int how = -1;
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; how < 0 && test_now_ms() < until; test_sleep_ms(50)) {
        td_scope inner;
        td_scope_begin(&inner);
        td_clear_error();
        how = td_item_f64(td_to_device(td_sum(far(td_ones(c, td_dims(4), TD_FLOAT32))), TD_CPU)) == 4 ? 1 : -1;
        td_clear_error();
        td_scope_end(&inner);
    }
    CU_ASSERT_EQUAL(how, 1);
    CU_ASSERT_EQUAL(how_it_went(), 2);
    unsetenv("FAKE_CUBLASLT_DIES");
    end();
}

/* The next process finds no library any more: what was planned for one is planned anew. */
static void it_is_gone(void)
{
    char directory[64], link[128], real[512],
        *path = getenv("LD_LIBRARY_PATH") ? strdup(getenv("LD_LIBRARY_PATH")) : NULL;
    snprintf(directory, sizeof directory, "/tmp/cublaslt-%d", (int)getpid());
    snprintf(link, sizeof link, "%s/libcublasLt.so.13", directory);
    snprintf(real, sizeof real, "%s/libcublasLt.so.13", getenv("FAKE_CUDA_LIBRARIES"));
    CU_ASSERT_TRUE_FATAL(!mkdir(directory, 0700) && !symlink(real, link));
    unsetenv("LD_LIBRARY_PATH"); /* the linker finds it nowhere */
    setenv("TENSORD_CUDA_LIBRARIES", directory, 1);
    begin_with((const char *[]){"--cuda-handles", "vmm", NULL});
    td_array *x = far(td_full(c, td_dims(M, K), 2, TD_FLOAT32)), *y = far(td_full(c, td_dims(K, N), 3, TD_FLOAT32));
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(td_item_f64(td_to_device(td_amax(td_mm(x, y)), TD_CPU)), 6.0 * K);
        if (i != 1) continue;
        CU_ASSERT_TRUE(logged("product float32") > 2 && !logged("launch td_k_gemm"));
        unlink(link);
        next_process();
        td_sync(c);
        CU_ASSERT_EQUAL(first_of_ones(), 4); /* it is there, and has said what it has */
    }
    CU_ASSERT_TRUE(logged("launch td_k_gemm") > 0);
    rmdir(directory);
    if (path) setenv("LD_LIBRARY_PATH", path, 1);
    free(path);
    end();
}

/* What the library is, and what is wrong with it, is told. */
static const char *library_told(void)
{
    static char text[200];
    td_table *t = td_status(c, "devices");
    text[0] = 0;
    for (int r = 0; t && r < t->rows; r++)
        for (int i = 0; i < t->columns; i++)
            if (!strcmp(t->names[i], "library") && !strcmp(t->cells[r * t->columns].text, "cuda:0"))
                snprintf(text, sizeof text, "%s", t->cells[r * t->columns + i].text);
    td_table_free(t);
    return text;
}

static void told(void)
{
    setenv("FAKE_CUBLASLT_WRONG", "float32", 1);
    begin_libraries(NULL);
    CU_ASSERT_STRING_EQUAL(library_told(), "");
    CU_ASSERT_EQUAL(how_it_went(), 2);
    CU_ASSERT_EQUAL(strncmp(library_told(), "cublasLt 13.0.0 (", 17), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(library_told(), "not for float32: cublasLt: a small product comes out wrong"));
    unsetenv("FAKE_CUBLASLT_WRONG");
    end();
}

TD_CUNIT_MAIN("fake_cuda_products", {"each dtype", dtypes}, {"no way", no_way},
              {"both sides of what decides", thresholds}, {"without", without}, {"in place", in_place},
              {"the same bits", the_same_bits}, {"told", told}, {"it is gone", it_is_gone},
              {"each call fails", each_call_fails}, {"it ends the process", it_ends_the_process})
