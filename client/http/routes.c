/* Routes: the meaning of each method and path, and who may ask.
 *
 * Invariant: nothing is done for a request whose token, origin or encoding is refused; a request's body is kept only
 * for those that take one, and never more than its limit. */
#include "client/http/front.h"
#include "client/http_page.h"
#include "proto/base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = HTTP_JSON };

typedef struct call call;
typedef void (*answer_call)(call *c);

struct call {
    http_front *front;
    http_exchange *x;
    http_path path;
    const char *name; /* of a model or a region; "": none */
    int version;
    http_infer *infer;
    answer_call answer;
    char *text; /* of the body */
    size_t n, size;
    td_pickle memory;
    const td_plain *body;
    bool now; /* of a model: as the daemon has it by now */
    td_request *looking;
};

/* ---- who may ask ------------------------------------------------------------------------------------------------ */

static bool equal_in_constant_time(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned char differ = n != m;
    for (size_t i = 0; i < n; i++) differ |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
    return !differ;
}

static bool has_token(const call *c)
{
    const char *want = c->front->options.token, *have = http_header(c->x, "Authorization");
    if (!*want) return true;
    return have && strncasecmp(have, "Bearer ", 7) == 0 && equal_in_constant_time(want, have + 7);
}

/* A page of another site, which a browser on this host has open, sends its Origin along; and a name that such a site
 * makes mean this host is in Host. Neither is a client of ours. */
static bool is_foreign(const call *c)
{
    const char *origin = http_header(c->x, "Origin"), *host = http_header(c->x, "Host");
    if (!origin) return false;
    return !host || strncmp(origin, "http://", 7) != 0 || strcasecmp(origin + 7, host) != 0;
}

/* An address or a name that means this host wherever it is resolved; a port may follow. */
static bool is_this_host(const char *host)
{
    size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (strlen(host) > n && host[n] != ':') return false;
    if (strncmp(host, "127.", 4) == 0) return strspn(host, "0123456789.") == n;
    return (n == 9 && strncasecmp(host, "localhost", n) == 0) || (n == 5 && strncmp(host, "[::1]", n) == 0);
}

/* Sec-Fetch-Site comes where the page is from https or from this host, Origin with what is not GET. */
static bool is_browser(const call *c)
{
    const char *agent = http_header(c->x, "User-Agent");
    return http_header(c->x, "Origin") || http_header(c->x, "Sec-Fetch-Site") ||
           (agent && strncasecmp(agent, "Mozilla/", 8) == 0);
}

/* A web browser resolves a name of an attacker's to 127.0.0.1 when it is told to: only names of this host are ours
 * then. */
static bool is_rebound(const call *c)
{
    const char *host = http_header(c->x, "Host");
    return http_local(c->x) && !*c->front->options.token && host && is_browser(c) && !is_this_host(host);
}

static bool check(call *c, bool open)
{
    const char *encoding = http_header(c->x, "Content-Encoding");
    if (is_foreign(c) || is_rebound(c)) http_refuse(c->x, 403, "this comes from a page of another site");
    else if (!open && !has_token(c)) http_refuse(c->x, 401, "a token is asked for: Authorization: Bearer TOKEN");
    else if (encoding && *encoding && strcasecmp(encoding, "identity") != 0)
        http_refuse(c->x, 415, "Content-Encoding %.40s is not taken: send the body as it is", encoding);
    return !http_answered(c->x);
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static void looked(td_request *r, void *context)
{
    call *c = context;
    td_table *t = td_request_table(r);
    if (t) http_models_see(c->front, t);
    td_table_free(t);
    td_request_free(r);
    c->looking = NULL;
    c->answer(c);
}

/* One that is open here may have gone since, or another one has come. */
static void answer(call *c)
{
    bool known = c->now && http_model_is_open(c->front, c->name, c->version);
    if (known) c->looking = td_async_status(c->front->client, "models", -1, looked, c);
    if (!c->looking) c->answer(c);
}

static void answer_empty(call *c, int status)
{
    http_answer(c->x, &(http_reply){.status = status});
}

static void answer_page(call *c)
{
    struct iovec part = {(void *)http_page, sizeof http_page - 2};
    http_answer(c->x, &(http_reply){.status = 200, .type = "text/html; charset=utf-8", .parts = &part, .nparts = 1});
}

static void answer_server(call *c)
{
    http_text t = {0};
    http_put(&t, "{\"name\":\"tensord\",\"version\":");
    http_put_quoted(&t, td_version());
    http_put(&t, ",\"extensions\":[\"classification\",\"model_repository\",\"schedule_policy\",\"model_configuration\","
                 "\"system_shared_memory\",\"binary_tensor_data\",\"parameters\",\"statistics\"]}");
    http_answer_text(c->x, 200, NULL, &t);
}

static void answer_live(call *c)
{
    answer_empty(c, c->front->lost ? 503 : 200);
}

static void answer_ready(call *c)
{
    char why[HTTP_WHY];
    const http_entry *n = http_repository_unready(c->front);
    if (c->front->lost) http_refuse(c->x, 503, "the daemon has ended");
    else if (!n) answer_empty(c, 200);
    else
        http_refuse(c->x, 503, "%s",
                    has_token(c) ? http_repository_why(n, why) : "a model that was asked for is not ready");
}

static http_model *open_model(call *c)
{
    td_error e = {0};
    http_model *m = http_model_open(c->front, c->name, c->version, &e);
    if (!m) http_refuse_model(c->front, c->x, c->name, &e);
    return m;
}

static void answer_model_ready(call *c)
{
    http_model *m = open_model(c);
    if (!m) return;
    http_model_done(c->front, m);
    answer_empty(c, 200);
}

static void answer_metadata(call *c)
{
    http_model *m = open_model(c);
    http_text t = {0};
    if (!m) return;
    oip_put_metadata(&m->card, &m->card.version, 1, &t);
    http_model_done(c->front, m);
    http_answer_text(c->x, 200, NULL, &t);
}

static void answer_config(call *c)
{
    http_model *m = open_model(c);
    http_text t = {0};
    if (!m) return;
    oip_put_config(&m->card, &t);
    http_model_done(c->front, m);
    http_answer_text(c->x, 200, NULL, &t);
}

static void answer_stats(call *c)
{
    http_stats(c->front, c->x, c->name, c->version);
}

static void answer_metrics(call *c)
{
    http_metrics(c->front, c->x);
}

static void answer_index(call *c)
{
    bool ready;
    if (!http_get_bool(c->body, "ready", false, &ready)) http_refuse(c->x, 400, "ready is true or false");
    else http_index(c->front, c->x, ready);
}

static void answer_load(call *c)
{
    const td_plain *parameters = http_get(c->body, "parameters");
    if (parameters && parameters->kind == TD_PLAIN_DICT && parameters->n)
        http_refuse(c->x, 400, "a model is loaded as its files say: parameters are not taken");
    else http_repository_load(c->front, c->x, c->name);
}

static void answer_unload(call *c)
{
    http_repository_unload(c->front, c->x, c->name);
}

/* ---- shared memory */

static void answer_regions(call *c)
{
    http_text t = {0};
    td_error e = {0};
    if (http_regions_put(&c->front->regions, c->name, &t, &e)) http_refuse_for(c->x, &e), free(t.bytes.at);
    else http_answer_text(c->x, 200, NULL, &t);
}

static void answer_register(call *c)
{
    td_error e = {0};
    const char *key = http_get_text(c->body, "key");
    int64_t offset, size;
    if (!http_local(c->x)) http_refuse(c->x, 403, "shared memory is for clients on this host");
    else if (!key || !http_get_int(c->body, "offset", 0, INT64_MAX / 2, 0, &offset) ||
             !http_get_int(c->body, "byte_size", 0, INT64_MAX / 2, -1, &size) || size < 0)
        http_refuse(c->x, 400, "a region has a key, an offset and a byte_size");
    else if (http_regions_add(&c->front->regions, c->name, key, (uint64_t)offset, (uint64_t)size, &e))
        http_refuse_for(c->x, &e);
    else answer_empty(c, 200);
}

static void answer_unregister(call *c)
{
    http_regions_remove(&c->front->regions, c->name);
    answer_empty(c, 200);
}

static void answer_no_cuda(call *c)
{
    http_refuse(c->x, 400, "there is no CUDA shared memory here");
}

static void answer_no_regions(call *c)
{
    struct iovec part = {(void *)"[]", 2};
    http_answer(c->x, &(http_reply){.status = 200, .parts = &part, .nparts = 1});
}

/* ---- routes ----------------------------------------------------------------------------------------------------- */

/* In a path NAME stands for a model's or a region's, VERSION for a number. */
static const struct route {
    const char *method, *path;
    answer_call answer; /* NULL: infer */
    bool open;          /* without a token */
    bool now;           /* after a look at the daemon's models */
} routes[] = {
    {"GET", "", answer_page, true},
    {"GET", "metrics", answer_metrics, false},
    {"GET", "v2", answer_server, false},
    {"GET", "v2/health/live", answer_live, true},
    {"GET", "v2/health/ready", answer_ready, true},
    {"GET", "v2/models/stats", answer_stats, false},
    {"GET", "v2/models/NAME", answer_metadata, false, true},
    {"GET", "v2/models/NAME/ready", answer_model_ready, false, true},
    {"GET", "v2/models/NAME/config", answer_config, false, true},
    {"GET", "v2/models/NAME/stats", answer_stats, false},
    {"POST", "v2/models/NAME/infer", NULL, false},
    {"GET", "v2/models/NAME/versions/VERSION", answer_metadata, false, true},
    {"GET", "v2/models/NAME/versions/VERSION/ready", answer_model_ready, false, true},
    {"GET", "v2/models/NAME/versions/VERSION/config", answer_config, false, true},
    {"GET", "v2/models/NAME/versions/VERSION/stats", answer_stats, false},
    {"POST", "v2/models/NAME/versions/VERSION/infer", NULL, false},
    {"POST", "v2/repository/index", answer_index, false},
    {"POST", "v2/repository/models/NAME/load", answer_load, false},
    {"POST", "v2/repository/models/NAME/unload", answer_unload, false},
    {"GET", "v2/systemsharedmemory/status", answer_regions, false},
    {"GET", "v2/systemsharedmemory/region/NAME/status", answer_regions, false},
    {"POST", "v2/systemsharedmemory/region/NAME/register", answer_register, false},
    {"POST", "v2/systemsharedmemory/region/NAME/unregister", answer_unregister, false},
    {"POST", "v2/systemsharedmemory/unregister", answer_unregister, false},
    {"GET", "v2/cudasharedmemory/status", answer_no_regions, false},
    {"POST", "v2/cudasharedmemory/unregister", answer_no_regions, false},
    {"POST", "v2/cudasharedmemory/region/NAME/register", answer_no_cuda, false},
};

static bool take_version(const char *text, int *out)
{
    char *end;
    if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 9) return false;
    *out = (int)strtol(text, &end, 10);
    return *out > 0;
}

/* Does the path have this form? */
static bool matches(call *c, const char *form)
{
    int k = 0;
    c->name = "", c->version = 0;
    for (; *form; k++) {
        size_t n = strcspn(form, "/");
        if (k == c->path.n) return false;
        const char *at = c->path.at[k];
        if (strncmp(form, "NAME", n) == 0 && n == 4) c->name = at;
        else if (strncmp(form, "VERSION", n) == 0 && n == 7) {
            if (!take_version(at, &c->version)) return false;
        } else if (strncmp(form, at, n) != 0 || at[n]) return false;
        form += n + (form[n] == '/');
    }
    return k == c->path.n;
}

/* *takes: of a path that is known, what it takes. */
static const struct route *find_route(call *c, const char **takes)
{
    const char *method = http_method(c->x);
    *takes = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (!matches(c, routes[i].path)) continue;
        *takes = routes[i].method;
        bool reads = strcmp(method, "HEAD") == 0 && strcmp(routes[i].method, "GET") == 0;
        if (reads || strcmp(method, routes[i].method) == 0) return &routes[i];
    }
    return NULL;
}

static void take_body(call *c)
{
    uint64_t size = http_length(c->x);
    if (size > MOST_TEXT) {
        http_refuse(c->x, 413, "the text of the request has %" PRIu64 " bytes, more than %d", size, MOST_TEXT);
        return;
    }
    td_error e = {0};
    if (http_charge(c->front, size, &e)) {
        http_refuse_for(c->x, &e);
        return;
    }
    c->size = (size_t)size;
    if (!(c->text = malloc(c->size + 1))) http_refuse(c->x, 503, "no memory for a request");
}

static void on_head(void *context, http_exchange *x)
{
    const char *takes;
    call *c = calloc(1, sizeof *c);
    http_set_mine(x, c);
    if (!c) {
        http_refuse(x, 503, "no memory for a request");
        return;
    }
    c->front = context, c->x = x;
    if (!http_path_read(&c->path, http_target(x))) {
        http_refuse(x, 400, "the path cannot be read");
        return;
    }
    const struct route *r = find_route(c, &takes);
    if (!check(c, r && r->open)) return;
    if (!r && takes) http_refuse(x, 405, "%.20s is not what this path takes; %s is", http_method(x), takes);
    else if (!r)
        http_refuse(x, 404, "there is nothing at %.200s; models are at /v2/models/NAME, as Triton has them",
                    http_target(x));
    else if (!r->answer) c->infer = http_infer_begin(c->front, x, c->name, c->version);
    else c->answer = r->answer, c->now = r->now, take_body(c);
}

static size_t on_body(void *context, http_exchange *x, const char *bytes, size_t n)
{
    (void)context;
    call *c = http_mine(x);
    if (c->infer) return http_infer_body(c->infer, bytes, n);
    if (c->text && n <= c->size - c->n) memcpy(c->text + c->n, bytes, n), c->n += n;
    return n;
}

static void on_whole(void *context, http_exchange *x)
{
    (void)context;
    call *c = http_mine(x);
    td_error e = {0};
    td_plain *body = NULL;
    if (c->infer) {
        http_infer_run(c->infer);
        return;
    }
    uint64_t bytes = http_json_memory(c->text, c->n);
    int rc = http_charge(c->front, bytes, &e);
    if (rc) bytes = 0;
    else rc = http_json_read(&c->memory, c->text, c->n, "the request", &body, &e);
    c->body = body;
    if (rc) http_refuse_for(x, &e);
    else answer(c);
    td_pickle_close(&c->memory);
    http_uncharge(c->front, bytes);
}

static void on_gone(void *context, http_exchange *x)
{
    (void)context;
    call *c = http_mine(x);
    td_request_free(c->looking);
    c->looking = NULL;
    if (c->infer) http_infer_gone(c->infer);
    else http_repository_gone(c->front, x);
}

static void on_over(void *context, http_exchange *x)
{
    http_front *f = context;
    call *c = http_mine(x);
    if (!c) return;
    td_request_free(c->looking);
    http_infer_end(c->infer);
    http_repository_gone(f, x);
    http_uncharge(f, c->size);
    td_pickle_close(&c->memory);
    free(c->text);
    free(c);
}

const http_handler http_routes = {NULL, on_head, on_body, on_whole, on_gone, on_over};
