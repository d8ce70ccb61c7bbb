/* The transform of a group of lines, for one type and number of lanes: included by fft_run.c with REAL, LANES and
 * FFT(name).
 *
 * Stockham's passes: with s = the product of the factors done and m what is left, element q + s (p + m k) of the
 * source, for k below the factor r, becomes q + s (r p + j) of the result, turned by the root p j of n / s. Source and
 * result are two buffers that change places, so nothing is reordered at the end. The inverse is the transform with real
 * and imaginary parts exchanged on the way in and out. */

#if LANES == 1
typedef REAL FFT(vec);
#else
typedef REAL FFT(vec) __attribute__((vector_size(LANES * sizeof(REAL))));
#endif

#define V FFT(vec)

/* In parts that rest between; the call's failure is the function's. */
#define PARTS(count, part)                                                                                             \
    for (int64_t from = 0, end = (count), to; from < end; from = to) {                                                 \
        to = td_min64(end, from + TD_REST_ELEMENTS / LANES);                                                           \
        part;                                                                                                          \
        if (td_kernel_rest(k)) return false;                                                                           \
    }

#include "daemon/kernels/cpu/fft/fft_passes.h"

/* The buffers: element i of the lines, and as many again for the other side of a pass. */
typedef struct FFT(sides) {
    V *re, *im, *re2, *im2;
} FFT(sides);

static void FFT(turn_over)(FFT(sides) * b)
{
    V *re = b->re, *im = b->im;
    b->re = b->re2, b->im = b->im2;
    b->re2 = re, b->im2 = im;
}

static void FFT(exchange)(FFT(sides) * b)
{
    V *re = b->re, *re2 = b->re2;
    b->re = b->im, b->im = re;
    b->re2 = b->im2, b->im2 = re2;
}

/* All passes; the result is in re and im. */
static bool FFT(passes)(td_kcall *k, const td_fft_length *f, FFT(sides) * b)
{
    const REAL *roots = f->roots;
    int64_t s = 1, m = f->work, done = 0;
    for (int i = 0; i < f->passes; i++) {
        int r = f->radix[i];
        m /= r;
        FFT(pass) a = {.xr = b->re, .xi = b->im, .yr = b->re2, .yi = b->im2, .m = m, .s = s, .roots = roots};
        if (!FFT(pass_over)(k, a, r, &done)) return false;
        FFT(turn_over)(b);
        roots += 2 * (r - 1) * m + 2 * r;
        s *= r;
    }
    return true;
}

/* x (conjugate first: `before`) times w, element by element; `after`: and conjugate then. */
static TD_FOR_SETS(void, FFT(times),
                   (const FFT(sides) * b, const REAL *w, int64_t n, int64_t from, int64_t to, bool before, bool after),
                   (b, w, n, from, to, before, after))
{
    V *restrict re = b->re, *restrict im = b->im;
    for (int64_t i = from; i < to; i++) {
        V r = re[i], v = before ? -im[i] : im[i];
        re[i] = r * w[i] - v * w[n + i];
        im[i] = r * w[n + i] + v * w[i];
        if (after) im[i] = -im[i];
    }
}

static void FFT(clear)(const FFT(sides) * b, int64_t from, int64_t to)
{
    memset(b->re + from, 0, (size_t)(to - from) * sizeof(V));
    memset(b->im + from, 0, (size_t)(to - from) * sizeof(V));
}

/* Bluestein: the transform as a convolution with a chirp, by transforms of a length that has small factors; the second
 * is of conjugates, for the inverse. */
static bool FFT(transform)(td_kcall *k, const td_fft_length *f, FFT(sides) * b)
{
    if (!f->chirp) return FFT(passes)(k, f, b);
    PARTS(f->n, FFT(times)(b, f->chirp, f->n, from, to, false, false))
    PARTS(f->work - f->n, FFT(clear)(b, f->n + from, f->n + to))
    if (!FFT(passes)(k, f, b)) return false;
    PARTS(f->work, FFT(times)(b, f->spectrum, f->work, from, to, false, true))
    if (!FFT(passes)(k, f, b)) return false;
    PARTS(f->n, FFT(times)(b, f->chirp, f->n, from, to, true, false))
    return true;
}

#include "daemon/kernels/cpu/fft/fft_move.h"

/* Halves of real lines: y[j] = x[2 j] + i x[2 j + 1] was transformed; now all of x up to the middle. */
static TD_FOR_SETS(void, FFT(unmix), (const td_fft_length *f, const FFT(sides) * b, int64_t from, int64_t to),
                   (f, b, from, to))
{
    const REAL *w = f->turns, half = (REAL)0.5;
    int64_t n = f->n, turns = n / 2 + 1;
    for (int64_t i = from; i < to; i++) {
        int64_t j = i ? n - i : 0;
        V er = (b->re[i] + b->re[j]) * half, ei = (b->im[i] - b->im[j]) * half;
        V dr = (b->im[i] + b->im[j]) * half, di = (b->re[j] - b->re[i]) * half;
        V tr = dr * w[i] - di * w[turns + i], ti = dr * w[turns + i] + di * w[i];
        b->re2[i] = er + tr, b->im2[i] = ei + ti;
        b->re2[n - i] = er - tr, b->im2[n - i] = ti - ei;
    }
}

/* The other way: of the half of a transform that mirrors itself, in re2 and im2, to that of pairs of reals. */
static TD_FOR_SETS(void, FFT(mix), (const td_fft_length *f, const FFT(sides) * b, int64_t from, int64_t to),
                   (f, b, from, to))
{
    const REAL *w = f->turns;
    int64_t n = f->n, turns = n / 2 + 1;
    for (int64_t i = from; i < to; i++) {
        int64_t j = n - i;
        V none = {0}, xi = i ? b->im2[i] : none, xj = i ? b->im2[j] : none;
        V er = b->re2[i] + b->re2[j], ei = xi - xj, dr = b->re2[i] - b->re2[j], di = xi + xj;
        /* turned by the conjugate, times i */
        V tr = dr * w[i] + di * w[turns + i], ti = di * w[i] - dr * w[turns + i];
        b->re[i] = er - ti, b->im[i] = ei + tr;
        if (j < n) b->re[j] = er + ti, b->im[j] = tr - ei;
    }
}

/* Element k of a column of a long transform, turned by its root of the whole. */
static void FFT(twist)(const td_fft_group *g, const FFT(sides) * b, int64_t from, int64_t to)
{
    int64_t mask = (INT64_C(1) << g->roots.bits) - 1;
    for (int64_t i = from; i < to; i++) {
        REAL *re = (REAL *)(b->re + i), *im = (REAL *)(b->im + i);
        for (int l = 0; l < LANES; l++) {
            int64_t at = g->column[l] * i;
            const double *u = g->roots.fine + 2 * (at & mask), *v = g->roots.coarse + 2 * (at >> g->roots.bits);
            REAL c = (REAL)(u[0] * v[0] - u[1] * v[1]), s = (REAL)(u[0] * v[1] + u[1] * v[0]), r = re[l], w = im[l];
            re[l] = r * c - w * s;
            im[l] = r * s + w * c;
        }
    }
}

/* The mirrored half of a real line's transform, and what is taken for granted of one that is to become real. */
static void FFT(mirror)(const FFT(sides) * b, int64_t n, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) b->re[n - 1 - i] = b->re[i + 1], b->im[n - 1 - i] = -b->im[i + 1];
}

static bool FFT(to_complex)(td_kcall *k, const td_fft_group *g, FFT(sides) * b)
{
    const td_fft_length *f = g->fft;
    int64_t n = f->length;
    if (f->real) {
        if (!FFT(load)(k, g, b, n / 2, 2 * g->from_step, g->from_step) || !FFT(transform)(k, f, b)) return false;
        PARTS(f->n / 2 + 1, FFT(unmix)(f, b, from, to))
        FFT(turn_over)(b);
    } else if (!FFT(load)(k, g, b, n, g->from_step, TD_FFT_REAL) || !FFT(transform)(k, f, b)) {
        return false;
    }
    if (g->twosided) PARTS((n - 1) / 2, FFT(mirror)(b, n, from, to))
    return FFT(store)(k, g, b, g->twosided ? n : n / 2 + 1, g->to_step, (int64_t)sizeof(REAL));
}

static bool FFT(to_real)(td_kcall *k, const td_fft_group *g, FFT(sides) * b)
{
    const td_fft_length *f = g->fft;
    int64_t n = f->length;
    if (f->real) FFT(turn_over)(b);
    if (!FFT(load)(k, g, b, n / 2 + 1, g->from_step, (int64_t)sizeof(REAL))) return false;
    if (f->real) {
        FFT(turn_over)(b);
        PARTS(f->n / 2 + 1, FFT(mix)(f, b, from, to))
    } else {
        memset(b->im, 0, sizeof(V));
        PARTS((n - 1) / 2, FFT(mirror)(b, n, from, to))
    }
    FFT(exchange)(b);
    if (!FFT(transform)(k, f, b)) return false;
    FFT(exchange)(b);
    if (f->real) return FFT(store)(k, g, b, n / 2, 2 * g->to_step, g->to_step);
    return FFT(store)(k, g, b, n, g->to_step, TD_FFT_REAL);
}

static bool FFT(run)(td_kcall *k, const td_fft_group *g, void *scratch)
{
    int64_t room = td_max64(g->fft->work, g->fft->length) + 1;
    V *at = scratch;
    FFT(sides) b = {at, at + room, at + 2 * room, at + 3 * room};
    if (g->kind == TD_FFT_R2C) return FFT(to_complex)(k, g, &b);
    if (g->kind == TD_FFT_C2R) return FFT(to_real)(k, g, &b);
    int64_t n = g->fft->length, part = (int64_t)sizeof(REAL);
    if (g->backward) FFT(exchange)(&b);
    if (!FFT(load)(k, g, &b, n, g->from_step, part)) return false;
    if (g->backward) FFT(exchange)(&b);
    if (!FFT(transform)(k, g->fft, &b)) return false;
    if (g->whole) PARTS(n, FFT(twist)(g, &b, from, to))
    if (g->backward) FFT(exchange)(&b);
    return FFT(store)(k, g, &b, n, g->to_step, part);
}

#undef V
#undef TURN
#undef PUT
#undef STORE
#undef PARTS
#undef REAL
#undef LANES
#undef FFT
