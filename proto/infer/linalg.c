/* Factorizations of matrices, and what is solved with them. The last two dimensions are a matrix, those before count
 * matrices; where two tensors have such, they broadcast. Invariant: what a rule lets pass has the shapes that its
 * kernel computes addresses from. */
#include "proto/infer/infer.h"

#include <inttypes.h>

typedef long long wide;

static int64_t rows_of(const td_desc *d)
{
    return d->shape[d->ndim - 2];
}

static int64_t columns_of(const td_desc *d)
{
    return d->shape[d->ndim - 1];
}

static int64_t smaller(const td_desc *d)
{
    return rows_of(d) < columns_of(d) ? rows_of(d) : columns_of(d);
}

static int are_matrices(td_inference *f, int i, td_error *e)
{
    if (i == 0) f->compute = td_in_dtype(f, 0);
    if (td_in(f, i)->ndim >= 2) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "'%s' must have at least 2 dimensions, but it has %d", td_infer_name(f, i),
                   td_in(f, i)->ndim);
}

static int are_square(td_inference *f, int i, td_error *e)
{
    const td_desc *d = td_in(f, i);
    TD_TRY(are_matrices(f, i, e));
    if (rows_of(d) == columns_of(d)) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "'%s' must be batches of square matrices, but they are %lld by %lld matrices",
                   td_infer_name(f, i), (wide)rows_of(d), (wide)columns_of(d));
}

/* A result for each matrix of d: `n` sizes behind its batch. */
static int for_each(td_inference *f, td_dtype t, const td_desc *d, int n, const int64_t *sizes, td_error *e)
{
    int64_t shape[TD_MAX_DIMS];
    int lead = d->ndim - 2;
    memcpy(shape, d->shape, (size_t)lead * sizeof *shape);
    for (int i = 0; i < n; i++) shape[lead + i] = sizes[i];
    return td_infer_make(f, t, lead + n, shape, e);
}

static int vectors(td_inference *f, td_dtype t, const td_desc *d, int64_t n, td_error *e)
{
    return for_each(f, t, d, 1, &n, e);
}

static int matrices(td_inference *f, td_dtype t, const td_desc *d, int64_t rows, int64_t columns, td_error *e)
{
    return for_each(f, t, d, 2, (int64_t[]){rows, columns}, e);
}

static td_dtype real_of(const td_inference *f)
{
    return td_dtype_real(f->compute);
}

TD_RULE(square)
{
    TD_TRY(are_square(f, 0, e));
    return td_infer_like(f, f->compute, td_in(f, 0), e);
}

TD_RULE(square_info)
{
    TD_TRY(td_infer_square(f, e));
    return for_each(f, TD_INT32, td_in(f, 0), 0, NULL, e);
}

TD_RULE(lu)
{
    const td_desc *x = td_in(f, 0);
    TD_TRY(are_matrices(f, 0, e));
    TD_TRY(td_infer_like(f, f->compute, x, e));
    TD_TRY(vectors(f, TD_INT32, x, smaller(x), e));
    return for_each(f, TD_INT32, x, 0, NULL, e);
}

TD_RULE(ldl)
{
    TD_TRY(are_square(f, 0, e));
    return td_infer_lu(f, e);
}

TD_RULE(lu_permutation)
{
    const td_desc *x = td_in(f, 0);
    int64_t rows = td_attr_int(f->attrs, 0), shape[TD_MAX_DIMS];
    TD_TRY(td_infer_is_index(f, 0, e));
    f->compute = TD_INT64;
    if (x->ndim < 1) return td_fail(e, TD_E_SHAPE, "'x' must have at least 1 dimension");
    if (rows < x->shape[x->ndim - 1])
        return td_fail(e, TD_E_SHAPE, "%lld rows have no %lld pivots", (wide)rows, (wide)x->shape[x->ndim - 1]);
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[x->ndim - 1] = rows;
    return td_infer_make(f, TD_INT64, x->ndim, shape, e);
}

/* Is y a batch of vectors, one for each matrix of x? */
static bool is_vector(const td_desc *x, const td_desc *y)
{
    return y->ndim == 1 ||
           (y->ndim == x->ndim - 1 && memcmp(y->shape, x->shape, (size_t)y->ndim * sizeof *y->shape) == 0);
}

/* The batches of inputs i and k, broadcast, and then the last `trail` sizes of k. */
static int beside(td_inference *f, int i, int k, int trail, td_error *e)
{
    const td_desc *x = td_in(f, i), *y = td_in(f, k);
    char a[TD_TEXT], b[TD_TEXT];
    int64_t shape[TD_MAX_DIMS] = {0};
    int n = x->ndim - 2;
    memcpy(shape, x->shape, (size_t)n * sizeof *shape);
    if (td_broadcast(shape, &n, y->shape, y->ndim - trail, NULL) || n + trail > TD_MAX_DIMS)
        return td_fail(e, TD_E_SHAPE, "the batches of '%s' and '%s' do not broadcast together: %s and %s",
                       td_infer_name(f, i), td_infer_name(f, k), TD_SHAPE(x, a), TD_SHAPE(y, b));
    memcpy(shape + n, y->shape + y->ndim - trail, (size_t)trail * sizeof *shape);
    return td_infer_make(f, f->compute, n + trail, shape, e);
}

/* Input k stands right (or left) of the square matrices i: it has as many rows (columns). */
static int fits(td_inference *f, int i, int k, bool left, td_error *e)
{
    const td_desc *x = td_in(f, i), *y = td_in(f, k);
    TD_TRY(are_square(f, i, e));
    TD_TRY(are_matrices(f, k, e));
    if ((left ? rows_of(y) : columns_of(y)) == rows_of(x)) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "'%s' and '%s' do not fit: %lld by %lld and %lld by %lld matrices, of %s",
                   td_infer_name(f, i), td_infer_name(f, k), (wide)rows_of(x), (wide)columns_of(x), (wide)rows_of(y),
                   (wide)columns_of(y), left ? "as many rows" : "as many columns");
}

TD_RULE(solve)
{
    const td_desc *x = td_in(f, 0), *y = td_in(f, 1);
    bool left = td_attr_bool(f->attrs, 0), vector = x->ndim >= 2 && is_vector(x, y);
    TD_TRY(are_square(f, 0, e));
    if (vector && !left) return td_fail(e, TD_E_SHAPE, "'y' is a vector, which left=false has no use for");
    if (!vector) TD_TRY(fits(f, 0, 1, left, e));
    else if (y->shape[y->ndim - 1] != rows_of(x))
        return td_fail(e, TD_E_SHAPE, "'y' has %lld elements, the matrices have %lld rows", (wide)y->shape[y->ndim - 1],
                       (wide)rows_of(x));
    TD_TRY(beside(f, 0, 1, vector ? 1 : 2, e));
    return td_infer_make(f, TD_INT32, x->ndim - 2, x->shape, e);
}

TD_RULE(solve_triangular)
{
    TD_TRY(fits(f, 0, 1, td_attr_bool(f->attrs, 1), e));
    return beside(f, 0, 1, 2, e);
}

TD_RULE(ldl_solve)
{
    const td_desc *x = td_in(f, 0);
    TD_TRY(fits(f, 0, 2, true, e));
    TD_TRY(td_infer_is_index(f, 1, e));
    TD_TRY(td_infer_has_shape(f, 1, x->ndim - 1, x->shape, e));
    return beside(f, 0, 2, 2, e);
}

TD_RULE(det_lu)
{
    const td_desc *x = td_in(f, 0);
    TD_TRY(are_square(f, 0, e));
    TD_TRY(for_each(f, f->compute, x, 0, NULL, e));
    if (f->op->nouts == 4) TD_TRY(for_each(f, real_of(f), x, 0, NULL, e));
    TD_TRY(td_infer_like(f, f->compute, x, e));
    return vectors(f, TD_INT32, x, rows_of(x), e);
}

TD_RULE(qr)
{
    const td_desc *x = td_in(f, 0);
    int64_t mode = td_attr_int(f->attrs, 0);
    TD_TRY(are_matrices(f, 0, e));
    if (mode < 0 || mode > 2)
        return td_fail(e, TD_E_INVALID, "mode is 0 (reduced), 1 (complete) or 2 (r), not %lld", (wide)mode);
    int64_t m = rows_of(x), k = mode == 1 ? m : smaller(x);
    TD_TRY(mode == 2 ? td_infer_make(f, f->compute, 1, (int64_t[]){0}, e) : matrices(f, f->compute, x, m, k, e));
    return matrices(f, f->compute, x, k, columns_of(x), e);
}

TD_RULE(geqrf)
{
    TD_TRY(are_matrices(f, 0, e));
    TD_TRY(td_infer_like(f, f->compute, td_in(f, 0), e));
    return vectors(f, f->compute, td_in(f, 0), smaller(td_in(f, 0)), e);
}

TD_RULE(svd)
{
    const td_desc *x = td_in(f, 0);
    bool full = td_attr_bool(f->attrs, 0);
    TD_TRY(are_matrices(f, 0, e));
    int64_t m = rows_of(x), n = columns_of(x), k = smaller(x);
    TD_TRY(matrices(f, f->compute, x, m, full ? m : k, e));
    TD_TRY(vectors(f, real_of(f), x, k, e));
    return matrices(f, f->compute, x, full ? n : k, n, e);
}

TD_RULE(svdvals)
{
    TD_TRY(are_matrices(f, 0, e));
    return vectors(f, real_of(f), td_in(f, 0), smaller(td_in(f, 0)), e);
}

TD_RULE(eigh)
{
    TD_TRY(are_square(f, 0, e));
    TD_TRY(vectors(f, real_of(f), td_in(f, 0), rows_of(td_in(f, 0)), e));
    return f->op->nouts == 1 ? TD_OK : td_infer_like(f, f->compute, td_in(f, 0), e);
}

TD_RULE(eig)
{
    TD_TRY(are_square(f, 0, e));
    td_dtype t = td_dtype_complex(f->compute);
    TD_TRY(vectors(f, t, td_in(f, 0), rows_of(td_in(f, 0)), e));
    return f->op->nouts == 1 ? TD_OK : td_infer_like(f, t, td_in(f, 0), e);
}

TD_RULE(pinv)
{
    const td_desc *x = td_in(f, 0);
    TD_TRY(td_attr_bool(f->attrs, 2) ? are_square(f, 0, e) : are_matrices(f, 0, e));
    return matrices(f, f->compute, x, columns_of(x), rows_of(x), e);
}

TD_RULE(lstsq)
{
    const td_desc *x = td_in(f, 0), *y = td_in(f, 1);
    char a[TD_TEXT], b[TD_TEXT];
    int64_t driver = td_attr_int(f->attrs, 1);
    TD_TRY(are_matrices(f, 0, e));
    TD_TRY(are_matrices(f, 1, e));
    if (driver < 0 || driver > 3)
        return td_fail(e, TD_E_INVALID, "driver is 0 (gelsy), 1 (gelsd), 2 (gelss) or 3 (gels), not %lld",
                       (wide)driver);
    if (x->ndim != y->ndim || memcmp(x->shape, y->shape, (size_t)(x->ndim - 1) * sizeof *x->shape) != 0)
        return td_fail(e, TD_E_SHAPE, "'x' and 'y' must have the same batches and rows: %s and %s", TD_SHAPE(x, a),
                       TD_SHAPE(y, b));
    TD_TRY(matrices(f, f->compute, x, columns_of(x), columns_of(y), e));
    TD_TRY(for_each(f, TD_INT64, x, 0, NULL, e));
    if (driver == 1 || driver == 2) return vectors(f, real_of(f), x, smaller(x), e);
    return td_infer_make(f, real_of(f), 1, (int64_t[]){0}, e);
}
