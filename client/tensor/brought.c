/* See brought.h. */
#include "client/tensor/brought.h"

static bool is_outside(const Td__Wire__Item *from, int k)
{
    return k < 64 ? from->outside >> k & 1 : from->outside_rest;
}

int td_brought_take(td_array *a, int k, const Td__Wire__Item *from, int *fd, td_error *e)
{
    int rc = td_desc_from_wire(from->descs[k], &a->desc, e), none = -1;
    if (rc) return rc;
    if (is_outside(from, k)) a->outside = td_moment(a->client) + 1;
    if ((size_t)k >= from->n_addresses || !from->addresses[k]->segment_size) return TD_OK;
    bool brings = from->addresses[k]->descriptor;
    td_error ignored;
    if (td_adopt_address(a, from->addresses[k], brings ? fd : &none, &ignored)) return TD_OK; /* td_data() will ask */
    a->settled = a->client->out.writes;
    return TD_OK;
}

void td_brought_keep_segments(td_client *c, const Td__Wire__Item *item, int *fd)
{
    int none = -1;
    for (size_t k = 0; k < item->n_addresses; k++) {
        td_error e = {0};
        int32_t mapping;
        unsigned char *bytes;
        if (!item->addresses[k]->segment_size) continue; /* it lies on another device */
        bool brings = item->addresses[k]->descriptor;
        if (!td_map_address(c, item->addresses[k], brings ? fd : &none, &mapping, &bytes, &e))
            td_unuse_mapping(c, mapping);
    }
}
