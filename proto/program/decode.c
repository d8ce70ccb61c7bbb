/* The message Program as a module. Every number is looked at before it is used; what they say together is for the
 * verifier, which comes last. */
#include "proto/base/arena.h"
#include "proto/program/arrays.h"
#include "proto/program/literal.h"
#include "proto/program/prim.h"
#include "proto/program/upgrade.h"
#include "proto/program/verify.h"
#include "proto/program/wire.h"
#include "proto/wire/wire.pb-c.h"
#include <stdlib.h>

typedef struct unpacker {
    const Td__Wire__Program *m;
    td_ir_edit *e;
    td_error *error;
    uint32_t *strings, *sources, *types, *values; /* what became of them */
    td_upgrade *ops;
    uint32_t nvalues;
    size_t node, block, arg, word, value; /* what comes next of each */
} unpacker;

static bool bad(unpacker *u, const char *what)
{
    if (!u->error->code) td_fail(u->error, TD_E_PROTOCOL, "these bytes are no program: %s", what);
    return false;
}

static uint32_t *map_of(unpacker *u, size_t n)
{
    uint32_t *map = malloc((n + 1) * sizeof *map);
    if (!map && !u->error->code) td_no_memory(u->error, "to read a program");
    return map;
}

/* A number that is one more, or 0 for none. */
static bool mapped(const uint32_t *map, size_t n, uint32_t plus, uint32_t *out)
{
    *out = TD_IR_NONE;
    if (plus && plus - 1 >= n) return false;
    if (plus) *out = map[plus - 1];
    return true;
}

/* ---- strings, sources, types */

static bool read_strings(unpacker *u)
{
    const Td__Wire__Program *m = u->m;
    size_t at = 0;
    if (!(u->strings = map_of(u, m->n_strings)) || !(u->sources = map_of(u, m->n_sources / 4))) return false;
    for (size_t i = 0; i < m->n_strings; at += m->strings[i++]) {
        if (m->strings[i] > m->chars.len - at) return bad(u, "a string is longer than its text");
        u->strings[i] = td_ir_string(u->e, m->chars.len ? (const char *)m->chars.data + at : "", m->strings[i]);
    }
    for (size_t i = 0; i < m->n_sources / 4; i++) {
        const uint32_t *w = m->sources + 4 * i;
        if (w[0] >= m->n_strings) return bad(u, "a source has no file");
        td_ir_source s = {u->strings[w[0]], w[1], w[2], w[3]};
        u->sources[i] = td_ir_source_new(u->e, &s);
    }
    return true;
}

static bool read_tensor(unpacker *u, uint32_t head, const uint32_t *parts, uint32_t n, uint32_t *type)
{
    td_tensor_type t = {.dtype = head >> 8 & 255,
                        .device = head >> 16 & 255,
                        .grad = (uint8_t)((head >> 24 & 3) - 1),
                        .rank = (uint8_t)((head >> 28) - 1)};
    uint32_t rank = t.rank == TD_TYPE_ANY ? 0 : t.rank;
    if (rank > TD_MAX_DIMS || n != 2 * rank) return bad(u, "a type is malformed");
    for (uint32_t i = 0; i < rank; i++) {
        t.sizes[i] = (int64_t)(parts[2 * i] | (uint64_t)parts[2 * i + 1] << 32);
        if (t.sizes[i] >= TD_SIZE_ANY) continue;
        uint64_t string = (uint64_t)(-2 - t.sizes[i]);
        if (string >= u->m->n_strings) return bad(u, "a size has no name");
        t.sizes[i] = td_size_symbol(u->strings[string]);
    }
    *type = td_ir_failed(u->e) ? TD_IR_NONE : td_type_tensor(u->e, &t);
    return true;
}

static bool read_type(unpacker *u, size_t i, const uint32_t *parts, uint32_t n)
{
    uint32_t of[TD_TYPE_SIZE], kind = u->m->types[2 * i] & 255;
    if (kind == TD_T_TENSOR) return read_tensor(u, u->m->types[2 * i], parts, n, &u->types[i]);
    uint32_t wanted = kind < TD_T_TENSOR ? 0 : kind == TD_T_DICT ? 2 : 1;
    if (kind >= TD_T_KINDS || n >= TD_TYPE_SIZE || (kind != TD_T_TUPLE && n != wanted))
        return bad(u, "a type is malformed");
    for (uint32_t k = 0; k < n; k++) {
        if (parts[k] >= i) return bad(u, "a type is made of a later one");
        of[k] = u->types[parts[k]];
    }
    switch (kind) {
    case TD_T_OPTIONAL: u->types[i] = td_type_optional(u->e, of[0]); break;
    case TD_T_LIST: u->types[i] = td_type_list(u->e, of[0]); break;
    case TD_T_TUPLE: u->types[i] = td_type_tuple(u->e, n, of); break;
    case TD_T_DICT: u->types[i] = td_type_dict(u->e, of[0], of[1]); break;
    default: u->types[i] = td_type_plain(u->e, (td_type_kind)kind);
    }
    return true;
}

static bool read_types(unpacker *u)
{
    const Td__Wire__Program *m = u->m;
    size_t at = 0, n = m->n_types / 2;
    if (!(u->types = map_of(u, n))) return false;
    for (size_t i = 0; i < n; at += m->types[2 * i++ + 1])
        if (m->types[2 * i + 1] > m->n_parts - at ||
            !read_type(u, i, m->n_parts ? m->parts + at : NULL, m->types[2 * i + 1]))
            return bad(u, "a type has no parts");
    return at == m->n_parts || bad(u, "there are parts of no type");
}

/* ---- ops */

static bool read_op(unpacker *u, size_t i)
{
    uint32_t class = u->m->op_ids[i] & ~(uint32_t)TD_IR_NUMBER, number = u->m->op_ids[i] & TD_IR_NUMBER;
    const char *signature = u->m->op_signatures[i];
    if (class == TD_IR_PRIM) {
        const td_prim *p = td_prim_by_id(number);
        if (p && p->hash == u->m->op_hashes[i]) return true;
        td_fail(u->error, TD_E_UNSUPPORTED,
                "the program uses prim::%.200s, which is not here: make it anew with this release", signature);
        return false;
    }
    const td_op *op = class == TD_IR_TD ? td_op_by_id(number) : NULL;
    if (class != TD_IR_TD) return bad(u, "an op is of no class that has a list");
    if (!op) td_fail(u->error, TD_E_UNSUPPORTED, "the program uses td::%.200s, which is not here", signature);
    else if (op->hash != u->m->op_hashes[i]) td_upgrade_plan(&u->ops[i], op, signature, u->error);
    return !u->error->code;
}

static bool read_ops(unpacker *u)
{
    size_t n = u->m->n_op_ids;
    if (n > TD_PRIM_COUNT + td_op_count || u->m->n_op_hashes != n || u->m->n_op_signatures != n)
        return bad(u, "its ops are no list");
    u->ops = calloc(n + 1, sizeof *u->ops);
    if (!u->ops) return td_no_memory(u->error, "to read a program"), false;
    for (size_t i = 0; i < n; i++)
        if (!read_op(u, i)) return false;
    return true;
}

/* The op of a node; *upgrade: its arguments change. */
static bool op_of(unpacker *u, uint32_t op, uint32_t *out, const td_upgrade **upgrade)
{
    uint32_t class = op & TD_IR_CLASS, number = op & TD_IR_NUMBER;
    *upgrade = NULL;
    *out = op;
    if (class == TD_IR_ATEN)
        return mapped(u->strings, u->m->n_strings, number + 1, &number) &&
               (*out = (op & ~(uint32_t)TD_IR_NUMBER) | number, true);
    if (class == TD_IR_FN) return true;
    if (number >= u->m->n_op_ids) return false;
    if (u->ops[number].needed) *upgrade = &u->ops[number];
    *out = (op & ~(uint32_t)TD_IR_NUMBER) | (u->m->op_ids[number] & TD_IR_NUMBER);
    return (u->m->op_ids[number] & TD_IR_CLASS) == class;
}

/* ---- values */

/* The next value of the message became `value`. */
static bool named(unpacker *u, uint32_t value)
{
    uint32_t name;
    if (!mapped(u->strings, u->m->n_strings, u->m->values[2 * u->value + 1], &name))
        return bad(u, "a value has no name");
    u->values[u->value++] = value;
    if (td_ir_stop(u->e, value) || name == TD_IR_NONE) return true;
    if (!td_ir_is_name(td_ir_chars(&u->e->ir, name), u->e->ir.strings[name].length))
        return bad(u, "a value has no name that it may have");
    u->e->ir.values[value].name = name;
    return true;
}

/* Of the next value. */
static bool type_of(unpacker *u, uint32_t *type)
{
    if (u->value >= u->nvalues) return bad(u, "there are not as many values as are defined");
    uint32_t number = u->m->values[2 * u->value];
    if (number >= u->m->n_types / 2) return bad(u, "a value has no type");
    *type = u->types[number];
    return true;
}

/* Values that are used, as values of the edit. Freed by the caller. */
static uint32_t *args_of(unpacker *u, uint32_t n)
{
    if (n > u->m->n_args - u->arg) return bad(u, "there are not as many arguments as are used"), NULL;
    uint32_t *args = map_of(u, n);
    for (uint32_t i = 0; args && i < n; i++) {
        uint32_t value = u->m->args[u->arg++];
        if (value >= u->value) {
            bad(u, "a value is used before it is defined");
            free(args);
            return NULL;
        }
        args[i] = u->values[value];
    }
    return args;
}

/* ---- nodes and blocks */

static bool words_of(unpacker *u, uint32_t node, uint32_t n)
{
    if (n > u->m->n_words - u->word) return bad(u, "there are not as many words as are used");
    if (n) td_ir_words(u->e, node, u->m->words + u->word, n);
    u->word += n;
    if (!n || td_ir_stop(u->e, node)) return true;
    uint32_t *w = u->e->ir.words + u->e->ir.nodes[node].word;
    for (uint32_t i = 0; i < n; i += td_literal_words(w[i])) {
        if (td_literal_kind_of(w[i]) != TD_L_STR) continue;
        if (i + 1 == n || w[i + 1] >= u->m->n_strings) return bad(u, "a literal has no text");
        w[i + 1] = u->strings[w[i + 1]];
    }
    return true;
}

static uint32_t call(unpacker *u, uint32_t op, const td_upgrade *upgrade, uint32_t nin, uint32_t nblocks)
{
    uint32_t now[TD_MAX_ARGUMENTS + 1], node = TD_IR_NONE, *args = args_of(u, nin);
    if (!args) return TD_IR_NONE;
    uint32_t beside = upgrade && op & TD_IR_INPLACE && nin == upgrade->nold + 1u; /* td_ir_writes_beside */
    if (upgrade && upgrade->nold + beside != nin) bad(u, "an op has not the arguments of its signature");
    else if (upgrade) {
        if (beside) now[0] = args[0];
        td_upgrade_call(upgrade, u->e, args + beside, now + beside);
        node = td_ir_op_with(u->e, op, upgrade->n + beside, now, nblocks);
    } else node = td_ir_op_with(u->e, op, nin, args, nblocks);
    free(args);
    return node;
}

static bool read_node(unpacker *u)
{
    const uint32_t *w = u->m->nodes + 8 * u->node++;
    const td_upgrade *upgrade;
    uint32_t op, source, type;
    if (!op_of(u, w[0], &op, &upgrade)) return bad(u, "a node has no op");
    if (w[4] > 2) return bad(u, "a node has more than two blocks");
    if (!mapped(u->sources, u->m->n_sources / 4, w[5], &source)) return bad(u, "a node has no source");
    u->e->source = source; /* also of what an upgrade adds */
    uint32_t node = call(u, op, upgrade, w[1], w[4]);
    if (u->error->code || td_ir_failed(u->e)) return false;
    u->e->ir.nodes[node].mode = w[6];
    u->e->ir.nodes[node].rng = w[7] - 1;
    for (uint32_t i = 0; i < w[2]; i++)
        if (!type_of(u, &type) || !named(u, td_ir_out_new(u->e, node, type))) return false;
    return words_of(u, node, w[3]);
}

static bool read_block(unpacker *u)
{
    const uint32_t *w = u->m->blocks + 3 * u->block;
    uint32_t block = (uint32_t)u->block++, type;
    if (block >= u->e->ir.nblocks) return bad(u, "a block is no node's");
    td_ir_to_end(u->e, block);
    for (uint32_t i = 0; i < w[0]; i++)
        if (!type_of(u, &type) || !named(u, td_ir_param_new(u->e, block, type, NULL))) return false;
    if (w[1] > u->m->n_nodes / 8 - u->node) return bad(u, "there are not as many nodes as blocks have");
    for (uint32_t i = 0; i < w[1]; i++)
        if (!read_node(u)) return false;
    uint32_t *args = args_of(u, w[2]);
    if (!args) return false;
    td_ir_returns(u->e, block, w[2], args);
    free(args);
    return !td_ir_failed(u->e);
}

static bool read_captures(unpacker *u)
{
    uint32_t name, type;
    for (size_t i = 0; i < u->m->n_captures; i++) {
        if (!type_of(u, &type) || !mapped(u->strings, u->m->n_strings, u->m->captures[i] + 1, &name) ||
            u->m->captures[i] == UINT32_MAX)
            return bad(u, "what is captured has no name");
        uint32_t value = td_ir_capture_at(u->e, type, name);
        if (td_ir_failed(u->e) || !named(u, value)) return false;
    }
    return true;
}

static bool read_functions(unpacker *u)
{
    for (size_t i = 0; i <= u->m->n_functions; i++) {
        uint32_t name = TD_IR_NONE;
        if (i && (u->m->functions[i - 1] == UINT32_MAX ||
                  !mapped(u->strings, u->m->n_strings, u->m->functions[i - 1] + 1, &name)))
            return bad(u, "a function has no name");
        uint32_t number = td_ir_function_new(u->e, NULL);
        if (td_ir_failed(u->e)) return false;
        u->e->ir.functions[number].name = name;
    }
    return true;
}

/* For all that it says it has, or it is refused before anything of it is made. */
static bool make_room(unpacker *u)
{
    const Td__Wire__Program *m = u->m;
    const struct {
        td_ir_array which;
        size_t n;
    } rooms[] = {{TD_A_STRINGS, m->n_strings},
                 {TD_A_CHARS, m->chars.len + m->n_strings}, /* each has a 0 behind it */
                 {TD_A_SOURCES, m->n_sources / 4},
                 {TD_A_TYPES, m->n_types / 2},
                 {TD_A_PARTS, m->n_parts},
                 {TD_A_CAPTURES, m->n_captures},
                 {TD_A_FUNCTIONS, m->n_functions + 1},
                 {TD_A_BLOCKS, m->n_blocks / 3},
                 {TD_A_VALUES, m->n_values / 2},
                 {TD_A_USED, m->n_values / 2},
                 {TD_A_DEFS, m->n_values / 2},
                 {TD_A_ARGS, m->n_args},
                 {TD_A_USES, m->n_args},
                 {TD_A_WORDS, m->n_words},
                 {TD_A_NODES, m->n_nodes / 8}};
    if (m->n_nodes / 8 > u->e->max_nodes)
        return td_fail(u->error, TD_E_QUOTA, "the program is too large: more than %u nodes", u->e->max_nodes), false;
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        if (!td_ir_reserve(u->e, rooms[i].which, rooms[i].n)) return false;
    return true;
}

static bool read_program(unpacker *u)
{
    const Td__Wire__Program *m = u->m;
    if (m->layout != 1) return bad(u, "its layout is of another release");
    if (m->n_values % 2 || m->n_blocks % 3 || m->n_nodes % 8 || m->n_sources % 4 || m->n_types % 2)
        return bad(u, "its arrays are cut");
    if (!make_room(u) || !(u->values = map_of(u, m->n_values / 2))) return false;
    u->nvalues = (uint32_t)(m->n_values / 2);
    if (!read_strings(u) || !read_types(u) || !read_ops(u) || !read_captures(u) || !read_functions(u)) return false;
    while (u->block < m->n_blocks / 3)
        if (!read_block(u)) return false;
    if (u->e->ir.nblocks != m->n_blocks / 3 || u->node != m->n_nodes / 8 || u->arg != m->n_args ||
        u->word != m->n_words || u->value != u->nvalues)
        return bad(u, "there is more in it than blocks have");
    return true;
}

td_ir *td_ir_from_message(const Td__Wire__Program *m, unsigned flags, td_error *error)
{
    td_error own = {0};
    unpacker u = {.m = m, .error = &own};
    td_ir *ir = NULL;
    u.e = td_ir_edit_new(NULL, flags & TD_VERIFY_GROWN ? TD_IR_MAX_GROWN : TD_IR_MAX_NODES, &own);
    bool good = u.e && read_program(&u);
    if (u.e && (good || !own.code)) ir = td_ir_seal(u.e, &own); /* which says what failed */
    else td_ir_edit_free(u.e);
    free(u.strings), free(u.sources), free(u.types), free(u.values), free(u.ops);
    if (ir && td_ir_verify(ir, flags, &own)) td_ir_unref(ir), ir = NULL;
    if (!ir && error) *error = own;
    return ir;
}

uint64_t td_ir_unpack_takes(size_t length)
{
    enum { ALWAYS = 1 << 16, EACH = 16 /* four for the message, the rest for two edits of it */ };
    return ALWAYS + (uint64_t)EACH * length;
}

td_ir *td_ir_decode(const uint8_t *bytes, size_t length, unsigned flags, td_error *error)
{
    td_arena arena;
    td_ir *ir = NULL;
    td_arena_init(&arena, 4 * length + (1 << 16));
    Td__Wire__Program *m = td__wire__program__unpack(&arena.allocator, length, bytes);
    if (m) ir = td_ir_from_message(m, flags, error);
    else if (arena.starved) td_no_memory(error, "to read a program");
    else td_fail(error, TD_E_PROTOCOL, "these bytes are no program");
    td_arena_deinit(&arena);
    return ir;
}
