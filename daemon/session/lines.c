/* See lines.h. Invariant: a line is in the list of those that may begin something exactly while it has something that
 * waits and nothing that is begun; one that has neither is gone. */
#include "daemon/session/lines.h"

#include "proto/hash.h"
#include <stdlib.h>

typedef struct td_line {
    UT_hash_handle hh;
    struct {
        uint32_t uid, pid;
    } key;
    struct td_line *next;
    td_in_line *first, **last;
    bool begun;
} td_line;

void td_lines_init(td_lines *l)
{
    *l = (td_lines){.last = &l->first};
}

static td_line *line_of(td_lines *l, uint32_t uid, uint32_t pid)
{
    td_line *line, key = {.key = {uid, pid}};
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

static void may_begin(td_lines *l, td_line *line)
{
    line->next = NULL;
    *l->last = line;
    l->last = &line->next;
}

int td_lines_add(td_lines *l, td_in_line *x, uint32_t uid, uint32_t pid, td_error *e)
{
    td_line *line = line_of(l, uid, pid);
    if (!line) return td_no_memory(e, "to wait for a helper");
    if (!line->first && !line->begun) may_begin(l, line);
    *x = (td_in_line){.line = line};
    *line->last = x;
    line->last = &x->next;
    return TD_OK;
}

td_in_line *td_lines_begin(td_lines *l)
{
    td_line *line = l->first;
    if (!line) return NULL;
    l->first = line->next;
    if (!l->first) l->last = &l->first;
    td_in_line *x = line->first;
    line->first = x->next;
    if (!line->first) line->last = &line->first;
    line->begun = true;
    l->begun++;
    return x;
}

void td_lines_over(td_lines *l, td_in_line *x)
{
    td_line *line = x->line;
    line->begun = false;
    l->begun--;
    if (line->first) {
        may_begin(l, line);
        return;
    }
    HASH_DEL(l->all, line);
    free(line);
}
