/* One dtype of the small products: included once for T float and once for double, with S its suffix. See product.h. */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(name) JOIN(name, S)

typedef T NAME(wide) __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
enum { NAME(LANES) = BYTES / (int)sizeof(T), NAME(COLS) = 2 * NAME(LANES) };

static inline const T *NAME(line)(const td_operand_lines *l, int64_t r)
{
    r += l->first;
    return (const T *)l->at + r / l->per * l->outer + r % l->per * l->inner;
}

/* The lines lie evenly from r on, n of them. */
static inline bool NAME(even)(const td_operand_lines *l, int64_t r, int64_t n)
{
    return (r + l->first) % l->per + n <= l->per;
}

static void NAME(pack)(int64_t width, int64_t depth, const td_operand_lines *b, bool turned, int64_t j0, int64_t p0, void *to)
{
    T *restrict out = to;
    const int64_t cols = NAME(COLS), step = b->step;
    if (width < cols) memset(out, 0, (size_t)(depth * cols) * sizeof *out);
    if (turned && step == 1 && NAME(even)(b, j0, width)) {
        TD_ISA_NAME(td_transpose)
        (out, cols * (int64_t)sizeof(T), NAME(line)(b, j0) + p0, b->inner * (int64_t)sizeof(T), (int)depth, width,
         sizeof(T));
    } else if (turned) {
        for (int64_t j = 0; j < width; j++) {
            const T *from = NAME(line)(b, j0 + j) + p0 * step;
            for (int64_t p = 0; p < depth; p++) out[p * cols + j] = from[p * step];
        }
    } else {
        for (int64_t p = 0; p < depth; p++) {
            const T *from = NAME(line)(b, p0 + p) + j0 * step;
            if (step == 1 && width == cols) {
                *(NAME(wide) *)(out + p * cols) = *(const NAME(wide) *)from;
                *(NAME(wide) *)(out + p * cols + NAME(LANES)) = *(const NAME(wide) *)(from + NAME(LANES));
            } else
                for (int64_t j = 0; j < width; j++) out[p * cols + j] = from[j * step];
        }
    }
}

static inline __attribute__((always_inline)) void NAME(tile)(const int rows, int64_t depth, const T *const *a,
                                                             int64_t step, const T *b, T *c, int64_t ldc, bool add)
{
    NAME(wide) s[6], t[6];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) s[i] = t[i] = (NAME(wide)){0};
    for (int64_t p = 0, at = 0; p < depth; p++, at += step, b += NAME(COLS)) {
        NAME(wide) x = *(const NAME(wide) *)b, y = *(const NAME(wide) *)(b + NAME(LANES));
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            s[i] += a[i][at] * x;
            t[i] += a[i][at] * y;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        NAME(wide) *to = (NAME(wide) *)(c + i * ldc), *behind = (NAME(wide) *)(c + i * ldc + NAME(LANES));
        if (add) *to += s[i], *behind += t[i];
        else *to = s[i], *behind = t[i];
    }
}

static void NAME(tiles)(int rows, int64_t depth, const T *const *a, int64_t step, const T *b, T *c, int64_t ldc, bool add)
{
    switch (rows) {
    case 1: NAME(tile)(1, depth, a, step, b, c, ldc, add); break;
    case 2: NAME(tile)(2, depth, a, step, b, c, ldc, add); break;
    case 3: NAME(tile)(3, depth, a, step, b, c, ldc, add); break;
    case 4: NAME(tile)(4, depth, a, step, b, c, ldc, add); break;
    case 5: NAME(tile)(5, depth, a, step, b, c, ldc, add); break;
    default: NAME(tile)(6, depth, a, step, b, c, ldc, add);
    }
}

/* How many rows next: eight are two fours. */
static inline int NAME(take)(int64_t left)
{
    return left == 8 || left == 4 ? 4 : left < 6 ? (int)left : left == 7 ? 4 : 6;
}

static void NAME(block)(int64_t m, int64_t width, int64_t depth, const td_operand_lines *l, int64_t p0, const void *panel, void *to,
                        int64_t ldc, bool add)
{
    T *c = to;
    for (int64_t i = 0, rows; i < m; i += rows, c += rows * ldc) {
        const T *a[6];
        T edge[6 * NAME(COLS)];
        rows = NAME(take)(m - i);
        for (int r = 0; r < rows; r++) a[r] = NAME(line)(l, i + r) + p0 * l->step;
        if (width == NAME(COLS)) {
            NAME(tiles)((int)rows, depth, a, l->step, panel, c, ldc, add);
            continue;
        }
        NAME(tiles)((int)rows, depth, a, l->step, panel, edge, NAME(COLS), false);
        for (int r = 0; r < rows; r++)
            for (int64_t j = 0; j < width; j++)
                c[r * ldc + j] = (add ? c[r * ldc + j] : 0) + edge[r * NAME(COLS) + j];
    }
}

#undef NAME
#undef JOIN
#undef JOIN_
#undef T
#undef S
