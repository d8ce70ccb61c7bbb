/* Records and calls written by hand, for suites that ask what no library would: each function is one of them.
 *
 * Those that end in `_without_waiting` leave the reply to be read, or never read, by the test. */
#ifndef TENSORD_TESTS_HOSTILE_REQUESTS_H
#define TENSORD_TESTS_HOSTILE_REQUESTS_H

#include "proto/ops/opid.h"
#include "tests/support/raw.h"

/* ---- records, gathered and sent at once */

static inline void control(td_words *w, unsigned rec, unsigned mode, int nin, const uint32_t *in, int nout,
                           const uint32_t *out, int nrest, const uint32_t *rest)
{
    td_words_control(w, rec, mode, 0, nin, in, nout, out, nrest, rest, NULL);
}

static inline void op_with(td_words *w, unsigned op, unsigned flags, const td_attrs *a, int nin, const uint32_t *in,
                           int nout, const uint32_t *out)
{
    td_attrs none;
    td_attrs_init(&none);
    td_words_op(w, td_op_by_id(op), 0, flags, 0, nin, in, nout, out, NULL, a ? a : &none, NULL);
}

static inline void op2(td_words *w, unsigned op, uint32_t x, uint32_t y, uint32_t out)
{
    op_with(w, op, 0, NULL, 2, (uint32_t[]){x, y}, 1, &out);
}

static inline void release(td_words *w, uint32_t id)
{
    control(w, TD_REC_RELEASE, 0, 1, &id, 0, NULL, 0, NULL);
}

static inline void requires_grad(td_words *w, uint32_t id, uint32_t on)
{
    control(w, TD_REC_REQUIRES_GRAD, 0, 1, &id, 0, NULL, 1, &on);
}

static inline bool send_all(raw *r, td_words *w)
{
    bool ok = raw_words(r, w->at, w->count, NULL, 0);
    td_words_deinit(w);
    return ok;
}

static inline uint32_t code_of(raw *r, td_words *w)
{
    uint32_t code = TD_E_LOST;
    if (send_all(r, w)) raw_sync(r, &code);
    return code;
}

/* full(shape {n}, 0) of float32, in session or service memory */
static inline void full(td_words *w, uint32_t id, int64_t n, unsigned mode)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, &n);
    td_attrs_scalar(&a, td_float(0));
    td_attrs_dtype(&a, TD_FLOAT32);
    td_words_op(w, td_op_by_id(TD_OP_FULL), mode, 0, 0, 0, NULL, 1, &id, NULL, &a, NULL);
}

/* x = x + x*w, n times, the intermediates released; the result has id 3. */
static inline void chain(td_words *w, int n)
{
    requires_grad(w, 1, 1);
    op2(w, TD_OP_MUL, 1, 1, 3);
    for (int i = 0; i < n; i++) {
        uint32_t from = 3 + (uint32_t)i % 2, to = 4 - (uint32_t)i % 2;
        op2(w, TD_OP_MUL, from, 2, to);
        release(w, from);
    }
}

/* ---- calls */

static inline uint32_t ask(raw *r, Td__Wire__Call *c)
{
    Td__Wire__Reply *x = raw_ask(r, c);
    return !x ? TD_E_LOST : x->error ? x->error->code : TD_OK;
}

static inline uint32_t queue_open(raw *r, const char *name, uint32_t id, uint32_t capacity)
{
    Td__Wire__Call c;
    Td__Wire__QueueOpen q;
    td__wire__call__init(&c);
    td__wire__queue_open__init(&q);
    q.name = (char *)name, q.queue = id, q.capacity = capacity, q.role = 3;
    c.queue_open = &q;
    return ask(r, &c);
}

static inline uint32_t queue_put(raw *r, uint32_t queue, uint32_t n, const uint32_t *ids)
{
    Td__Wire__Call c;
    Td__Wire__QueuePut q;
    td__wire__call__init(&c);
    td__wire__queue_put__init(&q);
    q.queue = queue, q.n_ids = n, q.ids = (uint32_t *)ids;
    c.queue_put = &q;
    return ask(r, &c);
}

static inline uint32_t queue_get(raw *r, uint32_t queue, uint32_t n, const uint32_t *ids)
{
    Td__Wire__Call c;
    Td__Wire__QueueGet q;
    td__wire__call__init(&c);
    td__wire__queue_get__init(&q);
    q.queue = queue, q.n_ids = n, q.ids = (uint32_t *)ids;
    c.queue_get = &q;
    return ask(r, &c);
}

static inline void queue_get_without_waiting(raw *r, uint32_t queue, uint32_t n, const uint32_t *ids)
{
    Td__Wire__Call c;
    Td__Wire__QueueGet q;
    td__wire__call__init(&c);
    td__wire__queue_get__init(&q);
    q.queue = queue, q.n_ids = n, q.ids = (uint32_t *)ids, q.timeout_ms = 1000;
    c.queue_get = &q;
    raw_call(r, &c);
}

static inline uint32_t publish(raw *r, const char *name, uint32_t id)
{
    Td__Wire__Call c;
    Td__Wire__Publish p;
    td__wire__call__init(&c);
    td__wire__publish__init(&p);
    p.name = (char *)name, p.id = id;
    c.publish = &p;
    return ask(r, &c);
}

static inline uint32_t open_name(raw *r, const char *name, uint32_t id)
{
    Td__Wire__Call c;
    Td__Wire__Open o;
    td__wire__call__init(&c);
    td__wire__open__init(&o);
    o.name = (char *)name, o.id = id;
    c.open = &o;
    return ask(r, &c);
}

static inline uint32_t drop_name(raw *r, const char *name)
{
    Td__Wire__Call c;
    Td__Wire__Drop o;
    td__wire__call__init(&c);
    td__wire__drop__init(&o);
    o.name = (char *)name;
    c.drop = &o;
    return ask(r, &c);
}

static inline void map_without_waiting(raw *r, uint32_t id)
{
    Td__Wire__Call c;
    Td__Wire__Map m;
    td__wire__call__init(&c);
    td__wire__map__init(&m);
    m.id = id;
    c.map = &m;
    raw_call(r, &c);
}

static inline uint32_t write_begin(raw *r, uint32_t id)
{
    Td__Wire__Call c;
    Td__Wire__WriteBegin b;
    td__wire__call__init(&c);
    td__wire__write_begin__init(&b);
    b.id = id, b.timeout_ms = 20000;
    c.write_begin = &b;
    return ask(r, &c);
}

#endif
