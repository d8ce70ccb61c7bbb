/* Running a folder's model. See suite.h. */
#include "tests/onnx/suite.h"

#include "client/onnx/model.h"
#include "client/onnx/onnx.h"
#include "proto/base/dtype.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64 };

typedef struct tensor {
    td_onnx_look look;
    char *bytes;
} tensor;

static bool end_as(suite_case *out, suite_end end, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(out->why, sizeof out->why, format, list);
    va_end(list);
    out->end = end;
    return false;
}

/* False: there is none (nothing is said), or it is none that can be read. */
static bool read_tensor(const char *folder, int set, const char *what, int k, tensor *out, suite_case *r)
{
    char path[600];
    td_onnx_file f;
    td_onnx_tensor *t;
    td_error e = {0};
    snprintf(path, sizeof path, "%s/test_data_set_%d/%s_%d.pb", folder, set, what, k);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return false;
    *out = (tensor){0};
    if (td_onnx_read_tensor(&f, fd, &t, &e) || td_onnx_look_at(&f, t, &out->look, &e))
        end_as(r, SUITE_SKIPPED, "%s_%d is no tensor that tensord has: %.200s", what, k, e.message);
    else if (!(out->bytes = malloc(out->look.bytes + 1)) || td_onnx_fetch(&f, t, &out->look, out->bytes, &e))
        end_as(r, SUITE_FAILED, "%s", e.message);
    td_onnx_close(&f);
    close(fd);
    return r->end == SUITE_PASSED;
}

static double number(td_dtype dtype, const void *at)
{
    td_scalar s = td_scalar_load(dtype, at);
    return s.kind == TD_S_FLOAT || s.kind == TD_S_COMPLEX ? s.re
           : dtype == TD_UINT64                           ? (double)(uint64_t)s.i
                                                          : (double)s.i;
}

static bool is_close(double a, double b, double absolute, double relative)
{
    if (isnan(b)) return isnan(a);
    return a == b || fabs(a - b) <= absolute + relative * fabs(b);
}

static void compare(td_array *a, const tensor *want, int k, double absolute, double relative, suite_case *out)
{
    const td_onnx_look *look = &want->look;
    int ndim = td_ndim(a);
    bool same = ndim == look->ndim && td_dtype_of(a) == look->dtype;
    for (int d = 0; d < look->ndim && same; d++) same = td_size(a, d) == look->shape[d];
    if (!same) {
        end_as(out, SUITE_FAILED, "output %d is %s of %d dimensions (%ld, %ld, ...), not %s of %d (%ld, %ld, ...)", k,
               td_dtype_name(td_dtype_of(a)), ndim, ndim > 0 ? (long)td_size(a, 0) : 0,
               ndim > 1 ? (long)td_size(a, 1) : 0, td_dtype_name(look->dtype), look->ndim,
               look->ndim ? (long)look->shape[0] : 0, look->ndim > 1 ? (long)look->shape[1] : 0);
        return;
    }
    char *bytes = malloc(look->bytes + 1);
    size_t each = td_dtype_size(look->dtype);
    if (td_read(a, bytes, look->bytes)) end_as(out, SUITE_FAILED, "output %d: %s", k, td_last_error()->message);
    for (int64_t i = 0; i < look->numel && out->end == SUITE_PASSED; i++) {
        double x = number(look->dtype, bytes + (size_t)i * each),
               y = number(look->dtype, want->bytes + (size_t)i * each);
        if (!is_close(x, y, absolute, relative))
            end_as(out, SUITE_FAILED, "output %d: number %ld is %.9g, not %.9g", k, (long)i, x, y);
    }
    free(bytes);
}

static void compare_all(const char *folder, int set, const td_value *got, double absolute, double relative,
                        suite_case *out)
{
    tensor want;
    int n = got->kind == TD_VALUE_ARRAY ? 1 : (int)got->n, k = 0;
    for (; out->end == SUITE_PASSED && read_tensor(folder, set, "output", k, &want, out); k++) {
        if (k >= n) end_as(out, SUITE_FAILED, "it gives %d outputs, and there are more", n);
        else compare(got->kind == TD_VALUE_ARRAY ? got->array : got->items[k].array, &want, k, absolute, relative, out);
        free(want.bytes);
    }
    if (out->end == SUITE_PASSED && k != n) end_as(out, SUITE_FAILED, "it gives %d outputs, and there are %d", n, k);
}

static bool run_set(td_client *c, td_program *p, const char *folder, int set, double absolute, double relative,
                    suite_case *out)
{
    td_value in[MOST], got;
    tensor t;
    int n = 0;
    while (n < MOST && read_tensor(folder, set, "input", n, &t, out)) {
        in[n++] = td_value_array(td_from_data(c, t.look.dtype, td_dims_of(t.look.ndim, t.look.shape), t.bytes));
        free(t.bytes);
    }
    if (out->end == SUITE_PASSED) {
        if (td_program_call(p, n, in, &got)) end_as(out, SUITE_FAILED, "run: %.400s", td_last_error()->message);
        else {
            if (td_sync(c)) end_as(out, SUITE_FAILED, "run: %.400s", td_last_error()->message);
            else compare_all(folder, set, &got, absolute, relative, out);
            td_value_free(&got);
        }
    }
    for (int k = 0; k < n; k++) td_release(in[k].array);
    return out->end == SUITE_PASSED;
}

void suite_run(td_client *c, const char *folder, double absolute, double relative, suite_case *out)
{
    char path[600];
    char *card;
    *out = (suite_case){0};
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    td_program *p = td_onnx_program(c, path, 0, &card);
    if (!p) {
        end_as(out, td_last_error()->code == TD_E_UNSUPPORTED ? SUITE_SKIPPED : SUITE_FAILED, "%.400s",
               td_last_error()->message);
        return;
    }
    const char *opset = strstr(card, "\"opset\": ");
    out->opset = opset ? strtol(opset + 9, NULL, 10) : 0;
    for (int set = 0; set < 3; set++) {
        snprintf(path, sizeof path, "%s/test_data_set_%d", folder, set);
        if (access(path, F_OK) || !run_set(c, p, folder, set, absolute, relative, out)) break;
    }
    free(card);
    td_program_free(p);
}
