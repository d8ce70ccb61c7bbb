/* Nodes that have graphs of their own: If is an if, Loop a while.
 *
 * Invariant: what both arms or each trip give are tensors of one dtype, whatever the graphs write as numbers. */
#include "client/onnx/text.h"

#include "proto/base/dtype.h"

/* A value as a tensor of this dtype, where it is a number. */
static void as_tensor(td_onnx_writer *t, const td_onnx_value *v)
{
    td_printf(&t->out, "_out(");
    td_onnx_write_value(t, v, false);
    td_printf(&t->out, ", td.%s)", v->dtype == TD_DTYPE_NONE ? "int64" : td_dtype_name(v->dtype));
}

/* ---- If */

static void results(td_onnx_writer *t, const td_onnx_step *x, const td_onnx_scope *s, uint32_t first)
{
    for (uint32_t k = 0; k < x->nout; k++) {
        td_onnx_write_line(t, x);
        td_printf(&t->out, "v%u = ", first + k);
        as_tensor(t, s->out[k]);
        if (!x->out[k]) continue;
        if (x->out[k]->dtype == TD_DTYPE_NONE) x->out[k]->dtype = s->out[k]->dtype;
        x->out[k]->tensor = true;
    }
}

static void arm(td_onnx_writer *t, const td_onnx_step *x, const char *name,
                uint32_t first) /* NOLINT(misc-no-recursion): as deep as TD_ONNX_NEST */
{
    const td_onnx_attribute *a = td_onnx_attribute_of(x->node, name);
    const td_onnx_scope *s = NULL;
    for (uint32_t k = 0; a && k < x->nscopes; k++)
        if (x->scopes[k]->graph == a->graph.first) s = x->scopes[k];
    if (!s || s->nout != x->nout || s->nin) {
        td_onnx_fail(t->w, x, TD_E_INVALID, "its '%s' does not give what the node does", name);
        return;
    }
    t->level++;
    td_onnx_write_steps(t, s);
    results(t, x, s, first);
    t->level--;
}

void td_onnx_write_if(td_onnx_writer *t, td_onnx_step *x) /* NOLINT(misc-no-recursion) */
{
    uint32_t first = t->variables + 1;
    t->variables += x->nout;
    if (x->nin != 1 || !x->in[0]) {
        td_onnx_fail(t->w, x, TD_E_INVALID, "an If has one input");
        return;
    }
    td_onnx_write_line(t, x);
    td_printf(&t->out, "if _bool(");
    td_onnx_write_value(t, x->in[0], true);
    td_printf(&t->out, "):");
    arm(t, x, "then_branch", first);
    td_onnx_write_line(t, x);
    td_printf(&t->out, "else:");
    arm(t, x, "else_branch", first);
    for (uint32_t k = 0; k < x->nout; k++)
        if (x->out[k]) x->out[k]->text = td_onnx_text_of(t, "v%u", first + k);
}

/* ---- Loop: c carries on, s collects, k is the number of the trip, g says whether there is another one */

static void loop_begin(td_onnx_writer *t, td_onnx_step *x, td_onnx_scope *s, uint32_t first, uint32_t carried)
{
    for (uint32_t k = 0; k < carried; k++) {
        td_onnx_write_line(t, x);
        td_printf(&t->out, "c%u = ", first + k);
        as_tensor(t, x->in[k + 2]);
        td_onnx_value *v = s->in[k + 2];
        v->text = td_onnx_text_of(t, "c%u", first + k);
        if (v->dtype == TD_DTYPE_NONE) v->dtype = x->in[k + 2]->dtype;
    }
    for (uint32_t k = carried; k < x->nout; k++) {
        td_onnx_write_line(t, x);
        td_printf(&t->out, "s%u = _none()", first + k);
    }
    td_onnx_write_line(t, x);
    td_printf(&t->out, "g%u = _bool(", first);
    if (x->nin > 1 && x->in[1]) td_onnx_write_value(t, x->in[1], true);
    else td_printf(&t->out, "True");
    td_printf(&t->out, ")");
    td_onnx_write_line(t, x);
    td_printf(&t->out, "k%u = 0", first);
    td_onnx_write_line(t, x);
    td_printf(&t->out, "while g%u and k%u < ", first, first);
    if (x->in[0]) td_printf(&t->out, "_int("), td_onnx_write_value(t, x->in[0], true), td_printf(&t->out, ")");
    else td_printf(&t->out, "9223372036854775807");
    td_printf(&t->out, ":");
    s->in[0]->text = td_onnx_text_of(t, "k%u", first);
    s->in[1]->text = td_onnx_text_of(t, "g%u", first);
    s->in[0]->tensor = s->in[1]->tensor = false;
    s->in[0]->dtype = TD_INT64, s->in[1]->dtype = TD_BOOL;
}

/* All at once: what is carried may change places. */
static void loop_end(td_onnx_writer *t, const td_onnx_step *x, const td_onnx_scope *s, uint32_t first, uint32_t carried)
{
    for (uint32_t k = 0; k < x->nout; k++) {
        td_onnx_write_line(t, x);
        td_printf(&t->out, "t%u = ", first + k);
        as_tensor(t, s->out[k + 1]);
    }
    td_onnx_write_line(t, x);
    td_printf(&t->out, "g%u = _bool(", first);
    td_onnx_write_value(t, s->out[0], true);
    td_printf(&t->out, ")");
    for (uint32_t k = 0; k < x->nout; k++) {
        td_onnx_write_line(t, x);
        td_printf(&t->out, k < carried ? "c%u = t%u" : "s%u.append(t%u)", first + k, first + k);
    }
    td_onnx_write_line(t, x);
    td_printf(&t->out, "k%u = k%u + 1", first, first);
}

void td_onnx_write_loop(td_onnx_writer *t, td_onnx_step *x) /* NOLINT(misc-no-recursion) */
{
    uint32_t first = t->variables + 1, carried = x->nin > 2 ? x->nin - 2 : 0;
    td_onnx_scope *s = x->nscopes == 1 ? x->scopes[0] : NULL;
    t->variables += x->nout + 1;
    bool good = s && x->nin && s->nin == carried + 2 && s->nout == x->nout + 1 && x->nout >= carried;
    for (uint32_t k = 2; good && k < x->nin; k++) good = x->in[k] != NULL;
    if (!good) {
        td_onnx_fail(t->w, x, TD_E_INVALID, "its body does not take and give what the node does");
        return;
    }
    loop_begin(t, x, s, first, carried);
    t->level++;
    td_onnx_write_steps(t, s);
    loop_end(t, x, s, first, carried);
    t->level--;
    for (uint32_t k = 0; k < x->nout; k++) {
        td_onnx_value *v = x->out[k];
        if (!v) continue;
        v->text = k < carried ? td_onnx_text_of(t, "c%u", first + k) : td_onnx_text_of(t, "_stacked(s%u)", first + k);
        v->tensor = true;
        if (v->dtype == TD_DTYPE_NONE) v->dtype = s->out[k + 1]->dtype;
    }
}
