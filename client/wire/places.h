/* Private daemons: where they listen, and who finds them.
 *
 * A private daemon belongs to the root of the program that started it (lineage.h), whichever of its processes was
 * first: it listens in a directory of mode 0700 that is named after the root, by its number and when it began, in one
 * of the user's places (proto/base/place.h). So a process finds it by going up its parents, with nothing put into
 * anybody's environment; and tensorctl finds all of them.
 *
 * TENSORD_BELOW=PID keeps the processes below that one to themselves: they look for no daemon that it, a process above
 * it or the user runs. It itself looks for none of a process above it. */
#ifndef TENSORD_CLIENT_WIRE_PLACES_H
#define TENSORD_CLIENT_WIRE_PLACES_H

#include "client/wire/lineage.h"
#include "proto/base/status.h"
#include <stdbool.h>
#include <sys/types.h>

typedef struct td_daemon_place {
    char path[108];
    pid_t program; /* its root */
    char name[32]; /* the program's; "" when it has ended, or is of another pid namespace */
} td_daemon_place;

/* The private daemon of a process, or of the nearest above it that has one: a connected socket and its path, or -1. A
 * process whose parents have ended finds that of its process group's or session's leader, before that of the process
 * that adopted it. */
int td_places_find(pid_t process, char path[108], td_error *e);
/* Does TENSORD_BELOW keep this process apart? */
bool td_places_apart(void);
/* A socket that listens where the private daemon of this root is to be, and one that is connected to it. Returns -1
 * with *connected >= 0 when another process or thread had done it, and with *connected = -1 when it failed. */
int td_places_listen(const td_relative *root, char path[108], int *connected, td_error *e);
/* Does the daemon that listens at `path` lie where others do not find it, as none of the places could be used? */
bool td_places_hidden(const char *path);
/* May this process look for what is in the daemon that this program started? */
bool td_places_within(pid_t program);
/* A private daemon that was killed could not remove its directory; do it, when nobody listens there. */
void td_places_sweep(const char *path);
/* The private daemons of this user that listen, as many as fit; returns how many there are. */
int td_places_list(td_daemon_place *list, int most);

/* Whose daemon listens at this path, as its directory is called; false: it is no private one's. */
bool td_places_of(const char *path, td_daemon_place *out);
/* "the private daemon of train.py (pid 12)"; of no place: "the daemon". */
const char *td_places_text(const td_daemon_place *d, char *out, size_t size);

/* The script or module that a process runs, when it is a Python that runs one. */
bool td_python_script(pid_t pid, char *out, size_t size);

#endif
