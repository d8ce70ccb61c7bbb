/* The epochs of a group: its memory, and regrouping, which begins the next one. */
#include "client/group/job.h"

#include <stdlib.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* ---- memory */

typedef struct part {
    td_group *group;
    Td__Wire__GroupPart which;
    uint64_t size;
    unsigned char *bytes;
} part;

static int on_part(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    part *p = w->context;
    int32_t mapping;
    bool writable = p->which != TD__WIRE__GROUP_PART__GROUP_PAGE;
    if (!r->address) return td_fail(e, TD_E_PROTOCOL, "no address came for a group's memory");
    if (r->address->nbytes < p->size || (writable && !r->address->writable))
        return td_fail(e, TD_E_PROTOCOL, "a group's memory is smaller than it should be, or read-only");
    int rc = td_map_address(c, r->address, fd, &mapping, &p->bytes, e);
    if (!rc) p->group->mapped[p->which] = mapping + 1;
    return rc;
}

static int map_part(td_group *g, Td__Wire__GroupPart which, uint64_t size, unsigned char **out)
{
    part p = {.group = g, .which = which, .size = size};
    Td__Wire__GroupMemory q = TD__WIRE__GROUP_MEMORY__INIT;
    q.group = TD_GROUP_HANDLE;
    q.part = which;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.group_memory = &q;
    int rc = td_ask_once(g->client, "group_memory", &call, on_part, &p);
    *out = p.bytes;
    return rc;
}

/* Its mapping is its own, and stays until the buffer is freed, whatever becomes of the group. */
static int on_buffer(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    td_group_buffer *b = w->context;
    int32_t mapping;
    unsigned char *bytes;
    uint64_t size = td_board_buffer_bytes(b->size, b->bytes);
    if (!r->address || r->address->nbytes < size || !r->address->writable)
        return td_fail(e, TD_E_PROTOCOL, "no memory came for a buffer of a group");
    int rc = td_map_address(c, r->address, fd, &mapping, &bytes, e);
    if (rc) return rc;
    uint64_t before = (uintptr_t)bytes % 4096;
    b->mapped = size + before;
    b->mapping = mremap(bytes - before, 0, b->mapped, MREMAP_MAYMOVE); /* of shared memory: the same pages once more */
    if (b->mapping == MAP_FAILED) {
        b->mapping = NULL;
        rc = td_fail(e, TD_E_SYSTEM, "cannot map a buffer of %llu bytes", (unsigned long long)b->mapped);
    } else {
        b->at = (unsigned char *)b->mapping + before;
    }
    b->group->buffer_mapped[b->number] = mapping + 1; /* another buffer may lie in that segment */
    return rc;
}

int td_group_map_buffer(td_group *g, td_group_buffer *b)
{
    Td__Wire__GroupMemory q = TD__WIRE__GROUP_MEMORY__INIT;
    q.group = TD_GROUP_HANDLE;
    q.part = TD__WIRE__GROUP_PART__GROUP_BUFFER;
    q.buffer = b->number;
    q.bytes = b->bytes;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.group_memory = &q;
    int rc = td_ask_once(g->client, "group_memory", &call, on_buffer, b);
    td_step_aside(); /* as the caller has */
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

static int map_epoch(td_group *g)
{
    unsigned char *page = NULL;
    int rc = map_part(g, TD__WIRE__GROUP_PART__GROUP_PAGE, td_page_bytes(g->size), &page);
    if (!rc)
        rc = map_part(g, TD__WIRE__GROUP_PART__GROUP_BOARD, td_board_bytes(g->size) + td_sites_bytes(g->size),
                      &g->memory);
    if (rc) return rc;
    td_board_open(&g->board, g->memory, (const td_page *)(const void *)page, g->rank, g->size);
    g->sites = (td_sites){.all = (td_site_text *)(void *)(g->memory + td_board_bytes(g->size)), .rank = g->rank};
    return TD_OK;
}

/* Pages of several groups may lie in one segment, which the daemon asks for when it wants to. */
static void unmap_epoch(td_group *g)
{
    td_lock(g->client);
    for (int i = 0; i < 3; i++) {
        if (!g->mapped[i]) continue;
        if (i == TD__WIRE__GROUP_PART__GROUP_PAGE) td_unuse_mapping(g->client, g->mapped[i] - 1);
        else td_end_mapping(g->client, g->mapped[i] - 1);
    }
    for (uint32_t i = 0; i < TD_BUFFERS_MOST; i++)
        if (g->buffer_mapped[i]) td_end_mapping(g->client, g->buffer_mapped[i] - 1);
    td_unlock(g->client);
}

/* ---- the next epoch */

/* The page of the epoch before says so, and says no more. */
static void keep_lost(td_group *g)
{
    const td_page *page = g->board.page;
    free(g->lost);
    g->lost = NULL;
    g->nlost = 0;
    if (!page || !(g->lost = calloc(g->size, sizeof *g->lost))) return;
    for (uint32_t r = 0; r < g->size; r++) {
        const td_page_rank *p = &page->rank[r];
        uint32_t how = atomic_load(&p->state);
        if (how == TD_RANK_CUT) how = TD_RANK_LEFT;
        if (how != TD_RANK_LEFT && how != TD_RANK_DEAD && how != TD_RANK_EXPELLED) continue;
        td_group_lost *x = &g->lost[g->nlost++];
        *x = (td_group_lost){.rank = r, .pid = atomic_load(&p->pid), .how = how};
        memcpy(x->program, p->program, sizeof x->program);
        x->program[sizeof x->program - 1] = 0;
    }
}

_Static_assert(TD_LOST_LEFT == (int)TD_RANK_LEFT && TD_LOST_DIED == (int)TD_RANK_DEAD &&
                   TD_LOST_EXPELLED == (int)TD_RANK_EXPELLED && sizeof(((td_group_lost *)0)->program) == 48,
               "as the page has them");

typedef struct seat {
    uint32_t rank, size, epoch, most;
} seat;

static int on_seat(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    seat *s = w->context;
    if (!r->group || r->group->size > s->most || r->group->rank >= r->group->size)
        return td_fail(e, TD_E_PROTOCOL, "no seat came for a group");
    s->rank = r->group->rank;
    s->size = r->group->size;
    s->epoch = r->group->epoch;
    return TD_OK;
}

static void begin(td_group *g, const seat *s)
{
    keep_lost(g);
    unmap_epoch(g);
    g->rank = s->rank;
    g->size = s->size;
    g->epoch = s->epoch;
    memset(g->mapped, 0, sizeof g->mapped);
    memset(g->buffer_mapped, 0, sizeof g->buffer_mapped);
    memset(&g->board, 0, sizeof g->board);
    g->memory = g->large = NULL;
    g->calls = 0;
    g->buffers = 0;
    memset(g->pieces, 0, sizeof g->pieces);
    memset(g->passes, 0, sizeof g->passes);
    g->last_round = 0;
    g->fault = (td_group_fault){0};
    g->broken = (td_error){0};
}

int td_group_enter(td_group *g, const char *op, Td__Wire__Call *call)
{
    seat s = {.most = g->most};
    int rc = td_ask_once(g->client, op, call, on_seat, &s);
    if (rc) return rc;
    begin(g, &s);
    rc = map_epoch(g);
    if (rc) g->broken = *td_last_error();
    return rc;
}

/* ---- regrouping */

/* This rank comes to no later call of its epoch. */
static int not_yet(td_group *g, int rc)
{
    td_error why = *td_last_error();
    if (rc == TD_E_NOT_FOUND) {
        td_clear_error();
        rc = td_raise(TD_E_EPOCH, "regroup", "this process is no member of group '%s' any more; open it anew", g->name);
        why = *td_last_error();
    }
    if (!g->broken.code)
        td_fail(&g->broken, TD_E_EPOCH, "this rank asked for the next epoch, and that has not begun: %.300s",
                why.message);
    td_raise_error(&why, "regroup", NULL);
    return rc;
}

static int regroup(td_group *g, int timeout_ms)
{
    if (!g->client->daemon.regroups)
        return td_raise(TD_E_UNSUPPORTED, "regroup",
                        "this daemon (version %s) has no epochs of groups; it is older than this program",
                        g->client->daemon.version);
    Td__Wire__GroupRegroup q = TD__WIRE__GROUP_REGROUP__INIT;
    q.group = TD_GROUP_HANDLE;
    q.timeout_ms = td_timeout(timeout_ms < 0 ? g->timeout_ms : timeout_ms);
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.group_regroup = &q;
    int rc = td_group_enter(g, "regroup", &call);
    return rc ? not_yet(g, rc) : TD_OK;
}

TD_API int td_group_regroup(td_group *g, int timeout_ms)
{
    if (!g) return td_raise(TD_E_INVALID, "regroup", "the group is NULL");
    if (!td_group_is_own(g)) return td_group_refuse_child(g, "regroup");
    td_step_aside();
    td_group_lock(g);
    td_step_back();
    td_group_jobs_end(g, "asked for its next epoch");
    int rc = td_group_mail_end(g);
    if (!rc) {
        rc = regroup(g, timeout_ms);
        td_group_mail_go_on(g);
    }
    pthread_mutex_unlock(&g->lock);
    return rc;
}

TD_API uint32_t td_group_door(const td_group *g)
{
    return g->board.page ? atomic_load(&g->board.page->door) : 0;
}

TD_API uint32_t td_group_contributors(const td_group *g, uint32_t *ranks, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t r = 0; g->last_round && r < g->size; r++) {
        if (td_page_is_out(g->board.page, r, g->last_round)) continue;
        if (n < most) ranks[n] = r;
        n++;
    }
    return n;
}

TD_API uint32_t td_group_lost_members(const td_group *g, td_group_lost *out, uint32_t most)
{
    for (uint32_t i = 0; i < g->nlost && i < most; i++) out[i] = g->lost[i];
    return g->nlost;
}
