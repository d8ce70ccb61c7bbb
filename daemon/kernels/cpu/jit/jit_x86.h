/* An assembler for the few instructions that generated loops are made of, in both of their encodings: VEX (AVX2: 16
 * registers of 32 bytes) and EVEX (AVX-512: 32 of 64 bytes, and masks). It knows no steps and no values. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_JIT_JIT_X86_H
#define TENSORD_DAEMON_KERNELS_CPU_JIT_JIT_X86_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_X86_PAGE = 4096, TD_X86_BYTES = 32768, TD_X86_FIXES = 1024, TD_X86_NUMBERS = 512 };

typedef struct td_x86 {
    bool evex, wide; /* wide: double */
    bool full;       /* something had no room: what was made is no code */
    size_t n, ncode; /* ncode: at the end, without the numbers */
    uint8_t code[TD_X86_BYTES];
    /* What lies behind the code, and where the code names it. */
    size_t nnumbers, nfixes;
    uint64_t number[TD_X86_NUMBERS];
    struct {
        size_t at;
        size_t number;
    } fix[TD_X86_FIXES];
} td_x86;

/* General registers. */
enum {
    TD_RAX,
    TD_RCX,
    TD_RDX,
    TD_RBX,
    TD_RSP,
    TD_RBP,
    TD_RSI,
    TD_RDI,
    TD_R8,
    TD_R9,
    TD_R10,
    TD_R11,
    TD_R12,
    TD_R13,
    TD_R14,
    TD_R15
};

/* An instruction of vectors, of floats; that of doubles has another prefix, another W, or the next number. */
typedef struct td_x86_op {
    uint8_t map;  /* 1: 0F, 2: 0F38, 3: 0F3A */
    uint8_t form; /* TD_X86_PS, ... */
    uint8_t op;
} td_x86_op;
enum {
    TD_X86_PS,  /* no prefix; of doubles 66, and W in EVEX */
    TD_X86_FMA, /* 66; of doubles W */
    TD_X86_NEXT /* 66; of doubles the next opcode, and W in EVEX */
};

/* What the last operand of one is. */
typedef struct td_x86_rm {
    enum { TD_X86_REGISTER, TD_X86_ARRAY, TD_X86_PLACE, TD_X86_KNOWN } kind;
    unsigned
        nr; /* of the vector register; of the base: [base + rcx * element], [base]; of the number behind the code */
} td_x86_rm;

/* op to, from, rm; `from` 0 where there is none. `mask`: a mask register, the rest becomes 0 (EVEX). */
void td_x86_vector(td_x86 *a, td_x86_op op, unsigned to, unsigned from, td_x86_rm rm, unsigned mask);
/* The same to memory: only what the mask says is written. */
void td_x86_store(td_x86 *a, td_x86_op op, unsigned what, td_x86_rm rm, unsigned mask);
/* Choose by a mask of EVEX: rm where it is set. */
void td_x86_blend(td_x86 *a, unsigned to, unsigned no, unsigned yes, unsigned mask);
void td_x86_byte(td_x86 *a, unsigned byte);
void td_x86_bytes(td_x86 *a, size_t n, const uint8_t *bytes);
#define TD_X86(a, ...) td_x86_bytes(a, sizeof((const uint8_t[]){__VA_ARGS__}), (const uint8_t[]){__VA_ARGS__})
/* mov to, [from + offset] */
void td_x86_load(td_x86 *a, unsigned to, unsigned from, unsigned offset);
void td_x86_push(td_x86 *a, unsigned nr);
void td_x86_pop(td_x86 *a, unsigned nr);
/* A jump whose goal comes later: where its distance stands, for td_x86_land. `code`: of the condition. */
size_t td_x86_jump(td_x86 *a, unsigned code);
void td_x86_land(td_x86 *a, size_t jump);
void td_x86_jump_back(td_x86 *a, unsigned code, size_t to);
/* lea rax, [rip + ...] of a number behind the code. */
void td_x86_address(td_x86 *a, size_t number);
/* A number behind the code. */
size_t td_x86_number(td_x86 *a, uint64_t bits);
/* Numbers come behind the code, and the code learns where. */
void td_x86_end(td_x86 *a);

#endif
