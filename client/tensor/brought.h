/* Tensors that an answer brings as an Item: of a queue, or of a model. Under the client's lock. */
#ifndef TENSORD_CLIENT_TENSOR_BROUGHT_H
#define TENSORD_CLIENT_TENSOR_BROUGHT_H

#include "client/tensor/array.h"

/* The handle, whose id the daemon has bound, is the item's k-th tensor: its descriptor, and where it lies. One
 * descriptor may come with the frame: it is of the first address whose segment is new. */
int td_brought_take(td_array *a, int k, const Td__Wire__Item *from, int *fd, td_error *e);
/* Nobody takes the item: the descriptor is kept all the same, as it comes once. */
void td_brought_keep_segments(td_client *c, const Td__Wire__Item *item, int *fd);

#endif
