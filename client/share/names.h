/* Names of tensors and programs. A name that a private daemon has not may be in another one: errors say so. */
#ifndef TENSORD_CLIENT_SHARE_NAMES_H
#define TENSORD_CLIENT_SHARE_NAMES_H

#include "client/wire/client.h"

/* td_leave(), and add to the last error which other daemon has the name. */
void td_leave_with_hint(td_client *c, const char *name);

#endif
