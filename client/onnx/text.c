/* Writing the source. See text.h; what a node is told of itself beside its attributes is in extra(). */
#include "client/onnx/text.h"

#include "proto/base/dtype.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SHORT = 64,       /* numbers that are written where a tensor would do, too */
    NEWEST = 28,      /* opset */
    LONGEST = 1 << 20 /* bytes that client/script takes */
};

static bool room(td_onnx_writer *t, void *list, uint32_t n, uint32_t *room_for, size_t each)
{
    if (n < *room_for) return true;
    uint32_t more = *room_for ? *room_for * 2 : 64;
    void *moved = realloc(*(void **)list, more * each);
    if (!moved) return td_no_memory(t->w->e, "for the text of a model") == TD_OK;
    *(void **)list = moved;
    *room_for = more;
    return true;
}

/* ---- lines */

void td_onnx_write_line(td_onnx_writer *t, const td_onnx_step *whose)
{
    td_printf(&t->out, "%s%*s", t->nlines ? "\n" : "", 4 * (int)t->level, "");
    if (room(t, &t->lines, t->nlines, &t->line_room, sizeof *t->lines)) t->lines[t->nlines++] = whose;
}

/* ---- constants */

static void number_text(td_print *p, const td_onnx_constant *c, int64_t k)
{
    td_dtype d = c->look.dtype;
    double v = td_dtype_is_float(d) ? td_onnx_number(c, k) : 0;
    if (d == TD_BOOL) td_printf(p, td_onnx_int(c, k) ? "True" : "False");
    else if (!td_dtype_is_float(d)) td_printf(p, "%" PRId64, td_onnx_int(c, k));
    else if (isnan(v)) td_printf(p, "math.nan");
    else if (isinf(v)) td_printf(p, v > 0 ? "math.inf" : "-math.inf");
    else td_printf(p, v == floor(v) && fabs(v) < 1e15 ? "%.1f" : "%.17g", v);
}

static void constant_text(td_print *p, const td_onnx_constant *c)
{
    if (c->look.ndim == 0) {
        number_text(p, c, 0);
        return;
    }
    if (c->look.numel == 0) {
        td_printf(p, "_no_numbers()");
        return;
    }
    td_printf(p, "[");
    for (int64_t k = 0; k < c->look.numel; k++) {
        td_printf(p, k ? ", " : "");
        number_text(p, c, k);
    }
    td_printf(p, "]");
}

/* Among what is captured. */
static void weight(td_onnx_writer *t, td_onnx_constant *c)
{
    if (!c->weight && room(t, &t->weights, t->nweights, &t->weight_room, sizeof *t->weights)) {
        t->weights[t->nweights++] = c;
        c->weight = t->nweights;
    }
    td_printf(&t->out, "w%u", c->weight);
}

/* Whole numbers are sizes and places more often than not. */
bool td_onnx_is_written(const td_onnx_constant *c, bool number)
{
    bool whole = c->look.dtype == TD_INT64 || c->look.dtype == TD_INT32;
    if (c->look.ndim > 1 || c->look.numel > TD_ONNX_FEW || !td_dtype_size(c->look.dtype) || c->look.dtype == TD_UINT64)
        return false;
    if (c->look.ndim == 1 && c->look.numel == 0 && !whole) return false;
    return number ? !td_dtype_is_complex(c->look.dtype) : whole && c->look.numel <= SHORT;
}

void td_onnx_write_value(td_onnx_writer *t, const td_onnx_value *v, bool number)
{
    if (t->out.used > LONGEST) return; /* step() says so: one constant may be an input again and again */
    if (!v) td_printf(&t->out, "None");
    else if (v->constant && td_onnx_is_written(v->constant, number)) constant_text(&t->out, v->constant);
    else if (v->constant) weight(t, v->constant);
    else td_printf(&t->out, "%s", v->text);
}

/* ---- variables */

const char *td_onnx_text_of(td_onnx_writer *t, const char *format, ...)
{
    char text[40];
    va_list more;
    va_start(more, format);
    int n = vsnprintf(text, sizeof text, format, more);
    va_end(more);
    char *kept = td_onnx_take(t->w->file, (size_t)n + 1, t->w->e);
    return kept ? memcpy(kept, text, (size_t)n + 1) : "None";
}

/* in_ and what of the name may stand in one. */
static const char *input_name(td_onnx_writer *t, const td_onnx_value *v, uint32_t number)
{
    char text[48];
    int n = snprintf(text, sizeof text, "in%u_%.32s", number, v->name);
    for (char *c = text; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9'))) *c = '_';
    n = n < (int)sizeof text ? n : (int)sizeof text - 1;
    char *kept = td_onnx_take(t->w->file, (size_t)n + 1, t->w->e);
    return kept ? memcpy(kept, text, (size_t)n + 1) : "None";
}

/* ---- attributes */

static void dtype_text(td_onnx_writer *t, const td_onnx_step *x, int64_t type)
{
    td_dtype d = td_onnx_dtype(type);
    if (d == TD_DTYPE_NONE)
        td_onnx_fail(t->w, x, TD_E_UNSUPPORTED, "it makes %s, which tensord has no dtype for", td_onnx_type_name(type));
    else td_printf(&t->out, "td.%s", td_dtype_name(d));
}

static void float_text(td_print *p, double v)
{
    if (isnan(v)) td_printf(p, "math.nan");
    else if (isinf(v)) td_printf(p, v > 0 ? "math.inf" : "-math.inf");
    else td_printf(p, v == floor(v) && fabs(v) < 1e15 ? "%.1f" : "%.9g", v);
}

/* A text that is told by its letters: what stands for others is written as numbers. */
static void string_text(td_print *p, const char *text)
{
    td_printf(p, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\') td_printf(p, "\\x%02x", *c);
        else td_printf(p, "%c", *c);
    td_printf(p, "\"");
}

static void list_text(td_print *p, const td_onnx_attribute *a)
{
    bool floats = a->floats.n > 0, texts = a->strings.n > 0;
    uint64_t n = floats ? a->floats.n : texts ? a->strings.n : a->ints.n;
    const td_onnx_text *text = a->strings.first;
    if (!n) {
        td_printf(p, "None");
        return;
    }
    td_printf(p, "[");
    for (uint64_t k = 0; k < n; k++) {
        td_printf(p, k ? ", " : "");
        if (floats) float_text(p, (double)a->floats.f[k]);
        else if (texts) string_text(p, text->text), text = text->next;
        else td_printf(p, "%" PRId64, a->ints.i[k]);
    }
    td_printf(p, "]");
}

/* Files of old do not say of what type one is. */
static int64_t type_of(const td_onnx_attribute *a)
{
    if (a->type) return a->type;
    return a->tensor.n    ? TD_ONNX_TENSOR
           : a->graph.n   ? TD_ONNX_GRAPH
           : a->ints.n    ? TD_ONNX_INTS
           : a->floats.n  ? TD_ONNX_FLOATS
           : a->strings.n ? TD_ONNX_STRINGS
           : a->s         ? TD_ONNX_STRING
           : a->f != 0    ? TD_ONNX_FLOAT
                          : TD_ONNX_INT;
}

static bool names_dtype(const td_onnx_attribute *a)
{
    return strcmp(a->name, "to") == 0 || strcmp(a->name, "dtype") == 0 || strcmp(a->name, "output_datatype") == 0;
}

/* A tensor of one number: that, and its dtype beside it. */
static void tensor_text(td_onnx_writer *t, const td_onnx_step *x, const td_onnx_attribute *a)
{
    td_onnx_constant c = {0};
    if (td_onnx_look_at(t->w->file, a->tensor.last, &c.look, t->w->e)) return;
    c.from = a->tensor.last;
    if (c.look.numel != 1 || td_dtype_is_complex(c.look.dtype)) {
        td_onnx_fail(t->w, x, TD_E_UNSUPPORTED, "its attribute '%.60s' is not of one number", a->name);
        return;
    }
    if (!td_onnx_bytes(t->w, &c)) return;
    number_text(&t->out, &c, 0);
    td_printf(&t->out, ", %s_dtype=td.%s", a->name, td_dtype_name(c.look.dtype));
}

static void attribute(td_onnx_writer *t, const td_onnx_step *x, const td_onnx_form *f, const td_onnx_attribute *a)
{
    const td_onnx_param *p = a->name ? td_onnx_param_of(f, a->name) : NULL;
    if (a->reference || !p || p->input) {
        td_onnx_fail(t->w, x, TD_E_UNSUPPORTED, "its attribute '%.60s' is not known", a->name ? a->name : "");
        return;
    }
    td_printf(&t->out, ", %s=", p->name);
    switch (type_of(a)) {
    case TD_ONNX_INT:
        if (names_dtype(a)) dtype_text(t, x, a->i);
        else td_printf(&t->out, "%" PRId64, a->i);
        return;
    case TD_ONNX_FLOAT: float_text(&t->out, (double)a->f); return;
    case TD_ONNX_STRING: string_text(&t->out, a->s ? a->s : ""); return;
    case TD_ONNX_INTS:
    case TD_ONNX_FLOATS:
    case TD_ONNX_STRINGS: list_text(&t->out, a); return;
    case TD_ONNX_TENSOR:
        if (a->tensor.n == 1) {
            tensor_text(t, x, a);
            return;
        }
        break;
    default: break;
    }
    td_onnx_fail(t->w, x, TD_E_UNSUPPORTED, "its attribute '%.60s' is of a type that is not known", a->name);
}

/* ---- what a node is told beside its attributes */

static int spatial(const td_onnx_step *x)
{
    const td_onnx_attribute *a = td_onnx_attribute_of(x->node, "kernel_shape");
    if (a && a->ints.n) return (int)a->ints.n;
    for (uint32_t k = 2; k-- > 0;)
        if (k < x->nin && x->in[k] && x->in[k]->rank > 2) return x->in[k]->rank - 2;
    return 0;
}

static bool is_several(const td_onnx_step *x)
{
    for (uint32_t k = 1; k < x->nout; k++)
        if (x->out[k] && x->out[k]->used) return true;
    return false;
}

/* Is the third input a vector of more than one number? */
static bool is_flat(const td_onnx_step *x)
{
    const td_onnx_value *v = x->nin > 2 ? x->in[2] : NULL;
    return v && v->constant && v->constant->look.ndim == 1 && v->constant->look.numel > 1;
}

static void extra(td_onnx_writer *t, const td_onnx_step *x, const td_onnx_param *p)
{
    td_dtype d = td_onnx_takes(x);
    if (!p->needed || td_onnx_attribute_of(x->node, p->name)) return;
    if (strcmp(p->name, "several") == 0) td_printf(&t->out, ", several=%s", is_several(x) ? "True" : "False");
    else if (strcmp(p->name, "outputs") == 0) td_printf(&t->out, ", outputs=%u", x->nout);
    else if (strcmp(p->name, "stored") == 0) td_printf(&t->out, ", stored=td.%s", td_dtype_name(td_onnx_stored(x)));
    else if (strcmp(p->name, "rank") == 0) td_printf(&t->out, ", rank=%d", x->nin && x->in[0] ? x->in[0]->rank : -1);
    else if (strcmp(p->name, "flat") == 0) td_printf(&t->out, ", flat=%s", is_flat(x) ? "True" : "False");
    else if (strcmp(p->name, "spatial") == 0) {
        td_printf(&t->out, ", spatial=%d", spatial(x));
        if (!spatial(x)) td_onnx_fail(t->w, x, TD_E_UNSUPPORTED, "the file does not say how many dimensions it has");
    } else if (strcmp(p->name, "kind") == 0 || strcmp(p->name, "whole") == 0) {
        if (d == TD_DTYPE_NONE)
            td_onnx_fail(t->w, x, TD_E_UNSUPPORTED, "the file does not say the dtype of what it takes");
        else if (*p->name == 'k') td_printf(&t->out, ", kind=td.%s", td_dtype_name(d));
        else td_printf(&t->out, ", whole=%s", td_dtype_is_integral(d) ? "True" : "False");
    } else td_onnx_fail(t->w, x, TD_E_INVALID, "it has no attribute '%.60s'", p->name);
}

/* ---- calls */

/* As a tensor of its dtype. */
static void operand(td_onnx_writer *t, const td_onnx_value *v)
{
    if (!v || v->tensor) td_onnx_write_value(t, v, false);
    else if (v->constant) weight(t, v->constant);
    else if (v->dtype == TD_DTYPE_NONE) td_printf(&t->out, "_tensor(%s)", v->text);
    else td_printf(&t->out, "_out(%s, td.%s)", v->text, td_dtype_name(v->dtype));
}

static void inputs(td_onnx_writer *t, const td_onnx_step *x, const td_onnx_form *f)
{
    uint32_t n = x->nin;
    while (n && !x->in[n - 1]) n--;
    bool tensors = td_onnx_wants_tensors(x);
    if (f->all) td_printf(&t->out, tensors ? "[" : "(");
    else if (n > f->ninputs)
        td_onnx_fail(t->w, x, TD_E_UNSUPPORTED, "it has %u inputs, and such ops take %u", x->nin, f->ninputs);
    for (uint32_t k = 0; k < n && !t->w->e->code; k++) {
        td_printf(&t->out, k && !f->all ? ", " : "");
        bool number = !f->all && f->params[k].number;
        if (tensors && !number) operand(t, x->in[k]);
        else td_onnx_write_value(t, x->in[k], number);
        if (f->all) td_printf(&t->out, ", ");
    }
    if (f->all) td_printf(&t->out, tensors ? "]" : ")");
    for (uint32_t k = n; !f->all && k < f->ninputs; k++)
        if (f->params[k].needed) td_onnx_fail(t->w, x, TD_E_INVALID, "it has no input '%s'", f->params[k].name);
}

static void remember(td_onnx_writer *t, const td_onnx_form *f)
{
    for (uint32_t k = 0; k < t->nused; k++)
        if (t->used[k] == f) return;
    if (room(t, &t->used, t->nused, &t->used_room, sizeof *t->used)) t->used[t->nused++] = f;
}

static void call(td_onnx_writer *t, const td_onnx_step *x, const td_onnx_form *f)
{
    remember(t, f);
    td_printf(&t->out, "%s(", f->function);
    inputs(t, x, f);
    for (const td_onnx_attribute *a = x->node->attributes.first; a && !t->w->e->code; a = a->next)
        attribute(t, x, f, a);
    for (uint32_t k = f->ninputs; k < f->nparams && !t->w->e->code; k++) extra(t, x, &f->params[k]);
    td_printf(&t->out, ")");
}

static void node(td_onnx_writer *t, td_onnx_step *x, const td_onnx_form *f)
{
    uint32_t variable = ++t->variables;
    td_onnx_write_line(t, x);
    td_printf(&t->out, "v%u = ", variable);
    call(t, x, f);
    bool parts = td_onnx_param_of(f, "outputs") || is_several(x);
    if (is_several(x) && !td_onnx_param_of(f, "outputs") && !td_onnx_param_of(f, "several"))
        td_onnx_fail(t->w, x, TD_E_UNSUPPORTED, "it has %u outputs, and such ops have one here", x->nout);
    for (uint32_t k = 0; k < x->nout; k++)
        if (x->out[k])
            x->out[k]->text = parts ? td_onnx_text_of(t, "v%u[%u]", variable, k) : td_onnx_text_of(t, "v%u", variable);
    td_onnx_infer(x);
}

/* ---- steps */

static void step(td_onnx_writer *t, td_onnx_step *x) /* NOLINT(misc-no-recursion): as deep as TD_ONNX_NEST */
{
    int64_t first;
    if (strcmp(x->node->op, "If") == 0) td_onnx_write_if(t, x);
    else if (strcmp(x->node->op, "Loop") == 0) td_onnx_write_loop(t, x);
    else node(t, x, td_onnx_form_of(t->ops, x->node->op, x->version, &first));
    if (t->out.used > LONGEST)
        td_onnx_fail(t->w, x, TD_E_UNSUPPORTED, "the text of the model is longer than %d bytes", LONGEST);
}

void td_onnx_write_steps(td_onnx_writer *t, const td_onnx_scope *s) /* NOLINT(misc-no-recursion) */
{
    for (td_onnx_step *x = s->first; x && !t->w->e->code; x = x->next) step(t, x);
}

/* ---- what is not known, all at once */

static bool is_known(const td_onnx_writer *t, const td_onnx_step *x, int64_t *first)
{
    const char *domain = x->node->domain;
    *first = 0;
    if (domain && *domain && strcmp(domain, "ai.onnx") != 0) return false;
    if (x->node->op && (strcmp(x->node->op, "If") == 0 || strcmp(x->node->op, "Loop") == 0)) return true;
    return x->node->op && td_onnx_form_of(t->ops, x->node->op, x->version, first);
}

static void say_unknown(td_onnx_writer *t, td_print *p, const td_onnx_step *x, int64_t first)
{
    char text[200];
    const td_onnx_form *near = x->node->op ? td_onnx_near(t->ops, x->node->op) : NULL;
    td_printf(p, "%s%s", p->used ? "; " : "", td_onnx_say(x, text, sizeof text));
    if (first) td_printf(p, ", known from opset %" PRId64 " on", first);
    else if (x->node->domain && *x->node->domain) td_printf(p, " of '%.40s'", x->node->domain);
    if (!first && near) td_printf(p, ", near %.*s", (int)near->length, near->function);
}

static bool is_said(const td_onnx_step **said, uint32_t n, const td_onnx_step *x)
{
    for (uint32_t k = 0; k < n; k++)
        if (x->node->op && said[k]->node->op && strcmp(said[k]->node->op, x->node->op) == 0) return true;
    return false;
}

static void refuse_unknown(td_onnx_writer *t)
{
    enum { MOST = 16 };
    const td_onnx_step *said[MOST];
    td_print p = {0};
    uint32_t n = 0, all = 0;
    for (uint32_t k = 0; k < t->w->nall; k++)
        for (const td_onnx_step *x = t->w->all[k]->first; x; x = x->next) {
            int64_t first;
            if (is_known(t, x, &first)) continue;
            all++;
            if (n == MOST || is_said(said, n, x)) continue;
            said[n++] = x;
            say_unknown(t, &p, x, first);
        }
    if (all)
        td_fail(t->w->e, TD_E_UNSUPPORTED, "ops that tensord does not know (%u node%s): %s", all, all == 1 ? "" : "s",
                p.failed ? "" : p.text);
    free(p.text);
}

/* ---- */

static void header(td_onnx_writer *t)
{
    const td_onnx_scope *m = t->w->main;
    td_onnx_write_line(t, NULL);
    td_printf(&t->out, "def main(");
    for (uint32_t k = 0; k < m->nin; k++) {
        m->in[k]->text = input_name(t, m->in[k], k);
        td_printf(&t->out, "%s%s", k ? ", " : "", m->in[k]->text);
    }
    td_printf(&t->out, "):");
    t->level = 1;
}

static void footer(td_onnx_writer *t)
{
    const td_onnx_scope *m = t->w->main;
    td_onnx_write_line(t, NULL);
    td_printf(&t->out, m->nout > 1 ? "return (" : "return ");
    for (uint32_t k = 0; k < m->nout; k++) {
        const td_onnx_value *v = m->out[k];
        td_printf(&t->out, k ? ", " : "");
        if (v->constant) td_printf(&t->out, "_copy("), weight(t, v->constant), td_printf(&t->out, ")");
        else
            td_printf(&t->out, "_out(%s, td.%s)", v->text,
                      v->dtype == TD_DTYPE_NONE ? "int64" : td_dtype_name(v->dtype));
    }
    td_printf(&t->out, m->nout > 1 ? ")\n" : "\n");
}

int td_onnx_write(td_onnx_writer *t, td_onnx_whole *w)
{
    *t = (td_onnx_writer){.w = w, .ops = td_onnx_ops_get(w->e)};
    if (!t->ops) return w->e->code;
    if (w->opset > NEWEST)
        return td_fail(w->e, TD_E_UNSUPPORTED, "its opset is %" PRId64 ", and tensord knows those up to %d", w->opset,
                       NEWEST);
    refuse_unknown(t);
    if (w->e->code) return w->e->code;
    header(t);
    td_onnx_write_steps(t, w->main);
    if (!w->e->code) footer(t);
    if (!w->e->code && t->out.failed) td_no_memory(w->e, "for the text of a model");
    return w->e->code;
}

void td_onnx_write_end(td_onnx_writer *t)
{
    free(t->out.text);
    free(t->lines);
    free(t->weights);
    free(t->used);
}
