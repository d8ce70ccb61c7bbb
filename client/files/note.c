/* See note.h. */
#include "client/files/note.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (UINT64_C(1) << 30)

int td_bytes_put(td_bytes *b, const void *bytes, size_t n, const char *what, td_error *e)
{
    if (b->room - b->n < n) {
        size_t room = 2 * b->room + n + 256;
        unsigned char *more = room < MOST_BYTES ? realloc(b->at, room) : NULL;
        if (!more) return td_no_memory(e, "for %s", what);
        b->at = more;
        b->room = room;
    }
    if (n) memcpy(b->at + b->n, bytes, n);
    b->n += n;
    return TD_OK;
}

static int strange(td_error *e)
{
    return td_fail(e, TD_E_INVALID, "the tree is none that a binding packs");
}

/* A text that stands so many bytes before this step: that step again. */
static int recall(td_note *t, td_note_step *out, td_error *e)
{
    const unsigned char *here = t->at - 1, *behind = here + 1 + sizeof out->n;
    if ((size_t)(t->end - t->at) < sizeof out->n) return strange(e);
    memcpy(&out->n, t->at, sizeof out->n);
    if (out->n <= 0 || out->n > here - t->begin || !strchr("sbI", here[-out->n])) return strange(e);
    td_note there = {here - out->n, here, t->begin};
    t->at = behind;
    return td_note_next(&there, out, e);
}

int td_note_next(td_note *t, td_note_step *out, td_error *e)
{
    if (t->at == t->end) return strange(e);
    *out = (td_note_step){.kind = (char)*t->at++};
    size_t left = (size_t)(t->end - t->at), size = 0;
    switch (out->kind) {
    case 'N':
    case 'T':
    case 'F':
    case 'm': return TD_OK;
    case 'r': return recall(t, out, e);
    case 'f':
    case 'c':
        size = out->kind == 'f' ? sizeof out->f[0] : sizeof out->f;
        if (left < size) return strange(e);
        memcpy(out->f, t->at, size);
        break;
    case 'i':
    case 'x':
    case 's':
    case 'b':
    case 'I':
    case 'l':
    case 't':
    case 'd':
        size = sizeof out->n;
        if (left < size) return strange(e);
        memcpy(&out->n, t->at, size);
        if (out->kind != 'i' && (out->n < 0 || (out->kind != 'x' && (size_t)out->n > left - size))) return strange(e);
        if (!strchr("sbI", out->kind)) break;
        out->text = (const char *)t->at + size;
        size += (size_t)out->n;
        break;
    default: return strange(e);
    }
    t->at += size;
    return TD_OK;
}

static bool is_text(const td_note_step *s, const char *text)
{
    return (size_t)s->n == strlen(text) && memcmp(s->text, text, (size_t)s->n) == 0;
}

int td_note_plain(td_note *t, td_note_step *out, td_error *e)
{
    int rc = td_note_next(t, out, e);
    if (rc || out->kind != 'm') return rc;
    td_note_step parts, kind;
    if ((rc = td_note_next(t, &parts, e)) || (rc = td_note_next(t, &kind, e))) return rc;
    if (parts.kind != 't' || kind.kind != 's') return strange(e);
    bool ordered = is_text(&kind, "OrderedDict");
    if (!ordered && !is_text(&kind, "Parameter")) {
        out->text = kind.text, out->n = kind.n;
        return TD_OK;
    }
    rc = td_note_next(t, out, e);
    out->more = ordered;
    return rc || out->kind == (ordered ? 'd' : 'x') ? rc : strange(e);
}

int td_note_skip(td_note *t, td_error *e)
{
    for (int64_t left = 1; left > 0; left--) {
        td_note_step s;
        int rc = td_note_next(t, &s, e);
        if (rc) return rc;
        left += s.kind == 'm' ? 1 : s.kind == 'l' || s.kind == 't' ? s.n : s.kind == 'd' ? 2 * s.n : 0;
    }
    return TD_OK;
}
