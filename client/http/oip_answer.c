/* See oip.h: results as an answer's text. */
#include "client/http/oip.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_value(http_text *t, td_dtype dtype, const void *at)
{
    uint64_t wide;
    switch (dtype) {
    case TD_FLOAT32: http_put_float(t, (double)*(const float *)at, true); return;
    case TD_FLOAT64: http_put_float(t, *(const double *)at, false); return;
    case TD_BOOL: http_put(t, *(const uint8_t *)at ? "true" : "false"); return;
    case TD_UINT64: memcpy(&wide, at, sizeof wide), http_put(t, "%" PRIu64, wide); return;
    default: http_put(t, "%" PRId64, td_scalar_load(dtype, at).i);
    }
}

/* `most` at most; what is left of that comes back. */
static uint64_t put_values(http_text *t, const oip_result *x, uint64_t *byte, uint64_t most)
{
    size_t size = td_dtype_size(x->dtype);
    for (; *byte < x->bytes && most && !t->failed; *byte += size, most--) {
        if (*byte) http_put_bytes(t, ",", 1);
        put_value(t, x->dtype, (const char *)x->data + *byte);
    }
    return most;
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

enum { CLASS = 352 }; /* bytes of one, at most: a double has 309 digits before its point */

typedef struct scored {
    double score;
    int64_t index;
} scored;

/* Does `a` come before `b`? */
static bool is_above(const scored *a, const scored *b)
{
    return a->score != b->score ? a->score > b->score : a->index < b->index;
}

static int by_score(const void *a, const void *b)
{
    return is_above(a, b) ? -1 : 1;
}

static double score_of(const oip_result *x, int64_t i)
{
    td_scalar s = td_scalar_load(x->dtype, (const char *)x->data + (size_t)i * td_dtype_size(x->dtype));
    double v = s.kind >= TD_S_FLOAT ? s.re : (double)s.i;
    return isnan(v) ? -INFINITY : v;
}

/* `v` takes the place of the first, and sinks until none below it is lower. */
static void sink(scored *heap, int64_t n, scored v)
{
    int64_t at = 0;
    for (int64_t low; (low = 2 * at + 1) < n; at = low) {
        if (low + 1 < n && is_above(&heap[low], &heap[low + 1])) low++;
        if (is_above(&heap[low], &v)) break;
        heap[at] = heap[low];
    }
    heap[at] = v;
}

/* The k largest of `n` values from `first` on, in order. Of those that were seen the lowest comes first meanwhile. */
static void choose(const oip_result *x, int64_t first, int64_t n, int64_t k, scored *best)
{
    for (int64_t i = 0; i < k; i++) best[i] = (scored){-INFINITY, INT64_MAX}; /* below all that comes */
    for (int64_t i = 0; i < n; i++) {
        scored v = {score_of(x, first + i), i};
        if (is_above(&v, best)) sink(best, k, v);
    }
    qsort(best, (size_t)k, sizeof *best, by_score);
}

static int put_row(const scored *best, int64_t k, td_bytes *to, td_error *e)
{
    for (int64_t i = 0; i < k; i++) {
        char text[CLASS];
        uint32_t length = (uint32_t)snprintf(text, sizeof text, "%f:%" PRId64, best[i].score, best[i].index);
        int rc = td_bytes_put(to, &length, sizeof length, "an answer", e);
        if (!rc) rc = td_bytes_put(to, text, length, "an answer", e);
        if (rc) return rc;
    }
    return TD_OK;
}

/* Each as a text behind its length. */
static int put_classes(const oip_output *o, const oip_result *x, int64_t sizes[2], uint64_t most, td_bytes *to,
                       td_error *e)
{
    int64_t numel = (int64_t)(x->bytes / td_dtype_size(x->dtype)), rows = x->ndim > 1 ? x->shape[0] : 1;
    int64_t n = rows ? numel / rows : 0, k = o->classes < n ? o->classes : n;
    sizes[0] = rows, sizes[1] = k;
    if (k == 0) return TD_OK;
    if (most && (uint64_t)(rows * k) > most / (CLASS + sizeof(scored)))
        return td_fail(e, TD_E_QUOTA, "%" PRId64 " classes: ask for fewer, or for the values", rows * k);
    scored *best = malloc((size_t)k * sizeof *best);
    int rc = best ? TD_OK : td_no_memory(e, "for classes");
    for (int64_t r = 0; r < rows && !rc; r++) {
        choose(x, r * n, n, k, best);
        rc = put_row(best, k, to, e);
    }
    free(best);
    return rc;
}

/* They stand in the text, too, when that was asked for. */
static void put_texts(http_text *t, const unsigned char *at, uint64_t n)
{
    http_put(t, ",\"data\":[");
    for (uint64_t i = 0; i < n;) {
        uint32_t length;
        memcpy(&length, at + i, sizeof length);
        http_put(t, "%s\"%.*s\"", i ? "," : "", (int)length, at + i + sizeof length);
        i += sizeof length + length;
    }
    http_put(t, "]");
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

static void put_head(http_text *t, const char *name, const char *dtype, const int64_t *shape, int ndim)
{
    http_put(t, "{\"name\":");
    http_put_quoted(t, name);
    http_put(t, ",\"datatype\":\"%s\",\"shape\":[", dtype);
    for (int i = 0; i < ndim; i++) http_put(t, "%s%" PRId64, i ? "," : "", shape[i]);
    http_put(t, "]");
}

static int put_classified(oip_output *o, const char *name, const oip_result *x, http_text *t, td_bytes *classes,
                          td_error *e)
{
    int64_t sizes[2];
    size_t before = classes->n;
    int rc = put_classes(o, x, sizes, t->most, classes, e);
    if (rc) return rc;
    o->class_bytes = classes->n - before;
    put_head(t, name, "BYTES", sizes + (x->ndim < 2), x->ndim < 2 ? 1 : 2);
    if (o->binary) http_put(t, ",\"parameters\":{\"binary_data_size\":%" PRIu64 "}}", o->class_bytes);
    else {
        put_texts(t, o->class_bytes ? classes->at + before : NULL, o->class_bytes); /* of none there may be no memory */
        http_put(t, "}");
        classes->n = before, o->class_bytes = 0;
    }
    return TD_OK;
}

/* But for its values, if these stand in the text. */
static int put_output(oip_output *o, const char *name, const oip_result *x, http_text *t, td_bytes *classes,
                      bool *values, td_error *e)
{
    *values = false;
    const char *dtype = oip_dtype_name(x->dtype);
    if (!dtype)
        return td_fail(e, TD_E_TYPE, "output %.80s is %s, which the protocol does not know", name,
                       td_dtype_name(x->dtype));
    if (o->classes) return put_classified(o, name, x, t, classes, e);
    bool half = x->dtype == TD_FLOAT16 || x->dtype == TD_BFLOAT16;
    if (half && !o->binary && !o->region)
        return td_fail(e, TD_E_TYPE, "output %.80s is %s, which is sent as binary data: ask for that", name, dtype);
    if (o->region && x->bytes > o->room)
        return td_fail(e, TD_E_INVALID, "output %.80s has %" PRIu64 " bytes, and its region takes %" PRIu64, name,
                       x->bytes, o->room);
    put_head(t, name, dtype, x->shape, x->ndim);
    if (o->region) {
        http_put(t, ",\"parameters\":{\"shared_memory_region\":");
        http_put_quoted(t, o->region);
        http_put(t, ",\"shared_memory_byte_size\":%" PRIu64, x->bytes);
        if (o->offset) http_put(t, ",\"shared_memory_offset\":%" PRIu64, o->offset);
        http_put(t, "}");
    } else if (o->binary) http_put(t, ",\"parameters\":{\"binary_data_size\":%" PRIu64 "}", x->bytes);
    else *values = true;
    http_put(t, *values ? ",\"data\":[" : "}");
    return TD_OK;
}

static void put_begin(const oip_request *r, http_text *t)
{
    http_put(t, "{\"model_name\":");
    http_put_quoted(t, r->card->name);
    http_put(t, ",\"model_version\":\"%" PRId64 "\"", r->card->version);
    if (r->id) http_put(t, ",\"id\":"), http_put_quoted(t, r->id);
    http_put(t, ",\"outputs\":[");
}

int oip_answer_some(oip_request *r, const oip_result *results, oip_written *at, uint64_t most, http_text *t,
                    td_bytes *classes, td_error *e)
{
    if (!at->begun) put_begin(r, t);
    at->begun = true;
    for (; at->output < r->nout && most && !t->failed; at->output++) {
        oip_output *o = &r->out[at->output];
        const oip_result *x = &results[o->port];
        if (!at->in_values) {
            if (at->output) http_put(t, ",");
            int rc = put_output(o, r->card->out[o->port].name, x, t, classes, &at->in_values, e);
            if (rc) return rc;
            at->byte = 0;
        }
        if (!at->in_values) continue;
        most = put_values(t, x, &at->byte, most);
        if (at->byte < x->bytes) break;
        at->in_values = false;
        http_put(t, "]}");
    }
    at->whole = at->output == r->nout;
    if (at->whole) http_put(t, "]}");
    if (t->failed) *e = t->error;
    return t->failed;
}

int oip_answer(oip_request *r, const oip_result *results, http_text *t, td_bytes *classes, td_error *e)
{
    oip_written at = {0};
    return oip_answer_some(r, results, &at, UINT64_MAX, t, classes, e);
}
