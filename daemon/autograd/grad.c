/* Gradients: what hangs on a tensor as its .grad, one for each scope.
 *
 * Scope 0 is the tensor's own. The others have numbers, mostly sessions', and a list each of where they have gradients:
 * a session that ends takes its own along, wherever they hang, or a worker that was killed would leave them on weights
 * that others go on training. */
#include "daemon/autograd/node.h"
#include "proto/base/device.h"
#include "proto/base/hash.h"

#include <stdlib.h>

enum { MOST_SCOPES = 1024 };

/* A scope is here as long as it has gradients. */
typedef struct scope_list {
    UT_hash_handle hh;
    uint32_t number;
    td_gslot *first;
} scope_list;
static _Thread_local scope_list *loop_scopes;

/* ---- the list of a scope */

static scope_list *find(uint32_t number)
{
    scope_list *s;
    HASH_FIND(hh, loop_scopes, &number, sizeof number, s);
    return s;
}

static int join(td_gslot *slot, td_error *e)
{
    if (slot->scope == 0) return 0;
    scope_list *s = find(slot->scope);
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s) return td_no_memory(e, "for a gradient's record");
        s->number = slot->scope;
        HASH_ADD(hh, loop_scopes, number, sizeof s->number, s);
        if (!TD_HASHED(s)) {
            free(s);
            return td_no_memory(e, "for a session's gradients");
        }
    }
    slot->after = s->first;
    if (s->first) s->first->before = slot;
    s->first = slot;
    return 0;
}

static void leave(td_gslot *slot)
{
    if (slot->scope == 0) return;
    if (slot->after) slot->after->before = slot->before;
    if (slot->before) {
        slot->before->after = slot->after;
        return;
    }
    scope_list *s = find(slot->scope);
    s->first = slot->after;
    if (s->first) return;
    HASH_DEL(loop_scopes, s);
    free(s);
}

bool td_grad_scope_end(uint32_t number, int most)
{
    for (scope_list *s; most > 0 && number && (s = find(number)); most--) td_grad_drop_scope(s->first->tensor, number);
    return !number || !find(number);
}

/* ---- the gradients of a tensor */

/* Out of its lists; the caller has taken it off its tensor. */
static void slot_free(td_gslot *slot)
{
    leave(slot);
    td_tensor_unref(slot->grad);
    td_account_discharge(slot->tensor->account, 0, 1);
    free(slot);
}

void td_grads_drop(td_tensor *t)
{
    td_auto *a = td_auto_of(t);
    while (a->grads) {
        td_gslot *s = a->grads;
        a->grads = s->next;
        slot_free(s);
    }
}

static td_gslot *slot_of(const td_tensor *t, uint32_t scope)
{
    td_auto *a = td_auto_of(t);
    for (td_gslot *s = a ? a->grads : NULL; s; s = s->next)
        if (s->scope == scope) return s;
    return NULL;
}

td_tensor *td_grad(const td_tensor *t, uint32_t scope)
{
    td_gslot *s = slot_of(t, scope);
    return s ? s->grad : NULL;
}

void td_grads_each(const td_tensor *t, void (*fn)(td_tensor *grad, void *arg), void *arg)
{
    td_auto *a = td_auto_of(t);
    for (td_gslot *s = a ? a->grads : NULL; s; s = s->next)
        if (s->grad) fn(s->grad, arg);
}

td_tensor *td_grad_known(const td_tensor *t, uint32_t scope, uint32_t session)
{
    td_tensor *g = td_grad(t, scope);
    const td_cause *lost = g ? g->storage->poison : NULL;
    return lost && lost->told == session ? NULL : g;
}

/* Scopes are few (they are looked for one by one); each is charged to the tensor's owner. */
static int new_slot(td_tensor *t, td_auto *a, uint32_t scope, td_gslot **out, td_error *e)
{
    int n = 0;
    for (const td_gslot *s = a->grads; s; s = s->next) n++;
    if (n >= MOST_SCOPES)
        return td_fail(e, TD_E_QUOTA, "the tensor has gradients in %d scopes already; set some to None first", n);
    td_gslot *s = calloc(1, sizeof *s);
    if (!s) return td_no_memory(e, "for a gradient's record");
    *s = (td_gslot){.next = a->grads, .tensor = t, .scope = scope};
    int rc = join(s, e);
    if (rc) {
        free(s);
        return rc;
    }
    td_account_add(t->account, 0, 1); /* without asking: a backward gives all gradients or none */
    a->grads = s;
    *out = s;
    return 0;
}

int td_grad_prepare(td_tensor *t, uint32_t scope, const td_tensor *grad, td_error *e)
{
    char want[128], have[128];
    if (t->flags & TD_TF_UNHELD) return 0; /* who would ask for it? */
    if (grad == t) return td_fail(e, TD_E_AUTOGRAD, "can't assign a tensor as its own grad");
    if (!td_desc_same_shape(&grad->desc, &t->desc) || grad->desc.dtype != t->desc.dtype)
        return td_fail(e, TD_E_SHAPE, "assigned grad is %s, but must be like the tensor: %s",
                       td_desc_text(&grad->desc, have, sizeof have), td_desc_text(&t->desc, want, sizeof want));
    if (grad->desc.device != t->desc.device)
        return td_fail(e, TD_E_INVALID, "assigned grad is on %s, and the tensor on %s",
                       td_device_name(grad->desc.device), td_device_name(t->desc.device));
    td_auto *a = td_auto_need(t, e);
    if (!a) return TD_E_SYSTEM;
    td_gslot *s = slot_of(t, scope);
    return s ? 0 : new_slot(t, a, scope, &s, e);
}

void td_grad_unprepare(td_tensor *t, uint32_t scope)
{
    if (!td_grad(t, scope)) td_grad_drop_scope(t, scope);
}

void td_grad_put(td_tensor *t, uint32_t scope, td_tensor *grad)
{
    td_gslot *s = slot_of(t, scope);
    if (!s) return;
    td_tensor *old = s->grad;
    s->grad = td_tensor_ref(grad);
    td_tensor_unref(old);
}

int td_set_grad(td_tensor *t, uint32_t scope, td_tensor *grad, td_error *e)
{
    int rc = grad ? td_grad_prepare(t, scope, grad, e) : 0;
    if (!grad) td_grad_drop_scope(t, scope);
    else if (!rc) td_grad_put(t, scope, grad);
    return rc;
}

void td_grad_drop_scope(td_tensor *t, uint32_t scope)
{
    td_auto *a = td_auto_of(t);
    for (td_gslot **p = a ? &a->grads : NULL; p && *p; p = &(*p)->next)
        if ((*p)->scope == scope) {
            td_gslot *s = *p;
            *p = s->next;
            slot_free(s);
            return;
        }
}
