/* Joining a group, and leaving it. */
#include "client/group/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { HANDLE = 1 }; /* the one group of its connection */

/* ---- its memory */

typedef struct part {
    unsigned char *bytes;
    uint64_t size;
    bool writable;
} part;

static int on_part(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    part *p = w->context;
    int32_t mapping; /* it stays as long as the connection */
    if (!r->address) return td_fail(e, TD_E_PROTOCOL, "no address came for a group's memory");
    if (r->address->nbytes < p->size || (p->writable && !r->address->writable))
        return td_fail(e, TD_E_PROTOCOL, "a group's memory is smaller than it should be, or read-only");
    return td_map_address(c, r->address, fd, &mapping, &p->bytes, e);
}

static int map_part(td_group *g, Td__Wire__GroupPart which, uint64_t size, unsigned char **out)
{
    part p = {.size = size, .writable = which != TD__WIRE__GROUP_PART__GROUP_PAGE};
    Td__Wire__GroupMemory q = TD__WIRE__GROUP_MEMORY__INIT;
    q.group = HANDLE;
    q.part = which;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.group_memory = &q;
    int rc = td_ask_once(g->client, "group_memory", &call, on_part, &p);
    *out = p.bytes;
    return rc;
}

int td_group_need_large(td_group *g)
{
    if (g->large) return TD_OK;
    int rc = map_part(g, TD__WIRE__GROUP_PART__GROUP_SLOTS, td_board_large_bytes(g->size), &g->large);
    if (!rc)
        madvise(g->large, td_board_large_bytes(g->size),
                MADV_POPULATE_WRITE); /* the pages are there: no faults in rounds */
    td_step_aside();                  /* as the caller has */
    return rc;
}

/* ---- joining */

static int on_seat(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    td_group *g = w->context;
    if (!r->group || r->group->size != g->size || r->group->rank >= g->size)
        return td_fail(e, TD_E_PROTOCOL, "no seat came for a group");
    g->rank = r->group->rank;
    g->epoch = r->group->epoch;
    return TD_OK;
}

static int take_seat(td_group *g, int rank)
{
    Td__Wire__GroupOpen q = TD__WIRE__GROUP_OPEN__INIT;
    q.name = g->name;
    q.group = HANDLE;
    q.size = g->size;
    q.rank = (uint32_t)(rank + 1);
    q.timeout_ms = td_timeout(g->timeout_ms);
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.group_open = &q;
    return td_ask_once(g->client, "group_open", &call, on_seat, g);
}

static int join(td_group *g, int rank)
{
    unsigned char *page = NULL;
    if (!g->client->daemon.groups)
        return td_raise(TD_E_UNSUPPORTED, "group_open",
                        "this daemon (version %s) has no groups; it is older than this program",
                        g->client->daemon.version);
    int rc = take_seat(g, rank);
    if (!rc) rc = map_part(g, TD__WIRE__GROUP_PART__GROUP_PAGE, td_page_bytes(g->size), &page);
    if (!rc)
        rc = map_part(g, TD__WIRE__GROUP_PART__GROUP_BOARD, td_board_bytes(g->size) + td_sites_bytes(g->size),
                      &g->memory);
    if (rc) return rc;
    td_board_open(&g->board, g->memory, (const td_page *)(const void *)page, g->rank, g->size);
    g->sites = (td_sites){.all = (td_site_text *)(void *)(g->memory + td_board_bytes(g->size)), .rank = g->rank};
    return TD_OK;
}

static int check(const char *name, uint32_t size, int rank)
{
    td_group *g;
    if (!name || !name[0] || strlen(name) >= sizeof g->name)
        return td_raise(TD_E_INVALID, "group_open", "a group's name has 1 to %zu bytes", sizeof g->name - 1);
    if (size < 1 || size > TD_GROUP_RANKS)
        return td_raise(TD_E_INVALID, "group_open", "group '%s': a group has 1 to %d members, not %u", name,
                        TD_GROUP_RANKS, size);
    if (rank < -1 || rank >= (int)size)
        return td_raise(TD_E_INVALID, "group_open", "group '%s' of %u has ranks 0 to %u; there is no rank %d", name,
                        size, size - 1, rank);
    return TD_OK;
}

static void free_group(td_group *g)
{
    td_disconnect(g->client);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

TD_API td_group *td_group_open(td_client *client, const char *name, uint32_t size, int rank, int timeout_ms)
{
    if (client)
        return td_group_open_at(client->path, client->threads.stop, client->threads.stop_context, name, size, rank,
                                timeout_ms);
    td_raise(TD_E_INVALID, "group_open", "the client is NULL");
    return NULL;
}

td_group *td_group_open_at(const char *path, bool (*stop)(void *), void *context, const char *name, uint32_t size,
                           int rank, int timeout_ms)
{
    if (check(name, size, rank)) return NULL;
    td_group *g = calloc(1, sizeof *g);
    if (!g) {
        td_raise(TD_E_SYSTEM, "group_open", "no memory for group '%s'", name);
        return NULL;
    }
    snprintf(g->name, sizeof g->name, "%s", name);
    g->size = size;
    g->timeout_ms = timeout_ms;
    g->generation = td_fork_generation();
    pthread_mutex_init(&g->lock, NULL);
    td_step_aside();
    g->client = td_connect_until(path, stop, context);
    td_step_back();
    if (g->client) td_keep_alone(g->client);
    if (g->client && !join(g, rank)) return g;
    td_error why = *td_last_error();
    free_group(g);
    td_raise_error(&why, NULL, NULL);
    return NULL;
}

/* The daemon knows that it left before its process may end: else that is taken for a death. */
static void say_that_it_leaves(td_group *g)
{
    Td__Wire__GroupLeave q = TD__WIRE__GROUP_LEAVE__INIT;
    q.group = HANDLE;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.group_leave = &q;
    td_ask_once(g->client, "group_close", &call, NULL, NULL);
}

TD_API int td_group_close(td_group *g)
{
    if (!g) return TD_OK;
    bool member = g->generation == td_fork_generation() && td_fork_intact();
    td_error before = *td_last_error();
    if (member) {
        td_step_aside();
        td_group_lock(g); /* whoever was in a call has left it */
        td_group_jobs_end(g, "was left");
        pthread_mutex_unlock(&g->lock);
        td_step_back();
        say_that_it_leaves(g);
    }
    free_group(g);
    td_clear_error();
    if (before.code) td_raise_error(&before, NULL, NULL); /* why it is left may still be asked */
    return TD_OK;
}

/* ---- what it is */

TD_API uint32_t td_group_rank(const td_group *g)
{
    return g->rank;
}

TD_API uint32_t td_group_size(const td_group *g)
{
    return g->size;
}

TD_API uint32_t td_group_epoch(const td_group *g)
{
    return g->epoch;
}

TD_API const char *td_group_name(const td_group *g)
{
    return g->name;
}

TD_API td_client *td_group_client(const td_group *g)
{
    return g->client;
}

TD_API td_group_fault td_group_last_fault(const td_group *g)
{
    return g->fault;
}
