/* OpenBLAS and oneDNN, loaded at first use and always called with one thread.
 *
 * Both are opened with dlopen, for two reasons: OpenBLAS chooses its kernels in a constructor, so its environment has
 * to be set before it is loaded; and the two together are tens of megabytes that a daemon which only shares tensors
 * never needs. Once loaded, the tables of functions are constant.
 *
 * A wheel carries them: beside its daemon lie modules (carried.c) that are linked to them, and these are opened first.
 */
#ifndef TENSORD_DAEMON_KERNELS_CPU_BLAS_H
#define TENSORD_DAEMON_KERNELS_CPU_BLAS_H

#include "proto/base/status.h"
#include <cblas.h>
#include <dnnl.h>

#define TD_BLAS_FUNCTIONS(F)                                                                                           \
    F(cblas_sgemm)                                                                                                     \
    F(cblas_dgemm)                                                                                                     \
    F(cblas_cgemm)                                                                                                     \
    F(cblas_zgemm)                                                                                                     \
    F(cblas_sgemv)                                                                                                     \
    F(cblas_dgemv)                                                                                                     \
    F(cblas_sdot)                                                                                                      \
    F(cblas_ddot) F(cblas_cdotu_sub) F(cblas_zdotu_sub) F(openblas_set_num_threads) F(openblas_get_corename)           \
        F(openblas_get_config)

/* What its versions differ in is used in dnnl_desc.c only. */
#if DNNL_VERSION_MAJOR < 3
#define TD_DNNL_VERSION_FUNCTIONS(F)                                                                                   \
    F(dnnl_memory_desc_init_by_strides)                                                                                \
    F(dnnl_memory_desc_init_by_tag)                                                                                    \
    F(dnnl_primitive_desc_create)                                                                                      \
    F(dnnl_dilated_convolution_forward_desc_init)                                                                      \
    F(dnnl_dilated_convolution_backward_data_desc_init) F(dnnl_dilated_convolution_backward_weights_desc_init)
#else
#define TD_DNNL_VERSION_FUNCTIONS(F)                                                                                   \
    F(dnnl_memory_desc_create_with_strides)                                                                            \
    F(dnnl_memory_desc_create_with_tag)                                                                                \
    F(dnnl_memory_desc_clone)                                                                                          \
    F(dnnl_memory_desc_destroy)                                                                                        \
    F(dnnl_convolution_forward_primitive_desc_create)                                                                  \
    F(dnnl_convolution_backward_data_primitive_desc_create) F(dnnl_convolution_backward_weights_primitive_desc_create)
#endif

#define TD_DNNL_FUNCTIONS(F)                                                                                           \
    TD_DNNL_VERSION_FUNCTIONS(F)                                                                                       \
    F(dnnl_sgemm)                                                                                                      \
    F(dnnl_version)                                                                                                    \
    F(dnnl_engine_create)                                                                                              \
    F(dnnl_stream_create)                                                                                              \
    F(dnnl_stream_destroy)                                                                                             \
    F(dnnl_stream_wait)                                                                                                \
    F(dnnl_memory_create)                                                                                              \
    F(dnnl_memory_set_data_handle)                                                                                     \
    F(dnnl_memory_destroy) F(dnnl_memory_desc_get_size) F(dnnl_memory_desc_equal) F(dnnl_primitive_attr_create)        \
        F(dnnl_primitive_attr_destroy) F(dnnl_primitive_attr_set_scratchpad_mode) F(dnnl_primitive_desc_destroy)       \
            F(dnnl_primitive_desc_query) F(dnnl_primitive_desc_query_md) F(dnnl_reorder_primitive_desc_create)         \
                F(dnnl_primitive_create) F(dnnl_primitive_destroy) F(dnnl_primitive_execute)                           \
                    F(dnnl_set_primitive_cache_capacity)

typedef struct td_blas_api {
#define F(name) __typeof__(&name) name;
    TD_BLAS_FUNCTIONS(F)
#undef F
} td_blas_api;

typedef struct td_dnnl_api {
#define F(name) __typeof__(&name) name;
    TD_DNNL_FUNCTIONS(F)
#undef F
    dnnl_engine_t engine;
} td_dnnl_api;

/* Once, before any thread is started: sets the environment that the libraries read when they load. Loads nothing. */
void td_cpu_blas_init(void);
/* In each thread that runs chunks. The accessors below repeat it for a thread that came before the library. */
void td_cpu_blas_thread_init(void);
/* "OpenBLAS 0.3.21 SkylakeX | oneDNN 2.6.3"; says "not loaded" for what was not needed yet. Never loads. */
const char *td_cpu_blas_describe(void);

/* All that a carried module has of its own; the library's functions are found through the module's handle. */
void (*td_cpu_carried(void))(void);

/* The functions, loaded at the first call; NULL with a message when the library cannot be had (the first failure is
 * remembered), without one to a plan that wishes for it (kernel.h). Safe from any thread. */
const td_blas_api *td_blas(td_error *e);
const td_dnnl_api *td_dnnl(td_error *e);
/* Any function of OpenBLAS, once td_blas() has given the table; NULL when it has none of that name. */
void *td_blas_find(const char *name);

#endif
