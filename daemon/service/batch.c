/* Requests of a model, and the runs that answer them. Which comes next lines.c knows. A lane has one batch, which is
 * formed when its owner comes to it: all that came until then may join.
 *
 * Invariant: a request waits in a line, or is in one batch; a batch without requests runs no further. */
#include "daemon/service/model.h"
#include "proto/ops/opid.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BATCH = 64,         /* requests of one run */
    LOOK = 256,         /* that wait are looked at for some that can join */
    SMALL = 64,         /* bytes of an input without rows that are compared */
    VIEWED = 64 << 10,  /* bytes of an output from which on it is a part of the batch's, and no copy */
    STEP = 8,           /* ops */
    SOME = 64,          /* tensors that are waited for at a time */
    BYTES_PART = 8,     /* of the memory: with so much in the inputs of requests that wait, no other comes */
    VALUES = 4096,      /* that a program returns: its tensors, and the lists around them */
    MOST_GIVE_WAY = 16, /* to one request */
    BYTES = sizeof(td_inquiry) + 2 * sizeof(td_model_line) /* of the daemon's memory that one takes */
};

struct td_served_run {
    td_job job;
    td_served *of; /* counted while it has begun */
    td_owner *owner;
    enum { FORMS, GATHERS, BEGINS, RUNS, PARTS, AWAITS, ANSWERS, ENDS } stage;
    uint32_t n, live, rows;
    td_inquiry *at[BATCH]; /* NULL: it is gone */
    uint32_t size[BATCH];  /* its rows */
    td_tensor *in[TD_MODEL_ENDS];
    uint32_t nin;
    td_exec *exec;
    td_tensor **made; /* results, ... */
    uint32_t nmade;
    td_tensor **out; /* ... and of each request's, one after the other */
    uint32_t parted, there;
    uint64_t began_ns, there_ns;
};

static td_served_run *batch_of(td_job *j)
{
    return (td_served_run *)(void *)((char *)j - offsetof(td_served_run, job));
}

/* ---- the end of a request */

static void waits_no_more(td_inquiry *x)
{
    td_line_leave(x);
    td_line_waits(x, false);
}

/* Its batch goes on for the others; for nobody it stops. */
static void leave_batch(td_inquiry *x)
{
    td_served_run *b = x->run;
    for (uint32_t k = 0; k < b->n; k++)
        if (b->at[k] == x) b->at[k] = NULL;
    x->run = NULL;
    if (--b->live == 0) td_owner_ready(b->owner);
}

/* Nobody knows of it any more. */
static void forget(td_inquiry *x)
{
    td_served *v = x->of;
    if (x->inputs) td_waiter_cancel(x->inputs);
    td_deadline_disarm(v->of->service, &x->await.deadline);
    if (x->run) leave_batch(x);
    else waits_no_more(x);
    td_line_part(x);
    td_queue_item_free(x->in);
    td_account_discharge(x->account, 0, td_objects_of(BYTES));
    td_account_unref(x->account);
    free(x);
    td_served_look(v);
    td_served_unref(v);
}

static void answer(td_inquiry *x, td_queued_item *out, const td_error *why)
{
    td_model_then *then = x->then;
    void *arg = x->await.arg;
    forget(x);
    then(arg, out, why);
}

static void fail(td_inquiry *x, const td_error *why)
{
    x->of->counts.failed++;
    answer(x, NULL, why);
}

static void expired(void *arg)
{
    td_inquiry *x = arg;
    td_error e = {0};
    x->of->counts.expired++;
    td_fail(&e, TD_E_TIMEOUT, "the model '%s' did not answer in time: %s", x->of->of->name,
            x->run      ? "it was still running"
            : x->inputs ? "the inputs were still being computed"
                        : "others were still before it");
    answer(x, NULL, &e);
}

static void cancel(td_service *s, td_await *a)
{
    (void)s;
    td_inquiry *x = (td_inquiry *)(void *)a;
    x->of->counts.cancelled++;
    forget(x);
}

static const char *whom(const td_await *a)
{
    return ((const td_inquiry *)(const void *)a)->of->of->name;
}

static const td_await_kind for_answer = {cancel, whom};

uint32_t td_inquiry_number(const td_await *a)
{
    return ((const td_inquiry *)(const void *)a)->of->number;
}

/* ---- what may be joined */

static uint32_t most_rows(const td_served *v)
{
    return v->how.nsizes ? v->how.sizes[v->how.nsizes - 1] : 1;
}

static const td_desc *desc_of(const td_inquiry *x, int k)
{
    return &x->in->tensors[k]->desc;
}

/* How many rows its inputs have; 0: they do not agree on that, and it stays alone. */
static uint32_t rows_of(const td_inquiry *x)
{
    const td_model_how *h = &x->of->how;
    int64_t rows = 0;
    for (int k = 0; k < h->nin; k++) {
        const td_desc *d = desc_of(x, k);
        int dim = h->in_rows[k];
        if (dim < 0) continue;
        if (dim >= d->ndim || (rows && d->shape[dim] != rows)) return 0;
        rows = d->shape[dim];
    }
    return rows > 0 && rows <= TD_MODEL_ROWS ? (uint32_t)rows : 0;
}

/* Where its bytes lie, as they were when it was asked. */
static const unsigned char *bytes_of(const td_inquiry *x, int k)
{
    const td_tensor *t = x->in->tensors[k];
    const td_storage *copy = td_queue_item_copy(x->in, k), *st = copy ? copy : t->storage;
    if (!td_desc_is_contiguous(&t->desc) || t->desc.device != TD_CPU || st->poison) return NULL;
    if (td_sched_pending(st, 0, st->nbytes, false)) return NULL;
    return st->data + (uint64_t)t->desc.offset * td_dtype_size((td_dtype)t->desc.dtype);
}

static bool same_value(const td_inquiry *a, const td_inquiry *b, int k)
{
    uint64_t n = td_desc_nbytes(desc_of(a, k));
    const unsigned char *x = n <= SMALL ? bytes_of(a, k) : NULL, *y = x ? bytes_of(b, k) : NULL;
    return y && memcmp(x, y, n) == 0;
}

static bool alike(const td_inquiry *a, const td_inquiry *b)
{
    const td_model_how *h = &a->of->how;
    for (int k = 0; k < h->nin; k++) {
        const td_desc *x = desc_of(a, k), *y = desc_of(b, k);
        if (x->dtype != y->dtype || x->ndim != y->ndim || x->device != y->device) return false;
        for (int i = 0; i < x->ndim; i++)
            if (i != h->in_rows[k] && x->shape[i] != y->shape[i]) return false;
        if (h->in_rows[k] < 0 && !same_value(a, b, k)) return false;
    }
    return true;
}

static bool is_size(const td_served *v, uint32_t rows)
{
    for (int k = 0; k < v->how.nsizes; k++)
        if (v->how.sizes[k] == rows) return true;
    return false;
}

/* The first, and those that join it, in order: as many as make a size that was tried when the model was made warm, for
 * which there are plans; or, where none is met that has half of them, as fit. */
static uint32_t choose(td_served *v, td_inquiry **at, uint32_t *rows)
{
    td_model_order order = td_lines_order(v, LOOK);
    td_inquiry *x = td_order_next(&order);
    uint32_t n = 1, most = most_rows(v), sum = x->rows, warm = 0, warm_rows = 0;
    at[0] = x;
    for (td_inquiry *y; !x->alone && n < BATCH && (y = td_order_next(&order));) {
        if (y->alone || sum + y->rows > most || !alike(x, y)) continue;
        if (n == 1 && !td_looks_apart(v, x->in)) break;
        at[n++] = y;
        sum += y->rows;
        if (is_size(v, sum)) warm = n, warm_rows = sum;
    }
    bool fits = 2 * warm_rows >= sum;
    *rows = fits ? warm_rows : sum;
    return fits ? warm : n;
}

/* ---- when a run begins */

static void delay_over(void *served)
{
    td_served_start(served);
}

/* May the first wait for others still? Then somebody looks when it may no longer. */
static bool waits_for_others(td_served *v)
{
    td_inquiry *at[BATCH];
    uint32_t rows;
    const td_inquiry *x = td_lines_first(v);
    uint64_t now = td_clock_ns(), until = x->asked_ns + (uint64_t)v->how.delay_us * 1000;
    if (!v->how.delay_us || x->alone || v->state != TD_READY || now >= until) return false;
    choose(v, at, &rows);
    if (rows >= most_rows(v)) return false;
    if (!v->delay.armed) td_deadline_arm_us(v->of->service, &v->delay, (until - now + 999) / 1000, delay_over, v);
    return true;
}

static const td_job_kind kind;

void td_served_start(td_served *v)
{
    if (!v->levels_in_use || !v->idle || v->forming || waits_for_others(v)) return;
    uint32_t k = (uint32_t)__builtin_ctzll(v->idle);
    td_served_run *b = v->lanes[k].batch;
    v->idle &= v->idle - 1;
    v->running++;
    v->forming = true;
    b->of = td_served_ref(v);
    b->stage = FORMS;
    b->job = td_owner_job(b->owner, &kind);
    td_owner_give(b->owner, &b->job);
}

/* ---- asking */

/* Its inputs are computed: it waits for its turn. */
static void list_it(td_inquiry *x)
{
    td_served *v = x->of;
    x->rows = rows_of(x);
    x->alone = x->rows == 0 || x->rows >= most_rows(v);
    if (!x->rows) x->rows = 1;
    td_line_enter(x);
    td_served_start(v);
}

static void inputs_there(void *inquiry)
{
    td_inquiry *x = inquiry;
    bool later = x->inputs != NULL;
    x->inputs = NULL;
    for (int k = 0; k < x->in->count && later; k++) {
        const td_cause *lost = x->in->tensors[k]->storage->poison;
        if (!lost || td_queue_item_copy(x->in, k)) continue;
        td_error why = lost->error;
        fail(x, &why);
        return;
    }
    list_it(x);
}

static int await_inputs(td_inquiry *x, td_error *e)
{
    td_access *what = malloc(((size_t)x->in->count + 1) * sizeof *what);
    if (!what) return td_no_memory(e, "for a request");
    for (int k = 0; k < x->in->count; k++) {
        const td_tensor *t = x->in->tensors[k];
        what[k] = (td_access){.storage = t->storage};
        td_desc_extent(&t->desc, &what[k].lo, &what[k].hi);
    }
    x->inputs = td_sched_after(x->of->of->service->sched, x->in->count, what, inputs_there, x);
    free(what);
    return TD_OK;
}

static int check(td_served *v, const td_queued_item *in, uint64_t timeout_us, td_error *e)
{
    uint32_t wants = td_served_inputs(v);
    const char *name = v->of->name;
    if ((uint32_t)in->count != wants)
        return td_fail(e, TD_E_INVALID, "the model '%s' takes %u inputs, and %d are given", name, wants, in->count);
    if (!timeout_us) return td_fail(e, TD_E_TIMEOUT, "there was no time left for the model '%s' to answer", name);
    return TD_OK;
}

static int busy(td_served *v, uint32_t queue, td_error *e)
{
    v->counts.refused++;
    return td_fail(e, TD_E_BUSY,
                   "%u requests, with %.1f MB, wait for the model '%s', which is all that may (%u); ask later",
                   v->waiting, (double)v->waiting_bytes / 1e6, v->of->name, queue);
}

/* It is as if it had come now, when its process has more than another that wants to come in. */
static void give_way(td_inquiry *x)
{
    td_error why = {0};
    td_fail(
        &why, TD_E_BUSY,
        "%u requests of this process wait for the model '%s', and one of another process came in place of the last; "
        "ask later",
        x->whole->waiting, x->of->of->name);
    x->of->counts.asked--;
    x->of->counts.refused++;
    answer(x, NULL, &why);
}

static int make_room(td_served *v, const td_queued_item *in, td_error *e)
{
    uint32_t queue = v->how.queue ? v->how.queue : TD_MODEL_QUEUE;
    uint64_t bytes = v->of->service->budget.limit / BYTES_PART;
    for (int left = MOST_GIVE_WAY; v->waiting >= queue || v->waiting_bytes >= bytes; left--) {
        td_inquiry *x = left ? td_lines_gives_way(v, in->account, in->bytes, v->waiting < queue) : NULL;
        if (!x) return busy(v, queue, e);
        give_way(x);
    }
    return TD_OK;
}

int td_model_ask(td_await **out, td_model_user *u, td_queued_item *in, uint64_t timeout_us, int32_t priority,
                 uint32_t most, td_model_then *then, td_error *e)
{
    td_served *v = td_model_served(u, e);
    int rc = v ? check(v, in, timeout_us, e) : e->code;
    if (!rc) rc = make_room(v, in, e);
    if (rc) return rc;
    td_inquiry *x = td_account_charge(in->account, 0, td_objects_of(BYTES), e) ? NULL : malloc(sizeof *x);
    if (!x && !e->code) {
        td_account_discharge(in->account, 0, td_objects_of(BYTES));
        td_no_memory(e, "for a request");
    }
    if (!x) return e->code;
    *x = (td_inquiry){.await = {.kind = &for_answer},
                      .of = td_served_ref(v),
                      .in = in,
                      .priority = priority,
                      .most = most,
                      .bytes = in->bytes,
                      .asked_ns = td_clock_ns(),
                      .account = td_account_ref(in->account),
                      .then = then};
    v->counts.asked++;
    rc = td_line_join(x, e);
    if (!rc) rc = await_inputs(x, e);
    if (rc) {
        x->in = NULL;
        forget(x);
        return rc;
    }
    if (timeout_us != UINT64_MAX) td_deadline_arm_us(v->of->service, &x->await.deadline, timeout_us, expired, x);
    *out = &x->await;
    return TD_OK;
}

/* ---- a run */

td_served_run *td_served_run_new(td_owner *o, td_error *e)
{
    td_served_run *b = calloc(1, sizeof *b);
    if (!b) return td_no_memory(e, "for a model's runs"), NULL;
    b->owner = o;
    return b;
}

void td_served_run_free(td_served_run *b)
{
    free(b);
}

static void form(td_served_run *b)
{
    td_served *v = b->of;
    v->forming = false;
    if (!v->levels_in_use) {
        b->stage = ENDS;
        return;
    }
    b->n = choose(v, b->at, &b->rows);
    b->live = b->n;
    uint64_t now = td_clock_ns();
    for (uint32_t k = 0; k < b->n; k++) {
        td_inquiry *x = b->at[k];
        td_line_take(x);
        waits_no_more(x);
        x->run = b;
        x->taken_ns = now;
        b->size[k] = x->rows;
    }
    b->stage = GATHERS;
    td_served_start(v); /* another lane may have the rest */
}

/* An input as it was when it was asked with. It stays kept: the run reads it as it goes, and it may be wanted again. */
static int input_of(td_inquiry *x, int k, td_tensor **out, td_error *e)
{
    int rc = td_queue_item_copy(x->in, k) ? td_queue_item_settle(x->in, k, x->account, e) : TD_OK;
    *out = x->in->tensors[k];
    return rc;
}

/* Has its client written to an input that the run has yet to read? There is a copy of it now. */
static bool was_written(const td_served_run *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        for (int k = 0; b->at[i] && k < b->at[i]->in->count; k++)
            if (td_queue_item_copy(b->at[i]->in, k)) return true;
    return false;
}

static int join_input(td_served_run *b, int k, td_need *need, td_error *e)
{
    td_input all[BATCH];
    int dim = b->of->how.in_rows[k], n = 0, rc = TD_OK;
    for (uint32_t i = 0; i < b->n && !rc; i++) {
        td_tensor *t = NULL;
        if (b->at[i]) rc = input_of(b->at[i], k, &t, e);
        if (b->at[i] && !rc) all[n++] = td_in(t);
        if (dim < 0 && n) break;
    }
    if (rc || n == 0) return rc ? rc : td_fail(e, TD_E_CANCELLED, "nobody wants the answer any more");
    if (b->n == 1 || dim < 0) {
        b->in[k] = td_tensor_ref(all[0].tensor);
        return TD_OK;
    }
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, dim);
    return td_ops_try(&b->owner->issuer, TD_OP_CAT, n, all, &a, 0, 1, &b->in[k], need, e);
}

/* A request that went before the inputs were joined has no rows in any of them. */
static void close_ranks(td_served_run *b)
{
    uint32_t n = 0;
    while (b->nin > 0) td_tensor_unref(b->in[--b->nin]);
    b->rows = 0;
    for (uint32_t k = 0; k < b->n; k++) {
        if (!b->at[k]) continue;
        b->at[n] = b->at[k];
        b->size[n] = b->size[k];
        b->rows += b->size[n++];
    }
    b->n = n;
}

static int gather(td_served_run *b, td_error *e)
{
    td_need need = {0};
    if (b->live < b->n) close_ranks(b);
    uint32_t wants = td_program_parameters(b->of->program);
    for (int left = STEP; b->nin < wants && left > 0; left--) {
        int rc = join_input(b, (int)b->nin, &need, e);
        if (td_need_may_pass(rc)) return td_owner_lacks(b->owner, rc, &need, e);
        if (rc) return rc;
        b->nin++;
    }
    if (b->nin == wants) b->stage = BEGINS;
    return TD_AGAIN;
}

static void woken(void *owner)
{
    td_owner_ready(owner);
}

static int begin(td_served_run *b, td_error *e)
{
    td_exec_env env = {.woken = woken, .arg = b->owner};
    td_val args[TD_MODEL_ENDS];
    b->began_ns = td_clock_ns();
    int rc = b->exec ? TD_OK : td_exec_new(&b->exec, b->of->program, &b->owner->issuer, &env, TD_RM_GRAD_OFF, e);
    for (uint32_t k = 0; k < b->nin; k++) args[k] = td_val_tensor(b->in[k]); /* borrowed */
    if (!rc) rc = td_exec_begin(b->exec, b->nin, args, e);
    if (td_need_may_pass(rc)) return td_owner_lacks(b->owner, rc, &(td_need){.heap = b->of->work}, e);
    b->stage = RUNS;
    return rc ? rc : TD_AGAIN;
}

/* From the inputs on: they are copies then, which nobody writes to. */
static int begin_anew(td_served_run *b)
{
    if (b->exec && !td_exec_drop(b->exec, 16 * STEP)) return TD_AGAIN;
    b->exec = NULL;
    while (b->nin > 0) td_tensor_unref(b->in[--b->nin]);
    b->stage = GATHERS;
    return TD_AGAIN;
}

/* All that reads its inputs is on its way: who writes to them now writes behind that. */
static void issued(td_served_run *b)
{
    b->stage = PARTS;
    if (b->n > 1 || !b->at[0]) return;
    td_queue_item_free(b->at[0]->in);
    b->at[0]->in = NULL;
}

static int run(td_served_run *b, td_error *e)
{
    bool done = false;
    td_need need = {0};
    if (was_written(b)) return begin_anew(b);
    int rc = td_exec_step(b->exec, STEP, &done, &need, e);
    if (td_exec_lacks(b->exec)) return td_owner_lacks(b->owner, rc, &need, e);
    if (rc) return rc;
    const td_storage *behind = td_exec_behind(b->exec);
    if (behind)
        return td_owner_after(b->owner, 1, &(td_access){(td_storage *)(uintptr_t)behind, 0, behind->nbytes, false});
    if (td_exec_waits(b->exec)) return TD_WAIT;
    if (done) issued(b);
    return TD_AGAIN;
}

/* ---- what it gave */

typedef struct found {
    uint32_t tensors, values;
} found;

/* One list may stand in another many times, and that in a third: so what is looked at is counted, too. */
static int count_results(const td_val *v, uint32_t n, found *f, td_error *e) /* NOLINT(misc-no-recursion) */
{
    for (uint32_t k = 0; k < n; k++) {
        bool box = v[k].kind == TD_T_LIST || v[k].kind == TD_T_TUPLE;
        int rc = TD_OK;
        if (++f->values > VALUES)
            rc = td_fail(e, TD_E_UNSUPPORTED, "the model returns more than %d tensors and lists", VALUES);
        else if (box) rc = count_results(v[k].box->items, v[k].box->n, f, e);
        else if (v[k].kind != TD_T_TENSOR)
            rc = td_fail(e, TD_E_TYPE, "the model returns tensors alone, and output %u is %s", f->tensors + 1,
                         td_val_kind_name(&v[k]));
        else if (++f->tensors > TD_MODEL_ENDS)
            rc = td_fail(e, TD_E_UNSUPPORTED, "the model returns more than %d tensors", TD_MODEL_ENDS);
        if (rc) return rc;
    }
    return TD_OK;
}

static void list_results(td_served_run *b, const td_val *v, uint32_t n) /* NOLINT(misc-no-recursion) */
{
    for (uint32_t k = 0; k < n; k++) {
        if (v[k].kind == TD_T_TENSOR) b->made[b->nmade++] = td_tensor_ref(v[k].tensor);
        else list_results(b, v[k].box->items, v[k].box->n);
    }
}

static int take_results(td_served_run *b, td_error *e)
{
    const td_val *v;
    uint32_t n = td_exec_results(b->exec, &v);
    found f = {0};
    int rc = count_results(v, n, &f, e);
    if (rc) return rc;
    b->made = calloc((size_t)f.tensors + 1, sizeof(td_tensor *));
    b->out = calloc((size_t)b->n * f.tensors + 1, sizeof(td_tensor *));
    if (!b->made || !b->out) return td_no_memory(e, "for a model's outputs");
    list_results(b, v, n);
    return TD_OK;
}

static int copy(td_served_run *b, td_tensor *t, td_tensor **out, td_need *need, td_error *e)
{
    td_input in = td_in(t);
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_none(&a);
    return td_ops_try(&b->owner->issuer, TD_OP_COPY, 1, &in, &a, 0, 1, out, need, e);
}

/* May requests of one batch share the storage of an output? Whoever has a view of it reaches all of it, and the model
 * pays for it: so it is one that the run has made, not one that a request brought, and all belong to the model's user.
 */
static bool may_view(const td_served_run *b, const td_tensor *t, const td_desc *part)
{
    if (td_desc_nbytes(part) <= VIEWED || t->storage->account != b->owner->account) return false;
    for (uint32_t i = 0; i < b->n; i++)
        if (b->at[i] && b->at[i]->account->uid != b->of->account->uid) return false;
    return true;
}

/* One output of one request: who writes there later writes nothing of the model's, and nothing of another's. */
static int part_out(td_served_run *b, uint32_t at, td_need *need, td_error *e)
{
    uint32_t i = at / b->nmade, k = at % b->nmade, from = 0;
    td_tensor *t = b->made[k], *part = NULL;
    int dim = b->n > 1 && k < b->of->how.nout ? b->of->how.out_rows[k] : -1;
    bool shared = td_extent_heap(&t->storage->extent) == b->of->weights || (dim < 0 && i > 0);
    if (!b->at[i]) return TD_OK;
    if (dim < 0) return shared ? copy(b, t, &b->out[at], need, e) : (b->out[at] = td_tensor_ref(t), TD_OK);
    for (uint32_t j = 0; j < i; j++) from += b->size[j];
    td_desc d = t->desc;
    if (dim >= d.ndim || d.shape[dim] != b->rows)
        return td_fail(e, TD_E_INTERNAL, "output %u has not the %u rows of its batch", k + 1, b->rows);
    d.offset += (int64_t)from * d.stride[dim];
    d.shape[dim] = b->size[i];
    int rc = td_tensor_view(&part, t, &d, b->owner->account, e);
    if (!rc && !shared && may_view(b, t, &d)) return b->out[at] = part, TD_OK;
    if (!rc) rc = copy(b, part, &b->out[at], need, e);
    td_tensor_unref(part);
    return rc;
}

static int part_outs(td_served_run *b, td_error *e)
{
    td_need need = {0};
    int rc = b->out ? TD_OK : take_results(b, e);
    for (int left = STEP; !rc && left > 0 && b->parted < b->n * b->nmade; left--) {
        rc = part_out(b, b->parted, &need, e);
        if (!rc) b->parted++;
    }
    if (td_need_may_pass(rc)) return td_owner_lacks(b->owner, rc, &need, e);
    if (!rc && b->parted == b->n * b->nmade) b->stage = AWAITS;
    return rc ? rc : TD_AGAIN;
}

static int await_outs(td_served_run *b)
{
    td_access what[SOME];
    for (uint32_t all = b->n * b->nmade; b->there < all;) {
        uint32_t n = all - b->there < SOME ? all - b->there : SOME;
        int some = 0;
        for (uint32_t k = 0; k < n; k++) {
            const td_tensor *t = b->out[b->there + k];
            if (!t) continue;
            what[some] = (td_access){.storage = t->storage};
            td_desc_extent(&t->desc, &what[some].lo, &what[some].hi);
            some++;
        }
        int rc = some ? td_owner_after(b->owner, some, what) : TD_AGAIN;
        if (rc == TD_WAIT) return rc; /* whoever wakes it: it looks at these once more */
        b->there += n;
    }
    b->there_ns = td_clock_ns();
    b->stage = ANSWERS;
    return TD_AGAIN;
}

/* ---- answers */

static const td_cause *lost_of(const td_served_run *b, uint32_t i)
{
    for (uint32_t k = 0; k < b->nmade; k++) {
        const td_tensor *t = b->out[i * b->nmade + k];
        if (t && t->storage->poison) return t->storage->poison;
    }
    return NULL;
}

static void count(td_served_run *b, const td_inquiry *x, uint32_t rows)
{
    td_model_counts *c = &b->of->counts;
    uint64_t now = td_clock_ns();
    c->answered++;
    c->rows += rows;
    td_times_add(&c->queue, x->taken_ns - x->asked_ns);
    td_times_add(&c->input, b->began_ns - x->taken_ns);
    td_times_add(&c->run, b->there_ns - b->began_ns);
    td_times_add(&c->output, now - b->there_ns);
    td_times_add(&c->total, now - x->asked_ns);
}

/* Of what the run made for all of its requests. */
static bool is_part(const td_served_run *b, const td_tensor *t)
{
    for (uint32_t k = 0; b->n > 1 && k < b->nmade; k++)
        if (b->made[k]->storage == t->storage) return true;
    return false;
}

/* Its outputs are its own from here on, and paid by whoever asked. */
static void give(td_served_run *b, uint32_t i)
{
    td_inquiry *x = b->at[i];
    td_queued_item *out = NULL;
    td_error why = {0};
    int rc = b->nmade > x->most ? td_fail(&why, TD_E_INVALID, "the model '%s' has %u outputs, and %u are asked for",
                                          b->of->of->name, b->nmade, x->most)
                                : td_queue_item_new(&out, x->account, b->nmade, 0, &why);
    for (uint32_t k = 0; k < b->nmade && !rc; k++) {
        td_tensor *t = b->out[i * b->nmade + k];
        bool made = t->storage->account == b->owner->account && !is_part(b, t);
        if (made) rc = td_storage_pay(t->storage, x->account, &why);
        if (!rc) rc = td_queue_item_add(out, t, false, &why);
    }
    if (rc) {
        td_queue_item_free(out);
        fail(x, &why);
        return;
    }
    count(b, x, b->size[i]);
    answer(x, out, NULL);
}

/* It fails with others: perhaps for one of them alone. */
static void ask_again(td_inquiry *x)
{
    td_served *v = x->of;
    leave_batch(x);
    td_line_waits(x, true);
    v->counts.again++;
    x->alone = true;
    td_line_return(x);
}

static void settle_one(td_served_run *b, uint32_t i, const td_error *why)
{
    td_inquiry *x = b->at[i];
    if (!x) return;
    if (b->n > 1) {
        ask_again(x);
        return;
    }
    td_error e = *why;
    if (!e.op[0]) snprintf(e.op, sizeof e.op, "infer");
    fail(x, &e);
}

static void answer_all(td_served_run *b)
{
    td_model_counts *c = &b->of->counts;
    int size = 0;
    while (size < b->of->how.nsizes && b->of->how.sizes[size] < b->rows) size++;
    c->runs++;
    c->by_size[size < b->of->how.nsizes ? size : TD_MODEL_SIZES]++;
    for (uint32_t i = b->n; i-- > 0;) { /* those that are asked again are in their order then */
        const td_cause *lost = b->at[i] ? lost_of(b, i) : NULL;
        if (lost) settle_one(b, i, &lost->error);
    }
    for (uint32_t i = 0; i < b->n; i++)
        if (b->at[i]) give(b, i);
    b->stage = ENDS;
}

static void fail_all(td_served_run *b, const td_error *why)
{
    if (b->n > 1) b->of->counts.runs++;
    for (uint32_t i = b->n; i-- > 0;) settle_one(b, i, why);
    b->stage = ENDS;
}

/* ---- its steps */

static void let_go(td_tensor ***all, uint32_t n)
{
    for (uint32_t k = 0; *all && k < n; k++) td_tensor_unref((*all)[k]);
    free(*all);
    *all = NULL;
}

/* True: it may begin anew. */
static bool clear(td_served_run *b, int most)
{
    if (b->exec && !td_exec_drop(b->exec, most)) return false;
    b->exec = NULL;
    let_go(&b->out, b->n * b->nmade);
    let_go(&b->made, b->nmade);
    while (b->nin > 0) td_tensor_unref(b->in[--b->nin]);
    b->n = b->live = b->nmade = b->parted = b->there = 0;
    b->stage = FORMS;
    return true;
}

/* The lane has nothing to do, and its model perhaps nothing any more. */
static void rest(td_served_run *b)
{
    td_served *v = b->of;
    b->of = NULL;
    v->running--;
    for (uint32_t k = 0; k < v->nlanes; k++)
        if (v->lanes[k].batch == b) v->idle |= UINT64_C(1) << k;
    if (v->state != TD_GONE) td_served_start(v);
    td_served_look(v);
    td_served_unref(v);
}

static int go_on(td_served_run *b, td_error *e)
{
    switch (b->stage) {
    case FORMS: form(b); return TD_AGAIN;
    case GATHERS: return gather(b, e);
    case BEGINS: return begin(b, e);
    case RUNS: return run(b, e);
    case PARTS: return part_outs(b, e);
    case AWAITS: return await_outs(b);
    case ANSWERS: answer_all(b); return TD_AGAIN;
    case ENDS: break;
    }
    return TD_OK;
}

static int step(td_job *j, td_error *e)
{
    td_served_run *b = batch_of(j);
    td_error why = {0};
    (void)e;                                                              /* a failure is its requests' */
    if (b->stage > FORMS && b->stage < ENDS && !b->live) b->stage = ENDS; /* nobody wants the answer any more */
    if (b->stage != ENDS) {
        int rc = go_on(b, &why);
        if (rc > 0) fail_all(b, &why);
        return rc > 0 ? TD_AGAIN : rc;
    }
    if (!clear(b, 16 * STEP)) return TD_AGAIN;
    rest(b);
    return TD_OK;
}

static bool drop(td_job *j, int most)
{
    td_served_run *b = batch_of(j);
    td_error why = {0};
    td_fail(&why, TD_E_CANCELLED, "the model '%s' is served no more", b->of->of->name);
    if (b->stage == FORMS) b->of->forming = false;
    b->stage = ENDS;
    for (uint32_t k = 0; k < b->n; k++)
        if (b->at[k]) fail(b->at[k], &why);
    if (!clear(b, most)) return false;
    rest(b);
    return true;
}

static const td_job_kind kind = {"model", .step = step, .drop = drop, .cost = STEP, .endless = true};

void td_served_fail_all(td_served *v, const td_error *why)
{
    td_served_ref(v);
    for (td_inquiry *x; (x = td_lines_any(v));) fail(x, why);
    for (uint32_t k = 0; k < v->nlanes; k++) {
        td_served_run *b = v->lanes[k].batch;
        for (uint32_t i = 0; i < b->n; i++)
            if (b->at[i]) fail(b->at[i], why);
    }
    td_served_unref(v);
}
