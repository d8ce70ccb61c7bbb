/* tensord_script.h: what a binding says of a program that it hands over as text.
 *
 * A program is a function in the subset of Python that client/script/README.md describes. The binding has looked at
 * what surrounds it: here it says what the names outside of the source mean, and which objects there are. The compiler
 * looks at nothing else, and asks no daemon. All of it is the binding's, and is only read. tensord_bind.h includes this
 * header; neither is installed. */
#ifndef TENSORD_CLIENT_TENSORD_SCRIPT_H
#define TENSORD_CLIENT_TENSORD_SCRIPT_H

#include "proto/program/ir.h"

/* UTF-8. Functions are handed over as they stand in their file: from which line on, and indented as they are. */
typedef struct td_script_source {
    const char *file, *text;
    size_t size;
    uint32_t first_line; /* 0 and 1: the whole file */
    /* A name for each line, from the first on, by which a program says it where nobody knows FILE:LINE; NULL: there are
     * none. One may be NULL, too. */
    const char *const *places;
    uint32_t nplaces;
} td_script_source;

/* The meaning of names outside of the source, and of the attributes of objects. Beside these Python's own functions are
 * known, and the functions of the source. */
typedef enum td_script_name_kind {
    TD_SN_TENSORS,  /* the module tensord: its functions, dtypes, and what lies below; or (text) one below: "linalg" */
    TD_SN_OPS,      /* rows of the op table alone */
    TD_SN_MATH,     /* Python's math */
    TD_SN_ATEN,     /* torch, in the code of an archive: ops by ATen's names */
    TD_SN_ATEN_OPS, /* ops.prim of that code, and ops of others */
    TD_SN_CODE,     /* __torch__: functions and classes of the archive, by their units' names */
    TD_SN_TENSOR,   /* a tensor, captured by its text (NULL: by this name) */
    TD_SN_NUMBER,   /* a constant */
    TD_SN_TEXT,     /* another one: text */
    TD_SN_NONE,     /* None */
    TD_SN_DTYPE,    /* number.i */
    TD_SN_DEVICE,   /* number.i */
    TD_SN_STATE,    /* an attribute that methods assign: number.i of the world's states */
    TD_SN_TUPLE,    /* items; with a text one of the class that TD_SN_NAMED says so */
    TD_SN_DICT,     /* items: keys, each with its value behind it */
    TD_SN_LIST,     /* items */
    TD_SN_OP,       /* the function tensord.TEXT */
    TD_SN_FUNCTION, /* the function TEXT of a unit, bound to an object or TD_IR_NONE */
    TD_SN_OBJECT,   /* an object, by number: its attributes are known, and it may be called */
    TD_SN_LISTING,  /* a function that gives an object, by number: model.parameters() */
    TD_SN_GRAD_OFF, /* an object that 'with' takes: no gradients inside */
    TD_SN_NAMED,    /* a class of named tuples: its fields are the parameters of the function TEXT of a unit */
    TD_SN_TYPE,     /* a type: that of the parameter of the function TEXT of a unit */
    TD_SN_REFUSED   /* nothing for a program; text says why */
} td_script_name_kind;

typedef struct td_script_name {
    const char *name; /* may have dots */
    td_script_name_kind kind;
    td_scalar number;
    const char *text;
    const char *alone; /* of a function that takes no arguments: what is said to who gives some; or NULL */
    const struct td_script_name *items;
    uint32_t n, unit, object;
} td_script_name;

typedef struct td_script_names {
    const td_script_name *at;
    uint32_t n;
} td_script_names;

/* Sources that make one program: functions, each with what its names mean (at NULL: as below), and objects. */
typedef struct td_script_unit {
    td_script_source source;
    td_script_names names;
    bool generic;     /* its functions take whatever types they are given, and what is wrong is wrong with their call */
    const char *code; /* of an archive's code its name, "__torch__.torch.nn.functional"; otherwise NULL */
} td_script_unit;

typedef struct td_script_object {
    td_script_names names; /* of a container, its items come first; "forward" is what a call of it calls */
    uint32_t items;
    enum {
        TD_OBJECT_PLAIN,
        TD_OBJECT_LIST,
        TD_OBJECT_DICT,
        TD_OBJECT_ONCE, /* what is gone over, and has no items to ask for */
        TD_OBJECT_PAIRS /* the same, of names and items */
    } kind;
    const char *title; /* where it stands: "layers.0" */
    const char *class; /* whose methods it has, in a unit of code; otherwise NULL */
    uint32_t unit;
} td_script_object;

/* An attribute that methods assign: the entry takes all states behind its arguments, and gives (its result, the states
 * as they are then). */
typedef struct td_script_state {
    uint32_t object;
    const char *name; /* the attribute; its type is said by its class, */
    const char *text; /* or (not NULL) by the parameter of the function of this name, */
    uint32_t unit;    /* in this unit */
} td_script_state;

typedef struct td_script_world {
    const td_script_unit *units;
    const td_script_object *objects;
    const td_script_state *states;
    uint32_t nunits, nobjects, nstates;
    bool onnx; /* the ops of ONNX (client/script/onnx.py) are the unit nunits + TD_SCRIPT_ONNX */
} td_script_world;
enum { TD_SCRIPT_ONNX = 2 };

/* Lower a function (TD_SN_FUNCTION) of several sources, with all that it calls, to a module, which is sealed and
 * counted once: its graph takes the function's arguments, but for the object. Of a class the function is "Class.name".
 * *gives says which named tuples the result holds, as JSON (lower_named.c) for the caller to free; NULL: none. NULL: *e
 * says why. */
td_ir *td_script_compile_named(const td_script_world *w, const td_script_name *entry, char **gives, td_error *e);

#endif
