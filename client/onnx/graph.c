/* Names become values. See graph.h. */
#include "client/onnx/graph.h"

#include "proto/base/dtype.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static void *take(td_onnx_whole *w, size_t n, size_t each)
{
    return td_onnx_take(w->file, n * each, w->e); /* each message of the file has fewer than 2^32 parts */
}

/* An array of n pointers with room for one more: itself, or a copy with twice the room. */
static void *room_for_one(td_onnx_whole *w, void *at, uint32_t n, uint32_t *room)
{
    if (n < *room) return at;
    uint32_t wanted = *room ? 2 * *room : 4;
    void *moved = take(w, wanted, sizeof(void *));
    if (!moved) return NULL;
    if (n) memcpy(moved, at, n * sizeof(void *));
    *room = wanted;
    return moved;
}

const td_onnx_attribute *td_onnx_attribute_of(const td_onnx_node *n, const char *name)
{
    for (const td_onnx_attribute *a = n->attributes.first; a; a = a->next)
        if (a->name && strcmp(a->name, name) == 0) return a;
    return NULL;
}

const char *td_onnx_say(const td_onnx_step *s, char *out, size_t size)
{
    char name[96], op[48];
    td_text_visible(name, sizeof name, or_empty(s->node->name));
    td_text_visible(op, sizeof op, or_empty(s->node->op));
    if (*name) snprintf(out, size, "node '%s' (%s, opset %" PRId64 ")", name, op, s->version);
    else snprintf(out, size, "node %u (%s, opset %" PRId64 ")", s->number, op, s->version);
    return out;
}

/* As much of its end as there is room for; where a letter begins. */
static size_t put_end(char *out, size_t room, const char *text)
{
    static const char cut[] = "...";
    size_t n = strlen(text), skipped = 0;
    if (n > room) {
        skipped = n - room + strlen(cut);
        while (((unsigned char)text[skipped] & 0xc0) == 0x80) skipped++;
    }
    int put = snprintf(out, room + 1, "%s%s", skipped ? cut : "", text + skipped);
    return (size_t)put;
}

void td_onnx_say_place(const td_onnx_step *s, char out[TD_ONNX_PLACE])
{
    enum { LEAST = 12 /* of a name */ };
    char name[200], op[33], made[200], number[24];
    const td_onnx_text *first = s->node->outputs.first;
    td_text_visible(name, sizeof name, or_empty(s->node->name));
    td_text_visible(op, sizeof op, or_empty(s->node->op));
    td_text_visible(made, sizeof made, first ? first->text : "");
    if (!*name) snprintf(number, sizeof number, "node %u", s->number);
    size_t fixed = (*name ? strlen("node ''") : strlen(number)) + strlen(op) + strlen(" ()") + 1;
    size_t left = TD_ONNX_PLACE - fixed, n;
    size_t more = *made && left > strlen(" -> ''") + LEAST ? strlen(made) + strlen(" -> ''") : 0;
    if (*name && strlen(name) + more > left) more = 0;
    if (*name) {
        n = (size_t)sprintf(out, "node '"); /* NOLINT: there is room */
        n += put_end(out + n, left - more, name);
        n += (size_t)sprintf(out + n, "' (%s)", op);        /* NOLINT */
    } else n = (size_t)sprintf(out, "%s (%s)", number, op); /* NOLINT */
    if (!more) return;
    n += (size_t)sprintf(out + n, " -> '"); /* NOLINT */
    n += put_end(out + n, TD_ONNX_PLACE - 2 - n, made);
    sprintf(out + n, "'"); /* NOLINT */
}

bool td_onnx_fail(td_onnx_whole *w, const td_onnx_step *s, td_code code, const char *format, ...)
{
    char node[200], text[400], seen[400];
    va_list list;
    if (w->e->code) return false;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    td_text_visible(seen, sizeof seen, text);
    if (s) td_fail(w->e, code, "%s: %s", td_onnx_say(s, node, sizeof node), seen);
    else td_fail(w->e, code, "%s", seen);
    return false;
}

/* ---- values */

static td_onnx_value *find_in(const td_onnx_scope *s, const char *name)
{
    td_onnx_value *v;
    HASH_FIND_STR(s->values, name, v);
    return v;
}

static td_onnx_value *value_new(td_onnx_whole *w, const char *name)
{
    td_onnx_value *v = take(w, 1, sizeof *v);
    if (v) *v = (td_onnx_value){.name = name, .dtype = TD_DTYPE_NONE, .rank = -1};
    return v;
}

static td_onnx_value *add_value(td_onnx_whole *w, td_onnx_scope *s, const td_onnx_step *maker, const char *name)
{
    if (find_in(s, name)) return td_onnx_fail(w, maker, TD_E_INVALID, "two things are called '%s'", name), NULL;
    td_onnx_value *v = value_new(w, name);
    if (!v) return NULL;
    HASH_ADD_KEYPTR(hh, s->values, v->name, strlen(v->name), v);
    if (TD_HASHED(v)) return v;
    td_no_memory(w->e, "to read a model");
    return NULL;
}

td_onnx_constant *td_onnx_constant_new(td_onnx_whole *w, const td_onnx_look *look, void **bytes)
{
    td_onnx_constant *c = take(w, 1, sizeof *c);
    void *room = c ? take(w, look->bytes + 8, 1) : NULL;
    if (!room) return NULL;
    *c = (td_onnx_constant){.look = *look, .bytes = room};
    *bytes = room;
    return c;
}

const void *td_onnx_bytes(td_onnx_whole *w, td_onnx_constant *c)
{
    if (c->bytes) return c->bytes;
    void *room = take(w, c->look.bytes + 8, 1);
    if (!room || td_onnx_fetch(w->file, c->from, &c->look, room, w->e)) return NULL;
    return c->bytes = room;
}

int64_t td_onnx_int(const td_onnx_constant *c, int64_t k)
{
    td_scalar s = td_scalar_load(c->look.dtype, (const char *)c->bytes + (size_t)k * td_dtype_size(c->look.dtype));
    return s.i;
}

double td_onnx_number(const td_onnx_constant *c, int64_t k)
{
    td_scalar s = td_scalar_load(c->look.dtype, (const char *)c->bytes + (size_t)k * td_dtype_size(c->look.dtype));
    return s.kind == TD_S_FLOAT || s.kind == TD_S_COMPLEX ? s.re : (double)s.i;
}

/* A tensor of the file; one of few numbers is looked into later. */
static td_onnx_constant *constant_of(td_onnx_whole *w, const td_onnx_tensor *t)
{
    td_onnx_constant *c = take(w, 1, sizeof *c);
    if (!c || td_onnx_look_at(w->file, t, &c->look, w->e)) return NULL;
    c->from = t;
    c->name = t->name;
    if (c->look.numel <= TD_ONNX_FEW && !td_onnx_bytes(w, c)) return NULL;
    return c;
}

static void become(td_onnx_value *v, td_onnx_constant *c)
{
    v->constant = c;
    v->dtype = c->look.dtype;
    v->rank = c->look.ndim;
    if (!c->name || !*c->name) c->name = v->name;
}

static bool add_initializers(td_onnx_whole *w, td_onnx_scope *s)
{
    if (s->graph->sparse.n)
        return td_onnx_fail(w, NULL, TD_E_UNSUPPORTED, "it has sparse weights, which tensord has not");
    for (const td_onnx_tensor *t = s->graph->initializers.first; t; t = t->next) {
        if (!t->name || !*t->name) return td_onnx_fail(w, NULL, TD_E_INVALID, "a weight has no name");
        td_onnx_value *v = add_value(w, s, NULL, t->name);
        td_onnx_constant *c = v ? constant_of(w, t) : NULL;
        if (!c) return false;
        become(v, c);
    }
    return true;
}

static void look_at_info(td_onnx_value *v, const td_onnx_info *info)
{
    const td_onnx_type *type = info->type.last;
    const td_onnx_tensor_type *t = type ? type->tensor.last : NULL;
    if (!t || v->constant) return;
    v->dtype = td_onnx_dtype(t->type);
    v->rank = t->shape.n ? (int)((const td_onnx_shape *)t->shape.last)->dims.n : -1;
}

static bool add_inputs(td_onnx_whole *w, td_onnx_scope *s)
{
    s->in = take(w, s->graph->inputs.n + 1u, sizeof(void *));
    if (!s->in) return false;
    for (const td_onnx_info *x = s->graph->inputs.first; x; x = x->next) {
        if (!x->name || !*x->name) return td_onnx_fail(w, NULL, TD_E_INVALID, "an input has no name");
        td_onnx_value *v = find_in(s, x->name);
        if (v && v->constant && v->output == 0) { /* a default, which older files list here, too: a constant */
            v->output = 1;
            continue;
        }
        v = add_value(w, s, NULL, x->name);
        if (!v) return false;
        v->output = s->nin;
        v->tensor = true;
        look_at_info(v, x);
        s->in[s->nin++] = v;
    }
    return true;
}

/* ---- steps */

/* What a Constant gives: a tensor, or one of numbers. */
static td_onnx_constant *constant_node(td_onnx_whole *w, const td_onnx_step *s)
{
    const td_onnx_attribute *a = s->node->attributes.first;
    if (!a || s->node->attributes.n != 1 || !a->name) return NULL;
    if (strcmp(a->name, "value") == 0) return a->tensor.last ? constant_of(w, a->tensor.last) : NULL;
    bool one_int = strcmp(a->name, "value_int") == 0, ints = one_int || strcmp(a->name, "value_ints") == 0;
    bool one_float = strcmp(a->name, "value_float") == 0, floats = one_float || strcmp(a->name, "value_floats") == 0;
    if (!ints && !floats) return NULL;
    bool many = !one_int && !one_float;
    int64_t n = many ? (int64_t)(ints ? a->ints.n : a->floats.n) : 1;
    size_t each = ints ? 8 : 4;
    td_onnx_look look = {ints ? TD_INT64 : TD_FLOAT32, many, {n}, n, (uint64_t)n * each};
    void *bytes;
    td_onnx_constant *c = td_onnx_constant_new(w, &look, &bytes);
    if (c && n)
        memcpy(bytes, many ? (ints ? a->ints.at : a->floats.at) : ints ? (const void *)&a->i : &a->f, (size_t)n * each);
    return c;
}

static bool is_own(const char *domain)
{
    return !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
}

static int64_t version_of(const td_onnx_whole *w, const td_onnx_node *n)
{
    for (const td_onnx_opset *o = w->file->model->opsets.first; o; o = o->next)
        if (is_own(n->domain) ? is_own(o->domain) : o->domain && strcmp(o->domain, n->domain) == 0) return o->version;
    return is_own(n->domain) ? w->opset : 0;
}

static td_onnx_step *step_new(td_onnx_whole *w, td_onnx_scope *s, const td_onnx_node *n)
{
    td_onnx_step *x = take(w, 1, sizeof *x);
    if (!x) return NULL;
    *x = (td_onnx_step){.node = n,
                        .scope = s,
                        .number = w->nsteps++,
                        .nin = n->inputs.n,
                        .nout = n->outputs.n,
                        .version = version_of(w, n)};
    x->in = take(w, x->nin + 1u, sizeof(void *));
    x->out = take(w, x->nout + 1u, sizeof(void *));
    return x->in && x->out ? x : NULL;
}

static bool is_op(const td_onnx_step *s, const char *op)
{
    return s->node->op && is_own(s->node->domain) && strcmp(s->node->op, op) == 0;
}

static bool add_outputs(td_onnx_whole *w, td_onnx_scope *s, td_onnx_step *x)
{
    uint32_t k = 0;
    if (is_op(x, "Constant") && x->nout > 1)
        return td_onnx_fail(w, x, TD_E_INVALID, "it has %u outputs, and a constant has one", x->nout);
    for (const td_onnx_text *name = x->node->outputs.first; name; name = name->next, k++) {
        if (!*name->text) continue;
        td_onnx_value *v = x->out[k] = add_value(w, s, x, name->text);
        if (!v) return false;
        v->maker = x;
        v->output = k;
    }
    if (!is_op(x, "Constant") || !x->nout || !x->out[0]) return true;
    td_onnx_constant *c = constant_node(w, x);
    if (c) become(x->out[0], c), x->out[0]->maker = NULL;
    return c || td_onnx_fail(w, x, TD_E_UNSUPPORTED, "a constant of a kind that tensord has not");
}

/* In the order of the file. A constant is a value, and no step. */
static bool add_steps(td_onnx_whole *w, td_onnx_scope *s)
{
    td_onnx_step **end = &s->first;
    for (const td_onnx_node *n = s->graph->nodes.first; n; n = n->next) {
        td_onnx_step *x = step_new(w, s, n);
        if (!x || !add_outputs(w, s, x)) return false;
        if (is_op(x, "Constant")) continue;
        *end = x;
        end = &x->next;
        s->nsteps++;
    }
    for (const td_onnx_info *i = s->graph->infos.first; i; i = i->next) {
        td_onnx_value *v = i->name ? find_in(s, i->name) : NULL;
        if (v) look_at_info(v, i);
    }
    return true;
}

/* ---- who takes what */

static bool add_more(td_onnx_whole *w, td_onnx_step *s, td_onnx_value *v)
{
    td_onnx_value **more = room_for_one(w, s->more, s->nmore, &s->more_room);
    if (!more) return false;
    s->more = more;
    s->more[s->nmore++] = v;
    return true;
}

/* By its name, here or further out: then each step around that has the graph takes it, too. */
static bool find_value(td_onnx_whole *w, td_onnx_scope *s, const td_onnx_step *by, const char *name,
                       td_onnx_value **out)
{
    td_onnx_scope *at = s;
    *out = NULL;
    while (at && !(*out = find_in(at, name))) at = at->parent;
    if (!*out) return td_onnx_fail(w, by, TD_E_INVALID, "nothing gives '%s'", name);
    (*out)->used = true;
    for (td_onnx_scope *x = s; x != at; x = x->parent)
        if (!add_more(w, x->owner, *out)) return false;
    return true;
}

static bool scope_begin(td_onnx_whole *w, td_onnx_scope *parent, td_onnx_step *owner, const td_onnx_graph *g,
                        td_onnx_scope **out);

static bool add_scopes(td_onnx_whole *w, td_onnx_scope *s, td_onnx_step *x)
{
    uint32_t n = 0;
    for (const td_onnx_attribute *a = x->node->attributes.first; a; a = a->next) n += a->graph.n;
    x->scopes = n ? take(w, n, sizeof(void *)) : NULL;
    if (n && !x->scopes) return false;
    for (const td_onnx_attribute *a = x->node->attributes.first; a; a = a->next)
        for (const td_onnx_graph *g = a->graph.first; g; g = g->next)
            if (!scope_begin(w, s, x, g, &x->scopes[x->nscopes++])) return false;
    return true;
}

static bool find_inputs(td_onnx_whole *w, td_onnx_scope *s)
{
    for (td_onnx_step *x = s->first; x; x = x->next) {
        uint32_t k = 0;
        for (const td_onnx_text *name = x->node->inputs.first; name; name = name->next, k++)
            if (*name->text && !find_value(w, s, x, name->text, &x->in[k])) return false;
        if (!add_scopes(w, s, x)) return false;
    }
    return true;
}

static bool find_outputs(td_onnx_whole *w, td_onnx_scope *s)
{
    s->out = take(w, s->graph->outputs.n + 1u, sizeof(void *));
    if (!s->out) return false;
    for (const td_onnx_info *x = s->graph->outputs.first; x; x = x->next) {
        if (!find_value(w, s, s->owner, or_empty(x->name), &s->out[s->nout])) return false;
        if (!s->out[s->nout]->maker || s->out[s->nout]->dtype == TD_DTYPE_NONE) look_at_info(s->out[s->nout], x);
        s->nout++;
    }
    return s->nout || td_onnx_fail(w, s->owner, TD_E_INVALID, "a graph gives nothing");
}

/* ---- an order that runs, of what leads to an output */

typedef struct walk {
    td_onnx_step *step;
    uint32_t next;
} walk;

static td_onnx_value *taken(const td_onnx_step *s, uint32_t k)
{
    return k < s->nin ? s->in[k] : s->more[k - s->nin];
}

enum { UNSEEN, UNDER_WAY, ORDERED };

/* All that a step needs, then the step. */
static bool order_from(td_onnx_whole *w, td_onnx_scope *s, td_onnx_step *from, walk *stack, td_onnx_step ***end)
{
    uint32_t depth = 0;
    if (from->state != UNSEEN) return true;
    stack[depth++] = (walk){from, 0};
    from->state = UNDER_WAY;
    while (depth) {
        walk *top = &stack[depth - 1];
        if (top->next == top->step->nin + top->step->nmore) {
            top->step->state = ORDERED;
            **end = top->step;
            *end = &top->step->next;
            depth--;
            continue;
        }
        td_onnx_value *v = taken(top->step, top->next++);
        td_onnx_step *m = v ? v->maker : NULL;
        if (!m || m->scope != s || m->state == ORDERED) continue;
        if (m->state == UNDER_WAY)
            return td_onnx_fail(w, m, TD_E_INVALID, "it needs what it gives: a circle through '%s'", v->name);
        m->state = UNDER_WAY;
        stack[depth++] = (walk){m, 0};
    }
    return true;
}

/* Which lead to an output: those alone are looked at, in the order of the file. */
static void mark(td_onnx_scope *s, td_onnx_step **stack, bool *wanted, uint32_t first)
{
    uint32_t depth = 0;
    for (uint32_t k = 0; k < s->nout; k++) {
        td_onnx_step *m = s->out[k]->maker;
        if (m && m->scope == s && !wanted[m->number - first]) wanted[m->number - first] = true, stack[depth++] = m;
    }
    while (depth) {
        td_onnx_step *x = stack[--depth];
        for (uint32_t k = 0; k < x->nin + x->nmore; k++) {
            td_onnx_step *m = taken(x, k) ? taken(x, k)->maker : NULL;
            if (!m || m->scope != s || wanted[m->number - first]) continue;
            wanted[m->number - first] = true;
            stack[depth++] = m;
        }
    }
}

static bool order(td_onnx_whole *w, td_onnx_scope *s, uint32_t first, uint32_t numbers)
{
    walk *stack = take(w, s->nsteps + 1u, sizeof *stack);
    td_onnx_step **marks = take(w, s->nsteps + 1u, sizeof *marks), *all = s->first, **end = &s->first;
    bool *wanted = take(w, numbers + 1u, 1), good = stack && marks && wanted;
    if (!good) return false;
    mark(s, marks, wanted, first);
    uint32_t n = 0;
    for (td_onnx_step *x = all; x; x = x->next) marks[n++] = x;
    for (uint32_t k = 0; k < n; k++) marks[k]->next = NULL;
    s->first = NULL;
    for (uint32_t k = 0; k < n && good; k++)
        if (wanted[marks[k]->number - first]) good = order_from(w, s, marks[k], stack, &end);
    return good;
}

/* ---- scopes */

static bool remember(td_onnx_whole *w, td_onnx_scope *s)
{
    td_onnx_scope **all = room_for_one(w, w->all, w->nall, &w->all_room);
    if (!all) return false;
    w->all = all;
    w->all[w->nall++] = s;
    return true;
}

static bool scope_begin(td_onnx_whole *w, td_onnx_scope *parent, td_onnx_step *owner, const td_onnx_graph *g,
                        td_onnx_scope **out) /* NOLINT(misc-no-recursion): as deep as TD_ONNX_NEST */
{
    td_onnx_scope *s = take(w, 1, sizeof *s);
    if (!s || !remember(w, s)) return false;
    *s = (td_onnx_scope){.graph = g, .parent = parent, .owner = owner, .depth = parent ? parent->depth + 1 : 0};
    *out = s;
    if (s->depth == TD_ONNX_NEST)
        return td_onnx_fail(w, owner, TD_E_INVALID, "graphs lie in each other deeper than 16");
    uint32_t first = w->nsteps;
    bool good = add_initializers(w, s) && add_inputs(w, s) && add_steps(w, s);
    uint32_t numbers = w->nsteps - first;
    return good && find_inputs(w, s) && find_outputs(w, s) && order(w, s, first, numbers);
}

int td_onnx_resolve(td_onnx_whole *w, td_onnx_file *f, td_error *e)
{
    *w = (td_onnx_whole){.file = f, .e = e};
    if (f->model->functions.n)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "it has functions of its own, which tensord does not read; export it with its functions inlined "
                       "(onnx.inliner)");
    for (const td_onnx_opset *o = f->model->opsets.first; o; o = o->next)
        if (is_own(o->domain) && o->version > w->opset) w->opset = o->version;
    scope_begin(w, NULL, NULL, f->model->graph.first, &w->main);
    return e->code;
}

void td_onnx_graph_end(td_onnx_whole *w)
{
    for (uint32_t k = 0; k < w->nall; k++) HASH_CLEAR(hh, w->all[k]->values);
}
