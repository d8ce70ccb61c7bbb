/* softmax and its relatives along a dimension that others follow: columns, which lie side by side. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_NORMS_SOFTMAX_COLS_H
#define TENSORD_DAEMON_KERNELS_CPU_NORMS_SOFTMAX_COLS_H

#include "daemon/kernels/kernel.h"

/* Plan `op` (TD_LINE_...) along `dim` when all operands are float32 and the dimensions behind `dim` are one run of
 * memory; false when they are not, and nothing was planned. */
bool td_softmax_plan_cols(td_kcall *k, int op, int dim);

#endif
