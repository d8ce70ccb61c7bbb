/* Arrays of others whose elements lie on top of each other, as those of broadcast_to(), expand() and sliding windows:
 * what is in memory is copied once, and the tensor looks at it as they do. Written out, one number could be a gigabyte.
 *
 * Strides are in elements. Ours are never negative: of what goes backwards only the dimensions without a step are not
 * written out. (tensord/core/_overlapping.py says the same to pickle.) */
#include "client/python/src/py.h"

#include <stdlib.h>
#include <string.h>

void tdpy_pack_rows(const void *at, size_t item, td_ints shape, const int64_t *strides, unsigned char *out)
{
    const unsigned char *base = at;
    int64_t index[TD_MAX_DIMS] = {0}, offset = 0, n = 1;
    for (int k = 0; k < shape.n; k++) n *= shape.at[k];
    for (; n > 0; n--, out += item) {
        memcpy(out, base + offset * (int64_t)item, item);
        for (int k = shape.n - 1; k >= 0; k--) {
            offset += strides[k];
            if (++index[k] < shape.at[k]) break;
            offset -= shape.at[k] * strides[k];
            index[k] = 0;
        }
    }
}

typedef struct span {
    int64_t core[TD_MAX_DIMS]; /* the shape, with 1 in dimensions without a step */
    int64_t written;           /* its elements, ... */
    int64_t reach;             /* ... and those from the first to the last, where none goes backwards; or INT64_MAX */
    bool less;                 /* either are fewer than the array has */
} span;

static bool times(int64_t *n, int64_t by)
{
    return !__builtin_mul_overflow(*n, by, n);
}

static span span_of(td_ints shape, const int64_t *strides)
{
    span s = {.written = 1, .reach = 1};
    int64_t all = 1;
    bool fits = true; /* an array may say that it has more elements than there are numbers, where each is the same */
    for (int k = 0; k < shape.n; k++) {
        int64_t n = shape.at[k], step = 0;
        if (n < 1) return (span){0};
        s.core[k] = strides[k] ? n : 1;
        if (!times(&s.written, s.core[k])) return (span){0};
        fits = fits && times(&all, n);
        if (strides[k] < 0 && n > 1) s.reach = INT64_MAX;
        if (s.reach == INT64_MAX) continue;
        step = s.core[k] - 1;
        if (!times(&step, strides[k]) || __builtin_add_overflow(s.reach, step, &s.reach)) s.reach = INT64_MAX;
    }
    s.less = !fits || s.written < all || s.reach < all;
    return s;
}

/* All from the first to the last element, or the rows of the core: flat. */
static td_array *copy_flat(td_client *c, const void *at, td_dtype dtype, const span *s, int ndim,
                           const int64_t *strides)
{
    if (s->reach <= s->written) return td_from_data(c, dtype, td_dims(s->reach), at);
    size_t item = td_dtype_size(dtype), size;
    bool fits = !__builtin_mul_overflow((size_t)s->written, item, &size);
    unsigned char *rows = fits ? malloc(size) : NULL;
    if (!rows) return PyErr_NoMemory(), NULL;
    tdpy_pack_rows(at, item, td_dims_of(ndim, s->core), strides, rows);
    td_array *flat = td_from_data(c, dtype, td_dims(s->written), rows);
    free(rows);
    return flat;
}

bool tdpy_copy_span(const void *at, td_dtype dtype, td_ints shape, const int64_t *strides, td_array **out)
{
    span s = span_of(shape, strides);
    *out = NULL;
    if (!s.less) return false;
    if (!tdpy_settle_handed(at)) return true;
    td_client *c = tdpy_client();
    if (!c) return true;
    int before = td_set_device(TD_CPU);
    bool was = td_set_grad_enabled(false);
    td_array *flat = copy_flat(c, at, dtype, &s, shape.n, strides);
    if (flat) {
        int64_t steps[TD_MAX_DIMS], n = 1;
        bool whole = s.reach <= s.written;
        for (int k = shape.n - 1; k >= 0; n *= s.core[k--]) steps[k] = s.core[k] == 1 ? 0 : whole ? strides[k] : n;
        *out = td_at_as_strided(NULL, flat, shape, td_dims_of(shape.n, steps), td_desc_known(flat)->offset);
    }
    td_release(flat);
    td_set_grad_enabled(was);
    td_set_device(before);
    return true;
}
