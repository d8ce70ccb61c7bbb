/* What was opened by a name, or got from a queue: what the files of this room share. */
#ifndef TENSORD_SHARE_OPENED_H
#define TENSORD_SHARE_OPENED_H

#include "client/client.h"

/* What td_async_get() brought. */
int td_take_got(td_request *r, td_queue_item *out);

#endif
