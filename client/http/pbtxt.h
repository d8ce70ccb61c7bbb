/* Triton's config.pbtxt: what a model's directory says of it.
 *
 * Invariant: a field that would change results or the way they are made, and that is not known here, is an error with
 * its line; a field that says how another server is to use its machine is read and left. A text of any bytes is read in
 * bounded depth and memory. */
#ifndef TENSORD_CLIENT_HTTP_PBTXT_H
#define TENSORD_CLIENT_HTTP_PBTXT_H

#include "client/http/oip.h"

enum { PBTXT_PORTS = 256, PBTXT_VERSIONS = 64, PBTXT_LEVELS = 64, PBTXT_BYTES = 1 << 20 };

typedef struct pbtxt_port {
    char name[256];
    td_dtype dtype; /* TD_DTYPE_NONE: not said */
    int ndim;       /* -1: not said */
    int64_t dims[TD_MAX_DIMS];
    int line;
} pbtxt_port;

typedef enum pbtxt_policy { PBTXT_LATEST, PBTXT_ALL, PBTXT_SPECIFIC } pbtxt_policy;

typedef struct pbtxt_config {
    char name[256];    /* "": not said */
    char file[256];    /* default_model_filename; "": model.onnx */
    int64_t max_batch; /* -1: not said; 0: no batches */
    bool dynamic;      /* dynamic_batching stands there */
    int64_t preferred, delay_us, queue,
        level;          /* the largest preferred size; ...; of requests that say none; 0: not said */
    int64_t timeout_us; /* of requests that say none; 0: none */
    int64_t instances;  /* 0: not said */
    pbtxt_policy policy;
    int64_t versions[PBTXT_VERSIONS]; /* PBTXT_SPECIFIC */
    int nversions, latest;            /* PBTXT_LATEST: so many */
    pbtxt_port *in, *out;
    int nin, nout;
} pbtxt_config;

/* `what`: the file's name for messages. To be closed also when it fails. */
int pbtxt_read(pbtxt_config *c, const char *text, size_t n, const char *what, td_error *e);
/* The file at `path`; without one *c says nothing, and *there is false. A pipe, a directory, a device are errors. */
int pbtxt_open(pbtxt_config *c, const char *path, bool *there, td_error *e);
void pbtxt_close(pbtxt_config *c);
/* Does it say of inputs and outputs what the model's card says? */
int pbtxt_check(const pbtxt_config *c, const oip_card *card, const char *what, td_error *e);

#endif
