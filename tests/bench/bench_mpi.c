/* A group's all_reduce beside Open MPI's, and beside copying in, summing a slice each and copying out (what DeepSpeed
 * and gloo's shared memory do): in the same processes and in turns, from the last rank's entry to the last rank's
 * return, median.
 *
 *     bench_mpi [RANKS]
 *
 * It starts itself by mpirun, with 2, 4 and 8 ranks. Without Open MPI it forks the ranks, and these lines are skipped.
 * Ours is in a buffer of the group, or (plain) from a rank's own memory to its own memory, as the other ways are.
 * Inputs are written anew before each round, and all begin after a barrier of the group. */
#include "shm/board/combine.h"
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef TD_WITH_MPI
#include <mpi.h>
#endif

enum { RANKS = 8, ROUNDS = 600, TURNS = 5, BEGINNING = 3, SIZES = 4, LARGEST = 32 << 20 };
enum way { OURS, SHARED, MPI, COPIES, WAYS }; /* SHARED: in a buffer of the group */

static const struct {
    const char *name;
    size_t bytes;
    int rounds; /* of a turn */
    double goal;
} sizes[SIZES] = {
    {"4K", 4 << 10, 120, 0.5}, {"64K", 64 << 10, 80, 0.5}, {"1M", 1 << 20, 25, 0.4}, {"32M", LARGEST, 4, 0.25}};

/* What the ranks have in common. */
typedef struct common {
    uint64_t entered[SIZES][WAYS][ROUNDS][RANKS], left[SIZES][WAYS][ROUNDS][RANKS]; /* ns */
    _Alignas(4096) unsigned char inputs[RANKS][LARGEST], result[LARGEST];           /* of copies */
} common;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void must(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "bench_mpi: %s: %s\n", what, td_last_error()->message);
    exit(1);
}

/* ---- a rank */

static void copy_in_and_out(td_group *g, common *c, const float *in, float *out, size_t bytes)
{
    uint32_t rank = td_group_rank(g), size = td_group_size(g);
    size_t count = bytes / 4, slice = (count / size + 15) / 16 * 16, first = rank * slice;
    const void *parts[RANKS];
    if (first > count) first = count;
    memcpy(c->inputs[rank], in, bytes);
    must(!td_group_barrier(g, -1), "barrier");
    for (uint32_t k = 0; k < size; k++) parts[k] = (float *)(void *)c->inputs[k] + first;
    td_combine(TD_SUM, TD_FLOAT32, (float *)(void *)c->result + first, parts, size,
               count - first < slice ? count - first : slice);
    must(!td_group_barrier(g, -1), "barrier");
    memcpy(out, c->result, bytes);
}

static void sum(enum way way, td_group *g, td_group_buffer *b, common *c, const float *in, float *out, size_t bytes)
{
    if (way == SHARED) must(!td_buffer_all_reduce(b, 0, TD_FLOAT32, bytes / 4, TD_SUM, -1), "all_reduce");
    if (way == OURS) must(!td_group_all_reduce(g, in, out, TD_FLOAT32, bytes / 4, TD_SUM, -1), "all_reduce");
    if (way == COPIES) copy_in_and_out(g, c, in, out, bytes);
#ifdef TD_WITH_MPI
    if (way == MPI) MPI_Allreduce(in, out, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
#endif
}

static void take_turn(int size, enum way way, int turn, td_group *g, td_group_buffer *b, common *c, float *in,
                      float *out)
{
    if (way == SHARED) in = td_buffer_input(b);
    uint32_t rank = td_group_rank(g), ranks = td_group_size(g);
    size_t count = sizes[size].bytes / 4;
    for (int k = -BEGINNING; k < sizes[size].rounds; k++) {
        for (size_t i = 0; i < count; i++) in[i] = (float)((i + rank + (size_t)k) & 255);
        must(!td_group_barrier(g, -1), "barrier");
        uint64_t entered = now_ns();
        sum(way, g, b, c, in, out, sizes[size].bytes);
        uint64_t left = now_ns();
        must(!td_group_barrier(g, -1), "barrier"); /* or the others would wait for a processor that fills inputs */
        float expected = 0;
        for (uint32_t r = 0; r < ranks; r++) expected += (float)((count - 1 + r + (size_t)k) & 255);
        if (way == SHARED) out = td_buffer_result(b);
        if (out[count - 1] != expected) abort();
        if (k < 0) continue;
        c->entered[size][way][turn * sizes[size].rounds + k][rank] = entered;
        c->left[size][way][turn * sizes[size].rounds + k][rank] = left;
    }
}

static int be_rank(const char *socket, const char *memory, uint32_t ranks, int rank)
{
    int fd = open(memory, O_RDWR | O_CLOEXEC);
    common *c = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    float *in = malloc(LARGEST), *out = malloc(LARGEST);
    td_client *client = td_connect(socket);
    td_group *g = client ? td_group_open(client, "bench", ranks, rank, -1) : NULL;
    td_group_buffer *b = g ? td_group_buffer(g, LARGEST) : NULL;
    must(c != MAP_FAILED && in && out && b, "a rank has no group, or no buffer");
    for (int size = 0; size < SIZES; size++)
        for (int turn = 0; turn < TURNS; turn++)
            for (int way = 0; way < WAYS; way++) take_turn(size, (enum way)way, turn, g, b, c, in, out);
    td_buffer_free(b);
    td_group_close(g);
    td_disconnect(client);
    return 0;
}

/* ---- all of them */

#ifdef TD_WITH_MPI
static const bool with_mpi = true;

static void start(const char *self, const char *socket, const char *memory, uint32_t ranks)
{
    char n[16];
    snprintf(n, sizeof n, "%u", ranks);
    execlp("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", n, self, "rank",
           socket, memory, n, NULL);
    _exit(127);
}

static int rank_by_mpi(char **argv)
{
    int rank;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int rc = be_rank(argv[2], argv[3], (uint32_t)atoi(argv[4]), rank);
    MPI_Finalize();
    return rc;
}
#else
static const bool with_mpi = false;

static void start(const char *self, const char *socket, const char *memory, uint32_t ranks)
{
    (void)self;
    int bad = 0;
    for (uint32_t r = 0; r < ranks; r++)
        if (fork() == 0) _exit(be_rank(socket, memory, ranks, (int)r));
    for (int status; wait(&status) > 0;) bad |= status;
    _exit(bad != 0);
}

static int rank_by_mpi(char **argv)
{
    (void)argv;
    return 1;
}
#endif

/* Median us. */
static double took(const common *c, int size, enum way way, uint32_t ranks)
{
    double all[ROUNDS];
    int rounds = sizes[size].rounds * TURNS;
    for (int n = 0; n < rounds; n++) {
        uint64_t entered = 0, left = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            if (c->entered[size][way][n][r] > entered) entered = c->entered[size][way][n][r];
            if (c->left[size][way][n][r] > left) left = c->left[size][way][n][r];
        }
        all[n] = left > entered ? (double)(left - entered) / 1e3 : 0;
    }
    return bench_quantile(all, rounds, 0.5);
}

static void say_beside(const common *c, const char *what, int size, uint32_t ranks, enum way ours, enum way other,
                       double goal)
{
    char name[64];
    snprintf(name, sizeof name, "group.%s.%s.%u", what, sizes[size].name, ranks);
    if (other == MPI && !with_mpi) {
        printf("skip %s Open MPI was not there when this was built (libopenmpi-dev, openmpi-bin)\n", name);
        return;
    }
    bench_ours(name, took(c, size, ours, ranks), "us", goal);
    bench_reference(name, took(c, size, other, ranks), other == MPI ? "Open MPI" : "copy in, slices, copy out");
}

static void say(const common *c, uint32_t ranks)
{
    for (int size = 0; size < SIZES; size++) {
        say_beside(c, "mpi", size, ranks, SHARED, MPI, sizes[size].goal);
        say_beside(c, "copies", size, ranks, SHARED, COPIES, 0.6);
        say_beside(c, "plain", size, ranks, OURS, MPI, 0.6);
    }
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "rank")) return rank_by_mpi(argv);
    char self[4096] = "", memory[64];
    td_client *client = td_connect(NULL);
    int fd = memfd_create("bench_mpi", MFD_CLOEXEC);
    must(client && fd >= 0 && !ftruncate(fd, sizeof(common)) && readlink("/proc/self/exe", self, sizeof self - 1) > 0,
         "no daemon, or no memory");
    common *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(c != MAP_FAILED, "no memory");
    snprintf(memory, sizeof memory, "/proc/%d/fd/%d", (int)getpid(), fd);
    for (uint32_t ranks = 2; ranks <= RANKS; ranks *= 2) {
        if (argc > 1 && (uint32_t)atoi(argv[1]) != ranks) continue;
        int status;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) start(self, td_socket_path(client), memory, ranks);
        must(waitpid(pid, &status, 0) == pid && status == 0, "the ranks failed");
        say(c, ranks);
    }
    td_disconnect(client);
    return 0;
}
