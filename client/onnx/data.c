/* What tensors of an ONNX file hold: in the file as raw bytes, in lists of numbers, or in files beneath its folder.
 * Sizes are checked against what is there before anything is made for them. */
#include "client/onnx/model.h"

#include "proto/base/dtype.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kind {
    const char *name;
    td_dtype dtype;
} kinds[] = {{"nothing", TD_DTYPE_NONE},
             {"float32", TD_FLOAT32},
             {"uint8", TD_UINT8},
             {"int8", TD_INT8},
             {"uint16", TD_UINT16},
             {"int16", TD_INT16},
             {"int32", TD_INT32},
             {"int64", TD_INT64},
             {"string", TD_DTYPE_NONE},
             {"bool", TD_BOOL},
             {"float16", TD_FLOAT16},
             {"float64", TD_FLOAT64},
             {"uint32", TD_UINT32},
             {"uint64", TD_UINT64},
             {"complex64", TD_COMPLEX64},
             {"complex128", TD_COMPLEX128},
             {"bfloat16", TD_BFLOAT16},
             {"float8e4m3fn", TD_DTYPE_NONE},
             {"float8e4m3fnuz", TD_DTYPE_NONE},
             {"float8e5m2", TD_DTYPE_NONE},
             {"float8e5m2fnuz", TD_DTYPE_NONE},
             {"uint4", TD_DTYPE_NONE},
             {"int4", TD_DTYPE_NONE},
             {"float4e2m1", TD_DTYPE_NONE}};
enum { KINDS = sizeof kinds / sizeof *kinds };

td_dtype td_onnx_dtype(int64_t type)
{
    return type > 0 && type < KINDS ? kinds[type].dtype : TD_DTYPE_NONE;
}

const char *td_onnx_type_name(int64_t type)
{
    return type >= 0 && type < KINDS ? kinds[type].name : "a type of a later version";
}

static const char *name_of(const td_onnx_tensor *t)
{
    return t->name ? t->name : "";
}

/* ---- a look */

static int shape_of(const td_onnx_tensor *t, td_onnx_look *out, td_error *e)
{
    uint64_t numel = 1, bytes = 0;
    bool none = false;
    if (t->dims.n > TD_MAX_DIMS)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "the tensor '%.80s' has %" PRIu64 " dimensions, and tensord's have at most %d", name_of(t),
                       t->dims.n, TD_MAX_DIMS);
    out->ndim = (int)t->dims.n;
    for (int k = 0; k < out->ndim; k++) {
        out->shape[k] = t->dims.i[k];
        none |= out->shape[k] == 0;
        if (out->shape[k] < 0 || (out->shape[k] && __builtin_mul_overflow(numel, (uint64_t)out->shape[k], &numel)))
            return td_fail(e, TD_E_INVALID, "the sizes of the tensor '%.80s' make no sense", name_of(t));
    }
    if (__builtin_mul_overflow(numel, td_dtype_size(out->dtype), &bytes) || bytes > INT64_MAX)
        return td_fail(e, TD_E_INVALID, "the sizes of the tensor '%.80s' make no sense", name_of(t));
    out->numel = none ? 0 : (int64_t)numel;
    out->bytes = none ? 0 : bytes;
    return TD_OK;
}

/* The list that has its numbers, and how many of these an element takes. */
static const td_onnx_numbers *list_of(const td_onnx_tensor *t, td_dtype dtype, unsigned *each)
{
    *each = dtype == TD_COMPLEX64 || dtype == TD_COMPLEX128 ? 2 : 1;
    switch (dtype) {
    case TD_FLOAT32:
    case TD_COMPLEX64: return &t->floats;
    case TD_FLOAT64:
    case TD_COMPLEX128: return &t->doubles;
    case TD_INT64: return &t->int64s;
    case TD_UINT32:
    case TD_UINT64: return &t->uint64s;
    default: return &t->int32s;
    }
}

/* ---- files beside it */

static const char *entry_of(const td_onnx_tensor *t, const char *key)
{
    for (const td_onnx_entry *x = t->external.first; x; x = x->next)
        if (x->key && x->value && strcmp(x->key, key) == 0) return x->value;
    return NULL;
}

static bool number_of(const td_onnx_tensor *t, const char *key, uint64_t *out)
{
    const char *text = entry_of(t, key);
    char *end;
    if (!text) return true;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

/* One step beneath a folder, without following a link. */
static int step(int folder, const char *from, size_t n, int flags)
{
    char part[256];
    if (n == 0 || n >= sizeof part) return errno = EINVAL, -1;
    memcpy(part, from, n);
    part[n] = 0;
    if (strcmp(part, ".") == 0 || strcmp(part, "..") == 0) return errno = EPERM, -1;
    return openat(folder, part, flags | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_beneath(int folder, const char *path)
{
    int at = folder;
    while (at >= 0) {
        const char *slash = strchr(path, '/');
        int next = step(at, path, slash ? (size_t)(slash - path) : strlen(path), slash ? O_DIRECTORY : O_NONBLOCK);
        int err = errno;
        if (at != folder) close(at);
        errno = err;
        if (!slash) return next;
        at = next;
        path = slash + 1;
    }
    return -1;
}

/* The file and the place in it; the caller closes. */
static int open_external(const td_onnx_file *f, const td_onnx_tensor *t, uint64_t want, td_source *s, uint64_t *at,
                         td_error *e)
{
    const char *path = entry_of(t, "location");
    uint64_t size = want;
    *at = 0;
    if (!path || f->folder < 0 || !number_of(t, "offset", at) || !number_of(t, "length", &size))
        return td_fail(e, TD_E_INVALID, "the tensor '%.80s' lies in another file, and where makes no sense",
                       name_of(t));
    int fd = open_beneath(f->folder, path);
    if (fd < 0)
        return errno == EPERM || errno == ELOOP || errno == EINVAL
                   ? td_fail(e, TD_E_INVALID,
                             "the tensor '%.80s' lies in '%.80s', which is not beneath the model's folder, or a link",
                             name_of(t), path)
                   : td_fail_errno(e, errno, "the tensor '%.80s' lies in '%.80s', which cannot be opened", name_of(t),
                                   path);
    int rc = td_source_init(s, fd, e);
    if (!rc && (*at > s->size || want > s->size - *at || size != want))
        rc = td_fail(e, TD_E_INVALID,
                     "the tensor '%.80s' has %" PRIu64 " bytes, and '%.80s' has not as many at %" PRIu64, name_of(t),
                     want, path, *at);
    if (rc) close(fd);
    return rc;
}

/* ---- */

static int look_for_bytes(const td_onnx_file *f, const td_onnx_tensor *t, const td_onnx_look *look, td_error *e)
{
    unsigned each;
    uint64_t at;
    td_source s;
    if (t->location == 1) {
        int rc = open_external(f, t, look->bytes, &s, &at, e);
        if (!rc) close(s.fd);
        return rc;
    }
    const td_onnx_numbers *x = list_of(t, look->dtype, &each);
    uint64_t there = t->raw.there ? t->raw.size : x->n,
             want = t->raw.there ? look->bytes : (uint64_t)look->numel * each;
    if (there == want) return TD_OK;
    return td_fail(e, TD_E_INVALID, "the tensor '%.80s' has %" PRIu64 " %s by its sizes, and the file has %" PRIu64,
                   name_of(t), want, t->raw.there ? "bytes" : "numbers", there);
}

int td_onnx_look_at(const td_onnx_file *f, const td_onnx_tensor *t, td_onnx_look *out, td_error *e)
{
    *out = (td_onnx_look){.dtype = td_onnx_dtype(t->type)};
    if (out->dtype == TD_DTYPE_NONE)
        return td_fail(e, TD_E_UNSUPPORTED, "the tensor '%.80s' is of %s, which tensord has no dtype for", name_of(t),
                       td_onnx_type_name(t->type));
    int rc = shape_of(t, out, e);
    return rc ? rc : look_for_bytes(f, t, out, e);
}

static void narrow(const td_onnx_numbers *x, size_t size, char *to)
{
    for (uint64_t k = 0; k < x->n; k++) memcpy(to + k * size, &x->i[k], size); /* the low bytes come first */
}

int td_onnx_fetch(const td_onnx_file *f, const td_onnx_tensor *t, const td_onnx_look *look, void *to, td_error *e)
{
    unsigned each;
    uint64_t at;
    td_source s;
    if (t->location == 1) {
        int rc = open_external(f, t, look->bytes, &s, &at, e);
        if (rc) return rc;
        rc = td_source_read(&s, at, to, look->bytes, e);
        if (!rc && f->outside) td_digest_add(f->outside, to, look->bytes);
        close(s.fd);
        return rc;
    }
    if (t->raw.there) return td_source_read(&f->source, t->raw.at, to, look->bytes, e);
    const td_onnx_numbers *x = list_of(t, look->dtype, &each);
    if (x == &t->floats || x == &t->doubles) {
        if (look->bytes) memcpy(to, x->at, look->bytes);
    } else narrow(x, td_dtype_size(look->dtype), to);
    return TD_OK;
}

int td_onnx_skim(const td_onnx_file *f, const td_onnx_tensor *t, const td_onnx_look *look, td_error *e)
{
    uint64_t at;
    td_source s;
    if (t->location != 1) return TD_OK;
    int rc = open_external(f, t, look->bytes, &s, &at, e);
    if (rc) return rc;
    rc = td_digest_read(f->outside, &s, at, look->bytes, e);
    close(s.fd);
    return rc;
}
