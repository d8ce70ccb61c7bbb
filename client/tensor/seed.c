/* The random numbers of the stream: their seed, and how many ops have taken some since. */
#include "client/tensor/array.h"

TD_API int td_seed_at(td_client *c, uint64_t seed, uint64_t drawn)
{
    int rc = td_enter(c, "seed");
    if (rc) return rc;
    uint32_t rest[4];
    td_words_put_u64(rest, seed);
    td_words_put_u64(rest + 2, drawn);
    rc = td_control(c, TD_REC_SEED, NULL, 0, NULL, 0, NULL, drawn ? 4 : 2, rest);
    if (!rc) c->tensor.drawn = drawn;
    td_leave(c);
    return rc;
}

TD_API int td_seed(td_client *c, uint64_t seed)
{
    return td_seed_at(c, seed, 0);
}

TD_API uint64_t td_drawn(td_client *c)
{
    if (td_enter(c, "drawn")) return 0;
    uint64_t n = c->tensor.drawn;
    td_leave(c);
    return n;
}
