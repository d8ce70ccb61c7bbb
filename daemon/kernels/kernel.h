/* What a kernel is: raw pointers and descriptors in, bytes out. The one door of this room.
 *
 * A kernel is a plan function. It looks at shapes, dtypes and attributes only (never at data), and says how the work is cut:
 * up to TD_MAX_PHASES phases of chunks; chunks of one phase may run at once, phases follow each other. How work is cut follows
 * from shapes alone, never from the number of threads, so the bits are the same whatever the load. Chunks aim at
 * 50-200 us. Whoever calls a plan provides work memory and scratch and runs the chunks: inline, or over a pool.
 *
 * Kernels know no tensors, sessions or gradients. Data may change while a kernel reads it: a value that decides an
 * address is loaded once, checked, then used. */
#ifndef TENSORD_DAEMON_KERNELS_KERNEL_H
#define TENSORD_DAEMON_KERNELS_KERNEL_H

#include "proto/base/breath.h"
#include "proto/ops/op.h"
#include "shm/need.h"
#include <stdatomic.h>

#define TD_MAX_PHASES 6
#define TD_KSTATE_BYTES 896
#define TD_KPACK_KEY 24 /* words */

typedef struct td_karg {
    void *data;          /* address of element 0, on the device (the descriptor's offset is already in it); of a number that of
                          * `number`, so an argument that holds one stays where it is; NULL: an absent optional */
    const td_desc *desc; /* a number given in place of a tensor comes as a 0-d descriptor */
    _Alignas(16) unsigned char number[16]; /* its value, in that dtype */
} td_karg;

/* A number: its value goes with the call, to whatever device; `data` is for kernels on the host only. */
static inline bool td_karg_is_number(const td_karg *a)
{
    return a->data == a->number;
}

typedef struct td_kcall td_kcall;

/* Run chunk `chunk` of a phase. `scratch` is this thread's own, 64-byte aligned, of k->scratch_bytes. */
typedef void (*td_chunk_fn)(td_kcall *k, int64_t chunk, void *scratch);

typedef void (*td_replan_fn)(td_kcall *k);

/* A part of out[0]: `runs` of `length` elements that follow each other in memory, the first of them `at` elements
 * behind the beginning, each `step` behind the last. */
typedef struct td_kpart {
    int64_t at, runs, length, step;
} td_kpart;

typedef struct td_phase {
    td_chunk_fn fn;
    int64_t chunks;
} td_phase;

/* What the first phase makes of one input, which could be kept for the next call: the input laid out anew. It is that
 * phase's chunks from `from` on, each of which says td_prepack_made at its end, and lies in `bytes` of work memory that
 * nothing else is in, unless the call is given a td_prepack. */
typedef struct td_packing {
    uint8_t in; /* 1 + the input's number; 0: there is nothing of this kind */
    int64_t from;
    size_t bytes, at; /* at: where in work memory */
    /* What beside the input's bytes and descriptor decides how they are laid out: so many words, written to key. */
    int (*key)(const td_kcall *k, int64_t key[TD_KPACK_KEY]);
} td_packing;

typedef struct td_prepack {
    void *memory;
    _Atomic int64_t made; /* chunks that have written their part */
} td_prepack;

struct td_kcall {
    /* given */
    const td_op *op;
    const td_attrs *attrs;
    const td_karg *in, *out; /* `in` flattened as in the call; outputs are allocated, uninitialised */
    uint16_t nin, nout;
    uint8_t compute; /* td_dtype from inference */
    uint8_t device;  /* where it runs */
    uint8_t libraries; /* what the device's libraries compute, in its own bits */
    uint64_t seed, counter; /* of a random op: Philox key; number of the op in its stream */
    /* filled by the plan */
    uint8_t nphases;
    uint8_t clean_phases; /* the first so many phases only read: when one of them fails, existing outputs are as they were */
    td_phase phase[TD_MAX_PHASES];
    size_t scratch_bytes; /* a thread, during a chunk */
    size_t work_bytes;    /* shared by all phases; uninitialised, 64-byte aligned, in `work` when phase 0 starts */
    double cost_ns;       /* estimate for one core, or of a device's time: decides inline or pool, fairness, and how far a session asks ahead */
    bool wants_rows;      /* nothing was planned: this way takes an out[0] that lies row by row only */
    bool lasting;         /* a chunk may be long, and a library that knows no rest is in it: not all workers are sent to such */
    bool sure;            /* no chunk ever fails, whatever it finds in its operands */
    /* For a plan that may be used again for operands that look the same at other addresses: given a copy of the first
     * state_bytes of `state`, write the addresses of in[] and out[] into it. NULL: such a call is planned anew. */
    td_replan_fn replan;
    size_t state_bytes;
    /* What a chunk of the last phase writes of out[0], which has no gaps, and no other chunk: what comes behind can go
     * on there at once. NULL: nobody can say. */
    void (*wrote)(const td_kcall *k, int64_t chunk, td_kpart *part);
    td_packing packing;
    _Alignas(16) unsigned char state[TD_KSTATE_BYTES]; /* the plan's own notes for its chunks */
    /* given between plan and run */
    void *work;
    td_prepack *prepack; /* where what `packing` says is, or is made; NULL: in `work` */
    /* result: the first failure of any chunk */
    _Atomic int failed;
    td_error error;
};

/* Where chunks find what is packed, and put it. */
static inline void *td_prepack_at(const td_kcall *k)
{
    return k->prepack ? k->prepack->memory : (char *)k->work + k->packing.at;
}
static inline void td_prepack_made(const td_kcall *k)
{
    if (k->prepack) atomic_fetch_add_explicit(&k->prepack->made, 1, memory_order_release);
}

/* Have all chunks said so? */
static inline bool td_prepack_is_whole(const td_kcall *k)
{
    return k->nphases &&
           atomic_load_explicit(&k->prepack->made, memory_order_acquire) == k->phase[0].chunks - k->packing.from;
}
/* The operand is prepacked: what is left of the first phase. */
static inline void td_prepack_leave_out(td_kcall *k)
{
    if (k->packing.from) {
        k->phase[0].chunks = k->packing.from;
        return;
    }
    k->nphases--;
    for (int i = 0; i < k->nphases; i++) k->phase[i] = k->phase[i + 1];
    if (k->clean_phases) k->clean_phases--;
}

/* Returns 0, or TD_E_UNSUPPORTED for a dtype or layout it does not take (named in `e`). k's "given" part is set, the rest is zero
 * but for `state`, which is uninitialised. */
typedef int (*td_plan_fn)(td_kcall *k, td_error *e);

/* What a plan needs may take long to make: a library, the code of a convolution. Where who plans may wait for that
 * (td_kernel_may_wish, of this thread), the first such wish is noted, and the plan is for nothing, whatever it says:
 * who plans takes the wish over, has it made by any thread, and plans again. A wish that nobody took over is forgotten
 * by the next plan that may wish. */
void td_kernel_may_wish(bool may);
/* With a copy of these bytes. False: it must be made here and now. */
bool td_kernel_wish(void (*make)(const void *arg), const void *arg, size_t bytes);
bool td_kernel_wishes(void);
td_need_work td_kernel_wished(void);

/* For a plan: it is good for other addresses, too, which `addresses` writes into the first `bytes` of `state`. */
static inline void td_plan_moves(td_kcall *k, td_replan_fn addresses, size_t bytes)
{
    k->replan = addresses;
    k->state_bytes = bytes;
}
/* The same where there are none in the state: chunks take them from in[] and out[]. */
void td_plan_moves_freely(td_kcall *k, size_t bytes);

/* For the plan of an op with the flag out_strided that cannot write this layout: it is asked again, with a temporary. */
static inline int td_plan_wants_rows(td_kcall *k)
{
    k->wants_rows = true;
    return 0;
}

/* For a chunk: record a failure. The first one wins; chunks that have begun run on, but for those that rest. */
void td_kernel_fail(td_kcall *k, td_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* For a chunk whose length a shape decides: call it between parts of some ten microseconds at most. It gives way to who
 * else wants the processor. True: the call has failed, or nobody wants its result any more; return at once, whatever is
 * written then. */
static inline bool td_kernel_rest(td_kcall *k)
{
    td_breathe();
    return atomic_load_explicit(&k->failed, memory_order_relaxed) != 0;
}

/* The same in loops over parts of a row: after so many elements. *done counts since the last time; 0 at first. */
#define TD_REST_ELEMENTS 16384
static inline bool td_kernel_rest_after(td_kcall *k, int64_t *done, int64_t elements)
{
    if ((*done += elements) < TD_REST_ELEMENTS) return false;
    *done = 0;
    return td_kernel_rest(k);
}

/* The CPU's plans, indexed by op id; NULL for views and for ops without one. Generated; a kernel that the table names and nobody
 * wrote is a link error. */
extern const td_plan_fn td_cpu_plans[];

/* Once in each thread that will run chunks (and in the loop thread): one OpenMP thread, denormals kept. */
void td_cpu_thread_init(void);
/* Once in the process, before threads start: choose instruction sets and the BLAS core type. */
void td_cpu_init(void);
/* "avx512 | OpenBLAS 0.3.21 SkylakeX | oneDNN 2.6.3": what was chosen, for doctor and the log. */
const char *td_cpu_describe(void);

/* Plan and run a call on this thread: the reference way, for tests and small work. Allocates work and scratch itself. */
int td_kernel_run(td_plan_fn plan, td_kcall *k, td_error *e);

#endif
