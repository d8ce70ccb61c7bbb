/* See grid_taps.h. A coordinate from -1 to 1 becomes a place in elements; then edges hold it, or mirrors turn it back;
 * for cubic the elements are turned back one by one instead. Cubic: Keys' kernel (1981), a = -0.75. */
#include "daemon/kernels/cpu/grids/grid_taps.h"
#include "daemon/kernels/cpu/plan.h"
#include <math.h>

#define FAR 1e9 /* beyond any picture */

/* The place held by the edge; *by is multiplied by how it moves with v. */
static double clipped(double v, int64_t size, double *by)
{
    if (!(v > 0)) {
        *by = 0;
        return 0;
    }
    if (v < (double)(size - 1)) return v;
    *by = 0;
    return (double)(size - 1);
}

/* Mirrors stand at twice_low / 2 and twice_high / 2. */
static double mirrored(double v, double twice_low, double twice_high, double *by)
{
    double low = twice_low / 2, span = (twice_high - twice_low) / 2;
    if (!(span > 0) || !isfinite(v)) {
        *by = 0;
        return 0;
    }
    v -= low;
    if (v < 0) v = -v, *by = -*by;
    double extra = fmod(v, span), flips = floor(v / span);
    if (fmod(flips, 2) == 0) return extra + low;
    *by = -*by;
    return span - extra + low;
}

static double held(const td_grid *g, int d, double v, double *by)
{
    int64_t size = g->size[d];
    if (g->padding == TD_GRID_BORDER) return clipped(v, size, by);
    if (g->padding == TD_GRID_ZEROS) return v;
    if (g->corners) return clipped(mirrored(v, 0, 2 * (double)(size - 1), by), size, by);
    return clipped(mirrored(v, -1, 2 * (double)size - 1, by), size, by);
}

static int64_t inside(double v, int64_t size)
{
    return v >= 0 && v <= (double)(size - 1) ? (int64_t)v : -1;
}

static double keys(double x)
{
    const double a = -0.75;
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

/* Its derivative. */
static double keys_change(double x)
{
    const double a = -0.75, sign = x < 0 ? -1 : 1;
    x = fabs(x);
    if (x <= 1) return sign * (3 * (a + 2) * x - 2 * (a + 3)) * x;
    return sign * ((3 * a * x - 10 * a) * x + 8 * a);
}

static void cubic(const td_grid *g, int d, double v, double by, td_grid_line *line)
{
    double first = floor(v), share = v - first;
    for (int k = 0; k < 4; k++) {
        double none = 1, at = held(g, d, first + k - 1, &none), x = share + 1 - k;
        line->at[k] = inside(nearbyint(at), g->size[d]);
        line->weight[k] = keys(x);
        line->change[k] = keys_change(x) * by;
    }
}

void td_grid_look(const td_grid *g, int d, double coordinate, td_grid_line *line)
{
    double size = (double)g->size[d], by = (g->corners ? size - 1 : size) / 2;
    double v = g->corners ? (coordinate + 1) / 2 * (size - 1) : ((coordinate + 1) * size - 1) / 2;
    if (g->mode != TD_GRID_CUBIC) v = held(g, d, v, &by);
    if (!(v > -FAR && v < FAR * 4)) v = -100, by = 0;
    if (g->mode == TD_GRID_CUBIC) {
        cubic(g, d, v, by, line);
        return;
    }
    if (g->mode == TD_GRID_NEAREST) {
        *line = (td_grid_line){.at = {inside(nearbyint(v), g->size[d])}, .weight = {1}};
        return;
    }
    double first = floor(v);
    line->at[0] = inside(first, g->size[d]);
    line->at[1] = inside(first + 1, g->size[d]);
    line->weight[1] = v - first;
    line->weight[0] = first + 1 - v;
    line->change[0] = -by;
    line->change[1] = by;
}

/* Places in elements, which whole numbers of 32 bits hold; below the picture for what is beyond any, and NaN. */
TD_INLINE void places(const td_grid *g, int d, int64_t n, const double *c, double *restrict v)
{
    const double size = (double)g->size[d], last = size - 1;
    if (g->corners)
        for (int64_t i = 0; i < n; i++) v[i] = (c[i] + 1) / 2 * last;
    else
        for (int64_t i = 0; i < n; i++) v[i] = ((c[i] + 1) * size - 1) / 2;
    if (g->padding == TD_GRID_BORDER)
        for (int64_t i = 0; i < n; i++) v[i] = v[i] > 0 ? (v[i] < last ? v[i] : last) : 0;
    for (int64_t i = 0; i < n; i++) v[i] = v[i] > -FAR && v[i] < FAR * 2 ? v[i] : -100.0;
}

TD_FOR_SETS(void, td_grid_look_lines, (const td_grid *g, int d, int64_t n, const double *coordinate, td_grid_lines *to),
            (g, d, n, coordinate, to))
{
    double v[TD_GRID_BLOCK];
    const int32_t size = (int32_t)td_min64(g->size[d], INT32_MAX);
    places(g, d, n, coordinate, v);
    if (g->mode == TD_GRID_NEAREST) {
        for (int64_t i = 0; i < n; i++) { /* half to even, as nearbyint does */
            const int32_t at = (int32_t)((v[i] + 0x1.8p52) - 0x1.8p52);
            to->at[0][i] = at >= 0 && at < size ? at : -1;
            to->weight[0][i] = 1;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const int32_t whole = (int32_t)v[i], first = whole - ((double)whole > v[i]), second = first + 1;
        to->at[0][i] = first >= 0 && first < size ? first : -1;
        to->at[1][i] = second >= 0 && second < size ? second : -1;
        to->weight[1][i] = v[i] - (double)first;
        to->weight[0][i] = (double)second - v[i];
    }
}
