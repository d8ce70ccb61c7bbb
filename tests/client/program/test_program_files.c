/* Programs in files: what comes back is the same, with tensors of its own; what is no such file, or a damaged one, is
 * told; nothing stays. */
#include "tests/client/common.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char layer[] = "captured %w : Tensor = \"net.w\"\n"
                            "captured %b : Tensor = \"net.b\"\n"
                            "graph(%x : Tensor, %n : int):\n"
                            "  %1 : bool = prim::Constant[value=1]()\n"
                            "  %a : int = prim::Constant[value=1]()\n"
                            "  %y : Tensor = prim::Loop(%n, %1, %x)\n"
                            "    block0(%i : int, %z : Tensor):\n"
                            "      %m : Tensor = td::mm(%z, %w)\n"
                            "      %s : Tensor = td::add(%m, %b, %a)\n"
                            "      -> (%1, %s)\n"
                            "  return (%y)\n";

static char place[64], path[96];

static int start(void)
{
    snprintf(place, sizeof place, "/tmp/program-files-XXXXXX");
    if (!mkdtemp(place)) return 1;
    snprintf(path, sizeof path, "%s/layer.td", place);
    return start_server();
}

static int stop(void)
{
    char each[400];
    DIR *d = opendir(place);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        snprintf(each, sizeof each, "%s/%s", place, e->d_name);
        if (e->d_name[0] != '.') unlink(each);
    }
    if (d) closedir(d);
    rmdir(place);
    return stop_server();
}

static int files_in(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d) closedir(d);
    return n;
}

/* w is 2 x 2 and wants gradients; b a column of something larger. */
static td_program *make(td_client *c, td_array **w)
{
    td_array *wide = td_full(c, td_dims(2, 8), 0.5, TD_FLOAT64);
    td_array *b = td_select(wide, 1, 3);
    *w = td_full(c, td_dims(2, 2), 1.0, TD_FLOAT64);
    CU_ASSERT_EQUAL(td_set_requires_grad(*w, true), TD_OK);
    td_program *p = td_program_read(c, layer, td_arrays(*w, b));
    if (!p) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    td_release(wide), td_release(b);
    return p;
}

static td_array *call(td_program *p, td_array *x, int n)
{
    td_value in[] = {td_value_array(x), td_value_int(n)}, out;
    if (td_program_call(p, 2, in, &out)) {
        fprintf(stderr, "%s\n", td_last_error()->message);
        return NULL;
    }
    return out.array;
}

static void test_there_and_back(void)
{
    int own = files_in("/proc/self/fd");
    td_client *c = join();
    int64_t tensors = status_at_rest(c, "tensors");
    td_array *w, *x = td_full(c, td_dims(1, 2), 1.0, TD_FLOAT64);
    td_program *p = make(c, &w);
    CU_ASSERT_EQUAL_FATAL(td_program_save(p, path, 0), TD_OK);
    CU_ASSERT_EQUAL(files_in(place), 1);
    for (int again = 0; again < 3; again++) {
        td_program *q = td_program_load(c, path, again ? "forward" : NULL, 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(q);
        td_array *y = call(q, x, 2);
        CHECK_VALUES(y, 5.5, 5.5); /* 1 1 -> 2.5 2.5 -> 5.5 5.5 */
        td_array *total = td_sum(y);
        CU_ASSERT_EQUAL(td_backward(total), TD_OK);
        td_array *g = td_grad(w);
        CU_ASSERT_PTR_NULL(g); /* the file's are others */
        td_clear_error();
        td_release(total), td_release(y);
        CU_ASSERT_EQUAL(td_program_save(q, path, TD_SAVE_WHOLE), TD_OK); /* in its own place */
        td_program_free(q);
    }
    /* The tensors alone, as any file's. */
    td_loaded *l = td_load(c, path, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(l);
    CU_ASSERT_EQUAL(td_loaded_count(l), 2);
    CHECK_VALUES(td_loaded_get(l, "net.b"), 0.5, 0.5);
    td_loaded_free(l);
    td_program_free(p);
    td_release(w), td_release(x);
    td_disconnect(c);
    c = join();
    CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
    td_disconnect(c);
    CU_ASSERT_EQUAL(files_in("/proc/self/fd"), own);
}

static void test_of_a_name(void)
{
    td_client *c = join();
    td_array *w, *x = td_full(c, td_dims(1, 2), 2.0, TD_FLOAT64);
    td_program *p = make(c, &w), *open;
    CU_ASSERT_EQUAL(td_program_publish(p, "layer", 0), TD_OK);
    td_program_free(p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(open = td_program_open(c, "layer", 0));
    CU_ASSERT_EQUAL(td_drop(c, "layer"), TD_OK);
    CU_ASSERT_EQUAL(td_program_save(open, path, 0), TD_OK);
    td_program_free(open);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p = td_program_load(c, path, NULL, TD_LOAD_TO_CPU));
    td_array *y = call(p, x, 1);
    CHECK_VALUES(y, 4.5, 4.5);
    td_release(y), td_release(x), td_release(w);
    td_program_free(p);
    td_disconnect(c);
}

static void write_all(const char *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

static char *read_all(size_t *n)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    CU_ASSERT_TRUE_FATAL(fd >= 0 && fstat(fd, &st) == 0);
    char *bytes = malloc((size_t)st.st_size);
    CU_ASSERT_EQUAL(read(fd, bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    *n = (size_t)st.st_size;
    return bytes;
}

/* Every byte of the file once another, and every length: it is refused, or what matters was not hit. */
static void test_damage(void)
{
    td_client *c = join();
    int64_t tensors = status_at_rest(c, "tensors");
    td_array *w, *x = td_full(c, td_dims(1, 2), 1.0, TD_FLOAT64);
    td_program *p = make(c, &w);
    size_t n, read = 0;
    CU_ASSERT_EQUAL_FATAL(td_program_save(p, path, 0), TD_OK);
    char *bytes = read_all(&n);
    td_program_free(p);
    for (size_t i = 0; i < n; i += 3) {
        bytes[i] ^= 0x55;
        write_all(bytes, n);
        bytes[i] ^= 0x55;
        td_clear_error();
        if ((p = td_program_load(c, path, NULL, 0)) != NULL) {
            read++;
            td_array *y = call(p, x, 1);
            CU_ASSERT_PTR_NOT_NULL(y);
            td_sync(c); /* a number in the program may be another */
            td_release(y);
            td_program_free(p);
        } else {
            CU_ASSERT_NOT_EQUAL(td_last_error()->code, TD_OK);
            CU_ASSERT_NOT_EQUAL(td_last_error()->message[0], 0);
        }
    }
    for (size_t i = 0; i < n; i += 7) {
        write_all(bytes, i);
        CU_ASSERT_PTR_NULL(td_program_load(c, path, NULL, 0));
    }
    CU_ASSERT_TRUE(read > 0 && read < n / 3); /* the text for people, dates */
    free(bytes);
    td_clear_error();
    td_release(w), td_release(x);
    CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
    td_disconnect(c);
}

static void test_refusals(void)
{
    char other[128];
    td_client *c = join();
    td_array *w;
    td_program *p = make(c, &w);
    CU_ASSERT_EQUAL(td_program_save(p, path, 0), TD_OK);
    CHECK_FAILS(td_program_load(c, path, "backward", 0), TD_E_NOT_FOUND, "it has 'forward'");
    snprintf(other, sizeof other, "%s/none.td", place);
    CHECK_FAILS(td_program_load(c, other, NULL, 0), TD_E_NOT_FOUND, "none.td");
    CHECK_FAILS(td_program_load(c, "/dev/null", NULL, 0), TD_E_INVALID, "regular file");
    snprintf(other, sizeof other, "%s/w.safetensors", place);
    CHECK_FAILS(td_program_save(p, other, 0), TD_E_UNSUPPORTED, "ends with .td, or .pt");
    CU_ASSERT_EQUAL(td_save(other, td_arrays(w), (const char *[]){"w"}, 0), TD_OK);
    CHECK_FAILS(td_program_load(c, other, NULL, 0), TD_E_UNSUPPORTED, "no file of a program");
    snprintf(other, sizeof other, "%s/w.pt", place);
    CU_ASSERT_EQUAL(td_save(other, td_arrays(w), (const char *[]){"w"}, 0), TD_OK);
    CHECK_FAILS(td_program_load(c, other, NULL, 0), TD_E_UNSUPPORTED, "holds tensors, and no program");
    snprintf(other, sizeof other, "%s/w.td", place);
    CHECK_FAILS(td_save(other, td_arrays(w), (const char *[]){"w"}, 0), TD_E_UNSUPPORTED, "td_program_save()");
    snprintf(other, sizeof other, "%s/no/such/place.td", place);
    CHECK_FAILS(td_program_save(p, other, 0), TD_E_SYSTEM, "place.td");
    CHECK_FAILS(td_program_save(NULL, path, 0), TD_E_INVALID, "program");
    CHECK_FAILS(td_program_load(NULL, path, NULL, 0), TD_E_INVALID, "client");
    td_program_free(p);
    td_release(w);
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_program_files", start, stop, {"there and back", test_there_and_back},
                   {"of a name", test_of_a_name}, {"damage", test_damage}, {"refusals", test_refusals})
