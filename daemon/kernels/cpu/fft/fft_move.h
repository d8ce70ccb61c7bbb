/* Lines into lanes and back, included by fft_lanes.h: elements `step` bytes apart, their imaginary parts `part` bytes
 * behind (TD_FFT_REAL: there are none). Whole lines are turned in registers, four or two elements of all lanes at once;
 * neighbouring lines are taken apart. */

enum { FFT(cell) = 2 * (int)sizeof(REAL), FFT(across) = LANES / 2 }; /* a complex number; those that fill a vector */

#if LANES > 1
/* Elements of two vectors by their places, which clang takes as constants only. */
#ifdef __clang__
static V FFT(chosen)(V a, V b, const MASK *places)
{
    V r;
    for (int c = 0; c < LANES; c++) r[c] = places[c] < LANES ? a[places[c]] : b[places[c] - LANES];
    return r;
}
#define SHUFFLE(a, b, places) FFT(chosen)(a, b, (const MASK *)&(places))
#else
#define SHUFFLE(a, b, places) __builtin_shuffle(a, b, places)
#endif

/* Rows become columns (Eklundh's way: bit after bit of row and column). */
TD_INLINE void FFT(transpose)(V *x)
{
    typedef MASK mask __attribute__((vector_size(LANES * sizeof(REAL))));
    for (int h = 1; h < LANES; h *= 2) {
        mask low = {0}, high = {0};
        for (int c = 0; c < LANES; c++) low[c] = c & h ? LANES + c - h : c, high[c] = c & h ? LANES + c : c + h;
        for (int i = 0; i < LANES; i++) {
            if (i & h) continue;
            V a = x[i], b = x[i + h];
            x[i] = SHUFFLE(a, b, low);
            x[i + h] = SHUFFLE(a, b, high);
        }
    }
}

static TD_FOR_SETS(int64_t, FFT(load_lines), (const td_fft_group *g, const FFT(sides) * b, int64_t from, int64_t to),
                   (g, b, from, to))
{
    for (; from + FFT(across) <= to; from += FFT(across)) {
        V x[LANES];
        for (int l = 0; l < LANES; l++) memcpy(&x[l], g->from[l] + from * FFT(cell), sizeof(V));
        FFT(transpose)(x);
        for (int c = 0; c < FFT(across); c++) b->re[from + c] = x[2 * c], b->im[from + c] = x[2 * c + 1];
    }
    return from;
}

static TD_FOR_SETS(int64_t, FFT(store_lines), (const td_fft_group *g, const FFT(sides) * b, int64_t from, int64_t to),
                   (g, b, from, to))
{
    const REAL scale = (REAL)g->scale;
    for (; from + FFT(across) <= to; from += FFT(across)) {
        V x[LANES];
        for (int c = 0; c < FFT(across); c++)
            x[2 * c] = b->re[from + c] * scale, x[2 * c + 1] = b->im[from + c] * scale;
        FFT(transpose)(x);
        for (int l = 0; l < g->lines; l++) memcpy(g->to[l] + from * FFT(cell), &x[l], sizeof(V));
    }
    return from;
}

static TD_FOR_SETS(int64_t, FFT(load_side),
                   (const td_fft_group *g, const FFT(sides) * b, int64_t from, int64_t to, int64_t step),
                   (g, b, from, to, step))
{
    typedef MASK mask __attribute__((vector_size(LANES * sizeof(REAL))));
    mask even = {0}, odd = {0};
    for (int c = 0; c < LANES; c++) even[c] = 2 * c, odd[c] = 2 * c + 1;
    for (; from < to; from++) {
        V x[2];
        memcpy(x, g->from[0] + from * step, sizeof x);
        b->re[from] = SHUFFLE(x[0], x[1], even);
        b->im[from] = SHUFFLE(x[0], x[1], odd);
    }
    return from;
}

static TD_FOR_SETS(int64_t, FFT(store_side),
                   (const td_fft_group *g, const FFT(sides) * b, int64_t from, int64_t to, int64_t step),
                   (g, b, from, to, step))
{
    typedef MASK mask __attribute__((vector_size(LANES * sizeof(REAL))));
    const REAL scale = (REAL)g->scale;
    mask low = {0}, high = {0};
    for (int c = 0; c < LANES; c++) low[c] = c / 2 + c % 2 * LANES, high[c] = low[c] + LANES / 2;
    for (; from < to; from++) {
        V r = b->re[from] * scale, v = b->im[from] * scale, x[2];
        x[0] = SHUFFLE(r, v, low);
        x[1] = SHUFFLE(r, v, high);
        memcpy(g->to[0] + from * step, x, sizeof x);
    }
    return from;
}

static bool FFT(side_by_side)(const char *const *at)
{
    for (int l = 1; l < LANES; l++)
        if (at[l] != at[0] + l * FFT(cell)) return false;
    return true;
}
#endif

static void FFT(load_part)(const td_fft_group *g, const FFT(sides) * b, int64_t from, int64_t to, int64_t step,
                           int64_t part)
{
#if LANES > 1
    if (part == (int64_t)sizeof(REAL) && FFT(side_by_side)(g->from)) from = FFT(load_side)(g, b, from, to, step);
    else if (part == (int64_t)sizeof(REAL) && step == FFT(cell)) from = FFT(load_lines)(g, b, from, to);
#endif
    for (; from < to; from++)
        for (int l = 0; l < LANES; l++) {
            const char *at = g->from[l] + from * step;
            ((REAL *)(b->re + from))[l] = *(const REAL *)at;
            ((REAL *)(b->im + from))[l] = part != TD_FFT_REAL ? *(const REAL *)(at + part) : 0;
        }
}

static void FFT(store_part)(const td_fft_group *g, const FFT(sides) * b, int64_t from, int64_t to, int64_t step,
                            int64_t part)
{
    const REAL scale = (REAL)g->scale;
#if LANES > 1
    if (part == (int64_t)sizeof(REAL) && g->lines == LANES && FFT(side_by_side)((const char *const *)g->to))
        from = FFT(store_side)(g, b, from, to, step);
    else if (part == (int64_t)sizeof(REAL) && step == FFT(cell)) from = FFT(store_lines)(g, b, from, to);
#endif
    for (; from < to; from++)
        for (int l = 0; l < g->lines; l++) {
            char *at = g->to[l] + from * step;
            *(REAL *)at = ((REAL *)(b->re + from))[l] * scale;
            if (part != TD_FFT_REAL) *(REAL *)(at + part) = ((REAL *)(b->im + from))[l] * scale;
        }
}

static bool FFT(load)(td_kcall *k, const td_fft_group *g, const FFT(sides) * b, int64_t n, int64_t step, int64_t part)
{
    PARTS(n, FFT(load_part)(g, b, from, to, step, part))
    return true;
}

static bool FFT(store)(td_kcall *k, const td_fft_group *g, const FFT(sides) * b, int64_t n, int64_t step, int64_t part)
{
    PARTS(n, FFT(store_part)(g, b, from, to, step, part))
    return true;
}
