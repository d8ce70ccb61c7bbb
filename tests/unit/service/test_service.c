/* Names, queues and deadlines: who is woken, with what, and that nothing stays behind. */
#include "daemon/service/laps.h"
#include "daemon/service/queue.h"
#include "daemon/tensor/device.h"
#include "tests/support/hand_clock.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

enum { MS = 1000000 }; /* the clock goes on by hand */

static td_service s;
static td_heap *heap;
static td_account *alice, *bob, *user;

static td_tensor *tensor(float v)
{
    td_place place = {.heap = heap, .account = alice};
    td_storage *st = NULL;
    td_tensor *t = NULL;
    td_desc d;
    td_desc_contiguous(&d, TD_FLOAT32, 0, NULL, NULL);
    CU_ASSERT_EQUAL_FATAL(td_storage_new(&st, &place, 4, NULL, NULL), TD_OK);
    memcpy(st->data, &v, 4);
    CU_ASSERT_EQUAL_FATAL(td_tensor_new(&t, st, &d, alice, NULL), TD_OK);
    td_storage_unref(st);
    return t;
}

static td_account *account(const char *name, uint32_t session, uint32_t uid, td_account *parent)
{
    td_account *a = td_account_new(parent);
    a->session = session;
    a->uid = uid;
    a->pid = 1000 + session;
    snprintf(a->name, sizeof a->name, "%s", name);
    return a;
}

static int init(void)
{
    hand_clock_stop(0);
    td_budget_init(&s.budget, 64 << 20, TD_SHM_MEMFD);
    td_device_add(
        &(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &s.budget, .plans = td_cpu_plans});
    s.account = account("service", 0, 0, NULL);
    user = account("uid 7", 0, 7, NULL);
    alice = account("alice", 1, 7, user);
    bob = account("bob", 2, 8, NULL);
    return td_heap_new(&heap, &s.budget, TD_SEGMENT_SESSION, 7, NULL);
}

static int cleanup(void)
{
    td_live live = td_live_counts();
    bool clean = live.tensors == 0 && live.storages == 0 && user->objects == 0 && s.queues == NULL && s.names == NULL &&
                 !s.deadlines;
    td_heap_free(heap);
    td_account_unref(alice);
    td_account_unref(bob);
    td_account_unref(user);
    td_account_unref(s.account);
    td_budget_deinit(&s.budget);
    return clean ? 0 : 1;
}

/* ---- what a callback got */

typedef struct told {
    int times;
    td_queued_item *item;
    td_tensor *tensor;
    bool held;
    td_error error;
} told;

static void queue_told(void *arg, td_queued_item *item, const td_error *error)
{
    told *t = arg;
    t->times++;
    t->item = item;
    if (error) t->error = *error;
}

static void name_told(void *arg, const td_named *what, const td_error *error)
{
    td_tensor *tensor_found = what->tensor;
    told *t = arg;
    t->times++;
    t->held = tensor_found && !(tensor_found->flags & TD_TF_UNHELD);
    t->tensor = tensor_found;
    if (error) t->error = *error;
}

static td_member *join(const char *name, uint32_t capacity, uint32_t role, const td_account *who)
{
    td_member *m = NULL;
    CU_ASSERT_EQUAL_FATAL(td_queue_join(&m, &s, name, capacity, role, 0, who, NULL), TD_OK);
    return m;
}

static td_queued_item *item(float v)
{
    td_tensor *t = tensor(v);
    td_queued_item *i = NULL;
    CU_ASSERT_EQUAL_FATAL(td_queue_item_new(&i, NULL, 1, 4, NULL), TD_OK);
    td_queue_item_add(i, t, false, NULL);
    memcpy(i->note, "note", 4);
    td_tensor_unref(t);
    return i;
}

static float value(const td_queued_item *i)
{
    float v;
    memcpy(&v, td_tensor_data(i->tensors[0]), 4);
    return v;
}

/* ---- names */

static void names_bind(void)
{
    td_error e = {0};
    td_tensor *a = tensor(1), *b = tensor(2);
    CU_ASSERT_EQUAL(td_name_publish(&s, "w", a, alice, false, false, &e), TD_OK);
    CU_ASSERT_PTR_EQUAL(td_name_find(&s, "w", &e), a);
    CU_ASSERT_EQUAL(td_name_publish(&s, "w", b, alice, false, false, &e), TD_E_EXISTS);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "alice (pid 1001)"));
    CU_ASSERT_EQUAL(td_name_publish(&s, "w", b, bob, true, false, &e), TD_E_PERMISSION);
    CU_ASSERT_EQUAL(td_name_publish(&s, "w", b, alice, true, false, &e), TD_OK);
    CU_ASSERT_PTR_EQUAL(td_name_find(&s, "w", &e), b);
    CU_ASSERT_EQUAL(a->refs, 1);
    CU_ASSERT_EQUAL(user->objects > 0, true);
    CU_ASSERT_EQUAL(td_name_publish(&s, "", a, alice, false, false, &e), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_name_publish(&s, "a\nb", a, alice, false, false, &e), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_name_drop(&s, "w", bob, &e), TD_E_PERMISSION);
    CU_ASSERT_EQUAL(td_name_drop(&s, "w", alice, &e), TD_OK);
    CU_ASSERT_EQUAL(td_name_drop(&s, "w", alice, &e), TD_E_NOT_FOUND);
    CU_ASSERT_PTR_NULL(td_name_find(&s, "w", NULL));
    td_tensor_unref(a);
    td_tensor_unref(b);
}

/* Bytes of a name: 1 to so many, none of which begins a control character. */
static void names_are_text(void)
{
    static const struct {
        const char *name;
        int code;
    } rows[] = {{"a", TD_OK},           {"a b", TD_OK},         {"\x1f", TD_E_INVALID},     {"a~", TD_OK},
                {"\x7f", TD_E_INVALID}, {"caf\xc3\xa9", TD_OK}, {"\xc2\x80", TD_E_INVALID}, {"a\xc2\x9f", TD_E_INVALID},
                {"\xc2\xa0", TD_OK}};
    char name[TD_NAME_MAX + 2];
    td_error e = {0};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        CU_ASSERT_EQUAL(td_name_check(rows[k].name, &e), rows[k].code);
    CU_ASSERT_EQUAL(td_name_check("ab\x1b", &e), TD_E_INVALID);
    CU_ASSERT_STRING_EQUAL(e.message, "byte 2 of the name is a control character (0x1b)");
    memset(name, 'n', sizeof name);
    name[TD_NAME_MAX] = 0;
    CU_ASSERT_EQUAL(td_name_check(name, &e), TD_OK);
    name[TD_NAME_MAX] = 'n', name[TD_NAME_MAX + 1] = 0;
    CU_ASSERT_EQUAL(td_name_check(name, &e), TD_E_INVALID);
    CU_ASSERT_PTR_NULL(s.names);
}

/* Its user pays for a name, and may replace and drop it, and so may root; the name says who did so last. */
static void names_have_an_owner(void)
{
    td_tensor *t = tensor(1), *u = tensor(2);
    td_account *sister = account("sister", 3, 7, user), *root = account("root", 4, 0, NULL);
    td_error e = {0};
    uint64_t before = user->objects, services = s.account->objects;
    hand_clock_go_on(5 * MS);
    CU_ASSERT_EQUAL(td_name_publish(&s, "w", t, alice, false, false, &e), TD_OK);
    const td_name *n = td_name_newer(&s, "w", 0, &e);
    CU_ASSERT_TRUE_FATAL(n && n->session == 1 && n->pid == 1001 && !strcmp(n->program, "alice") && n->account == user);
    uint64_t since = n->since_ms;
    CU_ASSERT_TRUE(user->objects == before + 1 && s.name_count == 1);
    hand_clock_go_on(5 * MS);
    CU_ASSERT_EQUAL(td_name_publish(&s, "w", u, sister, true, false, &e), TD_OK);
    CU_ASSERT_TRUE(n->session == 3 && n->pid == 1003 && !strcmp(n->program, "sister") && n->since_ms > since);
    CU_ASSERT_EQUAL(td_name_publish(&s, "w", t, root, true, false, &e), TD_OK);
    CU_ASSERT_TRUE(n->account == user && user->objects == before + 1 && s.name_count == 1 && u->refs == 1);
    CU_ASSERT_EQUAL(td_name_publish(&s, "r", u, root, false, false, &e),
                    TD_OK); /* whose user has no account: the service pays */
    CU_ASSERT_TRUE(s.account->objects == services + 1 && s.name_count == 2);
    CU_ASSERT_EQUAL(td_name_drop(&s, "r", alice, &e), TD_E_PERMISSION);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "'r' belongs to uid 0"));
    CU_ASSERT_EQUAL(td_name_drop(&s, "r", root, &e), TD_OK);
    CU_ASSERT_EQUAL(td_name_drop(&s, "w", root, &e), TD_OK);
    CU_ASSERT_TRUE(user->objects == before && s.account->objects == services && !s.names && !s.name_count);
    user->limit_objects = user->objects;
    CU_ASSERT_EQUAL(td_name_publish(&s, "w", t, alice, false, false, &e), TD_E_QUOTA);
    CU_ASSERT_TRUE(user->objects == before && !s.names && t->refs == 1);
    user->limit_objects = 0;
    td_account_unref(sister), td_account_unref(root);
    td_tensor_unref(t), td_tensor_unref(u);
}

/* What is published is no model's: who wants to load one there is told what it is, and whose. */
static void names_that_models_want(void)
{
    td_tensor *t = tensor(1);
    td_error e = {0};
    CU_ASSERT_EQUAL(td_name_for_model(&s, "m", alice, true, &e), TD_OK);
    CU_ASSERT_EQUAL(td_name_for_model(&s, "m\n", alice, true, &e), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_name_publish(&s, "m", t, bob, false, false, &e), TD_OK);
    CU_ASSERT_EQUAL(td_name_for_model(&s, "m", bob, false, &e), TD_E_EXISTS);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "is taken by a tensor that bob (pid 1002) published"));
    td_name_drop(&s, "m", NULL, NULL);
    td_tensor_unref(t);
}

static unsigned walked;
static void walk(const td_name *n, void *arg)
{
    CU_ASSERT_PTR_EQUAL(arg, &walked);
    walked |= 1u << (n->name[0] - 'a');
}

/* All of them, or so many at a time, also where the one that would come next goes meanwhile. */
static void names_are_walked(void)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    td_tensor *t = tensor(1);
    walked = 0;
    CU_ASSERT_TRUE(td_name_some(&s, true, 2, walk, &walked));
    for (int gone = 0; gone < 4; gone++) {
        for (int k = 0; k < 4; k++) td_name_publish(&s, names[k], t, alice, false, false, NULL);
        walked = 0;
        td_name_each(&s, 3, walk, &walked);
        CU_ASSERT_EQUAL(walked, 7);
        td_name_each(&s, UINT32_MAX, walk, &walked);
        CU_ASSERT_EQUAL(walked, 15);
        walked = 0;
        CU_ASSERT_FALSE(td_name_some(&s, true, 2, walk, &walked));
        CU_ASSERT_EQUAL(walked, 3);
        td_name_drop(&s, names[gone], NULL, NULL);
        CU_ASSERT_EQUAL(td_name_some(&s, false, 1, walk, &walked), gone >= 2);
        CU_ASSERT_TRUE(td_name_some(&s, false, 2, walk, &walked));
        CU_ASSERT_EQUAL(walked, gone >= 2 ? 15 - (1 << gone) : 15);
        for (int k = 0; k < 4; k++) td_name_drop(&s, names[k], NULL, NULL);
    }
    td_tensor_unref(t);
}

/* As long as the service lives they grow, also when the name was dropped; what it never gave out is another's. */
static void versions_are_of_one_service(void)
{
    td_tensor *t = tensor(2);
    td_error e = {0};
    s.no_edition = s.editions += 1000;
    CU_ASSERT_EQUAL(td_name_publish(&s, "v", t, alice, false, false, &e), TD_OK);
    uint64_t first = s.editions;
    CU_ASSERT_PTR_NOT_NULL(td_name_newer(&s, "v", 0, &e));
    CU_ASSERT_PTR_NULL(td_name_newer(&s, "v", first, &e));
    CU_ASSERT_EQUAL(e.code, TD_E_NOT_NEWER);
    td_name_drop(&s, "v", alice, NULL);
    CU_ASSERT_PTR_NULL(td_name_newer(&s, "v", first, &e));
    CU_ASSERT_EQUAL(e.code, TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(td_name_publish(&s, "v", t, alice, false, false, &e), TD_OK);
    CU_ASSERT_PTR_NOT_NULL(td_name_newer(&s, "v", first, &e));
    const uint64_t others[] = {1, s.no_edition, s.editions + 1, UINT64_MAX};
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        e = (td_error){0};
        CU_ASSERT_PTR_NULL(td_name_newer(&s, k % 2 ? "v" : "nobody's", others[k], &e));
        CU_ASSERT_TRUE(e.code == TD_E_CLOSED && strstr(e.message, "began anew"));
    }
    td_name_drop(&s, "v", alice, NULL);
    td_tensor_unref(t);
}

static void names_many(void)
{
    td_tensor *t = tensor(3);
    char name[32];
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "layer.%d", i);
        CU_ASSERT_EQUAL(td_name_publish(&s, name, t, alice, false, false, NULL), TD_OK);
    }
    CU_ASSERT_EQUAL(s.name_count, 3000);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "layer.%d", i);
        CU_ASSERT_EQUAL(td_name_drop(&s, name, NULL, NULL), TD_OK);
    }
    CU_ASSERT_EQUAL(t->refs, 1);
    td_tensor_unref(t);
}

/* However short it is lent for: while its lender lives nothing is to be done every millisecond. */
static void lent_names_cost_little(void)
{
    td_tensor *t = tensor(4);
    CU_ASSERT_EQUAL(td_name_hand(&s, "lent", t, alice, 1, true, NULL), TD_OK);
    hand_clock_go_on(5 * MS);
    td_deadlines_run(&s);
    CU_ASSERT_TRUE(td_deadlines_run(&s) > 500000);
    CU_ASSERT_PTR_NOT_NULL(td_name_find(&s, "lent", NULL));
    td_name_drop(&s, "lent", NULL, NULL);
    td_tensor_unref(t);
}

static bool is_there(const char *name)
{
    return td_name_find(&s, name, NULL) != NULL;
}

/* As often as it was given, and as long as its id stands. */
static void handles_are_taken(void)
{
    td_tensor *t = tensor(4);
    char one[TD_HANDLE_TEXT], other[TD_HANDLE_TEXT];
    CU_ASSERT_EQUAL(td_handle_new(&s, one, t, alice, 60000, false, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_handle_new(&s, other, t, alice, 60000, true, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_handle_again(&s, one, alice, 60000, false, NULL), TD_OK);
    CU_ASSERT_TRUE(strcmp(one, other) != 0 && s.name_count == 2);
    for (int i = 0; i < 4; i++) td_name_taken(&s, one), td_name_taken(&s, other); /* more than were given it */
    CU_ASSERT_TRUE(is_there(one) && is_there(other));
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
    td_handle_again(&s, one, alice, 60000, false, NULL);
    td_handle_let_go(&s, one), td_handle_let_go(&s, other);
    CU_ASSERT_TRUE(is_there(one) && !is_there(other));
    td_name_taken(&s, one);
    CU_ASSERT_FALSE(is_there(one));
    td_error e;
    CU_ASSERT_EQUAL(td_handle_again(&s, one, alice, 60000, false, &e), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
    CU_ASSERT_EQUAL(t->refs, 1);
    td_tensor_unref(t);
}

/* What nobody takes: for its time; a lasting one for its time after the end of its session. */
static void handles_are_left_lying(void)
{
    td_tensor *t = tensor(4);
    td_account *who = td_account_new(alice);
    char stands[TD_HANDLE_TEXT], gone[TD_HANDLE_TEXT], lasting[TD_HANDLE_TEXT];
    CU_ASSERT_EQUAL(td_handle_new(&s, stands, t, who, 1, false, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_handle_new(&s, gone, t, who, 1, false, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_handle_new(&s, lasting, t, who, 1, true, NULL), TD_OK);
    td_handle_let_go(&s, gone), td_handle_let_go(&s, lasting);
    while (is_there(gone)) hand_clock_go_on(1 * MS), td_deadlines_run(&s);
    CU_ASSERT_TRUE(is_there(stands) && is_there(lasting));
    CU_ASSERT_TRUE(td_deadlines_run(&s) <= 1000000); /* only the lasting one is looked after */
    who->ended = true;
    while (td_deadlines_run(&s) != UINT64_MAX) hand_clock_go_on(1 * MS);
    CU_ASSERT_TRUE(is_there(stands) && !is_there(lasting));
    td_handle_let_go(&s, stands);
    CU_ASSERT_TRUE(!is_there(stands) && t->refs == 1 && who->refs == 1);
    td_tensor_unref(t);
    td_account_unref(who);
}

/* What is lent under a name is there for all, what is handed on or lent under a handle's for one, who may have waited.
 */
static void names_are_handed_on(void)
{
    static const struct {
        const char *name;
        bool lent, one_taker;
    } rows[] = {{"for all", true, false}, {"for one", false, true}, {TD_HANDLE_PREFIX "1", true, true}};
    td_tensor *t = tensor(4);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const char *name = rows[k].name;
        told one = {0};
        td_name_wait *w;
        CU_ASSERT_EQUAL(td_name_hand(&s, name, t, alice, 60000, rows[k].lent, NULL), TD_OK);
        CU_ASSERT_EQUAL(td_name_hand(&s, name, t, alice, 60000, rows[k].lent, NULL), TD_E_EXISTS);
        td_name_taken(&s, name);
        CU_ASSERT_EQUAL(is_there(name), !rows[k].one_taker);
        td_name_drop(&s, name, NULL, NULL);
        CU_ASSERT_EQUAL(td_name_wait_new(&w, &s, name, UINT32_MAX, name_told, &one, NULL), TD_OK);
        CU_ASSERT_EQUAL(td_name_hand(&s, name, t, alice, 60000, rows[k].lent, NULL), TD_OK);
        CU_ASSERT_TRUE(one.times == 1 && one.tensor == t && one.held);
        CU_ASSERT_EQUAL(is_there(name), !rows[k].one_taker);
        td_name_drop(&s, name, NULL, NULL);
        CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
    }
    CU_ASSERT_EQUAL(td_name_hand(&s, "replaced", t, alice, 1, true, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_name_publish(&s, "replaced", t, alice, true, 0, NULL),
                    TD_OK); /* a name, which is nobody's loan */
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
    td_name_taken(&s, "replaced");
    CU_ASSERT_TRUE(is_there("replaced"));
    td_name_taken(&s, "nobody's");
    td_handle_let_go(&s, "replaced"), td_handle_let_go(&s, "nobody's"); /* no handles */
    CU_ASSERT_TRUE(is_there("replaced"));
    td_name_drop(&s, "replaced", NULL, NULL);
    CU_ASSERT_EQUAL(t->refs, 1);
    td_tensor_unref(t);
}

/* When the service ends, who waits is forgotten, and so is who was about to be told. */
static void waits_are_dropped(void)
{
    enum { MANY = 600 };
    static told all[MANY], never;
    td_name_wait *w;
    td_tensor *t = tensor(4);
    int n = 0;
    for (int i = 0; i < MANY; i++) {
        all[i] = (told){0};
        CU_ASSERT_EQUAL(td_name_wait_new(&w, &s, i % 2 ? "one" : "two", 60000, name_told, &all[i], NULL), TD_OK);
    }
    for (int i = 0; i < 3; i++) td_name_wait_new(&w, &s, i ? "never" : "nor this", 60000, name_told, &never, NULL);
    td_name_publish(&s, "one", t, alice, false, false, NULL);
    td_name_publish(&s, "two", t, alice, false, false, NULL);
    for (int i = 0; i < MANY; i++) n += all[i].times;
    CU_ASSERT_TRUE(n > 0 && n < MANY / 2);
    td_name_drop(&s, "one", NULL, NULL), td_name_drop(&s, "two", NULL, NULL);
    td_name_waits_drop(&s);
    CU_ASSERT_TRUE(!s.name_waits && !s.name_told && never.times == 0 && t->refs == 1);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
    td_tensor_unref(t);
}

static void names_waited_for(void)
{
    told one = {0}, two = {0}, gone = {0};
    td_name_wait *w1, *w2, *w3;
    CU_ASSERT_EQUAL(td_name_wait_new(&w1, &s, "late", UINT32_MAX, name_told, &one, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_name_wait_new(&w2, &s, "late", 60000, name_told, &two, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_name_wait_new(&w3, &s, "never", 1, name_told, &gone, NULL), TD_OK);
    td_tensor *t = tensor(4);
    td_name_publish(&s, "late", t, alice, false, false, NULL);
    CU_ASSERT_TRUE(one.times == 1 && one.tensor == t && two.times == 1 && two.tensor == t);
    CU_ASSERT_EQUAL(gone.times, 0);
    hand_clock_go_on(5 * MS);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
    CU_ASSERT_TRUE(gone.times == 1 && gone.error.code == TD_E_TIMEOUT && strstr(gone.error.message, "'never'"));
    td_error e;
    uint64_t version = td_name_newer(&s, "late", 0, &e)->what.edition.version;
    CU_ASSERT_PTR_NULL(td_name_newer(&s, "late", version, &e));
    CU_ASSERT_EQUAL(e.code, TD_E_NOT_NEWER);
    CU_ASSERT_EQUAL(td_name_wait_new(&w1, &s, "late", 1, name_told, &one, NULL), TD_OK);
    hand_clock_go_on(5 * MS);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
    CU_ASSERT_TRUE(one.times == 2 && one.error.code == TD_E_NOT_NEWER && strstr(one.error.message, "'late' anew"));
    td_name_drop(&s, "late", NULL, NULL);
    td_tensor_unref(t);
}

/* One that is waited for by very many, beside as many other names: each turn tells some. */
static void names_waited_for_by_many(void)
{
    enum { MANY = 20000, AT_ONCE = 1024 };
    static td_name_wait *w[MANY], *others[MANY];
    static told all[MANY];
    told none = {0};
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "other %d", i);
        all[i] = (told){0};
        CU_ASSERT_EQUAL_FATAL(td_name_wait_new(&w[i], &s, "one", 1 + 60000 * (i != 7000), name_told, &all[i], NULL), 0);
        CU_ASSERT_EQUAL_FATAL(td_name_wait_new(&others[i], &s, name, UINT32_MAX, name_told, &none, NULL), 0);
    }
    td_tensor *t = tensor(4);
    td_name_publish(&s, "one", t, alice, false, false, NULL);
    td_name_drop(&s, "one", NULL, NULL);
    td_name_wait_free(w[MANY - 1]);
    for (int n = 0, before = 0; n < MANY - 1; before = n) {
        while (n < MANY - 1 && all[n].times) n++;
        CU_ASSERT_TRUE(n - before <= AT_ONCE);
        hand_clock_go_on(2 * MS);
        td_deadlines_run(&s);
    }
    for (int i = 0; i < MANY - 1; i++) CU_ASSERT_TRUE(all[i].times == 1 && all[i].tensor == t && all[i].held);
    CU_ASSERT_TRUE(all[MANY - 1].times == 0 && none.times == 0);
    for (int i = 0; i < MANY; i++) td_name_wait_free(others[i]);
    td_tensor_unref(t);
}

/* ---- deadlines */

typedef struct timed {
    td_deadline deadline;
    uint64_t at_ms; /* of the deadline, in its own unit once that is armed; 0: it is not */
    int fired;
} timed;

static uint64_t last_fired;
static int out_of_order;
static void on_time(void *arg)
{
    timed *t = arg;
    if (t->at_ms < last_fired) out_of_order++;
    last_fired = t->at_ms;
    t->at_ms = 0;
    t->fired++;
}

/* Whatever is armed, armed again and disarmed: each fires once, in the order of its time, and none that was disarmed.
 */
static void many_deadlines_come_and_go(void)
{
    enum { MANY = 3000 };
    static timed all[MANY];
    uint32_t random = 12345, wrong = 0, left = 0;
    memset(all, 0, sizeof all);
    for (int i = 0; i < 4 * MANY; i++) {
        random = random * 1664525 + 1013904223;
        timed *t = &all[(random >> 8) % MANY];
        t->at_ms = random >> 30 ? td_clock_ms() + 1 + (random >> 20) % 50 : 0;
        if (t->at_ms) td_deadline_arm(&s, &t->deadline, t->at_ms - td_clock_ms(), on_time, t);
        else td_deadline_disarm(&s, &t->deadline);
        if (t->at_ms) t->at_ms = t->deadline.at_us;
    }
    for (int i = 0; i < MANY; i++) left += all[i].at_ms != 0;
    CU_ASSERT_EQUAL(s.ndeadlines, left);
    last_fired = out_of_order = 0;
    while (td_deadlines_run(&s) != UINT64_MAX) hand_clock_go_on(1 * MS);
    for (int i = 0; i < MANY; i++) wrong += all[i].at_ms != 0 || all[i].fired > 1 || all[i].deadline.armed;
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(out_of_order, 0);
    for (int i = 0; i < MANY; i++) left -= (uint32_t)all[i].fired;
    CU_ASSERT_EQUAL(left, 0);
    CU_ASSERT_TRUE(s.ndeadlines == 0 && !s.deadlines);
}

/* ---- queues */

static void queues_in_order(void)
{
    td_member *p = join("q", 3, TD_QUEUE_PRODUCER, alice), *c = join("q", 0, TD_QUEUE_CONSUMER, bob);
    td_queue_wait *w = NULL;
    td_queued_item *got;
    td_error e = {0};
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(td_queue_put(&s, p, item((float)i), 0, &w, queue_told, NULL, &e), TD_OK);
    td_queued_item *fourth = item(3);
    CU_ASSERT_EQUAL(td_queue_put(&s, p, fourth, 0, &w, queue_told, NULL, &e), TD_E_TIMEOUT);
    told put = {0};
    CU_ASSERT_EQUAL(td_queue_put(&s, p, fourth, UINT32_MAX, &w, queue_told, &put, &e), TD_WAIT);
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_OK);
        CU_ASSERT_EQUAL(value(got), (float)i);
        CU_ASSERT_NSTRING_EQUAL(got->note, "note", 4);
        td_queue_item_free(got);
        CU_ASSERT_EQUAL(put.times, 1); /* the first get made room */
    }
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_E_TIMEOUT);
    CU_ASSERT_EQUAL(td_queue_get(&s, p, &got, 0, &w, queue_told, NULL, &e), TD_E_PERMISSION);
    td_member *m = NULL;
    CU_ASSERT_EQUAL(td_queue_join(&m, &s, "q", 9, TD_QUEUE_CONSUMER, 0, bob, &e), TD_E_EXISTS);
    td_queue_leave(&s, p, false);
    td_queue_leave(&s, c, false);
    CU_ASSERT_PTR_NULL(s.queues);
}

static void queue_takes_the_first_capacity(void)
{
    td_member *p = join("q", 0, TD_QUEUE_PRODUCER, alice), *c, *other = NULL;
    td_queue_wait *w;
    told put = {0};
    td_queue_put(&s, p, item(1), 0, &w, queue_told, NULL, NULL);
    CU_ASSERT_EQUAL(td_queue_put(&s, p, item(2), UINT32_MAX, &w, queue_told, &put, NULL), TD_WAIT);
    c = join("q", 4, TD_QUEUE_CONSUMER, bob);
    CU_ASSERT_TRUE(put.times == 1 && put.error.code == 0 && td_queue_size(c->queue) == 2);
    CU_ASSERT_EQUAL(td_queue_join(&other, &s, "q", 5, TD_QUEUE_CONSUMER, 0, bob, NULL), TD_E_EXISTS);
    td_queue_leave(&s, p, false);
    td_queue_leave(&s, c, false);
}

/* As many as there is room for, until somebody says a number; what is in it stays. */
static void queue_without_a_number(void)
{
    td_member *p = join("q", TD_QUEUE_OPEN, TD_QUEUE_PRODUCER, alice), *other = join("q", 0, TD_QUEUE_CONSUMER, bob);
    td_queue_wait *w;
    td_queued_item *got;
    told put = {0};
    for (int i = 0; i < 100; i++)
        CU_ASSERT_EQUAL(td_queue_put(&s, p, item((float)i), 0, &w, queue_told, NULL, NULL), TD_OK);
    td_member *c = join("q", 4, TD_QUEUE_CONSUMER, bob), *same = join("q", TD_QUEUE_OPEN, TD_QUEUE_CONSUMER, bob);
    CU_ASSERT_EQUAL(td_queue_put(&s, p, item(100), UINT32_MAX, &w, queue_told, &put, NULL), TD_WAIT);
    for (int i = 0; i < 100; i++) {
        CU_ASSERT_EQUAL(put.times, i > 96);
        CU_ASSERT_EQUAL_FATAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, NULL), TD_OK);
        CU_ASSERT_EQUAL(value(got), (float)i);
        td_queue_item_free(got);
    }
    td_queue_leave(&s, p, false);
    td_queue_leave(&s, other, false);
    td_queue_leave(&s, same, false);
    td_queue_leave(&s, c, false);
}

/* One item is all that there is room for, for what it carries; when it is taken, all who wait may put, more than one
 * turn lets. Whoever comes then is behind those that are left. */
static void putters_are_let_in_by_turns(void)
{
    enum { MANY = 600, AT_ONCE = 256 };
    static told all[MANY + 1];
    td_queued_item *got, *large = NULL;
    td_queue_wait *w;
    td_member *m = join("q", TD_QUEUE_OPEN, TD_QUEUE_PRODUCER | TD_QUEUE_CONSUMER, alice);
    CU_ASSERT_EQUAL_FATAL(td_queue_item_new(&large, NULL, 0, TD_QUEUE_MOST_BYTES, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_queue_put(&s, m, large, 0, &w, queue_told, NULL, NULL), TD_OK);
    memset(all, 0, sizeof all);
    for (int i = 0; i < MANY; i++)
        CU_ASSERT_EQUAL_FATAL(td_queue_put(&s, m, item((float)i), UINT32_MAX, &w, queue_told, &all[i], NULL), TD_WAIT);
    CU_ASSERT_EQUAL_FATAL(td_queue_get(&s, m, &got, 0, &w, queue_told, NULL, NULL), TD_OK);
    CU_ASSERT_PTR_EQUAL(got, large);
    td_queue_item_free(got);
    for (int i = 0; i < MANY; i++) CU_ASSERT_EQUAL(all[i].times, i < AT_ONCE);
    CU_ASSERT_EQUAL(td_queue_put(&s, m, item(MANY), UINT32_MAX, &w, queue_told, &all[MANY], NULL), TD_WAIT);
    for (int let = AT_ONCE; let < MANY; let += AT_ONCE) {
        for (int i = 0; i <= MANY; i++) CU_ASSERT_EQUAL(all[i].times, i < let);
        hand_clock_go_on(2 * MS);
        td_deadlines_run(&s);
    }
    for (int i = 0; i <= MANY; i++) {
        CU_ASSERT_EQUAL(all[i].times, 1);
        CU_ASSERT_EQUAL_FATAL(td_queue_get(&s, m, &got, 0, &w, queue_told, NULL, NULL), TD_OK);
        CU_ASSERT_EQUAL(value(got), (float)i);
        td_queue_item_free(got);
    }
    td_queue_leave(&s, m, false);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
}

static void queue_getters_wait_in_order(void)
{
    td_member *p = join("q", 1, TD_QUEUE_PRODUCER, alice), *c = join("q", 1, TD_QUEUE_CONSUMER, bob);
    td_queue_wait *w1, *w2, *w3;
    told one = {0}, two = {0}, three = {0};
    td_queued_item *got;
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, UINT32_MAX, &w1, queue_told, &one, NULL), TD_WAIT);
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 5, &w2, queue_told, &two, NULL), TD_WAIT);
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, UINT32_MAX, &w3, queue_told, &three, NULL), TD_WAIT);
    hand_clock_go_on(8 * MS);
    td_deadlines_run(&s);
    CU_ASSERT_TRUE(two.times == 1 && two.error.code == TD_E_TIMEOUT);
    CU_ASSERT_EQUAL(td_queue_put(&s, p, item(1), 0, &w2, queue_told, NULL, NULL), TD_OK);
    CU_ASSERT_TRUE(one.times == 1 && one.item && three.times == 0);
    td_queue_wait_cancel(&s, w3);
    td_queue_item_free(one.item);
    td_queue_leave(&s, p, false);
    td_queue_leave(&s, c, false);
    CU_ASSERT_EQUAL(three.times, 0);
}

/* Very many wait for an item while as many producers die: who waits is not looked through again and again, one who
 * wants to know of deaths is told all the same, and each turn tells some of the end. */
static void queue_waited_for_by_many(void)
{
    enum { MANY = 60000, AT_ONCE = 1024 };
    static td_queue_wait *w[MANY];
    static td_member *dies[MANY];
    static told all[MANY];
    td_member *c = join("q", 1, TD_QUEUE_CONSUMER, bob), *stays = join("q", 1, TD_QUEUE_PRODUCER, alice);
    td_member *watch = join("q", 1, TD_QUEUE_CONSUMER | TD_QUEUE_WATCH, bob);
    td_queue_wait *mourning;
    td_queued_item *got;
    told death = {0};
    clock_t begin = clock();
    for (int i = 0; i < MANY; i++) {
        all[i] = (told){0};
        dies[i] = join("q", 1, TD_QUEUE_PRODUCER, alice);
        CU_ASSERT_EQUAL_FATAL(td_queue_get(&s, c, &got, UINT32_MAX, &w[i], queue_told, &all[i], NULL), TD_WAIT);
    }
    CU_ASSERT_EQUAL(td_queue_get(&s, watch, &got, UINT32_MAX, &mourning, queue_told, &death, NULL), TD_WAIT);
    CU_ASSERT_EQUAL(td_queue_look(&s, "q").waiting_get, MANY + 1);
    td_queue_wait_cancel(&s, w[MANY - 1]);
    for (int i = 0; i < MANY; i++) td_queue_leave(&s, dies[i], true);
    CU_ASSERT_TRUE(death.times == 1 && death.error.code == TD_E_DIED);
    CU_ASSERT_TRUE(clock() - begin < 4 * CLOCKS_PER_SEC);
    td_queue_end(&s, stays);
    for (int n = 0, before = 0; n < MANY - 1; before = n) {
        while (n < MANY - 1 && all[n].times) n++;
        CU_ASSERT_TRUE(n - before <= AT_ONCE);
        hand_clock_go_on(2 * MS);
        td_deadlines_run(&s);
    }
    for (int i = 0; i < MANY - 1; i++) CU_ASSERT_TRUE(all[i].times == 1 && all[i].error.code == TD_E_CLOSED);
    CU_ASSERT_TRUE(all[MANY - 1].times == 0 && death.times == 1);
    td_queue_leave(&s, watch, false);
    td_queue_leave(&s, stays, false);
    td_queue_leave(&s, c, false);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
}

static void queue_death_is_seen(void)
{
    td_member *p1 = join("q", 2, TD_QUEUE_PRODUCER, alice), *p2 = join("q", 2, TD_QUEUE_PRODUCER, bob);
    td_member *c = join("q", 2, TD_QUEUE_CONSUMER | TD_QUEUE_WATCH, bob), *plain = join("q", 2, TD_QUEUE_CONSUMER, bob);
    td_queue_wait *w, *w2;
    told watch = {0}, other = {0};
    td_queued_item *got;
    td_error e = {0};
    CU_ASSERT_EQUAL(td_queue_get(&s, plain, &got, UINT32_MAX, &w2, queue_told, &other, NULL), TD_WAIT);
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, UINT32_MAX, &w, queue_told, &watch, NULL), TD_WAIT);
    td_queue_leave(&s, p1, true);
    CU_ASSERT_TRUE(watch.times == 1 && watch.error.code == TD_E_DIED &&
                   strstr(watch.error.message, "alice (pid 1001)"));
    CU_ASSERT_EQUAL(other.times, 0); /* another producer is left, and it did not ask to be told */
    td_queue_leave(&s, p2, true);
    CU_ASSERT_TRUE(other.times == 1 && other.error.code == TD_E_CLOSED);
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, UINT32_MAX, &w, queue_told, &watch, &e),
                    TD_E_DIED); /* the second death, then */
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, UINT32_MAX, &w, queue_told, &watch, &e), TD_E_CLOSED);
    td_queue_leave(&s, c, false);
    td_queue_leave(&s, plain, false);
}

/* Each is told by name, and after its own last words. */
static void queue_deaths_are_told_apart(void)
{
    td_member *p = join("q", 4, TD_QUEUE_PRODUCER, alice), *p2 = join("q", 4, TD_QUEUE_PRODUCER, bob);
    td_member *stays = join("q", 4, TD_QUEUE_PRODUCER, bob), *c = join("q", 4, TD_QUEUE_CONSUMER | TD_QUEUE_WATCH, bob);
    td_queue_wait *w;
    td_queued_item *got;
    td_error e = {0};
    td_queue_leave(&s, p, true);
    td_queue_put(&s, p2, item(1), 0, &w, queue_told, NULL, NULL);
    td_queue_leave(&s, p2, true);
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_E_DIED);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "alice (pid 1001)"));
    CU_ASSERT_EQUAL_FATAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_OK);
    td_queue_item_free(got);
    e = (td_error){0};
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_E_DIED);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "bob"));
    enum { MANY = TD_DEATHS_KEPT + 2 };
    for (int i = 0; i < MANY; i++) td_queue_leave(&s, join("q", 4, TD_QUEUE_PRODUCER, alice), true);
    for (int i = 0; i < MANY; i++) { /* all are told, the oldest without a name */
        e = (td_error){0};
        CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_E_DIED);
        CU_ASSERT_EQUAL(!strstr(e.message, "alice"), i < MANY - TD_DEATHS_KEPT);
    }
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_E_TIMEOUT);
    td_queue_leave(&s, stays, false);
    td_queue_leave(&s, c, false);
}

/* A death takes its place behind what was put before it: whoever keeps a ledger has seen all of that by then. */
static void queue_death_comes_in_order(void)
{
    td_member *p = join("q", 4, TD_QUEUE_PRODUCER, alice), *p2 = join("q", 4, TD_QUEUE_PRODUCER, bob);
    td_member *c = join("q", 4, TD_QUEUE_CONSUMER | TD_QUEUE_WATCH, bob);
    td_queue_wait *w;
    td_queued_item *got;
    td_error e = {0};
    for (int i = 0; i < 2; i++) td_queue_put(&s, p, item((float)i), 0, &w, queue_told, NULL, NULL);
    td_queue_leave(&s, p, true);
    td_queue_put(&s, p2, item(2), 0, &w, queue_told, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_OK);
        td_queue_item_free(got);
    }
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_E_DIED);
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_OK);
    td_queue_item_free(got);
    td_queue_leave(&s, p2, false);
    td_queue_leave(&s, c, false);
}

static void queue_end_lets_take_what_is_left(void)
{
    td_member *p = join("q", 2, TD_QUEUE_PRODUCER, alice), *p2 = join("q", 2, TD_QUEUE_PRODUCER, alice);
    td_member *c = join("q", 2, TD_QUEUE_CONSUMER, bob);
    td_queue_wait *w;
    td_queued_item *got, *late = item(9);
    told put = {0};
    td_error e = {0};
    td_queue_put(&s, p, item(1), 0, &w, queue_told, NULL, NULL);
    td_queue_put(&s, p, item(2), 0, &w, queue_told, NULL, NULL);
    CU_ASSERT_EQUAL(td_queue_put(&s, p2, item(3), UINT32_MAX, &w, queue_told, &put, NULL), TD_WAIT);
    td_queue_end(&s, p);
    CU_ASSERT_TRUE(put.times == 1 && put.error.code == TD_E_CLOSED);
    CU_ASSERT_EQUAL(td_queue_put(&s, p, late, 0, &w, queue_told, NULL, &e), TD_E_CLOSED);
    td_queue_item_free(late);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, NULL), TD_OK);
        td_queue_item_free(got);
    }
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, UINT32_MAX, &w, queue_told, NULL, &e), TD_E_CLOSED);
    td_queue_leave(&s, p, false);
    td_queue_leave(&s, p2, false);
    td_queue_leave(&s, c, false);
}

static void put_four(uint32_t keep_ms, bool consumer)
{
    td_member *p;
    CU_ASSERT_EQUAL_FATAL(td_queue_join(&p, &s, "q", 4, TD_QUEUE_PRODUCER, keep_ms, alice, NULL), TD_OK);
    if (consumer) td_queue_leave(&s, join("q", 4, TD_QUEUE_CONSUMER, bob), false);
    td_queue_wait *w;
    for (int i = 0; i < 4; i++) td_queue_put(&s, p, item((float)i), 0, &w, queue_told, NULL, NULL);
    told put = {0};
    CU_ASSERT_EQUAL(td_queue_put(&s, p, item(5), UINT32_MAX, &w, queue_told, &put, NULL), TD_WAIT);
    CU_ASSERT_EQUAL(td_queue_look(&s, "q").keep_ms, keep_ms == UINT32_MAX ? 0
                                                    : keep_ms             ? keep_ms
                                                    : consumer            ? 0
                                                                          : TD_QUEUE_KEEP_MS);
    td_queue_leave(&s, p, true);
    CU_ASSERT_EQUAL(put.times, 0);
}

/* Its name is free at once; what lies in it goes in parts, each no longer than a turn may take. */
static void a_full_queue_goes_in_parts(void)
{
    enum { ITEMS = 20000, AT_ONCE = 64, TURN = 1024 };
    td_dead_set_bound(AT_ONCE);
    td_member *p = join("q", TD_QUEUE_OPEN, TD_QUEUE_PRODUCER, alice);
    td_queue_wait *w;
    for (int i = 0; i < ITEMS; i++) td_queue_put(&s, p, item((float)i), 0, &w, queue_told, NULL, NULL);
    td_queue_leave(&s, join("q", 0, TD_QUEUE_CONSUMER, bob), false);
    int64_t left = (int64_t)td_live_counts().tensors;
    CU_ASSERT_EQUAL(left, ITEMS);
    td_queue_leave(&s, p, false);
    CU_ASSERT_PTR_NULL(s.queues);
    td_queue_leave(&s, join("q", 0, TD_QUEUE_PRODUCER, bob), false); /* another one */
    for (int turns = 0;; turns++) {
        int64_t now = (int64_t)td_live_counts().tensors;
        CU_ASSERT_TRUE(left - now <= TURN);
        left = now;
        if (!td_dead_collect(TURN)) break;
        CU_ASSERT_TRUE_FATAL(turns < ITEMS);
    }
    td_dead_set_bound(0);
    CU_ASSERT_EQUAL(td_live_counts().tensors, 0);
}

static void queue_goes_with_its_last_member(void)
{
    put_four(0, true);
    CU_ASSERT_PTR_NULL(s.queues);
    put_four(UINT32_MAX, false);
    CU_ASSERT_PTR_NULL(s.queues);
    CU_ASSERT_EQUAL(td_live_counts().tensors, 0);
}

/* What nobody has come for stays for a time, charged to its user; whoever comes finds a queue that is as new otherwise.
 */
static void queue_keeps_items(void)
{
    uint64_t before = alice->parent->objects;
    put_four(0, false);
    CU_ASSERT_EQUAL(td_queue_look(&s, "q").items, 4);
    CU_ASSERT(td_queue_look(&s, "q").goes_ms > td_clock_ms() + TD_QUEUE_KEEP_MS / 2);
    CU_ASSERT(alice->parent->objects > before);
    CU_ASSERT(td_deadlines_run(&s) <= TD_QUEUE_KEEP_MS * UINT64_C(1000));
    td_member *c = join("q", 9, TD_QUEUE_CONSUMER, bob);
    CU_ASSERT_EQUAL(td_queue_look(&s, "q").capacity, 9);
    CU_ASSERT_EQUAL(td_queue_look(&s, "q").goes_ms, 0);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
    td_queue_wait *w;
    td_queued_item *got;
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL_FATAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, NULL), TD_OK);
        CU_ASSERT_EQUAL(value(got), i);
        td_queue_item_free(got);
    }
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, NULL), TD_E_CLOSED);
    td_queue_leave(&s, c, false);
    CU_ASSERT_PTR_NULL(s.queues);
    CU_ASSERT_EQUAL(alice->parent->objects, before);
    put_four(20, true); /* somebody said so: also when there were consumers; and then they go */
    td_member *p = join("q", 0, TD_QUEUE_PRODUCER, alice);
    td_queue_leave(&s, p, false);
    CU_ASSERT_EQUAL(td_queue_look(&s, "q").items, 4);
    hand_clock_go_on(30 * MS);
    td_deadlines_run(&s);
    CU_ASSERT_PTR_NULL(s.queues);
    CU_ASSERT_EQUAL(td_live_counts().tensors, 0);
    put_four(50000, false);
    td_queues_clear(&s);
    CU_ASSERT_PTR_NULL(s.queues);
}

/* ---- deadlines */

static int fired[3], order;

static void fire(void *arg)
{
    fired[(intptr_t)arg] = ++order;
}

static void deadlines_fire_in_order(void)
{
    td_deadline a = {0}, b = {0}, c = {0};
    td_deadline_arm(&s, &a, 6, fire, (void *)0);
    td_deadline_arm(&s, &b, 2, fire, (void *)1);
    td_deadline_arm(&s, &c, 4, fire, (void *)2);
    td_deadline_arm(&s, &c, 60000, fire, (void *)2); /* armed again: moved */
    CU_ASSERT_EQUAL(td_deadlines_run(&s), 2000);
    hand_clock_go_on(2 * MS);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), 4000);
    CU_ASSERT_TRUE(fired[1] == 1 && fired[0] == 0);
    hand_clock_go_on(7 * MS);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), (60000 - 9) * 1000);
    CU_ASSERT_TRUE(fired[1] == 1 && fired[0] == 2 && fired[2] == 0);
    td_deadline_disarm(&s, &c);
    td_deadline_disarm(&s, &c);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
}

/* Whether its taker could not be given it, or gave it back. */
static void what_was_taken_goes_back_to_its_place(void)
{
    td_member *m = join("back", 3, TD_QUEUE_PRODUCER | TD_QUEUE_CONSUMER, alice);
    td_queued_item *i[3] = {NULL};
    td_queue_wait *w = NULL;
    td_error e = {0};
    for (int k = 0; k < 3; k++) td_queue_put(&s, m, item((float)k), 0, &w, queue_told, NULL, NULL);
    for (int k = 0; k < 3; k++) td_queue_get(&s, m, &i[k], 0, &w, queue_told, NULL, NULL);
    td_named_queue *q = td_queue_named(&s, "back", &e);
    CU_ASSERT_PTR_EQUAL_FATAL(q, m->queue);
    CU_ASSERT_EQUAL(td_queue_return(&s, q, i[2], &e), TD_OK);
    i[0]->place = (uint32_t)i[0]->place; /* as a client tells it */
    CU_ASSERT_EQUAL(td_queue_return(&s, q, i[0], &e), TD_OK);
    i[1]->place = 2;
    CU_ASSERT_EQUAL(td_queue_return(&s, q, i[1], &e), TD_E_INVALID); /* there is one */
    i[1]->place = 7;
    CU_ASSERT_EQUAL(td_queue_return(&s, q, i[1], &e), TD_E_INVALID); /* so many were never put */
    i[1]->place = 1;
    CU_ASSERT_EQUAL(td_queue_return(&s, q, i[1], &e), TD_OK);
    CU_ASSERT_EQUAL(td_queue_size(q), 3);
    for (int k = 0; k < 3; k++) {
        td_queued_item *again = NULL;
        CU_ASSERT_EQUAL_FATAL(td_queue_get(&s, m, &again, 0, &w, queue_told, NULL, NULL), TD_OK);
        CU_ASSERT_EQUAL(value(again), (float)k);
        td_queue_item_free(again);
    }
    td_queue_leave(&s, m, false);
    CU_ASSERT_PTR_NULL(td_queue_named(&s, "back", &e));
    CU_ASSERT_EQUAL(e.code, TD_E_NOT_FOUND);
}

static void a_deadline_names_whom_it_waited_for(void)
{
    td_member *get = join("q", 1, TD_QUEUE_CONSUMER, bob), *put[5];
    td_queue_wait *w;
    told t = {0};
    td_queued_item *none;
    CU_ASSERT_EQUAL(td_queue_get(&s, get, &none, 1, &w, queue_told, &t, NULL), TD_WAIT);
    hand_clock_go_on(3 * MS);
    td_deadlines_run(&s);
    CU_ASSERT_EQUAL(t.error.code, TD_E_TIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(t.error.message, "nobody: no other producer has joined"));
    for (int i = 0; i < 5; i++) put[i] = join("q", 1, TD_QUEUE_PRODUCER, alice);
    t = (told){0};
    CU_ASSERT_EQUAL(td_queue_get(&s, get, &none, 1, &w, queue_told, &t, NULL), TD_WAIT);
    hand_clock_go_on(3 * MS);
    td_deadlines_run(&s);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(t.error.message, "waited for alice (pid 1001), alice (pid 1001), alice (pid 1001) and 2 more"));
    CU_ASSERT_EQUAL(td_queue_put(&s, put[0], item(1), 0, &w, queue_told, NULL, NULL), TD_OK);
    t = (told){0};
    CU_ASSERT_EQUAL(td_queue_put(&s, put[0], item(2), 1, &w, queue_told, &t, NULL), TD_WAIT);
    hand_clock_go_on(3 * MS);
    td_deadlines_run(&s);
    CU_ASSERT_PTR_NOT_NULL(strstr(t.error.message, "stayed full (1 of 1); waited for bob (pid 1002)"));
    for (int i = 0; i < 5; i++) td_queue_leave(&s, put[i], false);
    td_queue_leave(&s, get, false);
}

/* ---- who comes and goes */

/* A queue that goes while some wait to be let in has no more turns. */
static void a_queue_goes_between_two_turns(void)
{
    enum { MANY = 300 };
    static told all[MANY];
    td_queued_item *got, *large = NULL;
    td_queue_wait *w;
    td_member *m = join("q", TD_QUEUE_OPEN, TD_QUEUE_PRODUCER | TD_QUEUE_CONSUMER, alice);
    CU_ASSERT_EQUAL_FATAL(td_queue_item_new(&large, NULL, 0, TD_QUEUE_MOST_BYTES, NULL), TD_OK);
    td_queue_put(&s, m, large, 0, &w, queue_told, NULL, NULL);
    memset(all, 0, sizeof all);
    for (int i = 0; i < MANY; i++)
        CU_ASSERT_EQUAL_FATAL(td_queue_put(&s, m, item((float)i), UINT32_MAX, &w, queue_told, &all[i], NULL), TD_WAIT);
    CU_ASSERT_EQUAL_FATAL(td_queue_get(&s, m, &got, 0, &w, queue_told, NULL, NULL), TD_OK);
    td_queue_item_free(got);
    CU_ASSERT_TRUE(all[0].times == 1 && all[MANY - 1].times == 0);
    td_queue_leave(&s, m, false);
    CU_ASSERT_PTR_NULL(s.queues);
    CU_ASSERT_EQUAL(td_deadlines_run(&s), UINT64_MAX);
    CU_ASSERT_EQUAL(all[MANY - 1].times, 0);
}

/* A watcher is told of producers that die while it is there, and of nobody else. */
static void deaths_of_others_are_not_told(void)
{
    td_member *stays = join("q", 4, TD_QUEUE_PRODUCER, bob), *before = join("q", 4, TD_QUEUE_PRODUCER, alice);
    td_queue_wait *w;
    td_queued_item *got;
    td_error e = {0};
    td_queue_leave(&s, before, true);
    td_member *c = join("q", 4, TD_QUEUE_CONSUMER | TD_QUEUE_WATCH, bob);
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_E_TIMEOUT);
    td_queue_leave(&s, join("q", 4, TD_QUEUE_CONSUMER, alice), true);
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_E_TIMEOUT);
    td_queue_leave(&s, join("q", 4, TD_QUEUE_PRODUCER, alice), true);
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, 0, &w, queue_told, NULL, &e), TD_E_DIED);
    td_queue_leave(&s, stays, false);
    td_queue_leave(&s, c, false);
}

/* What a member waited for is nobody's when it has left. */
static void who_leaves_waits_no_more(void)
{
    td_member *stays = join("q", 2, TD_QUEUE_PRODUCER | TD_QUEUE_CONSUMER, bob),
              *c = join("q", 2, TD_QUEUE_CONSUMER, alice);
    td_queue_wait *w;
    td_queued_item *got;
    told gone = {0};
    CU_ASSERT_EQUAL(td_queue_get(&s, c, &got, UINT32_MAX, &w, queue_told, &gone, NULL), TD_WAIT);
    td_queue_leave(&s, c, false);
    CU_ASSERT_EQUAL(td_queue_look(&s, "q").waiting_get, 0);
    CU_ASSERT_EQUAL(td_queue_put(&s, stays, item(1), 0, &w, queue_told, NULL, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_queue_look(&s, "q").items, 1);
    CU_ASSERT_EQUAL(gone.times, 0);
    td_queue_leave(&s, stays, false);
}

/* An end and a capacity are those of members that are there. */
static void what_a_queue_was_before(void)
{
    td_member *p;
    td_queue_wait *w;
    td_queued_item *large = NULL;
    CU_ASSERT_EQUAL_FATAL(td_queue_join(&p, &s, "q", 2, TD_QUEUE_PRODUCER, 50000, alice, NULL), TD_OK);
    td_queue_put(&s, p, item(1), 0, &w, queue_told, NULL, NULL);
    td_queue_end(&s, p);
    td_queue_leave(&s, p, false);
    p = join("q", TD_QUEUE_OPEN, TD_QUEUE_PRODUCER, alice);
    CU_ASSERT_EQUAL(td_queue_put(&s, p, item(2), 0, &w, queue_told, NULL, NULL), TD_OK); /* it had ended */
    td_member *c = join("q", 4, TD_QUEUE_CONSUMER, bob); /* items count from here on, and not what they carry */
    CU_ASSERT_EQUAL_FATAL(td_queue_item_new(&large, NULL, 0, TD_QUEUE_MOST_BYTES, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_queue_put(&s, p, large, 0, &w, queue_told, NULL, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_queue_put(&s, p, item(3), 0, &w, queue_told, NULL, NULL), TD_OK);
    td_queues_clear(&s); /* of those that nobody has joined */
    CU_ASSERT_EQUAL(td_queue_look(&s, "q").items, 4);
    td_queue_leave(&s, p, false);
    td_queue_leave(&s, c, false);
    CU_ASSERT_PTR_NOT_NULL(s.queues); /* it is kept, as somebody said */
    td_queues_clear(&s);
    CU_ASSERT_PTR_NULL(s.queues);
    td_queue_leave(&s, join("q", 4, TD_QUEUE_PRODUCER, alice), false); /* nothing lies in it */
    CU_ASSERT_PTR_NULL(s.queues);
}

/* How long the loop was at what: by kinds, of which those beyond the last place are counted together there. */
static void laps_are_counted(void)
{
    enum { US = 1000, KINDS = TD_LAP_KINDS + 5 };
    static const struct {
        uint64_t us;
        int within;
    } all[] = {{0, 0}, {50, 0}, {51, 1}, {100, 1}, {1000, 4}, {4000, 5}, {4001, 6}, {9000, 6}, {60, 1}};
    enum { TIMES = sizeof all / sizeof *all };
    td_laps *t = td_laps_new();
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    uint64_t within[TD_LAP_BOUNDS + 1] = {0}, total = 0;
    td_lap_began(t);
    for (int k = 0; k < TIMES; k++) {
        hand_clock_go_on(all[k].us * US);
        td_lap_over(t, "one");
        within[all[k].within]++;
        total += all[k].us * US;
    }
    const td_lap_kind *one = &t->kinds[0];
    CU_ASSERT_TRUE(t->count == 1 && one->count == TIMES && one->total_ns == total);
    CU_ASSERT_TRUE(one->longest_ns == 9000 * US && one->longest_cpu_ns == 9000 * US);
    CU_ASSERT_TRUE(!memcmp(one->within, within, sizeof within));
    hand_clock_go_on(7 * US); /* before it begins */
    td_lap_began(t);
    td_lap_is(t, "other"); /* for this turn, not for the next */
    hand_clock_go_on(3 * US);
    td_lap_over(t, "one");
    hand_clock_go_on(2 * US);
    td_lap_over(t, "one");
    CU_ASSERT_TRUE(t->count == 2 && t->kinds[1].count == 1 && t->kinds[1].total_ns == 3 * US);
    CU_ASSERT_TRUE(one->count == TIMES + 1 && one->total_ns == total + 2 * US);
    char names[KINDS][8];
    for (int k = 0; k < KINDS; k++) {
        snprintf(names[k], sizeof names[k], "k%d", k);
        td_lap_over(t, names[k]);
    }
    CU_ASSERT_EQUAL(t->count, TD_LAP_KINDS);
    CU_ASSERT_EQUAL(t->kinds[TD_LAP_KINDS - 1].count, KINDS - (TD_LAP_KINDS - 3)); /* two had places before */
    CU_ASSERT_EQUAL(t->kinds[TD_LAP_KINDS - 2].count, 1);
    td_laps_free(t);
}

TD_CUNIT_MAIN_WITH(
    "service", init, cleanup, {"names bind, are taken, are dropped", names_bind}, {"names are text", names_are_text},
    {"names have an owner", names_have_an_owner}, {"names that models want", names_that_models_want},
    {"names are walked", names_are_walked}, {"names are handed on", names_are_handed_on},
    {"waits are dropped", waits_are_dropped}, {"versions are of one service", versions_are_of_one_service},
    {"thousands of names", names_many}, {"names are waited for", names_waited_for},
    {"a name is waited for by many", names_waited_for_by_many}, {"lent names cost little", lent_names_cost_little},
    {"handles are taken", handles_are_taken}, {"handles are left lying", handles_are_left_lying},
    {"queues keep order and capacity", queues_in_order},
    {"who comes first need not know the capacity", queue_takes_the_first_capacity},
    {"as many as there is room for", queue_without_a_number},
    {"putters are let in by turns", putters_are_let_in_by_turns},
    {"getters wait in order", queue_getters_wait_in_order}, {"many deadlines come and go", many_deadlines_come_and_go},
    {"a queue is waited for by many", queue_waited_for_by_many}, {"a death is seen at once", queue_death_is_seen},
    {"deaths are told apart", queue_deaths_are_told_apart}, {"a death comes in order", queue_death_comes_in_order},
    {"an ended queue is emptied", queue_end_lets_take_what_is_left},
    {"what was taken goes back to its place", what_was_taken_goes_back_to_its_place},
    {"a queue goes with its last member", queue_goes_with_its_last_member},
    {"a full queue goes in parts", a_full_queue_goes_in_parts}, {"a queue keeps items", queue_keeps_items},
    {"deadlines fire in order", deadlines_fire_in_order}, {"laps are counted", laps_are_counted},
    {"a queue goes between two turns", a_queue_goes_between_two_turns},
    {"deaths of others are not told", deaths_of_others_are_not_told},
    {"who leaves waits no more", who_leaves_waits_no_more}, {"what a queue was before", what_a_queue_was_before},
    {"a deadline names whom it waited for", a_deadline_names_whom_it_waited_for})
