/* Results of tensorctl run: to files, or shown. */
#include "client/tensorctl/run.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 4096 /* tensors to save */, SHOWN = 8 /* elements */, LONG_NUMBER = 12 };

typedef struct tensors {
    td_array *at[MOST];
    int n; /* also of those that are too many */
} tensors;

/* Those among a result, without the lists, tuples and dicts around them. */
static void gather(tensors *all, const td_value *v) /* NOLINT(misc-no-recursion): as deep as the result */
{
    bool items = td_value_has_items(v);
    if (v->kind == TD_VALUE_ARRAY && all->n++ < MOST) all->at[all->n - 1] = v->array;
    for (uint32_t k = 0; items && k < v->n; k++) gather(all, &v->items[k]);
}

static bool print_elements(td_array *a)
{
    union {
        int64_t i[SHOWN];
        double f[SHOWN];
    } shown;
    int64_t n = td_numel(a) < SHOWN ? td_numel(a) : SHOWN;
    bool whole = !td_dtype_is_inexact(td_dtype_of(a));
    td_array *first = n ? td_to(td_narrow(td_flatten(a, 0, -1), 0, 0, n), whole ? TD_INT64 : TD_FLOAT64) : NULL;
    if (n && (!first || td_read(first, &shown, (size_t)n * 8))) return false;
    for (int64_t i = 0; i < n; i++) {
        if (whole) printf(" %lld", (long long)shown.i[i]);
        else printf(" %.8g", shown.f[i]);
    }
    if (td_numel(a) > n) printf(" ...");
    return true;
}

static bool print_tensor(td_array *a)
{
    td_scope s;
    int rank = td_ndim(a);
    if (rank < 0) return false;
    printf("%s[", td_dtype_name(td_dtype_of(a)));
    for (int k = 0; k < rank; k++) printf("%s%lld", k ? ", " : "", (long long)td_size(a, k));
    printf("]");
    td_scope_begin(&s);
    bool good = td_dtype_is_complex(td_dtype_of(a)) || print_elements(a);
    td_scope_end(&s);
    putchar('\n');
    return good;
}

static bool print_value(const td_value *v)
{
    switch (v->kind) {
    case TD_VALUE_ARRAY: return print_tensor(v->array);
    case TD_VALUE_INT: return printf("%lld\n", (long long)v->i) > 0;
    case TD_VALUE_BOOL: return puts(v->i ? "True" : "False") >= 0;
    case TD_VALUE_FLOAT: return printf("%.17g\n", v->re) > 0;
    case TD_VALUE_COMPLEX: return printf("(%.17g, %.17g)\n", v->re, v->im) > 0;
    case TD_VALUE_STR: return ctl_put_lines(v->text, v->n), putchar('\n') >= 0;
    case TD_VALUE_DEVICE: return puts(td_device_text((int)v->i)) >= 0;
    case TD_VALUE_DTYPE: return puts(td_dtype_name((td_dtype)v->i)) >= 0;
    default: return puts("None") >= 0;
    }
}

static bool ends_with(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcmp(path + n - m, ending) == 0;
}

/* One file for each tensor; or one for all of them, under their numbers. */
static bool save_tensors(const ctl_options *o, const tensors *all)
{
    static char digits[MOST][LONG_NUMBER];
    static const char *names[MOST];
    if (all->n > MOST)
        return td_raise(TD_E_UNSUPPORTED, "run", "%d tensors come; at most %d are saved", all->n, MOST) == 0;
    for (int k = 0; k < all->n; k++) {
        snprintf(digits[k], sizeof digits[k], "%d", k);
        names[k] = digits[k];
    }
    if (o->nout == 1 && (all->n != 1 || ends_with(o->out[0], ".npz")))
        return td_save(o->out[0], td_arrays_of(all->n, all->at), names, 0) == TD_OK;
    if (o->nout != all->n)
        return td_raise(TD_E_INVALID, "run", "%d tensors come, and %d files are there for them", all->n, o->nout) == 0;
    bool good = true;
    for (int k = 0; k < all->n && good; k++)
        good = !td_save(o->out[k], td_arrays(all->at[k]), ends_with(o->out[k], ".safetensors") ? names + k : NULL, 0);
    return good;
}

/* What was not saved. */
static bool print_all(const ctl_options *o, const td_value *v) /* NOLINT(misc-no-recursion): as deep as the result */
{
    bool good = true;
    if (!td_value_has_items(v)) return (o->nout && v->kind == TD_VALUE_ARRAY) || print_value(v);
    for (uint32_t k = 0; k < v->n && good; k++) good = print_all(o, &v->items[k]);
    return good;
}

bool ctl_run_results(ctl_running *r)
{
    static tensors all;
    gather(&all, &r->result);
    return (!r->o->nout || save_tensors(r->o, &all)) && print_all(r->o, &r->result);
}
