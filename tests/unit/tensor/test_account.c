/* Accounts: what is charged where, who is refused with which words, and which holders of memory these name. By a clock
 * that the test moves. */
#include "daemon/tensor/live.h"
#include "tests/support/hand_clock.h"
#include "tests/unit/cunit_main.h"

enum { FAR = TD_CPU + 1, MOST = 6 };

static td_account *root, *users[2], *sessions[MOST];
static td_error e;

/* A daemon, of two users, with three sessions each. */
static int init(void)
{
    hand_clock_stop(0);
    root = td_account_new(NULL);
    for (unsigned i = 0; i < 2; i++) {
        users[i] = td_account_new(root);
        users[i]->uid = 100 + i;
        snprintf(users[i]->name, sizeof users[i]->name, "%s", i ? "" : "ada");
    }
    for (unsigned i = 0; i < MOST; i++) {
        sessions[i] = td_account_new(users[i / 3]);
        sessions[i]->session = i + 1;
        sessions[i]->pid = 1000 + i;
        if (i != 4) snprintf(sessions[i]->name, sizeof sessions[i]->name, "run%u", i);
    }
    return 0;
}

static int cleanup(void)
{
    for (int i = 0; i < MOST; i++) td_account_unref(sessions[i]);
    for (int i = 0; i < 2; i++) td_account_unref(users[i]);
    td_account_unref(root);
    return td_live_counts().accounts == 0 ? 0 : 1;
}

static bool said(const char *words)
{
    bool good = strstr(e.message, words) != NULL;
    if (!good) printf("\n    '%s' is not in: %s\n", words, e.message);
    return good;
}

static void a_tree(void)
{
    const td_account *first = users[0]->children;
    CU_ASSERT_TRUE(first == sessions[2] && first->next == sessions[1] && first->next->next == sessions[0]);
    CU_ASSERT_TRUE(!first->prev && sessions[1]->prev == first && sessions[0]->prev == sessions[1] &&
                   !sessions[0]->next);
    for (int gone = 0; gone < 3; gone++) {
        td_account *of = td_account_new(root), *some[3];
        uint64_t accounts = td_live_counts().accounts;
        for (int i = 0; i < 3; i++) some[i] = td_account_new(of);
        td_account_unref(some[gone]);
        int n = 0;
        const td_account *before = NULL;
        for (const td_account *a = of->children; a; before = a, a = a->next, n++)
            CU_ASSERT_TRUE(a != some[gone] && a->prev == before && a->parent == of);
        CU_ASSERT_EQUAL(n, 2);
        td_account_unref(of); /* its children keep it */
        for (int i = 0; i < 3; i++)
            if (i != gone) td_account_unref(some[i]);
        CU_ASSERT_EQUAL(td_live_counts().accounts, accounts - 1);
        CU_ASSERT_TRUE(root->children == users[1] && users[1]->next == users[0]);
    }
}

/* In the whole chain or nowhere, also where its end has no room; as much as there is may be had. */
static void chains(void)
{
    td_account *a = sessions[0];
    root->limit_bytes = 100, root->limit_objects = 10, root->limit_away = 50;
    CU_ASSERT_EQUAL(td_account_charge(a, 101, 0, &e), TD_E_QUOTA);
    CU_ASSERT_EQUAL(td_account_charge(a, 0, 11, &e), TD_E_QUOTA);
    CU_ASSERT_EQUAL(td_account_charge_on(a, FAR, 51, &e), TD_E_QUOTA);
    CU_ASSERT_TRUE(said("user 0 holds 0 bytes on cuda:0 of its 50 and wants 51 more") && td_account_full(a) == root);
    CU_ASSERT_EQUAL(td_account_room(a, 11, &e), TD_E_QUOTA);
    CU_ASSERT_TRUE(!a->bytes && !a->objects && !root->bytes && !root->objects && !root->away[FAR] && !a->away[FAR]);
    CU_ASSERT_EQUAL(td_account_room(a, 10, &e), TD_OK);
    CU_ASSERT_EQUAL(td_account_charge(a, 100, 10, &e), TD_OK);
    CU_ASSERT_EQUAL(td_account_charge_on(a, FAR, 50, &e), TD_OK);
    CU_ASSERT_EQUAL(td_account_charge_on(a, FAR + 1, 50, &e), TD_OK); /* another device has its own */
    for (const td_account *p = a; p; p = p->parent)
        CU_ASSERT_TRUE(p->bytes == 100 && p->objects == 10 && p->away[FAR] == 50 && p->away[FAR + 1] == 50);
    CU_ASSERT_EQUAL(td_account_room(a, 0, &e), TD_OK);
    CU_ASSERT_EQUAL(td_account_charge_on(a, FAR, 1, &e), TD_E_QUOTA);
    CU_ASSERT_TRUE(users[1]->bytes == 0 && sessions[1]->bytes == 0 && a->peak == 100);
    td_account_discharge(a, 100, 10);
    td_account_discharge_on(a, FAR, 50), td_account_discharge_on(a, FAR + 1, 50);
    for (const td_account *p = a; p; p = p->parent)
        CU_ASSERT_TRUE(!p->bytes && !p->objects && !p->away[FAR] && !p->away[FAR + 1]);
    root->limit_bytes = root->limit_objects = root->limit_away = 0;
}

/* What another account is to pay for, and has no room for, is paid as before, on whatever device. */
static void paid_by_another(void)
{
    enum { BYTES = 4096 };
    users[1]->limit_bytes = users[1]->limit_away = 2 * BYTES - 1;
    for (uint8_t device = TD_CPU; device <= FAR; device++) {
        td_storage s = {.device = device, .nbytes = BYTES, .account = td_account_ref(sessions[0])}, other = s;
        other.account = td_account_ref(sessions[1]);
        for (int i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL(td_account_charge_on(sessions[i], device, BYTES, &e), TD_OK);
            td_account_stores(sessions[i], device, 0, BYTES);
        }
        CU_ASSERT_EQUAL(td_storage_pay(&s, sessions[3], &e), TD_OK);
        CU_ASSERT_TRUE(s.account == sessions[3] && td_account_bytes(sessions[3], device) == BYTES);
        CU_ASSERT_EQUAL(td_storage_pay(&other, sessions[4], &e), TD_E_QUOTA);
        CU_ASSERT_TRUE(other.account == sessions[1] && td_account_bytes(users[0], device) == BYTES);
        CU_ASSERT_TRUE(td_account_bytes(sessions[1], device) == BYTES && !td_account_bytes(sessions[0], device));
        CU_ASSERT_TRUE(td_account_bytes(root, device) == 2 * BYTES && !td_account_bytes(sessions[4], device));
        CU_ASSERT_EQUAL(td_storage_pay(&s, sessions[3], &e), TD_OK); /* that has it already */
        CU_ASSERT_EQUAL(td_account_bytes(sessions[3], device), BYTES);
        td_storage nobodys = {.device = device, .nbytes = BYTES};
        CU_ASSERT_TRUE(td_storage_pay(&nobodys, sessions[3], &e) == TD_OK && !nobodys.account);
        CU_ASSERT_EQUAL(td_account_bytes(sessions[3], device), BYTES);
        for (int i = 1; i < 4; i += 2) {
            td_account_stores(sessions[i], device, BYTES, 0);
            td_account_discharge_on(sessions[i], device, BYTES);
        }
        td_account_unref(s.account), td_account_unref(other.account);
    }
    users[1]->limit_bytes = users[1]->limit_away = 0;
}

static void work(void)
{
    td_account *a = sessions[0];
    for (unsigned device = TD_CPU; device <= FAR; device++) {
        CU_ASSERT_EQUAL(td_account_work(a, device, 70, &e), TD_OK);
        for (const td_account *p = a; p; p = p->parent)
            CU_ASSERT_TRUE(p->work == 70 && td_account_bytes(p, device) == 70 && !td_account_bytes(p, FAR - device));
        users[0]->limit_bytes = users[0]->limit_away = 100;
        CU_ASSERT_EQUAL(td_account_work(a, device, 31, &e), TD_E_QUOTA);
        CU_ASSERT_TRUE(a->work == 70 && root->work == 70 && td_account_bytes(a, device) == 70);
        td_account_work_done(a, device, 70);
        for (const td_account *p = a; p; p = p->parent) CU_ASSERT_TRUE(!p->work && !td_account_bytes(p, device));
        users[0]->limit_bytes = users[0]->limit_away = 0;
    }
}

static void imports(void)
{
    td_account *a = sessions[0];
    a->limit_imports = 2, users[0]->limit_imports = 3;
    for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(td_account_import(a, &e), TD_OK);
    CU_ASSERT_EQUAL(td_account_import(a, &e), TD_E_QUOTA);
    CU_ASSERT_TRUE(said("session 1 holds 2 imported descriptors, which is its limit"));
    CU_ASSERT_EQUAL(td_account_import(sessions[1], &e), TD_OK);
    CU_ASSERT_EQUAL(td_account_import(sessions[1], &e), TD_E_QUOTA);
    CU_ASSERT_TRUE(said("user 100 holds 3 imported descriptors, which is its limit"));
    CU_ASSERT_TRUE(a->imports == 2 && sessions[1]->imports == 1 && users[0]->imports == 3 && root->imports == 3);
    td_account_unimport(a), td_account_unimport(a), td_account_unimport(sessions[1]);
    CU_ASSERT_TRUE(!a->imports && !sessions[1]->imports && !users[0]->imports && !root->imports);
    a->limit_imports = users[0]->limit_imports = 0;
}

/* Three quarters of the objects, of any account of the chain; without a limit never. */
static void strain(void)
{
    for (td_account *limited = sessions[0]; limited; limited = limited->parent) {
        limited->limit_objects = 8;
        for (uint64_t n = 0; n <= 8; n++) {
            CU_ASSERT_EQUAL(td_account_charge(sessions[0], 0, n, &e), TD_OK);
            CU_ASSERT_EQUAL(td_account_strained(sessions[0]), n > 6);
            CU_ASSERT_EQUAL(td_account_strained(sessions[5]), n > 6 && limited == root);
            td_account_discharge(sessions[0], 0, n);
        }
        limited->limit_objects = 0;
        td_account_add(sessions[0], 0, 1000);
        CU_ASSERT_FALSE(td_account_strained(sessions[0]));
        td_account_discharge(sessions[0], 0, 1000);
    }
}

/* The account without room is named: a session, a user by its name, or by its number. */
static void who_is_named(void)
{
    static const struct {
        int user, session;
        const char *words;
    } rows[] = {{-1, 0, "session 1 (run0, pid 1000)"},
                {-1, 4, "session 5 (unnamed, pid 1004)"},
                {0, 1, "ada"},
                {1, 3, "user 101"}};
    char words[200];
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        td_account *full = rows[k].user < 0 ? sessions[rows[k].session] : users[rows[k].user];
        full->limit_bytes = 100, full->limit_objects = 4, full->limit_away = 7;
        td_account_add(sessions[rows[k].session], 90, 3);
        CU_ASSERT_EQUAL(td_account_charge(sessions[rows[k].session], 11, 0, &e), TD_E_QUOTA);
        snprintf(words, sizeof words, "%s holds 90 bytes of its 100 and wants 11 more; drop tensors or raise the quota",
                 rows[k].words);
        CU_ASSERT_STRING_EQUAL(e.message, words);
        CU_ASSERT_EQUAL(td_account_charge(sessions[rows[k].session], 11, 2, &e),
                        TD_E_QUOTA); /* bytes are named first */
        CU_ASSERT_STRING_EQUAL(e.message, words);
        snprintf(words, sizeof words,
                 "%s holds 3 objects of its 4 (0.0 MB of the daemon's own memory) and wants 2 more; drop tensors or "
                 "raise the quota",
                 rows[k].words);
        CU_ASSERT_EQUAL(td_account_charge(sessions[rows[k].session], 0, 2, &e), TD_E_QUOTA);
        CU_ASSERT_STRING_EQUAL(e.message, words);
        CU_ASSERT_EQUAL(td_account_room(sessions[rows[k].session], 2, &e), TD_E_QUOTA);
        CU_ASSERT_STRING_EQUAL(e.message, words);
        snprintf(words, sizeof words,
                 "%s holds 0 bytes on cuda:0 of its 7 and wants 8 more; drop tensors or raise the quota",
                 rows[k].words);
        CU_ASSERT_EQUAL(td_account_charge_on(sessions[rows[k].session], FAR, 8, &e), TD_E_QUOTA);
        CU_ASSERT_STRING_EQUAL(e.message, words);
        CU_ASSERT_PTR_EQUAL(td_account_full(root), full);
        td_account_discharge(sessions[rows[k].session], 90, 3);
        full->limit_bytes = full->limit_objects = full->limit_away = 0;
    }
}

static void refuse(td_account *full)
{
    full->limit_objects = 1;
    CU_ASSERT_EQUAL(td_account_charge(sessions[0], 0, 1000, &e), TD_E_QUOTA);
    full->limit_objects = 0;
}

/* Who is refused some of the daemon's own memory hears of the three that have the most of it, from 100 kB on: sessions,
 * and what a user has beside them. Looking at all takes time, so words stand for a while. */
static void holders(void)
{
    static const uint64_t objects[MOST] = {200, 4000, 196, 8000, 6000, 195};
    refuse(root);
    CU_ASSERT_TRUE(said("the daemon's own memory (records of tensors, graphs, programs) is used up: 0.0 MB of 0.0 MB, "
                        "and 512.0 KB more are wanted"));
    CU_ASSERT_PTR_NULL(strstr(e.message, "holders"));
    td_account_add(sessions[0], 0, objects[0]); /* 102,400 bytes */
    td_account_add(sessions[5], 0, objects[5]); /* 99,840 */
    refuse(root);
    CU_ASSERT_TRUE(said("--own-memory; biggest holders: run0 (pid 1000) 0.1 MB"));
    CU_ASSERT_STRING_EQUAL(strstr(e.message, "; biggest"), "; biggest holders: run0 (pid 1000) 0.1 MB");
    for (int i = 1; i < MOST - 1; i++) td_account_add(sessions[i], 0, objects[i]);
    refuse(root);
    CU_ASSERT_STRING_EQUAL(strstr(e.message, "; biggest"),
                           "; biggest holders: run3 (pid 1003) 4.1 MB,  (pid 1004) 3.1 MB, run1 (pid 1001) 2.0 MB");
    td_account_add(users[0], 0, 7000); /* names */
    td_account_wire(sessions[1], 0, 10000000);
    refuse(root);
    CU_ASSERT_STRING_EQUAL(strstr(e.message, "; biggest"),
                           "; biggest holders: run1 (pid 1001) 12.0 MB, run3 (pid 1003) 4.1 MB, names of ada 3.6 MB");
    refuse(users[0]); /* of this one alone */
    CU_ASSERT_TRUE(said("ada holds"));
    CU_ASSERT_STRING_EQUAL(strstr(e.message, "; biggest"),
                           "; biggest holders: run1 (pid 1001) 12.0 MB, names of ada 3.6 MB, run0 (pid 1000) 0.1 MB");
    refuse(sessions[0]); /* which knows what it has */
    CU_ASSERT_PTR_NULL(strstr(e.message, "holders"));

    hand_clock_stop(1000); /* looking takes 1 us now, so for 20 us nobody looks again */
    refuse(root);
    td_account_wire(sessions[1], 10000000, 0);
    refuse(root);
    CU_ASSERT_TRUE(said("run1 (pid 1001) 12.0 MB"));
    refuse(users[0]);
    CU_ASSERT_TRUE(said("holders: names of ada 3.6 MB, run1 (pid 1001) 2.0 MB"));
    td_account_wire(sessions[1], 0, 10000000);
    refuse(users[0]);
    CU_ASSERT_TRUE(said("holders: names of ada 3.6 MB, run1 (pid 1001) 2.0 MB"));
    hand_clock_go_on(21000);
    refuse(users[0]);
    CU_ASSERT_TRUE(said("holders: run1 (pid 1001) 12.0 MB, names of ada 3.6 MB"));
    hand_clock_stop(0);
    td_account_wire(sessions[1], 10000000, 0);
    td_account_discharge(users[0], 0, 7000);
    for (int i = 0; i < MOST; i++) td_account_discharge(sessions[i], 0, objects[i]);
    CU_ASSERT_TRUE(!root->objects && !root->wire);
    refuse(root);
    CU_ASSERT_PTR_NULL(strstr(e.message, "holders"));
}

TD_CUNIT_MAIN_WITH("account", init, cleanup, {"a tree", a_tree}, {"chains", chains},
                   {"paid by another", paid_by_another}, {"work", work}, {"imports", imports}, {"strain", strain},
                   {"who is named", who_is_named}, {"holders", holders})
