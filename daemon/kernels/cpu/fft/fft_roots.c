/* What is known of a length: factors, roots of unity, and the chirp of one with a large prime factor, in one block of
 * memory.
 *
 * Roots are computed in double, by the angle that symmetries leave of them; those of a large n as products of two. */
#include "daemon/kernels/cpu/fft/fft.h"
#include <math.h>
#include <string.h>

/* ---- roots of unity */

/* exp(-2 pi i k / n) for k below n, by the angle that the symmetries leave of it: at most an eighth of the circle. */
static void root(int64_t k, int64_t n, double *re, double *im)
{
    bool below = 2 * k <= n; /* the lower half of the plane */
    int64_t a = 2 * (below ? k : n - k);
    bool left = 2 * a > n;
    if (left) a = n - a;
    a *= 2;
    bool steep = 2 * a > n;
    if (steep) a = n - a;
    double angle = 1.57079632679489661923132169163975144 * ((double)a / (double)n), c = cos(angle), s = sin(angle);
    double x = steep ? s : c, y = steep ? c : s;
    *re = left ? -x : x;
    *im = below ? -y : y;
}

static int half_bits(int64_t n)
{
    int bits = 0;
    while ((INT64_C(1) << 2 * bits) < n) bits++;
    return bits;
}

size_t td_fft_roots_bytes(int64_t n)
{
    int bits = half_bits(n);
    return ((size_t)(INT64_C(1) << bits) + (size_t)(n >> bits) + 1) * 16;
}

td_fft_roots td_fft_roots_at(void *at, int64_t n)
{
    int bits = half_bits(n);
    return (td_fft_roots){at, (double *)at + (INT64_C(2) << bits), bits};
}

bool td_fft_roots_make(td_kcall *k, void *at, int64_t n)
{
    td_fft_roots r = td_fft_roots_at(at, n);
    int64_t fine = INT64_C(1) << r.bits, coarse = (n >> r.bits) + 1;
    for (int64_t i = 0; i < td_max64(fine, coarse); i++) {
        if (i < fine) root(i % n, n, r.fine + 2 * i, r.fine + 2 * i + 1);
        if (i < coarse) root((i << r.bits) % n, n, r.coarse + 2 * i, r.coarse + 2 * i + 1);
        if (i % 256 == 0 && td_kernel_rest(k)) return false;
    }
    return true;
}

/* Where roots come from: of a small n one by one, exact to the last bit; else as products. */
typedef struct source {
    td_fft_roots large;
    int64_t n;
} source;

static void root_of(const source *s, int64_t k, double *re, double *im)
{
    if (s->n <= TD_FFT_EXACT) {
        root(k, s->n, re, im);
        return;
    }
    const double *u = s->large.fine + 2 * (k & ((INT64_C(1) << s->large.bits) - 1)),
                 *v = s->large.coarse + 2 * (k >> s->large.bits);
    *re = u[0] * v[0] - u[1] * v[1];
    *im = u[0] * v[1] + u[1] * v[0];
}

/* ---- lengths */

static int factors(int64_t n, int *radix)
{
    int count = 0;
    for (int p = TD_FFT_PRIME; p > 1; p--) {
        while (n % p == 0 && (p == 4 || p == 2 || p % 2)) {
            bool prime = true;
            for (int d = 3; d * d <= p; d += 2) prime &= p % d != 0;
            if (!prime) break;
            if (radix) radix[count] = p;
            count++;
            n /= p;
        }
    }
    return n == 1 ? count : -1;
}

bool td_fft_smooth(int64_t n)
{
    return factors(n, NULL) >= 0;
}

/* A length of at least n that has small factors. */
static int64_t convolution(int64_t n)
{
    static const int odd[] = {1, 3, 5, 9, 15};
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        int64_t m = odd[i];
        while (m < n) m *= 2;
        if (m < best) best = m;
    }
    return best;
}

/* The parts of the block, in the order of td_fft_length. */
typedef struct layout {
    int64_t n, work;
    size_t roots, chirp, spectrum, turns, rooms[3], room, bytes;
} layout;

static size_t part(layout *l, size_t bytes)
{
    size_t at = l->bytes;
    l->bytes = (at + bytes + 63) & ~(size_t)63;
    return at;
}

static layout lay_out(int64_t length, td_dtype dtype, bool real)
{
    layout l = {.n = real && length % 2 == 0 ? length / 2 : length,
                .bytes = (sizeof(td_fft_length) + 63) & ~(size_t)63};
    size_t each = td_dtype_size(dtype);
    int radix[TD_FFT_PASSES], passes = factors(l.n, radix);
    l.work = passes < 0 ? convolution(2 * l.n - 1) : l.n;
    if (passes < 0) passes = factors(l.work, radix);
    size_t roots = 0;
    int64_t m = l.work;
    for (int i = 0; i < passes; i++) {
        m /= radix[i];
        roots += (size_t)(2 * (radix[i] - 1) * m + 2 * radix[i]);
    }
    l.roots = part(&l, roots * each);
    l.chirp = part(&l, l.work == l.n ? 0 : (size_t)(2 * l.n) * each);
    l.spectrum = part(&l, l.work == l.n ? 0 : (size_t)(2 * l.work) * each);
    l.turns = part(&l, l.n == length ? 0 : (size_t)(2 * (l.n / 2 + 1)) * each);
    /* what it is made with: roots of the passes, of the chirp, of the halves; two sides of a line */
    l.rooms[0] = part(&l, l.work > TD_FFT_EXACT ? td_fft_roots_bytes(l.work) : 0);
    l.rooms[1] = part(&l, l.work != l.n && 2 * l.n > TD_FFT_EXACT ? td_fft_roots_bytes(2 * l.n) : 0);
    l.rooms[2] = part(&l, l.n != length && length > TD_FFT_EXACT ? td_fft_roots_bytes(length) : 0);
    l.room = part(&l, l.work == l.n ? 0 : (size_t)(4 * l.work) * each);
    return l;
}

size_t td_fft_bytes(int64_t length, td_dtype dtype, bool real)
{
    return lay_out(length, dtype, real).bytes;
}

size_t td_fft_scratch(int64_t length, td_dtype dtype, bool real, int lanes)
{
    int64_t room = td_max64(lay_out(length, dtype, real).work, length) + 1;
    return (size_t)room * 4 * (size_t)lanes * td_dtype_size(dtype);
}

/* ---- making one */

static void put(const td_fft_length *f, void *at, int64_t i, double value)
{
    if (f->dtype == TD_FLOAT32) ((float *)at)[i] = (float)value;
    else ((double *)at)[i] = value;
}

static bool prepare(td_kcall *k, source *s, int64_t n, void *at)
{
    *s = (source){.n = n};
    if (n <= TD_FFT_EXACT) return true;
    s->large = td_fft_roots_at(at, n);
    return td_fft_roots_make(k, at, n);
}

/* One pass: turns of all places but the first of each group of r, and the roots of r. */
static bool make_pass(td_kcall *k, const td_fft_length *f, const source *s, char **to, int r, int64_t m)
{
    int64_t turn = f->work / (r * m), done = 0;
    double re, im;
    for (int64_t j = 1; j < r; j++)
        for (int64_t p = 0; p < m; p++) {
            root_of(s, p * j * turn, &re, &im);
            put(f, *to, (2 * j - 2) * m + p, re);
            put(f, *to, (2 * j - 1) * m + p, im);
            if (td_kernel_rest_after(k, &done, 16)) return false;
        }
    for (int64_t j = 0; j < r; j++) {
        root(j, r, &re, &im);
        put(f, *to, 2 * (r - 1) * m + 2 * j, re);
        put(f, *to, 2 * (r - 1) * m + 2 * j + 1, im);
    }
    *to += (size_t)(2 * (r - 1) * m + 2 * r) * td_dtype_size((td_dtype)f->dtype);
    return true;
}

/* exp(-pi i j j / n), and the transform of its conjugate, which goes both ways from place 0. */
static bool make_chirp(td_kcall *k, const td_fft_length *f, const source *s, char *at, const layout *l)
{
    char *room = at + l->room;
    int64_t square = 0, done = 0;
    size_t each = td_dtype_size((td_dtype)f->dtype);
    memset(room, 0, (size_t)(2 * f->work) * each);
    for (int64_t j = 0; j < f->n; j++) {
        double re, im;
        root_of(s, square, &re, &im);
        put(f, at + l->chirp, j, re), put(f, at + l->chirp, f->n + j, im);
        for (int side = 0; side < (j ? 2 : 1); side++) {
            int64_t place = side ? f->work - j : j;
            put(f, room, place, re / (double)f->work), put(f, room, f->work + place, -im / (double)f->work);
        }
        square = (square + 2 * j + 1) % (2 * f->n);
        if (td_kernel_rest_after(k, &done, 16)) return false;
    }
    void *re, *im;
    if (!td_fft_line(k, f, room, f->work, &re, &im)) return false;
    memcpy(at + l->spectrum, re, (size_t)f->work * each);
    memcpy(at + l->spectrum + (size_t)f->work * each, im, (size_t)f->work * each);
    return true;
}

static bool make_turns(td_kcall *k, const td_fft_length *f, const source *s, char *to)
{
    int64_t count = f->n / 2 + 1, done = 0;
    for (int64_t i = 0; i < count; i++) {
        double re, im;
        root_of(s, i, &re, &im);
        put(f, to, i, re), put(f, to, count + i, im);
        if (td_kernel_rest_after(k, &done, 16)) return false;
    }
    return true;
}

bool td_fft_make(td_kcall *k, void *at, int64_t length, td_dtype dtype, bool real)
{
    layout l = lay_out(length, dtype, real);
    td_fft_length *f = at;
    char *base = at, *to = base + l.roots;
    source s;
    memset(f, 0, sizeof *f);
    *f = (td_fft_length){
        .length = length, .n = l.n, .work = l.work, .dtype = (uint8_t)dtype, .real = l.n != length, .roots = to};
    f->passes = factors(f->work, f->radix);
    if (!prepare(k, &s, f->work, base + l.rooms[0])) return false;
    int64_t m = f->work;
    for (int i = 0; i < f->passes; i++)
        if (!make_pass(k, f, &s, &to, f->radix[i], m /= f->radix[i])) return false;
    if (f->work != f->n) {
        if (!prepare(k, &s, 2 * f->n, base + l.rooms[1]) || !make_chirp(k, f, &s, base, &l)) return false;
        f->chirp = base + l.chirp, f->spectrum = base + l.spectrum;
    }
    if (!f->real) return true;
    f->turns = base + l.turns;
    return prepare(k, &s, length, base + l.rooms[2]) && make_turns(k, f, &s, base + l.turns);
}
