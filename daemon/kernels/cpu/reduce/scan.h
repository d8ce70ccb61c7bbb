/* What scans fold; here are the folds that are more than an operation: the largest and the smallest so far and where they
 * stand, and the logarithm of a sum of exponentials.
 *
 * State is two 8-byte words for a line: the value, as double or int64, and its place; the largest, and the sum of
 * all beside it; of complex numbers the logarithm so far. It begins as zeros. Values are replaced by what the fold
 * makes of them. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_REDUCE_SCAN_H
#define TENSORD_DAEMON_KERNELS_CPU_REDUCE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

typedef enum td_scan_kind {
    TD_SCAN_SUM,
    TD_SCAN_PRODUCT,
    TD_SCAN_LINEAR,
    TD_SCAN_LOG,
    TD_SCAN_LOG_COMPLEX,
    TD_SCAN_MOST,
    TD_SCAN_LEAST
} td_scan_kind;

/* One element of each of n lines, at place i of the dimension. */
void td_scan_across(td_scan_kind kind, bool whole, void *state, void *x, int64_t *places, int64_t n, int64_t i);
/* n elements of one line, from place i on. */
void td_scan_along(td_scan_kind kind, bool whole, void *state, void *x, int64_t *places, int64_t n, int64_t i);

#endif
