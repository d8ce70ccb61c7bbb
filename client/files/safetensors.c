/* safetensors: eight bytes with the length of a header (JSON), the header, the bytes of the tensors without a gap. What
 * is more than a dict of tensors stands as a tree in the header's metadata, where tensors are by name (save.c). */
#include "client/files/file.h"
#include "client/files/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *code;
    td_dtype dtype;
} codes[] = {{"F64", TD_FLOAT64},   {"F32", TD_FLOAT32}, {"F16", TD_FLOAT16}, {"BF16", TD_BFLOAT16}, {"I64", TD_INT64},
             {"I32", TD_INT32},     {"I16", TD_INT16},   {"I8", TD_INT8},     {"U8", TD_UINT8},      {"BOOL", TD_BOOL},
             {"C64", TD_COMPLEX64}, {"U16", TD_UINT16},  {"U32", TD_UINT32},  {"U64", TD_UINT64}};

/* Floats of a byte are no dtypes here: they come as the smallest that holds all of their values, or are passed over. */
static const struct {
    const char *code;
    td_narrow narrow;
    td_dtype wide;
} strangers[] = {{"F8_E4M3", TD_NARROW_E4M3, TD_FLOAT16},
                 {"F8_E5M2", TD_NARROW_E5M2, TD_FLOAT16},
                 {"F8_E8M0", TD_NARROW_E8M0, TD_FLOAT32}};

static td_plain *item(const td_plain *dict, const char *name)
{
    for (uint32_t i = 0; dict && dict->kind == TD_PLAIN_DICT && i + 1 < dict->n; i += 2)
        if (td_plain_is_text(dict->items[i], name)) return dict->items[i + 1];
    return NULL;
}

/* ---- the tensors */

typedef struct entry {
    td_plain *name;
    td_plain **value; /* where the tensor goes */
    td_dtype dtype;
    int ndim;
    int64_t shape[TD_MAX_DIMS];
    uint64_t begin, end;
    td_narrow narrow;
    bool out; /* it is passed over */
} entry;

static bool is_size(const td_plain *x)
{
    return x->kind == TD_PLAIN_INT && x->i >= 0;
}

static int read_entry(entry *en, const td_plain *x, bool skip, td_error *e)
{
    const td_plain *dtype = item(x, "dtype"), *shape = item(x, "shape"), *at = item(x, "data_offsets");
    bool good = dtype && shape && at && dtype->kind == TD_PLAIN_TEXT && shape->kind == TD_PLAIN_LIST &&
                shape->n <= TD_MAX_DIMS && at->kind == TD_PLAIN_LIST && at->n == 2 && is_size(at->items[0]) &&
                is_size(at->items[1]);
    en->dtype = TD_DTYPE_NONE;
    for (size_t i = 0; good && i < sizeof codes / sizeof *codes; i++)
        if (td_plain_is_text(dtype, codes[i].code)) en->dtype = codes[i].dtype;
    for (size_t i = 0; good && i < sizeof strangers / sizeof *strangers; i++)
        if (td_plain_is_text(dtype, strangers[i].code))
            en->narrow = strangers[i].narrow, en->dtype = strangers[i].wide, en->out = skip;
    en->ndim = good ? (int)shape->n : 0;
    for (int i = 0; good && i < en->ndim; i++) {
        good = is_size(shape->items[i]);
        en->shape[i] = shape->items[i]->i;
    }
    if (!good || !td_dtype_valid(en->dtype))
        return td_fail(e, TD_E_INVALID,
                       "the header's entry for '%.80s' has no dtype, shape and data_offsets that are known here%s%.20s",
                       en->name->text, good ? ": its dtype is " : "", good ? dtype->text : "");
    en->begin = (uint64_t)at->items[0]->i;
    en->end = (uint64_t)at->items[1]->i;
    return TD_OK;
}

static int by_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin) : (x->end > y->end) - (x->end < y->end);
}

static int misplaced(const entry *en, td_error *e)
{
    return td_fail(e, TD_E_INVALID,
                   "the bytes of '%.80s' are not where they should be, or not as many as its shape and dtype say",
                   en->name->text);
}

/* Of what is left out nobody else asks whether it has as many elements as its shape says. */
static bool has(const entry *en, uint64_t elements)
{
    uint64_t n = 1;
    for (int i = 0; i < en->ndim; i++)
        if (__builtin_mul_overflow(n, (uint64_t)en->shape[i], &n)) return false;
    return n == elements;
}

/* One behind the other, from the first byte to the last of the file. */
static int add_entries(td_file *t, entry *entries, uint32_t n, uint64_t data, td_error *e)
{
    uint64_t at = 0, size = t->source.size - data;
    qsort(entries, n, sizeof *entries, by_place);
    for (uint32_t i = 0; i < n; i++) {
        entry *en = &entries[i];
        uint64_t each = en->narrow ? 1 : td_dtype_size(en->dtype);
        if (en->begin != at || en->end < at || (en->end - at) % each) return misplaced(en, e);
        if (en->out && !has(en, (en->end - at) / each)) return misplaced(en, e);
        if (en->end > size) return td_fail(e, TD_E_INVALID, "the file ends too early");
        td_stored like = {.key = en->name->text,
                          .location = "cpu",
                          .dtype = en->dtype,
                          .numel = (en->end - at) / each,
                          .at = data + at,
                          .narrow = en->narrow,
                          .found = true};
        if (strlen(en->name->text) != en->name->n) return td_fail(e, TD_E_INVALID, "a tensor's name holds a zero byte");
        int rc = en->out ? td_file_add_nothing(t, en->value, e)
                         : td_file_add_whole(t, &like, en->ndim, en->shape, false, en->value, e);
        if (rc) return rc;
        at = en->end;
    }
    return at == size ? TD_OK : td_fail(e, TD_E_INVALID, "the file goes on behind its last tensor");
}

/* ---- the tree: JSON cannot tell a tuple from a list, so what is no list, text, number or None is {kind: ...} */

typedef struct planting {
    td_file *file;
    td_error *e;
} planting;

static bool wrong(planting *p)
{
    if (!p->e->code) td_fail(p->e, TD_E_INVALID, "the file's tree cannot be read");
    return false;
}

static bool plant(planting *p, td_plain **at, int depth);

/* Pairs of floats that are complex numbers. */
static bool make_complex(planting *p, const td_plain *tensor, const td_plain *dtype)
{
    td_file_tensor *t = &p->file->tensors[tensor->i];
    td_stored *s = p->file->storages[t->storage];
    td_dtype wanted = td_plain_is_text(dtype, "complex64")    ? TD_COMPLEX64
                      : td_plain_is_text(dtype, "complex128") ? TD_COMPLEX128
                                                              : TD_DTYPE_NONE;
    if (wanted == TD_DTYPE_NONE || s->dtype == wanted) return true;
    td_desc *d = &t->desc;
    if (s->narrow || s->dtype != td_dtype_real(wanted) || d->ndim == 0 || d->shape[d->ndim - 1] != 2) return wrong(p);
    s->dtype = wanted;
    s->numel /= 2;
    d->dtype = (uint8_t)wanted;
    d->ndim--;
    td_desc_pack(d);
    return true;
}

static bool plant_tensor(planting *p, td_plain **at, const td_plain *name, const td_plain *dtype)
{
    if (name->kind != TD_PLAIN_TEXT || !dtype || dtype->kind != TD_PLAIN_TEXT) return wrong(p);
    td_stored *s = NULL;
    HASH_FIND(hh, p->file->by_key, name->text, name->n, s);
    if (!s && p->file->skip) return td_file_add_nothing(p->file, at, p->e) == TD_OK; /* or it is not there at all */
    if (!s) return wrong(p);
    td_plain *tensor = td_plain_new(&p->file->pickle, TD_PLAIN_OBJECT, p->e);
    if (!tensor) return false;
    tensor->made = TD_MADE_TENSOR;
    tensor->i = s->index; /* each storage has its tensor */
    *at = tensor;
    return make_complex(p, tensor, dtype);
}

static bool plant_float(planting *p, td_plain *x, const td_plain *text)
{
    double v = td_plain_is_text(text, "inf")    ? INFINITY
               : td_plain_is_text(text, "-inf") ? -INFINITY
               : td_plain_is_text(text, "nan")  ? NAN
                                                : 0;
    if (v == 0) return wrong(p);
    free(x->items);
    x->kind = TD_PLAIN_FLOAT, x->n = 0, x->f[0] = v;
    return true;
}

/* [[key, value], ...] */
static bool plant_dict(planting *p, td_plain **at, td_plain *pairs, int depth)
{
    td_plain *dict = td_plain_new(&p->file->pickle, TD_PLAIN_DICT, p->e);
    if (!dict) return false;
    for (uint32_t i = 0; i < pairs->n; i++) {
        td_plain *pair = pairs->items[i];
        if (pair->kind != TD_PLAIN_LIST || pair->n != 2) return wrong(p);
        for (int k = 0; k < 2; k++)
            if (!plant(p, &pair->items[k], depth + 1) || td_plain_add(&p->file->pickle, dict, pair->items[k], p->e))
                return false;
    }
    *at = dict;
    return true;
}

static bool plant_kind(planting *p, td_plain **at, int depth)
{
    td_plain *x = *at, *value = x->n ? x->items[1] : NULL;
    if (!value) return wrong(p);
    if (td_plain_is_text(x->items[0], "tensor")) return plant_tensor(p, at, value, item(x, "dtype"));
    if (td_plain_is_text(x->items[0], "float")) return plant_float(p, x, value);
    if (value->kind != TD_PLAIN_LIST) return wrong(p);
    if (td_plain_is_text(x->items[0], "dict")) return plant_dict(p, at, value, depth);
    if (!td_plain_is_text(x->items[0], "tuple") || !plant(p, &x->items[1], depth)) return wrong(p);
    value->kind = TD_PLAIN_TUPLE;
    *at = value;
    return true;
}

/* JSON's own depth bounds this. */
static bool plant(planting *p, td_plain **at, int depth)
{
    td_plain *x = *at;
    bool good = true;
    if (x->kind == TD_PLAIN_DICT) return plant_kind(p, at, depth);
    for (uint32_t i = 0; good && x->kind == TD_PLAIN_LIST && i < x->n; i++) good = plant(p, &x->items[i], depth + 1);
    return good;
}

static int read_tree(td_file *t, const td_plain *text, td_error *e)
{
    planting p = {.file = t, .e = e};
    if (text->kind != TD_PLAIN_TEXT) return td_fail(e, TD_E_INVALID, "the file's tree is no text");
    int rc = td_json_read(&t->pickle, text->text, text->n, "the file's tree", &t->root, e);
    if (rc) return rc;
    return plant(&p, &t->root, 0) ? TD_OK : e->code;
}

/* ---- the file */

/* The entries of the header become tensors where they stand; its metadata go. */
static int read_entries(td_file *t, td_plain *header, uint64_t data, td_plain **metadata, td_error *e)
{
    uint32_t n = 0, kept = 0;
    entry *entries = calloc(header->n / 2 + 1, sizeof *entries);
    int rc = entries ? TD_OK : td_no_memory(e, "to read a file");
    for (uint32_t i = 0; !rc && i + 1 < header->n; i += 2) {
        if (td_plain_is_text(header->items[i], "__metadata__")) {
            if (*metadata) rc = td_fail(e, TD_E_INVALID, "'__metadata__' is there twice");
            *metadata = header->items[i + 1];
            continue;
        }
        header->items[kept] = header->items[i];
        header->items[kept + 1] = header->items[i + 1];
        entries[n] = (entry){.name = header->items[kept], .value = &header->items[kept + 1]};
        rc = read_entry(&entries[n++], header->items[kept + 1], t->skip, e);
        kept += 2;
    }
    header->n = rc ? header->n : kept;
    if (!rc) rc = add_entries(t, entries, n, data, e);
    free(entries);
    return rc;
}

int td_read_safetensors(td_file *t, td_error *e)
{
    unsigned char length[8];
    td_plain *metadata = NULL, *tree;
    int rc = td_source_read(&t->source, 0, length, sizeof length, e);
    uint64_t n = rc ? 0 : td_le64(length);
    if (rc) return rc;
    if (n > t->source.size - sizeof length || n > TD_LONGEST_HEADER)
        return td_fail(e, TD_E_INVALID, "the file does not begin with a header of tensors (safetensors)");
    char *text = malloc((size_t)n + 1);
    if (!text) return td_no_memory(e, "for the header of a file");
    rc = td_source_read(&t->source, sizeof length, text, (size_t)n, e);
    if (!rc) rc = td_json_read(&t->pickle, text, (size_t)n, "the file's header", &t->root, e);
    free(text);
    if (!rc && t->root->kind != TD_PLAIN_DICT) rc = td_fail(e, TD_E_INVALID, "the file's header is no object");
    if (!rc) rc = read_entries(t, t->root, sizeof length + n, &metadata, e);
    tree = rc ? NULL : item(metadata, "tensord.tree");
    return tree ? read_tree(t, tree, e) : rc;
}
