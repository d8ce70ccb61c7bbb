/* Kernels that read and write through several index tensors together. An index is loaded once, checked, used; a negative one counts from the end. What is
 * written goes in the order of the positions, by one thread for each place that is kept, so that no two runs differ. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_INDEX_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_INDEX_CUH

#include "daemon/kernels/cuda/args_index.h"
#include "daemon/kernels/cuda/device/move_one.cuh"
#include "daemon/kernels/cuda/device/fault.cuh"

/* Where position j leads to, and where its value is. False: an index is out of range. */
TD_FN bool td_index_at(const td_ca_index &a, int64_t j, int64_t *at, int64_t *value)
{
    int64_t place[TD_CUDA_INDICES] = {0}, rest = j;
    for (int d = 0; d < a.ndim; d++) {
        const int64_t q = td_quotient(rest, a.shape[d]), c = rest - q * a.shape[d];
        for (int i = 0; i < a.count; i++) place[i] += c * a.idx_stride[i][d];
        *value += c * a.value_stride[d];
        rest = q;
    }
    for (int i = 0; i < a.count; i++) {
        const int64_t index = td_load<int64_t>(a.idx[i], place[i], a.idx_dtype[i]), own = index < 0 ? index + a.size[i] : index;
        if (own < 0 || own >= a.size[i]) {
            td_bad_index(a.error, i * a.n + j, index);
            return false;
        }
        *at += own * a.step[i];
    }
    return true;
}
/* Of a place that is kept. */
TD_FN void td_kept_at(const td_ca_index &a, int64_t before, int64_t after, int64_t *at, int64_t *value)
{
    for (int d = 0; d < a.nkept; d++) {
        int64_t *rest = d < a.nafter ? &after : &before;
        const int64_t q = td_quotient(*rest, a.kept[d]), c = *rest - q * a.kept[d];
        *at += c * a.stride[d];
        *value += c * a.kept_value[d];
        *rest = q;
    }
}

TD_KERNEL(index_read, td_ca_index)
{
    TD_GRID(i, a.before * a.n * a.after)
    {
        const int64_t row = td_quotient(i, a.after), before = td_quotient(row, a.n);
        int64_t at = 0, value = 0;
        td_kept_at(a, before, i - row * a.after, &at, &value);
        if (!td_index_at(a, row - before * a.n, &at, &value)) return;
        td_move_element(a.out, i, a.x, at, a.bytes);
    }
}
/* Nothing is written when one of the indices is out of range. */
TD_KERNEL(index_check, td_ca_index)
{
    TD_GRID(j, a.n)
    {
        int64_t at = 0, value = 0;
        td_index_at(a, j, &at, &value);
    }
}
struct td_index_set {
    TD_FN void put(const td_ca_index &a, int64_t at, int64_t value)
    {
        td_move_element(a.out, at, a.x, value, a.bytes);
    }
};
template <class T> struct td_index_add {
    TD_FN void put(const td_ca_index &a, int64_t at, int64_t value)
    {
        td_store<T>(a.out, at, a.dtype, td_load<T>(a.out, at, a.dtype) + td_load<T>(a.x, value, a.dtype));
    }
};
template <class P> TD_FN void td_index_write(const td_ca_index &a)
{
    if (*a.error) return;
    TD_GRID(line, a.before * a.after)
    {
        const int64_t before = td_quotient(line, a.after);
        int64_t at = 0, value = 0;
        td_kept_at(a, before, line - before * a.after, &at, &value);
        for (int64_t j = 0; j < a.n; j++) {
            int64_t to = at, from = value;
            if (!td_index_at(a, j, &to, &from)) return;
            P::put(a, to, from);
        }
    }
}
TD_KERNEL(index_set, td_ca_index)
{
    td_index_write<td_index_set>(a);
}
TD_KERNEL(index_add_f32, td_ca_index)
{
    td_index_write<td_index_add<float>>(a);
}
TD_KERNEL(index_add_f64, td_ca_index)
{
    td_index_write<td_index_add<double>>(a);
}
TD_KERNEL(index_add_i64, td_ca_index)
{
    td_index_write<td_index_add<uint64_t>>(a);
}

#endif
