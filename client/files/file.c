/* Files of tensors, whatever wrote them. See file.h. */
#include "client/files/scripted.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PIECE = 1 << 20 };

/* ---- for readers */

int td_file_add_storage(td_file *t, const td_stored *like, td_stored **out, td_error *e)
{
    td_stored *s = NULL;
    HASH_FIND(hh, t->by_key, like->key, strlen(like->key), s);
    if (s) return td_fail(e, TD_E_INVALID, "'%.80s' is there twice", like->key);
    if (!td_plain_room(&t->storages, t->nstorages, &t->storage_room, sizeof *t->storages, e)) return e->code;
    if (!(s = malloc(sizeof *s))) return td_no_memory(e, "for the tensors of a file");
    *s = *like;
    s->index = t->nstorages;
    HASH_ADD_KEYPTR(hh, t->by_key, s->key, strlen(s->key), s);
    if (!TD_HASHED(s)) {
        free(s);
        return td_no_memory(e, "for the tensors of a file");
    }
    t->storages[t->nstorages++] = s;
    if (out) *out = s;
    return TD_OK;
}

int td_file_add_tensor(td_file *t, const td_file_tensor *tensor, td_plain **out, td_error *e)
{
    td_plain *x = td_plain_new(&t->pickle, TD_PLAIN_OBJECT, e);
    if (!x || !td_plain_room(&t->tensors, t->ntensors, &t->tensor_room, sizeof *t->tensors, e)) return e->code;
    x->made = TD_MADE_TENSOR, x->i = t->ntensors;
    t->tensors[t->ntensors++] = *tensor;
    *out = x;
    return TD_OK;
}

int td_file_add_nothing(td_file *t, td_plain **out, td_error *e)
{
    *out = td_plain_new(&t->pickle, TD_PLAIN_OBJECT, e);
    if (!*out) return e->code;
    (*out)->made = TD_MADE_NOTHING;
    return TD_OK;
}

int td_file_add_whole(td_file *t, const td_stored *like, int ndim, const int64_t *shape, bool columns, td_plain **out,
                      td_error *e)
{
    td_file_tensor tensor = {.storage = t->nstorages};
    td_error why;
    td_desc *d = &tensor.desc;
    if (td_desc_contiguous(d, like->dtype, ndim, shape, &why))
        return td_fail(e, TD_E_INVALID, "'%.80s' has a shape that no tensor has: %.200s", like->key, why.message);
    if ((uint64_t)td_desc_numel(d) != like->numel)
        return td_fail(e, TD_E_INVALID, "the bytes of '%.80s' are not as many as its shape and dtype say", like->key);
    for (int k = 0; columns && k < ndim; k++)
        d->stride[k] = k ? d->stride[k - 1] * (shape[k - 1] ? shape[k - 1] : 1) : 1;
    int rc = td_file_add_storage(t, like, NULL, e);
    return rc ? rc : td_file_add_tensor(t, &tensor, out, e);
}

/* ---- the door */

static bool begins(const unsigned char *head, size_t n, const char *with, size_t length)
{
    return n >= length && memcmp(head, with, length) == 0;
}

/* What lies where a file of tensors was asked for, and what to do. Of a stream the first bytes alone may be here. */
static const struct {
    const char *begins;
    uint8_t n;
    const char *is;
} strangers[] = {
    {"version https://git-lfs", 9, "a pointer of Git LFS, which stands for the file: `git lfs pull` fetches that"},
    {"<!DOCTYPE", 9, "a page of HTML, which a server sent in place of the file: download it again"},
    {"<!doctype", 9, "a page of HTML, which a server sent in place of the file: download it again"},
    {"<html", 5, "a page of HTML, which a server sent in place of the file: download it again"},
    {"<HTML", 5, "a page of HTML, which a server sent in place of the file: download it again"},
    {"<?xml", 5, "a text in XML, such as a server's refusal: download the file again"},
    {"{", 1, "a text in JSON; one that lists several files of safetensors says which to load"},
    {"\x1f\x8b", 2, "compressed by gzip: decompress it, or give load() what gzip.open() gives"},
    {"BZh", 3, "compressed by bzip2: decompress it first"},
    {"\xfd"
     "7zXZ",
     5, "compressed by xz: decompress it first"},
    {"\x28\xb5\x2f\xfd", 4, "compressed by zstd: decompress it first"},
    {"7z\xbc\xaf", 4, "an archive of 7-Zip: unpack it first"},
    {"\x89HDF\r\n", 6, "a file of HDF5, as Keras writes: h5py reads it, and save() takes its arrays"},
    {"GGUF", 4, "a model in GGUF, as llama.cpp reads it; its makers have it as safetensors, too"},
    {"%PDF", 4, "a document in PDF"},
    {"\x7f"
     "ELF",
     4, "a program or a library"},
    {"PAR1", 4, "a table in Parquet"},
    {"\0\0\0\0\0\0\0\0\0", 9, "of zero bytes where it should begin: it was not written, or not fetched, to its end"}};

const char *td_file_stranger(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        if (begins(head, n, strangers[i].begins, strangers[i].n)) return strangers[i].is;
    return n > 8 && head[0] == 8 && head[2] == 0x12 ? "a model in ONNX: export it as a state_dict() instead" : NULL;
}

static int read_zip(td_file *t, td_error *e)
{
    td_zip z = {0};
    int rc = td_zip_open(&z, &t->source, e);
    bool arrays = !rc && !td_is_archive(&z);
    for (uint32_t i = 0; arrays && i < z.n; i++) {
        size_t n = strlen(z.entries[i].name);
        arrays = n > 4 && strcmp(z.entries[i].name + n - 4, ".npy") == 0;
    }
    if (!rc) rc = arrays ? td_read_npz(t, &z, e) : td_read_archive(t, &z, e);
    td_zip_close(&z);
    return rc;
}

int td_file_open(td_file *t, int fd, td_error *e)
{
    enum { NEEDED = 9 };
    unsigned char head[TD_FILE_HEAD] = {0};
    *t = (td_file){.skip = t->skip, .programs = t->programs};
    int rc = td_source_init(&t->source, fd, e);
    size_t n = rc || t->source.size >= sizeof head ? sizeof head : (size_t)t->source.size;
    if (!rc) rc = td_source_read(&t->source, 0, head, n, e);
    if (!rc && n < 4)
        rc = td_fail(e, TD_E_INVALID, "the file ends too early: it %s", n ? "has fewer than 4 bytes" : "is empty");
    if (rc) return rc;
    t->pickle.file_size = t->source.size;
    if (n >= NEEDED && head[8] == '{' && td_le64(head) <= TD_LONGEST_HEADER) return td_read_safetensors(t, e);
    if (begins(head, n, "PK\3\4", 4) || begins(head, n, "PK\5\6", 4)) return read_zip(t, e);
    if (begins(head, n, "\x93NUMPY", 6)) return td_read_npy(t, e);
    if (head[0] == 0x80 && head[1] >= 2 && head[1] <= 5) return td_read_legacy(t, e);
    if (td_file_stranger(head, n))
        return td_fail(e, TD_E_INVALID, "this is no file of tensors: it is %s", td_file_stranger(head, n));
    return td_fail(e, TD_E_INVALID,
                   "this is no file of tensors: it begins with neither what torch.save() writes, nor a "
                   "header of safetensors, nor as files of NumPy do");
}

void td_file_close(td_file *t)
{
    HASH_CLEAR(hh, t->by_key);
    for (uint32_t i = 0; i < t->nstorages; i++) free(t->storages[i]);
    td_scripted_close(t);
    free(t->storages);
    free(t->tensors);
    td_pickle_close(&t->pickle);
}

/* ---- bytes */

static void swap(unsigned char *at, size_t bytes, size_t each)
{
    for (; bytes >= each; bytes -= each, at += each)
        for (size_t i = 0; i < each / 2; i++) {
            unsigned char c = at[i];
            at[i] = at[each - 1 - i];
            at[each - 1 - i] = c;
        }
}

static int read_pieces(const td_file *t, const td_stored *s, unsigned char *p, size_t left, uint32_t *crc, td_error *e)
{
    for (uint64_t at = s->at; left;) {
        size_t n = left < PIECE ? left : PIECE;
        int rc = td_source_read(&t->source, at, p, n, e);
        if (rc) return rc;
        if (s->has_crc) *crc = (uint32_t)crc32_z(*crc, p, n);
        p += n;
        at += n;
        left -= n;
    }
    return TD_OK;
}

/* A sign, 4 bits of exponent and 3 behind the point, as a float16. There is no infinity. */
static uint16_t from_e4m3(unsigned byte)
{
    unsigned sign = (byte & 0x80) << 8, exponent = byte >> 3 & 15, rest = byte & 7, k = rest >> 2 ? 2 : rest >> 1;
    if ((byte & 0x7f) == 0x7f) return (uint16_t)(sign | 0x7e00);
    if (exponent) return (uint16_t)(sign | (exponent + 8) << 10 | rest << 7);
    return (uint16_t)(rest ? sign | (k + 6) << 10 | (rest - (1U << k)) << (10 - k) : sign);
}

/* An exponent alone, as a float32. */
static uint32_t from_e8m0(uint32_t byte)
{
    return byte == 0xff ? 0x7fc00000 : byte ? byte << 23 : 1U << 22;
}

/* In place: the bytes lie in the last part of the memory, where each is read before it is written on. */
static void widen(td_narrow narrow, const unsigned char *from, unsigned char *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t single = from_e8m0(from[i]);
        uint16_t half = narrow == TD_NARROW_E5M2 ? (uint16_t)(from[i] << 8) : from_e4m3(from[i]);
        if (narrow == TD_NARROW_E8M0) memcpy(to + 4 * i, &single, sizeof single);
        else memcpy(to + 2 * i, &half, sizeof half);
    }
}

static int read_narrow(const td_file *t, const td_stored *s, unsigned char *to, td_error *e)
{
    size_t n = (size_t)s->numel, bytes = n * td_dtype_size(s->dtype);
    uint32_t crc = 0;
    int rc = read_pieces(t, s, to + bytes - n, n, &crc, e);
    if (!rc) widen(s->narrow, to + bytes - n, to, n);
    return rc;
}

int td_file_read(const td_file *t, const td_stored *s, void *to, td_error *e)
{
    size_t bytes = (size_t)s->numel * td_dtype_size(s->dtype);
    uint32_t crc = s->skipped_crc;
    if (s->narrow) return read_narrow(t, s, to, e);
    int rc = s->packed
                 ? td_zip_inflate(&t->source, &(td_zip_packed){s->at, s->packed, s->skip, true}, to, bytes, &crc, e)
                 : read_pieces(t, s, to, bytes, &crc, e);
    if (rc) return rc;
    if (s->has_crc && crc != s->crc)
        return td_fail(e, TD_E_INVALID, "storage '%.40s' is damaged: its checksum is another", s->key);
    if (t->swapped || s->swapped) swap(to, bytes, td_dtype_size(td_dtype_real(s->dtype)));
    return TD_OK;
}
