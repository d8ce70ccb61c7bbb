/* Models as people have them (models.txt says what they give), at two shapes each: models.c FOLDER STORED [OUT].
 *
 * What goes in is drawn by a formula, here and in models.py. Of each output STORED has its sizes and some of its
 * numbers, as onnxruntime gives them: |a - b| <= 1e-6 + 1e-5 |b|. With OUT all of each output is written there, raw. */
#include "client/onnx/onnx.h"
#include "proto/base/dtype.h"
#include "tests/support/daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SKIPPED = 77, LONGEST = 1 << 16 };

static int failed, compared, outputs;
static char at[200]; /* "yunet_n_dynamic 1 out 0" */

static void fail(const char *why)
{
    printf("FAILED %s: %s\n", at, why);
    failed++;
}

/* Number k of an input: of whole ones `most` says how many there are, of others they are in [0, 1). */
static double drawn(uint32_t k, uint32_t seed, double most)
{
    double x = (double)((k * 2654435761u + seed * 40503u) >> 8) / 16777216.0;
    return most > 0 ? floor(x * most) : x;
}

/* "float32 0 2,128": dtype, how many whole numbers (0: any; below 0: always that one), sizes or "-" */
static td_array *make_input(td_client *c, char *line, uint32_t seed)
{
    char *rest, *dtype = strtok_r(line, " ", &rest);
    double most = strtod(strtok_r(NULL, " ", &rest), NULL);
    int64_t shape[8], numel = 1;
    int n = 0;
    char *sizes = strtok_r(NULL, " \n", &rest), *next;
    for (char *s = strtok_r(sizes, ",", &next); s && strcmp(s, "-") != 0; s = strtok_r(NULL, ",", &next))
        numel *= shape[n++] = strtol(s, NULL, 10);
    td_dtype d = td_dtype_parse(dtype);
    size_t each = td_dtype_size(d);
    char *bytes = malloc((size_t)numel * each + 1);
    for (int64_t k = 0; k < numel; k++) {
        double v = most < 0 ? -most : drawn((uint32_t)k, seed, most);
        td_scalar_store(td_dtype_is_float(d) ? td_float(v) : td_int((int64_t)v), d, bytes + (size_t)k * each);
    }
    td_array *a = td_from_data(c, d, td_dims_of(n, shape), bytes);
    free(bytes);
    return a;
}

static void write_out(const char *folder, const void *bytes, size_t n)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, at);
    for (char *s = path + strlen(folder) + 1; *s; s++)
        if (*s == ' ') *s = '_';
    FILE *f = fopen(path, "w");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) fail("it cannot be written");
}

/* "1,4420,2 0.5 0.25 ...": sizes, then numbers from equal distances. */
static void check_output(td_array *a, char *line, const char *out)
{
    char *rest, *next, why[200];
    char *sizes = strtok_r(line, " \n", &rest);
    int64_t n = td_numel(a), count = 0;
    int k = 0;
    for (char *s = strtok_r(sizes, ",", &next); s && strcmp(s, "-") != 0; s = strtok_r(NULL, ",", &next), k++)
        if (k >= td_ndim(a) || td_size(a, k) != strtol(s, NULL, 10)) fail("it has other sizes");
    float *v = malloc((size_t)n * sizeof *v + 1);
    if (td_dtype_of(a) != TD_FLOAT32 || td_read(a, v, (size_t)n * sizeof *v)) fail(td_last_error()->message);
    else {
        char *numbers[512];
        for (char *s; count < 512 && (s = strtok_r(NULL, " \n", &rest)); count++) numbers[count] = s;
        for (int64_t i = 0; i < count; i++, compared++) {
            double want = strtod(numbers[i], NULL), got = (double)v[i * n / count];
            if (fabs(got - want) <= 1e-6 + 1e-5 * fabs(want)) continue;
            snprintf(why, sizeof why, "number %ld is %.9g, not %.9g", (long)(i * n / count), got, want);
            fail(why);
            break;
        }
        if (out) write_out(out, v, (size_t)n * sizeof *v);
    }
    free(v);
}

typedef struct running {
    td_client *c;
    const char *folder, *out;
    td_program *p;
    td_value in[8], got;
    char model[100];
    int nin, set, k;
    bool ran;
} running;

static void set_end(running *r)
{
    for (int i = 0; i < r->nin; i++) td_release(r->in[i].array);
    if (r->ran) td_value_free(&r->got);
    r->nin = r->k = 0;
    r->ran = false;
}

static void model_begin(running *r, const char *name)
{
    char path[500], *card = NULL;
    set_end(r);
    td_program_free(r->p);
    snprintf(r->model, sizeof r->model, "%.90s", name);
    snprintf(at, sizeof at, "%.90s", name);
    snprintf(path, sizeof path, "%.300s/%.90s.onnx", r->folder, name);
    r->p = td_onnx_program(r->c, path, 0, &card);
    if (!r->p) fail(td_last_error()->message);
    free(card);
    r->set = -1;
}

static void output(running *r, char *line)
{
    snprintf(at, sizeof at, "%s %d out %d", r->model, r->set, r->k);
    if (!r->ran && td_program_call(r->p, r->nin, r->in, &r->got)) {
        fail(td_last_error()->message);
        return;
    }
    r->ran = true;
    bool one = r->got.kind == TD_VALUE_ARRAY;
    if (r->k >= (one ? 1 : (int)r->got.n)) fail("there is no such output");
    else check_output(one ? r->got.array : r->got.items[r->k].array, line, r->out);
    r->k++;
    outputs++;
}

int main(int argc, char **argv)
{
    test_daemon d;
    static char line[LONGEST];
    FILE *stored = argc > 2 ? fopen(argv[2], "r") : NULL;
    if (!stored) return 2;
    if (access(argv[1], F_OK)) {
        printf("SKIP onnx_models: the models are not in %s\n", argv[1]);
        return SKIPPED;
    }
    running r = {.folder = argv[1],
                 .out = argc > 3 ? argv[3] : NULL,
                 .c = test_daemon_start(&d, NULL) ? td_connect(d.socket) : NULL};
    while (r.c && fgets(line, sizeof line, stored)) {
        if (strncmp(line, "model ", 6) == 0) line[strcspn(line, "\n")] = 0, model_begin(&r, line + 6);
        else if (strncmp(line, "set", 3) == 0) set_end(&r), r.set++;
        else if (r.p && strncmp(line, "in ", 3) == 0)
            r.in[r.nin] = td_value_array(make_input(r.c, line + 3, (uint32_t)(r.set * 8 + r.nin))), r.nin++;
        else if (r.p && strncmp(line, "out ", 4) == 0) output(&r, line + 4);
    }
    set_end(&r);
    td_program_free(r.p);
    fclose(stored);
    td_disconnect(r.c);
    printf("%d numbers compared\nsuite onnx_models: %d passed, %d failed, 0 skipped\n", compared, outputs - failed,
           failed);
    return test_daemon_stop(&d) || failed || !compared;
}
