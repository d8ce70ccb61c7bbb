/* Least squares, and the inverse of what has none. */
#include "daemon/kernels/cpu/factors/spectral.h"
#include "daemon/kernels/plans.h"
#include <math.h>

static double epsilon(int type)
{
    return type % 2 ? 0x1p-52 : 0x1p-23;
}

/* ---- x, atol, rtol, hermitian */

/* What counts as zero beside the largest of n values. */
static double least_of(const td_kcall *k, const td_matrices *s, const void *values, int n)
{
    double largest = 0;
    for (int i = 0; i < n; i++) largest = fmax(largest, fabs(td_real_at(s->type, values, i)));
    bool has_atol = td_attr_given(k->attrs, 0), has_rtol = td_attr_given(k->attrs, 1);
    double atol = has_atol ? td_attr_float(k->attrs, 0) : 0;
    double rtol = has_rtol ? td_attr_float(k->attrs, 1) : atol > 0 ? 0 : epsilon(s->type) * fmax(s->m, s->n);
    return fmax(atol, rtol * largest);
}

/* to[i] = from[i] * by, real numbers that are `step` apart and complex where the type is. */
static void scale(const td_matrices *s, void *to, const void *from, int64_t first, int64_t step, int count, double by)
{
    int parts = s->type > 1 ? 2 : 1;
    for (int64_t i = 0; i < count; i++)
        for (int p = 0; p < parts; p++) {
            int64_t at = (first + i * step) * parts + p;
            td_real_put(s->type, to, at, td_real_at(s->type, from, at) * by);
        }
}

static void store_product(td_kcall *k, const td_matrices *s, int64_t b, const char *tx, const void *x, int ldx,
                          const void *y, int ldy, void *to)
{
    int ld = td_ld(s->n);
    s->f->gemm[s->type](tx, "C", &s->n, &s->m, &s->k, td_lapack_number(s->type, 1), x, &ldx, y, &ldy,
                        td_lapack_number(s->type, 0), to, &ld, 1, 1);
    td_matrix_store(&k->out[0], b, to, ld, s->n, s->m);
}

static td_svd_rooms rooms_of(const td_matrices *s)
{
    const size_t *at = s->at;
    return (td_svd_rooms){at[0], at[1], at[2], at[3], at[4], at[5], at[6]};
}

static void pinv(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    td_svd_rooms at = rooms_of(s);
    void *vt = scratch + at.vt, *values = scratch + at.s;
    if (!td_svd_run(k, s, 'S', &at, b, scratch) || !s->k) return;
    double least = least_of(k, s, values, s->k);
    for (int i = 0; i < s->k; i++) {
        double v = td_real_at(s->type, values, i);
        scale(s, vt, vt, i, s->k, s->n, v > least ? 1 / v : 0);
    }
    store_product(k, s, b, "C", vt, s->k, scratch + at.u, s->m, scratch + s->at[7]);
}

static void pinv_hermitian(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    td_svd_rooms at = rooms_of(s);
    void *q = scratch + at.a, *scaled = scratch + at.u, *values = scratch + at.s;
    if (!td_eigh_run(k, s, true, false, &at, b, scratch) || !s->k) return;
    double least = least_of(k, s, values, s->n);
    for (int i = 0; i < s->n; i++) {
        double v = td_real_at(s->type, values, i);
        scale(s, scaled, q, (int64_t)i * s->n, 1, s->n, fabs(v) > least ? 1 / v : 0);
    }
    store_product(k, s, b, "N", scaled, s->n, q, s->n, scratch + s->at[7]);
}

int td_cpu_plan_linalg_pinv(td_kcall *k, td_error *e)
{
    bool hermitian = td_attr_bool(k->attrs, 2);
    td_svd_rooms at;
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), hermitian ? pinv_hermitian : pinv, e);
    if (!s || !(hermitian ? td_eigh_plan(k, s, true, &at, e) : td_svd_plan(k, s, 'S', &at, e))) return TD_E_UNSUPPORTED;
    if (hermitian) at.u = td_matrices_room(k, (int64_t)s->n * s->n, (size_t)s->size);
    size_t to = td_matrices_room(k, (int64_t)s->m * s->n, (size_t)s->size);
    memcpy(s->at, (size_t[]){at.a, at.s, at.u, at.vt, at.work, at.rwork, at.iwork, to}, 8 * sizeof *s->at);
    return td_matrices_end(k, 12.0 * s->m * s->n * s->k, e);
}

/* ---- x, y, rcond, driver -> solution, rank, singular_values */

static int larger(const td_matrices *s)
{
    return s->m > s->n ? s->m : s->n;
}

/* gelsd cuts by singular values, gelsy by the diagonal of a QR with exchanged columns; either leaves the solution in
 * y's first rows. `work` NULL: how much it needs is written to `size` instead. */
static int least_squares(const td_matrices *s, char *scratch, const void *rcond, int *rank, void *size)
{
    char *a = scratch + s->at[0], *y = scratch + s->at[1], *values = scratch + s->at[2], *rwork = scratch + s->at[4];
    int *iwork = (int *)(scratch + s->at[5]), lda = td_ld(s->m), ldb = td_ld(larger(s)), info = 0, ask = -1,
        t = s->type;
    void *work = size ? size : scratch + s->at[3];
    const int *lwork = size ? &ask : &s->lwork;
    if (s->flag[0] && t < 2)
        s->f->gelsd[t](&s->m, &s->n, &s->nrhs, a, &lda, y, &ldb, values, rcond, rank, work, lwork, iwork, &info);
    else if (s->flag[0])
        s->f->cgelsd[t - 2](&s->m, &s->n, &s->nrhs, a, &lda, y, &ldb, values, rcond, rank, work, lwork, rwork, iwork,
                            &info);
    else if (t < 2) s->f->gelsy[t](&s->m, &s->n, &s->nrhs, a, &lda, y, &ldb, iwork, rcond, rank, work, lwork, &info);
    else s->f->cgelsy[t - 2](&s->m, &s->n, &s->nrhs, a, &lda, y, &ldb, iwork, rcond, rank, work, lwork, rwork, &info);
    return info;
}

static void lstsq(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    char *a = scratch + s->at[0], *y = scratch + s->at[1], *values = scratch + s->at[2];
    int rank = 0, info = 0, ldb = td_ld(larger(s));
    double cut[2] = {0};
    td_real_put(s->type, cut, 0,
                td_attr_given(k->attrs, 0) ? td_attr_float(k->attrs, 0) : epsilon(s->type) * larger(s));
    memset(y, 0, (size_t)ldb * (size_t)s->nrhs * (size_t)s->size);
    memset(scratch + s->at[5], 0, (size_t)td_ld(s->n) * sizeof(int)); /* every column may be exchanged */
    td_matrix_load(a, td_ld(s->m), &k->in[0], 2, k->in[0].desc, 2, b);
    td_matrix_load(y, ldb, &k->in[1], 2, k->in[0].desc, 2, b);
    if (!td_numbers_finite(s->type, a, (int64_t)s->m * s->n) ||
        !td_numbers_finite(s->type, y, (int64_t)ldb * s->nrhs)) {
        td_fail_not_finite(k, b);
        return;
    }
    if (s->k) info = least_squares(s, scratch, cut, &rank, NULL);
    else memset(y, 0, (size_t)ldb * (size_t)s->nrhs * (size_t)s->size);
    if (info) {
        td_fail_to_converge(k, b, info);
        return;
    }
    td_matrix_store(&k->out[0], b, y, ldb, s->n, s->nrhs);
    ((int64_t *)k->out[1].data)[b] = rank;
    if (s->flag[0]) memcpy((char *)k->out[2].data + b * s->k * s->real, values, (size_t)s->k * (size_t)s->real);
}

int td_cpu_plan_linalg_lstsq_ex(td_kcall *k, td_error *e)
{
    const td_desc *y = k->in[1].desc;
    int64_t driver = td_attr_int(k->attrs, 1), columns = y->shape[y->ndim - 1];
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), lstsq, e);
    if (!s || !td_matrices_divide(s->m, s->n, e) || !td_matrices_divide(td_ld(larger(s)), columns, e))
        return TD_E_UNSUPPORTED;
    s->nrhs = (int)columns;
    s->flag[0] = driver == 1 || driver == 2;
    double answer[2] = {0}, small[2] = {0};
    int rank = 0;
    int64_t n = larger(s), levels = 32, leaf = 25; /* of the tree that gelsd divides into */
    int64_t rwork = 10 * n + 2 * n * leaf + 8 * n * levels + 3 * leaf * columns +
                    td_max64((leaf + 1) * (leaf + 1), n * (1 + columns) + 2 * columns);
    s->at[0] = td_matrices_room(k, (int64_t)s->m * s->n, (size_t)s->size);
    s->at[1] = td_matrices_room(k, (int64_t)td_ld(larger(s)) * columns, (size_t)s->size);
    s->at[2] = td_matrices_room(k, s->k, (size_t)s->real);
    double none[4];
    char *nowhere = (char *)none;
    td_matrices asked = *s;
    memset(asked.at, 0, sizeof asked.at);
    if (s->k) least_squares(&asked, nowhere, small, &rank, answer);
    s->lwork = (int)(td_real_at(s->type, answer, 0) * (s->type % 2 ? 1 : 1.000001)) + 64;
    s->at[3] = td_matrices_room(k, s->lwork, (size_t)s->size);
    s->at[4] = s->type < 2 ? 0 : td_matrices_room(k, rwork, (size_t)s->real);
    s->at[5] = td_matrices_room(k, td_max64((3 * levels + 11) * s->k, s->n) + 1, sizeof(int));
    return td_matrices_end(k, 4.0 * s->m * s->n * s->k + ((double)s->m * s->n + td_ld(larger(s))) * (double)columns, e);
}
