/* A library that stands in for libcuda.so.1 (TENSORD_LIBCUDA) where there is no GPU, and is stricter than a driver.
 *
 * Its one door is cuGetProcAddress_v2. Memory is memfds, so that it is exported, imported and opened by other
 * processes, and outlives who made it, as that of a driver does. Device addresses lie in a window that nobody may
 * touch; copies and kernels use a second mapping of the bytes. A stream is a thread that runs what was queued to it,
 * with pauses by lot. Between streams there is no order but what events make: no lock is taken that would order them by
 * accident, so the thread sanitizer reports a forgotten event. Kernels are host builds in a shared library
 * (daemon/kernels/cuda/device/host.h), which is loaded as the image of a module; words of their arguments that are
 * device addresses are turned into those of the second mapping.
 *
 * What a driver may let pass is misuse here: it is told, also to the log, and ends the process.
 *
 *     FAKE_CUDA_FAIL=N        the N-th call fails (cuEventQuery, which is called by the clock, is not counted)
 *     FAKE_CUDA_FAIL=NAME:N   the N-th call of this function
 *     FAKE_CUDA_STICKY=N      the N-th launch touches what it may not: all later calls fail
 *     FAKE_CUDA_NO=A,B        of vmm, export, ipc, register: does not work; hint: addresses differ in each process
 *     FAKE_CUDA_MEGABYTES=N   memory of the device, 1024
 *     FAKE_CUDA_LOG=FILE      a line for each call but cuEventQuery, for each launch, and for misuse
 */
#include "daemon/kernels/cuda/device/host.h"
#include "shm/cuda/driver.h"
#define FAKE_NAME "fake driver"
#include "tests/support/fake_log.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GRANULE (UINT64_C(2) << 20)
#define WINDOW UINT64_C(0x7ea000000000) /* device addresses; sanitizers leave this place alone, too */
#define WINDOW_BYTES (UINT64_C(64) << 30)
#define BIAS (UINT64_C(256) << 30) /* from a device address to where its bytes may be touched */
enum { ARGS_MAX = 4096, USES_MAX = 64, UNFINISHED = 4096, HOST_RANGES = 64, MUCH = 1 << 20, MODULES_FROM = 300 };

/* ---- calls */

static struct {
    pthread_mutex_t lock; /* of whoever calls; streams never take it */
    pid_t pid;
    bool ready;
    atomic_long calls, named_calls, launches;
    long fail, sticky_at;
    char fail_name[48];
    const char *no;
    _Atomic int sticky; /* the error that all later calls return */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct CUctx_st {
    int retained;
};
static struct CUctx_st context;
static _Thread_local CUcontext current;

static bool refuses(const char *what)
{
    size_t n = strlen(what);
    for (const char *at = fake.no; at && (at = strstr(at, what)); at += n)
        if ((at == fake.no || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
    return false;
}

__attribute__((constructor)) static void begin(void)
{
    const char *fail = getenv("FAKE_CUDA_FAIL"), *sticky = getenv("FAKE_CUDA_STICKY");
    const char *colon = fail ? strchr(fail, ':') : NULL;
    if (colon) snprintf(fake.fail_name, sizeof fake.fail_name, "%.*s", (int)(colon - fail), fail);
    fake.fail = fail ? atol(colon ? colon + 1 : fail) : 0;
    fake.sticky_at = sticky ? atol(sticky) : 0;
    fake.no = getenv("FAKE_CUDA_NO");
    open_log();
    fake.pid = getpid();
}

enum { ANY = 0, READY = 1, CONTEXT = 2 };

static CUresult failure_of(const char *name)
{
    bool memory = !strcmp(name, "cuMemAlloc") || !strcmp(name, "cuMemCreate") || !strcmp(name, "cuMemHostAlloc");
    return memory ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
}

/* Each call begins so; `wants`: what must have been done before. */
static CUresult enter(const char *name, int wants)
{
    bool counted = strcmp(name, "cuEventQuery") != 0;
    if (getpid() != fake.pid) misuse("%s is called in a forked child", name);
    if (counted) tell("%s", name);
    if (wants >= READY && !fake.ready) return CUDA_ERROR_NOT_INITIALIZED;
    if (wants >= CONTEXT && !current) return CUDA_ERROR_INVALID_CONTEXT;
    int sticky = atomic_load_explicit(&fake.sticky, memory_order_relaxed);
    if (wants >= CONTEXT && sticky) return (CUresult)sticky;
    long n = 0;
    if (fake.fail_name[0]) n = strcmp(name, fake.fail_name) ? 0 : 1 + atomic_fetch_add(&fake.named_calls, 1);
    else if (counted) n = 1 + atomic_fetch_add(&fake.calls, 1);
    if (!fake.fail || n != fake.fail) return CUDA_SUCCESS;
    tell("%s fails as asked", name);
    return failure_of(name);
}

static void lock(void)
{
    pthread_mutex_lock(&fake.lock);
}

static CUresult leave(CUresult r)
{
    pthread_mutex_unlock(&fake.lock);
    return r;
}

/* ---- memory */

typedef struct block {
    struct block *next;
    int fd;
    uint64_t size, inode;
    int handles, mappings;
    bool legacy;  /* of cuMemAlloc */
    bool foreign; /* another process made it */
} block;

typedef enum origin { RESERVED, ALLOCATED, OPENED } origin;

/* Of the window, in order of address. */
typedef struct piece {
    struct piece *next;
    uint64_t at, size;
    origin origin;
    block *block; /* NULL: nothing is mapped */
    bool accessible;
    int opens; /* of OPENED */
} piece;

static block *blocks;
static piece *pieces;
static struct {
    unsigned char *at;
    size_t bytes;
    bool made;       /* by cuMemHostAlloc */
} host[HOST_RANGES]; /* memory of the host that copies need not wait for */

static bool window_ready(void)
{
    static bool ready;
    if (ready) return true;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void *window = mmap((void *)WINDOW, WINDOW_BYTES, PROT_NONE, flags, -1, 0);
    void *view = mmap((void *)(WINDOW + BIAS), WINDOW_BYTES, PROT_NONE, flags, -1, 0);
    return ready = window == (void *)WINDOW && view == (void *)(WINDOW + BIAS);
}

static void *view_of(CUdeviceptr at)
{
    return (void *)(at + BIAS);
}

static uint64_t bytes_in_all(void)
{
    const char *megabytes = getenv("FAKE_CUDA_MEGABYTES");
    return (megabytes ? strtoull(megabytes, NULL, 10) : 1024) << 20;
}

static uint64_t bytes_used(void)
{
    uint64_t used = 0;
    for (const block *m = blocks; m; m = m->next) used += m->size;
    return used;
}

static block *block_new(int fd, uint64_t size, bool legacy, bool foreign)
{
    block *m = calloc(1, sizeof *m);
    struct stat st;
    if (!m || fstat(fd, &st)) abort();
    *m = (block){.next = blocks, .fd = fd, .size = size, .inode = st.st_ino, .legacy = legacy, .foreign = foreign};
    blocks = m;
    return m;
}

static block *block_make(uint64_t size, bool legacy)
{
    if (size > bytes_in_all() - bytes_used()) return NULL;
    int fd = memfd_create("fake-cuda", MFD_CLOEXEC);
    if (fd < 0) return NULL;
    if (ftruncate(fd, (off_t)size)) {
        close(fd);
        return NULL;
    }
    return block_new(fd, size, legacy, false);
}

static void block_drop(block *m)
{
    if (m->handles || m->mappings) return;
    block **at = &blocks;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    close(m->fd);
    free(m);
}

static block *block_of(CUmemGenericAllocationHandle handle)
{
    for (block *m = blocks; m; m = m->next)
        if ((uintptr_t)m == handle && m->handles) return m;
    return NULL;
}

/* The piece that begins there. */
static piece *piece_at(CUdeviceptr at)
{
    for (piece *p = pieces; p; p = p->next)
        if (p->at == at) return p;
    return NULL;
}

/* The piece that has this address in it. */
static piece *piece_with(CUdeviceptr at)
{
    for (piece *p = pieces; p; p = p->next)
        if (at >= p->at && at - p->at < p->size) return p;
    return NULL;
}

static bool may_access(CUdeviceptr at, size_t bytes)
{
    const piece *p = piece_with(at);
    return p && p->accessible && bytes <= p->size - (at - p->at);
}

static bool is_free(uint64_t at, uint64_t size)
{
    if (at < WINDOW || at + size > WINDOW + WINDOW_BYTES) return false;
    for (const piece *p = pieces; p; p = p->next)
        if (at < p->at + p->size && p->at < at + size) return false;
    return true;
}

/* An address for so many bytes; without hints no two processes have the same by luck. */
static uint64_t place_for(uint64_t size, uint64_t hint)
{
    if (hint && !refuses("hint") && is_free(hint, size)) return hint;
    uint64_t at = WINDOW + (uint64_t)(getpid() % 4096) * GRANULE;
    for (; at + size <= WINDOW + WINDOW_BYTES; at += GRANULE)
        if (is_free(at, size)) return at;
    return 0;
}

static piece *piece_new(uint64_t size, uint64_t hint, origin from)
{
    uint64_t at = place_for(size, hint);
    if (!at) return NULL;
    piece *p = calloc(1, sizeof *p), **link = &pieces;
    if (!p) abort();
    while (*link && (*link)->at < at) link = &(*link)->next;
    *p = (piece){.next = *link, .at = at, .size = size, .origin = from};
    return *link = p;
}

static void piece_map(piece *p, block *m)
{
    p->block = m;
    m->mappings++;
}

static bool piece_open(piece *p)
{
    void *view = mmap(view_of(p->at), p->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->block->fd, 0);
    return p->accessible = view != MAP_FAILED;
}

static void piece_unmap(piece *p)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(view_of(p->at), p->size, PROT_NONE, flags, -1, 0) == MAP_FAILED) abort();
    p->accessible = false;
    p->block->mappings--;
    block_drop(p->block);
    p->block = NULL;
}

static void piece_free(piece *p)
{
    piece **link = &pieces;
    while (*link != p) link = &(*link)->next;
    *link = p->next;
    free(p);
}

static int host_range(const void *at, size_t bytes)
{
    const unsigned char *lo = at;
    for (int i = 0; i < HOST_RANGES; i++)
        if (host[i].at && lo >= host[i].at && lo + bytes <= host[i].at + host[i].bytes) return i;
    return -1;
}

static bool host_add(void *at, size_t bytes, bool made)
{
    for (int i = 0; i < HOST_RANGES; i++) {
        if (host[i].at) continue;
        host[i].at = at;
        host[i].bytes = bytes;
        host[i].made = made;
        return true;
    }
    return false;
}

/* ---- streams: what is queued goes from the caller to the thread, and nothing comes back but by events */

typedef enum deed { NOTHING, COPY, FILL, LAUNCH, RECORD, AWAIT, FLAG, END } deed;

struct CUevent_st {
    uint32_t magic;
    atomic_int held; /* by who made it, and by what is queued */
    atomic_ullong recorded, passed;
};

typedef struct op {
    _Atomic(struct op *) next;
    deed what;
    void *to;
    const void *from;
    size_t bytes, pitch, rows, unit; /* of a copy or fill: rows of so many bytes; a fill repeats `unit` bytes of args */
    const td_host_kernel *kernel;
    unsigned grid[3], block[3], shared_bytes;
    bool faults;
    CUevent event;
    unsigned long long count; /* of the event's records */
    sem_t *flag;
    _Alignas(16) unsigned char args[ARGS_MAX];
} op;

typedef struct use {
    uint64_t lo, hi, number;
} use;

struct CUstream_st {
    CUstream next; /* of all */
    pthread_t thread;
    sem_t some;
    op *head, *tail; /* head: the thread's; tail: the callers' */
    uint64_t lot, queued;
    atomic_ullong finished;
    use uses[UNFINISHED]; /* of device memory, by what was queued; the callers' */
    int nuses;
};

static CUstream streams;

static void event_unref(CUevent e)
{
    if (atomic_fetch_sub_explicit(&e->held, 1, memory_order_release) > 1) return;
    atomic_load_explicit(&e->held, memory_order_acquire);
    e->magic = 0;
    free(e);
}

static void pause_by_lot(CUstream s)
{
    s->lot = s->lot * 6364136223846793005u + 1442695040888963407u;
    if (s->lot >> 61 == 0) usleep((useconds_t)(s->lot >> 40 & 255));
}

/* Whole pages of zeros are had by giving back what was there: an arena's first fill touches none of it. */
static size_t give_back(unsigned char *to, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = bytes / page * page;
    bool can = whole >= MUCH && (uintptr_t)to % page == 0;
    return can && !madvise(to, whole, MADV_REMOVE) ? whole : 0;
}

static void run_rows(const op *o)
{
    static const unsigned char zeros[ARGS_MAX];
    for (size_t row = 0; row < o->rows; row++) {
        unsigned char *to = (unsigned char *)o->to + row * o->pitch;
        if (o->what == COPY) {
            memmove(to, (const unsigned char *)o->from + row * o->pitch, o->bytes);
            continue;
        }
        size_t i = memcmp(o->args, zeros, o->unit) == 0 ? give_back(to, o->bytes) : 0;
        for (; i < o->bytes; i += o->unit) memcpy(to + i, o->args, o->unit);
    }
}

static struct sigaction segv_before;

/* A kernel touched what no memory is at: as on a GPU, its context is lost. Its thread ends here. */
static void on_segv(int number, siginfo_t *info, void *frame)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    (void)frame;
    if (at - WINDOW - BIAS >= WINDOW_BYTES) { /* somebody else's */
        sigaction(number, &segv_before, NULL);
        return;
    }
    tell("a kernel touches %#llx, where no memory is", (unsigned long long)(at - BIAS));
    atomic_store_explicit(&fake.sticky, CUDA_ERROR_ILLEGAL_ADDRESS, memory_order_relaxed);
    for (;;) pause();
}

static void run_launch(const op *o)
{
    if (o->faults) {
        tell("a launch faults as asked");
        atomic_store_explicit(&fake.sticky, CUDA_ERROR_ILLEGAL_ADDRESS, memory_order_relaxed);
        return;
    }
    o->kernel->run(o->grid, o->block, o->shared_bytes, o->args);
}

static void run(CUstream s, op *o)
{
    bool broken = atomic_load_explicit(&fake.sticky, memory_order_relaxed) != 0;
    switch (o->what) {
    case COPY:
    case FILL:
        pause_by_lot(s);
        if (!broken) run_rows(o);
        break;
    case LAUNCH:
        pause_by_lot(s);
        if (!broken) run_launch(o);
        break;
    case RECORD: atomic_store_explicit(&o->event->passed, o->count, memory_order_release); break;
    case AWAIT:
        while (atomic_load_explicit(&o->event->passed, memory_order_acquire) < o->count && !broken) {
            usleep(20);
            broken = atomic_load_explicit(&fake.sticky, memory_order_relaxed) != 0;
        }
        break;
    case FLAG: sem_post(o->flag); break;
    default: break;
    }
    if (o->event) event_unref(o->event);
}

static void *stream_main(void *arg)
{
    CUstream s = arg;
    for (bool go_on = true; go_on;) {
        while (sem_wait(&s->some) && errno == EINTR) continue;
        op *o = atomic_load_explicit(&s->head->next, memory_order_acquire);
        free(s->head);
        s->head = o;
        go_on = o->what != END;
        run(s, o);
        atomic_fetch_add_explicit(&s->finished, 1, memory_order_relaxed);
    }
    free(s->head);
    return NULL;
}

static op *op_new(deed what)
{
    op *o = calloc(1, sizeof *o);
    if (!o) abort();
    o->what = what;
    return o;
}

/* Under the lock. */
static void put(CUstream s, op *o)
{
    s->queued++;
    atomic_store_explicit(&s->tail->next, o, memory_order_release);
    s->tail = o;
    sem_post(&s->some);
}

static void forget_finished(CUstream s)
{
    uint64_t finished = atomic_load_explicit(&s->finished, memory_order_relaxed);
    int kept = 0;
    for (int i = 0; i < s->nuses; i++)
        if (s->uses[i].number > finished) s->uses[kept++] = s->uses[i];
    s->nuses = kept;
}

/* What is queued next uses these bytes of the device. */
static void note_use(CUstream s, CUdeviceptr lo, size_t bytes)
{
    while (s->nuses == UNFINISHED) {
        forget_finished(s);
        if (s->nuses == UNFINISHED) usleep(100);
    }
    s->uses[s->nuses++] = (use){lo, lo + bytes, s->queued + 1};
}

static void must_be_unused(const char *call, const piece *p)
{
    for (CUstream s = streams; s; s = s->next) {
        forget_finished(s);
        for (int i = 0; i < s->nuses; i++)
            if (s->uses[i].lo < p->at + p->size && p->at < s->uses[i].hi)
                misuse("%s of memory that work in a stream still uses", call);
    }
}

static CUstream stream_of(CUstream s)
{
    for (CUstream at = streams; at; at = at->next)
        if (at == s) return s;
    misuse("a stream that there is not");
}

/* Queue it, and wait until it has run: under the lock, which is left meanwhile. */
static void put_and_wait(CUstream s, op *o)
{
    sem_t *done = malloc(sizeof *done);
    if (!done || sem_init(done, 0, 0)) abort();
    op *flag = op_new(FLAG);
    flag->flag = done;
    if (o) put(s, o);
    put(s, flag);
    pthread_mutex_unlock(&fake.lock);
    for (struct timespec until = {0, 0}; !atomic_load_explicit(&fake.sticky, memory_order_relaxed);) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (!sem_timedwait(done, &until)) {
            sem_destroy(done);
            free(done);
            lock();
            return;
        }
    }
    lock(); /* it may have ended before it came so far, and may come yet: `done` stays */
}

/* ---- the functions: devices and contexts */

static CUresult fake_cuInit(unsigned flags)
{
    CUresult r = enter("cuInit", ANY);
    if (r) return r;
    if (flags || !window_ready()) return CUDA_ERROR_INVALID_VALUE;
    if (!fake.ready) {
        struct sigaction segv = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &segv, &segv_before);
    }
    fake.ready = true;
    return CUDA_SUCCESS;
}

static CUresult fake_cuDriverGetVersion(int *version)
{
    *version = 13000;
    return enter("cuDriverGetVersion", ANY);
}

static CUresult fake_cuGetErrorName(CUresult error, const char **name)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "CUDA_ERROR_%d", (int)error);
    *name = text;
    return CUDA_SUCCESS;
}

static CUresult fake_cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
            : error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
            : error == CUDA_ERROR_NOT_SUPPORTED ? "operation not supported"
                                                : "an error of the fake driver";
    return CUDA_SUCCESS;
}

static CUresult fake_cuDeviceGetCount(int *count)
{
    *count = 1;
    return enter("cuDeviceGetCount", READY);
}

static CUresult fake_cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult r = enter("cuDeviceGet", READY);
    if (r) return r;
    *device = ordinal;
    return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult fake_cuDeviceGetName(char *name, int length, CUdevice device)
{
    snprintf(name, (size_t)length, "fake driver, no GPU");
    return device ? CUDA_ERROR_INVALID_DEVICE : enter("cuDeviceGetName", READY);
}

static CUresult fake_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    memcpy(uuid->bytes, "fake driver uuid", 16);
    return device ? CUDA_ERROR_INVALID_DEVICE : enter("cuDeviceGetUuid", READY);
}

static CUresult fake_cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    *bytes = bytes_in_all();
    return device ? CUDA_ERROR_INVALID_DEVICE : enter("cuDeviceTotalMem", READY);
}

static CUresult fake_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    bool vmm = !refuses("vmm");
    *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED           ? vmm
             : attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ? vmm
             : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT                        ? 4
             : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN           ? 99 << 10
                                                                                            : 0;
    return device ? CUDA_ERROR_INVALID_DEVICE : enter("cuDeviceGetAttribute", READY);
}

static CUresult fake_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    CUresult r = enter("cuDevicePrimaryCtxRetain", READY);
    if (r) return r;
    if (device) return CUDA_ERROR_INVALID_DEVICE;
    lock();
    context.retained++;
    *out = &context;
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuDevicePrimaryCtxRelease(CUdevice device)
{
    CUresult r = enter("cuDevicePrimaryCtxRelease", READY);
    if (r) return r;
    lock();
    if (device || !context.retained) return leave(CUDA_ERROR_INVALID_CONTEXT);
    context.retained--;
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuCtxSetCurrent(CUcontext c)
{
    CUresult r = enter("cuCtxSetCurrent", READY);
    if (r) return r;
    if (c && (c != &context || !context.retained)) return CUDA_ERROR_INVALID_CONTEXT;
    current = c;
    return CUDA_SUCCESS;
}

static CUresult fake_cuCtxGetCurrent(CUcontext *c)
{
    *c = current;
    return enter("cuCtxGetCurrent", READY);
}

static CUresult fake_cuCtxSynchronize(void)
{
    CUresult r = enter("cuCtxSynchronize", CONTEXT);
    if (r) return r;
    lock();
    for (CUstream s = streams; s; s = s->next) put_and_wait(s, NULL);
    return leave((CUresult)fake.sticky);
}

/* ---- the functions: memory of the device */

static CUresult fake_cuMemGetInfo(size_t *left, size_t *total)
{
    CUresult r = enter("cuMemGetInfo", CONTEXT);
    if (r) return r;
    lock();
    *total = bytes_in_all();
    *left = *total - bytes_used();
    return leave(CUDA_SUCCESS);
}

/* Not of those that tensord calls: a library that works through the driver does. */
static CUresult fake_cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
    lock();
    const piece *p = piece_with(at);
    if (p) *base = p->at;
    if (p) *bytes = p->size;
    return leave(p && p->accessible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult fake_cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    CUresult r = enter("cuMemAlloc", CONTEXT);
    if (r) return r;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    uint64_t size = (bytes + GRANULE - 1) & ~(GRANULE - 1);
    lock();
    block *m = block_make(size, true);
    if (!m) return leave(CUDA_ERROR_OUT_OF_MEMORY);
    piece *p = piece_new(size, 0, ALLOCATED);
    if (!p) {
        block_drop(m);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    piece_map(p, m);
    if (!piece_open(p)) abort();
    *address = p->at;
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuMemFree(CUdeviceptr address)
{
    CUresult r = enter("cuMemFree", CONTEXT);
    if (r) return r;
    lock();
    piece *p = piece_at(address);
    if (!p || p->origin != ALLOCATED) misuse("cuMemFree of what cuMemAlloc did not give, or twice");
    must_be_unused("cuMemFree", p);
    piece_unmap(p);
    piece_free(p);
    return leave(CUDA_SUCCESS);
}

static bool is_device(const CUmemLocation *l)
{
    return l->type == CU_MEM_LOCATION_TYPE_DEVICE && l->id == 0;
}

static CUresult fake_cuMemGetAllocationGranularity(size_t *granule, const CUmemAllocationProp *what,
                                                   CUmemAllocationGranularity_flags which)
{
    CUresult r = enter("cuMemGetAllocationGranularity", READY);
    if (r) return r;
    (void)which;
    *granule = GRANULE;
    return refuses("vmm")                                                              ? CUDA_ERROR_NOT_SUPPORTED
           : what->type == CU_MEM_ALLOCATION_TYPE_PINNED && is_device(&what->location) ? CUDA_SUCCESS
                                                                                       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *what,
                                 unsigned long long flags)
{
    CUresult r = enter("cuMemCreate", CONTEXT);
    if (r) return r;
    if (refuses("vmm")) return CUDA_ERROR_NOT_SUPPORTED;
    if (flags || !bytes || bytes % GRANULE || what->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        !is_device(&what->location))
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    block *m = block_make(bytes, false);
    if (!m) return leave(CUDA_ERROR_OUT_OF_MEMORY);
    m->handles = 1;
    *handle = (uintptr_t)m;
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult r = enter("cuMemRelease", CONTEXT);
    if (r) return r;
    lock();
    block *m = block_of(handle);
    if (!m) misuse("cuMemRelease of a handle that there is not");
    m->handles--;
    block_drop(m);
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint,
                                         unsigned long long flags)
{
    CUresult r = enter("cuMemAddressReserve", CONTEXT);
    if (r) return r;
    if (flags || !bytes || bytes % GRANULE || (alignment && alignment != GRANULE)) return CUDA_ERROR_INVALID_VALUE;
    lock();
    const piece *p = piece_new(bytes, hint, RESERVED);
    if (p) *address = p->at;
    return leave(p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult fake_cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    CUresult r = enter("cuMemAddressFree", CONTEXT);
    if (r) return r;
    lock();
    piece *p = piece_at(address);
    if (!p || p->origin != RESERVED || p->size != bytes) misuse("cuMemAddressFree of what was not reserved");
    if (p->block) misuse("cuMemAddressFree of what is mapped");
    piece_free(p);
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                              unsigned long long flags)
{
    CUresult r = enter("cuMemMap", CONTEXT);
    if (r) return r;
    lock();
    piece *p = piece_at(address);
    block *m = block_of(handle);
    if (!p || !m) misuse("cuMemMap of no reservation, or no handle");
    if (p->block) misuse("cuMemMap where something is mapped");
    if (flags || offset || p->origin != RESERVED || p->size != bytes || m->size != bytes)
        return leave(CUDA_ERROR_INVALID_VALUE);
    piece_map(p, m);
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    CUresult r = enter("cuMemUnmap", CONTEXT);
    if (r) return r;
    lock();
    piece *p = piece_at(address);
    if (!p || p->origin != RESERVED || !p->block || p->size != bytes) misuse("cuMemUnmap of what is not mapped");
    must_be_unused("cuMemUnmap", p);
    piece_unmap(p);
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    CUresult r = enter("cuMemSetAccess", CONTEXT);
    if (r) return r;
    lock();
    piece *p = piece_at(address);
    if (!p || !p->block || p->size != bytes || count != 1 || !is_device(&access->location) ||
        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(piece_open(p) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult fake_cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                                  CUmemAllocationHandleType type, unsigned long long flags)
{
    CUresult r = enter("cuMemExportToShareableHandle", CONTEXT);
    if (r) return r;
    if (refuses("export")) return CUDA_ERROR_NOT_SUPPORTED;
    lock();
    const block *m = block_of(handle);
    if (!m || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return leave(CUDA_ERROR_INVALID_VALUE);
    int fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
    *(int *)out = fd;
    return leave(fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
}

static CUresult fake_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *from,
                                                    CUmemAllocationHandleType type)
{
    CUresult r = enter("cuMemImportFromShareableHandle", CONTEXT);
    if (r) return r;
    struct stat st;
    int fd = (int)(intptr_t)from;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &st) || !st.st_size || st.st_size % GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    block *m = block_new(own, (uint64_t)st.st_size, false, true);
    m->handles = 1;
    *handle = (uintptr_t)m;
    return leave(CUDA_SUCCESS);
}

/* A legacy handle: where the bytes are found as long as the process lives that made them. */
typedef struct ipc {
    char word[8];
    int32_t pid, fd;
    uint64_t size, inode;
} ipc;

static CUresult fake_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    CUresult r = enter("cuIpcGetMemHandle", CONTEXT);
    if (r) return r;
    if (refuses("ipc")) return CUDA_ERROR_NOT_SUPPORTED;
    lock();
    const piece *p = piece_with(address);
    if (!p || p->origin != ALLOCATED) return leave(CUDA_ERROR_INVALID_VALUE);
    ipc x = {"fakeipc", (int32_t)getpid(), p->block->fd, p->size, p->block->inode};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &x, sizeof x);
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    CUresult r = enter("cuIpcOpenMemHandle", CONTEXT);
    if (r) return r;
    ipc x;
    memcpy(&x, &handle, sizeof x);
    if (memcmp(x.word, "fakeipc", 8) || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (x.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    lock();
    for (piece *p = pieces; p; p = p->next) {
        if (p->origin != OPENED || p->block->inode != x.inode) continue;
        p->opens++;
        *address = p->at;
        return leave(CUDA_SUCCESS);
    }
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)x.pid, (int)x.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || st.st_ino != x.inode) {
        if (fd >= 0) close(fd);
        return leave(CUDA_ERROR_INVALID_HANDLE);
    }
    block *m = block_new(fd, x.size, true, true);
    piece *p = piece_new(x.size, 0, OPENED);
    if (!p) abort();
    piece_map(p, m);
    if (!piece_open(p)) abort();
    p->opens = 1;
    *address = p->at;
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuIpcCloseMemHandle(CUdeviceptr address)
{
    CUresult r = enter("cuIpcCloseMemHandle", CONTEXT);
    if (r) return r;
    lock();
    piece *p = piece_at(address);
    if (!p || p->origin != OPENED) misuse("cuIpcCloseMemHandle of what was not opened");
    if (--p->opens) return leave(CUDA_SUCCESS);
    must_be_unused("cuIpcCloseMemHandle", p);
    piece_unmap(p);
    piece_free(p);
    return leave(CUDA_SUCCESS);
}

/* ---- the functions: memory of the host */

static CUresult fake_cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    CUresult r = enter("cuMemHostAlloc", CONTEXT);
    if (r) return r;
    (void)flags;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    if (!host_add(at, bytes, true)) abort();
    *out = at;
    return leave(CUDA_SUCCESS);
}

static CUresult host_drop(void *memory, bool made)
{
    lock();
    int i = host_range(memory, 1);
    if (i < 0 || host[i].at != memory || host[i].made != made) return leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    if (made) munmap(memory, host[i].bytes);
    host[i].at = NULL;
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuMemFreeHost(void *memory)
{
    CUresult r = enter("cuMemFreeHost", CONTEXT);
    return r ? r : host_drop(memory, true);
}

static CUresult fake_cuMemHostRegister(void *memory, size_t bytes, unsigned flags)
{
    CUresult r = enter("cuMemHostRegister", CONTEXT);
    if (r) return r;
    (void)flags;
    if (refuses("register")) return CUDA_ERROR_NOT_SUPPORTED;
    lock();
    const unsigned char *lo = memory, *hi = lo + bytes;
    for (int i = 0; i < HOST_RANGES; i++)
        if (host[i].at && lo < host[i].at + host[i].bytes && host[i].at < hi)
            return leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    if (!host_add(memory, bytes, false)) abort();
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuMemHostUnregister(void *memory)
{
    CUresult r = enter("cuMemHostUnregister", CONTEXT);
    return r ? r : host_drop(memory, false);
}

static CUresult fake_cuMemHostGetDevicePointer(CUdeviceptr *address, void *memory, unsigned flags)
{
    CUresult r = enter("cuMemHostGetDevicePointer", CONTEXT);
    if (r) return r;
    lock();
    bool known = !flags && host_range(memory, 1) >= 0;
    *address = (uintptr_t)memory;
    return leave(known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- the functions: copies */

static op *copy_new(void *to, const void *from, size_t bytes)
{
    op *o = op_new(COPY);
    o->to = to;
    o->from = from;
    o->bytes = o->pitch = bytes;
    o->rows = 1;
    return o;
}

/* Between host and device; memory that is not registered is waited for. Without a stream: at once. */
static CUresult copy_host(CUdeviceptr device, const void *memory, size_t bytes, bool down, CUstream s)
{
    if (!bytes) return CUDA_SUCCESS;
    lock();
    if (!may_access(device, bytes)) return leave(CUDA_ERROR_INVALID_VALUE);
    if (!s) { /* as the legacy stream: streams that do not block are not waited for */
        if (down) memcpy(view_of(device), memory, bytes);
        else memcpy((void *)memory, view_of(device), bytes);
        return leave((CUresult)fake.sticky);
    }
    stream_of(s);
    op *o = down ? copy_new(view_of(device), memory, bytes) : copy_new((void *)memory, view_of(device), bytes);
    note_use(s, device, bytes);
    if (host_range(memory, bytes) >= 0) put(s, o);
    else put_and_wait(s, o);
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    CUresult r = enter("cuMemcpyHtoD", CONTEXT);
    return r ? r : copy_host(to, from, bytes, true, NULL);
}

static CUresult fake_cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    CUresult r = enter("cuMemcpyDtoH", CONTEXT);
    return r ? r : copy_host(from, to, bytes, false, NULL);
}

static CUresult fake_cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream s)
{
    CUresult r = enter("cuMemcpyHtoDAsync", CONTEXT);
    return r ? r : copy_host(to, from, bytes, true, s);
}

static CUresult fake_cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream s)
{
    CUresult r = enter("cuMemcpyDtoHAsync", CONTEXT);
    return r ? r : copy_host(from, to, bytes, false, s);
}

static CUresult fake_cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
    CUresult r = enter("cuMemcpyDtoDAsync", CONTEXT);
    if (r || !bytes) return r;
    lock();
    if (!may_access(to, bytes) || !may_access(from, bytes)) return leave(CUDA_ERROR_INVALID_VALUE);
    if (to < from + bytes && from < to + bytes) misuse("cuMemcpyDtoDAsync between bytes that overlap");
    stream_of(s);
    note_use(s, to, bytes);
    note_use(s, from, bytes);
    put(s, copy_new(view_of(to), view_of(from), bytes));
    return leave(CUDA_SUCCESS);
}

static CUresult fill(CUdeviceptr to, const void *unit, size_t unit_bytes, size_t pitch, size_t width, size_t rows,
                     CUstream s)
{
    if (!width || !rows) return CUDA_SUCCESS;
    size_t bytes = (rows - 1) * pitch + width * unit_bytes;
    lock();
    if (!may_access(to, bytes) || to % unit_bytes || (rows > 1 && pitch < width * unit_bytes))
        return leave(CUDA_ERROR_INVALID_VALUE);
    op *o = op_new(FILL);
    o->to = view_of(to);
    o->bytes = width * unit_bytes;
    o->pitch = pitch;
    o->rows = rows;
    o->unit = unit_bytes;
    memcpy(o->args, unit, unit_bytes);
    stream_of(s);
    note_use(s, to, bytes);
    put(s, o);
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream s)
{
    CUresult r = enter("cuMemsetD8Async", CONTEXT);
    return r ? r : fill(to, &value, 1, count, count, 1, s);
}

static CUresult fake_cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream s)
{
    CUresult r = enter("cuMemsetD16Async", CONTEXT);
    return r ? r : fill(to, &value, 2, count * 2, count, 1, s);
}

static CUresult fake_cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream s)
{
    CUresult r = enter("cuMemsetD32Async", CONTEXT);
    return r ? r : fill(to, &value, 4, count * 4, count, 1, s);
}

static CUresult fake_cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
                                        CUstream s)
{
    CUresult r = enter("cuMemsetD2D32Async", CONTEXT);
    return r ? r : fill(to, &value, 4, pitch, width, height, s);
}

/* ---- the functions: streams and events */

static CUresult fake_cuStreamCreate(CUstream *out, unsigned flags)
{
    CUresult r = enter("cuStreamCreate", CONTEXT);
    if (r) return r;
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    CUstream s = calloc(1, sizeof *s);
    if (!s) abort();
    s->head = s->tail = op_new(NOTHING);
    sem_init(&s->some, 0, 0);
    lock();
    s->next = streams;
    s->lot = s->next ? s->next->lot + 1 : 1;
    streams = s;
    if (pthread_create(&s->thread, NULL, stream_main, s)) abort();
    *out = s;
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuStreamDestroy(CUstream s)
{
    CUresult r = enter("cuStreamDestroy", CONTEXT);
    if (r) return r;
    lock();
    CUstream *link = &streams;
    stream_of(s);
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    put(s, op_new(END));
    pthread_mutex_unlock(&fake.lock);
    pthread_join(s->thread, NULL);
    sem_destroy(&s->some);
    free(s);
    return CUDA_SUCCESS;
}

static CUresult fake_cuStreamSynchronize(CUstream s)
{
    CUresult r = enter("cuStreamSynchronize", CONTEXT);
    if (r) return r;
    lock();
    put_and_wait(stream_of(s), NULL);
    return leave((CUresult)fake.sticky);
}

#define EVENT UINT32_C(0x65766e74)

static void must_be_event(CUevent e)
{
    if (!e || e->magic != EVENT) misuse("an event that there is not");
}

static CUresult fake_cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
    CUresult r = enter("cuStreamWaitEvent", CONTEXT);
    if (r) return r;
    must_be_event(e);
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    op *o = op_new(AWAIT);
    o->event = e;
    o->count = atomic_load_explicit(&e->recorded, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->held, 1, memory_order_relaxed);
    lock();
    put(stream_of(s), o);
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuEventCreate(CUevent *out, unsigned flags)
{
    CUresult r = enter("cuEventCreate", CONTEXT);
    if (r) return r;
    if (flags & ~3u) return CUDA_ERROR_INVALID_VALUE;
    CUevent e = calloc(1, sizeof *e);
    if (!e) abort();
    e->magic = EVENT;
    e->held = 1;
    *out = e;
    return CUDA_SUCCESS;
}

static CUresult fake_cuEventDestroy(CUevent e)
{
    CUresult r = enter("cuEventDestroy", CONTEXT);
    if (r) return r;
    must_be_event(e);
    event_unref(e);
    return CUDA_SUCCESS;
}

static CUresult fake_cuEventRecord(CUevent e, CUstream s)
{
    CUresult r = enter("cuEventRecord", CONTEXT);
    if (r) return r;
    must_be_event(e);
    op *o = op_new(RECORD);
    o->event = e;
    o->count = 1 + atomic_fetch_add(&e->recorded, 1);
    atomic_fetch_add_explicit(&e->held, 1, memory_order_relaxed);
    lock();
    put(stream_of(s), o);
    return leave(CUDA_SUCCESS);
}

static bool has_passed(CUevent e)
{
    return atomic_load_explicit(&e->passed, memory_order_acquire) >=
           atomic_load_explicit(&e->recorded, memory_order_relaxed);
}

static CUresult fake_cuEventQuery(CUevent e)
{
    CUresult r = enter("cuEventQuery", CONTEXT);
    if (r) return r;
    must_be_event(e);
    bool passed = has_passed(e);
    int sticky = atomic_load_explicit(&fake.sticky, memory_order_relaxed);
    return sticky ? (CUresult)sticky : passed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult fake_cuEventSynchronize(CUevent e)
{
    CUresult r = enter("cuEventSynchronize", CONTEXT);
    if (r) return r;
    must_be_event(e);
    while (!has_passed(e) && !atomic_load_explicit(&fake.sticky, memory_order_relaxed)) usleep(20);
    return (CUresult)atomic_load_explicit(&fake.sticky, memory_order_relaxed);
}

/* ---- the functions: modules and launches */

struct CUmod_st {
    void *library;
    const td_host_kernel *kernels;
    unsigned count;
};

#define KERNEL_MAGIC UINT32_C(0x6b65726e)
/* A kernel of a module; as long as the process lives, so that its use after the module has gone is seen. */
struct CUfunc_st {
    uint32_t magic;
    CUmodule module; /* NULL: unloaded */
    const td_host_kernel *kernel;
    CUfunction next;
};
static CUfunction functions;

/* Bytes of a shared library in memory: its table of sections is its end. */
static size_t library_bytes(const void *image)
{
    const Elf64_Ehdr *h = image;
    bool ours = !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_type == ET_DYN &&
                h->e_machine == EM_X86_64;
    return ours ? h->e_shoff + (size_t)h->e_shnum * h->e_shentsize : 0;
}

static CUresult fake_cuModuleLoadData(CUmodule *out, const void *image)
{
    CUresult r = enter("cuModuleLoadData", CONTEXT);
    if (r) return r;
    size_t bytes = library_bytes(image);
    if (!bytes) return CUDA_ERROR_NO_BINARY_FOR_GPU; /* it was made for one */
    char path[64];
    static atomic_int loaded; /* a path that was loaded before would be what was there then */
    int memory = memfd_create("fake-cuda-module", MFD_CLOEXEC);
    int fd = fcntl(memory, F_DUPFD_CLOEXEC, MODULES_FROM + atomic_fetch_add(&loaded, 1));
    close(memory);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *library = NULL;
    if (fd >= 0 && write(fd, image, bytes) == (ssize_t)bytes) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) tell("an image is not loaded: %s", dlerror());
    if (fd >= 0) close(fd);
    if (!library) return CUDA_ERROR_INVALID_IMAGE;
    const unsigned *count = dlsym(library, "td_host_kernel_count");
    const td_host_kernel *kernels = dlsym(library, "td_host_kernels");
    if (!count || !kernels) misuse("an image that is no library of kernels");
    CUmodule m = malloc(sizeof *m);
    if (!m) abort();
    *m = (struct CUmod_st){library, kernels, *count};
    *out = m;
    return CUDA_SUCCESS;
}

static CUresult fake_cuModuleUnload(CUmodule m)
{
    CUresult r = enter("cuModuleUnload", CONTEXT);
    if (r) return r;
    lock();
    for (CUfunction f = functions; f; f = f->next)
        if (f->module == m) f->module = NULL;
    dlclose(m->library);
    free(m);
    return leave(CUDA_SUCCESS);
}

static CUresult fake_cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
    CUresult r = enter("cuModuleGetFunction", CONTEXT);
    if (r) return r;
    for (unsigned i = 0; i < m->count; i++) {
        if (strcmp(m->kernels[i].name, name)) continue;
        CUfunction f = calloc(1, sizeof *f);
        if (!f) abort();
        lock();
        *f = (struct CUfunc_st){KERNEL_MAGIC, m, &m->kernels[i], functions};
        *out = functions = f;
        return leave(CUDA_SUCCESS);
    }
    return CUDA_ERROR_NOT_FOUND;
}

static void must_be_kernel(CUfunction f)
{
    if (!f || f->magic != KERNEL_MAGIC || !f->module) misuse("a kernel that there is not");
}

static CUresult fake_cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    CUresult r = enter("cuFuncSetAttribute", CONTEXT);
    if (r) return r;
    must_be_kernel(f);
    return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value <= 99 << 10 ? CUDA_SUCCESS
                                                                                             : CUDA_ERROR_INVALID_VALUE;
}

/* Words of the arguments that are device addresses: what the launch uses, as far as anybody can tell. They become
 * those at which kernels find the bytes. False: one of them is not to be accessed. */
static bool note_launch(CUstream s, op *o)
{
    for (size_t at = 0; at + 8 <= o->kernel->bytes; at += 8) {
        uint64_t word;
        memcpy(&word, o->args + at, 8);
        if (word < WINDOW || word >= WINDOW + WINDOW_BYTES) continue;
        const piece *p = piece_with(word);
        if (!p) p = piece_with(word - 1); /* the end of something that has no bytes */
        if (!p || !p->accessible) return false;
        note_use(s, p->at, p->size);
        word += BIAS;
        memcpy(o->args + at, &word, 8);
    }
    return true;
}

static CUresult fake_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                    unsigned bz, unsigned shared_bytes, CUstream s, void **parameters, void **extra)
{
    CUresult r = enter("cuLaunchKernel", CONTEXT);
    if (r) return r;
    must_be_kernel(f);
    const td_host_kernel *k = f->kernel;
    if (parameters || extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE ||
        extra[4] != CU_LAUNCH_PARAM_END)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = *(size_t *)extra[3];
    tell("launch %s grid %u %u %u block %u %u %u shared %u bytes %zu", k->name, gx, gy, gz, bx, by, bz, shared_bytes,
         bytes);
    if (bytes != k->bytes || bytes > ARGS_MAX)
        misuse("a launch with %zu bytes of arguments, where the kernel has %u", bytes, k->bytes);
    if (!gx || !gy || !gz || !bx || !by || !bz || gy > 65535 || gz > 65535 || (uint64_t)bx * by * bz > 1024 || bz > 64)
        return CUDA_ERROR_INVALID_VALUE;
    op *o = op_new(LAUNCH);
    o->kernel = k;
    o->shared_bytes = shared_bytes;
    o->grid[0] = gx, o->grid[1] = gy, o->grid[2] = gz;
    o->block[0] = bx, o->block[1] = by, o->block[2] = bz;
    memcpy(o->args, extra[1], bytes);
    o->faults = 1 + atomic_fetch_add(&fake.launches, 1) == fake.sticky_at;
    lock();
    stream_of(s);
    if (!note_launch(s, o)) {
        tell("a launch has an address that is not mapped");
        o->faults = true;
    }
    put(s, o);
    return leave(CUDA_SUCCESS);
}

/* ---- the door */

typedef struct function {
    const char *name;
    int version;
    void *address;
} function;

__attribute__((visibility("default"))) CUresult cuGetProcAddress_v2(const char *name, void **out, int version,
                                                                    unsigned long long flags,
                                                                    CUdriverProcAddressQueryResult *status);

CUresult cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags,
                             CUdriverProcAddressQueryResult *status)
{
    static const function all[] = {
#define FUNCTION(name, version, parameters) {#name, version, (void *)fake_##name},
        TD_CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
        {"cuMemGetAddressRange", 3020, (void *)fake_cuMemGetAddressRange},
    };
    (void)flags;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(name, all[i].name)) continue;
        if (version != all[i].version)
            misuse("%s of version %d is asked for, not of %d", name, version, all[i].version);
        *out = all[i].address;
        if (status) *status = CU_GET_PROC_ADDRESS_SUCCESS;
        return CUDA_SUCCESS;
    }
    misuse("%s is not a function of the fake driver", name);
}
