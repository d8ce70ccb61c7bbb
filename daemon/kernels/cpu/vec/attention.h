/* What lies between the products of an attention's tiles, a row at a time. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_ATTENTION_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_ATTENTION_H

#include <stdint.h>

typedef struct td_attention_fns {
    /* Scores become e^(score - top), where top is the largest so far; returned is their sum. What was summed under the old
     * top counts *scale now. (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.) */
    double (*part)(int64_t n, void *scores, double *top, double *scale);
    /* x[i] *= by */
    void (*times)(int64_t n, void *x, double by);
    /* p = e^(score - lse), in place of the scores; d = p (d - delta). */
    void (*back)(int64_t n, void *scores, void *d, double lse, double delta);
    /* The same of a row whose keys are all here: delta is the mean of d by p, so what must be nothing is. */
    void (*back_alone)(int64_t n, void *scores, void *d, double lse);
    double (*dot)(int64_t n, const void *x, const void *y);
} td_attention_fns;

typedef struct td_attentions {
    td_attention_fns f32, f64;
} td_attentions;

#endif
