/* What the programs of the quickstart have in common, see quickstart.h. */
#include "quickstart.h"

#include <stdarg.h>
#include <time.h>

static struct options options = {.who = "quickstart", .parts = 1, .epochs = 1, .stop_at = -1, .joined = -1, .seed = 1};

struct options read_options(int argc, char **argv)
{
    struct {
        const char *name;
        const char **text;
        int *number;
    } all[] = {{"--who", &options.who, NULL},         {"--csv", &options.csv, NULL},
               {"--mnist", &options.mnist, NULL},     {"--epochs", NULL, &options.epochs},
               {"--part", NULL, &options.part},       {"--parts", NULL, &options.parts},
               {"--stop-at", NULL, &options.stop_at}, {"--joined", NULL, &options.joined}};
    int known = sizeof all / sizeof *all;
    for (int i = 1; i < argc; i += 2) {
        int k = 0;
        while (k < known && strcmp(argv[i], all[k].name) != 0) k++;
        if (k == known || i + 1 == argc) fail("what is %s?", argv[i]);
        if (all[k].text) *all[k].text = argv[i + 1];
        else *all[k].number = atoi(argv[i + 1]);
    }
    if (!options.csv && !options.mnist) fail("--csv FILE or --mnist DIRECTORY is needed");
    if (options.epochs < 1 || options.part < 0 || options.parts <= options.part) fail("a number makes no sense");
    return options;
}

void say(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    printf("%s: ", options.who);
    vprintf(format, ap);
    printf("\n");
    fflush(stdout);
    va_end(ap);
}

void fail(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fflush(stdout);
    fprintf(stderr, "%s: ", options.who);
    vfprintf(stderr, format, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    exit(1);
}

void check(const char *what, bool ok)
{
    const td_error *e = td_last_error();
    if (!ok) fail("%s: %s%s%s (%s)", what, e->op, *e->op ? ": " : "", e->message, td_error_name(e->code));
}

void report(td_client *c, const char *format, ...)
{
    char note[128];
    va_list ap;
    va_start(ap, format);
    vsnprintf(note, sizeof note, format, ap);
    va_end(ap);
    td_queue *q = td_queue_open(c, "quickstart/reports", 64, TD_PRODUCER);
    check("reporting", q && td_queue_put(q, td_arrays(), note, strlen(note) + 1, 1000) == 0);
    td_queue_close(q, false);
}

void report_shared(td_client *c, long bytes)
{
    report(c, "shared %ld", bytes);
}

int batch_count(const struct dataset *d)
{
    return (d->train + BATCH - 1) / BATCH;
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
