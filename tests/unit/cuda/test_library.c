/* cuBLASLt in tensord-cuda: where it is looked for, its declarations beside cublasLt.h, the trial, products of all
 * kinds by the wire, and what is none. On the fake driver, with the fake library. */
#include "daemon/cuda/helper/cublaslt.h"
#include "shm/cuda/library.h"
#include "tests/unit/cuda/cublaslt_layout.h"
#include "tests/unit/cuda/process.h"
#include "tests/unit/cunit_main.h"
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, ALL = 15 };
static process p;
static process_memory m;
static char log_path[64], broken[64];

/* ---- declarations and places */

static void declared(void)
{
    static const cuda_layout ours[] = CUBLASLT_LAYOUT;
    const cuda_layout *theirs = cublaslt_layout_of_header();
    if (!theirs) {
        td_test_skip("no cublasLt.h here to compare with");
        return;
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        bool equal = ours[i].value == theirs[i].value;
        if (!equal) printf("%s: %lld, in cublasLt.h %lld\n", ours[i].name, ours[i].value, theirs[i].value);
        CU_ASSERT_TRUE(equal);
    }
}

static void libraries(const char *list)
{
    if (list) setenv("TENSORD_CUDA_LIBRARIES", list, 1);
    else unsetenv("TENSORD_CUDA_LIBRARIES");
}

static void places_are(const char *list, const char *const *expected)
{
    char path[TD_CUDA_PATH];
    unsigned i = 0;
    libraries(list);
    for (; expected[i]; i++) {
        CU_ASSERT_TRUE(td_cuda_library_place(i, path));
        CU_ASSERT_STRING_EQUAL(path, expected[i]);
    }
    CU_ASSERT_FALSE(td_cuda_library_place(i, path));
}

#define USUAL                                                                                                          \
    "libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13",                               \
        "/usr/local/cuda/lib64/libcublasLt.so.12", NULL

static void places(void)
{
    places_are(NULL, (const char *[]){USUAL});
    places_are("", (const char *[]){USUAL});
    places_are("off", (const char *[]){NULL});
    places_are("/a::/b/c:", (const char *[]){"/a/libcublasLt.so.13", "/a/libcublasLt.so.12", "/b/c/libcublasLt.so.13",
                                             "/b/c/libcublasLt.so.12", USUAL});
}

/* A directory with a file of the library's name that is none. */
static bool make_broken(void)
{
    char path[128];
    snprintf(broken, sizeof broken, "/tmp/broken-cublaslt-%d", (int)getpid());
    snprintf(path, sizeof path, "%s/libcublasLt.so.12", broken);
    if (mkdir(broken, 0700)) return false;
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    bool made = fd >= 0 && write(fd, "nothing", 7) == 7;
    close(fd);
    return made;
}

static void unmake_broken(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/libcublasLt.so.12", broken);
    unlink(path);
    rmdir(broken);
}

static void files(void)
{
    char path[TD_CUDA_PATH], list[256], expected[128];
    CU_ASSERT_FATAL(make_broken());
    snprintf(list, sizeof list, "/nowhere:%s", broken);
    snprintf(expected, sizeof expected, "%s/libcublasLt.so.12", broken);
    libraries(list);
    CU_ASSERT_TRUE(td_cuda_library_find(path));
    CU_ASSERT_STRING_EQUAL(path, expected);
    libraries("off");
    CU_ASSERT_FALSE(td_cuda_library_find(path));
    libraries(NULL); /* what a linker would find */
    setenv("LD_LIBRARY_PATH", broken, 1);
    CU_ASSERT_TRUE(td_cuda_library_find(path));
    CU_ASSERT_PTR_NOT_NULL(strstr(path, "/libcublasLt.so.1"));
    unsetenv("LD_LIBRARY_PATH");
    unmake_broken();
}

/* ---- the process */

static bool start(const char *list)
{
    libraries(list);
    return process_start(&p, TD_GPU_HANDLES_VMM) && !p.greeting.code && process_arena(&p, 4 * MIB, &m) && !m.code;
}

static bool start_with(const char *variable, const char *value)
{
    if (value) setenv(variable, value, 1);
    bool started = start(getenv("FAKE_CUDA_LIBRARIES"));
    unsetenv(variable);
    return started;
}

static void stop(void)
{
    if (m.fd >= 0) close(m.fd);
    m.fd = -1;
    CU_ASSERT_TRUE(process_end(&p));
    CU_ASSERT_TRUE(WIFEXITED(p.status) && WEXITSTATUS(p.status) == 0);
}

static bool log_has(const char *word)
{
    char command[256];
    snprintf(command, sizeof command, "grep -q '%s' %s", word, log_path);
    return system(command) == 0;
}

static void begin_log(void)
{
    snprintf(log_path, sizeof log_path, "/tmp/fake-cublaslt-%d.log", (int)getpid());
    unlink(log_path);
    setenv("FAKE_CUDA_LOG", log_path, 1);
}

static void end_log(void)
{
    CU_ASSERT_FALSE(log_has("misuse"));
    unlink(log_path);
    unsetenv("FAKE_CUDA_LOG");
}

/* ---- products of float32: a at `at`, b a MiB behind it, d two */

static td_cuda_product small(int64_t rows, int64_t columns, int64_t depth)
{
    return (td_cuda_product){.a = {m.address, rows + 3, (rows + 3) * depth},
                             .b = {m.address + MIB, depth + 1, (depth + 1) * columns},
                             .d = {m.address + 2 * MIB, rows, rows * columns},
                             .m = rows,
                             .n = columns,
                             .k = depth,
                             .batch = 1,
                             .alpha = 1,
                             .alignment = 4,
                             .dtype = TD_FLOAT32};
}

static void run_product(const td_cuda_product *of, unsigned stream)
{
    run_library(&p, stream, of);
}

/* Sent, and right; false: it was refused, or is wrong. */
static bool is_right(const td_cuda_product *of)
{
    enum { FLOATS = 20000 };
    static float a[FLOATS], b[FLOATS], d[FLOATS], got[FLOATS];
    td_gpu_end e;
    for (int i = 0; i < FLOATS; i++) {
        a[i] = (float)(i * 7 % 11 - 5);
        b[i] = (float)(i * 5 % 13 - 6);
        d[i] = (float)(i % 17);
    }
    const size_t all = sizeof a;
    if (!process_write(&p, of->a.at, a, all) || !process_write(&p, of->b.at, b, all)) return false;
    if (!process_write(&p, of->d.at, d, all)) return false;
    run_wait(&p, 1, TD_GPU_STREAMS - 1);
    run_product(of, 1);
    if (!process_end_of(&p, 1, &e) || e.code) return false;
    run_wait(&p, TD_GPU_STREAMS - 1, 1);
    if (!process_read(&p, of->d.at, got, all)) return false;
    for (int64_t t = 0; t < of->batch; t++)
        for (int64_t i = 0; i < of->m; i++)
            for (int64_t j = 0; j < of->n; j++) {
                double sum = 0;
                for (int64_t q = 0; q < of->k; q++)
                    sum += (double)a[t * of->a.step + (of->a_turned ? q + i * of->a.ld : i + q * of->a.ld)] *
                           (double)b[t * of->b.step + (of->b_turned ? j + q * of->b.ld : q + j * of->b.ld)];
                int64_t at = t * of->d.step + i + j * of->d.ld;
                double expected = of->alpha * sum + (of->beta != 0 ? of->beta * (double)d[at] : 0);
                if (fabs((double)got[at] - expected) > 1e-3) return false;
            }
    return true;
}

static void computes(void)
{
    begin_log();
    CU_ASSERT_FATAL(start_with("FAKE_CUBLASLT_FAIL", NULL));
    CU_ASSERT_EQUAL(p.greeting.products, ALL);
    printf("%s\n", p.greeting.library);
    CU_ASSERT_EQUAL(strncmp(p.greeting.library, "cublasLt 13.0.0 (/", 18), 0);
    for (int i = 0; i < 64; i++) {
        td_cuda_product of = small(9 + i % 5, 17 - i % 3, 21 + i % 7);
        if (i & 1) of.a_turned = 1, of.a.ld = of.k + 2, of.a.step = of.a.ld * of.m;
        if (i & 2) of.b_turned = 1, of.b.ld = of.n + 5, of.b.step = of.b.ld * of.k;
        if (i & 4) of.batch = 3;
        if (i & 8) of.beta = 0.5, of.alpha = 2;
        if (i & 16) of.a.at += 4;
        if (i & 32) of.alignment = i & 16 ? 4 : 64, of.batch = 1;
        bool right = is_right(&of);
        if (!right) printf("product %d: %s\n", i, p.told.why);
        CU_ASSERT_TRUE(right);
    }
    CU_ASSERT_TRUE(log_has("launch fake_cublaslt_product"));
    stop();
    end_log();
}

/* Streams run beside each other: each works in memory of its own. */
static void memory_for_each_stream(void)
{
    char line[600];
    unsigned long long at[8] = {0};
    int n = 0;
    begin_log();
    CU_ASSERT_FATAL(start_with("FAKE_CUBLASLT_FAIL", NULL));
    const td_cuda_product of = small(8, 9, 10);
    for (unsigned s = 0; s < 4; s++) {
        run_product(&of, s);
        CU_ASSERT_TRUE(process_ends(&p, s));
    }
    FILE *f = fopen(log_path, "r");
    while (f && fgets(line, sizeof line, f) && n < 8) {
        const char *said = strstr(line, "m 8 n 9 k 10 ") ? strstr(line, "workspace ") : NULL;
        if (said) n += sscanf(said, "workspace %llx", &at[n]) == 1;
    }
    if (f) fclose(f);
    CU_ASSERT_EQUAL(n, 4);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) CU_ASSERT_TRUE(llabs((long long)(at[i] - at[j])) >= 8 * MIB);
    stop();
    end_log();
}

/* More shapes than are kept, each of them asked for again. */
static void many_shapes(void)
{
    enum { SHAPES = 1500 };
    begin_log();
    CU_ASSERT_FATAL(start_with("FAKE_CUBLASLT_FAIL", NULL));
    for (int i = 0; i < 2 * SHAPES; i++) {
        td_cuda_product of = small(1 + i % SHAPES % 50, 1 + i % SHAPES / 50, 1);
        run_product(&of, (unsigned)i % 4);
        if (i % 100 == 99)
            for (unsigned s = 0; s < 4; s++) CU_ASSERT_TRUE(process_ends(&p, s));
    }
    stop();
    end_log();
}

/* ---- what is none */

static void is_refused(const td_cuda_product *of, unsigned stream)
{
    td_gpu_end e;
    p.told.why[0] = 0;
    run_product(of, stream);
    bool told = process_end_of(&p, stream, &e) && e.code && strstr(p.told.why, "cublasLt");
    if (!told) printf("let pass, or not told: %s\n", p.told.why);
    CU_ASSERT_TRUE(told);
}

static void refuses(void)
{
    begin_log();
    CU_ASSERT_FATAL(start_with("FAKE_CUBLASLT_FAIL", NULL));
    const td_cuda_product good = small(8, 9, 10);
#define SPOILT(what)                                                                                                   \
    do {                                                                                                               \
        td_cuda_product of = good;                                                                                     \
        of.what;                                                                                                       \
        is_refused(&of, 0);                                                                                            \
    } while (0)
    SPOILT(m = 0);
    SPOILT(n = -1);
    SPOILT(k = INT64_MAX);
    SPOILT(batch = 0);
    SPOILT(batch = INT64_MAX);
    SPOILT(dtype = TD_INT64);
    SPOILT(dtype = 255);
    SPOILT(a_turned = 2);
    SPOILT(b_turned = 255);
    SPOILT(a.ld = good.m - 1);
    SPOILT(a.ld = INT64_MAX);
    SPOILT(b.ld = 0);
    SPOILT(d.ld = -1);
    SPOILT(d.step = -1);
    SPOILT(alignment = 0);
    SPOILT(alignment = 3);
    SPOILT(alignment = 128);
    SPOILT(a.at += 2);
    SPOILT(b.at = 0);
    SPOILT(d.at = m.address + 4 * MIB - 4 * 8 * 9 + 4); /* its last element is outside */
    SPOILT(b.at = UINT64_MAX - 3);
    SPOILT(a.ld = 1 << 20);
    td_cuda_product many = good;
    many.batch = 2, many.a.step = INT64_MAX / 2;
    is_refused(&many, 0);
    many.batch = INT32_MAX;
    is_refused(&many, 0);
    is_refused(&good, TD_GPU_STREAMS - 1); /* copies have no memory to work with */
    CU_ASSERT_TRUE(is_right(&good));       /* nothing of it is left */
    stop();
    end_log();
}

/* A record that is cut short ends the process with a word. */
static void cut_short(void)
{
    td_gpu_end e;
    CU_ASSERT_FATAL(start_with("FAKE_CUBLASLT_FAIL", NULL));
    run_cut(&p, TD_GPU_PRODUCT, 0, sizeof(td_gpu_product) - 8);
    CU_ASSERT_FALSE(process_end_of(&p, 0, &e));
    CU_ASSERT_EQUAL(p.told.kind, TD_GPU_FAILED);
    close(m.fd);
    process_kill(&p);
}

/* ---- libraries that are not, or are not right */

static void none(void)
{
    CU_ASSERT_FATAL(start("off"));
    CU_ASSERT_EQUAL(p.greeting.products, 0);
    CU_ASSERT_STRING_EQUAL(p.greeting.library, "");
    const td_cuda_product of = small(8, 9, 10);
    is_refused(&of, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(p.told.why, "this process computes no such products"));
    stop();
}

static void none_that_opens(void)
{
    char list[256];
    CU_ASSERT_FATAL(make_broken());
    snprintf(list, sizeof list, "%s:%s", broken, getenv("FAKE_CUDA_LIBRARIES"));
    CU_ASSERT_FATAL(start(list)); /* the next one is taken */
    CU_ASSERT_EQUAL(p.greeting.products, ALL);
    stop();
    unmake_broken();
}

/* What failed is not tried again under its bare name, as which the linker has it by now. */
static void not_twice(void)
{
    CU_ASSERT_FATAL(start_with("FAKE_CUBLASLT_FAIL", "cublasLtCreate:1"));
    CU_ASSERT_EQUAL(p.greeting.products, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(p.greeting.library, "is not used: cublasLtCreate of cublasLt"));
    stop();
}

static void wrong_numbers(void)
{
    begin_log();
    CU_ASSERT_FATAL(start_with("FAKE_CUBLASLT_WRONG", "float16"));
    CU_ASSERT_EQUAL(p.greeting.products, ALL & ~(unsigned)TD_CUDA_LIB_F16);
    CU_ASSERT_PTR_NOT_NULL(strstr(p.greeting.library, "not for float16: cublasLt: a small product comes out wrong"));
    td_cuda_product of = small(8, 9, 10);
    CU_ASSERT_TRUE(is_right(&of));
    of.dtype = TD_FLOAT16;
    is_refused(&of, 0);
    stop();
    end_log();
}

/* A way that adds its pieces as they come is left, though it is offered first. */
static void ways_that_split(void)
{
    begin_log();
    CU_ASSERT_FATAL(start_with("FAKE_CUBLASLT_SPLITS", "1"));
    CU_ASSERT_EQUAL(p.greeting.products, ALL);
    stop();
    end_log();
}

/* Where the library has no way to compute a product, or none is there, the launch behind it runs instead. */
static void instead(void)
{
    enum { FLOATS = 72 };
    static const char *const names[] = {"test_add"};
    float sent[FLOATS], got[FLOATS];
    td_gpu_end e;
    for (int i = 0; i < FLOATS; i++) sent[i] = (float)i;
    begin_log();
    for (int there = 0; there < 2; there++) {
        setenv("FAKE_CUBLASLT_NO_WAY", "none", 1);
        CU_ASSERT_FATAL(start(there ? getenv("FAKE_CUDA_LIBRARIES") : "off"));
        CU_ASSERT_TRUE(process_names(&p, 0, names, 1) && process_write(&p, m.address, sent, sizeof sent));
        const td_cuda_product lacks = small(8, 9, 64), has = small(8, 9, 10);
        const uint64_t add[] = {0, m.address + 3 * MIB, m.address, m.address, FLOATS};
        run_wait(&p, 0, TD_GPU_STREAMS - 1);
        run_library_or(&p, 0, &lacks, 0, add, sizeof add, 0);
        CU_ASSERT_TRUE(process_ends(&p, 0));
        run_wait(&p, TD_GPU_STREAMS - 1, 0);
        CU_ASSERT_TRUE(process_read(&p, m.address + 3 * MIB, got, sizeof got) && got[FLOATS - 1] == 2 * (FLOATS - 1));
        run_library_or(&p, 0, &lacks, 0, add, sizeof add, 8);
        CU_ASSERT_TRUE(process_end_of(&p, 0, &e) && e.code && strstr(p.told.why, "cut short"));
        is_refused(&lacks, 0);
        run_library_or(&p, 0, &has, 7, add, sizeof add, 0); /* no such kernel */
        CU_ASSERT_EQUAL(process_ends(&p, 0), there);
        stop();
    }
    unsetenv("FAKE_CUBLASLT_NO_WAY");
    end_log();
}

static void dies(void)
{
    setenv("FAKE_CUBLASLT_DIES", "1", 1);
    CU_ASSERT_FALSE(start(getenv("FAKE_CUDA_LIBRARIES")));
    process_kill(&p);
    p.no_libraries = true;
    CU_ASSERT_TRUE(start(getenv("FAKE_CUDA_LIBRARIES")));
    CU_ASSERT_EQUAL(p.greeting.products, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(p.greeting.library, "did not begin with it"));
    p.no_libraries = false;
    stop();
    unsetenv("FAKE_CUBLASLT_DIES");
}

/* What the library works with lies nowhere where an arena of the last process comes back to. */
static void beside_arenas(void)
{
    process_memory big, again;
    begin_log();
    CU_ASSERT_FATAL(start_with("FAKE_CUBLASLT_FAIL", NULL));
    CU_ASSERT_FATAL(process_arena(&p, 512 * MIB, &big) && !big.code); /* so large that the next process begins in it */
    close(m.fd);
    process_kill(&p);
    CU_ASSERT_FATAL(process_start(&p, TD_GPU_HANDLES_VMM) && !p.greeting.code);
    CU_ASSERT_EQUAL(p.greeting.products, ALL);
    CU_ASSERT_TRUE(process_import(&p, &big, &again) && !again.code);
    close(big.fd);
    CU_ASSERT_FATAL(process_arena(&p, 4 * MIB, &m) && !m.code);
    const td_cuda_product of = small(8, 9, 10);
    CU_ASSERT_TRUE(is_right(&of));
    stop();
    end_log();
}

/* Each call of the library, and each of the driver's while it is tried: it is used, or not; what it computes is right,
 * or refused by its name. */
static void fails(const char *variable, const char *form, int least, int most)
{
    int n = 1, used = 0;
    for (; n < most; n++) {
        char number[64];
        begin_log();
        snprintf(number, sizeof number, form, n);
        setenv(variable, number, 1);
        bool started = start(getenv("FAKE_CUDA_LIBRARIES"));
        if (started) {
            const td_cuda_product of = small(8, 9, 10);
            bool right = is_right(&of);
            used += p.greeting.products == ALL;
            if (!right && !strstr(p.told.why, "cublasLt")) printf("%s %d: %s\n", variable, n, p.told.why);
            CU_ASSERT_TRUE(right || strstr(p.told.why, "cublasLt"));
            CU_ASSERT_TRUE(p.greeting.products == ALL || p.greeting.library[0]);
        }
        unsetenv(variable);
        if (m.fd >= 0) close(m.fd);
        m.fd = -1;
        process_kill(&p);
        bool asked = log_has("fails as asked");
        end_log();
        if (!asked) break;
    }
    printf("%s: %d calls were made to fail, with %d of them the whole library is used all the same\n", variable, n - 1,
           used);
    CU_ASSERT_TRUE(n < most && n > least);
}

static void each_call_fails(void)
{
    fails("FAKE_CUBLASLT_FAIL", "%d", 40, 1000);
}

static void each_launch_fails(void)
{
    fails("FAKE_CUDA_FAIL", "cuLaunchKernel:%d", 4, 100);
    fails("FAKE_CUDA_FAIL", "cuMemcpyHtoD:%d", 4, 100);
    fails("FAKE_CUDA_FAIL", "cuMemAlloc:%d", 2, 100);
}

TD_CUNIT_MAIN("fake_cuda_library", {"declarations beside cublasLt.h", declared}, {"places", places},
              {"files in them", files}, {"computes", computes}, {"memory for each stream", memory_for_each_stream},
              {"many shapes", many_shapes}, {"refuses", refuses}, {"a record that is cut short", cut_short},
              {"none", none}, {"none that opens", none_that_opens}, {"not twice", not_twice},
              {"wrong numbers", wrong_numbers}, {"ways that split k", ways_that_split}, {"instead", instead},
              {"beside arenas", beside_arenas}, {"it dies", dies}, {"each call fails", each_call_fails},
              {"each launch fails", each_launch_fails})
