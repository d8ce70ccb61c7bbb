/* Blocks on the host: see fibers.h. */
#include "daemon/kernels/cuda/device/target.h"
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define ADDRESS 1
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define THREAD 1
#endif

thread_local td_thread td_now;

namespace {

enum { STACK = 64 << 10, MOST = 1024 };

struct fiber {
    ucontext_t context;
    td_thread self;
    bool ended, arrived;
#ifdef ADDRESS
    void *fake_stack;
#endif
#ifdef THREAD
    void *tsan;
#endif
};

struct crew {
    fiber fibers[MOST];
    char *stacks;
    ucontext_t home;
    fiber *current;
    void (*body)(const void *);
    const void *args;
#ifdef ADDRESS
    void *fake_stack;
    const void *bottom;
    size_t size;
#endif
#ifdef THREAD
    void *tsan;
#endif
    crew() : stacks((char *)mmap(nullptr, (size_t)MOST * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))
    {
        if (stacks == MAP_FAILED) abort();
    }
    ~crew() { munmap(stacks, (size_t)MOST * STACK); }
};

crew &mine()
{
    static thread_local crew c;
    return c;
}

/* From the running fiber back to who runs them. */
void leave(crew &c, fiber *f)
{
#ifdef ADDRESS
    __sanitizer_start_switch_fiber(f->ended ? nullptr : &f->fake_stack, c.bottom, c.size);
#endif
#ifdef THREAD
    __tsan_switch_to_fiber(c.tsan, 0);
#endif
    swapcontext(&f->context, &c.home);
#ifdef ADDRESS
    __sanitizer_finish_switch_fiber(f->fake_stack, &c.bottom, &c.size);
#endif
}

void enter(crew &c, fiber *f)
{
    c.current = f;
    td_now = f->self;
#ifdef ADDRESS
    __sanitizer_start_switch_fiber(&c.fake_stack, f->context.uc_stack.ss_sp, STACK);
#endif
#ifdef THREAD
    __tsan_switch_to_fiber(f->tsan, 0);
#endif
    swapcontext(&c.home, &f->context);
#ifdef ADDRESS
    __sanitizer_finish_switch_fiber(c.fake_stack, nullptr, nullptr);
#endif
}

void start()
{
    crew &c = mine();
    fiber *f = c.current;
#ifdef ADDRESS
    __sanitizer_finish_switch_fiber(nullptr, &c.bottom, &c.size);
#endif
    c.body(c.args);
    f->ended = true;
    leave(c, f);
    abort();
}

void run_block(crew &c, unsigned threads)
{
    unsigned left = threads;
    while (left) {
        unsigned arrived = 0;
        for (unsigned i = 0; i < threads; i++) {
            fiber *f = &c.fibers[i];
            if (f->ended) continue;
            f->arrived = false;
            enter(c, f);
            if (f->ended) left--;
            else if (f->arrived) arrived++;
        }
        if (left && arrived != threads) {
            fprintf(stderr, "a barrier that %u of %u threads of a block reach\n", arrived, threads);
            abort();
        }
    }
}

template <class F> void each(const unsigned *n, F f)
{
    for (unsigned z = 0; z < n[2]; z++)
        for (unsigned y = 0; y < n[1]; y++)
            for (unsigned x = 0; x < n[0]; x++) f(td_dim3{x, y, z});
}

} // namespace

void td_fiber_meet()
{
    crew &c = mine();
    c.current->arrived = true;
    leave(c, c.current);
}

void td_run_alone(const unsigned *grid, const unsigned *block, void (*body)(const void *), const void *args)
{
    td_now.threads = td_dim3{block[0], block[1], block[2]};
    td_now.blocks = td_dim3{grid[0], grid[1], grid[2]};
    each(grid, [&](td_dim3 b) {
        td_now.block = b;
        each(block, [&](td_dim3 t) {
            td_now.thread = t;
            body(args);
        });
    });
}

void td_run_meeting(const unsigned *grid, const unsigned *block, void (*body)(const void *), const void *args)
{
    crew &c = mine();
    unsigned threads = block[0] * block[1] * block[2];
    if (threads > MOST) abort();
    c.body = body, c.args = args;
#ifdef THREAD
    c.tsan = __tsan_get_current_fiber();
    for (unsigned i = 0; i < threads; i++) c.fibers[i].tsan = __tsan_create_fiber(0);
#endif
    each(grid, [&](td_dim3 b) {
        unsigned i = 0;
        each(block, [&](td_dim3 t) {
            fiber *f = &c.fibers[i];
            f->self = td_thread{t, b, {block[0], block[1], block[2]}, {grid[0], grid[1], grid[2]}};
            f->ended = f->arrived = false;
            getcontext(&f->context);
            f->context.uc_stack.ss_sp = c.stacks + (size_t)i * STACK;
            f->context.uc_stack.ss_size = STACK;
            f->context.uc_link = nullptr;
            makecontext(&f->context, start, 0);
            i++;
        });
        run_block(c, threads);
    });
#ifdef THREAD
    for (unsigned i = 0; i < threads; i++) __tsan_destroy_fiber(c.fibers[i].tsan);
#endif
}
