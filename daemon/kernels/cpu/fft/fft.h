/* Fourier transforms of lines: what is known of a length (its factors, its roots of unity), and the transform of a
 * group of lines.
 *
 * A group is as many lines as fit the lanes of a vector, side by side: element i of all of them is one vector of real
 * and one of imaginary parts. So every pass runs over whole vectors, whatever the factor. A few long lines run with one
 * lane. Real lines of even length are complex ones of half of it. Roots are computed in double, in the eighth of the
 * circle where sine and cosine are exact to the last bit. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_FFT_FFT_H
#define TENSORD_DAEMON_KERNELS_CPU_FFT_FFT_H

#include "daemon/kernels/cpu/plan.h"

enum { TD_FFT_PASSES = 64, TD_FFT_LANES = 8 };
#define TD_FFT_REAL INT64_MIN /* where the imaginary part of a real number is */

typedef enum td_fft_kind { TD_FFT_C2C, TD_FFT_R2C, TD_FFT_C2R } td_fft_kind;

/* What a length needs. All is in one block of memory, at whatever address. */
typedef struct td_fft_length {
    int64_t length; /* of the line */
    int64_t n;      /* of the complex transform: half of it where the line is real and even */
    int64_t work;   /* of the passes: n, or that of the convolution which stands for a large prime factor */
    uint8_t dtype;  /* float32 or float64 */
    bool real;      /* n is half of the length */
    int passes, radix[TD_FFT_PASSES];
    const void
        *roots; /* pass after pass: m real, m imaginary parts for each j from 1; then those of the radix itself */
    const void *chirp;    /* n real, n imaginary parts; NULL: no convolution */
    const void *spectrum; /* of the chirp: work of each */
    const void *turns;    /* of the halves of real lines: n / 2 + 1 of each */
} td_fft_length;

/* The roots exp(-2 pi i k / n) of a large n as products of two: pairs below 2^bits, and every 2^bits-th. */
typedef struct td_fft_roots {
    double *fine, *coarse;
    int bits;
} td_fft_roots;
size_t td_fft_roots_bytes(int64_t n);
bool td_fft_roots_make(td_kcall *k, void *at, int64_t n);
td_fft_roots td_fft_roots_at(void *at, int64_t n);

/* One group of lines. Bytes throughout. */
typedef struct td_fft_group {
    const td_fft_length *fft;
    const char *from[TD_FFT_LANES];
    char *to[TD_FFT_LANES];
    int64_t from_step, to_step; /* between the elements of a line */
    int lines;
    uint8_t kind;
    bool backward, twosided;
    double scale;
    /* The first half of a long transform turns element k of column c by the root c * k of `whole`; 0: it does not. */
    int64_t whole, column[TD_FFT_LANES];
    td_fft_roots roots;
} td_fft_group;

/* How many bytes a length takes; what stands there is made by td_fft_make (false: the call has failed). `real`: of real
 * lines. */
size_t td_fft_bytes(int64_t length, td_dtype dtype, bool real);
bool td_fft_make(td_kcall *k, void *at, int64_t length, td_dtype dtype, bool real);
/* The same from what is kept for short ones, until it is given back. NULL: no memory, and the call has failed. */
const td_fft_length *td_fft_take(td_kcall *k, int64_t length, td_dtype dtype, bool real);
void td_fft_give(const td_fft_length *f);
/* Without large prime factors. */
bool td_fft_smooth(int64_t n);

/* The lanes of a vector of a dtype, and the scratch of a group with so many lanes. */
static inline int td_fft_lanes(td_dtype dtype)
{
    return dtype == TD_FLOAT32 ? 8 : 4;
}
size_t td_fft_scratch(int64_t length, td_dtype dtype, bool real, int lanes);

/* Transform a group with vectors of all lanes, or (lanes == 1) one line. False: the call has failed. */
bool td_fft_run(td_kcall *k, const td_fft_group *g, int lanes, void *scratch);
/* The passes alone, of one line: n real parts at `buffers`, n imaginary ones `room` elements behind, room for as many
 * of both behind those; and where the result is. */
bool td_fft_line(td_kcall *k, const td_fft_length *f, void *buffers, int64_t room, void **re, void **im);

#endif
