/* Numbers of hooks: what the files of this room share. */
#ifndef TENSORD_CLIENT_GRAD_HOOK_H
#define TENSORD_CLIENT_GRAD_HOOK_H
#include "client/tensor/array.h"

uint32_t td_new_hook(td_client *c); /* under the lock */

#endif
