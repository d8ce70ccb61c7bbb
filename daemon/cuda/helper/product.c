/* Products of matrices by cuBLASLt: found, tried, then run in the streams.
 *
 * The same product has the same bits whatever else goes on. A way to compute it (an algorithm) is asked for by shape,
 * dtype, layout and alignment alone; none that splits k between blocks is taken; and the memory that it may work with
 * is always as large. That memory is the process's own, a piece for each stream of computations, for as long as it
 * lives: memory of a call would be charged for each product that waits in a stream. It is taken when the arenas of the
 * last process are back at their addresses; what that one had of the GPU is free again by then.
 *
 * float32 and float64 are computed as such (pedantic: no TF32, no emulation, whatever the environment says), halves
 * with sums in float32. A library is tried on small products of whole numbers before it is trusted. Whatever fails
 * there is told once, and products go by tensord's own kernels. So does a product that the library has no such way for.
 */
#include "daemon/cuda/helper/helper.h"
#include "shm/cuda/library.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMPUTE = TD_GPU_STREAMS - 1, WORKSPACE = 8 << 20, ASKED = 8, KEPT = 512 };

/* How products that look the same are computed; `of` has no addresses and numbers. */
struct product_way {
    td_cuda_product of;
    bool ready, none; /* none: there is no way, as was found out */
    cublasLtMatmulAlgo_t algo;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
};

static int failed(helper *h, const char *call, cublasStatus_t status)
{
    if (!status) return 0;
    snprintf(h->why, sizeof h->why, "%s of cublasLt: %.80s (%d)", call, h->lt.cublasLtGetStatusString(status),
             (int)status);
    return CUDA_ERROR_UNKNOWN;
}

static int refuse(helper *h, int code, const char *why)
{
    snprintf(h->why, sizeof h->why, "cublasLt: %.140s", why);
    return code;
}

/* ---- what is asked for */

static size_t size_of(unsigned dtype)
{
    return dtype == TD_FLOAT64 ? 8 : dtype == TD_FLOAT32 ? 4 : 2;
}

static bool lies_within(uint64_t at, uint64_t bytes, uint64_t begin, uint64_t size)
{
    return at >= begin && at - begin <= size && bytes <= size - (at - begin);
}

/* Is it a matrix of so many rows and columns, all of it in memory that this process has made? */
static bool is_matrix(const helper *h, const td_cuda_product *p, const td_cuda_matrix_at *x, int64_t rows,
                      int64_t columns)
{
    int64_t steps = 0, elements = 0, bytes = 0;
    if (x->ld < rows || x->ld > INT32_MAX || x->step < 0 || x->at % p->alignment) return false;
    if (__builtin_mul_overflow(p->batch - 1, x->step, &steps) ||
        __builtin_add_overflow(steps, (columns - 1) * x->ld + rows, &elements) ||
        __builtin_mul_overflow(elements, (int64_t)size_of(p->dtype), &bytes))
        return false;
    if (h->workspace && lies_within(x->at, (uint64_t)bytes, h->workspace, (uint64_t)COMPUTE * WORKSPACE)) return true;
    for (const arena *a = h->arenas; a; a = a->next)
        if (lies_within(x->at, (uint64_t)bytes, a->at, a->bytes)) return true;
    return false;
}

static bool is_product(const helper *h, const td_cuda_product *p)
{
    const int64_t sides[] = {p->m, p->n, p->k, p->batch};
    for (int i = 0; i < 4; i++)
        if (sides[i] < 1 || sides[i] > INT32_MAX) return false;
    if (!p->alignment || p->alignment > TD_CUDA_ALIGNED || (p->alignment & (p->alignment - 1))) return false;
    if (p->a_turned > 1 || p->b_turned > 1) return false;
    return is_matrix(h, p, &p->a, p->a_turned ? p->k : p->m, p->a_turned ? p->m : p->k) &&
           is_matrix(h, p, &p->b, p->b_turned ? p->n : p->k, p->b_turned ? p->k : p->n) &&
           is_matrix(h, p, &p->d, p->m, p->n);
}

/* ---- ways */

static cudaDataType type_of(unsigned dtype)
{
    return dtype == TD_FLOAT64   ? CUDA_R_64F
           : dtype == TD_FLOAT32 ? CUDA_R_32F
           : dtype == TD_FLOAT16 ? CUDA_R_16F
                                 : CUDA_R_16BF;
}

static int make_layout(helper *h, const td_cuda_product *p, const td_cuda_matrix_at *x, int64_t rows, int64_t columns,
                       cublasLtMatrixLayout_t *out)
{
    const int32_t batch = (int32_t)p->batch;
    int code =
        failed(h, "cublasLtMatrixLayoutCreate",
               h->lt.cublasLtMatrixLayoutCreate(out, type_of(p->dtype), (uint64_t)rows, (uint64_t)columns, x->ld));
    if (code || batch == 1) return code;
    code =
        failed(h, "cublasLtMatrixLayoutSetAttribute",
               h->lt.cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    if (code) return code;
    return failed(h, "cublasLtMatrixLayoutSetAttribute",
                  h->lt.cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x->step,
                                                         sizeof x->step));
}

static int make_desc(helper *h, const td_cuda_product *p, cublasLtMatmulDesc_t *out)
{
    const cublasComputeType_t compute = p->dtype == TD_FLOAT64   ? CUBLAS_COMPUTE_64F_PEDANTIC
                                        : p->dtype == TD_FLOAT32 ? CUBLAS_COMPUTE_32F_PEDANTIC
                                                                 : CUBLAS_COMPUTE_32F;
    const int32_t turned = CUBLAS_OP_T;
    int code = failed(h, "cublasLtMatmulDescCreate",
                      h->lt.cublasLtMatmulDescCreate(out, compute, p->dtype == TD_FLOAT64 ? CUDA_R_64F : CUDA_R_32F));
    if (!code && p->a_turned)
        code = failed(h, "cublasLtMatmulDescSetAttribute",
                      h->lt.cublasLtMatmulDescSetAttribute(*out, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned));
    if (!code && p->b_turned)
        code = failed(h, "cublasLtMatmulDescSetAttribute",
                      h->lt.cublasLtMatmulDescSetAttribute(*out, CUBLASLT_MATMUL_DESC_TRANSB, &turned, sizeof turned));
    return code;
}

static int prefer(helper *h, const td_cuda_product *p, cublasLtMatmulPreference_t of)
{
    const uint64_t workspace = WORKSPACE;
    const uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t bytes;
    } all[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
               {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &none, sizeof none},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &p->alignment, sizeof p->alignment},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &p->alignment, sizeof p->alignment},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &p->alignment, sizeof p->alignment},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &p->alignment, sizeof p->alignment}};
    int code = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all && !code; i++)
        code = failed(h, "cublasLtMatmulPreferenceSetAttribute",
                      h->lt.cublasLtMatmulPreferenceSetAttribute(of, all[i].what, all[i].value, all[i].bytes));
    return code;
}

/* Does it add the parts of each sum in one order, in the memory that there is? */
static bool is_steady(helper *h, const cublasLtMatmulHeuristicResult_t *r)
{
    int32_t pieces = 0;
    uint32_t scheme = 0;
    size_t n;
    if (r->state || r->workspaceSize > WORKSPACE) return false;
    if (h->lt.cublasLtMatmulAlgoConfigGetAttribute(&r->algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &pieces, sizeof pieces,
                                                   &n) ||
        h->lt.cublasLtMatmulAlgoConfigGetAttribute(&r->algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                                   sizeof scheme, &n))
        return false;
    return pieces <= 1 && scheme == CUBLASLT_REDUCTION_SCHEME_NONE;
}

static int no_way(helper *h)
{
    return refuse(h, CUDA_ERROR_NOT_SUPPORTED, "no algorithm for this product");
}

static int found_none(helper *h, cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? no_way(h) : failed(h, "cublasLtMatmulAlgoGetHeuristic", status);
}

static int choose(helper *h, product_way *w)
{
    cublasLtMatmulHeuristicResult_t found[ASKED];
    cublasLtMatmulPreference_t preference;
    int count = 0,
        code = failed(h, "cublasLtMatmulPreferenceCreate", h->lt.cublasLtMatmulPreferenceCreate(&preference));
    if (code) return code;
    code = prefer(h, &w->of, preference);
    if (!code)
        code = found_none(h, h->lt.cublasLtMatmulAlgoGetHeuristic(h->lt_handle, w->desc, w->a, w->b, w->d, w->d,
                                                                  preference, ASKED, found, &count));
    h->lt.cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; i < count && !code; i++) {
        if (!is_steady(h, &found[i])) continue;
        w->algo = found[i].algo;
        w->ready = true;
        return 0;
    }
    return code ? code : no_way(h);
}

static void forget(helper *h, product_way *w)
{
    if (w->a) h->lt.cublasLtMatrixLayoutDestroy(w->a);
    if (w->b) h->lt.cublasLtMatrixLayoutDestroy(w->b);
    if (w->d) h->lt.cublasLtMatrixLayoutDestroy(w->d);
    if (w->desc) h->lt.cublasLtMatmulDescDestroy(w->desc);
    *w = (product_way){.ready = false};
}

static int make_way(helper *h, product_way *w, const td_cuda_product *key)
{
    forget(h, w);
    w->of = *key;
    const td_cuda_product *p = &w->of;
    int code = make_desc(h, p, &w->desc);
    if (!code) code = make_layout(h, p, &p->a, p->a_turned ? p->k : p->m, p->a_turned ? p->m : p->k, &w->a);
    if (!code) code = make_layout(h, p, &p->b, p->b_turned ? p->n : p->k, p->b_turned ? p->k : p->n, &w->b);
    if (!code) code = make_layout(h, p, &p->d, p->m, p->n, &w->d);
    if (!code) code = choose(h, w);
    if (!code) return 0;
    forget(h, w);
    w->none = code == CUDA_ERROR_NOT_SUPPORTED;
    w->of = *key;
    return code;
}

/* Where the way of such a product is kept. What it takes the place of is asked for again, with the same answer. */
static product_way *place_of(helper *h, const td_cuda_product *key)
{
    uint64_t words[sizeof *key / 8], hash = 0;
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < sizeof words / 8; i++) hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return &h->ways[(hash >> 32) % KEPT];
}

static int find_way(helper *h, const td_cuda_product *p, product_way **out)
{
    td_cuda_product key = *p;
    key.a.at = key.b.at = key.d.at = 0;
    key.alpha = key.beta = 0;
    key.pad = 0;
    *out = place_of(h, &key);
    const void *kept = &(*out)->of, *wanted = &key; /* equal by their bytes: the numbers are 0 in both */
    bool same = !memcmp(kept, wanted, sizeof key);
    if (same && (*out)->none) return no_way(h);
    return same && (*out)->ready ? 0 : make_way(h, *out, &key);
}

/* ---- running */

static int take_memory(helper *h)
{
    if (!h->ways && !(h->ways = calloc(KEPT, sizeof *h->ways)))
        return refuse(h, CUDA_ERROR_UNKNOWN, "no memory for its ways");
    CUresult r = h->workspace ? CUDA_SUCCESS : h->d.cuMemAlloc(&h->workspace, (size_t)COMPUTE * WORKSPACE);
    int code = helper_noted(h, "cuMemAlloc of what cublasLt works with", r);
    if (code) h->workspace = 0;
    return code;
}

void product_ready(helper *h)
{
    if (h->products) take_memory(h); /* without it each product asks again */
}

int product_run(helper *h, stream *s, const td_cuda_product *p)
{
    const float alpha = (float)p->alpha, beta = (float)p->beta;
    const bool wide = p->dtype == TD_FLOAT64;
    const size_t number = (size_t)(s - h->streams);
    product_way *w;
    if (!(h->products & td_cuda_library_bit(p->dtype)))
        return refuse(h, CUDA_ERROR_NOT_SUPPORTED, "this process computes no such products");
    if (number >= COMPUTE || !is_product(h, p)) return refuse(h, CUDA_ERROR_INVALID_VALUE, "a product that is none");
    int code = take_memory(h);
    if (!code) code = find_way(h, p, &w);
    if (code) return code;
    return failed(h, "cublasLtMatmul",
                  h->lt.cublasLtMatmul(h->lt_handle, w->desc, wide ? (const void *)&p->alpha : &alpha, (void *)p->a.at,
                                       w->a, (void *)p->b.at, w->b, wide ? (const void *)&p->beta : &beta,
                                       (void *)p->d.at, w->d, (void *)p->d.at, w->d, &w->algo,
                                       (void *)(h->workspace + number * WORKSPACE), WORKSPACE, s->stream));
}

/* ---- the trial: two products of whole numbers that all dtypes have, one factor turned, added to what is there */

enum { M = 24, N = 16, K = 32, BATCH = 2, A_LD = 32, B_LD = N, PAGE = 16384 };

static void put_whole(unsigned dtype, unsigned char *to, int64_t at, int value)
{
    const double wide = value;
    const float plain = (float)value;
    uint32_t bits;
    memcpy(&bits, &plain, sizeof bits);
    uint16_t half = (uint16_t)(bits >> 16);
    if (dtype == TD_FLOAT16 && value) /* the exponent counts from elsewhere */
        half = (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023));
    if (dtype == TD_FLOAT64) memcpy(to + at * 8, &wide, 8);
    else if (dtype == TD_FLOAT32) memcpy(to + at * 4, &plain, 4);
    else memcpy(to + at * 2, &half, 2);
}

static int a_at(int b, int i, int p)
{
    return (i * 5 + p * 3 + b) % 5 - 2;
}
static int b_at(int b, int p, int j)
{
    return (p * 7 + j * 2 + b) % 5 - 2;
}
static int d_at(int b, int i, int j)
{
    return (i + j * 3 + b) % 4;
}

/* The factors, what is there before, and what must be there afterwards. */
static void fill_trial(unsigned dtype, unsigned char *a, unsigned char *b, unsigned char *before, unsigned char *after)
{
    for (int t = 0; t < BATCH; t++) {
        for (int i = 0; i < M; i++)
            for (int p = 0; p < K; p++) put_whole(dtype, a, (int64_t)t * K * A_LD + p * A_LD + i, a_at(t, i, p));
        for (int p = 0; p < K; p++)
            for (int j = 0; j < N; j++) put_whole(dtype, b, (int64_t)t * K * B_LD + p * B_LD + j, b_at(t, p, j));
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                int sum = 0;
                for (int p = 0; p < K; p++) sum += a_at(t, i, p) * b_at(t, p, j);
                put_whole(dtype, before, (int64_t)t * M * N + j * M + i, d_at(t, i, j));
                put_whole(dtype, after, (int64_t)t * M * N + j * M + i, d_at(t, i, j) + sum);
            }
    }
}

static int try_dtype(helper *h, unsigned dtype)
{
    static unsigned char sent[3][PAGE], expected[PAGE], got[PAGE];
    const size_t bytes = (size_t)BATCH * M * N * size_of(dtype);
    const CUdeviceptr at = h->workspace + WORKSPACE; /* the second stream's: the trial is in the first */
    const td_cuda_product p = {.a = {at, A_LD, K * A_LD},
                               .b = {at + PAGE, B_LD, K * B_LD},
                               .d = {at + 2 * PAGE, M, M * N},
                               .m = M,
                               .n = N,
                               .k = K,
                               .batch = BATCH,
                               .alpha = 1,
                               .beta = 1,
                               .alignment = TD_CUDA_ALIGNED,
                               .dtype = (uint8_t)dtype,
                               .b_turned = 1};
    memset(sent, 0, sizeof sent);
    fill_trial(dtype, sent[0], sent[1], sent[2], expected);
    int code = helper_noted(h, "cuMemcpyHtoD", h->d.cuMemcpyHtoD(at, sent, sizeof sent));
    if (!code) code = product_run(h, &h->streams[0], &p);
    int ended = helper_noted(h, "cuStreamSynchronize", h->d.cuStreamSynchronize(h->streams[0].stream));
    if (!code) code = ended;
    if (!code) code = helper_noted(h, "cuMemcpyDtoH", h->d.cuMemcpyDtoH(got, p.d.at, bytes));
    if (!code && memcmp(got, expected, bytes) != 0)
        code = refuse(h, CUDA_ERROR_UNKNOWN, "a small product comes out wrong");
    return code;
}

/* ---- finding it */

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define WANTED(result, name, parameters) {#name, offsetof(td_cublaslt, name)},
    TD_CUBLASLT_FUNCTIONS(WANTED)
#undef WANTED
};

/* Was it opened at a place before this one? The linker finds that again by its name. */
static bool is_known(void *library)
{
    enum { KNOWN = 16 };
    static void *known[KNOWN];
    static unsigned count;
    for (unsigned i = 0; i < count; i++)
        if (known[i] == library) return true;
    if (count < KNOWN) known[count++] = library;
    return false;
}

/* False: nothing of this name is there that was not tried. */
static bool open_at(helper *h, const char *path, int *code)
{
    if (*path == '/' && access(path, F_OK)) return false;
    *code = CUDA_ERROR_NOT_FOUND;
    h->lt = (td_cublaslt){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!h->lt.library) {
        const char *said = dlerror();
        refuse(h, 0, said);
        return *path == '/' || !strstr(said, "No such file");
    }
    if (is_known(h->lt.library)) return false;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void **slot = (void **)((char *)&h->lt + functions[i].at);
        if ((*slot = dlsym(h->lt.library, functions[i].name))) continue;
        snprintf(h->why, sizeof h->why, "it has no %s", functions[i].name);
        return true;
    }
    *code = failed(h, "cublasLtCreate", h->lt.cublasLtCreate(&h->lt_handle));
    return true;
}

static const char *opened_path(const helper *h, const char *path)
{
    Dl_info info;
    return dladdr(*(void **)&h->lt.cublasLtMatmul, &info) && info.dli_fname ? info.dli_fname : path;
}

/* All that it says of itself goes into `text`. A code: the context is lost. */
static int try_all(helper *h, const char *path, char *text, size_t size)
{
    static const uint8_t dtypes[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16};
    static const char *const names[] = {"float32", "float64", "float16", "bfloat16"};
    unsigned version = (unsigned)h->lt.cublasLtGetVersion();
    int n = snprintf(text, size, "cublasLt %u.%u.%u (%.110s)", version / 10000, version / 100 % 100, version % 100,
                     opened_path(h, path));
    for (int i = 0; i < 4; i++) {
        const unsigned bit = td_cuda_library_bit(dtypes[i]);
        h->products |= bit;
        int code = try_dtype(h, dtypes[i]);
        if (!code) continue;
        if (helper_is_lost(code)) return code;
        h->products &= ~bit;
        if ((size_t)n < size) n += snprintf(text + n, size - (size_t)n, "; not for %s: %s", names[i], h->why);
        fprintf(stderr, "tensord-cuda: %s: no products of %s: %s\n", path, names[i], h->why);
    }
    return 0;
}

/* The memory of the trial: arenas that lay there come back later. */
static void let_go(helper *h)
{
    if (h->workspace) h->d.cuMemFree(h->workspace);
    h->workspace = 0;
}

static void drop_ways(helper *h)
{
    for (int i = 0; h->ways && i < KEPT; i++) forget(h, &h->ways[i]);
    if (h->lt_handle) h->lt.cublasLtDestroy(h->lt_handle);
    h->lt_handle = NULL;
}

int product_begin(helper *h, char *text, size_t size)
{
    char path[TD_CUDA_PATH];
    int code = 0;
    text[0] = 0;
    for (unsigned i = 0; !h->products && td_cuda_library_place(i, path); i++) {
        if (!open_at(h, path, &code)) continue;
        if (!code) code = take_memory(h);
        if (!code && (code = try_all(h, path, text, size))) return code;
        if (code && !h->products) {
            fprintf(stderr, "tensord-cuda: %s is not used: %s\n", path, h->why);
            if (!text[0]) snprintf(text, size, "%.90s is not used: %.60s", path, h->why);
        }
        if (!h->products) drop_ways(h);
    }
    let_go(h);
    return 0;
}
