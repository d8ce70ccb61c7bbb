/* See pbtxt.h: protobuf's text format, and the fields of Triton's ModelConfig. */
#include "client/http/pbtxt.h"
#include "proto/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct reader {
    const char *at, *end;
    int line;
    const char *what;
    pbtxt_config *c;
    td_error *e;
} reader;

typedef int (*take_field)(reader *r, void *into, const char *name);

static int wrong(reader *r, const char *name, const char *why)
{
    return td_fail(r->e, TD_E_INVALID, "%.200s:%d: %.60s: %s", r->what, r->line, name, why);
}

/* ---- the text format -------------------------------------------------------------------------------------------- */

static void skip_space(reader *r)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#')
            while (r->at + 1 < r->end && r->at[1] != '\n') r->at++;
        else if (*r->at == '\n') r->line++;
        else if (!strchr(" \t\r\f\v", *r->at) || !*r->at) return;
    }
}

static bool take(reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-' || c == '+';
}

/* A name, a number or an enum's word. */
static int take_word(reader *r, const char *name, char *out, size_t size)
{
    skip_space(r);
    size_t n = 0;
    while (r->at + n < r->end && in_word(r->at[n])) n++;
    if (n == 0) return wrong(r, name, r->at == r->end ? "the text ends here" : "a word is expected");
    if (n >= size) return wrong(r, name, "a word is too long");
    memcpy(out, r->at, n);
    out[n] = 0;
    r->at += n;
    return TD_OK;
}

static int take_escape(reader *r, const char *name, char *out)
{
    static const char from[] = "nrtabfv\\'\"?", into[] = "\n\r\t\a\b\f\v\\'\"?";
    if (r->at == r->end) return wrong(r, name, "a text does not end");
    char c = *r->at++;
    const char *known = c ? strchr(from, c) : NULL;
    int v = 0, n = 0;
    if (known) return *out = into[known - from], TD_OK;
    if (c == 'x' || c == 'X') {
        for (; n < 2 && r->at < r->end && strchr("0123456789abcdefABCDEF", *r->at) && *r->at; n++, r->at++)
            v = v * 16 + (*r->at <= '9' ? *r->at - '0' : (*r->at | 32) - 'a' + 10);
    } else {
        for (r->at--; n < 3 && r->at < r->end && *r->at >= '0' && *r->at <= '7'; n++, r->at++) v = v * 8 + *r->at - '0';
    }
    if (n == 0 || v == 0 || v > 255) return wrong(r, name, "an escape in a text is not known");
    *out = (char)v;
    return TD_OK;
}

/* Texts behind each other are one. `out` NULL: it is not kept. */
static int take_text(reader *r, const char *name, char *out, size_t size)
{
    size_t n = 0;
    skip_space(r);
    if (r->at == r->end || (*r->at != '"' && *r->at != '\'')) return wrong(r, name, "a text in quotes is expected");
    for (; r->at < r->end && (*r->at == '"' || *r->at == '\''); skip_space(r)) {
        char quote = *r->at++;
        for (;;) {
            if (r->at == r->end || *r->at == '\n' || !*r->at) return wrong(r, name, "a text does not end");
            char c = *r->at++;
            if (c == quote) break;
            if (c == '\\' && take_escape(r, name, &c)) return TD_E_INVALID;
            if (out && n + 1 >= size) return wrong(r, name, "a text is too long");
            if (out) out[n++] = c;
        }
    }
    if (out) out[n] = 0;
    return TD_OK;
}

static int take_colon(reader *r, const char *name)
{
    return take(r, ':') ? TD_OK : wrong(r, name, "a colon is expected");
}

static int take_fields(reader *r, char close, take_field field, void *into)
{
    for (;;) {
        char name[64];
        while (take(r, ',') || take(r, ';')) continue;
        skip_space(r);
        if (r->at == r->end) return close ? wrong(r, "the end", "a brace is open") : TD_OK;
        if (close && take(r, close)) return TD_OK;
        int rc = take_word(r, "a field", name, sizeof name);
        if (!rc) rc = field(r, into, name);
        if (rc) return rc;
    }
}

static int take_message(reader *r, const char *name, take_field field, void *into)
{
    take(r, ':');
    if (take(r, '{')) return take_fields(r, '}', field, into);
    if (take(r, '<')) return take_fields(r, '>', field, into);
    return wrong(r, name, "a brace is expected");
}

/* Any value, and all that is in it. */
static int skip_value(reader *r, const char *name, int depth);

static int skip_fields(reader *r, char close, int depth)
{
    for (;;) {
        char name[64];
        while (take(r, ',') || take(r, ';')) continue;
        skip_space(r);
        if (r->at == r->end) return wrong(r, "the end", "a brace is open");
        if (take(r, close)) return TD_OK;
        int rc = take_word(r, "a field", name, sizeof name);
        if (!rc) rc = skip_value(r, name, depth + 1);
        if (rc) return rc;
    }
}

static int skip_list(reader *r, const char *name, int depth)
{
    if (take(r, ']')) return TD_OK;
    do {
        int rc = skip_value(r, name, depth + 1);
        if (rc) return rc;
    } while (take(r, ','));
    return take(r, ']') ? TD_OK : wrong(r, name, "a list does not end");
}

static int skip_value(reader *r, const char *name, int depth)
{
    char word[256];
    if (depth > PBTXT_LEVELS) return wrong(r, name, "it is nested too deep");
    take(r, ':');
    if (take(r, '{')) return skip_fields(r, '}', depth);
    if (take(r, '<')) return skip_fields(r, '>', depth);
    if (take(r, '[')) return skip_list(r, name, depth);
    if (r->at < r->end && (*r->at == '"' || *r->at == '\'')) return take_text(r, name, NULL, 0);
    return take_word(r, name, word, sizeof word);
}

static int take_int_here(reader *r, const char *name, int64_t least, int64_t most, int64_t *out)
{
    char word[32], *end;
    int rc = take_word(r, name, word, sizeof word);
    if (rc) return rc;
    errno = 0;
    long long v = strtoll(word, &end, 0);
    if (errno || *end || v < least || v > most) return wrong(r, name, "a number is not in its bounds");
    *out = v;
    return TD_OK;
}

static int take_int(reader *r, const char *name, int64_t least, int64_t most, int64_t *out)
{
    int rc = take_colon(r, name);
    return rc ? rc : take_int_here(r, name, least, most, out);
}

static int take_ints(reader *r, const char *name, int64_t least, int64_t most, int64_t *out, int room, int *n)
{
    int rc = take_colon(r, name);
    bool list = !rc && take(r, '[');
    if (rc || (list && take(r, ']'))) return rc;
    do {
        if (*n == room) return wrong(r, name, "there are too many numbers");
        if ((rc = take_int_here(r, name, least, most, &out[*n]))) return rc;
        ++*n;
    } while (list && take(r, ','));
    return !list || take(r, ']') ? TD_OK : wrong(r, name, "a list does not end");
}

static int take_word_field(reader *r, const char *name, char *out, size_t size)
{
    int rc = take_colon(r, name);
    return rc ? rc : take_word(r, name, out, size);
}

static int take_bool(reader *r, const char *name, bool *out)
{
    char word[16];
    int rc = take_word_field(r, name, word, sizeof word);
    if (rc) return rc;
    *out = strcmp(word, "true") == 0 || strcmp(word, "True") == 0 || strcmp(word, "t") == 0 || strcmp(word, "1") == 0;
    if (!*out && strcmp(word, "false") != 0 && strcmp(word, "False") != 0 && strcmp(word, "f") != 0 &&
        strcmp(word, "0") != 0)
        return wrong(r, name, "true or false is expected");
    return TD_OK;
}

static int take_text_field(reader *r, const char *name, char *out, size_t size)
{
    int rc = take_colon(r, name);
    return rc ? rc : take_text(r, name, out, size);
}

/* A repeated message: one, or a list of them. */
static int take_each(reader *r, const char *name, take_field field, int (*begin)(reader *, const char *, void **),
                     void *any)
{
    void *into = any;
    take(r, ':');
    bool list = take(r, '[');
    if (list && take(r, ']')) return TD_OK;
    do {
        int rc = begin ? begin(r, name, &into) : TD_OK;
        if (!rc) rc = take_message(r, name, field, into);
        if (rc) return rc;
    } while (list && take(r, ','));
    return !list || take(r, ']') ? TD_OK : wrong(r, name, "a list does not end");
}

static bool is(const char *name, const char *const *list)
{
    while (*list && strcmp(name, *list) != 0) list++;
    return *list != NULL;
}

/* ---- fields ----------------------------------------------------------------------------------------------------- */

static int refused(reader *r, const char *name)
{
    return wrong(r, name, "this is not known here, and would change results");
}

static int unwanted(reader *r, const char *name, bool wanted)
{
    bool on = false;
    int rc = take_bool(r, name, &on);
    return rc ? rc : on == wanted ? TD_OK : refused(r, name);
}

static int port_field(reader *r, void *into, const char *name)
{
    static const char *const left[] = {"format", "label_filename", NULL}, *const off[] = {
                                                                              "is_shape_tensor", "allow_ragged_batch",
                                                                              "optional", "is_non_linear_format_io",
                                                                              NULL};
    pbtxt_port *p = into;
    char word[32];
    if (strcmp(name, "name") == 0) return take_text_field(r, name, p->name, sizeof p->name);
    if (strcmp(name, "dims") == 0) {
        if (p->ndim < 0) p->ndim = 0;
        return take_ints(r, name, -1, INT64_MAX, p->dims, TD_MAX_DIMS, &p->ndim);
    }
    if (strcmp(name, "data_type") == 0) {
        int rc = take_word_field(r, name, word, sizeof word);
        if (rc) return rc;
        p->dtype = strncmp(word, "TYPE_", 5) == 0 ? oip_dtype_parse(word + 5) : TD_DTYPE_NONE;
        return p->dtype == TD_DTYPE_NONE ? wrong(r, name, "this is no type of tensors here") : TD_OK;
    }
    if (is(name, left)) return skip_value(r, name, 0);
    return is(name, off) ? unwanted(r, name, false) : refused(r, name);
}

static int begin_port(reader *r, pbtxt_port **ports, int *n, const char *name, void **into)
{
    if (!*ports && !(*ports = calloc(PBTXT_PORTS, sizeof **ports))) return td_no_memory(r->e, "for %s", r->what);
    if (*n == PBTXT_PORTS) return wrong(r, name, "there are too many");
    pbtxt_port *p = &(*ports)[(*n)++];
    p->ndim = -1, p->dtype = TD_DTYPE_NONE, p->line = r->line;
    *into = p;
    return TD_OK;
}

static int begin_input(reader *r, const char *name, void **into)
{
    return begin_port(r, &r->c->in, &r->c->nin, name, into);
}

static int begin_output(reader *r, const char *name, void **into)
{
    return begin_port(r, &r->c->out, &r->c->nout, name, into);
}

static int latest_field(reader *r, void *into, const char *name)
{
    pbtxt_config *c = into;
    int64_t n = 1;
    if (strcmp(name, "num_versions") != 0) return refused(r, name);
    int rc = take_int(r, name, 1, PBTXT_VERSIONS, &n);
    c->latest = (int)n;
    return rc;
}

static int specific_field(reader *r, void *into, const char *name)
{
    pbtxt_config *c = into;
    if (strcmp(name, "versions") != 0) return refused(r, name);
    return take_ints(r, name, 1, INT32_MAX, c->versions, PBTXT_VERSIONS, &c->nversions);
}

static int no_field(reader *r, void *into, const char *name)
{
    (void)into;
    return refused(r, name);
}

static int policy_field(reader *r, void *into, const char *name)
{
    pbtxt_config *c = into;
    if (strcmp(name, "latest") == 0) return c->policy = PBTXT_LATEST, take_message(r, name, latest_field, c);
    if (strcmp(name, "all") == 0) return c->policy = PBTXT_ALL, take_message(r, name, no_field, c);
    if (strcmp(name, "specific") == 0) return c->policy = PBTXT_SPECIFIC, take_message(r, name, specific_field, c);
    return refused(r, name);
}

static int queue_field(reader *r, void *into, const char *name)
{
    pbtxt_config *c = into;
    char word[16];
    bool on;
    if (strcmp(name, "max_queue_size") == 0) return take_int(r, name, 0, INT32_MAX, &c->queue);
    if (strcmp(name, "default_timeout_microseconds") == 0) return take_int(r, name, 0, INT64_MAX, &c->timeout_us);
    if (strcmp(name, "allow_timeout_override") == 0) return take_bool(r, name, &on);
    if (strcmp(name, "timeout_action") != 0) return refused(r, name);
    int rc = take_word_field(r, name, word, sizeof word);
    if (rc) return rc;
    return strcmp(word, "REJECT") == 0 || strcmp(word, "0") == 0
               ? TD_OK
               : wrong(r, name, "what expired is rejected here, and nothing else");
}

static int batching_field(reader *r, void *into, const char *name)
{
    static const char *const left[] = {"preserve_ordering", "priority_levels", "priority_queue_policy", NULL};
    pbtxt_config *c = into;
    if (strcmp(name, "preferred_batch_size") == 0) {
        int64_t sizes[PBTXT_VERSIONS];
        int n = 0, rc = take_ints(r, name, 1, INT32_MAX, sizes, PBTXT_VERSIONS, &n);
        for (int i = 0; !rc && i < n; i++)
            if (sizes[i] > c->preferred) c->preferred = sizes[i];
        return rc;
    }
    if (strcmp(name, "max_queue_delay_microseconds") == 0) return take_int(r, name, 0, INT32_MAX, &c->delay_us);
    if (strcmp(name, "default_priority_level") == 0) return take_int(r, name, 0, INT32_MAX, &c->level);
    if (strcmp(name, "default_queue_policy") == 0) return take_message(r, name, queue_field, c);
    return is(name, left) ? skip_value(r, name, 0) : refused(r, name);
}

static int instance_field(reader *r, void *into, const char *name)
{
    static const char *const left[] = {"name", "gpus", "rate_limiter", "profile", "host_policy", NULL};
    pbtxt_config *c = into;
    char word[32];
    if (strcmp(name, "count") == 0) {
        int64_t n = 1;
        int rc = take_int(r, name, 1, 1024, &n);
        c->instances += n;
        return rc;
    }
    if (strcmp(name, "kind") == 0) {
        int rc = take_word_field(r, name, word, sizeof word);
        if (rc) return rc;
        return strcmp(word, "KIND_CPU") == 0 || strcmp(word, "KIND_AUTO") == 0
                   ? TD_OK
                   : wrong(r, name, "models run on the processor here: KIND_CPU");
    }
    return is(name, left) ? skip_value(r, name, 0) : refused(r, name);
}

static int transaction_field(reader *r, void *into, const char *name)
{
    (void)into;
    return strcmp(name, "decoupled") == 0 ? unwanted(r, name, false) : refused(r, name);
}

/* Names of programs that run ONNX files elsewhere are well. */
static int take_backend(reader *r, const char *name)
{
    static const char *const known[] = {"", "onnxruntime_onnx", "onnxruntime", "onnx", "tensord", "tensord_onnx", NULL};
    char text[64];
    int rc = take_text_field(r, name, text, sizeof text);
    return rc                ? rc
           : is(text, known) ? TD_OK
                             : wrong(r, name, "models are ONNX files here: onnxruntime, onnx or tensord");
}

static int config_field(reader *r, void *into, const char *name)
{
    static const char *const left[] = {
        "runtime",        "optimization",       "metric_tags",   "parameters", "model_warmup",
        "response_cache", "cc_model_filenames", "model_metrics", NULL};
    pbtxt_config *c = into;
    if (strcmp(name, "name") == 0) return take_text_field(r, name, c->name, sizeof c->name);
    if (strcmp(name, "default_model_filename") == 0) return take_text_field(r, name, c->file, sizeof c->file);
    if (strcmp(name, "platform") == 0 || strcmp(name, "backend") == 0) return take_backend(r, name);
    if (strcmp(name, "max_batch_size") == 0) return take_int(r, name, 0, INT32_MAX, &c->max_batch);
    if (strcmp(name, "version_policy") == 0) return take_message(r, name, policy_field, c);
    if (strcmp(name, "input") == 0) return take_each(r, name, port_field, begin_input, NULL);
    if (strcmp(name, "output") == 0) return take_each(r, name, port_field, begin_output, NULL);
    if (strcmp(name, "instance_group") == 0) return take_each(r, name, instance_field, NULL, c);
    if (strcmp(name, "dynamic_batching") == 0) return c->dynamic = true, take_message(r, name, batching_field, c);
    if (strcmp(name, "model_transaction_policy") == 0) return take_message(r, name, transaction_field, c);
    return is(name, left) ? skip_value(r, name, 0) : refused(r, name);
}

int pbtxt_read(pbtxt_config *c, const char *text, size_t n, const char *what, td_error *e)
{
    *c = (pbtxt_config){.max_batch = -1, .latest = 1};
    reader r = {text, text + n, 1, what, c, e};
    return take_fields(&r, 0, config_field, c);
}

/* Less than `size` bytes when the file has become shorter; -1: errno says why. */
static ssize_t read_all(int fd, char *to, size_t size)
{
    size_t n = 0;
    while (n < size) {
        ssize_t k = read(fd, to + n, size - n);
        if (k == 0) break;
        if (k < 0 && errno != EINTR) return -1;
        if (k > 0) n += (size_t)k;
    }
    return (ssize_t)n;
}

static int read_file(pbtxt_config *c, int fd, const char *path, td_error *e)
{
    struct stat s;
    if (fstat(fd, &s)) return td_fail_errno(e, errno, "%.200s", path);
    if (!S_ISREG(s.st_mode) || s.st_size > PBTXT_BYTES)
        return td_fail(e, TD_E_INVALID, "%.200s is no file of at most %d bytes", path, PBTXT_BYTES);
    char *text = malloc((size_t)s.st_size + 1);
    if (!text) return td_no_memory(e, "for a configuration");
    ssize_t n = read_all(fd, text, (size_t)s.st_size);
    int rc = n < 0 ? td_fail_errno(e, errno, "%.200s", path) : pbtxt_read(c, text, (size_t)n, path, e);
    free(text);
    return rc;
}

int pbtxt_open(pbtxt_config *c, const char *path, bool *there, td_error *e)
{
    *c = (pbtxt_config){.max_batch = -1, .latest = 1};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe waits for nobody */
    *there = fd >= 0 || errno != ENOENT;
    if (fd < 0) return *there ? td_fail_errno(e, errno, "%.200s", path) : TD_OK;
    int rc = read_file(c, fd, path, e);
    close(fd);
    return rc;
}

void pbtxt_close(pbtxt_config *c)
{
    free(c->in);
    free(c->out);
    c->in = c->out = NULL;
}

/* ---- beside the card -------------------------------------------------------------------------------------------- */

static int check_port(const pbtxt_config *c, const pbtxt_port *p, const oip_port *ports, int n, const char *what,
                      td_error *e)
{
    int k = 0;
    while (k < n && strcmp(ports[k].name, p->name) != 0) k++;
    if (k == n) return td_fail(e, TD_E_INVALID, "%.200s:%d: the model has no %.80s", what, p->line, p->name);
    if (p->dtype != TD_DTYPE_NONE && p->dtype != ports[k].dtype)
        return td_fail(e, TD_E_INVALID, "%.200s:%d: %.80s is %s in the model", what, p->line, p->name,
                       oip_dtype_name(ports[k].dtype) ? oip_dtype_name(ports[k].dtype) : "of another type");
    int without = c->max_batch > 0; /* dims leave the rows out */
    if (p->ndim < 0 || ports[k].ndim < 0) return TD_OK;
    bool fits = p->ndim + without == ports[k].ndim;
    for (int i = 0; fits && i < p->ndim; i++) {
        int64_t want = ports[k].shape[i + without];
        fits = want < 0 || p->dims[i] < 0 || want == p->dims[i];
    }
    return fits ? TD_OK
                : td_fail(e, TD_E_INVALID, "%.200s:%d: %.80s has other dims in the model%s", what, p->line, p->name,
                          without ? " (max_batch_size stands for the first)" : "");
}

int pbtxt_check(const pbtxt_config *c, const oip_card *card, const char *what, td_error *e)
{
    int rc = TD_OK;
    for (int i = 0; !rc && i < c->nin; i++) rc = check_port(c, &c->in[i], card->in, card->nin, what, e);
    for (int i = 0; !rc && i < c->nout; i++) rc = check_port(c, &c->out[i], card->out, card->nout, what, e);
    return rc;
}
