/* What ops save for a backward, told to the program: it may keep that itself, and give it back when a backward asks.
 *
 * While a thread wants to know, its ops say so in their records; behind each the daemon is asked for what its nodes
 * saved, one value a request, which also says what became of the one before. The daemon has one list for all threads:
 * so one thread at a time asks, from the record of its op to the last value. */
#include "client/grad/hook.h"
#include "client/tensor/array.h"
#include "client/tensor/saving.h"

#include <stdio.h>

TD_API uint32_t td_hook_number(td_client *c)
{
    if (td_enter(c, "hook_number")) return 0;
    uint32_t number = td_new_hook(c);
    td_leave(c);
    return number;
}

typedef struct telling {
    td_reply_wait wait;
    td_saved_value *out;
} telling;

static int on_saved(td_client *c, td_reply_wait *w, const td_reply *r, int *fd, td_error *e)
{
    (void)c, (void)fd;
    telling *x = w->context;
    const Td__Wire__SavedFacts *f = r->saved;
    td_saved_value *out = x->out;
    if (!f) return TD_OK;
    out->hook = f->hook, out->output = f->output, out->freed = f->freed, out->index = (int)f->index;
    snprintf(out->name, sizeof out->name, "%s", f->name);
    if (f->desc) return td_take_shape(out->value, f->desc, e);
    td_array_drop(out->value);
    out->value = NULL;
    return TD_OK;
}

/* Under the lock. out->value comes with a handle, and keeps it when there is a value. */
static int ask(td_client *c, Td__Wire__Saved *saved, td_saved_value *out, const char *op)
{
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    telling x = {.wait = {.on_reply = on_saved}, .out = out};
    x.wait.context = &x;
    *out = (td_saved_value){0};
    int rc = td_arrays_unknown(c, 1, &out->value);
    if (rc) return rc;
    saved->id = out->value->id;
    call.saved = saved;
    td_hand_on(c);
    rc = td_ask_and_wait(c, &call, -1, &x.wait, op);
    if (!rc && out->name[0]) return TD_OK;
    if (out->value && x.wait.done && !x.wait.untaken) td_array_drop(out->value);
    else if (out->value) td_array_free(out->value);
    out->value = NULL;
    return rc;
}

TD_API int td_graph_saved(td_client *c, uint32_t node, int slot, td_saved_value *out)
{
    *out = (td_saved_value){0};
    int rc = td_enter(c, "graph_saved");
    if (rc) return rc;
    Td__Wire__Saved saved = TD__WIRE__SAVED__INIT;
    saved.of = node, saved.slot = (uint32_t)slot;
    rc = ask(c, &saved, out, "graph_saved");
    td_leave(c);
    return rc;
}

TD_API uint32_t td_graph_pack(td_client *c, uint32_t node, int slot, uint32_t hook)
{
    if (td_enter(c, "graph_pack")) return 0;
    Td__Wire__Saved saved = TD__WIRE__SAVED__INIT;
    td_saved_value none;
    saved.of = node, saved.slot = (uint32_t)slot, saved.pack = hook;
    int rc = ask(c, &saved, &none, "graph_pack");
    td_leave(c);
    return rc ? 0 : hook;
}

/* The next one, and a number for it; `pack`: the one before was packed as that. */
static int next(td_client *c, uint32_t pack, td_saved_value *out, uint32_t *number)
{
    int rc = td_enter(c, "saved");
    if (rc) return rc;
    Td__Wire__Saved saved = TD__WIRE__SAVED__INIT;
    saved.pack = pack;
    rc = ask(c, &saved, out, "saved");
    *number = rc || !out->value ? 0 : td_new_hook(c);
    td_leave(c);
    return rc;
}

static bool is_telling(const td_client *c)
{
    return c->grad.telling && pthread_equal(c->grad.teller, pthread_self());
}

/* Threads of the parent tell nothing in its forked child. */
static void forked(td_client *c)
{
    if (!is_telling(c)) c->grad.telling = 0;
}

/* One thread at a time. */
static int begin(td_client *c, const char *op)
{
    if (c->grad.telling && !is_telling(c)) {
        c->threads.blocked++;
        c->threads.waiting++;
        td_step_aside();
        while (c->grad.telling) pthread_cond_wait(&c->wake, &c->lock);
        c->threads.waiting--;
        c->threads.blocked--;
    }
    if (c->lost) { /* meanwhile */
        td_leave(c);
        return td_enter(c, op);
    }
    c->above.forked = forked;
    c->grad.teller = pthread_self();
    c->grad.telling++; /* what packs may want to know itself */
    return TD_OK;
}

static void over(td_client *c)
{
    if (is_telling(c) && !--c->grad.telling && c->threads.waiting) pthread_cond_broadcast(&c->wake);
}

static int tell(td_client *c)
{
    td_saving asks = td_is_saving;
    td_saved_value saved;
    uint32_t number, pack = 0;
    int failed = TD_OK;
    bool before = td_set_grad_enabled(false);
    td_is_saving.take = NULL;
    td_error why = {0};
    for (;;) { /* to the end also after a failure: the next op begins with its own */
        int rc = next(c, pack, &saved, &number), how = 0;
        if (!rc && !saved.value) break;
        if (!rc && !failed) how = asks.take(c, &saved, number, asks.context);
        if (how != 0 && how != 1) rc = td_raise(TD_E_CANCELLED, "saved", "what packs saved tensors gave up");
        td_release(saved.value);
        pack = how == 1 ? number : 0;
        if (rc && failed) break;
        if (rc) why = *td_last_error();
        failed |= rc;
    }
    td_is_saving = asks;
    td_set_grad_enabled(before);
    td_lock(c);
    over(c);
    td_unlock(c);
    return failed ? td_raise_error(&why, NULL, NULL) : TD_OK;
}

TD_API void td_set_on_saved(td_on_saved wanted, void *context)
{
    td_is_saving = (td_saving){wanted, context, begin, over, tell};
}
