/* What a plan for CUDA leaves in the state of its call: a list of kernel launches, in the order in which they run.
 *
 * A launch is a kernel's number, how many blocks of how many threads, and one struct of arguments (args.h). Plans look
 * at shapes, dtypes and attributes alone, so the list says how work is cut whatever the load. Addresses are no part of
 * it: the list knows the places in the arguments where some stand, and `replan` writes them, of in[], of out[], and of
 * work memory, which is made before. Nothing here knows the driver. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_LAUNCH_H
#define TENSORD_DAEMON_KERNELS_CUDA_LAUNCH_H

#include "daemon/kernels/cuda/fault.h"
#include "daemon/kernels/cuda/product.h"
#include "daemon/kernels/kernel.h"

typedef struct td_cuda_launch {
    unsigned kernel; /* its number in td_cuda_kernels */
    unsigned grid[3], block[3], shared;
    unsigned bytes; /* of the arguments */
    void *args;     /* in the call's state; the first eight bytes are for the address of the task's fault */
    bool product;   /* no kernel: a library computes it, and the arguments are a td_cuda_product */
} td_cuda_launch;

/* The launch that computes a product where the library has no way to; its arguments go to `args`. */
enum { TD_CUDA_INSTEAD_BYTES = 232 };
void td_cuda_instead(const td_cuda_product *p, void *args, td_cuda_launch *l);

/* Generated: the kernels by their numbers, and the image (images.h) that each is in. */
typedef struct td_cuda_kernel {
    const char *name;
    uint16_t image, bytes;
} td_cuda_kernel;
extern const td_cuda_kernel td_cuda_kernels[];
extern const unsigned td_cuda_kernel_count;

/* The plans by op id; NULL: the op has no kernel for CUDA, or runs nothing. */
extern const td_plan_fn td_cuda_plans[];

/* How many launches a planned call has, and launch i of them. */
int td_cuda_count(const td_kcall *k);
void td_cuda_launch_at(td_kcall *k, int i, td_cuda_launch *l);

/* The launches of a copy come behind those of another call, in the same task: they write nothing when those have left a
 * fault. */
void td_cuda_behind(td_kcall *copy);

/* What a fault means, as a failure of the call, in the words of the CPU's kernels. */
void td_cuda_explain(td_kcall *k, const td_cuda_fault *f);

/* ---- for plans */

enum td_cuda_place_kind { TD_CUDA_IN, TD_CUDA_OUT, TD_CUDA_WORK, TD_CUDA_NUMBER, TD_CUDA_SEED };

/* A place in the arguments: the address of in[index], of out[index], of work memory from `at` on; or the value of
 * in[index], which is a number, as `index` says below. */
typedef struct td_cuda_place {
    uint16_t offset; /* in the arguments */
    uint8_t kind, index;
    uint32_t more; /* of work memory: units of 64 bytes; of a number: the body that reads it, and 256 times the dtype
                      that it is rounded to first */
} td_cuda_place;

/* Append a launch. The arguments are copied. False: the list is full (the plan asked for too much). */
typedef struct td_cuda_shape {
    unsigned grid[3], block[3], shared;
} td_cuda_shape;
bool td_cuda_add(td_kcall *k, unsigned kernel, td_cuda_shape shape, const void *args, size_t bytes,
                 const td_cuda_place *places, int nplaces);
/* A further launch with the arguments of the last one. */
bool td_cuda_again(td_kcall *k, unsigned kernel, td_cuda_shape shape);
/* Instead of a list: `count` launches that `make` makes when they are asked for, from more arguments than a state
 * holds. Its own notes: so many bytes of the state, zeros now. */
typedef void (*td_cuda_make_fn)(td_kcall *k, void *notes, int i, td_cuda_launch *l);
void *td_cuda_made(td_kcall *k, int count, td_cuda_make_fn make, size_t bytes);
/* Before the first launch, and when all are there. ns: what the device is busy for. */
void td_cuda_begin(td_kcall *k);
int td_cuda_end(td_kcall *k, double ns, td_error *e);
/* Refuse a dtype. */
int td_cuda_refuse(const td_kcall *k, unsigned dtype, td_error *e);
/* Reserve work memory; where it begins. */
static inline size_t td_cuda_work(td_kcall *k, size_t bytes)
{
    size_t at = (k->work_bytes + 63) & ~(size_t)63;
    k->work_bytes = at + bytes;
    return at;
}
static inline unsigned td_cuda_blocks(int64_t n, int64_t per)
{
    return (unsigned)((n + per - 1) / per);
}
/* Blocks of threads for `n` elements, of a kernel that walks on by the grid. */
static inline td_cuda_shape td_cuda_over(int64_t n)
{
    int64_t blocks = (n + 255) / 256;
    return (td_cuda_shape){{(unsigned)(blocks < 1 << 15 ? blocks : 1 << 15), 1, 1}, {256, 1, 1}, 0};
}
/* Time on the device: memory at 3 TB/s, and what a launch takes. */
static inline double td_cuda_ns(double bytes)
{
    return bytes / 3000.0;
}

#endif
