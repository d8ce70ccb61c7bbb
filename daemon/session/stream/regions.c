/* The regions that a session has open: what their ops make is made again for a backward (daemon/autograd).
 *
 * The threads of one client share its stream, and may each be in a region of their own; so the stream says which one
 * it is in wherever that changes. */
#include "daemon/session/stream/stream.h"

#include <stdlib.h>

enum { MOST = 256 };

static td_open_region **find(td_session *s, uint32_t id)
{
    td_open_region **p = &s->graph.regions;
    while (*p && (*p)->id != id) p = &(*p)->next;
    return p;
}

static int open_region(td_session *s, uint32_t id, uint32_t parent, td_error *e)
{
    td_open_region *within = parent ? *find(s, parent) : NULL;
    if (parent && !within) return td_fail(e, TD_E_NOT_FOUND, "there is no checkpoint %u for one to lie in", parent);
    if (s->graph.nregions == MOST)
        return td_fail(e, TD_E_INVALID, "%d checkpoints are open already, in all threads together", MOST);
    td_open_region *o = malloc(sizeof *o);
    if (!o) return td_no_memory(e, "for a checkpoint");
    *o = (td_open_region){s->graph.regions, id, td_region_new(within ? within->region : NULL, s->account, e)};
    if (!o->region) {
        free(o);
        return e->code;
    }
    s->graph.regions = o;
    s->graph.nregions++;
    return TD_OK;
}

int td_session_region(td_session *s, const td_record *r, td_error *e)
{
    uint32_t id = r->rest[0];
    s->issuer.region = NULL;
    if (!id) return TD_OK;
    int rc = *find(s, id) ? TD_OK : open_region(s, id, r->rest[1], e);
    if (!rc) s->issuer.region = (*find(s, id))->region;
    return rc;
}

static void close_region(td_session *s, td_open_region **at)
{
    td_open_region *o = *at;
    *at = o->next;
    s->graph.nregions--;
    if (s->issuer.region == o->region) s->issuer.region = NULL;
    td_region_close(o->region);
    td_region_unref(o->region);
    free(o);
}

int td_session_region_end(td_session *s, const td_record *r, td_error *e)
{
    td_open_region **at = find(s, r->rest[0]);
    if (!*at) return td_fail(e, TD_E_NOT_FOUND, "there is no checkpoint %u to end", r->rest[0]);
    close_region(s, at);
    return TD_OK;
}

void td_session_regions_drop(td_session *s)
{
    while (s->graph.regions) close_region(s, &s->graph.regions);
}
