/* Ops made of ops: what the table says of one (its column `decompose`) is sent, op by op.
 *
 * Intermediate arrays are released here; the call site of the whole is that of every part, and an error has the name of
 * the whole. What needs nothing to be done gives another handle on the same tensor, so that a result is always the
 * caller's own. */
#include "client/tensor/internal.h"
#include "client/tensor/run.h"
#include "proto/ops/formula.h"
#include "proto/ops/opid.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 16 };

/* What was made on the way; NULL: handed over. */
typedef struct making {
    td_client *c;
    const char *where;
    td_array **made, *few[FEW];
    int n, room;
    unsigned device; /* of the inputs: what is made on the way lies there, too */
} making;

static bool make_room(making *m, int more)
{
    if (m->n + more <= m->room) return true;
    int room = 2 * (m->n + more);
    td_array **made = malloc((size_t)room * sizeof *made);
    if (!made) return false;
    memcpy(made, m->made, (size_t)m->n * sizeof *made);
    if (m->made != m->few) free(m->made);
    m->made = made, m->room = room;
    return true;
}

static void drop(making *m)
{
    for (int k = 0; k < m->n; k++)
        if (m->made[k]) td_array_free(m->made[k]);
    if (m->made != m->few) free(m->made);
}

/* The builder: an op is sent. */
static int send_one(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int nout,
                    td_fval *out)
{
    making *m = f->arg;
    int room = nout < 0 ? -nout : nout, rc;
    td_arg *args = td_fx_alloc(f, (size_t)nin * sizeof *args);
    for (int i = 0; i < nin; i++)
        args[i] = in[i].kind == TD_F_NUMBER ? td_arg_of(*in[i].number) : td_arg_array(in[i].ref);
    if (!make_room(m, room)) return td_no_memory(f->error, "for what an op makes on its way");
    td_array **made = m->made + m->n;
    unsigned before = op->flags & TD_OF_CREATION ? td_now_on(m->device) : 0;
    rc = td_run_locked(m->c, m->where, op, 0, nin, args, attrs, room, made, &f->nmade);
    if (op->flags & TD_OF_CREATION) td_now_on(before);
    if (rc) {
        *f->error = *td_last_error();
        return rc;
    }
    for (int o = 0; o < f->nmade; o++) out[o] = (td_fval){TD_F_TENSOR, {made[o]}};
    m->n += f->nmade;
    return TD_OK;
}

static void meta_of(td_fx *f, const td_fval *v, td_fmeta *m)
{
    (void)f;
    *m = td_fmeta_of(&((td_array *)v->ref)->desc);
}

/* Does the call agree with the signature? Counts and kinds are those of the function that was called. */
static int check(td_fx *f, const td_op *op, int nin, const td_fval *values, const td_attrs *attrs)
{
    td_operand *operands = td_fx_alloc(f, (size_t)nin * sizeof *operands);
    for (int i = 0; i < nin; i++) {
        operands[i].desc = values[i].kind == TD_F_TENSOR ? &((td_array *)values[i].ref)->desc : NULL;
        operands[i].scalar = values[i].kind == TD_F_NUMBER ? values[i].number : NULL;
    }
    td_inference call = {.op = op, .in = operands, .nin = nin, .attrs = attrs};
    return td_op_check(&call, f->error) ? td_raise_error(f->error, op->name, ((making *)f->arg)->where) : TD_OK;
}

/* The inputs as values, and how they look, once the call agrees with the signature: quickly seen where no number and no
 * second device is about. */
static inline int take(td_fx *f, const td_op *op, int nin, const td_arg *in, const td_attrs *attrs, td_fval *values,
                       td_fmeta *look)
{
    making *m = f->arg;
    bool plain = true;
    for (int i = 0; i < nin; i++) {
        int rc = TD_OK;
        td_array *a = in[i].kind == TD_ARG_ARRAY ? in[i].array : NULL;
        if (a) {
            if (a->client != m->c) rc = td_same_client(&m->c, a, op->name);
            else if (a->unknown) rc = td_resolve(a);
            values[i] = (td_fval){TD_F_TENSOR, {a}};
            look[i] = td_fmeta_of(&a->desc);
            if (a->desc.device != TD_CPU) m->device = a->desc.device; /* a number may lie beside it */
            plain &= a->desc.device == TD_CPU;
        } else if (in[i].kind > TD_ARG_ARRAY) {
            values[i] = td_fv_number(f, td_scalar_of(in[i]));
            look[i] = (td_fmeta){.dtype = TD_FLOAT32};
            plain = false;
        } else {
            rc = td_take_null(op, nin, i);
            look[i] = (td_fmeta){.dtype = TD_FLOAT32};
            values[i] = td_fv_none();
        }
        if (rc) return rc;
    }
    if (nin && values[0].kind == TD_F_TENSOR) plain &= op->dtypes >> ((td_array *)values[0].ref)->desc.dtype & 1;
    return plain ? TD_OK : check(f, op, nin, values, attrs);
}

/* A result for the caller: what was made here is handed over, of an input there is another handle. */
static td_array *hand_over(making *m, td_array *a)
{
    for (int k = m->n - 1; k >= 0; k--)
        if (m->made[k] == a) {
            m->made[k] = NULL;
            return a;
        }
    return td_array_alias(a);
}

static int give_results(making *m, int n, const td_fval *values, td_array **out)
{
    for (int k = 0; k < n; k++) {
        if ((out[k] = hand_over(m, values[k].ref))) continue;
        while (k-- > 0) td_array_free(out[k]);
        return td_last_error()->code;
    }
    return TD_OK;
}

/* All but what needs memory to go on. */
static inline int compose(td_fx *how, int nin, const td_arg *in, const td_attrs *attrs, int max_out, td_array **out,
                          int *nout)
{
    const td_op *op = how->of;
    making *m = how->arg;
    td_fval *values = td_fx_alloc(how, (size_t)nin * sizeof *values);
    td_fmeta *look = td_fx_alloc(how, (size_t)nin * sizeof *look);
    int rc = take(how, op, nin, in, attrs, values, look);
    if (rc) return rc;
    td_fx_begin(how, op, nin, values, look, attrs);
    op->compose(how);
    if (!td_fx_end(how, max_out)) {
        if (nout) *nout = how->made.n;
        return give_results(m, how->made.n, how->made.v, out);
    }
    how->error->op[0] = 0; /* of the part that failed */
    return td_raise_error(how->error, op->name, m->where);
}

/* Into a given array, as every op writes there. */
static int write_into(td_client *c, const char *where, const td_op *op, td_array *made, td_array **out)
{
    td_arg from = td_arg_array(made);
    td_attrs attrs;
    td_attrs_init(&attrs);
    td_attrs_none(&attrs);
    int rc = out[0] ? td_same_client(&c, out[0], op->name) : td_raise_null(op->name, "out");
    if (!rc) rc = td_resolve(out[0]);
    if (!rc) rc = td_check_written(op, where, &made->desc, &out[0]->desc);
    if (!rc) rc = td_run_locked(c, where, td_op_by_id(TD_OP_COPY), TD_RF_OUT, 1, &from, &attrs, 1, out, NULL);
    td_array_free(made);
    return rc;
}

int td_run_composed(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
                    const td_attrs *attrs, int max_out, td_array **out, int *nout)
{
    td_fx how;
    td_error e;
    td_array *made[1];
    bool into = flags & TD_RF_OUT;
    making m; /* not `few`: that is only room */
    m.device = TD_CPU, m.c = c, m.where = where, m.made = m.few, m.n = 0, m.room = FEW;
    td_error_clear(&e);
    td_fx_init(&how);
    how.op = send_one, how.meta = meta_of, how.arg = &m, how.create_graph = td_grad_enabled(), how.error = &e;
    how.of = op;
    jmp_buf here; /* as td_fx_guard does, but fewer calls deep */
    how.no_memory = &here;
    int rc = setjmp(here) ? td_no_memory(&e, "for the parts of %s", op->name)
                          : compose(&how, nin, in, attrs, max_out, into ? made : out, nout);
    if (rc == TD_E_SYSTEM && e.code) td_raise_error(&e, op->name, where);
    drop(&m);
    td_fx_deinit(&how);
    return rc || !into ? rc : write_into(c, where, op, made[0], out);
}

/* ---- a call that is just another op's ---- */

enum { PLAIN = 4 }; /* inputs */

const td_op *td_just(td_client *c, const td_op *op, int nin, const td_arg *in, const td_attrs *attrs, td_attrs *to,
                     int *pick)
{
    td_fx f; /* as far as it is looked at */
    td_error e;
    td_fmeta look[PLAIN];
    if (nin > PLAIN) return NULL;
    for (int i = 0; i < nin; i++) {
        const td_array *a = in[i].kind == TD_ARG_ARRAY ? in[i].array : NULL;
        if (!a || a->client != c || a->unknown || a->desc.device != TD_CPU) return NULL;
        look[i] = td_fmeta_of(&a->desc);
    }
    if (nin && !(op->dtypes >> look[0].dtype & 1)) return NULL;
    td_fx_init(&f);
    td_attrs_init(to);
    f.of = op, f.nin = nin, f.attrs = attrs, f.in_meta = look, f.error = &e, f.no_memory = NULL, f.pick = 0;
    f.create_graph = td_grad_enabled();
    const td_op *one = op->direct(&f, to);
    if (f.blocks) td_fx_deinit(&f);
    *pick = f.pick;
    return f.failed || (one && one->compose) ? NULL : one;
}
