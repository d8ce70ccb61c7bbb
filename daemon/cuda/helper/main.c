/* tensord-cuda: greets the daemon, then does what it is told, until the socket is closed.
 *
 * Started by the daemon with the socket as descriptor 3, and by hand for nothing. Nothing is tidied at the end: the
 * driver takes back what a process had, and that works in all states. */
#include "daemon/cuda/helper/helper.h"
#include "daemon/kernels/cuda/images.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOCKET = 3 };

int helper_noted(helper *h, const char *call, CUresult r)
{
    td_error e;
    if (!r) return 0;
    td_error_clear(&e);
    td_cuda_failed(&h->d, call, r, &e);
    snprintf(h->why, sizeof h->why, "%.150s", e.message);
    return r;
}

bool helper_is_lost(int code)
{
    static const short lost[] = {
        4,                            /* deinitialized */
        46,                           /* device unavailable */
        201,                          /* invalid context */
        214,                          /* ECC uncorrectable */
        700,                          /* illegal address */
        702,                          /* launch timeout */
        709,                          /* context is destroyed */
        710,                          /* assert */
        714, 715, 716, 717, 718, 719, /* hardware stack, instruction, alignment, address space, pc, launch failed */
        721,                          /* launch timeout of the tensor core */
    };
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        if (code == lost[i]) return true;
    return false;
}

void helper_send(helper *h, const void *message, size_t bytes, int fd)
{
    struct iovec part = {(void *)message, bytes};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
    if (fd >= 0) {
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    ssize_t n;
    do n = sendmsg(h->socket, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0) _exit(0); /* the daemon has gone */
}

void helper_lost(helper *h, int code)
{
    td_gpu_told m = {TD_GPU_FAILED, code, 0, 0, {0}};
    memcpy(m.why, h->why, sizeof m.why);
    helper_send(h, &m, sizeof m, -1);
    _exit(1);
}

/* A message, and the descriptor that came with it, or -1. 0: the daemon has gone. */
static size_t receive(helper *h, void *to, size_t most, int *fd)
{
    struct iovec part = {to, most};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof *fd)];
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n;
    *fd = -1;
    do n = recvmsg(h->socket, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return 0;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return (size_t)n;
}

/* ---- greeting */

static int open_device(helper *h, uint32_t number, td_gpu_greeting *g)
{
    const td_cuda_driver *d = &h->d;
    int version = 0, major = 0, minor = 0, processors = 0, code;
    size_t bytes = 0;
    CUuuid uuid = {{0}};
    if ((code = helper_noted(h, "cuInit", d->cuInit(0)))) return code;
    if ((code = helper_noted(h, "cuDriverGetVersion", d->cuDriverGetVersion(&version)))) return code;
    if ((code = helper_noted(h, "cuDeviceGet", d->cuDeviceGet(&h->device, (int)number)))) return code;
    if ((code = helper_noted(h, "cuDeviceGetName", d->cuDeviceGetName(g->name, sizeof g->name, h->device))))
        return code;
    if ((code = helper_noted(h, "cuDeviceGetUuid", d->cuDeviceGetUuid(&uuid, h->device)))) return code;
    if ((code = helper_noted(h, "cuDeviceTotalMem", d->cuDeviceTotalMem(&bytes, h->device)))) return code;
    d->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, h->device);
    d->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, h->device);
    d->cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, h->device);
    memcpy(g->uuid, uuid.bytes, sizeof g->uuid);
    g->bytes = bytes;
    g->version = (uint32_t)version;
    g->major = (uint32_t)major;
    g->minor = (uint32_t)minor;
    g->processors = (uint32_t)processors;
    code = helper_noted(h, "cuDevicePrimaryCtxRetain", d->cuDevicePrimaryCtxRetain(&h->context, h->device));
    return code ? code : helper_noted(h, "cuCtxSetCurrent", d->cuCtxSetCurrent(h->context));
}

static int map_staging(helper *h, int fd, uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) {
        snprintf(h->why, sizeof h->why, "the staging memory cannot be mapped: %s", strerror(errno));
        return CUDA_ERROR_UNKNOWN;
    }
    h->staging = at;
    h->staging_bytes = bytes;
    return 0;
}

/* Where memory cannot be registered, copies of it are slower, and that is all. */
static bool register_staging(helper *h)
{
    const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    CUresult r = h->d.cuMemHostRegister(h->staging, h->staging_bytes, flags);
    if (helper_is_lost(r)) helper_lost(h, helper_noted(h, "cuMemHostRegister", r));
    return r == CUDA_SUCCESS;
}

static void *read_image(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    void *image = fstat(fd, &st) || !st.st_size ? NULL : malloc((size_t)st.st_size);
    if (image && read(fd, image, (size_t)st.st_size) != st.st_size) {
        free(image);
        image = NULL;
    }
    close(fd);
    return image;
}

/* TENSORD_CUDA_KERNELS: a file in place of the images of this build (of the fake driver's, or of a test's). */
static int load_kernels(helper *h)
{
    const char *path = getenv("TENSORD_CUDA_KERNELS");
    int code = 0;
    if (path && *path) {
        void *image = read_image(path);
        if (image) return launch_load(h, image);
        snprintf(h->why, sizeof h->why, "TENSORD_CUDA_KERNELS cannot be read: %.100s", path);
        return CUDA_ERROR_NOT_FOUND;
    }
    for (unsigned i = 0; i < td_cuda_image_count && !code; i++) code = launch_load(h, td_cuda_images[i].begin);
    return code;
}

static int make_ready(helper *h, const td_gpu_hello *m, int fd, td_gpu_greeting *g)
{
    td_error e;
    int code = map_staging(h, fd, m->staging_bytes);
    if (code) return code;
    if (td_cuda_driver_open(&h->d, &e)) {
        snprintf(h->why, sizeof h->why, "%.150s", e.message);
        return CUDA_ERROR_NO_DEVICE;
    }
    if ((code = open_device(h, m->device, g))) return code;
    if ((code = memory_begin(h, (td_gpu_handles)m->handles))) return code;
    g->registered = register_staging(h);
    if ((code = load_kernels(h)) && code != CUDA_ERROR_NO_BINARY_FOR_GPU) return code;
    if ((code = launch_begin(h))) return code;
    if (m->libraries) {
        if ((code = product_begin(h, g->library, sizeof g->library))) return code;
    } else {
        snprintf(g->library, sizeof g->library, "none is looked for: the process did not begin with it");
    }
    g->products = h->products;
    g->kernels = h->nmodules > 0;
    g->handles = h->handles;
    g->granule = h->granule;
    return 0;
}

static void greet(helper *h)
{
    td_gpu_hello m;
    td_gpu_greeting g = {.kind = TD_GPU_GREETING, .wire = TD_GPU_WIRE};
    int fd;
    size_t n = receive(h, &m, sizeof m, &fd);
    if (n != sizeof m || m.kind != TD_GPU_HELLO || m.wire != TD_GPU_WIRE || fd < 0) {
        snprintf(h->why, sizeof h->why, "this is tensord-cuda of another build than the daemon's");
        g.code = CUDA_ERROR_INVALID_VALUE;
    } else {
        g.code = make_ready(h, &m, fd, &g);
    }
    if (g.code) memcpy(g.why, h->why, sizeof g.why);
    helper_send(h, &g, sizeof g, -1);
    if (g.code) _exit(1);
}

int main(void)
{
    static helper h = {.socket = SOCKET};
    static _Alignas(16) unsigned char message[TD_GPU_MESSAGE_MAX];
    struct stat st;
    size_t n;
    int fd;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fstat(SOCKET, &st) || !S_ISSOCK(st.st_mode)) {
        fprintf(stderr, "tensord-cuda is started by tensord, at the first CUDA tensor\n");
        return 2;
    }
    fcntl(SOCKET, F_SETFD, FD_CLOEXEC);
    greet(&h);
    while ((n = receive(&h, message, sizeof message, &fd)) >= sizeof(uint32_t)) {
        uint32_t kind;
        memcpy(&kind, message, sizeof kind);
        if (kind == TD_GPU_RUN) launch_run(&h, (const td_gpu_run *)message, n);
        else if (kind == TD_GPU_ARENA) memory_make(&h, (const td_gpu_arena *)message);
        else if (kind == TD_GPU_ARENA_END) memory_end(&h, (const td_gpu_arena *)message);
        else if (kind == TD_GPU_IMPORT) memory_import(&h, (const td_gpu_arena *)message, fd);
        else if (kind == TD_GPU_NAMES) {
            launch_name(&h, (const td_gpu_names *)message);
            product_ready(&h);
        }
    }
    _exit(0);
}
