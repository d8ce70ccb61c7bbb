/* Looking for a name in the private daemons of other programs of the user, for who opens one that its own daemon has
 * not. Each is asked in a connection of its own, and not for long: one may be stopped. */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, ASK_MS = 1000, AGAIN_MS = 100 };

typedef struct patience {
    int64_t until;
    bool (*stop)(void *);
    void *context;
} patience;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool is_over(void *arg)
{
    const patience *p = arg;
    return now_ms() > p->until || (p->stop && p->stop(p->context));
}

static bool has_name(const char *path, const char *name, const patience *given)
{
    patience p = *given;
    if (p.until > now_ms() + ASK_MS) p.until = now_ms() + ASK_MS;
    td_step_aside();
    td_client *c = td_connect_until(path, is_over, &p);
    td_step_back();
    td_array *a = c ? td_open(c, name, 0) : NULL;
    bool has = a != NULL;
    td_release(a);
    td_disconnect(c);
    return has;
}

static int seek(const char *name, const char *but, td_place *found, const patience *p)
{
    td_place list[MOST];
    int count = td_places_list(list, MOST), with = 0;
    for (int i = 0; i < count && i < MOST; i++)
        if (strcmp(list[i].path, but) != 0 && td_places_within(list[i].program) && has_name(list[i].path, name, p))
            if (with++ == 0) *found = list[i];
    return with;
}

void td_hint_elsewhere(const td_client *c, const char *name)
{
    td_error *e = (td_error *)td_last_error(), was = *e;
    if (!c->is_private || (e->code != TD_E_NOT_FOUND && e->code != TD_E_TIMEOUT)) return;
    td_place at;
    patience p = {now_ms() + ASK_MS, c->stop, c->stop_context};
    int with = seek(name, c->path, &at, &p);
    *e = was;
    size_t n = strlen(e->message), room = sizeof e->message - n;
    if (with == 0)
        snprintf(e->message + n, room,
                 ". This program's daemon is a private one, and no other daemon of yours has the name; programs that "
                 "nobody starts together also meet in the user's daemon: start tensord before them");
    else if (with == 1)
        snprintf(e->message + n, room,
                 ". The private daemon of %s (pid %d) has it: start this program with TENSORD_SOCKET=%s", at.name,
                 (int)at.program, at.path);
    else
        snprintf(
            e->message + n, room,
            ". %d other private daemons have it: start this program with TENSORD_SOCKET=%s for that of %s (pid %d); "
            "tensorctl daemons lists all",
            with, at.path, at.name, (int)at.program);
}

td_client *td_connect_for(const char *name, int timeout_ms, bool *another, bool (*stop)(void *), void *context)
{
    patience p = {timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms, stop, context};
    for (bool over = false; !over;) {
        over = now_ms() >= p.until || is_over(&p);
        td_place at;
        if (td_daemon_runs()) break;
        patience once = {now_ms() + ASK_MS, stop, context};
        int with = seek(name, "", &at, &once);
        td_step_aside();
        td_client *c = with == 1 ? td_connect_until(at.path, stop, context) : NULL;
        if (!c && with <= 1 && !over) usleep(AGAIN_MS * 1000);
        td_step_back();
        *another = c != NULL;
        if (c) return c;
        if (with > 1) break;
    }
    *another = false;
    td_clear_error();
    td_step_aside();
    td_client *c = td_connect_until(NULL, stop, context);
    td_step_back();
    return c;
}
