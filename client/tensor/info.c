/* Looking: what the daemon knows of one tensor. */

#include "client/tensor/internal.h"
#include <stdio.h>
#include <string.h>

int td_take_info(td_info *out, const td_reply *r, td_error *e)
{
    const Td__Wire__Facts *f = r->facts;
    if (!f) return td_fail(e, TD_E_PROTOCOL, "no facts came");
    out->requires_grad = f->requires_grad;
    out->leaf = f->leaf;
    out->has_grad = f->has_grad;
    out->service = f->service;
    out->version = f->version;
    out->storage = f->storage;
    out->nbytes = f->nbytes;
    snprintf(out->grad_fn, sizeof out->grad_fn, "%s", f->grad_fn);
    return TD_OK;
}

static int on_info(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    return td_take_info(w->context, r, e);
}

static int on_inference(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    if (!r->facts) return td_fail(e, TD_E_PROTOCOL, "no facts came");
    *(bool *)w->context = r->facts->inference;
    return TD_OK;
}

static int ask_info(td_array *a, td_on_reply *take, void *out)
{
    if (!a) return td_raise_null("info", "the array");
    Td__Wire__Info info = TD__WIRE__INFO__INIT;
    info.id = a->id;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.info = &info;
    return td_ask_once(a->client, "info", &call, take, out);
}

TD_API int td_get_info(td_array *a, td_info *out)
{
    memset(out, 0, sizeof *out);
    return ask_info(a, on_info, out);
}

TD_API int td_is_inference(td_array *a, bool *out)
{
    *out = false;
    return ask_info(a, on_inference, out);
}
