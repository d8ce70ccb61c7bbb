/* Where daemons listen when nobody says where: one answer for both sides.
 *
 * A place is a directory of mode 0700 that belongs to the user. The user's daemon listens in it, and private ones
 * listen each in a directory of their own below it. /tmp is everybody's, and another user may make a directory there
 * first; so there are further places, which nobody else can take. */
#ifndef TENSORD_PROTO_BASE_PLACE_H
#define TENSORD_PROTO_BASE_PLACE_H

#include <stdbool.h>

/* Directories, in order: $XDG_RUNTIME_DIR/tensord, /tmp/tensord-UID, .tensord in the home directory, and
 * /run/user/UID/tensord where the first is not that: a process whose environment was emptied finds there what was made
 * in a whole one. */
enum { TD_PLACES = 4, TD_PLACE_SIZE = 96 };

/* The n-th of them; false when there is none, or its name is too long for a socket in it. */
bool td_default_place(int n, char out[TD_PLACE_SIZE]);
/* Has somebody else made it? `uid` (may be NULL): who. */
bool td_default_place_taken(const char *directory, unsigned *uid);
/* A directory of a private daemon is not needed any more: it goes, and the place around it, when these are empty. */
void td_default_place_leave(const char *directory);

#endif
