/* Changing what is there. */
#include "proto/program/arrays.h"

#include <assert.h>
#include <ctype.h>

bool td_ir_is_name(const char *text, size_t length)
{
    size_t i = 0;
    if (length > TD_IR_NAME) return false;
    while (i < length && (isalnum((unsigned char)text[i]) || text[i] == '_')) i++;
    if (!i || isdigit((unsigned char)text[0])) return false;
    while (i < length && text[i] == '.' && i + 1 < length && isdigit((unsigned char)text[i + 1]))
        for (i++; i < length && isdigit((unsigned char)text[i]);) i++;
    return i == length;
}

void td_ir_name(td_ir_edit *e, uint32_t value, const char *name)
{
    size_t length = name ? strlen(name) : 0;
    uint32_t string = td_ir_is_name(name, length) ? td_ir_string(e, name, length) : TD_IR_NONE;
    if (!td_ir_stop(e, value)) e->ir.values[value].name = string;
}

void td_ir_retype(td_ir_edit *e, uint32_t value, uint32_t type)
{
    if (td_ir_stop(e, value) || type == TD_IR_NONE) return;
    assert(type < e->ir.ntypes);
    e->changes += e->ir.values[value].type != type;
    e->ir.values[value].type = type;
}

void td_ir_words(td_ir_edit *e, uint32_t node, const uint32_t *words, uint32_t n)
{
    uint32_t first = td_ir_take(e, TD_A_WORDS, n);
    if (td_ir_stop(e, first) || node == TD_IR_NONE) return;
    if (n) memcpy(e->ir.words + first, words, n * sizeof *words);
    e->ir.nodes[node].word = first;
    e->ir.nodes[node].nwords = n;
    e->changes++;
}

void td_ir_mode(td_ir_edit *e, uint32_t node, uint32_t mode)
{
    if (td_ir_stop(e, node)) return;
    e->ir.nodes[node].mode = mode;
    e->changes++;
}

void td_ir_rng(td_ir_edit *e, uint32_t node, uint32_t rng)
{
    if (td_ir_stop(e, node)) return;
    e->ir.nodes[node].rng = rng;
    e->changes++;
}

void td_ir_use_other(td_ir_edit *e, uint32_t use, uint32_t value)
{
    uint32_t user = e->uses[use].user;
    if (td_ir_stop(e, value)) return;
    td_ir_use_end(e, use);
    td_ir_use_begin(e, use, value, user);
    e->changes++;
}

void td_ir_set_in(td_ir_edit *e, uint32_t node, uint32_t k, uint32_t value)
{
    if (td_ir_stop(e, node) || value == TD_IR_NONE) return;
    assert(k < e->ir.nodes[node].nin);
    uint32_t slot = e->ir.nodes[node].in + k;
    td_ir_use_end(e, slot);
    td_ir_use_begin(e, slot, value, node);
    e->changes++;
}

void td_ir_replace(td_ir_edit *e, uint32_t old, uint32_t value)
{
    if (td_ir_stop(e, old) || value == TD_IR_NONE || old == value) return;
    while (e->used[old].first != TD_IR_NONE) {
        uint32_t slot = e->used[old].first, user = e->uses[slot].user;
        td_ir_use_end(e, slot);
        td_ir_use_begin(e, slot, value, user);
    }
    e->changes++;
}

/* ---- erasing and moving */

static void end_uses(td_ir_edit *e, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) td_ir_use_end(e, first + i);
}

/* Blocks of the node are put into the queue. */
static void bury(td_ir_edit *e, uint32_t node)
{
    td_ir_node *n = &e->ir.nodes[node];
    end_uses(e, n->in, n->nin);
    n->block = TD_IR_NONE; /* a tombstone */
    e->alive--;
    uint32_t at = td_ir_take(e, TD_A_QUEUE, n->nblocks);
    for (uint32_t i = 0; at != TD_IR_NONE && i < n->nblocks; i++) e->queue[at + i].from = n->child + i;
}

void td_ir_erase(td_ir_edit *e, uint32_t node)
{
    if (td_ir_stop(e, node)) return;
    assert(e->ir.nodes[node].block != TD_IR_NONE);
    for (uint32_t i = 0; i < e->ir.nodes[node].nout; i++) assert(e->used[td_ir_out(&e->ir, node, i)].count == 0);
    td_ir_unstand(e, node);
    e->nqueue = 0;
    bury(e, node);
    while (e->nqueue) {
        td_ir_block *b = &e->ir.blocks[e->queue[--e->nqueue].from];
        end_uses(e, b->ret, b->nrets);
        for (uint32_t n = b->first; n != TD_IR_NONE; n = e->ir.nodes[n].next) bury(e, n);
        b->first = b->last = TD_IR_NONE;
    }
    e->changes++;
}

void td_ir_function_drop(td_ir_edit *e, uint32_t function)
{
    if (td_ir_stop(e, function)) return;
    uint32_t block = e->ir.functions[function].block;
    assert(function > 0 && block != TD_IR_NONE);
    td_ir_returns(e, block, 0, NULL);
    while (e->ir.blocks[block].last != TD_IR_NONE && !e->failed.code) td_ir_erase(e, e->ir.blocks[block].last);
    e->ir.functions[function].block = TD_IR_NONE;
    e->changes++;
}

void td_ir_params_drop(td_ir_edit *e, uint32_t block)
{
    if (td_ir_stop(e, block)) return;
    for (uint32_t k = 0; k < e->ir.blocks[block].nparams; k++) assert(!td_ir_uses(e, td_ir_param(&e->ir, block, k)));
    e->ir.blocks[block].nparams = 0;
    e->changes++;
}

void td_ir_turn(td_ir_edit *e, uint32_t node, uint32_t op)
{
    if (td_ir_stop(e, node)) return;
    td_ir_node *n = &e->ir.nodes[node];
    assert(!n->nblocks && n->block != TD_IR_NONE);
    end_uses(e, n->in, n->nin);
    n->nin = 0;
    n->op = op;
    e->changes++;
}

/* Of a run for `user`, what is kept (the first `always` are): how many. */
static uint32_t keep_args(td_ir_edit *e, uint32_t first, uint32_t n, uint32_t always, const uint8_t *keep,
                          uint32_t user)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value = e->ir.args[first + i];
        if (i >= always && !keep[i - always]) td_ir_use_end(e, first + i);
        else if (kept++ != i) {
            td_ir_use_end(e, first + i);
            td_ir_use_begin(e, first + kept - 1, value, user);
        }
    }
    return kept;
}

static uint32_t keep_defs(td_ir_edit *e, uint32_t first, uint32_t n, uint32_t always, const uint8_t *keep)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value = e->ir.defs[first + i];
        if (i >= always && !keep[i - always]) continue;
        e->ir.values[value].nr = kept;
        e->ir.defs[first + kept++] = value;
    }
    return kept;
}

void td_ir_keep(td_ir_edit *e, uint32_t node, const uint8_t *keep)
{
    if (td_ir_stop(e, node)) return;
    td_ir_node *n = &e->ir.nodes[node];
    uint32_t skip = n->nblocks == 1; /* a loop, whose block has its trip and its condition in front */
    for (uint32_t k = 0; k < n->nblocks; k++) {
        td_ir_block *b = &e->ir.blocks[n->child + k];
        b->nrets = keep_args(e, b->ret, b->nrets, skip, keep, TD_IR_PARAM | (n->child + k));
        if (skip) b->nparams = keep_defs(e, b->param, b->nparams, 1, keep);
    }
    if (skip) n->nin = keep_args(e, n->in, n->nin, 2, keep, node);
    n->nout = keep_defs(e, n->out, n->nout, 0, keep);
    e->changes++;
}

/* Who stands in the block, and uses what it returns, is told that it is this one. */
static void own(td_ir_edit *e, uint32_t block)
{
    const td_ir_block *b = &e->ir.blocks[block];
    for (uint32_t n = b->first; n != TD_IR_NONE; n = e->ir.nodes[n].next) e->ir.nodes[n].block = block;
    for (uint32_t i = 0; i < b->nrets; i++) e->uses[b->ret + i].user = TD_IR_PARAM | block;
}

void td_ir_swap_arms(td_ir_edit *e, uint32_t node)
{
    if (td_ir_stop(e, node)) return;
    uint32_t first = td_ir_child(e, node, 0), second = td_ir_child(e, node, 1);
    assert(!e->ir.blocks[first].nparams && !e->ir.blocks[second].nparams);
    td_ir_block b = e->ir.blocks[first];
    e->ir.blocks[first] = e->ir.blocks[second];
    e->ir.blocks[second] = b;
    own(e, first);
    own(e, second);
    e->changes++;
}

void td_ir_move(td_ir_edit *e, uint32_t node)
{
    if (td_ir_stop(e, node) || e->before == node) return;
    td_ir_unstand(e, node);
    td_ir_stand(e, node);
    e->changes++;
}
