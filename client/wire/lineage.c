/* The way from a process to its root; lineage.h has the rules.
 *
 * All of it is read from /proc, of processes that may end meanwhile: what cannot be read ends the way. */
#include "client/wire/lineage.h"
#include "client/wire/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 2048 };

/* ---- one process ------------------------------------------------------------------------------------------------- */

size_t td_process_file(pid_t pid, const char *file, char *out, size_t size)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

bool td_relative_look(pid_t pid, td_relative *out)
{
    char line[512];
    *out = (td_relative){.pid = pid};
    td_process_file(pid, "stat", line, sizeof line);
    const char *name = strchr(line, '('),
               *rest = strrchr(line, ')'); /* what a process calls itself may have any bytes */
    if (!name || !rest) return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(rest - name - 1), name + 1);
    return sscanf(rest + 1, " %*c %d %d %d %d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &out->parent, &out->group, &out->session, &out->terminal, &out->began) == 5;
}

/* The words of the command line, each ended by a zero. */
typedef struct words {
    char text[WORDS];
    size_t size;
} words;

static words words_of(pid_t pid)
{
    words w;
    w.size = td_process_file(pid, "cmdline", w.text, sizeof w.text);
    return w;
}

static bool same_words(const words *a, const words *b)
{
    return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* A word that ends so, as a path ends with a name. */
static bool has_word(const words *w, const char *const *list)
{
    for (const char *at = w->text; at < w->text + w->size; at += strlen(at) + 1)
        for (const char *const *each = list; *each; each++) {
            size_t n = strlen(at), m = strlen(*each);
            if (n >= m && strcmp(at + n - m, *each) == 0 && (n == m || at[n - m - 1] == '/')) return true;
        }
    return false;
}

/* ---- where another program begins -------------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0) return true;
    return false;
}

static bool is_shell(const td_relative *p)
{
    static const char *const shells[] = {"sh",   "bash", "dash", "zsh",  "ash", "fish",   "ksh",   "ksh93",
                                         "mksh", "tcsh", "csh",  "yash", "nu",  "elvish", "xonsh", NULL};
    return is_one_of(p->name, shells);
}

/* A shell at a terminal leads a process group, and gives one to each job. (So does timeout(1), below any shell.) */
static bool controls(const td_relative *shell, const td_relative *child)
{
    return is_shell(shell) && shell->terminal && shell->group == shell->pid && child->session == shell->session &&
           child->group != shell->group;
}

/* Of what was started anew: a forked child has its parent's words, and is what that is. */
static bool is_apart(const td_relative *child, const td_relative *parent)
{
    static const char *const on_its_own[] = {"ipykernel_launcher", "ipykernel", "spyder_kernels.console",
                                             "exec(eval(sys.stdin.readline()))" /* execnet, for pytest-xdist */, NULL};
    static const char *const services[] = {"supervisord",      "circusd",        "honcho",     "jupyter-lab",
                                           "jupyter-notebook", "jupyter-server", "jupyterhub", "jupyterhub-singleuser",
                                           "jupyterlab",       "jupyter_server", "notebook",   NULL};
    words a = words_of(child->pid), b = words_of(parent->pid);
    if (same_words(&a, &b)) return false;
    return has_word(&a, on_its_own) || has_word(&b, services);
}

/* ---- the root ---------------------------------------------------------------------------------------------------- */

static bool identity(pid_t pid, struct stat *st)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return stat(path, st) == 0;
}

/* Of another user's process only the words can be seen: a server that forked its workers and let them be another user
 * has the same. */
static bool runs_the_same(pid_t a, pid_t b)
{
    struct stat x, y;
    if (identity(a, &x) && identity(b, &y)) return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    words v = words_of(a), w = words_of(b);
    return v.size && same_words(&v, &w);
}

/* A batch script's shell is a child of a step of Slurm, too; what it starts are programs. */
static bool launches(const td_relative *p, const td_relative *child)
{
    static const char *const launchers[] = {"mpirun", "mpiexec", "orterun",         "prterun",
                                            "orted",  "prted",   "hydra_pmi_proxy", NULL};
    if (strcmp(p->name, "slurmstepd") == 0) return !is_shell(child);
    return strncmp(p->name, "mpirun.", 7) == 0 || strncmp(p->name, "mpiexec.", 8) == 0 || is_one_of(p->name, launchers);
}

pid_t td_lineage_below(void)
{
    const char *named = getenv("TENSORD_BELOW");
    return named ? (pid_t)atoi(named) : 0;
}

bool td_lineage_within(pid_t pid, pid_t top)
{
    td_relative p;
    for (int i = 0; pid != top; i++, pid = p.parent)
        if (i == TD_MOST_RELATIVES || pid <= 0 || !td_relative_look(pid, &p)) return false;
    return true;
}

void td_lineage_look(pid_t pid, td_lineage *out)
{
    pid_t top = td_lineage_below();
    out->root = 0;
    td_relative_look(pid, &out->of[0]);
    for (out->count = 1; out->count < TD_MOST_RELATIVES; out->count++) {
        const td_relative *child = &out->of[out->count - 1];
        td_relative *p = &out->of[out->count];
        if (child->parent <= 0 || child->parent == top || child->pid == top || !td_relative_look(child->parent, p) ||
            controls(p, child) || is_apart(child, p))
            break;
        if (launches(p, child) || runs_the_same(pid, p->pid)) out->root = out->count;
    }
}
