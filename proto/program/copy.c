/* Copying blocks: a clone within a module, a module into an edit, and an edit into the module that is sealed. All three
 * are one walk over a queue of pairs (block, its copy): first in, first out, so that what a block uses of those around
 * it was copied before, and so that the copy has the order that ir.h promises. */
#include "proto/program/arrays.h"

#include "proto/program/literal.h"
#include <stdio.h>
#include <stdlib.h>

enum { COUNTERS = 1024 };

typedef struct copy {
    td_ir_edit *to;
    const td_ir *from;                            /* may be `to`'s own */
    uint32_t *values, *types, *strings, *sources; /* what became of them: TD_IR_NONE: nothing yet. The last three: NULL
                                                     within one module */
    uint32_t *functions;                          /* what became of their numbers; NULL within one module */
    uint32_t *taken;                              /* beside strings of `to`: names that values have, and the number that
                                                     the next value of that name gets behind it; NULL within one module */
    uint32_t ntaken, numbers[COUNTERS];           /* numbers: the same for what is no string of `to` */
} copy;

static uint32_t value_of(const copy *c, uint32_t value)
{
    uint32_t known = value == TD_IR_NONE ? TD_IR_NONE : c->values[value];
    return known == TD_IR_NONE && !c->types ? value : known;
}

static uint32_t string_of(copy *c, uint32_t string)
{
    if (!c->strings || string == TD_IR_NONE) return string;
    if (c->strings[string] == TD_IR_NONE)
        c->strings[string] = td_ir_string(c->to, td_ir_chars(c->from, string), c->from->strings[string].length);
    return c->strings[string];
}

/* Types are as deep as they are large: TD_TYPE_SIZE at most. */
static uint32_t type_of(copy *c, uint32_t type)
{
    if (!c->types) return type;
    if (c->types[type] != TD_IR_NONE) return c->types[type];
    const td_ir_type *t = &c->from->types[type];
    if (td_type_kind_of(c->from, type) == TD_T_TENSOR) {
        td_tensor_type tensor;
        td_type_as_tensor(c->from, type, &tensor);
        for (int i = 0; i < TD_MAX_DIMS; i++)
            if (tensor.sizes[i] < TD_SIZE_ANY)
                tensor.sizes[i] = td_size_symbol(string_of(c, td_size_string(tensor.sizes[i])));
        return c->types[type] = td_type_tensor(c->to, &tensor);
    }
    uint32_t parts[TD_TYPE_SIZE];
    for (uint32_t i = 0; i < t->nparts; i++) {
        parts[i] = type_of(c, td_type_part(c->from, type, i));
        if (td_ir_stop(c->to, parts[i])) return TD_IR_NONE;
    }
    return c->types[type] = td_type_make(c->to, t->head & TD_TYPE_UNMARKED, t->nparts, parts);
}

static uint32_t source_of(copy *c, uint32_t source)
{
    if (!c->sources || source == TD_IR_NONE) return source;
    if (c->sources[source] == TD_IR_NONE) {
        td_ir_source s = c->from->sources[source];
        s.file = string_of(c, s.file);
        c->sources[source] = td_ir_source_new(c->to, &s);
    }
    return c->sources[source];
}

/* ---- names: a module's values have different ones, once it is sealed */

static uint32_t *taken(copy *c, uint32_t string)
{
    if (string >= c->ntaken) {
        uint32_t n = 2 * string + 64, *more = realloc(c->taken, n * sizeof *more);
        if (!more) {
            if (!c->to->failed.code) td_no_memory(&c->to->failed, "for the names of a program");
            return NULL;
        }
        memset(more + c->ntaken, 0, (n - c->ntaken) * sizeof *more);
        c->taken = more;
        c->ntaken = n;
    }
    return &c->taken[string];
}

/* The next number behind a name; NULL without memory. What is no string of the module does not become one for this, as
 * it may be nobody's name; it may share its numbers with others. */
static uint32_t *number_behind(copy *c, const char *base, size_t n)
{
    uint32_t known = td_ir_known_string(c->to, base, n), h = 2166136261u;
    if (known != TD_IR_NONE) return taken(c, known);
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)base[i]) * 16777619u;
    return &c->numbers[(h ^ h >> 16) % COUNTERS];
}

/* name, name.1, name.2, ...: the first that nobody has. */
static uint32_t other_name(copy *c, uint32_t name)
{
    char text[TD_IR_NAME + 16];
    snprintf(text, sizeof text, "%s", td_ir_chars(&c->to->ir, name));
    char *end = text + strlen(text), *dot = strrchr(text, '.');
    if (dot && dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1)) end = dot;
    size_t base = (size_t)(end - text);
    for (uint32_t *next, *it;;) {
        if (!(next = number_behind(c, text, base))) return TD_IR_NONE;
        if (!*next) *next = 1;
        snprintf(end, 16, ".%u", (*next)++);
        uint32_t string = td_ir_string(c->to, text, strlen(text));
        if (td_ir_stop(c->to, string) || !(it = taken(c, string))) return TD_IR_NONE;
        if (!*it && (*it = 1)) return string;
    }
}

static uint32_t name_of(copy *c, uint32_t old)
{
    uint32_t name = string_of(c, old);
    if (!c->types || td_ir_stop(c->to, name)) return name;
    uint32_t *it = taken(c, name);
    if (!it || *it) return it ? other_name(c, name) : TD_IR_NONE;
    *it = 1;
    return name;
}

/* `value` of the copy is what `old` became. */
static void becomes(copy *c, uint32_t old, uint32_t value)
{
    if (td_ir_stop(c->to, value)) return;
    c->values[old] = value;
    c->to->ir.values[value].name = name_of(c, c->from->values[old].name);
}

static void copy_words(copy *c, const td_ir_node *n, uint32_t node)
{
    uint32_t first = td_ir_take(c->to, TD_A_WORDS, n->nwords);
    if (td_ir_stop(c->to, first)) return;
    memcpy(c->to->ir.words + first, c->from->words + n->word, n->nwords * sizeof(uint32_t));
    for (uint32_t i = 0; i < n->nwords; i += td_literal_words(c->to->ir.words[first + i]))
        if (td_literal_kind_of(c->to->ir.words[first + i]) == TD_L_STR)
            c->to->ir.words[first + i + 1] = string_of(c, c->to->ir.words[first + i + 1]);
    c->to->ir.nodes[node].word = first;
    c->to->ir.nodes[node].nwords = n->nwords;
}

/* A run of args for `user`; what was not copied, because it cannot be seen there, becomes TD_IR_NONE, and the verifier
 * says so. */
static uint32_t copy_args(copy *c, uint32_t old, uint32_t n, uint32_t user)
{
    uint32_t first = td_ir_take(c->to, TD_A_ARGS, n), beside = td_ir_take(c->to, TD_A_USES, n);
    if (td_ir_stop(c->to, beside)) return TD_IR_NONE;
    for (uint32_t i = 0; i < n; i++) td_ir_use_begin(c->to, first + i, value_of(c, c->from->args[old + i]), user);
    return n ? first : 0; /* all empty runs are one */
}

/* Of one that was dropped: a number that no function has. */
static uint32_t function_of(const copy *c, uint32_t op)
{
    return TD_IR_FN | (c->functions[op & TD_IR_NUMBER] & TD_IR_NUMBER);
}

static uint32_t op_of(copy *c, uint32_t op)
{
    switch (op & TD_IR_CLASS) {
    case TD_IR_ATEN: return TD_IR_ATEN | string_of(c, op & TD_IR_NUMBER);
    case TD_IR_FN: return c->functions && (op & TD_IR_NUMBER) < c->from->nfunctions ? function_of(c, op) : op;
    default: return op;
    }
}

static void queue_pair(td_ir_edit *e, uint32_t from, uint32_t to)
{
    uint32_t at = td_ir_take(e, TD_A_QUEUE, 1);
    if (at != TD_IR_NONE) e->queue[at] = (td_ir_pair){from, to};
}

static void copy_node(copy *c, uint32_t old)
{
    const td_ir_node n = c->from->nodes[old];
    td_ir_edit *e = c->to;
    uint32_t node = td_ir_op_with(e, op_of(c, n.op), 0, NULL, n.nblocks);
    uint32_t first = copy_args(c, n.in, n.nin, node);
    for (uint32_t i = 0; i < n.nout; i++) {
        uint32_t out = c->from->defs[n.out + i];
        becomes(c, out, td_ir_out_new(e, node, type_of(c, c->from->values[out].type)));
    }
    if (td_ir_stop(e, node)) return;
    if (n.nwords) copy_words(c, &n, node);
    for (uint32_t i = 0; i < n.nblocks; i++) queue_pair(e, n.child + i, td_ir_child(e, node, i));
    uint32_t source = source_of(c, n.source);
    td_ir_node *made = &e->ir.nodes[node];
    made->in = first;
    made->nin = n.nin;
    made->source = source;
    made->mode = n.mode;
    made->rng = n.rng;
}

static void copy_nodes(copy *c, uint32_t block)
{
    for (uint32_t n = c->from->blocks[block].first; n != TD_IR_NONE && !c->to->failed.code; n = c->from->nodes[n].next)
        copy_node(c, n);
}

static void copy_params(copy *c, td_ir_pair p)
{
    for (uint32_t i = 0; i < c->from->blocks[p.from].nparams; i++) {
        uint32_t old = td_ir_param(c->from, p.from, i);
        becomes(c, old, td_ir_param_new(c->to, p.to, type_of(c, c->from->values[old].type), NULL));
    }
}

static void copy_returns(copy *c, td_ir_pair p)
{
    uint32_t n = c->from->blocks[p.from].nrets;
    uint32_t first = copy_args(c, c->from->blocks[p.from].ret, n, TD_IR_PARAM | p.to);
    if (first == TD_IR_NONE) return;
    c->to->ir.blocks[p.to].ret = first;
    c->to->ir.blocks[p.to].nrets = n;
}

/* What stands in the queue from `at` on, and what comes to it. */
static void copy_queue(copy *c, uint32_t at)
{
    for (; at < c->to->nqueue && !c->to->failed.code; at++) {
        td_ir_pair p = c->to->queue[at];
        copy_params(c, p);
        td_ir_to_end(c->to, p.to);
        copy_nodes(c, p.from);
        copy_returns(c, p);
    }
}

/* ---- within a module */

/* What copying wrote into the map is taken out again, so that a clone costs what it copies. */
static void forget(td_ir_edit *e, uint32_t block)
{
    td_ir_block b = e->ir.blocks[block];
    for (uint32_t i = 0; i < b.nparams; i++) e->map[e->ir.defs[b.param + i]] = TD_IR_NONE;
    for (uint32_t n = b.first; n != TD_IR_NONE; n = e->ir.nodes[n].next)
        for (uint32_t i = 0; i < e->ir.nodes[n].nout; i++) e->map[td_ir_out(&e->ir, n, i)] = TD_IR_NONE;
}

static bool map_all(td_ir_edit *e)
{
    uint32_t have = e->nmap, at = td_ir_take(e, TD_A_MAP, e->ir.nvalues - have);
    if (at != TD_IR_NONE && e->nmap > have) memset(e->map + have, 0xff, (e->nmap - have) * sizeof *e->map);
    return at != TD_IR_NONE;
}

void td_ir_clone(td_ir_edit *e, uint32_t block, const uint32_t *params, uint32_t *returns)
{
    if (td_ir_stop(e, block) || !map_all(e)) return;
    const td_ir_block b = e->ir.blocks[block];
    copy c = {.to = e, .from = &e->ir, .values = e->map};
    uint32_t at_block = e->block, before = e->before, source = e->source, mode = e->mode;
    for (uint32_t i = 0; i < b.nparams; i++) e->map[e->ir.defs[b.param + i]] = params[i];
    e->nqueue = 0;
    queue_pair(e, block, TD_IR_NONE); /* only to be forgotten: its nodes go to the cursor */
    copy_nodes(&c, block);
    for (uint32_t i = 0; i < b.nrets; i++) returns[i] = value_of(&c, e->ir.args[b.ret + i]);
    copy_queue(&c, 1);
    for (uint32_t i = 0; i < e->nqueue; i++) forget(e, e->queue[i].from);
    e->block = at_block, e->before = before, e->source = source, e->mode = mode;
}

/* ---- from module to module */

static uint32_t *unknown(td_ir_edit *e, uint32_t n)
{
    uint32_t *map = malloc((n + 1) * sizeof *map);
    if (map) memset(map, 0xff, (n + 1) * sizeof *map);
    else if (!e->failed.code) td_no_memory(&e->failed, "to copy a program of %u nodes", e->alive);
    return map;
}

/* All that it has, at once: arrays that grew would take twice as much. */
static void make_room(td_ir_edit *e, const td_ir *from)
{
    bool good = td_ir_reserve(e, TD_A_USES, from->nargs) && td_ir_reserve(e, TD_A_USED, from->nvalues);
    for (int i = 0; good && i < TD_A_OF_IR; i++)
        good = td_ir_reserve(e, (td_ir_array)i, *(const uint32_t *)((const char *)from + td_ir_layouts[i].count));
}

static void copy_captures(copy *c)
{
    for (uint32_t i = 0; i < c->from->ncaptures; i++) {
        td_ir_capture old = c->from->captures[i];
        if (old.name == TD_IR_NONE) continue; /* it was dropped */
        uint32_t type = type_of(c, c->from->values[old.value].type);
        becomes(c, old.value, td_ir_capture_at(c->to, type, string_of(c, old.name)));
    }
}

static void copy_functions(copy *c)
{
    for (uint32_t i = 0; i < c->from->nfunctions; i++) {
        if (!td_ir_has_function(c->from, i)) continue;
        uint32_t number = td_ir_function_new(c->to, NULL);
        if (td_ir_stop(c->to, number)) return;
        c->functions[i] = number;
        c->to->ir.functions[number].name = string_of(c, c->from->functions[i].name);
        queue_pair(c->to, c->from->functions[i].block, c->to->ir.functions[number].block);
    }
    copy_queue(c, 0);
}

static copy begin_copy(td_ir_edit *to, const td_ir *from)
{
    return (copy){.to = to,
                  .from = from,
                  .values = unknown(to, from->nvalues),
                  .types = unknown(to, from->ntypes),
                  .strings = unknown(to, from->nstrings),
                  .sources = unknown(to, from->nsources),
                  .functions = unknown(to, from->nfunctions)};
}

static void end_copy(copy *c)
{
    free(c->values), free(c->types), free(c->strings), free(c->sources), free(c->functions), free(c->taken);
    c->to->nqueue = 0;
}

/* NAME for the graph, NAME_THEIRS for the others. */
static void import_function(copy *c, uint32_t k, const char *name)
{
    char text[2 * TD_IR_NAME + 8];
    if (!td_ir_has_function(c->from, k)) return;
    const char *own = k ? td_ir_chars(c->from, c->from->functions[k].name) : "";
    snprintf(text, sizeof text, "%.*s%s%s", TD_IR_NAME, name, k ? "_" : "", own);
    uint32_t number = td_ir_function_new(c->to, text);
    if (td_ir_stop(c->to, number)) return;
    c->functions[k] = number;
    queue_pair(c->to, c->from->functions[k].block, c->to->ir.functions[number].block);
}

uint32_t td_ir_import(td_ir_edit *e, const td_ir *from, const char *name, const uint32_t *captured)
{
    if (e->failed.code) return TD_IR_NONE;
    copy c = begin_copy(e, from);
    uint32_t at_block = e->block, before = e->before, source = e->source, mode = e->mode, graph = TD_IR_NONE;
    e->nqueue = 0;
    for (uint32_t k = 0; !e->failed.code && k < from->ncaptures; k++) c.values[from->captures[k].value] = captured[k];
    for (uint32_t k = 0; !e->failed.code && k < from->nfunctions; k++) import_function(&c, k, name);
    copy_queue(&c, 0);
    if (!e->failed.code) graph = c.functions[0];
    end_copy(&c);
    e->block = at_block, e->before = before, e->source = source, e->mode = mode;
    return graph;
}

static void copy_module(td_ir_edit *to, const td_ir *from)
{
    copy c = begin_copy(to, from);
    if (!to->failed.code) make_room(to, from);
    if (!to->failed.code) {
        copy_captures(&c);
        copy_functions(&c);
    }
    end_copy(&c);
    td_ir_from(to, NULL, 0, 0, 0);
    td_ir_mode_now(to, 0);
    if (to->ir.nfunctions) td_ir_to_end(to, to->ir.functions[0].block);
}

td_ir_edit *td_ir_edit_new(const td_ir *from, uint32_t max_nodes, td_error *error)
{
    td_ir_edit *e = calloc(1, sizeof *e);
    if (!e) {
        td_no_memory(error, "for a program");
        return NULL;
    }
    e->max_nodes = max_nodes;
    e->block = e->before = e->source = TD_IR_NONE;
    if (from) copy_module(e, from);
    if (!e->failed.code) return e;
    if (error) *error = e->failed;
    td_ir_edit_free(e);
    return NULL;
}

/* Arrays that have only what they need. */
static td_ir *without_room(td_ir_edit *e)
{
    td_ir *ir = malloc(sizeof *ir);
    if (!ir) return NULL;
    for (int i = 0; i < TD_A_OF_IR; i++) {
        const td_ir_layout *l = &td_ir_layouts[i];
        void **at = (void **)((char *)e + l->at);
        uint32_t n = *(uint32_t *)(void *)((char *)e + l->count);
        void *less = realloc(*at, (n ? n : 1) * l->item); /* none is NULL */
        if (less) *at = less;
    }
    memcpy(ir, &e->ir, sizeof *ir);
    atomic_init(&ir->refs, 1);
    memset(&e->ir, 0, sizeof e->ir);
    return ir;
}

td_ir *td_ir_seal(td_ir_edit *e, td_error *error)
{
    td_error failed = e->failed;
    td_ir_edit *to = failed.code ? NULL : td_ir_edit_new(&e->ir, UINT32_MAX, &failed);
    td_ir *ir = to ? without_room(to) : NULL;
    if (to && !ir) td_no_memory(&failed, "for a program");
    td_ir_edit_free(to);
    td_ir_edit_free(e);
    if (!ir && error) *error = failed;
    return ir;
}
