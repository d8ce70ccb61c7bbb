/* The numbers of tensors: chosen here, bound by a record, free again behind a RELEASE.
 *
 * An id is used again only after its RELEASE stands in the stream, so the daemon never sees one id for two tensors. */

#include "client/wire/internal.h"
#include <stdlib.h>

void td_free_id(td_client *c, uint32_t id)
{
    if (c->nfree == c->free_capacity) {
        uint32_t capacity = c->free_capacity ? c->free_capacity * 2 : 1024;
        uint32_t *at = realloc(c->free_ids, capacity * sizeof *at);
        if (!at) return; /* the number is lost, nothing else */
        c->free_ids = at;
        c->free_capacity = capacity;
    }
    c->free_ids[c->nfree++] = id;
}

int td_emit_releases(td_client *c)
{
    uint32_t n = c->nreleased;
    if (!n) return TD_OK;
    td_error e;
    int rc = td_words_control(&c->words, TD_REC_RELEASE, 0, 0, (int)n, c->released, 0, NULL, 0, NULL, &e);
    if (rc) return rc;
    for (uint32_t i = 0; i < n; i++) td_free_id(c, c->released[i]);
    c->nreleased = 0;
    c->released_bytes = 0;
    return TD_OK;
}

uint32_t td_take_id(td_client *c)
{
    if (!c->nfree && c->next_id > TD_MAX_ID) td_emit_releases(c);
    if (c->nfree) return c->free_ids[--c->nfree];
    return c->next_id <= TD_MAX_ID ? c->next_id++ : 0;
}

void td_release_id(td_client *c, uint32_t id)
{
    if (c->lost) return;
    if (c->nreleased == TD_RELEASE_BATCH && td_emit_releases(c)) return;
    c->released[c->nreleased++] = id;
    if (c->nreleased == TD_RELEASE_BATCH) td_emit_releases(c);
}
