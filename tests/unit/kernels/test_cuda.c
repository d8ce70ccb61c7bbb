/* CUDA's kernels, built for the host, beside the CPU's: drawn calls of each op that has a plan, launched straight from
 * the plan's list.
 *
 * The CPU uses its portable loops, which fuse no arithmetic, so a functor gives the same bits: what is off by one unit
 * in the last place is a mistake, but for sums and products that are cut in other ways. Under the address sanitizer
 * tensors are as long as their bytes and what stands around them (agree.h). */
#include "cunit_main.h"
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/cuda/device/host.h"
#include "tests/cuda/agree.h"
#include <stdlib.h>

#ifndef CALLS /* of each op */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CALLS 12
#else
#define CALLS 48
#endif
#endif

static unsigned launches;

static bool launch(const td_cuda_launch *l, char *why, size_t room)
{
    const td_host_kernel *k = &td_host_kernels[l->kernel];
    launches++;
    if (l->kernel >= td_host_kernel_count || strcmp(k->name, td_cuda_kernels[l->kernel].name) || k->bytes != l->bytes) {
        snprintf(why, room, "kernel %u is not %s of %u bytes", l->kernel, td_cuda_kernels[l->kernel].name, l->bytes);
        return false;
    }
    k->run(l->grid, l->block, l->shared, l->args);
    return true;
}
static bool finish(char *why, size_t room)
{
    (void)why, (void)room;
    return true;
}
static void copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
/* The address sanitizer sees a kernel's step beside a tensor, also where it only reads. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
static void shut(void *at, size_t bytes, bool shut)
{
    if (shut) ASAN_POISON_MEMORY_REGION(at, bytes);
    else ASAN_UNPOISON_MEMORY_REGION(at, bytes);
}
#define SHUT shut
#else
#define SHUT NULL
#endif
static const agree_device host = {malloc, free, copy, copy, launch, finish, SHUT};

/* Sizes that a block's threads as fibers get through. */
static unsigned check(const td_op *op, int calls, agree_row *row)
{
    char text[400];
    unsigned wrong = 0;
    agree_case c;
    for (int i = 0; i < calls && agree_draw(op, i % 8 ? 600 : i % 32 ? 9000 : 70000, &c, text, sizeof text); i++) {
        if (agree_run(&host, &c, row)) continue;
        if (++wrong == 1) printf("\n  %s\n    %s\n", row->text, row->why);
    }
    return wrong;
}

static void kernels_by_their_names(void)
{
    CU_ASSERT_EQUAL(td_host_kernel_count, td_cuda_kernel_count);
    for (unsigned i = 0; i < td_cuda_kernel_count; i++) {
        CU_ASSERT_STRING_EQUAL(td_host_kernels[i].name, td_cuda_kernels[i].name);
        CU_ASSERT_EQUAL(td_host_kernels[i].bytes, td_cuda_kernels[i].bytes);
        CU_ASSERT(td_cuda_kernels[i].bytes < 4096);
    }
}

/* Each op that has a plan is drawn, and most of its calls are run. */
static void every_op(void)
{
    unsigned ops = 0, calls = 0;
    td_cpu_init();
    CU_ASSERT(td_isa_use(0));
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        agree_row row = {0};
        if (!op || !td_cuda_plans[id]) continue;
        unsigned wrong = check(op, CALLS, &row);
        if (wrong) printf("  %s: %u of %u calls wrong\n", op->name, wrong, row.calls);
        if (!row.calls) printf("  %s: never called (%u refused)\n", op->name, row.refused);
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT(row.calls > 0);
        ops++;
        calls += row.calls;
    }
    printf(" %u ops, %u calls, %u launches ", ops, calls, launches);
    CU_ASSERT(ops >= 231 && calls >= ops * CALLS * 3 / 4);
}

TD_CUNIT_MAIN("fake_cuda_kernels", {"kernels have their numbers", kernels_by_their_names},
              {"every op as on the CPU", every_op})
