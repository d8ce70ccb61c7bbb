/* A layer of LSTM, GRU or RNN in one direction over a sequence. See recurrent.h.
 *
 * First all products with the input go to where the gates are kept (of RNN: to y), and the state's weights are packed;
 * then each chunk takes its rows through the steps: the product with the state before is added, and the row's loop
 * makes of it what is kept for the backward. */
#include "daemon/kernels/cpu/sequences/recurrent.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/plans.h"

const td_recurrent_fns *td_recurrent_loops(const td_recurrent *s)
{
    return s->wide ? &td_isa_now->recurrent->f64 : &td_isa_now->recurrent->f32;
}

td_states td_states_of(const td_karg *a)
{
    const td_desc *d = a->desc;
    bool steps = d->ndim == 3;
    return (td_states){a->data, steps ? d->stride[0] : 0, d->stride[d->ndim - 2], d->stride[d->ndim - 1]};
}

td_operand_lines td_states_lines(const td_recurrent *s, const td_states *x, int64_t first)
{
    return (td_operand_lines){x->at, td_max64(1, s->rows), x->s0, x->s1, x->s2, first};
}

void td_states_copy(const td_recurrent *s, const td_karg *from, int64_t r0, int64_t rows, void *to)
{
    int64_t size = td_recurrent_size(s);
    if (td_absent(from)) {
        memset(to, 0, (size_t)(rows * s->n * size));
        return;
    }
    td_states x = td_states_of(from);
    for (int64_t r = 0; r < rows; r++)
        td_row_load((char *)to + r * s->n * size, x.at + (r0 + r) * x.s1 * size, x.s2, from->desc->dtype, s->n);
}

int64_t td_recurrent_tile(double line)
{
    double rows = 2.0 * TD_RECURRENT_PRODUCTS / (line + 1);
    return rows >= TD_RECURRENT_TILE ? TD_RECURRENT_TILE : td_max64(12, (int64_t)rows / 12 * 12);
}

int td_recurrent_begin(td_kcall *k, td_recurrent *s, int kind, int x, int h0, const char *name, td_error *e)
{
    const td_desc *d = k->in[x].desc;
    *s = (td_recurrent){.kind = (uint8_t)kind, .gates = (uint8_t[]){4, 3, 1}[kind]};
    if (d->dtype != TD_FLOAT32 && d->dtype != TD_FLOAT64) return td_refuse_dtype(k, x, name, e);
    s->wide = d->dtype == TD_FLOAT64;
    s->steps = d->shape[0], s->rows = d->shape[1], s->in = d->shape[2], s->n = k->in[h0].desc->shape[k->in[h0].desc->ndim - 1];
    if (s->rows == 0 || s->n == 0) return 0;
    double weights = (double)s->gates * (double)s->n * ((double)s->n + 64), cells = (double)s->steps * (double)s->rows;
    if (weights + cells * (s->gates + 4.0) * (double)s->n > 0x1p40)
        return td_fail(e, TD_E_MEMORY, "%s: no work space for sequences or states of this size", name);
    int64_t few = (td_cut(s->rows, s->rows <= TD_RECURRENT_FEW ? 2 : 4) + 3) / 4 * 4;
    s->per = td_min64(TD_RECURRENT_ROWS, td_max64(s->rows <= TD_RECURRENT_FEW ? 4 : 8, few));
    s->blocks = td_cut(s->rows, s->per);
    s->tile = td_recurrent_tile((double)s->gates * (double)s->n * (double)s->in);
    s->tiles = td_cut(s->steps * s->rows, s->tile);
    return 0;
}

double td_recurrent_cost(const td_recurrent *s)
{
    double cells = (double)s->steps * (double)s->rows, gates = (double)s->gates * (double)s->n;
    return cells * gates * (((double)s->in + (double)s->n) / (s->wide ? 15 : 30) + (s->wide ? 20 : 1)) + 2000;
}

/* ---- forward */

/* Where the arguments of a kind are: inputs x, h0, c0, w_ih, w_hh, b_ih, b_hh; results y, h, c, gates, cells. */
enum { X, H0, C0, W_IH, W_HH, B_IH, B_HH };
enum { Y, H, C, GATES, CELLS };
static int at_in(const td_recurrent *s, int which)
{
    return s->kind == TD_LSTM || which < C0 ? which : which - 1;
}
static int at_out(const td_recurrent *s, int which)
{
    return s->kind == TD_LSTM ? which : s->kind == TD_RNN && which == GATES ? Y : which < C ? which : which - 1;
}
static const td_karg *input(const td_kcall *k, const td_recurrent *s, int which)
{
    return &k->in[at_in(s, which)];
}
static char *output(const td_kcall *k, const td_recurrent *s, int which)
{
    return k->out[at_out(s, which)].data;
}

/* The state's weights: LSTM and RNN all gates, of GRU the new gate apart. Part 0, or 1. */
static td_product state_product(const td_kcall *k, const td_recurrent *s, int part)
{
    td_states w = td_states_of(input(k, s, W_HH));
    int64_t own = s->kind == TD_GRU ? 2 * s->n : s->gates * s->n;
    td_operand_lines rows = td_even_lines(w.at, w.s1, w.s2);
    rows.first = part ? own : 0;
    return (td_product){.wide = s->wide,
                        .turned = true,
                        .n = part ? s->n : own,
                        .k = s->n,
                        .b = rows,
                        .packed = (char *)k->work + (part ? s->hidden_at : s->packed_at)};
}

static void input_chunk(td_kcall *k, const td_recurrent *s, int64_t chunk, void *scratch)
{
    int64_t b, e, gates = s->gates * s->n;
    td_states x = td_states_of(input(k, s, X)), w = td_states_of(input(k, s, W_IH));
    td_cut_range(s->steps * s->rows, s->tile, chunk, &b, &e);
    td_product_run(k, &(td_product){.wide = s->wide,
                                    .turned = true,
                                    .m = e - b,
                                    .n = gates,
                                    .k = s->in,
                                    .ldc = gates,
                                    .a = td_states_lines(s, &x, b),
                                    .b = td_even_lines(w.at, w.s1, w.s2),
                                    .room = scratch,
                                    .c = output(k, s, GATES) + b * gates * td_recurrent_size(s)});
}

static void begin_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_recurrent *s = (const td_recurrent *)k->state;
    if (chunk < s->tiles) {
        input_chunk(k, s, chunk, scratch);
        return;
    }
    chunk -= s->tiles;
    int64_t cols = td_product_cols(s->wide);
    for (int part = 0; part < (s->kind == TD_GRU ? 2 : 1); part++) {
        td_product p = state_product(k, s, part);
        int64_t b, e;
        td_cut_range(td_cut(p.n, cols), s->pack, chunk, &b, &e);
        if (b < e) td_product_pack(&p, b, e, (void *)(uintptr_t)p.packed);
    }
}

/* Both biases of each gate, one sum; of GRU those of the new gate's product with the state behind them. */
#define DEFINE_BIASES(T, S)                                                                                            \
    static void biases_##S(const td_recurrent *s, T *to, const T *other)                                               \
    {                                                                                                                  \
        int64_t alone = s->kind == TD_GRU ? 2 * s->n : s->gates * s->n;                                                \
        for (int64_t j = 0; j < alone; j++) to[j] += other[j];                                                         \
        for (int64_t j = alone; j < s->gates * s->n; j++) to[j + s->n] = other[j];                                     \
    }
DEFINE_BIASES(float, f32)
DEFINE_BIASES(double, f64)

static void biases(const td_kcall *k, const td_recurrent *s, char *to, char *room)
{
    int64_t all = s->gates * s->n, size = td_recurrent_size(s);
    memset(to, 0, (size_t)((all + s->n) * size));
    for (int which = B_IH; which <= B_HH; which++) {
        const td_karg *b = input(k, s, which);
        if (td_absent(b)) continue;
        td_row_load(which == B_IH ? to : room, b->data, b->desc->stride[0], b->desc->dtype, all);
        if (which == B_IH) continue;
        if (s->wide) biases_f64(s, (double *)(void *)to, (double *)(void *)room);
        else biases_f32(s, (float *)(void *)to, (float *)(void *)room);
    }
}

typedef struct walk { /* some rows through the steps */
    int64_t r0, rows;
    char *bias, *h0, *c0;
} walk;

/* Row r of step t in a result of `width` columns. */
static char *place(const td_recurrent *s, char *base, int64_t t, int64_t r, int64_t width)
{
    return base + (t * s->rows + r) * width * td_recurrent_size(s);
}

static bool multiply(td_kcall *k, const td_recurrent *s, int part, const walk *w, const char *before, char *to, int64_t ldc)
{
    td_product p = state_product(k, s, part);
    p.m = w->rows;
    p.a = td_even_lines(before, s->n, 1);
    p.c = to;
    p.ldc = ldc;
    p.add = !part;
    return td_product_run(k, &p);
}

static void row(const td_kcall *k, const td_recurrent *s, const walk *w, int64_t t, int64_t r, const char *h, const char *c)
{
    const td_recurrent_fns *f = td_recurrent_loops(s);
    char *gates = place(s, output(k, s, GATES), t, r, s->gates * s->n), *y = place(s, output(k, s, Y), t, r, s->n);
    char *cell = s->kind == TD_RNN ? NULL : place(s, output(k, s, CELLS), t, r, s->n);
    if (s->kind == TD_LSTM) f->lstm(s->n, gates, w->bias, c, cell, y);
    else if (s->kind == TD_GRU) f->gru(s->n, gates, cell, w->bias, h, y);
    else f->rnn(s->n, y, w->bias, s->relu);
}

static bool step(td_kcall *k, const td_recurrent *s, const walk *w, int64_t number)
{
    int64_t t = td_recurrent_step(s, number), last = number ? td_recurrent_step(s, number - 1) : 0;
    int64_t line = s->n * td_recurrent_size(s), gates = s->gates * s->n;
    const char *h = number ? place(s, output(k, s, Y), last, w->r0, s->n) : w->h0;
    const char *c = number && s->kind == TD_LSTM ? place(s, output(k, s, CELLS), last, w->r0, s->n) : w->c0;
    if (multiply(k, s, 0, w, h, place(s, output(k, s, GATES), t, w->r0, gates), gates)) return true;
    if (s->kind == TD_GRU && multiply(k, s, 1, w, h, place(s, output(k, s, CELLS), t, w->r0, s->n), s->n)) return true;
    int64_t done = 0;
    for (int64_t r = 0; r < w->rows; r++) {
        row(k, s, w, t, w->r0 + r, h + r * line, c ? c + r * line : NULL);
        if (td_kernel_rest_after(k, &done, gates)) return true;
    }
    return td_kernel_rest(k);
}

static void rows_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_recurrent *s = (const td_recurrent *)k->state;
    int64_t size = td_recurrent_size(s), r1;
    walk w = {.bias = scratch};
    td_cut_range(s->rows, s->per, chunk, &w.r0, &r1);
    w.rows = r1 - w.r0;
    w.h0 = w.bias + 2 * (s->gates + 1) * s->n * size;
    biases(k, s, w.bias, w.bias + (s->gates + 1) * s->n * size);
    td_states_copy(s, input(k, s, H0), w.r0, w.rows, w.h0);
    if (s->kind == TD_LSTM) {
        w.c0 = w.h0 + s->per * s->n * size;
        td_states_copy(s, input(k, s, C0), w.r0, w.rows, w.c0);
    }
    for (int64_t i = 0; i < s->steps; i++)
        if (step(k, s, &w, i)) return;
    int64_t t = td_recurrent_step(s, s->steps - 1);
    size_t bytes = (size_t)(w.rows * s->n * size);
    memcpy(place(s, output(k, s, H), 0, w.r0, s->n), place(s, output(k, s, Y), t, w.r0, s->n), bytes);
    if (s->kind == TD_LSTM)
        memcpy(place(s, output(k, s, C), 0, w.r0, s->n), place(s, output(k, s, CELLS), t, w.r0, s->n), bytes);
}

static int plan(td_kcall *k, int kind, const char *name, td_error *e)
{
    td_recurrent *s = (td_recurrent *)k->state;
    int rc = td_recurrent_begin(k, s, kind, X, H0, name, e);
    if (rc) return rc;
    int64_t size = td_recurrent_size(s), alone = kind == TD_GRU ? 2 * s->n : s->gates * s->n;
    s->relu = kind == TD_RNN && td_attr_bool(k->attrs, 0);
    s->reverse = td_attr_bool(k->attrs, kind == TD_RNN);
    if (s->rows == 0 || s->n == 0) return 0;
    s->packed_at = td_plan_work(k, (size_t)(td_product_packed(s->wide, alone, s->n) * size));
    if (kind == TD_GRU) s->hidden_at = td_plan_work(k, (size_t)(td_product_packed(s->wide, s->n, s->n) * size));
    int64_t panels = td_cut(alone, td_product_cols(s->wide));
    s->pack = td_max64(1, TD_RECURRENT_PACK / td_max64(1, s->n * td_product_cols(s->wide)));
    td_plan_phase(k, begin_chunk, s->tiles + td_cut(panels, s->pack));
    td_plan_phase(k, rows_chunk, s->blocks);
    k->scratch_bytes = td_product_room(s->wide);
    size_t walks = (size_t)((2 * (s->gates + 1) + 2 * s->per) * s->n * size);
    if (k->scratch_bytes < walks) k->scratch_bytes = walks;
    k->cost_ns = td_recurrent_cost(s);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_lstm_layer(td_kcall *k, td_error *e)
{
    return plan(k, TD_LSTM, "lstm_layer", e);
}
int td_cpu_plan_gru_layer(td_kcall *k, td_error *e)
{
    return plan(k, TD_GRU, "gru_layer", e);
}
int td_cpu_plan_rnn_layer(td_kcall *k, td_error *e)
{
    return plan(k, TD_RNN, "rnn_layer", e);
}
