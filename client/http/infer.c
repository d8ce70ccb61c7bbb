/* A request for a model's answer, from its head to the end of its answer.
 *
 * The text of the request comes into memory of its own; when it is whole the inputs are known, a lease is taken for
 * them, and what follows goes from the door straight to its place there; until the daemon has granted it the rest of
 * the body stays in its socket. Small inputs go with the request to the daemon, since a lease is a request and an
 * answer of its own.
 *
 * Invariant: between two looks at the other connections no more is written than a part of one answer. */
#include "client/http/front.h"
#include "client/tensord_bind.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 32 << 10 /* bytes of inputs */, PART = 2048 /* values that are written at a time */ };

typedef struct answer answer;

struct http_infer {
    http_front *front;
    http_exchange *x;
    http_model *model;
    char *text;
    size_t text_size, text_n;
    oip_request request;
    td_request *leasing; /* until it is granted: */
    td_lease *lease;     /* NULL: its inputs are small */
    char *small;
    char *to; /* the bytes of either */
    td_request *asked;
    uint64_t charged, allowed_us; /* allowed_us: that it may take; 0: as long as it takes */
    bool bare, read, whole;
    answer *answer; /* that is being written */
    http_infer *next;
};

/* False: there is no room, and the request was refused for that. */
static bool charge(http_infer *i, uint64_t bytes)
{
    td_error e = {0};
    if (http_charge(i->front, bytes, &e)) return http_refuse_for(i->x, &e), false;
    i->charged += bytes;
    return true;
}

/* ---- the request ------------------------------------------------------------------------------------------------ */

/* How long the text is: all of the body, or what the header says. */
static bool read_sizes(http_infer *i)
{
    const char *header = http_header(i->x, "Inference-Header-Content-Length");
    uint64_t length = http_length(i->x), size = length;
    char *end;
    if (header) {
        size = strtoull(header, &end, 10);
        if (!*header || *end || strspn(header, "0123456789") != strlen(header) || size > length) {
            http_refuse(i->x, 400, "Inference-Header-Content-Length is %.40s, and the body has %llu bytes", header,
                        (unsigned long long)length);
            return false;
        }
    }
    if (size > HTTP_JSON) {
        http_refuse(i->x, 413, "the text of the request has %llu bytes, more than %d: send values as binary data",
                    (unsigned long long)size, HTTP_JSON);
        return false;
    }
    i->text_size = (size_t)size;
    i->bare = header && size == 0;
    return true;
}

static void lease_came(td_request *r, void *context)
{
    http_infer *i = context;
    i->lease = td_request_lease(r);
    if (i->lease) i->to = td_lease_data(i->lease);
    else http_refuse_for(i->x, td_last_error());
    td_request_free(r);
    i->leasing = NULL;
    if (i->whole && i->to) http_infer_run(i);
    else http_go_on(i->x);
}

static void take_room(http_infer *i)
{
    uint64_t bytes = i->request.lease;
    if (bytes <= SMALL) {
        i->to = i->small = malloc(bytes + 1);
        if (!i->to) http_refuse(i->x, 503, "no memory for a request");
        return;
    }
    td_clear_error();
    if ((i->lease = td_lease_at_hand(i->front->client, bytes))) i->to = td_lease_data(i->lease);
    else i->leasing = td_async_lease(i->front->client, bytes, lease_came, i);
    if (!i->to && !i->leasing) http_refuse_for(i->x, td_last_error());
}

/* The inputs are known: room for them. */
static void take_inputs(http_infer *i)
{
    http_front *f = i->front;
    td_error e = {0};
    i->read = true;
    uint64_t raw = http_length(i->x) - i->text_size;
    if (!i->bare && !charge(i, http_json_memory(i->text, i->text_n))) return;
    int rc = i->bare ? oip_read_bare(&i->request, &i->model->card, raw, &e)
                     : oip_read(&i->request, &i->model->card, i->text, i->text_n, raw, &e);
    if (rc) {
        http_refuse_for(i->x, &e);
        return;
    }
    if (i->request.lease > f->options.limits.body) {
        http_refuse(i->x, 413, "the inputs have %llu bytes, more than the %llu that are taken",
                    (unsigned long long)i->request.lease, (unsigned long long)f->options.limits.body);
        return;
    }
    if (charge(i, i->request.lease)) take_room(i);
}

http_infer *http_infer_begin(http_front *f, http_exchange *x, const char *name, int version)
{
    td_error e = {0};
    http_infer *i = calloc(1, sizeof *i);
    if (!i) return http_refuse(x, 503, "no memory for a request"), NULL;
    *i = (http_infer){.front = f, .x = x};
    if (!(i->model = http_model_open(f, name, version, &e))) return http_refuse_model(f, x, name, &e), i;
    if (!read_sizes(i)) return i;
    if (!charge(i, 2 * i->text_size + sizeof *i)) return i;
    i->text = malloc(i->text_size + 1);
    if (!i->text) http_refuse(x, 503, "no memory for a request");
    else if (i->bare) take_inputs(i);
    return i;
}

size_t http_infer_body(http_infer *i, const char *bytes, size_t n)
{
    if (i->leasing) return 0;
    size_t left = i->text_size - i->text_n, part = n < left ? n : left;
    memcpy(i->text + i->text_n, bytes, part);
    i->text_n += part;
    if (part && part == left) take_inputs(i);
    if (i->leasing) return part;
    if (n > part && i->to && !http_answered(i->x)) oip_take(&i->request, i->to, bytes + part, n - part);
    return n;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

struct answer { /* what an answer's bytes lie in, until they are sent */
    http_front *front;
    oip_result *results;
    oip_written at;
    td_array **out;
    void **copies; /* of outputs that do not lie row by row */
    int n;
    http_text text;
    td_bytes classes;
    struct iovec *parts;
    unsigned nparts;
    uint64_t charged, text_charged;
};

static void free_answer(void *owner)
{
    answer *a = owner;
    if (!a) return;
    for (int k = 0; a->out && k < a->n; k++) td_release(a->out[k]);
    for (int k = 0; a->copies && k < a->n; k++) free(a->copies[k]);
    http_uncharge(a->front, a->charged);
    free(a->out);
    free(a->results);
    free(a->copies);
    free(a->text.bytes.at);
    free(a->classes.at);
    free(a->parts);
    free(a);
}

static answer *new_answer(http_front *f, int outputs)
{
    answer *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    uint64_t room = http_room(f), most = f->options.limits.body;
    *a = (answer){.front = f, .n = outputs, .text.most = room < most ? room + 1 : most}; /* 0 is no bound */
    a->out = calloc((size_t)outputs + 1, sizeof *a->out);
    a->results = calloc((size_t)outputs + 1, sizeof *a->results);
    a->copies = calloc((size_t)outputs + 1, sizeof *a->copies);
    a->parts = calloc(2 * (size_t)outputs + 2, sizeof *a->parts);
    if (a->out && a->results && a->copies && a->parts) return a;
    free_answer(a);
    return NULL;
}

static int charge_answer(answer *a, uint64_t bytes, td_error *e)
{
    int rc = http_charge(a->front, bytes, e);
    if (!rc) a->charged += bytes;
    return rc;
}

/* Views of a batch lie row by row; what does not is copied. Either is there until it was sent. */
static int see_output(answer *a, int k, oip_result *r, td_error *e)
{
    td_array *x = a->out[k];
    *r = (oip_result){.dtype = td_dtype_of(x), .ndim = td_ndim(x), .shape = td_shape(x)};
    r->bytes = r->ndim < 0 ? 0 : (uint64_t)td_nbytes(x);
    if (r->ndim < 0) return *e = *td_last_error(), e->code;
    if (r->bytes == 0) return TD_OK;
    int rc = charge_answer(a, r->bytes, e);
    if (rc) return rc;
    if (td_is_contiguous(x)) return (r->data = td_data(x)) ? TD_OK : (*e = *td_last_error(), e->code);
    void *copy = a->copies[k] = malloc(r->bytes);
    if (!copy) return td_no_memory(e, "for an answer");
    r->data = copy;
    return td_read(x, copy, r->bytes) ? (*e = *td_last_error(), e->code) : TD_OK;
}

static void add_part(answer *a, const void *at, uint64_t n)
{
    if (n) a->parts[a->nparts++] = (struct iovec){(void *)at, n};
}

/* Into regions and behind the text, in the order that was asked for. */
static int place_outputs(http_infer *i, answer *a, const oip_result *results, td_error *e)
{
    const unsigned char *classes = a->classes.at;
    int rc = TD_OK;
    add_part(a, a->text.bytes.at, a->text.bytes.n);
    for (int k = 0; k < i->request.nout && !rc; k++) {
        const oip_output *o = &i->request.out[k];
        const oip_result *r = &results[o->port];
        if (o->region) rc = http_region_write(&i->front->regions, o->region, o->offset, r->data, r->bytes, e);
        else if (o->class_bytes) add_part(a, classes, o->class_bytes), classes += o->class_bytes;
        else if (o->binary && !o->classes) add_part(a, r->data, r->bytes);
    }
    return rc;
}

/* Too long a text is busy when there is no room for it now, and wrong when there never is. */
static int write_part(http_infer *i, answer *a, td_error *e)
{
    int rc = oip_answer_some(&i->request, a->results, &a->at, PART, &a->text, &a->classes, e);
    if (rc == TD_E_QUOTA && a->text.most == i->front->options.limits.body) rc = e->code = TD_E_INVALID;
    uint64_t room = a->text.bytes.room + a->classes.room, more = room - a->text_charged;
    if (!rc && more) rc = charge_answer(a, more, e);
    a->text_charged = room;
    return rc;
}

static bool any_binary(const oip_request *r)
{
    for (int k = 0; k < r->nout; k++)
        if (r->out[k].binary && !r->out[k].region) return true;
    return false;
}

static void send_answer(http_infer *i, answer *a)
{
    bool binary = any_binary(&i->request);
    http_answer(i->x, &(http_reply){.status = 200,
                                    .type = binary ? "application/octet-stream" : NULL,
                                    .json_size = binary ? a->text.bytes.n : 0,
                                    .parts = a->parts,
                                    .nparts = a->nparts,
                                    .let_go = free_answer,
                                    .owner = a});
}

/* ---- an answer in parts: the first in the list is next */

static void leave_list(http_infer *i)
{
    http_infer **at = &i->front->writing;
    while (*at && *at != i) at = &(*at)->next;
    if (*at) *at = i->next;
    i->next = NULL;
}

static void enter_list(http_infer *i)
{
    http_infer **at = &i->front->writing;
    while (*at) at = &(*at)->next;
    *at = i;
}

static void drop_answer(http_infer *i)
{
    leave_list(i);
    free_answer(i->answer);
    i->answer = NULL;
}

/* It is in no list. */
static void write_on(http_infer *i)
{
    td_error e = {0};
    answer *a = i->answer;
    int rc = write_part(i, a, &e);
    if (!rc && !a->at.whole) {
        enter_list(i);
        return;
    }
    i->answer = NULL;
    if (!rc) rc = place_outputs(i, a, a->results, &e);
    if (!rc) {
        send_answer(i, a);
        return;
    }
    http_refuse_for(i->x, &e);
    free_answer(a);
}

bool http_infer_write(http_front *f)
{
    http_infer *i = f->writing;
    if (i) leave_list(i), write_on(i);
    return f->writing;
}

static void send_outputs(http_infer *i, answer *a)
{
    td_error e = {0};
    int rc = TD_OK;
    for (int k = 0; k < a->n && !rc; k++) rc = see_output(a, k, &a->results[k], &e);
    i->answer = a;
    if (!rc) {
        write_on(i);
        return;
    }
    http_refuse_for(i->x, &e);
    drop_answer(i);
}

/* A time that is far too short was meant in other units, as a rule. */
static void refuse_late(http_infer *i, const td_error *why)
{
    td_error e = *why;
    const char *hint = i->allowed_us < 1000 ? ", where 5 s are 5000000" : "";
    if (i->allowed_us)
        td_fail(&e, TD_E_TIMEOUT, "%.250s; %s allows %llu microseconds%s", why->message,
                i->request.timeout_us ? "the request's parameter timeout" : "the model's config.pbtxt",
                (unsigned long long)i->allowed_us, hint);
    http_refuse_for(i->x, &e);
}

/* With the node at which a run failed. */
static void refuse_failed(http_infer *i, const td_error *why)
{
    td_error e = *why;
    if (why->where[0])
        td_fail(&e, (td_code)why->code, "%s%s%.320s, at %s", why->op, why->op[0] ? ": " : "", why->message, why->where);
    http_refuse_for(i->x, &e);
}

static void came(td_request *asked, void *context)
{
    http_infer *i = context;
    http_uncharge(i->front, i->request.lease); /* the model has read its inputs */
    i->charged -= i->request.lease;
    answer *a = new_answer(i->front, i->model->card.nout);
    int rc = td_request_result(asked);
    if (!rc && a) rc = td_request_arrays(asked, a->n, a->out);
    if (rc == TD_E_NOT_FOUND || rc == TD_E_CLOSED) i->model->stale = true;
    if (rc || !a) {
        if (rc == TD_E_TIMEOUT) refuse_late(i, td_last_error());
        else if (rc) refuse_failed(i, td_last_error());
        else http_refuse(i->x, 503, "no memory for an answer");
        free_answer(a);
    } else send_outputs(i, a);
    td_request_free(asked);
    i->asked = NULL;
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static int bring_regions(http_infer *i, td_error *e)
{
    int rc = TD_OK;
    for (int k = 0; k < i->model->card.nin && !rc; k++) {
        const oip_input *in = &i->request.in[k];
        if (in->from != OIP_REGION) continue;
        rc = http_local(i->x)
                 ? http_region_read(&i->front->regions, in->region, in->offset, i->to + in->place, in->bytes, e)
                 : td_fail(e, TD_E_PERMISSION, "shared memory is for clients on this host");
    }
    for (int k = 0; k < i->request.nout && !rc; k++)
        if (i->request.out[k].region && !http_local(i->x))
            rc = td_fail(e, TD_E_PERMISSION, "shared memory is for clients on this host");
    return rc;
}

/* Triton's levels begin with 1, which comes first. A request that names none has the default one, or comes behind those
 * that do, together with requests of other processes. */
static int priority_of(int level, const http_entry *entry)
{
    enum { LEVELS = 31 }; /* that there are above the usual one */
    int64_t usual = entry && entry->level ? entry->level : level < LEVELS ? LEVELS + 1 : (int64_t)level + 1;
    return level ? (int)(usual - level) : 0;
}

static void let_inputs_go(http_infer *i)
{
    td_lease_free(i->lease);
    free(i->small);
    i->lease = NULL, i->small = i->to = NULL;
}

static td_array *make_input(const http_infer *i, int k)
{
    const oip_input *from = &i->request.in[k];
    td_dtype dtype = i->model->card.in[k].dtype;
    td_ints shape = td_dims_of(from->ndim, from->shape);
    if (i->lease) return td_put(i->lease, from->place, dtype, shape);
    return td_from_data(i->front->client, dtype, shape, i->to + from->place);
}

static void ask(http_infer *i, td_array **in)
{
    const oip_card *card = &i->model->card;
    const http_entry *entry = http_repository_find(i->front, i->model->name);
    td_infer_options how = {.size = sizeof how, .timeout_us = i->request.timeout_us};
    for (int k = 0; k < card->nin; k++) in[k] = make_input(i, k);
    let_inputs_go(i);
    if (!how.timeout_us && entry) how.timeout_us = (uint64_t)entry->timeout_us;
    i->allowed_us = how.timeout_us;
    how.priority = priority_of(i->request.priority, entry);
    i->asked = td_async_infer(i->model->handle, td_arrays_of(card->nin, in), &how, came, i);
    td_error e = *td_last_error();
    for (int k = 0; k < card->nin; k++) td_release(in[k]);
    if (!i->asked) http_refuse_for(i->x, &e);
}

void http_infer_run(http_infer *i)
{
    td_error e = {0};
    if (!i->read) take_inputs(i); /* a body without a byte */
    i->whole = true;
    if (http_answered(i->x) || i->leasing) return;
    td_array **in = calloc((size_t)i->model->card.nin + 1, sizeof *in);
    int rc = in ? oip_fill(&i->request, i->to, &e) : td_no_memory(&e, "for a request");
    if (!rc) rc = bring_regions(i, &e);
    if (rc) http_refuse_for(i->x, &e);
    else ask(i, in);
    free(in);
}

/* Nobody waits for what was asked for it. */
void http_infer_gone(http_infer *i)
{
    td_request_free(i->asked);
    td_request_free(i->leasing);
    i->asked = i->leasing = NULL;
    drop_answer(i);
}

void http_infer_end(http_infer *i)
{
    if (!i) return;
    http_infer_gone(i);
    let_inputs_go(i);
    oip_close(&i->request);
    if (i->model) http_model_done(i->front, i->model);
    http_uncharge(i->front, i->charged);
    free(i->text);
    free(i);
}
