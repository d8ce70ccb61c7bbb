/* Work that may hang: reading from and closing descriptors that clients brought.
 *
 * A socket that lingers, a FUSE file or a file on a dead server can hold a thread up for as long as its owner likes.
 * So this has a few threads of its own, made when wanted and gone when idle: what hangs here keeps later descriptors
 * waiting, and nothing else. What has ended is handed back to the loop. */
#include "daemon/server/server.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_THREADS = 16, STACK = 256 << 10, PATIENCE_MS = 500 };

typedef struct job {
    struct job *next;
    void (*work)(void *);
    void (*done)(void *);
    void *arg;
} job;

typedef struct job_list {
    job *first, **last;
} job_list;

typedef struct td_aside {
    pthread_mutex_t lock; /* of all that follows */
    job_list waiting, ended;
    int threads;
    uint32_t unfinished; /* of the loop: given and not yet handed back */
    uv_async_t wake;
} td_aside;

static void append(job_list *l, job *j)
{
    j->next = NULL;
    *l->last = j;
    l->last = &j->next;
}

static job *take_first(job_list *l)
{
    job *j = l->first;
    if (j && !(l->first = j->next)) l->last = &l->first;
    return j;
}

static void *work_off(void *arg)
{
    td_aside *a = arg;
    pthread_mutex_lock(&a->lock);
    for (job *j; (j = take_first(&a->waiting));) {
        pthread_mutex_unlock(&a->lock);
        j->work(j->arg);
        pthread_mutex_lock(&a->lock);
        append(&a->ended, j);
        uv_async_send(&a->wake);
    }
    a->threads--;
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void hand_back(uv_async_t *h)
{
    td_aside *a = h->data;
    for (;;) {
        pthread_mutex_lock(&a->lock);
        job *j = take_first(&a->ended);
        pthread_mutex_unlock(&a->lock);
        if (!j) return;
        if (j->done) j->done(j->arg);
        a->unfinished--;
        free(j);
    }
}

/* Under the lock. */
static bool start_thread(td_aside *a)
{
    pthread_attr_t attr;
    pthread_t t;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    bool ok = pthread_create(&t, &attr, work_off, a) == 0;
    a->threads += ok;
    pthread_attr_destroy(&attr);
    return ok;
}

void td_aside_run(void *server, void (*work)(void *), void (*done)(void *), void *arg)
{
    td_aside *a = ((td_server *)server)->aside;
    job *j = malloc(sizeof *j);
    bool taken = false;
    if (j) {
        *j = (job){.work = work, .done = done, .arg = arg};
        pthread_mutex_lock(&a->lock);
        taken = a->threads >= MOST_THREADS || start_thread(a) || a->threads;
        if (taken) append(&a->waiting, j);
        pthread_mutex_unlock(&a->lock);
    }
    if (taken) {
        a->unfinished++;
        return;
    }
    free(j);
    work(arg);
    if (done) done(arg);
}

static void close_number(void *fd)
{
    close((int)(intptr_t)fd);
}

void td_aside_close(void *server, int fd)
{
    td_aside_run(server, close_number, NULL, (void *)(intptr_t)fd);
}

int td_aside_init(td_server *s, td_error *e)
{
    td_aside *a = s->aside = calloc(1, sizeof *a);
    if (!a) return td_no_memory(e, "for helpers");
    pthread_mutex_init(&a->lock, NULL);
    a->waiting.last = &a->waiting.first;
    a->ended.last = &a->ended.first;
    a->wake.data = a;
    if (uv_async_init(&s->loop, &a->wake, hand_back)) return td_fail(e, TD_E_SYSTEM, "no helpers");
    uv_unref((uv_handle_t *)&a->wake);
    return TD_OK;
}

bool td_aside_deinit(td_server *s)
{
    td_aside *a = s->aside;
    if (!a) return true;
    int threads = 1;
    for (int ms = 0; threads && ms <= PATIENCE_MS; ms++) {
        hand_back(&a->wake);
        pthread_mutex_lock(&a->lock);
        threads = a->threads;
        pthread_mutex_unlock(&a->lock);
        if (threads) usleep(1000);
    }
    hand_back(&a->wake);
    if (threads || a->unfinished) {
        td_log(TD_LOG_WARN, "ending although %u descriptors of clients hang", a->unfinished);
        return false;
    }
    uv_close((uv_handle_t *)&a->wake, NULL);
    uv_run(&s->loop, UV_RUN_NOWAIT);
    pthread_mutex_destroy(&a->lock);
    free(a);
    s->aside = NULL;
    return true;
}
