/* cumsum, cumprod, linear_scan, cummax, cummin and logcumsumexp along one dimension. What is carried from element to
 * element is a double, a pair of them or an int64, and is rounded at each element; a block of neighbouring lines goes
 * down together when the dimension is not the innermost. scan_best.c has the folds that are more than an operation. */
#include "daemon/kernels/cpu/reduce/scan.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/plans.h"
#include <string.h>

enum { BUFFER = TD_SCAN_WIDTH * 16 };

/* One tensor that is read: bytes from place to place, and how its elements become what is carried. */
typedef struct operand {
    int64_t stride, inner, size; /* along the dimension; to the next line in the result */
    int64_t step[TD_MAX_DIMS],
        inner_step[TD_MAX_DIMS]; /* dimensions before the scanned one and behind it, innermost first */
    td_pw_fn load;
} operand;

typedef struct scan {
    int64_t length, count, inner; /* along the dimension; lines; lines that lie side by side in the result */
    int64_t blocks, per_chunk, out_size;
    int64_t shape[TD_MAX_DIMS], inner_shape[TD_MAX_DIMS];
    operand in[2];
    td_pw_fn store;
    uint8_t ndim, inner_ndim, words, nin; /* words: 8-byte words of what is carried */
    bool whole;
    td_scan_kind what;
} scan;
_Static_assert(sizeof(scan) <= TD_KSTATE_BYTES, "a scan fits the state");

static int64_t offset(int64_t index, const int64_t *shape, const int64_t *step, int ndim)
{
    int64_t at = 0;
    for (int d = 0; d < ndim; d++) {
        at += index % shape[d] * step[d];
        index /= shape[d];
    }
    return at;
}

/* What n lines carry before their first element. */
static void begin(const scan *s, void *carried, int64_t n)
{
    memset(carried, 0, BUFFER);
    if (s->what != TD_SCAN_PRODUCT) return;
    for (int64_t i = 0; i < n; i++) {
        if (s->whole) ((int64_t *)carried)[i] = 1;
        else ((double *)carried)[i * s->words] = 1;
    }
}

#define WHOLE(a) ((uint64_t)(a))

/* The next element of n lines: x, and for LINEAR what the carried is multiplied by. */
static void step_whole(const scan *s, int64_t *c, const int64_t *x, const int64_t *factor, int64_t n)
{
    if (s->what == TD_SCAN_SUM)
        for (int64_t i = 0; i < n; i++) c[i] = (int64_t)(WHOLE(c[i]) + WHOLE(x[i]));
    else if (s->what == TD_SCAN_PRODUCT)
        for (int64_t i = 0; i < n; i++) c[i] = (int64_t)(WHOLE(c[i]) * WHOLE(x[i]));
    else
        for (int64_t i = 0; i < n; i++) c[i] = (int64_t)(WHOLE(factor[i]) * WHOLE(c[i]) + WHOLE(x[i]));
}

static TD_FOR_SETS(void, add_each, (double *c, const double *x, int64_t n), (c, x, n))
{
    for (int64_t i = 0; i < n; i++) c[i] += x[i];
}
static TD_FOR_SETS(void, multiply_each, (double *c, const double *x, int64_t n), (c, x, n))
{
    for (int64_t i = 0; i < n; i++) c[i] *= x[i];
}

static void step_real(const scan *s, double *c, const double *x, const double *factor, int64_t n)
{
    if (s->what == TD_SCAN_SUM) add_each(c, x, n);
    else if (s->what == TD_SCAN_PRODUCT) multiply_each(c, x, n);
    else
        for (int64_t i = 0; i < n; i++) c[i] = factor[i] * c[i] + x[i];
}

static void step_complex(const scan *s, double *c, const double *x, const double *factor, int64_t n)
{
    for (int64_t i = 0; i < 2 * n; i += 2) {
        double re = c[i], im = c[i + 1];
        if (s->what != TD_SCAN_SUM) {
            const double *f = s->what == TD_SCAN_PRODUCT ? x : factor;
            re = f[i] * c[i] - f[i + 1] * c[i + 1];
            im = f[i] * c[i + 1] + f[i + 1] * c[i];
        }
        c[i] = s->what == TD_SCAN_PRODUCT ? re : re + x[i];
        c[i + 1] = s->what == TD_SCAN_PRODUCT ? im : im + x[i + 1];
    }
}

static void step(const scan *s, void *carried, const void *x, const void *factor, int64_t n)
{
    if (s->whole) step_whole(s, carried, x, factor, n);
    else if (s->words == 1) step_real(s, carried, x, factor, n);
    else step_complex(s, carried, x, factor, n);
}

/* Elements of `n` lines side by side at one place of the dimension. */
static void read_across(const scan *s, const operand *in, const char *base, int64_t first, int64_t n, char *raw,
                        char *out)
{
    const void *from = raw;
    if (s->inner_ndim <= 1 && in->inner == in->size) from = base + first * in->size;
    else if (s->inner_ndim <= 1) td_gather(raw, base + first * in->inner, 1, n, 0, in->inner, (int)in->size);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(raw + i * in->size, base + offset(first + i, s->inner_shape, in->inner_step, s->inner_ndim),
                   (size_t)in->size);
    in->load(n, out, &from, NULL);
}

/* Where the places of elements from `at` on go, of those that say them. */
static int64_t *places(td_kcall *k, const scan *s, int64_t at)
{
    return s->what == TD_SCAN_MOST || s->what == TD_SCAN_LEAST ? (int64_t *)k->out[1].data + at : NULL;
}

static bool simple(const scan *s)
{
    return s->what == TD_SCAN_SUM || s->what == TD_SCAN_PRODUCT || s->what == TD_SCAN_LINEAR;
}

static const char *line(const td_kcall *k, const scan *s, int nr, int64_t outer)
{
    return (const char *)k->in[nr].data + offset(outer, s->shape, s->in[nr].step, s->ndim);
}

static void down(td_kcall *k, const scan *s, int64_t outer, int64_t first, int64_t n, char *scratch)
{
    const char *base[2] = {line(k, s, 0, outer), s->nin > 1 ? line(k, s, 1, outer) : NULL};
    int64_t at = outer * s->length * s->inner + first, done = 0;
    char *carried = scratch, *raw = scratch + BUFFER, *x[2] = {raw + BUFFER, raw + 2 * BUFFER}, *last = x[s->nin - 1];
    begin(s, carried, n);
    for (int64_t i = 0; i < s->length; i++, at += s->inner) {
        if (td_kernel_rest_after(k, &done, n)) return;
        for (int nr = 0; nr < s->nin; nr++)
            read_across(s, &s->in[nr], base[nr] + i * s->in[nr].stride, first, n, raw, x[nr]);
        if (simple(s)) step(s, carried, last, x[0], n);
        else td_scan_across(s->what, s->whole, carried, last, places(k, s, at), n, i);
        const void *from = simple(s) ? carried : last;
        s->store(n, (char *)k->out[0].data + at * s->out_size, &from, NULL);
    }
}

/* Lines that go along together: each of them waits for its last element, not for the other lines. */
enum { LANES = TD_SCAN_LANES };
_Static_assert(LANES == 4 && LANES * sizeof(double) * TD_SCAN_WIDTH <= 2 * BUFFER,
               "lines that go together fit the scratch");

/* n elements of LANES lines, TD_SCAN_WIDTH apart. */
static void run_lanes(const scan *s, double *carried, double *x, int64_t n)
{
    double c0 = carried[0], c1 = carried[1], c2 = carried[2], c3 = carried[3];
    double *x0 = x, *x1 = x + TD_SCAN_WIDTH, *x2 = x1 + TD_SCAN_WIDTH, *x3 = x2 + TD_SCAN_WIDTH;
    if (s->what == TD_SCAN_SUM)
        for (int64_t i = 0; i < n; i++)
            x0[i] = c0 += x0[i], x1[i] = c1 += x1[i], x2[i] = c2 += x2[i], x3[i] = c3 += x3[i];
    else
        for (int64_t i = 0; i < n; i++)
            x0[i] = c0 *= x0[i], x1[i] = c1 *= x1[i], x2[i] = c2 *= x2[i], x3[i] = c3 *= x3[i];
    carried[0] = c0, carried[1] = c1, carried[2] = c2, carried[3] = c3;
}

/* n elements of one line, each in place of what it adds. */
static void run_real(const scan *s, double *carried, double *x, const double *factor, int64_t n)
{
    double c = *carried;
    if (s->what == TD_SCAN_SUM)
        for (int64_t i = 0; i < n; i++) x[i] = c += x[i];
    else if (s->what == TD_SCAN_PRODUCT)
        for (int64_t i = 0; i < n; i++) x[i] = c *= x[i];
    else
        for (int64_t i = 0; i < n; i++) x[i] = c = factor[i] * c + x[i];
    *carried = c;
}

/* The same of whole numbers, which wrap. */
static void run_whole(const scan *s, int64_t *carried, int64_t *x, const int64_t *factor, int64_t n)
{
    uint64_t c = WHOLE(*carried);
    if (s->what == TD_SCAN_SUM)
        for (int64_t i = 0; i < n; i++) x[i] = (int64_t)(c += WHOLE(x[i]));
    else if (s->what == TD_SCAN_PRODUCT)
        for (int64_t i = 0; i < n; i++) x[i] = (int64_t)(c *= WHOLE(x[i]));
    else
        for (int64_t i = 0; i < n; i++) x[i] = (int64_t)(c = WHOLE(factor[i]) * c + WHOLE(x[i]));
    *carried = (int64_t)c;
}

static void run(const scan *s, char *carried, char *x, const char *factor, int64_t n)
{
    size_t size = (size_t)s->words * 8;
    if (s->whole) {
        run_whole(s, (int64_t *)carried, (int64_t *)x, (const int64_t *)factor, n);
        return;
    }
    if (s->words == 1) {
        run_real(s, (double *)carried, (double *)x, (const double *)factor, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        step(s, carried, x + (size_t)i * size, factor + (size_t)i * size, 1);
        memcpy(x + (size_t)i * size, carried, size);
    }
}

/* One line, a block of its elements at a time. */
static void along(td_kcall *k, const scan *s, int64_t outer, char *scratch)
{
    int64_t start = outer * s->length, done = 0;
    char *carried = scratch, *raw = scratch + BUFFER, *x[2] = {raw + BUFFER, raw + 2 * BUFFER}, *last = x[s->nin - 1];
    begin(s, carried, 1);
    for (int64_t i = 0; i < s->length; i += TD_SCAN_WIDTH) {
        int64_t n = td_min64(TD_SCAN_WIDTH, s->length - i);
        if (td_kernel_rest_after(k, &done, n)) return;
        for (int nr = 0; nr < s->nin; nr++) {
            const operand *in = &s->in[nr];
            td_gather(raw, line(k, s, nr, outer) + i * in->stride, 1, n, 0, in->stride, (int)in->size);
            const void *from = raw;
            in->load(n, x[nr], &from, NULL);
        }
        if (simple(s)) run(s, carried, last, x[0], n);
        else td_scan_along(s->what, s->whole, carried, last, places(k, s, start + i), n, i);
        const void *from = last;
        s->store(n, (char *)k->out[0].data + (start + i) * s->out_size, &from, NULL);
    }
}

/* LANES lines of reals, from `outer` on. */
static void along_lanes(td_kcall *k, const scan *s, int64_t outer, char *scratch)
{
    int64_t done = 0;
    const operand *in = &s->in[0];
    const char *base[LANES];
    char *raw = scratch + BUFFER;
    double *x = (double *)(raw + BUFFER);
    for (int l = 0; l < LANES; l++) base[l] = line(k, s, 0, outer + l);
    begin(s, scratch, LANES);
    for (int64_t i = 0; i < s->length; i += TD_SCAN_WIDTH) {
        int64_t n = td_min64(TD_SCAN_WIDTH, s->length - i);
        if (td_kernel_rest_after(k, &done, LANES * n)) return;
        for (int l = 0; l < LANES; l++) {
            const void *from = base[l] + i * in->stride;
            if (in->stride != in->size) td_gather(raw, from, 1, n, 0, in->stride, (int)in->size), from = raw;
            in->load(n, x + l * TD_SCAN_WIDTH, &from, NULL);
        }
        run_lanes(s, (double *)scratch, x, n);
        for (int l = 0; l < LANES; l++) {
            const void *from = x + l * TD_SCAN_WIDTH;
            s->store(n, (char *)k->out[0].data + ((outer + l) * s->length + i) * s->out_size, &from, NULL);
        }
    }
}

/* Neighbouring lines of one chunk may go together: the bits are those of each alone. */
static bool has_lanes(const scan *s)
{
    return s->inner == 1 && !s->whole && s->words == 1 && (s->what == TD_SCAN_SUM || s->what == TD_SCAN_PRODUCT);
}

static void scan_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const scan *s = (const scan *)k->state;
    int64_t u, end;
    td_cut_range(s->count * s->blocks, s->per_chunk, chunk, &u, &end);
    for (; has_lanes(s) && u + LANES <= end; u += LANES) along_lanes(k, s, u, scratch);
    for (; u < end; u++) {
        int64_t first = u % s->blocks * TD_SCAN_WIDTH;
        if (s->inner == 1) along(k, s, u, scratch);
        else down(k, s, u / s->blocks, first, td_min64(TD_SCAN_WIDTH, s->inner - first), scratch);
    }
}

static void split(scan *s, const td_kcall *k, int dim)
{
    const td_desc *x = k->in[0].desc;
    s->ndim = s->inner_ndim = 0;
    s->count = s->inner = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        if (i == dim || x->shape[i] == 1) continue;
        bool behind = i > dim;
        *(behind ? &s->inner : &s->count) *= x->shape[i];
        (behind ? s->inner_shape : s->shape)[behind ? s->inner_ndim : s->ndim] = x->shape[i];
        for (int nr = 0; nr < s->nin; nr++)
            (behind ? s->in[nr].inner_step : s->in[nr].step)[behind ? s->inner_ndim : s->ndim] =
                k->in[nr].desc->stride[i] * s->in[nr].size;
        behind ? s->inner_ndim++ : s->ndim++;
    }
    for (int nr = 0; nr < s->nin; nr++) s->in[nr].inner = s->inner_ndim ? s->in[nr].inner_step[0] : s->in[nr].size;
}

static int plan(td_kcall *k, td_scan_kind what, double cost)
{
    scan *s = (scan *)k->state;
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    int64_t d = td_attr_int(k->attrs, 0);
    int dim = x->ndim ? (int)(d < 0 ? d + x->ndim : d) : 0;
    td_dtype carried = td_dtype_is_integral(k->compute)  ? TD_INT64
                       : td_dtype_is_complex(k->compute) ? TD_COMPLEX128
                                                         : TD_FLOAT64;
    if (td_desc_numel(x) == 0) return TD_OK;
    s->what = what == TD_SCAN_LOG && carried == TD_COMPLEX128 ? TD_SCAN_LOG_COMPLEX : what;
    s->nin = (uint8_t)k->nin;
    s->out_size = (int64_t)td_dtype_size(y->dtype);
    s->length = x->ndim ? x->shape[dim] : 1;
    for (int nr = 0; nr < s->nin; nr++) {
        const td_desc *from = k->in[nr].desc;
        s->in[nr].size = (int64_t)td_dtype_size(from->dtype);
        s->in[nr].stride = from->ndim ? from->stride[dim] * s->in[nr].size : s->in[nr].size;
        s->in[nr].load = td_isa_now->cast[from->dtype][carried];
    }
    split(s, k, dim);
    s->store = td_isa_now->cast[carried][y->dtype];
    if (k->compute == TD_UINT64 && (what == TD_SCAN_MOST || what == TD_SCAN_LEAST))
        s->in[0].load = s->store = td_ordered;
    s->whole = carried == TD_INT64;
    s->words = carried == TD_COMPLEX128 ? 2 : 1;
    s->blocks = s->inner == 1 ? 1 : (s->inner + TD_SCAN_WIDTH - 1) / TD_SCAN_WIDTH;
    int64_t width = td_min64(s->inner, TD_SCAN_WIDTH);
    s->per_chunk = 1 + (what == TD_SCAN_LOG ? TD_SCAN_CHUNK_LOG : TD_SCAN_CHUNK) / (s->length * width);
    if (has_lanes(s) && s->per_chunk > LANES) s->per_chunk = s->per_chunk / LANES * LANES;
    bool waits = has_lanes(s) && td_min64(s->per_chunk, s->count) < LANES; /* each element for the last */
    if (carried == TD_FLOAT64 && (what == TD_SCAN_SUM || what == TD_SCAN_PRODUCT) && !waits) cost /= 3;
    k->phase[0].fn = scan_chunk;
    k->phase[0].chunks = (s->count * s->blocks + s->per_chunk - 1) / s->per_chunk;
    k->nphases = 1;
    k->scratch_bytes = 4 * BUFFER;
    k->cost_ns = 40 + cost * (double)td_desc_numel(x);
    k->sure = true;
    td_plan_moves_freely(k, sizeof *s);
    return TD_OK;
}

#define SCAN(NAME, KIND, COST)                                                                                         \
    int td_cpu_plan_##NAME(td_kcall *k, td_error *e)                                                                   \
    {                                                                                                                  \
        (void)e;                                                                                                       \
        return plan(k, KIND, COST);                                                                                    \
    }
SCAN(cumsum, TD_SCAN_SUM, 1.5)
SCAN(cumprod, TD_SCAN_PRODUCT, 1.5)
SCAN(linear_scan, TD_SCAN_LINEAR, 3)
SCAN(cummax, TD_SCAN_MOST, 1.2)
SCAN(cummin, TD_SCAN_LEAST, 1.2)
SCAN(logcumsumexp, TD_SCAN_LOG, 30)
