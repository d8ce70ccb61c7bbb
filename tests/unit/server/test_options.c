/* The daemon's command line and environment: what each word sets, what is said of a wrong one, and what holds where
 * nothing is said. */
#include "daemon/server/options.h"
#include "daemon/tensor/tensor.h"
#include "proto/base/cgroup.h"
#include "tests/unit/cunit_main.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_WORDS = 16 };
#define MIB (UINT64_C(1) << 20)

static td_options o;
static td_error e;

/* Words with blanks between them. */
static int parse(const char *words)
{
    static char text[512];
    char *argv[MOST_WORDS + 2] = {"tensord"};
    int argc = 1;
    snprintf(text, sizeof text, "%s", words);
    for (char *w = strtok(text, " "); w && argc <= MOST_WORDS; w = strtok(NULL, " ")) argv[argc++] = w;
    e = (td_error){0};
    optind = 0; /* getopt_long() begins anew */
    return td_options_parse(&o, argc, argv, &e);
}

static int init(void)
{
    static const char *const names[] = {"TENSORD_SOCKET",      "TENSORD_MEMORY",  "TENSORD_SESSION_MEMORY",
                                        "TENSORD_USER_MEMORY", "TENSORD_WORKERS", "LISTEN_PID",
                                        "LISTEN_FDS",          "LISTEN_FDNAMES"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) unsetenv(names[k]);
    return 0;
}

static void nothing_said(void)
{
    CU_ASSERT_EQUAL_FATAL(parse("--socket /x"), TD_OK);
    CU_ASSERT_STRING_EQUAL(o.socket, "/x");
    CU_ASSERT_EQUAL(o.memory, td_memory_available() / 2);
    CU_ASSERT_EQUAL(o.workers, td_processors_available());
    CU_ASSERT_TRUE(!o.session_memory && !o.user_memory && !o.session_device_memory && !o.user_device_memory);
    CU_ASSERT_EQUAL(o.user_objects, 16 << 20);
    CU_ASSERT_TRUE(o.shm == TD_SHM_MEMFD && !o.is_private && o.root_fd == -1 && o.listen_fd == -1);
    CU_ASSERT_TRUE(o.log == TD_LOG_WARN && !o.time_turns && !o.help && !o.version);
    CU_ASSERT_TRUE(!o.cuda.off && o.cuda.handles == TD_GPU_HANDLES_AUTO && !o.cuda.memory);
}

static void sizes(void)
{
    static const struct {
        const char *option;
        const uint64_t *field;
        uint64_t least;
        const char *what;
    } all[] = {{"--memory", &o.memory, MIB, "at least 1M"},
               {"--session-memory", &o.session_memory, MIB, "at least 1M"},
               {"--user-memory", &o.user_memory, MIB, "at least 1M"},
               {"--session-device-memory", &o.session_device_memory, MIB, "at least 1M"},
               {"--user-device-memory", &o.user_device_memory, MIB, "at least 1M"},
               {"--cuda-memory", &o.cuda.memory, MIB, "at least 1M"},
               {"--own-memory", &o.own_memory, 32 * MIB, "at least 32M"},
               {"--session-objects", &o.session_objects, 1000, "at least 1000"},
               {"--user-objects", &o.user_objects, 1000, "at least 1000"}};
    char words[100];
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        for (uint64_t more = 0; more < 2; more++) {
            unsigned long long size = all[k].least + more;
            snprintf(words, sizeof words, "--socket /x %s %llu", all[k].option, size);
            CU_ASSERT_EQUAL(parse(words), TD_OK);
            CU_ASSERT_EQUAL(*all[k].field, size);
        }
        snprintf(words, sizeof words, "%s=%llu", all[k].option, (unsigned long long)(all[k].least - 1));
        CU_ASSERT_EQUAL(parse(words), TD_E_INVALID);
        CU_ASSERT_PTR_EQUAL(strstr(e.message, all[k].option), e.message);
        CU_ASSERT_PTR_NOT_NULL(strstr(e.message, all[k].what));
        snprintf(words, sizeof words, "%s much", all[k].option);
        CU_ASSERT_EQUAL(parse(words), TD_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "not 'much'"));
    }
}

static bool is_off(void)
{
    return o.cuda.off;
}

static bool is_posix(void)
{
    return o.shm == TD_SHM_POSIX;
}

static bool is_memfd(void)
{
    return o.shm == TD_SHM_MEMFD && !o.cuda.off;
}

static bool is_auto(void)
{
    return o.cuda.handles == TD_GPU_HANDLES_AUTO;
}

static bool is_vmm(void)
{
    return o.cuda.handles == TD_GPU_HANDLES_VMM;
}

static bool is_ipc(void)
{
    return o.cuda.handles == TD_GPU_HANDLES_IPC;
}

static bool has_1024(void)
{
    return o.workers == 1024;
}

static bool has_1(void)
{
    return o.workers == 1;
}

static bool is_loud(void)
{
    return o.log == TD_LOG_DEBUG && o.is_private && o.time_turns;
}

static bool is_still(void)
{
    return o.log == TD_LOG_ERROR && !o.is_private && !o.time_turns;
}

static void words(void)
{
    static const struct {
        const char *words;
        bool (*holds)(void);
    } good[] = {{"--cuda off", is_off},
                {"--cuda off --cuda auto --shm posix --shm memfd", is_memfd},
                {"--cuda-handles ipc --cuda-handles auto", is_auto},
                {"--shm posix", is_posix},
                {"--cuda-handles vmm", is_vmm},
                {"--cuda-handles ipc", is_ipc},
                {"--workers 1024", has_1024},
                {"--workers=1", has_1},
                {"--private --turns --log debug", is_loud},
                {"--log error", is_still}};
    static const char *const bad[][2] = {
        {"--cuda on", "--cuda takes auto or off, not 'on'"},
        {"--shm disk", "--shm takes memfd or posix, not 'disk'"},
        {"--cuda-handles all", "--cuda-handles takes auto, vmm or ipc, not 'all'"},
        {"--workers 1025", "--workers takes a number from 1 to 1024, not '1025'"},
        {"--workers 0", "--workers takes a number from 1 to 1024, not '0'"},
        {"--workers 2x", "--workers takes a number from 1 to 1024, not '2x'"},
        {"--workers=", "--workers takes a number from 1 to 1024, not ''"},
        {"--log loud", "--log takes error, warning, info or debug, not 'loud'"},
        {"--root 99", "--root takes the number of an open descriptor, not '99'"},
        {"--root 2", "--root takes the number of an open descriptor, not '2'"},
        {"--root=", "--root takes the number of an open descriptor, not ''"},
        {"--memory", "--memory: its value is missing, or it takes none; see `tensord --help`"},
        {"--private=3", "--private=3: its value is missing, or it takes none; see `tensord --help`"},
        {"--fly", "there is no option --fly; `tensord --help` lists them"},
        {"-x", "there is no option -x; `tensord --help` lists them"},
        {"--turns file", "'file' is no option; `tensord --help` lists them"}};
    char line[200];
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        snprintf(line, sizeof line, "--socket /x %s", good[k].words);
        CU_ASSERT_TRUE(parse(line) == TD_OK && good[k].holds());
    }
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        CU_ASSERT_EQUAL(parse(bad[k][0]), TD_E_INVALID);
        CU_ASSERT_STRING_EQUAL(e.message, bad[k][1]);
    }
    CU_ASSERT_TRUE(parse("-h") == TD_OK && o.help && !o.version && !o.memory);
    CU_ASSERT_TRUE(parse("--version") == TD_OK && o.version && !o.help);
    int fd = dup(2);
    snprintf(line, sizeof line, "--socket /x --root=%d", fd);
    CU_ASSERT_TRUE(parse(line) == TD_OK && o.root_fd == fd);
    CU_ASSERT_EQUAL(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
}

/* A quarter of what this process may use, or half of what is beside the shared memory, and 128 MiB at least. */
static void own_memory(void)
{
    uint64_t all = td_memory_available(), quarter = all / 4 < 128 * MIB ? 128 * MIB : all / 4;
    char line[100];
    for (uint64_t eighths = 1; eighths <= 9; eighths++) {
        uint64_t memory = all / 8 / MIB * MIB * eighths, rest = memory < all ? (all - memory) / 2 : 0;
        uint64_t want = rest < quarter ? rest : quarter;
        snprintf(line, sizeof line, "--socket /x --memory %llu", (unsigned long long)memory);
        CU_ASSERT_TRUE(parse(line) == TD_OK && o.memory == memory);
        CU_ASSERT_EQUAL(o.own_memory, want < 128 * MIB ? 128 * MIB : want);
    }
    /* One client has three eighths of its pieces at most. */
    CU_ASSERT_EQUAL(parse("--socket /x --own-memory 32M"), TD_OK);
    CU_ASSERT_EQUAL(o.session_objects, (32 << 20) / TD_OBJECT_BYTES * 3 / 8);
    CU_ASSERT_EQUAL(parse("--socket /x --own-memory 64G"), TD_OK);
    CU_ASSERT_EQUAL(o.session_objects, 4 << 20);
    CU_ASSERT_EQUAL(parse("--socket /x --own-memory 64G --session-objects 9M"), TD_OK);
    CU_ASSERT_EQUAL(o.session_objects, 9 << 20);
}

/* The environment says less than the command line; nothing, where it is empty. */
static void the_environment(void)
{
    setenv("TENSORD_MEMORY", "3M", 1), setenv("TENSORD_SESSION_MEMORY", "2M", 1);
    setenv("TENSORD_USER_MEMORY", "4M", 1), setenv("TENSORD_WORKERS", "7", 1);
    CU_ASSERT_EQUAL(parse("--socket /x --workers 5"), TD_OK);
    CU_ASSERT_TRUE(o.memory == 3 * MIB && o.session_memory == 2 * MIB && o.user_memory == 4 * MIB && o.workers == 5);
    setenv("TENSORD_WORKERS", "many", 1);
    CU_ASSERT_EQUAL(parse("--socket /x"), TD_E_INVALID);
    CU_ASSERT_STRING_EQUAL(e.message, "TENSORD_WORKERS in the environment is no such size or number: 'many'");
    setenv("TENSORD_WORKERS", "", 1);
    CU_ASSERT_TRUE(parse("--socket /x") == TD_OK && o.workers == td_processors_available());
    init();
}

/* What the machine has, or less where a group or an affinity says so. */
static void available(void)
{
    cpu_set_t all, one;
    CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof all, &all), 0);
    int granted = td_cgroup_processors(""), n = CPU_COUNT(&all);
    CU_ASSERT_EQUAL(td_processors_available(), granted && granted < n ? granted : n);
    CPU_ZERO(&one);
    for (int k = 0; k < CPU_SETSIZE && !CPU_COUNT(&one); k++)
        if (CPU_ISSET(k, &all)) CPU_SET(k, &one);
    CU_ASSERT_EQUAL_FATAL(sched_setaffinity(0, sizeof one, &one), 0);
    CU_ASSERT_EQUAL(td_processors_available(), 1);
    sched_setaffinity(0, sizeof all, &all);
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
             group = td_cgroup_memory("");
    CU_ASSERT_EQUAL(td_memory_available(), group && group < machine ? group : machine);
}

/* As long as an address may be, and a byte longer. */
static void sockets(void)
{
    char line[300], path[sizeof o.socket + 1] = "/";
    memset(path + 1, 'p', sizeof o.socket - 2);
    snprintf(line, sizeof line, "--socket %s", path);
    CU_ASSERT_EQUAL(parse(line), TD_OK);
    CU_ASSERT_STRING_EQUAL(o.socket, path);
    setenv("TENSORD_SOCKET", path, 1);
    CU_ASSERT_EQUAL(parse(""), TD_OK);
    CU_ASSERT_STRING_EQUAL(o.socket, path);
    path[sizeof o.socket - 1] = 'p';
    snprintf(line, sizeof line, "--socket %s", path);
    CU_ASSERT_EQUAL(parse(line), TD_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "a path of 108 bytes is too long (at most 107)"));
    setenv("TENSORD_SOCKET", path, 1);
    CU_ASSERT_EQUAL(parse(""), TD_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "the socket's path is too long (at most 107 bytes)"));
    char place[] = "/tmp/options-XXXXXX", want[sizeof place + 20];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(place));
    setenv("TENSORD_SOCKET", "", 1);
    setenv("XDG_RUNTIME_DIR", place, 1);
    snprintf(want, sizeof want, "%s/tensord/socket", place);
    CU_ASSERT_EQUAL(parse(""), TD_OK);
    CU_ASSERT_STRING_EQUAL(o.socket, want);
    rmdir(place);
    init();
}

/* A socket from systemd takes the place of a path, if it is meant for this process. */
static void inherited(void)
{
    static const struct {
        int other;
        const char *count;
        int fd;
    } rows[] = {{0, "1", 3}, {0, "2", 3}, {0, "0", -1}, {1, "1", -1}, {0, NULL, -1}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char pid[20];
        snprintf(pid, sizeof pid, "%d", (int)getpid() + rows[k].other);
        setenv("LISTEN_PID", pid, 1), setenv("LISTEN_FDNAMES", "x", 1);
        if (rows[k].count) setenv("LISTEN_FDS", rows[k].count, 1);
        CU_ASSERT_EQUAL(parse(rows[k].fd < 0 ? "--socket /x" : ""), TD_OK);
        CU_ASSERT_TRUE(o.listen_fd == rows[k].fd && (rows[k].fd < 0 || !o.socket[0]));
        CU_ASSERT_TRUE(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
    }
}

TD_CUNIT_MAIN_WITH("options", init, NULL, {"nothing said", nothing_said}, {"sizes", sizes}, {"words", words},
                   {"own memory", own_memory}, {"available", available}, {"the environment", the_environment},
                   {"sockets", sockets}, {"inherited", inherited})
