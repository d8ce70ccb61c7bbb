/* Plans of cumsum and cumprod: a thread for each line, or blocks along it. */
#include "daemon/kernels/cuda/kernels.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cuda/plans.h"

enum {
    DOWN_LINES = 8192, /* so many lines are enough for a thread each */
    DOWN_LENGTH = 32,  /* lines no longer than this are no work for a block */
    PIECE = 4096,      /* the shortest piece of a line */
    BLOCKS = 512,      /* of all lines, where these are cut into pieces */
    TILE = 4 * TD_CUDA_THREADS
};

/* In the order of kernels.h. */
enum { DOWN, FOLD, PARTS, ALONG };

static void lines_of(const td_kcall *k, td_ca_scan *a, int dim)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    a->lines = a->length = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (d == dim) {
            a->length = x->shape[d], a->x_step = x->stride[d], a->out_step = y->stride[d];
            continue;
        }
        a->shape[a->ndim] = x->shape[d];
        a->x_stride[a->ndim] = x->stride[d], a->out_stride[a->ndim] = y->stride[d];
        a->lines *= a->shape[a->ndim++];
    }
}

static void cut(td_ca_scan *a)
{
    int64_t blocks = (BLOCKS + a->lines - 1) / a->lines, piece = (a->length + blocks - 1) / blocks;
    piece = (piece + TILE - 1) / TILE * TILE;
    a->piece = piece < PIECE ? PIECE : piece;
    a->pieces = (a->length + a->piece - 1) / a->piece;
}

static int plan(td_kcall *k, unsigned kernel, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    td_ca_scan a = {.x_dtype = x->dtype, .out_dtype = y->dtype};
    int dim = 0;
    if (x->ndim && td_wrap_dim(td_attr_int(k->attrs, 0), x->ndim, &dim, e)) return TD_E_INDEX;
    if (td_dtype_is_complex((td_dtype)k->compute) || td_dtype_is_complex((td_dtype)x->dtype))
        return td_cuda_refuse(k, k->compute, e);
    td_cuda_begin(k);
    if (!td_desc_numel(x)) return td_cuda_end(k, 0, e);
    lines_of(k, &a, dim);
    cut(&a);
    td_cuda_place places[3] = {{offsetof(td_ca_scan, x), TD_CUDA_IN, 0, 0},
                               {offsetof(td_ca_scan, out), TD_CUDA_OUT, 0, 0},
                               {offsetof(td_ca_scan, parts), TD_CUDA_WORK, 0, 0}};
    const td_cuda_shape each = {{(unsigned)(a.lines * a.pieces), 1, 1}, {TD_CUDA_THREADS, 1, 1}, 0};
    const td_cuda_shape lines = {{(unsigned)a.lines, 1, 1}, {TD_CUDA_THREADS, 1, 1}, 0};
    if (a.lines >= DOWN_LINES || a.length <= DOWN_LENGTH) {
        td_cuda_add(k, kernel + DOWN, td_cuda_over(a.lines), &a, sizeof a, places, 2);
    } else if (a.pieces == 1) {
        td_cuda_add(k, kernel + ALONG, each, &a, sizeof a, places, 2);
    } else {
        places[2].more = (uint32_t)(td_cuda_work(k, (size_t)(a.lines * a.pieces) * sizeof(td_word)) / 64);
        td_cuda_add(k, kernel + FOLD, each, &a, sizeof a, places, 3);
        td_cuda_again(k, kernel + PARTS, lines);
        td_cuda_again(k, kernel + ALONG, each);
    }
    k->sure = true;
    return td_cuda_end(k, td_cuda_ns((double)td_desc_nbytes(x) + (double)td_desc_nbytes(y)), e);
}

int td_cuda_plan_cumsum(td_kcall *k, td_error *e)
{
    bool whole = td_dtype_is_integral((td_dtype)k->compute);
    return plan(k, whole ? TD_CK_scan_down_sum_i64 : TD_CK_scan_down_sum_f64, e);
}

int td_cuda_plan_cumprod(td_kcall *k, td_error *e)
{
    bool whole = td_dtype_is_integral((td_dtype)k->compute);
    return plan(k, whole ? TD_CK_scan_down_product_i64 : TD_CK_scan_down_product_f64, e);
}
