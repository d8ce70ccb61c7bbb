/* See lines.h. Invariant: a line is in the list of those that may begin something exactly while it has something that
 * waits and less than its share begun; one that has neither, and holds nothing, is gone. */
#include "daemon/session/stream/lines.h"

#include "proto/base/hash.h"
#include <stdlib.h>

typedef struct td_process_line {
    UT_hash_handle hh;
    struct {
        uint32_t uid, pid;
    } key;
    struct td_process_line *next, *prev;
    td_in_line *first, **last;
    uint32_t begun, held;
    bool may; /* it is in the list */
} td_process_line;

void td_lines_init(td_lines *l, uint32_t each)
{
    *l = (td_lines){.each = each};
}

static td_process_line *line_of(td_lines *l, uint32_t uid, uint32_t pid)
{
    td_process_line *line, key = {.key = {uid, pid}};
    HASH_FIND(hh, l->all, &key.key, sizeof key.key, line);
    if (line) return line;
    line = calloc(1, sizeof *line);
    if (!line) return NULL;
    line->key = key.key;
    line->last = &line->first;
    HASH_ADD(hh, l->all, key, sizeof line->key, line);
    if (TD_HASHED(line)) return line;
    free(line);
    return NULL;
}

static void unlist(td_lines *l, td_process_line *line)
{
    if (!line->may) return;
    *(line->prev ? &line->prev->next : &l->first) = line->next;
    *(line->next ? &line->next->prev : &l->last) = line->prev;
    line->may = false;
}

/* Something of it has changed: it keeps its place in the list, gets one at the end, leaves it, or is gone. */
static void look(td_lines *l, td_process_line *line)
{
    bool may = line->first && line->begun < l->each;
    if (!may) unlist(l, line);
    if (may && !line->may) {
        line->may = true;
        line->next = NULL;
        line->prev = l->last;
        *(line->prev ? &line->prev->next : &l->first) = line;
        l->last = line;
    }
    if (line->first || line->begun || line->held) return;
    HASH_DEL(l->all, line);
    free(line);
}

int td_lines_add(td_lines *l, td_in_line *x, uint32_t uid, uint32_t pid, td_error *e)
{
    td_process_line *line = line_of(l, uid, pid);
    if (!line) return td_no_memory(e, "to wait for a helper");
    *x = (td_in_line){.line = line, .at = line->last};
    *line->last = x;
    line->last = &x->next;
    look(l, line);
    return TD_OK;
}

/* Out of those of its line that wait. */
static void leave(td_in_line *x)
{
    *x->at = x->next;
    *(x->next ? &x->next->at : &x->line->last) = x->at;
    x->at = NULL;
}

static td_in_line *begin(td_lines *l, td_process_line *line)
{
    if (!line) return NULL;
    td_in_line *x = line->first;
    leave(x);
    line->begun++;
    l->begun++;
    unlist(l, line); /* others have their turn before it has its next */
    look(l, line);
    return x;
}

td_in_line *td_lines_begin(td_lines *l)
{
    return begin(l, l->first);
}

td_in_line *td_lines_begin_bare(td_lines *l)
{
    enum { LOOKS = 256 };
    td_process_line *line = l->first;
    for (int n = 0; line && (line->held || line->begun) && n < LOOKS; n++) line = line->next;
    return line && !line->held && !line->begun ? begin(l, line) : NULL;
}

void td_lines_over(td_lines *l, td_in_line *x)
{
    x->line->begun--;
    l->begun--;
    look(l, x->line);
}

void td_lines_leave(td_lines *l, td_in_line *x)
{
    td_process_line *line = x->line;
    leave(x);
    look(l, line);
}

struct td_process_line *td_lines_hold(td_lines *l, uint32_t uid, uint32_t pid)
{
    td_process_line *line = line_of(l, uid, pid);
    if (line) line->held++;
    return line;
}

void td_lines_let_go(td_lines *l, td_process_line *line)
{
    line->held--;
    look(l, line);
}
