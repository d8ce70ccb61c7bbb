/* What both ways of a batch norm share: by planes (batch_norm.c), and of images that lie channels last
 * (batch_norm_last.c). */
#ifndef TENSORD_DAEMON_KERNELS_CPU_NORMS_BATCH_NORM_H
#define TENSORD_DAEMON_KERNELS_CPU_NORMS_BATCH_NORM_H

#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/norms/moments.h"
#include "daemon/kernels/cpu/rows.h"
#include "daemon/kernels/plans.h"

typedef struct td_batch {
    double eps, momentum;
    bool training;
    uint8_t acc, mask; /* mask: of a gradient, bit 0 dx, 1 dweight, 2 dbias */
} td_batch;

/* Mean and rstd to normalise channel c with, told as results, and in training (st: what was seen of it) the running
 * values move. */
void td_batch_settle(td_kcall *k, const td_batch *b, int64_t c, const td_moments *st, double *mean, double *rstd);
/* The gradients of weight and bias, where they are wanted, from the sums of g and of g (x - mean). */
void td_batch_give(td_kcall *k, const td_batch *b, int64_t c, double rstd, double sum, double dot);
double td_batch_number_or(const td_karg *a, int64_t i, double otherwise);

/* Each takes images that lie channels last, float32 and float64; false: not this call. */
bool td_batch_plan_last(td_kcall *k, const td_batch *b);
bool td_batch_plan_back_last(td_kcall *k, const td_batch *b);

#endif
