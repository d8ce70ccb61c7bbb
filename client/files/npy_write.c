/* Writes arrays of NumPy: .npy 1.0, and .npz, a zip file of such whose bytes begin at multiples of 64. See npy.c. */
#include "client/files/write.h"
#include "client/files/zip.h"
#include "client/files/zipped.h"

#include <stdio.h>
#include <string.h>

enum { ALIGN = 64, LONG_HEAD = 512, LONG_NAME = 1024 };

static const char *descr(td_dtype dtype)
{
    switch (dtype) {
    case TD_FLOAT64: return "<f8";
    case TD_FLOAT32: return "<f4";
    case TD_FLOAT16: return "<f2";
    case TD_INT64: return "<i8";
    case TD_INT32: return "<i4";
    case TD_INT16: return "<i2";
    case TD_INT8: return "|i1";
    case TD_UINT8: return "|u1";
    case TD_BOOL: return "|b1";
    case TD_COMPLEX64: return "<c8";
    case TD_COMPLEX128: return "<c16";
    case TD_UINT16: return "<u2";
    case TD_UINT32: return "<u4";
    case TD_UINT64: return "<u8";
    default: return NULL;
    }
}

/* The whole header: a multiple of 64 bytes. 0: there is none for this dtype. */
static size_t make_head(const td_desc *d, char head[LONG_HEAD], td_error *e)
{
    static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    const char *kind = descr((td_dtype)d->dtype);
    if (!kind) {
        td_fail(e, TD_E_UNSUPPORTED, "NumPy has no %s: save another dtype, or another format",
                td_dtype_name((td_dtype)d->dtype));
        return 0;
    }
    int n = snprintf(head + 10, LONG_HEAD - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (", kind);
    for (int k = 0; k < d->ndim; k++)
        n += snprintf(head + 10 + n, (size_t)(LONG_HEAD - 10 - n),
                      k == 0   ? "%lld,"
                      : k == 1 ? " %lld"
                               : ", %lld",
                      (long long)d->shape[k]);
    n += snprintf(head + 10 + n, (size_t)(LONG_HEAD - 10 - n), "), }");
    size_t size = (10 + (size_t)n + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset(head + 10 + n, ' ', size - 10 - (size_t)n);
    head[size - 1] = '\n';
    memcpy(head, magic, sizeof magic);
    td_put_le((unsigned char *)head + 8, size - 10, 2);
    return size;
}

static int put_array(td_sink *to, const td_out *out, const td_out_tensor *t, const char *head, size_t n, td_error *e)
{
    int rc = td_sink_put(to, head, n, e);
    return rc ? rc : td_sink_put(to, out->storages[t->storage].bytes, td_desc_nbytes(&t->desc), e);
}

static const td_out_tensor *take_tensor(const td_out *out, td_note *note, td_error *e)
{
    td_note_step s;
    if (td_note_plain(note, &s, e)) return NULL;
    if (s.kind == 'x' && s.n < out->ntensors) return &out->tensors[s.n];
    td_fail(e, TD_E_TYPE, ".npy holds one tensor, and .npz a dict or a list of tensors");
    return NULL;
}

int td_write_npy(td_sink *to, const td_out *out, td_error *e)
{
    td_note note = out->tree;
    char head[LONG_HEAD];
    const td_out_tensor *t = take_tensor(out, &note, e);
    size_t n = t ? make_head(&t->desc, head, e) : 0;
    int rc = n ? put_array(to, out, t, head, n, e) : e->code;
    return rc ? rc : td_sink_flush(to, e);
}

/* The name of an entry: of a dict the key, of a list what NumPy gives it. */
static int take_name(td_note *note, bool dict, int64_t i, char name[LONG_NAME], td_error *e)
{
    td_note_step key;
    if (!dict) return snprintf(name, LONG_NAME, "arr_%lld.npy", (long long)i), TD_OK;
    int rc = td_note_next(note, &key, e);
    if (rc) return rc;
    if (key.kind != 's') return td_fail(e, TD_E_TYPE, "the names in .npz are texts");
    bool good = key.n > 0 && key.n < LONG_NAME - 8 && !memchr(key.text, 0, (size_t)key.n);
    int n = good ? snprintf(name, LONG_NAME, "%.*s.npy", (int)key.n, key.text) : 0;
    if (!good || !td_zip_good_name(name, (uint32_t)n))
        return td_fail(e, TD_E_INVALID, "'%.*s' is no name for an array in .npz", (int)(key.n < 80 ? key.n : 80),
                       key.text);
    return TD_OK;
}

static int add_array(td_zipped *z, const td_out *out, const char *name, const td_out_tensor *t, td_error *e)
{
    char head[LONG_HEAD];
    size_t n = make_head(&t->desc, head, e);
    int rc = n ? td_zipped_begin(z, name, n + td_desc_nbytes(&t->desc), e) : e->code;
    if (!rc) rc = put_array(z->to, out, t, head, n, e);
    return rc ? rc : td_zipped_end(z, e);
}

int td_write_npz(td_sink *to, const td_out *out, td_error *e)
{
    td_note note = out->tree;
    td_note_step s;
    td_zipped z = {.to = to};
    char name[LONG_NAME];
    int rc = td_note_plain(&note, &s, e);
    if (!rc && s.kind != 'd' && s.kind != 'l' && s.kind != 't')
        rc = td_fail(e, TD_E_TYPE, ".npy holds one tensor, and .npz a dict or a list of tensors");
    for (int64_t i = 0; !rc && i < s.n; i++) {
        rc = take_name(&note, s.kind == 'd', i, name, e);
        const td_out_tensor *t = rc ? NULL : take_tensor(out, &note, e);
        if (!rc) rc = t ? add_array(&z, out, name, t, e) : e->code;
    }
    if (!rc) rc = td_zipped_finish(&z, e);
    td_zipped_close(&z);
    return rc;
}
