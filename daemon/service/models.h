/* Models: programs under names that answer requests.
 *
 * A model is a name with versions. A version has a program, a card (a text of its publisher's), two heaps of service
 * segments, which are empty when it goes whatever else is published (one for its weights, one for what its runs make),
 * and lanes: owners (job.h) that run it, one run each at a time. It is *warming* while its loader alone may ask it,
 * *ready* once the name may mean it, and *retiring* when it answers what it was asked and nothing else; then it is
 * gone, with all its memory, whoever still has it open. A program may have no end, and whoever asked may wait for ever:
 * so a version that retires and answers nobody for a minute lets the rest go, with an error.
 *
 * A request is held by whoever asked (td_await). It waits until its inputs are computed, then for its turn: those of a
 * higher priority first, and among equals each process in its turn. So many may wait; then a process that has more of
 * them than another gives way to that. One that is cancelled or too late before a run has taken it costs nothing. A run
 * takes several where their inputs look alike but for the rows and where that paid when the model was made warm
 * (batch.c); one that fails with several is run again for each alone.
 *
 * Invariant: a version is gone exactly when it is retiring and neither asked nor run. */
#ifndef TENSORD_DAEMON_SERVICE_MODELS_H
#define TENSORD_DAEMON_SERVICE_MODELS_H

#include "daemon/service/service.h"

enum {
    TD_MODEL_CARD = 64 << 10,  /* bytes of a card, at most */
    TD_MODEL_LAST = INT32_MAX, /* version number: clients' ints have all of them */
    TD_MODEL_ENDS = 256,       /* inputs, and outputs */
    TD_MODEL_SIZES = 16,       /* of batches that pay */
    TD_MODEL_ROWS = 1024,      /* of the largest of them */
    TD_MODEL_LANES = 16,
    TD_MODEL_GRACE_S = 60,  /* a version that retires has so long to answer one more request; then the rest fail */
    TD_MODEL_PRIORITY = 31, /* the highest; the lowest is below 0 */
    TD_MODEL_QUEUE = 1024   /* requests that wait, as a rule, and at most 64 times as many */
};

enum { TD_SERVED_WHILE_OPEN = 1, TD_SERVED_KEEP_OLD = 2, TD_SERVED_NEW = 4 }; /* as TD_MODEL_ in tensord.h */

typedef struct td_named_model td_named_model; /* a name with its versions */
typedef struct td_served td_served;           /* a version */
typedef struct td_inquiry td_inquiry;         /* a request */

/* How it is run, as its loader has found, or its publisher wants it. */
typedef struct td_model_how {
    uint16_t nin, nout, nsizes;
    uint16_t sizes[TD_MODEL_SIZES];  /* rows that a run may have, growing */
    int8_t in_rows[TD_MODEL_ENDS];   /* of each input, the dimension that counts rows; -1: none does */
    int8_t out_rows[TD_MODEL_ENDS];  /* of each output */
    uint32_t delay_us, queue, lanes; /* 0: as is usual */
    bool by_look;                    /* rows are joined only of inputs that look so that the program keeps them apart */
    uint32_t tried;                  /* rows of the largest run while it was made warm */
} td_model_how;

/* Somebody's way to a model. All zeros: there is none. */
typedef struct td_model_user {
    td_named_model *of;
    td_served *pinned; /* one version; NULL: whichever the name means */
} td_model_user;

/* ---- loading */

/* A version that is warming, and a way to it for its loader; number 0: the one behind the largest that was given out,
 * up to TD_MODEL_LAST. Its program comes later. */
int td_model_new(td_model_user *out, td_service *s, const char *name, uint32_t number, unsigned flags, const char *card,
                 size_t card_bytes, td_account *who, td_error *e);
/* Who makes copies of weights: with TD_CF_SERVICE they lie in the version's own memory. */
td_issuer *td_served_issuer(td_served *v);
/* It gets its program, like one that captures these copies. */
int td_served_program(td_served *v, const td_held_program *like, td_tensor *const *captured, td_error *e);
/* It is warm: the name means it, for all. A new card, of which it takes a copy. Older versions retire, unless they are
 * to be kept. */
int td_model_ready(td_model_user *u, const td_model_how *how, const char *card, size_t card_bytes,
                   const td_account *who, td_error *e);

/* ---- for all */

/* The way to a model whose name means something; number 0: whatever that is. */
int td_model_join(td_model_user *out, td_service *s, const char *name, uint32_t number, td_error *e);
/* It ends. A version that only its loader knew goes with that. */
void td_model_leave(td_model_user *u);
/* A version that may be asked; NULL: TD_E_NOT_FOUND, or TD_E_CLOSED. */
td_served *td_model_served(const td_model_user *u, td_error *e);
uint32_t td_served_number(const td_served *v);
const char *td_served_card(const td_served *v, size_t *bytes);
uint32_t td_served_inputs(const td_served *v); /* that its program takes */
const char *td_model_name(const td_named_model *m);
int td_model_serve(td_service *s, const char *name, uint32_t number, const td_account *who, td_error *e);
int td_model_retire(td_service *s, const char *name, uint32_t number, const td_account *who, td_error *e);
/* names.c: the name does not mean it any more. */
void td_model_unnamed(td_named_model *m);
void td_model_ref(td_named_model *m);
void td_model_unref(td_named_model *m);
/* td_heap_settle() over the heaps of all. */
uint64_t td_models_settle(td_service *s, bool at_once, bool *more);
/* At the end of the service. */
void td_models_drop(td_service *s);

/* ---- requests: batch.c */

/* Ask it: `in`, an item with the inputs, is taken over when that works. The answer, an item of `most` outputs at most,
 * is `then`'s; or an error: TD_E_TIMEOUT, or why the run failed. timeout_us: UINT64_MAX: none. TD_E_BUSY: too many
 * wait, and this one's process has its share of them. `then` only takes note; it is never called from within this. */
typedef void td_model_then(void *arg, td_queued_item *out, const td_error *error);
int td_model_ask(td_await **out, td_model_user *u, td_queued_item *in, uint64_t timeout_us, int32_t priority,
                 uint32_t most, td_model_then *then, td_error *e);
/* The version by which it was answered, or will be. */
uint32_t td_inquiry_number(const td_await *a);

/* ---- what has happened */

enum { TD_MODEL_TIMES = 128 };
/* How long something took, so often: place k is of 2^(k/4) us and more. */
typedef struct td_times {
    uint64_t count, sum_ns;
    uint32_t within[TD_MODEL_TIMES];
} td_times;
void td_times_add(td_times *t, uint64_t ns);
/* So many us are not exceeded by this part of them. */
double td_times_quantile(const td_times *t, double part);

typedef struct td_model_counts {
    uint64_t asked, answered, failed, expired, cancelled, refused; /* requests; refused: too many waited */
    uint64_t rows, runs, again;           /* of those answered; again: runs of one, for several had failed together */
    uint64_t by_size[TD_MODEL_SIZES + 1]; /* runs by rows: up to sizes[k]; the last: more */
    td_times queue, input, run, output, total; /* of those answered */
} td_model_counts;

typedef struct td_model_info {
    const char *name, *state; /* "warming", "ready", "retiring" */
    const char *program;      /* whose it is, and who */
    uint32_t version, pid, uid, waiting, running, users;
    bool serves; /* the name means it */
    uint64_t bytes, committed, since_ms;
    const td_model_how *how;
    const td_model_counts *counts;
} td_model_info;
/* Of the version that the name means, borrowed; NULL: it means none. */
td_held_program *td_model_program(const td_named_model *m);
/* In a few words; the bytes of all its versions. */
uint64_t td_model_tell(const td_named_model *m, char *what, size_t size);
/* As td_name_some(), of all versions. */
bool td_model_some(td_service *s, bool first, uint32_t most, void (*fn)(const td_model_info *m, void *arg), void *arg);

#endif
