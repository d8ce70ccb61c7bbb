/* A tree becomes a module of the IR: what the files of the second half share. The door is td_lower.
 *
 * The IR has no jumps. A function is lowered in one walk, with an environment of what each local variable is now. Where
 * two ways meet (the arms of an If, the trips of a Loop) what they left different becomes a result or a carried value.
 * 'return', 'break' and 'continue' set flags of the *flow*; what follows is lowered under an If of these, or, when one
 * arm always ends so, into the other arm. Flags are constants as long as they can be.
 *
 * Invariants: the locals of a function are known before its body is walked (assignments make a name local, as in
 * Python); every value that is used was made in this block or one around it. */
#ifndef TENSORD_CLIENT_SCRIPT_LOWER_H
#define TENSORD_CLIENT_SCRIPT_LOWER_H

#include "client/script/script.h"
#include "proto/program/edit.h"
#include "proto/program/literal.h"
#include "proto/program/prim.h"
#include "proto/program/print.h"

typedef enum td_var_state {
    TD_VAR_UNSET, /* on some way here it has no value */
    TD_VAR_SET,
    TD_VAR_MIXED,    /* two ways left two types that are no optional */
    TD_VAR_FUNCTION, /* a 'def' inside: value is its node */
    TD_VAR_THING     /* a module, or a function from outside */
} td_var_state;

typedef struct td_var {
    uint32_t name, state;
    uint32_t value, base; /* base: what was assigned; value: that, or what a test made of it */
    uint32_t declared;    /* its type by annotation, or TD_IR_NONE */
    bool several;         /* it may have several types, by annotation */
    const td_script_name *thing;
    uint32_t outer; /* the variable of that name further out, or TD_IR_NONE */
    td_span at;     /* of the last assignment */
} td_var;

typedef enum td_flag_state { TD_FLAG_NO, TD_FLAG_YES, TD_FLAG_MAYBE } td_flag_state;
typedef struct td_flag {
    uint32_t state, value; /* MAYBE: a bool */
} td_flag;

typedef struct td_low_flow {
    td_flag stop, broke, returned; /* what follows is skipped; the loop ends; the function ends */
    bool gone;                     /* an error was raised here */
    uint32_t result;               /* what was returned, or TD_IR_NONE */
} td_low_flow;

/* A source. Of a generic one functions are lowered where they are called, for whatever types they are given, and what
 * is wrong is wrong with the call. */
typedef struct td_low_unit {
    const td_script_source *source;
    td_script_names names;
    uint32_t first, root; /* nodes */
    const char *code;     /* its name in an archive, or NULL */
    bool generic;
    td_error fault; /* it is no program */
} td_low_unit;

typedef struct td_low_function {
    uint32_t node, object, number; /* TD_IR_NONE while it is lowered */
} td_low_function;

typedef struct td_low_named {
    uint32_t class, type; /* TD_IR_NONE while it is made */
    const td_op *op;      /* NULL: a class; otherwise these are its results, and those of all that call them so */
} td_low_named;

/* A node that stands in no source: a call whose arguments were unpacked, or one of these, which is a value already. */
enum { TD_N_GIVEN = TD_N_COUNT };
#define TD_LOW_GIVEN (1u << 31)
typedef struct td_low_given {
    td_ast_node node;
    const uint32_t *kids;
    uint32_t value, unit;
} td_low_given;

typedef struct td_lower {
    td_fault *f;
    const td_ast *ast;
    td_ir_edit *e;
    const td_script_world *world;
    td_low_unit *units;
    uint32_t nunits, unit, blame; /* blame: the call of a generic function that is lowered, or 0 */
    uint32_t prelude, aten, onnx; /* units; onnx is there where the world wants it */
    uint32_t *cells;              /* of each state of the world, in this function: a list of what it is now */
    td_var *vars, *saved;         /* of the functions that are being lowered; of arms that wait for each other */
    uint32_t nvars, var_room, nsaved, saved_room, frame;
    uint32_t *var_of; /* by text: the innermost variable of that name, plus 1 */
    uint32_t *pairs;  /* what the arms of an If give */
    uint32_t npairs, pair_room;
    uint32_t *places; /* Ifs that td_low_begin_place() made */
    uint32_t nplaces, place_room;
    struct td_low_space *space;         /* arrays that live as long as this */
    struct td_low_piece **pieces;       /* objects behind those of the world, by their numbers */
    struct td_low_piece *pieces_of[64]; /* the same by what they are made of, in chains */
    uint32_t npieces, piece_room;
    td_low_named *named; /* classes of named tuples, by the marks of their types, less 1 */
    uint32_t nnamed, named_room;
    td_print *gives;      /* which of these the result holds; or NULL */
    td_low_given **given; /* by the numbers of these nodes, less TD_LOW_GIVEN */
    uint32_t ngiven, given_room;
    td_low_function *functions;
    uint32_t nfunctions, function_room;
    td_low_flow flow;
    uint32_t wanted_node;                       /* the expression of which ... */
    td_type_kind wanted;                        /* ... is wanted */
    uint32_t rng, mode, promised;               /* promised: the type of 'return' by annotation, or TD_IR_NONE */
    unsigned retries, nest, ifs, deep, inlined; /* ifs: around this, also through calls */
    bool unrolled;                              /* the innermost loop is one over modules */
    uint32_t **scopes, nscopes, scope_room;     /* var_of arrays that are empty */
    struct td_low_active {
        uint32_t node, object;
        struct td_low_active *outer;
    } * active; /* functions that are being lowered in place */
} td_lower;

/* ---- lower.c: what all use */
static inline const td_ast_node *td_low_node(const td_lower *l, uint32_t node)
{
    return node & TD_LOW_GIVEN ? &l->given[node & ~TD_LOW_GIVEN]->node : &l->ast->nodes[node];
}
static inline uint32_t td_low_kid(const td_lower *l, uint32_t node, uint32_t k)
{
    if (!(node & TD_LOW_GIVEN)) return td_ast_kid(l->ast, node, k);
    const td_low_given *g = l->given[node & ~TD_LOW_GIVEN];
    return k < g->node.n ? g->kids[k] : 0;
}
static inline const char *td_low_text(const td_lower *l, uint32_t node)
{
    return td_ast_text(l->ast, td_low_node(l, node)->text);
}
uint32_t td_low_type(const td_lower *l, uint32_t value);
td_type_kind td_low_kind(const td_lower *l, uint32_t value);
uint32_t td_low_part(const td_lower *l, uint32_t type, uint32_t k);
uint32_t td_low_plain(td_lower *l, td_type_kind kind);
const char *td_low_type_name(const td_lower *l, uint32_t type); /* "an int" */
/* Of two types the one that takes both, or TD_IR_NONE. */
uint32_t td_low_unify(td_lower *l, uint32_t a, uint32_t b);
/* What the builder gave; its failure ends the work. */
uint32_t td_low_made(td_lower *l, uint32_t number);
void td_low_at(td_lower *l, uint32_t node); /* what is made now comes from here */
uint32_t td_low_op(td_lower *l, uint32_t op, uint32_t n, const uint32_t *in, uint32_t type); /* its one result */
void td_low_do(td_lower *l, uint32_t op, uint32_t n, const uint32_t *in);                    /* it has none */
_Noreturn void td_low_wrong(td_lower *l, uint32_t node, const char *format, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void td_low_refuse(td_lower *l, td_code code, uint32_t node, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
uint32_t td_low_unit_of(const td_lower *l, uint32_t node);
/* A value of this type from one that may be less: None and T for T?, int for float, a tuple of ints for a list. */
uint32_t td_low_convert(td_lower *l, uint32_t node, uint32_t value, uint32_t type);
/* The one element of a Tensor, where an op wants an int or a float. */
uint32_t td_low_element(td_lower *l, uint32_t value, td_type_kind kind);
/* Of two lists, [] becomes of the other one's type. */
void td_low_type_empty(td_lower *l, uint32_t node, uint32_t x, uint32_t y);
/* Room until the end: for n numbers, for anything. */
void *td_low_take(td_lower *l, size_t bytes);
uint32_t *td_low_array(td_lower *l, uint32_t n);
/* Is it a constant: which one? */
bool td_low_literal(td_lower *l, uint32_t value, td_literal *v);
const char *
td_low_constant_text(td_lower *l,
                     uint32_t value); /* NULL: it is no text, one with a 0 in it, or known only when it runs */

/* ---- lower_env.c: variables and flow */
typedef enum td_truth { TD_NEVER, TD_ALWAYS, TD_SOMETIMES } td_truth;
td_var *td_low_var(td_lower *l, uint32_t name); /* NULL: no local */
void td_low_var_push(td_lower *l, uint32_t name);
void td_low_vars_pop(td_lower *l, uint32_t to);
void td_low_set(td_lower *l, td_var *v, uint32_t value, td_span at);
uint32_t td_low_get(td_lower *l, uint32_t node);       /* of a name */
void td_low_push_target(td_lower *l, uint32_t target); /* its names become variables, innermost */
void td_low_nest(td_lower *l, uint32_t node);          /* one block deeper */
void td_low_names_in(td_lower *l, uint32_t node, void (*found)(td_lower *l, uint32_t name, void *arg), void *arg);

typedef struct td_branch {
    uint32_t node, parent, original, first, rng;
    td_low_flow before, flow;   /* at the beginning; at the end of the first arm */
    uint32_t values[2], result; /* what an expression's arms give, TD_IR_NONE: nothing */
    uint32_t place;             /* a node, for what is said of two types */
} td_branch;
void td_low_if(td_lower *l, td_branch *b, uint32_t condition, uint32_t place);
void td_low_else(td_lower *l, td_branch *b);
/* The same of a subscript that is a view where the condition holds, and a copy otherwise. Where nobody can tell them
 * apart it is taken for the copy in the end (lower_place.c). */
void td_low_begin_place(td_lower *l, td_branch *b, uint32_t node, uint32_t condition);
void td_low_settle_places(td_lower *l);
void td_low_end_if(td_lower *l, td_branch *b);
void td_low_save(td_lower *l);
void td_low_restore(td_lower *l, uint32_t from);
/* lower_mixed.c: a variable of several types is TD_VAR_MIXED, with a tuple of what may be None, one for each type,
 * which isinstance() alone looks into. Where two ways meet, b->place; false: there is no such tuple. */
bool td_low_mix(td_lower *l, td_branch *b, const td_var *x, const td_var *y, uint32_t pair[2]);
/* isinstance(x, T) of such a one; NULL: it is something else. */
td_var *td_low_mixed_test(td_lower *l, uint32_t call);
td_truth td_low_mixed_truth(td_lower *l, const td_var *v, uint32_t call);
uint32_t td_low_mixed_is(td_lower *l, const td_var *v, uint32_t call);
void td_low_mixed_refine(td_lower *l, td_var *v, uint32_t call, bool holds);
bool td_low_is_isinstance(td_lower *l, uint32_t node);
bool td_low_is_instance(td_lower *l, uint32_t type, uint32_t of);
static inline uint32_t td_low_width(const td_lower *l)
{
    return l->nvars - l->frame;
}
uint32_t td_low_flag(td_lower *l, td_flag flag); /* as a value, at the cursor */

/* ---- lower_test.c */
td_truth td_low_truth(td_lower *l, uint32_t test);        /* as far as types and constants say */
uint32_t td_low_test(td_lower *l, uint32_t test);         /* a bool */
td_truth td_low_value_truth(td_lower *l, uint32_t value); /* of a constant */
uint32_t td_low_bool(td_lower *l, uint32_t node, uint32_t value);
void td_low_refine(td_lower *l, uint32_t test, bool holds);
uint32_t td_low_logic(td_lower *l, uint32_t node);
uint32_t td_low_compare(td_lower *l, uint32_t node);
uint32_t td_low_isinstance(td_lower *l, uint32_t call);

/* ---- lower_expr.c, lower_ops.c, lower_index.c, lower_call.c, lower_method.c */
uint32_t td_low_expr(td_lower *l, uint32_t node);
/* Where a number of this kind is wanted: x.item() is one then, exactly, and a float elsewhere. Others are what they
 * are. */
uint32_t td_low_expr_for(td_lower *l, uint32_t node, td_type_kind wanted);
/* What a parameter or a result of this type (TD_IR_NONE: any) wants so: as in TorchScript x.item() is an int there. */
td_type_kind td_low_wanted_by(td_lower *l, uint32_t type);
uint32_t td_low_list(td_lower *l, uint32_t node, uint32_t n, const uint32_t *values);
uint32_t td_low_tuple(td_lower *l, uint32_t n, const uint32_t *values);
uint32_t td_low_dict(td_lower *l, uint32_t node, uint32_t n, uint32_t *values); /* key, value, key, value... */
uint32_t td_low_item(td_lower *l, uint32_t tuple, uint32_t k);
/* The form of prim::NAME that takes these; TD_IR_NONE: none does. Without a result: the value of none. */
bool td_low_has_prim(td_lower *l, const char *name, uint32_t n, const uint32_t *in, uint32_t *result);
uint32_t td_low_prim(td_lower *l, uint32_t node, const char *name, uint32_t n, const uint32_t *in);
uint32_t td_low_binary(td_lower *l, uint32_t node, unsigned op, uint32_t a, uint32_t b, bool in_place);
uint32_t td_low_unary(td_lower *l, uint32_t node, unsigned op, uint32_t a);
uint32_t td_low_tensor_op(td_lower *l, uint32_t node, const char *name, uint32_t n, const uint32_t *in);
uint32_t td_low_subscript(td_lower *l, uint32_t node);
void td_low_subscript_set(td_lower *l, uint32_t target, uint32_t value);
void td_low_subscript_delete(td_lower *l, uint32_t target);
uint32_t td_low_call(td_lower *l, uint32_t node);
/* lower_thing.c: what is known without running: modules and functions, and the attributes of modules. NULL: a value. */
const td_script_name *td_low_thing(td_lower *l, uint32_t node);
const td_script_name *td_low_thing_of(td_lower *l, const td_script_name *object, const char *name);
void td_low_write(td_lower *l, uint32_t node, uint32_t into, uint32_t value); /* of tensors, in place */
bool td_low_writes(unsigned op);
bool td_low_is_made_by(td_lower *l, uint32_t value, const char *op);
/* Are there as many arguments as these take, of such names? */
bool td_low_row_takes(td_lower *l, uint32_t call, const td_op *op, uint32_t self);
bool td_low_takes(td_lower *l, uint32_t call, uint32_t function, uint32_t self);
bool td_low_aten_takes(td_lower *l, uint32_t call, const char *name, uint32_t self);
uint32_t td_low_own_call(td_lower *l, uint32_t call, uint32_t function,
                         uint32_t self); /* which is its first argument */
bool td_low_is_value(const td_script_name *thing);
void td_low_check_written(td_lower *l, uint32_t node); /* what is written is no list or dict from outside */
uint32_t td_low_thing_value(td_lower *l, uint32_t node, const td_script_name *thing);
void td_low_set_thing(td_lower *l, uint32_t target, const td_script_name *thing);
const td_script_object *td_low_container(td_lower *l, const td_script_name *thing);
uint32_t td_low_attribute(td_lower *l, uint32_t node);
uint32_t td_low_op_call(td_lower *l, uint32_t call, const td_op *op, uint32_t self,
                        uint32_t flags); /* 0, TD_IR_INPLACE */
/* `form`: with the arguments in the order and under the names of this, "addmm(c, x, y, beta=beta)". */
uint32_t td_low_op_call_as(td_lower *l, uint32_t call, const td_op *op, uint32_t self, uint32_t flags,
                           const char *form);
/* lower_make.c too. False: there is no such function. */
bool td_low_builtin(td_lower *l, uint32_t call, const char *name, uint32_t *value);
bool td_low_math(td_lower *l, uint32_t call, const char *name, uint32_t *value);
bool td_low_maker(td_lower *l, uint32_t call, const char *name, uint32_t *value);
bool td_low_has_maker(const char *name);
/* With a number, in place. */
uint32_t td_low_fill(td_lower *l, uint32_t node, uint32_t into, uint32_t value);
bool td_low_copy_method(td_lower *l, uint32_t call, uint32_t self, const char *name, uint32_t *value);
/* The arguments of a call without names, behind `self` (TD_IR_NONE: there is none); *n of them. */
uint32_t *td_low_arguments(td_lower *l, uint32_t call, uint32_t self, uint32_t *n);
bool td_low_is_cpu(td_lower *l, uint32_t value); /* a text that says so */
bool td_low_dtype(td_lower *l, const char *name, uint32_t *value);
uint32_t td_low_attribute_of(td_lower *l, uint32_t node, uint32_t self);
uint32_t td_low_method(td_lower *l, uint32_t call, uint32_t self, const char *name);
bool td_low_tolist(td_lower *l, uint32_t node, uint32_t type, uint32_t *value);
const td_script_name *td_low_known(const td_lower *l, const char *path, const char **rest);
/* "jit.fork" of what a path names below tensord, however it came here; NULL: it lies elsewhere. */
const char *td_low_below(const td_lower *l, const char *path, char *text, size_t size);
uint32_t td_low_captured(td_lower *l, const char *name);
uint32_t td_low_number(td_lower *l, td_scalar s);
bool td_low_constant_name(td_lower *l, uint32_t node, const char *path, uint32_t *value); /* td.float32, math.pi */
/* "td.nn.relu" of a chain of attributes from a name that is no local; false: it is another thing. */
bool td_low_path(td_lower *l, uint32_t node, char *out, size_t size);

/* ---- lower_named.c: named tuples. A class is a node of the tree, 0: there is none. */
uint32_t td_low_named_class(td_lower *l, const td_script_name *name);
uint32_t td_low_constructor(td_lower *l, uint32_t class);                  /* 0: it is called with its fields */
uint32_t td_low_own_method(td_lower *l, uint32_t value, const char *name); /* of the class of a value; 0: it has none */
uint32_t td_low_named_type(td_lower *l, uint32_t class);
uint32_t td_low_named_value(td_lower *l, uint32_t node, uint32_t class, uint32_t n, uint32_t *values);
bool td_low_named_item(td_lower *l, uint32_t node, uint32_t value, uint32_t *item); /* false: it is no named tuple */
uint32_t td_low_results(td_lower *l, const td_op *op, const uint32_t *values);      /* all of an op that has several */
void td_low_say_named(td_lower *l, uint32_t type);
/* lower_archive.c: what the annotation __torch__.NAME names, or the call of it. */
uint32_t td_low_code_named(td_lower *l, uint32_t node);

/* ---- lower_format.c: f-strings; "...".format(); "..." % values; format(value, spec) */
uint32_t td_low_format_string(td_lower *l, uint32_t node);
uint32_t td_low_format_method(td_lower *l, uint32_t call, uint32_t self);
uint32_t td_low_percent(td_lower *l, uint32_t node, uint32_t format, uint32_t value);
uint32_t td_low_formatted(td_lower *l, uint32_t node, uint32_t value, uint32_t spec);

/* ---- lower_near.c: "; was 'relu' meant?" of a name that is nothing, or "" */
const char *td_low_near_op(td_lower *l, const char *name);   /* an op, or a function of tensord's */
const char *td_low_near_name(td_lower *l, const char *name); /* a variable, or what the source knows */

/* ---- lower_grad.c: backwards and .grad. False: it is something else. */
bool td_low_prim_call(td_lower *l, uint32_t call, const char *name, uint32_t *value);
bool td_low_gradients_of(td_lower *l, uint32_t call, const char *name, uint32_t *value);
bool td_low_set_grad(td_lower *l, uint32_t target, uint32_t value);
/* A .grad where a tensor is wanted; another value as it is. */
uint32_t td_low_or_fail(td_lower *l, uint32_t value);
void td_low_check_own(td_lower *l, uint32_t call, const char *name, uint32_t value);

/* ---- lower_archive.c: the code of TorchScript archives */
bool td_low_is_code(const td_lower *l);
/* annotate(int, x) of a tensor is its number. */
uint32_t td_low_annotate(td_lower *l, uint32_t call);
/* A call that means something of its own there; false: it does not. */
bool td_low_code_call(td_lower *l, uint32_t call, uint32_t *value);
/* What ATen calls so, a function of aten.py or a row; a method of `self`, or TD_IR_NONE. False: it is neither. */
bool td_low_aten_call(td_lower *l, uint32_t call, const char *name, uint32_t self, uint32_t *value);

/* ---- lower_usual.c */
/* td.arccos is td.acos; in place with '_' behind both. In `text`, or NULL: it is no other name of anything. */
const char *td_low_usual_name(const char *name, char *text, size_t size);
/* What a path from __torch__ names, or an object made of a class there; NULL: a value. */
const td_script_name *td_low_code_thing(td_lower *l, uint32_t node);
const td_script_name *td_low_code_method(td_lower *l, uint32_t object, const char *name);
/* "x is None" in its form; *is: that, and not "is not". 0: it is something else, otherwise the x. */
uint32_t td_low_code_none_test(td_lower *l, uint32_t test, bool *is);
/* What archives call a number is of the type that comes. */
bool td_low_any_number(const td_lower *l, uint32_t annotation);
/* A dtype where an archive says int, as they are numbers there. */
bool td_low_code_dtype(const td_lower *l, uint32_t from, uint32_t to);
bool td_low_code_fold(td_lower *l, unsigned op, uint32_t a, uint32_t b, uint32_t *result);
void td_low_take_cells(td_lower *l, uint32_t block, bool entry);
uint32_t td_low_with_states(td_lower *l, uint32_t result);
uint32_t td_low_type_of_param(td_lower *l, uint32_t function, uint32_t k); /* TD_IR_NONE: nothing is said */
uint32_t td_low_state(td_lower *l, uint32_t state);
void td_low_state_set(td_lower *l, uint32_t target, uint32_t state, uint32_t value);
void td_low_raise(td_lower *l, uint32_t node, const char *kind, uint32_t message); /* the way is gone */

/* ---- lower_compare.c: of tuples, lists, dicts and what may be None; false: it is something else */
bool td_low_compared(td_lower *l, uint32_t node, unsigned op, uint32_t a, uint32_t b, uint32_t *result);
uint32_t td_low_contains(td_lower *l, uint32_t node, uint32_t in, uint32_t item);
bool td_low_sort(td_lower *l, uint32_t node, uint32_t list, uint32_t reverse);

/* ---- lower_star.c: what is unpacked */
bool td_low_has_star(const td_lower *l, uint32_t node);            /* "*x" among its kids */
uint32_t td_low_inner_call(td_lower *l, uint32_t call);            /* of fork(f, x) f(x) */
uint32_t td_low_no_arguments(td_lower *l, uint32_t call);          /* of len(x) x.__len__() */
uint32_t td_low_out_of(td_lower *l, uint32_t call, uint32_t *out); /* the call without out=, which *out is, or 0 */
uint32_t td_low_spread(td_lower *l, uint32_t call); /* the call with each argument, itself without stars */
uint32_t td_low_starred(td_lower *l, uint32_t node, bool list);
uint32_t td_low_starred_dict(td_lower *l, uint32_t node);

/* ---- lower_piece.c: parts of what holds modules, as objects of their own; NULL: it is something else */
typedef struct td_known {
    int64_t i;
    const char *text; /* NULL: it is the number */
} td_known;
bool td_low_known_value(td_lower *l, uint32_t node, td_known *k); /* an int or a text, which is known without running */
/* Where a slice of n begins or ends, as Python counts; backwards between -1 and n - 1. */
int64_t td_low_within(int64_t at, int64_t n, bool back);
const td_script_object *td_low_object(const td_lower *l, uint32_t number);
const td_script_name *td_low_slice_of(td_lower *l, uint32_t slice, const td_script_name *of);
const td_script_name *td_low_piece_of(td_lower *l, uint32_t call);   /* reversed(self.layers), list(...) */
const td_script_name *td_low_display_of(td_lower *l, uint32_t node); /* [self.a, self.b] */
td_truth td_low_has_module(td_lower *l, uint32_t test);              /* "a" in self.heads */
uint32_t td_low_keys_of(td_lower *l, uint32_t node);                 /* their names, as a list; TD_IR_NONE: no dict */
bool td_low_holds_values(const td_script_object *o);                 /* tensors, and no modules */

/* ---- lower_unroll.c: what goes over modules. False: it does not. */
bool td_low_unroll(td_lower *l, uint32_t node);
bool td_low_unroll_list(td_lower *l, uint32_t node, uint32_t *list);
bool td_low_unroll_tuple(td_lower *l, uint32_t node, uint32_t value); /* whose items have different types */

/* ---- lower_loop.c */
typedef struct td_iter {
    uint32_t kind, count, n;
    uint32_t at[8], start, step; /* lists; of a range */
    struct td_iter *inner;
} td_iter;
void td_low_over(td_lower *l, uint32_t node, td_iter *it);
uint32_t td_low_iter_item(td_lower *l, uint32_t node, const td_iter *it, uint32_t k);
bool td_low_iter_known(td_lower *l, const td_iter *it, int64_t *n); /* how many items, where that is known */
void td_low_for(td_lower *l, uint32_t node);
void td_low_while(td_lower *l, uint32_t node);
uint32_t td_low_comprehension(td_lower *l, uint32_t node);
uint32_t td_low_gathered(td_lower *l, uint32_t node); /* all that range(), zip(), ... goes over, as a list */

/* ---- lower_stmt.c, lower_function.c */
void td_low_block(td_lower *l, uint32_t block, uint32_t from);
/* What comes next, if the flow reaches it. */
void td_low_go_on(td_lower *l, uint32_t place, void (*next)(td_lower *l, void *arg), void *arg);
void td_low_assign(td_lower *l, uint32_t target, uint32_t value);
uint32_t td_low_type_of(td_lower *l, uint32_t annotation);
uint32_t td_low_meant(td_lower *l, uint32_t annotation); /* what a name of a type stands for */
bool td_low_is_union(td_lower *l, uint32_t annotation);  /* of several types, of which a value has one */
bool td_low_is_of(td_lower *l, uint32_t type, uint32_t annotation);
/* Called with these arguments: a function of the module; one inside, in place. */
uint32_t td_low_function_call(td_lower *l, uint32_t call, uint32_t function, uint32_t object, uint32_t self);
uint32_t td_low_inline(td_lower *l, uint32_t call, uint32_t function);
/* One of a class of named tuples, with these arguments. */
uint32_t td_low_named_call(td_lower *l, uint32_t call, uint32_t class);
uint32_t td_low_find_function(td_lower *l, uint32_t unit, const char *name); /* 0: there is none */
uint32_t td_low_find_class(td_lower *l, uint32_t unit, const char *name, size_t length);
bool td_low_is_row(td_lower *l, uint32_t call, const char *name, uint32_t self);
uint32_t td_low_find_prelude(td_lower *l, const char *name);
/* Its function of that name, with a value for each parameter. */
uint32_t td_low_prelude(td_lower *l, uint32_t node, const char *name, uint32_t n, uint32_t *values);
/* Its function KIND_NAME, with these values and defaults for the rest; false: there is none. */
bool td_low_prelude_of(td_lower *l, uint32_t node, const char *kind, const char *name, uint32_t n,
                       const uint32_t *values, uint32_t *result);
void td_lower_program(td_lower *l, const td_script_name *entry);
void td_lower_deinit(td_lower *l);

#endif
