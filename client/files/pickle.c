/* The machine. See pickle.h.
 *
 * Invariant: values, what lists hold together, and the stack have a bound, and texts take no more than three times the
 * file: a name that is called again and again with one long argument copies that each time, and a large number has 2.4
 * digits a byte. What a list or a dict holds are
 * values that are there. A value may hold itself, through the memo: who walks it bounds the depth and the number of
 * steps. */
#include "client/files/pickle.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1024, TEXT_BLOCK = 1 << 16 };
#define MOST_VALUES (UINT64_C(1) << 24)

/* ---- memory: values in blocks that do not move, texts behind each other */

typedef struct td_blocks {
    struct td_blocks *next;
    uint32_t used, room;
    bool texts;
    union {
        td_plain values[1];
        char bytes[1];
    };
} td_blocks;

static td_blocks *new_block(td_pickle *p, bool texts, uint32_t room)
{
    size_t each = texts ? 1 : sizeof(td_plain);
    td_blocks *b = malloc(sizeof *b + room * each);
    if (!b) return NULL;
    b->next = p->blocks, b->used = 0, b->room = room, b->texts = texts;
    p->blocks = b;
    return b;
}

/* The newest block of this kind, when it is one of the last two: otherwise a new one is begun. */
static td_blocks *with_room(td_pickle *p, bool texts, uint32_t n)
{
    td_blocks *b = p->blocks;
    for (int k = 0; b && k < 2; k++, b = b->next)
        if (b->texts == texts) return b->room - b->used >= n ? b : NULL;
    return NULL;
}

static int too_many(td_error *e)
{
    return td_fail(e, TD_E_INVALID, "it holds more than %llu values", (unsigned long long)MOST_VALUES);
}

td_plain *td_plain_new(td_pickle *p, td_plain_kind kind, td_error *e)
{
    td_blocks *b = with_room(p, false, 1);
    if (p->values >= MOST_VALUES) {
        too_many(e);
        return NULL;
    }
    if (!b && !(b = new_block(p, false, BLOCK))) {
        td_no_memory(e, "for the values of a file");
        return NULL;
    }
    p->values++;
    td_plain *x = &b->values[b->used++];
    *x = (td_plain){.kind = (uint8_t)kind, .f = {0, 0}}; /* all of it */
    return x;
}

char *td_plain_text(td_pickle *p, uint32_t n, td_error *e)
{
    p->text_bytes += n;
    if (p->text_bytes > 3 * p->file_size) {
        td_fail(e, TD_E_INVALID, "its texts are longer than the file, three times");
        return NULL;
    }
    td_blocks *b = with_room(p, true, n + 1);
    if (!b && !(b = new_block(p, true, n + 1 > TEXT_BLOCK ? n + 1 : TEXT_BLOCK))) {
        td_no_memory(e, "for the texts of a file");
        return NULL;
    }
    char *at = b->bytes + b->used;
    b->used += n + 1;
    at[n] = 0;
    return at;
}

bool td_plain_room(void *list, uint32_t n, uint32_t *room, size_t each, td_error *e)
{
    if (n < *room) return true;
    if (n > MOST_VALUES) {
        too_many(e);
        return false;
    }
    uint32_t more = n < 32 ? 64 : 2 * n;
    void *moved = realloc(*(void **)list, more * each);
    if (!moved) {
        td_no_memory(e, "to read a file");
        return false;
    }
    *(void **)list = moved;
    *room = more;
    return true;
}

static bool holds_items(const td_plain *x)
{
    return x->kind == TD_PLAIN_TUPLE || x->kind == TD_PLAIN_LIST || x->kind == TD_PLAIN_DICT ||
           x->kind == TD_PLAIN_WRAPPED;
}

/* Room grows by doubling: it is full whenever n is a power of two. */
int td_plain_add(td_pickle *p, td_plain *x, td_plain *item, td_error *e)
{
    if (++p->items > MOST_VALUES) return too_many(e);
    if ((x->n & (x->n - 1)) == 0) {
        td_plain **more =
            x->n < UINT32_MAX / 2 ? realloc(x->items, (size_t)(x->n ? 2 * x->n : 1) * sizeof *more) : NULL;
        if (!more) return td_no_memory(e, "for the values of a file");
        x->items = more;
    }
    x->items[x->n++] = item;
    return TD_OK;
}

void td_pickle_close(td_pickle *p)
{
    for (td_blocks *b = p->blocks, *next; b; b = next) {
        next = b->next;
        for (uint32_t i = 0; !b->texts && i < b->used; i++)
            if (holds_items(&b->values[i])) free(b->values[i].items);
        free(b);
    }
    free(p->stack);
    free(p->memo);
    free(p->marks);
    *p = (td_pickle){0};
}

/* ---- looking */

const char *td_plain_kind_name(const td_plain *x)
{
    static const char *const names[] = {"None",   "a bool", "an int",    "a float",  "a complex number",
                                        "a text", "bytes",  "an int",    "a tuple",  "a list",
                                        "a dict", "a name", "an object", "an object"};
    return names[x->kind];
}

bool td_plain_is_text(const td_plain *x, const char *text)
{
    return x->kind == TD_PLAIN_TEXT && strlen(text) == x->n && memcmp(x->text, text, x->n) == 0;
}

/* ---- the stack */

static int push(td_pickle *p, td_plain *x, td_error *e)
{
    if (!x) return e->code;
    if (!td_plain_room(&p->stack, p->depth, &p->room, sizeof *p->stack, e)) return e->code;
    p->stack[p->depth++] = x;
    return TD_OK;
}

/* What lies above the last mark, or above nothing. */
static uint32_t floor_of(const td_pickle *p)
{
    return p->nmarks ? p->marks[p->nmarks - 1] : 0;
}

static td_plain *pop(td_pickle *p, td_error *e)
{
    if (p->depth > floor_of(p)) return p->stack[--p->depth];
    td_fail(e, TD_E_INVALID, "it takes from a stack that is empty");
    return NULL;
}

static td_plain *top(const td_pickle *p, td_error *e)
{
    if (p->depth > floor_of(p)) return p->stack[p->depth - 1];
    td_fail(e, TD_E_INVALID, "it looks at a stack that is empty");
    return NULL;
}

static int set_mark(td_pickle *p, td_error *e)
{
    if (!td_plain_room(&p->marks, p->nmarks, &p->mark_room, sizeof *p->marks, e)) return e->code;
    p->marks[p->nmarks++] = p->depth;
    return TD_OK;
}

/* Where the values above the last mark begin; the mark is gone, they are still there. */
static int take_mark(td_pickle *p, uint32_t *first, td_error *e)
{
    if (!p->nmarks) return td_fail(e, TD_E_INVALID, "it goes back to a mark that was not set");
    *first = p->marks[--p->nmarks];
    return TD_OK;
}

static int remember(td_pickle *p, uint64_t at, td_error *e)
{
    td_plain *x = top(p, e);
    if (!x) return e->code;
    if (at > p->values) return td_fail(e, TD_E_INVALID, "it remembers a value at place %llu", (unsigned long long)at);
    uint32_t had = p->memo_room;
    if (!td_plain_room(&p->memo, (uint32_t)at, &p->memo_room, sizeof *p->memo, e)) return e->code;
    memset(p->memo + had, 0, (p->memo_room - had) * sizeof *p->memo);
    p->memo[at] = x;
    return TD_OK;
}

static int recall(td_pickle *p, uint64_t at, td_error *e)
{
    if (at >= p->memo_room || !p->memo[at])
        return td_fail(e, TD_E_INVALID, "it asks for a value that it did not remember (%llu)", (unsigned long long)at);
    return push(p, p->memo[at], e);
}

/* ---- data */

static int push_int(td_pickle *p, td_plain_kind kind, int64_t i, td_error *e)
{
    td_plain *x = td_plain_new(p, kind, e);
    if (x) x->i = i;
    return push(p, x, e);
}

static int push_float(td_pickle *p, const unsigned char *b, td_error *e)
{
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) bits = bits << 8 | b[i];
    td_plain *x = td_plain_new(p, TD_PLAIN_FLOAT, e);
    if (x) memcpy(x->f, &bits, sizeof bits);
    return push(p, x, e);
}

/* The digits of a number of more than 8 bytes, the low one first, in two's complement. */
static int push_digits(td_pickle *p, uint32_t n, const unsigned char *b, td_error *e)
{
    enum { NINE = 1000 * 1000 * 1000 };
    uint32_t word[UINT8_MAX / 4 + 1] = {0}, words = (n + 3) / 4;
    bool minus = b[n - 1] & 0x80;
    for (uint32_t i = 0, carry = minus; i < n; i++) {
        uint32_t byte = (minus ? b[i] ^ 0xffU : b[i]) + carry;
        carry = byte >> 8;
        word[i / 4] |= (byte & 0xff) << 8 * (i % 4);
    }
    char digits[UINT8_MAX * 5 / 2 + 16], *at = digits + sizeof digits;
    while (words && !word[words - 1]) words--;
    do {
        uint64_t rest = 0;
        for (uint32_t i = words; i-- > 0; rest %= NINE) {
            rest = rest << 32 | word[i];
            word[i] = (uint32_t)(rest / NINE);
        }
        while (words && !word[words - 1]) words--;
        for (int k = 0; k < 9 && (words || rest || k == 0); k++, rest /= 10) *--at = (char)('0' + rest % 10);
    } while (words);
    if (minus) *--at = '-';
    uint32_t length = (uint32_t)(digits + sizeof digits - at);
    char *text = td_plain_text(p, length, e);
    td_plain *x = text ? td_plain_new(p, TD_PLAIN_DIGITS, e) : NULL;
    if (x) x->text = memcpy(text, at, length), x->n = length;
    return push(p, x, e);
}

static int push_long(td_pickle *p, uint32_t n, const unsigned char *b, td_error *e)
{
    static const unsigned char magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    if (n == sizeof magic && memcmp(b, magic, n) == 0)
        return push_int(p, TD_PLAIN_OBJECT, 0, e); /* how legacy files of PyTorch begin */
    if (n > 8) return push_digits(p, n, b, e);
    uint64_t v = n && b[n - 1] & 0x80 ? ~UINT64_C(0) : 0;
    for (uint32_t i = n; i-- > 0;) v = v << 8 | b[i];
    return push_int(p, TD_PLAIN_INT, (int64_t)v, e);
}

bool td_is_utf8(const unsigned char *s, uint32_t n)
{
    for (uint32_t i = 0; i < n;) {
        unsigned c = s[i++], more = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c >= 0x80 && (c < 0xc2 || c > 0xf4)) return false;
        if (more > n - i) return false;
        unsigned second = more ? s[i] : 0;
        if ((c == 0xe0 && second < 0xa0) || (c == 0xf0 && second < 0x90) || (c == 0xf4 && second > 0x8f)) return false;
        for (; more; more--)
            if ((s[i++] & 0xc0) != 0x80) return false;
    }
    return true;
}

static int push_text(td_pickle *p, td_plain_kind kind, uint64_t n, td_error *e)
{
    if (n > td_window_left(p->in)) return td_fail(e, TD_E_INVALID, "a text is longer than what is left");
    if (n > INT32_MAX) return td_fail(e, TD_E_UNSUPPORTED, "a text has more than 2 GiB");
    char *text = td_plain_text(p, (uint32_t)n, e);
    int rc = text ? td_window_copy(p->in, text, (size_t)n, e) : e->code;
    if (rc) return rc;
    if (kind == TD_PLAIN_TEXT && !td_is_utf8((unsigned char *)text, (uint32_t)n))
        return td_fail(e, TD_E_INVALID, "a text is no UTF-8");
    td_plain *x = td_plain_new(p, kind, e);
    if (x) x->text = text, x->n = (uint32_t)n;
    return push(p, x, e);
}

/* A tuple of the values above `first`. */
static int close_tuple(td_pickle *p, uint32_t first, td_error *e)
{
    td_plain *x = td_plain_new(p, TD_PLAIN_TUPLE, e);
    int rc = x ? TD_OK : e->code;
    for (uint32_t i = first; !rc && i < p->depth; i++) rc = td_plain_add(p, x, p->stack[i], e);
    p->depth = first;
    return rc ? rc : push(p, x, e);
}

static int short_tuple(td_pickle *p, uint32_t n, td_error *e)
{
    if (p->depth - floor_of(p) < n) return td_fail(e, TD_E_INVALID, "it takes from a stack that is empty");
    return close_tuple(p, p->depth - n, e);
}

/* Values from `first` on go into the one below them: `each` at a time. */
static int put_into(td_pickle *p, uint32_t first, td_plain_kind kind, td_error *e)
{
    uint32_t n = p->depth - first, each = kind == TD_PLAIN_DICT ? 2 : 1;
    if (first <= floor_of(p)) return td_fail(e, TD_E_INVALID, "it adds to a stack that is empty");
    td_plain *x = p->stack[first - 1];
    if (x->kind == TD_PLAIN_WRAPPED) x = x->items[0]; /* an OrderedDict is a dict with a coat */
    if (x->kind != kind)
        return td_fail(e, TD_E_INVALID, "it adds to %s as if that were a %s", td_plain_kind_name(x),
                       each == 2 ? "dict" : "list");
    if (n % each) return td_fail(e, TD_E_INVALID, "it adds a key without a value");
    int rc = TD_OK;
    for (uint32_t i = 0; !rc && i < n; i++) rc = td_plain_add(p, x, p->stack[first + i], e);
    p->depth = first;
    return rc;
}

/* ---- names, and what is made with them */

static const td_pickle_name *known_name(td_pickle *p, const char *text, td_error *e)
{
    for (const td_pickle_name *known = p->names; known && known->text; known++)
        if (strcmp(known->text, text) == 0) return known;
    return p->more ? p->more(p, text, e) : NULL;
}

/* Two lines. */
static int push_name(td_pickle *p, td_error *e)
{
    char text[256];
    uint32_t n = 0;
    td_error_clear(e);
    for (int lines = 0; lines < 2;) {
        const unsigned char *c = td_window_take(p->in, 1, e);
        if (!c) return e->code;
        if (n == sizeof text - 1) return td_fail(e, TD_E_INVALID, "it holds a name of more than %u bytes", n);
        text[n++] = *c == '\n' ? ' ' : (char)*c;
        lines += *c == '\n';
    }
    text[n - 1] = 0;
    const td_pickle_name *known = known_name(p, text, e);
    if (e->code) return e->code;
    if (known) {
        td_plain *x = td_plain_new(p, TD_PLAIN_NAME, e);
        if (x) x->name = known;
        return push(p, x, e);
    }
    bool number = strncmp(text, "numpy", 5) == 0;
    for (char *c = text; *c; c++) *c = *c == ' ' ? '.' : (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
    return td_fail(e, TD_E_UNSUPPORTED,
                   "it asks for %.120s, which is no tensor or plain data, and nothing in a file is run: %s", text,
                   number ? "save NumPy's arrays as tensors and its numbers by .item(), or tell "
                            "tensord.serialization.add_safe_globals() what may be made"
                          : "save a state_dict(), not the whole object");
}

/* The name below, called with the arguments on top. */
static int call(td_pickle *p, td_error *e)
{
    td_plain *args = pop(p, e), *f = args ? pop(p, e) : NULL, *made = NULL;
    if (!f) return e->code;
    if (f->kind != TD_PLAIN_NAME || !f->name->make)
        return td_fail(e, TD_E_UNSUPPORTED, "it calls %s: nothing in a file is run",
                       f->kind == TD_PLAIN_NAME ? f->name->text : td_plain_kind_name(f));
    if (args->kind != TD_PLAIN_TUPLE)
        return td_fail(e, TD_E_INVALID, "the arguments of %s are %s", f->name->text, td_plain_kind_name(args));
    int rc = f->name->make(p, f->name, args, &made, e);
    return rc ? rc : push(p, made, e);
}

/* State: of an OrderedDict its attributes (a state dict's _metadata), behind what it holds; the last counts. */
static int build(td_pickle *p, td_error *e)
{
    td_plain *state = pop(p, e), *x = state ? top(p, e) : NULL;
    if (!x) return e->code;
    if (x->kind == TD_PLAIN_WRAPPED && state->kind == TD_PLAIN_DICT) {
        if (x->n == 1) return td_plain_add(p, x, state, e);
        x->items[1] = state;
        return TD_OK;
    }
    return td_fail(e, TD_E_UNSUPPORTED, "it sets the state of %s", td_plain_kind_name(x));
}

static int persistent(td_pickle *p, td_error *e)
{
    td_plain *id = pop(p, e), *made = NULL;
    if (!id) return e->code;
    if (!p->persistent) return td_fail(e, TD_E_UNSUPPORTED, "it refers to something outside");
    int rc = p->persistent(p, id, &made, e);
    return rc ? rc : push(p, made, e);
}

/* ---- the opcodes */

static uint32_t number(const unsigned char *b, uint32_t n)
{
    uint32_t v = 0;
    for (uint32_t i = n; i-- > 0;) v = v << 8 | b[i];
    return v;
}

/* How many bytes of argument an opcode has before anything else; -1: it is not known here. */
static int argument(unsigned char op)
{
    switch (op) {
    case 0x80: /* PROTO */
    case 'K':  /* BININT1 */
    case 'q':  /* BINPUT */
    case 'h':  /* BINGET */
    case 'U':  /* SHORT_BINSTRING */
    case 'C':  /* SHORT_BINBYTES */
    case 0x8a: /* LONG1 */
    case 0x8c: /* SHORT_BINUNICODE */ return 1;
    case 'M': /* BININT2 */ return 2;
    case 'J': /* BININT */
    case 'r': /* LONG_BINPUT */
    case 'j': /* LONG_BINGET */
    case 'X': /* BINUNICODE */
    case 'T': /* BINSTRING */
    case 'B': /* BINBYTES */ return 4;
    case 'G': /* BINFLOAT */ return 8;
    default: return op && strchr(".N()]}ate\x85\x86\x87\x88\x89sucRbQ\x81", op) ? 0 : -1;
    }
}

static int with_argument(td_pickle *p, unsigned char op, const unsigned char *b, uint32_t n, td_error *e)
{
    uint32_t v = number(b, n < 4 ? n : 4);
    switch (op) {
    case 0x80: return v <= 5 ? TD_OK : td_fail(e, TD_E_UNSUPPORTED, "it is of protocol %u; 5 is known", v);
    case 'K':
    case 'M': return push_int(p, TD_PLAIN_INT, v, e);
    case 'J': return push_int(p, TD_PLAIN_INT, (int32_t)v, e);
    case 'G': return push_float(p, b, e);
    case 'q':
    case 'r': return remember(p, v, e);
    case 'h':
    case 'j': return recall(p, v, e);
    case 'C':
    case 'B': return push_text(p, TD_PLAIN_BYTES, v, e);
    case 0x8a: return (b = td_window_take(p->in, v, e)) ? push_long(p, v, b, e) : e->code;
    default: return push_text(p, TD_PLAIN_TEXT, v, e);
    }
}

static int pop_into(td_pickle *p, td_plain_kind kind, uint32_t n, td_error *e)
{
    if (p->depth - floor_of(p) < n + 1) return td_fail(e, TD_E_INVALID, "it adds to a stack that is empty");
    return put_into(p, p->depth - n, kind, e);
}

static int without_argument(td_pickle *p, unsigned char op, td_error *e)
{
    uint32_t first = 0;
    switch (op) {
    case 'N': return push_int(p, TD_PLAIN_NONE, 0, e);
    case 0x88: return push_int(p, TD_PLAIN_BOOL, 1, e);
    case 0x89: return push_int(p, TD_PLAIN_BOOL, 0, e);
    case '(': return set_mark(p, e);
    case ')': return push(p, td_plain_new(p, TD_PLAIN_TUPLE, e), e);
    case ']': return push(p, td_plain_new(p, TD_PLAIN_LIST, e), e);
    case '}': return push(p, td_plain_new(p, TD_PLAIN_DICT, e), e);
    case 0x85:
    case 0x86:
    case 0x87: return short_tuple(p, op - 0x84U, e);
    case 't': return take_mark(p, &first, e) ? e->code : close_tuple(p, first, e);
    case 'e': return take_mark(p, &first, e) ? e->code : put_into(p, first, TD_PLAIN_LIST, e);
    case 'u': return take_mark(p, &first, e) ? e->code : put_into(p, first, TD_PLAIN_DICT, e);
    case 'a': return pop_into(p, TD_PLAIN_LIST, 1, e);
    case 's': return pop_into(p, TD_PLAIN_DICT, 2, e);
    case 'c': return push_name(p, e);
    case 'R':
    case 0x81: return call(p, e);
    case 'b': return build(p, e);
    default: return persistent(p, e);
    }
}

static int run(td_pickle *p, td_error *e)
{
    for (;;) {
        const unsigned char *b = td_window_take(p->in, 1, e);
        if (!b) return e->code;
        unsigned char op = *b;
        int n = argument(op);
        if (op == '.') return TD_OK;
        if (n < 0)
            return td_fail(e, TD_E_UNSUPPORTED, "its opcode 0x%02x is none of those that make plain data and tensors",
                           op);
        if (n && !(b = td_window_take(p->in, (uint32_t)n, e))) return e->code;
        int rc = n ? with_argument(p, op, b, (uint32_t)n, e) : without_argument(p, op, e);
        if (rc) return rc;
    }
}

int td_pickle_run(td_pickle *p, td_window *in, const char *what, td_plain **out, td_error *e)
{
    uint64_t began = td_window_place(in);
    p->in = in;
    p->depth = p->nmarks = 0;
    if (p->memo_room) memset(p->memo, 0, p->memo_room * sizeof *p->memo); /* each pickle has its own */
    int rc = run(p, e);
    if (!rc && !(*out = pop(p, e))) rc = e->code;
    if (!rc && (p->depth || p->nmarks)) rc = td_fail(e, TD_E_INVALID, "it ends with more than one value");
    if (rc) {
        td_error why = *e;
        td_fail(e, (td_code)rc, "%s, byte %llu: %.300s", what, (unsigned long long)(td_window_place(in) - began),
                why.message);
    }
    return rc;
}
