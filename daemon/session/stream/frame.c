/* Frames: what came becomes the records, or the request, that are worked off next.
 *
 * A large one is unpacked by a helper (unpack.c). What it became is in the session's arena until the last of it is
 * worked off. */
#include "daemon/session/state.h"
#include "proto/base/text.h"

#include <stdlib.h>

enum { MAX_SITES = 65535, FREE_HERE = 512 << 10 };

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

static int set_site(td_session *s, const Td__Wire__CallSite *c, td_error *e)
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

/* ---- unpacking */

void *td_frame_unpack(td_arena *arena, const td_frame *f)
{
    if (f->kind == TD_FRAME_BATCH) return td__wire__batch__unpack(&arena->allocator, f->bytes, f->payload);
    return td__wire__call__unpack(&arena->allocator, f->bytes, f->payload);
}

/* Some of the texts that a batch brings, from *site on; TD_AGAIN: there are more. */
static int take_sites(td_session *s, const Td__Wire__Batch *b, size_t *site, td_error *e)
{
    size_t until = b->n_sites - *site > TD_SITES_AT_ONCE ? *site + TD_SITES_AT_ONCE : b->n_sites;
    for (int rc; *site < until; ++*site)
        if ((rc = set_site(s, b->sites[*site], e))) return rc;
    return until < b->n_sites ? TD_AGAIN : TD_OK;
}

int td_frame_take(td_session *s, const td_frame *f, void *message, size_t *site, td_error *e)
{
    bool batch = f->kind == TD_FRAME_BATCH;
    if (!message) return td_fail(e, TD_E_PROTOCOL, "a %s of %u bytes is malformed", batch ? "Batch" : "Call", f->bytes);
    if (!batch) {
        s->stream.call = message;
        return TD_OK;
    }
    int rc = take_sites(s, message, site, e);
    if (rc) return rc;
    s->stream.batch = message;
    s->stream.cursor = 0;
    return TD_OK;
}

static int unpack_here(td_session *s, const td_frame *f, td_error *e)
{
    void *message = td_frame_unpack(&s->stream.arena, f);
    td_unpack_came(s);
    size_t site = 0;
    int rc = td_frame_take(s, f, message, &site, e);
    return rc == TD_AGAIN ? td_unpack_go_on(s, f, message, site, e) : rc;
}

static void free_arena(void *arena)
{
    td_arena_deinit(arena);
    free(arena);
}

/* What the last frame left. */
static void reset_arena(td_session *s)
{
    td_unpack_gone(s);
    const td_service_options *o = &s->service->options;
    td_arena *old = s->stream.arena.used > FREE_HERE && o->background ? malloc(sizeof *old) : NULL;
    if (!old) {
        td_arena_reset(&s->stream.arena);
        return;
    }
    *old = s->stream.arena;
    td_arena_init(&s->stream.arena, old->limit);
    o->background(o->arg, free_arena, NULL, old);
}

void td_session_frame_over(td_session *s)
{
    s->stream.batch = NULL;
    if (s->stream.unpacked) reset_arena(s);
}

int td_session_frame(td_session *s, td_frame *f, td_error *e)
{
    reset_arena(s);
    s->objects.now = td_ticks(s->service);
    s->service->frames_in++;
    s->stream.frames++;
    s->service->bytes_in += f->bytes + TD_FRAME_HEADER;
    if (f->kind != TD_FRAME_BATCH && f->kind != TD_FRAME_CALL)
        return td_fail(e, TD_E_PROTOCOL, "a frame of kind %u is not for the daemon", f->kind);
    if (f->kind == TD_FRAME_CALL) td_import_receive(s, f);
    return f->block && s->service->options.background ? td_unpack_aside(s, f, e) : unpack_here(s, f, e);
}
