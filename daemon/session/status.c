/* Status: the daemon's state as small tables, for tensorctl and for tests that count before and after.
 *
 * A table is made as an activity of who asked for it, some rows at a time, already as they are sent; the sessions,
 * names and queues that it goes through may come and go meanwhile. One is made at a time. */
#include "daemon/ops/group.h"
#include "daemon/ops/packs.h"
#include "daemon/session/state.h"
#include "daemon/tensor/device.h"
#include "proto/device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    MOST_ROWS = 10000,
    SOME = 32,             /* rows at a time */
    COST = 32,             /* of these, in records */
    MOST_BYTES = 12 << 20, /* a frame takes a little more */
    COPIED_MOST = 64 << 10,
    FREE_HERE = 1 << 20,
    LONG_NS = 2000000,
    AWAY_SIZE = 320,
    TABLE_SHARE = 9 /* a long table, and so many times as long for everything else */
};

typedef struct td_session_table table;

/* True: all rows are there. */
typedef bool (*filler)(table *b, td_session *s);

struct td_session_table {
    td_activity a;
    td_sessions *all;
    uint64_t serial;
    const char *what;
    filler fill;
    const char *const *columns;
    size_t n_columns;
    td_long_reply reply; /* rows, as they are sent */
    uint32_t rows;
    bool begun, failed;
    td_session *at;    /* the next session */
    uint32_t page, fd; /* the next of its objects; the next descriptor to look at */
    FILE *maps_file;
    uint64_t fds_size, fds, maps; /* places of descriptors; counted so far */
    uint64_t took_ns;
};

static uint8_t *make_room(table *b, size_t n)
{
    td_long_reply *r = &b->reply;
    if (b->failed || n > MOST_BYTES - r->end) return NULL;
    if (r->end + n > r->capacity) {
        size_t room = r->capacity ? 2 * r->capacity : 4096;
        while (room < r->end + n) room *= 2;
        if (room > COPIED_MOST) room = MOST_BYTES; /* what is not used takes no memory */
        uint8_t *more = realloc(r->block, room);
        if (!more) return NULL;
        r->block = more;
        r->capacity = room;
    }
    return r->block + r->end;
}

enum { TABLE_OF_REPLY = 9, ROWS_OF_TABLE = 2, MOST_COLUMNS = 16 };

static void add_row(table *b, size_t ncells, const Td__Wire__Cell *cells)
{
    Td__Wire__Row r = TD__WIRE__ROW__INIT;
    Td__Wire__Cell *list[MOST_COLUMNS];
    if (b->rows >= MOST_ROWS) return;
    for (size_t i = 0; i < ncells; i++) list[i] = (Td__Wire__Cell *)(uintptr_t)&cells[i];
    r.n_cells = ncells;
    r.cells = list;
    size_t n = td__wire__row__get_packed_size(&r);
    uint8_t *at = make_room(b, n + TD_REPLY_HEAD);
    if (!at) {
        b->failed = true;
        return;
    }
    size_t head = td_reply_head(at, ROWS_OF_TABLE, n);
    td__wire__row__pack(&r, at + head);
    b->reply.end += head + n;
    b->rows++;
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

static Td__Wire__Cell text(const char *v)
{
    Td__Wire__Cell c;
    td__wire__cell__init(&c);
    c.value_case = TD__WIRE__CELL__VALUE_TEXT;
    c.text = (char *)(uintptr_t)v;
    return c;
}

static void key_value(table *b, const char *key, Td__Wire__Cell v)
{
    add_row(b, 2, (Td__Wire__Cell[]){text(key), v});
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
 * others may not look into.) Some of them; true: these were all. */
static bool count_descriptors(table *b)
{
    enum { FDS = 64 }; /* a microsecond each */
    if (!b->fds_size) {
        b->fds_size = process_number("FDSize");
        return !b->fds_size;
    }
    for (int n = 0; b->fd < b->fds_size && n < FDS; n++, b->fd++) b->fds += fcntl((int)b->fd, F_GETFD) >= 0;
    return b->fd >= b->fds_size;
}

static uint64_t most_descriptors(void)
{
    struct rlimit l = {0};
    getrlimit(RLIMIT_NOFILE, &l);
    return l.rlim_cur;
}

/* Some lines of the list; true: these were all. */
static bool count_maps(table *b)
{
    enum { LINES = 64 };
    if (!b->maps_file && !(b->maps_file = fopen("/proc/self/maps", "re"))) return true;
    uint64_t until = b->maps + LINES;
    for (int c; b->maps < until;) {
        if ((c = getc(b->maps_file)) == EOF) return true;
        b->maps += c == '\n';
    }
    return false;
}

static td_device_info info_of(const td_service *v, unsigned device)
{
    td_device_info i = {0};
    td_device_get(device)->describe(&v->budget, &i);
    return i;
}

/* What storages take of each device but the CPU. */
static void add_devices_used(table *b, const td_service *v)
{
    char key[64];
    for (unsigned d = TD_CPU + 1; d < TD_MAX_DEVICES; d++) {
        if (!td_device_get(d)) continue;
        snprintf(key, sizeof key, "bytes_used_on_%s", td_device_name(d));
        key_value(b, key, integer(info_of(v, d).used));
    }
}

static bool fill_devices(table *b, td_session *s)
{
    static const char *const columns[] = {"device", "bytes_used", "bytes_committed", "bytes_limit"};
    b->columns = columns;
    b->n_columns = 4;
    for (unsigned d = 0; d < TD_MAX_DEVICES; d++) {
        if (!td_device_get(d)) continue;
        td_device_info i = info_of(s->service, d);
        add_row(b, 4,
                (Td__Wire__Cell[]){text(td_device_name(d)), integer(i.used), integer(i.committed), integer(i.limit)});
    }
    return true;
}

static bool fill_status(table *b, td_session *s)
{
    static const char *const columns[] = {"key", "value"};
    b->columns = columns;
    b->n_columns = 2;
    if (!count_descriptors(b) || !count_maps(b)) return false;
    td_service *v = s->service;
    td_live live = td_live_counts();
    td_sched_stats st;
    td_sched_get_stats(v->sched, &st);
    struct rusage use = {0};
    getrusage(RUSAGE_SELF, &use);
    key_value(b, "pid", integer((uint64_t)getpid()));
    key_value(b, "version", text(TD_VERSION));
    key_value(b, "uptime_s", real((double)(td_clock_ms() - v->started_ms) / 1000));
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
    add_devices_used(b, v);
    key_value(b, "bytes_work", integer(v->budget.work));
    key_value(b, "bytes_packed", integer(td_packs_bytes()));
    key_value(b, "bytes_warm", integer(v->budget.warm_bytes));
    key_value(b, "bytes_bookkeeping", integer(live.bytes));
    key_value(b, "bytes_own", integer(td_account_own(v->account)));
    key_value(b, "bytes_own_limit", integer(v->options.own_bytes));
    key_value(b, "bytes_of_connections", integer(v->account->wire));
    key_value(b, "segments_warm", integer(v->budget.warm_count));
    key_value(b, "descriptors", integer(b->fds));
    key_value(b, "descriptors_limit", integer(most_descriptors()));
    key_value(b, "maps", integer(b->maps));
    key_value(b, "tasks_pending", integer(st.pending));
    key_value(b, "nodes", integer(td_autograd_nodes()));
    key_value(b, "nodes_recorded", integer(td_autograd_recorded()));
    key_value(b, "ops_run", integer(v->ops_run));
    key_value(b, "run_inline", integer(st.run_inline));
    key_value(b, "run_pool", integer(st.run_pool));
    key_value(b, "run_planned", integer(td_groups_ran()));
    key_value(b, "run_packed", integer(td_packs_used()));
    key_value(b, "workers", integer(st.workers));
    key_value(b, "busy_s", real(st.busy_ns / 1e9));
    key_value(b, "frames_in", integer(v->frames_in));
    key_value(b, "turns", integer(v->turns));
    key_value(b, "bytes_in", integer(v->bytes_in));
    key_value(b, "bytes_out", integer(v->bytes_out));
    key_value(b, "peak_rss_bytes", integer((uint64_t)use.ru_maxrss * 1024));
    key_value(b, "lost_pages", integer(td_sigbus_count()));
    key_value(b, "kernels", text(td_cpu_describe()));
    return true;
}

/* What it waits for, in the stream or beside it: there the oldest, and how many more there are. */
static const char *waits_for(const td_session *s, char *buffer, size_t size)
{
    if (s->wait.kind) return td_session_awaits(s, buffer, size);
    const td_held *h = s->held;
    while (h && h->next) h = h->next;
    if (!h) return s->parked ? "its program's answer to a hook" : "";
    const td_wait_kind *k = h->wait.kind;
    const char *of = k->whom ? k->whom(&h->wait) : NULL;
    int n = of ? snprintf(buffer, size, "%s '%s'", k->what, of) : snprintf(buffer, size, "%s", k->what);
    if (s->nheld > 1) snprintf(buffer + n, size - (size_t)n, ", and %u more", s->nheld - 1);
    return buffer;
}

/* "fake:0 4.2 MB": what it holds elsewhere than in the CPU's memory. */
static const char *held_away(const td_account *a, char *text, size_t size)
{
    size_t n = 0;
    text[0] = 0;
    for (unsigned d = TD_CPU + 1; d < TD_MAX_DEVICES && n < size; d++)
        if (a->away[d])
            n += (size_t)snprintf(text + n, size - n, "%s%s %.1f MB", n ? ", " : "", td_device_name(d),
                                  (double)a->away[d] / 1e6);
    return text;
}

bool td_session_was_at(const td_session *s, char *text, size_t size)
{
    char waits[TD_NAME_MAX + 80], away[AWAY_SIZE];
    const char *what = waits_for(s, waits, sizeof waits);
    uint32_t pending = td_flow_pending(s->flow);
    if (s->said_bye || (!*what && !s->queues && !s->write_leases && !pending)) return false;
    int n = snprintf(text, size, "it held %.1f MB", (double)s->account->bytes / 1e6);
    if (*held_away(s->account, away, sizeof away)) n += snprintf(text + n, size - (size_t)n, ", on %s", away);
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

static bool fill_sessions(table *b, td_session *s)
{
    static const char *const columns[] = {"session",    "pid",     "uid",     "program",    "objects",   "bytes",
                                          "peak_bytes", "ops_run", "pending", "on_devices", "own_bytes", "waits_for"};
    b->columns = columns;
    b->n_columns = 12;
    if (!b->begun) b->at = s->all->first;
    for (uint32_t n = 0; b->at && n < SOME; n++, b->at = b->at->next) {
        const td_session *x = b->at;
        char waits[TD_NAME_MAX + 80], away[AWAY_SIZE];
        add_row(b, 12,
                (Td__Wire__Cell[]){integer(x->id), integer(x->pid), integer(x->uid), text(x->account->name),
                                   integer(x->objects.live), integer(x->account->bytes), integer(x->account->peak),
                                   integer(x->ops_run), integer(td_flow_pending(x->flow)),
                                   text(held_away(x->account, away, sizeof away)), integer(td_account_own(x->account)),
                                   text(waits_for(x, waits, sizeof waits))});
    }
    return !b->at;
}

static void add_tensor(table *b, const td_session *x, uint32_t now, uint32_t id, const td_object *o)
{
    const td_tensor *t = o->tensor;
    char shape[128];
    const char *fn = td_grad_fn(t), *memory = t->storage->poison                  ? "poisoned"
                                              : t->storage->device != TD_CPU      ? td_device_name(t->storage->device)
                                              : t->storage->flags & TD_SF_SERVICE ? "service"
                                                                                  : "session";
    add_row(b, 13,
            (Td__Wire__Cell[]){integer(x->id), integer(id), text(td_desc_text(&t->desc, shape, sizeof shape)),
                               integer(td_desc_nbytes(&t->desc)), integer((uint64_t)(uintptr_t)t->storage >> 4),
                               integer(td_version_writes(t->version)), yes(td_requires_grad(t)), text(fn ? fn : ""),
                               text(memory), integer(x->pid), text(x->account->name), text(site_of(x, o)),
                               real((double)(now - o->since) * TD_TICK_MS / 1000)});
}

static bool fill_tensors(table *b, td_session *s)
{
    static const char *const columns[] = {"session",       "id",      "tensor", "bytes", "storage", "version",
                                          "requires_grad", "grad_fn", "memory", "pid",   "program", "where",
                                          "age_s"};
    b->columns = columns;
    b->n_columns = 13;
    uint32_t now = td_ticks(s->service); /* not when the request came: others may have bound something since */
    if (!b->begun) b->at = s->all->first;
    for (int n = 0; b->at && b->rows < MOST_ROWS && n < SOME; n++) {
        const td_objects *o = &b->at->objects;
        for (; b->page < o->npages * TD_PAGE_OBJECTS && n < SOME; b->page++) {
            const td_object *x = td_objects_slot(o, b->page);
            if (!x) b->page |= TD_PAGE_OBJECTS - 1; /* the next page */
            if (!x || !x->tensor) continue;
            add_tensor(b, b->at, now, b->page, x);
            n++;
        }
        if (b->page < o->npages * TD_PAGE_OBJECTS) continue;
        b->page = 0;
        b->at = b->at->next;
    }
    return !b->at || b->rows >= MOST_ROWS;
}

static void add_segments(table *b, const td_heap *h, uint64_t session)
{
    for (td_segment *g = NULL; (g = td_heap_next_segment(h, g));)
        add_row(b, 6,
                (Td__Wire__Cell[]){integer(g->id), integer(g->generation), integer(g->size), integer(session),
                                   text(g->kind == TD_SEGMENT_SERVICE ? "service" : "session"), integer(g->shared)});
}

static bool fill_segments(table *b, td_session *s)
{
    static const char *const columns[] = {"segment", "generation", "bytes", "session", "kind", "mapped_by"};
    b->columns = columns;
    b->n_columns = 6;
    if (!b->begun) {
        b->at = s->all->first;
        add_segments(b, s->service->heap, 0);
    }
    for (uint32_t n = 0; b->at && n < SOME; n++, b->at = b->at->next) add_segments(b, b->at->heap, b->at->id);
    return !b->at;
}

/* Of a program: with what it captures. */
static uint64_t name_of(const td_named *n, char *what, size_t size)
{
    uint32_t tensors = n->edition.tree - 1;
    if (n->program) {
        td_tensor *const *captured;
        uint32_t many = td_program_captured(n->program, &captured);
        uint64_t bytes = 0;
        for (uint32_t k = 0; k < many; k++) bytes += td_desc_nbytes(&captured[k]->desc);
        snprintf(what, size, "program of %u node%s, %u captured", td_program_nodes(n->program),
                 td_program_nodes(n->program) == 1 ? "" : "s", many);
        return bytes;
    }
    if (n->edition.tree) snprintf(what, size, "tree of %u tensor%s", tensors, tensors == 1 ? "" : "s");
    else td_desc_text(&n->tensor->desc, what, size);
    return td_desc_nbytes(&n->tensor->desc);
}

static void add_name(const td_name *n, void *arg)
{
    table *b = arg;
    char what[128];
    uint64_t bytes = name_of(&n->what, what, sizeof what);
    const char *kind = n->what.program ? "program" : n->what.edition.tree ? "tree" : "tensor";
    add_row(b, 7,
            (Td__Wire__Cell[]){text(n->name), text(what), integer(bytes), text(n->program), integer(n->pid),
                               real((double)(td_clock_ms() - n->since_ms) / 1000), text(kind)});
}

static bool fill_names(table *b, td_session *s)
{
    static const char *const columns[] = {"name", "tensor", "bytes", "program", "pid", "age_s", "kind"};
    b->columns = columns;
    b->n_columns = 7;
    return td_name_some(s->service, !b->begun, SOME, add_name, b) || b->rows >= MOST_ROWS;
}

static void add_queue(const td_queue_info *q, void *arg)
{
    table *b = arg;
    uint64_t now = td_clock_ms();
    add_row(b, 12,
            (Td__Wire__Cell[]){text(q->name), integer(q->items), integer(q->capacity), integer(q->producers),
                               integer(q->consumers), integer(q->waiting_put), integer(q->waiting_get),
                               integer(q->puts), integer(q->gets), integer(q->deaths), yes(q->ended),
                               q->goes_ms > now ? integer((q->goes_ms - now + 999) / 1000) : text("")});
}

static bool fill_queues(table *b, td_session *s)
{
    static const char *const columns[] = {"queue",       "items", "capacity", "producers", "consumers", "waiting_put",
                                          "waiting_get", "puts",  "gets",     "deaths",    "ended",     "goes_in_s"};
    b->columns = columns;
    b->n_columns = 12;
    return td_queue_some(s->service, !b->begun, SOME, add_queue, b) || b->rows >= MOST_ROWS;
}

static bool fill_turns(table *b, td_session *s)
{
    static const char *const columns[] = {"turn",   "turns",  "total_ms", "longest_us", "longest_cpu_us", "to_50",
                                          "to_100", "to_250", "to_500",   "to_1000",    "to_4000",        "longer"};
    b->columns = columns;
    b->n_columns = 12;
    const td_laps *t = s->service->laps;
    for (const td_lap_kind *k = t ? t->kinds : NULL; t && k < t->kinds + t->count; k++) {
        Td__Wire__Cell row[12] = {text(k->name), integer(k->count), real((double)k->total_ns / 1e6),
                                  integer(k->longest_ns / 1000), integer(k->longest_cpu_ns / 1000)};
        for (int i = 0; i <= TD_LAP_BOUNDS; i++) row[5 + i] = integer(k->within[i]);
        add_row(b, 12, row);
    }
    return true;
}

/* Of who asks. */
static bool fill_memory(table *b, td_session *s)
{
    static const char *const columns[] = {"bytes", "peak_bytes", "work_bytes", "objects"};
    b->columns = columns;
    b->n_columns = 4;
    const td_account *a = s->account;
    add_row(b, 4, (Td__Wire__Cell[]){integer(a->bytes), integer(a->peak), integer(a->work), integer(a->objects)});
    return true;
}

/* And its peak begins anew. */
static bool fill_memory_anew(table *b, td_session *s)
{
    fill_memory(b, s);
    s->account->peak = s->account->bytes;
    return true;
}

static const struct {
    const char *what;
    filler fill;
} tables[] = {
    {"status", fill_status}, {"sessions", fill_sessions},      {"tensors", fill_tensors}, {"names", fill_names},
    {"queues", fill_queues}, {"segments", fill_segments},      {"turns", fill_turns},     {"devices", fill_devices},
    {"memory", fill_memory}, {"memory_anew", fill_memory_anew}};

/* One at a time, and those that take milliseconds follow each other at a distance, whoever asks for them. */
static bool wait_for_table(td_session *s)
{
    static const td_wait_kind for_turn = {"its turn for a table of status"};
    uint64_t now = td_clock_ns(), from = s->all->table_from_ns;
    if (!s->all->table && now >= from) return false;
    td_session_wait(s, &for_turn);
    td_deadline_arm(s->service, &s->wait.deadline, now < from ? (from - now) / 1000000 + 1 : 1, td_session_look_again,
                    s);
    return true;
}

void td_table_pass(td_session *s)
{
    table *b = s->all->table;
    if (!b || b->at != s) return;
    b->at = s->next;
    b->page = 0;
}

static bool drop_table(td_activity *a, int most)
{
    (void)most;
    table *b = (table *)(void *)a;
    b->all->table = NULL;
    if (b->maps_file) fclose(b->maps_file);
    const td_service_options *o = &b->all->service->options;
    uint8_t *block = b->reply.block;
    if (block && b->reply.capacity > FREE_HERE && o->background) {
        o->background(o->arg, free, NULL, block);
        b->reply.block = NULL;
    }
    td_reply_give_up(&b->reply);
    free(b);
    return true;
}

/* Behind the rows: what they mean. */
static int send_table(td_session *s, table *b, td_error *e)
{
    Td__Wire__Table t = TD__WIRE__TABLE__INIT;
    t.columns = (char **)(uintptr_t)b->columns;
    t.n_columns = b->n_columns;
    uint8_t *at = make_room(b, td__wire__table__get_packed_size(&t));
    if (!at || b->failed) return td_fail(e, TD_E_SYSTEM, "the table '%s' is too large to send", b->what);
    td_reply_count(s, &b->reply, 0);
    int rc = td_reply_room(s, b->reply.end, e);
    if (rc) return rc;
    b->reply.end += td__wire__table__pack(&t, at);
    rc = td_reply_long(s, b->serial, TABLE_OF_REPLY, &b->reply, -1);
    return rc ? td_no_memory(e, "for the table '%s'", b->what) : TD_OK;
}

static int step_table(td_session *s, td_activity *a, td_error *e)
{
    (void)e; /* a failure is the request's */
    table *b = (table *)(void *)a;
    uint64_t began = td_clock_ns();
    bool done = b->fill(b, s) || b->failed;
    b->begun = true;
    b->took_ns += td_clock_ns() - began;
    td_reply_count(s, &b->reply, b->reply.end);
    if (!done) return TD_AGAIN;
    td_error why = {0};
    if (send_table(s, b, &why)) {
        snprintf(why.op, sizeof why.op, "status");
        td_reply_error(s, b->serial, &why);
        td_session_told(s, &why);
    }
    if (b->took_ns > LONG_NS) s->all->table_from_ns = td_clock_rest(td_clock_ns() - b->took_ns, TABLE_SHARE);
    drop_table(a, 1);
    return TD_OK;
}

static int no_table(const char *what, td_error *e)
{
    char known[256] = "";
    size_t at = 0, n = sizeof tables / sizeof tables[0];
    for (size_t k = 0; k < n && at < sizeof known; k++) {
        const char *before = k == 0 ? "" : k == n - 1 ? " and " : ", ";
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", before, tables[k].what);
    }
    return td_fail(e, TD_E_NOT_FOUND, "there is no table '%s'; there are %s", what, known);
}

int td_call_status(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    static const td_activity_kind kind = {"table", .step = step_table, .drop = drop_table, .cost = COST};
    const char *what = call->status->what;
    size_t k = 0, n = sizeof tables / sizeof tables[0];
    while (k < n && strcmp(tables[k].what, what) != 0) k++;
    if (k == n) return no_table(what, e);
    if (wait_for_table(s)) return TD_AGAIN;
    table *b = malloc(sizeof *b);
    if (!b) return td_no_memory(e, "for a table");
    *b = (table){.a = {&kind},
                 .all = s->all,
                 .serial = call->serial,
                 .what = tables[k].what,
                 .fill = tables[k].fill,
                 .reply = {.front = TD_REPLY_FRONT, .end = TD_REPLY_FRONT}};
    s->all->table = b;
    s->activity = &b->a;
    return TD_OK;
}
