/* Names: a hash table from text to a tensor, a program or a model, that outlives its session.
 *
 * An entry holds one reference on what it names and is charged, as one object, to the user that published it. A handle
 * is a name that nobody can guess. It stays while the id that it was made for stands, or while it is to be taken as
 * often as it was made, and nothing else keeps it: so who pickles a tensor again and again keeps one entry. */
#include "daemon/service/models.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

typedef struct entry {
    td_name n; /* first: an entry is its name */
    td_service *service;
    td_deadline deadline; /* armed: it does not stay */
    uint32_t lasts_ms;
    bool one_taker;
    td_account *lender; /* the deadline counts from the end of this one's session; NULL: it counts */
    bool handle;        /* made by td_handle_new(), for an id that ... */
    bool stands;        /* ... has not been released */
    uint32_t untaken;   /* so many who were given it have yet to come */
    UT_hash_handle hh;
} entry;

static entry *table(td_service *s)
{
    return (entry *)s->names;
}

int td_name_check(const char *name, td_error *e)
{
    size_t n = strlen(name);
    if (n == 0 || n > TD_NAME_MAX)
        return td_fail(e, TD_E_INVALID, "a name has 1 to %d bytes; this one has %zu", TD_NAME_MAX, n);
    uint32_t code;
    for (size_t i = 0, step; i < n; i += step) {
        step = td_text_char(name + i, &code);
        if (code < 0x20 || (code >= 0x7f && code < 0xa0))
            return td_fail(e, TD_E_INVALID, "byte %zu of the name is a control character (0x%02x)", i, code);
    }
    return TD_OK;
}

static entry *find(td_service *s, const char *name)
{
    entry *x;
    HASH_FIND_STR(table(s), name, x);
    return x;
}

td_named td_named_hold(td_named what)
{
    if (what.tensor) td_tensor_hold(what.tensor);
    if (what.program) td_program_ref(what.program);
    if (what.model) td_model_ref(what.model);
    return what;
}

void td_named_unhold(td_named what)
{
    td_tensor_unhold(what.tensor);
    td_program_unref(what.program);
    td_model_unref(what.model);
}

/* ---- who waits for a name: a list each */

enum { TELL_MOST = 256 }; /* of those who waited are told at once */

struct td_name_waiters {
    td_service *service;
    td_name_wait *first, *last;
    bool told;                           /* else they wait, and are in the table */
    td_named what;                       /* was published, and they are told of it */
    struct td_name_waiters *next, *prev; /* of those that are told */
    UT_hash_handle hh;
    char name[];
};

static td_name_waiters *waiters_of(td_service *s, const char *name)
{
    td_name_waiters *l;
    HASH_FIND_STR(s->name_waits, name, l);
    return l;
}

static td_name_waiters *need_waiters(td_service *s, const char *name)
{
    size_t n = strlen(name);
    td_name_waiters *l = waiters_of(s, name);
    if (l || !(l = calloc(1, sizeof *l + n + 1))) return l;
    l->service = s;
    memcpy(l->name, name, n + 1);
    HASH_ADD_KEYPTR(hh, s->name_waits, l->name, n, l);
    if (TD_HASHED(l)) return l;
    free(l);
    return NULL;
}

static void end_waiters(td_name_waiters *l)
{
    td_service *s = l->service;
    if (l->told) {
        *(l->prev ? &l->prev->next : &s->name_told) = l->next;
        *(l->next ? &l->next->prev : &s->name_told_last) = l->prev;
        td_named_unhold(l->what);
    } else {
        HASH_DEL(s->name_waits, l);
    }
    free(l);
}

static void tell(td_service *s);

static void tell_more(void *service)
{
    tell(service);
}

/* Some of them; a client may hold tens of thousands, and the loop has others to serve. */
static void tell(td_service *s)
{
    for (int n = 0; s->name_told && n < TELL_MOST; n++) {
        td_name_wait *w = s->name_told->first;
        td_named what = td_named_hold(s->name_told->what);
        void (*then)(void *, const td_named *, const td_error *) = w->then;
        void *arg = w->await.arg;
        td_name_wait_free(w);
        then(arg, &what, NULL);
        td_named_unhold(what);
    }
    if (s->name_told) td_deadline_arm(s, &s->tell_more, 1, tell_more, s);
    else td_deadline_disarm(s, &s->tell_more);
}

static void wake_waiters(td_service *s, const char *name, td_named what)
{
    td_name_waiters *l = waiters_of(s, name);
    if (!l) return;
    HASH_DEL(s->name_waits, l);
    l->what = td_named_hold(what); /* the name may go before all are told; what nobody holds loses its .grad */
    l->told = true;
    l->prev = s->name_told_last;
    *(l->prev ? &l->prev->next : &s->name_told) = l;
    s->name_told_last = l;
    if (!s->tell_more.armed) tell(s);
}

static int check_owner(const entry *x, const td_account *who, td_error *e)
{
    if (!who || who->uid == x->n.account->uid || who->uid == 0) return TD_OK;
    return td_fail(e, TD_E_PERMISSION, "the name '%s' belongs to uid %u", x->n.name, x->n.account->uid);
}

static int publish(td_service *s, const char *name, td_named what, const td_account *who, bool replace, td_error *e)
{
    int rc = td_name_check(name, e);
    if (rc) return rc;
    entry *x = find(s, name);
    if (x && !replace)
        return td_fail(e, TD_E_EXISTS,
                       "the name '%s' is taken: published by %s (pid %u); drop it first, or publish with replace", name,
                       x->n.program, x->n.pid);
    if (x && (rc = check_owner(x, who, e))) return rc;
    if (!x) {
        td_account *payer = who->parent ? who->parent : s->account;
        rc = td_account_charge(payer, 0, 1, e);
        if (rc) return rc;
        x = calloc(1, sizeof *x);
        if (!x) {
            td_account_discharge(payer, 0, 1);
            return td_no_memory(e, "for the name '%s'", name);
        }
        snprintf(x->n.name, sizeof x->n.name, "%s", name);
        x->n.account = td_account_ref(payer);
        entry *head = table(s);
        HASH_ADD_STR(head, n.name, x);
        if (!TD_HASHED(x)) {
            td_account_unref(x->n.account);
            td_account_discharge(payer, 0, 1);
            free(x);
            return td_no_memory(e, "for the name '%s'", name);
        }
        s->names = &head->n;
        s->name_count++;
    }
    td_deadline_disarm(s, &x->deadline); /* what replaces a handle is a name */
    x->handle = false;
    td_named old = x->n.what;
    what.edition.version = ++s->editions;
    x->n.what = td_named_hold(what);
    if (old.model && old.model != what.model) td_model_unnamed(old.model);
    td_named_unhold(old);
    x->n.session = who->session;
    x->n.pid = who->pid;
    snprintf(x->n.program, sizeof x->n.program, "%s", who->name);
    x->n.since_ms = td_clock_ms();
    wake_waiters(s, name, what);
    return TD_OK;
}

int td_name_publish(td_service *s, const char *name, td_tensor *t, const td_account *who, bool replace, uint32_t tree,
                    td_error *e)
{
    return publish(s, name, (td_named){.tensor = t, .edition = {.tree = tree}}, who, replace, e);
}

int td_name_publish_program(td_service *s, const char *name, td_held_program *p, const td_account *who, bool replace,
                            td_error *e)
{
    return publish(s, name, (td_named){.program = p}, who, replace, e);
}

int td_name_for_model(td_service *s, const char *name, const td_account *who, bool anew, td_error *e)
{
    int rc = td_name_check(name, e);
    const entry *x = rc ? NULL : find(s, name);
    if (!x) return rc;
    if (anew || !x->n.what.model)
        return td_fail(e, TD_E_EXISTS, "the name '%s' is taken by a %s that %s (pid %u) published", name,
                       x->n.what.model     ? "model"
                       : x->n.what.program ? "program"
                                           : "tensor",
                       x->n.program, x->n.pid);
    return check_owner(x, who, e);
}

int td_name_publish_model(td_service *s, const char *name, td_named_model *m, const td_account *who, bool anew,
                          td_error *e)
{
    int rc = td_name_for_model(s, name, who, anew, e);
    return rc ? rc : publish(s, name, (td_named){.model = m}, who, true, e);
}

td_tensor *td_name_find(td_service *s, const char *name, td_error *e)
{
    entry *x = find(s, name);
    if (x) return x->n.what.tensor;
    td_fail(e, TD_E_NOT_FOUND, "nothing is published as '%s' (%u names are; `tensorctl names` lists them)", name,
            s->name_count);
    return NULL;
}

const td_name *td_name_newer(td_service *s, const char *name, uint64_t newer_than, td_error *e)
{
    entry *x = find(s, name);
    if (newer_than && (newer_than <= s->no_edition || newer_than > s->editions)) {
        td_fail(e, TD_E_CLOSED,
                "the name '%s' began anew: version %llu is of another daemon, which is no more, or of none; open the "
                "name without a version (newer_than=0), and go on from the version that comes",
                name, (unsigned long long)newer_than);
        return NULL;
    }
    if (x && x->n.what.edition.version > newer_than) return &x->n;
    if (!x) td_name_find(s, name, e);
    else
        td_fail(e, TD_E_NOT_NEWER, "nothing newer than version %llu is published as '%s' (which has version %llu)",
                (unsigned long long)newer_than, name, (unsigned long long)x->n.what.edition.version);
    return NULL;
}

static void drop(td_service *s, entry *x)
{
    entry *head = table(s);
    if (s->names_at == &x->n) s->names_at = x->hh.next;
    td_deadline_disarm(s, &x->deadline);
    HASH_DEL(head, x);
    s->names = (td_name *)head;
    s->name_count--;
    td_account_discharge(x->n.account, 0, 1);
    td_account_unref(x->n.account);
    td_account_unref(x->lender);
    if (x->n.what.model) td_model_unnamed(x->n.what.model);
    td_named_unhold(x->n.what);
    free(x);
}

void td_name_drop_model(td_service *s, const td_named_model *m)
{
    entry *x = find(s, td_model_name(m));
    if (x && x->n.what.model == m) drop(s, x);
}

int td_name_drop(td_service *s, const char *name, const td_account *who, td_error *e)
{
    entry *x = find(s, name);
    if (!x) return td_name_find(s, name, e), TD_E_NOT_FOUND;
    int rc = check_owner(x, who, e);
    if (!rc) drop(s, x);
    return rc;
}

static void expire(void *arg);

/* While its lender lives it is only looked after: no oftener than this costs little, whatever the lender asked for. */
enum { LOOK_MS = 1000 };

static void arm(entry *x)
{
    uint32_t ms = x->lender && x->lasts_ms < LOOK_MS ? LOOK_MS : x->lasts_ms;
    td_deadline_arm(x->service, &x->deadline, ms, expire, x);
}

/* Whoever was to come has, or is waited for no longer. */
static void need_no_more(entry *x)
{
    x->untaken = 0;
    td_deadline_disarm(x->service, &x->deadline);
    if (!x->stands) drop(x->service, x);
}

/* Nobody came for it. */
static void expire(void *arg)
{
    entry *x = arg;
    if (!x->lender) {
        need_no_more(x);
        return;
    }
    if (x->lender->ended) {
        td_account_unref(x->lender);
        x->lender = NULL;
    }
    arm(x);
}

int td_name_hand(td_service *s, const char *name, td_tensor *t, td_account *who, uint32_t lasts_ms, bool lent,
                 td_error *e)
{
    bool waited = waiters_of(s, name) != NULL;
    int rc = td_name_publish(s, name, t, who, false, false, e);
    if (rc) return rc;
    entry *x = find(s, name);
    x->service = s;
    x->lasts_ms = lasts_ms;
    x->one_taker = !lent || strncmp(name, TD_HANDLE_PREFIX, strlen(TD_HANDLE_PREFIX)) == 0;
    x->lender = lent ? td_account_ref(who) : NULL;
    if (waited && x->one_taker) drop(s, x);
    else arm(x);
    return TD_OK;
}

void td_name_taken(td_service *s, const char *name)
{
    entry *x = find(s, name);
    if (x && x->handle && x->untaken && --x->untaken == 0) need_no_more(x);
    else if (x && !x->handle && x->deadline.armed && x->one_taker) drop(s, x);
}

/* ---- handles */

static int invent(char name[TD_HANDLE_TEXT], td_error *e)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return td_fail(e, TD_E_SYSTEM, "no random numbers for a handle");
    snprintf(name, TD_HANDLE_TEXT, TD_HANDLE_PREFIX "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    return TD_OK;
}

static int give(entry *x, td_account *who, uint32_t lasts_ms, bool lasting, td_error *e)
{
    if (x->untaken == UINT32_MAX)
        return td_fail(e, TD_E_QUOTA, "the handle of a tensor is given to more than %u, none of whom has come",
                       UINT32_MAX);
    x->untaken++;
    x->lasts_ms = lasts_ms;
    if (lasting && !x->lender) x->lender = td_account_ref(who);
    arm(x);
    return TD_OK;
}

int td_handle_new(td_service *s, char name[TD_HANDLE_TEXT], td_tensor *t, td_account *who, uint32_t lasts_ms,
                  bool lasting, td_error *e)
{
    int rc = invent(name, e);
    if (!rc) rc = td_name_publish(s, name, t, who, false, 0, e);
    if (rc) return rc;
    entry *x = find(s, name);
    x->service = s;
    x->handle = x->stands = true;
    return give(x, who, lasts_ms, lasting, e);
}

int td_handle_again(td_service *s, const char *name, td_account *who, uint32_t lasts_ms, bool lasting, td_error *e)
{
    entry *x = find(s, name);
    return x && x->handle ? give(x, who, lasts_ms, lasting, e) : td_fail(e, TD_E_NOT_FOUND, "the handle is gone");
}

void td_handle_let_go(td_service *s, const char *name)
{
    entry *x = find(s, name);
    if (!x || !x->handle) return;
    x->stands = false;
    if (!x->untaken) drop(s, x);
}

void td_name_each(td_service *s, uint32_t most, void (*fn)(const td_name *n, void *arg), void *arg)
{
    for (entry *x = table(s), *next; x && most; x = next, most--) {
        next = x->hh.next;
        fn(&x->n, arg);
    }
}

bool td_name_some(td_service *s, bool first, uint32_t most, void (*fn)(const td_name *n, void *arg), void *arg)
{
    entry *x = first ? table(s) : (entry *)s->names_at;
    for (; x && most; x = x->hh.next, most--) fn(&x->n, arg);
    s->names_at = (td_name *)x;
    return !x;
}

static void tell_late(td_service *s, const char *name, td_error *e)
{
    const entry *x = find(s, name);
    if (!x) td_fail(e, TD_E_TIMEOUT, "nobody published '%s' in time", name);
    else
        td_fail(e, TD_E_NOT_NEWER, "nobody published '%s' anew in time (it has version %llu)", name,
                (unsigned long long)x->n.what.edition.version);
}

static void wait_expired(void *arg)
{
    td_name_wait *w = arg;
    td_error e = {0};
    bool told = w->among->told; /* it came, and this one was not told yet */
    td_named what = told ? td_named_hold(w->among->what) : (td_named){0};
    if (!told) tell_late(w->among->service, w->among->name, &e);
    void (*then)(void *, const td_named *, const td_error *) = w->then;
    void *owner = w->await.arg;
    td_name_wait_free(w);
    then(owner, &what, told ? NULL : &e);
    td_named_unhold(what);
}

static void wait_cancel(td_service *s, td_await *a)
{
    (void)s;
    td_name_wait_free((td_name_wait *)(void *)a);
}

static const char *waited(const td_await *a)
{
    return ((const td_name_wait *)(const void *)a)->among->name;
}

static const td_await_kind for_name = {wait_cancel, waited};

int td_name_wait_new(td_name_wait **out, td_service *s, const char *name, uint32_t timeout_ms,
                     void (*then)(void *arg, const td_named *what, const td_error *error), void *arg, td_error *e)
{
    *out = NULL;
    int rc = td_name_check(name, e);
    if (rc) return rc;
    td_name_wait *w = calloc(1, sizeof *w);
    td_name_waiters *l = w ? need_waiters(s, name) : NULL;
    if (!l) {
        free(w);
        return td_no_memory(e, "to wait for the name '%s'", name);
    }
    *w = (td_name_wait){.await = {.kind = &for_name, .arg = arg}, .among = l, .prev = l->last, .then = then};
    *(l->last ? &l->last->next : &l->first) = w;
    l->last = w;
    if (timeout_ms != UINT32_MAX) td_deadline_arm(s, &w->await.deadline, timeout_ms, wait_expired, w);
    *out = w;
    return TD_OK;
}

void td_name_wait_free(td_name_wait *w)
{
    if (!w) return;
    td_name_waiters *l = w->among;
    td_deadline_disarm(l->service, &w->await.deadline);
    *(w->prev ? &w->prev->next : &l->first) = w->next;
    *(w->next ? &w->next->prev : &l->last) = w->prev;
    free(w);
    if (!l->first) end_waiters(l);
}

void td_name_waits_drop(td_service *s)
{
    while (s->name_told) td_name_wait_free(s->name_told->first);
    while (s->name_waits) td_name_wait_free(s->name_waits->first);
    td_deadline_disarm(s, &s->tell_more);
}
