/* td_save(): tensors into a file, which says by its name what it is to be. And programs, whose files are such of
 * PyTorch with records of their own (programs.c).
 *
 * What is written is the bytes where they lie, in shared memory, without a copy. A file appears whole or not at all. */
#include "client/files/save.h"

#include "client/tensor/array.h"
#include "client/files/programs.h"
#include "proto/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONG_STEM = 64 };

/* ---- what is written of each storage */

/* A storage, as one dtype. */
typedef struct kept {
    UT_hash_handle hh;
    struct {
        uint64_t storage, dtype;
    } key;
    const unsigned char *base;
    uint64_t lo, hi, all; /* elements that tensors reach; of the storage */
    uint32_t index;
} kept;

typedef struct saving {
    td_list arrays;
    unsigned flags;
    bool apart;         /* no storage is shared */
    td_array **brought; /* copies of what lies elsewhere, or otherwise */
    kept *storages, *by_key;
    td_out_storage *written;
    td_out_tensor *tensors;
    uint32_t n;
    td_error *e;
} saving;

static int thread_error(void)
{
    return td_last_error()->code ? td_last_error()->code : TD_E_INTERNAL;
}

/* Widen a storage to what this tensor reaches. */
static int keep_storage(saving *s, int i, const td_array *a, const td_info *info)
{
    uint64_t lo, hi, item = td_dtype_size((td_dtype)a->desc.dtype);
    kept *k = &s->storages[s->n], *found;
    memset(&k->key, 0, sizeof k->key);
    k->key.storage = info->storage, k->key.dtype = a->desc.dtype;
    HASH_FIND(hh, s->by_key, &k->key, sizeof k->key, found);
    td_desc_extent(&a->desc, &lo, &hi);
    if (!found) {
        found = k;
        found->base = NULL;
        found->lo = UINT64_MAX, found->hi = 0, found->all = info->nbytes / item;
        found->index = s->n;
        HASH_ADD(hh, s->by_key, key, sizeof found->key, found);
        if (!TD_HASHED(found)) return td_no_memory(s->e, "to save %d tensors", s->arrays.n);
        s->n++;
    }
    s->tensors[i].storage = found->index;
    if (hi == lo) return TD_OK;
    found->base = a->bytes;
    if (lo / item < found->lo) found->lo = lo / item;
    if (hi / item > found->hi) found->hi = hi / item;
    return TD_OK;
}

/* Row by row, as the storage of its own that most formats have. */
static int look_at_apart(saving *s, int i)
{
    td_array *a = s->arrays.at[i];
    if (td_ndim(a) < 0) return thread_error();
    if (td_device_of(a) != TD_CPU) a = s->brought[i] = td_keep(td_at_to_device(NULL, a, TD_CPU));
    if (a && !td_desc_is_contiguous(&a->desc)) {
        td_array *packed = td_keep(td_at_contiguous(NULL, a));
        td_release(s->brought[i]);
        a = s->brought[i] = packed;
    }
    if (!a || (td_numel(a) > 0 && !td_data(a))) return thread_error();
    td_desc *d = &s->tensors[i].desc;
    *d = a->desc;
    s->tensors[i].storage = (uint32_t)i;
    s->written[i] = (td_out_storage){
        .bytes = td_numel(a) ? td_first_element(a) : NULL, .numel = (uint64_t)td_numel(a), .dtype = (td_dtype)d->dtype};
    td_desc_pack(d);
    return TD_OK;
}

static int look_at(saving *s, int i)
{
    td_array *a = s->arrays.at[i];
    td_info info;
    if (td_ndim(a) < 0) return thread_error();
    if (td_get_info(a, &info)) return thread_error();
    s->tensors[i].requires_grad = info.requires_grad;
    if (td_device_of(a) != TD_CPU) {
        a = s->brought[i] = td_keep(td_at_to_device(NULL, a, TD_CPU));
        if (!a || td_get_info(a, &info)) return thread_error();
    }
    if (td_numel(a) > 0 && !td_data(a)) return thread_error();
    s->tensors[i].desc = a->desc;
    return keep_storage(s, i, a, &info);
}

/* All of a storage, or of one of which less than half is reached, that: then its tensors begin elsewhere. */
static void choose_bytes(saving *s)
{
    for (uint32_t k = 0; k < s->n; k++) {
        kept *x = &s->storages[k];
        if (!x->base) x->lo = x->hi = 0;
        else if (s->flags & TD_SAVE_WHOLE || x->all <= 2 * (x->hi - x->lo)) x->lo = 0, x->hi = x->all;
        s->written[k] =
            (td_out_storage){.bytes = x->base ? x->base + x->lo * td_dtype_size((td_dtype)x->key.dtype) : NULL,
                             .numel = x->hi - x->lo,
                             .dtype = (td_dtype)x->key.dtype};
    }
    for (int i = 0; i < s->arrays.n; i++) {
        td_desc *d = &s->tensors[i].desc;
        d->offset = td_desc_numel(d) ? d->offset - (int64_t)s->storages[s->tensors[i].storage].lo : 0;
    }
}

static void close_saving(saving *s)
{
    HASH_CLEAR(hh, s->by_key);
    for (int i = 0; s->brought && i < s->arrays.n; i++) td_release(s->brought[i]);
    free(s->brought);
    free(s->storages);
    free(s->written);
    free(s->tensors);
}

static int look_at_all(saving *s)
{
    size_t n = (size_t)s->arrays.n + 1;
    s->brought = calloc(n, sizeof *s->brought);
    s->storages = calloc(n, sizeof *s->storages);
    s->written = calloc(n, sizeof *s->written);
    s->tensors = calloc(n, sizeof *s->tensors);
    if (!s->brought || !s->storages || !s->written || !s->tensors)
        return td_no_memory(s->e, "to save %d tensors", s->arrays.n);
    bool grad = td_set_grad_enabled(false);
    int rc = TD_OK;
    for (int i = 0; !rc && i < s->arrays.n; i++) rc = s->apart ? look_at_apart(s, i) : look_at(s, i);
    td_set_grad_enabled(grad);
    if (!rc && !s->apart) choose_bytes(s);
    return rc;
}

/* ---- names */

typedef enum format { UNKNOWN, TORCH, SAFETENSORS, NPY, NPZ, PROGRAM } format;

static format format_of(const char *name)
{
    static const struct {
        const char *ending;
        format format;
    } known[] = {{".pt", TORCH}, {".pth", TORCH}, {".safetensors", SAFETENSORS},
                 {".npy", NPY},  {".npz", NPZ},   {".td", PROGRAM}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (strcmp(dot, known[i].ending) == 0) return known[i].format;
    return UNKNOWN;
}

/* A .td has records, as programs do, and they are in an archive always. */
static int check_format(const char *name, bool records, td_error *e)
{
    format f = format_of(name);
    if (records && f != PROGRAM && f != TORCH)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "a program is saved to a file whose name ends with .td, or .pt, not to '%.100s'", name);
    if (!records && f == PROGRAM)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "a .td file holds a program (td_program_save()); tensors alone are saved as .pt, .pth, "
                       ".safetensors, .npy or .npz, not as '%.100s'",
                       name);
    if (f != UNKNOWN) return TD_OK;
    return td_fail(e, TD_E_UNSUPPORTED,
                   "the name of a file says what it is to be: .pt, .pth, .safetensors, .npy or .npz; '%.100s' does not",
                   name);
}

/* What the records of an archive lie in: the file's name without its ending, as PyTorch has it. */
static const char *stem_of(const char *name, char stem[LONG_STEM])
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name, *dot = strrchr(last, '.');
    size_t n = dot ? (size_t)(dot - last) : strlen(last);
    bool plain = n > 0 && n < LONG_STEM && last[0] != '.';
    for (size_t i = 0; plain && i < n; i++) plain = last[i] >= ' ' && last[i] < 0x7f && last[i] != '\\';
    snprintf(stem, LONG_STEM, "%.*s", plain ? (int)n : 7, plain ? last : "archive");
    return stem;
}

static int write_as(td_sink *to, const char *name, const td_out *out, td_error *e)
{
    char stem[LONG_STEM];
    switch (format_of(name)) {
    case TORCH:
    case PROGRAM: return td_write_torch(to, stem_of(name, stem), out, e);
    case SAFETENSORS: return td_write_safetensors(to, out, e);
    case NPY: return td_write_npy(to, out, e);
    case NPZ: return td_write_npz(to, out, e);
    default: return td_fail(e, TD_E_INTERNAL, "no format");
    }
}

/* A .pt is what torch.jit.load() opens, when it can be: then its tree are modules. Otherwise, and as a .td, it is what
 * torch.load() reads, whose tree is a dict. */
static int add_code(td_out *out, td_out_record *to, td_torchscript *made, const td_save_content *what,
                    td_error *uncoded, td_error *e)
{
    static const unsigned char nothing[] = {0x80, 2, ')', '.'}; /* the empty tuple */
    int rc = td_torchscript_make(what->programs, what->nprograms, out->tree, made, uncoded);
    if (rc == TD_E_UNSUPPORTED) {
        to[out->nrecords++] = (td_out_record){"programs/no_code.txt", uncoded->message, strlen(uncoded->message)};
        return TD_OK;
    }
    if (rc) return *e = *uncoded, rc;
    to[out->nrecords++] = (td_out_record){"code/__torch__.py", made->code, strlen(made->code)};
    if (made->no_grad)
        to[out->nrecords++] = (td_out_record){"code/__torch__/torch/autograd/grad_mode.py", td_torchscript_no_grad,
                                              strlen(td_torchscript_no_grad)};
    to[out->nrecords++] = (td_out_record){"constants.pkl", nothing, sizeof nothing};
    out->tree = (td_note){made->tree.at, made->tree.at + made->tree.n, made->tree.at};
    out->scripted = true;
    return TD_OK;
}

static int write_programs(td_sink *sink, const char *name, td_out *out, const td_save_content *what, td_error *e)
{
    enum { CODE = 3 };
    size_t most = (size_t)what->nprograms * TD_FILED_RECORDS + CODE + what->nextras;
    td_out_record *records = calloc(most, sizeof *records);
    td_torchscript made = {0};
    td_error unheard = {0};
    uint32_t n = 0, each;
    int rc = records ? TD_OK : td_no_memory(e, "for the records of programs");
    for (uint32_t k = 0; !rc && k < what->nprograms; k++, n += each)
        rc = td_filed_make(&what->programs[k], records + n, &each, e);
    out->records = records, out->nrecords = n;
    if (!rc && format_of(name) == TORCH)
        rc = add_code(out, records, &made, what, what->uncoded ? what->uncoded : &unheard, e);
    for (uint32_t k = 0; !rc && k < what->nextras; k++) records[out->nrecords++] = what->extras[k];
    if (!rc) rc = write_as(sink, name, out, e);
    if (records) td_filed_drop(records, n);
    td_torchscript_drop(&made);
    free(records);
    return rc;
}

static int write_tree(int fd, const char *name, const td_save_content *what, td_error *e)
{
    const td_queue_item *tree = &what->tree;
    format f = format_of(name);
    saving s = {
        .arrays = td_arrays_of(tree->n, tree->at), .flags = what->flags, .apart = f != TORCH && f != PROGRAM, .e = e};
    td_client *c = NULL;
    int rc = td_list_client(&c, s.arrays, "save", "an array");
    td_sink *sink = rc ? NULL : malloc(sizeof *sink);
    if (!rc && !sink) rc = td_no_memory(e, "to write a file");
    if (!rc) rc = look_at_all(&s);
    if (!rc) {
        const unsigned char *note = tree->note;
        td_out out = {.tree = {note, note + tree->note_size, note},
                      .storages = s.written,
                      .tensors = s.tensors,
                      .metadata = what->nprograms ? NULL : what->extras,
                      .nmetadata = what->nprograms ? 0 : what->nextras,
                      .nstorages = s.apart ? (uint32_t)tree->n : s.n,
                      .ntensors = (uint32_t)tree->n};
        td_sink_init(sink, fd);
        td_step_aside();
        rc = what->nprograms ? write_programs(sink, name, &out, what, e) : write_as(sink, name, &out, e);
        int err = errno;
        td_step_back();
        errno = err;
    }
    int err = errno;
    free(sink);
    close_saving(&s);
    errno = err;
    return rc;
}

int td_save_all_fd(int fd, const char *name, const td_save_content *what)
{
    td_error e = {0};
    errno = 0;
    int rc = check_format(name, what->nprograms, &e);
    if (!rc) rc = write_tree(fd, name, what, &e);
    if (e.code) {
        int err = errno;
        td_raise_error(&e, "save", NULL);
        errno = err;
    }
    return rc;
}

TD_API int td_save_fd(int fd, const char *name, const td_queue_item *tree, unsigned flags)
{
    return td_save_all_fd(fd, name, &(td_save_content){.tree = *tree, .flags = flags});
}

/* ---- by path */

/* A file beside the one that is to be, which nobody else has: its name goes to `part`. */
static int open_part(const char *target, char *part, size_t size, td_error *e)
{
    const char *slash = strrchr(target, '/');
    uint64_t r[2] = {0};
    if (getrandom(r, sizeof r, 0) != sizeof r) return td_fail_errno(e, errno, "no random name for a file"), -1;
    snprintf(part, size, "%.*s.%016llx%016llx.part", slash ? (int)(slash + 1 - target) : 0, target,
             (unsigned long long)r[0], (unsigned long long)r[1]);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) td_fail_errno(e, errno, "%.200s", target);
    return fd;
}

/* Under another name, then in the place of what was there, whose mode it has. */
static int save_regular(const char *path, const struct stat *was, const td_save_content *what, td_error *e)
{
    char target[PATH_MAX], part[PATH_MAX + 64];
    if (!was || !realpath(path, target)) snprintf(target, sizeof target, "%s", path);
    int fd = open_part(target, part, sizeof part, e);
    if (fd < 0) return e->code;
    int rc = write_tree(fd, path, what, e);
    if (!rc && was && fchmod(fd, was->st_mode & 07777)) rc = td_fail_errno(e, errno, "%.200s", path);
    if (close(fd) && !rc) rc = td_fail_errno(e, errno, "%.200s", path);
    if (!rc && rename(part, target)) rc = td_fail_errno(e, errno, "%.200s", path);
    if (rc) unlink(part);
    return rc;
}

/* A device, a FIFO, or what a link leads to and is not there yet. */
static int save_special(const char *path, const td_save_content *what, td_error *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return td_fail_errno(e, errno, "%.200s", path);
    int rc = write_tree(fd, path, what, e);
    if (close(fd) && !rc) rc = td_fail_errno(e, errno, "%.200s", path);
    return rc;
}

/* A dict of these, or the one that has no name. */
int td_save_names(td_list arrays, const char *const *names, td_bytes *note, td_error *e)
{
    int64_t n = arrays.n;
    if (!names && n != 1) return td_fail(e, TD_E_INVALID, "%d tensors without names; one may have none", arrays.n);
    if (!names) return td_bytes_put(note, "x\0\0\0\0\0\0\0", 9, "names", e);
    int rc = td_bytes_put(note, "d", 1, "names", e);
    if (!rc) rc = td_bytes_put(note, &n, sizeof n, "names", e);
    for (int64_t i = 0; !rc && i < n; i++) {
        int64_t length = names[i] ? (int64_t)strlen(names[i]) : -1;
        if (length < 0) return td_fail(e, TD_E_INVALID, "tensor %lld has no name", (long long)i);
        rc = td_bytes_put(note, "s", 1, "names", e);
        if (!rc) rc = td_bytes_put(note, &length, sizeof length, "names", e);
        if (!rc) rc = td_bytes_put(note, names[i], (size_t)length, "names", e);
        if (!rc) rc = td_bytes_put(note, "x", 1, "names", e);
        if (!rc) rc = td_bytes_put(note, &i, sizeof i, "names", e);
    }
    return rc;
}

int td_save_all(const char *path, const td_save_content *what, td_error *e)
{
    struct stat was, link;
    bool there = stat(path, &was) == 0, special = there ? !S_ISREG(was.st_mode) : lstat(path, &link) == 0;
    int rc = check_format(path, what->nprograms, e);
    if (!rc && special) rc = save_special(path, what, e);
    else if (!rc) rc = save_regular(path, there ? &was : NULL, what, e);
    return rc;
}

td_queue_item td_save_tree(td_list arrays, const td_bytes *note)
{
    return (td_queue_item){
        .n = arrays.n, .at = (td_array **)(uintptr_t)arrays.at, .note = note->at, .note_size = note->n};
}

TD_API int td_save(const char *path, td_list arrays, const char *const *names, unsigned flags)
{
    td_error e = {0};
    td_bytes note = {0};
    int rc = td_save_names(arrays, names, &note, &e);
    if (!rc) rc = td_save_all(path, &(td_save_content){.tree = td_save_tree(arrays, &note), .flags = flags}, &e);
    free(note.at);
    if (e.code) td_raise_error(&e, "save", NULL);
    return rc;
}
