/* Recording a fused call: which operand of which call is which input, or lies how far in which of the blocks of memory
 * that the calls made; then where in one arena those blocks go that nobody outside uses. */
#include "daemon/ops/fused_parts.h"
#include "daemon/ops/prepare.h"
#include "proto/ops/look.h"
#include <stdlib.h>
#include <string.h>

enum {
    MOST_OPERANDS = 32, /* of a call: each is looked for among all that was seen */
    MOST_SLOTS = 512
};

/* A tensor that was seen. */
typedef struct slot {
    td_tensor *t; /* NULL: nobody has it any more */
    td_desc desc;
    td_fused_root root;
    int64_t offset; /* bytes from the first element of the input, or the begin of the block */
    bool view;      /* not the input, and not what a kernel made */
    uint32_t marks; /* TD_TF_ */
    bool odd;       /* a view that cannot be made again from its root alone */
} slot;

typedef struct block {
    uint64_t bytes;
    uint32_t first, last; /* the calls that make it, and use it last */
    uint32_t output;      /* its number, or TD_FUSED_NONE: it lies in the arena, ... */
    uint64_t at;          /* ... here */
    uint32_t slot;        /* of what the kernel made */
    td_fused_moves writes;
} block;

struct td_recording {
    bool bad, sweeps;
    bool unsure;    /* some call may fail */
    bool weighty;   /* some call could be a head */
    uint32_t loops; /* of machine code, that it may have */
    td_desc whole;  /* of a sweep: what each call gives */
    uint32_t nslots, room_slots, nblocks, room_blocks, room_used;
    slot *slots;
    block *blocks;
    td_fused *g; /* what it becomes; operands have slots for addresses until the end */
};

bool td_fused_grow(void **at, uint32_t n, uint32_t *room, size_t size)
{
    if (n < *room) return true;
    uint32_t more = *room ? 2 * *room : 32;
    void *p = realloc(*at, more * size);
    if (!p) return false;
    *at = p, *room = more;
    return true;
}

static bool add_slot(td_recording *r, td_tensor *t, slot s)
{
    if (r->nslots == MOST_SLOTS || !td_fused_grow((void **)&r->slots, r->nslots, &r->room_slots, sizeof *r->slots))
        return false;
    s.t = td_tensor_ref(t);
    s.desc = t->desc;
    s.marks = t->flags & TD_FUSED_MARKS;
    r->slots[r->nslots++] = s;
    return true;
}

static bool is_input(const slot *s)
{
    return s->root.input && !s->view;
}

/* The newest first: who uses something mostly uses what came just before. */
static slot *find(const td_recording *r, const td_tensor *t)
{
    for (uint32_t k = r->nslots; k-- > 0;)
        if (r->slots[k].t == t) return &r->slots[k];
    return NULL;
}

int td_recording_new(td_recording **out, td_error *e)
{
    td_recording *r = calloc(1, sizeof *r);
    if (r) r->g = calloc(1, sizeof *r->g);
    if (!r || !r->g) {
        free(r);
        return td_no_memory(e, "to plan a program");
    }
    r->g->refs = 1;
    *out = r;
    return TD_OK;
}

bool td_recording_input(td_recording *r, td_tensor *t)
{
    td_fused *g = r->g;
    if (!td_fused_grow((void **)&g->used, g->ninputs, &r->room_used, sizeof *g->used)) return false;
    uint32_t nr = g->ninputs++;
    g->used[nr] = 0;
    return find(r, t) || add_slot(r, t, (slot){.root = {.input = true, .nr = nr}});
}

void td_recording_free(td_recording *r)
{
    if (!r) return;
    for (uint32_t k = 0; k < r->nslots; k++) td_tensor_unref(r->slots[k].t);
    free(r->slots);
    free(r->blocks);
    td_fused_unref(r->g);
    free(r);
}

void td_recording_let_go(td_recording *r)
{
    for (uint32_t k = 0; k < r->nslots; k++) {
        slot *s = &r->slots[k];
        if (!s->t || s->t->refs > 1 || is_input(s)) continue;
        td_tensor_unref(s->t);
        s->t = NULL;
    }
}

/* ---- calls */

/* Is all of it in its plan, which can be moved? */
static bool is_plain(const td_call *c)
{
    const td_kcall *k = &c->k;
    if (c->flags & (TD_CF_SERVICE | TD_CF_DEFER) || k->device != TD_CPU) return false;
    if (c->op->flags & (TD_OF_RANDOM | TD_OF_DATA_SHAPE | TD_OF_UNCOMPUTED)) return false;
    if (c->nin + c->nout > MOST_OPERANDS || (c->copy && c->copy->nphases && !c->copy->replan)) return false;
    return k->replan || !k->nphases;
}

/* Is it as long as a part of a sweep should be? */
static bool sweeps(const td_call *c)
{
    return c->op->flags & TD_OF_POINTWISE && c->nout == 1 && !c->cast && c->k.cost_ns > TD_FUSED_SWEEP_NS;
}

/* May what comes behind go on where its chunks wrote? It may pack first. */
static bool is_head(const td_call *c)
{
    const td_kcall *k = &c->k;
    if (!k->wrote || k->cost_ns <= TD_FUSED_CALL_NS || c->nout != 1 || c->cast || c->flags & TD_CF_OUT) return false;
    return k->nphases == 1 || (k->nphases == 2 && k->packing.in && !k->packing.from);
}

/* Element after element as all that is made. */
static bool lies_alike(const td_recording *r, const td_desc *d)
{
    if (!td_desc_same_shape(d, &r->whole)) return false;
    return td_desc_is_contiguous(&r->whole) ? td_desc_is_contiguous(d) : td_desc_is_channels_last(d);
}

/* It can be a line of a loop over elements in their order in memory. */
static bool is_tail(const td_recording *r, const td_call *c)
{
    if (c->nout != 1 || c->cast || c->flags & TD_CF_OUT || !td_jit_knows(c->op, (td_dtype)c->k.compute)) return false;
    bool good = lies_alike(r, &c->out[0]->desc) && r->g->ncalls < TD_FUSED_SWEEP;
    for (int k = 0; k < c->nin && good; k++) {
        const td_desc *d = c->in[k].kind == TD_IN_TENSOR ? &c->in[k].tensor->desc : NULL;
        good = !d || lies_alike(r, d) || td_desc_numel(d) == 1;
    }
    return good;
}

static void begin(td_recording *r, const td_call *c)
{
    r->sweeps = sweeps(c);
    r->g->heads = is_head(c);
    if (r->sweeps || r->g->heads) r->whole = c->out[0]->desc;
}

/* The first call tells what comes of it: a row of small ones, a sweep of larger ones that give one shape, or a large
 * one and what follows element by element. */
static bool fits(td_recording *r, const td_call *c)
{
    td_fused *g = r->g;
    if (!is_plain(c)) return false;
    if (!g->ncalls) begin(r, c);
    if (g->heads) return !g->ncalls || is_tail(r, c);
    r->weighty |= c->k.wrote != NULL;
    if (r->weighty && g->ncalls && g->cost_ns + c->k.cost_ns >= TD_FUSED_HEADS_NS) return false;
    if (!r->sweeps) return c->k.cost_ns <= TD_FUSED_CALL_NS && g->ncalls < TD_FUSED_CALLS;
    if (!sweeps(c) || g->ncalls == TD_FUSED_SWEEP) return false;
    return lies_alike(r, &c->out[0]->desc);
}

static bool use(td_recording *r, const td_tensor *t, uint32_t *operand)
{
    slot *s = find(r, t);
    if (!s) return false;
    *operand = (uint32_t)(s - r->slots);
    if (s->root.input) r->g->used[s->root.nr] |= TD_FUSED_USED;
    else r->blocks[s->root.nr].last = r->g->ncalls;
    return true;
}

/* Whose version moves with what lies there. */
static const td_tensor *root_of(const td_recording *r, const slot *s)
{
    if (!s->root.input) return r->slots[r->blocks[s->root.nr].slot].t;
    for (uint32_t k = 0; k < r->nslots; k++)
        if (is_input(&r->slots[k]) && r->slots[k].root.nr == s->root.nr) return r->slots[k].t;
    return NULL;
}

static bool has_own_version(const td_recording *r, const slot *s)
{
    const td_tensor *root = root_of(r, s);
    return s->t->version != (root ? root->version : &s->t->storage->version);
}

/* A place at the end for who is written now. */
static td_fused_written *written_last(td_recording *r, uint32_t input)
{
    td_fused *g = r->g;
    td_fused_written w = {.input = input};
    uint32_t k = 0;
    while (k < g->nwritten && g->written[k].input != input) k++;
    if (k == g->nwritten) {
        if (!td_fused_grow((void **)&g->written, k, &g->room_written, sizeof *g->written)) return NULL;
        g->nwritten++;
    } else {
        w = g->written[k];
    }
    memmove(g->written + k, g->written + k + 1, (g->nwritten - k - 1) * sizeof w);
    g->written[g->nwritten - 1] = w;
    g->used[input] |= TD_FUSED_WRITTEN;
    return &g->written[g->nwritten - 1];
}

/* A call writes what is there. */
static bool overwrite(td_recording *r, const td_call *c, const td_tensor *t, uint32_t *operand)
{
    if (!use(r, t, operand)) return false;
    const slot *s = &r->slots[*operand];
    td_fused_written *outside = s->root.input ? written_last(r, s->root.nr) : NULL;
    if (has_own_version(r, s) || (s->root.input && !outside)) return false;
    td_fused_moves *w = outside ? &outside->writes : &r->blocks[s->root.nr].writes;
    w->times++;
    w->op = c->op->id;
    return true;
}

static bool made(td_recording *r, td_tensor *t, uint32_t *operand)
{
    if (!td_fused_grow((void **)&r->blocks, r->nblocks, &r->room_blocks, sizeof *r->blocks)) return false;
    *operand = r->nslots;
    r->blocks[r->nblocks] = (block){.bytes = t->storage->nbytes,
                                    .first = r->g->ncalls,
                                    .last = r->g->ncalls,
                                    .output = TD_FUSED_NONE,
                                    .slot = r->nslots};
    return add_slot(r, t, (slot){.root = {.nr = r->nblocks++}});
}

static td_fused_operand *add_operand(td_recording *r, const td_karg *arg)
{
    td_fused *g = r->g;
    if (!td_fused_grow((void **)&g->operands, g->noperands, &g->room_operands, sizeof *g->operands)) return NULL;
    td_fused_operand *o = &g->operands[g->noperands++];
    *o = (td_fused_operand){.arg = *arg, .base = TD_FUSED_NONE};
    return o;
}

static bool add_input(td_recording *r, const td_call *c, int i)
{
    td_fused_operand *o = add_operand(r, &c->args[i]);
    if (!o) return false;
    if (c->in[i].kind == TD_IN_ABSENT) o->arg.data = NULL, o->arg.desc = NULL;
    if (c->in[i].kind != TD_IN_TENSOR) return true;
    if (td_call_writes_input(c, i)) return overwrite(r, c, c->in[i].tensor, &o->base);
    return use(r, c->in[i].tensor, &o->base);
}

static bool add_result(td_recording *r, const td_call *c, int k)
{
    td_fused_operand *o = add_operand(r, &c->args[c->nin + k]);
    if (!o) return false;
    return c->flags & TD_CF_OUT ? overwrite(r, c, c->out[k], &o->base) : made(r, c->out[k], &o->base);
}

static bool add_operands(td_recording *r, const td_call *c)
{
    for (int k = 0; k < c->nin; k++)
        if (!add_input(r, c, k)) return false;
    if (c->cast) {
        td_fused_operand *o = add_operand(r, &c->args[c->nin]);
        if (!o || !made(r, c->cast, &o->base)) return false;
    }
    for (int k = c->cast ? 1 : 0; k < c->nout; k++)
        if (!add_result(r, c, k)) return false;
    return true;
}

/* What of it is used: most have few numbers. */
static td_attrs *copy_attrs(const td_attrs *a)
{
    td_attrs *to = malloc(offsetof(td_attrs, ints) + a->nints * sizeof a->ints[0]);
    if (to) td_attrs_copy(to, a);
    return to;
}

bool td_fused_plan_take(td_fused_plan *p, const td_kcall *k, uint32_t operands)
{
    size_t bytes = k->nphases ? k->state_bytes : 0;
    *p = (td_fused_plan){
        .operands = operands, .nphases = k->nphases, .replan = k->replan, .packing = k->packing, .state_bytes = bytes};
    p->wrote = k->wrote;
    memcpy(p->phase, k->phase, k->nphases * sizeof k->phase[0]);
    p->state = malloc(bytes + 1);
    return p->state && memcpy(p->state, k->state, bytes);
}

static void count(td_fused *g, const td_kcall *k, const char *where)
{
    g->bytes += 2 * k->state_bytes + sizeof(td_attrs) + strlen(where);
    if (g->most_args < k->nin + k->nout) g->most_args = (uint32_t)k->nin + k->nout;
    if (g->work_bytes < k->work_bytes) g->work_bytes = k->work_bytes;
    if (g->scratch_bytes < k->scratch_bytes) g->scratch_bytes = k->scratch_bytes;
    g->cost_ns += k->cost_ns;
    g->prepacks |= k->nphases && k->packing.in;
    g->ncalls++;
}

/* What a kernel's plan has, with the operands from so manieth on. */
static bool add_part(td_recording *r, const td_kcall *k, uint32_t operands, bool writes, const char *where)
{
    td_fused *g = r->g;
    if (!td_fused_grow((void **)&g->parts, g->ncalls, &g->room_parts, sizeof *g->parts)) return false;
    td_fused_part *p = &g->parts[g->ncalls];
    *p = (td_fused_part){.op = k->op, .nin = k->nin, .nout = k->nout, .compute = k->compute, .writes = writes};
    p->cost_ns = k->cost_ns;
    p->attrs = copy_attrs(k->attrs);
    p->where = strdup(where);
    if (p->attrs && p->where && td_fused_plan_take(&p->plan, k, operands)) {
        count(g, k, where);
        return true;
    }
    td_fused_part_free(p);
    return false;
}

/* What the kernel put into a temporary goes to where it should be by a part of its own, and not by the last phase. */
static bool add_copy(td_recording *r, const td_call *c, const char *where)
{
    td_fused *g = r->g;
    uint32_t operands = g->noperands;
    td_fused_part *p = &g->parts[g->ncalls - 1];
    p->plan.nphases = c->k.clean_phases;
    p->cost_ns -= c->copy->cost_ns;
    g->cost_ns -= c->copy->cost_ns;
    td_fused_operand *from = add_operand(r, &c->copy->in[0]);
    if (!from || !use(r, c->cast, &from->base) || !add_result(r, c, 0)) return false;
    return add_part(r, c->copy, operands, c->flags & TD_CF_OUT, where);
}

static bool add_call(td_recording *r, const td_call *c, const char *where)
{
    uint32_t operands = r->g->noperands;
    bool good = add_operands(r, c) && add_part(r, &c->k, operands, c->flags & TD_CF_OUT && !c->cast, where);
    if (good && c->cast) good = add_copy(r, c, where);
    r->unsure |= !c->k.sure;
    return good && !(r->unsure && r->g->nwritten);
}

/* ---- views */

static int64_t between(const td_tensor *from, const td_tensor *to)
{
    return (int64_t)((uintptr_t)td_tensor_data(to) - (uintptr_t)td_tensor_data(from));
}

/* Where a view lies follows from where its base does, unless the op says where, or counts in other elements. */
static bool moves_along(const td_op *op, const td_tensor *of, const td_tensor *view)
{
    bool alike = td_dtype_size((td_dtype)of->desc.dtype) == td_dtype_size((td_dtype)view->desc.dtype);
    return alike && op->id != TD_OP_AS_STRIDED;
}

/* Its base is what it would be as a view of its root. */
static bool is_based_on_root(const td_recording *r, const slot *s, const td_tensor *t)
{
    if (!t->view_base) return true;
    const td_tensor *root = root_of(r, s);
    return root && t->view_base == (root->view_base ? root->view_base : root);
}

static bool add_views(td_recording *r, const td_call *c)
{
    td_tensor *of = c->in[0].kind == TD_IN_TENSOR ? c->in[0].tensor : NULL;
    const slot *s = of && c->nout <= MOST_OPERANDS ? find(r, of) : NULL;
    if (!s) return false;
    slot base = *s;
    if (base.root.input) r->g->used[base.root.nr] |= TD_FUSED_USED;
    for (int k = 0; k < c->nout; k++) {
        td_tensor *t = c->out[k];
        if (find(r, t)) continue;
        slot v = base;
        v.view = true;
        v.offset += between(of, t);
        v.odd |= (c->op->flags & TD_OF_NONDIFF) || t->version != of->version || !is_based_on_root(r, &v, t);
        if (!moves_along(c->op, of, t) || !add_slot(r, t, v)) return false;
    }
    return true;
}

void td_recording_call(td_recording *r, const td_call *c, const char *where)
{
    if (r->bad) return;
    if (c->flags & TD_CF_VIEW) r->bad = !add_views(r, c);
    else r->bad = !fits(r, c) || !add_call(r, c, where);
}

bool td_recording_good(const td_recording *r)
{
    return !r->bad;
}

bool td_recording_may(const td_recording *r, const td_op *op)
{
    return !r->g->heads || op->flags & (TD_OF_POINTWISE | TD_OF_VIEW) || op->compose;
}

bool td_recording_is_full(const td_recording *r)
{
    const td_fused *g = r->g;
    if (r->sweeps || g->heads) return g->ncalls == TD_FUSED_SWEEP;
    return g->ncalls == TD_FUSED_CALLS || g->cost_ns >= TD_FUSED_NS;
}

bool td_recording_heads(const td_recording *r)
{
    return r->g->heads;
}

bool td_recording_is_worth(const td_recording *r)
{
    return r->g->ncalls >= (r->sweeps || r->g->heads ? 2 : TD_FUSED_LEAST);
}

/* ---- the end */

static bool add_output(td_recording *r, block *b)
{
    td_fused *g = r->g;
    if (b->output != TD_FUSED_NONE) return true;
    if (g->nmade == TD_MAX_OUTPUTS || !td_fused_grow((void **)&g->made, g->nmade, &g->room_made, sizeof *g->made))
        return false;
    b->output = g->nmade;
    g->made[g->nmade++] = (td_fused_made){r->slots[b->slot].desc, r->slots[b->slot].marks, b->bytes, b->writes};
    return true;
}

static uint32_t first_given(const td_fused *g, uint32_t of)
{
    uint32_t k = 0;
    while (g->given[k].slot != of) k++;
    return k;
}

/* What it gives: an input, a made tensor, or a view of such. */
static bool add_given(td_recording *r, const td_tensor *t)
{
    td_fused *g = r->g;
    slot *s = find(r, t);
    if (!s || s->odd || !td_fused_grow((void **)&g->given, g->ngiven, &g->room_given, sizeof *g->given)) return false;
    td_fused_given *o = &g->given[g->ngiven++];
    *o = (td_fused_given){.root = s->root,
                          .view = s->view,
                          .based = t->view_base,
                          .flags = t->flags & TD_FUSED_MARKS,
                          .slot = (uint32_t)(s - r->slots)};
    o->same = first_given(g, o->slot);
    if (!s->root.input && !add_output(r, &r->blocks[s->root.nr])) return false;
    if (!s->root.input) o->root.nr = r->blocks[s->root.nr].output;
    o->desc = t->desc;
    o->desc.offset = s->offset / (int64_t)td_dtype_size((td_dtype)t->desc.dtype);
    return true;
}

/* Blocks that live at once lie apart: each goes into the lowest gap between those that live when it is made. */
typedef struct living {
    uint64_t from, to;
    uint32_t last;
} living;

static uint32_t bury(living *at, uint32_t n, uint32_t call)
{
    uint32_t left = 0;
    for (uint32_t k = 0; k < n; k++)
        if (at[k].last >= call) at[left++] = at[k];
    return left;
}

static uint64_t settle(living *at, uint32_t n, const block *b)
{
    uint64_t size = td_fused_lines(b->bytes), from = 0;
    uint32_t k = 0;
    while (k < n && at[k].from < from + size) from = at[k++].to;
    memmove(at + k + 1, at + k, (n - k) * sizeof *at);
    at[k] = (living){from, from + size, b->last};
    return from;
}

static bool lay_out(td_recording *r)
{
    living *at = malloc((r->nblocks + 1) * sizeof *at);
    uint32_t n = 0;
    if (!at) return false;
    for (uint32_t k = 0; k < r->nblocks; k++) {
        block *b = &r->blocks[k];
        if (b->output != TD_FUSED_NONE || !b->bytes) continue;
        n = bury(at, n, b->first);
        b->at = settle(at, n++, b);
        uint64_t to = b->at + td_fused_lines(b->bytes);
        if (r->g->arena < to) r->g->arena = to;
    }
    free(at);
    return true;
}

static bool is_alike(const td_desc *a, const td_desc *b)
{
    size_t bytes = a->ndim * sizeof a->shape[0];
    return td_look_head(a) == td_look_head(b) && a->offset == b->offset && !memcmp(a->shape, b->shape, bytes) &&
           !memcmp(a->stride, b->stride, bytes);
}

uint32_t td_fused_desc(td_fused *g, const td_desc *d)
{
    enum { LAST = 16 };
    for (uint32_t k = g->ndescs, n = 0; k-- > 0 && n < LAST; n++)
        if (is_alike(&g->descs[k], d)) return k;
    if (!td_fused_grow((void **)&g->descs, g->ndescs, &g->room_descs, sizeof *g->descs)) return TD_FUSED_NONE;
    g->descs[g->ndescs] = *d;
    return g->ndescs++;
}

/* From slots to addresses: 0 is the arena, then come inputs, then outputs. */
static bool place_operand(td_recording *r, td_fused_operand *o)
{
    if (o->base == TD_FUSED_NONE) return true; /* a number, or nothing */
    const slot *s = &r->slots[o->base];
    const block *b = s->root.input ? NULL : &r->blocks[s->root.nr];
    o->desc = td_fused_desc(r->g, &s->desc);
    o->offset = s->offset;
    if (!b) o->base = 1 + s->root.nr;
    else if (b->output != TD_FUSED_NONE) o->base = 1 + r->g->ninputs + b->output;
    else o->base = 0, o->offset += (int64_t)b->at;
    return o->desc != TD_FUSED_NONE;
}

static bool place(td_recording *r)
{
    for (uint32_t k = 0; k < r->g->noperands; k++)
        if (!place_operand(r, &r->g->operands[k])) return false;
    return true;
}

/* ---- sweeps */

/* What is written while it goes on is cut as what it makes is. */
static bool takes(td_recording *r, td_sweep *s, const td_fused_operand *o)
{
    if (o->base == TD_FUSED_NONE) return true;
    const slot *x = &r->slots[o->base];
    bool stays = x->root.input && !(r->g->used[x->root.nr] & TD_FUSED_WRITTEN);
    return (stays || !x->offset) && td_sweep_takes(s, &x->desc, !stays);
}

/* Has another input to do with what is written? Tiles come in another order. */
static bool is_mixed(const td_recording *r)
{
    for (uint32_t k = 0; r->g->nwritten && k < r->nslots; k++) {
        const slot *x = &r->slots[k];
        if (!is_input(x) || !(r->g->used[x->root.nr] & TD_FUSED_WRITTEN)) continue;
        for (uint32_t i = 0; i < r->nslots; i++)
            if (i != k && is_input(&r->slots[i]) && r->slots[i].t->storage == x->t->storage) return true;
    }
    return false;
}

static td_fused_seen seen_of(const td_recording *r, const slot *x)
{
    td_fused_seen s = {&x->desc, (uint32_t)(x - r->slots), TD_FUSED_NONE, TD_FUSED_NONE};
    if (x->root.input) return s;
    const block *b = &r->blocks[x->root.nr];
    s.whole = b->slot;
    s.first = b->first;
    if (b->output == TD_FUSED_NONE) s.last = b->last;
    return s;
}

static bool find_runs(td_recording *r, const td_sweep *s)
{
    td_fused_seen *seen = malloc((r->nslots + 1) * sizeof *seen);
    if (!seen) return false;
    for (uint32_t k = 0; k < r->nslots; k++) seen[k] = seen_of(r, &r->slots[k]);
    bool good = td_runs_find(r->g, s, seen, r->loops);
    free(seen);
    return good;
}

/* A run reads and writes all the time: what has to do with it lives as long as it does. What begins and ends in it has
 * no memory. */
static void live_by_runs(const td_fused *g, block *b)
{
    const td_fused_run *from = td_run_of(g, b->first), *to = td_run_of(g, b->last);
    if (from && from == to && b->output == TD_FUSED_NONE) b->bytes = 0;
    if (from) b->first = from->first;
    if (to) b->last = to->first + to->ncalls - 1;
}

/* What passes from call to call takes a tile. */
static bool find_tiles(td_recording *r, td_sweep *s)
{
    bool good = !is_mixed(r) && td_sweep_begin(s, &r->whole);
    for (uint32_t k = 0; k < r->g->noperands && good; k++) good = takes(r, s, &r->g->operands[k]);
    if (!good) return false;
    td_sweep_cut(s);
    if (!s->a_tile) return false;
    if (!find_runs(r, s) || (s->broad && !td_runs_all(r->g))) return false;
    if (td_runs_all(r->g)) td_sweep_widen(s);
    for (uint32_t k = 0; k < r->nblocks; k++)
        r->blocks[k].bytes = td_sweep_tile_bytes(s, (td_dtype)r->slots[r->blocks[k].slot].desc.dtype);
    for (uint32_t k = 0; k < r->nblocks; k++) live_by_runs(r->g, &r->blocks[k]);
    return true;
}

/* ---- heads */

/* All that comes behind is one loop, over elements in their order in memory. The head's result is written where the
 * last one is, which a loop makes of it: element by element, the last of all that it writes of each. */
static bool find_tail(td_recording *r, td_sweep *s)
{
    td_fused *g = r->g;
    bool good = g->ncalls > 1 && !g->nwritten && td_sweep_begin(s, &r->whole);
    for (uint32_t k = good ? g->parts[1].plan.operands : 0; k < g->noperands && good; k++)
        good = takes(r, s, &g->operands[k]);
    if (!good || !s->flat) return false;
    s->a_tile = s->rows = 1;
    s->broad = false;
    if (!find_runs(r, s) || g->nruns != 1 || g->runs[0].first != 1 || g->runs[0].ncalls != g->ncalls - 1) return false;
    block *head = &r->blocks[0], *last = &r->blocks[r->nblocks - 1];
    if (last->first != g->ncalls - 1 || last->output == TD_FUSED_NONE || last->bytes != head->bytes) return false;
    for (uint32_t k = 1; k < r->nblocks; k++) live_by_runs(g, &r->blocks[k]);
    if (head->output == TD_FUSED_NONE) head->output = last->output;
    return true;
}

static void plan_tail(const td_sweep *s, td_fused *g)
{
    td_runs_place(g, s);
    g->cost_ns = g->parts[0].cost_ns + g->runs[0].cost_ns * (double)td_desc_numel(&s->whole);
}

/* ---- all of it */

static void finish(td_fused *g)
{
    for (uint32_t k = 0; k < g->noperands; k++)
        if (g->operands[k].base != TD_FUSED_NONE) g->operands[k].arg.desc = &g->descs[g->operands[k].desc];
    g->bytes += sizeof *g + g->room_operands * sizeof *g->operands + g->room_descs * sizeof *g->descs +
                g->room_parts * sizeof *g->parts + g->room_made * sizeof *g->made + g->room_given * sizeof *g->given +
                g->room_numbers * sizeof *g->numbers + g->room_runs * sizeof *g->runs + g->ninputs +
                g->room_written * sizeof *g->written;
    for (uint32_t k = 0; k < g->nruns; k++) g->bytes += g->runs[k].jit.bytes;
}

int td_recording_end(td_recording *r, uint32_t nouts, td_tensor *const *outs, uint32_t loops, td_fused **out,
                     td_error *e)
{
    *out = NULL;
    r->loops = loops;
    if (r->bad) return TD_OK;
    for (uint32_t k = 0; k < nouts && !r->bad; k++) r->bad = !add_given(r, outs[k]);
    td_sweep s;
    if (r->bad || (r->sweeps && !find_tiles(r, &s)) || (r->g->heads && !find_tail(r, &s))) return TD_OK;
    if (!lay_out(r) || !place(r)) return td_no_memory(e, "to plan a program");
    if (r->sweeps && !td_sweep_plan(&s, r->g)) return TD_OK;
    if (r->g->heads) plan_tail(&s, r->g);
    finish(r->g);
    *out = r->g;
    r->g = NULL;
    return TD_OK;
}
