/* The table of what takes memory: each byte that status calls used, idle or the daemon's own is in one of its rows.
 *
 * A storage counts in the row where it is met first: under a name, in a queue, behind an id, in a program. From then on
 * it has the table's number. What an account pays for beyond what was met so is leased, or held inside: by graphs, by
 * calls that run, by what an ended session has left; a row tells how much that is. So the rows of a daemon at rest add
 * up to what it uses, whatever holds it. Where rows are too many, one row of each kind has the rest of it. */
#include "daemon/session/calls/table.h"

#include "daemon/tensor/device.h"
#include "proto/base/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PART = 24,  /* so much at a time; ... */
    A_ROW = 4,  /* ... a row is worth so much, a tensor that is counted 1, */
    SLOTS = 32, /* and so many free ids 1 */
    MOST_SUMS = 2 * TD_TABLE_MOST_ROWS
};

enum kind {
    NAME,
    TREE,
    HANDLE,
    PROGRAM,
    ITEM,
    COPY,
    TENSOR,
    GRADIENT,
    RING,
    LEASE,
    GRAPH,
    ENDED,
    RECORDS,
    CONNECTION,
    UNUSED,
    WARM,
    KINDS
};
static const char *const kinds[KINDS] = {[NAME] = "name",       [TREE] = "tree",
                                         [HANDLE] = "handle",   [PROGRAM] = "program",
                                         [ITEM] = "queue item", [COPY] = "copy",
                                         [TENSOR] = "tensor",   [GRADIENT] = "gradient",
                                         [RING] = "ring",       [LEASE] = "lease",
                                         [GRAPH] = "graph",     [ENDED] = "ended session",
                                         [RECORDS] = "records", [CONNECTION] = "connection",
                                         [UNUSED] = "free",     [WARM] = "warm"};

/* A row; what is not said is empty. */
typedef struct row {
    enum kind kind;
    uint32_t session, id, pid, uid;
    const char *name, *what, *device, *memory, *program, *where, *grad_fn;
    uint64_t storage;
    uint32_t version;
    bool requires_grad;
    double age;
    td_tally sum;
} row;

static const char *or_nothing(const char *text)
{
    return text ? text : "";
}

static void send_row(td_status_table *b, const row *r)
{
    const char *device = r->device ? r->device : td_device_name(TD_CPU);
    td_table_row(b, 20,
                 (Td__Wire__Cell[]){td_cell_integer(r->session),
                                    td_cell_integer(r->id),
                                    td_cell_text(or_nothing(r->what)),
                                    td_cell_integer(r->sum.bytes),
                                    td_cell_integer(r->storage),
                                    td_cell_integer(r->version),
                                    td_cell_yes(r->requires_grad),
                                    td_cell_text(or_nothing(r->grad_fn)),
                                    td_cell_text(or_nothing(r->memory)),
                                    td_cell_integer(r->pid),
                                    td_cell_text(or_nothing(r->program)),
                                    td_cell_text(or_nothing(r->where)),
                                    td_cell_real(r->age),
                                    td_cell_text(kinds[r->kind]),
                                    td_cell_text(or_nothing(r->name)),
                                    td_cell_integer(r->uid),
                                    td_cell_text(device),
                                    td_cell_integer(r->sum.used),
                                    td_cell_integer(r->sum.idle),
                                    td_cell_integer(r->sum.objects * TD_OBJECT_BYTES + r->sum.wire)});
}

static void add_to(td_tally *sum, const td_tally *more)
{
    sum->count += more->count;
    sum->bytes += more->bytes;
    sum->used += more->used;
    sum->idle += more->idle;
    sum->objects += more->objects;
    sum->wire += more->wire;
}

/* What lies elsewhere than on the CPU is never among what there is no room for: it would be counted there. */
static void put(td_status_table *b, const row *r)
{
    bool here = !r->device || strcmp(r->device, td_device_name(TD_CPU)) == 0;
    b->list.left -= A_ROW;
    if (b->rows < TD_TABLE_MOST_ROWS || (!here && b->rows < MOST_SUMS)) {
        send_row(b, r);
        return;
    }
    td_tally *beyond = &b->list.beyond[r->kind];
    uint32_t count = beyond->count + 1;
    add_to(beyond, &r->sum);
    beyond->count = count;
}

/* "and 12 more": of one kind; `of` a session, or all. */
static void put_beyond(td_status_table *b, enum kind kind, const td_account *of)
{
    td_tally *sum = &b->list.beyond[kind];
    char what[64];
    if (!sum->count) return;
    snprintf(what, sizeof what, "and %u more", sum->count);
    row r = {.kind = kind, .what = what, .sum = *sum};
    if (of) r.session = of->session, r.pid = of->pid, r.uid = of->uid, r.program = of->name;
    send_row(b, &r);
    *sum = (td_tally){0};
}

/* ---- what has been counted */

static td_listed *listed(const td_status_table *b, td_account *a)
{
    if (a->listed.table != b->list.number) a->listed = (td_listed){.table = b->list.number};
    return &a->listed;
}

/* Its bytes, unless they were counted. */
static uint64_t count_storage(td_status_table *b, td_storage *s)
{
    b->list.left--;
    if (s->listed == b->list.number) return 0;
    s->listed = b->list.number;
    uint64_t bytes = td_storage_takes(s);
    if (s->account) listed(b, s->account)->bytes[s->device] += bytes;
    return bytes;
}

/* ---- rows that are counted in parts */

static void count_in_row(td_status_table *b, td_storage *s, uint64_t bytes, td_listed_row *r)
{
    if (!r->sum.count++) r->device = s->device;
    r->sum.bytes += bytes;
    if (s->device == r->device) r->sum.used += count_storage(b, s);
}

static void count_tensor(td_status_table *b, const td_tensor *t, td_listed_row *r)
{
    count_in_row(b, t->storage, td_desc_nbytes(&t->desc), r);
}

static void count_objects(td_status_table *b, td_account *a, uint64_t objects, td_tally *sum)
{
    if (!a) return;
    listed(b, a)->objects += objects;
    sum->objects += objects;
}

static void begin_row(td_listed_row *r, enum kind kind, uint32_t session, uint32_t pid, uint32_t uid,
                      const char *program, const char *name)
{
    *r = (td_listed_row){.kind = (int)kind, .session = session, .pid = pid, .uid = uid};
    snprintf(r->program, sizeof r->program, "%s", program);
    snprintf(r->name, sizeof r->name, "%s", name);
}

static void put_listed(td_status_table *b, const td_listed_row *l)
{
    row r = {.kind = (enum kind)l->kind,
             .session = l->session,
             .pid = l->pid,
             .uid = l->uid,
             .name = l->name,
             .what = l->what,
             .device = td_device_name(l->device),
             .program = l->program,
             .sum = l->sum};
    put(b, &r);
}

/* The row says whose it is. What it takes itself is counted once, whatever names and sessions have it. */
static void begin_program(td_status_table *b, td_held_program *p)
{
    td_listing *l = &b->list;
    td_account *payer;
    uint64_t objects;
    if (td_program_list(p, l->number, &objects, &payer)) count_objects(b, payer, objects, &l->row.sum);
    td_named_tell(&(td_named){.program = p}, l->row.what, sizeof l->row.what);
    l->program = td_program_ref(p);
    l->captured = 0;
}

/* True: all of it was counted, or there is none. */
static bool count_program(td_status_table *b)
{
    td_listing *l = &b->list;
    td_tensor *const *captured;
    if (!l->program) return true;
    uint32_t n = td_program_captured(l->program, &captured);
    for (; l->captured < n && l->left > 0; l->captured++) count_tensor(b, captured[l->captured], &l->row);
    if (l->captured < n) return false;
    put_listed(b, &l->row);
    td_program_unref(l->program);
    l->program = NULL;
    return true;
}

/* ---- names */

static void add_name(const td_name *n, void *arg)
{
    td_status_table *b = arg;
    td_listed_row *r = &b->list.row;
    bool handle = strncmp(n->name, TD_HANDLE_PREFIX, strlen(TD_HANDLE_PREFIX)) == 0;
    td_held_program *program = n->what.model ? td_model_program(n->what.model) : n->what.program;
    enum kind kind = program ? PROGRAM : handle ? HANDLE : n->what.edition.tree ? TREE : NAME;
    begin_row(r, kind, n->session, n->pid, n->account->uid, n->program, n->name);
    count_objects(b, n->account, 1, &r->sum); /* the entry */
    if (program) {
        begin_program(b, program);
        return;
    }
    if (!n->what.model) count_tensor(b, n->what.tensor, r); /* which means nothing for a moment */
    td_named_tell(&n->what, r->what, sizeof r->what);
    put_listed(b, r);
}

static bool list_names(td_status_table *b, td_session *s)
{
    td_listing *l = &b->list;
    while (l->left > 0 && count_program(b)) {
        if (l->ended) return true;
        l->ended = td_name_some(s->service, !l->begun, 1, add_name, b);
        l->begun = true;
        l->left--;
    }
    return false;
}

/* ---- queues */

static void end_item(td_status_table *b)
{
    td_listing *l = &b->list;
    uint32_t copies = l->copy.sum.count, n = l->row.sum.count;
    if (!l->item) return;
    l->item = false;
    if (n != 1 || copies) snprintf(l->row.what, sizeof l->row.what, "item of %u tensors", n + copies);
    put_listed(b, &l->row);
    if (!copies) return;
    snprintf(l->copy.what, sizeof l->copy.what, "%u tensor%s as put, written since", copies, copies == 1 ? "" : "s");
    put_listed(b, &l->copy);
}

static void begin_item(td_status_table *b, const td_items_seen *i)
{
    td_listing *l = &b->list;
    td_account *a = i->item->account;
    end_item(b); /* of one that went meanwhile */
    begin_row(&l->row, ITEM, a->session, a->pid, a->uid, a->name, i->queue);
    l->copy = l->row;
    l->copy.kind = COPY;
    l->item = true;
    count_objects(b, a, i->item->cost, &l->row.sum);
}

static void add_items(const td_items_seen *i, void *arg)
{
    td_status_table *b = arg;
    td_listing *l = &b->list;
    if (i->from == 0) begin_item(b, i);
    for (int k = i->from; k < i->to; k++) {
        td_storage *copy = td_queue_item_copy(i->item, k);
        if (copy) count_in_row(b, copy, copy->nbytes, &l->copy); /* the other one is who wrote it's */
        else count_tensor(b, i->item->tensors[k], &l->row);
    }
    if (i->to == 1) td_desc_text(&i->item->tensors[0]->desc, l->row.what, sizeof l->row.what);
    if (i->to == i->item->count) end_item(b);
}

static bool list_queues(td_status_table *b, td_session *s)
{
    td_listing *l = &b->list;
    while (l->left > 0) {
        if (l->ended) {
            end_item(b);
            return true;
        }
        l->ended = td_queue_items_some(s->service, !l->begun, A_ROW, add_items, b);
        l->begun = true;
        l->left--;
    }
    return false;
}

/* ---- sessions: ids, programs, the ring, room in their segments */

static const char *memory_of(const td_storage *s)
{
    return s->poison                  ? "poisoned"
           : s->device != TD_CPU      ? td_device_name(s->device)
           : s->flags & TD_SF_SERVICE ? "service"
                                      : "session";
}

/* The line of the program that bound it, when the session still knows. */
static const char *site_of(const td_session *s, const td_object *o)
{
    if (!o->site || o->site >= s->sites.count || !s->sites.texts[o->site]) return "";
    return o->since < s->sites.renamed[o->site] ? "" : s->sites.texts[o->site];
}

static row of_account(enum kind kind, const td_account *a)
{
    return (row){.kind = kind, .session = a->session, .pid = a->pid, .uid = a->uid, .program = a->name};
}

typedef struct gradients {
    td_status_table *b;
    row r;
    const td_tensor *last;
} gradients;

static void add_gradient(td_tensor *grad, void *arg)
{
    gradients *g = arg;
    g->r.sum.count++;
    g->r.sum.bytes += td_desc_nbytes(&grad->desc);
    g->r.sum.used += count_storage(g->b, grad->storage);
    g->last = grad;
}

static void add_gradients(td_status_table *b, const row *of, const td_tensor *t)
{
    char what[128];
    gradients g = {b, {.kind = GRADIENT}, NULL};
    td_grads_each(t, add_gradient, &g);
    if (!g.last) return;
    row r = *of;
    r.kind = GRADIENT;
    r.sum = g.r.sum;
    r.what = td_desc_text(&g.last->desc, what, sizeof what);
    r.storage = (uint64_t)(uintptr_t)g.last->storage >> 4;
    r.version = td_version_writes(g.last->version);
    r.requires_grad = td_requires_grad(g.last);
    r.grad_fn = td_grad_fn(g.last);
    r.memory = memory_of(g.last->storage);
    r.device = td_device_name(g.last->storage->device);
    put(b, &r);
}

static void add_tensor(td_status_table *b, const td_session *x, uint32_t now, uint32_t id, const td_object *o)
{
    const td_tensor *t = o->tensor;
    char what[128];
    row r = of_account(TENSOR, x->account);
    r.id = id;
    r.what = td_desc_text(&t->desc, what, sizeof what);
    r.storage = (uint64_t)(uintptr_t)t->storage >> 4;
    r.version = td_version_writes(t->version);
    r.requires_grad = td_requires_grad(t);
    r.grad_fn = td_grad_fn(t);
    r.memory = memory_of(t->storage);
    r.device = td_device_name(t->storage->device);
    r.where = site_of(x, o);
    r.age = (double)(now - o->since) * TD_TICK_MS / 1000;
    r.sum = (td_tally){.count = 1, .bytes = td_desc_nbytes(&t->desc), .used = count_storage(b, t->storage)};
    put(b, &r);
    add_gradients(b, &r, t);
}

static bool list_objects(td_status_table *b, const td_session *x)
{
    uint32_t now = td_ticks(x->service); /* not when the request came: others may have bound something since */
    const td_objects *o = &x->objects;
    int slots = 0;
    for (; b->page < o->npages * TD_PAGE_OBJECTS && b->list.left > 0; b->page++) {
        const td_object *at = td_objects_slot(o, b->page);
        if (++slots % SLOTS == 0) b->list.left--;
        if (!at) b->page |= TD_PAGE_OBJECTS - 1; /* the next page */
        if (at && at->tensor) add_tensor(b, x, now, b->page, at);
    }
    return b->page >= o->npages * TD_PAGE_OBJECTS;
}

static bool list_programs(td_status_table *b, const td_session *x)
{
    td_listing *l = &b->list;
    while (l->left > 0 && l->known) {
        td_held_program *p = td_known_programs_at(&l->known);
        begin_row(&l->row, PROGRAM, x->id, x->pid, x->uid, x->account->name, "");
        begin_program(b, p);
        if (!count_program(b)) return false;
    }
    return !l->known;
}

static void add_idle(td_status_table *b, const td_heap *h, row r)
{
    if (!h) return;
    r.sum.idle = td_heap_idle(h);
    b->list.idle += r.sum.idle;
    r.what = "free in its segments";
    if (r.sum.idle) put(b, &r);
}

static void list_session_rest(td_status_table *b, const td_session *x)
{
    td_account *a = x->account;
    if (x->leases.ring) {
        row r = of_account(RING, a);
        r.what = "ring of its connection";
        r.sum.used = r.sum.bytes = x->leases.ring->extent.size;
        listed(b, a)->leased += r.sum.used;
        put(b, &r);
    }
    add_idle(b, x->heap, of_account(UNUSED, a));
    for (int k = 0; k < KINDS && b->rows < MOST_SUMS; k++)
        if (k >= TENSOR) put_beyond(b, (enum kind)k, a);
}

void td_listing_pass(td_status_table *b)
{
    b->page = 0;
    b->list.part = 0;
    b->list.known = NULL;
}

void td_table_pass_program(td_session *s, const td_known_program *p, td_known_program *next)
{
    td_status_table *b = s->all->table;
    if (b && b->list.known == p) b->list.known = next;
}

static bool list_sessions(td_status_table *b, td_session *s)
{
    td_listing *l = &b->list;
    if (!l->begun) b->at = s->all->first;
    l->begun = true;
    while (l->left > 0 && count_program(b)) {
        td_session *x = b->at;
        if (!x) return true;
        if (l->part == 0 && !list_objects(b, x)) return false;
        if (l->part == 0) l->known = x->programs.known;
        l->part = 1;
        if (!list_programs(b, x)) return false;
        list_session_rest(b, x);
        td_listing_pass(b);
        b->at = x->next;
        l->left--;
    }
    return false;
}

/* ---- accounts: what they pay for beyond that */

static td_account *deepest(td_account *a)
{
    while (a->children) a = a->children;
    return a;
}

/* What is left of `has`; it may have become less since that was counted. */
static uint64_t rest_of(uint64_t has, uint64_t counted)
{
    return has > counted ? has - counted : 0;
}

static void add_stored(td_status_table *b, td_account *a, const td_listed *counted)
{
    for (unsigned d = 0; d < TD_MAX_DEVICES; d++) {
        if (a->stored[d] <= counted->bytes[d]) continue;
        row r = of_account(a->ended ? ENDED : GRAPH, a);
        r.what = a->ended ? "held by others' graphs, or about to go" : "saved for a backward, or used by calls";
        r.device = td_device_name(d);
        r.sum.used = r.sum.bytes = a->stored[d] - counted->bytes[d];
        put(b, &r);
    }
    if (a->leased <= counted->leased) return;
    row r = of_account(LEASE, a);
    r.what = "memory to fill";
    r.sum.used = r.sum.bytes = a->leased - counted->leased;
    put(b, &r);
}

static void add_own(td_status_table *b, td_account *a, const td_listed *counted)
{
    row r = of_account(RECORDS, a);
    r.what = "records of tensors, graphs, programs";
    r.sum.objects = rest_of(a->objects, counted->below_objects + counted->objects);
    if (r.sum.objects) put(b, &r);
    r = of_account(CONNECTION, a);
    r.what = "buffers of its connection";
    r.sum.wire = rest_of(a->wire, counted->below_wire);
    if (r.sum.wire) put(b, &r);
}

static void add_account(td_status_table *b, td_account *a)
{
    td_listed *counted = listed(b, a);
    add_stored(b, a, counted);
    add_own(b, a, counted);
    if (!a->parent) return;
    td_listed *above = listed(b, a->parent);
    above->below_objects += a->objects;
    above->below_wire += a->wire;
}

/* Those of sessions before their user's, and these before the daemon's. One that is counted stays where it is. */
static bool list_accounts(td_status_table *b, td_session *s)
{
    td_listing *l = &b->list;
    if (!l->begun) l->account = td_account_ref(deepest(s->service->account));
    l->begun = true;
    while (l->left > 0 && l->account) {
        td_account *a = l->account, *next = a->next ? deepest(a->next) : a->parent;
        add_account(b, a);
        l->account = next ? td_account_ref(next) : NULL;
        td_account_unref(a);
        l->left--;
    }
    return !l->account;
}

/* ---- what lies idle for all */

static bool list_idle(td_status_table *b, td_session *s)
{
    const td_budget *of = &s->service->budget;
    row r = {.kind = UNUSED, .pid = (uint32_t)getpid(), .program = s->service->account->name};
    add_idle(b, s->service->heap, r);
    r.what = "of processes that ended, or being made";
    r.sum.idle = rest_of(of->committed - of->used, b->list.idle + of->warm_bytes);
    if (r.sum.idle) put(b, &r);
    r.kind = WARM;
    r.what = "segments for whoever needs one next";
    r.sum.count = of->warm_count;
    r.sum.idle = of->warm_bytes;
    if (r.sum.idle) put(b, &r);
    for (int k = 0; k < KINDS; k++) put_beyond(b, (enum kind)k, NULL);
    return true;
}

/* ---- */

static bool set_up(td_status_table *b)
{
    static const char *const columns[] = {"session",       "id",       "tensor", "bytes", "storage", "version",
                                          "requires_grad", "grad_fn",  "memory", "pid",   "program", "where",
                                          "age_s",         "kind",     "name",   "uid",   "device",  "bytes_used",
                                          "bytes_idle",    "bytes_own"};
    b->columns = columns;
    b->n_columns = sizeof columns / sizeof columns[0];
    if (b->list.beyond) return true;
    b->list.beyond = calloc(KINDS, sizeof *b->list.beyond);
    b->list.number = ++b->all->tables;
    if (!b->list.number) b->list.number = ++b->all->tables; /* 0: nothing has counted it */
    return b->list.beyond;
}

bool td_fill_tensors(td_status_table *b, td_session *s)
{
    static bool (*const phases[])(td_status_table *, td_session *) = {list_names, list_queues, list_sessions,
                                                                      list_accounts, list_idle};
    enum { PHASES = sizeof phases / sizeof phases[0] };
    td_listing *l = &b->list;
    if (!set_up(b)) {
        b->failed = true;
        return true;
    }
    for (l->left = PART; l->left > 0 && l->phase < PHASES;) {
        if (!phases[l->phase](b, s)) continue;
        l->phase++;
        l->begun = l->ended = false;
    }
    return l->phase == PHASES;
}

void td_listing_drop(td_listing *l)
{
    td_program_unref(l->program);
    td_account_unref(l->account);
    free(l->beyond);
}
