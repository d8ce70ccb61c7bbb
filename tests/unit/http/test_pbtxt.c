/* config.pbtxt: what Triton's users write, and what is refused with its line. */
#include "client/http/pbtxt.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

static int read_text(pbtxt_config *c, const char *text, td_error *e)
{
    *e = (td_error){0};
    return pbtxt_read(c, text, strlen(text), "config.pbtxt", e);
}

static void is_refused(const char *text, const char *why)
{
    pbtxt_config c;
    td_error e;
    CU_ASSERT_NOT_EQUAL(read_text(&c, text, &e), 0);
    if (!strstr(e.message, why)) printf("\n  %s\n  says: %s\n  not:  %s\n", text, e.message, why);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, why));
    pbtxt_close(&c);
}

static const char usual[] =
    "# a detector\n"
    "name: \"detector\"\n"
    "platform: \"onnxruntime_onnx\"\n"
    "max_batch_size: 8\n"
    "input [\n  { name: \"input\" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 240, 320 ] }\n]\n"
    "output { name: \"scores\", data_type: TYPE_FP32; dims: -1 dims: 2 }\n"
    "output: [ < name: 'boxes' data_type: TYPE_FP32 dims: [ -1, 4 ] > ]\n"
    "instance_group [ { count: 2 kind: KIND_CPU } ]\n"
    "dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100\n"
    "  priority_levels: 3 default_priority_level: 2\n"
    "  default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 5000 max_queue_size: 16 } }\n"
    "version_policy: { specific: { versions: [1, 3] } }\n"
    "parameters { key: \"x\" value: { string_value: \"a \\\"quoted\\\" \" \"text\" } }\n"
    "model_warmup [ { name: \"w\" batch_size: 1 inputs { key: \"input\" value { data_type: TYPE_FP32 dims: [3] "
    "zero_data: true } } } ]\n"
    "optimization { execution_accelerators { cpu_execution_accelerator : [ { name : \"openvino\" } ] } }\n";

static void as_users_write_it(void)
{
    pbtxt_config c;
    td_error e;
    int rc = read_text(&c, usual, &e);
    if (rc) printf("\n  %s\n", e.message);
    CU_ASSERT_EQUAL_FATAL(rc, 0);
    CU_ASSERT_STRING_EQUAL(c.name, "detector");
    CU_ASSERT_EQUAL(c.max_batch, 8);
    CU_ASSERT_EQUAL(c.nin, 1);
    CU_ASSERT_EQUAL(c.in[0].ndim, 3);
    CU_ASSERT_EQUAL(c.in[0].dims[2], 320);
    CU_ASSERT_EQUAL(c.nout, 2);
    CU_ASSERT_EQUAL(c.out[0].dims[0], -1);
    CU_ASSERT_STRING_EQUAL(c.out[1].name, "boxes");
    CU_ASSERT_EQUAL(c.instances, 2);
    CU_ASSERT(c.dynamic);
    CU_ASSERT_EQUAL(c.preferred, 8);
    CU_ASSERT_EQUAL(c.delay_us, 100);
    CU_ASSERT_EQUAL(c.level, 2);
    CU_ASSERT_EQUAL(c.timeout_us, 5000);
    CU_ASSERT_EQUAL(c.queue, 16);
    CU_ASSERT_EQUAL(c.policy, PBTXT_SPECIFIC);
    CU_ASSERT_EQUAL(c.versions[1], 3);
    pbtxt_close(&c);
}

static void texts_and_their_escapes(void)
{
    static const char *const wrong[] = {"\\q", "\\x", "\\xg", "\\0", "\\x00", "\\400", "\\8"};
    pbtxt_config c;
    td_error e;
    char text[sizeof c.name + 40];
    CU_ASSERT_EQUAL(
        read_text(&c, "name: \"\\x39\\x4a\\X4Bf\\xA\" 'b\"' \"\\101\\1017\\12z\\377\\n\\t\\\\\\'\\\"\"", &e), 0);
    CU_ASSERT_STRING_EQUAL(c.name, "9JKf\nb\"AA7\nz\377\n\t\\'\"");
    pbtxt_close(&c);
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        snprintf(text, sizeof text, "name: \"a%sz\"", wrong[k]);
        is_refused(text, "an escape in a text is not known");
    }
    is_refused("name: \"a\\", "a text does not end");
    is_refused("name: \"a'", "a text does not end");
    is_refused("name: \"a\nb\"", "a text does not end");
    is_refused("name: a", "a text in quotes is expected");
    is_refused("name:", "a text in quotes is expected");
    for (int more = 0; more < 2; more++) { /* the longest, and one more */
        char *at = text + sprintf(text, "name: \"");
        memset(at, 'n', sizeof c.name - 1 + (size_t)more);
        strcpy(at + sizeof c.name - 1 + more, "\"");
        if (more) {
            is_refused(text, "a text is too long");
            continue;
        }
        CU_ASSERT_EQUAL(read_text(&c, text, &e), 0);
        CU_ASSERT_EQUAL(strlen(c.name), sizeof c.name - 1);
        pbtxt_close(&c);
    }
}

static void cut_at_each_byte(void)
{
    for (size_t n = 0; n < sizeof usual - 1; n++) {
        pbtxt_config c;
        td_error e;
        char *cut = malloc(n + 1);
        memcpy(cut, usual, n);
        pbtxt_read(&c, cut, n, "config.pbtxt", &e); /* some ends are ends of a field */
        pbtxt_close(&c);
        free(cut);
    }
}

static void refusals(void)
{
    is_refused("name: \"a\"\n\nensemble_scheduling { }", "config.pbtxt:3: ensemble_scheduling");
    is_refused("sequence_batching { }", "would change results");
    is_refused("backend: \"python\"", "ONNX files");
    is_refused("input { name: \"x\" reshape: { shape: [1] } }", "reshape");
    is_refused("input { optional: true }", "optional");
    is_refused("input { data_type: TYPE_STRING }", "no type of tensors here");
    is_refused("instance_group { kind: KIND_GPU }", "KIND_CPU");
    is_refused("model_transaction_policy { decoupled: true }", "decoupled");
    is_refused("dynamic_batching { default_queue_policy { timeout_action: DELAY } }", "rejected");
    is_refused("max_batch_size: -1", "bounds");
    is_refused("max_batch_size: 99999999999999999999", "bounds");
    is_refused("max_batch_size 3", "colon");
    is_refused("name: \"a", "does not end");
    is_refused("name: \"a\nb\"", "does not end");
    is_refused("input {", "a brace is open");
    is_refused("input [ {} ", "does not end");
    is_refused("}", "a word is expected");
    is_refused("input { dims: [1,2,3,4,5,6,7,8,9] }", "too many");
    char deep[4096] = "parameters ";
    while (strlen(deep) < sizeof deep - 8) strcat(deep, "{ a ");
    is_refused(deep, "too deep");
}

static void beside_the_card(void)
{
    static const char card_text[] = "{\"name\": \"m\", \"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", "
                                    "\"shape\": [null, 3]}], \"outputs\": []}";
    static const struct {
        const char *text;
        bool well;
    } cases[] = {{"input { name: \"x\" data_type: TYPE_FP32 dims: [-1, 3] }", true},
                 {"max_batch_size: 4 input { name: \"x\" data_type: TYPE_FP32 dims: [3] }", true},
                 {"max_batch_size: 4 input { name: \"x\" data_type: TYPE_FP32 dims: [-1, 3] }", false},
                 {"input { name: \"x\" data_type: TYPE_FP64 dims: [-1, 3] }", false},
                 {"input { name: \"x\" dims: [-1, 4] }", false},
                 {"input { name: \"z\" }", false},
                 {"output { name: \"x\" }", false}};
    oip_card card;
    td_error e;
    CU_ASSERT_EQUAL_FATAL(oip_card_read(&card, card_text, &e), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pbtxt_config c;
        CU_ASSERT_EQUAL(read_text(&c, cases[i].text, &e), 0);
        CU_ASSERT_EQUAL(pbtxt_check(&c, &card, "config.pbtxt", &e) == 0, cases[i].well);
        pbtxt_close(&c);
    }
    oip_card_close(&card);
}

TD_CUNIT_MAIN("http_pbtxt", {"as users write it", as_users_write_it}, {"cut at each byte", cut_at_each_byte},
              {"texts and their escapes", texts_and_their_escapes}, {"what is wrong is named with its line", refusals},
              {"beside the model's card", beside_the_card})
