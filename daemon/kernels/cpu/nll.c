/* nll_loss: -w[t] x[t] over the class dimension, and its gradient. A target is loaded once, checked, used. Sums are
 * taken in double over fixed blocks of targets and added in order of the blocks. Shapes: x is C, N x C or N x C x
 * d1...; reduction 0 none, 1 mean (divided by the weights' sum), 2 sum. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/rows.h"
#include "daemon/kernels/cpu/walk.h"
#include "daemon/kernels/plans.h"

typedef struct nll_state {
    int64_t targets, classes, ignore, reduction;
    int class_dim;
} nll_state;

typedef struct nll_sum {
    double loss, weight;
} nll_sum;

enum { BAD = -1, IGNORED = -2 };

/* The class of target i, or BAD (reported) or IGNORED. */
static int64_t load_target(td_kcall *k, const nll_state *s, const td_karg *target, const char *p)
{
    int64_t t = td_load_index(p, target->desc->dtype);
    if (t == s->ignore) return IGNORED;
    if (t >= 0 && t < s->classes) return t;
    td_kernel_fail(k, TD_E_INDEX, "nll_loss: target %lld is out of bounds for %lld classes", (long long)t,
                   (long long)s->classes);
    return BAD;
}

static double weight_of(const td_karg *w, int64_t t)
{
    return td_absent(w) ? 1 : td_karg_number(w, t);
}

/* Strides of x over the target's dimensions: all but the class dimension. */
static void strides_without_class(const td_desc *x, int class_dim, int64_t *stride)
{
    for (int d = 0, j = 0; d < x->ndim; d++)
        if (d != class_dim) stride[j++] = x->stride[d];
}

static void forward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const nll_state *s = (const nll_state *)k->state;
    const td_desc *x = k->in[0].desc, *target = k->in[1].desc;
    size_t size = td_dtype_size(x->dtype);
    int64_t b, e, stride[TD_MAX_DIMS], class_step = x->stride[s->class_dim] * (int64_t)size, i;
    nll_sum sum = {0, 0};
    td_walk w;
    td_walk_at at;
    (void)scratch;
    strides_without_class(x, s->class_dim, stride);
    td_walk_init(&w, target->ndim, target->shape);
    td_walk_add(&w, stride, size);
    td_walk_add_desc(&w, target);
    td_walk_merge(&w);
    td_cut_range(s->targets, TD_NLL_BLOCK, chunk, &b, &e);
    void *base[2] = {k->in[0].data, k->in[1].data};
    for (td_walk_begin(&w, &at, base, b, e - b); at.run; td_walk_next(&w, &at))
        for (i = 0; i < at.run; i++, b++) {
            int64_t t = load_target(k, s, &k->in[1], at.p[1] + i * td_walk_inner(&w, 1));
            if (t == BAD) return;
            double weight = t == IGNORED ? 0 : weight_of(&k->in[2], t), loss = 0;
            const char *from = at.p[0] + i * td_walk_inner(&w, 0);
            if (t != IGNORED) loss = -weight * td_element_to_double(from + t * class_step, x->dtype);
            if (s->reduction == 0) td_element_from_double((char *)k->out[0].data + b * (int64_t)size, x->dtype, loss);
            sum.loss += loss;
            sum.weight += weight;
        }
    ((nll_sum *)k->work)[chunk] = sum;
}

static void finish_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const nll_state *s = (const nll_state *)k->state;
    nll_sum sum = {0, 0};
    (void)chunk, (void)scratch;
    if (atomic_load(&k->failed)) return;
    for (int64_t c = 0; c < td_cut(s->targets, TD_NLL_BLOCK); c++) {
        sum.loss += ((nll_sum *)k->work)[c].loss;
        sum.weight += ((nll_sum *)k->work)[c].weight;
    }
    double loss = s->reduction == 1 ? sum.loss / sum.weight : sum.loss;
    if (s->reduction != 0) td_element_from_double(k->out[0].data, k->out[0].desc->dtype, loss);
    td_element_from_double(k->out[1].data, k->out[1].desc->dtype, s->reduction == 0 ? 0 : sum.weight);
}

static int start(nll_state *s, const td_karg *target, unsigned dtype, int ndim, const int64_t *shape, td_error *e)
{
    if (!td_dtype_is_float(dtype))
        return td_fail(e, TD_E_UNSUPPORTED, "nll_loss has no CPU kernel for %s", td_dtype_name(dtype));
    if (!td_is_index_dtype(target->desc->dtype))
        return td_fail(e, TD_E_TYPE, "nll_loss: targets must be integers, not %s", td_dtype_name(target->desc->dtype));
    s->class_dim = ndim > 1 ? 1 : 0;
    s->classes = shape[s->class_dim];
    s->targets = td_desc_numel(target->desc);
    int64_t expect = 1;
    for (int d = 0; d < ndim; d++) expect *= d == s->class_dim ? 1 : shape[d];
    if (ndim < 1 || expect != s->targets)
        return td_fail(e, TD_E_SHAPE, "nll_loss: %lld targets do not fit the input", (long long)s->targets);
    return 0;
}

int td_cpu_plan_nll_loss(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc;
    nll_state *s = (nll_state *)k->state;
    *s = (nll_state){.reduction = td_attr_int(k->attrs, 0), .ignore = td_attr_int(k->attrs, 1)};
    int rc = start(s, &k->in[1], x->dtype, x->ndim, x->shape, e);
    if (rc) return rc;
    int64_t blocks = td_cut(s->targets, TD_NLL_BLOCK);
    td_plan_work(k, (size_t)td_max64(1, blocks) * sizeof(nll_sum));
    td_plan_phase(k, forward_chunk, blocks);
    td_plan_phase(k, finish_chunk, 1);
    k->cost_ns = (double)s->targets * 12 + 150;
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

/* ---- gradient: zeros but for -w[t] g at the target's class ---- */

/* Chunks are whole blocks of dx's rows of N: each zeroes its part and then fills in. */
typedef struct back_state {
    nll_state nll;
    int64_t rows, inner, per; /* dx is rows x classes x inner */
} back_state;

static void backward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const back_state *s = (const back_state *)k->state;
    const td_karg *g = &k->in[0], *target = &k->in[1];
    const td_desc *y = k->out[0].desc;
    int64_t size = (int64_t)td_dtype_size(y->dtype), plane = s->nll.classes * s->inner, b, e;
    int64_t tsize = (int64_t)td_dtype_size(target->desc->dtype);
    (void)scratch;
    td_cut_range(s->rows, s->per, chunk, &b, &e);
    char *out = k->out[0].data;
    memset(out + b * plane * size, 0, (size_t)((e - b) * plane * size));
    double scale = -1;
    if (s->nll.reduction != 0) scale = -td_karg_number(g, 0);
    if (s->nll.reduction == 1) scale /= td_karg_number(&k->in[3], 0);
    for (int64_t i = b * s->inner; i < e * s->inner; i++) {
        const td_desc *d = target->desc;
        int64_t at = 0, rest = i;
        for (int n = d->ndim - 1; n >= 0; n--) {
            at += rest % d->shape[n] * d->stride[n];
            rest /= d->shape[n];
        }
        int64_t t = load_target(k, &s->nll, target, (const char *)target->data + at * tsize);
        if (t == BAD) return;
        if (t == IGNORED) continue;
        double v = scale * weight_of(&k->in[2], t) * (s->nll.reduction == 0 ? td_karg_number(g, i) : 1);
        int64_t to = i / s->inner * plane + t * s->inner + i % s->inner;
        td_element_from_double(out + to * size, y->dtype, v);
    }
}

int td_cpu_plan_nll_loss_backward(td_kcall *k, td_error *e)
{
    const td_desc *y = k->out[0].desc;
    back_state *s = (back_state *)k->state;
    *s = (back_state){.nll = {.reduction = td_attr_int(k->attrs, 1), .ignore = td_attr_int(k->attrs, 2)}, .rows = 1};
    int rc = start(&s->nll, &k->in[1], y->dtype, y->ndim, y->shape, e);
    if (rc) return rc;
    if (y->ndim > 1) s->rows = y->shape[0];
    s->inner = s->rows ? s->nll.targets / s->rows : 0;
    s->per = td_max64(1, TD_NLL_BACK_CHUNK / td_max64(1, s->nll.classes * s->inner));
    td_plan_phase(k, backward_chunk, td_cut(s->rows, s->per));
    k->cost_ns = (double)s->nll.targets * 12 + (double)(s->nll.targets * s->nll.classes) * 0.15 + 100;
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}
