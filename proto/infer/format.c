/* Memory formats. An image, (N, C, H, W) or (N, C, D, H, W), may lie channels last: the channels of a place side by
 * side. What is made of it element by element, or by windows, lies so, too; everything else lies row by row. A
 * pointwise op's result lies as its first dense input of that shape; of other ops with the flag `format` the first
 * result lies so when any image that they take does, or of a list each. */
#include "proto/infer/infer.h"

static bool pointwise_last(const td_inference *f, const td_desc *out)
{
    for (int i = 0; i < f->nin; i++) {
        const td_desc *in = f->in[i].desc;
        if (!in || !td_desc_same_shape(in, out)) continue;
        if (td_desc_is_channels_last(in)) return true;
        if (td_desc_is_dense(in)) return false;
    }
    return false;
}

static bool is_last(const td_desc *in, const td_desc *out)
{
    return in && in->ndim == out->ndim && td_desc_is_channels_last(in);
}

/* Of a list (cat) all, else any. */
static bool images_last(const td_inference *f, const td_desc *out)
{
    bool list = f->op->nparams && f->op->params[0].kind == TD_P_LIST, all = f->nin > 0, any = false;
    for (int i = 0; i < f->nin; i++) {
        bool last = is_last(f->in[i].desc, out);
        any = any || last;
        all = all && last;
    }
    return list ? all : any;
}

void td_infer_format(td_inference *f)
{
    bool pointwise = f->op->flags & TD_OF_POINTWISE;
    for (int o = 0; o < f->nout && (pointwise || o == 0); o++) {
        td_desc *out = &f->out[o];
        if (out->ndim != 4 && out->ndim != 5) continue;
        if (pointwise ? pointwise_last(f, out) : images_last(f, out)) td_desc_pack_channels_last(out);
    }
}
