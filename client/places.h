/* Private daemons: where they listen, and who finds them.
 *
 * The daemon that a program starts for itself listens in a directory of mode 0700 whose name says which process that
 * was (its number and when it began), below $XDG_RUNTIME_DIR or /tmp. So a process finds the daemon of whoever started
 * it by going up its parents, with nothing put into anybody's environment; and tensorctl finds all of them.
 *
 * TENSORD_BELOW=PID keeps the processes below that one to themselves: they look for no daemon that it, a process above
 * it or the user runs. */
#ifndef TENSORD_CLIENT_PLACES_H
#define TENSORD_CLIENT_PLACES_H

#include "proto/status.h"
#include <stdbool.h>
#include <sys/types.h>

typedef struct td_place {
    char path[108];
    pid_t program; /* that started it */
    char name[32]; /* the program's; "" when it has ended */
} td_place;

/* The private daemon of a process, or of the nearest above it that has one: a connected socket and its path, or -1. */
int td_places_find(pid_t process, char path[108], td_error *e);
/* Does TENSORD_BELOW keep this process apart? */
bool td_places_apart(void);
/* A socket that listens where this process's private daemon is to be, and one that is connected to it. Returns -1 with
 * *connected >= 0 when another thread had done it, and with *connected = -1 when it failed. */
int td_places_listen(char path[108], int *connected, td_error *e);
/* May this process look for what is in the daemon that this program started? */
bool td_places_within(pid_t program);
/* A private daemon that was killed could not remove its directory; do it, when nobody listens there. */
void td_places_sweep(const char *path);
/* The private daemons of this user that listen, as many as fit; returns how many there are. */
int td_places_list(td_place *list, int most);

/* Whose daemon listens at this path, as its directory is called; false: it is no private one's. */
bool td_places_of(const char *path, td_place *out);
/* "the private daemon of train.py (pid 12)"; of no place: "the daemon". */
const char *td_places_text(const td_place *d, char *out, size_t size);

/* The script or module that a process runs, when it is a Python that runs one. */
bool td_python_script(pid_t pid, char *out, size_t size);

#endif
