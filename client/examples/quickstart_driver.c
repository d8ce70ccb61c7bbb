/* Drives the quickstart: a private daemon, two loaders, a trainer, two classifiers, and the summary.
 *
 * The daemon is not started by hand: td_connect() starts a private one, which ends with its last client. The driver
 * holds that connection to the end, tells the others where the daemon listens ($TENSORD_SOCKET), and adds up what they
 * report. */
#include "quickstart.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static const char *programs; /* directory of the other programs */
static int joined[2];        /* a pipe into which nobody writes: its end says that every loader has joined, or died */

/* Start build/.../quickstart_NAME as `who` with some arguments (a list that ends with NULL). */
static pid_t start(const char *name, const struct options *o, const char *who, int part, int parts, int stop_at)
{
    char path[4096], number[5][16];
    snprintf(path, sizeof path, "%s/quickstart_%s", programs, name);
    bool loader = strcmp(name, "loader") == 0;
    int values[5] = {o->epochs, part, parts, stop_at, loader ? joined[1] : -1};
    for (int i = 0; i < 5; i++) snprintf(number[i], sizeof number[i], "%d", values[i]);
    pid_t driver = getpid(), pid = fork();
    if (pid < 0) fail("fork failed");
    if (pid > 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody is left behind when the driver is killed */
    if (getppid() != driver) _exit(1);
    if (loader) fcntl(joined[1], F_SETFD, 0); /* the only program that inherits it */
    execl(path, path, "--who", who, o->mnist ? "--mnist" : "--csv", o->mnist ? o->mnist : o->csv, "--epochs", number[0],
          "--part", number[1], "--parts", number[2], "--stop-at", number[3], "--joined", number[4], (char *)NULL);
    fprintf(stderr, "quickstart: cannot run %s\n", path);
    _exit(127);
}

/* Wait for `count` processes. One that fails ends the others and the run; a loader that stopped by itself in the middle
 * of a batch is killed there, but not before the others have joined the queue: it ends with its last producer. */
static void wait_for(int count, pid_t *pids, const char *const *who)
{
    for (int left = count; left > 0;) {
        int status, k = 0;
        pid_t pid = waitpid(-1, &status, WUNTRACED);
        if (pid < 0) fail("waitpid failed");
        while (k < count && pids[k] != pid) k++;
        if (k == count) continue;
        if (WIFSTOPPED(status)) {
            while (read(joined[0], &(char){0}, 1) < 0 && errno == EINTR) continue;
            kill(pid, SIGKILL);
            continue;
        }
        left--;
        pids[k] = 0;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && strncmp(who[k], "loader", 6) == 0) {
            say("%s was killed (SIGKILL) in the middle of a batch; the other goes on", who[k]);
        } else if (status != 0) {
            for (int i = 0; i < count; i++)
                if (pids[i] > 0) kill(pids[i], SIGKILL);
            while (waitpid(-1, NULL, 0) > 0) continue;
            fail("%s failed", who[k]);
        }
    }
}

/* The sum of all figures of a name that were reported. */
struct figure {
    char name[16];
    double sum;
};

static double figure_of(const struct figure *f, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(f[i].name, name) == 0) return f[i].sum;
    return 0;
}

static int collect(td_queue *reports, struct figure *f, int most)
{
    td_queue_item item;
    int count = 0;
    while (td_queue_get(reports, &item, 0) == 0) {
        char name[16] = "";
        double value = 0;
        sscanf(item.note, "%15s %lf", name, &value);
        td_queue_item_clear(&item);
        int k = 0;
        while (k < count && strcmp(f[k].name, name) != 0) k++;
        if (k == most) continue;
        if (k == count) f[count++] = (struct figure){0};
        memcpy(f[k].name, name, sizeof name);
        f[k].sum += value;
    }
    return count;
}

/* A figure of the daemon's status: a table of names and values. */
static double status_of(const td_table *t, const char *name)
{
    for (int i = 0; t && i < t->rows; i++) {
        const td_cell *row = t->cells + 2 * i;
        if (row[0].kind == TD_CELL_TEXT && strcmp(row[0].text, name) == 0) return (double)row[1].integer;
    }
    fail("the daemon's status has no %s", name);
}

static double summary(td_client *c, td_queue *reports, const struct options *o)
{
    struct figure f[16];
    int n = collect(reports, f, 16);
    td_table *t = td_status(c, "status");
    double tested = figure_of(f, n, "tested"), right = figure_of(f, n, "right"), seconds = figure_of(f, n, "seconds");
    double batches = figure_of(f, n, "batches"), wire = status_of(t, "bytes_in") + status_of(t, "bytes_out");
    if (tested < 1 || seconds <= 0) fail("not every process reported");
    printf("\n%-22s %.4f (%.0f of %.0f digits that were not trained on)\n", "test accuracy", right / tested, right,
           tested);
    printf("%-22s %.2f s for %d epochs, %.0f batches of %d: %.0f batches/s\n", "training", seconds, o->epochs, batches,
           BATCH, batches / seconds);
    printf("%-22s %.2f MB\n", "tensors in shared memory", figure_of(f, n, "shared") / 1e6);
    printf("%-22s %.2f MB, all messages together\n", "over sockets", wire / 1e6);
    printf("%-22s %.1f MB\n", "daemon's peak memory", status_of(t, "peak_rss_bytes") / 1e6);
    td_table_free(t);
    return right / tested;
}

int main(int argc, char **argv)
{
    bool kill_loader = argc > 1 && strcmp(argv[1], "--kill-loader") == 0;
    argv[kill_loader] = argv[0];
    struct options o = read_options(argc - kill_loader, argv + kill_loader);
    static char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0 || !strrchr(self, '/')) fail("/proc is not there");
    *strrchr(self, '/') = 0;
    programs = self;

    td_client *c = td_connect(NULL);
    check("starting a private daemon", c != NULL);
    setenv("TENSORD_SOCKET", td_socket_path(c), 1);
    td_queue *reports = td_queue_open(c, "quickstart/reports", 64, TD_CONSUMER);
    /* A queue is there as long as somebody has it open: a loader that comes late must find that the work has ended. */
    td_queue *work = td_queue_open(c, "quickstart/work", 0, TD_CONSUMER);
    check("the queues", reports && work);
    say("a private tensord %s runs as process %u", td_daemon_version(c), td_daemon_pid(c));
    int above = (int)(strrchr(programs, '/') - programs);
    say("to look into it meanwhile: %.*s/tensorctl --socket %s top", above, programs, td_socket_path(c));

    if (pipe2(joined, O_CLOEXEC) != 0) fail("no pipe: %s", strerror(errno));
    static const char *const who[] = {"trainer", "loader 1", "loader 2"};
    pid_t train[3] = {start("trainer", &o, who[0], 0, 1, -1), start("loader", &o, who[1], 0, 2, -1),
                      start("loader", &o, who[2], 1, 2, kill_loader ? 40 : -1)};
    close(joined[1]);
    wait_for(3, train, who);
    close(joined[0]);
    static const char *const readers[] = {"classify 1", "classify 2"};
    pid_t classify[2] = {start("classify", &o, readers[0], 0, 2, -1), start("classify", &o, readers[1], 1, 2, -1)};
    wait_for(2, classify, readers);
    double accuracy = summary(c, reports, &o);
    td_queue_close(work, false);
    td_queue_close(reports, true);
    td_disconnect(c);
    double least = o.mnist ? (o.epochs >= 3 ? 0.97 : 0) : o.epochs >= 20 ? 0.96 : 0; /* what that many epochs reach */
    printf("accuracy %.2f\n", accuracy);
    if (accuracy < least) fail("the accuracy is below %.2f", least);
    return 0;
}
