/* A graph whose names were looked up: values, and the steps that make them in an order that runs. Only what leads to an
 * output is there.
 *
 * Invariants: each value has one maker, or is a constant, or comes in; a step stands behind all whose values it takes,
 * its own graphs included. All of it lies in the file's arena. */
#ifndef TENSORD_CLIENT_ONNX_GRAPH_H
#define TENSORD_CLIENT_ONNX_GRAPH_H

#include "client/onnx/model.h"
#include "proto/base/hash.h"

enum { TD_ONNX_FEW = 1024 }; /* numbers of a constant that is looked into while the text is made */

typedef struct td_onnx_constant {
    td_onnx_look look;
    const td_onnx_tensor *from; /* where its bytes are to be fetched, or NULL: */
    const void *bytes;          /* here they are (of one with few numbers: always, once asked for) */
    uint32_t weight;            /* its number among what is captured, plus 1 */
    const char *name;
} td_onnx_constant;

struct td_onnx_step;
typedef struct td_onnx_value {
    UT_hash_handle hh;
    const char *name;
    td_onnx_constant *constant;
    struct td_onnx_step *maker;
    uint32_t output;  /* of the maker; of what comes in its number */
    td_dtype dtype;   /* TD_DTYPE_NONE: not known */
    int rank;         /* -1: not known */
    bool used;        /* somebody takes it */
    bool tensor;      /* surely no numbers: text.c */
    const char *text; /* how the source says it */
} td_onnx_value;

typedef struct td_onnx_step {
    const td_onnx_node *node;
    struct td_onnx_step *next; /* in the order of the file, then in that of running */
    struct td_onnx_scope *scope;
    uint32_t number, nin, nout, nscopes, nmore, more_room, state;
    td_onnx_value **in, **out; /* NULL: left out */
    td_onnx_value **more;      /* what its graphs take from around them */
    struct td_onnx_scope **scopes;
    int64_t version;
} td_onnx_step;

typedef struct td_onnx_scope {
    const td_onnx_graph *graph;
    struct td_onnx_scope *parent;
    td_onnx_step *owner, *first; /* first: in the order of running */
    td_onnx_value *values;       /* by name */
    td_onnx_value **in, **out;
    uint32_t nin, nout, nsteps, depth;
} td_onnx_scope;

typedef struct td_onnx_whole {
    td_onnx_file *file;
    td_onnx_scope *main;
    td_onnx_scope **all;
    uint32_t nall, all_room, nsteps;
    int64_t opset;
    td_error *e;
} td_onnx_whole;

int td_onnx_resolve(td_onnx_whole *w, td_onnx_file *f, td_error *e);
void td_onnx_graph_end(td_onnx_whole *w);

/* What an attribute of the node is; NULL: it has none of that name. */
const td_onnx_attribute *td_onnx_attribute_of(const td_onnx_node *n, const char *name);
/* A node for people: "node 'x' (Conv, opset 11)"; in `out`. */
const char *td_onnx_say(const td_onnx_step *s, char *out, size_t size);
/* The same for a program, where it is run: "node 'x' (Conv) -> 'y'", shorter than TD_ONNX_PLACE. Of long names the end
 * is there. */
enum { TD_ONNX_PLACE = 76 };
void td_onnx_say_place(const td_onnx_step *s, char out[TD_ONNX_PLACE]);
/* Fails, unless it has failed before: "NODE: " and this. False. */
bool td_onnx_fail(td_onnx_whole *w, const td_onnx_step *s, td_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The bytes of a constant of few numbers; NULL: the error says why. */
const void *td_onnx_bytes(td_onnx_whole *w, td_onnx_constant *c);
/* One made meanwhile, with room for its bytes; NULL: the error says why. */
td_onnx_constant *td_onnx_constant_new(td_onnx_whole *w, const td_onnx_look *look, void **bytes);
/* Is it one of few numbers, whose bytes are here? */
static inline bool td_onnx_is_small(const td_onnx_value *v)
{
    return v && v->constant && v->constant->look.numel <= TD_ONNX_FEW;
}
/* Element k of one of whole numbers or truths. */
int64_t td_onnx_int(const td_onnx_constant *c, int64_t k);
double td_onnx_number(const td_onnx_constant *c, int64_t k);

/* fold.c: what steps make of small constants becomes such; they are gone from their scopes. */
int td_onnx_fold(td_onnx_whole *w);

#endif
