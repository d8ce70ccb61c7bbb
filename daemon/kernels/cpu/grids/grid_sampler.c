/* grid_sampler and its gradients. For a block of places it is worked out once what they see (grid_taps.h), as offsets
 * into a plane and weights; then every channel takes its sums. Forward and the gradient of the grid: a chunk is a block
 * of places of one picture. The gradient of the picture: a chunk is some channels of it, which go through all places in
 * order, so that nothing is added by two chunks. What is no float or double is read through a copy in work memory. */
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/grids/grid_taps.h"
#include "daemon/kernels/cpu/places/index_map.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/rows.h"
#include "daemon/kernels/plans.h"
#include <float.h>
#include <stdlib.h>

enum { BLOCK = TD_GRID_BLOCK, DIMS = TD_GRID_DIMS, TAPS = TD_GRID_TAPS };

typedef struct grid_state {
    td_grid grid;
    int64_t n, c, places, blocks, plane; /* plane: elements of a channel of x */
    int64_t shape[DIMS], flat[DIMS];     /* of the places; strides of a plane without gaps */
    int64_t xn, xc;                      /* strides of x as it is read */
    int64_t group, groups;               /* channels of a chunk of the picture's gradient */
    int ix;                              /* input number of x; the grid is the next */
    bool copied;                         /* x is in work memory */
    size_t x_at;
    uint8_t dtype, acc;
} grid_state;
_Static_assert(sizeof(grid_state) <= TD_KSTATE_BYTES, "grid_state lives in a call's state");

/* What the places of a block see: tap by tap, in the computed dtype. Weights of taps that are beyond are 0, and their
 * offsets 0; where 0 times what is there is not 0, they are left out instead. Offsets of 32 bits are gathered twice as
 * many at once: what reaches further is read through a copy. */
typedef struct seen {
    int32_t at[TAPS][BLOCK];
    bool beyond[TAPS][BLOCK];
    float weight_f[TAPS][BLOCK], change_f[DIMS][TAPS][BLOCK];
    double weight_d[TAPS][BLOCK], change_d[DIMS][TAPS][BLOCK];
} seen;

static void look(const grid_state *s, const int64_t *stride, const td_grid_line *line, int64_t i, bool changes,
                 seen *to)
{
    const td_grid *g = &s->grid;
    for (int t = 0; t < g->taps; t++) {
        int64_t at = 0;
        bool beyond = false;
        double weight = 1, change[DIMS] = {1, 1, 1};
        for (int d = g->n - 1, rest = t; d >= 0; d--, rest /= g->seen) {
            const int j = rest % g->seen;
            beyond |= line[d].at[j] < 0;
            at += line[d].at[j] * stride[d];
            weight *= line[d].weight[j];
            for (int o = 0; o < g->n; o++) change[o] *= o == d ? line[d].change[j] : line[d].weight[j];
        }
        to->at[t][i] = beyond ? 0 : (int32_t)at;
        to->beyond[t][i] = beyond;
        if (s->acc == TD_FLOAT64) to->weight_d[t][i] = beyond ? 0 : weight;
        else to->weight_f[t][i] = beyond ? 0 : (float)weight;
        for (int o = 0; changes && o < g->n; o++)
            if (s->acc == TD_FLOAT64) to->change_d[o][t][i] = beyond ? 0 : change[o];
            else to->change_f[o][t][i] = beyond ? 0 : (float)change[o];
    }
}

/* Coordinates of places [b, e) of picture n by dimensions of the picture: x, y, z in the grid are the last one first.
 */
static void coordinates(const td_kcall *k, const grid_state *s, int64_t n, int64_t b, int64_t e, double (*to)[BLOCK])
{
    const td_karg *grid = &k->in[s->ix + 1];
    const td_desc *d = grid->desc;
    const int last = s->grid.n;
    int64_t size = (int64_t)td_dtype_size(d->dtype), step = d->stride[last] * size;
    for (int64_t row, i = b; i < e; i += row) {
        row = td_min64(s->shape[last - 1] - i % s->shape[last - 1], e - i);
        const char *p =
            (const char *)grid->data + (n * d->stride[0] + td_flat_at(s->grid.n, s->shape, d->stride + 1, i)) * size;
        for (int j = 0; j < s->grid.n; j++, p += d->stride[d->ndim - 1] * size) {
            double *c = to[s->grid.n - 1 - j] + i - b;
            if (d->dtype == TD_FLOAT32)
                for (int64_t m = 0; m < row; m++) c[m] = (double)*(const float *)(p + m * step);
            else
                for (int64_t m = 0; m < row; m++) c[m] = td_element_to_double(p + m * step, d->dtype);
        }
    }
}

/* What look() does for one place, for a block of them. */
static TD_FOR_SETS(void, look_lines,
                   (const grid_state *s, const int64_t *stride, const td_grid_lines *line, int64_t n, seen *to),
                   (s, stride, line, n, to))
{
    const td_grid *g = &s->grid;
    for (int t = 0; t < g->taps; t++) {
        int32_t *restrict at = to->at[t];
        bool *restrict beyond = to->beyond[t];
        double weight[BLOCK];
        for (int d = g->n - 1, rest = t; d >= 0; d--, rest /= g->seen) {
            const int32_t *restrict from = line[d].at[rest % g->seen], step = (int32_t)stride[d];
            const double *restrict part = line[d].weight[rest % g->seen];
            if (d == g->n - 1)
                for (int64_t i = 0; i < n; i++)
                    at[i] = from[i] < 0 ? 0 : from[i] * step, beyond[i] = from[i] < 0, weight[i] = part[i];
            else
                for (int64_t i = 0; i < n; i++)
                    at[i] += from[i] < 0 ? 0 : from[i] * step, beyond[i] |= from[i] < 0, weight[i] *= part[i];
        }
        for (int64_t i = 0; i < n; i++) at[i] = beyond[i] ? 0 : at[i];
        if (s->acc == TD_FLOAT64)
            for (int64_t i = 0; i < n; i++) to->weight_d[t][i] = beyond[i] ? 0 : weight[i];
        else
            for (int64_t i = 0; i < n; i++) to->weight_f[t][i] = beyond[i] ? 0 : (float)weight[i];
    }
}

/* Places [b, e) of picture n, of which a plane has these strides; e - b is at most BLOCK. */
static void look_at(td_kcall *k, const grid_state *s, const int64_t *stride, int64_t n, int64_t b, int64_t e,
                    bool changes, seen *to)
{
    double c[DIMS][BLOCK];
    coordinates(k, s, n, b, e, c);
    if (!changes && td_grid_is_plain(&s->grid)) {
        td_grid_lines lines[DIMS];
        for (int d = 0; d < s->grid.n; d++) td_grid_look_lines(&s->grid, d, e - b, c[d], &lines[d]);
        look_lines(s, stride, lines, e - b, to);
        return;
    }
    td_grid_line line[DIMS];
    for (int64_t i = 0; i < e - b; i++) {
        for (int d = 0; d < s->grid.n; d++) td_grid_look(&s->grid, d, c[d][i], &line[d]);
        look(s, stride, line, i, changes, to);
    }
}

/* x of picture n, channel c, in the computed dtype. */
static const char *channel(const td_kcall *k, const grid_state *s, int64_t n, int64_t c)
{
    const char *x = s->copied ? (const char *)k->work + s->x_at : k->in[s->ix].data;
    return x + (n * s->xn + c * s->xc) * (int64_t)td_dtype_size(s->acc);
}

static void copy_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const grid_state *s = (const grid_state *)k->state;
    int64_t acc = (int64_t)td_dtype_size(s->acc), part = TD_REST_ELEMENTS;
    td_rows r;
    (void)scratch;
    td_rows_init(&r, &k->in[s->ix], 2, s->acc);
    char *to = (char *)k->work + s->x_at + chunk * s->plane * acc;
    for (int64_t at = 0; at < s->plane; at += part) {
        int64_t count = td_min64(part, s->plane - at);
        const void *from = td_rows_get(&r, chunk, at, count, to + at * acc);
        if (from != to + at * acc) memcpy(to + at * acc, from, (size_t)(count * acc));
        if (td_kernel_rest(k)) return;
    }
}

#define ANY(t, value) (value)
#define SEEN(t, value) (v->beyond[t][i] ? 0 : (value))
#define TAP(t, s, OF) OF(t, v->weight_##s[t][i] * x[v->at[t][i]])
#define DEFINE_SUMS(T, s, name, OF)                                                                                    \
    static TD_FOR_SETS(void, sum_##name,                                                                               \
                       (T *restrict out, const T *restrict x, const seen *restrict v, int taps, int64_t n),            \
                       (out, x, v, taps, n))                                                                           \
    {                                                                                                                  \
        if (taps == 1)                                                                                                 \
            for (int64_t i = 0; i < n; i++) out[i] = TAP(0, s, OF);                                                    \
        for (int t = 0; t + 4 <= taps; t += 4)                                                                         \
            if (t == 0)                                                                                                \
                for (int64_t i = 0; i < n; i++)                                                                        \
                    out[i] = TAP(0, s, OF) + TAP(1, s, OF) + TAP(2, s, OF) + TAP(3, s, OF);                            \
            else                                                                                                       \
                for (int64_t i = 0; i < n; i++)                                                                        \
                    out[i] += TAP(t, s, OF) + TAP(t + 1, s, OF) + TAP(t + 2, s, OF) + TAP(t + 3, s, OF);               \
    }                                                                                                                  \
    static void spread_##name(T *restrict to, const T *restrict g, const seen *restrict v, int taps, int64_t n)        \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int t = 0; t < taps; t++) to[v->at[t][i]] += OF(t, v->weight_##s[t][i] * g[i]);                       \
    }                                                                                                                  \
    static TD_FOR_SETS(void, change_##name,                                                                            \
                       (T *restrict to, const T *restrict x, const T *restrict g, const seen *restrict v, int dims,    \
                        int taps, int64_t n),                                                                          \
                       (to, x, g, v, dims, taps, n))                                                                   \
    {                                                                                                                  \
        for (int t = 0; t < taps; t++) {                                                                               \
            T value[BLOCK];                                                                                            \
            for (int64_t i = 0; i < n; i++) value[i] = OF(t, x[v->at[t][i]] * g[i]);                                   \
            for (int d = 0; d < dims; d++)                                                                             \
                for (int64_t i = 0; i < n; i++) to[d * BLOCK + i] += v->change_##s[d][t][i] * value[i];                \
        }                                                                                                              \
    }
#define DEFINE_FOR(T, s, most)                                                                                         \
    DEFINE_SUMS(T, s, s, ANY)                                                                                          \
    DEFINE_SUMS(T, s, s##_seen, SEEN)                                                                                  \
    static TD_FOR_SETS(bool, finite_##s, (const T *x, int64_t n), (x, n))                                              \
    {                                                                                                                  \
        int beyond = 0;                                                                                                \
        for (int64_t i = 0; i < n; i++) beyond |= !(x[i] >= -(most) && x[i] <= (most));                                \
        return !beyond;                                                                                                \
    }
DEFINE_FOR(float, f, FLT_MAX)
DEFINE_FOR(double, d, DBL_MAX)

static void forward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const grid_state *s = (const grid_state *)k->state;
    seen *v = scratch;
    char *line = (char *)(v + 1);
    int64_t n = chunk / s->blocks, b, e, size = (int64_t)td_dtype_size(s->dtype);
    td_cut_range(s->places, BLOCK, chunk % s->blocks, &b, &e);
    look_at(k, s, s->grid.stride, n, b, e, false, v);
    for (int64_t c = 0; c < s->c; c++) {
        char *out = (char *)k->out[0].data + ((n * s->c + c) * s->places + b) * size;
        char *to = s->dtype == s->acc ? out : line;
        const void *x = channel(k, s, n, c);
        if (s->acc == TD_FLOAT64) (finite_d(x, 1) ? sum_d : sum_d_seen)((double *)to, x, v, s->grid.taps, e - b);
        else (finite_f(x, 1) ? sum_f : sum_f_seen)((float *)to, x, v, s->grid.taps, e - b);
        if (to != out) td_row_store(out, 1, s->dtype, to, e - b);
        if (c % 16 == 15 && td_kernel_rest(k)) return;
    }
}

/* ---- backward */

static void picture_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const grid_state *s = (const grid_state *)k->state;
    seen *v = scratch;
    char *line = (char *)(v + 1), *sums = line + BLOCK * sizeof(double);
    int64_t n = chunk / s->groups, c0, c1, acc = (int64_t)td_dtype_size(s->acc),
            size = (int64_t)td_dtype_size(s->dtype);
    td_rows r;
    td_rows_init(&r, &k->in[0], 2, s->acc);
    td_cut_range(s->c, s->group, chunk % s->groups, &c0, &c1);
    char *out = (char *)k->out[0].data + (n * s->c + c0) * s->plane * size, *to = s->dtype == s->acc ? out : sums;
    for (int64_t c = 0; c < c1 - c0; c++) {
        memset(to + c * s->plane * acc, 0, (size_t)(s->plane * acc));
        if (td_kernel_rest(k)) return;
    }
    for (int64_t b = 0; b < s->places; b += BLOCK) {
        int64_t count = td_min64(BLOCK, s->places - b);
        if (td_kernel_rest(k)) return;
        look_at(k, s, s->flat, n, b, b + count, false, v);
        for (int64_t c = c0; c < c1; c++) {
            const void *g = td_rows_get(&r, n * s->c + c, b, count, line);
            char *plane = to + (c - c0) * s->plane * acc;
            if (s->acc == TD_FLOAT64)
                (finite_d(g, count) ? spread_d : spread_d_seen)((double *)plane, g, v, s->grid.taps, count);
            else (finite_f(g, count) ? spread_f : spread_f_seen)((float *)plane, g, v, s->grid.taps, count);
        }
    }
    if (to != out) td_row_store(out, 1, s->dtype, to, (c1 - c0) * s->plane);
}

static void places_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const grid_state *s = (const grid_state *)k->state;
    const int dims = s->grid.n;
    seen *v = scratch;
    char *line = (char *)(v + 1);
    void *sum = line + BLOCK * sizeof(double);
    int64_t n = chunk / s->blocks, b, e, size = (int64_t)td_dtype_size(s->dtype);
    td_rows r;
    td_rows_init(&r, &k->in[0], 2, s->acc);
    td_cut_range(s->places, BLOCK, chunk % s->blocks, &b, &e);
    look_at(k, s, s->grid.stride, n, b, e, true, v);
    memset(sum, 0, (size_t)dims * BLOCK * sizeof(double));
    for (int64_t c = 0; c < s->c; c++) {
        const void *g = td_rows_get(&r, n * s->c + c, b, e - b, line), *x = channel(k, s, n, c);
        if (s->acc == TD_FLOAT64)
            (finite_d(x, 1) && finite_d(g, e - b) ? change_d : change_d_seen)(sum, x, g, v, dims, s->grid.taps, e - b);
        else (finite_f(x, 1) && finite_f(g, e - b) ? change_f : change_f_seen)(sum, x, g, v, dims, s->grid.taps, e - b);
        if (c % 16 == 15 && td_kernel_rest(k)) return;
    }
    char *out = (char *)k->out[1].data + (n * s->places + b) * dims * size;
    for (int64_t i = 0; i < e - b; i++)
        for (int j = 0; j < dims; j++) {
            const int64_t at = (dims - 1 - j) * BLOCK + i;
            double v_at = s->acc == TD_FLOAT64 ? ((double *)sum)[at] : (double)((float *)sum)[at];
            td_element_from_double(out + (i * dims + j) * size, s->dtype, v_at);
        }
}

/* ---- plans */

/* Are all places of a plane within 32 bits? */
static bool reaches(const td_desc *x)
{
    double far = 0;
    for (int d = 2; d < x->ndim; d++) far += (double)(x->shape[d] - 1) * (double)llabs(x->stride[d]);
    return far < INT32_MAX;
}

static int start(td_kcall *k, grid_state *s, int ix, const char *name, td_error *e)
{
    const td_desc *x = k->in[ix].desc, *grid = k->in[ix + 1].desc;
    *s = (grid_state){.ix = ix, .dtype = x->dtype, .acc = (uint8_t)td_acc_dtype(x->dtype), .places = 1, .plane = 1};
    if (!td_dtype_is_float(x->dtype) || grid->dtype != x->dtype) return td_refuse_dtype(k, ix, name, e);
    if (x->ndim < 4 || x->ndim > 5 || grid->ndim != x->ndim)
        return td_fail(e, TD_E_SHAPE, "%s: 4 or 5 dimensions of the input and the grid", name);
    td_grid *g = &s->grid;
    g->n = x->ndim - 2;
    g->mode = (int)td_attr_int(k->attrs, 0), g->padding = (int)td_attr_int(k->attrs, 1);
    g->corners = td_attr_bool(k->attrs, 2);
    g->seen = g->mode == TD_GRID_CUBIC ? 4 : g->mode == TD_GRID_NEAREST ? 1 : 2;
    g->taps = 1;
    s->n = x->shape[0], s->c = x->shape[1];
    s->copied = s->dtype != s->acc || !reaches(x);
    for (int d = g->n - 1; d >= 0; d--) {
        g->size[d] = x->shape[2 + d];
        g->stride[d] = s->copied ? s->plane : x->stride[2 + d];
        s->flat[d] = s->plane;
        g->taps *= g->seen;
        s->shape[d] = grid->shape[1 + d];
        s->plane *= g->size[d];
        s->places *= s->shape[d];
    }
    if (s->plane > INT32_MAX)
        return td_fail(e, TD_E_UNSUPPORTED, "%s: planes of %lld elements are too large", name, (long long)s->plane);
    s->xc = s->copied ? s->plane : x->stride[1];
    s->xn = s->copied ? s->plane * s->c : x->stride[0];
    s->blocks = td_cut(s->places, BLOCK);
    k->scratch_bytes = sizeof(seen) + (1 + DIMS) * BLOCK * sizeof(double);
    return 0;
}

static void plan_copy(td_kcall *k, grid_state *s)
{
    if (!s->copied) return;
    s->x_at = td_plan_work(k, (size_t)(s->n * s->c * s->plane) * td_dtype_size(s->acc));
    td_plan_phase(k, copy_chunk, s->n * s->c);
}

static double cost(const grid_state *s)
{
    double planes = (double)s->n * (double)s->c * (double)s->plane;
    return (double)s->n * (double)s->places *
               ((td_grid_is_plain(&s->grid) ? 10.0 : 40.0) + (double)s->c * s->grid.taps * 0.6) +
           (s->copied ? planes : 0);
}

int td_cpu_plan_grid_sampler(td_kcall *k, td_error *e)
{
    grid_state *s = (grid_state *)k->state;
    int rc = start(k, s, 0, "grid_sampler", e);
    if (rc || td_desc_numel(k->out[0].desc) == 0) return rc;
    plan_copy(k, s);
    td_plan_phase(k, forward_chunk, s->n * s->blocks);
    k->cost_ns = cost(s);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}

int td_cpu_plan_grid_sampler_backward(td_kcall *k, td_error *e)
{
    grid_state *s = (grid_state *)k->state;
    int64_t mask = td_attr_int(k->attrs, 3);
    int rc = start(k, s, 1, "grid_sampler_backward", e);
    if (rc) return rc;
    if ((mask & 1) && td_desc_numel(k->out[0].desc) > 0) {
        int64_t own = s->copied ? s->plane : 0;
        s->group = td_max64(1, td_min64(s->c, td_min64(TD_GRID_GROUP, TD_GRID_PLANES / td_max64(1, own))));
        s->groups = td_cut(s->c, s->group);
        k->scratch_bytes += (size_t)(own * s->group) * td_dtype_size(s->acc);
        td_plan_phase(k, picture_chunk, s->n * s->groups);
    }
    if ((mask & 2) && td_desc_numel(k->out[1].desc) > 0) {
        plan_copy(k, s);
        td_plan_phase(k, places_chunk, s->n * s->blocks);
    }
    k->cost_ns = 2 * cost(s) + (mask & 1 ? (double)s->n * (double)s->c * (double)s->plane : 0);
    td_plan_moves_freely(k, sizeof *s);
    return 0;
}
