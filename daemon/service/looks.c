/* Which requests of a model may be joined, by how their inputs look.
 *
 * A program may go other ways for other sizes, and what was tried when it was made warm says nothing of those. So it is
 * asked for each look that comes whether its rows stay apart (proto/rows), by a helper thread; until that has answered,
 * requests of that look stay alone. A few answers are kept. Invariants: one look at a time is asked about; whoever
 * published the model with a number of rows is believed instead. */
#include "daemon/service/model.h"
#include "proto/rows/rows.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT = 8, EACH = 1 + TD_MAX_DIMS /* words of an input */ };

struct td_model_looks {
    uint32_t n, next;
    enum { ASKED, APART, MIXED } said[KEPT];
    bool asking;
    size_t words;
    int64_t at[]; /* KEPT times so many, and those of the one that is looked for */
};

static size_t bytes_of(const td_served *v)
{
    return sizeof(td_model_looks) + (KEPT + 1) * EACH * sizeof(int64_t) * v->how.nin;
}

uint64_t td_looks_objects(const td_served *v)
{
    return td_objects_of(bytes_of(v));
}

int td_looks_new(td_served *v, td_error *e)
{
    v->looks = calloc(1, bytes_of(v));
    if (!v->looks) return td_no_memory(e, "for a model's looks");
    v->looks->words = (size_t)EACH * v->how.nin;
    return TD_OK;
}

/* All but the number of rows. */
static void say(const td_served *v, const td_queued_item *in, int64_t *to)
{
    memset(to, 0, v->looks->words * sizeof *to);
    for (int k = 0; k < v->how.nin; k++, to += EACH) {
        const td_desc *d = &in->tensors[k]->desc;
        to[0] = d->dtype | d->ndim << 8 | d->device << 16;
        for (int i = 0; i < d->ndim; i++) to[1 + i] = i == v->how.in_rows[k] ? -1 : d->shape[i];
    }
}

/* ---- asking: what the helper reads is its own, or never changes */

typedef struct question {
    td_served *of; /* counted */
    uint32_t place;
    bool apart;
    td_ir *ir;      /* counted */
    td_desc *looks; /* of the inputs, then of what is captured */
    int in_rows[TD_MODEL_ENDS], out_rows[TD_MODEL_ENDS];
} question;

static void work(void *arg)
{
    question *x = arg;
    const td_model_how *h = &x->of->how;
    td_rows_question q = {.ir = x->ir,
                          .captured = x->looks + h->nin,
                          .nin = h->nin,
                          .nout = h->nout,
                          .in = x->looks,
                          .in_rows = x->in_rows,
                          .most = TD_ROWS_STEPS};
    char why[TD_ROWS_WHY];
    x->apart = td_rows_stay_apart(&q, x->out_rows, why);
    for (int k = 0; k < h->nout && x->apart; k++) x->apart = x->out_rows[k] == h->out_rows[k];
}

static void forget(question *x)
{
    td_ir_unref(x->ir);
    free(x->looks);
    free(x);
}

static void done(void *arg)
{
    question *x = arg;
    td_served *v = x->of;
    v->looks->said[x->place] = x->apart ? APART : MIXED;
    v->looks->asking = false;
    forget(x);
    td_served_unref(v);
}

/* NULL: there is no memory; it is asked for again with the next request. */
static question *question_of(td_served *v, const td_queued_item *in)
{
    td_tensor *const *captured;
    uint32_t nin = v->how.nin, n = nin + td_program_captured(v->program, &captured);
    question *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->ir = td_ir_ref(td_program_module(v->program));
    x->looks = malloc(((size_t)n + 1) * sizeof *x->looks);
    if (!x->looks) return forget(x), NULL;
    for (uint32_t k = 0; k < n; k++) {
        x->looks[k] = k < nin ? in->tensors[k]->desc : captured[k - nin]->desc;
        if (k >= nin) continue;
        x->in_rows[k] = v->how.in_rows[k];
        td_desc_pack(&x->looks[k]); /* wherever its client has it */
    }
    return x;
}

static void ask(td_served *v, const td_queued_item *in, uint32_t place)
{
    const td_service_options *o = &v->of->service->options;
    question *x = question_of(v, in);
    if (!x) return;
    x->of = td_served_ref(v);
    x->place = place;
    v->looks->asking = true;
    if (o->background) {
        o->background(o->arg, work, done, x);
        return;
    }
    work(x);
    done(x);
}

bool td_looks_apart(td_served *v, const td_queued_item *in)
{
    td_model_looks *l = v->looks;
    if (!l) return true;
    int64_t *now = l->at + KEPT * l->words;
    uint32_t place = 0;
    say(v, in, now);
    while (place < l->n && memcmp(l->at + place * l->words, now, l->words * sizeof *now) != 0) place++;
    if (place < l->n && l->said[place] != ASKED) return l->said[place] == APART;
    if (l->asking) return false;
    if (place == l->n) place = l->n < KEPT ? l->n++ : l->next++ % KEPT;
    memcpy(l->at + place * l->words, now, l->words * sizeof *now);
    l->said[place] = ASKED;
    ask(v, in, place);
    return l->said[place] == APART;
}
