/* Files of PyTorch from C: names and values of one that PyTorch wrote, scopes, what is refused, and that nothing of a
 * failure stays. The file is tests/python/pytorch_files/zip.pt; make.py beside it says what is in it. */
#include "tests/client/common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *file(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("PYTORCH_FILES"), name);
    return path;
}

static void test_names(void)
{
    td_client *c = join();
    for (int old = 0; old < 2; old++) {
        td_loaded *f = td_load(c, file(old ? "legacy.pt" : "zip.pt"), 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(f);
        CU_ASSERT_EQUAL(td_loaded_count(f), 12 + 5 + 3 + 2 + 5);
        CU_ASSERT_STRING_EQUAL(td_loaded_name(f, 0), "dtypes.bool");
        CU_ASSERT_STRING_EQUAL(td_loaded_name(f, 12), "views.0");
        CU_ASSERT_PTR_NULL(td_loaded_name(f, td_loaded_count(f)));
        CU_ASSERT_PTR_NULL(td_loaded_at(f, -1));
        CU_ASSERT_PTR_EQUAL(td_loaded_get(f, "tied.0"), td_loaded_get(f, "tied.1"));
        td_array *w = td_loaded_get(f, "state.weight"), *b = td_loaded_get(f, "state.bias");
        float got[24];
        CU_ASSERT_EQUAL_FATAL(td_read(w, got, sizeof got), TD_OK);
        for (int i = 0; i < 24; i++) CU_ASSERT_EQUAL(got[i], (float)i);
        CU_ASSERT_EQUAL(td_dtype_of(b), TD_FLOAT64);
        td_array *sum = td_sum(td_loaded_get(f, "views.1"));
        CU_ASSERT_EQUAL(td_item_f64(sum), 276);
        td_release(sum);
        CU_ASSERT_EQUAL(td_item_i64(td_loaded_get(f, "scalar")), 7);
        CU_ASSERT_PTR_NULL(td_loaded_get(f, "state.wieght"));
        CU_ASSERT_EQUAL(td_last_error()->code, TD_E_NOT_FOUND);
        CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "state.wieght"));
        td_clear_error();
        td_loaded_free(f);
    }
    td_disconnect(c);
}

/* What is loaded is the file's, whatever scope is open; what was kept of it stays. */
static void test_lifetimes(void)
{
    td_client *c = join();
    td_sync(c);
    int64_t tensors = status_at_rest(c, "tensors"), storages = status_of(c, "storages");
    td_scope scope;
    td_scope_begin(&scope);
    td_loaded *f = td_load(c, file("zip.pt"), 0);
    td_scope_end(&scope);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    td_array *w = td_retain(td_loaded_get(f, "state.weight"));
    td_loaded_free(f);
    float got[24];
    CU_ASSERT_EQUAL(td_read(w, got, sizeof got), TD_OK);
    CU_ASSERT_EQUAL(got[23], 23);
    td_release(w);
    td_sync(c);
    CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
    CU_ASSERT_TRUE(comes_to(c, "storages", storages));
    td_disconnect(c);
}

static int nowhere(void *context, const char *location)
{
    CU_ASSERT_STRING_EQUAL(location, "cpu");
    return ++*(int *)context > 3 ? -1 : TD_CPU;
}

/* A program says for each storage where it comes; what it has no place for is refused, and nothing stays. */
static void test_places(void)
{
    td_client *c = join();
    int fd = open(file("zip.pt"), O_RDONLY | O_CLOEXEC), asked = 0;
    td_sync(c);
    int64_t tensors = status_at_rest(c, "tensors");
    CU_ASSERT_PTR_NULL(td_load_to(c, fd, 0, nowhere, &asked));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(asked, 4);
    td_clear_error();
    asked = -1000;
    td_loaded *f = td_load_to(c, fd, 0, nowhere, &asked);
    CU_ASSERT_PTR_NOT_NULL(f);
    td_loaded_free(f);
    close(fd);
    td_sync(c);
    CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
    td_disconnect(c);
}

static void refuse(td_client *c, int fd, int code, const char *text)
{
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_load_fd(c, fd, 0));
    CU_ASSERT_EQUAL(td_last_error()->code, code);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, text));
    if (!strstr(td_last_error()->message, text)) printf("\n    %s\n", td_last_error()->message);
    td_clear_error();
}

static void test_what_is_no_file_of_tensors(void)
{
    td_client *c = join();
    CU_ASSERT_PTR_NULL(td_load(c, file("absent.pt"), 0));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "absent.pt"));
    int fd = open("/", O_RDONLY | O_CLOEXEC), null = open("/dev/null", O_RDONLY | O_CLOEXEC), ends[2];
    refuse(c, fd, TD_E_INVALID, "directory");
    refuse(c, null, TD_E_INVALID, "regular file");
    CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
    refuse(c, ends[0], TD_E_INVALID, "regular file");
    refuse(c, -1, TD_E_SYSTEM, "looked at");
    close(fd), close(null), close(ends[0]), close(ends[1]);
    fd = memfd_create("empty", MFD_CLOEXEC);
    refuse(c, fd, TD_E_INVALID, "ends too early");
    CU_ASSERT_EQUAL(write(fd, "#!/bin/sh\n", 10), 10);
    refuse(c, fd, TD_E_INVALID, "torch.save()");
    close(fd);
    td_loaded_free(NULL);
    td_disconnect(c);
}

/* A file of the older form with a list of two tensors of float32: the first of 1000 elements, the second of n. */
static int two_tensors(int32_t n)
{
    static const char head[] = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3.\x80\2}.\x80\2](";
    static const char tail[] = "e.\x80\2](X\1\0\0\0aX\1\0\0\0be.";
    int fd = memfd_create("two", MFD_CLOEXEC);
    CU_ASSERT_EQUAL(write(fd, head, sizeof head - 1), sizeof head - 1);
    for (int i = 0; i < 2; i++) {
        char part[400], *at = part;
        int32_t each = i ? n : 1000;
#define TEXT(t) memcpy(at, t, sizeof t - 1), at += sizeof t - 1
#define NUMBER() *at++ = 'J', memcpy(at, &each, 4), at += 4
        TEXT("ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0");
        *at++ = (char)('a' + i);
        TEXT("X\3\0\0\0cpu");
        NUMBER();
        TEXT("NtQK\0");
        NUMBER();
        TEXT("\x85K\1\x85\x89"
             "ccollections\nOrderedDict\n)RtR");
        CU_ASSERT_EQUAL(write(fd, part, (size_t)(at - part)), at - part);
    }
    CU_ASSERT_EQUAL(write(fd, tail, sizeof tail - 1), sizeof tail - 1);
    for (int i = 0; i < 2; i++) {
        uint64_t each = i ? (uint64_t)n : 1000;
        CU_ASSERT_EQUAL(write(fd, &each, sizeof each), sizeof each);
        CU_ASSERT_EQUAL(ftruncate(fd, lseek(fd, 0, SEEK_CUR) + (off_t)each * 4), 0);
        lseek(fd, 0, SEEK_END);
    }
    return fd;
}

/* Half of it is there when the memory ends. */
static void test_when_memory_is_out(void)
{
    test_daemon d;
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&d, (const char *const[]){"--memory", "16M", NULL}));
    td_client *c = td_connect(d.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    int large = two_tensors(16 << 20);
    int64_t tensors = status_at_rest(c, "tensors"), bytes = status_of(c, "bytes_used");
    int descriptors = test_descriptors(getpid());
    for (int i = 0; i < 3; i++) {
        int small = two_tensors((1 << 20) - 4096 * i); /* a lease of the same size would be fetched ahead */
        td_loaded *f = td_load_fd(c, small, 0);
        close(small);
        CU_ASSERT_PTR_NOT_NULL_FATAL(f);
        CU_ASSERT_EQUAL(td_loaded_count(f), 2);
        td_array *sum = td_sum(td_loaded_get(f, "1"));
        CU_ASSERT_EQUAL(td_item_f64(sum), 0);
        td_release(sum);
        td_loaded_free(f);
        CU_ASSERT_PTR_NULL(td_load_fd(c, large, 0));
        CU_ASSERT_TRUE(td_last_error()->code == TD_E_MEMORY || td_last_error()->code == TD_E_QUOTA);
        td_clear_error();
        td_sync(c);
        CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
        CU_ASSERT_TRUE(comes_to(c, "storages", 0));
        CU_ASSERT_TRUE(status_of(c, "bytes_used") <= bytes + (1 << 20)); /* a block for small tensors is kept */
    }
    CU_ASSERT_TRUE(test_descriptors(getpid()) <= descriptors + 1); /* a segment that is kept mapped */
    close(large);
    td_disconnect(c);
    CU_ASSERT_EQUAL(test_daemon_stop(&d), 0);
}

/* From C to a file, and back. */
static void test_saving(void)
{
    td_client *c = join();
    char folder[] = "/tmp/client_files-XXXXXX", path[64], link[64];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.pt", folder);
    snprintf(link, sizeof link, "%s/link.pt", folder);
    td_array *x = td_arange(c, 0, 1000, 1, TD_FLOAT32), *row = td_slice(x, 0, 10, 20),
             *w = td_full(c, td_dims(2), 3, TD_FLOAT64);
    const char *const names[] = {"row", "w", "again"};
    CU_ASSERT_EQUAL(td_save(path, td_arrays(row, w, row), names, 0), TD_OK);
    CU_ASSERT_EQUAL(symlink("x.pt", link), 0);
    chmod(path, 0640);
    CU_ASSERT_EQUAL(td_save(link, td_arrays(row, w, row), names, 0), TD_OK);
    struct stat st;
    CU_ASSERT_TRUE(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640 && lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    off_t small = stat(path, &st) ? 0 : st.st_size;
    td_loaded *f = td_load(c, path, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(td_loaded_count(f), 3);
    CU_ASSERT_STRING_EQUAL(td_loaded_name(f, 2), "again");
    double got[2] = {0};
    CU_ASSERT_EQUAL(td_read(td_loaded_get(f, "w"), got, sizeof got), TD_OK);
    CU_ASSERT_EQUAL(got[1], 3);
    td_array *sum = td_sum(td_loaded_get(f, "row"));
    CU_ASSERT_EQUAL(td_item_f64(sum), 145);
    td_release(sum);
    td_loaded_free(f);
    CU_ASSERT_EQUAL(td_save(path, td_arrays(row), names, TD_SAVE_WHOLE), TD_OK);
    CU_ASSERT_TRUE(stat(path, &st) == 0 && st.st_size > small + 2000);
    static const char *const others[] = {"a.safetensors", "a.npz", "a.npy"};
    for (int i = 0; i < 3; i++) {
        char other[96];
        snprintf(other, sizeof other, "%s/%s", folder, others[i]);
        CU_ASSERT_EQUAL(td_save(other, i < 2 ? td_arrays(row, w) : td_arrays(row), i < 2 ? names : NULL, 0), TD_OK);
        f = td_load(c, other, 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(f);
        CU_ASSERT_EQUAL(td_loaded_count(f), i < 2 ? 2 : 1);
        sum = td_sum(td_loaded_get(f, i < 2 ? "row" : ""));
        CU_ASSERT_EQUAL(td_item_f64(sum), 145);
        td_release(sum);
        td_loaded_free(f);
        CU_ASSERT_EQUAL(unlink(other), 0);
    }
    CU_ASSERT_EQUAL(td_save(path, td_arrays(row, w), NULL, 0), TD_E_INVALID);
    td_clear_error();
    CU_ASSERT_EQUAL(td_save("x.txt", td_arrays(row), names, 0), TD_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "x.txt"));
    td_clear_error();
    snprintf(path, sizeof path, "%s/none/x.pt", folder);
    CU_ASSERT_EQUAL(td_save(path, td_arrays(row), names, 0), TD_E_SYSTEM);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, path));
    td_clear_error();
    snprintf(path, sizeof path, "%s/x.pt", folder);
    CU_ASSERT_TRUE(unlink(path) == 0 && unlink(link) == 0 && rmdir(folder) == 0); /* no part is left */
    td_release(x), td_release(row), td_release(w);
    td_disconnect(c);
}

/* What is no tree, and a descriptor that cannot be written. */
static void test_what_cannot_be_saved(void)
{
    static const char *const bad[] = {
        "", "?", "i1234567", "s\377\377\377\377\377\377\377\177", "x\1\0\0\0\0\0\0\0", "l\0\0\0\0\0\0\0\200"};
    static const size_t sizes[] = {0, 1, 8, 9, 9, 9};
    td_client *c = join();
    td_array *x = td_ones(c, td_dims(3), TD_FLOAT32);
    int fd = memfd_create("saved", MFD_CLOEXEC), full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        td_queue_item tree = {.n = 1, .at = &x, .note = (void *)(uintptr_t)bad[i], .note_size = sizes[i]};
        CU_ASSERT_EQUAL(td_save_fd(fd, "x.pt", &tree, 0), TD_E_INVALID);
        td_clear_error();
    }
    static char class[] = "mt\3\0\0\0\0\0\0\0s\6\0\0\0\0\0\0\0Modules\3\0\0\0\0\0\0\0X\n.d\0\0\0\0\0\0\0";
    td_queue_item opcodes = {.n = 0, .note = class, .note_size = sizeof class}; /* they would follow the name */
    CU_ASSERT_EQUAL(td_save_fd(fd, "x.pt", &opcodes, 0), TD_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "which is none"));
    td_clear_error();
    char first[] = "x\0\0\0\0\0\0\0";
    td_queue_item tree = {.n = 1, .at = &x, .note = first, .note_size = sizeof first};
    CU_ASSERT_EQUAL(td_save_fd(full, "x.pt", &tree, 0), TD_E_SYSTEM);
    CU_ASSERT_EQUAL(errno, ENOSPC);
    td_clear_error();
    CU_ASSERT_EQUAL(td_save_fd(fd, "x.pt", &tree, 0), TD_OK);
    close(fd), close(full);
    td_release(x);
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_files", start_server, stop_server, {"names", test_names}, {"lifetimes", test_lifetimes},
                   {"places", test_places}, {"what is no file of tensors", test_what_is_no_file_of_tensors},
                   {"when memory is out", test_when_memory_is_out}, {"saving", test_saving},
                   {"what cannot be saved", test_what_cannot_be_saved})
