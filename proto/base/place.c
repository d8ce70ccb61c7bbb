#include "proto/base/place.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As the system knows it; else as the environment says. */
static const char *home_directory(char *room, size_t size)
{
    struct passwd entry, *found = NULL;
    if (getpwuid_r(geteuid(), &entry, room, size, &found) == 0 && found) return found->pw_dir;
    return getenv("HOME");
}

static bool runtime_place(char out[TD_PLACE_SIZE], const char *runtime)
{
    return runtime && runtime[0] == '/' && snprintf(out, TD_PLACE_SIZE, "%s/tensord", runtime) < TD_PLACE_SIZE;
}

/* Where the system makes one for each user who has logged in. */
static bool system_place(char out[TD_PLACE_SIZE])
{
    char runtime[32], first[TD_PLACE_SIZE];
    struct stat st;
    snprintf(runtime, sizeof runtime, "/run/user/%u", (unsigned)geteuid());
    if (lstat(runtime, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid()) return false;
    return runtime_place(out, runtime) && !(runtime_place(first, getenv("XDG_RUNTIME_DIR")) && strcmp(first, out) == 0);
}

bool td_default_place(int n, char out[TD_PLACE_SIZE])
{
    char room[4096];
    if (n == 0) return runtime_place(out, getenv("XDG_RUNTIME_DIR"));
    if (n == 1) return snprintf(out, TD_PLACE_SIZE, "/tmp/tensord-%u", (unsigned)geteuid()) < TD_PLACE_SIZE;
    if (n == 3) return system_place(out);
    const char *home = home_directory(room, sizeof room);
    return home && home[0] == '/' && snprintf(out, TD_PLACE_SIZE, "%s/.tensord", home) < TD_PLACE_SIZE;
}

bool td_default_place_taken(const char *directory, unsigned *uid)
{
    struct stat st;
    if (lstat(directory, &st) != 0 || st.st_uid == geteuid()) return false;
    if (uid) *uid = (unsigned)st.st_uid;
    return true;
}

void td_default_place_leave(const char *directory)
{
    char place[TD_PLACE_SIZE];
    rmdir(directory);
    for (int i = 0; i < TD_PLACES; i++) {
        size_t n = td_default_place(i, place) ? strlen(place) : 0;
        if (n && strncmp(directory, place, n) == 0 && directory[n] == '/' && !strchr(directory + n + 1, '/'))
            rmdir(place);
    }
}
