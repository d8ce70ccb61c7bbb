// tensord.h in C++: every kind of argument, against a real daemon when one is named; else it is enough that it compiles.
#include "client/tensord.h"

#include <cstdio>
#include <cstdlib>

int main()
{
    td_client *c = td_connect(nullptr);
    if (!c) {
        std::fprintf(stderr, "%s\n", td_last_error()->message);
        return 1;
    }
    td_scope scope;
    td_scope_begin(&scope);
    td_array *x = td_full(c, td_dims(2, 3), 1.5, TD_FLOAT32), *rows[2];
    int64_t n = 3;
    td_array *y = td_add(td_mul(x, 2), td_reshape(td_ones(c, td_dims(n), TD_FLOAT32), td_dims(1, -1)));
    td_array *z = td_cat(td_arrays(y, td_sub(1, y, td_int(2)), td_where(td_gt(y, 0), y, false)), 1);
    td_array *w = td_clamp(z, td_none(), 2.5f);
    td_release(td_add(td_add(z, 2.5L), 2ULL));
    int made = td_unbind(x, 2, rows);
    float v[18] = {};
    if (td_read(w, v, sizeof v)) std::fprintf(stderr, "%s\n", td_last_error()->message);
    bool ok = made == 2 && v[0] == 2.5f && v[3] == -7 && v[17] == 2.5f;
    std::printf("suite client_cxx: %d passed, %d failed, 0 skipped\n", ok, !ok);
    td_scope_end(&scope);
    td_disconnect(c);
    return ok ? 0 : 1;
}
