/* The daemon's end of tensord-cuda, without a daemon: what it makes, what is left when the process dies, and that
 * nothing is there before it is needed. */
#include "daemon/cuda/channel.h"
#include "proto/types.h"
#include "tests/unit/cunit_main.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

/* A client of the channel that sends `to_send` fills, one after the other, and counts what it hears. */
typedef struct sender {
    td_gpu *gpu;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t address;
    unsigned to_send, sent, ended, lost, refused;
    td_error why;
} sender;

static void turn(void *arg, const td_error *why)
{
    sender *s = arg;
    pthread_mutex_lock(&s->lock);
    if (why) {
        s->refused += s->to_send;
        s->to_send = 0;
        s->why = *why;
    }
    while (s->to_send && !td_gpu_is_full(s->gpu) && td_gpu_room(s->gpu, sizeof(td_gpu_fill) + sizeof(td_gpu_mark))) {
        uint32_t value = s->sent;
        td_gpu_fill *c = td_gpu_put(s->gpu, TD_GPU_FILL, s->sent % 4, sizeof *c);
        c->to = s->address + s->sent % 1024 * 4;
        c->count = 1;
        c->unit = 4;
        memcpy(c->value, &value, sizeof value);
        td_gpu_mark_end(s->gpu, s->sent % 4, s->sent + 1);
        s->sent++;
        s->to_send--;
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void ended(void *arg, const td_gpu_end *end, const char *why)
{
    sender *s = arg;
    pthread_mutex_lock(&s->lock);
    s->ended += end->place != 0; /* well or not: where its arena was lost the driver refuses a fill */
    (void)why;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void lost(void *arg, const td_error *why)
{
    sender *s = arg;
    pthread_mutex_lock(&s->lock);
    s->lost += s->sent - s->ended - s->lost;
    s->why = *why;
    pthread_cond_broadcast(&s->changed);
    if (s->to_send) td_gpu_poke(s->gpu);
    pthread_mutex_unlock(&s->lock);
}

static void open_gpu(sender *s, td_gpu_handles handles)
{
    const td_gpu_options o = {.device = TD_CUDA, .handles = handles};
    const td_gpu_client client = {turn, ended, lost, s};
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    CU_ASSERT_EQUAL_FATAL(td_gpu_new(&s->gpu, &o, &client, NULL), 0);
}

static void send_some(sender *s, unsigned count)
{
    pthread_mutex_lock(&s->lock);
    s->to_send += count;
    pthread_mutex_unlock(&s->lock);
    td_gpu_poke(s->gpu);
}

/* Until each that was to be sent has ended in some way. */
static void wait_for_all(sender *s, unsigned count)
{
    pthread_mutex_lock(&s->lock);
    while (s->ended + s->lost + s->refused < count) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static int pid_of(sender *s)
{
    td_gpu_facts f;
    td_gpu_get_facts(s->gpu, &f);
    return f.pid;
}

static int entries(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static int threads(void)
{
    return entries("/proc/self/task");
}

static int descriptors(void)
{
    return entries("/proc/self/fd");
}

/* ---- */

static void nothing_before(void)
{
    int before = threads();
    sender s;
    td_gpu_facts f;
    open_gpu(&s, TD_GPU_HANDLES_AUTO);
    td_gpu_get_facts(s.gpu, &f);
    CU_ASSERT_EQUAL(f.pid, 0);
    CU_ASSERT_FALSE(f.started);
    CU_ASSERT_EQUAL(threads(), before);
    td_gpu_free(s.gpu);
}

static void works(void)
{
    sender s;
    td_gpu_memory *m;
    td_error e;
    static unsigned char sent[3 * MIB + 5], got[3 * MIB + 5];
    int before = descriptors(), processes;
    for (size_t i = 0; i < sizeof sent; i++) sent[i] = (unsigned char)(i * 31);
    open_gpu(&s, TD_GPU_HANDLES_AUTO);
    CU_ASSERT_EQUAL_FATAL(td_gpu_make(s.gpu, 8 * MIB, &m, &e), 0);
    CU_ASSERT_TRUE(m->fd >= 0);
    processes = pid_of(&s);
    CU_ASSERT_EQUAL(kill(processes, 0), 0);
    CU_ASSERT_EQUAL(td_gpu_write(s.gpu, m->address + MIB, sent, sizeof sent, &e), 0);
    CU_ASSERT_EQUAL(td_gpu_read(s.gpu, m->address + MIB, got, sizeof got, &e), 0);
    CU_ASSERT_EQUAL(memcmp(sent, got, sizeof sent), 0);
    s.address = m->address;
    send_some(&s, 20000);
    wait_for_all(&s, 20000);
    CU_ASSERT_EQUAL(s.ended, 20000);
    uint32_t last[1024];
    CU_ASSERT_EQUAL(td_gpu_read(s.gpu, m->address, last, sizeof last, &e), 0);
    for (uint32_t i = 0; i < 1024; i++) CU_ASSERT_EQUAL(last[i] % 1024, i);
    td_gpu_memory *none;
    CU_ASSERT_EQUAL(td_gpu_make(s.gpu, (uint64_t)1 << 42, &none, &e), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "cuda:0 has no"));
    CU_ASSERT_NOT_EQUAL(td_gpu_read(s.gpu, 4096, last, sizeof last, &e), 0);
    CU_ASSERT_EQUAL(td_gpu_read(s.gpu, m->address, last, sizeof last, &e), 0);
    td_gpu_end_memory(m);
    td_gpu_free(s.gpu);
    CU_ASSERT_NOT_EQUAL(kill(processes, 0), 0);
    CU_ASSERT_EQUAL(descriptors(), before);
}

/* Perhaps there is none just now. */
static void kill_it(sender *s)
{
    int pid = pid_of(s);
    if (pid > 0) kill(pid, SIGKILL);
}

/* The process is killed again and again under work. */
static void killed(td_gpu_handles handles)
{
    sender s;
    td_gpu_memory *m;
    td_error e;
    unsigned sent = 0;
    uint64_t magic = 0x1234567890abcdef, got = 0;
    int before = descriptors();
    open_gpu(&s, handles);
    for (int i = 0; i < 30; i++) {
        if (i == 0 || handles == TD_GPU_HANDLES_IPC) {
            CU_ASSERT_EQUAL_FATAL(td_gpu_make(s.gpu, 2 * MIB, &m, &e), 0);
            CU_ASSERT_EQUAL(td_gpu_write(s.gpu, m->address + MIB, &magic, sizeof magic, &e), 0);
            pthread_mutex_lock(&s.lock);
            s.address = m->address;
            pthread_mutex_unlock(&s.lock);
        }
        send_some(&s, 500);
        sent += 500;
        if (i % 3) usleep((useconds_t)(i * 50));
        kill_it(&s);
        wait_for_all(&s, sent);
        if (handles == TD_GPU_HANDLES_VMM) {
            CU_ASSERT_EQUAL(td_gpu_read(s.gpu, m->address + MIB, &got, sizeof got, &e), 0);
            CU_ASSERT_EQUAL(got, magic);
            CU_ASSERT_FALSE(atomic_load(&m->lost));
        } else {
            while (!atomic_load(&m->lost)) {
                kill_it(&s);
                usleep(1000);
            }
            td_gpu_end_memory(m);
        }
    }
    CU_ASSERT_EQUAL(s.refused, 0);
    CU_ASSERT_TRUE(s.lost > 0);
    CU_ASSERT_EQUAL(s.why.code, TD_E_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(s.why.message, "cuda:0 has failed: its process ("));
    td_gpu_facts f;
    td_gpu_get_facts(s.gpu, &f);
    CU_ASSERT_TRUE(f.starts >= 15);
    if (handles == TD_GPU_HANDLES_VMM) td_gpu_end_memory(m);
    td_gpu_free(s.gpu);
    CU_ASSERT_EQUAL(descriptors(), before);
}

static void killed_vmm(void)
{
    killed(TD_GPU_HANDLES_VMM);
}

static void killed_ipc(void)
{
    killed(TD_GPU_HANDLES_IPC);
}

/* Where there is no driver, or one that fails, all hear why, and nothing hangs. */
static void no_process(void)
{
    sender s;
    td_gpu_memory *m;
    td_error e;
    char *driver = strdup(getenv("TENSORD_LIBCUDA"));
    setenv("TENSORD_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    open_gpu(&s, TD_GPU_HANDLES_AUTO);
    CU_ASSERT_EQUAL(td_gpu_make(s.gpu, 2 * MIB, &m, &e), TD_E_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "cuda:0 cannot be used: no CUDA driver: /nowhere/libcuda.so.1"));
    send_some(&s, 3);
    wait_for_all(&s, 3);
    CU_ASSERT_EQUAL(s.refused, 3);
    setenv("TENSORD_LIBCUDA", driver, 1);
    int rc;
    while ((rc = td_gpu_make(s.gpu, 2 * MIB, &m, &e)) == TD_E_DEVICE) usleep(10000); /* it is tried again */
    CU_ASSERT_EQUAL_FATAL(rc, 0);
    td_gpu_end_memory(m);
    td_gpu_free(s.gpu);
    setenv("TENSORD_CUDA_PROCESS", "/nowhere/tensord-cuda", 1);
    open_gpu(&s, TD_GPU_HANDLES_AUTO);
    CU_ASSERT_EQUAL(td_gpu_make(s.gpu, 2 * MIB, &m, &e), TD_E_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "/nowhere/tensord-cuda"));
    td_gpu_free(s.gpu);
    free(driver);
}

int main(int argc, char **argv)
{
    static const td_test tests[] = {
        {"nothing before it is needed", nothing_before},
        {"works", works},
        {"killed, memory behind descriptors", killed_vmm},
        {"killed, memory behind legacy handles", killed_ipc},
        {"no process", no_process},
    };
    return td_tests_run("fake_cuda_channel", NULL, NULL, sizeof tests / sizeof *tests, tests,
                        argc > 1 ? argv[1] : NULL);
}
