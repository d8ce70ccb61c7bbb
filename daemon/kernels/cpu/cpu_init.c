/* Starting the CPU backend: the instruction set of our loops, the environment of the libraries, the state of each
 * thread. */
#include "daemon/kernels/cpu/blas.h"
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/kernel.h"
#include <stdio.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

void td_cpu_init(void)
{
    static bool done;
    if (done) return;
    done = true;
    td_isa_use(td_isa_level());
    td_cpu_blas_init();
    td_cpu_thread_init();
}

void td_cpu_thread_init(void)
{
    td_cpu_blas_thread_init();
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() & ~0x8040u); /* neither flush-to-zero nor denormals-are-zero */
#endif
}

const char *td_cpu_describe(void)
{
    static _Thread_local char text[224];
    static const char *const names[] = {"portable", "avx2", "avx512"};
    snprintf(text, sizeof text, "%s | %s", names[td_isa_level()], td_cpu_blas_describe());
    return text;
}
