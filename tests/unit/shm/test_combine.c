/* Sums of groups: every dtype and way against plain arithmetic, element by element; the numbers that are easily lost
 * (NaN, -0, halves that overflow, integers that wrap); and the same bits however it is cut, and from every set of
 * loops. */
#include "proto/base/dtype.h"
#include "shm/board/combine.h"
#include "tests/unit/cunit_main.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64, COUNT = 5003 }; /* inputs; elements, of more than one block, and no round number of them */

static unsigned char *in[MOST];
static const void *inputs[MOST];
static unsigned char *out, *other;
static uint64_t drawn = 88172645463325252;

static uint64_t draw(void)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return drawn;
}

static int make(void)
{
    for (int i = 0; i < MOST; i++) inputs[i] = in[i] = malloc(COUNT * 16);
    out = malloc(COUNT * 16);
    other = malloc(COUNT * 16);
    return 0;
}

static int unmake(void)
{
    for (int i = 0; i < MOST; i++) free(in[i]);
    free(out);
    free(other);
    return 0;
}

/* A part of an element, of a real dtype. */
static void put(td_dtype t, unsigned char *at, uint64_t i, double x)
{
    switch (t) {
    case TD_FLOAT16: ((uint16_t *)at)[i] = td_float_to_half((float)x); break;
    case TD_BFLOAT16: ((uint16_t *)at)[i] = td_float_to_bfloat((float)x); break;
    case TD_FLOAT32: ((float *)at)[i] = (float)x; break;
    default: ((double *)at)[i] = x;
    }
}

static double get(td_dtype t, const void *at, uint64_t i)
{
    switch (t) {
    case TD_FLOAT16: return td_half_to_float(((const uint16_t *)at)[i]);
    case TD_BFLOAT16: return td_bfloat_to_float(((const uint16_t *)at)[i]);
    case TD_FLOAT32: return ((const float *)at)[i];
    default: return ((const double *)at)[i];
    }
}

static void fill(td_dtype dtype, int n)
{
    td_dtype real = td_dtype_real(dtype);
    uint64_t parts = COUNT * (td_dtype_is_complex(dtype) ? 2 : 1);
    for (int k = 0; k < n; k++) {
        if (!td_dtype_is_inexact(dtype)) {
            for (uint64_t i = 0; i < COUNT * 8; i++) in[k][i] = (unsigned char)(draw() >> 20);
            for (uint64_t i = 0; dtype == TD_BOOL && i < COUNT; i++) in[k][i] = draw() % 3 ? 0 : (unsigned char)draw();
        } else {
            for (uint64_t i = 0; i < parts; i++)
                put(real, in[k], i, ((double)(draw() % 2000001) - 1e6) * 1e-6 * (i % 5 ? 1 : 0.01));
        }
    }
}

static double wide_step(td_reduce_op op, bool doubles, double a, double b)
{
    switch (op) {
    case TD_MIN: return isnan(a) || isnan(b) ? NAN : b < a ? b : a;
    case TD_MAX: return isnan(a) || isnan(b) ? NAN : b > a ? b : a;
    case TD_PROD: return doubles ? a * b : (double)((float)a * (float)b);
    default: return doubles ? a + b : (double)((float)a + (float)b);
    }
}

/* A real part as plain arithmetic has it. */
static double expected(td_reduce_op op, td_dtype real, int n, uint64_t i)
{
    bool doubles = real == TD_FLOAT64;
    double x = get(real, in[0], i);
    for (int k = 1; k < n; k++) x = wide_step(op, doubles, x, get(real, in[k], i));
    if (op == TD_MEAN) x = doubles ? x / n : (double)((float)x / (float)n);
    put(real, other, 0, x);
    return get(real, other, 0);
}

static uint64_t whole(td_dtype t, const void *at, uint64_t i)
{
    return (uint64_t)td_scalar_load(t, (const unsigned char *)at + i * td_dtype_size(t)).i;
}

static uint64_t expected_whole(td_reduce_op op, td_dtype t, int n, uint64_t i)
{
    uint64_t x = whole(t, in[0], i);
    for (int k = 1; k < n; k++) {
        uint64_t y = whole(t, in[k], i);
        bool less = t == TD_UINT64 ? y < x : (int64_t)y < (int64_t)x;
        if (t == TD_BOOL) x = op == TD_SUM || op == TD_MAX ? x | y : x & y;
        else if (op == TD_SUM) x += y;
        else if (op == TD_PROD) x *= y;
        else if (less == (op == TD_MIN)) x = y;
    }
    unsigned char one[8];
    memcpy(one, &x, 8); /* the low bytes of it */
    return whole(t, one, 0);
}

static void check(td_reduce_op op, td_dtype dtype, int n)
{
    fill(dtype, n);
    memset(out, 0xee, COUNT * 16);
    td_combine(op, dtype, out, inputs, (uint32_t)n, COUNT);
    int bad = 0;
    if (!td_dtype_is_inexact(dtype)) {
        for (uint64_t i = 0; i < COUNT; i++) bad += whole(dtype, out, i) != expected_whole(op, dtype, n, i);
        for (uint64_t i = 0; dtype == TD_BOOL && i < COUNT; i++) bad += out[i] > 1;
    } else {
        td_dtype real = td_dtype_real(dtype);
        uint64_t parts = COUNT * (td_dtype_is_complex(dtype) ? 2 : 1);
        for (uint64_t i = 0; i < parts; i++) {
            double x = get(real, out, i), y = expected(op, real, n, i);
            bad += memcmp(&x, &y, sizeof x) != 0;
        }
    }
    for (size_t i = COUNT * td_dtype_size(dtype); i < COUNT * 16; i++) bad += out[i] != 0xee;
    if (bad) fprintf(stderr, "%s of %s, %d inputs: %d\n", td_reduce_op_name(op), td_dtype_name(dtype), n, bad);
    CU_ASSERT_EQUAL(bad, 0);
}

static void plain(void)
{
    static const int ns[] = {1, 2, 3, 4, 7, 64};
    for (unsigned op = 0; op < TD_REDUCE_OP_COUNT; op++)
        for (unsigned t = 0; t < TD_DTYPE_COUNT; t++)
            for (size_t i = 0; i < sizeof ns / sizeof *ns && td_combine_takes(op, t); i++)
                check((td_reduce_op)op, (td_dtype)t, ns[i]);
}

static void refused(void)
{
    CU_ASSERT_FALSE(td_combine_takes(TD_MEAN, TD_INT32));
    CU_ASSERT_FALSE(td_combine_takes(TD_MEAN, TD_BOOL));
    CU_ASSERT_FALSE(td_combine_takes(TD_MAX, TD_COMPLEX64));
    CU_ASSERT_FALSE(td_combine_takes(TD_PROD, TD_COMPLEX128));
    CU_ASSERT_FALSE(td_combine_takes(TD_SUM, TD_DTYPE_COUNT));
    CU_ASSERT_FALSE(td_combine_takes(TD_SUM, TD_DTYPE_NONE));
    CU_ASSERT_FALSE(td_combine_takes(TD_REDUCE_OP_COUNT, TD_FLOAT32));
    CU_ASSERT_TRUE(td_combine_takes(TD_MEAN, TD_COMPLEX64));
    CU_ASSERT_STRING_EQUAL(td_reduce_op_name(TD_PROD), "prod");
    CU_ASSERT_STRING_EQUAL(td_reduce_op_name(TD_REDUCE_OP_COUNT), "?");
}

/* Against sums of more digits: the error of n - 1 additions. */
static void near_the_truth(void)
{
    fill(TD_FLOAT32, MOST);
    td_combine(TD_SUM, TD_FLOAT32, out, inputs, MOST, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        long double sum = 0, size = 0;
        for (int k = 0; k < MOST; k++) {
            sum += get(TD_FLOAT32, in[k], i);
            size += fabs(get(TD_FLOAT32, in[k], i));
        }
        CU_ASSERT_TRUE(fabsl(get(TD_FLOAT32, out, i) - sum) <= size * MOST * 0x1p-24L);
    }
}

/* Three inputs of one number each, at all places of a vector. */
static double of_three(td_reduce_op op, td_dtype t, double a, double b, double c)
{
    double x[3] = {a, b, c}, first = 0;
    for (int k = 0; k < 3; k++)
        for (uint64_t i = 0; i < 37; i++) put(t, in[k], i, x[k]);
    td_combine(op, t, out, inputs, 3, 37);
    first = get(t, out, 0);
    for (uint64_t i = 1; i < 37; i++) {
        double y = get(t, out, i);
        CU_ASSERT_TRUE(isnan(first) ? isnan(y) : memcmp(&first, &y, sizeof y) == 0);
    }
    return first;
}

static void easily_lost(void)
{
    static const td_dtype floats[] = {TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32, TD_FLOAT64};
    for (int f = 0; f < 4; f++) {
        td_dtype t = floats[f];
        for (unsigned op = 0; op < TD_REDUCE_OP_COUNT; op++) {
            CU_ASSERT_TRUE(isnan(of_three((td_reduce_op)op, t, NAN, 1, 2)));
            CU_ASSERT_TRUE(isnan(of_three((td_reduce_op)op, t, 1, NAN, 2)));
            CU_ASSERT_TRUE(isnan(of_three((td_reduce_op)op, t, 1, 2, NAN)));
        }
        CU_ASSERT_TRUE(signbit(of_three(TD_MAX, t, -0.0, 0.0, -1)));
        CU_ASSERT_FALSE(signbit(of_three(TD_MIN, t, 0.0, -0.0, 1)));
        CU_ASSERT_TRUE(signbit(of_three(TD_SUM, t, -0.0, -0.0, -0.0)));
        CU_ASSERT_FALSE(signbit(of_three(TD_SUM, t, -0.0, 0.0, -0.0)));
        CU_ASSERT_TRUE(isinf(of_three(TD_MAX, t, 1, INFINITY, 2)));
        CU_ASSERT_TRUE(isnan(of_three(TD_SUM, t, INFINITY, -INFINITY, 2)));
    }
    /* What is too large for a half only in between is not, and what is so in the end is. */
    CU_ASSERT_EQUAL(of_three(TD_SUM, TD_FLOAT16, 60000, 60000, -60000), 60000);
    CU_ASSERT_EQUAL(of_three(TD_MEAN, TD_FLOAT16, 60000, 60000, 60000), 60000);
    CU_ASSERT_TRUE(isinf(of_three(TD_SUM, TD_FLOAT16, 60000, 60000, 0)));
    /* Rounded once: 2048 + 0.75 + 0.75 is nearer to 2050, and each step alone would stay at 2048. */
    CU_ASSERT_EQUAL(of_three(TD_SUM, TD_FLOAT16, 2048, 0.75, 0.75), 2050);
    CU_ASSERT_EQUAL(of_three(TD_SUM, TD_FLOAT16, 0x1p-24, 0x1p-24, 0), 0x1p-23);
    for (uint32_t h = 0; h < 65536; h += 13) { /* every kind of half goes through unchanged */
        uint16_t x[1] = {(uint16_t)h}, y[1];
        const void *one[1] = {x};
        td_combine(TD_SUM, TD_FLOAT16, y, one, 1, 1);
        CU_ASSERT_EQUAL(y[0], td_float_to_half(td_half_to_float((uint16_t)h)));
    }
}

/* Every half, also those that are no numbers, by every set of loops: alone, and with one that is drawn. */
static void every_half(void)
{
    enum { HALVES = 65536 };
    uint16_t *x = malloc(HALVES * 2), *y = malloc(HALVES * 2), *want = malloc(HALVES * 2), *got = malloc(HALVES * 2);
    const void *both[5] = {x, y, y, x, y};
    for (uint32_t i = 0; i < HALVES; i++) x[i] = (uint16_t)i, y[i] = (uint16_t)draw();
    for (uint32_t i = 0; i < HALVES; i++) /* of two that are no numbers either may be the result */
        if ((y[i] & 0x7fff) > 0x7c00) y[i] &= 0xbfff;
    for (uint32_t n = 1; n <= 5; n++)
        for (unsigned op = 0; op < TD_REDUCE_OP_COUNT; op++) {
            CU_ASSERT_TRUE(td_combine_use(0));
            td_combine((td_reduce_op)op, TD_FLOAT16, want, both, n, HALVES);
            for (int set = 1; set <= 2; set++) {
                if (!td_combine_use(set)) continue;
                td_combine((td_reduce_op)op, TD_FLOAT16, got, both, n, HALVES);
                CU_ASSERT_EQUAL(memcmp(got, want, HALVES * 2), 0);
                for (uint32_t i = 0; i < HALVES; i++)
                    if (got[i] != want[i]) {
                        fprintf(stderr, "%s of %u, set %d: %04x and %04x: %04x, not %04x\n", td_reduce_op_name(op), n,
                                set, x[i], y[i], got[i], want[i]);
                        break;
                    }
            }
        }
    free(x);
    free(y);
    free(want);
    free(got);
}

/* Cut anywhere, by any set, in place: the same bits. */
static void same_bits(void)
{
    for (unsigned t = 0; t < TD_DTYPE_COUNT; t++) {
        for (unsigned op = 0; op < TD_REDUCE_OP_COUNT; op++) {
            if (!td_combine_takes(op, t)) continue;
            size_t size = td_dtype_size((td_dtype)t);
            fill((td_dtype)t, 5);
            CU_ASSERT_TRUE(td_combine_use(0));
            td_combine((td_reduce_op)op, (td_dtype)t, other, inputs, 5, COUNT);
            for (int set = 0; set <= 2; set++) {
                if (!td_combine_use(set)) continue;
                memset(out, 0xee, COUNT * 16);
                for (uint64_t at = 0; at < COUNT;) {
                    uint64_t n = 1 + draw() % 900;
                    if (n > COUNT - at) n = COUNT - at;
                    const void *piece[5];
                    for (int k = 0; k < 5; k++) piece[k] = in[k] + at * size;
                    td_combine((td_reduce_op)op, (td_dtype)t, out + at * size, piece, 5, n);
                    at += n;
                }
                CU_ASSERT_EQUAL(memcmp(out, other, COUNT * size), 0);
            }
            td_combine((td_reduce_op)op, (td_dtype)t, in[0], inputs, 5, COUNT);
            CU_ASSERT_EQUAL(memcmp(in[0], other, COUNT * size), 0);
        }
    }
    CU_ASSERT_FALSE(td_combine_use(3));
    CU_ASSERT_FALSE(td_combine_use(-1));
}

/* While another process writes a result again and again, it is never seen to be anything else: nothing that is not yet
 * whole is kept there. So two ranks may do one piece at once. */
static void written_once(void)
{
    enum { LOOKS = 100 };
    static const int ns[] = {1, 3, 6};
    size_t size = COUNT * 16;
    unsigned char *seen = mmap(NULL, size + 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_TRUE_FATAL(seen != MAP_FAILED);
    _Atomic uint32_t *looks = (_Atomic uint32_t *)(void *)(seen + size);
    for (unsigned t = 0; t < TD_DTYPE_COUNT; t++) {
        for (unsigned op = 0; op < TD_REDUCE_OP_COUNT; op++) {
            for (size_t i = 0; i < sizeof ns / sizeof *ns && td_combine_takes(op, t); i++) {
                fill((td_dtype)t, ns[i]);
                td_combine((td_reduce_op)op, (td_dtype)t, seen, inputs, (uint32_t)ns[i], COUNT);
                memcpy(other, seen, size);
                atomic_store(looks, 0);
                fflush(stdout);
                pid_t writer = fork();
                CU_ASSERT_TRUE_FATAL(writer >= 0);
                while (!writer && atomic_load(looks) < LOOKS)
                    td_combine((td_reduce_op)op, (td_dtype)t, seen, inputs, (uint32_t)ns[i], COUNT);
                if (!writer) _exit(0);
                int bad = 0, status;
                for (; atomic_load(looks) < LOOKS; atomic_fetch_add(looks, 1)) bad += memcmp(seen, other, size) != 0;
                CU_ASSERT_EQUAL(bad, 0);
                CU_ASSERT_EQUAL(waitpid(writer, &status, 0), writer);
                CU_ASSERT_EQUAL(status, 0);
            }
        }
    }
    munmap(seen, size + 64);
}

TD_CUNIT_MAIN_WITH("shm_combine", make, unmake, {"every dtype and way, as plain arithmetic has it", plain},
                   {"what is refused", refused}, {"near the truth", near_the_truth},
                   {"numbers that are easily lost", easily_lost}, {"every half", every_half},
                   {"the same bits however it is cut", same_bits}, {"each element is written once", written_once})
