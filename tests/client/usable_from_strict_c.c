/* Not run: that this compiles, with what strict programs warn of as errors, is the test. Calls nest, lists are made of
 * sizes and bytes, and all forms of the macros are met. */
#include "client/tensord.h"

int td_test_strict(td_array *x, td_array *y, size_t n, uint8_t k);

int td_test_strict(td_array *x, td_array *y, size_t n, uint8_t k)
{
    td_array *z = td_add(td_mul(x, td_sub(y, 2)), 2.5);
    td_array *s = td_sum(z, td_dims(0, 1), true);
    td_array *q = td_reshape(s, td_dims((int64_t)n, k));
    td_array *p = td_sum(td_cat(td_arrays(z, q, td_clamp(s, td_none(), td_add(y, k))), 0));
    return td_dims().n + td_backward(p);
}
