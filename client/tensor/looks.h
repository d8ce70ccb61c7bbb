/* Storages that the program looks at: what this room does for them. */
#ifndef TENSORD_TENSOR_LOOKS_H
#define TENSORD_TENSOR_LOOKS_H

#include "client/client.h"

void td_forget_looks(td_client *c);

#endif
