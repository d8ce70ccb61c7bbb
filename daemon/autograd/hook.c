/* Hooks: what stands on a node or a leaf for a function of some program, and who may run it.
 *
 * The graph has a number and an owner, a session; the function itself is in that session's program. A hook of a node
 * goes with the node; one of a leaf stays with the leaf, whatever graphs come and go, and is its owner's alone, as
 * .grad can be: two processes that train one leaf have their hooks each. The owner is told of each that has gone, so
 * that its program lets go of the function. */
#include "daemon/autograd/node.h"

#include <stdlib.h>

struct td_hook_owner {
    uint32_t refs, session, pid;
    void (*gone)(void *arg, uint32_t hook); /* NULL: it has ended */
    void *arg;
    td_hook *hooks;        /* by number */
    td_hook_owner *parent; /* counted: it was forked from there, and runs the hooks of ... */
    uint64_t until;        /* ... before that moment */
};

_Thread_local uint64_t td_loop_hooks;

td_hook_owner *td_hook_owner_new(uint32_t session, uint32_t pid, void (*gone)(void *arg, uint32_t hook), void *arg,
                                 td_error *e)
{
    td_hook_owner *o = malloc(sizeof *o);
    if (o) *o = (td_hook_owner){.refs = 1, .session = session, .pid = pid, .gone = gone, .arg = arg};
    else td_no_memory(e, "for the hooks of a session");
    return o;
}

td_hook_owner *td_hook_owner_ref(td_hook_owner *o)
{
    o->refs++;
    return o;
}

void td_hook_owner_unref(td_hook_owner *o)
{
    while (o && !--o->refs) {
        td_hook_owner *parent = o->parent;
        free(o);
        o = parent;
    }
}

void td_hook_owner_inherit(td_hook_owner *o, td_hook_owner *parent)
{
    o->parent = td_hook_owner_ref(parent);
    o->until = td_loop_hooks;
}

void td_hook_owner_end(td_hook_owner *o)
{
    if (!o) return;
    o->gone = NULL;
    o->arg = NULL;
    td_hook_owner_unref(o);
}

/* ---- one hook */

static td_hook *find(const td_hook_owner *o, uint32_t number)
{
    td_hook *h;
    HASH_FIND(hh, o->hooks, &number, sizeof number, h);
    return h;
}

/* Behind those that are there. */
/* Of one list, which is walked in one step. */
enum { MOST_HOOKS = 1024 };

static void append(td_hook **list, td_hook *h)
{
    h->list = list;
    while (*list) list = &(*list)->next;
    *list = h;
}

int td_hook_add(td_hook **list, int kind, uint32_t nr, uint32_t number, td_hook_owner *owner, td_account *account,
                td_error *e)
{
    if (find(owner, number)) return td_fail(e, TD_E_EXISTS, "there is a hook %u already", number);
    int before = 0;
    for (const td_hook *h = *list; h; h = h->next) before++;
    if (before >= MOST_HOOKS)
        return td_fail(e, TD_E_INVALID, "at most %d hooks hang on one tensor or node", MOST_HOOKS);
    int rc = td_account_charge(account, 0, 1, e);
    if (rc) return rc;
    td_hook *h = calloc(1, sizeof *h);
    if (h) {
        *h = (td_hook){.account = account, .order = ++td_loop_hooks, .number = number, .kind = (uint8_t)kind};
        h->nr = (uint16_t)nr;
        HASH_ADD(hh, owner->hooks, number, sizeof h->number, h);
    }
    if (!h || !TD_HASHED(h)) {
        free(h);
        td_account_discharge(account, 0, 1);
        return td_no_memory(e, "for a hook");
    }
    h->owner = td_hook_owner_ref(owner);
    td_account_ref(account);
    append(list, h);
    return 0;
}

/* It is off its list. */
static void end(td_hook *h)
{
    td_hook_owner *o = h->owner;
    HASH_DEL(o->hooks, h);
    if (o->gone) o->gone(o->arg, h->number);
    td_account_discharge(h->account, 0, 1);
    td_account_unref(h->account);
    free(h);
    td_hook_owner_unref(o);
}

void td_hooks_drop(td_hook **list)
{
    while (*list) {
        td_hook *h = *list;
        *list = h->next;
        end(h);
    }
}

void td_hooks_drop_kind(td_hook **list, int kind)
{
    while (*list) {
        td_hook *h = *list;
        if (h->kind != kind) {
            list = &h->next;
        } else {
            *list = h->next;
            end(h);
        }
    }
}

void td_hooks_sift(td_hook **list)
{
    while (*list) {
        td_hook *h = *list;
        if (h->owner->gone) {
            list = &h->next;
        } else {
            *list = h->next;
            end(h);
        }
    }
}

void td_hook_remove(td_hook_owner *owner, uint32_t number)
{
    td_hook *h = find(owner, number);
    if (!h || h->kind >= TD_HOOK_FUNCTION) return;
    td_hook **at = h->list;
    while (*at != h) at = &(*at)->next;
    *at = h->next;
    end(h);
}

bool td_hook_is_own(const td_hook *h, const td_hook_owner *owner)
{
    for (uint64_t until = UINT64_MAX; owner; owner = owner->parent) {
        if (h->owner == owner) return h->order <= until;
        if (owner->until < until) until = owner->until;
    }
    return false;
}

bool td_hook_is_of(const td_hook *h, const td_node *n)
{
    return h->owner->session == n->session;
}

int td_hook_foreign(const td_hook *h, const td_node *n, const td_hook_owner *asks, td_error *e)
{
    const char *what = h->kind == TD_HOOK_FUNCTION ? "the backward"
                       : h->kind == TD_HOOK_UNPACK ? "what unpacks a saved tensor"
                                                   : "a hook";
    if (h->owner == asks || !asks)
        return td_fail(e, TD_E_AUTOGRAD,
                       "%s of '%s' is a function of session %u (pid %u), and nothing asks for it in this backward "
                       "(a program's, or one whose client does not answer)",
                       what, td_node_name(n), h->owner->session, h->owner->pid);
    return td_fail(e, TD_E_AUTOGRAD,
                   "%s of '%s' is a function of session %u (pid %u)%s: only a backward that this one calls can run it. "
                   "Call backward() there, or build that part of the graph without it",
                   what, td_node_name(n), h->owner->session, h->owner->pid, h->owner->gone ? "" : ", which has ended");
}

/* ---- where it hangs */

int td_hook_tensor(td_tensor *t, int kind, uint32_t number, td_hook_owner *owner, td_account *account, td_error *e)
{
    if (kind != TD_HOOK_TENSOR && kind != TD_HOOK_LEAF)
        return td_fail(e, TD_E_INVALID, "there is no hook of kind %d", kind);
    if (!td_requires_grad(t))
        return td_fail(e, TD_E_AUTOGRAD, "cannot register a hook on a tensor that doesn't require gradient");
    if (td_is_leaf(t)) {
        td_auto *a = td_auto_need(t, e);
        if (a && !a->leaf) td_hooks_sift(&a->hooks); /* of sessions that have ended */
        return a ? td_hook_add(&a->hooks, kind, 0, number, owner, account, e) : TD_E_SYSTEM;
    }
    if (kind == TD_HOOK_LEAF)
        return td_fail(e, TD_E_AUTOGRAD, "post accumulate grad hooks cannot be registered on non-leaf tensors");
    td_edge edge;
    int rc = td_edge_of(t, &edge, e);
    if (rc) return rc;
    rc = td_hook_add(&edge.node->hooks, kind, edge.nr, number, owner, account, e);
    td_node_unref(edge.node); /* t keeps it */
    return rc;
}

int td_hook_node(td_node *n, int kind, uint32_t number, td_hook_owner *owner, td_account *account, td_error *e)
{
    if (kind == TD_HOOK_PRE || kind == TD_HOOK_POST) return td_hook_add(&n->hooks, kind, 0, number, owner, account, e);
    return td_fail(e, TD_E_INVALID, "there is no hook of kind %d for a node", kind);
}

/* ---- for who looks at graphs */

td_node *td_node_of(td_tensor *t, uint32_t *nr, td_error *e)
{
    td_edge edge;
    *nr = 0;
    if (td_is_leaf(t) || td_edge_of(t, &edge, e)) return NULL;
    *nr = edge.nr;
    return edge.node;
}

void td_node_look(const td_node *n, td_node_facts *out)
{
    static const int kinds[] = {[TD_N_OP] = TD_NODE_OP,
                                [TD_N_LEAF] = TD_NODE_LEAF,
                                [TD_N_SLICE] = TD_NODE_SLICE,
                                [TD_N_FUNCTION] = TD_NODE_FUNCTION};
    bool op = n->kind == TD_N_OP || n->kind == TD_N_SLICE;
    *out = (td_node_facts){.op = td_node_name(n),
                           .aten = op ? td_op_by_id(n->op)->aten : NULL,
                           .where = n->where,
                           .session = n->kind == TD_N_LEAF ? 0 : n->session,
                           .pid = n->kind == TD_N_LEAF ? 0 : n->pid,
                           .inputs = n->nin,
                           .kind = kinds[n->kind == TD_N_SLICE && n->slice->whole ? TD_N_OP : n->kind]};
}

td_node *td_node_next(const td_node *n, int i, uint32_t *nr)
{
    *nr = n->edges[i].nr;
    return n->edges[i].node;
}

bool td_node_counts(const td_node *n, int i)
{
    return n->kind != TD_N_FUNCTION || n->given[i];
}
