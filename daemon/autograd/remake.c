/* Making again what a region did not keep, in a backward: its ops, outside of every graph, an op a step, until the last
 * value that some node wants is there. What is made belongs to this backward, and each value goes when its node has
 * run. A region inside of another takes its sources from there, so that is made first. */
#include "daemon/autograd/backward.h"
#include "daemon/autograd/region.h"
#include "proto/ops/opid.h"
#include <stdlib.h>

static td_remade *find(const td_backward *b, const td_region *r)
{
    uint32_t k = b->nremades ? td_map_get(&b->regions, r) : UINT32_MAX;
    return k == UINT32_MAX ? NULL : &b->remades[k];
}

static const td_region_op *entry_of(const td_remade *m, uint32_t k)
{
    return td_at(m->region->entries, td_region_op, k);
}

static const td_ref *ref_of(const td_remade *m, const td_region_op *n, int i)
{
    return td_at(m->region->refs_of, td_ref, n->refs + (uint32_t)i);
}

static const td_node *op_of(const td_node *n)
{
    return n->kind == TD_N_SLICE ? n->slice->inner : n;
}

/* ---- before anything is computed */

static int stale(const td_saved *s, td_error *e)
{
    char text[128];
    const td_op *by = td_op_by_id(s->tensor->version->op);
    return td_fail(e, TD_E_VERSION,
                   "what a checkpoint's function needs to run again has been modified by an inplace operation: [%s] is "
                   "at version %u; expected version %u instead. It was changed by %s of session %u (pid %u)",
                   td_desc_text(&s->tensor->desc, text, sizeof text), s->tensor->version->value, s->version,
                   by ? by->name : "a write lease or an import", s->tensor->version->session, s->tensor->version->pid);
}

static int check_source(const td_backward *b, const td_saved *s, td_error *e)
{
    const td_version *now = s->tensor->version;
    bool racy = s->tensor->storage->flags & TD_SF_RACY && now->session != b->who->session;
    return td_version_still(now, s->version) || racy ? 0 : stale(s, e);
}

/* The kin that has the bytes of a value. */
static bool *wish(td_remade *m, uint32_t value)
{
    uint32_t family = td_at(m->region->values, td_region_value, value)->family;
    return &m->wants[td_at(m->region->kin, td_kin, family)->root];
}

static bool writes(const td_op *op, const td_region_op *n, int i)
{
    return op->mutates && op->params[td_op_param_of(op, n->nin, i)].flags & TD_PF_MUTATED;
}

/* Does the op give, or write, what is wanted of what comes behind it? */
static bool runs(td_remade *m, const td_region_op *n)
{
    const td_op *op = td_op_by_id(n->op);
    bool yes = false;
    for (int i = 0; i < n->nin + n->nout && !yes; i++) {
        const td_ref *ref = ref_of(m, n, i);
        bool gives = i >= n->nin || writes(op, n, i);
        yes = gives && ref->kind == TD_IN_TENSOR && *wish(m, ref->value);
    }
    return yes;
}

/* The picks of op k, the last of which is the one before *last. */
static void wish_picks(td_remade *m, uint32_t k, uint32_t *last)
{
    const td_region_op *n = entry_of(m, k);
    for (; *last && td_at(m->region->picks, td_pick, *last - 1)->entry == k; --*last) {
        const td_pick *p = td_at(m->region->picks, td_pick, *last - 1);
        if (p->what == TD_PICK_OUTPUT) m->runs[k] = true;
        else *wish(m, ref_of(m, n, p->index)->value) = true;
    }
}

/* Backwards from the picks: is op k to be run again, and on what? In place or not, what has to do with kin that is
 * wanted is wanted. */
static void wish_of(td_remade *m, uint32_t k)
{
    const td_region_op *n = entry_of(m, k);
    m->runs[k] = runs(m, n);
    wish_picks(m, k, &m->pick);
    for (int i = 0; m->runs[k] && i < n->nin + n->nout; i++)
        if (ref_of(m, n, i)->kind == TD_IN_TENSOR) *wish(m, ref_of(m, n, i)->value) = true;
}

static int enter_source(td_backward *b, const td_saved *s, td_error *e)
{
    if (s->kind == TD_SV_AGAIN) return td_remake_enter(b, s->region, e);
    if (s->kind != TD_SV_TENSOR) return 0;
    int rc = check_source(b, s, e);
    if (!rc) rc = td_backward_told(b, s->tensor->storage, e);
    return rc ? rc : td_backward_pin(b, s->tensor->storage, e);
}

static int out_of_memory(td_error *e)
{
    return td_no_memory(e, "to run a checkpoint's function again");
}

static int enter(td_backward *b, td_region *r, td_error *e)
{
    if (b->nremades == b->remades_room) {
        void *more = td_array_more(b->remades, &b->remades_room, sizeof *b->remades);
        if (!more) return out_of_memory(e);
        b->remades = more;
    }
    if (!td_map_put(&b->regions, r, b->nremades)) return out_of_memory(e);
    td_remade *m = &b->remades[b->nremades++];
    *m = (td_remade){.region = td_region_ref(r), .nvalues = r->values.count, .nentries = r->entries.count};
    m->npicks = m->pick = m->left = r->picks.count;
    m->unlooked = m->nentries;
    m->unchecked = m->nvalues;
    m->nkin = r->kin.count;
    m->runs = td_array_grow(NULL, 0, m->nentries + 1);
    m->wants = td_array_grow(NULL, 0, m->nkin + 1);
    return m->runs && m->wants ? 0 : out_of_memory(e);
}

int td_remake_enter(td_backward *b, td_region *r, td_error *e)
{
    return find(b, r) ? 0 : enter(b, r, e);
}

static int check_value(td_backward *b, td_remade *m, uint32_t v, td_error *e)
{
    uint32_t source = td_at(m->region->values, td_region_value, v)->source;
    if (source == TD_MADE || !*wish(m, v)) return 0;
    return enter_source(b, td_at(m->region->sources, td_saved, source), e);
}

/* The array is its own queue: sources lead to the regions around. */
int td_remakes_walk(td_backward *b, int64_t *steps, td_error *e)
{
    int rc = 0;
    while (b->at < b->nremades && !rc && (*steps)-- > 0) {
        td_remade *m = &b->remades[b->at];
        if (m->unlooked) wish_of(m, --m->unlooked);
        else if (m->unchecked) rc = check_value(b, m, --m->unchecked, e);
        else b->at++;
    }
    return rc;
}

/* ---- one op again */

static void drop_values(td_remade *m)
{
    for (uint32_t k = 0; m->values && k < m->nvalues; k++) td_tensor_unref(m->values[k]);
    td_array_free(m->values, (m->nvalues + 1) * sizeof(td_tensor *));
    m->values = NULL;
}

static void end(td_remade *m)
{
    if (!m->region) return;
    drop_values(m);
    for (uint32_t k = 0; m->picks && k < m->npicks; k++) td_tensor_unref(m->picks[k].tensor);
    td_array_free(m->picks, m->npicks * sizeof *m->picks);
    td_array_free(m->runs, m->nentries + 1);
    td_array_free(m->wants, m->nkin + 1);
    td_region_unref(m->region);
    *m = (td_remade){.done = true};
}

static void use(td_backward *b, const td_saved *s)
{
    td_remade *m = s->kind == TD_SV_AGAIN ? find(b, s->region) : NULL;
    if (!m || !m->region || !m->done || s->pick >= m->npicks) return;
    td_tensor_unref(m->picks[s->pick].tensor);
    m->picks[s->pick].tensor = NULL;
    if (!--m->left) end(m);
}

/* All values that it begins with are held by it; what it had from another region may go there. */
static int take_sources(td_backward *b, td_remade *m, td_error *e)
{
    const td_region *r = m->region;
    for (uint32_t v = 0; v < m->nvalues; v++) {
        const td_region_value *of = td_at(r->values, td_region_value, v);
        td_saved made;
        if (of->source == TD_MADE || !*wish(m, v)) continue;
        int rc = td_remade_saved(b, td_at(r->sources, td_saved, of->source), &made, e);
        if (!rc) rc = check_source(b, &made, e);
        if (rc) return rc;
        m->values[v] = td_tensor_ref(made.tensor);
    }
    for (uint32_t k = 0; k < r->sources.count; k++) use(b, td_at(r->sources, td_saved, k));
    return 0;
}

static int begin(td_backward *b, td_remade *m, td_error *e)
{
    if (!m->values) m->values = td_array_grow(NULL, 0, (m->nvalues + 1) * sizeof(td_tensor *));
    if (!m->picks) m->picks = td_array_grow(NULL, 0, m->npicks * sizeof *m->picks);
    if (!m->values || !m->picks) return out_of_memory(e);
    m->begun = true;
    return take_sources(b, m, e);
}

static int try_op(td_backward *b, unsigned op, int nin, const td_input *in, const td_attrs *a, uint32_t flags, int nout,
                  td_tensor **out, td_error *e)
{
    td_eval *v = &b->eval;
    int rc = td_ops_try(v->who, op, nin, in, a, flags, nout, out, v->need, e);
    return rc ? td_eval_failed(v, rc) : 0;
}

static int copy_of(td_backward *b, td_tensor **t, td_error *e)
{
    td_input in = td_in(*t);
    td_tensor *copy;
    int rc = try_op(b, TD_OP_COPY, 1, &in, NULL, 0, 1, &copy, e);
    if (!rc) *t = copy;
    return rc;
}

/* One pick of the op at hand, of what stands at `t`; when it lacks memory it is picked again later. */
static int pick(td_backward *b, td_remade *m, const td_pick *p, td_tensor *t, td_error *e)
{
    td_picked *to = &m->picks[m->pick];
    int rc = p->what == TD_PICK_OLD ? copy_of(b, &t, e) : 0;
    if (rc) return rc;
    *to = (td_picked){p->what == TD_PICK_OLD ? t : td_tensor_ref(t), t->version->value};
    m->pick++;
    return 0;
}

static int pick_all(td_backward *b, td_remade *m, bool outputs, td_error *e)
{
    const td_region_op *n = entry_of(m, m->at);
    int rc = 0;
    while (m->pick < m->npicks && !rc) {
        const td_pick *p = td_at(m->region->picks, td_pick, m->pick);
        if (p->entry != m->at || (p->what == TD_PICK_OUTPUT) != outputs) break;
        rc = pick(b, m, p, m->values[ref_of(m, n, p->index + (outputs ? n->nin : 0))->value], e);
    }
    return rc;
}

/* The copies of what it writes are its own: made once, even if it lacks memory then. */
static int fill(td_backward *b, td_remade *m, const td_region_op *n, td_input *in, td_error *e)
{
    for (int i = 0; i < n->nin; i++) {
        const td_ref *ref = ref_of(m, n, i);
        td_tensor **t = &m->values[ref->value], *old = ref->copy ? *t : NULL;
        int rc = old ? copy_of(b, t, e) : 0;
        if (rc) return rc;
        td_tensor_unref(old);
        in[i] = ref->kind == TD_IN_TENSOR ? td_in(*t) : td_in_number(ref->number);
        if (ref->kind == TD_IN_ABSENT) in[i] = td_in(NULL);
    }
    return 0;
}

/* With the random numbers that it had; the session's own go on from where they are. */
static int run(td_backward *b, const td_region *r, const td_region_op *n, const td_input *in, td_tensor **out,
               td_error *e)
{
    td_attrs attrs;
    td_issuer *who = b->who;
    uint64_t seed = who->seed, counter = who->counter;
    int rc = td_attrs_decode(td_op_by_id(n->op), n->nwords ? td_at(r->words, uint32_t, n->words) : NULL, n->nwords,
                             &attrs, e);
    if (rc) return rc;
    who->seed = n->seed, who->counter = n->counter;
    rc = try_op(b, n->op, n->nin, in, &attrs, n->flags, n->nout, out, e);
    who->seed = seed, who->counter = counter;
    return rc;
}

static void let_go(td_remade *m, const td_region_op *n)
{
    for (int k = 0; k < n->nin + n->nout; k++) {
        const td_ref *ref = ref_of(m, n, k);
        if (ref->kind != TD_IN_TENSOR || td_at(m->region->values, td_region_value, ref->value)->last > m->at) continue;
        td_tensor_unref(m->values[ref->value]);
        m->values[ref->value] = NULL;
    }
}

static int run_entry(td_backward *b, td_remade *m, td_input *in, td_tensor **out, td_error *e)
{
    const td_region_op *n = entry_of(m, m->at);
    bool given = n->flags & TD_CF_OUT;
    int rc = m->runs[m->at] ? fill(b, m, n, in, e) : 0;
    if (!rc) rc = pick_all(b, m, false, e);
    if (rc || !m->runs[m->at]) return rc;
    for (int o = 0; given && o < n->nout; o++) out[o] = m->values[ref_of(m, n, n->nin + o)->value];
    rc = run(b, m->region, n, in, out, e);
    for (int o = 0; !given && !rc && o < n->nout; o++) m->values[ref_of(m, n, n->nin + o)->value] = out[o];
    return rc ? rc : pick_all(b, m, true, e);
}

static int again(td_backward *b, td_remade *m, td_error *e)
{
    const td_region_op *n = entry_of(m, m->at);
    td_input *in = malloc((n->nin + 1u) * sizeof *in);
    td_tensor **out = malloc((n->nout + 1u) * sizeof *out);
    int rc = in && out ? run_entry(b, m, in, out, e) : out_of_memory(e);
    free(in);
    free(out);
    if (rc) return rc;
    let_go(m, n);
    m->at++;
    return 0;
}

/* ---- a node's values */

static td_remade *lacking(const td_backward *b, const td_saved *s, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        td_remade *m = s[k].kind == TD_SV_AGAIN ? find(b, s[k].region) : NULL;
        if (m && !m->done) return m;
    }
    return NULL;
}

/* The regions whose values it begins with come first. */
static td_remade *first_lacking(const td_backward *b, td_remade *m)
{
    for (td_remade *next = m; next && !m->begun;) {
        next = lacking(b, m->region->sources.at, m->region->sources.count);
        if (next) m = next;
    }
    return m;
}

int td_remake_step(td_backward *b, const td_node *n, bool *ready, td_error *e)
{
    const td_node *op = op_of(n);
    td_remade *m = b->nremades ? lacking(b, op->saved, op->nsaved) : NULL;
    *ready = !m;
    if (!m) return 0;
    m = first_lacking(b, m);
    int rc = m->begun ? 0 : begin(b, m, e);
    if (!rc && m->pick < m->npicks && m->at < m->nentries) rc = again(b, m, e);
    if (rc || (m->pick < m->npicks && m->at < m->nentries)) return rc;
    drop_values(m);
    m->done = true;
    return 0;
}

int td_remade_saved(const td_backward *b, const td_saved *s, td_saved *out, td_error *e)
{
    *out = *s;
    if (s->kind != TD_SV_AGAIN) return 0;
    td_remade *m = find(b, s->region);
    td_picked *p = m && m->picks && s->pick < m->npicks ? &m->picks[s->pick] : NULL;
    if (!p || !p->tensor) return td_fail(e, TD_E_INTERNAL, "a value of a checkpoint was not made again");
    out->kind = TD_SV_TENSOR;
    out->tensor = p->tensor;
    out->version = p->version;
    return 0;
}

void td_remade_used(td_backward *b, const td_node *n)
{
    const td_node *op = op_of(n);
    for (int k = 0; b->nremades && k < op->nsaved; k++) use(b, &op->saved[k]);
}

bool td_remakes_drop(td_backward *b, int64_t *steps)
{
    for (; b->nremades && *steps > 0; *steps -= 1 + b->remades[b->nremades].npicks) end(&b->remades[--b->nremades]);
    return !b->nremades;
}
