/* The Open Inference Protocol with the extension for binary data, as Triton speaks it: what bytes mean. Nothing here
 * waits, connects or touches a tensor: a request's text and a model's card become inputs (dtype, shape, where the bytes
 * lie), results become an answer's text.
 *
 * Invariant: each input that was accepted has the dtype and the sizes that the card names, and as many bytes as these
 * say; the binary ones fill what lies behind the text of the request, no byte more or less; `lease` is room for all. */
#ifndef TENSORD_CLIENT_HTTP_OIP_H
#define TENSORD_CLIENT_HTTP_OIP_H

#include "client/http/plain.h"

/* The protocol's name of a dtype ("FP32"), NULL of what it has none for; and the reverse. "TYPE_FP32" is Triton's in
 * configurations. */
const char *oip_dtype_name(td_dtype t);
td_dtype oip_dtype_parse(const char *name);

/* ---- a model's card (client/tensord.h), looked into */

typedef struct oip_port { /* an input or an output */
    const char *name;
    td_dtype dtype;
    int ndim;                   /* -1: the file does not say */
    int64_t shape[TD_MAX_DIMS]; /* -1: any */
    int rows;                   /* the dimension that counts rows of a batch; -1: none */
} oip_port;

typedef struct oip_card {
    td_pickle memory;
    const char *name, *digest;
    int64_t version, weights;
    oip_port *in, *out;
    int nin, nout;
    int most; /* rows of a batch; 1: no batches */
    struct {  /* with what it was published */
        int64_t max_batch, delay_us, queue, instances;
    } asked;
} oip_card;

int oip_card_read(oip_card *c, const char *json, td_error *e); /* to be closed also when it fails */
void oip_card_close(oip_card *c);

/* ---- a request */

typedef enum oip_from { OIP_NOWHERE, OIP_BINARY, OIP_JSON, OIP_REGION } oip_from;

typedef struct oip_input {
    oip_from from;
    int ndim;
    int64_t shape[TD_MAX_DIMS];
    uint64_t bytes, place; /* `place`: its offset in the lease */
    const td_plain *data;  /* OIP_JSON */
    const char *region;    /* OIP_REGION */
    uint64_t offset;
} oip_input;

typedef struct oip_output {
    int port;
    bool binary;
    const char *region; /* it goes there; NULL: into the answer */
    uint64_t offset, room;
    int64_t classes; /* the largest so many of each row, as texts "value:index"; 0: the values */
    uint64_t class_bytes;
} oip_output;

typedef struct oip_request {
    td_pickle memory;
    const oip_card *card;
    const char *id;  /* NULL: none */
    oip_input *in;   /* card->nin, in the card's order */
    int *binary;     /* which of them are binary, in the order of their bytes */
    oip_output *out; /* those that were asked for, in that order */
    int nbinary, nout;
    uint64_t raw;   /* bytes behind the text */
    uint64_t lease; /* bytes of memory for all inputs */
    uint64_t timeout_us;
    int priority;
    int at;          /* oip_take(): which binary one is next, */
    uint64_t filled; /* and how many of its bytes are there */
} oip_request;

/* `text`: the JSON; `raw`: so many bytes lie behind it. To be closed also when it fails. */
int oip_read(oip_request *r, const oip_card *card, const char *text, size_t n, uint64_t raw, td_error *e);
/* A body without a text: all of it is the one input, and all outputs come back binary. */
int oip_read_bare(oip_request *r, const oip_card *card, uint64_t raw, td_error *e);
void oip_close(oip_request *r);
/* The next bytes behind the text go to their places. */
void oip_take(oip_request *r, char *lease, const char *bytes, size_t n);
/* Values that stood in the text go to their places. */
int oip_fill(const oip_request *r, char *lease, td_error *e);

/* ---- an answer */

typedef struct oip_result {
    td_dtype dtype;
    int ndim;
    const int64_t *shape;
    const void *data; /* row by row */
    uint64_t bytes;
} oip_result;

/* The text of an answer: `results` are those of all of the card's outputs. Binary ones follow the text in the order of
 * r->out; `t->most` bounds it. The bytes of an output with classes go to `classes`, one output behind the other, and
 * their number is its `class_bytes`. */
int oip_answer(oip_request *r, const oip_result *results, http_text *t, td_bytes *classes, td_error *e);
/* The next part of it, with so many values at most; `at` is zeroed before the first. */
typedef struct oip_written {
    int output;
    uint64_t byte; /* of its values */
    bool begun, in_values, whole;
} oip_written;
int oip_answer_some(oip_request *r, const oip_result *results, oip_written *at, uint64_t most, http_text *t,
                    td_bytes *classes, td_error *e);

/* ---- what is said of a model */

void oip_put_metadata(const oip_card *c, const int64_t *versions, int nversions, http_text *t);
void oip_put_config(const oip_card *c, http_text *t);

#endif
