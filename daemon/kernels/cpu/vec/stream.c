/* Bytes past the caches to memory: what is written there need not be read first, and pushes nothing out. Whole lines at
 * once: stores of a part of one take longer than the usual ones, so that the portable set has none of it. */
#include "daemon/kernels/cpu/vec/stream.h"
#include <string.h>

#if TD_ISA_LEVEL > 0
#include <immintrin.h>

#if TD_ISA_LEVEL == 2
static inline void line(char *to, const char *from)
{
    _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
}
#else
static inline void line(char *to, const char *from)
{
    _mm256_stream_si256((__m256i *)(void *)to, _mm256_loadu_si256((const __m256i *)(const void *)from));
    _mm256_stream_si256((__m256i *)(void *)(to + 32), _mm256_loadu_si256((const __m256i *)(const void *)(from + 32)));
}
#endif

void TD_ISA_NAME(td_stream)(void *to, const void *from, int64_t bytes, bool last)
{
    char *t = to;
    const char *f = from;
    int64_t whole = bytes & ~(int64_t)63;
    for (int64_t i = 0; i < whole; i += 64) line(t + i, f + i);
    memcpy(t + whole, f + whole, (size_t)(bytes - whole));
    if (last) _mm_sfence(); /* these stores wait for nobody, not even for a lock's */
}
#else
void TD_ISA_NAME(td_stream)(void *to, const void *from, int64_t bytes, bool last)
{
    (void)last;
    memcpy(to, from, (size_t)bytes);
}
#endif
