/* See resample_taps.h. Places and weights are worked out as PyTorch does, in its precision, so that the same element is
 * the nearest one. Cubic: Keys' kernel (Cubic Convolution Interpolation for Digital Image Processing, 1981), a = -0.75,
 * and -0.5 where a place covers more than one element. */
#include "daemon/kernels/cpu/grids/resample_taps.h"
#include "daemon/kernels/cpu/plan.h"
#include <math.h>

static double rounded(const td_resize *r, double v)
{
    return r->single ? (double)(float)v : v;
}

/* How far apart the places of the result are in the input. */
static double step_of(const td_resize *r)
{
    if (r->corners) return r->out > 1 ? rounded(r, (double)(r->in - 1) / (double)(r->out - 1)) : 0;
    return r->scale > 0 ? rounded(r, 1 / r->scale) : rounded(r, (double)r->in / (double)r->out);
}

/* v as an index from lo to hi, whatever it is. */
static int64_t held(double v, int64_t lo, int64_t hi)
{
    return !(v > (double)lo) ? lo : v > (double)hi ? hi : (int64_t)v;
}

static double support_of(const td_resize *r, double step)
{
    double half = r->mode == TD_CUBIC ? 2 : 1;
    return step >= 1 ? rounded(r, half * step) : half;
}

int64_t td_taps_most(const td_resize *r)
{
    if (r->mode == TD_AREA) return td_min64(r->in, r->in / r->out + 2);
    if (r->antialias) return held(ceil(support_of(r, step_of(r))) * 2 + 1, 1, r->in);
    return r->mode == TD_CUBIC ? 4 : r->mode == TD_LINEAR ? 2 : 1;
}

size_t td_taps_bytes(int64_t rows, int64_t count)
{
    return (size_t)(((rows + 1 + count) * 4 + 7) / 8 * 8 + count * 8);
}

td_taps td_taps_in(void *memory, int64_t rows, int64_t count)
{
    td_taps t = {.begin = memory, .at = (int32_t *)memory + rows + 1};
    t.weight = (double *)((char *)memory + ((rows + 1 + count) * 4 + 7) / 8 * 8);
    return t;
}

static void add(td_taps *t, int32_t *n, int64_t at, double weight)
{
    t->at[*n] = (int32_t)at;
    t->weight[(*n)++] = weight;
}

static void nearest(const td_resize *r, td_taps *t, int64_t i, int32_t *n)
{
    bool plain = r->mode == TD_NEAREST;
    if (plain && (r->out == r->in || r->out == 2 * r->in)) { /* whatever the scale says, as in PyTorch */
        add(t, n, r->out == r->in ? i : i / 2, 1);
        return;
    }
    double place = rounded(r, (plain ? (double)i : (double)i + 0.5) * step_of(r));
    add(t, n, held(floor((double)(float)place), 0, r->in - 1), 1);
}

/* Where place i is between elements. */
static double place_of(const td_resize *r, int64_t i)
{
    double step = step_of(r);
    if (r->corners) return rounded(r, step * (double)i);
    return rounded(r, rounded(r, step * ((double)i + 0.5)) - 0.5);
}

static void linear(const td_resize *r, td_taps *t, int64_t i, int32_t *n)
{
    double place = place_of(r, i);
    if (!(place > 0)) place = 0;
    int64_t at = held(floor(place), 0, r->in - 1);
    double share = rounded(r, fmin(fmax(place - (double)at, 0), 1));
    add(t, n, at, rounded(r, 1 - share));
    add(t, n, at + (at < r->in - 1), share);
}

static double keys(double x, double a)
{
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static void cubic(const td_resize *r, td_taps *t, int64_t i, int32_t *n)
{
    double place = place_of(r, i);
    int64_t at = held(floor(place), -4, r->in - 1);
    double share = fmin(fmax(place - (double)at, 0), 1);
    for (int64_t k = -1; k <= 2; k++)
        add(t, n, td_max64(0, td_min64(at + k, r->in - 1)), keys(share - (double)k, -0.75));
}

static void area(const td_resize *r, td_taps *t, int64_t i, int32_t *n)
{
    int64_t first = i * r->in / r->out, last = ((i + 1) * r->in + r->out - 1) / r->out;
    for (int64_t k = first; k < last; k++) add(t, n, k, 1 / (double)(last - first));
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* All elements that the filter reaches when it is as wide as a step. */
static void antialiased(const td_resize *r, td_taps *t, int64_t i, int32_t *n)
{
    double step = step_of(r), support = support_of(r, step), sum = 0;
    double center = rounded(r, step * ((double)i + 0.5)), shrink = step >= 1 ? 1 / step : 1;
    int64_t first = held(center - support + 0.5, 0, r->in - 1), last = held(center + support + 0.5, 0, r->in);
    int32_t from = *n;
    last = td_min64(td_max64(last, first + 1), first + td_taps_most(r));
    for (int64_t k = first; k < last; k++) {
        double x = ((double)k - center + 0.5) * shrink, w = r->mode == TD_CUBIC ? keys(x, -0.5) : triangle(x);
        add(t, n, k, w);
        sum += w;
    }
    for (int32_t k = from; k < *n && sum != 0; k++) t->weight[k] /= sum;
}

bool td_taps_fill(td_kcall *k, const td_resize *r, td_taps *t)
{
    int32_t n = 0;
    int64_t most = td_taps_most(r), done = 0;
    bool even = true;
    for (int64_t i = 0; i < r->out; i++) {
        t->begin[i] = n;
        if (r->antialias) antialiased(r, t, i, &n);
        else if (r->mode == TD_AREA) area(r, t, i, &n);
        else if (r->mode == TD_CUBIC) cubic(r, t, i, &n);
        else if (r->mode == TD_LINEAR) linear(r, t, i, &n);
        else nearest(r, t, i, &n);
        even &= n - t->begin[i] == most;
        if (td_kernel_rest_after(k, &done, most)) return false;
    }
    t->begin[r->out] = n;
    t->even = even ? (int32_t)most : 0;
    return true;
}

/* How many taps each column has, then where they begin. */
static bool count_columns(td_kcall *k, const td_resize *r, const td_taps *from, td_taps *to)
{
    int32_t sum = 0;
    int64_t done = 0;
    memset(to->begin, 0, (size_t)(r->in + 1) * sizeof *to->begin);
    for (int32_t j = 0; j < from->begin[r->out]; j++) {
        to->begin[from->at[j]]++;
        if (td_kernel_rest_after(k, &done, 1)) return false;
    }
    for (int64_t i = 0; i <= r->in; i++) {
        int32_t count = i < r->in ? to->begin[i] : 0;
        to->begin[i] = sum;
        sum += count;
        if (td_kernel_rest_after(k, &done, 1)) return false;
    }
    return true;
}

bool td_taps_turn(td_kcall *k, const td_resize *r, const td_taps *from, td_taps *to)
{
    int64_t done = 0;
    if (!count_columns(k, r, from, to)) return false;
    for (int64_t i = 0; i < r->out; i++) {
        for (int32_t j = from->begin[i]; j < from->begin[i + 1]; j++) {
            int32_t at = to->begin[from->at[j]]++;
            to->at[at] = (int32_t)i;
            to->weight[at] = from->weight[j];
        }
        if (td_kernel_rest_after(k, &done, from->begin[i + 1] - from->begin[i] + 1)) return false;
    }
    for (int64_t i = r->in; i > 0; i--) to->begin[i] = to->begin[i - 1]; /* each had moved on to the next */
    to->begin[0] = 0;
    to->even = 0;
    return true;
}
