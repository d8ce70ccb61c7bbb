/* The engine: what autograd must mean, one test a statement. Values are checked by hand-computed gradients; what is
 * kept alive by counts of tensors and nodes; refusals by their messages. */
#include "daemon/autograd/backward.h"
#include "tests/unit/grad_support.h"
#include <time.h>

#define RUN1(name, x) t_run(TD_OP_##name, 1, (td_tensor *[]){x}, NULL, TD_GRAD_ON, NULL)
#define RUN2(name, x, y) t_run(TD_OP_##name, 2, (td_tensor *[]){x, y}, NULL, TD_GRAD_ON, NULL)

static td_tensor *vec(int n, const double *v)
{
    int64_t shape[1] = {n};
    return t_new(TD_FLOAT64, 1, shape, v);
}

static td_tensor *leaf(int n, const double *v)
{
    td_tensor *t = vec(n, v);
    CU_ASSERT_EQUAL(td_set_requires_grad(t, true, NULL), 0);
    return t;
}

static td_tensor *three(void)
{
    return leaf(3, (double[]){1, 2, 3});
}

static void drop(td_tensor *t)
{
    td_tensor_unref(t);
}

static bool equals(const td_tensor *t, int n, const double *v)
{
    if (!t || td_desc_numel(&t->desc) != n) return false;
    for (int k = 0; k < n; k++)
        if (fabs(t_real(t, k) - v[k]) > 1e-12) {
            printf("element %d is %g, not %g\n", k, t_real(t, k), v[k]);
            return false;
        }
    return true;
}

/* x op number */
static int number_op(unsigned id, td_tensor *x, td_scalar s, td_grad_mode mode, td_tensor *into, td_tensor **out,
                     td_error *e)
{
    td_input in[2] = {td_in(x), td_in_number(s)};
    td_tensor *made[64] = {0};
    int n;
    int err = t_try(td_op_by_id(id), 2, in, NULL, mode, into, made, &n, e);
    if (out) *out = made[0];
    return err;
}

static td_tensor *number(unsigned id, td_tensor *x, double s)
{
    td_tensor *out;
    td_error e = {0};
    CU_ASSERT_EQUAL_FATAL(number_op(id, x, td_float(s), TD_GRAD_ON, NULL, &out, &e), 0);
    return out;
}

static int inplace(unsigned id, td_tensor *x, double s, td_grad_mode mode, td_error *e)
{
    return number_op(id, x, td_float(s), mode, x, NULL, e);
}

static int inplace2(unsigned id, td_tensor *x, td_tensor *y, td_error *e)
{
    td_input in[2] = {td_in(x), td_in(y)};
    td_tensor *out[64];
    int n;
    return t_try(td_op_by_id(id), 2, in, NULL, TD_GRAD_ON, x, out, &n, e);
}

static td_tensor *select_of(td_tensor *x, int64_t dim, int64_t index, td_grad_mode mode)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, dim);
    td_attrs_int(&a, index);
    return t_run(TD_OP_SELECT, 1, &x, &a, mode, NULL);
}

/* backward with weights of ones */
static int backward(td_tensor *root, uint32_t flags, td_error *e)
{
    td_tensor *ones = NULL, *grads[1] = {NULL};
    if (td_desc_numel(&root->desc) != 1) {
        td_attrs a;
        td_attrs_init(&a);
        td_attrs_ints(&a, root->desc.ndim, root->desc.shape);
        td_attrs_scalar(&a, td_int(1));
        td_attrs_dtype(&a, (td_dtype)root->desc.dtype);
        grads[0] = ones = t_run(TD_OP_FULL, 0, NULL, &a, TD_GRAD_ON, NULL);
    }
    int err = t_backward(1, &root, grads, 0, NULL, NULL, flags | TD_BW_ACCUMULATE, e);
    td_tensor_unref(ones);
    return err;
}

static void expect_backward(td_tensor *root, uint32_t flags)
{
    td_error e = {0};
    int err = backward(root, flags, &e);
    if (err) printf("%s: %s\n", e.op, e.message);
    CU_ASSERT_EQUAL(err, 0);
}

static bool says(const td_error *e, int code, const char *text)
{
    bool ok = e->code == code && strstr(e->message, text);
    if (!ok) printf("code %d: %s\n", e->code, e->message);
    return ok;
}

/* ---- leaves, modes */

static void leaves(void)
{
    td_error e = {0};
    td_tensor *i = t_new(TD_INT64, 1, (int64_t[]){2}, (double[]){1, 2}), *x = three();
    CU_ASSERT(td_is_leaf(x) && td_requires_grad(x) && !td_grad_fn(x));
    CU_ASSERT_EQUAL(td_set_requires_grad(i, true, &e), TD_E_TYPE);
    CU_ASSERT(says(&e, TD_E_TYPE, "only tensors of floating point and complex dtype can require gradients"));
    e.code = 0;
    CU_ASSERT(inplace(TD_OP_ADD, x, 1, TD_GRAD_ON, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "a leaf Variable that requires grad is being used in an in-place operation."));
    CU_ASSERT_EQUAL(inplace(TD_OP_ADD, x, 1, TD_GRAD_OFF, &e), 0);
    CU_ASSERT(equals(x, 3, (double[]){2, 3, 4}));
    td_tensor *y = number(TD_OP_MUL, x, 2);
    CU_ASSERT(!td_is_leaf(y) && td_requires_grad(y));
    CU_ASSERT_STRING_EQUAL(td_grad_fn(y), "mul");
    CU_ASSERT(td_set_requires_grad(y, false, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "you can only change requires_grad flags of leaf variables"));
    drop(i), drop(x), drop(y);
}

static void grad_modes(void)
{
    td_error e = {0};
    td_tensor *x = three(), *y, *z;
    CU_ASSERT_EQUAL(number_op(TD_OP_MUL, x, td_int(2), TD_GRAD_OFF, NULL, &y, &e), 0);
    CU_ASSERT(!td_requires_grad(y));
    CU_ASSERT_EQUAL(number_op(TD_OP_MUL, x, td_int(2), TD_GRAD_INFERENCE, NULL, &z, &e), 0);
    CU_ASSERT(!td_requires_grad(z));
    td_input in[2] = {td_in(x), td_in(z)};
    td_tensor *out[64];
    int n;
    CU_ASSERT(t_try(td_op_by_id(TD_OP_MUL), 2, in, NULL, TD_GRAD_ON, NULL, out, &n, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "inference tensors cannot be saved for backward"));
    CU_ASSERT(inplace(TD_OP_ADD, z, 1, TD_GRAD_ON, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "inplace update to an inference tensor"));
    td_tensor *c = RUN2(EQ, x, x);
    CU_ASSERT(!td_requires_grad(c));
    drop(x), drop(y), drop(z), drop(c);
}

/* ---- versions */

static void versions(void)
{
    td_error e = {0};
    td_tensor *x = three(), *m = vec(3, (double[]){4, 5, 6}), *y = RUN2(MUL, x, m);
    CU_ASSERT_EQUAL(inplace(TD_OP_ADD, m, 1, TD_GRAD_ON, &e), 0);
    CU_ASSERT(backward(y, 0, &e) != 0);
    CU_ASSERT(says(&e, TD_E_VERSION, "[float64[3]], a leaf and saved by 'mul', is at version 1; expected version 0"));
    CU_ASSERT(strstr(e.message, "changed by 'add' of session 3 (pid 77)") != NULL);
    CU_ASSERT_PTR_NULL(td_grad(x, 0));
    /* exp saves its output; writing that is seen too. */
    td_tensor *z = RUN1(EXP, x);
    CU_ASSERT_EQUAL(inplace(TD_OP_MUL, z, 2, TD_GRAD_ON, &e), 0);
    CU_ASSERT(backward(z, 0, &e) != 0);
    CU_ASSERT(says(&e, TD_E_VERSION, "made by 'exp' and saved by 'exp', is at version 1; expected version 0"));
    /* A save that is not unpacked does not complain: add saved nothing. */
    td_tensor *a = RUN2(ADD, x, m);
    CU_ASSERT_EQUAL(inplace(TD_OP_ADD, m, 1, TD_GRAD_ON, &e), 0);
    expect_backward(a, 0);
    /* Nor does one that only an unwanted gradient needs: w's needs x, x's needs w. */
    td_tensor *w = three(), *h = number(TD_OP_ADD, x, 0), *b = RUN2(MUL, h, w), *g, *ones = vec(3, (double[]){1, 1, 1});
    CU_ASSERT_EQUAL(inplace2(TD_OP_ADD, h, b, &e), 0);
    CU_ASSERT_EQUAL(t_backward(1, &b, &ones, 1, &x, &g, TD_BW_RETAIN, &e), 0);
    CU_ASSERT(equals(g, 3, (double[]){1, 2, 3}));
    drop(g);
    CU_ASSERT(t_backward(1, &b, &ones, 1, &w, &g, TD_BW_RETAIN, &e) != 0);
    CU_ASSERT(says(&e, TD_E_VERSION, "made by 'add' and saved by 'mul', is at version 1; expected version 0"));
    drop(w), drop(h), drop(b), drop(ones);
    drop(x), drop(m), drop(y), drop(z), drop(a);
}

static void detach_shares_versions(void)
{
    td_error e = {0};
    td_tensor *x = three(), *y = RUN1(EXP, x), *d = RUN1(DETACH, y);
    CU_ASSERT(!td_requires_grad(d) && d->version == y->version);
    CU_ASSERT_EQUAL(inplace(TD_OP_ADD, d, 1, TD_GRAD_ON, &e), 0);
    CU_ASSERT(backward(y, 0, &e) != 0);
    CU_ASSERT_EQUAL(e.code, TD_E_VERSION);
    drop(x), drop(y), drop(d);
}

/* ---- backward */

static void second_backward(void)
{
    td_error e = {0};
    td_tensor *x = three(), *y = number(TD_OP_MUL, x, 2);
    expect_backward(y, TD_BW_RETAIN);
    expect_backward(y, 0);
    CU_ASSERT(equals(td_grad(x, 0), 3, (double[]){4, 4, 4}));
    CU_ASSERT(backward(y, 0, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "Trying to backward through the graph a second time"));
    td_tensor *z = number(TD_OP_ADD, x, 2); /* saved nothing: never complains */
    expect_backward(z, 0);
    expect_backward(z, 0);
    CU_ASSERT(equals(td_grad(x, 0), 3, (double[]){6, 6, 6}));
    drop(x), drop(y), drop(z);
}

static void higher_orders(void)
{
    td_error e = {0};
    td_tensor *x = leaf(1, (double[]){2}), *y = number(TD_OP_POW, x, 4), *g = NULL;
    const double want[4] = {32, 48, 48, 24};
    for (int order = 0; order < 4; order++) {
        CU_ASSERT_EQUAL_FATAL(t_backward(1, &y, NULL, 1, &x, &g, TD_BW_CREATE_GRAPH, &e), 0);
        CU_ASSERT_DOUBLE_EQUAL(t_real(g, 0), want[order], 1e-9);
        drop(y);
        y = g;
    }
    CU_ASSERT_PTR_NULL(td_grad(x, 0));
    drop(x), drop(y);
}

static void accumulation(void)
{
    td_tensor *x = three(), *y = number(TD_OP_MUL, x, 2);
    expect_backward(y, TD_BW_RETAIN);
    td_tensor *first = td_grad(x, 0);
    uint64_t tensors = td_live_counts().tensors;
    expect_backward(y, TD_BW_RETAIN);
    CU_ASSERT_PTR_EQUAL(td_grad(x, 0), first); /* added in place */
    CU_ASSERT_EQUAL(td_live_counts().tensors, tensors);
    expect_backward(y, TD_BW_CREATE_GRAPH);
    CU_ASSERT_PTR_NOT_EQUAL(td_grad(x, 0), first); /* out of place: its history must stay */
    CU_ASSERT(equals(td_grad(x, 0), 3, (double[]){6, 6, 6}));
    td_set_grad(x, 0, NULL, NULL);
    drop(x), drop(y);
}

static void gradients_are_not_shared(void)
{
    /* x + y hands the same gradient to both. */
    td_tensor *x = three(), *y = three(), *z = RUN2(ADD, x, y);
    expect_backward(z, 0);
    CU_ASSERT_PTR_NOT_EQUAL(td_grad(x, 0)->storage, td_grad(y, 0)->storage);
    /* Nor is the caller's own. */
    td_tensor *w = three(), *v = number(TD_OP_ADD, w, 1), *g = vec(3, (double[]){1, 1, 1});
    td_error e = {0};
    CU_ASSERT_EQUAL(t_backward(1, &v, &g, 0, NULL, NULL, TD_BW_ACCUMULATE | TD_BW_RETAIN, &e), 0);
    CU_ASSERT_PTR_NOT_EQUAL(td_grad(w, 0)->storage, g->storage);
    CU_ASSERT_EQUAL(t_backward(1, &v, &g, 0, NULL, NULL, TD_BW_ACCUMULATE, &e), 0);
    CU_ASSERT(equals(g, 3, (double[]){1, 1, 1}));
    CU_ASSERT(equals(td_grad(w, 0), 3, (double[]){2, 2, 2}));
    drop(x), drop(y), drop(z), drop(w), drop(v), drop(g);
}

static void fan_in(void)
{
    /* y = x*x + x + x: four ways to x. */
    td_tensor *x = three(), *a = RUN2(MUL, x, x), *b = RUN2(ADD, a, x), *c = RUN2(ADD, b, x);
    expect_backward(c, 0);
    CU_ASSERT(equals(td_grad(x, 0), 3, (double[]){4, 6, 8}));
    drop(x), drop(a), drop(b), drop(c);
}

/* Up to the point where something would be computed. */
static int plan(td_backward *b, td_error *e)
{
    int err = 0;
    for (int64_t steps = 1; b->stage < TD_BS_SEED && !err; steps = 1) err = td_backward_walk(b, &steps, e);
    return err;
}

static void root_checks(void)
{
    td_error e = {0};
    td_tensor *x = three(), *y = number(TD_OP_MUL, x, 2), *z = vec(2, (double[]){1, 1}), *p = vec(3, NULL);
    td_backward *b;
    CU_ASSERT(td_backward_new(&b, &t_who, 1, &y, NULL, 0, NULL, TD_BW_ACCUMULATE, 0, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "grad can be implicitly created only for scalar outputs"));
    CU_ASSERT(td_backward_new(&b, &t_who, 1, &y, &z, 0, NULL, TD_BW_ACCUMULATE, 0, &e) != 0);
    CU_ASSERT(
        says(&e, TD_E_SHAPE, "Mismatch in shape: grad_output[0] has a shape of [2] and output[0] has a shape of [3]"));
    CU_ASSERT(td_backward_new(&b, &t_who, 1, &p, &p, 0, NULL, TD_BW_ACCUMULATE, 0, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "element 0 of tensors does not require grad and does not have a grad_fn"));
    CU_ASSERT_PTR_NULL(b);
    drop(x), drop(y), drop(z), drop(p);
}

static void dtypes_are_cast(void)
{
    td_tensor *x = t_new(TD_FLOAT32, 1, (int64_t[]){2}, (double[]){1, 2}), *m = vec(2, (double[]){3, 4});
    td_set_requires_grad(x, true, NULL);
    td_tensor *y = RUN2(MUL, x, m);
    CU_ASSERT_EQUAL(y->desc.dtype, TD_FLOAT64);
    expect_backward(y, 0);
    CU_ASSERT_EQUAL(td_grad(x, 0)->desc.dtype, TD_FLOAT32);
    CU_ASSERT(equals(td_grad(x, 0), 2, (double[]){3, 4}));
    drop(x), drop(y), drop(m);
}

static void undefined_stays_undefined(void)
{
    td_tensor *x = three(), *y = three(), *z = number(TD_OP_MUL, x, 2);
    expect_backward(z, 0);
    CU_ASSERT_PTR_NULL(td_grad(y, 0));
    CU_ASSERT(td_grad(x, 0) != NULL);
    drop(x), drop(y), drop(z);
}

static void only_what_is_needed(void)
{
    td_error e = {0};
    td_tensor *x = three(), *w = three(), *h = RUN2(MUL, x, w), *y = RUN1(EXP, h), *g[2] = {0}, *in[2] = {h, w};
    unsigned long before = t_ops;
    CU_ASSERT_EQUAL(t_backward(1, (td_tensor *[]){y}, (td_tensor *[]){x}, 1, in, g, TD_BW_RETAIN, &e), 0);
    CU_ASSERT_EQUAL(t_ops - before, 1); /* g*out: mul's own gradients were not computed */
    drop(g[0]);
    CU_ASSERT_EQUAL(t_backward(1, (td_tensor *[]){y}, (td_tensor *[]){x}, 2, in, g, 0, &e), 0);
    CU_ASSERT_PTR_NULL(td_grad(w, 0));
    CU_ASSERT(equals(g[1], 3, (double[]){1 * M_E * 1, 2 * exp(4) * 2, 3 * exp(9) * 3}));
    drop(g[0]), drop(g[1]);
    td_tensor *unused = three();
    drop(y);
    y = number(TD_OP_MUL, x, 2);
    td_backward *b;
    CU_ASSERT_EQUAL(td_backward_new(&b, &t_who, 1, &y, &x, 1, &unused, 0, 0, &e), 0);
    CU_ASSERT(plan(b, &e) != 0);
    td_backward_free(b);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "appears to not have been used in the graph"));
    CU_ASSERT_EQUAL(t_backward(1, &y, &x, 1, &unused, g, TD_BW_ALLOW_UNUSED, &e), 0);
    CU_ASSERT_PTR_NULL(g[0]);
    drop(x), drop(w), drop(h), drop(y), drop(unused);
}

/* In turns, in whatever order tensors and their gradients came and went. */
static void a_scope_ends(void)
{
    td_error e = {0};
    td_tensor *t[5], *g = vec(3, (double[]){1, 2, 3});
    for (int i = 0; i < 5; i++) {
        t[i] = three();
        CU_ASSERT_EQUAL(td_set_grad(t[i], 9, g, &e), 0);
        CU_ASSERT_EQUAL(td_set_grad(t[i], (uint32_t)i % 2, g, &e), 0);
    }
    drop(t[2]);
    td_grad_drop_scope(t[4], 9);
    CU_ASSERT_EQUAL(td_set_grad(t[4], 9, g, &e), 0);
    CU_ASSERT_FALSE(td_grad_scope_end(9, 2));
    CU_ASSERT_EQUAL((td_grad(t[0], 9) != NULL) + (td_grad(t[1], 9) != NULL) + (td_grad(t[3], 9) != NULL) +
                        (td_grad(t[4], 9) != NULL),
                    2);
    CU_ASSERT_TRUE(td_grad_scope_end(9, 2));
    CU_ASSERT_TRUE(td_grad_scope_end(9, 2));
    CU_ASSERT_TRUE(td_grad_scope_end(0, 2)); /* of no session */
    for (int i = 0; i < 5; i++) {
        if (i == 2) continue;
        CU_ASSERT_PTR_NULL(td_grad(t[i], 9));
        CU_ASSERT_PTR_EQUAL(td_grad(t[i], (uint32_t)i % 2), g);
        drop(t[i]);
    }
    CU_ASSERT_TRUE(td_grad_scope_end(1, 0)); /* went with their tensors */
    drop(g);
}

static void retained_and_scoped(void)
{
    td_error e = {0};
    td_tensor *x = three(), *h = number(TD_OP_MUL, x, 2), *y = number(TD_OP_MUL, h, 3),
              *ones = vec(3, (double[]){1, 1, 1});
    td_backward *b;
    bool done;
    CU_ASSERT_EQUAL(td_retain_grad(h, &e), 0);
    CU_ASSERT_EQUAL(td_backward_new(&b, &t_who, 1, &y, &ones, 0, NULL, TD_BW_ACCUMULATE | TD_BW_RETAIN, 9, &e), 0);
    CU_ASSERT_EQUAL(td_backward_step(b, 100, &done, NULL, &e), 0);
    CU_ASSERT(done);
    td_backward_free(b);
    CU_ASSERT_PTR_NULL(td_grad(x, 0));
    CU_ASSERT(equals(td_grad(x, 9), 3, (double[]){6, 6, 6}));
    CU_ASSERT(equals(td_grad(h, 9), 3, (double[]){3, 3, 3}));
    td_grad_drop_scope(x, 9);
    CU_ASSERT_PTR_NULL(td_grad(x, 9));
    /* It follows the new value. */
    CU_ASSERT_EQUAL(inplace(TD_OP_MUL, h, 5, TD_GRAD_ON, &e), 0);
    td_tensor *z = number(TD_OP_MUL, h, 7);
    td_set_grad(h, 0, NULL, NULL);
    expect_backward(z, 0);
    CU_ASSERT(equals(td_grad(h, 0), 3, (double[]){7, 7, 7}));
    CU_ASSERT(equals(td_grad(x, 0), 3, (double[]){70, 70, 70}));
    drop(x), drop(h), drop(y), drop(z), drop(ones);
}

/* ---- several at once, several sessions */

static void ten_at_once(void)
{
    td_error e = {0};
    td_issuer other = t_who;
    other.session = 8;
    td_tensor *x = three(), *y = number(TD_OP_MUL, x, 2), *z = RUN2(MUL, y, x), *ones = vec(3, (double[]){1, 1, 1});
    td_backward *b[10];
    bool done[10] = {0};
    for (int k = 0; k < 10; k++)
        CU_ASSERT_EQUAL(td_backward_new(&b[k], k % 2 ? &other : &t_who, 1, &z, &ones, 0, NULL,
                                        TD_BW_ACCUMULATE | TD_BW_RETAIN, 0, &e),
                        0);
    for (int turn = 0; turn < 10; turn++)
        for (int k = 0; k < 10; k++) CU_ASSERT_EQUAL(td_backward_step(b[k], 1, &done[k], NULL, &e), 0);
    for (int k = 0; k < 10; k++) {
        CU_ASSERT(done[k]);
        td_backward_free(b[k]);
    }
    CU_ASSERT(equals(td_grad(x, 0), 3, (double[]){40, 80, 120}));
    drop(x), drop(y), drop(z), drop(ones);
}

static void failure_leaves_nothing(void)
{
    td_error e = {0};
    td_tensor *x = three(), *w = three(), *h = RUN2(MUL, x, w), *y = RUN1(EXP, h), *ones = vec(3, (double[]){1, 1, 1});
    td_backward *b;
    bool done;
    CU_ASSERT_EQUAL(td_backward_new(&b, &t_who, 1, &y, &ones, 0, NULL, TD_BW_ACCUMULATE, 0, &e), 0);
    CU_ASSERT_EQUAL(plan(b, &e), 0);
    CU_ASSERT_EQUAL(y->storage->pinned, 1);
    uint64_t limit = t_who.account->limit_objects;
    t_who.account->limit_objects = t_who.account->objects; /* nothing more may be made */
    CU_ASSERT(td_backward_step(b, 100, &done, NULL, &e) != 0);
    CU_ASSERT(!done);
    t_who.account->limit_objects = limit;
    td_backward_free(b);
    CU_ASSERT_PTR_NULL(td_grad(x, 0));
    CU_ASSERT_PTR_NULL(td_grad(w, 0));
    CU_ASSERT_EQUAL(y->storage->pinned, 0);
    drop(x), drop(w), drop(h), drop(y), drop(ones);
}

/* A leaf that can have no gradient more: the others, before it and after it, have got none. */
static void all_leaves_or_none(void)
{
    enum { LEAVES = 5, FULL = 2, SCOPE = 5000, MOST = 1024 };
    td_error e = {0};
    td_tensor *x[LEAVES], *ones = vec(3, (double[]){1, 1, 1}), *y = NULL;
    for (int i = 0; i < LEAVES; i++) {
        x[i] = three();
        td_tensor *sum = y ? RUN2(ADD, y, x[i]) : RUN1(EXP, x[i]);
        if (y) drop(y);
        y = sum;
    }
    td_set_grad(x[1], SCOPE, ones, NULL); /* this one has something to add to */
    for (uint32_t scope = 1; scope <= MOST; scope++) CU_ASSERT_EQUAL(td_set_grad(x[FULL], scope, ones, &e), 0);
    for (int full = 1; full >= 0; full--) {
        td_backward *b;
        bool done = false;
        if (!full) td_grad_drop_scope(x[FULL], 1);
        CU_ASSERT_EQUAL(td_backward_new(&b, &t_who, 1, &y, &ones, 0, NULL, TD_BW_ACCUMULATE | TD_BW_RETAIN, SCOPE, &e),
                        0);
        int err = td_backward_step(b, 1000, &done, NULL, &e);
        CU_ASSERT_EQUAL(err, full ? TD_E_QUOTA : 0);
        CU_ASSERT_EQUAL(done, !full);
        td_backward_free(b);
        for (int i = 0; i < LEAVES; i++)
            if (i != 1) CU_ASSERT_EQUAL(td_grad(x[i], SCOPE) == NULL, full);
        CU_ASSERT(equals(td_grad(x[1], SCOPE), 3, full ? (double[]){1, 1, 1} : (double[]){2, 2, 2}));
    }
    for (int i = 0; i < LEAVES; i++) drop(x[i]);
    drop(y), drop(ones);
}

/* No room for the node: nothing was written, and nothing says that it was. */
static void refused_in_place_moves_nothing(void)
{
    td_error e = {0};
    td_tensor *x = three(), *y = number(TD_OP_MUL, x, 2);
    uint64_t limit = t_who.account->limit_objects;
    for (int spare = 0; spare < 2; spare++) { /* not even for the smallest */
        t_who.account->limit_objects = t_who.account->objects + (uint64_t)spare;
        e = (td_error){0};
        CU_ASSERT(inplace2(TD_OP_ADD, y, x, &e) != 0);
        CU_ASSERT_EQUAL(e.code, TD_E_QUOTA);
        CU_ASSERT_EQUAL(y->version->value, 0);
        CU_ASSERT(equals(y, 3, (double[]){2, 4, 6}));
    }
    t_who.account->limit_objects = limit;
    CU_ASSERT_EQUAL(inplace2(TD_OP_ADD, y, x, &e), 0);
    CU_ASSERT_EQUAL(y->version->value, 1);
    expect_backward(y, 0);
    CU_ASSERT(equals(td_grad(x, 0), 3, (double[]){3, 3, 3}));
    drop(x), drop(y);
}

static void anomaly_names_the_op(void)
{
    td_error e = {0};
    snprintf(t_who.where, sizeof t_who.where, "model.c:12");
    td_tensor *x = leaf(2, (double[]){-1, 4}), *y = RUN1(SQRT, x);
    snprintf(t_who.where, sizeof t_who.where, "model.c:13");
    td_tensor *z = number(TD_OP_MUL, y, 2);
    CU_ASSERT(backward(z, TD_BW_RETAIN | TD_BW_ANOMALY, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD,
                   "the gradient of 'sqrt' gave nan values for its input 'x'; it was called at model.c:12"));
    CU_ASSERT_STRING_EQUAL(e.where, "model.c:12");
    CU_ASSERT_PTR_NULL(td_grad(x, 0));
    expect_backward(z, TD_BW_RETAIN); /* without it a NaN is a number like any other */
    CU_ASSERT(isnan(t_real(td_grad(x, 0), 0)) && t_real(td_grad(x, 0), 1) == 0.5);
    t_who.where[0] = 0;
    td_tensor *w = leaf(1, (double[]){0}), *i = RUN1(LOG, w); /* inf is no anomaly */
    expect_backward(i, TD_BW_ANOMALY);
    CU_ASSERT(isinf(t_real(td_grad(w, 0), 0)));
    drop(x), drop(y), drop(z), drop(w), drop(i);
}

static void written_between_turns(void)
{
    td_error e = {0};
    td_tensor *x = three(), *m = vec(3, (double[]){1, 2, 3}), *y = RUN2(MUL, x, m), *z = number(TD_OP_ADD, y, 1),
              *ones = vec(3, (double[]){1, 1, 1});
    td_backward *b;
    bool done;
    CU_ASSERT_EQUAL(td_backward_new(&b, &t_who, 1, &z, &ones, 0, NULL, TD_BW_ACCUMULATE, 0, &e), 0);
    CU_ASSERT_EQUAL(plan(b, &e), 0);
    CU_ASSERT_EQUAL(td_backward_step(b, 1, &done, NULL, &e), 0);
    CU_ASSERT(!done);
    CU_ASSERT_EQUAL(inplace(TD_OP_ADD, m, 1, TD_GRAD_ON, &e), 0); /* somebody who does not mind the pin */
    CU_ASSERT(td_backward_step(b, 9, &done, NULL, &e) != 0);
    CU_ASSERT(says(&e, TD_E_VERSION, "saved by 'mul', is at version 1; expected version 0"));
    CU_ASSERT(!done && !td_grad(x, 0));
    td_backward_free(b);
    drop(x), drop(m), drop(y), drop(z), drop(ones);
}

/* ---- in place */

static void inplace_takes_over_history(void)
{
    td_error e = {0};
    td_tensor *x = three(), *w = three(), *y = number(TD_OP_MUL, x, 2);
    CU_ASSERT_EQUAL(inplace2(TD_OP_MUL, y, w, &e), 0); /* needs y's old value: a copy is kept */
    CU_ASSERT_EQUAL(inplace(TD_OP_ADD, y, 1, TD_GRAD_ON, &e), 0);
    CU_ASSERT_STRING_EQUAL(td_grad_fn(y), "add");
    expect_backward(y, 0);
    CU_ASSERT(equals(td_grad(x, 0), 3, (double[]){2, 4, 6}));
    CU_ASSERT(equals(td_grad(w, 0), 3, (double[]){2, 4, 6}));
    /* A tensor that needed no gradient gets one. */
    td_tensor *b = vec(3, (double[]){1, 1, 1});
    CU_ASSERT_EQUAL(inplace2(TD_OP_MUL, b, w, &e), 0);
    CU_ASSERT(td_requires_grad(b) && !td_is_leaf(b));
    expect_backward(b, 0);
    CU_ASSERT(equals(td_grad(w, 0), 3, (double[]){3, 5, 7}));
    drop(x), drop(w), drop(y), drop(b);
}

/* Gradients of views by their geometry count places. */
static bool lacks_arange(void)
{
    if (td_cpu_plans[TD_OP_ARANGE]) return false;
    td_test_skip("there is no kernel of arange");
    return true;
}

static void inplace_on_a_view(void)
{
    if (lacks_arange()) return;
    td_error e = {0};
    /* base = 2x as [2,2]; base[0] *= w; out = base*base */
    td_tensor *x = t_new(TD_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4}), *w = leaf(2, (double[]){5, 6});
    td_set_requires_grad(x, true, NULL);
    td_tensor *base = number(TD_OP_MUL, x, 2), *row = select_of(base, 0, 0, TD_GRAD_ON),
              *col = select_of(base, 1, 1, TD_GRAD_ON);
    CU_ASSERT_PTR_EQUAL(row->view_base, base);
    CU_ASSERT_EQUAL(inplace2(TD_OP_MUL, row, w, &e), 0);
    CU_ASSERT_STRING_EQUAL(td_grad_fn(base), "mul");
    CU_ASSERT_STRING_EQUAL(td_grad_fn(row), "as_strided");
    CU_ASSERT_STRING_EQUAL(td_grad_fn(col), "as_strided"); /* the sibling follows when asked */
    td_tensor *out = RUN2(MUL, base, base);
    expect_backward(out, TD_BW_RETAIN);
    /* base = [[10,24],[6,8]]; d out/d base = 2*base; dx = 2*base*[[2w],[2]] */
    CU_ASSERT(equals(td_grad(x, 0), 4, (double[]){200, 576, 24, 32}));
    CU_ASSERT(equals(td_grad(w, 0), 2, (double[]){20 * 2, 48 * 4}));
    /* Through the sibling: col = [24, 8]. */
    td_set_grad(x, 0, NULL, NULL), td_set_grad(w, 0, NULL, NULL);
    td_tensor *c = number(TD_OP_MUL, col, 3);
    expect_backward(c, TD_BW_RETAIN);
    CU_ASSERT(equals(td_grad(x, 0), 4, (double[]){0, 36, 0, 6}));
    CU_ASSERT(equals(td_grad(w, 0), 2, (double[]){0, 12}));
    drop(x), drop(w), drop(base), drop(row), drop(col), drop(out), drop(c);
}

static void inplace_on_a_view_of_nothing(void)
{
    if (lacks_arange()) return;
    /* The base becomes requires_grad if it was not; copy_ into a view; and once more, to second order. */
    td_error e = {0};
    td_tensor *w = leaf(2, (double[]){3, 4}), *base = t_new(TD_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){1, 1, 1, 1});
    td_tensor *row = select_of(base, 0, 1, TD_GRAD_ON), *sq = RUN2(MUL, w, w), *none[64];
    int n;
    td_input src[1] = {td_in(sq)};
    CU_ASSERT(!td_requires_grad(base));
    CU_ASSERT_EQUAL(t_try(td_op_by_id(TD_OP_COPY), 1, src, NULL, TD_GRAD_ON, row, none, &n, &e), 0);
    CU_ASSERT(td_requires_grad(base) && td_requires_grad(row));
    td_tensor *out = RUN2(MUL, base, base), *ones = t_new(TD_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){1, 1, 1, 1}), *g,
              *gg;
    CU_ASSERT_EQUAL_FATAL(t_backward(1, &out, &ones, 1, &w, &g, TD_BW_CREATE_GRAPH, &e), 0);
    CU_ASSERT(equals(g, 2, (double[]){4 * 27, 4 * 64})); /* w^4 */
    td_tensor *seed = vec(2, (double[]){1, 1});
    CU_ASSERT_EQUAL_FATAL(t_backward(1, &g, &seed, 1, &w, &gg, 0, &e), 0);
    CU_ASSERT(equals(gg, 2, (double[]){12 * 9, 12 * 16}));
    drop(w), drop(base), drop(row), drop(sq), drop(out), drop(ones), drop(g), drop(gg), drop(seed);
}

static void views_that_refuse(void)
{
    td_error e = {0};
    td_tensor *x = t_new(TD_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4}), *out[64];
    td_set_requires_grad(x, true, NULL);
    td_tensor *row = select_of(x, 0, 0, TD_GRAD_ON);
    CU_ASSERT(inplace(TD_OP_ADD, row, 1, TD_GRAD_ON, &e) != 0);
    CU_ASSERT(
        says(&e, TD_E_AUTOGRAD, "a view of a leaf Variable that requires grad is being used in an in-place operation"));
    drop(row);
    td_tensor *plain = t_new(TD_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4});
    row = select_of(plain, 0, 0, TD_GRAD_ON); /* is the leaf itself */
    td_set_requires_grad(row, true, NULL);
    td_tensor *second = select_of(row, 0, 0, TD_GRAD_ON), *other = select_of(plain, 0, 0, TD_GRAD_ON);
    CU_ASSERT(inplace(TD_OP_ADD, second, 1, TD_GRAD_ON, &e) != 0);
    CU_ASSERT(
        says(&e, TD_E_AUTOGRAD, "a view of a leaf Variable that requires grad is being used in an in-place operation"));
    CU_ASSERT_EQUAL(inplace(TD_OP_ADD, second, 1, TD_GRAD_OFF, &e), 0);
    CU_ASSERT_EQUAL(inplace(TD_OP_ADD, other, 1, TD_GRAD_ON, &e), 0);
    drop(second), drop(other), drop(row), drop(plain);
    td_tensor *h = number(TD_OP_MUL, x, 2);
    td_input in[1] = {td_in(h)};
    int n;
    CU_ASSERT_EQUAL(t_try(td_op_by_id(TD_OP_UNBIND), 1, in, NULL, TD_GRAD_ON, NULL, out, &n, &e), 0);
    CU_ASSERT(n == 2 && td_requires_grad(out[0]));
    CU_ASSERT(inplace(TD_OP_ADD, out[0], 1, TD_GRAD_ON, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "multiple views"));
    drop(out[0]), drop(out[1]);
    row = select_of(h, 0, 0, TD_GRAD_OFF);
    td_tensor *w = leaf(2, (double[]){1, 1});
    CU_ASSERT(!td_requires_grad(row));
    CU_ASSERT(inplace2(TD_OP_ADD, row, w, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "created in no_grad mode"));
    drop(row), drop(h), drop(w), drop(x);
}

static void out_is_not_differentiable(void)
{
    td_error e = {0};
    td_tensor *x = three(), *o = vec(3, NULL), *none[64];
    td_input in[2] = {td_in(x), td_in_number(td_int(2))};
    int n;
    CU_ASSERT(t_try(td_op_by_id(TD_OP_MUL), 2, in, NULL, TD_GRAD_ON, o, none, &n, &e) != 0);
    CU_ASSERT(says(&e, TD_E_AUTOGRAD, "functions with out=... arguments don't support automatic differentiation"));
    CU_ASSERT_EQUAL(t_try(td_op_by_id(TD_OP_MUL), 2, in, NULL, TD_GRAD_OFF, o, none, &n, &e), 0);
    drop(x), drop(o);
}

/* An op that changes its inputs itself, without an output. */
static void what_changes_a_leaf_is_refused(void)
{
    static const struct {
        td_grad_mode mode;
        bool leaf, refused;
    } all[] = {{TD_GRAD_ON, true, true}, {TD_GRAD_ON, false, false}, {TD_GRAD_OFF, true, false}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        td_error e = {0};
        td_attrs a;
        td_tensor *p = all[k].leaf ? three() : vec(3, (double[]){1, 2, 3}), *g = vec(3, (double[]){10, 20, 30});
        td_tensor *none[64];
        td_input in[3] = {td_in(p), td_in(g)};
        int n;
        td_attrs_init(&a);
        td_attrs_float(&a, 0.1);
        for (int i = 0; i < 3; i++) td_attrs_float(&a, 0);
        td_attrs_bool(&a, false);
        int err = t_try(td_op_by_id(TD_OP_SGD_STEP), 3, in, &a, all[k].mode, NULL, none, &n, &e);
        CU_ASSERT_EQUAL(err, all[k].refused ? TD_E_AUTOGRAD : TD_OK);
        if (err) CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "a leaf Variable that requires grad"));
        CU_ASSERT_EQUAL(p->version->value, !all[k].refused);
        CU_ASSERT(equals(p, 3, all[k].refused ? (double[]){1, 2, 3} : (double[]){0, 0, 0}));
        drop(p), drop(g);
    }
}

/* ---- memory */

static void nothing_is_kept(void)
{
    /* ((x + 2) * m): neither intermediate is needed when m needs no grad. */
    td_tensor *x = three(), *m = vec(3, (double[]){1, 2, 3});
    uint64_t before = td_live_counts().storages;
    td_tensor *a = number(TD_OP_ADD, x, 2), *b = RUN2(MUL, a, m), *c = number(TD_OP_ADD, b, 1);
    drop(a), drop(b);
    CU_ASSERT_EQUAL(td_live_counts().storages, before + 1); /* c alone */
    CU_ASSERT_EQUAL(td_autograd_nodes(), 4);                /* three ops and the leaf */
    drop(c);
    CU_ASSERT_EQUAL(td_live_counts().storages, before);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
    drop(x), drop(m);
}

static void saved_outputs_make_no_cycle(void)
{
    td_tensor *x = three();
    uint64_t tensors = td_live_counts().tensors;
    td_tensor *y = RUN1(EXP, x), *z = RUN1(TANH, y);
    drop(y), drop(z);
    CU_ASSERT_EQUAL(td_live_counts().tensors, tensors);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
    drop(x);
}

/* A leaf that is a view leads to its base, and what is made of it and written to the base leads the base to it. Its
 * gradient is there for as long as somebody can name it. */
static void a_view_as_a_leaf_makes_no_cycle(void)
{
    td_live before = td_live_counts();
    uint64_t nodes = td_autograd_nodes();
    td_tensor *base = vec(3, (double[]){1, 2, 3}), *x = select_of(base, 0, 1, TD_GRAD_ON),
              *to = select_of(base, 0, 0, TD_GRAD_ON), *out[64];
    td_tensor_hold(x);
    CU_ASSERT_EQUAL(td_set_requires_grad(x, true, NULL), 0);
    td_tensor *y = number(TD_OP_MUL, x, 2);
    int n;
    td_input in = td_in(y);
    CU_ASSERT_EQUAL(t_try(td_op_by_id(TD_OP_COPY), 1, &in, NULL, TD_GRAD_ON, to, out, &n, NULL), 0);
    CU_ASSERT_EQUAL(backward(base, TD_BW_RETAIN, NULL), 0);
    CU_ASSERT_TRUE(equals(td_grad(x, 0), 1, (double[]){2}));
    td_tensor_unhold(x);
    drop(base), drop(x), drop(to), drop(y);
    CU_ASSERT_EQUAL(td_live_counts().tensors, before.tensors);
    CU_ASSERT_EQUAL(td_autograd_nodes(), nodes);
}

static void overwritten_inputs_make_no_cycle(void)
{
    /* t is saved by mul, then overwritten by something that depends on mul. */
    td_error e = {0};
    td_tensor *x = three(), *t = vec(3, (double[]){1, 2, 3});
    uint64_t tensors = td_live_counts().tensors;
    td_tensor *y = RUN2(MUL, x, t);
    CU_ASSERT_EQUAL(inplace2(TD_OP_ADD, t, y, &e), 0);
    CU_ASSERT(backward(t, 0, &e) != 0);
    CU_ASSERT(says(&e, TD_E_VERSION, "saved by 'mul', is at version 1; expected version 0"));
    /* The same through a view that was saved. */
    td_tensor *base = t_new(TD_FLOAT64, 2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, 6}),
              *row = select_of(base, 0, 0, TD_GRAD_ON);
    td_tensor *z = RUN2(MUL, x, row);
    CU_ASSERT_EQUAL(inplace2(TD_OP_ADD, base, z, &e), 0);
    drop(y), drop(t), drop(base), drop(row), drop(z);
    CU_ASSERT_EQUAL(td_live_counts().tensors, tensors - 1);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
    drop(x);
}

static void a_million_nodes(void)
{
    td_error e = {0};
    enum { N = 1000000 };
    td_tensor *x = leaf(1, (double[]){1}), *y = number(TD_OP_ADD, x, 0);
    for (int k = 0; k < N; k++) {
        td_tensor *z = number(TD_OP_ADD, y, 1);
        drop(y);
        y = z;
    }
    CU_ASSERT_EQUAL(td_autograd_nodes(), N + 2);
    td_tensor *g;
    CU_ASSERT_EQUAL(t_backward(1, &y, NULL, 1, &x, &g, 0, &e), 0);
    CU_ASSERT_DOUBLE_EQUAL(t_real(g, 0), 1, 0);
    drop(g), drop(y);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
    /* Each node saves the output that the next one reads: tensors and nodes in turn. */
    y = number(TD_OP_ADD, x, 0);
    for (int k = 0; k < N / 4; k++) {
        td_tensor *z = RUN1(SIN, y);
        drop(y);
        y = z;
    }
    drop(y);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
    drop(x);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double per_op(td_tensor *x, td_tensor *m, td_grad_mode mode)
{
    double best = 1e9;
    td_input in[2] = {td_in(x), td_in(m)};
    for (int round = 0; round < 7; round++) {
        double start = now();
        for (int k = 0; k < 20000; k++) {
            td_tensor *out[64];
            td_error e = {0};
            int n;
            if (t_try(td_op_by_id(TD_OP_MUL), 2, in, NULL, mode, NULL, out, &n, &e)) return 0;
            td_tensor_unref(out[0]);
        }
        double each = (now() - start) / 20000;
        if (each < best) best = each;
    }
    return best;
}

static void recording_is_cheap(void)
{
    td_tensor *x = three(), *m = vec(3, (double[]){1, 2, 3});
    double off = per_op(x, m, TD_GRAD_OFF), on = per_op(x, m, TD_GRAD_ON);
    printf(
        "\n  mul of 3 float64, in process: %.0f ns without recording, %.0f ns with: recording and dropping %.0f ns\n  ",
        off, on, on - off);
    CU_ASSERT(on > 0 && off > 0);
    drop(x), drop(m);
}

/* However many lines a program has: those that nothing names any more make room. */
static void call_sites_come_and_go(void)
{
    enum { LIVE = 1 << 16 };
    char text[32];
    const char **live = calloc(LIVE, sizeof *live);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < LIVE; i++) {
            snprintf(text, sizeof text, "file.py:%d", round * LIVE + i);
            live[i] = td_site_new(text);
            if (strcmp(live[i], text) != 0) CU_FAIL("a site is another text");
        }
        CU_ASSERT_STRING_EQUAL(td_site_new("one too many"), "");
        CU_ASSERT_PTR_EQUAL(td_site_new(text), live[LIVE - 1]);
        CU_ASSERT_PTR_EQUAL(td_site_ref(live[LIVE - 1]), live[LIVE - 1]);
        td_site_unref(live[LIVE - 1]), td_site_unref(live[LIVE - 1]);
        for (int i = 0; i < LIVE; i++) td_site_unref(live[i]);
    }
    const char *again = td_site_new("one too many");
    CU_ASSERT_STRING_EQUAL(again, "one too many");
    td_site_unref(again), td_site_unref("");
    CU_ASSERT_STRING_EQUAL(td_site_new(""), "");
    free(live);
}

TD_CUNIT_MAIN_WITH(
    "autograd", t_setup, t_teardown, {"leaves", leaves}, {"grad modes", grad_modes}, {"versions", versions},
    {"detach shares versions", detach_shares_versions}, {"a second backward", second_backward},
    {"higher orders", higher_orders}, {"accumulation", accumulation},
    {"gradients are not shared", gradients_are_not_shared}, {"fan-in", fan_in}, {"root checks", root_checks},
    {"dtypes are cast", dtypes_are_cast}, {"undefined stays undefined", undefined_stays_undefined},
    {"only what is needed", only_what_is_needed}, {"retained and scoped", retained_and_scoped},
    {"a scope ends", a_scope_ends}, {"ten at once", ten_at_once}, {"failure leaves nothing", failure_leaves_nothing},
    {"all leaves or none", all_leaves_or_none}, {"refused in place moves nothing", refused_in_place_moves_nothing},
    {"anomaly names the op", anomaly_names_the_op}, {"written between turns", written_between_turns},
    {"in place takes over history", inplace_takes_over_history}, {"in place on a view", inplace_on_a_view},
    {"in place on a view of nothing", inplace_on_a_view_of_nothing}, {"views that refuse", views_that_refuse},
    {"out= is not differentiable", out_is_not_differentiable},
    {"what changes a leaf is refused", what_changes_a_leaf_is_refused}, {"nothing is kept", nothing_is_kept},
    {"saved outputs make no cycle", saved_outputs_make_no_cycle},
    {"overwritten inputs make no cycle", overwritten_inputs_make_no_cycle},
    {"a view as a leaf makes no cycle", a_view_as_a_leaf_makes_no_cycle}, {"a million nodes", a_million_nodes},
    {"call sites come and go", call_sites_come_and_go}, {"recording is cheap", recording_is_cheap})
