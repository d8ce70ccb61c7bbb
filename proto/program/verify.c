/* The verifier's walk: in the order in which a program runs, so that what may be seen is a mark that is set where a
 * value is defined and taken away where its block ends. Calls between functions are looked at by themselves. */
#include "proto/program/verify.h"

#include "proto/program/check.h"
#include "proto/program/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what is said */

static const char *source_text(const td_ir *ir, uint32_t source, char *out, size_t size)
{
    *out = 0;
    if (source < ir->nsources)
        snprintf(out, size, " (%.80s:%u)", td_ir_chars(ir, ir->sources[source].file), ir->sources[source].line);
    return out;
}

bool td_bad(td_verify *v, const char *format, ...)
{
    char said[300], place[128], op[96] = "";
    va_list ap;
    va_start(ap, format);
    vsnprintf(said, sizeof said, format, ap);
    va_end(ap);
    if (v->node == TD_IR_NONE) return td_fail(v->e, TD_E_INVALID, "not a program: %s", said), false;
    const td_ir_node *n = &v->ir->nodes[v->node];
    if (v->op_known) op[0] = ' ', td_ir_op_text(v->ir, n->op, op + 1, sizeof op - 1);
    td_fail(v->e, TD_E_INVALID, "not a program: node %u%s%s: %s", v->node, op,
            v->op_known ? source_text(v->ir, n->source, place, sizeof place) : "", said);
    return false;
}

bool td_too_much(td_verify *v, const char *what, uint32_t most)
{
    return td_fail(v->e, TD_E_QUOTA, "the program is too large: more than %u %s", most, what), false;
}

bool td_starved(td_verify *v)
{
    return td_no_memory(v->e, "to verify a program of %u nodes", v->ir->nnodes), false;
}

/* ---- limits */

static bool limits(td_verify *v)
{
    const td_ir *ir = v->ir;
    uint32_t nodes = v->flags & TD_VERIFY_GROWN ? TD_IR_MAX_GROWN : TD_IR_MAX_NODES;
    if (ir->nnodes > nodes) return td_too_much(v, "nodes", nodes);
    if (ir->nchars > TD_IR_MAX_BYTES) return td_too_much(v, "bytes of text", TD_IR_MAX_BYTES);
    if (ir->ncaptures > TD_IR_MAX_ENDS) return td_too_much(v, "captured names", TD_IR_MAX_ENDS);
    if (ir->nfunctions > TD_IR_MAX_ENDS) return td_too_much(v, "functions", TD_IR_MAX_ENDS);
    const uint32_t counts[] = {ir->ntypes, ir->nvalues, ir->nblocks, ir->nsources, ir->nstrings,
                               ir->nparts, ir->nwords,  ir->nargs,   ir->ndefs};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] > TD_IR_MAX_ITEMS) return td_too_much(v, "items of one kind", TD_IR_MAX_ITEMS);
    return true;
}

/* ---- the walk */

static void mark(td_verify *v, uint32_t first, uint32_t n, uint8_t seen)
{
    for (uint32_t i = 0; i < n; i++) v->seen[v->ir->defs[first + i]] = seen;
}

static bool uses(td_verify *v, uint32_t first, uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value = v->ir->args[first + i];
        if (value >= v->ir->nvalues) return td_bad(v, "%s %u is no value", what, i);
        if (!v->seen[value])
            return td_bad(v, "%s %u (value %u) is not defined before it, in its block or around it", what, i, value);
    }
    return true;
}

/* A block begins: its parameters can be seen. */
static void enter(td_verify *v, uint32_t block)
{
    mark(v, v->ir->blocks[block].param, v->ir->blocks[block].nparams, 1);
}

static bool leave(td_verify *v, uint32_t block)
{
    const td_ir_block *b = &v->ir->blocks[block];
    uint32_t node = v->node;
    v->node = b->owner;
    v->op_known = b->owner != TD_IR_NONE;
    if (!uses(v, b->ret, b->nrets, "what is returned as")) return false;
    v->node = node;
    mark(v, b->param, b->nparams, 0);
    for (uint32_t n = b->first; n != TD_IR_NONE; n = v->ir->nodes[n].next)
        mark(v, v->ir->nodes[n].out, v->ir->nodes[n].nout, 0);
    return true;
}

/* The node itself; what it defines can be seen only behind its blocks. */
static bool arrive(td_verify *v, uint32_t node)
{
    const td_ir_node *n = &v->ir->nodes[node];
    v->node = node;
    v->op_known = false;
    return uses(v, n->in, n->nin, "argument") && td_verify_op(v);
}

typedef struct level {
    uint32_t block, node; /* node: the one whose blocks are being walked, or that comes next */
} level;

/* One function: a stack of blocks, each with the node where it stands. */
static bool walk(td_verify *v, uint32_t function)
{
    const td_ir *ir = v->ir;
    level at[TD_IR_MAX_NEST + 1];
    int depth = 0;
    at[0] = (level){function, ir->blocks[function].first};
    enter(v, function);
    for (;;) {
        level *now = &at[depth];
        if (now->node != TD_IR_NONE) {
            const td_ir_node *n = &ir->nodes[now->node];
            if (!arrive(v, now->node)) return false;
            if (n->nblocks) {
                if (depth == TD_IR_MAX_NEST) return td_too_much(v, "blocks in each other", TD_IR_MAX_NEST);
                at[++depth] = (level){n->child, ir->blocks[n->child].first};
                enter(v, n->child);
                continue;
            }
            mark(v, n->out, n->nout, 1);
            now->node = n->next;
            continue;
        }
        if (!leave(v, now->block)) return false;
        if (!depth) return true;
        const td_ir_node *owner = &ir->nodes[ir->blocks[now->block].owner];
        uint32_t next = now->block + 1;
        if (next - owner->child < owner->nblocks) {
            *now = (level){next, ir->blocks[next].first};
            enter(v, next);
            continue;
        }
        mark(v, owner->out, owner->nout, 1);
        at[--depth].node = owner->next;
    }
}

/* ---- calls */

/* Take away functions that nobody calls any more, until none is left: those in a circle stay. */
static bool acyclic(td_verify *v)
{
    const td_ir *ir = v->ir;
    uint32_t n = ir->nfunctions, *callers = calloc(4 * (size_t)n + 1 + ir->nnodes, sizeof *callers), done = 0,
             nodes = 0;
    if (!callers) return td_starved(v);
    /* calls of function f: nodes in calls[first[f]] .. calls[first[f + 1]] */
    uint32_t *first = callers + n, *fill = first + n + 1, *ready = fill + n, *calls = ready + n;
    for (uint32_t i = 0; i < ir->nnodes; i++)
        if ((ir->nodes[i].op & TD_IR_CLASS) == TD_IR_FN)
            first[ir->blocks[ir->nodes[i].block].function + 1]++, callers[ir->nodes[i].op & TD_IR_NUMBER]++;
    for (uint32_t f = 0; f < n; f++) first[f + 1] += first[f], fill[f] = first[f];
    for (uint32_t i = 0; i < ir->nnodes; i++)
        if ((ir->nodes[i].op & TD_IR_CLASS) == TD_IR_FN)
            calls[fill[ir->blocks[ir->nodes[i].block].function]++] = ir->nodes[i].op & TD_IR_NUMBER;
    for (uint32_t f = 0; f < n; f++)
        if (!callers[f]) ready[nodes++] = f;
    for (; done < nodes; done++)
        for (uint32_t k = first[ready[done]]; k < first[ready[done] + 1]; k++)
            if (!--callers[calls[k]]) ready[nodes++] = calls[k];
    uint32_t left = 0;
    while (left < n && !callers[left]) left++;
    free(callers);
    v->node = TD_IR_NONE;
    return done == n || td_bad(v, "function '%s' calls itself, or is called by one that does",
                               td_ir_chars(ir, ir->functions[left].name));
}

int td_ir_verify(const td_ir *ir, unsigned flags, td_error *e)
{
    td_error own = {0};
    td_verify v = {.ir = ir, .flags = flags, .e = &own, .node = TD_IR_NONE};
    bool good = limits(&v) && td_verify_order(&v) && td_verify_types(&v);
    if (good && !(v.seen = calloc(1, ir->nvalues + 1))) good = td_starved(&v);
    for (uint32_t i = 0; good && i < ir->ncaptures; i++) v.seen[i] = 1;
    for (uint32_t f = 0; good && f < ir->nfunctions; f++) good = walk(&v, f);
    good = good && acyclic(&v);
    free(v.texts);
    free(v.seen);
    free(v.rng);
    if (!good && e) *e = own;
    return good ? 0 : own.code;
}
