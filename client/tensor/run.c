/* The way of every op: infer, choose ids, write the record. No allocation in the common case, and no round trip.
 *
 * Inference runs on the same function as in the daemon, so what passes here has a right shape there. On failure nothing
 * was written to the stream and no handle was made. */
#include "client/tensor/run.h"
#include "client/tensor/internal.h"
#include "proto/base/device.h"
#include "proto/ops/opid.h"

#include "client/tensor/memo.h"
#include "client/tensor/recorder.h"
#include "client/tensor/saving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_INPUTS = 16, FEW_OUTPUTS = 8 };

_Thread_local const td_recorder *td_recording __attribute__((tls_model("initial-exec")));
_Thread_local td_saving td_is_saving __attribute__((tls_model("initial-exec")));

/* One call on its way. The arrays are the local ones of td_run, or one piece of heap for long lists. */
typedef struct issue {
    td_client *c;
    const char *where;
    const td_op *op;
    unsigned flags;
    int nin, room, max_out, nout; /* room: of the caller; max_out: what inference may need */
    const td_arg *in;
    const td_attrs *attrs;
    td_operand *operands;
    td_scalar *numbers;
    uint32_t *in_ids, *out_ids;
    td_desc *descs;
    td_array **out;
    const td_memo *memo; /* the call agrees with it */
    int nnumbers;
} issue;

td_scalar td_scalar_of(td_arg a)
{
    td_scalar s = {(td_scalar_kind)(a.kind - TD_ARG_BOOL), 0, 0, 0};
    if (s.kind <= TD_S_INT) s.i = a.i;
    else s.re = a.re;
    if (s.kind == TD_S_COMPLEX) s.im = a.im;
    return s;
}

td_arg td_arg_of(td_scalar s)
{
    td_arg a = {(td_arg_kind)(TD_ARG_BOOL + s.kind), {.i = s.i}, s.im};
    if (s.kind > TD_S_INT) a.re = s.re;
    return a;
}

static int fail(const issue *u, const td_error *e)
{
    return td_raise_error(e, u->op->name, u->where);
}

int td_take_null(const td_op *op, int nin, int i)
{
    const td_param *p = &op->params[td_op_param_of(op, nin, i)];
    if (p->kind == TD_P_OPTIONAL || p->kind == TD_P_OPTIONAL_LIST) return TD_OK;
    return td_raise_null(op->name, p->name);
}

/* Operands for inference, and ids and numbers for the record. */
static int take_inputs(issue *u)
{
    int rc = TD_OK;
    for (int i = 0; i < u->nin && !rc; i++) {
        td_array *a = u->in[i].kind == TD_ARG_ARRAY ? u->in[i].array : NULL;
        u->operands[i] = (td_operand){NULL, NULL};
        u->in_ids[i] = 0;
        if (a) {
            if (a->client != u->c) return td_same_client(&u->c, a, u->op->name);
            if (a->unknown) rc = td_resolve(a);
            u->operands[i].desc = &a->desc;
            u->in_ids[i] = a->id;
        } else if (u->in[i].kind > TD_ARG_ARRAY) {
            u->numbers[u->nnumbers] = td_scalar_of(u->in[i]);
            u->operands[i].scalar = &u->numbers[u->nnumbers++];
            u->in_ids[i] = TD_NUMBER_BIT;
        } else {
            rc = td_take_null(u->op, u->nin, i);
        }
    }
    return rc;
}

int td_check_written(const td_op *op, const char *where, const td_desc *want, const td_desc *have)
{
    td_error e = {0};
    char a[96], b[96];
    if (!td_desc_same_shape(want, have))
        td_fail(&e, TD_E_SHAPE, "the result has shape %s, but what it is to be written to has %s",
                td_shape_text(want->ndim, want->shape, a, sizeof a),
                td_shape_text(have->ndim, have->shape, b, sizeof b));
    else if (!(op->flags & TD_OF_CAST_ANY) && !td_dtype_can_cast((td_dtype)want->dtype, (td_dtype)have->dtype))
        td_fail(&e, TD_E_TYPE, "result type %s can't be cast to %s", td_dtype_name((td_dtype)want->dtype),
                td_dtype_name((td_dtype)have->dtype));
    else if (td_desc_self_overlaps(have))
        td_fail(
            &e, TD_E_INVALID,
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation.");
    return e.code ? td_raise_error(&e, op->name, where) : TD_OK;
}

/* The tensors that are written: known, of this client, and of the right shape. */
static int take_outs(issue *u)
{
    int rc = TD_OK;
    if (u->op->flags & (TD_OF_VIEW | TD_OF_DATA_SHAPE))
        return td_raise(TD_E_UNSUPPORTED, u->op->name, "this op cannot write into a given tensor");
    for (int k = 0; k < u->nout && !rc; k++) {
        td_array *a = u->out[k];
        if (!a) rc = td_raise_null(u->op->name, "out");
        else rc = td_same_client(&u->c, a, u->op->name);
        if (!rc) rc = td_resolve(a);
        if (!rc) rc = td_check_written(u->op, u->where, &u->descs[k], &a->desc);
        if (!rc) u->out_ids[k] = a->id;
    }
    return rc;
}

/* A view knows what its base knows of the storage. */
static void share_storage(td_array *a, const td_array *base)
{
    a->storage = base->storage;
    a->is_grad = base->is_grad;
    if (base->mapping < 0) return;
    a->mapping = base->mapping;
    a->client->memory.mappings[a->mapping].users++;
    a->bytes = base->bytes;
    a->settled = base->settled;
}

static int make_outs(issue *u)
{
    if (u->nout > u->room)
        return td_raise(TD_E_INVALID, u->op->name, "%d results come, but there is room for %d", u->nout, u->room);
    for (int k = 0; k < u->nout; k++) {
        td_array *a = u->out[k] = td_array_new(u->c);
        if (!a) {
            while (k-- > 0) td_array_drop(u->out[k]);
            return fail(u, td_last_error());
        }
        a->desc = u->descs[k];
        a->unknown = u->op->flags & TD_OF_DATA_SHAPE;
        if (u->op->flags & TD_OF_VIEW) share_storage(a, u->in[0].array);
        else a->storage = ++u->c->tensor.storages;
        a->view = u->op->flags & TD_OF_VIEW && u->op->id != TD_OP_DETACH;
        u->out_ids[k] = a->id;
    }
    return TD_OK;
}

/* The record of a call that agrees with its memo and has no numbers: what td_words_op would write. */
static int write_again(const issue *u, unsigned flags, uint32_t site)
{
    const td_memo *m = u->memo;
    td_words *w = &u->c->out.words;
    uint32_t total = TD_RECORD_HEAD + (site != 0) + (uint32_t)u->nin + 1 + m->nwords;
    uint32_t *p = td_words_room(w, total);
    if (!p) return td_raise(TD_E_SYSTEM, u->op->name, "no memory for a record");
    *p++ = u->op->id | td_mode() << 16 | (flags | (site ? TD_RF_SITE : 0u)) << 24;
    *p++ = (uint32_t)u->nin | 1u << 12;
    *p++ = total;
    if (site) *p++ = site;
    for (int i = 0; i < u->nin; i++) *p++ = u->in_ids[i];
    *p++ = u->out_ids[0];
    for (uint32_t i = 0; i < m->nwords; i++) *p++ = m->words[i];
    w->count += total;
    return TD_OK;
}

static int write_record(const issue *u)
{
    td_client *c = u->c;
    int rc = td_region_here(c);
    if (rc) return rc;
    uint32_t site = u->where ? td_site(c, u->where) : 0;
    unsigned flags = u->flags | (td_wants_saved() ? TD_RF_SAVES : 0);
    if (u->memo && !u->nnumbers) return write_again(u, flags, site);
    td_error e;
    td_error_clear(&e);
    unsigned mode = u->op->flags & TD_OF_CREATION ? td_mode_making() : td_mode();
    rc = td_words_op(&c->out.words, u->op, mode, flags, site, u->nin, u->in_ids, u->nout, u->out_ids, u->numbers,
                     u->attrs, &e);
    return rc ? fail(u, &e) : TD_OK;
}

/* A leaf that requires grad must not be written where gradients are recorded; whether it still does, the daemon knows.
 */
static bool doubtful(const issue *u)
{
    bool doubt = false;
    if (td_mode() & (TD_RM_GRAD_OFF | TD_RM_INFERENCE)) return false;
    for (int k = 0; u->flags & TD_RF_OUT && k < u->nout; k++) doubt |= u->out[k]->leaf;
    for (int i = 0; u->op->mutates && i < u->nin; i++)
        doubt |= u->in[i].kind == TD_ARG_ARRAY && u->in[i].array && u->in[i].array->leaf;
    return doubt;
}

static int await_written(const issue *u)
{
    int rc = TD_OK;
    for (int k = 0; u->flags & TD_RF_OUT && k < u->nout && !rc; k++) rc = td_written(u->out[k]);
    for (int i = 0; u->op->mutates && i < u->nin && !rc; i++)
        if (u->op->params[td_op_param_of(u->op, u->nin, i)].flags & TD_PF_MUTATED && u->in[i].kind == TD_ARG_ARRAY &&
            u->in[i].array)
            rc = td_written(u->in[i].array);
    return rc;
}

/* Written into the batch; from here on the ids are bound. */
static int record(issue *u)
{
    td_client *c = u->c;
    int rc = write_record(u);
    bool made = !(u->flags & TD_RF_OUT);
    for (int k = 0; made && k < u->nout; k++) {
        if (rc) td_array_drop(u->out[k]);
        else td_array_announce(u->out[k]);
    }
    if (rc) return rc;
    if (u->op->flags & TD_OF_RANDOM) c->tensor.drawn++;
    if (u->flags & TD_RF_OUT || u->op->mutates) c->out.writes++;
    rc = td_recorded(c); /* fails when the connection is gone: then the caller gets nothing */
    if (!rc && (c->eager || doubtful(u))) rc = td_outcome(c);
    else if (!rc && c->tensor.seen) rc = await_written(u);
    for (int k = 0; rc && made && k < u->nout; k++) td_array_free(u->out[k]);
    return rc;
}

/* What is written into a given array is made where that lies. */
static uint8_t made_on(const issue *u)
{
    if (!(u->op->flags & TD_OF_CREATION)) return TD_CPU;
    if (u->flags & TD_RF_OUT) return u->room && u->out[0] ? u->out[0]->desc.device : TD_CPU;
    return (uint8_t)td_device_making();
}

int td_no_device(const td_client *c, const char *op, const char *where, unsigned device)
{
    td_error e = {0};
    td_device_absent(device, c->daemon.devices, &e);
    return td_raise_error(&e, op, where);
}

static int infer(issue *u)
{
    td_memo *memo = td_memo_of(u->c, u->op);
    if (memo && td_memo_fits(memo, u->op, u->nin, u->operands, u->attrs)) {
        u->memo = memo;
        u->descs = &memo->out;
        u->nout = 1;
        return TD_OK;
    }
    td_inference f = {.op = u->op,
                  .in = u->operands,
                  .nin = u->nin,
                  .attrs = u->attrs,
                  .device = made_on(u),
                  .out = u->descs,
                  .max_out = u->max_out};
    td_error e;
    td_error_clear(&e);
    if (td_op_infer(&f, &e)) return fail(u, &e);
    u->nout = f.nout;
    unsigned device = f.nout ? u->descs[0].device : TD_CPU;
    if (!(u->c->daemon.devices >> device & 1)) return td_no_device(u->c, u->op->name, u->where, device);
    if (memo) td_memo_keep(memo, u->op, u->nin, u->operands, u->attrs, u->descs);
    return TD_OK;
}

static int refused(const issue *u)
{
    const td_client *c = u->c;
    if (!c->daemon.refused || !(c->daemon.refused[u->op->id / 8] >> (u->op->id % 8) & 1)) return TD_OK;
    return td_raise(TD_E_UNSUPPORTED, u->op->name,
                    "op %s%s is not the same in this library (%s) and in the daemon (%s); use the same release of both",
                    u->op->name, u->op->signature, TD_VERSION, c->daemon.version);
}

static int issue_locked(issue *u)
{
    int rc = refused(u);
    if (!rc) rc = take_inputs(u);
    if (!rc) rc = infer(u);
    if (!rc) rc = u->flags & TD_RF_OUT ? take_outs(u) : make_outs(u);
    return rc ? rc : record(u);
}

static td_client *client_of_inputs(int nin, const td_arg *in)
{
    for (int i = 0; i < nin; i++)
        if (in[i].kind == TD_ARG_ARRAY && in[i].array) return in[i].array->client;
    return NULL;
}

/* No array to tell the client by: one of them is NULL, or a list of them is empty, or all are numbers. */
static int no_client(const td_op *op, int nin, const td_arg *in)
{
    for (int i = 0; i < nin; i++)
        if (in[i].kind == TD_ARG_ARRAY) return td_raise_null(op->name, op->params[td_op_param_of(op, nin, i)].name);
    if (!nin && op->list_param >= 0)
        return td_raise(TD_E_INVALID, op->name, "expected a non-empty list of Tensors, but '%s' is empty",
                        op->params[op->list_param].name);
    return td_raise(TD_E_INVALID, op->name, nin ? "at least one argument must be an array" : "the client is NULL");
}

/* Long lists: the same with arrays from the heap. */
static int issue_large(issue *u)
{
    size_t n = (size_t)u->nin + 1, m = (size_t)u->max_out + 1;
    u->operands = malloc(n * (sizeof *u->operands + sizeof *u->numbers + sizeof *u->in_ids));
    u->descs = malloc(m * (sizeof *u->descs + sizeof *u->out_ids));
    int rc = TD_E_SYSTEM;
    if (u->operands && u->descs) {
        u->numbers = (td_scalar *)(u->operands + n);
        u->in_ids = (uint32_t *)(u->numbers + n);
        u->out_ids = (uint32_t *)(u->descs + m);
        rc = issue_locked(u);
    } else {
        td_raise(rc, u->op->name, "no memory for a call with %d inputs and %d results", u->nin, u->max_out);
    }
    free(u->operands);
    free(u->descs);
    return rc;
}

/* In its callers, as the next one: calls are nested deep where an op is made of others, deeper than a processor
 * remembers where to return. */
static inline __attribute__((always_inline)) int issue_small(issue *u)
{
    td_operand operands[FEW_INPUTS];
    td_scalar numbers[FEW_INPUTS];
    uint32_t in_ids[FEW_INPUTS], out_ids[FEW_OUTPUTS];
    td_desc descs[FEW_OUTPUTS];
    u->operands = operands;
    u->numbers = numbers;
    u->in_ids = in_ids;
    u->out_ids = out_ids;
    u->descs = descs;
    return issue_locked(u);
}

static inline __attribute__((always_inline)) int run_issue(issue *u, int *nout)
{
    const td_op *op = u->op;
    int rc;
    u->max_out = op->nouts == 1 && op->outs[0].list ? TD_MAX_OUTPUTS : op->nouts;
    if (u->nin > TD_MAX_INPUTS) rc = td_raise(TD_E_INVALID, op->name, "%d tensors; at most %d", u->nin, TD_MAX_INPUTS);
    else if (u->nin > FEW_INPUTS || u->max_out > FEW_OUTPUTS) rc = issue_large(u);
    else rc = issue_small(u);
    if (nout && !rc) *nout = u->nout;
    return rc;
}

int td_run_locked(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
                  const td_attrs *attrs, int max_out, td_array **out, int *nout)
{
    issue u = {.c = c, .where = where, .op = op, .flags = flags, .nin = nin, .in = in, .attrs = attrs, .out = out};
    u.room = max_out;
    return run_issue(&u, nout);
}

/* A call of an op that is made of others and just is one of them: of its results one is wanted. */
static int run_just(issue *u, const td_op *op, const td_attrs *attrs, int pick, int *nout)
{
    const char *name = u->op->name;
    td_array *made[FEW_OUTPUTS], **out = u->out;
    u->op = op, u->attrs = attrs, u->out = made, u->room = op->nouts;
    int rc = run_issue(u, NULL);
    if (rc) {
        td_error e = *td_last_error();
        e.op[0] = 0; /* of the part */
        return td_raise_error(&e, name, u->where);
    }
    for (int o = 0; o < op->nouts; o++) {
        if (o == pick) out[0] = made[o];
        else td_array_free(made[o]);
    }
    if (nout) *nout = 1;
    return TD_OK;
}

int td_run(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
           const td_attrs *attrs, int max_out, td_array **out, int *nout)
{
    issue u = {.where = where, .op = op, .flags = flags, .nin = nin, .in = in, .attrs = attrs, .out = out};
    int made;
    u.room = max_out;
    if (!nout) nout = &made;
    *nout = 0;
    u.c = c ? c : client_of_inputs(nin, in);
    int rc = u.c ? td_enter_saving(u.c, op->name) : no_client(op, nin, in);
    if (rc) return rc;
    td_attrs its;
    int pick;
    const td_op *one = op->direct && !flags && max_out ? td_just(u.c, op, nin, in, attrs, &its, &pick) : NULL;
    if (one && one->nouts <= FEW_OUTPUTS) rc = run_just(&u, one, &its, pick, nout);
    else if (op->compose) rc = td_run_composed(u.c, where, op, flags, nin, in, attrs, max_out, out, nout);
    else rc = run_issue(&u, nout);
    if (td_recording && !rc) td_recording->op(u.c, where, op, flags, nin, in, attrs, *nout, out);
    if (rc && td_wants_saved()) td_is_saving.over(u.c);
    td_leave(u.c);
    if (rc || !td_wants_saved()) return rc;
    rc = td_is_saving.tell(u.c);
    for (int k = 0; rc && !(flags & TD_RF_OUT) && k < *nout; k++) td_release(out[k]);
    return rc;
}

void td_hand_over(td_array *a, td_array **out)
{
    if (out) *out = a;
    else td_release(a);
}
