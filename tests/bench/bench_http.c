/* Models over HTTP: a request and its answer by tensord-http, beside a plain socket that reads as much and answers as
 * much, for a model that does nothing; and a model that computes, beside td_infer() in this process. What
 * tensord-http takes of memory, also with a thousand connections that say nothing. */
#include "tests/bench/bench.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <signal.h>

enum { SMALL = 800, LARGE = 150528, WIDE = 256, TIMES = 40, IDLE = 1000, ANSWER = 1 << 20 };

/* ---- an ONNX file, byte by byte */

typedef struct bytes {
    size_t n;
    char at[1 << 16];
} bytes;

static void put_number(bytes *b, uint64_t v)
{
    for (; v > 127; v >>= 7) b->at[b->n++] = (char)((v & 127) | 128);
    b->at[b->n++] = (char)v;
}

static void put_field(bytes *b, unsigned field, const char *value, size_t n)
{
    put_number(b, field << 3 | 2), put_number(b, n);
    memcpy(b->at + b->n, value, n), b->n += n;
}

static void put_text(bytes *b, unsigned field, const char *text)
{
    put_field(b, field, text, strlen(text));
}

static void put_int(bytes *b, unsigned field, uint64_t v)
{
    put_number(b, field << 3), put_number(b, v);
}

static void put_within(bytes *b, unsigned field, const bytes *inner)
{
    put_field(b, field, inner->at, inner->n);
}

static void put_port(bytes *graph, unsigned field, const char *name, uint64_t rows, uint64_t columns)
{
    static bytes size, shape, tensor, type, port;
    shape.n = tensor.n = type.n = port.n = 0;
    size.n = 0, put_int(&size, 1, rows), put_within(&shape, 1, &size);
    size.n = 0, put_int(&size, 1, columns), put_within(&shape, 1, &size);
    put_int(&tensor, 1, 1), put_within(&tensor, 2, &shape);
    put_within(&type, 1, &tensor);
    put_text(&port, 1, name), put_within(&port, 2, &type);
    put_within(graph, field, &port);
}

/* `times` 0: y is x; else the product of x with itself, so often. */
static void write_model(const char *path, uint64_t rows, uint64_t columns, int times)
{
    static bytes node, graph, opset, model;
    char from[16] = "x", to[16];
    graph.n = opset.n = model.n = 0;
    for (int k = 0; k <= times; k++) {
        if (k == times && times) break;
        snprintf(to, sizeof to, k + 1 >= times ? "y" : "t%d", k);
        node.n = 0;
        put_text(&node, 1, from);
        if (times) put_text(&node, 1, "x");
        put_text(&node, 2, to), put_text(&node, 4, times ? "MatMul" : "Identity");
        put_within(&graph, 1, &node);
        strcpy(from, to);
    }
    put_text(&graph, 2, "g");
    put_port(&graph, 11, "x", rows, columns), put_port(&graph, 12, "y", rows, columns);
    put_text(&opset, 1, ""), put_int(&opset, 2, 15);
    put_int(&model, 1, 8), put_within(&model, 8, &opset), put_within(&model, 7, &graph);
    FILE *f = fopen(path, "we");
    if (!f || fwrite(model.at, 1, model.n, f) != model.n || fclose(f)) abort();
}

/* ---- sockets */

static int listen_here(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, n) || listen(s, 8) || getsockname(s, (struct sockaddr *)&a, &n))
        abort();
    *port = ntohs(a.sin_port);
    return s;
}

static int connect_to(int port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (s >= 0) setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (s >= 0 && connect(s, (struct sockaddr *)&a, sizeof a) == 0) return s;
    if (s >= 0) close(s);
    return -1;
}

static void send_all(int s, const char *at, size_t n)
{
    for (ssize_t k; n; at += k, n -= (size_t)k)
        if ((k = write(s, at, n)) <= 0) abort();
}

static void take_all(int s, char *to, size_t n)
{
    for (ssize_t k; n; to += k, n -= (size_t)k)
        if ((k = read(s, to, n)) <= 0) abort();
}

/* One that reads so many bytes and answers as many, again and again. */
static pid_t start_plain(size_t size, int *port)
{
    int s = listen_here(port), on = 1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid) return close(s), pid;
    char *all = malloc(size);
    int c = accept(s, NULL, NULL);
    setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (;;) {
        for (size_t n = 0; n < size;) {
            ssize_t k = read(c, all + n, size - n);
            if (k <= 0) _exit(0);
            n += (size_t)k;
        }
        send_all(c, all, size);
    }
}

/* Reads an answer; its status. */
static int take_answer(int s, char *room)
{
    size_t n = 0, whole = SIZE_MAX;
    while (n < whole) {
        ssize_t k = read(s, room + n, ANSWER - n - 1);
        if (k <= 0) abort();
        n += (size_t)k;
        room[n] = 0;
        char *end = whole == SIZE_MAX ? strstr(room, "\r\n\r\n") : NULL;
        char *length = end ? strstr(room, "\nContent-Length: ") : NULL;
        if (length) whole = (size_t)(end + 4 - room) + strtoul(length + 17, NULL, 10);
    }
    return atoi(room + 9);
}

/* ---- the front */

typedef struct front {
    pid_t pid;
    int port;
} front;

static void find_program(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 64);
    out[n > 0 ? n : 0] = 0;
    char *at = strstr(out, "/tests/bench/");
    if (at) strcpy(at, "/client/tensord-http");
}

static front start_front(td_client *c, const char *model)
{
    char program[PATH_MAX], line[512];
    front f = {0};
    int ends[2];
    find_program(program);
    if (access(program, X_OK) || pipe(ends)) return f;
    fflush(stdout);
    if ((f.pid = fork()) == 0) {
        dup2(ends[1], STDERR_FILENO);
        execl(program, "tensord-http", "--socket", td_socket_path(c), "--no-http-socket", "--listen", "127.0.0.1:0",
              model, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    FILE *said = fdopen(ends[0], "re");
    while (!strstr(fgets(line, sizeof line, said) ? line : " is loaded", " is loaded")) {
        char *at = strstr(line, "http://127.0.0.1:");
        if (at) f.port = atoi(at + 17);
    }
    return f; /* its stderr stays open */
}

static void end_front(front f)
{
    kill(f.pid, SIGTERM);
    waitpid(f.pid, NULL, 0);
}

static double resident(pid_t pid)
{
    char path[64], line[256];
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kb) == 1) break;
    if (f) fclose(f);
    return (double)kb / 1024;
}

/* ---- what is measured */

typedef struct request {
    int socket;
    char *at, *room;
    size_t n;
} request;

static request make_request(int port, const char *model, uint64_t rows, uint64_t columns)
{
    char text[512], head[512];
    size_t values = rows * columns * sizeof(float);
    int ntext = snprintf(text, sizeof text,
                         "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[%llu,%llu],\"parameters\":{"
                         "\"binary_data_size\":%zu}}],"
                         "\"parameters\":{\"binary_data_output\":true}}",
                         (unsigned long long)rows, (unsigned long long)columns, values);
    int nhead = snprintf(head, sizeof head,
                         "POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n"
                         "Inference-Header-Content-Length: %d\r\n\r\n",
                         model, values + (size_t)ntext, ntext);
    request r = {connect_to(port), calloc(1, (size_t)(nhead + ntext) + values), malloc(ANSWER),
                 (size_t)(nhead + ntext) + values};
    memcpy(r.at, head, (size_t)nhead), memcpy(r.at + nhead, text, (size_t)ntext);
    return r;
}

static void over_http(void *context)
{
    request *r = context;
    send_all(r->socket, r->at, r->n);
    if (take_answer(r->socket, r->room) != 200) abort();
}

static void over_plain(void *context)
{
    request *r = context;
    send_all(r->socket, r->at, r->n);
    take_all(r->socket, r->room, r->n);
}

/* The median of so many in a row, each by itself, in us. */
static double each(void (*run)(void *), void *context, int times)
{
    double *took = malloc((size_t)times * sizeof *took), median;
    for (int i = 0; i < times / 10 + 2; i++) run(context);
    for (int i = 0; i < times; i++) {
        double began = bench_now();
        run(context);
        took[i] = bench_now() - began;
    }
    median = bench_quantile(took, times, 0.5);
    free(took);
    return median * 1e6;
}

static void empty_model(td_client *c, const char *name, const char *directory, uint64_t columns, double goal)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.onnx", directory, name);
    write_model(path, 1, columns, 0);
    front f = start_front(c, path);
    if (!f.port) {
        printf("skip http.%s tensord-http is not built, or did not begin\n", name);
        return;
    }
    request r = make_request(f.port, name, 1, columns), plain = r;
    int port;
    pid_t other = start_plain(r.n, &port);
    plain.socket = connect_to(port);
    int times = columns == SMALL ? 2000 : 200;
    char line[64];
    snprintf(line, sizeof line, "http.%s", name);
    bench_ours(line, each(over_http, &r, times), "us", goal);
    bench_reference(line, each(over_plain, &plain, times), "a plain socket that reads as much and answers as much");
    close(r.socket), close(plain.socket);
    waitpid(other, NULL, 0);
    end_front(f);
}

typedef struct called {
    td_model *model;
    td_array *x;
} called;

static void in_process(void *context)
{
    called *k = context;
    td_array *y;
    bench_check(td_infer(k->model, td_arrays(k->x), 1, &y, 60000) == TD_OK && td_data(y), "td_infer");
    td_release(y);
}

static void real_model(td_client *c, const char *directory)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/products.onnx", directory);
    write_model(path, WIDE, WIDE, TIMES);
    front f = start_front(c, path);
    if (!f.port) return;
    request r = make_request(f.port, "products", WIDE, WIDE);
    called k = {td_model_open(c, "products", 0, 1000), td_zeros(c, td_dims(WIDE, WIDE), TD_FLOAT32)};
    bench_check(k.model && k.x, "td_model_open");
    bench_ours("http.infer", each(over_http, &r, 100), "us", 1.1);
    bench_reference("http.infer", each(in_process, &k, 100), "td_infer() in this process");
    int idle[IDLE];
    double before = resident(f.pid);
    for (int i = 0; i < IDLE; i++) idle[i] = connect_to(f.port);
    over_http(&r); /* all have been taken */
    bench_ours("http.idle", before, "MB", 1);
    bench_reference("http.idle", 6, "the goal, resident");
    bench_ours("http.idle.1000", resident(f.pid), "MB", 1);
    bench_reference("http.idle.1000", 10, "the goal, with 1,000 connections that say nothing");
    for (int i = 0; i < IDLE; i++) close(idle[i]);
    close(r.socket);
    end_front(f);
    td_release(k.x);
    td_model_free(k.model);
}

int main(void)
{
    char directory[] = "/tmp/td-bench-XXXXXX", command[64];
    td_client *c = td_connect(NULL);
    bench_check(c != NULL && mkdtemp(directory), "td_connect");
    signal(SIGPIPE, SIG_IGN);
    empty_model(c, "small", directory, SMALL, 2);
    empty_model(c, "large", directory, LARGE, 1.6);
    real_model(c, directory);
    td_disconnect(c);
    snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command) != 0;
}
