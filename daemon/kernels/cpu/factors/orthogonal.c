/* QR by Householder's reflectors: the factors themselves, or the reflectors as LAPACK leaves them. */
#include "daemon/kernels/cpu/factors/lapack.h"
#include "daemon/kernels/plans.h"

enum { REDUCED, COMPLETE, ONLY_R };

/* The triangle that lies on the reflectors, as `rows` rows of their own. */
static void take_triangle(const td_matrices *s, void *to, int rows, const void *a, int ld)
{
    memset(to, 0, (size_t)rows * (size_t)s->n * (size_t)s->size);
    for (int j = 0; j < s->n; j++) {
        int count = j + 1 < s->k ? j + 1 : s->k;
        memcpy(td_number_at(s, to, td_ld(rows), 0, j), (const char *)a + (int64_t)j * ld * s->size,
               (size_t)count * (size_t)s->size);
    }
}

/* x, mode -> Q, R. nrhs: columns of Q. */
static void qr(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0], *r = scratch + s->at[1], *tau = scratch + s->at[2], *work = scratch + s->at[3];
    int ld = td_ld(s->m), info = 0;
    td_matrix_load(a, ld, &k->in[0], 2, k->in[0].desc, 2, b);
    if (s->k) s->f->geqrf[s->type](&s->m, &s->n, a, &ld, tau, work, &s->lwork, &info);
    if (info) {
        td_fail_to_converge(k, b, info);
        return;
    }
    take_triangle(s, r, s->nrhs, a, ld);
    td_matrix_store(&k->out[1], b, r, td_ld(s->nrhs), s->nrhs, s->n);
    if (s->flag[0] || !s->nrhs) return;
    if (s->k) s->f->orgqr[s->type](&s->m, &s->nrhs, &s->k, a, &ld, tau, work, &s->lwork, &info);
    else td_matrix_eye(s, a, s->m, s->nrhs);
    if (info) {
        td_fail_to_converge(k, b, info);
        return;
    }
    td_matrix_store(&k->out[0], b, a, ld, s->m, s->nrhs);
}

int td_cpu_plan_linalg_qr(td_kcall *k, td_error *e)
{
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), qr, e);
    if (!s) return TD_E_UNSUPPORTED;
    int mode = (int)td_attr_int(k->attrs, 0), widest = s->n;
    s->nrhs = mode == COMPLETE ? s->m : s->k;
    s->flag[0] = mode == ONLY_R;
    if (s->nrhs > widest) widest = s->nrhs;
    if (mode == COMPLETE && !td_matrices_divide(s->m, s->m, e)) return TD_E_UNSUPPORTED;
    s->lwork = (int)td_min64(64 * (int64_t)td_ld(widest), INT32_MAX / 2);
    s->at[0] = td_matrices_room(k, (int64_t)s->m * widest, (size_t)s->size);
    s->at[1] = td_matrices_room(k, (int64_t)s->nrhs * s->n, (size_t)s->size);
    s->at[2] = td_matrices_room(k, s->k, (size_t)s->size);
    s->at[3] = td_matrices_room(k, s->lwork, (size_t)s->size);
    return td_matrices_end(k, 2.0 * s->m * widest * s->k + (double)s->m * widest, e);
}

/* x -> a, tau */
static void geqrf(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0], *tau = scratch + s->at[1], *work = scratch + s->at[2];
    int ld = td_ld(s->m), info = 0;
    td_matrix_load(a, ld, &k->in[0], 2, k->in[0].desc, 2, b);
    if (s->k) s->f->geqrf[s->type](&s->m, &s->n, a, &ld, tau, work, &s->lwork, &info);
    if (info) {
        td_fail_to_converge(k, b, info);
        return;
    }
    td_matrix_store(&k->out[0], b, a, ld, s->m, s->n);
    memcpy((char *)k->out[1].data + b * s->k * s->size, tau, (size_t)s->k * (size_t)s->size);
}

int td_cpu_plan_geqrf(td_kcall *k, td_error *e)
{
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), geqrf, e);
    if (!s) return TD_E_UNSUPPORTED;
    s->lwork = (int)td_min64(64 * (int64_t)td_ld(s->n), INT32_MAX / 2);
    s->at[0] = td_matrices_room(k, (int64_t)s->m * s->n, (size_t)s->size);
    s->at[1] = td_matrices_room(k, s->k, (size_t)s->size);
    s->at[2] = td_matrices_room(k, s->lwork, (size_t)s->size);
    return td_matrices_end(k, (double)s->m * s->n * s->k, e);
}
