/* Which daemon tensorctl talks to.
 *
 * The one that was named (--socket, --pid, TENSORD_SOCKET); else the one that a program started from here would find;
 * else the only private one that runs. It never guesses between several, and says which it is when there is another. */
#include "client/tensorctl/tensorctl.h"
#include "client/wire/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64 };

static const td_daemon_place *among(const td_daemon_place *list, int count, const char *path)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].path, path) == 0) return &list[i];
    return NULL;
}

static int list_private(td_daemon_place list[MOST])
{
    int count = td_places_list(list, MOST);
    return count < MOST ? count : MOST;
}

const char *ctl_whose(td_client *c)
{
    static char text[96];
    td_daemon_place list[MOST];
    int count = list_private(list);
    return td_places_text(among(list, count, td_socket_path(c)), text, sizeof text);
}

/* ---- one of them ------------------------------------------------------------------------------------------------- */

/* The daemon itself; below a program that has another one, it would be taken for a process of that. */
static td_client *connect_to_daemon(int pid, const td_daemon_place *list, int count)
{
    for (int i = 0; i < count; i++) {
        td_client *c = td_connect(list[i].path);
        if (c && td_daemon_pid(c) == (uint32_t)pid) return c;
        td_disconnect(c);
    }
    return NULL;
}

/* Of the program, of one above it, or the daemon itself. */
static td_client *connect_to_pid(int pid, const td_daemon_place *list, int count)
{
    char path[108];
    td_error e = {0};
    td_relative p;
    bool daemon = td_relative_look(pid, &p) && strcmp(p.name, "tensord") == 0;
    td_client *c = daemon ? connect_to_daemon(pid, list, count) : NULL;
    if (c) return c;
    int s = td_places_find(pid, path, &e);
    if (s >= 0) {
        close(s);
        return td_connect(path);
    }
    if (!daemon && (c = connect_to_daemon(pid, list, count))) return c;
    fprintf(
        stderr,
        "tensorctl: pid %d is neither a private daemon of yours nor a program that has one; tensorctl daemons lists "
        "them\n",
        pid);
    return NULL;
}

static td_client *refuse_to_guess(const td_daemon_place *list, int count)
{
    fprintf(stderr, "tensorctl: the user's daemon does not run, but %d private ones do; say which with --pid:\n",
            count);
    for (int i = 0; i < count; i++) {
        char text[96];
        td_places_text(&list[i], text, sizeof text);
        fprintf(stderr, "  --pid %-8d %s, at %s\n", (int)list[i].program, text, list[i].path);
    }
    return NULL;
}

/* On stderr, so that tables and JSON stay what they are. */
static void announce(td_client *c, bool named)
{
    td_daemon_place list[MOST];
    int count = list_private(list);
    const td_daemon_place *this = among(list, count, td_socket_path(c));
    int others = count - (this != NULL);
    char text[96];
    if (!this && (named || !others)) return;
    if (this && this->program == getpid()) return; /* its own, which nobody else sees */
    fprintf(stderr, "%s, at %s", td_places_text(this, text, sizeof text), td_socket_path(c));
    if (others) fprintf(stderr, "; %d other%s: see tensorctl daemons", others, others == 1 ? " runs" : "s run");
    fputc('\n', stderr);
}

td_client *ctl_connect(const ctl_options *o)
{
    td_daemon_place list[MOST];
    int count = list_private(list);
    if (o->pid) {
        td_client *c = connect_to_pid(o->pid, list, count);
        if (c && !o->json) announce(c, true);
        return c;
    }
    bool named = o->socket || getenv("TENSORD_SOCKET");
    td_client *c = td_connect(o->socket);
    bool none = !c && !named && td_last_error()->code == TD_E_NOT_FOUND;
    if (none && count > 1) return refuse_to_guess(list, count);
    if (none && count == 1) c = td_connect(list[0].path);
    if (!c) ctl_fail("connect");
    else if (!o->json) announce(c, named);
    return c;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static int64_t number_of(const td_table *t, const char *key)
{
    for (int r = 0; t && r < t->rows; r++)
        if (t->cells[r * 2].kind == TD_CELL_TEXT && strcmp(t->cells[r * 2].text, key) == 0)
            return t->cells[r * 2 + 1].integer;
    return 0;
}

static void add_daemon(td_table *out, td_client *c, const td_daemon_place *d)
{
    char program[64] = "";
    td_table *t = c ? td_status(c, "status") : NULL;
    if (d) snprintf(program, sizeof program, "%s (pid %d)", d->name[0] ? d->name : "ended", (int)d->program);
    if (t) {
        ctl_row_text(out, 0, d ? "private" : "shared");
        ctl_row_int(out, 1, td_daemon_pid(c));
        ctl_row_text(out, 2, program);
        ctl_row_int(out, 3, number_of(t, "sessions") - 1); /* without this one */
        ctl_row_int(out, 4, number_of(t, "bytes_used"));
        ctl_row_text(out, 5, td_socket_path(c));
    }
    td_table_free(t);
    td_disconnect(c);
}

int ctl_daemons(const ctl_options *o)
{
    static const char *const columns[] = {"kind", "pid", "program", "sessions", "bytes_used", "socket"};
    td_daemon_place list[MOST];
    int count = list_private(list);
    td_table *t = ctl_table_new(6, columns);
    td_client *c = td_connect(o->socket); /* the user's, or the one that was named */
    if (c && !among(list, count, td_socket_path(c))) add_daemon(t, c, NULL);
    else td_disconnect(c);
    for (int i = 0; i < count; i++) add_daemon(t, td_connect(list[i].path), &list[i]);
    ctl_print(t, o->json);
    td_table_free(t);
    return 0;
}
