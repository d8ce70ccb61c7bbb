/* The listening socket: its directory, its lock, its life. */
#ifndef TENSORD_DAEMON_SERVER_LISTEN_H
#define TENSORD_DAEMON_SERVER_LISTEN_H

#include "proto/base/status.h"

typedef struct td_listener {
    int fd, lock_fd;
    char path[108];
    bool remove_directory; /* made for this daemon alone */
} td_listener;

/* Bind and listen at `path` in a directory of mode 0700 that is ours, under a lock file beside it: TD_E_EXISTS when another daemon has it. A
 * socket that a killed daemon left is replaced. */
int td_listener_open(td_listener *l, const char *path, td_error *e);
/* Take over a socket that listens already (descriptor inherited). `owned`: whoever made it expects us to remove its path at the end. */
int td_listener_inherit(td_listener *l, int fd, bool owned, td_error *e);
void td_listener_close(td_listener *l);

/* Does this process see only some of the machine's users by their own numbers? */
enum { TD_OVERFLOW_UID = 65534 };
bool td_user_namespace(void);

/* Tell the service manager (sd_notify protocol), when there is one: "READY=1", "STOPPING=1". */
void td_notify(const char *state);

#endif
