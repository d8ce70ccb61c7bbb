/* A table of status in the making; shared by the files that fill one.
 *
 * Rows are packed as they are added, already as they are sent. A filler adds some at a time and is called again until
 * it says that all are there: a part of it is worth COST records, some 40 us, and sessions, names and queues come and
 * go between two. */
#ifndef TENSORD_DAEMON_SESSION_CALLS_TABLE_H
#define TENSORD_DAEMON_SESSION_CALLS_TABLE_H

#include "daemon/service/roll.h"
#include "daemon/session/calls/calls.h"

enum {
    TD_TABLE_MOST_ROWS = 10000,
    TD_TABLE_SOME = 12, /* rows at a time */
    TD_TABLE_MOST_COLUMNS = 32
};

typedef struct td_session_table td_status_table;

/* Some of it. True: all rows are there. */
typedef bool (*td_table_filler)(td_status_table *b, td_session *s);

/* tensors.c: what takes memory */
typedef struct td_tally {
    uint32_t count;         /* of tensors, or of what else the row is about */
    uint64_t bytes;         /* as far as these reach, whoever else has them */
    uint64_t used, idle;    /* bytes of the device's memory that no row before has counted */
    uint64_t objects, wire; /* the same of the daemon's own memory: pieces, and bytes of connections */
} td_tally;

/* What a row is about when that is gone through in several parts. */
typedef struct td_listed_row {
    int kind;
    uint8_t device; /* of the first tensor: of those elsewhere the bytes are not counted here */
    uint32_t session, pid, uid;
    char program[sizeof((td_account *)0)->name], name[TD_NAME_MAX + 1], what[128];
    td_tally sum;
} td_listed_row;

typedef struct td_listing {
    uint32_t number; /* of the table: what has it is counted */
    int phase, part, left;
    bool begun, ended;        /* of the phase: its walk */
    td_listed_row row, copy;  /* that are being counted, and the copies of an item */
    bool item;                /* an item is */
    td_held_program *program; /* a program is: counted; NULL: none */
    uint32_t captured;        /* its next tensor */
    td_known_program *known;  /* the session's next one */
    td_account *account;      /* the next to be looked at: counted */
    uint64_t idle;            /* of heaps so far */
    td_tally *beyond;         /* by kind, what there is no room for */
} td_listing;

struct td_session_table {
    td_job job;
    td_sessions *all;
    uint64_t serial;
    const char *what;
    td_table_filler fill;
    const char *const *columns;
    size_t n_columns;
    td_long_reply reply; /* rows, as they are sent */
    uint32_t rows;
    bool begun, failed;
    td_session *at; /* the next session */
    uint32_t page;  /* the next of its objects */
    int stage;      /* of a table that is made one after the other */
    uint32_t fd;    /* the next descriptor to look at */
    FILE *maps_file;
    uint64_t fds_size, fds, maps; /* places of descriptors; counted so far */
    uint64_t took_ns;
    td_listing list;
    td_roll roll;
};

void td_table_row(td_status_table *b, size_t ncells, const Td__Wire__Cell *cells);

static inline Td__Wire__Cell td_cell_of(Td__Wire__Cell__ValueCase kind)
{
    Td__Wire__Cell c;
    td__wire__cell__init(&c);
    c.value_case = kind;
    return c;
}

static inline Td__Wire__Cell td_cell_integer(uint64_t v)
{
    Td__Wire__Cell c = td_cell_of(TD__WIRE__CELL__VALUE_INTEGER);
    c.integer = (int64_t)v;
    return c;
}

static inline Td__Wire__Cell td_cell_real(double v)
{
    Td__Wire__Cell c = td_cell_of(TD__WIRE__CELL__VALUE_REAL);
    c.real = v;
    return c;
}

static inline Td__Wire__Cell td_cell_yes(bool v)
{
    Td__Wire__Cell c = td_cell_of(TD__WIRE__CELL__VALUE_YES);
    c.yes = v;
    return c;
}

static inline Td__Wire__Cell td_cell_text(const char *v)
{
    Td__Wire__Cell c = td_cell_of(TD__WIRE__CELL__VALUE_TEXT);
    c.text = (char *)(uintptr_t)v;
    return c;
}

/* "program of 3 nodes, 1 captured"; and the bytes of its tensors. */
uint64_t td_named_tell(const td_named *n, char *what, size_t size);
/* tensors.c */
bool td_fill_tensors(td_status_table *b, td_session *s);
/* The session that it is at has ended: it goes on with the next one. */
void td_listing_pass(td_status_table *b);
void td_listing_drop(td_listing *l);

#endif
