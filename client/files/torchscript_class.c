/* Modules within modules, as the names of tensors say: their classes in code, and their objects in data.pkl. */
#include "client/files/torchscript_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST_MODULE = TD_TREE_DEEPEST - 4, MOST_MODULES = 1 << 14 };

typedef struct part { /* a tensor, or a module */
    const char *name;
    size_t length;
    int64_t tensor; /* -1: a module */
    bool parameter;
    uint32_t class, first, last, next, n; /* of a module: its parts, by number; 0 is none */
} part;

struct td_classes {
    part *at; /* 0 is the outermost */
    uint32_t n, room, classes;
    td_error *e;
};

static uint32_t add(td_classes *t, uint32_t to, const char *name, size_t length)
{
    if (!td_plain_room(&t->at, t->n, &t->room, sizeof *t->at, t->e)) return 0;
    uint32_t k = t->n++;
    t->at[k] = (part){.name = name, .length = length, .tensor = -1};
    if (!k) return 0;
    part *home = &t->at[to];
    if (home->last) t->at[home->last].next = k;
    else home->first = k;
    home->last = k;
    home->n++;
    return k;
}

static uint32_t find(const td_classes *t, uint32_t in, const char *name, size_t length)
{
    uint32_t k = t->at[in].first;
    while (k && (t->at[k].length != length || memcmp(t->at[k].name, name, length) != 0)) k = t->at[k].next;
    return k;
}

static bool refuse(td_classes *t, const char *why, const char *name, size_t n)
{
    return td_fail(t->e, TD_E_UNSUPPORTED, "the tensor '%.*s' %s", (int)(n < 80 ? n : 80), name, why) == TD_OK;
}

/* The module that holds it, by the parts of its name; they are made where they are not. */
static bool place(td_classes *t, const char *name, size_t n, int64_t tensor, bool parameter)
{
    uint32_t at = 0, depth = 0;
    const char *part_of = name, *dot;
    while ((dot = memchr(part_of, '.', n - (size_t)(part_of - name)))) {
        uint32_t inner = find(t, at, part_of, (size_t)(dot - part_of));
        if (!inner) {
            inner = add(t, at, part_of, (size_t)(dot - part_of));
            if (inner) t->at[inner].class = t->classes++;
        }
        if (!inner) return false;
        if (t->at[inner].tensor >= 0 || dot == part_of || t->classes > MOST_MODULES || ++depth > DEEPEST_MODULE)
            return refuse(t, "has a name that is no path of attributes there", name, n);
        at = inner, part_of = dot + 1;
    }
    size_t rest = n - (size_t)(part_of - name);
    bool taken = find(t, at, part_of, rest) || (rest == 8 && memcmp(part_of, "training", rest) == 0);
    if (!rest || taken) return refuse(t, "has a name that is no path of attributes there", name, n);
    uint32_t k = add(t, at, part_of, rest);
    if (!k) return false;
    t->at[k].tensor = tensor, t->at[k].parameter = parameter;
    return true;
}

static bool place_next(td_classes *t, td_note *tree)
{
    td_note_step name, x, parts;
    if (td_note_next(tree, &name, t->e) || td_note_next(tree, &x, t->e)) return false;
    bool parameter = x.kind == 'm';
    if (parameter &&
        (td_note_next(tree, &parts, t->e) || td_note_next(tree, &parts, t->e) || td_note_next(tree, &x, t->e)))
        return false;
    if (name.kind != 's' || x.kind != 'x') return td_fail(t->e, TD_E_UNSUPPORTED, "its tensors are no dict") == TD_OK;
    return place(t, name.text, (size_t)name.n, x.n, parameter);
}

td_classes *td_classes_new(td_note tree, td_error *e)
{
    td_classes *t = calloc(1, sizeof *t);
    td_note_step dict;
    if (!t) td_no_memory(e, "for the code of a program");
    if (!t) return NULL;
    t->e = e;
    t->classes = 1;
    add(t, 0, "", 0);
    bool good = !e->code && td_note_next(&tree, &dict, e) == TD_OK;
    if (good && dict.kind != 'd') td_fail(e, TD_E_UNSUPPORTED, "its tensors are no dict");
    for (int64_t k = 0; good && !e->code && k < dict.n; k++) good = place_next(t, &tree);
    if (good && !e->code) return t;
    td_classes_free(t);
    return NULL;
}

void td_classes_free(td_classes *t)
{
    if (!t) return;
    free(t->at);
    free(t);
}

bool td_classes_has(const td_classes *t, const char *name)
{
    return find(t, 0, name, strlen(name)) != 0;
}

uint32_t td_classes_count(const td_classes *t)
{
    return t->classes;
}

/* ---- code */

static void print_list(const td_classes *t, const part *m, td_print *p, bool parameters)
{
    td_printf(p, "\n  __%s__ = [", parameters ? "parameters" : "buffers");
    for (uint32_t k = m->first; k; k = t->at[k].next) {
        const part *x = &t->at[k];
        if (x->tensor < 0 || x->parameter != parameters) continue;
        td_coding_text(p, x->name, x->length);
        td_printf(p, ", ");
    }
    td_printf(p, "]");
}

static void print_attribute(const part *x, td_print *p)
{
    char class[24];
    bool word = td_coding_is_word(x->name, x->length);
    snprintf(class, sizeof class, x->tensor < 0 ? "__torch__.Part%u" : "Tensor", x->class);
    td_printf(p, word ? "\n  " : "\n  __annotations__[");
    if (word) td_print_bytes(p, x->name, x->length);
    else td_coding_text(p, x->name, x->length);
    td_printf(p, word ? " : %s" : "] = %s", class);
}

void td_classes_print(const td_classes *t, uint32_t class, td_print *p)
{
    uint32_t k = 0;
    while (t->at[k].tensor >= 0 || t->at[k].class != class) k++;
    const part *m = &t->at[k];
    if (class) td_printf(p, "\nclass Part%u(Module):", class);
    else td_printf(p, "class Program(Module):");
    print_list(t, m, p, true);
    print_list(t, m, p, false);
    td_printf(p, "\n  __annotations__ = []\n  training : bool");
    for (k = m->first; k; k = t->at[k].next) print_attribute(&t->at[k], p);
}

/* ---- objects */

static bool put(const td_classes *t, td_bytes *to, const char *kind, int64_t n, const char *text)
{
    return td_bytes_put(to, kind, 1, "a tree", t->e) == TD_OK &&
           td_bytes_put(to, &n, sizeof n, "a tree", t->e) == TD_OK &&
           (!text || td_bytes_put(to, text, (size_t)n, "a tree", t->e) == TD_OK);
}

/* As torch_write.c takes it: "Module", its class, its attributes. */
static bool put_module(const td_classes *t, td_bytes *to,
                       uint32_t module) /* NOLINT(misc-no-recursion): DEEPEST_MODULE */
{
    const part *m = &t->at[module];
    char class[24];
    snprintf(class, sizeof class, m->class ? "Part%u" : "Program", m->class);
    bool good = td_bytes_put(to, "m", 1, "a tree", t->e) == TD_OK && put(t, to, "t", 3, NULL) &&
                put(t, to, "s", 6, "Module") && put(t, to, "s", (int64_t)strlen(class), class) &&
                put(t, to, "d", m->n + 1, NULL) && put(t, to, "s", 8, "training") &&
                td_bytes_put(to, "F", 1, "a tree", t->e) == TD_OK;
    for (uint32_t k = m->first; good && k; k = t->at[k].next) {
        const part *x = &t->at[k];
        good = put(t, to, "s", (int64_t)x->length, x->name);
        if (good) good = x->tensor < 0 ? put_module(t, to, k) : put(t, to, "x", x->tensor, NULL);
    }
    return good;
}

bool td_classes_note(const td_classes *t, td_bytes *out)
{
    return put_module(t, out, 0);
}
