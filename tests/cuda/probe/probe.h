/* What the probe's questions are made of.
 *
 * A question runs in a process group of its own with a limit of its own: a hang, a crash or a sticky error of the
 * driver costs its line alone. It says facts with say(), each at once, so that what was known before a hang is printed;
 * its answer is its exit status (YES, NO, NOT_HERE). A process that opened the driver is never forked: a question forks
 * its actors first, and they speak over a pair of sockets, descriptors included. */
#ifndef TENSORD_TESTS_CUDA_PROBE_PROBE_H
#define TENSORD_TESTS_CUDA_PROBE_PROBE_H

#include "tests/cuda/probe/driver.h"
#include "tests/cuda/probe/kernels.h"
#include <stdbool.h>
#include <sys/types.h>

enum { YES = 0, NO = 1, NOT_HERE = 2 };
enum { MIB = 1 << 20 };

typedef struct question {
    const char *number, *name;
    int limit_s;
    int (*ask)(int variant);
    int variant;
} question;
extern const question questions_share[], questions_host[], questions_cost[], questions_beside[], questions_bits[];

__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* Ends this process with NO, and says which call of the driver gave which error. */
__attribute__((noreturn)) void give_up(const char *call, int error);
#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        int must_err = drv.call;                                                                                       \
        if (must_err) give_up(#call, must_err);                                                                        \
    } while (0)
/* Opens the driver and the device's primary context in this process. */
void open_device(void);
int attribute(int which);
drv_function kernel(const char *name);
int launch_on(drv_stream stream, drv_function f, unsigned grid, unsigned block, void *args, size_t bytes);
#define LAUNCH(f, grid, block, args) launch_on(NULL, f, grid, block, &(args), sizeof(args))
extern const unsigned char probe_kernels[], probe_kernels_end[];

/* Memory made by cuMemCreate and mapped, with a descriptor of it where it was exported. */
typedef struct arena {
    drv_handle handle;
    drv_ptr address;
    size_t bytes;
} arena;
arena arena_make(size_t bytes);
int arena_export(const arena *a);
arena arena_import(int fd, size_t bytes, drv_ptr hint);
void arena_end(arena *a);
void fill(drv_ptr p, size_t bytes, uint64_t seed);
/* How many words differ from what fill() makes; the driver's error as a negative number. */
int64_t differing(drv_ptr p, size_t bytes, uint64_t seed);

/* An actor: a forked process that runs fn(its end of the socket pair). */
typedef struct actor {
    pid_t pid;
    int fd;
} actor;
actor actor_start(void (*fn)(int fd, void *arg), void *arg);
/* ... that is a new program image, with addresses of its own: it runs reserver(). */
actor actor_start_anew(void);
/* Its exit status; 128 + the signal that ended it. */
int actor_end(actor *a);
typedef struct word {
    uint64_t value[6];
} word;
void tell(int fd, word w, int passed_fd);
#define TELL(fd, ...) tell(fd, (word){{__VA_ARGS__}}, -1)
/* Ends this process with NO where the other end is gone. */
word hear(int fd, int *passed_fd);

void reserver(int fd);

double now_s(void);
double cpu_s(void);
double median(double *v, int n);
long resident_kib(pid_t pid);

#endif
