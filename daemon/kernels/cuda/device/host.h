/* The kernels on the host, as a stand-in for a driver finds them: a table that the shared object exports.
 *
 * `run` runs a whole grid on the calling thread, at addresses of the host. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_HOST_H
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_HOST_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_host_kernel {
    const char *name;
    unsigned bytes; /* of its arguments */
    void (*run)(const unsigned *grid, const unsigned *block, unsigned shared, const void *args);
} td_host_kernel;

extern const td_host_kernel td_host_kernels[];
extern const unsigned td_host_kernel_count;

#ifdef __cplusplus
}
#endif
#endif
