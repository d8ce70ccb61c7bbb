/* See cgroup.h. */
#include "proto/base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNLIMITED (UINT64_C(1) << 62) /* the first version says so by the largest number of whole pages */

/* The first two numbers of a file, "max" being none; how many there are. */
static int numbers(const char *directory, const char *file, uint64_t at[2])
{
    char path[1400], line[128] = "";
    if (snprintf(path, sizeof path, "%s/%s", directory, file) >= (int)sizeof path) return 0;
    FILE *f = fopen(path, "re");
    if (f && !fgets(line, sizeof line, f)) line[0] = '\0';
    if (f) fclose(f);
    int n = 0;
    char *rest = line, *end;
    for (; n < 2; n++, rest = end) {
        at[n] = strtoull(rest, &end, 10);
        if (end == rest || memchr(rest, '-', (size_t)(end - rest))) return n;
    }
    return n;
}

typedef uint64_t limit_fn(const char *directory); /* of a group; 0: none */

static uint64_t memory_max(const char *directory)
{
    uint64_t at[2];
    return numbers(directory, "memory.max", at) ? at[0] : 0;
}

static uint64_t memory_limit(const char *directory)
{
    uint64_t at[2];
    return numbers(directory, "memory.limit_in_bytes", at) && at[0] < UNLIMITED ? at[0] : 0;
}

static uint64_t whole(uint64_t quota, uint64_t period)
{
    return period && quota ? (quota - 1) / period + 1 : 0;
}

static uint64_t cpu_max(const char *directory)
{
    uint64_t at[2];
    return numbers(directory, "cpu.max", at) == 2 ? whole(at[0], at[1]) : 0;
}

static uint64_t cpu_quota(const char *directory)
{
    uint64_t quota[2], period[2];
    if (!numbers(directory, "cpu.cfs_quota_us", quota) || !numbers(directory, "cpu.cfs_period_us", period)) return 0;
    return whole(quota[0], period[0]);
}

/* The tightest limit from a group up to the top of its hierarchy. */
static uint64_t tightest(const char *top, const char *group, limit_fn *limit)
{
    char path[1200];
    uint64_t least = 0;
    if (snprintf(path, sizeof path, "%s%s", top, group) >= (int)sizeof path) snprintf(path, sizeof path, "%s", top);
    for (size_t n = strlen(path); n >= strlen(top);) {
        uint64_t here = limit(path);
        if (here && (!least || here < least)) least = here;
        while (n > strlen(top) && path[n - 1] != '/') n--;
        if (!n--) break;
        path[n] = '\0';
    }
    return least;
}

/* "memory" in "cpu,memory"? */
static bool lists(const char *controllers, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = controllers; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || !at[n])) return true;
    return false;
}

/* Of the groups that the process is in: of the second version, and of the first one's hierarchy of `controller`. */
static uint64_t granted(const char *root, const char *controller, limit_fn *second, limit_fn *first)
{
    char path[512], line[768];
    uint64_t least = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        bool is_second = !*++controllers;
        if (!is_second && !lists(controllers, controller)) continue;
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s", root, is_second ? "" : "/", is_second ? "" : controller);
        uint64_t here = tightest(path, strcmp(group, "/") == 0 ? "" : group, is_second ? second : first);
        if (here && (!least || here < least)) least = here;
    }
    if (f) fclose(f);
    return least;
}

uint64_t td_cgroup_memory(const char *root)
{
    return granted(root, "memory", memory_max, memory_limit);
}

int td_cgroup_processors(const char *root)
{
    uint64_t n = granted(root, "cpu", cpu_max, cpu_quota);
    return n > 1 << 20 ? 1 << 20 : (int)n;
}
