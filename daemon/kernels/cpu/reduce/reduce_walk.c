/* Reading what is reduced: along rows and down columns. */
#include "daemon/kernels/cpu/reduce/reduce.h"
#include "daemon/kernels/cpu/tile.h"
#include <string.h>

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Byte offset of a linear index in dimensions from `dim` on. */
static int64_t offset_of(int64_t index, const int64_t *shape, const int64_t *stride, int dim, int ndim)
{
    int64_t at = 0;
    for (int d = dim; d < ndim; d++) {
        at += index % shape[d] * stride[d];
        index /= shape[d];
    }
    return at;
}

/* Are rows of `cols` elements one run in memory? */
static bool adjacent(const td_reduction *r, int64_t cols, int64_t rs)
{
    return rs == cols * r->raw;
}

/* Most elements that may be fetched at once when they have to be gathered or converted first. */
static int64_t tile_of(const td_reduction *r)
{
    return TD_TILE_BYTES / (r->raw > r->size ? r->raw : r->size);
}

/* rows x cols elements as the fold wants them, dense. What does not lie so is at most a tile: both buffers hold
 * TD_TILE_BYTES. */
static const void *fetch(const td_reduction *r, const char *from, int64_t rows, int64_t cols, int64_t rs, int64_t cs,
                         char *scratch)
{
    const void *raw = from;
    if (!(cs == r->raw && (rows == 1 || adjacent(r, cols, rs)))) {
        char *to = r->cast ? scratch + TD_TILE_BYTES : scratch;
        td_gather(to, from, rows, cols, rs, cs, r->raw);
        raw = to;
    }
    if (!r->cast) return raw;
    r->cast(rows * cols, scratch, &raw, NULL);
    return scratch;
}

void td_reduce_rows(const td_reduction *r, int64_t kept, int64_t from, int64_t to, td_word *a, td_word *b,
                    char *scratch)
{
    const char *base = r->data + offset_of(kept, r->kept, r->kept_stride, 0, r->kdims);
    int64_t inner = r->gone[0], step = r->gone_stride[0];
    bool direct = step == r->raw && !r->cast, plain = r->fold <= TD_FOLD_MIN || r->fold >= TD_FOLD_ANY;
    int64_t tile = tile_of(r), limit = direct && plain ? TD_REDUCE_RUN : tile;
    for (int64_t i = from; i < to;) {
        int64_t at = i % inner, outer = i / inner, n = min64(min64(inner - at, to - i), limit), rows = 1;
        const char *p = base + offset_of(outer, r->gone, r->gone_stride, 1, r->gdims) + at * step;
        int64_t down = r->gdims > 1 ? r->gone_stride[1] : 0;
        if (at == 0 && n == inner && inner < TD_REDUCE_SHORT && r->gdims > 1) { /* several at once */
            int64_t most = direct && adjacent(r, inner, down) ? limit : min64(limit, tile);
            rows = min64(min64(most / inner, (to - i) / inner), r->gone[1] - outer % r->gone[1]);
        }
        const void *x = fetch(r, p, rows, n, down, step, scratch);
        r->row(rows * n, x, a, b, i - from);
        i += rows * n;
    }
}

void td_reduce_columns(const td_reduction *r, int64_t first, int64_t width, int64_t from, int64_t to, td_word *a,
                       td_word *b, char *scratch)
{
    const char *base = r->data + first % r->kept[0] * r->kept_stride[0] +
                       offset_of(first / r->kept[0], r->kept, r->kept_stride, 1, r->kdims);
    int64_t inner = r->gone[0], down = r->gone_stride[0], across = r->kept_stride[0];
    bool direct = across == r->raw && !r->cast;
    int64_t limit = direct ? 1 : tile_of(r) / width;
    bool quads = direct && r->body == TD_R_F32 && td_isa_now->reduce->col4_f32[r->fold];
    for (int64_t i = from; i < to;) {
        int64_t at = i % inner, rows = min64(inner - at, to - i);
        const char *p = base + offset_of(i / inner, r->gone, r->gone_stride, 1, r->gdims) + at * down;
        if (quads && rows >= TD_REDUCE_QUAD) {
            td_isa_now->reduce->col4_f32[r->fold](width, p, down, a, i - from);
            i += TD_REDUCE_QUAD;
            continue;
        }
        rows = min64(rows, limit);
        const char *x = fetch(r, p, rows, width, down, across, scratch);
        for (int64_t k = 0; k < rows; k++) r->col(width, x + k * width * r->size, a, b, i + k - from);
        i += rows;
    }
}
