/* Decompositions by singular values and by eigenvalues in the scratch of a chunk, for who makes more of them. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_FACTORS_SPECTRAL_H
#define TENSORD_DAEMON_KERNELS_CPU_FACTORS_SPECTRAL_H

#include "daemon/kernels/cpu/factors/lapack.h"

/* Places in the scratch: the matrix (later: eigenvectors), singular values or eigenvalues, vectors, work memory. */
typedef struct td_svd_rooms {
    size_t a, s, u, vt, work, rwork, iwork;
} td_svd_rooms;

/* Reserve them. `job` as LAPACK has it: 'A' all vectors, 'S' as many as values, 'N' none. False: it is refused. */
bool td_svd_plan(td_kcall *k, td_matrices *s, char job, td_svd_rooms *at, td_error *e);
bool td_eigh_plan(td_kcall *k, td_matrices *s, bool vectors, td_svd_rooms *at, td_error *e);
/* Of matrix b of input 0. False: the call has failed. */
bool td_svd_run(td_kcall *k, const td_matrices *s, char job, const td_svd_rooms *at, int64_t b, char *scratch);
bool td_eigh_run(td_kcall *k, const td_matrices *s, bool vectors, bool upper, const td_svd_rooms *at, int64_t b,
                 char *scratch);

#endif
