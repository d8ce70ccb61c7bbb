/* The worked examples of the op table, run through inference and the kernels of each device that there is: what the
 * docs say is what happens. Floats may differ by a little, whole numbers and bools not at all; dtypes and shapes must
 * be as written. The CPU's kernels run between pages that nobody may touch (kernel_box.h), in order, shuffled and on
 * two threads; to another device's memory values go, and from there they come, by its own reads and writes. */
#include "conformance.h"
#include "daemon/ops/ops.h"
#include "daemon/tensor/device.h"
#include "kernel_box.h"
#include "proto/base/device.h"
#include "proto/ops/formula.h"
#include "proto/ops/opid.h"
#include "tests/support/fake_device.h"

enum { MAX_TENSORS = 16, MOST_STORAGES = 4096 };

/* ---- where everything lies ---- */

static unsigned where;
static td_account *payer;
static td_storage *storages[MOST_STORAGES]; /* of the current example, on another device than the CPU */
static int nstorages;

/* Memory for a tensor where it lies: on the CPU that which is here, else some over there. */
static void *there(const td_desc *d, unsigned char *here, size_t n)
{
    td_place place = {.account = payer, .device = d->device};
    if (d->device == TD_CPU) return here;
    if (nstorages == MOST_STORAGES || td_storage_new(&storages[nstorages], &place, n, NULL, NULL)) abort();
    return storages[nstorages++]->data;
}

/* What a record says: of an op that makes something of nothing, where. */
static uint8_t made_on(const td_op *op)
{
    return op->flags & TD_OF_CREATION ? (uint8_t)where : TD_CPU;
}

static td_storage *storage_at(const void *at)
{
    for (int i = 0; i < nstorages; i++) {
        td_storage *s = storages[i];
        if ((const unsigned char *)at >= s->data && (const unsigned char *)at < s->data + s->nbytes) return s;
    }
    abort();
}

static void write_there(const td_desc *d, void *at, const unsigned char *here, size_t n)
{
    td_storage *s = d->device == TD_CPU || !n ? NULL : storage_at(at);
    if (s && td_storage_write(s, (uint64_t)((unsigned char *)at - s->data), here, n, NULL)) abort();
}

static void read_there(const td_desc *d, const void *at, unsigned char *here, size_t n)
{
    td_storage *s = d->device == TD_CPU || !n ? NULL : storage_at(at);
    if (s && td_storage_read(s, (uint64_t)((const unsigned char *)at - s->data), here, n, NULL)) abort();
}

static void forget_there(void)
{
    while (nstorages) td_storage_unref(storages[--nstorages]);
    CU_ASSERT_EQUAL(td_account_bytes(payer, where), 0);
}

typedef enum layout { PACKED, REVERSED, GAPS } layout;

typedef struct execution {
    const example_row *row;
    const td_op *op;
    layout layout;
    td_dtype floats; /* stands where the example says float32 */
    td_attrs attrs;
    td_operand operands[MAX_TENSORS];
    td_desc in[MAX_TENSORS], out[MAX_TENSORS];
    td_inference infer;
    td_karg in_args[MAX_TENSORS], out_args[MAX_TENSORS];
    td_error error;
    guarded in_memory[MAX_TENSORS], out_memory[MAX_TENSORS];
} execution;

static td_dtype as_run(const execution *x, td_dtype t)
{
    if (t == TD_COMPLEX64 && x->floats == TD_FLOAT64 && x->row->nin && x->row->in[0].dtype == TD_FLOAT32) return TD_COMPLEX128;
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
    bool number_there = from->kind == EXAMPLE_NUMBER && where != TD_CPU; /* which goes with the call */
    x->in[i].device = number_there ? TD_CPU : (uint8_t)where;
    unsigned char *at = room(&x->in_memory[i], &x->in[i], i & 1);
    for (int64_t k = 0, n = td_desc_numel(&x->in[i]); k < n; k++)
        td_scalar_store(from->values[k], t, at + place(&x->in[i], k));
    size_t n = x->in_memory[i].bytes;
    x->in_args[i] = (td_karg){there(&x->in[i], at, n), &x->in[i]};
    if (number_there) x->in_args[i].data = memcpy(x->in_args[i].number, at, n);
    else write_there(&x->in[i], x->in_args[i].data, at, n);
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
    x->infer = (td_inference){.op = x->op,
                          .in = x->operands,
                          .nin = x->row->nin,
                          .attrs = &x->attrs,
                          .out = x->out,
                          .max_out = MAX_TENSORS,
                          .device = made_on(x->op)};
    int rc = td_op_infer(&x->infer, &x->error);
    for (int i = 0; !rc && i < x->row->nin; i++)
        if (x->row->in[i].kind == EXAMPLE_NUMBER) fill_input(x, i, x->infer.compute);
    return rc;
}

/* ---- ops made of ops: a builder that runs each op's kernel ---- */

typedef struct value {
    td_desc desc;
    td_karg arg;
    bool shaped; /* by values */
} value;

typedef struct workshop {
    td_fx how;
    uint64_t ops;
} workshop;

static td_fval as_value(td_fx *f, const td_desc *d, void *data)
{
    value *v = td_fx_alloc(&((workshop *)f->arg)->how, sizeof *v);
    v->desc = *d;
    v->arg = (td_karg){data, &v->desc};
    v->shaped = false;
    return (td_fval){TD_F_TENSOR, {v}};
}

/* What a kernel sees of an input: a number is a 0-d tensor of the dtype that is computed in. */
static td_karg kernel_arg(td_fx *f, const td_fval *v, td_dtype compute)
{
    td_desc d;
    if (v->kind == TD_F_TENSOR) return ((value *)v->ref)->arg;
    if (v->kind == TD_F_NONE || td_desc_contiguous(&d, compute, 0, NULL, NULL)) return (td_karg){0};
    td_fval number = as_value(f, &d, NULL);
    td_karg arg = ((value *)number.ref)->arg;
    td_scalar_store(*v->number, compute, arg.number);
    return arg;
}

static int run_one(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int nout, td_fval *out)
{
    workshop *w = f->arg;
    td_operand operands[MAX_TENSORS] = {{0}};
    td_karg args[MAX_TENSORS], outs[MAX_TENSORS];
    td_desc made[MAX_TENSORS];
    for (int i = 0; i < nin; i++) {
        operands[i].desc = in[i].kind == TD_F_TENSOR ? &((value *)in[i].ref)->desc : NULL;
        operands[i].scalar = in[i].kind == TD_F_NUMBER ? in[i].number : NULL;
    }
    td_inference g = {.op = op,
                  .in = operands,
                  .nin = nin,
                  .attrs = attrs,
                  .out = made,
                  .max_out = MAX_TENSORS,
                  .device = made_on(op)};
    int rc = td_op_infer(&g, f->error);
    if (rc) return rc;
    w->ops++;
    f->nmade = g.nout;
    for (int i = 0; i < nin; i++) {
        args[i] = kernel_arg(f, &in[i], g.compute);
        if (in[i].kind == TD_F_NUMBER) args[i].data = args[i].number;
    }
    for (int o = 0; o < g.nout; o++) {
        unsigned char *base = (op->flags & TD_OF_VIEW) ? ((value *)in[0].ref)->arg.data
                                                       : there(&made[o], td_fx_alloc(&w->how, 4096), 4096);
        int64_t from = (op->flags & TD_OF_VIEW) ? made[o].offset - operands[0].desc->offset : 0;
        out[o] = as_value(f, &made[o], base + from * (int64_t)td_dtype_size((td_dtype)made[o].dtype));
        outs[o] = ((value *)out[o].ref)->arg;
    }
    if (op->flags & TD_OF_VIEW || nout == 0) return TD_OK;
    td_kcall k = {.op = op,
                  .attrs = attrs,
                  .in = args,
                  .out = outs,
                  .nin = (uint16_t)nin,
                  .nout = (uint16_t)g.nout,
                  .compute = (uint8_t)g.compute,
                  .seed = 1};
    rc = td_kernel_run(td_device_get(where)->plans[op->id], &k, f->error);
    value *first = out[0].ref;
    first->shaped = op->flags & TD_OF_DATA_SHAPE;
    if (!rc && first->shaped) memcpy(&first->desc.shape[0], k.state, sizeof(int64_t));
    return rc;
}

static void meta_of(td_fx *f, const td_fval *v, td_fmeta *m)
{
    (void)f;
    *m = td_fmeta_of(&((value *)v->ref)->desc);
}

/* As inference alone has said, which of what values decide tells the most. */
static bool as_inferred(const value *v, const td_desc *said)
{
    td_desc most = v->desc;
    if (v->shaped && most.shape[0] < said->shape[0]) most.shape[0] = said->shape[0];
    return most.dtype == said->dtype && td_desc_same_shape(&most, said);
}

/* What comes out must be what inference alone has said. The results' bytes stay until the next example. */
static int run_composed(execution *x, bool create_graph)
{
    static workshop w;
    td_fx_deinit(&w.how);
    td_fx_init(&w.how);
    w.ops = 0;
    w.how.op = run_one, w.how.meta = meta_of, w.how.arg = &w, w.how.error = &x->error;
    w.how.create_graph = create_graph;
    td_fval in[MAX_TENSORS], out[MAX_TENSORS];
    for (int i = 0; i < x->row->nin; i++) {
        in[i] = x->operands[i].desc ? as_value(&w.how, &x->in[i], x->in_args[i].data) : td_fv_none();
        if (x->operands[i].scalar) in[i] = td_fv_at(x->operands[i].scalar);
    }
    int nout, rc = td_fx_make(&w.how, x->op, x->row->nin, in, &x->attrs, MAX_TENSORS, out, &nout);
    for (int o = 0; o < nout && !rc; o++) {
        const value *v = out[o].ref;
        if (nout != x->infer.nout || !as_inferred(v, &x->out[o]))
            return td_fail(&x->error, TD_E_INTERNAL, "inference says otherwise of result %d", o);
        x->out[o] = v->desc;
        x->out_args[o] = (td_karg){v->arg.data, &x->out[o]};
        if (x->out[o].device == TD_CPU) continue;
        uint64_t low, high;
        td_desc_extent(&v->desc, &low, &high);
        x->out_args[o].data = room(&x->out_memory[o], &x->out[o], false);
        read_there(&x->out[o], v->arg.data, x->out_args[o].data, (size_t)(high - low));
    }
    return rc;
}

/* Leaves the results' bytes and descriptors; those of views lie in input 0. */
static int run(execution *x, int way)
{
    td_plan_fn plan = td_device_get(where)->plans[x->op->id];
    void *out[MAX_TENSORS];
    int rc = infer(x);
    if (rc) return rc;
    if (x->op->compose) return (rc = run_composed(x, false)) ? rc : run_composed(x, true);
    for (int i = 0; i < x->infer.nout; i++) {
        bool view = x->op->flags & TD_OF_VIEW;
        unsigned char *base =
            view ? x->in_memory[0].at + x->out[i].offset * (int64_t)td_dtype_size((td_dtype)x->out[i].dtype)
                 : room(&x->out_memory[i], &x->out[i], !(i & 1));
        out[i] = view ? base : there(&x->out[i], base, x->out_memory[i].bytes);
        x->out_args[i] = (td_karg){out[i], &x->out[i]};
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
    for (int i = 0; i < x->infer.nout; i++) {
        x->out_args[i].data = x->out_memory[i].at;
        read_there(&x->out[i], out[i], x->out_memory[i].at, x->out_memory[i].bytes);
    }
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
        memcmp(d->shape, want->shape, want->ndim * sizeof want->shape[0]) != 0) {
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
    return (op->flags & TD_OF_VIEW) || op->compose || td_device_get(where)->plans[op->id];
}

static void clear(execution *x)
{
    for (int i = 0; i < MAX_TENSORS; i++) {
        CU_ASSERT_TRUE(!x->in_memory[i].map || guarded_intact(&x->in_memory[i]));
        CU_ASSERT_TRUE(!x->out_memory[i].map || guarded_intact(&x->out_memory[i]));
        guarded_free(&x->in_memory[i]);
        guarded_free(&x->out_memory[i]);
    }
    forget_there();
}

static void check_way(const example_row *row, layout how, td_dtype floats, int way)
{
    static execution x;
    memset(&x, 0, sizeof x);
    x.row = row, x.op = td_op_by_id(row->op), x.layout = how, x.floats = floats;
    fill_attrs(&x);
    const char *wrong = run(&x, way) ? x.error.message : x.infer.nout != row->nout ? "another number of results" : NULL;
    for (int i = 0; !wrong && i < row->nout; i++) wrong = differs(&x, i);
    if (wrong)
        printf("\n  %s (layout %d, %s, %s): %s\n", row->text, how, td_dtype_name(floats), td_device_name(where), wrong);
    CU_ASSERT_PTR_NULL(wrong);
    clear(&x);
}

static void check(const example_row *row, layout how, td_dtype floats)
{
#ifdef __SANITIZE_THREAD__
    check_way(row, how, floats, TWO_THREADS);
#else
    for (int way = IN_ORDER; way < RUNNINGS; way++) check_way(row, how, floats, way);
#endif
}

/* The tests run on each device that there is; which is `where`. */
static void everywhere(void (*test)(void))
{
    for (where = TD_CPU; where < TD_MAX_DEVICES; where++)
        if (td_device_get(where)) test();
    where = TD_CPU;
}

static void examples(void)
{
    unsigned ops = 0;
    for (unsigned r = 0; r < example_count; r++) {
        if (!r || example_rows[r].op != example_rows[r - 1].op) ops++;
        if (has_kernel(td_op_by_id(example_rows[r].op))) check(&example_rows[r], PACKED, TD_FLOAT32);
    }
    CU_ASSERT_TRUE(ops >= 165);
}

static void test_examples(void)
{
    everywhere(examples);
}

static void strides(void)
{
    for (unsigned r = 0; r < example_count; r++) {
        const td_op *op = td_op_by_id(example_rows[r].op);
        if ((op->flags & TD_OF_VIEW) || !has_kernel(op)) continue; /* what a view shows is a matter of its strides */
        check(&example_rows[r], REVERSED, TD_FLOAT32);
        check(&example_rows[r], GAPS, TD_FLOAT32);
    }
}

static void test_strides(void)
{
    everywhere(strides);
}

/* Does the example speak of float32 in a way that another float can stand for? */
static bool generic(const example_row *row, td_dtype t)
{
    const td_op *op = td_op_by_id(row->op);
    bool first = row->nin ? row->in[0].kind == EXAMPLE_TENSOR && row->in[0].dtype == TD_FLOAT32 : true;
    /* bits are not numbers, and statistics of half types stay float32 */
    bool special = !strcmp(op->name, "view_dtype") || (t != TD_FLOAT64 && (strstr(op->name, "_norm") || strstr(op->name, "tiled_attention")));
    return first && !special && (op->dtypes >> t & 1) && has_kernel(op);
}

static void floats(void)
{
    static const td_dtype others[] = {TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16};
    unsigned ran = 0;
    for (unsigned r = 0; r < example_count; r++)
        for (int k = 0; k < 3; k++)
            if (generic(&example_rows[r], others[k])) check(&example_rows[r], PACKED, others[k]), ran++;
    CU_ASSERT_TRUE(ran >= 200);
}

static void test_floats(void)
{
    everywhere(floats);
}

static void complete(void)
{
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        if (!op || !strncmp(op->name, "empty", 5)) continue; /* memory as it comes */
        if (!has_kernel(op)) printf("\n  %s has no kernel\n", op->name);
        CU_ASSERT_TRUE(has_kernel(op));
    }
}

static void test_complete(void)
{
    everywhere(complete);
}

static int start(void)
{
    td_cpu_init();
    td_cpu_thread_init();
    payer = td_account_new(NULL);
    td_device_entry fake;
    if (!payer || fake_device_start(&fake, TD_FAKE, NULL)) return 1;
    td_device_add(&(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .plans = td_cpu_plans});
    td_device_add(&fake);
    return 0;
}

static int stop(void)
{
    td_account_unref(payer);
    td_devices_end();
    td_tensors_forget_dead();
    return td_live_counts().bytes != 0;
}

TD_CUNIT_MAIN_WITH("conformance", start, stop, {"examples of the op table", test_examples},
                   {"examples over other strides", test_strides}, {"examples in other floats", test_floats},
                   {"every op has a kernel", test_complete})
