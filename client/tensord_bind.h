/* tensord_bind.h: what a binding for another language needs beside tensord.h. */
#ifndef TENSORD_CLIENT_TENSORD_BIND_H
#define TENSORD_CLIENT_TENSORD_BIND_H

#include "client/tensord.h"

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* td_request_free(); false: another thread is about to call its callback, or within it. */
bool td_request_end(td_request *r);
/* The tensor that td_async_read() or td_async_ready() is about; it is the request's. NULL: it is about none. */
td_array *td_request_about(const td_request *r);
/* Bytes at td_request_data() of a td_async_read(). */
size_t td_request_bytes(const td_request *r);
/* Is what td_async_open() brought a tree, for td_request_item()? */
bool td_request_is_tree(const td_request *r);

#endif
