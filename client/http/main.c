/* tensord-http: models of a daemon over HTTP. Options, sockets, and the loop. */
#include "client/http/front.h"
#include "proto/base/clock.h"
#include "proto/base/place.h"
#include "proto/base/status.h"
#include "proto/base/text.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LISTENERS = 4, MOST_MODELS = 256, LOOK_MS = 1000, QUIET_MS = 20, ENDING_MS = 5000 };

static const char usage[] =
    "usage: tensord-http [OPTIONS] [MODEL.onnx ...]\n"
    "\n"
    "Serves models over HTTP by the Open Inference Protocol, as Triton does: those named here, and all that other\n"
    "processes publish (td_model_publish).\n"
    "\n"
    "  MODEL.onnx             serve this file under its name without .onnx\n"
    "  --model NAME=FILE      serve this file under that name\n"
    "  --repository DIR       a directory of models: DIR/MODEL/N/model.onnx, DIR/MODEL/config.pbtxt or none\n"
    "  --load all|none|NAMES  which of the repository's to load at once (default: all); names with commas between\n"
    "  --load-seconds N       for each version of a model (default: 600)\n"
    "\n"
    "  --http-socket PATH     listen at this Unix socket (default: http in the directory of the daemon's socket)\n"
    "  --no-http-socket       listen at no Unix socket\n"
    "  --listen HOST:PORT     listen at this address; other than loopback only with --token-file or --insecure\n"
    "  --token-file FILE      requests must say Authorization: Bearer, and what is in FILE\n"
    "  --insecure             whoever reaches the address may ask, load and unload\n"
    "\n"
    "  --body SIZE            the longest body (default: 64M)\n"
    "  --memory SIZE          what the requests under way may take together (default: 1G)\n"
    "  --connections N        at once (default: 1024)\n"
    "  --idle SECONDS         then a connection is closed, or one that takes as long for a request (default: 60)\n"
    "  --socket PATH          the daemon there (default: as other programs; a private one is started when none runs)\n"
    "  --help --version\n";

typedef struct arguments {
    http_options o;
    const char *http_socket, *listen[MOST_LISTENERS], *models[MOST_MODELS], *token_file;
    int nlisten, nmodels, nnamed; /* of the models, so many are NAME=FILE */
    bool no_socket, insecure;
} arguments;

static int fail(const char *what)
{
    char shown[2048];
    fprintf(stderr, "tensord-http: %s\n", td_text_visible(shown, sizeof shown, what));
    return 1;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

static int read_token(arguments *a, td_error *e)
{
    FILE *file = fopen(a->token_file, "re");
    struct stat s;
    if (!file || fstat(fileno(file), &s)) {
        int err = errno;
        if (file) fclose(file);
        return td_fail_errno(e, err, "--token-file %.200s", a->token_file);
    }
    size_t n = fread(a->o.token, 1, sizeof a->o.token - 1, file);
    fclose(file);
    while (n && strchr("\r\n \t", a->o.token[n - 1])) n--;
    a->o.token[n] = 0;
    if (s.st_mode & 077)
        return td_fail(e, TD_E_PERMISSION, "--token-file %.200s can be read by others: chmod 600", a->token_file);
    if (n < 16 || strlen(a->o.token) != n || n >= sizeof a->o.token - 1)
        return td_fail(e, TD_E_INVALID, "--token-file %.200s holds no token of 16 to 254 characters", a->token_file);
    return TD_OK;
}

static bool take_size(uint64_t *out, uint64_t most)
{
    *out = td_text_size(optarg);
    return *out && *out <= most;
}

static bool take_count(unsigned *out, unsigned most)
{
    char *end;
    unsigned long n = strtoul(optarg, &end, 10);
    *out = (unsigned)n;
    return *optarg >= '0' && *optarg <= '9' && !*end && n && n <= most;
}

static bool take_option(arguments *a, int option)
{
    http_limits *l = &a->o.limits;
    switch (option) {
    case 'm': return a->nmodels < MOST_MODELS && strchr(optarg, '=') ? a->models[a->nmodels++] = optarg, true : false;
    case 'r': a->o.repository = optarg; return true;
    case 'l': a->o.load = optarg; return true;
    case 'L': return take_count(&a->o.load_s, 86400);
    case 'u': a->http_socket = optarg; return true;
    case 'U': return a->no_socket = true;
    case 'a': return a->nlisten < MOST_LISTENERS - 1 ? a->listen[a->nlisten++] = optarg, true : false;
    case 't': a->token_file = optarg; return true;
    case 'i': return a->insecure = true;
    case 'b': return take_size(&l->body, UINT64_C(1) << 40);
    case 'M': return take_size(&a->o.memory, UINT64_C(1) << 50);
    case 'c': return take_count(&l->connections, 1 << 20);
    case 'd': return take_count(&l->idle_s, 86400);
    case 's': a->o.socket = optarg; return true;
    default: return false;
    }
}

/* -1: go on; else the exit status. */
static int read_arguments(int argc, char **argv, arguments *a)
{
    static const struct option options[] = {{"model", required_argument, NULL, 'm'},
                                            {"repository", required_argument, NULL, 'r'},
                                            {"load", required_argument, NULL, 'l'},
                                            {"load-seconds", required_argument, NULL, 'L'},
                                            {"http-socket", required_argument, NULL, 'u'},
                                            {"no-http-socket", no_argument, NULL, 'U'},
                                            {"listen", required_argument, NULL, 'a'},
                                            {"token-file", required_argument, NULL, 't'},
                                            {"insecure", no_argument, NULL, 'i'},
                                            {"body", required_argument, NULL, 'b'},
                                            {"memory", required_argument, NULL, 'M'},
                                            {"connections", required_argument, NULL, 'c'},
                                            {"idle", required_argument, NULL, 'd'},
                                            {"socket", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {0}};
    for (int o, index = 0; (o = getopt_long(argc, argv, "hV", options, &index)) >= 0;) {
        if (o == 'h') return fputs(usage, stdout), 0;
        if (o == 'V') return printf("tensord-http %s\n", td_version()), 0;
        if (o == '?') return fputs("tensord-http --help lists what there is\n", stderr), 2;
        if (take_option(a, o)) continue;
        fprintf(stderr, "tensord-http: --%s %s makes no sense, or stands there too often\n", options[index].name,
                optarg ? optarg : "");
        return 2;
    }
    if (a->no_socket && !a->nlisten) return fail("with --no-http-socket, --listen HOST:PORT says where to listen"), 2;
    a->nnamed = a->nmodels;
    for (; optind < argc; optind++) {
        if (a->nmodels == MOST_MODELS) return fail("more than 256 models: use --repository"), 2;
        a->models[a->nmodels++] = argv[optind];
    }
    return -1;
}

/* ---- beginning -------------------------------------------------------------------------------------------------- */

/* NAME=FILE, or a file alone, under its name without what is behind the dot. */
static int add_model(http_front *f, const char *what, bool named, td_error *e)
{
    char name[HTTP_NAME];
    size_t to_equals = strcspn(what, "=");
    const char *file = what, *slash = strrchr(what, '/'), *from = slash ? slash + 1 : what;
    if (named) {
        snprintf(name, sizeof name, "%.*s", (int)(to_equals < HTTP_NAME ? to_equals : 0), what);
        file = what + to_equals + 1;
    } else {
        snprintf(name, sizeof name, "%s", from);
        char *dot = strrchr(name, '.');
        if (dot && dot != name) *dot = 0;
    }
    if (access(file, R_OK)) {
        td_fail_errno(e, errno, "the model %.80s: %.200s", name, file);
        size_t n = strlen(e->message);
        snprintf(e->message + n, sizeof e->message - n,
                 "; files are there when the server starts, or come to a --repository and are loaded then");
        return e->code;
    }
    return http_repository_add(f, name, file, e);
}

static int listen_at(http_front *f, const char *address, const arguments *a, td_error *e)
{
    bool local = false;
    char shown[300];
    int fd = http_listen_tcp(address, &local, shown, sizeof shown, e);
    if (fd < 0) return e->code;
    if (!local && !*f->options.token && !a->insecure) {
        close(fd);
        return td_fail(e, TD_E_PERMISSION,
                       "--listen %.100s is open to other hosts: give --token-file FILE, or --insecure", address);
    }
    int rc = http_door_listen(f->door, fd, local, e);
    if (!rc) fprintf(stderr, "tensord-http: listening at http://%s\n", shown);
    return rc;
}

/* The daemon's directory is closed to other users as a rule; where it is not, another one is. */
static void usual_socket(const http_front *f, char *out, size_t size)
{
    char directory[TD_PLACE_SIZE];
    const char *daemon = td_socket_path(f->client), *slash = strrchr(daemon, '/');
    struct stat s;
    snprintf(out, size, "%.*shttp", (int)(slash ? slash + 1 - daemon : 0), daemon);
    snprintf(directory, sizeof directory, "%.*s", (int)(slash ? slash - daemon : 0), daemon);
    if (slash && stat(directory, &s) == 0 && s.st_uid == geteuid() && !(s.st_mode & 077)) return;
    for (int n = 0; n < TD_PLACES; n++)
        if (td_default_place(n, directory) && !td_default_place_taken(directory, NULL)) {
            snprintf(out, size, "%s/http", directory);
            return;
        }
}

static int open_doors(http_front *f, arguments *a, char socket_path[256], td_error *e)
{
    int rc = TD_OK;
    socket_path[0] = 0;
    if (!a->no_socket) {
        if (a->http_socket) snprintf(socket_path, 256, "%s", a->http_socket);
        else usual_socket(f, socket_path, 256);
        int fd = http_listen_unix(socket_path, e);
        if (fd < 0) return socket_path[0] = 0, e->code;
        rc = http_door_listen(f->door, fd, true, e);
        if (!rc) fprintf(stderr, "tensord-http: listening at unix:%s\n", socket_path);
    }
    for (int i = 0; i < a->nlisten && !rc; i++) rc = listen_at(f, a->listen[i], a, e);
    return rc;
}

/* A descriptor each, and some for regions, loaders and the daemon's segments. Where the system grants fewer there are
 * fewer connections. */
static void raise_limit(http_front *f)
{
    enum { OTHERS = HTTP_REGIONS + 1024, FEW_OTHERS = 128 };
    struct rlimit l;
    unsigned *most = &f->options.limits.connections;
    rlim_t want = *most + OTHERS;
    if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= want) return;
    l.rlim_cur = l.rlim_max < want ? l.rlim_max : want;
    setrlimit(RLIMIT_NOFILE, &l);
    rlim_t room = l.rlim_cur > 2 * FEW_OTHERS ? l.rlim_cur - FEW_OTHERS : l.rlim_cur / 2;
    if (*most > room) *most = (unsigned)room;
}

static int watch(http_front *f, int fd, td_error *e)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
    return fd < 0 || epoll_ctl(f->epoll, EPOLL_CTL_ADD, fd, &ev) ? td_fail_errno(e, errno, "cannot begin") : TD_OK;
}

static int begin(http_front *f, arguments *a, char socket_path[256], int *signals, td_error *e)
{
    sigset_t all;
    http_handler handler = http_routes;
    handler.context = f;
    sigemptyset(&all);
    sigaddset(&all, SIGTERM), sigaddset(&all, SIGINT);
    sigprocmask(SIG_BLOCK, &all, NULL);
    signal(SIGPIPE, SIG_IGN);
    raise_limit(f);
    f->client = td_connect(f->options.socket);
    if (!f->client) return *e = *td_last_error(), e->code;
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    *signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!(f->door = http_door_new(&f->options.limits, &handler, e))) return e->code;
    int rc = watch(f, http_door_fd(f->door), e);
    if (!rc) rc = watch(f, td_client_fd(f->client), e);
    if (!rc) rc = watch(f, *signals, e);
    for (int i = 0; i < a->nmodels && !rc; i++) rc = add_model(f, a->models[i], i < a->nnamed, e);
    if (!rc) rc = http_repository_begin(f, e);
    return rc ? rc : open_doors(f, a, socket_path, e);
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

/* A file that was named on the command line and is none ends the program; what is in a repository waits to be mended.
 */
static bool has_failed(const http_front *f)
{
    for (const http_entry *n = f->entries; n; n = n->next)
        if (*n->file && n->wanted && n->state == HTTP_FAILED) return true;
    return false;
}

static void looked(td_request *r, void *context)
{
    http_front *f = context;
    td_table *t = td_request_table(r);
    if (t) http_models_see(f, t);
    td_table_free(t);
    td_request_free(r);
    f->looking = NULL;
}

static void look_at_models(http_front *f)
{
    uint64_t now = td_clock_ms();
    if (now - f->looked_ms < LOOK_MS || !f->models || f->looking) return;
    f->looked_ms = now;
    f->looking = td_async_status(f->client, "models", -1, looked, f);
}

static void dispatch(http_front *f)
{
    if (f->lost || td_client_dispatch(f->client) != TD_E_LOST) return;
    const char *why = td_last_error()->message, *hint = strstr(why, "; td_connect()"); /* for who programs */
    fprintf(stderr, "tensord-http: %.*s; start tensord-http again when a daemon runs\n",
            (int)(hint ? (size_t)(hint - why) : strlen(why)), why);
    f->lost = f->ending = true;
}

static void see(http_front *f, int fd, int signals)
{
    struct signalfd_siginfo signal;
    if (fd == td_client_fd(f->client)) dispatch(f);
    else if (fd == signals) {
        if (read(signals, &signal, sizeof signal) == sizeof signal) f->ending = true;
    } else if (fd != http_door_fd(f->door)) http_repository_see(f, fd);
}

/* Requests under way are answered before the end. The daemon is told of tensors that answers let go of with the
 * next request, or when none has come for a while. */
static int run(http_front *f, int signals)
{
    uint64_t end_ms = UINT64_MAX;
    bool starting = true, unsent = false;
    for (int wait = 0;;) {
        struct epoll_event events[16];
        int most = unsent ? QUIET_MS : LOOK_MS;
        if (http_infer_write(f)) wait = 0;
        int n = epoll_wait(f->epoll, events, 16, wait < 0 || wait > most ? most : wait);
        bool door = false;
        for (int i = 0; i < n; i++) {
            door = door || events[i].data.fd == http_door_fd(f->door);
            see(f, events[i].data.fd, signals);
        }
        if (!f->lost) look_at_models(f);
        http_repository_look(f);
        if (n == 0 && unsent && wait != 0) td_flush(f->client);
        unsent = n > 0 || (unsent && wait == 0);
        wait = http_door_run(f->door, door);
        if (starting && has_failed(f)) return 1;
        starting = starting && f->loads;
        if (f->ending && end_ms == UINT64_MAX) {
            http_door_close(f->door);
            end_ms = td_clock_ms() + ENDING_MS;
        }
        if (f->ending && (f->lost || !http_door_counts(f->door)->under_way || td_clock_ms() >= end_ms)) return f->lost;
    }
}

static void end(http_front *f, const char *socket_path)
{
    http_repository_free(f);
    http_door_free(f->door);
    td_request_free(f->looking);
    http_models_forget(f, NULL);
    http_regions_free(&f->regions);
    td_disconnect(f->client);
    if (*socket_path) unlink(socket_path);
}

int main(int argc, char **argv)
{
    static http_front front;
    static arguments a = {
        .o = {.load = "all", .memory = UINT64_C(1) << 30, .load_s = 600, .limits = {1024, UINT64_C(64) << 20, 60}}};
    char socket_path[256] = "";
    int signals = -1;
    td_error e = {0};
    if (argc > 1 && strcmp(argv[1], "--publish") == 0) return http_loader_main(argc, argv);
    int status = read_arguments(argc, argv, &a);
    if (status >= 0) return status;
    if (a.token_file && read_token(&a, &e)) return fail(e.message);
    front.options = a.o;
    front.epoll = -1;
    status = begin(&front, &a, socket_path, &signals, &e) ? fail(e.message) : run(&front, signals);
    end(&front, socket_path);
    return status;
}
