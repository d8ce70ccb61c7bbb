/* The ops that are known: the functions of client/script/onnx.py. NAME_VERSION is the op NAME as it is from that
 * version of ONNX's ops on, up to the next function of that name.
 *
 * Its parameters before the "*" are the node's inputs; `Any` says that one is given as numbers where the file has
 * these, and a first one called `inputs` takes all as a tuple. Behind the "*" are the node's attributes, and what
 * text.c says of a node by itself: see onnx.py. */
#ifndef TENSORD_CLIENT_ONNX_OPS_H
#define TENSORD_CLIENT_ONNX_OPS_H

#include "proto/base/status.h"

typedef struct td_onnx_param {
    const char *name;
    bool input, number, needed;
} td_onnx_param;

typedef struct td_onnx_form {
    const char *function; /* "Conv_1" */
    size_t length;        /* of "Conv" */
    int64_t version;
    uint32_t nparams, ninputs;
    bool all; /* of its inputs, as a tuple */
    td_onnx_param params[24];
} td_onnx_form;

typedef struct td_onnx_ops {
    uint32_t n;
    td_onnx_form *at;
} td_onnx_ops;

/* Read once in a process. NULL: the error says why. */
const td_onnx_ops *td_onnx_ops_get(td_error *e);
/* The op in this version, or NULL; *first is the version from which on it is known, 0: it is not known. */
const td_onnx_form *td_onnx_form_of(const td_onnx_ops *ops, const char *op, int64_t version, int64_t *first);
/* The known op whose name is nearest; NULL: none is near. */
const td_onnx_form *td_onnx_near(const td_onnx_ops *ops, const char *op);
const td_onnx_param *td_onnx_param_of(const td_onnx_form *form, const char *name);

#endif
