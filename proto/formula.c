/* The builder's common part: what every evaluation of a formula does, whether eager or into a program. Undefined values
 * are absorbed, numbers are folded, conj of something real vanishes; what is left is asked of the builder. */
#include "proto/formula.h"
#include "proto/opid.h"
#include <stdlib.h>
#include <string.h>

struct td_fx_block {
    struct td_fx_block *next;
    _Alignas(16) unsigned char bytes[];
};

void td_fx_init(td_fx *f)
{
    f->failed = 0;
    f->used = 0;
    f->blocks = NULL;
}

void td_fx_deinit(td_fx *f)
{
    while (f->blocks) {
        struct td_fx_block *b = f->blocks;
        f->blocks = b->next;
        free(b);
    }
}

/* Small things lie in the td_fx itself; large ones get a block of their own. */
void *td_fx_alloc(td_fx *f, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (f->used + bytes <= TD_FX_BYTES) {
        void *p = f->bytes + f->used;
        f->used += bytes;
        return p;
    }
    struct td_fx_block *b = malloc(sizeof *b + bytes);
    if (!b) longjmp(*f->no_memory, 1);
    b->next = f->blocks;
    f->blocks = b;
    return b->bytes;
}

int td_fx_guard(td_fx *f, int (*work)(td_fx *f, void *arg), void *arg)
{
    jmp_buf here;
    f->no_memory = &here;
    int rc = 0;
    if (setjmp(here)) rc = f->failed = td_no_memory(f->error, "for the gradient of %s", f->of->name);
    else rc = work(f, arg);
    f->no_memory = NULL;
    return rc;
}

int td_fx_first(const td_fx *f, int param)
{
    int list = f->of->list_param;
    return list < 0 || param <= list ? param : f->nin - (f->of->nparams - param);
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
    return f->given[td_fx_first(f, param)];
}

td_fval td_fx_in(const td_fx *f, int param)
{
    return f->in[td_fx_first(f, param)];
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

td_fmeta td_fx_meta_in(const td_fx *f, int param)
{
    return f->in_meta[td_fx_first(f, param)];
}

td_fmeta td_fx_meta_item(const td_fx *f, int k)
{
    return f->in_meta[f->of->list_param + k];
}

td_fmeta td_fx_meta(td_fx *f, td_fval v)
{
    td_fmeta m = {.dtype = (uint8_t)f->dtype};
    return v.kind == TD_F_TENSOR ? f->meta(f, &v) : m;
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

td_fval *td_fx_values(td_fx *f, int n)
{
    td_fval *v = td_fx_alloc(f, (size_t)n * sizeof *v);
    memset(v, 0, (size_t)n * sizeof *v);
    return v;
}

td_flist td_fl_new(td_fx *f, int n)
{
    td_flist l = {n, td_fx_values(f, n)};
    return l;
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
    if (k >= 0 && k < l.n) return l.v[k];
    if (!f->failed) f->failed = td_fail(f->error, TD_E_INTERNAL, "the gradient of %s reads past a list", f->of->name);
    return td_fv_none();
}

static const td_attrs no_attrs;

/* x + alpha*y and x - alpha*y with one of them undefined. */
static td_fval absorb_sum(td_fx *f, unsigned id, const td_fval *in, const td_attrs *attrs)
{
    if (in[1].kind == TD_F_NONE) return in[0];
    td_scalar factor = id == TD_OP_SUB ? td_fs_neg(attrs->at[0].s) : attrs->at[0].s;
    if (td_fs_compare(factor, td_int(1)) == 0) return in[1];
    return td_fx_op(f, TD_OP_MUL, 2, (td_fval[]){in[1], td_fv_number(factor)}, NULL);
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
            if (!in[k].kind) in[k] = td_fv_number(td_int(0));
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
            td_dtype t = in[k].number.kind == TD_S_BOOL ? TD_BOOL : f->dtype;
            in[k] = td_fx_full(f, td_fi_new(f, 0), in[k].number, t);
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
        *out = td_fv_number(s);
        return true;
    }
    if (op->id == TD_OP_WHERE && in[0].kind == TD_F_NUMBER) {
        *out = in[td_fs_compare(in[0].number, td_int(0)) ? 1 : 2];
        return true;
    }
    if (op->id == TD_OP_CONJ && !td_dtype_is_complex((td_dtype)td_fx_meta(f, in[0]).dtype)) {
        *out = in[0];
        return true;
    }
    if (numbers) numbers_to_tensors(f, op, nin, in);
    return false;
}

static void ask(td_fx *f, unsigned id, int nin, const td_fval *given, const td_attrs *attrs, int nout, td_fval *out)
{
    const td_op *op = td_op_by_id(id);
    if (f->failed) return;
    if (!attrs) attrs = &no_attrs;
    td_fval *in = nin ? td_fx_values(f, nin) : NULL;
    if (nin) memcpy(in, given, (size_t)nin * sizeof *in);
    if (nin && shortcut(f, op, nin, in, attrs, out)) return;
    if (!f->failed) f->failed = f->op(f, op, nin, in, attrs, nout, out);
}

void td_fx_op_many(td_fx *f, unsigned id, int nin, const td_fval *in, const td_attrs *attrs, int nout, td_fval *out)
{
    for (int k = 0; k < nout; k++) out[k] = td_fv_none();
    ask(f, id, nin, in, attrs, nout, out);
}

td_fval td_fx_op(td_fx *f, unsigned id, int nin, const td_fval *in, const td_attrs *attrs)
{
    td_fval out;
    td_fx_op_many(f, id, nin, in, attrs, 1, &out);
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
        for (; e >= 0 && (m->shape[e] == 1 || e == d || m->stride[e] == step * run); e--) run *= m->shape[e];
        for (int64_t left = run; left > 1; k--) {
            if (k < 0 || left % to.v[k]) return false;
            left /= to.v[k];
        }
        d = e;
    }
    return true;
}

td_fval td_fx_reshape(td_fx *f, td_fval v, td_fints shape)
{
    if (f->failed || v.kind != TD_F_TENSOR) return v;
    td_fmeta m = td_fx_meta(f, v);
    td_fints to = td_fi_new(f, shape.n);
    int64_t known = 1;
    for (int k = 0; k < shape.n; k++) known *= shape.v[k] < 0 ? 1 : shape.v[k];
    int64_t rest = td_fi_div(td_fi_numel(td_fi_shape(m)), known);
    for (int k = 0; k < shape.n; k++) to.v[k] = shape.v[k] < 0 ? rest : shape.v[k];
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
