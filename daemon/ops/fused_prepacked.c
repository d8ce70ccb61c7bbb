/* What the parts of a fused call have packed (prepacked.h): looked for when the fused call is called, by the loop, for
 * a worker runs them all. */
#include "daemon/ops/fused_parts.h"
#include "daemon/ops/prepacked.h"
#include <stdlib.h>

/* An input from outside that stays as it is, and where in its storage the part's operand lies. Of a row that writes
 * there is none: what is packed here is what was there before, and another input may lie in the same memory. */
static td_storage *kept_of(const td_fused *g, const td_fused_part *p, td_tensor *const *inputs, td_desc *d)
{
    const td_fused_operand *o = &g->operands[p->plan.operands + p->plan.packing.in - 1];
    if (o->base == TD_FUSED_NONE || o->base < 1 || o->base > g->ninputs) return NULL;
    const td_tensor *t = inputs[o->base - 1];
    if (g->nwritten) return NULL;
    *d = g->descs[o->desc];
    d->offset = t->desc.offset + o->offset / (int64_t)td_dtype_size((td_dtype)d->dtype);
    return t->storage;
}

static void take(const td_fused *g, const td_fused_part *p, td_tensor *const *inputs, td_kcall *k,
                 td_fused_prepacked *to)
{
    td_desc d;
    td_storage *st = p->plan.nphases && p->plan.packing.in ? kept_of(g, p, inputs, &d) : NULL;
    if (!st) return;
    td_fused_set_up(p, &p->plan, k);
    to->prepack = td_prepacked_take(st, &d, k, &to->ready);
}

td_fused_prepacked *td_fused_take_prepacked(const td_fused *g, td_tensor *const *inputs)
{
    td_fused_prepacked *p = g->prepacks ? calloc(g->ncalls, sizeof *p) : NULL;
    td_kcall *k = p ? malloc(sizeof *k) : NULL;
    for (uint32_t i = 0; k && i < g->ncalls; i++) take(g, &g->parts[i], inputs, k, &p[i]);
    free(k);
    return p;
}

void td_fused_put_prepacked(const td_fused *g, td_fused_prepacked *p, bool good)
{
    for (uint32_t i = 0; p && i < g->ncalls; i++) {
        const td_fused_plan *plan = &g->parts[i].plan;
        if (!p[i].prepack) continue;
        int64_t made = atomic_load_explicit(&p[i].prepack->made, memory_order_acquire);
        td_prepacked_put(p[i].prepack, good && made == plan->phase[0].chunks - plan->packing.from);
    }
    free(p);
}
