/* Processes that belong together: those between a process and its root, the program that stands for all of them.
 *
 * The root is the topmost process above this one that runs the same executable (one interpreter is one executable), or
 * a launcher of ranks above it (mpirun, a step of Slurm). The way up ends where another program begins:
 *   - at a terminal's shell, which runs what a person asks for, one thing beside another;
 *   - above a process that is a program of its own whoever started it: a notebook's kernel, a worker of pytest-xdist;
 *   - at a program that runs others as a service: a notebook server, supervisord;
 *   - at the process that TENSORD_BELOW names, and below it: it is a program, and so is each that it starts.
 * setsid(), new terminals, environments and working directories do not matter, as they differ between the ranks of one
 * job. A process of another pid namespace is not seen. */
#ifndef TENSORD_CLIENT_WIRE_LINEAGE_H
#define TENSORD_CLIENT_WIRE_LINEAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct td_relative {
    pid_t pid, parent, group, session;
    int terminal;             /* that controls its session; 0: none */
    unsigned long long began; /* ticks since the machine did: with `pid`, a name that comes once */
    char name[16];            /* of its executable, as the kernel cuts it */
} td_relative;

enum { TD_MOST_RELATIVES = 64 };

typedef struct td_lineage {
    td_relative of[TD_MOST_RELATIVES]; /* the process, its parent, and so on up to the end of the way */
    int count, root;                   /* how many; which of them is the root */
} td_lineage;

/* A file of the process's directory in /proc, ended by a zero; its length, 0 when it cannot be read. */
size_t td_process_file(pid_t pid, const char *file, char *out, size_t size);
/* False when the process is not there, or may not be looked at; then all but `pid` is zero. */
bool td_relative_look(pid_t pid, td_relative *out);
/* count is 1 at least, also where /proc is not to be seen. */
void td_lineage_look(pid_t pid, td_lineage *out);
/* The process that TENSORD_BELOW names for this one; 0: none. */
pid_t td_lineage_below(void);
/* Is `pid` a process below `top`? */
bool td_lineage_within(pid_t pid, pid_t top);

#endif
