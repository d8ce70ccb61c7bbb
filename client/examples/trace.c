/* A program made by tracing: a small network's loss is computed once, op by op, and recorded. From then on one message
 * runs all of it in the daemon, gradients flow through it, and the weights stay the tensors that they are. */
#include <stdio.h>
#include <stdlib.h>
#include <tensord.h>

enum { ROWS = 64, HIDDEN = 16, STEPS = 200 };

static int failed(void)
{
    fprintf(stderr, "%s: %s: %s\n", td_last_error()->where, td_last_error()->op, td_last_error()->message);
    return 1;
}

static td_array *weights(td_client *c, td_ints shape)
{
    td_array *w = td_mul(td_sub(td_rand(c, shape, TD_FLOAT32), 0.5), 2);
    td_set_requires_grad(w, true);
    return w;
}

static td_program *trace_loss(td_client *c, td_array *x, td_array *y, td_array *const w[4])
{
    td_trace *t = td_trace_begin(c, td_arrays(x, y)); /* its parameters; w is captured */
    td_array *hidden = td_tanh(td_linear(x, w[0], w[1]));
    td_array *loss = td_mean(td_square(td_sub(td_linear(hidden, w[2], w[3]), y)));
    return td_trace_end(t, td_arrays(loss));
}

static int step(td_program *p, td_array *x, td_array *y, td_list w, double *loss)
{
    td_scope scope;
    td_scope_begin(&scope);
    td_value out, in[] = {td_value_array(x), td_value_array(y)};
    if (td_program_call(p, 2, in, &out)) return failed();
    if (td_backward(out.array)) return failed();
    td_set_grad_enabled(false);
    for (int k = 0; k < w.n; k++) td_sub_(w.at[k], td_mul(td_grad(w.at[k]), 0.1));
    td_set_grad_enabled(true);
    *loss = td_item_f64(out.array);
    td_value_free(&out);
    td_scope_end(&scope);
    return td_zero_grad(w);
}

int main(void)
{
    td_client *c = td_connect(NULL);
    td_scope scope;
    td_scope_begin(&scope);
    td_seed(c, 1);
    td_array *w[] = {weights(c, td_dims(HIDDEN, 1)), weights(c, td_dims(HIDDEN)), weights(c, td_dims(1, HIDDEN)),
                     weights(c, td_dims(1))};
    td_array *x = td_reshape(td_linspace(c, -2, 2, ROWS, TD_FLOAT32), td_dims(ROWS, 1)), *y = td_sin(x);
    td_program *p = trace_loss(c, x, y, w);
    char *text = p ? td_program_print(p, TD_TEXT_IR) : NULL;
    if (!text) return failed();
    fputs(text, stdout); /* its ops: linear, tanh, linear, sub, square, mean */
    free(text);
    double first = 0, last = 0;
    for (int k = 0; k < STEPS; k++)
        if (step(p, x, y, td_arrays_of(4, w), k ? &last : &first)) return failed();
    printf("the loss fell to less than a tenth: %s\n", last < first / 10 ? "yes" : "no");
    td_program_free(p);
    td_scope_end(&scope);
    td_disconnect(c);
    return 0;
}
