/* A program for graphviz. */
#include "proto/program/picture.h"

#include "proto/program/boxes.h"
#include "proto/program/print.h"

#include <stdlib.h>

static const char *const looks[] = {[TD_BOX_OP] = "",
                                    [TD_BOX_PARAMS] = ", style=filled, fillcolor=\"#dcebff\"",
                                    [TD_BOX_RETURN] = ", style=filled, fillcolor=\"#dff2d8\"",
                                    [TD_BOX_CAPTURED] = ", shape=ellipse, style=filled, fillcolor=\"#fdf0cf\"",
                                    [TD_BOX_MORE] = ", style=dashed"};

static void quoted(td_print *p, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') td_printf(p, "\\");
        td_print_bytes(p, (unsigned char)*text < ' ' || *text == 0x7f ? " " : text, 1);
    }
}

static void box(td_print *p, const td_boxes *b, uint32_t k)
{
    if (b->at[k].opens) td_printf(p, "subgraph cluster%u {\n", k);
    td_printf(p, "n%u [label=\"", k);
    quoted(p, b->at[k].label);
    td_printf(p, "\"%s];\n", looks[b->at[k].kind]);
    if (b->at[k].closes) td_printf(p, "}\n");
}

char *td_ir_dot(const td_ir *ir, td_error *e)
{
    td_boxes b;
    td_print p = {0};
    td_boxes_make(ir, &b);
    td_printf(&p, "digraph program {\nnode [shape=box, fontname=\"monospace\", fontsize=10];\n");
    for (uint32_t k = 0; k < b.n; k++) box(&p, &b, k);
    for (uint32_t k = 0; k < b.nlines; k++)
        td_printf(&p, "n%u -> n%u%s;\n", b.lines[k].from, b.lines[k].to, b.lines[k].control ? " [style=dashed]" : "");
    td_printf(&p, "}\n");
    bool good = !b.failed && !p.failed;
    td_boxes_free(&b);
    if (good) return p.text;
    td_no_memory(e, "for the picture of a program");
    free(p.text);
    return NULL;
}
