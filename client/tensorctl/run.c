/* tensorctl run: calls a program of a file, or one under a name, with tensors from files and numbers from the command
 * line. */
#include "client/tensorctl/run.h"
#include "client/files/programs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the program */

static td_program *read_program(td_client *c, const char *path)
{
    td_error e = {0};
    size_t n;
    char *text = ctl_read_text(path, &n, &e);
    td_program *p = text ? td_program_read(c, text, td_arrays_of(0, NULL)) : NULL;
    if (!text) td_raise_error(&e, "run", NULL);
    free(text);
    return p;
}

static void find_call(ctl_running *r, const char *path)
{
    td_filed_all all = {0};
    td_error e;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const td_filed *found = NULL;
    if (fd >= 0 && !td_filed_read(fd, &all, &e)) found = td_filed_find(&all, r->o->entry ? r->o->entry : "forward");
    if (found && found->call) r->call = strdup(found->call);
    if (fd >= 0) close(fd);
    td_filed_free(&all);
}

static bool find_program(ctl_running *r)
{
    const char *what = r->o->words[r->word];
    if (!ctl_is_file(what)) r->program = td_program_open(r->client, what, 0);
    else if (access(what, F_OK) == 0 && !ctl_is_archive(what)) r->program = read_program(r->client, what);
    else if ((r->program = td_program_load(r->client, what, r->o->entry, TD_LOAD_TO_CPU)) != NULL) find_call(r, what);
    return r->program || (ctl_fail("run"), false);
}

/* ---- the call */

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* What the program prints may be anything that whoever published it has thought of. */
static void print_lines(void *context, const char *text, size_t n)
{
    (void)context;
    ctl_put_lines(text, n);
    fflush(stdout);
}

static bool call(ctl_running *r)
{
    td_set_program_print(print_lines, NULL);
    td_value_free(&r->result);
    return td_program_call(r->program, (int)r->nargs, r->args, &r->result) == TD_OK && td_sync(r->client) == TD_OK;
}

static bool call_all(ctl_running *r)
{
    int n = r->o->repeat > 1 ? r->o->repeat : 1;
    double *took = calloc((size_t)n, sizeof *took);
    bool good = took != NULL;
    for (int i = 0; i < n && good; i++) {
        double from = now_us();
        good = call(r);
        took[i] = now_us() - from;
    }
    if (!good) ctl_fail("run");
    else if (r->o->repeat > 1) {
        double first = took[0];
        qsort(took, (size_t)n, sizeof *took, by_time);
        fprintf(stderr, "%d calls, us: the first %.1f, least %.1f, median %.1f, most %.1f\n", n, first, took[0],
                took[n / 2], took[n - 1]);
    }
    free(took);
    return good;
}

static void end(ctl_running *r)
{
    td_value_free(&r->result);
    for (uint32_t k = 0; k < r->nargs; k++) td_value_free(&r->args[k]);
    free(r->args);
    free(r->call);
    td_program_free(r->program);
    td_disconnect(r->client);
}

int ctl_run(const ctl_options *o)
{
    ctl_running r = {.o = o, .word = 0};
    if (o->nwords != 1) {
        fputs("tensorctl: run wants a file that ends with .td, or the name of a published program\n", stderr);
        return 2;
    }
    if (!(r.client = ctl_connect(o))) return 1;
    bool grad = td_set_grad_enabled(false);
    bool good =
        find_program(&r) && ctl_run_args(&r) && call_all(&r) && (ctl_run_results(&r) || (ctl_fail("run"), false));
    td_set_grad_enabled(grad);
    end(&r);
    return good ? 0 : 1;
}

/* What is planned the daemon finds out in the first runs: of a name others may have called it already. */
int ctl_plan(const ctl_options *o)
{
    enum { RUNS = 3 };
    ctl_running r = {.o = o, .word = 1};
    if (!(r.client = ctl_connect(o))) return 1;
    bool grad = td_set_grad_enabled(false), calls = o->nin || ctl_is_file(o->words[1]);
    bool good = find_program(&r) && (!calls || ctl_run_args(&r));
    for (int k = 0; k < RUNS && calls && good; k++) good = call(&r) || (ctl_fail("program"), false);
    char *text = good ? td_program_print(r.program, TD_TEXT_PLANS) : NULL;
    if (text) ctl_put_lines(text, strlen(text));
    else if (good) ctl_fail("program");
    free(text);
    td_set_grad_enabled(grad);
    end(&r);
    return text ? 0 : 1;
}
