/* Mapped segments.
 *
 * A segment is mapped once a process, whatever number of tensors lie in it, and its descriptor is closed as soon as it
 * is mapped. A mapping stays until the daemon asks for it back and nothing points into it. Addresses come from the
 * daemon and are checked all the same. */
#include "client/wire/internal.h"
#include "shm/segment.h"

#include <stdlib.h>
#include <unistd.h>

static void unmap_slot(td_mapping *m)
{
    if (m->base) td_unmap(m->base, m->size);
    if (m->reader) close(m->reader);
    *m = (td_mapping){0};
}

static int find_mapping(const td_client *c, uint32_t segment)
{
    for (int i = 0; i < c->memory.nmappings; i++)
        if (c->memory.mappings[i].base && !c->memory.mappings[i].old && c->memory.mappings[i].segment == segment)
            return i;
    return -1;
}

static int free_slot(td_client *c)
{
    for (int i = 0; i < c->memory.nmappings; i++)
        if (!c->memory.mappings[i].base) return i;
    td_mapping *at = realloc(c->memory.mappings, ((size_t)c->memory.nmappings + 1) * sizeof *at);
    if (!at) return -1;
    c->memory.mappings = at;
    c->memory.mappings[c->memory.nmappings] = (td_mapping){0};
    return c->memory.nmappings++;
}

/* Unmap, and tell the daemon; nobody waits for its answer. */
static void give_back(td_client *c, td_mapping *m)
{
    Td__Wire__Unmapped u = TD__WIRE__UNMAPPED__INIT;
    u.segment = m->segment;
    u.generation = m->generation;
    unmap_slot(m);
    if (c->lost) return;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.unmapped = &u;
    td_tell(c, &call);
}

void td_unmap_segment(td_client *c, uint32_t segment)
{
    int i = find_mapping(c, segment);
    if (i < 0) return;
    c->memory.mappings[i].unwanted = true;
    if (!c->memory.mappings[i].users) give_back(c, &c->memory.mappings[i]);
}

void td_unuse_mapping(td_client *c, int32_t mapping)
{
    td_mapping *m = &c->memory.mappings[mapping];
    if (--m->users) return;
    if (m->unwanted) give_back(c, m);
    else if (m->old) unmap_slot(m);
}

void td_end_mapping(td_client *c, int32_t mapping)
{
    c->memory.mappings[mapping].unwanted = true;
    td_unuse_mapping(c, mapping);
}

void td_forget_mappings(td_client *c)
{
    for (int i = 0; i < c->memory.nmappings; i++) unmap_slot(&c->memory.mappings[i]);
    free(c->memory.mappings);
    c->memory.mappings = NULL;
    c->memory.nmappings = 0;
}

int td_no_descriptor(uint32_t segment, td_error *e)
{
    return td_fail(
        e, TD_E_BUSY,
        "no descriptor came for segment %u: the daemon has none left to send (start it with more: ulimit -n, "
        "LimitNOFILE=), or this program could not map the segment before and has to connect again",
        segment);
}

/* Map what the frame brought; returns the slot, or -1. */
static int map_new(td_client *c, const Td__Wire__Address *at, int *fd, td_error *e)
{
    int i = free_slot(c);
    void *base = NULL;
    if (*fd < 0) td_no_descriptor(at->segment, e);
    else if (i < 0) td_no_memory(e, "for the table of mappings");
    else td_map_descriptor(*fd, at->segment_size, at->writable, &base, e);
    if (!base) return -1;
    close(*fd);
    *fd = -1;
    c->memory.mappings[i] = (td_mapping){.segment = at->segment,
                                         .generation = at->generation,
                                         .size = at->segment_size,
                                         .base = base,
                                         .writable = at->writable};
    return i;
}

/* Is the mapping of this number of no use for the address: of another generation, or read-only while a writable one
 * came? */
static bool outdated(const td_mapping *m, const Td__Wire__Address *at, int fd)
{
    return m->generation != at->generation || m->size != at->segment_size || (at->writable && !m->writable && fd >= 0);
}

int td_map_address(td_client *c, const Td__Wire__Address *at, int *fd, int32_t *mapping, unsigned char **bytes,
                   td_error *e)
{
    if (at->handle_kind != TD__WIRE__HANDLE_KIND__HANDLE_SEGMENT)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "the tensor lies on a device that this library cannot map; copy it to the cpu first");
    if (at->offset > at->segment_size || at->nbytes > at->segment_size - at->offset)
        return td_fail(e, TD_E_PROTOCOL, "an address reaches beyond its segment");
    int i = find_mapping(c, at->segment);
    if (i >= 0 && outdated(&c->memory.mappings[i], at, *fd)) {
        c->memory.mappings[i].old = true; /* it lives on for those who point into it */
        if (!c->memory.mappings[i].users) unmap_slot(&c->memory.mappings[i]);
        i = -1;
    }
    if (i >= 0 && *fd >= 0) c->memory.mappings[i].unwanted = false; /* it was asked back and is given anew */
    if (i < 0) i = map_new(c, at, fd, e);
    if (i < 0) return e->code;
    c->memory.mappings[i].users++;
    *mapping = i;
    *bytes = c->memory.mappings[i].base + at->offset;
    return TD_OK;
}
