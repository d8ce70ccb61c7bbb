/* fft_c2c, fft_r2c and fft_c2r: one phase a dimension, and lines of all others in groups that fill the lanes of a
 * vector (fft.h).
 *
 * A long line whose length has small factors is two phases: n = n1 n2, first the n2 columns of n1 elements, each turned
 * by its roots, then the n1 rows, whose elements go to every n1-th place. What lies between is in work memory, as are
 * the roots of long lengths. A group reads its lines whole before it writes any, so later dimensions are transformed
 * where they lie. */
#include "daemon/kernels/cpu/fft/fft.h"
#include "daemon/kernels/plans.h"
#include <math.h>
#include <string.h>

enum { IN, OUT, WORK, SPACE }; /* SPACE: what lies between the two phases of a long line */

/* One phase. */
typedef struct step {
    uint8_t dim, from, to, kind, lanes;
    bool columns, rows, last; /* of a long line; the result is scaled */
    int64_t length, n1, n2;   /* of what is transformed; of a long line */
    int64_t lines, per_chunk; /* groups */
    size_t fft, roots;        /* in work memory, else 0 */
} step;

typedef struct fft {
    step step[TD_MAX_PHASES];
    double scale;
    bool backward, twosided;
    uint8_t nsteps, middle; /* dimensions like those of the input: c2r before its last step */
    uint8_t dtype;
    bool makes; /* phase 0 makes roots */
    size_t work, space, scratch;
} fft;

/* Lines: their other dimensions with strides on both sides, and that of their elements. Bytes. */
typedef struct fft_lines {
    int ndim;
    int64_t size[TD_MAX_DIMS + 1], from[TD_MAX_DIMS + 1], to[TD_MAX_DIMS + 1], from_step, to_step;
    const char *source;
    char *target;
} fft_lines;

static const td_desc *shape_of(const td_kcall *k, const fft *f, int place)
{
    return place == IN || (place == WORK && f->middle) ? k->in[0].desc : k->out[0].desc;
}

/* Bytes from one index of a dimension to the next. */
static int64_t stride_of(const td_kcall *k, const fft *f, int place, int dim)
{
    const td_desc *d = shape_of(k, f, place);
    int64_t n = (int64_t)td_dtype_size(place == WORK ? td_dtype_complex((td_dtype)f->dtype) : (td_dtype)d->dtype);
    if (place == IN || place == OUT) return d->stride[dim] * n;
    for (int i = d->ndim - 1; i > dim; i--) n *= d->shape[i];
    return n;
}

static char *base_of(const td_kcall *k, const fft *f, int place)
{
    if (place == IN) return k->in[0].data;
    if (place == OUT) return k->out[0].data;
    return (char *)k->work + (place == WORK ? f->work : f->space);
}

/* The strides of the lines' places between the phases of a long line: one line after the other, n1 by n2. */
static void lay_lines(const td_kcall *k, const fft *f, const step *s, fft_lines *l)
{
    const td_desc *d = shape_of(k, f, s->rows ? s->to : s->from);
    int64_t cell = 2 * (int64_t)td_dtype_size((td_dtype)f->dtype), between = s->n1 * s->n2 * cell;
    l->ndim = 0;
    for (int i = d->ndim - 1; i >= 0; i--) {
        if (i == s->dim) continue;
        int at = l->ndim++;
        l->size[at] = d->shape[i];
        l->from[at] = s->rows ? between : stride_of(k, f, s->from, i);
        l->to[at] = s->columns ? between : stride_of(k, f, s->to, i);
        if (s->rows || s->columns) between *= d->shape[i];
    }
    l->from_step = s->rows ? cell : stride_of(k, f, s->from, s->dim);
    l->to_step = s->columns ? s->n2 * cell : stride_of(k, f, s->to, s->dim);
    l->source = base_of(k, f, s->rows ? SPACE : s->from);
    l->target = base_of(k, f, s->columns ? SPACE : s->to);
    if (!s->rows && !s->columns) return;
    /* the columns or rows of a line: the innermost dimension */
    memmove(l->size + 1, l->size, (size_t)l->ndim * sizeof *l->size);
    memmove(l->from + 1, l->from, (size_t)l->ndim * sizeof *l->from);
    memmove(l->to + 1, l->to, (size_t)l->ndim * sizeof *l->to);
    l->ndim++;
    l->size[0] = s->columns ? s->n2 : s->n1;
    l->from[0] = s->columns ? l->from_step : s->n2 * cell;
    l->to[0] = s->columns ? cell : l->to_step;
    if (s->columns) l->from_step *= s->n2;
    else l->to_step *= s->n1;
}

/* Where line `at` begins on both sides; `column`: its place in the innermost dimension. */
static void find_line(const fft_lines *l, int64_t at, const char **from, char **to, int64_t *column)
{
    int64_t a = 0, b = 0;
    *column = l->ndim ? at % l->size[0] : 0;
    for (int i = 0; i < l->ndim; i++) {
        int64_t index = at % l->size[i];
        a += index * l->from[i], b += index * l->to[i];
        at /= l->size[i];
    }
    *from = l->source + a, *to = l->target + b;
}

static void set_up(const td_kcall *k, const fft *f, const step *s, const fft_lines *l, td_fft_group *g)
{
    *g = (td_fft_group){.from_step = l->from_step,
                        .to_step = l->to_step,
                        .kind = s->kind,
                        .backward = f->backward,
                        .twosided = f->twosided,
                        .scale = s->last ? f->scale : 1,
                        .whole = s->columns ? s->n1 * s->n2 : 0};
    if (s->columns) g->roots = td_fft_roots_at((char *)k->work + s->roots, g->whole);
}

static void transform_chunk(td_kcall *k, const step *s, int64_t chunk, void *scratch)
{
    const fft *f = (const fft *)k->state;
    td_dtype dtype = (td_dtype)f->dtype;
    bool real = s->kind != TD_FFT_C2C;
    const td_fft_length *length =
        s->fft ? (const td_fft_length *)((char *)k->work + s->fft) : td_fft_take(k, s->length, dtype, real);
    if (!length) return;
    fft_lines l;
    td_fft_group g;
    lay_lines(k, f, s, &l);
    set_up(k, f, s, &l, &g);
    g.fft = length;
    int64_t first = chunk * s->per_chunk * s->lanes, end = td_min64(s->lines, first + s->per_chunk * s->lanes);
    for (int64_t at = first; at < end; at += s->lanes) {
        g.lines = (int)td_min64(s->lanes, end - at);
        for (int i = 0; i < s->lanes; i++)
            find_line(&l, at + (i < g.lines ? i : 0), &g.from[i], &g.to[i], &g.column[i]);
        if (!td_fft_run(k, &g, s->lanes, scratch)) break;
    }
    if (!s->fft) td_fft_give(length);
}

/* Each length once: the first step that has it made it. */
static void make_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const fft *f = (const fft *)k->state;
    const step *s = &f->step[chunk];
    (void)scratch;
    if (s->fft && !td_fft_make(k, (char *)k->work + s->fft, s->length, (td_dtype)f->dtype, s->kind != TD_FFT_C2C))
        return;
    if (s->columns) td_fft_roots_make(k, (char *)k->work + s->roots, s->n1 * s->n2);
}

#define STEP(i)                                                                                                        \
    static void step_##i(td_kcall *k, int64_t chunk, void *scratch)                                                    \
    {                                                                                                                  \
        transform_chunk(k, &((const fft *)k->state)->step[i], chunk, scratch);                                         \
    }
STEP(0)
STEP(1)
STEP(2)
STEP(3)
STEP(4)
STEP(5)

/* ---- the plan */

/* n1 of a long line, the largest factor up to its root; 0: it is not cut. */
static int64_t cut_of(int64_t n)
{
    if (n < TD_FFT_LONG || !td_fft_smooth(n)) return 0;
    int64_t best = 0;
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0) best = d;
    return best >= TD_FFT_SIDE ? best : 0;
}

static int64_t cost_of(const step *s)
{
    double levels = 4 + log2((double)s->length);
    return (int64_t)((double)s->lines * (double)s->length * levels * 0.25);
}

static void add(td_kcall *k, fft *f, step s, int64_t lines)
{
    static const td_chunk_fn fns[] = {step_0, step_1, step_2, step_3, step_4, step_5};
    td_dtype dtype = (td_dtype)f->dtype;
    bool real = s.kind != TD_FFT_C2C;
    int full = td_fft_lanes(dtype);
    s.lines = lines;
    s.lanes = (uint8_t)(3 * lines <= full ? 1 : full);
    size_t bytes = td_fft_bytes(s.length, dtype, real), scratch = td_fft_scratch(s.length, dtype, real, s.lanes);
    if (bytes > TD_FFT_KEPT_BYTES) s.fft = td_plan_work(k, bytes), f->makes = true;
    if (s.columns) s.roots = td_plan_work(k, td_fft_roots_bytes(s.n1 * s.n2)), f->makes = true;
    if (scratch > k->scratch_bytes) k->scratch_bytes = scratch;
    int64_t groups = td_cut(lines, s.lanes);
    s.per_chunk = td_max64(TD_FFT_CHUNK / (s.length * s.lanes), 1);
    k->cost_ns += (double)cost_of(&s);
    int at = f->nsteps++;
    f->step[at] = s;
    td_plan_phase(k, fns[at], td_cut(groups, s.per_chunk));
}

/* A dimension: one phase, or two of a long line that is complex on both sides, where there is one for each of those
 * that are left, and one for roots. */
static void add_dim(td_kcall *k, fft *f, step s, int64_t numel, int left)
{
    int64_t lines = numel / s.length,
            n1 = s.kind == TD_FFT_C2C && k->nphases + 2 + left < TD_MAX_PHASES ? cut_of(s.length) : 0;
    if (!n1) {
        add(k, f, s, lines);
        return;
    }
    if (!f->space) f->space = td_plan_work(k, (size_t)numel * 2 * td_dtype_size((td_dtype)f->dtype));
    step columns = s, rows = s;
    columns.n1 = rows.n1 = n1;
    columns.n2 = rows.n2 = s.length / n1;
    columns.columns = rows.rows = true;
    columns.length = n1, rows.length = s.length / n1;
    columns.last = false;
    add(k, f, columns, lines * columns.n2);
    add(k, f, rows, lines * n1);
}

/* What the sizes of the transform make of normalization: 0 nothing, 1 by their root, 2 by them. */
static double scale_of(const td_kcall *k, const td_desc *sizes)
{
    int ndims;
    const int64_t *dims = td_attr_ints(k->attrs, 0, &ndims);
    double n = 1;
    for (int i = 0; i < ndims; i++) n *= (double)sizes->shape[dims[i] < 0 ? dims[i] + sizes->ndim : dims[i]];
    int64_t how = td_attr_int(k->attrs, 1);
    return how == 0 ? 1 : how == 1 ? 1 / sqrt(n) : 1 / n;
}

static void finish(td_kcall *k, fft *f)
{
    if (f->nsteps) f->step[f->nsteps - 1].last = true;
    if (f->makes) {
        memmove(k->phase + 1, k->phase, (size_t)k->nphases * sizeof *k->phase);
        k->phase[0] = (td_phase){make_chunk, f->nsteps};
        k->nphases++;
    }
    td_plan_moves_freely(k, sizeof *f);
}

/* Work memory begins with something, so that 0 is no place in it. */
static fft *begin(td_kcall *k, const td_desc *sizes, td_dtype dtype)
{
    fft *f = (fft *)k->state;
    memset(f, 0, sizeof *f);
    f->dtype = (uint8_t)dtype;
    f->scale = scale_of(k, sizes);
    k->cost_ns = 300;
    k->work_bytes = 64;
    return f;
}

static int dim_at(const td_kcall *k, int i, int *count)
{
    const int64_t *dims = td_attr_ints(k->attrs, 0, count);
    int64_t d = dims[i < 0 ? *count + i : i];
    return (int)(d < 0 ? d + k->in[0].desc->ndim : d);
}

int td_cpu_plan_fft_c2c(td_kcall *k, td_error *e)
{
    const td_desc *y = k->out[0].desc;
    int64_t numel = td_desc_numel(y);
    int n;
    (void)e;
    if (numel == 0) return TD_OK;
    fft *f = begin(k, y, td_dtype_real((td_dtype)y->dtype));
    f->backward = !td_attr_bool(k->attrs, 2);
    td_attr_ints(k->attrs, 0, &n);
    for (int i = n - 1; i >= 0; i--) {
        int d = dim_at(k, i, &n);
        add_dim(k, f, (step){.dim = (uint8_t)d, .from = i == n - 1 ? IN : OUT, .to = OUT, .length = y->shape[d]}, numel,
                i);
    }
    finish(k, f);
    return TD_OK;
}

int td_cpu_plan_fft_r2c(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    int64_t numel = td_desc_numel(y);
    int n, last;
    (void)e;
    if (numel == 0) return TD_OK;
    fft *f = begin(k, x, (td_dtype)x->dtype);
    last = dim_at(k, -1, &n);
    f->twosided = !td_attr_bool(k->attrs, 2);
    add(k, f, (step){.dim = (uint8_t)last, .from = IN, .to = OUT, .kind = TD_FFT_R2C, .length = x->shape[last]},
        td_desc_numel(x) / x->shape[last]);
    for (int i = n - 2; i >= 0; i--) {
        int d = dim_at(k, i, &n);
        add_dim(k, f, (step){.dim = (uint8_t)d, .from = OUT, .to = OUT, .length = y->shape[d]}, numel, i);
    }
    finish(k, f);
    return TD_OK;
}

/* The other dimensions first, in work memory. */
int td_cpu_plan_fft_c2r(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    int64_t numel = td_desc_numel(x);
    int n, last;
    (void)e;
    if (td_desc_numel(y) == 0) return TD_OK;
    fft *f = begin(k, y, (td_dtype)y->dtype);
    last = dim_at(k, -1, &n);
    f->backward = true;
    f->middle = true;
    if (n > 1) f->work = td_plan_work(k, (size_t)numel * td_dtype_size((td_dtype)x->dtype));
    for (int i = 0; i < n - 1; i++) {
        int d = dim_at(k, i, &n);
        add_dim(k, f, (step){.dim = (uint8_t)d, .from = i == 0 ? IN : WORK, .to = WORK, .length = x->shape[d]}, numel,
                n - 1 - i);
    }
    add(k, f,
        (step){
            .dim = (uint8_t)last, .from = n > 1 ? WORK : IN, .to = OUT, .kind = TD_FFT_C2R, .length = y->shape[last]},
        td_desc_numel(y) / y->shape[last]);
    finish(k, f);
    return TD_OK;
}
