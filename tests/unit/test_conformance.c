/* The worked examples of the op table, run through inference and the CPU's kernels: what the docs say is what happens.
 * Floats may differ by a little, whole numbers and bools not at all; dtypes and shapes must be as written. Kernels run
 * between pages that nobody may touch (kernel_box.h), in order, shuffled and on two threads. */
#include "conformance.h"
#include "kernel_box.h"

enum { MAX_TENSORS = 16 };

typedef enum layout { PACKED, REVERSED, GAPS } layout;

typedef struct execution {
    const example_row *row;
    const td_op *op;
    layout layout;
    td_dtype floats; /* stands where the example says float32 */
    td_attrs attrs;
    td_operand operands[MAX_TENSORS];
    td_desc in[MAX_TENSORS], out[MAX_TENSORS];
    td_infer infer;
    td_karg in_args[MAX_TENSORS], out_args[MAX_TENSORS];
    td_error error;
    guarded in_memory[MAX_TENSORS], out_memory[MAX_TENSORS];
} execution;

static td_dtype as_run(const execution *x, td_dtype t)
{
    return t == TD_FLOAT32 ? x->floats : t;
}

/* The same elements at other places: column-major, or with room between them. */
static void lay_out(td_desc *d, layout how)
{
    int64_t run = 1;
    for (int i = 0; how == REVERSED && i < d->ndim; i++) {
        d->stride[i] = run;
        run *= d->shape[i] > 1 ? d->shape[i] : 1;
    }
    for (int i = 0; how == GAPS && i < d->ndim; i++) d->stride[i] *= 2;
}

static int64_t place(const td_desc *d, int64_t n)
{
    int64_t at = 0;
    for (int i = d->ndim - 1; i >= 0; i--) {
        at += n % d->shape[i] * d->stride[i];
        n /= d->shape[i];
    }
    return at * (int64_t)td_dtype_size((td_dtype)d->dtype);
}

/* Memory that ends with the last element. */
static unsigned char *room(guarded *memory, const td_desc *d, bool from_start)
{
    uint64_t low, high;
    td_desc_extent(d, &low, &high);
    guarded_free(memory);
    *memory = guarded_new((size_t)high, td_dtype_size((td_dtype)d->dtype), from_start);
    return memory->at;
}

/* A number is stored as the dtype that it is computed in: kernels see it as a 0-d tensor. */
static void fill_input(execution *x, int i, td_dtype number)
{
    const example_operand *from = &x->row->in[i];
    if (from->kind == EXAMPLE_NONE) return;
    td_dtype t = from->kind == EXAMPLE_NUMBER ? number : as_run(x, (td_dtype)from->dtype);
    td_error e;
    if (td_desc_contiguous(&x->in[i], t, from->ndim, from->shape, &e)) abort();
    lay_out(&x->in[i], x->layout);
    unsigned char *at = room(&x->in_memory[i], &x->in[i], i & 1);
    for (int64_t k = 0, n = td_desc_numel(&x->in[i]); k < n; k++)
        td_scalar_store(from->values[k], t, at + place(&x->in[i], k));
    x->in_args[i] = (td_karg){at, &x->in[i]};
}

static void fill_attrs(execution *x)
{
    td_attrs_init(&x->attrs);
    x->attrs.count = x->row->nattrs;
    x->attrs.nints = x->row->nints;
    if (x->row->nattrs) memcpy(x->attrs.at, x->row->attrs, x->row->nattrs * sizeof *x->row->attrs);
    if (x->row->nints) memcpy(x->attrs.ints, x->row->ints, x->row->nints * sizeof *x->row->ints);
    for (int k = 0; k < x->row->nattrs; k++)
        if (x->attrs.at[k].kind == TD_A_DTYPE) x->attrs.at[k].i = as_run(x, (td_dtype)x->attrs.at[k].i);
}

static int infer(execution *x)
{
    for (int i = 0; i < x->row->nin; i++) {
        const example_operand *from = &x->row->in[i];
        fill_input(x, i, TD_FLOAT32);
        if (from->kind == EXAMPLE_TENSOR) x->operands[i].desc = &x->in[i];
        else if (from->kind == EXAMPLE_NUMBER) x->operands[i].scalar = from->values;
    }
    x->infer = (td_infer){
        .op = x->op, .in = x->operands, .nin = x->row->nin, .attrs = &x->attrs, .out = x->out, .max_out = MAX_TENSORS};
    int rc = td_op_infer(&x->infer, &x->error);
    for (int i = 0; !rc && i < x->row->nin; i++)
        if (x->row->in[i].kind == EXAMPLE_NUMBER) fill_input(x, i, x->infer.compute);
    return rc;
}

/* Leaves the results' bytes and descriptors; those of views lie in input 0. */
static int run(execution *x, int way)
{
    td_plan_fn plan = td_cpu_plans[x->op->id];
    int rc = infer(x);
    if (rc) return rc;
    for (int i = 0; i < x->infer.nout; i++) {
        bool view = x->op->flags & TD_OF_VIEW;
        unsigned char *base =
            view ? x->in_memory[0].at + x->out[i].offset * (int64_t)td_dtype_size((td_dtype)x->out[i].dtype)
                 : room(&x->out_memory[i], &x->out[i], !(i & 1));
        x->out_args[i] = (td_karg){base, &x->out[i]};
    }
    if (x->op->flags & TD_OF_VIEW) return TD_OK;
    if (!plan) return td_fail(&x->error, TD_E_UNSUPPORTED, "no kernel");
    td_kcall k = {.op = x->op,
                  .attrs = &x->attrs,
                  .in = x->in_args,
                  .out = x->out_args,
                  .nin = x->row->nin,
                  .nout = (uint16_t)x->infer.nout,
                  .compute = (uint8_t)x->infer.compute,
                  .seed = 1};
    rc = run_guarded(plan, &k, way, &x->error);
    if (!rc && (x->op->flags & TD_OF_DATA_SHAPE)) memcpy(&x->out[0].shape[0], k.state, sizeof(int64_t));
    return rc;
}

static bool near(double got, double want, td_dtype t)
{
    double tolerance = t == TD_FLOAT16 || t == TD_BFLOAT16 ? 1e-2 : 2e-6;
    if (isnan(want)) return isnan(got);
    return got == want || fabs(got - want) <= tolerance * (1 + fabs(want));
}

static bool same_value(td_scalar got, td_scalar want, td_dtype t)
{
    double re = want.kind <= TD_S_INT ? (double)want.i : want.re, im = want.kind == TD_S_COMPLEX ? want.im : 0;
    if (td_dtype_is_integral(t)) return want.kind <= TD_S_INT && got.i == want.i;
    return near(got.re, re, t) && (got.kind != TD_S_COMPLEX || near(got.im, im, t));
}

static td_scalar element(const td_karg *arg, int64_t n)
{
    return td_scalar_load((td_dtype)arg->desc->dtype, (unsigned char *)arg->data + place(arg->desc, n));
}

/* What is wrong with result i, or NULL. */
static const char *differs(const execution *x, int i)
{
    static char text[256];
    char shape[128];
    const example_operand *want = &x->row->out[i];
    const td_desc *d = &x->out[i];
    if (want->kind == EXAMPLE_NONE) return NULL;
    if (d->dtype != as_run(x, (td_dtype)want->dtype) || d->ndim != want->ndim ||
        memcmp(d->shape, want->shape, want->ndim * sizeof want->shape[0])) {
        snprintf(text, sizeof text, "result %d is %s", i, td_desc_text(d, shape, sizeof shape));
        return text;
    }
    for (int64_t n = 0; n < td_desc_numel(d); n++) {
        td_scalar got = element(&x->out_args[i], n);
        if (same_value(got, want->values[n], (td_dtype)d->dtype)) continue;
        snprintf(text, sizeof text, "element %lld of result %d is %lld or %.9g", (long long)n, i, (long long)got.i,
                 got.re);
        return text;
    }
    return NULL;
}

static bool has_kernel(const td_op *op)
{
    return (op->flags & TD_OF_VIEW) || td_cpu_plans[op->id];
}

static void clear(execution *x)
{
    for (int i = 0; i < MAX_TENSORS; i++) {
        CU_ASSERT_TRUE(!x->in_memory[i].map || guarded_intact(&x->in_memory[i]));
        CU_ASSERT_TRUE(!x->out_memory[i].map || guarded_intact(&x->out_memory[i]));
        guarded_free(&x->in_memory[i]);
        guarded_free(&x->out_memory[i]);
    }
}

static void check_way(const example_row *row, layout how, td_dtype floats, int way)
{
    static execution x;
    memset(&x, 0, sizeof x);
    x.row = row, x.op = td_op_by_id(row->op), x.layout = how, x.floats = floats;
    fill_attrs(&x);
    const char *wrong = run(&x, way) ? x.error.message : x.infer.nout != row->nout ? "another number of results" : NULL;
    for (int i = 0; !wrong && i < row->nout; i++) wrong = differs(&x, i);
    if (wrong) printf("\n  %s (layout %d, %s): %s\n", row->text, how, td_dtype_name(floats), wrong);
    CU_ASSERT_PTR_NULL(wrong);
    clear(&x);
}

static void check(const example_row *row, layout how, td_dtype floats)
{
    for (int way = IN_ORDER; way < RUNNINGS; way++) check_way(row, how, floats, way);
}

static void test_examples(void)
{
    unsigned ops = 0;
    for (unsigned r = 0; r < example_count; r++) {
        if (!r || example_rows[r].op != example_rows[r - 1].op) ops++;
        if (has_kernel(td_op_by_id(example_rows[r].op))) check(&example_rows[r], PACKED, TD_FLOAT32);
    }
    CU_ASSERT_TRUE(ops >= 165);
}

static void test_strides(void)
{
    for (unsigned r = 0; r < example_count; r++) {
        const td_op *op = td_op_by_id(example_rows[r].op);
        if ((op->flags & TD_OF_VIEW) || !has_kernel(op)) continue; /* what a view shows is a matter of its strides */
        check(&example_rows[r], REVERSED, TD_FLOAT32);
        check(&example_rows[r], GAPS, TD_FLOAT32);
    }
}

/* Does the example speak of float32 in a way that another float can stand for? */
static bool generic(const example_row *row, td_dtype t)
{
    const td_op *op = td_op_by_id(row->op);
    bool first = row->nin ? row->in[0].kind == EXAMPLE_TENSOR && row->in[0].dtype == TD_FLOAT32 : true;
    /* bits are not numbers, and statistics of half types stay float32 */
    bool special = !strcmp(op->name, "view_dtype") || (t != TD_FLOAT64 && strstr(op->name, "_norm"));
    return first && !special && (op->dtypes >> t & 1) && has_kernel(op);
}

static void test_floats(void)
{
    static const td_dtype floats[] = {TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16};
    unsigned ran = 0;
    for (unsigned r = 0; r < example_count; r++)
        for (int k = 0; k < 3; k++)
            if (generic(&example_rows[r], floats[k])) check(&example_rows[r], PACKED, floats[k]), ran++;
    CU_ASSERT_TRUE(ran >= 200);
}

static void test_complete(void)
{
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        if (!op || !strncmp(op->name, "empty", 5)) continue; /* memory as it comes */
        if (!has_kernel(op)) printf("\n  %s has no kernel\n", op->name);
        CU_ASSERT_TRUE(has_kernel(op));
    }
}

static int start(void)
{
    td_cpu_init();
    td_cpu_thread_init();
    return 0;
}

TD_CUNIT_MAIN_WITH("conformance", start, NULL, {"examples of the op table", test_examples},
                   {"examples over other strides", test_strides}, {"examples in other floats", test_floats},
                   {"every op has a kernel", test_complete})
