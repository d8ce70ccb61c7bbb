/* The command line, and what the machine grants when it says nothing. */
#include "daemon/server/options.h"

#include "daemon/tensor/tensor.h"
#include "proto/base/cgroup.h"
#include "proto/base/place.h"
#include "proto/base/text.h"

#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SESSION_OBJECTS = 4 << 20, USER_OBJECTS = 16 << 20 };
enum { OWN_LEAST = 32 << 20, OWN_USUAL_LEAST = 128 << 20 }; /* a single frame takes up to 16 MB, and as much again */

static td_log_level log_level = TD_LOG_WARN;

void td_log_set(td_log_level level)
{
    log_level = level;
}

void td_log(td_log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if (level > log_level) return;
    char line[1024], shown[4 * sizeof line]; /* a line is one line, whatever a client is called */
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "tensord: %s: %s\n", names[level], td_text_visible(shown, sizeof shown, line));
}

uint64_t td_memory_available(void)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), group = td_cgroup_memory("");
    return group && group < machine ? group : machine;
}

int td_processors_available(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, granted = td_cgroup_processors("");
    return granted && granted < n ? granted : n;
}

void td_options_help(void)
{
    puts("usage: tensord [--socket PATH] [--memory SIZE] [--session-memory SIZE] [--user-memory SIZE]\n"
         "               [--session-device-memory SIZE] [--user-device-memory SIZE]\n"
         "               [--own-memory SIZE] [--session-objects N] [--user-objects N] [--workers N]\n"
         "               [--cuda auto|off] [--cuda-handles auto|vmm|ipc] [--cuda-memory SIZE]\n"
         "               [--shm memfd|posix] [--private [--root=FD]] [--log LEVEL] [--turns]\n"
         "\n"
         "Holds tensors in shared memory and computes on them for the processes of this host.\n"
         "\n"
         "  --socket PATH      where to listen (default $TENSORD_SOCKET, else $XDG_RUNTIME_DIR/tensord/socket,\n"
         "                     else /tmp/tensord-UID/socket, else ~/.tensord/socket); its directory is made with mode 0700\n"
         "  --memory SIZE      most shared memory to commit, as 512M or 8G (default: half of what this process may use)\n"
         "  --session-memory SIZE, --user-memory SIZE\n"
         "                     most of it for one client, and for all clients of one user (default: no such limit)\n"
         "  --session-device-memory SIZE, --user-device-memory SIZE\n"
         "                     the same of each device's own, as of a GPU's (default: no such limit)\n"
         "  --own-memory SIZE  most of the daemon's own memory: records of tensors, graphs, programs, what comes from\n"
         "                     connections and goes to them (default: a quarter of what this process may use, or half of\n"
         "                     what --memory leaves of it where that is less)\n"
         "  --session-objects N, --user-objects N\n"
         "                     most pieces of it (of 512 bytes) for tensors, nodes of graphs and the like that one client\n"
         "                     and all clients of one user may hold (default: 4M, or three eighths of it, and 16M)\n"
         "  --workers N        threads that compute (default: the processors that this process may use)\n"
         "  --shm memfd|posix  where shared memory comes from (default memfd)\n"
         "  --cuda auto|off    the GPUs of this machine as devices (default auto); nothing is started before the first\n"
         "                     tensor there\n"
         "  --cuda-handles auto|vmm|ipc\n"
         "                     how processes find their memory: by descriptors, which outlive a GPU's fault, or by legacy\n"
         "                     handles (default auto: descriptors where they work)\n"
         "  --cuda-memory SIZE most memory of each GPU for tensors (default: what it has)\n"
         "  --private          end when the last client has gone, and the process that --root=FD names (a pidfd), and what\n"
         "                     queues keep for others; libtensord starts a program's own daemon so\n"
         "  --log LEVEL        error, warning, info or debug (default warning)\n"
         "  --turns            time what the loop does, for `tensorctl turns`\n"
         "  --version          print the version and end\n"
         "  --help             print this and end\n"
         "\n"
         "The environment may say TENSORD_MEMORY, TENSORD_SESSION_MEMORY, TENSORD_USER_MEMORY and TENSORD_WORKERS instead,\n"
         "also for a daemon that a program starts for itself.\n"
         "\n"
         "A socket inherited from systemd (LISTEN_FDS) is used instead of --socket. SIGTERM: serve nobody new, end when\n"
         "the clients have gone, in 10 s at most; a second one ends at once. See tensord(8); `tensorctl status` shows a\n"
         "running daemon.");
}

static int default_socket(td_options *o, td_error *e)
{
    const char *named = getenv("TENSORD_SOCKET");
    char directory[TD_PLACE_SIZE], taken[TD_PLACE_SIZE] = "";
    unsigned by = 0;
    if (named && *named && snprintf(o->socket, sizeof o->socket, "%s", named) < (int)sizeof o->socket) return TD_OK;
    for (int i = 0; (!named || !*named) && i < TD_PLACES; i++) {
        if (!td_default_place(i, directory)) continue;
        if (td_default_place_taken(directory, &by)) {
            snprintf(taken, sizeof taken, "%s", directory);
            continue;
        }
        snprintf(o->socket, sizeof o->socket, "%s/socket", directory);
        if (taken[0]) td_log(TD_LOG_WARN, "%s belongs to uid %u; listening on %s instead, where clients look, too", taken, by, o->socket);
        return TD_OK;
    }
    if (taken[0])
        return td_fail(e, TD_E_PERMISSION, "%s belongs to uid %u, and there is no home directory to use instead; give a place with --socket", taken, by);
    return td_fail(e, TD_E_INVALID, "the socket's path is too long (at most %zu bytes); give a shorter one with --socket",
                   sizeof o->socket - 1);
}

static int set_level(td_options *o, const char *text, td_error *e)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0) {
            o->log = (td_log_level)i;
            return TD_OK;
        }
    return td_fail(e, TD_E_INVALID, "--log takes error, warning, info or debug, not '%s'", text);
}

static int set_size(uint64_t *size, const char *option, const char *text, td_error *e)
{
    *size = td_text_size(text);
    if (*size >= (1 << 20)) return TD_OK;
    return td_fail(e, TD_E_INVALID, "%s takes a size of at least 1M, as 512M or 8G, not '%s'", option, text);
}

static int set_count(uint64_t *count, const char *option, const char *text, td_error *e)
{
    *count = td_text_size(text);
    if (*count >= 1000) return TD_OK;
    return td_fail(e, TD_E_INVALID, "%s takes a number of at least 1000, as 50000 or 4M, not '%s'", option, text);
}

static int set_own_memory(uint64_t *size, const char *text, td_error *e)
{
    *size = td_text_size(text);
    if (*size >= OWN_LEAST) return TD_OK;
    return td_fail(e, TD_E_INVALID, "--own-memory takes a size of at least %dM, as 512M or 8G, not '%s'",
                   OWN_LEAST >> 20, text);
}

/* A quarter of what there is; or half of what is left beside the shared memory, where that is less. */
static uint64_t own_memory_beside(uint64_t memory)
{
    uint64_t all = td_memory_available(), rest = memory < all ? (all - memory) / 2 : 0;
    uint64_t own = rest < all / 4 ? rest : all / 4;
    return own < OWN_USUAL_LEAST ? OWN_USUAL_LEAST : own;
}

/* One client leaves some of it to others. */
static uint64_t objects_of_one(uint64_t own_memory)
{
    uint64_t most = own_memory / TD_OBJECT_BYTES * 3 / 8;
    return most < SESSION_OBJECTS ? most : SESSION_OBJECTS;
}

/* What getopt_long() stumbled over: `said` is the word before the next one; `letter` is a known option's, or a letter
 * that is none. */
static int bad_option(const char *said, int letter, td_error *e)
{
    bool is_long = strncmp(said, "--", 2) == 0;
    if (letter && is_long)
        return td_fail(e, TD_E_INVALID, "%s: its value is missing, or it takes none; see `tensord --help`", said);
    if (is_long) return td_fail(e, TD_E_INVALID, "there is no option %s; `tensord --help` lists them", said);
    return td_fail(e, TD_E_INVALID, "there is no option -%c; `tensord --help` lists them", letter);
}

static int set_handles(td_options *o, const char *text, td_error *e)
{
    static const char *const names[] = {
        [TD_GPU_HANDLES_AUTO] = "auto", [TD_GPU_HANDLES_VMM] = "vmm", [TD_GPU_HANDLES_IPC] = "ipc"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        o->cuda.handles = (td_gpu_handles)i;
        return TD_OK;
    }
    return td_fail(e, TD_E_INVALID, "--cuda-handles takes auto, vmm or ipc, not '%s'", text);
}

static int set_option(td_options *o, int which, const char *text, td_error *e)
{
    char *end;
    switch (which) {
    case 's':
        if (strlen(text) >= sizeof o->socket)
            return td_fail(e, TD_E_INVALID, "--socket: a path of %zu bytes is too long (at most %zu)", strlen(text), sizeof o->socket - 1);
        snprintf(o->socket, sizeof o->socket, "%s", text);
        return TD_OK;
    case 'm': return set_size(&o->memory, "--memory", text, e);
    case 'S': return set_size(&o->session_memory, "--session-memory", text, e);
    case 'U': return set_size(&o->user_memory, "--user-memory", text, e);
    case 'D': return set_size(&o->session_device_memory, "--session-device-memory", text, e);
    case 'E': return set_size(&o->user_device_memory, "--user-device-memory", text, e);
    case 'O': return set_count(&o->session_objects, "--session-objects", text, e);
    case 'P': return set_count(&o->user_objects, "--user-objects", text, e);
    case 'M': return set_own_memory(&o->own_memory, text, e);
    case 'w':
        o->workers = (int)strtol(text, &end, 10);
        return *text && !*end && o->workers >= 1 && o->workers <= 1024
                   ? TD_OK
                   : td_fail(e, TD_E_INVALID, "--workers takes a number from 1 to 1024, not '%s'", text);
    case 'b':
        if (strcmp(text, "memfd") == 0) o->shm = TD_SHM_MEMFD;
        else if (strcmp(text, "posix") == 0) o->shm = TD_SHM_POSIX;
        else return td_fail(e, TD_E_INVALID, "--shm takes memfd or posix, not '%s'", text);
        return TD_OK;
    case 'C':
        if (strcmp(text, "auto") != 0 && strcmp(text, "off") != 0)
            return td_fail(e, TD_E_INVALID, "--cuda takes auto or off, not '%s'", text);
        o->cuda.off = strcmp(text, "off") == 0;
        return TD_OK;
    case 'H': return set_handles(o, text, e);
    case 'G': return set_size(&o->cuda.memory, "--cuda-memory", text, e);
    case 'p': o->is_private = true; return TD_OK;
    case 'r':
        o->root_fd = (int)strtol(text, &end, 10);
        return *text && !*end && o->root_fd > 2 && fcntl(o->root_fd, F_SETFD, FD_CLOEXEC) == 0
                   ? TD_OK
                   : td_fail(e, TD_E_INVALID, "--root takes the number of an open descriptor, not '%s'", text);
    case 'l': return set_level(o, text, e);
    case 't': o->time_turns = true; return TD_OK;
    case 'V': o->version = true; return TD_OK;
    case 'h': o->help = true; return TD_OK;
    default: return bad_option(text, optopt, e);
    }
}

/* systemd's protocol: LISTEN_PID is us, the first of LISTEN_FDS is descriptor 3. */
static int inherited_socket(void)
{
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    int fd = -1;
    if (pid && n && strtol(pid, NULL, 10) == getpid() && strtol(n, NULL, 10) >= 1) fd = 3;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return fd;
}

/* What a program's environment says of the daemon that it starts; the command line says more. */
static int from_environment(td_options *o, td_error *e)
{
    static const struct {
        const char *name;
        int option;
    } all[] = {{"TENSORD_MEMORY", 'm'}, {"TENSORD_SESSION_MEMORY", 'S'}, {"TENSORD_USER_MEMORY", 'U'}, {"TENSORD_WORKERS", 'w'}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        const char *text = getenv(all[k].name);
        if (!text || !text[0] || !set_option(o, all[k].option, text, e)) continue;
        return td_fail(e, TD_E_INVALID, "%s in the environment is no such size or number: '%s'", all[k].name, text);
    }
    return TD_OK;
}

int td_options_parse(td_options *o, int argc, char **argv, td_error *e)
{
    static const struct option longs[] = {{"socket", 1, NULL, 's'}, {"memory", 1, NULL, 'm'}, {"session-memory", 1, NULL, 'S'}, {"user-memory", 1, NULL, 'U'}, {"session-device-memory", 1, NULL, 'D'}, {"user-device-memory", 1, NULL, 'E'}, {"session-objects", 1, NULL, 'O'}, {"user-objects", 1, NULL, 'P'}, {"own-memory", 1, NULL, 'M'}, {"workers", 1, NULL, 'w'}, {"shm", 1, NULL, 'b'},
                                          {"cuda", 1, NULL, 'C'}, {"cuda-handles", 1, NULL, 'H'}, {"cuda-memory", 1, NULL, 'G'}, {"private", 0, NULL, 'p'}, {"root", 1, NULL, 'r'}, {"log", 1, NULL, 'l'}, {"turns", 0, NULL, 't'}, {"version", 0, NULL, 'V'}, {"help", 0, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    *o = (td_options){.root_fd = -1, .listen_fd = -1, .log = TD_LOG_WARN, .shm = TD_SHM_MEMFD, .user_objects = USER_OBJECTS};
    opterr = 0;
    int err = from_environment(o, e);
    if (err) return err;
    for (int c; (c = getopt_long(argc, argv, "hV", longs, NULL)) != -1;) {
        int rc = set_option(o, c, c == '?' ? argv[optind - 1] : optarg, e);
        if (rc) return rc;
    }
    if (optind < argc) return td_fail(e, TD_E_INVALID, "'%s' is no option; `tensord --help` lists them", argv[optind]);
    if (o->help || o->version) return TD_OK;
    if (!o->memory) o->memory = td_memory_available() / 2;
    if (!o->own_memory) o->own_memory = own_memory_beside(o->memory);
    if (!o->session_objects) o->session_objects = objects_of_one(o->own_memory);
    if (!o->workers) o->workers = td_processors_available();
    o->listen_fd = inherited_socket();
    return o->listen_fd < 0 && !o->socket[0] ? default_socket(o, e) : TD_OK;
}
