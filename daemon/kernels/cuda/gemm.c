/* Plans of products of matrices: the operands as matrices of any strides, tiles, and pieces of k where there are too
 * few tiles for a GPU. Large ones of floats that lie by rows or columns go to a library, where the process has one.
 *
 * All of it follows from shapes, and from what the process said of its library when it began. */
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cuda/plans.h"
#include "daemon/kernels/cuda/walk.h"
#include <string.h>

/* Rows and columns of a tile; from so many rows and columns on the large one; blocks that are enough; the shortest
 * piece of k. */
enum { SIDE = 64, SIDE_LARGE = 128, LARGE_LEAST = 1024, BLOCKS_ENOUGH = 256, PIECE_LEAST = 64 };
/* A library is worth its call from so many multiplications on, and where no side is shorter; it takes so many matrices
 * at once. The first two are guesses: no GPU has measured them. */
enum { LIBRARY_LEAST = 1 << 22, LIBRARY_SIDE = 32, LIBRARY_BATCH = 65535 };

typedef struct product {
    td_ca_gemm a;
    uint8_t in_a, in_b, in_x; /* 1 + the input's number; in_x 0: none */
    bool copies_a;            /* input a lies in rows that no stride leads through: a dense copy stands for it */
} product;

static td_cuda_matrix matrix(const td_desc *d, int row_dim)
{
    return (td_cuda_matrix){d->stride[row_dim], d->stride[row_dim + 1],
                            row_dim > 0 && d->shape[0] > 1 ? d->stride[0] : 0};
}

static double real(td_scalar s)
{
    return s.kind <= TD_S_INT ? (double)s.i : s.re;
}
static int64_t whole(td_scalar s)
{
    return s.kind <= TD_S_INT ? s.i : (int64_t)s.re;
}

static product product_of(const td_kcall *k, int first, int row_dim)
{
    const td_desc *x = k->in[first].desc, *y = k->in[first + 1].desc;
    return (product){.a = {.m = x->shape[row_dim],
                           .n = y->shape[row_dim + 1],
                           .k = x->shape[row_dim + 1],
                           .batch = row_dim ? x->shape[0] : 1,
                           .as = matrix(x, row_dim),
                           .bs = matrix(y, row_dim),
                           .alpha = 1,
                           .whole_alpha = 1},
                     .in_a = (uint8_t)(first + 1),
                     .in_b = (uint8_t)(first + 2)};
}

static unsigned kernel_of(unsigned dtype, bool large)
{
    switch (dtype) {
    case TD_FLOAT16:
    case TD_BFLOAT16:
    case TD_FLOAT32: return large ? TD_CK_gemm_large_f32 : TD_CK_gemm_f32;
    case TD_FLOAT64: return TD_CK_gemm_f64;
    default: return TD_CK_gemm_i64;
    }
}
/* Is the result large enough for large tiles, and is there a kernel with such tiles? */
static bool takes_large(const td_ca_gemm *a, unsigned dtype)
{
    return a->m >= LARGE_LEAST && a->n >= LARGE_LEAST && kernel_of(dtype, true) != kernel_of(dtype, false);
}
/* A block for each tile of each product. */
static int64_t blocks_of(const td_ca_gemm *a, bool large)
{
    const int64_t side = large ? SIDE_LARGE : SIDE;
    return (a->m + side - 1) / side * ((a->n + side - 1) / side) * a->batch;
}
static unsigned sum_of(unsigned dtype)
{
    unsigned kernel = kernel_of(dtype, false);
    return kernel == TD_CK_gemm_f32   ? TD_CK_gemm_sum_f32
           : kernel == TD_CK_gemm_f64 ? TD_CK_gemm_sum_f64
                                      : TD_CK_gemm_sum_i64;
}

static unsigned copy_kernel(unsigned dtype)
{
    size_t size = td_dtype_size((td_dtype)dtype);
    return size == 1 ? TD_CK_copy_1 : size == 2 ? TD_CK_copy_2 : size == 4 ? TD_CK_copy_4 : TD_CK_copy_8;
}

/* A dense copy of input a into work memory, and its rows there. */
static size_t plan_copy_of_rows(td_kcall *k, product *p)
{
    const td_desc *x = k->in[p->in_a - 1].desc;
    td_desc dense = *x;
    td_cuda_dims w;
    td_desc_pack(&dense);
    td_cuda_dims_of(&w, 2, (const td_desc *const[]){&dense, x});
    td_ca_copy c = {.n = w.n, .ndim = w.ndim, .to_dtype = x->dtype, .from_dtype = x->dtype};
    memcpy(c.shape, w.shape, sizeof c.shape);
    memcpy(c.to_stride, w.stride[0], sizeof c.to_stride);
    memcpy(c.from_stride, w.stride[1], sizeof c.from_stride);
    size_t at = td_cuda_work(k, td_desc_nbytes(x));
    td_cuda_place places[2] = {{offsetof(td_ca_copy, to), TD_CUDA_WORK, 0, (uint32_t)(at / 64)},
                               {offsetof(td_ca_copy, from), TD_CUDA_IN, (uint8_t)(p->in_a - 1), 0}};
    unsigned kernel = copy_kernel(x->dtype);
    int64_t blocks = td_cuda_blocks(c.n, TD_CUDA_THREADS);
    td_cuda_add(k, kernel,
                (td_cuda_shape){{(unsigned)(blocks < TD_CUDA_MOST_BLOCKS ? blocks : TD_CUDA_MOST_BLOCKS), 1, 1},
                                {TD_CUDA_THREADS, 1, 1},
                                0},
                &c, sizeof c, places, 2);
    p->a.as = (td_cuda_matrix){p->a.k, 1, 0};
    return at;
}

/* ---- by a library */

/* A factor with so many rows and columns as columns at a distance. False: it has other strides. */
static bool by_columns(td_cuda_matrix s, int64_t rows, int64_t columns, td_cuda_matrix_at *out, uint8_t *turned)
{
    *turned = s.col != 1 || s.row < columns;
    if (*turned && (s.row != 1 || s.col < rows)) return false;
    *out = (td_cuda_matrix_at){0, *turned ? s.col : s.row, s.batch};
    return out->ld <= INT32_MAX;
}

/* By columns the product is that of the transposes, in the other order. */
static bool library_takes(const td_kcall *k, const product *p, td_cuda_product *out)
{
    const td_ca_gemm *a = &p->a;
    const uint8_t dtype = k->out[0].desc->dtype;
    if (!(k->libraries & td_cuda_library_bit(dtype)) || p->copies_a) return false;
    for (int i = 0; i < 3; i++) {
        uint8_t in = i == 0 ? p->in_a : i == 1 ? p->in_b : p->in_x;
        if (in && k->in[in - 1].desc->dtype != dtype) return false;
    }
    if (a->m < LIBRARY_SIDE || a->n < LIBRARY_SIDE || a->k < LIBRARY_SIDE || a->batch > LIBRARY_BATCH) return false;
    if (a->m > INT32_MAX || a->n > INT32_MAX || a->k > INT32_MAX) return false;
    if ((double)a->m * (double)a->n * (double)a->k * (double)a->batch < LIBRARY_LEAST) return false;
    *out = (td_cuda_product){.d = {0, a->n, a->m * a->n},
                             .m = a->n,
                             .n = a->m,
                             .k = a->k,
                             .batch = a->batch,
                             .alpha = a->alpha,
                             .beta = p->in_x ? a->beta : 0,
                             .dtype = dtype};
    return by_columns(a->bs, a->k, a->n, &out->a, &out->a_turned) &&
           by_columns(a->as, a->m, a->k, &out->b, &out->b_turned);
}

/* What is added is laid out in the result first: one way for a row, a column and a matrix. */
static void put_what_is_added(td_kcall *k, const product *p)
{
    const td_ca_gemm *a = &p->a;
    td_ca_copy c = {.n = a->m * a->n,
                    .shape = {a->n, a->m},
                    .to_stride = {1, a->n},
                    .from_stride = {a->xs.col, a->xs.row},
                    .ndim = 2,
                    .to_dtype = k->out[0].desc->dtype,
                    .from_dtype = k->out[0].desc->dtype};
    const td_cuda_place places[2] = {{offsetof(td_ca_copy, to), TD_CUDA_OUT, 0, 0},
                                     {offsetof(td_ca_copy, from), TD_CUDA_IN, (uint8_t)(p->in_x - 1), 0}};
    td_cuda_add(k, copy_kernel(c.to_dtype), td_cuda_over(c.n), &c, sizeof c, places, 2);
}

static int plan_library(td_kcall *k, const product *p, const td_cuda_product *l, td_error *e)
{
    const td_cuda_place places[3] = {{offsetof(td_cuda_product, a.at), TD_CUDA_IN, (uint8_t)(p->in_b - 1), 0},
                                     {offsetof(td_cuda_product, b.at), TD_CUDA_IN, (uint8_t)(p->in_a - 1), 0},
                                     {offsetof(td_cuda_product, d.at), TD_CUDA_OUT, 0, 0}};
    td_cuda_begin(k);
    if (p->in_x) put_what_is_added(k, p);
    td_cuda_add(k, TD_CK_product, (td_cuda_shape){{1, 1, 1}, {1, 1, 1}, 0}, l, sizeof *l, places, 3);
    double work = 2.0 * (double)l->m * (double)l->n * (double)l->k * (double)l->batch / 40000.0;
    double bytes = (double)td_desc_nbytes(k->in[p->in_a - 1].desc) + (double)td_desc_nbytes(k->in[p->in_b - 1].desc);
    int rc = td_cuda_end(k, work + td_cuda_ns(bytes), e);
    k->replan = NULL; /* for this call alone: the next process may have no library */
    return rc;
}

/* A factor of columns as rows, which is its transpose. */
static td_cuda_matrix by_rows(const td_cuda_matrix_at *x, bool turned)
{
    return (td_cuda_matrix){turned ? 1 : x->ld, turned ? x->ld : 1, x->step};
}

/* By rows again, and in one piece, for a product of the library's has no work memory. */
_Static_assert(sizeof(td_ca_gemm) == TD_CUDA_INSTEAD_BYTES, "whoever asks has room for them");
void td_cuda_instead(const td_cuda_product *p, void *args, td_cuda_launch *l)
{
    const td_ca_gemm a = {.a = (const void *)p->b.at,
                          .b = (const void *)p->a.at,
                          .x = p->beta != 0 ? (const void *)p->d.at : NULL,
                          .c = (void *)p->d.at,
                          .m = p->n,
                          .n = p->m,
                          .k = p->k,
                          .batch = p->batch,
                          .piece = (p->k + 15) / 16 * 16,
                          .pieces = 1,
                          .as = by_rows(&p->b, p->b_turned),
                          .bs = by_rows(&p->a, p->a_turned),
                          .xs = by_rows(&p->d, false),
                          .cs = by_rows(&p->d, false),
                          .alpha = p->alpha,
                          .beta = p->beta,
                          .a_dtype = p->dtype,
                          .b_dtype = p->dtype,
                          .x_dtype = p->dtype,
                          .c_dtype = p->dtype};
    const bool large = takes_large(&a, p->dtype);
    memcpy(args, &a, sizeof a);
    *l = (td_cuda_launch){.kernel = kernel_of(p->dtype, large), .bytes = sizeof a, .args = args};
    l->grid[0] = (unsigned)blocks_of(&a, large);
    l->grid[1] = l->grid[2] = l->block[1] = l->block[2] = 1;
    l->block[0] = 256;
}

static int plan_product(td_kcall *k, product *p, td_error *e)
{
    td_cuda_product by_library;
    if (library_takes(k, p, &by_library)) return plan_library(k, p, &by_library, e);
    td_ca_gemm *a = &p->a;
    const td_desc *da = k->in[p->in_a - 1].desc, *db = k->in[p->in_b - 1].desc, *c = k->out[0].desc;
    if (td_dtype_is_complex((td_dtype)da->dtype)) return td_cuda_refuse(k, da->dtype, e);
    a->a_dtype = da->dtype, a->b_dtype = db->dtype, a->c_dtype = c->dtype;
    a->x_dtype = p->in_x ? k->in[p->in_x - 1].desc->dtype : c->dtype;
    a->cs = (td_cuda_matrix){a->n, 1, a->m * a->n};
    td_cuda_begin(k);
    size_t copied = p->copies_a ? plan_copy_of_rows(k, p) : 0;
    bool large = takes_large(a, da->dtype);
    int64_t blocks = blocks_of(a, large);
    a->pieces = blocks && blocks < BLOCKS_ENOUGH ? BLOCKS_ENOUGH / blocks : 1;
    if (a->pieces > a->k / PIECE_LEAST) a->pieces = a->k / PIECE_LEAST;
    if (a->pieces < 1 || p->copies_a) a->pieces = 1; /* a third launch has no room in the state */
    a->piece = ((a->k + a->pieces - 1) / a->pieces + 15) / 16 * 16;
    a->pieces = a->piece ? (a->k + a->piece - 1) / a->piece : 1;
    if (a->pieces < 1) a->pieces = 1;
    size_t record = a->pieces > 1 ? (kernel_of(da->dtype, false) == TD_CK_gemm_f32 ? 4 : 8) : 0;
    size_t parts = td_cuda_work(k, record * (size_t)(a->pieces * a->batch * a->m * a->n));
    td_cuda_place places[5] = {{offsetof(td_ca_gemm, a), TD_CUDA_IN, (uint8_t)(p->in_a - 1), 0},
                               {offsetof(td_ca_gemm, b), TD_CUDA_IN, (uint8_t)(p->in_b - 1), 0},
                               {offsetof(td_ca_gemm, c), TD_CUDA_OUT, 0, 0},
                               {offsetof(td_ca_gemm, parts), TD_CUDA_WORK, 0, (uint32_t)(parts / 64)},
                               {offsetof(td_ca_gemm, x), TD_CUDA_IN, (uint8_t)(p->in_x - 1), 0}};
    if (p->copies_a) places[0] = (td_cuda_place){offsetof(td_ca_gemm, a), TD_CUDA_WORK, 0, (uint32_t)(copied / 64)};
    int nplaces = p->in_x ? 5 : 4;
    td_cuda_shape shape = {{(unsigned)blocks, (unsigned)a->pieces, 1}, {256, 1, 1}, 0};
    td_cuda_add(k, kernel_of(da->dtype, large), shape, a, sizeof *a, places, nplaces);
    if (a->pieces > 1)
        td_cuda_add(k, sum_of(da->dtype),
                    (td_cuda_shape){{td_cuda_blocks(a->batch * a->m * a->n, 256), 1, 1}, {256, 1, 1}, 0}, a, sizeof *a,
                    places, nplaces);
    k->sure = true;
    double work = 2.0 * (double)a->m * (double)a->n * (double)a->k * (double)a->batch / 20000.0;
    return td_cuda_end(k, work + td_cuda_ns((double)td_desc_nbytes(da) + (double)td_desc_nbytes(db)), e);
}

int td_cuda_plan_mm(td_kcall *k, td_error *e)
{
    product p = product_of(k, 0, 0);
    return plan_product(k, &p, e);
}

int td_cuda_plan_bmm(td_kcall *k, td_error *e)
{
    product p = product_of(k, 0, 1);
    return plan_product(k, &p, e);
}

static bool is_zero(td_scalar s)
{
    return s.kind <= TD_S_INT ? s.i == 0 : s.re == 0 && (s.kind != TD_S_COMPLEX || s.im == 0);
}

/* x broadcast to a matrix. */
static td_cuda_matrix broadcast(const td_desc *d)
{
    td_cuda_matrix m = {0};
    if (d->ndim >= 1 && d->shape[d->ndim - 1] != 1) m.col = d->stride[d->ndim - 1];
    if (d->ndim >= 2 && d->shape[d->ndim - 2] != 1) m.row = d->stride[d->ndim - 2];
    return m;
}

int td_cuda_plan_addmm(td_kcall *k, td_error *e)
{
    product p = product_of(k, 1, 0);
    td_scalar beta = k->attrs->at[0].s, alpha = k->attrs->at[1].s;
    p.a.alpha = real(alpha), p.a.beta = real(beta), p.a.whole_alpha = whole(alpha), p.a.whole_beta = whole(beta);
    if (!is_zero(beta)) {
        p.in_x = 1;
        p.a.xs = broadcast(k->in[0].desc);
    }
    return plan_product(k, &p, e);
}

/* Leading dimensions of x as one dimension of rows, where their strides allow it. */
static bool rows_of(const td_desc *x, int64_t *stride)
{
    *stride = x->ndim >= 2 ? x->stride[x->ndim - 2] : 0;
    int last = x->ndim - 2; /* the innermost dimension of rows that is longer than 1 */
    while (last > 0 && x->shape[last] == 1) *stride = x->stride[--last];
    int64_t expect = last >= 0 ? x->stride[last] * x->shape[last] : 0;
    for (int d = last - 1; d >= 0; d--) {
        if (x->shape[d] == 1) continue;
        if (x->stride[d] != expect) return false;
        expect *= x->shape[d];
    }
    return true;
}

/* x[..., K] times w[N, K] transposed, plus b[N]. w may be one row [K]. */
int td_cuda_plan_linear(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *w = k->in[1].desc;
    product p = {.a = {.k = x->ndim ? x->shape[x->ndim - 1] : 1,
                       .m = 1,
                       .batch = 1,
                       .alpha = 1,
                       .beta = 1,
                       .whole_alpha = 1,
                       .whole_beta = 1},
                 .in_a = 1,
                 .in_b = 2};
    for (int d = 0; d < x->ndim - 1; d++) p.a.m *= x->shape[d];
    p.a.n = w->ndim == 2 ? w->shape[0] : 1;
    p.a.bs = (td_cuda_matrix){w->stride[w->ndim - 1], w->ndim == 2 ? w->stride[0] : 1, 0};
    p.a.as.col = x->ndim ? x->stride[x->ndim - 1] : 1;
    p.copies_a = !rows_of(x, &p.a.as.row);
    if (k->nin > 2 && k->in[2].data) {
        p.in_x = 3;
        p.a.xs = broadcast(k->in[2].desc);
    }
    return plan_product(k, &p, e);
}

/* The sum of the products of two vectors. */
int td_cuda_plan_dot(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->in[1].desc;
    product p = {
        .a = {.m = 1, .n = 1, .k = x->shape[0], .batch = 1, .alpha = 1, .whole_alpha = 1}, .in_a = 1, .in_b = 2};
    p.a.as.col = x->stride[0];
    p.a.bs.row = y->stride[0];
    return plan_product(k, &p, e);
}

int td_cuda_plan_mv(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->in[1].desc;
    product p = {.a = {.m = x->shape[0], .n = 1, .k = x->shape[1], .batch = 1, .alpha = 1, .whole_alpha = 1},
                 .in_a = 1,
                 .in_b = 2};
    p.a.as = (td_cuda_matrix){x->stride[0], x->stride[1], 0};
    p.a.bs.row = y->stride[0];
    return plan_product(k, &p, e);
}
