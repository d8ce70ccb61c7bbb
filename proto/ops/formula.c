/* The builder's common part: what every evaluation of a formula does, whether eager or into a program. Undefined values
 * are absorbed, numbers are folded, conj of something real vanishes; what is left is asked of the builder. */
#include "proto/ops/formula.h"
#include "proto/ops/opid.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct td_fx_block {
    struct td_fx_block *next;
    _Alignas(16) unsigned char bytes[];
};

void td_fx_deinit(td_fx *f)
{
    while (f->blocks) {
        struct td_fx_block *b = f->blocks;
        f->blocks = b->next;
        free(b);
    }
}

static void *block(td_fx *f, size_t bytes)
{
    struct td_fx_block *b = malloc(sizeof *b + bytes);
    if (!b) return NULL;
    b->next = f->blocks;
    f->blocks = b;
    return b->bytes;
}

/* What is left when there is no memory for td_op.direct: it makes lists of ints only, each shorter than that. Whatever
 * it makes of them when they lie over each other, it is not taken. */
static void *anywhere(td_fx *f, size_t bytes)
{
    assert(bytes <= sizeof f->bytes);
    f->failed = td_no_memory(f->error, "for the formula of %s", f->of->name);
    return f->bytes;
}

void *td_fx_alloc_block(td_fx *f, size_t bytes)
{
    void *p = block(f, bytes);
    if (!p && !f->no_memory) return anywhere(f, bytes);
    if (!p) longjmp(*f->no_memory, 1);
    return p;
}

void *td_fx_alloc_for(td_fx *f, td_fx *inner, size_t bytes)
{
    if (bytes <= TD_FX_BYTES - f->used) return td_fx_alloc(f, bytes);
    void *p = block(f, bytes);
    if (!p) longjmp(*inner->no_memory, 1);
    return p;
}

int td_fx_guard(td_fx *f, int (*work)(td_fx *f, void *arg), void *arg)
{
    jmp_buf here;
    f->no_memory = &here;
    int rc = 0;
    if (setjmp(here)) rc = f->failed = td_no_memory(f->error, "for the formula of %s", f->of->name);
    else rc = work(f, arg);
    f->no_memory = NULL;
    return rc;
}

bool td_fx_wants(const td_fx *f, int param)
{
    if (param != f->of->list_param) return f->want[td_fx_first(f, param)];
    for (int k = 0; k < f->nin - (f->of->nparams - 1); k++)
        if (td_fx_wants_item(f, k)) return true;
    return false;
}

bool td_fx_given(const td_fx *f, int param)
{
    int k = td_fx_first(f, param);
    return f->given ? f->given[k] : f->in[k].kind != TD_F_NONE;
}

td_flist td_fx_list(td_fx *f)
{
    td_flist l = {f->nin - (f->of->nparams - 1), (td_fval *)f->in + f->of->list_param};
    return l;
}

td_flist td_fx_gs(td_fx *f)
{
    td_flist l = {f->nout, (td_fval *)f->g};
    return l;
}

static void look_at(td_fx *f, const td_fval *v, td_fmeta *m)
{
    if (v->kind == TD_F_TENSOR) f->meta(f, v, m);
    else *m = (td_fmeta){.dtype = (uint8_t)f->dtype};
}

td_fmeta td_fx_meta(td_fx *f, td_fval v)
{
    td_fmeta m;
    look_at(f, &v, &m);
    return m;
}

void td_fx_result(td_fx *f, int param, td_fval v)
{
    int k = td_fx_first(f, param);
    if (f->want[k]) f->result[k] = v;
}

void td_fx_result_list(td_fx *f, td_flist v)
{
    int first = f->of->list_param, n = f->nin - (f->of->nparams - 1);
    for (int k = 0; k < n && k < v.n; k++)
        if (f->want[first + k]) f->result[first + k] = v.v[k];
}

void td_fx_fail(td_fx *f, td_code code, const char *format, ...)
{
    char text[256];
    if (f->failed) return;
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    f->failed = td_fail(f->error, code, "%s", text);
}

void td_fl_join(td_fx *f, td_flist *l, td_flist more)
{
    td_flist r = td_fl_new(f, l->n + more.n);
    if (l->n) memcpy(r.v, l->v, (size_t)l->n * sizeof *r.v);
    if (more.n) memcpy(r.v + l->n, more.v, (size_t)more.n * sizeof *r.v);
    *l = r;
}

void td_fl_push(td_fx *f, td_flist *l, td_fval v)
{
    td_flist one = {1, &v};
    td_fl_join(f, l, one);
}

td_fval td_fl_at(td_fx *f, td_flist l, int64_t k)
{
    if (k < 0) k += l.n;
    if (k >= 0 && k < l.n) return l.v[k];
    td_fx_fail(f, TD_E_INTERNAL, "a formula of %s reads past a list", f->of->name);
    return td_fv_none();
}

static const td_attrs no_attrs;

/* x + alpha*y and x - alpha*y with one of them undefined. */
static td_fval absorb_sum(td_fx *f, unsigned id, const td_fval *in, const td_attrs *attrs)
{
    if (in[1].kind == TD_F_NONE) return in[0];
    td_scalar factor = id == TD_OP_SUB ? td_fs_neg(attrs->at[0].s) : attrs->at[0].s;
    if (td_fs_compare(factor, td_int(1)) == 0) return in[1];
    return td_fx_op(f, TD_OP_MUL, 2, (td_fval[]){in[1], td_fv_number(f, factor)}, NULL);
}

/* Some required input is undefined. Fills *out and returns true when that decides the result. */
static bool absorb(td_fx *f, const td_op *op, int nin, td_fval *in, const td_attrs *attrs, td_fval *out)
{
    if (op->id == TD_OP_ADD || op->id == TD_OP_SUB) {
        *out = absorb_sum(f, op->id, in, attrs);
        return true;
    }
    if (op->id == TD_OP_WHERE && (in[1].kind || in[2].kind)) {
        for (int k = 1; k < 3; k++)
            if (!in[k].kind) in[k] = td_fv_number(f, td_int(0));
        return false;
    }
    for (int k = 0; k < nin; k++) {
        const td_param *p = &op->params[td_op_param_of(op, nin, k)];
        if (in[k].kind || p->kind == TD_P_OPTIONAL || p->kind == TD_P_OPTIONAL_LIST) continue;
        return true; /* linear in it: the generator refuses a formula where it is not */
    }
    return false;
}

/* Numbers where the op takes tensors only become 0-d tensors. */
static void numbers_to_tensors(td_fx *f, const td_op *op, int nin, td_fval *in)
{
    for (int k = 0; k < nin; k++)
        if (in[k].kind == TD_F_NUMBER && op->params[td_op_param_of(op, nin, k)].kind != TD_P_NUMBER) {
            td_dtype t = in[k].number->kind == TD_S_BOOL ? TD_BOOL : f->dtype;
            in[k] = td_fx_full(f, td_fi_new(f, 0), *in[k].number, t);
        }
}

/* Decide without the builder, if possible. May replace inputs. */
static bool shortcut(td_fx *f, const td_op *op, int nin, td_fval *in, const td_attrs *attrs, td_fval *out)
{
    int none = 0, numbers = 0;
    for (int k = 0; k < nin; k++) none += in[k].kind == TD_F_NONE, numbers += in[k].kind == TD_F_NUMBER;
    if (none && absorb(f, op, nin, in, attrs, out)) return true;
    td_scalar s;
    if (numbers == nin && nin > 0 && td_fx_fold(op->id, nin, in, attrs, &s)) {
        *out = td_fv_number(f, s);
        return true;
    }
    if (op->id == TD_OP_WHERE && in[0].kind == TD_F_NUMBER) {
        *out = in[td_fs_compare(*in[0].number, td_int(0)) ? 1 : 2];
        return true;
    }
    if (op->id == TD_OP_CONJ && !td_dtype_is_complex((td_dtype)td_fx_meta(f, in[0]).dtype)) {
        *out = in[0];
        return true;
    }
    if (numbers) numbers_to_tensors(f, op, nin, in);
    return false;
}

int td_fx_end(td_fx *f, int room)
{
    if (f->failed) return f->failed;
    if (f->made.n > room) td_fx_fail(f, TD_E_INVALID, "%d results come, but there is room for %d", f->made.n, room);
    for (int k = 0; k < f->made.n; k++)
        if (f->made.v[k].kind != TD_F_TENSOR) td_fx_fail(f, TD_E_INVALID, "at least one argument must be a tensor");
    return f->failed;
}

int td_fx_make(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int room, td_fval *out,
               int *nout)
{
    td_fmeta *look = td_fx_alloc(f, (size_t)nin * sizeof *look);
    f->dtype = TD_FLOAT32;
    for (int k = 0; k < nin; k++) look_at(f, &in[k], &look[k]);
    td_fx_begin(f, op, nin, in, look, attrs);
    op->compose(f);
    *nout = 0;
    if (td_fx_end(f, room)) return f->failed;
    for (int k = 0; k < f->made.n; k++) out[k] = f->made.v[k];
    *nout = f->made.n;
    return TD_OK;
}

typedef struct inner {
    const td_op *op;
    int nin, room, nout;
    const td_fval *in;
    const td_attrs *attrs;
    td_fval *out;
} inner;

static int make_inner(td_fx *f, void *arg)
{
    inner *i = arg;
    return td_fx_make(f, i->op, i->nin, i->in, i->attrs, i->room, i->out, &i->nout);
}

/* An op inside of a formula that is made of others: a formula of its own. */
static __attribute__((noinline)) int compose(td_fx *how, const td_op *op, int nin, const td_fval *in,
                                             const td_attrs *attrs, int nout, td_fval *out)
{
    inner i = {op, nin, nout < 0 ? -nout : nout, 0, in, attrs, out};
    td_fx f; /* as far as a composition looks at it: most of it is room */
    td_fx_init(&f);
    f.op = how->op, f.meta = how->meta, f.arg = how->arg, f.create_graph = how->create_graph, f.error = how->error;
    f.of = op;
    int rc = td_fx_guard(&f, make_inner, &i);
    td_fx_deinit(&f);
    how->nmade = i.nout;
    return rc;
}

/* Not all inputs are tensors: is it decided here? Else *in is what to ask for. */
static __attribute__((noinline)) bool settle(td_fx *f, const td_op *op, int nin, const td_fval **in,
                                             const td_attrs *attrs, td_fval *out)
{
    int numbers = 0;
    bool odd = op->id == TD_OP_WHERE || op->id == TD_OP_CONJ;
    for (int k = 0; k < nin; k++) {
        bool number = (*in)[k].kind == TD_F_NUMBER;
        numbers += number;
        odd |= number ? op->params[td_op_param_of(op, nin, k)].kind != TD_P_NUMBER : (*in)[k].kind == TD_F_NONE;
    }
    if (!odd && numbers < nin) return false; /* an op's own numbers, beside tensors */
    td_fval *own = td_fx_alloc(f, (size_t)nin * sizeof *own);
    for (int k = 0; k < nin; k++) own[k] = (*in)[k];
    *in = own;
    return shortcut(f, op, nin, own, attrs, out) || f->failed;
}

/* In its callers: calls are nested deeper here than a processor remembers where to return. */
static inline __attribute__((always_inline)) void ask(td_fx *f, unsigned id, int nin, const td_fval *in,
                                                      const td_attrs *attrs, int nout, td_fval *out)
{
    const td_op *op = &td_ops[id];
    if (f->failed) return;
    if (!attrs) attrs = &no_attrs;
    bool plain = id != TD_OP_CONJ;
    for (int k = 0; k < nin; k++) plain &= in[k].kind == TD_F_TENSOR;
    if (!plain && settle(f, op, nin, &in, attrs, out)) return;
    f->failed = op->compose ? compose(f, op, nin, in, attrs, nout, out) : f->op(f, op, nin, in, attrs, nout, out);
}

void td_fx_op_many(td_fx *f, unsigned id, int nin, const td_fval *in, const td_attrs *attrs, int nout, td_fval *out)
{
    for (int k = 0; k < nout; k++) out[k] = td_fv_none();
    ask(f, id, nin, in, attrs, nout, out);
}

td_flist td_fx_op_list(td_fx *f, unsigned id, int nin, const td_fval *in, const td_attrs *attrs)
{
    td_flist l = td_fl_new(f, TD_MAX_OUTPUTS);
    f->nmade = 0;
    ask(f, id, nin, in, attrs, -l.n, l.v);
    l.n = f->nmade;
    return l;
}

td_fval td_fx_op(td_fx *f, unsigned id, int nin, const td_fval *in, const td_attrs *attrs)
{
    td_fval out = td_fv_none();
    ask(f, id, nin, in, attrs, 1, &out);
    return out;
}

td_fval td_fx_full(td_fx *f, td_fints shape, td_scalar value, td_dtype dtype)
{
    td_attrs a;
    td_attrs_init(&a);
    td_fx_push_ints(f, &a, shape);
    td_attrs_scalar(&a, value);
    td_attrs_dtype(&a, dtype);
    return td_fx_op(f, TD_OP_FULL, 0, NULL, &a);
}

td_fval td_fx_zeros(td_fx *f, td_fints shape)
{
    return td_fx_full(f, shape, td_int(0), f->dtype);
}

td_fval td_fx_ones(td_fx *f, td_fints shape)
{
    return td_fx_full(f, shape, td_int(1), f->dtype);
}

td_fval td_fx_positions(td_fx *f, td_fints shape)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_scalar(&a, td_int(0));
    td_attrs_scalar(&a, td_int(td_fi_numel(shape)));
    td_attrs_scalar(&a, td_int(1));
    td_attrs_dtype(&a, TD_INT64);
    return td_fx_reshape(f, td_fx_op(f, TD_OP_ARANGE, 0, NULL, &a), shape);
}

static td_fval call_with_ints(td_fx *f, unsigned op, td_fval v, td_fints l)
{
    td_attrs a;
    td_attrs_init(&a);
    td_fx_push_ints(f, &a, l);
    return td_fx_op(f, op, 1, &v, &a);
}

/* Can a tensor of this shape and stride be seen as `to` without a copy? Where strides are not known: only the builder
 * can say, so no. */
static bool viewable(const td_fmeta *m, td_fints to)
{
    if (!m->stride) return false;
    int64_t numel = td_fi_numel(td_fi_shape(*m));
    if (numel == 0) return true;
    int k = to.n - 1;
    for (int d = m->ndim - 1; d >= 0;) { /* blocks of dimensions that lie in one run */
        int64_t run = 1, step = m->stride[d];
        int e = d;
        for (; e >= 0 && (m->shape[e] == 1 || e == d || m->stride[e] == td_fi_mul(step, run)); e--)
            run = td_fi_mul(run, m->shape[e]);
        for (int64_t left = run; left > 1; k--) {
            if (k < 0 || to.v[k] <= 0 || left % to.v[k]) return false;
            left /= to.v[k];
        }
        d = e;
    }
    return true;
}

/* The shape with its -1 worked out. */
static td_fints sizes_of(td_fx *f, const td_fmeta *m, td_fints shape)
{
    td_fints to = td_fi_new(f, shape.n);
    int64_t known = 1;
    for (int k = 0; k < shape.n; k++) known = td_fi_mul(known, shape.v[k] < 0 ? 1 : shape.v[k]);
    int64_t rest = td_fi_div(td_fi_numel(td_fi_shape(*m)), known);
    for (int k = 0; k < shape.n; k++) to.v[k] = shape.v[k] < 0 ? rest : shape.v[k];
    return to;
}

const td_op *td_fx_reshape_direct(td_fx *f, td_fints shape, td_attrs *to)
{
    const td_fmeta *m = &f->in_meta[0];
    if (f->failed) return NULL;
    td_fints sizes = sizes_of(f, m, shape);
    if (td_fi_equal(td_fi_shape(*m), sizes) || !viewable(m, sizes)) return NULL;
    td_fx_push_ints(f, to, sizes);
    return &td_ops[TD_OP_VIEW];
}

td_fval td_fx_reshape(td_fx *f, td_fval v, td_fints shape)
{
    if (f->failed || v.kind != TD_F_TENSOR) return v;
    td_fmeta m = td_fx_meta(f, v);
    td_fints to = sizes_of(f, &m, shape);
    if (td_fi_equal(td_fi_shape(m), to)) return v;
    return call_with_ints(f, TD_OP_VIEW, viewable(&m, to) ? v : td_fx_cast(f, v, TD_DTYPE_NONE), to);
}

td_fval td_fx_cast(td_fx *f, td_fval v, td_dtype t)
{
    td_attrs a;
    td_attrs_init(&a);
    if (t == TD_DTYPE_NONE) td_attrs_none(&a);
    else td_attrs_dtype(&a, t);
    return td_fx_op(f, TD_OP_COPY, 1, &v, &a);
}

/* v[..., 0 : n-by] moved by `by` places along dim, ones in front. */
static td_fval shifted(td_fx *f, td_fval v, int64_t dim, int ndim, int64_t n, int64_t by)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, dim);
    td_attrs_int(&a, 0);
    td_attrs_int(&a, n - by);
    td_attrs_int(&a, 1);
    td_fval head = td_fx_op(f, TD_OP_SLICE, 1, &v, &a);
    td_fints pad = td_fi_new(f, 2 * (ndim - (int)dim)); /* pairs, last dimension first */
    for (int k = 0; k < pad.n; k++) pad.v[k] = 0;
    pad.v[pad.n - 2] = by;
    td_attrs_init(&a);
    td_fx_push_ints(f, &a, pad);
    td_attrs_scalar(&a, td_int(1));
    return td_fx_op(f, TD_OP_CONSTANT_PAD, 1, &head, &a);
}

td_fval td_fx_exclusive_prod(td_fx *f, td_fval v, int64_t dim)
{
    td_fmeta m = td_fx_meta(f, v);
    int ndim = m.ndim;
    if (f->failed || dim < 0 || dim >= ndim || m.shape[dim] == 0) return v;
    int64_t n = m.shape[dim];
    td_fval p = shifted(f, v, dim, ndim, n, 1);
    for (int64_t by = 1; by < n && !f->failed; by *= 2)
        p = td_fx_op(f, TD_OP_MUL, 2, (td_fval[]){p, shifted(f, p, dim, ndim, n, by)}, NULL);
    return p;
}

td_fval td_fx_filled(td_fx *f, int k)
{
    return f->g[k].kind ? f->g[k] : td_fx_zeros(f, td_fi_shape(f->out_meta[k]));
}

td_flist td_fx_filled_list(td_fx *f)
{
    td_flist l = td_fl_new(f, f->nout);
    for (int k = 0; k < l.n; k++) l.v[k] = td_fx_filled(f, k);
    return l;
}
