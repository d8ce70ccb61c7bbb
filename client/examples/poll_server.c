/* A server that waits in poll(2), in two processes. The server takes numbers from two queues and writes their squares
 * and their sums to a third, and never waits in a call of tensord's: it asks, polls one descriptor beside its own (here
 * a pipe from the client), and is told by callbacks. The other process is its client, and ends first. */
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <tensord.h>
#include <unistd.h>

enum { JOBS = 3 };

typedef struct service {
    bool squares;
    td_queue *jobs, *answers;
    int served;
} service;

static int failed(void)
{
    fprintf(stderr, "%s: %s: %s\n", td_last_error()->where, td_last_error()->op, td_last_error()->message);
    return 1;
}

static void answered(td_request *r, void *context)
{
    if (td_request_result(r)) failed();
    (void)context;
    td_request_free(r);
}

/* An item came: ask for the answer to be put, and for the next item. Both go with the next poll. */
static void came(td_request *r, void *context)
{
    service *s = context;
    td_queue_item item;
    td_scope scope;
    if (td_request_item(r, &item) == TD_OK) {
        td_scope_begin(&scope);
        /* computed in the daemon, later: nothing waits here */
        td_array *y = s->squares ? td_square(item.at[0]) : td_sum(item.at[0]);
        td_async_put(s->answers, td_arrays(y), item.note, item.note_size, -1, answered, NULL);
        td_async_get(s->jobs, -1, came, s);
        td_scope_end(&scope);
        td_queue_item_clear(&item);
        s->served++;
    } else if (td_last_error()->code != TD_E_CLOSED) { /* closed: its last producer has gone */
        failed();
    }
    td_request_free(r);
}

static int serve(td_client *c, int client)
{
    td_queue *answers = td_queue_open(c, "poll/answers", 16, TD_PRODUCER);
    service all[] = {{true, td_queue_open(c, "poll/square", 16, TD_CONSUMER), answers, 0},
                     {false, td_queue_open(c, "poll/sum", 16, TD_CONSUMER), answers, 0}};
    for (int i = 0; i < 2; i++)
        if (!td_async_get(all[i].jobs, -1, came, &all[i])) return failed();
    struct pollfd p[] = {{td_client_fd(c), POLLIN, 0}, {client, POLLIN, 0}}; /* and whatever else the program serves */
    while (!p[1].revents) {
        if (poll(p, 2, -1) < 0) return 1;
        if (p[0].revents && td_client_dispatch(c)) return failed();
    }
    printf("served %d squares and %d sums\n", all[0].served, all[1].served);
    for (int i = 0; i < 2; i++) td_queue_close(all[i].jobs, false);
    td_queue_close(answers, false);
    return 0;
}

static int ask(const char *socket)
{
    td_client *c = td_connect(socket);
    td_queue *jobs[] = {td_queue_open(c, "poll/square", 16, TD_PRODUCER),
                        td_queue_open(c, "poll/sum", 16, TD_PRODUCER)};
    td_queue *answers = td_queue_open(c, "poll/answers", 16, TD_CONSUMER);
    double total = 0;
    td_scope scope;
    td_scope_begin(&scope);
    for (int i = 0; i < 2 * JOBS; i++)
        if (td_queue_put(jobs[i % 2], td_arrays(td_full(c, td_dims(3), i, TD_FLOAT32)), NULL, 0, -1)) return failed();
    for (int i = 0; i < 2 * JOBS; i++) {
        td_queue_item item;
        if (td_queue_get(answers, &item, 10000)) return failed();
        total += td_item_f64(td_sum(item.at[0]));
        td_queue_item_clear(&item);
    }
    printf("the answers' total is %g\n", total); /* 3 * (0 + 4 + 16) + 3 * (1 + 3 + 5) */
    td_scope_end(&scope);
    for (int i = 0; i < 2; i++) td_queue_close(jobs[i], false);
    td_queue_close(answers, false);
    td_disconnect(c);
    return 0;
}

int main(void)
{
    int ends[2], status = 1;
    td_client *c = td_connect(NULL);
    if (!c || pipe(ends)) return failed();
    pid_t child = fork();
    if (child == 0) {
        status = ask(td_socket_path(c));
        fflush(stdout);
        _exit(status);
    }
    close(ends[1]); /* the client's alone: readable when that has ended */
    int rc = serve(c, ends[0]);
    if (waitpid(child, &status, 0) < 0 || status) rc = 1;
    td_disconnect(c);
    return rc;
}
