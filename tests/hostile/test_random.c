/* Random programs: every op of the table with operands and attributes of the right kinds and any values, on tensors of
 * all dtypes and odd shapes, mixed with gradients, in place and out=, against a session in this process. Whatever it
 * is, nothing may crash, and in the end nothing may be left.
 *
 *     test_random [SEED [PROGRAMS]] */
#include "daemon/session/session.h"
#include "large.h"
#include "proto/ops/opid.h"
#include "proto/wire/record.h"
#include "proto/wire/wire.pb-c.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { IDS = 40, FIRST = 16, RECORDS = 60 };

static td_service service;
static td_sessions sessions;
static unsigned seed = 1;
static uint64_t records;

static unsigned rnd(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void ignore(void *arg)
{
    (void)arg;
}

static bool run(td_session *s, const td_words *w)
{
    static const uint8_t zeros[4096] = {0};
    Td__Wire__Batch b;
    td__wire__batch__init(&b);
    b.words = w->at;
    b.n_words = w->count;
    b.data = (ProtobufCBinaryData){sizeof zeros, (uint8_t *)zeros};
    uint8_t *p = malloc(td__wire__batch__get_packed_size(&b) + 1);
    td_error e = {0};
    td_frame f = {.kind = TD_FRAME_BATCH, .payload = p, .bytes = (uint32_t)td__wire__batch__pack(&b, p), .fd = -1};
    bool ok = td_session_frame(s, &f, &e) == TD_OK;
    free(p);
    for (int turns = 0; ok && turns < 10000; turns++) {
        td_run r = td_session_run(s, 64, &e);
        if (r == TD_RUN_IDLE) return true;
        if (r == TD_RUN_SUSPENDED) td_sched_drain(service.sched);
        td_sched_collect(service.sched, 1000);
        td_sessions_collected(&sessions);
        if (r == TD_RUN_FATAL || r == TD_RUN_STALLED) return false;
    }
    return false;
}

static uint32_t some_id(void)
{
    if (rnd(50) == 0) return rnd(3) * 999;
    return rnd(3) ? 1 + rnd(FIRST) : 1 + rnd(IDS);
}

/* In a large program those that go together have around as many elements as change a kernel's way; some with gaps. */
static int64_t usual_large[4];

static void draw_large(void)
{
    static const int64_t cols[] = {1, 2, 3, 7, 40, TD_REDUCE_SHORT - 1, TD_REDUCE_SHORT, TD_REDUCE_SHORT + 1};
    int64_t wide = cols[rnd(8)], rows = large_rows(rnd(24), wide), tall = rnd(2) ? 1 + rnd(3) : 1;
    usual_large[3] = rnd(2) ? wide : rows / tall;
    usual_large[2] = rnd(2) ? tall : usual_large[3] == wide ? rows / tall : wide;
    usual_large[1] = tall;
    usual_large[0] = 1;
}

static void make_large(td_words *w, uint32_t id)
{
    int ndim = 1 + (int)rnd(4);
    td_dtype dtype = rnd(3) ? TD_FLOAT32 : (td_dtype)rnd(TD_DTYPE_COUNT);
    uint32_t spare = rnd(2) ? FIRST + 1 + rnd(IDS - FIRST) : 0;
    if (spare) td_words_control(w, TD_REC_RELEASE, 0, 0, 1, &spare, 0, NULL, 0, NULL, NULL);
    large_tensor(w, id, spare, dtype, ndim, usual_large + 4 - ndim);
}

/* Ids up to FIRST: mostly float32 of shapes that go together, many of them leaves; the rest is odd. */
static void make_tensor(td_words *w, uint32_t id)
{
    if (usual_large[3] && rnd(4)) {
        make_large(w, id);
        if (rnd(2)) td_words_control(w, TD_REC_REQUIRES_GRAD, 0, 0, 1, &id, 0, NULL, 1, (uint32_t[]){1}, NULL);
        return;
    }
    static const uint32_t sizes[] = {1, 2, 3, 3, 4, 0, 5}, usual[4] = {2, 3, 4, 4};
    bool odd = rnd(4) == 0;
    uint32_t ndim = rnd(odd ? 6 : 4), dtype = rnd(3) ? TD_FLOAT32 : rnd(TD_DTYPE_COUNT),
             rest[2 + 2 * 5] = {dtype | ndim << 8};
    for (uint32_t k = 0; k < ndim; k++) rest[1 + 2 * k] = odd ? sizes[rnd(7)] : usual[4 - ndim + k];
    td_words_control(w, TD_REC_DATA, 0, 0, 0, NULL, 1, &id, (int)(2 + 2 * ndim), rest, NULL);
    if (rnd(2)) td_words_control(w, TD_REC_REQUIRES_GRAD, 0, 0, 1, &id, 0, NULL, 1, (uint32_t[]){1}, NULL);
}

static bool extreme; /* a program of sizes, strides and offsets whose products do not fit */

static int64_t some_int(void)
{
    static const int64_t odd[] = {INT64_MAX, INT64_MIN, 1 << 20, INT64_C(1) << 32, -100, 1000};
    if (extreme && rnd(2)) { /* powers of two, and what is beside them */
        int64_t power = (int64_t)(UINT64_C(1) << (20 + rnd(44)));
        return rnd(4) ? power : (int64_t)((uint64_t)power * (rnd(2) ? UINT64_MAX : 3) + rnd(3) - 1);
    }
    return rnd(20) ? (int64_t)rnd(6) - 1 : odd[rnd(6)];
}

static td_scalar some_scalar(void)
{
    switch (rnd(4)) {
    case 0: return td_int(some_int());
    case 1: return td_bool(rnd(2));
    default: return td_float(rnd(5) ? (double)rnd(9) / 2 - 2 : 1e300 * 1e300);
    }
}

static void some_attrs(const td_op *op, td_attrs *a)
{
    td_attrs_init(a);
    for (int k = 0; k < op->nattrs; k++) {
        const td_attr_def *def = &op->attrs[k];
        int64_t v[6];
        int n = (int)rnd(5);
        for (int i = 0; i < 6; i++) v[i] = some_int();
        if (def->optional && rnd(2)) {
            td_attrs_none(a);
            continue;
        }
        switch (def->kind) {
        case TD_A_INT: td_attrs_int(a, some_int()); break;
        case TD_A_FLOAT: td_attrs_float(a, some_scalar().re); break;
        case TD_A_BOOL: td_attrs_bool(a, rnd(2)); break;
        case TD_A_SCALAR: td_attrs_scalar(a, some_scalar()); break;
        case TD_A_DTYPE: td_attrs_dtype(a, (td_dtype)rnd(TD_DTYPE_COUNT)); break;
        case TD_A_INTS: td_attrs_ints(a, n, v); break;
        case TD_A_TEXT: td_attrs_text(a, "ij,jk", rnd(6)); break;
        default: td_attrs_none(a);
        }
    }
}

static void some_op(td_words *w)
{
    const td_op *op = NULL;
    while (!op) op = td_op_by_id(rnd(td_op_count));
    uint32_t in[16], out[4];
    td_scalar numbers[16];
    int nin = op->nparams, nnumbers = 0, nout = op->nouts;
    if (op->list_param >= 0) nin += (int)rnd(3) - 1;
    for (int i = 0; i < nin && i < 16; i++) {
        const td_param *p = &op->params[op->list_param >= 0 ? 0 : i];
        in[i] = some_id();
        if ((p->kind == TD_P_OPTIONAL || p->kind == TD_P_OPTIONAL_LIST) && rnd(2)) in[i] = 0;
        if (p->kind == TD_P_NUMBER && rnd(2)) in[i] = TD_NUMBER_BIT, numbers[nnumbers++] = some_scalar();
    }
    if (nout > 4) nout = 4;
    bool given = rnd(6) == 0;
    for (int o = 0; o < nout; o++) {
        out[o] = given && o == 0 && nin && rnd(2) && in[0] <= IDS && in[0] ? in[0] : FIRST + 1 + rnd(IDS - FIRST);
        if (!given) td_words_control(w, TD_REC_RELEASE, 0, 0, 1, &out[o], 0, NULL, 0, NULL, NULL);
    }
    td_attrs a;
    some_attrs(op, &a);
    static const unsigned modes[] = {0, 0, 0, 0, TD_RM_GRAD_OFF, TD_RM_INFERENCE, TD_RM_SERVICE, TD_RM_RACY};
    unsigned on = rnd(20) ? 0 : rnd(TD_MAX_DEVICES); /* no device, or nothing that could be made there */
    td_words_op(w, op, modes[rnd(8)] | on << TD_RM_DEVICE, given ? TD_RF_OUT : 0, 0, nin, in, nout, out, numbers, &a,
                NULL);
}

static void some_gradient(td_words *w)
{
    uint32_t x = some_id(), y = some_id(), out = FIRST + 1 + rnd(IDS - FIRST), on[1] = {rnd(3) != 0},
             scope[1] = {rnd(3)};
    switch (rnd(9)) {
    case 0:
    case 1: td_words_control(w, TD_REC_REQUIRES_GRAD, 0, 0, 1, &x, 0, NULL, 1, on, NULL); break;
    case 2: td_words_control(w, TD_REC_RETAIN_GRAD, 0, 0, 1, &x, 0, NULL, 0, NULL, NULL); break;
    case 3:
        td_words_control(w, TD_REC_SET_GRAD, 0, 0, 2, (uint32_t[]){x, rnd(2) ? y : 0}, 0, NULL, 1, scope, NULL);
        break;
    case 4:
        td_words_control(w, TD_REC_RELEASE, 0, 0, 1, &out, 0, NULL, 0, NULL, NULL);
        td_words_control(w, TD_REC_GRAD, 0, 0, 1, &x, 1, &out, 1, scope, NULL);
        break;
    case 5:
        td_words_control(w, TD_REC_RELEASE, 0, 0, 1, &out, 0, NULL, 0, NULL, NULL);
        td_words_control(w, rnd(2) ? TD_REC_ALIAS : TD_REC_DATA_OF, 0, 0, 1, &x, 1, &out, 0, NULL, NULL);
        break;
    case 6: /* grad() */
        td_words_control(w, TD_REC_RELEASE, 0, 0, 1, &out, 0, NULL, 0, NULL, NULL);
        td_words_control(w, TD_REC_BACKWARD, 0, 0, 3, (uint32_t[]){x, rnd(2) ? some_id() : 0, y}, 1, &out, 3,
                         (uint32_t[]){rnd(8), 1, scope[0]}, NULL);
        break;
    default: /* backward(): a seed of the root's own shape is the root */
        td_words_control(w, TD_REC_BACKWARD, 0, 0, 2, (uint32_t[]){x, rnd(3) ? x : 0}, 0, NULL, 3,
                         (uint32_t[]){8 | rnd(8), 1, scope[0]}, NULL);
    }
}

static void program(td_session *s)
{
    td_words w = {0};
    usual_large[3] = 0;
    extreme = rnd(4) == 0;
    if (rnd(3) == 0) draw_large();
    for (uint32_t id = 1; id <= FIRST; id++) make_tensor(&w, id);
    bool ok = run(s, &w);
    for (int k = 0; k < RECORDS && ok; k++) {
        w.count = 0;
        if (rnd(4) == 0) some_gradient(&w);
        else some_op(&w);
        ok = run(s, &w);
        records++;
    }
    td_words_deinit(&w);
}

static int one(void)
{
    td_live before = td_live_counts();
    uint64_t used = service.budget.used, nodes = td_autograd_nodes();
    td_writer writer;
    td_writer_init(&writer);
    td_session_io io = {.writer = &writer, .wrote = ignore, .resume = ignore};
    static const uint8_t hello[] = {1 << 3, TD_PROTOCOL};
    td_frame f = {.kind = TD_FRAME_HELLO, .payload = hello, .bytes = sizeof hello, .fd = -1};
    td_session *s = NULL;
    td_error e = {0};
    if (td_session_new(&s, &sessions, &io, &(td_peer_id){0, 1}, &f, &e)) abort();
    program(s);
    td_session_end(s, false);
    td_sched_drain(service.sched);
    while (td_sessions_clear(&sessions, INT_MAX)) {
    }
    td_writer_deinit(&writer);
    td_live after = td_live_counts();
    return after.tensors == before.tensors && after.storages == before.storages && after.causes == before.causes &&
           service.budget.used == used && td_autograd_nodes() == nodes;
}

int main(int argc, char **argv)
{
    unsigned from = argc > 1 ? (unsigned)atoi(argv[1]) : 1, n = argc > 2 ? (unsigned)atoi(argv[2]) : 600, bad = 0;
    td_service_options o = {.memory = 64 << 20, .workers = 2, .session_bytes = 16 << 20, .session_objects = 3000};
    td_error e = {0};
    td_cpu_init();
    td_cpu_thread_init();
    if (td_service_init(&service, &o, &e)) return 1;
    td_sessions_init(&sessions, &service);
    for (unsigned i = 0; i < n; i++) {
        seed = (from + i) * 2654435761u;
        fflush(stdout);
        if (getenv("TD_RANDOM_SHOW")) printf("program %u\n", from + i);
        if (one()) continue;
        bad++;
        printf("program %u left something behind\n", from + i);
    }
    uint64_t worked = service.ops_run;
    td_service_deinit(&service);
    printf("%llu records, %llu ops that could be run, %llu nodes\n", (unsigned long long)records,
           (unsigned long long)worked, (unsigned long long)td_autograd_recorded());
    bad += worked < records / 8; /* a program that only fails tries nothing */
    printf("suite random: %u passed, %u failed, 0 skipped\n", n - bad, bad);
    return bad != 0;
}
