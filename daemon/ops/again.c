/* The same op on operands that look the same: its result and its plan are remembered.
 *
 * Inference and plans look at descriptors, numbers and attributes only. So a call that agrees in all of these with a
 * remembered one, byte for byte, gets the same result, and the same plan at other addresses. What fails is never
 * remembered; views, given outputs, ops that write an input or draw random numbers are not, either. Loop thread only.
 */
#include "daemon/ops/prepare.h"
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 128, INPUTS = 3, DIMS = 4, ATTRS = 4, INTS = 8, STATE = 256 };

typedef struct known_input {
    uint8_t kind;
    uint32_t head; /* dtype, ndim, device, layout */
    int64_t shape[DIMS], stride[DIMS];
    td_scalar number;
} known_input;

struct td_again {
    const td_op *op; /* NULL: empty */
    uint16_t nin, nattrs, nints;
    known_input in[INPUTS];
    td_attr attrs[ATTRS];
    int64_t ints[INTS];
    td_desc out;
    uint64_t bytes; /* of its storage */
    td_dtype compute;
    /* the plan, when it has one phase and can be moved */
    td_replan_fn replan;
    td_chunk_fn chunk;
    int64_t chunks;
    size_t scratch_bytes;
    double cost_ns;
    uint8_t nphases;
    _Alignas(16) unsigned char state[STATE];
};

/* Made with the first call: a thread that is no loop has none. */
static _Thread_local td_again *loop_known;

static uint32_t head_of(const td_desc *d)
{
    uint32_t head;
    _Static_assert(offsetof(td_desc, layout) == offsetof(td_desc, dtype) + 3, "four bytes in a row");
    memcpy(&head, &d->dtype, sizeof head);
    return head;
}

static uint64_t number_bits(td_scalar s)
{
    uint64_t bits;
    memcpy(&bits, &s.re, sizeof bits);
    return s.kind <= TD_S_INT ? (uint64_t)s.i : bits;
}

/* Calls that differ in what often differs should not push each other out. */
static uint64_t hash_of(const td_call *c)
{
    uint64_t h = c->op->id;
    for (int i = 0; i < c->nin; i++) {
        const td_input *x = &c->in[i];
        h *= UINT64_C(0x9E3779B97F4A7C15);
        const td_desc *d = x->kind == TD_IN_TENSOR ? &x->tensor->desc : NULL;
        if (d) h += head_of(d) + (d->ndim ? (uint64_t)d->shape[0] : 0);
        else if (x->kind == TD_IN_NUMBER) h += number_bits(x->number);
    }
    return h * UINT64_C(0x9E3779B97F4A7C15) >> 57;
}

td_again *td_again_of(const td_call *c)
{
    _Static_assert(ENTRIES == 1 << 7, "the hash has as many bits");
    const unsigned never = TD_OF_VIEW | TD_OF_DATA_SHAPE | TD_OF_RANDOM;
    if (c->nin > INPUTS || c->nout != 1 || c->op->nouts != 1 || c->op->flags & never || c->flags & TD_CF_OUT)
        return NULL;
    if (!loop_known) loop_known = calloc(ENTRIES, sizeof *loop_known);
    return loop_known ? &loop_known[hash_of(c)] : NULL;
}

static bool same_tensor(const known_input *k, const td_desc *d)
{
    if (k->head != head_of(d)) return false;
    for (int j = 0; j < d->ndim; j++)
        if (k->shape[j] != d->shape[j] || k->stride[j] != d->stride[j]) return false;
    return true;
}

static bool same_input(const known_input *k, const td_input *x)
{
    if (k->kind != x->kind) return false;
    if (x->kind == TD_IN_TENSOR) return same_tensor(k, &x->tensor->desc);
    return x->kind == TD_IN_ABSENT || td_scalar_same(&k->number, &x->number);
}

static bool same_attr(const td_again *m, const td_attr *k, const td_attrs *attrs, const td_attr *a)
{
    if (a->kind != TD_A_INTS) return td_attr_same(k, a);
    return k->kind == TD_A_INTS && k->count == a->count && k->first == a->first &&
           !memcmp(m->ints + k->first, attrs->ints + a->first, a->count * sizeof m->ints[0]);
}

bool td_again_fits(const td_again *m, const td_call *c)
{
    if (m->op != c->op || m->nin != c->nin || m->nattrs != c->attrs.count || m->nints != c->attrs.nints) return false;
    for (int i = 0; i < c->nin; i++)
        if (!same_input(&m->in[i], &c->in[i])) return false;
    for (int k = 0; k < m->nattrs; k++)
        if (!same_attr(m, &m->attrs[k], &c->attrs, &c->attrs.at[k])) return false;
    return true;
}

/* ---- keeping */

static bool worth_keeping(const td_call *c)
{
    bool good = !c->op->mutates && !c->op->outs[0].list && c->attrs.count <= ATTRS && c->attrs.nints <= INTS;
    for (int i = 0; i < c->nin; i++)
        good = good && (c->in[i].kind != TD_IN_TENSOR || c->in[i].tensor->desc.ndim <= DIMS);
    return good;
}

static void keep_input(known_input *k, const td_input *x)
{
    k->kind = x->kind;
    if (x->kind == TD_IN_NUMBER) k->number = x->number;
    if (x->kind != TD_IN_TENSOR) return;
    const td_desc *d = &x->tensor->desc;
    k->head = head_of(d);
    memcpy(k->shape, d->shape, sizeof k->shape);
    memcpy(k->stride, d->stride, sizeof k->stride);
}

static void keep_plan(td_again *m, const td_kcall *k)
{
    m->replan = k->nphases <= 1 && k->state_bytes <= STATE && !k->work_bytes ? k->replan : NULL;
    if (!m->replan) return;
    m->nphases = k->nphases;
    m->chunk = k->phase[0].fn;
    m->chunks = k->phase[0].chunks;
    m->scratch_bytes = k->scratch_bytes;
    m->cost_ns = k->cost_ns;
    memcpy(m->state, k->state, STATE);
}

void td_again_keep(td_again *m, const td_prep *p)
{
    const td_call *c = p->c;
    m->op = NULL;
    if (!worth_keeping(c)) return;
    m->nin = c->nin;
    m->nattrs = c->attrs.count;
    m->nints = c->attrs.nints;
    for (int i = 0; i < c->nin; i++) keep_input(&m->in[i], &c->in[i]);
    memcpy(m->attrs, c->attrs.at, m->nattrs * sizeof m->attrs[0]);
    memcpy(m->ints, c->attrs.ints, m->nints * sizeof m->ints[0]);
    m->out = p->f.out[0];
    m->bytes = c->out[0]->storage->nbytes;
    m->compute = p->f.compute;
    keep_plan(m, &c->k);
    m->op = c->op;
}

/* ---- the same again */

static int plan(const td_again *m, td_call *c, td_error *e)
{
    td_kcall *k = &c->k;
    td_prep_describe(c, m->compute);
    if (!m->replan) return td_prep_choose(c, e);
    k->nphases = m->nphases;
    k->phase[0].fn = m->chunk;
    k->phase[0].chunks = m->chunks;
    k->scratch_bytes = m->scratch_bytes;
    k->cost_ns = m->cost_ns;
    memcpy(k->state, m->state, STATE); /* a size that is known: moves in a row, no call */
    m->replan(k);
    return 0;
}

int td_again_prepare(const td_again *m, td_call *c, uint64_t *lack, td_heap **heap, td_error *e)
{
    td_place place = td_prep_place(c);
    c->nout = 1;
    int err = td_prep_make(&place, &m->out, m->bytes, &c->out[0], lack, e);
    if (!err) {
        td_prep_input_args(c, m->compute);
        c->args[c->nin] = (td_karg){td_tensor_data(c->out[0]), &c->out[0]->desc};
        err = plan(m, c, e);
        if (!err) err = td_prep_charge(c, e);
    }
    if (!err) return 0;
    td_tensor_unref(c->out[0]);
    c->out[0] = NULL;
    if (err == TD_WAIT_GROW) *heap = place.heap;
    else td_call_error(c, e);
    return err;
}
