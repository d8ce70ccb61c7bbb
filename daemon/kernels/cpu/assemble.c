/* Ops that put elements at other places: cat, stack, repeat, flip, roll, constant_pad.
 *
 * Each is a list of strided copies into parts of a contiguous result; a copy is the walk of tile.h with a cast as its
 * loop. What differs is only how the k-th copy is laid out, so a chunk builds its walk itself from the descriptors. */
#include "daemon/kernels/cpu/plans.h"
#include "daemon/kernels/cpu/tile.h"
#include <string.h>

/* A copy being laid out: shapes outermost first, strides in elements. */
typedef struct layout {
    int ndim;
    int64_t shape[TD_TILE_DIMS], to_stride[TD_TILE_DIMS], from_stride[TD_TILE_DIMS];
    char *to, *from;
    td_dtype to_type, from_type;
    int64_t next, before; /* cat: the part that comes after `before` elements of its dimension */
} layout;

/* Lay out copy number `part`. */
typedef void (*layout_fn)(const td_kcall *k, int64_t part, layout *l);

typedef struct assembly {
    layout_fn lay;
    int64_t parts;
} assembly;

static void make_tiles(const layout *l, td_tiles *t)
{
    int to = (int)td_dtype_size(l->to_type), from = (int)td_dtype_size(l->from_type);
    t->narrow = t->widen = NULL;
    t->fn = td_isa_now->cast[l->from_type][l->to_type];
    t->ndim = (uint8_t)l->ndim;
    for (int i = 0; i < l->ndim; i++) {
        int k = l->ndim - 1 - i;
        t->shape[i] = l->shape[k];
        t->stride[0][i] = l->to_stride[k] * to;
        t->stride[1][i] = l->from_stride[k] * from;
    }
    td_tiles_raw(t, 0, l->to, to);
    td_tiles_raw(t, 1, l->from, from);
    td_tiles_finish(t, 0.1 * (double)(to + from));
}

enum { CHUNK_BYTES = 1 << 18 };

/* Chunks of one part, by what it writes. */
static int64_t part_chunks(const layout *l)
{
    int64_t bytes = (int64_t)td_dtype_size(l->to_type);
    for (int i = 0; i < l->ndim; i++) bytes *= l->shape[i];
    return (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
}

static void assemble_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const assembly *a = (const assembly *)k->state;
    layout l = {.next = 0};
    td_tiles t;
    for (int64_t part = 0; part < a->parts; part++) {
        a->lay(k, part, &l);
        int64_t n = part_chunks(&l);
        if (chunk < n) {
            make_tiles(&l, &t);
            td_tiles_run(&t, t.count * chunk / n, t.count * (chunk + 1) / n, scratch);
            return;
        }
        chunk -= n;
    }
}

/* Everything in one chunk: results that are small. */
static void assemble_all(td_kcall *k, int64_t chunk, void *scratch)
{
    const assembly *a = (const assembly *)k->state;
    layout l = {.next = 0};
    td_tiles t;
    (void)chunk;
    for (int64_t part = 0; part < a->parts; part++) {
        a->lay(k, part, &l);
        make_tiles(&l, &t);
        td_tiles_run(&t, 0, t.count, scratch);
    }
}

static void plan_parts(td_kcall *k, layout_fn lay, int64_t parts, int phase)
{
    assembly *a = (assembly *)k->state;
    layout l = {.next = 0};
    uint64_t bytes = td_desc_nbytes(k->out[0].desc);
    int64_t chunks = 0;
    a->lay = lay;
    a->parts = parts;
    for (int64_t part = 0; part < parts && bytes > CHUNK_BYTES; part++) {
        lay(k, part, &l);
        chunks += part_chunks(&l);
    }
    bool small = bytes <= CHUNK_BYTES;
    k->phase[phase].fn = small ? assemble_all : assemble_chunk;
    k->phase[phase].chunks = small ? bytes > 0 : chunks;
    k->nphases = (uint8_t)(phase + (k->phase[phase].chunks > 0));
    k->scratch_bytes = TD_TILE_SCRATCH;
    k->cost_ns += 30 + 150.0 * (double)parts + 0.1 * (double)bytes;
}

static void lay_whole(const td_kcall *k, int in, layout *l)
{
    const td_desc *x = k->in[in].desc, *y = k->out[0].desc;
    l->ndim = y->ndim;
    l->to = k->out[0].data;
    l->from = k->in[in].data;
    l->to_type = y->dtype;
    l->from_type = x->dtype;
    for (int i = 0; i < y->ndim; i++) {
        l->shape[i] = i < x->ndim ? x->shape[i] : 1;
        l->to_stride[i] = y->stride[i];
        l->from_stride[i] = i < x->ndim ? x->stride[i] : 0;
    }
}

static char *advance(char *p, int64_t elements, td_dtype t)
{
    return p + elements * (int64_t)td_dtype_size(t);
}

static int wrapped(int64_t dim, int ndim)
{
    return (int)(dim < 0 ? dim + ndim : dim);
}

/* ---- cat, stack */

/* A tensor of shape [0] joins with anything and adds nothing. */
static bool skipped(const td_desc *d)
{
    return d->ndim == 1 && d->shape[0] == 0;
}

static void lay_cat(const td_kcall *k, int64_t part, layout *l)
{
    const td_desc *x = k->in[part].desc;
    int dim = wrapped(td_attr_int(k->attrs, 0), k->out[0].desc->ndim);
    lay_whole(k, (int)part, l);
    if (part != l->next) { /* parts are laid out one after the other, or from the start */
        l->before = 0;
        for (int64_t i = 0; i < part; i++)
            if (!skipped(k->in[i].desc)) l->before += k->in[i].desc->shape[dim];
    }
    l->to = advance(l->to, l->before * l->to_stride[dim], l->to_type);
    l->next = part + 1;
    if (skipped(x)) l->shape[0] = 0;
    else l->before += x->shape[dim];
}

int td_cpu_plan_cat(td_kcall *k, td_error *e)
{
    (void)e;
    plan_parts(k, lay_cat, k->nin, 0);
    return TD_OK;
}

static void lay_stack(const td_kcall *k, int64_t part, layout *l)
{
    const td_desc *x = k->in[part].desc, *y = k->out[0].desc;
    int dim = wrapped(td_attr_int(k->attrs, 0), y->ndim);
    lay_whole(k, (int)part, l);
    for (int i = 0, j = 0; i < y->ndim; i++) {
        l->shape[i] = i == dim ? 1 : x->shape[j];
        l->from_stride[i] = i == dim ? 0 : x->stride[j];
        j += i != dim;
    }
    l->to = advance(l->to, part * y->stride[dim], l->to_type);
}

int td_cpu_plan_stack(td_kcall *k, td_error *e)
{
    (void)e;
    plan_parts(k, lay_stack, k->nin, 0);
    return TD_OK;
}

/* ---- repeat: each dimension becomes two, the outer one with source stride 0 */

static void lay_repeat(const td_kcall *k, int64_t part, layout *l)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    int n, lead = y->ndim - x->ndim;
    const int64_t *repeats = td_attr_ints(k->attrs, 0, &n);
    (void)part;
    lay_whole(k, 0, l);
    l->ndim = 2 * y->ndim;
    for (int i = 0; i < y->ndim; i++) {
        int64_t size = i < lead ? 1 : x->shape[i - lead];
        l->shape[2 * i] = repeats[i];
        l->to_stride[2 * i] = y->stride[i] * size;
        l->from_stride[2 * i] = 0;
        l->shape[2 * i + 1] = size;
        l->to_stride[2 * i + 1] = y->stride[i];
        l->from_stride[2 * i + 1] = i < lead ? 0 : x->stride[i - lead];
    }
}

int td_cpu_plan_repeat(td_kcall *k, td_error *e)
{
    (void)e;
    plan_parts(k, lay_repeat, 1, 0);
    return TD_OK;
}

/* ---- flip: the source is read backwards */

static void lay_flip(const td_kcall *k, int64_t part, layout *l)
{
    int n;
    const int64_t *dims = td_attr_ints(k->attrs, 0, &n);
    (void)part;
    lay_whole(k, 0, l);
    for (int i = 0; i < n && l->ndim; i++) {
        int d = wrapped(dims[i], l->ndim);
        l->from = advance(l->from, (l->shape[d] - 1) * l->from_stride[d], l->from_type);
        l->from_stride[d] = -l->from_stride[d];
    }
}

int td_cpu_plan_flip(td_kcall *k, td_error *e)
{
    (void)e;
    if (td_desc_numel(k->out[0].desc) > 0) plan_parts(k, lay_flip, 1, 0);
    return TD_OK;
}

/* ---- roll: a rolled dimension is two copies, the front and the back; part's bits say which */

static int64_t shift_of(const td_kcall *k, int dim, int64_t size)
{
    int n, m;
    const int64_t *shifts = td_attr_ints(k->attrs, 0, &n), *dims = td_attr_ints(k->attrs, 1, &m);
    int64_t shift = 0;
    for (int i = 0; i < m; i++)
        if (wrapped(dims[i], k->in[0].desc->ndim) == dim) shift = (shift + shifts[i] % size) % size;
    return (shift + size) % size;
}

static void lay_roll(const td_kcall *k, int64_t part, layout *l)
{
    lay_whole(k, 0, l);
    for (int d = 0; d < l->ndim; d++) {
        int64_t size = l->shape[d], shift = shift_of(k, d, size);
        if (part >> d & 1) { /* the last `shift` elements come first */
            l->shape[d] = shift;
            l->from = advance(l->from, (size - shift) * l->from_stride[d], l->from_type);
        } else {
            l->shape[d] = size - shift;
            l->to = advance(l->to, shift * l->to_stride[d], l->to_type);
        }
    }
}

/* Without dimensions the tensor counts as flat: two runs of a contiguous one, any other element by element. */
static void lay_roll_flat(const td_kcall *k, int64_t part, layout *l)
{
    int n;
    int64_t size = td_desc_numel(k->in[0].desc), shift = td_attr_ints(k->attrs, 0, &n)[0] % size;
    shift = (shift + size) % size;
    lay_whole(k, 0, l);
    l->ndim = 1;
    l->to_stride[0] = l->from_stride[0] = 1;
    l->shape[0] = part ? shift : size - shift;
    if (part) l->from = advance(l->from, size - shift, l->from_type);
    else l->to = advance(l->to, shift, l->to_type);
}

static void roll_any_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_desc *x = k->in[0].desc;
    int n;
    int64_t size = (int64_t)td_dtype_size(x->dtype), numel = td_desc_numel(x);
    int64_t shift = td_attr_ints(k->attrs, 0, &n)[0] % numel;
    (void)chunk, (void)scratch;
    shift = (shift + numel) % numel;
    for (int64_t i = 0; i < numel; i++) {
        int64_t rest = i, at = 0, to = (i + shift) % numel;
        for (int d = x->ndim - 1; d >= 0; d--) {
            at += rest % x->shape[d] * x->stride[d];
            rest /= x->shape[d];
        }
        memcpy((char *)k->out[0].data + to * size, (char *)k->in[0].data + at * size, (size_t)size);
    }
}

int td_cpu_plan_roll(td_kcall *k, td_error *e)
{
    int m;
    (void)e;
    td_attr_ints(k->attrs, 1, &m);
    if (td_desc_numel(k->out[0].desc) == 0) return TD_OK;
    if (m > 0) {
        plan_parts(k, lay_roll, (int64_t)1 << k->in[0].desc->ndim, 0);
    } else if (td_desc_is_contiguous(k->in[0].desc)) {
        plan_parts(k, lay_roll_flat, 2, 0);
    } else {
        k->phase[0].fn = roll_any_chunk;
        k->phase[0].chunks = k->nphases = 1;
        k->cost_ns = 30 + 5.0 * (double)td_desc_numel(k->out[0].desc);
    }
    return TD_OK;
}

/* ---- constant_pad: the whole is filled first, then what is left of the source is laid over it */

static void lay_pad(const td_kcall *k, int64_t part, layout *l)
{
    int n;
    const int64_t *pad = td_attr_ints(k->attrs, 0, &n);
    (void)part;
    lay_whole(k, 0, l);
    for (int i = 0; i < n / 2; i++) {
        int d = l->ndim - 1 - i;
        int64_t before = pad[2 * i], after = pad[2 * i + 1];
        if (before > 0) l->to = advance(l->to, before * l->to_stride[d], l->to_type);
        else l->from = advance(l->from, -before * l->from_stride[d], l->from_type);
        l->shape[d] += (before < 0 ? before : 0) + (after < 0 ? after : 0);
        if (l->shape[d] < 0) l->shape[d] = 0;
    }
}

enum { FILL_CHUNK = 1 << 17 }; /* bytes */

static void pad_fill_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_desc *y = k->out[0].desc;
    int64_t size = (int64_t)td_dtype_size(y->dtype), per = FILL_CHUNK / size, from = chunk * per,
            numel = td_desc_numel(y);
    _Alignas(16) unsigned char value[16];
    (void)scratch;
    td_scalar_store(k->attrs->at[1].s, y->dtype, value);
    td_fill((char *)k->out[0].data + from * size, value, numel - from < per ? numel - from : per, (int)size);
}

int td_cpu_plan_constant_pad(td_kcall *k, td_error *e)
{
    (void)e;
    int64_t numel = td_desc_numel(k->out[0].desc), per = FILL_CHUNK / (int64_t)td_dtype_size(k->out[0].desc->dtype);
    if (numel == 0) return TD_OK;
    k->phase[0].fn = pad_fill_chunk;
    k->phase[0].chunks = (numel + per - 1) / per;
    plan_parts(k, lay_pad, 1, 1);
    return TD_OK;
}
