/* LAPACK, as OpenBLAS has it, and what all kernels over it share: private copies of matrices, and plans that give each
 * chunk some matrices.
 *
 * Invariant: LAPACK reads and writes scratch only. Other processes may rewrite a tensor's bytes meanwhile, and what it
 * computes decides where it goes on; so each matrix is copied once, by columns as LAPACK wants it, and looked at there
 * (for NaN, where LAPACK would not come to an end). It takes 32-bit sizes: larger matrices are refused by the plan. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_FACTORS_LAPACK_H
#define TENSORD_DAEMON_KERNELS_CPU_FACTORS_LAPACK_H

#include "daemon/kernels/cpu/plan.h"

typedef const char *td_lc; /* arguments of one letter; their lengths come last */
typedef const int *td_li;

/* F(name, suffix of the real routines, of the complex ones, arguments). All of them are addresses, so one type serves
 * float32, float64, complex64 and complex128. */
#define TD_LAPACK_FUNCTIONS(F)                                                                                         \
    F(gemm, gemm, gemm,                                                                                                \
      (td_lc ta, td_lc tb, td_li m, td_li n, td_li k, const void *alpha, const void *a, td_li lda, const void *b,      \
       td_li ldb, const void *beta, void *c, td_li ldc, size_t, size_t))                                               \
    F(trsm, trsm, trsm,                                                                                                \
      (td_lc side, td_lc uplo, td_lc trans, td_lc diag, td_li m, td_li n, const void *alpha, const void *a, td_li lda, \
       void *b, td_li ldb, size_t, size_t, size_t, size_t))                                                            \
    F(potrf, potrf, potrf, (td_lc uplo, td_li n, void *a, td_li lda, int *info, size_t))                               \
    F(getrf, getrf, getrf, (td_li m, td_li n, void *a, td_li lda, int *pivots, int *info))                             \
    F(getrs, getrs, getrs,                                                                                             \
      (td_lc trans, td_li n, td_li nrhs, const void *a, td_li lda, td_li pivots, void *b, td_li ldb, int *info,        \
       size_t))                                                                                                        \
    F(getri, getri, getri, (td_li n, void *a, td_li lda, td_li pivots, void *work, td_li lwork, int *info))            \
    F(sytrf, sytrf, sytrf,                                                                                             \
      (td_lc uplo, td_li n, void *a, td_li lda, int *pivots, void *work, td_li lwork, int *info, size_t))              \
    F(hetrf, sytrf, hetrf,                                                                                             \
      (td_lc uplo, td_li n, void *a, td_li lda, int *pivots, void *work, td_li lwork, int *info, size_t))              \
    F(sytrs, sytrs, sytrs,                                                                                             \
      (td_lc uplo, td_li n, td_li nrhs, const void *a, td_li lda, td_li pivots, void *b, td_li ldb, int *info,         \
       size_t))                                                                                                        \
    F(hetrs, sytrs, hetrs,                                                                                             \
      (td_lc uplo, td_li n, td_li nrhs, const void *a, td_li lda, td_li pivots, void *b, td_li ldb, int *info,         \
       size_t))                                                                                                        \
    F(geqrf, geqrf, geqrf, (td_li m, td_li n, void *a, td_li lda, void *tau, void *work, td_li lwork, int *info))      \
    F(orgqr, orgqr, ungqr,                                                                                             \
      (td_li m, td_li n, td_li k, void *a, td_li lda, const void *tau, void *work, td_li lwork, int *info))

/* Those that take real work memory beside, for complex numbers: two types. */
#define TD_LAPACK_SPLIT(F)                                                                                             \
    F(gesdd, gesdd, gesdd,                                                                                             \
      (td_lc job, td_li m, td_li n, void *a, td_li lda, void *s, void *u, td_li ldu, void *vt, td_li ldvt, void *work, \
       td_li lwork, int *iwork, int *info, size_t),                                                                    \
      (td_lc job, td_li m, td_li n, void *a, td_li lda, void *s, void *u, td_li ldu, void *vt, td_li ldvt, void *work, \
       td_li lwork, void *rwork, int *iwork, int *info, size_t))                                                       \
    F(syevd, syevd, heevd,                                                                                             \
      (td_lc job, td_lc uplo, td_li n, void *a, td_li lda, void *w, void *work, td_li lwork, int *iwork, td_li liwork, \
       int *info, size_t, size_t),                                                                                     \
      (td_lc job, td_lc uplo, td_li n, void *a, td_li lda, void *w, void *work, td_li lwork, void *rwork,              \
       td_li lrwork, int *iwork, td_li liwork, int *info, size_t, size_t))                                             \
    F(geev, geev, geev,                                                                                                \
      (td_lc jobl, td_lc jobr, td_li n, void *a, td_li lda, void *wr, void *wi, void *vl, td_li ldvl, void *vr,        \
       td_li ldvr, void *work, td_li lwork, int *info, size_t, size_t),                                                \
      (td_lc jobl, td_lc jobr, td_li n, void *a, td_li lda, void *w, void *vl, td_li ldvl, void *vr, td_li ldvr,       \
       void *work, td_li lwork, void *rwork, int *info, size_t, size_t))                                               \
    F(gelsy, gelsy, gelsy,                                                                                             \
      (td_li m, td_li n, td_li nrhs, void *a, td_li lda, void *b, td_li ldb, int *jpvt, const void *rcond, int *rank,  \
       void *work, td_li lwork, int *info),                                                                            \
      (td_li m, td_li n, td_li nrhs, void *a, td_li lda, void *b, td_li ldb, int *jpvt, const void *rcond, int *rank,  \
       void *work, td_li lwork, void *rwork, int *info))                                                               \
    F(gelsd, gelsd, gelsd,                                                                                             \
      (td_li m, td_li n, td_li nrhs, void *a, td_li lda, void *b, td_li ldb, void *s, const void *rcond, int *rank,    \
       void *work, td_li lwork, int *iwork, int *info),                                                                \
      (td_li m, td_li n, td_li nrhs, void *a, td_li lda, void *b, td_li ldb, void *s, const void *rcond, int *rank,    \
       void *work, td_li lwork, void *rwork, int *iwork, int *info))

/* By type of number: float32, float64, complex64, complex128. */
typedef struct td_lapack {
#define F(name, real, complex, args) void(*name[4]) args;
    TD_LAPACK_FUNCTIONS(F)
#undef F
#define F(name, real, complex, real_args, complex_args)                                                                \
    void(*name[2]) real_args;                                                                                          \
    void(*c##name[2]) complex_args;
    TD_LAPACK_SPLIT(F)
#undef F
} td_lapack;

/* As td_blas(). */
const td_lapack *td_lapack_table(td_error *e);

/* ---- plans */

typedef struct td_matrices td_matrices;
/* Work on matrix b: load, call, store. */
typedef void td_matrix_fn(td_kcall *k, const td_matrices *s, int64_t b, char *scratch);

struct td_matrices {
    const td_lapack *f;
    td_matrix_fn *one;
    int64_t batch, per; /* matrices, of a chunk */
    int type;           /* 0..3, as in td_lapack */
    int size, real;     /* bytes of a number, of its real part */
    int m, n, k, nrhs;  /* of a matrix: rows, columns, the smaller; columns of the other */
    int lwork, lrwork, liwork;
    bool flag[3];
    size_t at[10]; /* places in the scratch of a chunk */
};

/* Begin a plan over the matrices of input i, `batch` of them. NULL: it is refused. */
td_matrices *td_matrices_plan(td_kcall *k, int i, int64_t batch, td_matrix_fn *one, td_error *e);
/* Scratch for so many numbers, real numbers, or ints; gives the place. */
size_t td_matrices_room(td_kcall *k, int64_t count, size_t size);
/* Divide and conquer reckons with multiples of a matrix in 32 bits: may it take one of rows by columns? */
bool td_matrices_divide(int64_t rows, int64_t columns, td_error *e);
/* End it: `flops` multiplications for each matrix. */
int td_matrices_end(td_kcall *k, double flops, td_error *e);

/* How many matrices a descriptor has, or vectors: the product of the sizes before the last `trail`. */
int64_t td_batch_of(const td_desc *d, int trail);
/* Copy matrix b (of the batch of `like`, to which that of the argument broadcasts) to columns, `ld` numbers apart. A
 * vector (columns 0 in `trail` 1) is one column. */
void td_matrix_load(void *to, int ld, const td_karg *from, int trail, const td_desc *like, int like_trail, int64_t b);
/* The same of a result, which is contiguous: `rows` by `columns` from columns that are `ld` apart. */
void td_matrix_store(const td_karg *to, int64_t b, const void *from, int ld, int64_t rows, int64_t columns);
/* Are all real numbers finite? `count` of numbers of this type. */
bool td_numbers_finite(int type, const void *p, int64_t count);
/* Zero the triangle that is not read, above the diagonal or below it. */
void td_matrix_clear(const td_matrices *s, void *a, int rows, int columns, bool above);
/* The call fails: LAPACK would look for an end among numbers that have none. */
void td_fail_not_finite(td_kcall *k, int64_t b);
/* The call fails: `info` is how LAPACK says so. */
void td_fail_to_converge(td_kcall *k, int64_t b, int info);
/* Ones on the diagonal, zeros elsewhere. */
void td_matrix_eye(const td_matrices *s, void *a, int rows, int columns);
/* "(Batch element 3): ", or nothing where there is one matrix without a batch. */
const char *td_batch_text(const td_desc *x, int64_t b, char *buffer, size_t size);

/* 1, 0 and -1 as numbers of any type: the real part, then zero. */
const void *td_lapack_number(int type, int value);

static inline int td_ld(int rows)
{
    return rows > 0 ? rows : 1;
}
static inline char *td_number_at(const td_matrices *s, void *a, int ld, int row, int column)
{
    return (char *)a + ((int64_t)column * ld + row) * s->size;
}
static inline double td_real_at(int type, const void *p, int64_t i)
{
    return type % 2 ? ((const double *)p)[i] : ((const float *)p)[i];
}
static inline void td_real_put(int type, void *p, int64_t i, double v)
{
    if (type % 2) ((double *)p)[i] = v;
    else ((float *)p)[i] = (float)v;
}

#endif
