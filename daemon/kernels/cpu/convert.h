/* Rows of numbers between their stored dtype and the one they are computed in (float for halves), at any step. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_CONVERT_H
#define TENSORD_DAEMON_KERNELS_CPU_CONVERT_H

#include "proto/base/dtype.h"

struct td_pw_attr;

/* The dtype a floating kernel computes in: halves in float32, the others in themselves. */
static inline td_dtype td_acc_dtype(unsigned dtype)
{
    return dtype == TD_FLOAT16 || dtype == TD_BFLOAT16 ? TD_FLOAT32 : (td_dtype)dtype;
}

/* to[i] = from[i * step], n elements; `step` counts elements of `dtype`. `to` holds td_acc_dtype(dtype), contiguous. */
void td_row_load(void *to, const void *from, int64_t step, unsigned dtype, int64_t n);
/* The reverse: `from` holds td_acc_dtype(dtype), contiguous. */
void td_row_store(void *to, int64_t step, unsigned dtype, const void *from, int64_t n);

/* A row of any float dtype as float32, and as float64. */
void td_row_to_float(float *to, const void *from, int64_t step, unsigned dtype, int64_t n);
void td_row_to_double(double *to, const void *from, int64_t step, unsigned dtype, int64_t n);
/* As a loop (loop.h): uint64 as an int64 of the same order, and back. */
int td_ordered(int64_t n, void *out, const void *const *in, const struct td_pw_attr *at);
/* One element. */
double td_element_to_double(const void *p, unsigned dtype);
void td_element_from_double(void *p, unsigned dtype, double v);

#endif
