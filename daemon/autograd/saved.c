/* Saved tensors: what a gradient needs of its call, with the version it had.
 *
 * A slot that holds an input stands in a list on the input's family (its base), so that recording an in-place op can
 * empty the slots it makes useless: the tensor they hold would from then on lead to the node that holds them. */
#include "daemon/autograd/node.h"
#include <stdio.h>
#include <stdlib.h>

void td_save_number(td_saved *s, td_scalar v, int index)
{
    *s = (td_saved){.kind = TD_SV_NUMBER, .index = (uint16_t)index, .number = v};
}

int td_save_input(td_saved *s, td_tensor *t, int index, uint32_t version, td_error *e)
{
    td_auto *a = td_auto_need(td_root_of(t), e);
    if (!a) return TD_E_SYSTEM;
    *s = (td_saved){.kind = TD_SV_TENSOR, .index = (uint16_t)index, .version = version, .tensor = td_tensor_ref(t)};
    s->next = a->savers;
    s->prev = &a->savers;
    if (s->next) s->next->prev = &s->next;
    a->savers = s;
    return 0;
}

/* A handle of its own, without history: the node must not hold the tensor that holds the node. */
int td_save_output(td_saved *s, td_tensor *t, int index, td_error *e)
{
    td_tensor *own;
    int err = td_tensor_view(&own, t, &t->desc, t->account, e);
    if (err) return err;
    *s = (td_saved){.kind = TD_SV_TENSOR, .output = true, .index = (uint16_t)index, .version = t->version->value};
    s->tensor = own;
    return 0;
}

static void take_out(td_saved *s)
{
    if (!s->prev) return;
    *s->prev = s->next;
    if (s->next) s->next->prev = s->prev;
    s->next = NULL;
    s->prev = NULL;
}

void td_saved_release(td_saved *s)
{
    td_tensor *t = NULL;
    if (s->kind == TD_SV_TENSOR) {
        take_out(s);
        t = s->tensor;
    } else if (s->kind == TD_SV_LOST) {
        free(s->lost);
    }
    s->kind = TD_SV_NONE;
    td_tensor_unref(t);
}

void td_saved_lose(td_tensor *root)
{
    td_auto *a = td_auto_of(root);
    for (td_saved *s = a ? a->savers : NULL, *next; s; s = next) {
        next = s->next;
        td_tensor *t = s->tensor;
        td_lost *lost = s->version != t->version->value ? malloc(sizeof *lost) : NULL;
        if (!lost) continue; /* still good; or no memory: then only the memory is kept longer */
        *lost = (td_lost){t->desc, *t->version};
        take_out(s);
        s->kind = TD_SV_LOST;
        s->lost = lost;
        td_tensor_unref(t);
    }
}

static const char *op_name(unsigned id)
{
    const td_op *op = td_op_by_id(id);
    return op ? op->name : NULL;
}

static const char *maker(const td_node *n, const td_saved *s)
{
    const td_node *by = s->output ? n : n->edges[s->index].node;
    if (!by || by->kind == TD_N_LEAF) return NULL;
    return op_name(by->kind == TD_N_SLICE ? by->slice->inner->op : by->op);
}

static int stale(const td_node *n, const td_saved *s, const td_desc *d, const td_version *now, td_error *e)
{
    char text[128], made[64] = "a leaf", by[96] = "a write lease or an import";
    const char *name = maker(n, s);
    if (name) snprintf(made, sizeof made, "made by '%s'", name);
    if (op_name(now->op)) snprintf(by, sizeof by, "'%s'", op_name(now->op));
    return td_fail(e, TD_E_VERSION,
                   "one of the variables needed for gradient computation has been modified by an inplace operation: "
                   "[%s], %s and saved by '%s', is at version %u; expected version %u instead. It was changed by %s of "
                   "session %u (pid %u)",
                   td_desc_text(d, text, sizeof text), made, op_name(n->op), now->value, s->version, by, now->session,
                   now->pid);
}

int td_saved_check(const td_node *n, const td_saved *s, td_error *e)
{
    if (s->kind == TD_SV_LOST) return stale(n, s, &s->lost->desc, &s->lost->now, e);
    if (s->kind != TD_SV_TENSOR) return 0;
    const td_version *now = s->tensor->version;
    if (now->value == s->version) return 0;
    if ((s->tensor->storage->flags & TD_SF_RACY) && now->session != n->session) return 0;
    return stale(n, s, &s->tensor->desc, now, e);
}
