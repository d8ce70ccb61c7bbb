/* Calls as a hostile client would make them: random operands and attributes for every op. Inference either fails and
 * says why, or gives descriptors that hold what desc.h promises; views reach nothing beyond what the numbers of their
 * input allow. Run it under sanitizers to see what it does on the way. */
#include "cunit_main.h"
#include "op_calls.h"

enum { ROUNDS = 4000, MAX_OUT = TD_MAX_OUTPUTS };

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t draw(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

/* Mostly small, sometimes any 64 bits. */
static int64_t draw_int(void)
{
    static const int64_t edges[] = {INT64_MIN, INT64_MAX, INT64_MAX - 1, INT64_C(1) << 62, INT64_C(1) << 31, -1, 0};
    uint64_t r = draw();
    if (r % 16 == 0) return edges[r / 16 % 7];
    if (r % 16 == 1) return (int64_t)draw();
    return (int64_t)(r / 16 % 9) - 2;
}

/* A descriptor that passed the check, as every descriptor of a session has. `like`: one to share sizes with. */
static td_desc draw_desc(const td_desc *like)
{
    for (;;) {
        td_desc d = {.dtype = (uint8_t)(draw() % 4 ? TD_FLOAT32 : draw() % TD_DTYPE_COUNT)};
        if (like && draw() % 2) {
            d = *like;
            if (draw() % 4 == 0) d.dtype = (uint8_t)(draw() % TD_DTYPE_COUNT);
        } else {
            d.ndim = (uint8_t)(draw() % 4 ? draw() % 5 : draw() % 2 ? 4 : draw() % 9);
            bool wild = draw() % 8 == 0;
            for (int i = 0; i < d.ndim; i++) d.shape[i] = wild ? draw_int() : (int64_t)(draw() % 5);
            td_desc_pack(&d);
            if (wild)
                for (int i = 0; i < d.ndim; i++) d.stride[i] = draw_int();
        }
        if (draw() % 8 == 0) d.offset = draw_int();
        if (!td_desc_check(&d, INT64_MAX, NULL)) return d;
    }
}

/* An equation, or what looks like one. */
static void draw_text(td_attrs *a)
{
    static const char *const good[] = {"i->i", "ij,jk->ik", "...", "...i,...i", "a,b,c", "ii", "", "i,i,i->i"};
    static const char chars[] = "ijkA,,->. ..";
    char text[TD_MAX_TEXT];
    size_t n = draw() % 8 ? draw() % 12 : draw() % sizeof text;
    const char *known = good[draw() % (sizeof good / sizeof *good)];
    for (size_t i = 0; i < n; i++)
        text[i] = draw() % 32 ? chars[draw() % (sizeof chars - 1)] : (char)(1 + draw() % 255);
    if (draw() % 4) td_attrs_text(a, known, strlen(known));
    else td_attrs_text(a, text, n);
}

static void draw_attr(td_attrs *a, const td_attr_def *def)
{
    int64_t list[12];
    int n = (int)(draw() % 2 ? 2 : draw() % (draw() % 8 ? 5 : 12));
    bool tame = draw() % 2;
    for (int i = 0; i < 12; i++) list[i] = tame ? 1 + (int64_t)(draw() % 2) : draw_int();
    if (def->optional && draw() % 3 == 0) {
        td_attrs_none(a);
        return;
    }
    double f = draw() % 8 ? (double)draw_int() * 0.25 : draw() % 2 ? NAN : INFINITY;
    td_scalar numbers[] = {td_bool(draw() % 2), td_int(draw_int()), td_float(f), td_complex(f, 1)};
    switch (def->kind) {
    case TD_A_INT: td_attrs_int(a, tame ? 1 : draw_int()); break;
    case TD_A_FLOAT: td_attrs_float(a, f); break;
    case TD_A_BOOL: td_attrs_bool(a, draw() % 2); break;
    case TD_A_SCALAR: td_attrs_scalar(a, numbers[draw() % 4]); break;
    case TD_A_DTYPE: td_attrs_dtype(a, (td_dtype)(draw() % TD_DTYPE_COUNT)); break;
    case TD_A_TEXT: draw_text(a); break;
    default: td_attrs_ints(a, n, list); break;
    }
}

static void draw_call(call *c, const td_op *op)
{
    static const td_scalar half = {TD_S_FLOAT, 0, 0.5, 0};
    int extra = op->list_param >= 0 ? (int)(draw() % 4) - 1 : 0;
    c->nin = op->nparams + extra;
    for (int i = 0; i < c->nin; i++) {
        int kind = op->params[td_op_param_of(op, c->nin, i)].kind;
        c->descs[i] = draw_desc(i ? &c->descs[i - 1] : NULL);
        if (kind == TD_P_TENSOR && draw() % 3 == 0) c->descs[i].dtype = draw() % 2 ? TD_INT64 : TD_BOOL;
        if (kind == TD_P_LIST || kind == TD_P_OPTIONAL_LIST) c->descs[i].dtype = TD_INT64;
        if (td_desc_check(&c->descs[i], INT64_MAX, NULL)) c->descs[i].dtype = TD_BOOL;
        c->in[i] = (td_operand){.desc = &c->descs[i]};
        bool absent = kind == TD_P_OPTIONAL || kind == TD_P_OPTIONAL_LIST;
        if (draw() % (absent ? 2 : 32) == 0) c->in[i] = (td_operand){0};
        else if (draw() % (kind == TD_P_NUMBER ? 3 : 32) == 0) c->in[i] = (td_operand){.scalar = &half};
    }
    td_attrs_init(&c->attrs);
    for (int k = 0; k < op->nattrs; k++) draw_attr(&c->attrs, &op->attrs[k]);
}

static td_desc out[MAX_OUT];

/* 1 when the results are sound. */
static bool sound(const call *c)
{
    const td_op *op = c->f.op;
    if (op->nouts != 1 || !op->outs[0].list) {
        if (c->f.nout != op->nouts) return false;
    }
    if (c->f.nout && !td_dtype_valid(c->f.compute)) return false;
    for (int i = 0; i < c->f.nout; i++) {
        td_error e = {0};
        if (td_desc_check(&out[i], INT64_MAX, &e)) {
            printf("\n  %s gives %s\n", op->name, e.message);
            return false;
        }
        uint64_t lo, hi, from, to;
        bool inside = (op->flags & TD_OF_VIEW) && strcmp(op->name, "as_strided");
        if (inside) {
            td_desc_extent(&c->descs[0], &from, &to);
            td_desc_extent(&out[i], &lo, &hi);
            if (hi > lo && (lo < from || hi > to)) return false;
        } else if (!(op->flags & TD_OF_VIEW) && !op->compose && strcmp(op->name, "empty_strided") &&
                   !td_desc_is_contiguous(&out[i])) {
            bool keeps = op->flags & TD_OF_FORMAT || strcmp(op->name, "copy_last") == 0;
            td_desc last = out[i];
            if (keeps && (last.ndim == 4 || last.ndim == 5)) td_desc_pack_channels_last(&last);
            return keeps && td_desc_equal(&last, &out[i]);
        }
    }
    return true;
}

static void test_every_op(void)
{
    static call c;
    unsigned ops = 0, never = 0, unsound = 0, silent = 0, tried = 0;
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        if (!op) continue;
        unsigned passed = 0;
        for (int round = 0; round < ROUNDS; round++, tried++) {
            draw_call(&c, op);
            c.f = (td_inference){.op = op, .in = c.in, .nin = c.nin, .attrs = &c.attrs, .out = out, .max_out = MAX_OUT};
            memset(&c.error, 0, sizeof c.error);
            int rc = td_op_infer(&c.f, &c.error);
            if (rc) silent += !c.error.message[0] || c.error.code != rc || strcmp(c.error.op, op->name) || c.f.nout;
            else if (sound(&c)) passed++;
            else unsound++, printf("\n  %s is unsound\n", op->name);
        }
        ops++;
        /* the draw is wide enough to see most ops succeed too */
        if (!passed) never++, printf("\n  %s never passed\n", op->name);
    }
    CU_ASSERT_TRUE(ops >= 175);
    CU_ASSERT_EQUAL(tried, ops * ROUNDS);
    CU_ASSERT_EQUAL(unsound, 0);
    CU_ASSERT_EQUAL(silent, 0);
    CU_ASSERT_TRUE(never * 12 < ops);
}

TD_CUNIT_MAIN("proto hostile", {"random calls of every op", test_every_op})
