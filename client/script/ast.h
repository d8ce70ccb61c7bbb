/* What a program says, as a tree in flat arrays: nodes with kinds of Python's own ast, and where they stand.
 *
 * Invariants: the kids of a node were made before it; a kid that is absent is 0 (the first node, TD_N_NOTHING); no path
 * from a node down is longer than TD_SCRIPT_DEPTH, so that who walks it may recurse. */
#ifndef TENSORD_CLIENT_SCRIPT_AST_H
#define TENSORD_CLIENT_SCRIPT_AST_H

#include "client/script/lex.h"

#include <stdio.h>

/* Kinds, their names in print, and their kids; ... stands for any number. "?": may be absent. */
#define TD_AST_KINDS(K)                                                                                                \
    K(NOTHING, "-")                                                                                                    \
    K(MODULE, "Module")        /* statement... */                                                                      \
    K(FUNCTION, "FunctionDef") /* text: name; params, returns?, block, decorator... */                                 \
    K(CLASS, "ClassDef")       /* text: name; block, base... */                                                        \
    K(PARAMS, "Params")        /* param... */                                                                          \
    K(PARAM, "Param")          /* text: name; op: td_param_place; annotation?, default? */                             \
    K(BLOCK, "Block")          /* statement... */                                                                      \
    K(ASSIGN, "Assign")        /* value, annotation? (of a comment), target... */                                      \
    K(ANN_ASSIGN, "AnnAssign") /* target, annotation, value? */                                                        \
    K(AUG_ASSIGN, "AugAssign") /* op; target, value */                                                                 \
    K(EXPR, "Expr")            /* value */                                                                             \
    K(IF, "If")                /* test, block, block? */                                                               \
    K(WHILE, "While")          /* test, block, block? */                                                               \
    K(FOR, "For")              /* target, values, block, block? */                                                     \
    K(WITH, "With")            /* block, item... */                                                                    \
    K(WITH_ITEM, "WithItem")   /* value, target? */                                                                    \
    K(RETURN, "Return")        /* value? */                                                                            \
    K(RAISE, "Raise")          /* value */                                                                             \
    K(ASSERT, "Assert")        /* test, message? */                                                                    \
    K(DELETE, "Delete")        /* target... */                                                                         \
    K(PASS, "Pass")                                                                                                    \
    K(BREAK, "Break")                                                                                                  \
    K(CONTINUE, "Continue")                                                                                            \
    K(NAME, "Name")           /* text */                                                                               \
    K(INT, "Int")             /* i; op 1: 2 ** 63, which stands behind a '-' */                                        \
    K(FLOAT, "Float")         /* f */                                                                                  \
    K(IMAGINARY, "Imaginary") /* f */                                                                                  \
    K(STRING, "Str")          /* text */                                                                               \
    K(FORMAT, "FString")      /* Str or Value... */                                                                    \
    K(VALUE, "Value")         /* of an f-string; op: 0, 'r', 's', 'a'; value, FString? */                              \
    K(BOOL, "Bool")           /* i */                                                                                  \
    K(NONE, "None")                                                                                                    \
    K(DOTS, "Ellipsis")                                                                                                \
    K(UNARY, "UnaryOp")        /* op; value */                                                                         \
    K(BINARY, "BinOp")         /* op; left, right */                                                                   \
    K(LOGIC, "BoolOp")         /* op; value... */                                                                      \
    K(COMPARE, "Compare")      /* left, CompareTo... */                                                                \
    K(COMPARE_TO, "CompareTo") /* op; right */                                                                         \
    K(CHOICE, "IfExp")         /* test, value, otherwise */                                                            \
    K(CALL, "Call")            /* function, argument or Keyword... */                                                  \
    K(KEYWORD, "Keyword")      /* text: name; value */                                                                 \
    K(ATTRIBUTE, "Attribute")  /* text: name; value */                                                                 \
    K(SUBSCRIPT, "Subscript")  /* value, key */                                                                        \
    K(SLICE, "Slice")          /* from?, to?, step? */                                                                 \
    K(STARRED, "Starred")      /* name in a target; value */                                                           \
    K(TUPLE, "Tuple")          /* item... */                                                                           \
    K(LIST, "List")            /* item... */                                                                           \
    K(DICT, "Dict")            /* key, value, key, value...; no key: "**"*/                                            \
    K(LIST_COMP, "ListComp")   /* item, target, values, condition...; also of a generator that a call is given */      \
    K(DICT_COMP, "DictComp")   /* key, item, target, values, condition... */

#define TD_AST_NAME(name, text) TD_N_##name,
typedef enum td_ast_kind { TD_AST_KINDS(TD_AST_NAME) TD_N_COUNT } td_ast_kind;

/* `op` of UNARY, BINARY, AUG_ASSIGN, LOGIC, COMPARE_TO. */
typedef enum td_ast_op {
    TD_O_NONE,
    TD_O_ADD,
    TD_O_SUB,
    TD_O_MUL,
    TD_O_MATMUL,
    TD_O_DIV,
    TD_O_FLOOR,
    TD_O_MOD,
    TD_O_POWER,
    TD_O_LEFT,
    TD_O_RIGHT,
    TD_O_BIT_AND,
    TD_O_BIT_OR,
    TD_O_BIT_XOR,
    TD_O_INVERT,
    TD_O_NOT,
    TD_O_AND,
    TD_O_OR,
    TD_O_EQ,
    TD_O_NE,
    TD_O_LT,
    TD_O_LE,
    TD_O_GT,
    TD_O_GE,
    TD_O_IN,
    TD_O_NOT_IN,
    TD_O_IS,
    TD_O_IS_NOT
} td_ast_op;
const char *td_ast_op_text(unsigned op);

typedef enum td_param_place { TD_PLACE_ANY, TD_PLACE_POSITION, TD_PLACE_KEYWORD } td_param_place;

typedef struct td_ast_node {
    uint8_t kind, op;
    uint16_t height; /* 1: without kids */
    td_span span;
    uint32_t first, n; /* kids, in `kids` */
    union {
        uint32_t text;
        int64_t i;
        double f;
    };
} td_ast_node;

typedef struct td_ast {
    td_ast_node *nodes;
    uint32_t *kids, nnodes, node_room, nkids, kid_room;
    char *bytes; /* of texts, each with a 0 behind it */
    struct td_ast_text {
        uint32_t at, size;
    } * texts; /* equal texts are one */
    uint32_t nbytes, byte_room, ntexts, text_room, *hashed, hash_room, root;
} td_ast;

void td_ast_deinit(td_ast *a);
/* The same once more, to be added to. False without memory: it is empty then. */
bool td_ast_copy(td_ast *to, const td_ast *from);
/* A node over n kids, which are copied. `at` is what is said when it is too deep. */
uint32_t td_ast_add(td_fault *f, td_ast *a, unsigned kind, unsigned op, td_span at, const uint32_t *kids, uint32_t n);
uint32_t td_ast_intern(td_fault *f, td_ast *a, const char *bytes, size_t size);

static inline const td_ast_node *td_ast_at(const td_ast *a, uint32_t node)
{
    return &a->nodes[node];
}
static inline uint32_t td_ast_kid(const td_ast *a, uint32_t node, uint32_t k)
{
    const td_ast_node *n = &a->nodes[node];
    return k < n->n ? a->kids[n->first + k] : 0;
}
static inline const char *td_ast_text(const td_ast *a, uint32_t text)
{
    return a->bytes + a->texts[text].at;
}

/* Each node on a line, two blanks deeper than its parent: "BinOp + 3:8-3:13". False: it could not be written. */
bool td_ast_print(const td_ast *a, FILE *to);

#endif
