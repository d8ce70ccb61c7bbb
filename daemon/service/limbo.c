/* Limbo: members between the end of their connection and that of their process.
 *
 * A process that is killed closes its connections a moment before it has ended. So a member is watched: when its
 * process ends within TD_GROUP_LIMBO_MS it has died, else it has left. One that has left its seat is watched on, as
 * what it had claimed is others' to do when it dies. All members of a process have one descriptor and one deadline
 * between them, so a client cannot make these grow with its seats, and a turn looks at a part of them. */
#include "daemon/service/seats.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOK_MS = 2, LOOK_LATER_MS = 50, AT_ONCE = 32 };

struct td_limbo {
    td_limbo *next, **at; /* of all */
    td_service *service;
    uint32_t pid;
    int process;                                  /* a descriptor that tells of its end */
    td_group_member *fresh, **last_fresh, *later; /* those of which it is not told yet, the oldest first; and others */
    td_deadline look;
};

static void link_to(td_limbo *l, td_group_member *m, td_group_member **at)
{
    m->limbo.of = l;
    m->limbo.at = at;
    m->limbo.next = *at;
    if (*at) (*at)->limbo.at = &m->limbo.next;
    *at = m;
    if (at == l->last_fresh) l->last_fresh = &m->limbo.next;
}

static void unlink_from(td_limbo *l, td_group_member *m)
{
    if (l->last_fresh == &m->limbo.next) l->last_fresh = m->limbo.at;
    *m->limbo.at = m->limbo.next;
    if (m->limbo.next) m->limbo.next->limbo.at = m->limbo.at;
    m->limbo.of = NULL;
}

static void end(td_limbo *l)
{
    if (l->look.armed) td_deadline_disarm(l->service, &l->look);
    close(l->process);
    *l->at = l->next;
    if (l->next) l->next->at = l->at;
    free(l);
}

void td_limbo_leave(td_group_member *m)
{
    td_limbo *l = m->limbo.of;
    if (!l) return;
    unlink_from(l, m);
    if (!l->fresh && !l->later) end(l);
}

static bool has_ended(const td_limbo *l)
{
    struct pollfd p = {.fd = l->process, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void look(void *limbo);

static void look_in(td_limbo *l, uint64_t ms)
{
    if (l->look.armed) td_deadline_disarm(l->service, &l->look);
    td_deadline_arm(l->service, &l->look, ms, look, l);
}

/* With the last of them it is gone itself. */
static void all_have_died(td_limbo *l)
{
    for (int n = 0; n < AT_ONCE; n++) {
        td_group_member *m = l->fresh ? l->fresh : l->later;
        bool last = !m->limbo.next && (m == l->later || !l->later);
        td_group_over(m, TD_RANK_DEAD);
        if (last) return;
    }
    look_in(l, 0);
}

static void look(void *limbo)
{
    td_limbo *l = limbo;
    if (has_ended(l)) {
        all_have_died(l);
        return;
    }
    uint64_t now = td_clock_ms();
    for (int n = 0; n < AT_ONCE && l->fresh && now >= l->fresh->limbo.ends; n++) {
        td_group_member *m = l->fresh;
        bool last = !m->limbo.next && !l->later;
        if (m->epoch) {
            unlink_from(l, m);
            link_to(l, m, &l->later);
            td_group_tell(m, TD_RANK_CUT);
            continue;
        }
        td_group_over(m, TD_RANK_CUT); /* nothing that it had claimed is others' to do */
        if (last) return;
    }
    look_in(l, l->fresh ? LOOK_MS : LOOK_LATER_MS);
}

static td_limbo *new_limbo(td_service *s, uint32_t pid)
{
    errno = 0;
    int fd = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1; /* 0: of another pid namespace */
    td_limbo *l = fd >= 0 ? calloc(1, sizeof *l) : NULL;
    if (!l) {
        if (fd >= 0) close(fd);
        return NULL;
    }
    *l = (td_limbo){.next = s->groups.limbos, .at = &s->groups.limbos, .service = s, .pid = pid, .process = fd};
    l->last_fresh = &l->fresh;
    if (l->next) l->next->at = &l->next;
    s->groups.limbos = l;
    return l;
}

/* Its number may be that of another process by now. NULL with errno ESRCH: it has ended. */
static td_limbo *limbo_of(td_service *s, uint32_t pid)
{
    td_limbo *l = s->groups.limbos;
    while (l && l->pid != pid) l = l->next;
    return l && !has_ended(l) ? l : new_limbo(s, pid);
}

bool td_limbo_join(td_group_member *m)
{
    td_limbo *l = limbo_of(m->group->service, m->pid);
    if (!l) {
        bool ended = errno == ESRCH;
        if (ended) td_group_over(m, TD_RANK_DEAD);
        return ended;
    }
    m->limbo.ends = td_clock_ms() + TD_GROUP_LIMBO_MS;
    link_to(l, m, l->last_fresh);
    look(l);
    return true;
}
