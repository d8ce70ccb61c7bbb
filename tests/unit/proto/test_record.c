/* Records as bytes from outside: what is cut short, or counts more than there is, is refused at its edge; what just
 * fits is read. Words lie in a block of exactly their size, so that a sanitizer sees a read beyond them. */
#include "cunit_main.h"
#include "proto/wire/record.h"
#include <stdlib.h>

enum { OP = 7, MOST = 64 };

/* What td_record_parse() says of these words alone. */
static int parse(const uint32_t *words, size_t n, td_record *r, td_error *e)
{
    static uint32_t *block;
    free(block);
    block = malloc(n * sizeof *block + !n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    if (n) memcpy(block, words, n * sizeof *block);
    *e = (td_error){0};
    return td_record_parse(block, n, r, e);
}

/* A record of `nin` inputs and `nout` outputs that says it has `total` words: all its ids are 1. */
static void head(uint32_t *w, unsigned flags, unsigned nin, unsigned nout, uint32_t total)
{
    w[0] = OP | flags << 24;
    w[1] = nin | nout << 12;
    w[2] = total;
    for (int i = TD_RECORD_HEAD; i < MOST; i++) w[i] = 1;
}

static void counts(void)
{
    uint32_t w[MOST];
    td_record r;
    td_error e;
    for (unsigned flags = 0; flags <= TD_RF_SITE; flags += TD_RF_SITE)
        for (unsigned nin = 0; nin < 4; nin++)
            for (unsigned nout = 0; nout < 4; nout++) {
                uint32_t fixed = TD_RECORD_HEAD + (flags != 0) + nin + nout;
                head(w, flags, nin, nout, fixed);
                CU_ASSERT_EQUAL(parse(w, fixed, &r, &e), TD_OK);
                CU_ASSERT_TRUE(r.nin == nin && r.nout == nout && r.nrest == 0 && r.words == fixed);
                CU_ASSERT_EQUAL(r.site, flags ? 1 : 0);
                CU_ASSERT_EQUAL(parse(w, fixed - 1, &r, &e), TD_E_PROTOCOL); /* the last id is not there */
                w[2] = fixed - 1;
                CU_ASSERT_EQUAL(parse(w, fixed, &r, &e), TD_E_PROTOCOL); /* it says fewer than its ids need */
                w[2] = fixed + 1;
                CU_ASSERT_EQUAL(parse(w, fixed, &r, &e), TD_E_PROTOCOL); /* it says more than there are */
                CU_ASSERT_EQUAL(parse(w, fixed + 1, &r, &e), TD_OK);
                CU_ASSERT_EQUAL(r.nrest, 1);
            }
    head(w, 0, 0, 0, TD_RECORD_HEAD);
    for (size_t n = 0; n < TD_RECORD_HEAD; n++) {
        CU_ASSERT_EQUAL(parse(w, n, &r, &e), TD_E_PROTOCOL);
        CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "cut short"));
    }
}

static void ids(void)
{
    static const struct {
        uint32_t id;
        bool as_input, as_output;
    } rows[] = {{0, true, false},
                {1, true, true},
                {TD_MAX_ID, true, true},
                {TD_MAX_ID + 1, false, false},
                {TD_NUMBER_BIT, true, false},
                {TD_NUMBER_BIT + 1, false, false},
                {UINT32_MAX, false, false}};
    uint32_t w[MOST];
    td_record r;
    td_error e;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int at = 0; at < 4; at++) { /* two inputs and two outputs */
            head(w, 0, 2, 2, TD_RECORD_HEAD + 4);
            w[TD_RECORD_HEAD + at] = rows[i].id;
            bool good = at < 2 ? rows[i].as_input : rows[i].as_output;
            CU_ASSERT_EQUAL(parse(w, TD_RECORD_HEAD + 4, &r, &e), good ? TD_OK : TD_E_PROTOCOL);
        }
}

/* The numbers of a record end with it, and it may be the last one of its batch. */
static void numbers(void)
{
    static const td_scalar all[] = {
        {TD_S_BOOL, 1, 0, 0}, {TD_S_INT, -5, 0, 0}, {TD_S_FLOAT, 0, 2.5, 0}, {TD_S_COMPLEX, 0, 1.5, -2.5}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        uint32_t w[MOST], at = 0, whole = all[k].kind == TD_S_COMPLEX ? 5 : 3;
        const uint32_t in = TD_NUMBER_BIT, out = 1;
        td_words words = {0};
        td_attrs none;
        td_record r;
        td_error e;
        td_scalar s;
        td_attrs_init(&none);
        CU_ASSERT_EQUAL_FATAL(td_words_op(&words, td_op_by_name("neg"), 0, 0, 0, 1, &in, 1, &out, &all[k], &none, &e),
                              TD_OK);
        CU_ASSERT_EQUAL_FATAL(words.count, TD_RECORD_HEAD + 2 + whole);
        memcpy(w, words.at, words.count * sizeof *w);
        td_words_deinit(&words);
        CU_ASSERT_EQUAL_FATAL(parse(w, w[2], &r, &e), TD_OK);
        CU_ASSERT_EQUAL(td_record_number(&r, &at, &s, &e), TD_OK);
        CU_ASSERT_EQUAL(at, whole);
        CU_ASSERT_TRUE(s.kind == all[k].kind && s.i == all[k].i && s.re == all[k].re && s.im == all[k].im);
        CU_ASSERT_EQUAL(td_record_number(&r, &at, &s, &e), TD_E_PROTOCOL); /* a second one */
        CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "not there"));
        for (uint32_t cut = 1; cut <= whole; cut++) {
            uint32_t less = TD_RECORD_HEAD + 2 + whole - cut;
            w[2] = less;
            at = 0;
            CU_ASSERT_EQUAL_FATAL(parse(w, less, &r, &e), TD_OK);
            CU_ASSERT_EQUAL(td_record_number(&r, &at, &s, &e), TD_E_PROTOCOL);
            CU_ASSERT_EQUAL(at, 0);
        }
    }
    uint32_t w[MOST], at = 0;
    td_record r;
    td_error e;
    td_scalar s;
    head(w, 0, 0, 0, TD_RECORD_HEAD + 5);
    w[TD_RECORD_HEAD] = TD_S_COMPLEX + 1; /* no kind */
    CU_ASSERT_EQUAL_FATAL(parse(w, TD_RECORD_HEAD + 5, &r, &e), TD_OK);
    CU_ASSERT_EQUAL(td_record_number(&r, &at, &s, &e), TD_E_PROTOCOL);
    w[TD_RECORD_HEAD] = TD_S_BOOL; /* a bool of any bits is one of the two */
    w[TD_RECORD_HEAD + 1] = 6;
    CU_ASSERT_EQUAL_FATAL(parse(w, TD_RECORD_HEAD + 5, &r, &e), TD_OK);
    CU_ASSERT_EQUAL(td_record_number(&r, &at, &s, &e), TD_OK);
    CU_ASSERT_EQUAL(s.i, 1);
}

static void most_in_one(void)
{
    static uint32_t in[4097];
    td_words words = {0};
    td_record r;
    td_error e = {0};
    for (int i = 0; i < 4097; i++) in[i] = 1;
    CU_ASSERT_EQUAL(td_words_control(&words, TD_REC_RELEASE, 0, 0, 4096, in, 0, NULL, 0, NULL, &e), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_words_control(&words, TD_REC_RELEASE, 0, 0, 0, NULL, 4096, in, 0, NULL, &e), TD_E_INVALID);
    CU_ASSERT_EQUAL(words.count, 0);
    CU_ASSERT_EQUAL(td_words_control(&words, TD_REC_RELEASE, 0, 0, 4095, in, 4095, in, 0, NULL, &e), TD_OK);
    CU_ASSERT_EQUAL(parse(words.at, words.count, &r, &e), TD_OK);
    CU_ASSERT_TRUE(r.nin == 4095 && r.nout == 4095 && r.op == TD_REC_RELEASE);
    td_words_deinit(&words);
}

TD_CUNIT_MAIN("proto_record", {"counts", counts}, {"ids", ids}, {"numbers", numbers},
              {"as many as one record takes", most_in_one})
