/* See page.h. */
#include "shm/board/page.h"

#include <string.h>

const char *td_page_policy_name(unsigned policy)
{
    static const char *const names[TD_PAGE_POLICIES] = {"fail", "shrink"};
    return policy < TD_PAGE_POLICIES ? names[policy] : "?";
}

void td_page_init(td_page *page, uint32_t members, uint32_t epoch, td_page_policy policy)
{
    page->policy = policy;
    page->members = members;
    atomic_store(&page->epoch, epoch);
}

void td_page_set(td_page *page, td_page_state state)
{
    atomic_store(&page->state, state);
    atomic_fetch_add(&page->news, 1);
}

static void copy_text(char *to, size_t room, const char *text)
{
    size_t n = text ? strnlen(text, room - 1) : 0;
    if (n) memcpy(to, text, n);
    to[n] = 0;
}

void td_page_join(td_page *page, uint32_t rank, uint32_t pid, const char *program, const char *label)
{
    td_page_rank *r = &page->rank[rank];
    copy_text(r->program, sizeof r->program, program);
    copy_text(r->label, sizeof r->label, label);
    atomic_store(&r->pid, pid);
    atomic_store(&r->state, TD_RANK_IN);
    atomic_fetch_add(&page->news, 1);
}

void td_page_door(td_page *page, uint32_t waiting)
{
    atomic_store(&page->door, waiting);
    atomic_fetch_add(&page->news, 1);
}
