/* Writes files of PyTorch. Opcodes are those of pickle's protocol 2; what a name makes is what torch.c reads. */
#include "client/files/write.h"

#include "client/files/zipped.h"
#include "proto/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_PATH = 320 };

/* A long text that the machine remembers, by where the note has it. */
typedef struct kept_text {
    UT_hash_handle hh;
    const char *text;
    uint32_t place;
} kept_text;

typedef struct pickling {
    const td_out *out;
    td_note note;
    td_bytes made;
    uint32_t *built; /* of each tensor one more than the place under which the machine remembers it; 0: it does not */
    kept_text *texts;
    uint32_t places; /* that are taken; readers want no gaps */
    td_error *e;
} pickling;

/* ---- opcodes */

static bool put(pickling *p, const void *bytes, size_t n)
{
    return td_bytes_put(&p->made, bytes, n, "a pickle", p->e) == TD_OK;
}

static bool op(pickling *p, char code)
{
    return put(p, &code, 1);
}

/* An opcode and a number of so many bytes. */
static bool op_number(pickling *p, char code, uint64_t v, int bytes)
{
    unsigned char b[9] = {(unsigned char)code};
    td_put_le(b + 1, v, bytes);
    return put(p, b, 1 + (size_t)bytes);
}

static bool put_int(pickling *p, int64_t v)
{
    if (v >= 0 && v <= UINT8_MAX) return op_number(p, 'K', (uint64_t)v, 1);
    if (v >= 0 && v <= UINT16_MAX) return op_number(p, 'M', (uint64_t)v, 2);
    if (v >= INT32_MIN && v <= INT32_MAX) return op_number(p, 'J', (uint64_t)v, 4);
    return op_number(p, '\x8a', 8, 1) && put(p, &v, sizeof v);
}

/* A number of more than 64 bits, from its digits: two's complement, the low byte first. */
static bool put_digits(pickling *p, const char *text, size_t n)
{
    unsigned char b[UINT8_MAX] = {0};
    bool minus = n && *text == '-', good = n > minus;
    for (size_t i = minus; good && i < n; i++) {
        unsigned carry = (unsigned char)text[i] - (unsigned)'0';
        good = carry <= 9;
        for (size_t k = 0; good && k < sizeof b; k++, carry >>= 8) b[k] = (unsigned char)(carry += 10U * b[k]);
        good = good && !carry;
    }
    for (size_t k = 0, carry = 1; minus && k < sizeof b; k++, carry >>= 8)
        b[k] = (unsigned char)(carry += b[k] ^ 0xffU);
    if (!good || (b[sizeof b - 1] >> 7) != minus)
        return td_fail(p->e, TD_E_UNSUPPORTED, "a number has more than 2,039 bits, which torch.load() does not read"),
               false;
    size_t length = sizeof b; /* the sign stays where the last byte that says nothing else is left out */
    while (length > 1 && b[length - 1] == (minus ? 0xff : 0) && (b[length - 2] >> 7) == minus) length--;
    return op_number(p, '\x8a', length, 1) && put(p, b, length);
}

static bool put_text(pickling *p, const char *text, size_t n)
{
    if (n > INT32_MAX) return td_fail(p->e, TD_E_UNSUPPORTED, "a text has more than 2 GiB"), false;
    return op_number(p, 'X', n, 4) && put(p, text, n);
}

static bool put_word(pickling *p, const char *word)
{
    return put_text(p, word, strlen(word));
}

static bool put_float(pickling *p, double v)
{
    uint64_t bits;
    unsigned char b[9] = {'G'};
    memcpy(&bits, &v, sizeof bits);
    for (int i = 0; i < 8; i++) b[1 + i] = (unsigned char)(bits >> (56 - 8 * i));
    return put(p, b, sizeof b);
}

static bool put_bool(pickling *p, bool v)
{
    return op(p, v ? '\x88' : '\x89');
}

/* "module\nname\n" */
static bool put_name(pickling *p, const char *name)
{
    return op(p, 'c') && put(p, name, strlen(name));
}

static bool put_ordered(pickling *p)
{
    return put_name(p, "collections\nOrderedDict\n") && op(p, ')') && op(p, 'R');
}

/* Bytes, which protocol 2 has no opcode for: a text with a letter for each. */
static bool put_bytes(pickling *p, const char *bytes, size_t n)
{
    size_t more = 0;
    for (size_t i = 0; i < n; i++) more += (unsigned char)bytes[i] >> 7;
    bool good = put_name(p, "_codecs\nencode\n") && op_number(p, 'X', n + more, 4);
    for (size_t i = 0; good && i < n; i++) {
        unsigned char c = (unsigned char)bytes[i], two[] = {(unsigned char)(0xc0 | c >> 6), 0x80 | (c & 0x3f)};
        good = c < 0x80 ? put(p, &c, 1) : put(p, two, 2);
    }
    return good && put_word(p, "latin1") && op(p, '\x86') && op(p, 'R');
}

/* ---- tensors */

static const char *storage_class(td_dtype dtype)
{
    switch (dtype) {
    case TD_FLOAT64: return "torch\nDoubleStorage\n";
    case TD_FLOAT32: return "torch\nFloatStorage\n";
    case TD_FLOAT16: return "torch\nHalfStorage\n";
    case TD_BFLOAT16: return "torch\nBFloat16Storage\n";
    case TD_INT64: return "torch\nLongStorage\n";
    case TD_INT32: return "torch\nIntStorage\n";
    case TD_INT16: return "torch\nShortStorage\n";
    case TD_INT8: return "torch\nCharStorage\n";
    case TD_UINT8: return "torch\nByteStorage\n";
    case TD_BOOL: return "torch\nBoolStorage\n";
    case TD_COMPLEX64: return "torch\nComplexFloatStorage\n";
    case TD_COMPLEX128: return "torch\nComplexDoubleStorage\n";
    default: return NULL;
    }
}

/* Those that came after the classes of storages: bytes there, and each tensor says its dtype. */
static const char *late_dtype(td_dtype dtype)
{
    switch (dtype) {
    case TD_UINT16: return "torch\nuint16\n";
    case TD_UINT32: return "torch\nuint32\n";
    case TD_UINT64: return "torch\nuint64\n";
    default: return NULL;
    }
}

static bool put_sizes(pickling *p, int n, const int64_t *sizes)
{
    bool good = op(p, '(');
    for (int i = 0; good && i < n; i++) good = put_int(p, sizes[i]);
    return good && op(p, 't');
}

static bool put_storage(pickling *p, uint32_t k)
{
    const td_out_storage *s = &p->out->storages[k];
    const char *class = storage_class(s->dtype);
    int64_t numel = (int64_t)s->numel;
    char key[16];
    snprintf(key, sizeof key, "%" PRIu32, k);
    if (!class && !late_dtype(s->dtype))
        return td_fail(p->e, TD_E_UNSUPPORTED, "PyTorch has no %s", td_dtype_name(s->dtype)), false;
    if (!class) class = "torch.storage\nUntypedStorage\n", numel *= (int64_t)td_dtype_size(s->dtype);
    return op(p, '(') && put_word(p, "storage") && put_name(p, class) && put_word(p, key) && put_word(p, "cpu") &&
           put_int(p, numel) && op(p, 't') && op(p, 'Q');
}

static bool put_data(pickling *p, const td_out_tensor *t, bool requires_grad)
{
    const char *late = late_dtype(p->out->storages[t->storage].dtype);
    return put_name(p, late ? "torch._utils\n_rebuild_tensor_v3\n" : "torch._utils\n_rebuild_tensor_v2\n") &&
           op(p, '(') && put_storage(p, t->storage) && put_int(p, t->desc.offset) &&
           put_sizes(p, t->desc.ndim, t->desc.shape) && put_sizes(p, t->desc.ndim, t->desc.stride) &&
           put_bool(p, requires_grad) && put_ordered(p) && (!late || put_name(p, late)) && op(p, 't') && op(p, 'R');
}

static bool put_parameter(pickling *p, const td_out_tensor *t)
{
    return put_name(p, "torch._utils\n_rebuild_parameter\n") && put_data(p, t, false) &&
           put_bool(p, t->requires_grad) && put_ordered(p) && op(p, '\x87') && op(p, 'R');
}

/* Remember what is on top under this place, or recall what was. */
static bool put_place(pickling *p, uint32_t k, bool again)
{
    bool few = k <= UINT8_MAX;
    return op_number(p, again ? (few ? 'h' : 'j') : (few ? 'q' : 'r'), k, few ? 1 : 4);
}

/* The second time it is the same object. */
static bool put_tensor(pickling *p, int64_t k, bool parameter)
{
    if (k >= p->out->ntensors)
        return td_fail(p->e, TD_E_INVALID, "the tree holds tensor %lld of %u", (long long)k, p->out->ntensors), false;
    const td_out_tensor *t = &p->out->tensors[k];
    bool again = p->built[k];
    if (!again && !(parameter ? put_parameter(p, t) : put_data(p, t, t->requires_grad))) return false;
    if (!again) p->built[k] = ++p->places;
    return put_place(p, p->built[k] - 1, again);
}

/* ---- the tree */

static bool put_value(pickling *p, int depth);

static bool put_items(pickling *p, int64_t n, int depth)
{
    bool good = true;
    for (; good && n > 0; n--) good = put_value(p, depth + 1);
    return good;
}

static bool put_pairs(pickling *p, int64_t n, int depth)
{
    return op(p, '(') && put_items(p, n, depth) && put_items(p, n, depth) && op(p, 'u');
}

/* The next step, which is of this kind; its count. */
static bool take(pickling *p, char kind, td_note_step *out)
{
    if (td_note_next(&p->note, out, p->e)) return false;
    return out->kind == kind || (td_fail(p->e, TD_E_INVALID, "the tree is none that a binding packs"), false);
}

/* A dict with a coat, and what is set on it: a state dict's _metadata. */
static bool put_ordered_dict(pickling *p, int depth)
{
    td_note_step s;
    if (!put_ordered(p) || !take(p, 'd', &s) || !put_pairs(p, s.n, depth + 1) || !take(p, 'd', &s)) return false;
    return s.n == 0 || (op(p, '}') && put_pairs(p, s.n, depth) && op(p, 'b'));
}

static bool put_dtype(pickling *p)
{
    td_note_step s;
    char name[64];
    if (!take(p, 's', &s)) return false;
    snprintf(name, sizeof name, "torch\n%.*s\n", (int)(s.n < 32 ? s.n : 32), s.text);
    return put_name(p, name);
}

static bool put_device(pickling *p, int depth)
{
    td_note_step s;
    return put_name(p, "torch\ndevice\n") && take(p, 't', &s) && op(p, '(') && put_items(p, s.n, depth) && op(p, 't') &&
           op(p, 'R');
}

/* An object of a class of the code beside it (torchscript.h), and its attributes. Trees come from others, too: what is
 * no name would go on as opcodes. */
static bool put_module(pickling *p, int depth)
{
    static const char word[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    td_note_step s;
    char class[33], name[64];
    if (!take(p, 's', &s)) return false;
    snprintf(class, sizeof class, "%.*s", (int)(s.n < 32 ? s.n : 32), s.text);
    if (!p->out->scripted || s.n > 32 || strspn(class, word) != (size_t)s.n)
        return td_fail(p->e, TD_E_INVALID, "a tree has an object of a class '%s', which is none", class) == TD_OK;
    snprintf(name, sizeof name, "__torch__\n%s\n", class);
    return put_name(p, name) && op(p, ')') && op(p, '\x81') && put_value(p, depth) && op(p, 'b');
}

/* What share/_codec.py takes apart: its kind, then the parts. */
static bool put_object(pickling *p, int depth)
{
    static const struct {
        const char *kind, *name;
    } coats[] = {{"set", "__builtin__\nset\n"},
                 {"Counter", "collections\nCounter\n"},
                 {"Size", "torch\nSize\n"},
                 {"bytearray", "__builtin__\nbytearray\n"}};
    td_note_step parts, kind, x;
    char text[32];
    if (!take(p, 't', &parts) || !take(p, 's', &kind)) return false;
    snprintf(text, sizeof text, "%.*s", (int)(kind.n < 31 ? kind.n : 31), kind.text);
    if (strcmp(text, "Parameter") == 0) return take(p, 'x', &x) && put_tensor(p, x.n, true);
    if (strcmp(text, "OrderedDict") == 0) return put_ordered_dict(p, depth);
    if (strcmp(text, "Module") == 0) return put_module(p, depth);
    if (strcmp(text, "dtype") == 0) return put_dtype(p);
    if (strcmp(text, "device") == 0) return put_device(p, depth);
    for (size_t i = 0; i < sizeof coats / sizeof *coats; i++)
        if (strcmp(text, coats[i].kind) == 0)
            return put_name(p, coats[i].name) && put_value(p, depth + 1) && op(p, '\x85') && op(p, 'R');
    return td_fail(p->e, TD_E_TYPE, "a file of PyTorch does not hold a %s", text), false;
}

static bool put_complex(pickling *p, const double f[2])
{
    return put_name(p, "__builtin__\ncomplex\n") && put_float(p, f[0]) && put_float(p, f[1]) && op(p, '\x86') &&
           op(p, 'R');
}

/* A text, bytes or digits; the second time a long one is the same object, too. */
static bool put_step(pickling *p, const td_note_step *s)
{
    size_t n = (size_t)s->n;
    kept_text *x = NULL;
    if (n >= TD_LONG_TEXT) HASH_FIND_PTR(p->texts, &s->text, x);
    if (x) return put_place(p, x->place, true);
    if (!(s->kind == 's' ? put_text : s->kind == 'b' ? put_bytes : put_digits)(p, s->text, n)) return false;
    if (n < TD_LONG_TEXT) return true;
    if (!(x = calloc(1, sizeof *x))) return td_no_memory(p->e, "for a pickle") == TD_OK;
    x->text = s->text;
    x->place = p->places++;
    HASH_ADD_PTR(p->texts, text, x);
    if (TD_HASHED(x)) return put_place(p, x->place, false);
    free(x);
    return td_no_memory(p->e, "for a pickle") == TD_OK;
}

static void drop_texts(pickling *p)
{
    kept_text *x, *next;
    HASH_ITER(hh, p->texts, x, next)
    {
        HASH_DEL(p->texts, x);
        free(x);
    }
}

static bool put_value(pickling *p, int depth)
{
    td_note_step s;
    if (depth > TD_TREE_DEEPEST)
        return td_fail(p->e, TD_E_INVALID, "the tree is nested deeper than %d, or holds itself", TD_TREE_DEEPEST),
               false;
    if (td_note_next(&p->note, &s, p->e)) return false;
    switch (s.kind) {
    case 'N': return op(p, 'N');
    case 'T':
    case 'F': return put_bool(p, s.kind == 'T');
    case 'i': return put_int(p, s.n);
    case 'I':
    case 's':
    case 'b': return put_step(p, &s);
    case 'f': return put_float(p, s.f[0]);
    case 'c': return put_complex(p, s.f);
    case 'x': return put_tensor(p, s.n, false);
    case 'l': return op(p, ']') && op(p, '(') && put_items(p, s.n, depth) && op(p, 'e');
    case 't': return s.n ? op(p, '(') && put_items(p, s.n, depth) && op(p, 't') : op(p, ')');
    case 'd': return op(p, '}') && put_pairs(p, s.n, depth);
    default: return put_object(p, depth);
    }
}

static int make_pickle(const td_out *out, td_bytes *made, td_error *e)
{
    pickling p = {.out = out, .note = out->tree, .e = e};
    p.built = calloc((size_t)out->ntensors + 1, sizeof *p.built);
    bool good = p.built || (td_no_memory(e, "for %u tensors", out->ntensors), false);
    good = good && put(&p, "\x80\2", 2) && put_value(&p, 0) && op(&p, '.');
    free(p.built);
    drop_texts(&p);
    *made = p.made;
    return good ? TD_OK : e->code;
}

/* ---- the archive */

typedef struct archive {
    td_zipped zip;
    const char *folder;
    uint64_t id[2]; /* of what is in it: two sums over names and checksums */
    td_error *e;
} archive;

static const char *path_of(const archive *a, const char *name, char path[LONG_PATH])
{
    snprintf(path, LONG_PATH, "%.255s/%s", a->folder, name);
    return path;
}

static void count(archive *a, const char *name)
{
    const td_zipped_entry *en = &a->zip.entries[a->zip.n - 1];
    for (int k = 0; k < 2; k++) {
        uint64_t h = a->id[k] + en->crc + en->size;
        for (const char *c = name; *c; c++) h = (h ^ (unsigned char)*c) * (k ? 0x9e3779b97f4a7c15U : 0x100000001b3U);
        a->id[k] = h;
    }
}

static int add(archive *a, const char *name, const void *bytes, uint64_t n)
{
    char path[LONG_PATH];
    int rc = td_zipped_entry_of(&a->zip, path_of(a, name, path), bytes, (size_t)n, a->e);
    if (!rc) count(a, name);
    return rc;
}

static int add_text(archive *a, const char *name, const char *text)
{
    return add(a, name, text, strlen(text));
}

static int add_storages(archive *a, const td_out *out)
{
    int rc = TD_OK;
    for (uint32_t i = 0; !rc && i < out->nstorages; i++) {
        const td_out_storage *s = &out->storages[i];
        char name[32];
        snprintf(name, sizeof name, "data/%" PRIu32, i);
        rc = add(a, name, s->bytes, s->numel * td_dtype_size(s->dtype));
    }
    return rc;
}

int td_write_torch(td_sink *to, const char *folder, const td_out *out, td_error *e)
{
    archive a = {.zip = {.to = to}, .folder = folder, .e = e};
    td_bytes pickle = {0};
    char id[48];
    int rc = make_pickle(out, &pickle, e);
    if (!rc) rc = add(&a, "data.pkl", pickle.at, pickle.n);
    if (!rc) rc = add_text(&a, ".format_version", "1");
    if (!rc) rc = add_text(&a, ".storage_alignment", "64");
    if (!rc) rc = add_text(&a, "byteorder", "little");
    if (!rc) rc = add_storages(&a, out);
    for (uint32_t i = 0; !rc && i < out->nrecords; i++)
        rc = add(&a, out->records[i].name, out->records[i].bytes, out->records[i].n);
    if (!rc) rc = add_text(&a, "version", out->scripted ? "10\n" : "3\n");
    snprintf(id, sizeof id, "%020" PRIu64 "%020" PRIu64, a.id[0], a.id[1]);
    if (!rc) rc = add_text(&a, ".data/serialization_id", id);
    if (!rc) rc = td_zipped_finish(&a.zip, e);
    td_zipped_close(&a.zip);
    free(pickle.at);
    return rc;
}
