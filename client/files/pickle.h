/* A pickle as plain data: what a list of known names may make, and nothing else.
 *
 * A pickle is a program for a machine with a stack. This machine knows only the opcodes that build data; where Python
 * would import a name and call it, a name is looked up in a table of what readers build themselves. Any other opcode or
 * name is an error that says which. Nothing that a file holds is ever run. */
#ifndef TENSORD_CLIENT_FILES_PICKLE_H
#define TENSORD_CLIENT_FILES_PICKLE_H

#include "client/files/source.h"

typedef enum td_plain_kind {
    TD_PLAIN_NONE,
    TD_PLAIN_BOOL,
    TD_PLAIN_INT,
    TD_PLAIN_FLOAT,
    TD_PLAIN_COMPLEX,
    TD_PLAIN_TEXT,   /* UTF-8 */
    TD_PLAIN_BYTES,  /* bytes */
    TD_PLAIN_DIGITS, /* a number that needs more than 64 bits: its digits, behind a minus or none */
    TD_PLAIN_TUPLE,
    TD_PLAIN_LIST,
    TD_PLAIN_DICT,   /* items: key, value, key, value, ... */
    TD_PLAIN_NAME,   /* of the table */
    TD_PLAIN_OBJECT, /* what a reader made: a storage, a tensor, ...: `made` says what, `i` which */
    TD_PLAIN_WRAPPED /* items[0], as an object that Python makes of it; `made` says what; items[1]: what is set on that
                      */
} td_plain_kind;

typedef struct td_pickle_name td_pickle_name;

typedef struct td_plain {
    uint8_t kind;
    uint8_t made; /* the reader's */
    uint32_t n;   /* items; of a text, bytes */
    union {
        int64_t i;
        double f[2];
        struct {
            const char *text; /* ends with 0, which n does not count */
            uint64_t told;    /* the reader's */
        };
        struct td_plain **items;
        const td_pickle_name *name;
    };
} td_plain;

typedef struct td_pickle td_pickle;

/* A name that may stand in a pickle, as "module name". `make`: what calling it with a tuple of arguments gives (NULL:
 * it is not called). */
struct td_pickle_name {
    const char *text;
    int (*make)(td_pickle *p, const td_pickle_name *name, const td_plain *args, td_plain **out, td_error *e);
    int64_t value; /* the reader's */
};

struct td_pickle {
    const td_pickle_name *names; /* ends with text NULL */
    /* Asked for a name that is none of these; NULL, or NULL from it: an error, which *e may say. */
    const td_pickle_name *(*more)(td_pickle *p, const char *text, td_error *e);
    uint64_t file_size; /* texts take no more than three times that */
    /* What a persistent id stands for; NULL: there are none. */
    int (*persistent)(td_pickle *p, const td_plain *id, td_plain **out, td_error *e);
    void *context;
    /* the machine's own */
    struct td_blocks *blocks;
    uint64_t values, items, text_bytes; /* made so far */
    td_plain **stack, **memo;
    uint32_t *marks;
    uint32_t depth, room, memos, memo_room, nmarks, mark_room;
    td_window *in;
};

/* Run to its STOP; *out lives until the pickle is closed. Several may follow each other in one window: the values of
 * all live as long. `what`: the name for messages. */
int td_pickle_run(td_pickle *p, td_window *in, const char *what, td_plain **out, td_error *e);
void td_pickle_close(td_pickle *p);

/* For those who make values. NULL with *e: no memory, or too many. */
td_plain *td_plain_new(td_pickle *p, td_plain_kind kind, td_error *e);
char *td_plain_text(td_pickle *p, uint32_t n, td_error *e); /* room for a text or bytes; ends with 0 */
int td_plain_add(td_pickle *p, td_plain *x, td_plain *item, td_error *e);
/* Room in a list for one more than n: what is in it moves to a larger one. There are never more than so many values. */
bool td_plain_room(void *list, uint32_t n, uint32_t *room, size_t each, td_error *e);
bool td_is_utf8(const unsigned char *s, uint32_t n);
/* The words for messages: "a list", ... */
const char *td_plain_kind_name(const td_plain *x);
/* Is it the text, or a tuple of so many? */
bool td_plain_is_text(const td_plain *x, const char *text);

#endif
