/* Finding the driver: see driver.h. */
#include "shm/cuda/driver.h"
#include <dlfcn.h>
#include <stdlib.h>

typedef CUresult (*get_address)(const char *name, void **function, int version, unsigned long long flags,
                                CUdriverProcAddressQueryResult *status);

typedef struct wanted {
    const char *name;
    int version;
    size_t at; /* in the table */
} wanted;

static const wanted all[] = {
#define WANTED(name, version, parameters) {#name, version, offsetof(td_cuda_driver, name)},
    TD_CUDA_FUNCTIONS(WANTED)
#undef WANTED
};

int td_cuda_driver_open(td_cuda_driver *d, td_error *e)
{
    const char *path = getenv("TENSORD_LIBCUDA");
    if (!path || !*path) path = "libcuda.so.1";
    *d = (td_cuda_driver){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!d->library) return td_fail(e, TD_E_DEVICE, "no CUDA driver: %s", dlerror());
    get_address get = NULL;
    *(void **)&get = dlsym(d->library, "cuGetProcAddress_v2");
    if (!get)
        return td_fail(e, TD_E_DEVICE, "%s has no cuGetProcAddress_v2: it is older than CUDA 12 (driver 525)", path);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void **slot = (void **)((char *)d + all[i].at);
        CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
        if (get(all[i].name, slot, all[i].version, 0, &status) || !*slot)
            return td_fail(e, TD_E_DEVICE, "%s has no %s of CUDA %d.%d", path, all[i].name, all[i].version / 1000,
                           all[i].version % 1000 / 10);
    }
    return TD_OK;
}

int td_cuda_failed(const td_cuda_driver *d, const char *call, int code, td_error *e)
{
    const char *name = NULL, *text = NULL;
    if (d->cuGetErrorName) d->cuGetErrorName((CUresult)code, &name);
    if (d->cuGetErrorString) d->cuGetErrorString((CUresult)code, &text);
    return td_fail(e, code == CUDA_ERROR_OUT_OF_MEMORY ? TD_E_MEMORY : TD_E_DEVICE, "%s: %s (%s)", call,
                   text ? text : "the driver does not say", name ? name : "?");
}
