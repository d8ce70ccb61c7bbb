/* Prints the sizes at which kernels and the scheduler change their way, a line each: name, value, what is counted, the
 * kernels (as the op table names them; * is all), and what it means, with tabs between. Tests in Python draw their
 * cases from it (see daemon/kernels/cpu/thresholds.h). */
#include "daemon/kernels/cpu/thresholds.h"
#include "daemon/sched/sched.h"
#include <stdio.h>

int main(void)
{
#define PRINT(name, value, unit, kernels, meaning) printf("%s\t%d\t%s\t%s\t%s\n", #name, value, unit, kernels, meaning);
    TD_THRESHOLDS(PRINT)
    PRINT(INLINE_NS, TD_INLINE_NS, "ns", "*", "estimated, below which a call is run at once and not in the pool")
    return 0;
}
