/* Models that come with inputs and outputs, in folders as ONNX's suites have them: model.onnx,
 * test_data_set_0/input_0.pb, output_0.pb, ... */
#ifndef TENSORD_TESTS_ONNX_SUITE_H
#define TENSORD_TESTS_ONNX_SUITE_H

#include "client/tensord.h"

typedef enum suite_end { SUITE_PASSED, SUITE_SKIPPED, SUITE_FAILED } suite_end;

typedef struct suite_case {
    suite_end end;
    long opset;
    char why[480]; /* of what was skipped or failed */
} suite_case;

/* Every data set of a folder. |a - b| <= absolute + relative |b| for each number. */
void suite_run(td_client *c, const char *folder, double absolute, double relative, suite_case *out);

#endif
