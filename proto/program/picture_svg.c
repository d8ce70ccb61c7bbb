/* A program drawn: boxes in layers, each as far down as the longest way to it, ordered by where those stand that they
 * depend on. */
#include "proto/program/picture.h"

#include "proto/program/boxes.h"
#include "proto/program/print.h"

#include <stdio.h>
#include <stdlib.h>

enum { LETTER = 7, HIGH = 26, GAP = 18, STEP = 52, EDGE = 12 };

typedef struct place {
    uint32_t box, layer, depends; /* depends: on so many boxes */
    double wish;                  /* the middle of those */
    int x, width;
} place;

static int width_of(const char *label)
{
    int letters = 0;
    for (; *label; label++) letters += ((unsigned char)*label & 0xC0) != 0x80;
    return letters * LETTER + 2 * EDGE;
}

static int by_layer(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return x->box < y->box ? -1 : 1;
}

static int by_wish(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->wish != y->wish) return x->wish < y->wish ? -1 : 1;
    return x->box < y->box ? -1 : 1;
}

/* Lines come in the order of their ends, which is that of the boxes. */
static void find_layers(const td_boxes *b, place *at)
{
    for (uint32_t k = 0; k < b->n; k++) at[k] = (place){.box = k, .width = width_of(b->at[k].label)};
    for (uint32_t k = 0; k < b->nlines; k++) {
        uint32_t below = at[b->lines[k].from].layer + 1, *layer = &at[b->lines[k].to].layer;
        if (*layer < below) *layer = below;
    }
}

/* One layer, from left to right; how wide it is. */
static int put_layer(place *first, uint32_t n)
{
    int x = EDGE;
    qsort(first, n, sizeof *first, by_wish);
    for (uint32_t k = 0; k < n; k++) {
        int wished = (int)first[k].wish - first[k].width / 2;
        first[k].x = wished > x ? wished : x;
        x = first[k].x + first[k].width + GAP;
    }
    return x - GAP + EDGE;
}

/* `sorted` is by layers; `where` says where each box is in it. */
static int put_all(const td_boxes *b, place *sorted, uint32_t *where, const uint32_t *first_line)
{
    int width = 2 * EDGE;
    for (uint32_t from = 0, to; from < b->n; from = to) {
        for (to = from; to < b->n && sorted[to].layer == sorted[from].layer; to++) {
            place *p = &sorted[to];
            for (uint32_t k = first_line[p->box]; k < first_line[p->box + 1]; k++, p->depends++) {
                const place *above = &sorted[where[b->lines[k].from]];
                p->wish += above->x + above->width / 2.0;
            }
            if (p->depends) p->wish /= p->depends;
        }
        int wide = put_layer(sorted + from, to - from);
        if (width < wide) width = wide;
        for (uint32_t k = from; k < to; k++) where[sorted[k].box] = k;
    }
    return width;
}

/* ---- writing */

/* What XML does not take as it is. */
static void escaped(td_print *p, const char *text)
{
    for (; *text; text++) {
        if (*text == '<') td_printf(p, "&lt;");
        else if (*text == '>') td_printf(p, "&gt;");
        else if (*text == '&') td_printf(p, "&amp;");
        else if (strncmp(text, "\xEF\xBF\xBE", 3) == 0 || strncmp(text, "\xEF\xBF\xBF", 3) == 0) text += 2;
        else td_print_bytes(p, (unsigned char)*text < ' ' ? " " : text, 1);
    }
}

static void draw_line(td_print *p, const place *from, const place *to, bool control)
{
    int x = from->x + from->width / 2, y = EDGE + (int)from->layer * STEP + HIGH;
    int u = to->x + to->width / 2, v = EDGE + (int)to->layer * STEP, half = (v - y) / 2;
    td_printf(p, "<path d=\"M%d %dC%d %d %d %d %d %d\"%s/>\n", x, y, x, y + half, u, v - half, u, v,
              control ? " stroke-dasharray=\"4 3\"" : "");
}

static void draw_box(td_print *p, const td_ir *ir, const td_box *b, const place *at)
{
    static const char *const fill[] = {[TD_BOX_OP] = "#fff",
                                       [TD_BOX_PARAMS] = "#dcebff",
                                       [TD_BOX_RETURN] = "#dff2d8",
                                       [TD_BOX_CAPTURED] = "#fdf0cf",
                                       [TD_BOX_MORE] = "#eee"};
    int y = EDGE + (int)at->layer * STEP;
    td_printf(p, "<g><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\" stroke=\"#555\"/>", at->x,
              y, at->width, HIGH, b->kind == TD_BOX_CAPTURED ? HIGH / 2 : 3, fill[b->kind]);
    td_printf(p, "<text x=\"%d\" y=\"%d\">", at->x + at->width / 2, y + HIGH / 2 + 4);
    escaped(p, b->label);
    td_printf(p, "</text>");
    if (b->source != TD_IR_NONE) {
        td_printf(p, "<title>");
        escaped(p, td_ir_chars(ir, ir->sources[b->source].file));
        td_printf(p, ":%u</title>", ir->sources[b->source].line);
    }
    td_printf(p, "</g>\n");
}

static void draw(td_print *p, const td_ir *ir, const td_boxes *b, const place *sorted, const uint32_t *where, int width)
{
    int height = 2 * EDGE + (b->n ? (int)sorted[b->n - 1].layer * STEP + HIGH : 0);
    td_printf(p,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
              "font-family=\"monospace\" font-size=\"11\" text-anchor=\"middle\">\n<g fill=\"none\" stroke=\"#888\">\n",
              width, height, width, height);
    for (uint32_t k = 0; k < b->nlines; k++)
        draw_line(p, &sorted[where[b->lines[k].from]], &sorted[where[b->lines[k].to]], b->lines[k].control);
    td_printf(p, "</g>\n");
    for (uint32_t k = 0; k < b->n; k++) draw_box(p, ir, &b->at[k], &sorted[where[k]]);
    td_printf(p, "</svg>\n");
}

static int by_end(const void *a, const void *b)
{
    const td_line *x = a, *y = b;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

static bool lay_out(td_print *p, const td_ir *ir, const td_boxes *b)
{
    place *sorted = calloc((size_t)b->n + 1, sizeof *sorted);
    uint32_t *where = calloc((size_t)b->n + 1, sizeof *where), *first = calloc((size_t)b->n + 2, sizeof *first);
    bool good = sorted && where && first;
    if (good && b->nlines) qsort(b->lines, b->nlines, sizeof *b->lines, by_end);
    for (uint32_t k = 0; good && k < b->nlines; k++) first[b->lines[k].to + 1]++;
    for (uint32_t k = 0; good && k < b->n; k++) first[k + 1] += first[k];
    if (good) {
        find_layers(b, sorted);
        qsort(sorted, b->n, sizeof *sorted, by_layer);
        for (uint32_t k = 0; k < b->n; k++) where[sorted[k].box] = k;
        int width = put_all(b, sorted, where, first);
        draw(p, ir, b, sorted, where, width);
    }
    free(sorted);
    free(where);
    free(first);
    return good;
}

char *td_ir_svg(const td_ir *ir, td_error *e)
{
    td_boxes b;
    td_print p = {0};
    td_boxes_make(ir, &b);
    bool good = !b.failed && lay_out(&p, ir, &b) && !p.failed;
    td_boxes_free(&b);
    if (good) return p.text;
    td_no_memory(e, "for the picture of a program");
    free(p.text);
    return NULL;
}
