/* How long the daemon's loop is at one thing before it looks at the next, whatever its clients do: each part below does
 * much of one kind, or is killed in the midst of it, and the daemon counts its turns (tensord --turns).
 *
 * What counts is the time on a processor: by the clock a busy machine's other programs are in it. Even so a virtual
 * machine lengthens some turns, as it does any piece of work: how many, a piece that is always the same tells. */
#include "tests/bench/bench.h"
#include "tests/support/daemon.h"
#include "tests/support/raw.h"

#include <signal.h>
#include <time.h>

enum { MANY = 300000, QUEUED = 8192, HELD = 1024, LONGEST_US = 250 };

static test_daemon daemon_here;

static td_client *join(void)
{
    td_client *c = td_connect(daemon_here.socket);
    bench_check(c != NULL, "connecting");
    return c;
}

static void in_sync(td_client *c)
{
    bench_check(td_sync(c) == 0, "sync");
}

static td_array *ones(td_client *c)
{
    return td_full(c, td_dims(8), 1.0, TD_FLOAT32);
}

/* ---- the parts: each is a process, and is killed when it has returned */

static void ops(void)
{
    td_client *c = join();
    td_array *x = ones(c);
    for (int i = 0; i < MANY; i++) td_release(td_add(x, x));
    in_sync(c);
}

static void tensors(void)
{
    td_client *c = join();
    td_array *x = ones(c);
    for (int i = 0; i < MANY; i++) td_keep(td_add(x, x));
    in_sync(c);
}

static td_array *graph(td_client *c)
{
    td_array *w = ones(c);
    td_set_requires_grad(w, true);
    td_array *last = td_mul(w, w);
    for (int i = 1; i < MANY; i++) {
        td_array *next = td_mul(last, w);
        td_release(last);
        last = next;
    }
    in_sync(c);
    return td_sum(last);
}

static void backwards(void)
{
    td_client *c = join();
    td_array *root = graph(c);
    td_at_backward(TD_HERE, td_arrays(root), td_arrays_of(0, NULL), TD_RETAIN_GRAPH);
    in_sync(c);
    td_at_backward(TD_HERE, td_arrays(root), td_arrays_of(0, NULL), TD_RETAIN_GRAPH);
    td_flush(c);
    usleep(20000); /* it is under way */
}

/* One tensor that very many nodes have saved is written to. */
static void saved(void)
{
    td_client *c = join();
    td_array *w = ones(c);
    td_set_requires_grad(w, true);
    td_array *y = td_mul(w, w);
    for (int i = 0; i < MANY; i++) td_keep(td_mul(y, w));
    in_sync(c);
    td_mul_(y, 2);
    in_sync(c);
}

static void queued(void)
{
    td_client *c = join();
    td_array *x = td_full(c, td_dims(256, 256), 1.0, TD_FLOAT32);
    in_sync(c);
    for (int i = 0; i < QUEUED; i++) x = td_mm(x, x);
    td_flush(c);
    usleep(50000);
}

static void came(td_request *r, void *context)
{
    (void)r, (void)context;
}

static void held(void)
{
    td_client *c = join();
    td_queue *q = td_queue_open(c, "held", 1, TD_CONSUMER | TD_PRODUCER);
    bench_check(q != NULL, "a queue");
    for (int i = 0; i < HELD; i++) bench_check(td_async_get(q, -1, came, NULL) != NULL, "a get");
    in_sync(c);
}

static void items(void)
{
    td_client *c = join();
    td_queue *q = td_queue_open(c, "items", TD_ANY_NUMBER, TD_PRODUCER);
    td_array *x = ones(c);
    for (int i = 0; i < MANY / 10; i++) bench_check(td_queue_put(q, td_arrays(x), NULL, 0, -1) == 0, "a put");
    in_sync(c);
}

/* As large as they may be: of many tensors, and with a long note. */
static void large_items(void)
{
    enum { TIMES = 8, NOTE = 6 << 20 };
    td_client *c = join();
    td_queue *q = td_queue_open(c, "large", TD_ANY_NUMBER, TD_PRODUCER | TD_CONSUMER);
    td_array *each[TD_MAX_ITEM];
    char *note = malloc(NOTE);
    bench_check(q && note, "a queue");
    memset(note, 'x', NOTE);
    for (int i = 0; i < TD_MAX_ITEM; i++) each[i] = td_full(c, td_dims(8), i, TD_FLOAT32);
    for (int both = 0; both < 2; both++) { /* some are there at the end */
        for (int i = 0; i < TIMES; i++) {
            bench_check(td_queue_put(q, td_arrays_of(TD_MAX_ITEM, each), NULL, 0, -1) == 0, "many tensors");
            bench_check(td_queue_put(q, td_arrays(each[i]), note, NOTE, -1) == 0, "a long note");
        }
        for (int i = 0; i < 2 * TIMES && !both; i++) {
            td_queue_item item;
            bench_check(td_queue_get(q, &item, -1) == 0, "an item");
            td_queue_item_clear(&item);
        }
    }
    in_sync(c);
}

static void names(void)
{
    td_client *c = join();
    td_array *x = ones(c);
    char name[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "name %d", i);
        bench_check(td_publish(x, name, 0) == 0, "a name");
    }
    td_table *t = td_status(c, "names");
    bench_check(t != NULL, "the table of names");
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "name %d", i);
        bench_check(td_drop(c, name) == 0, "dropping a name");
    }
}

static void leases(void)
{
    td_client *c = join();
    for (int i = 0; i < MANY / 3; i++) bench_check(td_lease_new(c, 64) != NULL, "a lease");
}

/* All of them, beside much that each has to tell of. */
static void tables(void)
{
    static const char *const all[] = {"tensors", "status", "sessions", "names", "queues", "segments", "devices"};
    td_client *c = join();
    td_array *x = ones(c), *each[TD_MAX_ITEM];
    td_queue *q = td_queue_open(c, "told of", TD_ANY_NUMBER, TD_PRODUCER);
    td_queue *none = td_queue_open(c, "empty", 1, TD_CONSUMER | TD_PRODUCER);
    bench_check(q && none, "queues");
    for (int i = 0; i < MANY / 10; i++) td_keep(td_add(x, x));
    for (int i = 0; i < MANY / 100; i++) bench_check(td_queue_put(q, td_arrays(x), NULL, 0, -1) == 0, "a put");
    for (int i = 0; i < TD_MAX_ITEM; i++) each[i] = td_full(c, td_dims(8), i, TD_FLOAT32);
    for (int i = 0; i < 8; i++)
        bench_check(td_queue_put(q, td_arrays_of(TD_MAX_ITEM, each), NULL, 0, -1) == 0, "many tensors");
    for (int i = 0; i < HELD; i++) bench_check(td_async_get(none, -1, came, NULL) != NULL, "a get");
    for (int i = 0; i < 300; i++) bench_check(td_lease_new(c, 1 << 20) != NULL, "a lease");
    for (size_t i = 0; i < 5 * sizeof all / sizeof all[0]; i++) {
        td_table *t = td_status(c, all[i % (sizeof all / sizeof all[0])]);
        bench_check(t != NULL, td_last_error()->message);
        td_table_free(t);
    }
}

/* As large as they may be. */
static void programs(void)
{
    enum { NODES = 65000 };
    td_client *c = join();
    char *text = malloc(NODES * 64), *at = text;
    at += sprintf(at, "graph(%%x0 : Tensor):\n");
    for (int i = 0; i < NODES; i++) at += sprintf(at, "  %%x%d : Tensor = td::neg(%%x%d)\n", i + 1, i);
    sprintf(at, "  return (%%x%d)\n", NODES);
    for (int i = 0; i < 4; i++) {
        td_program *p = td_program_read(c, text, td_arrays_of(0, NULL));
        bench_check(p != NULL, "a program");
        td_program_free(p);
        in_sync(c);
    }
    free(text);
}

/* A child that goes on with all that its parent has. */
static void forked(void)
{
    td_client *c = join();
    td_array *x = ones(c), *last = x;
    for (int i = 0; i < MANY; i++) last = td_keep(td_add(x, x));
    in_sync(c);
    pid_t child = fork();
    if (child == 0) {
        td_release(td_add(last, x));
        in_sync(c);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

/* ---- what little asks for much */

enum { WIDE = 4000 };

/* `n` times, with the number, from `from` on and round. */
static void each_from(FILE *f, int n, int from, const char *name, const char *behind)
{
    for (int i = 0; i < n; i++) fprintf(f, "%s%%%s%d%s", i ? ", " : "", name, (from + i) % n, behind);
}

static void each(FILE *f, int n, const char *name, const char *behind)
{
    each_from(f, n, 0, name, behind);
}

/* What was written to a text; frees it. */
static td_program *read_text(td_client *c, FILE *f, char *const *text)
{
    fclose(f);
    td_program *p = td_program_read(c, *text, td_arrays_of(0, NULL));
    bench_check(p != NULL, td_last_error()->message);
    free(*text);
    return p;
}

/* Functions that call each other twice: 4 KB stand for as many nodes as one likes. */
static void doubling(void)
{
    enum { FUNCTIONS = 26, TIMES = 50 };
    td_client *c = join();
    for (int k = 0; k < TIMES; k++) {
        char *text;
        size_t n;
        FILE *f = open_memstream(&text, &n);
        fprintf(f, "graph(%%x : Tensor):\n  %%y : Tensor = fn::f0(%%x)\n  return (%%y)\n");
        for (int i = 0; i < FUNCTIONS; i++)
            fprintf(f,
                    "fn f%d(%%x : Tensor):\n  %%a : Tensor = fn::f%d(%%x)\n  %%b : Tensor = fn::f%d(%%a)\n"
                    "  return (%%b)\n",
                    i, i + 1, i + 1);
        fprintf(f, "fn f%d(%%x : Tensor):\n  %%a : Tensor = td::neg(%%x)\n  return (%%a)\n", FUNCTIONS);
        td_program_free(read_text(c, f, &text));
    }
    in_sync(c);
}

/* A loop that carries thousands of tensors, through a function that takes and gives as many, too large to be put in
 * its place. */
static void carried(void)
{
    enum { CALLS = 4, TRIPS = 20000 };
    td_client *c = join();
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    fprintf(f, "graph(%%n : int, %%x : Tensor):\n  %%yes : bool = prim::Constant[value=1]()\n  ");
    each(f, WIDE, "o", " : Tensor");
    fprintf(f, " = prim::Loop(%%n, %%yes");
    for (int i = 0; i < WIDE; i++) fprintf(f, ", %%x");
    fprintf(f, ")\n    block0(%%i : int, ");
    each(f, WIDE, "p", " : Tensor");
    fprintf(f, "):\n");
    for (int k = 0; k < CALLS; k++) {
        char to[16], from[16];
        snprintf(to, sizeof to, "q%d_", k), snprintf(from, sizeof from, k ? "q%d_" : "p", k - 1);
        fprintf(f, "      "), each(f, WIDE, to, " : Tensor");
        fprintf(f, " = fn::turn("), each(f, WIDE, from, ""), fprintf(f, ")\n");
    }
    char last[8];
    snprintf(last, sizeof last, "q%d_", CALLS - 1);
    fprintf(f, "      -> (%%yes, "), each_from(f, WIDE, 1, last, ""), fprintf(f, ")\n  return (%%o0)\nfn turn(");
    each(f, WIDE, "p", " : Tensor"), fprintf(f, "):\n");
    fprintf(f, "  return ("), each_from(f, WIDE, 1, "p", ""), fprintf(f, ")\n");
    td_program *p = read_text(c, f, &text);
    td_array *x = ones(c);
    td_value in[] = {td_value_int(TRIPS), td_value_array(x)}, out;
    bench_check(td_program_call(p, 2, in, &out) == 0, td_last_error()->message);
    td_value_free(&out);
    in_sync(c);
}

/* Programs, and functions of the program's own, that take thousands of tensors and give as many. */
static void wide(void)
{
    td_client *c = join();
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    fprintf(f, "graph("), each(f, WIDE, "x", " : Tensor"), fprintf(f, "):\n  return (");
    each(f, WIDE, "x", ""), fprintf(f, ")\n");
    td_program *p = read_text(c, f, &text);
    td_array *x[WIDE], *y[WIDE];
    td_value in[WIDE], out;
    enum { EACH = 340 };
    for (int i = 0; i < WIDE; i++) {
        x[i] = ones(c), y[i] = ones(c);
        td_set_requires_grad(x[i], true);
        in[i] = td_value_array(x[i]);
    }
    in_sync(c);
    for (int k = 0; k < 5; k++) {
        bench_check(td_program_call(p, WIDE, in, &out) == 0, td_last_error()->message);
        td_value_free(&out);
    }
    uint32_t flags[WIDE] = {0};
    bench_check(td_at_function(TD_HERE, "wide", td_arrays_of(900, x), td_arrays_of(90, y), td_arrays_of(30, y + 90),
                               flags) != 0,
                td_last_error()->message);
    bench_check(td_at_function(TD_HERE, "wide", td_arrays_of(EACH, x), td_arrays_of(EACH, y + 900),
                               td_arrays_of(EACH, y + 900), flags) != 0,
                td_last_error()->message);
    in_sync(c);
}

/* A published program of megabytes that others open. */
static void opened(void)
{
    enum { NODES = 65000, TIMES = 8 };
    td_client *c = join();
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    fprintf(f, "graph(%%x0 : Tensor):\n");
    for (int i = 0; i < NODES; i++)
        fprintf(f, "  %%x%d : Tensor = td::neg(%%x%d) # a_file_of_some_name.py:%d:3-8\n", i + 1, i, i + 1);
    fprintf(f, "  return (%%x%d)\n", NODES);
    td_program *p = read_text(c, f, &text);
    bench_check(td_program_publish(p, "large", 0) == 0, td_last_error()->message);
    for (int i = 0; i < TIMES; i++) {
        td_client *other = join();
        td_program *q = td_program_open(other, "large", -1);
        bench_check(q != NULL, td_last_error()->message);
        td_disconnect(other);
    }
}

/* Connections that come and go beside thousands of others. */
static void beside(void)
{
    enum { OTHERS = 8000, TIMES = 50 };
    static raw others[OTHERS];
    for (int i = 0; i < OTHERS; i++) bench_check(raw_open(&others[i], daemon_here.socket), "one of many connections");
    for (int i = 0; i < TIMES; i++) {
        td_client *c = join();
        td_lease_new(c, 1 << 20);
        in_sync(c);
        td_disconnect(c);
    }
    for (int i = 0; i < OTHERS; i++) raw_close(&others[i]);
}

/* ---- */

static void play(const char *only)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"ops", ops},       {"tensors", tensors},   {"backwards", backwards}, {"saved", saved},
                 {"queued", queued}, {"held", held},         {"items", items},         {"large_items", large_items},
                 {"names", names},   {"leases", leases},     {"tables", tables},       {"programs", programs},
                 {"forked", forked}, {"doubling", doubling}, {"carried", carried},     {"wide", wide},
                 {"opened", opened}, {"beside", beside}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (only && strcmp(only, parts[i].name) != 0) continue;
        pid_t pid = fork();
        if (pid == 0) {
            parts[i].run();
            kill(getpid(), SIGKILL);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        if (!WIFSIGNALED(status)) exit(1);
    }
}

static int64_t cell(const td_table *t, int row, const char *column)
{
    for (int k = 0; k < t->columns; k++)
        if (strcmp(t->names[k], column) == 0) return t->cells[row * t->columns + k].integer;
    return -1;
}

typedef struct found {
    int64_t longest, beyond, all; /* us; turns that took more than LONGEST_US; all turns that may take long */
} found;

/* What the daemon counted, once it has let go of everything. */
static found show(void)
{
    found f = {0};
    td_client *c = join();
    for (int quiet = 0, before = -1; quiet < 3;) { /* what was left goes in turns */
        td_table *s = td_status(c, "status");
        int now = 0;
        for (int i = 0; s && i < s->rows; i++)
            if (strcmp(s->cells[2 * i].text, "tensors") == 0) now = (int)s->cells[2 * i + 1].integer;
        td_table_free(s);
        quiet = now == before ? quiet + 1 : 0;
        before = now;
        usleep(100000);
    }
    td_table *t = td_status(c, "turns");
    bench_check(t != NULL, "turns");
    printf("%-14s %9s %8s %8s | us of a processor: %8s %7s %7s %7s %7s %7s %7s\n", "turn", "times", "longest",
           "(clock)", "to 50", "100", "250", "500", "1000", "4000", "more");
    for (int i = 0; i < t->rows; i++) {
        static const char *const parts[] = {"to_50", "to_100", "to_250", "to_500", "to_1000", "to_4000", "longer"};
        printf("%-14s %9lld %8lld %8lld |                     ", t->cells[i * t->columns].text,
               (long long)cell(t, i, "turns"), (long long)cell(t, i, "longest_cpu_us"),
               (long long)cell(t, i, "longest_us"));
        for (int k = 0; k < 7; k++) printf(k ? " %7lld" : " %7lld", (long long)cell(t, i, parts[k]));
        printf("\n");
        if (cell(t, i, "longest_cpu_us") > f.longest) f.longest = cell(t, i, "longest_cpu_us");
        for (int k = 0; k < 7; k++) {
            if (k > 1) f.all += cell(t, i, parts[k]);
            if (k > 2) f.beyond += cell(t, i, parts[k]);
        }
    }
    td_table_free(t);
    td_disconnect(c);
    return f;
}

/* ---- the same share of a piece of work that is always the same: what the machine makes of 100 us */

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double piece(const unsigned char *memory, int n)
{
    double began = cpu_us();
    unsigned x = 12345, sum = 0;
    for (int i = 0; i < n; i++) sum += memory[(x = x * 1664525u + 1013904223u) >> 3];
    __asm__ volatile("" ::"r"(sum)); /* it is wanted */
    return cpu_us() - began;
}

/* Of pieces that take 100 us at best, how many a million take more than LONGEST_US. */
static double beyond_of_a_machine(void)
{
    enum { BYTES = 1 << 29, TIMES = 20000, AIM_US = 100 };
    unsigned char *memory = calloc(1, BYTES);
    bench_check(memory != NULL, "memory");
    for (size_t i = 0; i < BYTES; i += 4096) memory[i] = 1;
    int n = 1000, beyond = 0;
    for (double best = 0; best < AIM_US; n += n / 8) {
        best = 1e9;
        for (int i = 0; i < 20; i++) {
            double took = piece(memory, n);
            if (took < best) best = took;
        }
    }
    for (int i = 0; i < TIMES; i++) beyond += piece(memory, n) > LONGEST_US;
    free(memory);
    return 1e6 * beyond / TIMES;
}

/* bench_turns [PART] */
int main(int argc, char **argv)
{
    static const char *const options[] = {"--turns", "--memory", "2G", NULL};
    char program[4096];
    snprintf(program, sizeof program, "%s", argv[0]);
    char *slash = strrchr(program, '/');
    snprintf(slash ? slash : program, 64, "%s", slash ? "/../../daemon/server/tensord" : "tensord");
    setenv("TENSORD_DAEMON", program, 0);
    bench_check(test_daemon_start(&daemon_here, options), "starting a daemon");
    play(argc > 1 ? argv[1] : NULL);
    found f = show();
    bench_ours("turns.longest", (double)f.longest, "us", 1);
    bench_reference("turns.longest", LONGEST_US, "250 us of a processor for one turn of the loop");
    bench_ours("turns.beyond", 1e6 * (double)f.beyond / (double)(f.all ? f.all : 1), "of 1M", 1);
    bench_reference("turns.beyond", beyond_of_a_machine(), "of pieces of work of 100 us; turns from 100 us on count");
    return test_daemon_stop(&daemon_here) ? 1 : 0;
}
