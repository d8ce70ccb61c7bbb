/* From an archive of TorchScript to programs. See archive.h.
 *
 * The code becomes units of the front end, modules its objects, their attributes names of values. What some method
 * assigns is a state: all programs of the archive take all states, and give them back (script.h). */
#include "client/files/archive.h"

#include "client/files/json.h"
#include "client/files/scripted.h"
#include "client/script/script.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    MOST_STATES = 1024,
    MOST_ATTRIBUTES = 1 << 17,
    MOST_VALUES = 1 << 20, /* in lists of attributes */
    MOST_LISTED = 4096,    /* parameters or buffers of a class */
    DEEPEST = 16,
    METHODS = 64
};

typedef struct name_set {
    const char **at;
    uint32_t n, room;
} name_set;

typedef struct archive {
    td_file file;
    const td_zip *zip;
    const td_zip_entry *data;
    td_script_unit *units;
    td_ast *trees; /* of the units */
    td_script_object *objects;
    td_script_state *states;
    td_script_name *roots; /* what all units know */
    name_set written;      /* of attributes that code assigns or changes, in order */
    td_bytes tied;         /* as JSON: other names of tensors, and theirs */
    void **taken;          /* memory that lives as long as this */
    uint32_t nunits, nobjects, nstates, nattributes, ntaken, taken_room, nvalues;
    uint64_t code;
    td_error *e;
} archive;

static void *take(archive *a, size_t bytes)
{
    if (!td_plain_room(&a->taken, a->ntaken, &a->taken_room, sizeof *a->taken, a->e)) return NULL;
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) {
        td_no_memory(a->e, "for a program");
        return NULL;
    }
    a->taken[a->ntaken++] = p;
    return p;
}

static void drop(archive *a)
{
    for (uint32_t i = 0; a->trees && i < a->nunits; i++) td_ast_deinit(&a->trees[i]);
    for (uint32_t i = 0; i < a->ntaken; i++) free(a->taken[i]);
    free(a->taken);
    free(a->written.at);
    free(a->tied.at);
    td_file_close(&a->file);
}

/* ---- code */

/* What stands between FOLDER/code/ and .py; its length, 0: it is no code. */
static size_t code_name(const archive *a, const td_zip_entry *en, const char **name)
{
    static const char inside[] = "/code/";
    size_t stem = (size_t)(strchr(a->data->name, '/') - a->data->name), n = strlen(en->name);
    size_t head = stem + sizeof inside - 1;
    if (n < head + 4 || strncmp(en->name, a->data->name, stem) != 0 || strncmp(en->name + stem, inside, 6) != 0 ||
        strcmp(en->name + n - 3, ".py") != 0)
        return 0;
    *name = en->name + head;
    return n - head - 3;
}

static char *read_text(archive *a, const td_zip_entry *en)
{
    uint64_t at;
    uint32_t crc = 0;
    a->code += en->size;
    if (a->code > TD_ARCHIVE_CODE) {
        td_fail(a->e, TD_E_QUOTA, "its code has more than %d bytes", TD_ARCHIVE_CODE);
        return NULL;
    }
    if (td_zip_bytes(a->zip, en, &at, a->e)) return NULL;
    char *text = take(a, (size_t)en->size + 1);
    if (!text) return NULL;
    td_zip_packed packed = {at, en->packed, 0, true};
    int rc = en->method == TD_ZIP_STORED ? td_source_read(a->zip->source, at, text, (size_t)en->size, a->e)
                                         : td_zip_inflate(a->zip->source, &packed, text, (size_t)en->size, NULL, a->e);
    crc = (uint32_t)crc32_z(0, (const unsigned char *)text, (size_t)en->size);
    if (!rc && crc != en->crc)
        rc = td_fail(a->e, TD_E_INVALID, "'%.80s' is damaged: its checksum is another", en->name);
    return rc ? NULL : text;
}

/* code/__torch__/torch/nn.py is __torch__.torch.nn */
static bool add_unit(archive *a, const td_zip_entry *en, const char *name, size_t n)
{
    td_script_unit *u = &a->units[a->nunits];
    char *code = take(a, n + 1), *text = code ? read_text(a, en) : NULL;
    if (!text) return false;
    memcpy(code, name, n);
    for (char *c = code; *c; c++)
        if (*c == '/') *c = '.';
    u->source = (td_script_source){name - 5, text, (size_t)en->size, 1}; /* "code/..." */
    u->code = code;
    return !td_script_parse(&u->source, TD_SCRIPT_CLASSES, &a->trees[a->nunits++], a->e);
}

static bool read_code(archive *a)
{
    const char *name;
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->zip->n; i++) n += code_name(a, &a->zip->entries[i], &name) > 0;
    if (n > TD_ARCHIVE_UNITS)
        return td_fail(a->e, TD_E_QUOTA, "its code has more than %d files", TD_ARCHIVE_UNITS) == TD_OK;
    if (!(a->units = take(a, n * sizeof *a->units)) || !(a->trees = take(a, n * sizeof *a->trees))) return false;
    for (uint32_t i = 0; i < a->zip->n; i++) {
        size_t length = code_name(a, &a->zip->entries[i], &name);
        if (length && !add_unit(a, &a->zip->entries[i], name, length)) return false;
    }
    return true;
}

/* ---- what code assigns */

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static bool add_name(archive *a, name_set *to, const char *name)
{
    if (!td_plain_room(&to->at, to->n, &to->room, sizeof *to->at, a->e)) return false;
    to->at[to->n++] = name;
    return true;
}

static void sort_names(name_set *of)
{
    if (of->n) qsort(of->at, of->n, sizeof *of->at, by_text);
}

static bool has_name(const name_set *in, const char *name)
{
    return in->n && bsearch(&name, in->at, in->n, sizeof name, by_text);
}

/* The list or dict that torch.append(x, ...) and its like change, a name or an attribute; 0: it is another node. */
static uint32_t changed_by(const td_ast *t, uint32_t node)
{
    static const char *const calls[] = {"append", "extend", "insert", "pop",       "clear",  "reverse",
                                        "sort",   "remove", "update", "_set_item", "Delete", "popitem"};
    const td_ast_node *f = td_ast_at(t, td_ast_kid(t, node, 0));
    if (td_ast_at(t, node)->kind != TD_N_CALL || f->kind != TD_N_ATTRIBUTE) return 0;
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(td_ast_text(t, f->text), calls[i]) == 0) return td_ast_kid(t, node, 1);
    return 0;
}

/* "self.x = ...", and "y = self.x" where y is changed somewhere. */
static bool find_assigned(archive *a, const td_ast *t, const name_set *changed)
{
    for (uint32_t n = 0; n < t->nnodes; n++) {
        const td_ast_node *target = td_ast_at(t, td_ast_kid(t, n, 2)), *value = td_ast_at(t, td_ast_kid(t, n, 0));
        if (td_ast_at(t, n)->kind != TD_N_ASSIGN) continue;
        bool same = target->kind == TD_N_NAME && value->kind == TD_N_ATTRIBUTE &&
                    has_name(changed, td_ast_text(t, target->text));
        if (target->kind != TD_N_ATTRIBUTE && !same) continue;
        if (!add_name(a, &a->written, td_ast_text(t, same ? value->text : target->text))) return false;
    }
    return true;
}

static bool find_changed(archive *a, const td_ast *t, name_set *changed)
{
    for (uint32_t n = 0; n < t->nnodes; n++) {
        const td_ast_node *x = td_ast_at(t, changed_by(t, n));
        if (x->kind == TD_N_NAME && !add_name(a, changed, td_ast_text(t, x->text))) return false;
        if (x->kind == TD_N_ATTRIBUTE && !add_name(a, &a->written, td_ast_text(t, x->text))) return false;
    }
    sort_names(changed);
    return true;
}

static bool find_written(archive *a)
{
    bool good = true;
    for (uint32_t u = 0; good && u < a->nunits; u++) {
        name_set changed = {0};
        good = find_changed(a, &a->trees[u], &changed) && find_assigned(a, &a->trees[u], &changed);
        free(changed.at);
    }
    sort_names(&a->written);
    return good;
}

/* ---- attributes as names */

static bool refuse_value(td_script_name *to, const char *why)
{
    to->kind = TD_SN_REFUSED, to->text = why;
    return true;
}

static bool take_value(archive *a, td_script_name *to, const td_plain *x, int depth);

static bool take_items(archive *a, td_script_name *to, const td_plain *x, int depth)
{
    if (depth == DEEPEST || x->n > MOST_VALUES - a->nvalues)
        return refuse_value(to, "this attribute is a list that is too long or too deep for a program");
    a->nvalues += x->n;
    td_script_name *items = take(a, x->n * sizeof *items);
    if (!items) return false;
    for (uint32_t i = 0; i < x->n; i++) {
        if (!take_value(a, &items[i], x->items[i], depth + 1)) return false;
        if (items[i].kind == TD_SN_REFUSED) return refuse_value(to, items[i].text);
    }
    to->kind = x->kind == TD_PLAIN_LIST ? TD_SN_LIST : TD_SN_TUPLE, to->items = items, to->n = x->n;
    return true;
}

static void take_number(td_script_name *to, const td_plain *x)
{
    to->kind = TD_SN_NUMBER;
    if (x->kind == TD_PLAIN_BOOL) to->number = (td_scalar){.kind = TD_S_BOOL, .i = x->i};
    else if (x->kind == TD_PLAIN_INT) to->number = (td_scalar){.kind = TD_S_INT, .i = x->i};
    else if (x->kind == TD_PLAIN_FLOAT) to->number = (td_scalar){.kind = TD_S_FLOAT, .re = x->f[0]};
    else to->number = (td_scalar){.kind = TD_S_COMPLEX, .re = x->f[0], .im = x->f[1]};
}

static bool take_value(archive *a, td_script_name *to, const td_plain *x, int depth) /* NOLINT(misc-no-recursion) */
{
    switch (x->kind) {
    case TD_PLAIN_NONE: to->kind = TD_SN_NONE; return true;
    case TD_PLAIN_BOOL:
    case TD_PLAIN_INT:
    case TD_PLAIN_FLOAT:
    case TD_PLAIN_COMPLEX: take_number(to, x); return true;
    case TD_PLAIN_TEXT:
        to->kind = TD_SN_TEXT, to->text = x->text;
        return strlen(x->text) == x->n || refuse_value(to, "this attribute is a text with a zero byte in it");
    case TD_PLAIN_LIST:
    case TD_PLAIN_TUPLE: return take_items(a, to, x, depth);
    case TD_PLAIN_OBJECT:
        if (x->made != TD_MADE_TENSOR) break;
        to->kind = TD_SN_TENSOR, to->text = a->file.tensors[x->i].name;
        return to->text || refuse_value(to, "this tensor stands in a list that is too deep for a program");
    case TD_PLAIN_WRAPPED:
        if (!td_scripted_is_module(x, &to->object)) break;
        to->kind = TD_SN_OBJECT;
        return true;
    default: break;
    }
    return refuse_value(to, "this attribute is neither plain data, a tensor nor a module, and is not read yet");
}

/* A tensor by itself, or numbers, texts and lists of such. */
static bool can_be_kept(const td_script_name *n) /* NOLINT(misc-no-recursion): as deep as DEEPEST */
{
    if (!td_script_is_plain(n->kind) || (n->kind == TD_SN_NUMBER && n->number.kind == TD_S_COMPLEX)) return false;
    if (n->kind != TD_SN_LIST && n->kind != TD_SN_TUPLE) return true;
    for (uint32_t i = 0; i < n->n; i++)
        if (n->items[i].kind == TD_SN_TENSOR || !can_be_kept(&n->items[i])) return false;
    return true;
}

/* A parameter is trained, and nobody's state, though another class may assign an attribute of its name. */
static bool is_state(const archive *a, const td_script_name *n, const td_plain *x)
{
    if (n->kind == TD_SN_TENSOR && a->file.tensors[x->i].parameter) return false;
    return can_be_kept(n) && has_name(&a->written, n->name);
}

/* "__torch__.torch.nn.modules.linear Linear" */
static bool find_class(archive *a, uint32_t k)
{
    const char *class = a->file.modules[k].class, *blank = strchr(class, ' ');
    td_script_object *o = &a->objects[k];
    for (uint32_t u = 0; blank && u < a->nunits; u++)
        if (strlen(a->units[u].code) == (size_t)(blank - class) &&
            strncmp(a->units[u].code, class, (size_t)(blank - class)) == 0) {
            o->unit = u, o->class = blank + 1;
            return true;
        }
    return td_fail(a->e, TD_E_INVALID, "there is no code of the class '%.120s'", class) == TD_OK;
}

static bool add_state(archive *a, uint32_t module, td_script_name *n)
{
    if (a->nstates == MOST_STATES)
        return td_fail(a->e, TD_E_QUOTA, "its methods assign more than %d attributes", MOST_STATES) == TD_OK;
    a->states[a->nstates] = (td_script_state){.object = module, .name = n->name};
    n->kind = TD_SN_STATE;
    n->number = (td_scalar){.kind = TD_S_INT, .i = a->nstates++};
    return true;
}

static bool add_object(archive *a, uint32_t k)
{
    const td_plain *dict = td_scripted_attributes(&a->file, k);
    a->nattributes += dict->n / 2;
    if (a->nattributes > MOST_ATTRIBUTES)
        return td_fail(a->e, TD_E_QUOTA, "its modules have more than %d attributes", MOST_ATTRIBUTES) == TD_OK;
    td_script_name *names = take(a, (dict->n / 2 + 1) * sizeof *names);
    uint32_t n = 0;
    if (!names || !find_class(a, k)) return false;
    for (uint32_t i = 0; i + 1 < dict->n; i += 2, n++) {
        names[n].name = dict->items[i]->text;
        if (!take_value(a, &names[n], dict->items[i + 1], 0)) return false;
        if (is_state(a, &names[n], dict->items[i + 1]) && !add_state(a, k, &names[n])) return false;
    }
    a->objects[k].names = (td_script_names){names, n};
    a->objects[k].title = a->file.modules[k].title;
    return true;
}

/* CONSTANTS.c0, ... */
static bool add_constants(archive *a, td_script_object *o)
{
    const td_plain *all = a->file.constants;
    td_script_name *names = take(a, (all ? all->n : 0) * sizeof *names);
    char *texts = take(a, (all ? all->n : 0) * (size_t)16);
    if (!names || !texts) return false;
    for (uint32_t i = 0; all && i < all->n; i++, texts += 16) {
        snprintf(texts, 16, "c%u", i);
        names[i].name = texts;
        if (!take_value(a, &names[i], all->items[i], 0)) return false;
    }
    o->names = (td_script_names){names, all ? all->n : 0};
    o->title = "CONSTANTS";
    return true;
}

static bool add_objects(archive *a)
{
    uint32_t n = a->file.nmodules;
    a->objects = take(a, (n + 1u) * sizeof *a->objects);
    a->states = take(a, MOST_STATES * sizeof *a->states);
    if (!a->objects || !a->states) return false;
    for (uint32_t k = 0; k < n; k++)
        if (a->file.modules[k].title && !add_object(a, k)) return false;
    a->nobjects = n + 1;
    return add_constants(a, &a->objects[n]);
}

static bool add_roots(archive *a)
{
    const td_script_name roots[] = {
        {.name = "torch", .kind = TD_SN_ATEN},
        {.name = "ops", .kind = TD_SN_ATEN_OPS},
        {.name = "__torch__", .kind = TD_SN_CODE},
        {.name = "CONSTANTS", .kind = TD_SN_OBJECT, .object = a->file.nmodules},
        {.name = "inf", .kind = TD_SN_NUMBER, .number = {TD_S_FLOAT, .re = __builtin_inf()}},
        {.name = "nan", .kind = TD_SN_NUMBER, .number = {TD_S_FLOAT, .re = __builtin_nan("")}}};
    td_script_name *all = take(a, sizeof roots);
    if (!all) return false;
    memcpy(all, roots, sizeof roots);
    for (uint32_t u = 0; u < a->nunits; u++) a->units[u].names = (td_script_names){all, sizeof roots / sizeof *roots};
    return true;
}

/* ---- how Python calls a method, as JSON */

static bool put(archive *a, td_bytes *b, const char *text)
{
    return td_bytes_put(b, text, strlen(text), "a program", a->e) == TD_OK;
}

static bool put_text(archive *a, td_bytes *b, const char *text)
{
    return td_json_put_text(b, text, strlen(text), a->e) == TD_OK;
}

static bool put_number(archive *a, td_bytes *b, const td_ast_node *n, bool minus)
{
    char text[32];
    if (n->kind == TD_N_FLOAT) return td_json_put_float(b, minus ? -n->f : n->f, a->e) == TD_OK;
    snprintf(text, sizeof text, "%lld", (long long)(minus ? -n->i : n->i));
    return put(a, b, text);
}

static bool is_literal(const td_ast *t, uint32_t node)
{
    const td_ast_node *n = td_ast_at(t, node);
    bool good = n->kind == TD_N_INT || n->kind == TD_N_FLOAT || n->kind == TD_N_BOOL || n->kind == TD_N_NONE ||
                n->kind == TD_N_STRING;
    if (n->kind == TD_N_UNARY && n->op == TD_O_SUB) {
        unsigned of = td_ast_at(t, td_ast_kid(t, node, 0))->kind;
        return (of == TD_N_INT || of == TD_N_FLOAT) && is_literal(t, td_ast_kid(t, node, 0));
    }
    if (n->kind != TD_N_LIST && n->kind != TD_N_TUPLE) return good && !(n->kind == TD_N_INT && n->op);
    for (uint32_t k = 0; k < n->n; k++)
        if (!is_literal(t, td_ast_kid(t, node, k))) return false;
    return true;
}

static bool put_literal(archive *a, td_bytes *b, const td_ast *t, uint32_t node)
{
    const td_ast_node *n = td_ast_at(t, node);
    if (n->kind == TD_N_NONE) return put(a, b, "null");
    if (n->kind == TD_N_BOOL) return put(a, b, n->i ? "true" : "false");
    if (n->kind == TD_N_STRING) return put_text(a, b, td_ast_text(t, n->text));
    if (n->kind == TD_N_UNARY) return put_number(a, b, td_ast_at(t, td_ast_kid(t, node, 0)), true);
    if (n->kind != TD_N_LIST && n->kind != TD_N_TUPLE) return put_number(a, b, n, false);
    bool tuple = n->kind == TD_N_TUPLE, good = put(a, b, tuple ? "{\"tuple\": [" : "[");
    for (uint32_t k = 0; good && k < n->n; k++)
        good = (!k || put(a, b, ", ")) && put_literal(a, b, t, td_ast_kid(t, node, k));
    return good && put(a, b, tuple ? "]}" : "]");
}

static bool put_parameters(archive *a, td_bytes *b, const td_ast *t, uint32_t method)
{
    uint32_t params = td_ast_kid(t, method, 0), n = td_ast_at(t, params)->n, given = 0;
    bool good = put(a, b, "\"names\": [");
    for (uint32_t k = 1; good && k < n; k++) {
        const char *name = td_ast_text(t, td_ast_at(t, td_ast_kid(t, params, k))->text);
        good = (k == 1 || put(a, b, ", ")) && put_text(a, b, name);
    }
    good = good && put(a, b, "], \"defaults\": {");
    for (uint32_t k = 1; good && k < n; k++) {
        uint32_t param = td_ast_kid(t, params, k), value = td_ast_kid(t, param, 1);
        if (!value || !is_literal(t, value)) continue;
        good = (!given++ || put(a, b, ", ")) && put_text(a, b, td_ast_text(t, td_ast_at(t, param)->text)) &&
               put(a, b, ": ") && put_literal(a, b, t, value);
    }
    return good && put(a, b, "}");
}

/* Is it one of the strings of `__parameters__ = [...]` or `__buffers__`? */
static bool is_listed(const td_ast *t, uint32_t class, const char *name)
{
    uint32_t block = td_ast_kid(t, class, 0), looked = 0;
    for (uint32_t k = 0; k < td_ast_at(t, block)->n; k++) {
        uint32_t line = td_ast_kid(t, block, k), list = td_ast_kid(t, line, 0);
        if (td_ast_at(t, line)->kind != TD_N_ASSIGN || td_ast_at(t, list)->kind != TD_N_LIST) continue;
        for (uint32_t i = 0; i < td_ast_at(t, list)->n && looked < MOST_LISTED; i++, looked++) {
            const td_ast_node *item = td_ast_at(t, td_ast_kid(t, list, i));
            if (item->kind == TD_N_STRING && strcmp(td_ast_text(t, item->text), name) == 0) return true;
        }
    }
    return false;
}

/* The last of that name; 0: there is none. */
static uint32_t find_kid(const td_ast *t, uint32_t node, unsigned kind, const char *name)
{
    uint32_t found = 0;
    for (uint32_t k = 0; k < td_ast_at(t, node)->n; k++) {
        uint32_t kid = td_ast_kid(t, node, k);
        const td_ast_node *n = td_ast_at(t, kid);
        if (n->kind == kind && strcmp(td_ast_text(t, n->text), name) == 0) found = kid;
    }
    return found;
}

static uint32_t class_of(const archive *a, uint32_t module)
{
    const td_script_object *o = &a->objects[module];
    return find_kid(&a->trees[o->unit], a->trees[o->unit].root, TD_N_CLASS, o->class);
}

/* Tensors that are no part of a state dict. */
static bool put_transient(archive *a, td_bytes *b)
{
    uint32_t given = 0;
    bool good = put(a, b, ", \"transient\": [");
    const td_plain *all = a->file.root;
    for (uint32_t i = 0; good && i + 1 < all->n; i += 2) {
        const td_file_tensor *t = &a->file.tensors[all->items[i + 1]->i];
        if (!t->listed) good = (!given++ || put(a, b, ", ")) && put_text(a, b, t->name);
    }
    return good && put(a, b, "]");
}

/* One that its class lists, as this key of a module. When it has another name already, both are said in a->tied. */
static bool list_tensor(archive *a, uint32_t module, const char *key, td_file_tensor *t)
{
    char name[TD_SCRIPTED_NAME];
    const char *title = a->file.modules[module].title;
    snprintf(name, sizeof name, "%s%s%s", title, *title ? "." : "", key);
    t->listed = true;
    if (!t->name || strcmp(name, t->name) == 0) return true;
    return (!a->tied.n || put(a, &a->tied, ", ")) && put_text(a, &a->tied, name) && put(a, &a->tied, ": ") &&
           put_text(a, &a->tied, t->name);
}

/* Of those that a class lists. */
static bool list_tensors(archive *a)
{
    for (uint32_t k = 0; k < a->file.nmodules; k++) {
        const td_plain *dict = td_scripted_attributes(&a->file, k);
        if (!a->file.modules[k].title) continue;
        const td_ast *t = &a->trees[a->objects[k].unit];
        uint32_t class = class_of(a, k);
        for (uint32_t i = 0; class && i + 1 < dict->n; i += 2) {
            const td_plain *x = dict->items[i + 1];
            const char *key = dict->items[i]->text;
            if (x->kind != TD_PLAIN_OBJECT || x->made != TD_MADE_TENSOR || !is_listed(t, class, key)) continue;
            if (!list_tensor(a, k, key, &a->file.tensors[x->i])) return false;
        }
    }
    return td_bytes_put(&a->tied, "", 1, "a program", a->e) == TD_OK;
}

/* The other names of tensors that have several. */
static bool put_tied(archive *a, td_bytes *b)
{
    return put(a, b, ", \"tied\": {") && put(a, b, (const char *)a->tied.at) && put(a, b, "}");
}

static bool put_plain(archive *a, td_bytes *b, const td_plain *x, int depth) /* NOLINT(misc-no-recursion) */
{
    enum { MOST = 1 << 20 }; /* bytes: a list may hold another one many times */
    char text[32];
    if (b->n > MOST) return td_fail(a->e, TD_E_QUOTA, "its state is more than %d bytes", MOST) == TD_OK;
    if (x->kind == TD_PLAIN_BOOL) return put(a, b, x->i ? "true" : "false");
    if (x->kind == TD_PLAIN_TEXT) return td_json_put_text(b, x->text, x->n, a->e) == TD_OK;
    if (x->kind == TD_PLAIN_FLOAT && isfinite(x->f[0])) return td_json_put_float(b, x->f[0], a->e) == TD_OK;
    if (x->kind == TD_PLAIN_FLOAT)
        return put(a, b,
                   isnan(x->f[0]) ? "{\"float\": \"nan\"}"
                   : x->f[0] > 0  ? "{\"float\": \"inf\"}"
                                  : "{\"float\": \"-inf\"}");
    snprintf(text, sizeof text, "%lld", x->kind == TD_PLAIN_INT ? (long long)x->i : 0LL);
    if (x->kind == TD_PLAIN_INT) return put(a, b, text);
    if ((x->kind != TD_PLAIN_LIST && x->kind != TD_PLAIN_TUPLE) || depth == DEEPEST) return put(a, b, "null");
    bool tuple = x->kind == TD_PLAIN_TUPLE, good = put(a, b, tuple ? "{\"tuple\": [" : "[");
    for (uint32_t k = 0; good && k < x->n; k++)
        good = (!k || put(a, b, ", ")) && put_plain(a, b, x->items[k], depth + 1);
    return good && put(a, b, tuple ? "]}" : "]");
}

/* An attribute of a module, as the pickle has it. */
static const td_plain *attribute(const archive *a, const td_script_state *s)
{
    const td_plain *dict = td_scripted_attributes(&a->file, s->object);
    uint32_t i = 0;
    while (strcmp(dict->items[i]->text, s->name) != 0) i += 2;
    return dict->items[i + 1];
}

/* {"name": where it stands, "tensor": the name of what it is at first, or "value": that}, ... */
static bool put_states(archive *a, td_bytes *b)
{
    bool good = put(a, b, ", \"states\": [");
    for (uint32_t k = 0; good && k < a->nstates; k++) {
        const td_script_state *s = &a->states[k];
        const td_plain *x = attribute(a, s);
        char name[TD_SCRIPTED_NAME];
        const char *title = a->objects[s->object].title;
        bool tensor = x->kind == TD_PLAIN_OBJECT && x->made == TD_MADE_TENSOR;
        snprintf(name, sizeof name, "%s%s%s", title, *title ? "." : "", s->name);
        good = put(a, b, k ? ", {\"name\": " : "{\"name\": ") && put_text(a, b, name) &&
               put(a, b, tensor ? ", \"tensor\": " : ", \"value\": ") &&
               (tensor ? put_text(a, b, a->file.tensors[x->i].name) : put_plain(a, b, x, 0)) && put(a, b, "}");
    }
    return good && put(a, b, "]");
}

static char *call_of(archive *a, const td_ast *t, uint32_t method, const char *named)
{
    td_bytes b = {0};
    bool good = put(a, &b, "{") && put_parameters(a, &b, t, method) && put_transient(a, &b) && put_tied(a, &b) &&
                (!a->nstates || put_states(a, &b)) && (!named || (put(a, &b, ", \"named\": ") && put(a, &b, named))) &&
                put(a, &b, "}") && td_bytes_put(&b, "", 1, "a program", a->e) == TD_OK;
    if (good) return (char *)b.at;
    free(b.at);
    return NULL;
}

/* ---- methods */

static bool add_method(archive *a, uint32_t method, td_filed_all *out)
{
    const td_script_object *o = &a->objects[0];
    const td_ast *t = &a->trees[o->unit];
    const char *name = td_ast_text(t, td_ast_at(t, method)->text);
    td_filed *p = &out->at[out->n];
    size_t length = strlen(o->class) + strlen(name) + 2;
    char *full = take(a, length);
    if (!full) return false;
    snprintf(full, length, "%s.%s", o->class, name);
    snprintf(p->name, sizeof p->name, "%s", name);
    td_script_world world = {a->units, a->objects, a->states, a->nunits, a->nobjects, a->nstates};
    td_script_name entry = {.kind = TD_SN_FUNCTION, .text = full, .unit = o->unit, .object = 0};
    out->n++;
    char *named;
    p->ir = td_script_compile_named(&world, &entry, &named, &p->why);
    p->call = call_of(a, t, method, named);
    free(named);
    if (!p->call) return false;
    if (p->ir || p->why.code != TD_E_SYSTEM) return true;
    *a->e = p->why;
    return false;
}

/* All but those for the module's own use. */
static bool is_program(const td_ast_node *n, const td_ast *t)
{
    const char *name = n->kind == TD_N_FUNCTION ? td_ast_text(t, n->text) : "_";
    return name[0] != '_' && strlen(name) < TD_FILED_NAME;
}

static bool add_methods(archive *a, td_filed_all *out)
{
    const td_ast *t = &a->trees[a->objects[0].unit];
    uint32_t class = class_of(a, 0), block = td_ast_kid(t, class, 0), n = td_ast_at(t, block)->n;
    out->at = calloc(METHODS, sizeof *out->at);
    if (!out->at) return td_no_memory(a->e, "for programs") == TD_OK;
    for (uint32_t k = 0; class && k < n; k++) {
        uint32_t method = td_ast_kid(t, block, k);
        if (!is_program(td_ast_at(t, method), t)) continue;
        if (out->n == METHODS) return td_fail(a->e, TD_E_QUOTA, "it has more than %d methods", METHODS) == TD_OK;
        if (!add_method(a, method, out)) return false;
    }
    const td_filed *main = td_filed_find(out, "forward");
    if (main && !main->ir) *a->e = main->why;
    else if (!out->n)
        td_fail(a->e, TD_E_UNSUPPORTED, "the class '%.120s' has no method that could be called",
                a->file.modules[0].class);
    return a->e->code == TD_OK;
}

bool td_archive_has_code(const td_zip *z)
{
    td_error e;
    const td_zip_entry *data = td_archive_data(z, &e);
    return data && td_archive_beside(z, data, "", "constants.pkl");
}

/* It was read as such, and as no other kind of file that it is, too. */
static bool has_modules(const archive *a)
{
    if (a->file.nmodules && a->file.modules[0].title && a->file.modules[0].class) return true;
    return td_fail(a->e, TD_E_INVALID, "there is no module in it") == TD_OK;
}

int td_archive_read(int fd, const td_zip *z, td_filed_all *out, td_error *e)
{
    archive a = {.file = {.programs = true}, .zip = z, .e = e};
    td_error_clear(e);
    a.data = td_archive_data(z, e);
    if (td_file_open(&a.file, fd, e) == TD_OK && has_modules(&a) && read_code(&a) && find_written(&a) &&
        add_objects(&a) && add_roots(&a) && list_tensors(&a))
        add_methods(&a, out);
    drop(&a);
    return e->code;
}
