/* Arguments of tensorctl run: what a program takes says how a word of the command line is read. */
#include "client/files/json.h"
#include "client/files/programs.h"
#include "client/tensorctl/run.h"
#include "proto/program/text.h"
#include "proto/program/type.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG_TYPE = 96 };

static bool is_none(const char *text)
{
    return strcmp(text, "none") == 0 || strcmp(text, "None") == 0;
}

static bool as_int(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    *out = strtoll(text, &end, hex ? 16 : 10);
    return *text && !*end && !errno;
}

static bool as_float(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return *text && !*end;
}

static bool as_bool(const char *text, bool *out)
{
    *out = strcmp(text, "true") == 0 || strcmp(text, "True") == 0 || strcmp(text, "1") == 0;
    return *out || strcmp(text, "false") == 0 || strcmp(text, "False") == 0 || strcmp(text, "0") == 0;
}

/* FILE, or FILE:NAME for one of several tensors. */
static td_array *tensor_of_file(ctl_running *r, const char *word)
{
    char *path = strdup(word), *colon = path ? strrchr(path, ':') : NULL;
    const char *name = NULL;
    if (colon && access(path, F_OK) != 0) *colon = 0, name = colon + 1;
    td_loaded *l = path ? td_load(r->client, path, TD_LOAD_TO_CPU) : NULL;
    td_array *a = NULL;
    if (l && (name || td_loaded_count(l) == 1)) a = name ? td_loaded_get(l, name) : td_loaded_at(l, 0);
    else if (l) td_raise(TD_E_INVALID, "run", "%.200s has %d tensors; say which: FILE:NAME", path, td_loaded_count(l));
    td_retain(a);
    td_loaded_free(l);
    free(path);
    return a;
}

static bool tensor_of(ctl_running *r, const char *word, td_value *out)
{
    int64_t i;
    double f;
    td_array *a;
    if (as_int(word, &i)) a = td_keep(td_full(r->client, td_dims_of(0, NULL), i, TD_INT64));
    else if (as_float(word, &f)) a = td_keep(td_full(r->client, td_dims_of(0, NULL), f, TD_FLOAT32));
    else a = tensor_of_file(r, word);
    if (a) *out = td_value_array(a);
    return a != NULL;
}

static bool value_of(ctl_running *r, uint32_t type, const char *word, td_value *out);

/* "1,2,3", also in brackets: a list, or a tuple of just so many. */
static bool list_of(ctl_running *r, uint32_t type, const char *word, td_value *out) /* NOLINT(misc-no-recursion) */
{
    size_t n = strlen(word), count = 1;
    const td_ir *ir = r->program->ir;
    bool tuple = td_type_kind_of(ir, type) == TD_T_TUPLE;
    if (n >= 2 && ((word[0] == '[' && word[n - 1] == ']') || (word[0] == '(' && word[n - 1] == ')'))) word++, n -= 2;
    char *text = strndup(word, n), *rest = text;
    for (const char *c = text; c && *c; c++) count += *c == ',';
    td_value *items = calloc(count, sizeof *items);
    bool good = text && items;
    *out = (td_value){tuple ? TD_VALUE_TUPLE : TD_VALUE_LIST, 0, {.items = items}, 0};
    if (tuple) good &= count == td_type_parts(ir, type);
    for (char *part; good && n && (part = strsep(&rest, ",")) != NULL;) {
        while (*part == ' ') part++;
        good = value_of(r, td_type_part(ir, type, tuple ? out->n : 0), part, &items[out->n]);
        out->n += good;
    }
    free(text);
    if (!good) td_value_free(out);
    return good;
}

/* False: this is not how such a value is written, or the thread's error says more. */
static bool value_of(ctl_running *r, uint32_t type, const char *word, td_value *out) /* NOLINT(misc-no-recursion) */
{
    const td_ir *ir = r->program->ir;
    int64_t i = 0;
    double f = 0;
    bool b = false;
    switch (td_type_kind_of(ir, type)) {
    case TD_T_OPTIONAL:
        if (!is_none(word)) return value_of(r, td_type_part(ir, type, 0), word, out);
        *out = (td_value){TD_VALUE_NONE, 0, {0}, 0};
        return true;
    case TD_T_INT: *out = td_value_int(as_int(word, &i) ? i : 0); return as_int(word, &i);
    case TD_T_FLOAT: *out = td_value_float(as_float(word, &f) ? f : 0); return as_float(word, &f);
    case TD_T_BOOL:
        if (!as_bool(word, &b)) return false;
        *out = td_value_int(b);
        out->kind = TD_VALUE_BOOL;
        return true;
    case TD_T_STR: *out = (td_value){TD_VALUE_STR, (uint32_t)strlen(word), {.text = strdup(word)}, 0}; return out->text;
    case TD_T_TENSOR: return tensor_of(r, word, out);
    case TD_T_TUPLE:
    case TD_T_LIST: return list_of(r, type, word, out);
    default: return false;
    }
}

static const td_plain *item_of(const td_plain *dict, const char *key)
{
    for (uint32_t i = 0; dict && dict->kind == TD_PLAIN_DICT && i + 1 < dict->n; i += 2)
        if (td_plain_is_text(dict->items[i], key)) return dict->items[i + 1];
    return NULL;
}

static bool of_plain(const td_plain *x, td_value *out);

static bool items_of_plain(const td_plain *x, td_value_kind kind, td_value *out) /* NOLINT(misc-no-recursion) */
{
    *out = (td_value){kind, 0, {.items = calloc(x->n + 1u, sizeof(td_value))}, 0};
    bool good = out->items;
    for (; good && out->n < x->n; out->n += good) good = of_plain(x->items[out->n], &out->items[out->n]);
    if (!good) td_value_free(out);
    return good;
}

/* As program/_archive.py packs defaults: {"tuple": [...]}, {"dict": [key, value, ...]} and {"float": "inf"} stand for
 * what JSON has not. */
static bool of_plain(const td_plain *x, td_value *out) /* NOLINT(misc-no-recursion): as deep as JSON may be */
{
    switch (x->kind) {
    case TD_PLAIN_NONE: *out = (td_value){TD_VALUE_NONE, 0, {0}, 0}; return true;
    case TD_PLAIN_BOOL: *out = td_value_int(x->i != 0), out->kind = TD_VALUE_BOOL; return true;
    case TD_PLAIN_INT: *out = td_value_int(x->i); return true;
    case TD_PLAIN_FLOAT: *out = td_value_float(x->f[0]); return true;
    case TD_PLAIN_TEXT: *out = (td_value){TD_VALUE_STR, x->n, {.text = strndup(x->text, x->n)}, 0}; return out->text;
    case TD_PLAIN_LIST: return items_of_plain(x, TD_VALUE_LIST, out);
    case TD_PLAIN_DICT: break;
    default: return false;
    }
    const td_plain *tuple = item_of(x, "tuple"), *dict = item_of(x, "dict"), *number = item_of(x, "float");
    if (tuple && tuple->kind == TD_PLAIN_LIST) return items_of_plain(tuple, TD_VALUE_TUPLE, out);
    if (dict && dict->kind == TD_PLAIN_LIST && dict->n % 2 == 0) return items_of_plain(dict, TD_VALUE_DICT, out);
    if (!number || number->kind != TD_PLAIN_TEXT) return false;
    *out = td_value_float(strtod(number->text, NULL)); /* inf, nan */
    return true;
}

/* A tensor of the program's file. */
static bool tensor_named(const ctl_running *r, const char *name, td_value *out)
{
    int fd = open(r->o->words[0], O_RDONLY | O_CLOEXEC);
    td_loaded *all = fd < 0 ? NULL : td_load_fd(r->client, fd, TD_LOAD_TO_CPU | TD_LOAD_PROGRAMS);
    td_array *a = all ? td_loaded_get(all, name) : NULL;
    if (a) *out = td_value_array(td_retain(a));
    td_loaded_free(all);
    if (fd >= 0) close(fd);
    return a != NULL;
}

/* What a module's state is before its first call: the last parameters are that. */
static bool state_of(const ctl_running *r, const td_plain *call, uint32_t left, td_value *out)
{
    const td_plain *states = item_of(call, "states");
    if (!states || states->kind != TD_PLAIN_LIST || left > states->n) return false;
    const td_plain *state = states->items[states->n - left], *tensor = item_of(state, "tensor");
    if (tensor) return tensor->kind == TD_PLAIN_TEXT && tensor_named(r, tensor->text, out);
    const td_plain *value = item_of(state, "value");
    return value && of_plain(value, out);
}

/* What Python would give for a parameter that nothing was said of, with so many left. */
static bool default_of(const ctl_running *r, const char *name, uint32_t left, td_value *out)
{
    td_pickle p = {.file_size = r->call ? strlen(r->call) : 0};
    td_plain *call = NULL;
    td_error e;
    bool read = r->call && !td_json_read(&p, r->call, strlen(r->call), "the call", &call, &e);
    const td_plain *x = read ? item_of(item_of(call, "defaults"), name) : NULL;
    bool good = x ? of_plain(x, out) : read && state_of(r, call, left, out);
    td_pickle_close(&p);
    return good;
}

static const char *name_of_parameter(const td_ir *ir, uint32_t k, char *number, size_t size)
{
    uint32_t name = ir->values[td_ir_param(ir, ir->functions[0].block, k)].name;
    if (name != TD_IR_NONE) return td_ir_chars(ir, name);
    snprintf(number, size, "%u", k);
    return number;
}

/* What stands behind NAME=, or NUMBER=; NULL: nothing was said. */
static const char *said_of(const ctl_running *r, const char *name, uint32_t k)
{
    char number[16];
    snprintf(number, sizeof number, "%u", k);
    for (int i = 0; i < r->o->nin; i++) {
        const char *said = r->o->in[i], *equals = strchr(said, '=');
        size_t n = equals ? (size_t)(equals - said) : 0;
        if (equals && ((strlen(name) == n && memcmp(said, name, n) == 0) ||
                       (strlen(number) == n && memcmp(said, number, n) == 0)))
            return equals + 1;
    }
    return NULL;
}

static void print_parameters(const td_ir *ir, uint32_t n)
{
    char number[16], type[LONG_TYPE], shown[LONG_TYPE];
    for (uint32_t k = 0; k < n; k++)
        fprintf(stderr, "%s%s : %s", k ? ", " : " ",
                td_text_visible(shown, sizeof shown, name_of_parameter(ir, k, number, sizeof number)),
                td_type_text(ir, ir->values[td_ir_param(ir, ir->functions[0].block, k)].type, type, sizeof type));
    fputc('\n', stderr);
}

/* Every --in is of some parameter. */
static bool check_names(const ctl_running *r, uint32_t n)
{
    char number[16];
    const td_ir *ir = r->program->ir;
    for (int i = 0; i < r->o->nin; i++) {
        const char *said = r->o->in[i], *equals = strchr(said, '=');
        bool known = false;
        for (uint32_t k = 0; equals && k < n && !known; k++)
            known = said_of(r, name_of_parameter(ir, k, number, sizeof number), k) == equals + 1;
        if (known) continue;
        fprintf(stderr, "tensorctl: run: --in %s: %s; the program takes", said,
                equals ? "there is no such parameter, or it was given before" : "NAME=VALUE is wanted");
        print_parameters(ir, n);
        return false;
    }
    return true;
}

bool ctl_run_args(ctl_running *r)
{
    char number[16], type[LONG_TYPE];
    const td_ir *ir = r->program->ir;
    uint32_t graph = ir->functions[0].block, n = ir->blocks[graph].nparams;
    r->args = calloc(n + 1u, sizeof *r->args);
    if (!r->args || !check_names(r, n)) return false;
    for (; r->nargs < n; r->nargs++) {
        uint32_t of = ir->values[td_ir_param(ir, graph, r->nargs)].type;
        const char *name = name_of_parameter(ir, r->nargs, number, sizeof number), *word = said_of(r, name, r->nargs);
        td_clear_error();
        if (word ? value_of(r, of, word, &r->args[r->nargs]) : default_of(r, name, n - r->nargs, &r->args[r->nargs]))
            continue;
        if (word && td_last_error()->code) return ctl_fail("run"), false;
        fprintf(stderr,
                word ? "tensorctl: run: --in %s=%s: that is no %s; the program takes"
                     : "tensorctl: run: '%s'%s is not given (%s: --in NAME=VALUE); the program takes",
                name, word ? word : "", td_type_text(ir, of, type, sizeof type));
        print_parameters(ir, n);
        return false;
    }
    return true;
}
