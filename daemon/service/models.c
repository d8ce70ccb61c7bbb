/* Models: their names, their versions, and how these come and go. See models.h. */
#include "daemon/service/model.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>

enum { LANE_BYTES = 8 << 10 /* of a lane: its owner, its flow, its batch */ };

/* ---- names */

static td_named_model *find(const td_service *s, const char *name)
{
    td_named_model *m;
    HASH_FIND_STR(s->models, name, m);
    return m;
}

void td_model_ref(td_named_model *m)
{
    m->refs++;
}

void td_model_unref(td_named_model *m)
{
    if (!m || --m->refs) return;
    td_service *s = m->service;
    if (s->models_at == m) s->models_at = m->hh.next;
    HASH_DEL(s->models, m);
    free(m);
}

/* Counted. */
static td_named_model *need(td_service *s, const char *name, td_error *e)
{
    td_named_model *m = find(s, name);
    if (m) return m->refs++, m;
    m = calloc(1, sizeof *m);
    if (!m) return td_no_memory(e, "for the model '%s'", name), NULL;
    m->service = s;
    m->refs = 1;
    snprintf(m->name, sizeof m->name, "%s", name);
    HASH_ADD_STR(s->models, name, m);
    if (TD_HASHED(m)) return m;
    free(m);
    return td_no_memory(e, "for the model '%s'", name), NULL;
}

const char *td_model_name(const td_named_model *m)
{
    return m->name;
}

/* The newest of this number that the name may mean; 0: of any. */
static td_served *ready_one(const td_named_model *m, uint32_t number)
{
    td_served *v = m->versions;
    while (v && (v->state != TD_READY || (number && v->number != number))) v = v->next;
    return v;
}

static int no_version(const td_service *s, const td_named_model *m, const char *name, uint32_t number, td_error *e)
{
    char has[96] = "";
    size_t n = 0;
    for (const td_served *v = m ? m->versions : NULL; v && n < sizeof has - 16; v = v->next)
        if (v->state == TD_READY)
            n += (size_t)snprintf(has + n, sizeof has - n, "%s%u", n ? ", " : "", (unsigned)v->number);
    if (n) return td_fail(e, TD_E_NOT_FOUND, "the model '%s' has no version %u; it has %s", name, number, has);
    return td_fail(e, TD_E_NOT_FOUND, "no model is served as '%s' (%u have names; `tensorctl models` lists them)", name,
                   HASH_COUNT(s->models));
}

/* ---- versions */

void td_served_unref(td_served *v)
{
    if (--v->refs) return;
    td_account_discharge(v->account, 0, v->objects);
    td_account_unref(v->account);
    for (uint32_t k = 0; k < v->nlanes; k++) td_served_run_free(v->lanes[k].batch);
    td_model_unref(v->of);
    free(v->card);
    free(v->looks);
    free(v);
}

static void unlink_version(td_served *v)
{
    td_served **at = &v->of->versions;
    while (*at != v) at = &(*at)->next;
    *at = v->next;
}

/* To the system: not to wait warm for whoever needs some next. */
static void give_back(td_heap **h)
{
    td_heap_distrust(*h);
    td_heap_orphan(*h, false);
    *h = NULL;
}

/* All that it has goes, at once: what others still have of it is outputs. */
static void end(td_served *v)
{
    v->state = TD_GONE;
    unlink_version(v);
    td_deadline_disarm(v->of->service, &v->delay);
    td_deadline_disarm(v->of->service, &v->grace);
    for (uint32_t k = 0; k < v->nlanes; k++) td_owner_end(v->lanes[k].owner);
    td_program_unref(v->program);
    v->program = NULL;
    give_back(&v->weights);
    give_back(&v->work);
    v->account->ended = true;
    td_served_unref(v);
}

void td_served_look(td_served *v)
{
    if (v->state == TD_RETIRING && !v->waiting && !v->running) end(v);
}

static uint64_t settled(const td_served *v)
{
    return v->counts.answered + v->counts.failed + v->counts.expired + v->counts.cancelled;
}

static void begin_grace(td_served *v);

static void grace_is_over(void *served)
{
    td_served *v = served;
    td_error why = {0};
    if (settled(v) != v->settled) {
        begin_grace(v);
        return;
    }
    td_fail(&why, TD_E_CANCELLED, "version %u of the model '%s' was retired, and has answered nobody for %d s",
            v->number, v->of->name, TD_MODEL_GRACE_S);
    td_served_fail_all(v, &why); /* runs without requests end with their next step */
}

static void begin_grace(td_served *v)
{
    v->settled = settled(v);
    td_deadline_arm(v->of->service, &v->grace, TD_MODEL_GRACE_S * 1000, grace_is_over, v);
}

static void retire(td_served *v)
{
    if (v->state != TD_READY && v->state != TD_WARMING) return;
    if (v->of->serving == v) v->of->serving = NULL;
    v->state = TD_RETIRING;
    begin_grace(v);
    td_served_start(v); /* no others come that its requests would wait for */
    td_served_look(v);
}

/* The name means the newest that is left, or nothing, and is gone then. */
static void serve_another(td_named_model *m)
{
    if (m->serving) return;
    m->serving = ready_one(m, 0);
    if (!m->serving) td_name_drop_model(m->service, m);
}

void td_model_unnamed(td_named_model *m)
{
    td_model_ref(m);
    for (td_served *v = m->versions, *next; v; v = next) {
        next = v->next;
        if (v->state == TD_READY) retire(v);
    }
    td_model_unref(m);
}

/* ---- loading */

static int charge(td_served *v, uint64_t objects, td_error *e)
{
    int rc = td_account_charge(v->account, 0, objects, e);
    if (!rc) v->objects += objects;
    return rc;
}

static int open_lane(td_served *v, td_error *e)
{
    td_lane *l = &v->lanes[v->nlanes];
    char name[sizeof v->account->name];
    snprintf(name, sizeof name, "%s", v->account->name);
    int rc = charge(v, td_objects_of(LANE_BYTES), e);
    if (!rc) rc = td_owner_new(&l->owner, v->of->service, v->account, name, e);
    if (rc) return rc;
    l->batch = td_served_run_new(l->owner, e);
    if (!l->batch) {
        td_owner_end(l->owner);
        return e->code;
    }
    td_issuer *who = &l->owner->issuer;
    who->heap = v->work;
    who->service_heap = v->weights;
    who->service_account = v->account;
    v->idle |= UINT64_C(1) << v->nlanes++;
    return TD_OK;
}

static int set_up(td_served *v, td_account *who, td_error *e)
{
    td_service *s = v->of->service;
    v->account = td_account_new(who->parent ? who->parent : s->account);
    if (!v->account) return td_no_memory(e, "for the model '%s'", v->of->name);
    v->account->uid = who->uid;
    char shown[TD_NAME_MAX + 1];
    td_text_visible(shown, sizeof shown, v->of->name);
    snprintf(v->account->name, sizeof v->account->name, "model %.24s", shown);
    int rc = charge(v, td_objects_of(sizeof *v + v->card_bytes), e);
    if (rc) return rc;
    rc = td_heap_new(&v->weights, &s->budget, TD_SEGMENT_SERVICE, 0, e);
    if (!rc) rc = td_heap_new(&v->work, &s->budget, TD_SEGMENT_SERVICE, 0, e);
    return rc ? rc : open_lane(v, e);
}

static char *copy_text(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy) return NULL;
    if (n) memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

static int check_card(size_t bytes, td_error *e)
{
    if (bytes <= TD_MODEL_CARD) return TD_OK;
    return td_fail(e, TD_E_INVALID, "the card of a model has at most %d bytes; this one has %zu", TD_MODEL_CARD, bytes);
}

static void discard(td_served *v)
{
    for (uint32_t k = 0; k < v->nlanes; k++) td_owner_end(v->lanes[k].owner);
    if (v->weights) td_heap_free(v->weights);
    if (v->work) td_heap_free(v->work);
    td_served_unref(v);
}

/* Takes the reference to m over. */
static td_served *served_new(td_named_model *m, uint32_t number, unsigned flags, const char *card, size_t card_bytes,
                             td_account *who, td_error *e)
{
    td_served *v = calloc(1, sizeof *v);
    char *text = copy_text(card, card_bytes);
    if (!v || !text) {
        free(v);
        free(text);
        td_model_unref(m);
        return td_no_memory(e, "for the model's card"), NULL;
    }
    *v = (td_served){.refs = 1,
                     .of = m,
                     .flags = flags,
                     .card = text,
                     .card_bytes = card_bytes,
                     .pid = who->pid,
                     .since_ms = td_clock_ms()};
    snprintf(v->program_name, sizeof v->program_name, "%s", who->name);
    if (set_up(v, who, e)) {
        discard(v);
        return NULL;
    }
    v->number = number;
    if (v->number > m->last) m->last = v->number;
    v->next = m->versions;
    m->versions = v;
    return v;
}

static void join(td_model_user *u, td_named_model *m, td_served *pinned)
{
    td_model_ref(m);
    m->users++;
    if (pinned) td_served_ref(pinned)->users++;
    *u = (td_model_user){.of = m, .pinned = pinned};
}

static int choose_number(const td_named_model *m, uint32_t asked, uint32_t *number, td_error *e)
{
    *number = asked ? asked : m->last + 1;
    if (*number <= TD_MODEL_LAST) return TD_OK;
    return asked ? td_fail(e, TD_E_INVALID, "a version's number is at most %d; this one is %u", TD_MODEL_LAST, asked)
                 : td_fail(e, TD_E_QUOTA, "the model '%s' has had version %u, and none comes behind that: say a number",
                           m->name, m->last);
}

int td_model_new(td_model_user *out, td_service *s, const char *name, uint32_t number, unsigned flags, const char *card,
                 size_t card_bytes, td_account *who, td_error *e)
{
    int rc = check_card(card_bytes, e);
    if (!rc) rc = td_name_for_model(s, name, who, flags & TD_SERVED_NEW, e);
    td_named_model *m = rc ? NULL : need(s, name, e);
    if (!m) return e->code;
    if ((rc = choose_number(m, number, &number, e))) return td_model_unref(m), rc;
    td_served *v = served_new(m, number, flags, card, card_bytes, who, e);
    if (!v) return e->code;
    join(out, m, v);
    return TD_OK;
}

td_issuer *td_served_issuer(td_served *v)
{
    return &v->lanes[0].owner->issuer;
}

int td_served_program(td_served *v, const td_held_program *like, td_tensor *const *captured, td_error *e)
{
    if (td_program_accumulates(like))
        return td_fail(e, TD_E_UNSUPPORTED, "the program has a backward that adds to .grad; a model has none");
    if (td_program_parameters(like) > TD_MODEL_ENDS)
        return td_fail(e, TD_E_UNSUPPORTED, "the program takes %u tensors; a model takes at most %d",
                       td_program_parameters(like), TD_MODEL_ENDS);
    return td_program_like(&v->program, like, captured, v->account, e);
}

static int check_how(const td_served *v, const td_model_how *h, td_error *e)
{
    if (h->nin != td_served_inputs(v) || h->nout > TD_MODEL_ENDS)
        return td_fail(e, TD_E_INVALID, "%u inputs and %u outputs are said of a model that takes %u", h->nin, h->nout,
                       td_served_inputs(v));
    if (h->nsizes > TD_MODEL_SIZES || h->lanes > TD_MODEL_LANES || h->queue > 64 * TD_MODEL_QUEUE)
        return td_fail(e, TD_E_INVALID,
                       "a model has at most %d sizes of batches, %d runs at once and %d requests that wait",
                       TD_MODEL_SIZES, TD_MODEL_LANES, 64 * TD_MODEL_QUEUE);
    for (int k = 0; k < h->nsizes; k++)
        if (h->sizes[k] > TD_MODEL_ROWS || h->sizes[k] <= (k ? h->sizes[k - 1] : 0))
            return td_fail(e, TD_E_INVALID, "sizes of batches grow from 1 on, up to %d rows", TD_MODEL_ROWS);
    return TD_OK;
}

static int take_card(td_served *v, const char *card, size_t n, td_error *e)
{
    int rc = check_card(n, e);
    if (!rc && n > v->card_bytes) rc = charge(v, td_objects_of(n - v->card_bytes), e);
    if (rc) return rc;
    char *copy = copy_text(card, n);
    if (!copy) return td_no_memory(e, "for the model's card");
    free(v->card);
    v->card = copy;
    v->card_bytes = n;
    return TD_OK;
}

/* Runs with more rows than any will have again took memory in proportion; it is large, and would wait for seconds. */
static void shed_trials(td_served *v)
{
    const td_model_how *h = &v->how;
    uint32_t most = h->sizes[h->nsizes - 1];
    bool more = false;
    if (h->tried <= most) return;
    td_heap_settle(v->work, true, NULL, NULL, &more);
    td_budget_shed_larger(&v->of->service->budget, TD_SEGMENT_SERVICE, most, h->tried);
}

/* From here on the name means it. */
static void switch_to(td_served *v)
{
    td_named_model *m = v->of;
    v->state = TD_READY;
    m->serving = v;
    for (td_served *w = m->versions, *next; w; w = next) {
        next = w->next;
        bool stays = v->flags & TD_SERVED_KEEP_OLD && w->number != v->number;
        if (w != v && w->state == TD_READY && !stays) retire(w);
    }
}

static int take_how(td_served *v, const td_model_how *how, td_error *e)
{
    v->how = *how;
    if (!v->how.nsizes) v->how.sizes[v->how.nsizes++] = 1;
    if (!how->by_look || v->how.sizes[v->how.nsizes - 1] < 2 || v->looks) return TD_OK;
    int rc = charge(v, td_looks_objects(v), e);
    return rc ? rc : td_looks_new(v, e);
}

int td_model_ready(td_model_user *u, const td_model_how *how, const char *card, size_t card_bytes,
                   const td_account *who, td_error *e)
{
    td_served *v = u->pinned;
    if (!v || v->state != TD_WARMING || !v->program)
        return td_fail(e, TD_E_INVALID, "this is no version of a model that is being loaded");
    td_named_model *m = v->of;
    int rc = check_how(v, how, e);
    while (!rc && v->nlanes < how->lanes) rc = open_lane(v, e);
    if (!rc && card_bytes) rc = take_card(v, card, card_bytes, e);
    if (!rc) rc = take_how(v, how, e);
    if (!rc) rc = td_name_publish_model(m->service, m->name, m, who, v->flags & TD_SERVED_NEW, e);
    if (rc) return rc;
    v->counts = (td_model_counts){0}; /* runs that made it warm are nobody's requests */
    shed_trials(v);
    switch_to(v);
    u->pinned = NULL;
    v->users--;
    td_served_unref(v);
    return TD_OK;
}

/* ---- for all */

int td_model_join(td_model_user *out, td_service *s, const char *name, uint32_t number, td_error *e)
{
    td_named_model *m = find(s, name);
    td_served *v = m && m->serving ? (number ? ready_one(m, number) : m->serving) : NULL;
    if (!v) return no_version(s, m, name, number, e);
    join(out, m, number ? v : NULL);
    return TD_OK;
}

/* Nobody has it open. */
static void forsaken(td_named_model *m)
{
    for (td_served *v = m->versions, *next; v; v = next) {
        next = v->next;
        if (v->state == TD_READY && v->flags & TD_SERVED_WHILE_OPEN) retire(v);
    }
    serve_another(m);
}

void td_model_leave(td_model_user *u)
{
    td_named_model *m = u->of;
    td_served *v = u->pinned;
    if (!m) return;
    *u = (td_model_user){0};
    if (v && --v->users == 0 && v->state == TD_WARMING) {
        td_error why = {0};
        td_fail(&why, TD_E_CANCELLED, "the model '%s' is not loaded any more", m->name);
        td_served_fail_all(v, &why);
        retire(v);
    }
    if (v) td_served_unref(v);
    if (--m->users == 0 && m->serving) forsaken(m);
    td_model_unref(m);
}

td_served *td_model_served(const td_model_user *u, td_error *e)
{
    td_served *v = u->pinned ? u->pinned : u->of->serving;
    if (!v) return no_version(u->of->service, NULL, u->of->name, 0, e), NULL;
    if (v->state == TD_READY || (v->state == TD_WARMING && v->program)) return v;
    if (v->state == TD_WARMING) td_fail(e, TD_E_BUSY, "the model '%s' is being copied", u->of->name);
    else td_fail(e, TD_E_CLOSED, "version %u of the model '%s' was retired", v->number, u->of->name);
    return NULL;
}

uint32_t td_served_number(const td_served *v)
{
    return v->number;
}

const char *td_served_card(const td_served *v, size_t *bytes)
{
    *bytes = v->card_bytes;
    return v->card;
}

uint32_t td_served_inputs(const td_served *v)
{
    return v->program ? td_program_parameters(v->program) : 0;
}

int td_model_serve(td_service *s, const char *name, uint32_t number, const td_account *who, td_error *e)
{
    td_named_model *m = find(s, name);
    td_served *v = m && m->serving ? ready_one(m, number) : NULL;
    if (!v) return no_version(s, m, name, number, e);
    int rc = td_name_for_model(s, name, who, false, e);
    if (rc) return rc;
    m->serving = v;
    return TD_OK;
}

int td_model_retire(td_service *s, const char *name, uint32_t number, const td_account *who, td_error *e)
{
    td_named_model *m = find(s, name);
    td_served *v = m && m->serving ? ready_one(m, number) : NULL;
    if (!v) return no_version(s, m, name, number, e);
    if (!number) return td_name_drop(s, name, who, e);
    int rc = td_name_for_model(s, name, who, false, e);
    if (rc) return rc;
    td_model_ref(m);
    retire(v);
    serve_another(m);
    td_model_unref(m);
    return TD_OK;
}

uint64_t td_models_settle(td_service *s, bool at_once, bool *more)
{
    uint64_t bytes = 0;
    for (td_named_model *m = s->models; m; m = m->hh.next)
        for (td_served *v = m->versions; v; v = v->next) {
            bytes += v->weights ? td_heap_settle(v->weights, at_once, NULL, NULL, more) : 0;
            bytes += v->work ? td_heap_settle(v->work, at_once, NULL, NULL, more) : 0;
        }
    return bytes;
}

void td_models_drop(td_service *s)
{
    td_error why = {0};
    td_fail(&why, TD_E_CANCELLED, "the daemon ends");
    for (td_named_model *m = s->models, *next_model; m; m = next_model) {
        td_model_ref(m);
        for (td_served *v = m->versions, *next; v; v = next) {
            next = v->next;
            td_served_ref(v);
            td_served_fail_all(v, &why);
            retire(v);
            if (v->state == TD_RETIRING) end(v); /* its runs go with their owners */
            td_served_unref(v);
        }
        next_model = m->hh.next;
        td_model_unref(m);
    }
}

/* ---- looking */

static uint64_t used_by(const td_heap *h, uint64_t *committed)
{
    td_heap_stats st = {0};
    if (h) td_heap_get_stats(h, &st);
    *committed += st.committed;
    return st.used;
}

static void tell(const td_served *v, void (*fn)(const td_model_info *m, void *arg), void *arg)
{
    static const char *const states[] = {"warming", "ready", "retiring", "gone"};
    td_model_info i = {.name = v->of->name,
                       .state = states[v->state],
                       .program = v->program_name,
                       .version = v->number,
                       .pid = v->pid,
                       .uid = v->account->uid,
                       .waiting = v->waiting,
                       .running = v->running,
                       .users = v->of->users,
                       .serves = v->of->serving == v,
                       .since_ms = v->since_ms,
                       .how = &v->how,
                       .counts = &v->counts};
    i.bytes = used_by(v->weights, &i.committed) + used_by(v->work, &i.committed);
    fn(&i, arg);
}

td_held_program *td_model_program(const td_named_model *m)
{
    return m->serving ? m->serving->program : NULL;
}

uint64_t td_model_tell(const td_named_model *m, char *what, size_t size)
{
    uint64_t bytes = 0, committed = 0;
    unsigned n = 0;
    for (const td_served *v = m->versions; v; v = v->next, n++)
        bytes += used_by(v->weights, &committed) + used_by(v->work, &committed);
    if (n == 1) snprintf(what, size, "model, version %u", m->versions->number);
    else snprintf(what, size, "model of %u versions, %u of them serves", n, m->serving ? m->serving->number : 0);
    return bytes;
}

bool td_model_some(td_service *s, bool first, uint32_t most, void (*fn)(const td_model_info *m, void *arg), void *arg)
{
    td_named_model *m = first ? s->models : s->models_at;
    for (; m && most; m = m->hh.next, most--)
        for (const td_served *v = m->versions; v; v = v->next) tell(v, fn, arg);
    s->models_at = m;
    return !m;
}

/* ---- times: four places for each doubling */

void td_times_add(td_times *t, uint64_t ns)
{
    uint64_t us = ns / 1000, k = 0;
    if (us) {
        unsigned top = 63 - (unsigned)__builtin_clzll(us);
        uint64_t part = top >= 2 ? us >> (top - 2) & 3 : us << (2 - top) & 3;
        k = 4 * (uint64_t)top + part;
    }
    t->count++;
    t->sum_ns += ns;
    t->within[k < TD_MODEL_TIMES ? k : TD_MODEL_TIMES - 1]++;
}

double td_times_quantile(const td_times *t, double part)
{
    uint64_t seen = 0;
    for (int k = 0; k < TD_MODEL_TIMES; k++) {
        seen += t->within[k];
        if (seen && (double)seen >= part * (double)t->count) {
            double from = (double)(UINT64_C(1) << (k / 4));
            return k ? from * (1 + (double)(k % 4 + 1) / 4) : 1;
        }
    }
    return 0;
}
