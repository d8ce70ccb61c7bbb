/* The card of a model. See card.h. */
#include "client/onnx/card.h"

#include "proto/base/dtype.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* In quotes. What is no UTF-8 is shown as it is elsewhere: with \xNN. */
static void text(td_print *p, const char *s)
{
    td_printf(p, "\"");
    for (size_t n; s && *s; s += n) {
        uint32_t code;
        n = td_text_char(s, &code);
        if (code == UINT32_MAX) td_printf(p, "\\\\x%02x", (unsigned char)*s);
        else if (*s == '"' || *s == '\\') td_printf(p, "\\%c", *s);
        else if (code < 0x20 || code == 0x7f) td_printf(p, "\\u%04x", (unsigned)code);
        else td_print_bytes(p, s, n);
    }
    td_printf(p, "\"");
}

static void size(td_print *p, const td_onnx_dim *d)
{
    if (d->symbol && *d->symbol) text(p, d->symbol);
    else if (d->size > 0) td_printf(p, "%" PRId64, d->size);
    else td_printf(p, d->size == 0 ? "0" : "null");
}

/* A rank that the file does not say is null as a whole. */
static bool value(td_onnx_whole *w, td_print *p, const td_onnx_info *x)
{
    const td_onnx_type *type = x->type.last;
    const td_onnx_tensor_type *t = type ? type->tensor.last : NULL;
    const td_onnx_shape *s = t ? t->shape.last : NULL;
    if (!t || td_onnx_dtype(t->type) == TD_DTYPE_NONE)
        return td_onnx_fail(w, NULL, TD_E_UNSUPPORTED, "'%.80s' is %s, which tensord has no dtype for", x->name,
                            t ? td_onnx_type_name(t->type) : "no tensor");
    td_printf(p, "{\"name\": ");
    text(p, x->name);
    td_printf(p, ", \"dtype\": \"%s\", \"shape\": %s", td_dtype_name(td_onnx_dtype(t->type)), s ? "[" : "null");
    for (const td_onnx_dim *d = s ? s->dims.first : NULL; d; d = d->next) {
        size(p, d);
        td_printf(p, d->next ? ", " : "");
    }
    td_printf(p, s ? "]}" : "}");
    return true;
}

static bool inputs(td_onnx_whole *w, td_print *p)
{
    uint32_t k = 0;
    td_printf(p, ",\n \"inputs\": [");
    for (const td_onnx_info *x = w->main->graph->inputs.first; x && k < w->main->nin; x = x->next) {
        if (strcmp(x->name, w->main->in[k]->name) != 0) continue; /* a weight */
        td_printf(p, k++ ? ",\n            " : "");
        if (!value(w, p, x)) return false;
    }
    td_printf(p, "]");
    return true;
}

static bool outputs(td_onnx_whole *w, td_print *p)
{
    td_printf(p, ",\n \"outputs\": [");
    for (const td_onnx_info *x = w->main->graph->outputs.first; x; x = x->next) {
        if (!value(w, p, x)) return false;
        td_printf(p, x->next ? ",\n             " : "");
    }
    td_printf(p, "]");
    return true;
}

char *td_onnx_card(td_onnx_whole *w, const char *path, const char *digest, uint64_t weights)
{
    td_print p = {0};
    const char *slash = strrchr(path, '/');
    td_printf(&p, "{\"format\": 1, \"source\": \"onnx\", \"producer\": ");
    text(&p, w->file->model->producer);
    td_printf(&p, ", \"opset\": %" PRId64 ", \"digest\": \"sha256:%s\", \"weights\": %" PRIu64 ", \"file\": ", w->opset,
              digest, weights);
    text(&p, slash ? slash + 1 : path);
    bool good = inputs(w, &p) && outputs(w, &p);
    td_printf(&p, "}\n");
    if (good && p.failed) td_no_memory(w->e, "for the card of a model");
    else if (good && p.used > TD_ONNX_CARD)
        td_onnx_fail(w, NULL, TD_E_UNSUPPORTED, "its inputs and outputs make a card of more than %d bytes",
                     TD_ONNX_CARD);
    if (!w->e->code) return p.text;
    free(p.text);
    return NULL;
}
