/* A version is made warm: run until what is made once is made, and looked at meanwhile.
 *
 * Which dimension of an input counts rows no file says for certain: names of sizes differ from file to file, and some
 * have none. So the program is asked whether its rows stay apart (proto/rows), which holds for all numbers; and runs
 * have to agree, with rows one after the other, and together. Without the first, rows are joined only where whoever
 * publishes says how many. A size of a batch pays where its time a row is a tenth below that of the best smaller one.
 * Inputs are numbers that follow from their place, so that rows differ. */
#include "client/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 10,
    LEAST_ROUNDS = 3 /* weights are packed at their third use */,
    MOST_ROWS = 8,
    UNPAID = 2 /* sizes */
};
#define ROUND_NS UINT64_C(150000000) /* that rounds of one size take, about */
#define LONG_NS UINT64_C(400000000)  /* so long they may, before they are fewer; larger sizes are not tried then */
#define PAYS 0.9
#define SHORT_NS UINT64_C(20000000) /* a run: then rows are compared for numbers of all sizes */

/* Sizes that nobody says, in the order in which they are tried. */
static const int64_t guesses[] = {64, 224, 16, 320, 128, 32, 512, 1};

typedef struct trial {
    td_model *model;
    td_program *program;
    td_warmed *w;
    int64_t guess;    /* in place of sizes that are open */
    double spread[2]; /* numbers of even and odd rows: 0: from 0 up to 1; else so far from 0, on both sides */
} trial;

/* ---- inputs */

static bool is_open(const td_card_end *x, int dim)
{
    return x->size[dim] < 0;
}

static int first_open(const td_card_end *x)
{
    for (int i = 0; i < x->ndim; i++)
        if (is_open(x, i)) return i;
    return -1;
}

/* A text that stands for the rows of one input does so everywhere. */
static bool counts_rows(const trial *t, int k, int dim)
{
    const td_card *c = &t->model->card;
    if (t->w->in_rows[k] == dim) return true;
    for (int a = 0; a < c->nin; a++) {
        int at = t->w->in_rows[a];
        const char *of = at < 0 ? NULL : c->in[a].symbol[at], *here = c->in[k].symbol[dim];
        if (of && here && strcmp(of, here) == 0) return true;
    }
    return false;
}

static uint32_t mixed(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = (a * UINT32_C(2654435761)) ^ (b * UINT32_C(2246822519)) ^ (c * UINT32_C(3266489917));
    h ^= h >> 15;
    h *= UINT32_C(2246822519);
    return h ^ h >> 13;
}

static bool is_whole(td_dtype t)
{
    return t == TD_INT8 || t == TD_UINT8 || t == TD_INT16 || t == TD_INT32 || t == TD_INT64 || t == TD_BOOL;
}

static int64_t size_of(const trial *t, int k, int dim, int64_t rows)
{
    const td_card_end *x = &t->model->card.in[k];
    return !is_open(x, dim) ? x->size[dim] : counts_rows(t, k, dim) ? rows : t->guess;
}

static float number(const trial *t, uint32_t h, int64_t row, bool whole)
{
    if (whole) return (float)(h >> 31);
    double share = (double)(h >> 8) / (1 << 24), spread = t->spread[row & 1];
    return (float)(spread == 0 ? share : spread * (2 * share - 1));
}

/* Of rows `from` up to `from + rows`: as float32, which is then the dtype that the card says. */
static td_array *input(const trial *t, int k, int64_t from, int64_t rows)
{
    const td_card_end *x = &t->model->card.in[k];
    int64_t shape[TD_MAX_DIMS] = {0}, n = 1, behind = 1;
    int dim = t->w->in_rows[k], ndim = x->ndim < 0 ? 0 : x->ndim;
    for (int i = 0; i < ndim; i++) {
        shape[i] = size_of(t, k, i, rows);
        if (i > dim) behind *= shape[i];
        if (__builtin_mul_overflow(n, shape[i], &n) || n > INT64_C(1) << 28)
            return td_raise(TD_E_SHAPE, "model_publish", "input '%.60s' is too large to be tried", x->name), NULL;
    }
    float *at = malloc(((size_t)n + 1) * sizeof *at);
    if (!at) return td_raise(TD_E_SYSTEM, "model_publish", "no memory to try a model"), NULL;
    for (int64_t j = 0; j < n; j++) {
        int64_t row = dim < 0 ? 0 : j / behind % shape[dim],
                other = dim < 0 ? j : j / (behind * shape[dim]) * behind + j % behind;
        uint32_t h = mixed((uint32_t)(row + from), (uint32_t)other, (uint32_t)k);
        at[j] = number(t, h, row + from, is_whole(x->dtype));
    }
    td_ints sizes = {ndim, shape};
    td_array *made = td_from_data(t->model->client, TD_FLOAT32, sizes, at), *out = made;
    free(at);
    if (made && x->dtype != TD_FLOAT32) {
        out = td_at_to(NULL, made, x->dtype);
        td_release(made);
    }
    return out;
}

static void release(int n, td_array **at)
{
    for (int k = 0; k < n; k++) td_release(at[k]);
}

/* Rows `from` up to `from + rows`; *ns: how long that took. */
static int run(const trial *t, int64_t from, int64_t rows, td_array **out, uint64_t *ns)
{
    td_array *in[TD_CARD_ENDS];
    int n = 0, rc = TD_OK;
    while (n < t->model->card.nin && (in[n] = input(t, n, from, rows))) n++;
    if (n < t->model->card.nin) rc = td_last_error()->code;
    if (!rc) rc = td_settle(t->model->client);
    uint64_t began = td_clock_ns();
    if (!rc) rc = td_infer(t->model, td_arrays_of(n, in), t->model->card.nout, out, -1);
    *ns = td_clock_ns() - began;
    release(n, in);
    return rc;
}

/* ---- do outputs go by rows? */

/* Row `row` of an output, or with `dim` -1 all of it, as numbers; NULL: raised. */
static double *numbers(td_array *out, int dim, int64_t row, int64_t *n)
{
    td_array *part = dim < 0 ? td_retain(out) : td_narrow(out, dim, row, 1);
    td_array *wide = part ? td_at_to(NULL, part, TD_FLOAT64) : NULL;
    *n = wide ? td_numel(wide) : -1;
    double *at = *n < 0 ? NULL : malloc(((size_t)*n + 1) * sizeof *at);
    if (at && td_read(wide, at, (size_t)*n * sizeof *at)) {
        free(at);
        at = NULL;
    }
    td_release(wide);
    td_release(part);
    return at;
}

/* A batch may change last bits, and no more: of sums of what is as large as the largest. */
static bool near(double a, double b, double largest)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-3 + 1e-3 * largest;
}

static bool same(td_array *both, int dim, int64_t row, td_array *alone)
{
    int64_t n, m;
    double *a = numbers(both, dim, row, &n), *b = numbers(alone, dim, 0, &m), largest = 0;
    bool good = a && b && n == m;
    for (int64_t k = 0; k < n && good; k++)
        if (isfinite(b[k]) && fabs(b[k]) > largest) largest = fabs(b[k]);
    for (int64_t k = 0; k < n && good; k++) good = near(a[k], b[k], largest);
    free(a);
    free(b);
    return good;
}

/* The dimension that has one for one row and two for two; -1: it looks the same; -2: neither. */
static int rows_of_output(td_array *one, td_array *two)
{
    int dim = -1, n = td_ndim(one);
    if (n < 0 || n != td_ndim(two)) return -2;
    for (int i = 0; i < n; i++) {
        int64_t a = td_size(one, i), b = td_size(two, i);
        if (a == b) continue;
        if (dim >= 0 || a != 1 || b != 2) return -2;
        dim = i;
    }
    return dim;
}

static bool goes_by_rows(const trial *t, td_array **first, td_array **second, td_array **both)
{
    bool any = false;
    for (int k = 0; k < t->model->card.nout; k++) {
        int dim = rows_of_output(first[k], both[k]);
        t->w->out_rows[k] = dim;
        if (dim < -1 || !same(both[k], dim, 0, first[k])) return false;
        if (dim >= 0 && !same(both[k], dim, 1, second[k])) return false;
        any |= dim >= 0;
    }
    return any;
}

/* Whatever fails says no: what the model takes alone it takes still. */
static bool agrees(const trial *t, bool *ran_all)
{
    td_array *at[3][TD_CARD_ENDS];
    uint64_t ns;
    int n = t->model->card.nout, ran = 0;
    static const int64_t from[] = {0, 1, 0}, rows[] = {1, 1, 2};
    while (ran < 3 && run(t, from[ran], rows[ran], at[ran], &ns) == TD_OK) ran++;
    *ran_all = ran == 3;
    bool good = ran == 3 && goes_by_rows(t, at[0], at[1], at[2]);
    for (int k = 0; k < ran; k++) release(n, at[k]);
    td_clear_error();
    return good;
}

/* Small rows beside large ones, too. A model may refuse such numbers, which says nothing. */
static bool joins(trial *t, uint64_t alone)
{
    static const double spreads[][2] = {{0, 0}, {1, 100}, {1e4, 1}};
    bool good = true, ran;
    for (int k = 0; k < 3 && good && (k == 0 || alone < SHORT_NS); k++) {
        memcpy(t->spread, spreads[k], sizeof t->spread);
        good = agrees(t, &ran) || (k > 0 && !ran);
    }
    memcpy(t->spread, spreads[0], sizeof t->spread);
    return good;
}

/* ---- does the program say so? */

static int looks_of_captured(td_program *p, td_desc *looks)
{
    int rc = td_enter(p->client, "model_publish");
    if (rc) return rc;
    rc = td_program_captured(p);
    td_leave(p->client);
    for (int k = 0; k < p->ncaptured && !rc; k++) {
        if (td_dtype_of(p->captured[k]) == TD_DTYPE_NONE) rc = td_last_error()->code; /* it is known behind this */
        else looks[k] = p->captured[k]->desc;
    }
    return rc;
}

static int looks_of_inputs(const trial *t, td_desc *looks)
{
    const td_card *c = &t->model->card;
    td_error e = {0};
    int rc = TD_OK;
    for (int k = 0; k < c->nin && !rc; k++) {
        int64_t shape[TD_MAX_DIMS];
        int ndim = c->in[k].ndim < 0 ? 0 : c->in[k].ndim;
        for (int i = 0; i < ndim; i++) shape[i] = size_of(t, k, i, 1);
        rc = td_desc_contiguous(&looks[k], c->in[k].dtype, ndim, shape, &e);
    }
    return rc;
}

/* Then `out_rows` are known, too. */
static bool stay_apart(const trial *t)
{
    td_program *p = t->program;
    int nin = t->model->card.nin, n = nin + (int)p->ir->ncaptures;
    td_desc *looks = calloc((size_t)n + 1, sizeof *looks);
    bool apart = false;
    td_rows_question q = {.ir = p->ir,
                          .captured = looks ? looks + nin : NULL,
                          .nin = nin,
                          .nout = t->model->card.nout,
                          .in = looks,
                          .in_rows = t->w->in_rows,
                          .most = TD_ROWS_STEPS};
    if (!looks || looks_of_inputs(t, looks) || looks_of_captured(p, looks + nin))
        snprintf(t->w->why, sizeof t->w->why, "how its tensors look is not known");
    else apart = td_rows_stay_apart(&q, t->w->out_rows, t->w->why);
    free(looks);
    td_clear_error();
    return apart;
}

static bool same_rows(const trial *t, const int *out_rows)
{
    return memcmp(out_rows, t->w->out_rows, (size_t)t->model->card.nout * sizeof *out_rows) == 0;
}

/* ---- trying */

/* The least of some rounds; 0: it failed. */
static uint64_t time_of(const trial *t, int64_t rows)
{
    uint64_t least = UINT64_MAX, sum = 0;
    for (int k = 0; k < ROUNDS && sum < (k < LEAST_ROUNDS ? LONG_NS : ROUND_NS); k++) {
        td_array *out[TD_CARD_ENDS];
        uint64_t ns;
        if (run(t, 0, rows, out, &ns)) return 0;
        release(t->model->card.nout, out);
        if (ns < least) least = ns;
        sum += ns;
    }
    return least ? least : 1;
}

static void add_size(td_warmed *w, uint32_t rows)
{
    if (w->nsizes < TD_WARM_SIZES) w->sizes[w->nsizes++] = rows;
}

/* Twice as many each time, up to what was asked for; or until two sizes, one behind the other, do not pay. One that
 * does not says little: a product of four rows may take a kernel for small ones, and that of eight the one for large
 * ones. Of a long run it says all: its rows fill the processors alone, and what more of them take up stays for seconds.
 */
static void try_sizes(const trial *t, int max_batch, uint64_t alone)
{
    double best = (double)alone;
    uint32_t most = max_batch > 0 ? (uint32_t)max_batch : MOST_ROWS, rows = 1;
    add_size(t->w, 1);
    for (int unpaid = 0; rows < most && unpaid < (alone < SHORT_NS ? UNPAID : 1);) {
        rows = 2 * rows < most ? 2 * rows : most;
        if (max_batch <= 0 && best * rows > (double)LONG_NS) break;
        uint64_t ns = time_of(t, rows);
        t->w->tried = rows;
        double each = (double)ns / rows;
        if (!ns) break;
        if (max_batch <= 0 && each > PAYS * best) {
            unpaid++;
            continue;
        }
        unpaid = 0;
        best = each;
        add_size(t->w, rows);
    }
    td_clear_error();
}

/* Some size for what is open with which it runs. */
static int find_guess(trial *t, uint64_t *alone)
{
    bool open = false;
    const td_card *c = &t->model->card;
    for (int k = 0; k < c->nin; k++)
        for (int i = 0; i < c->in[k].ndim; i++) open |= is_open(&c->in[k], i) && !counts_rows(t, k, i);
    for (size_t k = 0; k < (open ? sizeof guesses / sizeof guesses[0] : 1); k++) {
        t->guess = guesses[k];
        td_clear_error();
        if ((*alone = time_of(t, 1))) return TD_OK;
        int code = td_last_error()->code;
        if (code == TD_E_LOST || code == TD_E_MEMORY || code == TD_E_QUOTA || code == TD_E_CANCELLED) break;
    }
    return td_last_error()->code;
}

static bool may_join(trial *t)
{
    const td_card *c = &t->model->card;
    bool any = false;
    for (int k = 0; k < c->nin; k++) {
        int dim = first_open(&c->in[k]);
        t->w->in_rows[k] = dim <= 1 ? dim : -1; /* beyond these it is a height, or a length */
        any |= t->w->in_rows[k] >= 0;
    }
    return any;
}

/* Has it inputs whose sizes are all said? Then a run that fails is no matter of guesses. */
static bool is_whole_card(const td_card *c)
{
    for (int k = 0; k < c->nin; k++)
        if (c->in[k].ndim < 0 || first_open(&c->in[k]) >= 0) return false;
    return true;
}

static void forget_rows(const td_model *m, td_warmed *w)
{
    for (int k = 0; k < m->card.nin; k++) w->in_rows[k] = -1;
    for (int k = 0; k < m->card.nout; k++) w->out_rows[k] = -1;
    w->nsizes = 0;
}

static bool not_joined(const trial *t, const char *why)
{
    snprintf(t->w->why, sizeof t->w->why, "%s", why);
    return false;
}

/* What stands against it is in `why`. Whoever publishes may know better than what the program says, by `max_batch`. */
static bool may_be_joined(trial *t, int max_batch, uint64_t alone)
{
    int out_rows[TD_CARD_ENDS];
    if (max_batch == 1) return not_joined(t, "max_batch is 1");
    if (!may_join(t)) return not_joined(t, "no input has an open size that could count rows");
    bool apart = stay_apart(t);
    if (!apart && max_batch <= 0) return false;
    memcpy(out_rows, t->w->out_rows, sizeof out_rows);
    if (!joins(t, alone) || (apart && !same_rows(t, out_rows)))
        return not_joined(t, "two rows together gave something else than alone");
    t->w->why[0] = 0;
    return true;
}

int td_model_warm(td_model *m, td_program *program, int max_batch, td_warmed *out)
{
    trial t = {.model = m, .program = program, .w = out};
    uint64_t alone = 0;
    *out = (td_warmed){0};
    forget_rows(m, out);
    if (max_batch != 1) may_join(&t); /* they are 1 while a guess is looked for */
    int rc = find_guess(&t, &alone),
        fatal = rc == TD_E_LOST || rc == TD_E_CANCELLED || rc == TD_E_MEMORY || rc == TD_E_QUOTA;
    if (rc && (fatal || is_whole_card(&m->card))) return rc;
    td_clear_error();
    if (rc) not_joined(&t, "it did not run with any sizes that were tried");
    else if (may_be_joined(&t, max_batch, alone)) {
        try_sizes(&t, max_batch, alone);
        if (out->nsizes < 2) not_joined(&t, "rows together took as long as one after the other");
        return TD_OK;
    }
    forget_rows(m, out);
    return TD_OK;
}
