/* Programs as the code of an archive that torch.jit.load() opens: the way back of archive.h.
 *
 * All programs of a file are methods of one class, and the functions within them, too. The tensors are attributes of it
 * and of modules within it, as their names say. What ATen calls an op is the column `aten` of the op table
 * (proto/README.md); an op that it has no name for is TD_E_UNSUPPORTED, which says the op, and then there is no code.
 */
#ifndef TENSORD_CLIENT_FILES_TORCHSCRIPT_H
#define TENSORD_CLIENT_FILES_TORCHSCRIPT_H

#include "client/files/note.h"
#include "proto/program/ir.h"

#include <stdbool.h>

typedef struct td_torchscript {
    char *code; /* of code/__torch__.py; to be freed */
    bool
        no_grad; /* it wants the class of that, td_torchscript_no_grad, in code/__torch__/torch/autograd/grad_mode.py */
    td_bytes tree; /* the note of data.pkl: modules, over the tensors of the tree that was given; to be freed */
} td_torchscript;

/* `tree`: a dict of tensors under the names that the programs capture. */
int td_torchscript_make(const td_scripted_program *programs, uint32_t n, td_note tree, td_torchscript *out,
                        td_error *e);
extern const char td_torchscript_no_grad[];
void td_torchscript_drop(td_torchscript *t);

#endif
