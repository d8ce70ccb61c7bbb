/* Steps as a loop: which value is in which register when, and the instructions.
 *
 * Numbers go to registers before the loop, as long as half of those stay free; the rest of them, and arrays, are loaded
 * when they are first wanted. Where registers run out, a value that can be loaded again gives way, the one that is
 * wanted last; where there is none, there is no such loop (nothing is spilled). The last elements go through the same
 * steps once more, under a mask. */
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/cpu/jit/jit_code.h"
#include "daemon/kernels/cpu/jit/jit_steps.h"
#include "daemon/kernels/cpu/jit/jit_x86.h"
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__OPTIMIZE__) /* without that the table's loops round products by themselves */

enum {
    NONE = 0xFF,
    MOST = 32,
    POINTERS = 9,
    LATER = UINT16_MAX, /* not again */
    TAIL = 1,           /* mask registers, of EVEX */
    CHOSEN = 2,
    TAIL_YMM = 15, /* of VEX */
    CHOSEN_YMM = 14
};

static const td_x86_op load_op = {1, TD_X86_PS, 0x10}, store_op = {1, TD_X86_PS, 0x11}, move_op = {1, TD_X86_PS, 0x28},
                       mask_load_op = {2, TD_X86_NEXT, 0x2C}, mask_store_op = {2, TD_X86_NEXT, 0x2E},
                       spread_op = {2, TD_X86_NEXT, 0x18}, compare_op = {1, TD_X86_PS, 0xC2},
                       blend_op = {3, TD_X86_NEXT, 0x4A};

/* One instruction each; TD_JIT_CHOOSE is two. */
static const td_x86_op op_of[] = {
    [TD_JIT_ADD] = {1, TD_X86_PS, 0x58},  [TD_JIT_SUB] = {1, TD_X86_PS, 0x5C},
    [TD_JIT_MUL] = {1, TD_X86_PS, 0x59},  [TD_JIT_DIV] = {1, TD_X86_PS, 0x5E},
    [TD_JIT_MAX] = {1, TD_X86_PS, 0x5F},  [TD_JIT_MIN] = {1, TD_X86_PS, 0x5D},
    [TD_JIT_AND] = {1, TD_X86_PS, 0x54},  [TD_JIT_XOR] = {1, TD_X86_PS, 0x57},
    [TD_JIT_SQRT] = {1, TD_X86_PS, 0x51}, [TD_JIT_ROUND] = {3, TD_X86_NEXT, 0x08},
    [TD_JIT_FMA] = {2, TD_X86_FMA, 0xB8}, [TD_JIT_FNMA] = {2, TD_X86_FMA, 0xBC},
};

typedef struct making {
    td_x86 a;
    td_jit_steps s;
    uint8_t reg[TD_JIT_VALUES]; /* where a value is; NONE */
    uint16_t in[MOST];          /* what a register has; LATER: nothing */
    bool pinned[TD_JIT_VALUES], kept[TD_JIT_VALUES];
    uint16_t last[TD_JIT_VALUES];   /* the step that uses it last */
    bool used[TD_JIT_VALUES];       /* by steps that are made */
    size_t place[TD_JIT_VALUES];    /* of a number behind the code */
    uint8_t base[2 * TD_JIT_LINES]; /* the general register of each of at[]; NONE: it is loaded each time */
    size_t ones;                    /* masks of VEX, behind the code */
    unsigned nregs, nbases, ats;
    uint16_t now;        /* the step that is being made */
    bool tail, short_of; /* short_of: registers */
} making;

static td_x86_rm in_register(unsigned nr)
{
    return (td_x86_rm){TD_X86_REGISTER, nr};
}

/* ---- what is used when */

static void find_uses(making *m)
{
    td_jit_steps *s = &m->s;
    for (uint16_t k = 0; k < s->nkept; k++) m->kept[s->kept[k]] = m->used[s->kept[k]] = true;
    for (uint16_t k = s->nsteps; k-- > 0;) {
        const td_jit_step *x = &s->step[k];
        for (int i = 0; i < 4 && m->used[x->out]; i++) {
            uint16_t v = x->in[i];
            if (v == UINT16_MAX) continue;
            if (m->last[v] == LATER) m->last[v] = k;
            m->used[v] = true;
        }
    }
}

static uint16_t next_use(const making *m, uint16_t value, uint16_t from)
{
    for (uint16_t k = from; k < m->s.nsteps; k++)
        for (int i = 0; i < 4 && m->used[m->s.step[k].out]; i++)
            if (m->s.step[k].in[i] == value) return k;
    return LATER;
}

/* ---- registers */

static void take(making *m, uint16_t value, unsigned reg)
{
    m->reg[value] = (uint8_t)reg;
    m->in[reg] = value;
}

static void give_up(making *m, uint16_t value)
{
    if (m->reg[value] == NONE) return;
    m->in[m->reg[value]] = LATER;
    m->reg[value] = NONE;
}

static bool is_wanted(const td_jit_step *x, uint16_t value)
{
    return x && (x->in[0] == value || x->in[1] == value || x->in[2] == value || x->in[3] == value);
}

/* A free one, or one whose value can be loaded again and is no input (`wanted`) of the step that is being made. */
static unsigned find(making *m, const td_jit_step *wanted)
{
    unsigned best = NONE;
    uint16_t farthest = 0;
    for (unsigned r = 0; r < m->nregs; r++) {
        uint16_t v = m->in[r];
        if (v == LATER) return r;
        if (m->s.kind[v] == TD_JIT_MADE || m->pinned[v] || is_wanted(wanted, v)) continue;
        uint16_t next = next_use(m, v, m->now);
        if (next >= farthest) best = r, farthest = next;
    }
    if (best == NONE) m->short_of = true;
    else give_up(m, m->in[best]);
    return best == NONE ? 0 : best;
}

/* ---- memory */

/* The general register that has an address of at[]; it may be loaded for this. */
static unsigned base_of(making *m, unsigned at)
{
    if (m->base[at] != NONE) return m->base[at];
    td_x86_load(&m->a, TD_RAX, TD_RSI, 8 * at);
    return TD_RAX;
}

static void load(making *m, uint16_t value, unsigned reg)
{
    td_x86 *a = &m->a;
    uint8_t kind = m->s.kind[value];
    take(m, value, reg);
    if (kind == TD_JIT_NUMBER) {
        td_x86_vector(a, spread_op, reg, 0, (td_x86_rm){TD_X86_KNOWN, (unsigned)m->place[value]}, 0);
        return;
    }
    unsigned base = base_of(m, m->s.pointer[value]);
    bool masked = m->tail && kind == TD_JIT_EACH;
    td_x86_rm from = {kind == TD_JIT_EACH ? TD_X86_ARRAY : TD_X86_PLACE, base};
    if (kind == TD_JIT_ONE) td_x86_vector(a, spread_op, reg, 0, from, 0);
    else if (masked && !a->evex) td_x86_vector(a, mask_load_op, reg, TAIL_YMM, from, 0);
    else td_x86_vector(a, load_op, reg, 0, from, masked ? TAIL : 0);
}

static void store(making *m, unsigned reg, unsigned at)
{
    td_x86_rm to = {TD_X86_ARRAY, base_of(m, at)};
    if (m->tail && !m->a.evex) td_x86_vector(&m->a, mask_store_op, reg, TAIL_YMM, to, 0);
    else td_x86_store(&m->a, store_op, reg, to, m->tail ? TAIL : 0);
}

static void keep(making *m, uint16_t value)
{
    for (unsigned k = 0; k < m->s.nkept; k++)
        if (m->s.kept[k] == value) store(m, m->reg[value], m->ats - m->s.nkept + k);
}

/* ---- steps */

static void let_go(making *m, const td_jit_step *x)
{
    for (int i = 0; i < 4; i++) {
        uint16_t v = x->in[i];
        if (v != UINT16_MAX && !m->pinned[v] && m->last[v] == m->now) give_up(m, v);
    }
}

/* The sum replaces its first term, of which there may have to be a copy. */
static void make_sum(making *m, const td_jit_step *x)
{
    unsigned term = m->reg[x->in[0]], b = m->reg[x->in[1]], c = m->reg[x->in[2]], to = term;
    if (m->pinned[x->in[0]] || m->last[x->in[0]] != m->now) {
        to = find(m, x);
        td_x86_vector(&m->a, move_op, to, 0, in_register(term), 0);
    }
    td_x86_vector(&m->a, op_of[x->what], to, b, in_register(c), 0);
    let_go(m, x);
    take(m, x->out, to);
}

static void make_choice(making *m, const td_jit_step *x)
{
    unsigned yes = m->reg[x->in[2]], no = m->reg[x->in[3]], mask = m->a.evex ? CHOSEN : CHOSEN_YMM;
    td_x86_vector(&m->a, compare_op, mask, m->reg[x->in[0]], in_register(m->reg[x->in[1]]), 0);
    td_x86_byte(&m->a, x->how);
    let_go(m, x);
    unsigned to = find(m, NULL);
    take(m, x->out, to);
    if (m->a.evex) {
        td_x86_blend(&m->a, to, no, yes, mask);
        return;
    }
    td_x86_vector(&m->a, blend_op, to, no, in_register(yes), 0);
    td_x86_byte(&m->a, CHOSEN_YMM << 4);
}

static void make_plain(making *m, const td_jit_step *x)
{
    unsigned first = x->in[0] == UINT16_MAX ? 0 : m->reg[x->in[0]], second = m->reg[x->in[1]];
    let_go(m, x);
    unsigned to = find(m, NULL);
    take(m, x->out, to);
    td_x86_vector(&m->a, op_of[x->what], to, first, in_register(second), 0);
    if (x->what == TD_JIT_ROUND) td_x86_byte(&m->a, x->how);
}

static void make_step(making *m, const td_jit_step *x)
{
    m->now = (uint16_t)(x - m->s.step);
    for (int i = 0; i < 4; i++)
        if (x->in[i] != UINT16_MAX && m->reg[x->in[i]] == NONE) load(m, x->in[i], find(m, x));
    if (m->short_of) return;
    if (x->what == TD_JIT_CHOOSE) make_choice(m, x);
    else if (x->what == TD_JIT_FMA || x->what == TD_JIT_FNMA) make_sum(m, x);
    else make_plain(m, x);
    if (m->short_of) return;
    if (m->kept[x->out]) keep(m, x->out);
    if (m->last[x->out] == LATER) give_up(m, x->out);
}

static void make_steps(making *m)
{
    for (uint16_t k = 0; k < m->s.nsteps && !m->short_of; k++)
        if (m->used[m->s.step[k].out]) make_step(m, &m->s.step[k]);
    for (unsigned r = 0; r < m->nregs; r++)
        if (m->in[r] != LATER && !m->pinned[m->in[r]]) give_up(m, m->in[r]);
}

/* ---- the loop */

static const uint8_t base_registers[POINTERS] = {TD_R8, TD_R9, TD_R10, TD_R11, TD_RBX, TD_R12, TD_R13, TD_R14, TD_R15};
enum { SAVED = 4 }; /* from which on they are the caller's */

static void take_base(making *m, unsigned at)
{
    m->base[at] = m->nbases < POINTERS ? base_registers[m->nbases] : NONE;
    m->nbases += m->nbases < POINTERS;
}

static void find_bases(making *m)
{
    memset(m->base, NONE, sizeof m->base);
    for (unsigned v = 0; v < m->s.nvalues; v++)
        if (m->used[v] && m->s.kind[v] == TD_JIT_EACH) take_base(m, m->s.pointer[v]);
    for (unsigned k = 0; k < m->s.nkept; k++) take_base(m, m->ats - m->s.nkept + k);
    for (unsigned k = SAVED; k < m->nbases; k++) td_x86_push(&m->a, base_registers[k]);
    for (unsigned at = 0; at < m->ats; at++)
        if (m->base[at] != NONE) td_x86_load(&m->a, m->base[at], TD_RSI, 8 * at);
}

static void pin(making *m)
{
    unsigned n = 0;
    for (uint16_t v = 0; v < m->s.nvalues; v++) {
        uint8_t kind = m->s.kind[v];
        if (!m->used[v] || (kind != TD_JIT_ONE && kind != TD_JIT_NUMBER)) continue;
        if (kind == TD_JIT_NUMBER) m->place[v] = td_x86_number(&m->a, m->s.number[v]);
        if (n == m->nregs / 2) continue;
        load(m, v, n++);
        m->pinned[v] = true;
    }
}

static void set_mask(making *m)
{
    td_x86 *a = &m->a;
    if (a->evex) {
        TD_X86(a, 0xB8, 0xFF, 0xFF, 0xFF, 0xFF);       /* mov eax, -1 */
        TD_X86(a, 0xC4, 0xE2, 0x68, 0xF5, 0xC0);       /* bzhi eax, eax, edx */
        TD_X86(a, 0xC5, 0xF8, 0x92, 0xC0 | TAIL << 3); /* kmovw k1, eax */
        return;
    }
    td_x86_address(a, m->ones + 4);
    TD_X86(a, 0x48, 0xF7, 0xDA);                        /* neg rdx */
    TD_X86(a, 0x48, 0x8D, 0x04, a->wide ? 0xD0 : 0x90); /* lea rax, [rax + rdx * element] */
    td_x86_vector(a, load_op, TAIL_YMM, 0, (td_x86_rm){TD_X86_PLACE, TD_RAX}, 0);
}

static void make_loop(making *m)
{
    enum { ZERO = 4, BELOW = 2 };
    td_x86 *a = &m->a;
    unsigned lanes = (a->evex ? 64 : 32) / (a->wide ? 8 : 4);
    TD_X86(a, 0x31, 0xC9);                               /* xor ecx, ecx: elements done */
    TD_X86(a, 0x48, 0x89, 0xFA);                         /* mov rdx, rdi */
    TD_X86(a, 0x48, 0x83, 0xE2, (uint8_t)(256 - lanes)); /* and rdx, -lanes */
    size_t none = td_x86_jump(a, ZERO), again = a->n;
    make_steps(m);
    TD_X86(a, 0x48, 0x83, 0xC1, (uint8_t)lanes); /* add rcx, lanes */
    TD_X86(a, 0x48, 0x39, 0xD1);                 /* cmp rcx, rdx */
    td_x86_jump_back(a, BELOW, again);
    td_x86_land(a, none);
    TD_X86(a, 0x48, 0x89, 0xFA); /* mov rdx, rdi */
    TD_X86(a, 0x48, 0x29, 0xCA); /* sub rdx, rcx: elements left */
    size_t end = td_x86_jump(a, ZERO);
    set_mask(m);
    m->tail = true;
    make_steps(m);
    td_x86_land(a, end);
    TD_X86(a, 0xC5, 0xF8, 0x77); /* vzeroupper */
    for (unsigned k = m->nbases; k-- > SAVED;) td_x86_pop(a, base_registers[k]);
    td_x86_byte(a, 0xC3);
}

static void begin(making *m, const td_jit_text *t, bool evex)
{
    m->a.evex = evex;
    m->a.wide = t->dtype == TD_FLOAT64;
    m->nregs = evex ? MOST : CHOSEN_YMM;
    m->ats = t->nsources + m->s.nkept;
    memset(m->reg, NONE, sizeof m->reg);
    memset(m->last, 0xFF, sizeof m->last);
    memset(m->in, 0xFF, sizeof m->in);
    for (int k = 0; k < 4 && !evex; k++) {
        size_t nr = td_x86_number(&m->a, UINT64_MAX);
        if (!k) m->ones = nr;
    }
    for (int k = 0; k < 4 && !evex; k++) td_x86_number(&m->a, 0);
}

static bool make(making *m, const td_jit_text *t, bool evex, td_jit *out)
{
    if (!td_jit_steps_of(t, &m->s)) return false;
    begin(m, t, evex);
    find_uses(m);
    find_bases(m);
    pin(m);
    make_loop(m);
    td_x86_end(&m->a);
    if (m->short_of || m->a.full) return false;
    void *code = td_jit_code_new(m->a.code, m->a.ncode, m->a.n, &out->bytes);
    memcpy(&out->loop, &code, sizeof code);
    return code;
}

enum { AVX2 = 1, AVX512 = 2 }; /* of td_isa_used() */

bool td_jit_allowed(void)
{
    return td_isa_used() >= AVX2 && td_jit_code_allowed();
}

uint32_t td_jit_left(void)
{
    return td_isa_used() >= AVX2 ? td_jit_code_left() : 0;
}

bool td_jit_make(const td_jit_text *t, td_jit *out)
{
    making *m = td_jit_allowed() ? calloc(1, sizeof *m) : NULL;
    bool good = m && make(m, t, td_isa_used() == AVX512, out);
    free(m);
    return good;
}

#else

bool td_jit_allowed(void)
{
    return false;
}

uint32_t td_jit_left(void)
{
    return 0;
}

bool td_jit_make(const td_jit_text *t, td_jit *out)
{
    (void)t, (void)out;
    return false;
}

#endif

void td_jit_free(td_jit *j)
{
    void *code = NULL;
    memcpy(&code, &j->loop, sizeof code);
    if (code) td_jit_code_free(code, j->bytes);
    *j = (td_jit){0};
}
