/* Random numbers: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011) and what is made of its words.
 *
 * The key is the generator's seed. The counter's low 64 bits number the groups of four words, its high 64 bits are the
 * number of the op in its stream: so an element's words depend on seed, op and index alone. These files are built
 * without contraction to fused multiply-adds, and use their own log, sine and cosine: the numbers are the same on every
 * processor. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_PHILOX_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_PHILOX_H

#include "daemon/kernels/cpu/thresholds.h"
#include <stdint.h>

typedef struct td_philox_fns {
    /* Words of `n` groups from group `first`: out[4 n]. */
    void (*words)(uint64_t seed, uint64_t op, uint64_t first, int n, uint32_t *out);
    /* From words to uniform numbers in [0, 1) of `bits` bits (at most 24), a word each. */
    void (*uniform_f32)(int n, const uint32_t *words, int bits, float *out);
    /* The same of 53 bits, two words each; and normal numbers by Box and Muller, a group of words for 4 floats or 2
     * doubles. */
    void (*uniform_f64)(int n, const uint32_t *words, double *out);
    void (*normal_f32)(int groups, const uint32_t *words, float *out);
    void (*normal_f64)(int groups, const uint32_t *words, double *out);
    /* out = words[i] >= threshold ? x * scale : 0; the threshold is 2^32 times a probability. */
    void (*drop_f32)(int n, const uint32_t *words, uint64_t threshold, const float *x, float scale, float *out);
    void (*drop_f64)(int n, const uint32_t *words, uint64_t threshold, const double *x, double scale, double *out);
} td_philox_fns;

#endif
