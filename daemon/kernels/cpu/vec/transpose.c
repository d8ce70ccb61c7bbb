/* A strip of a matrix, turned: to[r][c] = from[c][r] for `rows` rows (at most one cache line of elements) and `cols`
 * columns.
 *
 * Strides are in bytes. Reading whole lines of the source and writing rows of the destination is what makes x.T + y run
 * at the speed of memory; 4- and 8-byte elements are turned in registers, 4 x 4 or 8 x 8 at a time. */
#include "daemon/kernels/cpu/vec/isa.h"
#include <stdint.h>
#include <string.h>

typedef struct wide {
    uint64_t a, b;
} wide;

#define PLAIN(T, NAME)                                                                                                 \
    static void NAME(char *to, int64_t ts, const char *from, int64_t fs, int rows, int64_t cols)                       \
    {                                                                                                                  \
        for (int64_t c = 0; c < cols; c++)                                                                             \
            for (int r = 0; r < rows; r++)                                                                             \
                *(T *)(to + r * ts + c * (int64_t)sizeof(T)) = *(const T *)(from + c * fs + r * (int64_t)sizeof(T));   \
    }
PLAIN(uint8_t, plain1)
PLAIN(uint16_t, plain2)
PLAIN(uint32_t, plain4)
PLAIN(uint64_t, plain8)
PLAIN(wide, plain16)

#if TD_ISA_LEVEL == 0
#define STEP4 4
#define STEP8 2
typedef uint32_t v4 __attribute__((vector_size(16)));
static void turn4(char *to, int64_t ts, const char *from, int64_t fs)
{
    v4 a[4], t[4];
    for (int i = 0; i < 4; i++) memcpy(&a[i], from + i * fs, 16);
    for (int i = 0; i < 2; i++) {
        t[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 4, 1, 5);
        t[i + 2] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 2, 6, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        a[2 * i] = __builtin_shufflevector(t[2 * i], t[2 * i + 1], 0, 1, 4, 5);
        a[2 * i + 1] = __builtin_shufflevector(t[2 * i], t[2 * i + 1], 2, 3, 6, 7);
    }
    for (int i = 0; i < 4; i++) memcpy(to + i * ts, &a[i], 16);
}
static void turn8(char *to, int64_t ts, const char *from, int64_t fs)
{
    plain8(to, ts, from, fs, 2, 2);
}
#else
#define STEP4 8
#define STEP8 4
typedef uint32_t v8 __attribute__((vector_size(32)));
typedef uint64_t d4 __attribute__((vector_size(32)));
static void turn4(char *to, int64_t ts, const char *from, int64_t fs)
{
    v8 a[8], t[8];
    for (int i = 0; i < 8; i++) memcpy(&a[i], from + i * fs, 32);
    for (int i = 0; i < 4; i++) { /* pairs */
        t[2 * i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[2 * i + 1] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 2; i++) /* columns 0 and 4, 1 and 5, ... of four rows */
        for (int j = 0; j < 2; j++) {
            a[4 * i + 2 * j] = __builtin_shufflevector(t[4 * i + j], t[4 * i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            a[4 * i + 2 * j + 1] = __builtin_shufflevector(t[4 * i + j], t[4 * i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        t[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 8; i++) memcpy(to + i * ts, &t[i], 32);
}
static void turn8(char *to, int64_t ts, const char *from, int64_t fs)
{
    d4 a[4], t[4];
    for (int i = 0; i < 4; i++) memcpy(&a[i], from + i * fs, 32);
    for (int i = 0; i < 2; i++) {
        t[2 * i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 4, 2, 6);
        t[2 * i + 1] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 1, 5, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        a[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 4, 5);
        a[i + 2] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 6, 7);
    }
    for (int i = 0; i < 4; i++) memcpy(to + i * ts, &a[i], 32);
}
#endif

/* Whole STEP x STEP squares by TURN, the right and lower rims plainly. */
#define BLOCKED(NAME, PLAINLY, TURN, STEP, SIZE)                                                                       \
    static void NAME(char *to, int64_t ts, const char *from, int64_t fs, int rows, int64_t cols)                       \
    {                                                                                                                  \
        int rfull = rows / STEP * STEP;                                                                                \
        int64_t cfull = cols / STEP * STEP;                                                                            \
        for (int64_t c = 0; c < cfull; c += STEP)                                                                      \
            for (int r = 0; r < rfull; r += STEP) TURN(to + r * ts + c * SIZE, ts, from + c * fs + r * SIZE, fs);      \
        if (cfull < cols) PLAINLY(to + cfull * SIZE, ts, from + cfull * fs, fs, rfull, cols - cfull);                  \
        if (rfull < rows) PLAINLY(to + rfull * ts, ts, from + rfull * SIZE, fs, rows - rfull, cols);                   \
    }
BLOCKED(blocked4, plain4, turn4, STEP4, 4)
BLOCKED(blocked8, plain8, turn8, STEP8, 8)

void TD_ISA_NAME(td_transpose)(void *to, int64_t ts, const void *from, int64_t fs, int rows, int64_t cols, int size);
void TD_ISA_NAME(td_transpose)(void *to, int64_t ts, const void *from, int64_t fs, int rows, int64_t cols, int size)
{
    switch (size) {
    case 1: plain1(to, ts, from, fs, rows, cols); break;
    case 2: plain2(to, ts, from, fs, rows, cols); break;
    case 4: blocked4(to, ts, from, fs, rows, cols); break;
    case 8: blocked8(to, ts, from, fs, rows, cols); break;
    default: plain16(to, ts, from, fs, rows, cols); break;
    }
}
