/* The tree of an archive that torch.jit.save() wrote: modules with their attributes, and a name for each tensor.
 *
 * data.pkl is one object, of a class that the code beside it describes; its attributes are plain data, tensors, and
 * objects like it. They are built as data, and nothing of what a class says is run. */
#ifndef TENSORD_CLIENT_FILES_SCRIPTED_H
#define TENSORD_CLIENT_FILES_SCRIPTED_H

#include "client/files/file.h"

enum {
    TD_SCRIPTED_MODULES = 1 << 14,
    TD_SCRIPTED_TENSORS = 1 << 16, /* with names */
    TD_SCRIPTED_NAME = 512,        /* bytes of one */
};

/* For the pickles of such an archive: the names beside those of tensors. NULL with *e: it is none of them. */
const td_pickle_name *td_scripted_class(td_pickle *p, const char *text, td_error *e);
/* Of all that is reached from the first module: titles, names of tensors; t->root becomes a dict of these. */
int td_scripted_name(td_file *t, td_error *e);
/* A module's attributes, as a dict; NULL: x is none. */
const td_plain *td_scripted_attributes(const td_file *t, uint32_t module);
bool td_scripted_is_module(const td_plain *x, uint32_t *module);
void td_scripted_close(td_file *t);

#endif
