/* Records: empty ones, joining two, and turning them into results. */
#include "daemon/kernels/cpu/reduce/reduce.h"
#include "daemon/kernels/cpu/tile.h"
#include <assert.h>
#include <math.h>

static bool is_float(const td_reduction *r)
{
    return r->body == TD_R_F32 || r->body == TD_R_F64;
}
static bool is_complex(const td_reduction *r)
{
    return r->body == TD_R_C64 || r->body == TD_R_C128;
}

void td_record_clear(const td_reduction *r, td_word *a, td_word *b, int64_t n)
{
    td_word start = {.i = 0};
    bool floats = is_float(r) || is_complex(r);
    switch (r->fold) {
    case TD_FOLD_PROD:
        if (floats) start.f = 1;
        else start.i = 1;
        break;
    case TD_FOLD_ALL: start.i = 1; break;
    case TD_FOLD_LSE: start.f = -INFINITY; break;
    default: break; /* sums and "any" begin at zero; extremes take the first element */
    }
    for (int64_t i = 0; i < n; i++) {
        a[i] = start;
        b[i].i = 0;
    }
}

static bool wins(const td_reduction *r, td_word x, td_word m)
{
    bool larger = r->fold == TD_FOLD_MAX || r->fold == TD_FOLD_ARGMAX;
    if (!is_float(r)) return larger ? x.i > m.i : x.i < m.i;
    if (m.f != m.f) return false;
    return x.f != x.f || (larger ? x.f > m.f : x.f < m.f);
}

static void merge_var(td_word *a, td_word *b, int64_t na, td_word a2, td_word b2, int64_t nb)
{
    double delta = a2.f - a->f, share = (double)nb / (double)(na + nb);
    a->f += delta * share;
    b->f += b2.f + delta * delta * (double)na * share;
}

static void merge_lse(td_word *a, td_word *b, td_word a2, td_word b2)
{
    double m = a->f != a->f || a->f >= a2.f ? a->f : a2.f;
    b->f = (a->f == m ? b->f : b->f * exp(a->f - m)) + (a2.f == m ? b2.f : b2.f * exp(a2.f - m));
    a->f = m;
}

void td_record_merge(const td_reduction *r, td_word *a, td_word *b, int64_t na, td_word a2, td_word b2, int64_t nb)
{
    bool floats = is_float(r) || is_complex(r);
    switch (r->fold) {
    case TD_FOLD_SUM:
    case TD_FOLD_SQUARES:
        if (floats) a->f += a2.f, b->f += b2.f;
        else a->i = (int64_t)((uint64_t)a->i + (uint64_t)a2.i);
        break;
    case TD_FOLD_PROD:
        if (is_complex(r)) {
            double re = a->f * a2.f - b->f * b2.f;
            b->f = a->f * b2.f + b->f * a2.f;
            a->f = re;
        } else if (floats) {
            a->f *= a2.f;
        } else {
            a->i = (int64_t)((uint64_t)a->i * (uint64_t)a2.i);
        }
        break;
    case TD_FOLD_ANY: a->i |= a2.i; break;
    case TD_FOLD_ALL: a->i &= a2.i; break;
    case TD_FOLD_VAR: merge_var(a, b, na, a2, b2, nb); break;
    case TD_FOLD_LSE:
        if (is_complex(r)) td_isa_now->reduce->row[TD_FOLD_LSE][TD_R_C128](1, (double[]){a2.f, b2.f}, a, b, na);
        else merge_lse(a, b, a2, b2);
        break;
    default: /* extremes, with the index counted on from what was seen */
        if (na == 0 || wins(r, a2, *a)) {
            *a = a2;
            b->i = b2.i + na;
        }
    }
}

/* One result in place of its record. */
static void conclude(const td_reduction *r, td_word *a, td_word *b)
{
    double n = (double)r->ngone, left = n - r->correction;
    switch (r->finish) {
    case TD_FINISH_MEAN:
        a->f /= n;
        b->f /= n;
        break;
    case TD_FINISH_VAR: a->f = b->f / (left > 0 ? left : 0); break;
    case TD_FINISH_STD: a->f = sqrt(b->f / (left > 0 ? left : 0)); break;
    case TD_FINISH_LSE: /* of complex numbers it is there already */
        if (!is_complex(r)) a->f += log(b->f);
        break;
    default: break;
    }
}

void td_record_finish(const td_reduction *r, int64_t first, int64_t n, td_word *a, td_word *b, char *scratch)
{
    for (int64_t i = 0; i < n; i++) conclude(r, &a[i], &b[i]);
    if (r->finish == TD_FINISH_INDEX || r->finish == TD_FINISH_BOTH) {
        int64_t *indices = (int64_t *)(r->finish == TD_FINISH_BOTH ? r->indices : r->out) + first;
        for (int64_t i = 0; i < n; i++) indices[i] = b[i].i;
        if (r->finish == TD_FINISH_INDEX) return;
    }
    char *out = r->out + first * r->out_size;
    const void *from = a;
    if (is_complex(r)) {
        double *pairs = (double *)scratch; /* TD_REDUCE_BATCH complex128 */
        for (int64_t i = 0; i < n; i++) pairs[2 * i] = a[i].f, pairs[2 * i + 1] = b[i].f;
        from = pairs;
    }
    r->store(n, out, &from, NULL);
}
