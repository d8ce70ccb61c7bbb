/* Training a small network eagerly: 784-128-10, batches of 64, SGD; and what a backward of small ops costs beside its
 * forward. */
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

/* ---- train.small: h = tanh(h * w + b) * 0.5 + x, again and again ---- */

enum { ROUNDS = 40, TURNS = 20, OPS = 5 * ROUNDS };

struct chain {
    td_array *x, *w, *b;
    bool backward;
};

static void small(void *context)
{
    struct chain *c = context;
    for (int t = 0; t < TURNS; t++) {
        td_scope s;
        td_scope_begin(&s);
        td_array *h = c->x;
        for (int i = 0; i < ROUNDS; i++) h = td_add(td_mul(td_tanh(td_add(td_mul(h, c->w), c->b)), 0.5), c->x);
        td_array *loss = td_sum(h);
        if (c->backward) td_backward(loss);
        td_scope_end(&s);
    }
    bench_check(td_sync(td_client_of(c->x)) == 0, "small ops");
}

static void small_ops(td_client *c)
{
    struct chain k = {.x = td_randn(c, td_dims(8), TD_FLOAT32)};
    k.w = parameter(td_randn(c, td_dims(8), TD_FLOAT32));
    k.b = parameter(td_randn(c, td_dims(8), TD_FLOAT32));
    double forward = bench_median(small, &k);
    k.backward = true;
    double both = bench_median(small, &k);
    bench_ours("train.small", (both - forward) / (TURNS * OPS) * 1e6, "us", 1);
    bench_reference("train.small", forward / (TURNS * OPS) * 1e6,
                    "us an op: the forward of the same 200 ops of 8 floats");
    td_release(k.x), td_release(k.w), td_release(k.b);
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
    small_ops(c);
    td_disconnect(c);
    return 0;
}
