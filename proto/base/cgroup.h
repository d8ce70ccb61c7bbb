/* What the control groups of this process grant: containers and services are bounded so.
 *
 * Both versions are read, also where one host has both. A group's limit holds for all groups in it, so the tightest on
 * the way up counts. In a container the path may be the host's, of which only the top can be seen: that is the
 * container's own then. */
#ifndef TENSORD_PROTO_BASE_CGROUP_H
#define TENSORD_PROTO_BASE_CGROUP_H

#include <stdint.h>

/* Bytes, and processors (a part of one counts as a whole); 0: no limit, or none to be read. `root` is the directory in
 * which /proc and /sys are: "", but for tests. */
uint64_t td_cgroup_memory(const char *root);
int td_cgroup_processors(const char *root);

#endif
