/* The numbers of tensors: chosen here, bound by a record, free again behind a RELEASE.
 *
 * An id is used again only after its RELEASE stands in the stream, so the daemon never sees one id for two tensors. */

#include "client/wire/internal.h"
#include <stdlib.h>

void td_free_id(td_client *c, uint32_t id)
{
    if (c->ids.nfree == c->ids.free_capacity) {
        uint32_t capacity = c->ids.free_capacity ? c->ids.free_capacity * 2 : 1024;
        uint32_t *at = realloc(c->ids.free, capacity * sizeof *at);
        if (!at) return; /* the number is lost, nothing else */
        c->ids.free = at;
        c->ids.free_capacity = capacity;
    }
    c->ids.free[c->ids.nfree++] = id;
}

int td_emit_releases(td_client *c)
{
    uint32_t n = c->ids.nreleased;
    if (!n) return TD_OK;
    td_error e;
    int rc = td_words_control(&c->out.words, TD_REC_RELEASE, 0, 0, (int)n, c->ids.released, 0, NULL, 0, NULL, &e);
    if (rc) return rc;
    for (uint32_t i = 0; i < n; i++) td_free_id(c, c->ids.released[i]);
    c->ids.nreleased = 0;
    c->ids.untold_bytes += c->ids.released_bytes;
    c->ids.released_bytes = 0;
    return TD_OK;
}

uint32_t td_take_id(td_client *c)
{
    if (!c->ids.nfree && c->ids.next > TD_MAX_ID) td_emit_releases(c);
    if (c->ids.nfree) return c->ids.free[--c->ids.nfree];
    return c->ids.next <= TD_MAX_ID ? c->ids.next++ : 0;
}

void td_release_id(td_client *c, uint32_t id)
{
    if (c->lost) return;
    if (c->ids.nreleased == TD_RELEASE_BATCH && td_emit_releases(c)) return;
    c->ids.released[c->ids.nreleased++] = id;
    if (c->ids.nreleased == TD_RELEASE_BATCH) td_emit_releases(c);
}
