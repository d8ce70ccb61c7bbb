/* The transform of a group of lines (fft_lanes.h) for both types, with all lanes of a vector and with one. */
#include "daemon/kernels/cpu/fft/fft.h"
#include <string.h>

/* All that takes vectors is inlined: no ABI is concerned. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define REAL float
#define MASK int32_t
#define LANES 8
#define FFT(name) name##_f32
#include "daemon/kernels/cpu/fft/fft_lanes.h"

#define REAL float
#define LANES 1
#define FFT(name) name##_f32_line
#include "daemon/kernels/cpu/fft/fft_lanes.h"

#undef MASK
#define REAL double
#define MASK int64_t
#define LANES 4
#define FFT(name) name##_f64
#include "daemon/kernels/cpu/fft/fft_lanes.h"

#define REAL double
#define LANES 1
#define FFT(name) name##_f64_line
#include "daemon/kernels/cpu/fft/fft_lanes.h"

bool td_fft_run(td_kcall *k, const td_fft_group *g, int lanes, void *scratch)
{
    bool single = g->fft->dtype == TD_FLOAT32;
    if (lanes == 1) return single ? run_f32_line(k, g, scratch) : run_f64_line(k, g, scratch);
    return single ? run_f32(k, g, scratch) : run_f64(k, g, scratch);
}

bool td_fft_line(td_kcall *k, const td_fft_length *f, void *buffers, int64_t room, void **re, void **im)
{
    if (f->dtype == TD_FLOAT32) {
        float *at = buffers;
        sides_f32_line b = {at, at + room, at + 2 * room, at + 3 * room};
        if (!passes_f32_line(k, f, &b)) return false;
        *re = b.re, *im = b.im;
    } else {
        double *at = buffers;
        sides_f64_line b = {at, at + room, at + 2 * room, at + 3 * room};
        if (!passes_f64_line(k, f, &b)) return false;
        *re = b.re, *im = b.im;
    }
    return true;
}
