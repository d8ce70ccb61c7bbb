/* Hooks and functions of a C program: what they are given, what their answers do, and the graph as it sees it. */
#include "tests/client/common.h"

#include <stdlib.h>
#include <string.h>

/* What ran, as text; and what the next hooks answer. */
typedef struct played {
    char log[512];
    double times; /* the answer of a hook of a tensor; 0: it stays */
    bool gives_up;
    td_array *foreign; /* of another connection, and so no answer */
    td_array *inner;   /* a backward of its own */
} played;

static int on_hook(td_client *c, const td_hook_call *call, void *context)
{
    played *p = context;
    (void)c;
    char *end = p->log + strlen(p->log);
    snprintf(end, sizeof p->log - (size_t)(end - p->log), "%d:%d/%d/%d ", (int)call->kind, call->n, call->first,
             call->wanted);
    if (p->gives_up) return -1;
    if (p->foreign) {
        call->answer[0] = p->foreign;
        p->foreign = NULL;
        return 1;
    }
    if (p->inner) {
        td_array *inner = p->inner;
        p->inner = NULL;
        CU_ASSERT_EQUAL(td_at_backward(NULL, td_arrays(inner), td_arrays_of(0, NULL), TD_RETAIN_GRAPH), TD_OK);
    }
    if (call->kind == TD_ON_FUNCTION) { /* d(x^2) = 2 x g */
        td_array *twice = td_mul(call->given[1], 2);
        call->answer[0] = td_mul(twice, call->given[0]);
        td_release(twice);
        return 1;
    }
    if (call->kind != TD_ON_TENSOR || p->times == 0) return 0;
    call->answer[0] = td_mul(call->given[0], p->times);
    return 1;
}

static td_array *leaf(td_client *c)
{
    td_array *x = td_from_data(c, TD_FLOAT32, td_dims(2), (float[]){1, 2});
    CU_ASSERT_EQUAL(td_set_requires_grad(x, true), TD_OK);
    return x;
}

static void hooks_and_their_answers(void)
{
    td_client *c = join();
    played p = {.times = 10};
    td_scope s;
    td_scope_begin(&s);
    td_set_on_hook(c, on_hook, &p);
    td_array *x = leaf(c), *y = td_mul(x, 3), *z = td_sum(td_square(y));
    uint32_t first = td_hook(y, TD_ON_TENSOR);
    CU_ASSERT_TRUE(first && td_hook(x, TD_ON_LEAF));
    CU_ASSERT_EQUAL(td_backward(z, NULL, TD_RETAIN_GRAPH), TD_OK);
    CU_ASSERT_STRING_EQUAL(p.log, "1:1/1/1 2:1/1/0 ");
    CHECK_VALUES(td_grad(x), 180, 360);
    p.log[0] = 0;
    CU_ASSERT_EQUAL(td_unhook(c, first), TD_OK);
    p.inner = td_sum(td_mul(x, x));
    CU_ASSERT_EQUAL(td_backward(z, NULL, TD_RETAIN_GRAPH), TD_OK);
    CU_ASSERT_STRING_EQUAL(p.log, "2:1/1/0 2:1/1/0 "); /* its own, within the first */
    CHECK_VALUES(td_grad(x), 200, 400);
    p.gives_up = true;
    CU_ASSERT_EQUAL(td_backward(z, NULL, TD_RETAIN_GRAPH), TD_E_CANCELLED);
    CU_ASSERT_STRING_EQUAL(td_last_error()->message, "a hook gave the backward up");
    p.gives_up = false;
    td_client *other = join();
    CU_ASSERT_NOT_EQUAL(td_hook(y, TD_ON_TENSOR), 0);
    p.foreign = td_ones(other, td_dims(2), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_backward(z, NULL, TD_RETAIN_GRAPH), TD_E_CANCELLED);
    CU_ASSERT_STRING_EQUAL(td_last_error()->message, "a hook's answer belongs to another connection");
    CU_ASSERT_EQUAL(td_sync(other), TD_OK);
    td_disconnect(other);
    p.times = 1;
    td_array *g = NULL;
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(z), td_arrays_of(0, NULL), td_arrays(x), 0, &g), TD_OK);
    CHECK_VALUES(g, 18, 36);
    td_scope_end(&s);
    td_disconnect(c);
}

static void functions(void)
{
    td_client *c = join();
    played p = {.times = 0};
    td_scope s;
    td_scope_begin(&s);
    td_set_on_hook(c, on_hook, &p);
    td_array *x = leaf(c);
    bool was = td_set_grad_enabled(false);
    td_array *y = td_square(x);
    td_set_grad_enabled(was);
    uint32_t hook = td_at_function("here.c:1", "Square", td_arrays(x), td_arrays(y), td_arrays(x), NULL);
    CU_ASSERT_NOT_EQUAL(hook, 0);
    CU_ASSERT_EQUAL(td_backward(td_sum(y)), TD_OK);
    CU_ASSERT_STRING_EQUAL(p.log, "5:2/1/1 ");
    CHECK_VALUES(td_grad(x), 2, 4);
    td_graph_node node, next;
    int n;
    CU_ASSERT_EQUAL(td_graph_of(y, &node), TD_OK);
    CU_ASSERT_TRUE(node.kind == 3 && node.inputs == 1 && !strcmp(node.op, "Square") && !strcmp(node.where, "here.c:1"));
    CU_ASSERT_EQUAL(td_graph_next(c, &node, &next, &n), TD_OK);
    CU_ASSERT_TRUE(n == 1 && next.kind == 1 && next.number && next.number != node.number);
    CU_ASSERT_EQUAL(td_graph_release(c, next.number), TD_OK);
    CU_ASSERT_EQUAL(td_graph_release(c, node.number), TD_OK);
    CU_ASSERT_EQUAL(td_graph_of(x, &node), TD_OK);
    CU_ASSERT_EQUAL(node.number, 0);
    td_scope_end(&s); /* and with the node its hook */
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    uint32_t gone = 0;
    CU_ASSERT_EQUAL(td_gone_hooks(c, 1, &gone), 1);
    CU_ASSERT_EQUAL(gone, hook);
    td_disconnect(c);
}

static void what_is_refused(void)
{
    td_client *c = join();
    td_scope s;
    td_scope_begin(&s);
    td_array *x = leaf(c), *plain = td_from_data(c, TD_FLOAT32, td_dims(1), (float[]){1});
    CU_ASSERT_EQUAL(td_hook(NULL, TD_ON_TENSOR), 0);
    CU_ASSERT_NOT_EQUAL(td_hook(plain, TD_ON_TENSOR), 0); /* told later, as an op's errors are */
    CU_ASSERT_EQUAL(td_sync(c), TD_E_AUTOGRAD);
    CU_ASSERT_EQUAL(
        td_at_function(NULL, "F", td_arrays_of(0, NULL), td_arrays_of(0, NULL), td_arrays_of(0, NULL), NULL), 0);
    td_array *result = NULL; /* an op that failed gave it */
    td_clear_error();
    CU_ASSERT_EQUAL(td_at_function(NULL, "F", td_arrays(x), td_arrays_of(1, &result), td_arrays_of(0, NULL), NULL), 0);
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_INVALID);
    CU_ASSERT_STRING_EQUAL(td_last_error()->message, "a result is NULL");
    td_clear_error();
    td_array *y = td_mul(x, 2);
    CU_ASSERT_NOT_EQUAL(td_hook(y, TD_ON_TENSOR), 0);
    CU_ASSERT_EQUAL(td_backward(td_sum(y)), TD_OK); /* nobody runs it: all stays as it is */
    CHECK_VALUES(td_grad(x), 2, 2);
    td_scope_end(&s);
    td_disconnect(c);
}

/* What ops save, and its number. */
typedef struct kept {
    td_array *value[8];
    uint32_t hook[8];
    int n, most, outputs;
} kept;

static int on_saved(td_client *c, const td_saved_value *saved, uint32_t hook, void *context)
{
    kept *k = context;
    (void)c;
    k->outputs += saved->output;
    if (k->n == k->most) return -1;
    k->value[k->n] = td_copy(saved->value, td_dtype_of(saved->value));
    k->hook[k->n++] = hook;
    return 1;
}

static int on_unpack(td_client *c, const td_hook_call *call, void *context)
{
    kept *k = context;
    (void)c;
    CU_ASSERT_TRUE(call->kind == TD_ON_UNPACK && call->n == 0 && call->wanted == 1);
    int at = 0;
    while (at < k->n && k->hook[at] != call->hook) at++;
    if (at == k->n) return 0; /* not a value: it is refused */
    call->answer[0] = td_mul(k->value[at], 10);
    return 1;
}

static void what_ops_save(void)
{
    td_client *c = join();
    kept k = {.most = 8};
    td_scope s;
    td_scope_begin(&s);
    td_set_on_hook(c, on_unpack, &k);
    td_array *x = leaf(c), *w = leaf(c);
    td_set_on_saved(on_saved, &k);
    td_array *y = td_mul(x, w), *z = td_add(y, 1), *u = td_exp(td_mul(x, 0));
    td_set_on_saved(NULL, NULL);
    CU_ASSERT_EQUAL(k.n, 3);
    CU_ASSERT_EQUAL(k.outputs, 1);
    CU_ASSERT_EQUAL(td_at_backward(NULL, td_arrays(td_sum(z)), td_arrays_of(0, NULL), TD_RETAIN_GRAPH), TD_OK);
    CHECK_VALUES(td_grad(x), 10, 20);
    CHECK_VALUES(td_grad(w), 10, 20);
    td_graph_node node;
    td_saved_value v;
    CU_ASSERT_EQUAL(td_graph_of(u, &node), TD_OK);
    CU_ASSERT_EQUAL(td_graph_saved(c, node.number, 0, &v), TD_OK);
    CU_ASSERT_TRUE(v.hook == k.hook[2] && v.output && !v.value && v.name[0]);
    CU_ASSERT_EQUAL(td_graph_saved(c, node.number, 1, &v), TD_OK);
    CU_ASSERT_EQUAL(v.name[0], 0);
    CU_ASSERT_EQUAL(td_graph_pack(c, node.number, 0, td_hook_number(c)), 0); /* it is packed already */
    CU_ASSERT_EQUAL(td_graph_pack(c, node.number, 77, td_hook_number(c)), 0);
    k.n = 0; /* nobody knows them any more */
    CU_ASSERT_EQUAL(td_backward(td_sum(z)), TD_E_AUTOGRAD);
    k.most = 0;
    td_set_on_saved(on_saved, &k);
    CU_ASSERT_PTR_NULL(td_mul(x, w));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_CANCELLED);
    td_set_on_saved(NULL, NULL);
    CU_ASSERT_PTR_NOT_NULL(td_mul(x, w));
    td_scope_end(&s);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_hooks", start_server, stop_server, {"hooks and their answers", hooks_and_their_answers},
                   {"functions", functions}, {"what ops save", what_ops_save}, {"what is refused", what_is_refused})
