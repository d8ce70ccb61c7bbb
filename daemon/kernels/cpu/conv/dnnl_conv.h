/* oneDNN convolution primitives, made once a shape and kept in a bounded cache.
 *
 * Each primitive computes a few images on one thread, with scratch memory that the caller owns (oneDNN's own scratch
 * gave wrong results from two threads). Operands come in the user's plain layout and are reordered to what the
 * primitive wants, in the thread's own buffers. The cache is safe from any thread: whoever uses an entry holds a
 * reference for that long, and one that was evicted meanwhile is simply made again. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_CONV_DNNL_CONV_H
#define TENSORD_DAEMON_KERNELS_CPU_CONV_DNNL_CONV_H

#include "daemon/kernels/cpu/conv/dnnl_desc.h"
#include "daemon/kernels/cpu/thresholds.h"

enum { TD_DNNL_X, TD_DNNL_W, TD_DNNL_Y, TD_DNNL_OPERANDS }; /* x or dx, w or dw, out or its gradient */

typedef struct td_dnnl_key { /* compared as bytes: every field is an int64 */
    int64_t kind;            /* td_dnnl_kind */
    int64_t n, c, h, w, o, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, g, bias;
    int64_t x_last, y_last; /* channels last: from place to place so many; 0: row by row */
    int64_t w_last;         /* of what is given; what is made lies row by row */
} td_dnnl_key;

/* What oneDNN is run with: a stream, and what holds an address for each argument. In one thread's hands at a time. */
typedef struct td_dnnl_set td_dnnl_set;
enum { TD_DNNL_SETS = 16 }; /* of an entry, that are kept for the next run */

typedef struct td_dnnl_conv {
    td_dnnl_key key;
    int refs;
    bool usable; /* false: oneDNN has only its reference code for this shape */
    uint64_t used;
    dnnl_primitive_t op, reorder[TD_DNNL_OPERANDS]; /* reorder NULL: the plain layout is what is wanted */
    td_dnnl_md plain[TD_DNNL_OPERANDS], wanted[TD_DNNL_OPERANDS], bias, pad[1 + TD_DNNL_OPERANDS];
    size_t packed_bytes[TD_DNNL_OPERANDS]; /* 0 without a reorder; a multiple of 64 */
    size_t pad_bytes;                      /* scratch of the op and the reorders, a multiple of 64 */
    _Atomic(td_dnnl_set *) idle[TD_DNNL_SETS];
} td_dnnl_conv;

/* An entry with a reference, or NULL when the library or an implementation is missing. */
const td_dnnl_conv *td_dnnl_conv_get(const td_dnnl_key *key);
void td_dnnl_conv_put(const td_dnnl_conv *entry);

/* Reorder operand `i` between plain and wanted layouts, in the direction its kind needs. */
bool td_dnnl_conv_reorder(const td_dnnl_conv *d, int i, const void *plain, void *packed, void *pad);
/* Run on operands that are in the wanted layouts. */
bool td_dnnl_conv_run(const td_dnnl_conv *d, void *const operand[TD_DNNL_OPERANDS], const void *bias, void *pad);

#endif
