/* A memory group, and a daemon in it with whatever limits follow from that: where this process may make one. */
#ifndef TENSORD_TESTS_HOSTILE_CGROUP_H
#define TENSORD_TESTS_HOSTILE_CGROUP_H

#include "tests/hostile/counted.h"

#include <sys/stat.h>
#include <unistd.h>

enum { GROUP_MB = 600 };
static char group[512], former[480]; /* directories of groups: the daemon's, and this process's own */

static inline bool write_file(const char *directory, const char *name, long long number)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "w");
    if (!f) return false;
    bool ok = fprintf(f, "%lld", number) > 0;
    return fclose(f) == 0 && ok;
}

/* Of the first version's hierarchy of memory, or the second version. */
static inline bool find_group(void)
{
    char line[400] = ""; /* which fits with what stands before it */
    FILE *f = fopen("/proc/self/cgroup", "r");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *of = strchr(line, ':'), *path = of ? strchr(of + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        const char *top = strcmp(of + 1, "memory") == 0 ? "/sys/fs/cgroup/memory" : of[1] ? NULL : "/sys/fs/cgroup";
        if (!top) continue;
        snprintf(former, sizeof former, "%s%s", top, strcmp(path, "/") ? path : "");
        snprintf(group, sizeof group, "%s/td-test-%d", former, (int)getpid());
        found = mkdir(group, 0755) == 0 && (write_file(group, "memory.limit_in_bytes", (long long)GROUP_MB << 20) ||
                                            write_file(group, "memory.max", (long long)GROUP_MB << 20));
        if (!found) rmdir(group);
    }
    if (f) fclose(f);
    return found;
}

/* A daemon that was born in the group; this process is not in it. */
static inline bool start_in_group(void)
{
    bool in = write_file(group, "cgroup.procs", getpid());
    bool ok = in && test_daemon_start(&d, NULL) && raw_count(d.socket, base);
    return write_file(former, "cgroup.procs", getpid()) && ok;
}

/* Bytes that the group has had at most; -1: nobody knows. */
static inline long long group_most(void)
{
    static const char *const names[] = {"memory.max_usage_in_bytes", "memory.peak"};
    long long most = -1;
    for (int k = 0; k < 2 && most < 0; k++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", group, names[k]);
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%lld", &most) != 1) most = -1;
        if (f) fclose(f);
    }
    return most;
}

#endif
