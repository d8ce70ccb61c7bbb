/* The card of a model: a text of JSON that names its inputs and outputs, with dtypes and shapes.
 *
 * A size is a number; a text, which means one size wherever it stands in a request; or null, any. What else stands in
 * the card is kept and not looked at. Invariant: whatever is in `in` and `out` stands in `text`. */
#ifndef TENSORD_CLIENT_MODEL_CARD_H
#define TENSORD_CLIENT_MODEL_CARD_H

#include "client/files/json.h"
#include "client/tensord.h"
#include "proto/base/desc.h"

enum { TD_CARD_ENDS = 256 };

typedef struct td_card_end {
    const char *name;
    td_dtype dtype;
    int ndim;
    int64_t size[TD_MAX_DIMS];       /* -1: any, or the one that is called ... */
    const char *symbol[TD_MAX_DIMS]; /* ... so; NULL: it has no name */
} td_card_end;

typedef struct td_card {
    char *text;
    size_t bytes;
    int nin, nout;
    td_card_end *in, *out;
    td_pickle memory; /* which the names lie in */
} td_card;

/* Of a text, which is copied. */
int td_card_read(td_card *c, const char *text, size_t bytes, td_error *e);
void td_card_free(td_card *c);
/* "float32 [1, 3, height, ?]" */
const char *td_card_end_text(const td_card_end *x, char *out, size_t size);
/* Do arrays that look so fit its inputs? An error names the input, what came, and what the card says. */
int td_card_check(const td_card *c, int n, const td_desc *const *given, td_error *e);
/* With `more`, members of an object, behind those that it has; malloc's. NULL with `e`. */
char *td_card_with(const td_card *c, const char *more, td_error *e);

#endif
