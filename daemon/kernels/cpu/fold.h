/* What reductions fold elements into, on every device: see vec/reduce.h. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_FOLD_H
#define TENSORD_DAEMON_KERNELS_CPU_FOLD_H

#include <stdint.h>

typedef union td_word {
    double f;
    int64_t i;
} td_word;

enum td_fold {
    TD_FOLD_SUM,
    TD_FOLD_PROD,
    TD_FOLD_MAX,
    TD_FOLD_MIN,
    TD_FOLD_ARGMAX,
    TD_FOLD_ARGMIN,
    TD_FOLD_VAR,
    TD_FOLD_LSE,
    TD_FOLD_ANY,
    TD_FOLD_ALL,
    TD_FOLD_SQUARES,
    TD_FOLD_COUNT
};
/* How records become results. */
enum td_finish {
    TD_FINISH_A,
    TD_FINISH_MEAN,
    TD_FINISH_INDEX,
    TD_FINISH_BOTH,
    TD_FINISH_VAR,
    TD_FINISH_STD,
    TD_FINISH_LSE
};

#endif
