/* ctc_losses and its gradient, after Graves et al., Connectionist Temporal Classification (2006): sums over all paths
 * through a target with blanks around its labels, forward (alpha) and backward (beta), as logarithms in double. All
 * places of a step are worked out side by side, with the loops of exp and log that the processor has.
 *
 * The first phase loads all lengths once, checks them, and keeps them with where each target begins; behind it a row of
 * the batch is one chunk, which loads its labels once and checks them. So no length or label that others write
 * meanwhile is used twice. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/rows.h"
#include "daemon/kernels/cpu/sets.h"
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/plans.h"
#include "proto/ops/opid.h"
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

enum { PART = 512, EDGE = 2 }; /* places worked out at once; places of no path beside those of a step */

/* A chunk's scratch. */
typedef struct ctc_room {
    int64_t *labels;
    double *said, *skip;  /* of each place: the log probability of its class; 0 where a path may come from two before */
    double *near, *parts; /* two steps; PART of four */
    double *share;        /* of the gradient, of each class */
} ctc_room;

static double log_add(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    if (high == NEVER) return NEVER;
    return high + log1p(exp(low - high));
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

static void apply(unsigned op, int64_t n, double *x)
{
    const void *from = x;
    td_isa_now->pointwise[td_pw_row_of[op] - 1][TD_BODY_F64](n, x, &from, NULL);
}

/* Place p of the target with blanks: even ones are blanks. */
static int64_t class_at(const ctc_state *s, const int64_t *labels, int64_t p)
{
    return p % 2 ? labels[p / 2] : s->blank;
}

/* n places of no path. False: rested. */
static bool clear(td_kcall *k, double *to, int64_t n)
{
    for (int64_t from = 0; from < n; from += TD_REST_ELEMENTS) {
        for (int64_t p = from; p < td_min64(n, from + TD_REST_ELEMENTS); p++) to[p] = NEVER;
        if (td_kernel_rest(k)) return false;
    }
    return true;
}

/* A path may go from place p - 2 to p, but not over the blank between two equal labels. False: rested. */
static bool mark_skips(td_kcall *k, const ctc_row *r, const ctc_room *room)
{
    const int64_t *labels = room->labels;
    if (!clear(k, room->skip, 2 * r->labels + 1 + EDGE)) return false;
    for (int64_t j = 1, done = 0; j < r->labels; j++) {
        if (labels[j] != labels[j - 1]) room->skip[2 * j + 1] = 0;
        if (td_kernel_rest_after(k, &done, 1)) return false;
    }
    return true;
}

/* Log probabilities of the classes of n places from p on, in step t of row i. */
static void load_said(const td_kcall *k, const ctc_state *s, const ctc_room *room, int64_t t, int64_t i, int64_t p,
                      int64_t n)
{
    const td_desc *d = k->in[s->ix].desc;
    const int64_t size = (int64_t)td_dtype_size(d->dtype);
    const char *x = (const char *)k->in[s->ix].data + (t * d->stride[0] + i * d->stride[1]) * size;
    const double blank = td_element_to_double(x + s->blank * d->stride[2] * size, d->dtype);
    for (int64_t at = p; at < p + n; at++)
        room->said[at] =
            at % 2 ? td_element_to_double(x + room->labels[at / 2] * d->stride[2] * size, d->dtype) : blank;
}

/* The largest of three logarithms, and what is left of each. */
static TD_FOR_SETS(void, take_off,
                   (int64_t n, const double *a, const double *b, const double *c, const double *skip,
                    double *restrict base, double *restrict rest),
                   (n, a, b, c, skip, base, rest))
{
    for (int64_t i = 0; i < n; i++) {
        const double far = c[i] + skip[i], two = a[i] > b[i] ? a[i] : b[i], most = two > far ? two : far,
                     off = most == NEVER ? 0 : most;
        base[i] = off;
        rest[i] = a[i] - off;
        rest[n + i] = b[i] - off;
        rest[2 * n + i] = far - off;
    }
}

static TD_FOR_SETS(void, add_three, (int64_t n, double *rest), (n, rest))
{
    for (int64_t i = 0; i < n; i++) rest[i] += rest[n + i] + rest[2 * n + i];
}

static TD_FOR_SETS(void, put_on,
                   (int64_t n, const double *base, const double *sum, const double *said, double *restrict now),
                   (n, base, sum, said, now))
{
    for (int64_t i = 0; i < n; i++) now[i] = base[i] + sum[i] + said[i];
}

/* A step of row i from the one beside it, whose places `near` and `far` are one and two from those of `same`:
 * log(e^same + e^near + e^(far + skip)) + said. False: rested. */
static bool step(td_kcall *k, const ctc_state *s, const ctc_room *room, int64_t t, int64_t i, int64_t places,
                 const double *same, const double *near, const double *far, const double *skip, double *now)
{
    double *base = room->parts, *rest = base + PART;
    for (int64_t p = 0; p < places; p += PART) {
        const int64_t n = td_min64(PART, places - p);
        if (td_kernel_rest(k)) return false;
        load_said(k, s, room, t, i, p, n);
        take_off(n, same + p, near + p, far + p, skip + p, base, rest);
        apply(TD_OP_EXP, 3 * n, rest);
        add_three(n, rest);
        apply(TD_OP_LOG, n, rest);
        put_on(n, base, rest, room->said + p, now + p);
    }
    return true;
}

/* Each row of `alpha`, behind EDGE places of no path, from the one before; of two rows when `keep` is not set. Returns
 * minus the log likelihood. */
static double forward(td_kcall *k, const ctc_state *s, const ctc_row *r, int64_t i, const ctc_room *room, double *alpha,
                      bool keep)
{
    const int64_t places = 2 * r->labels + 1, width = places + EDGE;
    double *now = alpha + EDGE, *before;
    if (r->steps == 0) return r->labels == 0 ? 0 : INFINITY;
    if (!mark_skips(k, r, room) || !clear(k, alpha, width)) return NEVER;
    load_said(k, s, room, 0, i, 0, td_min64(2, places));
    for (int64_t p = 0; p < td_min64(2, places); p++) now[p] = room->said[p];
    for (int64_t t = 1; t < r->steps; t++) {
        before = now;
        now = alpha + (keep ? t : t % 2) * width + EDGE;
        now[-2] = now[-1] = NEVER;
        if (!step(k, s, room, t, i, places, before, before - 1, before - 2, room->skip, now)) return NEVER;
    }
    return -(places > 1 ? log_add(now[places - 1], now[places - 2]) : now[0]);
}

static ctc_room room_of(const ctc_state *s, void *scratch)
{
    const int64_t places = 2 * s->most + 1;
    ctc_room room = {.labels = scratch};
    room.said = (double *)(room.labels + s->most);
    room.skip = room.said + places;
    room.near = room.skip + places + EDGE;
    room.parts = room.near + 2 * (places + EDGE);
    room.share = room.parts + 4 * PART;
    return room;
}

static void losses_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const ctc_state *s = (const ctc_state *)k->state;
    if (atomic_load(&k->failed)) return;
    const ctc_row *r = (const ctc_row *)((char *)k->work + s->rows_at) + chunk;
    const ctc_room room = room_of(s, scratch);
    if (!load_labels(k, s, r, chunk, room.labels)) return;
    double loss = forward(k, s, r, chunk, &room, room.near, false);
    if (s->zero && loss == INFINITY) loss = 0;
    unsigned dtype = k->out[0].desc->dtype;
    td_element_from_double((char *)k->out[0].data + chunk * (int64_t)td_dtype_size(dtype), dtype, loss);
}

/* ---- backward */

/* Row t of dx: what log_softmax takes off, less the share of all paths that say the class then; NaN where there is no
 * path. */
static bool gradient_row(td_kcall *k, const ctc_state *s, int64_t i, int64_t t, const ctc_room *room, double loss,
                         double g)
{
    const td_desc *d = k->in[s->ix].desc;
    const unsigned dtype = k->out[0].desc->dtype;
    const int64_t size = (int64_t)td_dtype_size(dtype), step = d->stride[2] * size;
    const char *x = (const char *)k->in[s->ix].data + (t * d->stride[0] + i * d->stride[1]) * size;
    char *out = (char *)k->out[0].data + (t * s->n + i) * s->classes * size;
    double *v = room->parts, *raw = v + PART;
    for (int64_t c = 0; c < s->classes; c += PART) {
        const int64_t n = td_min64(PART, s->classes - c);
        const void *from = x + c * step, *results = v;
        if (td_kernel_rest(k)) return false;
        if (step != size) td_gather(raw, from, 1, n, 0, step, (int)size), from = raw;
        td_isa_now->cast[dtype][TD_FLOAT64](n, v, &from, NULL);
        apply(TD_OP_EXP, n, v);
        for (int64_t j = 0; j < n; j++) v[j] = loss < INFINITY ? (v[j] - room->share[c + j]) * g : NAN;
        td_isa_now->cast[TD_FLOAT64][dtype](n, out + c * size, &results, NULL);
    }
    return true;
}

/* False: rested. */
static bool zero(td_kcall *k, char *to, int64_t bytes)
{
    enum { AT_ONCE = 1 << 20 };
    for (int64_t n; bytes > 0; to += n, bytes -= n) {
        n = td_min64(AT_ONCE, bytes);
        memset(to, 0, (size_t)n);
        if (td_kernel_rest(k)) return false;
    }
    return true;
}

/* The share of all paths that go through each place of step t, added to that of its class. */
static bool add_shares(td_kcall *k, const ctc_state *s, const ctc_row *r, const ctc_room *room, const double *alpha,
                       const double *beta, double loss)
{
    const int64_t places = 2 * r->labels + 1;
    double *part = room->parts;
    if (!zero(k, (char *)room->share, s->classes * (int64_t)sizeof *room->share)) return false;
    for (int64_t p = 0; p < places; p += PART) {
        const int64_t n = td_min64(PART, places - p);
        if (td_kernel_rest(k)) return false;
        for (int64_t j = 0; j < n; j++) {
            const double both = alpha[p + j] + beta[p + j];
            part[j] = both == NEVER ? NEVER : both + loss - room->said[p + j];
        }
        apply(TD_OP_EXP, n, part);
        for (int64_t j = 0; j < n; j++) room->share[class_at(s, room->labels, p + j)] += part[j];
    }
    return true;
}

static void zero_rows(td_kcall *k, const ctc_state *s, int64_t i, int64_t from)
{
    int64_t row = s->classes * (int64_t)td_dtype_size(k->out[0].desc->dtype);
    for (int64_t t = from; t < s->steps; t++)
        if (!zero(k, (char *)k->out[0].data + (t * s->n + i) * row, row)) return;
}

static void gradient_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const ctc_state *s = (const ctc_state *)k->state;
    if (atomic_load(&k->failed)) return;
    const ctc_row *r = (const ctc_row *)((char *)k->work + s->rows_at) + chunk;
    const ctc_room room = room_of(s, scratch);
    const int64_t places = 2 * r->labels + 1, width = places + EDGE;
    double *alpha = room.share + s->classes, g = td_karg_number(&k->in[0], chunk);
    if (s->joined) alpha = (double *)((char *)k->work + s->alpha_at) + (2 * r->first + (1 + EDGE) * chunk) * s->steps;
    if (!load_labels(k, s, r, chunk, room.labels)) return;
    const double loss = forward(k, s, r, chunk, &room, alpha, true);
    if (s->zero && loss == INFINITY) {
        zero_rows(k, s, chunk, 0);
        return;
    }
    /* Behind the last step is one in which paths have ended: at the last blank, or at the last label before it. */
    double *after = room.near, *now = after + 2 * s->most + 1 + EDGE;
    if (!clear(k, after, width)) return;
    after[places - 1] = 0;
    for (int64_t t = r->steps - 1; t >= 0; t--) {
        double *keep = after;
        const double *far = t == r->steps - 1 ? after + 1 : after + 2, *skip = room.skip + EDGE;
        if (!step(k, s, &room, t, chunk, places, after, after + 1, far, skip, now)) return;
        now[places] = now[places + 1] = NEVER;
        if (!add_shares(k, s, r, &room, alpha + t * width + EDGE, now, loss)) return;
        if (!gradient_row(k, s, chunk, t, &room, loss, g)) return;
        after = now;
        now = keep;
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
    const double wide = 1 + EDGE;
    double kept = (double)s->steps * (2.0 * (double)s->most + (s->joined ? wide * (double)s->n : wide));
    if (s->most > MOST_LABELS || s->classes > INT32_MAX || kept > (double)MOST_KEPT)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "%s: %lld steps with up to %lld labels of %lld classes are too many: there may be %d labels, %d "
                       "classes, and %lld steps times twice the labels",
                       name, (long long)s->steps, (long long)s->most, (long long)s->classes, MOST_LABELS, INT32_MAX,
                       (long long)MOST_KEPT);
    int64_t places = 2 * s->most + 1, numbers = s->most + 4 * places + 3 * EDGE + 4 * PART;
    if (backward) numbers += s->classes + (s->joined ? 0 : (int64_t)kept);
    k->scratch_bytes = (size_t)numbers * 8;
    if (backward && s->joined) s->alpha_at = td_plan_work(k, (size_t)kept * 8);
    s->rows_at = td_plan_work(k, (size_t)td_max64(1, s->n) * sizeof(ctc_row));
    double each = (double)places * (backward ? 40 : 14), rows = backward ? 6.0 * (double)s->classes : 0;
    k->cost_ns = (double)s->n * ((double)s->most * 2 + (double)s->steps * (each + rows + 60)) + 500;
    return 0;
}

int td_cpu_plan_ctc_losses(td_kcall *k, td_error *e)
{
    ctc_state *s = (ctc_state *)k->state;
    int rc = start(k, s, 0, false, "ctc_losses", e);
    if (rc) return rc;
    td_plan_phase(k, lengths_chunk, 1);
    td_plan_phase(k, losses_chunk, s->n);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_ctc_losses_backward(td_kcall *k, td_error *e)
{
    ctc_state *s = (ctc_state *)k->state;
    int rc = start(k, s, 1, true, "ctc_losses_backward", e);
    if (rc) return rc;
    td_plan_phase(k, lengths_chunk, 1);
    td_plan_phase(k, gradient_chunk, s->n);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}
