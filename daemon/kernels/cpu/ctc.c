/* ctc_losses and its gradient, after Graves et al., Connectionist Temporal Classification (2006): sums over all paths
 * through a target with blanks around its labels, forward (alpha) and backward (beta), as logarithms in double.
 *
 * The first phase loads all lengths once, checks them, and keeps them with where each target begins; behind it a row of
 * the batch is one chunk, which loads its labels once and checks them. So no length or label that others write
 * meanwhile is used twice. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/rows.h"
#include "daemon/kernels/plans.h"
#include <math.h>

#define NEVER (-INFINITY)
#define MOST_LABELS (1 << 20)
#define MOST_KEPT (INT64_C(1) << 40) /* numbers in all */

typedef struct ctc_state {
    int64_t steps, n, classes, most; /* most labels of a target, or of all when they stand in one row */
    int64_t blank;
    int ix; /* input number of x; then targets, input_lengths, target_lengths */
    bool joined, zero;
    size_t rows_at, alpha_at; /* alpha of all rows, where nobody knows how long one of them is */
} ctc_state;

/* What is known of one row of the batch. */
typedef struct ctc_row {
    int64_t steps, labels, first;
} ctc_row;

static double log_add(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    if (high == NEVER) return NEVER;
    return high + log1p(exp(low - high));
}

/* Of three, with one logarithm. */
static double log_add3(double a, double b, double c)
{
    double high = fmax(fmax(a, b), c);
    if (high == NEVER) return NEVER;
    return high + log(exp(a - high) + exp(b - high) + exp(c - high));
}

static int64_t length_of(const td_karg *lengths, int64_t i)
{
    const td_desc *d = lengths->desc;
    return td_load_index((const char *)lengths->data + i * d->stride[0] * (int64_t)td_dtype_size(d->dtype), d->dtype);
}

static void lengths_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const ctc_state *s = (const ctc_state *)k->state;
    ctc_row *rows = (ctc_row *)((char *)k->work + s->rows_at);
    int64_t first = 0;
    (void)chunk, (void)scratch;
    for (int64_t i = 0; i < s->n; i++) {
        ctc_row r = {length_of(&k->in[s->ix + 2], i), length_of(&k->in[s->ix + 3], i), s->joined ? first : 0};
        if (r.steps < 0 || r.steps > s->steps) {
            td_kernel_fail(k, TD_E_INDEX,
                           "ctc_loss: Expected input_lengths to have value at most %lld, but got value %lld",
                           (long long)s->steps, (long long)r.steps);
            return;
        }
        if (r.labels < 0 || r.labels > s->most - r.first) {
            td_kernel_fail(k, TD_E_INDEX, "ctc_loss: a target of length %lld where there are at most %lld labels",
                           (long long)r.labels, (long long)(s->most - r.first));
            return;
        }
        rows[i] = r;
        first += r.labels;
        if (i % 1024 == 1023 && td_kernel_rest(k)) return;
    }
}

/* The labels of row i, checked. */
static bool load_labels(td_kcall *k, const ctc_state *s, const ctc_row *r, int64_t i, int64_t *to)
{
    const td_karg *targets = &k->in[s->ix + 1];
    const td_desc *d = targets->desc;
    int64_t size = (int64_t)td_dtype_size(d->dtype), step = d->stride[d->ndim - 1];
    const char *from = (const char *)targets->data + (s->joined ? r->first * step : i * d->stride[0]) * size;
    for (int64_t j = 0; j < r->labels; j++) {
        to[j] = td_load_index(from + j * step * size, d->dtype);
        if (j % TD_REST_ELEMENTS == TD_REST_ELEMENTS - 1 && td_kernel_rest(k)) return false;
        if (to[j] >= 0 && to[j] < s->classes) continue;
        td_kernel_fail(k, TD_E_INDEX, "ctc_loss: label %lld is out of bounds for %lld classes", (long long)to[j],
                       (long long)s->classes);
        return false;
    }
    return true;
}

/* Log probability of class c in step t of row i. */
static double said(const td_kcall *k, const ctc_state *s, int64_t t, int64_t i, int64_t c)
{
    const td_desc *d = k->in[s->ix].desc;
    int64_t at = t * d->stride[0] + i * d->stride[1] + c * d->stride[2];
    return td_element_to_double((const char *)k->in[s->ix].data + at * (int64_t)td_dtype_size(d->dtype), d->dtype);
}

/* Place p of the target with blanks: even ones are blanks. */
static int64_t class_at(const ctc_state *s, const int64_t *labels, int64_t p)
{
    return p % 2 ? labels[p / 2] : s->blank;
}

/* May a path go from place p - 2 to p? Not over the blank between two equal labels. */
static bool skips(const int64_t *labels, int64_t p)
{
    return p % 2 && p >= 2 && labels[p / 2] != labels[p / 2 - 1];
}

/* Each row of `alpha` from the one before; of two rows when `keep` is not set. Returns minus the log likelihood. */
static double forward(td_kcall *k, const ctc_state *s, const ctc_row *r, int64_t i, const int64_t *labels,
                      double *alpha, bool keep)
{
    int64_t places = 2 * r->labels + 1, done = 0;
    double *now = alpha, *before;
    if (r->steps == 0) return r->labels == 0 ? 0 : INFINITY;
    for (int64_t p = 0; p < places; p++) now[p] = p < 2 ? said(k, s, 0, i, class_at(s, labels, p)) : NEVER;
    for (int64_t t = 1; t < r->steps; t++) {
        before = now;
        now = alpha + (keep ? t : t % 2) * places;
        for (int64_t p = 0; p < places; p++) {
            if (td_kernel_rest_after(k, &done, 16)) return NEVER;
            double sum = !p                 ? before[p]
                         : skips(labels, p) ? log_add3(before[p], before[p - 1], before[p - 2])
                                            : log_add(before[p], before[p - 1]);
            now[p] = sum + said(k, s, t, i, class_at(s, labels, p));
        }
    }
    return -(places > 1 ? log_add(now[places - 1], now[places - 2]) : now[0]);
}

static void losses_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const ctc_state *s = (const ctc_state *)k->state;
    if (atomic_load(&k->failed)) return;
    const ctc_row *r = (const ctc_row *)((char *)k->work + s->rows_at) + chunk;
    int64_t *labels = scratch;
    if (!load_labels(k, s, r, chunk, labels)) return;
    double loss = forward(k, s, r, chunk, labels, (double *)(labels + s->most), false);
    if (s->zero && loss == INFINITY) loss = 0;
    unsigned dtype = k->out[0].desc->dtype;
    td_element_from_double((char *)k->out[0].data + chunk * (int64_t)td_dtype_size(dtype), dtype, loss);
}

/* ---- backward */

/* Row t of dx: what log_softmax takes off, less the share of all paths that say the class then. */
static void gradient_row(td_kcall *k, const ctc_state *s, int64_t i, int64_t t, const double *share, double loss,
                         double g, int64_t *done)
{
    const td_desc *d = k->out[0].desc;
    int64_t size = (int64_t)td_dtype_size(d->dtype);
    char *out = (char *)k->out[0].data + (t * s->n + i) * s->classes * size;
    for (int64_t c = 0; c < s->classes && !td_kernel_rest_after(k, done, 16); c++) {
        double x = said(k, s, t, i, c),
               v = exp(x) - (share[c] == NEVER && loss < INFINITY ? 0 : exp(share[c] + loss - x));
        td_element_from_double(out + c * size, d->dtype, v * g);
    }
}

/* beta of the last step, or of step t from that of the next. */
static void backward(td_kcall *k, const ctc_state *s, const ctc_row *r, int64_t i, const int64_t *labels, int64_t t,
                     const double *after, double *now, int64_t *done)
{
    int64_t places = 2 * r->labels + 1;
    for (int64_t p = places - 1; p >= 0 && !td_kernel_rest_after(k, done, 16); p--) {
        double sum = p >= places - 2 ? 0 : NEVER;
        if (t < r->steps - 1) {
            sum = p + 1 == places                          ? after[p]
                  : p + 2 < places && skips(labels, p + 2) ? log_add3(after[p], after[p + 1], after[p + 2])
                                                           : log_add(after[p], after[p + 1]);
        }
        now[p] = sum + said(k, s, t, i, class_at(s, labels, p));
    }
}

static void zero_rows(const td_kcall *k, const ctc_state *s, int64_t i, int64_t from)
{
    int64_t row = s->classes * (int64_t)td_dtype_size(k->out[0].desc->dtype);
    for (int64_t t = from; t < s->steps; t++) memset((char *)k->out[0].data + (t * s->n + i) * row, 0, (size_t)row);
}

static void gradient_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const ctc_state *s = (const ctc_state *)k->state;
    if (atomic_load(&k->failed)) return;
    const ctc_row *r = (const ctc_row *)((char *)k->work + s->rows_at) + chunk;
    int64_t *labels = scratch, places = 2 * r->labels + 1, most = 2 * s->most + 1, done = 0;
    double *share = (double *)(labels + s->most), *beta = share + s->classes, *alpha = beta + 2 * most;
    if (s->joined) alpha = (double *)((char *)k->work + s->alpha_at) + (2 * r->first + chunk) * s->steps;
    double g = td_karg_number(&k->in[0], chunk), loss;
    if (!load_labels(k, s, r, chunk, labels)) return;
    loss = forward(k, s, r, chunk, labels, alpha, true);
    if (s->zero && loss == INFINITY) {
        zero_rows(k, s, chunk, 0);
        return;
    }
    for (int64_t t = r->steps - 1; t >= 0; t--) {
        double *now = beta + t % 2 * most, *after = beta + (t + 1) % 2 * most;
        backward(k, s, r, chunk, labels, t, after, now, &done);
        for (int64_t c = 0; c < s->classes; c++) share[c] = NEVER;
        for (int64_t p = 0; p < places; p++) {
            if (td_kernel_rest_after(k, &done, 16)) return;
            double *to = &share[class_at(s, labels, p)];
            *to = log_add(*to, alpha[t * places + p] + now[p]);
        }
        gradient_row(k, s, chunk, t, share, loss, g, &done);
    }
    zero_rows(k, s, chunk, r->steps);
}

/* ---- plans */

static int start(td_kcall *k, ctc_state *s, int ix, bool backward, const char *name, td_error *e)
{
    const td_desc *x = k->in[ix].desc, *targets = k->in[ix + 1].desc;
    *s = (ctc_state){.ix = ix, .blank = td_attr_int(k->attrs, 0), .zero = td_attr_bool(k->attrs, 1)};
    if (!td_dtype_is_float(x->dtype)) return td_refuse_dtype(k, ix, name, e);
    for (int i = 1; i <= 3; i++)
        if (!td_is_index_dtype(k->in[ix + i].desc->dtype)) return td_refuse_dtype(k, ix + i, name, e);
    if (x->ndim != 3 || targets->ndim < 1 || targets->ndim > 2)
        return td_fail(e, TD_E_SHAPE, "%s: log probabilities (T, N, C) and targets (N, S)", name);
    s->steps = x->shape[0], s->n = x->shape[1], s->classes = x->shape[2];
    s->joined = targets->ndim == 1;
    s->most = targets->shape[targets->ndim - 1];
    double kept = (double)s->steps * (s->joined ? 2.0 * (double)s->most + (double)s->n : 2.0 * (double)s->most + 1);
    if (s->most > MOST_LABELS || s->classes > INT32_MAX || kept > (double)MOST_KEPT)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "%s: %lld steps with up to %lld labels of %lld classes are too many: there may be %d labels, %d "
                       "classes, and %lld steps times twice the labels",
                       name, (long long)s->steps, (long long)s->most, (long long)s->classes, MOST_LABELS, INT32_MAX,
                       (long long)MOST_KEPT);
    int64_t numbers = s->most + 2 * (2 * s->most + 1);
    if (backward) numbers += s->classes + (s->joined ? 0 : (int64_t)kept);
    k->scratch_bytes = (size_t)numbers * 8;
    if (backward && s->joined) s->alpha_at = td_plan_work(k, (size_t)kept * 8);
    s->rows_at = td_plan_work(k, (size_t)td_max64(1, s->n) * sizeof(ctc_row));
    double places = (double)(2 * s->most + 1) * (backward ? 120 : 40), said = backward ? 40.0 * (double)s->classes : 0;
    k->cost_ns = (double)s->n * ((double)s->most * 2 + (double)s->steps * (places + said)) + 500;
    return 0;
}

int td_cpu_plan_ctc_losses(td_kcall *k, td_error *e)
{
    ctc_state *s = (ctc_state *)k->state;
    int code = start(k, s, 0, false, "ctc_losses", e);
    if (code) return code;
    td_plan_phase(k, lengths_chunk, 1);
    td_plan_phase(k, losses_chunk, s->n);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_ctc_losses_backward(td_kcall *k, td_error *e)
{
    ctc_state *s = (ctc_state *)k->state;
    int code = start(k, s, 1, true, "ctc_losses_backward", e);
    if (code) return code;
    td_plan_phase(k, lengths_chunk, 1);
    td_plan_phase(k, gradient_chunk, s->n);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}
