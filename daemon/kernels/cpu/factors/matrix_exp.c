/* The exponential of matrices: scaling and squaring with the smallest diagonal Pade approximant that is good for the
 * norm (N. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005). A matrix that is not
 * finite gives NaN. */
#include "daemon/kernels/cpu/factors/lapack.h"
#include "daemon/kernels/plans.h"
#include <math.h>

/* Up to which 1-norm an approximant of this degree is good to the last bits. */
static const struct {
    int degree;
    double most;
} single[] = {{3, 4.258730016922831e-1}, {5, 1.880152677804762}, {7, 3.925724783138660}},
  both[] = {{3, 1.495585217958292e-2},
            {5, 2.539398330063230e-1},
            {7, 9.504178996162932e-1},
            {9, 2.097847961257068},
            {13, 5.371920351148152}};

enum { A, A2, A4, A6, U, V, T, MATRICES };

typedef struct exp_of {
    td_kcall *k;
    const td_matrices *s;
    char *at[MATRICES];
    int64_t reals; /* real numbers of a matrix */
} exp_of;

/* Some columns at a time, with rests between them. */
static void multiply(const exp_of *x, int to, int a, int b)
{
    const td_matrices *s = x->s;
    const int strip = 64;
    for (int j = 0; j < s->n && !td_kernel_rest(x->k); j += strip) {
        const int columns = s->n - j < strip ? s->n - j : strip;
        const size_t at = (size_t)j * (size_t)s->n * (size_t)s->size;
        s->f->gemm[s->type]("N", "N", &s->n, &columns, &s->n, td_lapack_number(s->type, 1), x->at[a], &s->n,
                            x->at[b] + at, &s->n, td_lapack_number(s->type, 0), x->at[to] + at, &s->n, 1, 1);
    }
}

/* to = to * keep + by * from */
static void add(const exp_of *x, int to, double keep, double by, int from)
{
    if (x->s->type % 2) {
        double *restrict y = (double *)x->at[to];
        const double *restrict v = (const double *)x->at[from];
        for (int64_t i = 0; i < x->reals; i++) y[i] = (keep ? keep * y[i] : 0) + by * v[i];
    } else {
        float *restrict y = (float *)x->at[to];
        const float *restrict v = (const float *)x->at[from];
        for (int64_t i = 0; i < x->reals; i++) y[i] = (keep ? (float)keep * y[i] : 0) + (float)by * v[i];
    }
}

static void scale(const exp_of *x, int to, double by)
{
    int t = x->s->type;
    for (int64_t i = 0; i < x->reals; i++) td_real_put(t, x->at[to], i, td_real_at(t, x->at[to], i) * by);
}

static void add_identity(const exp_of *x, int to, double by)
{
    int t = x->s->type, parts = t > 1 ? 2 : 1;
    for (int64_t i = 0; i < x->s->n; i++) {
        int64_t at = i * (x->s->n + 1) * parts;
        td_real_put(t, x->at[to], at, td_real_at(t, x->at[to], at) + by);
    }
}

static double norm1(const exp_of *x)
{
    int t = x->s->type, parts = t > 1 ? 2 : 1;
    double most = 0;
    for (int64_t j = 0; j < x->s->n; j++) {
        double sum = 0;
        for (int64_t i = j * x->s->n; i < (j + 1) * x->s->n; i++)
            sum += parts == 1 ? fabs(td_real_at(t, x->at[A], i))
                              : hypot(td_real_at(t, x->at[A], 2 * i), td_real_at(t, x->at[A], 2 * i + 1));
        if (!(sum <= most)) most = sum; /* NaN stays */
    }
    return most;
}

/* Coefficients of the numerator, from the constant one on; that is 1. */
static void coefficients(double *b, int degree)
{
    b[0] = 1;
    for (int j = 0; j < degree; j++) b[j + 1] = b[j] * (degree - j) / ((2.0 * degree - j) * (j + 1));
}

/* U (odd powers) and V (even ones) up to degree 9; the power after A6 is made as it is needed. */
static void small_approximant(const exp_of *x, int degree, const double *b)
{
    int power = A2;
    add(x, T, 0, b[3], A2);
    add_identity(x, T, b[1]);
    add(x, V, 0, b[2], A2);
    add_identity(x, V, b[0]);
    for (int j = 4; j < degree; j += 2) {
        if (j == 4) multiply(x, power = A4, A2, A2);
        if (j == 6) multiply(x, power = A6, A4, A2);
        if (j == 8) multiply(x, U, A4, A4), power = U;
        add(x, T, 1, b[j + 1], power);
        add(x, V, 1, b[j], power);
    }
    multiply(x, U, A, T);
}

static void large_approximant(const exp_of *x, const double *b)
{
    multiply(x, A4, A2, A2);
    multiply(x, A6, A4, A2);
    add(x, V, 0, b[13], A6), add(x, V, 1, b[11], A4), add(x, V, 1, b[9], A2);
    multiply(x, T, A6, V);
    add(x, T, 1, b[7], A6), add(x, T, 1, b[5], A4), add(x, T, 1, b[3], A2);
    add_identity(x, T, b[1]);
    multiply(x, U, A, T);
    add(x, T, 0, b[12], A6), add(x, T, 1, b[10], A4), add(x, T, 1, b[8], A2);
    multiply(x, V, A6, T);
    add(x, V, 1, b[6], A6), add(x, V, 1, b[4], A4), add(x, V, 1, b[2], A2);
    add_identity(x, V, b[0]);
}

/* V = (V - U)^-1 (V + U) */
static void divide(const exp_of *x, int *pivots)
{
    const td_matrices *s = x->s;
    int info = 0, none = 0;
    memcpy(x->at[T], x->at[V], (size_t)s->n * (size_t)s->n * (size_t)s->size);
    add(x, T, 1, -1, U);
    add(x, V, 1, 1, U);
    s->f->getrf[s->type](&s->n, &s->n, x->at[T], &s->n, pivots, &info);
    s->f->getrs[s->type]("N", &s->n, &s->n, x->at[T], &s->n, pivots, x->at[V], &s->n, &none, 1);
}

static void not_finite(const exp_of *x, int64_t b)
{
    for (int64_t i = 0; i < x->reals; i++) td_real_put(x->s->type, x->at[V], i, NAN);
    td_matrix_store(&x->k->out[0], b, x->at[V], x->s->n, x->s->n, x->s->n);
}

static void matrix_exp(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    exp_of x = {.k = k, .s = s, .reals = (int64_t)s->n * s->n * (s->type > 1 ? 2 : 1)};
    double c[14];
    int squarings = 0, count = s->type % 2 ? 5 : 3, last = 0, result = V;
    if (!s->n) return;
    for (int i = 0; i < MATRICES; i++) x.at[i] = scratch + s->at[i];
    td_matrix_load(x.at[A], s->n, &k->in[0], 2, k->in[0].desc, 2, b);
    double norm = norm1(&x);
    if (!isfinite(norm)) {
        not_finite(&x, b);
        return;
    }
    while (last < count - 1 && norm > (s->type % 2 ? both[last].most : single[last].most)) last++;
    double most = s->type % 2 ? both[last].most : single[last].most;
    if (norm > most) squarings = (int)ceil(log2(norm / most));
    if (squarings) scale(&x, A, ldexp(1, -squarings));
    int degree = s->type % 2 ? both[last].degree : single[last].degree;
    coefficients(c, degree);
    multiply(&x, A2, A, A);
    if (degree == 13) large_approximant(&x, c);
    else small_approximant(&x, degree, c);
    divide(&x, (int *)(scratch + s->at[MATRICES]));
    for (int i = 0; i < squarings; i++) {
        int to = result == V ? T : V;
        if (td_kernel_rest(k)) return;
        multiply(&x, to, result, result);
        result = to;
    }
    td_matrix_store(&k->out[0], b, x.at[result], s->n, s->n, s->n);
}

int td_cpu_plan_linalg_matrix_exp(td_kcall *k, td_error *e)
{
    _Static_assert(MATRICES < sizeof((td_matrices *)0)->at / sizeof(size_t), "each has a place");
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), matrix_exp, e);
    if (!s) return TD_E_UNSUPPORTED;
    for (int i = 0; i < MATRICES; i++) s->at[i] = td_matrices_room(k, (int64_t)s->n * s->n, (size_t)s->size);
    s->at[MATRICES] = td_matrices_room(k, s->n, sizeof(int));
    return td_matrices_end(k, 12.0 * s->n * s->n * s->n, e);
}
