/* Call sites: "file:line" literals become small numbers, by the address of the text, so that a record carries one word.
 *
 * The table is a cache: a full neighbourhood is overwritten, and the new text is sent again under the same number. */

#include "client/wire/internal.h"
#include <stdlib.h>
#include <string.h>

enum { PROBES = 8 };

/* The slot gets a new text, which goes with this batch. */
static uint32_t set_slot(td_client *c, td_site_slot *s, const char *where)
{
    if (c->sites.nunsent == sizeof c->sites.unsent / sizeof c->sites.unsent[0])
        return 0; /* this once without its place */
    s->text = where;
    s->id = (uint16_t)(s - c->sites.slots + 1);
    s->sent = false;
    c->sites.unsent[c->sites.nunsent++] = (uint16_t)(s - c->sites.slots);
    return s->id;
}

uint32_t td_site(td_client *c, const char *where)
{
    if (!c->sites.slots) {
        c->sites.slots = calloc(TD_SITES, sizeof *c->sites.slots);
        if (!c->sites.slots) return 0;
    }
    uint32_t hash = (uint32_t)(((uintptr_t)where * UINT64_C(0x9E3779B97F4A7C15)) >> 40);
    td_site_slot *victim = NULL;
    for (uint32_t i = 0; i < PROBES; i++) {
        td_site_slot *s = &c->sites.slots[(hash + i) % TD_SITES];
        if (s->text == where) return s->id;
        if (!s->text) return set_slot(c, s, where);
        if (!victim && s->sent) victim = s;
    }
    return victim ? set_slot(c, victim, where) : 0;
}
