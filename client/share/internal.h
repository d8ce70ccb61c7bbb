/* What was opened by a name, or got from a queue: what the files of this room share. */
#ifndef TENSORD_CLIENT_SHARE_INTERNAL_H
#define TENSORD_CLIENT_SHARE_INTERNAL_H

#include "client/share/names.h"
#include "client/tensor/array.h"

/* ---- seek.c */
/* A name was not in this private daemon: add to the last error which other daemon has it, and what to do. */
void td_hint_elsewhere(const td_client *c, const char *name);
/* Nobody puts into a queue of this private daemon, or gets from it: says which other daemon has one of that name where
 * somebody does, and what to do. */
bool td_queue_elsewhere(const td_client *c, const char *name, bool got_from, char *text, size_t size);

/* ---- share.c, tree.c */
int td_take_opened(td_array *a, const td_reply *r, int *fd, td_error *e);
int td_publish_edition(td_array *tree, int tensors, const char *name, unsigned flags, uint64_t *version);
/* What td_open_tree() gives of what was opened, which is taken over. */
int td_opened_item(td_array *bytes, bool tree, td_queue_item *out);

/* ---- item.c */
/* What td_async_get() brought. */
int td_take_got(td_request *r, td_queue_item *out);

#endif
