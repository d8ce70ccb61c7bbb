/* Tensor, storage and version: what a session's ids stand for. The one door of this room.
 *
 * A storage is counted raw bytes on a device; a tensor is a descriptor over a storage; views share the storage. All of
 * it belongs to the loop thread: nothing here is atomic. A storage dies with its last reference (tensors, and tasks
 * that run on it). The slot `meta` is for the layer above (autograd), of which this room knows only how to let go. */
#ifndef TENSORD_DAEMON_TENSOR_TENSOR_H
#define TENSORD_DAEMON_TENSOR_TENSOR_H

#include "proto/base/desc.h"
#include "shm/heap.h"
#include <assert.h>

/* The daemon's own memory counts as objects. A tensor with its storage, a small node of a graph, a failure fit one;
 * what is larger counts as several. */
enum { TD_OBJECT_BYTES = 512 };
static inline uint64_t td_objects_of(uint64_t bytes)
{
    return (bytes + TD_OBJECT_BYTES - 1) / TD_OBJECT_BYTES;
}

/* What a table of what takes memory (daemon/session/calls/tensors.c) has counted of what an account pays for. */
typedef struct td_listed {
    uint32_t table;                 /* its number; of an older one nothing is left to be known */
    uint64_t bytes[TD_MAX_DEVICES]; /* of storages on each device */
    uint64_t leased, objects;
    uint64_t below_objects, below_wire; /* of its children */
} td_listed;

/* Who pays. Bytes and objects are charged before they are given; the parents (a session's user, a user's daemon) are
 * charged too. */
typedef struct td_account {
    struct td_account *parent;
    struct td_account *children, *next, *prev; /* those that have it for a parent; of the same parent */
    uint64_t bytes, objects;                   /* bytes of the CPU's memory */
    uint64_t peak;                       /* of a session: the most bytes at once, since it began or was asked anew */
    uint64_t work;                       /* of the bytes, here and away: what pending calls work with */
    uint64_t limit_bytes, limit_objects; /* 0: no limit */
    uint64_t limit_away;                 /* of bytes on any one other device; 0: no limit */
    uint64_t wire, limit_wire;           /* bytes of its connections' buffers, and what was unpacked of them */
    uint32_t imports, limit_imports;     /* mapped descriptors of clients; 0: no limit */
    uint32_t loops;                      /* of machine code, of which there are so many for all */
    uint32_t refs;
    uint32_t session; /* 0: the daemon's account, or a user's */
    uint32_t uid, pid;
    const struct td_account *full;   /* of the root: td_account_full() */
    char name[32];                   /* program of the peer, for messages */
    bool ended;                      /* its session has */
    uint64_t away[TD_MAX_DEVICES];   /* bytes on each device but the CPU */
    uint64_t stored[TD_MAX_DEVICES]; /* of its own, without its children: bytes of storages on each device, ... */
    uint64_t leased;                 /* ... and of memory that is leased, which counts on the CPU */
    td_listed listed;
} td_account;

td_account *td_account_new(td_account *parent);
static inline td_account *td_account_ref(td_account *a)
{
    a->refs++;
    return a;
}
void td_account_end(td_account *a); /* the last reference has gone */
static inline void td_account_unref(td_account *a)
{
    if (a && --a->refs == 0) td_account_end(a);
}
static inline void td_account_note_peak(td_account *a)
{
    if (a->bytes > a->peak) a->peak = a->bytes;
}
/* Charge what cannot be refused any more, even beyond the limits: what is asked for next is refused then. */
static inline void td_account_add(td_account *a, uint64_t bytes, uint64_t objects)
{
    for (td_account *p = a; p; p = p->parent) {
        p->bytes += bytes;
        p->objects += objects;
    }
    if (bytes && a) td_account_note_peak(a);
}
static inline void td_account_discharge(td_account *a, uint64_t bytes, uint64_t objects)
{
    for (; a; a = a->parent) {
        assert(a->bytes >= bytes && a->objects >= objects);
        a->bytes -= bytes;
        a->objects -= objects;
    }
}
/* Without a limit (0) none is reached: one less is the largest number. */
static inline bool td_account_over(uint64_t limit, uint64_t has, uint64_t more)
{
    return more && has + (more - 1) > limit - 1;
}
/* Takes back what was charged from `a` up to `full`, which has no room for it. Fails: names that account, what it holds
 * and its limit. */
int td_account_refuse(td_account *a, td_account *full, uint64_t bytes, uint64_t objects, td_error *e);
/* Which account of the tree that `a` is in had no room when one of them was last refused, since this was asked for;
 * only to be compared. NULL: none. */
const td_account *td_account_full(td_account *a);
/* TD_E_QUOTA when some account of the chain has no room. */
static inline int td_account_charge(td_account *a, uint64_t bytes, uint64_t objects, td_error *e)
{
    for (td_account *p = a; p; p = p->parent) {
        p->bytes += bytes;
        p->objects += objects;
        if (td_account_over(p->limit_bytes, p->bytes - bytes, bytes) ||
            td_account_over(p->limit_objects, p->objects - objects, objects))
            return td_account_refuse(a, p, bytes, objects, e);
    }
    if (bytes && a) td_account_note_peak(a);
    return 0;
}
/* The same for a storage's bytes, which count where they lie. */
int td_account_charge_away(td_account *a, unsigned device, uint64_t bytes, td_error *e);
void td_account_discharge_away(td_account *a, unsigned device, uint64_t bytes);
static inline int td_account_charge_on(td_account *a, unsigned device, uint64_t bytes, td_error *e)
{
    return device == TD_CPU ? td_account_charge(a, bytes, 0, e) : td_account_charge_away(a, device, bytes, e);
}
static inline void td_account_discharge_on(td_account *a, unsigned device, uint64_t bytes)
{
    if (device == TD_CPU) td_account_discharge(a, bytes, 0);
    else td_account_discharge_away(a, device, bytes);
}
static inline uint64_t td_account_bytes(const td_account *a, unsigned device)
{
    return device == TD_CPU ? a->bytes : a->away[device];
}
/* A storage of this account takes `now` bytes on the device, where it took `before`. They are charged apart from this:
 * it tells what storages take from what calls work with, programs and notes. */
static inline void td_account_stores(td_account *a, unsigned device, uint64_t before, uint64_t now)
{
    if (a) a->stored[device] += now - before;
}
/* What a call works with is charged as bytes where it runs, until the call is over. */
int td_account_work(td_account *a, unsigned device, uint64_t bytes, td_error *e);
void td_account_work_done(td_account *a, unsigned device, uint64_t bytes);
/* One mapped descriptor more, one less. */
int td_account_import(td_account *a, td_error *e);
void td_account_unimport(td_account *a);
/* Is there room for so many more objects? Nothing is charged. */
int td_account_room(td_account *a, uint64_t objects, td_error *e);
/* Of some account of the chain three quarters of the objects are taken: what can wait does. */
bool td_account_strained(const td_account *a);
/* Bytes of the daemon's own memory that an account holds. */
static inline uint64_t td_account_own(const td_account *a)
{
    return a->objects * TD_OBJECT_BYTES + a->wire;
}
/* Buffers of a connection have grown, or become less; who reads for it has looked at the limit. */
static inline void td_account_wire(td_account *a, uint64_t before, uint64_t now)
{
    for (; a; a = a->parent) a->wire += now - before;
}

/* Why a value is not there: shared by everything that depended on it. */
typedef struct td_cause {
    uint32_t refs;
    uint32_t told;       /* to whose program: the last session; 0: to none yet */
    uint64_t told_at;    /* tasks of up to this number were issued before */
    td_account *account; /* pays for it, as one object; NULL: nobody */
    td_error error;
} td_cause;
td_cause *td_cause_new(const td_error *e);
static inline td_cause *td_cause_ref(td_cause *c)
{
    c->refs++;
    return c;
}
/* Whose failure it was pays for its place, until it is forgotten. */
int td_cause_charge(td_cause *c, td_account *account, td_error *e);
void td_cause_end(td_cause *c); /* the last reference has gone */
static inline void td_cause_unref(td_cause *c)
{
    if (c && --c->refs == 0) td_cause_end(c);
}

/* The version counter of a storage's view family (A2, A3), and who moved it last. */
typedef struct td_version {
    uint32_t value;
    uint32_t session; /* of the last writer */
    uint32_t pid;
    uint16_t op;  /* op id of the last writer; 0: a write lease or an import */
    uint16_t own; /* 1: allocated by itself (detached family), counted in refs */
    uint32_t refs;
    uint32_t void_to, nvoid; /* the last steps in a row that wrote nothing: nvoid of them, up to this one */
    uint32_t voided;         /* all of them, ever */
    uint64_t void_before;    /* others, in what order they may come: bit k is the step k before that row */
} td_version;

enum {                      /* td_storage.flags */
       TD_SF_SERVICE = 1,   /* in a service segment: only the daemon writes */
       TD_SF_RACY = 2,      /* declared: versions are not enforced across sessions (Hogwild) */
       TD_SF_LEASED = 4,    /* a write lease is open */
       TD_SF_MAPPED = 8,    /* some client may write it, and nobody is told when */
       TD_SF_READONLY = 16, /* mapped for reading only: no op may write to it */
       TD_SF_IMPORTED = 32, /* a client's own memory; holds descriptors, which its account counts */
       TD_SF_LENT = 64,     /* its session lets whoever has the tensor map it writable */
       TD_SF_OVERDUE = 128  /* a write has waited for its readers as long as writes do: the next one fails at once */
};

typedef struct td_late td_late;

/* What the layer above has made of a storage's bytes and keeps for the next time. It goes with the next write, and with
 * the storage. */
typedef struct td_kept {
    void (*drop)(struct td_kept *k);
} td_kept;

typedef struct td_queued td_queued; /* daemon/service/item.c */

typedef struct td_storage {
    uint32_t refs;
    uint32_t idle; /* of them by tasks that keep its memory, and do not care what is in it */
    uint8_t device, flags;
    _Atomic bool lost; /* its memory has gone with a device that failed: whatever is written there, it stays poisoned */
    uint32_t pinned;   /* how often backward passes still have to read it */
    uint32_t lease_session; /* holder of the write lease */
    uint32_t listed;        /* the number of the last table that has counted its bytes */
    uint64_t nbytes;        /* as asked for */
    unsigned char *data;
    td_extent extent;
    td_account *account;
    td_version version;
    td_cause *poison; /* its contents are not what they should be */
    td_late *late;    /* who has yet to be told that it was not written; see td_lates */
    void *hazards;    /* pending tasks, kept by sched; NULL when nothing is pending */
    td_kept *kept;
    td_queued *queued;                   /* items of queues hold what is in it now; NULL: none do */
    uint32_t looked;                     /* how often the layer above would have kept something, since the last write */
    struct td_storage *on_next, **on_at; /* of its device's, where that is not the host */
} td_storage;

typedef struct td_tensor td_tensor;

/* What the layer above hangs on a tensor. */
typedef struct td_meta td_meta;
struct td_meta {
    void (*free)(td_meta *m, td_tensor *owner);   /* the tensor dies */
    void (*unheld)(td_meta *m, td_tensor *owner); /* nobody can name it any more; it may live on inside of others */
};

struct td_tensor {
    uint32_t refs;
    uint32_t held;  /* how many of them are ids, names and queue items */
    uint32_t flags; /* for the layers above: see TD_TF_ */
    td_storage *storage;
    td_version *version; /* the storage's, or one of its own family */
    td_meta *meta;
    td_tensor *view_base; /* counted: the base of a differentiable view, or NULL */
    td_account *account;
    td_desc desc;
};

enum {                          /* td_tensor.flags */
       TD_TF_MULTI_VIEW = 1,    /* one of several views made at once (A5) */
       TD_TF_NO_GRAD_VIEW = 2,  /* a view made under no_grad */
       TD_TF_INFERENCE = 4,     /* made in inference mode (A13) */
       TD_TF_INPUT_LEASE = 8,   /* came in through a lease (put) */
       TD_TF_UNHELD = 16,       /* was held, and is no more */
       TD_TF_FUNCTION_VIEW = 32 /* a view that a function with a backward of its own gave, or a view of that */
};

/* Where new storages come from. */
typedef struct td_place {
    td_heap *heap;
    td_account *account;
    uint8_t device, flags; /* storage flags of what is made here */
} td_place;

/* A new storage of `nbytes` uninitialised bytes with one reference. Charges the account first.
 * TD_WAIT_GROW passes through from the heap (nothing was charged then) with *need; with need NULL it grows right here.
 * When there is no room, be it for want of a quota, need->device says where. */
int td_storage_new(td_storage **out, const td_place *where, uint64_t nbytes, td_need *need, td_error *e);
/* Over an extent that is already there (a lease that is announced): takes the extent over. */
int td_storage_adopt(td_storage **out, const td_place *where, td_extent *extent, uint64_t nbytes, td_error *e);
/* Keep the first `nbytes` only (a result that turned out smaller than it might have). No tensor may reach further. */
void td_storage_shrink(td_storage *s, uint64_t nbytes);
/* Another account pays for it from now on. */
int td_storage_pay(td_storage *s, td_account *account, td_error *e);
/* What it takes there, and is charged for: its bytes, rounded up. */
uint64_t td_storage_takes(const td_storage *s);
static inline td_storage *td_storage_ref(td_storage *s)
{
    s->refs++;
    return s;
}
void td_storage_unref(td_storage *s);
/* Mark the contents as lost (keeps the first cause); clear when it is overwritten as a whole. */
void td_storage_poison(td_storage *s, td_cause *c);
/* Its memory has gone (td_device_lose). Any thread that has the storage at hand. */
static inline bool td_storage_lost(const td_storage *s)
{
    return atomic_load_explicit(&s->lost, memory_order_acquire);
}
void td_storage_heal(td_storage *s);
/* What they were lost of, as an error. */
static inline int td_storage_check(const td_storage *s, td_error *e)
{
    if (!s->poison) return TD_OK;
    *e = s->poison->error;
    return e->code;
}

/* What one client has yet to be told: storages that it should have written, and has not, with the cause. They are what
 * they were, and nobody else is concerned. Bounded, charged, and gone with the storage. */
typedef struct td_lates {
    td_late *first;
    uint32_t count;
    td_account *account; /* the owner's */
} td_lates;
void td_late_note(td_lates *of, td_storage *s, td_cause *c); /* keeps the first cause; nothing for a poisoned storage */
td_cause *td_late_look(const td_lates *of, const td_storage *s);
static inline td_cause *td_late_find(const td_lates *of, const td_storage *s) /* borrowed, or NULL */
{
    return of->first && s->late ? td_late_look(of, s) : NULL;
}
/* It was overwritten as a whole. */
void td_late_written(td_lates *of, td_storage *s);
/* The client was told: it takes what is there for what it is. */
void td_lates_told(td_lates *of, const td_error *e);
/* Another has yet to be told of the same. */
void td_lates_copy(td_lates *to, const td_lates *from);
void td_lates_drop(td_lates *of);

/* A tensor over `s` (takes a new reference on it). The descriptor must be valid for the storage (asserted). */
int td_tensor_new(td_tensor **out, td_storage *s, const td_desc *desc, td_account *account, td_error *e);
/* A view: same storage, same version family. */
int td_tensor_view(td_tensor **out, td_tensor *of, const td_desc *desc, td_account *account, td_error *e);
/* The same bytes with a version counter of its own (`.data`). */
int td_tensor_detach_version(td_tensor *t, td_error *e);
static inline td_tensor *td_tensor_ref(td_tensor *t)
{
    t->refs++;
    return t;
}
/* A reference by which somebody outside can name it: an id, a name, an item of a queue. What only such a one could ask
 * for is let go of with the last of them; so values that lead to each other in a circle end when no one can name them.
 */
td_tensor *td_tensor_hold(td_tensor *t);
void td_tensor_unhold(td_tensor *t);
void td_tensor_end(td_tensor *t); /* the last reference has gone */
/* Iterative: dropping a chain of a million never recurses. NULL is fine. */
static inline void td_tensor_unref(td_tensor *t)
{
    if (t && --t->refs == 0) td_tensor_end(t);
}

/* The dead: objects whose last reference is gone and that were not ended yet. One list for this room and those above,
 * whose objects hold tensors, and are held by them: what dies while another is ended only joins the list, so the stack
 * stays flat. */
typedef struct td_dead {
    struct td_dead *next;
    void (*end)(struct td_dead *);
} td_dead;
/* Nobody can reach it any more; `d` lies in its memory. It is ended now or later. */
void td_die(td_dead *d, void (*end)(td_dead *));
/* Bound what one outermost drop ends (0, the default: no bound); the rest waits for td_dead_collect. */
void td_dead_set_bound(uint32_t most);
/* End at most `most` (0: all); are more waiting? They are still charged to their owners. */
bool td_dead_collect(uint32_t most);
bool td_dead_waiting(void);
/* What dies from here on only waits, so that who drops many ends as many as it means to: by td_dead_collect, after the
 * end of this. */
void td_dead_defer(bool on);

static inline void *td_tensor_data(const td_tensor *t)
{
    return t->storage->data + (uint64_t)t->desc.offset * td_dtype_size((td_dtype)t->desc.dtype);
}
/* Its bytes are others, or soon will be. */
static inline void td_storage_changed(td_storage *s)
{
    s->looked = 0;
    if (s->kept) s->kept->drop(s->kept);
    s->kept = NULL;
}
/* From now on a client may write it at any time. */
static inline void td_storage_mapped(td_storage *s)
{
    s->flags |= TD_SF_MAPPED;
    td_storage_changed(s);
}
/* A write happened (or was issued): move the counter, remember who. Returns what it moved to. */
static inline uint32_t td_tensor_bump(td_tensor *t, uint16_t op, uint32_t session, uint32_t pid)
{
    td_storage_changed(t->storage);
    t->version->op = op;
    t->version->session = session;
    t->version->pid = pid;
    return ++t->version->value;
}

/* The write that moved it to `step` failed, and wrote nothing. Writes that are pending at once end in any order: of
 * such steps the last row is remembered, and which of the 63 before it may join it. */
void td_version_void(td_version *v, uint32_t step);
/* How often it was written, or will have been. */
static inline uint32_t td_version_writes(const td_version *v)
{
    return v->value - v->voided;
}
/* Has nothing been written since it was `then`? */
static inline bool td_version_still(const td_version *v, uint32_t then)
{
    return v->value == then || (v->nvoid && v->void_to == v->value && v->value - then <= v->nvoid);
}

/* Counts of what lives, for status and for tests that compare before and after. */
typedef struct td_live {
    uint64_t tensors, storages, causes, accounts;
    uint64_t bytes; /* of book-keeping for these objects */
} td_live;
td_live td_live_counts(void);

/* The loop of this thread is over: what is kept of dead tensors and storages for the next ones goes. */
void td_tensors_forget_dead(void);

#endif
