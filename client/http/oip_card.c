/* See oip.h: dtypes, cards, and what is told of a model. */
#include "client/http/oip.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"

#include <stdlib.h>
#include <string.h>

/* ---- dtypes */

static const char *const names[TD_DTYPE_COUNT] = {
    [TD_BOOL] = "BOOL",    [TD_UINT8] = "UINT8",  [TD_INT8] = "INT8",     [TD_INT16] = "INT16",
    [TD_INT32] = "INT32",  [TD_INT64] = "INT64",  [TD_FLOAT16] = "FP16",  [TD_BFLOAT16] = "BF16",
    [TD_FLOAT32] = "FP32", [TD_FLOAT64] = "FP64", [TD_UINT16] = "UINT16", [TD_UINT32] = "UINT32",
    [TD_UINT64] = "UINT64"};

const char *oip_dtype_name(td_dtype t)
{
    return td_dtype_valid(t) ? names[t] : NULL;
}

td_dtype oip_dtype_parse(const char *name)
{
    for (int t = 0; name && t < TD_DTYPE_COUNT; t++)
        if (names[t] && strcmp(name, names[t]) == 0) return (td_dtype)t;
    return TD_DTYPE_NONE;
}

/* ---- cards */

static int strange(td_error *e, const char *what)
{
    return td_fail(e, TD_E_INVALID, "a model's card has no %s that can be read", what);
}

static int read_shape(oip_port *p, const td_plain *shape, td_error *e)
{
    p->ndim = -1;
    if (!shape || shape->kind == TD_PLAIN_NONE) return TD_OK;
    if (shape->kind != TD_PLAIN_LIST || shape->n > TD_MAX_DIMS) return strange(e, "shape");
    p->ndim = (int)shape->n;
    for (uint32_t i = 0; i < shape->n; i++) {
        const td_plain *size = shape->items[i];
        p->shape[i] = size->kind == TD_PLAIN_INT && size->i >= 0 ? size->i : -1;
    }
    return TD_OK;
}

static int read_ports(const td_plain *root, const char *which, oip_port **out, int *n, td_error *e)
{
    const td_plain *list = http_get(root, which), *rows = http_get(http_get(root, "batch"), which);
    if (!list || list->kind != TD_PLAIN_LIST) return strange(e, which);
    oip_port *ports = *out = calloc(list->n + 1, sizeof *ports);
    if (!ports) return td_no_memory(e, "for a model's card");
    *n = (int)list->n;
    for (uint32_t i = 0; i < list->n; i++) {
        const char *dtype = http_get_text(list->items[i], "dtype");
        ports[i] = (oip_port){.name = http_get_text(list->items[i], "name"), .rows = -1};
        ports[i].dtype = dtype ? td_dtype_parse(dtype) : TD_DTYPE_NONE;
        if (!ports[i].name || !dtype) return strange(e, which);
        int rc = read_shape(&ports[i], http_get(list->items[i], "shape"), e);
        if (rc) return rc;
        const td_plain *row = rows && rows->kind == TD_PLAIN_LIST && i < rows->n ? rows->items[i] : NULL;
        if (row && row->kind == TD_PLAIN_INT && row->i >= 0 && row->i < TD_MAX_DIMS) ports[i].rows = (int)row->i;
    }
    return TD_OK;
}

int oip_card_read(oip_card *c, const char *json, td_error *e)
{
    td_plain *root = NULL;
    int64_t most;
    *c = (oip_card){.most = 1};
    int rc = http_json_read(&c->memory, json, strlen(json), "a model's card", &root, e);
    if (rc) return rc;
    c->name = http_get_text(root, "name"), c->digest = http_get_text(root, "digest");
    if (!c->name) c->name = "";
    http_get_int(root, "version", 0, INT64_MAX, 0, &c->version);
    http_get_int(root, "weights", 0, INT64_MAX, 0, &c->weights);
    http_get_int(http_get(root, "batch"), "most", 1, INT32_MAX, 1, &most);
    c->most = (int)most;
    const td_plain *asked = http_get(root, "asked");
    http_get_int(asked, "max_batch", 0, INT32_MAX, 0, &c->asked.max_batch);
    http_get_int(asked, "delay_us", 0, INT32_MAX, 0, &c->asked.delay_us);
    http_get_int(asked, "queue", 0, INT32_MAX, 0, &c->asked.queue);
    http_get_int(asked, "instances", 0, INT32_MAX, 0, &c->asked.instances);
    rc = read_ports(root, "inputs", &c->in, &c->nin, e);
    return rc ? rc : read_ports(root, "outputs", &c->out, &c->nout, e);
}

void oip_card_close(oip_card *c)
{
    td_pickle_close(&c->memory);
    free(c->in);
    free(c->out);
    *c = (oip_card){0};
}

/* ---- what is told of a model */

static void put_sizes(const oip_port *p, int from, http_text *t)
{
    http_put(t, "[");
    for (int i = from; i < p->ndim; i++) http_put(t, "%s%lld", i > from ? "," : "", (long long)p->shape[i]);
    http_put(t, "]");
}

static void put_ports(const oip_port *ports, int n, http_text *t)
{
    for (int i = 0; i < n; i++) {
        http_put(t, "%s{\"name\":", i ? "," : "");
        http_put_quoted(t, ports[i].name);
        http_put(
            t, ",\"datatype\":\"%s\",\"shape\":", oip_dtype_name(ports[i].dtype) ? oip_dtype_name(ports[i].dtype) : "");
        put_sizes(&ports[i], 0, t);
        http_put(t, "}");
    }
}

void oip_put_metadata(const oip_card *c, const int64_t *versions, int nversions, http_text *t)
{
    http_put(t, "{\"name\":");
    http_put_quoted(t, c->name);
    http_put(t, ",\"versions\":[");
    for (int i = 0; i < nversions; i++) http_put(t, "%s\"%lld\"", i ? "," : "", (long long)versions[i]);
    http_put(t, "],\"platform\":\"tensord_onnx\",\"inputs\":[");
    put_ports(c->in, c->nin, t);
    http_put(t, "],\"outputs\":[");
    put_ports(c->out, c->nout, t);
    http_put(t, "]}");
}

/* Triton's configurations leave the rows of a batch out of the sizes. They can where each input has them first, and any
 * number of them. */
static bool has_rows_first(const oip_card *c)
{
    bool all = c->most > 1 && c->nin > 0;
    for (int i = 0; i < c->nin; i++) all = all && c->in[i].rows == 0 && c->in[i].ndim > 0 && c->in[i].shape[0] < 0;
    for (int i = 0; i < c->nout; i++) all = all && c->out[i].rows == 0 && c->out[i].ndim > 0;
    return all;
}

static void put_config_ports(const oip_port *ports, int n, int from, http_text *t)
{
    for (int i = 0; i < n; i++) {
        const char *dtype = oip_dtype_name(ports[i].dtype);
        http_put(t, "%s{\"name\":", i ? "," : "");
        http_put_quoted(t, ports[i].name);
        http_put(t, ",\"data_type\":\"TYPE_%s\",\"dims\":", dtype ? dtype : "INVALID");
        put_sizes(&ports[i], from, t);
        http_put(t, "}");
    }
}

void oip_put_config(const oip_card *c, http_text *t)
{
    bool rows = has_rows_first(c);
    http_put(t, "{\"name\":");
    http_put_quoted(t, c->name);
    http_put(t, ",\"platform\":\"tensord_onnx\",\"backend\":\"tensord\",\"max_batch_size\":%d", rows ? c->most : 0);
    http_put(t, ",\"version_policy\":{\"latest\":{\"num_versions\":1}},\"input\":[");
    put_config_ports(c->in, c->nin, rows, t);
    http_put(t, "],\"output\":[");
    put_config_ports(c->out, c->nout, rows, t);
    http_put(t, "]%s}", c->most > 1 ? ",\"dynamic_batching\":{}" : "");
}
