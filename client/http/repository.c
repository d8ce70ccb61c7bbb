/* The models that this server is to have: files named on the command line, and a directory as Triton's, DIR/MODEL/N/
 * model.onnx with DIR/MODEL/config.pbtxt or without.
 *
 * Invariant: one load runs at a time, in a process of its own, and the others wait in order, one of each name: whoever
 * asks for one that has not begun waits for that. A version that was published before goes on serving when the load of
 * another fails, or takes too long: then its process is killed. Models stay when this server ends. */
#include "client/http/front.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ENTRIES = 65536, MOST_WORDS = 8192 };

typedef struct asker { /* who asked for a load, and waits */
    struct asker *next;
    http_exchange *x;
} asker;

struct http_load {
    http_load *next;
    char name[HTTP_NAME];
    asker *askers;
    pid_t pid; /* 0: not begun */
    int fd;
    uint64_t deadline_ms; /* of the process */
    bool late;
    char words[MOST_WORDS];
    size_t n;
    int64_t versions[PBTXT_VERSIONS]; /* to be had, growing; 0: whichever comes next */
    int nversions, done;
    bool published; /* one of them was new */
    http_job job;   /* what the next process is told, but for the version */
    char file[512]; /* in a version's directory */
};

/* ---- entries ---------------------------------------------------------------------------------------------------- */

http_entry *http_repository_find(const http_front *f, const char *name)
{
    for (http_entry *n = f->entries; n; n = n->next)
        if (strcmp(n->name, name) == 0) return n;
    return NULL;
}

static http_entry *add(http_front *f, const char *name, td_error *e)
{
    http_entry *n = http_repository_find(f, name);
    if (n) return n;
    if (!*name || strlen(name) >= HTTP_NAME)
        return td_fail(e, TD_E_INVALID, "%.80s is no name for a model", name), NULL;
    if (!(n = calloc(1, sizeof *n))) return td_no_memory(e, "for a model"), NULL;
    snprintf(n->name, sizeof n->name, "%s", name);
    http_entry **end = &f->entries;
    while (*end) end = &(*end)->next;
    return *end = n;
}

int http_repository_add(http_front *f, const char *name, const char *file, td_error *e)
{
    if (strlen(file) >= sizeof f->entries->file) return td_fail(e, TD_E_INVALID, "%.80s is too long a path", file);
    http_entry *n = add(f, name, e);
    if (!n) return e->code;
    if (*n->file)
        return td_fail(e, TD_E_INVALID,
                       "two files would be %.80s: %.200s and %.200s; --model NAME=FILE gives another name", name,
                       n->file, file);
    snprintf(n->file, sizeof n->file, "%s", file);
    n->wanted = true;
    return TD_OK;
}

static bool is_directory(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

int http_repository_read(http_front *f, td_error *e)
{
    char path[4096];
    if (!f->options.repository) return TD_OK;
    DIR *d = opendir(f->options.repository);
    if (!d) return td_fail_errno(e, errno, "the repository %.200s", f->options.repository);
    int rc = TD_OK, n = 0;
    for (struct dirent *each; !rc && (each = readdir(d));) {
        if (each->d_name[0] == '.' || strlen(each->d_name) >= HTTP_NAME) continue;
        int size = snprintf(path, sizeof path, "%s/%s", f->options.repository, each->d_name);
        if (size < 0 || (size_t)size >= sizeof path || !is_directory(path)) continue;
        if (++n > MOST_ENTRIES) rc = td_fail(e, TD_E_QUOTA, "the repository has more than %d models", MOST_ENTRIES);
        else if (!add(f, each->d_name, e)) rc = e->code;
    }
    closedir(d);
    return rc;
}

static bool is_named(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; *at;) {
        size_t k = strcspn(at, ",");
        if (k == n && strncmp(at, name, n) == 0) return true;
        at += k + (at[k] == ',');
    }
    return false;
}

static int check_names(http_front *f, td_error *e)
{
    char name[HTTP_NAME];
    for (const char *at = f->options.load; *at;) {
        size_t k = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(k < HTTP_NAME ? k : 0), at);
        if (k && !http_repository_find(f, name))
            return td_fail(e, TD_E_NOT_FOUND, "--load %.80s: the repository has no such model", name);
        at += k + (at[k] == ',');
    }
    return TD_OK;
}

int http_repository_begin(http_front *f, td_error *e)
{
    const char *load = f->options.load;
    bool all = strcmp(load, "all") == 0, none = strcmp(load, "none") == 0;
    int rc = http_repository_read(f, e);
    if (!rc && !all && !none) rc = check_names(f, e);
    for (http_entry *n = f->entries; !rc && n; n = n->next) {
        if (!*n->file) n->wanted = all || (!none && is_named(load, n->name));
        if (n->wanted) http_repository_load(f, NULL, n->name);
    }
    return rc;
}

const char *http_repository_why(const http_entry *n, char out[HTTP_WHY])
{
    static const char again[] = "POST /v2/repository/models/NAME/load";
    if (!n || n->state == HTTP_READY) return NULL;
    if (n->state == HTTP_LOADING) snprintf(out, HTTP_WHY, "the model %.80s is being loaded", n->name);
    else if (n->state == HTTP_UNLOADED)
        snprintf(out, HTTP_WHY, "the model %.80s is not loaded; %s loads it", n->name, again);
    else
        snprintf(out, HTTP_WHY, "the model %.80s was not loaded: %.400s; %s tries it again", n->name, n->reason, again);
    return out;
}

const http_entry *http_repository_unready(const http_front *f)
{
    const http_entry *n = f->entries;
    while (n && (!n->wanted || n->state == HTTP_READY)) n = n->next;
    return n;
}

/* ---- what is to be loaded --------------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t version_of(const char *name)
{
    if (strspn(name, "0123456789") != strlen(name) || strlen(name) > 9 || *name == '0') return 0;
    return strtoll(name, NULL, 10);
}

/* The numbers of directories that hold a model; *n is at most PBTXT_VERSIONS, the largest. */
static int list_versions(const char *directory, const char *file, int64_t *out, int *n, td_error *e)
{
    DIR *d = opendir(directory);
    if (!d) return td_fail_errno(e, errno, "the directory %.200s", directory);
    *n = 0;
    for (struct dirent *each; (each = readdir(d));) {
        char path[8192];
        int64_t v = version_of(each->d_name);
        snprintf(path, sizeof path, "%s/%s/%s", directory, each->d_name, file);
        if (!v || access(path, R_OK)) continue;
        if (*n == PBTXT_VERSIONS) {
            if (v > out[0]) out[0] = v;
        } else out[(*n)++] = v;
        qsort(out, (size_t)*n, sizeof *out, by_number);
    }
    closedir(d);
    return *n ? TD_OK : td_fail(e, TD_E_NOT_FOUND, "%.200s has no N/%.80s, N a number from 1 on", directory, file);
}

static int choose_versions(http_load *l, const pbtxt_config *c, const char *directory, td_error *e)
{
    int64_t there[PBTXT_VERSIONS];
    int n, rc = list_versions(directory, l->file, there, &n, e);
    if (rc) return rc;
    for (int i = 0; i < n; i++) {
        bool wanted = c->policy == PBTXT_ALL || (c->policy == PBTXT_LATEST && i >= n - c->latest);
        for (int k = 0; c->policy == PBTXT_SPECIFIC && k < c->nversions; k++)
            wanted = wanted || c->versions[k] == there[i];
        if (wanted) l->versions[l->nversions++] = there[i];
    }
    return l->nversions
               ? TD_OK
               : td_fail(e, TD_E_NOT_FOUND, "%.200s has none of the versions that its config.pbtxt names", directory);
}

static int read_config(http_load *l, http_entry *n, pbtxt_config *c, td_error *e)
{
    bool there;
    int rc = pbtxt_open(c, l->job.config, &there, e);
    if (!there) l->job.config[0] = 0;
    if (!rc && c->name[0] && strcmp(c->name, l->name) != 0)
        rc =
            td_fail(e, TD_E_INVALID, "%.200s: name is %.80s, and the directory %.80s", l->job.config, c->name, l->name);
    n->level = c->level, n->timeout_us = c->timeout_us, n->max_batch = c->max_batch;
    return rc;
}

static void use_config(http_load *l, const pbtxt_config *c)
{
    http_job *j = &l->job;
    j->delay_us = c->delay_us, j->queue = c->queue, j->instances = c->instances;
    if (c->max_batch == 0) j->max_batch = 1;
    if (c->dynamic && c->max_batch > 0)
        j->max_batch = c->preferred && c->preferred < c->max_batch ? c->preferred : c->max_batch;
}

static int plan(http_front *f, http_load *l, http_entry *n, td_error *e)
{
    pbtxt_config config;
    char directory[4096];
    snprintf(l->job.name, sizeof l->job.name, "%s", l->name);
    if (*n->file) {
        snprintf(l->job.file, sizeof l->job.file, "%s", n->file);
        l->nversions = 1;
        return TD_OK;
    }
    int size = snprintf(directory, sizeof directory, "%s/%s", f->options.repository, l->name);
    if (size < 0 || (size_t)size > sizeof directory - 1024)
        return td_fail(e, TD_E_INVALID, "the path of %.80s is too long", l->name);
    snprintf(l->job.config, sizeof l->job.config, "%.3000s/config.pbtxt", directory);
    int rc = read_config(l, n, &config, e);
    snprintf(l->file, sizeof l->file, "%s", config.file[0] ? config.file : "model.onnx");
    if (!rc && strchr(l->file, '/')) rc = td_fail(e, TD_E_INVALID, "%.200s: a file's name has no /", l->job.config);
    if (!rc) rc = choose_versions(l, &config, directory, e);
    if (!rc) use_config(l, &config);
    pbtxt_close(&config);
    return rc;
}

/* ---- loads ------------------------------------------------------------------------------------------------------ */

static void start_next(http_front *f);

static void tell(http_load *l, int status, const char *why)
{
    for (asker *a = l->askers, *next; a; a = next) {
        next = a->next;
        if (status == 200) http_answer(a->x, &(http_reply){.status = 200});
        else http_refuse(a->x, status, "%s", why);
        free(a);
    }
    l->askers = NULL;
}

static void end_load(http_front *f, http_load *l, int status, const char *why)
{
    http_entry *n = http_repository_find(f, l->name);
    tell(l, status, why);
    if (n && status == 200) n->state = HTTP_READY, n->reason[0] = 0;
    if (n && status != 200) {
        n->state = HTTP_FAILED;
        snprintf(n->reason, sizeof n->reason, "%s", why);
        fprintf(stderr, "tensord-http: %s is not loaded: %s\n", l->name, why);
    } else if (l->published) fprintf(stderr, "tensord-http: %s is loaded\n", l->name);
    http_models_forget(f, l->name);
    f->loads = l->next;
    free(l);
}

/* Versions that are there and not to be: what the repository does not have any more. */
static void retire_others(http_front *f, const http_load *l)
{
    td_table *t = l->versions[0] ? td_status(f->client, "models") : NULL;
    int name = http_column(t, "name"), version = http_column(t, "version");
    for (int r = 0; name >= 0 && version >= 0 && r < t->rows; r++) {
        const td_cell *row = &t->cells[r * t->columns];
        bool kept = strcmp(row[name].text, l->name) != 0;
        for (int i = 0; i < l->nversions; i++) kept = kept || row[version].integer == l->versions[i];
        if (!kept) td_model_retire(f->client, l->name, (int)row[version].integer);
    }
    td_table_free(t);
}

/* How its process ended, as wait() says. */
static int reap(http_load *l)
{
    int status = 0;
    while (waitpid(l->pid, &status, 0) < 0 && errno == EINTR) continue;
    close(l->fd);
    l->pid = 0;
    return status;
}

/* The next version of the first load; true: a process works on it. */
static bool go_on(http_front *f, http_load *l)
{
    td_error e = {0};
    int64_t v = l->versions[l->done];
    http_job *j = &l->job;
    j->version = (int)v, j->keep_old = l->nversions > 1, j->serves = l->done == l->nversions - 1;
    if (v)
        snprintf(j->file, sizeof j->file, "%.2000s/%.255s/%" PRId64 "/%.255s", f->options.repository, l->name, v,
                 l->file);
    l->n = 0;
    int rc = http_loader_start(f, j, &l->pid, &l->fd, &e);
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = l->fd};
    l->deadline_ms = td_clock_ms() + (uint64_t)f->options.load_s * 1000;
    if (!rc && epoll_ctl(f->epoll, EPOLL_CTL_ADD, l->fd, &ev) == 0) return true;
    if (!rc) {
        td_fail_errno(&e, errno, "a process cannot be watched");
        kill(l->pid, SIGKILL);
        reap(l);
    }
    end_load(f, l, 500, e.message);
    return false;
}

static void start_next(http_front *f)
{
    while (f->loads && !f->loads->pid && !f->ending) {
        http_load *l = f->loads;
        http_entry *n = http_repository_find(f, l->name);
        td_error e = {0};
        if (n && plan(f, l, n, &e) == TD_OK) {
            n->state = HTTP_LOADING;
            if (go_on(f, l)) return;
        } else end_load(f, l, e.code == TD_E_NOT_FOUND ? 404 : 400, n ? e.message : "there is no such model");
    }
}

/* A line of JSON, or nothing when it was killed. */
static void finish(http_front *f, http_load *l, int status)
{
    td_pickle memory;
    td_plain *root = NULL;
    td_error e = {0};
    char why[600];
    int rc = http_json_read(&memory, l->words, l->n, "what the loader said", &root, &e);
    const char *error = rc ? NULL : http_get_text(root, "error");
    bool published = false;
    if (!rc) http_get_bool(root, "published", false, &published);
    l->published = l->published || published;
    if (error) snprintf(why, sizeof why, "%s", error);
    else if (l->late) snprintf(why, sizeof why, "it was not loaded within %u s (--load-seconds)", f->options.load_s);
    else if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "the process that loaded it was killed by signal %d%s", WTERMSIG(status),
                 WTERMSIG(status) == SIGKILL ? ", as the system does when memory is short" : "");
    else snprintf(why, sizeof why, "the process that loaded it ended with %d", WEXITSTATUS(status));
    td_pickle_close(&memory);
    if (error && WIFEXITED(status)) end_load(f, l, 400, why);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || rc) end_load(f, l, 500, why);
    else if (++l->done < l->nversions) go_on(f, l);
    else {
        retire_others(f, l);
        end_load(f, l, 200, "");
    }
}

void http_repository_see(http_front *f, int fd)
{
    http_load *l = f->loads;
    if (!l || !l->pid || l->fd != fd) return;
    ssize_t n = read(fd, l->words + l->n, sizeof l->words - l->n);
    if (n > 0) l->n += (size_t)n;
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) {
        if (l->n < sizeof l->words) return;
        kill(l->pid, SIGKILL); /* it says more than a loader has to say */
    }
    finish(f, l, reap(l));
    start_next(f);
}

void http_repository_look(http_front *f)
{
    http_load *l = f->loads;
    if (!l || !l->pid || l->late || td_clock_ms() < l->deadline_ms) return;
    l->late = true;
    kill(l->pid, SIGKILL); /* its end is seen */
}

/* The load of this name that has not begun, or a new one behind all others; NULL: no memory. */
static http_load *need_load(http_front *f, const char *name)
{
    http_load **at = &f->loads;
    for (; *at; at = &(*at)->next)
        if (!(*at)->pid && strcmp((*at)->name, name) == 0) return *at;
    http_load *l = *at = calloc(1, sizeof *l);
    if (l) snprintf(l->name, sizeof l->name, "%s", name);
    return l;
}

void http_repository_load(http_front *f, http_exchange *x, const char *name)
{
    td_error e = {0};
    http_entry *n = http_repository_find(f, name);
    if (!n && http_repository_read(f, &e) == TD_OK) n = http_repository_find(f, name);
    if (!n) {
        if (x && f->options.repository) http_refuse(x, 404, "the repository has no model %.80s", name);
        else if (x)
            http_refuse(x, 404, "this server was started with no model %.80s, and with no --repository to load it from",
                        name);
        return;
    }
    asker *a = x ? malloc(sizeof *a) : NULL;
    http_load *l = x && !a ? NULL : need_load(f, name);
    if (!l) {
        free(a);
        if (x) http_refuse(x, 503, "no memory to load a model");
        return;
    }
    if (a) *a = (asker){l->askers, x}, l->askers = a;
    n->wanted = true;
    if (n->state != HTTP_READY) n->state = HTTP_LOADING;
    if (f->loads == l) start_next(f);
}

void http_repository_gone(http_front *f, http_exchange *x)
{
    for (http_load *l = f->loads; l; l = l->next)
        for (asker **at = &l->askers, *a; (a = *at);) {
            if (a->x == x) *at = a->next, free(a);
            else at = &a->next;
        }
}

void http_repository_unload(http_front *f, http_exchange *x, const char *name)
{
    http_entry *n = http_repository_find(f, name);
    for (http_load *l = f->loads; l; l = l->next)
        if (strcmp(l->name, name) == 0) {
            http_refuse(x, 409, "%.80s is being loaded", name);
            return;
        }
    if (n) n->wanted = false, n->state = HTTP_UNLOADED, n->reason[0] = 0;
    http_models_forget(f, name);
    int rc = td_model_retire(f->client, name, 0);
    if (rc && !(n && rc == TD_E_NOT_FOUND)) http_refuse_for(x, td_last_error());
    else http_answer(x, &(http_reply){.status = 200});
}

void http_repository_free(http_front *f)
{
    for (http_load *l = f->loads, *next; l; l = next) {
        next = l->next;
        if (l->pid) kill(l->pid, SIGKILL), reap(l);
        for (asker *a = l->askers, *other; a; a = other) other = a->next, free(a);
        free(l);
    }
    for (http_entry *n = f->entries, *next; n; n = next) {
        next = n->next;
        free(n);
    }
    f->loads = NULL, f->entries = NULL;
}

/* ---- the index -------------------------------------------------------------------------------------------------- */

static void put_row(http_text *t, bool *first, const char *name, const char *version, const char *state,
                    const char *reason)
{
    http_put(t, "%s{\"name\":", *first ? "" : ",");
    http_put_quoted(t, name);
    http_put(t, ",\"version\":\"%s\",\"state\":\"%s\",\"reason\":", version, state);
    http_put_quoted(t, reason);
    http_put(t, "}");
    *first = false;
}

void http_repository_put_index(http_front *f, const td_table *models, bool ready, http_text *t)
{
    bool first = true;
    int name = http_column(models, "name"), version = http_column(models, "version"),
        state = http_column(models, "state");
    http_put(t, "[");
    for (int r = 0; name >= 0 && version >= 0 && r < models->rows; r++) {
        const td_cell *row = &models->cells[r * models->columns];
        char number[24];
        bool serves = state < 0 || row[state].kind != TD_CELL_TEXT || strcmp(row[state].text, "ready") == 0;
        bool loading = !serves && strcmp(row[state].text, "warming") == 0;
        snprintf(number, sizeof number, "%" PRId64, row[version].integer);
        if (serves || !ready)
            put_row(t, &first, row[name].text, number, serves ? "READY" : loading ? "LOADING" : "UNLOADING", "");
    }
    for (const http_entry *n = f->entries; !ready && n; n = n->next) {
        bool there = false;
        for (int r = 0; name >= 0 && r < models->rows; r++)
            there = there || strcmp(models->cells[r * models->columns + name].text, n->name) == 0;
        if (there) continue;
        put_row(t, &first, n->name, "", n->state == HTTP_LOADING ? "LOADING" : "UNAVAILABLE",
                n->state == HTTP_FAILED    ? n->reason
                : n->state == HTTP_LOADING ? ""
                                           : "unloaded");
    }
    http_put(t, "]");
}
