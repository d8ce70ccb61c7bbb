/* A first program: fill shared memory, compute on it in the daemon, differentiate, publish. */
#include <stdio.h>
#include <tensord.h>

int main(void)
{
    td_client *c = td_connect(NULL); /* the user's daemon, or a private one */
    td_scope scope;                  /* releases at its end what is made in it */
    td_scope_begin(&scope);

    td_lease *lease = td_lease_new(c, 6 * sizeof(float)); /* shared memory, to fill in place */
    float *at = td_lease_data(lease);
    for (int i = 0; at && i < 6; i++) at[i] = (float)i;
    td_array *x = td_put(lease, 0, TD_FLOAT32, td_dims(2, 3)); /* a tensor, without a copy or a round trip */

    td_array *w = td_full(c, td_dims(3), 0.5, TD_FLOAT32);
    td_set_requires_grad(w, true);
    td_array *loss = td_mean(td_square(td_sub(td_mv(x, w), 1))); /* sent as a stream, computed in the daemon */
    td_backward(loss);

    float g[3]; /* an error anywhere above surfaces here */
    if (td_read(td_grad(w), g, sizeof g) || td_publish(w, "hello/w", TD_REPLACE)) {
        fprintf(stderr, "%s: %s\n", td_last_error()->where, td_last_error()->message);
        return 1;
    }
    printf("loss %g, gradient %g %g %g\n", td_item_f64(loss), g[0], g[1], g[2]); /* 12.625; 15 20.5 26 */

    td_lease_free(lease);
    td_scope_end(&scope);
    td_disconnect(c);
    return 0;
}
