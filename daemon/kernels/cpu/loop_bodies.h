/* Types of loops that kernels on every device share: the bodies that elements are worked out in, attributes as a loop
 * gets them, and what it may find. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_LOOP_BODIES_H
#define TENSORD_DAEMON_KERNELS_CPU_LOOP_BODIES_H

#include <stdint.h>

enum td_body {
    TD_BODY_F32,
    TD_BODY_F64,
    TD_BODY_I64,
    TD_BODY_I32,
    TD_BODY_U8,
    TD_BODY_C64,
    TD_BODY_C128,
    TD_BODY_U64, /* of uint64; narrower ones compute as int64 */
    TD_BODY_COUNT
};

/* An attribute as a loop wants it: as a float, as an integer, as complex. */
typedef struct td_pw_attr {
    double re, im;
    int64_t i;
} td_pw_attr;

/* What loops find among their operands, a bit each; they return those that they found. */
enum { TD_PW_DIVIDES_BY_0 = 1, TD_PW_NO_PROBABILITY = 2, TD_PW_NO_TARGET = 4 };

#endif
