/* Factorizations that stop at zeros: Cholesky, LU, LDL, and determinants. Each tells in `info` how far it came; whoever
 * wants an error instead says check_errors. */
#include "daemon/kernels/cpu/factors/lapack.h"
#include "daemon/kernels/plans.h"
#include <math.h>

static void store_info(const td_kcall *k, int out, int64_t b, int info)
{
    ((int32_t *)k->out[out].data)[b] = info;
}

static void store_pivots(const td_kcall *k, int out, int64_t b, const int *pivots, int n)
{
    memcpy((int32_t *)k->out[out].data + b * n, pivots, (size_t)n * sizeof *pivots);
}

/* ---- Cholesky: x, upper, check_errors -> L, info */

static void cholesky(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    bool upper = s->flag[0];
    char text[64];
    int info = 0;
    void *a = scratch + s->at[0];
    td_matrix_load(a, td_ld(s->n), &k->in[0], 2, k->in[0].desc, 2, b);
    if (s->n) s->f->potrf[s->type](upper ? "U" : "L", &s->n, a, &s->n, &info, 1);
    td_matrix_clear(s, a, s->n, s->n, !upper);
    td_matrix_store(&k->out[0], b, a, td_ld(s->n), s->n, s->n);
    store_info(k, 1, b, info);
    if (info && s->flag[1])
        td_kernel_fail(k, TD_E_LINALG,
                       "%sThe factorization could not be completed because the input is not positive-definite (the "
                       "leading minor of order %d is not positive-definite).",
                       td_batch_text(k->in[0].desc, b, text, sizeof text), info);
}

int td_cpu_plan_linalg_cholesky_ex(td_kcall *k, td_error *e)
{
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), cholesky, e);
    if (!s) return TD_E_UNSUPPORTED;
    s->flag[0] = td_attr_bool(k->attrs, 0), s->flag[1] = td_attr_bool(k->attrs, 1);
    s->at[0] = td_matrices_room(k, (int64_t)s->n * s->n, (size_t)s->size);
    return td_matrices_end(k, (double)s->n * s->n * s->n / 3, e);
}

/* ---- LU: x, pivot, check_errors -> LU, pivots, info */

static void lu(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0];
    int *pivots = (int *)(scratch + s->at[1]), info = 0, ld = td_ld(s->m);
    char text[64];
    td_matrix_load(a, ld, &k->in[0], 2, k->in[0].desc, 2, b);
    if (s->k) s->f->getrf[s->type](&s->m, &s->n, a, &ld, pivots, &info);
    td_matrix_store(&k->out[0], b, a, ld, s->m, s->n);
    store_pivots(k, 1, b, pivots, s->k);
    store_info(k, 2, b, info);
    if (info && s->flag[1])
        td_kernel_fail(k, TD_E_LINALG,
                       "%sU[%d,%d] is zero and using it on lu_solve would result in a division by zero. If you still "
                       "want to perform the factorization, use linalg.lu or linalg.lu_factor_ex.",
                       td_batch_text(k->in[0].desc, b, text, sizeof text), info, info);
}

int td_cpu_plan_linalg_lu_factor_ex(td_kcall *k, td_error *e)
{
    if (!td_attr_bool(k->attrs, 0))
        return td_fail(e, TD_E_UNSUPPORTED, "LU without pivoting is not implemented on the CPU");
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), lu, e);
    if (!s) return TD_E_UNSUPPORTED;
    s->flag[1] = td_attr_bool(k->attrs, 1);
    s->at[0] = td_matrices_room(k, (int64_t)s->m * s->n, (size_t)s->size);
    s->at[1] = td_matrices_room(k, s->k, sizeof(int));
    return td_matrices_end(k, (double)s->m * s->n * s->k / 2, e);
}

/* ---- pivots (exchanges of rows, counted from 1) -> the order of the rows */

static void permutation_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_desc *x = k->in[0].desc;
    int64_t rows = td_attr_int(k->attrs, 0), n = x->shape[x->ndim - 1], rest = chunk, at = 0, done = 0;
    int64_t *p = (int64_t *)k->out[0].data + chunk * rows;
    (void)scratch;
    for (int d = x->ndim - 2; d >= 0; d--) at += rest % x->shape[d] * x->stride[d], rest /= x->shape[d];
    const char *pivots = (const char *)k->in[0].data;
    int64_t size = (int64_t)td_dtype_size(x->dtype);
    for (int64_t i = 0; i < rows; i++) {
        p[i] = i;
        if (td_kernel_rest_after(k, &done, 1)) return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t other = td_load_index(pivots + (at + i * x->stride[x->ndim - 1]) * size, x->dtype) - 1, keep = p[i];
        if (other < 0 || other >= rows) {
            td_fail_index(k, other + 1, chunk * n + i, x->ndim - 1, rows);
            return;
        }
        p[i] = p[other], p[other] = keep;
        if (td_kernel_rest_after(k, &done, 1)) return;
    }
}

int td_cpu_plan_lu_permutation(td_kcall *k, td_error *e)
{
    (void)e;
    int64_t rows = td_attr_int(k->attrs, 0);
    if (!rows) return TD_OK;
    td_plan_phase(k, permutation_chunk, td_desc_numel(k->out[0].desc) / rows);
    k->cost_ns = 100 + 2 * (double)td_desc_numel(k->out[0].desc);
    td_plan_moves_freely(k, 0);
    return TD_OK;
}

/* ---- LDL: x, hermitian, check_errors -> LD, pivots, info */

static void ldl(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0], *work = scratch + s->at[2];
    int *pivots = (int *)(scratch + s->at[1]), info = 0, ld = td_ld(s->n);
    char text[64];
    td_matrix_load(a, ld, &k->in[0], 2, k->in[0].desc, 2, b);
    td_matrix_clear(s, a, s->n, s->n, true);
    __typeof__(s->f->sytrf[0]) factor = s->flag[0] ? s->f->hetrf[s->type] : s->f->sytrf[s->type];
    if (s->n && td_numbers_finite(s->type, a, (int64_t)s->n * s->n))
        factor("L", &s->n, a, &ld, pivots, work, &s->lwork, &info, 1);
    else /* no pivot can be chosen among NaN */
        for (int i = 0; i < s->n; i++) pivots[i] = i + 1;
    td_matrix_store(&k->out[0], b, a, ld, s->n, s->n);
    store_pivots(k, 1, b, pivots, s->n);
    store_info(k, 2, b, info);
    if (info && s->flag[1])
        td_kernel_fail(k, TD_E_LINALG,
                       "%sD[%d,%d] is zero and using it on ldl_solve would result in a division by zero.",
                       td_batch_text(k->in[0].desc, b, text, sizeof text), info, info);
}

int td_cpu_plan_linalg_ldl_factor_ex(td_kcall *k, td_error *e)
{
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), ldl, e);
    if (!s) return TD_E_UNSUPPORTED;
    s->flag[0] = td_attr_bool(k->attrs, 0), s->flag[1] = td_attr_bool(k->attrs, 1);
    s->lwork = 64 * td_ld(s->n);
    s->at[0] = td_matrices_room(k, (int64_t)s->n * s->n, (size_t)s->size);
    s->at[1] = td_matrices_room(k, s->n, sizeof(int));
    s->at[2] = td_matrices_room(k, s->lwork, (size_t)s->size);
    return td_matrices_end(k, (double)s->n * s->n * s->n / 3, e);
}

/* ---- determinants: x -> result, LU, pivots; x -> sign, logabsdet, LU, pivots */

typedef struct number {
    double re, im;
} number;

static number diagonal_at(const td_matrices *s, const void *a, int i)
{
    int64_t at = (int64_t)i * (s->n + 1);
    if (s->type < 2) return (number){td_real_at(s->type, a, at), 0};
    return (number){td_real_at(s->type, a, 2 * at), td_real_at(s->type, a, 2 * at + 1)};
}

static void put_number(const td_matrices *s, void *to, int64_t b, number v)
{
    if (s->type < 2) {
        td_real_put(s->type, to, b, v.re);
        return;
    }
    td_real_put(s->type, to, 2 * b, v.re);
    td_real_put(s->type, to, 2 * b + 1, v.im);
}

/* Of real numbers the real parts alone: once they are infinite, times 0 they would be NaN. */
static number times(const td_matrices *s, number a, number b)
{
    if (s->type < 2) return (number){a.re * b.re, 0};
    return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* The product of the diagonal; with `logs`, of its directions, and the sum of the logarithms of its sizes. */
static number product(const td_matrices *s, const void *a, const int *pivots, double *logs)
{
    number all = {1, 0};
    for (int i = 0; i < s->n; i++) {
        number v = diagonal_at(s, a, i);
        double size = logs ? hypot(v.re, v.im) : 1;
        if (logs) *logs += log(size);
        if (logs && size != 0) v.re /= size, v.im /= size;
        all = times(s, all, v);
        if (pivots[i] != i + 1) all.re = -all.re, all.im = -all.im;
    }
    return all;
}

static void det(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0];
    int *pivots = (int *)(scratch + s->at[1]), info = 0, first = s->flag[0] ? 2 : 1;
    double logs = 0;
    td_matrix_load(a, td_ld(s->n), &k->in[0], 2, k->in[0].desc, 2, b);
    if (s->n) s->f->getrf[s->type](&s->n, &s->n, a, &s->n, pivots, &info);
    put_number(s, k->out[0].data, b, product(s, a, pivots, s->flag[0] ? &logs : NULL));
    if (s->flag[0]) td_real_put(s->type, k->out[1].data, b, logs);
    td_matrix_store(&k->out[first], b, a, td_ld(s->n), s->n, s->n);
    store_pivots(k, first + 1, b, pivots, s->n);
}

static int det_plan(td_kcall *k, bool logs, td_error *e)
{
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), det, e);
    if (!s) return TD_E_UNSUPPORTED;
    s->flag[0] = logs;
    s->at[0] = td_matrices_room(k, (int64_t)s->n * s->n, (size_t)s->size);
    s->at[1] = td_matrices_room(k, s->n, sizeof(int));
    return td_matrices_end(k, (double)s->n * s->n * s->n / 2, e);
}

int td_cpu_plan_linalg_det_lu(td_kcall *k, td_error *e)
{
    return det_plan(k, false, e);
}

int td_cpu_plan_linalg_slogdet_lu(td_kcall *k, td_error *e)
{
    return det_plan(k, true, e);
}
