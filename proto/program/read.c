/* A text as a module: one function for each line of the grammar (README.md). */
#include "proto/program/arrays.h"

#include "proto/program/lex.h"
#include "proto/program/text.h"
#include <stdio.h>
#include <stdlib.h>

static bool read_body(td_ir_reader *r, uint32_t block, bool whole);

static bool read_blocks(td_ir_reader *r, uint32_t node)
{
    uint32_t n = r->e->ir.nodes[node].nblocks, around = td_ir_cursor(r->e);
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "block%u", i);
        if (!td_ir_at_name(r, name)) return td_ir_read_fail(r, r->start, "%s is expected here", name);
        td_ir_next(r);
        uint32_t block = td_ir_child(r->e, node, i);
        td_ir_to_end(r->e, block);
        if (!td_ir_read_params(r, block) || !td_ir_end_line(r) || !read_body(r, block, false)) return false;
    }
    td_ir_to_end(r->e, around);
    return true;
}

/* Nodes up to "return" or "->". Counts how deep it is: at most TD_IR_MAX_NEST. */
static bool read_body(td_ir_reader *r, uint32_t block, bool whole)
{
    if (r->depth >= TD_IR_MAX_NEST)
        return td_ir_read_fail(r, r->start, "blocks lie too deep in each other: more than %d", TD_IR_MAX_NEST);
    r->depth++;
    while (!(whole ? td_ir_at_name(r, "return") : r->token == TD_TOK_ARROW)) {
        if (r->token == TD_TOK_END)
            return td_ir_read_fail(r, r->start, "the text ends before '%s'", whole ? "return" : "->");
        uint32_t node = td_ir_read_line(r);
        if (node == TD_IR_NONE || !read_blocks(r, node)) return false;
    }
    td_ir_next(r);
    if (!td_ir_read_uses(r) || !td_ir_end_line(r)) return false;
    td_ir_returns(r->e, block, r->args.n, r->args.at);
    r->depth--;
    return true;
}

static bool read_capture(td_ir_reader *r)
{
    size_t n;
    td_ir_next(r);
    if (!td_ir_read_typed(r)) return false;
    if (r->values.n != 1) return td_ir_read_fail(r, r->start, "one value is expected here");
    size_t at = r->values.at[0];
    const char *name = r->text + at;
    n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    if (td_ir_at_sign(r, '=')) {
        td_ir_next(r);
        if (r->token != TD_TOK_STRING) return td_ir_read_fail(r, r->start, "a text in quotes is expected here");
        if (!td_ir_unquote(r, &n)) return false;
        name = r->buffer;
        td_ir_next(r);
    }
    char *copy = td_ir_copied(name, n);
    uint32_t value = copy ? td_ir_capture_new(r->e, r->types.at[0], NULL, copy) : TD_IR_NONE;
    if (!copy) td_no_memory(r->error, "to read a program");
    free(copy);
    return td_ir_define(r, at, value, TD_EVERYWHERE) && td_ir_end_line(r);
}

static bool read_function(td_ir_reader *r, bool graph)
{
    char name[TD_IR_NAME + 1] = "";
    td_ir_next(r);
    if (!graph) {
        size_t n = r->end - r->start;
        if (r->token != TD_TOK_NAME || n > TD_IR_NAME)
            return td_ir_read_fail(r, r->start, "the name of a function is expected here");
        memcpy(name, r->text + r->start, n);
        name[n] = 0;
        td_ir_next(r);
    }
    r->function = td_ir_function_new(r->e, graph ? NULL : name);
    uint32_t block = td_ir_cursor(r->e);
    return !td_ir_failed(r->e) && td_ir_read_params(r, block) && td_ir_end_line(r) && read_body(r, block, true);
}

static bool read_module(td_ir_reader *r)
{
    td_ir_next(r);
    if (r->token == TD_TOK_LINE) td_ir_next(r);
    while (td_ir_at_name(r, "captured"))
        if (!read_capture(r)) return false;
    if (!td_ir_at_name(r, "graph")) return td_ir_read_fail(r, r->start, "'captured' or 'graph' is expected here");
    for (bool graph = true; graph || td_ir_at_name(r, "fn"); graph = false)
        if (!read_function(r, graph)) return false;
    return r->token == TD_TOK_END || td_ir_read_fail(r, r->start, "'fn' or the end is expected here");
}

/* ---- calls, once all functions are known */

static bool find_calls(td_ir_reader *r)
{
    uint32_t *by_name = malloc((r->e->ir.nstrings + 1) * sizeof *by_name);
    if (!by_name) return td_no_memory(r->error, "to read a program"), false;
    memset(by_name, 0xff, (r->e->ir.nstrings + 1) * sizeof *by_name);
    uint32_t most = r->e->ir.nstrings;
    for (uint32_t i = 1; i < r->e->ir.nfunctions; i++) by_name[r->e->ir.functions[i].name] = i;
    for (uint32_t i = 0; i < r->calls.n && !r->error->code; i += 2) {
        r->end = r->start = r->calls.at[i + 1];
        td_ir_next(r);
        uint32_t name = td_ir_string(r->e, r->text + r->start, r->end - r->start);
        uint32_t function = name < most ? by_name[name] : TD_IR_NONE;
        if (function == TD_IR_NONE) td_ir_read_fail(r, r->start, "there is no such function");
        else r->e->ir.nodes[r->calls.at[i]].op = TD_IR_FN | function;
    }
    free(by_name);
    return !r->error->code;
}

static void free_lists(td_ir_reader *r)
{
    td_ir_numbers *lists[] = {&r->values, &r->types, &r->words, &r->calls, &r->args};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]->at);
    free(r->named);
    free(r->buffer);
}

/* Of a text that ends with a 0. */
static td_ir *read_all(const char *text, size_t length, td_error *error)
{
    td_ir_reader r = {.text = text, .length = length, .error = error};
    td_ir *ir = NULL;
    r.e = td_ir_edit_new(NULL, TD_IR_MAX_NODES, error);
    bool good = r.e && read_module(&r) && find_calls(&r);
    if (r.e && (good || !error->code)) ir = td_ir_seal(r.e, error); /* which says what failed */
    else td_ir_edit_free(r.e);
    free_lists(&r);
    return ir;
}

td_ir *td_ir_read(const char *text, size_t length, td_error *error)
{
    td_error own = {0};
    char *copy = length <= TD_IR_TEXT ? td_ir_copied(text, length) : NULL;
    if (copy && strlen(copy) < length)
        td_fail(&own, TD_E_INVALID, "there is a 0 in the text, at byte %zu", strlen(copy));
    else if (length > TD_IR_TEXT) td_fail(&own, TD_E_QUOTA, "the text is too long: more than %d bytes", TD_IR_TEXT);
    else if (!copy) td_no_memory(&own, "to read a program");
    td_ir *ir = own.code ? NULL : read_all(copy, length, &own);
    free(copy);
    if (!ir && error) *error = own;
    return ir;
}
