#include "proto/place.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* As the system knows it; else as the environment says. */
static const char *home_directory(char *room, size_t size)
{
    struct passwd entry, *found = NULL;
    if (getpwuid_r(geteuid(), &entry, room, size, &found) == 0 && found) return found->pw_dir;
    return getenv("HOME");
}

bool td_default_place(int n, char out[TD_PLACE_SIZE])
{
    char room[4096];
    const char *base = n == 0 ? getenv("XDG_RUNTIME_DIR") : n == 1 ? "/tmp" : home_directory(room, sizeof room);
    if (!base || base[0] != '/') return false;
    int size = n == 1 ? snprintf(out, TD_PLACE_SIZE, "/tmp/tensord-%u", (unsigned)geteuid())
                      : snprintf(out, TD_PLACE_SIZE, n == 0 ? "%s/tensord" : "%s/.tensord", base);
    return size < TD_PLACE_SIZE;
}

bool td_default_place_taken(const char *directory, unsigned *uid)
{
    struct stat st;
    if (lstat(directory, &st) != 0 || st.st_uid == geteuid()) return false;
    if (uid) *uid = (unsigned)st.st_uid;
    return true;
}
