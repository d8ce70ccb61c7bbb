/* Runs the cases that oracle.py sends, through the engine, and compares outputs and gradients with torch's. What has
 * one output is then done once more in place or into a tensor with gaps, which must be left alone.
 *
 * Standard input: "TDO2", then each case after its length (8 bytes; 0 ends): name, rtol, atol, wide; inputs (kind 0
 * absent, 1 tensor: dtype, ndim, wants, shape, stride, offset, elements of the storage, their bytes; 2 number);
 * attributes (kind 0 none, else as td_attr_kind); outputs (dense value, and a dense weight or not); whether gradients
 * follow; a dense gradient or not for each input. All little endian, as written by this machine. */
#include "tests/oracle/composed.h"
#include "tests/oracle/guarded.h"
#include <signal.h>

typedef struct reader {
    const unsigned char *at, *end;
} reader;

static void take(reader *r, void *to, size_t n)
{
    if ((size_t)(r->end - r->at) < n) {
        fprintf(stderr, "the case file is cut off\n");
        exit(1);
    }
    memcpy(to, r->at, n);
    r->at += n;
}

static unsigned take_u8(reader *r)
{
    unsigned char v;
    take(r, &v, 1);
    return v;
}

static int64_t take_i64(reader *r)
{
    int64_t v;
    take(r, &v, 8);
    return v;
}

static double take_f64(reader *r)
{
    double v;
    take(r, &v, 8);
    return v;
}

static td_scalar take_scalar(reader *r)
{
    td_scalar s = {.kind = (td_scalar_kind)take_u8(r)};
    s.i = take_i64(r);
    s.re = take_f64(r);
    s.im = take_f64(r);
    return s;
}

static td_tensor *take_dense(reader *r)
{
    td_dtype t = (td_dtype)take_u8(r);
    int ndim = (int)take_u8(r);
    int64_t shape[TD_MAX_DIMS];
    take(r, shape, (size_t)ndim * 8);
    td_tensor *x = t_new(t, ndim, shape, NULL);
    take(r, td_tensor_data(x), td_desc_nbytes(&x->desc));
    return x;
}

static td_tensor *take_tensor(reader *r)
{
    td_dtype t = (td_dtype)take_u8(r);
    int ndim = (int)take_u8(r);
    bool wants = take_u8(r);
    td_desc d = {.dtype = t, .ndim = (uint8_t)ndim};
    take(r, d.shape, (size_t)ndim * 8);
    take(r, d.stride, (size_t)ndim * 8);
    d.offset = take_i64(r);
    int64_t n = take_i64(r);
    td_tensor *whole = t_new(t, 1, &n, NULL), *x;
    take(r, td_tensor_data(whole), td_desc_nbytes(&whole->desc));
    int err = td_tensor_view(&x, whole, &d, t_who.account, NULL);
    td_tensor_unref(whole);
    if (!err && wants) err = td_set_requires_grad(x, true, NULL);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    return x;
}

static void take_attr(reader *r, td_attrs *a)
{
    unsigned kind = take_u8(r);
    uint16_t n;
    int64_t v[TD_MAX_INTS];
    switch (kind) {
    case TD_A_NONE: td_attrs_none(a); break;
    case TD_A_INT: td_attrs_int(a, take_i64(r)); break;
    case TD_A_FLOAT: td_attrs_float(a, take_f64(r)); break;
    case TD_A_BOOL: td_attrs_bool(a, take_i64(r) != 0); break;
    case TD_A_SCALAR: td_attrs_scalar(a, take_scalar(r)); break;
    case TD_A_DTYPE: td_attrs_dtype(a, (td_dtype)take_i64(r)); break;
    case TD_A_TEXT:
        take(r, &n, 2);
        take(r, v, n);
        td_attrs_text(a, (const char *)v, n);
        break;
    default:
        take(r, &n, 2);
        take(r, v, n * sizeof *v);
        td_attrs_ints(a, n, v);
    }
}

/* ---- one case */

typedef struct test_case {
    const td_op *op;
    char name[64];
    double rtol, atol;
    int nin, nwant;
    bool wide, grads;
    td_input in[64];
    td_attrs attrs;
    td_tensor *want[64], *weight[64], *want_grad[64];
    char why[640];
} test_case;

static void read_case(reader *r, test_case *c)
{
    uint16_t n;
    memset(c, 0, sizeof *c);
    take(r, &n, 2);
    take(r, c->name, n);
    c->op = td_op_by_name(c->name);
    c->rtol = take_f64(r);
    c->atol = take_f64(r);
    c->wide = take_u8(r);
    c->nin = (int)take_u8(r);
    for (int i = 0; i < c->nin; i++) {
        unsigned kind = take_u8(r);
        if (kind == 1) c->in[i] = td_in(take_tensor(r));
        else if (kind == 2) c->in[i] = td_in_number(take_scalar(r));
    }
    for (int k = (int)take_u8(r); k > 0; k--) take_attr(r, &c->attrs);
    c->nwant = (int)take_u8(r);
    for (int o = 0; o < c->nwant; o++) {
        c->want[o] = take_dense(r);
        if (take_u8(r)) c->weight[o] = take_dense(r);
    }
    c->grads = take_u8(r);
    for (int i = 0; i < c->nin; i++)
        if (take_u8(r)) c->want_grad[i] = take_dense(r);
}

static bool near(const test_case *c, double scale, double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b)) return a == b;
    return fabs(a - b) <= c->atol * scale + c->rtol * fabs(b);
}

/* Both parts; or, near a pole or a zero of one part, the distance against the magnitude. */
static bool near_complex(const test_case *c, double scale, td_scalar a, td_scalar b)
{
    if (near(c, scale, a.re, b.re) && near(c, scale, a.im, b.im)) return true;
    return hypot(a.re - b.re, a.im - b.im) <= c->atol * scale + c->rtol * hypot(b.re, b.im);
}

/* How large values are, on the whole: sums of many round as they do. */
static double scale_of(const test_case *c, const td_tensor *want)
{
    int64_t n = td_desc_numel(&want->desc);
    double sum = 0;
    if (!c->wide || td_dtype_is_integral(want->desc.dtype)) return 1;
    for (int64_t i = 0; i < n; i++) {
        td_scalar s = t_get(want, i);
        double square = s.re * s.re + s.im * s.im;
        if (isfinite(square)) sum += square;
    }
    return n ? fmax(sqrt(sum / (double)n), 1e-3) : 1;
}

static bool same(test_case *c, const char *what, int k, const td_tensor *have, const td_tensor *want)
{
    char a[128], b[128];
    if (!td_desc_same_shape(&have->desc, &want->desc) || have->desc.dtype != want->desc.dtype) {
        snprintf(c->why, sizeof c->why, "%s %d is %s, torch's %s", what, k, td_desc_text(&have->desc, a, sizeof a),
                 td_desc_text(&want->desc, b, sizeof b));
        return false;
    }
    if (td_desc_is_contiguous(&have->desc) &&
        !memcmp(td_tensor_data(have), td_tensor_data(want), td_desc_nbytes(&want->desc)))
        return true;
    double scale = scale_of(c, want);
    for (int64_t i = 0; i < td_desc_numel(&want->desc); i++) {
        td_scalar x = t_get(have, i), y = t_get(want, i);
        bool ok = x.kind <= TD_S_INT       ? x.i == y.i
                  : x.kind == TD_S_COMPLEX ? near_complex(c, scale, x, y)
                                           : near(c, scale, x.re, y.re);
        if (ok) continue;
        snprintf(c->why, sizeof c->why, "%s %d (%s), element %d: %.9g%+.9gi, torch's %.9g%+.9gi", what, k,
                 td_desc_text(&want->desc, a, sizeof a), (int)i, x.kind <= TD_S_INT ? (double)x.i : x.re, x.im,
                 y.kind <= TD_S_INT ? (double)y.i : y.re, y.im);
        return false;
    }
    return true;
}

static bool compare_gradients(test_case *c, td_tensor **out)
{
    td_tensor *roots[64], *seeds[64], *inputs[64], *got[64] = {0};
    int nroots = 0, n = 0, at[64];
    td_error e = {0};
    for (int o = 0; o < c->nwant; o++)
        if (c->weight[o]) {
            if (!td_requires_grad(out[o])) {
                snprintf(c->why, sizeof c->why, "output %d does not require grad", o);
                return false;
            }
            roots[nroots] = out[o], seeds[nroots++] = c->weight[o];
        }
    for (int i = 0; i < c->nin; i++)
        if (c->want_grad[i]) at[n] = i, inputs[n++] = c->in[i].tensor;
    int err = t_backward(nroots, roots, seeds, n, inputs, got, TD_BW_ALLOW_UNUSED, &e);
    if (err) snprintf(c->why, sizeof c->why, "backward: %s: %s", e.op, e.message);
    bool ok = !err;
    for (int k = 0; k < n && ok; k++) {
        if (got[k]) ok = same(c, "gradient of input", at[k], got[k], c->want_grad[at[k]]);
        else snprintf(c->why, sizeof c->why, "no gradient of input %d", at[k]), ok = false;
    }
    for (int k = 0; k < n; k++) td_tensor_unref(got[k]);
    return ok;
}

/* ---- into given tensors */

enum { GAP = 0x5A };

/* A tensor of this shape: rows with room between them. */
static td_tensor *gapped(const td_desc *like)
{
    td_desc d = *like;
    int64_t width = 1;
    d.offset = 2;
    for (int k = d.ndim - 1; k >= 0; k--) {
        d.stride[k] = width;
        width *= d.shape[k] + (k > 0 ? 1 + k % 2 : 0);
    }
    width += 5;
    td_tensor *whole = t_new((td_dtype)d.dtype, 1, &width, NULL), *x;
    memset(td_tensor_data(whole), GAP, td_desc_nbytes(&whole->desc));
    int err = td_tensor_view(&x, whole, &d, t_who.account, NULL);
    td_tensor_unref(whole);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    return x;
}

/* Are all bytes of its storage that are not its own what they were? Changes its own. */
static bool gaps_are_whole(td_tensor *x)
{
    size_t size = td_dtype_size((td_dtype)x->desc.dtype);
    char *from = (char *)td_tensor_data(x) - (size_t)x->desc.offset * size;
    for (int64_t i = 0; i < td_desc_numel(&x->desc); i++) memset(t_at(x, i), GAP, size);
    for (size_t i = 0; i < x->storage->nbytes; i++)
        if (from[i] != GAP) return false;
    return true;
}

static bool can_be_given(const test_case *c, const td_tensor *first)
{
    unsigned never = TD_OF_VIEW | TD_OF_DATA_SHAPE | TD_OF_RANDOM;
    return !c->op->compose && c->op->nouts == 1 && !c->op->outs[0].list && !c->op->mutates && !(c->op->flags & never) &&
           td_desc_numel(&first->desc);
}

static bool run_into(test_case *c, const td_tensor *first, bool in_place)
{
    td_input keep = c->in[0];
    td_tensor *into = gapped(&first->desc), *out[64] = {0};
    td_error e = {0};
    int n = 0;
    if (in_place) {
        if (keep.kind != TD_IN_TENSOR || keep.tensor->desc.dtype != first->desc.dtype ||
            !td_desc_same_shape(&keep.tensor->desc, &first->desc)) {
            td_tensor_unref(into);
            return true;
        }
        for (int64_t i = 0; i < td_desc_numel(&into->desc); i++)
            memcpy(t_at(into, i), t_at(keep.tensor, i), td_dtype_size((td_dtype)into->desc.dtype));
        c->in[0] = td_in(into);
    }
    int err = t_try(c->op, c->nin, c->in, &c->attrs, TD_GRAD_OFF, into, out, &n, &e);
    c->in[0] = keep;
    if (err) snprintf(c->why, sizeof c->why, "%s: %s", in_place ? "in place" : "into a given tensor", e.message);
    bool ok = !err && same(c, in_place ? "in place, output" : "given output", 0, into, c->want[0]);
    if (ok && !gaps_are_whole(into))
        snprintf(c->why, sizeof c->why, "bytes beside a given output were written"), ok = false;
    td_tensor_unref(into);
    return ok;
}

static bool run_case(test_case *c)
{
    td_tensor *out[64] = {0};
    td_error e = {0};
    int nout = 0;
    int err = c->op->compose ? composed_try(c->op, c->nin, c->in, &c->attrs, TD_GRAD_ON, out, &nout, &e)
                             : t_try(c->op, c->nin, c->in, &c->attrs, TD_GRAD_ON, NULL, out, &nout, &e);
    if (err) snprintf(c->why, sizeof c->why, "%s", e.message);
    bool ok = !err;
    for (int o = 0; o < c->nwant && ok; o++) ok = same(c, "output", o, out[o], c->want[o]);
    if (ok && c->grads) ok = compare_gradients(c, out);
    if (ok && can_be_given(c, out[0])) ok = run_into(c, out[0], false) && run_into(c, out[0], true);
    for (int o = 0; o < nout; o++) td_tensor_unref(out[o]);
    return ok;
}

static void free_case(test_case *c)
{
    for (int i = 0; i < c->nin; i++) {
        if (c->in[i].kind == TD_IN_TENSOR) td_tensor_unref(c->in[i].tensor);
        td_tensor_unref(c->want_grad[i]);
    }
    for (int o = 0; o < c->nwant; o++) td_tensor_unref(c->want[o]), td_tensor_unref(c->weight[o]);
}

static char at_work[512]; /* what is run now, for whoever looks why it died */

static void say_where(int sig)
{
    ssize_t n = write(STDOUT_FILENO, at_work, strlen(at_work));
    (void)n;
    signal(sig, SIG_DFL);
    raise(sig);
}

static void describe(const test_case *c)
{
    char text[128];
    size_t at = (size_t)snprintf(at_work, sizeof at_work, "  at work: %s(", c->name);
    for (int i = 0; i < c->nin && at < sizeof at_work - 200; i++)
        at += (size_t)snprintf(at_work + at, sizeof at_work - at, "%s%s", i ? ", " : "",
                               c->in[i].kind == TD_IN_TENSOR ? td_desc_text(&c->in[i].tensor->desc, text, sizeof text)
                                                             : "number");
    snprintf(at_work + at, sizeof at_work - at, ")\n");
}

/* The next case, or NULL at the end; *end is what follows its bytes. */
static unsigned char *next_case(const unsigned char **end)
{
    static unsigned char *bytes;
    uint64_t n;
    if (fread(&n, sizeof n, 1, stdin) != 1) {
        fprintf(stderr, "the cases are cut off\n");
        exit(1);
    }
    bytes = realloc(bytes, n + 1);
    if (!bytes || fread(bytes, 1, n, stdin) != n) exit(1);
    *end = bytes + n;
    if (!n) free(bytes), bytes = NULL;
    return bytes;
}

static void agrees_with_torch(void)
{
    static test_case c;
    static bool failed[TD_OP_COUNT], seen[TD_OP_COUNT];
    reader r;
    int good = 0, gradients = 0, ops = 0, clean = 0, shown = 0, count = 0, wide = 0;
    while ((r.at = next_case(&r.end))) {
        read_case(&r, &c);
        describe(&c);
        bool ok = run_case(&c);
        if (!ok && shown++ < 60) printf("%s    %s\n", at_work, c.why);
        CU_ASSERT(ok);
        count++;
        wide += c.wide;
        good += ok;
        gradients += ok && c.grads;
        seen[c.op->id] = true;
        failed[c.op->id] |= !ok;
        free_case(&c);
    }
    for (int id = 0; id < TD_OP_COUNT; id++) ops += seen[id], clean += seen[id] && !failed[id];
    printf("\n  oracle: %d of %d cases (%d around thresholds) agree with torch (%d with gradients), %d of %d ops\n  ",
           good, count, wide, gradients, clean, ops);
}

static int begin(void)
{
    int status = t_setup();
    t_who.submit = guarded_submit;
    return status;
}

int main(void)
{
    static const td_test tests[] = {{"ops and gradients agree with torch", agrees_with_torch}};
    char magic[4];
    if (fread(magic, 1, 4, stdin) != 4 || memcmp(magic, "TDO2", 4)) {
        fprintf(stderr, "usage: oracle < CASES (see oracle.py)\n");
        return 2;
    }
    signal(SIGSEGV, say_where);
    signal(SIGBUS, say_where);
    signal(SIGABRT, say_where);
    return td_tests_run("oracle", begin, t_teardown, 1, tests, NULL);
}
