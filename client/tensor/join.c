/* cat and stack of any number of tensors, where one record holds TD_MAX_LIST.
 *
 * A long list is inferred as a whole before anything is sent, so what is wrong with it is said with the number that a
 * tensor has in the program's list, and dtypes are promoted over all of it. Then it is run in pieces: each into its
 * place of the result when nothing is recorded, so that every byte is written once; else the pieces are made and
 * joined, so that gradients find their way through ordinary ops. */
#include "client/tensor/internal.h"
#include "client/tensor/run.h"

#include "proto/ops/opid.h"

#include <stdlib.h>

typedef struct join {
    const char *where;
    const td_op *op;
    td_list list;
    int dim;     /* of the result, along which pieces lie */
    td_desc out; /* the whole result */
} join;

static void along(int dim, td_attrs *attrs)
{
    td_attrs_init(attrs);
    td_attrs_int(attrs, dim);
}

static int run_short(const char *where, const td_op *op, unsigned flags, td_list l, const td_attrs *attrs,
                     td_array **out)
{
    td_arg in[TD_MAX_INPUTS];
    int n = 0;
    if (!td_give_list(in, &n, op, l)) return td_last_error()->code;
    return td_run(NULL, where, op, flags, n, in, attrs, 1, out, NULL);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int take_operands(const join *j, td_operand *in)
{
    td_client *c = j->list.at[0] ? j->list.at[0]->client : NULL;
    int rc = c ? TD_OK : td_raise_null(j->op->name, j->op->params[0].name);
    for (int i = 0; i < j->list.n && !rc; i++) {
        td_array *a = j->list.at[i];
        if (!a) rc = td_raise_null(j->op->name, j->op->params[0].name);
        else rc = td_same_client(&c, a, j->op->name);
        if (!rc && td_ndim(a) < 0) rc = td_last_error()->code; /* waits for it where only the daemon knows */
        if (!rc) in[i] = (td_operand){&a->desc, NULL};
    }
    return rc;
}

static int infer_whole(join *j, const td_attrs *attrs)
{
    td_operand *in = malloc((size_t)j->list.n * sizeof *in);
    if (!in) return td_raise(TD_E_SYSTEM, j->op->name, "no memory for a list of %d tensors", j->list.n);
    td_inference f = {
        .op = j->op, .in = in, .nin = j->list.n, .whole = true, .attrs = attrs, .out = &j->out, .max_out = 1};
    td_error e;
    td_error_clear(&e);
    int rc = take_operands(j, in);
    if (!rc && (td_op_infer(&f, &e) || td_wrap_dim(attrs->at[0].i, j->out.ndim, &j->dim, &e)))
        rc = td_raise_error(&e, j->op->name, j->where);
    free(in);
    return rc;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* How far a piece goes along the result; *dim: what it is joined along. What joins as a whole joins in pieces, but for
 * a piece of [0] alone, which adds nothing to anything: it has no such dimension. */
static int64_t extent(const join *j, td_list piece, int *dim)
{
    td_operand in[TD_MAX_LIST];
    td_attrs attrs;
    td_desc out;
    for (int i = 0; i < piece.n; i++) in[i] = (td_operand){&piece.at[i]->desc, NULL};
    along(j->dim, &attrs);
    td_inference f = {.op = j->op, .in = in, .nin = piece.n, .attrs = &attrs, .out = &out, .max_out = 1};
    bool nothing = td_op_infer(&f, NULL) != TD_OK;
    *dim = nothing ? 0 : j->dim;
    return nothing ? 0 : out.shape[j->dim];
}

/* Values change their dtype once, straight to that of the whole: a piece of several dtypes might promote to one
 * between. */
static bool has_several_dtypes(td_list piece)
{
    for (int i = 1; i < piece.n; i++)
        if (piece.at[i]->desc.dtype != piece.at[0]->desc.dtype) return true;
    return false;
}

static int run_piece(const join *j, unsigned flags, td_list piece, int dim, td_array **out)
{
    td_array *cast[TD_MAX_LIST];
    td_attrs attrs;
    int rc = TD_OK, n = 0;
    along(dim, &attrs);
    if (has_several_dtypes(piece)) {
        for (; n < piece.n && !rc; n += !rc)
            if (!(cast[n] = td_at_to(j->where, piece.at[n], (td_dtype)j->out.dtype))) rc = td_last_error()->code;
        piece.at = cast;
    }
    if (!rc) rc = run_short(j->where, j->op, flags, piece, &attrs, out);
    while (n > 0) td_release(cast[--n]);
    return rc;
}

static td_list piece_at(const join *j, int at)
{
    int left = j->list.n - at;
    return td_arrays_of(left < TD_MAX_LIST ? left : TD_MAX_LIST, j->list.at + at);
}

/* Each piece into its place. */
static int fill(const join *j, td_array **out)
{
    td_array *y = td_at_empty(j->where, td_client_of(j->list.at[0]), td_dims_of(j->out.ndim, j->out.shape),
                              (td_dtype)j->out.dtype);
    int rc = y ? TD_OK : td_last_error()->code, dim;
    int64_t from = 0;
    for (int i = 0; i < j->list.n && !rc; i += TD_MAX_LIST) {
        int64_t n = extent(j, piece_at(j, i), &dim);
        if (!n) continue;
        td_array *place = td_at_slice(j->where, y, j->dim, td_arg_int(from), td_arg_int(from + n), 1);
        rc = place ? run_piece(j, TD_RF_OUT, piece_at(j, i), dim, &place) : td_last_error()->code;
        td_release(place);
        from += n;
    }
    if (rc) td_release(y);
    else *out = y;
    return rc;
}

/* Pieces, and then these joined: a list of pieces may be long itself. */
static int join_pieces(const join *j, unsigned flags, td_array **out)
{
    int n = 0, dim, rc = TD_OK;
    td_attrs attrs;
    along(j->dim, &attrs);
    td_array **made = malloc(((size_t)j->list.n / TD_MAX_LIST + 1) * sizeof *made);
    if (!made) return td_raise(TD_E_SYSTEM, j->op->name, "no memory for a list of %d tensors", j->list.n);
    for (int i = 0; i < j->list.n && !rc; i += TD_MAX_LIST) {
        extent(j, piece_at(j, i), &dim);
        rc = run_piece(j, 0, piece_at(j, i), dim, &made[n]);
        n += !rc;
    }
    if (!rc) rc = td_run_list(j->where, &td_ops[TD_OP_CAT], flags, td_arrays_of(n, made), &attrs, out);
    while (n > 0) td_release(made[--n]);
    free(made);
    return rc;
}

/* What is made of cat (vstack and the like) is the same of its own results. */
static int run_parts(const char *where, const td_op *op, unsigned flags, td_list l, const td_attrs *attrs,
                     td_array **out)
{
    int n = 0, rc = TD_OK;
    td_array **made = malloc(((size_t)l.n / TD_MAX_LIST + 1) * sizeof *made);
    if (!made) return td_raise(TD_E_SYSTEM, op->name, "no memory for a list of %d tensors", l.n);
    for (int i = 0; i < l.n && !rc; i += TD_MAX_LIST) {
        int left = l.n - i;
        rc = run_short(where, op, 0, td_arrays_of(left < TD_MAX_LIST ? left : TD_MAX_LIST, l.at + i), attrs, &made[n]);
        n += !rc;
    }
    if (!rc) rc = td_run_list(where, op, flags, td_arrays_of(n, made), attrs, out);
    while (n > 0) td_release(made[--n]);
    free(made);
    return rc;
}

int td_run_list(const char *where, const td_op *op, unsigned flags, td_list l, const td_attrs *attrs, td_array **out)
{
    if (l.n <= TD_MAX_LIST) return run_short(where, op, flags, l, attrs, out);
    if (op->compose) return run_parts(where, op, flags, l, attrs, out);
    join j = {.where = where, .op = op, .list = l};
    int rc = infer_whole(&j, attrs);
    if (rc) return rc;
    bool fresh = !(flags & TD_RF_OUT) && !td_grad_enabled() && j.out.device == TD_CPU;
    return fresh ? fill(&j, out) : join_pieces(&j, flags, out);
}
