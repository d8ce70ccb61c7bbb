/* See driver.h. */
#include "tests/cuda/probe/driver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { ABI = 12000 }; /* the entry points of that toolkit, whatever the driver */

drv_table drv;

const char *drv_open(void)
{
    static char words[200];
    const char *path = getenv("TENSORD_LIBCUDA");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(words, sizeof words, "%s", dlerror());
        return words;
    }
    int (*find)(const char *, void **, int, uint64_t, int *) = dlsym(library, "cuGetProcAddress_v2");
    if (!find) return "the driver has no cuGetProcAddress_v2";
    struct {
        const char *name;
        void **at;
    } calls[] = {
#define DRV_FIND(name, args) {#name, (void **)&drv.name},
        DRV_CALLS(DRV_FIND)
#undef DRV_FIND
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int status = 0;
        if (find(calls[i].name, calls[i].at, ABI, 0, &status) || !*calls[i].at) {
            snprintf(words, sizeof words, "the driver has no %s", calls[i].name);
            return words;
        }
    }
    return NULL;
}

const char *drv_name(int error)
{
    static char number[40];
    const char *name = NULL;
    if (error == 0) return "ok";
    if (drv.cuGetErrorName && drv.cuGetErrorName(error, &name) == 0 && name) return name;
    snprintf(number, sizeof number, "error %d", error); /* a process that never opened the driver words it so */
    return number;
}
