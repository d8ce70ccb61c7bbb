/* Questions 1 to 4: memory of one process in another, and what becomes of it when one of them fails or ends. */
#include "tests/cuda/probe/probe.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARENA = 64 * MIB, LEGACY = 1, SEED = 7 };

/* The owner's first word: {address}, with the arena's descriptor or, for legacy memory, its handle in the words after.
 */
static drv_ptr owner_begin(int fd, int legacy)
{
    open_device();
    if (!legacy) {
        arena a = arena_make(ARENA);
        fill(a.address, ARENA, SEED);
        tell(fd, (word){{a.address}}, arena_export(&a));
        return a.address;
    }
    drv_ptr p;
    drv_ipc h;
    MUST(cuMemAlloc(&p, ARENA));
    fill(p, ARENA, SEED);
    MUST(cuIpcGetMemHandle(&h, p));
    TELL(fd, p);
    for (int i = 0; i < 2; i++) {
        word w;
        memcpy(w.value, h.reserved + 32 * i, 32);
        tell(fd, w, -1);
    }
    return p;
}

/* What it sent, at hand in the question's own process, which has no driver. */
typedef struct handed {
    int fd;
    drv_ptr address;
    drv_ipc ipc;
    int legacy;
} handed;

static handed take(int fd, int legacy)
{
    handed h = {.legacy = legacy};
    h.address = hear(fd, &h.fd).value[0];
    for (int i = 0; legacy && i < 2; i++) {
        word w = hear(fd, NULL);
        memcpy(h.ipc.reserved + 32 * i, w.value, 32);
    }
    return h;
}

static drv_ptr handed_map(const handed *h)
{
    drv_ptr p;
    if (!h->legacy) return arena_import(h->fd, ARENA, 0).address;
    MUST(cuIpcOpenMemHandle(&p, h->ipc, DRV_IPC_LAZY_PEER));
    return p;
}

/* Actors obey: each word's first value says what to do, and they answer with a word. */
enum { DO_CHECK, DO_FILL, DO_SPIN, DO_FAULT, DO_ROUNDS, DO_END };

static void obey(int fd, drv_ptr p)
{
    for (;;) {
        word w = hear(fd, NULL);
        int64_t answer = 0;
        double from = now_s();
        if (w.value[0] == DO_END) return;
        if (w.value[0] == DO_CHECK) answer = differing(p, ARENA, w.value[1]);
        if (w.value[0] == DO_FILL) {
            fill_args args = {p, ARENA / 8, w.value[1]};
            int err = LAUNCH(kernel("fill"), 264, 256, args);
            answer = -(err ? err : drv.cuCtxSynchronize());
        }
        if (w.value[0] == DO_SPIN) { /* answers at once, and works on */
            spin_args args = {w.value[1]};
            answer = -LAUNCH(kernel("spin"), 1, 32, args);
        }
        if (w.value[0] == DO_FAULT) {
            uint64_t at[] = {[FAULT_ADDRESS] = 0x10, [FAULT_ALIGN] = 0, [FAULT_TRAP] = 0, [FAULT_SHARED] = 1 << 24};
            if (w.value[1] == FAULT_ALIGN) MUST(cuMemAlloc(&at[FAULT_ALIGN], 64)); /* a misaligned store writes */
            fault_args args = {at[w.value[1]], (int)w.value[1]};
            int err = LAUNCH(kernel("fault"), 1, 1, args);
            answer = -(err ? err : drv.cuCtxSynchronize());
        }
        if (w.value[0] == DO_ROUNDS) { /* so many checks; the slowest round's time */
            double slowest = 0;
            for (uint64_t i = 0; i < w.value[2]; i++) {
                double start = now_s();
                int64_t wrong = differing(p, ARENA, w.value[1]);
                if (wrong) {
                    answer = wrong;
                    break;
                }
                if (now_s() - start > slowest) slowest = now_s() - start;
            }
            TELL(fd, (uint64_t)answer, (uint64_t)(slowest * 1e6));
            continue;
        }
        TELL(fd, (uint64_t)answer, (uint64_t)((now_s() - from) * 1e6));
    }
}

static int64_t order(const actor *a, uint64_t what, uint64_t with)
{
    TELL(a->fd, what, with);
    return (int64_t)hear(a->fd, NULL).value[0];
}

static const char *outcome(int64_t answer)
{
    static char text[4][80];
    static int turn;
    char *t = text[turn++ & 3];
    if (answer < 0) return drv_name((int)-answer);
    snprintf(t, 80, answer ? "%lld words differ" : "ok", (long long)answer);
    return t;
}

static void owner(int fd, void *arg)
{
    obey(fd, owner_begin(fd, *(int *)arg));
}

static void user(int fd, void *arg)
{
    open_device();
    drv_ptr p = handed_map(arg);
    TELL(fd, p);
    obey(fd, p);
}

/* 1: one process's memory in another, both ways. */
static int shared(int legacy)
{
    actor a = actor_start(owner, &legacy);
    handed h = take(a.fd, legacy);
    actor b = actor_start(user, &h);
    hear(b.fd, NULL);
    int64_t seen = order(&b, DO_CHECK, SEED), wrote = order(&b, DO_FILL, SEED + 1),
            back = order(&a, DO_CHECK, SEED + 1);
    say("read there: %s; written there, read here: %s", outcome(seen), outcome(wrote ? wrote : back));
    return seen || wrote || back ? NO : YES;
}

static void looker(int fd, void *arg) /* free memory, when asked */
{
    (void)arg;
    open_device();
    for (;;) {
        size_t left, total;
        MUST(cuMemGetInfo(&left, &total));
        TELL(fd, left);
        hear(fd, NULL);
    }
}

static double free_mib(actor *a)
{
    double mib = (double)hear(a->fd, NULL).value[0] / MIB;
    return mib;
}

/* 2: the owner is killed; what its memory is then. */
static int killed(int legacy)
{
    actor l = actor_start(looker, NULL);
    double before = free_mib(&l);
    actor a = actor_start(owner, &legacy);
    handed h = take(a.fd, legacy);
    actor early = actor_start(user, &h); /* has it mapped when the owner goes */
    hear(early.fd, NULL);
    kill(a.pid, SIGKILL);
    actor_end(&a);
    usleep(200000);
    int64_t mapped = order(&early, DO_CHECK, SEED);
    say("mapped before: %s; ", outcome(mapped));
    TELL(early.fd, DO_END);
    actor_end(&early);
    usleep(200000);
    TELL(l.fd, 0);
    double held = free_mib(&l);
    int64_t late_seen = -1;
    actor late = actor_start(user, &h);
    struct word w;
    if (read(late.fd, &w, sizeof w) == sizeof w) late_seen = order(&late, DO_CHECK, SEED);
    say("mapped after: %s; ", late_seen < 0 ? "no" : outcome(late_seen));
    if (late_seen >= 0) TELL(late.fd, DO_END);
    actor_end(&late);
    if (!legacy) close(h.fd);
    usleep(300000);
    TELL(l.fd, 0);
    double after = free_mib(&l);
    say("less free memory while only the descriptor held it %.0f MiB, at the end %.0f MiB", before - held,
        before - after);
    return mapped || late_seen ? NO : YES;
}

/* 3: one of the two faults; does the other one's mapping go on? */
static int faulty(int variant)
{
    int kind = variant & 7, legacy = variant & 8 ? 1 : 0, by_user = variant & 16, in_kernel = variant & 32;
    actor a = actor_start(owner, &legacy);
    handed h = take(a.fd, legacy);
    actor b = actor_start(user, &h);
    hear(b.fd, NULL);
    actor *bad = by_user ? &b : &a, *good = by_user ? &a : &b;
    int64_t beside = 0;
    order(good, DO_CHECK, SEED);
    int64_t fault;
    if (in_kernel) { /* killed while its kernel runs */
        order(bad, DO_SPIN, 1500000000ull);
        usleep(50000);
        kill(bad->pid, SIGKILL);
        TELL(good->fd, DO_ROUNDS, SEED, 200);
        word w = hear(good->fd, NULL);
        beside = (int64_t)w.value[0];
        fault = 0;
        say("killed; the other's 200 rounds: %s, slowest %.2f ms; ", outcome(beside), (double)w.value[1] / 1000);
    } else {
        order(good, DO_SPIN, 300000000ull); /* its kernel is under way */
        usleep(20000);
        TELL(bad->fd, DO_FAULT, (uint64_t)kind);
        TELL(good->fd, DO_ROUNDS, SEED, 200);
        word w = hear(good->fd, NULL);
        beside = (int64_t)w.value[0];
        fault = (int64_t)hear(bad->fd, NULL).value[0];
        say("%s; the other's kernel under way and 200 rounds: %s, slowest %.2f ms; ", outcome(fault), outcome(beside),
            (double)w.value[1] / 1000);
        int64_t again = order(bad, DO_CHECK, SEED);
        say("the faulty one's next call: %s; ", outcome(again));
    }
    int64_t wrote = order(good, DO_FILL, SEED + 2), seen = order(good, DO_CHECK, SEED + 2);
    say("written: %s; ", outcome(wrote ? wrote : seen));
    if (!in_kernel) kill(bad->pid, SIGKILL);
    actor_end(bad);
    usleep(200000);
    TELL(good->fd, DO_ROUNDS, SEED + 2, 100);
    word w = hear(good->fd, NULL);
    say("after its end: %s", outcome((int64_t)w.value[0]));
    if (legacy || by_user) return beside || wrote || seen || w.value[0] ? NO : YES;
    actor c = actor_start(user, &h); /* a restarted process takes it over */
    hear(c.fd, NULL);
    int64_t anew = order(&c, DO_CHECK, SEED + 2);
    say("; mapped anew: %s", outcome(anew));
    return beside || wrote || seen || anew || w.value[0] ? NO : YES;
}

/* 4: the same addresses in new processes. */
enum { PLACES = 10, PROCESSES = 8 };
static const size_t place_bytes[PLACES] = {64, 128, 256, 512, 512, 512, 64, 2, 1024, 512};

void reserver(int fd)
{
    drv_ptr wanted[PLACES];
    for (int i = 0; i < PLACES; i++) wanted[i] = hear(fd, NULL).value[0];
    open_device();
    fill(arena_make(2 * MIB).address, 2 * MIB, 1); /* as much of the driver as works in such a process */
    uint64_t same = 0;
    for (int i = 0; i < PLACES; i++) {
        drv_ptr p;
        MUST(cuMemAddressReserve(&p, place_bytes[i] * MIB, 0, wanted[i], 0));
        if (p == wanted[i]) same |= 1ull << i;
        TELL(fd, p);
    }
    TELL(fd, same);
}

/* The first process's addresses are asked for in the others; or, from the start, addresses of our choice. */
static int same_place(int chosen)
{
    drv_ptr wanted[PLACES] = {0}, lowest = UINT64_MAX, highest = 0;
    int tries = 0, hits = 0;
    for (int i = 0; chosen && i < PLACES; i++) wanted[i] = ((uint64_t)chosen << 40) + ((uint64_t)i << 30);
    for (int k = 0; k < PROCESSES; k++) {
        actor a = actor_start_anew();
        drv_ptr got[PLACES];
        for (int i = 0; i < PLACES; i++) TELL(a.fd, wanted[i]);
        for (int i = 0; i < PLACES; i++) {
            got[i] = hear(a.fd, NULL).value[0];
            if (got[i] < lowest) lowest = got[i];
            if (got[i] > highest) highest = got[i];
        }
        uint64_t same = hear(a.fd, NULL).value[0];
        actor_end(&a);
        if (k == 0 && !chosen) memcpy(wanted, got, sizeof got);
        if (k > 0 || chosen) tries += PLACES, hits += __builtin_popcountll(same);
    }
    say("%d of %d reservations at the address asked for, in %d processes; they lie in %#llx to %#llx", hits, tries,
        PROCESSES, (unsigned long long)lowest, (unsigned long long)highest);
    return hits == tries ? YES : NO;
}

const question questions_share[] = {
    {"1a", "descriptor to another process", 20, shared, 0},
    {"1b", "legacy handle to another process", 20, shared, LEGACY},
    {"2a", "descriptor's memory outlives its process", 25, killed, 0},
    {"2b", "legacy memory outlives its process", 25, killed, LEGACY},
    {"3a", "owner: illegal address; user goes on", 25, faulty, FAULT_ADDRESS},
    {"3b", "owner: misaligned; user goes on", 25, faulty, FAULT_ALIGN},
    {"3c", "owner: trap; user goes on", 25, faulty, FAULT_TRAP},
    {"3d", "owner: shared memory; user goes on", 25, faulty, FAULT_SHARED},
    {"3e", "user: illegal address; owner goes on", 25, faulty, FAULT_ADDRESS | 16},
    {"3f", "owner killed in a kernel; user goes on", 25, faulty, 32},
    {"3g", "legacy owner: illegal address; user goes on", 25, faulty, FAULT_ADDRESS | 8},
    {"3h", "legacy user: illegal address; owner goes on", 25, faulty, FAULT_ADDRESS | 8 | 16},
    {"4a", "same address by hint in a new process", 30, same_place, 0},
    {"4b", "address of our choice (32 TiB)", 30, same_place, 32},
    {NULL},
};
