/* JSON as requests and answers need it: looking into what was read, and writing with one check at the end. */
#ifndef TENSORD_CLIENT_HTTP_PLAIN_H
#define TENSORD_CLIENT_HTTP_PLAIN_H

#include "client/files/json.h"

enum { HTTP_DEEPEST = 32 };

/* As td_json_read_any_float(), of what strangers sent: nested 32 deep at most. An empty text is an empty object. */
int http_json_read(td_pickle *p, const char *text, size_t n, const char *what, td_plain **out, td_error *e);

/* What the values of a text take at most, in bytes, beside their texts. */
uint64_t http_json_memory(const char *text, size_t n);

/* The value with that name in an object; NULL: there is none, or `x` is no object. Of a name that stands there twice
 * the first holds. */
const td_plain *http_get(const td_plain *x, const char *name);
const char *http_get_text(const td_plain *x, const char *name); /* NULL: there is none, or it holds a 0 */
/* A number that is whole and in these bounds; `otherwise` when there is none; false: there is something else. */
bool http_get_int(const td_plain *x, const char *name, int64_t least, int64_t most, int64_t otherwise, int64_t *out);
bool http_get_bool(const td_plain *x, const char *name, bool otherwise, bool *out);

/* A text in the making. The first failure is remembered, and nothing is written behind it. */
typedef struct http_text {
    td_bytes bytes;
    uint64_t most; /* bytes; 0: as many as there are */
    int failed;
    td_error error;
} http_text;

void http_put(http_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void http_put_bytes(http_text *t, const char *bytes, size_t n);
void http_put_quoted(http_text *t, const char *text);
void http_put_float(http_text *t, double v, bool single); /* the shortest that is the same number; NaN, Infinity */

#endif
