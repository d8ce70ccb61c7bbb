/* Programs: a module that is shared by its runs, and what is worked out of it once: the last use of every value. */
#include "daemon/graph/program.h"
#include "daemon/graph/plan_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- last uses */

static uint32_t block_of(const td_ir *ir, uint32_t value)
{
    uint32_t def = ir->values[value].def;
    if ((def & TD_IR_CAPTURED) == TD_IR_CAPTURED) return TD_IR_NONE;
    return def & TD_IR_PARAM ? def & ~TD_IR_PARAM : ir->nodes[def].block;
}

/* `node`, or the one in `block` that it lies in. */
static uint32_t climb(const td_ir *ir, uint32_t node, uint32_t block)
{
    while (ir->nodes[node].block != block) node = ir->blocks[ir->nodes[node].block].owner;
    return node;
}

/* Places in td_program_facts.from; a block's return comes after all nodes. */
static void used_by_node(const td_ir *ir, uint32_t *last, uint32_t value, uint32_t node)
{
    uint32_t block = block_of(ir, value);
    if (block == TD_IR_NONE) return;
    uint32_t at = climb(ir, node, block);
    if (last[value] == TD_IR_NONE || at > last[value]) last[value] = at;
}

static void used_by_return(const td_ir *ir, uint32_t *last, uint32_t value, uint32_t block)
{
    if (block_of(ir, value) == block) last[value] = ir->nnodes + block;
    else used_by_node(ir, last, value, ir->blocks[block].owner);
}

/* What nobody uses dies where it is made; a parameter, with its block. */
static uint32_t unused(const td_ir *ir, uint32_t value)
{
    uint32_t def = ir->values[value].def;
    if ((def & TD_IR_CAPTURED) == TD_IR_CAPTURED) return TD_IR_NONE;
    return def & TD_IR_PARAM ? ir->nnodes + (def & ~TD_IR_PARAM) : def;
}

static void last_uses(const td_ir *ir, uint32_t *last)
{
    memset(last, 0xff, ir->nvalues * sizeof *last);
    for (uint32_t n = 0; n < ir->nnodes; n++)
        for (uint32_t k = 0; k < ir->nodes[n].nin; k++) used_by_node(ir, last, td_ir_in(ir, n, k), n);
    for (uint32_t b = 0; b < ir->nblocks; b++)
        for (uint32_t k = 0; k < ir->blocks[b].nrets; k++) used_by_return(ir, last, td_ir_return(ir, b, k), b);
    for (uint32_t v = 0; v < ir->nvalues; v++)
        if (last[v] == TD_IR_NONE) last[v] = unused(ir, v);
}

/* By counting: from[k] is at first how many die at k, then where they end, in the end where they begin. */
static void sort_deaths(td_program_facts *f, const uint32_t *last)
{
    const td_ir *ir = f->ir;
    uint32_t places = ir->nnodes + ir->nblocks, sum = 0;
    for (uint32_t v = 0; v < ir->nvalues; v++)
        if (last[v] != TD_IR_NONE) f->from[last[v]]++;
    for (uint32_t k = 0; k < places; k++) f->from[k] = sum += f->from[k];
    f->from[places] = sum;
    for (uint32_t v = ir->nvalues; v-- > 0;)
        if (last[v] != TD_IR_NONE) f->dead[--f->from[last[v]]] = v;
}

static bool find_deaths(td_program_facts *f)
{
    const td_ir *ir = f->ir;
    uint32_t *last = malloc((ir->nvalues + 1) * sizeof *last);
    f->from = calloc(ir->nnodes + ir->nblocks + 1, sizeof *f->from);
    f->dead = malloc((ir->nvalues + 1) * sizeof *f->dead);
    bool good = last && f->from && f->dead;
    if (good) last_uses(ir, last), sort_deaths(f, last);
    free(last);
    return good;
}

/* ---- */

static uint64_t bytes_of(const td_ir *ir)
{
    uint64_t numbers = (uint64_t)ir->nnodes + ir->nblocks + ir->nvalues,
             pointers = 2 * (uint64_t)ir->nnodes + ir->ncaptures;
    return sizeof(td_held_program) + td_ir_bytes(ir) + ir->nnodes * (1 + sizeof(td_quick)) +
           numbers * sizeof(uint32_t) + pointers * sizeof(void *);
}

/* Which function does each node: all that this interpreter cannot do is known before a run. */
static int find_prims(td_program_facts *f, td_error *e)
{
    const td_ir *ir = f->ir;
    f->prims = calloc(ir->nnodes + 1, sizeof(td_prim_fn *));
    f->quick = malloc((ir->nnodes + 1) * sizeof *f->quick);
    if (!f->prims || !f->quick) return td_no_memory(e, "for a program of %u nodes", ir->nnodes);
    for (uint32_t n = 0; n < ir->nnodes; n++) {
        uint32_t op = ir->nodes[n].op, prim = op & TD_IR_NUMBER;
        if ((op & TD_IR_CLASS) == TD_IR_ATEN)
            return td_fail(e, TD_E_UNSUPPORTED, "aten::%.60s is to be lowered to an op of tensord before it is run",
                           td_ir_chars(ir, prim));
        const td_op *row = td_ir_row(op);
        if (row && row->compose && op & TD_IR_INPLACE)
            return td_fail(e, TD_E_UNSUPPORTED, "%s_ cannot be run: it is made of other ops", row->name);
        if ((op & TD_IR_CLASS) != TD_IR_PRIM || prim == TD_PRIM_IF || prim == TD_PRIM_LOOP) continue;
        f->prims[n] = td_prim_function(prim);
        f->accumulates |= prim == TD_PRIM_BACKWARD;
        if (!f->prims[n]) return td_fail(e, TD_E_UNSUPPORTED, "prim::%s cannot be run yet", td_prim_by_id(prim)->name);
    }
    td_quick_find(ir, f->quick);
    return TD_OK;
}

static void free_facts(td_program_facts *f)
{
    if (!f) return;
    free(f->from);
    free(f->dead);
    free(f->prims);
    free(f->quick);
    free(f->packed);
    free(f);
}

/* Takes the module over when it succeeds. */
static int find_facts(td_program_facts **out, td_ir *ir, td_error *e)
{
    td_program_facts *f = calloc(1, sizeof *f);
    if (!f) return td_no_memory(e, "for a program of %u nodes", ir->nnodes);
    *f = (td_program_facts){.refs = 1, .ir = ir};
    int rc = find_deaths(f) ? find_prims(f, e) : td_no_memory(e, "for a program of %u nodes", ir->nnodes);
    if (rc) {
        free_facts(f);
        return rc;
    }
    for (uint32_t b = 0; b < ir->nblocks; b++)
        if (ir->blocks[b].nrets > f->most_returns) f->most_returns = ir->blocks[b].nrets;
    *out = f;
    return TD_OK;
}

static void free_own(td_held_program *p)
{
    free(p->joins);
    free(p->spots);
    free(p);
}

/* A program of these facts; its rows are to be found, or copied. */
static td_held_program *program_of(td_program_facts *f, td_error *e)
{
    td_held_program *p = calloc(1, sizeof *p);
    if (p) {
        *p = (td_held_program){.refs = 1, .ir = f->ir, .facts = f};
        p->joins = malloc(f->ir->nnodes + 1);
        p->spots = calloc(f->ir->nnodes + 1, sizeof(td_spot *));
        if (p->joins && p->spots) return p;
        free_own(p);
    }
    td_no_memory(e, "for a program of %u nodes", f->ir->nnodes);
    return NULL;
}

int td_program_new(td_held_program **out, td_ir *ir, td_error *e)
{
    td_program_facts *f = NULL;
    int rc = find_facts(&f, ir, e);
    if (rc) return rc;
    *out = program_of(f, e);
    if (*out) td_plan_find(ir, (*out)->joins);
    else free_facts(f);
    return *out ? TD_OK : TD_E_MEMORY;
}

static int check_captures(const td_ir *ir, uint32_t ncaptured, td_error *e)
{
    if (ncaptured != ir->ncaptures)
        return td_fail(e, TD_E_INVALID, "the program captures %u tensors, and %u are given", ir->ncaptures, ncaptured);
    for (uint32_t k = 0; k < ncaptured; k++)
        if (td_type_kind_of(ir, ir->values[ir->captures[k].value].type) != TD_T_TENSOR)
            return td_fail(e, TD_E_UNSUPPORTED, "a program captures tensors only; '%.60s' is none",
                           td_ir_chars(ir, ir->captures[k].name));
    return TD_OK;
}

int td_program_capture(td_held_program *p, uint32_t ncaptured, td_tensor *const *captured, td_account *account,
                       td_error *e)
{
    uint64_t bytes = bytes_of(p->ir) + p->facts->npacked;
    int rc = check_captures(p->ir, ncaptured, e);
    if (!rc) rc = td_account_charge(account, bytes, 1 + td_objects_of(bytes), e);
    if (rc) return rc;
    p->account = td_account_ref(account);
    p->bytes = bytes;
    p->captured = malloc((ncaptured + 1) * sizeof(td_tensor *));
    if (!p->captured) return td_no_memory(e, "for a program of %u nodes", p->ir->nnodes);
    for (uint32_t k = 0; k < ncaptured; k++) {
        p->captured[k] = td_tensor_ref(captured[k]);
        p->captured_bytes += td_desc_nbytes(&captured[k]->desc);
    }
    return TD_OK;
}

void td_program_end_by(td_held_program *p, const td_program_end *by)
{
    p->end = *by;
}

int td_program_keep_bytes(td_held_program *p, const uint8_t *bytes, size_t n, td_error *e)
{
    td_program_facts *f = p->facts;
    f->packed = malloc(n + 1);
    if (!f->packed) return td_no_memory(e, "for a program of %zu bytes", n);
    memcpy(f->packed, bytes, n);
    f->npacked = n;
    return TD_OK;
}

int td_program_like(td_held_program **out, const td_held_program *p, td_tensor *const *captured, td_account *account,
                    td_error *e)
{
    td_held_program *made = program_of(p->facts, e);
    if (!made) return TD_E_MEMORY;
    p->facts->refs++;
    memcpy(made->joins, p->joins, p->ir->nnodes);
    made->end = p->end;
    int rc = td_program_capture(made, p->ir->ncaptures, captured, account, e);
    if (rc) td_program_unref(made);
    else *out = made;
    return rc;
}

const uint8_t *td_program_bytes(const td_held_program *p, size_t *n)
{
    *n = p->facts->npacked;
    return p->facts->packed;
}

td_ir *td_program_module(const td_held_program *p)
{
    return p->ir;
}

uint32_t td_program_captured(const td_held_program *p, td_tensor *const **out)
{
    *out = p->captured;
    return p->ir->ncaptures;
}

uint64_t td_program_captured_bytes(const td_held_program *p)
{
    return p->captured_bytes;
}

static uint64_t own_objects(const td_held_program *p)
{
    return 1 + td_objects_of(p->bytes) + p->plan_objects;
}

bool td_program_list(td_held_program *p, uint32_t table, uint64_t *objects, td_account **account)
{
    bool first = p->listed != table;
    p->listed = table;
    *objects = own_objects(p);
    *account = p->account;
    return first;
}

bool td_program_accumulates(const td_held_program *p)
{
    return p->facts->accumulates;
}

uint32_t td_program_nodes(const td_held_program *p)
{
    return p->ir->nnodes;
}

uint32_t td_program_parameters(const td_held_program *p)
{
    return p->ir->blocks[p->ir->functions[0].block].nparams;
}

uint32_t td_program_plans(const td_held_program *p)
{
    return p->nplans;
}

void td_program_tell_plans(const td_held_program *p, FILE *out)
{
    uint32_t n = td_program_plans(p);
    fprintf(out, "%u nodes, %u plan%s\n", p->ir->nnodes, n, n == 1 ? "" : "s");
    td_spots_tell(p, out);
}

td_held_program *td_program_ref(td_held_program *p)
{
    p->refs++;
    return p;
}

static void free_module(void *program)
{
    td_held_program *p = program;
    if (p->facts) td_ir_unref(p->ir);
    free_facts(p->facts);
    td_spots_free(p->first_spot);
    free_own(p);
}

void td_program_unref(td_held_program *p)
{
    enum { FREE_HERE = 256 << 10 };
    if (!p || --p->refs) return;
    for (uint32_t k = 0; p->captured && k < p->ir->ncaptures; k++) td_tensor_unref(p->captured[k]);
    free(p->captured);
    uint64_t bytes = bytes_of(p->ir) + p->plan_bytes, objects = own_objects(p);
    td_plan_count_loops(p, -(int)p->loops);
    if (p->account) td_account_discharge(p->account, p->bytes + p->plan_bytes, objects);
    td_account_unref(p->account);
    if (--p->facts->refs) p->facts = NULL;
    if (p->end.give && bytes > FREE_HERE) p->end.give(p->end.arg, free_module, NULL, p);
    else free_module(p);
}
