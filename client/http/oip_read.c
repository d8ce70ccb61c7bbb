/* See oip.h: what a request says, checked against a model's card. */
#include "client/http/oip.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { APART = 64 /* inputs begin at multiples of it in the lease */, MOST_ASKED = 4096 /* outputs */ };

static int refuse(td_error *e, const char *what, const char *name, const char *why)
{
    return td_fail(e, TD_E_INVALID, "%s %.80s: %s", what, name, why);
}

static int find(const oip_port *ports, int n, const char *name)
{
    for (int i = 0; name && i < n; i++)
        if (strcmp(ports[i].name, name) == 0) return i;
    return -1;
}

/* "a, b, c", for messages. */
static const char *list_ports(const oip_port *ports, int n, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%.60s", i ? ", " : "", ports[i].name);
    return out;
}

static const char *sizes_text(const int64_t *shape, int n, char out[128])
{
    size_t at = (size_t)snprintf(out, 128, "[");
    for (int i = 0; i < n && at < 100; i++)
        at += (size_t)snprintf(out + at, 128 - at, shape[i] < 0 ? "%sany" : "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(out + at, 128 - at, "]");
    return out;
}

/* ---- inputs */

static bool fits(const oip_port *p, const oip_input *in)
{
    if (p->ndim >= 0 && p->ndim != in->ndim) return false;
    for (int i = 0; i < p->ndim; i++)
        if (p->shape[i] >= 0 && p->shape[i] != in->shape[i]) return false;
    return true;
}

static int read_sizes(oip_input *in, const oip_port *p, const td_plain *shape, td_error *e)
{
    char want[128], came[128];
    if (!shape || shape->kind != TD_PLAIN_LIST) return refuse(e, "input", p->name, "its shape is no list");
    if (shape->n > TD_MAX_DIMS) return refuse(e, "input", p->name, "its shape has more than 8 sizes");
    uint64_t bytes = td_dtype_size(p->dtype);
    in->ndim = (int)shape->n;
    for (uint32_t i = 0; i < shape->n; i++) {
        const td_plain *size = shape->items[i];
        if (size->kind != TD_PLAIN_INT || size->i < 0)
            return refuse(e, "input", p->name, "a size of its shape is no number from 0 on");
        in->shape[i] = size->i;
        if (__builtin_mul_overflow(bytes, (uint64_t)size->i, &bytes) || bytes > INT64_MAX / 2)
            return refuse(e, "input", p->name, "its shape has too many values");
    }
    in->bytes = bytes;
    if (fits(p, in)) return TD_OK;
    return td_fail(e, TD_E_SHAPE, "input %.80s has the shape %s, and the model takes %s", p->name,
                   sizes_text(in->shape, in->ndim, came), sizes_text(p->shape, p->ndim, want));
}

/* Where its values are: in exactly one place. */
static int read_place(oip_input *in, const oip_port *p, const td_plain *x, td_error *e)
{
    const td_plain *parameters = http_get(x, "parameters");
    int64_t binary, room, offset;
    in->data = http_get(x, "data"), in->region = http_get_text(parameters, "shared_memory_region");
    if (!http_get_int(parameters, "binary_data_size", 0, INT64_MAX, -1, &binary) ||
        !http_get_int(parameters, "shared_memory_byte_size", 0, INT64_MAX, -1, &room) ||
        !http_get_int(parameters, "shared_memory_offset", 0, INT64_MAX, 0, &offset))
        return refuse(e, "input", p->name, "a size in its parameters is no number from 0 on");
    if ((in->data != NULL) + (in->region != NULL) + (binary >= 0) != 1)
        return refuse(e, "input", p->name, "its values are in one of data, binary_data_size and shared_memory_region");
    if (in->data && td_dtype_size(p->dtype) == 2 && td_dtype_is_float(p->dtype))
        return refuse(e, "input", p->name, "FP16 and BF16 are sent as binary data");
    uint64_t bytes = in->region ? (uint64_t)room : in->data ? in->bytes : (uint64_t)binary;
    if (in->region && room < 0) return refuse(e, "input", p->name, "its region has no shared_memory_byte_size");
    if (bytes != in->bytes)
        return td_fail(e, TD_E_INVALID, "input %.80s has %" PRIu64 " bytes, and its shape says %" PRIu64, p->name,
                       bytes, in->bytes);
    in->from = in->data ? OIP_JSON : in->region ? OIP_REGION : OIP_BINARY;
    in->offset = (uint64_t)offset;
    return TD_OK;
}

static int read_input(oip_request *r, const td_plain *x, td_error *e)
{
    char all[256];
    const char *name = http_get_text(x, "name"), *dtype = http_get_text(x, "datatype");
    int port = find(r->card->in, r->card->nin, name);
    if (!name) return td_fail(e, TD_E_INVALID, "an input has no name");
    if (port < 0)
        return td_fail(e, TD_E_INVALID, "input %.80s is none of the model's: %s", name,
                       list_ports(r->card->in, r->card->nin, all, sizeof all));
    const oip_port *p = &r->card->in[port];
    oip_input *in = &r->in[port];
    if (in->from != OIP_NOWHERE) return refuse(e, "input", name, "it stands there twice");
    if (!dtype || oip_dtype_parse(dtype) != p->dtype || p->dtype == TD_DTYPE_NONE)
        return td_fail(e, TD_E_TYPE, "input %.80s has the datatype %.20s, and the model takes %s", name,
                       dtype ? dtype : "(none)",
                       oip_dtype_name(p->dtype) ? oip_dtype_name(p->dtype) : "none that is known here");
    int rc = read_sizes(in, p, http_get(x, "shape"), e);
    if (!rc) rc = read_place(in, p, x, e);
    if (!rc && in->from == OIP_BINARY) {
        r->binary[r->nbinary++] = port;
        if (__builtin_add_overflow(r->raw, in->bytes, &r->raw)) rc = refuse(e, "input", name, "too many bytes");
    }
    return rc;
}

/* Places in the lease, in the card's order, and that none is missing. */
static int place_inputs(oip_request *r, td_error *e)
{
    for (int i = 0; i < r->card->nin; i++) {
        oip_input *in = &r->in[i];
        if (in->from == OIP_NOWHERE) return refuse(e, "input", r->card->in[i].name, "it is missing");
        in->place = r->lease;
        if (in->bytes > INT64_MAX / 4 || r->lease > INT64_MAX / 4)
            return refuse(e, "input", r->card->in[i].name, "too many bytes");
        r->lease += (in->bytes + APART - 1) / APART * APART;
    }
    return TD_OK;
}

/* ---- outputs */

/* `binary`: what it is when it says nothing. */
static int read_output(oip_request *r, const td_plain *x, bool binary, td_error *e)
{
    char all[256];
    const char *name = http_get_text(x, "name");
    const td_plain *parameters = http_get(x, "parameters");
    oip_output out = {.port = find(r->card->out, r->card->nout, name)};
    int64_t offset, room;
    if (!name) return td_fail(e, TD_E_INVALID, "an output has no name");
    if (out.port < 0)
        return td_fail(e, TD_E_INVALID, "output %.80s is none of the model's: %s", name,
                       list_ports(r->card->out, r->card->nout, all, sizeof all));
    for (int i = 0; i < r->nout; i++)
        if (r->out[i].port == out.port) return refuse(e, "output", name, "it stands there twice");
    out.region = http_get_text(parameters, "shared_memory_region");
    if (!http_get_bool(parameters, "binary_data", binary, &out.binary) ||
        !http_get_int(parameters, "classification", 0, INT32_MAX, 0, &out.classes) ||
        !http_get_int(parameters, "shared_memory_byte_size", 0, INT64_MAX, -1, &room) ||
        !http_get_int(parameters, "shared_memory_offset", 0, INT64_MAX, 0, &offset))
        return refuse(e, "output", name, "its parameters are not what the protocol says");
    if (out.region && (room < 0 || out.classes))
        return refuse(e, "output", name,
                      room < 0 ? "its region has no shared_memory_byte_size" : "classes go into no region");
    out.room = (uint64_t)room, out.offset = (uint64_t)offset;
    r->out[r->nout++] = out;
    return TD_OK;
}

static int read_outputs(oip_request *r, const td_plain *list, bool binary, td_error *e)
{
    if (list && list->kind != TD_PLAIN_LIST) return td_fail(e, TD_E_INVALID, "the outputs are no list");
    if (!list || list->n == 0) { /* all */
        r->nout = r->card->nout;
        for (int i = 0; i < r->nout; i++) r->out[i] = (oip_output){.port = i, .binary = binary};
        return TD_OK;
    }
    if (list->n > (uint32_t)r->card->nout) return td_fail(e, TD_E_INVALID, "more outputs than the model has");
    r->nout = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        int rc = read_output(r, list->items[i], binary, e);
        if (rc) return rc;
    }
    return TD_OK;
}

/* ---- requests */

static int begin(oip_request *r, const oip_card *card, td_error *e)
{
    *r = (oip_request){.card = card};
    r->in = calloc((size_t)card->nin + 1, sizeof *r->in);
    r->binary = calloc((size_t)card->nin + 1, sizeof *r->binary);
    r->out = calloc((size_t)card->nout + 1, sizeof *r->out);
    return r->in && r->binary && r->out ? TD_OK : td_no_memory(e, "for a request");
}

static int read_parameters(oip_request *r, const td_plain *root, bool *binary, td_error *e)
{
    const td_plain *parameters = http_get(root, "parameters"), *sequence = http_get(parameters, "sequence_id");
    const td_plain *id = http_get(root, "id");
    int64_t timeout, priority;
    r->id = http_get_text(root, "id");
    if (id && !r->id) return td_fail(e, TD_E_INVALID, "the id of a request is a text");
    if (parameters && parameters->kind != TD_PLAIN_DICT) return td_fail(e, TD_E_INVALID, "parameters are an object");
    if (sequence && !(sequence->kind == TD_PLAIN_INT && sequence->i == 0))
        return td_fail(e, TD_E_INVALID,
                       "sequence_id: requests have no sequences here; give state as inputs and outputs");
    if (!http_get_int(parameters, "timeout", 0, INT64_MAX, 0, &timeout))
        return td_fail(e, TD_E_INVALID, "timeout is a number of microseconds from 0 on");
    if (!http_get_int(parameters, "priority", 0, INT32_MAX, 0, &priority))
        return td_fail(e, TD_E_INVALID, "priority is a number from 0 on");
    if (!http_get_bool(parameters, "binary_data_output", false, binary))
        return td_fail(e, TD_E_INVALID, "binary_data_output is true or false");
    r->timeout_us = (uint64_t)timeout, r->priority = (int)priority;
    return TD_OK;
}

static int read_all(oip_request *r, const td_plain *root, uint64_t raw, td_error *e)
{
    bool binary;
    const td_plain *inputs = http_get(root, "inputs");
    int rc = read_parameters(r, root, &binary, e);
    if (rc) return rc;
    if (!inputs || inputs->kind != TD_PLAIN_LIST) return td_fail(e, TD_E_INVALID, "a request has a list of inputs");
    if (inputs->n > (uint32_t)r->card->nin) return td_fail(e, TD_E_INVALID, "more inputs than the model has");
    for (uint32_t i = 0; !rc && i < inputs->n; i++) rc = read_input(r, inputs->items[i], e);
    if (!rc) rc = place_inputs(r, e);
    if (!rc) rc = read_outputs(r, http_get(root, "outputs"), binary, e);
    if (!rc && r->raw != raw)
        rc = td_fail(e, TD_E_INVALID,
                     "%" PRIu64 " bytes lie behind the text of the request, and its inputs say %" PRIu64, raw, r->raw);
    return rc;
}

int oip_read(oip_request *r, const oip_card *card, const char *text, size_t n, uint64_t raw, td_error *e)
{
    td_plain *root = NULL;
    int rc = begin(r, card, e);
    if (!rc) rc = http_json_read(&r->memory, text, n, "the request", &root, e);
    if (!rc && root->kind != TD_PLAIN_DICT) rc = td_fail(e, TD_E_INVALID, "a request is an object");
    return rc ? rc : read_all(r, root, raw, e);
}

/* The size that the card leaves open follows from the bytes. */
static int guess_sizes(const oip_port *p, oip_input *in, uint64_t raw, td_error *e)
{
    uint64_t known = td_dtype_size(p->dtype);
    int open = -1, nopen = 0;
    for (int i = 0; i < p->ndim; i++) {
        in->shape[i] = p->shape[i];
        if (p->shape[i] < 0) open = i, nopen++;
        else if (__builtin_mul_overflow(known, (uint64_t)p->shape[i], &known)) known = 0;
    }
    if (p->ndim < 0 || nopen > 1 || known == 0 || raw % known || (nopen == 0 && raw != known))
        return refuse(e, "input", p->name, "its shape does not follow from the number of bytes");
    if (nopen) in->shape[open] = (int64_t)(raw / known);
    in->ndim = p->ndim, in->bytes = raw, in->from = OIP_BINARY;
    return TD_OK;
}

int oip_read_bare(oip_request *r, const oip_card *card, uint64_t raw, td_error *e)
{
    int rc = begin(r, card, e);
    if (rc) return rc;
    if (card->nin != 1) return td_fail(e, TD_E_INVALID, "bytes without a text are for models of one input");
    r->nbinary = 1, r->raw = raw;
    rc = guess_sizes(&card->in[0], &r->in[0], raw, e);
    if (!rc) rc = place_inputs(r, e);
    return rc ? rc : read_outputs(r, NULL, true, e);
}

void oip_close(oip_request *r)
{
    td_pickle_close(&r->memory);
    free(r->in);
    free(r->binary);
    free(r->out);
    *r = (oip_request){0};
}

/* ---- values into the lease */

void oip_take(oip_request *r, char *lease, const char *bytes, size_t n)
{
    while (n && r->at < r->nbinary) {
        const oip_input *in = &r->in[r->binary[r->at]];
        uint64_t left = in->bytes - r->filled;
        size_t part = n < left ? n : (size_t)left;
        memcpy(lease + in->place + r->filled, bytes, part);
        bytes += part, n -= part, r->filled += part;
        if (r->filled == in->bytes) r->at++, r->filled = 0;
    }
}

typedef struct filling {
    const oip_port *port;
    char *to, *end;
    td_error *e;
} filling;

static int wrong(const filling *f, const char *what)
{
    return td_fail(f->e, TD_E_INVALID, "input %.80s: %s", f->port->name, what);
}

static double real_of(const td_plain *x)
{
    return x->kind == TD_PLAIN_FLOAT ? x->f[0] : x->kind == TD_PLAIN_INT ? (double)x->i : strtod(x->text, NULL);
}

static int put_float(filling *f, const td_plain *x)
{
    if (x->kind != TD_PLAIN_FLOAT && x->kind != TD_PLAIN_INT && x->kind != TD_PLAIN_DIGITS)
        return wrong(f, "a value in its data is no number");
    double wide = real_of(x);
    float narrow = (float)wide;
    if (f->port->dtype == TD_FLOAT64) memcpy(f->to, &wide, sizeof wide);
    else memcpy(f->to, &narrow, sizeof narrow);
    return TD_OK;
}

static int put_unsigned(filling *f, const td_plain *x, size_t size)
{
    errno = 0;
    bool digits = x->kind == TD_PLAIN_DIGITS;
    uint64_t v = digits ? strtoull(x->text, NULL, 10) : (uint64_t)x->i;
    if ((digits && (errno || x->text[0] == '-')) || (!digits && x->i < 0) || (size < 8 && v >> (8 * size)))
        return wrong(f, "a number in its data does not fit its datatype");
    memcpy(f->to, &v, size); /* little-endian, as all that is served here */
    return TD_OK;
}

static int put_whole(filling *f, const td_plain *x)
{
    size_t size = td_dtype_size(f->port->dtype);
    if (x->kind != TD_PLAIN_INT && x->kind != TD_PLAIN_DIGITS)
        return wrong(f, "a value in its data is no whole number");
    if (td_dtype_is_unsigned(f->port->dtype)) return put_unsigned(f, x, size);
    int64_t most = size == 8 ? INT64_MAX : (INT64_C(1) << (8 * size - 1)) - 1;
    if (x->kind == TD_PLAIN_DIGITS || x->i > most || x->i < -most - 1)
        return wrong(f, "a number in its data does not fit its datatype");
    memcpy(f->to, &x->i, size);
    return TD_OK;
}

static int put_bool(filling *f, const td_plain *x)
{
    bool one = x->kind == TD_PLAIN_INT && (x->i == 0 || x->i == 1);
    if (x->kind != TD_PLAIN_BOOL && !one) return wrong(f, "a value in its data is neither true nor false");
    *f->to = (char)(x->i != 0);
    return TD_OK;
}

/* Lists in lists, or one: what counts is the order. http_json_read() has bounded how deep they are. */
static int fill_from(filling *f, const td_plain *x)
{
    if (x->kind == TD_PLAIN_LIST) {
        int rc = TD_OK;
        for (uint32_t i = 0; !rc && i < x->n; i++) rc = fill_from(f, x->items[i]);
        return rc;
    }
    size_t size = td_dtype_size(f->port->dtype);
    if ((size_t)(f->end - f->to) < size) return wrong(f, "its data has more values than its shape");
    int rc = f->port->dtype == TD_BOOL           ? put_bool(f, x)
             : td_dtype_is_float(f->port->dtype) ? put_float(f, x)
                                                 : put_whole(f, x);
    f->to += size;
    return rc;
}

int oip_fill(const oip_request *r, char *lease, td_error *e)
{
    for (int i = 0; i < r->card->nin; i++) {
        const oip_input *in = &r->in[i];
        if (in->from != OIP_JSON) continue;
        filling f = {&r->card->in[i], lease + in->place, lease + in->place + in->bytes, e};
        int rc = in->data->kind == TD_PLAIN_LIST ? fill_from(&f, in->data) : wrong(&f, "its data is no list");
        if (!rc && f.to != f.end) rc = wrong(&f, "its data has fewer values than its shape");
        if (rc) return rc;
    }
    return TD_OK;
}
