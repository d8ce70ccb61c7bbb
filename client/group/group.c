/* Joining a group, and leaving it. */
#include "client/group/job.h"

#include <stdio.h>
#include <stdlib.h>

static int take_seat(td_group *g, int rank)
{
    const char *op = "group_open";
    if (!g->client->daemon.groups)
        return td_raise(TD_E_UNSUPPORTED, op, "this daemon (version %s) has no groups; it is older than this program",
                        g->client->daemon.version);
    if ((g->least != g->most || g->on_death) && !g->client->daemon.regroups)
        return td_raise(TD_E_UNSUPPORTED, op,
                        "this daemon (version %s) has groups of one size only, that end with the first death; it is "
                        "older than this program",
                        g->client->daemon.version);
    Td__Wire__GroupOpen q = TD__WIRE__GROUP_OPEN__INIT;
    q.name = g->name;
    q.group = TD_GROUP_HANDLE;
    q.size = g->most;
    q.least = g->least;
    q.policy = g->on_death;
    q.rank = (uint32_t)(rank + 1);
    q.timeout_ms = td_timeout(g->timeout_ms);
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.group_open = &q;
    return td_group_enter(g, op, &call);
}

static int check(const td_group_wish *w)
{
    const char *op = "group_open", *name = w->name;
    td_group *g;
    if (!name || !name[0] || strlen(name) >= sizeof g->name)
        return td_raise(TD_E_INVALID, op, "a group's name has 1 to %zu bytes", sizeof g->name - 1);
    if (w->most < 1 || w->most > TD_GROUP_RANKS)
        return td_raise(TD_E_INVALID, op, "group '%s': a group has 1 to %d members, not %u", name, TD_GROUP_RANKS,
                        w->most);
    if (w->least < 1 || w->least > w->most)
        return td_raise(TD_E_INVALID, op, "group '%s' of at most %u members cannot begin with %u", name, w->most,
                        w->least);
    if ((unsigned)w->on_death > TD_ON_DEATH_SHRINK)
        return td_raise(TD_E_INVALID, op, "group '%s': there is no policy %d for deaths", name, (int)w->on_death);
    if (w->least != w->most && w->rank >= 0)
        return td_raise(TD_E_INVALID, op,
                        "group '%s' of %u to %u members gives ranks in the order in which they come; rank %d cannot be "
                        "asked for",
                        name, w->least, w->most, w->rank);
    if (w->rank < -1 || w->rank >= (int)w->most)
        return td_raise(TD_E_INVALID, op, "group '%s' of %u has ranks 0 to %u; there is no rank %d", name, w->most,
                        w->most - 1, w->rank);
    return TD_OK;
}

static void free_group(td_group *g)
{
    td_disconnect(g->client);
    pthread_mutex_destroy(&g->lock);
    free(g->lost);
    pthread_mutex_destroy(&g->mail.lock);
    free(g);
}

TD_API td_group *td_group_open(td_client *client, const char *name, uint32_t size, int rank, int timeout_ms)
{
    return td_group_open_between(client, name, size, size, rank, TD_ON_DEATH_FAIL, timeout_ms);
}

TD_API td_group *td_group_open_between(td_client *client, const char *name, uint32_t least, uint32_t most, int rank,
                                       td_on_death on_death, int timeout_ms)
{
    td_group_wish wish = {.name = name,
                          .least = least,
                          .most = most,
                          .rank = rank,
                          .on_death = on_death,
                          .timeout_ms = timeout_ms,
                          .is_private = client && td_is_private(client)};
    if (client) return td_group_open_at(client->path, client->threads.stop, client->threads.stop_context, &wish);
    td_raise(TD_E_INVALID, "group_open", "the client is NULL");
    return NULL;
}

/* The missing ranks may wait in private daemons of their own. */
static void hint_private(td_error *e)
{
    size_t n = strlen(e->message);
    snprintf(e->message + n, sizeof e->message - n,
             ". This program's daemon is a private one; ranks that nobody starts together meet in the user's daemon: "
             "start tensord before them");
}

td_group *td_group_open_at(const char *path, bool (*stop)(void *), void *context, const td_group_wish *wish)
{
    if (check(wish)) return NULL;
    td_group *g = calloc(1, sizeof *g);
    if (!g) {
        td_raise(TD_E_SYSTEM, "group_open", "no memory for group '%s'", wish->name);
        return NULL;
    }
    snprintf(g->name, sizeof g->name, "%s", wish->name);
    g->least = wish->least;
    g->most = wish->most;
    g->on_death = wish->on_death;
    g->timeout_ms = wish->timeout_ms;
    g->generation = td_fork_generation();
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_init(&g->mail.lock, NULL);
    td_step_aside();
    g->client = td_connect_until(path, stop, context);
    td_step_back();
    if (g->client) td_keep_alone(g->client);
    if (g->client && !take_seat(g, wish->rank)) return g;
    td_error why = *td_last_error();
    if (wish->is_private && why.code == TD_E_TIMEOUT) hint_private(&why);
    free_group(g);
    td_raise_error(&why, NULL, NULL);
    return NULL;
}

/* The daemon knows that it left before its process may end: else that is taken for a death. */
static void say_that_it_leaves(td_group *g)
{
    Td__Wire__GroupLeave q = TD__WIRE__GROUP_LEAVE__INIT;
    q.group = TD_GROUP_HANDLE;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.group_leave = &q;
    td_ask_once(g->client, "group_close", &call, NULL, NULL);
}

TD_API int td_group_close(td_group *g)
{
    if (!g) return TD_OK;
    bool member = td_group_is_own(g);
    td_error before = *td_last_error();
    if (member) {
        td_step_aside();
        td_group_lock(g); /* whoever was in a call has left it */
        td_group_jobs_end(g, "was left");
        pthread_mutex_unlock(&g->lock);
        td_step_back();
        td_group_mail_end(g);
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
