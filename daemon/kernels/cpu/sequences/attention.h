/* What forward and backward of attention by tiles share: how a call is read, rows as they are computed with, scores of a
 * tile.
 *
 * A tile is TD_ATTENTION_ROWS queries by TD_ATTENTION_COLS keys; no more of the scores is ever there. q is (B, H, L, E), k
 * (B, K, S, E), v (B, K, S, F); H is a multiple of K. All is computed in float32 or float64, whatever strides and halves
 * the tensors have. (Dao et al., FlashAttention, 2022.) */
#ifndef TENSORD_DAEMON_KERNELS_CPU_SEQUENCES_ATTENTION_H
#define TENSORD_DAEMON_KERNELS_CPU_SEQUENCES_ATTENTION_H

#include "daemon/kernels/cpu/products/product.h"
#include "daemon/kernels/cpu/vec/attention.h"

typedef struct td_attention {
    bool wide, causal;
    uint8_t mask; /* the backward's: what is wanted */
    int64_t batch, heads, pairs, n, m, e, f; /* pairs: heads of k and v; n queries, m keys; columns of q and k, of v */
    double scale;
    int64_t row_tiles, col_tiles;
    int64_t groups, per_group; /* backward: groups of tiles of keys, tiles of one */
    size_t keys_at, values_at; /* forward: packed, a tile each */
    size_t dq_at;              /* backward: a group's part of the gradient by q */
} td_attention;

static inline int64_t td_attention_size(const td_attention *s)
{
    return s->wide ? 8 : 4;
}

const td_attention_fns *td_attention_loops(const td_attention *s);
/* Sizes, from inputs q, k and v at these places. */
int td_attention_begin(td_kcall *k, td_attention *s, int q, int key, int v, const char *name, td_error *e);
/* Rows [r0, r0 + rows) of head h of batch b as they are computed with, one behind the other. */
void td_attention_rows(const td_attention *s, const td_karg *x, int64_t b, int64_t h, int64_t r0, int64_t rows, void *to);
/* Does a query of these rows see a key of these columns? */
static inline bool td_attention_sees(const td_attention *s, int64_t r1, int64_t c0)
{
    return !s->causal || c0 < r1;
}
/* Scores that are not to be seen become -inf; a mask of numbers is added. scores: rows x TD_ATTENTION_COLS. `line` has room
 * for one row. */
void td_attention_mask(const td_attention *s, const td_karg *mask, int64_t b, int64_t h, int64_t r0, int64_t rows, int64_t c0,
                       int64_t cols, void *scores, void *line);

#endif
