/* Convolution as matrix products: a block of output positions at a time, the input's patches are laid out as a matrix
 * ("columns", K x positions) in the thread's scratch and multiplied by the weights. Takes every dtype but bool, and
 * every geometry; of integers the data's gradient only, which transposed convolutions are made of.
 *
 * Backward: columns of dx are weights^T x gradient, added back into the image; dw is gradient x columns^T, one partial
 * sum for each tile of images, added in order of the tiles. */
#include "daemon/kernels/cpu/blas.h"
#include "daemon/kernels/cpu/conv/conv.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/products/gemm.h"
#include <complex.h>

_Static_assert(sizeof(td_conv) <= TD_KSTATE_BYTES, "a td_conv lives in a call's state");

static int64_t size_of(const td_conv *c)
{
    return (int64_t)td_dtype_size(c->dtype);
}
static int64_t acc_of(const td_conv *c)
{
    return (int64_t)td_dtype_size(c->acc);
}

/* ---- columns ---- */

/* col[k][j] of channels [c0, c1) at positions p0 + j, j < n; `x` is the first of these channels. */
static void im2col(const td_conv *c, const char *x, int64_t channels, int64_t p0, int64_t n, char *col)
{
    int64_t size = size_of(c), acc = acc_of(c);
    for (int64_t k = 0; k < channels * c->kh * c->kw; k++) {
        int64_t ci = k / (c->kh * c->kw), ky = k / c->kw % c->kh, kx = k % c->kw;
        char *to = col + k * n * acc;
        for (int64_t p = p0; p < p0 + n;) {
            int64_t oy = p / c->ow, ox = p % c->ow, run = td_min64(c->ow - ox, p0 + n - p), a, b;
            int64_t iy = oy * c->sh - c->ph + ky * c->dh, ix = ox * c->sw - c->pw + kx * c->dw;
            td_conv_inside(c->w, c->sw, ix, run, &a, &b);
            if (iy < 0 || iy >= c->h) a = b = run;
            if (a > 0) memset(to, 0, (size_t)(a * acc));
            if (b > a)
                td_row_load(to + a * acc, x + (ci * c->xs[1] + iy * c->xs[2] + (ix + a * c->sw) * c->xs[3]) * size,
                            b - a > 1 ? c->sw * c->xs[3] : 1, c->dtype, b - a);
            if (run > b) memset(to + b * acc, 0, (size_t)((run - b) * acc));
            to += run * acc;
            p += run;
        }
    }
}

#define ADD_BACK(T)                                                                                                    \
    for (int64_t i = a; i < b; i++) ((T *)row)[(ix + i * c->sw)] += ((const T *)from)[i]

/* For whatever is computed in; integers wrap. */
#define BY_ACC(acc, DO)                                                                                                \
    switch (acc) {                                                                                                     \
    case TD_UINT8:                                                                                                     \
    case TD_INT8: DO(uint8_t); break;                                                                                  \
    case TD_UINT16:                                                                                                    \
    case TD_INT16: DO(uint16_t); break;                                                                                \
    case TD_UINT32:                                                                                                    \
    case TD_INT32: DO(uint32_t); break;                                                                                \
    case TD_UINT64:                                                                                                    \
    case TD_INT64: DO(uint64_t); break;                                                                                \
    case TD_FLOAT64: DO(double); break;                                                                                \
    case TD_COMPLEX64: DO(float complex); break;                                                                       \
    case TD_COMPLEX128: DO(double complex); break;                                                                     \
    default: DO(float);                                                                                                \
    }

/* The reverse: columns added into an image of `channels` contiguous planes of the computed dtype. */
static void col2im(const td_conv *c, char *image, int64_t channels, int64_t p0, int64_t n, const char *col)
{
    int64_t acc = acc_of(c);
    for (int64_t k = 0; k < channels * c->kh * c->kw; k++) {
        int64_t ci = k / (c->kh * c->kw), ky = k / c->kw % c->kh, kx = k % c->kw;
        const char *from = col + k * n * acc;
        for (int64_t p = p0; p < p0 + n;) {
            int64_t oy = p / c->ow, ox = p % c->ow, run = td_min64(c->ow - ox, p0 + n - p), a, b;
            int64_t iy = oy * c->sh - c->ph + ky * c->dh, ix = ox * c->sw - c->pw + kx * c->dw;
            td_conv_inside(c->w, c->sw, ix, run, &a, &b);
            if (iy >= 0 && iy < c->h) {
                char *row = image + (ci * c->h + iy) * c->w * acc;
                BY_ACC(c->acc, ADD_BACK)
            }
            from += run * acc;
            p += run;
        }
    }
}

/* ---- weights ---- */

#define WEIGHT_ROWS(c) td_max64(1, TD_CONV_WEIGHTS / td_max64(1, (c)->k))

static int weight_input(const td_conv *c)
{
    return c->backward ? 2 : 1;
}

static void weights_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_conv *c = (const td_conv *)k->state;
    td_rows r;
    int64_t b, e;
    (void)scratch;
    td_rows_init(&r, &k->in[weight_input(c)], 1, c->acc);
    td_cut_range(c->o, WEIGHT_ROWS(c), chunk, &b, &e);
    for (; b < e; b++) {
        char *to = (char *)k->work + c->weights_at + (size_t)(b * c->k * acc_of(c));
        const void *from = td_rows_get(&r, b, 0, c->k, to);
        if (from != to) memcpy(to, from, (size_t)(c->k * acc_of(c)));
    }
}

static void plan_weights(td_kcall *k, td_conv *c)
{
    const td_desc *w = k->in[weight_input(c)].desc;
    c->weights_at = (size_t)-1;
    if (c->dtype == c->acc && td_desc_is_contiguous(w)) return;
    c->weights_at = td_plan_work(k, (size_t)(c->o * c->k * acc_of(c)));
}

/* Row o of the weights as O x K. */
static const char *weights(const td_kcall *k, const td_conv *c, int64_t o)
{
    const char *w = c->weights_at == (size_t)-1 ? k->in[weight_input(c)].data : (char *)k->work + c->weights_at;
    return w + o * c->k * acc_of(c);
}

/* ---- forward ---- */

/* n times the bias of each channel: the first by itself, then what is there already as often as it fits. */
static void fill_bias(const td_kcall *k, const td_conv *c, int64_t o0, char *to, int64_t ld, int64_t n)
{
    const char *b = k->in[2].data;
    int64_t step = k->in[2].desc->stride[0] * size_of(c), acc = acc_of(c);
    for (int64_t o = 0; o < c->og; o++, to += ld * acc) {
        td_row_load(to, b + (o0 + o) * step, 1, c->dtype, 1);
        for (int64_t have = 1; have < n; have *= 2)
            memcpy(to + have * acc, to, (size_t)(td_min64(have, n - have) * acc));
    }
}

/* The plain loops of integers rest between rows; libraries take all of them. */
static int64_t rows_at_once(const td_conv *c, int64_t rows, int64_t each)
{
    if (td_dtype_is_float(c->acc) || td_dtype_is_complex(c->acc)) return rows;
    return td_max64(1, TD_REST_ELEMENTS / td_max64(1, each));
}

static void forward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_conv *c = (const td_conv *)k->state;
    int64_t block = chunk % c->blocks, g = chunk / c->blocks % c->g, n = chunk / c->blocks / c->g, p0, p1;
    td_cut_range(c->p, c->block, block, &p0, &p1);
    int64_t count = p1 - p0, o0 = g * c->og;
    const char *x = (const char *)k->in[0].data + (n * c->xs[0] + g * c->cg * c->xs[1]) * size_of(c);
    char *col = scratch, *out = (char *)k->out[0].data + ((n * c->o + o0) * c->p + p0) * size_of(c);
    bool direct = c->dtype == c->acc, bias = !td_absent(&k->in[2]);
    char *tile = direct ? out : col + c->k * c->block * acc_of(c);
    int64_t ld = direct ? c->p : count;
    im2col(c, x, c->cg, p0, count, col);
    if (bias) fill_bias(k, c, o0, tile, ld, count);
    for (int64_t o = 0, strip = rows_at_once(c, c->og, c->k * count); o < c->og; o += strip) {
        if (td_kernel_rest(k)) return;
        td_gemm_one(&(td_gemm_call){.dtype = c->acc,
                                    .use_dnnl = td_gemm_prefers_dnnl(c->acc, c->og, count, c->k),
                                    .m = td_min64(strip, c->og - o),
                                    .n = count,
                                    .k = c->k,
                                    .a = weights(k, c, o0 + o),
                                    .lda = td_max64(1, c->k),
                                    .b = col,
                                    .ldb = count,
                                    .c = tile + o * ld * acc_of(c),
                                    .ldc = ld,
                                    .alpha = td_int(1),
                                    .beta = td_int(bias)});
    }
    if (!direct)
        for (int64_t o = 0; o < c->og; o++)
            td_row_store(out + o * c->p * size_of(c), 1, c->dtype, tile + o * count * acc_of(c), count);
}

/* Columns of about half a megabyte: they stay in the second cache while they are multiplied. */
static void cut_positions(td_conv *c)
{
    int64_t row = td_max64(1, td_max64(c->k, c->og));
    c->block = td_max64(1, td_min64(c->p, td_max64(TD_CONV_BLOCK_LEAST, TD_CONV_COLUMNS / row)));
    c->blocks = td_cut(c->p, c->block);
}

static double macs(const td_conv *c)
{
    return (double)c->n * (double)c->o * (double)c->k * (double)c->p;
}

/* Of a nanosecond. */
static double speed(const td_conv *c)
{
    switch (c->acc) {
    case TD_FLOAT32: return 30;
    case TD_FLOAT64: return 15;
    case TD_COMPLEX64: return 8;
    case TD_COMPLEX128: return 4;
    default: return 1; /* integers: plain loops */
    }
}

int td_conv_plan_im2col(td_kcall *k, td_conv *c)
{
    td_gemm_one_wants(c->acc, td_gemm_prefers_dnnl(c->acc, c->og, c->p, c->k));
    cut_positions(c);
    plan_weights(k, c);
    if (c->weights_at != (size_t)-1) td_plan_phase(k, weights_chunk, td_cut(c->o, WEIGHT_ROWS(c)));
    td_plan_phase(k, forward_chunk, c->n * c->g * c->blocks);
    k->scratch_bytes = (size_t)((c->k + c->og) * c->block * acc_of(c));
    k->cost_ns = macs(c) / speed(c) + (double)c->n * (double)c->c * (double)(c->kh * c->kw * c->p);
    memcpy(k->state, c, sizeof *c);
    td_plan_moves_freely(k, sizeof *c);
    return 0;
}

/* ---- backward ---- */

/* The gradient as [og][count] for group g of image n: as it lies when it can be read so, else loaded into buf. */
static const char *gradient(const td_kcall *k, const td_conv *c, int64_t n, int64_t g, int64_t p0, int64_t count,
                            char *buf, int64_t *ld)
{
    td_rows r;
    td_rows_init(&r, &k->in[0], 2, c->acc);
    int64_t row = n * c->o + g * c->og;
    if (r.direct && td_desc_is_contiguous(k->in[0].desc)) {
        *ld = c->p;
        return (const char *)k->in[0].data + (row * c->p + p0) * acc_of(c);
    }
    *ld = count;
    for (int64_t o = 0; o < c->og; o++) {
        char *to = buf + o * count * acc_of(c);
        const void *from = td_rows_get(&r, row + o, p0, count, to);
        if (from != to) memcpy(to, from, (size_t)(count * acc_of(c)));
    }
    return buf;
}

/* dx of channels [c0, c1) of group g, image n. */
static void dx_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_conv *c = (const td_conv *)k->state;
    int64_t g = chunk / c->cblocks % c->g, n = chunk / c->cblocks / c->g, c0, c1, p0, p1, ld;
    td_cut_range(c->cg, c->cblock, chunk % c->cblocks, &c0, &c1);
    int64_t rows = (c1 - c0) * c->kh * c->kw, plane = c->h * c->w, total = (c1 - c0) * plane;
    char *col = scratch, *grad = col + c->cblock * c->kh * c->kw * c->block * acc_of(c);
    char *out = (char *)k->out[0].data + ((n * c->c + g * c->cg + c0) * plane) * size_of(c);
    char *image = c->dtype == c->acc ? out : grad + c->og * c->block * acc_of(c);
    memset(image, 0, (size_t)(total * acc_of(c)));
    for (int64_t b = 0; b < c->blocks; b++) {
        td_cut_range(c->p, c->block, b, &p0, &p1);
        const char *gr = gradient(k, c, n, g, p0, p1 - p0, grad, &ld);
        for (int64_t r = 0, strip = rows_at_once(c, rows, c->og * (p1 - p0)); r < rows; r += strip) {
            if (td_kernel_rest(k)) return;
            td_gemm_one(&(td_gemm_call){.dtype = c->acc,
                                        .use_dnnl = td_gemm_prefers_dnnl(c->acc, rows, p1 - p0, c->og),
                                        .trans_a = true,
                                        .m = td_min64(strip, rows - r),
                                        .n = p1 - p0,
                                        .k = c->og,
                                        .a = weights(k, c, g * c->og) + (c0 * c->kh * c->kw + r) * acc_of(c),
                                        .lda = c->k,
                                        .b = gr,
                                        .ldb = ld,
                                        .c = col + r * (p1 - p0) * acc_of(c),
                                        .ldc = p1 - p0,
                                        .alpha = td_int(1),
                                        .beta = td_int(0)});
        }
        col2im(c, image, c1 - c0, p0, p1 - p0, col);
    }
    if (image != out) td_row_store(out, 1, c->dtype, image, total);
}

static char *partial(const td_kcall *k, const td_conv *c, int64_t tile)
{
    return (char *)k->work + c->partial_at + (size_t)(tile * c->o * c->k * acc_of(c));
}

/* Columns [c0 kh kw, c1 kh kw) of one tile's dw for group g. */
static void dw_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_conv *c = (const td_conv *)k->state;
    int64_t g = chunk / c->cblocks % c->g, tile = chunk / c->cblocks / c->g, c0, c1, n0, n1, p0, p1, ld;
    td_cut_range(c->cg, c->cblock, chunk % c->cblocks, &c0, &c1);
    td_cut_range(c->n, c->per, tile, &n0, &n1);
    int64_t cols = (c1 - c0) * c->kh * c->kw;
    char *col = scratch, *grad = col + c->cblock * c->kh * c->kw * c->block * acc_of(c);
    char *to = partial(k, c, tile) + (g * c->og * c->k + c0 * c->kh * c->kw) * acc_of(c);
    bool first = true;
    for (; n0 < n1; n0++)
        for (int64_t b = 0; b < c->blocks; b++, first = false) {
            if (td_kernel_rest(k)) return;
            td_cut_range(c->p, c->block, b, &p0, &p1);
            const char *gr = gradient(k, c, n0, g, p0, p1 - p0, grad, &ld);
            const char *x = (const char *)k->in[1].data + (n0 * c->xs[0] + (g * c->cg + c0) * c->xs[1]) * size_of(c);
            im2col(c, x, c1 - c0, p0, p1 - p0, col);
            td_gemm_one(&(td_gemm_call){.dtype = c->acc,
                                        .use_dnnl = td_gemm_prefers_dnnl(c->acc, c->og, cols, p1 - p0),
                                        .trans_b = true,
                                        .m = c->og,
                                        .n = cols,
                                        .k = p1 - p0,
                                        .a = gr,
                                        .lda = ld,
                                        .b = col,
                                        .ldb = p1 - p0,
                                        .c = to,
                                        .ldc = c->k,
                                        .alpha = td_int(1),
                                        .beta = td_int(!first)});
        }
}

#define SUM_TILES(T)                                                                                                   \
    for (int64_t t = 0; t < c->tiles; t++)                                                                             \
        for (int64_t i = b; i < e; i++) ((T *)sum)[i - b] += ((const T *)partial(k, c, t))[i]

static void dw_sum_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_conv *c = (const td_conv *)k->state;
    char *sum = scratch;
    int64_t b, e;
    td_cut_range(c->o * c->k, TD_CONV_SUM, chunk, &b, &e);
    memset(sum, 0, (size_t)((e - b) * acc_of(c)));
    BY_ACC(c->acc, SUM_TILES)
    td_row_store((char *)k->out[1].data + b * size_of(c), 1, c->dtype, sum, e - b);
}

void td_conv_plan_weight_sum(td_kcall *k, const td_conv *c)
{
    size_t bytes = TD_CONV_SUM * td_dtype_size(c->acc);
    td_plan_phase(k, dw_sum_chunk, td_cut(c->o * c->k, TD_CONV_SUM));
    if (k->scratch_bytes < bytes) k->scratch_bytes = bytes;
}

/* Work as if the weights were one piece, then cut channels until a chunk is some 100 us, or one channel. */
static void cut_backward(td_conv *c)
{
    double image = (double)c->og * (double)c->k * (double)c->p;
    c->cblock =
        td_max64(1, td_min64(c->cg, (int64_t)(TD_CONV_BACK_CHUNK / (image / (double)td_max64(1, c->cg) + 1)) + 1));
    if (c->n * c->g >= TD_CONV_BACK_IMAGES)
        c->cblock = td_max64(1, c->cg); /* enough images: do not lay out columns of g again and again */
    c->cblocks = td_cut(c->cg, c->cblock);
    c->per = td_max64(1, td_cut(c->n, TD_CONV_BACK_IMAGES));
    c->tiles = td_cut(c->n, c->per);
}

int td_conv_plan_im2col_backward(td_kcall *k, td_conv *c)
{
    int64_t acc = acc_of(c), kk = c->kh * c->kw;
    td_gemm_one_wants(c->acc, td_gemm_prefers_dnnl(c->acc, c->og, c->p, c->k));
    cut_positions(c);
    cut_backward(c);
    if (c->mask & 1) {
        plan_weights(k, c);
        if (c->weights_at != (size_t)-1) td_plan_phase(k, weights_chunk, td_cut(c->o, WEIGHT_ROWS(c)));
        td_plan_phase(k, dx_chunk, c->n * c->g * c->cblocks);
    }
    if (c->mask & 2) {
        c->partial_at = td_plan_work(k, (size_t)(c->tiles * c->o * c->k * acc));
        if (c->p > 0) td_plan_phase(k, dw_chunk, c->tiles * c->g * c->cblocks);
        else c->tiles = 0;
        td_conv_plan_weight_sum(k, c);
    }
    int64_t need = (c->cblock * kk + c->og) * c->block + (c->dtype != c->acc ? c->cblock * c->h * c->w : 0);
    if (k->scratch_bytes < (size_t)(need * acc)) k->scratch_bytes = (size_t)(need * acc);
    k->cost_ns = 2 * macs(c) / speed(c) + (double)c->n * (double)(c->c * kk * c->p);
    memcpy(k->state, c, sizeof *c);
    td_plan_moves_freely(k, sizeof *c);
    if (c->mask & 4) td_conv_plan_bias_gradient(k);
    return 0;
}

/* ---- bias: the gradient summed over all but its channels ---- */

/* of complex numbers, as they lie */
static void complex_bias_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_desc *g = k->in[0].desc;
    const bool wide = g->dtype == TD_COMPLEX128;
    double complex sum = 0;
    (void)scratch;
    for (int64_t n = 0; n < g->shape[0]; n++)
        for (int64_t y = 0; y < g->shape[2]; y++) {
            if (td_kernel_rest(k)) return;
            int64_t at = n * g->stride[0] + chunk * g->stride[1] + y * g->stride[2];
            for (int64_t x = 0; x < g->shape[3]; x++, at += g->stride[3])
                sum += wide ? ((const double complex *)k->in[0].data)[at] : ((const float complex *)k->in[0].data)[at];
        }
    if (wide) ((double complex *)k->out[2].data)[chunk] = sum;
    else ((float complex *)k->out[2].data)[chunk] = (float complex)sum;
}

static void bias_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_desc *g = k->in[0].desc;
    td_rows r;
    double sum = 0, *part = scratch;
    td_rows_init(&r, &k->in[0], 2, TD_FLOAT64);
    for (int64_t n = 0; n < g->shape[0]; n++)
        for (int64_t at = 0; at < r.cols; at += TD_CONV_BIAS_PART) {
            int64_t count = td_min64(TD_CONV_BIAS_PART, r.cols - at);
            const double *v = td_rows_get(&r, n * g->shape[1] + chunk, at, count, part);
            for (int64_t i = 0; i < count; i++) sum += v[i];
        }
    unsigned t = k->out[2].desc->dtype;
    td_element_from_double((char *)k->out[2].data + chunk * (int64_t)td_dtype_size(t), t, sum);
}

void td_conv_plan_bias_gradient(td_kcall *k)
{
    const td_desc *g = k->in[0].desc;
    td_plan_phase(k, td_dtype_is_complex(g->dtype) ? complex_bias_chunk : bias_chunk, g->shape[1]);
    if (k->scratch_bytes < TD_CONV_BIAS_PART * sizeof(double)) k->scratch_bytes = TD_CONV_BIAS_PART * sizeof(double);
    k->cost_ns += (double)td_desc_numel(g);
}
