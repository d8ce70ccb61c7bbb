/* Memory that is out just when a table has to be made or grown: whoever asked is told, nothing is left half done, and
 * the next who asks is served. Each request is tried with its first allocation failing, then with its second, and so
 * on until one is served; nothing may end the process. */
#include "daemon/session/calls/calls.h"
#include "proto/ops/opid.h"
#include "tests/unit/cunit_main.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t each); /* also what a compiler makes of malloc and memset */
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void __real_free(void *p);
void __wrap_free(void *p);
enum { LARGE = 64 << 10 };
static int until_failure; /* the so-many-th allocation from now fails; 0: none */

static _Thread_local long large; /* blocks that this thread has made and not freed */

static void *counted(void *p, int sign)
{
    if (p && malloc_usable_size(p) >= LARGE) large += sign;
    return p;
}

void *__wrap_malloc(size_t n)
{
    return until_failure && --until_failure == 0 ? NULL : counted(__real_malloc(n), 1);
}

void *__wrap_calloc(size_t n, size_t each)
{
    return until_failure && --until_failure == 0 ? NULL : counted(__real_calloc(n, each), 1);
}

void *__wrap_realloc(void *p, size_t n)
{
    if (until_failure && --until_failure == 0) return NULL;
    long before = p && malloc_usable_size(p) >= LARGE;
    void *q = counted(__real_realloc(p, n), 1);
    if (q) large -= before;
    return q;
}

void __wrap_free(void *p)
{
    __real_free(counted(p, -1));
}

static td_service service;
static td_sessions sessions;
static td_session *s;
static td_writer writer;
static td_tensor *x, *g; /* a tensor, and what could be its gradient */

static void ignore(void *arg)
{
    (void)arg;
}

static int start(void)
{
    static const uint8_t hello[] = {1 << 3, TD_PROTOCOL};
    td_frame f = {.kind = TD_FRAME_HELLO, .payload = hello, .bytes = sizeof hello, .fd = -1};
    td_session_io io = {.writer = &writer, .wrote = ignore, .resume = ignore};
    td_service_options o = {.memory = 64 << 20, .workers = 0};
    td_error e = {0};
    if (td_service_init(&service, &o, &e)) return 1;
    td_sessions_init(&sessions, &service);
    td_writer_init(&writer);
    if (td_session_new(&s, &sessions, &io, &(td_peer_id){0, 1}, &f, &e)) return 1;
    td_place place = {.heap = s->heap, .account = s->account};
    td_storage *st;
    td_desc d;
    td_desc_contiguous(&d, TD_FLOAT32, 0, NULL, NULL);
    if (td_storage_new(&st, &place, 4, NULL, &e) || td_tensor_new(&x, st, &d, s->account, &e)) return 1;
    td_storage_unref(st);
    if (td_tensor_view(&g, x, &x->desc, s->account, &e)) return 1;
    td_tensor_unref(td_tensor_hold(x)); /* somebody could ask for its gradients */
    return 0;
}

static int stop(void)
{
    td_tensor_unref(g);
    td_tensor_unhold(x);
    td_session_end(s, false);
    td_writer_deinit(&writer);
    while (td_sessions_clear(&sessions, INT_MAX)) {
    }
    td_live left = td_live_counts();
    td_service_deinit(&service);
    return left.tensors || left.storages;
}

/* How often it was refused before it was served. */
static int refused(int (*request)(int number, td_error *e), int number)
{
    td_live before = td_live_counts();
    uint64_t objects = s->account->parent->objects;
    for (int n = 1;; n++) {
        td_error e = {0};
        until_failure = n;
        int rc = request(number, &e);
        until_failure = 0;
        if (!rc) return n - 1;
        CU_ASSERT_EQUAL_FATAL(rc, TD_E_SYSTEM); /* TD_E_MEMORY would be waited for */
        CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "no memory "));
        CU_ASSERT_EQUAL(td_live_counts().tensors, before.tensors);
        CU_ASSERT_EQUAL(s->account->parent->objects, objects);
    }
}

static int publish(int number, td_error *e)
{
    char name[16];
    snprintf(name, sizeof name, "n%d", number);
    return td_name_publish(&service, name, x, s->account, false, false, e);
}

static int set_grad(int number, td_error *e)
{
    return td_set_grad(x, 1000 + (uint32_t)number, g, e);
}

static int lease(int number, td_error *e)
{
    (void)number;
    td_fill_lease *l;
    td_need need = {0};
    int rc = td_lease_new(s, 64, &l, &need, e);
    if (!rc) td_lease_take(s, l, NULL);
    return rc;
}

static td_member *members[300];

static int join(int number, td_error *e)
{
    char name[16];
    snprintf(name, sizeof name, "q%d", number);
    return td_queue_join(&members[number], &service, name, 1, TD_QUEUE_PRODUCER, 0, s->account, e);
}

static int handle(int number, td_error *e)
{
    char name[] = "handles";
    Td__Wire__QueueOpen q;
    td__wire__queue_open__init(&q);
    q.name = name, q.queue = (uint32_t)number, q.role = TD_QUEUE_PRODUCER, q.capacity = 1;
    td_writer_deinit(&writer); /* a reply takes memory, too, but not of this request */
    td_writer_init(&writer);
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.serial = 1, call.queue_open = &q;
    return td_call_queue_open(s, &call, e);
}

/* As many as make a table grow, too. */
static void many(int (*request)(int number, td_error *e))
{
    int times = 0;
    for (int i = 0; i < 300; i++) times += refused(request, i);
    CU_ASSERT_TRUE(times >= 300 + 2); /* each its record; a table, its buckets; without more of them it goes on */
}

static void names(void)
{
    many(publish);
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        CU_ASSERT_EQUAL(td_name_drop(&service, name, NULL, NULL), TD_OK);
    }
}

/* As a client does it that takes the shared tensor with it: the name has changed exactly when that is there. */
static void replaced_names(void)
{
    enum { ID = 7 };
    td_error e = {0};
    int failures = 0;
    bool enough = false;
    x->storage->flags |= TD_SF_SERVICE; /* nothing is copied */
    CU_ASSERT_EQUAL_FATAL(td_objects_bind(&s->objects, ID, td_tensor_ref(x), NULL, &e), TD_OK);
    CU_ASSERT_EQUAL_FATAL(td_name_publish(&service, "v", x, s->account, false, false, &e), TD_OK);
    Td__Wire__Publish p = TD__WIRE__PUBLISH__INIT;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    p.name = "v", p.id = ID, p.replace = true;
    call.publish = &p;
    for (int n = 1; !enough; n++) {
        uint64_t before = service.editions;
        p.bind = (uint32_t)n * 2 * TD_PAGE_OBJECTS; /* its page has to be made, and room for it */
        s->stream.call = &call;
        until_failure = n;
        CU_ASSERT_EQUAL_FATAL(td_step_call(s), TD_OK);
        enough = until_failure; /* it asked for fewer */
        until_failure = 0;
        bool bound = td_objects_find(&s->objects, p.bind) != NULL;
        CU_ASSERT_EQUAL(service.editions, before + bound);
        failures += !bound;
        if (bound) td_objects_release(&s->objects, p.bind);
    }
    CU_ASSERT_TRUE(failures >= 1);
    td_objects_release(&s->objects, ID);
    CU_ASSERT_EQUAL(td_name_drop(&service, "v", NULL, NULL), TD_OK);
    x->storage->flags &= ~TD_SF_SERVICE;
}

static void gradients(void)
{
    many(set_grad);
    for (int i = 0; i < 300; i++) td_grad_drop_scope(x, 1000 + (uint32_t)i);
}

static void leases(void)
{
    many(lease);
}

static void queues(void)
{
    many(join);
    for (int i = 0; i < 300; i++) td_queue_leave(&service, members[i], false);
}

static void handles(void)
{
    many(handle);
}

/* x*x, or many of x side by side, whose formula is large; and what x gets from that, forgotten again. */
static int differentiate(int number, td_error *e)
{
    td_backward *b = NULL;
    td_tensor *y = NULL, *dx = NULL;
    bool done = false;
    int n, nin = number ? TD_MAX_INPUTS : 2;
    td_call *c = td_call_new(td_op_by_id(number ? TD_OP_STACK : TD_OP_MUL), &s->issuer, nin, 1, e);
    if (!c) return e->code;
    for (int i = 0; i < nin; i++) c->in[i] = td_in(x);
    td_attrs_init(&c->attrs);
    if (number) td_attrs_int(&c->attrs, 0);
    int rc = td_autograd_run(c, TD_GRAD_ON, &y, 1, &n, NULL, e);
    if (rc) td_call_free(c);
    if (!rc) rc = td_backward_new(&b, &s->issuer, 1, &y, number ? &y : &(td_tensor *){NULL}, 1, &x, 0, 0, e);
    while (!rc && !done) rc = td_backward_step(b, 100, &done, &(td_need){0}, e);
    if (!rc) td_backward_results(b, &dx);
    td_backward_free(b);
    td_tensor_unref(dx), td_tensor_unref(y);
    return rc;
}

static void backwards_of(int number, int least)
{
    td_error e = {0};
    CU_ASSERT_EQUAL(td_set_requires_grad(x, true, &e), 0);
    int times = 0;
    for (int n = 1, round = 0; round < 3; n++) { /* it does without some, and makes others once only */
        td_live before = td_live_counts();
        until_failure = n;
        int rc = differentiate(number, &e);
        if (until_failure) n = 0, round++; /* it asked for fewer */
        until_failure = 0;
        times += rc != 0;
        CU_ASSERT_TRUE_FATAL(rc == TD_OK || rc == TD_E_SYSTEM);
        CU_ASSERT_EQUAL(td_live_counts().tensors, before.tensors);
    }
    CU_ASSERT_TRUE(times >= least);
    CU_ASSERT_EQUAL(td_set_requires_grad(x, false, &e), 0);
}

static void backwards(void)
{
    backwards_of(0, 3);
}

static void large_backwards(void)
{
    backwards_of(1, 20); /* each select is an op, and the formula takes its blocks */
}

/* The other meaning: for this there is malloc's memory enough, and none for tensors. */
static void full(void)
{
    td_place place = {.heap = s->heap, .account = s->account};
    td_storage *st;
    td_error e = {0};
    td_need need = {0};
    CU_ASSERT_EQUAL(td_storage_new(&st, &place, 128 << 20, &need, &e), TD_E_MEMORY);
    CU_ASSERT_TRUE(td_need_may_pass(TD_E_MEMORY));
    CU_ASSERT_FALSE(td_need_may_pass(TD_E_SYSTEM)); /* who has no memory for a record is told at once */
    CU_ASSERT_EQUAL(td_no_memory(&e, "for %d things", 3), TD_E_SYSTEM);
    CU_ASSERT_STRING_EQUAL(e.message, "no memory for 3 things");
}

static void *a_daemon(void *arg)
{
    td_service one = {0};
    td_service_options o = {.memory = 64 << 20, .workers = 0};
    td_error e = {0};
    td_attrs a;
    td_tensor *t = NULL;
    if (td_service_init(&one, &o, &e)) return NULL;
    td_issuer who = {.account = one.account, .heap = one.heap, .scheduler = one.sched, .submit = s->issuer.submit};
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, (int64_t[]){2});
    td_attrs_dtype(&a, TD_FLOAT32);
    if (!td_ops_run(&who, TD_OP_EMPTY, 0, NULL, &a, 0, 1, &t, &e)) *(bool *)arg = true;
    td_tensor_unref(t);
    td_service_deinit(&one);
    return (void *)large;
}

/* A daemon that runs on a thread, and ends before its process. */
static void on_a_thread(void)
{
    pthread_t thread;
    void *left;
    bool ran = false;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, a_daemon, &ran), 0);
    pthread_join(thread, &left);
    CU_ASSERT_TRUE(ran);
    CU_ASSERT_EQUAL((long)left, 0);
}

TD_CUNIT_MAIN_WITH("starved", start, stop, {"names", names}, {"names that are replaced", replaced_names},
                   {"gradients of a scope", gradients}, {"leases", leases}, {"queues", queues},
                   {"handles of queues", handles}, {"backwards", backwards}, {"large backwards", large_backwards},
                   {"the other meaning", full}, {"on a thread", on_a_thread})
