/* CUDA's kernels beside the CPU's: one call, written as text (tests/unit/op_calls.h), run by both plans from the same
 * bytes, and how far the results are apart.
 *
 * It stands on a `device`: memory and launches. That is the host where kernels are built for it
 * (tests/unit/kernels/test_cuda.c), or a GPU (tests/cuda/rows.c). What a kernel may write lies between patterns, so
 * that what it writes beside is found. */
#ifndef TENSORD_TESTS_CUDA_AGREE_H
#define TENSORD_TESTS_CUDA_AGREE_H

#include "daemon/kernels/cuda/launch.h"

typedef struct agree_device {
    void *(*alloc)(size_t bytes);
    void (*free)(void *at);
    void (*write)(void *to, const void *from, size_t bytes);
    void (*read)(void *to, const void *from, size_t bytes);
    /* false: it could not be launched, and `why` says so. */
    bool (*launch)(const td_cuda_launch *l, char *why, size_t room);
    bool (*finish)(char *why, size_t room); /* wait for all */
    void (*shut)(void *at, size_t bytes,
                 bool shut); /* may be NULL: no launch may touch these bytes until they are opened again */
} agree_device;

/* What floats are filled with. Whole numbers are small in all. */
enum agree_fill {
    AGREE_EXACT, /* eighths of small numbers: sums of them have no rounding */
    AGREE_WILD,  /* all sizes, now and then 0, infinite, NaN */
    AGREE_UNIT,  /* between 0 and 1 */
    AGREE_INDEX  /* as EXACT; whole numbers of any input are below `limit` */
};

typedef struct agree_row {           /* what was seen of an op */
    unsigned calls, refused, failed; /* refused: by the plan, for a dtype; failed: further apart than was allowed */
    double worst;                    /* units in the last place */
    char text[400], why[200];        /* of the worst call, or of the last that failed */
} agree_row;

typedef struct agree_case {
    const char *text;
    enum agree_fill fill;
    int64_t limit;
    bool wraps;     /* some of them are negative, and count from the end */
    double allowed; /* units in the last place of the result; `scaled`: of the largest element of the result */
    double floor;   /* ... which counts as this large at least */
    bool scaled;
    int out_layout; /* 0: as inferred; else rows of the result have gaps */
} agree_case;

extern uint64_t agree_random_state;
uint64_t agree_random(void);
int64_t agree_below(int64_t n);

/* True: as far as allowed, or not to be compared (the text's dtypes are none of the op). */
bool agree_run(const agree_device *d, const agree_case *c, agree_row *row);

/* One drawn call of an op, about as large as `size` elements at most; false: none is drawn for this op. */
bool agree_draw(const td_op *op, int64_t size, agree_case *c, char *text, size_t room);

#endif
