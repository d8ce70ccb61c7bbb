/* Descriptors that a client brings: memory that is mapped, files that are read.
 *
 * What a descriptor is cannot be trusted, and even to look at it may block (a FUSE file, a socket that lingers when it
 * is closed). So the loop asks nothing of it but what the kernel's own memory answers at once; everything else, the
 * last close included, happens aside. A descriptor has one owner at every moment: the session while its call is tried,
 * a mapped segment, or the job that reads it. */
#include "daemon/session/calls/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

/* ---- what is asked for */

static int desc_of(const Td__Wire__Import *q, td_desc *d, td_error *e)
{
    const Td__Wire__Desc *w = q->desc;
    if (!w || w->n_shape > TD_MAX_DIMS)
        return td_fail(e, TD_E_PROTOCOL, "an import needs a shape of at most %d dimensions", TD_MAX_DIMS);
    if (!td_dtype_valid(w->dtype)) return td_fail(e, TD_E_TYPE, "there is no dtype %u", w->dtype);
    if (w->device != TD_CPU) return td_fail(e, TD_E_UNSUPPORTED, "memory of device %u cannot be imported", w->device);
    int rc = td_desc_contiguous(d, (td_dtype)w->dtype, (int)w->n_shape, w->shape, e);
    if (rc) return rc;
    td_desc contiguous = *d;
    bool same = w->n_stride == 0 || w->n_stride == w->n_shape;
    for (size_t i = 0; same && i < w->n_stride; i++) same = w->stride[i] == contiguous.stride[i];
    if (!same) return td_fail(e, TD_E_UNSUPPORTED, "an import is contiguous; make a view of it afterwards");
    size_t item = td_dtype_size((td_dtype)d->dtype);
    if (q->offset % item || q->offset > INT64_MAX / 2)
        return td_fail(e, TD_E_INVALID, "offset %llu is no multiple of the %zu bytes of an element",
                       (unsigned long long)q->offset, item);
    return TD_OK;
}

static int too_small(uint64_t has, uint64_t offset, uint64_t n, td_error *e)
{
    return td_fail(e, TD_E_INVALID, "%llu bytes at offset %llu do not lie inside a descriptor of %llu bytes",
                   (unsigned long long)n, (unsigned long long)offset, (unsigned long long)has);
}

static int bind(td_session *s, uint32_t id, td_storage *st, const td_desc *d, td_error *e)
{
    td_tensor *t = NULL;
    int rc = td_tensor_new(&t, st, d, s->account, e);
    return rc ? rc : td_objects_bind(&s->objects, id, t, NULL, e);
}

static void reply_desc(td_session *s, uint64_t serial, const td_desc *d)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Desc desc;
    int64_t sizes[2 * TD_MAX_DIMS];
    td_desc_to_wire(d, &desc, sizes);
    r.serial = serial;
    r.desc = &desc;
    td_reply_send(s, &r, -1);
}

/* ---- memory: mapped here and now */

static int adopt(td_session *s, td_extent *x, uint64_t size, bool writable, td_storage **out, td_error *e)
{
    td_place place = {
        .account = s->account, .device = TD_CPU, .flags = (uint8_t)(TD_SF_IMPORTED | (writable ? 0 : TD_SF_READONLY))};
    int rc = td_account_import(s->account, e);
    if (rc) return rc;
    rc = td_storage_adopt(out, &place, x, size, e);
    if (rc) td_account_unimport(s->account);
    return rc;
}

static int import_memory(td_session *s, uint64_t serial, const Td__Wire__Import *q, td_desc *d, uint64_t size,
                         td_error *e)
{
    uint64_t n = td_desc_nbytes(d);
    if (q->offset > size || n > size - q->offset) return too_small(size, q->offset, n, e);
    td_extent x;
    bool writable = false;
    int rc = td_import_map(&x, &s->service->budget, s->uid, &s->stream.import_fd, size, &writable, e);
    if (rc == TD_E_MEMORY) return td_session_lacks(s, rc, &(td_need){.heap = s->heap}, e);
    if (rc) return rc;
    td_storage *st = NULL;
    rc = adopt(s, &x, size, writable, &st, e);
    if (rc) {
        td_heap_release(td_extent_heap(&x), &x);
        return rc;
    }
    d->offset = (int64_t)(q->offset / td_dtype_size((td_dtype)d->dtype));
    rc = bind(s, q->id, st, d, e);
    td_storage_unref(st);
    if (!rc) reply_desc(s, serial, d);
    return rc;
}

/* ---- a file: read aside, into memory of the session's */

typedef struct file_read {
    td_session *s;
    int fd;
    uint64_t offset, bytes, serial;
    uint32_t id;
    td_desc desc;
    td_storage *storage; /* a reference; nobody else has one before the values are there */
    td_error error;
} file_read;

static int check_file(const file_read *j, td_error *e)
{
    struct stat st;
    struct statfs fs;
    if (fstat(j->fd, &st)) return td_fail_errno(e, errno, "cannot examine the descriptor");
    if (!S_ISREG(st.st_mode))
        return td_fail(e, TD_E_INVALID, "the descriptor is a %s; only a sealed memfd or a regular file can be imported",
                       S_ISFIFO(st.st_mode)                         ? "pipe"
                       : S_ISSOCK(st.st_mode)                       ? "socket"
                       : S_ISDIR(st.st_mode)                        ? "directory"
                       : S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ? "device"
                                                                    : "special file");
    if (fstatfs(j->fd, &fs) == 0 && fs.f_type == FUSE_SUPER_MAGIC)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "the file lies on a FUSE file system, where reading depends on another "
                       "process; read it yourself, and put the values");
    uint64_t size = (uint64_t)st.st_size;
    if (j->offset > size || j->bytes > size - j->offset) return too_small(size, j->offset, j->bytes, e);
    return TD_OK;
}

static int read_all(const file_read *j, td_error *e)
{
    for (uint64_t at = 0; at < j->bytes;) {
        uint64_t left = j->bytes - at;
        ssize_t n = pread(j->fd, j->storage->data + at, left < 1 << 30 ? left : 1 << 30, (off_t)(j->offset + at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return td_fail_errno(e, errno, "cannot read the file");
        if (n == 0) return td_fail(e, TD_E_INVALID, "the file was cut while it was read");
        at += (uint64_t)n;
    }
    return TD_OK;
}

static void read_work(void *arg)
{
    file_read *j = arg;
    int rc = check_file(j, &j->error);
    if (!rc) read_all(j, &j->error);
    close(j->fd);
}

static void read_done(void *arg)
{
    file_read *j = arg;
    td_session *s = j->s;
    td_error *e = &j->error;
    if (!s->life.ended) {
        int rc = e->code ? e->code : td_call_new_id(s, j->id, e);
        if (!rc) rc = bind(s, j->id, j->storage, &j->desc, e);
        snprintf(e->op, sizeof e->op, "import");
        if (rc) td_reply_error(s, j->serial, e);
        else reply_desc(s, j->serial, &j->desc);
        td_session_ready(s);
    }
    td_storage_unref(j->storage);
    s->life.refs--;
    free(j);
    if (s->life.ended) td_session_try_free(s);
}

static int import_file(td_session *s, uint64_t serial, const Td__Wire__Import *q, const td_desc *d, td_error *e)
{
    uint64_t n = td_desc_nbytes(d);
    td_need need = {.heap = s->heap};
    td_place place = {.heap = s->heap, .account = s->account, .device = TD_CPU};
    td_storage *st = NULL;
    int rc = td_storage_new(&st, &place, n, &need, e);
    if (rc) return td_need_may_pass(rc) ? td_session_lacks(s, rc, &need, e) : rc;
    file_read *j = malloc(sizeof *j);
    if (!j) {
        td_storage_unref(st);
        return td_no_memory(e, "to read a file");
    }
    *j = (file_read){.s = s,
                     .fd = s->stream.import_fd,
                     .offset = q->offset,
                     .bytes = n,
                     .serial = serial,
                     .id = q->id,
                     .desc = *d,
                     .storage = st};
    s->stream.import_fd = -1;
    s->life.refs++;
    static const td_wait_kind for_file = {"a file to be read", .external = true};
    td_session_wait(s, &for_file);
    td_session_aside(s, read_work, read_done, j);
    return TD_SUSPENDED;
}

int td_call_import(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Import *q = call->import;
    if (q->announce) {
        td_import_admit(s, true);
        td_reply_ok(s, call->serial);
        return TD_OK;
    }
    if (s->stream.import_fd < 0) return td_fail(e, TD_E_INVALID, "an import brings a descriptor, and none came");
    td_desc d;
    uint64_t size = 0;
    int rc = td_call_new_id(s, q->id, e);
    if (!rc) rc = desc_of(q, &d, e);
    if (rc) return rc;
    switch (td_import_examine(s->stream.import_fd, &size, e)) {
    case TD_IMPORT_MEMORY: return import_memory(s, call->serial, q, &d, size, e);
    case TD_IMPORT_FILE: return import_file(s, call->serial, q, &d, e);
    default: return e->code;
    }
}
