/* The tree around tensors as bytes, as items of queues have it (client/python/src/item.c says what they mean): what
 * readers of files make, and writers walk. */
#ifndef TENSORD_CLIENT_FILES_NOTE_H
#define TENSORD_CLIENT_FILES_NOTE_H

#include "client/tensord_bind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_TREE_DEEPEST = 24 }; /* levels; an OrderedDict is two of a note's */

/* Bytes that grow. */
typedef struct td_bytes {
    unsigned char *at;
    size_t n, room;
} td_bytes;
/* Fails with TD_E_SYSTEM, also at a gigabyte: `what` they are for. */
int td_bytes_put(td_bytes *b, const void *bytes, size_t n, const char *what, td_error *e);

/* One step: a value, or the head of one whose items follow. */
typedef struct td_note_step {
    char kind;
    int64_t n; /* i, x: the number; s, b, I: bytes; l, t, d: items (of a dict pairs) */
    double f[2];
    const char *text; /* of s, b, I; without an end; the same address again: the same text */
    bool more;        /* behind its items stands one value more, which is not part of the tree */
} td_note_step;

typedef struct td_note {
    const unsigned char *at, *end, *begin;
} td_note;
/* TD_E_INVALID: this is none. */
int td_note_next(td_note *t, td_note_step *out, td_error *e);
/* The same without the coats of parameters and OrderedDicts; of another the kind stays m, and the text is its name. */
int td_note_plain(td_note *t, td_note_step *out, td_error *e);
int td_note_skip(td_note *t, td_error *e); /* one value */

#endif
