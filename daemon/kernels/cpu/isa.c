/* Which set of loops this process uses. Sets that the build has not (other than x86-64) are absent. */
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/cpu/vec/attention.h"
#include "daemon/kernels/cpu/vec/gemm.h"
#include "daemon/kernels/cpu/vec/philox.h"
#include "daemon/kernels/cpu/vec/pool.h"
#include "daemon/kernels/cpu/vec/product.h"
#include "daemon/kernels/cpu/vec/recurrent.h"
#include "daemon/kernels/cpu/vec/reduce.h"
#include "daemon/kernels/cpu/vec/softmax.h"
#include "daemon/kernels/cpu/vec/stream.h"
#include "proto/base/processor.h"

#define DECLARE(ISA, LEVEL)                                                                                            \
    extern const td_pw_fn td_pw_table_##ISA[][TD_BODY_COUNT];                                                          \
    extern const td_pw_fn td_casts_##ISA[TD_DTYPE_COUNT][TD_DTYPE_COUNT];                                              \
    void td_transpose_##ISA(void *, int64_t, const void *, int64_t, int, int64_t, int);                                \
    td_stream_fn td_stream_##ISA;                                                                                      \
    extern const td_reducers td_reduce_##ISA;                                                                          \
    extern const td_philox_fns td_philox_##ISA;                                                                        \
    extern const td_gemm_kernel td_gemm_##ISA;                                                                         \
    extern const td_softmax_cols td_softmax_##ISA;                                                                     \
    extern const td_products td_product_##ISA;                                                                         \
    extern const td_recurrents td_recurrent_##ISA;                                                                     \
    extern const td_attentions td_attention_##ISA;                                                                     \
    extern const td_pools td_pool_##ISA;                                                                               \
    static const td_isa isa_##ISA = {#ISA,                                                                             \
                                     LEVEL,                                                                            \
                                     td_pw_table_##ISA,                                                                \
                                     td_casts_##ISA,                                                                   \
                                     td_transpose_##ISA,                                                               \
                                     td_stream_##ISA,                                                                  \
                                     &td_reduce_##ISA,                                                                 \
                                     &td_philox_##ISA,                                                                 \
                                     &td_gemm_##ISA,                                                                   \
                                     &td_softmax_##ISA,                                                                \
                                     &td_product_##ISA,                                                                \
                                     &td_recurrent_##ISA,                                                              \
                                     &td_attention_##ISA,                                                              \
                                     &td_pool_##ISA};

DECLARE(base, 0)
const td_isa *td_isa_now = &isa_base;

#if defined(__x86_64__) && defined(TD_HAVE_WIDE)
DECLARE(v3, 1)
DECLARE(v4, 2)
static const td_isa *const sets[] = {&isa_base, &isa_v3, &isa_v4};
#else
static const td_isa *const sets[] = {&isa_base};
#endif

int td_isa_level(void)
{
    return td_processor_level();
}

bool td_isa_use(int level)
{
    if (level < 0 || level > td_isa_level()) return false;
    td_isa_now = sets[level];
    return true;
}

int td_isa_used(void)
{
    return td_isa_now->level;
}
