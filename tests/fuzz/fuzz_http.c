/* Fuzzes what tensord-http reads of strangers: requests of the Open Inference Protocol, paths, configurations, and the
 * cards of models. The first byte says which. Nothing may crash, leak or be written outside of the lease; of what is
 * accepted each input has the dtype and the bytes that its shape says, in a place of its own. */
#include "client/http/path.h"
#include "client/http/pbtxt.h"
#include "proto/base/dtype.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_LEASE = 1 << 20 };

static const char card_text[] =
    "{\"name\": \"m\", \"version\": 3, \"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [\"n\", 2]},"
    "{\"name\": \"k\", \"dtype\": \"int64\", \"shape\": []}, {\"name\": \"b\", \"dtype\": \"bool\", \"shape\": null}],"
    "\"outputs\": [{\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [null, 2]}]}";

static void check_places(const oip_request *r)
{
    uint64_t end = 0, raw = 0;
    for (int i = 0; i < r->card->nin; i++) {
        const oip_input *in = &r->in[i];
        uint64_t bytes = td_dtype_size(r->card->in[i].dtype);
        for (int k = 0; k < in->ndim; k++) bytes *= (uint64_t)in->shape[k];
        assert(in->from != OIP_NOWHERE && in->bytes == bytes && in->place >= end && in->place % 64 == 0);
        end = in->place + in->bytes;
        raw += in->from == OIP_BINARY ? in->bytes : 0;
    }
    assert(end <= r->lease && raw == r->raw && r->nout <= r->card->nout);
}

static void answer(oip_request *r)
{
    static const float y[4] = {0.1f, 2, -3, 4e9f};
    static const int64_t shape[2] = {2, 2};
    const oip_result result = {TD_FLOAT32, 2, shape, y, sizeof y};
    http_text t = {.most = MOST_LEASE};
    td_bytes classes = {0};
    td_error e;
    if (oip_answer(r, &result, &t, &classes, &e)) assert(e.message[0]);
    else assert(t.bytes.n && td_is_utf8(t.bytes.at, (uint32_t)t.bytes.n));
    free(t.bytes.at);
    free(classes.at);
}

/* A request's text up to a line end, and what lies behind it. */
static void try_request(const char *text, size_t n)
{
    const char *end = memchr(text, '\n', n);
    size_t size = end ? (size_t)(end - text) : n, raw = end ? n - size - 1 : 0;
    oip_card card;
    oip_request r;
    td_error e = {0};
    assert(oip_card_read(&card, card_text, &e) == 0);
    int rc = oip_read(&r, &card, text, size, raw, &e);
    assert(rc == 0 || (rc == e.code && e.message[0]));
    if (rc == 0) check_places(&r);
    char *lease = rc == 0 && r.lease <= MOST_LEASE ? malloc(r.lease + 1) : NULL;
    if (lease) {
        for (size_t at = 0; at < raw; at += 5) oip_take(&r, lease, end + 1 + at, raw - at < 5 ? raw - at : 5);
        if (oip_fill(&r, lease, &e) == 0) answer(&r);
    }
    free(lease);
    oip_close(&r);
    oip_card_close(&card);
}

static void try_card(const char *text, size_t n)
{
    oip_card card;
    http_text t = {0};
    td_error e = {0};
    char *ended = calloc(1, n + 1);
    if (!ended) return;
    memcpy(ended, text, n);
    if (oip_card_read(&card, ended, &e) == 0) oip_put_metadata(&card, &card.version, 1, &t), oip_put_config(&card, &t);
    else assert(e.message[0]);
    oip_card_close(&card);
    free(t.bytes.at);
    free(ended);
}

static void try_config(const char *text, size_t n)
{
    pbtxt_config c;
    oip_card card;
    td_error e = {0};
    assert(oip_card_read(&card, card_text, &e) == 0);
    int rc = pbtxt_read(&c, text, n, "config.pbtxt", &e);
    if (!rc) rc = pbtxt_check(&c, &card, "config.pbtxt", &e);
    assert(rc == 0 || e.message[0]);
    pbtxt_close(&c);
    oip_card_close(&card);
}

static void try_path(const char *text, size_t n)
{
    http_path p;
    char *ended = calloc(1, n + 1);
    if (!ended) return;
    memcpy(ended, text, n);
    if (http_path_read(&p, ended))
        for (int i = 0; i < p.n; i++) assert(strlen(p.at[i]) < sizeof p.text);
    free(ended);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;
    if (size == 0) return 0;
    switch (data[0] % 4) {
    case 0: try_request(text, size - 1); break;
    case 1: try_config(text, size - 1); break;
    case 2: try_card(text, size - 1); break;
    default: try_path(text, size - 1);
    }
    return 0;
}
