/* Recipes: the same op on operands that look the same has the same result, and the same plan at other addresses.
 *
 * Inference and plans look at descriptors, numbers and attributes only. What fails is never remembered; ops that write
 * an input, draw random numbers or give what depends on values are not, either. A given tensor is, when it is written
 * directly and shares memory with no input but itself. */
#include "daemon/ops/recipe.h"
#include <stdlib.h>
#include <sys/mman.h>

enum { SETS = 128, WAYS = 2, HISTORIES = 4096, STATE = 192 };
_Static_assert(SETS *WAYS <= 256, "the number of one is a byte");

/* ---- how a call looks */

/* The given tensor: how it lies, and which inputs it is. */
TD_LOOK_INLINE void look_given(td_looking *l, const td_call *c)
{
    const td_tensor *out = c->out[0];
    uint64_t is = 0;
    for (int i = 0; i < c->nin; i++) is |= (uint64_t)(c->in[i].kind == TD_IN_TENSOR && c->in[i].tensor == out) << i;
    if (!td_look_room(l, TD_LOOK_OPERAND)) return;
    td_look_tensor(l, &out->desc, true);
    td_look_put(l, is);
}

TD_LOOK_INLINE void look_input(td_looking *l, const td_input *x)
{
    if (x->kind == TD_IN_TENSOR) td_look_tensor(l, &x->tensor->desc, true);
    else if (x->kind == TD_IN_NUMBER) td_look_number(l, &x->number);
    else td_look_put(l, TD_LOOK_ABSENT);
}

/* The number of words when they were kept or are the same, otherwise 0. */
TD_LOOK_INLINE int look(const td_call *c, uint64_t *words, bool keeps)
{
    td_looking l = td_look_begin(words, keeps);
    bool given = c->flags & TD_CF_OUT;
    td_look_put(&l, (uint64_t)td_prep_device(c) << 56 | (uint64_t)given << 48 | (uint64_t)c->nout << 32 |
                        (uint64_t)c->nin << 16 | c->op->id);
    if (l.differ) return 0;
    if (c->op->flags & TD_OF_VIEW) {
        if (c->in[0].kind != TD_IN_TENSOR) return 0;
        td_look_put(&l, (uint64_t)c->in[0].tensor->desc.offset);
    }
    for (int i = 0; i < c->nin; i++) {
        if (i >= 2 && !td_look_room(&l, TD_LOOK_OPERAND)) return 0; /* two always fit */
        look_input(&l, &c->in[i]);
    }
    if (given) look_given(&l, c);
    td_look_attrs(&l, &c->attrs);
    return !td_look_good(&l) ? 0 : keeps ? (int)(l.at - words) : 1;
}

/* Does it write what is given directly, and share its memory with no input but itself? */
static bool given_alone(const td_call *c)
{
    const td_storage *s = c->out[0]->storage;
    if (c->nout != 1 || c->nin > 64 || s->flags & TD_SF_READONLY) return false;
    for (int i = 0; i < c->nin; i++)
        if (td_call_in_storage(c, i) == s && c->in[i].tensor != c->out[0]) return false;
    return true;
}

/* Does what it gives follow from how it looks? */
static inline bool is_plain(const td_call *c)
{
    const td_op *op = c->op;
    if (op->flags & (TD_OF_DATA_SHAPE | TD_OF_RANDOM) || op->mutates || !c->nout) return false;
    if (op->flags & TD_OF_VIEW) return !(c->flags & TD_CF_OUT) && c->nin && c->in[0].kind == TD_IN_TENSOR;
    return !(c->flags & TD_CF_OUT) || given_alone(c);
}

TD_LOOK_INLINE bool fits(const td_recipe *r, const td_call *c)
{
    return r->nout && look(c, (uint64_t *)r->look, false);
}

/* ---- making */

static void make_plan(td_recipe *r, const td_kcall *k)
{
    r->replan = k->replan;
    if (!r->replan) return;
    r->nphases = k->nphases;
    r->clean_phases = k->clean_phases;
    memcpy(r->phase, k->phase, k->nphases * sizeof k->phase[0]);
    r->scratch_bytes = k->scratch_bytes;
    r->work_bytes = k->work_bytes;
    r->light = td_prep_light(k);
    r->cost_ns = k->cost_ns;
    r->lasting = k->lasting;
    r->sure = k->sure;
    r->wrote = k->wrote;
    r->packing = k->packing;
    r->state_bytes = k->state_bytes > STATE ? k->state_bytes : STATE;
    memcpy(r->state, k->state, r->state_bytes);
}

/* How the call looked when it came: td_ops_prepare has set how many outputs there are. */
static int looked(const td_prep *p, uint64_t *words)
{
    uint16_t nout = p->c->nout;
    if (nout > TD_RECIPE_OUTS || p->through) return 0;
    p->c->nout = p->room;
    int n = look(p->c, words, true);
    p->c->nout = nout;
    return n;
}

static void make(td_recipe *r, const td_prep *p, int nwords, const uint64_t *words)
{
    const td_call *c = p->c;
    r->nwords = (uint16_t)nwords;
    memcpy(r->look, words, (size_t)nwords * sizeof *words);
    r->compute = (uint8_t)p->f.compute;
    r->device = c->k.device;
    for (int o = 0; o < c->nout; o++) {
        r->out[o] = p->f.out[o];
        r->bytes[o] = c->out[o]->storage->nbytes;
    }
    r->replan = NULL;
    if (!(c->flags & TD_CF_VIEW)) make_plan(r, &c->k);
    r->nout = c->nout;
}

/* ---- binding */

static int bind_views(const td_recipe *r, td_call *c, td_error *e)
{
    td_tensor *base = c->in[0].tensor;
    int rc = 0;
    c->flags |= TD_CF_VIEW;
    for (int o = 0; o < r->nout && !rc; o++) rc = td_desc_check(&r->out[o], base->storage->nbytes, e);
    for (int o = 0; o < r->nout && !rc; o++)
        rc = td_tensor_view(&c->out[o], base, &r->out[o], td_prep_place(c).account, e);
    return rc;
}

/* The plan as it was, at this call's addresses: all that td_prep_choose would find. */
static void replan(const td_recipe *r, td_kcall *k)
{
    k->nphases = r->nphases;
    k->clean_phases = r->clean_phases;
    for (int i = 0; i < r->nphases; i++) k->phase[i] = r->phase[i];
    k->scratch_bytes = r->scratch_bytes;
    k->work_bytes = r->work_bytes;
    k->cost_ns = r->cost_ns;
    k->lasting = r->lasting;
    k->sure = r->sure;
    k->replan = r->replan;
    k->state_bytes = r->state_bytes;
    k->wrote = r->wrote;
    k->packing = r->packing;
    k->work = NULL;
    k->prepack = NULL;
    if (r->state_bytes == STATE) memcpy(k->state, r->state, STATE); /* a size that is known: moves in a row, no call */
    else memcpy(k->state, r->state, r->state_bytes);
    r->replan(k);
}

static int bind_kernel(const td_recipe *r, td_call *c, td_need *need, td_error *e)
{
    td_place place = td_prep_place(c);
    int rc = 0;
    for (int o = 0; o < r->nout && !(c->flags & TD_CF_OUT) && !rc; o++)
        rc = td_prep_make(&place, &r->out[o], r->bytes[o], &c->out[o], need, e);
    if (rc) return rc;
    td_prep_input_args(c, (td_dtype)r->compute);
    for (int o = 0; o < r->nout; o++) td_prep_arg(&c->args[c->nin + o], c->out[o]);
    td_prep_operands(c, r->compute, r->device);
    if (r->replan) replan(r, &c->k);
    else rc = td_prep_choose(c, need, e);
    if (!rc && !r->replan && c->k.wants_rows) /* the way that it went when it was remembered could not be made again */
        return td_no_memory(e, "to plan %s", c->op->name);
    if (rc || (r->replan && r->light)) return rc;
    return td_prep_charge(c, need, e);
}

static void drop_outputs(const td_recipe *r, td_call *c)
{
    c->flags &= ~(uint32_t)TD_CF_VIEW;
    for (int o = 0; o < r->nout && !(c->flags & TD_CF_OUT); o++) {
        td_tensor_unref(c->out[o]);
        c->out[o] = NULL;
    }
}

int td_recipe_bind(const td_recipe *r, td_call *c, td_need *need, td_error *e)
{
    c->nout = r->nout;
    int rc = c->op->flags & TD_OF_VIEW ? bind_views(r, c, e) : bind_kernel(r, c, need, e);
    if (rc) drop_outputs(r, c);
    return rc;
}

/* ---- those that are kept */

/* `after` guesses: which was found the last time after the same few before it. Programs do the same things in the same
 * order. */
typedef struct book {
    unsigned history;
    uint8_t after[HISTORIES];
    uint8_t made[SETS];
    td_recipe recipe[SETS * WAYS];
} book;

/* Made with the first call, and gone with the daemon: a thread that is no loop has none. */
static _Thread_local book *loop_book;

static inline void found(book *b, uint8_t at)
{
    b->after[b->history] = at;
    b->history = (b->history << 4 ^ at) % HISTORIES; /* the last three */
}

static unsigned set_of(int n, const uint64_t *words)
{
    uint64_t h = 0;
    for (int i = 0; i < n; i++) h = (h ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15), h ^= h >> 32;
    return h % SETS;
}

/* Where the one that fits is, or -1. */
static __attribute__((noinline)) int search(const book *b, const td_call *c)
{
    uint64_t words[TD_LOOK_WORDS];
    int n = look(c, words, true);
    if (!n) return -1;
    unsigned from = set_of(n, words) * WAYS;
    for (unsigned i = from; i < from + WAYS; i++) {
        const td_recipe *r = &b->recipe[i];
        if (r->nout && r->nwords == n && !memcmp(r->look, words, (size_t)n * sizeof *words)) return (int)i;
    }
    return -1;
}

/* Mapped, for pages of their own come one by one, when a recipe is put there. */
static book *book_new(void)
{
    void *b = mmap(NULL, sizeof(book), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return b == MAP_FAILED ? NULL : b;
}

const td_recipe *td_recipe_find(const td_call *c)
{
    book *b = loop_book;
    if (!b || !is_plain(c)) return NULL;
    int at = b->after[b->history];
    if (!fits(&b->recipe[at], c)) at = search(b, c);
    if (at < 0) return NULL;
    found(b, (uint8_t)at);
    return &b->recipe[at];
}

void td_recipes_forget(void)
{
    if (loop_book) munmap(loop_book, sizeof *loop_book);
    loop_book = NULL;
}

void td_recipe_keep(const td_prep *p)
{
    uint64_t words[TD_LOOK_WORDS];
    int n = is_plain(p->c) ? looked(p, words) : 0;
    if (!n) return;
    if (!loop_book && !(loop_book = book_new())) return;
    unsigned set = set_of(n, words), at = set * WAYS + loop_book->made[set]++ % WAYS;
    make(&loop_book->recipe[at], p, n, words);
    found(loop_book, (uint8_t)at);
}
