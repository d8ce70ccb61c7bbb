/* Copies of bytes that do not overlap. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_COPY_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_COPY_H

#include "daemon/kernels/cpu/thresholds.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* memcpy, but where that would be slow: from some 2 KB on it is REP MOVSB, which goes byte by byte on AMD's processors
 * (Zen 3, Zen 4) where `to` lies less than a line behind `from` in their pages (sourceware.org, bug 30994): 75 us for
 * 256 KB that otherwise take 5. */
static inline void td_copy_bytes(void *to, const void *from, size_t n)
{
    typedef char line __attribute__((vector_size(TD_LINE_BYTES), aligned(1), may_alias));
    char *t = (char *)to;
    const char *f = (const char *)from;
    if (n < TD_COPY_ALIASED || ((uintptr_t)t - (uintptr_t)f - 1) % 4096 >= TD_LINE_BYTES - 1) {
        memcpy(t, f, n);
        return;
    }
    for (size_t i = 0; i + TD_LINE_BYTES <= n; i += TD_LINE_BYTES) *(line *)(t + i) = *(const line *)(f + i);
    *(line *)(t + n - TD_LINE_BYTES) = *(const line *)(f + n - TD_LINE_BYTES);
}

#endif
