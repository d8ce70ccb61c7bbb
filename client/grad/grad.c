/* Autograd: the records that turn gradients on, run a backward, and name the results.
 *
 * The graph is the daemon's. What comes back from it has strides that the daemon chose, so such handles are `unknown`
 * until somebody looks. */
#include "client/tensor/array.h"
#include "client/tensor/recorder.h"
#include "proto/base/device.h"

#include <stdlib.h>
#include <string.h>

enum {
    ACCUMULATE = 8, /* in the flags of a BACKWARD record: into .grad, rather than returned */
    POOL = 4        /* ids for what a hook is given, unless it is more */
};

/* A record with one input and no result. */
static int mark(td_array *a, unsigned rec, const char *op, int nrest, uint32_t value)
{
    if (!a) return td_raise_null(op, "the array");
    int rc = td_enter(a->client, op);
    if (rc) return rc;
    rc = td_control(a->client, rec, NULL, 1, &a->id, 0, NULL, nrest, &value);
    if (!rc && a->client->eager) rc = td_outcome(a->client);
    td_leave(a->client);
    return rc;
}

TD_API int td_set_requires_grad(td_array *a, bool on)
{
    if (a && on && !a->unknown && !td_dtype_is_inexact((td_dtype)a->desc.dtype))
        return td_raise(TD_E_TYPE, "set_requires_grad",
                        "only tensors of float and complex dtype can require gradients, not %s",
                        td_dtype_name((td_dtype)a->desc.dtype));
    if (td_recording && a) td_recording->refuse(a, NULL, "requires_grad_() of what it makes");
    int rc = mark(a, TD_REC_REQUIRES_GRAD, "set_requires_grad", 1, on);
    if (!rc) a->leaf = on;
    return rc;
}

TD_API int td_retain_grad(td_array *a)
{
    return mark(a, TD_REC_RETAIN_GRAD, "retain_grad", 0, 0);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

typedef struct backward {
    const char *where, *op;
    td_client *c;
    td_list roots, grads, inputs;
    unsigned flags;
} backward;

/* The daemon would say the same, but later: at another call. */
static int check_root(const backward *b, int r)
{
    const td_array *root = b->roots.at[r], *g = r < b->grads.n ? b->grads.at[r] : NULL;
    char want[96], have[96];
    if (!td_is_known(root)) return TD_OK;
    if (!g && td_desc_numel(&root->desc) != 1)
        return td_raise(
            TD_E_AUTOGRAD, b->op,
            "grad can be implicitly created only for scalar outputs, not for shape %s; reduce it first (sum, "
            "mean), or give its gradient",
            td_shape_text(root->desc.ndim, root->desc.shape, want, sizeof want));
    if (!g || !td_is_known(g)) return TD_OK;
    if (td_desc_same_shape(&root->desc, &g->desc)) {
        if (!g->desc.ndim || g->desc.device == root->desc.device) return TD_OK;
        return td_raise(TD_E_INVALID, b->op, "Mismatch in device: grad_output[%d] is on %s and output[%d] on %s", r,
                        td_device_name(g->desc.device), r, td_device_name(root->desc.device));
    }
    return td_raise(TD_E_SHAPE, b->op,
                    "Mismatch in shape: grad_output[%d] has a shape of %s and output[%d] has a shape of %s", r,
                    td_shape_text(g->desc.ndim, g->desc.shape, have, sizeof have), r,
                    td_shape_text(root->desc.ndim, root->desc.shape, want, sizeof want));
}

static int check_backward(backward *b)
{
    int rc = td_list_client(&b->c, b->roots, b->op, "an output");
    if (!rc && b->roots.n == 0) rc = td_raise(TD_E_INVALID, b->op, "there is no output to start from");
    if (!rc && b->grads.n && b->grads.n != b->roots.n)
        rc = td_raise(TD_E_INVALID, b->op, "%d gradients for %d outputs", b->grads.n, b->roots.n);
    if (!rc && b->roots.n * 2 + b->inputs.n > TD_MAX_INPUTS)
        rc = td_raise(TD_E_INVALID, b->op, "%d outputs and %d inputs; too many for one call", b->roots.n, b->inputs.n);
    for (int i = 0; i < b->grads.n && !rc; i++)
        if (b->grads.at[i]) rc = td_same_client(&b->c, b->grads.at[i], b->op);
    for (int i = 0; i < b->roots.n && !rc; i++) rc = check_root(b, i);
    return rc ? rc : td_list_client(&b->c, b->inputs, b->op, "an input");
}

/* May a backward before have freed the graph? */
static bool is_doubtful(const backward *b)
{
    bool doubt = false;
    for (int i = 0; i < b->roots.n; i++)
        doubt |= b->roots.at[i]->storage && b->roots.at[i]->storage <= b->c->tensor.freed_graph;
    return doubt;
}

/* Under the lock: `nout` handles were made for the gradients; `name`: hooks are answered, and given these. */
static int send_backward(const backward *b, int nout, td_array *const *out, uint64_t name, int npool,
                         td_array *const *pool)
{
    uint32_t in[TD_MAX_INPUTS], ids[TD_MAX_INPUTS + POOL];
    int n = 0;
    for (int i = 0; i < b->roots.n; i++) in[n++] = b->roots.at[i]->id;
    for (int i = 0; i < b->roots.n; i++) in[n++] = i < b->grads.n && b->grads.at[i] ? b->grads.at[i]->id : 0;
    for (int i = 0; i < b->inputs.n; i++) in[n++] = b->inputs.at[i]->id;
    for (int i = 0; i < nout; i++) ids[i] = out[i]->id;
    for (int i = 0; i < npool; i++) ids[nout + i] = pool[i]->id;
    uint32_t rest[5] = {b->flags, (uint32_t)b->roots.n, td_grad_scope(b->c)};
    td_words_put_u64(rest + 3, name);
    if (!(b->flags & (TD_RETAIN_GRAPH | TD_CREATE_GRAPH))) td_give_up_graphs(b->c);
    b->c->out.writes++;
    if (b->grads.n || name) td_hand_on(b->c); /* what is given may become a .grad, hooks are given what was saved */
    return td_control(b->c, TD_REC_BACKWARD, b->where, n, in, nout + npool, ids, name ? 5 : 3, rest);
}

/* ---- hooks: the backward is asked for, and goes on, in as many requests as there are hooks on its way -------------
 */

/* A backward that asks, and what it has asked. */
typedef struct asking {
    td_reply_wait wait;
    const backward *b;
    uint64_t name;
    int npool;
    td_array **pool; /* handles for what the next hook is given */
    int bound;       /* of these, so many were given to one that could not be told; else 0 */
    bool asks;
    uint32_t needs;
    td_hook_call call, last; /* last: it was answered */
} asking;

static int grow_pool(asking *x, int n)
{
    td_array **more = realloc(x->pool, (size_t)(n + 1) * sizeof *more);
    if (!more) return td_raise(TD_E_SYSTEM, x->b->op, "no memory for a hook");
    x->pool = more;
    while (x->npool < n) {
        int rc = td_arrays_unknown(x->b->c, 1, &x->pool[x->npool]);
        if (rc) return rc;
        x->npool++;
    }
    return TD_OK;
}

/* What the daemon has bound leaves the pool, whatever fails. */
static int take_given(asking *x, const Td__Wire__Asked *q, td_error *e)
{
    size_t at = 0;
    int used = 0, rc = TD_OK;
    td_array **given = calloc(q->n_ids + 1, sizeof *given);
    x->call.given = given;
    x->call.answer = calloc(q->wanted + 1, sizeof *given);
    if (!given || !x->call.answer) {
        for (size_t k = 0; k < q->n_ids; k++) x->bound += q->ids[k] && x->bound < x->npool;
        return td_no_memory(e, "for a hook");
    }
    for (size_t k = 0; k < q->n_ids && !rc; k++) {
        if (!q->ids[k]) continue;
        if (used == x->npool || x->pool[used]->id != q->ids[k] || at == q->n_descs)
            rc = td_fail(e, TD_E_PROTOCOL, "the daemon gave a hook what does not fit the ids that it was sent");
        else rc = td_take_shape(given[k] = x->pool[used++], q->descs[at++], e);
    }
    memmove(x->pool, x->pool + used, (size_t)(x->npool - used) * sizeof *x->pool);
    x->npool -= used;
    return rc;
}

static int on_asked(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    asking *x = w->context;
    const Td__Wire__Asked *q = r->asked;
    x->asks = q;
    x->needs = q ? q->needs : 0;
    if (q && q->needs > TD_MAX_INPUTS)
        return td_fail(e, TD_E_PROTOCOL, "the daemon wants %u tensors for a hook", q->needs);
    if (!q || q->needs) return TD_OK;
    if (q->n_ids > TD_MAX_INPUTS || q->wanted > TD_MAX_INPUTS || q->first > q->n_ids)
        return td_fail(e, TD_E_PROTOCOL, "the daemon gave a hook %zu tensors", q->n_ids);
    x->call = (td_hook_call){.hook = q->hook, .kind = (td_hook_kind)q->kind, .flags = x->b->flags};
    x->call.n = (int)q->n_ids, x->call.first = (int)q->first, x->call.wanted = (int)q->wanted;
    return take_given(x, q, e);
}

/* Under the lock. */
static int send_go(asking *x, unsigned how, uint64_t serial)
{
    uint32_t in[TD_MAX_INPUTS], ids[TD_MAX_INPUTS], rest[5] = {0};
    int n = how == TD_GO_GIVEN ? x->call.wanted : 0, npool = serial ? x->npool : 0;
    for (int k = 0; k < n; k++) in[k] = x->call.answer[k] ? x->call.answer[k]->id : 0;
    for (int k = 0; k < npool; k++) ids[k] = x->pool[k]->id;
    td_words_put_u64(rest, x->name);
    td_words_put_u64(rest + 2, serial);
    rest[4] = how;
    x->b->c->out.writes++;
    td_hand_on(x->b->c);
    return td_control(x->b->c, TD_REC_BACKWARD_GO, x->b->where, n, in, npool, ids, 5, rest);
}

/* Not under the lock. */
static void drop_call(td_hook_call *call)
{
    for (int k = 0; call->given && k < call->n; k++) td_release(call->given[k]);
    for (int k = 0; call->answer && k < call->wanted; k++) td_release(call->answer[k]);
    free((void *)(uintptr_t)call->given);
    free(call->answer);
    *call = (td_hook_call){0};
}

/* Under the lock. One request: the first asks for the backward, others say how it goes on. */
static int ask_on(asking *x, int how, int nout, td_array *const *out)
{
    td_client *c = x->b->c;
    int rc = grow_pool(x, x->needs > POOL ? (int)x->needs : POOL);
    if (rc) return rc;
    x->wait = (td_reply_wait){.on_reply = on_asked, .context = x};
    x->asks = false;
    td_expect(c, &x->wait);
    if (!x->name) {
        x->name = x->wait.serial;
        rc = send_backward(x->b, nout, out, x->name, x->npool, x->pool);
    } else {
        rc = send_go(x, (unsigned)how, x->wait.serial);
    }
    x->last = x->call;
    x->call = (td_hook_call){0};
    if (rc) td_unexpect(c, &x->wait);
    return rc ? rc : td_await(c, &x->wait, x->b->op);
}

/* Under the lock. It failed, or is over: nothing stays asked. */
static void end_asking(asking *x, int rc)
{
    td_client *c = x->b->c;
    bool answered = x->wait.done;
    if (x->wait.serial && !x->wait.done) td_forget_wait(c, &x->wait);
    if (rc && x->name && !c->lost) {
        td_error kept = *td_last_error();
        send_go(x, TD_GO_NOT, 0);
        td_raise_error(&kept, NULL, NULL);
    }
    int bound = answered || !x->wait.serial ? x->bound : x->npool; /* or they may be */
    for (int k = x->npool - 1; k >= bound; k--) td_array_drop(x->pool[k]);
    for (int k = 0; k < bound; k++) td_array_free(x->pool[k]);
    free(x->pool);
}

/* An id of another connection would name some other tensor here. */
static int own_answers(const asking *x, int how)
{
    for (int k = 0; how == TD_GO_GIVEN && k < x->call.wanted; k++)
        if (x->call.answer[k] && x->call.answer[k]->client != x->b->c) {
            td_raise(TD_E_INVALID, x->b->op, "a hook's answer belongs to another connection");
            return -1;
        }
    return how;
}

static int run_hook(asking *x)
{
    td_client *c = x->b->c;
    int how = c->grad.on_hook ? c->grad.on_hook(c, &x->call, c->grad.hook_context) : 0;
    if (how == TD_GO_SAME || how == TD_GO_GIVEN) return own_answers(x, how);
    td_raise(TD_E_CANCELLED, x->b->op, "a hook gave the backward up");
    return -1;
}

/* Not under the lock. */
static int backward_with_hooks(const backward *b, int nout, td_array **out)
{
    asking x = {.b = b};
    int how = TD_GO_SAME, rc;
    for (;;) {
        rc = td_enter(b->c, b->op);
        if (rc) {
            free(x.pool); /* the client has gone, and its handles with it */
            drop_call(&x.call);
            return rc;
        }
        rc = ask_on(&x, how, nout, out);
        if (rc || !x.asks) break;
        td_leave(b->c);
        drop_call(&x.last);
        how = TD_GO_MORE;
        if (x.needs) continue;
        how = run_hook(&x);
        if (how < 0) {
            rc = TD_E_CANCELLED;
            td_lock(b->c);
            break;
        }
    }
    end_asking(&x, rc);
    td_leave(b->c);
    drop_call(&x.last);
    drop_call(&x.call);
    return rc;
}

/* ---- backward, grad ---------------------------------------------------------------------------------------------- */

TD_API int td_at_backward(const char *where, td_list roots, td_list grads, unsigned flags)
{
    return td_at_backward_into(where, roots, grads, td_arrays_of(0, NULL), flags);
}

TD_API int td_at_backward_into(const char *where, td_list roots, td_list grads, td_list inputs, unsigned flags)
{
    backward b = {where, "backward", NULL, roots, grads, inputs, flags | ACCUMULATE};
    if (td_recording) td_recording->refuse(NULL, where, "a backward");
    int rc = check_backward(&b);
    if (!rc && b.c->grad.hooks) {
        rc = backward_with_hooks(&b, 0, NULL);
        return rc || !b.c->tensor.seen_grads ? rc : td_settle(b.c);
    }
    if (!rc) rc = td_enter(b.c, b.op);
    if (rc) return rc;
    bool doubt = b.c->eager || is_doubtful(&b);
    rc = send_backward(&b, 0, NULL, 0, 0, NULL);
    if (!rc && doubt) rc = td_outcome(b.c);
    bool seen = b.c->tensor.seen_grads; /* it adds to what somebody looks at */
    td_leave(b.c);
    return rc || !seen ? rc : td_settle(b.c);
}

static void free_all(int n, td_array **out)
{
    for (int i = 0; i < n; i++) {
        if (out[i]) td_array_free(out[i]);
        out[i] = NULL;
    }
}

/* What has no gradient becomes NULL. Fails with the first other error. */
static int keep_defined(td_client *c, int n, td_array **out)
{
    int *codes = calloc((size_t)n + !n, sizeof *codes);
    if (!codes) return td_raise(TD_E_SYSTEM, "grad", "no memory");
    td_error e = {0};
    int rc = td_resolve_all(c, n, out, codes, &e);
    for (int i = 0; i < n && !rc; i++)
        if (codes[i]) free_all(1, &out[i]);
    free(codes);
    if (rc) td_raise_error(&e, "grad", NULL);
    return rc;
}

TD_API int td_at_autograd_grad(const char *where, td_list outputs, td_list grads, td_list inputs, unsigned flags,
                               td_array **out)
{
    backward b = {where, "autograd_grad", NULL, outputs, grads, inputs, flags & ~(unsigned)ACCUMULATE};
    for (int i = 0; i < inputs.n; i++) out[i] = NULL;
    if (td_recording) td_recording->refuse(NULL, where, "autograd_grad");
    int rc = check_backward(&b);
    if (!rc) rc = td_enter(b.c, b.op);
    if (rc) return rc;
    rc = td_arrays_unknown(b.c, inputs.n, out);
    if (!rc) {
        bool ask = is_doubtful(&b) || flags & TD_ALLOW_UNUSED;
        if (b.c->grad.hooks) {
            td_leave(b.c);
            rc = backward_with_hooks(&b, inputs.n, out);
            td_lock(b.c);
        } else {
            rc = send_backward(&b, inputs.n, out, 0, 0, NULL);
        }
        if (!rc && b.c->eager) rc = td_outcome(b.c);
        for (int i = 0; i < inputs.n; i++) td_array_announce(out[i]);
        if (!rc && ask) rc = keep_defined(b.c, inputs.n, out); /* of these alone: a sync would bring others' errors */
        if (rc) free_all(inputs.n, out);
    }
    td_leave(b.c);
    return rc;
}

/* ---- .grad ------------------------------------------------------------------------------------------------------- */

TD_API int td_at_grads(const char *where, td_list arrays, td_array **out)
{
    td_client *c = NULL;
    for (int i = 0; i < arrays.n; i++) out[i] = NULL;
    int rc = td_list_client(&c, arrays, "grads", "an array");
    if (rc || !arrays.n) return rc;
    if ((rc = td_enter(c, "grads"))) return rc;
    uint32_t scope = td_grad_scope(c);
    rc = td_arrays_unknown(c, arrays.n, out);
    for (int i = 0; i < arrays.n && !rc; i++) {
        out[i]->is_grad = true;
        td_array_announce(out[i]);
        rc = td_control(c, TD_REC_GRAD, where, 1, &arrays.at[i]->id, 1, &out[i]->id, 1, &scope);
    }
    if (!rc) rc = keep_defined(c, arrays.n, out);
    if (rc) free_all(arrays.n, out);
    td_leave(c);
    return rc;
}

TD_API td_array *td_at_grad(const char *where, td_array *a)
{
    td_array *g = NULL;
    if (!a) td_raise_null("grad", "the array");
    else if (!td_at_grads(where, td_arrays(a), &g) && !g &&
             !td_sync(a->client)) { /* a failed backward is the better reason */
        td_raise(TD_E_NOT_FOUND, "grad",
                 "the tensor has no gradient: no backward reached it, or it does not require grad");
        td_raise_error(td_last_error(), "grad", where);
    }
    return g;
}

/* As the daemon does, but at the call. */
static int check_grad(const td_array *a, const td_array *grad)
{
    char want[128], have[128];
    if (!td_is_known(a) || !grad || !td_is_known(grad)) return TD_OK;
    if (td_desc_same_shape(&grad->desc, &a->desc) && grad->desc.dtype == a->desc.dtype) {
        if (grad->desc.device == a->desc.device) return TD_OK;
        return td_raise(TD_E_INVALID, "set_grad", "assigned grad is on %s, and the tensor on %s",
                        td_device_name(grad->desc.device), td_device_name(a->desc.device));
    }
    return td_raise(TD_E_SHAPE, "set_grad", "assigned grad is %s, but must be like the tensor: %s",
                    td_desc_text(&grad->desc, have, sizeof have), td_desc_text(&a->desc, want, sizeof want));
}

TD_API int td_set_grad(td_array *a, td_array *grad)
{
    if (!a) return td_raise_null("set_grad", "the array");
    td_client *c = a->client;
    if (td_recording) td_recording->refuse(a, NULL, "setting .grad of what it makes");
    int rc = grad ? td_same_client(&c, grad, "set_grad") : TD_OK;
    if (!rc) rc = check_grad(a, grad);
    if (!rc) rc = td_enter(c, "set_grad");
    if (rc) return rc;
    if (grad) grad->is_grad = true;
    td_hand_on(c);
    uint32_t in[2] = {a->id, grad ? grad->id : 0}, scope = td_grad_scope(c);
    rc = td_control(c, TD_REC_SET_GRAD, NULL, 2, in, 0, NULL, 1, &scope);
    if (!rc && c->eager) rc = td_outcome(c);
    td_leave(c);
    return rc;
}

TD_API void td_set_grad_scope(td_client *c, uint32_t scope)
{
    if (td_enter(c, "set_grad_scope")) return;
    c->tensor.grad_scope = scope;
    c->tensor.own_grads = scope == c->session; /* a forked child has its own */
    td_leave(c);
}

TD_API int td_zero_grad(td_list arrays)
{
    int rc = TD_OK;
    for (int i = 0; i < arrays.n && !rc; i++) rc = td_set_grad(arrays.at[i], NULL);
    return rc;
}

TD_API td_array *td_data_of(td_array *a)
{
    if (!a) {
        td_raise_null("data_of", "the array");
        return NULL;
    }
    td_client *c = a->client;
    if (td_enter(c, "data_of")) return NULL;
    td_array *d = td_resolve(a) ? NULL : td_array_new(c);
    if (d) {
        d->desc = a->desc;
        d->storage = a->storage;
        d->is_grad = a->is_grad;
        td_control(c, TD_REC_DATA_OF, NULL, 1, &a->id, 1, &d->id, 0, NULL);
        td_array_announce(d);
        if (td_recording) td_recording->data_of(d, a);
    }
    td_leave(c);
    return d;
}
