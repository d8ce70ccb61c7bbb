/* Programs as text: the one door of this folder. A function in the subset of Python that README.md describes becomes a
 * tree, and the tree a module of the IR (proto/program/ir.h). */
#ifndef TENSORD_CLIENT_SCRIPT_SCRIPT_H
#define TENSORD_CLIENT_SCRIPT_SCRIPT_H

#include "client/script/ast.h"
#include "client/tensord_script.h"

enum { TD_SCRIPT_CLASSES = 1 }; /* the code of a TorchScript archive: classes may stand in it */

/* The ops of ONNX, for a generic unit: onnx.py. */
extern const td_script_source td_script_onnx;

/* Read a source into `ast` (which td_ast_deinit ends, in any case). What is wrong is in e->message, with its place: see
 * fault.h. */
int td_script_parse(const td_script_source *s, unsigned flags, td_ast *ast, td_error *e);

/* Data, and no function, module or object. */
static inline bool td_script_is_plain(td_script_name_kind kind)
{
    return kind >= TD_SN_TENSOR && kind <= TD_SN_LIST;
}

/* Lower one function of a source (`entry`; NULL: the last one) with all that it calls. `names` NULL: td, tensord, torch
 * and F are tensord, math is math. The module is sealed and counted once, NULL: *e says why. */
td_ir *td_script_compile(const td_script_source *s, const char *entry, const td_script_names *names, td_error *e);

/* td_script_compile_named(), and nobody asks for the named tuples. */
td_ir *td_script_compile_world(const td_script_world *w, const td_script_name *entry, td_error *e);

#endif
