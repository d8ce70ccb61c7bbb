/* What a program does in backwards, as its session records it: hooks, functions of its own; and the nodes that it has
 * by number, to look at the graph or to hang hooks on.
 *
 * A hook that has gone with its node is told with the next reply, whatever that is about, so that the program lets go
 * of the function. */
#include "daemon/session/calls/calls.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>

enum { MANY = 4096 };

static void gone(void *session, uint32_t hook)
{
    td_session *s = session;
    if (s->graph.gone.count == MANY) td_event_gone(s);
    uint32_t *at = td_words_room(&s->graph.gone, 1);
    if (!at) return; /* the program keeps a function that nobody calls */
    *at = hook;
    s->graph.gone.count++;
}

td_hook_owner *td_session_hooks(td_session *s, td_error *e)
{
    if (!s->graph.hooks) s->graph.hooks = td_hook_owner_new(s->id, s->pid, gone, s, e);
    return s->graph.hooks;
}

/* ---- nodes by number */

typedef struct td_known_node {
    UT_hash_handle hh;
    uint32_t number;
    td_node *node; /* counted */
} td_known_node;

static td_known_node *find(td_session *s, uint32_t number)
{
    td_known_node *k;
    HASH_FIND(hh, s->graph.nodes, &number, sizeof number, k);
    return k;
}

/* A fork copies them in one step. */
enum { MOST_NODES = 16384 };

/* Takes a reference. */
static int know(td_session *s, uint32_t number, td_node *n, td_error *e)
{
    if (!number || find(s, number)) return td_fail(e, TD_E_EXISTS, "node %u is another already", number);
    if (HASH_CNT(hh, s->graph.nodes) >= MOST_NODES)
        return td_fail(e, TD_E_QUOTA, "a session looks at no more than %d nodes of graphs at once; let go of some",
                       MOST_NODES);
    int rc = td_account_charge(s->account, 0, 1, e);
    td_known_node *k = rc ? NULL : calloc(1, sizeof *k);
    if (rc) return rc;
    if (k) {
        k->number = number;
        HASH_ADD(hh, s->graph.nodes, number, sizeof k->number, k);
    }
    if (!k || !TD_HASHED(k)) {
        free(k);
        td_account_discharge(s->account, 0, 1);
        return td_no_memory(e, "for a node");
    }
    k->node = td_node_ref(n);
    return TD_OK;
}

static void forget(td_known_node **all, td_account *account, td_known_node *k)
{
    td_node *n = k->node;
    HASH_DEL(*all, k);
    free(k);
    td_account_discharge(account, 0, 1);
    td_node_unref(n);
}

bool td_known_nodes_drop(td_known_node **all, td_account *account, int most)
{
    for (; *all && most > 0; most--) forget(all, account, *all);
    return !*all;
}

int td_known_nodes_copy(td_session *s, td_known_node **next, int most, td_error *e)
{
    for (; *next && most > 0; most--, *next = (*next)->hh.next) {
        int rc = know(s, (*next)->number, (*next)->node, e);
        if (rc) return rc;
    }
    return *next ? TD_AGAIN : TD_OK;
}

int td_session_node_end(td_session *s, const td_record *r)
{
    for (uint32_t i = 0; i < r->nrest; i++) {
        td_known_node *k = find(s, r->rest[i]);
        if (k) forget(&s->graph.nodes, s->account, k);
    }
    return TD_OK;
}

enum { MOST_NEXT = 4095 };

static void describe(const td_node *n, uint32_t nr, uint32_t number, Td__Wire__NodeFacts *out)
{
    td_node_facts f;
    td__wire__node_facts__init(out);
    if (!n) return;
    td_node_look(n, &f);
    out->number = number;
    out->nr = nr;
    out->key = (uint64_t)(uintptr_t)n >> 4;
    out->op = (char *)f.op;
    out->aten = (char *)(f.aten ? f.aten : "");
    out->where = (char *)f.where;
    out->session = f.session, out->pid = f.pid;
    out->inputs = (uint32_t)f.inputs;
    out->kind = (uint32_t)f.kind;
}

static void say(td_session *s, uint64_t serial, size_t n, Td__Wire__NodeFacts **all)
{
    Td__Wire__Reply reply;
    td__wire__reply__init(&reply);
    reply.serial = serial;
    reply.n_nodes = n;
    reply.nodes = all;
    td_reply_send(s, &reply, -1);
}

static int call_of_tensor(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    td_cause *cause;
    td_tensor *t = td_session_tensor(s, call->node->id, &cause, e);
    if (!t) return e->code;
    uint32_t nr;
    td_error_clear(e);
    td_node *n = td_node_of(t, &nr, e);
    int rc = n ? know(s, call->node->number, n, e) : e->code;
    Td__Wire__NodeFacts facts, *all = &facts;
    if (!rc) describe(n, nr, call->node->number, &facts);
    if (!rc) say(s, call->serial, 1, &all);
    td_node_unref(n);
    return rc;
}

static int call_next(td_session *s, const Td__Wire__Call *call, td_known_node *of, td_error *e)
{
    td_node_facts f;
    td_node_look(of->node, &f);
    int n = f.inputs, rc = TD_OK, known = 0;
    if (n > MOST_NEXT || (uint32_t)n > call->node->room)
        return td_fail(e, TD_E_INVALID, "the node leads to %d others; there is room for %u", n, call->node->room);
    Td__Wire__NodeFacts *facts = calloc((size_t)n + 1, sizeof *facts), **all = calloc((size_t)n + 1, sizeof *all);
    if (!facts || !all) rc = td_no_memory(e, "for %d nodes", n);
    for (int i = 0; i < n && !rc; i++) {
        uint32_t nr, number = call->node->number + (uint32_t)known;
        td_node *next = td_node_next(of->node, i, &nr);
        if (!td_node_counts(of->node, i)) continue;
        if (next) rc = know(s, number, next, e);
        if (!rc) describe(next, nr, number, all[known] = &facts[known]), known++;
    }
    for (int i = 0; rc && i < known; i++)
        if (facts[i].number) forget(&s->graph.nodes, s->account, find(s, facts[i].number));
    if (!rc) say(s, call->serial, (size_t)known, all);
    free(facts);
    free(all);
    return rc;
}

int td_call_node(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    if (call->node->id) return call_of_tensor(s, call, e);
    td_known_node *k = find(s, call->node->of);
    return k ? call_next(s, call, k, e) : td_fail(e, TD_E_NOT_FOUND, "there is no node %u", call->node->of);
}

/* ---- what nodes saved */

td_noted *td_session_noted(td_session *s, td_error *e)
{
    if (!s->graph.noted) s->graph.noted = td_noted_new(e);
    return s->graph.noted;
}

static int pack(td_session *s, const Td__Wire__Saved *q, td_node *of, td_error *e)
{
    td_hook_owner *o = td_session_hooks(s, e);
    if (!o) return e->code;
    int rc = of               ? td_node_pack(of, q->slot, q->pack, o, s->account, e)
             : s->graph.noted ? td_noted_pack(s->graph.noted, q->pack, o, s->account, e)
                              : td_fail(e, TD_E_INVALID, "no saved value was told, to be packed");
    if (rc && rc != TD_E_EXISTS) gone(s, q->pack);
    return rc;
}

static void say_saved(td_session *s, uint64_t serial, const td_saved_look *l)
{
    Td__Wire__Reply reply;
    Td__Wire__SavedFacts facts = TD__WIRE__SAVED_FACTS__INIT;
    Td__Wire__Desc desc;
    int64_t sizes[2 * TD_MAX_DIMS];
    td__wire__reply__init(&reply);
    reply.serial = serial;
    if (l->name) {
        facts.name = (char *)(uintptr_t)l->name;
        facts.hook = l->hook, facts.output = l->output, facts.freed = l->freed, facts.index = (uint32_t)l->index;
        if (l->value) td_desc_to_wire(&l->value->desc, facts.desc = &desc, sizes);
        reply.saved = &facts;
    }
    td_reply_send(s, &reply, -1);
}

int td_call_saved(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__Saved *q = call->saved;
    td_known_node *k = q->of ? find(s, q->of) : NULL;
    td_saved_look l = {0};
    if (q->of && !k) return td_fail(e, TD_E_NOT_FOUND, "there is no node %u", q->of);
    int rc = q->id ? td_objects_check_free(&s->objects, q->id, e) : TD_OK;
    if (!rc && q->pack) rc = pack(s, q, k ? k->node : NULL, e);
    if (!rc && k && !q->pack) rc = td_node_saved(k->node, q->slot, &l, e);
    if (!rc && !k && s->graph.noted) rc = td_noted_next(s->graph.noted, &l, e);
    if (!rc && l.value && q->id) {
        rc = td_account_room(s->account, 1, e);
        if (!rc) rc = td_objects_bind(&s->objects, q->id, td_tensor_ref(l.value), NULL, e);
    }
    if (!rc) say_saved(s, call->serial, &l);
    td_tensor_unref(l.value);
    return rc;
}

/* ---- hooks */

static int hook_tensor(td_session *s, const td_record *r, td_hook_owner *o, td_error *e)
{
    td_tensor *t;
    int rc = td_session_tensors(s, r->in, 1, false, &t, e);
    return rc ? rc : td_hook_tensor(t, (int)r->rest[1], r->rest[0], o, s->account, e);
}

/* Nobody runs it: its function may go. */
static int refused(td_session *s, uint32_t hook, int rc)
{
    if (rc != TD_E_EXISTS) gone(s, hook);
    return rc;
}

int td_session_hook(td_session *s, const td_record *r, td_error *e)
{
    td_hook_owner *o = td_session_hooks(s, e);
    if (!o) return e->code;
    if (r->nin > 1) return td_fail(e, TD_E_PROTOCOL, "record hook has %u inputs", r->nin);
    int rc;
    if (r->nin) {
        rc = hook_tensor(s, r, o, e);
    } else {
        td_known_node *k = find(s, r->rest[2]);
        rc = k ? td_hook_node(k->node, (int)r->rest[1], r->rest[0], o, s->account, e)
               : td_fail(e, TD_E_NOT_FOUND, "there is no node %u", r->rest[2]);
    }
    return rc ? refused(s, r->rest[0], rc) : TD_OK;
}

int td_session_hook_end(td_session *s, const td_record *r)
{
    for (uint32_t i = 0; i < r->nrest && s->graph.hooks; i++) td_hook_remove(s->graph.hooks, r->rest[i]);
    return TD_OK;
}

/* ---- functions */

static int take_name(const td_record *r, uint32_t at, char *name, size_t room, td_error *e)
{
    uint32_t bytes = r->nrest > at ? r->rest[at] : 0, words = (bytes + 3) / 4;
    if (!bytes || bytes >= room || r->nrest - at - 1 < words)
        return td_fail(e, TD_E_PROTOCOL, "the name of a function has %u bytes", bytes);
    for (uint32_t k = 0; k < bytes; k++) name[k] = (char)(r->rest[at + 1 + k / 4] >> (k % 4 * 8));
    name[bytes] = 0;
    return TD_OK;
}

int td_session_function(td_session *s, const td_record *r, td_error *e)
{
    uint32_t nin = r->rest[1], nout = r->rest[2], nsaved = r->rest[3] & ~TD_SAVES_BIT;
    bool noted = r->rest[3] & TD_SAVES_BIT;
    char name[128], shown[128];
    td_hook_owner *o = td_session_hooks(s, e);
    if (!o) return e->code;
    if ((uint64_t)nin + nout + nsaved != r->nin || r->nrest - 4 < nout)
        return td_fail(e, TD_E_PROTOCOL, "record function has %u inputs for %u, %u and %u", r->nin, nin, nout, nsaved);
    if (r->nin > TD_MAX_INPUTS) /* of one record */
        return td_fail(e, TD_E_INVALID,
                       "%u inputs, %u results and %u that are saved; a function has at most %d together", nin, nout,
                       nsaved, TD_MAX_INPUTS);
    int rc = take_name(r, 4 + nout, name, sizeof name, e);
    if (rc) return rc;
    td_text_visible(shown, sizeof shown, name);
    td_tensor **t = malloc((r->nin + 1u) * sizeof *t);
    if (!t) return td_no_memory(e, "for a function of %u tensors", r->nin);
    rc = td_session_tensors(s, r->in, r->nin, true, t, e);
    for (uint32_t k = 0; k < nout && !rc; k++)
        if (!t[nin + k]) rc = td_fail(e, TD_E_PROTOCOL, "result %u of a function is no tensor", k);
    td_function_call f = {.name = shown, .hook = r->rest[0], .nin = (int)nin, .nout = (int)nout, .nsaved = (int)nsaved};
    f.in = t, f.out = t + nin, f.saved = t + nin + nout;
    f.flags = r->rest + 4;
    s->issuer.noted = noted && !rc ? td_session_noted(s, e) : NULL;
    if (!rc) rc = td_function_record(&s->issuer, o, &f, e);
    s->issuer.noted = NULL;
    free(t);
    return rc ? refused(s, r->rest[0], rc) : TD_OK;
}
