/* Streams: commands go in as they come; a second thread looks at the oldest end of each, and tells those that have
 * passed.
 *
 * Each end has a fault in host memory that the kernels before it may write, at its place in the ring. A command that
 * the driver refuses is told with the next end of its stream. A command that orders streams may not fail, nor an end:
 * what follows would run on what is not there yet. */
#include "daemon/cuda/helper/helper.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { SPINS = 2000, PAUSE_NS = 50000, SHARED_USUAL = 48 << 10 };

static uint64_t fault_of(const helper *h, const stream *s, uint64_t number)
{
    return (uint64_t)(s - h->streams) * ENDS + number % ENDS;
}

static void must(helper *h, const char *call, CUresult r)
{
    if (r) helper_lost(h, helper_noted(h, call, r));
}

/* ---- what has passed */

typedef struct range {
    uint64_t from, to;
} range;

/* Ends of a stream that have passed, from the oldest on, into `m`. They stay in the ring. */
static void look(helper *h, const stream *s, range *ends, td_gpu_ended *m)
{
    for (; ends->from < ends->to && m->count < TD_GPU_ENDS_MAX; ends->from++) {
        const end *e = &s->ends[ends->from % ENDS];
        CUresult r = h->d.cuEventQuery(e->event);
        if (r == CUDA_ERROR_NOT_READY) return;
        must(h, "a kernel or a copy", r);
        td_cuda_fault *fault = &h->faults[fault_of(h, s, ends->from)];
        atomic_signal_fence(memory_order_seq_cst); /* the GPU has written it, or it is as it was */
        m->end[m->count++] = (td_gpu_end){e->place, *fault, e->code, (uint32_t)(s - h->streams)};
        *fault = (td_cuda_fault){0};
    }
}

static void pause_a_little(int spins)
{
    const struct timespec pause = {0, PAUSE_NS};
    if (spins < SPINS) sched_yield();
    else nanosleep(&pause, NULL);
}

/* Those that were told leave the ring; waits until there are others. */
static void exchange(helper *h, range ends[TD_GPU_STREAMS])
{
    bool some = false;
    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < TD_GPU_STREAMS; i++) h->streams[i].out = ends[i].from;
    pthread_cond_signal(&h->room);
    while (!some) {
        for (int i = 0; i < TD_GPU_STREAMS; i++) {
            ends[i].to = h->streams[i].put;
            some |= ends[i].from != ends[i].to;
        }
        if (!some) pthread_cond_wait(&h->some, &h->lock);
    }
    pthread_mutex_unlock(&h->lock);
}

static void *tell_ends(void *arg)
{
    helper *h = arg;
    range ends[TD_GPU_STREAMS] = {{0, 0}};
    uint64_t number = 0;
    prctl(PR_SET_TIMERSLACK, 1000);
    must(h, "cuCtxSetCurrent", h->d.cuCtxSetCurrent(h->context));
    for (int spins = 0;; spins++) {
        td_gpu_ended m;
        m.kind = TD_GPU_ENDED;
        m.count = 0;
        exchange(h, ends);
        for (int i = 0; i < TD_GPU_STREAMS; i++) look(h, &h->streams[i], &ends[i], &m);
        if (!m.count) {
            pause_a_little(spins);
            continue;
        }
        number++;
        atomic_store_explicit(&h->told[number % TOLD], number, memory_order_release);
        helper_send(h, &m, offsetof(td_gpu_ended, end) + m.count * sizeof *m.end, -1);
        spins = 0;
    }
    return NULL;
}

/* ---- the beginning */

static int make_stream(helper *h, stream *s)
{
    int code = helper_noted(h, "cuStreamCreate", h->d.cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
    if (!code) code = helper_noted(h, "cuEventCreate", h->d.cuEventCreate(&s->now, CU_EVENT_DISABLE_TIMING));
    return code;
}

int launch_begin(helper *h)
{
    const size_t bytes = TD_GPU_STREAMS * ENDS * sizeof *h->faults;
    void *words;
    const unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    int code = helper_noted(h, "cuMemHostAlloc", h->d.cuMemHostAlloc(&words, bytes, flags));
    if (code) return code;
    h->faults = memset(words, 0, bytes);
    code = helper_noted(h, "cuMemHostGetDevicePointer", h->d.cuMemHostGetDevicePointer(&h->faults_at, words, 0));
    for (int i = 0; i < TD_GPU_STREAMS && !code; i++) code = make_stream(h, &h->streams[i]);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->some, NULL);
    pthread_cond_init(&h->room, NULL);
    pthread_t thread;
    if (!code && pthread_create(&thread, NULL, tell_ends, h)) {
        snprintf(h->why, sizeof h->why, "no second thread");
        code = CUDA_ERROR_UNKNOWN;
    }
    return code;
}

int launch_load(helper *h, const void *image)
{
    if (h->nmodules == MODULES) return CUDA_ERROR_INVALID_VALUE;
    int code = helper_noted(h, "cuModuleLoadData", h->d.cuModuleLoadData(&h->modules[h->nmodules], image));
    h->nmodules += !code;
    return code;
}

void launch_name(helper *h, const td_gpu_names *m)
{
    const char *name = (const char *)(m + 1), *last = name + m->bytes;
    for (uint32_t i = m->first; i - m->first < m->count && i < TD_GPU_NAMES_MAX; i++) {
        size_t n = strnlen(name, (size_t)(last - name));
        if (name + n >= last) return;
        free(h->names[i]);
        h->names[i] = strdup(name);
        h->kernels[i] = NULL;
        name += n + 1;
    }
}

/* ---- commands */

/* A kernel is looked for at its first launch: a process has hundreds, and few of them run. */
static int find_kernel(helper *h, uint32_t number)
{
    if (number >= TD_GPU_NAMES_MAX || !h->names[number]) {
        snprintf(h->why, sizeof h->why, "kernel %u has no name", number);
        return CUDA_ERROR_NOT_FOUND;
    }
    CUresult r = CUDA_ERROR_NOT_FOUND;
    for (int i = 0; i < h->nmodules && r == CUDA_ERROR_NOT_FOUND; i++)
        r = h->d.cuModuleGetFunction(&h->kernels[number], h->modules[i], h->names[number]);
    if (!r) return 0;
    h->kernels[number] = NULL;
    if (r != CUDA_ERROR_NOT_FOUND) return helper_noted(h, "cuModuleGetFunction", r);
    snprintf(h->why, sizeof h->why, "kernel %s is not in this build", h->names[number]);
    return CUDA_ERROR_NOT_FOUND;
}

static int ready_kernel(helper *h, const td_gpu_launch *c)
{
    int code = c->kernel < TD_GPU_NAMES_MAX && h->kernels[c->kernel] ? 0 : find_kernel(h, c->kernel);
    if (code || c->shared_bytes <= SHARED_USUAL || c->shared_bytes <= h->shared[c->kernel]) return code;
    const CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CUresult r = h->d.cuFuncSetAttribute(h->kernels[c->kernel], most, (int)c->shared_bytes);
    if (!r) h->shared[c->kernel] = c->shared_bytes;
    return helper_noted(h, "cuFuncSetAttribute", r);
}

static int launch(helper *h, stream *s, const td_gpu_launch *c)
{
    _Alignas(16) unsigned char args[TD_GPU_ARGS_MAX];
    size_t bytes = c->args_bytes;
    if (bytes > sizeof args || sizeof *c + bytes > c->head.bytes) return CUDA_ERROR_INVALID_VALUE;
    int code = ready_kernel(h, c);
    if (code) return code;
    memcpy(args, c + 1, bytes);
    uint64_t fault = h->faults_at + fault_of(h, s, s->put) * sizeof *h->faults;
    if (bytes >= sizeof fault) memcpy(args, &fault, sizeof fault);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUresult r = h->d.cuLaunchKernel(h->kernels[c->kernel], c->grid[0], c->grid[1], c->grid[2], c->block[0],
                                     c->block[1], c->block[2], c->shared_bytes, s->stream, NULL, extra);
    if (!r) return 0;
    helper_noted(h, "cuLaunchKernel", r);
    size_t n = strlen(h->why);
    snprintf(h->why + n, sizeof h->why - n, ", of %.60s", h->names[c->kernel]);
    return r;
}

/* By the library; where that has no way to compute it, by the launch behind it. */
static int product(helper *h, stream *s, const td_gpu_product *c)
{
    const td_gpu_launch *instead = (const td_gpu_launch *)(c + 1);
    const size_t left = c->head.bytes - sizeof *c;
    int code = product_run(h, s, &c->of);
    if (code != CUDA_ERROR_NOT_SUPPORTED || !left) return code;
    if (left >= sizeof *instead && instead->head.bytes <= left) return launch(h, s, instead);
    snprintf(h->why, sizeof h->why, "a launch behind a product that is cut short");
    return CUDA_ERROR_INVALID_VALUE;
}

/* A unit of several words is set word by word, each behind the last one by a unit. */
static int fill(helper *h, stream *s, const td_gpu_fill *c)
{
    const td_cuda_driver *d = &h->d;
    uint32_t words[4];
    uint16_t half;
    memcpy(words, c->value, sizeof words);
    memcpy(&half, c->value, sizeof half);
    if (!c->count) return 0;
    switch (c->unit) {
    case 1: return helper_noted(h, "cuMemsetD8Async", d->cuMemsetD8Async(c->to, c->value[0], c->count, s->stream));
    case 2: return helper_noted(h, "cuMemsetD16Async", d->cuMemsetD16Async(c->to, half, c->count, s->stream));
    case 4: return helper_noted(h, "cuMemsetD32Async", d->cuMemsetD32Async(c->to, words[0], c->count, s->stream));
    default: break;
    }
    int code = 0;
    for (uint32_t i = 0; i < c->unit / 4 && !code; i++)
        code = helper_noted(h, "cuMemsetD2D32Async",
                            d->cuMemsetD2D32Async(c->to + 4 * i, c->unit, words[i], 1, c->count, s->stream));
    return code;
}

static int move(helper *h, stream *s, const td_gpu_move *c)
{
    const td_cuda_driver *d = &h->d;
    uint64_t staged = c->head.what == TD_GPU_READ ? c->to : c->from;
    if (c->head.what == TD_GPU_COPY)
        return helper_noted(h, "cuMemcpyDtoDAsync", d->cuMemcpyDtoDAsync(c->to, c->from, c->bytes, s->stream));
    if (staged > h->staging_bytes || c->bytes > h->staging_bytes - staged) return CUDA_ERROR_INVALID_VALUE;
    unsigned char *at = h->staging + staged;
    if (c->head.what == TD_GPU_READ)
        return helper_noted(h, "cuMemcpyDtoHAsync", d->cuMemcpyDtoHAsync(at, c->from, c->bytes, s->stream));
    return helper_noted(h, "cuMemcpyHtoDAsync", d->cuMemcpyHtoDAsync(c->to, at, c->bytes, s->stream));
}

static void wait_for(helper *h, stream *s, uint64_t number)
{
    if (number >= TD_GPU_STREAMS) return;
    stream *other = &h->streams[number];
    must(h, "cuEventRecord", h->d.cuEventRecord(other->now, other->stream));
    must(h, "cuStreamWaitEvent", h->d.cuStreamWaitEvent(s->stream, other->now, 0));
}

static void put_end(helper *h, stream *s, uint64_t place)
{
    end *e = &s->ends[s->put % ENDS];
    if (!e->event) must(h, "cuEventCreate", h->d.cuEventCreate(&e->event, CU_EVENT_DISABLE_TIMING));
    e->place = place;
    e->code = s->code;
    s->code = 0;
    must(h, "cuEventRecord", h->d.cuEventRecord(e->event, s->stream));
    pthread_mutex_lock(&h->lock);
    s->put++;
    pthread_cond_signal(&h->some);
    while (s->put - s->out == ENDS) pthread_cond_wait(&h->room, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

/* The first of several failures is told. */
static void refused(helper *h, stream *s, int code)
{
    if (helper_is_lost(code)) helper_lost(h, code);
    if (s->code) return;
    s->code = code;
    td_gpu_told m = {TD_GPU_TOLD, code, (uint32_t)(s - h->streams), 0, {0}};
    memcpy(m.why, h->why, sizeof m.why);
    helper_send(h, &m, sizeof m, -1);
}

static void run(helper *h, const td_gpu_command *c)
{
    stream *s = &h->streams[c->stream];
    int code = 0;
    switch (c->what) {
    case TD_GPU_LAUNCH: code = launch(h, s, (const td_gpu_launch *)c); break;
    case TD_GPU_COPY:
    case TD_GPU_READ:
    case TD_GPU_WRITE: code = move(h, s, (const td_gpu_move *)c); break;
    case TD_GPU_FILL: code = fill(h, s, (const td_gpu_fill *)c); break;
    case TD_GPU_PRODUCT: code = product(h, s, (const td_gpu_product *)c); break;
    case TD_GPU_WAIT: wait_for(h, s, ((const td_gpu_wait *)c)->other); break;
    case TD_GPU_END: put_end(h, s, ((const td_gpu_mark *)c)->place); break;
    default: break;
    }
    if (code) refused(h, s, code);
}

static size_t least_bytes(unsigned what)
{
    switch (what) {
    case TD_GPU_LAUNCH: return sizeof(td_gpu_launch);
    case TD_GPU_COPY:
    case TD_GPU_READ:
    case TD_GPU_WRITE: return sizeof(td_gpu_move);
    case TD_GPU_FILL: return sizeof(td_gpu_fill);
    case TD_GPU_PRODUCT: return sizeof(td_gpu_product);
    case TD_GPU_WAIT: return sizeof(td_gpu_wait);
    case TD_GPU_END: return sizeof(td_gpu_mark);
    default: return SIZE_MAX;
    }
}

void launch_run(helper *h, const td_gpu_run *m, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)(m + 1), *last = (const unsigned char *)m + bytes;
    atomic_load_explicit(&h->told[m->seen % TOLD], memory_order_acquire);
    for (uint32_t i = 0; i < m->commands; i++) {
        const td_gpu_command *c = (const td_gpu_command *)at;
        size_t left = (size_t)(last - at);
        if (left < sizeof *c || c->bytes > left || c->bytes % 8 || c->stream >= TD_GPU_STREAMS ||
            c->bytes < least_bytes(c->what)) {
            snprintf(h->why, sizeof h->why, "a command that is none");
            helper_lost(h, CUDA_ERROR_INVALID_VALUE);
        }
        run(h, c);
        at += c->bytes;
    }
}
