/* What reductions, scans, softmax and the ops that move elements give, by plain
 * loops in double and index arithmetic: the references of the kernel suites. */
#ifndef TENSORD_TESTS_UNIT_KERNEL_REFERENCES_H
#define TENSORD_TESTS_UNIT_KERNEL_REFERENCES_H

#include "pointwise_support.h"

/* Index of the output element that input element i belongs to, and its place
 * among the reduced ones. */
HELPER int64_t reduced_index(const td_desc *x, unsigned bits, int64_t i, int64_t *place)
{
    int64_t out = 0, scale = 1, gone_scale = 1;
    *place = 0;
    for (int d = x->ndim - 1; d >= 0; d--) {
        int64_t c = i % x->shape[d];
        i /= x->shape[d];
        if (bits >> d & 1) {
            *place += c * gone_scale;
            gone_scale *= x->shape[d];
        } else {
            out += c * scale;
            scale *= x->shape[d];
        }
    }
    return out;
}

typedef struct reference {      /* of one output */
    long double sum, sum2, lse; /* more than what is tested has: rounding of many equal terms has one sign */
    double prod, max, min;
    int64_t whole, product, argmax, argmin, n;
    bool any, all, nan;
} reference;

HELPER void observe(reference *r, double v, int64_t place)
{
    if (r->n++ == 0)
        *r = (reference){
            .prod = 1, .product = 1, .max = v, .min = v, .argmax = place, .argmin = place, .all = true, .n = 1};
    bool beats = r->max == r->max && (v > r->max || v != v), below = r->min == r->min && (v < r->min || v != v);
    if (beats) r->max = v, r->argmax = place;
    if (below) r->min = v, r->argmin = place;
    r->sum += v;
    r->prod *= v;
    r->whole = (int64_t)((uint64_t)r->whole + (uint64_t)(int64_t)v);
    r->product = (int64_t)((uint64_t)r->product * (uint64_t)(int64_t)v);
    r->any = r->any || v != 0;
    r->all = r->all && v != 0;
}
HELPER void observe_again(reference *r, double v)
{
    r->sum2 += (v - r->sum / (double)r->n) * (v - r->sum / (double)r->n);
    r->lse += exp(v - r->max);
}

HELPER double expected(const char *op, const reference *r, bool whole)
{
    double n = (double)r->n;
    if (!strcmp(op, "sum")) return whole ? (double)r->whole : (double)r->sum;
    if (!strcmp(op, "mean")) return (double)r->sum / n;
    if (!strcmp(op, "prod")) return whole ? (double)r->product : r->prod;
    if (!strcmp(op, "amax") || !strcmp(op, "max_dim")) return r->max;
    if (!strcmp(op, "amin") || !strcmp(op, "min_dim")) return r->min;
    if (!strcmp(op, "argmax")) return (double)r->argmax;
    if (!strcmp(op, "argmin")) return (double)r->argmin;
    if (!strcmp(op, "any")) return r->any;
    if (!strcmp(op, "all")) return r->all;
    if (!strcmp(op, "var")) return (double)r->sum2 / (n - 1 > 0 ? n - 1 : 0);
    if (!strcmp(op, "std")) return sqrt((double)r->sum2 / (n - 1 > 0 ? n - 1 : 0));
    return isinf(r->max) ? r->max : r->max + log((double)r->lse); /* logsumexp */
}

HELPER double tolerance(td_dtype t)
{
    return t == TD_FLOAT16 ? 0x1p-10 : t == TD_BFLOAT16 ? 0x1p-7 : t == TD_FLOAT32 ? 2e-6 : 1e-12;
}
HELPER bool close_to(double got, double want, td_dtype t)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    double most = t == TD_FLOAT16 ? 65000 : t == TD_FLOAT64 ? INFINITY : 3.3e38;
    if (isinf(want) || isinf(got)) return want == got || fabs(want) > most;
    return fabs(got - want) <= tolerance(t) * (fabs(want) + 0.5);
}

HELPER reference *references(const box *x, unsigned bits, int64_t outs)
{
    reference *r = calloc((size_t)outs + 1, sizeof *r);
    int64_t place;
    for (int64_t i = 0; i < box_numel(x); i++) {
        int64_t o = reduced_index(&x->d, bits, i, &place);
        observe(&r[o], box_real(x, i), place);
    }
    for (int64_t i = 0; i < box_numel(x); i++) observe_again(&r[reduced_index(&x->d, bits, i, &place)], box_real(x, i));
    return r;
}

HELPER void report(const char *op, const box *x, unsigned bits, int64_t o, double got, double want)
{
    char text[128];
    printf("%s of %s, dims %x: output %d is %.17g, not %.17g\n", op, td_desc_text(&x->d, text, sizeof text), bits,
           (int)o, got, want);
}

HELPER void check_reduce(const char *op, const box *x, unsigned bits, td_dtype compute, td_dtype result)
{
    int64_t kept[TD_MAX_DIMS], dims[TD_MAX_DIMS];
    int nk = 0, nd = 0;
    for (int d = 0; d < x->d.ndim; d++) {
        if (bits >> d & 1) dims[nd++] = random_below(2) ? d : d - x->d.ndim;
        else kept[nk++] = x->d.shape[d];
    }
    bool one = !strcmp(op, "prod") || !strncmp(op, "arg", 3) || strstr(op, "_dim"), both = strstr(op, "_dim") != NULL;
    if (nd == 0 || (one && nd > 1)) bits = ~0u, nk = 0, nd = 0;
    if (both && nd == 0) return;
    box y = box_new(result, nk, kept, ROW_MAJOR), where = box_new(TD_INT64, nk, kept, ROW_MAJOR);
    call c;
    call_begin(&c, op, compute);
    if (nd == 0) call_attr(&c, 0, A_NONE);
    else if (one) call_attr(&c, 0, A_INT(dims[0]));
    else call_ints(&c, 0, nd, dims);
    call_in(&c, x);
    call_out(&c, &y);
    if (both) call_out(&c, &where);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    reference *r = references(x, bits, box_numel(&y));
    int64_t wrong = 0;
    for (int64_t o = 0; o < box_numel(&y); o++) {
        double want = expected(op, &r[o], td_dtype_is_integral(compute)), got = box_real(&y, o);
        bool ok = close_to(got, want, result);
        if (both) ok = ok && ((int64_t *)where.data)[o] == (!strcmp(op, "max_dim") ? r[o].argmax : r[o].argmin);
        if (!ok && wrong++ == 0) report(op, x, bits, o, got, want);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    free(r);
    box_free(&y);
    box_free(&where);
}

/* The element that lies `step` further along a dimension than element i. */
HELPER int64_t neighbours(const td_desc *d, int dim)
{
    int64_t n = 1;
    for (int i = dim + 1; i < d->ndim; i++) n *= d->shape[i];
    return n;
}

HELPER double softmax_reference(const char *op, const box *a, const box *b, int64_t i, int dim)
{
    int64_t step = neighbours(&a->d, dim), n = a->d.ndim ? a->d.shape[dim] : 1, first = i - i / step % n * step;
    double m = -INFINITY, s = 0, g = 0, dot = 0;
    for (int64_t j = 0; j < n; j++) m = fmax(m, box_real(a, first + j * step));
    for (int64_t j = 0; j < n; j++) s += exp(box_real(a, first + j * step) - m), g += box_real(a, first + j * step);
    if (!strcmp(op, "softmax")) return exp(box_real(a, i) - m) / s;
    if (!strcmp(op, "log_softmax")) return box_real(a, i) - m - log(s);
    for (int64_t j = 0; j < n; j++) dot += box_real(a, first + j * step) * box_real(b, first + j * step);
    if (!strcmp(op, "softmax_backward")) return box_real(b, i) * (box_real(a, i) - dot);
    return box_real(a, i) - exp(box_real(b, i)) * g;
}

HELPER void coordinates(const td_desc *d, int64_t i, int64_t *at)
{
    for (int k = d->ndim - 1; k >= 0; k--) {
        at[k] = i % d->shape[k];
        i /= d->shape[k];
    }
}
HELPER int64_t index_at(const td_desc *d, const int64_t *at)
{
    int64_t i = 0;
    for (int k = 0; k < d->ndim; k++) i = i * d->shape[k] + at[k];
    return i;
}
HELPER bool same_element(const box *a, int64_t i, const box *b, int64_t j)
{
    td_scalar x = box_get(a, i), y = box_get(b, j);
    return x.i == y.i && x.re == y.re && x.im == y.im;
}

/* One op on x; `source` gives the coordinates in x of an element of the result,
 * or false when it is the fill value. */
typedef bool (*source_fn)(const td_desc *x, const td_desc *y, const int64_t *attr, int n, int64_t *at);

HELPER void check_moves(const char *op, const box *x, const box *y, call *c, source_fn source, const int64_t *attr,
                        int n, double fill)
{
    call_in(c, x);
    call_out(c, y);
    CU_ASSERT_EQUAL(random_below(2) ? call_run(c) : call_run(c), 0);
    int64_t wrong = 0;
    for (int64_t i = 0; i < box_numel(y); i++) {
        int64_t at[TD_MAX_DIMS];
        coordinates(&y->d, i, at);
        bool from = source(&x->d, &y->d, attr, n, at);
        wrong += from ? !same_element(y, i, x, index_at(&x->d, at)) : box_real(y, i) != fill;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    if (wrong) printf("%s: %d of %d wrong\n", op, (int)wrong, (int)box_numel(y));
}
HELPER bool repeat_source(const td_desc *x, const td_desc *y, const int64_t *attr, int n, int64_t *at)
{
    (void)attr, (void)n;
    int lead = y->ndim - x->ndim;
    for (int i = 0; i < x->ndim; i++) at[i] = at[i + lead] % x->shape[i];
    return true;
}
HELPER bool flip_source(const td_desc *x, const td_desc *y, const int64_t *attr, int n, int64_t *at)
{
    (void)y;
    for (int i = 0; i < n; i++) at[attr[i]] = x->shape[attr[i]] - 1 - at[attr[i]];
    return true;
}
HELPER bool roll_source(const td_desc *x, const td_desc *y, const int64_t *attr, int n, int64_t *at)
{
    (void)y;
    if (n == 0) {
        int64_t numel = 1, i = index_at(x, at);
        for (int d = 0; d < x->ndim; d++) numel *= x->shape[d];
        coordinates(x, ((i - attr[0]) % numel + numel) % numel, at);
    }
    for (int i = 0; i < n; i++) {
        int64_t size = x->shape[i];
        at[i] = ((at[i] - attr[i]) % size + size) % size;
    }
    return true;
}
HELPER bool pad_source(const td_desc *x, const td_desc *y, const int64_t *attr, int n, int64_t *at)
{
    (void)y;
    for (int i = 0; i < n / 2; i++) at[x->ndim - 1 - i] -= attr[2 * i];
    for (int d = 0; d < x->ndim; d++)
        if (at[d] < 0 || at[d] >= x->shape[d]) return false;
    return true;
}
HELPER bool lower_source(const td_desc *x, const td_desc *y, const int64_t *attr, int n, int64_t *at)
{
    (void)y, (void)n;
    return at[x->ndim - 1] - at[x->ndim - 2] <= attr[0];
}
HELPER bool upper_source(const td_desc *x, const td_desc *y, const int64_t *attr, int n, int64_t *at)
{
    (void)y, (void)n;
    return at[x->ndim - 1] - at[x->ndim - 2] >= attr[0];
}

#endif
