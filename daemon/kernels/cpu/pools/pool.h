/* The window of 2-d pooling over planes: shared by max and average, forward and backward. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_POOLS_POOL_H
#define TENSORD_DAEMON_KERNELS_CPU_POOLS_POOL_H

#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/rows.h"

typedef struct td_pooling {
    int64_t planes, h, w, oh, ow;
    int64_t kh, kw, sh, sw, ph, pw, dh, dw;
    int64_t per;            /* planes of a chunk */
    bool include_pad, flat; /* flat: planes lie behind each other, in the computed dtype */
    uint8_t dtype, acc;
} td_pooling;

/* `x` has the shape of the input, `out` of the output; the window begins at attribute a0 (kernel, stride, padding, and
 * dilation when `dilated`). */
int td_pool2d_init(td_kcall *k, td_pooling *p, const td_desc *x, const td_desc *out, int a0, bool dilated,
                   const char *name, td_error *e);

/* Chunks of whole planes of which an element that is looked at takes `ns`; what init says holds for windows one by one.
 */
void td_pool_cut(td_kcall *k, td_pooling *p, double ns);

/* Plane `i` of x, of n elements: as it lies, or copied into buf in the computed dtype. */
const void *td_pool_plane_from(const td_karg *x, unsigned acc, int64_t i, void *buf);
static inline const void *td_pool_plane(const td_pooling *p, const td_karg *x, int64_t i, int64_t n, void *buf)
{
    if (p->flat) return (const char *)x->data + i * n * (int64_t)td_dtype_size(p->acc);
    return td_pool_plane_from(x, p->acc, i, buf);
}

/* Positions inside the plane that output index `i` looks at: *first, *first + step, ... below *last. */
static inline void td_pool_window(int64_t i, int64_t size, int64_t k, int64_t s, int64_t p, int64_t d, int64_t *first,
                                  int64_t *last)
{
    int64_t start = i * s - p, end = start + d * (k - 1) + 1;
    if (start < 0) start += (-start + d - 1) / d * d;
    *first = start;
    *last = end < size ? end : size;
}

/* The part [*a, *b) of a plane that average i lies over, and how many elements it counts for with padding. */
static inline int64_t td_pool_part(int64_t i, int64_t size, int64_t k, int64_t s, int64_t pad, int64_t *a, int64_t *b)
{
    int64_t start = i * s - pad, end = td_min64(start + k, size + pad);
    *a = td_max64(0, start);
    *b = td_min64(end, size);
    return end - start;
}

/* What a mean is divided by. With padding a window may be as large as one likes. */
static inline int64_t td_pool_count(int64_t rows, int64_t cols)
{
    int64_t n;
    return __builtin_mul_overflow(rows, cols, &n) ? INT64_MAX : td_max64(1, n);
}

/* Output columns [first, last) whose windows lie whole inside the plane, to be taken together: none where they are too
 * few, or `together` is not set. */
typedef struct td_pool_columns {
    int64_t first, last;
} td_pool_columns;

static inline td_pool_columns td_pool_inside(const td_pooling *p, bool together)
{
    int64_t first = p->pw > 0 ? (p->pw - 1) / p->sw + 1 : 0, room = p->w - 1 - p->dw * (p->kw - 1) + p->pw;
    td_pool_columns in = {td_min64(first, p->ow), room < 0 ? 0 : td_min64(room / p->sw + 1, p->ow)};
    if (!together || in.last < in.first + TD_POOL_ROW_LEAST) in.last = in.first;
    return in;
}

/* Time of an element that is looked at where most windows are taken together. */
#define TD_POOL_TOGETHER_NS 0.15

/* pool_last.c: of images that lie channels last. k->state holds the td_pooling; false: not a call for these. */
bool td_pool_plan_max_last(td_kcall *k);
bool td_pool_plan_avg_last(td_kcall *k);
bool td_pool_plan_avg_back_last(td_kcall *k);
bool td_pool_plan_max_back_last(td_kcall *k);
/* Of a gradient's: the call fails. */
void td_pool_bad_index(td_kcall *k, int64_t index, int64_t places);

#endif
