/* Calls without ops, for the scheduler's suites: tensors are byte intervals of plain storages, kernels are the test's
 * own functions.
 *
 * The scheduler's library needs a few functions of the rooms below it; they are defined here, as small as they can be,
 * so that these suites test order and nothing else. `fake_live` counts calls that are not freed. */
#ifndef TENSORD_TESTS_UNIT_SCHED_FAKE_H
#define TENSORD_TESTS_UNIT_SCHED_FAKE_H

#include "daemon/sched/sched.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long fake_live;

enum { FAKE_KEPT = 1 << 29 }; /* in flags: td_call_free leaves it alone */

static inline void fake_tensor_free(td_tensor *t)
{
    free(t);
}

void td_cpu_thread_init(void)
{
}

void td_kernel_fail(td_kcall *k, td_code code, const char *format, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&k->failed)) {
        va_list ap;
        va_start(ap, format);
        k->error.code = code;
        vsnprintf(k->error.message, sizeof k->error.message, format, ap);
        va_end(ap);
        atomic_store(&k->failed, code);
    }
    pthread_mutex_unlock(&lock);
}

bool td_call_writes_input(const td_call *c, int i)
{
    return c->in[i].number.i; /* fake_updates says so */
}

void td_call_hold(td_call *c)
{
    c->flags |= TD_CF_HELD;
}

void td_call_let_go(td_call *c)
{
    c->nin = c->nout = 0;
}

void td_call_unwritten(td_call *c)
{
    (void)c;
}

void td_call_error(const td_call *c, td_error *e)
{
    snprintf(e->where, sizeof e->where, "%s", c->where);
}

void td_call_free(td_call *c)
{
    if (c->flags & FAKE_KEPT) return;
    for (int i = 0; i < c->nin; i++) fake_tensor_free(c->in[i].tensor);
    for (int i = 0; i < c->nout; i++) fake_tensor_free(c->out[i]);
    if (c->in != c->in_inline) free(c->in);
    if (c->out != c->out_inline) free(c->out);
    td_cause_unref(c->cause);
    free(c);
    fake_live--;
}

/* Bytes [lo, hi) of a storage; with step > 1 every step-th byte of them. */
static inline td_tensor *fake_tensor(td_storage *st, int64_t lo, int64_t hi, int64_t step)
{
    td_tensor *t = calloc(1, sizeof *t);
    t->refs = 1;
    t->storage = st;
    td_desc_contiguous(&t->desc, TD_UINT8, 1, (int64_t[]){(hi - lo + step - 1) / step}, NULL);
    t->desc.stride[0] = step;
    t->desc.offset = lo;
    return t;
}

static inline td_call *fake_call(td_issuer *who, double cost_ns)
{
    td_call *c = calloc(1, sizeof *c);
    c->who = who;
    memcpy(c->where, who->where, sizeof c->where);
    c->in = c->in_inline;
    c->out = c->out_inline;
    c->flags = 0; /* it makes what it writes */
    c->k.cost_ns = cost_ns;
    c->k.attrs = &c->attrs;
    fake_live++;
    return c;
}

static inline void fake_reads(td_call *c, td_storage *st, int64_t lo, int64_t hi)
{
    if (c->nin == TD_CALL_INLINE && c->in == c->in_inline) {
        c->in = malloc(TD_MAX_INPUTS * sizeof *c->in);
        memcpy(c->in, c->in_inline, sizeof c->in_inline);
    }
    c->in[c->nin++] = td_in(fake_tensor(st, lo, hi, 1));
}

/* An input that is written, too. */
static inline void fake_updates(td_call *c, td_storage *st, int64_t lo, int64_t hi)
{
    fake_reads(c, st, lo, hi);
    c->in[c->nin - 1].number.i = true;
}

static inline void fake_writes(td_call *c, td_storage *st, int64_t lo, int64_t hi)
{
    c->out[c->nout++] = fake_tensor(st, lo, hi, 1);
}

static inline void fake_phase(td_call *c, td_chunk_fn fn, int64_t chunks)
{
    c->k.phase[c->k.nphases].fn = fn;
    c->k.phase[c->k.nphases++].chunks = chunks;
}

static inline void fake_storage(td_storage *st, void *data, uint64_t nbytes)
{
    *st = (td_storage){.refs = 1, .nbytes = nbytes, .data = data};
}

static bool fake_helped; /* of the schedulers made from here on: their loop helps */

static inline td_sched *fake_sched(int workers, void (*wake)(void *), void *arg)
{
    td_sched *s = NULL;
    td_error e = {0};
    td_sched_options o = {.workers = workers, .helped = fake_helped, .inline_ns = 1000, .wake = wake, .arg = arg};
    if (td_sched_new(&s, &o, &e)) fprintf(stderr, "td_sched_new: %s\n", e.message), abort();
    return s;
}

#define FAKE_BIG 50000.0 /* ns: goes to the pool */

#endif
