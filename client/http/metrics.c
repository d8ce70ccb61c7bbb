/* Counts: those that the daemon has of models, and the door's of requests. They are told as Prometheus reads them, with
 * Triton's names beside tensord's; as Triton's statistics; as an index of models. All of it comes of one table of the
 * daemon's, so requests of other processes are in it, too. */
#include "client/http/front.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int http_column(const td_table *t, const char *name)
{
    for (int k = 0; t && k < t->columns; k++)
        if (strcmp(t->names[k], name) == 0) return k;
    return -1;
}

static const td_cell *cell(const td_table *t, int row, const char *name)
{
    int k = http_column(t, name);
    return k < 0 ? NULL : &t->cells[row * t->columns + k];
}

static const char *text_in(const td_table *t, int row, const char *name)
{
    const td_cell *c = cell(t, row, name);
    return c && c->kind == TD_CELL_TEXT ? c->text : "";
}

static int64_t number_in(const td_table *t, int row, const char *name)
{
    const td_cell *c = cell(t, row, name);
    return !c || c->kind == TD_CELL_TEXT ? 0
           : c->kind == TD_CELL_REAL     ? (int64_t)c->real
           : c->kind == TD_CELL_BOOL     ? c->yes
                                         : c->integer;
}

/* ---- for Prometheus --------------------------------------------------------------------------------------------- */

static void put_label(http_text *t, const char *text)
{
    http_put(t, "\"");
    for (; *text; text++) {
        if (*text == '\n') http_put(t, "\\n");
        else if (*text == '"' || *text == '\\') http_put(t, "\\%c", *text);
        else http_put_bytes(t, text, 1);
    }
    http_put(t, "\"");
}

static void put_labels(http_text *t, const td_table *models, int row)
{
    http_put(t, "{model=");
    put_label(t, text_in(models, row, "name"));
    http_put(t, ",version=\"%" PRId64 "\"", number_in(models, row, "version"));
}

/* Of Triton: what it is called there, and the columns that are added up to it. */
static const struct triton {
    const char *name, *kind, *labels, *help, *columns[3];
} tritons[] = {
    {"nv_inference_request_success",
     "counter",
     "",
     "Number of successful inference requests, all batch sizes",
     {"requests"}},
    {"nv_inference_request_failure",
     "counter",
     ",reason=\"BACKEND\"",
     "Number of failed inference requests, all batch sizes",
     {"failed"}},
    {"nv_inference_request_failure", NULL, ",reason=\"REJECTED\"", NULL, {"expired", "refused"}},
    {"nv_inference_request_failure", NULL, ",reason=\"CANCELED\"", NULL, {"cancelled"}},
    {"nv_inference_count",
     "counter",
     "",
     "Number of inferences performed (does not include cached requests)",
     {"rows"}},
    {"nv_inference_exec_count",
     "counter",
     "",
     "Number of model executions performed (does not include cached requests)",
     {"runs"}},
    {"nv_inference_request_duration_us",
     "counter",
     "",
     "Cumulative inference request duration in microseconds (includes cached requests)",
     {"total_us"}},
    {"nv_inference_queue_duration_us",
     "counter",
     "",
     "Cumulative inference queuing duration in microseconds (includes cached requests)",
     {"queue_us"}},
    {"nv_inference_compute_input_duration_us",
     "counter",
     "",
     "Cumulative compute input duration in microseconds (does not include cached requests)",
     {"input_us"}},
    {"nv_inference_compute_infer_duration_us",
     "counter",
     "",
     "Cumulative compute inference duration in microseconds (does not include cached requests)",
     {"run_us"}},
    {"nv_inference_compute_output_duration_us",
     "counter",
     "",
     "Cumulative inference compute output duration in microseconds (does not include cached requests)",
     {"output_us"}},
    {"nv_inference_pending_request_count",
     "gauge",
     "",
     "Instantaneous number of pending requests awaiting execution per-model.",
     {"waiting"}},
};

static void put_tritons(http_text *t, const td_table *models)
{
    for (size_t i = 0; i < sizeof tritons / sizeof tritons[0]; i++) {
        const struct triton *n = &tritons[i];
        if (n->kind) http_put(t, "# HELP %s %s\n# TYPE %s %s\n", n->name, n->help, n->name, n->kind);
        for (int r = 0; models && r < models->rows; r++) {
            int64_t v = 0;
            for (int k = 0; k < 3 && n->columns[k]; k++) v += number_in(models, r, n->columns[k]);
            http_put(t, "%s", n->name);
            put_labels(t, models, r);
            http_put(t, "%s} %" PRId64 "\n", n->labels, v);
        }
    }
}

static bool grows(const char *column)
{
    static const char *const all[] = {"requests", "failed",   "expired", "cancelled", "rows",
                                      "runs",     "queue_us", "run_us",  NULL};
    const char *const *at = all;
    while (*at && strcmp(*at, column) != 0) at++;
    return *at != NULL;
}

/* The next of "1:12 4:3 more:1": rows of a run, and how many such there were. */
static bool next_batch(const char **at, char rows[24], uint64_t *n)
{
    size_t k = strcspn(*at, ":");
    if (!(*at)[k] || k >= 24) return false;
    memcpy(rows, *at, k);
    rows[k] = 0;
    char *end;
    *n = strtoull(*at + k + 1, &end, 10);
    *at = end + (*end == ' ');
    return true;
}

static void put_batches(http_text *t, const td_table *models)
{
    char rows[24];
    uint64_t n;
    http_put(t, "# TYPE tensord_model_batches_total counter\n");
    for (int r = 0; r < models->rows; r++)
        for (const char *at = text_in(models, r, "batches"); next_batch(&at, rows, &n);) {
            http_put(t, "tensord_model_batches_total");
            put_labels(t, models, r);
            http_put(t, ",rows=\"%s\"} %" PRIu64 "\n", rows, n);
        }
}

static void put_columns(http_text *t, const td_table *models)
{
    for (int k = 0; models && models->rows && k < models->columns; k++) {
        const char *name = models->names[k], *total = grows(name) ? "_total" : "";
        if (strcmp(name, "version") == 0 || models->cells[k].kind == TD_CELL_TEXT) continue;
        http_put(t, "# TYPE tensord_model_%s%s %s\n", name, total, *total ? "counter" : "gauge");
        for (int r = 0; r < models->rows; r++) {
            const td_cell *c = &models->cells[r * models->columns + k];
            if (c->kind == TD_CELL_TEXT) continue; /* it has no such number now */
            http_put(t, "tensord_model_%s%s", name, total);
            put_labels(t, models, r);
            if (c->kind == TD_CELL_REAL) http_put(t, "} %.17g\n", c->real);
            else http_put(t, "} %" PRId64 "\n", number_in(models, r, name));
        }
    }
    if (models) put_batches(t, models);
}

/* States of a model are texts of the table; here each is a number of its own. */
static void put_states(http_text *t, const td_table *models)
{
    if (http_column(models, "state") < 0) return;
    http_put(t, "# TYPE tensord_model_state gauge\n");
    for (int r = 0; r < models->rows; r++) {
        http_put(t, "tensord_model_state");
        put_labels(t, models, r);
        http_put(t, ",state=");
        put_label(t, text_in(models, r, "state"));
        http_put(t, "} 1\n");
    }
}

static void put_count(http_text *t, const char *name, bool total, uint64_t v)
{
    const char *behind = total ? "_total" : "";
    http_put(t, "# TYPE tensord_http_%s%s %s\ntensord_http_%s%s %" PRIu64 "\n", name, behind,
             total ? "counter" : "gauge", name, behind, v);
}

static void put_door(http_text *t, http_front *f)
{
    const http_counts *c = http_door_counts(f->door);
    put_count(t, "connections", false, c->connections);
    put_count(t, "under_way", false, c->under_way);
    put_count(t, "accepted", true, c->accepted);
    put_count(t, "requests", true, c->requests);
    put_count(t, "refused", true, c->refused);
    put_count(t, "failed", true, c->failed);
    put_count(t, "busy", true, f->refused_busy);
    put_count(t, "closed_slow", true, c->closed_slow);
    put_count(t, "closed_for_room", true, c->closed_for_room);
    put_count(t, "bytes_in", true, c->bytes_in);
    put_count(t, "bytes_out", true, c->bytes_out);
    put_count(t, "request_bytes", false, f->charged);
    put_count(t, "request_bytes_most", false, f->most_charged);
    put_count(t, "request_bytes_limit", false, f->options.memory);
    put_count(t, "regions", false, (uint64_t)f->regions.n);
}

/* The daemon's memory, under the names that tensorctl --prometheus has. */
static void put_memory(http_text *t, td_client *client)
{
    static const char *const keys[] = {"bytes_used", "bytes_committed", "bytes_limit", "workers", "uptime_s", NULL};
    td_table *status = td_status(client, "status");
    for (int r = 0; status && r < status->rows; r++) {
        const td_cell *key = &status->cells[r * 2], *value = &status->cells[r * 2 + 1];
        const char *const *k = keys;
        while (*k && strcmp(*k, key->text) != 0) k++;
        if (!*k || value->kind == TD_CELL_TEXT) continue;
        http_put(t, "# TYPE tensord_%s gauge\ntensord_%s ", *k, *k);
        if (value->kind == TD_CELL_REAL) http_put(t, "%.17g\n", value->real);
        else http_put(t, "%" PRId64 "\n", value->integer);
    }
    td_table_free(status);
}

static td_table *ask(http_front *f, http_exchange *x)
{
    td_table *models = td_status(f->client, "models");
    if (!models) http_refuse_for(x, td_last_error());
    else http_models_see(f, models);
    return models;
}

void http_metrics(http_front *f, http_exchange *x)
{
    http_text t = {0};
    td_table *models = td_status(f->client, "models");
    if (!models && td_last_error()->code != TD_E_NOT_FOUND) { /* an older daemon has no such table */
        http_refuse_for(x, td_last_error());
        return;
    }
    if (models) http_models_see(f, models);
    put_tritons(&t, models);
    put_columns(&t, models);
    put_states(&t, models);
    put_memory(&t, f->client);
    put_door(&t, f);
    td_table_free(models);
    http_answer_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", &t);
}

/* ---- statistics ------------------------------------------------------------------------------------------------- */

static void put_duration(http_text *t, const char *name, int64_t count, int64_t us)
{
    http_put(t, "\"%s\":{\"count\":%" PRId64 ",\"ns\":%" PRId64 "}", name, count, us * 1000);
}

static void put_batch_stats(http_text *t, const char *at)
{
    char rows[24];
    uint64_t n;
    for (bool first = true; next_batch(&at, rows, &n);) {
        if (strcmp(rows, "more") == 0) continue; /* the protocol has a number there */
        http_put(t, "%s{\"batch_size\":%s,\"compute_infer\":{\"count\":%" PRIu64 ",\"ns\":0}}", first ? "" : ",", rows,
                 n);
        first = false;
    }
}

static void put_model_stats(http_text *t, const td_table *models, int r)
{
    int64_t requests = number_in(models, r, "requests"), runs = number_in(models, r, "runs");
    int64_t failed =
        number_in(models, r, "failed") + number_in(models, r, "expired") + number_in(models, r, "cancelled");
    http_put(t, "{\"name\":");
    http_put_quoted(t, text_in(models, r, "name"));
    http_put(t,
             ",\"version\":\"%" PRId64 "\",\"last_inference\":0,\"inference_count\":%" PRId64
             ",\"execution_count\":%" PRId64 ",\"inference_stats\":{",
             number_in(models, r, "version"), number_in(models, r, "rows"), runs);
    put_duration(t, "success", requests, number_in(models, r, "total_us")), http_put(t, ",");
    put_duration(t, "fail", failed, 0), http_put(t, ",");
    put_duration(t, "queue", requests, number_in(models, r, "queue_us")), http_put(t, ",");
    put_duration(t, "compute_input", requests, number_in(models, r, "input_us")), http_put(t, ",");
    put_duration(t, "compute_infer", requests, number_in(models, r, "run_us")), http_put(t, ",");
    put_duration(t, "compute_output", requests, number_in(models, r, "output_us")), http_put(t, ",");
    put_duration(t, "cache_hit", 0, 0), http_put(t, ",");
    put_duration(t, "cache_miss", 0, 0);
    http_put(t, "},\"batch_stats\":[");
    put_batch_stats(t, text_in(models, r, "batches"));
    http_put(t, "],\"memory_usage\":[{\"type\":\"CPU\",\"id\":0,\"byte_size\":%" PRId64 "}]}",
             number_in(models, r, "bytes"));
}

void http_stats(http_front *f, http_exchange *x, const char *name, int version)
{
    http_text t = {0};
    td_table *models = ask(f, x);
    int found = 0;
    if (!models) return;
    http_put(&t, "{\"model_stats\":[");
    for (int r = 0; r < models->rows; r++) {
        if (*name && strcmp(name, text_in(models, r, "name")) != 0) continue;
        if (version && version != number_in(models, r, "version")) continue;
        if (found++) http_put(&t, ",");
        put_model_stats(&t, models, r);
    }
    http_put(&t, "]}");
    td_table_free(models);
    if (found || !*name) {
        http_answer_text(x, 200, NULL, &t);
        return;
    }
    free(t.bytes.at);
    http_refuse(x, 404, "there is no model %.80s", name);
}

void http_index(http_front *f, http_exchange *x, bool ready)
{
    http_text t = {0};
    td_error e = {0};
    if (http_repository_read(f, &e)) {
        http_refuse_for(x, &e);
        return;
    }
    td_table *models = ask(f, x);
    if (!models) return;
    http_repository_put_index(f, models, ready, &t);
    td_table_free(models);
    http_answer_text(x, 200, NULL, &t);
}

/* A name means another version than when it was opened here, or none: its next request opens it anew. */
void http_models_see(http_front *f, const td_table *models)
{
    for (http_model *m = f->models, *next; m; m = next) {
        next = m->next;
        bool there = false;
        for (int r = 0; r < models->rows; r++) {
            if (strcmp(text_in(models, r, "name"), m->name) != 0) continue;
            bool serves = m->version ? number_in(models, r, "version") == m->version : number_in(models, r, "serves");
            there = there || (serves && number_in(models, r, "version") == m->card.version);
        }
        if (!there && http_column(models, "serves") >= 0) m->stale = true;
    }
}
