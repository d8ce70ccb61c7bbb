/* The gradients of a recurrent layer. See recurrent.h.
 *
 * Chunks of rows go back through the steps and leave the gradients of all products, (steps, batch, gates), in work
 * memory; what the input, the weights and the biases get of them are then products and sums over all steps at once. GRU
 * keeps those of its new gate's product with the state apart. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cpu/sequences/recurrent.h"
#include "daemon/kernels/cpu/walk.h"
#include "daemon/kernels/plans.h"

/* Inputs of lstm_layer_backward; gru has no C0 and GC, rnn no C0, GATES, CELLS and GC. Results in the order of the
 * mask. */
enum { X, H0, C0, W_IH, W_HH, Y, GATES, CELLS, GY, GH, GC };
enum { DX, DH0, DC0, DW_IH, DW_HH, DB_IH, DB_HH };

static const td_karg *input(const td_kcall *k, const td_recurrent *s, int which)
{
    static const int8_t at[3][11] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {0, 1, -1, 2, 3, 4, 5, 6, 7, 8, -1}, {0, 1, -1, 2, 3, 4, -1, -1, 5, 6, -1}};
    return &k->in[at[s->kind][which]];
}
static int at_out(const td_recurrent *s, int which)
{
    return s->kind == TD_LSTM || which < DC0 ? which : which - 1;
}
static bool wanted(const td_recurrent *s, int which)
{
    return (which != DC0 || s->kind == TD_LSTM) && s->mask >> at_out(s, which) & 1;
}
static char *output(const td_kcall *k, const td_recurrent *s, int which)
{
    return k->out[at_out(s, which)].data;
}

/* y, gates and cells as rows without gaps: where they lie, or their copy. */
static const char *kept(const td_kcall *k, const td_recurrent *s, int which)
{
    int i = which - Y;
    return s->copied[i] ? (const char *)k->work + s->copy_at[i] : input(k, s, which)->data;
}

/* The state's weights as B: lines are the rows of w, the gates. Part 1: of GRU's new gate. */
static td_product state_product(const td_kcall *k, const td_recurrent *s, int part)
{
    td_states w = td_states_of(input(k, s, W_HH));
    int64_t own = s->kind == TD_GRU ? 2 * s->n : s->gates * s->n;
    td_operand_lines rows = td_even_lines(w.at, w.s1, w.s2);
    rows.first = part ? own : 0;
    return (td_product){.wide = s->wide,
                        .n = s->n,
                        .k = part ? s->n : own,
                        .b = rows,
                        .packed = (char *)k->work + (part ? s->hidden_at : s->packed_at)};
}

static void copy_kept(td_kcall *k, const td_recurrent *s, int i)
{
    const td_karg *a = input(k, s, Y + i);
    const int64_t n = td_desc_numel(a->desc), size = td_recurrent_size(s), *shape = a->desc->shape;
    const int64_t stride[3] = {shape[1] * shape[2], shape[2], 1};
    for (int64_t b = 0; b < n; b += TD_RECURRENT_PACK) {
        td_copy_strided(3, shape, (char *)k->work + s->copy_at[i], stride, a->data, a->desc->stride, (size_t)size, b,
                        td_min64(TD_RECURRENT_PACK, n - b));
        if (td_kernel_rest(k)) return;
    }
}

static void begin_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_recurrent *s = (const td_recurrent *)k->state;
    (void)scratch;
    if (chunk < 3) {
        if (s->copied[chunk]) copy_kept(k, s, (int)chunk);
        return;
    }
    int64_t cols = td_product_cols(s->wide);
    for (int part = 0; part < (s->kind == TD_GRU ? 2 : 1); part++) {
        td_product p = state_product(k, s, part);
        int64_t b, e;
        td_cut_range(td_cut(p.n, cols), s->pack, chunk - 3, &b, &e);
        if (b < e) td_product_pack(&p, b, e, (void *)(uintptr_t)p.packed);
    }
}

/* ---- back through the steps */

typedef struct walk {
    int64_t r0, rows;
    char *dh, *dc, *h0, *c0;
} walk;

static int64_t offset(const td_recurrent *s, int64_t t, int64_t r, int64_t width)
{
    return (t * s->rows + r) * width * td_recurrent_size(s);
}

#define DEFINE_ADD(T, S)                                                                                               \
    static TD_FOR_SETS(void, add_##S, (int64_t n, T *restrict to, const T *from, int64_t step), (n, to, from, step))   \
    {                                                                                                                  \
        if (step == 1)                                                                                                 \
            for (int64_t j = 0; j < n; j++) to[j] += from[j];                                                          \
        else                                                                                                           \
            for (int64_t j = 0; j < n; j++) to[j] += from[j * step];                                                   \
    }
DEFINE_ADD(float, f32)
DEFINE_ADD(double, f64)

/* What arrives at y is added to what comes from the step behind. */
static void arrive(const td_kcall *k, const td_recurrent *s, const walk *w, int64_t t)
{
    const td_karg *gy = input(k, s, GY);
    int64_t size = td_recurrent_size(s);
    if (td_absent(gy)) return;
    td_states g = td_states_of(gy);
    for (int64_t r = 0; r < w->rows; r++) {
        const char *from = g.at + (t * g.s0 + (w->r0 + r) * g.s1) * size;
        char *to = w->dh + r * s->n * size;
        if (s->wide) add_f64(s->n, (double *)(void *)to, (const double *)(const void *)from, g.s2);
        else add_f32(s->n, (float *)(void *)to, (const float *)(const void *)from, g.s2);
    }
}

static void row(const td_kcall *k, const td_recurrent *s, const walk *w, int64_t number, int64_t r)
{
    const td_recurrent_fns *f = td_recurrent_loops(s);
    int64_t t = td_recurrent_step(s, number), line = s->n * td_recurrent_size(s), at = offset(s, t, w->r0 + r, s->n);
    int64_t before = number ? offset(s, td_recurrent_step(s, number - 1), w->r0 + r, s->n) : 0;
    int64_t wide = offset(s, t, w->r0 + r, s->gates * s->n);
    char *dh = w->dh + r * line, *d = (char *)k->work + s->d_at + wide;
    if (s->kind == TD_LSTM) {
        const char *cells = kept(k, s, CELLS);
        f->lstm_back(s->n, kept(k, s, GATES) + wide, number ? cells + before : w->c0 + r * line, cells + at, dh,
                     w->dc + r * line, d);
    } else if (s->kind == TD_GRU) {
        f->gru_back(s->n, kept(k, s, GATES) + wide, kept(k, s, CELLS) + at,
                    number ? kept(k, s, Y) + before : w->h0 + r * line, dh, d, (char *)k->work + s->dhidden_at + at);
    } else f->rnn_back(s->n, kept(k, s, Y) + at, dh, d, s->relu);
}

static bool multiply(td_kcall *k, const td_recurrent *s, int part, const walk *w, int64_t t)
{
    td_product p = state_product(k, s, part);
    int64_t width = part ? s->n : s->gates * s->n;
    p.m = w->rows;
    p.a = td_even_lines((char *)k->work + (part ? s->dhidden_at : s->d_at) + offset(s, t, w->r0, width), width, 1);
    p.c = w->dh;
    p.ldc = s->n;
    p.add = s->kind == TD_GRU;
    return td_product_run(k, &p);
}

static bool step(td_kcall *k, const td_recurrent *s, const walk *w, int64_t number)
{
    int64_t t = td_recurrent_step(s, number), done = 0;
    arrive(k, s, w, t);
    for (int64_t r = 0; r < w->rows; r++) {
        row(k, s, w, number, r);
        if (td_kernel_rest_after(k, &done, s->gates * s->n)) return true;
    }
    if (number == 0 && !wanted(s, DH0)) return false;
    return multiply(k, s, 0, w, t) || (s->kind == TD_GRU && multiply(k, s, 1, w, t)) || td_kernel_rest(k);
}

static void rows_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_recurrent *s = (const td_recurrent *)k->state;
    int64_t block = s->per * s->n * td_recurrent_size(s), r1;
    walk w = {.dh = scratch};
    td_cut_range(s->rows, s->per, chunk, &w.r0, &r1);
    w.rows = r1 - w.r0;
    td_states_copy(s, input(k, s, GH), w.r0, w.rows, w.dh);
    w.h0 = w.dh + block;
    td_states_copy(s, input(k, s, H0), w.r0, w.rows, w.h0);
    if (s->kind == TD_LSTM) {
        w.c0 = w.dh + 2 * block;
        w.dc = w.dh + 3 * block;
        td_states_copy(s, input(k, s, C0), w.r0, w.rows, w.c0);
        td_states_copy(s, input(k, s, GC), w.r0, w.rows, w.dc);
    }
    for (int64_t i = s->steps - 1; i >= 0; i--)
        if (step(k, s, &w, i)) return;
    size_t bytes = (size_t)(w.rows * s->n * td_recurrent_size(s));
    if (wanted(s, DH0)) memcpy(output(k, s, DH0) + offset(s, 0, w.r0, s->n), w.dh, bytes);
    if (wanted(s, DC0)) memcpy(output(k, s, DC0) + offset(s, 0, w.r0, s->n), w.dc, bytes);
}

/* ---- over all steps */

static void input_chunk(td_kcall *k, const td_recurrent *s, int64_t chunk, char *room)
{
    int64_t b, e, gates = s->gates * s->n, size = td_recurrent_size(s);
    td_states w = td_states_of(input(k, s, W_IH));
    td_cut_range(s->steps * s->rows, s->tile, chunk, &b, &e);
    td_product_run(k, &(td_product){.wide = s->wide,
                                    .m = e - b,
                                    .n = s->in,
                                    .k = gates,
                                    .ldc = s->in,
                                    .a = td_even_lines((char *)k->work + s->d_at + b * gates * size, gates, 1),
                                    .b = td_even_lines(w.at, w.s1, w.s2),
                                    .room = room,
                                    .c = output(k, s, DX) + b * s->in * size});
}

/* Rows of the products' gradients with a column for each gate [b, e), turned; of GRU's new gate those of the state's.
 */
static td_operand_lines turned(const td_kcall *k, const td_recurrent *s, bool state, int64_t b, int64_t row)
{
    int64_t size = td_recurrent_size(s), own = 2 * s->n;
    if (state && s->kind == TD_GRU && b >= own)
        return td_even_lines((char *)k->work + s->dhidden_at + (row * s->n + b - own) * size, 1, s->n);
    int64_t gates = s->gates * s->n;
    return td_even_lines((char *)k->work + s->d_at + (row * gates + b) * size, 1, gates);
}

/* dw_hh: the state before is y a step earlier, and h0 where there is none. */
static void state_weights(td_kcall *k, const td_recurrent *s, td_product *p, int64_t b)
{
    int64_t first = td_recurrent_step(s, 0);
    td_states h = td_states_of(input(k, s, H0));
    p->a = turned(k, s, true, b, first * s->rows);
    p->b = td_even_lines(h.at, h.s1, h.s2);
    p->k = s->rows;
    if (td_product_run(k, p) || s->steps == 1) return;
    p->a = turned(k, s, true, b, s->reverse ? 0 : s->rows);
    p->b = td_even_lines(kept(k, s, Y) + (s->reverse ? offset(s, 1, 0, s->n) : 0), s->n, 1);
    p->k = (s->steps - 1) * s->rows;
    p->add = true;
    td_product_run(k, p);
}

/* Rows of one part of the weights: of GRU's states the new gate is a part of its own, so tiles do not cross it. */
static void weights_chunk(td_kcall *k, const td_recurrent *s, int64_t chunk, bool state, char *room)
{
    int64_t per_gate = td_max64(1, td_cut(s->n, s->w_tile)), gate = chunk / per_gate, b, e;
    td_cut_range(s->n, s->w_tile, chunk % per_gate, &b, &e);
    b += gate * s->n, e += gate * s->n;
    int64_t width = state ? s->n : s->in;
    td_product p = {
        .wide = s->wide, .m = e - b, .n = width, .ldc = width, .room = room, .turn = room + td_product_room(s->wide)};
    p.c = output(k, s, state ? DW_HH : DW_IH) + b * width * td_recurrent_size(s);
    if (state) {
        state_weights(k, s, &p, b);
        return;
    }
    td_states x = td_states_of(input(k, s, X));
    p.a = turned(k, s, false, b, 0);
    p.b = td_states_lines(s, &x, 0);
    p.k = s->steps * s->rows;
    td_product_run(k, &p);
}

enum { BIASES = 64 }; /* columns at once */

static void bias_sums(td_kcall *k, const td_recurrent *s, td_operand_lines d, int64_t n, char *to)
{
    double sum[BIASES] = {0};
    int64_t all = s->steps * s->rows, done = 0;
    for (int64_t i = 0; i < all; i++) {
        if (s->wide)
            for (int64_t j = 0; j < n; j++) sum[j] += ((const double *)d.at)[i * d.step + j];
        else
            for (int64_t j = 0; j < n; j++) sum[j] += (double)((const float *)d.at)[i * d.step + j];
        if (td_kernel_rest_after(k, &done, n)) return;
    }
    for (int64_t j = 0; j < n; j++) {
        if (s->wide) ((double *)(void *)to)[j] = sum[j];
        else ((float *)(void *)to)[j] = (float)sum[j];
    }
}

static void biases_chunk(td_kcall *k, const td_recurrent *s, int64_t chunk)
{
    int64_t per_gate = td_max64(1, td_cut(s->n, BIASES)), gate = chunk / per_gate, b, e;
    td_cut_range(s->n, BIASES, chunk % per_gate, &b, &e);
    b += gate * s->n, e += gate * s->n;
    for (int which = DB_IH; which <= DB_HH; which++)
        if (wanted(s, which))
            bias_sums(k, s, turned(k, s, which == DB_HH, b, 0), e - b, output(k, s, which) + b * td_recurrent_size(s));
}

static void end_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_recurrent *s = (const td_recurrent *)k->state;
    int64_t w_ih = wanted(s, DW_IH) ? s->w_tiles : 0, w_hh = wanted(s, DW_HH) ? s->w_tiles : 0;
    if (chunk < w_ih) weights_chunk(k, s, chunk, false, scratch);
    else if (chunk < w_ih + w_hh) weights_chunk(k, s, chunk - w_ih, true, scratch);
    else if (chunk < w_ih + w_hh + s->b_tiles) biases_chunk(k, s, chunk - w_ih - w_hh);
    else input_chunk(k, s, chunk - w_ih - w_hh - s->b_tiles, scratch);
}

/* ---- the plan */

static void plan_kept(td_kcall *k, td_recurrent *s)
{
    for (int i = 0; i < (s->kind == TD_RNN ? 1 : 3); i++) {
        const td_desc *d = input(k, s, Y + i)->desc;
        s->copied[i] = !td_desc_is_contiguous(d);
        if (s->copied[i]) s->copy_at[i] = td_plan_work(k, (size_t)(td_desc_numel(d) * td_recurrent_size(s)));
    }
}

static void plan_work(td_kcall *k, td_recurrent *s)
{
    int64_t size = td_recurrent_size(s), cells = s->steps * s->rows;
    int64_t alone = s->kind == TD_GRU ? 2 * s->n : s->gates * s->n;
    s->packed_at = td_plan_work(k, (size_t)(td_product_packed(s->wide, s->n, alone) * size));
    s->d_at = td_plan_work(k, (size_t)(cells * s->gates * s->n * size));
    if (s->kind != TD_GRU) return;
    s->hidden_at = td_plan_work(k, (size_t)(td_product_packed(s->wide, s->n, s->n) * size));
    s->dhidden_at = td_plan_work(k, (size_t)(cells * s->n * size));
}

/* Nothing arrives anywhere: there are no rows, or no state. What is wanted is zero. */
static void zero_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk, (void)scratch;
    for (int i = 0; i < k->nout; i++)
        memset(k->out[i].data, 0, (size_t)td_desc_numel(k->out[i].desc) * td_dtype_size(k->out[i].desc->dtype));
}

static void plan_phases(td_kcall *k, td_recurrent *s)
{
    int64_t size = td_recurrent_size(s), cols = td_product_cols(s->wide);
    double line = (double)s->steps * (double)s->rows * (double)td_max64(s->in, s->n);
    int64_t most = td_recurrent_tile(line / 2);
    s->w_tile = td_max64(1, td_cut(td_cut(s->n, td_max64(1, td_cut(s->n, most))), 12)) *
                12; /* alike, and whole tiles of rows */
    s->w_tiles = s->gates * td_cut(s->n, s->w_tile);
    s->b_tiles = wanted(s, DB_IH) || wanted(s, DB_HH) ? s->gates * td_cut(s->n, BIASES) : 0;
    s->pack = td_max64(1, TD_RECURRENT_PACK / td_max64(1, s->gates * s->n * cols));
    td_plan_phase(k, begin_chunk, 3 + td_cut(td_cut(s->n, cols), s->pack));
    td_plan_phase(k, rows_chunk, s->blocks);
    int64_t weights = (wanted(s, DW_IH) + wanted(s, DW_HH)) * s->w_tiles;
    td_plan_phase(k, end_chunk, weights + s->b_tiles + (wanted(s, DX) ? s->tiles : 0));
    k->scratch_bytes = td_product_room(s->wide) + (size_t)(s->w_tile * TD_PRODUCT_K * size);
    size_t walks = (size_t)(4 * s->per * s->n * size);
    if (k->scratch_bytes < walks) k->scratch_bytes = walks;
    k->cost_ns = 2 * td_recurrent_cost(s);
}

static int plan(td_kcall *k, int kind, const char *name, td_error *e)
{
    td_recurrent *s = (td_recurrent *)k->state;
    int rc = td_recurrent_begin(k, s, kind, X, H0, name, e);
    if (rc) return rc;
    s->relu = kind == TD_RNN && td_attr_bool(k->attrs, 0);
    s->reverse = td_attr_bool(k->attrs, kind == TD_RNN);
    s->mask = (uint8_t)(td_attr_int(k->attrs, kind == TD_RNN ? 2 : 1) & 127);
    if (!s->mask) return 0;
    if (s->rows == 0 || s->n == 0) {
        td_plan_phase(k, zero_chunk, 1);
        k->cost_ns = 100;
        for (int i = 0; i < k->nout; i++) k->cost_ns += 2.0 * (double)td_desc_numel(k->out[i].desc);
        return 0;
    }
    plan_kept(k, s);
    plan_work(k, s);
    plan_phases(k, s);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_lstm_layer_backward(td_kcall *k, td_error *e)
{
    return plan(k, TD_LSTM, "lstm_layer_backward", e);
}
int td_cpu_plan_gru_layer_backward(td_kcall *k, td_error *e)
{
    return plan(k, TD_GRU, "gru_layer_backward", e);
}
int td_cpu_plan_rnn_layer_backward(td_kcall *k, td_error *e)
{
    return plan(k, TD_RNN, "rnn_layer_backward", e);
}
