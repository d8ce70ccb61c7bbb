/* The way through a program: blocks in the order in which they run, as sizes and constants decide. */
#include "proto/program/prim.h"
#include "proto/rows/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two, so that a dimension of rows is none of one place; and more than any size that is compared with it. */
const int64_t td_rows_of[LOOKS] = {2, 65537};

enum { MOST_BYTES = 16 << 20 };

void td_rows_no(td_rwalk *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(w->why, TD_ROWS_WHY, format, args); /* NOLINT(clang-analyzer-valist.Uninitialized): it is begun above */
    va_end(args);
    longjmp(*w->no, 1);
}

void *td_rows_alloc(td_rwalk *w, size_t bytes)
{
    void *at = td_arena_alloc(&w->memory, bytes ? bytes : 1);
    if (!at) td_rows_no(w, "the program is too large to be looked at");
    return memset(at, 0, bytes);
}

td_rvalue *td_rows_in(td_rwalk *w, uint32_t node, uint32_t k)
{
    return &w->values[td_ir_in(w->ir, node, k)];
}

void td_rows_out(td_rwalk *w, uint32_t node, uint32_t k, td_rvalue v)
{
    w->values[td_ir_out(w->ir, node, k)] = v;
}

void td_rows_step(td_rwalk *w, uint64_t steps)
{
    if ((w->steps += steps) > w->q->most) td_rows_no(w, "the program takes more than %u steps", w->q->most);
}

void td_rows_push(td_rwalk *w, td_rlist *l, td_rvalue v)
{
    td_rows_step(w, 1);
    if (l->n == l->room) {
        uint32_t room = l->room ? 2 * l->room : 8;
        td_rvalue *items = td_rows_alloc(w, room * sizeof *items);
        if (l->n) memcpy(items, l->items, l->n * sizeof *items);
        l->items = items, l->room = room;
    }
    l->items[l->n++] = v;
}

td_rvalue td_rows_new_list(td_rwalk *w, uint32_t n, const td_rvalue *items)
{
    td_rvalue v = {.kind = TD_T_LIST};
    v.list = td_rows_alloc(w, sizeof *v.list);
    for (uint32_t k = 0; k < n; k++) td_rows_push(w, v.list, items[k]);
    return v;
}

/* ---- blocks */

static void run_block(td_rwalk *w, uint32_t block);

static bool decided(td_rwalk *w, const td_rvalue *v, const char *what)
{
    if (v->kind != TD_T_BOOL || v->tie != TD_FIXED)
        td_rows_no(w, "%s rests on the number of rows, or on what a tensor holds", what);
    return v->number.small;
}

static void run_if(td_rwalk *w, uint32_t node)
{
    const td_ir_node *n = &w->ir->nodes[node];
    uint32_t block = n->child + !decided(w, td_rows_in(w, node, 0), "a branch");
    run_block(w, block);
    for (uint32_t k = 0; k < n->nout; k++) td_rows_out(w, node, k, w->values[td_ir_return(w->ir, block, k)]);
}

/* Values are handed on together, as one may be where another was. */
static void run_loop(td_rwalk *w, uint32_t node)
{
    const td_ir_node *n = &w->ir->nodes[node];
    const td_rvalue *trips = td_rows_in(w, node, 0);
    if (trips->kind != TD_T_INT || trips->tie != TD_FIXED)
        td_rows_no(w, "a loop rests on the number of rows, or on what a tensor holds");
    int64_t most = trips->number.i;
    bool on = decided(w, td_rows_in(w, node, 1), "a loop");
    td_rvalue *carried = td_rows_alloc(w, n->nout * sizeof *carried);
    for (uint32_t k = 0; k < n->nout; k++) carried[k] = *td_rows_in(w, node, k + 2);
    for (int64_t trip = 0; trip < most && on; trip++) {
        td_rows_step(w, 1);
        w->values[td_ir_param(w->ir, n->child, 0)] = td_rows_fixed(trip);
        for (uint32_t k = 0; k < n->nout; k++) w->values[td_ir_param(w->ir, n->child, k + 1)] = carried[k];
        run_block(w, n->child);
        on = decided(w, &w->values[td_ir_return(w->ir, n->child, 0)], "a loop");
        for (uint32_t k = 0; k < n->nout; k++) carried[k] = w->values[td_ir_return(w->ir, n->child, k + 1)];
    }
    for (uint32_t k = 0; k < n->nout; k++) td_rows_out(w, node, k, carried[k]);
}

/* Blocks nest as deep as the verifier lets them, TD_IR_MAX_NEST. */
static void run_block(td_rwalk *w, uint32_t block)
{
    for (uint32_t n = w->ir->blocks[block].first; n != TD_IR_NONE; n = w->ir->nodes[n].next) {
        uint32_t op = w->ir->nodes[n].op;
        td_rows_step(w, 1);
        if (op == TD_PRIM_IF) run_if(w, n);
        else if (op == TD_PRIM_LOOP) run_loop(w, n);
        else if ((op & TD_IR_CLASS) == TD_IR_PRIM) td_rows_prim(w, n);
        else if ((op & TD_IR_CLASS) == TD_IR_TD) td_rows_call(w, n);
        else td_rows_no(w, "a function is called that is not of the table");
    }
}

/* ---- ends */

static td_rvalue tensor(td_rwalk *w, uint32_t value, const td_desc *look, int rows)
{
    td_rvalue v = {.kind = TD_T_TENSOR};
    if (td_type_kind_of(w->ir, w->ir->values[value].type) != TD_T_TENSOR)
        td_rows_no(w, "the program takes something else than tensors");
    td_rtensor *t = v.tensor = td_rows_alloc(w, sizeof *t);
    t->dim = rows, t->each = 1;
    for (int k = 0; k < LOOKS; k++) {
        t->look[k] = *look;
        if (rows < 0) continue;
        td_error e = {0};
        t->look[k].shape[rows] = td_rows_of[k];
        if (td_desc_contiguous(&t->look[k], (td_dtype)look->dtype, look->ndim, t->look[k].shape, &e))
            td_rows_no(w, "an input is too large for many rows");
        t->look[k].device = look->device;
    }
    return v;
}

static void begin(td_rwalk *w)
{
    const td_ir_block *graph = &w->ir->blocks[w->ir->functions[0].block];
    if (graph->nparams != (uint32_t)w->q->nin) td_rows_no(w, "the program takes other inputs");
    for (uint32_t k = 0; k < w->ir->ncaptures; k++) {
        uint32_t value = w->ir->captures[k].value;
        w->values[value] = tensor(w, value, &w->q->captured[k], NO_ROWS);
    }
    for (int k = 0; k < w->q->nin; k++) {
        uint32_t value = td_ir_param(w->ir, w->ir->functions[0].block, (uint32_t)k);
        if (w->q->in_rows[k] >= w->q->in[k].ndim) td_rows_no(w, "an input has no such dimension");
        w->values[value] = tensor(w, value, &w->q->in[k], w->q->in_rows[k]);
    }
}

static void look_at_result(td_rwalk *w, int k, const td_rvalue *v)
{
    if (v->kind != TD_T_TENSOR || v->tensor->dim == MIXED || v->tensor->each != 1)
        td_rows_no(w, "result %d has no dimension that counts rows alone", k + 1);
    w->out_rows[k] = v->tensor->dim;
}

/* One value, or a tuple of all. */
static void end(td_rwalk *w)
{
    uint32_t block = w->ir->functions[0].block, n = w->ir->blocks[block].nrets;
    const td_rvalue *first = n ? &w->values[td_ir_return(w->ir, block, 0)] : NULL;
    bool packed = n == 1 && first->kind == TD_T_LIST;
    if ((packed ? first->list->n : n) != (uint32_t)w->q->nout) td_rows_no(w, "the program gives other results");
    for (int k = 0; k < w->q->nout; k++)
        look_at_result(w, k, packed ? &first->list->items[k] : &w->values[td_ir_return(w->ir, block, (uint32_t)k)]);
}

/* Where td_rows_no() comes back to. */
static bool go(td_rwalk *w)
{
    jmp_buf no;
    w->no = &no;
    if (setjmp(no)) {
        w->no = NULL;
        return false;
    }
    begin(w);
    run_block(w, w->ir->functions[0].block);
    end(w);
    w->no = NULL;
    return true;
}

bool td_rows_stay_apart(const td_rows_question *q, int *out_rows, char why[TD_ROWS_WHY])
{
    td_rwalk w = {.q = q, .ir = q->ir, .out_rows = out_rows, .why = why};
    why[0] = 0;
    td_arena_init(&w.memory, MOST_BYTES);
    w.values = calloc(q->ir->nvalues + 1u, sizeof *w.values);
    w.made = malloc(TD_MAX_OUTPUTS * sizeof *w.made);
    bool apart = w.values && w.made && go(&w);
    if (!apart && !why[0]) snprintf(why, TD_ROWS_WHY, "there is no memory to look at the program");
    free(w.values);
    free(w.made);
    td_arena_deinit(&w.memory);
    return apart;
}
