/* Ops without gradients: what the door of this room does until the engine is here. Asking for a gradient is refused. */
#include "daemon/autograd/autograd.h"

static int refused(td_error *e)
{
    return td_fail(e, TD_E_UNSUPPORTED, "this build records no gradients");
}

int td_autograd_run(td_call *c, td_grad_mode mode, td_tensor **out, int max_out, int *nout, uint64_t *lack, td_heap **heap, td_error *e)
{
    (void)mode;
    int rc = td_ops_prepare(c, lack, heap, e);
    if (rc) return rc;
    *nout = c->nout < max_out ? c->nout : max_out;
    for (int i = 0; i < *nout; i++) out[i] = c->out[i];
    c->who->submit(c->who, c);
    return TD_OK;
}

bool td_requires_grad(const td_tensor *t)
{
    (void)t;
    return false;
}

bool td_is_leaf(const td_tensor *t)
{
    (void)t;
    return true;
}

const char *td_grad_fn(const td_tensor *t)
{
    (void)t;
    return NULL;
}

int td_set_requires_grad(td_tensor *t, bool on, td_error *e)
{
    (void)t;
    return on ? refused(e) : TD_OK;
}

int td_retain_grad(td_tensor *t, td_error *e)
{
    (void)t;
    return refused(e);
}

td_tensor *td_grad(const td_tensor *t, uint32_t scope)
{
    (void)t, (void)scope;
    return NULL;
}

int td_set_grad(td_tensor *t, uint32_t scope, td_tensor *grad, td_error *e)
{
    (void)t, (void)scope;
    return grad ? refused(e) : TD_OK;
}

int td_backward_new(td_backward **out, td_issuer *who, int nroots, td_tensor *const *roots, td_tensor *const *grads, int ninputs,
                    td_tensor *const *inputs, uint32_t flags, uint32_t scope, td_error *e)
{
    (void)who, (void)nroots, (void)roots, (void)grads, (void)ninputs, (void)inputs, (void)flags, (void)scope;
    *out = NULL;
    return refused(e);
}

int td_backward_step(td_backward *b, int most, bool *done, td_error *e)
{
    (void)b, (void)most;
    *done = true;
    return refused(e);
}

void td_backward_results(td_backward *b, td_tensor **out)
{
    (void)b, (void)out;
}

void td_backward_free(td_backward *b)
{
    (void)b;
}

uint64_t td_autograd_nodes(void)
{
    return 0;
}

uint64_t td_autograd_recorded(void)
{
    return 0;
}
