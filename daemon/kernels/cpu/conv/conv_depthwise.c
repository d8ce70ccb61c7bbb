/* Depthwise convolution (one input channel a group) of float32 and float64 by direct loops over rows: columns and
 * products would move far more than they compute. A plane is one chunk's; the gradient of the weights is one channel's,
 * over all images in order, so nothing is added across chunks. */
#include "daemon/kernels/cpu/conv/conv.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"

typedef struct dw_state {
    td_conv c;
    int64_t per_out, per_in, per_w; /* planes of a chunk: of out, of dx; channels of a chunk of dw */
    int64_t gs[4];                  /* strides of the gradient */
} dw_state;

/* The sizes of one plane's convolution: h x w read with rows `x_row` apart, oh x ow with rows `y_row` apart. */
typedef struct plane {
    int64_t h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw, x_row, y_row;
    int64_t a, b; /* columns where all taps lie inside, when they are fused */
    int64_t first[TD_DEPTHWISE_FUSED], last[TD_DEPTHWISE_FUSED]; /* and where each does */
} plane;

/* Columns of y for which tap t of a row lies inside x. */
TD_INLINE void tap_range(const plane *p, int64_t t, int64_t *first, int64_t *last)
{
    if (t < TD_DEPTHWISE_FUSED) {
        *first = p->first[t];
        *last = p->last[t];
    } else td_conv_inside(p->w, p->sw, t * p->dw - p->pw, p->ow, first, last);
}

static void set_ranges(plane *p)
{
    p->a = 0;
    p->b = p->sw == 1 && p->kw <= TD_DEPTHWISE_FUSED ? p->ow : 0;
    for (int64_t t = 0; t < TD_DEPTHWISE_FUSED && t < p->kw; t++) {
        td_conv_inside(p->w, p->sw, t * p->dw - p->pw, p->ow, &p->first[t], &p->last[t]);
        p->a = td_max64(p->a, p->first[t]);
        p->b = td_min64(p->b, p->last[t]);
    }
    if (p->a >= p->b) p->a = p->b = 0;
}

/* y[i] += sum over kw taps of w[t] x[i + t dw], n positions; `kw` is a constant where it matters. */
#define DEFINE_PLANES(T, s)                                                                                            \
    TD_INLINE void fused_##s(T *restrict y, const T *restrict x, const T *w, int64_t kw, int64_t dw, int64_t n)        \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T sum = y[i];                                                                                              \
            for (int64_t t = 0; t < kw; t++) sum += w[t] * x[i + t * dw];                                              \
            y[i] = sum;                                                                                                \
        }                                                                                                              \
    }                                                                                                                  \
    /* One row of x into one row of y, all taps of it. */                                                              \
    TD_INLINE void row_##s(const plane *p, T *restrict y, const T *restrict x, const T *w)                             \
    {                                                                                                                  \
        const int64_t a = p->a, b = p->b;                                                                              \
        int64_t first, last;                                                                                           \
        if (a < b && p->kw == 3 && p->dw == 1) fused_##s(y + a, x + a - p->pw, w, 3, 1, b - a);                        \
        else if (a < b && p->kw == 5 && p->dw == 1) fused_##s(y + a, x + a - p->pw, w, 5, 1, b - a);                   \
        else if (a < b) fused_##s(y + a, x + a - p->pw, w, p->kw, p->dw, b - a);                                       \
        for (int64_t t = 0; t < p->kw; t++) { /* the rest: the borders, or strided rows as a whole */                  \
            const int64_t ix = t * p->dw - p->pw;                                                                      \
            tap_range(p, t, &first, &last);                                                                            \
            for (int64_t i = first; i < (a < b && a < last ? a : last); i++) y[i] += w[t] * x[ix + i * p->sw];         \
            for (int64_t i = a < b && b > first ? b : last; i < last; i++) y[i] += w[t] * x[ix + i * p->sw];           \
        }                                                                                                              \
    }                                                                                                                  \
    static TD_FOR_SETS(void, forward_##s, (const plane *p, T *y, const T *x, const T *w), (p, y, x, w))                \
    {                                                                                                                  \
        for (int64_t oy = 0; oy < p->oh; oy++)                                                                         \
            for (int64_t ky = 0; ky < p->kh; ky++) {                                                                   \
                const int64_t iy = oy * p->sh - p->ph + ky * p->dh;                                                    \
                if (iy >= 0 && iy < p->h) row_##s(p, y + oy * p->y_row, x + iy * p->x_row, w + ky * p->kw);            \
            }                                                                                                          \
    }                                                                                                                  \
    static TD_FOR_SETS(void, back_##s, (const plane *p, const T *y, T *x, const T *w), (p, y, x, w))                   \
    {                                                                                                                  \
        int64_t a, b;                                                                                                  \
        for (int64_t oy = 0; oy < p->oh; oy++)                                                                         \
            for (int64_t t = 0; t < p->kh * p->kw; t++) {                                                              \
                const int64_t iy = oy * p->sh - p->ph + t / p->kw * p->dh, ix = t % p->kw * p->dw - p->pw;             \
                tap_range(p, t % p->kw, &a, &b);                                                                       \
                if (iy < 0 || iy >= p->h) continue;                                                                    \
                T *restrict to = x + iy * p->x_row + ix;                                                               \
                for (int64_t i = a; i < b; i++) to[i * p->sw] += w[t] * y[oy * p->y_row + i];                          \
            }                                                                                                          \
    }                                                                                                                  \
    static TD_FOR_SETS(double, dot_##s, (const plane *p, const T *y, const T *x, int64_t ky, int64_t kx),              \
                       (p, y, x, ky, kx))                                                                              \
    {                                                                                                                  \
        T acc[TD_DEPTHWISE_LANES] = {0};                                                                               \
        double sum = 0;                                                                                                \
        int64_t a, b;                                                                                                  \
        const int64_t ix = kx * p->dw - p->pw;                                                                         \
        tap_range(p, kx, &a, &b);                                                                                      \
        for (int64_t oy = 0; oy < p->oh; oy++) {                                                                       \
            const int64_t iy = oy * p->sh - p->ph + ky * p->dh;                                                        \
            if (iy < 0 || iy >= p->h) continue;                                                                        \
            const T *g = y + oy * p->y_row, *v = x + iy * p->x_row + ix;                                               \
            int64_t i = a;                                                                                             \
            if (p->sw == 1)                                                                                            \
                for (; i + TD_DEPTHWISE_LANES <= b; i += TD_DEPTHWISE_LANES)                                           \
                    for (int j = 0; j < TD_DEPTHWISE_LANES; j++) acc[j] += g[i + j] * v[i + j];                        \
            for (int j = 0; i < b; i++, j = (j + 1) % TD_DEPTHWISE_LANES) acc[j] += g[i] * v[i * p->sw];               \
        }                                                                                                              \
        for (int j = 0; j < TD_DEPTHWISE_LANES; j++) sum += acc[j];                                                    \
        return sum;                                                                                                    \
    }
DEFINE_PLANES(float, f)
DEFINE_PLANES(double, d)

/* ---- all taps of a gradient of the weights at once, from copies with room around the rows ---- */

typedef struct padded {
    int64_t g_row, x_row; /* elements; rows of x begin pw elements before the first */
    size_t x_at, bytes;   /* where x lies behind g */
} padded;

static padded padded_sizes(const plane *p, int64_t size)
{
    int64_t lanes = 64 / size, wide = (p->ow + lanes - 1) / lanes * lanes;
    padded d = {.g_row = wide, .x_row = td_max64(wide + (p->kw - 1) * p->dw, p->pw + p->w)};
    d.x_at = (size_t)(p->oh * d.g_row * size);
    d.bytes = d.x_at + (size_t)(p->h * d.x_row * size);
    return d;
}

/* Rows of `n` elements, `left` zeros before and zeros behind. */
static void pad_rows(char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows, int64_t n,
                     int64_t left, int64_t size)
{
    memset(to, 0, (size_t)(rows * to_row * size));
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + (r * to_row + left) * size, from + r * from_row * size, (size_t)(n * size));
}

#define DEFINE_TAPS(T, I, s)                                                                                           \
    typedef T vec_##s __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));                                 \
    typedef I mask_##s __attribute__((vector_size(64)));                                                               \
    /* One row of taps; `kw` is a constant where it matters. Lanes behind the row count nothing, whatever they hold.   \
     */                                                                                                                \
    TD_INLINE void tap_row_##s(const plane *p, const padded *d, const T *g, const T *x, int64_t ky, int64_t kw,        \
                               int64_t dw, double *sum)                                                                \
    {                                                                                                                  \
        enum { N = 64 / sizeof(T) };                                                                                   \
        vec_##s acc[TD_DEPTHWISE_FUSED] = {{0}};                                                                       \
        mask_##s live;                                                                                                 \
        int64_t full = p->ow / N * N;                                                                                  \
        for (int j = 0; j < N; j++) live[j] = full + j < p->ow ? -1 : 0;                                               \
        for (int64_t oy = 0; oy < p->oh; oy++) {                                                                       \
            const int64_t iy = oy * p->sh - p->ph + ky * p->dh;                                                        \
            if (iy < 0 || iy >= p->h) continue;                                                                        \
            const T *gr = g + oy * d->g_row, *xr = x + iy * d->x_row;                                                  \
            for (int64_t i = 0; i < full; i += N)                                                                      \
                for (int64_t t = 0; t < kw; t++)                                                                       \
                    acc[t] += *(const vec_##s *)(gr + i) * *(const vec_##s *)(xr + i + t * dw);                        \
            for (int64_t t = 0; t < kw && full < p->ow; t++) {                                                         \
                vec_##s last = *(const vec_##s *)(gr + full) * *(const vec_##s *)(xr + full + t * dw);                 \
                acc[t] += (vec_##s)((mask_##s)last & live);                                                            \
            }                                                                                                          \
        }                                                                                                              \
        for (int64_t t = 0; t < kw; t++)                                                                               \
            for (int j = 0; j < N; j++) sum[t] += (double)acc[t][j];                                                   \
    }                                                                                                                  \
    static TD_FOR_SETS(void, taps_##s, (const plane *p, const padded *d, const T *g, const T *x, double *sum),         \
                       (p, d, g, x, sum))                                                                              \
    {                                                                                                                  \
        for (int64_t ky = 0; ky < p->kh; ky++, sum += p->kw) {                                                         \
            if (p->kw == 3 && p->dw == 1) tap_row_##s(p, d, g, x, ky, 3, 1, sum);                                      \
            else if (p->kw == 5 && p->dw == 1) tap_row_##s(p, d, g, x, ky, 5, 1, sum);                                 \
            else tap_row_##s(p, d, g, x, ky, p->kw, p->dw, sum);                                                       \
        }                                                                                                              \
    }
DEFINE_TAPS(float, int32_t, f)
DEFINE_TAPS(double, int64_t, d)

/* Part of a vector, in pieces of fixed size. */
TD_INLINE void copy_tail(void *to, const void *from, size_t bytes)
{
    char *t = to;
    const char *f = from;
    if (bytes & 32) memcpy(t, f, 32), t += 32, f += 32;
    if (bytes & 16) memcpy(t, f, 16), t += 16, f += 16;
    if (bytes & 8) memcpy(t, f, 8), t += 8, f += 8;
    if (bytes & 4) memcpy(t, f, 4);
}

/* y = *start (NULL: y) + all taps of x, from a copy of x with zeros all around, rows of the output by vectors. */
#define DEFINE_SPREAD(T, s)                                                                                            \
    TD_INLINE void spread_rows_##s(const plane *p, int64_t x_row, T *y, const T *x, const T *w, const T *start,        \
                                   int64_t kh, int64_t kw, int64_t dw)                                                 \
    {                                                                                                                  \
        enum { N = 64 / sizeof(T) };                                                                                   \
        const vec_##s first = (vec_##s){0} + (start ? *start : 0);                                                     \
        for (int64_t oy = 0; oy < p->oh; oy++)                                                                         \
            for (int64_t i = 0; i < p->ow; i += N) {                                                                   \
                const size_t bytes = sizeof(T) * (size_t)td_min64(N, p->ow - i);                                       \
                T *to = y + oy * p->y_row + i;                                                                         \
                vec_##s sum = first;                                                                                   \
                if (!start && bytes == 64) sum = *(const vec_##s *)to;                                                 \
                else if (!start) copy_tail(&sum, to, bytes);                                                           \
                for (int64_t ky = 0; ky < kh; ky++)                                                                    \
                    for (int64_t t = 0; t < kw; t++)                                                                   \
                        sum +=                                                                                         \
                            w[ky * kw + t] * *(const vec_##s *)(x + (oy * p->sh + ky * p->dh) * x_row + i + t * dw);   \
                if (bytes == 64) *(vec_##s *)to = sum;                                                                 \
                else copy_tail(to, &sum, bytes);                                                                       \
            }                                                                                                          \
    }                                                                                                                  \
    static TD_FOR_SETS(void, spread_##s,                                                                               \
                       (const plane *p, int64_t x_row, T *y, const T *x, const T *w, const T *start),                  \
                       (p, x_row, y, x, w, start))                                                                     \
    {                                                                                                                  \
        if (p->kh == 3 && p->kw == 3 && p->dw == 1) spread_rows_##s(p, x_row, y, x, w, start, 3, 3, 1);                \
        else if (p->kh == 5 && p->kw == 5 && p->dw == 1) spread_rows_##s(p, x_row, y, x, w, start, 5, 5, 1);           \
        else spread_rows_##s(p, x_row, y, x, w, start, p->kh, p->kw, p->dw);                                           \
    }
DEFINE_SPREAD(float, f)
DEFINE_SPREAD(double, d)

/* Sizes of x with zeros around it: rows before, behind and between are what the taps of the output reach. */
static int64_t framed_row(const plane *p, int64_t size)
{
    int64_t lanes = 64 / size, wide = (p->ow + lanes - 1) / lanes * lanes;
    return td_max64(wide + (p->kw - 1) * p->dw, p->pw + p->w);
}
static int64_t framed_rows(const plane *p)
{
    return td_max64((p->oh - 1) * p->sh + (p->kh - 1) * p->dh + 1, p->ph + p->h);
}
/* 0: not so. */
static size_t framed_bytes(const plane *p, int64_t size)
{
    if (p->sw != 1 || p->kw > TD_DEPTHWISE_FUSED || p->pw < 0 || p->ph < 0 || p->oh < 1 || p->ow < 1) return 0;
    double bytes = (double)framed_rows(p) * (double)framed_row(p, size) * (double)size;
    return bytes <= TD_DEPTHWISE_PADDED ? (size_t)bytes : 0;
}

static void frame_rows(const plane *p, char *to, const char *x, int64_t size)
{
    int64_t row = framed_row(p, size) * size, used = p->ph + p->h;
    memset(to, 0, (size_t)(p->ph * row));
    pad_rows(to + p->ph * row, row / size, x, p->x_row, p->h, p->w, p->pw, size);
    memset(to + used * row, 0, (size_t)((framed_rows(p) - used) * row));
}

/* One plane: y += taps of x, or, given `start`, y = start + taps of x. `frame`: room for a copy of x; NULL: none is
 * made. */
static void add_taps(const plane *p, bool is_float, void *y, const void *x, const void *w, const double *start,
                     char *frame)
{
    int64_t size = is_float ? 4 : 8;
    float narrow = start ? (float)*start : 0;
    if (frame) {
        frame_rows(p, frame, x, size);
        if (is_float)
            spread_f(p, framed_row(p, size), y, (const float *)(const void *)frame, w, start ? &narrow : NULL);
        else spread_d(p, framed_row(p, size), y, (const double *)(const void *)frame, w, start);
        return;
    }
    for (int64_t r = 0; start && r < p->oh; r++)
        for (int64_t i = 0; i < p->ow; i++) {
            if (is_float) ((float *)y)[r * p->y_row + i] = narrow;
            else ((double *)y)[r * p->y_row + i] = *start;
        }
    if (is_float) forward_f(p, y, x, w);
    else forward_d(p, y, x, w);
}

static bool takes_all_taps(const plane *p, int64_t size)
{
    return p->sw == 1 && p->kw <= TD_DEPTHWISE_FUSED && padded_sizes(p, size).bytes <= TD_DEPTHWISE_PADDED;
}

static plane plain(const td_conv *c, int64_t x_row, int64_t y_row)
{
    plane p = {c->h, c->w, c->oh, c->ow, c->kh, c->kw, c->sh, c->sw, c->ph, c->pw, c->dh, c->dw, x_row, y_row};
    set_ranges(&p);
    return p;
}

/* With stride 1 the gradient is a convolution too: of y with the kernel turned by half a turn. */
static plane turned(const td_conv *c, int64_t y_row)
{
    plane p = {.h = c->oh,
               .w = c->ow,
               .oh = c->h,
               .ow = c->w,
               .kh = c->kh,
               .kw = c->kw,
               .sh = 1,
               .sw = 1,
               .ph = c->dh * (c->kh - 1) - c->ph,
               .pw = c->dw * (c->kw - 1) - c->pw,
               .dh = c->dh,
               .dw = c->dw,
               .x_row = y_row,
               .y_row = c->w};
    set_ranges(&p);
    return p;
}

/* Scratch begins with a kernel's taps, or their sums. */
static size_t sums_bytes(const td_conv *c)
{
    return (sizeof(double) * (size_t)(c->kh * c->kw) + 63) / 64 * 64;
}

/* The taps of output channel o in the computed dtype, in order or turned. */
static void load_taps(const td_kcall *k, const td_conv *c, int64_t o, bool turn, void *to)
{
    int64_t n = c->kh * c->kw;
    for (int64_t t = 0; t < n; t++) {
        double v = td_karg_number(&k->in[c->backward ? 2 : 1], o * n + (turn ? n - 1 - t : t));
        if (c->dtype == TD_FLOAT32) ((float *)to)[t] = (float)v;
        else ((double *)to)[t] = v;
    }
}

static void forward_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const dw_state *s = (const dw_state *)k->state;
    const td_conv *c = &s->c;
    const plane p = plain(c, c->xs[2], c->ow);
    int64_t size = (int64_t)td_dtype_size(c->dtype), b, e;
    char *frame = framed_bytes(&p, size) ? (char *)scratch + sums_bytes(c) : NULL;
    td_cut_range(c->n * c->o, s->per_out, chunk, &b, &e);
    for (; b < e; b++) {
        int64_t n = b / c->o, o = b % c->o;
        char *y = (char *)k->out[0].data + b * c->p * size;
        const char *x = (const char *)k->in[0].data + (n * c->xs[0] + o / c->og * c->xs[1]) * size;
        load_taps(k, c, o, false, scratch);
        double bias = td_absent(&k->in[2]) ? 0 : td_karg_number(&k->in[2], o);
        add_taps(&p, c->dtype == TD_FLOAT32, y, x, scratch, &bias, frame);
    }
}

static void data_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const dw_state *s = (const dw_state *)k->state;
    const td_conv *c = &s->c;
    const bool turn = c->sh == 1 && c->sw == 1, f = c->dtype == TD_FLOAT32;
    const plane p = turn ? turned(c, s->gs[2]) : plain(c, c->w, s->gs[2]);
    int64_t size = (int64_t)td_dtype_size(c->dtype), b, e;
    char *frame = turn && framed_bytes(&p, size) ? (char *)scratch + sums_bytes(c) : NULL;
    td_cut_range(c->n * c->c, s->per_in, chunk, &b, &e);
    for (; b < e; b++) {
        void *x = (char *)k->out[0].data + b * c->h * c->w * size;
        const int64_t first = b % c->c * c->og;
        const double none = 0;
        if (!turn) memset(x, 0, (size_t)(c->h * c->w * size));
        for (int64_t o = first; o < first + c->og; o++) {
            const void *y = (const char *)k->in[0].data + (b / c->c * s->gs[0] + o * s->gs[1]) * size;
            load_taps(k, c, o, turn, scratch);
            if (turn) add_taps(&p, f, x, y, scratch, o == first ? &none : NULL, frame);
            else if (f) back_f(&p, y, x, scratch);
            else back_d(&p, y, x, scratch);
        }
    }
}

static void weights_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const dw_state *s = (const dw_state *)k->state;
    const td_conv *c = &s->c;
    const plane p = plain(c, c->xs[2], s->gs[2]);
    int64_t size = (int64_t)td_dtype_size(c->dtype), taps = c->kh * c->kw, b, e;
    const bool together = takes_all_taps(&p, size);
    const padded d = padded_sizes(&p, size);
    double *sum = scratch;
    char *g = (char *)scratch + sums_bytes(c);
    td_cut_range(c->o, s->per_w, chunk, &b, &e);
    for (; b < e; b++) {
        memset(sum, 0, sizeof(double) * (size_t)taps);
        for (int64_t n = 0; n < c->n; n++) {
            const void *x = (const char *)k->in[1].data + (n * c->xs[0] + b / c->og * c->xs[1]) * size;
            const void *y = (const char *)k->in[0].data + (n * s->gs[0] + b * s->gs[1]) * size;
            if (together) {
                pad_rows(g, d.g_row, y, p.y_row, p.oh, p.ow, 0, size);
                pad_rows(g + d.x_at, d.x_row, x, p.x_row, p.h, p.w, p.pw, size);
                if (c->dtype == TD_FLOAT32) taps_f(&p, &d, (float *)g, (float *)(g + d.x_at), sum);
                else taps_d(&p, &d, (double *)g, (double *)(g + d.x_at), sum);
                continue;
            }
            for (int64_t t = 0; t < taps; t++)
                sum[t] += c->dtype == TD_FLOAT32 ? dot_f(&p, y, x, t / c->kw, t % c->kw)
                                                 : dot_d(&p, y, x, t / c->kw, t % c->kw);
        }
        for (int64_t t = 0; t < taps; t++)
            td_element_from_double((char *)k->out[1].data + (b * taps + t) * size, c->dtype, sum[t]);
    }
}

static bool takes(const td_conv *c)
{
    return c->cg == 1 && c->g > 1 && (c->dtype == TD_FLOAT32 || c->dtype == TD_FLOAT64) && (c->w == 1 || c->xs[3] == 1);
}

static void cut(dw_state *s)
{
    int64_t macs = td_max64(1, s->c.p * s->c.kh * s->c.kw);
    s->per_out = td_max64(1, TD_DEPTHWISE_CHUNK / macs);
    s->per_in = td_max64(1, TD_DEPTHWISE_CHUNK / td_max64(1, macs * s->c.og));
    s->per_w = td_max64(1, TD_DEPTHWISE_WEIGHTS_CHUNK / td_max64(1, macs * s->c.n));
}

bool td_conv_plan_depthwise(td_kcall *k, const td_conv *c)
{
    dw_state *s = (dw_state *)k->state;
    if (!takes(c)) return false;
    *s = (dw_state){.c = *c};
    cut(s);
    td_plan_phase(k, forward_chunk, td_cut(c->n * c->o, s->per_out));
    const plane p = plain(c, c->xs[2], c->ow);
    k->scratch_bytes = sums_bytes(c) + framed_bytes(&p, (int64_t)td_dtype_size(c->dtype));
    k->cost_ns = (double)(c->n * c->o) * ((double)(c->p * c->kh * c->kw) * 0.05 + 200);
    td_plan_moves_freely(k, sizeof *s);
    return true;
}

bool td_conv_plan_depthwise_backward(td_kcall *k, const td_conv *c)
{
    dw_state *s = (dw_state *)k->state;
    const td_desc *g = k->in[0].desc;
    if (!takes(c) || (c->ow > 1 && g->stride[3] != 1)) return false;
    *s = (dw_state){.c = *c};
    memcpy(s->gs, g->stride, sizeof s->gs);
    cut(s);
    if (c->mask & 1) td_plan_phase(k, data_chunk, td_cut(c->n * c->c, s->per_in));
    if (c->mask & 2) td_plan_phase(k, weights_chunk, td_cut(c->o, s->per_w));
    const plane p = plain(c, c->xs[2], s->gs[2]);
    int64_t size = (int64_t)td_dtype_size(c->dtype);
    k->scratch_bytes = sums_bytes(c);
    const plane t = turned(c, s->gs[2]);
    size_t frame = c->mask & 1 && c->sh == 1 && c->sw == 1 ? framed_bytes(&t, size) : 0;
    size_t pads = c->mask & 2 && takes_all_taps(&p, size) ? padded_sizes(&p, size).bytes : 0;
    k->scratch_bytes += frame > pads ? frame : pads;
    k->cost_ns = (double)(c->n * c->o) * ((double)(c->p * c->kh * c->kw) * 0.1 + 400);
    td_plan_moves_freely(k, sizeof *s);
    if (c->mask & 4) td_conv_plan_bias_gradient(k);
    return true;
}
