/* Files that somebody made to break who reads them, and files with mistakes: each is refused with what is wrong, or
 * taken; what is allocated is bounded by the file. */
#include "client/onnx/onnx.h"
#include "client/onnx/text.h"
#include "client/script/script.h"
#include "tests/client/common.h"
#include "tests/onnx/build.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[200]; /* a folder */

static int begin(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/onnx_XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(path)) return 1;
    return start_server();
}

static int end(void)
{
    rmdir(path);
    return stop_server();
}

/* What the text is of a file of these bytes, to be freed; NULL: e says why. */
static char *source_of(const void *bytes, size_t n, td_error *e)
{
    char name[64];
    int fd = memfd_create("model", MFD_CLOEXEC);
    CU_ASSERT_EQUAL_FATAL(write(fd, bytes, n), (ssize_t)n);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    *e = (td_error){0};
    char *text = td_onnx_source(name, e);
    close(fd);
    CU_ASSERT(text || (e->code && e->message[0]));
    return text;
}

static void is_source(const char *text)
{
    td_script_source s = {"main", text, strlen(text), 1};
    td_ast ast;
    td_error e;
    CU_ASSERT_EQUAL(td_script_parse(&s, 0, &ast, &e), 0);
    td_ast_deinit(&ast);
}

/* The model is gone then. */
static bool refused(proto m, const char *why)
{
    td_error e;
    char *text = source_of(m.at, m.n, &e);
    bool said = !text && strstr(e.message, why) != NULL;
    if (!said) fprintf(stderr, "'%s' instead of '%s'\n", text ? text : e.message, why);
    free(text);
    free(m.at);
    return said;
}

static bool taken(proto m, const char *holds)
{
    td_error e;
    char *text = source_of(m.at, m.n, &e);
    bool good = text && strstr(text, holds) != NULL;
    if (!good) fprintf(stderr, "'%s' holds no '%s'\n", text ? text : e.message, holds);
    if (text) is_source(text);
    free(text);
    free(m.at);
    return good;
}

static proto small(void)
{
    proto g = {0}, perm = {0};
    float w[6] = {1, 2, 3, 4, 5, 6};
    put_value(&g, 11, "x", 1, "batch 2");
    put_weight(&g, "w", 1, 2, (int64_t[]){2, 3}, w, sizeof w);
    put_node(&g, "product", "MatMul", "x w", "t", NULL);
    put_attribute_int(&perm, "axis", 1);
    put_node(&g, "last", "Softmax", "t", "y", &perm);
    put_value(&g, 12, "y", 1, "batch 3");
    return model_of(&g, 13);
}

/* ---- bytes */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* have memory of their own */
enum { MEASURED = 0 };
#else
enum { MEASURED = 1 };
#endif

static void test_cut_at_each_byte(void)
{
    proto m = small();
    td_error e;
    char *whole = source_of(m.at, m.n, &e);
    CU_ASSERT_PTR_NOT_NULL(whole);
    for (size_t n = 0; n < m.n; n++) {
        char *text = source_of(m.at, n, &e);
        CU_ASSERT_PTR_NULL(text); /* the opset stands last */
        free(text);
    }
    free(whole);
    free(m.at);
}

static void test_each_bit_turned(void)
{
    proto m = small();
    td_error e;
    for (size_t k = 0; k < 8 * m.n; k++) {
        m.at[k / 8] ^= (unsigned char)(1 << k % 8);
        char *text = source_of(m.at, m.n, &e);
        if (text) is_source(text);
        free(text);
        m.at[k / 8] ^= (unsigned char)(1 << k % 8);
    }
    free(m.at);
}

static void test_lengths_past_the_end(void)
{
    proto m = {0}, n = {0};
    put_varint(&m, 7 << 3 | 2);
    put_varint(&m, UINT64_MAX);
    CU_ASSERT(refused(m, "a length that goes past the end"));
    put_varint(&n, 7 << 3 | 2);
    put_bytes(&n, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
    CU_ASSERT(refused(n, "a number of more than 64 bits"));
    m = (proto){0};
    put_bytes(&m, "\x03\x02", 2);
    CU_ASSERT(refused(m, "a field without a number"));
    m = (proto){0};
    put_bytes(&m, "\xf3\x01", 2); /* a group */
    CU_ASSERT(refused(m, "of a kind that protobuf has not"));
}

/* A field of protobuf that is to have a length, as a number of one of the other kinds. */
static void put_unsized(proto *p, unsigned field, unsigned wire)
{
    put_varint(p, field << 3 | wire);
    put_bytes(p, "\0\0\0\0\0\0\0", wire == 0 ? 1 : wire == 5 ? 4 : 8);
}

static void test_fields_without_a_length(void)
{
    static const unsigned kinds[] = {0, 1, 5};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        proto m = {0}, named = {0}, weighted = {0}, with_node = {0}, weight = {0}, node = {0};
        put_unsized(&m, 7, kinds[k]); /* the graph */
        CU_ASSERT(refused(m, "a field of the wrong kind"));
        put_unsized(&named, 2, kinds[k]); /* its name */
        CU_ASSERT(refused(model_of(&named, 13), "a field of the wrong kind"));
        put_unsized(&weight, 9, kinds[k]); /* the bytes of a weight */
        put_message(&weighted, 5, &weight);
        CU_ASSERT(refused(model_of(&weighted, 13), "a field of the wrong kind"));
        put_unsized(&node, 1, kinds[k]); /* one of the names of its inputs */
        put_message(&with_node, 1, &node);
        CU_ASSERT(refused(model_of(&with_node, 13), "a field of the wrong kind"));
    }
}

/* Graphs in attributes in nodes in graphs, as deep as the file has bytes for. */
static void test_depth(void)
{
    proto g = {0};
    for (int k = 0; k < 200; k++) {
        proto node = {0};
        put_attribute_graph(&node, "then_branch", &g);
        put_node(&g, "n", "If", "c", "y", &node);
    }
    CU_ASSERT(refused(model_of(&g, 13), "nested deeper than 64"));
    for (int k = 0; k < 18; k++) {
        proto node = {0};
        put_value(&g, 12, "y", 1, "1");
        put_attribute_graph(&node, "then_branch", &g);
        put_node(&g, "n", "If", "c", "y", &node);
    }
    put_value(&g, 11, "c", 9, "");
    CU_ASSERT(refused(model_of(&g, 13), "deeper than 16"));
}

/* A weight of 2^40 elements in a file of 60 bytes, and sizes whose product is no number. */
static void test_sizes(void)
{
    static const struct {
        int n;
        int64_t sizes[9];
        const char *why;
    } cases[] = {{1, {INT64_C(1) << 40}, "4398046511104 bytes by its sizes, and the file has 4"},
                 {2, {INT64_C(1) << 40, INT64_C(1) << 40}, "make no sense"},
                 {1, {INT64_MAX}, "make no sense"},
                 {1, {-1}, "make no sense"},
                 {9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "has 9 dimensions"},
                 {2, {0, INT64_MAX}, "make no sense"},
                 {1, {2}, "8 bytes by its sizes, and the file has 4"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        proto g = {0};
        put_weight(&g, "w", 1, cases[k].n, cases[k].sizes, "\0\0\0\0", 4);
        put_node(&g, "n", "Relu", "w", "y", NULL);
        put_value(&g, 12, "y", 1, NULL);
        CU_ASSERT(refused(model_of(&g, 13), cases[k].why));
    }
    proto g = {0};
    put_weight(&g, "w", 23, 1, (int64_t[]){4}, "\0\0\0\0", 4);
    put_node(&g, "n", "Relu", "w", "y", NULL);
    put_value(&g, 12, "y", 1, NULL);
    CU_ASSERT(refused(model_of(&g, 13), "is of float4e2m1"));
}

/* Many small messages: each takes more memory than it has bytes. */
static void test_memory(void)
{
    proto g = {0};
    for (int k = 0; k < 200000; k++) put_data(&g, 13, "", 0);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    size_t size = g.n;
    CU_ASSERT(refused(model_of(&g, 13), "gives nothing"));
    getrusage(RUSAGE_SELF, &after);
    if (MEASURED) CU_ASSERT((size_t)(after.ru_maxrss - before.ru_maxrss) * 1024 <= size * TD_ONNX_GROWTH + (4 << 20));
}

static proto packed_ints(unsigned field, int n, int64_t v)
{
    proto all = {0}, out = {0};
    for (int k = 0; k < n; k++) put_varint(&all, (uint64_t)v);
    put_message(&out, field, &all);
    return out;
}

/* A constant of long numbers that is an input again and again: each time it would stand in the text. */
static void test_memory_of_the_text(void)
{
    enum { TIMES = 100000 };
    proto g = {0}, node = {0}, a = packed_ints(8, 64, INT64_MIN);
    put_text(&a, 1, "value_ints");
    put_int(&a, 20, 7);
    put_message(&node, 5, &a);
    put_node(&g, "c", "Constant", "", "c", &node);
    for (int k = 0; k < TIMES; k++) put_text(&node, 1, "c");
    put_attribute_int(&node, "axis", 0);
    put_node(&g, "n", "Concat", "", "y", &node);
    put_value(&g, 12, "y", 7, "n");
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    size_t size = g.n;
    CU_ASSERT(refused(model_of(&g, 13), "node 'n' (Concat, opset 13): the text of the model is longer than"));
    getrusage(RUSAGE_SELF, &after);
    if (MEASURED) CU_ASSERT((size_t)(after.ru_maxrss - before.ru_maxrss) * 1024 <= size * TD_ONNX_GROWTH + (4 << 20));
}

/* Lists without a number, packed and as they are. */
static void test_empty_lists(void)
{
    proto g = {0}, node = {0}, a = {0};
    put_text(&a, 1, "value_floats");
    put_data(&a, 7, "", 0);
    put_int(&a, 20, 6);
    put_message(&node, 5, &a);
    put_node(&g, "c", "Constant", "", "c", &node);
    put_value(&g, 11, "x", 1, "0");
    put_node(&g, "n", "Add", "x c", "y", NULL);
    put_value(&g, 12, "y", 1, "0");
    CU_ASSERT(taken(model_of(&g, 13), "Add"));
}

/* ---- names */

static void test_names(void)
{
    proto g = {0};
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "a", "Relu", "x", "y", NULL);
    put_node(&g, "b", "Relu", "x", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "two things are called 'y'"));
    put_value(&g, 11, "x", 1, "2");
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "a", "Relu", "x", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "two things are called 'x'"));
    put_node(&g, "a", "Relu", "nowhere", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "node 'a' (Relu, opset 13): nothing gives 'nowhere'"));
    put_value(&g, 11, "x", 1, "2");
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "nothing gives 'y'"));
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "a", "Add", "x c", "b", NULL);
    put_node(&g, "b", "Relu", "b", "c", NULL);
    put_value(&g, 12, "c", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "a circle through"));
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "a", "Add", "x a", "a", NULL);
    put_value(&g, 12, "a", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "a circle through"));
}

static void test_names_like_code(void)
{
    static const char evil[] = "x):\n    import os; os.system(\"true\")\n#\"\"\"\\";
    proto g = {0}, a = {0}, s = {0};
    put_value(&g, 11, evil, 1, "2");
    proto n = {0};
    put_text(&n, 1, evil);
    put_text(&n, 2, "y\n");
    put_text(&n, 3, evil);
    put_text(&n, 4, "Gelu");
    put_text(&a, 1, "approximate");
    put_text(&a, 4, "\"\n)\xff\xc3\xa4\\");
    put_message(&n, 5, &a);
    put_message(&g, 1, &n);
    put_value(&g, 12, "y\n", 1, "2");
    CU_ASSERT(taken(model_of(&g, 20), "approximate=\"\\x22\\x0a)\\xff\\xc3\\xa4\\x5c\""));
    /* an op, an attribute */
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, evil, "_out", "x", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "ops that tensord does not know"));
    put_value(&g, 11, "x", 1, "2");
    put_attribute_int(&s, "axis=0) or (x", 1);
    put_node(&g, "n", "Softmax", "x", "y", &s);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "its attribute 'axis=0) or (x' is not known"));
    /* one that the function has as an input, and one that text.c says by itself */
    put_value(&g, 11, "x", 1, "2");
    put_attribute_int(&s, "input", 1);
    put_node(&g, "n", "Softmax", "x", "y", &s);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "its attribute 'input' is not known"));
}

/* ---- ops */

static void test_unknown_ops(void)
{
    proto g = {0};
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "first", "Relux", "x", "a", NULL);
    put_node(&g, "second", "Gelu", "a", "b", NULL);
    put_node(&g, "third", "StringSplit", "b", "y", NULL);
    put_node(&g, "unused", "Foo", "b", "z", NULL);
    put_value(&g, 12, "y", 1, "2");
    td_error e;
    proto m = model_of(&g, 13);
    CU_ASSERT_PTR_NULL(source_of(m.at, m.n, &e));
    CU_ASSERT_EQUAL(e.code, TD_E_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(e.message,
                           "ops that tensord does not know (3 nodes): node 'first' (Relux, opset 13), near Relu; node "
                           "'second' (Gelu, opset 13), known from opset 20 on; node 'third' (StringSplit, opset 13)");
    free(m.at);
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "n", "Add", "x", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "node 'n' (Add, opset 13): it has no input 'B'"));
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "n", "Relu", "x x", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "it has 2 inputs, and such ops take 1"));
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "n", "Concat", "x x", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "node 'n' (Concat, opset 13): it has no attribute 'axis'"));
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "n", "Relu", "x", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 99), "opset is 99"));
}

/* Steps that are values: what they make is looked for among all steps. */
static void test_constants(void)
{
    proto g = {0}, node = {0};
    for (int k = 0; k < 500; k++) {
        char out[32], second[16];
        snprintf(out, sizeof out, "a%d b%d", k, k);
        snprintf(second, sizeof second, "b%d", k);
        put_attribute_int(&node, "value_int", 1);
        put_node(&g, "two", "Constant", "", out, &node);
        put_value(&g, 12, second, 7, "");
    }
    CU_ASSERT(refused(model_of(&g, 13), "node 'two' (Constant, opset 13): it has 2 outputs, and a constant has one"));
    put_attribute_int(&node, "value_integer", 1);
    put_node(&g, "odd", "Constant", "", "y", &node);
    put_value(&g, 12, "y", 7, "");
    CU_ASSERT(refused(model_of(&g, 13), "node 'odd' (Constant, opset 13): a constant of a kind that tensord has not"));
    put_attribute_int(&node, "value_int", 7);
    put_node(&g, "one", "Constant", "", "y", &node);
    put_value(&g, 12, "y", 7, "");
    CU_ASSERT(taken(model_of(&g, 13), "return _copy(w1)"));
}

/* One axis again and again, by a large step each time. */
static void test_slices(void)
{
    static const char *const names[] = {"starts", "ends", "axes", "steps"};
    static const int64_t values[] = {0, 1, 0, 1024};
    proto g = {0};
    put_weight(&g, "w", 7, 1, (int64_t[]){1}, "\7\0\0\0\0\0\0\0", 8);
    for (int k = 0; k < 4; k++) {
        int64_t all[8];
        for (int i = 0; i < 8; i++) all[i] = values[k];
        put_weight(&g, names[k], 7, 1, (int64_t[]){8}, all, sizeof all);
    }
    put_node(&g, "s", "Slice", "w starts ends axes steps", "t", NULL);
    put_value(&g, 11, "x", 1, "7");
    put_node(&g, "n", "Reshape", "x t", "y", NULL);
    put_value(&g, 12, "y", 1, "7");
    CU_ASSERT(taken(model_of(&g, 13), "[7]"));
}

/* Arms and bodies that do not give what their node does. */
static void test_bodies(void)
{
    proto g = {0}, body = {0}, node = {0};
    put_value(&body, 11, "i", 7, "");
    put_value(&body, 12, "i", 7, "");
    put_attribute_graph(&node, "body", &body);
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "l", "Loop", "x x x", "y", &node);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(
        refused(model_of(&g, 13), "node 'l' (Loop, opset 13): its body does not take and give what the node does"));
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "l", "Loop", "x x x", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "its body does not take"));
    put_value(&body, 12, "x", 1, "2");
    put_attribute_graph(&node, "then_branch", &body);
    put_value(&g, 11, "x", 1, "2");
    put_value(&g, 11, "c", 9, "");
    put_node(&g, "i", "If", "c", "y", &node);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "node 'i' (If, opset 13): its 'else_branch' does not give what the node does"));
}

/* What is no mistake of the text is one of a node, too. */
static void test_faults_name_nodes(void)
{
    td_client *c = join();
    proto g = {0};
    char name[64], *card;
    put_value(&g, 11, "x", 1, "2 3");
    proto perm = {0};
    put_node(&g, "grow", "DepthToSpace", "x", "t", NULL);
    put_node(&g, "n", "Relu", "t", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    CU_ASSERT(refused(model_of(&g, 13), "node 'grow' (DepthToSpace, opset 13): it has no attribute 'blocksize'"));
    put_value(&g, 11, "x", 1, "2 3");
    put_node(&g, "all", "Unique", "x", "t", (put_attribute_int(&perm, "axis", 1), &perm));
    put_value(&g, 12, "t", 1, "2");
    proto m = model_of(&g, 13);
    int fd = memfd_create("model", MFD_CLOEXEC);
    CU_ASSERT_EQUAL(write(fd, m.at, m.n), (ssize_t)m.n);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    CU_ASSERT_PTR_NULL(td_onnx_program(c, name, 0, &card));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "node 'all' (Unique, opset 13): "));
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_onnx_program(c, "/nowhere/model.onnx", 0, &card));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "model.onnx: it cannot be opened"));
    td_clear_error();
    free(m.at);
    close(fd);
    td_disconnect(c);
}

/* ---- external data */

static void write_file(const char *name, const void *bytes, size_t n)
{
    char full[300];
    snprintf(full, sizeof full, "%s/%s", path, name);
    int fd = open(full, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    CU_ASSERT_EQUAL_FATAL(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

static void remove_file(const char *name)
{
    char full[300];
    snprintf(full, sizeof full, "%s/%s", path, name);
    CU_ASSERT_EQUAL(remove(full), 0);
}

/* Read from the folder; the error says `why`, or it gives 3, 4. */
static void external(td_client *c, const char *location, const char *offset, const char *length, const char *why)
{
    proto g = {0};
    char full[300], *card = NULL;
    put_external(&g, "w", 2, location, offset, length);
    put_value(&g, 11, "x", 1, "2");
    put_node(&g, "n", "Add", "x w", "y", NULL);
    put_value(&g, 12, "y", 1, "2");
    proto m = model_of(&g, 13);
    write_file("model.onnx", m.at, m.n);
    free(m.at);
    snprintf(full, sizeof full, "%s/model.onnx", path);
    td_program *p = td_onnx_program(c, full, 0, &card);
    bool said = why && !p && strstr(td_last_error()->message, why);
    CU_ASSERT(said || !why);
    if (why && !said) fprintf(stderr, "'%s' instead of '%s'\n", p ? "taken" : td_last_error()->message, why);
    if (!why) {
        td_value in = td_value_array(td_zeros(c, td_dims(2), TD_FLOAT32)), out;
        CU_ASSERT_PTR_NOT_NULL_FATAL(p);
        CU_ASSERT_EQUAL_FATAL(td_program_call(p, 1, &in, &out), 0);
        CHECK_VALUES(out.array, 3, 4);
        td_value_free(&out);
        td_release(in.array);
    }
    free(card);
    td_program_free(p);
    td_clear_error();
    remove_file("model.onnx");
}

static void test_external_data(void)
{
    static const float numbers[4] = {1, 2, 3, 4};
    td_client *c = join();
    char full[300], other[300];
    write_file("weights.bin", numbers, sizeof numbers);
    snprintf(full, sizeof full, "%s/sub", path);
    CU_ASSERT_EQUAL(mkdir(full, 0700), 0);
    write_file("sub/more.bin", numbers + 2, 8);
    snprintf(full, sizeof full, "%s/link.bin", path);
    CU_ASSERT_EQUAL(symlink("weights.bin", full), 0);
    snprintf(full, sizeof full, "%s/linked", path);
    CU_ASSERT_EQUAL(symlink("sub", full), 0);
    snprintf(other, sizeof other, "%s/weights.bin", path);
    external(c, "weights.bin", "8", "8", NULL);
    external(c, "weights.bin", "8", NULL, NULL);
    external(c, "sub/more.bin", NULL, NULL, NULL);
    external(c, "weights.bin", "9", NULL, "has not as many at 9");
    external(c, "weights.bin", "18446744073709551615", NULL, "has not as many");
    external(c, "weights.bin", "0", "7", "has not as many");
    external(c, "weights.bin", "-8", NULL, "makes no sense");
    external(c, "weights.bin", "8x", NULL, "makes no sense");
    external(c, NULL, "8", NULL, "makes no sense");
    external(c, other, "8", NULL, "not beneath the model's folder");
    external(c, "../weights.bin", "8", NULL, "not beneath");
    external(c, "sub/../weights.bin", "8", NULL, "not beneath");
    external(c, "./weights.bin", "8", NULL, "not beneath");
    external(c, "link.bin", "8", NULL, "or a link");
    external(c, "linked/more.bin", NULL, NULL, "cannot be opened");
    external(c, "sub", NULL, NULL, "directory");
    external(c, "none.bin", NULL, NULL, "cannot be opened: No such file");
    remove_file("sub/more.bin");
    remove_file("sub");
    remove_file("link.bin");
    remove_file("linked");
    remove_file("weights.bin");
    td_disconnect(c);
}

/* ---- the card */

static void test_card(void)
{
    td_client *c = join();
    proto g = {0};
    char full[300], *card = NULL;
    put_value(&g, 11, "pic\"ture\n", 1, "batch 3 height 8");
    put_value(&g, 11, "any", 7, NULL);
    put_node(&g, "n", "Relu", "", "y", NULL);
    free(g.at);
    g = (proto){0};
    put_value(&g, 11, "any", 7, NULL);
    put_value(&g, 11, "pic\"ture", 1, "batch 3 height 8");
    proto n = {0};
    put_text(&n, 1, "pic\"ture");
    put_text(&n, 2, "y");
    put_text(&n, 4, "Relu");
    put_message(&g, 1, &n);
    put_value(&g, 12, "y", 1, "batch 3 height 8");
    put_value(&g, 12, "any", 7, "");
    proto m = model_of(&g, 13);
    write_file("m\xff.onnx", m.at, m.n);
    snprintf(full, sizeof full, "%s/m\xff.onnx", path);
    td_program *p = td_onnx_program(c, full, 0, &card);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    char *expected =
        "\"weights\": 0, \"file\": \"m\\\\xff.onnx\",\n \"inputs\": [{\"name\": \"any\", \"dtype\": \"int64\", "
        "\"shape\": null},\n            {\"name\": \"pic\\\"ture\", \"dtype\": \"float32\", \"shape\": "
        "[\"batch\", 3, \"height\", 8]}],\n \"outputs\": [{\"name\": \"y\", \"dtype\": \"float32\", \"shape\": "
        "[\"batch\", 3, \"height\", 8]},\n             {\"name\": \"any\", \"dtype\": \"int64\", \"shape\": []}]}\n";
    CU_ASSERT_PTR_NOT_NULL(strstr(card, expected));
    if (!strstr(card, expected)) fprintf(stderr, "%s\n", card);
    CU_ASSERT_PTR_NOT_NULL(strstr(card, "\"digest\": \"sha256:"));
    free(card);
    free(m.at);
    td_program_free(p);
    remove_file("m\xff.onnx");
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("onnx_hostile", begin, end, {"cut at each byte", test_cut_at_each_byte},
                   {"each bit turned", test_each_bit_turned}, {"lengths past the end", test_lengths_past_the_end},
                   {"fields without a length", test_fields_without_a_length}, {"depth", test_depth},
                   {"sizes", test_sizes}, {"memory", test_memory}, {"memory of the text", test_memory_of_the_text},
                   {"empty lists", test_empty_lists}, {"constants", test_constants}, {"slices", test_slices},
                   {"names", test_names}, {"names like code", test_names_like_code}, {"unknown ops", test_unknown_ops},
                   {"bodies", test_bodies}, {"faults name nodes", test_faults_name_nodes},
                   {"external data", test_external_data}, {"card", test_card})
