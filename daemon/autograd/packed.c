/* What nodes saved, in a program's own keeping: smaller, in a file, or only counted.
 *
 * The program asks for what the nodes saved that it has just recorded, one value after the other, and says of each
 * whether it has packed it. Then the slot lets go of the value; what stays is its form, its place in the graph, and a
 * hook that goes with what the node saved. A backward that comes to the node asks the hook for each value that it
 * wants, and has the answer for that node alone. What comes back need not be what was given, but must look like it: the
 * node's formula was recorded for that form. */
#include "daemon/autograd/backward.h"

#include <stdlib.h>

/* So many nodes wait to be asked about, those of one op as a rule: the rest is not, and keeps what it saved. */
enum { MOST_NOTED = 4096 };

struct td_noted {
    td_node **at; /* counted */
    uint32_t count, room, first, slot;
    td_node *given; /* counted: of slot - 1 it was told last */
};

td_noted *td_noted_new(td_error *e)
{
    td_noted *l = calloc(1, sizeof *l);
    if (!l) td_no_memory(e, "for what ops save");
    return l;
}

static void told(td_noted *l, td_node *n)
{
    td_node_unref(l->given);
    l->given = n ? td_node_ref(n) : NULL;
}

void td_noted_free(td_noted *l)
{
    if (!l) return;
    told(l, NULL);
    while (l->count > l->first) td_node_unref(l->at[--l->count]);
    free(l->at);
    free(l);
}

void td_node_note(td_noted *l, td_node *n)
{
    if (!l || !n->nsaved || l->count == MOST_NOTED) return;
    if (l->count == l->room) {
        uint32_t room = l->room ? 2 * l->room : 16;
        td_node **more = realloc(l->at, room * sizeof *more);
        if (!more) return;
        l->at = more;
        l->room = room;
    }
    l->at[l->count++] = td_node_ref(n);
}

int td_noted_next(td_noted *l, td_saved_look *out, td_error *e)
{
    *out = (td_saved_look){0};
    told(l, NULL);
    for (; l->first < l->count; l->first++, l->slot = 0) {
        td_node *n = l->at[l->first];
        while (l->slot < n->nsaved) {
            const td_saved *s = &n->saved[l->slot++];
            if (s->kind != TD_SV_TENSOR || !td_version_still(s->tensor->version, s->version)) continue;
            told(l, n);
            return td_node_saved(n, l->slot - 1, out, e);
        }
        td_node_unref(n);
    }
    l->first = l->count = 0;
    return 0;
}

int td_noted_pack(td_noted *l, uint32_t hook, td_hook_owner *owner, td_account *account, td_error *e)
{
    if (!l->given) return td_fail(e, TD_E_INVALID, "no saved value was told, to be packed");
    return td_node_pack(l->given, l->slot - 1, hook, owner, account, e);
}

/* ---- one slot */

static const td_hook *hook_of(const td_node *n, int k)
{
    const td_hook *h = n->hooks;
    while (h && !(h->kind == TD_HOOK_UNPACK && h->nr == k)) h = h->next;
    return h;
}

static const char *name_of(const td_node *n, const td_saved *s)
{
    const td_op *op = td_op_by_id(n->op);
    if (n->kind == TD_N_FUNCTION) return "tensors";
    if (s->output) return op->outs[op->nouts == 1 ? 0 : s->index].name;
    return op->params[td_op_param_of(op, n->nin, s->index)].name;
}

/* Has it a place in the graph, as an output? */
static bool placed_output(const td_node *n, const td_saved *s, const td_desc *d)
{
    bool apart = n->kind == TD_N_OP && td_op_by_id(n->op)->outs[td_op_by_id(n->op)->nouts == 1 ? 0 : s->index].nondiff;
    return !apart && td_dtype_is_inexact((td_dtype)d->dtype);
}

/* The value as it was saved; an output with its place in the graph. */
static int value_of(td_node *n, const td_saved *s, td_tensor **out, td_error *e)
{
    int rc = td_saved_check(n, s, e);
    if (rc) return rc;
    if (!s->output) {
        *out = td_tensor_ref(s->tensor);
        return 0;
    }
    rc = td_tensor_view(out, s->tensor, &s->tensor->desc, s->tensor->account, e);
    if (!rc && placed_output(n, s, &s->tensor->desc)) rc = td_set_history(*out, n, s->index, e);
    if (!rc) return 0;
    td_tensor_unref(*out);
    *out = NULL;
    return rc;
}

int td_node_saved(td_node *outer, uint32_t k, td_saved_look *out, td_error *e)
{
    td_node *n = td_node_saver(outer);
    *out = (td_saved_look){0};
    if (n->kind == TD_N_LEAF && n->leaf && k == 0)
        *out = (td_saved_look){.name = "variable", .value = td_tensor_ref(n->leaf)};
    if (k >= n->nsaved) return 0;
    const td_saved *s = &n->saved[k];
    const td_hook *h = s->kind == TD_SV_PACKED ? hook_of(n, (int)k) : NULL;
    *out = (td_saved_look){.name = name_of(n, s), .output = s->output, .index = s->index, .hook = h ? h->number : 0};
    out->freed = n->flags & TD_NF_FREED;
    return s->kind == TD_SV_TENSOR ? value_of(n, s, &out->value, e) : 0;
}

void td_packed_free(td_packed *p)
{
    td_node_unref(p->edge.node);
    free(p);
}

/* What is to be kept of it. */
static int describe(const td_saved *s, td_packed **out, td_error *e)
{
    td_packed *p = *out = calloc(1, sizeof *p);
    if (!p) return td_no_memory(e, "for a packed value");
    p->desc = s->tensor->desc;
    int rc = !s->output && td_requires_grad(s->tensor) ? td_edge_of(s->tensor, &p->edge, e) : 0;
    if (rc) free(p);
    return rc;
}

int td_node_pack(td_node *outer, uint32_t k, uint32_t hook, td_hook_owner *owner, td_account *account, td_error *e)
{
    td_node *n = td_node_saver(outer);
    td_saved *s = k < n->nsaved ? &n->saved[k] : NULL;
    td_packed *p;
    if (!s || s->kind != TD_SV_TENSOR)
        return td_fail(e, TD_E_AUTOGRAD, "'%s' has no saved value %u to be packed (any more)", td_node_name(n), k);
    if (!td_version_still(s->tensor->version, s->version))
        return td_fail(e, TD_E_VERSION,
                       "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack "
                       "hook can not be modified by in-place operations as this can lead to unexpected side-effects. "
                       "Work on a clone() of it");
    int rc = describe(s, &p, e);
    if (rc) return rc;
    rc = td_hook_add(&n->hooks, TD_HOOK_UNPACK, k, hook, owner, account, e);
    if (rc) {
        td_packed_free(p);
        return rc;
    }
    td_saved_release(s);
    s->kind = TD_SV_PACKED;
    s->packed = p;
    return 0;
}

/* ---- in a backward */

static int check_unpacked(const td_node *n, const td_saved *s, const td_tensor *t, td_error *e)
{
    char want[128], have[128];
    const td_desc *d = &s->packed->desc;
    if (!t) return td_fail(e, TD_E_AUTOGRAD, "an unpack hook gave nothing for what '%s' saved", td_node_name(n));
    if (td_desc_same_shape(d, &t->desc) && d->dtype == t->desc.dtype && d->device == t->desc.device) return 0;
    return td_fail(e, TD_E_SHAPE, "an unpack hook gave [%s] for what '%s' saved, which was [%s]",
                   td_desc_text(&t->desc, have, sizeof have), td_node_name(n), td_desc_text(d, want, sizeof want));
}

static int take_unpacked(td_backward *b, td_running *r, const td_node *n, td_error *e)
{
    td_tensor *given = b->asking.given ? b->asking.given[0] : NULL;
    const td_saved *s = &n->saved[r->i];
    int rc = s->kind == TD_SV_PACKED ? check_unpacked(n, s, given, e) : td_node_freed(n, e);
    if (!rc && !r->unpacked) r->unpacked = calloc(n->nsaved, sizeof *r->unpacked);
    if (!rc && !r->unpacked) rc = td_no_memory(e, "for what was unpacked");
    if (!rc) r->unpacked[r->i++] = td_tensor_ref(given);
    td_question_over(b);
    return rc;
}

int td_ask_unpack(td_backward *b, td_running *r, bool *asked, td_error *e)
{
    const td_node *outer = b->nodes[r->at].node, *n = td_node_saver(outer);
    bool function = n->kind == TD_N_FUNCTION;
    uint32_t inputs, outputs;
    int rc = b->asking.answered ? take_unpacked(b, r, n, e) : 0;
    *asked = false;
    td_backward_wants(b, outer, n, &inputs, &outputs);
    for (; r->i < n->nsaved && !rc; r->i++) {
        const td_saved *s = &n->saved[r->i];
        int p = function ? 0 : s->output ? s->index : td_op_param_of(td_op_by_id(n->op), n->nin, s->index);
        if (s->kind != TD_SV_PACKED || !(function || (s->output ? outputs : inputs) >> p & 1)) continue;
        *asked = true;
        return td_ask_one(b, hook_of(n, r->i), e);
    }
    b->asking.last = b->asking.until = 0;
    r->i = 0;
    return rc;
}

int td_unpacked(const td_backward *b, td_node *n, int k, bool placed, td_tensor **out, td_error *e)
{
    const td_saved *s = &n->saved[k];
    td_tensor *t = b->now.unpacked ? b->now.unpacked[k] : NULL;
    if (!t) return td_fail(e, TD_E_INTERNAL, "what '%s' saved was not unpacked", td_node_name(n));
    td_edge to = s->output ? (td_edge){n, s->index} : s->packed->edge;
    if (s->output) placed = placed && placed_output(n, s, &t->desc);
    *out = NULL;
    int rc = td_tensor_view(out, t, &t->desc, t->account, e);
    if (!rc && placed && to.node) rc = td_set_history(*out, to.node, to.nr, e);
    if (!rc) return 0;
    td_tensor_unref(*out);
    *out = NULL;
    return rc;
}
