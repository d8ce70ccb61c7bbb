/* Queues: bounded first-in first-out lists of tensors with a note, by name.
 *
 * A queue lives as long as it has members; the last to leave takes its items along. Getters and putters that cannot go
 * on wait in two lists, in order of arrival, and are told at once when the other side is gone: a wait never hangs on
 * somebody who died. */
#include "daemon/service/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

struct td_queue {
    UT_hash_handle hh;
    char name[TD_NAME_MAX + 1];
    uint32_t capacity, size, deaths;
    bool sized; /* somebody said the capacity; until then it is 1 */
    td_queue_item *first, **last;
    td_member *members;
    td_queue_wait *putters, *getters; /* oldest first */
    uint64_t puts, gets;
    uint64_t death_at;             /* puts when the last producer died: its death is told after what came before it */
    uint32_t producers, consumers; /* members */
    uint32_t producers_ever;       /* before the first producer an empty queue waits */
    bool ended;
    char last_death[96];
};

static size_t item_size(const td_queue_item *i)
{
    return sizeof *i + (size_t)i->count * sizeof(td_tensor *) + i->note_bytes;
}

static uint64_t item_cost(const td_queue_item *i)
{
    return 1 + item_size(i) / 512;
}

int td_queue_item_new(td_queue_item **out, td_account *account, int count, td_tensor *const *tensors, const void *note,
                      size_t note_bytes, td_error *e)
{
    td_queue_item plan = {.count = count, .note_bytes = note_bytes, .account = account};
    int rc = td_account_charge(account, 0, item_cost(&plan), e);
    if (rc) return rc;
    td_queue_item *i = malloc(item_size(&plan));
    if (!i) {
        td_account_discharge(account, 0, item_cost(&plan));
        return td_fail(e, TD_E_SYSTEM, "no memory for an item");
    }
    *i = plan;
    if (account) td_account_ref(account);
    i->tensors = (td_tensor **)(i + 1);
    i->note = (unsigned char *)(i->tensors + count);
    if (note_bytes) memcpy(i->note, note, note_bytes);
    for (int k = 0; k < count; k++) i->tensors[k] = td_tensor_hold(tensors[k]);
    *out = i;
    return TD_OK;
}

void td_queue_item_free(td_queue_item *i)
{
    if (!i) return;
    for (int k = 0; k < i->count; k++) td_tensor_unhold(i->tensors[k]);
    td_account_discharge(i->account, 0, item_cost(i));
    td_account_unref(i->account);
    free(i);
}

static void count_member(td_queue *q, const td_member *m, int by)
{
    if (m->role & TD_QUEUE_PRODUCER) q->producers += by;
    if (m->role & TD_QUEUE_CONSUMER) q->consumers += by;
}

static void push(td_queue *q, td_queue_item *i)
{
    i->next = NULL;
    *q->last = i;
    q->last = &i->next;
    q->size++;
    q->puts++;
}

static td_queue_item *pop(td_queue *q)
{
    td_queue_item *i = q->first;
    if (!i) return NULL;
    q->first = i->next;
    if (!q->first) q->last = &q->first;
    q->size--;
    q->gets++;
    i->next = NULL;
    return i;
}

static void list_append(td_queue_wait **list, td_queue_wait *w)
{
    td_queue_wait *tail = *list;
    while (tail && tail->next) tail = tail->next;
    w->prev = tail;
    w->next = NULL;
    if (tail) tail->next = w;
    else *list = w;
}

static void list_remove(td_queue_wait **list, td_queue_wait *w)
{
    if (w->prev) w->prev->next = w->next;
    else *list = w->next;
    if (w->next) w->next->prev = w->prev;
}

/* End a wait: off the list, its deadline off, then its callback as the last step. */
static void finish_wait(td_service *s, td_queue_wait *w, td_queue_item *item, const td_error *error)
{
    void (*then)(void *, td_queue_item *, const td_error *) = w->then;
    void *arg = w->arg;
    w->item = NULL;
    td_queue_wait_cancel(s, w);
    then(arg, item, error);
}

void td_queue_wait_cancel(td_service *s, td_queue_wait *w)
{
    if (!w) return;
    td_queue *q = w->member->queue;
    list_remove(w->put ? &q->putters : &q->getters, w);
    td_deadline_disarm(s, &w->deadline);
    td_queue_item_free(w->item);
    free(w);
}

/* Is there no one left who could ever put? */
static bool no_more_puts(const td_queue *q)
{
    return q->ended || (q->producers_ever && q->producers == 0 && !q->putters);
}

static int closed_for_get(const td_queue *q, td_error *e)
{
    if (q->ended) return td_fail(e, TD_E_CLOSED, "queue '%s' has ended and is empty", q->name);
    return td_fail(e, TD_E_CLOSED, "queue '%s' is empty and has no producer any more%s%s", q->name,
                   q->deaths ? "; the last to die was " : "", q->deaths ? q->last_death : "");
}

static int closed_for_put(const td_queue *q, td_error *e)
{
    return td_fail(e, TD_E_CLOSED, "queue '%s' has ended: nothing more can be put", q->name);
}

static bool death_untold(const td_member *m)
{
    return m->role & TD_QUEUE_WATCH && m->deaths_told != m->queue->deaths && m->queue->gets >= m->queue->death_at;
}

static int tell_death(td_member *m, td_error *e)
{
    const td_queue *q = m->queue;
    m->deaths_told++;
    return td_fail(e, TD_E_LOST, "a producer of queue '%s' died: %s; %u left", q->name, q->last_death, q->producers);
}

/* Let waits that can go on do so, one at a time, until nothing moves. */
static void settle(td_service *s, td_queue *q)
{
    for (bool moved = true; moved;) {
        moved = false;
        td_error e = {0};
        td_queue_wait *p = q->putters, *g = q->getters;
        if (p && q->ended) {
            td_queue_item_free(p->item);
            closed_for_put(q, &e);
            finish_wait(s, p, NULL, &e);
            moved = true;
        } else if (p && q->size < q->capacity) {
            push(q, p->item);
            finish_wait(s, p, NULL, NULL);
            moved = true;
        } else if (g && q->first) {
            finish_wait(s, g, pop(q), NULL);
            moved = true;
        } else if (g && no_more_puts(q)) {
            closed_for_get(q, &e);
            finish_wait(s, g, NULL, &e);
            moved = true;
        } else {
            for (; g && !death_untold(g->member); g = g->next) {
            }
            if (g) {
                tell_death(g->member, &e);
                finish_wait(s, g, NULL, &e);
                moved = true;
            }
        }
    }
}

static td_queue *find(td_service *s, const char *name)
{
    td_queue *q;
    HASH_FIND_STR(s->queues, name, q);
    return q;
}

static td_queue *create(td_service *s, const char *name)
{
    td_queue *q = calloc(1, sizeof *q);
    if (!q) return NULL;
    snprintf(q->name, sizeof q->name, "%s", name);
    q->capacity = 1;
    q->last = &q->first;
    HASH_ADD_STR(s->queues, name, q);
    s->queue_count++;
    return q;
}

static void destroy(td_service *s, td_queue *q)
{
    for (td_queue_item *i; (i = pop(q));) td_queue_item_free(i);
    HASH_DEL(s->queues, q);
    s->queue_count--;
    free(q);
}

int td_queue_join(td_member **out, td_service *s, const char *name, uint32_t capacity, uint32_t role,
                  const td_account *who, td_error *e)
{
    *out = NULL;
    int rc = td_name_check(name, e);
    if (rc) return rc;
    if (!(role & (TD_QUEUE_PRODUCER | TD_QUEUE_CONSUMER)))
        return td_fail(e, TD_E_INVALID, "queue '%s': join as producer, consumer or both (role %u)", name, role);
    td_queue *q = find(s, name);
    if (q && capacity && q->sized && capacity != q->capacity)
        return td_fail(e, TD_E_EXISTS, "queue '%s' exists with capacity %u; asked for %u", name, q->capacity, capacity);
    bool fresh = !q;
    if (fresh && !(q = create(s, name))) return td_fail(e, TD_E_SYSTEM, "no memory for queue '%s'", name);
    td_member *m = calloc(1, sizeof *m);
    if (!m) {
        if (fresh) destroy(s, q);
        return td_fail(e, TD_E_SYSTEM, "no memory to join queue '%s'", name);
    }
    if (capacity && !q->sized) {
        q->capacity = capacity;
        q->sized = true;
    }
    *m = (td_member){.queue = q,
                     .role = role,
                     .session = who->session,
                     .pid = who->pid,
                     .deaths_told = q->deaths,
                     .next = q->members};
    snprintf(m->program, sizeof m->program, "%s", who->name);
    if (m->next) m->next->prev = m;
    q->members = m;
    count_member(q, m, 1);
    q->producers_ever += (role & TD_QUEUE_PRODUCER) != 0;
    *out = m;
    settle(s, q); /* a larger capacity makes room */
    return TD_OK;
}

void td_queue_leave(td_service *s, td_member *m, bool died)
{
    if (!m) return;
    td_queue *q = m->queue;
    for (td_queue_wait *w = q->putters, *next; w; w = next) {
        next = w->next;
        if (w->member == m) td_queue_wait_cancel(s, w);
    }
    for (td_queue_wait *w = q->getters, *next; w; w = next) {
        next = w->next;
        if (w->member == m) td_queue_wait_cancel(s, w);
    }
    if (m->prev) m->prev->next = m->next;
    else q->members = m->next;
    if (m->next) m->next->prev = m->prev;
    count_member(q, m, -1);
    if (died && m->role & TD_QUEUE_PRODUCER) {
        q->deaths++;
        q->death_at = q->puts;
        snprintf(q->last_death, sizeof q->last_death, "%s (pid %u)", m->program, m->pid);
    }
    free(m);
    if (!q->members) {
        destroy(s, q);
        return;
    }
    settle(s, q);
}

void td_queue_end(td_service *s, td_member *m)
{
    m->queue->ended = true;
    settle(s, m->queue);
}

static void wait_expired(void *arg)
{
    td_queue_wait *w = arg;
    td_queue *q = w->member->queue;
    td_error e = {0};
    if (w->put)
        td_fail(&e, TD_E_TIMEOUT, "queue '%s' stayed full (%u of %u); %u consumers have joined", q->name, q->size,
                q->capacity, q->consumers);
    else td_fail(&e, TD_E_TIMEOUT, "queue '%s' stayed empty; %u producers have joined", q->name, q->producers);
    void (*then)(void *, td_queue_item *, const td_error *) = w->then;
    void *owner = w->arg;
    list_remove(w->put ? &q->putters : &q->getters, w);
    td_queue_item_free(w->item);
    free(w);
    then(owner, NULL, &e);
}

static int wait_new(td_service *s, td_member *m, td_queue_item *item, uint32_t timeout_ms, td_queue_wait **out,
                    void (*then)(void *, td_queue_item *, const td_error *), void *arg, td_error *e)
{
    td_queue *q = m->queue;
    if (timeout_ms == 0)
        return td_fail(e, TD_E_TIMEOUT, item ? "queue '%s' is full (%u of %u)" : "queue '%s' is empty (%u of %u)",
                       q->name, q->size, q->capacity);
    td_queue_wait *w = calloc(1, sizeof *w);
    if (!w) return td_fail(e, TD_E_SYSTEM, "no memory to wait for queue '%s'", q->name);
    *w = (td_queue_wait){.member = m, .put = item != NULL, .item = item, .then = then, .arg = arg};
    list_append(w->put ? &q->putters : &q->getters, w);
    if (timeout_ms != UINT32_MAX) td_deadline_arm(s, &w->deadline, timeout_ms, wait_expired, w);
    *out = w;
    return TD_WAIT;
}

int td_queue_put(td_service *s, td_member *m, td_queue_item *item, uint32_t timeout_ms, td_queue_wait **wait,
                 void (*then)(void *, td_queue_item *, const td_error *), void *arg, td_error *e)
{
    td_queue *q = m->queue;
    if (!(m->role & TD_QUEUE_PRODUCER))
        return td_fail(e, TD_E_PERMISSION, "queue '%s' was joined as consumer only", q->name);
    if (q->ended) return closed_for_put(q, e);
    if (q->size >= q->capacity || q->putters) return wait_new(s, m, item, timeout_ms, wait, then, arg, e);
    push(q, item);
    settle(s, q);
    return TD_OK;
}

int td_queue_get(td_service *s, td_member *m, td_queue_item **item, uint32_t timeout_ms, td_queue_wait **wait,
                 void (*then)(void *, td_queue_item *, const td_error *), void *arg, td_error *e)
{
    td_queue *q = m->queue;
    *item = NULL;
    if (!(m->role & TD_QUEUE_CONSUMER))
        return td_fail(e, TD_E_PERMISSION, "queue '%s' was joined as producer only", q->name);
    if (death_untold(m)) return tell_death(m, e);
    if (q->first && !q->getters) {
        *item = pop(q);
        settle(s, q);
        return TD_OK;
    }
    if (!q->first && no_more_puts(q)) return closed_for_get(q, e);
    return wait_new(s, m, NULL, timeout_ms, wait, then, arg, e);
}

void td_queue_untake(td_service *s, td_member *m, td_queue_item *item)
{
    td_queue *q = m->queue;
    item->next = q->first;
    if (!q->first) q->last = &item->next;
    q->first = item;
    q->size++;
    q->gets--;
    settle(s, q);
}

uint32_t td_queue_size(const td_queue *q)
{
    return q->size;
}

void td_queue_each(td_service *s, void (*fn)(const td_queue_info *q, void *arg), void *arg)
{
    for (td_queue *q = s->queues; q; q = q->hh.next) {
        td_queue_info i = {.name = q->name,
                           .capacity = q->capacity,
                           .items = q->size,
                           .deaths = q->deaths,
                           .ended = q->ended,
                           .puts = q->puts,
                           .gets = q->gets,
                           .producers = q->producers,
                           .consumers = q->consumers};
        for (td_queue_wait *w = q->putters; w; w = w->next) i.waiting_put++;
        for (td_queue_wait *w = q->getters; w; w = w->next) i.waiting_get++;
        fn(&i, arg);
    }
}
