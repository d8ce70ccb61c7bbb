/* Arrays of NumPy: .npy of the versions 1.0 to 3.0, and .npz, a zip file of such. The header is a dict as Python writes
 * it; exactly that is read, nothing is evaluated, and arrays of objects, which are pickles, are refused. */
#include "client/files/file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LONGEST = 1 << 16 /* bytes of a header */ };

typedef struct npy {
    const char *name;
    const char *at, *end; /* of the dict, what is left */
    td_dtype dtype;
    bool swapped, columns;
    int ndim;
    int64_t shape[TD_MAX_DIMS];
    uint64_t data; /* where its bytes begin */
    td_error *e;
} npy;

static bool wrong(npy *a, const char *what)
{
    if (!a->e->code) td_fail(a->e, TD_E_INVALID, "the header of '%.80s' is none of an array: %s", a->name, what);
    return false;
}

static bool take(npy *a, const char *word)
{
    while (a->at < a->end && isspace((unsigned char)*a->at)) a->at++;
    size_t n = strlen(word);
    if ((size_t)(a->end - a->at) < n || memcmp(a->at, word, n) != 0) return false;
    a->at += n;
    return true;
}

/* What stands in quotes. */
static bool take_text(npy *a, char *to, size_t size)
{
    char quote = take(a, "'") ? '\'' : take(a, "\"") ? '"' : 0;
    const char *end = quote ? memchr(a->at, quote, (size_t)(a->end - a->at)) : NULL;
    if (!end || (size_t)(end - a->at) >= size || memchr(a->at, '\\', (size_t)(end - a->at))) return false;
    memcpy(to, a->at, (size_t)(end - a->at));
    to[end - a->at] = 0;
    a->at = end + 1;
    return true;
}

static bool take_dtype(npy *a)
{
    static const struct {
        const char *name;
        td_dtype dtype;
    } known[] = {{"b1", TD_BOOL},    {"i1", TD_INT8},      {"i2", TD_INT16},       {"i4", TD_INT32},
                 {"i8", TD_INT64},   {"u1", TD_UINT8},     {"f2", TD_FLOAT16},     {"f4", TD_FLOAT32},
                 {"f8", TD_FLOAT64}, {"c8", TD_COMPLEX64}, {"c16", TD_COMPLEX128}, {"u2", TD_UINT16},
                 {"u4", TD_UINT32},  {"u8", TD_UINT64}};
    char text[40];
    if (take(a, "["))
        return td_fail(a->e, TD_E_UNSUPPORTED, "'%.80s' is an array of records: this dtype is not known here", a->name),
               false;
    if (!take_text(a, text, sizeof text)) return wrong(a, "its descr is no dtype");
    const char *kind = text + (text[0] && strchr("<>|=", text[0]));
    a->swapped = text[0] == '>';
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(kind, known[i].name) == 0) return a->dtype = known[i].dtype, true;
    return td_fail(a->e, TD_E_UNSUPPORTED,
                   kind[0] == 'O' ? "'%.80s' is an array of objects ('%s'), which only running code could read"
                                  : "'%.80s' is of the dtype '%s', which is not known here",
                   a->name, text),
           false;
}

static bool take_bool(npy *a, bool *to)
{
    *to = take(a, "True");
    return *to || take(a, "False") || wrong(a, "its fortran_order is neither True nor False");
}

static bool take_size(npy *a)
{
    int64_t v = 0;
    const char *first = a->at;
    for (; a->at < a->end && isdigit((unsigned char)*a->at); a->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *a->at - '0', &v)) return false;
    if (a->at == first || a->ndim == TD_MAX_DIMS) return false;
    a->shape[a->ndim++] = v;
    return true;
}

static bool take_shape(npy *a)
{
    if (!take(a, "(")) return wrong(a, "its shape is no tuple");
    while (!take(a, ")")) {
        take(a, ""); /* what is between */
        if (!take_size(a)) return wrong(a, "its shape is none that a tensor has");
        if (take(a, ",")) continue;
        return a->ndim == 1 || !take(a, ")") ? wrong(a, "its shape is no tuple") : true; /* (3) is a number */
    }
    return true;
}

static bool take_dict(npy *a)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned seen = 0;
    char key[40];
    if (!take(a, "{")) return wrong(a, "it is no dict");
    while (!take(a, "}")) {
        int k = 0;
        if (!take_text(a, key, sizeof key) || !take(a, ":")) return wrong(a, "it is no dict");
        while (k < 3 && strcmp(key, keys[k]) != 0) k++;
        if (k == 3 || seen & 1U << k) return wrong(a, "a key is not known, or is there twice");
        seen |= 1U << k;
        if (!(k == 0 ? take_dtype(a) : k == 1 ? take_bool(a, &a->columns) : take_shape(a))) return false;
        if (!take(a, ",") && (take(a, ""), a->at == a->end || *a->at != '}')) return wrong(a, "it is no dict");
    }
    take(a, "");
    return (seen == 7 && a->at == a->end) || wrong(a, "a key is missing, or it goes on behind its end");
}

/* Where the header ends, by the first bytes of a file. 0: it is none. */
static uint64_t header_end(const unsigned char *b, uint64_t n)
{
    if (n < 12 || memcmp(b, "\x93NUMPY", 6) != 0 || b[6] < 1 || b[6] > 3 || b[7]) return 0;
    uint64_t end = b[6] == 1 ? 10 + (uint64_t)td_le16(b + 8) : 12 + (uint64_t)td_le32(b + 8);
    return end <= LONGEST && end <= n ? end : 0;
}

static int parse(npy *a, const unsigned char *b, uint64_t n)
{
    a->data = header_end(b, n);
    if (!a->data) return wrong(a, "its beginning is cut, of another version, or too long"), a->e->code;
    a->at = (const char *)b + (b[6] == 1 ? 10 : 12);
    a->end = (const char *)b + a->data;
    return take_dict(a) ? TD_OK : a->e->code;
}

/* As a storage of so many bytes, at the place that `like` says. */
static int add(td_file *t, const npy *a, td_stored *like, uint64_t bytes, td_plain **out, td_error *e)
{
    size_t item = td_dtype_size(a->dtype);
    if (bytes % item)
        return td_fail(e, TD_E_INVALID, "the bytes of '%.80s' are not as many as its shape and dtype say", a->name);
    like->key = a->name;
    like->location = "cpu";
    like->dtype = a->dtype;
    like->numel = bytes / item;
    like->swapped = a->swapped;
    like->found = true;
    return td_file_add_whole(t, like, a->ndim, a->shape, a->columns, out, e);
}

int td_read_npy(td_file *t, td_error *e)
{
    uint64_t n = t->source.size < LONGEST ? t->source.size : LONGEST;
    unsigned char *head = malloc((size_t)n + 1);
    npy a = {.name = "array", .e = e};
    if (!head) return td_no_memory(e, "to read a file");
    int rc = td_source_read(&t->source, 0, head, (size_t)n, e);
    if (!rc) rc = parse(&a, head, n);
    td_stored like = {.at = a.data};
    if (!rc) rc = add(t, &a, &like, t->source.size - a.data, &t->root, e);
    free(head);
    return rc;
}

/* ---- several in a zip file */

/* The bytes of an entry's header, and where what follows it is. */
static int read_entry(td_file *t, const td_zip *z, const td_zip_entry *en, unsigned char *head, npy *a, td_stored *like,
                      td_error *e)
{
    uint64_t at, n = en->size < LONGEST ? en->size : LONGEST;
    int rc = td_zip_bytes(z, en, &at, e);
    if (rc) return rc;
    bool packed = en->method != TD_ZIP_STORED;
    if (packed)
        rc = td_zip_inflate(&t->source, &(td_zip_packed){at, en->packed, 0, n == en->size}, head, (size_t)n, NULL, e);
    else rc = td_source_read(&t->source, at, head, (size_t)n, e);
    if (!rc) rc = parse(a, head, n);
    if (rc) return rc;
    *like = (td_stored){.at = packed ? at : at + a->data,
                        .packed = packed ? en->packed : 0,
                        .skip = (uint32_t)a->data,
                        .crc = en->crc,
                        .skipped_crc = packed ? 0 : (uint32_t)crc32_z(0, head, (size_t)a->data),
                        .has_crc = true};
    return TD_OK;
}

static int read_array(td_file *t, const td_zip *z, const td_zip_entry *en, unsigned char *head, td_error *e)
{
    td_plain *name = td_plain_new(&t->pickle, TD_PLAIN_TEXT, e), *array = NULL;
    uint32_t n = (uint32_t)strlen(en->name) - 4; /* without its ending */
    char *text = name ? td_plain_text(&t->pickle, n, e) : NULL;
    if (!text) return e->code;
    snprintf(text, (size_t)n + 1, "%s", en->name);
    name->text = text, name->n = n;
    if (!td_is_utf8((unsigned char *)text, n)) return td_fail(e, TD_E_INVALID, "a name in the zip file is no UTF-8");
    npy a = {.name = text, .e = e};
    td_stored like;
    int rc = read_entry(t, z, en, head, &a, &like, e);
    if (!rc) rc = add(t, &a, &like, en->size - a.data, &array, e);
    if (rc == TD_E_UNSUPPORTED && t->skip && !a.dtype) {
        *e = (td_error){0};
        rc = td_file_add_nothing(t, &array, e);
    }
    if (!rc) rc = td_plain_add(&t->pickle, t->root, name, e);
    return rc ? rc : td_plain_add(&t->pickle, t->root, array, e);
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = (*(const td_zip_entry *const *)a)->header, y = (*(const td_zip_entry *const *)b)->header;
    return (x > y) - (x < y);
}

int td_read_npz(td_file *t, td_zip *z, td_error *e)
{
    const td_zip_entry **order = calloc(z->n, sizeof *order);
    unsigned char *head = malloc(LONGEST);
    int rc = order && head ? TD_OK : td_no_memory(e, "to read a file");
    for (uint32_t i = 0; !rc && i < z->n; i++) order[i] = &z->entries[i];
    if (!rc) qsort(order, z->n, sizeof *order, by_place);
    t->root = rc ? NULL : td_plain_new(&t->pickle, TD_PLAIN_DICT, e);
    if (!rc && !t->root) rc = e->code;
    for (uint32_t i = 0; !rc && i < z->n; i++) rc = read_array(t, z, order[i], head, e);
    free(order);
    free(head);
    return rc;
}
