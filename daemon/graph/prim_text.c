/* Texts: UTF-8, whose characters are counted as Python counts them. What changes one makes a new one. */
#include "daemon/graph/letters.h"
#include "daemon/graph/run.h"
#include "proto/base/device.h"
#include "proto/base/dtype.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    const char *at;
    uint32_t n;
} text;

static text in_text(const td_prim_call *c, uint32_t k)
{
    return (text){c->in[k]->box->chars, c->in[k]->box->n};
}

static int give(td_prim_call *c, const char *at, size_t n)
{
    return td_val_text(c->purse, at, n, c->out, c->e);
}

/* ---- a text that is put together */

/* Part by part. A long one takes several steps, each of which passes over the parts that are there already. */
typedef struct joined {
    td_prim_call *c;
    char *at;
    size_t n, room;
    uint64_t part, there; /* its number; parts of earlier steps */
    int left;             /* for this step, in bytes or so */
    int rc;
} joined;

enum { A_STEP = 1 << 12, OF_A_PART = 4, OF_A_FLOAT = 128 }; /* in what `left` counts */

static bool make_room(joined *j, size_t n)
{
    if (j->n + n <= j->room) return true;
    size_t room = 2 * j->room + n;
    char *more = realloc(j->at, room);
    if (!more) {
        j->rc = td_no_memory(j->c->e, "for a text of %zu bytes", j->n + n);
        return false;
    }
    j->at = more, j->room = room;
    return true;
}

static joined begin(td_prim_call *c)
{
    joined j = {.c = c, .left = A_STEP, .there = c->kept->at};
    const td_boxed *made = c->kept->made.box;
    if (c->kept->made.kind != TD_T_STR || !made->n || !make_room(&j, made->n)) return j;
    memcpy(j.at, made->chars, made->n);
    j.n = made->n;
    return j;
}

/* Is the next part to be put, for so much? Otherwise it is there, or for another step. */
static bool is_next(joined *j, int cost)
{
    if (j->rc) return false;
    if (j->part < j->there) {
        j->part++;
        return false;
    }
    if (j->left <= 0) {
        j->rc = TD_EXEC_MORE;
        return false;
    }
    j->left -= cost;
    return true;
}

static void append(joined *j, const char *at, size_t n)
{
    if (n > TD_VAL_CHARS - j->n) {
        j->rc = td_fail(j->c->e, TD_E_INVALID, "a text of a program has at most %d bytes", TD_VAL_CHARS);
        return;
    }
    if (!make_room(j, n)) return;
    if (n) memcpy(j->at + j->n, at, n);
    j->n += n;
    j->part++;
}

static void put(joined *j, const char *at, size_t n)
{
    if (is_next(j, OF_A_PART + (int)(n >> 4))) append(j, at, n);
}

static void put_word(joined *j, const char *word)
{
    put(j, word, strlen(word));
}

static int keep(joined *j)
{
    td_val made = td_val_none();
    int rc = td_val_text(j->c->purse, j->at, j->n, &made, j->c->e);
    if (rc) return rc;
    td_val_drop(j->c->purse, &j->c->kept->made);
    *j->c->kept = (td_prim_kept){made, j->part};
    return TD_EXEC_MORE;
}

static int finish(joined *j)
{
    if (!j->rc) j->rc = give(j->c, j->at, j->n);
    else if (j->rc == TD_EXEC_MORE) j->rc = keep(j);
    free(j->at);
    return j->rc;
}

/* How many digits it takes: 15 do for whatever has no more, so that shorter ones end with zeros. */
static int digits_of(double v, char *digits, size_t size)
{
    int most = fabs(v) < DBL_MIN ? 1 : 15;
    for (; most < 17; most++) {
        snprintf(digits, size, "%.*e", most - 1, v);
        if (strtod(digits, NULL) == v) break;
    }
    if (most == 17) snprintf(digits, size, "%.16e", v);
    const char *e = strchr(digits, 'e');
    while (most > 1 && e[-1] == '0') e--, most--;
    return most;
}

void td_prim_float_text(double v, bool part, char *out, size_t size)
{
    char digits[40];
    if (isnan(v) || isinf(v)) {
        snprintf(out, size, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    int most = digits_of(v, digits, sizeof digits), exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        snprintf(digits, sizeof digits, "%.*e", most - 1, v);
        snprintf(out, size, "%.*se%c%02d", (int)(strchr(digits, 'e') - digits), digits, exponent < 0 ? '-' : '+',
                 abs(exponent));
    } else {
        int behind = most - 1 - exponent;
        snprintf(out, size, "%.*f%s", behind > 0 ? behind : 0, v, behind <= 0 && !part ? ".0" : "");
    }
}

static void put_float(joined *j, double v, bool part)
{
    char shown[64];
    if (!is_next(j, OF_A_FLOAT)) return;
    td_prim_float_text(v, part, shown, sizeof shown);
    append(j, shown, strlen(shown));
}

static void put_quoted(joined *j, text t)
{
    const char *quote = memchr(t.at, '\'', t.n) && !memchr(t.at, '"', t.n) ? "\"" : "'";
    put_word(j, quote);
    for (uint32_t k = 0, from = 0; k <= t.n && !j->rc; k++) {
        char escape[8] = {'\\'};
        unsigned char x = k < t.n ? (unsigned char)t.at[k] : 0;
        if (k < t.n && x >= ' ' && x != '\\' && x != (unsigned char)quote[0] && x != 0x7f) continue;
        if (k > from) put(j, t.at + from, k - from);
        from = k + 1;
        if (x == '\n' || x == '\r' || x == '\t') escape[1] = x == '\n' ? 'n' : x == '\r' ? 'r' : 't';
        else if (x < ' ' || x == 0x7f) snprintf(escape, sizeof escape, "\\x%02x", x);
        else escape[1] = (char)x;
        if (k < t.n) put_word(j, escape);
    }
    put_word(j, quote);
}

static void put_value(joined *j, const td_val *v, bool inside);

static void put_items(joined *j, const td_val *v) /* NOLINT(misc-no-recursion): as deep as the type */
{
    bool list = v->kind == TD_T_LIST, dict = v->kind == TD_T_DICT;
    put_word(j, list ? "[" : dict ? "{" : "(");
    for (uint32_t k = 0; k < v->box->n && !j->rc; k++) {
        if (k) put_word(j, dict && k % 2 ? ": " : ", ");
        put_value(j, &v->box->items[k], true);
    }
    put_word(j, list ? "]" : dict ? "}" : v->box->n == 1 ? ",)" : ")");
}

static void put_complex(joined *j, const td_val *v)
{
    bool whole = v->re != 0 || signbit(v->re);
    if (whole) {
        put_word(j, "(");
        put_float(j, v->re, true);
        if (!(v->im < 0 || signbit(v->im)) || isnan(v->im)) put_word(j, "+");
    }
    put_float(j, v->im, true);
    put_word(j, whole ? "j)" : "j");
}

/* A tensor of no dimensions, as PyTorch shows it: once its value is known. */
static void put_element(joined *j, td_tensor *t)
{
    char shown[80];
    td_scalar s;
    if (!is_next(j, OF_A_FLOAT) || (j->rc = td_exec_item(j->c->run, t, &s, j->c->e)) != 0) return;
    double size = fabs(s.re);
    if (s.kind == TD_S_BOOL) snprintf(shown, sizeof shown, "tensor(%s)", s.i ? "True" : "False");
    else if (s.kind <= TD_S_INT) snprintf(shown, sizeof shown, "tensor(%lld)", (long long)s.i);
    else if (s.kind == TD_S_COMPLEX) snprintf(shown, sizeof shown, "tensor(%.4f%+.4fj)", s.re, s.im);
    else if (isnan(s.re) || isinf(s.re))
        snprintf(shown, sizeof shown, "tensor(%s)", isnan(s.re) ? "nan" : s.re < 0 ? "-inf" : "inf");
    else if (size != 0 && (size < 1e-4 || size > 1e8)) snprintf(shown, sizeof shown, "tensor(%.4e)", s.re);
    else snprintf(shown, sizeof shown, s.re == floor(s.re) ? "tensor(%.0f.)" : "tensor(%.4f)", s.re);
    append(j, shown, strlen(shown));
}

/* As Python's str(); `inside` of a list as its repr(). */
static void put_value(joined *j, const td_val *v, bool inside) /* NOLINT(misc-no-recursion) */
{
    char number[160];
    switch (v->kind) {
    case TD_T_NONE: return put_word(j, "None");
    case TD_T_BOOL: return put_word(j, v->i ? "True" : "False");
    case TD_T_INT: snprintf(number, sizeof number, "%lld", (long long)v->i); return put_word(j, number);
    case TD_T_FLOAT: return put_float(j, v->re, false);
    case TD_T_COMPLEX: return put_complex(j, v);
    case TD_T_DTYPE: put_word(j, "tensord."); return put_word(j, td_dtype_name((td_dtype)v->i));
    case TD_T_DEVICE: return put_word(j, td_device_name((unsigned)v->i));
    case TD_T_STR:
        if (inside) put_quoted(j, (text){v->box->chars, v->box->n});
        else put(j, v->box->chars, v->box->n);
        return;
    case TD_T_TENSOR:
        if (v->tensor->desc.ndim == 0) return put_element(j, v->tensor);
        put_word(j, "tensor of shape ");
        return put_word(j, td_shape_text(v->tensor->desc.ndim, v->tensor->desc.shape, number, sizeof number));
    default: put_items(j, v);
    }
}

/* The items with blanks between them, as a line. */
static int print(td_prim_call *c)
{
    joined j = begin(c);
    for (uint32_t k = 0; k < c->nin && !j.rc; k++) {
        if (k) put_word(&j, " ");
        put_value(&j, c->in[k], false);
    }
    put_word(&j, "\n");
    int rc = j.rc == TD_EXEC_MORE ? keep(&j) : j.rc ? j.rc : td_exec_say(c->run, j.at, j.n, c->e);
    free(j.at);
    return rc;
}

int td_prim_str(td_prim_call *c)
{
    joined j = begin(c);
    put_value(&j, c->in[0], false);
    return finish(&j);
}

static int repr(td_prim_call *c)
{
    joined j = begin(c);
    put_value(&j, c->in[0], true);
    return finish(&j);
}

/* "{}" the next item, "{3}" one by its number, "{{" and "}}" braces. */
static int format(td_prim_call *c)
{
    joined j = begin(c);
    text f = in_text(c, 0);
    uint32_t next = 0;
    for (uint32_t k = 0; k < f.n && !j.rc; k++) {
        char x = f.at[k];
        if (x != '{' && x != '}') {
            put(&j, f.at + k, 1);
        } else if (k + 1 < f.n && f.at[k + 1] == x) {
            put(&j, f.at + k++, 1);
        } else {
            uint32_t number = 0, from = k + 1, to = from;
            for (; x == '{' && to < f.n && f.at[to] >= '0' && f.at[to] <= '9' && number < 1000000; to++)
                number = number * 10 + (uint32_t)(f.at[to] - '0');
            if (x == '}' || to == f.n || f.at[to] != '}')
                j.rc = td_fail(c->e, TD_E_INVALID, "a format has fields {} and {0} only, and {{ or }} for a brace");
            else if ((number = to == from ? next++ : number) >= c->nin - 1)
                j.rc = td_fail(c->e, TD_E_INVALID, "a format wants item %u of %u", number, c->nin - 1);
            else put_value(&j, c->in[number + 1], false);
            k = to;
        }
    }
    return finish(&j);
}

/* ---- characters */

static bool begins(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

static int64_t count_chars(text t)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < t.n; k++) n += begins(t.at[k]);
    return n;
}

/* Where character `index` begins; of the one behind the last, the end. */
static uint32_t byte_of(text t, int64_t index)
{
    uint32_t k = 0;
    while (k < t.n && !begins(t.at[k])) k++;
    for (; index > 0 && k < t.n; index--) {
        k++;
        while (k < t.n && !begins(t.at[k])) k++;
    }
    return k;
}

static int len(td_prim_call *c)
{
    return td_prim_int(c, count_chars(in_text(c, 0)));
}

static int getitem(td_prim_call *c)
{
    text t = in_text(c, 0);
    int64_t n = count_chars(t), index = c->in[1]->i, at = index < 0 ? index + n : index;
    if (at < 0 || at >= n)
        return td_fail(c->e, TD_E_INVALID, "text index out of range: %lld of %lld characters", (long long)index,
                       (long long)n);
    uint32_t from = byte_of(t, at);
    return give(c, t.at + from, byte_of(t, at + 1) - from);
}

static int slice(td_prim_call *c)
{
    text t = in_text(c, 0);
    int64_t from, count, step = c->in[3]->i, n = count_chars(t);
    if (td_prim_slice(c, n, &from, &count, &step)) return c->e->code;
    if (step == 1) {
        uint32_t first = byte_of(t, from);
        return give(c, t.at + first, byte_of(t, from + count) - first);
    }
    uint32_t *starts = malloc(((size_t)n + 1) * sizeof *starts), used = 0;
    char *taken = malloc(t.n + 1u);
    for (uint32_t k = 0, i = 0; starts && k <= t.n; k++)
        if (k == t.n || begins(t.at[k])) starts[i++] = k;
    for (int64_t k = 0; starts && taken && k < count; k++) {
        int64_t i = from + k * step;
        memcpy(taken + used, t.at + starts[i], starts[i + 1] - starts[i]);
        used += starts[i + 1] - starts[i];
    }
    int rc = starts && taken ? give(c, taken, used) : td_no_memory(c->e, "for a part of a text");
    free(starts);
    free(taken);
    return rc;
}

/* A text that is one character, as its number. */
static uint32_t number_of(text t)
{
    const unsigned char *b = (const unsigned char *)t.at;
    uint32_t v = t.n == 1 ? b[0] : b[0] & (0xffu >> (t.n + 1));
    for (uint32_t k = 1; k < t.n; k++) v = v << 6 | (b[k] & 0x3f);
    return v;
}

/* And back: how many bytes it takes. */
static uint32_t char_of(uint32_t v, char out[4])
{
    uint32_t n = v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
    for (uint32_t k = n; k-- > 1; v >>= 6) out[k] = (char)(0x80 | (v & 63));
    out[0] = (char)(n == 1 ? v : (0xf00u >> n & 0xf0) | v);
    return n;
}

static int ord(td_prim_call *c)
{
    text t = in_text(c, 0);
    if (count_chars(t) != 1 || !begins(t.at[0]) || t.n > 4)
        return td_fail(c->e, TD_E_INVALID, "ord() takes a text of one character");
    return td_prim_int(c, number_of(t));
}

static int chr(td_prim_call *c)
{
    int64_t v = c->in[0]->i;
    char shown[4];
    if (v < 0 || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
        return td_fail(c->e, TD_E_INVALID, "there is no character %lld", (long long)v);
    return give(c, shown, char_of((uint32_t)v, shown));
}

/* ---- parts */

static int64_t find_from(text t, text part, uint32_t from)
{
    if (part.n > t.n || from > t.n - part.n) return -1;
    const char *in = t.at + from, *at = in;
    if (part.n == 1) at = memchr(in, part.at[0], t.n - from);
    else if (part.n) at = memmem(in, t.n - from, part.at, part.n);
    return at ? at - t.at : -1;
}

static int find(td_prim_call *c)
{
    text t = in_text(c, 0);
    int64_t at = find_from(t, in_text(c, 1), 0);
    return td_prim_int(c, at < 0 ? -1 : count_chars((text){t.at, (uint32_t)at}));
}

static int contains(td_prim_call *c)
{
    return td_prim_bool(c, find_from(in_text(c, 0), in_text(c, 1), 0) >= 0);
}

static int count(td_prim_call *c)
{
    text t = in_text(c, 0), part = in_text(c, 1);
    int64_t n = 0;
    if (!part.n) return td_prim_int(c, count_chars(t) + 1);
    for (int64_t at = find_from(t, part, 0); at >= 0; at = find_from(t, part, (uint32_t)at + part.n)) n++;
    return td_prim_int(c, n);
}

static int startswith(td_prim_call *c)
{
    text t = in_text(c, 0), part = in_text(c, 1);
    return td_prim_bool(c, part.n <= t.n && memcmp(t.at, part.at, part.n) == 0);
}

static int endswith(td_prim_call *c)
{
    text t = in_text(c, 0), part = in_text(c, 1);
    return td_prim_bool(c, part.n <= t.n && memcmp(t.at + t.n - part.n, part.at, part.n) == 0);
}

static int replace(td_prim_call *c)
{
    text t = in_text(c, 0), old = in_text(c, 1), by = in_text(c, 2);
    joined j = begin(c);
    uint32_t from = 0;
    for (uint32_t to = 0; !old.n && from < t.n && !j.rc; from = to) { /* in front of each character */
        for (to++; to < t.n && !begins(t.at[to]);) to++;
        put(&j, by.at, by.n);
        put(&j, t.at + from, to - from);
    }
    if (!old.n) {
        put(&j, by.at, by.n);
        return finish(&j);
    }
    for (int64_t at = find_from(t, old, 0); at >= 0 && !j.rc; at = find_from(t, old, from)) {
        put(&j, t.at + from, (size_t)at - from);
        put(&j, by.at, by.n);
        from = (uint32_t)at + old.n;
    }
    put(&j, t.at + from, t.n - from);
    return finish(&j);
}

/* Of two or three bytes: U+0085, 00a0, 1680, 2000 to 200a, 2028, 2029, 202f, 205f, 3000. */
static uint32_t wide_blank(const unsigned char *b, uint32_t n)
{
    if (n >= 2 && b[0] == 0xc2) return b[1] == 0x85 || b[1] == 0xa0 ? 2 : 0;
    if (n < 3 || b[0] < 0xe1 || b[0] > 0xe3) return 0;
    unsigned v = (unsigned)b[1] << 8 | b[2];
    bool is = b[0] == 0xe1   ? v == 0x9a80
              : b[0] == 0xe3 ? v == 0x8080
                             : (v >= 0x8080 && v <= 0x808a) || v == 0x80a8 || v == 0x80a9 || v == 0x80af || v == 0x819f;
    return is ? 3 : 0;
}

/* How many bytes a blank has that stands there; 0: it is none. */
static uint32_t blank(text t, uint32_t k)
{
    if (k >= t.n) return 0;
    char x = t.at[k];
    if (x & 0x80) return wide_blank((const unsigned char *)t.at + k, t.n - k);
    return x == ' ' || (x >= '\t' && x <= '\r') || (x >= 0x1c && x <= 0x1f);
}

static int strip(td_prim_call *c, bool left, bool right)
{
    text t = in_text(c, 0);
    while (left && blank(t, 0)) {
        uint32_t n = blank(t, 0);
        t.at += n, t.n -= n;
    }
    while (right && t.n) {
        uint32_t k = t.n - 1;
        while (k && !begins(t.at[k])) k--;
        if (!blank(t, k)) break;
        t.n = k;
    }
    return give(c, t.at, t.n);
}

static int strip_both(td_prim_call *c)
{
    return strip(c, true, true);
}

static int strip_left(td_prim_call *c)
{
    return strip(c, true, false);
}

static int strip_right(td_prim_call *c)
{
    return strip(c, false, true);
}

/* ---- several */

static int add(td_prim_call *c)
{
    text a = in_text(c, 0), b = in_text(c, 1);
    joined j = begin(c);
    put(&j, a.at, a.n);
    put(&j, b.at, b.n);
    return finish(&j);
}

static int mul(td_prim_call *c)
{
    text t = in_text(c, 0);
    int64_t times = c->in[1]->i < 0 ? 0 : c->in[1]->i;
    if (t.n && times > TD_VAL_CHARS / t.n) times = TD_VAL_CHARS / t.n + 1;
    int rc = td_val_box(c->purse, TD_T_STR, t.n * (uint32_t)times, c->out, c->e); /* one that is too long is refused */
    for (int64_t k = 0; t.n && k < times && !rc; k++) memcpy(c->out->box->chars + k * t.n, t.at, t.n);
    return rc;
}

static int join(td_prim_call *c)
{
    text between = in_text(c, 0);
    const td_boxed *all = c->in[1]->box;
    joined j = begin(c);
    for (uint32_t k = 0; k < all->n && !j.rc; k++) {
        if (all->items[k].kind != TD_T_STR) j.rc = td_fail(c->e, TD_E_INVALID, "join() of what is no text");
        if (j.rc) break;
        if (k) put(&j, between.at, between.n);
        put(&j, all->items[k].box->chars, all->items[k].box->n);
    }
    return finish(&j);
}

enum { PARTS = 1 << 10 }; /* of a text that is split, in one step */

static int push_part(td_prim_call *c, const char *at, size_t n)
{
    td_val part = td_val_none();
    td_boxed *list = c->kept->made.box;
    int rc = td_val_room(c->purse, list, 1, c->e);
    if (!rc) rc = td_val_text(c->purse, at, n, &part, c->e);
    if (!rc) td_val_push(list, part);
    return rc;
}

/* The list that is made in steps. */
static int parts_of(td_prim_call *c)
{
    return c->kept->made.kind == TD_T_LIST ? TD_OK : td_val_box(c->purse, TD_T_LIST, 0, &c->kept->made, c->e);
}

static int give_parts(td_prim_call *c)
{
    c->out[0] = c->kept->made;
    c->kept->made = td_val_none();
    return TD_OK;
}

static int split_by(td_prim_call *c)
{
    text t = in_text(c, 0), by = in_text(c, 1);
    if (!by.n) return td_fail(c->e, TD_E_INVALID, "split() by an empty text");
    uint32_t from = (uint32_t)c->kept->at, left = PARTS;
    int rc = parts_of(c);
    int64_t at = find_from(t, by, from);
    for (; at >= 0 && !rc && left; at = find_from(t, by, from), left--) {
        rc = push_part(c, t.at + from, (size_t)at - from);
        from = (uint32_t)at + by.n;
    }
    if (rc) return rc;
    c->kept->at = from;
    if (at >= 0) return TD_EXEC_MORE;
    rc = push_part(c, t.at + from, t.n - from);
    return rc ? rc : give_parts(c);
}

static int split_blanks(td_prim_call *c)
{
    enum { BYTES = 1 << 14, PART = BYTES / PARTS }; /* of a step; what a part counts as */
    text t = in_text(c, 0);
    uint32_t from = (uint32_t)c->kept->at, k = (uint32_t)(c->kept->at >> 32); /* where a word begins; how far that is */
    int left = BYTES, rc = parts_of(c);
    while (k < t.n && !rc && left > 0) {
        for (; k < t.n && left > 0 && !blank(t, k); k++) left--;
        if (k < t.n && !blank(t, k)) break; /* in the midst of a word */
        if (k > from) rc = push_part(c, t.at + from, k - from), left -= PART;
        for (uint32_t n; (n = blank(t, k)) != 0; left--) k += n;
        from = k;
    }
    if (rc) return rc;
    c->kept->at = (uint64_t)k << 32 | from;
    return k < t.n ? TD_EXEC_MORE : give_parts(c);
}

/* ---- large and small letters */

enum { SIGMA = 0x3a3, LAST_SIGMA = 0x3c2, I_WITH_DOT = 0x130 };

/* The character that begins there. */
static text char_at(text t, uint32_t k)
{
    uint32_t to = k + 1;
    while (to < t.n && to - k < 4 && !begins(t.at[to])) to++;
    return (text){t.at + k, to - k};
}

static bool is_cased(uint32_t letter)
{
    return letter == I_WITH_DOT || td_letter_small(letter) != letter || td_letter_large(letter) != letter ||
           td_letters_large(letter);
}

/* What stands in words and is no letter of two cases. */
static bool is_passed_over(uint32_t letter)
{
    return letter == '\'' || letter == '.' || letter == ':' || letter == '^' || letter == '`' || letter == 0xa8 ||
           letter == 0xad || letter == 0xaf || letter == 0xb4 || letter == 0xb7 || letter == 0xb8 ||
           (letter >= 0x300 && letter < 0x370 && letter != 0x345) || letter == 0x2018 || letter == 0x2019;
}

/* Does the sigma at k end a word: with a letter before it, and none behind? */
static bool ends_word(text t, uint32_t k)
{
    uint32_t to = k + 2, from = k;
    bool before = false;
    while (from && !before) {
        for (from--; from && !begins(t.at[from]);) from--;
        uint32_t letter = number_of(char_at(t, from));
        if (is_passed_over(letter)) continue; /* soon told, and there may be many */
        before = is_cased(letter);
        if (!before) break;
    }
    for (; before && to < t.n; to += char_at(t, to).n) {
        uint32_t letter = number_of(char_at(t, to));
        if (is_passed_over(letter)) continue;
        return !is_cased(letter);
    }
    return before;
}

static void put_small(joined *j, text t, uint32_t k)
{
    uint32_t letter = number_of(char_at(t, k));
    char shown[4];
    if (letter == I_WITH_DOT) {
        put(j, "i\u0307", 3);
        return;
    }
    letter = letter == SIGMA && ends_word(t, k) ? LAST_SIGMA : td_letter_small(letter);
    put(j, shown, char_of(letter, shown));
}

static void put_large(joined *j, text t, uint32_t k)
{
    uint32_t letter = number_of(char_at(t, k));
    const char *several = td_letters_large(letter);
    char shown[4];
    if (several) put_word(j, several);
    else put(j, shown, char_of(td_letter_large(letter), shown));
}

static int change_case(td_prim_call *c, uint32_t (*ascii)(uint32_t), void (*put_one)(joined *, text, uint32_t))
{
    text t = in_text(c, 0);
    uint32_t from = (uint32_t)(c->kept->at >> 32); /* where the last step ended; below it its parts are counted */
    if (from || count_chars(t) != t.n) {
        c->kept->at = (uint32_t)c->kept->at;
        joined j = begin(c);
        j.part = j.there;
        while (from < t.n && !j.rc) {
            put_one(&j, t, from);
            if (!j.rc) from += char_at(t, from).n;
        }
        int rc = finish(&j);
        if (rc == TD_EXEC_MORE) c->kept->at |= (uint64_t)from << 32;
        return rc;
    }
    int rc = give(c, t.at, t.n);
    for (uint32_t k = 0; k < t.n && !rc; k++) c->out->box->chars[k] = (char)ascii((unsigned char)t.at[k]);
    return rc;
}

static int lower(td_prim_call *c)
{
    return change_case(c, td_letter_small, put_small);
}

static int upper(td_prim_call *c)
{
    return change_case(c, td_letter_large, put_large);
}

td_prim_fn *const td_prims_text[TD_PRIM_COUNT] = {
    [TD_PRIM_PRINT] = print,
    [TD_PRIM_STR] = td_prim_str,
    [TD_PRIM_REPR] = repr,
    [TD_PRIM_FORMAT] = format,
    [TD_PRIM_ADD_STR] = add,
    [TD_PRIM_MUL_STR] = mul,
    [TD_PRIM_LEN_STR] = len,
    [TD_PRIM_GETITEM_STR] = getitem,
    [TD_PRIM_SLICE_STR] = slice,
    [TD_PRIM_CONTAINS_STR] = contains,
    [TD_PRIM_COUNT_STR] = count,
    [TD_PRIM_FIND] = find,
    [TD_PRIM_STARTSWITH] = startswith,
    [TD_PRIM_ENDSWITH] = endswith,
    [TD_PRIM_REPLACE] = replace,
    [TD_PRIM_STRIP_BOTH] = strip_both,
    [TD_PRIM_STRIP_LEFT] = strip_left,
    [TD_PRIM_STRIP_RIGHT] = strip_right,
    [TD_PRIM_JOIN] = join,
    [TD_PRIM_SPLIT_BY] = split_by,
    [TD_PRIM_SPLIT_BLANKS] = split_blanks,
    [TD_PRIM_LOWER] = lower,
    [TD_PRIM_UPPER] = upper,
    [TD_PRIM_ORD] = ord,
    [TD_PRIM_CHR] = chr,
};
