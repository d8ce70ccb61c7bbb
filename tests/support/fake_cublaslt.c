/* A library that stands in for libcublasLt.so.13 (TENSORD_CUDA_LIBRARIES) beside the fake driver, and is stricter than
 * cuBLASLt. It works as that does: through the driver's own functions, by a kernel of its own, in the stream that it is
 * given. The kernel is this file once more, as an image.
 *
 * The order of sums depends on the alignment that was promised, so a way that changes with addresses shows in the bits.
 * Each product writes a mark to its workspace and finds it at its end, or its result is no number.
 *
 * What cuBLASLt may let pass is misuse here, told to FAKE_CUDA_LOG, and ends the process: things after their end,
 * values of another size, addresses that keep no promise, matrices that leave their memory, a way of another product,
 * ways that split k, too small a workspace, factors that overlap the result.
 *
 *     FAKE_CUBLASLT_FAIL=N       the N-th call that gives a status fails
 *     FAKE_CUBLASLT_FAIL=NAME:N  the N-th call of this function
 *     FAKE_CUBLASLT_WRONG=DTYPE  its products are wrong
 *     FAKE_CUBLASLT_SPLITS=1     offers a way that splits k first, though it was asked for none
 *     FAKE_CUBLASLT_NO_WAY=none|refused|splits  for k from 64 on it offers nothing, says so, or splits k alone
 *     FAKE_CUBLASLT_DIES=1       ends the process when it is opened
 */
#include "daemon/cuda/helper/cublaslt.h"
#include "daemon/kernels/cuda/device/host.h"
#define FAKE_NAME "fake cublasLt"
#include "tests/support/fake_log.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
enum { HANDLE = 0x6c74, LAYOUT, DESC, PREFERENCE, ALGO, DEAD, MOST = 4096, WORKSPACE_LEAST = 1 << 20 };
enum { INTERNAL_ERROR = 14, EXECUTION_FAILED = 13 };

static struct {
    int live;
    long calls, fail;
    char fail_name[48];
} fake;

__attribute__((constructor)) static void begin(void)
{
    const char *fail = getenv("FAKE_CUBLASLT_FAIL");
    const char *colon = fail ? strchr(fail, ':') : NULL;
    if (colon) snprintf(fake.fail_name, sizeof fake.fail_name, "%.*s", (int)(colon - fail), fail);
    fake.fail = fail ? atol(colon ? colon + 1 : fail) : 0;
    open_log();
}

static cublasStatus_t enter(const char *name)
{
    tell("%s", name);
    if (fake.fail_name[0] && strcmp(name, fake.fail_name)) return CUBLAS_STATUS_SUCCESS;
    if (++fake.calls != fake.fail) return CUBLAS_STATUS_SUCCESS;
    tell("%s fails as asked", name);
    return (cublasStatus_t)INTERNAL_ERROR;
}

/* ---- things. What has ended is kept, so that its use is seen */

struct cublasLtContext {
    int magic;
    td_cuda_driver d;
    CUmodule module;
    CUfunction kernel;
};
struct cublasLtMatrixLayoutOpaque_t {
    int magic, type;
    uint64_t rows, columns;
    int64_t ld, step;
    int32_t batch;
};
struct cublasLtMatmulDescOpaque_t {
    int magic, compute, scale, turned[2];
};
struct cublasLtMatmulPreferenceOpaque_t {
    int magic;
    uint64_t workspace;
    uint32_t scheme, alignment[4];
    unsigned set;
};

static void *thing(int magic, size_t bytes)
{
    int *t = calloc(1, bytes);
    if (!t) abort();
    *t = magic;
    if (++fake.live > MOST) misuse("%d things that nobody ends", fake.live);
    return t;
}

static void must_be(const void *t, int magic, const char *what)
{
    if (!t || *(const int *)t != magic) misuse("a %s that there is not", what);
}

static void end_thing(void *t, int magic, const char *what)
{
    must_be(t, magic, what);
    *(int *)t = DEAD;
    fake.live--;
}

static void take(void *to, size_t size, const void *value, size_t bytes, const char *what)
{
    if (!value || bytes != size) misuse("%s of %zu bytes, which has %zu", what, bytes, size);
    memcpy(to, value, bytes);
}

/* ---- the kernel */

typedef struct product_args {
    uint64_t fault, a, b, d, workspace;
    uint64_t m, n, k, batch;
    int64_t ld[3], step[3];
    double alpha, beta;
    uint64_t number;
    int32_t type, turned[2], lanes, wrong, pad;
} product_args;

static float half_value(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double v = exponent ? (1024 + (h & 1023)) * 0x1p-25 * (double)(1u << exponent) : (h & 1023) * 0x1p-24;
    return (float)(exponent == 31 ? (h & 1023 ? __builtin_nan("") : __builtin_inf()) * (h >> 15 ? -1 : 1)
                   : h >> 15      ? -v
                                  : v);
}

static uint16_t half_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    double v = __builtin_fabs((double)f);
    if (!(v == v)) return sign | 0x7e00;
    if (v >= 65520) return sign | 0x7c00;
    int exponent = 0;
    while (v >= 2 && exponent < 15) v /= 2, exponent++;
    while (v < 1 && exponent > -14) v *= 2, exponent--;
    uint32_t units = (uint32_t)__builtin_rint(v * 1024); /* to even */
    return (uint16_t)(sign + (units < 1024 ? units : ((uint32_t)(exponent + 15) << 10) + (units - 1024)));
}

static double load(const product_args *p, uint64_t base, int64_t at)
{
    uint32_t bits;
    float f;
    switch (p->type) {
    case CUDA_R_64F: return ((const double *)base)[at];
    case CUDA_R_32F: return ((const float *)base)[at];
    case CUDA_R_16F: return half_value(((const uint16_t *)base)[at]);
    default:
        bits = (uint32_t)((const uint16_t *)base)[at] << 16;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
}

static void store(const product_args *p, int64_t at, double v)
{
    float f = (float)v;
    uint32_t bits;
    switch (p->type) {
    case CUDA_R_64F: ((double *)p->d)[at] = v; return;
    case CUDA_R_32F: ((float *)p->d)[at] = f; return;
    case CUDA_R_16F: ((uint16_t *)p->d)[at] = half_of(f); return;
    default:
        memcpy(&bits, &f, sizeof bits);
        if (f == f) bits += 0x7fff + (bits >> 16 & 1);
        ((uint16_t *)p->d)[at] = (uint16_t)(bits >> 16);
    }
}

static int64_t at_a(const product_args *p, int64_t i, int64_t q)
{
    return p->turned[0] ? q + i * p->ld[0] : i + q * p->ld[0];
}
static int64_t at_b(const product_args *p, int64_t q, int64_t j)
{
    return p->turned[1] ? j + q * p->ld[1] : q + j * p->ld[1];
}

/* Rounded at each step as the type of sums is; in lanes, which are added at the end. */
static double element(const product_args *p, const double *a, const double *b)
{
    double wide[4] = {0};
    float plain[4] = {0};
    for (uint64_t q = 0; q < p->k; q++) {
        int lane = (int)(q % (unsigned)p->lanes);
        if (p->type == CUDA_R_64F) wide[lane] += a[q] * b[q];
        else plain[lane] += (float)a[q] * (float)b[q];
    }
    if (p->type == CUDA_R_64F) return (wide[0] + wide[1]) + (wide[2] + wide[3]);
    return (plain[0] + plain[1]) + (plain[2] + plain[3]);
}

static void columns_of(const product_args *p, uint64_t t, double *a, double *b)
{
    const int64_t step = (int64_t)t * p->step[2];
    for (uint64_t i = 0; i < p->m; i++)
        for (uint64_t q = 0; q < p->k; q++)
            a[i * p->k + q] = load(p, p->a, (int64_t)t * p->step[0] + at_a(p, (int64_t)i, (int64_t)q));
    for (uint64_t j = 0; j < p->n; j++) {
        for (uint64_t q = 0; q < p->k; q++)
            b[q] = load(p, p->b, (int64_t)t * p->step[1] + at_b(p, (int64_t)q, (int64_t)j));
        for (uint64_t i = 0; i < p->m; i++) {
            int64_t at = step + (int64_t)i + (int64_t)j * p->ld[2];
            double v = p->alpha * element(p, a + i * p->k, b);
            if (p->beta != 0) v += p->beta * load(p, p->d, at);
            store(p, at, v + p->wrong);
        }
    }
}

static void run_product(const unsigned *grid, const unsigned *block, unsigned shared, const void *args)
{
    const product_args *p = args;
    uint64_t *mark = (uint64_t *)p->workspace;
    double *a = malloc((p->m + 1) * p->k * sizeof *a);
    (void)grid, (void)block, (void)shared;
    if (!a) abort();
    for (int i = 0; i < WORKSPACE_LEAST / 8; i += 512) mark[i] = p->number;
    for (uint64_t t = 0; t < p->batch; t++) columns_of(p, t, a, a + p->m * p->k);
    for (int i = 0; i < WORKSPACE_LEAST / 8; i += 512)
        if (mark[i] != p->number) store(p, 0, __builtin_nan(""));
    free(a);
}

PUBLIC const td_host_kernel td_host_kernels[] = {{"fake_cublaslt_product", sizeof(product_args), run_product}};
PUBLIC const unsigned td_host_kernel_count = 1;

static void *own_image(void)
{
    Dl_info info;
    struct stat st;
    int fd = dladdr((void *)run_product, &info) ? open(info.dli_fname, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st)) abort();
    void *image = malloc((size_t)st.st_size);
    if (!image || read(fd, image, (size_t)st.st_size) != st.st_size) abort();
    close(fd);
    return image;
}

/* ---- the functions */

#define DECLARE(result, name, parameters) PUBLIC result name parameters;
TD_CUBLASLT_FUNCTIONS(DECLARE)

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    cublasStatus_t status = enter("cublasLtCreate");
    td_error e;
    CUcontext context = NULL;
    if (getenv("FAKE_CUBLASLT_DIES")) _exit(3);
    if (status) return status;
    cublasLtHandle_t h = thing(HANDLE, sizeof *h);
    void *image = own_image();
    bool ready = !td_cuda_driver_open(&h->d, &e) && !h->d.cuCtxGetCurrent(&context) && context &&
                 !h->d.cuModuleLoadData(&h->module, image) &&
                 !h->d.cuModuleGetFunction(&h->kernel, h->module, "fake_cublaslt_product");
    free(image);
    *handle = h;
    if (ready) return CUBLAS_STATUS_SUCCESS;
    end_thing(h, HANDLE, "handle");
    *handle = NULL;
    return (cublasStatus_t)INTERNAL_ERROR;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    end_thing(h, HANDLE, "handle");
    return enter("cublasLtDestroy");
}

size_t cublasLtGetVersion(void)
{
    return 130000;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "an error of the fake library";
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
    cublasStatus_t status = enter("cublasLtMatrixLayoutCreate");
    if (status) return status;
    if (!rows || !columns || ld < (int64_t)rows)
        misuse("a layout of %llu rows, %lld apart", (unsigned long long)rows, (long long)ld);
    cublasLtMatrixLayout_t l = *out = thing(LAYOUT, sizeof *l);
    l->type = (int)type, l->rows = rows, l->columns = columns, l->ld = ld, l->batch = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    end_thing(l, LAYOUT, "layout");
    return enter("cublasLtMatrixLayoutDestroy");
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t what,
                                                const void *value, size_t bytes)
{
    cublasStatus_t status = enter("cublasLtMatrixLayoutSetAttribute");
    if (status) return status;
    must_be(l, LAYOUT, "layout");
    if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) take(&l->batch, sizeof l->batch, value, bytes, "a batch");
    else if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        take(&l->step, sizeof l->step, value, bytes, "a step");
    else misuse("attribute %d of a layout", (int)what);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale)
{
    cublasStatus_t status = enter("cublasLtMatmulDescCreate");
    if (status) return status;
    cublasLtMatmulDesc_t d = *out = thing(DESC, sizeof *d);
    d->compute = (int)compute, d->scale = (int)scale;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    end_thing(d, DESC, "descriptor");
    return enter("cublasLtMatmulDescDestroy");
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes)
{
    cublasStatus_t status = enter("cublasLtMatmulDescSetAttribute");
    if (status) return status;
    must_be(d, DESC, "descriptor");
    if (what != CUBLASLT_MATMUL_DESC_TRANSA && what != CUBLASLT_MATMUL_DESC_TRANSB)
        misuse("attribute %d of a descriptor", (int)what);
    take(&d->turned[what == CUBLASLT_MATMUL_DESC_TRANSB], sizeof(int32_t), value, bytes, "a turn");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    cublasStatus_t status = enter("cublasLtMatmulPreferenceCreate");
    if (status) return status;
    *out = thing(PREFERENCE, sizeof **out);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    end_thing(p, PREFERENCE, "preference");
    return enter("cublasLtMatmulPreferenceDestroy");
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void *value,
                                                    size_t bytes)
{
    cublasStatus_t status = enter("cublasLtMatmulPreferenceSetAttribute");
    if (status) return status;
    must_be(p, PREFERENCE, "preference");
    p->set |= 1u << what;
    if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) take(&p->workspace, 8, value, bytes, "a workspace");
    else if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) take(&p->scheme, 4, value, bytes, "a scheme");
    else if (what >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && what <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
        take(&p->alignment[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], 4, value, bytes, "an alignment");
    else misuse("attribute %d of a preference", (int)what);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- ways */

/* What an algorithm is for, and what was promised. */
typedef struct way {
    uint32_t magic, alignment[4], pieces;
    uint64_t workspace, looks;
    uint64_t rest[2];
} way;
_Static_assert(sizeof(way) <= sizeof(cublasLtMatmulAlgo_t), "a way fits an algorithm");

static uint64_t mix(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * UINT64_C(0x100000001b3);
}

static uint64_t looks_of(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                         cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t r)
{
    cublasLtMatrixLayout_t all[] = {a, b, c, r};
    uint64_t hash = 1469598103934665603u;
    must_be(d, DESC, "descriptor");
    hash = mix(mix(mix(mix(hash, (unsigned)d->compute), (unsigned)d->scale), (unsigned)d->turned[0]),
               (unsigned)d->turned[1]);
    for (int i = 0; i < 4; i++) {
        must_be(all[i], LAYOUT, "layout");
        hash = mix(mix(mix(hash, all[i]->rows), all[i]->columns), (uint64_t)all[i]->ld);
        hash = mix(mix(mix(hash, (uint64_t)all[i]->step), (uint64_t)all[i]->batch), (uint64_t)all[i]->type);
    }
    return hash;
}

/* Do the four fit each other, and is it a sum that somebody asked for? */
static void must_fit(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t r)
{
    uint64_t m = d->turned[0] ? a->columns : a->rows, k = d->turned[0] ? a->rows : a->columns;
    uint64_t n = d->turned[1] ? b->rows : b->columns, other = d->turned[1] ? b->columns : b->rows;
    if (k != other || r->rows != m || r->columns != n || c->rows != m || c->columns != n)
        misuse("factors that do not fit each other");
    if (a->type != b->type || a->type != r->type || a->type != c->type) misuse("types that differ");
    if (a->batch != b->batch || a->batch != r->batch || a->batch != c->batch) misuse("batches that differ");
    int compute = a->type == CUDA_R_64F   ? CUBLAS_COMPUTE_64F_PEDANTIC
                  : a->type == CUDA_R_32F ? CUBLAS_COMPUTE_32F_PEDANTIC
                                          : CUBLAS_COMPUTE_32F;
    if (d->compute != compute || d->scale != (a->type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F))
        misuse("sums of another type: %d, scaled by %d, for %d", d->compute, d->scale, a->type);
    if (r->batch > 1 && r->step < r->ld * (int64_t)(r->columns - 1) + (int64_t)r->rows)
        misuse("results that overlap each other");
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t r, cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *count)
{
    const unsigned all = 1u << 1 | 1u << 3 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8;
    cublasStatus_t status = enter("cublasLtMatmulAlgoGetHeuristic");
    *count = 0;
    if (status) return status;
    must_be(h, HANDLE, "handle");
    must_be(p, PREFERENCE, "preference");
    if (p->set != all) misuse("a preference without all that is preferred");
    if (p->scheme != CUBLASLT_REDUCTION_SCHEME_NONE) misuse("a scheme that is not NONE");
    if (p->workspace < WORKSPACE_LEAST) misuse("a workspace of %llu bytes", (unsigned long long)p->workspace);
    way w = {.magic = ALGO, .workspace = p->workspace, .pieces = 1, .looks = looks_of(d, a, b, c, r)};
    must_fit(d, a, b, c, r);
    memcpy(w.alignment, p->alignment, sizeof w.alignment);
    const char *no_way = getenv("FAKE_CUBLASLT_NO_WAY");
    if (no_way && (d->turned[0] ? a->rows : a->columns) >= 64) {
        if (!strcmp(no_way, "refused")) return CUBLAS_STATUS_NOT_SUPPORTED;
        if (!strcmp(no_way, "none")) return CUBLAS_STATUS_SUCCESS;
        wanted = 1; /* the first one, which splits */
    }
    for (w.pieces = getenv("FAKE_CUBLASLT_SPLITS") || no_way ? 4 : 1;
         w.pieces && *count<wanted; w.pieces = w.pieces> 1) {
        cublasLtMatmulHeuristicResult_t *one = &results[(*count)++];
        *one = (cublasLtMatmulHeuristicResult_t){.workspaceSize = WORKSPACE_LEAST, .wavesCount = 1};
        memcpy(&one->algo, &w, sizeof w);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t what, void *value,
                                                    size_t bytes, size_t *written)
{
    cublasStatus_t status = enter("cublasLtMatmulAlgoConfigGetAttribute");
    way w;
    if (status) return status;
    memcpy(&w, algo, sizeof w);
    if (w.magic != ALGO || bytes != 4) misuse("attribute %d of what is no algorithm", (int)what);
    uint32_t said = what == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? w.pieces : w.pieces > 1 ? 2 : 0;
    memcpy(value, &said, sizeof said);
    *written = sizeof said;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product */

static size_t size_of(int type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

static const char *name_of(int type)
{
    return type == CUDA_R_64F   ? "float64"
           : type == CUDA_R_32F ? "float32"
           : type == CUDA_R_16F ? "float16"
                                : "bfloat16";
}

typedef struct range {
    uint64_t from, to;
} range;

/* Where a matrix lies: aligned as promised, within one piece of memory. */
static range range_of(cublasLtHandle_t h, const void *at, cublasLtMatrixLayout_t l, uint32_t alignment,
                      const char *what)
{
    static CUresult (*find)(CUdeviceptr *, size_t *, CUdeviceptr);
    uint64_t elements = (uint64_t)(l->batch - 1) * (uint64_t)l->step + (l->columns - 1) * (uint64_t)l->ld + l->rows;
    range r = {(uintptr_t)at, (uintptr_t)at + elements * size_of(l->type)};
    CUdeviceptr base = 0;
    size_t bytes = 0;
    if (!find) {
        CUresult (*get)(const char *, void **, int, unsigned long long, CUdriverProcAddressQueryResult *) = NULL;
        *(void **)&get = dlsym(h->d.library, "cuGetProcAddress_v2");
        if (get("cuMemGetAddressRange", (void **)&find, 3020, 0, NULL)) abort();
    }
    if (!alignment || r.from % alignment) misuse("%s is not aligned to %u bytes as was promised", what, alignment);
    if (find(&base, &bytes, r.from) || r.from < base || r.to > base + bytes) misuse("%s leaves its memory", what);
    return r;
}

static bool overlap(range x, range y)
{
    return x.from < y.to && y.from < x.to;
}

static double number_at(const void *at, int scale)
{
    return scale == CUDA_R_64F ? *(const double *)at : *(const float *)at;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta,
                              const void *c, cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    static uint64_t number;
    cublasStatus_t status = enter("cublasLtMatmul");
    const char *wrong = getenv("FAKE_CUBLASLT_WRONG");
    way w;
    if (status) return status;
    must_be(h, HANDLE, "handle");
    memcpy(&w, algo, sizeof w);
    if (w.magic != ALGO || w.looks != looks_of(desc, la, lb, lc, ld)) misuse("an algorithm of another product");
    if (w.pieces > 1) misuse("an algorithm that splits k");
    if (workspace_bytes < w.workspace || (uintptr_t)workspace % 256) misuse("a workspace that was not promised");
    if (c != d || lc != ld) misuse("a product that is not added in place");
    range ra = range_of(h, a, la, w.alignment[0], "a"), rb = range_of(h, b, lb, w.alignment[1], "b"),
          rd = range_of(h, d, ld, w.alignment[3], "d");
    range rw = {(uintptr_t)workspace, (uintptr_t)workspace + workspace_bytes};
    if (overlap(ra, rd) || overlap(rb, rd) || overlap(rw, rd) || overlap(rw, ra) || overlap(rw, rb))
        misuse("a result that overlaps what it is made of");
    product_args args = {.a = (uintptr_t)a,
                         .b = (uintptr_t)b,
                         .d = (uintptr_t)d,
                         .workspace = (uintptr_t)workspace,
                         .m = ld->rows,
                         .n = ld->columns,
                         .k = desc->turned[0] ? la->rows : la->columns,
                         .batch = (uint64_t)ld->batch,
                         .ld = {la->ld, lb->ld, ld->ld},
                         .step = {la->step, lb->step, ld->step},
                         .alpha = number_at(alpha, desc->scale),
                         .beta = number_at(beta, desc->scale),
                         .number = ++number,
                         .type = la->type,
                         .turned = {desc->turned[0], desc->turned[1]},
                         .lanes = w.alignment[0] >= 16 ? 4 : 1,
                         .wrong = wrong && !strcmp(wrong, name_of(la->type))};
    size_t bytes = sizeof args;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    tell("product %s m %llu n %llu k %llu batch %d turned %d %d beta %g alignment %u workspace %#llx",
         name_of(la->type), (unsigned long long)args.m, (unsigned long long)args.n, (unsigned long long)args.k,
         (int)ld->batch, desc->turned[0], desc->turned[1], args.beta, w.alignment[0],
         (unsigned long long)args.workspace);
    if (h->d.cuLaunchKernel(h->kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra))
        return (cublasStatus_t)EXECUTION_FAILED;
    return CUBLAS_STATUS_SUCCESS;
}
