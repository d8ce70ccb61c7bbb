/* Who holds most of a memory: what those are told who are refused some. */
#include "daemon/session/objects/objects.h"
#include "proto/base/text.h"

#include <stdio.h>

enum { HOLDERS = 3, NAMES_MOST = 10000, HOLDERS_SHARE = 20 };

typedef struct holder {
    uint64_t bytes;
    uint32_t pid;
    const char *program, *published; /* published: a name, whose session has ended */
    const td_storage *storage;
} holder;

/* The largest come first. */
static void weigh(holder top[HOLDERS], holder h)
{
    for (int i = 0; i < HOLDERS; i++) {
        if (h.storage && h.storage == top[i].storage) return; /* by another name */
        if (h.bytes <= top[i].bytes) continue;
        holder less = top[i];
        top[i] = h;
        h = less;
    }
}

typedef struct weighing {
    holder top[HOLDERS];
    unsigned device;
    const td_account *of; /* a user's; NULL: all users */
} weighing;

static bool counts(const weighing *w, const td_account *a)
{
    return !w->of || a->uid == w->of->uid;
}

/* What a living session published is among what it holds. */
static void weigh_name(const td_name *n, void *arg)
{
    if (!n->what.tensor) return;
    weighing *w = arg;
    const td_storage *st = n->what.tensor->storage;
    if (st->account && st->account->ended && st->device == w->device && counts(w, n->account))
        weigh(w->top, (holder){st->nbytes, n->pid, n->program, .published = n->name, .storage = st});
}

/* "; biggest holders: train (pid 7) 1.5 GB, 'weights' (published by load, pid 6) 0.5 GB" */
static void name_holders(const td_sessions *all, unsigned device, const td_account *of, char *text, size_t size)
{
    weighing w = {.device = device, .of = of};
    for (const td_session *x = all->first; x; x = x->next)
        if (counts(&w, x->account))
            weigh(w.top, (holder){td_account_bytes(x->account, device), x->pid, x->account->name, .published = NULL});
    td_name_each(all->service, NAMES_MOST, weigh_name, &w);
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < HOLDERS && w.top[i].bytes && n < size; i++) {
        const holder *h = &w.top[i];
        const char *before = i ? ", " : "; biggest holders: ";
        double mb = (double)h->bytes / 1e6;
        char name[61]; /* as it will be shown: others get it in errors */
        int more = h->published
                       ? snprintf(text + n, size - n, "%s'%s' (published by %s, pid %u, which has ended) %.1f MB",
                                  before, td_text_visible(name, sizeof name, h->published), h->program, h->pid, mb)
                       : snprintf(text + n, size - n, "%s%s (pid %u) %.1f MB", before, h->program, h->pid, mb);
        n += (size_t)more;
    }
}

/* To look at all takes time, and who is refused asks again: so it is done in a part of the time. */
void td_holders_add(td_sessions *all, unsigned device, const td_account *of, td_error *e)
{
    uint64_t began = td_clock_ns(), what = device | (of ? (uint64_t)of->uid + 1 : 0) << 8;
    if (began >= all->holders_until_ns) {
        name_holders(all, device, of, all->holders, sizeof all->holders);
        all->holders_of = what;
        all->holders_until_ns = td_clock_rest(began, HOLDERS_SHARE);
    }
    if (all->holders_of != what) return;
    size_t n = strlen(e->message);
    snprintf(e->message + n, sizeof e->message - n, "%s", all->holders);
}
