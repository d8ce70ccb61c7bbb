/* tensord_bind.h: what a binding for another language needs beside tensord.h. */
#ifndef TENSORD_CLIENT_TENSORD_BIND_H
#define TENSORD_CLIENT_TENSORD_BIND_H

#include "client/tensord.h"
#include "proto/base/desc.h"

/* ---- waits ------------------------------------------------------------------------------------------------------- */

void td_step_aside(void); /* this thread will wait, or work for long: others may run */
void td_step_back(void);  /* it goes on; holds no lock of a client */

/* ---- connections ------------------------------------------------------------------------------------------------- */

/* td_connect that may be stopped, as td_set_interrupt says from then on. A binding has stepped aside before. */
td_client *td_connect_until(const char *path, bool (*stop)(void *), void *context);
/* td_connect(NULL) for a program that begins with td_open(name): rather than to start a daemon, in which nothing is, to
 * the one private daemon of another program that has the name, now or within that time (*another). Does not want the
 * lock put down. */
td_client *td_connect_for(const char *name, int timeout_ms, bool *another, bool (*stop)(void *), void *context);
/* Has its daemon what td_set_limits() said? TD_E_EXISTS: it runs already, with another memory. */
int td_check_limits(td_client *c);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* In place of an array that could not be had: it has a shape, and whatever else it is used for fails with this code and
 * these words. It is of a client of its own, which was never connected. */
td_array *td_array_lost(const td_desc *desc, int code, const char *why);
unsigned td_now_on(unsigned device); /* make things there from now on; returns where they were made before */
/* td_lease_new, but never behind a wait of another thread for what others will do (an item, a name). */
td_lease *td_lease_at_once(td_client *c, uint64_t bytes);
/* A copy of another dtype, or (TD_DTYPE_NONE) of the same: channels last where x lies so. Not under the lock. */
td_array *td_copy_as_it_lies(const char *where, td_array *x, td_dtype dtype);
/* What was made of the shape of `like` and lies row by row: it, or a copy (it is released) that lies channels last as
 * that does. Not under the lock. */
td_array *td_laid_like(const char *where, td_array *like, td_array *made);
/* Wait until everything asked of it so far is done; on any device, and at once where errors are eager: then it is
 * there. */
int td_made(td_array *a);
/* td_data() of an array, after td_settle() if `settle`, in one round trip. Not under the lock. With `info` that, too;
 * asked in the same trip where there is one. */
const void *td_data_as(td_array *a, bool settle, td_info *info);

/* The program looks at the bytes of a storage, whose address is known. */
typedef struct td_look_at {
    td_client *client; /* NULL: at nothing */
    uint64_t place[2], storage;
    bool grad;
} td_look_at;
int td_look(td_array *a, td_look_at *out);
void td_look_away(td_look_at *x); /* the array still lives */

/* Pages that show a tensor, and keep to themselves what is written there. The tensor's handle must outlive them. */
typedef struct td_private {
    void *base;
    uint64_t size;
    unsigned char *at; /* the first element */
} td_private;
int td_private_map(td_array *a, td_private *out);
void td_private_unmap(td_private *p);

/* ---- names and queues -------------------------------------------------------------------------------------------- */

/* As td_open(), and which edition it is; `tree`: it is bytes that td_tree_open() takes apart. */
td_array *td_open_edition(td_client *c, const char *name, uint64_t newer_than, int timeout_ms, uint64_t *version,
                          bool *tree);
/* A handle of the tensor for another process, which takes it by td_take(): see Hand in proto/wire/wire.proto. It is
 * there when this returns. `name`: NULL, or one that it was published under; *version: which one that has, 0: that name
 * is another's by now. */
int td_hand(td_array *a, char handle[TD_HANDLE_TEXT], int lasts_ms, bool lasting, const char *name, uint64_t *version);
/* `out` is to be cleared, also after an error. */
int td_tree_open(td_array *bytes, td_queue_item *out);
/* The end of a queue's handle that must not wait (and that no thread uses). */
void td_queue_forget(td_queue *q);

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
