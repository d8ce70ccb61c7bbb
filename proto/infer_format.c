/* Memory formats. An image, (N, C, H, W) or (N, C, D, H, W), may lie channels last: the channels of a place side by
 * side. What is made of it element by element, or by windows, lies so, too; everything else lies row by row. A
 * pointwise op's result lies as its first dense input of that shape; other ops with the flag `format` look at all their
 * inputs, and at their first result. */
#include "proto/infer.h"

static bool is_first(const td_desc *in, const td_desc *out, bool *last)
{
    if (!in || !td_desc_same_shape(in, out) || !td_desc_is_dense(in)) return false;
    *last = td_desc_is_channels_last(in);
    return true;
}

static bool pointwise_last(const td_infer *f, const td_desc *out)
{
    bool last = false;
    for (int i = 0; i < f->nin && !is_first(f->in[i].desc, out, &last); i++) {
    }
    return last;
}

static bool any_last(const td_infer *f, const td_desc *out)
{
    for (int i = 0; i < f->nin; i++)
        if (f->in[i].desc && f->in[i].desc->ndim == out->ndim && td_desc_is_channels_last(f->in[i].desc)) return true;
    return false;
}

void td_infer_format(td_infer *f)
{
    bool pointwise = f->op->flags & TD_OF_POINTWISE;
    for (int o = 0; o < f->nout && (pointwise || o == 0); o++) {
        td_desc *out = &f->out[o];
        if (out->ndim != 4 && out->ndim != 5) continue;
        if (pointwise ? pointwise_last(f, out) : any_last(f, out)) td_desc_pack_channels_last(out);
    }
}
