/* What became of a program, for people. */
#include "daemon/graph/plan_parts.h"

#include <stdlib.h>

enum { MOST = 40 << 10 /* of text, and a plan more */ };

static void tell_node(const td_ir *ir, uint32_t node, bool before, const char *why, FILE *out)
{
    const td_ir_node *n = &ir->nodes[node];
    const td_op *op = td_ir_row(n->op);
    const td_prim *prim = op || (n->op & TD_IR_CLASS) != TD_IR_PRIM ? NULL : td_prim_by_id(n->op);
    char name[40], place[80] = "";
    snprintf(name, sizeof name, "%s%s",
             op     ? op->name
             : prim ? prim->name
                    : "fn",
             op && n->op & TD_IR_INPLACE ? "_" : "");
    if (n->source != TD_IR_NONE) {
        const td_ir_source *s = &ir->sources[n->source];
        int at = s->file == TD_IR_NONE ? 0 : snprintf(place, sizeof place, "%.68s", td_ir_chars(ir, s->file));
        if (at && s->line) snprintf(place + at, sizeof place - (size_t)at, ":%u", s->line);
    }
    fprintf(out, "  %s%-*s %s%s%s\n", before ? "before " : "", before ? 17 : 24, name, place, *why ? "   " : "", why);
}

/* What of a row's end only a run tells is not kept. */
static void tell_end(const td_ir *ir, uint32_t end, FILE *out)
{
    if (end == TD_IR_NONE) {
        fputs("  and its block ends\n", out);
        return;
    }
    const char *why = td_plan_why_not(ir, end);
    if (!why && !td_ir_row(ir->nodes[end].op)) why = "what it makes is somebody's";
    tell_node(ir, end, true, why ? why : "it is too long, records a gradient, or does not fit in", out);
}

static void mark_rows(const td_held_program *p, uint8_t *in_row)
{
    for (uint32_t n = 0; n < p->ir->nnodes; n++)
        for (uint32_t k = 0; p->spots[n] && k < p->spots[n]->nplans; k++)
            for (uint32_t at = n; at != p->spots[n]->plans[k]->end; at = p->ir->nodes[at].next) in_row[at] = 1;
}

/* Ops that go one by one. */
static void tell_others(const td_held_program *p, FILE *out)
{
    uint8_t *in_row = calloc(p->ir->nnodes + 1u, 1);
    bool any = false;
    if (in_row) mark_rows(p, in_row);
    for (uint32_t n = 0; in_row && n < p->ir->nnodes && ftell(out) < MOST; n++) {
        if (!td_ir_row(p->ir->nodes[n].op) || in_row[n]) continue;
        if (!any) fputs("one by one:\n", out);
        any = true;
        const char *why = td_plan_why_not(p->ir, n);
        tell_node(p->ir, n, false, why ? why : "", out);
    }
    free(in_row);
}

void td_spots_tell(const td_held_program *p, FILE *out)
{
    for (uint32_t n = 0; n < p->ir->nnodes; n++) {
        const td_spot *s = p->spots[n];
        for (uint32_t k = 0; s && k < s->nplans; k++) {
            if (ftell(out) > MOST) {
                fputs("...\n", out);
                return;
            }
            fprintf(out, "from node %u: ", n);
            td_fused_tell(s->plans[k]->fused, out);
            tell_end(p->ir, s->plans[k]->end, out);
        }
    }
    tell_others(p, out);
}
