/* The list of launches in a call's state: see launch.h. */
#include "daemon/kernels/cuda/launch.h"
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cuda/args.h"
#include "proto/ops/opid.h"
#include <assert.h>
#include <string.h>

/* The list: this, then for each launch an `entry`, its arguments and its places, each a multiple of eight bytes; or,
 * where launches are made, `made` and its notes. */
typedef struct list {
    uint16_t count, used; /* used: bytes of state */
    bool is_made;
    uint8_t unused[3];
} list;
typedef struct made {
    td_cuda_make_fn make;
    uint64_t notes[];
} made;
typedef struct entry {
    uint16_t kernel, bytes, nplaces, of; /* of: where in the state the entry is whose arguments it has; 0: its own */
    unsigned grid[3];
    uint16_t block[3], unused2;
    unsigned shared;
} entry;
_Static_assert(sizeof(list) == 8 && sizeof(entry) % 8 == 0 && sizeof(td_cuda_place) == 8, "entries stay aligned");

static size_t round8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}
static size_t entry_bytes(const entry *e)
{
    return sizeof *e + (e->of ? 0 : round8(e->bytes) + e->nplaces * sizeof(td_cuda_place));
}
static unsigned char *arguments(entry *e)
{
    return (unsigned char *)(e + 1);
}
static const td_cuda_place *places_of(entry *e)
{
    return (const td_cuda_place *)(arguments(e) + round8(e->bytes));
}

void td_cuda_begin(td_kcall *k)
{
    list *l = (list *)k->state;
    *l = (list){.used = sizeof *l};
}

bool td_cuda_add(td_kcall *k, unsigned kernel, td_cuda_shape shape, const void *args, size_t bytes,
                 const td_cuda_place *places, int nplaces)
{
    list *l = (list *)k->state;
    entry *e = (entry *)(k->state + l->used);
    size_t all = sizeof *e + round8(bytes) + (size_t)nplaces * sizeof *places;
    assert(bytes == td_cuda_kernels[kernel].bytes);
    for (int i = 0; i < 3; i++)
        if (!shape.grid[i] || !shape.block[i]) return true; /* nothing to run */
    if (l->used + all > TD_KSTATE_BYTES) {
        l->count = UINT16_MAX;
        return false;
    }
    if (l->count == UINT16_MAX) return false;
    memset(e, 0, all);
    e->kernel = (uint16_t)kernel, e->bytes = (uint16_t)bytes, e->nplaces = (uint16_t)nplaces, e->shared = shape.shared;
    for (int i = 0; i < 3; i++) e->grid[i] = shape.grid[i], e->block[i] = (uint16_t)shape.block[i];
    memcpy(arguments(e), args, bytes);
    memcpy(arguments(e) + round8(bytes), places, (size_t)nplaces * sizeof *places);
    l->used = (uint16_t)(l->used + all);
    l->count++;
    return true;
}

bool td_cuda_again(td_kcall *k, unsigned kernel, td_cuda_shape shape)
{
    list *l = (list *)k->state;
    entry *e = (entry *)(k->state + l->used), *last = NULL;
    size_t at = sizeof *l;
    for (int i = 0; i < 3; i++)
        if (!shape.grid[i] || !shape.block[i]) return true;
    for (int i = 0; l->count != UINT16_MAX && i < l->count; i++) {
        last = (entry *)(k->state + at);
        at += entry_bytes(last);
    }
    if (!last || l->used + sizeof *e > TD_KSTATE_BYTES) {
        l->count = UINT16_MAX;
        return false;
    }
    assert(last->bytes == td_cuda_kernels[kernel].bytes);
    *e = (entry){.kernel = (uint16_t)kernel,
                 .bytes = last->bytes,
                 .of = last->of ? last->of : (uint16_t)((unsigned char *)last - k->state),
                 .shared = shape.shared};
    for (int i = 0; i < 3; i++) e->grid[i] = shape.grid[i], e->block[i] = (uint16_t)shape.block[i];
    l->used = (uint16_t)(l->used + sizeof *e);
    l->count++;
    return true;
}

/* A number as the body of a pointwise kernel reads it, rounded first to what the op computes in. */
static void write_number(const td_karg *a, unsigned more, void *to)
{
    static const uint8_t dtype_of[] = {
        [TD_BODY_F32] = TD_FLOAT32, [TD_BODY_F64] = TD_FLOAT64, [TD_BODY_I64] = TD_INT64,
        [TD_BODY_I32] = TD_INT32,   [TD_BODY_U8] = TD_BOOL,     [TD_BODY_U64] = TD_UINT64};
    unsigned round = more >> 8;
    unsigned char other[16];
    memset(to, 0, 8);
    td_scalar v = td_scalar_load(a->desc->dtype, a->number);
    if (round != TD_DTYPE_NONE) {
        td_scalar_store(v, (td_dtype)round, other);
        v = td_scalar_load((td_dtype)round, other);
    }
    td_scalar_store(v, dtype_of[more & 255], to);
}

void *td_cuda_made(td_kcall *k, int count, td_cuda_make_fn make, size_t bytes)
{
    list *l = (list *)k->state;
    made *m = (made *)(k->state + sizeof(uint64_t));
    size_t all = sizeof(uint64_t) + sizeof *m + bytes;
    assert(all <= TD_KSTATE_BYTES && count < UINT16_MAX);
    memset(k->state, 0, all);
    *l = (list){.count = (uint16_t)count, .used = (uint16_t)all, .is_made = true};
    m->make = make;
    return m->notes;
}

static void addresses(td_kcall *k)
{
    list *l = (list *)k->state;
    size_t at = sizeof *l;
    for (int i = 0; i < l->count && !l->is_made; i++) {
        entry *e = (entry *)(k->state + at);
        const td_cuda_place *places = places_of(e);
        for (int j = 0; j < e->nplaces; j++) {
            const td_cuda_place *p = &places[j];
            void *to = arguments(e) + p->offset, *address = NULL;
            if (p->kind == TD_CUDA_SEED) {
                memcpy(to, (const uint64_t[2]){k->seed, k->counter}, 2 * sizeof(uint64_t));
                continue;
            }
            if (p->kind == TD_CUDA_NUMBER) {
                write_number(&k->in[p->index], p->more, to);
                continue;
            }
            if (p->kind == TD_CUDA_IN) address = k->in[p->index].data;
            else if (p->kind == TD_CUDA_OUT) address = k->out[p->index].data;
            else if (k->work) address = (char *)k->work + (size_t)p->more * 64;
            memcpy(to, &address, sizeof address);
        }
        at += entry_bytes(e);
    }
}

int td_cuda_end(td_kcall *k, double ns, td_error *e)
{
    list *l = (list *)k->state;
    if (l->count == UINT16_MAX)
        return td_fail(e, TD_E_UNSUPPORTED, "%s has no kernel for CUDA for so many operands", k->op->name);
    k->nphases = l->count > 0;
    k->phase[0] = (td_phase){NULL, 1};
    k->cost_ns = ns + 3000.0 * l->count;
    addresses(k);
    td_plan_moves(k, addresses, l->used);
    return TD_OK;
}

int td_cuda_refuse(const td_kcall *k, unsigned dtype, td_error *e)
{
    return td_fail(e, TD_E_UNSUPPORTED, "%s has no kernel for CUDA for %s", k->op->name,
                   td_dtype_name((td_dtype)dtype));
}

int td_cuda_count(const td_kcall *k)
{
    return k->nphases ? ((const list *)k->state)->count : 0;
}

void td_cuda_launch_at(td_kcall *k, int i, td_cuda_launch *l)
{
    size_t at = sizeof(list);
    if (((const list *)k->state)->is_made) {
        made *m = (made *)(k->state + sizeof(uint64_t));
        m->make(k, m->notes, i, l);
        return;
    }
    while (i-- > 0) at += entry_bytes((entry *)(k->state + at));
    entry *e = (entry *)(k->state + at);
    entry *of = e->of ? (entry *)(k->state + e->of) : e;
    *l = (td_cuda_launch){.kernel = e->kernel, .shared = e->shared, .bytes = e->bytes, .args = arguments(of)};
    l->product = e->kernel == td_cuda_kernel_count;
    for (int j = 0; j < 3; j++) l->grid[j] = e->grid[j], l->block[j] = e->block[j];
}

void td_cuda_behind(td_kcall *copy)
{
    for (int i = 0, n = td_cuda_count(copy); i < n; i++) {
        td_cuda_launch l;
        td_cuda_launch_at(copy, i, &l);
        assert(l.bytes == sizeof(td_ca_copy));
        ((td_ca_copy *)l.args)->behind = true;
    }
}

static int64_t product(const td_desc *d, int from)
{
    int64_t n = 1;
    for (int i = from; i < d->ndim; i++) n *= d->shape[i];
    return n;
}

/* Which of the indices it is, in row-major order, as the kernels of places.c count elements of their work. */
static int64_t index_element(const td_kcall *k, int dim, int64_t at)
{
    const td_desc *x = k->in[0].desc, *idx = k->in[1].desc;
    switch (k->op->id) {
    case TD_OP_INDEX_SELECT:
    case TD_OP_EMBEDDING: { /* elements of the result */
        int64_t n = td_desc_numel(idx), width = x->ndim ? product(x, dim + 1) : 1;
        return n ? at / width % n : at;
    }
    case TD_OP_INDEX_ADD: { /* lines of the source, each with all indices */
        int64_t n = td_desc_numel(idx);
        return n ? at % n : at;
    }
    case TD_OP_SCATTER:
    case TD_OP_SCATTER_ADD: { /* lines of the indices */
        int64_t n = idx->ndim ? idx->shape[dim] : 1, width = idx->ndim ? product(idx, dim + 1) : 1, line = at / n;
        return (line / width * n + at % n) * width + line % width;
    }
    default: return at;
    }
}

/* `at` is a position of the index tensors, behind so many of all positions. */
static void explain_indices(td_kcall *k, const td_cuda_fault *f)
{
    const td_desc *x = k->in[0].desc;
    int64_t shape[TD_MAX_DIMS], n = 1;
    int ndim = 0, which = 0, nidx = k->nin - (k->op->id == TD_OP_INDEX ? 1 : 2), dim = 0;
    td_error none = {0};
    for (int i = 0; i < nidx; i++)
        if (!td_absent(&k->in[1 + i]))
            td_broadcast(shape, &ndim, k->in[1 + i].desc->shape, k->in[1 + i].desc->ndim, &none);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    for (int i = 0; i < nidx; i++)
        if (!td_absent(&k->in[1 + i]) && which++ == f->at / n) dim = i;
    td_fail_index(k, f->index, f->at % n, dim, x->ndim ? x->shape[dim] : 1);
}

static void explain_index(td_kcall *k, const td_cuda_fault *f)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    int dim = 0;
    switch (k->op->id) {
    case TD_OP_INDEX_SELECT:
    case TD_OP_GATHER:
    case TD_OP_INDEX_ADD:
    case TD_OP_SCATTER:
    case TD_OP_SCATTER_ADD:
        if (td_wrap_dim(td_attr_int(k->attrs, 0), x->ndim, &dim, NULL)) dim = 0;
        break;
    case TD_OP_NLL_LOSS:
    case TD_OP_NLL_LOSS_BACKWARD:
        y = k->op->id == TD_OP_NLL_LOSS ? x : k->out[0].desc;
        td_kernel_fail(k, TD_E_INDEX, "nll_loss: target %lld is out of bounds for %lld classes", (long long)f->index,
                       (long long)y->shape[y->ndim > 1]);
        return;
    case TD_OP_MAX_POOL2D_BACKWARD:
        td_kernel_fail(k, TD_E_INDEX, "max_pool2d_backward: index %lld is outside of a plane of %lld",
                       (long long)f->index, (long long)product(y, y->ndim - 2));
        return;
    case TD_OP_INDEX:
    case TD_OP_INDEX_PUT: explain_indices(k, f); return;
    default: break;
    }
    td_fail_index(k, f->index, index_element(k, dim, f->at), dim, x->ndim ? x->shape[dim] : 1);
}

void td_cuda_explain(td_kcall *k, const td_cuda_fault *f)
{
    if (f->bits & TD_PW_DIVIDES_BY_0)
        td_kernel_fail(k, TD_E_INVALID, "ZeroDivisionError: integer division or modulo by zero");
    else if (f->bits & TD_PW_NO_PROBABILITY)
        td_kernel_fail(k, TD_E_INVALID, "all elements of input should be between 0 and 1");
    else if (f->bits & TD_PW_NO_TARGET)
        td_kernel_fail(k, TD_E_INVALID, "all elements of target should be between 0 and 1");
    else if (f->bits & TD_CUDA_NO_CHANCE)
        td_kernel_fail(k, TD_E_INVALID, "bernoulli: expected every probability to be in [0, 1]");
    else if (f->bits & TD_CUDA_BAD_INDEX) explain_index(k, f);
    else if (f->bits) td_kernel_fail(k, TD_E_INTERNAL, "%s: fault %#x", k->op->name, f->bits);
}
