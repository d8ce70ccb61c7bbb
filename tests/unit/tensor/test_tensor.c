/* Tensors and storages: who holds what, who pays, and that dropping a chain of a million keeps the stack flat. */
#include "daemon/tensor/device.h"
#include "daemon/tensor/tensor.h"
#include "tests/unit/cunit_main.h"
#include <stdlib.h>
#include <sys/resource.h>

#define MIB (UINT64_C(1) << 20)

static td_budget budget;
static td_heap *heap;
static td_account *payer;
static td_place place;

static int setup(void)
{
    td_budget_init(&budget, 512 * MIB, TD_SHM_MEMFD);
    td_device_add(&(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &budget});
    if (td_heap_new(&heap, &budget, TD_SEGMENT_SESSION, 1, NULL)) return 1;
    payer = td_account_new(NULL);
    place = (td_place){.heap = heap, .account = payer};
    return 0;
}

static int teardown(void)
{
    td_account_unref(payer);
    td_heap_free(heap);
    td_budget_deinit(&budget);
    td_live l = td_live_counts();
    return l.tensors || l.storages || l.causes || l.accounts || l.bytes || budget.committed;
}

static td_desc shape(int64_t n)
{
    td_desc d;
    CU_ASSERT_EQUAL_FATAL(td_desc_contiguous(&d, TD_FLOAT32, 1, &n, NULL), 0);
    return d;
}

static td_storage *storage(uint64_t bytes)
{
    td_storage *s;
    CU_ASSERT_EQUAL_FATAL(td_storage_new(&s, &place, bytes, NULL, NULL), 0);
    return s;
}

static td_tensor *tensor(int64_t n)
{
    td_storage *s = storage((uint64_t)n * 4);
    td_desc d = shape(n);
    td_tensor *t;
    CU_ASSERT_EQUAL_FATAL(td_tensor_new(&t, s, &d, payer, NULL), 0);
    td_storage_unref(s);
    return t;
}

static void counts_and_sharing(void)
{
    td_live before = td_live_counts();
    td_tensor *t = tensor(8), *v;
    td_desc half = shape(4);
    half.offset = 4;
    CU_ASSERT_EQUAL(td_tensor_view(&v, t, &half, payer, NULL), 0);
    CU_ASSERT_PTR_EQUAL(v->storage, t->storage);
    CU_ASSERT_EQUAL(t->storage->refs, 2);
    CU_ASSERT_PTR_EQUAL(td_tensor_data(v), (char *)td_tensor_data(t) + 16);
    CU_ASSERT_EQUAL(td_live_counts().tensors, before.tensors + 2);
    CU_ASSERT_EQUAL(td_live_counts().storages, before.storages + 1);
    CU_ASSERT_EQUAL(payer->bytes, 64);
    CU_ASSERT_EQUAL(payer->objects, 2);
    td_tensor_unref(td_tensor_ref(t));
    td_tensor_unref(t); /* the view keeps the bytes */
    CU_ASSERT_EQUAL(td_live_counts().storages, before.storages + 1);
    ((float *)td_tensor_data(v))[3] = 1;
    td_tensor_unref(v);
    td_tensor_unref(NULL);
    CU_ASSERT_EQUAL(td_live_counts().storages, before.storages);
    CU_ASSERT_EQUAL(td_live_counts().bytes, before.bytes);
    CU_ASSERT_EQUAL(payer->bytes + payer->objects, 0);
}

static void versions(void)
{
    td_tensor *t = tensor(8), *v, *data;
    td_desc d = t->desc;
    CU_ASSERT_EQUAL(td_tensor_view(&v, t, &d, payer, NULL), 0);
    CU_ASSERT_EQUAL(td_tensor_view(&data, t, &d, payer, NULL), 0);
    CU_ASSERT_EQUAL(td_tensor_detach_version(data, NULL), 0);
    td_tensor_bump(v, 12, 3, 4);
    CU_ASSERT(t->version->value == 1 && t->version->op == 12 && t->version->session == 3 && t->version->pid == 4);
    CU_ASSERT_EQUAL(data->version->value, 0);
    td_tensor *of_data; /* a view of .data belongs to its family, also when .data has gone */
    CU_ASSERT_EQUAL(td_tensor_view(&of_data, data, &d, payer, NULL), 0);
    td_tensor_bump(data, 1, 1, 1);
    td_tensor_unref(data);
    CU_ASSERT_EQUAL(of_data->version->value, 1);
    CU_ASSERT_EQUAL(t->version->value, 1);
    CU_ASSERT_EQUAL(td_tensor_detach_version(of_data, NULL), 0);
    CU_ASSERT_EQUAL(of_data->version->value, 0);
    td_tensor_unref(of_data);
    td_tensor_unref(v);
    td_tensor_unref(t);
}

/* Steps that wrote nothing do not count; those that did, do. */
static void void_steps(void)
{
    td_version v = {0};
    CU_ASSERT(td_version_still(&v, 0));
    v.value = 4;
    td_version_void(&v, 4);
    CU_ASSERT(td_version_still(&v, 4) && td_version_still(&v, 3) && !td_version_still(&v, 2));
    v.value = 5; /* pending */
    CU_ASSERT(td_version_still(&v, 5) && !td_version_still(&v, 4) && !td_version_still(&v, 3));
    td_version_void(&v, 5);
    CU_ASSERT(td_version_still(&v, 4) && td_version_still(&v, 3) && !td_version_still(&v, 2));
    v.value = 8; /* the sixth wrote */
    td_version_void(&v, 8);
    CU_ASSERT(td_version_still(&v, 7) && !td_version_still(&v, 6) && !td_version_still(&v, 5));
    td_version_void(&v, 7); /* in any order */
    CU_ASSERT(td_version_still(&v, 6) && !td_version_still(&v, 5) && !td_version_still(&v, 4));
    td_version_void(&v, 3); /* long ago: there was a write since */
    CU_ASSERT(td_version_still(&v, 6) && !td_version_still(&v, 2));
    v = (td_version){.value = 1}; /* around */
    td_version_void(&v, 1);
    td_version_void(&v, 0);
    CU_ASSERT(td_version_still(&v, UINT32_MAX) && !td_version_still(&v, UINT32_MAX - 1));
}

/* Of 40 pending writes some fail, in any order: meanwhile nothing that was written counts as still there, and in the
 * end exactly what was not. */
static void void_steps_in_any_order(void)
{
    enum { STEPS = 40, FIRST = -20 };
    unsigned seed = 1;
    for (int round = 0; round < 2000; round++) {
        td_version v = {.value = (uint32_t)(FIRST + STEPS)};
        bool nothing[STEPS + 1] = {false};
        int order[STEPS], n = 0, last = 0, one_in = 1 + round % 5; /* the last that was written */
        for (int i = 1; i <= STEPS; i++) {
            if (one_in < 5 ? rand_r(&seed) % 4 < one_in : i > 30) order[n++] = i;
            else last = i;
        }
        for (int k = 0; k < n; k++) {
            int other = k + (int)((unsigned)rand_r(&seed) % (unsigned)(n - k)), step = order[other];
            order[other] = order[k];
            nothing[step] = true;
            td_version_void(&v, (uint32_t)(FIRST + step));
            for (int then = 0; then < STEPS; then++) {
                bool all = true;
                for (int i = then + 1; i <= STEPS; i++) all &= nothing[i];
                CU_ASSERT_EQUAL_FATAL(td_version_still(&v, (uint32_t)(FIRST + then)), all);
            }
        }
        CU_ASSERT(td_version_still(&v, (uint32_t)(FIRST + last)));
    }
}

static void quotas(void)
{
    td_error e = {0};
    td_account *uid = td_account_new(NULL), *session = td_account_new(uid);
    session->session = 7;
    session->pid = 4711;
    strcpy(session->name, "train");
    uid->limit_bytes = 1000;
    session->limit_bytes = 500;
    session->limit_objects = 2;
    td_place where = {.heap = heap, .account = session};
    td_storage *s, *more;
    CU_ASSERT_EQUAL(td_storage_new(&s, &where, 400, NULL, &e), 0);
    CU_ASSERT(session->bytes == 448 && uid->bytes == 448);
    CU_ASSERT_EQUAL(td_storage_new(&more, &where, 100, NULL, &e), TD_E_QUOTA);
    CU_ASSERT_PTR_NULL(more);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "session 7 (train, pid 4711) holds 448 bytes of its 500"));
    CU_ASSERT(session->bytes == 448 && uid->bytes == 448); /* in the whole chain or nowhere */
    session->limit_bytes = 0;
    CU_ASSERT_EQUAL(td_storage_new(&more, &where, 600, NULL, &e), TD_E_QUOTA);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "user 0 holds 448"));
    CU_ASSERT_EQUAL(td_storage_new(&more, &where, UINT64_MAX, NULL, &e), TD_E_MEMORY);
    td_desc d = shape(100);
    td_tensor *t[3];
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(td_tensor_new(&t[i], s, &d, session, &e), i < 2 ? 0 : TD_E_QUOTA);
    CU_ASSERT_PTR_NULL(t[2]);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "2 objects of its 2"));
    CU_ASSERT_EQUAL(uid->objects, 2);
    td_account_unref(session); /* lives on while something is charged to it */
    td_account_unref(uid);
    td_tensor_unref(t[0]);
    td_tensor_unref(t[1]);
    CU_ASSERT_EQUAL(td_live_counts().accounts, 3);
    td_storage_unref(s);
    CU_ASSERT_EQUAL(td_live_counts().accounts, 1);
}

/* Who had no room is told once, and of one tree of accounts only. */
static void who_is_full(void)
{
    td_error e;
    td_account *daemon = td_account_new(NULL), *user = td_account_new(daemon), *own = td_account_new(user);
    user->limit_bytes = 100;
    user->limit_away = 50;
    own->limit_objects = 2;
    CU_ASSERT_EQUAL(td_account_charge(own, 101, 0, &e), TD_E_QUOTA);
    CU_ASSERT_PTR_NULL(td_account_full(payer));
    CU_ASSERT_PTR_EQUAL(td_account_full(own), user);
    CU_ASSERT_PTR_NULL(td_account_full(own));
    CU_ASSERT_EQUAL(td_account_charge_on(own, TD_CPU + 1, 51, &e), TD_E_QUOTA);
    CU_ASSERT_EQUAL(td_account_room(own, 3, &e), TD_E_QUOTA);
    CU_ASSERT_PTR_EQUAL(td_account_full(daemon), own); /* the last one */
    CU_ASSERT_EQUAL(td_account_charge_on(own, TD_CPU + 1, 51, &e), TD_E_QUOTA);
    CU_ASSERT_PTR_EQUAL(td_account_full(own), user);
    CU_ASSERT(!own->bytes && !user->bytes && !daemon->bytes && !own->objects && !user->away[TD_CPU + 1]);
    td_account_unref(own);
    td_account_unref(user);
    td_account_unref(daemon);
}

static void waits_for_growth(void)
{
    td_storage *s;
    uint64_t bytes = payer->bytes;
    td_need need = {0};
    td_heap *h;
    CU_ASSERT_EQUAL(td_heap_new(&h, &budget, TD_SEGMENT_SESSION, 1, NULL), 0);
    td_place where = {.heap = h, .account = payer};
    CU_ASSERT_EQUAL(td_storage_new(&s, &where, 3 * MIB, &need, NULL), TD_WAIT_GROW);
    CU_ASSERT_PTR_NULL(s);
    CU_ASSERT(need.bytes == 4 * MIB && need.heap == where.heap);
    CU_ASSERT_EQUAL(payer->bytes, bytes);
    where.device = TD_CUDA;
    td_error e = {0};
    CU_ASSERT_EQUAL(td_storage_new(&s, &where, 64, &need, &e), TD_E_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(e.message, "there is no device 'cuda:0' here; only 'cpu'");
    td_heap_free(h);
}

static void leases_are_taken_over(void)
{
    td_extent x;
    td_storage *s;
    td_error e = {0};
    CU_ASSERT_EQUAL_FATAL(td_heap_alloc_now(heap, 1000, &x, NULL), 0);
    CU_ASSERT_EQUAL(td_storage_adopt(&s, &place, &x, 1025, &e), TD_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(x.segment); /* still the caller's */
    void *p = td_extent_data(&x);
    CU_ASSERT_EQUAL_FATAL(td_storage_adopt(&s, &place, &x, 1000, &e), 0);
    CU_ASSERT_PTR_NULL(x.segment);
    CU_ASSERT_PTR_EQUAL(s->data, p);
    CU_ASSERT_EQUAL(payer->bytes, 1024);
    td_storage_unref(s);
    CU_ASSERT_EQUAL(payer->bytes, 0);
}

static void shrinking_gives_back(void)
{
    td_heap_stats before, after;
    td_storage *s = storage(MIB), *next;
    td_heap_get_stats(heap, &before);
    td_storage_shrink(s, 5000);
    td_heap_get_stats(heap, &after);
    CU_ASSERT(s->nbytes == 5000 && s->extent.size == 5056 && payer->bytes == 5056);
    CU_ASSERT_EQUAL(before.used - after.used, MIB - 5056);
    next = storage(MIB / 2); /* lies in what was given back */
    CU_ASSERT_EQUAL(next->data, s->data + 5056);
    td_storage_shrink(s, 0);
    CU_ASSERT_EQUAL(payer->bytes, 64 + MIB / 2);
    td_storage_unref(s);
    td_storage_unref(next);
    s = storage(3000); /* a slot stays whole, its charge shrinks */
    td_storage_shrink(s, 64);
    CU_ASSERT_EQUAL(payer->bytes, 64);
    td_storage_unref(s);
    CU_ASSERT_EQUAL(payer->bytes, 0);
    td_heap_get_stats(heap, &after);
    CU_ASSERT(after.used == 0 && after.extents == 0);
}

static void poison(void)
{
    td_error e = {.code = TD_E_INDEX, .message = "index 9"};
    td_cause *first = td_cause_new(&e), *second = td_cause_new(&e);
    td_storage *s = storage(10);
    td_storage_poison(s, first);
    td_storage_poison(s, second); /* the first stays */
    td_cause_unref(first);
    td_cause_unref(second);
    CU_ASSERT_PTR_EQUAL(s->poison, first);
    CU_ASSERT_EQUAL(td_live_counts().causes, 1);
    td_storage_heal(s);
    CU_ASSERT_PTR_NULL(s->poison);
    td_storage_poison(s, second = td_cause_new(&e));
    td_cause_unref(second);
    td_storage_unref(s);
    CU_ASSERT_EQUAL(td_live_counts().causes, 0);
}

/* What two clients have yet to be told. */
static void late(void)
{
    enum { FEW = 3, MANY = 5000 };
    td_account *account = td_account_new(NULL);
    td_lates a = {.account = account}, b = {.account = account};
    td_error e = {.code = TD_E_INDEX, .message = "index 9"}, f = {.code = TD_E_INDEX, .message = "index 8"};
    td_cause *first = td_cause_new(&e), *second = td_cause_new(&f), *equal = td_cause_new(&e);
    td_storage *s[FEW];
    for (int i = 0; i < FEW; i++) s[i] = storage(10);
    td_late_note(&a, s[0], first);
    td_late_note(&a, s[0], second); /* the first stays */
    td_late_note(&b, s[0], second);
    td_late_note(&a, s[1], second);
    td_late_note(&a, s[2], equal);
    CU_ASSERT_PTR_EQUAL(td_late_find(&a, s[0]), first);
    CU_ASSERT_PTR_EQUAL(td_late_find(&b, s[0]), second);
    CU_ASSERT_PTR_NULL(td_late_find(&b, s[1]));
    CU_ASSERT_EQUAL(account->objects, 4);
    td_lates_told(&a, &e);
    CU_ASSERT_PTR_NULL(td_late_find(&a, s[0]));
    CU_ASSERT_PTR_NULL(td_late_find(&a, s[2]));
    CU_ASSERT_PTR_EQUAL(td_late_find(&a, s[1]), second);
    td_late_written(&a, s[0]); /* another's stays */
    CU_ASSERT_PTR_EQUAL(td_late_find(&b, s[0]), second);
    td_late_written(&a, s[1]);
    CU_ASSERT_EQUAL(account->objects, 1);
    td_late_note(&a, s[0], first);
    td_storage_unref(s[0]); /* takes along what is about it */
    CU_ASSERT(!a.first && !b.first && !a.count && !account->objects);
    td_storage_poison(s[1], first);
    td_late_note(&a, s[1], second); /* everybody hears of that */
    CU_ASSERT_PTR_NULL(a.first);
    td_storage **many = malloc(MANY * sizeof *many);
    for (int i = 0; i < MANY; i++) td_late_note(&a, many[i] = storage(1), first);
    CU_ASSERT(a.count > 1000 && a.count < MANY && account->objects == a.count);
    CU_ASSERT_PTR_EQUAL(td_late_find(&a, many[0]), first);
    td_lates_drop(&a);
    for (int i = 0; i < MANY; i++) td_storage_unref(many[i]);
    free(many);
    for (int i = 1; i < FEW; i++) td_storage_unref(s[i]);
    td_cause_unref(first);
    td_cause_unref(second);
    td_cause_unref(equal);
    CU_ASSERT(td_live_counts().causes == 0 && account->objects == 0);
    td_account_unref(account);
}

/* What lay in one segment of a device is lost, and what was the matter with it before is forgotten; then all is lost.
 */
static void lost(void)
{
    td_device_memory far = td_cpu_memory;
    far.host = false;
    td_device_add(&(td_device_entry){.number = TD_CUDA, .memory = &far, .budget = &budget});
    td_place where = {.heap = heap, .account = payer, .device = TD_CUDA};
    td_error e = {.code = TD_E_DEVICE, .message = "it fell off"}, before = {.code = TD_E_INDEX, .message = "index 9"};
    td_cause *why = td_cause_new(&e), *first = td_cause_new(&before);
    td_storage *s[4];
    float v = 7;
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL_FATAL(td_storage_new(&s[i], &where, i == 1 ? 20 * MIB : 64, NULL, NULL), TD_OK);
    CU_ASSERT_TRUE_FATAL(s[0]->extent.segment == s[2]->extent.segment && s[0]->extent.segment != s[1]->extent.segment);
    td_storage_unref(s[3]);
    td_storage_poison(s[0], first), td_storage_poison(s[1], first);
    td_device_lose(TD_CUDA, s[0]->extent.segment, why);
    td_storage_heal(s[2]); /* nothing brings it back */
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(td_storage_lost(s[i]), i != 1);
        CU_ASSERT_PTR_EQUAL(s[i]->poison, i == 1 ? first : why);
        CU_ASSERT_EQUAL(td_storage_write(s[i], 4, &v, sizeof v, &e), i == 1 ? TD_OK : TD_E_DEVICE);
        v = 0;
        CU_ASSERT_EQUAL(td_storage_read(s[i], 4, &v, sizeof v, &e), i == 1 ? TD_OK : TD_E_DEVICE);
        CU_ASSERT_TRUE(i == 1 || !strcmp(e.message, "it fell off"));
        v = 7;
    }
    td_storage_heal(s[1]);
    CU_ASSERT_PTR_NULL(s[1]->poison);
    td_storage_unref(s[0]);
    td_device_lose(TD_CUDA, NULL, why);
    CU_ASSERT_TRUE(td_storage_lost(s[1]) && s[1]->poison == why && s[2]->poison == why);
    td_storage_unref(s[2]), td_storage_unref(s[1]);
    CU_ASSERT_PTR_NULL(td_loop_devices[TD_CUDA].storages);
    td_cause_unref(why), td_cause_unref(first);
    CU_ASSERT_EQUAL(td_live_counts().causes, 0);
    td_loop_devices[TD_CUDA] = (td_device_entry){0};
}

/* What a graph does: the meta of each tensor holds the one before. */
typedef struct chain_link {
    td_meta meta;
    td_tensor *before;
    const void *stack;
} chain_link;

static const void *lowest, *highest;

static void link_free(td_meta *m, td_tensor *owner)
{
    chain_link *l = (chain_link *)m;
    const void *here = __builtin_frame_address(0);
    if (!lowest || here < lowest) lowest = here;
    if (here > highest) highest = here;
    if (owner->desc.shape[0] != 1) highest = (const char *)lowest + (1 << 30);
    td_tensor_unref(l->before);
    free(l);
}

static td_tensor *chain(int n, bool views)
{
    td_storage *s = storage(4);
    td_desc d = shape(1);
    td_tensor *last = NULL;
    for (int i = 0; i < n; i++) {
        td_tensor *t;
        if (td_tensor_new(&t, s, &d, payer, NULL)) abort();
        if (views && i % 2) t->view_base = last;
        else {
            chain_link *l = malloc(sizeof *l);
            *l = (chain_link){.meta = {link_free}, .before = last};
            t->meta = &l->meta;
        }
        last = t;
    }
    td_storage_unref(s);
    return last;
}

static void a_chain_of_a_million(void)
{
    td_tensor *t = chain(1000000, true);
    CU_ASSERT_EQUAL(td_live_counts().tensors, 1000000);
    lowest = highest = NULL;
    td_tensor_unref(t);
    CU_ASSERT_EQUAL(td_live_counts().tensors, 0);
    CU_ASSERT((const char *)highest - (const char *)lowest < 1024);
}

static void bounded_by_the_turn(void)
{
    td_dead_set_bound(100);
    td_tensor_unref(chain(1000, false));
    CU_ASSERT_EQUAL(td_live_counts().tensors, 900);
    CU_ASSERT(td_dead_collect(500));
    CU_ASSERT_EQUAL(td_live_counts().tensors, 400);
    CU_ASSERT_FALSE(td_dead_collect(500));
    CU_ASSERT_EQUAL(td_live_counts().tensors, 0);
    td_dead_set_bound(0);
    CU_ASSERT_FALSE(td_dead_collect(1));
}

/* What dies while others are being ended, or put off, waits; and that none waits is known, too. */
static void put_off(void)
{
    CU_ASSERT_FALSE(td_dead_waiting());
    td_dead_defer(true);
    CU_ASSERT_FALSE(td_dead_collect(0));
    for (int i = 0; i < 5; i++) td_tensor_unref(tensor(1));
    CU_ASSERT_TRUE(td_dead_waiting() && td_live_counts().tensors == 5);
    CU_ASSERT_TRUE(td_dead_collect(0)); /* not from here */
    CU_ASSERT_EQUAL(td_live_counts().tensors, 5);
    td_dead_defer(false);
    CU_ASSERT_TRUE(td_dead_collect(4));
    CU_ASSERT_EQUAL(td_live_counts().tensors, 1);
    CU_ASSERT_FALSE(td_dead_collect(1));
    CU_ASSERT_TRUE(!td_dead_waiting() && td_live_counts().tensors == 0);
}

static int told_unheld;
static void count_unheld(td_meta *m, td_tensor *owner)
{
    told_unheld += m == owner->meta;
}

static void end_meta(td_meta *m, td_tensor *owner)
{
    told_unheld += 100 * (m == owner->meta);
}

/* Ids, names and queue items hold a tensor; when the last has gone and others still have it, its meta is told. */
static void held(void)
{
    td_meta meta = {end_meta, count_unheld};
    td_tensor *t = tensor(1);
    t->meta = &meta;
    CU_ASSERT_TRUE(!t->held && !t->flags);
    for (int round = 1; round <= 2; round++) {
        CU_ASSERT_PTR_EQUAL(td_tensor_hold(t), t);
        CU_ASSERT_TRUE(t->held == 1 && !(t->flags & TD_TF_UNHELD));
        td_tensor_hold(t);
        CU_ASSERT_TRUE(t->held == 2 && t->refs == 3);
        td_tensor_unhold(t);
        CU_ASSERT_TRUE(t->held == 1 && t->refs == 2 && told_unheld == round - 1 && !(t->flags & TD_TF_UNHELD));
        td_tensor_unhold(t);
        CU_ASSERT_TRUE(!t->held && t->refs == 1 && told_unheld == round && t->flags & TD_TF_UNHELD);
    }
    td_tensor_hold(t);
    td_tensor_unref(t);
    td_tensor_unhold(t); /* it dies with it, and is not told before */
    CU_ASSERT_EQUAL(told_unheld, 102);
    t = tensor(1); /* most likely its place: nothing of it is left there */
    CU_ASSERT_TRUE(!t->held && !t->flags && !t->meta && !t->view_base && t->refs == 1);
    td_tensor_hold(t), td_tensor_unhold(t); /* without a meta */
    td_tensor_unref(t);
    td_tensor_unhold(NULL);
    CU_ASSERT_EQUAL(td_live_counts().tensors, 0);
}

/* A view that cannot be had changes nothing. */
static void a_view_without_room(void)
{
    td_error e = {0};
    td_tensor *t = tensor(4), *view = t;
    td_desc d = shape(2);
    uint32_t storage_refs = t->storage->refs;
    payer->limit_objects = payer->objects;
    CU_ASSERT_EQUAL(td_tensor_view(&view, t, &d, payer, &e), TD_E_QUOTA);
    CU_ASSERT_TRUE(!view && t->storage->refs == storage_refs && payer->objects == payer->limit_objects);
    payer->limit_objects++;
    CU_ASSERT_EQUAL(td_tensor_view(&view, t, &d, payer, &e), TD_OK);
    CU_ASSERT_TRUE(view->version == t->version && t->storage->refs == storage_refs + 1);
    payer->limit_objects = 0;
    td_tensor_unref(view), td_tensor_unref(t);
}

static void bookkeeping_is_small(void)
{
    enum { N = 100000 };
    CU_ASSERT(sizeof(td_tensor) + sizeof(td_storage) + 96 <= 512);
    td_tensor **t = malloc(N * sizeof *t);
    td_live before = td_live_counts();
    for (int i = 0; i < N; i++) t[i] = tensor(8);
    CU_ASSERT_EQUAL((td_live_counts().bytes - before.bytes) / N, sizeof(td_tensor) + sizeof(td_storage));
    for (int i = 0; i < N; i++) td_tensor_unref(t[i]);
    free(t);
}

TD_CUNIT_MAIN_WITH("tensor", setup, teardown, {"counts and sharing", counts_and_sharing}, {"versions", versions},
                   {"void steps", void_steps}, {"void steps in any order", void_steps_in_any_order}, {"quotas", quotas},
                   {"who is full", who_is_full}, {"waits for growth", waits_for_growth},
                   {"leases are taken over", leases_are_taken_over}, {"shrinking gives back", shrinking_gives_back},
                   {"poison", poison}, {"late", late}, {"lost", lost}, {"a chain of a million", a_chain_of_a_million},
                   {"bounded by the turn", bounded_by_the_turn}, {"put off", put_off}, {"held", held},
                   {"a view without room", a_view_without_room}, {"book-keeping is small", bookkeeping_is_small})
