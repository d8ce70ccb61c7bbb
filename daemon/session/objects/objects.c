/* The table from ids to objects: two levels, pages by demand, so that an id costs 24 bytes and a gap costs nothing
 * much.
 *
 * Ids are the client's, but must stay dense: an id may exceed the most that ever lived at once by a factor of 4 (and
 * some), which bounds what a client can make the daemon allocate for nothing. Pages beyond the first are charged, for
 * many ids may stand for one tensor. */
#include "daemon/session/objects/objects.h"

#include <limits.h>
#include <stdlib.h>

enum { PAGE_COST = sizeof(td_object_page) / TD_OBJECT_BYTES }; /* in objects */

static uint32_t highest(const td_objects *o)
{
    uint64_t h = UINT64_C(65536) + 4 * (uint64_t)o->peak;
    return h > TD_MAX_ID ? TD_MAX_ID : (uint32_t)h;
}

int td_objects_check_free(const td_objects *o, uint32_t id, td_error *e)
{
    const td_object *x = td_objects_slot(o, id);
    if (x && (x->tensor || x->cause)) return td_fail(e, TD_E_EXISTS, "id %u is in use; release it first", id);
    if (id > highest(o))
        return td_fail(e, TD_E_QUOTA,
                       "id %u is too far beyond the %u objects that ever lived at once; ids must be dense", id,
                       o->peak);
    return TD_OK;
}

/* Pages are charged without asking, because a failure must find its place too; who binds ids to what is there already
 * asks for room first. */
static td_object_page *page_new(td_objects *o, uint32_t p)
{
    td_object_page *page = p ? o->spare : NULL; /* the spare one is charged, the first page never is */
    if (page) {
        o->spare = NULL;
        return page;
    }
    page = calloc(1, sizeof *page);
    if (page && p) td_account_add(o->account, 0, PAGE_COST);
    return page;
}

static void page_free(td_objects *o, td_object_page *page, bool charged)
{
    if (page && charged) td_account_discharge(o->account, 0, PAGE_COST);
    free(page);
}

static td_object *make_slot(td_objects *o, uint32_t id)
{
    uint32_t p = id / TD_PAGE_OBJECTS;
    if (p >= o->npages) {
        uint32_t n = o->npages ? o->npages : 4;
        while (n <= p) n *= 2;
        td_object_page **pages = realloc(o->pages, n * sizeof *pages);
        if (!pages) return NULL;
        memset(pages + o->npages, 0, (n - o->npages) * sizeof *pages);
        o->pages = pages;
        o->npages = n;
    }
    if (!o->pages[p] && !(o->pages[p] = page_new(o, p))) return NULL;
    return &o->pages[p]->at[id % TD_PAGE_OBJECTS];
}

int td_objects_bind(td_objects *o, uint32_t id, td_tensor *t, td_cause *c, td_error *e)
{
    td_object *x = make_slot(o, id);
    if (!x || x->tensor || x->cause) {
        td_tensor_unref(t);
        td_cause_unref(c);
        return x ? td_fail(e, TD_E_EXISTS, "id %u is bound twice", id) : td_no_memory(e, "for the table of objects");
    }
    *x = (td_object){t ? td_tensor_hold(t) : NULL, c, o->now, o->site};
    td_tensor_unref(t);
    o->pages[id / TD_PAGE_OBJECTS]->live++;
    if (++o->live > o->peak) o->peak = o->live;
    return TD_OK;
}

void td_objects_release(td_objects *o, uint32_t id)
{
    td_object *x = td_objects_find(o, id);
    if (!x) return;
    if (o->handed) td_handed_release(o, id);
    td_object gone = *x;
    *x = (td_object){0};
    o->live--;
    td_object_page **page = &o->pages[id / TD_PAGE_OBJECTS];
    if (--(*page)->live == 0 &&
        id >= TD_PAGE_OBJECTS) { /* the first page stays; of the others one empty is kept, all zero */
        if (o->spare) page_free(o, *page, true);
        else o->spare = *page;
        *page = NULL;
    }
    td_tensor_unhold(gone.tensor);
    td_cause_unref(gone.cause);
}

bool td_objects_drop(td_objects *o, int most)
{
    if (!td_handed_drop(o, &most)) return false;
    for (; o->npages && most > 0; o->npages--) {
        td_object_page *page = o->pages[o->npages - 1];
        if (!page) continue;
        for (uint32_t i = 0; i < TD_PAGE_OBJECTS; i++) {
            td_tensor_unhold(page->at[i].tensor);
            td_cause_unref(page->at[i].cause);
        }
        page_free(o, page, o->npages > 1);
        most -= TD_PAGE_OBJECTS;
    }
    if (o->npages) return false;
    page_free(o, o->spare, true); /* the first page is never spared */
    free(o->pages);
    *o = (td_objects){0};
    return true;
}

void td_objects_deinit(td_objects *o)
{
    while (!td_objects_drop(o, INT_MAX)) {
    }
}

static int copy_page(td_objects *to, const td_object_page *from, uint32_t first, td_error *e)
{
    int rc = TD_OK;
    for (uint32_t i = 0; i < TD_PAGE_OBJECTS && !rc; i++) {
        const td_object *x = &from->at[i];
        if (!x->tensor && !x->cause) continue;
        rc = td_objects_bind(to, first + i, x->tensor ? td_tensor_ref(x->tensor) : NULL,
                             x->cause ? td_cause_ref(x->cause) : NULL, e);
    }
    return rc;
}

int td_objects_copy(td_objects *to, const td_objects *from, uint32_t *page, td_error *e)
{
    to->peak = from->peak;
    while (*page < from->npages && !from->pages[*page]) ++*page;
    if (*page >= from->npages) return TD_OK;
    /* for all that is to come, at each page: others, as many clones, take from the same */
    int rc = td_account_room(to->account, (uint64_t)PAGE_COST * (from->npages - *page), e);
    if (!rc) rc = copy_page(to, from->pages[*page], *page * TD_PAGE_OBJECTS, e);
    ++*page;
    return rc ? rc : TD_AGAIN;
}

td_tensor *td_session_tensor(td_session *s, uint32_t id, td_cause **cause, td_error *e)
{
    *cause = NULL;
    td_object *x = td_objects_find(&s->objects, id);
    if (!x) {
        if (s->copies.partial)
            td_fail(e, TD_E_NOT_FOUND,
                    "the tensor was not there when the process forked: another thread's program held up what made it; "
                    "make it in this process, or fork once it is there");
        else td_fail(e, TD_E_NOT_FOUND, "there is no object with id %u", id);
        return NULL;
    }
    *cause = x->cause;
    if (x->cause && e) *e = x->cause->error;
    return x->tensor;
}

td_tensor *td_session_value_or_why(td_session *s, uint32_t id, td_cause **cause, td_error *e)
{
    td_tensor *t = td_session_tensor(s, id, cause, e);
    td_cause *late = t ? td_late_find(&s->failures.late, t->storage) : NULL;
    if (!late) return t;
    *cause = late;
    if (e) *e = late->error;
    return NULL;
}
