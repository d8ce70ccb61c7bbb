/* Tables on a terminal and as JSON. */
#include "client/tensorctl/tensorctl.h"
#include "proto/base/near.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

void ctl_print_json_text(const char *text)
{
    uint32_t code;
    putchar('"');
    for (size_t n; *text; text += n) {
        n = td_text_char(text, &code);
        if (code == '"' || code == '\\') printf("\\%c", *text);
        else if (code == '\n') fputs("\\n", stdout);
        else if (code == UINT32_MAX) fputs("\\ufffd", stdout);
        else if (!td_text_shown(code)) printf("\\u%04x", (unsigned)code);
        else fwrite(text, 1, n, stdout);
    }
    putchar('"');
}

void ctl_put_lines(const char *text, size_t n)
{
    for (size_t i = 0, step; i < n; i += step) {
        char at[5] = {0}; /* a character, which the end may have cut */
        uint32_t code;
        memcpy(at, text + i, n - i < 4 ? n - i : 4);
        step = td_text_char(at, &code);
        if (code == '\n' || code == '\t' || td_text_shown(code)) fwrite(text + i, 1, step, stdout);
        else
            for (size_t k = 0; k < step; k++) printf("\\x%02x", (unsigned char)text[i + k]);
    }
}

static void json_cell(const td_cell *c)
{
    switch (c->kind) {
    case TD_CELL_TEXT: ctl_print_json_text(c->text); break;
    case TD_CELL_INT: printf("%" PRId64, c->integer); break;
    case TD_CELL_REAL:
        if (isfinite(c->real)) printf("%.17g", c->real);
        else fputs("null", stdout);
        break;
    case TD_CELL_BOOL: fputs(c->yes ? "true" : "false", stdout); break;
    default: fputs("null", stdout);
    }
}

static bool is_pairs(const td_table *t)
{
    return t->columns == 2 && strcmp(t->names[0], "key") == 0 && strcmp(t->names[1], "value") == 0;
}

static void json_pairs(const td_table *t)
{
    puts("{");
    for (int r = 0; r < t->rows; r++) {
        const td_cell *row = t->cells + r * 2;
        fputs("  ", stdout);
        ctl_print_json_text(row[0].kind == TD_CELL_TEXT ? row[0].text : "");
        fputs(": ", stdout);
        json_cell(&row[1]);
        puts(r + 1 < t->rows ? "," : "");
    }
    puts("}");
}

static void json_rows(const td_table *t)
{
    puts("[");
    for (int r = 0; r < t->rows; r++) {
        fputs("  {", stdout);
        for (int i = 0; i < t->columns; i++) {
            if (i) fputs(", ", stdout);
            ctl_print_json_text(t->names[i]);
            fputs(": ", stdout);
            json_cell(&t->cells[r * t->columns + i]);
        }
        puts(r + 1 < t->rows ? "}," : "}");
    }
    puts("]");
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

enum { TEXT = 4096 }; /* names, texts of one line */

/* Text for people. A column that is called bytes... is shown in units. */
static const char *cell_text(const td_cell *c, const char *column, char *buffer, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    buffer[0] = 0;
    if (c->kind == TD_CELL_TEXT) return td_text_visible(buffer, size, c->text);
    if (c->kind == TD_CELL_BOOL) return c->yes ? "yes" : "no";
    if (c->kind == TD_CELL_REAL) snprintf(buffer, size, "%.4g", c->real);
    if (c->kind == TD_CELL_INT && strncmp(column, "bytes", 5) == 0) {
        double v = (double)c->integer;
        int u = 0;
        while (v >= 1000 && u < 4) v /= 1000, u++;
        snprintf(buffer, size, u ? "%.1f %s" : "%.0f %s", v, units[u]);
    } else if (c->kind == TD_CELL_INT) {
        snprintf(buffer, size, "%" PRId64, c->integer);
    }
    return buffer;
}

static const char *column_of(const td_table *t, int row, int column)
{
    const td_cell *key = &t->cells[row * t->columns];
    return is_pairs(t) && key->kind == TD_CELL_TEXT ? key->text : t->names[column];
}

static int width_of(const td_table *t, int column)
{
    char buffer[TEXT];
    size_t width = is_pairs(t) ? 0 : strlen(t->names[column]);
    for (int r = 0; r < t->rows; r++) {
        size_t n =
            strlen(cell_text(&t->cells[r * t->columns + column], column_of(t, r, column), buffer, sizeof buffer));
        if (n > width) width = n;
    }
    return (int)width;
}

static void print_columns(const td_table *t)
{
    int *widths = calloc((size_t)t->columns + 1, sizeof *widths);
    if (!widths) return;
    for (int i = 0; i < t->columns; i++) widths[i] = width_of(t, i);
    for (int r = is_pairs(t) ? 0 : -1; r < t->rows; r++) {
        for (int i = 0; i < t->columns; i++) {
            char buffer[TEXT];
            const td_cell *c = r < 0 ? NULL : &t->cells[r * t->columns + i];
            const char *text = c ? cell_text(c, column_of(t, r, i), buffer, sizeof buffer) : t->names[i];
            bool last = i + 1 == t->columns,
                 number = c && (c->kind == TD_CELL_INT || c->kind == TD_CELL_REAL) && !is_pairs(t);
            if (number) printf("%*s%s", widths[i], text, last ? "\n" : "  ");
            else if (last) printf("%s\n", text);
            else printf("%-*s  ", widths[i], text);
        }
    }
    free(widths);
}

void ctl_print(const td_table *t, bool json)
{
    if (!json) print_columns(t);
    else if (is_pairs(t)) json_pairs(t);
    else json_rows(t);
}

/* ---- making one -------------------------------------------------------------------------------------------------- */

static void *must(void *p)
{
    if (p) return p;
    fputs("tensorctl: no memory\n", stderr);
    exit(1);
}

td_table *ctl_table_new(int columns, const char *const *names)
{
    td_table *t = must(calloc(1, sizeof *t));
    t->columns = columns;
    t->names = must(calloc((size_t)columns, sizeof *t->names));
    for (int i = 0; i < columns; i++) t->names[i] = must(strdup(names[i]));
    return t;
}

static td_cell *cell_at(td_table *t, int column)
{
    if (column == 0) {
        size_t n = (size_t)t->columns * (size_t)++t->rows;
        t->cells = must(realloc(t->cells, n * sizeof *t->cells));
        memset(t->cells + n - (size_t)t->columns, 0, (size_t)t->columns * sizeof *t->cells);
    }
    return &t->cells[(t->rows - 1) * t->columns + column];
}

void ctl_row_text(td_table *t, int column, const char *text)
{
    td_cell *c = cell_at(t, column);
    c->kind = TD_CELL_TEXT;
    c->text = must(strdup(text));
}

void ctl_row_real(td_table *t, int column, double v)
{
    td_cell *c = cell_at(t, column);
    c->kind = TD_CELL_REAL;
    c->real = v;
}

void ctl_row_int(td_table *t, int column, int64_t v)
{
    td_cell *c = cell_at(t, column);
    c->kind = TD_CELL_INT;
    c->integer = v;
}

/* ---- names that nobody has --------------------------------------------------------------------------------------- */

void ctl_unknown(const char *what, const char *word, unsigned count, const char *(*name_of)(unsigned i),
                 const char *lister)
{
    const char *nearest = NULL;
    size_t length = strlen(word);
    unsigned least = length < 4 ? (unsigned)length : 4; /* further away it is another word */
    for (unsigned i = 0; i < count && least; i++) {
        const char *name = name_of(i);
        unsigned far = name ? td_text_distance(word, name, least - 1) : least;
        if (far < least) nearest = name, least = far;
    }
    fprintf(stderr, "tensorctl: there is no %s '%s'; ", what, word);
    if (nearest) fprintf(stderr, "did you mean '%s'? ", nearest);
    fprintf(stderr, "%s lists them\n", lister);
}
