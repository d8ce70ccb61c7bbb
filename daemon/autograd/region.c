/* Writing down what a region does, op by op, for the regions that lie in each other from the outermost to the
 * innermost.
 *
 * Everything that can fail for an op is done before it is prepared, as far as its outputs are known. */
#include "daemon/autograd/region.h"
#include "daemon/autograd/backward.h"
#include "proto/ops/opid.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local uint64_t loop_regions;

/* `n` more, zero; NULL without memory. */
static void *add(td_list_of *l, uint32_t n, size_t size, td_error *e)
{
    uint32_t room = l->room ? l->room : 16;
    while (room < l->count + n) room *= 2;
    void *p = room == l->room ? l->at : td_array_grow(l->at, l->room * size, room * size);
    if (!p) {
        td_no_memory(e, "for a checkpoint");
        return NULL;
    }
    td_loop_nodes_bytes += (room - l->room) * size;
    l->at = p;
    l->room = room;
    p = (char *)p + l->count * size;
    memset(p, 0, n * size);
    l->count += n;
    return p;
}

/* ---- the life of one */

td_region *td_region_new(td_region *parent, td_account *account, td_error *e)
{
    if (td_account_charge(account, 0, 1, e)) return NULL;
    td_region *r = calloc(1, sizeof *r);
    if (!r) {
        td_account_discharge(account, 0, 1);
        td_no_memory(e, "for a checkpoint");
        return NULL;
    }
    r->refs = 1;
    r->charged = 1;
    r->serial = ++loop_regions;
    r->parent = parent ? td_region_ref(parent) : NULL;
    r->account = account ? td_account_ref(account) : NULL;
    return r;
}

td_region *td_region_ref(td_region *r)
{
    r->refs++;
    return r;
}

static void free_list(td_list_of *l, size_t size)
{
    td_array_free(l->at, l->room * size);
    td_loop_nodes_bytes -= l->room * size;
}

static void free_lists(td_region *r)
{
    free_list(&r->entries, sizeof(td_region_op));
    free_list(&r->refs_of, sizeof(td_ref));
    free_list(&r->words, sizeof(uint32_t));
    free_list(&r->values, sizeof(td_region_value));
    free_list(&r->kin, sizeof(td_kin));
    free_list(&r->sources, sizeof(td_saved));
    free_list(&r->picks, sizeof(td_pick));
}

/* A few sources at a time. */
static void end(td_dead *d)
{
    enum { MOST = 16 };
    td_region *r = (td_region *)(void *)((char *)d - offsetof(td_region, dead));
    for (int k = 0; r->sources.count && k < MOST; k++)
        td_saved_release(td_at(r->sources, td_saved, --r->sources.count));
    if (r->sources.count) {
        td_die(d, end);
        return;
    }
    td_account_discharge(r->account, 0, r->charged);
    td_account_unref(r->account);
    free_lists(r);
    free(r);
}

void td_region_unref(td_region *r)
{
    if (!r || --r->refs) return;
    td_region_unref(r->parent);
    td_die(&r->dead, end);
}

void td_region_close(td_region *r)
{
    td_region_unref(r->parent);
    r->parent = NULL;
}

/* ---- what a tensor is in it */

static td_part *part_of(const td_region *r, const td_tensor *t)
{
    const td_auto *a = td_auto_of(t);
    for (td_part *p = a ? a->parts : NULL; p; p = p->next)
        if (p->region == r->serial) return p;
    return NULL;
}

void td_region_parts_free(td_auto *a)
{
    while (a->parts) {
        td_part *p = a->parts;
        a->parts = p->next;
        td_loop_nodes_bytes -= sizeof *p;
        free(p);
    }
}

static bool is_open(const td_region *r, uint64_t serial)
{
    for (; r; r = r->parent)
        if (r->serial == serial) return true;
    return false;
}

/* Those of regions that are over make room. */
static td_part *new_part(const td_region *r, td_auto *a, td_error *e)
{
    for (td_part *p = a->parts; p; p = p->next)
        if (!is_open(r, p->region)) return p;
    td_part *p = malloc(sizeof *p);
    if (!p) {
        td_no_memory(e, "for a checkpoint");
        return NULL;
    }
    td_loop_nodes_bytes += sizeof *p;
    p->next = a->parts;
    a->parts = p;
    return p;
}

static int set_part(td_region *r, td_tensor *t, uint32_t value, td_error *e)
{
    td_part *p = part_of(r, t);
    td_auto *a = p ? NULL : td_auto_need(t, e);
    if (!p && !a) return TD_E_SYSTEM;
    if (!p && !(p = new_part(r, a, e))) return TD_E_SYSTEM;
    p->region = r->serial;
    p->value = value;
    return 0;
}

/* The value that it is now; NULL: it comes from outside, or was written by somebody else meanwhile. */
static td_region_value *value_of(const td_region *r, const td_tensor *t)
{
    const td_part *p = part_of(r, t);
    td_region_value *v = p ? td_at(r->values, td_region_value, p->value) : NULL;
    return v && td_version_still(t->version, td_at(r->kin, td_kin, v->family)->version) ? v : NULL;
}

static bool is_own(const td_region *r, const td_region_value *v)
{
    return v && v->source == TD_MADE && !td_at(r->kin, td_kin, v->family)->foreign;
}

static int new_value(td_region *r, uint32_t family, uint32_t source, uint32_t *out, td_error *e)
{
    td_region_value *v = add(&r->values, 1, sizeof *v, e);
    if (!v) return TD_E_SYSTEM;
    *v = (td_region_value){family, source, r->entries.count - 1};
    *out = r->values.count - 1;
    return 0;
}

/* of: it has the bytes of that kin, or TD_MADE. */
static int new_kin(td_region *r, uint32_t version, uint32_t of, bool foreign, uint32_t *out, td_error *e)
{
    td_kin *k = add(&r->kin, 1, sizeof *k, e);
    if (!k) return TD_E_SYSTEM;
    *out = r->kin.count - 1;
    *k = (td_kin){version, of == TD_MADE ? *out : td_at(r->kin, td_kin, of)->root, foreign};
    return 0;
}

/* ---- sources */

/* A value of a region around this one is picked there; all else is held. */
static int hold(td_region *r, td_saved *s, int i, td_tensor *t, td_error *e)
{
    bool picked = false;
    int rc = i < 0 ? 0 : td_region_pick(r->parent, s, i, TD_PICK_INPUT, &picked, e);
    return rc || picked ? rc : td_save_output(s, t, 0, e);
}

/* i: of the op at hand; -1: it is a copy that nobody else has. */
static int add_source(td_region *r, int i, td_tensor *t, uint32_t *value, td_error *e)
{
    uint32_t family;
    int rc = new_kin(r, t->version->value, TD_MADE, true, &family, e);
    td_saved *s = rc ? NULL : add(&r->sources, 1, sizeof *s, e);
    if (!s) return TD_E_SYSTEM;
    rc = hold(r, s, i, t, e);
    return rc ? rc : new_value(r, family, r->sources.count - 1, value, e);
}

static int refer(td_region *r, int i, td_tensor *t, uint32_t *value, td_error *e)
{
    td_region_value *v = value_of(r, t);
    if (v) {
        v->last = r->entries.count - 1;
        *value = (uint32_t)(v - (td_region_value *)r->values.at);
        return 0;
    }
    int rc = add_source(r, i, t, value, e);
    return rc ? rc : set_part(r, t, *value, e);
}

/* The op writes what is no value of the region: it runs again on a copy of what that was. */
static int copy_source(td_region *r, td_call *c, int i, uint32_t *value, td_need *need, td_error *e)
{
    td_input in = td_in(c->in[i].tensor);
    td_tensor *copy;
    int rc = td_ops_try(c->who, TD_OP_COPY, 1, &in, NULL, 0, 1, &copy, need, e);
    if (rc) return rc;
    rc = add_source(r, -1, copy, value, e);
    td_tensor_unref(copy);
    return rc;
}

/* ---- one op */

/* Is it run again? Not if it writes to what the region did not make. */
static bool repeats(const td_region *r, const td_call *c)
{
    if (c->op->flags & TD_OF_DATA_SHAPE) return false;
    for (int o = 0; c->flags & TD_CF_OUT && o < c->nout; o++)
        if (!is_own(r, value_of(r, c->out[o]))) return false;
    return true;
}

static bool needs_copy(const td_region *r, const td_call *c, int i)
{
    return c->in[i].kind == TD_IN_TENSOR && td_call_writes_input(c, i) && !is_own(r, value_of(r, c->in[i].tensor));
}

static td_ref *ref_at(const td_region *r, const td_region_op *n, int i)
{
    return td_at(r->refs_of, td_ref, n->refs + (uint32_t)i);
}

static td_region_op *last_entry(const td_region *r)
{
    return td_at(r->entries, td_region_op, r->entries.count - 1);
}

/* Of a call's flags: what is made again needs no place of its own. */
#define REPEATED (TD_CF_OUT | (uint32_t)(TD_MAX_DEVICES - 1) << TD_CF_DEVICE)

static int new_entry(td_region *r, const td_call *c, td_error *e)
{
    uint32_t at = r->refs_of.count, words = r->words.count;
    uint32_t nwords = c->op->nattrs ? (uint32_t)td_attrs_words(c->op, &c->attrs) : 0;
    int given = c->flags & TD_CF_OUT ? c->nout : 0;
    uint64_t cost = 1 + (c->nin + (uint32_t)given + nwords / 8) / 16; /* in objects */
    int rc = td_account_charge(r->account, 0, cost, e);
    if (rc) return rc;
    r->charged += cost;
    uint32_t *w = nwords ? add(&r->words, nwords, sizeof *w, e) : NULL;
    if ((nwords && !w) || !add(&r->refs_of, (uint32_t)(c->nin + given), sizeof(td_ref), e)) return TD_E_SYSTEM;
    td_region_op *n = add(&r->entries, 1, sizeof *n, e);
    if (!n) return TD_E_SYSTEM;
    r->writing = true;
    if (nwords) td_attrs_encode(c->op, &c->attrs, w);
    *n = (td_region_op){c->op->id, c->nin, (uint16_t)given, c->flags & REPEATED, at,
                        words,     nwords, c->who->seed,    c->who->counter};
    return 0;
}

static int take_inputs(td_region *r, const td_call *c, td_error *e)
{
    int rc = 0;
    for (int i = 0; i < c->nin && !rc; i++) {
        td_ref *ref = ref_at(r, last_entry(r), i);
        *ref = (td_ref){.kind = c->in[i].kind, .number = c->in[i].number, .copy = needs_copy(r, c, i)};
        uint32_t value = 0;
        if (ref->kind == TD_IN_TENSOR && !ref->copy) rc = refer(r, i, c->in[i].tensor, &value, e);
        ref->value = value;
    }
    for (int o = 0; c->flags & TD_CF_OUT && o < c->nout && !rc; o++) {
        td_ref *ref = ref_at(r, last_entry(r), c->nin + o);
        ref->kind = TD_IN_TENSOR;
        rc = refer(r, -1, c->out[o], &ref->value, e);
    }
    return rc;
}

static int take_copies(td_region *r, td_call *c, td_need *need, td_error *e)
{
    int rc = 0;
    for (int i = 0; i < c->nin && !rc; i++) {
        td_ref *ref = ref_at(r, last_entry(r), i);
        if (ref->copy) rc = copy_source(r, c, i, &ref->value, need, e);
    }
    return rc;
}

static int begin(td_region *r, td_call *c, td_need *need, td_error *e)
{
    r->before.values = r->values.count, r->before.kin = r->kin.count;
    r->before.sources = r->sources.count, r->before.picks = r->picks.count;
    if (!repeats(r, c)) return 0;
    int rc = new_entry(r, c, e);
    if (!rc) rc = take_inputs(r, c, e);
    return rc ? rc : take_copies(r, c, need, e);
}

int td_region_begin(td_region *r, td_call *c, td_need *need, td_error *e)
{
    int rc = r->parent ? td_region_begin(r->parent, c, need, e) : 0;
    return rc ? rc : begin(r, c, need, e);
}

static void wrote(td_region *r, const td_tensor *t)
{
    td_part *p = part_of(r, t);
    if (p) td_at(r->kin, td_kin, td_at(r->values, td_region_value, p->value)->family)->version = t->version->value;
}

/* A view is of the kin of what it is a view of. */
static int kin_of(td_region *r, const td_call *c, const td_tensor *t, uint32_t *out, td_error *e)
{
    td_tensor *x = c->nin && c->in[0].kind == TD_IN_TENSOR ? c->in[0].tensor : NULL;
    bool view = x && x->storage == t->storage;
    const td_region_value *v = view ? td_at(r->values, td_region_value, ref_at(r, last_entry(r), 0)->value) : NULL;
    if (!v) return new_kin(r, t->version->value, TD_MADE, false, out, e);
    *out = v->family;
    if (x->version == t->version) return 0;
    return new_kin(r, t->version->value, v->family, td_at(r->kin, td_kin, v->family)->foreign, out, e);
}

static int give_output(td_region *r, const td_call *c, int o, td_error *e)
{
    uint32_t family, value = 0;
    int rc = kin_of(r, c, c->out[o], &family, e);
    if (!rc) rc = new_value(r, family, TD_MADE, &value, e);
    if (!rc) rc = set_part(r, c->out[o], value, e);
    if (rc) return rc;
    td_ref *ref = ref_at(r, last_entry(r), c->nin + o);
    *ref = (td_ref){.kind = TD_IN_TENSOR, .value = value};
    return 0;
}

static int give(td_region *r, const td_call *c, td_error *e)
{
    bool given = c->flags & TD_CF_OUT;
    if (!given && !add(&r->refs_of, c->nout, sizeof(td_ref), e)) return TD_E_SYSTEM;
    last_entry(r)->nout = c->nout;
    int rc = 0;
    for (int o = 0; o < c->nout && !rc; o++) {
        if (given) wrote(r, c->out[o]);
        else rc = give_output(r, c, o, e);
    }
    for (int i = 0; c->op->mutates && i < c->nin && !rc; i++)
        if (td_call_writes_input(c, i) && !ref_at(r, last_entry(r), i)->copy) wrote(r, c->in[i].tensor);
    return rc;
}

int td_region_give(td_region *r, td_call *c, td_error *e)
{
    int rc = 0;
    for (; r && !rc; r = r->parent)
        if (r->writing) rc = give(r, c, e);
    return rc;
}

/* It is no value any more that was one only of what is given up. */
static void forget(td_region *r, const td_tensor *t)
{
    td_part *p = t ? part_of(r, t) : NULL;
    if (p && p->value >= r->before.values) p->region = 0;
}

static void give_up(td_region *r, const td_call *c)
{
    td_region_op *n = last_entry(r);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].kind == TD_IN_TENSOR) forget(r, c->in[i].tensor);
    for (int o = 0; o < n->nout; o++) forget(r, c->out[o]);
    while (r->sources.count > r->before.sources) td_saved_release(td_at(r->sources, td_saved, --r->sources.count));
    r->values.count = r->before.values, r->kin.count = r->before.kin, r->picks.count = r->before.picks;
    r->refs_of.count = n->refs, r->words.count = n->words;
    r->entries.count--;
}

void td_region_end(td_region *r, td_call *c, int rc)
{
    for (; r; r = r->parent) {
        if (r->writing && rc) give_up(r, c);
        r->writing = false;
    }
}

/* ---- what nodes save */

static bool makes(const td_region *r, int index, unsigned what)
{
    if (!r->writing) return false;
    const td_region_op *n = last_entry(r);
    const td_ref *ref = ref_at(r, n, what == TD_PICK_OUTPUT ? n->nin + index : index);
    return ref->kind == TD_IN_TENSOR && !ref->copy && is_own(r, td_at(r->values, td_region_value, ref->value));
}

int td_region_pick(td_region *r, td_saved *s, int index, unsigned what, bool *picked, td_error *e)
{
    *picked = false;
    while (r && !makes(r, index, what)) r = r->parent;
    if (!r) return 0;
    td_pick *p = add(&r->picks, 1, sizeof *p, e);
    if (!p) return TD_E_SYSTEM;
    *p = (td_pick){r->entries.count - 1, (uint16_t)index, (uint8_t)what};
    *s = (td_saved){.kind = TD_SV_AGAIN, .output = what == TD_PICK_OUTPUT, .index = (uint16_t)index};
    s->region = td_region_ref(r);
    s->pick = r->picks.count - 1;
    *picked = true;
    return 0;
}

/* ---- .data */

static int add_data(td_region *r, td_tensor *of, td_tensor *data, td_error *e)
{
    const td_region_value *v = value_of(r, of);
    if (!is_own(r, v)) return 0;
    uint32_t from = (uint32_t)(v - (td_region_value *)r->values.at), family = 0, value = 0, at = r->refs_of.count;
    td_ref *refs = add(&r->refs_of, 2, sizeof *refs, e);
    td_region_op *n = refs ? add(&r->entries, 1, sizeof *n, e) : NULL;
    int rc = n ? new_kin(r, data->version->value, v->family, false, &family, e) : TD_E_SYSTEM;
    if (!rc) rc = new_value(r, family, TD_MADE, &value, e);
    if (!rc) rc = set_part(r, data, value, e);
    if (rc) return rc;
    *n = (td_region_op){.op = TD_OP_DETACH, .nin = 1, .nout = 1, .refs = at};
    refs[0] = (td_ref){.kind = TD_IN_TENSOR, .value = from}, refs[1] = (td_ref){.kind = TD_IN_TENSOR, .value = value};
    td_at(r->values, td_region_value, from)->last = r->entries.count - 1;
    return 0;
}

int td_region_data(td_issuer *who, td_tensor *of, td_tensor *data, td_error *e)
{
    int rc = 0;
    for (td_region *r = who->region; r && !rc; r = r->parent) rc = add_data(r, of, data, e);
    return rc;
}
