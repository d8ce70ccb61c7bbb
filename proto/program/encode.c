/* A module as the message Program. */
#include "proto/program/wire.h"

#include "proto/program/prim.h"
#include "proto/wire/wire.pb-c.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct packer {
    const td_ir *ir;
    Td__Wire__Program *m;
    uint16_t prims[TD_PRIM_COUNT], *rows; /* place of an op in the list + 1 */
    bool failed;
} packer;

static uint32_t *numbers(packer *p, size_t n, size_t *count, uint32_t **at)
{
    *at = malloc((n + 1) * sizeof **at);
    *count = *at ? n : 0;
    p->failed |= !*at;
    return *at;
}

/* ---- ops */

static bool add_op(packer *p, uint32_t op, uint32_t hash, const char *name, const char *signature)
{
    size_t n = p->m->n_op_ids++, length = strlen(name) + strlen(signature) + 1;
    p->m->n_op_hashes = p->m->n_op_signatures = p->m->n_op_ids;
    p->m->op_ids[n] = op;
    p->m->op_hashes[n] = hash;
    p->m->op_signatures[n] = malloc(length);
    if (p->m->op_signatures[n]) snprintf(p->m->op_signatures[n], length, "%s%s", name, signature);
    return p->m->op_signatures[n] != NULL;
}

static uint32_t place_of(packer *p, uint32_t op)
{
    uint32_t class = op & TD_IR_CLASS, number = op & TD_IR_NUMBER;
    if (class != TD_IR_PRIM && class != TD_IR_TD) return op;
    uint16_t *place = class == TD_IR_PRIM ? &p->prims[number] : &p->rows[number];
    if (!*place && class == TD_IR_PRIM) {
        const td_prim *prim = td_prim_by_id(number);
        p->failed |= !add_op(p, op, prim->hash, prim->name, prim->signature);
    } else if (!*place) {
        const td_op *row = td_op_by_id(number);
        p->failed |= !add_op(p, class | number, row->hash, row->name, row->signature);
    }
    *place = *place ? *place : (uint16_t)p->m->n_op_ids;
    return (op & ~(uint32_t)TD_IR_NUMBER) | (*place - 1u);
}

static void pack_nodes(packer *p)
{
    uint32_t *w = numbers(p, 8 * (size_t)p->ir->nnodes, &p->m->n_nodes, &p->m->nodes);
    size_t most = TD_PRIM_COUNT + td_op_count;
    p->rows = calloc(td_op_count, sizeof *p->rows);
    p->m->op_signatures = calloc(most, sizeof *p->m->op_signatures);
    p->failed |= !p->rows || !p->m->op_signatures;
    numbers(p, most, &p->m->n_op_ids, &p->m->op_ids);
    numbers(p, most, &p->m->n_op_hashes, &p->m->op_hashes);
    p->m->n_op_ids = p->m->n_op_hashes = 0;
    for (uint32_t i = 0; !p->failed && i < p->ir->nnodes; i++, w += 8) {
        const td_ir_node *n = &p->ir->nodes[i];
        const uint32_t row[] = {place_of(p, n->op), n->nin,        n->nout, n->nwords,
                                n->nblocks,         n->source + 1, n->mode, n->rng + 1};
        memcpy(w, row, sizeof row);
    }
}

/* ---- the rest */

static void pack_strings(packer *p)
{
    uint32_t *w = numbers(p, p->ir->nstrings, &p->m->n_strings, &p->m->strings);
    uint8_t *chars = malloc(p->ir->nchars + 1);
    p->m->chars.data = chars;
    p->failed |= !chars;
    for (uint32_t i = 0; !p->failed && i < p->ir->nstrings; i++) {
        w[i] = p->ir->strings[i].length;
        memcpy(chars + p->m->chars.len, td_ir_chars(p->ir, i), w[i]);
        p->m->chars.len += w[i];
    }
}

static void pack_types(packer *p)
{
    uint32_t *w = numbers(p, 2 * (size_t)p->ir->ntypes, &p->m->n_types, &p->m->types);
    for (uint32_t i = 0; w && i < p->ir->ntypes; i++)
        w[2 * i] = p->ir->types[i].head, w[2 * i + 1] = p->ir->types[i].nparts;
    w = numbers(p, 2 * (size_t)p->ir->nvalues, &p->m->n_values, &p->m->values);
    for (uint32_t i = 0; w && i < p->ir->nvalues; i++)
        w[2 * i] = p->ir->values[i].type, w[2 * i + 1] = p->ir->values[i].name + 1;
}

static void pack_blocks(packer *p)
{
    uint32_t *w = numbers(p, 3 * (size_t)p->ir->nblocks, &p->m->n_blocks, &p->m->blocks);
    for (uint32_t i = 0; w && i < p->ir->nblocks; i++) {
        const td_ir_block *b = &p->ir->blocks[i];
        w[3 * i] = b->nparams;
        w[3 * i + 1] = b->first == TD_IR_NONE ? 0 : b->last - b->first + 1;
        w[3 * i + 2] = b->nrets;
    }
}

static void pack_names(packer *p)
{
    uint32_t *w = numbers(p, p->ir->ncaptures, &p->m->n_captures, &p->m->captures);
    for (uint32_t i = 0; w && i < p->ir->ncaptures; i++) w[i] = p->ir->captures[i].name;
    w = numbers(p, p->ir->nfunctions - 1, &p->m->n_functions, &p->m->functions);
    for (uint32_t i = 1; w && i < p->ir->nfunctions; i++) w[i - 1] = p->ir->functions[i].name;
}

static void pack_plain(packer *p, const void *from, size_t n, size_t *count, uint32_t **at)
{
    if (numbers(p, n, count, at) && n) memcpy(*at, from, n * sizeof **at);
}

void td_ir_message_free(Td__Wire__Program *m)
{
    for (size_t i = 0; i < m->n_op_signatures; i++) free(m->op_signatures[i]);
    free(m->strings), free(m->chars.data), free(m->sources), free(m->types), free(m->parts), free(m->captures);
    free(m->functions), free(m->values), free(m->blocks), free(m->nodes), free(m->args), free(m->words);
    free(m->op_ids), free(m->op_hashes), free(m->op_signatures);
    td__wire__program__init(m);
}

int td_ir_to_message(const td_ir *ir, Td__Wire__Program *m, td_error *e)
{
    packer p = {.ir = ir, .m = m};
    td__wire__program__init(m);
    m->layout = 1;
    pack_strings(&p);
    pack_types(&p);
    pack_names(&p);
    pack_blocks(&p);
    pack_nodes(&p);
    pack_plain(&p, ir->sources, 4 * (size_t)ir->nsources, &m->n_sources, &m->sources);
    pack_plain(&p, ir->parts, ir->nparts, &m->n_parts, &m->parts);
    pack_plain(&p, ir->args, ir->nargs, &m->n_args, &m->args);
    pack_plain(&p, ir->words, ir->nwords, &m->n_words, &m->words);
    free(p.rows);
    if (!p.failed) return 0;
    td_ir_message_free(m);
    return td_no_memory(e, "to write a program of %u nodes", ir->nnodes);
}

uint8_t *td_ir_encode(const td_ir *ir, size_t *length, td_error *e)
{
    Td__Wire__Program m;
    if (td_ir_to_message(ir, &m, e)) return NULL;
    *length = td__wire__program__get_packed_size(&m);
    uint8_t *bytes = malloc(*length + 1);
    if (bytes) td__wire__program__pack(&m, bytes);
    else td_no_memory(e, "to write a program of %u nodes", ir->nnodes);
    td_ir_message_free(&m);
    return bytes;
}
