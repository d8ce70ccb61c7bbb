/* What an ONNX file says, as reader.c finds it: messages of onnx.proto, of which only the fields that count are kept.
 *
 * Invariants: all of it lies in one arena; texts end with a 0 and hold none; a place lies within the file. Numbers that
 * are not there are 0, but for a size (-1). */
#ifndef TENSORD_CLIENT_ONNX_MODEL_H
#define TENSORD_CLIENT_ONNX_MODEL_H

#include "client/files/source.h"
#include "client/onnx/digest.h"
#include "proto/base/arena.h"

enum {
    TD_ONNX_GROWTH = 64,     /* bytes of memory for each of the file, ... */
    TD_ONNX_LEAST = 1 << 20, /* ... and so many more */
    TD_ONNX_NEST = 16,       /* graphs within each other */
    TD_ONNX_DEEPEST = 64     /* messages within each other */
};

typedef struct td_onnx_list { /* of messages, each of which begins with the next */
    void *first, *last;
    uint32_t n;
} td_onnx_list;

typedef struct td_onnx_text {
    struct td_onnx_text *next;
    const char *text;
} td_onnx_text;

typedef struct td_onnx_numbers {
    union {
        int64_t *i;
        float *f;
        double *d;
        void *at;
    };
    uint64_t n, room;
} td_onnx_numbers;

typedef struct td_onnx_place { /* in the file */
    uint64_t at, size;
    bool there;
} td_onnx_place;

typedef struct td_onnx_entry {
    struct td_onnx_entry *next;
    const char *key, *value;
} td_onnx_entry;

typedef struct td_onnx_tensor {
    struct td_onnx_tensor *next;
    const char *name;
    td_onnx_numbers dims, floats, int32s, int64s, doubles, uint64s;
    int64_t type, location;
    td_onnx_place raw;
    td_onnx_list external;
    uint32_t texts; /* of strings */
} td_onnx_tensor;

typedef struct td_onnx_dim {
    struct td_onnx_dim *next;
    int64_t size; /* -1: not said */
    const char *symbol;
} td_onnx_dim;

typedef struct td_onnx_shape {
    struct td_onnx_shape *next;
    td_onnx_list dims;
} td_onnx_shape;

typedef struct td_onnx_tensor_type {
    struct td_onnx_tensor_type *next;
    int64_t type;
    td_onnx_list shape; /* none: the rank is not known */
} td_onnx_tensor_type;

typedef struct td_onnx_type {
    struct td_onnx_type *next;
    td_onnx_list tensor; /* none: a sequence, a map, or nothing */
} td_onnx_type;

typedef struct td_onnx_info {
    struct td_onnx_info *next;
    const char *name;
    td_onnx_list type;
} td_onnx_info;

typedef struct td_onnx_graph {
    struct td_onnx_graph *next;
    const char *name;
    td_onnx_list nodes, initializers, sparse, inputs, outputs, infos;
} td_onnx_graph;

enum {
    TD_ONNX_FLOAT = 1,
    TD_ONNX_INT,
    TD_ONNX_STRING,
    TD_ONNX_TENSOR,
    TD_ONNX_GRAPH,
    TD_ONNX_FLOATS,
    TD_ONNX_INTS,
    TD_ONNX_STRINGS
};
typedef struct td_onnx_attribute {
    struct td_onnx_attribute *next;
    const char *name, *s, *reference;
    int64_t type, i;
    float f;
    td_onnx_list tensor, graph, strings;
    td_onnx_numbers floats, ints;
} td_onnx_attribute;

typedef struct td_onnx_node {
    struct td_onnx_node *next;
    const char *name, *op, *domain;
    td_onnx_list inputs, outputs, attributes;
} td_onnx_node;

typedef struct td_onnx_opset {
    struct td_onnx_opset *next;
    const char *domain;
    int64_t version;
} td_onnx_opset;

typedef struct td_onnx_model {
    struct td_onnx_model *next;
    const char *producer;
    int64_t ir_version;
    td_onnx_list graph, opsets, functions;
} td_onnx_model;

typedef struct td_onnx_file {
    td_source source;
    int folder;         /* where external data lies; -1: there is none */
    td_digest *outside; /* of all that was fetched from there, in its order; NULL: nobody asks */
    td_arena memory;
    td_onnx_model *model;
} td_onnx_file;

/* `fd` and `folder` stay the caller's, and must stay open. */
int td_onnx_read(td_onnx_file *f, int fd, int folder, td_error *e);
/* A file that is one tensor (a TensorProto), as the suites of ONNX have them. */
int td_onnx_read_tensor(td_onnx_file *f, int fd, td_onnx_tensor **out, td_error *e);
void td_onnx_close(td_onnx_file *f); /* also of one that was not read */
/* From its memory; NULL: the error says that the file asks for too much. Zeroed. */
void *td_onnx_take(td_onnx_file *f, size_t bytes, td_error *e);

/* ---- data.c: what tensors hold */

typedef struct td_onnx_look {
    td_dtype dtype;
    int ndim;
    int64_t shape[TD_MAX_DIMS], numel;
    uint64_t bytes;
} td_onnx_look;

/* The dtype of this number; TD_DTYPE_NONE: tensord has none. */
td_dtype td_onnx_dtype(int64_t type);
const char *td_onnx_type_name(int64_t type); /* "float8e4m3fn" */
/* What it says of itself, after a look whether the file has as many bytes. */
int td_onnx_look_at(const td_onnx_file *f, const td_onnx_tensor *t, td_onnx_look *out, td_error *e);
/* Its bytes as this machine has them, `look`->bytes of them. */
int td_onnx_fetch(const td_onnx_file *f, const td_onnx_tensor *t, const td_onnx_look *look, void *to, td_error *e);
/* As if it were fetched, for `outside` alone. */
int td_onnx_skim(const td_onnx_file *f, const td_onnx_tensor *t, const td_onnx_look *look, td_error *e);

#endif
