/* Faults. See fault.h. The whole message fits in an error: of a long line, what is around the place is shown. */
#include "client/script/fault.h"
#include "proto/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHOWN = 72 }; /* bytes of a line */

static bool ends_line(char c)
{
    return c == '\n' || c == '\r';
}

/* The line of that number; its length. */
static size_t line_of(const td_script_source *s, uint32_t line, const char **at)
{
    const char *p = s->text, *end = p + s->size;
    for (uint32_t now = s->first_line ? s->first_line : 1; now < line && p < end; p++)
        if (ends_line(*p)) {
            p += *p == '\r' && p + 1 < end && p[1] == '\n';
            now++;
        }
    *at = p;
    while (p < end && !ends_line(*p)) p++;
    return (size_t)(p - *at);
}

static bool inside_char(char c)
{
    return (c & 0xc0) == 0x80;
}

/* One byte of a line as it is shown: nothing moves the cursor. */
static char shown(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
}

typedef struct cut {
    const char *line;
    size_t first, end, from, to; /* what is shown of it, what of that is meant */
} cut;

static cut cut_line(const td_script_source *s, td_span at)
{
    cut c = {0};
    size_t size = line_of(s, at.line, &c.line);
    c.from = at.column < size ? at.column : size;
    c.to = at.end_line == at.line && at.end_column < size ? at.end_column : size;
    if (c.to <= c.from) c.to = c.from + 1;
    c.first = c.from > SHOWN / 2 && size > SHOWN ? c.from - SHOWN / 2 : 0;
    for (int i = 0; i < 3 && c.first > 0 && inside_char(c.line[c.first]); i++) c.first--;
    c.end = size - c.first > SHOWN ? c.first + SHOWN : size;
    for (int i = 0; i < 3 && c.end < size && inside_char(c.line[c.end]); i++) c.end--;
    if (c.to > c.end) c.to = c.end > c.from ? c.end : c.from + 1;
    return c;
}

/* "    the line\n    ^~~~": at most 2 * (SHOWN + 6) bytes. */
static void show(const cut *c, char *out)
{
    out += sprintf(out, "\n    ");
    for (size_t i = c->first; i < c->end; i++) *out++ = shown(c->line[i]);
    out += sprintf(out, "\n    ");
    for (size_t i = c->first; i < c->to; i++)
        if (i >= c->end || !inside_char(c->line[i])) *out++ = i < c->from ? ' ' : i == c->from ? '^' : '~';
    *out = 0;
}

void td_refuse(td_fault *f, td_code code, td_span at, const char *format, ...)
{
    char words[512], seen[160], file[64], picture[2 * (SHOWN + 8)];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    cut c = cut_line(f->source, at);
    unsigned column = 1;
    for (size_t i = 0; i < c.from; i++) column += !inside_char(c.line[i]);
    show(&c, picture);
    td_text_visible(seen, sizeof seen, words);
    td_text_visible(file, sizeof file, f->source->file ? f->source->file : "<program>");
    td_fail(f->error, code, "%s:%u:%u: %s%s", file, at.line, column, seen, picture);
    longjmp(f->out, 1);
}

void td_refuse_memory(td_fault *f)
{
    td_no_memory(f->error, "to read a program");
    longjmp(f->out, 1);
}

void td_script_room(td_fault *f, void *list, uint32_t n, uint32_t more, uint32_t *room, size_t each)
{
    uint64_t need = (uint64_t)n + more, to = *room ? *room : 32;
    if (need <= *room) return;
    while (to < need) to *= 2;
    void *moved = to <= INT32_MAX ? realloc(*(void **)list, to * each) : NULL;
    if (!moved) td_refuse_memory(f);
    *(void **)list = moved;
    *room = (uint32_t)to;
}
