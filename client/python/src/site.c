/* Call sites: which line of the program asks for an op, as a text that lives for ever.
 *
 * A table over (code object, line) keeps the texts; it holds a reference to each code object, so that no other can have
 * the same address. It is bounded: a program that makes code without end gets its later lines without a place.
 *
 * To find the line of an instruction Python walks through a packed table, which would cost more than all else that a
 * small op does here. So the same table also knows places by (code object, instruction). */
#include "client/python/src/py.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 16, PROBES = 16, MOST = 90 };

typedef struct place {
    PyObject *code;
    int key;   /* its line; or ~instruction, which is negative */
    bool ours; /* a frame of this package: who called it is meant */
    char *text;
} place;

static place *places;

/* Where a frame is in its code. Every CPython has it, from 3.11 on, but the stable ABI does not promise it. */
static int (*last_instruction)(PyFrameObject *frame);

static bool begin(void)
{
    *(void **)&last_instruction = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
    places = calloc(PLACES, sizeof *places);
    return places;
}

static bool is_ours(PyObject *file)
{
    return tdpy.package && PyUnicode_Check(file) && PyUnicode_Tailmatch(file, tdpy.package, 0, PY_SSIZE_T_MAX, -1) == 1;
}

/* The end of a long path says more than its start. */
static char *make_text(PyObject *file, int line)
{
    Py_ssize_t n = 0;
    const char *path = PyUnicode_Check(file) ? PyUnicode_AsUTF8AndSize(file, &n) : NULL;
    if (!path) {
        PyErr_Clear();
        return NULL;
    }
    char text[MOST + 16];
    bool cut = n > MOST - 12;
    const char *from = cut ? path + n - (MOST - 15) : path;
    while (cut && ((unsigned char)*from & 0xC0) == 0x80) from++; /* not in the middle of a letter */
    snprintf(text, sizeof text, "%s%s:%d", cut ? "..." : "", from, line);
    return strdup(text);
}

/* The place of this key, or the one that is free for it; NULL: neither. */
static place *slot_of(PyObject *code, int key)
{
    size_t hash = ((uintptr_t)code >> 4) * UINT64_C(0x9E3779B97F4A7C15) + (size_t)key * UINT64_C(0xC2B2AE3D27D4EB4F);
    for (size_t i = 0; i < PROBES; i++) {
        place *p = &places[((hash >> 32) + i) % PLACES];
        if (!p->code || (p->code == code && p->key == key)) return p;
    }
    return NULL;
}

static void fill(place *p, PyObject *code, int key, bool ours, char *text)
{
    *p = (place){Py_NewRef(code), key, ours, text};
}

static const place *find_line(PyObject *code, int line)
{
    place *p = slot_of(code, line);
    if (!p || p->code) return p;
    PyObject *file = PyObject_GetAttrString(code, "co_filename");
    if (!file) {
        PyErr_Clear();
        return NULL;
    }
    bool ours = is_ours(file);
    fill(p, code, line, ours, ours ? NULL : make_text(file, line));
    Py_DECREF(file);
    return p;
}

static const place *find(PyObject *code, PyFrameObject *frame)
{
    if (!places && !begin()) return NULL;
    int at = last_instruction ? last_instruction(frame) : -1;
    place *p = at >= 0 ? slot_of(code, ~at) : NULL;
    if (p && p->code) return p;
    const place *line = find_line(code, PyFrame_GetLineNumber(frame));
    if (line && p && !p->code) fill(p, code, ~at, line->ours, line->text);
    return line;
}

static const char *text_of(PyFrameObject *frame, bool *ours)
{
    PyObject *code = (PyObject *)PyFrame_GetCode(frame);
    const place *p = find(code, frame);
    Py_DECREF(code);
    *ours = p && p->ours;
    return p ? p->text : NULL;
}

/* Out of the package's own frames. */
static const char *outside(PyFrameObject *inner)
{
    PyObject *frame = Py_NewRef((PyObject *)inner);
    const char *text = NULL;
    bool ours = true;
    while (ours && frame != Py_None) {
        PyObject *back = PyObject_GetAttrString(frame, "f_back");
        Py_DECREF(frame);
        frame = back;
        if (!frame) PyErr_Clear();
        if (!frame) return NULL;
        if (frame != Py_None) text = text_of((PyFrameObject *)frame, &ours);
    }
    Py_DECREF(frame);
    return text;
}

bool tdpy_at_home(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    bool ours = false;
    if (frame) (void)text_of(frame, &ours);
    return ours;
}

const char *tdpy_site(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (!frame) return NULL;
    bool ours;
    const char *text = text_of(frame, &ours);
    return ours ? outside(frame) : text;
}
