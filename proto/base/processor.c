/* See processor.h. */
#include "proto/base/processor.h"

#include <stdbool.h>

#if defined(__x86_64__) && defined(TD_HAVE_WIDE)
#include <cpuid.h>

int td_processor_level(void)
{
    unsigned a, b, c, d;
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
    if (!f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
        !__builtin_cpu_supports("bmi2"))
        return 0;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512cd"))
        return 1;
    return 2;
}
#else
int td_processor_level(void)
{
    return 0;
}
#endif
