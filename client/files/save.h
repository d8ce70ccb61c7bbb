/* What save.c writes: a tree of tensors, and in an archive records beside it. */
#ifndef TENSORD_CLIENT_FILES_SAVE_H
#define TENSORD_CLIENT_FILES_SAVE_H

#include "client/files/torchscript.h"
#include "client/files/write.h"
#include "client/tensord.h"

typedef struct td_save_content {
    td_queue_item tree;
    const td_scripted_program *programs; /* the name of their file ends with .td, or with .pt */
    uint32_t nprograms, nextras;
    const td_out_record *extras; /* beside the programs; without such, texts in the header of safetensors */
    unsigned flags;              /* TD_SAVE_WHOLE */
    td_error *uncoded; /* set: why a .pt of programs is none that torch.jit.load() opens; the file says it too */
} td_save_content;

/* The note of a dict of tensors under these names, or (without) of one tensor; the tree of such. */
int td_save_names(td_list arrays, const char *const *names, td_bytes *note, td_error *e);
td_queue_item td_save_tree(td_list arrays, const td_bytes *note);

/* To a path, as td_save() has it; to a descriptor, as td_save_fd() has it (which raises). */
int td_save_all(const char *path, const td_save_content *what, td_error *e);
int td_save_all_fd(int fd, const char *name, const td_save_content *what);

#endif
