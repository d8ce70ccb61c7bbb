/* The passes of a transform, included by fft_lanes.h: radix 2, 3, 4, 5 and any other.
 *
 * A pass reads one side and writes the other. Its places p and what was done before, q, are cut into parts, so that a
 * long one rests. */

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
TD_INLINE void FFT(two)(const FFT(pass) * a, bool last)
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

TD_INLINE void FFT(three)(const FFT(pass) * a, bool last)
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

TD_INLINE void FFT(four)(const FFT(pass) * a, bool last)
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

TD_INLINE void FFT(five)(const FFT(pass) * a, bool last)
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
            V fr = ar + br * c1 + cr * c2, fi = ai + bi * c1 + ci * c2, gr = ar + br * c2 + cr * c1,
              gi = ai + bi * c2 + ci * c1;
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
TD_INLINE void FFT(any)(const FFT(pass) * a, int r, bool last)
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

static TD_FOR_SETS(void, FFT(part), (const FFT(pass) * a, int radix), (a, radix))
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
