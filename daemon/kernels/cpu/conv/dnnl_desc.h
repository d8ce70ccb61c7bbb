/* Descriptors of oneDNN, version 2 (Debian 12) and version 3 (Debian 13) alike.
 *
 * Version 2 has descriptions of memory by value and describes an op before its primitive; version 3 has them behind
 * pointers and knows no ops. Here a description is a pointer that its owner frees, and a convolution takes one call:
 * whoever includes this need not know which version it is. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_CONV_DNNL_DESC_H
#define TENSORD_DAEMON_KERNELS_CPU_CONV_DNNL_DESC_H

#include "daemon/kernels/cpu/blas.h"

#if DNNL_VERSION_MAJOR < 3
typedef dnnl_memory_desc_t *td_dnnl_md;
typedef const dnnl_memory_desc_t *td_dnnl_const_md;
#else
typedef dnnl_memory_desc_t td_dnnl_md;
typedef const_dnnl_memory_desc_t td_dnnl_const_md;
#endif

/* Float32 memory of that shape; NULL when there is none. */
td_dnnl_md td_dnnl_md_new(const td_dnnl_api *api, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag);
/* The same with these strides, in elements. */
td_dnnl_md td_dnnl_md_strided(const td_dnnl_api *api, int ndims, const dnnl_dims_t dims, const dnnl_dims_t strides);
td_dnnl_md td_dnnl_md_copy(const td_dnnl_api *api, td_dnnl_const_md from);
void td_dnnl_md_free(const td_dnnl_api *api, td_dnnl_md md);

typedef enum { TD_DNNL_FORWARD, TD_DNNL_DATA, TD_DNNL_WEIGHTS } td_dnnl_kind;

typedef struct td_dnnl_window { /* of two dimensions; a dilation of 0 is a dense kernel */
    dnnl_dims_t strides, dilations, padding_left, padding_right;
} td_dnnl_window;

/* A convolution of that kind. `bias` may be NULL and is of the forward one; `hint` is the forward one that the other
 * kinds ask for. NULL when there is no implementation. */
dnnl_primitive_desc_t td_dnnl_conv_desc(const td_dnnl_api *api, td_dnnl_kind kind, td_dnnl_const_md x,
                                        td_dnnl_const_md w, td_dnnl_const_md bias, td_dnnl_const_md y,
                                        const td_dnnl_window *window, dnnl_primitive_attr_t attr,
                                        dnnl_primitive_desc_t hint);

#endif
