/* Checkpoints: the stream says in which region its ops are, wherever that changes from one record to the next.
 *
 * A region is a thread's own. Threads that use one client share its stream, so each op of one that is in another region
 * than the last is preceded by a record that says so. */
#include "client/tensor/array.h"

TD_API int td_checkpoint_begin(td_client *c)
{
    int rc = td_enter(c, "checkpoint");
    if (rc) return rc;
    td_within *in = &td_in_region;
    uint32_t rest[2] = {++c->grad.regions ? c->grad.regions : ++c->grad.regions, td_region_of(c)};
    if (in->depth && in->client != c)
        rc = td_raise(TD_E_INVALID, "checkpoint", "this thread is in a checkpoint of another client");
    else if (in->depth == TD_CHECKPOINT_DEPTH)
        rc = td_raise(TD_E_INVALID, "checkpoint", "checkpoints lie %d deep in each other; no more", in->depth);
    else rc = td_control(c, TD_REC_REGION, NULL, 0, NULL, 0, NULL, 2, rest);
    if (!rc) {
        in->client = c;
        in->id[in->depth++] = c->out.region = rest[0];
    }
    td_leave(c);
    return rc;
}

TD_API int td_checkpoint_end(td_client *c)
{
    td_within *in = &td_in_region;
    if (!in->depth || in->client != c)
        return td_raise(TD_E_INVALID, "checkpoint", "this thread is in no checkpoint of the client");
    uint32_t id = in->id[--in->depth];
    int rc = td_enter(c, "checkpoint");
    if (rc) return rc;
    if (c->out.region == id) c->out.region = 0;
    rc = td_control(c, TD_REC_REGION_END, NULL, 0, NULL, 0, NULL, 1, &id);
    td_leave(c);
    return rc;
}
