/* See grow.h. */
#include "daemon/service/grow.h"
#include "daemon/service/service.h"
#include "proto/base/device.h"

#include <stdlib.h>

enum { GROW_HERE = 128 << 10 }; /* bytes that are committed in 0.1 ms */

static void make(void *arg)
{
    td_growth *g = arg;
    g->rc = td_budget_make(g->budget, &g->segment, g->kind, g->size, &g->error);
}

static void made(void *arg)
{
    td_growth *g = arg;
    g->error.code = g->rc;
    if (g->rc) td_heap_unreserve(g->heap, g->size);
    else td_heap_adopt(g->heap, g->segment);
    g->done(g);
}

void td_grow(td_service *s, td_growth *g)
{
    const td_service_options *o = &s->options;
    g->budget = td_heap_budget(g->heap);
    g->kind = td_heap_kind(g->heap);
    g->segment = NULL;
    if ((g->size > GROW_HERE || g->budget->make) && o->background) { /* who makes his own takes his time */
        o->background(o->arg, make, made, g);
        return;
    }
    make(g);
    made(g);
}

int td_grow_refused(const td_error *why, const td_need *need, td_error *e)
{
    double megabytes = (double)need->bytes / 1e6;
    if (why->code == TD_E_BUSY) return td_no_descriptors(e);
    if (why->code == TD_E_DEVICE) return td_fail(e, TD_E_DEVICE, "%s", why->message);
    if (need->device != TD_CPU)
        return td_fail(e, TD_E_MEMORY, "%s has no %.1f MB to give", td_device_name(need->device), megabytes);
    return td_fail(e, TD_E_MEMORY, "the system has no %.1f MB of shared memory to give (see `tensorctl doctor`)",
                   megabytes);
}

/* ---- what a kernel needs */

typedef struct making {
    td_need_work work;
    void (*done)(void *arg);
    void *arg;
} making;

static void make_work(void *arg)
{
    const making *m = arg;
    m->work.make(m->work.arg);
}

static void made_work(void *arg)
{
    making m = *(making *)arg;
    free(m.work.arg);
    free(arg);
    m.done(m.arg);
}

int td_make_aside(td_service *s, td_need *need, void (*done)(void *arg), void *arg, td_error *e)
{
    const td_service_options *o = &s->options;
    making *m = malloc(sizeof *m);
    if (!m) {
        td_need_drop(need);
        return td_no_memory(e, "for a kernel");
    }
    *m = (making){td_need_take_work(need), done, arg};
    if (o->background) {
        o->background(o->arg, make_work, made_work, m);
        return TD_OK;
    }
    make_work(m);
    made_work(m);
    return TD_OK;
}
