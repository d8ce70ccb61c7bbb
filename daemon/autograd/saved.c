/* Saved tensors: what a gradient needs of its call, with the version it had.
 *
 * A slot that holds an input stands in a list on the input's family (its base), so that recording an in-place op can
 * empty the slots it makes useless: the tensor they hold would from then on lead to the node that holds them. */
#include "daemon/autograd/node.h"
#include <stddef.h>
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
    int rc = td_tensor_view(&own, t, &t->desc, t->account, e);
    if (rc) return rc;
    *s = (td_saved){.kind = TD_SV_TENSOR, .output = true, .index = (uint16_t)index, .version = t->version->value};
    s->tensor = own;
    return 0;
}

/* A walk over the slots of one family. */
struct td_losing {
    td_dead dead;
    td_auto *of;   /* NULL: that has gone */
    td_saved *at;  /* the next */
    uint32_t step; /* slots of before that */
    bool again;    /* it was overwritten meanwhile: once more from the first */
};

static void take_out(td_saved *s)
{
    if (!s->prev) return;
    td_losing *l = td_auto_of(td_root_of(s->tensor))->losing;
    if (l && l->at == s) l->at = s->next;
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
    } else if (s->kind == TD_SV_AGAIN) {
        td_region_unref(s->region);
    } else if (s->kind == TD_SV_PACKED) {
        td_packed_free(s->packed);
    }
    s->kind = TD_SV_NONE;
    td_tensor_unref(t);
}

static bool before(uint32_t version, uint32_t step)
{
    return (int32_t)(step - version) > 0;
}

static void lose(td_saved *s, uint32_t step)
{
    td_tensor *t = s->tensor;
    td_lost *lost = before(s->version, step) ? malloc(sizeof *lost) : NULL;
    if (!lost) return; /* saved since; or no memory: then only the memory is kept longer */
    *lost = (td_lost){t->desc, *t->version};
    take_out(s);
    s->kind = TD_SV_LOST;
    s->lost = lost;
    td_tensor_unref(t);
}

/* True when it is over: its family forgets it. */
static bool lose_some(td_losing *l, int most)
{
    for (; l->of && most > 0; most--) {
        if (!l->at && l->again) {
            l->at = l->of->savers;
            l->again = false;
        }
        td_saved *s = l->at;
        if (!s) {
            l->of->losing = NULL;
            l->of = NULL;
        } else {
            l->at = s->next;
            lose(s, l->step);
        }
    }
    return !l->of;
}

static void lose_more(td_dead *d) /* one: it takes as long as what else ends there */
{
    td_losing *l = (td_losing *)(void *)((char *)d - offsetof(td_losing, dead));
    if (lose_some(l, 1)) free(l);
    else td_die(d, lose_more);
}

void td_losing_end(td_losing *l)
{
    if (l) l->of = NULL;
}

/* Most tensors were saved a few times: these are done with at once. A tensor that a million nodes have saved is walked
 * over as the dead are let go of, in turns. */
void td_saved_lose(td_tensor *root, uint32_t step)
{
    enum { AT_ONCE = 64 };
    td_auto *a = td_auto_of(root);
    if (!a || !a->savers) return;
    if (a->losing) {
        a->losing->again = true;
        if (before(a->losing->step, step)) a->losing->step = step;
        return;
    }
    td_losing few = {.of = a, .at = a->savers, .step = step}, *more;
    a->losing = &few;
    if (lose_some(&few, AT_ONCE)) return;
    if (!(more = malloc(sizeof *more))) {
        while (!lose_some(&few, AT_ONCE)) {
        }
        return;
    }
    *more = few;
    a->losing = more;
    td_die(&more->dead, lose_more);
}

static const char *op_name(unsigned id)
{
    const td_op *op = td_op_by_id(id);
    return op ? op->name : NULL;
}

static const char *maker(const td_node *n, const td_saved *s)
{
    const td_node *by = s->output ? n : s->index < n->nin ? n->edges[s->index].node : NULL;
    return by && by->kind != TD_N_LEAF ? td_node_name(by) : NULL;
}

static int stale(const td_node *n, const td_saved *s, const td_desc *d, const td_version *now, td_error *e)
{
    char text[128], made[64] = "a leaf", by[96] = "a write lease, an import or a function";
    const char *name = maker(n, s);
    if (name) snprintf(made, sizeof made, "made by '%s'", name);
    if (op_name(now->op)) snprintf(by, sizeof by, "'%s'", op_name(now->op));
    return td_fail(e, TD_E_VERSION,
                   "one of the variables needed for gradient computation has been modified by an inplace operation: "
                   "[%s], %s and saved by '%s', is at version %u; expected version %u instead. It was changed by %s of "
                   "session %u (pid %u)",
                   td_desc_text(d, text, sizeof text), made, td_node_name(n), now->value, s->version, by, now->session,
                   now->pid);
}

int td_saved_check(const td_node *n, const td_saved *s, td_error *e)
{
    if (s->kind == TD_SV_LOST) return stale(n, s, &s->lost->desc, &s->lost->now, e);
    if (s->kind != TD_SV_TENSOR) return 0;
    const td_version *now = s->tensor->version;
    if (td_version_still(now, s->version)) return 0;
    if ((s->tensor->storage->flags & TD_SF_RACY) && now->session != n->session) return 0;
    return stale(n, s, &s->tensor->desc, now, e);
}
