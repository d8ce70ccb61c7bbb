/* Moving strided elements into dense blocks and back, by size alone. */
#include "daemon/kernels/cpu/plan.h"
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/cpu/vec/copy.h"
#include <string.h>

typedef struct wide {
    uint64_t a, b;
} wide;

#define FOR_SIZE(size, CALL)                                                                                           \
    switch (size) {                                                                                                    \
    case 1: CALL(uint8_t); break;                                                                                      \
    case 2: CALL(uint16_t); break;                                                                                     \
    case 4: CALL(uint32_t); break;                                                                                     \
    case 8: CALL(uint64_t); break;                                                                                     \
    default: CALL(wide); break;                                                                                        \
    }

TD_FOR_SETS(void, td_fill, (void *to, const void *value, int64_t n, int size), (to, value, n, size))
{
#define FILL(T)                                                                                                        \
    do {                                                                                                               \
        T v, *o = to;                                                                                                  \
        memcpy(&v, value, sizeof v);                                                                                   \
        for (int64_t i = 0; i < n; i++) o[i] = v;                                                                      \
    } while (0)
    FOR_SIZE(size, FILL)
}

/* A strip that is contiguous the other way is turned a cache line's worth of rows at a time. */
static void gather_turned(char *to, const char *from, int64_t rows, int64_t cols, int64_t col_stride, int size)
{
    int64_t step = TD_LINE_BYTES / size;
    for (int64_t r = 0; r < rows; r += step) {
        int n = (int)(rows - r < step ? rows - r : step);
        td_isa_now->transpose(to + r * cols * size, cols * size, from + r * size, col_stride, n, cols, size);
    }
}

/* Every element `cols` times. */
static void gather_repeated(char *to, const char *from, int64_t rows, int64_t cols, int64_t rs, int size)
{
    if (cols >= TD_REPEAT_FILL) {
        for (int64_t r = 0; r < rows; r++) td_fill(to + r * cols * size, from + r * rs, cols, size);
        return;
    }
#define REPEAT(T)                                                                                                      \
    do {                                                                                                               \
        T *o = (T *)to;                                                                                                \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            T v = *(const T *)(from + r * rs);                                                                         \
            for (int64_t c = 0; c < cols; c++) o[c] = v;                                                               \
            o += cols;                                                                                                 \
        }                                                                                                              \
    } while (0)
    FOR_SIZE(size, REPEAT)
}

/* Rows that are read from their ends. */
static TD_FOR_SETS(void, gather_backwards,
                   (void *to, const char *from, int64_t rows, int64_t cols, int64_t rs, int size),
                   (to, from, rows, cols, rs, size))
{
#define BACKWARDS(T)                                                                                                   \
    do {                                                                                                               \
        T *o = to;                                                                                                     \
        for (int64_t r = 0; r < rows; r++, o += cols) {                                                                \
            const T *p = (const T *)(from + r * rs);                                                                   \
            _Pragma("GCC ivdep") for (int64_t c = 0; c < cols; c++) o[c] = p[-c];                                      \
        }                                                                                                              \
    } while (0)
    FOR_SIZE(size, BACKWARDS)
}

void td_gather(void *to, const void *from, int64_t rows, int64_t cols, int64_t rs, int64_t cs, int size)
{
    if (cs == 0 && cols > 1) {
        gather_repeated(to, from, rows, cols, rs, size);
        return;
    }
    if (cs == size) {
        for (int64_t r = 0; r < rows; r++)
            td_copy_bytes((char *)to + r * cols * size, (const char *)from + r * rs, (size_t)(cols * size));
        return;
    }
    if (rs == size && rows >= TD_TURN_LEAST && cs != 0) {
        gather_turned(to, from, rows, cols, cs, size);
        return;
    }
    if (cs == -size) {
        gather_backwards(to, from, rows, cols, rs, size);
        return;
    }
#define GATHER(T)                                                                                                      \
    do {                                                                                                               \
        T *o = to;                                                                                                     \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            const char *p = (const char *)from + r * rs;                                                               \
            for (int64_t c = 0; c < cols; c++) *o++ = *(const T *)(p + c * cs);                                        \
        }                                                                                                              \
    } while (0)
    FOR_SIZE(size, GATHER)
}

void td_scatter(void *to, const void *from, int64_t rows, int64_t cols, int64_t rs, int64_t cs, int size)
{
    if (cs == size) {
        for (int64_t r = 0; r < rows; r++)
            td_copy_bytes((char *)to + r * rs, (const char *)from + r * cols * size, (size_t)(cols * size));
        return;
    }
#define SCATTER(T)                                                                                                     \
    do {                                                                                                               \
        const T *x = from;                                                                                             \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            char *p = (char *)to + r * rs;                                                                             \
            for (int64_t c = 0; c < cols; c++) *(T *)(p + c * cs) = *x++;                                              \
        }                                                                                                              \
    } while (0)
    FOR_SIZE(size, SCATTER)
}
