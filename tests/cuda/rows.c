/* Each row that has a plan for CUDA, on a GPU and on the CPU: calls, how far apart; then the time of some beside a copy
 * of as many bytes.
 *
 *     rows [calls of each op [size]] [rows|bench]
 *
 * It needs a driver (libcuda.so.1, or TENSORD_LIBCUDA) and the images that this build has; without one of them it says
 * so and ends with 77. */
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/cuda/images.h"
#include "shm/cuda/driver.h"
#include "tests/cuda/agree.h"
#include "tests/unit/op_calls.h"
#include <dlfcn.h>
#include <time.h>

typedef CUdeviceptr address;

static td_cuda_driver cu;
static CUresult (*elapsed)(float *ms, CUevent from, CUevent to); /* tensord itself times nothing */

static void must(int rc, const char *what)
{
    const char *name = "?";
    if (!rc) return;
    cu.cuGetErrorName((CUresult)rc, &name);
    printf("%s: %s\n", what, name);
    exit(1);
}

static bool open_driver(char *why, size_t room)
{
    td_error e;
    if (td_cuda_driver_open(&cu, &e)) {
        snprintf(why, room, "%.190s", e.message);
        return false;
    }
    *(void **)&elapsed = dlsym(cu.library, "cuEventElapsedTime");
    if (!elapsed) snprintf(why, room, "no cuEventElapsedTime");
    return elapsed;
}

/* ---- a device for agree.h: memory from one block, given back when nothing of it is in use */

enum { POOL = 1 << 30 };
static unsigned char *pool;
static size_t pool_used;
static int pool_live;

static void *take(size_t bytes)
{
    void *at = pool + pool_used;
    pool_used += (bytes + 511) / 256 * 256;
    pool_live++;
    if (pool_used > POOL) must(2, "the pool");
    return at;
}
static void give(void *at)
{
    (void)at;
    if (!--pool_live) pool_used = 0;
}
static void to_device(void *to, const void *from, size_t bytes)
{
    must(cu.cuMemcpyHtoD((address)(uintptr_t)to, from, bytes), "cuMemcpyHtoD");
}
static void from_device(void *to, const void *from, size_t bytes)
{
    must(cu.cuMemcpyDtoH(to, (address)(uintptr_t)from, bytes), "cuMemcpyDtoH");
}

static CUfunction functions[4096];
static CUmodule modules[64];

static CUfunction function_of(unsigned kernel, char *why, size_t room)
{
    const td_cuda_kernel *k = &td_cuda_kernels[kernel];
    const char *name = "?";
    int rc = 0;
    if (functions[kernel]) return functions[kernel];
    if (!modules[k->image]) rc = cu.cuModuleLoadData(&modules[k->image], td_cuda_images[k->image].begin);
    if (!rc) rc = cu.cuModuleGetFunction(&functions[kernel], modules[k->image], k->name);
    if (rc) {
        cu.cuGetErrorName((CUresult)rc, &name);
        snprintf(why, room, "%s of image %d: %s", k->name, k->image, name);
        return NULL;
    }
    return functions[kernel];
}
static bool launch(const td_cuda_launch *l, char *why, size_t room)
{
    size_t bytes = l->bytes;
    void *extra[] = {(void *)1, l->args, (void *)2, &bytes, NULL}; /* CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END */
    CUfunction f = function_of(l->kernel, why, room);
    const char *name = "?";
    if (!f) return false;
    int rc = cu.cuLaunchKernel(f, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared,
                               NULL, NULL, extra);
    if (!rc) return true;
    cu.cuGetErrorName((CUresult)rc, &name);
    snprintf(why, room, "%s <%u %u %u, %u>: %s", td_cuda_kernels[l->kernel].name, l->grid[0], l->grid[1], l->grid[2],
             l->block[0], name);
    return false;
}
static bool finish(char *why, size_t room)
{
    const char *name = "?";
    int rc = cu.cuCtxSynchronize();
    if (!rc) return true;
    cu.cuGetErrorName((CUresult)rc, &name);
    snprintf(why, room, "the launches end with %s", name);
    return false;
}
static const agree_device gpu = {take, give, to_device, from_device, launch, finish, NULL};

/* ---- rows */

static int rows(int calls, int64_t size)
{
    unsigned ops = 0, all = 0, right = 0, exact = 0;
    td_isa_use(0);
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        agree_row row = {0};
        agree_case c;
        char text[400];
        if (!op || !td_cuda_plans[id]) continue;
        for (int i = 0; i < calls; i++) {
            if (!agree_draw(op, i % 4 ? size : size * 16, &c, text, sizeof text)) break;
            if (c.allowed < 32) c.allowed = 32;
            agree_run(&gpu, &c, &row);
        }
        ops++;
        all += row.calls;
        right += !row.failed && row.calls;
        exact += !row.failed && row.calls && row.worst == 0;
        if (row.failed || !row.calls)
            printf("WRONG %s: %u of %u calls, worst %.3g\n  %s\n  %s\n", op->name, row.failed, row.calls, row.worst,
                   row.text, row.why);
        else if (row.worst > 0) printf("%s %.2g; ", op->name, row.worst);
        fflush(stdout);
    }
    printf("\nrows: %u of %u agree (%u to the bit), %u calls\n", right, ops, exact, all);
    return right == ops ? 0 : 1;
}

/* ---- times: launches of one planned call, over and over */

typedef struct timed {
    call text;
    td_karg in[8], out[4];
    td_kcall k;
    uint32_t *word;
} timed;

static bool plan_timed(timed *t, const char *text, address *next)
{
    td_error e = {0};
    memset(t, 0, sizeof *t);
    call_read(&t->text, text);
    t->text.f.max_out = 4;
    if (td_op_infer(&t->text.f, &e)) {
        printf("%s: %s\n", text, e.message);
        return false;
    }
    address at = *next;
#define ROOM(bytes) (at += ((bytes) + 511) / 256 * 256, at - ((bytes) + 511) / 256 * 256)
    for (int i = 0; i < t->text.nin; i++) {
        const td_desc *d = t->text.in[i].desc;
        uint64_t low = 0, high = 0;
        if (!d) continue;
        td_desc_extent(d, &low, &high);
        t->in[i] = (td_karg){(void *)(uintptr_t)ROOM(high), d};
    }
    for (int i = 0; i < t->text.f.nout; i++)
        t->out[i] = (td_karg){(void *)(uintptr_t)ROOM(td_desc_nbytes(&t->text.out[i])), &t->text.out[i]};
    t->k = (td_kcall){.op = t->text.f.op,
                      .attrs = &t->text.attrs,
                      .in = t->in,
                      .out = t->out,
                      .nin = (uint16_t)t->text.nin,
                      .nout = (uint16_t)t->text.f.nout,
                      .compute = (uint8_t)t->text.f.compute,
                      .device = TD_CUDA};
    td_plan_fn plan = td_cuda_plans[t->text.f.op->id];
    if (!plan || plan(&t->k, &e)) {
        printf("%s: %s\n", text, plan ? e.message : "no plan");
        return false;
    }
    t->k.work = t->k.work_bytes ? (void *)(uintptr_t)ROOM(t->k.work_bytes) : NULL;
    t->word = (uint32_t *)(uintptr_t)ROOM(sizeof(td_cuda_fault));
    t->k.replan(&t->k);
    return true;
}

static int by_value(const void *a, const void *b)
{
    return (*(const float *)a > *(const float *)b) - (*(const float *)a < *(const float *)b);
}
/* The median of 9, in ms. */
static float time_of(void (*work)(void *), void *with)
{
    float ms[9];
    CUevent from, to;
    must(cu.cuEventCreate(&from, 0), "cuEventCreate");
    must(cu.cuEventCreate(&to, 0), "cuEventCreate");
    for (int i = -2; i < 9; i++) {
        cu.cuEventRecord(from, NULL);
        work(with);
        cu.cuEventRecord(to, NULL);
        must(cu.cuEventSynchronize(to), "a timed launch");
        if (i >= 0) must(elapsed(&ms[i], from, to), "cuEventElapsedTime");
    }
    qsort(ms, 9, sizeof *ms, by_value);
    return ms[4];
}
static void run_timed(void *p)
{
    timed *t = p;
    char why[200] = "";
    for (int i = 0; i < td_cuda_count(&t->k); i++) {
        td_cuda_launch l;
        td_cuda_launch_at(&t->k, i, &l);
        memcpy(l.args, &t->word, sizeof t->word);
        if (!launch(&l, why, sizeof why)) printf("%s\n", why), exit(1);
    }
}
typedef struct copying {
    address to, from;
    size_t bytes;
} copying;
static void run_copy(void *p)
{
    copying *c = p;
    cu.cuMemcpyDtoDAsync(c->to, c->from, c->bytes, NULL);
}

typedef struct line {
    const char *text;
    double bytes, flops;
} line;
#define M256 268435456.0
static const line lines[] = {
    {"add f32[268435456] f32[268435456]", 12 * M256, 0},
    {"exp f32[268435456]", 8 * M256, 0},
    {"sin f32[268435456]", 8 * M256, 0},
    {"gelu f32[268435456]", 8 * M256, 0},
    {"pow f32[268435456] f32[268435456]", 12 * M256, 0},
    {"mul f64[134217728] f64[134217728]", 12 * M256, 0},
    {"mul bf16[268435456] bf16[268435456]", 6 * M256, 0},
    {"add f32[16384,16384]@[1,16384] f32[16384,16384]", 12 * M256, 0},
    {"add f32[16384,16384] f32[16384]", 8 * M256, 0},
    {"copy f32[268435456]", 8 * M256, 0},
    {"copy f32[16384,16384]@[1,16384]", 8 * M256, 0},
    {"copy f32[268435456] | bf16", 6 * M256, 0},
    {"sum f32[268435456]", 4 * M256, 0},
    {"sum f32[16384,16384] | [1]", 4 * M256, 0},
    {"sum f32[16384,16384] | [0]", 4 * M256, 0},
    {"sum bf16[16384,16384] | [1]", 2 * M256, 0},
    {"argmax f32[16384,16384] | 1", 4 * M256, 0},
    {"var f32[16384,16384] | [1]", 4 * M256, 0},
    {"logsumexp f32[16384,16384] | [1]", 4 * M256, 0},
    {"softmax f32[16384,16384] | 1", 8 * M256, 0},
    {"layer_norm f32[65536,4096] _ _ | 1", 8 * M256, 0},
    {"softmax f32[16384,16384] | 0", 8 * M256, 0},
    {"randn | [268435456] f32", 4 * M256, 0},
    {"mm f32[8192,8192] f32[8192,8192]", 0, 2.0 * 8192 * 8192 * 8192},
    {"mm f32[1024,1024] f32[1024,1024]", 0, 2.0 * 1024 * 1024 * 1024},
    {"linear f32[64,784] f32[128,784] _", 0, 2.0 * 64 * 784 * 128},
    {"bmm f32[64,512,512] f32[64,512,512]", 0, 64 * 2.0 * 512 * 512 * 512},
    {"mm f64[4096,4096] f64[4096,4096]", 0, 2.0 * 4096 * 4096 * 4096},
    {"mm bf16[8192,8192] bf16[8192,8192]", 0, 2.0 * 8192 * 8192 * 8192},
    {"mv f32[16384,16384] f32[16384]", 4 * M256, 0},
    {"conv2d f32[32,64,56,56] f32[64,64,3,3] _ | [1,1] [1,1]", 0, 32 * 2.0 * 64 * 64 * 9 * 56 * 56},
    {"conv2d_backward f32[32,64,56,56] f32[32,64,56,56] f32[64,64,3,3] | [1,1] [1,1] [1,1] 1 7", 0,
     2 * 32 * 2.0 * 64 * 64 * 9 * 56 * 56},
};

static void bench(const char *device)
{
    address room;
    copying c = {.bytes = (size_t)(4 * M256)};
    must(cu.cuMemAlloc(&room, (size_t)12 << 30), "12 GiB");
    must(cu.cuMemsetD32Async(room, 0x3f000000, (size_t)3 << 30, NULL), "cuMemset");
    c.from = room, c.to = room + c.bytes;
    double copy = 2 * (double)c.bytes / time_of(run_copy, &c) / 1e6;
    printf("%s: device copy of 1 GiB %.0f GB/s, both ways counted\n", device, copy);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        static timed t;
        address at = room;
        if (!plan_timed(&t, lines[i].text, &at)) continue;
        float ms = time_of(run_timed, &t);
        if (lines[i].bytes > 0)
            printf("%-48s %8.3f ms %6.0f GB/s, %.2f of a copy's time\n", lines[i].text, ms, lines[i].bytes / ms / 1e6,
                   copy / (lines[i].bytes / ms / 1e6));
        else printf("%-48s %8.3f ms %8.2f TFLOP/s\n", lines[i].text, ms, lines[i].flops / ms / 1e9);
        fflush(stdout);
    }
    cu.cuMemFree(room);
}

int main(int argc, char **argv)
{
    char why[200] = "", name[128] = "?";
    CUcontext context;
    int device, rc = 0;
    address at;
    if (!td_cuda_image_count || !open_driver(why, sizeof why) || cu.cuInit(0) || cu.cuDeviceGet(&device, 0)) {
        printf("SKIP no CUDA device or no images in this build: %s\n", why);
        return 77;
    }
    cu.cuDeviceGetName(name, sizeof name, device);
    must(cu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cu.cuMemAlloc(&at, POOL), "cuMemAlloc");
    pool = (unsigned char *)(uintptr_t)at;
    td_cpu_init();
    int calls = argc > 1 ? atoi(argv[1]) : 40;
    int64_t size = argc > 2 ? atoll(argv[2]) : 3000;
    const char *part = argc > 3 ? argv[3] : "all";
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    if (strcmp(part, "bench")) rc = rows(calls, size);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%s, %.1f s\n", name, (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
    if (strcmp(part, "rows")) bench(name);
    return rc;
}
