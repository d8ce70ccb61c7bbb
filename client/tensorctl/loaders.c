/* tensorctl loaders: what the data loaders of this daemon's processes do, and their workers, by stage.
 *
 * A loader counts in a tensor that it lends under the name loader/PID.N[/POOL], in the layout that
 * client/python/tensord/data/_board.py writes; here it is only read. Shares are of the time since the last look, of the
 * loader's whole time when there was none. Anybody may lend such a name, so its numbers may be any, and what does not
 * fit into a table for people is not shown. */
#include "client/tensorctl/tensorctl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAYOUT = 1, HEAD = 8, EACH = 8, MOST = 1 << 16 /* numbers in all boards */ };
enum { LATE = 3 };
#define PATIENCE 0.25 /* seconds */
enum { SECONDS = 2, BATCHES, WAITED, UNPACKED, WAITING, RUNNING };
enum { PID, MADE, IDLE, FETCH, COLLATE, SEND, OTHERS, RESPAWNED };
enum { C_LOADER, C_POOL, C_WORKER, C_PID, C_BATCHES, C_RATE, C_WAIT, C_UNPACK, C_IDLE, C_RESPAWNED = C_IDLE + 5 };
static const char *const columns[] = {"loader",   "pool",   "worker",  "pid",       "batches", "per_s",    "wait_%",
                                      "unpack_%", "idle_%", "fetch_%", "collate_%", "send_%",  "others_%", "respawned"};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

typedef struct board {
    char name[256];
    int n;
    double *at, when;
    struct board *next;
} board;

struct ctl_loaders {
    board *seen;
    td_client *reader; /* a connection of its own, as a read waits for who writes, and that one may have been stopped */
    double until;      /* when a read has waited long enough */
    int late;          /* reads of this look that did */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void free_boards(board *b)
{
    for (board *next; b; b = next) {
        next = b->next;
        free(b->at);
        free(b);
    }
}

ctl_loaders *ctl_loaders_new(void)
{
    return calloc(1, sizeof(ctl_loaders));
}

void ctl_loaders_free(ctl_loaders *l)
{
    if (l) free_boards(l->seen);
    if (l) td_disconnect(l->reader);
    free(l);
}

static bool is_late(void *arg)
{
    return now() > ((ctl_loaders *)arg)->until;
}

static td_client *reader(ctl_loaders *l, td_client *like)
{
    if (!l->reader && (l->reader = td_connect(td_socket_path(like)))) td_set_interrupt(l->reader, is_late, l);
    l->until = now() + PATIENCE;
    return l->reader;
}

/* What is asked on this connection from here on would wait for the late one. */
static void give_up_reader(ctl_loaders *l)
{
    l->late++;
    td_disconnect(l->reader);
    l->reader = NULL;
}

/* NULL: it has just ended, is late, or not of this layout. */
static board *read_board(ctl_loaders *l, td_client *c, const char *name, int most)
{
    td_client *own = reader(l, c);
    td_array *a = own ? td_open(own, name, 0) : NULL;
    int64_t n = a && td_dtype_of(a) == TD_FLOAT64 ? td_numel(a) : 0;
    board *b = n >= HEAD && n <= most ? calloc(1, sizeof *b) : NULL;
    if (b) {
        snprintf(b->name, sizeof b->name, "%s", name);
        b->n = (int)n;
        b->at = calloc((size_t)n, sizeof(double));
        b->when = now();
    }
    bool good = b && b->at && td_read(a, b->at, (size_t)n * sizeof(double)) == TD_OK && b->at[0] == LAYOUT &&
                b->at[1] >= 0 && HEAD + EACH * b->at[1] == (double)n;
    td_release(a);
    if (!good && is_late(l)) give_up_reader(l);
    td_clear_error();
    if (good) {
        if (b->at[WAITING] > 0) b->at[WAITED] += fmax(0, b->when - b->at[WAITING]);
        return b;
    }
    free_boards(b);
    return NULL;
}

/* A count, whatever stands there. */
static int64_t whole(double v)
{
    return v >= -0x1p62 && v <= 0x1p62 ? (int64_t)v : 0;
}

static const board *before(const ctl_loaders *l, const board *b)
{
    for (const board *x = l->seen; x; x = x->next)
        if (strcmp(x->name, b->name) == 0 && x->n == b->n && b->when - x->when > 0.01) return x;
    return NULL;
}

static double since(const board *b, const board *last, int i)
{
    return fmax(0, b->at[i] - (last ? last->at[i] : 0));
}

static void put_share(td_table *t, int column, double part, double of)
{
    ctl_row_real(t, column, of > 0 ? round(fmin(part / of, 1) * 1000) / 10 : 0);
}

static void put_rate(td_table *t, double batches, double seconds)
{
    ctl_row_real(t, C_RATE, seconds > 0 ? round(batches / seconds * 10) / 10 : 0);
}

/* "loader/PID.N/POOL": what is before and behind the second stroke. */
static void put_name(td_table *t, const board *b)
{
    char text[sizeof b->name];
    snprintf(text, sizeof text, "%s", b->name + strlen("loader/"));
    char *pool = strchr(text, '/');
    if (pool) *pool++ = 0;
    ctl_row_text(t, C_LOADER, text);
    ctl_row_text(t, C_POOL, pool ? pool : "");
}

static void put_loader(td_table *t, const board *b, const board *last, double seconds)
{
    int workers = (int)b->at[1];
    put_name(t, b);
    ctl_row_text(t, C_WORKER, "all");
    ctl_row_int(t, C_PID, atoll(b->name + strlen("loader/")));
    ctl_row_int(t, C_BATCHES, whole(b->at[BATCHES]));
    put_rate(t, since(b, last, BATCHES), seconds);
    put_share(t, C_WAIT, since(b, last, WAITED), seconds);
    put_share(t, C_UNPACK, since(b, last, UNPACKED), seconds);
    double sums[EACH] = {0};
    for (int k = 0; k < workers; k++)
        for (int i = IDLE; i < EACH; i++)
            sums[i] += i == RESPAWNED ? b->at[HEAD + k * EACH + i] : since(b, last, HEAD + k * EACH + i);
    for (int i = IDLE; i <= OTHERS; i++) put_share(t, C_IDLE + i - IDLE, sums[i], seconds * workers);
    ctl_row_int(t, C_RESPAWNED, whole(sums[RESPAWNED]));
}

static void put_worker(td_table *t, const board *b, const board *last, int k, double seconds)
{
    char text[16];
    int at = HEAD + k * EACH;
    put_name(t, b);
    snprintf(text, sizeof text, "%d", k);
    ctl_row_text(t, C_WORKER, text);
    ctl_row_int(t, C_PID, whole(b->at[at + PID]));
    ctl_row_int(t, C_BATCHES, whole(b->at[at + MADE]));
    put_rate(t, since(b, last, at + MADE), seconds);
    for (int i = IDLE; i <= OTHERS; i++) put_share(t, C_IDLE + i - IDLE, since(b, last, at + i), seconds);
    ctl_row_int(t, C_RESPAWNED, whole(b->at[at + RESPAWNED]));
}

/* The time that shares are of: since the last look, or all of the loader's own. */
static double seconds_of(const board *b, const board *last)
{
    if (last) return b->when - last->when;
    double own = b->at[SECONDS];
    return b->at[RUNNING] > 0 ? fmax(own, b->when - b->at[RUNNING]) : own;
}

td_table *ctl_loaders_look(ctl_loaders *l, td_client *c)
{
    td_table *names = td_status(c, "names");
    if (!names) return NULL;
    td_table *t = ctl_table_new(COLUMNS, columns);
    board *boards = NULL;
    l->late = 0;
    for (int r = 0, room = MOST; r < names->rows && room >= HEAD && l->late < LATE; r++) {
        const td_cell *name = &names->cells[r * names->columns];
        if (name->kind != TD_CELL_TEXT || strncmp(name->text, "loader/", 7) != 0) continue;
        board *b = read_board(l, c, name->text, room);
        if (!b) continue;
        room -= b->n;
        const board *last = before(l, b);
        double seconds = seconds_of(b, last);
        put_loader(t, b, last, seconds);
        for (int k = 0; k < (int)b->at[1]; k++) put_worker(t, b, last, k, seconds);
        b->next = boards;
        boards = b;
    }
    free_boards(l->seen);
    l->seen = boards;
    td_table_free(names);
    return t;
}

int ctl_loaders_command(const ctl_options *o)
{
    td_client *c = ctl_connect(o);
    if (!c) return 1;
    ctl_loaders *l = ctl_loaders_new();
    td_table *t = l ? ctl_loaders_look(l, c) : NULL;
    if (t) ctl_print(t, o->json);
    int rc = t ? 0 : ctl_fail("loaders");
    td_table_free(t);
    ctl_loaders_free(l);
    td_disconnect(c);
    return rc;
}
