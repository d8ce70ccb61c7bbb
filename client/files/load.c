/* td_load(): the tensors of a file, in shared memory.
 *
 * Each storage is read once, straight to where it stays; tensors that look at one storage are views of one here, too.
 * The tree that they stand in becomes the note that queues' items have, so bindings unpack it with what they have. */
#include "client/tensor/array.h"
#include "client/files/file.h"
#include "client/files/note.h"
#include "client/files/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LONG_NAME = 1 << 16, /* bytes */
    LEASED = 32 << 10,   /* bytes from which a storage is read into leased memory */
};
#define MOST_STEPS (UINT64_C(1) << 24)
#define MOST_NAMES (UINT64_C(1) << 28) /* bytes */

typedef struct place {
    char *name;
    uint32_t tensor;
} place;

struct td_loaded {
    td_client *client;
    td_array **arrays;
    place *places;
    td_bytes note;
    uint32_t n, nplaces;
};

/* ---- the tree: a note, and the place of each tensor in it */

typedef struct telling {
    td_loaded *out;
    td_file *file;
    uint32_t place_room;
    uint64_t steps, names; /* taken; bytes */
    char path[LONG_NAME];
    size_t length; /* of the path */
    td_error *e;
} telling;

static bool put(telling *t, const void *bytes, size_t n)
{
    return td_bytes_put(&t->out->note, bytes, n, "what a file says beside its tensors", t->e) == TD_OK;
}

static bool put_number(telling *t, char kind, int64_t v)
{
    return put(t, &kind, 1) && put(t, &v, sizeof v);
}

static bool put_bytes(telling *t, char kind, const char *text, size_t n)
{
    return put_number(t, kind, (int64_t)n) && put(t, text, n);
}

/* One that was told before is not told again: a text of a megabyte may be recalled a thousand times. */
static bool put_long_text(telling *t, char kind, td_plain *x)
{
    uint64_t here = t->out->note.n;
    if (x->told) return put_number(t, 'r', (int64_t)(here + 1 - x->told));
    if (x->n >= TD_LONG_TEXT) x->told = here + 1;
    return put_bytes(t, kind, x->text, x->n);
}

static bool put_text(telling *t, const char *text)
{
    return put_bytes(t, 's', text, strlen(text));
}

/* What a binding puts together by a name: so many parts follow. */
static bool put_object(telling *t, const char *name, int parts)
{
    return put(t, "m", 1) && put_number(t, 't', 1 + parts) && put_text(t, name);
}

static bool add_place(telling *t, uint32_t tensor)
{
    td_loaded *l = t->out;
    t->names += t->length + 1;
    if (t->names > MOST_NAMES) {
        td_fail(t->e, TD_E_INVALID, "the names of its tensors are too long: '%.80s'...", t->path);
        return false;
    }
    if (!td_plain_room(&l->places, l->nplaces, &t->place_room, sizeof *l->places, t->e)) return false;
    char *name = strndup(t->path, t->length);
    if (!name) {
        td_no_memory(t->e, "for the names of a file");
        return false;
    }
    l->places[l->nplaces++] = (place){name, tensor};
    return true;
}

static bool tell(telling *t, td_plain *x, int depth);

/* One step down, to what a key or a number names: the length to come back to. */
static size_t go_down(telling *t, const td_plain *key, uint32_t number)
{
    size_t was = t->length;
    char digits[24];
    const char *part = key && (key->kind == TD_PLAIN_TEXT || key->kind == TD_PLAIN_DIGITS) ? key->text : digits;
    snprintf(digits, sizeof digits, "%lld", key && key->kind == TD_PLAIN_INT ? (long long)key->i : (long long)number);
    int n = snprintf(t->path + was, sizeof t->path - was, "%s%s", was ? "." : "", part);
    t->length = n < 0 || (size_t)n >= sizeof t->path - was ? sizeof t->path - 1 : was + (size_t)n;
    return was;
}

static bool tell_items(telling *t, char kind, const td_plain *x, int depth)
{
    bool good = put_number(t, kind, x->n);
    for (uint32_t i = 0; good && i < x->n; i++) {
        size_t was = go_down(t, NULL, i);
        good = tell(t, x->items[i], depth + 1);
        t->length = was;
    }
    return good;
}

static bool is_key(telling *t, const td_plain *x, int depth)
{
    if (++t->steps > MOST_STEPS || depth > 4) return false;
    if (x->kind != TD_PLAIN_TUPLE) return x->kind <= TD_PLAIN_DIGITS;
    for (uint32_t i = 0; i < x->n; i++)
        if (!is_key(t, x->items[i], depth + 1)) return false;
    return true;
}

/* Of a dtype that is left out: in a dict the key is, too; anywhere else None stands for it. */
static bool is_nothing(const td_plain *x)
{
    return x->kind == TD_PLAIN_OBJECT && x->made == TD_MADE_NOTHING;
}

static bool tell_dict(telling *t, const td_plain *x, int depth)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i + 1 < x->n; i += 2) left += !is_nothing(x->items[i + 1]);
    bool good = put_number(t, 'd', left);
    for (uint32_t i = 0; good && i + 1 < x->n; i += 2) {
        td_plain *key = x->items[i];
        if (is_nothing(x->items[i + 1])) continue;
        if (!is_key(t, key, 0)) {
            td_fail(t->e, TD_E_INVALID, "a key of the dict '%.80s' is %s", t->path, td_plain_kind_name(key));
            return false;
        }
        size_t was = go_down(t, key, i / 2);
        good = tell(t, key, depth + 1) && tell(t, x->items[i + 1], depth + 1);
        t->length = was;
        t->path[was] = 0;
    }
    return good;
}

/* Of what is set on an OrderedDict the _metadata that a state dict has: anything else could hide its own functions. */
static bool tell_metadata(telling *t, const td_plain *x, int depth)
{
    const td_plain *state = x->n > 1 ? x->items[1] : NULL;
    for (uint32_t i = 0; state && i + 1 < state->n; i += 2) {
        if (!td_plain_is_text(state->items[i], "_metadata")) continue;
        size_t was = go_down(t, state->items[i], 0);
        bool good = put_number(t, 'd', 1) && put_text(t, "_metadata") && tell(t, state->items[i + 1], depth);
        t->length = was;
        return good;
    }
    return put_number(t, 'd', 0);
}

/* Of what Python takes into a set. */
static bool is_member(telling *t, const td_plain *x, int depth)
{
    if (++t->steps > MOST_STEPS || depth > TD_TREE_DEEPEST) return false;
    if (x->kind == TD_PLAIN_WRAPPED) return x->made == TD_COAT_SIZE || x->made == TD_COAT_DEVICE;
    for (uint32_t i = 0; x->kind == TD_PLAIN_TUPLE && i < x->n; i++)
        if (!is_member(t, x->items[i], depth + 1)) return false;
    return x->kind != TD_PLAIN_LIST && x->kind != TD_PLAIN_DICT;
}

static bool tell_set(telling *t, const td_plain *in, int depth)
{
    for (uint32_t i = 0; i < in->n; i++)
        if (!is_member(t, in->items[i], 0)) {
            td_fail(t->e, TD_E_INVALID, "the set '%.80s' holds %s%s, which no set takes", t->path,
                    td_plain_kind_name(in->items[i]),
                    in->items[i]->kind == TD_PLAIN_TUPLE ? " with such as a list" : "");
            return false;
        }
    return put_object(t, "set", 1) && tell_items(t, 'l', in, depth);
}

static bool tell_coat(telling *t, const td_plain *x, int depth)
{
    td_plain *in = x->items[0];
    switch (x->made) {
    case TD_COAT_ORDERED:
        return put_object(t, "OrderedDict", 2) && tell_dict(t, in, depth + 1) && tell_metadata(t, x, depth + 1);
    case TD_COAT_COUNTER: return put_object(t, "Counter", 1) && tell_dict(t, in, depth + 1);
    case TD_COAT_SET: return tell_set(t, in, depth + 1);
    case TD_COAT_SIZE: return put_object(t, "Size", 1) && tell_items(t, 't', in, depth + 1);
    case TD_COAT_DEVICE: return put_object(t, "device", 1) && tell_items(t, 't', in, depth + 1);
    default: return put_object(t, "bytearray", 1) && tell(t, in, depth + 1);
    }
}

static bool tell_object(telling *t, const td_plain *x)
{
    if (is_nothing(x)) return put(t, "N", 1);
    if (x->kind == TD_PLAIN_OBJECT && x->made == TD_MADE_TENSOR) {
        td_file_tensor *tensor = &t->file->tensors[x->i];
        if (!tensor->reached) t->file->storages[tensor->storage]->users++;
        tensor->reached = true;
        return add_place(t, (uint32_t)x->i) && (!tensor->parameter || put_object(t, "Parameter", 1)) &&
               put_number(t, 'x', x->i);
    }
    if (x->kind == TD_PLAIN_NAME && td_dtype_valid((unsigned)x->name->value) && !x->name->make)
        return put_object(t, "dtype", 1) && put_text(t, td_dtype_name((td_dtype)x->name->value));
    td_fail(t->e, TD_E_UNSUPPORTED, "'%.80s' is %s, which is neither a tensor nor plain data", t->path,
            x->kind == TD_PLAIN_NAME     ? x->name->text
            : x->made == TD_MADE_STORAGE ? "a storage"
                                         : "a number too large for 64 bits");
    return false;
}

static bool tell(telling *t, td_plain *x, int depth)
{
    if (depth > TD_TREE_DEEPEST || ++t->steps > MOST_STEPS) {
        td_fail(t->e, TD_E_INVALID,
                depth > TD_TREE_DEEPEST ? "'%.80s' is nested deeper than %d, or holds itself"
                                        : "'%.80s' and what stands before it are too many values (more than %d^6)",
                t->path, depth > TD_TREE_DEEPEST ? TD_TREE_DEEPEST : 16);
        return false;
    }
    switch (x->kind) {
    case TD_PLAIN_NONE: return put(t, "N", 1);
    case TD_PLAIN_BOOL: return put(t, x->i ? "T" : "F", 1);
    case TD_PLAIN_INT: return put_number(t, 'i', x->i);
    case TD_PLAIN_FLOAT: return put(t, "f", 1) && put(t, x->f, sizeof *x->f);
    case TD_PLAIN_COMPLEX: return put(t, "c", 1) && put(t, x->f, sizeof x->f);
    case TD_PLAIN_TEXT: return put_long_text(t, 's', x);
    case TD_PLAIN_BYTES: return put_long_text(t, 'b', x);
    case TD_PLAIN_DIGITS: return put_long_text(t, 'I', x);
    case TD_PLAIN_LIST: return tell_items(t, 'l', x, depth);
    case TD_PLAIN_TUPLE: return tell_items(t, 't', x, depth);
    case TD_PLAIN_DICT: return tell_dict(t, x, depth);
    case TD_PLAIN_WRAPPED: return tell_coat(t, x, depth);
    default: return tell_object(t, x);
    }
}

static int tell_tree(td_loaded *l, td_file *file, td_error *e)
{
    telling *t = calloc(1, sizeof *t);
    if (!t) return td_no_memory(e, "to read a file");
    t->out = l;
    t->file = file;
    t->e = e;
    bool good = tell(t, file->root, 0);
    free(t);
    return good ? TD_OK : e->code;
}

/* ---- tensors */

/* The same numbers in place of x. */
static td_array *instead(td_array *x, td_array *made)
{
    td_release(x);
    return made;
}

/* A storage as a tensor of this shape, with its bytes; NULL, with *e or the thread's error. */
static td_array *bring(td_client *c, const td_file *file, const td_stored *s, td_ints shape, td_error *e)
{
    size_t bytes = (size_t)s->numel * td_dtype_size(s->dtype);
    td_lease *lease = bytes > LEASED ? td_lease_new(c, bytes) : NULL;
    if (bytes > LEASED && !lease) return NULL;
    char few[LEASED];
    void *to = lease ? td_lease_data(lease) : few;
    td_step_aside();
    int rc = td_file_read(file, s, to, e);
    td_step_back();
    unsigned before = td_now_on(TD_CPU);
    td_array *a = rc ? NULL : lease ? td_put(lease, 0, s->dtype, shape) : td_from_data(c, s->dtype, shape, few);
    td_now_on(before);
    td_lease_free(lease);
    return a && s->device != TD_CPU ? instead(a, td_at_to_device(NULL, a, s->device)) : a;
}

/* Does it cover its storage, row by row, with nobody else looking at that? */
static bool is_whole(const td_file_tensor *t, const td_stored *s)
{
    return s->users == 1 && t->desc.dtype == s->dtype && t->desc.offset == 0 && td_desc_is_contiguous(&t->desc) &&
           (uint64_t)td_desc_numel(&t->desc) == s->numel;
}

/* The whole elements of another dtype in a storage. */
static td_array *seen_as(td_array *base, const td_stored *s, td_dtype dtype)
{
    uint64_t bytes = s->numel * td_dtype_size(s->dtype);
    int64_t n = (int64_t)((bytes - bytes % td_dtype_size(dtype)) / td_dtype_size(s->dtype)), each = 1;
    td_array *part = td_at_as_strided(NULL, base, td_dims_of(1, &n), td_dims_of(1, &each), 0);
    return instead(part, td_at_view_dtype(NULL, part, dtype));
}

static td_array *make(td_client *c, const td_file *file, const td_file_tensor *t, td_array **base, td_error *e)
{
    const td_stored *s = file->storages[t->storage];
    td_ints shape = td_dims_of(t->desc.ndim, t->desc.shape);
    td_array *a = NULL;
    if (is_whole(t, s)) a = bring(c, file, s, shape, e);
    else {
        int64_t n = (int64_t)s->numel;
        if (!base[t->storage]) base[t->storage] = td_keep(bring(c, file, s, td_dims_of(1, &n), e));
        td_array *whole = base[t->storage], *other = NULL;
        if (whole && t->desc.dtype != s->dtype) whole = other = seen_as(whole, s, (td_dtype)t->desc.dtype);
        if (whole) a = td_at_as_strided(NULL, whole, shape, td_dims_of(t->desc.ndim, t->desc.stride), t->desc.offset);
        td_release(other);
    }
    if (a && t->conj) a = instead(a, td_at_conj(NULL, a));
    if (a && t->neg) a = instead(a, td_at_neg(NULL, a));
    if (a && t->requires_grad && td_set_requires_grad(a, true)) a = instead(a, NULL);
    return td_keep(a); /* from the caller's scope */
}

static int make_all(td_loaded *l, const td_file *file, td_error *e)
{
    td_array **base = calloc(file->nstorages + 1, sizeof *base);
    l->arrays = calloc(file->ntensors + 1, sizeof *l->arrays);
    int rc = base && l->arrays ? TD_OK : td_no_memory(e, "for %u tensors", file->ntensors);
    for (; !rc && l->n < file->ntensors; l->n++)
        if (file->tensors[l->n].reached && !(l->arrays[l->n] = make(l->client, file, &file->tensors[l->n], base, e)))
            rc = e->code ? e->code : TD_E_INTERNAL; /* in the second case it is the thread's already */
    for (uint32_t i = 0; base && i < file->nstorages; i++) td_release(base[i]);
    free(base);
    return rc;
}

/* Where nobody says it: the CPU, for what was there. */
static int where_it_was(void *context, const char *location)
{
    const unsigned *flags = context;
    return *flags & TD_LOAD_TO_CPU || strcmp(location, "cpu") == 0 ? TD_CPU : -1;
}

static int find_devices(const td_file *file, td_load_where where, void *context, td_error *e)
{
    for (uint32_t i = 0; i < file->nstorages; i++) {
        td_stored *s = file->storages[i];
        s->device = s->users ? where(context, s->location) : TD_CPU;
        if (s->device < 0)
            return td_fail(e, TD_E_UNSUPPORTED,
                           "its tensors were on '%.40s', a device that is not here: load them to the CPU "
                           "(map_location='cpu'; TD_LOAD_TO_CPU)",
                           s->location);
    }
    return TD_OK;
}

TD_API void td_loaded_free(td_loaded *l)
{
    if (!l) return;
    for (uint32_t i = 0; l->arrays && i < l->n; i++) td_release(l->arrays[i]);
    for (uint32_t i = 0; i < l->nplaces; i++) free(l->places[i].name);
    free(l->arrays);
    free(l->places);
    free(l->note.at);
    free(l);
}

TD_API td_loaded *td_load_to(td_client *c, int fd, unsigned flags, td_load_where where, void *context)
{
    if (!where) where = where_it_was, context = &flags;
    td_error e = {0};
    td_file file = {.skip = flags & TD_LOAD_SKIP, .programs = flags & TD_LOAD_PROGRAMS};
    td_loaded *l = calloc(1, sizeof *l);
    int rc = l ? TD_OK : td_no_memory(&e, "to read a file");
    if (l) l->client = c;
    if (!rc) {
        td_step_aside();
        rc = td_file_open(&file, fd, &e);
        if (!rc) rc = tell_tree(l, &file, &e);
        td_step_back();
        if (!rc) rc = find_devices(&file, where, context, &e);
        if (!rc) rc = make_all(l, &file, &e);
        td_file_close(&file);
    }
    if (!rc) return l;
    if (e.code) td_raise_error(&e, "load", NULL);
    td_loaded_free(l);
    return NULL;
}

TD_API td_loaded *td_load_fd(td_client *c, int fd, unsigned flags)
{
    return td_load_to(c, fd, flags, NULL, NULL);
}

TD_API td_loaded *td_load(td_client *c, const char *path, unsigned flags)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        td_raise(errno == ENOENT ? TD_E_NOT_FOUND : TD_E_SYSTEM, "load", "%.200s: %s", path, strerror(errno));
        return NULL;
    }
    td_loaded *l = td_load_fd(c, fd, flags);
    close(fd);
    td_error why = *td_last_error();
    if (!l) td_raise(why.code, "load", "%.200s: %s", path, why.message);
    return l;
}

TD_API int td_loaded_count(const td_loaded *l)
{
    return (int)l->nplaces;
}

TD_API const char *td_loaded_name(const td_loaded *l, int i)
{
    return i >= 0 && (uint32_t)i < l->nplaces ? l->places[i].name : NULL;
}

TD_API td_array *td_loaded_at(const td_loaded *l, int i)
{
    return i >= 0 && (uint32_t)i < l->nplaces ? l->arrays[l->places[i].tensor] : NULL;
}

TD_API td_array *td_loaded_get(const td_loaded *l, const char *name)
{
    for (uint32_t i = 0; i < l->nplaces; i++)
        if (strcmp(l->places[i].name, name) == 0) return l->arrays[l->places[i].tensor];
    td_raise(TD_E_NOT_FOUND, "load", "the file has no tensor '%.100s'; it has %u, the first of them '%.100s'", name,
             l->nplaces, l->nplaces ? l->places[0].name : "");
    return NULL;
}

TD_API td_queue_item td_loaded_tree(const td_loaded *l)
{
    return (td_queue_item){.n = (int)l->n, .at = l->arrays, .note = l->note.at, .note_size = l->note.n};
}
