/* The wire format of protobuf, by a table of the fields that count: no message is read by a function of its own, and
 * none recurses. What is not in the table is skipped, so that files of later versions are read.
 *
 * Of weights only the place is noted. */
#include "client/onnx/model.h"

#include <string.h>

enum { BUFFER = 8192, LONGEST_TEXT = 1 << 16 };

typedef enum message {
    MODEL,
    OPSET,
    GRAPH,
    NODE,
    ATTRIBUTE,
    TENSOR,
    INFO,
    TYPE,
    TENSOR_TYPE,
    SHAPE,
    DIM,
    ENTRY,
    EMPTY, /* of which only the number counts */
    MESSAGES
} message;

typedef enum how { TEXT, TEXTS, COUNTED, INT, FLOAT, INTS, FLOATS, DOUBLES, PLACE, CHILD } how;

static const struct size {
    const char *name;
    uint16_t bytes;
} sizes[MESSAGES] = {
    [MODEL] = {"model", sizeof(td_onnx_model)},
    [OPSET] = {"opset", sizeof(td_onnx_opset)},
    [GRAPH] = {"graph", sizeof(td_onnx_graph)},
    [NODE] = {"node", sizeof(td_onnx_node)},
    [ATTRIBUTE] = {"attribute", sizeof(td_onnx_attribute)},
    [TENSOR] = {"tensor", sizeof(td_onnx_tensor)},
    [INFO] = {"value", sizeof(td_onnx_info)},
    [TYPE] = {"type", sizeof(td_onnx_type)},
    [TENSOR_TYPE] = {"type", sizeof(td_onnx_tensor_type)},
    [SHAPE] = {"shape", sizeof(td_onnx_shape)},
    [DIM] = {"size", sizeof(td_onnx_dim)},
    [ENTRY] = {"entry", sizeof(td_onnx_entry)},
    [EMPTY] = {"entry", sizeof(void *)},
};

static const struct field {
    uint8_t of, number, how, child;
    uint16_t at;
} fields[] = {
    {MODEL, 1, INT, 0, offsetof(td_onnx_model, ir_version)},
    {MODEL, 2, TEXT, 0, offsetof(td_onnx_model, producer)},
    {MODEL, 7, CHILD, GRAPH, offsetof(td_onnx_model, graph)},
    {MODEL, 8, CHILD, OPSET, offsetof(td_onnx_model, opsets)},
    {MODEL, 25, CHILD, EMPTY, offsetof(td_onnx_model, functions)},
    {OPSET, 1, TEXT, 0, offsetof(td_onnx_opset, domain)},
    {OPSET, 2, INT, 0, offsetof(td_onnx_opset, version)},
    {GRAPH, 1, CHILD, NODE, offsetof(td_onnx_graph, nodes)},
    {GRAPH, 2, TEXT, 0, offsetof(td_onnx_graph, name)},
    {GRAPH, 5, CHILD, TENSOR, offsetof(td_onnx_graph, initializers)},
    {GRAPH, 11, CHILD, INFO, offsetof(td_onnx_graph, inputs)},
    {GRAPH, 12, CHILD, INFO, offsetof(td_onnx_graph, outputs)},
    {GRAPH, 13, CHILD, INFO, offsetof(td_onnx_graph, infos)},
    {GRAPH, 15, CHILD, EMPTY, offsetof(td_onnx_graph, sparse)},
    {NODE, 1, TEXTS, 0, offsetof(td_onnx_node, inputs)},
    {NODE, 2, TEXTS, 0, offsetof(td_onnx_node, outputs)},
    {NODE, 3, TEXT, 0, offsetof(td_onnx_node, name)},
    {NODE, 4, TEXT, 0, offsetof(td_onnx_node, op)},
    {NODE, 5, CHILD, ATTRIBUTE, offsetof(td_onnx_node, attributes)},
    {NODE, 7, TEXT, 0, offsetof(td_onnx_node, domain)},
    {ATTRIBUTE, 1, TEXT, 0, offsetof(td_onnx_attribute, name)},
    {ATTRIBUTE, 2, FLOAT, 0, offsetof(td_onnx_attribute, f)},
    {ATTRIBUTE, 3, INT, 0, offsetof(td_onnx_attribute, i)},
    {ATTRIBUTE, 4, TEXT, 0, offsetof(td_onnx_attribute, s)},
    {ATTRIBUTE, 5, CHILD, TENSOR, offsetof(td_onnx_attribute, tensor)},
    {ATTRIBUTE, 6, CHILD, GRAPH, offsetof(td_onnx_attribute, graph)},
    {ATTRIBUTE, 7, FLOATS, 0, offsetof(td_onnx_attribute, floats)},
    {ATTRIBUTE, 8, INTS, 0, offsetof(td_onnx_attribute, ints)},
    {ATTRIBUTE, 9, TEXTS, 0, offsetof(td_onnx_attribute, strings)},
    {ATTRIBUTE, 20, INT, 0, offsetof(td_onnx_attribute, type)},
    {ATTRIBUTE, 21, TEXT, 0, offsetof(td_onnx_attribute, reference)},
    {TENSOR, 1, INTS, 0, offsetof(td_onnx_tensor, dims)},
    {TENSOR, 2, INT, 0, offsetof(td_onnx_tensor, type)},
    {TENSOR, 4, FLOATS, 0, offsetof(td_onnx_tensor, floats)},
    {TENSOR, 5, INTS, 0, offsetof(td_onnx_tensor, int32s)},
    {TENSOR, 6, COUNTED, 0, offsetof(td_onnx_tensor, texts)},
    {TENSOR, 7, INTS, 0, offsetof(td_onnx_tensor, int64s)},
    {TENSOR, 8, TEXT, 0, offsetof(td_onnx_tensor, name)},
    {TENSOR, 9, PLACE, 0, offsetof(td_onnx_tensor, raw)},
    {TENSOR, 10, DOUBLES, 0, offsetof(td_onnx_tensor, doubles)},
    {TENSOR, 11, INTS, 0, offsetof(td_onnx_tensor, uint64s)},
    {TENSOR, 13, CHILD, ENTRY, offsetof(td_onnx_tensor, external)},
    {TENSOR, 14, INT, 0, offsetof(td_onnx_tensor, location)},
    {INFO, 1, TEXT, 0, offsetof(td_onnx_info, name)},
    {INFO, 2, CHILD, TYPE, offsetof(td_onnx_info, type)},
    {TYPE, 1, CHILD, TENSOR_TYPE, offsetof(td_onnx_type, tensor)},
    {TENSOR_TYPE, 1, INT, 0, offsetof(td_onnx_tensor_type, type)},
    {TENSOR_TYPE, 2, CHILD, SHAPE, offsetof(td_onnx_tensor_type, shape)},
    {SHAPE, 1, CHILD, DIM, offsetof(td_onnx_shape, dims)},
    {DIM, 1, INT, 0, offsetof(td_onnx_dim, size)},
    {DIM, 2, TEXT, 0, offsetof(td_onnx_dim, symbol)},
    {ENTRY, 1, TEXT, 0, offsetof(td_onnx_entry, key)},
    {ENTRY, 2, TEXT, 0, offsetof(td_onnx_entry, value)},
};

typedef struct frame {
    message of;
    char *object;
    uint64_t end;
} frame;

typedef struct reader {
    td_onnx_file *f;
    td_error *e;
    frame frames[TD_ONNX_DEEPEST];
    unsigned depth;
    uint64_t at; /* in the file */
    uint64_t from, filled;
    unsigned char buffer[BUFFER];
} reader;

/* ---- memory */

void *td_onnx_take(td_onnx_file *f, size_t bytes, td_error *e)
{
    void *p = bytes <= f->memory.limit ? td_arena_alloc(&f->memory, bytes ? bytes : 1) : NULL;
    if (p) return memset(p, 0, bytes);
    if (f->memory.starved) td_no_memory(e, "to read a model");
    else td_fail(e, TD_E_INVALID, "it asks for more memory than %d times its size", TD_ONNX_GROWTH);
    return NULL;
}

/* ---- bytes */

static bool wrong(reader *r, const char *why)
{
    td_fail(r->e, TD_E_INVALID, "it is no ONNX file, or a damaged one: %s at byte %llu of it, in a %s", why,
            (unsigned long long)r->at, sizes[r->frames[r->depth - 1].of].name);
    return false;
}

/* Room for `more` numbers of so many bytes. */
static bool grow(reader *r, td_onnx_numbers *x, uint64_t more, size_t each)
{
    if (more <= x->room - x->n) return true;
    uint64_t room = x->n + more > x->room * 2 ? x->n + more : x->room * 2;
    void *moved = room <= SIZE_MAX / 16 ? td_onnx_take(r->f, room * each, r->e) : NULL;
    if (!moved) return r->e->code ? false : wrong(r, "a list of too many numbers");
    if (x->n) memcpy(moved, x->at, x->n * each);
    x->at = moved;
    x->room = room;
    return true;
}

static uint64_t left(const reader *r)
{
    return r->frames[r->depth - 1].end - r->at;
}

/* The next bytes of this message, at most BUFFER; NULL: it has no so many. */
static const unsigned char *bytes(reader *r, size_t n)
{
    if (n > left(r)) return wrong(r, "the message ends too early"), NULL;
    if (r->at < r->from || r->at + n > r->from + r->filled) {
        uint64_t there = r->f->source.size - r->at;
        r->from = r->at;
        r->filled = there < BUFFER ? there : BUFFER;
        if (td_source_read(&r->f->source, r->at, r->buffer, r->filled, r->e)) return NULL;
    }
    const unsigned char *p = r->buffer + (r->at - r->from);
    r->at += n;
    return p;
}

static bool varint(reader *r, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        const unsigned char *p = bytes(r, 1);
        if (!p) return false;
        if (shift == 63 && *p > 1) break;
        *out |= (uint64_t)(*p & 127) << shift;
        if (!(*p & 128)) return true;
    }
    return wrong(r, "a number of more than 64 bits");
}

/* Of more than BUFFER bytes length() has said that they are there. */
static bool copy(reader *r, void *to, uint64_t n)
{
    if (n <= BUFFER) {
        const unsigned char *p = bytes(r, n);
        return p && memcpy(to, p, n);
    }
    if (td_source_read(&r->f->source, r->at, to, n, r->e)) return false;
    r->at += n;
    return true;
}

static bool length(reader *r, uint64_t *n)
{
    if (!varint(r, n)) return false;
    return *n <= left(r) || wrong(r, "a length that goes past the end");
}

static const char *text(reader *r)
{
    uint64_t n;
    if (!length(r, &n)) return NULL;
    if (n > LONGEST_TEXT) return wrong(r, "a name or text of more than 65,536 bytes"), NULL;
    char *p = td_onnx_take(r->f, n + 1, r->e);
    if (!p || !copy(r, p, n)) return NULL;
    if (memchr(p, 0, n)) return wrong(r, "a name or text with a zero byte"), NULL;
    return p;
}

/* ---- fields */

static void append(td_onnx_list *l, void *x)
{
    if (l->last) *(void **)l->last = x;
    else l->first = x;
    l->last = x;
    l->n++;
}

static bool put_int(reader *r, td_onnx_numbers *x)
{
    uint64_t v;
    if (!varint(r, &v) || !grow(r, x, 1, sizeof *x->i)) return false;
    x->i[x->n++] = (int64_t)v;
    return true;
}

/* Of an element each, or many that are packed. */
static bool ints(reader *r, td_onnx_numbers *x, unsigned wire)
{
    uint64_t n;
    if (wire == 0) return put_int(r, x);
    if (wire != 2 || !length(r, &n)) return r->e->code ? false : wrong(r, "a number of the wrong kind");
    for (uint64_t end = r->at + n; r->at < end;)
        if (!put_int(r, x) || r->at > end) return r->e->code ? false : wrong(r, "numbers that go past their end");
    return true;
}

/* As they lie, the low byte first. */
static bool fixed(reader *r, td_onnx_numbers *x, unsigned wire, unsigned each)
{
    uint64_t n = each;
    if (wire != (each == 4 ? 5 : 1) && wire != 2) return wrong(r, "a number of the wrong kind");
    if (wire == 2 && (!length(r, &n) || n % each))
        return r->e->code ? false : wrong(r, "numbers that go past their end");
    if (n == 0) return true;
    if (!grow(r, x, n / each, each) || !copy(r, (char *)x->at + x->n * each, n)) return false;
    x->n += n / each;
    return true;
}

static bool number(reader *r, int64_t *out, unsigned wire)
{
    uint64_t v;
    if (wire != 0) return wrong(r, "a number of the wrong kind");
    if (!varint(r, &v)) return false;
    *out = (int64_t)v;
    return true;
}

static bool number_float(reader *r, float *out, unsigned wire)
{
    const unsigned char *p = wire == 5 ? bytes(r, 4) : NULL;
    if (!p) return r->e->code ? false : wrong(r, "a number of the wrong kind");
    uint32_t v = td_le32(p);
    memcpy(out, &v, 4);
    return true;
}

static bool begin_child(reader *r, message of, td_onnx_list *to)
{
    uint64_t n;
    if (!length(r, &n)) return false;
    if (r->depth == TD_ONNX_DEEPEST) return wrong(r, "messages nested deeper than 64");
    char *object = td_onnx_take(r->f, sizes[of].bytes, r->e);
    if (!object) return false;
    if (of == DIM) ((td_onnx_dim *)object)->size = -1;
    append(to, object);
    r->frames[r->depth++] = (frame){of, object, r->at + n};
    return true;
}

static bool skip(reader *r, unsigned wire)
{
    uint64_t n = wire == 1 ? 8 : 4;
    if (wire == 0) return varint(r, &n);
    if (wire != 1 && wire != 2 && wire != 5) return wrong(r, "a field of a kind that protobuf has not");
    if (wire == 2 && !length(r, &n)) return false;
    if (n > left(r)) return wrong(r, "the message ends too early");
    r->at += n;
    return true;
}

static const struct field *find(message of, uint64_t number)
{
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
        if (fields[k].of == of && fields[k].number == number) return &fields[k];
    return NULL;
}

static bool place(reader *r, td_onnx_place *out)
{
    if (!length(r, &out->size)) return false;
    out->at = r->at;
    out->there = true;
    r->at += out->size;
    return true;
}

static bool one_text(reader *r, td_onnx_list *to)
{
    td_onnx_text *x = td_onnx_take(r->f, sizeof *x, r->e);
    if (!x || !(x->text = text(r))) return false;
    append(to, x);
    return true;
}

static bool take_field(reader *r)
{
    frame *f = &r->frames[r->depth - 1];
    uint64_t tag;
    if (!varint(r, &tag)) return false;
    unsigned wire = tag & 7;
    const struct field *x = find(f->of, tag >> 3);
    if (!x) return tag >> 3 ? skip(r, wire) : wrong(r, "a field without a number");
    void *to = f->object + x->at;
    bool sized = x->how == TEXT || x->how == TEXTS || x->how == PLACE || x->how == CHILD;
    if (sized && wire != 2) return wrong(r, "a field of the wrong kind");
    switch ((how)x->how) {
    case TEXT: return (*(const char **)to = text(r)) != NULL;
    case TEXTS: return one_text(r, to);
    case COUNTED: ++*(uint32_t *)to; return skip(r, wire);
    case INT: return number(r, to, wire);
    case FLOAT: return number_float(r, to, wire);
    case INTS: return ints(r, to, wire);
    case FLOATS: return fixed(r, to, wire, 4);
    case DOUBLES: return fixed(r, to, wire, 8);
    case PLACE: return place(r, to);
    case CHILD: return begin_child(r, x->child, to);
    }
    return false;
}

/* ---- the file */

static int read_all(td_onnx_file *f, int fd, message of, td_onnx_list *out, td_error *e)
{
    reader r = {.f = f, .e = e};
    td_error_clear(e);
    int rc = td_source_init(&f->source, fd, e);
    if (rc) return rc;
    uint64_t limit = f->source.size > (SIZE_MAX - TD_ONNX_LEAST) / TD_ONNX_GROWTH
                         ? SIZE_MAX
                         : f->source.size * TD_ONNX_GROWTH + TD_ONNX_LEAST;
    td_arena_init(&f->memory, limit);
    char *object = td_onnx_take(f, sizes[of].bytes, e);
    if (!object) return e->code;
    append(out, object);
    r.frames[r.depth++] = (frame){of, object, f->source.size};
    while (r.depth && !e->code) {
        if (r.at == r.frames[r.depth - 1].end) r.depth--;
        else take_field(&r);
    }
    return e->code;
}

int td_onnx_read(td_onnx_file *f, int fd, int folder, td_error *e)
{
    td_onnx_list out = {0};
    *f = (td_onnx_file){.folder = folder};
    if (read_all(f, fd, MODEL, &out, e)) return e->code;
    f->model = out.first;
    if (f->model->graph.n != 1 || !f->model->opsets.n)
        return td_fail(e, TD_E_INVALID,
                       f->model->graph.n ? "it says no version of its ops (opset_import)"
                                         : "it is no ONNX model: it has no graph");
    return TD_OK;
}

int td_onnx_read_tensor(td_onnx_file *f, int fd, td_onnx_tensor **out, td_error *e)
{
    td_onnx_list all = {0};
    *f = (td_onnx_file){.folder = -1};
    read_all(f, fd, TENSOR, &all, e);
    *out = all.first;
    return e->code;
}

void td_onnx_close(td_onnx_file *f)
{
    if (f->memory.limit) td_arena_deinit(&f->memory);
    *f = (td_onnx_file){0};
}
