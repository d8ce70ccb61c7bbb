/* Singular values, eigenvalues, and what is made of them: svd, eigh, eig, with vectors or without. Invariant: LAPACK is
 * given finite numbers only, as its iterations may not end otherwise. */
#include "daemon/kernels/cpu/factors/spectral.h"
#include "daemon/kernels/plans.h"

/* ---- singular values */

bool td_svd_plan(td_kcall *k, td_matrices *s, char job, td_svd_rooms *at, td_error *e)
{
    int columns = job == 'A' ? s->m : s->k, rows = job == 'A' ? s->n : s->k, lwork = -1, info = 0;
    double answer[2] = {0}; /* room for a number of any type */
    int64_t k2 = s->k, large = td_max64(s->m, s->n);
    if (!td_matrices_divide(s->m, s->n, e)) return false;
    if (job == 'A' && (!td_matrices_divide(s->m, s->m, e) || !td_matrices_divide(s->n, s->n, e))) return false;
    int ld = td_ld(s->m), ldv = td_ld(rows), t = s->type;
    if (t < 2)
        s->f->gesdd[t](&job, &s->m, &s->n, answer, &ld, answer, answer, &ld, answer, &ldv, answer, &lwork, &info, &info,
                       1);
    else
        s->f->cgesdd[t - 2](&job, &s->m, &s->n, answer, &ld, answer, answer, &ld, answer, &ldv, answer, &lwork, answer,
                            &info, &info, 1);
    /* float32 says it rounded */
    s->lwork = (int)(td_real_at(t, answer, 0) * (t % 2 ? 1 : 1.000001)) + 64;
    size_t size = (size_t)s->size;
    at->a = td_matrices_room(k, (int64_t)s->m * s->n, size);
    at->s = td_matrices_room(k, k2, (size_t)s->real);
    at->u = td_matrices_room(k, job == 'N' ? 1 : (int64_t)s->m * columns, size);
    at->vt = td_matrices_room(k, job == 'N' ? 1 : (int64_t)rows * s->n, size);
    at->work = td_matrices_room(k, s->lwork, size);
    at->rwork =
        t < 2 ? 0
              : td_matrices_room(k, td_max64(5 * k2 * k2 + 7 * k2, 2 * large * k2 + 2 * k2 * k2 + k2), (size_t)s->real);
    at->iwork = td_matrices_room(k, 8 * k2, sizeof(int));
    return true;
}

bool td_svd_run(td_kcall *k, const td_matrices *s, char job, const td_svd_rooms *at, int64_t b, char *scratch)
{
    void *a = scratch + at->a, *u = scratch + at->u, *vt = scratch + at->vt, *work = scratch + at->work;
    int rows = job == 'A' ? s->n : s->k, ld = td_ld(s->m), ldv = td_ld(rows), info = 0, t = s->type;
    int *iwork = (int *)(scratch + at->iwork);
    td_matrix_load(a, ld, &k->in[0], 2, k->in[0].desc, 2, b);
    if (!s->k) return true;
    if (!td_numbers_finite(t, a, (int64_t)s->m * s->n)) return td_fail_not_finite(k, b), false;
    if (t < 2)
        s->f->gesdd[t](&job, &s->m, &s->n, a, &ld, scratch + at->s, u, &ld, vt, &ldv, work, &s->lwork, iwork, &info, 1);
    else
        s->f->cgesdd[t - 2](&job, &s->m, &s->n, a, &ld, scratch + at->s, u, &ld, vt, &ldv, work, &s->lwork,
                            scratch + at->rwork, iwork, &info, 1);
    if (info) td_fail_to_converge(k, b, info);
    return !info;
}

static td_svd_rooms svd_rooms(const td_matrices *s)
{
    const size_t *at = s->at;
    return (td_svd_rooms){at[0], at[1], at[2], at[3], at[4], at[5], at[6]};
}

static void svd(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    td_svd_rooms at = svd_rooms(s);
    bool full = s->flag[0];
    int columns = full ? s->m : s->k, rows = full ? s->n : s->k;
    if (!td_svd_run(k, s, full ? 'A' : 'S', &at, b, scratch)) return;
    if (!s->k) td_matrix_eye(s, scratch + at.u, s->m, columns), td_matrix_eye(s, scratch + at.vt, rows, s->n);
    td_matrix_store(&k->out[0], b, scratch + at.u, td_ld(s->m), s->m, columns);
    memcpy((char *)k->out[1].data + b * s->k * s->real, scratch + at.s, (size_t)s->k * (size_t)s->real);
    td_matrix_store(&k->out[2], b, scratch + at.vt, td_ld(rows), rows, s->n);
}

static void svdvals(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    td_svd_rooms at = svd_rooms(s);
    if (!td_svd_run(k, s, 'N', &at, b, scratch)) return;
    memcpy((char *)k->out[0].data + b * s->k * s->real, scratch + at.s, (size_t)s->k * (size_t)s->real);
}

static int svd_plan(td_kcall *k, td_matrix_fn *one, char job, td_error *e)
{
    td_svd_rooms at;
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), one, e);
    if (!s || !td_svd_plan(k, s, job, &at, e)) return TD_E_UNSUPPORTED;
    s->flag[0] = job == 'A';
    memcpy(s->at, (size_t[]){at.a, at.s, at.u, at.vt, at.work, at.rwork, at.iwork}, 7 * sizeof *s->at);
    double eyes = job == 'A' ? (double)s->m * s->m + (double)s->n * s->n : 0;
    return td_matrices_end(k, (job == 'N' ? 3.0 : 10.0) * s->m * s->n * s->k + eyes, e);
}

int td_cpu_plan_linalg_svd(td_kcall *k, td_error *e)
{
    return svd_plan(k, svd, td_attr_bool(k->attrs, 0) ? 'A' : 'S', e);
}

int td_cpu_plan_linalg_svdvals(td_kcall *k, td_error *e)
{
    return svd_plan(k, svdvals, 'N', e);
}

/* ---- eigenvalues of Hermitian matrices */

bool td_eigh_plan(td_kcall *k, td_matrices *s, bool vectors, td_svd_rooms *at, td_error *e)
{
    int64_t n = s->n;
    if (!td_matrices_divide(n, n, e)) return false;
    s->lwork = (int)(66 * n + 66 + (vectors ? 2 * n * n : 0));
    s->lrwork = (int)(1 + 5 * n + (vectors ? 2 * n * n : 0));
    s->liwork = (int)(3 + 5 * n);
    *at = (td_svd_rooms){0};
    at->a = td_matrices_room(k, n * n, (size_t)s->size);
    at->s = td_matrices_room(k, n, (size_t)s->real);
    at->work = td_matrices_room(k, s->lwork, (size_t)s->size);
    at->rwork = s->type < 2 ? 0 : td_matrices_room(k, s->lrwork, (size_t)s->real);
    at->iwork = td_matrices_room(k, s->liwork, sizeof(int));
    return true;
}

bool td_eigh_run(td_kcall *k, const td_matrices *s, bool vectors, bool upper, const td_svd_rooms *at, int64_t b,
                 char *scratch)
{
    void *a = scratch + at->a, *w = scratch + at->s, *work = scratch + at->work;
    int *iwork = (int *)(scratch + at->iwork), info = 0, t = s->type;
    const char *job = vectors ? "V" : "N", *side = upper ? "U" : "L";
    if (!s->n) return true;
    td_matrix_load(a, s->n, &k->in[0], 2, k->in[0].desc, 2, b);
    td_matrix_clear(s, a, s->n, s->n, !upper);
    if (!td_numbers_finite(t, a, (int64_t)s->n * s->n)) return td_fail_not_finite(k, b), false;
    if (t < 2) s->f->syevd[t](job, side, &s->n, a, &s->n, w, work, &s->lwork, iwork, &s->liwork, &info, 1, 1);
    else
        s->f->csyevd[t - 2](job, side, &s->n, a, &s->n, w, work, &s->lwork, scratch + at->rwork, &s->lrwork, iwork,
                            &s->liwork, &info, 1, 1);
    if (info) td_fail_to_converge(k, b, info);
    return !info;
}

static void eigh(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    td_svd_rooms at = svd_rooms(s);
    bool vectors = k->nout == 2;
    if (!td_eigh_run(k, s, vectors, s->flag[0], &at, b, scratch)) return;
    memcpy((char *)k->out[0].data + b * s->n * s->real, scratch + at.s, (size_t)s->n * (size_t)s->real);
    if (vectors) td_matrix_store(&k->out[1], b, scratch + at.a, td_ld(s->n), s->n, s->n);
}

static int eigh_plan(td_kcall *k, bool vectors, td_error *e)
{
    td_svd_rooms at;
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), eigh, e);
    if (!s || !td_eigh_plan(k, s, vectors, &at, e)) return TD_E_UNSUPPORTED;
    s->flag[0] = td_attr_bool(k->attrs, 0);
    memcpy(s->at, (size_t[]){at.a, at.s, at.u, at.vt, at.work, at.rwork, at.iwork}, 7 * sizeof *s->at);
    return td_matrices_end(k, (vectors ? 6.0 : 1.5) * s->n * s->n * s->n, e);
}

int td_cpu_plan_linalg_eigh(td_kcall *k, td_error *e)
{
    return eigh_plan(k, true, e);
}

int td_cpu_plan_linalg_eigvalsh(td_kcall *k, td_error *e)
{
    return eigh_plan(k, false, e);
}

/* ---- eigenvalues of any square matrix, which are complex */

/* Value i of real and imaginary parts, as a complex number at place `to`. */
static void put_complex(int type, void *to, int64_t at, double re, double im)
{
    td_real_put(type, to, 2 * at, re);
    td_real_put(type, to, 2 * at + 1, im);
}

/* Conjugate pairs lie as the real parts in one column and the imaginary ones in the next; rows of complex numbers are
 * made of them. */
static void spread_vectors(const td_matrices *s, void *to, const void *v, const void *wi)
{
    int n = s->n, t = s->type;
    for (int j = 0; j < n; j++) {
        bool pair = td_real_at(t, wi, j) != 0 && j + 1 < n;
        for (int64_t i = 0; i < n; i++) {
            double re = td_real_at(t, v, i + (int64_t)j * n),
                   im = pair ? td_real_at(t, v, i + (int64_t)(j + 1) * n) : 0;
            put_complex(t, to, i * n + j, re, im);
            if (pair) put_complex(t, to, i * n + j + 1, re, -im);
        }
        j += pair;
    }
}

static void eig(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0], *w = scratch + s->at[1], *v = scratch + s->at[2], *work = scratch + s->at[3];
    void *more = scratch + s->at[4]; /* imaginary parts, or real work memory */
    bool vectors = k->nout == 2;
    const char *job = vectors ? "V" : "N";
    int info = 0, n = s->n, t = s->type, narrow = t % 2;
    if (!n) return;
    char *values = (char *)k->out[0].data + b * n * 2 * s->real,
         *rows = vectors ? (char *)k->out[1].data + b * n * n * 2 * s->real : NULL;
    td_matrix_load(a, n, &k->in[0], 2, k->in[0].desc, 2, b);
    if (!td_numbers_finite(t, a, (int64_t)n * n)) {
        td_kernel_fail(k, TD_E_LINALG, "input tensor should not contain infs or NaNs.");
        return;
    }
    if (t < 2) s->f->geev[t]("N", job, &n, a, &n, w, more, v, &n, v, &n, work, &s->lwork, &info, 1, 1);
    else s->f->cgeev[narrow]("N", job, &n, a, &n, w, v, &n, v, &n, work, &s->lwork, more, &info, 1, 1);
    if (info) {
        td_fail_to_converge(k, b, info);
        return;
    }
    if (t > 1) memcpy(values, w, (size_t)n * (size_t)s->size);
    else
        for (int i = 0; i < n; i++) put_complex(t, values, i, td_real_at(t, w, i), td_real_at(t, more, i));
    if (vectors && t > 1) td_matrix_store(&k->out[1], b, v, n, n, n);
    else if (vectors) spread_vectors(s, rows, v, more);
}

static int eig_plan(td_kcall *k, bool vectors, td_error *e)
{
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), eig, e);
    if (!s || !td_matrices_divide(s->n, s->n, e)) return TD_E_UNSUPPORTED;
    s->lwork = 68 * td_ld(s->n);
    s->at[0] = td_matrices_room(k, (int64_t)s->n * s->n, (size_t)s->size);
    s->at[1] = td_matrices_room(k, s->n, (size_t)s->size);
    s->at[2] = td_matrices_room(k, vectors ? (int64_t)s->n * s->n : 1, (size_t)s->size);
    s->at[3] = td_matrices_room(k, s->lwork, (size_t)s->size);
    s->at[4] = td_matrices_room(k, 2 * s->n, (size_t)s->real);
    return td_matrices_end(k, (vectors ? 20.0 : 10.0) * s->n * s->n * s->n, e);
}

int td_cpu_plan_linalg_eig(td_kcall *k, td_error *e)
{
    return eig_plan(k, true, e);
}

int td_cpu_plan_linalg_eigvals(td_kcall *k, td_error *e)
{
    return eig_plan(k, false, e);
}
