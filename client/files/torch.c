/* The names that stand in files of torch.save(), and what they make; the two forms of file. See file.h. */
#include "client/files/scripted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* In a name's value, beside a dtype: it is the class of a storage; of one that its tensors say the dtype of. */
enum { STORAGE = 256, UNTYPED = 512 };
#define NO_DTYPE TD_DTYPE_NONE /* one that is not known here */

/* ---- what a pickle makes: coats of plain data */

static int wrap(td_pickle *p, int coat, td_plain *item, td_plain **out, td_error *e)
{
    td_plain *x = item ? td_plain_new(p, TD_PLAIN_WRAPPED, e) : NULL;
    if (!x) return e->code;
    x->made = (uint8_t)coat;
    *out = x;
    return td_plain_add(p, x, item, e);
}

static int strange(const td_pickle_name *name, td_error *e)
{
    return td_fail(e, TD_E_INVALID, "the arguments of %s are not those that it takes", name->text);
}

/* OrderedDict(), or of a list of pairs. */
static int make_ordered(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    td_plain *dict = td_plain_new(p, TD_PLAIN_DICT, e);
    const td_plain *pairs = args->n == 1 && args->items[0]->kind == TD_PLAIN_LIST ? args->items[0] : NULL;
    if (dict && args->n && !pairs) return strange(name, e);
    for (uint32_t i = 0; dict && pairs && i < pairs->n; i++) {
        const td_plain *pair = pairs->items[i];
        if ((pair->kind != TD_PLAIN_LIST && pair->kind != TD_PLAIN_TUPLE) || pair->n != 2) return strange(name, e);
        if (td_plain_add(p, dict, pair->items[0], e) || td_plain_add(p, dict, pair->items[1], e)) return e->code;
    }
    return wrap(p, TD_COAT_ORDERED, dict, out, e);
}

/* A coat over its one argument, which must be of one of two kinds. */
static int make_coat(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    static const td_plain_kind kinds[][2] = {[TD_COAT_COUNTER] = {TD_PLAIN_DICT, TD_PLAIN_DICT},
                                             [TD_COAT_SET] = {TD_PLAIN_LIST, TD_PLAIN_TUPLE},
                                             [TD_COAT_SIZE] = {TD_PLAIN_TUPLE, TD_PLAIN_LIST},
                                             [TD_COAT_BYTEARRAY] = {TD_PLAIN_BYTES, TD_PLAIN_BYTES}};
    const td_plain_kind *takes = kinds[name->value];
    if (args->n != 1 || (args->items[0]->kind != takes[0] && args->items[0]->kind != takes[1])) return strange(name, e);
    return wrap(p, (int)name->value, args->items[0], out, e);
}

static int make_device(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    bool index = args->n == 2 && args->items[1]->kind == TD_PLAIN_INT;
    if ((args->n != 1 && !index) || args->items[0]->kind != TD_PLAIN_TEXT) return strange(name, e);
    td_plain *list = td_plain_new(p, TD_PLAIN_TUPLE, e);
    for (uint32_t i = 0; list && i < args->n; i++)
        if (td_plain_add(p, list, args->items[i], e)) return e->code;
    return wrap(p, TD_COAT_DEVICE, list, out, e);
}

static int make_complex(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    if (args->n != 2 || args->items[0]->kind != TD_PLAIN_FLOAT || args->items[1]->kind != TD_PLAIN_FLOAT)
        return strange(name, e);
    td_plain *x = td_plain_new(p, TD_PLAIN_COMPLEX, e);
    if (!x) return e->code;
    x->f[0] = args->items[0]->f[0], x->f[1] = args->items[1]->f[0];
    *out = x;
    return TD_OK;
}

/* Bytes, which protocol 2 writes as a text: each letter is one byte. */
static int make_bytes(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    if (args->n != 2 || args->items[0]->kind != TD_PLAIN_TEXT || !td_plain_is_text(args->items[1], "latin1"))
        return strange(name, e);
    const td_plain *from = args->items[0];
    td_plain *x = td_plain_new(p, TD_PLAIN_BYTES, e);
    char *to = x ? td_plain_text(p, from->n, e) : NULL; /* not more letters than bytes */
    if (!to) return e->code;
    const unsigned char *at = (const unsigned char *)from->text, *end = at + from->n;
    for (x->text = to; at < end; x->n++) {
        unsigned c = *at++;
        if (c > 0xc3) return td_fail(e, TD_E_INVALID, "a letter of bytes is more than 255");
        *to++ = (char)(c < 0x80 ? c : c << 6 | (*at++ & 0x3f)); /* the text was checked: one byte follows */
    }
    *out = x;
    return TD_OK;
}

/* bytes(): protocol 2 has no other way to write none. */
static int make_no_bytes(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    if (args->n) return strange(name, e);
    *out = td_plain_new(p, TD_PLAIN_BYTES, e);
    return *out ? TD_OK : e->code;
}

/* ---- tensors */

/* The dtype of a storage, by its class; TD_DTYPE_NONE: a name of something else. */
static td_dtype dtype_of(const td_pickle_name *class)
{
    return class->value & STORAGE ? (td_dtype)(class->value & ~(STORAGE | UNTYPED)) : TD_DTYPE_NONE;
}

/* Tensors of uint8 call storages by their class, those beside them that say their dtype do not. */
static bool alike(const td_stored *a, const td_stored *b)
{
    return a->dtype == b->dtype && a->numel == b->numel;
}

/* ("storage", class, key, location, elements[, view]): `view` only in old files; None in all but the oldest. */
static int storage(td_pickle *p, const td_plain *id, td_plain **out, td_error *e)
{
    td_file *t = p->context;
    td_plain **at = id->items;
    if (id->kind != TD_PLAIN_TUPLE || id->n < 5 || id->n > 6 || !td_plain_is_text(at[0], "storage") ||
        at[1]->kind != TD_PLAIN_NAME || at[2]->kind != TD_PLAIN_TEXT || at[3]->kind != TD_PLAIN_TEXT ||
        at[4]->kind != TD_PLAIN_INT || at[4]->i < 0 || strlen(at[2]->text) != at[2]->n)
        return td_fail(e, TD_E_INVALID, "a reference to a storage is none");
    if (id->n == 6 && at[5]->kind != TD_PLAIN_NONE)
        return td_fail(e, TD_E_UNSUPPORTED, "a storage is a view of another, as PyTorch before 0.4 wrote it");
    td_dtype dtype = dtype_of(at[1]->name);
    if (!td_dtype_valid(dtype))
        return td_fail(e, TD_E_UNSUPPORTED, "storage '%.40s' is a %s: this dtype is not known here", at[2]->text,
                       at[1]->name->text);
    if ((uint64_t)at[4]->i > (uint64_t)TD_DESC_BYTES / td_dtype_size(dtype))
        return td_fail(e, TD_E_INVALID, "storage '%.40s' is said to have %lld elements", at[2]->text,
                       (long long)at[4]->i);
    td_stored like = {.key = at[2]->text,
                      .location = at[3]->text,
                      .dtype = dtype,
                      .numel = (uint64_t)at[4]->i,
                      .told = TD_DTYPE_NONE};
    td_stored *s;
    HASH_FIND(hh, t->by_key, like.key, strlen(like.key), s);
    if (s && !alike(s, &like)) return td_fail(e, TD_E_INVALID, "storage '%.40s' is described in two ways", like.key);
    if (!s && td_file_add_storage(t, &like, &s, e)) return e->code;
    s->untyped |= (at[1]->name->value & UNTYPED) != 0;
    td_plain *x = td_plain_new(p, TD_PLAIN_OBJECT, e);
    if (!x) return e->code;
    x->made = TD_MADE_STORAGE, x->i = s->index;
    *out = x;
    return TD_OK;
}

static bool is_made(const td_plain *x, int made)
{
    return x->kind == TD_PLAIN_OBJECT && x->made == made;
}

static bool take_sizes(const td_plain *x, int64_t *to, uint8_t *n)
{
    if (x->kind == TD_PLAIN_WRAPPED && x->made == TD_COAT_SIZE) x = x->items[0];
    if (x->kind != TD_PLAIN_TUPLE || x->n > TD_MAX_DIMS) return false;
    *n = (uint8_t)x->n;
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->items[i]->kind != TD_PLAIN_INT) return false;
        to[i] = x->items[i]->i;
    }
    return true;
}

/* {"conj": True, "neg": True} */
static bool take_bits(const td_plain *x, td_file_tensor *t)
{
    if (x->kind == TD_PLAIN_WRAPPED) x = x->items[0];
    if (x->kind != TD_PLAIN_DICT) return false;
    for (uint32_t i = 0; i + 1 < x->n; i += 2) {
        if (x->items[i + 1]->kind != TD_PLAIN_BOOL) return false;
        if (td_plain_is_text(x->items[i], "conj")) t->conj = x->items[i + 1]->i;
        else if (td_plain_is_text(x->items[i], "neg")) t->neg = x->items[i + 1]->i;
        else return false;
    }
    return true;
}

static bool is_empty_dict(const td_plain *x)
{
    if (x->kind == TD_PLAIN_WRAPPED && x->made == TD_COAT_ORDERED) x = x->items[0];
    return x->kind == TD_PLAIN_NONE || (x->kind == TD_PLAIN_DICT && x->n == 0);
}

static const char *shown(const td_file_tensor *tensor, char *buf, size_t size)
{
    return td_shape_text(tensor->desc.ndim, tensor->desc.shape, buf, size);
}

static int check_tensor(const td_file *t, td_file_tensor *tensor, td_error *e)
{
    const td_stored *s = t->storages[tensor->storage];
    td_error why;
    char shape[128];
    td_dtype dtype = (td_dtype)tensor->desc.dtype;
    if (td_desc_check(&tensor->desc, s->numel * td_dtype_size(s->dtype), &why))
        return td_fail(e, TD_E_INVALID, "a tensor of shape %s does not lie within its storage '%.40s' of %llu elements",
                       shown(tensor, shape, sizeof shape), s->key, (unsigned long long)s->numel);
    if (tensor->requires_grad && !td_dtype_is_inexact(dtype))
        return td_fail(e, TD_E_INVALID, "a tensor of %s cannot have a gradient", td_dtype_name(dtype));
    return TD_OK;
}

/* (storage, offset, size, stride[, requires_grad, hooks[, metadata]]); of the storage's dtype if it is of none. */
static int make_tensor_of(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_dtype dtype,
                          td_plain **out, td_error *e)
{
    td_file_tensor t = {0};
    td_plain **at = args->items;
    uint8_t strides = 0;
    if (args->n < 4 || args->n == 5 || args->n > 7 || !is_made(at[0], TD_MADE_STORAGE) || at[1]->kind != TD_PLAIN_INT ||
        !take_sizes(at[2], t.desc.shape, &t.desc.ndim) || !take_sizes(at[3], t.desc.stride, &strides) ||
        strides != t.desc.ndim || (args->n > 4 && (at[4]->kind != TD_PLAIN_BOOL || !is_empty_dict(at[5]))) ||
        (args->n > 6 && !take_bits(at[6], &t)))
        return strange(name, e);
    t.storage = (uint32_t)at[0]->i;
    td_stored *s = ((td_file *)p->context)->storages[t.storage];
    if (!td_dtype_valid(dtype)) dtype = s->dtype;
    s->told = s->told == TD_DTYPE_NONE || s->told == dtype ? dtype : TD_UINT8;
    t.desc.dtype = (uint8_t)dtype;
    t.desc.offset = at[1]->i;
    t.requires_grad = args->n > 4 && at[4]->i;
    int rc = check_tensor(p->context, &t, e);
    return rc ? rc : td_file_add_tensor(p->context, &t, out, e);
}

static int make_tensor(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    return make_tensor_of(p, name, args, TD_DTYPE_NONE, out, e);
}

/* For dtypes that have no storage class of their own: (storage, offset, size, stride, requires_grad, hooks, dtype). The
 * storage is bytes, and other tensors of it may be of other dtypes. */
static int make_untyped(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    td_file *t = p->context;
    const td_plain *dtype = args->n >= 7 ? args->items[6] : NULL;
    if (!dtype || dtype->kind != TD_PLAIN_NAME || dtype->name->make) return strange(name, e);
    if (dtype->name->value == NO_DTYPE) {
        if (t->skip) return td_file_add_nothing(t, out, e);
        return td_fail(e, TD_E_UNSUPPORTED,
                       "a tensor is of %s: this dtype is not known here (skip=True, TD_LOAD_SKIP: leave such out)",
                       dtype->name->text);
    }
    if (args->n != 7 || !td_dtype_valid(dtype->name->value)) return strange(name, e);
    td_plain six = *args;
    six.n = 6;
    return make_tensor_of(p, name, &six, (td_dtype)dtype->name->value, out, e);
}

/* Bytes become what all of their tensors are, as far as they are whole elements. */
static int settle(const td_file *t, td_error *e)
{
    for (uint32_t i = 0; i < t->nstorages; i++) {
        td_stored *s = t->storages[i];
        bool one = s->told == TD_DTYPE_NONE || s->told == s->dtype;
        if (s->untyped && !one && s->numel % td_dtype_size(s->told) == 0)
            s->dtype = s->told, s->numel /= td_dtype_size(s->told);
    }
    for (uint32_t i = 0; t->swapped && i < t->ntensors; i++) {
        const td_stored *s = t->storages[t->tensors[i].storage];
        if (t->tensors[i].desc.dtype != s->dtype)
            return td_fail(e, TD_E_UNSUPPORTED,
                           "storage '%.40s' is of several dtypes, of a machine of the other byte order", s->key);
    }
    return TD_OK;
}

/* (data, requires_grad, hooks[, state]) */
static int make_parameter(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    td_file *t = p->context;
    td_plain **at = args->items;
    if (args->n == 3 && is_made(at[0], TD_MADE_NOTHING)) return td_file_add_nothing(t, out, e);
    if (args->n != 3 || !is_made(at[0], TD_MADE_TENSOR) || at[1]->kind != TD_PLAIN_BOOL || !is_empty_dict(at[2]))
        return strange(name, e);
    td_file_tensor tensor = t->tensors[at[0]->i];
    tensor.parameter = true;
    tensor.requires_grad = at[1]->i;
    int rc = check_tensor(t, &tensor, e);
    return rc ? rc : td_file_add_tensor(t, &tensor, out, e);
}

static const td_pickle_name names[] = {
    {"collections OrderedDict", make_ordered, 0},
    {"collections Counter", make_coat, TD_COAT_COUNTER},
    {"__builtin__ set", make_coat, TD_COAT_SET},
    {"builtins set", make_coat, TD_COAT_SET},
    {"__builtin__ bytes", make_no_bytes, 0},
    {"builtins bytes", make_no_bytes, 0},
    {"__builtin__ bytearray", make_coat, TD_COAT_BYTEARRAY},
    {"builtins bytearray", make_coat, TD_COAT_BYTEARRAY},
    {"__builtin__ complex", make_complex, 0},
    {"builtins complex", make_complex, 0},
    {"_codecs encode", make_bytes, 0},
    {"torch Size", make_coat, TD_COAT_SIZE},
    {"torch device", make_device, 0},
    {"torch._utils _rebuild_tensor", make_tensor, 0},
    {"torch._utils _rebuild_tensor_v2", make_tensor, 0},
    {"torch._utils _rebuild_tensor_v3", make_untyped, 0},
    {"torch._utils _rebuild_parameter", make_parameter, 0},
    {"torch DoubleStorage", NULL, STORAGE | TD_FLOAT64},
    {"torch FloatStorage", NULL, STORAGE | TD_FLOAT32},
    {"torch HalfStorage", NULL, STORAGE | TD_FLOAT16},
    {"torch BFloat16Storage", NULL, STORAGE | TD_BFLOAT16},
    {"torch LongStorage", NULL, STORAGE | TD_INT64},
    {"torch IntStorage", NULL, STORAGE | TD_INT32},
    {"torch ShortStorage", NULL, STORAGE | TD_INT16},
    {"torch CharStorage", NULL, STORAGE | TD_INT8},
    {"torch ByteStorage", NULL, STORAGE | TD_UINT8},
    {"torch BoolStorage", NULL, STORAGE | TD_BOOL},
    {"torch ComplexFloatStorage", NULL, STORAGE | TD_COMPLEX64},
    {"torch ComplexDoubleStorage", NULL, STORAGE | TD_COMPLEX128},
    {"torch.storage UntypedStorage", NULL, STORAGE | UNTYPED | TD_UINT8},
    {"torch float64", NULL, TD_FLOAT64},
    {"torch float32", NULL, TD_FLOAT32},
    {"torch float16", NULL, TD_FLOAT16},
    {"torch bfloat16", NULL, TD_BFLOAT16},
    {"torch int64", NULL, TD_INT64},
    {"torch int32", NULL, TD_INT32},
    {"torch int16", NULL, TD_INT16},
    {"torch int8", NULL, TD_INT8},
    {"torch uint8", NULL, TD_UINT8},
    {"torch bool", NULL, TD_BOOL},
    {"torch complex64", NULL, TD_COMPLEX64},
    {"torch complex128", NULL, TD_COMPLEX128},
    {"torch uint16", NULL, TD_UINT16},
    {"torch uint32", NULL, TD_UINT32},
    {"torch uint64", NULL, TD_UINT64},
    {"torch float8_e4m3fn", NULL, NO_DTYPE},
    {"torch float8_e4m3fnuz", NULL, NO_DTYPE},
    {"torch float8_e5m2", NULL, NO_DTYPE},
    {"torch float8_e5m2fnuz", NULL, NO_DTYPE},
    {0},
};

static void knows_torch(td_file *t)
{
    t->pickle.names = names;
    t->pickle.persistent = storage;
    t->pickle.context = t;
}

/* ---- the archive */

static bool is_data(const char *name)
{
    const char *slash = strchr(name, '/');
    return slash && strcmp(slash + 1, "data.pkl") == 0;
}

bool td_is_archive(const td_zip *z)
{
    uint32_t i = 0;
    while (i < z->n && !is_data(z->entries[i].name)) i++;
    return i < z->n;
}

/* Of torch.export.save(), of any version. */
static bool is_exported(const td_zip *z)
{
    static const char *const ends[] = {"archive_format", "serialized_exported_program.json"};
    for (uint32_t i = 0; i < z->n; i++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            size_t n = strlen(z->entries[i].name), m = strlen(ends[k]);
            if (n >= m && strcmp(z->entries[i].name + n - m, ends[k]) == 0) return true;
        }
    return false;
}

/* The one folder that all lies in, from "FOLDER/data.pkl". */
const td_zip_entry *td_archive_data(const td_zip *z, td_error *e)
{
    const td_zip_entry *found = NULL;
    for (uint32_t i = 0; i < z->n; i++) {
        if (!is_data(z->entries[i].name)) continue;
        if (found) {
            td_fail(e, TD_E_INVALID, "the zip file holds two archives, '%.80s' and '%.80s'", found->name,
                    z->entries[i].name);
            return NULL;
        }
        found = &z->entries[i];
    }
    if (!found && is_exported(z))
        td_fail(e, TD_E_UNSUPPORTED,
                "this is a program, which torch.export.save() wrote (.pt2): torch.export.load() reads it, and "
                "torch.save() writes its state_dict; no data.pkl is in it");
    else if (!found) td_fail(e, TD_E_UNSUPPORTED, "the zip file is none that torch.save() wrote: it has no data.pkl");
    return found;
}

const td_zip_entry *td_archive_beside(const td_zip *z, const td_zip_entry *data, const char *folder, const char *name)
{
    char path[1024];
    int stem = (int)(strchr(data->name, '/') - data->name);
    int n = snprintf(path, sizeof path, "%.*s/%s%s", stem, data->name, folder, name);
    return n > 0 && (size_t)n < sizeof path ? td_zip_find(z, path) : NULL;
}

bool td_archive_has_programs(const td_zip *z)
{
    static const char inside[] = "/programs/";
    td_error e;
    const td_zip_entry *data = td_archive_data(z, &e);
    size_t stem = data ? (size_t)(strchr(data->name, '/') - data->name) : 0;
    for (uint32_t i = 0; data && i < z->n; i++)
        if (strncmp(z->entries[i].name, data->name, stem) == 0 &&
            strncmp(z->entries[i].name + stem, inside, sizeof inside - 1) == 0)
            return true;
    return false;
}

static int read_order(td_file *t, const td_zip *z, const td_zip_entry *data, td_error *e)
{
    const td_zip_entry *en = td_archive_beside(z, data, "", "byteorder");
    char text[8] = {0};
    uint64_t at;
    if (!en) return TD_OK;
    int rc = td_zip_place(z, en, &at, e);
    if (!rc && en->size < sizeof text) rc = td_source_read(z->source, at, text, (size_t)en->size, e);
    if (rc) return rc;
    t->swapped = strcmp(text, "big") == 0;
    return t->swapped || strcmp(text, "little") == 0
               ? TD_OK
               : td_fail(e, TD_E_INVALID, "its byteorder is neither little nor big");
}

/* The bytes of storages from `first` on. */
static int find_records(td_file *t, const td_zip *z, const td_zip_entry *data, const char *folder, uint32_t first,
                        td_error *e)
{
    for (uint32_t i = first; i < t->nstorages; i++) {
        td_stored *s = t->storages[i];
        const td_zip_entry *en = td_archive_beside(z, data, folder, s->key);
        uint64_t bytes = s->numel * td_dtype_size(s->dtype);
        if (!en) return td_fail(e, TD_E_INVALID, "the bytes of storage '%.40s' are missing", s->key);
        if (en->size != bytes)
            return td_fail(e, TD_E_INVALID, "storage '%.40s' should have %llu bytes, and %llu are there", s->key,
                           (unsigned long long)bytes, (unsigned long long)en->size);
        int rc = td_zip_place(z, en, &s->at, e);
        if (rc) return rc;
        s->crc = en->crc;
        s->has_crc = s->found = true;
    }
    return TD_OK;
}

static int read_pickle(td_file *t, const td_zip *z, const td_zip_entry *en, const char *what, td_plain **out,
                       td_error *e)
{
    uint64_t at;
    td_window in;
    int rc = td_zip_place(z, en, &at, e);
    if (rc) return rc;
    td_window_init(&in, &t->source, at, en->size);
    if ((rc = td_pickle_run(&t->pickle, &in, what, out, e))) return rc;
    if (td_window_left(&in)) return td_fail(e, TD_E_INVALID, "%s goes on behind its end", what);
    return in.crc == en->crc ? TD_OK : td_fail(e, TD_E_INVALID, "%s is damaged: its checksum is another", what);
}

/* The tensors that the code of a program names; their storages have numbers of their own. */
static int read_constants(td_file *t, const td_zip *z, const td_zip_entry *data, const td_zip_entry *en, td_error *e)
{
    t->pickle.more = td_scripted_class;
    int rc = read_pickle(t, z, en, "constants.pkl", &t->constants, e);
    if (!rc && t->constants->kind != TD_PLAIN_TUPLE)
        rc = td_fail(e, TD_E_INVALID, "constants.pkl is %s, and no tuple", td_plain_kind_name(t->constants));
    if (!rc) rc = find_records(t, z, data, "constants/", 0, e);
    HASH_CLEAR(hh, t->by_key);
    return rc;
}

int td_read_archive(td_file *t, td_zip *z, td_error *e)
{
    const td_zip_entry *data = td_archive_data(z, e),
                       *constants = data ? td_archive_beside(z, data, "", "constants.pkl") : NULL;
    knows_torch(t);
    if (!data) return e->code;
    if (constants && !t->programs)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "this is a program, which torch.jit.save() wrote, and no file of tensors: jit.load() "
                       "(td_program_load()) reads it");
    t->every_name = constants && td_archive_has_programs(z);
    int rc = read_order(t, z, data, e);
    if (!rc && constants) rc = read_constants(t, z, data, constants, e);
    uint32_t first = t->nstorages;
    if (!rc) rc = read_pickle(t, z, data, "data.pkl", &t->root, e);
    if (!rc) rc = find_records(t, z, data, "data/", first, e);
    if (!rc) rc = settle(t, e);
    return rc || !constants ? rc : td_scripted_name(t, e);
}

/* ---- five pickles in a row */

static int check_system(td_file *t, const td_plain *x, td_error *e)
{
    if (x->kind != TD_PLAIN_DICT) return td_fail(e, TD_E_INVALID, "the file does not say what machine wrote it");
    for (uint32_t i = 0; i + 1 < x->n; i += 2)
        if (td_plain_is_text(x->items[i], "little_endian")) t->swapped = !x->items[i + 1]->i;
    return TD_OK;
}

/* For each key, in this order: how many elements, and the bytes. */
static int find_bytes(td_file *t, const td_plain *keys, uint64_t at, td_error *e)
{
    for (uint32_t i = 0; i < keys->n; i++) {
        const td_plain *key = keys->items[i];
        td_stored *s = NULL;
        if (key->kind == TD_PLAIN_TEXT) HASH_FIND(hh, t->by_key, key->text, key->n, s);
        if (!s || s->found) return td_fail(e, TD_E_INVALID, "the list of storages does not fit the tensors");
        unsigned char count[8];
        int rc = td_source_read(&t->source, at, count, sizeof count, e);
        uint64_t n = 0, bytes = s->numel * td_dtype_size(s->dtype);
        for (int k = 8; k-- > 0;) n = n << 8 | count[t->swapped ? 7 - k : k];
        if (rc) return rc;
        if (n != s->numel)
            return td_fail(e, TD_E_INVALID, "storage '%.40s' should have %llu elements, and %llu are there", s->key,
                           (unsigned long long)s->numel, (unsigned long long)n);
        at += sizeof count;
        if (bytes > t->source.size - at)
            return td_fail(e, TD_E_INVALID, "the file ends within storage '%.40s'", s->key);
        s->at = at;
        s->found = true;
        at += bytes;
    }
    return keys->n == t->nstorages ? TD_OK : td_fail(e, TD_E_INVALID, "the list of storages does not fit the tensors");
}

int td_read_legacy(td_file *t, td_error *e)
{
    static const char *const parts[] = {"the first pickle", "the version", "the machine's sizes", "the object",
                                        "the storages"};
    td_plain *part[5];
    td_window in;
    knows_torch(t);
    td_window_init(&in, &t->source, 0, t->source.size);
    for (int i = 0; i < 5; i++) {
        int rc = td_pickle_run(&t->pickle, &in, parts[i], &part[i], e);
        if (!rc && i == 0 && !is_made(part[0], TD_MADE_BIG_NUMBER))
            rc = td_fail(e, TD_E_UNSUPPORTED,
                         "this is a pickle that torch.save() did not write: it is not read, as that may run code");
        if (!rc && i == 1 && (part[1]->kind != TD_PLAIN_INT || part[1]->i != 1001))
            rc = td_fail(e, TD_E_UNSUPPORTED, "the file is of a version other than 1001");
        if (!rc && i == 2) rc = check_system(t, part[2], e);
        if (rc) return rc;
    }
    t->root = part[3];
    if (part[4]->kind != TD_PLAIN_LIST) return td_fail(e, TD_E_INVALID, "the file has no list of storages");
    int rc = find_bytes(t, part[4], td_window_place(&in), e);
    return rc ? rc : settle(t, e);
}
