/* Four processes and one sum.
 *
 * Each has a gradient of its own; all_reduce leaves the mean of all four in each of them. The numbers do not pass
 * through the daemon: the processes add them in memory that all have mapped.
 *
 *     hello_group            # rank 2 of 4: mean of 0.0, 1.0, 2.0, 3.0 is 1.5
 *     hello_group --kill     # rank 3 dies before it has come: the others are told which, and where it was
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tensord.h>
#include <unistd.h>

enum { RANKS = 4, COUNT = 1000 };

static int failed(void)
{
    fprintf(stderr, "%s: %s: %s\n", td_last_error()->where, td_last_error()->op, td_last_error()->message);
    return 1;
}

static int run_rank(const char *socket, int rank, bool dies)
{
    td_client *c = td_connect(socket);
    td_group *g = c ? td_group_open(c, "hello", RANKS, rank, 10000) : NULL;
    if (!g) return failed();
    float gradient[COUNT];
    for (int i = 0; i < COUNT; i++) gradient[i] = (float)rank;
    if (td_group_barrier(g, -1)) return failed();
    if (dies) raise(SIGKILL);
    if (td_group_all_reduce(g, gradient, gradient, TD_FLOAT32, COUNT, TD_MEAN, -1)) return failed();
    printf("rank %u of %u: mean of 0.0, 1.0, 2.0, 3.0 is %.1f\n", td_group_rank(g), td_group_size(g), gradient[0]);
    td_group_close(g);
    td_disconnect(c);
    return 0;
}

int main(int argc, char **argv)
{
    bool kill_one = argc > 1 && strcmp(argv[1], "--kill") == 0;
    td_client *c = td_connect(NULL); /* starts a daemon, unless one runs */
    if (!c) return failed();
    for (int rank = 0; rank < RANKS; rank++)
        if (fork() == 0) exit(run_rank(td_socket_path(c), rank, kill_one && rank == 3));
    int status, bad = 0;
    while (wait(&status) > 0) bad += status != 0;
    td_disconnect(c);
    return bad != (kill_one ? RANKS : 0);
}
