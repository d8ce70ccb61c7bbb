/* See lapack.h. */
#include "daemon/kernels/cpu/factors/lapack.h"
#include "daemon/kernels/cpu/blas.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>

static td_lapack table;
static char problem[120];

static void *find(char letter, const char *name)
{
    char symbol[32];
    snprintf(symbol, sizeof symbol, "%c%s_", letter, name);
    void *f = td_blas_find(symbol);
    if (!f && !problem[0]) snprintf(problem, sizeof problem, "this OpenBLAS has no LAPACK (%s)", symbol);
    return f;
}

static void fill_table(void)
{
#define F(name, real, complex, args)                                                                                   \
    for (int t = 0; t < 4; t++)                                                                                        \
        *(void **)&table.name[t] = find(                                                                               \
            "sdcz" [t], (const char *[]) { #real, #complex }[t / 2]);
    TD_LAPACK_FUNCTIONS(F)
#undef F
#define F(name, real, complex, real_args, complex_args)                                                                \
    for (int t = 0; t < 2; t++) {                                                                                      \
        *(void **)&table.name[t] = find("sd"[t], #real);                                                               \
        *(void **)&table.c##name[t] = find("cz"[t], #complex);                                                         \
    }
    TD_LAPACK_SPLIT(F)
#undef F
}

const td_lapack *td_lapack_table(td_error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!td_blas(e)) return NULL;
    pthread_once(&once, fill_table);
    if (!problem[0]) return &table;
    td_fail(e, TD_E_UNSUPPORTED, "%s", problem);
    return NULL;
}

/* ---- plans */

/* Multiplications of one matrix, about: LAPACK does not rest, so this is how long a worker may be away (minutes). */
#define LONGEST 0x1p40
/* From so many on (some 30 ms) a call is lasting. */
#define LASTS 0x1p26

static void run_matrices(td_kcall *k, int64_t chunk, void *scratch)
{
    const td_matrices *s = (const td_matrices *)k->state;
    int64_t b, e;
    td_cut_range(s->batch, s->per, chunk, &b, &e);
    for (int64_t i = b; i < e; i++) {
        if (i > b && td_kernel_rest(k)) return;
        s->one(k, s, i, scratch);
    }
}

td_matrices *td_matrices_plan(td_kcall *k, int i, int64_t batch, td_matrix_fn *one, td_error *e)
{
    const td_desc *x = k->in[i].desc;
    const td_lapack *f = td_lapack_table(e);
    _Static_assert(sizeof(td_matrices) <= TD_KSTATE_BYTES, "the state has room for it");
    if (!f) return NULL;
    int64_t m = x->shape[x->ndim - 2], n = x->shape[x->ndim - 1];
    if (m > INT32_MAX / 2 || n > INT32_MAX / 2 || m * n > INT32_MAX / 2) {
        td_fail(e, TD_E_UNSUPPORTED, "a matrix of %lld by %lld is more than the %d elements that LAPACK counts to",
                (long long)m, (long long)n, INT32_MAX / 2);
        return NULL;
    }
    td_matrices *s = (td_matrices *)k->state;
    *s = (td_matrices){.f = f, .one = one, .batch = batch, .type = x->dtype - TD_FLOAT32};
    s->size = (int)td_dtype_size(x->dtype), s->real = (int)td_dtype_size(td_dtype_real(x->dtype));
    s->m = (int)m, s->n = (int)n, s->k = (int)td_min64(m, n);
    return s;
}

size_t td_matrices_room(td_kcall *k, int64_t count, size_t size)
{
    size_t at = (k->scratch_bytes + 63) & ~(size_t)63;
    k->scratch_bytes = at + (size_t)td_max64(count, 1) * size;
    return at;
}

bool td_matrices_divide(int64_t rows, int64_t columns, td_error *e)
{
    const int64_t most = INT32_MAX / 16; /* of each: beside none of one there may be very many of the other */
    if (rows <= most && columns <= most && rows * columns <= most) return true;
    td_fail(e, TD_E_UNSUPPORTED,
            "a matrix of %lld by %lld is more than the %d elements that this factorization counts to", (long long)rows,
            (long long)columns, (int)most);
    return false;
}

int td_matrices_end(td_kcall *k, double flops, td_error *e)
{
    td_matrices *s = (td_matrices *)k->state;
    if (flops > LONGEST)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "matrices of %d by %d take too long on the CPU, where one is not stopped on its way", s->m,
                       s->n);
    k->lasting = flops > LASTS;
    double moved = 4.0 * s->m * s->n + 64, all = flops + moved;
    s->per = all > TD_MATRIX_CHUNK ? 1 : (int64_t)(TD_MATRIX_CHUNK / all);
    td_plan_phase(k, run_matrices, td_cut(s->batch, s->per));
    k->cost_ns += (double)s->batch * (300 + all * (s->type > 1 ? 1.5 : 0.5));
    td_plan_moves_freely(k, sizeof *s);
    return TD_OK;
}

/* ---- copies */

int64_t td_batch_of(const td_desc *d, int trail)
{
    int64_t n = 1;
    for (int i = 0; i < d->ndim - trail; i++) n *= d->shape[i];
    return n;
}

static const char *matrix_of(const td_karg *a, int trail, const td_desc *like, int like_trail, int64_t b)
{
    const td_desc *d = a->desc;
    int64_t at = 0;
    for (int i = like->ndim - like_trail - 1, j = d->ndim - trail - 1; j >= 0; i--, j--) {
        if (d->shape[j] != 1) at += b % like->shape[i] * d->stride[j];
        b /= like->shape[i];
    }
    return (const char *)a->data + at * (int64_t)td_dtype_size(d->dtype);
}

/* Rows by columns of T, in squares that stay in the first cache: to[i * ti + j * tj] = from[i * fi + j * fj]. */
#define COPY(name, T)                                                                                                  \
    static void name(T *restrict to, int64_t ti, int64_t tj, const T *restrict from, int64_t fi, int64_t fj,           \
                     int64_t rows, int64_t columns)                                                                    \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r += TD_MATRIX_TILE)                                                             \
            for (int64_t c = 0; c < columns; c += TD_MATRIX_TILE)                                                      \
                for (int64_t j = c; j < columns && j < c + TD_MATRIX_TILE; j++)                                        \
                    for (int64_t i = r; i < rows && i < r + TD_MATRIX_TILE; i++)                                       \
                        to[i * ti + j * tj] = from[i * fi + j * fj];                                                   \
    }
typedef struct two_words {
    uint64_t word[2];
} two_words;
COPY(copy4, uint32_t)
COPY(copy8, uint64_t)
COPY(copy16, two_words)

static void copy(size_t size, void *to, int64_t ti, int64_t tj, const void *from, int64_t fi, int64_t fj, int64_t rows,
                 int64_t columns)
{
    if (size == 4) copy4(to, ti, tj, from, fi, fj, rows, columns);
    else if (size == 8) copy8(to, ti, tj, from, fi, fj, rows, columns);
    else copy16(to, ti, tj, from, fi, fj, rows, columns);
}

void td_matrix_load(void *to, int ld, const td_karg *from, int trail, const td_desc *like, int like_trail, int64_t b)
{
    const td_desc *d = from->desc;
    int row = d->ndim - trail, column = row + 1;
    bool vector = trail == 1;
    if (d->shape[row] == 0 || (!vector && d->shape[column] == 0)) return;
    copy(td_dtype_size(d->dtype), to, 1, ld, matrix_of(from, trail, like, like_trail, b), d->stride[row],
         vector ? 0 : d->stride[column], d->shape[row], vector ? 1 : d->shape[column]);
}

void td_matrix_store(const td_karg *to, int64_t b, const void *from, int ld, int64_t rows, int64_t columns)
{
    size_t size = td_dtype_size(to->desc->dtype);
    char *at = (char *)to->data + b * rows * columns * (int64_t)size;
    if (rows && columns) copy(size, at, columns, 1, from, 1, ld, rows, columns);
}

bool td_numbers_finite(int type, const void *p, int64_t count)
{
    double sum = 0; /* stays 0 but for what is infinite or NaN */
    if (type > 1) count *= 2;
    if (type % 2)
        for (int64_t i = 0; i < count; i++) sum += ((const double *)p)[i] * 0;
    else
        for (int64_t i = 0; i < count; i++) sum += (double)(((const float *)p)[i] * 0);
    return sum == 0;
}

void td_matrix_clear(const td_matrices *s, void *a, int rows, int columns, bool above)
{
    for (int j = 0; j < columns; j++) {
        int from = above ? 0 : j + 1, to = above ? (j < rows ? j : rows) : rows;
        if (to > from) memset(td_number_at(s, a, td_ld(rows), from, j), 0, (size_t)(to - from) * (size_t)s->size);
    }
}

void td_matrix_eye(const td_matrices *s, void *a, int rows, int columns)
{
    memset(a, 0, (size_t)rows * (size_t)columns * (size_t)s->size);
    for (int j = 0; j < columns && j < rows; j++)
        memcpy(td_number_at(s, a, td_ld(rows), j, j), td_lapack_number(s->type, 1), (size_t)s->size);
}

const char *td_batch_text(const td_desc *x, int64_t b, char *buffer, size_t size)
{
    if (x->ndim > 2) snprintf(buffer, size, "(Batch element %lld): ", (long long)b);
    else buffer[0] = 0;
    return buffer;
}

void td_fail_not_finite(td_kcall *k, int64_t b)
{
    char text[64];
    td_kernel_fail(k, TD_E_LINALG,
                   "%sThe algorithm failed to converge because the input matrix contained non-finite values.",
                   td_batch_text(k->in[0].desc, b, text, sizeof text));
}

void td_fail_to_converge(td_kcall *k, int64_t b, int info)
{
    char text[64];
    td_kernel_fail(k, TD_E_LINALG,
                   "%sThe algorithm failed to converge because the input matrix is ill-conditioned or has too many "
                   "repeated singular values or eigenvalues (error code: %d).",
                   td_batch_text(k->in[0].desc, b, text, sizeof text), info);
}

const void *td_lapack_number(int type, int value)
{
    static const float single[3][2] = {{-1, 0}, {0, 0}, {1, 0}};
    static const double both[3][2] = {{-1, 0}, {0, 0}, {1, 0}};
    return type % 2 ? (const void *)both[value + 1] : (const void *)single[value + 1];
}
