/* The programs of a .td file: an archive of PyTorch, whose tree are the tensors that they capture under their names,
 * with records beside it. torch.load() reads the tensors; what they are for, the programs say:
 *
 *     programs/NAME.pb     the program, as proto/program/wire.h packs it: what is read
 *     programs/NAME.txt    the text of its IR, for people
 *     programs/NAME.json   how Python calls it (defaults, trees of tensors)
 *
 * A .pt file is one of TorchScript where that has a name for each op (torchscript.h): then the tree are modules, code
 * lies beside them, and the same records. Where not, programs/no_code.txt says why. */
#ifndef TENSORD_CLIENT_FILES_PROGRAMS_H
#define TENSORD_CLIENT_FILES_PROGRAMS_H

#include "client/files/torchscript.h"
#include "client/files/write.h"
#include "proto/program/ir.h"

const td_filed *td_filed_find(const td_filed_all *all, const char *name); /* NULL: there is none */

/* The records of one program, whose memory td_filed_drop() frees. A name is letters, digits and _. */
enum { TD_FILED_RECORDS = 3 };
int td_filed_make(const td_scripted_program *p, td_out_record out[TD_FILED_RECORDS], uint32_t *n, td_error *e);
void td_filed_drop(td_out_record *records, uint32_t n);

#endif
