/* Making and changing a module of programs (ir.h): for front ends, readers and passes.
 *
 *     td_ir_edit *e = td_ir_edit_new(NULL, TD_IR_MAX_NODES, &error);
 *     td_ir_function_new(e, NULL);                                     // the graph; the cursor stands in its block
 *     uint32_t tensor = td_type_any_tensor(e);
 *     uint32_t x = td_ir_param_new(e, td_ir_cursor(e), tensor, "x");
 *     uint32_t two = td_ir_int(e, 2);
 *     uint32_t node = td_ir_op(e, TD_IR_TD | TD_OP_MUL, 2, (uint32_t[]){x, two}, 1, &tensor);
 *     td_ir_returns(e, td_ir_cursor(e), 1, (uint32_t[]){td_ir_result(e, node)});
 *     td_ir *ir = td_ir_seal(e, &error);                               // e is gone, also on failure
 *
 * The first failure (no memory, a limit) is kept: from then on every call does nothing and gives TD_IR_NONE, which
 * every call takes for a number too, so that only td_ir_seal needs to be asked. What would be a bug of the caller (a
 * number that never was) is an assertion. Whether the module makes sense is for the verifier (verify.h).
 *
 * New nodes are put at the *cursor*: at the end of a block, or before a node. Erased nodes stay as tombstones, so
 * numbers hold until td_ir_seal, which numbers all anew. */
#ifndef TENSORD_PROTO_PROGRAM_EDIT_H
#define TENSORD_PROTO_PROGRAM_EDIT_H

#include "proto/program/ir.h"
#include "proto/program/type.h"

typedef struct td_ir_edit td_ir_edit;

/* A copy of `from`, to be changed (NULL: an empty module), with at most so many nodes; NULL without memory. */
td_ir_edit *td_ir_edit_new(const td_ir *from, uint32_t max_nodes, td_error *e);
void td_ir_edit_free(td_ir_edit *e);
/* What is there now. Pointers into it hold until the next change. */
const td_ir *td_ir_now(const td_ir_edit *e);
/* Give up the edit for a sealed module, counted once: only what is reached, in the order of ir.h. NULL: the first
 * failure is in `error`. */
td_ir *td_ir_seal(td_ir_edit *e, td_error *error);
/* Something is wrong beyond what is seen here: keep it as the first failure. Returns its code. */
int td_ir_fail(td_ir_edit *e, const td_error *error);
/* The first failure's code, 0 while there is none. */
int td_ir_failed(const td_ir_edit *e);
/* How many changes there have been: who remembers facts compares it. */
uint64_t td_ir_changes(const td_ir_edit *e);
/* How many nodes there may be beside those that are. */
uint32_t td_ir_room(const td_ir_edit *e);

/* ---- strings, sources, functions */

uint32_t td_ir_string(td_ir_edit *e, const char *text, size_t length);
/* The same if the module has it; otherwise TD_IR_NONE. */
uint32_t td_ir_known_string(td_ir_edit *e, const char *text, size_t length);
/* Nodes made from now on come from here; file NULL: from nowhere. */
void td_ir_from(td_ir_edit *e, const char *file, uint32_t line, uint32_t column, uint32_t end);
/* ... or from where this node does. */
void td_ir_from_node(td_ir_edit *e, uint32_t node);
/* And, but for prim:: ops, have this mode. */
void td_ir_mode_now(td_ir_edit *e, uint32_t mode);
/* A function with an empty block, where the cursor then stands. The first one is the graph (name NULL). */
uint32_t td_ir_function_new(td_ir_edit *e, const char *name);
/* Nobody calls it any more: it is gone when the module is sealed. */
void td_ir_function_drop(td_ir_edit *e, uint32_t function);
/* False: it was dropped. */
static inline bool td_ir_has_function(const td_ir *ir, uint32_t function)
{
    return ir->functions[function].block != TD_IR_NONE;
}
uint32_t td_ir_capture_new(td_ir_edit *e, uint32_t type, const char *value_name, const char *name);
void td_ir_capture_name(td_ir_edit *e, uint32_t capture, const char *name);
/* Nobody uses it any more: it is gone when the module is sealed. */
void td_ir_capture_drop(td_ir_edit *e, uint32_t capture);

/* The functions of another module become functions of this one, with these values for what it captures; its graph is
 * called `name`, the others name_THEIRS. The number of what was its graph, to be called by TD_IR_FN. */
uint32_t td_ir_import(td_ir_edit *e, const td_ir *from, const char *name, const uint32_t *captured);

/* ---- the cursor */

void td_ir_to_end(td_ir_edit *e, uint32_t block);
void td_ir_to_before(td_ir_edit *e, uint32_t node);
/* The block where it stands. */
uint32_t td_ir_cursor(const td_ir_edit *e);

/* ---- nodes at the cursor */

/* One op with `nin` arguments, and `nout` results of these types. */
uint32_t td_ir_op(td_ir_edit *e, uint32_t op, uint32_t nin, const uint32_t *in, uint32_t nout, const uint32_t *types);
/* Its first result. */
uint32_t td_ir_result(const td_ir_edit *e, uint32_t node);
/* Constants: the value. */
uint32_t td_ir_none(td_ir_edit *e);
uint32_t td_ir_int(td_ir_edit *e, int64_t v);
uint32_t td_ir_float(td_ir_edit *e, double v);
uint32_t td_ir_bool(td_ir_edit *e, bool v);
uint32_t td_ir_complex(td_ir_edit *e, double re, double im);
uint32_t td_ir_str(td_ir_edit *e, const char *text, size_t length);
uint32_t td_ir_dtype(td_ir_edit *e, td_dtype v);
uint32_t td_ir_device(td_ir_edit *e, unsigned device);
/* A node with nblocks empty blocks: give it results, and the blocks parameters, nodes and returns. The cursor stays. */
uint32_t td_ir_op_with(td_ir_edit *e, uint32_t op, uint32_t nin, const uint32_t *in, uint32_t nblocks);
/* prim::If: arms are td_ir_child(e, node, 0) and 1. */
uint32_t td_ir_if(td_ir_edit *e, uint32_t condition);
/* prim::Loop: the body has its first parameter, the number of the trip. For each carried value: td_ir_carry. */
uint32_t td_ir_loop(td_ir_edit *e, uint32_t max_trips, uint32_t condition);
/* One more carried value, from `start`: an argument and a result of the loop, and a parameter of its body, which is
 * returned. (The body's returns are the next condition, then what each becomes.) */
uint32_t td_ir_carry(td_ir_edit *e, uint32_t loop, uint32_t start, uint32_t type, const char *name);
uint32_t td_ir_child(const td_ir_edit *e, uint32_t node, uint32_t k);

/* ---- changing */

uint32_t td_ir_param_new(td_ir_edit *e, uint32_t block, uint32_t type, const char *name);
uint32_t td_ir_in_new(td_ir_edit *e, uint32_t node, uint32_t value);
uint32_t td_ir_out_new(td_ir_edit *e, uint32_t node, uint32_t type);
/* What the block returns, in place of what it did. */
void td_ir_returns(td_ir_edit *e, uint32_t block, uint32_t n, const uint32_t *values);
/* For people; what is no name (td_ir_is_name) is left out. */
void td_ir_name(td_ir_edit *e, uint32_t value, const char *name);
/* The block has no parameters any more; nobody uses them. */
void td_ir_params_drop(td_ir_edit *e, uint32_t block);
void td_ir_retype(td_ir_edit *e, uint32_t value, uint32_t type);
void td_ir_words(td_ir_edit *e, uint32_t node, const uint32_t *words, uint32_t n);
void td_ir_mode(td_ir_edit *e, uint32_t node, uint32_t mode);
void td_ir_rng(td_ir_edit *e, uint32_t node, uint32_t rng);
void td_ir_set_in(td_ir_edit *e, uint32_t node, uint32_t k, uint32_t value);
/* All uses of `old` become uses of `value`. */
void td_ir_replace(td_ir_edit *e, uint32_t old, uint32_t value);
uint32_t td_ir_uses(const td_ir_edit *e, uint32_t value);
/* One use after another, in no order; TD_IR_NONE behind the last. Who uses: a node, or TD_IR_PARAM | a block that
 * returns it. */
uint32_t td_ir_use_first(const td_ir_edit *e, uint32_t value);
uint32_t td_ir_use_next(const td_ir_edit *e, uint32_t use);
uint32_t td_ir_user(const td_ir_edit *e, uint32_t use);
/* This one uses another value from now on. */
void td_ir_use_other(td_ir_edit *e, uint32_t use, uint32_t value);
/* A node and all in its blocks; nobody outside may use its results any more. */
void td_ir_erase(td_ir_edit *e, uint32_t node);
/* From now on the node does this op, without arguments; its results stay. */
void td_ir_turn(td_ir_edit *e, uint32_t node, uint32_t op);
/* Of the results of an If or Loop only those with keep[k], and of what stands for them: what arms return; what a loop
 * takes, hands on and returns. Whoever uses what goes is erased next. */
void td_ir_keep(td_ir_edit *e, uint32_t node, const uint8_t *keep);
/* What an If does first and second change places. */
void td_ir_swap_arms(td_ir_edit *e, uint32_t node);
/* Take the node from where it stands to the cursor. */
void td_ir_move(td_ir_edit *e, uint32_t node);
/* The nodes of a block once more, at the cursor, which stands outside of it: `params` in place of its parameters;
 * *returns (room for as many as it has) gets what it would return. */
void td_ir_clone(td_ir_edit *e, uint32_t block, const uint32_t *params, uint32_t *returns);

#endif
