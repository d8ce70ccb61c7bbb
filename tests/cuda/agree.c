/* See agree.h. */
#include "tests/cuda/agree.h"
#include "tests/unit/op_calls.h"
#include <inttypes.h>

enum { OUTS = 4, MARGIN = 64, PATTERN = 0xA5 };

uint64_t agree_random_state = 0x9e3779b97f4a7c15ull;
uint64_t agree_random(void)
{
    agree_random_state ^= agree_random_state << 13;
    agree_random_state ^= agree_random_state >> 7;
    return agree_random_state ^= agree_random_state << 17;
}
int64_t agree_below(int64_t n)
{
    return n > 0 ? (int64_t)(agree_random() % (uint64_t)n) : 0;
}

/* ---- tensors: the same bytes here twice, and there */

typedef struct tensor {
    td_desc d;
    bool absent, number;
    size_t bytes;              /* from element 0 to behind the last one */
    unsigned char *cpu, *back; /* what the CPU works on; what came back */
    unsigned char
        *there; /* on the device, behind `lead` bytes: MARGIN, and some elements, so that not all begin with a line */
    size_t lead;
    _Alignas(16) unsigned char value[16];
} tensor;

static size_t reach(const td_desc *d)
{
    int64_t last = 0;
    for (int i = 0; i < d->ndim; i++) {
        if (!d->shape[i]) return 0;
        last += (d->shape[i] - 1) * d->stride[i];
    }
    return (size_t)(last + 1) * td_dtype_size((td_dtype)d->dtype);
}
static void tensor_make(tensor *t, const td_desc *d)
{
    t->d = *d;
    t->bytes = reach(d);
    t->lead = MARGIN + (agree_below(4) ? 0 : (size_t)agree_below(8) * td_dtype_size((td_dtype)d->dtype));
    t->cpu = malloc(t->bytes + t->lead + MARGIN);
    t->back = malloc(t->bytes + t->lead + MARGIN);
    if (!t->cpu || !t->back) abort();
    memset(t->cpu, PATTERN, t->bytes + t->lead + MARGIN);
    t->cpu += t->lead;
    t->back += t->lead;
}
static void tensor_free(const agree_device *dev, tensor *t)
{
    if (t->cpu) free(t->cpu - t->lead);
    if (t->back) free(t->back - t->lead);
    if (t->there) dev->free(t->there);
    *t = (tensor){0};
}
static void tensor_send(const agree_device *dev, tensor *t)
{
    t->there = dev->alloc(t->bytes + t->lead + MARGIN);
    dev->write(t->there, t->cpu - t->lead, t->bytes + t->lead + MARGIN);
}
static size_t place(const td_desc *d, int64_t i)
{
    int64_t at = 0;
    for (int k = d->ndim - 1; k >= 0; k--) {
        at += i % d->shape[k] * d->stride[k];
        i /= d->shape[k];
    }
    return (size_t)at * td_dtype_size((td_dtype)d->dtype);
}

static double wild(void)
{
    double m = (double)(agree_random() >> 11) * 0x1p-53 * 2 - 1;
    switch (agree_below(16)) {
    case 0: return 0;
    case 1: return agree_below(2) ? INFINITY : -INFINITY;
    case 2: return NAN;
    case 3: return m * 1e30;
    case 4: return m * 1e-30;
    case 5: return (double)(agree_below(41) - 20);
    case 6: return m * 1000;
    default: return m * 10;
    }
}
static double real_value(const agree_case *c)
{
    switch (c->fill) {
    case AGREE_WILD: return wild();
    case AGREE_UNIT: return (double)(agree_random() >> 11) * 0x1p-53;
    default: return (double)(agree_below(33) - 16) / 8;
    }
}
static td_scalar draw_value(const agree_case *c, td_dtype t)
{
    if (td_dtype_is_inexact(t))
        return td_dtype_is_complex(t) ? td_complex(real_value(c), real_value(c)) : td_float(real_value(c));
    if (t == TD_BOOL) return td_bool(agree_below(2));
    if (c->fill == AGREE_INDEX) return td_int(agree_below(c->limit) - (c->wraps && agree_below(3) == 0 ? c->limit : 0));
    return td_int(agree_below(td_dtype_is_unsigned(t) ? 21 : 41) - (td_dtype_is_unsigned(t) ? 0 : 20));
}
static void tensor_fill(tensor *t, const agree_case *c)
{
    for (int64_t i = 0, n = td_desc_numel(&t->d); i < n; i++)
        td_scalar_store(draw_value(c, (td_dtype)t->d.dtype), (td_dtype)t->d.dtype, t->cpu + place(&t->d, i));
}

/* ---- how far apart */

static int digits(td_dtype t)
{
    switch (td_dtype_real(t)) {
    case TD_FLOAT16: return 11;
    case TD_BFLOAT16: return 8;
    case TD_FLOAT32: return 24;
    default: return 53;
    }
}
static int least_exponent(td_dtype t)
{
    switch (td_dtype_real(t)) {
    case TD_FLOAT16: return -13;
    case TD_FLOAT64: return -1021;
    default: return -125;
    }
}
static double unit(double v, td_dtype t)
{
    int e;
    frexp(fabs(v), &e);
    if (e < least_exponent(t) || v == 0) e = least_exponent(t);
    return ldexp(1, e - digits(t));
}
static double apart(double got, double want, double scale, td_dtype t)
{
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (got == want) return 0;
    double most = ldexp(1, t == TD_FLOAT16 ? 16 : t == TD_FLOAT64 ? 1023 : 127);
    if (isinf(got) || isinf(want)) /* beside the largest number it may go either way */
        return got * want > 0 && fmin(fabs(got), fabs(want)) >= most * 0.999 ? 1 : INFINITY;
    return fabs(got - want) / unit(fmax(fabs(want), scale), t);
}
static double whole_of(td_dtype t, td_scalar s)
{
    return t == TD_UINT64 ? (double)(uint64_t)s.i : (double)s.i;
}
static double scale_of(const tensor *t)
{
    double most = 0;
    if (!td_dtype_is_inexact((td_dtype)t->d.dtype)) return 0;
    for (int64_t i = 0, n = td_desc_numel(&t->d); i < n; i++) {
        td_scalar s = td_scalar_load((td_dtype)t->d.dtype, t->cpu + place(&t->d, i));
        if (fabs(s.re) < INFINITY) most = fmax(most, fabs(s.re));
    }
    return most;
}
static double compare(const tensor *t, const agree_case *c, char *why, size_t room)
{
    td_dtype type = (td_dtype)t->d.dtype;
    double worst = 0, scale = c->scaled ? fmax(scale_of(t), c->floor) : 0;
    for (int64_t i = 0, n = td_desc_numel(&t->d); i < n; i++) {
        size_t at = place(&t->d, i);
        if (!memcmp(t->cpu + at, t->back + at, td_dtype_size(type))) continue;
        td_scalar want = td_scalar_load(type, t->cpu + at), got = td_scalar_load(type, t->back + at);
        double off = td_dtype_is_inexact(type)
                         ? fmax(apart(got.re, want.re, scale, type),
                                td_dtype_is_complex(type) ? apart(got.im, want.im, scale, type) : 0)
                     : got.i == want.i ? 0
                                       : INFINITY;
        if (off > worst) {
            worst = off;
            snprintf(why, room, "element %" PRId64 " of %" PRId64 ": %.17g, on the CPU %.17g", i, n,
                     td_dtype_is_inexact(type) ? got.re : whole_of(type, got),
                     td_dtype_is_inexact(type) ? want.re : whole_of(type, want));
        }
    }
    return worst;
}
/* What lies between and around the elements is as it was. */
static bool beside_intact(const tensor *t)
{
    size_t all = t->bytes + t->lead + MARGIN, size = td_dtype_size((td_dtype)t->d.dtype);
    unsigned char *marks = calloc(1, all);
    bool intact = true;
    for (int64_t i = 0, n = td_desc_numel(&t->d); i < n; i++) memset(marks + t->lead + place(&t->d, i), 1, size);
    for (size_t i = 0; i < all; i++) intact = intact && (marks[i] || (t->back - t->lead)[i] == PATTERN);
    free(marks);
    return intact;
}

/* ---- a call */

typedef struct both {
    call text;
    tensor in[CALL_MAX], out[OUTS];
    td_karg cpu_in[CALL_MAX], cpu_out[OUTS], in_there[CALL_MAX], out_there[OUTS];
    td_kcall cpu, cuda;
} both;

/* The numbers as ops/inputs.c makes them. */
static void make_number(both *b, int i)
{
    tensor *t = &b->in[i];
    td_dtype compute = b->text.f.compute,
             type = td_dtype_valid(compute) ? compute : td_scalar_dtype(b->text.scalars[i]);
    bool half = compute == TD_FLOAT16 || compute == TD_BFLOAT16;
    if (half && b->text.f.op->flags & TD_OF_EXACT_NUMBER) type = TD_FLOAT32;
    t->number = true;
    t->d = (td_desc){.dtype = (uint8_t)type};
    td_scalar_store(b->text.scalars[i], type, t->value);
}
static td_karg argument(const tensor *t, bool there)
{
    td_karg a = {NULL, t->absent ? NULL : &t->d};
    memcpy(a.number, t->value, sizeof a.number);
    if (!t->absent && !t->number) a.data = there ? t->there + t->lead : t->cpu;
    return a;
}
static void give(both *b, td_kcall *k, td_karg *in, td_karg *out, bool there)
{
    *k = (td_kcall){.op = b->text.f.op,
                    .attrs = &b->text.attrs,
                    .in = in,
                    .out = out,
                    .nin = (uint16_t)b->text.nin,
                    .nout = (uint16_t)b->text.f.nout,
                    .compute = (uint8_t)b->text.f.compute,
                    .device = there ? TD_CUDA : TD_CPU,
                    .seed = 0x1234567890abcdefull,
                    .counter = 7};
    for (int i = 0; i < b->text.nin; i++) {
        in[i] = argument(&b->in[i], there);
        if (b->in[i].number) in[i].data = in[i].number;
    }
    for (int i = 0; i < b->text.f.nout; i++) out[i] = argument(&b->out[i], there);
}

static void gapped(td_desc *d)
{
    int64_t width = 2;
    for (int i = d->ndim - 1; i >= 0; i--) {
        d->stride[i] = width;
        width = width * (d->shape[i] > 0 ? d->shape[i] : 1) + 3;
    }
}

/* The launches of a planned call; 0, or the code of its failure. */
static int run_there(const agree_device *dev, both *b, char *why, size_t room)
{
    td_kcall *k = &b->cuda;
    td_cuda_fault fault = {0}, *there = dev->alloc(sizeof fault);
    bool ok = true;
    dev->write(there, &fault, sizeof fault);
    k->work = k->work_bytes ? dev->alloc(k->work_bytes) : NULL;
    k->replan(k);
    for (int i = 0; ok && i < td_cuda_count(k); i++) {
        td_cuda_launch l;
        td_cuda_launch_at(k, i, &l);
        memcpy(l.args, &there, sizeof there);
        ok = dev->launch(&l, why, room);
    }
    ok = dev->finish(why, room) && ok;
    if (ok) dev->read(&fault, there, sizeof fault);
    if (fault.bits) td_cuda_explain(k, &fault);
    if (k->work) dev->free(k->work);
    dev->free(there);
    return ok ? atomic_load(&k->failed) : TD_E_DEVICE;
}

static void fail(agree_row *row, const agree_case *c, const char *why)
{
    row->failed++;
    snprintf(row->text, sizeof row->text, "%s", c->text);
    snprintf(row->why, sizeof row->why, "%s", why);
}

/* What lies around the tensors, between which kernels are to stay. */
static void shut_beside(const agree_device *dev, both *b, bool shut)
{
    for (int i = 0; dev->shut && i < b->text.nin + b->text.f.nout; i++) {
        tensor *t = i < b->text.nin ? &b->in[i] : &b->out[i - b->text.nin];
        if (t->absent || t->number) continue;
        dev->shut(t->there, t->lead, shut);
        dev->shut(t->there + t->lead + t->bytes, MARGIN, shut);
    }
}

/* Both have run without a failure. */
static bool compare_all(const agree_device *dev, both *b, const agree_case *c, agree_row *row)
{
    char why[200] = "", beside[] = "something beside the elements was written";
    double worst = 0;
    bool intact = true;
    for (int i = 0; i < b->text.nin + b->text.f.nout; i++) {
        tensor *t = i < b->text.nin ? &b->in[i] : &b->out[i - b->text.nin];
        if (t->absent || t->number) continue;
        dev->read(t->back - t->lead, t->there, t->bytes + t->lead + MARGIN);
        double off = compare(t, c, why, sizeof why);
        worst = fmax(worst, off);
        intact = intact && beside_intact(t);
    }
    if (!intact) fail(row, c, beside);
    else if (worst > c->allowed) fail(row, c, why);
    else if (worst > row->worst)
        snprintf(row->text, sizeof row->text, "%s", c->text), snprintf(row->why, sizeof row->why, "%s", why);
    row->worst = fmax(row->worst, worst);
    return intact && worst <= c->allowed;
}

static bool run_both(const agree_device *dev, both *b, const agree_case *c, agree_row *row)
{
    char why[200] = "";
    td_error e = {0}, e2 = {0};
    give(b, &b->cpu, b->cpu_in, b->cpu_out, false);
    give(b, &b->cuda, b->in_there, b->out_there, true);
    int planned = td_cuda_plans[b->text.f.op->id](&b->cuda, &e2);
    if (planned) {
        row->refused++;
        return planned == TD_E_UNSUPPORTED;
    }
    row->calls++;
    int cpu = td_kernel_run(td_cpu_plans[b->text.f.op->id], &b->cpu, &e);
    shut_beside(dev, b, true);
    int cuda = td_cuda_count(&b->cuda) ? run_there(dev, b, why, sizeof why) : 0;
    shut_beside(dev, b, false);
    if (cpu == TD_E_UNSUPPORTED) return true; /* a layout that the CPU leaves to a temporary */
    if (cpu != cuda) {
        snprintf(why + strlen(why), sizeof why - strlen(why), " the CPU's code is %d (%.100s), CUDA's %d", cpu,
                 e.message, cuda);
        fail(row, c, why);
        return false;
    }
    return cpu ? true : compare_all(dev, b, c, row);
}

bool agree_run(const agree_device *dev, const agree_case *c, agree_row *row)
{
    static both b;
    memset(&b, 0, sizeof b);
    call_read(&b.text, c->text);
    b.text.f.max_out = OUTS;
    if (!td_cuda_plans[b.text.f.op->id] || td_op_infer(&b.text.f, &b.text.error)) return true;
    for (int i = 0; i < b.text.nin; i++) {
        tensor *t = &b.in[i];
        if (b.text.in[i].desc) tensor_make(t, b.text.in[i].desc), tensor_fill(t, c), tensor_send(dev, t);
        else if (b.text.in[i].scalar) make_number(&b, i);
        else t->absent = true;
    }
    for (int i = 0; i < b.text.f.nout; i++) {
        if (c->out_layout) gapped(&b.text.out[i]);
        tensor_make(&b.out[i], &b.text.out[i]);
        tensor_send(dev, &b.out[i]);
    }
    bool good = run_both(dev, &b, c, row);
    for (int i = 0; i < b.text.nin; i++) tensor_free(dev, &b.in[i]);
    for (int i = 0; i < b.text.f.nout; i++) tensor_free(dev, &b.out[i]);
    return good;
}
