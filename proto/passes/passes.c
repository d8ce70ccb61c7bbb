/* The list of passes, and the driver. */
#include "proto/passes/passes.h"

#include "proto/passes/facts.h"
#include "proto/program/verify.h"
#include <stdlib.h>
#include <string.h>

const td_pass td_pass_list[] = {{"inline", td_pass_inline},     {"writes", td_pass_writes},
                                {"lists", td_pass_lists},       {"constants", td_pass_constants},
                                {"branches", td_pass_branches}, {"common", td_pass_common},
                                {"dead", td_pass_dead},         {"peephole", td_pass_peephole},
                                {"loops", td_pass_loops},       {"eights", td_pass_eights}};
const uint32_t td_pass_count = sizeof td_pass_list / sizeof *td_pass_list;

typedef struct driving {
    td_ir_edit *e;
    td_facts f;         /* they hold until a pass changes something, and are found when one asks */
    bool last;          /* with the one that comes once */
    td_pass_work *work; /* or NULL */
    td_pass_seen *seen;
    void *context;
} driving;

/* What stands then is a module as good as any: what was made of it so far. */
static bool spent(const td_pass_work *w)
{
    return w && (w->steps >= w->most || (w->stop && atomic_load_explicit(w->stop, memory_order_relaxed)));
}

/* What a pass looks at beside going through a module a few times. */
enum { LOOKS = 1 << 14, LOOKS_EACH = 16 /* node */ };

/* A pass is begun only where there is time, and ends in time that its module bounds. */
static bool run(driving *d, const td_pass *pass)
{
    if (td_ir_failed(d->e) || spent(d->work)) return false;
    uint64_t nodes = td_ir_now(d->e)->nnodes, looks = LOOKS + LOOKS_EACH * nodes;
    d->f.looks = looks;
    bool changed = pass->run(d->e, &d->f);
    if (d->work) d->work->steps += nodes + looks - d->f.looks;
    if (changed && d->seen) d->seen(d->context, pass);
    return changed;
}

/* But for the eights, and without loops if so asked. */
static bool one_round(driving *d, bool loops)
{
    bool changed = false;
    for (uint32_t k = 0; k < td_pass_count; k++)
        if (td_pass_list[k].run != td_pass_eights && (loops || td_pass_list[k].run != td_pass_loops))
            changed |= run(d, &td_pass_list[k]);
    return changed;
}

/* In the last round loops are cut into eights, and what that made is simplified; what it made of a loop is not looked
 * at as a loop again. */
static bool all_rounds(driving *d)
{
    bool changed = false, more = true;
    for (int round = 1; round < TD_PASS_ROUNDS && more; round++) changed |= more = one_round(d, true);
    if (d->last && run(d, &td_pass_list[td_pass_count - 1])) {
        one_round(d, false);
        changed = true;
    }
    td_facts_deinit(&d->f);
    return changed;
}

static bool wanted(void)
{
    const char *said = getenv("TENSORD_PASSES");
    return !said || strcmp(said, "0") != 0;
}

/* A pass's mistake must not reach who runs the module: what the verifier does not pass is dropped. */
static td_ir *improve(td_ir *ir, driving d)
{
    d.e = wanted() ? td_ir_edit_new(ir, TD_IR_MAX_GROWN, NULL) : NULL;
    if (!d.e) return ir;
    if (!all_rounds(&d)) {
        td_ir_edit_free(d.e);
        return ir;
    }
    td_ir *better = td_ir_seal(d.e, NULL);
    if (better && td_ir_verify(better, TD_VERIFY_GROWN, NULL) != 0) {
        td_ir_unref(better);
        better = NULL;
    }
    if (!better) return ir;
    td_ir_unref(ir);
    return better;
}

td_ir *td_ir_improve_seen(td_ir *ir, td_pass_seen *seen, void *context)
{
    return improve(ir, (driving){.last = true, .seen = seen, .context = context});
}

td_ir *td_ir_improve(td_ir *ir)
{
    return td_ir_improve_seen(ir, NULL, NULL);
}

td_ir *td_ir_improve_within(td_ir *ir, td_pass_work *work)
{
    return improve(ir, (driving){.last = true, .work = work});
}

td_ir *td_ir_simplify(td_ir *ir)
{
    return improve(ir, (driving){0});
}

td_ir *td_ir_pass(const td_ir *ir, uint32_t n, const td_pass *const *passes, td_error *error)
{
    driving d = {.e = td_ir_edit_new(ir, TD_IR_MAX_GROWN, error)};
    if (!d.e) return NULL;
    for (uint32_t k = 0; k < n; k++) run(&d, passes[k]);
    td_facts_deinit(&d.f);
    return td_ir_seal(d.e, error);
}
