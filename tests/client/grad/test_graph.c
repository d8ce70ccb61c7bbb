/* One graph, three processes: A builds its first part and is killed, B extends it, C calls backward.
 *
 * The gradients must be, bit for bit, those of one process that does it all. And a value that another process overwrote
 * after it was saved is an error that names both. */
#include "tests/client/common.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 257 };

static td_array *leaf(td_client *c)
{
    float v[N];
    for (int i = 0; i < N; i++) v[i] = sinf((float)i) * 1.7f;
    td_array *w = td_copy(td_from_data(c, TD_FLOAT32, td_dims(N), v));
    td_set_requires_grad(w, true);
    return w;
}

static td_array *first_part(td_array *w)
{
    return td_mul(td_tanh(w), td_exp(w));
}

static td_array *second_part(td_array *h)
{
    return td_mean(td_square(td_sub(h, 0.25)));
}

/* A process of its own, that ends by being killed when `last_words` says so. */
static pid_t process(void (*run)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        run();
        _exit(td_last_error()->code ? 1 : 0);
    }
    return pid;
}

static int ends(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static bool in_checkpoint; /* the first part, in the process that is killed */

static void builds_and_is_killed(void)
{
    td_client *c = td_connect(server.socket);
    td_set_service(true);
    td_array *w = leaf(c);
    if (in_checkpoint) td_checkpoint_begin(c);
    td_array *h = first_part(w);
    if (in_checkpoint) td_checkpoint_end(c);
    td_publish(w, "graph/w", 0);
    td_publish(h, "graph/h", 0);
    td_sync(c);
    raise(SIGKILL);
}

static void extends(void)
{
    td_client *c = td_connect(server.socket);
    td_set_service(true);
    td_array *loss = second_part(td_open(c, "graph/h", TEST_LONG_MS));
    td_publish(loss, "graph/loss", 0);
    td_sync(c);
}

static float across[N], alone[N];

static void gradients_cross_processes(void)
{
    CU_ASSERT_EQUAL(ends(process(builds_and_is_killed)), -SIGKILL);
    CU_ASSERT_EQUAL(ends(process(extends)), 0);
    td_client *c = td_connect(server.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    td_scope scope;
    td_scope_begin(&scope);
    td_array *w = td_open(c, "graph/w", TEST_LONG_MS), *loss = td_open(c, "graph/loss", TEST_LONG_MS);
    CU_ASSERT_EQUAL(td_backward(loss), TD_OK);
    CU_ASSERT_EQUAL(td_read(td_grad(w), across, sizeof across), TD_OK);
    td_array *own = leaf(c);
    CU_ASSERT_EQUAL(td_backward(second_part(first_part(own))), TD_OK);
    CU_ASSERT_EQUAL(td_read(td_grad(own), alone, sizeof alone), TD_OK);
    CU_ASSERT_EQUAL(memcmp(across, alone, sizeof alone), 0);
    CU_ASSERT_NOT_EQUAL(alone[1], 0);
    CU_ASSERT_EQUAL(td_drop(c, "graph/w"), TD_OK);
    CU_ASSERT_EQUAL(td_drop(c, "graph/h"), TD_OK);
    CU_ASSERT_EQUAL(td_drop(c, "graph/loss"), TD_OK);
    td_scope_end(&scope);
    td_disconnect(c);
}

/* What it made and did not keep is made again by who asks. */
static void also_those_of_a_checkpoint(void)
{
    in_checkpoint = true;
    gradients_cross_processes();
    in_checkpoint = false;
}

static void checkpoints_that_are_not_there(void)
{
    td_client *c = td_connect(server.socket), *other = td_connect(server.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    CU_ASSERT_EQUAL(td_checkpoint_end(c), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_checkpoint_begin(c), TD_OK);
    CU_ASSERT_EQUAL(td_checkpoint_begin(other), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_checkpoint_end(other), TD_E_INVALID);
    for (int k = 1; k < 64; k++) CU_ASSERT_EQUAL(td_checkpoint_begin(c), TD_OK);
    CU_ASSERT_EQUAL(td_checkpoint_begin(c), TD_E_INVALID);
    for (int k = 0; k < 64; k++) CU_ASSERT_EQUAL(td_checkpoint_end(c), TD_OK);
    CU_ASSERT_EQUAL(td_checkpoint_end(c), TD_E_INVALID);
    td_clear_error();
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    td_disconnect(other);
    td_disconnect(c);
}

static void overwrites(void)
{
    td_client *c = td_connect(server.socket);
    td_array *x = td_open(c, "graph/x", TEST_LONG_MS);
    td_add_(x, 1);
    td_sync(c);
}

static void an_overwrite_names_both(void)
{
    td_client *c = td_connect(server.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    td_scope scope;
    td_scope_begin(&scope);
    td_set_service(true);
    td_array *x = td_full(c, td_dims(8), 0.5, TD_FLOAT32);
    td_set_service(false);
    td_publish(x, "graph/x", 0);
    td_array *w = td_full(c, td_dims(8), 2.0, TD_FLOAT32);
    td_set_requires_grad(w, true);
    td_array *loss = td_sum(td_mul(w, x)); /* mul saves x */
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    pid_t other = process(overwrites);
    CU_ASSERT_EQUAL(ends(other), 0);
    td_backward(loss);
    CU_ASSERT_EQUAL(td_sync(c), TD_E_VERSION);
    char pid[32];
    snprintf(pid, sizeof pid, "%d", (int)other);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "mul"));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "add"));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, pid));
    td_clear_error();
    td_drop(c, "graph/x");
    td_scope_end(&scope);
    td_disconnect(c);
}

/* ---- whose gradients */

static bool settled_to(td_client *c, const char *key, int64_t want)
{
    for (int i = 0; i < TEST_LONG_MS / 10 && status_of(c, key) != want; i++) test_sleep_ms(10);
    return status_of(c, key) == want;
}

static int step_of(td_client *c, td_array *w)
{
    td_scope scope;
    td_scope_begin(&scope);
    int rc = td_backward(td_sum(td_mul(w, 3)));
    td_scope_end(&scope);
    return rc ? rc : td_sync(c);
}

static float grad_of(td_array *w)
{
    float g[N] = {0};
    td_array *grad = td_grad(w);
    if (grad) td_read(grad, g, sizeof g);
    td_release(grad);
    td_clear_error();
    return g[N - 1];
}

static void steps_and_is_killed(void)
{
    td_client *c = td_connect(server.socket);
    td_set_grad_scope(c, td_session(c));
    td_array *w = td_open(c, "graph/w", TEST_LONG_MS);
    if (step_of(c, w) || grad_of(w) != 3) _exit(1);
    td_release(w); /* the gradient stays, and can be asked for again */
    td_sync(c);
    raise(SIGKILL);
}

static td_client *forked;
static td_array *forked_w;

static void has_its_own(void)
{
    if (grad_of(forked_w) != 0 || step_of(forked, forked_w) || grad_of(forked_w) != 3) _exit(1);
}

static void private_gradients_end_with_their_session(void)
{
    td_client *c = forked = td_connect(server.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    td_set_service(true);
    td_array *w = forked_w = td_full(c, td_dims(N), 2.0, TD_FLOAT32);
    td_set_service(false);
    td_set_requires_grad(w, true);
    CU_ASSERT_EQUAL(td_publish(w, "graph/w", 0), TD_OK);
    CU_ASSERT_EQUAL(step_of(c, w), TD_OK); /* the tensor's own */
    int64_t tensors = status_at_rest(c, "tensors"), bytes = status_of(c, "bytes_used");
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(ends(process(steps_and_is_killed)), -SIGKILL);
    CU_ASSERT_TRUE(settled_to(c, "tensors", tensors));
    CU_ASSERT_TRUE(settled_to(c, "bytes_used", bytes));
    CU_ASSERT_EQUAL(grad_of(w), 3);

    td_set_grad_scope(c, td_session(c));
    CU_ASSERT_EQUAL(grad_of(w), 0);
    CU_ASSERT_EQUAL(step_of(c, w), TD_OK);
    CU_ASSERT_EQUAL(ends(process(has_its_own)), 0); /* a forked child */
    CU_ASSERT_EQUAL(grad_of(w), 3);
    td_client *other = td_connect(server.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(other);
    td_disconnect(c); /* its handles, too */
    td_release(w);
    CU_ASSERT_TRUE(settled_to(other, "tensors", 2)); /* w and its own gradient */
    CU_ASSERT_EQUAL(td_drop(other, "graph/w"), TD_OK);
    CU_ASSERT_TRUE(settled_to(other, "tensors", 0));
    td_disconnect(other);
}

/* What is likely to fail, and what only the daemon can tell of, is waited for at the call. */
static void likely_failures_are_told_by_the_call(void)
{
    td_client *c = td_connect(server.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    td_scope scope;
    td_scope_begin(&scope);
    td_array *w = td_full(c, td_dims(3), 2.0, TD_FLOAT32);
    td_set_requires_grad(w, true);
    CU_ASSERT_EQUAL(td_add_(w, 1), TD_E_AUTOGRAD); /* in place on a leaf */
    bool was = td_set_grad_enabled(false);
    CU_ASSERT_EQUAL(td_add_(w, 1), TD_OK);
    td_set_grad_enabled(was);
    td_array *loss = td_sum(td_square(w));
    CU_ASSERT_EQUAL(td_backward(loss), TD_OK);
    CU_ASSERT_EQUAL(td_backward(loss), TD_E_AUTOGRAD);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK); /* all was told */
    CU_ASSERT_EQUAL(td_item_f64(td_sum(td_grad(w))), 18);
    td_scope_end(&scope);
    td_disconnect(c);
}

static void eager_errors(void)
{
    td_client *c = td_connect(server.socket);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    td_scope scope;
    td_scope_begin(&scope);
    td_array *x = td_ones(c, td_dims(3), TD_FLOAT32), *i = td_full(c, td_dims(1), 7, TD_INT64);
    CU_ASSERT_FALSE(td_eager_errors(c));
    CU_ASSERT_PTR_NOT_NULL(td_index_select(x, 0, i));
    CU_ASSERT_EQUAL(td_sync(c), TD_E_INDEX);
    td_set_eager_errors(c, true);
    CU_ASSERT_TRUE(td_eager_errors(c));
    CU_ASSERT_PTR_NULL(td_index_select(x, 0, i));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_INDEX);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    td_scope_end(&scope);
    td_disconnect(c);
}

/* ---- writes that fail when the program has gone on */

enum { SMALL = 6, LARGE = 1 << 20 }; /* the daemon's loop computes the one, its workers the other */

/* A row that is not there is added to: only the daemon sees that. */
static void add_nowhere(td_array *x, int64_t n)
{
    CU_ASSERT_EQUAL(td_index_add_(x, 0, td_full(td_client_of(x), td_dims(1), (double)n + 2, TD_INT64),
                                  td_ones(td_client_of(x), td_dims(1), TD_FLOAT32)),
                    TD_OK);
}

static bool is_told(int code, int64_t n)
{
    char words[64];
    snprintf(words, sizeof words, "index %lld is out of bounds", (long long)n + 2);
    bool told =
        code == TD_E_INDEX && strstr(td_last_error()->message, words) && strstr(td_last_error()->where, __FILE_NAME__);
    td_clear_error();
    return told;
}

/* What was in place behind a failed write did not happen. A device that was told of it ahead may have run it: then x is
 * lost until it is written anew. */
static void is_as_it_was(td_array *x, td_array *end, float want)
{
    float v[2];
    int code = td_read(end, v, sizeof v);
    if (code == TD_E_INDEX && runs_ahead()) {
        td_clear_error();
        CU_ASSERT_EQUAL(td_fill_(x, want), TD_OK);
        code = td_read(end, v, sizeof v);
    }
    CU_ASSERT(code == TD_OK && v[0] == want);
}

static void failed_writes_of(int64_t n)
{
    td_client *c = td_connect(server.socket), *other = td_connect(server.socket);
    CU_ASSERT_FATAL(c && other);
    td_scope scope;
    td_scope_begin(&scope);
    float v[2];
    td_array *x = td_zeros(c, td_dims(n), TD_FLOAT32), *end = td_slice(x, 0, n - 2, n, 1);
    CU_ASSERT_EQUAL(td_publish(x, "graph/late", TD_REPLACE), TD_OK);
    td_array *shared = td_open(c, "graph/late", 0), *same = td_open(other, "graph/late", 0);
    td_array *all[] = {x, shared};
    for (int i = 0; i < 2; i++) {
        add_nowhere(all[i], n);
        td_array *sum = td_sum(all[i]); /* a use of what should have been written */
        CU_ASSERT_EQUAL(td_item_f64(td_sum(same)), 0);
        CU_ASSERT_EQUAL(td_last_error()->code, TD_OK);
        CU_ASSERT(is_told(td_read(sum, v, sizeof *v), n));
        CU_ASSERT_EQUAL(td_item_f64(td_sum(all[i])), 0); /* told once: it is what it was */
        CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    }
    add_nowhere(x, n); /* through a view; what is in place after it does not happen either */
    CU_ASSERT_EQUAL(td_add_(x, 1), TD_OK);
    CU_ASSERT(is_told(td_read(end, v, sizeof v), n));
    is_as_it_was(x, end, 0);
    add_nowhere(x, n);
    CU_ASSERT(is_told(td_sync(c), n)); /* by a sync */
    CU_ASSERT(td_read(end, v, sizeof v) == TD_OK && v[1] == 0);
    add_nowhere(x, n);
    int published = td_publish(x, "graph/late", TD_REPLACE);
    CU_ASSERT(is_told(published ? published : td_sync(c), n)); /* what runs later is told later */
    CU_ASSERT_EQUAL(td_publish(x, "graph/late", TD_REPLACE), TD_OK);
    add_nowhere(end, n); /* part of it */
    CU_ASSERT_EQUAL(td_fill_(x, 5), TD_OK);
    CU_ASSERT(td_read(end, v, sizeof v) == TD_OK && v[0] == 5); /* nothing is lacking there any more */
    CU_ASSERT(is_told(td_sync(c), n));
    td_array *lost = td_index_select(x, 0, td_full(c, td_dims(2), (double)n + 2, TD_INT64));
    CU_ASSERT_EQUAL(td_add_(end, lost), TD_OK);
    CU_ASSERT(is_told(td_sync(c), n));
    is_as_it_was(x, end, 5); /* it may go on from there */
    CU_ASSERT_EQUAL(td_add_(end, 1), TD_OK);
    CU_ASSERT(td_read(end, v, sizeof v) == TD_OK && v[0] == 6);
    CU_ASSERT_EQUAL(td_drop(c, "graph/late"), TD_OK);
    td_scope_end(&scope);
    td_disconnect(other);
    td_disconnect(c);
}

static void failed_writes_are_told_by_the_next_use(void)
{
    failed_writes_of(SMALL);
    failed_writes_of(LARGE);
}

/* ---- what is refused at the call, and nothing comes of it */

#define NOTHING td_arrays_of(0, NULL)

/* Both ways of asking say the same, and what was to be written says that there is nothing. */
static void refuses(td_list outputs, td_list grads, td_list inputs, td_code code, const char *why)
{
    td_array *out[2] = {outputs.n ? outputs.at[0] : NULL, outputs.n ? outputs.at[0] : NULL};
    CHECK_FAILS(td_at_backward_into(NULL, outputs, grads, inputs, 0), code, why);
    if (inputs.n > 2) return;
    CHECK_FAILS(td_autograd_grad(outputs, grads, inputs, 0, out), code, why);
    for (int k = 0; k < inputs.n; k++) CU_ASSERT_PTR_NULL(out[k]);
    CU_ASSERT_TRUE(inputs.n == 2 || !outputs.n || out[1] == outputs.at[0]);
}

static void what_a_backward_refuses(void)
{
    enum { MANY = 512 };
    td_client *c = join(), *other = join();
    td_scope scope;
    td_scope_begin(&scope);
    td_array *x = td_ones(c, td_dims(3), TD_FLOAT32), *foreign = td_ones(other, td_dims(3), TD_FLOAT32),
             *nothing = NULL;
    CU_ASSERT_EQUAL(td_set_requires_grad(x, true), TD_OK);
    td_array *y = td_mul(x, 2), *loss = td_sum(y), *row = td_reshape(loss, td_dims(1, 1)), *two[] = {y, loss},
             *g = td_ones(c, td_dims(3), TD_FLOAT32), *wide = td_ones(c, td_dims(1, 3), TD_FLOAT32);
    refuses(NOTHING, NOTHING, td_arrays(x), TD_E_INVALID, "there is no output to start from");
    refuses(td_arrays(nothing), NOTHING, td_arrays(x), TD_E_INVALID, "an output is NULL");
    refuses(td_arrays(loss), NOTHING, td_arrays(nothing), TD_E_INVALID, "an input is NULL");
    refuses(td_arrays(loss, foreign), NOTHING, td_arrays(x), TD_E_INVALID, "belong to two clients");
    refuses(td_arrays(y), td_arrays(foreign), td_arrays(x), TD_E_INVALID, "belong to two clients");
    refuses(td_arrays(loss), NOTHING, td_arrays(x, foreign), TD_E_INVALID, "belong to two clients");
    refuses(td_arrays(y), td_arrays(g, g), td_arrays(x), TD_E_INVALID, "2 gradients for 1 outputs");
    refuses(td_arrays_of(2, two), td_arrays(g), td_arrays(x), TD_E_INVALID, "1 gradients for 2 outputs");
    refuses(td_arrays(y), NOTHING, td_arrays(x), TD_E_AUTOGRAD, "only for scalar outputs, not for shape [3]");
    refuses(td_arrays(loss, y), NOTHING, td_arrays(x), TD_E_AUTOGRAD, "only for scalar outputs, not for shape [3]");
    refuses(td_arrays(loss, y), td_arrays(nothing, nothing), td_arrays(x, x), TD_E_AUTOGRAD, "for scalar outputs");
    refuses(td_arrays(y), td_arrays(wide), td_arrays(x), TD_E_SHAPE,
            "grad_output[0] has a shape of [1, 3] and output[0] has a shape of [3]");
    refuses(td_arrays(loss, y), td_arrays(nothing, wide), td_arrays(x), TD_E_SHAPE, "grad_output[1] has a shape");
    CU_ASSERT_EQUAL(td_sync(c), TD_OK); /* nothing of it came to the daemon */
    CHECK_FAILS(td_grad(x), TD_E_NOT_FOUND, "no backward reached it");
    td_array *many[MANY + 1], *out[2 * MANY];
    for (int k = 0; k <= MANY; k++) many[k] = k ? x : loss;
    refuses(td_arrays_of(MANY, many), NOTHING, td_arrays(x), TD_E_INVALID, "512 outputs and 1 inputs; too many");
    for (int k = 0; k < MANY; k++) many[k] = loss;
    CU_ASSERT_EQUAL(td_at_backward(NULL, td_arrays_of(MANY, many), NOTHING, TD_RETAIN_GRAPH), TD_OK); /* the most */
    CHECK_VALUES(td_grad(x), 2 * MANY, 2 * MANY, 2 * MANY);
    CU_ASSERT_EQUAL(td_zero_grad(td_arrays(x)), TD_OK);
    for (int k = 0; k < 2 * MANY; k++) out[k] = y; /* what nobody asked for stays */
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(row, y), td_arrays(nothing, g), td_arrays(x), TD_RETAIN_GRAPH, out),
                    TD_OK);
    CHECK_VALUES(out[0], 4, 4, 4);
    CU_ASSERT_PTR_EQUAL(out[1], y);
    CHECK_FAILS(td_grad(x), TD_E_NOT_FOUND, "no backward reached it"); /* it went into `out` */
    td_array *square = td_square(x), *first = NULL; /* of a gradient only the daemon knows the shape */
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(square), td_arrays(g), td_arrays(x), TD_CREATE_GRAPH, &first), TD_OK);
    CU_ASSERT_EQUAL(td_backward(first, g), TD_OK);
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(y), td_arrays(g), td_arrays(x), TD_CREATE_GRAPH, &first), TD_OK);
    CU_ASSERT_EQUAL(td_backward(y, first), TD_OK);
    CHECK_VALUES(td_grad(x), 6, 6, 6);
    td_scope_end(&scope);
    td_disconnect(other);
    td_disconnect(c);
}

/* A gradient of what took no part: NULL where that is allowed, and otherwise nothing comes. */
static void inputs_that_take_no_part(void)
{
    td_client *c = join();
    td_scope scope;
    td_scope_begin(&scope);
    td_array *x = td_ones(c, td_dims(2), TD_FLOAT32), *w = td_ones(c, td_dims(2), TD_FLOAT32), *out[2] = {x, x};
    CU_ASSERT_EQUAL(td_set_requires_grad(x, true), TD_OK);
    CU_ASSERT_EQUAL(td_set_requires_grad(w, true), TD_OK);
    td_array *loss = td_sum(td_mul(x, 3));
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(loss), NOTHING, td_arrays(w, x), TD_RETAIN_GRAPH | TD_ALLOW_UNUSED, out),
                    TD_OK);
    CU_ASSERT_PTR_NULL(out[0]);
    CHECK_VALUES(out[1], 3, 3);
    td_set_eager_errors(c, true);
    out[0] = out[1] = x;
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(loss), NOTHING, td_arrays(w, x), TD_RETAIN_GRAPH, out), TD_E_AUTOGRAD);
    CU_ASSERT_TRUE(!out[0] && !out[1]);
    td_set_eager_errors(c, false);
    CU_ASSERT_EQUAL(td_grads(td_arrays(w, x), out), TD_OK);
    CU_ASSERT_TRUE(!out[0] && !out[1]);
    CU_ASSERT_EQUAL(td_backward(loss), TD_OK);
    CU_ASSERT_EQUAL(td_grads(td_arrays(w, x), out), TD_OK);
    CU_ASSERT_PTR_NULL(out[0]);
    CHECK_VALUES(out[1], 3, 3);
    td_scope_end(&scope);
    td_disconnect(c);
}

static void what_marks_refuse(void)
{
    td_client *c = join(), *other = join();
    td_scope scope;
    td_scope_begin(&scope);
    td_array *x = td_ones(c, td_dims(2), TD_FLOAT32), *i = td_ones(c, td_dims(2), TD_INT64), *out[2] = {x, x},
             *foreign = td_ones(other, td_dims(2), TD_FLOAT32), *wide = td_ones(c, td_dims(2, 1), TD_FLOAT32),
             *nothing = NULL;
    CHECK_FAILS(td_set_requires_grad(NULL, true), TD_E_INVALID, "the array is NULL");
    CHECK_FAILS(td_retain_grad(NULL), TD_E_INVALID, "the array is NULL");
    CHECK_FAILS(td_set_grad(NULL, x), TD_E_INVALID, "the array is NULL");
    CHECK_FAILS(td_grad(NULL), TD_E_INVALID, "the array is NULL");
    CHECK_FAILS(td_data_of(NULL), TD_E_INVALID, "the array is NULL");
    CHECK_FAILS(td_set_requires_grad(i, true), TD_E_TYPE, "can require gradients, not int64");
    CU_ASSERT_EQUAL(td_set_requires_grad(i, false), TD_OK);
    CHECK_FAILS(td_set_grad(x, foreign), TD_E_INVALID, "belong to two clients");
    CHECK_FAILS(td_set_grad(x, wide), TD_E_SHAPE, "assigned grad is float32[2, 1]");
    CHECK_FAILS(td_set_grad(x, i), TD_E_SHAPE, "assigned grad is int64[2], but must be like the tensor: float32[2]");
    CHECK_FAILS(td_zero_grad(td_arrays(x, nothing)), TD_E_INVALID, "the array is NULL");
    CHECK_FAILS(td_grads(td_arrays(x, nothing), out), TD_E_INVALID, "an array is NULL");
    CU_ASSERT_TRUE(!out[0] && !out[1]);
    out[0] = x;
    CU_ASSERT_EQUAL(td_grads(NOTHING, out), TD_OK);
    CU_ASSERT_PTR_EQUAL(out[0], x);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    td_set_eager_errors(c, true); /* the daemon's word comes with the call */
    CHECK_FAILS(td_retain_grad(x), TD_E_AUTOGRAD, "retain_grad");
    td_array *y = td_set_requires_grad(x, true) ? NULL : td_mul(x, 2);
    CHECK_FAILS(td_set_requires_grad(y, false), TD_E_AUTOGRAD, "");
    CU_ASSERT_EQUAL(td_set_grad(x, td_full(c, td_dims(2), 7, TD_FLOAT32)), TD_OK);
    td_set_eager_errors(c, false);
    CHECK_VALUES(td_grad(x), 7, 7);
    CU_ASSERT_EQUAL(td_set_grad(x, NULL), TD_OK);
    CHECK_FAILS(td_grad(x), TD_E_NOT_FOUND, "no backward reached it");
    td_scope_end(&scope);
    td_disconnect(other);
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_graph", start_server, stop_server, {"gradients cross processes", gradients_cross_processes},
                   {"also those of a checkpoint", also_those_of_a_checkpoint},
                   {"checkpoints that are not there", checkpoints_that_are_not_there},
                   {"private gradients end with their session", private_gradients_end_with_their_session},
                   {"an overwrite names both", an_overwrite_names_both},
                   {"likely failures are told by the call", likely_failures_are_told_by_the_call},
                   {"eager errors", eager_errors}, {"what a backward refuses", what_a_backward_refuses},
                   {"inputs that take no part", inputs_that_take_no_part}, {"what marks refuse", what_marks_refuse},
                   {"failed writes are told by the next use", failed_writes_are_told_by_the_next_use})
