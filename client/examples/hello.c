/* A first program, in two processes: one fills shared memory and publishes it, the other opens it by its name and adds
 * to it, and the first goes on with the sum: computes in the daemon, and differentiates. */
#include <stdio.h>
#include <sys/wait.h>
#include <tensord.h>
#include <unistd.h>

static int failed(void) /* an error anywhere above surfaces at the call that needs the value */
{
    fprintf(stderr, "%s: %s: %s\n", td_last_error()->where, td_last_error()->op, td_last_error()->message);
    return 1;
}

static int other_process(const char *socket)
{
    td_client *c = td_connect(socket);
    td_array *x = td_open(c, "hello/x", 5000); /* the same bytes: waits until they are published */
    if (td_add_(x, 1) || td_sync(c)) return failed();
    td_release(x);
    td_disconnect(c);
    return 0;
}

int main(void)
{
    td_client *c = td_connect(NULL); /* the user's daemon, or a private one */
    td_scope scope;                  /* releases at its end what is made in it */
    td_scope_begin(&scope);

    td_lease *lease = td_lease_new(c, 6 * sizeof(float)); /* shared memory, to fill in place */
    float *at = td_lease_data(lease);
    for (int i = 0; at && i < 6; i++) at[i] = (float)i;
    td_array *x = td_put(lease, 0, TD_FLOAT32, td_dims(2, 3)); /* a tensor, without a copy or a round trip */
    if (td_publish(x, "hello/x", TD_REPLACE)) return failed();

    int status = 1;
    if (fork() == 0) _exit(other_process(td_socket_path(c)));
    if (wait(&status) < 0 || status) return 1;

    td_array *y = td_open(c, "hello/x", 0); /* what the other made of it: 1 2 3, 4 5 6 */
    td_array *w = td_full(c, td_dims(3), 0.5, TD_FLOAT32);
    td_set_requires_grad(w, true);
    td_array *loss = td_mean(td_square(td_sub(td_mv(y, w), 1))); /* sent as a stream, computed in the daemon */
    td_backward(loss);

    float g[3];
    if (td_read(td_grad(w), g, sizeof g) || td_drop(c, "hello/x")) return failed();
    printf("loss %g, gradient %g %g %g\n", td_item_f64(loss), g[0], g[1], g[2]); /* 23.125; 28 36.5 45 */

    td_lease_free(lease);
    td_scope_end(&scope);
    td_disconnect(c);
    return 0;
}
