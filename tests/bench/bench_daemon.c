/* The daemon as a house for many: what an op costs among a thousand sessions and a million tensors, what a small client
 * feels while a big one computes, and what the daemon takes when it does nothing. */
#include "tests/bench/bench.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define SESSIONS 1000
#define TENSORS 1000000
#define OPS 100000
#define TRIPS 3000
#define NODES 1000000
#define CROWD 500

/* A line "NAME: N kB" of /proc/PID/status, in bytes. */
static double memory_of(uint32_t pid, const char *name)
{
    char path[64], line[256];
    double kb = -1;
    snprintf(path, sizeof path, "/proc/%u/status", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0) sscanf(line + strlen(name), ": %lf", &kb);
    if (f) fclose(f);
    return kb * 1024;
}

static void stream(void *context)
{
    td_array *x = context;
    for (int i = 0; i < OPS; i++) td_release(td_add(x, x));
    bench_check(td_sync(td_client_of(x)) == 0, "stream of adds");
}

/* ---- idle ---- */

static double start_once(double *resident)
{
    double began = bench_now();
    td_client *c = td_connect(NULL);
    bench_check(c != NULL, "connecting");
    td_array *x = td_full(c, td_dims(1), 1.0, TD_FLOAT32);
    bench_check(td_item_f64(x) == 1, "first answer");
    double took = bench_now() - began;
    td_release(x);
    usleep(200000);
    *resident = memory_of(td_daemon_pid(c), "VmRSS");
    td_disconnect(c);
    return took;
}

static void idle(void)
{
    double took[5], resident = 0;
    for (int i = 0; i < 5; i++) took[i] = start_once(&resident);
    bench_ours("idle.memory", resident / 1e6, "MB", 1);
    bench_reference("idle.memory", 15, "15 MB resident");
    bench_ours("idle.start", bench_quantile(took, 5, 0.5) * 1e3, "ms", 1);
    bench_reference("idle.start", 20, "20 ms to the first answer");
}

/* ---- scale ---- */

static bool enough_descriptors(void)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 3 * SESSIONS)
        printf("skip scale.op only %lu descriptors allowed\n", (unsigned long)files.rlim_cur);
    return files.rlim_cur >= 3 * SESSIONS;
}

static void scale(void)
{
    if (!enough_descriptors()) return;
    td_client *c = td_connect(NULL), **all = calloc(SESSIONS, sizeof *all);
    td_array *x = td_full(c, td_dims(8), 1.0, TD_FLOAT32), **many = calloc(TENSORS, sizeof *many);
    bench_check(x && all && many, "connecting");
    double empty = bench_median(stream, x) / OPS, before = memory_of(td_daemon_pid(c), "RssAnon");

    for (int i = 0; i < SESSIONS; i++) {
        bench_check((all[i] = td_connect(td_socket_path(c))) != NULL, "a thousand sessions");
        for (int k = i * (TENSORS / SESSIONS); k < (i + 1) * (TENSORS / SESSIONS); k++)
            many[k] = td_full(all[i], td_dims(8), 1.0, TD_FLOAT32);
        bench_check(td_sync(all[i]) == 0, "a million tensors");
    }
    double each = (memory_of(td_daemon_pid(c), "RssAnon") - before) / TENSORS;
    bench_ours("scale.op", bench_median(stream, x) / OPS * 1e9, "ns", 1.3);
    bench_reference("scale.op", empty * 1e9, "the same in an empty daemon");
    bench_ours("scale.tensor", each, "B", 1);
    bench_reference("scale.tensor", 512, "512 B of book-keeping");
    for (int i = 0; i < TENSORS; i++) td_release(many[i]);
    for (int i = 0; i < SESSIONS; i++) td_disconnect(all[i]);
    td_release(x);
    td_disconnect(c);
    free(all);
    free(many);
}

/* ---- fair ---- */

static double round_trip(td_array *x)
{
    double began = bench_now();
    td_array *y = td_add(x, 1.0);
    bench_check(!isnan(td_item_f64(y)), "small op");
    td_release(y);
    return bench_now() - began;
}

static void round_trips(td_array *x, double *p50, double *p99)
{
    static double took[TRIPS];
    for (int i = 0; i < TRIPS; i++) {
        took[i] = round_trip(x);
        usleep(200);
    }
    *p50 = bench_quantile(took, TRIPS, 0.5);
    *p99 = bench_quantile(took, TRIPS, 0.99);
}

/* A small client's round trips alone, and while another process does its work: that begins after a token and lasts
 * until its socket is shut. The median and the 99th percentile against the idle ones; a goal of 0 leaves the line out.
 */
static void beside(const char *name, void (*other)(int, void *), double goal50, double goal99)
{
    char p50_line[64], p99_line[64];
    pid_t child;
    td_client *c = td_connect(NULL);
    bench_check(c != NULL, "connecting");
    setenv("TENSORD_SOCKET", td_socket_path(c), 1);
    td_array *x = td_full(c, td_dims(1), 1.0, TD_FLOAT32);
    double idle50, idle99, p50, p99;
    round_trips(x, &idle50, &idle99);
    int fd = bench_child(other, NULL, &child);
    bench_take(fd);
    bench_send(fd);
    round_trips(x, &p50, &p99);
    shutdown(fd, SHUT_WR);
    waitpid(child, NULL, 0);
    close(fd);
    snprintf(p50_line, sizeof p50_line, "%s.p50", name);
    snprintf(p99_line, sizeof p99_line, "%s.p99", name);
    if (goal50 > 0) {
        bench_ours(p50_line, p50 * 1e6, "us", goal50);
        bench_reference(p50_line, idle50 * 1e6, "its own idle figure");
    }
    bench_ours(p99_line, p99 * 1e6, "us", goal99);
    bench_reference(p99_line, idle99 * 1e6, "its own idle figure");
    td_release(x);
    td_disconnect(c);
    unsetenv("TENSORD_SOCKET"); /* that daemon ends */
}

static double product(td_array *a)
{
    double began = bench_now();
    td_array *y = td_mm(a, a);
    bench_check(y && td_sync(td_client_of(a)) == 0, "matmul 4096");
    td_release(y);
    return bench_now() - began;
}

/* The big client: products alone; then, after a token, products until the socket is shut. */
static void big_client(int fd, void *context)
{
    (void)context;
    double alone[3], shared[256];
    int n = 0;
    char more;
    td_client *c = td_connect(NULL);
    td_array *a = td_randn(c, td_dims(4096, 4096), TD_FLOAT32);
    bench_check(a != NULL, "big client");
    product(a);
    for (int i = 0; i < 3; i++) alone[i] = product(a);
    bench_send(fd);
    bench_take(fd);
    do shared[n++] = product(a);
    while (n < 256 && recv(fd, &more, 1, MSG_DONTWAIT) != 0);
    bench_ours("fair.matmul", bench_quantile(shared, n, 0.5) * 1e3, "ms", 1 / 0.85);
    bench_reference("fair.matmul", bench_quantile(alone, 3, 0.5) * 1e3, "the same matmul 4096 alone");
    td_disconnect(c);
}

static void fair(void)
{
    beside("fair", big_client, 1.5, 3);
}

/* ---- a large graph ---- */

/* What another client is at: nothing, for as long as the others take together; a graph of NODES nodes is built, run
 * backward, and let go of. In turns, so that each is compared with what the machine was like then. */
enum { RESTS, BUILDS, RUNS, LETS_GO, PHASES };
typedef struct turns {
    _Atomic int phase; /* -1: between two */
    _Atomic bool over;
} turns;

static long nodes_of(td_client *c)
{
    long n = -1;
    td_table *t = td_status(c, "status");
    for (int i = 0; t && i < t->rows; i++)
        if (strcmp(t->cells[2 * i].text, "nodes") == 0) n = (long)t->cells[2 * i + 1].integer;
    td_table_free(t);
    return n;
}

static td_array *large_graph(td_client *c)
{
    td_array *x = td_full(c, td_dims(1), 1.0, TD_FLOAT32), *w = td_full(c, td_dims(1), 1.0, TD_FLOAT32);
    td_set_requires_grad(x, true);
    td_set_requires_grad(w, true);
    td_array *last = td_mul(x, w);
    for (int i = 1; i < NODES; i++) {
        td_array *next = td_mul(last, w);
        td_release(last);
        last = next;
    }
    td_release(x);
    td_release(w);
    bench_check(last && td_sync(c) == 0, "a large graph");
    return last;
}

static void graph_client(int fd, void *context)
{
    turns *t = context;
    td_client *c = td_connect(NULL);
    bench_send(fd);
    bench_take(fd);
    while (!t->over) {
        double began = bench_now();
        t->phase = BUILDS;
        td_array *root = large_graph(c);
        t->phase = RUNS;
        td_at_backward(TD_HERE, td_arrays(root), td_arrays_of(0, NULL), TD_RETAIN_GRAPH);
        bench_check(td_sync(c) == 0, "backward over a large graph");
        t->phase = LETS_GO;
        td_release(root);
        td_flush(c);
        while (nodes_of(c) > 0) usleep(2000);
        t->phase = RESTS;
        double until = 2 * bench_now() - began;
        while (!t->over && bench_now() < until) usleep(1000);
        t->phase = -1;
    }
    td_disconnect(c);
}

static void beside_a_graph(void)
{
    enum { SECONDS = 20, MOST = 1 << 17 };
    static const char *const names[] = {NULL, "graph.build.p99", "graph.backward.p99", "graph.free.p99"};
    turns *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double *took = malloc(sizeof *took * PHASES * MOST), p99[PHASES];
    int n[PHASES] = {0};
    pid_t child;
    td_client *c = td_connect(NULL);
    bench_check(c && took && t != MAP_FAILED, "connecting");
    t->phase = -1;
    setenv("TENSORD_SOCKET", td_socket_path(c), 1);
    td_array *x = td_full(c, td_dims(1), 1.0, TD_FLOAT32);
    int fd = bench_child(graph_client, t, &child);
    bench_take(fd);
    bench_send(fd);
    for (double until = bench_now() + SECONDS; bench_now() < until;) {
        int phase = t->phase;
        double one = round_trip(x);
        if (phase >= 0 && phase == t->phase && n[phase] < MOST) took[phase * MOST + n[phase]++] = one;
        usleep(200);
    }
    t->over = true;
    waitpid(child, NULL, 0);
    close(fd);
    for (int k = 0; k < PHASES; k++) p99[k] = n[k] ? bench_quantile(took + k * MOST, n[k], 0.99) : NAN;
    for (int k = BUILDS; k < PHASES; k++) {
        bench_ours(names[k], p99[k] * 1e6, "us", 3);
        bench_reference(names[k], p99[RESTS] * 1e6, "its own while that client rests");
    }
    free(took);
    td_release(x);
    td_disconnect(c);
    unsetenv("TENSORD_SOCKET");
}

/* ---- a crowd ---- */

/* Another process with CROWD sessions, each of which has more to do than the daemon can: small ops, and products for
 * the workers; after a token, until the socket is shut. */
static void crowd_client(int fd, void *context)
{
    static td_client *all[CROWD];
    static td_array *small[CROWD], *large[CROWD];
    char more;
    (void)context;
    for (int i = 0; i < CROWD; i++) {
        bench_check((all[i] = td_connect(NULL)) != NULL, "a crowd of sessions");
        small[i] = td_full(all[i], td_dims(1000), 1.0, TD_FLOAT32);
        large[i] = td_full(all[i], td_dims(256, 256), 1.0, TD_FLOAT32);
    }
    bench_send(fd);
    bench_take(fd);
    do {
        for (int i = 0; i < CROWD; i++) {
            for (int k = 0; k < 500; k++) td_release(td_add(small[i], small[i]));
            td_release(td_mm(large[i], large[i]));
            bench_check(td_flush(all[i]) == 0, "a stream of a crowd");
        }
    } while (recv(fd, &more, 1, MSG_DONTWAIT) != 0);
    for (int i = 0; i < CROWD; i++) td_disconnect(all[i]);
}

static void crowd(void)
{
    if (enough_descriptors()) beside("crowd", crowd_client, 10, 10);
}

/* ---- a program that never ends ---- */

static void never_ends(void *context)
{
    td_value out, in[] = {td_value_array(context)};
    int rc = td_program_call(td_program_read(td_client_of(context),
                                             "graph(%x : Tensor):\n"
                                             "  %most : int = prim::Constant[value=9223372036854775807]()\n"
                                             "  %yes : bool = prim::Constant[value=1]()\n"
                                             "  %last : Tensor = prim::Loop(%most, %yes, %x)\n"
                                             "    block0(%i : int, %y : Tensor):\n"
                                             "      %z : Tensor = td::neg(%y)\n"
                                             "      -> (%yes, %z)\n"
                                             "  return (%last)\n",
                                             td_arrays_of(0, NULL)),
                             1, in, &out);
    bench_check(rc == 0 && td_flush(td_client_of(context)) == 0, "a program without an end");
}

/* Another client's `while True` over small ops: after a token, until its process ends. */
static void endless_client(int fd, void *context)
{
    (void)context;
    char more;
    td_client *c = td_connect(NULL);
    td_array *x = td_full(c, td_dims(8), 1.0, TD_FLOAT32);
    bench_check(x != NULL, "connecting");
    bench_send(fd);
    bench_take(fd);
    never_ends(x);
    while (recv(fd, &more, 1, 0) > 0) {
    }
}

static void endless(void)
{
    beside("prog.fair", endless_client, 3, 3);
}

/* bench_daemon [PART]: all, or idle, scale, fair, graph, crowd or endless. */
int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"idle", idle},   {"scale", scale},    {"fair", fair}, {"graph", beside_a_graph},
                 {"crowd", crowd}, {"endless", endless}};
    for (int i = 0; i < 6; i++)
        if (argc < 2 || strcmp(argv[1], parts[i].name) == 0) parts[i].run();
    return 0;
}
