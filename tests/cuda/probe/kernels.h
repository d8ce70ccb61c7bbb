/* Arguments of the probe's kernels, one struct each: what C writes and kernels.cu reads. */
#ifndef TENSORD_TESTS_CUDA_PROBE_KERNELS_H
#define TENSORD_TESTS_CUDA_PROBE_KERNELS_H

#include <stdint.h>

typedef struct fill_args { /* p[i] = a mix of seed + i */
    uint64_t p, n, seed;
} fill_args;
typedef struct check_args { /* *wrong += those that fill() would have made otherwise */
    uint64_t p, n, seed, wrong;
} check_args;
typedef struct spin_args { /* for so long, at least */
    uint64_t ns;
} spin_args;
typedef struct fault_args {
    uint64_t address; /* is written */
    int kind;
} fault_args;
enum { FAULT_ADDRESS, FAULT_ALIGN, FAULT_TRAP, FAULT_SHARED };
typedef struct wide_args { /* as large as a plan's */
    uint64_t word[50];
} wide_args;
typedef struct op_args { /* out = op(a, b, c), n of them */
    uint64_t a, b, c, out, n;
    int op, type;
} op_args;
enum { /* op_args.type: the arguments; an op beyond its type's list writes 0 */
       TYPE_F32,
       TYPE_F64,
       TYPE_NORMAL, /* a: words of Philox, n pairs; out: two floats a pair */
};
typedef struct code_args { /* byte code over float: out = program(a, b) */
    uint64_t a, b, out, n;
    int steps;
    unsigned char code[256]; /* op | register << 4 */
} code_args;

#endif
