/* Loading OpenBLAS and oneDNN. Invariant: a table of functions is either complete or not handed out, and
 * OMP_NUM_THREADS=1 is in the environment before libgomp can read it. */
#include "daemon/kernels/cpu/blas.h"
#include "daemon/kernels/kernel.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

typedef struct library {
    void *handle;
    atomic_bool tried, ready;
    char problem[200];
} library;

static library openblas, onednn;
static td_blas_api blas_api;
static td_dnnl_api dnnl_api;
static void (*set_omp_threads)(int);
static _Thread_local bool omp_is_set;

void td_cpu_blas_init(void)
{
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
#if defined(__x86_64__)
    /* OpenBLAS up to 0.3.21 takes an AMD processor with AVX-512 for a Zen 2 and loses half the speed. */
    __builtin_cpu_init();
    if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
#endif
}

/* What lies beside the program comes first: a wheel brings its own. */
static bool open_library(library *lib, const char *carried, const char *name, const char *fallback)
{
    lib->handle = dlopen(carried, RTLD_NOW | RTLD_LOCAL);
    if (!lib->handle) lib->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!lib->handle) lib->handle = dlopen(fallback, RTLD_NOW | RTLD_LOCAL);
    if (!lib->handle) snprintf(lib->problem, sizeof lib->problem, "cannot load %s: %s", name, dlerror());
    return lib->handle != NULL;
}

static void *find(library *lib, const char *name)
{
    void *f = dlsym(lib->handle, name);
    if (!f) snprintf(lib->problem, sizeof lib->problem, "the library has no %s", name);
    return f;
}

static void find_blas(void)
{
    if (!open_library(&openblas, "$ORIGIN/carried-openblas.so", "libopenblas.so.0", "libopenblas.so")) return;
#define F(name)                                                                                                        \
    if (!(*(void **)&blas_api.name = find(&openblas, #name))) return;
    TD_BLAS_FUNCTIONS(F)
#undef F
    blas_api.openblas_set_num_threads(1);
    atomic_store(&openblas.ready, true);
}

static void find_dnnl(void)
{
    if (!open_library(&onednn, "$ORIGIN/carried-onednn.so", TD_DNNL_NAME, "libdnnl.so." TEXT(DNNL_VERSION_MAJOR)))
        return;
#define F(name)                                                                                                        \
    if (!(*(void **)&dnnl_api.name = find(&onednn, #name))) return;
    TD_DNNL_FUNCTIONS(F)
#undef F
    const dnnl_version_t *v = dnnl_api.dnnl_version();
    if (v->major != DNNL_VERSION_MAJOR) { /* its structures are others */
        snprintf(onednn.problem, sizeof onednn.problem, "oneDNN %d is here, but this was built with %d", v->major,
                 DNNL_VERSION_MAJOR);
        return;
    }
    *(void **)&set_omp_threads = dlsym(onednn.handle, "omp_set_num_threads"); /* absent in a build without OpenMP */
    if (set_omp_threads) set_omp_threads(1);
    if (dnnl_api.dnnl_engine_create(&dnnl_api.engine, dnnl_cpu, 0) != dnnl_success) {
        snprintf(onednn.problem, sizeof onednn.problem, "oneDNN has no CPU engine");
        return;
    }
    dnnl_api.dnnl_set_primitive_cache_capacity(0); /* primitives are kept here, bounded by shape */
    atomic_store(&onednn.ready, true);
}

static void load_blas(void)
{
    find_blas();
    atomic_store(&openblas.tried, true);
}

static void load_dnnl(void)
{
    find_dnnl();
    atomic_store(&onednn.tried, true);
}

static void have_blas(const void *unused)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)unused;
    pthread_once(&once, load_blas);
}

static void have_dnnl(const void *unused)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)unused;
    pthread_once(&once, load_dnnl);
}

/* Is it to come, made by somebody else? Otherwise it has been looked for now. */
static bool is_to_come(library *lib, void (*have)(const void *))
{
    if (atomic_load_explicit(&lib->tried, memory_order_acquire)) return false;
    if (td_kernel_wish(have, NULL, 0)) return true;
    have(NULL);
    return false;
}

const td_blas_api *td_blas(td_error *e)
{
    if (is_to_come(&openblas, have_blas)) return NULL;
    if (atomic_load_explicit(&openblas.ready, memory_order_acquire)) return &blas_api;
    td_fail(e, TD_E_UNSUPPORTED, "OpenBLAS is needed: %s", openblas.problem);
    return NULL;
}

void *td_blas_find(const char *name)
{
    return dlsym(openblas.handle, name);
}

const td_dnnl_api *td_dnnl(td_error *e)
{
    if (is_to_come(&onednn, have_dnnl)) return NULL;
    if (!atomic_load_explicit(&onednn.ready, memory_order_acquire)) {
        td_fail(e, TD_E_UNSUPPORTED, "oneDNN is needed: %s", onednn.problem);
        return NULL;
    }
    td_cpu_blas_thread_init();
    return &dnnl_api;
}

void td_cpu_blas_thread_init(void)
{
    if (omp_is_set || !atomic_load_explicit(&onednn.ready, memory_order_acquire)) return;
    if (set_omp_threads) set_omp_threads(1);
    omp_is_set = true;
}

static void describe_blas(char *buf, size_t size)
{
    /* "OpenBLAS 0.3.21 NO_LAPACKE ...": the first two words are wanted. */
    const char *config = blas_api.openblas_get_config();
    const char *space = strchr(config, ' ');
    const char *end = space ? strchr(space + 1, ' ') : NULL;
    int length = end ? (int)(end - config) : (int)strlen(config);
    snprintf(buf, size, "%.*s %s", length, config, blas_api.openblas_get_corename());
}

const char *td_cpu_blas_describe(void)
{
    static _Thread_local char text[160];
    char blas[80] = "OpenBLAS not loaded", dnnl[60] = "oneDNN not loaded";
    if (atomic_load(&openblas.ready)) describe_blas(blas, sizeof blas);
    if (atomic_load(&onednn.ready)) {
        const dnnl_version_t *v = dnnl_api.dnnl_version();
        snprintf(dnnl, sizeof dnnl, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    }
    snprintf(text, sizeof text, "%s | %s", blas, dnnl);
    return text;
}
