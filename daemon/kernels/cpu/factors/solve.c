/* What is solved with square matrices: inverses, systems of equations, those of triangles and of LDL factors. Batches
 * broadcast: a matrix that stands beside several right sides is factored for each of them. */
#include "daemon/kernels/cpu/factors/lapack.h"
#include "daemon/kernels/plans.h"

/* A batch without matrices may stand beside one of them, of which nothing is to be said. */
static void clear_info(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk, (void)scratch;
    memset(k->out[1].data, 0, (size_t)td_desc_numel(k->out[1].desc) * sizeof(int32_t));
}

/* ---- x, check_errors -> inverse, info */

static void inv(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0], *work = scratch + s->at[2];
    int *pivots = (int *)(scratch + s->at[1]), info = 0;
    char text[64];
    td_matrix_load(a, td_ld(s->n), &k->in[0], 2, k->in[0].desc, 2, b);
    if (s->n) s->f->getrf[s->type](&s->n, &s->n, a, &s->n, pivots, &info);
    if (s->n && !info) s->f->getri[s->type](&s->n, a, &s->n, pivots, work, &s->lwork, &info);
    td_matrix_store(&k->out[0], b, a, td_ld(s->n), s->n, s->n);
    ((int32_t *)k->out[1].data)[b] = info;
    if (info && s->flag[0])
        td_kernel_fail(
            k, TD_E_LINALG,
            "%sThe diagonal element %d is zero, the inversion could not be completed because the input matrix is "
            "singular.",
            td_batch_text(k->in[0].desc, b, text, sizeof text), info);
}

int td_cpu_plan_linalg_inv_ex(td_kcall *k, td_error *e)
{
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->in[0].desc, 2), inv, e);
    if (!s) return TD_E_UNSUPPORTED;
    s->flag[0] = td_attr_bool(k->attrs, 0);
    s->lwork = 64 * td_ld(s->n);
    s->at[0] = td_matrices_room(k, (int64_t)s->n * s->n, (size_t)s->size);
    s->at[1] = td_matrices_room(k, s->n, sizeof(int));
    s->at[2] = td_matrices_room(k, s->lwork, (size_t)s->size);
    return td_matrices_end(k, (double)s->n * s->n * s->n, e);
}

/* ---- x, y, left, check_errors -> result, info */

/* y's columns, which are its rows where it stands left of x: solved with the transpose then. */
static void load_right_side(const td_kcall *k, const td_matrices *s, int trail, int64_t b, void *to)
{
    td_desc turned = *k->in[1].desc;
    td_karg y = {.data = k->in[1].data, .desc = &turned};
    int d = turned.ndim;
    if (!s->flag[0]) {
        turned.shape[d - 1] = k->in[1].desc->shape[d - 2], turned.shape[d - 2] = k->in[1].desc->shape[d - 1];
        turned.stride[d - 1] = k->in[1].desc->stride[d - 2], turned.stride[d - 2] = k->in[1].desc->stride[d - 1];
    }
    td_matrix_load(to, td_ld(s->n), &y, trail, k->out[0].desc, trail, b);
}

static void store_result(const td_kcall *k, const td_matrices *s, int64_t b, const void *from)
{
    size_t bytes = (size_t)s->n * (size_t)s->nrhs * (size_t)s->size;
    if (s->flag[0]) td_matrix_store(&k->out[0], b, from, td_ld(s->n), s->n, s->nrhs);
    else memcpy((char *)k->out[0].data + (size_t)b * bytes, from, bytes);
}

static int64_t info_at(const td_kcall *k, int trail, int64_t b)
{
    const td_desc *to = k->out[1].desc, *all = k->out[0].desc;
    int64_t at = 0;
    for (int i = all->ndim - trail - 1, j = to->ndim - 1; j >= 0; i--, j--) {
        if (to->shape[j] != 1) at += b % all->shape[i] * to->stride[j];
        b /= all->shape[i];
    }
    return at;
}

static void fail_singular(td_kcall *k, int64_t b)
{
    char text[64];
    td_kernel_fail(k, TD_E_LINALG, "%sThe solver failed because the input matrix is singular.",
                   td_batch_text(k->in[0].desc, b, text, sizeof text));
}

static void solve(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0], *y = scratch + s->at[1];
    int *pivots = (int *)(scratch + s->at[2]), info = 0, none = 0, trail = s->flag[2] ? 1 : 2;
    td_matrix_load(a, td_ld(s->n), &k->in[0], 2, k->out[0].desc, trail, b);
    load_right_side(k, s, trail, b, y);
    if (s->n) s->f->getrf[s->type](&s->n, &s->n, a, &s->n, pivots, &info);
    if (s->n && s->nrhs && !info)
        s->f->getrs[s->type](s->flag[0] ? "N" : "T", &s->n, &s->nrhs, a, &s->n, pivots, y, &s->n, &none, 1);
    store_result(k, s, b, y);
    ((int32_t *)k->out[1].data)[info_at(k, trail, b)] = info;
    if (info && s->flag[1]) fail_singular(k, b);
}

/* Where there is nothing to solve for, the matrices are factored once each: right sides without elements may be very
 * many. */
static void factor_alone(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0];
    int *pivots = (int *)(scratch + s->at[2]), info = 0;
    td_matrix_load(a, td_ld(s->n), &k->in[0], 2, k->in[0].desc, 2, b);
    if (s->n) s->f->getrf[s->type](&s->n, &s->n, a, &s->n, pivots, &info);
    ((int32_t *)k->out[1].data)[b] = info;
    if (info && s->flag[1]) fail_singular(k, b);
}

int td_cpu_plan_linalg_solve_ex(td_kcall *k, td_error *e)
{
    const td_desc *out = k->out[0].desc, *x = k->in[0].desc, *y = k->in[1].desc;
    bool vector =
        y->ndim == 1 || (y->ndim == x->ndim - 1 && !memcmp(y->shape, x->shape, (size_t)y->ndim * sizeof *y->shape));
    int64_t batch = td_batch_of(out, vector ? 1 : 2);
    bool alone = batch && !td_desc_numel(out);
    td_matrices *s =
        td_matrices_plan(k, 0, alone ? td_desc_numel(k->out[1].desc) : batch, alone ? factor_alone : solve, e);
    if (!s) return TD_E_UNSUPPORTED;
    int64_t columns = vector ? 1 : y->shape[y->ndim - (td_attr_bool(k->attrs, 0) ? 1 : 2)];
    if (columns > INT32_MAX / 2 || columns * s->n > INT32_MAX / 2)
        return td_fail(e, TD_E_UNSUPPORTED, "%lld right sides are more than LAPACK counts", (long long)columns);
    s->nrhs = (int)columns;
    s->flag[0] = td_attr_bool(k->attrs, 0), s->flag[1] = td_attr_bool(k->attrs, 1), s->flag[2] = vector;
    s->at[0] = td_matrices_room(k, (int64_t)s->n * s->n, (size_t)s->size);
    s->at[1] = td_matrices_room(k, (int64_t)s->n * s->nrhs, (size_t)s->size);
    s->at[2] = td_matrices_room(k, s->n, sizeof(int));
    if (batch == 0 && td_desc_numel(k->out[1].desc)) td_plan_phase(k, clear_info, 1);
    return td_matrices_end(k, (double)s->n * s->n * s->n / 2 + (double)s->n * s->n * s->nrhs, e);
}

/* ---- x, y, upper, left, unitriangular */

static void solve_triangular(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0], *y = scratch + s->at[1];
    int rows = s->flag[1] ? s->n : s->nrhs, columns = s->flag[1] ? s->nrhs : s->n, ld = td_ld(rows);
    td_matrix_load(a, td_ld(s->n), &k->in[0], 2, k->out[0].desc, 2, b);
    td_matrix_load(y, ld, &k->in[1], 2, k->out[0].desc, 2, b);
    if (s->n && s->nrhs)
        s->f->trsm[s->type](s->flag[1] ? "L" : "R", s->flag[0] ? "U" : "L", "N", s->flag[2] ? "U" : "N", &rows,
                            &columns, td_lapack_number(s->type, 1), a, &s->n, y, &ld, 1, 1, 1, 1);
    td_matrix_store(&k->out[0], b, y, ld, rows, columns);
}

int td_cpu_plan_linalg_solve_triangular(td_kcall *k, td_error *e)
{
    const td_desc *y = k->in[1].desc;
    bool left = td_attr_bool(k->attrs, 1);
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->out[0].desc, 2), solve_triangular, e);
    if (!s) return TD_E_UNSUPPORTED;
    int64_t columns = y->shape[y->ndim - (left ? 1 : 2)];
    if (columns > INT32_MAX / 2 || columns * s->n > INT32_MAX / 2)
        return td_fail(e, TD_E_UNSUPPORTED, "%lld right sides are more than LAPACK counts", (long long)columns);
    s->nrhs = (int)columns;
    for (int i = 0; i < 3; i++) s->flag[i] = td_attr_bool(k->attrs, i);
    s->at[0] = td_matrices_room(k, (int64_t)s->n * s->n, (size_t)s->size);
    s->at[1] = td_matrices_room(k, (int64_t)s->n * s->nrhs, (size_t)s->size);
    return td_matrices_end(k, (double)s->n * s->n * s->nrhs / 2, e);
}

/* ---- LD, pivots, y, hermitian */

/* A block of two rows is marked by the same negative pivot in both: LAPACK must find each as it means it. */
static bool pivots_are_good(const td_kcall *k, const td_matrices *s, int64_t b, int *pivots)
{
    const td_desc *d = k->in[1].desc;
    const td_desc *all = k->out[0].desc;
    int64_t at = 0, rest = b;
    int last = d->ndim - 1;
    for (int i = all->ndim - 3, j = last - 1; j >= 0; i--, j--) {
        if (d->shape[j] != 1) at += rest % all->shape[i] * d->stride[j];
        rest /= all->shape[i];
    }
    for (int i = 0; i < s->n; i++) {
        const char *p = (const char *)k->in[1].data + (at + i * d->stride[last]) * (int64_t)td_dtype_size(d->dtype);
        int64_t v = td_load_index(p, d->dtype);
        if (v == 0 || v > s->n || v < -s->n) return false;
        pivots[i] = (int)v;
    }
    for (int i = 0; i < s->n; i++)
        if (pivots[i] < 0 && (i + 1 >= s->n || pivots[i + 1] != pivots[i])) return false;
        else if (pivots[i] < 0) i++;
    return true;
}

static void ldl_solve(td_kcall *k, const td_matrices *s, int64_t b, char *scratch)
{
    void *a = scratch + s->at[0], *y = scratch + s->at[1];
    int *pivots = (int *)(scratch + s->at[2]), info = 0, ld = td_ld(s->n);
    __typeof__(s->f->sytrs[0]) solver = s->flag[0] ? s->f->hetrs[s->type] : s->f->sytrs[s->type];
    td_matrix_load(a, ld, &k->in[0], 2, k->out[0].desc, 2, b);
    td_matrix_load(y, ld, &k->in[2], 2, k->out[0].desc, 2, b);
    if (!pivots_are_good(k, s, b, pivots)) {
        td_kernel_fail(k, TD_E_INDEX, "these are no pivots of ldl_factor (matrix %lld)", (long long)b);
        return;
    }
    if (s->n && s->nrhs) solver("L", &s->n, &s->nrhs, a, &ld, pivots, y, &ld, &info, 1);
    td_matrix_store(&k->out[0], b, y, ld, s->n, s->nrhs);
}

int td_cpu_plan_linalg_ldl_solve(td_kcall *k, td_error *e)
{
    const td_desc *y = k->in[2].desc;
    td_matrices *s = td_matrices_plan(k, 0, td_batch_of(k->out[0].desc, 2), ldl_solve, e);
    if (!s) return TD_E_UNSUPPORTED;
    int64_t columns = y->shape[y->ndim - 1];
    if (columns > INT32_MAX / 2 || columns * s->n > INT32_MAX / 2)
        return td_fail(e, TD_E_UNSUPPORTED, "%lld right sides are more than LAPACK counts", (long long)columns);
    s->nrhs = (int)columns;
    s->flag[0] = td_attr_bool(k->attrs, 0);
    s->at[0] = td_matrices_room(k, (int64_t)s->n * s->n, (size_t)s->size);
    s->at[1] = td_matrices_room(k, (int64_t)s->n * s->nrhs, (size_t)s->size);
    s->at[2] = td_matrices_room(k, s->n, sizeof(int));
    return td_matrices_end(k, (double)s->n * s->n * s->nrhs, e);
}
