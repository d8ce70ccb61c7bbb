/* Call sites: where in its program the client was, texts by number. Errors and tables say them. */
#include "daemon/session/stream/stream.h"
#include "proto/base/text.h"

#include <stdlib.h>

void td_session_site(td_session *s, uint32_t site)
{
    s->objects.site = site;
    if (site == s->sites.last) return;
    s->sites.last = site;
    const char *text = site < s->sites.count ? s->sites.texts[site] : NULL;
    size_t n = text ? strlen(text) : 0; /* td_site_set made it short enough */
    memcpy(s->issuer.where, text ? text : "", n + 1);
}

enum { MAX_SITES = 65535 };

/* The table of the texts, up to this id; its places are charged with the texts in them. */
static int make_place(td_session *s, uint32_t id, td_error *e)
{
    uint32_t n = s->sites.count ? s->sites.count : 64;
    if (id < s->sites.count) return TD_OK;
    while (n <= id) n *= 2;
    char **sites = realloc(s->sites.texts, n * sizeof *sites);
    if (!sites) return td_no_memory(e, "for call sites");
    memset(sites + s->sites.count, 0, (n - s->sites.count) * sizeof *sites);
    s->sites.texts = sites;
    uint32_t *renamed = realloc(s->sites.renamed, n * sizeof *renamed);
    if (!renamed) return td_no_memory(e, "for call sites");
    memset(renamed + s->sites.count, 0, (n - s->sites.count) * sizeof *renamed);
    s->sites.renamed = renamed;
    s->sites.count = n;
    return TD_OK;
}

int td_site_set(td_session *s, const Td__Wire__CallSite *c, td_error *e)
{
    if (c->id == 0 || c->id > MAX_SITES)
        return td_fail(e, TD_E_PROTOCOL, "call site %u; they go from 1 to %d", c->id, MAX_SITES);
    if (c->id >= s->sites.count && td_account_room(s->account, 1, NULL)) return TD_OK; /* errors will not say where */
    int rc = make_place(s, c->id, e);
    if (rc) return rc;
    char text[sizeof s->issuer.where]; /* as it will be shown: other programs get it in errors, too */
    td_text_visible(text, sizeof text, c->text ? c->text : "");
    if (!s->sites.texts[c->id]) {
        if (td_account_charge(s->account, 0, 1, NULL)) return TD_OK; /* errors will not say where */
        s->sites.charged++;
    }
    if (s->sites.texts[c->id] && strcmp(s->sites.texts[c->id], text) != 0)
        s->sites.renamed[c->id] = s->objects.now + 1; /* what was bound in this tick may have either text */
    free(s->sites.texts[c->id]);
    s->sites.texts[c->id] = strdup(text);
    s->sites.last = 0;
    return TD_OK;
}
