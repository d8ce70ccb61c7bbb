/* See walk.h. */
#include "daemon/kernels/cuda/walk.h"

static void swap_dims(td_cuda_dims *w, int a, int b)
{
    int64_t n = w->shape[a];
    w->shape[a] = w->shape[b];
    w->shape[b] = n;
    for (int op = 0; op < w->nops; op++) {
        int64_t s = w->stride[op][a];
        w->stride[op][a] = w->stride[op][b];
        w->stride[op][b] = s;
    }
}

static void join(td_cuda_dims *w)
{
    int m = 0;
    for (int i = 1; i < w->ndim; i++) {
        bool joins = true;
        for (int op = 0; op < w->nops; op++) joins &= w->stride[op][i] == w->stride[op][m] * w->shape[m];
        if (joins) {
            w->shape[m] *= w->shape[i];
            continue;
        }
        if (++m != i) swap_dims(w, m, i);
    }
    w->ndim = w->ndim ? m + 1 : 0;
}

void td_cuda_dims_of(td_cuda_dims *w, int nops, const td_desc *const *d)
{
    *w = (td_cuda_dims){.nops = nops, .n = td_desc_numel(d[0])};
    for (int i = d[0]->ndim - 1; i >= 0; i--) {
        if (d[0]->shape[i] == 1) continue;
        w->shape[w->ndim] = d[0]->shape[i];
        for (int op = 0; op < nops; op++) {
            int j = i - (d[0]->ndim - d[op]->ndim);
            w->stride[op][w->ndim] = j < 0 || d[op]->shape[j] == 1 ? 0 : d[op]->stride[j];
        }
        w->ndim++;
    }
    for (int i = 1; i < w->ndim; i++)
        for (int j = i; j > 0 && w->stride[0][j] < w->stride[0][j - 1]; j--) swap_dims(w, j, j - 1);
    join(w);
}
