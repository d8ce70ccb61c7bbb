/* Modules of a TorchScript archive, and the names of their tensors. See scripted.h. */
#include "client/files/scripted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the pickles make */

/* An object without attributes: BUILD sets these. */
static int make_module(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    td_file *t = p->context;
    if (args->n) return td_fail(e, TD_E_UNSUPPORTED, "an object of %.120s is made with arguments", name->text);
    if (t->nmodules == TD_SCRIPTED_MODULES)
        return td_fail(e, TD_E_QUOTA, "the program has more than %d modules", TD_SCRIPTED_MODULES);
    td_plain *x = td_plain_new(p, TD_PLAIN_WRAPPED, e), *class = td_plain_new(p, TD_PLAIN_OBJECT, e);
    if (!x || !class || !td_plain_room(&t->modules, t->nmodules, &t->module_room, sizeof *t->modules, e))
        return e->code;
    x->made = TD_COAT_MODULE;
    class->made = TD_MADE_CLASS, class->i = t->nmodules;
    t->modules[t->nmodules++] = (td_file_module){.class = name->text, .at = x};
    *out = x;
    return td_plain_add(p, x, class, e);
}

/* A list, and what type it has: that the code says, too. */
static int make_tagged(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e)
{
    (void)p;
    if ((int64_t)args->n != name->value)
        return td_fail(e, TD_E_INVALID, "the arguments of %s are not those that it takes", name->text);
    *out = args->items[0];
    return TD_OK;
}

/* A class, by the name that this file has for it. */
static const td_pickle_name *new_class(td_file *t, const char *text, td_error *e)
{
    size_t n = strlen(text) + 1;
    td_pickle_name *made = NULL;
    if (!td_plain_room(&t->classes, t->nclasses, &t->class_room, sizeof *t->classes, e)) return NULL;
    if (!(made = malloc(sizeof *made + n))) {
        td_no_memory(e, "for the classes of a program");
        return NULL;
    }
    char *own = memcpy(made + 1, text, n);
    *made = (td_pickle_name){.text = own, .make = make_module};
    t->classes[t->nclasses++] = made;
    return made;
}

const td_pickle_name *td_scripted_class(td_pickle *p, const char *text, td_error *e)
{
    static const td_pickle_name tagged[] = {{"torch.jit._pickle restore_type_tag", make_tagged, 2},
                                            {"torch.jit._pickle build_intlist", make_tagged, 1},
                                            {"torch.jit._pickle build_doublelist", make_tagged, 1},
                                            {"torch.jit._pickle build_boollist", make_tagged, 1},
                                            {"torch.jit._pickle build_tensorlist", make_tagged, 1}};
    for (unsigned i = 0; i < sizeof tagged / sizeof *tagged; i++)
        if (strcmp(tagged[i].text, text) == 0) return &tagged[i];
    return strncmp(text, "__torch__", 9) == 0 ? new_class(p->context, text, e) : NULL;
}

void td_scripted_close(td_file *t)
{
    for (uint32_t i = 0; i < t->nclasses; i++) free(t->classes[i]);
    for (uint32_t i = 0; i < t->nmodules; i++) free(t->modules[i].title);
    for (uint32_t i = 0; i < t->ntensors; i++) free(t->tensors[i].name);
    free(t->classes);
    free(t->modules);
}

/* ---- what stands where */

bool td_scripted_is_module(const td_plain *x, uint32_t *module)
{
    if (x->kind != TD_PLAIN_WRAPPED || x->made != TD_COAT_MODULE) return false;
    *module = (uint32_t)x->items[0]->i;
    return true;
}

const td_plain *td_scripted_attributes(const td_file *t, uint32_t module)
{
    static const td_plain none = {.kind = TD_PLAIN_DICT};
    const td_plain *x = t->modules[module].at;
    return x->n > 1 ? x->items[1] : &none;
}

typedef struct naming {
    td_file *file;
    td_plain *flat;
    uint32_t *first, *next; /* tensors that have a name, by storage; plus 1 */
    uint32_t n;
    td_error *e;
    uint32_t steps;
} naming;

/* "title.key", to be freed. */
static char *joined(const char *title, const char *key, td_error *e)
{
    char text[TD_SCRIPTED_NAME], *copy = NULL;
    int n = snprintf(text, sizeof text, "%s%s%s", title, *title ? "." : "", key);
    if (n < 0 || (size_t)n >= sizeof text)
        td_fail(e, TD_E_QUOTA, "the name '%.80s'... of an attribute has more than %d bytes", text, TD_SCRIPTED_NAME);
    else if (!(copy = strdup(text))) td_no_memory(e, "for the names of a program");
    return copy;
}

static bool same_place(const td_desc *a, const td_desc *b)
{
    size_t each = a->ndim * sizeof *a->shape;
    return a->ndim == b->ndim && a->offset == b->offset && memcmp(a->shape, b->shape, each) == 0 &&
           memcmp(a->stride, b->stride, each) == 0;
}

/* One that was named before and is the same: a list of a module's weights holds them a second time. */
static const td_file_tensor *twin(const naming *m, const td_file_tensor *t)
{
    enum { MOST = 64 };
    uint32_t k = m->first[t->storage];
    for (int i = 0; k && i < MOST; i++, k = m->next[k - 1]) {
        const td_file_tensor *other = &m->file->tensors[k - 1];
        if (same_place(&other->desc, &t->desc) && other->conj == t->conj && other->neg == t->neg) return other;
    }
    return NULL;
}

/* The dict's: the name lives as long as the pickle. */
static bool add_name(naming *m, td_plain *x, const char *name)
{
    td_pickle *p = &m->file->pickle;
    uint32_t n = (uint32_t)strlen(name);
    td_plain *key = td_plain_new(p, TD_PLAIN_TEXT, m->e);
    char *text = key ? td_plain_text(p, n, m->e) : NULL;
    if (!text) return false;
    key->text = memcpy(text, name, (size_t)n + 1), key->n = n;
    return td_plain_add(p, m->flat, key, m->e) == TD_OK && td_plain_add(p, m->flat, x, m->e) == TD_OK;
}

/* Takes the name over. */
static bool name_tensor(naming *m, td_plain *x, char *name, bool attribute)
{
    td_file_tensor *t = &m->file->tensors[x->i];
    const td_file_tensor *other = name && !t->name ? twin(m, t) : NULL;
    if (name && t->name && m->file->every_name) {
        bool good = add_name(m, x, name);
        free(name);
        return good;
    }
    if (!name || t->name || other) {
        free(name);
        if (name && other) t->name = strdup(other->name);
        return name && (t->name || td_no_memory(m->e, "for the names of a program") == 0);
    }
    if (++m->n > TD_SCRIPTED_TENSORS) {
        td_fail(m->e, TD_E_QUOTA, "the program has more than %d tensors", TD_SCRIPTED_TENSORS);
        free(name);
        return false;
    }
    t->name = name;
    t->parameter = attribute && t->requires_grad;
    m->next[x->i] = m->first[t->storage];
    m->first[t->storage] = (uint32_t)x->i + 1;
    return add_name(m, x, name);
}

/* Tensors in lists have numbers: "title.key.0". */
static bool name_items(naming *m, const td_plain *x, const char *name, int depth)
{
    enum { DEEPEST = 4, MOST_STEPS = 1 << 20 };
    for (uint32_t i = 0; depth < DEEPEST && i < x->n; i++) {
        if (++m->steps > MOST_STEPS) /* a list may hold another one many times */
            return td_fail(m->e, TD_E_QUOTA, "the lists of the program have more than %d items", MOST_STEPS) == TD_OK;
        td_plain *item = x->items[i];
        bool tensor = item->kind == TD_PLAIN_OBJECT && item->made == TD_MADE_TENSOR;
        char number[16], *full;
        if (!tensor && item->kind != TD_PLAIN_LIST && item->kind != TD_PLAIN_TUPLE) continue;
        snprintf(number, sizeof number, "%u", i);
        if (!(full = joined(name, number, m->e))) return false;
        bool good = tensor ? name_tensor(m, item, full, false) : name_items(m, item, full, depth + 1);
        if (!tensor) free(full);
        if (!good) return false;
    }
    return true;
}

static bool is_key(const td_plain *key)
{
    return key->kind == TD_PLAIN_TEXT && key->n && strlen(key->text) == key->n && !memchr(key->text, '.', key->n);
}

static bool name_attribute(naming *m, const char *title, uint32_t holder, const td_plain *key, td_plain *x)
{
    uint32_t module;
    bool tensor = x->kind == TD_PLAIN_OBJECT && x->made == TD_MADE_TENSOR, inner = td_scripted_is_module(x, &module);
    bool list = x->kind == TD_PLAIN_LIST || x->kind == TD_PLAIN_TUPLE;
    if ((!tensor && !inner && !list) || (inner && m->file->modules[module].title)) return true;
    if (inner && module < holder)
        return td_fail(m->e, TD_E_INVALID, "a module stands before the one that holds it as '%.80s'", key->text) ==
               TD_OK;
    char *name = joined(title, key->text, m->e);
    if (tensor) return name_tensor(m, x, name, true);
    if (inner) m->file->modules[module].title = name;
    bool good = name && (inner || name_items(m, x, name, 0));
    if (!inner) free(name);
    return good;
}

static int by_chars(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each key is a name, and none is there twice. */
static bool check_keys(naming *m, const td_plain *dict)
{
    const char **keys = malloc((dict->n / 2 + 1) * sizeof *keys);
    uint32_t n = 0;
    bool good = keys;
    if (!keys) td_no_memory(m->e, "for the names of a program");
    for (uint32_t i = 0; good && i + 1 < dict->n; i += 2) {
        good = is_key(dict->items[i]);
        if (good) keys[n++] = dict->items[i]->text;
        else td_fail(m->e, TD_E_INVALID, "the name of an attribute is none");
    }
    if (good && n) qsort(keys, n, sizeof *keys, by_chars);
    for (uint32_t i = 1; good && i < n; i++) {
        good = strcmp(keys[i - 1], keys[i]) != 0;
        if (!good) td_fail(m->e, TD_E_INVALID, "a module has two attributes '%.80s'", keys[i]);
    }
    free(keys);
    return good;
}

/* Modules stand in the order in which they were begun: each behind the first that holds it, as they are written. One
 * that only a later one holds has no title when it is its turn, and is no part of the program. */
static bool name_all(naming *m)
{
    td_file *t = m->file;
    for (uint32_t k = 0; k < t->nmodules; k++) {
        const td_plain *dict = td_scripted_attributes(t, k);
        if (!check_keys(m, dict)) return false;
        for (uint32_t i = 0; t->modules[k].title && i + 1 < dict->n; i += 2)
            if (!name_attribute(m, t->modules[k].title, k, dict->items[i], dict->items[i + 1])) return false;
    }
    return !t->constants || name_items(m, t->constants, "CONSTANTS", 0);
}

int td_scripted_name(td_file *t, td_error *e)
{
    uint32_t first;
    if (!td_scripted_is_module(t->root, &first) || first)
        return td_fail(e, TD_E_UNSUPPORTED, "data.pkl is %s, and no module", td_plain_kind_name(t->root));
    naming m = {.file = t, .flat = td_plain_new(&t->pickle, TD_PLAIN_DICT, e), .e = e};
    m.first = calloc(t->nstorages + 1u, sizeof *m.first);
    m.next = calloc(t->ntensors + 1u, sizeof *m.next);
    t->modules[0].title = strdup("");
    bool room = m.flat && m.first && m.next && t->modules[0].title;
    if (room && name_all(&m)) t->root = m.flat;
    else if (!room && !e->code) td_no_memory(e, "for the names of a program");
    free(m.first);
    free(m.next);
    return e->code;
}
