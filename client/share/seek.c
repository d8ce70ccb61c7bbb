/* Looking for a name, or a queue, in the private daemons of other programs of the user, for who wants one that its own
 * daemon has not. Each is asked in a connection of its own, seldom and not for long: one may be stopped. */

#include "client/share/internal.h"
#include "client/wire/places.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, ASK_MS = 1000, AGAIN_MS = 100, SELDOM_MS = 1000, SHARE = 10 };

typedef struct patience {
    int64_t until;
    bool (*stop)(void *);
    void *context;
} patience;

/* A tensor or program, or a queue that somebody puts into, or gets from. */
typedef enum thing { NAME, PUT_INTO, GOT_FROM } thing;

typedef struct quest {
    const char *name;
    thing thing;
} quest;

typedef struct finding {
    int with, silent;   /* daemons that have it, that did not answer in time */
    td_daemon_place at; /* the first that has it */
} finding;

static bool is_over(void *arg)
{
    const patience *p = arg;
    return td_now_ms() > p->until || (p->stop && p->stop(p->context));
}

static bool has_queue(td_client *c, const quest *of)
{
    td_queue_state q;
    if (td_queue_look(c, of->name, &q) || q.ended) return false;
    return of->thing == GOT_FROM ? q.consumers : q.producers || q.items;
}

static bool has_name(td_client *c, const char *name)
{
    td_array *a = td_open(c, name, 0);
    td_release(a);
    return a != NULL;
}

static void ask(const td_daemon_place *place, const quest *q, const patience *p, finding *f)
{
    td_clear_error();
    td_step_aside();
    td_client *c = td_connect_until(place->path, is_over, (void *)p);
    td_step_back();
    bool has = c && (q->thing == NAME ? has_name(c, q->name) : has_queue(c, q));
    int code = td_last_error()->code;
    td_disconnect(c);
    if (has && f->with++ == 0) f->at = *place;
    f->silent += !has && (code == TD_E_TIMEOUT || code == TD_E_CANCELLED);
}

/* In all but one, within the time that is given and ASK_MS. */
static finding seek(const quest *q, const char *but, patience p)
{
    td_daemon_place list[MOST];
    finding f = {0};
    int64_t most = td_now_ms() + ASK_MS;
    if (p.until > most) p.until = most;
    int count = td_places_list(list, MOST);
    for (int i = 0; i < count && i < MOST; i++)
        if (strcmp(list[i].path, but) != 0 && td_places_within(list[i].program)) ask(&list[i], q, &p, &f);
    return f;
}

/* What was found last: a program may ask for a name in a loop, and each look disturbs all daemons. */
static struct {
    pthread_mutex_t lock; /* may be held for ever in a forked child: so it is only tried */
    int64_t again;        /* no look before; looks take a part in SHARE of the time at most */
    char name[256];
    thing thing;
    finding found;
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* False: it is not known, as another name was looked for just now. `deaf`: who goes on waiting hears there that the
 * program is to stop, as that is said once. */
static bool look(const td_client *c, const quest *q, bool deaf, finding *out)
{
    if (pthread_mutex_trylock(&last.lock)) return false;
    int64_t began = td_now_ms();
    bool now = began >= last.again, same = strcmp(last.name, q->name) == 0 && last.thing == q->thing;
    if (now) last.again = began + ASK_MS + SELDOM_MS; /* for other threads meanwhile */
    else if (same) *out = last.found;
    if (now) last.name[0] = 0;
    pthread_mutex_unlock(&last.lock);
    if (!now) return same;
    *out = seek(q, c->path, (patience){began + ASK_MS, deaf ? NULL : c->threads.stop, c->threads.stop_context});
    int64_t ended = td_now_ms(), pause = (ended - began) * (SHARE - 1);
    if (pthread_mutex_trylock(&last.lock)) return true;
    last.again = ended + (pause > SELDOM_MS ? pause : SELDOM_MS);
    last.thing = q->thing;
    last.found = *out;
    snprintf(last.name, sizeof last.name, "%s", q->name);
    pthread_mutex_unlock(&last.lock);
    return true;
}

static void say_one(char *text, size_t size, const char *what, const finding *f)
{
    char whose[128];
    td_places_text(&f->at, whose, sizeof whose);
    if (f->with == 1)
        snprintf(text, size, "T%s has %s: start this program with TENSORD_SOCKET=%s", whose + 1, what, f->at.path);
    else
        snprintf(text, size,
                 "%d other private daemons have %s: start this program with TENSORD_SOCKET=%s for %s; tensorctl "
                 "daemons lists all",
                 f->with, what, f->at.path, whose);
}

/* Why those that this program starts do not find its daemon, or nothing. */
static void say_hidden(const td_client *c, char *text, size_t size)
{
    text[0] = 0;
    if (td_places_hidden(c->path))
        snprintf(text, size,
                 ". It listens at %s, and not even those that it starts find it there, as this user can have none of "
                 "$XDG_RUNTIME_DIR/tensord, /tmp/tensord-%u and ~/.tensord with mode 0700: start them with "
                 "TENSORD_SOCKET=%s",
                 c->path, (unsigned)geteuid(), c->path);
}

void td_hint_elsewhere(const td_client *c, const char *name)
{
    static const char together[] =
        "programs that nobody starts together also meet in the user's daemon: start tensord before them";
    td_error *e = (td_error *)td_last_error(), was = *e;
    if (!name || !c->daemon.is_private || (e->code != TD_E_NOT_FOUND && e->code != TD_E_TIMEOUT)) return;
    finding f = {0};
    bool known = look(c, &(quest){.name = name}, false, &f);
    *e = was;
    size_t n = strlen(e->message), room = sizeof e->message - n;
    char text[512];
    if (f.with) {
        say_one(text, sizeof text, "it", &f);
        snprintf(e->message + n, room, ". %s", text);
    } else if (known && f.silent) {
        snprintf(e->message + n, room,
                 ". This program's daemon is a private one, and %d other daemon%s of yours did not answer in time "
                 "(tensorctl daemons lists all); %s",
                 f.silent, f.silent > 1 ? "s" : "", together);
    } else {
        say_hidden(c, text, sizeof text);
        snprintf(e->message + n, room, ". This program's daemon is a private one%s; %s%s",
                 known ? ", and no other daemon of yours has the name" : "", together, text);
    }
}

bool td_queue_elsewhere(const td_client *c, const char *name, bool got_from, char *text, size_t size)
{
    td_error was = *td_last_error();
    finding f = {0};
    if (c->daemon.is_private) look(c, &(quest){.name = name, .thing = got_from ? GOT_FROM : PUT_INTO}, true, &f);
    *(td_error *)td_last_error() = was;
    if (f.with)
        say_one(text, size,
                got_from ? "a queue of this name with a consumer" : "a queue of this name with items or a producer",
                &f);
    return f.with;
}

td_client *td_connect_for(const char *name, int timeout_ms, bool *another, bool (*stop)(void *), void *context)
{
    patience p = {timeout_ms < 0 ? INT64_MAX : td_now_ms() + timeout_ms, stop, context};
    int64_t pause = AGAIN_MS;
    for (bool over = false; !over;) {
        over = td_now_ms() >= p.until || is_over(&p);
        if (td_daemon_runs()) break;
        finding f = seek(&(quest){.name = name}, "", (patience){INT64_MAX, stop, context});
        td_step_aside();
        td_client *c = f.with == 1 ? td_connect_until(f.at.path, stop, context) : NULL;
        if (!c && f.with <= 1 && !over) usleep((useconds_t)pause * 1000);
        td_step_back();
        pause = pause * 3 / 2 < SELDOM_MS ? pause * 3 / 2 : SELDOM_MS;
        *another = c != NULL;
        if (c) return c;
        if (f.with > 1) break;
    }
    *another = false;
    td_clear_error();
    td_step_aside();
    td_client *c = td_connect_until(NULL, stop, context);
    td_step_back();
    return c;
}
