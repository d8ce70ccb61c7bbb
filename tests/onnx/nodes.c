/* The suites of ONNX itself (Debian's libonnx-testdata): nodes.c ROOT LIST [NAME...].
 *
 * LIST names what passes: one that does not any more fails. Each that is skipped says why. With --list what passes is
 * written there instead. */
#include "tests/onnx/suite.h"
#include "tests/support/daemon.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const parts[] = {"node", "simple", "pytorch-converted", "pytorch-operator"};
enum { PARTS = sizeof parts / sizeof *parts, OPSETS = 32, SKIPPED = 77 };

/* What the suite wants, and no program gives. */
static const struct {
    const char *name, *why;
} never[] = {{"test_cast_BFLOAT16", "its bfloat16 is stored as uint16"},
             {"test_cast_FLOAT_to_BFLOAT16", "its bfloat16 is stored as uint16"},
             {"test_castlike_BFLOAT16", "its bfloat16 is stored as uint16"},
             {"test_castlike_FLOAT_to_BFLOAT16", "its bfloat16 is stored as uint16"},
             {"test_training_dropout", "it draws numbers as NumPy does"}};

static char *passes; /* the list */
static FILE *anew;
static int counts[OPSETS][3], lost, mapped, all;

static bool is_listed(const char *part, const char *name)
{
    char line[300];
    int n = snprintf(line, sizeof line, "\n%s/%s\n", part, name);
    return passes && n < (int)sizeof line && strstr(passes, line);
}

static void one(td_client *c, const char *root, const char *part, const char *name, bool verbose)
{
    static const char *const words[] = {"passed", "skipped", "FAILED"};
    char folder[500];
    suite_case r;
    snprintf(folder, sizeof folder, "%s/%s/%s", root, part, name);
    suite_run(c, folder, 1e-6, 1e-3, &r);
    all++;
    mapped += r.opset > 0; /* it became a program */
    for (size_t k = 0; k < sizeof never / sizeof *never && r.end == SUITE_FAILED; k++)
        if (strncmp(name, never[k].name, strlen(never[k].name)) == 0)
            r.end = SUITE_SKIPPED, snprintf(r.why, sizeof r.why, "%s", never[k].why);
    bool is_lost = is_listed(part, name) && r.end != SUITE_PASSED;
    lost += is_lost;
    counts[r.opset < OPSETS ? r.opset : 0][r.end]++;
    if (anew && r.end == SUITE_PASSED) fprintf(anew, "%s/%s\n", part, name);
    if (r.end == SUITE_SKIPPED && !is_lost) printf("SKIP %s/%s: %s\n", part, name, r.why);
    else if (verbose || r.end != SUITE_PASSED)
        printf("%s%s %s/%s %s\n", is_lost ? "LOST " : "", words[r.end], part, name, r.why);
}

static bool wanted(const char *name, int n, char **names)
{
    for (int k = 0; k < n; k++)
        if (strstr(name, names[k])) return true;
    return n == 0;
}

static void all_of(td_client *c, const char *root, const char *part, int n, char **names)
{
    char path[400];
    struct dirent **found;
    snprintf(path, sizeof path, "%s/%s", root, part);
    int count = scandir(path, &found, NULL, alphasort);
    for (int k = 0; k < count; k++) {
        if (found[k]->d_name[0] != '.' && wanted(found[k]->d_name, n, names))
            one(c, root, part, found[k]->d_name, n > 0);
        free(found[k]);
    }
    if (count >= 0) free(found);
}

static char *read_list(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    if (text) text[0] = '\n';
    if (f && text && fread(text + 1, 1, (1 << 20) - 2, f) == 0) text[1] = 0;
    if (f) fclose(f);
    return text;
}

static int report(void)
{
    int sums[3] = {0};
    for (int k = 0; k < OPSETS; k++) {
        if (counts[k][0] + counts[k][1] + counts[k][2] && k)
            printf("opset %d: %d passed, %d skipped, %d failed\n", k, counts[k][0], counts[k][1], counts[k][2]);
        for (int i = 0; i < 3; i++) sums[i] += counts[k][i];
    }
    printf("%d of %d became programs; %d of the list lost\nsuite onnx_nodes: %d passed, %d failed, %d skipped\n",
           mapped, all, lost, sums[0], sums[2], sums[1]);
    return sums[2] || lost || !sums[0];
}

int main(int argc, char **argv)
{
    test_daemon d;
    DIR *there = argc > 2 ? opendir(argv[1]) : NULL;
    if (!there) {
        printf("SKIP onnx_nodes: there is no libonnx-testdata\n");
        return SKIPPED;
    }
    closedir(there);
    bool make = argc > 3 && strcmp(argv[3], "--list") == 0;
    if (make) anew = fopen(argv[2], "w");
    else passes = read_list(argv[2]);
    td_client *c = test_daemon_start(&d, NULL) ? td_connect(d.socket) : NULL;
    for (int k = 0; c && k < PARTS; k++) all_of(c, argv[1], parts[k], argc - 3 - make, argv + 3 + make);
    int rc = c ? report() : 1;
    td_disconnect(c);
    free(passes);
    if (anew) fclose(anew);
    return test_daemon_stop(&d) || rc;
}
