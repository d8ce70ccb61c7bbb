/* What a library that stands in for one of NVIDIA's says: lines in the file FAKE_CUDA_LOG, each with the process's
 * number, and the end of a process that misuses it. FAKE_NAME is what it calls itself. */
#ifndef TENSORD_TESTS_SUPPORT_FAKE_LOG_H
#define TENSORD_TESTS_SUPPORT_FAKE_LOG_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int fake_log = -1;

static void open_log(void)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    if (path) fake_log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    char line[512];
    int n = snprintf(line, sizeof line, "%d ", (int)getpid());
    va_list ap;
    va_start(ap, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, ap);
    va_end(ap);
    if (n > (int)sizeof line - 2) n = sizeof line - 2;
    line[n++] = '\n';
    if (fake_log >= 0 && write(fake_log, line, (size_t)n) < 0) return;
}

#define misuse(...)                                                                                                    \
    do {                                                                                                               \
        tell("misuse: " __VA_ARGS__);                                                                                  \
        fprintf(stderr, FAKE_NAME ": misuse: " __VA_ARGS__);                                                           \
        fputc('\n', stderr);                                                                                           \
        abort();                                                                                                       \
    } while (0)

#endif
