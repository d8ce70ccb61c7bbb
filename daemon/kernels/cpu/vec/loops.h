/* What the generated pointwise loops need: types, functions and attributes by body type. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_LOOPS_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_LOOPS_H

#include "daemon/kernels/cpu/loop.h"
#include "daemon/kernels/cpu/vec/isa.h"
#include "daemon/kernels/cpu/vec/math_more.h"
#include "daemon/kernels/cpu/vec/orders.h"

#define TD_PW_BLOCK 256 /* elements that a loop with several ways takes by one of them */
#define TD_UNUSED __attribute__((unused))

TD_FN float td_attr_f32(td_pw_attr a)
{
    return (float)a.re;
}
TD_FN double td_attr_f64(td_pw_attr a)
{
    return a.re;
}
TD_FN int64_t td_attr_i64(td_pw_attr a)
{
    return a.i;
}
TD_FN int32_t td_attr_i32(td_pw_attr a)
{
    return (int32_t)a.i;
}
TD_FN uint64_t td_attr_u64(td_pw_attr a)
{
    return (uint64_t)a.i;
}
TD_FN td_c64 td_attr_c64(td_pw_attr a)
{
    return td_make_c64((float)a.re, (float)a.im);
}
TD_FN td_c128 td_attr_c128(td_pw_attr a)
{
    return td_make_c128(a.re, a.im);
}

#endif
