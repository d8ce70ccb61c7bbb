/* What save.c writes: a tree of tensors, and in an archive records beside it. */
#ifndef TENSORD_CLIENT_FILES_SAVE_H
#define TENSORD_CLIENT_FILES_SAVE_H

#include "client/files/torchscript.h"
#include "client/files/write.h"
#include "client/tensord_bind.h"

/* The note of a dict of tensors under these names, or (without) of one tensor; the tree of such. */
int td_save_names(td_list arrays, const char *const *names, td_bytes *note, td_error *e);
td_queue_item td_save_tree(td_list arrays, const td_bytes *note);

/* td_save_all_fd() to a path, as td_save() has it; it does not raise. */
int td_save_all(const char *path, const td_save_content *what, td_error *e);

#endif
