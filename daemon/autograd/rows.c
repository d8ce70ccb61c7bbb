/* Rows: nodes of a backward that follow each other, run as one call (daemon/ops/fused.h) when a graph that looks like
 * this one has been gone through before.
 *
 * What a backward computes follows from how its graph looks: ops, attributes, what leads where, what the saved tensors
 * are like. So the nodes that come next are taken in their order, which depends on nothing else, and described in
 * words. The first time words are only known again, the second time the calls that the nodes come to are recorded, from
 * then on they are one call: no formula is run, nothing inferred, no gradient between two of the nodes is made. Who
 * owns the graph does not matter: nothing of it is kept but how it looks.
 *
 * A row that does not fit, or lacks memory as a whole, is run node by node; so is all that asks hooks, is itself
 * recorded, looks for NaN, or makes values again. */
#include "daemon/autograd/rows.h"
#include "proto/ops/look.h"

#include <stdlib.h>
#include <string.h>

enum {
    NODES = 64, /* of a row, at most */
    LEAST = 3,
    MENTIONS = 400, /* nodes that it is about: its own, and where their gradients go */
    INPUTS = 320,
    OUTS = 128,
    WORDS = 16384, /* of a row, at most; and of a node: */
    NODE_WORDS = 6144,
    EDGES = 16, /* of a node, at most */
    GIVES = 8,
    LARGE = 1 << 14,   /* elements: the ops of such a node are tasks of their own */
    PRODUCT = 1 << 20, /* multiplications: so are those */
    SETS = 256,
    WAYS = 4,        /* rows that are known */
    KEPT = 16 << 20, /* bytes of these */
    PATIENCE = 64,   /* so many unknown ones of one issuer in a row: its graphs look different each time, ... */
    SELDOM = 16,     /* ... and only each so manieth backward of its own is looked at */
    PARTS = 512,     /* words of a node's shapes and attributes */
    DESCRIBED = 3    /* steps that a node costs which is described, or run in a row */
};

/* A gradient that is there behind a row. */
typedef struct row_out {
    uint16_t mention, nr;
    bool fresh;
} row_out;

typedef struct known {
    uint64_t hash, used;
    uint64_t *words; /* NULL: it was seen once */
    td_fused *fused; /* NULL: node by node */
    row_out *outs;
    size_t bytes;
    uint32_t nwords;
    uint16_t length, nouts;        /* nodes that are run; nouts: room, where there is a fused call */
    bool known, recorded, stopped; /* stopped: the node behind cannot be in a row */
} known;

static _Thread_local struct {
    known *at; /* SETS * WAYS */
    uint64_t clock;
    size_t bytes;
    uint32_t serial;
} loop_rows;

struct td_row {
    uint32_t serial;
    uint32_t n, next; /* nodes that were taken, and have been run */
    uint32_t until;   /* those before this one are run before the next row is looked for */
    uint32_t described;
    uint32_t ninputs, nmentions;
    uint32_t at[NODES];
    uint32_t mentions[MENTIONS];
    uint16_t inputs_by[NODES], mentions_by[NODES]; /* how many there were when this node had been described */
    td_tensor *inputs[INPUTS]; /* borrowed; while it is recorded those from `added` on are counted */
    /* while it is recorded */
    td_recording *recording;
    uint32_t added;
    uint64_t hash;
    uint64_t *words;
    uint32_t nwords;
    bool stops;
};

/* ---- words */

static _Thread_local uint64_t loop_words[WORDS];

typedef struct writing {
    td_backward *b;
    td_row *r;
    uint64_t *at;
    bool good;
} writing;

static _Thread_local struct {
    const td_tensor *t;
    uint32_t serial, nr;
} loop_seen[1024];
_Static_assert(2 * INPUTS <= 1024, "there is always a free place");

/* There is room: a node is begun when the most that it can be described with fits in. */
static inline void put(writing *w, uint64_t word)
{
    *w->at++ = word;
}

static void put_tensor(writing *w, const td_tensor *t)
{
    td_looking l = {w->at, loop_words + WORDS, true, false, 0};
    td_look_put(&l, (uint64_t)(t->flags & (TD_FUSED_MARKS | TD_TF_FRESH)) << 8 | (t->view_base != NULL));
    td_look_tensor(&l, &t->desc, true);
    w->at = l.at;
}

static void put_number(writing *w, const td_scalar *s)
{
    td_looking l = {w->at, loop_words + WORDS, true, false, 0};
    td_look_number(&l, s);
    w->at = l.at;
}

/* One that comes from before the row; a tensor that comes again is known by its number. */
static void put_input(writing *w, td_tensor *t)
{
    enum { MASK = sizeof loop_seen / sizeof loop_seen[0] - 1 };
    td_row *r = w->r;
    size_t k = (uintptr_t)t / 64 * UINT64_C(0x9e3779b97f4a7c15) >> 54;
    while (loop_seen[k].serial == r->serial && loop_seen[k].t != t) k = (k + 1) & MASK;
    if (loop_seen[k].serial == r->serial) {
        put(w, (uint64_t)loop_seen[k].nr << 8 | 1);
        return;
    }
    if (r->ninputs == INPUTS || t->desc.device != TD_CPU || t->storage->poison) {
        w->good = false;
        return;
    }
    loop_seen[k].t = t, loop_seen[k].serial = r->serial, loop_seen[k].nr = r->ninputs;
    r->inputs[r->ninputs++] = t;
    put(w, 2);
    put_tensor(w, t);
}

/* What hangs on a node when it is first spoken of: what its gradients have to be like, and those that are there. */
static void put_first(writing *w, const td_bnode *bn)
{
    const td_node *n = bn->node;
    put(w, (uint64_t)n->nout << 8 | 3);
    for (int o = 0; o < n->nout && w->good; o++) {
        const td_shape *s = &n->outs[o];
        put(w, (uint64_t)s->dtype << 24 | (uint64_t)s->device << 16 | (uint64_t)s->ndim << 8 | s->open);
        for (int d = 0; d < s->ndim; d++) put(w, (uint64_t)n->ints[s->at + (uint32_t)d]);
        if (bn->grad && bn->grad[o]) put_input(w, bn->grad[o]);
        else put(w, 0);
    }
}

static void put_node(writing *w, uint32_t at)
{
    td_row *r = w->r;
    td_bnode *bn = &w->b->nodes[at];
    if (bn->row == r->serial) {
        put(w, (uint64_t)bn->mention << 8 | 4);
        return;
    }
    if (r->nmentions == MENTIONS || bn->node->nout > GIVES) {
        w->good = false;
        return;
    }
    bn->row = r->serial;
    bn->mention = r->nmentions;
    r->mentions[r->nmentions++] = at;
    put_first(w, bn);
}

/* Its shapes, attributes, and which inputs it had: they lie one behind the other. */
static void put_parts(writing *w, const td_node *n)
{
    const unsigned char *from = (const unsigned char *)n->ints, *end = (const unsigned char *)n + n->bytes;
    put(w, (uint64_t)(end - from) << 8 | 5);
    if (end - from > PARTS * (int64_t)sizeof(uint64_t)) {
        w->good = false;
        return;
    }
    for (; from < end; from += sizeof(uint64_t)) {
        uint64_t word = 0;
        size_t left = (size_t)(end - from);
        memcpy(&word, from, left < sizeof word ? left : sizeof word);
        put(w, word);
    }
}

/* What the gradients that are wanted use of it. */
static void put_saved(writing *w, const td_node *n, uint32_t inputs, uint32_t outputs)
{
    const td_op *op = td_op_by_id(n->op);
    for (int k = 0; k < n->nsaved && w->good; k++) {
        const td_saved *s = &n->saved[k];
        int p = s->output ? s->index : td_op_param_of(op, n->nin, s->index);
        put(w, (uint64_t)s->index << 16 | (uint64_t)s->output << 8 | s->kind);
        if (s->kind == TD_SV_NUMBER) {
            put_number(w, &s->number);
        } else if (((s->output ? outputs : inputs) >> p & 1) && s->kind != TD_SV_NONE) {
            td_error stale = {0};
            w->good &= s->kind == TD_SV_TENSOR && !td_saved_check(n, s, &stale);
            if (w->good) put_input(w, s->tensor);
        } else {
            put(w, 6);
        }
    }
}

/* Node `at` is what comes next. */
static bool describe(writing *w, uint32_t at)
{
    td_node *n = w->b->nodes[at].node;
    put_node(w, at);
    put(w, (uint64_t)n->kind << 48 | (uint64_t)n->op << 32 | (uint64_t)n->nin << 16 | n->nsaved);
    if (n->kind == TD_N_LEAF) return w->good;
    if (n->flags || n->retains) return false; /* turns may have passed since it was taken */
    const td_op *op = td_op_by_id(n->op);
    const td_formula *f = td_formula_of(op);
    uint32_t inputs = 0, outputs = 0;
    put_parts(w, n);
    for (int i = 0; i < n->nin && w->good; i++) {
        uint32_t child = td_backward_child(w->b, n, i);
        put(w, child == UINT32_MAX ? 0 : n->edges[i].nr + UINT64_C(1));
        if (child == UINT32_MAX) continue;
        const td_fsaves *s = f ? &f->saves[td_op_param_of(op, n->nin, i)] : NULL;
        w->good &= s && s->exists;
        if (w->good) inputs |= s->inputs, outputs |= s->outputs, put_node(w, child);
    }
    put_saved(w, n, inputs, outputs);
    return w->good;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 x = (unsigned __int128)(a ^ UINT64_C(0x9e3779b97f4a7c15)) * (b ^ UINT64_C(0x243f6a8885a308d3));
    return (uint64_t)x ^ (uint64_t)(x >> 64);
}

static uint64_t hash_of(const uint64_t *words, uint32_t n)
{
    uint64_t hash = n;
    for (; n >= 2; n -= 2, words += 2) hash = mix(words[0] ^ hash, words[1]);
    return n ? mix(*words ^ hash, 0) : hash;
}

/* ---- what is known */

static void forget(known *k)
{
    loop_rows.bytes -= k->bytes;
    td_fused_unref(k->fused);
    free(k->words);
    free(k->outs);
    *k = (known){0};
}

void td_rows_forget(void)
{
    for (int k = 0; loop_rows.at && k < SETS * WAYS; k++) forget(&loop_rows.at[k]);
    free(loop_rows.at);
    loop_rows.at = NULL;
    loop_rows.bytes = 0;
}

static known *find(uint64_t hash, const uint64_t *words, uint32_t nwords)
{
    known *set = loop_rows.at + hash % SETS * WAYS;
    for (known *k = set; k < set + WAYS; k++) {
        if (!k->known || k->hash != hash || k->nwords != nwords) continue;
        if (k->words && memcmp(k->words, words, nwords * sizeof *words) != 0) continue;
        k->used = ++loop_rows.clock;
        return k;
    }
    return NULL;
}

/* In the place of the one of its set that was used least lately. */
static known *learn(uint64_t hash, uint32_t nwords)
{
    known *set = loop_rows.at + hash % SETS * WAYS, *least = set;
    for (known *k = set; k < set + WAYS; k++) {
        if (k->known && k->hash == hash && k->nwords == nwords) {
            least = k;
            break;
        }
        if (k->used < least->used) least = k;
    }
    forget(least);
    *least = (known){.known = true, .hash = hash, .nwords = nwords, .used = ++loop_rows.clock};
    return least;
}

static void make_room(void)
{
    static _Thread_local uint32_t loop_hand;
    for (int k = 0; k < SETS * WAYS && loop_rows.bytes > KEPT; k++) forget(&loop_rows.at[loop_hand++ % (SETS * WAYS)]);
}

/* ---- recording */

static void stop_recording(td_row *r)
{
    if (!r->recording) return;
    td_recording_free(r->recording);
    r->recording = NULL;
    free(r->words);
    r->words = NULL;
    for (uint32_t k = r->added; k < r->ninputs; k++) td_tensor_unref(r->inputs[k]);
}

static void begin_recording(td_row *r, uint64_t hash, uint32_t nwords)
{
    r->words = malloc((nwords + 1) * sizeof *r->words);
    if (!r->words) return;
    if (td_recording_new(&r->recording, NULL)) {
        free(r->words);
        r->words = NULL;
        return;
    }
    memcpy(r->words, loop_words, nwords * sizeof *r->words);
    r->hash = hash;
    r->nwords = nwords;
    r->added = 0;
    for (uint32_t k = 0; k < r->ninputs; k++) td_tensor_ref(r->inputs[k]);
}

/* Those of the node that comes next. False: there is no room. */
static bool add_inputs(td_row *r)
{
    bool good = true;
    for (; r->added < r->inputs_by[r->next]; r->added++) {
        td_tensor *t = r->inputs[r->added];
        good &= td_recording_input(r->recording, t);
        td_tensor_unref(t);
    }
    return good;
}

static uint16_t take_outs(const td_backward *b, const td_row *r, row_out *outs, td_tensor **tensors)
{
    uint32_t n = 0;
    for (uint32_t m = 0; m < r->mentions_by[r->next - 1]; m++) {
        const td_bnode *bn = &b->nodes[r->mentions[m]];
        for (int o = 0; bn->grad && o < bn->node->nout; o++) {
            td_tensor *g = bn->grad[o];
            if (!g) continue;
            if (n == OUTS) return OUTS + 1;
            outs[n] = (row_out){(uint16_t)m, (uint16_t)o, g->flags & TD_TF_FRESH};
            tensors[n++] = g;
        }
    }
    return (uint16_t)n;
}

static void make(const td_backward *b, td_row *r, known *k)
{
    row_out outs[OUTS];
    td_tensor *tensors[OUTS];
    uint16_t n = take_outs(b, r, outs, tensors);
    if (n > OUTS || !td_recording_is_worth(r->recording)) return;
    row_out *kept = malloc((n + 1u) * sizeof *kept);
    if (kept && !td_recording_end(r->recording, n, tensors, UINT32_MAX, &k->fused, NULL) && k->fused) {
        memcpy(kept, outs, n * sizeof *outs);
        k->outs = kept;
        k->nouts = n;
        k->bytes = r->nwords * sizeof *r->words + n * sizeof *outs + td_fused_bytes(k->fused);
        k->words = r->words;
        r->words = NULL;
        loop_rows.bytes += k->bytes;
        return;
    }
    free(kept);
}

/* What was recorded ends before r->next; stopped: that one cannot be in a row. */
static void finish(td_backward *b, td_row *r, bool stopped)
{
    known *k = learn(r->hash, r->nwords);
    k->recorded = true;
    k->length = (uint16_t)r->next;
    k->stopped = stopped;
    make(b, r, k);
    stop_recording(r);
    r->until = r->next + stopped;
    make_room();
}

/* The node that was run last is why nothing comes of what is recorded: next time it ends before that. */
static void cut(td_row *r)
{
    known *k = learn(r->hash, r->nwords);
    k->length = (uint16_t)(r->next - 1);
    k->stopped = true;
    stop_recording(r);
    r->until = r->next;
}

/* ---- taking nodes */

static bool is_off(const td_backward *b)
{
    const char *said = getenv("TENSORD_PLANS");
    if (said && !strcmp(said, "0")) return true; /* for who compares */
    return b->calls || b->nremades || b->flags & (TD_BW_CREATE_GRAPH | TD_BW_ANOMALY);
}

static double elements(const td_node *n, const td_shape *s)
{
    double all = 1;
    for (int d = 0; d < s->ndim; d++) all *= (double)n->ints[s->at + (uint32_t)d];
    return all;
}

/* Will its ops be tasks that others can work beside? */
static bool is_large(const td_node *n)
{
    double given = 0, product = 1;
    int factors = 0;
    for (int o = 0; o < n->nout; o++) given += elements(n, &n->outs[o]);
    if (given > LARGE) return true;
    for (int k = 0; k < n->nsaved; k++) {
        if (n->saved[k].kind != TD_SV_TENSOR) continue;
        double all = (double)td_desc_numel(&n->saved[k].tensor->desc);
        if (all > 16 * LARGE) return true;
        product *= all;
        factors++;
    }
    bool pointwise = td_op_by_id(n->op)->flags & TD_OF_POINTWISE;
    return factors >= 2 && !pointwise && product * given > (double)PRODUCT * PRODUCT;
}

static bool may_be_in_row(const td_bnode *bn)
{
    const td_node *n = bn->node;
    if (n->kind == TD_N_LEAF) return true;
    if (n->kind != TD_N_OP || bn->past || bn->captured || n->flags || n->retains) return false;
    return n->nin <= EDGES && n->nout <= GIVES && !is_large(n);
}

/* What it leads to waits for it no longer: its place in the order is taken. */
static void release(td_backward *b, uint32_t at)
{
    const td_node *n = b->nodes[at].node;
    for (int i = 0; i < n->nin; i++) {
        uint32_t child = td_backward_child(b, n, i);
        if (child != UINT32_MAX && !--b->nodes[child].deps) td_ready_push(b, child);
    }
    b->nodes[at].released = true;
}

/* The row begins with those that were taken and not run. */
static void take(td_backward *b, td_row *r)
{
    r->n -= r->next;
    memmove(r->at, r->at + r->next, r->n * sizeof *r->at);
    r->next = 0;
    bool open = !r->n || b->nodes[r->at[r->n - 1]].rows;
    while (open && r->n < NODES && b->nready) {
        uint32_t at = r->at[r->n++] = td_ready_pop(b);
        release(b, at);
        open = b->nodes[at].rows = may_be_in_row(&b->nodes[at]);
    }
}

static void begin_words(td_backward *b, td_row *r, writing *w)
{
    if (!++loop_rows.serial) loop_rows.serial = 1;
    r->serial = loop_rows.serial;
    r->ninputs = r->nmentions = 0;
    *w = (writing){b, r, loop_words, true};
    put(w, (uint64_t)(b->flags & TD_BW_ACCUMULATE) << 8 | 7);
}

/* So many nodes as fit. Their number of words. */
static uint32_t describe_all(td_backward *b, td_row *r)
{
    writing w;
    uint64_t *end = loop_words, *last = loop_words + WORDS - NODE_WORDS;
    begin_words(b, r, &w);
    for (r->described = 0; r->described < r->n; r->described++) {
        uint32_t at = r->at[r->described];
        if (!b->nodes[at].rows || w.at > last || !describe(&w, at)) break;
        end = w.at;
        r->inputs_by[r->described] = (uint16_t)r->ninputs;
        r->mentions_by[r->described] = (uint16_t)r->nmentions;
    }
    if (r->described) r->ninputs = r->inputs_by[r->described - 1], r->nmentions = r->mentions_by[r->described - 1];
    return (uint32_t)(end - loop_words);
}

/* ---- running */

static void nothing(td_call *c)
{
    (void)c;
}

static bool make_places(const td_backward *b, const td_row *r, const known *k)
{
    for (uint32_t o = 0; o < k->nouts; o++) {
        td_bnode *bn = &b->nodes[r->mentions[k->outs[o].mention]];
        if (!bn->grad) bn->grad = bn->node->nout == 1 ? &bn->only : calloc(bn->node->nout, sizeof *bn->grad);
        if (!bn->grad) return false;
    }
    return true;
}

/* The nodes are behind us. */
static void go_behind(td_backward *b, td_row *r, const known *k, td_tensor **outs)
{
    for (uint32_t i = 0; i < k->length; i++) {
        td_bnode *bn = &b->nodes[r->at[i]];
        if (bn->node->kind == TD_N_LEAF) continue;
        td_bnode_let_go(bn);
        td_backward_unpin_node(b, bn);
        if (!(b->flags & TD_BW_RETAIN)) td_node_free_saved(bn->node);
    }
    for (uint32_t o = 0; o < k->nouts; o++) {
        const row_out *to = &k->outs[o];
        td_bnode *bn = &b->nodes[r->mentions[to->mention]];
        td_tensor *old = bn->grad[to->nr];
        bn->grad[to->nr] = outs[o];
        if (to->fresh) outs[o]->flags |= TD_TF_FRESH;
        else outs[o]->flags &= ~TD_TF_FRESH;
        td_tensor_unref(old);
    }
    for (uint32_t i = 0; i < k->length; i++) {
        if (b->nodes[r->at[i]].node->kind != TD_N_LEAF) continue;
        td_backward_capture(b, r->at[i]);
        b->leaves[b->nleaves++] = r->at[i];
    }
    r->next = k->length;
    r->until = k->length + k->stopped;
    b->debt += DESCRIBED * k->length;
}

static int run(td_backward *b, td_row *r, const known *k, bool *ran, td_error *e)
{
    td_tensor *outs[OUTS];
    td_eval *v = &b->eval;
    if (!make_places(b, r, k)) return td_no_memory(e, "for a gradient");
    int rc = td_fused_call(k->fused, b->who, r->inputs, outs, "", nothing, v->need, e);
    if (!rc) go_behind(b, r, k, outs);
    *ran = rc != TD_E_MEMORY && rc != TD_E_QUOTA;
    if (*ran) return td_eval_failed(v, rc);
    td_error_clear(e); /* node by node it needs less at once */
    r->until = k->length;
    return 0;
}

/* ---- */

/* At a node that was not run. */
static int look_for_row(td_backward *b, td_row *r, bool *ran, td_error *e)
{
    take(b, r);
    uint32_t nwords = describe_all(b, r);
    b->debt += DESCRIBED * r->n;
    r->until = r->described + (r->described < r->n);
    if (r->described < LEAST) return 0;
    uint64_t hash = hash_of(loop_words, nwords);
    known *k = find(hash, loop_words, nwords);
    if (!k) {
        learn(hash, nwords)->length = (uint16_t)r->described;
        b->who->strange_rows++;
        return 0;
    }
    b->who->strange_rows = 0;
    if (k->length > r->described) return 0; /* of another that has the same hash */
    if (k->fused) return run(b, r, k, ran, e);
    r->until = k->length + (k->stopped || r->until == k->length + 1);
    if (k->recorded || k->length < LEAST) return 0;
    r->stops = k->stopped;
    r->described = k->length;
    begin_recording(r, hash, nwords);
    return 0;
}

/* The first time. */
static td_row *row_of(td_backward *b)
{
    if (b->row || b->rowless) return b->row;
    b->rowless = is_off(b) || (b->who->strange_rows > PATIENCE && ++b->who->strange_backwards % SELDOM);
    if (b->rowless) return NULL;
    if (!loop_rows.at) loop_rows.at = calloc(SETS * WAYS, sizeof *loop_rows.at);
    td_row *r = loop_rows.at ? b->row = malloc(sizeof *r) : NULL;
    if (r) r->n = r->next = r->until = 0, r->recording = NULL, r->words = NULL;
    return r;
}

int td_row_before(td_backward *b, bool *ran, td_error *e)
{
    td_row *r = row_of(b);
    int rc = 0;
    *ran = false;
    if (!r) return 0;
    if (!r->recording && (r->next >= r->until || r->next == r->n)) rc = look_for_row(b, r, ran, e);
    if (r->recording && !add_inputs(r)) stop_recording(r); /* no memory: next time */
    b->eval.recording = r->recording;
    return rc;
}

uint32_t td_row_pop(td_backward *b)
{
    td_row *r = b->row;
    return r && r->next < r->n ? r->at[r->next] : td_ready_pop(b);
}

bool td_row_has(const td_backward *b)
{
    return b->row && b->row->next < b->row->n;
}

void td_row_after(td_backward *b)
{
    td_row *r = b->row;
    if (!r || r->next >= r->n) return;
    r->next++;
    if (!r->recording) return;
    td_recording_let_go(r->recording);
    if (!td_recording_good(r->recording)) cut(r);
    else if (r->next == r->described) finish(b, r, r->stops);
    else if (td_recording_is_full(r->recording)) finish(b, r, false);
    b->eval.recording = r->recording;
}

void td_row_drop(td_backward *b)
{
    if (!b->row) return;
    stop_recording(b->row);
    free(b->row);
    b->row = NULL;
}
