/* Private mappings: for who may only read a tensor, and knows no read-only memory (torch).
 *
 * Each is of one tensor's pages, and its own. A page that was written no longer follows what the daemon writes, and may
 * hold parts of other tensors; so no mapping is ever used for a second tensor, nor for another reader. The segment's
 * descriptor is kept from the first of them on, as long as the segment is mapped. */
#include "client/tensor/internal.h"
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int on_descriptor(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    td_mapping *m = &c->memory.mappings[((const td_array *)w->context)->mapping];
    if (!r->address || r->address->segment != m->segment || r->address->generation != m->generation)
        return td_fail(e, TD_E_PROTOCOL, "the address of another segment came");
    if (*fd < 0) return td_no_descriptor(m->segment, e);
    m->reader = fcntl(*fd, F_DUPFD_CLOEXEC, 3);
    if (m->reader > 0) return TD_OK;
    m->reader = 0;
    return td_fail(e, TD_E_SYSTEM, "cannot keep the descriptor of a segment (error %d)", errno);
}

/* Under the lock. */
static int ask_descriptor(td_array *a)
{
    Td__Wire__Map map = TD__WIRE__MAP__INIT;
    map.id = a->id;
    map.descriptor = true;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.map = &map;
    td_reply_wait w = {.on_reply = on_descriptor, .context = a};
    return td_ask_and_wait(a->client, &call, -1, &w, "data");
}

static int map_pages(const td_array *a, td_private *out)
{
    const td_mapping *m = &a->client->memory.mappings[a->mapping];
    uint64_t lo, hi, storage = (uint64_t)(a->bytes - m->base), page = (uint64_t)sysconf(_SC_PAGESIZE);
    td_desc_extent(&a->desc, &lo, &hi);
    uint64_t first = (storage + lo) / page * page, end = (storage + hi + page - 1) / page * page;
    td_error *e = td_thread_error();
    if (td_map_private(m->reader, first, end - first, &out->base, e)) return td_raise_error(e, "data", NULL);
    out->size = end - first;
    out->at = (unsigned char *)out->base + (storage + lo - first);
    return TD_OK;
}

int td_private_map(td_array *a, td_private *out)
{
    *out = (td_private){0};
    if (!td_data(a)) return td_last_error()->code; /* everything asked has ended, and the segment is mapped */
    int rc = td_enter(a->client, "data");
    if (rc) return rc;
    if (!a->client->memory.mappings[a->mapping].reader) rc = ask_descriptor(a);
    if (!rc) rc = map_pages(a, out);
    td_leave(a->client);
    return rc;
}

void td_private_unmap(td_private *p)
{
    td_unmap(p->base, p->size);
    *p = (td_private){0};
}
