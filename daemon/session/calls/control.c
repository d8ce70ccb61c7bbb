/* Control records: everything in the stream that is not an op. */
#include "daemon/session/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>

/* What fails of it leaves a .grad without what it should have. */
static bool accumulates(td_session *s, const td_record *r)
{
    td_error none = {0};
    const td_held_program *p = r->op == TD_REC_CALL ? td_session_program_of(s, r->rest[0], &none) : NULL;
    if (p) return td_program_accumulates(p);
    return r->op == TD_REC_BACKWARD && r->rest[0] & TD_BW_ACCUMULATE;
}

int td_record_failed(td_session *s, const td_record *r, const char *what, td_error *why, td_error *e)
{
    if (!why->op[0]) snprintf(why->op, sizeof why->op, "%s", what);
    if (!why->where[0]) snprintf(why->where, sizeof why->where, "%s", s->issuer.where);
    td_cause *cause = td_session_cause(s, why, e);
    if (!cause) return e->code;
    int rc = TD_OK;
    for (unsigned i = 0; i < r->nout && !rc; i++)
        if (!td_objects_check_free(&s->objects, r->out[i], NULL))
            rc = td_objects_bind(&s->objects, r->out[i], NULL, td_cause_ref(cause), e);
    if (r->op != TD_REC_GRAD) td_session_failed(s, cause); /* to have no .grad is an answer */
    if (accumulates(s, r) && !s->failures.late_grad) s->failures.late_grad = td_cause_ref(cause);
    td_cause_unref(cause);
    return rc;
}

/* ---- values that come from the client */

/* dtype | ndim << 8, then sizes; *used counts the words. */
static int read_shape(const td_record *r, uint32_t at, uint32_t *used, td_desc *d, td_error *e)
{
    uint32_t head = r->rest[at], ndim = head >> 8 & 0xff;
    if (ndim > TD_MAX_DIMS || r->nrest - at < 1 + 2 * ndim)
        return td_fail(e, TD_E_PROTOCOL, "a shape of %u dimensions in %u words", ndim, r->nrest - at);
    if (!td_dtype_valid(head & 0xff)) return td_fail(e, TD_E_TYPE, "there is no dtype %u", head & 0xff);
    int64_t shape[TD_MAX_DIMS];
    for (uint32_t i = 0; i < ndim; i++) shape[i] = (int64_t)td_words_u64(r->rest + at + 1 + 2 * i);
    *used = at + 1 + 2 * ndim;
    return td_desc_contiguous(d, (td_dtype)(head & 0xff), (int)ndim, shape, e);
}

static td_place session_place(td_session *s, unsigned mode)
{
    bool service = mode & TD_RM_SERVICE;
    return (td_place){.heap = service ? s->service->heap : s->heap,
                      .account = s->account,
                      .device = TD_CPU,
                      .flags = (uint8_t)((service ? TD_SF_SERVICE : 0) | (mode & TD_RM_RACY ? TD_SF_RACY : 0))};
}

static int bind_tensor(td_session *s, const td_record *r, td_storage *st, const td_desc *d, td_error *e)
{
    td_tensor *t = NULL;
    int rc = td_tensor_new(&t, st, d, s->account, e);
    return rc ? rc : td_objects_bind(&s->objects, r->out[0], t, NULL, e);
}

/* A copy in its place, on the device that the record names. */
static int take_there(td_session *s, const td_record *r, td_tensor **t, td_error *e)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, r->device);
    td_input in = td_in(*t);
    td_tensor *there;
    td_need need = {.heap = s->heap};
    uint32_t flags = r->mode & TD_RM_SERVICE ? TD_CF_SERVICE : 0;
    int rc = td_ops_try(&s->issuer, TD_OP_TO_DEVICE, 1, &in, &a, flags, 1, &there, &need, e);
    if (rc) return td_need_may_pass(rc) ? td_session_lacks(s, rc, &need, e) : rc;
    if (r->mode & TD_RM_RACY) there->storage->flags |= TD_SF_RACY;
    td_tensor_unref(*t);
    *t = there;
    return TD_OK;
}

/* Copied here and now: more than some hundred kilobytes come by a lease. */
enum { MOST_DATA = 1 << 20, DATA_EACH = 1 << 15 /* bytes that are worth a record */ };

static int step_data(td_session *s, const td_record *r, td_error *e)
{
    td_desc d;
    uint32_t used = 0;
    int rc = read_shape(r, 0, &used, &d, e);
    if (rc) return rc;
    uint64_t n = td_desc_nbytes(&d);
    if (n > MOST_DATA)
        return td_fail(e, TD_E_INVALID,
                       "a record brings at most %d bytes of a tensor, and this one has %llu: lease memory for it",
                       MOST_DATA, (unsigned long long)n);
    s->stream.worth += (int)(n / DATA_EACH);
    if (r->nrest < used + 1) return td_fail(e, TD_E_PROTOCOL, "record data lacks its offset");
    uint32_t offset = r->rest[used];
    if (offset > s->stream.batch->data.len || n > s->stream.batch->data.len - offset)
        return td_fail(e, TD_E_PROTOCOL, "record data wants %llu bytes at %u of %zu", (unsigned long long)n, offset,
                       s->stream.batch->data.len);
    td_place place = session_place(s, r->device == TD_CPU ? r->mode : 0);
    td_storage *st = NULL;
    td_need need = {.heap = place.heap};
    rc = td_storage_new(&st, &place, n, &need, e);
    if (rc) return td_need_may_pass(rc) ? td_session_lacks(s, rc, &need, e) : rc;
    if (n) memcpy(st->data, s->stream.batch->data.data + offset, (size_t)n);
    td_tensor *t = NULL;
    rc = td_tensor_new(&t, st, &d, s->account, e);
    td_storage_unref(st);
    if (!rc && r->device != TD_CPU) rc = take_there(s, r, &t, e);
    if (!rc) return td_objects_bind(&s->objects, r->out[0], t, NULL, e);
    td_tensor_unref(t);
    return rc;
}

static int step_put(td_session *s, const td_record *r, td_error *e)
{
    td_fill_lease *l = td_lease_find(s, r->rest[0]);
    if (!l) return td_fail(e, TD_E_NOT_FOUND, "there is no lease %u (was it announced before?)", r->rest[0]);
    uint64_t offset = td_words_u64(r->rest + 1);
    td_desc d;
    uint32_t used = 0;
    int rc = read_shape(r, 3, &used, &d, e);
    if (rc) return rc;
    size_t item = td_dtype_size((td_dtype)d.dtype);
    if (!item || offset % item || offset > l->bytes || td_desc_nbytes(&d) > l->bytes - offset)
        return td_fail(
            e, TD_E_INVALID, "a tensor of %llu bytes at byte %llu does not lie inside its lease of %llu bytes",
            (unsigned long long)td_desc_nbytes(&d), (unsigned long long)offset, (unsigned long long)l->bytes);
    d.offset = (int64_t)(offset / item);
    td_place place = session_place(s, r->mode & ~(unsigned)TD_RM_SERVICE);
    uint64_t bytes = l->bytes;
    td_extent extent;
    td_lease_take(s, l, &extent);
    td_storage *st = NULL;
    rc = td_storage_adopt(&st, &place, &extent, bytes, e);
    if (rc) {
        td_heap_release(s->heap, &extent);
        return rc;
    }
    td_storage_mapped(st); /* whoever had the lease still has it mapped */
    rc = bind_tensor(s, r, st, &d, e);
    td_storage_unref(st);
    return rc;
}

/* ---- gradients */

int td_session_tensors(td_session *s, const uint32_t *ids, int n, bool optional, td_tensor **out, td_error *e)
{
    for (int i = 0; i < n; i++) {
        td_cause *cause;
        out[i] = NULL;
        if (optional && ids[i] == 0) continue;
        out[i] = td_session_tensor(s, ids[i], &cause, e);
        if (!out[i]) return e->code;
    }
    return TD_OK;
}

int td_session_values(td_session *s, const uint32_t *ids, int n, bool optional, td_tensor **out, td_error *e)
{
    int rc = td_session_tensors(s, ids, n, optional, out, e);
    for (int i = 0; i < n && !rc; i++) {
        td_cause *cause;
        if (out[i] && !td_session_value(s, ids[i], &cause, e)) rc = e->code;
    }
    return rc;
}

static int step_grad(td_session *s, const td_record *r, td_tensor *t, td_error *e)
{
    td_tensor *g = td_grad_known(t, r->rest[0], s->id);
    if (s->failures
            .late_grad) { /* whose gradient it lacks, nobody knows: it may have failed before its graph was looked at */
        *e = s->failures.late_grad->error;
        return e->code;
    }
    if (!g)
        return td_fail(
            e, TD_E_AUTOGRAD,
            "the tensor has no .grad (it is None); call backward first, and mind that only leaves keep theirs");
    return td_objects_bind(&s->objects, r->out[0], td_tensor_ref(g), NULL, e);
}

static int step_set_grad(td_session *s, const td_record *r, td_error *e)
{
    td_tensor *t[2];
    int rc = td_session_tensors(s, r->in, 1, false, t, e);
    if (!rc) rc = td_session_values(s, r->in + 1, 1, true, t + 1, e);
    if (!rc && t[1]) rc = td_account_room(s->account, 1, e);
    return rc ? rc : td_set_grad(t[0], r->rest[0], t[1], e);
}

/* ---- order */

typedef struct syncing {
    td_promise p;
    bool silent; /* errors stay untold */
} syncing;

static void synced(td_session *s, td_wait *w)
{
    td_cause *first = ((syncing *)(void *)w)->silent ? NULL : s->failures.first;
    if (first) td_session_tell_now(s, w->serial, first);
    else td_reply_ok(s, w->serial);
}

static int step_sync(td_session *s, const td_record *r, td_error *e)
{
    static const td_wait_kind for_tasks = {"what was sent before", .finish = synced};
    syncing *y = td_promise_new(s, &for_tasks, sizeof *y, td_words_u64(r->rest), e);
    if (!y) return e->code;
    y->silent = r->nrest > 2 && r->rest[2];
    td_promise_make(&y->p, 0);
    td_sched_after_flow(s->service->sched, s->flow, td_promise_keep, y);
    return TD_OK;
}

static int step_read(td_session *s, const td_record *r)
{
    uint64_t serial = td_words_u64(r->rest);
    td_cause *cause = NULL;
    td_error why = {0};
    td_tensor *t = td_session_value(s, r->in[0], &cause, &why);
    int rc = t ? td_session_check_lease(s, t->storage, &why) : why.code;
    if (!rc) rc = td_read_reply(s, t, serial, &why);
    if (rc == TD_AGAIN) return rc;
    if (cause) {
        td_session_tell(s, serial, cause);
    } else if (rc) {
        td_reply_error(s, serial, &why);
        td_session_told(s, &why); /* sync need not say it again */
    }
    return TD_OK;
}

static int step_shape(td_session *s, const td_record *r)
{
    Td__Wire__Desc *descs = calloc(r->nin + 1u, sizeof *descs), **list = calloc(r->nin + 1u, sizeof *list);
    int64_t(*sizes)[2 * TD_MAX_DIMS] = calloc(r->nin + 1u, sizeof *sizes);
    Td__Wire__Reply reply;
    td__wire__reply__init(&reply);
    reply.serial = td_words_u64(r->rest);
    td_error why = {0};
    td_cause *lost = NULL;
    int rc = descs && list && sizes ? TD_OK : td_no_memory(&why, "for %u shapes", r->nin);
    for (unsigned i = 0; i < r->nin && !rc; i++) {
        td_cause *cause;
        td_tensor *t = td_session_tensor(s, r->in[i], &cause, &why);
        if (!t) rc = why.code;
        else if ((lost = t->storage->poison)) rc = lost->error.code;
        else td_desc_to_wire(&t->desc, list[i] = &descs[i], sizes[i]);
    }
    reply.n_descs = r->nin;
    reply.descs = list;
    if (lost) td_session_tell(s, reply.serial, lost);
    else if (rc) td_reply_error(s, reply.serial, &why);
    else td_reply_send(s, &reply, -1);
    if (rc && !lost) td_session_told(s, &why);
    free(descs);
    free(list);
    free(sizes);
    return TD_OK;
}

static int step_alias(td_session *s, const td_record *r, td_tensor *t, td_error *e)
{
    int rc = td_account_room(s->account, 1, e);
    if (rc) return rc;
    if (r->op == TD_REC_ALIAS) return td_objects_bind(&s->objects, r->out[0], td_tensor_ref(t), NULL, e);
    td_tensor *fresh = NULL;
    rc = td_tensor_view(&fresh, t, &t->desc, s->account, e);
    if (!rc) rc = td_tensor_detach_version(fresh, e);
    if (!rc) rc = td_region_data(&s->issuer, t, fresh, e);
    if (!rc) return td_objects_bind(&s->objects, r->out[0], fresh, NULL, e);
    td_tensor_unref(fresh);
    return rc;
}

/* ---- the table of them */

typedef struct control {
    const char *name;
    int8_t nin, nout; /* -1: any number */
    uint8_t rest;     /* at least so many words */
} control;

static const control controls[] = {
    [TD_REC_RELEASE - TD_REC_FIRST] = {"release", -1, 0, 0},
    [TD_REC_DATA - TD_REC_FIRST] = {"data", 0, 1, 2},
    [TD_REC_PUT - TD_REC_FIRST] = {"put", 0, 1, 4},
    [TD_REC_BACKWARD - TD_REC_FIRST] = {"backward", -1, -1, 3},
    [TD_REC_REQUIRES_GRAD - TD_REC_FIRST] = {"requires_grad", 1, 0, 1},
    [TD_REC_GRAD - TD_REC_FIRST] = {"grad", 1, 1, 1},
    [TD_REC_SET_GRAD - TD_REC_FIRST] = {"set_grad", 2, 0, 1},
    [TD_REC_SEED - TD_REC_FIRST] = {"seed", 0, 0, 2},
    [TD_REC_READ - TD_REC_FIRST] = {"read", 1, 0, 2},
    [TD_REC_SYNC - TD_REC_FIRST] = {"sync", 0, 0, 2},
    [TD_REC_RETAIN_GRAD - TD_REC_FIRST] = {"retain_grad", 1, 0, 0},
    [TD_REC_ALIAS - TD_REC_FIRST] = {"alias", 1, 1, 0},
    [TD_REC_WRITE_END - TD_REC_FIRST] = {"write_end", 1, 0, 0},
    [TD_REC_SHAPE - TD_REC_FIRST] = {"shape", -1, 0, 2},
    [TD_REC_DATA_OF - TD_REC_FIRST] = {"data_of", 1, 1, 0},
    [TD_REC_CALL - TD_REC_FIRST] = {"program", -1, -1, TD_CALL_HEAD},
    [TD_REC_PROGRAM_END - TD_REC_FIRST] = {"program_end", 0, 0, 1},
    [TD_REC_REGION - TD_REC_FIRST] = {"checkpoint", 0, 0, 2},
    [TD_REC_REGION_END - TD_REC_FIRST] = {"checkpoint_end", 0, 0, 1},
    [TD_REC_BACKWARD_GO - TD_REC_FIRST] = {"backward_go", -1, -1, 5},
    [TD_REC_HOOK - TD_REC_FIRST] = {"hook", -1, 0, 3},
    [TD_REC_HOOK_END - TD_REC_FIRST] = {"hook_end", 0, 0, 0},
    [TD_REC_FUNCTION - TD_REC_FIRST] = {"function", -1, 0, 4},
    [TD_REC_NODE_END - TD_REC_FIRST] = {"node_end", 0, 0, 0},
};

enum { MOST_NAMED = 1024 };

static int check_form(const td_record *r, const control **out, td_error *e)
{
    unsigned k = r->op - TD_REC_FIRST;
    const control *c = k < sizeof controls / sizeof controls[0] ? &controls[k] : NULL;
    if (!c || !c->name) return td_fail(e, TD_E_PROTOCOL, "there is no record 0x%04x", r->op);
    *out = c;
    bool fits = (c->nin < 0 || r->nin == c->nin) && (c->nout < 0 || r->nout == c->nout) && r->nrest >= c->rest;
    for (unsigned i = 0; i < r->nin && fits; i++) fits = r->in[i] != TD_NUMBER_BIT;
    /* All that these name is looked for in one step. */
    bool many = (r->op == TD_REC_HOOK_END || r->op == TD_REC_NODE_END) && r->nrest > MOST_NAMED;
    many |= (r->op == TD_REC_RELEASE || r->op == TD_REC_SHAPE) && r->nin > MOST_NAMED;
    if (fits && !many) return TD_OK;
    return td_fail(e, TD_E_PROTOCOL, "record %s does not take %u inputs, %u outputs and %u words", c->name, r->nin,
                   r->nout, r->nrest);
}

/* Records about one tensor: look it up, then act. */
static int step_tensor(td_session *s, const td_record *r, td_error *e)
{
    td_tensor *t;
    int rc = td_session_tensors(s, r->in, 1, false, &t, e);
    if (rc) return rc;
    switch (r->op) {
    case TD_REC_REQUIRES_GRAD: return td_set_requires_grad_in(td_grad_mode_of(r->mode), t, r->rest[0] != 0, e);
    case TD_REC_GRAD: return step_grad(s, r, t, e);
    case TD_REC_RETAIN_GRAD: return td_retain_grad(t, e);
    case TD_REC_WRITE_END: return td_write_lease_end(s, t->storage, e);
    default: return step_alias(s, r, t, e);
    }
}

static int dispatch(td_session *s, const td_record *r, td_error *e)
{
    switch (r->op) {
    case TD_REC_DATA: return step_data(s, r, e);
    case TD_REC_PUT: return step_put(s, r, e);
    case TD_REC_BACKWARD: return td_session_backward(s, r, e);
    case TD_REC_BACKWARD_GO: return td_session_backward_go(s, r, e);
    case TD_REC_HOOK: return td_session_hook(s, r, e);
    case TD_REC_HOOK_END: return td_session_hook_end(s, r);
    case TD_REC_FUNCTION: return td_session_function(s, r, e);
    case TD_REC_NODE_END: return td_session_node_end(s, r);
    case TD_REC_CALL: return td_session_program_call(s, r, e);
    case TD_REC_PROGRAM_END: return td_session_program_end(s, r, e);
    case TD_REC_REGION: return td_session_region(s, r, e);
    case TD_REC_REGION_END: return td_session_region_end(s, r, e);
    case TD_REC_SET_GRAD: return step_set_grad(s, r, e);
    case TD_REC_SEED:
        s->issuer.seed = td_words_u64(r->rest);
        s->issuer.counter = r->nrest >= 4 ? td_words_u64(r->rest + 2) : 0;
        return TD_OK;
    case TD_REC_READ: return step_read(s, r);
    case TD_REC_SYNC: return step_sync(s, r, e);
    case TD_REC_SHAPE: return step_shape(s, r);
    default: return step_tensor(s, r, e);
    }
}

int td_step_control(td_session *s, const td_record *r, td_error *e)
{
    const control *c = NULL;
    int rc = check_form(r, &c, e);
    if (rc) return rc;
    if (r->op == TD_REC_RELEASE) { /* as frequent as ops */
        for (unsigned i = 0; i < r->nin; i++) td_objects_release(&s->objects, r->in[i]);
        return TD_OK;
    }
    td_session_site(s, r->site);
    td_error why;
    td_error_clear(&why);
    for (unsigned i = 0; i < r->nout && !rc; i++) rc = td_objects_check_free(&s->objects, r->out[i], &why);
    if (!rc) rc = dispatch(s, r, &why);
    if (rc <= 0 || td_session_backward_refused(s, r, &why)) return rc < 0 ? rc : TD_OK;
    return td_record_failed(s, r, c->name, &why, e);
}
