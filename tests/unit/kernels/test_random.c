/* Random numbers: known answers of the generator, distributions, independence of chunks and instruction sets, masks. */
#include "daemon/kernels/cpu/vec/philox.h"
#include "pointwise_support.h"

static void known_answers(void)
{
    static const struct {
        uint64_t seed, op, first;
        uint32_t want[4];
    } t[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        /* counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0 */
        {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int level = 0; level < 3; level++) {
        if (!td_isa_use(level)) continue;
        for (int i = 0; i < 3; i++) {
            uint32_t got[4];
            td_isa_now->philox->words(t[i].seed, t[i].op, t[i].first, 1, got);
            CU_ASSERT(!memcmp(got, t[i].want, sizeof got));
        }
    }
    td_isa_use(td_isa_level());
}

static int draw(const char *op, td_dtype t, int64_t n, uint64_t seed, uint64_t counter, void *out, int64_t low,
                int64_t high)
{
    call c;
    td_desc d = {.shape = {n}, .stride = {1}, .dtype = (uint8_t)t, .ndim = 1};
    call_begin(&c, op, t);
    if (!strcmp(op, "randint")) {
        call_attr(&c, 0, A_INT(low));
        call_attr(&c, 1, A_INT(high));
    }
    c.out[0] = (td_karg){out, &d};
    c.k.nout = 1;
    c.k.seed = seed;
    c.k.counter = counter;
    return call_run(&c);
}

/* The same bits whatever the instruction set, the order of chunks and the length; others for another seed or op. */
static void reproducible(void)
{
    enum { N = 200001 };
    static const char *const ops[] = {"rand", "randn", "randint", "randperm"};
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64};
    unsigned char *first = malloc(N * 8), *again = malloc(N * 8);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) {
            size_t size = td_dtype_size(types[j]);
            for (int level = 0; level < 3; level++) {
                if (!td_isa_use(level)) continue;
                CU_ASSERT_EQUAL(draw(ops[i], types[j], N, 7, 11, level ? again : first, -5, 100000), 0);
                if (level) CU_ASSERT(!memcmp(first, again, N * size));
            }
            if (i == 3) continue;
            CU_ASSERT_EQUAL(draw(ops[i], types[j], 77777, 7, 11, again, -5, 100000), 0);
            CU_ASSERT(!memcmp(first, again, 77777 * size));
            CU_ASSERT_EQUAL(draw(ops[i], types[j], N, 7, 12, again, -5, 100000), 0);
            CU_ASSERT(memcmp(first, again, N * size) != 0);
            CU_ASSERT_EQUAL(draw(ops[i], types[j], N, 8, 11, again, -5, 100000), 0);
            CU_ASSERT(memcmp(first, again, N * size) != 0);
        }
    td_isa_use(td_isa_level());
    free(first);
    free(again);
}

static double element(td_dtype t, const void *p, int64_t i)
{
    td_scalar s = td_scalar_load(t, (const char *)p + i * (int64_t)td_dtype_size(t));
    return s.kind <= TD_S_INT ? (double)s.i : s.re;
}

static void distributions(void)
{
    enum { N = 400000 };
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16};
    unsigned char *x = malloc(N * 8);
    for (int i = 0; i < 4; i++) {
        double mean = 0, square = 0, low = 2, high = -1, cubes = 0, fourth = 0;
        CU_ASSERT_EQUAL(draw("rand", types[i], N, 1, 2, x, 0, 0), 0);
        for (int64_t j = 0; j < N; j++) {
            double v = element(types[i], x, j);
            mean += v / N;
            square += v * v / N;
            low = fmin(low, v);
            high = fmax(high, v);
        }
        double unit = types[i] == TD_BFLOAT16 ? 0x1p-9 : 0x1p-12; /* rounded down to the dtype's grid */
        CU_ASSERT(low >= 0 && high < 1 && high > 0.99 && low < 0.01);
        CU_ASSERT(fabs(mean - 0.5) < 0.002 + unit && fabs(square - 1.0 / 3) < 0.002 + unit);
        CU_ASSERT_EQUAL(draw("randn", types[i], N, 3, 4, x, 0, 0), 0);
        mean = square = 0;
        double pairs = 0, previous = 0;
        for (int64_t j = 0; j < N; j++) {
            double v = element(types[i], x, j);
            mean += v / N;
            square += v * v / N;
            cubes += v * v * v / N;
            fourth += v * v * v * v / N;
            pairs += v * previous / N;
            previous = v;
        }
        CU_ASSERT(fabs(mean) < 0.006 && fabs(square - 1) < 0.01 && fabs(cubes) < 0.03 && fabs(fourth - 3) < 0.06);
        CU_ASSERT(fabs(pairs) < 0.006);
    }
    free(x);
}

static void whole_numbers(void)
{
    enum { N = 300000 };
    int64_t *x = malloc(N * sizeof *x), count[7] = {0};
    CU_ASSERT_EQUAL(draw("randint", TD_INT64, N, 5, 6, x, -3, 4), 0);
    bool inside = true;
    for (int i = 0; i < N; i++) {
        inside = inside && x[i] >= -3 && x[i] < 4;
        if (inside) count[x[i] + 3]++;
    }
    CU_ASSERT(inside);
    for (int i = 0; i < 7; i++) CU_ASSERT(fabs((double)count[i] - N / 7.0) < 1200);
    /* three quarters of all: half of the words are drawn again somewhere */
    CU_ASSERT_EQUAL(draw("randint", TD_INT64, N, 5, 6, x, INT64_MIN, INT64_MAX / 2), 0);
    double mean = 0;
    for (int i = 0; i < N; i++) {
        CU_ASSERT_FATAL(x[i] < INT64_MAX / 2);
        mean += (double)x[i] / N;
    }
    CU_ASSERT(fabs(mean + 0x1p61) < 0x1p55);
    /* each remainder as often as others, though only one in three of the numbers would be drawn from two words */
    int64_t third[3] = {0};
    CU_ASSERT_EQUAL(draw("randint", TD_INT64, N, 5, 6, x, INT64_MIN, INT64_C(1) << 62), 0);
    for (int i = 0; i < N; i++) third[((uint64_t)x[i] - (uint64_t)INT64_MIN) % 3]++;
    for (int i = 0; i < 3; i++) CU_ASSERT(labs(third[i] - N / 3) < 1500);
    CU_ASSERT_EQUAL(draw("randperm", TD_INT64, N, 9, 1, x, 0, 0), 0);
    char *seen = calloc(N, 1);
    int64_t fixed = 0, twice = 0;
    for (int i = 0; i < N; i++) {
        CU_ASSERT_FATAL(x[i] >= 0 && x[i] < N);
        twice += seen[x[i]]++;
        fixed += x[i] == i;
    }
    CU_ASSERT(twice == 0 && fixed < 20);
    free(seen);
    free(x);
}

static void bernoulli(void)
{
    int64_t shape[2] = {400, 300};
    box p = box_new(TD_FLOAT32, 2, shape, PERMUTED), y = box_new(TD_FLOAT32, 2, shape, ROW_MAJOR);
    for (int64_t i = 0; i < box_numel(&p); i++) box_set(&p, i, i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 0.25);
    call c;
    call_begin(&c, "bernoulli", TD_FLOAT32);
    call_in(&c, &p);
    call_out(&c, &y);
    c.k.seed = 4;
    CU_ASSERT_EQUAL(call_run(&c), 0);
    int64_t ones = 0, wrong = 0;
    for (int64_t i = 0; i < box_numel(&y); i++) {
        double v = box_real(&y, i);
        wrong += i % 3 == 0 ? v != 0 : i % 3 == 1 ? v != 1 : v != 0 && v != 1;
        ones += i % 3 == 2 && v == 1;
    }
    CU_ASSERT(wrong == 0 && labs(ones - 10000) < 400);
    box_set(&p, 777, 1.5);
    CU_ASSERT_EQUAL(call_run(&c), TD_E_INVALID);
    box_set(&p, 777, NAN);
    CU_ASSERT_EQUAL(call_run(&c), TD_E_INVALID);
    box_free(&p);
    box_free(&y);
}

/* Draws of `shape[0]` rows over classes with chances 0, 1, 2, ...: counts how often each class comes first. */
static int draw_classes(const int64_t *shape, bool again, int how, int64_t *y, int64_t *first)
{
    box p = box_new(TD_FLOAT64, 2, shape, how);
    int64_t samples = shape[1] - 1, out_shape[2] = {shape[0], samples};
    for (int64_t i = 0; i < box_numel(&p); i++) box_set(&p, i, (double)(i % shape[1]));
    call c;
    td_desc d;
    td_desc_contiguous(&d, TD_INT64, 2, out_shape, NULL);
    call_begin(&c, "multinomial", TD_FLOAT64);
    call_in(&c, &p);
    call_attr(&c, 0, A_INT(samples));
    call_attr(&c, 1, A_BOOL(again));
    c.out[0] = (td_karg){y, &d};
    c.k.nout = 1, c.k.seed = 4, c.k.counter = 9;
    int rc = call_run(&c);
    for (int64_t r = 0; r < shape[0] && !rc; r++) first[y[r * samples]]++;
    box_free(&p);
    return rc;
}

/* Chances of 0 are never drawn, nor a class twice; the first draw has the chances that were given, whatever the layout.
 */
static void classes(void)
{
    enum { ROWS = 6000, CLASSES = 5, SAMPLES = CLASSES - 1 };
    static int64_t y[2][ROWS * SAMPLES];
    const int64_t shape[2] = {ROWS, CLASSES};
    for (int again = 0; again < 2; again++) {
        int64_t first[2][CLASSES] = {{0}}, twice = 0;
        CU_ASSERT_EQUAL(draw_classes(shape, again, ROW_MAJOR, y[0], first[0]), 0);
        CU_ASSERT_EQUAL(draw_classes(shape, again, PERMUTED, y[1], first[1]), 0);
        CU_ASSERT(!memcmp(y[0], y[1], sizeof y[0]));
        for (int k = 0; k < CLASSES; k++) CU_ASSERT(fabs((double)first[0][k] - ROWS * k / 10.0) < (k ? 150 : 1));
        for (int64_t i = 0; i < ROWS * SAMPLES; i++)
            for (int64_t j = i - i % SAMPLES; j < i; j++) twice += y[0][i] == y[0][j];
        CU_ASSERT_EQUAL(twice > 0, again);
    }
}

static void check_dropout(td_dtype t, double p, int layout)
{
    int64_t shape[2] = {310, 250}, two = 2;
    box x = box_new(t, 2, shape, layout), y = box_new(t, 2, shape, ROW_MAJOR), g = box_new(t, 2, shape, ROW_MAJOR),
        state = box_new(TD_INT64, 1, &two, ROW_MAJOR);
    for (int64_t i = 0; i < box_numel(&x); i++) box_set(&x, i, 2);
    call c;
    call_begin(&c, "dropout", t);
    call_attr(&c, 0, A_FLOAT(p));
    call_in(&c, &x);
    call_out(&c, &y);
    call_out(&c, &state);
    c.k.seed = 0xdeadbeefcafe;
    c.k.counter = 42;
    CU_ASSERT_EQUAL(call_run(&c), 0);
    CU_ASSERT(((uint64_t *)state.data)[0] == 0xdeadbeefcafe && ((uint64_t *)state.data)[1] == 42);
    call_begin(&c, "dropout_backward", t);
    call_attr(&c, 0, A_FLOAT(p));
    call_in(&c, &x);
    call_in(&c, &state);
    call_out(&c, &g);
    CU_ASSERT_EQUAL(call_run(&c), 0);
    int64_t kept = 0, wrong = 0, n = box_numel(&x);
    double scaled = 2 / (1 - p), slack = t == TD_FLOAT16 ? 0.01 : 1e-6;
    for (int64_t i = 0; i < n; i++) {
        double v = box_real(&y, i);
        wrong += v != box_real(&g, i) || (v != 0 && !(fabs(v - scaled) < slack));
        kept += v != 0;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT(fabs((double)kept / (double)n - (1 - p)) < (p == 0 || p == 1 ? 1e-9 : 0.01));
    box_free(&x);
    box_free(&y);
    box_free(&g);
    box_free(&state);
}

static void dropout(void)
{
    static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16};
    static const double p[] = {0, 0.1, 0.5, 0.9, 1};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 5; j++) check_dropout(types[i], p[j], j % 3);
}

static int init(void)
{
    td_cpu_init();
    return 0;
}

TD_CUNIT_MAIN_WITH("kernels_random", init, NULL, {"known answers", known_answers}, {"reproducible", reproducible},
                   {"distributions", distributions}, {"whole numbers", whole_numbers}, {"bernoulli", bernoulli},
                   {"classes", classes}, {"dropout", dropout})
