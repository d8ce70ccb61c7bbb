/* Traces: what a thread does between begin and end is a program that does the same again: ops of all forms, what is
 * captured, writes, views, modes, random numbers; what a program cannot follow is said; nothing is left behind. */
#include "client/tensord_bind.h"
#include "tests/client/common.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOTHING td_arrays_of(0, NULL)

static td_array *numbers(td_client *c, int n, const double *v)
{
    return td_from_data(c, TD_FLOAT64, td_dims(n), v);
}

static td_trace *begin(td_client *c, td_list inputs)
{
    td_trace *t = td_trace_begin(c, inputs);
    if (!t) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    return t;
}

static td_program *end(td_trace *t, td_list outputs)
{
    td_program *p = td_trace_end(t, outputs);
    if (!p) fprintf(stderr, "%s %s\n", td_last_error()->where, td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    return p;
}

static td_value call(td_program *p, td_array *x)
{
    td_value out, in[] = {td_value_array(x)};
    int rc = td_program_call(p, 1, in, &out);
    if (rc) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_EQUAL_FATAL(rc, TD_OK);
    return out;
}

static bool says(td_program *p, const char *words)
{
    char *text = td_program_print(p, TD_TEXT_IR);
    bool there = text && strstr(text, words);
    free(text);
    return there;
}

/* ---- what is recorded */

static void test_layer(void)
{
    td_client *c = join();
    td_array *x = numbers(c, 2, (double[]){1, -2}), *w = numbers(c, 2, (double[]){3, 4});
    td_trace *t = begin(c, td_arrays(x));
    td_scope s;
    td_scope_begin(&s);
    td_array *y = td_keep(td_relu(td_add(td_mul(x, w), 0.5)));
    td_scope_end(&s);
    CHECK_VALUES(y, 3.5, 0); /* it was run */
    td_program *p = end(t, td_arrays(y));
    CU_ASSERT_TRUE(says(p, "captured %c0 : Tensor = \"tensor:0\""));
    CU_ASSERT_TRUE(says(p, "= td::mul(%x, %c0) # "));
    CU_ASSERT_TRUE(says(p, "test_trace.c:"));
    td_array *z = numbers(c, 2, (double[]){-1, 2});
    td_value out = call(p, z);
    CHECK_VALUES(out.array, 0, 8.5);
    td_value_free(&out);
    CU_ASSERT_EQUAL(td_mul_(w, 10), TD_OK); /* captured by reference */
    out = call(p, z);
    CHECK_VALUES(out.array, 0, 80.5);
    td_value_free(&out);
    td_release(x), td_release(w), td_release(y), td_release(z);
    td_program_free(p);
    td_disconnect(c);
}

/* Ops made of others, lists in and out, several results, numbers and attributes between tensors. */
static void test_forms(void)
{
    td_client *c = join();
    td_array *x = td_from_data(c, TD_FLOAT64, td_dims(2, 2), (double[]){1, 2, 3, 4});
    td_array *rows[2], *at = td_from_data(c, TD_INT64, td_dims(2, 1), (int64_t[]){1, 0});
    td_trace *t = begin(c, td_arrays(x));
    td_scope s;
    td_scope_begin(&s);
    td_array *m = td_keep(td_std(x, td_dims(1), 1.0, false)), *picked = td_keep(td_gather(x, 1, at)), *ids = NULL,
             **into = &ids;
    CU_ASSERT_EQUAL_FATAL(td_unbind(x, 2, rows, 0), 2);
    td_array *both = td_keep(td_cat(td_arrays(rows[1], rows[0]), 0)), *top = td_keep(td_max_dim(x, 1, into, false));
    td_array *flat = td_keep(td_reshape(td_transpose(x, 0, 1), td_dims(4)));
    td_keep(ids);
    td_scope_end(&s);
    td_program *p = end(t, td_arrays(m, picked, both, top, ids, flat));
    CU_ASSERT_TRUE(says(p, "td::std("));
    CU_ASSERT_TRUE(says(p, "prim::ListUnpack"));
    td_array *z = td_from_data(c, TD_FLOAT64, td_dims(2, 2), (double[]){5, 5, 8, 6});
    td_value out = call(p, z);
    CU_ASSERT_EQUAL_FATAL(out.n, 6);
    CHECK_VALUES(out.items[0].array, 0, 1.41421356);
    CHECK_VALUES(out.items[1].array, 5, 8);
    CHECK_VALUES(out.items[2].array, 8, 6, 5, 5);
    CHECK_VALUES(out.items[3].array, 5, 8);
    CHECK_VALUES(out.items[4].array, 0, 0);
    CHECK_VALUES(out.items[5].array, 5, 8, 5, 6);
    td_value_free(&out);
    td_release(x), td_release(at), td_release(m), td_release(picked), td_release(both), td_release(top);
    td_release(ids), td_release(flat), td_release(z);
    td_program_free(p);
    td_disconnect(c);
}

/* In place, into views, into given arrays, by copies and fills; what is made meanwhile is made anew in each run. */
static void test_writes(void)
{
    td_client *c = join();
    td_array *x = numbers(c, 3, (double[]){1, 2, 3}), *total = numbers(c, 1, (double[]){0});
    td_trace *t = begin(c, td_arrays(x));
    td_scope s;
    td_scope_begin(&s);
    td_array *y = td_keep(td_clone(x)), *half = td_from_data(c, TD_FLOAT64, td_dims(), (double[]){0.5});
    td_array *first = td_select(y, 0, 0), *last = td_select(y, 0, 2),
             *sum = td_keep(td_zeros(c, td_dims(), TD_FLOAT64));
    CU_ASSERT_EQUAL(td_add_(first, 10), TD_OK);
    CU_ASSERT_EQUAL(td_copy_(last, td_sum(x)), TD_OK);
    CU_ASSERT_EQUAL(td_fill_(td_select(y, 0, 1), td_arg_float(7)), TD_OK);
    CU_ASSERT_EQUAL(td_add_(half, 1), TD_OK);
    CU_ASSERT_EQUAL(td_mul_(y, half), TD_OK);
    CU_ASSERT_EQUAL(td_mul_out(sum, first, last), TD_OK);
    CU_ASSERT_EQUAL(td_add_(total, sum), TD_OK);
    td_scope_end(&s);
    CHECK_VALUES(y, 16.5, 10.5, 9);
    CHECK_VALUES(total, 16.5 * 9);
    td_program *p = end(t, td_arrays(y, sum));
    CU_ASSERT_TRUE(says(p, "td::copy_("));
    CU_ASSERT_TRUE(says(p, "td::full_("));
    CU_ASSERT_TRUE(says(p, "td::mul_("));
    CU_ASSERT_FALSE(says(p, "tensor:1")); /* a number is no captured tensor */
    td_array *z = numbers(c, 3, (double[]){0, 0, -2});
    for (int k = 0; k < 3; k++) {
        td_value out = call(p, z);
        CHECK_VALUES(out.items[0].array, 15, 10.5, -3);
        CHECK_VALUES(out.items[1].array, -45);
        CHECK_VALUES(total, 16.5 * 9 - 45 * (k + 1));
        td_value_free(&out);
    }
    CHECK_VALUES(z, 0, 0, -2);
    td_release(x), td_release(total), td_release(y), td_release(sum), td_release(z);
    td_program_free(p);
    td_disconnect(c);
}

/* Modes are those of then; random numbers are drawn in each run; gradients flow. */
/* What goes by the sizes of a tensor goes by those of the call. */
static void test_sizes(void)
{
    td_client *c = join();
    td_array *x = td_from_data(c, TD_FLOAT64, td_dims(2, 2), (double[]){1, 2, 3, 4});
    td_trace *t = begin(c, td_arrays(x));
    td_scope s;
    td_scope_begin(&s);
    td_array *y = td_clone(x), *two = td_full_like(x, 2);
    CU_ASSERT_EQUAL(td_fill_(y, 3), TD_OK);
    CU_ASSERT_EQUAL(td_add_(y, two), TD_OK);
    td_array *first = td_select(x, 0, 0), *parted = td_unflatten(x, 1, td_dims(-1, 1)), *rows = td_contiguous(x);
    CU_ASSERT_EQUAL(td_copy_(two, first), TD_OK);
    td_keep(y), td_keep(two), td_keep(parted), td_keep(rows);
    td_scope_end(&s);
    td_program *p = end(t, td_arrays(y, two, parted, rows));
    td_array *wide = td_from_data(c, TD_FLOAT64, td_dims(1, 3), (double[]){7, 8, 9});
    td_value out = call(p, wide);
    CU_ASSERT_EQUAL_FATAL(out.n, 4);
    CHECK_VALUES(out.items[0].array, 5, 5, 5);
    CHECK_VALUES(out.items[1].array, 7, 8, 9);
    CHECK_VALUES(out.items[2].array, 7, 8, 9);
    CU_ASSERT_EQUAL(td_ndim(out.items[2].array), 3);
    CHECK_VALUES(out.items[3].array, 7, 8, 9);
    td_value_free(&out);
    td_release(x), td_release(y), td_release(two), td_release(parted), td_release(rows), td_release(wide);
    td_program_free(p);
    td_disconnect(c);
}

static void test_modes(void)
{
    td_client *c = join();
    td_array *x = numbers(c, 1, (double[]){2}), *g = NULL;
    td_set_requires_grad(x, true);
    td_trace *t = begin(c, td_arrays(x));
    td_array *a = td_mul(x, x), *noise = td_rand(c, td_dims(1), TD_FLOAT64);
    td_set_grad_enabled(false);
    td_array *b = td_mul(x, 100);
    td_set_grad_enabled(true);
    td_array *y = td_add(a, b), *data = td_data_of(x);
    td_program *p = end(t, td_arrays(y, noise, data));
    CU_ASSERT_TRUE(says(p, "td::mul[mode=1]("));
    CU_ASSERT_TRUE(says(p, "td::rand[rng=0]("));
    double drawn[2];
    for (int k = 0; k < 2; k++) {
        td_value out = call(p, x);
        CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(out.items[0].array), NOTHING, td_arrays(x), 0, &g), TD_OK);
        CHECK_VALUES(g, 4);
        CHECK_VALUES(out.items[2].array, 2);
        CU_ASSERT_EQUAL(td_read(out.items[1].array, &drawn[k], sizeof drawn[k]), TD_OK);
        td_release(g);
        td_value_free(&out);
    }
    CU_ASSERT_NOT_EQUAL(drawn[0], drawn[1]);
    td_release(x), td_release(a), td_release(noise), td_release(b), td_release(y), td_release(data);
    td_program_free(p);
    td_disconnect(c);
}

/* A program that is called becomes a function, once; its branches stay such. */
static void test_calls(void)
{
    td_client *c = join();
    td_array *w = numbers(c, 1, (double[]){10}), *x = numbers(c, 1, (double[]){2});
    td_program *inner = td_program_read(c,
                                        "captured %w : Tensor = \"w\"\n"
                                        "graph(%l : Tensor[], %f : float, %o : Tensor?):\n"
                                        "  %zero : int = prim::Constant[value=0]()\n"
                                        "  %x : Tensor = prim::getitem.list(%l, %zero)\n"
                                        "  %b : bool = prim::item.bool(%x)\n"
                                        "  %y : Tensor = prim::If(%b)\n"
                                        "    block0():\n"
                                        "      %p : Tensor = fn::f(%x, %f)\n"
                                        "      -> (%p)\n"
                                        "    block1():\n"
                                        "      -> (%w)\n"
                                        "  %all : Tensor[] = prim::ListConstruct(%y, %x)\n"
                                        "  return (%all, %f)\n"
                                        "fn f(%a : Tensor, %c : float):\n"
                                        "  %d : Tensor = td::mul(%a, %c)\n"
                                        "  return (%d)\n",
                                        td_arrays(w));
    CU_ASSERT_PTR_NOT_NULL_FATAL(inner);
    td_trace *t = begin(c, td_arrays(x));
    td_array *y = td_retain(x);
    for (int k = 0; k < 2; k++) {
        td_value item = td_value_array(y), out;
        td_value in[] = {{TD_VALUE_LIST, 1, {.items = &item}, 0}, td_value_int(3), {TD_VALUE_NONE, 0, {0}, 0}};
        CU_ASSERT_EQUAL_FATAL(td_program_call(inner, 3, in, &out), TD_OK);
        td_release(y);
        y = td_retain(out.items[0].items[0].array);
        td_value_free(&out);
    }
    CHECK_VALUES(y, 18);
    CU_ASSERT_PTR_NOT_NULL(td_trace_warning(t, 0)); /* the number among the results */
    td_program *p = end(t, td_arrays(y));
    CU_ASSERT_TRUE(says(p, "fn program0("));
    CU_ASSERT_TRUE(says(p, "fn program0_f("));
    CU_ASSERT_FALSE(says(p, "program1"));
    td_program_free(inner);
    td_array *zero = numbers(c, 1, (double[]){0});
    td_value out = call(p, zero);
    CHECK_VALUES(out.array, 30); /* w, three times */
    td_value_free(&out);
    td_release(w), td_release(x), td_release(y), td_release(zero);
    td_program_free(p);
    td_disconnect(c);
}

/* ---- what is not */

static void test_warnings(void)
{
    td_client *c = join();
    td_array *x = numbers(c, 1, (double[]){2}), *other = numbers(c, 1, (double[]){3});
    td_trace *t = begin(c, td_arrays(x));
    CU_ASSERT_EQUAL(td_item_f64(other), 3); /* of nothing that was traced */
    CU_ASSERT_PTR_NULL(td_trace_warning(t, 0));
    td_array *y = td_mul(x, 3);
    CU_ASSERT_EQUAL(td_item_f64(y), 6);
    CU_ASSERT_EQUAL(td_item_f64(y), 6);
    double v;
    CU_ASSERT_EQUAL(td_read(x, &v, sizeof v), TD_OK);
    CU_ASSERT_PTR_NOT_NULL(td_data(y));
    CU_ASSERT_PTR_NOT_NULL_FATAL(td_trace_warning(t, 2));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_trace_warning(t, 0), "item, after "));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_trace_warning(t, 0), "test_trace.c:"));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_trace_warning(t, 0), "becomes a constant"));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_trace_warning(t, 1), "read, "));
    CU_ASSERT_PTR_NULL(td_trace_warning(t, 3));
    CU_ASSERT_PTR_NULL(td_trace_warning(t, -1));
    td_program_free(end(t, td_arrays(y)));
    td_release(x), td_release(y), td_release(other);
    td_disconnect(c);
}

static void test_refusals(void)
{
    td_client *c = join();
    td_array *x = numbers(c, 1, (double[]){2}), *w = numbers(c, 1, (double[]){2});
    td_set_requires_grad(w, true);
    CHECK_FAILS(td_trace_begin(NULL, NOTHING), TD_E_INVALID, "client");
    CHECK_FAILS(td_trace_begin(c, td_arrays(x, x)), TD_E_INVALID, "input 1 is the same array");
    td_trace *t = begin(c, td_arrays(x));
    CHECK_FAILS(td_trace_begin(c, td_arrays(w)), TD_E_INVALID, "traces already");
    td_array *y = td_mul(x, w);
    CU_ASSERT_EQUAL(td_backward(y), TD_OK); /* done, but no part of a program */
    CHECK_FAILS(td_trace_end(t, td_arrays(y)), TD_E_UNSUPPORTED, "a backward cannot be part of a program");
    CHECK_FAILS(td_trace_end(NULL, NOTHING), TD_E_INVALID, "the trace is NULL");
    td_release(y);
    t = begin(c, td_arrays(x));
    y = td_mul(x, 2);
    td_set_requires_grad(y, true);
    CHECK_FAILS(td_trace_end(t, td_arrays(y)), TD_E_UNSUPPORTED, "requires_grad_");
    t = begin(c, td_arrays(x));
    CHECK_FAILS(td_mm(x, y), TD_E_SHAPE, ""); /* what fails is not recorded */
    td_release(y);
    y = td_mul(x, 3);
    td_program *p = end(t, td_arrays(y));
    CU_ASSERT_FALSE(says(p, "td::mm"));
    td_program_free(p);
    td_release(x), td_release(y), td_release(w);
    td_disconnect(c);
}

/* ---- nothing is left */

/* What another thread does is its own. */
static void *elsewhere(void *arg)
{
    td_release(td_mul(arg, 77));
    return NULL;
}

static void test_ends(void)
{
    td_client *c = join();
    int64_t tensors = status_at_rest(c, "tensors");
    td_array *x = numbers(c, 1, (double[]){2}), *w = numbers(c, 1, (double[]){3});
    td_trace *t = begin(c, td_arrays(x));
    pthread_t thread;
    td_array *y = td_mul(x, w);
    td_release(w), td_release(y);
    td_trace_free(t); /* given up: it held w */
    td_trace_free(NULL);
    t = begin(c, td_arrays(x)); /* x was an input before; now it is one of another trace */
    y = td_mul(x, 5);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, elsewhere, x), 0);
    pthread_join(thread, NULL);
    td_program *p = end(t, td_arrays(y));
    CU_ASSERT_FALSE(says(p, "77"));
    td_program_free(p);
    td_release(y), td_release(x);
    CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
    td_disconnect(c);

    c = join(); /* the connection ends first */
    x = numbers(c, 1, (double[]){2});
    t = begin(c, td_arrays(x));
    y = td_mul(x, 3);
    td_disconnect(c);
    CHECK_FAILS(td_trace_end(t, td_arrays(y)), TD_E_LOST, "");
    td_release(x), td_release(y);

    c = join();
    x = numbers(c, 1, (double[]){2});
    t = begin(c, td_arrays(x));
    td_disconnect(c);
    td_release(x);
    td_trace_free(t); /* the last that is left of the client */
}

/* A child does not go on with it; the parent does. */
static void test_fork(void)
{
    td_client *c = join();
    td_array *x = numbers(c, 1, (double[]){2}), *w = numbers(c, 1, (double[]){3});
    td_trace *t = begin(c, td_arrays(x));
    td_array *y = td_mul(x, w);
    pid_t pid = fork();
    if (pid == 0) {
        td_array *z = td_add(y, 1);
        bool good = td_item_f64(z) == 7 && !td_trace_warning(t, 0);
        good = good && !td_trace_end(t, td_arrays(y)) && strstr(td_last_error()->message, "forked");
        td_clear_error();
        td_trace *own = td_trace_begin(c, td_arrays(z));
        td_array *u = td_mul(z, 2);
        td_program *p = td_trace_end(own, td_arrays(u));
        td_program_free(p);
        td_release(x), td_release(w), td_release(y), td_release(z), td_release(u);
        td_disconnect(c);
        _exit(good && p ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
    CU_ASSERT_EQUAL(status, 0);
    td_array *z = td_add(y, 5);
    td_program *p = end(t, td_arrays(z));
    td_value out = call(p, w);
    CHECK_VALUES(out.array, 14);
    td_value_free(&out);
    td_release(x), td_release(w), td_release(y), td_release(z);
    td_program_free(p);
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_trace", start_server, stop_server, {"a layer", test_layer}, {"forms", test_forms},
                   {"writes", test_writes}, {"sizes", test_sizes}, {"modes", test_modes}, {"calls", test_calls},
                   {"warnings", test_warnings}, {"refusals", test_refusals}, {"its end", test_ends},
                   {"fork", test_fork})
