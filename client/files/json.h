/* JSON as plain data, in the memory that a file's pickle has, with the same bounds: values, bytes of texts, depth.
 *
 * Why not a library's: those keep a tree of their own without a bound on values, and know no integers of more than 64
 * bits and no halves of surrogate pairs, which trees that were saved may hold. */
#ifndef TENSORD_CLIENT_FILES_JSON_H
#define TENSORD_CLIENT_FILES_JSON_H

#include "client/files/note.h"
#include "client/files/pickle.h"

/* All of the text is one value; *out lives until the pickle is closed. An object is a dict, whose names may repeat.
 * `what`: the name for messages. */
int td_json_read(td_pickle *p, const char *text, size_t n, const char *what, td_plain **out, td_error *e);
/* The same, where NaN, Infinity, Inf and their negatives are numbers, too: so Python and RapidJSON write and read. */
int td_json_read_any_float(td_pickle *p, const char *text, size_t n, const char *what, td_plain **out, td_error *e);

/* Writing: a text in quotes, with what must be escaped; a number that reads back as it is. */
int td_json_put_text(td_bytes *b, const char *text, size_t n, td_error *e);
int td_json_put_float(td_bytes *b, double v, td_error *e);

#endif
