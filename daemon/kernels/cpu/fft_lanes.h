/* The transform of a group of lines, for one type and number of lanes: included by fft_run.c with REAL, LANES and FFT(name).
 *
 * Stockham's passes: with s = the product of the factors done and m what is left, element q + s (p + m k) of the source, for k below the
 * factor r, becomes q + s (r p + j) of the result, turned by the root p j of n / s. Source and result are two buffers that change places, so
 * nothing is reordered at the end. The inverse is the transform with real and imaginary parts exchanged on the way in and out. */

#if LANES == 1
typedef REAL FFT(vec);
#else
typedef REAL FFT(vec) __attribute__((vector_size(LANES * sizeof(REAL))));
#endif

#define V FFT(vec)

/* Parts of a pass: p and q from .. to. */
typedef struct FFT(pass) {
    const V *xr, *xi;
    V *yr, *yi;
    int64_t m, s, p0, p1, q0, q1;
    const REAL *roots;
} FFT(pass);

/* z = (r + i v) turned by root j of place p. */
#define TURN(j, r, v)                                                                                                  \
    do {                                                                                                               \
        REAL wr_ = a->roots[(2 * (j)-2) * a->m + p], wi_ = a->roots[(2 * (j)-1) * a->m + p];                           \
        V r_ = (r), v_ = (v);                                                                                          \
        yr[(j)*a->s + q] = r_ * wr_ - v_ * wi_;                                                                        \
        yi[(j)*a->s + q] = r_ * wi_ + v_ * wr_;                                                                        \
    } while (0)
#define PUT(j, r, v) (yr[(j)*a->s + q] = (r), yi[(j)*a->s + q] = (v))
/* The last pass turns by nothing. */
#define STORE(j, r, v)                                                                                                 \
    do {                                                                                                               \
        if (last) PUT(j, r, v);                                                                                        \
        else TURN(j, r, v);                                                                                            \
    } while (0)
TD_INLINE void FFT(two)(const FFT(pass) *a, bool last)
{
    int64_t step = a->s * a->m;
    for (int64_t p = a->p0; p < a->p1; p++) {
        const V *xr = a->xr + a->s * p, *xi = a->xi + a->s * p;
        V *restrict yr = a->yr + a->s * 2 * p, *restrict yi = a->yi + a->s * 2 * p;
        for (int64_t q = a->q0; q < a->q1; q++) {
            V ar = xr[q], ai = xi[q], br = xr[q + step], bi = xi[q + step];
            PUT(0, ar + br, ai + bi);
            STORE(1, ar - br, ai - bi);
        }
    }
}

TD_INLINE void FFT(three)(const FFT(pass) *a, bool last)
{
    const REAL half = (REAL)0.5, sine = (REAL)0.866025403784438646763723170752936183;
    int64_t step = a->s * a->m;
    for (int64_t p = a->p0; p < a->p1; p++) {
        const V *xr = a->xr + a->s * p, *xi = a->xi + a->s * p;
        V *restrict yr = a->yr + a->s * 3 * p, *restrict yi = a->yi + a->s * 3 * p;
        for (int64_t q = a->q0; q < a->q1; q++) {
            V ar = xr[q], ai = xi[q], sr = xr[q + step] + xr[q + 2 * step], si = xi[q + step] + xi[q + 2 * step];
            V dr = (xr[q + step] - xr[q + 2 * step]) * sine, di = (xi[q + step] - xi[q + 2 * step]) * sine;
            V cr = ar - sr * half, ci = ai - si * half;
            PUT(0, ar + sr, ai + si);
            STORE(1, cr + di, ci - dr);
            STORE(2, cr - di, ci + dr);
        }
    }
}

TD_INLINE void FFT(four)(const FFT(pass) *a, bool last)
{
    int64_t step = a->s * a->m;
    for (int64_t p = a->p0; p < a->p1; p++) {
        const V *xr = a->xr + a->s * p, *xi = a->xi + a->s * p;
        V *restrict yr = a->yr + a->s * 4 * p, *restrict yi = a->yi + a->s * 4 * p;
        for (int64_t q = a->q0; q < a->q1; q++) {
            V ar = xr[q] + xr[q + 2 * step], ai = xi[q] + xi[q + 2 * step];
            V br = xr[q] - xr[q + 2 * step], bi = xi[q] - xi[q + 2 * step];
            V cr = xr[q + step] + xr[q + 3 * step], ci = xi[q + step] + xi[q + 3 * step];
            V dr = xr[q + step] - xr[q + 3 * step], di = xi[q + step] - xi[q + 3 * step];
            PUT(0, ar + cr, ai + ci);
            STORE(1, br + di, bi - dr);
            STORE(2, ar - cr, ai - ci);
            STORE(3, br - di, bi + dr);
        }
    }
}

TD_INLINE void FFT(five)(const FFT(pass) *a, bool last)
{
    const REAL c1 = (REAL)0.309016994374947424102293417182819059, c2 = (REAL)-0.809016994374947424102293417182819059;
    const REAL s1 = (REAL)0.951056516295153572116439333379382143, s2 = (REAL)0.587785252292473129168705954639072769;
    int64_t step = a->s * a->m;
    for (int64_t p = a->p0; p < a->p1; p++) {
        const V *xr = a->xr + a->s * p, *xi = a->xi + a->s * p;
        V *restrict yr = a->yr + a->s * 5 * p, *restrict yi = a->yi + a->s * 5 * p;
        for (int64_t q = a->q0; q < a->q1; q++) {
            V ar = xr[q], ai = xi[q];
            V br = xr[q + step] + xr[q + 4 * step], bi = xi[q + step] + xi[q + 4 * step];
            V cr = xr[q + 2 * step] + xr[q + 3 * step], ci = xi[q + 2 * step] + xi[q + 3 * step];
            V dr = xr[q + step] - xr[q + 4 * step], di = xi[q + step] - xi[q + 4 * step];
            V er = xr[q + 2 * step] - xr[q + 3 * step], ei = xi[q + 2 * step] - xi[q + 3 * step];
            V fr = ar + br * c1 + cr * c2, fi = ai + bi * c1 + ci * c2, gr = ar + br * c2 + cr * c1, gi = ai + bi * c2 + ci * c1;
            V hr = dr * s1 + er * s2, hi = di * s1 + ei * s2, kr = dr * s2 - er * s1, ki = di * s2 - ei * s1;
            PUT(0, ar + br + cr, ai + bi + ci);
            STORE(1, fr + hi, fi - hr);
            STORE(2, gr + ki, gi - kr);
            STORE(3, gr - ki, gi + kr);
            STORE(4, fr - hi, fi + hr);
        }
    }
}

/* Any odd radix: pairs j and r - j share their sums. */
TD_INLINE void FFT(any)(const FFT(pass) *a, int r, bool last)
{
    const REAL *own = a->roots + 2 * (r - 1) * a->m;
    int64_t step = a->s * a->m;
    int h = (r - 1) / 2;
    V ur[TD_FFT_PRIME / 2 + 1], ui[TD_FFT_PRIME / 2 + 1], vr[TD_FFT_PRIME / 2 + 1], vi[TD_FFT_PRIME / 2 + 1];
    for (int64_t p = a->p0; p < a->p1; p++) {
        const V *xr = a->xr + a->s * p, *xi = a->xi + a->s * p;
        V *restrict yr = a->yr + a->s * r * p, *restrict yi = a->yi + a->s * r * p;
        for (int64_t q = a->q0; q < a->q1; q++) {
            V br = xr[q], bi = xi[q];
            for (int k = 1; k <= h; k++) {
                ur[k] = xr[q + k * step] + xr[q + (r - k) * step], ui[k] = xi[q + k * step] + xi[q + (r - k) * step];
                vr[k] = xr[q + k * step] - xr[q + (r - k) * step], vi[k] = xi[q + k * step] - xi[q + (r - k) * step];
                br += ur[k], bi += ui[k];
            }
            PUT(0, br, bi);
            for (int j = 1; j <= h; j++) {
                V cr = xr[q], ci = xi[q], dr = {0}, di = {0};
                for (int k = 1, at = j; k <= h; k++, at = at + j < r ? at + j : at + j - r) {
                    REAL c = own[2 * at], s = own[2 * at + 1];
                    cr += ur[k] * c, ci += ui[k] * c;
                    dr += vr[k] * s, di += vi[k] * s;
                }
                STORE(j, cr - di, ci + dr);
                STORE(r - j, cr + di, ci - dr);
            }
        }
    }
}

TD_CLONES static void FFT(part)(const FFT(pass) *a, int radix)
{
    bool last = a->m == 1;
    if (radix == 4 && last) FFT(four)(a, true);
    else if (radix == 4) FFT(four)(a, false);
    else if (radix == 2) FFT(two)(a, last);
    else if (radix == 3) FFT(three)(a, last);
    else if (radix == 5) FFT(five)(a, last);
    else FFT(any)(a, radix, last);
}

/* One pass in parts that rest between. False: the call has failed. */
static bool FFT(pass_over)(td_kcall *k, FFT(pass) a, int radix, int64_t *done)
{
    int64_t each = (int64_t)TD_REST_ELEMENTS / (radix * LANES) + 1, m = a.m, s = a.s;
    int64_t qs = td_min64(s, each), ps = td_max64(each / s, 1);
    for (int64_t p = 0; p < m; p += ps)
        for (int64_t q = 0; q < s; q += qs) {
            a.p0 = p, a.p1 = td_min64(m, p + ps), a.q0 = q, a.q1 = td_min64(s, q + qs);
            FFT(part)(&a, radix);
            if (td_kernel_rest_after(k, done, (a.p1 - a.p0) * (a.q1 - a.q0) * radix * LANES)) return false;
        }
    return true;
}

/* The buffers: element i of the lines, and as many again for the other side of a pass. */
typedef struct FFT(sides) {
    V *re, *im, *re2, *im2;
} FFT(sides);

static void FFT(turn_over)(FFT(sides) *b)
{
    V *re = b->re, *im = b->im;
    b->re = b->re2, b->im = b->im2;
    b->re2 = re, b->im2 = im;
}

static void FFT(exchange)(FFT(sides) *b)
{
    V *re = b->re, *re2 = b->re2;
    b->re = b->im, b->im = re;
    b->re2 = b->im2, b->im2 = re2;
}

/* All passes; the result is in re and im. */
static bool FFT(passes)(td_kcall *k, const td_fft_length *f, FFT(sides) *b)
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

/* y = x * w element by element, of parts of `n` places; `conjugate` what comes of it. */
TD_CLONES static void FFT(times)(V *restrict re, V *restrict im, const REAL *w, int64_t n, int64_t from, int64_t to, bool conjugate)
{
    for (int64_t i = from; i < to; i++) {
        V r = re[i], v = im[i];
        re[i] = r * w[i] - v * w[n + i];
        im[i] = conjugate ? -(r * w[n + i] + v * w[i]) : r * w[n + i] + v * w[i];
    }
}

static bool FFT(times_all)(td_kcall *k, FFT(sides) *b, const REAL *w, int64_t n, bool conjugate)
{
    int64_t step = TD_REST_ELEMENTS / LANES;
    for (int64_t i = 0; i < n; i += step) {
        FFT(times)(b->re, b->im, w, n, i, td_min64(n, i + step), conjugate);
        if (td_kernel_rest(k)) return false;
    }
    return true;
}

/* Bluestein: the transform as a convolution with a chirp, by transforms of a length that has small factors. */
static bool FFT(transform)(td_kcall *k, const td_fft_length *f, FFT(sides) *b)
{
    if (!f->chirp) return FFT(passes)(k, f, b);
    if (!FFT(times_all)(k, b, f->chirp, f->n, false)) return false;
    memset(b->re + f->n, 0, (size_t)(f->work - f->n) * sizeof(V));
    memset(b->im + f->n, 0, (size_t)(f->work - f->n) * sizeof(V));
    if (!FFT(passes)(k, f, b) || !FFT(times_all)(k, b, f->spectrum, f->work, true)) return false;
    if (!FFT(passes)(k, f, b)) return false;
    /* that was the transform of conjugates: so is what comes out, and the chirp turns it back */
    for (int64_t i = 0; i < f->n; i++) b->im[i] = -b->im[i];
    return FFT(times_all)(k, b, f->chirp, f->n, false);
}

#include "daemon/kernels/cpu/fft_move.h"

/* Halves of real lines: y[j] = x[2 j] + i x[2 j + 1] was transformed; now all of x up to the middle. */
TD_CLONES static void FFT(unmix)(const td_fft_length *f, FFT(sides) *b)
{
    const REAL *w = f->turns, half = (REAL)0.5;
    int64_t n = f->n, turns = n / 2 + 1;
    for (int64_t i = 0; i <= n / 2; i++) {
        int64_t j = i ? n - i : 0;
        V er = (b->re[i] + b->re[j]) * half, ei = (b->im[i] - b->im[j]) * half;
        V dr = (b->im[i] + b->im[j]) * half, di = (b->re[j] - b->re[i]) * half;
        V tr = dr * w[i] - di * w[turns + i], ti = dr * w[turns + i] + di * w[i];
        b->re2[i] = er + tr, b->im2[i] = ei + ti;
        b->re2[n - i] = er - tr, b->im2[n - i] = ti - ei;
    }
}

/* The other way: of the half of a transform that mirrors itself, in re2 and im2, to that of pairs of reals. */
TD_CLONES static void FFT(mix)(const td_fft_length *f, FFT(sides) *b)
{
    const REAL *w = f->turns;
    int64_t n = f->n, turns = n / 2 + 1;
    for (int64_t i = 0; i <= n / 2; i++) {
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
static void FFT(twist)(const td_fft_group *g, FFT(sides) *b, int64_t from, int64_t to)
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

static bool FFT(twist_all)(td_kcall *k, const td_fft_group *g, FFT(sides) *b)
{
    int64_t step = TD_REST_ELEMENTS / LANES;
    for (int64_t i = 0; i < g->fft->length; i += step) {
        FFT(twist)(g, b, i, td_min64(g->fft->length, i + step));
        if (td_kernel_rest(k)) return false;
    }
    return true;
}

/* The mirrored half of a real line's transform, and what is taken for granted of one that is to become real. */
static void FFT(mirror)(FFT(sides) *b, int64_t n)
{
    for (int64_t i = n / 2 + 1; i < n; i++) b->re[i] = b->re[n - i], b->im[i] = -b->im[n - i];
}

static bool FFT(to_complex)(td_kcall *k, const td_fft_group *g, FFT(sides) *b)
{
    const td_fft_length *f = g->fft;
    int64_t n = f->length;
    if (f->real) {
        if (!FFT(load)(k, g, b, n / 2, 2 * g->from_step, g->from_step) || !FFT(transform)(k, f, b)) return false;
        FFT(unmix)(f, b);
        FFT(turn_over)(b);
    } else if (!FFT(load)(k, g, b, n, g->from_step, TD_FFT_REAL) || !FFT(transform)(k, f, b)) {
        return false;
    }
    if (g->twosided) FFT(mirror)(b, n);
    return FFT(store)(k, g, b, g->twosided ? n : n / 2 + 1, g->to_step, (int64_t)sizeof(REAL));
}

static bool FFT(to_real)(td_kcall *k, const td_fft_group *g, FFT(sides) *b)
{
    const td_fft_length *f = g->fft;
    int64_t n = f->length;
    if (f->real) FFT(turn_over)(b);
    if (!FFT(load)(k, g, b, n / 2 + 1, g->from_step, (int64_t)sizeof(REAL))) return false;
    if (f->real) {
        FFT(turn_over)(b);
        FFT(mix)(f, b);
    } else {
        memset(b->im, 0, sizeof(V));
        FFT(mirror)(b, n);
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
    if (!FFT(transform)(k, g->fft, &b) || (g->whole && !FFT(twist_all)(k, g, &b))) return false;
    if (g->backward) FFT(exchange)(&b);
    return FFT(store)(k, g, &b, n, g->to_step, part);
}

#undef V
#undef TURN
#undef PUT
#undef STORE
#undef REAL
#undef LANES
#undef FFT
