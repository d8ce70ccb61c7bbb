/* What the lines of a text come to: steps that are an instruction or two each, whatever the processor. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_JIT_JIT_STEPS_H
#define TENSORD_DAEMON_KERNELS_CPU_JIT_JIT_STEPS_H

#include "daemon/kernels/jit.h"

enum { TD_JIT_VALUES = 512, TD_JIT_STEPS = 320 };

typedef enum td_jit_do {
    TD_JIT_ADD,
    TD_JIT_SUB,
    TD_JIT_MUL,
    TD_JIT_DIV,
    TD_JIT_MAX, /* a > b ? a : b */
    TD_JIT_MIN, /* a < b ? a : b */
    TD_JIT_AND, /* of bits */
    TD_JIT_XOR,
    TD_JIT_SQRT,   /* of b */
    TD_JIT_ROUND,  /* b, by `how` */
    TD_JIT_FMA,    /* a + b * c, rounded once */
    TD_JIT_FNMA,   /* a - b * c, rounded once */
    TD_JIT_CHOOSE, /* `how` of a and b: c, else d */
} td_jit_do;

/* Of TD_JIT_CHOOSE: as the processor's comparisons are numbered; those with "not" hold for NaN. */
enum { TD_JIT_EQ = 0, TD_JIT_NAN = 3, TD_JIT_NE = 4, TD_JIT_LT = 17, TD_JIT_LE = 18, TD_JIT_GE = 29, TD_JIT_GT = 30 };
/* Of TD_JIT_ROUND. */
enum { TD_JIT_NEAREST = 8, TD_JIT_FLOOR = 9, TD_JIT_CEIL = 10, TD_JIT_TRUNC = 11 };

typedef struct td_jit_step {
    td_jit_do what;
    uint8_t how;
    uint16_t in[4], out; /* values */
} td_jit_step;

/* A value of which nothing is used has no step. Those of sources come first: the text's, then numbers that steps want.
 */
typedef struct td_jit_steps {
    td_dtype dtype;
    uint16_t nvalues, nsteps, nkept;
    uint8_t kind[TD_JIT_VALUES];     /* td_jit_kind; TD_JIT_MADE */
    uint64_t number[TD_JIT_VALUES];  /* its bits */
    uint16_t pointer[TD_JIT_VALUES]; /* which of at[], of what is in memory */
    uint16_t kept[TD_JIT_LINES];     /* values */
    td_jit_step step[TD_JIT_STEPS];
} td_jit_steps;
enum { TD_JIT_MADE = TD_JIT_NUMBER + 1 };

/* False: some line cannot be made. */
bool td_jit_steps_of(const td_jit_text *t, td_jit_steps *s);

#endif
