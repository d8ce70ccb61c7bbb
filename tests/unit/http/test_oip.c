/* The Open Inference Protocol without a server: requests cut at each byte and at each place, what their inputs become,
 * what answers say; shared memory that is cut; paths. */
#include "client/http/oip.h"
#include "client/http/path.h"
#include "client/http/regions.h"
#include "tests/unit/cunit_main.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const char card_text[] =
    "{\"name\": \"m\", \"version\": 3, \"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [\"n\", 2]},"
    "{\"name\": \"k\", \"dtype\": \"int64\", \"shape\": []}], \"outputs\": [{\"name\": \"y\", \"dtype\": \"float32\","
    "\"shape\": [null, 2]}, {\"name\": \"z\", \"dtype\": \"bool\", \"shape\": null}],"
    "\"batch\": {\"inputs\": [0, null], \"outputs\": [0, null], \"sizes\": [1, 2], \"most\": 2}}";
#define X "{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[2,2],\"parameters\":{\"binary_data_size\":16}}"
#define K "{\"name\":\"k\",\"datatype\":\"INT64\",\"shape\":[],\"data\":[-7]}"

static oip_card card;

static int set_up(void)
{
    td_error e;
    return oip_card_read(&card, card_text, &e);
}

static int take_down(void)
{
    oip_card_close(&card);
    return 0;
}

static int read_text(oip_request *r, const char *text, uint64_t raw, td_error *e)
{
    *e = (td_error){0};
    return oip_read(r, &card, text, strlen(text), raw, e);
}

/* It is refused, for a reason in which this stands. */
static void is_refused(const char *text, uint64_t raw, const char *why)
{
    oip_request r;
    td_error e;
    int rc = read_text(&r, text, raw, &e);
    CU_ASSERT_NOT_EQUAL(rc, 0);
    CU_ASSERT_EQUAL(rc, e.code);
    if (!strstr(e.message, why)) printf("\n  %s\n  says: %s\n  not:  %s\n", text, e.message, why);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, why));
    oip_close(&r);
}

static void cards(void)
{
    CU_ASSERT_STRING_EQUAL(card.name, "m");
    CU_ASSERT_EQUAL(card.version, 3);
    CU_ASSERT_EQUAL(card.nin, 2);
    CU_ASSERT_EQUAL(card.in[0].shape[0], -1);
    CU_ASSERT_EQUAL(card.in[0].shape[1], 2);
    CU_ASSERT_EQUAL(card.in[0].rows, 0);
    CU_ASSERT_EQUAL(card.in[1].rows, -1);
    CU_ASSERT_EQUAL(card.out[1].ndim, -1);
    CU_ASSERT_EQUAL(card.most, 2);
    oip_card none;
    td_error e;
    for (size_t n = 0; n < sizeof card_text - 1; n++) {
        char *cut = strndup(card_text, n);
        CU_ASSERT_NOT_EQUAL(oip_card_read(&none, cut, &e), 0);
        oip_card_close(&none);
        free(cut);
    }
}

static void binary_and_text(void)
{
    oip_request r;
    td_error e;
    const float x[4] = {1, 2, -3, 0.5f};
    int rc = read_text(&r, "{\"id\":\"seven\",\"inputs\":[" X "," K "],\"parameters\":{\"timeout\":9,\"priority\":2}}",
                       16, &e);
    CU_ASSERT_EQUAL_FATAL(rc, 0);
    CU_ASSERT_EQUAL(r.timeout_us, 9);
    CU_ASSERT_EQUAL(r.priority, 2);
    CU_ASSERT_EQUAL(r.nout, 2);
    char *lease = calloc(1, r.lease);
    for (size_t at = 0; at < sizeof x; at += 3) /* as it comes, in pieces */
        oip_take(&r, lease, (const char *)x + at, sizeof x - at < 3 ? sizeof x - at : 3);
    oip_take(&r, lease, "more than there is", 18);
    CU_ASSERT_EQUAL(oip_fill(&r, lease, &e), 0);
    CU_ASSERT_EQUAL(memcmp(lease + r.in[0].place, x, sizeof x), 0);
    CU_ASSERT_EQUAL(*(int64_t *)(lease + r.in[1].place), -7);
    CU_ASSERT_EQUAL(r.in[1].place % 64, 0);
    free(lease);
    oip_close(&r);
}

static void refusals(void)
{
    is_refused("", 0, "list of inputs");
    is_refused("[]", 0, "an object");
    is_refused("{\"inputs\":[" X "]}", 16, "k: it is missing");
    is_refused("{\"inputs\":[" X "," K "," K "]}", 16, "more inputs");
    is_refused("{\"inputs\":[" K "," K "]}", 0, "twice");
    is_refused("{\"inputs\":[{\"name\":\"q\"}]}", 0, "none of the model's: x, k");
    is_refused("{\"inputs\":[{}]}", 0, "no name");
    is_refused("{\"inputs\":[" X "," K "]}", 15, "15 bytes lie behind");
    is_refused("{\"inputs\":[" X "," K "]}", 17, "its inputs say 16");
    is_refused("{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP64\",\"shape\":[1,2]}]}", 0, "takes FP32");
    is_refused("{\"inputs\":[{\"name\":\"x\",\"datatype\":\"BYTES\",\"shape\":[1,2]}]}", 0, "BYTES");
    is_refused("{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,3]}]}", 0, "takes [any, 2]");
    is_refused("{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,2]}]}", 0, "no number from 0 on");
    is_refused("{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[4611686018427387904,2]}]}", 0,
               "too many values");
    is_refused("{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,1,1,1,1,1,1,1,1]}]}", 0, "more than 8");
    is_refused("{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2]}]}", 0, "one of data");
    is_refused(
        "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2],\"parameters\":{\"binary_data_size\":9}}]}",
        9, "its shape says 8");
    is_refused("{\"inputs\":[" X "," K "],\"outputs\":[{\"name\":\"w\"}]}", 16, "none of the model's: y, z");
    is_refused("{\"inputs\":[" X "," K "],\"outputs\":[{\"name\":\"y\"},{\"name\":\"y\"}]}", 16, "twice");
    is_refused("{\"inputs\":[" X "," K "],\"parameters\":{\"sequence_id\":1}}", 16, "sequence_id");
    is_refused("{\"inputs\":[" X "," K "],\"parameters\":{\"timeout\":-1}}", 16, "timeout");
    is_refused("{\"inputs\":[" X "," K "],\"id\":7}", 16, "id");
    char deep[200];
    memset(deep, '[', sizeof deep - 1), deep[sizeof deep - 1] = 0;
    is_refused(deep, 0, "more than 32 deep");
    deep[33] = 0;
    is_refused(deep, 0, "more than 32 deep");
    deep[32] = 0;
    is_refused(deep, 0, "cannot be read"); /* for another reason */
}

/* Of the text of a request that is well: each cut is refused, and nothing is read behind it. */
static void cut_at_each_byte(void)
{
    static const char text[] =
        "{\"inputs\":[" X "," K "],\"outputs\":[{\"name\":\"y\",\"parameters\":{\"binary_data\":true}}]}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        oip_request r;
        td_error e;
        char *cut = malloc(n + 1); /* of its own, so that a sanitizer sees its end */
        memcpy(cut, text, n);
        CU_ASSERT_NOT_EQUAL(oip_read(&r, &card, cut, n, 16, &e), 0);
        oip_close(&r);
        free(cut);
    }
}

static int fill_one(td_dtype dtype, const char *data, void *out)
{
    char text[256];
    td_error e = {0};
    oip_port port = {.name = "v", .dtype = dtype, .ndim = 1, .shape = {2}};
    oip_card one = {.name = "", .in = &port, .nin = 1, .most = 1};
    oip_request r;
    snprintf(text, sizeof text, "{\"inputs\":[{\"name\":\"v\",\"datatype\":\"%s\",\"shape\":[2],\"data\":%s}]}",
             oip_dtype_name(dtype), data);
    int rc = oip_read(&r, &one, text, strlen(text), 0, &e);
    char lease[64] = {0};
    if (!rc) rc = oip_fill(&r, lease, &e);
    memcpy(out, lease, 16);
    oip_close(&r);
    return rc;
}

static void numbers_in_text(void)
{
    union {
        char bytes[16];
        uint8_t u8[2];
        int8_t i8[2];
        uint64_t u64[2];
        int64_t i64[2];
        float f[2];
        double d[2];
    } v;
    CU_ASSERT_EQUAL(fill_one(TD_UINT8, "[0,255]", &v), 0);
    CU_ASSERT_EQUAL(v.u8[1], 255);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_UINT8, "[0,256]", &v), 0);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_UINT8, "[0,-1]", &v), 0);
    CU_ASSERT_EQUAL(fill_one(TD_INT8, "[[-128],[127]]", &v), 0);
    CU_ASSERT_EQUAL(v.i8[0], -128);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_INT8, "[-129,0]", &v), 0);
    CU_ASSERT_EQUAL(fill_one(TD_UINT64, "[18446744073709551615,0]", &v), 0);
    CU_ASSERT_EQUAL(v.u64[0], UINT64_MAX);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_UINT64, "[18446744073709551616,0]", &v), 0);
    CU_ASSERT_EQUAL(fill_one(TD_INT64, "[-9223372036854775808,9223372036854775807]", &v), 0);
    CU_ASSERT_EQUAL(v.i64[0], INT64_MIN);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_INT64, "[9223372036854775808,0]", &v), 0);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_INT32, "[1.5,0]", &v), 0);
    CU_ASSERT_EQUAL(fill_one(TD_FLOAT32, "[1e-3,7]", &v), 0);
    CU_ASSERT_EQUAL(v.f[0], 1e-3f);
    CU_ASSERT_EQUAL(fill_one(TD_FLOAT64, "[0.1,12345678901234567890123]", &v), 0);
    CU_ASSERT_EQUAL(v.d[1], 12345678901234567890123.);
    CU_ASSERT_EQUAL(fill_one(TD_BOOL, "[true,0]", &v), 0);
    CU_ASSERT_EQUAL(v.u8[0], 1);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_BOOL, "[2,0]", &v), 0);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_FLOAT16, "[1,2]", &v), 0);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_FLOAT32, "[1]", &v), 0);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_FLOAT32, "[1,2,3]", &v), 0);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_FLOAT32, "[\"1\",2]", &v), 0);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_FLOAT32, "7", &v), 0);
}

/* As Python's json and Triton's RapidJSON write them. */
static void numbers_that_are_not_finite(void)
{
    union {
        char bytes[16];
        float f[2];
        double d[2];
    } v;
    CU_ASSERT_EQUAL(fill_one(TD_FLOAT32, "[NaN, Infinity]", &v), 0);
    CU_ASSERT(isnan(v.f[0]) && v.f[1] == INFINITY);
    CU_ASSERT_EQUAL(fill_one(TD_FLOAT64, "[-Infinity,[-NaN]]", &v), 0);
    CU_ASSERT(v.d[0] == -INFINITY && isnan(v.d[1]));
    CU_ASSERT_EQUAL(fill_one(TD_FLOAT32, "[Inf,-Inf]", &v), 0);
    CU_ASSERT(v.f[0] == INFINITY && v.f[1] == -INFINITY);
    static const char *const wrong[] = {"[nan,1]", "[NaN1,1]", "[--Infinity,1]", "[Infinit,1]", "[+Infinity,1]", "[In"};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        CU_ASSERT_NOT_EQUAL(fill_one(TD_FLOAT32, wrong[k], &v), 0);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_INT32, "[NaN,0]", &v), 0);
    CU_ASSERT_NOT_EQUAL(fill_one(TD_BOOL, "[NaN,0]", &v), 0);
}

static void bare_bytes(void)
{
    oip_port port = {.name = "v", .dtype = TD_FLOAT32, .ndim = 2, .shape = {-1, 3}};
    oip_card one = {.name = "", .in = &port, .nin = 1, .most = 1};
    oip_request r;
    td_error e;
    CU_ASSERT_EQUAL(oip_read_bare(&r, &one, 24, &e), 0);
    CU_ASSERT_EQUAL(r.in[0].shape[0], 2);
    oip_close(&r);
    CU_ASSERT_NOT_EQUAL(oip_read_bare(&r, &one, 23, &e), 0);
    oip_close(&r);
    CU_ASSERT_NOT_EQUAL(oip_read_bare(&r, &card, 24, &e), 0);
    oip_close(&r);
}

/* The text of an answer to a request for these outputs, and how many bytes of classes. */
static char *answer_to(const char *outputs, const oip_result *results, uint64_t most, td_error *e, td_bytes *classes)
{
    char text[1024];
    oip_request r;
    http_text t = {.most = most};
    snprintf(text, sizeof text, "{\"id\":\"a\\\"b\",\"inputs\":[" X "," K "]%s}", outputs);
    int rc = read_text(&r, text, 16, e);
    if (!rc) rc = oip_answer(&r, results, &t, classes, e);
    if (!rc) http_put_bytes(&t, "", 1);
    oip_close(&r);
    if (!rc) return (char *)t.bytes.at;
    free(t.bytes.at);
    return NULL;
}

/* The same text, so many values at a time; how often it went on. */
static int parts_of(const oip_result *results, uint64_t most, const char *want)
{
    oip_request r;
    http_text t = {0};
    td_bytes classes = {0};
    oip_written at = {0};
    td_error e;
    int n = 0, rc = read_text(&r, "{\"id\":\"a\\\"b\",\"inputs\":[" X "," K "]}", 16, &e);
    for (; !rc && !at.whole && n < 100; n++) rc = oip_answer_some(&r, results, &at, most, &t, &classes, &e);
    if (!rc) http_put_bytes(&t, "", 1);
    CU_ASSERT_EQUAL(rc, 0);
    CU_ASSERT_STRING_EQUAL(t.bytes.at, want);
    free(t.bytes.at);
    oip_close(&r);
    return n;
}

static bool is_written(http_text *t, double v, bool single, const char *want)
{
    t->bytes.n = 0;
    http_put_float(t, v, single);
    http_put_bytes(t, "", 1);
    if (want && strcmp((const char *)t->bytes.at, want) != 0) printf("%s, not %s\n", (const char *)t->bytes.at, want);
    double read = strtod((const char *)t->bytes.at, NULL);
    return (single ? (float)read == (float)v : read == v) && (!want || !strcmp((const char *)t->bytes.at, want));
}

/* Each is read again as it was, and has no digit that it does not need. */
static void floats(void)
{
    static const struct {
        float v;
        const char *text;
    } known[] = {{0, "0.0"},
                 {-0.0f, "-0.0"},
                 {1, "1.0"},
                 {-12345, "-12345.0"},
                 {123456, "123456.0"},
                 {1e6f, "1e+06"},
                 {1234567, "1234567.0"},
                 {0.1f, "0.1"},
                 {0.001234f, "0.001234"},
                 {0.00001234f, "1.234e-05"},
                 {16777216, "16777216.0"},
                 {3.4028235e38f, "3.4028235e+38"},
                 {1e-45f, "1.4013e-45"},
                 {1.17549435e-38f, "1.1754944e-38"},
                 {-9.99999509e-32f, "-9.999995e-32"},
                 {0.99999994f, "0.99999994"},
                 {9.9999e-5f, "9.9999e-05"}};
    http_text t = {0};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        CU_ASSERT_TRUE(is_written(&t, (double)known[i].v, true, known[i].text));
    CU_ASSERT_TRUE(is_written(&t, 0.1, false, "0.1"));
    CU_ASSERT_TRUE(is_written(&t, 1e300, false, "1e+300"));
    bool good = true;
    uint32_t bits = 1;
    for (int i = 0; i < 100000; i++) {
        float v;
        bits = bits * 1664525u + 1013904223u;
        uint32_t mixed = bits ^ bits >> 15;
        memcpy(&v, &mixed, sizeof v);
        good = good && (!isfinite(v) || is_written(&t, (double)v, true, NULL));
    }
    CU_ASSERT_TRUE(good);
    free(t.bytes.at);
}

static void answers(void)
{
    const float y[] = {0.1f, NAN, -INFINITY, 1e20f};
    const bool z[] = {true, false};
    const int64_t sy[] = {2, 2}, sz[] = {2};
    const oip_result results[] = {{TD_FLOAT32, 2, sy, y, sizeof y}, {TD_BOOL, 1, sz, z, sizeof z}};
    td_bytes classes = {0};
    td_error e;
    char *text = answer_to("", results, 0, &e, &classes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_STRING_EQUAL(text, "{\"model_name\":\"m\",\"model_version\":\"3\",\"id\":\"a\\\"b\",\"outputs\":[{"
                                 "\"name\":\"y\",\"datatype\":\"FP32\","
                                 "\"shape\":[2,2],\"data\":[0.1,NaN,-Infinity,1e+20]},{\"name\":\"z\",\"datatype\":"
                                 "\"BOOL\",\"shape\":[2],\"data\":[true,false]}]}");
    CU_ASSERT_EQUAL(parts_of(results, 1, text), 6);
    CU_ASSERT_EQUAL(parts_of(results, 4, text), 2);
    CU_ASSERT_EQUAL(parts_of(results, 5, text), 2);
    CU_ASSERT_EQUAL(parts_of(results, 7, text), 1);
    free(text);
    text = answer_to(",\"outputs\":[{\"name\":\"z\",\"parameters\":{\"binary_data\":true}}]", results, 0, &e, &classes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"parameters\":{\"binary_data_size\":2}}]}"));
    free(text);
    text = answer_to(",\"outputs\":[{\"name\":\"y\",\"parameters\":{\"classification\":1}}]", results, 0, &e, &classes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "\"BYTES\",\"shape\":[2,1],\"data\":[\"0.100000:0\",\"100000002004087734272.000000:1\"]"));
    free(text);
    CU_ASSERT_PTR_NULL(answer_to("", results, 64, &e, &classes));
    CU_ASSERT_EQUAL(e.code, TD_E_QUOTA);
    free(classes.at);
}

static void regions(void)
{
    http_regions all = {0};
    td_error e;
    char key[64], bytes[32] = "sixteen bytes...";
    snprintf(key, sizeof key, "/td-test-%d", (int)getpid());
    int fd = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    CU_ASSERT_FATAL(fd >= 0 && ftruncate(fd, 4096) == 0);
    CU_ASSERT_NOT_EQUAL(http_regions_add(&all, "r", key, 4000, 97, &e), 0);
    CU_ASSERT_NOT_EQUAL(http_regions_add(&all, "r", "/td-no-such", 0, 1, &e), 0);
    CU_ASSERT_EQUAL(http_regions_add(&all, "r", key, 16, 4080, &e), 0);
    CU_ASSERT_EQUAL(http_regions_add(&all, "r", key, 0, 1, &e), TD_E_EXISTS);
    CU_ASSERT_EQUAL(http_region_write(&all, "r", 4064, bytes, 16, &e), 0);
    CU_ASSERT_NOT_EQUAL(http_region_write(&all, "r", 4065, bytes, 16, &e), 0);
    CU_ASSERT_NOT_EQUAL(http_region_read(&all, "r", UINT64_MAX, bytes, 2, &e), 0);
    CU_ASSERT_EQUAL(http_region_read(&all, "q", 0, bytes, 2, &e), TD_E_NOT_FOUND);
    memset(bytes, 0, sizeof bytes);
    CU_ASSERT_EQUAL(http_region_read(&all, "r", 4064, bytes, 16, &e), 0);
    CU_ASSERT_STRING_EQUAL(bytes, "sixteen bytes...");
    CU_ASSERT_EQUAL(ftruncate(fd, 100), 0); /* its maker cuts it: no signal, an error */
    CU_ASSERT_NOT_EQUAL(http_region_read(&all, "r", 4064, bytes, 16, &e), 0);
    CU_ASSERT_NOT_EQUAL(http_region_write(&all, "r", 4064, bytes, 16, &e), 0);
    http_regions_remove(&all, "r");
    CU_ASSERT_EQUAL(all.n, 0);
    http_regions_free(&all);
    shm_unlink(key);
    close(fd);
}

static void paths(void)
{
    http_path p;
    CU_ASSERT(http_path_read(&p, "/v2/models/a%2Fb%20c/infer?x=/y"));
    CU_ASSERT_EQUAL(p.n, 4);
    CU_ASSERT_STRING_EQUAL(p.at[2], "a/b c");
    CU_ASSERT(http_path_read(&p, "/"));
    CU_ASSERT_EQUAL(p.n, 0);
    CU_ASSERT(http_path_read(&p, "//v2//"));
    CU_ASSERT_EQUAL(p.n, 1);
    static const char *const none[] = {"/a%", "/a%2", "/a%zz", "/a%00", "*x/1/2/3/4/5/6/7/8/9", "/1/2/3/4/5/6/7/8/9"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) CU_ASSERT_FALSE(http_path_read(&p, none[i]));
    char text[3000];
    memset(text, 'a', sizeof text - 1), text[0] = '/', text[sizeof text - 1] = 0;
    CU_ASSERT_FALSE(http_path_read(&p, text));
}

TD_CUNIT_MAIN_WITH("http_oip", set_up, take_down, {"a card, and its cuts", cards},
                   {"binary data and data in the text", binary_and_text}, {"what is wrong is named", refusals},
                   {"a request cut at each byte", cut_at_each_byte},
                   {"numbers of each kind in the text", numbers_in_text},
                   {"numbers that are not finite", numbers_that_are_not_finite}, {"bytes without a text", bare_bytes},
                   {"floats", floats}, {"answers", answers}, {"shared memory, also cut", regions}, {"paths", paths})
