/* Where the user's daemon listens when nobody says where: the same for both sides.
 *
 * /tmp is everybody's, and who makes a directory there first has it. So there is a further place, in the user's home,
 * which nobody else can take. */
#ifndef TENSORD_PROTO_PLACE_H
#define TENSORD_PROTO_PLACE_H

#include <stdbool.h>

/* Directories, in order: $XDG_RUNTIME_DIR/tensord, /tmp/tensord-UID, .tensord in the home directory. */
enum { TD_PLACES = 3, TD_PLACE_SIZE = 96 };

/* The n-th of them; false when there is none, or its name is too long for a socket in it. */
bool td_default_place(int n, char out[TD_PLACE_SIZE]);
/* Has somebody else made it? `uid` (may be NULL): who. */
bool td_default_place_taken(const char *directory, unsigned *uid);

#endif
