/* Nodes: made in one block from freelists by size, ended through the list of the dead that they share with tensors, so
 * that a graph of a million nodes goes without recursion, and in turns. All on the loop thread. */
#include "daemon/autograd/node.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_BYTES 64
#define CLASSES 16
#define KEEP 4096 /* dead nodes of a class that are kept */

_Thread_local uint64_t td_loop_nodes_live, td_loop_nodes_recorded, td_loop_nodes_bytes;

/* Linked through the first word. */
static _Thread_local struct {
    void *top;
    unsigned count;
} loop_pool[CLASSES];

static void *block_take(size_t bytes)
{
    size_t class = bytes / CLASS_BYTES;
    if (class >= CLASSES) return malloc(bytes);
    if (!loop_pool[class].top) return malloc((class + 1) * CLASS_BYTES);
    void *p = loop_pool[class].top;
    loop_pool[class].top = *(void **)p;
    loop_pool[class].count--;
    return p;
}

static void block_give(void *p, size_t bytes)
{
    size_t class = bytes / CLASS_BYTES;
    if (class >= CLASSES || loop_pool[class].count >= KEEP) {
        free(p);
        return;
    }
    *(void **)p = loop_pool[class].top;
    loop_pool[class].top = p;
    loop_pool[class].count++;
}

static size_t layout(const td_node_size *z, size_t at[7])
{
    size_t n = sizeof(td_node);
    at[0] = n, n += (size_t)z->nin * sizeof(td_edge);
    at[1] = n, n += (size_t)z->nsaved * sizeof(td_saved);
    at[2] = n, n += z->nints * sizeof(int64_t);
    at[3] = n, n += (size_t)z->nout * sizeof(td_shape);
    at[4] = n, n += z->shapes ? (size_t)z->nin * sizeof(td_shape) : 0;
    at[5] = n, n += (size_t)z->nattrs * sizeof(uint32_t);
    at[6] = n, n += (size_t)z->nin;
    return n;
}

/* In objects: a large node pays for as many as it is large. What hangs on its outputs is part of it. */
static uint64_t cost_of(size_t bytes)
{
    return td_objects_of(bytes + sizeof(td_auto));
}

uint64_t td_node_cost(const td_node_size *z)
{
    size_t at[7];
    return cost_of(layout(z, at));
}

td_node *td_node_new(const td_node_size *z, td_account *account, td_error *e)
{
    size_t at[7], bytes = layout(z, at);
    if (td_account_charge(account, 0, cost_of(bytes), e)) return NULL;
    td_node *n = block_take(bytes);
    if (!n) {
        td_account_discharge(account, 0, cost_of(bytes));
        td_no_memory(e, "for a node of the graph");
        return NULL;
    }
    unsigned char *p = (unsigned char *)n;
    memset(n, 0, at[2]);
    memset(p + at[3], 0, bytes - at[3]);
    n->refs = 1;
    n->nin = (uint16_t)z->nin, n->nout = (uint16_t)z->nout, n->nsaved = (uint16_t)z->nsaved;
    n->nattrs = (uint32_t)z->nattrs;
    n->bytes = (uint32_t)bytes;
    n->account = account ? td_account_ref(account) : NULL;
    n->where = "";
    n->edges = (td_edge *)(p + at[0]);
    n->saved = (td_saved *)(p + at[1]);
    n->ints = (int64_t *)(p + at[2]);
    n->outs = (td_shape *)(p + at[3]);
    n->shapes = z->shapes ? (td_shape *)(p + at[4]) : NULL;
    n->attrs = (uint32_t *)(p + at[5]);
    n->given = (bool *)(p + at[6]);
    n->seq = ++td_loop_nodes_recorded;
    td_loop_nodes_live++;
    td_loop_nodes_bytes += bytes;
    return n;
}

void td_node_free_saved(td_node *n)
{
    if (n->kind == TD_N_SLICE) {
        td_node_free_saved(n->slice->inner);
        if (n->slice->inner->flags & TD_NF_FREED) n->flags |= TD_NF_FREED;
    }
    if (!n->nsaved) return;
    for (int k = 0; k < n->nsaved; k++) td_saved_release(&n->saved[k]);
    if (n->hooks) td_hooks_drop_kind(&n->hooks, TD_HOOK_UNPACK);
    n->flags |= TD_NF_FREED;
}

static void strip(td_node *n, int from)
{
    for (int k = 0; k < n->nsaved; k++) td_saved_release(&n->saved[k]);
    td_hooks_drop_kind(&n->hooks, TD_HOOK_UNPACK);
    for (int k = from; k < n->nin; k++) {
        td_node *to = n->edges[k].node;
        n->edges[k].node = NULL;
        td_node_unref(to);
    }
}

void td_node_strip(td_node *n)
{
    if (n->kind == TD_N_SLICE) strip(n->slice->inner, 0);
    strip(n, 1);
}

td_node *td_node_ref(td_node *n)
{
    n->refs++;
    return n;
}

const char *td_node_name(const td_node *n)
{
    if (n->kind == TD_N_LEAF) return "accumulate_grad";
    if (n->kind == TD_N_FUNCTION) return n->name;
    return td_op_by_id(n->kind == TD_N_SLICE ? n->slice->inner->op : n->op)->name;
}

static void drop_retains(td_node *n)
{
    while (n->retains) {
        td_retain *r = n->retains;
        n->retains = r->next;
        td_auto_of(r->tensor)->retain = NULL;
        free(r);
    }
}

static void end(td_dead *d)
{
    td_node *n = (td_node *)(void *)((char *)d - offsetof(td_node, dead));
    drop_retains(n);
    td_hooks_drop(&n->hooks);
    for (int k = 0; k < n->nsaved; k++) td_saved_release(&n->saved[k]);
    for (int k = 0; k < n->nin; k++) td_node_unref(n->edges[k].node);
    if (n->kind == TD_N_LEAF) {
        td_tensor_unref(n->leaf);
    } else if (n->kind == TD_N_SLICE) {
        td_node_unref(n->slice->inner);
        free(n->slice);
    } else if (n->kind == TD_N_FUNCTION) {
        free(n->name);
    }
    td_site_unref(n->where);
    td_account_discharge(n->account, 0, cost_of(n->bytes));
    td_account_unref(n->account);
    td_loop_nodes_live--;
    td_loop_nodes_bytes -= n->bytes;
    block_give(n, n->bytes);
}

void td_node_unref(td_node *n)
{
    if (!n || --n->refs) return;
    if (n->kind == TD_N_LEAF && n->leaf) { /* at once: its tensor would find it */
        td_auto *a = td_auto_of(n->leaf);
        a->leaf = NULL;
        if (a->hooks) td_hooks_sift(&a->hooks);
    }
    td_die(&n->dead, end);
}

uint64_t td_autograd_nodes(void)
{
    return td_loop_nodes_live;
}

uint64_t td_autograd_bytes(void)
{
    return td_loop_nodes_bytes;
}

uint64_t td_autograd_recorded(void)
{
    return td_loop_nodes_recorded;
}
