/* Starting the CPU backend: the instruction set of our loops, the environment of the libraries, the state of each
 * thread. */
#include "daemon/kernels/cpu/blas.h"
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const char *const names[] = {"portable", "avx2", "avx512"};

/* The best set of loops, or the one that TENSORD_LOOPS names: to look at what another processor would do. */
static void choose_loops(void)
{
    const char *said = getenv("TENSORD_LOOPS");
    int best = td_isa_level();
    td_isa_use(best);
    if (!said || !*said) return;
    for (int level = 0; level < 3; level++)
        if (!strcmp(said, names[level]) && td_isa_use(level)) return;
    fprintf(stderr, "TENSORD_LOOPS=%.40s: this processor has portable%s%s; %s it is\n", said, best > 0 ? ", avx2" : "",
            best > 1 ? ", avx512" : "", names[best]);
}

double td_stream_bytes = 32 << 20;

/* What one core sees of it: sysconf() may tell that of all cores together. */
static void measure_cache(void)
{
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    long kb = 0;
    if (f && fscanf(f, "%ldK", &kb) == 1 && kb > 0) td_stream_bytes = (double)kb * 1024;
    if (f) fclose(f);
}

void td_cpu_init(void)
{
    static bool done;
    if (done) return;
    done = true;
    choose_loops();
    measure_cache();
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
    snprintf(text, sizeof text, "%s | %s", names[td_isa_used()], td_cpu_blas_describe());
    return text;
}
