/* cumsum along one dimension. Lines of floats are summed in double and rounded at each element; a block of neighbouring
 * lines goes down together when the dimension is not the innermost. */
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/plans.h"
#include <string.h>

enum { BUFFER = TD_SCAN_WIDTH * 16 };

typedef struct scan {
    int64_t length, count, inner; /* along the dimension; lines; lines that lie side by side in the result */
    int64_t blocks, per_chunk;
    int64_t in_stride, in_inner, out_size, in_size; /* bytes */
    int64_t shape[TD_MAX_DIMS], step[TD_MAX_DIMS];  /* dimensions before the scanned one, innermost first */
    int64_t inner_shape[TD_MAX_DIMS], inner_step[TD_MAX_DIMS];
    td_pw_fn load, store;            /* to and from the sums' type: double, int64 or complex128 */
    uint8_t ndim, inner_ndim, words; /* 8-byte words of a sum */
    bool whole;
} scan;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t offset(int64_t index, const int64_t *shape, const int64_t *step, int ndim)
{
    int64_t at = 0;
    for (int d = 0; d < ndim; d++) {
        at += index % shape[d] * step[d];
        index /= shape[d];
    }
    return at;
}

static void add(const scan *s, void *sums, const void *x, int64_t n)
{
    int64_t *wi = sums;
    double *wf = sums;
    if (s->whole)
        for (int64_t i = 0; i < n; i++) wi[i] = (int64_t)((uint64_t)wi[i] + (uint64_t)((const int64_t *)x)[i]);
    else
        for (int64_t i = 0; i < n * s->words; i++) wf[i] += ((const double *)x)[i];
}

/* Elements of `n` lines side by side at one place of the dimension. */
static void read_across(const scan *s, const char *base, int64_t first, int64_t n, char *raw, char *out)
{
    if (s->inner_ndim <= 1) td_gather(raw, base + first * s->in_inner, 1, n, 0, s->in_inner, (int)s->in_size);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(raw + i * s->in_size, base + offset(first + i, s->inner_shape, s->inner_step, s->inner_ndim),
                   (size_t)s->in_size);
    const void *from = raw;
    s->load(n, out, &from, NULL);
}

static void down(td_kcall *k, const scan *s, int64_t outer, int64_t first, int64_t n, char *scratch)
{
    const char *base = (const char *)k->in[0].data + offset(outer, s->shape, s->step, s->ndim);
    char *to = (char *)k->out[0].data + (outer * s->length * s->inner + first) * s->out_size;
    char *sums = scratch, *x = scratch + BUFFER, *raw = x + BUFFER;
    memset(sums, 0, BUFFER);
    for (int64_t i = 0; i < s->length; i++) {
        read_across(s, base + i * s->in_stride, first, n, raw, x);
        add(s, sums, x, n);
        const void *from = sums;
        s->store(n, to + i * s->inner * s->out_size, &from, NULL);
    }
}

/* Running sums in place of n elements. */
static void run(const scan *s, void *sum, void *x, int64_t n)
{
    int64_t whole = *(int64_t *)sum, *wi = x;
    double re = ((double *)sum)[0], im = ((double *)sum)[1], *wf = x;
    if (s->whole) {
        for (int64_t i = 0; i < n; i++) wi[i] = whole = (int64_t)((uint64_t)whole + (uint64_t)wi[i]);
        *(int64_t *)sum = whole;
        return;
    }
    if (s->words == 1)
        for (int64_t i = 0; i < n; i++) wf[i] = re += wf[i];
    else
        for (int64_t i = 0; i < n; i++) wf[2 * i] = re += wf[2 * i], wf[2 * i + 1] = im += wf[2 * i + 1];
    ((double *)sum)[0] = re;
    ((double *)sum)[1] = im;
}

/* One line, a block of its elements at a time. */
static void along(td_kcall *k, const scan *s, int64_t outer, char *scratch)
{
    const char *base = (const char *)k->in[0].data + offset(outer, s->shape, s->step, s->ndim);
    char *to = (char *)k->out[0].data + outer * s->length * s->out_size;
    char *sum = scratch, *x = scratch + BUFFER, *raw = x + BUFFER;
    memset(sum, 0, 16);
    for (int64_t i = 0; i < s->length; i += TD_SCAN_WIDTH) {
        int64_t n = min64(TD_SCAN_WIDTH, s->length - i);
        td_gather(raw, base + i * s->in_stride, 1, n, 0, s->in_stride, (int)s->in_size);
        const void *from = raw;
        s->load(n, x, &from, NULL);
        run(s, sum, x, n);
        from = x;
        s->store(n, to + i * s->out_size, &from, NULL);
    }
}

static void scan_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const scan *s = (const scan *)k->state;
    int64_t units = s->count * s->blocks;
    for (int64_t u = chunk * s->per_chunk; u < min64(units, (chunk + 1) * s->per_chunk); u++) {
        int64_t first = u % s->blocks * TD_SCAN_WIDTH;
        if (s->inner == 1) along(k, s, u, scratch);
        else down(k, s, u / s->blocks, first, min64(TD_SCAN_WIDTH, s->inner - first), scratch);
    }
}

static void split(scan *s, const td_desc *x, int dim)
{
    s->ndim = s->inner_ndim = 0;
    s->count = s->inner = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        int64_t step = x->stride[i] * s->in_size;
        if (i == dim || x->shape[i] == 1) continue;
        if (i > dim) {
            s->inner *= x->shape[i];
            s->inner_shape[s->inner_ndim] = x->shape[i];
            s->inner_step[s->inner_ndim++] = step;
        } else {
            s->count *= x->shape[i];
            s->shape[s->ndim] = x->shape[i];
            s->step[s->ndim++] = step;
        }
    }
    s->in_inner = s->inner_ndim ? s->inner_step[0] : s->in_size;
}

int td_cpu_plan_cumsum(td_kcall *k, td_error *e)
{
    scan *s = (scan *)k->state;
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    int64_t d = td_attr_int(k->attrs, 0);
    int dim = (int)(d < 0 ? d + x->ndim : d);
    td_dtype sums = td_dtype_is_integral(k->compute)  ? TD_INT64
                    : td_dtype_is_complex(k->compute) ? TD_COMPLEX128
                                                      : TD_FLOAT64;
    (void)e;
    if (td_desc_numel(x) == 0) return TD_OK;
    s->in_size = (int64_t)td_dtype_size(x->dtype);
    s->out_size = (int64_t)td_dtype_size(y->dtype);
    s->length = x->ndim ? x->shape[dim] : 1;
    s->in_stride = x->ndim ? x->stride[dim] * s->in_size : s->in_size;
    split(s, x, x->ndim ? dim : 0);
    s->load = td_isa_now->cast[x->dtype][sums];
    s->store = td_isa_now->cast[sums][y->dtype];
    s->whole = sums == TD_INT64;
    s->words = sums == TD_COMPLEX128 ? 2 : 1;
    s->blocks = s->inner == 1 ? 1 : (s->inner + TD_SCAN_WIDTH - 1) / TD_SCAN_WIDTH;
    int64_t width = min64(s->inner, TD_SCAN_WIDTH);
    s->per_chunk = 1 + TD_SCAN_CHUNK / (s->length * width);
    k->phase[0].fn = scan_chunk;
    k->phase[0].chunks = (s->count * s->blocks + s->per_chunk - 1) / s->per_chunk;
    k->nphases = 1;
    k->scratch_bytes = 3 * BUFFER;
    k->cost_ns = 40 + 1.5 * (double)td_desc_numel(x);
    td_plan_moves_freely(k, sizeof *s);
    return TD_OK;
}
