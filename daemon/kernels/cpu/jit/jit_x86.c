/* The encodings of jit_x86.h, as the processor's manual has them: a prefix that says registers, map, width and operand
 * type; the opcode; ModRM with what is addressed. */
#include "daemon/kernels/cpu/jit/jit_x86.h"
#include <string.h>

void td_x86_byte(td_x86 *a, unsigned byte)
{
    if (a->n == TD_X86_BYTES) a->full = true;
    else a->code[a->n++] = (uint8_t)byte;
}

void td_x86_bytes(td_x86 *a, size_t n, const uint8_t *bytes)
{
    for (size_t k = 0; k < n; k++) td_x86_byte(a, bytes[k]);
}

static void four(td_x86 *a, uint32_t value)
{
    for (int k = 0; k < 4; k++) td_x86_byte(a, value >> 8 * k & 255);
}

static unsigned bit(unsigned value, int nr)
{
    return value >> nr & 1;
}

/* ---- what is addressed */

/* Four bytes that say how far a number is, from behind them. */
static void distance(td_x86 *a, size_t number)
{
    if (a->nfixes == TD_X86_FIXES) a->full = true;
    else a->fix[a->nfixes].at = a->n, a->fix[a->nfixes++].number = number;
    four(a, 0);
}

static void modrm(td_x86 *a, unsigned reg, td_x86_rm rm)
{
    enum { INDEX_RCX = TD_RCX << 3, NO_INDEX = 4 << 3 };
    unsigned scale = rm.kind != TD_X86_ARRAY ? NO_INDEX : (a->wide ? 3U : 2U) << 6 | INDEX_RCX;
    reg = (reg & 7) << 3;
    switch (rm.kind) {
    case TD_X86_REGISTER: td_x86_byte(a, 0xC0 | reg | (rm.nr & 7)); return;
    case TD_X86_KNOWN:
        td_x86_byte(a, reg | 5);
        distance(a, rm.nr);
        return;
    default: /* with a displacement of 0: some bases cannot do without */
        td_x86_byte(a, 0x44 | reg);
        td_x86_byte(a, scale | (rm.nr & 7));
        td_x86_byte(a, 0);
    }
}

/* ---- prefixes */

typedef struct fields {
    unsigned map, prefix, w, op;
} fields;

static fields fields_of(const td_x86 *a, td_x86_op op)
{
    fields f = {op.map, op.form == TD_X86_PS ? a->wide : 1, a->wide, op.op};
    if (op.form == TD_X86_NEXT) f.op += a->wide;
    if (op.form != TD_X86_FMA && !a->evex) f.w = 0;
    return f;
}

static void vex(td_x86 *a, fields f, unsigned reg, unsigned from, td_x86_rm rm)
{
    enum { YMM = 4 };
    td_x86_byte(a, 0xC4);
    td_x86_byte(a, !bit(reg, 3) << 7 | 1 << 6 | (rm.kind == TD_X86_KNOWN || !bit(rm.nr, 3)) << 5 | f.map);
    td_x86_byte(a, f.w << 7 | (~from & 15) << 3 | YMM | f.prefix);
    td_x86_byte(a, f.op);
    modrm(a, reg, rm);
}

/* zero: what the mask leaves out becomes 0. */
static void evex(td_x86 *a, fields f, unsigned reg, unsigned from, td_x86_rm rm, unsigned mask, bool zero)
{
    enum { ZMM = 2 << 5 };
    bool known = rm.kind == TD_X86_KNOWN, vector = rm.kind == TD_X86_REGISTER;
    td_x86_byte(a, 0x62);
    td_x86_byte(a, !bit(reg, 3) << 7 | !(vector && bit(rm.nr, 4)) << 6 | (known || !bit(rm.nr, 3)) << 5 |
                       !bit(reg, 4) << 4 | f.map);
    td_x86_byte(a, f.w << 7 | (~from & 15) << 3 | 4 | f.prefix);
    td_x86_byte(a, zero << 7 | ZMM | !bit(from, 4) << 3 | mask);
    td_x86_byte(a, f.op);
    modrm(a, reg, rm);
}

void td_x86_vector(td_x86 *a, td_x86_op op, unsigned to, unsigned from, td_x86_rm rm, unsigned mask)
{
    if (a->evex) evex(a, fields_of(a, op), to, from, rm, mask, mask);
    else vex(a, fields_of(a, op), to, from, rm);
}

void td_x86_store(td_x86 *a, td_x86_op op, unsigned what, td_x86_rm rm, unsigned mask)
{
    if (a->evex) evex(a, fields_of(a, op), what, 0, rm, mask, false);
    else vex(a, fields_of(a, op), what, 0, rm);
}

void td_x86_blend(td_x86 *a, unsigned to, unsigned no, unsigned yes, unsigned mask)
{
    evex(a, fields_of(a, (td_x86_op){2, TD_X86_FMA, 0x65}), to, no, (td_x86_rm){TD_X86_REGISTER, yes}, mask, false);
}

/* ---- general registers */

void td_x86_load(td_x86 *a, unsigned to, unsigned from, unsigned offset)
{
    td_x86_byte(a, 0x48 | bit(to, 3) << 2 | bit(from, 3));
    td_x86_byte(a, 0x8B);
    td_x86_byte(a, 0x80 | (to & 7) << 3 | (from & 7));
    four(a, offset);
}

void td_x86_push(td_x86 *a, unsigned nr)
{
    if (nr >= TD_R8) td_x86_byte(a, 0x41);
    td_x86_byte(a, 0x50 | (nr & 7));
}

void td_x86_pop(td_x86 *a, unsigned nr)
{
    if (nr >= TD_R8) td_x86_byte(a, 0x41);
    td_x86_byte(a, 0x58 | (nr & 7));
}

/* ---- jumps, and what lies behind the code */

static void set_four(td_x86 *a, size_t at, size_t value)
{
    uint32_t v = (uint32_t)value;
    if (at + sizeof v <= a->n) memcpy(a->code + at, &v, sizeof v);
}

size_t td_x86_jump(td_x86 *a, unsigned code)
{
    td_x86_byte(a, 0x0F);
    td_x86_byte(a, 0x80 | code);
    four(a, 0);
    return a->n - 4;
}

void td_x86_land(td_x86 *a, size_t jump)
{
    set_four(a, jump, a->n - (jump + 4));
}

void td_x86_jump_back(td_x86 *a, unsigned code, size_t to)
{
    size_t jump = td_x86_jump(a, code);
    set_four(a, jump, to - (jump + 4));
}

size_t td_x86_number(td_x86 *a, uint64_t bits)
{
    if (a->nnumbers == TD_X86_NUMBERS) {
        a->full = true;
        return 0;
    }
    a->number[a->nnumbers] = bits;
    return a->nnumbers++;
}

void td_x86_address(td_x86 *a, size_t number)
{
    TD_X86(a, 0x48, 0x8D, 0x05);
    distance(a, number);
}

void td_x86_end(td_x86 *a)
{
    while (a->n % TD_X86_PAGE && !a->full) td_x86_byte(a, 0xCC); /* a page that holds numbers is not executed */
    size_t first = a->ncode = a->n;
    for (size_t k = 0; k < a->nnumbers; k++)
        for (int i = 0; i < 8; i++) td_x86_byte(a, a->number[k] >> 8 * i & 255);
    for (size_t k = 0; k < a->nfixes; k++) set_four(a, a->fix[k].at, first + 8 * a->fix[k].number - (a->fix[k].at + 4));
}
