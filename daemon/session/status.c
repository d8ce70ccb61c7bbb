/* Status: the daemon's state as small tables, for tensorctl and for tests that count before and after. */
#include "daemon/session/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    MOST_ROWS = 10000,
    TABLE_SHARE = 9 /* a long table, and so many times as long for everything else */
};

/* A table under construction; all of it lies in one arena. */
typedef struct table {
    td_arena arena;
    Td__Wire__Table t;
    size_t room;
    bool failed;
} table;

static void add_row(table *b, size_t ncells, const Td__Wire__Cell *cells)
{
    if (b->t.n_rows >= MOST_ROWS) return;
    if (b->t.n_rows == b->room) {
        size_t room = b->room ? b->room * 2 : 64;
        Td__Wire__Row **rows = td_arena_alloc(&b->arena, room * sizeof *rows);
        if (!rows) {
            b->failed = true;
            return;
        }
        if (b->room) memcpy(rows, b->t.rows, b->room * sizeof *rows);
        b->t.rows = rows;
        b->room = room;
    }
    Td__Wire__Row *r = td_arena_alloc(&b->arena, sizeof *r);
    Td__Wire__Cell **list = td_arena_alloc(&b->arena, ncells * sizeof *list);
    Td__Wire__Cell *copy = td_arena_alloc(&b->arena, ncells * sizeof *copy);
    if (!r || !list || !copy) {
        b->failed = true;
        return;
    }
    td__wire__row__init(r);
    for (size_t i = 0; i < ncells; i++) {
        copy[i] = cells[i];
        list[i] = &copy[i];
    }
    r->n_cells = ncells;
    r->cells = list;
    b->t.rows[b->t.n_rows++] = r;
}

static Td__Wire__Cell integer(uint64_t v)
{
    Td__Wire__Cell c;
    td__wire__cell__init(&c);
    c.value_case = TD__WIRE__CELL__VALUE_INTEGER;
    c.integer = (int64_t)v;
    return c;
}

static Td__Wire__Cell real(double v)
{
    Td__Wire__Cell c;
    td__wire__cell__init(&c);
    c.value_case = TD__WIRE__CELL__VALUE_REAL;
    c.real = v;
    return c;
}

static Td__Wire__Cell yes(bool v)
{
    Td__Wire__Cell c;
    td__wire__cell__init(&c);
    c.value_case = TD__WIRE__CELL__VALUE_YES;
    c.yes = v;
    return c;
}

/* The text is copied into the table's arena. */
static Td__Wire__Cell text(table *b, const char *v)
{
    Td__Wire__Cell c;
    td__wire__cell__init(&c);
    size_t n = strlen(v) + 1;
    char *copy = td_arena_alloc(&b->arena, n);
    if (copy) memcpy(copy, v, n);
    else b->failed = true;
    c.value_case = TD__WIRE__CELL__VALUE_TEXT;
    c.text = copy ? copy : (char *)"";
    return c;
}

/* A text that outlives the table. */
static Td__Wire__Cell lasting(const char *v)
{
    Td__Wire__Cell c;
    td__wire__cell__init(&c);
    c.value_case = TD__WIRE__CELL__VALUE_TEXT;
    c.text = (char *)(uintptr_t)v;
    return c;
}

static void key_value(table *b, const char *key, Td__Wire__Cell v)
{
    add_row(b, 2, (Td__Wire__Cell[]){text(b, key), v});
}

/* A number of /proc/self/status; 0 when there is none. */
static uint64_t process_number(const char *key)
{
    FILE *f = fopen("/proc/self/status", "re");
    unsigned long long n = 0;
    size_t length = strlen(key);
    for (char line[256]; f && fgets(line, sizeof line, f);)
        if (strncmp(line, key, length) == 0 && sscanf(line + length, ": %llu", &n) == 1) break;
    if (f) fclose(f);
    return n;
}

/* The table of descriptors is as large as the highest ever was, rounded up. (/proc/self/fd is closed to a process that
 * others may not look into.) */
static uint64_t open_descriptors(void)
{
    uint64_t n = 0, size = process_number("FDSize");
    for (uint64_t fd = 0; fd < size; fd++) n += fcntl((int)fd, F_GETFD) >= 0;
    return n;
}

static uint64_t most_descriptors(void)
{
    struct rlimit l = {0};
    getrlimit(RLIMIT_NOFILE, &l);
    return l.rlim_cur;
}

static uint64_t maps(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    if (!f) return 0;
    uint64_t n = 0;
    for (int c; (c = getc(f)) != EOF;) n += c == '\n';
    fclose(f);
    return n;
}

static void fill_status(table *b, td_session *s)
{
    static const char *const columns[] = {"key", "value"};
    b->t.columns = (char **)(uintptr_t)columns;
    b->t.n_columns = 2;
    td_service *v = s->service;
    td_live live = td_live_counts();
    td_sched_stats st;
    td_sched_get_stats(v->sched, &st);
    struct rusage use = {0};
    getrusage(RUSAGE_SELF, &use);
    key_value(b, "pid", integer((uint64_t)getpid()));
    key_value(b, "version", text(b, TD_VERSION));
    key_value(b, "uptime_s", real((double)(td_now_ms() - v->started_ms) / 1000));
    key_value(b, "sessions", integer(s->all->count));
    key_value(b, "rings", integer(s->all->rings));
    key_value(b, "tensors", integer(live.tensors));
    key_value(b, "storages", integer(live.storages));
    key_value(b, "causes", integer(live.causes));
    key_value(b, "names", integer(v->name_count));
    key_value(b, "queues", integer(v->queue_count));
    key_value(b, "segments", integer(v->budget.segments));
    key_value(b, "bytes_limit", integer(v->budget.limit));
    key_value(b, "bytes_committed", integer(v->budget.committed));
    key_value(b, "bytes_used", integer(v->budget.used));
    key_value(b, "bytes_work", integer(v->budget.work));
    key_value(b, "bytes_warm", integer(v->budget.warm_bytes));
    key_value(b, "bytes_bookkeeping", integer(live.bytes));
    key_value(b, "segments_warm", integer(v->budget.warm_count));
    key_value(b, "descriptors", integer(open_descriptors()));
    key_value(b, "descriptors_limit", integer(most_descriptors()));
    key_value(b, "maps", integer(maps()));
    key_value(b, "tasks_pending", integer(st.pending));
    key_value(b, "nodes", integer(td_autograd_nodes()));
    key_value(b, "nodes_recorded", integer(td_autograd_recorded()));
    key_value(b, "ops_run", integer(v->ops_run));
    key_value(b, "run_inline", integer(st.run_inline));
    key_value(b, "run_pool", integer(st.run_pool));
    key_value(b, "workers", integer(st.workers));
    key_value(b, "busy_s", real(st.busy_ns / 1e9));
    key_value(b, "frames_in", integer(v->frames_in));
    key_value(b, "bytes_in", integer(v->bytes_in));
    key_value(b, "bytes_out", integer(v->bytes_out));
    key_value(b, "peak_rss_bytes", integer((uint64_t)use.ru_maxrss * 1024));
    key_value(b, "lost_pages", integer(td_sigbus_count()));
    key_value(b, "kernels", text(b, td_cpu_describe()));
}

/* What it waits for, in the stream or beside it: there the oldest, and how many more there are. */
static const char *waits_for(const td_session *s, char *buffer, size_t size)
{
    if (s->wait.active) return s->wait.what;
    const td_held *h = s->held;
    while (h && h->next) h = h->next;
    if (!h) return "";
    const char *of = h->name ? td_name_waited(h->name) : h->handle ? td_queue_name(h->handle->member->queue) : NULL;
    int n = of ? snprintf(buffer, size, "%s '%s'", h->what, of) : snprintf(buffer, size, "%s", h->what);
    if (s->nheld > 1) snprintf(buffer + n, size - (size_t)n, ", and %u more", s->nheld - 1);
    return buffer;
}

bool td_session_was_at(const td_session *s, char *text, size_t size)
{
    char waits[TD_NAME_MAX + 80];
    const char *what = waits_for(s, waits, sizeof waits);
    uint32_t pending = td_flow_pending(s->flow);
    if (s->said_bye || (!*what && !s->queues && !s->write_leases && !pending)) return false;
    int n = snprintf(text, size, "it held %.1f MB", (double)s->account->bytes / 1e6);
    if (s->queues) n += snprintf(text + n, size - (size_t)n, ", had %u queues open", HASH_COUNT(s->queues));
    if (pending) n += snprintf(text + n, size - (size_t)n, ", had %u tasks to come", pending);
    if (s->write_leases) n += snprintf(text + n, size - (size_t)n, ", wrote in place");
    if (*what) snprintf(text + n, size - (size_t)n, ", waited for %s", what);
    return true;
}

const char *td_session_program(const td_session *s)
{
    return s->account->name;
}

/* The line of the program that bound it, when the session still knows. */
static const char *site_of(const td_session *s, const td_object *o)
{
    if (!o->site || o->site >= s->nsites || !s->sites[o->site]) return "";
    return o->since < s->renamed[o->site] ? "" : s->sites[o->site];
}

static void fill_sessions(table *b, td_session *s)
{
    static const char *const columns[] = {"session", "pid",     "uid",     "program",  "objects",
                                          "bytes",   "ops_run", "pending", "waits_for"};
    b->t.columns = (char **)(uintptr_t)columns;
    b->t.n_columns = 9;
    for (td_session *x = s->all->first; x; x = x->next) {
        char waits[TD_NAME_MAX + 80];
        add_row(b, 9,
                (Td__Wire__Cell[]){integer(x->id), integer(x->pid), integer(x->uid), text(b, x->account->name),
                                   integer(x->objects.live), integer(x->account->bytes), integer(x->ops_run),
                                   integer(td_flow_pending(x->flow)), text(b, waits_for(x, waits, sizeof waits))});
    }
}

static void add_tensor(table *b, const td_session *x, uint32_t now, uint32_t id, const td_object *o)
{
    const td_tensor *t = o->tensor;
    char shape[128];
    const char *fn = td_grad_fn(t), *memory = t->storage->poison                  ? "poisoned"
                                              : t->storage->flags & TD_SF_SERVICE ? "service"
                                                                                  : "session";
    add_row(b, 13,
            (Td__Wire__Cell[]){integer(x->id), integer(id), text(b, td_desc_text(&t->desc, shape, sizeof shape)),
                               integer(td_desc_nbytes(&t->desc)), integer((uint64_t)(uintptr_t)t->storage >> 4),
                               integer(t->version->value), yes(td_requires_grad(t)), lasting(fn ? fn : ""),
                               lasting(memory), integer(x->pid), lasting(x->account->name), lasting(site_of(x, o)),
                               real((double)(now - o->since) * TD_TICK_MS / 1000)});
}

static void fill_tensors(table *b, td_session *s)
{
    static const char *const columns[] = {"session",       "id",      "tensor", "bytes", "storage", "version",
                                          "requires_grad", "grad_fn", "memory", "pid",   "program", "where",
                                          "age_s"};
    b->t.columns = (char **)(uintptr_t)columns;
    b->t.n_columns = 13;
    uint32_t now = td_ticks(s->service); /* not when the request came: others may have bound something since */
    for (td_session *x = s->all->first; x; x = x->next) {
        for (uint32_t p = 0; p < x->objects.npages && b->t.n_rows < MOST_ROWS; p++) {
            for (uint32_t i = 0; x->objects.pages[p] && i < TD_PAGE_OBJECTS; i++) {
                const td_object *o = &x->objects.pages[p]->at[i];
                if (o->tensor) add_tensor(b, x, now, p * TD_PAGE_OBJECTS + i, o);
            }
        }
    }
}

static void add_segments(table *b, const td_heap *h, uint64_t session)
{
    for (td_segment *g = NULL; (g = td_heap_next_segment(h, g));)
        add_row(b, 6,
                (Td__Wire__Cell[]){integer(g->id), integer(g->generation), integer(g->size), integer(session),
                                   text(b, g->kind == TD_SEGMENT_SERVICE ? "service" : "session"), integer(g->shared)});
}

static void fill_segments(table *b, td_session *s)
{
    static const char *const columns[] = {"segment", "generation", "bytes", "session", "kind", "mapped_by"};
    b->t.columns = (char **)(uintptr_t)columns;
    b->t.n_columns = 6;
    add_segments(b, s->service->heap, 0);
    for (td_session *x = s->all->first; x; x = x->next) add_segments(b, x->heap, x->id);
}

static void add_name(const td_name *n, void *arg)
{
    table *b = arg;
    char what[128];
    uint32_t tensors = n->edition.tree - 1;
    if (n->edition.tree) snprintf(what, sizeof what, "tree of %u tensor%s", tensors, tensors == 1 ? "" : "s");
    else td_desc_text(&n->tensor->desc, what, sizeof what);
    add_row(b, 6,
            (Td__Wire__Cell[]){text(b, n->name), text(b, what), integer(td_desc_nbytes(&n->tensor->desc)),
                               text(b, n->program), integer(n->pid), real((double)(td_now_ms() - n->since_ms) / 1000)});
}

static void fill_names(table *b, td_session *s)
{
    static const char *const columns[] = {"name", "tensor", "bytes", "program", "pid", "age_s"};
    b->t.columns = (char **)(uintptr_t)columns;
    b->t.n_columns = 6;
    td_name_each(s->service, MOST_ROWS, add_name, b);
}

static void add_queue(const td_queue_info *q, void *arg)
{
    table *b = arg;
    uint64_t now = td_now_ms();
    add_row(b, 12,
            (Td__Wire__Cell[]){text(b, q->name), integer(q->items), integer(q->capacity), integer(q->producers),
                               integer(q->consumers), integer(q->waiting_put), integer(q->waiting_get),
                               integer(q->puts), integer(q->gets), integer(q->deaths), yes(q->ended),
                               q->goes_ms > now ? integer((q->goes_ms - now + 999) / 1000) : text(b, "")});
}

static void fill_queues(table *b, td_session *s)
{
    static const char *const columns[] = {"queue",       "items", "capacity", "producers", "consumers", "waiting_put",
                                          "waiting_get", "puts",  "gets",     "deaths",    "ended",     "goes_in_s"};
    b->t.columns = (char **)(uintptr_t)columns;
    b->t.n_columns = 12;
    td_queue_each(s->service, MOST_ROWS, add_queue, b);
}

static const struct {
    const char *what;
    void (*fill)(table *b, td_session *s);
} tables[] = {{"status", fill_status}, {"sessions", fill_sessions}, {"tensors", fill_tensors},
              {"names", fill_names},   {"queues", fill_queues},     {"segments", fill_segments}};

/* Tables that take milliseconds follow each other at a distance, whoever asks for them. */
static bool wait_for_table(td_session *s)
{
    uint64_t now = td_now_ms();
    if (now >= s->all->table_from_ms) return false;
    td_session_wait(s, "its turn for a table of status", false, NULL);
    td_deadline_arm(s->service, &s->wait.deadline, s->all->table_from_ms - now, td_session_look_again, s);
    return true;
}

int td_status_reply(td_session *s, uint64_t serial, const char *what, td_error *e)
{
    size_t k = 0, n = sizeof tables / sizeof tables[0];
    while (k < n && strcmp(tables[k].what, what) != 0) k++;
    if (k == n)
        return td_fail(e, TD_E_NOT_FOUND,
                       "there is no table '%s'; there are status, sessions, tensors, names, queues and segments", what);
    if (wait_for_table(s)) return TD_AGAIN;
    uint64_t began = td_now_ms();
    table b = {0};
    td_arena_init(&b.arena, 16 << 20);
    td__wire__table__init(&b.t);
    tables[k].fill(&b, s);
    Td__Wire__Reply r;
    td__wire__reply__init(&r);
    r.serial = serial;
    r.table = &b.t;
    int rc = b.failed ? td_fail(e, TD_E_SYSTEM, "the table '%s' is too large to send", what) : TD_OK;
    if (!rc) td_reply_send(s, &r, -1);
    td_arena_deinit(&b.arena);
    uint64_t ended = td_now_ms();
    if (ended - began > 1) s->all->table_from_ms = ended + (ended - began) * TABLE_SHARE;
    return rc;
}
