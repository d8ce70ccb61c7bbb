/* The interpreter: node by node through the blocks of a module, in bounded steps.
 *
 * Every value has one place, since no function of a module calls itself: a block that is entered again overwrites what
 * its last round left. What nobody uses any more is let go of at once, so that memory is what eager work would need. */
#include "daemon/graph/run.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ITEMS = 16, /* of lists, for one such unit */
    MOVES = 4,  /* of values from one place to another, or to their end */
    NOT_KNOWN = UINT32_MAX - 1
};

/* ---- begin */

static void set(td_exec *r, uint32_t value, td_val v) /* takes over the reference */
{
    td_val old = r->at[value];
    r->at[value] = v;
    if (old.kind >= TD_T_STR) td_val_end(&r->purse, old);
}

static bool fits(const td_ir *ir, uint32_t type, const td_val *v) /* NOLINT(misc-no-recursion): as deep as the type */
{
    td_type_kind want = td_type_kind_of(ir, type);
    if (want == TD_T_OPTIONAL) return v->kind == TD_T_NONE || fits(ir, td_type_part(ir, type, 0), v);
    if (want != v->kind) return false;
    if (want == TD_T_TUPLE && td_type_parts(ir, type) != v->box->n) return false;
    if (want != TD_T_LIST && want != TD_T_TUPLE && want != TD_T_DICT) return true;
    for (uint32_t k = 0; k < v->box->n; k++) {
        uint32_t part = want == TD_T_TUPLE ? k : want == TD_T_DICT ? k % 2 : 0;
        if (!fits(ir, td_type_part(ir, type, part), &v->box->items[k])) return false;
    }
    return true;
}

/* An int where a float is wanted becomes one, as Python's annotations allow. */
static td_val converted(const td_ir *ir, uint32_t type, td_val v)
{
    td_type_kind want = td_type_kind_of(ir, type);
    if (want == TD_T_OPTIONAL) want = td_type_kind_of(ir, td_type_part(ir, type, 0));
    if (want == TD_T_FLOAT && v.kind == TD_T_INT) return td_val_float((double)v.i);
    if (want == TD_T_COMPLEX && v.kind == TD_T_INT) return (td_val){.kind = TD_T_COMPLEX, .re = (double)v.i};
    if (want == TD_T_COMPLEX && v.kind == TD_T_FLOAT) return (td_val){.kind = TD_T_COMPLEX, .re = v.re};
    return v;
}

static int take_args(td_exec *r, uint32_t nargs, const td_val *args, td_error *e)
{
    const td_ir *ir = r->ir;
    uint32_t graph = ir->functions[0].block, want = ir->blocks[graph].nparams;
    if (nargs != want) return td_fail(e, TD_E_INVALID, "the program takes %u arguments, and %u are given", want, nargs);
    for (uint32_t k = 0; k < nargs; k++) {
        uint32_t value = td_ir_param(ir, graph, k), name = ir->values[value].name;
        td_val v = converted(ir, ir->values[value].type, args[k]);
        if (!fits(ir, ir->values[value].type, &v))
            return td_fail(e, TD_E_TYPE, "argument %u ('%.40s') of the program is of another type: %s is given", k + 1,
                           name == TD_IR_NONE ? "" : td_ir_chars(ir, name), td_val_kind_name(&v));
        set(r, value, td_val_ref(v));
    }
    return TD_OK;
}

/* Two pieces: values, and what a block returns on its way. */
static int make_room(td_exec *r, td_error *e)
{
    uint64_t nvalues = (uint64_t)r->ir->nvalues + r->program->facts->most_returns + 1;
    r->room = 8;
    uint64_t bytes = sizeof *r + nvalues * sizeof *r->at + r->room * sizeof *r->frames;
    int rc = td_account_charge(r->purse.account, bytes, td_objects_of(bytes), e);
    if (rc) return rc;
    r->bytes = bytes;
    r->at = calloc(nvalues, sizeof *r->at);
    r->frames = malloc(r->room * sizeof *r->frames);
    if (!r->at || !r->frames) return td_no_memory(e, "for a run of a program");
    r->passed = r->at + r->ir->nvalues;
    return TD_OK;
}

static int enter(td_exec *r, uint32_t block, uint32_t owner, td_error *e)
{
    if (r->depth == r->room) {
        td_run_frame *more = realloc(r->frames, 2 * (size_t)r->room * sizeof *more);
        if (!more) return td_no_memory(e, "for %u blocks within blocks", r->depth + 1);
        r->frames = more;
        r->room *= 2;
    }
    td_grad_mode mode = r->depth ? r->frames[r->depth - 1].mode : td_grad_mode_of(r->mode);
    r->frames[r->depth++] = (td_run_frame){.block = block, .owner = owner, .mode = mode};
    r->node = r->ir->blocks[block].first;
    return TD_OK;
}

static size_t append(char *out, size_t size, size_t at, const char *text, size_t n)
{
    if (n > size - 1 - at) n = size - 1 - at;
    memcpy(out + at, text, n);
    out[at + n] = 0;
    return at + n;
}

/* Behind a program's line there is room for the end of a path, where the file's name and the line are. */
static void place_caller(char *out, size_t size, const char *where)
{
    static const char before[] = ", called at ", cut[] = "...";
    size_t room = size - sizeof before, n = strlen(where);
    const char *end = where;
    if (n > room) {
        end += n - room + strlen(cut);
        const char *part = strchr(end, '/');
        if (part) end = part;
    }
    if (!n) return;
    size_t at = append(out, size, 0, before, strlen(before));
    if (end != where) at = append(out, size, at, cut, strlen(cut));
    append(out, size, at, end, strlen(end));
}

int td_exec_new(td_exec **out, td_held_program *p, td_issuer *who, const td_exec_env *env, uint32_t mode, td_error *e)
{
    td_exec *r = malloc(sizeof *r);
    if (!r) return td_no_memory(e, "for a run of a program");
    *r = (td_exec){.program = td_program_ref(p), .ir = p->ir, .who = who, .env = *env, .mode = mode};
    r->purse.account = td_account_ref(who->account);
    snprintf(r->called_at, sizeof r->called_at, "%s", who->where);
    place_caller(r->caller, sizeof r->caller, who->where);
    r->file = TD_IR_NONE;
    int rc = make_room(r, e);
    if (rc) td_exec_drop(r, INT32_MAX);
    else *out = r;
    return rc;
}

int td_exec_say(td_exec *r, const char *text, size_t n, td_error *e)
{
    static const char cut[] = "... (a run prints at most 64 KiB)\n";
    enum { MOST = 1 << 16, LEAST = 1 << 8 };
    if (r->silent) return TD_OK;
    bool last = r->nsaid + n > MOST;
    if (last) text = cut, n = sizeof cut - 1;
    if (r->nsaid + n > r->said_room) {
        size_t room = 2 * (r->nsaid + n) + LEAST;
        int rc = td_purse_take(&r->purse, room - r->said_room, e);
        char *more = rc ? NULL : realloc(r->said, room);
        if (!rc && !more) {
            td_purse_give(&r->purse, room - r->said_room);
            rc = td_no_memory(e, "for what a program prints");
        }
        if (rc) return rc;
        r->said = more, r->said_room = room;
    }
    memcpy(r->said + r->nsaid, text, n);
    r->nsaid += n;
    r->silent = last;
    return TD_OK;
}

const char *td_exec_said(const td_exec *r, size_t *n)
{
    *n = r->nsaid;
    return r->said;
}

td_purse *td_exec_purse(td_exec *r)
{
    return &r->purse;
}

int td_exec_begin(td_exec *r, uint32_t nargs, const td_val *args, td_error *e)
{
    int rc = take_args(r, nargs, args, e);
    for (uint32_t k = 0; k < r->ir->ncaptures && !rc; k++)
        set(r, r->ir->captures[k].value, td_val_tensor(td_tensor_ref(r->program->captured[k])));
    return rc ? rc : enter(r, r->ir->functions[0].block, TD_IR_NONE, e);
}

/* ---- blocks */

/* What a block takes, hands on and lets go of counts where it is done: it may be thousands of values. */
static void let_die(td_exec *r, uint32_t place)
{
    const td_program_facts *p = r->program->facts;
    r->moved += p->from[place + 1] - p->from[place];
    for (uint32_t k = p->from[place]; k < p->from[place + 1]; k++) td_val_drop(&r->purse, &r->at[p->dead[k]]);
}

static void go_behind(td_exec *r, uint32_t node)
{
    r->node = r->ir->nodes[node].next;
    let_die(r, node);
}

/* What it returns is taken along; all else of it is over. */
static void leave_block(td_exec *r, uint32_t block)
{
    r->npassed = r->ir->blocks[block].nrets;
    r->moved += r->npassed;
    for (uint32_t k = 0; k < r->npassed; k++) r->passed[k] = td_val_ref(r->at[td_ir_return(r->ir, block, k)]);
    let_die(r, r->ir->nnodes + block);
}

static void pass_to_outs(td_exec *r, uint32_t node, uint32_t from)
{
    r->moved += r->npassed;
    for (uint32_t k = from; k < r->npassed; k++) {
        set(r, td_ir_out(r->ir, node, k - from), r->passed[k]);
        r->passed[k] = td_val_none();
    }
    r->npassed = 0;
    r->depth--;
    go_behind(r, node);
}

/* passed[0] is whether it goes on, the rest what is carried; all is taken over. */
static void next_trip(td_exec *r, td_run_frame *f)
{
    if (f->trip >= f->trips || !r->passed[0].i) {
        pass_to_outs(r, f->owner, 1);
        return;
    }
    r->moved += r->npassed;
    set(r, td_ir_param(r->ir, f->block, 0), td_val_int(f->trip));
    for (uint32_t k = 1; k < r->npassed; k++) {
        set(r, td_ir_param(r->ir, f->block, k), r->passed[k]);
        r->passed[k] = td_val_none();
    }
    r->npassed = 0;
    r->node = r->ir->blocks[f->block].first;
}

static void end_of_block(td_exec *r)
{
    td_plan_end(r);
    td_run_frame *f = &r->frames[r->depth - 1];
    leave_block(r, f->block);
    if (f->owner == TD_IR_NONE) {
        r->over = true;
        return;
    }
    if (r->ir->nodes[f->owner].op == (TD_IR_PRIM | TD_PRIM_LOOP)) {
        f->trip++;
        next_trip(r, f);
        return;
    }
    pass_to_outs(r, f->owner, 0);
}

/* ---- nodes */

static int run_loop(td_exec *r, uint32_t node, td_error *e)
{
    const td_ir_node *x = &r->ir->nodes[node];
    int64_t trips = td_exec_in(r, node, 0)->i;
    int rc = enter(r, x->child, node, e);
    if (rc) return rc;
    r->npassed = x->nin - 1;
    r->moved += r->npassed;
    for (uint32_t k = 1; k < x->nin; k++) r->passed[k - 1] = td_val_ref(*td_exec_in(r, node, k));
    r->frames[r->depth - 1].trips = trips;
    next_trip(r, &r->frames[r->depth - 1]);
    return TD_OK;
}

/* Each use of a function has its own frame, and the values their one place. */
static int run_function(td_exec *r, uint32_t node, td_error *e)
{
    const td_ir_node *x = &r->ir->nodes[node];
    uint32_t block = r->ir->functions[x->op & TD_IR_NUMBER].block;
    r->moved += x->nin;
    for (uint32_t k = 0; k < x->nin; k++) set(r, td_ir_param(r->ir, block, k), td_val_ref(*td_exec_in(r, node, k)));
    int rc = enter(r, block, node, e);
    if (!rc) r->frames[r->depth - 1].mode = td_exec_mode(r, node);
    return rc;
}

static int run_control(td_exec *r, uint32_t node, td_error *e)
{
    const td_ir_node *x = &r->ir->nodes[node];
    if (x->op == (TD_IR_PRIM | TD_PRIM_LOOP)) return run_loop(r, node, e);
    return enter(r, x->child + (td_exec_in(r, node, 0)->i ? 0 : 1), node, e);
}

/* Has each argument the kind that its type says? The verifier has proved it; what is read here as a pointer is looked
 * at once more. An uninitialized value is seen here, too. */
static int check_kinds(const td_exec *r, uint32_t node, td_error *e)
{
    const td_ir *ir = r->ir;
    for (uint32_t k = 0; k < ir->nodes[node].nin; k++) {
        uint32_t value = td_ir_in(ir, node, k), type = ir->values[value].type;
        td_type_kind want = td_type_kind_of(ir, type), is = (td_type_kind)r->at[value].kind;
        if (want == TD_T_OPTIONAL && is != TD_T_NONE) want = td_type_kind_of(ir, td_type_part(ir, type, 0));
        if (want == is || (want == TD_T_OPTIONAL && is == TD_T_NONE)) continue;
        return td_fail(e, TD_E_INVALID, "argument %u has no value of its type: it is %s", k + 1,
                       td_val_kind_name(&r->at[value]));
    }
    return TD_OK;
}

static void forget_kept(td_exec *r)
{
    td_val_drop(&r->purse, &r->kept.made);
    r->kept.at = 0;
}

static int run_prim(td_exec *r, uint32_t node, int *cost, td_error *e)
{
    const td_ir_node *x = &r->ir->nodes[node];
    const td_val *few[8], **in = few;
    td_val made[8], *out = made;
    if (x->nin > 8 || x->nout > 8) {
        in = malloc((x->nin + 1) * sizeof *in);
        out = malloc((x->nout + 1) * sizeof *out);
    }
    if (!in || !out) {
        if (in != few) free((void *)in), free(out);
        return td_no_memory(e, "for %u values", x->nin + x->nout);
    }
    for (uint32_t k = 0; k < x->nin; k++) in[k] = td_exec_in(r, node, k);
    for (uint32_t k = 0; k < x->nout; k++) out[k] = td_val_none();
    td_prim_call c = {&r->purse, r, node, in, out, x->nin, x->nout, e, 0, &r->kept};
    r->purse.refused = false;
    int rc = check_kinds(r, node, e);
    if (!rc) rc = r->program->facts->prims[node](&c);
    r->lacks = rc == TD_E_QUOTA && r->purse.refused;
    if (rc != TD_EXEC_MORE) forget_kept(r);
    c.work += x->nin + x->nout;
    for (uint32_t k = 0; k < x->nin; k++) c.work += td_val_size(in[k]);
    for (uint32_t k = 0; k < x->nout; k++) c.work += td_val_size(&out[k]);
    *cost -= (int)(c.work / ITEMS < INT32_MAX / 2 ? c.work / ITEMS : INT32_MAX / 2);
    for (uint32_t k = 0; k < x->nout; k++) {
        if (rc) td_val_drop(&r->purse, &out[k]);
        else set(r, td_ir_out(r->ir, node, k), out[k]);
    }
    if (in != few) free((void *)in), free(out);
    return rc;
}

/* True: what comes next is not the node behind. */
static bool is_control(uint32_t op)
{
    return op == (TD_IR_PRIM | TD_PRIM_LOOP) || op == (TD_IR_PRIM | TD_PRIM_IF) || (op & TD_IR_CLASS) == TD_IR_FN;
}

static int run_node(td_exec *r, int *cost, td_need *need, td_error *e)
{
    uint32_t node = r->node, op = r->ir->nodes[node].op;
    bool ran = false;
    int rc = TD_OK;
    *cost -= 1;
    if (r->planning || r->program->joins[node] & TD_STARTS) rc = td_plan_before(r, &ran, cost, need, e);
    if (ran) return rc;
    if ((op & TD_IR_CLASS) == TD_IR_FN) return run_function(r, node, e);
    if (is_control(op)) return run_control(r, node, e);
    if ((op & TD_IR_CLASS) == TD_IR_TD) {
        r->issued = r->listed = 0;
        rc = td_exec_op(r, node, need, e);
        *cost -= TD_EXEC_COST_OP * (r->issued > 1 ? r->issued : 1) + r->listed;
    } else if (td_exec_differentiates(op)) {
        rc = check_kinds(r, node, e);
        if (!rc) rc = td_exec_differentiate(r, node, cost, need, e);
    } else {
        rc = run_prim(r, node, cost, e);
    }
    if (!rc || rc == TD_EXEC_SHAPED) go_behind(r, node);
    if (!rc) td_plan_after(r, node);
    if (!rc || !r->planning || rc == TD_WAIT_GROW) return rc; /* with more memory the node goes on, and is recorded */
    td_planning_drop(r);
    if (!r->lacks) return rc;
    r->lacks = false; /* what was recorded held memory: once more, without */
    td_error_clear(e);
    return TD_OK;
}

/* The next nodes as far as they are quick ones: each costs one. What is recorded for a plan goes node by node. */
static void run_quick(td_exec *r, int *cost)
{
    const td_quick *quick = r->program->facts->quick;
    const uint8_t *joins = r->program->joins;
    if (r->planning || r->purse.dying) return;
    while (*cost > 0 && r->node != TD_IR_NONE && !(joins[r->node] & TD_STARTS) && quick[r->node].prim) {
        if (!td_quick_do(&quick[r->node], r->at)) return;
        go_behind(r, r->node);
        *cost -= 1;
    }
}

/* ---- steps */

static size_t append_number(char *out, size_t size, size_t at, uint32_t v)
{
    char digits[10], *d = digits + sizeof digits;
    do *--d = (char)('0' + v % 10);
    while (v /= 10);
    return append(out, size, at, d, (size_t)(digits + sizeof digits - d));
}

/* As often as ops are issued. */
size_t td_exec_line(td_exec *r, uint32_t node, char *out, size_t size)
{
    uint32_t at = r->ir->nodes[node].source;
    if (at == TD_IR_NONE) return append(out, size, 0, "", 0);
    const td_ir_source *s = &r->ir->sources[at];
    if (r->file != s->file) { /* a client's bytes: they come to others' terminals */
        td_text_visible(r->file_text, sizeof r->file_text, td_ir_chars(r->ir, s->file));
        r->file = s->file;
    }
    size_t n = append(out, size, 0, r->file_text, strlen(r->file_text));
    if (!s->line) return n; /* a place that is a name alone */
    n = append(out, size, n, ":", 1);
    return append_number(out, size, n, s->line);
}

void td_exec_place(td_exec *r, uint32_t node, char *out, size_t size)
{
    size_t n = td_exec_line(r, node, out, size);
    const char *caller = n ? r->caller : r->called_at;
    append(out, size, n, caller, strlen(caller));
}

int td_exec_step(td_exec *r, int most, bool *done, td_need *need, td_error *e)
{
    int cost = most * TD_EXEC_COST_OP, rc = TD_OK;
    r->behind = NULL;
    r->lacks = false;
    r->source = NOT_KNOWN;
    if (r->shaping) return TD_OK;
    while (!r->over && !rc && cost > 0) {
        run_quick(r, &cost);
        if (cost <= 0) break;
        if (r->purse.dying) cost -= (td_purse_bury(&r->purse, cost * ITEMS) + ITEMS - 1) / ITEMS;
        else if (r->node != TD_IR_NONE) rc = run_node(r, &cost, need, e);
        else end_of_block(r), cost--;
        cost -= (int)(r->moved / MOVES);
        r->moved %= MOVES;
    }
    memcpy(r->who->where, r->called_at, sizeof r->called_at);
    if (rc > 0 && !e->where[0]) td_exec_place(r, r->node, e->where, sizeof e->where);
    *done = r->over;
    return rc <= TD_EXEC_BEHIND ? TD_OK : rc;
}

bool td_exec_lacks(const td_exec *r)
{
    return r->lacks;
}

const td_storage *td_exec_behind(const td_exec *r)
{
    return r->behind;
}

bool td_exec_waits(const td_exec *r)
{
    return r->shaping;
}

uint32_t td_exec_results(const td_exec *r, const td_val **out)
{
    *out = r->passed;
    return r->npassed;
}

bool td_exec_drop(td_exec *r, int most)
{
    uint32_t n = r->at ? r->ir->nvalues + r->program->facts->most_returns + 1 : 0;
    if (!td_backward_drop(r->backward, most / TD_EXEC_COST_OP + 1)) return false;
    r->backward = NULL;
    forget_kept(r);
    while (most > 0 && (r->purse.dying || r->dropped < n)) {
        if (r->purse.dying) most -= td_purse_bury(&r->purse, most);
        else td_val_drop(&r->purse, &r->at[r->dropped++]), most--;
    }
    if (r->purse.dying || r->dropped < n) return false;
    td_parts_free(&r->parts);
    td_planning_drop(r);
    free(r->said);
    free(r->outs);
    free(r->frames);
    free(r->at);
    td_purse_empty(&r->purse);
    td_account_discharge(r->purse.account, r->bytes, td_objects_of(r->bytes));
    td_account_unref(r->purse.account);
    td_program_unref(r->program);
    r->gone = true;
    if (!r->shaping) free(r);
    return true;
}
