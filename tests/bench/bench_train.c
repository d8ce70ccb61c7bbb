/* Training a small network eagerly: 784-128-10, batches of 64, SGD. */
#include "tests/bench/bench.h"

#define STEPS 200

struct net {
    td_array *x, *y, *p[4];
};

static void steps(void *context)
{
    struct net *n = context;
    for (int i = 0; i < STEPS; i++) {
        td_scope s;
        td_array *grad[4];
        td_scope_begin(&s);
        td_array *h = td_relu(td_linear(n->x, n->p[0], n->p[1]));
        td_backward(td_cross_entropy(td_linear(h, n->p[2], n->p[3]), n->y));
        bool was = td_set_grad_enabled(false);
        bench_check(td_grads(td_arrays_of(4, n->p), grad) == 0, "gradients");
        for (int k = 0; k < 4; k++) td_sgd_step(n->p[k], grad[k], NULL, 0.01);
        td_zero_grad(td_arrays_of(4, n->p));
        td_set_grad_enabled(was);
        td_scope_end(&s);
    }
    bench_check(td_sync(td_client_of(n->x)) == 0, "training");
}

static td_array *parameter(td_array *a)
{
    bench_check(td_set_requires_grad(a, true) == 0, "parameter");
    return a;
}

int main(void)
{
    td_client *c = td_connect(NULL);
    bench_check(c != NULL, "connecting");
    struct net n = {.x = td_randn(c, td_dims(64, 784), TD_FLOAT32), .y = td_full(c, td_dims(64), 3, TD_INT64)};
    n.p[0] = parameter(td_mul(td_randn(c, td_dims(128, 784), TD_FLOAT32), 1 / sqrt(784)));
    n.p[1] = parameter(td_full(c, td_dims(128), 0, TD_FLOAT32));
    n.p[2] = parameter(td_mul(td_randn(c, td_dims(10, 128), TD_FLOAT32), 1 / sqrt(128)));
    n.p[3] = parameter(td_full(c, td_dims(10), 0, TD_FLOAT32));
    bench_ours("train.mlp", bench_median(steps, &n) / STEPS * 1e3, "ms", 0.5);
    for (int k = 0; k < 4; k++) td_release(n.p[k]);
    td_release(n.x);
    td_release(n.y);
    td_disconnect(c);
    return 0;
}
