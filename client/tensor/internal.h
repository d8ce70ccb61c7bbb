/* What the files of this room share, and nobody else sees. */
#ifndef TENSORD_CLIENT_TENSOR_INTERNAL_H
#define TENSORD_CLIENT_TENSOR_INTERNAL_H

#include "client/tensor/array.h"

/* td_alias under the lock. */
td_array *td_array_alias(td_array *a);

/* ---- value.c, info.c: under the lock */
/* Wait until everything asked of it so far is done, and know where it lies. */
int td_locate(td_array *a);
/* The answers to a read, to Map, to Open, to Status and to Info. `writes`: td_client.writes when it was asked. */
int td_take_value(td_array *a, void *buffer, size_t bytes, const td_reply *r, int *fd, td_error *e);
int td_take_address(td_array *a, uint64_t writes, const td_reply *r, int *fd, td_error *e);
int td_take_info(td_info *out, const td_reply *r, td_error *e);

/* ---- handle.c: td_client.above.forget, once there is something of this room in the client */
void td_tensors_forget(td_client *c);

/* ---- seen.c */
void td_forget_looks(td_client *c);

#endif
