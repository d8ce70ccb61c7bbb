/* One row of a step of a recurrent layer, forward and back: what lies between its products.
 *
 * Gates lie beside each other, `n` of each: LSTM has i, f, g, o (Hochreiter and Schmidhuber 1997, with the forget gate of
 * Gers 2000), GRU has r, z, n (Cho 2014, with the reset behind the product). They come as products and become what they
 * let through. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_RECURRENT_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_RECURRENT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct td_recurrent_fns {
    /* bias: of the gates. c may not be `before`. */
    void (*lstm)(int64_t n, void *gates, const void *bias, const void *before, void *c, void *y);
    /* hidden: the product of n's gate with the state; bias: of the gates, then that of `hidden`. */
    void (*gru)(int64_t n, void *gates, void *hidden, const void *bias, const void *before, void *y);
    void (*rnn)(int64_t n, void *y, const void *bias, bool relu);
    /* By what arrives at the new state (dh, dc) the gradients of the products (d); dc goes over to the state before,
     * and of GRU's dh what does not go through a product. */
    void (*lstm_back)(int64_t n, const void *gates, const void *before, const void *c, const void *dh, void *dc, void *d);
    void (*gru_back)(int64_t n, const void *gates, const void *hidden, const void *before, void *dh, void *d, void *dhidden);
    void (*rnn_back)(int64_t n, const void *y, const void *dh, void *d, bool relu);
} td_recurrent_fns;

typedef struct td_recurrents {
    td_recurrent_fns f32, f64;
} td_recurrents;

#endif
