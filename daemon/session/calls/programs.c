/* The programs that a session was sent, by its ids.
 *
 * To read, verify and improve a large one takes half a second, and so may a small one that calls or repeats much: that
 * is done by a helper thread, while the session waits. What it takes meanwhile is charged. Processes take turns at the
 * helpers, one program each, so another's waits for one of these at most, whoever sends how many; what is done to
 * improve one is bounded, and ends when its session does. The loop and the helper share a td_reading, which is the
 * helper's from the time it is given until it comes back, but for `unwanted`; the bytes stay in the session's arena, as
 * no other frame comes in meanwhile. */
#include "daemon/session/calls/calls.h"

#include "proto/passes/passes.h"
#include "proto/program/prim.h"
#include "proto/program/wire.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_PROGRAMS = 4096,
    READ_HERE = 4 << 10, /* bytes that are read in 0.1 ms */
    READ_AT_ONCE = 2,    /* by helpers, who make memory, too */
    MOST_STEPS = 8 << 20 /* of passes over one program: some 0.1 s */
};

/* ---- the table of them */

struct td_known_program {
    UT_hash_handle hh;
    uint32_t id;
    td_held_program *program;
};

static td_known_program *find(const td_session *s, uint32_t id)
{
    td_known_program *p;
    HASH_FIND(hh, s->programs.known, &id, sizeof id, p);
    return p;
}

td_held_program *td_session_program_of(const td_session *s, uint32_t id, td_error *e)
{
    const td_known_program *p = find(s, id);
    if (!p) td_fail(e, TD_E_NOT_FOUND, "there is no program %u", id);
    return p ? p->program : NULL;
}

int td_session_program_id(const td_session *s, uint32_t id, td_error *e)
{
    if (HASH_COUNT(s->programs.known) >= MOST_PROGRAMS)
        return td_fail(e, TD_E_QUOTA, "a session has at most %d programs; free some", MOST_PROGRAMS);
    if (id && !find(s, id)) return TD_OK;
    return td_fail(e, TD_E_EXISTS, "program %u is in use, or no number for one", id);
}

int td_session_program_add(td_session *s, uint32_t id, td_held_program *program, td_error *e)
{
    td_known_program *p = calloc(1, sizeof *p);
    if (!p) return td_no_memory(e, "for a program");
    p->id = id;
    p->program = program;
    HASH_ADD(hh, s->programs.known, id, sizeof p->id, p);
    if (TD_HASHED(p)) return TD_OK;
    free(p);
    return td_no_memory(e, "for a program");
}

static void end(td_known_program **all, td_known_program *p)
{
    HASH_DEL(*all, p);
    td_program_unref(p->program);
    free(p);
}

void td_session_program_gone(td_session *s, uint32_t id)
{
    td_known_program *p = find(s, id);
    td_table_pass_program(s, p, p->hh.next);
    end(&s->programs.known, p);
}

td_held_program *td_known_programs_at(td_known_program **at)
{
    td_held_program *p = (*at)->program;
    *at = (*at)->hh.next;
    return p;
}

bool td_known_programs_drop(td_known_program **all, int most)
{
    while (*all && most-- > 0) end(all, *all);
    return *all == NULL;
}

int td_known_programs_copy(td_session *s, td_known_program **next, int most, td_error *e)
{
    for (; *next && most > 0; most--, *next = (*next)->hh.next) {
        td_known_program *p = *next;
        int rc = td_session_program_add(s, p->id, td_program_ref(p->program), e);
        if (!rc) continue;
        td_program_unref(p->program);
        return rc;
    }
    return *next ? TD_AGAIN : TD_OK;
}

/* ---- one that comes */

struct td_reading {
    td_in_line in_line;
    td_session *s;
    atomic_bool unwanted; /* its session has ended */
    const uint8_t *bytes;
    size_t length;
    uint64_t serial, charged, made; /* made: bytes of the module that came of it */
    uint32_t id, ncaptured;
    td_ir *ir; /* once it was unpacked */
    td_held_program *program;
    td_error error;
    td_tensor *captured[]; /* references */
};

static void unpack(td_reading *j)
{
    j->ir = td_ir_decode(j->bytes, j->length, 0, &j->error);
}

/* What is no longer than it looks: no pass makes more of it than there is. */
static bool is_plain(const td_ir *ir)
{
    if (ir->nfunctions > 1) return false;
    for (uint32_t n = 0; n < ir->nnodes; n++)
        if (ir->nodes[n].op == (TD_IR_PRIM | TD_PRIM_LOOP)) return false;
    return true;
}

static void work(void *arg)
{
    td_reading *j = arg;
    td_pass_work passes = {.most = MOST_STEPS, .stop = &j->unwanted};
    if (!j->ir && !j->error.code) unpack(j);
    td_ir *ir = j->ir ? td_ir_improve_within(j->ir, &passes) : NULL;
    j->ir = NULL;
    if (!ir) return;
    j->made = td_ir_bytes(ir);
    if (td_program_new(&j->program, ir, &j->error)) td_ir_unref(ir);
    else td_program_keep_bytes(j->program, j->bytes, j->length, &j->error);
}

static void program_made(td_reading *j)
{
    const td_service_options *o = &j->s->service->options;
    if (j->program) td_program_end_by(j->program, &(td_program_end){o->background, o->arg});
}

static void let_go(td_reading *j)
{
    j->s->all->freed_aside += 2 * j->made; /* what it was on the way */
    td_ir_unref(j->ir);
    td_program_unref(j->program);
    for (uint32_t k = 0; k < j->ncaptured; k++) td_tensor_unref(j->captured[k]);
    free(j);
}

/* What was read is the session's, unless something was wrong with it. */
static int settle(td_reading *j, td_error *e)
{
    td_session *s = j->s;
    if (j->error.code) return *e = j->error, e->code;
    int rc = td_program_capture(j->program, j->ncaptured, j->captured, s->account, e);
    if (!rc) rc = td_session_program_add(s, j->id, j->program, e);
    if (rc) return rc;
    j->program = NULL;
    td_reply_ok(s, j->serial);
    return TD_OK;
}

/* It comes back, or was never begun because its session has ended. */
static void over(td_reading *j)
{
    td_session *s = j->s;
    td_error why = {0};
    s->programs.reading = NULL;
    program_made(j);
    td_account_work_done(s->account, TD_CPU, j->charged);
    if (!s->life.ended) {
        if (settle(j, &why)) {
            snprintf(why.op, sizeof why.op, "program_new");
            td_reply_error(s, j->serial, &why);
            td_session_told(s, &why);
        }
        td_session_ready(s);
    }
    let_go(j);
    s->life.refs--;
    if (s->life.ended) td_session_try_free(s);
}

static void begin_next(td_sessions *all);

static void done(void *arg)
{
    td_reading *j = arg;
    td_sessions *all = j->s->all;
    td_lines_over(&all->to_read, &j->in_line);
    over(j);
    begin_next(all);
}

static void begin_next(td_sessions *all)
{
    const td_service_options *o = &all->service->options;
    td_in_line *x;
    while (all->to_read.begun < READ_AT_ONCE && (x = td_lines_begin(&all->to_read))) {
        td_reading *j = (td_reading *)(void *)x;
        if (j->s->life.ended) {
            td_lines_over(&all->to_read, x);
            over(j);
            continue;
        }
        o->background(o->arg, work, done, j);
    }
}

static int give_to_helper(td_reading *j, td_error *e)
{
    static const td_wait_kind for_reading = {"a program to be read", .external = true};
    td_session *s = j->s;
    int rc = td_lines_add(&s->all->to_read, &j->in_line, s->uid, s->pid, e);
    if (rc) return rc;
    s->life.refs++;
    s->programs.reading = j;
    td_session_wait(s, &for_reading);
    begin_next(s->all);
    return TD_SUSPENDED;
}

void td_session_reading_unwanted(td_session *s)
{
    if (s->programs.reading) atomic_store_explicit(&s->programs.reading->unwanted, true, memory_order_relaxed);
}

/* With what the module captures, by the client's ids. */
static td_reading *reading_new(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    const Td__Wire__ProgramNew *q = call->program_new;
    td_reading *j = malloc(sizeof *j + q->n_captured * sizeof(td_tensor *));
    if (!j) return td_no_memory(e, "for a program"), NULL;
    *j = (td_reading){.s = s,
                      .bytes = q->ir.data,
                      .length = q->ir.len,
                      .serial = call->serial,
                      .id = q->program,
                      .ncaptured = (uint32_t)q->n_captured};
    if (td_session_tensors(s, q->captured, (int)q->n_captured, false, j->captured, e)) {
        free(j);
        return NULL;
    }
    for (size_t k = 0; k < q->n_captured; k++) td_tensor_ref(j->captured[k]);
    return j;
}

static int check(const td_session *s, const Td__Wire__ProgramNew *q, td_error *e)
{
    int rc = td_session_program_id(s, q->program, e);
    if (rc) return rc;
    if (q->n_captured > TD_IR_MAX_ENDS)
        return td_fail(e, TD_E_INVALID, "a program captures at most %d tensors", TD_IR_MAX_ENDS);
    return TD_OK;
}

int td_call_program_new(td_session *s, const Td__Wire__Call *call, td_error *e)
{
    uint64_t takes = td_ir_unpack_takes(call->program_new->ir.len);
    int rc = check(s, call->program_new, e);
    td_reading *j = rc ? NULL : reading_new(s, call, e);
    if (!j) return e->code;
    rc = td_account_work(s->account, TD_CPU, takes, e);
    if (rc) {
        let_go(j);
        return td_session_lacks(s, rc, &(td_need){.heap = s->heap}, e);
    }
    j->charged = takes;
    bool here = j->length <= READ_HERE || !s->service->options.background;
    if (here) unpack(j);
    if (s->service->options.background && !j->error.code && !(here && is_plain(j->ir))) {
        rc = give_to_helper(j, e);
        if (rc == TD_SUSPENDED) return rc;
    } else {
        work(j);
        program_made(j);
        rc = settle(j, e);
    }
    td_account_work_done(s->account, TD_CPU, takes);
    let_go(j);
    return rc;
}

int td_session_program_end(td_session *s, const td_record *r, td_error *e)
{
    if (!td_session_program_of(s, r->rest[0], e)) return e->code;
    td_session_program_gone(s, r->rest[0]);
    return TD_OK;
}
