/* Lines of ops as steps: each says its row's expression once more, in the order and with the roundings that the
 * compiler gives it. A product that only a sum takes is rounded with that, as the loops for AVX2 and AVX-512 are built
 * (-ffp-contract=fast), and there is no other set that code is made for. Of two NaNs the processor gives the one that
 * stands first, and of a sum with a product the product's; so where the order makes no number another it is that of the
 * compiled loops, which is not always the row's (those of lerp and addcmul have no order of their own). test_jit holds
 * each to its row, NaNs included. */
#include "daemon/kernels/cpu/jit/jit_steps.h"
#include "daemon/kernels/cpu/loop.h"
#include "proto/ops/opid.h"
#include <string.h>

/* A line that is being taken apart. */
typedef struct taking {
    td_jit_steps *s;
    const td_jit_line *line;
    uint16_t a, b, c; /* its inputs */
    bool full;        /* there are more steps than a text may have */
} taking;

enum { NOTHING = UINT16_MAX };

static uint16_t new_value(taking *t, uint8_t kind)
{
    td_jit_steps *s = t->s;
    if (s->nvalues == TD_JIT_VALUES) {
        t->full = true;
        return 0;
    }
    s->kind[s->nvalues] = kind;
    return s->nvalues++;
}

static uint16_t step(taking *t, td_jit_step x)
{
    td_jit_steps *s = t->s;
    if (s->nsteps == TD_JIT_STEPS) {
        t->full = true;
        return 0;
    }
    x.out = new_value(t, TD_JIT_MADE);
    s->step[s->nsteps++] = x;
    return x.out;
}

static uint16_t two(taking *t, td_jit_do what, uint16_t a, uint16_t b)
{
    return step(t, (td_jit_step){.what = what, .in = {a, b, NOTHING, NOTHING}});
}

static uint16_t one(taking *t, td_jit_do what, uint8_t how, uint16_t b)
{
    return step(t, (td_jit_step){.what = what, .how = how, .in = {NOTHING, b, NOTHING, NOTHING}});
}

static uint16_t sum(taking *t, td_jit_do what, uint16_t a, uint16_t b, uint16_t c)
{
    return step(t, (td_jit_step){.what = what, .in = {a, b, c, NOTHING}});
}

static uint16_t choose(taking *t, uint8_t how, uint16_t a, uint16_t b, uint16_t yes, uint16_t no)
{
    return step(t, (td_jit_step){.what = TD_JIT_CHOOSE, .how = how, .in = {a, b, yes, no}});
}

/* ---- numbers */

static uint16_t bits(taking *t, uint64_t number)
{
    td_jit_steps *s = t->s;
    for (uint16_t v = 0; v < s->nvalues; v++)
        if (s->kind[v] == TD_JIT_NUMBER && s->number[v] == number) return v;
    uint16_t v = new_value(t, TD_JIT_NUMBER);
    s->number[v] = number;
    return v;
}

static uint16_t number(taking *t, double d)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;
    float f = (float)d;
    memcpy(&wide, &d, sizeof d);
    memcpy(&narrow, &f, sizeof f);
    return bits(t, t->s->dtype == TD_FLOAT32 ? narrow : wide);
}

static uint16_t attribute(taking *t, int nr)
{
    return number(t, td_pointwise_attr(t->line->op, t->line->attrs, t->s->dtype, nr).re);
}

static uint64_t sign(const taking *t)
{
    return t->s->dtype == TD_FLOAT32 ? (uint64_t)1 << 31 : (uint64_t)1 << 63;
}

/* ---- ops of several steps */

static uint16_t extreme(taking *t, td_jit_do what, uint16_t a, uint16_t b)
{
    return choose(t, TD_JIT_NAN, a, a, a, two(t, what, a, b));
}

static uint16_t absolute(taking *t, uint16_t x)
{
    return two(t, TD_JIT_AND, x, bits(t, sign(t) - 1));
}

/* x + number * y: once it is plain as well, as the loops of the table know no other way. */
static uint16_t scaled(taking *t, td_jit_do fused, uint16_t x, uint16_t y)
{
    return sum(t, fused, x, attribute(t, 0), y);
}

static uint16_t clamp(taking *t)
{
    uint16_t low = attribute(t, 0), high = attribute(t, 1);
    return extreme(t, TD_JIT_MIN, extreme(t, TD_JIT_MAX, t->a, low), high);
}

static uint16_t lerp(taking *t)
{
    uint16_t far = two(t, TD_JIT_SUB, t->b, t->a), left = two(t, TD_JIT_SUB, number(t, 1), t->c);
    uint16_t near_x = sum(t, TD_JIT_FMA, t->a, t->c, far), near_end = sum(t, TD_JIT_FNMA, t->b, far, left);
    return choose(t, TD_JIT_LT, absolute(t, t->c), number(t, 0.5), near_x, near_end);
}

static uint8_t compares(const td_op *op)
{
    switch (op->id) {
    case TD_OP_EQ: return TD_JIT_EQ;
    case TD_OP_NE: return TD_JIT_NE;
    case TD_OP_LT: return TD_JIT_LT;
    case TD_OP_LE: return TD_JIT_LE;
    case TD_OP_GT: return TD_JIT_GT;
    case TD_OP_GE: return TD_JIT_GE;
    default: return UINT8_MAX;
    }
}

/* The value of a line that is no comparison; NOTHING: it is not known. */
static uint16_t take(taking *t)
{
    uint16_t a = t->a, b = t->b, c = t->c;
    switch (t->line->op->id) {
    case TD_OP_ADD: return scaled(t, TD_JIT_FMA, a, b);
    case TD_OP_SUB: return scaled(t, TD_JIT_FNMA, a, b);
    case TD_OP_MUL: return two(t, TD_JIT_MUL, a, b);
    case TD_OP_DIV: return two(t, TD_JIT_DIV, a, b);
    case TD_OP_MAXIMUM: return extreme(t, TD_JIT_MAX, a, b);
    case TD_OP_MINIMUM: return extreme(t, TD_JIT_MIN, a, b);
    case TD_OP_CLAMP:
    case TD_OP_HARDTANH: return clamp(t);
    case TD_OP_NEG: return two(t, TD_JIT_XOR, a, bits(t, sign(t)));
    case TD_OP_ABS: return absolute(t, a);
    case TD_OP_SQRT: return one(t, TD_JIT_SQRT, 0, a);
    case TD_OP_RSQRT: return two(t, TD_JIT_DIV, number(t, 1), one(t, TD_JIT_SQRT, 0, a));
    case TD_OP_RECIPROCAL: return two(t, TD_JIT_DIV, number(t, 1), a);
    case TD_OP_SQUARE: return two(t, TD_JIT_MUL, a, a);
    case TD_OP_FLOOR: return one(t, TD_JIT_ROUND, TD_JIT_FLOOR, a);
    case TD_OP_CEIL: return one(t, TD_JIT_ROUND, TD_JIT_CEIL, a);
    case TD_OP_TRUNC: return one(t, TD_JIT_ROUND, TD_JIT_TRUNC, a);
    case TD_OP_ROUND: return one(t, TD_JIT_ROUND, TD_JIT_NEAREST, a);
    case TD_OP_RELU: return choose(t, TD_JIT_LE, a, number(t, 0), number(t, 0), a);
    case TD_OP_LEAKY_RELU: return choose(t, TD_JIT_GT, a, number(t, 0), a, two(t, TD_JIT_MUL, a, attribute(t, 0)));
    case TD_OP_THRESHOLD_BACKWARD: return choose(t, TD_JIT_LE, b, number(t, 0), number(t, 0), a);
    case TD_OP_SIGMOID_BACKWARD:
        return two(t, TD_JIT_MUL, two(t, TD_JIT_MUL, two(t, TD_JIT_SUB, number(t, 1), b), a), b);
    case TD_OP_TANH_BACKWARD: return two(t, TD_JIT_MUL, sum(t, TD_JIT_FNMA, number(t, 1), b, b), a);
    case TD_OP_ADDCMUL: return sum(t, TD_JIT_FMA, a, attribute(t, 0), two(t, TD_JIT_MUL, b, c));
    case TD_OP_ADDCDIV: return two(t, TD_JIT_ADD, two(t, TD_JIT_DIV, two(t, TD_JIT_MUL, attribute(t, 0), b), c), a);
    case TD_OP_LERP: return lerp(t);
    default: return NOTHING;
    }
}

bool td_jit_compares(const td_op *op)
{
    return compares(op) != UINT8_MAX;
}

bool td_jit_chooses(const td_op *op)
{
    return op->id == TD_OP_WHERE;
}

/* By trying it: no list of ops has to be kept in step with the one above. */
bool td_jit_knows(const td_op *op, td_dtype compute)
{
    static const td_attrs none;
    td_jit_steps s = {.dtype = compute, .nvalues = TD_JIT_INPUTS};
    td_jit_line line = {.op = op, .attrs = &none, .in = {0, 1, 2}};
    taking t = {.s = &s, .line = &line, .a = 0, .b = 1, .c = 2};
    if (compute != TD_FLOAT32 && compute != TD_FLOAT64) return false;
    return td_jit_compares(op) || td_jit_chooses(op) || take(&t) != NOTHING;
}

/* ---- all of it */

/* Of a line that compares nothing is made: `where` says it once more. */
static bool take_line(taking *t, const td_jit_text *text, uint16_t *value)
{
    uint16_t nr = (uint16_t)(t->line - text->line), in[TD_JIT_INPUTS];
    const td_jit_line *cause = NULL;
    bool chooses = td_jit_chooses(t->line->op);
    for (int k = 0; k < t->line->op->nparams; k++) {
        uint16_t from = t->line->in[k];
        if (from >= text->nsources + nr) return false;
        in[k] = value[from];
        if (chooses && k == 0 && from >= text->nsources) cause = &text->line[from - text->nsources];
        else if (in[k] == NOTHING) return false;
    }
    if (td_jit_compares(t->line->op)) {
        value[text->nsources + nr] = NOTHING;
        return !t->line->kept;
    }
    if (chooses && (!cause || !td_jit_compares(cause->op))) return false;
    t->a = in[0], t->b = in[1], t->c = in[2];
    uint16_t made =
        chooses ? choose(t, compares(cause->op), value[cause->in[0]], value[cause->in[1]], in[1], in[2]) : take(t);
    value[text->nsources + nr] = made;
    return made != NOTHING && !t->full;
}

static void take_sources(td_jit_steps *s, const td_jit_text *text)
{
    for (uint16_t k = 0; k < text->nsources; k++) {
        const td_jit_source *from = &text->source[k];
        s->kind[k] = (uint8_t)from->kind;
        s->pointer[k] = k;
        s->number[k] = 0;
        if (from->kind == TD_JIT_NUMBER) memcpy(&s->number[k], from->number, td_dtype_size(text->dtype));
    }
    s->nvalues = text->nsources;
}

bool td_jit_steps_of(const td_jit_text *text, td_jit_steps *s)
{
    uint16_t value[TD_JIT_SOURCES + TD_JIT_LINES];
    s->dtype = text->dtype;
    s->nsteps = s->nkept = 0;
    take_sources(s, text);
    for (uint16_t k = 0; k < text->nsources; k++) value[k] = k;
    for (uint16_t k = 0; k < text->nlines; k++) {
        taking t = {.s = s, .line = &text->line[k]};
        if (!td_jit_knows(t.line->op, text->dtype) || t.line->op->nparams > TD_JIT_INPUTS) return false;
        if (!take_line(&t, text, value)) return false;
        if (t.line->kept) s->kept[s->nkept++] = value[text->nsources + k];
    }
    return true;
}

double td_jit_cost(const td_jit_text *t)
{
    double ns = 0, memory = 0;
    for (uint16_t k = 0; k < t->nsources; k++) memory += t->source[k].kind == TD_JIT_EACH;
    for (uint16_t k = 0; k < t->nlines; k++) {
        uint16_t op = t->line[k].op->id;
        bool slow = op == TD_OP_DIV || op == TD_OP_SQRT || op == TD_OP_RSQRT || op == TD_OP_RECIPROCAL;
        ns += slow || op == TD_OP_ADDCDIV ? 0.25 : 0.02;
        memory += t->line[k].kept;
    }
    ns = ns > 0.03 * memory ? ns : 0.03 * memory;
    return t->dtype == TD_FLOAT64 ? 2 * ns : ns;
}
