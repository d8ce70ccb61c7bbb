/* Status: the daemon's state as small tables, for tensorctl and for tests that count before and after.
 *
 * A table is made as a job of who asked for it, some rows at a time, already as they are sent; the sessions,
 * names and queues that it goes through may come and go meanwhile. One is made at a time. */
#include "daemon/ops/fused.h"
#include "daemon/ops/prepacked.h"
#include "daemon/service/models.h"
#include "daemon/session/calls/table.h"
#include "daemon/tensor/device.h"
#include "proto/base/device.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    COST = 32,             /* of a part of a table, in records */
    MOST_BYTES = 12 << 20, /* a frame takes a little more */
    COPIED_MOST = 64 << 10,
    FREE_HERE = 1 << 20,
    LONG_NS = 2000000,
    AWAY_SIZE = 320,
    TABLE_SHARE = 9 /* a long table, and so many times as long for everything else */
};

typedef td_status_table table;

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

enum { TABLE_OF_REPLY = 9, ROWS_OF_TABLE = 2 };

void td_table_row(table *b, size_t ncells, const Td__Wire__Cell *cells)
{
    Td__Wire__Row r = TD__WIRE__ROW__INIT;
    Td__Wire__Cell *list[TD_TABLE_MOST_COLUMNS];
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

static void add_row(table *b, size_t ncells, const Td__Wire__Cell *cells)
{
    if (b->rows < TD_TABLE_MOST_ROWS) td_table_row(b, ncells, cells);
}

static void key_value(table *b, const char *key, Td__Wire__Cell v)
{
    add_row(b, 2, (Td__Wire__Cell[]){td_cell_text(key), v});
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
static bool count_places(table *b)
{
    b->fds_size = process_number("FDSize");
    return true;
}

/* Some of them; true: these were all. */
static bool count_descriptors(table *b)
{
    enum { FDS = 32 }; /* a microsecond each */
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
    enum { LINES = 16 }; /* two microseconds each */
    if (!b->maps_file && !(b->maps_file = fopen("/proc/self/maps", "re"))) return true;
    uint64_t until = b->maps + LINES;
    for (int c; b->maps < until;) {
        if ((c = getc(b->maps_file)) == EOF) return true;
        b->maps += c == '\n';
    }
    return false;
}

/* What storages take of each device but the CPU. */
static void add_devices_used(table *b)
{
    char key[64];
    for (unsigned d = TD_CPU + 1; d < TD_MAX_DEVICES; d++) {
        const td_device_entry *there = td_device_get(d);
        if (!there) continue;
        snprintf(key, sizeof key, "bytes_used_on_%s", td_device_name(d));
        key_value(b, key, td_cell_integer(there->budget->used));
    }
}

static bool fill_devices(table *b, td_session *s)
{
    (void)s;
    static const char *const columns[] = {"device", "bytes_used", "bytes_committed", "bytes_limit", "name",
                                          "pid",    "starts",     "handles",         "cuda",        "library"};
    b->columns = columns;
    b->n_columns = 10;
    for (unsigned d = 0; d < TD_MAX_DEVICES; d++) {
        const td_device_entry *there = td_device_get(d);
        if (!there) continue;
        td_device_told told = {0};
        if (there->memory->tell) there->memory->tell(d, &told);
        add_row(b, 10,
                (Td__Wire__Cell[]){td_cell_text(td_device_name(d)), td_cell_integer(there->budget->used),
                                   td_cell_integer(there->budget->committed), td_cell_integer(there->budget->limit),
                                   td_cell_text(told.name), td_cell_integer((uint64_t)told.pid),
                                   td_cell_integer(told.starts), td_cell_text(told.handles), td_cell_text(told.driver),
                                   td_cell_text(told.library)});
    }
    return true;
}

/* All of one moment. */
static bool tell_counts(table *b)
{
    const td_sessions *all = b->all;
    const td_service *v = all->service;
    td_live live = td_live_counts();
    td_sched_stats st;
    td_sched_get_stats(v->sched, &st);
    struct rusage use = {0};
    getrusage(RUSAGE_SELF, &use);
    key_value(b, "pid", td_cell_integer((uint64_t)getpid()));
    key_value(b, "version", td_cell_text(TD_VERSION));
    key_value(b, "uptime_s", td_cell_real((double)(td_clock_ms() - v->started_ms) / 1000));
    key_value(b, "sessions", td_cell_integer(all->count));
    key_value(b, "rings", td_cell_integer(all->rings));
    key_value(b, "tensors", td_cell_integer(live.tensors));
    key_value(b, "storages", td_cell_integer(live.storages));
    key_value(b, "causes", td_cell_integer(live.causes));
    key_value(b, "names", td_cell_integer(v->name_count));
    key_value(b, "queues", td_cell_integer(v->queue_count));
    key_value(b, "segments", td_cell_integer(v->budget.segments));
    key_value(b, "bytes_limit", td_cell_integer(v->budget.limit));
    key_value(b, "bytes_committed", td_cell_integer(v->budget.committed));
    key_value(b, "bytes_used", td_cell_integer(v->budget.used));
    add_devices_used(b);
    key_value(b, "bytes_work", td_cell_integer(v->budget.work));
    key_value(b, "bytes_packed", td_cell_integer(td_prepacked_bytes()));
    key_value(b, "bytes_warm", td_cell_integer(v->budget.warm_bytes));
    key_value(b, "bytes_bookkeeping", td_cell_integer(live.bytes));
    key_value(b, "bytes_own", td_cell_integer(td_account_own(v->account)));
    key_value(b, "bytes_own_limit", td_cell_integer(v->options.own_bytes));
    key_value(b, "bytes_of_connections", td_cell_integer(v->account->wire));
    key_value(b, "segments_warm", td_cell_integer(v->budget.warm_count));
    key_value(b, "descriptors", td_cell_integer(b->fds));
    key_value(b, "descriptors_limit", td_cell_integer(most_descriptors()));
    key_value(b, "maps", td_cell_integer(b->maps));
    key_value(b, "tasks_pending", td_cell_integer(st.pending));
    key_value(b, "nodes", td_cell_integer(td_autograd_nodes()));
    key_value(b, "nodes_recorded", td_cell_integer(td_autograd_recorded()));
    key_value(b, "ops_run", td_cell_integer(v->ops_run));
    key_value(b, "run_inline", td_cell_integer(st.run_inline));
    key_value(b, "run_pool", td_cell_integer(st.run_pool));
    key_value(b, "run_planned", td_cell_integer(td_fused_ran()));
    key_value(b, "run_packed", td_cell_integer(td_prepacked_used()));
    key_value(b, "workers", td_cell_integer(st.workers));
    key_value(b, "busy_s", td_cell_real(st.busy_ns / 1e9));
    key_value(b, "frames_in", td_cell_integer(v->frames_in));
    key_value(b, "turns", td_cell_integer(v->turns));
    key_value(b, "bytes_in", td_cell_integer(v->bytes_in));
    key_value(b, "bytes_out", td_cell_integer(v->bytes_out));
    key_value(b, "peak_rss_bytes", td_cell_integer((uint64_t)use.ru_maxrss * 1024));
    key_value(b, "lost_pages", td_cell_integer(td_sigbus_count()));
    key_value(b, "kernels", td_cell_text(td_cpu_describe()));
    return true;
}

static bool fill_status(table *b, td_session *s)
{
    (void)s;
    static const char *const columns[] = {"key", "value"};
    static bool (*const stages[])(table *) = {count_places, count_descriptors, count_maps, tell_counts};
    enum { STAGES = sizeof stages / sizeof stages[0] };
    b->columns = columns;
    b->n_columns = 2;
    if (stages[b->stage](b)) b->stage++;
    return b->stage == STAGES;
}

/* What it waits for, in the stream or beside it: there the oldest, and how many more there are. */
static const char *waits_for(const td_session *s, char *buffer, size_t size)
{
    if (s->wait.kind) return td_session_awaits(s, buffer, size);
    const td_held *h = s->beside.oldest_held;
    if (!h) return s->work.parked ? "its program's answer to a hook" : "";
    const td_wait_kind *k = h->wait.kind;
    const char *of = h->at ? h->at->kind->whom(h->at) : NULL;
    int n = of ? snprintf(buffer, size, "%s '%s'", k->what, of) : snprintf(buffer, size, "%s", k->what);
    if (s->beside.nheld > 1) snprintf(buffer + n, size - (size_t)n, ", and %u more", s->beside.nheld - 1);
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
    if (s->life.said_bye || (!*what && !s->queues && !s->leases.write && !pending)) return false;
    int n = snprintf(text, size, "it held %.1f MB", (double)s->account->bytes / 1e6);
    if (*held_away(s->account, away, sizeof away)) n += snprintf(text + n, size - (size_t)n, ", on %s", away);
    if (s->queues) n += snprintf(text + n, size - (size_t)n, ", had %u queues open", HASH_COUNT(s->queues));
    if (pending) n += snprintf(text + n, size - (size_t)n, ", had %u tasks to come", pending);
    if (s->leases.write) n += snprintf(text + n, size - (size_t)n, ", wrote in place");
    if (*what) snprintf(text + n, size - (size_t)n, ", waited for %s", what);
    return true;
}

const char *td_session_program(const td_session *s)
{
    return s->account->name;
}

static bool fill_sessions(table *b, td_session *s)
{
    static const char *const columns[] = {"session",    "pid",     "uid",     "program",    "objects",   "bytes",
                                          "peak_bytes", "ops_run", "pending", "on_devices", "own_bytes", "waits_for"};
    b->columns = columns;
    b->n_columns = 12;
    if (!b->begun) b->at = s->all->first;
    for (uint32_t n = 0; b->at && n < TD_TABLE_SOME; n++, b->at = b->at->next) {
        const td_session *x = b->at;
        char waits[TD_NAME_MAX + 80], away[AWAY_SIZE];
        add_row(b, 12,
                (Td__Wire__Cell[]){
                    td_cell_integer(x->id), td_cell_integer(x->pid), td_cell_integer(x->uid),
                    td_cell_text(x->account->name), td_cell_integer(x->objects.live),
                    td_cell_integer(x->account->bytes), td_cell_integer(x->account->peak), td_cell_integer(x->ops_run),
                    td_cell_integer(td_flow_pending(x->flow)), td_cell_text(held_away(x->account, away, sizeof away)),
                    td_cell_integer(td_account_own(x->account)), td_cell_text(waits_for(x, waits, sizeof waits))});
    }
    return !b->at;
}

typedef struct segments_of {
    table *b;
    uint64_t session; /* 0: of the service */
} segments_of;

static void add_segment(const td_segment *g, void *arg)
{
    const segments_of *of = arg;
    add_row(of->b, 6,
            (Td__Wire__Cell[]){td_cell_integer(g->id), td_cell_integer(g->generation), td_cell_integer(g->size),
                               td_cell_integer(of->session),
                               td_cell_text(g->kind == TD_SEGMENT_SERVICE ? "service" : "session"),
                               td_cell_integer(g->shared)});
}

/* Some of a heap's, behind those that came before; true: these were all. */
static bool add_segments(table *b, const td_heap *h, uint64_t session, uint32_t *most)
{
    uint32_t n = td_heap_some_segments(h, b->page, *most, add_segment, &(segments_of){b, session});
    bool all = n < *most;
    b->page = all ? 0 : b->page + n;
    *most -= all ? n + 1 : n;
    return all;
}

static bool fill_segments(table *b, td_session *s)
{
    static const char *const columns[] = {"segment", "generation", "bytes", "session", "kind", "mapped_by"};
    b->columns = columns;
    b->n_columns = 6;
    uint32_t most = TD_TABLE_SOME;
    if (!b->stage) {
        if (!add_segments(b, s->service->heap, 0, &most)) return false;
        b->stage = 1;
        b->at = s->all->first;
    }
    while (b->at && most) {
        const td_session *x = b->at;
        if (add_segments(b, x->heap, x->id, &most)) b->at = x->next;
    }
    return !b->at;
}

uint64_t td_named_tell(const td_named *n, char *what, size_t size)
{
    uint32_t tensors = n->edition.tree - 1;
    if (n->model) return td_model_tell(n->model, what, size);
    if (n->program) {
        td_tensor *const *captured;
        uint32_t many = td_program_captured(n->program, &captured);
        snprintf(what, size, "program of %u node%s, %u captured", td_program_nodes(n->program),
                 td_program_nodes(n->program) == 1 ? "" : "s", many);
        return td_program_captured_bytes(n->program);
    }
    if (n->edition.tree) snprintf(what, size, "tree of %u tensor%s", tensors, tensors == 1 ? "" : "s");
    else td_desc_text(&n->tensor->desc, what, size);
    return td_desc_nbytes(&n->tensor->desc);
}

static void add_name(const td_name *n, void *arg)
{
    table *b = arg;
    char what[128];
    uint64_t bytes = td_named_tell(&n->what, what, sizeof what);
    const char *kind = n->what.model ? "model" : n->what.program ? "program" : n->what.edition.tree ? "tree" : "tensor";
    add_row(b, 7,
            (Td__Wire__Cell[]){td_cell_text(n->name), td_cell_text(what), td_cell_integer(bytes),
                               td_cell_text(n->program), td_cell_integer(n->pid),
                               td_cell_real((double)(td_clock_ms() - n->since_ms) / 1000), td_cell_text(kind)});
}

static bool fill_names(table *b, td_session *s)
{
    static const char *const columns[] = {"name", "tensor", "bytes", "program", "pid", "age_s", "kind"};
    b->columns = columns;
    b->n_columns = 7;
    return td_name_some(s->service, !b->begun, TD_TABLE_SOME, add_name, b) || b->rows >= TD_TABLE_MOST_ROWS;
}

/* "1:12 4:3": rows of a run, and how many such there were; "more" than the sizes that are made for. */
static const char *tell_batches(const td_model_info *m, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (unsigned k = 0; k <= TD_MODEL_SIZES && at < size; k++) {
        const char *between = at ? " " : "";
        uint64_t n = m->counts->by_size[k];
        if (n && k < m->how->nsizes)
            at += (size_t)snprintf(out + at, size - at, "%s%u:%llu", between, m->how->sizes[k], (unsigned long long)n);
        else if (n) at += (size_t)snprintf(out + at, size - at, "%smore:%llu", between, (unsigned long long)n);
    }
    return out;
}

static uint64_t us_of(const td_times *t)
{
    return t->sum_ns / 1000;
}

static void add_model(const td_model_info *m, void *arg)
{
    const td_model_counts *c = m->counts;
    char batches[256];
    tell_batches(m, batches, sizeof batches);
    add_row(arg, 30,
            (Td__Wire__Cell[]){td_cell_text(m->name),
                               td_cell_integer(m->version),
                               td_cell_text(m->state),
                               td_cell_yes(m->serves),
                               td_cell_integer(m->users),
                               td_cell_integer(m->waiting),
                               td_cell_integer(m->running),
                               td_cell_integer(c->answered),
                               td_cell_integer(c->failed),
                               td_cell_integer(c->expired),
                               td_cell_integer(c->cancelled),
                               td_cell_integer(c->refused),
                               td_cell_integer(c->rows),
                               td_cell_integer(c->runs),
                               td_cell_text(batches),
                               td_cell_integer(us_of(&c->queue)),
                               td_cell_integer(us_of(&c->input)),
                               td_cell_integer(us_of(&c->run)),
                               td_cell_integer(us_of(&c->output)),
                               td_cell_integer(us_of(&c->total)),
                               td_cell_real(td_times_quantile(&c->queue, 0.5)),
                               td_cell_real(td_times_quantile(&c->queue, 0.99)),
                               td_cell_real(td_times_quantile(&c->run, 0.5)),
                               td_cell_real(td_times_quantile(&c->run, 0.99)),
                               td_cell_integer(m->bytes),
                               td_cell_text(m->program),
                               td_cell_integer(m->pid),
                               td_cell_integer(m->committed),
                               td_cell_integer(c->again),
                               td_cell_real(td_times_quantile(&c->total, 0.99))});
}

static bool fill_models(table *b, td_session *s)
{
    static const char *const columns[] = {
        "name",      "version",  "state",        "serves",          "open",       "waiting",
        "running",   "requests", "failed",       "expired",         "cancelled",  "refused",
        "rows",      "runs",     "batches",      "queue_us",        "input_us",   "run_us",
        "output_us", "total_us", "queue_p50_us", "queue_p99_us",    "run_p50_us", "run_p99_us",
        "bytes",     "program",  "pid",          "bytes_committed", "again",      "total_p99_us"};
    b->columns = columns;
    b->n_columns = 30;
    return td_model_some(s->service, !b->begun, TD_TABLE_SOME, add_model, b) || b->rows >= TD_TABLE_MOST_ROWS;
}

static void add_queue(const td_queue_info *q, void *arg)
{
    table *b = arg;
    uint64_t now = td_clock_ms();
    add_row(b, 13,
            (Td__Wire__Cell[]){td_cell_text(q->name), td_cell_integer(q->items), td_cell_integer(q->capacity),
                               td_cell_integer(q->producers), td_cell_integer(q->consumers),
                               td_cell_integer(q->waiting_put), td_cell_integer(q->waiting_get),
                               td_cell_integer(q->puts), td_cell_integer(q->gets), td_cell_integer(q->deaths),
                               td_cell_yes(q->ended),
                               q->goes_ms > now ? td_cell_integer((q->goes_ms - now + 999) / 1000) : td_cell_text(""),
                               td_cell_integer(q->bytes)});
}

static bool fill_queues(table *b, td_session *s)
{
    static const char *const columns[] = {"queue",       "items",       "capacity", "producers", "consumers",
                                          "waiting_put", "waiting_get", "puts",     "gets",      "deaths",
                                          "ended",       "goes_in_s",   "bytes"};
    b->columns = columns;
    b->n_columns = 13;
    return td_queue_some(s->service, !b->begun, TD_TABLE_SOME, add_queue, b) || b->rows >= TD_TABLE_MOST_ROWS;
}

static double rounded(double v, double steps)
{
    return floor(v * steps + 0.5) / steps;
}

/* us: whole ones where there are many. */
static Td__Wire__Cell cell_us(double seconds)
{
    double us = seconds * 1e6;
    return us < 100 ? td_cell_real(rounded(us, 10)) : td_cell_integer((uint64_t)us);
}

static void add_roll_row(const td_roll_row *r, void *arg)
{
    table *b = arg;
    Td__Wire__Cell none = td_cell_text("");
    bool whole = r->rank < 0, known = r->epoch != 0;
    add_row(b, 16,
            (Td__Wire__Cell[]){td_cell_text(r->group), td_cell_integer(r->epoch),
                               whole ? td_cell_text("all") : td_cell_integer((uint64_t)r->rank),
                               r->pid ? td_cell_integer(r->pid) : none, td_cell_text(r->program),
                               td_cell_text(r->state), known ? td_cell_integer(r->round) : none,
                               known ? td_cell_real(rounded(r->per_second, 10)) : none, known ? cell_us(r->p50) : none,
                               known ? cell_us(r->p99) : none, known && !whole ? td_cell_integer(r->last) : none,
                               known && !whole ? td_cell_real(rounded(r->last_share * 100, 10)) : none,
                               known ? td_cell_real(rounded(r->within * 100, 10)) : none, td_cell_text(r->now),
                               td_cell_text(r->at), r->since > 0 ? td_cell_real(rounded(r->since, 1000)) : none});
}

static bool fill_groups(table *b, td_session *s)
{
    static const char *const columns[] = {"group",  "epoch",  "rank", "pid",    "program", "state", "round", "per_s",
                                          "p50_us", "p99_us", "last", "last_%", "in_%",    "now",   "at",    "since_s"};
    b->columns = columns;
    b->n_columns = 16;
    if (!b->begun) td_roll_begin(&b->roll, s->service);
    return td_roll_some(&b->roll, TD_TABLE_SOME, add_roll_row, b) || b->rows >= TD_TABLE_MOST_ROWS;
}

static bool fill_turns(table *b, td_session *s)
{
    static const char *const columns[] = {"turn",   "turns",  "total_ms", "longest_us", "longest_cpu_us", "to_50",
                                          "to_100", "to_250", "to_500",   "to_1000",    "to_4000",        "longer"};
    b->columns = columns;
    b->n_columns = 12;
    const td_laps *t = s->service->laps;
    for (const td_lap_kind *k = t ? t->kinds : NULL; t && k < t->kinds + t->count; k++) {
        Td__Wire__Cell row[12] = {td_cell_text(k->name), td_cell_integer(k->count),
                                  td_cell_real((double)k->total_ns / 1e6), td_cell_integer(k->longest_ns / 1000),
                                  td_cell_integer(k->longest_cpu_ns / 1000)};
        for (int i = 0; i <= TD_LAP_BOUNDS; i++) row[5 + i] = td_cell_integer(k->within[i]);
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
    add_row(b, 4,
            (Td__Wire__Cell[]){td_cell_integer(a->bytes), td_cell_integer(a->peak), td_cell_integer(a->work),
                               td_cell_integer(a->objects)});
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
    td_table_filler fill;
} tables[] = {{"status", fill_status},   {"sessions", fill_sessions}, {"tensors", td_fill_tensors},
              {"names", fill_names},     {"models", fill_models},     {"queues", fill_queues},
              {"groups", fill_groups},   {"segments", fill_segments}, {"turns", fill_turns},
              {"devices", fill_devices}, {"memory", fill_memory},     {"memory_anew", fill_memory_anew}};

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
    td_listing_pass(b);
}

static bool drop_table(td_job *j, int most)
{
    (void)most;
    table *b = (table *)(void *)j;
    b->all->table = NULL;
    if (b->maps_file) fclose(b->maps_file);
    td_listing_drop(&b->list);
    td_roll_end(b->all->service);
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

static int step_table(td_job *j, td_error *e)
{
    td_session *s = td_session_of(j->issuer);
    (void)e; /* a failure is the request's */
    table *b = (table *)(void *)j;
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
    drop_table(j, 1);
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
    static const td_job_kind kind = {"table", .step = step_table, .drop = drop_table, .cost = COST, .alone = true};
    const char *what = call->status->what;
    size_t k = 0, n = sizeof tables / sizeof tables[0];
    while (k < n && strcmp(tables[k].what, what) != 0) k++;
    if (k == n) return no_table(what, e);
    if (wait_for_table(s)) return TD_AGAIN;
    table *b = malloc(sizeof *b);
    if (!b) return td_no_memory(e, "for a table");
    *b = (table){.job = td_session_job(s, &kind),
                 .all = s->all,
                 .serial = call->serial,
                 .what = tables[k].what,
                 .fill = tables[k].fill,
                 .reply = {.front = TD_REPLY_FRONT, .end = TD_REPLY_FRONT}};
    s->all->table = b;
    s->work.job = &b->job;
    return TD_OK;
}
