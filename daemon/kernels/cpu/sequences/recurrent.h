/* What the forward and the backward plan of recurrent layers share: how a call is read, and how rows of the batch are cut.
 *
 * The products with the input are one for all steps, as are those for the weights' gradients; between them a chunk takes
 * some rows of the batch through all steps, since rows do not know of each other. So what is cut follows from shapes
 * alone, and a step needs nobody else's. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_SEQUENCES_RECURRENT_H
#define TENSORD_DAEMON_KERNELS_CPU_SEQUENCES_RECURRENT_H

#include "daemon/kernels/cpu/products/product.h"
#include "daemon/kernels/cpu/vec/recurrent.h"

enum td_recurrent_kind { TD_LSTM, TD_GRU, TD_RNN };

/* Three sizes and strides of (steps, batch, features), or of (batch, features) with no steps. */
typedef struct td_states {
    const char *at;
    int64_t s0, s1, s2;
} td_states;

typedef struct td_recurrent {
    uint8_t kind, gates; /* td_recurrent_kind; how many gates */
    bool wide, relu, reverse;
    uint8_t mask;
    int64_t steps, rows, in, n; /* of the sequence, the batch, the input, the state */
    int64_t per, blocks;        /* rows of a chunk; chunks of rows */
    int64_t tile, tiles;        /* rows of (steps, batch) whose products with the input are a chunk */
    int64_t panels, pack;       /* chunks that pack */
    /* backward: rows of the weights' gradients that are a chunk, chunks; columns of the biases' */
    int64_t w_tile, w_tiles, b_tiles;
    size_t packed_at, hidden_at; /* in work memory: the state's weights; of GRU those of its new gate */
    size_t d_at, dhidden_at;     /* gradients of the products */
    size_t copy_at[3];           /* y, gates and cells where they do not lie as rows */
    bool copied[3];
} td_recurrent;

static inline int64_t td_recurrent_size(const td_recurrent *s)
{
    return s->wide ? 8 : 4;
}

/* The step that comes as number k. */
static inline int64_t td_recurrent_step(const td_recurrent *s, int64_t k)
{
    return s->reverse ? s->steps - 1 - k : k;
}

const td_recurrent_fns *td_recurrent_loops(const td_recurrent *s);
td_states td_states_of(const td_karg *a);
/* Rows of (steps, batch) as lines, from `first` on. */
td_operand_lines td_states_lines(const td_recurrent *s, const td_states *x, int64_t first);
/* to[r][j] = element (r, j) of a state of the batch, from row r0 on; zeros when it is absent. */
void td_states_copy(const td_recurrent *s, const td_karg *from, int64_t r0, int64_t rows, void *to);
/* Sizes and the cut, from x, the state and the state's weights. */
int td_recurrent_begin(td_kcall *k, td_recurrent *s, int kind, int x, int h0, const char *name, td_error *e);
/* How many lines, of so many products each, are a chunk. */
int64_t td_recurrent_tile(double line);
double td_recurrent_cost(const td_recurrent *s);

#endif
