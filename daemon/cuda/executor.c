/* Calls on a GPU: which go, in which of its streams, and when they have ended.
 *
 * Each flow has a lane, whose tasks go in order; lanes share the streams of the process. A lane takes the stream with
 * least work when its first task is sent, and keeps it while any of its tasks is there. A task behind one of another
 * lane goes when that one has been sent, and its stream waits for that stream as far as it has come then.
 *
 * The loop issues; any thread lets a task go; the channel's thread alone sends, and ends tasks, each after those before
 * it in its lane and after those that it came behind. The lock is for the lists, and is never held where the scheduler
 * is called. */
#include "daemon/cuda/room.h"
#include "daemon/kernels/cuda/launch.h"
#include "daemon/ops/ops.h"
#include "proto/base/device.h"
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 256, COMPUTE = TD_GPU_STREAMS - 1 };

/* A task of a lane, by its place there. */
typedef struct point {
    struct lane *lane;
    uint64_t place;
} point;

/* What has been sent to a stream and has not ended, in order. */
typedef struct mark {
    struct mark *next;
    struct item *item;
    int piece; /* of the staging memory; -1: the end of the item */
    uint64_t at, bytes;
} mark;

typedef struct item {
    struct item *next;
    struct lane *lane;
    td_task *task;
    td_call *call; /* when it was begun and is to run */
    uint64_t place;
    bool may_go, begun, sent, ended;
    int launched; /* of its launches, when they do not fit into one message */
    int nbehind, room;
    point *behind;
    td_cuda_transfer transfer;
    mark end;
} item;

typedef struct lane {
    uint64_t flow;
    uint64_t issued, sent, done; /* places */
    item *first, *last, *unsent;
    int stream; /* while `flying` */
    unsigned flying;
} lane;

typedef struct marks {
    mark *first, *last;
    unsigned count;
} marks;

typedef struct executor {
    td_executor base; /* first */
    td_cuda *cuda;
    item *spare; /* (loop) for the next task */
    pthread_mutex_t lock;
    lane lanes[LANES];
    unsigned nlanes;
    marks streams[TD_GPU_STREAMS]; /* the channel's thread's */
    mark pieces[TD_GPU_PIECES];
    uint64_t marked;
} executor;

/* ---- the loop */

static bool is_idle(const lane *l)
{
    return !l->first;
}

/* The lane of a flow; with very many flows some share one. */
static lane *lane_of(executor *x, uint64_t flow)
{
    lane *idle = NULL;
    for (unsigned i = 0; i < x->nlanes; i++) {
        if (x->lanes[i].flow == flow) return &x->lanes[i];
        if (!idle && is_idle(&x->lanes[i])) idle = &x->lanes[i];
    }
    if (!idle && x->nlanes < LANES) idle = &x->lanes[x->nlanes++];
    if (!idle) return &x->lanes[flow % LANES];
    idle->flow = flow;
    return idle;
}

static int reserve(td_executor *base, td_error *e)
{
    executor *x = (executor *)base;
    if (!x->spare && !(x->spare = malloc(sizeof *x->spare))) return td_no_memory(e, "to queue it");
    return td_gpu_begin(x->cuda->gpu, e);
}

static unsigned issue(td_executor *base, td_task *t)
{
    executor *x = (executor *)base;
    td_cuda_notice(x->cuda);
    item *it = x->spare;
    x->spare = NULL;
    *it = (item){0};
    pthread_mutex_lock(&x->lock);
    lane *l = lane_of(x, td_task_flow(t));
    it->lane = l;
    it->task = t;
    it->place = ++l->issued;
    td_task_set_place(t, it->place);
    if (l->last) l->last->next = it;
    else l->first = it;
    l->last = it;
    if (!l->unsent) l->unsent = it;
    pthread_mutex_unlock(&x->lock);
    return 1 + (unsigned)(l - x->lanes);
}

static item *item_of(executor *x, const td_task *t)
{
    const lane *l = &x->lanes[td_task_stream(t) - 1];
    item *it = l->last->task == t ? l->last : l->unsent;
    while (it->task != t) it = it->next;
    return it;
}

static bool add_behind(item *it, lane *l, uint64_t place)
{
    for (int i = 0; i < it->nbehind; i++) {
        if (it->behind[i].lane != l) continue;
        if (place > it->behind[i].place) it->behind[i].place = place;
        return true;
    }
    if (it->nbehind == it->room) {
        point *more = realloc(it->behind, (size_t)(it->room * 2 + 4) * sizeof *more);
        if (!more) return false;
        it->behind = more;
        it->room = it->room * 2 + 4;
    }
    it->behind[it->nbehind++] = (point){l, place};
    return true;
}

static bool after(td_executor *base, td_task *t, const td_task *from)
{
    executor *x = (executor *)base;
    pthread_mutex_lock(&x->lock);
    bool can = add_behind(item_of(x, t), &x->lanes[td_task_stream(from) - 1], td_task_place(from));
    pthread_mutex_unlock(&x->lock);
    return can;
}

/* ---- any thread */

static void go(td_executor *base, td_task *t, td_chain *ready)
{
    executor *x = (executor *)base;
    (void)ready;
    pthread_mutex_lock(&x->lock);
    item_of(x, t)->may_go = true;
    pthread_mutex_unlock(&x->lock);
    td_gpu_poke(x->cuda->gpu);
}

/* ---- the channel's thread: ends */

static void put_mark(executor *x, item *it, unsigned stream, int piece, uint64_t at, uint64_t bytes)
{
    mark *m = piece < 0 ? &it->end : &x->pieces[piece];
    *m = (mark){NULL, it, piece, at, bytes};
    marks *s = &x->streams[stream];
    if (s->last) s->last->next = m;
    else s->first = m;
    s->last = m;
    s->count++;
    td_gpu_mark_end(x->cuda->gpu, stream, ++x->marked & (UINT64_MAX >> 1));
}

static mark *take_mark(executor *x, unsigned stream)
{
    marks *s = &x->streams[stream];
    mark *m = s->first;
    if (!m) return NULL;
    if (!(s->first = m->next)) s->last = NULL;
    s->count--;
    return m;
}

/* Under the lock: the first task of some lane that is over, taken out. */
static item *take_ended(executor *x)
{
    for (unsigned i = 0; i < x->nlanes; i++) {
        lane *l = &x->lanes[i];
        item *it = l->first;
        bool over = it && it->sent && it->ended;
        for (int j = 0; over && j < it->nbehind; j++) over = it->behind[j].lane->done >= it->behind[j].place;
        if (!over) continue;
        if (!(l->first = it->next)) l->last = NULL;
        l->done = it->place;
        l->flying--;
        return it;
    }
    return NULL;
}

static void end_what_ended(executor *x)
{
    for (;;) {
        pthread_mutex_lock(&x->lock);
        item *it = take_ended(x);
        pthread_mutex_unlock(&x->lock);
        if (!it) return;
        td_task_done(it->task);
        free(it->behind);
        free(it);
    }
}

/* Under the lock. */
static void is_sent(item *it)
{
    it->sent = true;
    it->lane->sent = it->place;
    it->lane->unsent = it->next;
}

/* It was begun: what it writes is lost. */
static void has_failed(item *it, const td_error *why)
{
    if (it->call)
        td_kernel_fail(&it->call->k, TD_E_DEVICE, "%.300s; what this was to write there is lost", why->message);
    if (it->call) td_task_device_failed(it->task);
    it->ended = true;
}

static void ended(void *arg, const td_gpu_end *end, const char *why)
{
    executor *x = arg;
    mark *m = take_mark(x, end->stream);
    if (!m) return;
    item *it = m->item;
    td_kcall *k = &it->call->k;
    if (end->code) td_kernel_fail(k, TD_E_DEVICE, "%s: %s", td_device_name(x->cuda->number), why);
    else if (end->fault.bits) td_cuda_explain(k, &end->fault);
    if (m->piece >= 0) {
        bool up = !it->transfer.down && !end->code;
        if (up) td_cuda_transfer_take(&it->transfer, td_gpu_piece_at(x->cuda->gpu, m->piece), m->at, m->bytes);
        td_gpu_piece_give(x->cuda->gpu, m->piece);
    } else it->ended = true;
    end_what_ended(x);
}

static void lost(void *arg, const td_error *why)
{
    executor *x = arg;
    bool more = false;
    atomic_store(&x->cuda->has_lost, true);
    for (unsigned s = 0; s < TD_GPU_STREAMS; s++)
        for (const mark *m; (m = take_mark(x, s));)
            if (!m->item->ended) has_failed(m->item, why);
    pthread_mutex_lock(&x->lock);
    for (unsigned i = 0; i < x->nlanes; i++) {
        item *it = x->lanes[i].unsent;
        if (it && it->begun) { /* a part of it was sent, if any */
            if (!it->ended) has_failed(it, why);
            is_sent(it);
        }
        more |= x->lanes[i].unsent && x->lanes[i].unsent->may_go;
    }
    pthread_mutex_unlock(&x->lock);
    end_what_ended(x);
    if (more) td_gpu_poke(x->cuda->gpu);
}

/* ---- the channel's thread: sending */

static bool is_next(const lane *l)
{
    const item *it = l->unsent;
    bool next = it && it->may_go;
    for (int i = 0; next && i < it->nbehind; i++) next = it->behind[i].lane->sent >= it->behind[i].place;
    return next;
}

static int least_busy(const executor *x)
{
    int best = 0;
    for (int i = 1; i < COMPUTE; i++)
        if (x->streams[i].count < x->streams[best].count) best = i;
    return best;
}

/* Under the lock: a stream for it, which waits for those that it comes behind. */
static void place_it(executor *x, item *it)
{
    lane *l = it->lane;
    if (!l->flying++) l->stream = least_busy(x);
    unsigned waits = 0;
    for (int i = 0; i < it->nbehind; i++) {
        const lane *from = it->behind[i].lane;
        if (from->done >= it->behind[i].place || !from->flying || from->stream == l->stream) continue;
        waits |= 1u << from->stream;
    }
    for (unsigned s = 0; s < COMPUTE; s++) {
        if (!(waits >> s & 1)) continue;
        td_gpu_wait *c = td_gpu_put(x->cuda->gpu, TD_GPU_WAIT, (unsigned)l->stream, sizeof *c);
        c->other = s;
    }
}

/* Does it work on an arena that has gone? The loop may not have noticed yet. */
static bool works_on_lost(const executor *x, const item *it)
{
    for (int i = 0; i < td_task_naccesses(it->task); i++) {
        const td_storage *s = td_task_access(it->task, i).storage;
        if (s->device != x->cuda->number || !s->extent.segment) continue;
        if (atomic_load(&((const td_gpu_memory *)s->extent.segment->maker)->lost)) return true;
    }
    return false;
}

/* Operands of no dimension in memory of the host: by now their values are known, and travel in the arguments. */
static void take_numbers(td_kcall *k)
{
    bool some = false;
    for (int i = 0; i < k->nin; i++) {
        td_karg *a = (td_karg *)&k->in[i]; /* of a call that this thread has begun */
        if (!a->desc || !a->data || a->desc->device != TD_CPU || td_karg_is_number(a)) continue;
        memcpy(a->number, a->data, td_dtype_size((td_dtype)a->desc->dtype));
        a->data = a->number;
        some = true;
    }
    if (some && k->replan) k->replan(k);
}

static size_t room_for(const td_cuda_launch *l)
{
    if (l->product) return sizeof(td_gpu_product) + td_gpu_put_bytes(sizeof(td_gpu_launch) + TD_CUDA_INSTEAD_BYTES);
    return td_gpu_put_bytes(sizeof(td_gpu_launch) + l->bytes);
}

static size_t room_for_launches(td_kcall *k)
{
    size_t bytes = 0;
    for (int i = 0, n = td_cuda_count(k); i < n; i++) {
        td_cuda_launch l;
        td_cuda_launch_at(k, i, &l);
        bytes += room_for(&l);
    }
    return bytes;
}

/* What all addresses and all steps are multiples of. Extents are aligned, so it follows from where views begin. */
static uint32_t alignment_of(const td_cuda_product *p)
{
    const td_cuda_matrix_at *all[] = {&p->a, &p->b, &p->d};
    uint64_t size = td_dtype_size((td_dtype)p->dtype), bits = TD_CUDA_ALIGNED;
    for (int i = 0; i < 3; i++) bits |= all[i]->at | (p->batch > 1 ? (uint64_t)all[i]->step * size : 0);
    return (uint32_t)(bits & (~bits + 1));
}

/* All but the head. */
static void put_launch(td_gpu_launch *c, const td_cuda_launch *l)
{
    c->kernel = l->kernel;
    c->shared_bytes = l->shared;
    c->args_bytes = l->bytes;
    memcpy(c->grid, l->grid, sizeof c->grid);
    memcpy(c->block, l->block, sizeof c->block);
    memcpy(c + 1, l->args, l->bytes);
}

static void send_product(executor *x, unsigned stream, const td_cuda_launch *l)
{
    td_gpu_product *c = td_gpu_put(x->cuda->gpu, TD_GPU_PRODUCT, stream, room_for(l));
    td_gpu_launch *instead = (td_gpu_launch *)(c + 1);
    uint64_t args[TD_CUDA_INSTEAD_BYTES / 8];
    td_cuda_launch own;
    memcpy(&c->of, l->args, sizeof c->of);
    c->of.alignment = alignment_of(&c->of);
    td_cuda_instead(&c->of, args, &own);
    instead->head = (td_gpu_command){TD_GPU_LAUNCH, (uint16_t)stream, (uint32_t)(room_for(l) - sizeof *c)};
    put_launch(instead, &own);
}

static void send_launch(executor *x, unsigned stream, const td_cuda_launch *l)
{
    if (l->product) {
        send_product(x, stream, l);
        return;
    }
    put_launch(td_gpu_put(x->cuda->gpu, TD_GPU_LAUNCH, stream, sizeof(td_gpu_launch) + l->bytes), l);
}

static void send_launches(executor *x, unsigned stream, td_kcall *k)
{
    for (int i = 0, n = td_cuda_count(k); i < n; i++) {
        td_cuda_launch l;
        td_cuda_launch_at(k, i, &l);
        send_launch(x, stream, &l);
    }
}

/* More than a message takes: one by one. The fault of a task is where its end will be, and another end may come before
 * it, so these are of kernels that find nothing wrong. False: there is no memory for the commands just now. */
static bool send_many(executor *x, item *it, unsigned stream)
{
    td_kcall *k = &it->call->k;
    assert(k->sure);
    for (int n = td_cuda_count(k); it->launched < n; it->launched++) {
        td_cuda_launch l;
        td_cuda_launch_at(k, it->launched, &l);
        if (!td_gpu_room(x->cuda->gpu, room_for(&l))) return false;
        send_launch(x, stream, &l);
    }
    return true;
}

/* False: there is no staging memory just now, or none for the commands. */
static bool send_pieces(executor *x, item *it, unsigned stream)
{
    td_gpu *g = x->cuda->gpu;
    while (it->transfer.sent < it->transfer.bytes) {
        if (!td_gpu_room(g, td_cuda_transfer_room(&it->transfer) + sizeof(td_gpu_mark))) return false;
        int piece = td_gpu_piece_take(g);
        if (piece < 0) return false;
        uint64_t at, n = td_cuda_transfer_send(&it->transfer, g, stream, piece, &at);
        put_mark(x, it, stream, piece, at, n);
    }
    return true;
}

/* The first part of it: what is to run, if anything. */
static void begin(executor *x, item *it, const td_error *why)
{
    pthread_mutex_lock(&x->lock);
    if (why) it->lane->flying++;
    else place_it(x, it);
    pthread_mutex_unlock(&x->lock);
    it->begun = true;
    it->call = td_task_begin(it->task);
    if (!it->call) {
        it->ended = true;
        return;
    }
    td_error gone;
    if (!why && works_on_lost(x, it)) {
        td_fail(&gone, TD_E_DEVICE, "%s failed before this ran: what it works on has gone with its process",
                td_device_name(x->cuda->number));
        why = &gone;
    }
    if (why) {
        has_failed(it, why);
        return;
    }
    td_task_phase(it->task, 0, 1);
    if (it->call->copy) td_cuda_behind(it->call->copy);
    if (td_cuda_is_transfer(&it->call->k)) td_cuda_transfer_begin(&it->transfer, &it->call->k);
    else take_numbers(&it->call->k);
}

/* False: it was sent in part, if at all. */
static bool send_work(executor *x, item *it)
{
    td_gpu *g = x->cuda->gpu;
    td_kcall *k = &it->call->k, *copy = it->call->copy;
    unsigned stream = (unsigned)it->lane->stream;
    bool moves = td_cuda_is_transfer(k);
    size_t mine = moves ? 0 : room_for_launches(k), room = copy ? room_for_launches(copy) : 0;
    bool many = mine + room + sizeof(td_gpu_mark) > TD_GPU_ROOM;
    if (it->transfer.bytes && !send_pieces(x, it, stream)) return false;
    if (many && !send_many(x, it, stream)) return false;
    if (!td_gpu_room(g, (many ? 0 : mine) + room + sizeof(td_gpu_mark))) return false;
    if (!many && !moves) send_launches(x, stream, k);
    if (copy) send_launches(x, stream, copy);
    put_mark(x, it, stream, -1, 0, 0);
    return true;
}

/* False: it was sent in part, if at all, and goes on when there is room. */
static bool send(executor *x, item *it, const td_error *why)
{
    td_gpu *g = x->cuda->gpu;
    if (!it->begun) {
        if (!why && !td_gpu_room(g, COMPUTE * sizeof(td_gpu_wait))) return false;
        begin(x, it, why);
    }
    if (!it->ended && !send_work(x, it)) return false;
    pthread_mutex_lock(&x->lock);
    is_sent(it);
    pthread_mutex_unlock(&x->lock);
    return true;
}

/* Round the lanes until nothing more may go; a transfer that waits for staging memory holds up its own lane alone. */
static void turn(void *arg, const td_error *why)
{
    executor *x = arg;
    for (bool some = true; some && (why || !td_gpu_is_full(x->cuda->gpu));) {
        some = false;
        for (unsigned i = 0; i < LANES; i++) {
            pthread_mutex_lock(&x->lock);
            bool last = i >= x->nlanes;
            item *it = !last && is_next(&x->lanes[i]) ? x->lanes[i].unsent : NULL;
            pthread_mutex_unlock(&x->lock);
            if (last) break;
            if (it) some |= send(x, it, why);
        }
        end_what_ended(x);
    }
}

/* ---- its beginning and end */

static bool stop(td_executor *base)
{
    td_gpu_stop(((executor *)base)->cuda->gpu);
    return true;
}

int td_cuda_executor_new(td_cuda *c, td_gpu_client *client, td_error *e)
{
    executor *x = calloc(1, sizeof *x);
    if (!x) return td_no_memory(e, "for a GPU's streams");
    x->base = (td_executor){.reserve = reserve, .issue = issue, .after = after, .go = go, .stop = stop};
    x->cuda = c;
    pthread_mutex_init(&x->lock, NULL);
    c->executor = &x->base;
    *client = (td_gpu_client){turn, ended, lost, x};
    return TD_OK;
}

void td_cuda_executor_free(td_cuda *c)
{
    executor *x = (executor *)c->executor;
    if (!x) return;
    for (unsigned i = 0; i < x->nlanes; i++)
        for (item *it = x->lanes[i].first, *next; it; it = next) {
            next = it->next;
            free(it->behind);
            free(it);
        }
    pthread_mutex_destroy(&x->lock);
    free(x->spare);
    free(x);
}
