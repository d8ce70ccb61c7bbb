/* What another process is at, by /proc: a member that is late computes, sleeps, or is stopped. */
#include "client/group/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The numbers behind the name, which may have blanks and brackets in it: state, ..., utime and stime are 14 and 15 of
 * proc(5), state is 3. */
char td_process_state(uint32_t pid, int64_t *worked_ms)
{
    char path[32], text[1024];
    *worked_ms = 0;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *end = strrchr(text, ')');
    char state = 0;
    unsigned long user = 0, system = 0;
    if (!end || sscanf(end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &user, &system) != 3)
        return 0;
    *worked_ms = (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
    return state;
}
