/* Who is next at the helpers: one process after the other, each with one piece of work at a time. So whoever sends a
 * thousand waits behind itself, and others behind one of these. */
#ifndef TENSORD_SESSION_LINES_H
#define TENSORD_SESSION_LINES_H

#include "proto/status.h"

/* Begins what waits; zeros at first. */
typedef struct td_in_line {
    struct td_in_line *next;
    struct td_line *line; /* of its process */
} td_in_line;

typedef struct td_lines {
    struct td_line *all;           /* by process: those that have something */
    struct td_line *first, **last; /* those that may begin something, who comes next first */
    uint32_t begun;                /* pieces */
} td_lines;

void td_lines_init(td_lines *l);
/* A process is its user and its number. */
int td_lines_add(td_lines *l, td_in_line *x, uint32_t uid, uint32_t pid, td_error *e);
/* Begins the next; NULL: there is none that may. */
td_in_line *td_lines_begin(td_lines *l);
/* It is over: its process may begin the next. */
void td_lines_over(td_lines *l, td_in_line *x);

#endif
