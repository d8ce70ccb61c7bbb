/* Texts that others chose, as they are shown, and words that are nearly others. */
#include "proto/base/near.h"
#include "proto/base/text.h"
#include "tests/unit/cunit_main.h"

#include <string.h>

static void check(const char *text, const char *want)
{
    char out[256];
    CU_ASSERT_STRING_EQUAL(td_text_visible(out, sizeof out, text), want);
}

static void what_is_shown_as_it_is(void)
{
    static const char *const texts[] = {"",
                                        "train.py:12",
                                        "a b",
                                        "\"'\\$(x);",
                                        ("Gr\xc3\xb6\xc3\x9f"
                                         "e"),
                                        "\xe2\x82\xac",
                                        "\xf0\x9f\x98\x80",
                                        "\xef\xbf\xbd",
                                        "\xc2\xa0"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) check(texts[i], texts[i]);
}

/* No line ends in it, no cursor moves, nothing is written backwards. */
static void what_is_not(void)
{
    check("a\nb", "a\\x0ab");
    check("\x1b[2J", "\\x1b[2J");
    check("\x7f", "\\x7f");
    check("\xc2\x9b"
          "31m",
          "\\xc2\\x9b31m"); /* the same as escape and [ */
    check("\xe2\x80\xa8", "\\xe2\\x80\\xa8");
    check("\xe2\x80\xae", "\\xe2\\x80\\xae");
    check("\xe2\x81\xa6", "\\xe2\\x81\\xa6");
}

static void what_is_no_text(void)
{
    check("\x9b", "\\x9b");
    check("\xc3", "\\xc3"); /* cut off */
    check("\xe2\x82", "\\xe2\\x82");
    check("\xc0\x8a", "\\xc0\\x8a"); /* a newline in more bytes than it needs */
    check("\xe0\x80\x8a", "\\xe0\\x80\\x8a");
    check("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* half of a pair */
    check("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond the last */
    check("\xff\xc3\xa9", "\\xff\xc3\xa9");
}

/* Every size: never more than fits, always ended, never in the middle of a character. */
static void cut(void)
{
    static const char text[] = "a\x1b\xe2\x82\xac\xff";
    static const size_t lengths[] = {0, 0, 1, 1, 1, 1, 5, 5, 5, 8, 8, 8, 8, 12, 12};
    for (size_t size = 1; size < sizeof lengths / sizeof lengths[0]; size++) {
        char out[16];
        memset(out, 7, sizeof out);
        td_text_visible(out, size, text);
        CU_ASSERT_EQUAL(strlen(out), lengths[size]);
        CU_ASSERT_EQUAL(out[size], 7);
    }
}

static void nearly(void)
{
    static const struct {
        const char *a, *b;
        unsigned far;
    } words[] = {
        {"", "", 0},       {"", "ab", 2},         {"status", "status", 0}, {"statsu", "status", 1},  {"shw", "show", 1},
        {"add", "and", 1}, {"relu", "reul", 1},   {"abcd", "dcba", 3},     {"kitten", "sitting", 3}, {"a", "b", 1},
        {"ab", "ba", 1},   {"soft", "softmax", 3}};
    char longest[41], longer[42];
    memset(longest, 'a', 40), longest[40] = 0;
    memset(longer, 'a', 41), longer[41] = 0;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        CU_ASSERT_EQUAL(td_text_distance(words[k].a, words[k].b, 9), words[k].far);
        CU_ASSERT_EQUAL(td_text_distance(words[k].b, words[k].a, words[k].far), words[k].far);
        if (words[k].far) CU_ASSERT(td_text_distance(words[k].a, words[k].b, words[k].far - 1) >= words[k].far);
    }
    CU_ASSERT_EQUAL(td_text_distance(longest, longest, 3), 0);
    CU_ASSERT_EQUAL(td_text_distance(longest, longer, 3), 4);
    CU_ASSERT_EQUAL(td_text_distance(longer, "a", 3), 4);
}

TD_CUNIT_MAIN("proto_text", {"what is shown as it is", what_is_shown_as_it_is}, {"what is not", what_is_not},
              {"what is no text", what_is_no_text}, {"cut", cut}, {"nearly another word", nearly})
