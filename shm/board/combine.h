/* The sums of groups: one result of the same elements of several inputs.
 *
 * Inputs are taken from left to right, element by element. So the bits of a result depend on the inputs and their order
 * alone: not on how the work is cut into pieces, on who does which, or on the instruction set.
 *
 * Each element of a result is written once, as what it will be. So two ranks may work on one piece at a time, as they
 * do where its first owner died: both write the same bits. */
#ifndef TENSORD_SHM_BOARD_COMBINE_H
#define TENSORD_SHM_BOARD_COMBINE_H

#include "proto/types.h"

/* Can these be combined so? Sums are of everything; a mean is of floating and complex numbers; products, smallest and
 * largest ones are of everything but complex numbers. */
bool td_combine_takes(unsigned op, unsigned dtype);
/* "sum", ...; "?" for a value that is no reduction. */
const char *td_reduce_op_name(unsigned op);

/* out[i] = in[0][i] op ... op in[n - 1][i] for `count` elements, with n at least 1 and td_combine_takes(op, dtype).
 * `out` may be in[0] where nobody else does this piece; otherwise it overlaps no input. Memory is aligned to its
 * elements.
 *
 * Integers wrap. Of bools a sum is "or", a product "and". float16 and bfloat16 are combined in float32 and rounded
 * once. A mean is the sum divided by n. A NaN of any input is a NaN in the result, of a smallest and a largest one as
 * well (which NaN, where several meet, is left open). Of 0 and -0 those two give the one that comes first.
 *
 * Gives way (td_breathe) every few KiB. */
void td_combine(td_reduce_op op, td_dtype dtype, void *out, const void *const *in, uint32_t n, uint64_t count);

/* For tests: use the loops for an instruction set, 0 base, 1 v3 (AVX2), 2 v4 (AVX-512); false where the processor or
 * the build has it not. The best is used without being asked for. */
bool td_combine_use(int level);

#endif
