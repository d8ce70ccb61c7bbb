/* Attributes as words: what goes in comes out, defaults are not sent, and whatever words come in, what is read matches
 * the signature. */
#include "cunit_main.h"
#include "op_calls.h"

static const int64_t two[] = {1, -2};

/* One attribute of each kind, twice: required, then optional or with a default. */
static const td_attr_def defs[] = {
    {.name = "i", .kind = TD_A_INT},
    {.name = "f", .kind = TD_A_FLOAT},
    {.name = "s", .kind = TD_A_SCALAR},
    {.name = "v", .kind = TD_A_INTS},
    {.name = "d", .kind = TD_A_DTYPE, .optional = true},
    {.name = "i2", .kind = TD_A_INT, .optional = true, .has_default = true, .value = {.kind = TD_A_NONE}},
    {.name = "f2", .kind = TD_A_FLOAT, .has_default = true, .value = {.kind = TD_A_FLOAT, .f = 0.5}},
    {.name = "b2", .kind = TD_A_BOOL, .has_default = true, .value = {.kind = TD_A_BOOL, .i = 1}},
    {.name = "s2", .kind = TD_A_SCALAR, .has_default = true, .value = {.kind = TD_A_SCALAR, .s = {TD_S_INT, 1, 0, 0}}},
    {.name = "v2", .kind = TD_A_INTS, .has_default = true, .value = {.kind = TD_A_INTS, .count = 2}, .ints = two},
    {.name = "t2", .kind = TD_A_TEXT, .optional = true, .has_default = true, .value = {.kind = TD_A_NONE}},
};
static const td_op every = {.name = "every", .signature = "()", .attrs = defs, .nattrs = 11};

static bool same_ints(const td_attrs *a, const td_attrs *b, int k)
{
    int n, m;
    const int64_t *v = td_attr_ints(a, k, &n), *w = td_attr_ints(b, k, &m);
    return n == m && !memcmp(v, w, (size_t)n * sizeof *v);
}

static bool same(const td_op *op, const td_attrs *a, const td_attrs *b)
{
    if (a->count != b->count || a->nints != b->nints) return false;
    for (int k = 0; k < a->count; k++) {
        const td_attr *x = &a->at[k], *y = &b->at[k];
        if (x->kind != y->kind) return false;
        switch (x->kind) {
        case TD_A_NONE: break;
        case TD_A_FLOAT:
            if (memcmp(&x->f, &y->f, 8)) return false;
            break;
        case TD_A_SCALAR:
            if (x->s.kind != y->s.kind || x->s.i != y->s.i) return false;
            if (memcmp(&x->s.re, &y->s.re, 8) || memcmp(&x->s.im, &y->s.im, 8)) return false;
            break;
        case TD_A_INTS:
            if (!same_ints(a, b, k)) return false;
            break;
        case TD_A_TEXT:
            if (x->count != y->count || strcmp(td_attr_text(a, k), td_attr_text(b, k)) != 0) return false;
            break;
        default:
            if (x->i != y->i) return false;
        }
    }
    return op->nattrs == a->count;
}

/* Words it took; 0 when it did not come back as it was. */
static size_t round_trip(const td_op *op, const td_attrs *a)
{
    uint32_t words[512];
    td_attrs back;
    td_error e = {0};
    size_t n = td_attrs_encode(op, a, words);
    CU_ASSERT_EQUAL(n, td_attrs_words(op, a));
    int rc = td_attrs_decode(op, words, n, &back, &e);
    if (rc) printf("\n  %s\n", e.message);
    CU_ASSERT_EQUAL(rc, TD_OK);
    CU_ASSERT_TRUE(!rc && same(op, a, &back));
    /* one word less or more is refused, or (less) means defaults */
    words[n] = 0;
    CU_ASSERT_EQUAL(td_attrs_decode(op, words, n + 1, &back, NULL) == TD_OK,
                    n < 1 && op->nattrs > 0 && op->attrs[0].optional);
    return n;
}

static void test_round_trip(void)
{
    static const int64_t ints[] = {0, 1, -1, 8388607, 8388608, -8388608, -8388609, INT32_MAX, INT64_MIN, INT64_MAX};
    static const double floats[] = {0.0, -0.0, 1.0, -3.0, 0.1, 1e300, 8388608.0, -8388608.0, INFINITY, -INFINITY, NAN};
    unsigned tried = 0;
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++)
        for (size_t k = 0; k < sizeof floats / sizeof floats[0]; k++, tried++) {
            td_attrs a;
            int64_t list[] = {ints[i], 5, ints[9 - i]};
            td_attrs_init(&a);
            td_attrs_int(&a, ints[i]);
            td_attrs_float(&a, floats[k]);
            td_attrs_scalar(&a, i % 4 == 0   ? td_int(ints[i])
                                : i % 4 == 1 ? td_float(floats[k])
                                : i % 4 == 2 ? td_complex(floats[k], 2.5)
                                             : td_bool(k % 2));
            td_attrs_ints(&a, (int)(k % 4), list);
            td_attrs_dtype(&a, k % 2 ? TD_COMPLEX128 : TD_DTYPE_NONE);
            td_attrs_int(&a, ints[9 - i]);
            td_attrs_float(&a, floats[10 - k]);
            td_attrs_bool(&a, i % 2);
            td_attrs_scalar(&a, td_int(1));
            td_attrs_ints(&a, (int)(i % 4), list);
            td_attrs_text(&a, "0123456789abcdef", i + k < 17 ? i + k : 16);
            CU_ASSERT_TRUE(round_trip(&every, &a) > 0);
            td_attrs copy;
            td_attrs_copy(&copy, &a);
            CU_ASSERT_TRUE(same(&every, &copy, &a));
        }
    CU_ASSERT_EQUAL(tried, 110);
}

static void test_sizes(void)
{
    static const struct {
        const char *call;
        size_t words;
    } rows[] = {{"neg f32[2]", 0},
                {"add f32[2] f32[2]", 0},
                {"add f32[2] f32[2] | 2", 1},
                {"add f32[2] f32[2] | 2.0", 1},
                {"add f32[2] f32[2] | 0.1", 3},
                {"add f32[2] f32[2] | 1.0", 1}, /* the default is the integer 1 */
                {"add f32[2] f32[2] | 1j", 5},
                {"view f32[4] | [2,2]", 3},
                {"view f32[4] | [9999999999,2]", 5},
                {"sum f32[2]", 0},
                {"sum f32[2] | none true", 2},
                {"conv2d f32[1,1,4,4] f32[1,1,2,2] _", 0},
                {"conv2d f32[1,1,4,4] f32[1,1,2,2] _ | [2,2]", 3},
                {"slice f32[5] | 0 none none 2", 4}};
    static call c;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        call_read(&c, rows[i].call);
        size_t n = td_attrs_words(c.f.op, &c.attrs);
        if (n != rows[i].words) printf("\n  %s takes %zu words\n", rows[i].call, n);
        CU_ASSERT_EQUAL(n, rows[i].words);
    }
}

static void test_missing(void)
{
    td_attrs a;
    td_error e = {0};
    CU_ASSERT_EQUAL(td_attrs_decode(&every, NULL, 0, &a, &e), TD_E_INVALID);
    CU_ASSERT_STRING_EQUAL(e.message, "every: attribute 'i' is required");
    /* an optional attribute without a default must still be said */
    uint32_t four[] = {TD_A_INT, TD_A_FLOAT, TD_A_SCALAR | TD_S_INT << 4, TD_A_INTS | 1 << 6};
    CU_ASSERT_EQUAL(td_attrs_decode(&every, four, 4, &a, &e), TD_E_INVALID);
    CU_ASSERT_STRING_EQUAL(e.message, "every: attribute 'd' is required");
    uint32_t five[] = {four[0], four[1], four[2], four[3], TD_A_NONE};
    CU_ASSERT_EQUAL(td_attrs_decode(&every, five, 5, &a, &e), TD_OK);
    CU_ASSERT_EQUAL(td_attr_dtype(&a, 4), TD_DTYPE_NONE);
    CU_ASSERT_FALSE(td_attr_given(&a, 5));
    CU_ASSERT_EQUAL(td_attr_float(&a, 6), 0.5);
    CU_ASSERT_TRUE(td_attr_bool(&a, 7));
    int n;
    const int64_t *v = td_attr_ints(&a, 9, &n);
    CU_ASSERT_TRUE(n == 2 && v[0] == 1 && v[1] == -2);
}

static void test_malformed(void)
{
    static const td_attr_def one[7] = {{.name = "i", .kind = TD_A_INT},   {.name = "f", .kind = TD_A_FLOAT},
                                       {.name = "b", .kind = TD_A_BOOL},  {.name = "s", .kind = TD_A_SCALAR},
                                       {.name = "d", .kind = TD_A_DTYPE}, {.name = "v", .kind = TD_A_INTS},
                                       {.name = "t", .kind = TD_A_TEXT}};
    static const struct {
        int def;
        uint32_t words[4];
        size_t count;
    } rows[] = {
        {0, {TD_A_FLOAT}, 1},              /* another kind */
        {0, {TD_A_NONE}, 1},               /* none, but not optional */
        {0, {15}, 1},                      /* no kind */
        {0, {TD_A_INT | 2 << 6}, 1},       /* wide, without its words */
        {0, {TD_A_INT | 2 << 6, 5}, 2},    /* with half of them */
        {0, {TD_A_INT | 1 << 6}, 1},       /* narrow is for lists */
        {0, {TD_A_INT | 3 << 6, 0, 0}, 3}, /* no form */
        {0, {TD_A_INT, 0}, 2},             /* a word too many */
        {1, {TD_A_FLOAT | 1 << 6}, 1},
        {2, {TD_A_BOOL | 2 << 8}, 1}, /* neither true nor false */
        {2, {TD_A_BOOL | 0xffffff00u}, 1},
        {3, {TD_A_SCALAR | TD_S_COMPLEX << 4}, 1}, /* complex has no small form */
        {3, {TD_A_SCALAR | TD_S_COMPLEX << 4 | 2 << 6, 0, 0}, 3},
        {3, {TD_A_SCALAR | TD_S_BOOL << 4 | 3 << 8}, 1},
        {4, {TD_A_DTYPE | TD_DTYPE_COUNT << 8}, 1},
        {4, {TD_A_DTYPE | 0xffffff00u}, 1},          /* -1 */
        {4, {TD_A_DTYPE | 2 << 6, 0, 1}, 3},         /* 2^32 */
        {5, {TD_A_INTS | 1 << 6 | 3 << 8, 1, 2}, 3}, /* longer than the words */
        {5, {TD_A_INTS | 2 << 6 | 1 << 8, 1}, 2},
        {5, {TD_A_INTS | 1 << 8, 1}, 2},            /* a list has no small form */
        {5, {TD_A_INTS | 1 << 6 | 0xffffff00u}, 1}, /* -1 numbers */
        {5, {TD_A_INTS | 1 << 6 | (TD_MAX_INTS + 1) << 8}, 1},
        {6, {TD_A_TEXT | 1 << 6 | 5 << 8, 0x61616161}, 2}, /* longer than the words */
        {6, {TD_A_TEXT | 5 << 8, 0x61616161, 0x61}, 3},    /* a text has one form */
        {6, {TD_A_TEXT | 1 << 6 | 3 << 8, 0x610061}, 2},   /* a 0 in it */
        {6, {TD_A_TEXT | 1 << 6 | 0xffffff00u}, 1},
        {6, {TD_A_TEXT | 1 << 6 | (TD_MAX_TEXT + 1) << 8}, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        td_op op = {.name = "op", .attrs = &one[rows[i].def], .nattrs = 1};
        td_attrs a;
        td_error e = {0};
        CU_ASSERT_EQUAL(td_attrs_decode(&op, rows[i].words, rows[i].count, &a, &e), TD_E_PROTOCOL);
        CU_ASSERT_TRUE(strlen(e.message) > 0);
    }
}

/* What must hold of attributes that were read, whatever they were read from. */
static bool sound(const td_op *op, const td_attrs *a)
{
    if (a->count != op->nattrs || a->nints > TD_MAX_INTS) return false;
    for (int k = 0; k < a->count; k++) {
        const td_attr *at = &a->at[k];
        if (at->kind != op->attrs[k].kind && !(at->kind == TD_A_NONE && op->attrs[k].optional)) return false;
        if (at->kind == TD_A_INTS && at->first + at->count > a->nints) return false;
        if (at->kind == TD_A_TEXT && at->first + td_attr_room(at) > a->nints) return false;
        if (at->kind == TD_A_TEXT && strlen(td_attr_text(a, k)) != at->count) return false;
        if (at->kind == TD_A_DTYPE && !td_dtype_valid((unsigned)at->i)) return false;
        if (at->kind == TD_A_BOOL && at->i != 0 && at->i != 1) return false;
        if (at->kind == TD_A_SCALAR && (unsigned)at->s.kind > TD_S_COMPLEX) return false;
    }
    return true;
}

static uint64_t random_word(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x;
}

/* Attributes as the signature wants them, of random values. */
static void random_attrs(const td_op *op, uint64_t *x, td_attrs *a)
{
    int64_t list[4];
    td_attrs_init(a);
    for (int k = 0; k < op->nattrs; k++) {
        uint64_t r = random_word(x);
        int64_t v = (int64_t)(r >> r % 64);
        for (int i = 0; i < 4; i++) list[i] = v >> i;
        switch (op->attrs[k].kind) {
        case TD_A_INT: td_attrs_int(a, v); break;
        case TD_A_FLOAT: td_attrs_float(a, r % 2 ? (double)v : 0.1); break;
        case TD_A_BOOL: td_attrs_bool(a, r % 2); break;
        case TD_A_SCALAR: td_attrs_scalar(a, r % 2 ? td_int(v) : td_complex(1, 2)); break;
        case TD_A_DTYPE: td_attrs_dtype(a, (td_dtype)(r % TD_DTYPE_COUNT)); break;
        case TD_A_TEXT: td_attrs_text(a, "ij,jk->ik", r % 10); break;
        default: td_attrs_ints(a, (int)(r % 5), list); break;
        }
    }
}

/* Good words with up to seven bits turned, and some cut off. They lie in a block of exactly their size, so that a
 * sanitizer sees a read beyond them. */
static void test_hostile(void)
{
    uint64_t x = 42, read_well = 0, refused = 0, unsound = 0;
    for (unsigned round = 0; round < 100000; round++) {
        const td_op *op = round % 2 ? &every : td_op_by_id((unsigned)(random_word(&x) % td_op_count));
        if (!op) continue;
        uint32_t good[256];
        td_attrs a;
        random_attrs(op, &x, &a);
        size_t n = td_attrs_encode(op, &a, good);
        for (uint64_t turns = random_word(&x) % 8; n && turns; turns--)
            good[random_word(&x) % n] ^= 1u << (random_word(&x) % 32);
        if (n && random_word(&x) % 4 == 0) n = random_word(&x) % n;
        uint32_t *words = malloc(n * 4 + !n);
        memcpy(words, good, n * 4);
        if (td_attrs_decode(op, words, n, &a, NULL)) refused++;
        else read_well++, unsound += !sound(op, &a);
        free(words);
    }
    CU_ASSERT_EQUAL(unsound, 0);
    CU_ASSERT_TRUE(read_well > 1000);
    CU_ASSERT_TRUE(refused > 1000);
}

static void test_room(void)
{
    td_attrs a;
    int64_t many[TD_MAX_INTS + 1] = {0};
    td_attrs_init(&a);
    CU_ASSERT_FALSE(td_attrs_ints(&a, TD_MAX_INTS + 1, many));
    CU_ASSERT_FALSE(td_attrs_ints(&a, -1, many));
    CU_ASSERT_EQUAL(a.count, 0);
    CU_ASSERT_TRUE(td_attrs_ints(&a, TD_MAX_INTS, many));
    CU_ASSERT_FALSE(td_attrs_ints(&a, 1, many));
    for (int k = 1; k < TD_MAX_ATTRS; k++) CU_ASSERT_TRUE(td_attrs_int(&a, k));
    CU_ASSERT_FALSE(td_attrs_int(&a, 0));
    CU_ASSERT_FALSE(td_attrs_none(&a));
    CU_ASSERT_FALSE(td_attrs_float(&a, 0));
    CU_ASSERT_FALSE(td_attrs_bool(&a, true));
    CU_ASSERT_FALSE(td_attrs_scalar(&a, td_int(0)));
    CU_ASSERT_FALSE(td_attrs_dtype(&a, TD_BOOL));
    CU_ASSERT_FALSE(td_attrs_ints(&a, 0, many));
    CU_ASSERT_EQUAL(a.count, TD_MAX_ATTRS);
}

/* The table itself: what the rest relies on. */
static void test_table(void)
{
    unsigned named = 0;
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        if (!op) continue;
        named++;
        CU_ASSERT_EQUAL(op->id, id);
        CU_ASSERT_PTR_EQUAL(td_op_by_name(op->name), op);
        CU_ASSERT_TRUE(op->infer && op->doc && op->signature && op->hash && op->dtypes);
        CU_ASSERT_TRUE(op->nparams <= TD_MAX_PARAMS && op->nattrs <= TD_MAX_ATTRS);
        for (int k = 0; k < op->nattrs; k++)
            if (op->attrs[k].has_default && op->attrs[k].value.kind == TD_A_INTS && op->attrs[k].value.count)
                CU_ASSERT_PTR_NOT_NULL(op->attrs[k].ints);
    }
    CU_ASSERT_TRUE(named >= 175);
    CU_ASSERT_PTR_NULL(td_op_by_id(0));
    CU_ASSERT_PTR_NULL(td_op_by_id(td_op_count));
    CU_ASSERT_PTR_NULL(td_op_by_name("no_such_op"));
    CU_ASSERT_PTR_NULL(td_op_by_name(""));
    const td_op *put = td_op_by_name("index_put"); /* (x, idx[], v) */
    CU_ASSERT_EQUAL(td_op_param_of(put, 5, 0), 0);
    CU_ASSERT_EQUAL(td_op_param_of(put, 5, 1), 1);
    CU_ASSERT_EQUAL(td_op_param_of(put, 5, 3), 1);
    CU_ASSERT_EQUAL(td_op_param_of(put, 5, 4), 2);
    CU_ASSERT_EQUAL(td_op_param_of(put, 2, 1), 2); /* an empty list */
}

TD_CUNIT_MAIN("proto attrs", {"round trip", test_round_trip}, {"sizes", test_sizes}, {"missing ones", test_missing},
              {"malformed", test_malformed}, {"hostile words", test_hostile}, {"room", test_room},
              {"table", test_table})
