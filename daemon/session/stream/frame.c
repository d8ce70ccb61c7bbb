/* Frames: what came becomes the records, or the request, that are worked off next.
 *
 * A large one is unpacked by a helper (unpack.c). What it became is in the session's arena until the last of it is
 * worked off. */
#include "daemon/session/stream/stream.h"

#include <stdlib.h>

enum { FREE_HERE = 512 << 10 };

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
        if ((rc = td_site_set(s, b->sites[*site], e))) return rc;
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
