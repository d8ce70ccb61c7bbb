/* Values that are read: how one gets into a reply, or where it lies. */
#include "daemon/session/calls/calls.h"
#include "daemon/tensor/device.h"
#include "proto/base/device.h"

#include <stdlib.h>

static void fill_facts(const td_session *s, const td_tensor *t, Td__Wire__Facts *f)
{
    td__wire__facts__init(f);
    f->requires_grad = td_requires_grad(t);
    f->leaf = td_is_leaf(t);
    f->has_grad = td_grad_known(t, 0, s->id) != NULL;
    const char *fn = td_grad_fn(t);
    f->grad_fn = (char *)(fn ? fn : "");
    f->version = td_version_writes(t->version);
    f->storage = (uint64_t)(uintptr_t)t->storage >> 4;
    f->service = (t->storage->flags & TD_SF_SERVICE) != 0;
    f->nbytes = t->storage->nbytes;
    f->inference = (t->flags & TD_TF_INFERENCE) != 0;
}

void td_facts_reply(td_session *s, uint64_t serial, const td_tensor *t, td_edition edition)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Facts facts;
    Td__Wire__Desc desc;
    int64_t sizes[2 * TD_MAX_DIMS];
    fill_facts(s, t, &facts);
    td_desc_to_wire(&t->desc, &desc, sizes);
    r.serial = serial;
    r.facts = &facts;
    r.desc = &desc;
    r.version = edition.version;
    r.tree = edition.tree != 0;
    td_reply_send(s, &r, -1);
}

/* ---- values
 *
 * A value that is small goes back inside the reply, contiguous. When it is pending or not contiguous, a copy is issued
 * as an op like any other, so that it takes its place in the storage's history; the reply follows when the copy has
 * ended. A large one is answered by its address. */

typedef struct value_read {
    td_promise p;     /* its wait has the tensor */
    td_cause *failed; /* while it is finished */
    td_address_form form;
} value_read;

static void send_value(td_session *s, const td_tensor *t, uint64_t serial)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Desc desc;
    int64_t sizes[2 * TD_MAX_DIMS];
    td_desc_to_wire(&t->desc, &desc, sizes);
    r.serial = serial;
    r.desc = &desc;
    r.data.len = (size_t)td_desc_nbytes(&t->desc);
    r.data.data = r.data.len ? td_tensor_data(t) : NULL;
    td_reply_send(s, &r, -1);
}

static void send_address(td_session *s, const td_tensor *t, uint64_t serial, td_address_form form)
{
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    Td__Wire__Desc desc;
    Td__Wire__Address address;
    Td__Wire__Facts facts;
    td_device_handle handle;
    int64_t sizes[2 * TD_MAX_DIMS];
    int fd = -1;
    td_desc_to_wire(&t->desc, &desc, sizes);
    r.serial = serial;
    r.desc = &desc;
    if (td_storage_on_host(t->storage)) { /* else it is there, and nobody maps it */
        td_session_address(s, t->storage, &address, &fd);
        if (form.descriptor && fd < 0) fd = td_session_reader(s, t->storage->extent.segment);
        address.descriptor = fd >= 0;
        r.address = &address;
    } else if (form.device && t->storage->nbytes) {
        td_error e;
        if (td_session_device_address(s, t->storage, &handle, &address, &fd, &e)) {
            td_reply_error(s, serial, &e);
            return;
        }
        r.address = &address;
    }
    if (form.facts) fill_facts(s, t, r.facts = &facts);
    td_reply_send(s, &r, fd);
}

static void copied(td_session *s, td_wait *w)
{
    td_cause *cause = ((value_read *)(void *)w)->failed;
    if (!cause) cause = w->tensor->storage->poison;
    if (cause) td_session_tell(s, w->serial, cause);
    else send_value(s, w->tensor, w->serial);
}

static void copy_finished(td_call *c)
{
    value_read *v = c->owner;
    v->failed = c->cause;
    td_promise_keep(v);
}

static int read_through_copy(td_session *s, td_tensor *t, uint64_t serial, td_error *e)
{
    static const td_wait_kind for_copy = {"a value", .finish = copied};
    value_read *v = td_promise_new(s, &for_copy, sizeof *v, serial, e);
    if (!v) return e->code;
    td_call *c = td_call_new(td_op_by_id(TD_OP_COPY), &s->issuer, 1, 1, e);
    if (!c) {
        free(v);
        return td_no_memory(e, "to read a value");
    }
    td_attrs_init(&c->attrs);
    td_attrs_none(&c->attrs);
    c->in[0] = td_in(t);
    td_need need = {0};
    int rc = td_ops_prepare(c, &need, e);
    if (rc) {
        td_call_free(c);
        free(v);
        return td_need_may_pass(rc) ? td_session_lacks(s, rc, &need, e) : rc;
    }
    v->p.wait.tensor = c->out[0]; /* prepare's reference is ours */
    td_promise_make(&v->p, td_desc_nbytes(&t->desc));
    c->owner = v;
    c->finished = copy_finished;
    td_sched_submit(s->service->sched, c);
    return TD_OK;
}

static void address_ready(td_session *s, td_wait *w)
{
    td_storage *st = w->tensor->storage;
    td_cause *poison = st->poison ? st->poison : td_late_find(&s->failures.late, st);
    if (poison) td_session_tell(s, w->serial, poison);
    else send_address(s, w->tensor, w->serial, ((value_read *)(void *)w)->form);
}

/* Values of other devices come by a copy, which the client asks for as any op. */
int td_session_check_host(const td_tensor *t, td_error *e)
{
    if (td_storage_on_host(t->storage)) return TD_OK;
    return td_fail(e, TD_E_UNSUPPORTED,
                   "the tensor lies on %s, where nobody can map its bytes; copy it to the cpu first",
                   td_device_name(t->storage->device));
}

static void after_tasks(void *arg)
{
    value_read *v = arg;
    td_tensor *t = v->p.wait.tensor;
    if (!t) { /* the session has ended */
        td_promise_keep(v);
        return;
    }
    td_access a = {.storage = t->storage};
    td_desc_extent(&t->desc, &a.lo, &a.hi);
    td_sched_after(v->p.session->service->sched, 1, &a, td_promise_keep, v);
}

int td_address_reply(td_session *s, td_tensor *t, uint64_t serial, td_address_form form, td_error *e)
{
    static const td_wait_kind for_tasks = {"a value", .finish = address_ready};
    value_read *v = td_promise_new(s, &for_tasks, sizeof *v, serial, e);
    if (!v) return e->code;
    v->form = form;
    v->p.wait.tensor = td_tensor_ref(t);
    td_promise_make(&v->p, 0);
    if (form.quiet) td_sched_after_flow(s->service->sched, s->flow, after_tasks, v);
    else after_tasks(v);
    return TD_OK;
}

int td_read_reply(td_session *s, td_tensor *t, uint64_t serial, td_error *e)
{
    if (t->storage->poison) {
        td_session_tell(s, serial, t->storage->poison);
        return TD_OK;
    }
    int rc = td_session_check_host(t, e);
    if (rc) return rc;
    if (td_desc_nbytes(&t->desc) > s->all->inline_limit) return td_address_reply(s, t, serial, (td_address_form){0}, e);
    uint64_t lo, hi;
    td_desc_extent(&t->desc, &lo, &hi);
    if (td_sched_pending(t->storage, lo, hi, false) || !td_desc_is_contiguous(&t->desc))
        return read_through_copy(s, t, serial, e);
    send_value(s, t, serial);
    return TD_OK;
}
