/* Memory that is out while an op is recorded, or taken apart: it is refused, and nothing of it is left. Each is tried
 * with its first allocation failing, then with its second, and so on until it is done. */
#include "daemon/autograd/node.h"
#include "proto/ops/formula.h"
#include "tests/hostile/starve.h"
#include "tests/unit/grad_support.h"

/* ---- writes that are recorded */

static td_tensor *numbers(bool leaf)
{
    td_tensor *t = t_new(TD_FLOAT64, 2, (int64_t[]){2, 3}, (double[]){3, 3, 3, 3, 3, 3});
    if (leaf) CU_ASSERT_EQUAL(td_set_requires_grad(t, true, NULL), 0);
    return t;
}

static td_tensor *row_of(td_tensor *x)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, 0);
    td_attrs_int(&a, 0);
    return t_run(TD_OP_SELECT, 1, &x, &a, TD_GRAD_ON, NULL);
}

/* dst *= w[0], with the so-many-th allocation failing. */
static int scale(td_tensor *dst, td_tensor *w, int failing, bool *failed)
{
    td_input in[2] = {td_in(dst), td_in(w)};
    td_tensor *out[64];
    td_error e = {0};
    int n;
    until_failure = failing;
    int err = t_try(td_op_by_id(TD_OP_MUL), 2, in, NULL, TD_GRAD_ON, dst, out, &n, &e);
    *failed = !until_failure;
    until_failure = 0;
    return err;
}

static void written_in_vain(bool history, bool view, int k, bool *served)
{
    bool failed;
    td_tensor *x = numbers(true), *w = numbers(true), *wrow = row_of(w);
    td_tensor *y = history ? t_run(TD_OP_MUL, 2, (td_tensor *[]){x, x}, NULL, TD_GRAD_ON, NULL) : numbers(false);
    td_tensor *square = t_run(TD_OP_MUL, 2, (td_tensor *[]){y, y}, NULL, TD_GRAD_ON, NULL), *row = row_of(y);
    td_node *before = td_auto_of(y) ? td_auto_of(y)->node : NULL;
    int err = scale(view ? row : y, view ? wrow : w, k, &failed);
    *served = !err;
    CU_ASSERT(!err || failed);
    CU_ASSERT_EQUAL(td_version_writes(y->version), !err);
    CU_ASSERT_EQUAL(td_version_still(y->version, 0), err != 0);
    CU_ASSERT_EQUAL(t_real(y, 0), (history ? 9 : 3) * (err ? 1 : 3));
    if (err) {
        CU_ASSERT_PTR_EQUAL(td_auto_of(y) ? td_auto_of(y)->node : NULL, before);
        CU_ASSERT_EQUAL(td_requires_grad(y), history);
        CU_ASSERT_EQUAL(td_requires_grad(row), history);
        CU_ASSERT(!history || !strcmp(td_grad_fn(row), "select"));
    }
    td_error e = {0};
    td_tensor *ones = numbers(false);
    if (history)
        CU_ASSERT_EQUAL(t_backward(1, &square, &ones, 0, NULL, NULL, TD_BW_ACCUMULATE, &e), err ? 0 : TD_E_VERSION);
    td_set_grad(x, 0, NULL, NULL);
    td_tensor *all[] = {x, w, wrow, y, square, row, ones};
    for (int i = 0; i < 7; i++) td_tensor_unref(all[i]);
}

static void writes_in_vain(void)
{
    for (int way = 0; way < 4; way++) {
        bool served = false;
        int k = 0;
        while (!served && ++k < 200) written_in_vain(way & 1, way & 2, k, &served);
        CU_ASSERT(served && k > 1);
    }
}

/* ---- checkpoints */

static int op_of_two(unsigned op, td_tensor *x, td_tensor *y, td_tensor *into, td_tensor **out)
{
    td_input in[2] = {td_in(x), td_in(y)};
    td_error e = {0};
    int n;
    td_tensor *got[64] = {0};
    int err = t_try(td_op_by_id(op), y ? 2 : 1, in, NULL, TD_GRAD_ON, into, got, &n, &e);
    if (out && !err) *out = got[0];
    return err;
}

/* tanh((x * w)^2 *= w); what is outside is written, too. */
static int forward(td_tensor *x, td_tensor *w, td_tensor *seen, td_tensor **t)
{
    int err = op_of_two(TD_OP_MUL, x, w, NULL, &t[0]);
    if (!err) err = op_of_two(TD_OP_MUL, t[0], t[0], NULL, &t[1]);
    if (!err) err = op_of_two(TD_OP_MUL, t[1], w, t[1], NULL);
    if (!err) err = op_of_two(TD_OP_ADD, seen, seen, seen, NULL);
    return err ? err : op_of_two(TD_OP_TANH, t[1], NULL, NULL, &t[2]);
}

/* What it gives to x. Regions: one in the other. */
static int gradient(int regions, int failing, bool *failed, double *out)
{
    td_tensor *x = numbers(true), *w = numbers(true), *seen = numbers(false), *ones = numbers(false), *t[3] = {0}, *g;
    td_region *in[2] = {0};
    td_error e = {0};
    int err = 0;
    until_failure = failing;
    for (int k = 0; k < regions && !err; k++) {
        t_who.region = in[k] = td_region_new(k ? in[k - 1] : NULL, t_who.account, &e);
        err = in[k] ? 0 : e.code;
    }
    if (!err) err = forward(x, w, seen, t);
    t_who.region = NULL;
    for (int k = regions; k-- > 0;) {
        if (in[k]) td_region_close(in[k]);
        td_region_unref(in[k]);
    }
    if (!err) err = t_backward(1, &t[2], &ones, 1, &x, &g, 0, &e);
    *failed = !until_failure;
    until_failure = 0;
    *out = err ? 0 : t_real(g, 0);
    if (!err) td_tensor_unref(g);
    td_tensor *all[] = {x, w, seen, ones, t[0], t[1], t[2]};
    for (int i = 0; i < 7; i++) td_tensor_unref(all[i]);
    return err;
}

static void checkpoints_in_vain(void)
{
    double want, have;
    bool failed = true;
    CU_ASSERT_EQUAL(gradient(0, 0, &failed, &want), 0);
    for (int regions = 1; regions <= 2; regions++) {
        int k = 0, err = 0;
        for (failed = true; failed && ++k < 1000;) {
            uint64_t tensors = td_live_counts().tensors, objects = t_who.account->objects, bytes = td_autograd_bytes();
            long had = live;
            err = gradient(regions, k, &failed, &have);
            CU_ASSERT_EQUAL(td_live_counts().tensors, tensors);
            CU_ASSERT_EQUAL(t_who.account->objects, objects);
            CU_ASSERT_EQUAL(td_autograd_bytes(), bytes);
            CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
            CU_ASSERT(err || (have == want && live <= had + 64)); /* the pools may have grown */
        }
        CU_ASSERT(!err && !failed && k > 10);
    }
}

/* Of the last of what was joined: a node of more inputs than it has room of its own for. */
static int gradient_of_many(int failing, bool *failed)
{
    enum { MANY = 20 };
    static double ones[MANY * 6];
    td_tensor *x[MANY], *all[64] = {0}, *g = NULL;
    td_input in[MANY];
    td_attrs a;
    td_error e = {0};
    int n;
    td_attrs_init(&a);
    td_attrs_int(&a, 0);
    for (int k = 0; k < MANY; k++) in[k] = td_in(x[k] = numbers(true));
    for (int k = 0; k < MANY * 6; k++) ones[k] = k;
    CU_ASSERT_EQUAL(t_try(td_op_by_id(TD_OP_CAT), MANY, in, &a, TD_GRAD_ON, NULL, all, &n, &e), 0);
    td_tensor *by = t_new(TD_FLOAT64, 2, (int64_t[]){2 * MANY, 3}, ones);
    until_failure = failing;
    int err = t_backward(1, all, &by, 1, &x[MANY - 1], &g, 0, &e);
    *failed = !until_failure;
    until_failure = 0;
    CU_ASSERT_TRUE(err || t_real(g, 5) == MANY * 6 - 1);
    td_tensor_unref(g), td_tensor_unref(all[0]), td_tensor_unref(by);
    for (int k = 0; k < MANY; k++) td_tensor_unref(x[k]);
    return err;
}

static void gradients_of_many_in_vain(void)
{
    bool failed = true;
    int err = 0, k = 0;
    CU_ASSERT_EQUAL(gradient_of_many(0, &failed), 0);
    for (failed = true; failed && ++k < 1000;) {
        uint64_t tensors = td_live_counts().tensors, objects = t_who.account->objects, bytes = td_autograd_bytes();
        settling s = {0};
        while (unsettled(&s)) err = gradient_of_many(k, &failed);
        CU_ASSERT_EQUAL(live, s.before);
        CU_ASSERT_TRUE(!err || failed);
        CU_ASSERT_EQUAL(td_live_counts().tensors, tensors);
        CU_ASSERT_EQUAL(t_who.account->objects, objects);
        CU_ASSERT_EQUAL(td_autograd_bytes(), bytes);
    }
    CU_ASSERT(!err && !failed && k > 3);
}

/* ---- formulas */

static int made_inside(td_fx *inner, void *outer)
{
    td_fx_alloc(inner, TD_FX_BYTES + 1);
    td_fx_alloc_for(outer, inner, TD_FX_BYTES + 1);
    return TD_OK;
}

static int outer_work(td_fx *f, void *arg)
{
    td_fx inner;
    td_error e = {0};
    td_fx_init(&inner);
    inner.of = f->of, inner.error = &e;
    int rc = td_fx_guard(&inner, made_inside, f);
    td_fx_deinit(&inner);
    *(bool *)arg = true;
    return rc;
}

/* Whoever is inside gives back its own first. */
static void a_formula_inside(void)
{
    long had = live;
    for (int k = 0; k < 4; k++) {
        td_fx f;
        td_error e = {0};
        bool over = false;
        td_fx_init(&f);
        f.of = td_op_by_id(TD_OP_ADD), f.error = &e;
        until_failure = k;
        int rc = td_fx_guard(&f, outer_work, &over);
        until_failure = 0;
        td_fx_deinit(&f);
        CU_ASSERT(over);
        CU_ASSERT_EQUAL(rc, k == 1 || k == 2 ? TD_E_SYSTEM : 0);
        CU_ASSERT_EQUAL(live, had);
    }
}

/* Ops that are made of others, of many: their descriptors need blocks. */
static void what_they_come_to(void)
{
    int tried = 0;
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        if (!op || !op->compose) continue;
        for (int nin = 1; nin <= 3; nin++) {
            td_desc d;
            td_desc_contiguous(&d, TD_FLOAT32, 2, (int64_t[]){128, 128}, NULL);
            td_operand in[3] = {{.desc = &d}, {.desc = &d}, {.desc = &d}};
            td_attrs a;
            td_error e = {0};
            if (td_op_check_count(op, nin, NULL)) continue;
            if (id == TD_OP_CHUNK) td_attrs_init(&a), td_attrs_int(&a, 128), td_attrs_int(&a, 0);
            else if (td_attrs_decode(op, NULL, 0, &a, &e)) continue;
            static td_desc out[128];
            int rc = 0;
            bool failed = true;
            for (int k = 0; failed; k++) {
                long had = live;
                td_inference f = {.op = op, .in = in, .nin = nin, .attrs = &a, .out = out, .max_out = 128};
                until_failure = k + 1;
                rc = td_op_infer(&f, &e);
                failed = !until_failure;
                until_failure = 0;
                CU_ASSERT(!failed || rc);
                tried += failed;
                CU_ASSERT_EQUAL(live, had);
            }
        }
    }
    CU_ASSERT(tried > 0);
}

/* A call that is just another op's, told by a formula that nobody guards. */
static void just_another(void)
{
    td_attrs a, to;
    td_error e = {0};
    td_desc d;
    int64_t many[TD_MAX_INTS];
    for (int i = 0; i < TD_MAX_INTS; i++) many[i] = 1;
    td_desc_contiguous(&d, TD_FLOAT32, 2, (int64_t[]){2, 2}, NULL);
    td_fmeta look[4] = {td_fmeta_of(&d), td_fmeta_of(&d), td_fmeta_of(&d), td_fmeta_of(&d)};
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        if (!op || !op->direct) continue;
        td_attrs_init(&a);
        for (int k = 0; k < op->nattrs; k++) {
            if (op->attrs[k].kind == TD_A_INTS) td_attrs_ints(&a, TD_MAX_INTS / op->nattrs, many);
            else td_attrs_int(&a, 1);
        }
        for (size_t used = 0; used <= TD_FX_BYTES; used += 64) {
            td_fx f;
            long had = live;
            td_fx_init(&f);
            td_attrs_init(&to);
            f.of = op, f.nin = op->nparams, f.attrs = &a, f.in_meta = look, f.error = &e, f.no_memory = NULL,
            f.pick = 0;
            f.create_graph = false;
            f.used = used;
            until_failure = 1;
            op->direct(&f, &to);
            CU_ASSERT(until_failure || f.failed);
            until_failure = 0;
            td_fx_deinit(&f);
            CU_ASSERT_EQUAL(live, had);
        }
    }
}

TD_CUNIT_MAIN_WITH("starved_ops", t_setup, t_teardown, {"writes in vain", writes_in_vain},
                   {"checkpoints in vain", checkpoints_in_vain},
                   {"gradients of many in vain", gradients_of_many_in_vain}, {"a formula inside", a_formula_inside},
                   {"what they come to", what_they_come_to}, {"just another", just_another})
