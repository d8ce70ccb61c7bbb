/* Descriptors: dtype, shape, strides and offset of a tensor over some storage (semantics T1).
 *
 * Invariant of every descriptor that passed td_desc_check(): ndim <= TD_MAX_DIMS, sizes are not negative, the reached
 * byte range fits in int64 without overflow, and its elements, each counted although a stride of 0 repeats it, and a
 * size of 0 as 1, take at most TD_DESC_BYTES: so kernels may multiply sizes by small numbers. So may they with strides:
 * one that nothing steps by, and that is larger, is 0 in what inference gives. Strides and offset count elements; the
 * offset is from the first byte of the storage. Negative strides do not occur (as in PyTorch). Descriptors are plain
 * values, immutable once a tensor has one. */
#ifndef TENSORD_PROTO_BASE_DESC_H
#define TENSORD_PROTO_BASE_DESC_H

#include "proto/base/dtype.h"
#include "proto/base/status.h"

typedef struct td_desc {
    int64_t shape[TD_MAX_DIMS];
    int64_t stride[TD_MAX_DIMS];
    int64_t offset;
    uint8_t dtype; /* td_dtype */
    uint8_t ndim;
    uint8_t device; /* td_device */
    uint8_t layout; /* td_layout */
    uint32_t reserved;
} td_desc;

#define TD_DESC_BYTES (INT64_C(1) << 48) /* more than any storage has */

/* Fill *d as a contiguous (row-major) CPU descriptor of offset 0. Fails with TD_E_SHAPE on a negative size, too many
 * dimensions, or a product that is too large, and leaves *d alone. `shape` may be d's own. */
int td_desc_contiguous(td_desc *d, td_dtype dtype, int ndim, const int64_t *shape, td_error *e);
/* Recompute row-major strides and offset 0 for the shape that is there (a checked shape). */
void td_desc_pack(td_desc *d);
/* Check a descriptor from outside against a storage of `nbytes` bytes. */
int td_desc_check(const td_desc *d, uint64_t nbytes, td_error *e);

/* Number of elements; 1 for 0-d. */
int64_t td_desc_numel(const td_desc *d);
/* Bytes that a contiguous tensor of this shape takes. */
uint64_t td_desc_nbytes(const td_desc *d);
bool td_desc_is_contiguous(const td_desc *d);
/* Does it fill a block so that the channels (dimension 1) of a place lie side by side, of (N, C, H, W) or (N, C, D, H,
 * W), and not row by row as well? A picture has more than one row and column: what was of three dimensions, and turned,
 * is none. Nor is a single one that was turned, whose stride from image to image is too small. */
bool td_desc_is_channels_last(const td_desc *d);
/* Recompute such strides, and offset 0, for a checked shape of 4 or 5 dimensions. */
void td_desc_pack_channels_last(td_desc *d);
/* True when the elements fill a block without gaps or overlaps, in some order of dimensions. */
bool td_desc_is_dense(const td_desc *d);
/* Byte interval [*lo, *hi) of the storage that elements may touch; empty (0,0) when there are none. */
void td_desc_extent(const td_desc *d, uint64_t *lo, uint64_t *hi);
/* True when two elements may share a place (an expanded tensor): writing through it is refused (T2). */
bool td_desc_self_overlaps(const td_desc *d);
bool td_desc_same_shape(const td_desc *a, const td_desc *b);
/* Same shape, dtype, strides and offset. */
bool td_desc_equal(const td_desc *a, const td_desc *b);

/* Wrap a dimension (negative counts from the end; 0-d counts as one dimension). On failure TD_E_INDEX as PyTorch says it:
 * "Dimension out of range (expected to be in range of [-2, 1], but got 5)". */
int td_wrap_dim(int64_t dim, int ndim, int *out, td_error *e);
/* Broadcast shape b into the accumulated shape a (numpy rules). TD_E_SHAPE names both sizes and the dimension. */
int td_broadcast(int64_t *a_shape, int *a_ndim, const int64_t *b_shape, int b_ndim, td_error *e);
/* *out = d seen with the given (broadcast-compatible) shape, stride 0 where it was expanded. Never fails on a shape that
 * td_broadcast produced from d. */
void td_desc_broadcast_to(const td_desc *d, int ndim, const int64_t *shape, td_desc *out);

/* "float32[2, 3]" into buf, always terminated; returns buf. 128 bytes are always enough. */
const char *td_desc_text(const td_desc *d, char *buf, size_t size);
/* "[2, 3]" into buf. */
const char *td_shape_text(int ndim, const int64_t *shape, char *buf, size_t size);

#endif
