/* Hooks, functions of the program's own, and the graph as the program sees it. How a backward asks is in grad.c.
 *
 * Numbers of hooks and nodes are this client's to choose and never chosen again; a forked child goes on from where its
 * parent was, with hooks of the same numbers. */
#include "client/grad/hook.h"
#include "client/tensor/array.h"
#include "client/tensor/recorder.h"
#include "client/tensor/saving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TD_API void td_set_on_hook(td_client *c, td_on_hook on_hook, void *context)
{
    if (td_enter(c, "set_on_hook")) return;
    c->grad.on_hook = on_hook;
    c->grad.hook_context = context;
    td_leave(c);
}

TD_API int td_gone_hooks(td_client *c, int room, uint32_t *out)
{
    if (!c || !c->in.gone.count || td_enter(c, "gone_hooks")) return 0;
    int n = c->in.gone.count < (size_t)room ? (int)c->in.gone.count : room;
    memcpy(out, c->in.gone.at + c->in.gone.count - n, (size_t)n * sizeof *out);
    c->in.gone.count -= (size_t)n;
    td_leave(c);
    return n;
}

void td_hook_numbers(const td_client *c, uint32_t *hooks, uint32_t *nodes)
{
    *hooks = c->grad.next_hook;
    *nodes = c->grad.next_node;
}

void td_set_hook_numbers(td_client *c, uint32_t hooks, uint32_t nodes)
{
    c->grad.next_hook = hooks;
    c->grad.next_node = nodes;
}

/* A number for a hook; from here on backwards ask. Under the lock. */
uint32_t td_new_hook(td_client *c)
{
    c->grad.hooks = true;
    return ++c->grad.next_hook;
}

TD_API uint32_t td_hook(td_array *a, td_hook_kind kind)
{
    if (!a) return td_raise_null("hook", "the array"), 0;
    if (td_recording) td_recording->refuse(a, NULL, "a hook on what it makes");
    if (td_enter(a->client, "hook")) return 0;
    td_client *c = a->client;
    uint32_t rest[3] = {td_new_hook(c), kind, 0};
    int rc = td_control(c, TD_REC_HOOK, NULL, 1, &a->id, 0, NULL, 3, rest);
    if (!rc && c->eager) rc = td_outcome(c);
    td_leave(c);
    return rc ? 0 : rest[0];
}

TD_API uint32_t td_hook_node(td_client *c, uint32_t number, td_hook_kind kind)
{
    if (td_enter(c, "hook_node")) return 0;
    uint32_t rest[3] = {td_new_hook(c), kind, number};
    int rc = td_control(c, TD_REC_HOOK, NULL, 0, NULL, 0, NULL, 3, rest);
    if (!rc && c->eager) rc = td_outcome(c);
    td_leave(c);
    return rc ? 0 : rest[0];
}

static int send_number(td_client *c, unsigned rec, const char *op, uint32_t number)
{
    int rc = td_enter(c, op);
    if (rc) return rc;
    rc = td_control(c, rec, NULL, 0, NULL, 0, NULL, 1, &number);
    td_leave(c);
    return rc;
}

TD_API int td_unhook(td_client *c, uint32_t hook)
{
    return send_number(c, TD_REC_HOOK_END, "unhook", hook);
}

TD_API int td_graph_release(td_client *c, uint32_t number)
{
    return send_number(c, TD_REC_NODE_END, "graph_release", number);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

enum { NAME_WORDS = 32, MOST_REST = 5 + TD_MAX_OUTPUTS + NAME_WORDS };

static int put_ids(td_client **c, uint32_t *in, int at, td_list l, bool gaps)
{
    int rc = TD_OK;
    for (int k = 0; k < l.n && !rc; k++) {
        in[at + k] = l.at[k] ? l.at[k]->id : 0;
        if (l.at[k]) rc = td_same_client(c, l.at[k], "function");
        else if (!gaps) rc = td_raise_null("function", "a result");
    }
    return rc;
}

/* After the lists that `rest` begins with. */
static int put_name(uint32_t *rest, int at, const char *name)
{
    size_t n = strlen(name);
    if (n > 4 * NAME_WORDS - 4) n = 4 * NAME_WORDS - 4;
    rest[at++] = (uint32_t)n;
    for (size_t k = 0; k < n; k++) {
        if (k % 4 == 0) rest[at++] = 0;
        rest[at - 1] |= (uint32_t)(unsigned char)name[k] << (k % 4 * 8);
    }
    return at;
}

TD_API uint32_t td_at_function(const char *where, const char *name, td_list in, td_list out, td_list saved,
                               const uint32_t *flags)
{
    uint32_t ids[TD_MAX_INPUTS], rest[MOST_REST];
    td_client *c = NULL;
    if (td_recording) td_recording->refuse(NULL, where, "a function with a backward of its own");
    if (in.n + out.n + saved.n > TD_MAX_INPUTS || out.n > TD_MAX_OUTPUTS) {
        td_raise(TD_E_INVALID, "function", "%d inputs, %d results and %d that are saved; too many", in.n, out.n,
                 saved.n);
        return 0;
    }
    int rc = put_ids(&c, ids, 0, in, true);
    if (!rc) rc = put_ids(&c, ids, in.n, out, false);
    if (!rc) rc = put_ids(&c, ids, in.n + out.n, saved, true);
    if (!rc && !c) rc = td_raise(TD_E_INVALID, "function", "it has no tensors");
    if (rc || td_enter_saving(c, "function")) return 0;
    rest[0] = td_new_hook(c);
    rest[1] = (uint32_t)in.n, rest[2] = (uint32_t)out.n,
    rest[3] = (uint32_t)saved.n | (td_wants_saved() ? TD_SAVES_BIT : 0);
    for (int k = 0; k < out.n; k++) rest[4 + k] = flags ? flags[k] : 0;
    int n = put_name(rest, 4 + out.n, name);
    rc = td_control(c, TD_REC_FUNCTION, where, in.n + out.n + saved.n, ids, 0, NULL, n, rest);
    if (!rc && c->eager) rc = td_outcome(c);
    if (rc && td_wants_saved()) td_is_saving.over(c);
    td_leave(c);
    if (!rc && td_wants_saved()) rc = td_is_saving.tell(c);
    return rc ? 0 : rest[0];
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

typedef struct looking {
    td_reply_wait wait;
    int room, n;
    td_graph_node *out;
} looking;

static void take_node(const Td__Wire__NodeFacts *f, td_graph_node *out)
{
    *out = (td_graph_node){.number = f->number, .nr = f->nr, .key = f->key, .session = f->session, .pid = f->pid};
    out->inputs = (int)(f->inputs & 0xffff), out->kind = (int)f->kind;
    snprintf(out->op, sizeof out->op, "%s", f->op);
    snprintf(out->aten, sizeof out->aten, "%s", f->aten);
    snprintf(out->where, sizeof out->where, "%s", f->where);
}

static int on_nodes(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    looking *x = w->context;
    x->n = (int)r->n_nodes;
    if (r->n_nodes > (size_t)x->room) return td_fail(e, TD_E_PROTOCOL, "%zu nodes came for %d", r->n_nodes, x->room);
    for (int k = 0; k < x->n; k++) take_node(r->nodes[k], &x->out[k]);
    return TD_OK;
}

static int look(td_client *c, Td__Wire__Node *node, looking *x, const char *op)
{
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.node = node;
    node->number = c->grad.next_node + 1;
    c->grad.next_node += (uint32_t)x->room;
    x->wait = (td_reply_wait){.on_reply = on_nodes, .context = x};
    return td_ask_and_wait(c, &call, -1, &x->wait, op);
}

TD_API int td_graph_of(td_array *a, td_graph_node *out)
{
    *out = (td_graph_node){0};
    if (!a) return td_raise_null("graph_of", "the array");
    int rc = td_enter(a->client, "graph_of");
    if (rc) return rc;
    Td__Wire__Node node = TD__WIRE__NODE__INIT;
    node.id = a->id;
    looking x = {.room = 1, .out = out};
    rc = look(a->client, &node, &x, "graph_of");
    td_leave(a->client);
    return rc;
}

TD_API int td_graph_next(td_client *c, const td_graph_node *of, td_graph_node *out, int *n)
{
    *n = 0;
    int rc = td_enter(c, "graph_next");
    if (rc) return rc;
    Td__Wire__Node node = TD__WIRE__NODE__INIT;
    node.of = of->number;
    node.room = (uint32_t)of->inputs;
    looking x = {.room = of->inputs, .out = out};
    if (of->inputs) rc = look(c, &node, &x, "graph_next");
    *n = rc ? 0 : x.n;
    td_leave(c);
    return rc;
}
