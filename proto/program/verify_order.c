/* The order of a module: every run of an array begins where the one before it ends (an empty one at 0), in the order
 * that ir.h says. From this it follows that every index that is no use of a value is in range, that blocks form a tree,
 * and that each value is defined once. */
#include "proto/base/hash.h"
#include "proto/program/check.h"
#include "proto/base/text.h"
#include <stdlib.h>

/* ---- strings */

static bool is_utf8(const char *text, uint32_t length)
{
    uint32_t code;
    for (uint32_t i = 0; i < length;) {
        size_t n = td_text_char(text + i, &code); /* the 0 behind ends a character that is cut */
        if (code == UINT32_MAX) return false;
        i += (uint32_t)n;
    }
    return true;
}

static bool strings_differ(td_verify *v)
{
    const td_ir *ir = v->ir;
    uint32_t size = 64;
    while (size < 2 * ir->nstrings) size *= 2;
    uint32_t *table = malloc(size * sizeof *table);
    if (!table) return td_starved(v);
    memset(table, 0xff, size * sizeof *table);
    bool good = true;
    for (uint32_t i = 0; good && i < ir->nstrings; i++) {
        uint32_t length = ir->strings[i].length, at = td_hash_keyed(td_ir_chars(ir, i), length);
        for (; good && table[at & (size - 1)] != TD_IR_NONE; at++) {
            uint32_t other = table[at & (size - 1)];
            if (ir->strings[other].length == length && !memcmp(td_ir_chars(ir, other), td_ir_chars(ir, i), length))
                good = td_bad(v, "string %u is string %u once more", i, other);
        }
        table[at & (size - 1)] = i;
    }
    free(table);
    return good;
}

static bool strings(td_verify *v)
{
    const td_ir *ir = v->ir;
    uint32_t at = 0;
    if (!(v->texts = calloc(1, ir->nstrings + 1))) return td_starved(v);
    for (uint32_t i = 0; i < ir->nstrings; i++) {
        const td_ir_text *s = &ir->strings[i];
        if (s->at != at || s->length >= ir->nchars - at || ir->chars[at + s->length])
            return td_bad(v, "string %u lies where it should not", i);
        if (!is_utf8(ir->chars + at, s->length)) return td_bad(v, "string %u is no UTF-8", i);
        v->texts[i] = !memchr(ir->chars + at, 0, s->length);
        at += s->length + 1;
        if (at == ir->nchars && i + 1 < ir->nstrings) return td_bad(v, "string %u lies where it should not", i + 1);
    }
    if (at != ir->nchars) return td_bad(v, "there is text behind the last string");
    return strings_differ(v);
}

bool td_is_named(const td_verify *v, uint32_t string)
{
    return td_is_text(v, string) && td_ir_is_name(td_ir_chars(v->ir, string), v->ir->strings[string].length);
}

/* ---- runs */

/* Where the next run of each array begins. */
typedef struct runs {
    uint32_t node, block, arg, def, word, value;
} runs;

static bool run(uint32_t *next, uint32_t first, uint32_t n, uint32_t most)
{
    if (first != (n ? *next : 0) || n > most - *next) return false;
    *next += n;
    return true;
}

/* `n` definitions from `first` on are the next values, and these say so. */
static bool define(td_verify *v, runs *at, uint32_t first, uint32_t n, uint32_t def)
{
    const td_ir *ir = v->ir;
    if (!run(&at->def, first, n, ir->ndefs)) return td_bad(v, "what defines values lies where it should not");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value = ir->defs[first + i];
        if (value != at->value || value >= ir->nvalues)
            return td_bad(v, "a value is defined twice, or out of order: %u", value);
        if (ir->values[value].def != def || ir->values[value].nr != i)
            return td_bad(v, "value %u says that another defines it", value);
        at->value++;
    }
    return true;
}

static bool node(td_verify *v, runs *at, uint32_t block, uint32_t previous)
{
    const td_ir *ir = v->ir;
    uint32_t number = at->node++;
    const td_ir_node *n = &ir->nodes[number];
    v->node = number;
    if (n->block != block || n->prev != previous) return td_bad(v, "it stands where it should not");
    if (!run(&at->arg, n->in, n->nin, ir->nargs)) return td_bad(v, "its arguments lie where they should not");
    if (!run(&at->word, n->word, n->nwords, ir->nwords)) return td_bad(v, "its attributes lie where they should not");
    if (!define(v, at, n->out, n->nout, number)) return false;
    if (!run(&at->block, n->child, n->nblocks, ir->nblocks)) return td_bad(v, "its blocks lie where they should not");
    for (uint32_t i = 0; i < n->nblocks; i++)
        if (ir->blocks[n->child + i].owner != number || ir->blocks[n->child + i].function != ir->blocks[block].function)
            return td_bad(v, "block %u says that it is another's", n->child + i);
    if (n->source != TD_IR_NONE && n->source >= ir->nsources) return td_bad(v, "there is no source %u", n->source);
    v->node = TD_IR_NONE;
    return true;
}

static bool block(td_verify *v, runs *at, uint32_t number)
{
    const td_ir *ir = v->ir;
    const td_ir_block *b = &ir->blocks[number];
    uint32_t previous = TD_IR_NONE;
    if (!define(v, at, b->param, b->nparams, TD_IR_PARAM | number)) return false;
    for (uint32_t n = b->first; n != TD_IR_NONE; previous = n, n = ir->nodes[n].next) {
        if (n != at->node || n >= ir->nnodes) return td_bad(v, "the nodes of block %u are out of order", number);
        if (!node(v, at, number, previous)) return false;
    }
    if (b->last != previous) return td_bad(v, "the last node of block %u is another", number);
    return run(&at->arg, b->ret, b->nrets, ir->nargs) ||
           td_bad(v, "what block %u returns lies where it should not", number);
}

static bool captures(td_verify *v)
{
    const td_ir *ir = v->ir;
    for (uint32_t i = 0; i < ir->ncaptures; i++) {
        if (ir->captures[i].value != i || i >= ir->nvalues || ir->values[i].def != (TD_IR_CAPTURED | i) ||
            ir->values[i].nr)
            return td_bad(v, "captured name %u has the value of another", i);
        if (!td_is_text(v, ir->captures[i].name)) return td_bad(v, "captured name %u is no text", i);
    }
    return true;
}

static bool functions(td_verify *v)
{
    const td_ir *ir = v->ir;
    if (!ir->nfunctions || ir->nblocks < ir->nfunctions) return td_bad(v, "there is no graph");
    for (uint32_t i = 0; i < ir->nfunctions; i++) {
        const td_ir_function *f = &ir->functions[i];
        const td_ir_block *b = &ir->blocks[i];
        if (f->block != i || b->owner != TD_IR_NONE || b->function != i)
            return td_bad(v, "function %u has the block of another", i);
        if (i == 0 ? f->name != TD_IR_NONE : !td_is_named(v, f->name) || strchr(td_ir_chars(ir, f->name), '.'))
            return td_bad(v, "function %u has no name that it may have", i);
        if (b->nparams > TD_IR_MAX_ENDS || b->nrets > TD_IR_MAX_ENDS)
            return td_too_much(v, "inputs or outputs of a function", TD_IR_MAX_ENDS);
    }
    return true;
}

/* Strings stand for names: no two of the same kind have one. */
static bool names_differ(td_verify *v)
{
    const td_ir *ir = v->ir;
    uint8_t *taken = calloc(1, ir->nstrings + 1);
    if (!taken) return td_starved(v);
    bool good = true;
    for (uint32_t i = 0; good && i < ir->ncaptures; i++)
        if (taken[ir->captures[i].name]++)
            good = td_bad(v, "captured name '%s' is there twice", td_ir_chars(ir, ir->captures[i].name));
    if (ir->nstrings) memset(taken, 0, ir->nstrings);
    for (uint32_t i = 1; good && i < ir->nfunctions; i++)
        if (taken[ir->functions[i].name]++)
            good = td_bad(v, "function '%s' is there twice", td_ir_chars(ir, ir->functions[i].name));
    if (ir->nstrings) memset(taken, 0, ir->nstrings);
    for (uint32_t i = 0; good && i < ir->nvalues; i++) {
        uint32_t name = ir->values[i].name;
        if (name == TD_IR_NONE) continue;
        if (!td_is_named(v, name)) good = td_bad(v, "value %u has no name that it may have", i);
        else if (taken[name]++) good = td_bad(v, "value '%s' is there twice", td_ir_chars(ir, name));
    }
    free(taken);
    return good;
}

bool td_verify_order(td_verify *v)
{
    const td_ir *ir = v->ir;
    runs at = {.block = ir->nfunctions, .value = ir->ncaptures};
    if (!strings(v)) return false;
    for (uint32_t i = 0; i < ir->nsources; i++)
        if (!td_is_text(v, ir->sources[i].file) || ir->strings[ir->sources[i].file].length > TD_IR_FILE)
            return td_bad(v, "source %u has no file, or one of a name that is too long", i);
    if (!captures(v) || !functions(v)) return false;
    for (uint32_t i = 0; i < ir->nblocks; i++) {
        if (i >= at.block) return td_bad(v, "block %u is no node's", i);
        if (!block(v, &at, i)) return false;
    }
    if (at.node != ir->nnodes || at.arg != ir->nargs || at.def != ir->ndefs || at.word != ir->nwords ||
        at.value != ir->nvalues)
        return td_bad(v, "there are nodes, values, arguments or attributes of nobody");
    return names_differ(v);
}
