/* Writes safetensors: a dict of names and tensors as others read it; of anything else the tree goes into the header's
 * metadata, where tensors stand by name. See safetensors.c. */
#include "client/files/json.h"
#include "client/files/write.h"
#include "proto/base/hash.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_PATH = 1 << 14, LONG_HEADER = 100 * 1000 * 1000 };
static const char what[] = "the header of a file";

typedef struct named {
    UT_hash_handle hh;
    char *name;
    size_t length;
    uint32_t tensor;
} named;

typedef struct heading {
    const td_out *out;
    td_note note;
    td_bytes tree, header;
    named **names, *by_name; /* in the order of the tree */
    uint32_t n, room;
    uint64_t at;
    char path[LONG_PATH];
    size_t length; /* of the path */
    td_error *e;
} heading;

static const char *code_of(td_dtype dtype)
{
    switch (dtype) {
    case TD_FLOAT64:
    case TD_COMPLEX128: return "F64"; /* pairs of them */
    case TD_FLOAT32:
    case TD_COMPLEX64: return "F32";
    case TD_FLOAT16: return "F16";
    case TD_BFLOAT16: return "BF16";
    case TD_INT64: return "I64";
    case TD_INT32: return "I32";
    case TD_INT16: return "I16";
    case TD_INT8: return "I8";
    case TD_UINT8: return "U8";
    case TD_UINT16: return "U16";
    case TD_UINT32: return "U32";
    case TD_UINT64: return "U64";
    case TD_BOOL: return "BOOL";
    default: return NULL;
    }
}

/* ---- names */

static bool add_name(heading *h, const char *name, size_t length, int64_t tensor)
{
    if (tensor >= h->out->ntensors)
        return td_fail(h->e, TD_E_INVALID, "the tree holds tensor %lld of %u", (long long)tensor, h->out->ntensors),
               false;
    if (memchr(name, 0, length))
        return td_fail(h->e, TD_E_INVALID,
                       "the name of a tensor holds a zero byte, behind '%.80s': in many readers a name ends there",
                       name),
               false;
    if (h->n == h->room) {
        uint32_t room = h->room ? 2 * h->room : 64;
        named **more = realloc(h->names, room * sizeof *more);
        if (!more) return td_no_memory(h->e, "for %s", what), false;
        h->names = more;
        h->room = room;
    }
    named *x = calloc(1, sizeof *x), *found = NULL;
    if (!x || !(x->name = malloc(length + 1))) return free(x), td_no_memory(h->e, "for %s", what), false;
    memcpy(x->name, name, length);
    x->length = length;
    x->tensor = (uint32_t)tensor;
    HASH_FIND(hh, h->by_name, x->name, length, found);
    if (!found) HASH_ADD_KEYPTR(hh, h->by_name, x->name, length, x);
    if (found || !TD_HASHED(x)) {
        free(x->name);
        free(x);
        return found ? td_fail(h->e, TD_E_INVALID, "'%.80s' is there twice", name),
               false : (td_no_memory(h->e, "for %s", what), false);
    }
    h->names[h->n++] = x;
    return true;
}

static bool is_metadata(const char *name, size_t length)
{
    static const char metadata[] = "__metadata__";
    return length == sizeof metadata - 1 && memcmp(name, metadata, length) == 0;
}

static bool is_taken(const heading *h, const char *name, size_t length)
{
    named *found;
    HASH_FIND(hh, h->by_name, name, length, found);
    return found || is_metadata(name, length);
}

/* A place in the tree, and as many underscores as it takes to be its own. */
static bool name_tensor(heading *h, int64_t tensor)
{
    char name[LONG_PATH + 64];
    size_t n = h->length ? h->length : 6;
    memcpy(name, h->length ? h->path : "tensor", n);
    while (is_taken(h, name, n) && n < sizeof name) name[n++] = '_';
    return add_name(h, name, n, tensor);
}

/* One step down; the length to come back to. */
static size_t go_down(heading *h, const char *part, size_t n)
{
    size_t was = h->length;
    if (was && was < LONG_PATH) h->path[h->length++] = '.';
    if (n > LONG_PATH - h->length)
        for (n = LONG_PATH - h->length; n && ((unsigned char)part[n] & 0xc0) == 0x80;) n--; /* no letter is cut */
    memcpy(h->path + h->length, part, n);
    h->length += n;
    return was;
}

static size_t go_to_key(heading *h, const td_note_step *key, int64_t i)
{
    char text[40];
    if (key && (key->kind == 's' || key->kind == 'I')) return go_down(h, key->text, (size_t)key->n);
    if (!key || key->kind == 'i') snprintf(text, sizeof text, "%lld", (long long)(key ? key->n : i));
    else if (key->kind == 'f') snprintf(text, sizeof text, "%g", key->f[0]);
    else snprintf(text, sizeof text, "%s", key->kind == 'N' ? "None" : key->kind == 'T' ? "True" : "False");
    return go_down(h, text, strlen(text));
}

/* ---- the tree */

static bool put(heading *h, const char *text)
{
    return td_bytes_put(&h->tree, text, strlen(text), what, h->e) == TD_OK;
}

static bool put_text(heading *h, const char *text, size_t n)
{
    return td_json_put_text(&h->tree, text, n, h->e) == TD_OK;
}

static bool put_number(heading *h, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)v);
    return put(h, text);
}

static bool put_float(heading *h, double v)
{
    if (isfinite(v)) return td_json_put_float(&h->tree, v, h->e) == TD_OK;
    return put(h, isnan(v) ? "{\"float\":\"nan\"}" : v < 0 ? "{\"float\":\"-inf\"}" : "{\"float\":\"inf\"}");
}

static bool put_tensor(heading *h, int64_t tensor)
{
    if (!name_tensor(h, tensor)) return false;
    const named *x = h->names[h->n - 1];
    return put(h, "{\"tensor\":") && put_text(h, x->name, x->length) && put(h, ",\"dtype\":\"") &&
           put(h, td_dtype_name((td_dtype)h->out->tensors[tensor].desc.dtype)) && put(h, "\"}");
}

static bool refuse(heading *h, const char *kind, int n)
{
    return td_fail(h->e, TD_E_TYPE, "a file of safetensors does not hold %.*s", n, kind), false;
}

static bool put_value(heading *h, int depth);

static bool put_list(heading *h, int64_t n, int depth)
{
    bool good = put(h, "[");
    for (int64_t i = 0; good && i < n; i++) {
        size_t was = go_to_key(h, NULL, i);
        good = (i == 0 || put(h, ",")) && put_value(h, depth + 1);
        h->length = was;
    }
    return good && put(h, "]");
}

static bool put_key(heading *h, const td_note_step *key)
{
    switch (key->kind) {
    case 's': return put_text(h, key->text, (size_t)key->n);
    case 'i': return put_number(h, key->n);
    case 'I': return td_bytes_put(&h->tree, key->text, (size_t)key->n, what, h->e) == TD_OK;
    case 'f': return put_float(h, key->f[0]);
    case 'N': return put(h, "null");
    case 'T':
    case 'F': return put(h, key->kind == 'T' ? "true" : "false");
    default: return refuse(h, "such keys of dicts", 64);
    }
}

static bool put_dict(heading *h, int64_t n, int depth)
{
    bool good = put(h, "{\"dict\":[");
    for (int64_t i = 0; good && i < n; i++) {
        td_note_step key;
        if (td_note_next(&h->note, &key, h->e)) return false;
        good = put(h, i ? ",[" : "[") && put_key(h, &key) && put(h, ",");
        size_t was = go_to_key(h, &key, i);
        good = good && put_value(h, depth + 1) && put(h, "]");
        h->length = was;
    }
    return good && put(h, "]}");
}

static bool put_value(heading *h, int depth)
{
    td_note_step s;
    if (depth > TD_TREE_DEEPEST)
        return td_fail(h->e, TD_E_INVALID, "the tree is nested deeper than %d, or holds itself", TD_TREE_DEEPEST),
               false;
    if (td_note_plain(&h->note, &s, h->e)) return false;
    switch (s.kind) {
    case 'x': return put_tensor(h, s.n);
    case 'l': return put_list(h, s.n, depth);
    case 't': return put(h, "{\"tuple\":") && put_list(h, s.n, depth) && put(h, "}");
    case 'd': return put_dict(h, s.n, depth) && !(s.more && td_note_skip(&h->note, h->e));
    case 'm': return refuse(h, s.text, (int)(s.n < 64 ? s.n : 64));
    case 'b': return refuse(h, "bytes", 64);
    case 'c': return refuse(h, "complex numbers", 64);
    default: return put_key(h, &s);
    }
}

/* Is it a dict of names and tensors that others read? Then these are the names. */
static bool is_flat(heading *h)
{
    td_note note = h->out->tree;
    td_note_step s, key;
    td_error e;
    if (td_note_plain(&note, &s, &e) || s.kind != 'd') return false;
    for (int64_t n = s.n; n > 0; n--) {
        if (td_note_next(&note, &key, &e) || key.kind != 's' || td_note_plain(&note, &s, &e) || s.kind != 'x' ||
            s.n >= h->out->ntensors || td_dtype_is_complex((td_dtype)h->out->tensors[s.n].desc.dtype) ||
            is_metadata(key.text, (size_t)key.n))
            return false;
    }
    return true;
}

static bool take_flat(heading *h)
{
    td_note_step s, key;
    if (td_note_plain(&h->note, &s, h->e)) return false;
    for (int64_t n = s.n; n > 0; n--)
        if (td_note_next(&h->note, &key, h->e) || td_note_plain(&h->note, &s, h->e) ||
            !add_name(h, key.text, (size_t)key.n, s.n))
            return false;
    return true;
}

/* ---- the header */

static bool put_entry(heading *h, const named *x)
{
    const td_desc *d = &h->out->tensors[x->tensor].desc;
    const char *code = code_of((td_dtype)d->dtype);
    bool pairs = td_dtype_is_complex((td_dtype)d->dtype);
    char text[320];
    if (!code || d->ndim + pairs > TD_MAX_DIMS)
        return td_fail(h->e, TD_E_UNSUPPORTED, "safetensors has no %s of %d dimensions",
                       td_dtype_name((td_dtype)d->dtype), d->ndim),
               false;
    int n = snprintf(text, sizeof text, ":{\"dtype\":\"%s\",\"shape\":[", code);
    for (int k = 0; k < d->ndim + pairs; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", k ? "," : "",
                      k < d->ndim ? (long long)d->shape[k] : 2);
    uint64_t end = h->at + td_desc_nbytes(d);
    n += snprintf(text + n, sizeof text - (size_t)n, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)h->at,
                  (unsigned long long)end);
    h->at = end;
    return td_json_put_text(&h->header, x->name, x->length, h->e) == TD_OK &&
           td_bytes_put(&h->header, text, (size_t)n, what, h->e) == TD_OK;
}

static bool put_raw(heading *h, const char *text)
{
    return td_bytes_put(&h->header, text, strlen(text), what, h->e) == TD_OK;
}

static bool put_pair(heading *h, bool first, const char *name, const void *text, size_t n)
{
    return (first || put_raw(h, ",")) && td_json_put_text(&h->header, name, strlen(name), h->e) == TD_OK &&
           put_raw(h, ":") && td_json_put_text(&h->header, text, n, h->e) == TD_OK;
}

/* The tree, unless names say it all, and what the caller says beside it. */
static bool put_metadata(heading *h, bool flat)
{
    bool good = put_raw(h, "\"__metadata__\":{");
    if (!flat) good = good && put_pair(h, true, "tensord.tree", h->tree.at, h->tree.n);
    for (uint32_t i = 0; good && i < h->out->nmetadata; i++) {
        const td_out_record *m = &h->out->metadata[i];
        good = put_pair(h, flat && i == 0, m->name, m->bytes, m->n);
    }
    return good && put_raw(h, "}");
}

static bool make_header(heading *h)
{
    bool flat = is_flat(h), says = !flat || h->out->nmetadata, good = put_raw(h, "{");
    good = good && (flat ? take_flat(h) : put_value(h, 0)) && (!says || put_metadata(h, flat));
    for (uint32_t i = 0; good && i < h->n; i++)
        good = (!says && i == 0 ? true : put_raw(h, ",")) && put_entry(h, h->names[i]);
    good = good && put_raw(h, "}");
    while (good && h->header.n % 8) good = put_raw(h, " ");
    if (!good || h->header.n <= LONG_HEADER) return good;
    return td_fail(h->e, TD_E_INVALID, "what the file says beside its tensors has more than 100 MB"), false;
}

static int write_all(td_sink *to, const heading *h, td_error *e)
{
    unsigned char length[8];
    td_put_le(length, h->header.n, 8);
    int rc = td_sink_put(to, length, sizeof length, e);
    if (!rc) rc = td_sink_put(to, h->header.at, h->header.n, e);
    for (uint32_t i = 0; !rc && i < h->n; i++) {
        const td_out_tensor *t = &h->out->tensors[h->names[i]->tensor];
        rc = td_sink_put(to, h->out->storages[t->storage].bytes, td_desc_nbytes(&t->desc), e);
    }
    return rc ? rc : td_sink_flush(to, e);
}

int td_write_safetensors(td_sink *to, const td_out *out, td_error *e)
{
    heading *h = calloc(1, sizeof *h);
    if (!h) return td_no_memory(e, "for %s", what);
    h->out = out;
    h->note = out->tree;
    h->e = e;
    int rc = make_header(h) ? write_all(to, h, e) : e->code;
    HASH_CLEAR(hh, h->by_name);
    for (uint32_t i = 0; i < h->n; i++) {
        free(h->names[i]->name);
        free(h->names[i]);
    }
    free(h->names);
    free(h->tree.at);
    free(h->header.at);
    free(h);
    return rc;
}
