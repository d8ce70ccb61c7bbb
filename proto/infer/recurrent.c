/* Layers of LSTM, GRU and RNN over a sequence (T, N, I), and their gradients. All tensors have one dtype (`alike`); sizes
 * of gates are multiples of the state's, which is what h0
 * (N, H), or (1, N, H), has. */
#include "proto/infer/infer.h"

#include <inttypes.h>

typedef struct layer {
    int h0, w_ih; /* inputs; the state's weights and the biases follow */
    int gates, states; /* dimensions of h0 */
    int64_t steps, rows, in, n, all; /* all: gates * n */
} layer;

/* (N, H), or (1, N, H) where h0 is so. */
static int has_state(const td_inference *f, const layer *l, int i, td_error *e)
{
    const int64_t shape[3] = {1, l->rows, l->n};
    return td_infer_has_shape(f, i, l->states, shape + 3 - l->states, e);
}

/* Sizes of the layer, and that its tensors have them. */
static int check(const td_inference *f, layer *l, td_error *e)
{
    const td_desc *x = td_in(f, 0), *h = td_in(f, l->h0);
    if (x->ndim != 3)
        return td_fail(e, TD_E_SHAPE, "expected 'x' to have 3 dimensions (T, N, I), but it has %d", x->ndim);
    if (h->ndim != 2 && h->ndim != 3)
        return td_fail(e, TD_E_SHAPE, "expected 'h0' to be (N, H) or (1, N, H), but it has %d dimensions", h->ndim);
    l->steps = x->shape[0], l->rows = x->shape[1], l->in = x->shape[2], l->n = h->shape[h->ndim - 1], l->states = h->ndim;
    if (l->steps < 1) return td_fail(e, TD_E_SHAPE, "Expected sequence length to be larger than 0 in RNN");
    if (__builtin_mul_overflow(l->n, (int64_t)l->gates, &l->all))
        return td_fail(e, TD_E_SHAPE, "'h0' has %" PRId64 " columns, which is too many", l->n);
    for (int i = l->h0; i < l->w_ih; i++) TD_TRY(has_state(f, l, i, e));
    TD_TRY(td_infer_has_shape(f, l->w_ih, 2, (int64_t[]){l->all, l->in}, e));
    return td_infer_has_shape(f, l->w_ih + 1, 2, (int64_t[]){l->all, l->n}, e);
}

static int make(td_inference *f, const layer *l, bool steps, int64_t width, td_error *e)
{
    const int64_t shape[3] = {steps ? l->steps : 1, l->rows, width};
    int ndim = steps ? 3 : l->states;
    return td_infer_make(f, f->compute, ndim, shape + 3 - ndim, e);
}

static int forward(td_inference *f, layer *l, td_error *e)
{
    f->compute = td_in_dtype(f, 0);
    TD_TRY(check(f, l, e));
    for (int i = l->w_ih + 2; i < l->w_ih + 4; i++) TD_TRY(td_infer_has_shape(f, i, 1, &l->all, e));
    TD_TRY(make(f, l, true, l->n, e));
    return make(f, l, false, l->n, e);
}

TD_RULE(lstm_layer)
{
    layer l = {.h0 = 1, .w_ih = 3, .gates = 4};
    TD_TRY(forward(f, &l, e));
    TD_TRY(make(f, &l, false, l.n, e));
    TD_TRY(make(f, &l, true, l.all, e));
    return make(f, &l, true, l.n, e);
}
TD_RULE(gru_layer)
{
    layer l = {.h0 = 1, .w_ih = 2, .gates = 3};
    TD_TRY(forward(f, &l, e));
    TD_TRY(make(f, &l, true, l.all, e));
    return make(f, &l, true, l.n, e);
}
TD_RULE(rnn_layer)
{
    layer l = {.h0 = 1, .w_ih = 2, .gates = 1};
    return forward(f, &l, e);
}

/* Inputs behind the weights: y, what was kept, and the gradients that arrive; attribute `mask` is the last. */
static int backward(td_inference *f, layer *l, int kept, td_error *e)
{
    int64_t mask = td_attr_int(f->attrs, f->op->nattrs - 1);
    int y = l->w_ih + 2, states = l->w_ih - l->h0, bit = 0;
    f->compute = td_in_dtype(f, 0);
    TD_TRY(check(f, l, e));
    const int64_t shape[3] = {l->steps, l->rows, l->n}, gates[3] = {l->steps, l->rows, l->all};
    TD_TRY(td_infer_has_shape(f, y, 3, shape, e));
    if (kept) TD_TRY(td_infer_has_shape(f, y + 1, 3, gates, e));
    if (kept) TD_TRY(td_infer_has_shape(f, y + 2, 3, shape, e));
    TD_TRY(td_infer_has_shape(f, y + kept + 1, 3, shape, e));
    for (int i = 0; i < states; i++) TD_TRY(has_state(f, l, y + kept + 2 + i, e));
    TD_TRY(td_infer_wanted(f, bit++, mask, f->compute, 3, td_in(f, 0)->shape, e));
    for (int i = 0; i < states; i++) TD_TRY(td_infer_wanted(f, bit++, mask, f->compute, l->states, td_in(f, l->h0)->shape, e));
    TD_TRY(td_infer_wanted(f, bit++, mask, f->compute, 2, td_in(f, l->w_ih)->shape, e));
    TD_TRY(td_infer_wanted(f, bit++, mask, f->compute, 2, td_in(f, l->w_ih + 1)->shape, e));
    TD_TRY(td_infer_wanted(f, bit++, mask, f->compute, 1, &l->all, e));
    return td_infer_wanted(f, bit, mask, f->compute, 1, &l->all, e);
}

TD_RULE(lstm_layer_backward)
{
    layer l = {.h0 = 1, .w_ih = 3, .gates = 4};
    return backward(f, &l, 2, e);
}
TD_RULE(gru_layer_backward)
{
    layer l = {.h0 = 1, .w_ih = 2, .gates = 3};
    return backward(f, &l, 2, e);
}
TD_RULE(rnn_layer_backward)
{
    layer l = {.h0 = 1, .w_ih = 2, .gates = 1};
    return backward(f, &l, 0, e);
}
