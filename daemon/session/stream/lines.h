/* Who is next at the helpers: one process after the other, each with so many pieces of work at a time. So whoever sends
 * a thousand waits behind itself, and others behind one of these. */
#ifndef TENSORD_DAEMON_SESSION_STREAM_LINES_H
#define TENSORD_DAEMON_SESSION_STREAM_LINES_H

#include "proto/base/status.h"

/* Begins what waits; zeros at first. */
typedef struct td_in_line {
    struct td_in_line *next, **at; /* at: what points here while it waits; NULL: it does not */
    struct td_process_line *line;  /* of its process */
} td_in_line;

typedef struct td_lines {
    struct td_process_line *all;          /* by process: those that have something */
    struct td_process_line *first, *last; /* those that may begin something, who comes next first */
    uint32_t begun;                       /* pieces */
    uint32_t each;                        /* so many of a process at a time */
} td_lines;

void td_lines_init(td_lines *l, uint32_t each);
/* A process is its user and its number. */
int td_lines_add(td_lines *l, td_in_line *x, uint32_t uid, uint32_t pid, td_error *e);
/* Begins the next; NULL: there is none that may. */
td_in_line *td_lines_begin(td_lines *l);
/* The same of those processes that hold nothing. */
td_in_line *td_lines_begin_bare(td_lines *l);
/* It is over: its process may begin the next. */
void td_lines_over(td_lines *l, td_in_line *x);
/* One that waits does so no longer. */
void td_lines_leave(td_lines *l, td_in_line *x);
/* A process holds one more thing, which is told by its line; then one less. NULL: there is no memory to know it. */
struct td_process_line *td_lines_hold(td_lines *l, uint32_t uid, uint32_t pid);
void td_lines_let_go(td_lines *l, struct td_process_line *line);

#endif
