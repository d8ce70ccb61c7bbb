/* The edit's arrays, tables, strings, sources and functions. Invariant: what an array of the module says it has is
 * there, also after a failure; the first failure stays. */
#include "proto/program/arrays.h"

#include "proto/base/hash.h"
#include <assert.h>
#include <stdlib.h>

/* ---- arrays */

bool td_ir_reserve(td_ir_edit *e, td_ir_array which, size_t n)
{
    const td_ir_layout *l = &td_ir_layouts[which];
    if (n <= e->room[which]) return true;
    if (n > l->most) {
        td_fail(&e->failed, TD_E_QUOTA, "the program is too large: more than %u %s", l->most,
                which == TD_A_CHARS ? "bytes of text" : "items of one kind");
        return false;
    }
    void **at = (void **)((char *)e + l->at), *more = realloc(*at, n * l->item);
    if (!more) {
        td_no_memory(&e->failed, "for a program of %u nodes", e->alive);
        return false;
    }
    *at = more;
    e->room[which] = (uint32_t)n;
    return true;
}

static bool grow(td_ir_edit *e, td_ir_array which, uint32_t need)
{
    uint32_t room = e->room[which] ? e->room[which] : 16, most = td_ir_layouts[which].most;
    if (need <= e->room[which]) return true;
    while (room < need && room < most) room *= 2;
    return td_ir_reserve(e, which, need > most ? need : room);
}

uint32_t td_ir_take(td_ir_edit *e, td_ir_array which, uint32_t n)
{
    const td_ir_layout *l = &td_ir_layouts[which];
    uint32_t *count = (uint32_t *)(void *)((char *)e + l->count), first = *count;
    if (e->failed.code) return TD_IR_NONE;
    if (n > l->most) n = l->most + 1;                                                            /* refused below */
    if ((first + n > e->room[which] || !first) && !grow(e, which, first + n)) return TD_IR_NONE; /* no array is NULL */
    char *at = *(char **)(void *)((char *)e + l->at);
    if (n) memset(at + first * l->item, 0, n * l->item);
    *count = first + n;
    return first;
}

/* ---- tables */

uint32_t td_ir_find(td_ir_edit *e, td_ir_table *t, uint32_t hash, td_ir_same_fn *same, const void *key)
{
    for (uint32_t i = hash; t->size; i++) {
        uint32_t number = t->slots[i & (t->size - 1)];
        if (number == TD_IR_NONE || same(e, number, key)) return number;
    }
    return TD_IR_NONE;
}

static void put(td_ir_table *t, uint32_t hash, uint32_t number)
{
    while (t->slots[hash & (t->size - 1)] != TD_IR_NONE) hash++;
    t->slots[hash & (t->size - 1)] = number;
}

void td_ir_put(td_ir_edit *e, td_ir_table *t, uint32_t hash, uint32_t number, td_ir_hash_fn *hash_of)
{
    if (2 * (t->count + 1) > t->size) {
        td_ir_table more = {.size = t->size ? 2 * t->size : 64};
        more.slots = malloc(more.size * sizeof *more.slots);
        if (!more.slots) {
            td_no_memory(&e->failed, "for a program's table");
            return;
        }
        memset(more.slots, 0xff, more.size * sizeof *more.slots);
        for (uint32_t i = 0; i < t->size; i++)
            if (t->slots[i] != TD_IR_NONE) put(&more, hash_of(e, t->slots[i]), t->slots[i]);
        free(t->slots);
        more.count = t->count;
        *t = more;
    }
    put(t, hash, number);
    t->count++;
}

/* ---- the edit */

void td_ir_edit_free(td_ir_edit *e)
{
    if (!e) return;
    for (int i = 0; i < TD_A_ARRAYS; i++) free(*(void **)((char *)e + td_ir_layouts[i].at));
    free(e->types.slots);
    free(e->strings.slots);
    free(e->sources.slots);
    free(e);
}

const td_ir *td_ir_now(const td_ir_edit *e)
{
    return &e->ir;
}

int td_ir_fail(td_ir_edit *e, const td_error *error)
{
    if (!e->failed.code) e->failed = *error;
    return e->failed.code;
}

int td_ir_failed(const td_ir_edit *e)
{
    return e->failed.code;
}

uint64_t td_ir_changes(const td_ir_edit *e)
{
    return e->changes;
}

uint32_t td_ir_room(const td_ir_edit *e)
{
    return e->max_nodes - e->alive;
}

/* ---- strings and sources */

struct chars {
    const char *at;
    size_t length;
};

static bool same_string(const td_ir_edit *e, uint32_t number, const void *key)
{
    const struct chars *c = key;
    return e->ir.strings[number].length == c->length && !memcmp(td_ir_chars(&e->ir, number), c->at, c->length);
}

static uint32_t hash_string(const td_ir_edit *e, uint32_t number)
{
    return td_hash_keyed(td_ir_chars(&e->ir, number), e->ir.strings[number].length);
}

uint32_t td_ir_known_string(td_ir_edit *e, const char *text, size_t length)
{
    struct chars key = {text, length};
    return td_ir_find(e, &e->strings, td_hash_keyed(text, length), same_string, &key);
}

uint32_t td_ir_string(td_ir_edit *e, const char *text, size_t length)
{
    struct chars key = {text, length};
    uint32_t hash = td_hash_keyed(text, length), found = td_ir_find(e, &e->strings, hash, same_string, &key);
    if (e->failed.code || found != TD_IR_NONE) return found;
    if (length >= TD_IR_MAX_BYTES) length = TD_IR_MAX_BYTES; /* refused as too much */
    uint32_t at = td_ir_take(e, TD_A_CHARS, (uint32_t)length + 1), number = td_ir_take(e, TD_A_STRINGS, 1);
    if (td_ir_stop(e, number)) return TD_IR_NONE;
    if (length) memcpy(e->ir.chars + at, text, length);
    e->ir.strings[number] = (td_ir_text){at, (uint32_t)length};
    td_ir_put(e, &e->strings, hash, number, hash_string);
    return number;
}

static bool same_source(const td_ir_edit *e, uint32_t number, const void *key)
{
    return !memcmp(&e->ir.sources[number], key, sizeof(td_ir_source));
}

static uint32_t hash_source(const td_ir_edit *e, uint32_t number)
{
    return td_hash_keyed(&e->ir.sources[number], sizeof(td_ir_source));
}

uint32_t td_ir_source_new(td_ir_edit *e, const td_ir_source *s)
{
    if (td_ir_stop(e, s->file)) return TD_IR_NONE;
    uint32_t hash = td_hash_keyed(s, sizeof *s), found = td_ir_find(e, &e->sources, hash, same_source, s);
    if (found == TD_IR_NONE && (found = td_ir_take(e, TD_A_SOURCES, 1)) != TD_IR_NONE) {
        e->ir.sources[found] = *s;
        td_ir_put(e, &e->sources, hash, found, hash_source);
    }
    return found;
}

void td_ir_from(td_ir_edit *e, const char *file, uint32_t line, uint32_t column, uint32_t end)
{
    size_t length = file ? strnlen(file, TD_IR_FILE) : 0;
    td_ir_source s = {file ? td_ir_string(e, file, length) : TD_IR_NONE, line, column, end};
    e->source = td_ir_source_new(e, &s);
}

void td_ir_from_node(td_ir_edit *e, uint32_t node)
{
    if (!td_ir_stop(e, node)) e->source = e->ir.nodes[node].source;
}

void td_ir_mode_now(td_ir_edit *e, uint32_t mode)
{
    e->mode = mode;
}

/* ---- functions and captured names */

uint32_t td_ir_function_new(td_ir_edit *e, const char *name)
{
    uint32_t string = name ? td_ir_string(e, name, strlen(name)) : TD_IR_NONE;
    uint32_t number = td_ir_take(e, TD_A_FUNCTIONS, 1);
    if (td_ir_stop(e, number)) return TD_IR_NONE;
    e->ir.functions[number] = (td_ir_function){string, td_ir_block_new(e, TD_IR_NONE, number)};
    e->changes++;
    td_ir_to_end(e, e->ir.functions[number].block);
    return number;
}

uint32_t td_ir_capture_at(td_ir_edit *e, uint32_t type, uint32_t name)
{
    uint32_t number = td_ir_take(e, TD_A_CAPTURES, 1);
    if (td_ir_stop(e, name) || td_ir_stop(e, number)) return TD_IR_NONE;
    uint32_t value = td_ir_value_new(e, type, TD_IR_CAPTURED | number, 0);
    e->ir.captures[number] = (td_ir_capture){name, value};
    e->changes++;
    return value;
}

uint32_t td_ir_capture_new(td_ir_edit *e, uint32_t type, const char *value_name, const char *name)
{
    uint32_t value = td_ir_capture_at(e, type, td_ir_string(e, name, strlen(name)));
    if (value_name) td_ir_name(e, value, value_name);
    return value;
}

void td_ir_capture_name(td_ir_edit *e, uint32_t capture, const char *name)
{
    uint32_t string = td_ir_string(e, name, strlen(name));
    if (!td_ir_stop(e, string)) e->ir.captures[capture].name = string;
}

void td_ir_capture_drop(td_ir_edit *e, uint32_t capture)
{
    if (td_ir_stop(e, capture)) return;
    assert(capture < e->ir.ncaptures && !td_ir_uses(e, e->ir.captures[capture].value));
    e->ir.captures[capture].name = TD_IR_NONE;
    e->changes++;
}

/* ---- the cursor */

void td_ir_to_end(td_ir_edit *e, uint32_t block)
{
    if (td_ir_stop(e, block)) return;
    assert(block < e->ir.nblocks);
    e->block = block;
    e->before = TD_IR_NONE;
}

void td_ir_to_before(td_ir_edit *e, uint32_t node)
{
    if (td_ir_stop(e, node)) return;
    assert(node < e->ir.nnodes && e->ir.nodes[node].block != TD_IR_NONE);
    e->block = e->ir.nodes[node].block;
    e->before = node;
}

uint32_t td_ir_cursor(const td_ir_edit *e)
{
    return e->block;
}
